//! Rows of the keepalive: unanswered requests, lists that no longer work as a probe, a modern server.

use mcp_proto::{
    Cause, Event, FailureKind, Keepalive, KeepaliveMethod, Options, QuirkKind, Recovery, ShutdownStep, Transport,
};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use crate::rows::{notify, refuse, reply};

const INTERVAL: u64 = 60;
const TIMEOUT: u64 = 30;

fn kept_alive(mut options: Options) -> Options {
    let mut keepalive = Keepalive::default();
    keepalive.discover = true;
    options.keepalive = Some(keepalive);
    options
}

fn ready(options: Options, server: &mut Server) -> Host {
    let mut host = Host::connect(options, server);
    assert!(host.is_ready());
    host.take_sent();
    host
}

/// The request that is sent after the interval.
fn due(host: &mut Host, method: &str) -> Value {
    host.wait(seconds(INTERVAL));
    let request = host.take_request();
    assert_eq!(request["method"], method);
    request
}

/// The request is not answered, another message arrives meanwhile, and the response comes late.
fn pass_over(host: &mut Host, request: &Value) {
    host.wait(seconds(1));
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}));
    host.wait(seconds(TIMEOUT));
    reply(host, request, json!({}));
    assert_eq!(host.session.stats().late_answers, 1, "the request was cancelled");
}

/// No further request is sent, and the session stays open.
fn assert_passive(mut host: Host, quirks: &[QuirkKind]) {
    assert_eq!((host.take_without_cancellations().len(), host.session.deadline()), (0, None));
    host.wait(seconds(20 * INTERVAL));
    assert!(host.take_sent().is_empty());
    assert!(host.is_ready());
    assert_eq!(host.quirks(), quirks);
}

#[test]
fn without_a_list_an_unanswered_ping_beside_other_messages_is_the_last_one() {
    let mut host = ready(kept_alive(legacy()), &mut Server::legacy(json!({})));
    let ping = due(&mut host, "ping");
    pass_over(&mut host, &ping);
    assert_passive(host, &[QuirkKind::PingSilent]);
}

/// A client whose keepalive uses the only list, which is incomplete by now.
fn listing_a_part() -> (Host, Value) {
    let mut options = kept_alive(legacy());
    options.keepalive.as_mut().unwrap().method = KeepaliveMethod::ToolsList;
    options.limits.pages = 1;
    let server = Server::legacy(json!({"tools": {"listChanged": true}}));
    let mut host = ready(options, &mut server.result("tools/list", tools(&["a"])));
    let list = due(&mut host, "tools/list");
    notify(&mut host, "notifications/tools/list_changed");
    host.wait(seconds(2));
    let refresh = host.take_request();
    let mut part = tools(&["a"]);
    part["nextCursor"] = json!("2");
    reply(&mut host, &refresh, part);
    (host, list)
}

#[test]
fn after_the_list_is_lost_an_unknown_method_ends_the_requests() {
    let (mut host, list) = listing_a_part();
    refuse(&mut host, &list, -32601, "Method not found");
    assert_passive(host, &[QuirkKind::ListLimit]);
}

#[test]
fn after_the_list_is_lost_no_list_is_requested() {
    let (mut host, list) = listing_a_part();
    reply(&mut host, &list, json!({"tools": []}));
    assert!(host.session.deadline().is_some());
    host.wait(seconds(INTERVAL));
    assert_passive(host, &[QuirkKind::ListLimit]);
}

#[test]
fn after_the_list_is_lost_an_unanswered_list_is_the_last_one() {
    let (mut host, list) = listing_a_part();
    pass_over(&mut host, &list);
    assert_passive(host, &[QuirkKind::ListLimit]);
}

#[test]
fn a_server_without_tools_gets_its_smallest_list_though_the_tools_are_preferred() {
    let mut options = kept_alive(legacy());
    options.keepalive.as_mut().unwrap().method = KeepaliveMethod::ToolsList;
    let server = Server::legacy(json!({"prompts": {}}));
    let mut host = ready(options, &mut server.result("prompts/list", json!({"prompts": []})));
    let ping = due(&mut host, "ping");
    refuse(&mut host, &ping, -32601, "Method not found");
    due(&mut host, "prompts/list");
}

#[test]
fn a_server_that_does_not_answer_its_list_counts_as_lost() {
    let without_ping: [fn(&mut Host, &Value); 2] =
        [|host, ping| refuse(host, ping, -32601, "Method not found"), pass_over];
    for without_ping in without_ping {
        let server = Server::legacy(json!({"prompts": {}}));
        let mut host = ready(kept_alive(legacy()), &mut server.result("prompts/list", json!({"prompts": []})));
        let ping = due(&mut host, "ping");
        without_ping(&mut host, &ping);
        host.take_sent();
        for _ in 0..2 {
            assert!(host.is_ready());
            due(&mut host, "prompts/list");
            host.wait(seconds(TIMEOUT));
        }
        assert_eq!(host.failure_kind(), Some(FailureKind::Closed));
    }
}

#[test]
fn a_message_puts_off_the_list_of_a_keepalive() {
    let mut options = kept_alive(legacy());
    options.keepalive.as_mut().unwrap().method = KeepaliveMethod::ToolsList;
    let server = Server::legacy(json!({"tools": {}}));
    let mut host = ready(options, &mut server.result("tools/list", tools(&["a"])));
    host.wait(seconds(INTERVAL / 2));
    notify(&mut host, "acme/told");
    host.wait(seconds(INTERVAL - 1));
    assert!(host.take_sent().is_empty());
    host.wait(seconds(1));
    assert_eq!(host.take_methods(), ["tools/list"]);
}

fn modern(capabilities: Value) -> Server {
    Server::modern(capabilities).result("tools/list", tools(&["a"]))
}

#[test]
fn a_modern_server_without_discover_any_more_is_not_sent_it_again() {
    let mut host = ready(kept_alive(options()), &mut modern(json!({"tools": {}})));
    let discover = due(&mut host, "server/discover");
    refuse(&mut host, &discover, -32601, "Method not found");
    assert_passive(host, &[]);
}

#[test]
fn a_modern_server_that_answers_other_requests_but_not_discover_is_not_sent_it_again() {
    for capabilities in [json!({"tools": {}}), json!({})] {
        let mut host = ready(kept_alive(options()), &mut modern(capabilities));
        let discover = due(&mut host, "server/discover");
        pass_over(&mut host, &discover);
        assert_passive(host, &[]);
    }
}

#[test]
fn a_modern_server_that_does_not_answer_discover_counts_as_lost() {
    let mut host = ready(kept_alive(options()), &mut modern(json!({"tools": {}})));
    due(&mut host, "server/discover");
    host.wait(seconds(TIMEOUT));
    assert!(host.is_ready(), "once is not enough");
    host.wait(seconds(INTERVAL + TIMEOUT));
    assert_eq!(host.failure_kind(), Some(FailureKind::Closed));
    assert!(
        host.failure().unwrap().message.contains("did not respond to keepalive requests, and sent nothing for 180s")
    );
}

#[test]
fn a_clock_that_jumps_while_discover_is_in_flight_is_no_timeout() {
    let mut host = ready(kept_alive(options()), &mut modern(json!({"tools": {}})));
    for _ in 0..3 {
        let discover = due(&mut host, "server/discover");
        host.now = host.now + seconds(3600);
        host.session.handle_timeout(host.now);
        host.collect();
        assert!(host.is_ready() && host.take_sent().is_empty());
        assert_eq!(host.session.deadline(), Some(host.now + seconds(TIMEOUT)), "the response gets its full time again");
        reply(&mut host, &discover, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    }
    assert!(host.is_ready());
}

/// A client without reconnects whose server does not answer: its transport is being shut down.
fn retiring() -> Host {
    let mut options = kept_alive(reconnecting(legacy()));
    options.reconnect.as_mut().unwrap().max_losses = 0;
    let mut host = ready(options, &mut Server::legacy(json!({})));
    due(&mut host, "ping");
    host.wait(seconds(TIMEOUT));
    due(&mut host, "ping");
    assert_eq!(host.shuts, []);
    host.now = host.session.deadline().unwrap();
    host.session.handle_timeout(host.now);
    host.collect();
    assert_eq!(host.shuts, [ShutdownStep::CloseInput], "the transport is shut down first");
    host
}

#[test]
fn a_server_that_does_not_respond_parks_a_client_without_a_reconnect_budget() {
    let mut host = retiring();
    let park = host.session.options().reconnect.unwrap().parked_backoff;
    let until = host.now + park;
    let Some(Event::Down { failure, next: Recovery::Parked { until: told, .. } }) = host.events.last() else {
        panic!("{:?}", host.events.last())
    };
    assert_eq!((failure.kind, *told), (FailureKind::Closed, until));
    host.transport(Transport::Closed { why: "exit status 0" });
    host.wait(park - seconds(1));
    assert_eq!(host.opens, 1);
    host.wait(seconds(2));
    assert_eq!(host.opens, 2);
}

#[test]
fn a_client_that_is_closed_before_it_is_parked_ends_with_its_transport() {
    let mut host = retiring();
    host.session.close(host.now).unwrap();
    host.collect();
    assert!(!host.session.is_closed());
    host.transport(Transport::Closed { why: "exit status 0" });
    assert!(matches!(host.events.last(), Some(Event::Closed { cause: Cause::Requested })));
    assert!(host.session.is_closed() && host.opens == 1);
}
