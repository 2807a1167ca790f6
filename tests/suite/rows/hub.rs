//! Rows of a hub: responses to calls made before the breaker opened, sessions that end before they start, late
//! restores.

use mcp_proto::host::Saved;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::ServerState as State;
use mcp_proto::host::hub::{CallError, CallId, HubCommandError, HubOptions};
use mcp_proto::{Options, Reconnect, Time};
use serde_json::{Value, json};

use crate::common::{KEY, Server, legacy, reconnecting, seconds};
use crate::rig::{Behaviour, Rig, configuration, full, programs, with_tools};

const CALL: &str = "mcp_a_x";

/// The default timeout of a call, in seconds.
const TIMEOUT: u64 = 120;

/// The server `a`, ready, which does not answer calls.
fn unanswered() -> Rig {
    let mut rig = Rig::of(reconnecting(legacy())).peer("a", with_tools(&["x"])).up(&["a"]);
    rig.get("a").unanswered = Some("tools/call");
    rig
}

/// A call with a longer timeout than the others.
fn long_call(rig: &mut Rig) -> CallId {
    let call = rig.hub.call_with(rig.now, CALL, None, |request| request.timeout(seconds(900))).unwrap();
    rig.accept(call);
    call
}

fn is_cooling_down(rig: &mut Rig) -> bool {
    matches!(rig.try_call(CALL, json!({})), Err(CallError::CoolingDown { .. }))
}

/// Three calls time out and open the breaker. A call with a longer timeout is in flight.
fn cooling_down() -> (Rig, CallId) {
    let mut rig = unanswered();
    let failing: Vec<_> = (0..3).map(|_| rig.call(CALL)).collect();
    rig.wait(seconds(50));
    let long_call_id = long_call(&mut rig);
    rig.wait(seconds(TIMEOUT - 50));
    assert!(failing.into_iter().all(|call| rig.outcome(call) == "TimedOut"));
    assert!(is_cooling_down(&mut rig));
    (rig, long_call_id)
}

/// The breaker is closed: several calls go through at once, and three failures open it again.
fn assert_closed(rig: &mut Rig) {
    rig.get("a").unanswered = Some("tools/call");
    for _ in 0..2 {
        rig.call(CALL);
    }
    rig.wait(seconds(TIMEOUT));
    rig.call(CALL);
    rig.wait(seconds(TIMEOUT));
    assert!(is_cooling_down(rig));
}

#[test]
fn a_response_to_an_earlier_call_closes_an_open_breaker() {
    let (mut rig, long_call_id) = cooling_down();
    rig.release("a");
    assert!(rig.outcome(long_call_id).contains("content"));
    assert_closed(&mut rig);
}

#[test]
fn a_response_to_an_earlier_call_closes_a_half_open_breaker() {
    let (mut rig, long_call_id) = cooling_down();
    rig.wait(seconds(60));
    rig.release("a");
    assert!(rig.outcome(long_call_id).contains("content"));
    assert_closed(&mut rig);
}

/// A server that is up again after its session was parked, because its command was missing. The process exits at the
/// first attempt after that, and stays up at the second. `call` is made when the connection is lost.
fn up_after_parking(call: impl FnOnce(&mut Rig) -> Option<CallId>) -> (Rig, Option<CallId>) {
    let mut rig = unanswered();
    rig.set_behaviour("a", Behaviour::DoesNotStart);
    rig.exit("a");
    let call = call(&mut rig);
    rig.wait(seconds(10));
    assert!(is_cooling_down(&mut rig), "the session is parked");
    rig.set_behaviour("a", Behaviour::Exits);
    rig.take_log();
    rig.wait(seconds(290));
    while rig.count("a: open") == 0 {
        rig.wait(seconds(1));
    }
    rig.set_behaviour("a", Behaviour::Answers);
    rig.wait(seconds(10));
    assert_eq!(rig.state("a"), Some(State::Ready));
    (rig, call)
}

fn assert_cools_down_again(rig: &mut Rig) {
    assert!(is_cooling_down(rig));
    rig.wait(seconds(58));
    assert!(is_cooling_down(rig));
    rig.wait(seconds(2));
    assert!(!is_cooling_down(rig), "a trial");
}

#[test]
fn a_failed_call_after_the_breaker_timeout_opens_the_breaker_again() {
    let (mut rig, call) = up_after_parking(|rig| Some(long_call(rig)));
    let call = call.unwrap();
    assert_eq!((rig.outcome(call), rig.withheld("a").len()), ("open".into(), 1));
    while rig.outcome(call) == "open" {
        rig.wait(seconds(1));
    }
    assert_eq!(rig.outcome(call), "TimedOut");
    assert_cools_down_again(&mut rig);
}

#[test]
fn a_failed_trial_opens_the_breaker_again_below_the_failure_threshold() {
    let (mut rig, _) = up_after_parking(|_| None);
    let trial = rig.call(CALL);
    assert!(is_cooling_down(&mut rig), "one trial at a time");
    rig.wait(seconds(TIMEOUT));
    assert_eq!(rig.outcome(trial), "TimedOut");
    assert_cools_down_again(&mut rig);
}

#[test]
fn a_start_command_forgets_the_failures_of_a_closed_breaker() {
    let mut rig = unanswered();
    for _ in 0..2 {
        rig.call(CALL);
    }
    rig.wait(seconds(TIMEOUT));
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    for _ in 0..2 {
        rig.call(CALL);
    }
    rig.wait(seconds(TIMEOUT));
    assert!(!is_cooling_down(&mut rig), "two failures in a row");
}

#[test]
fn a_cancelled_call_leaves_a_breaker_as_it_is() {
    let mut rig = unanswered();
    let call = rig.call(CALL);
    rig.hub.cancel(rig.now, call).unwrap();
    rig.collect();
    (0..2).for_each(|_| assert!(!is_cooling_down(&mut rig), "the breaker is closed"));
    let (mut rig, call) = cooling_down();
    rig.hub.cancel(rig.now, call).unwrap();
    rig.collect();
    assert!(is_cooling_down(&mut rig), "the breaker is open");
}

#[test]
fn a_cancelled_call_from_before_the_cooldown_does_not_allow_a_second_trial() {
    let (mut rig, earlier) = cooling_down();
    rig.wait(seconds(60));
    let trial = rig.call(CALL);
    rig.hub.cancel(rig.now, earlier).unwrap();
    rig.collect();
    assert!(is_cooling_down(&mut rig), "one trial at a time");
    rig.hub.cancel(rig.now, trial).unwrap();
    rig.collect();
    assert!(!is_cooling_down(&mut rig), "another trial");
}

#[test]
fn a_call_that_fails_during_the_cooldown_does_not_prolong_it() {
    let mut rig = unanswered();
    for _ in 0..3 {
        rig.call(CALL);
    }
    rig.wait(seconds(50));
    let later = rig.call(CALL);
    rig.wait(seconds(TIMEOUT));
    assert_eq!((rig.outcome(later), is_cooling_down(&mut rig)), ("TimedOut".into(), true));
    rig.wait(seconds(10));
    assert!(!is_cooling_down(&mut rig));
}

#[test]
fn an_earlier_call_that_fails_after_the_cooldown_opens_the_breaker_again() {
    let (mut rig, call) = cooling_down();
    rig.wait(seconds(900 - 70));
    assert_eq!(rig.outcome(call), "TimedOut");
    assert_cools_down_again(&mut rig);
}

#[test]
fn a_start_command_allows_calls_beside_a_trial() {
    let (mut rig, _) = cooling_down();
    rig.wait(seconds(60));
    rig.call(CALL);
    assert!(is_cooling_down(&mut rig), "one trial at a time");
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    (0..2).for_each(|_| assert!(!is_cooling_down(&mut rig)));
}

#[test]
fn saved_lists_are_not_offered_for_a_started_server() {
    let saved = Rig::of(legacy())
        .peer("a", with_tools(&["saved"]))
        .up(&["a"])
        .hub
        .save(Time::ZERO, "a", crate::common::KEY, 7)
        .unwrap();
    let ways: [fn(&mut Rig) -> State; 4] = [
        |rig| {
            rig.set_behaviour("a", Behaviour::Garbles);
            State::Failed
        },
        |rig| {
            rig.set_behaviour("a", Behaviour::Silent);
            State::Starting
        },
        |_| State::Ready,
        |rig| {
            rig.serve();
            rig.exit("a");
            State::Reconnecting
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
fn saved_lists_are_offered_while_a_server_waits_for_its_former_session_to_close() {
    let other = || configuration(json!({"a": {"command": "other"}}));
    let mut before = Rig::of(legacy()).peer("a", with_tools(&["saved"]));
    before.configure(other());
    before.open();
    before.serve();
    let saved = before.hub.save(Time::ZERO, "a", crate::common::KEY, 7).unwrap();
    let mut rig = Rig::of(legacy()).peer("a", with_tools(&["x"])).up(&["a"]);
    rig.get("a").ignores_end_of_input = true;
    rig.take_log();
    rig.hub.configure(rig.now, other()).unwrap();
    assert_eq!(rig.state("a"), Some(State::Queued));
    rig.hub.restore(rig.now, "a", saved).unwrap();
    rig.collect();
    rig.serve();
    assert_eq!((rig.state("a"), rig.functions()), (Some(State::Idle), vec!["mcp_a_saved".into()]));
    rig.end_process("a");
    rig.serve();
    assert_eq!(rig.state("a"), Some(State::Idle));
    assert_eq!((rig.count("a: open"), rig.count("settled")), (0, 1));
}

#[test]
fn a_server_that_starts_before_the_hub_is_opened_keeps_its_place() {
    let rig = Rig::new(capped(1, legacy())).peer("a", with_tools(&["x"])).peer("b", with_tools(&["x"]));
    let mut rig = rig.with_behaviour("b", Behaviour::Silent);
    rig.configure(programs(&["a", "b"]));
    rig.hub.start(rig.now, "b").unwrap();
    rig.collect();
    rig.serve();
    rig.open();
    rig.serve();
    assert_eq!((rig.state("a"), rig.state("b")), (Some(State::Queued), Some(State::Starting)));
    assert_eq!((rig.count("a: open"), rig.count("b: open")), (0, 1));
}

/// The server `a`, which lost its connection and reconnects later.
fn down(rig: Rig) -> Rig {
    let mut rig = rig.peer("a", with_tools(&["x"])).with_behaviour("a", Behaviour::Exits).up(&["a"]);
    assert_eq!((rig.state("a"), rig.count("a failed, again")), (Some(State::Reconnecting), 1));
    rig.take_log();
    rig
}

#[test]
fn a_server_with_invalid_output_after_a_reconnect_fails() {
    let mut rig = down(Rig::of(reconnecting(legacy())));
    rig.set_behaviour("a", Behaviour::Garbles);
    rig.wait(seconds(2));
    assert_eq!((rig.state("a"), rig.count("a failed"), rig.count("a: open")), (Some(State::Failed), 1, 1));
    rig.wait(seconds(1000));
    assert_eq!(rig.count("a: open"), 1);
}

#[test]
fn a_server_waiting_to_reconnect_is_closed_with_the_hub() {
    let mut rig = down(Rig::of(reconnecting(legacy())));
    rig.close();
    rig.wait(seconds(1000));
    assert!(rig.hub.is_closed());
    assert_eq!((rig.count("a: open"), rig.count("closed")), (0, 1));
}

#[test]
fn a_start_command_closes_a_half_open_breaker() {
    let (mut rig, _) = cooling_down();
    rig.wait(seconds(60));
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    assert_closed(&mut rig);
}

const LIST: &str = "mcp_a_list_resources";

fn one(entry: Value) -> Configuration {
    configuration(json!({ "a": entry }))
}

fn nothing() -> Configuration {
    configuration(json!({}))
}

fn capped(starts: usize, session: Options) -> HubOptions {
    let mut options = HubOptions::new(session);
    options.starts = starts;
    options
}

/// A server with a tool `x` and a resource.
fn server() -> Server {
    full(&["x"], &["r"], &[])
}

/// The saved toolset of the server of this name with this entry.
fn saved(name: &str, entry: Value) -> Saved {
    let mut rig = Rig::of(legacy()).peer(name, server());
    rig.configure(configuration(json!({ name: entry })));
    rig.open();
    rig.serve();
    rig.hub.save(Time::ZERO, name, KEY, 7).unwrap()
}

fn saved_program(name: &str) -> Saved {
    saved(name, json!({"command": name}))
}

fn is_started(rig: &mut Rig, name: &str) -> bool {
    let refused = rig.hub.restore(rig.now, name, saved_program(name));
    matches!(refused, Err(HubCommandError::Started { .. }))
}

/// A hub that is not open. Its server `a` was removed while its process runs, and configured again.
fn removed_and_added() -> Rig {
    removed_and_added_as(json!({"command": "a"}))
}

fn removed_and_added_as(entry: Value) -> Rig {
    let mut rig = Rig::of(legacy()).peer("a", server());
    rig.configure(programs(&["a"]));
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    rig.serve();
    rig.get("a").ignores_end_of_input = true;
    rig.configure(nothing());
    rig.configure(one(entry));
    rig.serve();
    rig.take_log();
    rig
}

fn close_all(rig: &mut Rig) {
    rig.close();
    rig.wait(seconds(60));
    assert!(rig.hub.is_closed());
}

#[test]
fn a_server_whose_old_session_is_closing_starts_after_it_on_demand() {
    let ways: [fn(&mut Rig); 3] = [
        |rig| rig.hub.start(rig.now, "a").unwrap(),
        |rig| {
            rig.hub.restore(rig.now, "a", saved_program("a")).unwrap();
            rig.call(CALL);
        },
        |rig| {
            rig.hub.restore(rig.now, "a", saved_program("a")).unwrap();
            rig.call(LIST);
        },
    ];
    for way in ways {
        let mut rig = removed_and_added();
        assert_eq!(rig.state("a"), Some(State::Idle));
        way(&mut rig);
        rig.collect();
        rig.serve();
        assert_eq!((rig.state("a"), rig.count("a: open")), (Some(State::Queued), 0));
        rig.end_process("a");
        rig.serve();
        assert_eq!((rig.state("a"), rig.count("a: open")), (Some(State::Ready), 1));
        assert_eq!(rig.open_calls(), []);
    }
}

#[test]
fn a_server_whose_old_session_is_closing_can_have_an_invalid_url_or_be_removed() {
    let mut rig = removed_and_added_as(json!({"url": "/"}));
    assert_eq!(rig.state("a"), Some(State::Failed));
    rig.get("a").ignores_end_of_input = false;
    close_all(&mut rig);

    let mut rig = removed_and_added();
    rig.configure(nothing());
    assert_eq!(rig.hub.handle("a"), None);
    rig.end_process("a");
    rig.serve();
    assert_eq!(rig.count("a: open"), 0);
}

#[test]
fn a_hub_closes_in_each_waiting_state_of_its_servers() {
    type Way = (fn(&mut Rig), State);
    let ways: [Way; 3] = [
        (|_| {}, State::Idle),
        (|rig| rig.open(), State::Queued),
        (
            |rig| {
                rig.open();
                rig.hub.start(rig.now, "a").unwrap();
                rig.collect();
            },
            State::Queued,
        ),
    ];
    for (way, state) in ways {
        let mut rig = removed_and_added();
        way(&mut rig);
        assert_eq!(rig.state("a"), Some(state));
        rig.get("a").ignores_end_of_input = false;
        close_all(&mut rig);
        assert_eq!(rig.count("a: open"), 0);
    }
}

/// `a` starts and does not answer; `b` is queued.
fn queued() -> Rig {
    let mut rig =
        Rig::new(capped(1, legacy())).peer("a", server()).peer("b", server()).with_behaviour("a", Behaviour::Silent);
    rig.configure(programs(&["a", "b"]));
    rig.open();
    rig.serve();
    assert_eq!((rig.state("a"), rig.state("b")), (Some(State::Starting), Some(State::Queued)));
    rig
}

#[test]
fn a_queued_server_is_restored_unless_it_was_called() {
    let mut rig = queued();
    rig.hub.restore(rig.now, "b", saved_program("b")).unwrap();
    rig.collect();
    assert_eq!(rig.state("b"), Some(State::Idle));

    let mut rig = queued();
    rig.hub.start(rig.now, "b").unwrap();
    rig.collect();
    assert_eq!(rig.state("b"), Some(State::Queued));
    assert!(is_started(&mut rig, "b"));
}

#[test]
fn a_list_call_to_a_queued_server_waits() {
    let mut rig = Rig::new(capped(1, legacy())).peer("a", server()).peer("b", server()).up(&["a", "b"]);
    rig.set_behaviour("a", Behaviour::Silent);
    let entries = ["a", "b"].map(|name| (name, json!({"command": name, "keepalive_interval": 900})));
    rig.configure(configuration(entries.into_iter().collect()));
    rig.serve();
    assert_eq!(rig.state("b"), Some(State::Queued));
    let list = rig.call("mcp_b_list_resources");
    assert_eq!((rig.state("b"), rig.outcome(list)), (Some(State::Queued), "open".into()));
    rig.wait(seconds(60));
    assert!(rig.outcome(list).contains("r:r"));
}

#[test]
fn a_session_whose_open_was_not_polled_is_dropped_silently() {
    let configured = || {
        let mut rig = Rig::of(legacy()).peer("a", server());
        rig.configure(programs(&["a"]));
        rig.hub.open(rig.now).unwrap();
        assert_eq!(rig.state("a"), Some(State::Starting));
        rig
    };
    let mut rig = configured();
    rig.configure(nothing());
    assert_eq!((rig.count("a: open"), rig.hub.deadline()), (0, None));

    let mut rig = configured();
    rig.close();
    assert_eq!((rig.count("a: open"), rig.count("closed")), (0, 1));

    let mut rig = configured();
    rig.hub.start(rig.now, "a").unwrap();
    assert!(is_started(&mut rig, "a"));
    rig.collect();
    rig.serve();
    assert_eq!(rig.state("a"), Some(State::Ready));
}

#[test]
fn a_call_waits_for_a_session_whose_open_was_not_polled() {
    for (name, removes) in [(CALL, false), (LIST, false), (CALL, true), (LIST, true)] {
        let mut rig = Rig::of(legacy()).peer("a", server()).up(&["a"]);
        rig.get("a").ignores_end_of_input = true;
        rig.configure(one(json!({"command": "a", "keepalive_interval": 900})));
        rig.serve();
        rig.polls_on_request = true;
        rig.end_process("a");
        assert_eq!(rig.state("a"), Some(State::Starting));
        let call = rig.call(name);
        assert_eq!(rig.state("a"), Some(State::Starting));
        rig.polls_on_request = false;
        if removes {
            // The call is told of it, though nothing of the session was polled.
            rig.configure(nothing());
            rig.collect();
            assert_eq!(rig.outcome(call), "NotSent", "{name}");
            continue;
        }
        rig.collect();
        rig.serve();
        assert!(rig.outcome(call).contains("x") || rig.outcome(call).contains("r:r"));
    }
}

/// A server that was started by command in a hub that is not open, and lost its connection.
fn lost(budget: u32, state: State) -> Rig {
    let mut options = legacy();
    let mut reconnect = Reconnect::default();
    reconnect.max_losses = budget;
    options.reconnect = Some(reconnect);
    let mut rig = Rig::of(options).peer("a", server());
    rig.configure(programs(&["a"]));
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    rig.serve();
    rig.exit("a");
    assert_eq!(rig.state("a"), Some(state));
    rig.take_log();
    rig
}

#[test]
fn a_server_that_lost_its_connection_reconnects_on_demand() {
    let ways: [fn(&mut Rig); 2] = [
        |rig| rig.open(),
        |rig| {
            rig.hub.start(rig.now, "a").unwrap();
            rig.collect();
        },
    ];
    for (budget, state) in [(5, State::Reconnecting), (0, State::Parked)] {
        for way in ways {
            let mut rig = lost(budget, state);
            assert!(is_started(&mut rig, "a"));
            rig.answers("a", "tools/list", crate::common::tools(&["x", "y"]));
            way(&mut rig);
            rig.serve();
            assert_eq!((rig.state("a"), rig.count("a: open"), rig.count("a + mcp_a_y")), (Some(State::Ready), 1, 1));
        }
        let mut rig = lost(budget, state);
        let list = rig.call(LIST);
        assert_eq!((rig.state("a"), rig.count("a: open")), (Some(state), 0));
        assert!(rig.outcome(list).contains("r:r"));
    }
}

#[test]
fn a_server_that_lost_its_connection_can_be_removed_and_closed() {
    for (budget, state) in [(5, State::Reconnecting), (0, State::Parked)] {
        let mut rig = lost(budget, state);
        rig.configure(nothing());
        rig.serve();
        assert_eq!((rig.hub.handle("a"), rig.hub.deadline()), (None, None));

        let mut rig = lost(budget, state);
        close_all(&mut rig);
    }
}

#[test]
fn a_parked_server_can_fail_with_invalid_output() {
    let mut rig =
        Rig::of(reconnecting(legacy())).peer("a", server()).with_behaviour("a", Behaviour::DoesNotStart).up(&["a"]);
    assert_eq!(rig.state("a"), Some(State::Parked));
    rig.set_behaviour("a", Behaviour::Garbles);
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    rig.serve();
    assert_eq!((rig.state("a"), rig.count("a failed")), (Some(State::Failed), 1));
    close_all(&mut rig);
}

#[test]
fn an_unauthorized_server_can_be_started_and_closed_but_not_restored() {
    let entry = || json!({"url": "https://example.com/mcp"});
    let refused = || {
        let mut rig = Rig::of(legacy()).peer("a", server()).with_behaviour("a", Behaviour::Refuses);
        rig.configure(one(entry()));
        rig.open();
        rig.serve();
        assert_eq!(rig.state("a"), Some(State::Unauthorized));
        rig
    };
    let mut rig = refused();
    let again = rig.hub.restore(rig.now, "a", saved("a", entry()));
    assert_eq!(again, Err(HubCommandError::Started { server: "a".into() }));
    rig.set_behaviour("a", Behaviour::Answers);
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    rig.serve();
    assert_eq!(rig.state("a"), Some(State::Ready));

    close_all(&mut refused());
    let mut rig = refused();
    rig.configure(nothing());
    rig.serve();
    assert_eq!(rig.hub.deadline(), None);
}

#[cfg(feature = "oauth")]
#[test]
fn an_unauthorized_server_signs_out_when_the_hub_has_authorizations() {
    use mcp_proto::binding::oauth::{OAuthInput, OAuthOptions};
    use mcp_proto::host::hub::HubOAuth;

    let mut rig = Rig::of(legacy()).peer("a", server()).with_behaviour("a", Behaviour::Refuses);
    rig.configure(one(json!({"url": "https://example.com/mcp", "auth": "oauth"})));
    rig.open();
    rig.serve();
    assert_eq!(rig.state("a"), Some(State::Unauthorized));
    let handle = rig.hub.handle("a").unwrap();
    assert!(!rig.hub.handle_oauth(rig.now, handle, OAuthInput::SignOut));
    let mut options = OAuthOptions::new("suite", "http://127.0.0.1/");
    options.stored = true;
    let oauth = HubOAuth::new(options, [1; 32], mcp_proto::Time::ZERO, std::time::Duration::ZERO);
    rig.hub = rig.hub.clone().with_oauth(oauth);
    assert!(rig.hub.handle_oauth(rig.now, handle, OAuthInput::SignOut));
}

/// Its names are known from an earlier run.
#[test]
fn a_server_that_ended_takes_no_calls() {
    let server = || full(&["x"], &["r"], &["p"]);
    let names = ["mcp_a_x", "mcp_a_list_prompts"];
    let before = Rig::of(legacy()).peer("a", server()).up(&["a"]);
    assert!(names.iter().all(|name| before.functions().iter().any(|known| known == name)), "{:?}", before.functions());
    for (behaviour, state, entry) in [
        (Behaviour::Refuses, State::Unauthorized, json!({"url": "https://example.com/mcp"})),
        (Behaviour::Garbles, State::Failed, json!({"command": "a"})),
    ] {
        let mut options = HubOptions::new(legacy());
        options.names = before.hub.names().clone();
        let mut rig = Rig::new(options).peer("a", server()).with_behaviour("a", behaviour);
        rig.configure(one(entry));
        rig.open();
        rig.serve();
        assert_eq!(rig.state("a"), Some(state));
        for name in names {
            assert!(matches!(rig.try_call(name, json!({})), Err(CallError::NotUp { .. })), "{name}");
        }
        close_all(&mut rig);
        assert!(rig.open_calls().is_empty());
    }
}

#[test]
fn saved_lists_replace_earlier_lists() {
    let mut rig = Rig::of(legacy()).peer("a", server());
    rig.configure(programs(&["a"]));
    for _ in 0..2 {
        rig.hub.restore(rig.now, "a", saved_program("a")).unwrap();
    }
    rig.collect();
    assert_eq!(rig.state("a"), Some(State::Idle));

    let entry = || json!({"command": "a", "keepalive_interval": 900});
    let mut rig = Rig::of(legacy()).peer("a", server()).up(&["a"]);
    rig.get("a").ignores_end_of_input = true;
    rig.configure(one(entry()));
    assert_eq!(rig.state("a"), Some(State::Queued));
    rig.hub.restore(rig.now, "a", saved("a", entry())).unwrap();
    rig.collect();
    let report = rig.hub.servers().next().unwrap();
    assert_eq!((report.state, report.saved_at), (Some(State::Idle), Some(7)));
}

#[test]
fn a_hub_is_opened_and_closed_while_a_server_starts() {
    let starting = || {
        let mut rig = Rig::of(legacy()).peer("a", server()).with_behaviour("a", Behaviour::Silent);
        rig.configure(programs(&["a"]));
        rig.hub.start(rig.now, "a").unwrap();
        rig.collect();
        rig
    };
    close_all(&mut starting());
    let mut rig = starting();
    rig.open();
    assert_eq!((rig.count("ready"), rig.count("settled")), (1, 0));
    assert_eq!(rig.hub.open(rig.now), Err(HubCommandError::AlreadyOpen));
    rig.close();
    assert_eq!(rig.hub.start(rig.now, "a"), Err(HubCommandError::Closed));
    rig.wait(seconds(60));
    assert!(rig.hub.is_closed());
}

/// A hub whose required server fails its first start.
fn requiring(behavior: Behaviour) -> Rig {
    let mut options = HubOptions::new(reconnecting(legacy()));
    options.required.insert("a".into());
    let mut rig = Rig::new(options).peer("a", server()).peer("b", server()).with_behaviour("a", behavior);
    rig.configure(programs(&["a"]));
    rig.open();
    rig.serve();
    assert_eq!(rig.count("ready"), 0);
    assert_eq!(rig.hub.open(rig.now), Err(HubCommandError::AlreadyOpen));
    rig
}

#[test]
fn a_hub_without_a_required_server_can_be_used() {
    // The server is starting.
    let mut rig = requiring(Behaviour::Silent);
    rig.configure(programs(&["a", "b"]));
    rig.serve();
    assert_eq!((rig.state("b"), rig.count("settled")), (Some(State::Ready), 0));
    close_all(&mut rig);

    // It reconnects later.
    close_all(&mut requiring(Behaviour::Exits));
    let mut rig = requiring(Behaviour::Exits);
    assert_eq!((rig.state("a"), rig.count("settled")), (Some(State::Reconnecting), 1));
    rig.set_behaviour("a", Behaviour::Answers);
    rig.wait(seconds(10));
    assert_eq!((rig.count("ready"), rig.count("a + mcp_a_x")), (1, 1));
}

/// A hub that is not open, whose server is suspended after a minute without use.
fn suspended_after_a_minute(behaviour: Behaviour) -> Rig {
    let mut rig = Rig::of(legacy()).peer("a", server()).with_behaviour("a", behaviour);
    rig.configure(one(json!({"command": "a", "idle_timeout": 60})));
    rig
}

fn started(behaviour: Behaviour) -> Rig {
    let mut rig = suspended_after_a_minute(behaviour);
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    rig.serve();
    rig
}

/// The server was not used; its process may run on after its input is closed.
fn suspended(runs_on: bool) -> Rig {
    let mut rig = started(Behaviour::Answers);
    rig.get("a").ignores_end_of_input = runs_on;
    rig.wait(seconds(60));
    assert_eq!((rig.state("a"), rig.runs("a")), (Some(State::Suspended), runs_on));
    rig
}

/// A server in each state but those of its end and of the lack of authorization.
fn each_state() -> Vec<(&'static str, State, Rig)> {
    let mut unpolled = suspended_after_a_minute(Behaviour::Answers);
    unpolled.hub.open(unpolled.now).unwrap();
    vec![
        ("a", State::Idle, suspended_after_a_minute(Behaviour::Answers)),
        ("b", State::Queued, queued()),
        ("a", State::Starting, unpolled),
        ("a", State::Starting, started(Behaviour::Silent)),
        ("a", State::Ready, started(Behaviour::Answers)),
        ("a", State::Suspended, suspended(false)),
        ("a", State::Suspended, suspended(true)),
        ("a", State::Reconnecting, lost(5, State::Reconnecting)),
        ("a", State::Parked, lost(0, State::Parked)),
        ("a", State::Failed, started(Behaviour::Garbles)),
    ]
}

/// Only a server that ended because of it gets another session.
#[test]
fn authorization_leaves_a_server_in_its_state_that_does_not_wait_for_it() {
    for (name, state, mut rig) in each_state() {
        let handle = rig.hub.handle(name);
        rig.hub.authorized(rig.now, name).unwrap();
        assert_eq!((rig.state(name), rig.hub.handle(name)), (Some(state), handle));
        if state == State::Suspended {
            rig.collect();
            assert_eq!(rig.count("a: open"), 1);
            // Its process may be on its way to its end.
            rig.hub.start(rig.now, name).unwrap();
            rig.collect();
            rig.hub.authorized(rig.now, name).unwrap();
            rig.collect();
            rig.end_process(name);
            rig.serve();
            assert_eq!((rig.state(name), rig.count("a: open")), (Some(State::Ready), 2));
        }
    }
}

/// Its names are known from an earlier run, or from the connection before.
#[test]
fn a_call_that_waits_leaves_a_server_in_its_state() {
    for name in [CALL, LIST] {
        let mut rig = lost(5, State::Reconnecting);
        rig.call(name);
        assert_eq!(rig.state("a"), Some(State::Reconnecting), "{name}");
    }
    // The other one is called as well, and there is no room for it.
    for call in ["mcp_b_x", "mcp_b_list_resources"] {
        let mut rig = Rig::new(capped(1, legacy())).peer("a", server()).peer("b", server());
        rig = rig.with_behaviour("b", Behaviour::Silent);
        rig.configure(programs(&["a", "b"]));
        for name in ["a", "b"] {
            rig.hub.restore(rig.now, name, saved_program(name)).unwrap();
        }
        for call in ["mcp_b_x", CALL, call] {
            rig.call(call);
            rig.serve();
        }
        assert_eq!((rig.state("a"), rig.state("b")), (Some(State::Queued), Some(State::Starting)), "{call}");
    }
}

#[test]
fn a_hub_opens_with_a_suspended_server() {
    let mut rig = suspended(false);
    assert_eq!(rig.count("settled"), 1, "it was started before the hub was opened");
    rig.open();
    assert_eq!((rig.state("a"), rig.count("a: open")), (Some(State::Suspended), 1));
}

/// A session that waits for a call cannot be replaced by saved lists.
#[test]
fn a_server_that_a_list_call_waits_for_is_not_restored() {
    let entry = || json!({"command": "a", "keepalive_interval": 900});
    for state in [State::Queued, State::Starting] {
        let mut rig = Rig::of(legacy()).peer("a", server()).up(&["a"]);
        rig.get("a").ignores_end_of_input = true;
        rig.configure(one(entry()));
        rig.serve();
        if state == State::Starting {
            rig.polls_on_request = true;
            rig.end_process("a");
        }
        assert_eq!(rig.state("a"), Some(state));
        rig.call(LIST);
        let refused = rig.hub.restore(rig.now, "a", saved("a", entry()));
        assert_eq!(refused, Err(HubCommandError::Started { server: "a".into() }), "{state:?}");
    }
}

#[test]
fn a_hub_closes_after_a_former_session_and_without_one_that_failed_for_lack_of_authorization() {
    let mut rig = removed_and_added();
    rig.close();
    assert!(!rig.hub.is_closed() && rig.count("closed") == 0);
    rig.end_process("a");
    assert!(rig.hub.is_closed());

    let mut rig = Rig::of(legacy()).peer("a", server()).with_behaviour("a", Behaviour::Refuses);
    rig.configure(one(json!({"url": "https://example.com/mcp"})));
    rig.open();
    rig.serve();
    assert_eq!(rig.state("a"), Some(State::Unauthorized));
    let handle = rig.hub.handle("a").unwrap();
    rig.configure(nothing());
    assert_eq!(rig.hub.server(handle), None, "nothing is left of it");
    close_all(&mut rig);
}

/// Its last events are not polled yet, so that the hub still has it.
#[test]
fn a_hub_that_closes_after_a_session_does_not_count_it_twice() {
    let mut rig = Rig::of(legacy()).peer("a", with_tools(&["x"])).peer("b", with_tools(&["x"])).up(&["a", "b"]);
    rig.get("b").ignores_end_of_input = true;
    rig.configure(programs(&["b"]));
    rig.polls_on_request = true;
    rig.serve();
    rig.close();
    rig.polls_on_request = false;
    rig.collect();
    rig.serve();
    assert_ne!(rig.log.last().unwrap(), "closed", "a process runs");
    rig.end_process("b");
    assert_eq!(rig.log.last().unwrap(), "closed");
}

/// Failed attempts are reported once, and a server that is parked again is not called for some time.
#[test]
fn each_attempt_that_fails_is_counted_but_only_the_first_reported() {
    let mut options = reconnecting(legacy());
    options.reconnect.as_mut().unwrap().first_attempts = 10;
    let mut rig = Rig::of(options).peer("a", server()).with_behaviour("a", Behaviour::Exits);
    rig.configure(programs(&["a"]));
    rig.open();
    rig.wait(seconds(3));
    assert!(rig.count("a: down") > 1 && rig.state("a") == Some(State::Reconnecting), "{:?}", rig.log);
    assert_eq!(rig.count("a failed, again"), 1);

    let mut rig = Rig::of(reconnecting(legacy())).peer("a", server()).with_behaviour("a", Behaviour::DoesNotStart);
    rig.configure(programs(&["a"]));
    rig.open();
    rig.serve();
    for _ in 0..3 {
        assert_eq!(rig.state("a"), Some(State::Parked));
        let refused_until = rig.hub.servers().next().unwrap().refused_until;
        assert!(refused_until.is_some_and(|until| until > rig.now), "{refused_until:?}");
        rig.wait(Reconnect::default().parked_backoff + seconds(1));
    }
}

/// A move without transports says nothing of a server that has none.
#[cfg(feature = "snapshot")]
#[test]
fn a_hub_that_moves_with_a_suspended_server_counts_no_loss() {
    let mut rig = Rig::of(reconnecting(legacy())).peer("a", server());
    rig.configure(one(json!({"command": "a", "idle_timeout": 60})));
    rig.open();
    rig.wait(seconds(60));
    assert_eq!(rig.state("a"), Some(State::Suspended));
    for _ in 0..10 {
        rig.move_hub(mcp_proto::Secrets::Included, mcp_proto::Moved::WithoutTransport);
        rig.collect();
    }
    rig.hub.start(rig.now, "a").unwrap();
    rig.collect();
    rig.serve();
    rig.exit("a");
    assert_eq!(rig.state("a"), Some(State::Reconnecting));
}

/// The tools of a connection that is lost before the other lists arrive are offered.
#[test]
fn tools_that_came_with_a_connection_that_was_lost_are_offered() {
    for (budget, state) in [(5, State::Reconnecting), (0, State::Parked)] {
        let mut rig = lost(budget, state);
        rig.answers("a", "tools/list", crate::common::tools(&["y"]));
        rig.get("a").unanswered = Some("resources/list");
        rig.hub.start(rig.now, "a").unwrap();
        rig.collect();
        rig.serve();
        assert_eq!((rig.state("a"), rig.count("a + mcp_a_y")), (Some(state), 1));
        assert!(rig.functions().contains(&"mcp_a_y".into()));
    }
}
