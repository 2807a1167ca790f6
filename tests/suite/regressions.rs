//! What went wrong once.

use std::time::Duration;

use crate::common::{Deliver, Host, Server, Steps, drain, legacy, options};
use mcp_proto::{
    Action, Cause, Client, CommandError, Eras, Event, Messages, OpenFailure, Options, Outcome, ProtocolVersion,
    QuirkKind, Reconnect, Recovery, Request, Time, Transport,
};
use serde_json::{Value, json};

fn reconnecting() -> Options {
    let mut options = options();
    options.reconnect = Some(Reconnect::default());
    options
}

fn parked(host: &Host) -> bool {
    host.events.iter().any(|event| matches!(event, Event::Down { next: Recovery::Parked { .. }, .. }))
}

fn answer(host: &mut Host, result: Value) {
    let id = host.take_one()["id"].clone();
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn refuse(host: &mut Host, error: Value) {
    let id = host.take_one()["id"].clone();
    host.receive(json!({"jsonrpc": "2.0", "id": id, "error": error}));
}

fn modern_alone() -> Value {
    json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}})
}

/// Saturated deadlines are always due, and so is whatever firing them arms.
#[test]
fn the_end_of_time_comes_once_a_call() {
    let mut host = Host::connect(reconnecting(), &mut Server::modern(json!({})));
    host.close_transport();
    for _ in 0..10 {
        host.session.handle_timeout(Time::from_micros(u64::MAX));
        host.collect();
    }
    assert!(host.opens < 20);
}

#[test]
fn timeouts_of_nothing_fire_once_a_call() {
    let mut options = reconnecting();
    (options.timeouts.open, options.timeouts.grace) = (Duration::ZERO, Duration::ZERO);
    options.reconnect.as_mut().unwrap().initial = Duration::ZERO;
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    host.close_transport();
    host.session.handle_timeout(host.now);
    host.collect();
    assert_eq!(host.opens, 2);
}

#[test]
fn what_one_connection_proved_does_not_feed_the_budget_for_ever() {
    let mut host = Host::connect(reconnecting(), &mut Server::modern(json!({})));
    host.session.request(host.now, Request::new("x/y")).unwrap();
    host.collect();
    answer(&mut host, json!({}));
    host.close_transport();
    for _ in 0..10 {
        host.wait(Duration::from_secs(60));
        host.transport(Transport::OpenFailed { how: OpenFailure::Connect, why: "refused" });
    }
    assert!(parked(&host));
}

#[test]
fn handshakes_that_are_never_answered_use_up_the_budget() {
    let mut host = Host::connect(reconnecting(), &mut Server::modern(json!({})));
    host.close_transport();
    for _ in 0..10 {
        host.wait(Duration::from_secs(60));
        host.transport(Transport::Opened);
        host.wait(Duration::from_secs(100));
        host.close_transport();
    }
    assert!(parked(&host), "{} transports were opened", host.opens);
}

#[test]
fn a_modern_server_that_crashed_on_a_probe_once_is_found_again() {
    let mut host = Host::open(options());
    host.take_sent();
    host.close_transport();
    host.transport(Transport::Opened);
    refuse(&mut host, modern_alone());
    assert_eq!(host.take_methods(), ["server/discover"]);
}

#[test]
fn a_command_that_is_refused_before_a_deadline_is_due_changes_no_clock() {
    let mut host = Host::open(options());
    host.take_sent();
    let before = format!("{:?}", host.session);
    assert_eq!(host.session.open(Time::from_millis(4999)), Err(CommandError::AlreadyOpen));
    assert_eq!(format!("{:?}", host.session), before);
}

#[test]
fn a_command_that_is_refused_after_a_deadline_was_due_handles_that_deadline() {
    let mut host = Host::open(options());
    host.take_sent();
    assert_eq!(host.session.open(Time::from_millis(5000)), Err(CommandError::AlreadyOpen));
    host.collect();
    assert_eq!(host.take_methods(), ["initialize"], "`server/discover` timed out");
}

#[test]
fn a_list_that_a_guard_cut_is_there_all_the_same() {
    let mut options = legacy();
    options.tolerance.list_undeclared = true;
    options.limits.pages = 1;
    let mut list = crate::common::tools(&["a"]);
    list["nextCursor"] = json!("more");
    let mut host = Host::connect(options, &mut Server::legacy(json!({})).result("tools/list", list));
    assert!(host.session.request(host.now, Request::call_tool("a", None)).is_ok());
}

#[test]
fn what_the_server_refused_to_be_told_of_is_not_offered() {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    let mut host = Host::open(options);
    refuse(&mut host, json!({"code": -32602, "message": "unknown capability elicitation"}));
    answer(&mut host, json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    host.take_sent();
    host.receive(json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {}}));
    assert_eq!(host.take_one()["error"]["code"], -32601);
}

#[test]
fn a_transport_that_never_opened_has_no_exit_to_miss() {
    let mut host = Host::new(options());
    host.session.open(host.now).unwrap();
    host.wait(Duration::from_secs(120));
    assert!(host.session.is_closed() && host.quirks().is_empty());
}

#[test]
fn a_server_that_refused_initialize_and_then_names_a_version_is_offered_it() {
    let mut options = options();
    options.eras = Eras::LegacyFirst;
    let mut host = Host::open(options);
    refuse(&mut host, json!({"code": -32000, "message": "bad request"}));
    answer(&mut host, json!({"supportedVersions": ["2025-06-18"], "capabilities": {}}));
    let initialize = host.take_one();
    assert_eq!(initialize["params"]["protocolVersion"], "2025-06-18");
}

#[test]
fn a_probe_answered_without_a_list_of_versions_is_no_modern_server() {
    for versions in [json!(null), json!("2026-07-28"), json!({})] {
        let mut host = Host::open(options());
        answer(&mut host, json!({"supportedVersions": versions}));
        assert_eq!(host.take_methods(), ["initialize"]);
    }
}

#[test]
fn waking_up_leaves_initialize_its_time() {
    let mut host = Host::open(options());
    host.session.handle_timeout(Time::from_millis(3_600_000));
    host.collect();
    assert_eq!(host.failure(), None);
    assert_eq!(host.take_methods(), ["server/discover", "initialize"]);
}

#[test]
fn a_batch_before_any_version_is_known_is_one_too_many() {
    let mut host = Host::open(options());
    let id = host.take_one()["id"].clone();
    let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    host.receive(json!([{"jsonrpc": "2.0", "id": id, "result": result}]));
    assert!(host.is_ready());
    assert_eq!(host.quirks(), [QuirkKind::Batch]);
}

#[test]
fn quirks_keep_an_excerpt_of_what_they_quote() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    let long = "m".repeat(1 << 20);
    for index in 0..20 {
        host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": format!("{index}{long}")}));
    }
    let kept: usize =
        host.session.quirks().iter().map(|q| q.detail.len() + q.method.as_ref().map_or(0, |m| m.len())).sum();
    assert!(kept < 20_000, "{kept} bytes");
}

#[test]
fn what_waits_to_be_polled_is_bounded_by_bytes_too() {
    let mut options = options();
    options.limits.output_bytes = 1 << 20;
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    let told = json!({"jsonrpc": "2.0", "method": "m".repeat(1 << 20)}).to_string();
    for _ in 0..64 {
        host.session.deliver(host.now, told.as_bytes());
    }
    assert!(host.session.stats().left_out >= 62);
}

#[test]
fn an_error_for_everybody_ends_no_request_that_was_not_polled() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    let request = host.session.request(host.now, Request::new("x/y")).unwrap();
    host.session.deliver(host.now, br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#);
    host.collect();
    answer(&mut host, json!({}));
    assert!(matches!(host.result_of(request), Outcome::Result(_)));
}

#[test]
fn the_end_is_not_over_before_it_was_polled() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    host.session.request(host.now, Request::new("x/y")).unwrap();
    host.session.report(host.now, Transport::Closed { why: "crash" });
    assert!(!host.session.is_closed());
    host.collect();
    assert!(host.session.is_closed());
    assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
}

#[test]
fn only_the_modern_era_is_asked_for_in_a_version_of_it() {
    let mut options = options();
    options.eras = Eras::ModernOnly(ProtocolVersion::V2025_06_18);
    let discover = Host::open(options).take_one();
    assert_eq!(discover["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[test]
fn pages_that_take_for_ever_do_not_keep_a_session_from_its_end() {
    let mut page = 0;
    let mut host = Host::open(options());
    answer(&mut host, json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
    while host.failure().is_none() && page < 100 {
        page += 1;
        host.wait(Duration::from_secs(59));
        if !host.sent.is_empty() && host.failure().is_none() {
            answer(&mut host, json!({"tools": [], "nextCursor": page.to_string()}));
        }
    }
    assert_eq!(host.failure_kind(), Some(mcp_proto::FailureKind::ListFailed));
    assert!(page <= 6, "{page} minutes");
}

#[test]
fn a_discovery_that_takes_too_long_fails_once() {
    let mut page = 0;
    let mut host = Host::open(legacy());
    answer(&mut host, json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}}}));
    let mut steps = Steps::until("the session fails, or asked for 100 pages");
    while host.failure().is_none() && page < 100 {
        steps.step();
        for sent in host.take_sent() {
            page += 1;
            let (id, list) = (&sent["id"], json!({"tools": [], "prompts": [], "nextCursor": page.to_string()}));
            host.receive(json!({"jsonrpc": "2.0", "id": id, "result": list}));
        }
        host.wait(Duration::from_secs(50));
    }
    let downs = host.events.iter().filter(|event| matches!(event, Event::Down { .. })).count();
    assert_eq!(downs, 1);
}

#[test]
fn answers_that_nobody_polls_are_bounded_by_bytes_too() {
    let mut options = legacy();
    options.limits.output_bytes = 10_000;
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "m".repeat(1 << 20)}).to_string();
    for _ in 0..30 {
        host.session.deliver(host.now, asked.as_bytes());
    }
    assert!(host.is_ready(), "it is less than the limit");
    host.collect();
    let answers = host.take_sent();
    assert_eq!(answers.len(), 30);
    assert!(answers.iter().all(|answer| answer.to_string().len() < 1000));
    for _ in 0..300 {
        host.session.deliver(host.now, asked.as_bytes());
    }
    host.collect();
    let bytes: usize = host.take_sent().iter().map(|answer| answer.to_string().len()).sum();
    assert!((10_000..11_000).contains(&bytes), "{bytes} bytes");
    assert_eq!((host.failure_kind(), host.session.stats().left_out), (Some(mcp_proto::FailureKind::Overrun), 0));
}

#[test]
fn requests_that_nobody_polls_the_ends_of_are_refused() {
    let mut host = Host::new(legacy());
    let mut refused = None;
    for _ in 0..10_000 {
        match host.session.request(host.now, Request::new("x/y")) {
            Ok(request) => host.session.cancel(host.now, request).unwrap(),
            Err(misuse) => refused = Some(misuse),
        }
    }
    assert_eq!(refused, Some(CommandError::TooManyRequests { limit: 4096 }));
}

#[test]
fn ids_with_signs_or_zeros_are_not_ours() {
    let mut host = Host::connect(legacy(), &mut Server::legacy(json!({})));
    let request = host.session.request(host.now, Request::new("x/y")).unwrap();
    host.collect();
    let id = host.take_sent().pop().unwrap()["id"].clone();
    for odd in [format!("+{id}"), format!("00{id}"), format!(" {id}")] {
        host.receive(json!({"jsonrpc": "2.0", "id": odd, "result": {}}));
    }
    assert!(host.quirks().contains(&QuirkKind::UnknownId));
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    assert!(matches!(host.result_of(request), Outcome::Result(_)));
}

/// A lone surrogate is no text, yet JSON.
#[test]
fn parameters_reach_the_server_whatever_their_names() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    let params = serde_json::value::RawValue::from_string(r#"{"a":1,"\ud800":2}"#.into()).unwrap();
    host.session.request(host.now, Request::new("x/y").params(params)).unwrap();
    let Some(mcp_proto::Action::Send(message)) = host.session.poll() else { panic!("no message") };
    let text = std::str::from_utf8(message.bytes()).unwrap();
    assert!(text.contains(r#""a":1,"\ud800":2,"_meta":{"#), "{text}");
}

#[test]
fn a_keepalive_interval_of_nothing_lets_time_go_by() {
    let mut options = legacy();
    let mut keepalive = mcp_proto::Keepalive::default();
    keepalive.interval = Duration::ZERO;
    options.keepalive = Some(keepalive);
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    host.session.request(host.now, Request::new("x/y").timeout(Duration::from_millis(50))).unwrap();
    host.collect();
    host.wait(Duration::from_millis(100));
    assert!(host.now >= Time::from_millis(100));
}

#[test]
fn an_embedder_that_never_polls_lets_nothing_pile_up() {
    let mut host = Host::connect(reconnecting(), &mut Server::modern(json!({})));
    host.close_transport();
    for hour in 1..1000 {
        host.session.handle_timeout(Time::from_millis(hour * 3_600_000));
    }
    let waiting = drain(|| host.session.poll());
    assert!(waiting < 10, "{waiting} actions wait");
}

/// Nobody was asked for the transport yet, so that there is nothing to shut.
#[test]
fn a_session_closed_before_its_transport_was_asked_for_ends_at_once() {
    let mut session = Client::new(Messages::new(), options(), 0);
    session.open(Time::ZERO).unwrap();
    session.close(Time::ZERO).unwrap();
    let Some(Action::Event(Event::Closed { cause: Cause::Requested })) = session.poll() else { panic!("not the end") };
    assert!(session.poll().is_none() && session.is_closed() && session.deadline().is_none());
}

/// What was carried over a connection that failed may be answered twice on the next one, however much lies in between.
#[test]
fn a_second_error_of_a_call_that_was_carried_over_ends_no_other() {
    let mut options = options();
    (options.eras, options.reconnect) = (Eras::LegacyFirst, Some(Reconnect::default()));
    let mut host = Host::new(options);
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", json!({"tools": [{"name": "a"}]}));
    server = server.result("tools/call", json!({"content": []}));
    let first = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.session.open(host.now).unwrap();
    host.collect();
    host.session.report(host.now, Transport::OpenFailed { how: OpenFailure::Connect, why: "no" });
    host.wait(Duration::from_secs(2));
    host.transport(Transport::Opened);
    host.serve(&mut server);
    let ended = |host: &Host, request| {
        host.events.iter().any(|event| matches!(event, Event::Finished { request: it, .. } if *it == request))
    };
    assert!(ended(&host, first));
    host.session.refresh(host.now, mcp_proto::Family::Tools).unwrap();
    host.collect();
    host.serve(&mut server);
    let second = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    host.session.deliver(host.now, br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"stale"}}"#);
    host.collect();
    assert!(!ended(&host, second), "{:?}", host.events);
}
