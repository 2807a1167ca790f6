//! A hub handles the due deadlines of all servers before an input or a command.

use std::time::Duration;

use crate::common::legacy;
use crate::rig::{Rig, configuration, with_tools};
use mcp_proto::host::hub::CallId;
use mcp_proto::{Request, Time, Transport};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(3);

fn entries() -> Value {
    let entry = |name: &str, timeout: u64| json!({"command": name, "timeout": timeout});
    json!({"a": entry("a", 30), "b": entry("b", 3), "c": entry("c", 3)})
}

/// The servers `a`, `b` and `c`, ready; `b` does not answer a call, which times out after [`LIMIT`].
fn waiting() -> (Rig, CallId) {
    let mut rig = Rig::of(legacy());
    for name in ["a", "b", "c"] {
        rig = rig.peer(name, with_tools(&["x"]));
    }
    rig.configure(configuration(entries()));
    rig.open();
    rig.serve();
    rig.get("b").unanswered = Some("tools/call");
    let call = rig.call("mcp_b_x");
    rig.serve();
    rig.now = rig.now + LIMIT;
    rig.take_log();
    (rig, call)
}

fn log_message() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
}

#[test]
fn a_deadline_of_one_server_is_handled_before_the_input_of_another() {
    let (mut rig, call) = waiting();
    rig.write_to_output("a", &log_message());
    assert_eq!(rig.outcome(call), "TimedOut");
    assert!(rig.at("b: finished") < rig.at("a: log"), "{:?}", rig.log);
}

#[test]
fn a_deadline_is_handled_before_the_input_of_a_removed_session() {
    let (mut rig, call) = waiting();
    let c = rig.hub.handle("c").unwrap();
    let connection = rig.connection(c);
    let mut without = entries();
    without.as_object_mut().unwrap().remove("c");
    rig.configure(configuration(without));
    rig.exit("c");
    rig.hub.handle_transport(rig.now, c, connection, Transport::Closed { why: "gone" });
    rig.collect();
    assert_eq!(rig.outcome(call), "TimedOut");
}

#[test]
fn a_deadline_of_one_server_is_handled_before_a_command() {
    type Command = fn(&mut Rig);
    let commands: [(&str, Command); 10] = [
        ("call", |rig| _ = rig.try_call("mcp_a_x", json!({})).unwrap()),
        ("cancel", |rig| {
            let call = rig.hub.call(Time::ZERO, "mcp_a_x", None).unwrap();
            rig.accept(call);
            rig.hub.cancel(rig.now, call).unwrap();
        }),
        ("request", |rig| {
            let a = rig.hub.handle("a").unwrap();
            rig.hub.session_mut(a).request(rig.now, Request::call_tool("x", None)).unwrap();
        }),
        ("start", |rig| rig.hub.start(rig.now, "a").unwrap()),
        ("authorized", |rig| rig.hub.authorized(rig.now, "a").unwrap()),
        ("configure", |rig| {
            let configuration = rig.hub.configuration().clone();
            rig.configure(configuration);
        }),
        ("a command that is refused", |rig| assert!(rig.hub.open(rig.now).is_err(), "it is open")),
        ("close", |rig| rig.close()),
        ("set_log_level", |rig| {
            let a = rig.hub.handle("a").unwrap();
            let _ = rig.hub.session_mut(a).set_log_level(rig.now, mcp_proto::LogLevel::Info);
        }),
        ("set_roots", |rig| {
            let a = rig.hub.handle("a").unwrap();
            let _ = rig.hub.session_mut(a).set_roots(rig.now, Vec::new());
        }),
    ];
    for (what, command) in commands {
        let (mut rig, call) = waiting();
        command(&mut rig);
        rig.collect();
        assert_eq!(rig.outcome(call), "TimedOut", "{what}");
    }
}

#[test]
fn a_deadline_is_handled_before_a_response_at_the_same_time() {
    let (mut rig, call) = waiting();
    rig.release("b");
    assert_eq!(rig.outcome(call), "TimedOut");
}

#[test]
fn a_deadline_of_a_server_with_unpolled_actions_is_handled() {
    let (mut rig, _) = waiting();
    rig.timeout();
    rig.polls_on_request = true;
    let start = rig.now;
    let call = rig.call("mcp_c_x");
    rig.hub.handle_timeout(start + LIMIT);
    rig.now = start + LIMIT;
    rig.polls_on_request = false;
    rig.collect();
    assert_eq!(rig.outcome(call), "TimedOut");
}

#[test]
fn a_deadline_that_starts_with_a_poll_is_handled_while_another_action_waits() {
    let (mut rig, _) = waiting();
    rig.timeout();
    let start = rig.now;
    let calls = [(); 2].map(|()| rig.hub.call(start, "mcp_c_x", None).unwrap());
    for call in calls {
        rig.polls_on_request = true;
        rig.accept(call);
    }
    assert!(rig.hub.poll().is_some(), "the first call is sent");
    rig.hub.handle_timeout(start + LIMIT);
    rig.now = start + LIMIT;
    rig.polls_on_request = false;
    rig.collect();
    assert_eq!(rig.outcome(calls[0]), "TimedOut");
}
