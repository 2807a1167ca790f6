//! Cancellations in both directions: the requests, the reasons, and the deadline that passed.

use crate::common::{Host, Server, legacy, reconnecting, seconds, tools};
use mcp_proto::{Event, FailureKind, Keepalive, Options, Outcome, Request, RequestId, TimeBound};
use serde_json::{Value, json};

fn server() -> Server {
    Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"]))
}

fn ready(options: Options) -> Host {
    let host = Host::connect(options, &mut server());
    assert!(host.is_ready());
    host
}

fn call(host: &mut Host, request: Request) -> (RequestId, Value) {
    let id = host.session.request(host.now, request).unwrap();
    host.collect();
    (id, host.take_one())
}

/// The ids and reasons of the cancellations sent since the last call.
fn cancelled(host: &mut Host) -> Vec<(Value, String)> {
    let sent = host.take_sent();
    let cancelled = sent.iter().filter(|message| message["method"] == "notifications/cancelled");
    cancelled.map(|it| (it["params"]["requestId"].clone(), it["params"]["reason"].as_str().unwrap().into())).collect()
}

#[test]
fn the_reason_of_the_embedder_is_sent() {
    let mut host = ready(legacy());
    let (id, sent) = call(&mut host, Request::call_tool("x", None));
    host.session.cancel_with_reason(host.now, id, "the user\nchanged \"their\" mind").unwrap();
    host.collect();
    assert_eq!(cancelled(&mut host), [(sent["id"].clone(), "the user\nchanged \"their\" mind".into())]);
    assert!(matches!(host.result_of(id), Outcome::Cancelled));
}

#[cfg(feature = "http")]
#[test]
fn the_reason_of_the_embedder_of_a_hub_is_sent() {
    let mut rig = crate::rig::Rig::of(legacy()).peer("a", server()).up(&["a"]);
    rig.get("a").unanswered = Some("tools/call");
    let session = rig.hub.handle("a").unwrap();
    let request = rig.hub.session_mut(session).request(rig.now, Request::call_tool("x", None)).unwrap();
    rig.collect();
    rig.serve();
    rig.hub.session_mut(session).cancel_with_reason(rig.now, request, "not now").unwrap();
    rig.collect();
    rig.serve();
    let sent = rig.get("a").server.messages().any(|message| message["params"]["reason"] == "not now");
    assert!(sent);
}

#[test]
fn the_reason_of_the_server_is_reported() {
    for (params, expected) in [
        (json!({"requestId": "q", "reason": "too late"}), Some("too late".to_owned())),
        (json!({"requestId": "q"}), None),
        (json!({"requestId": "q", "reason": 1}), None),
        (json!({"requestId": "q", "reason": "x".repeat(10_000)}), Some("x".repeat(200) + "…")),
    ] {
        let mut options = legacy();
        options.capabilities.elicitation = true;
        let mut host = ready(options);
        let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
        host.receive(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}));
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        let ended = host.events.iter().find_map(|event| match event {
            Event::ServerRequestEnded { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        assert_eq!(ended.unwrap().as_deref(), expected.as_deref());
    }
}

#[test]
fn a_cancellation_of_an_unknown_or_malformed_id_changes_nothing() {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    let mut host = ready(options);
    let (call, sent) = call(&mut host, Request::call_tool("x", None));
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    host.receive(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}));
    let before = host.events.len();
    for params in [
        json!({"requestId": "another"}),
        json!({"requestId": 7, "reason": "x"}),
        // The id of a request of the client's.
        json!({"requestId": sent["id"]}),
        json!({"requestId": null}),
        json!({"requestId": ["q"]}),
        json!({"requestId": {"q": "q"}}),
        json!({"requestId": true}),
        json!({"reason": "q"}),
        json!({}),
        json!(["q"]),
        json!(null),
    ] {
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        assert!(host.take_sent().is_empty(), "{params}");
        assert_eq!(host.events.len(), before, "{params}: {:?}", host.events.last());
    }
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}));
    assert_eq!((host.events.len(), host.quirks()), (before, vec![]));
    let ask = host.events.iter().find_map(|event| match event {
        Event::ServerRequest { id, .. } => Some(*id),
        _ => None,
    });
    let decline = serde_json::value::to_raw_value(&json!({"action": "decline"})).unwrap();
    host.session.respond(host.now, ask.unwrap(), Ok(&decline)).unwrap();
    host.collect();
    assert_eq!(host.take_one(), json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}));
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": {"content": []}}));
    assert!(matches!(host.result_of(call), Outcome::Result(_)));
}

#[test]
fn a_timeout_names_the_deadline_that_passed() {
    for (progress, max, expected) in
        [(0, 90, TimeBound::Timeout), (1, 90, TimeBound::Timeout), (4, 90, TimeBound::Total)]
    {
        let mut host = ready(legacy());
        let request = Request::call_tool("x", None).timeout(seconds(30)).max_timeout(seconds(max)).progress(true);
        let (id, sent) = call(&mut host, request);
        for step in 0..progress {
            host.wait(seconds(20));
            let params = json!({"progressToken": sent["params"]["_meta"]["progressToken"], "progress": step});
            host.receive(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        host.wait(seconds(30));
        let Outcome::TimedOut(bound) = host.result_of(id) else { panic!("{:?}", host.result_of(id)) };
        assert_eq!(*bound, expected, "{progress}");
        assert_eq!(cancelled(&mut host), [(sent["id"].clone(), "no response in time".into())]);
    }
    let mut host = ready(legacy());
    let request = Request::call_tool("x", None).timeout(seconds(30)).max_timeout(seconds(30));
    let (id, _) = call(&mut host, request);
    host.wait(seconds(30));
    assert!(
        matches!(host.result_of(id), Outcome::TimedOut(TimeBound::Timeout)),
        "both deadlines passed without a message"
    );
}

#[test]
fn a_keepalive_request_without_a_response_is_cancelled() {
    let mut options = legacy();
    let mut keepalive = Keepalive::default();
    (keepalive.interval, keepalive.timeout, keepalive.threshold) = (seconds(30), seconds(10), 3);
    options.keepalive = Some(keepalive);
    let mut host = ready(options);
    host.wait(seconds(30));
    let ping = host.take_one();
    assert_eq!(ping["method"], "ping");
    host.wait(seconds(10));
    assert_eq!(cancelled(&mut host), [(ping["id"].clone(), "no response in time".into())]);
}

#[test]
fn lists_that_the_end_of_discovery_cuts_off_are_cancelled() {
    let mut options = reconnecting(legacy());
    options.tolerance.list_errors = mcp_proto::ListErrors::Degrade;
    options.timeouts.request = seconds(900);
    options.timeouts.discovery = seconds(20);
    let mut host = Host::open(options);
    let mut server = Server::legacy(json!({"tools": {}, "prompts": {}}));
    for _ in 0..2 {
        let sent = host.take_sent();
        let answers: Vec<_> = sent.iter().flat_map(|message| server.answer(message)).collect();
        answers.into_iter().for_each(|answer| host.receive(answer));
        if host.sent.iter().any(|message| message["method"] == "tools/list") {
            break;
        }
    }
    let mut lists: Vec<_> = host.take_sent().iter().filter_map(|message| message.get("id").cloned()).collect();
    assert_eq!(lists.len(), 2);
    host.wait(seconds(20));
    let mut sent: Vec<_> = cancelled(&mut host).into_iter().map(|(id, _)| id).collect();
    lists.sort_by_key(Value::as_u64);
    sent.sort_by_key(Value::as_u64);
    assert_eq!(sent, lists);
    assert!(host.is_ready());
}

/// "The `initialize` request MUST NOT be cancelled by clients" (specification 2025-11-25, "Cancellation").
#[test]
fn initialize_is_not_cancelled() {
    let mut host = Host::open(legacy());
    assert_eq!(host.take_one()["method"], "initialize");
    host.wait(seconds(60));
    assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeTimeout));
    assert!(cancelled(&mut host).is_empty());
}
