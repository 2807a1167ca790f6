//! Hostile input: each ends in a typed outcome, within the limits of `Options`, and in proportional memory.

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

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Deliver, Host, Server, drain, legacy, options, tools};
use mcp_proto::{
    Action, Client, Event, FailureKind, Family, FamilyStatus, Lines, Outcome, QuirkKind, Request, RequestError, Time,
    Transport,
};
use peak_alloc::PeakAlloc;
use serde_json::json;
use web::{Site, Web};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;

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

fn ready() -> Host {
    let host = Host::connect(legacy(), &mut Server::legacy(json!({})));
    assert!(host.is_ready());
    host
}

/// A client that waits for a list of tools, and the beginning of the response.
fn listing() -> (Host, String) {
    let mut host = Host::open(legacy());
    let id = host.take_one()["id"].clone();
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}});
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let id = host.take_sent()[1]["id"].clone();
    (host, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":["#))
}

#[test]
fn a_mebibyte_of_noise() {
    let _alone = alone();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as u8
    })
    .take(MIB)
    .collect();
    let memory = peak(|| {
        let mut session = Client::new(Lines::new(), legacy(), 0);
        session.open(Time::ZERO).unwrap();
        session.report(Time::ZERO, Transport::Opened);
        for chunk in noise.chunks(4096) {
            session.deliver(Time::ZERO, chunk);
        }
        drain(|| session.poll());
        assert_eq!(session.quirks().iter().filter(|quirk| quirk.kind == QuirkKind::Noise).count(), 1);
        session.handle_timeout(Time::from_millis(60_000));
        drain(|| session.poll());
        assert!(session.deadline().is_some(), "the shutdown is under way");
    });
    assert!(memory < MIB / 4, "{memory} bytes");
}

#[test]
fn a_line_of_a_hundred_mebibytes() {
    let _alone = alone();
    let chunk = vec![b'x'; MIB];
    let memory = peak(|| {
        let mut options = legacy();
        options.limits.message.bytes = 4 * MIB;
        let mut session = Client::new(Lines::new(), options, 0);
        session.open(Time::ZERO).unwrap();
        session.report(Time::ZERO, Transport::Opened);
        for _ in 0..100 {
            session.deliver(Time::ZERO, &chunk);
        }
        session.deliver(Time::ZERO, b"\n");
        assert_eq!(session.quirks().iter().map(|quirk| quirk.kind).collect::<Vec<_>>(), [QuirkKind::Noise]);
    });
    assert!(memory <= 10 * MIB, "{} MiB", memory / MIB);
}

#[test]
fn ten_thousand_levels_of_brackets() {
    let _alone = alone();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let mut host = ready();
    let call = host.session.request(host.now, Request::new("x/y").timeout(Duration::from_secs(5))).unwrap();
    host.collect();
    let id = host.take_sent().pop().unwrap()["id"].clone();
    for text in [
        deep.clone(),
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{deep}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{deep}}}"#),
        "[".repeat(10_000),
        "{\"a\":".repeat(10_000),
    ] {
        host.receive_text(&text);
    }
    assert_eq!(host.quirks(), [QuirkKind::Noise]);
    host.wait(Duration::from_secs(5));
    assert!(
        matches!(host.result_of(call), Outcome::TimedOut(mcp_proto::TimeBound::Timeout)),
        "the request it would have answered times out"
    );
}

#[test]
fn a_cursor_without_end() {
    let _alone = alone();
    let memory = peak(|| {
        let mut page = 0_u64;
        let mut server = Server::modern(json!({"tools": {}})).on("tools/list", move |_| {
            page += 1;
            Ok(json!({"tools": [{"name": format!("t{page}"), "inputSchema": {}}], "nextCursor": page.to_string()}))
        });
        let mut host = Host::connect(options(), &mut server);
        host.transcript.clear();
        assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Partial, 1000));
        assert_eq!(host.quirks(), [QuirkKind::ListLimit]);
    });
    assert!(memory < 8 * MIB, "{} KiB, the test's own books included", memory / 1024);
}

#[test]
fn a_million_notifications_before_the_response() {
    let _alone = alone();
    let told =
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x".repeat(100)}}).to_string();
    let memory = peak(|| {
        let mut host = Host::open(legacy());
        for _ in 0..1_000_000 {
            host.session.deliver(host.now, told.as_bytes());
        }
        host.collect();
        host.serve(&mut Server::legacy(json!({})));
        assert!(host.is_ready());
        assert_eq!(host.session.stats().left_out, 1_000_000 - 256);
        assert_eq!(host.events.len(), 1 + 256);
    });
    assert!(memory < MIB, "{} KiB", memory / 1024);
}

#[test]
fn endless_notifications_without_a_response() {
    let _alone = alone();
    let told = json!({"jsonrpc": "2.0", "method": "notifications/message"}).to_string();
    let mut host = Host::open(legacy());
    for _ in 0..1000 {
        host.wait(Duration::from_millis(100));
        host.receive_text(&told);
    }
    assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeTimeout));
}

#[test]
fn a_response_of_sixty_mebibytes() {
    let _alone = alone();
    let mut host = ready();
    let call = host.session.request(host.now, Request::new("x/y")).unwrap();
    host.collect();
    let id = host.take_sent().pop().unwrap()["id"].clone();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"{}"}}}}"#, "y".repeat(60 * MIB));
    let memory = peak(|| host.receive_text(&answer));
    assert!(matches!(host.result_of(call), Outcome::Result(result) if result.get().len() > 60 * MIB));
    assert!(memory < 61 * MIB, "{} MiB: the result is copied once", memory / MIB);
}

/// The beginning of the response to the request in flight; 100 MiB and [`HUNDRED_END`] follow.
fn hundred(id: &serde_json::Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":""#)
}

const HUNDRED_END: &str = "\"}}\n";

/// The outcomes of requests, and the messages.
fn collect(session: &mut Client<Lines>) -> (Vec<Outcome>, Vec<serde_json::Value>) {
    let (mut ended, mut sent) = (vec![], vec![]);
    drain(|| {
        let action = session.poll()?;
        match &action {
            Action::Send(message) => sent.push(serde_json::from_slice(message.bytes()).unwrap()),
            Action::Event(Event::Finished { outcome, .. }) => ended.push(outcome.clone()),
            _ => {}
        }
        Some(action)
    });
    (ended, sent)
}

/// By default a message has at most 64 MiB: the call has no response, and the session continues.
#[test]
fn a_result_of_a_hundred_mebibytes_over_lines() {
    let _alone = alone();
    let chunk = vec![b'y'; MIB];
    for limit in [64, 128] {
        let mut options = legacy();
        options.limits.message.bytes = limit * MIB;
        let mut session = Client::new(Lines::new(), options, 0);
        session.open(Time::ZERO).unwrap();
        session.report(Time::ZERO, Transport::Opened);
        let mut server = Server::legacy(json!({}));
        let (_, mut sent) = collect(&mut session);
        while !sent.is_empty() {
            for answer in sent.iter().flat_map(|message| server.answer(message)) {
                session.deliver(Time::ZERO, format!("{answer}\n").as_bytes());
            }
            (_, sent) = collect(&mut session);
        }
        assert!(session.is_ready());
        session.request(Time::ZERO, Request::new("x/y")).unwrap();
        (_, sent) = collect(&mut session);
        let memory = peak(|| {
            session.deliver(Time::ZERO, hundred(&sent[0]["id"]).as_bytes());
            for _ in 0..100 {
                session.deliver(Time::ZERO, &chunk);
            }
            session.deliver(Time::ZERO, HUNDRED_END.as_bytes());
        });
        assert!(memory < 2 * limit * MIB, "{} MiB", memory / MIB);
        let (ended, _) = collect(&mut session);
        assert!(session.is_ready());
        match (limit, &ended[..]) {
            // It ends when the line is too long, and not at its timeout.
            (64, [Outcome::Error(RequestError::Invalid(_))]) => {
                assert_eq!(session.quirks().iter().map(|quirk| quirk.kind).collect::<Vec<_>>(), [QuirkKind::Noise]);
            }
            (128, [Outcome::Result(result)]) => assert!(result.get().len() > 100 * MIB),
            (_, ended) => panic!("{} outcomes for {limit}", ended.len()),
        }
    }
}

#[test]
fn a_result_of_a_hundred_mebibytes_over_http() {
    let _alone = alone();
    let chunk = vec![b'y'; MIB];
    for (limit, by_stream) in [(64, false), (64, true), (128, false), (128, true)] {
        let mut options = legacy();
        options.limits.message.bytes = limit * MIB;
        let mut site = Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
        let mut web = Web::connect(options, &mut site);
        let (call, exchange) = web.call("a");
        let memory = peak(|| {
            let kind = if by_stream { "text/event-stream" } else { "application/json" };
            web.head(&exchange, 200, &[("content-type", kind)]);
            let start = hundred(&exchange.json()["id"]);
            web.body(&exchange, if by_stream { format!("data: {start}") } else { start });
            for _ in 0..100 {
                web.body(&exchange, &chunk);
            }
            web.body(&exchange, HUNDRED_END);
            web.body(&exchange, "\n");
            web.end(&exchange);
        });
        assert!(memory < 2 * limit * MIB, "{} MiB", memory / MIB);
        match (limit, web.result_of(call)) {
            (64, Outcome::Error(RequestError::Invalid(_))) => {}
            (128, Outcome::Result(result)) => assert!(result.get().len() > 100 * MIB),
            (_, outcome) => {
                panic!("{limit}, {by_stream}: {}", format!("{outcome:?}").chars().take(200).collect::<String>())
            }
        }
        assert!(web.is_ready());
    }
}

#[test]
fn a_batch_of_millions() {
    let _alone = alone();
    let batch = format!("[{}1]", "1,".repeat(16 * MIB));
    let mut host = ready();
    let memory = peak(|| host.receive_text(&batch));
    assert_eq!(host.quirks(), [QuirkKind::Batch, QuirkKind::Noise]);
    assert!(memory < 4 * MIB, "{} KiB", memory / 1024);
}

#[test]
fn a_page_of_millions() {
    let _alone = alone();
    let (mut host, beginning) = listing();
    let page = format!("{beginning}{}{{}}]}}}}", "{},".repeat(2_000_000));
    let memory = peak(|| host.receive_text(&page));
    assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Partial, 0));
    assert_eq!(host.quirks(), [QuirkKind::InitializeShape, QuirkKind::InvalidItem, QuirkKind::ListLimit]);
    assert!(memory < page.len() + MIB, "{} KiB for {} KiB", memory / 1024, page.len() / 1024);
}

#[test]
fn a_page_with_more_bytes_than_the_list_limit() {
    let _alone = alone();
    let (mut host, beginning) = listing();
    let tool = format!(r#"{{"name":"a","inputSchema":{{}},"description":"{}"}}"#, "d".repeat(60 * MIB));
    let page = format!(r#"{beginning}{tool}],"nextCursor":"2"}}}}"#);
    host.receive_text(&page);
    let id = host.take_one()["id"].clone();
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tool}],"nextCursor":"3"}}}}"#));
    assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Partial, 1));
    assert!(host.take_sent().is_empty());
}

#[test]
fn a_million_pings_with_unpolled_responses() {
    let _alone = alone();
    let ping = json!({"jsonrpc": "2.0", "id": "x".repeat(500), "method": "ping"}).to_string();
    let mut host = ready();
    let memory = peak(|| {
        for _ in 0..1_000_000 {
            host.session.deliver(host.now, ping.as_bytes());
        }
    });
    host.collect();
    assert_eq!(host.session.stats().left_out, 0);
    assert_eq!(host.take_sent().len(), 4096, "each accepted request has its response");
    assert_eq!(host.failure_kind(), Some(FailureKind::Overrun));
    assert!(memory < 16 * MIB, "{} KiB", memory / 1024);
}

#[test]
fn a_million_list_changed() {
    let _alone = alone();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", common::tools(&["a"]));
    let mut host = Host::connect(legacy(), &mut server);
    let memory = peak(|| {
        for _ in 0..1_000_000 {
            host.session.deliver(host.now, changed.as_bytes());
        }
        host.collect();
    });
    assert!(host.take_sent().is_empty());
    host.wait(Duration::from_secs(2));
    assert_eq!(host.take_sent().len(), 1);
    assert!(memory < 64 * 1024, "{memory} bytes");
}

#[test]
fn an_initialize_response_that_is_nested_too_deep() {
    let _alone = alone();
    let mut host = Host::open(legacy());
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","x":{deep}}}}}"#));
    host.wait(host.session.options().timeouts.handshake);
    assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeTimeout));
}

#[test]
fn a_page_of_millions_of_tools() {
    let _alone = alone();
    let (mut host, beginning) = listing();
    let tools: Vec<String> = (0..2_000_000).map(|at| format!(r#"{{"name":"{at}"}}"#)).collect();
    let page = format!("{beginning}{}]}}}}", tools.join(","));
    drop(tools);
    let items = host.session.options().limits.items;
    let memory = peak(|| host.receive_text(&page));
    assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Partial, items));
    assert!(memory < page.len() + items * 256, "{} KiB for {} KiB", memory / 1024, page.len() / 1024);
}

#[test]
fn a_cursor_without_end_over_full_pages() {
    let _alone = alone();
    let mut page = 0_u64;
    let mut server = Server::modern(json!({"tools": {}})).on("tools/list", move |_| {
        page += 1;
        let tools: Vec<_> = (0..500).map(|at| json!({"name": format!("{page} {at}"), "inputSchema": {}})).collect();
        Ok(json!({"tools": tools, "nextCursor": page.to_string()}))
    });
    let host = Host::connect(options(), &mut server);
    assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Partial, 100_000));
    assert_eq!(host.quirks(), [QuirkKind::ListLimit]);
}

/// Queued requests are also limited in bytes, whatever part of a request they are in.
#[test]
fn requests_of_a_mebibyte_with_unpolled_responses() {
    let _alone = alone();
    let long = "x".repeat(MIB);
    for request in [
        json!({"jsonrpc": "2.0", "id": long, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": long}),
        json!({"jsonrpc": "2.0", "id": long, "method": "elicitation/create", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"mode": long}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": long}}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": long}}),
        json!({"jsonrpc": "2.0", "method": long}),
    ] {
        let request = request.to_string();
        let mut options = legacy();
        options.capabilities.elicitation = true;
        let bound = 16 * MIB;
        options.limits.output_bytes = bound;
        let mut host = Host::connect(options, &mut Server::legacy(json!({})));
        let memory = peak(|| {
            // Fewer than the limit of server requests, so that the limit of bytes holds alone.
            for _ in 0..50 {
                host.session.deliver(host.now, request.as_bytes());
            }
        });
        let what = request.get(..60).unwrap();
        assert!(memory < 2 * bound, "{} MiB for {} MiB of {what}", memory / MIB, bound / MIB);
    }
}

#[test]
fn a_million_server_requests() {
    let _alone = alone();
    let ask =
        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "?"}}).to_string();
    let mut options = legacy();
    options.capabilities.elicitation = true;
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    let memory = peak(|| {
        for _ in 0..1_000_000 {
            host.session.deliver(host.now, ask.as_bytes());
            drain(|| host.session.poll());
        }
    });
    assert!(memory < MIB, "{} KiB", memory / 1024);
    host.wait(host.session.options().timeouts.server_request);
    assert_eq!(host.take_sent().iter().filter(|answer| answer["result"]["action"] == "cancel").count(), 64);
}

/// The engine answers requests for roots itself, so a small request causes a long response.
#[test]
fn a_million_inputs_for_one_call() {
    let _alone = alone();
    let mut options = options();
    options.capabilities.roots = Some(vec![mcp_proto::protocol::Root::new("file:///project")]);
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    let call = host.session.request(host.now, Request::new("x/y")).unwrap();
    host.collect();
    let id = host.take_sent().pop().unwrap()["id"].clone();
    let inputs: Vec<String> = (0..1_000_000).map(|at| format!(r#""{at}":{{"method":"roots/list"}}"#)).collect();
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{{{}}}}}}}"#,
        inputs.join(",")
    );
    drop(inputs);
    let memory = peak(|| host.session.deliver(host.now, answer.as_bytes()));
    assert!(memory < 3 * answer.len(), "{} MiB for {} MiB", memory / MIB, answer.len() / MIB);
    host.collect();
    host.wait(Duration::from_secs(600));
    host.result_of(call);
}

#[test]
fn endless_list_changed() {
    let _alone = alone();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", common::tools(&["a"]));
    let mut host = Host::connect(legacy(), &mut server);
    let memory = peak(|| {
        for _ in 0..100_000 {
            host.session.deliver(host.now, changed.as_bytes());
            host.wait(Duration::from_millis(10));
            host.serve(&mut server);
            host.transcript.clear();
        }
    });
    let asked = server.received("tools/list");
    assert!((10..100).contains(&asked), "{asked} walks in 1,000 s that found nothing new");
    assert!(memory < MIB, "{} KiB", memory / 1024);
}

/// The server never ends its response streams: each is dropped, and nothing of it remains.
#[test]
fn streams_that_never_end_leave_nothing_behind() {
    let _alone = alone();
    let content = json!({"content": []});
    let mut site =
        Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", content.clone());
    let mut web = Web::connect(legacy(), &mut site);
    let mut kept_after = |calls: usize| {
        for _ in 0..calls {
            let (_, call) = web.call("a");
            web.head(&call, 200, &[("content-type", "text/event-stream")]);
            web.push(&call, call.result(content.clone()));
            web.wait(Duration::from_secs(3));
            (web.log, web.events, web.dropped) = (vec![], vec![], vec![]);
        }
        peak(|| drop(std::hint::black_box(web.session.clone())))
    };
    let (few, many) = (kept_after(10), kept_after(2000));
    assert!(many < few + 4096, "{few} bytes after 10 calls, {many} after 2,010");
}

/// With a raised depth limit, deep messages cost no more than long ones.
#[test]
fn depth_overflows_no_stack_with_a_raised_limit() {
    const DEPTH: usize = 100_000;
    let _alone = alone();
    let deep = format!("{}{}", "{\"a\":[".repeat(DEPTH / 2), "]}".repeat(DEPTH / 2));
    for modern in [false, true] {
        let mut options = if modern { options() } else { legacy() };
        options.limits.message.depth = 2 * DEPTH;
        (options.capabilities.elicitation, options.capabilities.sampling) = (true, true);
        options.sampling.tool_rounds = Some(1);
        let capabilities = json!({"tools": {}, "logging": {}});
        let server = if modern { Server::modern(capabilities) } else { Server::legacy(capabilities) };
        let mut host = Host::connect(options, &mut server.result("tools/list", tools(&["a"])));
        let memory = peak(|| {
            for method in ["elicitation/create", "sampling/createMessage", "notifications/message", "vendor/x"] {
                for params in [
                    deep.clone(),
                    format!(r#"{{"requestedSchema":{{"properties":{{"x":{{"default":{deep}}}}}}}}}"#),
                    format!(r#"{{"level":"info","data":{deep},"messages":[{{"content":{deep}}}]}}"#),
                ] {
                    let id = if method.starts_with("notifications") { "" } else { r#""id":"q","# };
                    let message = format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#);
                    host.session.deliver(host.now, message.as_bytes());
                }
            }
            for result in [
                deep.clone(),
                format!(r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":{deep}}}}}}}"#),
                format!(
                    r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","params":{deep}}}}}}}"#
                ),
            ] {
                let request = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
                let id = sent_id(&mut host);
                let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
                host.session.deliver(host.now, message.as_bytes());
                let accept = serde_json::value::to_raw_value(&json!({"action": "accept", "content": {}})).unwrap();
                let _ = host.session.provide(host.now, request, [("k", &*accept)]);
            }
            drain(|| host.session.poll());
        });
        assert!(memory < 64 * deep.len(), "{memory} bytes");
    }
}

/// The id of the last request that was sent.
fn sent_id(host: &mut Host) -> u64 {
    let mut last = None;
    drain(|| {
        let action = host.session.poll()?;
        if let Action::Send(message) = &action {
            last = message.wire_id().map(|id| id.as_u64()).or(last);
        }
        Some(action)
    });
    last.unwrap()
}
