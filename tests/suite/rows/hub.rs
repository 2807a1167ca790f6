//! A hub: calls that were made before a server rests, sessions that end before they start, what is restored too late.

use mcp_proto::host::hub::{CallError, CallId, HubCommandError};
use mcp_proto::machine::hub_server::State;
use serde_json::json;

use crate::common::{Server, legacy, reconnecting, seconds};
use crate::rig::{Mood, Rig, configuration, with_tools};

const CALL: &str = "mcp_a_x";

/// What a call waits for its answer, in seconds, where the entry does not say.
const TIMEOUT: u64 = 120;

/// The server `a`, up, which does not answer calls.
fn holding() -> Rig {
    let mut rig = Rig::of(reconnecting(legacy())).peer("a", with_tools(&["x"])).up(&["a"]);
    rig.get("a").holds = Some("tools/call");
    rig
}

/// A call that waits for its answer longer than others do.
fn patient_call(rig: &mut Rig) -> CallId {
    let call = rig.hub.call_with(rig.now, CALL, None, |request| request.timeout(seconds(900))).unwrap();
    rig.accept(call);
    call
}

fn is_resting(rig: &mut Rig) -> bool {
    matches!(rig.try_call(CALL, json!({})), Err(CallError::Resting { .. }))
}

/// Three calls time out, so that the server rests; a patient one is in flight.
fn resting() -> (Rig, CallId) {
    let mut rig = holding();
    let failing: Vec<_> = (0..3).map(|_| rig.call(CALL)).collect();
    rig.wait(seconds(50));
    let patient = patient_call(&mut rig);
    rig.wait(seconds(TIMEOUT - 50));
    assert!(failing.into_iter().all(|call| rig.outcome(call) == "TimedOut"));
    assert!(is_resting(&mut rig));
    (rig, patient)
}

/// Calls go through, several at a time, and it takes three failures for the server to rest again.
fn assert_closed(rig: &mut Rig) {
    rig.get("a").holds = Some("tools/call");
    for _ in 0..2 {
        rig.call(CALL);
    }
    rig.wait(seconds(TIMEOUT));
    rig.call(CALL);
    rig.wait(seconds(TIMEOUT));
    assert!(is_resting(rig));
}

#[test]
fn an_answer_to_an_earlier_call_ends_the_rest() {
    let (mut rig, patient) = resting();
    rig.release("a");
    assert!(rig.outcome(patient).contains("content"));
    assert_closed(&mut rig);
}

#[test]
fn an_answer_to_an_earlier_call_that_comes_after_the_rest_makes_a_trial_needless() {
    let (mut rig, patient) = resting();
    rig.wait(seconds(60));
    rig.release("a");
    assert!(rig.outcome(patient).contains("content"));
    assert_closed(&mut rig);
}

/// The server's command was not to be found for a while, so that its session was parked; at the next try the process
/// exited, and at the one after that it is up. `call` is made before all that, while the connection is lost.
fn up_after_parking(call: impl FnOnce(&mut Rig) -> Option<CallId>) -> (Rig, Option<CallId>) {
    let mut rig = holding();
    rig.mood("a", Mood::DoesNotStart);
    rig.exit("a");
    let call = call(&mut rig);
    rig.wait(seconds(10));
    assert!(is_resting(&mut rig), "the session is parked");
    rig.mood("a", Mood::Exits);
    rig.take_log();
    rig.wait(seconds(590));
    while rig.count("a: open") == 0 {
        rig.wait(seconds(1));
    }
    rig.mood("a", Mood::Answers);
    rig.wait(seconds(10));
    assert_eq!(rig.state("a"), Some(State::Up));
    (rig, call)
}

fn assert_rests_anew(rig: &mut Rig) {
    assert!(is_resting(rig));
    rig.wait(seconds(58));
    assert!(is_resting(rig));
    rig.wait(seconds(2));
    assert!(!is_resting(rig), "a trial");
}

#[test]
fn a_call_that_fails_after_the_rest_starts_another() {
    let (mut rig, call) = up_after_parking(|rig| Some(patient_call(rig)));
    let call = call.unwrap();
    assert_eq!((rig.outcome(call), rig.held("a")), ("open".into(), 1));
    while rig.outcome(call) == "open" {
        rig.wait(seconds(1));
    }
    assert_eq!(rig.outcome(call), "TimedOut");
    assert_rests_anew(&mut rig);
}

#[test]
fn a_trial_that_fails_starts_another_rest_though_few_calls_failed() {
    let (mut rig, _) = up_after_parking(|_| None);
    let trial = rig.call(CALL);
    assert!(is_resting(&mut rig), "one at a time");
    rig.wait(seconds(TIMEOUT));
    assert_eq!(rig.outcome(trial), "TimedOut");
    assert_rests_anew(&mut rig);
}

#[test]
fn what_was_saved_does_not_stand_in_for_a_server_that_was_started() {
    let saved =
        Rig::of(legacy()).peer("a", with_tools(&["saved"])).up(&["a"]).hub.save("a", crate::common::KEY, 7).unwrap();
    let ways: [fn(&mut Rig) -> State; 4] = [
        |rig| {
            rig.get("a").server = Server::new().error("initialize", -32000, "go away");
            State::Failed
        },
        |rig| {
            rig.mood("a", Mood::Silent);
            State::Starting
        },
        |_| State::Up,
        |rig| {
            rig.serve();
            rig.exit("a");
            State::Down
        },
    ];
    for way in ways {
        let mut rig = Rig::of(reconnecting(legacy())).peer("a", with_tools(&["x"]));
        rig.configure(crate::rig::programs(&["a"]));
        rig.open();
        let state = way(&mut rig);
        rig.serve();
        assert_eq!(rig.state("a"), Some(state));
        let functions = rig.functions();
        let refused = rig.hub.restore(rig.now, "a", saved.clone());
        assert_eq!(refused, Err(HubCommandError::Started { server: "a".into() }));
        rig.collect();
        assert_eq!((rig.state("a"), rig.functions()), (Some(state), functions), "nothing changed");
    }
}

#[test]
fn what_was_saved_stands_in_for_a_server_that_waits_for_the_session_before() {
    let other = || configuration(json!({"a": {"command": "other"}}));
    let mut before = Rig::of(legacy()).peer("a", with_tools(&["saved"]));
    before.configure(other());
    before.open();
    before.serve();
    let saved = before.hub.save("a", crate::common::KEY, 7).unwrap();
    let mut rig = Rig::of(legacy()).peer("a", with_tools(&["x"])).up(&["a"]);
    rig.get("a").clings = true;
    rig.take_log();
    rig.hub.configure(rig.now, other()).unwrap();
    assert_eq!(rig.state("a"), Some(State::Waiting));
    rig.hub.restore(rig.now, "a", saved).unwrap();
    rig.collect();
    rig.serve();
    assert_eq!((rig.state("a"), rig.functions()), (Some(State::Idle), vec!["mcp_a_saved".into()]));
    rig.let_go("a");
    rig.serve();
    assert_eq!((rig.count("a: open"), rig.count("settled")), (0, 1));
}

/// The server `a`, which lost its connection and is to be tried again.
fn down(rig: Rig) -> Rig {
    let mut rig = rig.peer("a", with_tools(&["x"])).in_mood("a", Mood::Exits).up(&["a"]);
    assert_eq!((rig.state("a"), rig.count("a failed, again")), (Some(State::Down), 1));
    rig.take_log();
    rig
}

#[test]
fn a_server_that_refuses_the_next_connection_fails() {
    let mut rig = down(Rig::of(reconnecting(legacy())));
    rig.mood("a", Mood::Answers);
    rig.get("a").server = Server::new().error("initialize", -32000, "go away");
    rig.wait(seconds(2));
    assert_eq!((rig.state("a"), rig.count("a failed"), rig.count("a: open")), (Some(State::Failed), 1, 1));
    rig.wait(seconds(1000));
    assert_eq!(rig.count("a: open"), 1);
}

#[test]
fn a_server_that_is_down_is_closed_with_the_hub() {
    let mut rig = down(Rig::of(reconnecting(legacy())));
    rig.close();
    rig.wait(seconds(1000));
    assert!(rig.hub.is_closed());
    assert_eq!((rig.count("a: open"), rig.count("closed")), (0, 1));
}

#[test]
fn after_the_rest_a_server_that_is_wanted_needs_no_trial() {
    let (mut rig, _) = resting();
    rig.wait(seconds(60));
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    assert_closed(&mut rig);
}
