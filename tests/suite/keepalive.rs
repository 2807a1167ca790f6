//! The keepalive: what servers do to it, and what it never does to them.

use std::time::Duration;

use crate::common::{Host, Server, tools};
use mcp_proto::{
    Eras, Event, FailureKind, Keepalive, KeepaliveMethod, Options, QuirkKind, Reconnect, Recovery, Request,
    ShutdownStep, Transport,
};
use serde_json::{Value, json};

const INTERVAL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(30);

fn options() -> Options {
    let mut options = crate::common::options();
    options.keepalive = Some(Keepalive::default());
    options
}

fn legacy() -> Options {
    let mut options = options();
    options.eras = Eras::LegacyOnly;
    options
}

fn listing() -> Server {
    Server::legacy(json!({"tools": {}, "prompts": {}}))
        .result("tools/list", tools(&["a", "b"]))
        .result("prompts/list", json!({"prompts": [{"name": "p"}]}))
}

fn ready(options: Options, server: &mut Server) -> Host {
    let mut host = Host::connect(options, server);
    assert!(host.is_ready());
    host.take_sent();
    host
}

/// The probe that is sent once the interval is over.
fn probe(host: &mut Host) -> Value {
    host.wait(INTERVAL);
    host.take_request()
}

fn answer(host: &mut Host, probe: &Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": probe["id"], "result": {}}));
}

fn refuse(host: &mut Host, probe: &Value, code: i64) {
    host.receive(json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": code, "message": "no"}}));
}

/// The first one is due after an interval without messages, whatever the time is.
#[test]
fn the_interval_begins_with_the_connection() {
    let mut host = Host::new(legacy());
    host.now = host.now + INTERVAL / 2;
    host.session.open(host.now).unwrap();
    host.collect();
    host.transport(Transport::Opened);
    host.serve(&mut listing());
    host.wait(INTERVAL - Duration::from_millis(1));
    assert!(host.take_sent().is_empty());
    host.wait(Duration::from_millis(1));
    assert_eq!(host.take_methods(), ["ping"]);
}

/// The keepalive releases the memory of requests that are over.
#[test]
fn a_request_that_is_made_after_a_ping_waits_for_the_user_too() {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    let mut host = ready(options, &mut listing());
    let params = json!({"message": "?", "requestedSchema": {"type": "object"}});
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}));
    let ping = probe(&mut host);
    answer(&mut host, &ping);
    let call = host.session.request(host.now, Request::call_tool("a", None).timeout(Duration::from_secs(5))).unwrap();
    host.collect();
    host.wait(Duration::from_secs(30));
    assert!(host.ended(call).is_none(), "{:?}", host.ended(call));
}

/// The detail of the last quirk.
fn detail(host: &Host) -> &str {
    host.session.quirks().last().map_or("", |quirk| &quirk.detail)
}

#[test]
fn one_ping_per_interval_and_nothing_else() {
    let mut host = ready(legacy(), &mut listing());
    for _ in 0..50 {
        let ping = probe(&mut host);
        assert_eq!(ping["method"], "ping");
        answer(&mut host, &ping);
        assert!(host.take_sent().is_empty());
    }
    assert!(host.is_ready() && host.quirks().is_empty());
}

#[test]
fn messages_of_the_server_postpone_the_ping() {
    let mut host = ready(legacy(), &mut listing());
    for _ in 0..10 {
        host.wait(INTERVAL / 2);
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}));
    }
    assert!(host.take_sent().is_empty());
    assert_eq!(probe(&mut host)["method"], "ping");
}

/// A server that exits on the next `ping`.
fn exit_on_ping(host: &mut Host, server: &mut Server) {
    assert_eq!(probe(host)["method"], "ping");
    host.close_transport();
    reopen(host, server);
}

fn reopen(host: &mut Host, server: &mut Server) {
    host.wait(Duration::from_secs(2));
    host.transport(Transport::Opened);
    host.serve(server);
    assert!(host.is_ready(), "{:?}", host.events);
    host.take_sent();
}

#[test]
fn ping_exits_twice_in_a_row_are_one_step_down_the_ladder() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut server = listing();
    let mut host = ready(options.clone(), &mut server);
    exit_on_ping(&mut host, &mut server);
    assert!(host.quirks().is_empty(), "once may be chance");
    exit_on_ping(&mut host, &mut server);
    assert_eq!(host.quirk_methods(QuirkKind::PingExits), ["ping"]);
    for _ in 0..3 {
        let list = probe(&mut host);
        assert_eq!(list["method"], "prompts/list", "the cheapest list");
        answer(&mut host, &list);
    }
    assert!(host.is_ready());
    // It is remembered for the next connections.
    host.close_transport();
    reopen(&mut host, &mut server);
    assert_eq!(probe(&mut host)["method"], "prompts/list");

    let mut host = ready(options.clone(), &mut Server::legacy(json!({})));
    for _ in 0..2 {
        exit_on_ping(&mut host, &mut Server::legacy(json!({})));
    }
    host.wait(INTERVAL * 20);
    assert!(host.take_sent().is_empty() && host.is_ready(), "nothing replaces it");
}

#[test]
fn ping_exits_count_only_in_a_row_and_as_the_last_thing_that_was_sent() {
    let mut options = legacy();
    let mut reconnect = Reconnect::default();
    (reconnect.max_backoff, reconnect.max_losses) = (Duration::from_secs(1), 100);
    options.reconnect = Some(reconnect);
    let mut server = listing();
    // An answered `ping`, another loss, and a request or a message after the `ping` begin a new row.
    let breaks: [fn(&mut Host); 4] = [
        |host| {
            probe(host);
            host.wait(Duration::from_secs(1));
            host.receive(json!({"jsonrpc": "2.0", "method": "notifications/example"}));
            host.close_transport();
        },
        |host| {
            let ping = probe(host);
            answer(host, &ping);
            host.close_transport();
        },
        |host| host.close_transport(),
        |host| {
            probe(host);
            host.session.request(host.now, Request::call_tool("a", None)).unwrap();
            host.collect();
            host.take_sent();
            host.close_transport();
        },
    ];
    for end in breaks {
        let mut host = ready(options.clone(), &mut server);
        for _ in 0..3 {
            exit_on_ping(&mut host, &mut server);
            end(&mut host);
            reopen(&mut host, &mut server);
        }
        assert!(host.quirks().is_empty());
        assert_eq!(probe(&mut host)["method"], "ping");
    }
}

/// hermes-agent #50028, agent-framework #5634
#[test]
fn a_ping_answered_with_any_error_is_a_sign_of_life() {
    let mut host = ready(legacy(), &mut listing());
    for code in [-32603, -32602, -32000, 7] {
        let ping = probe(&mut host);
        assert_eq!(ping["method"], "ping");
        refuse(&mut host, &ping, code);
    }
    assert!(host.is_ready() && host.quirks().is_empty());
}

/// hermes-agent #50028
#[test]
fn ping_unsupported_moves_down_to_the_cheapest_list_that_worked() {
    let mut host = ready(legacy(), &mut listing());
    let ping = probe(&mut host);
    refuse(&mut host, &ping, -32601);
    assert_eq!(host.quirk_methods(QuirkKind::PingUnsupported), ["ping"]);
    assert!(detail(&host).contains("does not have `ping`"), "{}", detail(&host));
    for _ in 0..3 {
        let list = probe(&mut host);
        assert_eq!(list["method"], "prompts/list");
        answer(&mut host, &list);
    }
    assert_eq!(host.quirks().len(), 1);
    assert_eq!(host.keys(mcp_proto::Family::Prompts), ["p"], "a probe's answer is no list");
}

#[test]
fn ping_unsupported_of_a_server_without_lists_is_passive() {
    let mut host = ready(legacy(), &mut Server::legacy(json!({})));
    let ping = probe(&mut host);
    refuse(&mut host, &ping, -32601);
    host.wait(INTERVAL * 100);
    assert!(host.take_sent().is_empty() && host.is_ready());
}

/// hermes-agent #50104
#[test]
fn a_ping_without_response_beside_other_responses_is_replaced_by_a_list() {
    let mut host = ready(legacy(), &mut listing());
    assert_eq!(probe(&mut host)["method"], "ping");
    host.session.request(host.now, Request::new("tools/call")).unwrap();
    host.wait(Duration::from_secs(1));
    let call = host.take_request();
    answer(&mut host, &call);
    host.wait(TIMEOUT);
    assert_eq!(host.quirk_methods(QuirkKind::PingSilent), ["ping"]);
    assert!(detail(&host).contains("responds to other requests, but not to `ping`"), "{}", detail(&host));
    assert!(host.is_ready());
    let list = probe(&mut host);
    assert_eq!(list["method"], "prompts/list");
}

#[test]
fn a_peer_that_answers_nothing_is_dead_after_the_threshold() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut host = ready(options, &mut listing());
    assert_eq!(probe(&mut host)["method"], "ping");
    host.wait(TIMEOUT);
    assert!(host.is_ready(), "one miss is not the end");
    assert_eq!(probe(&mut host)["method"], "ping");
    host.wait(TIMEOUT);
    assert_eq!(host.take_request()["method"], "prompts/list", "a list confirms it");
    host.wait(TIMEOUT);
    assert!(!host.is_ready());
    let down = host.events.iter().find_map(|event| match event {
        Event::Down { failure, next } => Some((failure.kind, *next)),
        _ => None,
    });
    assert_eq!(down, Some((FailureKind::Closed, Recovery::Reopen { at: None })));
    assert_eq!(host.shuts, [ShutdownStep::CloseInput]);
    host.close_transport();
    host.wait(Duration::from_secs(1));
    assert_eq!(host.opens, 2, "opened again once the old transport is gone");
}

/// hermes-agent #97245
#[test]
fn an_idle_server_that_never_answers_ping_is_confirmed_by_a_list_and_not_sent_ping_again() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut server = listing();
    let mut host = ready(options, &mut server);
    for _ in 0..2 {
        assert_eq!(probe(&mut host)["method"], "ping");
        host.wait(TIMEOUT);
    }
    let list = host.take_request();
    assert_eq!(list["method"], "prompts/list");
    assert_eq!(host.quirks(), []);
    answer(&mut host, &list);
    assert_eq!(host.quirk_methods(QuirkKind::PingSilent), ["ping"]);
    for _ in 0..50 {
        let list = probe(&mut host);
        assert_eq!(list["method"], "prompts/list");
        answer(&mut host, &list);
    }
    host.close_transport();
    host.wait(Duration::from_secs(1));
    host.transport(Transport::Opened);
    host.serve(&mut server);
    assert_eq!((host.is_ready(), host.opens), (true, 2), "only the end of the transport ended the connection");
    assert_eq!(probe(&mut host)["method"], "prompts/list", "the next connection does not begin with `ping`");
}

/// A connection of this server without lists, on which `ping` is never answered.
fn until_dead(host: &mut Host) {
    for _ in 0..2 {
        assert_eq!(probe(host)["method"], "ping");
        host.wait(TIMEOUT);
    }
    assert!(!host.is_ready());
    host.close_transport();
    host.wait(Duration::from_secs(1));
    host.transport(Transport::Opened);
    host.serve(&mut Server::legacy(json!({})));
    assert!(host.is_ready());
}

#[test]
fn a_server_without_lists_that_never_answers_ping_is_restarted_once() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut host = ready(options, &mut Server::legacy(json!({})));
    until_dead(&mut host);
    assert_eq!(host.quirk_methods(QuirkKind::PingSilent), ["ping"]);
    assert!(detail(&host).contains("never responds to `ping`"), "{}", detail(&host));
    host.wait(INTERVAL * 1000);
    assert_eq!((host.take_sent().len(), host.is_ready(), host.opens), (0, true, 2));
}

#[test]
fn a_server_without_lists_that_answered_ping_before_is_restarted_each_time_it_does_not() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut host = ready(options, &mut Server::legacy(json!({})));
    let ping = probe(&mut host);
    answer(&mut host, &ping);
    for _ in 0..3 {
        until_dead(&mut host);
    }
    assert_eq!((host.opens, host.quirks()), (4, vec![]));
}

#[test]
fn a_list_that_confirms_counts_as_answered_by_any_response() {
    for code in [-32603, -32601] {
        let mut host = ready(legacy(), &mut listing());
        for _ in 0..2 {
            probe(&mut host);
            host.wait(TIMEOUT);
        }
        let list = host.take_request();
        refuse(&mut host, &list, code);
        assert_eq!(host.quirk_methods(QuirkKind::PingSilent), ["ping"]);
        host.wait(INTERVAL);
        let methods = host.take_methods();
        assert_eq!(methods, if code == -32601 { vec![] } else { vec!["prompts/list"] });
        assert!(host.is_ready());
    }
}

#[test]
fn a_confirming_list_is_cancelled_while_other_messages_arrive() {
    let mut host = ready(legacy(), &mut listing());
    for _ in 0..2 {
        probe(&mut host);
        host.wait(TIMEOUT);
    }
    assert_eq!(host.take_request()["method"], "prompts/list");
    host.wait(Duration::from_secs(1));
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}));
    host.wait(INTERVAL * 10);
    assert_eq!(host.quirk_methods(QuirkKind::PingSilent), ["ping"]);
    assert!(host.is_ready() && host.take_without_cancellations().is_empty());
}

#[test]
fn a_connection_may_end_while_a_list_confirms_and_time_may_jump() {
    let mut host = ready(legacy(), &mut listing());
    for _ in 0..2 {
        probe(&mut host);
        host.wait(TIMEOUT);
    }
    assert_eq!(host.take_request()["method"], "prompts/list");
    host.now = host.now + Duration::from_secs(86_400);
    host.session.handle_timeout(host.now);
    host.collect();
    assert!(host.is_ready() && host.take_sent().is_empty());
    assert_eq!(host.session.deadline(), Some(host.now + TIMEOUT), "the response has its time once more");
    host.close_transport();
    assert_eq!(host.failure_kind(), Some(FailureKind::Closed));
    assert!(host.quirks().is_empty());
}

#[test]
fn a_long_call_in_flight_is_not_probed() {
    let mut host = ready(legacy(), &mut listing());
    let call = Request::new("tools/call").timeout(Duration::from_secs(3600));
    let call = host.session.request(host.now, call).unwrap();
    host.collect();
    let sent = host.take_request();
    host.wait(Duration::from_secs(3000));
    assert!(host.take_sent().is_empty());
    answer(&mut host, &sent);
    assert!(matches!(host.result_of(call), mcp_proto::Outcome::Result(_)));
    assert_eq!(probe(&mut host)["method"], "ping");
}

/// hermes-agent #44550
#[test]
fn tools_list_keeps_a_server_with_tools_alive_and_ping_one_without() {
    let mut by_list = legacy();
    let mut keepalive = Keepalive::default();
    keepalive.method = KeepaliveMethod::ToolsList;
    by_list.keepalive = Some(keepalive);
    let mut with_tools = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = ready(by_list.clone(), &mut with_tools);
    assert_eq!(probe(&mut host)["method"], "tools/list");

    let mut prompts_alone = Server::legacy(json!({"prompts": {}})).result("prompts/list", json!({"prompts": []}));
    let mut host = ready(by_list, &mut prompts_alone);
    assert_eq!(probe(&mut host)["method"], "ping");
    assert_eq!(prompts_alone.received("tools/list"), 0);
}

#[test]
fn a_response_that_is_late_because_the_clock_jumped_does_not_count_as_missed() {
    for (method, server) in [
        (KeepaliveMethod::Ping, &mut listing()),
        (KeepaliveMethod::ToolsList, &mut listing()),
        (KeepaliveMethod::Ping, &mut Server::legacy(json!({}))),
    ] {
        for threshold in [1, 3] {
            let mut options = legacy();
            let mut keepalive = Keepalive::default();
            (keepalive.threshold, keepalive.method) = (threshold, method);
            options.keepalive = Some(keepalive);
            let mut host = ready(options, server);
            let ping = probe(&mut host);
            // The machine sleeps for a day, and its timers fire when it wakes.
            host.now = host.now + Duration::from_secs(86_400);
            host.session.handle_timeout(host.now);
            host.collect();
            assert!(host.is_ready(), "{:?}", host.failure());
            assert_eq!((host.take_sent(), host.session.deadline()), (vec![], Some(host.now + TIMEOUT)));
            answer(&mut host, &ping);
            assert!(host.is_ready() && host.session.stats().late_answers == 0);
            for _ in 0..threshold {
                probe(&mut host);
                host.wait(TIMEOUT);
            }
            host.wait(TIMEOUT);
            assert!(!host.is_ready(), "awake, a silent peer is dead again");
        }
    }
}

#[test]
fn a_modern_server_gets_keepalive_requests_only_if_the_options_say_so() {
    let modern = || Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = ready(options(), &mut modern());
    host.wait(INTERVAL * 100);
    assert!(host.take_sent().is_empty() && host.is_ready());

    let mut asking = options();
    let mut keepalive = Keepalive::default();
    keepalive.discover = true;
    asking.keepalive = Some(keepalive);
    let mut host = ready(asking, &mut modern());
    let discover = probe(&mut host);
    assert_eq!(discover["method"], "server/discover");
    assert!(discover["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string());
    answer(&mut host, &discover);
    assert_eq!(probe(&mut host)["method"], "server/discover");
}

#[test]
fn without_a_keepalive_no_request_is_sent() {
    let mut options = legacy();
    options.keepalive = None;
    let mut host = ready(options, &mut listing());
    assert_eq!(host.session.deadline(), None);
    host.wait(INTERVAL * 100);
    assert!(host.take_sent().is_empty());
}

#[test]
fn each_connection_starts_its_own_keepalive() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut server = listing();
    let mut host = ready(options, &mut server);
    let ping = probe(&mut host);
    refuse(&mut host, &ping, -32601);
    host.close_transport();
    host.wait(Duration::from_secs(1));
    host.transport(Transport::Opened);
    host.serve(&mut server);
    assert!(host.is_ready());
    assert_eq!(probe(&mut host)["method"], "ping");
}

/// Whatever is armed with a wait of nothing is due later than now: a loop over the deadlines comes to an end.
#[test]
fn a_timeout_of_zero_is_later_than_now() {
    let mut options = legacy();
    let mut keepalive = Keepalive::default();
    keepalive.timeout = Duration::ZERO;
    options.keepalive = Some(keepalive);
    let mut host = ready(options, &mut listing());
    host.wait(INTERVAL);
    for _ in 0..10 {
        let Some(deadline) = host.session.deadline() else { return };
        host.now = host.now.max(deadline);
        host.session.handle_timeout(host.now);
        host.collect();
        assert!(host.session.deadline().is_none_or(|next| next > host.now), "due again at {:?}", host.now);
    }
}
