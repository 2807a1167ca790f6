//! Nothing accumulates over HTTP: exchanges, timers and buffers belong to a request or the session, and have limits
//! together.

#![cfg(all(feature = "http", feature = "testkit"))]
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

use crate::common::Steps;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::legacy;
use http::StatusCode;
use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::{Eras, FailureKind, Family, Options, Outcome, Reconnect, Request, RequestError};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};
use web::{Exchange, Reply, Site, Web, events, header_map, modern_site, site, was_answered};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];

/// The memory is measured for the process, so tests must not run concurrently.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The peak memory of `run`, beyond that at its start.
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

/// A client over HTTP with SSE, with its stream.
fn open_over_sse(mut options: Options) -> (Web, Exchange) {
    options.eras = Eras::LegacyOnly;
    let mut web = Web::open(options);
    let first = web.take_named("initialize");
    web.reply(&first, Reply::status(405));
    let stream = web.take_named("GET");
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

// Responses to server requests.

#[test]
fn responses_in_flight_and_queued_are_limited() {
    let _alone = alone();
    let mut options = legacy();
    (options.limits.in_flight, options.limits.output) = (4, 50);
    let mut web = Web::connect(options, &mut site());
    let stream = web.last("GET");
    for id in 0..50 {
        web.push(&stream, ping(id));
        assert!(open_named(&web, "(answer)") <= 4);
    }
    let mut answered = 0;
    let mut steps = Steps::until("no answer waits");
    loop {
        steps.step();
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
    assert_eq!((answered, web.session.stats().left_out), (50, 0));
    // There is room again, up to the limit.
    let mut taken = 0;
    while web.is_open(&stream) {
        web.push(&stream, ping(taken));
        taken += 1;
        assert!(open_named(&web, "(answer)") <= 4);
    }
    assert_eq!((taken, web.failure_kind()), (50 + 1, Some(FailureKind::Overrun)));
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
            let mut steps = Steps::until("nothing is left to poll");
            while let Some(action) = web.session.poll() {
                steps.step();
                open += usize::from(matches!(action, HttpAction::Request(_)));
            }
        }
        assert!(open <= web.session.options().limits.in_flight, "{open} exchanges");
    });
    assert!(memory < 2 * MIB, "{} KiB", memory / KIB);
}

/// A long id makes a long response: the responses in flight and the queued ones are limited in bytes, too.
#[test]
fn responses_in_flight_and_queued_are_limited_in_bytes() {
    let _alone = alone();
    let mut options = legacy();
    options.limits.output_bytes = 20_000;
    let mut web = Web::connect(options, &mut site());
    let stream = web.last("GET");
    let mut most = 0;
    while web.is_open(&stream) {
        most = most.max(open_named(&web, "(answer)"));
        web.push(&stream, json!({"jsonrpc": "2.0", "id": "x".repeat(900), "method": "ping"}));
    }
    assert_eq!((most, web.session.stats().left_out), (22, 0));
    assert_eq!(web.failure_kind(), Some(FailureKind::Overrun));
}

#[test]
fn queued_responses_are_sent_before_the_session_ends() {
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
    let end = web.take_named("DELETE");
    web.reply(&end, Reply::status(200));
    assert!(web.session.is_closed());
}

// Exchanges without a request.

/// The response comes on the GET stream, and the server leaves the POST open, in whatever state.
#[test]
fn the_exchange_of_a_call_answered_elsewhere_is_dropped() {
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
        assert!(web.is_open(&stream));
    }
}

#[test]
fn over_http_sse_a_post_that_is_left_open_is_dropped() {
    let _alone = alone();
    for heads in [false, true] {
        let (mut web, stream) = open_over_sse(legacy());
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
        assert!(web.is_open(&stream));
    }
}

#[test]
fn thousands_of_calls_answered_elsewhere_leave_nothing_behind() {
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

/// A stream to be resumed in years, and a request to be sent again in years: neither outlives its request.
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
    // A request that is answered on the GET stream in the meantime.
    let stream = web.last("GET");
    for busy in [false, true] {
        let (request, call) = web.call("a");
        if busy {
            web.reply(&call, Reply::status(429).with("retry-after", "9000000000"));
        } else {
            web.reply(&call, Reply::stream("retry: 9000000000000\nid: 1\ndata:\n\n"));
            web.end(&call);
        }
        web.push(&stream, result(&call));
        assert!(was_answered(&web, request));
        assert_eq!(web.session.deadline(), None);
    }
}

/// The server answers elsewhere, and then redirects the POST: an answered request is not sent again.
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

// The endpoint of HTTP with SSE.

#[test]
fn a_long_endpoint_is_copied_nowhere() {
    let _alone = alone();
    for long in [vec![b'x'; 16 * MIB], vec![0xff; 16 * MIB]] {
        let mut options = legacy();
        options.eras = Eras::LegacyOnly;
        let mut web = Web::open(options);
        let first = web.take_named("initialize");
        web.reply(&first, Reply::status(405));
        let stream = web.take_named("GET");
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

// Buffers.

#[test]
fn bodies_in_flight_have_a_common_limit() {
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
    let invalid = |call: &&(_, Exchange)| matches!(web.ended(call.0), Some(Outcome::Error(RequestError::Invalid(_))));
    let ended: Vec<_> = calls.iter().filter(invalid).collect();
    assert!(ended.iter().all(|(_, call)| web.was_dropped(call)));
    assert_eq!(ended.len(), 13);
    assert!(web.is_ready() && web.is_open(&stream));
    // Ended requests make room for others, and open ones end normally.
    for (request, call) in calls {
        if web.is_open(&call) {
            web.body(&call, &result(&call).to_string().as_bytes()[1..]);
            web.end(&call);
            assert!(was_answered(&web, request));
        }
    }
    let (request, call) = web.call("a");
    web.reply(&call, Reply::json(200, &result(&call)));
    assert!(was_answered(&web, request));
}

/// What a stream sends after the response is read for a short time, and does not accumulate.
#[test]
fn an_answered_stream_buffers_almost_nothing() {
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

// The property.

/// A step on one of the open exchanges.
#[derive(Clone, Debug)]
enum Op {
    Call {
        progress: bool,
    },
    Read,
    Cancel(usize),
    Notify,
    Subscribe,
    Refresh,
    /// The complete response.
    Answer {
        at: usize,
        by_stream: bool,
    },
    /// The response, on a stream that stays open.
    AnswerOpenly(usize),
    /// The response, on the GET stream.
    AnswerElsewhere(usize),
    Head {
        at: usize,
        status: u16,
    },
    Redirect {
        at: usize,
        elsewhere: bool,
    },
    /// A part of a response, of this length.
    Part {
        at: usize,
        size: usize,
    },
    Ask {
        at: usize,
        method: &'static str,
    },
    /// A stream to be resumed in years, which ends.
    Resumable {
        at: usize,
        retry: u64,
    },
    Busy {
        at: usize,
        after: &'static str,
    },
    Fail {
        at: usize,
        unreachable: bool,
    },
    End(usize),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..8_usize;
    let status = prop_oneof![Just(200), Just(202), Just(400), Just(401), Just(404), Just(500)];
    let method =
        prop_oneof![Just("ping"), Just("elicitation/create"), Just("roots/list"), Just("notifications/message")];
    prop_oneof![
        6 => any::<bool>().prop_map(|progress| Op::Call { progress }),
        2 => Just(Op::Read),
        2 => at().prop_map(Op::Cancel),
        2 => Just(Op::Notify),
        1 => Just(Op::Subscribe),
        1 => Just(Op::Refresh),
        4 => (at(), any::<bool>()).prop_map(|(at, by_stream)| Op::Answer { at, by_stream }),
        3 => at().prop_map(Op::AnswerOpenly),
        4 => at().prop_map(Op::AnswerElsewhere),
        3 => (at(), status).prop_map(|(at, status)| Op::Head { at, status }),
        1 => (at(), any::<bool>()).prop_map(|(at, elsewhere)| Op::Redirect { at, elsewhere }),
        3 => (at(), 0..40_000_usize).prop_map(|(at, size)| Op::Part { at, size }),
        4 => (at(), method).prop_map(|(at, method)| Op::Ask { at, method }),
        2 => (at(), prop_oneof![Just(50), Just(9_000_000_000_000)]).prop_map(|(at, retry)| Op::Resumable { at, retry }),
        2 => (at(), prop_oneof![Just("1"), Just("9000000000")]).prop_map(|(at, after)| Op::Busy { at, after }),
        1 => (at(), any::<bool>()).prop_map(|(at, unreachable)| Op::Fail { at, unreachable }),
        2 => at().prop_map(Op::End),
        3 => (0..70_000_u64).prop_map(Op::Wait),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Legacy,
    Modern,
    Older,
}

/// Low limits.
fn small(kind: Kind, again: bool) -> Options {
    let mut options = common::options();
    options.eras = if matches!(kind, Kind::Modern) { Eras::Auto } else { Eras::LegacyOnly };
    options.reconnect = again.then(Reconnect::default);
    options.capabilities.elicitation = true;
    let limits = &mut options.limits;
    (limits.in_flight, limits.queued, limits.server_requests, limits.subscriptions) = (4, 8, 4, 4);
    (limits.output, limits.output_bytes, limits.buffered) = (40, 16 * KIB, 64 * KIB);
    (limits.held, limits.quirks) = (8, 8);
    options
}

struct Run {
    web: Web,
    site: Site,
    /// The GET stream.
    stream: Option<Exchange>,
    requests: Vec<mcp_proto::RequestId>,
}

impl Run {
    fn new(kind: Kind, again: bool) -> Self {
        let options = small(kind, again);
        let (web, site, stream) = match kind {
            Kind::Older => {
                let (web, stream) = open_over_sse(options);
                (web, site(), Some(stream))
            }
            Kind::Legacy => {
                let mut site = site();
                let web = Web::connect(options, &mut site);
                let stream = web.last("GET");
                (web, site, Some(stream))
            }
            Kind::Modern => {
                let mut site = modern_site();
                (Web::connect(options, &mut site), site, None)
            }
        };
        Self { web, site, stream, requests: vec![] }
    }

    fn pick(&self, at: usize) -> Option<Exchange> {
        self.web.open.values().nth(at.checked_rem(self.web.open.len())?).cloned()
    }

    /// An exchange without a head gets one of a stream.
    fn push(&mut self, exchange: &Exchange, text: &str) {
        let headers = header_map(&STREAM);
        self.web.session.handle_head(self.web.now, exchange.id, StatusCode::OK, &headers);
        self.web.session.handle_body(self.web.now, exchange.id, text.as_bytes());
        self.web.collect();
    }

    fn end(&mut self, exchange: &Exchange) {
        if self.web.is_open(exchange) {
            self.web.end(exchange);
        }
    }

    fn answer_to(&mut self, exchange: &Exchange) -> Option<Value> {
        let asked = exchange.verb() == "POST" && exchange.json()["method"].is_string();
        if !asked || exchange.json().get("id").is_none() {
            return None;
        }
        self.site.server.answer(&exchange.json()).pop()
    }

    fn apply(&mut self, op: &Op) {
        let now = self.web.now;
        match op {
            Op::Call { progress } => {
                let request = Request::call_tool("a", None);
                let request = request.progress(*progress);
                self.requests.extend(self.web.session.request(now, request));
            }
            Op::Read => self.requests.extend(self.web.session.request(now, Request::read_resource("r:1"))),
            Op::Cancel(at) => {
                if let Some(request) = self.requests.iter().rev().nth(*at) {
                    let _ = self.web.session.cancel(now, *request);
                }
            }
            Op::Notify => drop(self.web.session.notify(now, "acme/told", None)),
            Op::Subscribe => drop(self.web.session.subscribe(now, "r:1")),
            Op::Refresh => drop(self.web.session.refresh(now, Family::Tools)),
            Op::Wait(millis) => self.web.wait(Duration::from_millis(*millis)),
            Op::Answer { at, .. }
            | Op::AnswerOpenly(at)
            | Op::AnswerElsewhere(at)
            | Op::Head { at, .. }
            | Op::Redirect { at, .. }
            | Op::Part { at, .. }
            | Op::Ask { at, .. }
            | Op::Resumable { at, .. }
            | Op::Busy { at, .. }
            | Op::Fail { at, .. }
            | Op::End(at) => {
                if let Some(exchange) = self.pick(*at) {
                    self.on(&exchange, op);
                }
            }
        }
        self.web.collect();
    }

    fn on(&mut self, exchange: &Exchange, op: &Op) {
        match op {
            Op::Answer { by_stream, .. } => match self.answer_to(exchange) {
                Some(answer) if *by_stream => {
                    self.push(exchange, &events(&[answer]));
                    self.end(exchange);
                }
                Some(answer) => self.web.reply(exchange, Reply::json(200, &answer)),
                None if exchange.verb() == "POST" => self.web.reply(exchange, Reply::status(202)),
                None => {}
            },
            Op::AnswerOpenly(_) => {
                if let Some(answer) = self.answer_to(exchange) {
                    self.push(exchange, &events(&[answer]));
                }
            }
            Op::AnswerElsewhere(_) => {
                if let (Some(answer), Some(stream)) = (self.answer_to(exchange), self.stream.clone()) {
                    self.push(&stream, &events(&[answer]));
                }
            }
            Op::Head { status, .. } => self.web.head(exchange, *status, &JSON),
            Op::Redirect { elsewhere, .. } => {
                let target = if *elsewhere { "https://elsewhere.example/" } else { "/moved" };
                self.web.head(exchange, 307, &[("location", target)]);
            }
            Op::Part { size, .. } => self.push(exchange, &format!("data: {{{}", " ".repeat(*size))),
            Op::Ask { method, .. } => {
                let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": "?"}});
                self.push(exchange, &events(&vec![message; 30]));
            }
            Op::Resumable { retry, .. } => {
                // A stream of the client's own may have any retry time.
                let retry = if exchange.verb() == "GET" { &50 } else { retry };
                self.push(exchange, &format!("retry: {retry}\nid: 1\ndata:\n\n"));
                self.end(exchange);
            }
            Op::Busy { after, .. } => {
                self.web.reply(exchange, Reply::status(429).with("retry-after", after));
            }
            Op::Fail { unreachable, .. } => {
                self.web.fail(exchange, if *unreachable { Broken::Unreachable } else { Broken::Midway });
            }
            Op::End(_) => self.end(exchange),
            _ => {}
        }
    }

    /// Everything is within the limits.
    fn is_bounded(&self) {
        // Messages of the handshake do not wait.
        let is_one_way = |exchange: &&Exchange| {
            let request =
                exchange.verb() != "POST" || exchange.json()["method"].is_string() && exchange.json()["id"].is_u64();
            !request && !exchange.is("notifications/initialized")
        };
        let one_way = self.web.open.values().filter(is_one_way).count();
        let limits = &self.web.session.options().limits;
        assert!(one_way <= limits.in_flight, "{one_way} answers and notifications");
        assert!(held(&self.web) < 512 * KIB, "{} KiB", held(&self.web) / KIB);
    }

    /// The server stops answering, and each request ends: the GET stream and the engine's own requests remain.
    fn check_settled(&mut self) {
        self.web.wait(Duration::from_secs(1300));
        let left: Vec<_> = self.web.open.values().map(Exchange::name).collect();
        if self.web.is_ready() {
            // A list that fails is requested repeatedly.
            let owed = ["GET", "subscriptions/listen", "tools/list", "notifications/cancelled"];
            let is_owed = |name: &String| owed.contains(&&**name) && left.iter().filter(|it| *it == name).count() == 1;
            assert!(left.iter().all(is_owed), "{left:?}");
            let far = self
                .web
                .session
                .deadline()
                .is_none_or(|deadline| deadline.since(self.web.now) < Duration::from_secs(3600));
            assert!(far, "something is due in years: {:?}", self.web.session.deadline());
        }
    }

    /// Nothing remains of the client.
    fn check_closed(mut self) {
        let _ = self.web.session.close(self.web.now);
        self.web.collect();
        self.web.wait(Duration::from_secs(60));
        assert!(self.web.session.is_closed() && self.web.open.is_empty(), "{:?}", self.web.open);
        assert_eq!(self.web.session.deadline(), None);
        let mut fresh = Web::open(self.web.session.options().clone());
        fresh.close();
        fresh.wait(Duration::from_secs(60));
        assert!(fresh.session.is_closed());
        // The catalog and the quirks can still be read.
        let (before, after) = (held(&fresh), held(&self.web));
        assert!(after < before + 8 * KIB, "{before} bytes where nothing happened, {after} where this did");
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![3 => Just(Kind::Legacy), 1 => Just(Kind::Modern), 2 => Just(Kind::Older)]
}

fn config(cases: u32) -> ProptestConfig {
    let file = "proptest-regressions/http_accumulation.txt";
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn nothing_remains_without_a_request(
        kind in kind(),
        again in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let _alone = alone();
        let mut run = Run::new(kind, again);
        for op in &ops {
            run.apply(op);
            run.is_bounded();
        }
        run.check_settled();
        run.check_closed();
    }
}

/// Each input and command thousands of times, without polling.
#[test]
fn without_polling_everything_stays_within_the_limits() {
    let _alone = alone();
    type Input = (&'static str, fn(&mut Web, &Exchange, &Exchange, u64));
    fn message(web: &mut Web, at: &Exchange, message: Value) {
        web.session.handle_body(web.now, at.id, events(&[message]).as_bytes());
    }
    fn ask(method: &str, id: u64) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "?", "data": "x", "uri": "r:1"}})
    }
    let inputs: [Input; 20] = [
        ("ping", |web, stream, _, id| message(web, stream, ask("ping", id))),
        ("ping on the call's stream", |web, _, call, id| message(web, call, ask("ping", id))),
        ("elicitation", |web, stream, _, id| message(web, stream, ask("elicitation/create", id))),
        ("unknown request", |web, stream, _, id| message(web, stream, ask("acme/what", id))),
        ("log", |web, stream, _, _| {
            message(web, stream, json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}));
        }),
        ("list_changed", |web, stream, _, _| {
            message(web, stream, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }),
        ("answer", |web, stream, call, _| message(web, stream, result(call))),
        ("noise", |web, stream, _, id| {
            web.session.handle_body(web.now, stream.id, format!("data: {id}\n\n").as_bytes())
        }),
        ("id and retry", |web, stream, _, id| {
            web.session.handle_body(web.now, stream.id, format!("id: {id}\nretry: {id}\n\n").as_bytes());
        }),
        ("part of an event", |web, stream, _, _| {
            web.session.handle_body(web.now, stream.id, b"data: xxxxxxxxxxxxxxxxxxxx")
        }),
        ("part of a body", |web, _, call, _| web.session.handle_body(web.now, call.id, b"data: xxxxxxxxxxxxxxxxxxxx")),
        ("head", |web, _, call, _| {
            web.session.handle_head(web.now, call.id, StatusCode::OK, &header_map(&STREAM));
        }),
        ("redirect", |web, _, call, _| {
            let headers = header_map(&[("location", "/moved")]);
            web.session.handle_head(web.now, call.id, StatusCode::TEMPORARY_REDIRECT, &headers);
        }),
        ("end of the call", |web, _, call, _| web.session.handle_end(web.now, call.id)),
        ("end of the stream", |web, stream, _, _| web.session.handle_end(web.now, stream.id)),
        ("failure", |web, stream, _, _| web.session.handle_failure(web.now, stream.id, Broken::Unreachable, "no")),
        ("time", |web, _, _, _| {
            web.now = web.now + Duration::from_secs(1);
            web.session.handle_timeout(web.now);
        }),
        ("request", |web, _, _, _| drop(web.session.request(web.now, Request::call_tool("a", None)))),
        ("notify", |web, _, _, _| drop(web.session.notify(web.now, "acme/told", None))),
        ("refresh", |web, _, _, _| drop(web.session.refresh(web.now, Family::Tools))),
    ];
    for (name, input) in inputs {
        for (polls, again) in [(false, false), (false, true), (true, true)] {
            let mut run = Run::new(Kind::Legacy, again);
            let stream = run.stream.clone().unwrap();
            let (_, call) = run.web.call("a");
            run.web.head(&call, 200, &STREAM);
            for id in 0..4000 {
                input(&mut run.web, &stream, &call, id);
                if polls {
                    // The embedder polls, and the server accepts nothing.
                    while run.web.session.poll().is_some() {}
                }
            }
            let held = held(&run.web);
            assert!(held < 192 * KIB, "{name}: {} KiB, polled: {polls}, reconnecting: {again}", held / KIB);
        }
    }
}
