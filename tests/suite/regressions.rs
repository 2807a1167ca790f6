//! Regression tests.

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

/// Saturated deadlines are always due, and so are the deadlines that they set.
#[test]
fn saturated_deadlines_fire_once_per_call() {
    let mut host = Host::connect(reconnecting(), &mut Server::modern(json!({})));
    host.close_transport();
    for _ in 0..10 {
        host.session.handle_timeout(Time::from_micros(u64::MAX));
        host.collect();
    }
    assert!(host.opens < 20);
}

#[test]
fn timeouts_of_zero_fire_once_per_call() {
    let mut options = reconnecting();
    (options.timeouts.open, options.timeouts.grace) = (Duration::ZERO, Duration::ZERO);
    options.reconnect.as_mut().unwrap().initial_backoff = Duration::ZERO;
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    host.close_transport();
    host.session.handle_timeout(host.now);
    host.collect();
    assert_eq!(host.opens, 2);
}

#[test]
fn one_working_connection_does_not_reset_the_budget_forever() {
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
fn unanswered_handshakes_use_the_budget() {
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
fn a_modern_server_that_crashed_on_a_probe_is_recognized_later() {
    let mut host = Host::open(options());
    host.take_sent();
    host.close_transport();
    host.transport(Transport::Opened);
    refuse(&mut host, modern_alone());
    assert_eq!(host.take_methods(), ["server/discover"]);
}

#[test]
fn a_refused_command_before_a_deadline_does_not_change_the_time() {
    let mut host = Host::open(options());
    host.take_sent();
    let before = format!("{:?}", host.session);
    assert_eq!(host.session.open(Time::from_millis(4999)), Err(CommandError::AlreadyOpen));
    assert_eq!(format!("{:?}", host.session), before);
}

#[test]
fn a_refused_command_after_a_deadline_handles_the_deadline() {
    let mut host = Host::open(options());
    host.take_sent();
    assert_eq!(host.session.open(Time::from_millis(5000)), Err(CommandError::AlreadyOpen));
    host.collect();
    assert_eq!(host.take_methods(), ["initialize"], "`server/discover` timed out");
}

#[test]
fn a_list_cut_off_at_a_limit_is_used() {
    let mut options = legacy();
    options.tolerance.list_undeclared = true;
    options.limits.pages = 1;
    let mut list = crate::common::tools(&["a"]);
    list["nextCursor"] = json!("more");
    let mut host = Host::connect(options, &mut Server::legacy(json!({})).result("tools/list", list));
    assert!(host.session.request(host.now, Request::call_tool("a", None)).is_ok());
}

#[test]
fn refused_resource_templates_are_not_offered() {
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
fn a_transport_that_never_opened_does_not_wait_for_an_exit() {
    let mut host = Host::new(options());
    host.session.open(host.now).unwrap();
    host.wait(Duration::from_secs(120));
    assert!(host.session.is_closed() && host.quirks().is_empty());
}

#[test]
fn a_version_named_after_a_refused_initialize_is_offered() {
    let mut options = options();
    options.eras = Eras::LegacyFirst;
    let mut host = Host::open(options);
    refuse(&mut host, json!({"code": -32000, "message": "bad request"}));
    answer(&mut host, json!({"supportedVersions": ["2025-06-18"], "capabilities": {}}));
    let initialize = host.take_one();
    assert_eq!(initialize["params"]["protocolVersion"], "2025-06-18");
}

#[test]
fn a_discover_result_without_versions_is_not_modern() {
    for versions in [json!(null), json!("2026-07-28"), json!({})] {
        let mut host = Host::open(options());
        answer(&mut host, json!({"supportedVersions": versions}));
        assert_eq!(host.take_methods(), ["initialize"]);
    }
}

#[test]
fn a_suspended_host_does_not_shorten_the_initialize_timeout() {
    let mut host = Host::open(options());
    host.session.handle_timeout(Time::from_millis(3_600_000));
    host.collect();
    assert_eq!(host.failure(), None);
    assert_eq!(host.take_methods(), ["server/discover", "initialize"]);
}

#[test]
fn a_batch_before_the_handshake_is_a_quirk() {
    let mut host = Host::open(options());
    let id = host.take_one()["id"].clone();
    let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    host.receive(json!([{"jsonrpc": "2.0", "id": id, "result": result}]));
    assert!(host.is_ready());
    assert_eq!(host.quirks(), [QuirkKind::Batch]);
}

#[test]
fn quirks_quote_only_an_excerpt() {
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
fn unpolled_output_is_also_limited_in_bytes() {
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
fn unpolled_output_is_limited_to_the_bytes_of_the_options() {
    let mut options = options();
    options.limits.output_bytes = 8_000;
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    let told = json!({"jsonrpc": "2.0", "method": "m".repeat(1_000)}).to_string();
    let deliver = |host: &mut Host| (0..20).for_each(|_| host.session.deliver(host.now, told.as_bytes()));
    deliver(&mut host);
    // An eighth is left for responses.
    assert_eq!(host.session.stats().left_out, 13);
    host.collect();
    deliver(&mut host);
    assert_eq!(host.session.stats().left_out, 26, "what is polled does not count");
}

#[test]
fn an_error_without_an_id_ends_no_unpolled_request() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    let request = host.session.request(host.now, Request::new("x/y")).unwrap();
    host.session.deliver(host.now, br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#);
    host.collect();
    answer(&mut host, json!({}));
    assert!(matches!(host.result_of(request), Outcome::Result(_)));
}

#[test]
fn the_session_is_not_closed_before_closed_was_polled() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    host.session.request(host.now, Request::new("x/y")).unwrap();
    host.session.report(host.now, Transport::Closed { why: "crash" });
    assert!(!host.session.is_closed());
    host.collect();
    assert!(host.session.is_closed());
    assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
}

#[test]
fn modern_only_offers_only_modern_versions() {
    let mut options = options();
    options.eras = Eras::ModernOnly(ProtocolVersion::V2025_06_18);
    let discover = Host::open(options).take_one();
    assert_eq!(discover["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[test]
fn endless_pages_do_not_delay_the_end_of_a_session() {
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
fn unpolled_responses_are_also_limited_in_bytes() {
    let mut options = legacy();
    options.limits.output_bytes = 10_000;
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "m".repeat(1 << 20)}).to_string();
    for _ in 0..30 {
        host.session.deliver(host.now, asked.as_bytes());
    }
    assert!(host.is_ready(), "the size is below the limit");
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
fn requests_are_refused_while_too_many_outcomes_are_unpolled() {
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
fn ids_with_signs_or_zeros_are_unknown() {
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

/// A lone surrogate is not valid Unicode, but valid JSON.
#[test]
fn parameters_with_any_names_reach_the_server() {
    let mut host = Host::connect(options(), &mut Server::modern(json!({})));
    let params = serde_json::value::RawValue::from_string(r#"{"a":1,"\ud800":2}"#.into()).unwrap();
    host.session.request(host.now, Request::new("x/y").params(params)).unwrap();
    let Some(mcp_proto::Action::Send(message)) = host.session.poll() else { panic!("no message") };
    let text = std::str::from_utf8(message.bytes()).unwrap();
    assert!(text.contains(r#""a":1,"\ud800":2,"_meta":{"#), "{text}");
}

#[test]
fn a_keepalive_interval_of_zero_does_not_stop_the_time() {
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
fn unpolled_output_does_not_accumulate() {
    let mut host = Host::connect(reconnecting(), &mut Server::modern(json!({})));
    host.close_transport();
    for hour in 1..1000 {
        host.session.handle_timeout(Time::from_millis(hour * 3_600_000));
    }
    let waiting = drain(|| host.session.poll());
    assert!(waiting < 10, "{waiting} actions wait");
}

/// The transport was not requested yet, so there is nothing to shut down.
#[test]
fn a_session_closed_before_its_transport_was_requested_ends_at_once() {
    let mut session = Client::new(Messages::new(), options(), 0);
    session.open(Time::ZERO).unwrap();
    session.close(Time::ZERO).unwrap();
    let Some(Action::Event(Event::Closed { cause: Cause::Requested })) = session.poll() else {
        panic!("closed too early")
    };
    assert!(session.poll().is_none() && session.is_closed() && session.deadline().is_none());
}

/// A call carried over from a failed connection may get two responses on the next one, with any number of messages
/// between.
#[test]
fn a_second_error_of_a_carried_over_call_ends_no_other_call() {
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
