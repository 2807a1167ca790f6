//! A program that is not used, or that is old, is stopped, and started again when it is used.

use std::time::Duration;

use crate::common::{KEY, Server, legacy, options, reconnecting, seconds, tools};
use crate::rig::{Behaviour, Rig, configuration, full, programs};
use mcp_proto::host::hub::ServerState as State;
use mcp_proto::host::hub::{HubCommandError, HubOptions};
use mcp_proto::protocol::{Family, Root};
use mcp_proto::{Keepalive, Request};
use serde_json::{Value, json};

const CALL: &str = "mcp_a_x";
const LIST: &str = "mcp_a_list_prompts";

/// How long nothing may use the server.
const IDLE: Duration = Duration::from_secs(60);
/// How old a connection may be.
const OLD: Duration = Duration::from_secs(200);

/// The server `a`, up, with these keys in its entry.
fn up_with(options: HubOptions, keys: &Value) -> Rig {
    let mut rig = Rig::new(options).peer("a", full(&["x"], &["r"], &["p"])).peer("b", full(&["x"], &[], &[]));
    let mut entry = json!({"command": "a", "timeout": 900});
    entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rig.configure(configuration(json!({"a": entry})));
    rig.open();
    rig.serve();
    assert_eq!(rig.state("a"), Some(State::Ready));
    rig.take_log();
    rig
}

fn idle() -> Rig {
    up_with(HubOptions::new(legacy()), &json!({"idle_timeout": 60}))
}

fn old() -> Rig {
    up_with(HubOptions::new(legacy()), &json!({"max_lifetime": 200}))
}

/// The server `a`, which was not used for its idle timeout.
fn resting() -> Rig {
    let mut rig = idle();
    rig.wait(IDLE);
    assert!(rests(&rig), "{:?}", rig.log);
    rig
}

/// As `resting`, while its program has not exited yet.
fn stopping() -> Rig {
    let mut rig = idle();
    rig.get("a").ignores_end_of_input = true;
    rig.wait(IDLE);
    assert!(rig.state("a") == Some(State::Suspended) && rig.runs("a"));
    rig
}

fn rests(rig: &Rig) -> bool {
    rig.state("a") == Some(State::Suspended) && !rig.runs("a")
}

fn is_up(rig: &Rig) -> bool {
    rig.state("a") == Some(State::Ready) && rig.runs("a")
}

/// Waits until just before the end of a time, and then until it.
fn rests_after(rig: &mut Rig, time: Duration) {
    rig.wait(time - Duration::from_millis(5));
    assert!(is_up(rig), "{:?}", rig.log);
    rig.wait(Duration::from_millis(10));
    assert!(rests(rig), "{:?}", rig.log);
}

#[test]
fn a_program_that_nothing_uses_is_stopped_and_its_functions_stay() {
    let mut rig = idle();
    let functions = rig.functions();
    rests_after(&mut rig, IDLE);
    assert_eq!(rig.take_log(), ["a: rests", "a: shut"]);
    assert_eq!(rig.functions(), functions);
    assert!(rig.hub.toolset("a").is_some() && rig.hub.choice("a").is_some());
    let report = rig.hub.servers().next().unwrap();
    assert!(report.failure.is_none() && report.refused_until.is_none() && report.saved_at.is_none());
    assert_eq!(rig.hub.deadline(), None, "nothing is due while it rests");
    rig.wait(seconds(100_000));
    assert!(rests(&rig) && rig.take_log().is_empty());
}

#[test]
fn a_call_starts_it_again_at_once_and_is_sent_once() {
    let mut rig = resting();
    let (handle, start) = (rig.hub.handle("a"), rig.now);
    rig.take_log();
    let call = rig.call(CALL);
    assert_eq!(rig.outcome(call), "open");
    rig.serve();
    assert!(rig.outcome(call).contains("content"), "{:?}", rig.log);
    assert_eq!(rig.now, start, "there is no backoff");
    assert_eq!(rig.hub.handle("a"), handle, "it is the same session");
    assert_eq!(rig.received_params("a", "tools/call").len(), 1);
    assert_eq!(rig.received_params("a", "initialize").len(), 2);
    assert!(!rig.log.iter().any(|line| line.contains("failed") || line.contains(" + ")), "{:?}", rig.log);
    rests_after(&mut rig, IDLE);
    let call = rig.call(CALL);
    rig.serve();
    assert!(rig.outcome(call).contains("content"));
}

#[test]
fn whatever_uses_it_starts_it_again() {
    type Use = fn(&mut Rig);
    let uses: [(&str, Use); 4] = [
        ("start", |rig| rig.hub.start(rig.now, "a").unwrap()),
        ("a call", |rig| _ = rig.call(CALL)),
        ("a list", |rig| _ = rig.call(LIST)),
        ("a request", |rig| {
            let session = rig.hub.handle("a").unwrap();
            rig.hub.session_mut(session).request(rig.now, Request::call_tool("x", None)).unwrap();
        }),
    ];
    for (what, uses) in uses {
        let mut rig = resting();
        uses(&mut rig);
        rig.collect();
        rig.serve();
        assert!(is_up(&rig), "{what}: {:?}", rig.log);
        assert_eq!(rig.open_calls(), [], "{what}");
        rests_after(&mut rig, IDLE);
    }
}

#[test]
fn a_list_is_answered_by_the_lists_that_it_has_then() {
    let mut rig = resting();
    rig.answers("a", "prompts/list", json!({"prompts": [{"name": "q"}]}));
    let call = rig.call(LIST);
    rig.serve();
    assert!(rig.outcome(call).contains(r#""q""#), "{}", rig.outcome(call));
}

#[test]
fn a_subscription_starts_it_again_and_keeps_it_up() {
    let mut rig = Rig::of(legacy());
    let capabilities = json!({"tools": {}, "resources": {"subscribe": true}});
    let server = Server::legacy(capabilities)
        .result("tools/list", tools(&["x"]))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/subscribe", json!({}))
        .result("resources/unsubscribe", json!({}));
    rig = rig.peer("a", server);
    rig.configure(configuration(json!({"a": {"command": "a", "idle_timeout": 60, "max_lifetime": 200}})));
    rig.open();
    rig.wait(IDLE);
    assert!(rests(&rig));
    let session = rig.hub.handle("a").unwrap();
    rig.hub.session_mut(session).subscribe(rig.now, "r:r").unwrap();
    rig.collect();
    rig.wait(seconds(1000));
    assert!(is_up(&rig), "{:?}", rig.log);
    assert_eq!(rig.received_params("a", "resources/subscribe").len(), 1);
    rig.hub.session_mut(session).unsubscribe(rig.now, "r:r").unwrap();
    rig.collect();
    rig.wait(seconds(1));
    assert!(rests(&rig), "it is old: {:?}", rig.log);
}

#[test]
fn each_use_begins_the_idle_timeout_anew() {
    let mut rig = idle();
    let session = rig.hub.handle("a").unwrap();
    rig.wait(seconds(50));
    rig.call(CALL);
    rig.wait(seconds(50));
    rig.call(LIST);
    rig.wait(seconds(50));
    rig.hub.session_mut(session).refresh(rig.now, Family::Tools).unwrap();
    rig.collect();
    rig.wait(seconds(50));
    assert!(is_up(&rig));
    rests_after(&mut rig, IDLE - seconds(50));
}

#[test]
fn messages_of_the_server_are_no_use() {
    let mut session = legacy();
    session.keepalive = Some(Keepalive::default());
    let mut rig = up_with(HubOptions::new(session), &json!({"idle_timeout": 600}));
    rig.wait(seconds(590));
    assert!(rig.received_params("a", "ping").len() > 1, "keepalive requests are no use, either");
    rig.write_to_output(
        "a",
        &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}),
    );
    rests_after(&mut rig, seconds(10));
    let pings = rig.received_params("a", "ping").len();
    rig.wait(seconds(10_000));
    assert_eq!(rig.received_params("a", "ping").len(), pings, "a server that rests gets no keepalive requests");
}

#[test]
fn no_call_is_cut_off() {
    for mut rig in [idle(), old()] {
        rig.get("a").unanswered = Some("tools/call");
        let call = rig.call(CALL);
        rig.wait(seconds(800));
        assert!(is_up(&rig) && rig.outcome(call) == "open");
        rig.release("a");
        assert!(rig.outcome(call).contains("content"));
        assert!(is_up(&rig), "the answer is a use");
        rig.wait(IDLE);
        assert!(rests(&rig), "{:?}", rig.log);
    }
}

#[test]
fn a_server_request_that_waits_for_a_response_keeps_it_up() {
    let mut session = legacy();
    session.capabilities.elicitation = true;
    session.timeouts.server_request = seconds(900);
    let mut rig = up_with(HubOptions::new(session), &json!({"idle_timeout": 60}));
    rig.write_to_output(
        "a",
        &json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}),
    );
    rig.wait(seconds(600));
    assert!(is_up(&rig), "{:?}", rig.log);
    rig.write_to_output(
        "a",
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
    );
    rig.wait(seconds(1));
    assert!(rests(&rig), "{:?}", rig.log);
}

#[test]
fn an_old_program_is_stopped_however_often_it_is_used() {
    let mut rig = old();
    for second in 0..OLD.as_secs() {
        assert!(is_up(&rig), "{second}");
        rig.call(CALL);
        rig.wait(seconds(1));
    }
    rig.wait(seconds(1));
    assert!(rests(&rig), "{:?}", rig.log);
    rig.call(CALL);
    rig.wait(OLD - seconds(1));
    assert!(is_up(&rig), "the next one is new");
    rig.wait(seconds(2));
    assert!(rests(&rig));
    assert_eq!(rig.received_params("a", "tools/call").len(), 201);
}

#[test]
fn a_call_waits_until_the_program_before_has_exited() {
    let mut rig = stopping();
    let call = rig.call(CALL);
    rig.serve();
    assert_eq!((rig.outcome(call).as_str(), rig.state("a")), ("open", Some(State::Starting)));
    rig.end_process("a");
    rig.serve();
    assert!(rig.outcome(call).contains("content"), "{:?}", rig.log);
    assert_eq!(rig.received_params("a", "tools/call").len(), 1);
}

#[test]
fn a_program_that_does_not_exit_is_stopped_harder() {
    let mut rig = stopping();
    rig.wait(seconds(60));
    assert!(rests(&rig));
    assert_eq!(rig.count("a: shut"), 3, "{:?}", rig.log);
}

#[test]
fn a_call_waits_for_the_start_no_longer_than_its_timeout() {
    let mut rig = resting();
    rig.set_behaviour("a", Behaviour::Silent);
    let call = rig.hub.call_with(rig.now, CALL, None, |request| request.timeout(seconds(5))).unwrap();
    rig.accept(call);
    rig.wait(seconds(6));
    assert_eq!(rig.outcome(call), "TimedOut");
    assert!(rig.received_params("a", "tools/call").is_empty());
}

#[test]
fn a_program_that_does_not_start_again_is_a_failure() {
    let mut rig = up_with(HubOptions::new(reconnecting(legacy())), &json!({"idle_timeout": 60}));
    rig.wait(IDLE);
    rig.set_behaviour("a", Behaviour::DoesNotStart);
    let call = rig.call(CALL);
    rig.serve();
    assert_eq!(rig.count("a failed, again"), 1, "{:?}", rig.log);
    rig.set_behaviour("a", Behaviour::Answers);
    rig.wait(seconds(400));
    assert!(rig.outcome(call).contains("content"), "{:?}", rig.log);
}

#[test]
fn a_rest_is_no_failure_to_the_breaker() {
    let mut rig = idle();
    for _ in 0..10 {
        rig.wait(IDLE);
        assert!(rests(&rig));
        let call = rig.call(CALL);
        rig.serve();
        assert!(rig.outcome(call).contains("content"));
    }
}

#[test]
fn a_start_waits_for_room() {
    let mut options = HubOptions::new(legacy());
    options.starts = 1;
    let mut rig = up_with(options, &json!({"idle_timeout": 60}));
    rig.wait(IDLE);
    rig.set_behaviour("b", Behaviour::Silent);
    let a = rig.hub.configuration().servers["a"].clone();
    let mut both = programs(&["b"]);
    both.servers.insert("a".into(), a);
    rig.configure(both);
    rig.serve();
    let call = rig.call(CALL);
    rig.serve();
    assert_eq!((rig.outcome(call).as_str(), rig.state("a")), ("open", Some(State::Queued)));
    rig.exit("b");
    rig.wait(seconds(100));
    assert!(rig.outcome(call).contains("content"), "{:?}", rig.log);
}

#[test]
fn saved_lists_do_not_replace_those_of_a_server_that_rests() {
    let mut rig = resting();
    let saved = rig.hub.save(rig.now, "a", KEY, 7).expect("its lists are known");
    let error = rig.hub.restore(rig.now, "a", saved).unwrap_err();
    assert_eq!(error, HubCommandError::Started { server: "a".into() });
    assert!(rests(&rig));
}

#[test]
fn a_server_that_rests_can_be_removed_changed_and_closed() {
    for mut rig in [resting(), stopping()] {
        rig.configure(configuration(json!({})));
        rig.end_process("a");
        rig.serve();
        assert!(rig.functions().is_empty() && !rig.runs("a") && rig.hub.handle("a").is_none());
    }
    for mut rig in [resting(), stopping()] {
        rig.configure(configuration(json!({"a": {"command": "a", "timeout": 3}})));
        rig.end_process("a");
        rig.serve();
        assert!(is_up(&rig), "{:?}", rig.log);
    }
    let starting = || {
        let mut rig = stopping();
        rig.call(CALL);
        rig
    };
    for mut rig in [resting(), stopping(), starting()] {
        rig.close();
        rig.end_process("a");
        rig.serve();
        assert!(rig.hub.is_closed() && !rig.runs("a"), "{:?}", rig.log);
        assert_eq!(rig.open_calls(), []);
    }
}

#[test]
fn a_required_server_that_rests_is_not_missing_until_it_is_called() {
    let mut session = legacy();
    session.reconnect = None;
    let mut options = HubOptions::new(session);
    options.required = ["a".into(), "b".into()].into();
    let mut rig = up_with(options, &json!({"idle_timeout": 60}));
    assert_eq!(rig.hub.missing().collect::<Vec<_>>(), ["b"]);
    rig.wait(IDLE);
    assert!(rests(&rig));
    assert_eq!(rig.hub.missing().collect::<Vec<_>>(), ["b"]);
    rig.set_behaviour("a", Behaviour::DoesNotStart);
    rig.call(CALL);
    rig.serve();
    assert_eq!(rig.hub.missing().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn what_was_set_for_the_session_holds_after_a_rest() {
    let mut session = legacy();
    session.capabilities.roots = Some(Vec::new());
    let mut rig = up_with(HubOptions::new(session), &json!({"idle_timeout": 60}));
    let session = rig.hub.handle("a").unwrap();
    let root = Root::new("file:///work");
    rig.hub.session_mut(session).set_roots(rig.now, vec![root]).unwrap();
    rig.collect();
    rig.wait(IDLE + seconds(1));
    assert!(rests(&rig));
    rig.call(CALL);
    rig.serve();
    rig.write_to_output("a", &json!({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"}));
    let answer = rig.sent.iter().map(|(_, message)| message).find(|message| message["id"] == "roots").unwrap();
    assert_eq!(answer["result"]["roots"][0]["uri"], "file:///work");
}

#[test]
fn a_server_of_the_modern_era_rests_although_it_announces_changes() {
    let server = Server::modern(json!({"tools": {"listChanged": true}}))
        .result("tools/list", tools(&["x"]))
        .on("tools/call", |_| Ok(json!({"content": []})));
    let mut rig = Rig::of(options()).peer("a", server);
    rig.configure(configuration(json!({"a": {"command": "a", "idle_timeout": 60}})));
    rig.open();
    rests_after(&mut rig, IDLE);
    let call = rig.call(CALL);
    rig.serve();
    assert!(rig.outcome(call).contains("content"), "{:?}", rig.log);
}

#[test]
fn a_server_with_a_url_is_not_affected() {
    let mut rig = Rig::of(legacy()).peer("a", full(&["x"], &[], &[]));
    let mut entry = mcp_proto::host::config::Entry::http("https://example.com/mcp");
    (entry.idle_timeout, entry.max_lifetime) = (Some(IDLE), Some(OLD));
    let mut servers = configuration(json!({}));
    servers.servers.insert("a".into(), entry);
    rig.configure(servers);
    rig.open();
    rig.wait(seconds(1000));
    assert_eq!(rig.state("a"), Some(State::Ready));
}

#[cfg(feature = "snapshot")]
#[test]
fn a_hub_that_moves_takes_the_clocks_along() {
    use mcp_proto::{Moved, Secrets};

    for mut rig in [idle(), old()] {
        rig.wait(seconds(30));
        rig.move_hub(Secrets::Included, Moved::WithTransport);
        let rest = if rig.hub.configuration().servers["a"].idle_timeout.is_some() { IDLE } else { OLD };
        rests_after(&mut rig, rest - seconds(30));
        for moved in [Moved::WithTransport, Moved::WithoutTransport] {
            rig.move_hub(Secrets::Included, moved);
            assert!(rests(&rig));
        }
        rig.call(CALL);
        rig.serve();
        assert!(is_up(&rig), "{:?}", rig.log);
    }
}
