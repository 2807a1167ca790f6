//! Nothing accumulates over HTTP: exchanges, timers and buffers have an owner, and bounds that hold for all of them
//! together.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

mod common;
#[path = "common/http.rs"]
mod web;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::legacy;
use http::StatusCode;
use mcp_proto::{Eras, Options, Outcome};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use web::{Exchange, Reply, Web, events, header_map, site, was_answered};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];

/// The memory is the process's, so no two tests run side by side.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most memory that `run` takes, beyond what was there before.
fn peak(run: impl FnOnce()) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    run();
    MEMORY.peak_usage().saturating_sub(before)
}

/// The memory that a session holds.
fn held(web: &Web) -> usize {
    peak(|| drop(std::hint::black_box(web.session.clone())))
}

fn ping(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn result(call: &Exchange) -> Value {
    call.result(json!({"content": []}))
}

fn open_named(web: &Web, name: &str) -> usize {
    web.open.values().filter(|exchange| exchange.is(name)).count()
}

/// A session over HTTP+SSE, with its stream.
fn older(mut options: Options) -> (Web, Exchange) {
    options.eras = Eras::LegacyOnly;
    let mut web = Web::open(options);
    let first = web.take_the("initialize");
    web.reply(&first, Reply::status(405));
    let stream = web.take_the("GET");
    web.head(&stream, 200, &STREAM);
    web.body(&stream, "event: endpoint\ndata: /messages\n\n");
    let mut site = site();
    site.sessions = false;
    for _ in 0..10 {
        for asked in web.take() {
            let answer = site.reply(&asked);
            web.reply(&asked, Reply::status(202));
            if asked.json().get("id").is_some() {
                let answer: Value = serde_json::from_slice(&answer.body).unwrap();
                web.push(&stream, answer);
            }
        }
    }
    assert!(web.is_ready());
    (web, stream)
}

// The answers to what a server asks.

#[test]
fn answers_in_flight_and_waiting_are_bounded() {
    let _alone = alone();
    let mut options = legacy();
    (options.limits.in_flight, options.limits.output) = (4, 50);
    let mut web = Web::connect(options, &mut site());
    let stream = web.last("GET");
    for id in 0..1000 {
        web.push(&stream, ping(id));
        assert!(open_named(&web, "(answer)") <= 4);
    }
    let mut answered = 0;
    loop {
        let answers = web.take();
        if answers.is_empty() {
            break;
        }
        for answer in answers {
            assert_eq!(answer.json()["id"], answered, "in order, and none twice");
            answered += 1;
            web.reply(&answer, Reply::status(202));
        }
    }
    assert!((50..=54).contains(&answered), "{answered} answers");
    assert_eq!(web.session.stats().left_out, 1000 - answered);
    // There is room again.
    web.push(&stream, ping(7));
    assert_eq!(web.take_the("(answer)").json()["id"], 7);
}

#[test]
fn hundreds_of_thousands_of_pings_take_little_memory() {
    let _alone = alone();
    let mut web = Web::connect(legacy(), &mut site());
    let stream = web.last("GET");
    let chunk = events(&[ping(1)]).repeat(1000);
    let memory = peak(|| {
        let mut open = 0_usize;
        for _ in 0..400 {
            web.session.handle_body(web.now, stream.id, chunk.as_bytes());
            while let Some(action) = web.session.poll() {
                open += usize::from(matches!(action, mcp_proto::binding::http::HttpAction::Request(_)));
            }
        }
        assert!(open <= web.session.options().limits.in_flight, "{open} exchanges");
    });
    assert!(memory < 2 * MIB, "{} KiB", memory / KIB);
}

/// A long id makes a long answer: the answers in flight and those that wait have a bound in bytes, too.
#[test]
fn answers_in_flight_and_waiting_are_bounded_in_bytes() {
    let _alone = alone();
    let mut options = legacy();
    options.limits.output_bytes = 20_000;
    let mut web = Web::connect(options, &mut site());
    let stream = web.last("GET");
    for _ in 0..100 {
        web.push(&stream, json!({"jsonrpc": "2.0", "id": "x".repeat(900), "method": "ping"}));
    }
    assert_eq!((open_named(&web, "(answer)"), web.session.stats().left_out), (22, 78));
}

#[test]
fn answers_that_wait_are_sent_before_the_session_ends() {
    let _alone = alone();
    let mut options = legacy();
    options.limits.in_flight = 2;
    let mut web = Web::connect(options, &mut site());
    let stream = web.last("GET");
    for id in 0..5 {
        web.push(&stream, ping(id));
    }
    web.close();
    for round in [2, 2, 1] {
        let answers = web.take();
        assert_eq!(answers.len(), round);
        for answer in answers {
            assert!(answer.is("(answer)"));
            web.reply(&answer, Reply::status(202));
        }
    }
    let end = web.take_the("DELETE");
    web.reply(&end, Reply::status(200));
    assert!(web.session.is_closed());
}

// Exchanges without an owner.

/// The answer comes on the GET stream, and the server leaves the POST open, however far it got.
#[test]
fn the_exchange_of_a_call_that_was_answered_elsewhere_is_let_go() {
    let _alone = alone();
    for stage in 0..5 {
        let mut web = Web::connect(legacy(), &mut site());
        let stream = web.last("GET");
        for _ in 0..20 {
            let (request, call) = web.call("a");
            match stage {
                0 => {}
                1 => web.head(&call, 200, &JSON),
                2 => web.head(&call, 200, &STREAM),
                3 => {
                    web.head(&call, 200, &JSON);
                    web.body(&call, "{\"jsonrpc\":");
                }
                _ => {
                    web.head(&call, 200, &STREAM);
                    web.body(&call, "id: 1\ndata:\n\ndata: {");
                }
            }
            web.push(&stream, result(&call));
            assert!(was_answered(&web, request));
        }
        web.wait(Duration::from_secs(2));
        assert_eq!(open_named(&web, "tools/call"), 0, "stage {stage}");
        assert!(web.goes_on(&stream));
    }
}

#[test]
fn over_the_older_transport_a_post_that_is_left_open_is_let_go() {
    let _alone = alone();
    for heads in [false, true] {
        let (mut web, stream) = older(legacy());
        for _ in 0..20 {
            let (request, call) = web.call("a");
            if heads {
                web.head(&call, 202, &[]);
            }
            web.push(&stream, result(&call));
            assert!(was_answered(&web, request));
        }
        web.wait(Duration::from_secs(2));
        assert_eq!(open_named(&web, "tools/call"), 0);
        assert!(web.goes_on(&stream));
    }
}

#[test]
fn thousands_of_calls_that_were_answered_elsewhere_leave_nothing_behind() {
    let _alone = alone();
    let mut web = Web::connect(legacy(), &mut site());
    let stream = web.last("GET");
    let mut kept_after = |calls: usize| {
        for _ in 0..calls {
            let (_, call) = web.call("a");
            web.push(&stream, result(&call));
            web.wait(Duration::from_secs(2));
            (web.log, web.events, web.dropped) = (vec![], vec![], vec![]);
        }
        held(&web)
    };
    let (few, many) = (kept_after(10), kept_after(4000));
    assert!(many < few + 4 * KIB, "{few} bytes after 10 calls, {many} after 4,010");
}

/// A stream that is to be resumed in years, and a request that is to be sent again in years: neither outlives its
/// request.
#[test]
fn a_retry_does_not_outlive_its_request() {
    let _alone = alone();
    let mut options = legacy();
    options.keepalive = None;
    let mut web = Web::connect(options, &mut site());
    for _ in 0..20 {
        let (_, call) = web.call("a");
        web.reply(&call, Reply::stream("retry: 9000000000000\nid: 1\ndata:\n\n"));
        web.end(&call);
        let (_, call) = web.call("a");
        web.reply(&call, Reply::status(429).with("retry-after", "9000000000"));
    }
    web.wait(Duration::from_secs(200));
    assert_eq!(web.events.iter().filter(|event| matches!(event, mcp_proto::Event::Finished { .. })).count(), 40);
    assert_eq!(web.session.deadline(), None);
}

/// The server answers elsewhere, and then points the POST to another place: what was answered is not sent again.
#[test]
fn a_redirect_of_a_call_that_was_answered_is_not_followed() {
    let _alone = alone();
    let mut web = Web::connect(legacy(), &mut site());
    let stream = web.last("GET");
    let (request, call) = web.call("a");
    web.push(&stream, result(&call));
    assert!(was_answered(&web, request));
    web.head(&call, 307, &[("location", "/moved")]);
    assert!(web.take().is_empty() && web.is_ready());
    web.wait(Duration::from_secs(2));
    assert_eq!(open_named(&web, "tools/call"), 0);
}

// The endpoint of the older transport.

#[test]
fn a_long_endpoint_is_copied_nowhere() {
    let _alone = alone();
    for long in [vec![b'x'; 16 * MIB], vec![0xff; 16 * MIB]] {
        let mut options = legacy();
        options.eras = Eras::LegacyOnly;
        let mut web = Web::open(options);
        let first = web.take_the("initialize");
        web.reply(&first, Reply::status(405));
        let stream = web.take_the("GET");
        web.head(&stream, 200, &STREAM);
        let mut event = b"event: endpoint\ndata: /".to_vec();
        event.extend(long);
        event.extend(b"\n\n");
        let memory = peak(|| web.session.handle_body(web.now, stream.id, &event));
        assert!(memory < event.len() + MIB, "{} KiB for {} KiB", memory / KIB, event.len() / KIB);
        web.collect();
        assert!(web.failure().unwrap().message.len() < 500);
    }
}

// What is buffered.

#[test]
fn bodies_that_are_under_way_have_one_bound() {
    let _alone = alone();
    let mut web = Web::connect(legacy(), &mut site());
    let stream = web.last("GET");
    let calls: Vec<_> = (0..16).map(|_| web.call("a")).collect();
    let chunk = vec![b' '; MIB];
    let memory = peak(|| {
        for (_, call) in &calls {
            web.session.handle_head(web.now, call.id, StatusCode::OK, &header_map(&JSON));
            web.session.handle_body(web.now, call.id, b"{");
            for _ in 0..33 {
                web.session.handle_body(web.now, call.id, &chunk);
            }
        }
    });
    assert!(memory < 320 * MIB, "{} MiB", memory / MIB);
    web.collect();
    let invalid = |call: &&(_, Exchange)| matches!(web.ended(call.0), Some(Outcome::Invalid(_)));
    let ended: Vec<_> = calls.iter().filter(invalid).collect();
    assert!(ended.iter().all(|(_, call)| web.was_dropped(call)));
    assert_eq!(ended.len(), 13);
    assert!(web.is_ready() && web.goes_on(&stream));
    // What ended made room for others, and those that go on end as ever.
    for (request, call) in calls {
        if web.goes_on(&call) {
            web.body(&call, &result(&call).to_string().as_bytes()[1..]);
            web.end(&call);
            assert!(was_answered(&web, request));
        }
    }
    let (request, call) = web.call("a");
    web.reply(&call, Reply::json(200, &result(&call)));
    assert!(was_answered(&web, request));
}

/// What a stream brings after the answer is heard for a moment, but it does not pile up.
#[test]
fn an_answered_stream_buffers_next_to_nothing() {
    let _alone = alone();
    let mut web = Web::connect(legacy(), &mut site());
    let chunk = vec![b'x'; MIB];
    let memory = peak(|| {
        for _ in 0..32 {
            let (request, call) = web.call("a");
            web.head(&call, 200, &STREAM);
            web.push(&call, result(&call));
            assert!(was_answered(&web, request));
            web.session.handle_body(web.now, call.id, b"data: ");
            for _ in 0..16 {
                web.session.handle_body(web.now, call.id, &chunk);
            }
        }
    });
    assert!(memory < 3 * MIB, "{} MiB", memory / MIB);
}
