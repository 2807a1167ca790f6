//! Nothing accumulates in a hub: not without polling, and not after the end.

#![cfg(all(feature = "http", feature = "testkit"))]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

mod common;
#[path = "common/hub.rs"]
mod rig;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{KEY, drain, legacy};
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{Hub, HubCommandError, HubOptions};
use mcp_proto::protocol::Family;
use mcp_proto::{Options, Time, Transport};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rig::{Rig, configuration, full, with_tools};
use serde_json::{Value, json};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The memory is measured for the process, so tests must not run concurrently.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that a value holds on the heap: those that its clone allocates. The memory is measured for the process,
/// and the test harness has its own thread, so two measurements in a row have to be equal.
fn held<T: Clone>(value: &T) -> usize {
    let measure = || {
        let before = MEMORY.current_usage();
        let copy = value.clone();
        let held = MEMORY.current_usage().saturating_sub(before);
        drop(copy);
        held
    };
    let mut last = measure();
    let mut again = std::iter::repeat_with(measure).take(100);
    again.find(|held| std::mem::replace(&mut last, *held) == *held).expect("two equal measurements in a row")
}

const OUTPUT: usize = 32;

/// The bytes that a hub may hold more after many repetitions than after a few.
const MORE: usize = 1024;

/// Clients with low limits of queued output.
fn small() -> Options {
    let mut options = legacy();
    options.limits.output = OUTPUT;
    options.limits.queued = OUTPUT;
    options
}

/// A hub with `a` and `b`, both ready, which have tools, resources and prompts.
fn up() -> Rig {
    let names = ["a", "b"];
    let peer = || full(&["x", "y"], &["r"], &["p"]);
    Rig::of(small()).peer("a", peer()).peer("b", peer()).up(&names)
}

fn servers(a: Value) -> Configuration {
    configuration(json!({"a": a, "b": {"command": "b"}}))
}

/// Repeats a command or an input without polling: a byte that one in seven leaves exceeds what is allowed.
fn repeated(what: &str, mut hub: Hub, mut each: impl FnMut(&mut Hub, usize)) {
    let most = (0..4 * OUTPUT).map(|at| {
        each(&mut hub, at);
        held(&hub)
    });
    let most = most.max().unwrap();
    for at in 0..8 * MORE {
        each(&mut hub, at);
    }
    let held = held(&hub);
    assert!(held <= most + MORE, "{what}: {held} bytes, of {most} at most before");
}

#[test]
fn repeated_commands_without_polling_stay_within_the_limits() {
    type Entries = fn(usize) -> Value;
    let _alone = alone();
    let now = Time::ZERO;
    let entries = |hub: &mut Hub, a: Value| _ = hub.configure(now, servers(a));
    let commands: [(&str, Entries); 6] = [
        ("another command", |at| json!({"command": format!("a{}", at % 2)})),
        ("another timeout", |at| json!({"command": "a", "timeout": at % 7 + 1})),
        ("another filter", |at| json!({"command": "a", "tools": {"include": [(["x", "y"][at % 2])]}})),
        ("another address", |at| json!({"url": format!("/{}", at % 2)})),
        ("turned off and on", |at| json!({"command": "a", "enabled": at % 2 == 0})),
        ("a program and an address", |at| {
            [json!({"command": "a"}), json!({"url": "https://example.com"})][at % 2].clone()
        }),
    ];
    for (what, entry) in commands {
        repeated(what, up().hub, |hub, at| entries(hub, entry(at)));
        let mut fresh = Hub::new(HubOptions::new(small()), 0);
        fresh.open(now).unwrap();
        repeated(what, fresh, |hub, at| entries(hub, entry(at)));
        repeated(what, up().hub, |hub, at| {
            entries(hub, entry(at));
            let _ = hub.start(now, "a");
            let _ = hub.call(now, "mcp_a_x", None);
            let _ = hub.handle("a").map(|handle| hub.session_mut(handle).refresh(now, Family::Tools));
        });
    }
    repeated("servers of other names", up().hub, |hub, at| {
        let name = format!("s{}", at % 100);
        let _ = hub.configure(now, configuration(json!({name: {"command": "s"}})));
    });
    let faulty = || {
        let mut rig = Rig::of(small());
        rig.configure(configuration(json!({"a": {"url": "/"}})));
        rig.hub
    };
    repeated("start of a server that cannot be had", faulty(), |hub, _| _ = hub.start(now, "a"));
    repeated("authorized", faulty(), |hub, _| _ = hub.authorized(now, "a"));
    repeated("start", up().hub, |hub, _| _ = hub.start(now, "a"));
    repeated("authorized", up().hub, |hub, _| _ = hub.authorized(now, "a"));
    repeated("a session's commands", up().hub, |hub, _| {
        let a = hub.handle("a").unwrap();
        let _ = hub.session_mut(a).refresh(now, Family::Tools);
    });
    repeated("open and close", up().hub, |hub, _| _ = (hub.open(now), hub.close(now)));
    repeated("calls", up().hub, |hub, _| _ = hub.call(now, "mcp_a_x", None).is_ok());
    repeated("lists", up().hub, |hub, _| _ = hub.call(now, "mcp_a_list_resources", None).is_ok());
    let saved: Vec<_> = [&["x"][..], &["y"]]
        .map(|tools| {
            Rig::of(small()).peer("a", with_tools(tools)).up(&["a"]).hub.save(Time::ZERO, "a", KEY, 7).unwrap()
        })
        .into();
    let restoring = || {
        let mut rig = Rig::of(small());
        rig.configure(configuration(json!({"a": {"command": "a"}})));
        rig.hub
    };
    repeated("restore", restoring(), |hub, at| _ = hub.restore(now, "a", saved[at % 2].clone()));
    repeated("restored, called and replaced", restoring(), |hub, at| {
        let _ = hub.restore(now, "a", saved[0].clone());
        let _ = hub.call(now, "mcp_a_x", None).is_ok();
        let _ = hub.configure(now, configuration(json!({"a": {"command": format!("a{}", at % 2)}})));
        let _ = hub.configure(now, configuration(json!({"a": {"command": "a"}})));
    });
}

#[test]
fn repeated_inputs_without_polling_stay_within_the_limits() {
    let _alone = alone();
    let now = Time::ZERO;
    let inputs: [(&str, &[u8]); 5] = [
        ("ping", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"),
        ("list_changed", b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n"),
        ("log", b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":1}}\n"),
        ("noise", b"x\n"),
        ("a late answer", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"),
    ];
    for (what, line) in inputs {
        let rig = up();
        let a = rig.hub.handle("a").unwrap();
        let connection = rig.connection(a);
        repeated(what, rig.hub, |hub, _| hub.handle_bytes(now, a, connection, line));
    }
    let rig = up();
    let a = rig.hub.handle("a").unwrap();
    repeated("opened and closed", rig.hub, |hub, _| {
        for event in [Transport::Closed { why: "gone" }, Transport::Opened] {
            let connection = hub.session(a).unwrap().connection();
            hub.handle_transport(now, a, connection, event);
        }
    });
    repeated("timeouts", up().hub, |hub, at| hub.handle_timeout(Time::from_millis(at as u64 * 1000)));
}

#[test]
fn a_command_without_room_for_its_events_changes_nothing() {
    let _alone = alone();
    let mut rig = Rig::of(small());
    rig.configure(configuration(json!({"a": {"url": "/"}})));
    let refused = (0..=OUTPUT).find_map(|_| rig.hub.start(rig.now, "a").err());
    assert_eq!(refused, Some(HubCommandError::Unpolled { limit: OUTPUT }));
    let before = format!("{:?}", rig.hub);
    assert!(matches!(rig.hub.configure(rig.now, Configuration::default()), Err(HubCommandError::Unpolled { .. })));
    assert!(matches!(rig.hub.authorized(rig.now, "a"), Err(HubCommandError::Unpolled { .. })));
    assert_eq!(format!("{:?}", rig.hub), before);
    drain(|| rig.hub.poll());
    rig.hub.configure(rig.now, Configuration::default()).unwrap();
}

#[derive(Clone, Debug)]
enum Op {
    Configure(u8, u8),
    Start(u8),
    Call(u8),
    Cancel(u8),
    Exit(u8),
    Tools(u8, u8),
    Wait(u16),
    Serve,
    PausePolling(bool),
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const TOOLS: [&str; 3] = ["x", "y-z", "y.z"];

fn op() -> impl Strategy<Value = Op> {
    let server = 0..3_u8;
    prop_oneof![
        (server.clone(), 0..6_u8).prop_map(|(server, entry)| Op::Configure(server, entry)),
        server.clone().prop_map(Op::Start),
        any::<u8>().prop_map(Op::Call),
        any::<u8>().prop_map(Op::Cancel),
        server.clone().prop_map(Op::Exit),
        (server, 0..8_u8).prop_map(|(server, tools)| Op::Tools(server, tools)),
        any::<u16>().prop_map(Op::Wait),
        Just(Op::Serve),
        any::<bool>().prop_map(Op::PausePolling),
    ]
}

fn entry(name: &str, which: u8) -> Value {
    match which {
        0 => json!({"command": name}),
        1 => json!({"command": name, "timeout": 7}),
        2 => json!({"command": name, "tools": {"include": ["x"]}}),
        3 => json!({"command": "another"}),
        4 => json!({"url": "/"}),
        _ => json!({"command": name, "enabled": false}),
    }
}

fn apply(rig: &mut Rig, entries: &mut Value, op: Op) {
    // Only commands are given in a row without a poll: the rig answers polled output.
    if !matches!(op, Op::Configure(..) | Op::Start(_) | Op::Call(_) | Op::Cancel(_)) {
        rig.polls_on_request = false;
        rig.collect();
    }
    match op {
        Op::Configure(server, which) => {
            let name = NAMES[usize::from(server)];
            entries[name] = entry(name, which);
            rig.configure(configuration(entries.clone()));
        }
        Op::Start(server) => _ = rig.hub.start(rig.now, NAMES[usize::from(server)]),
        Op::Call(which) => {
            let functions = rig.functions();
            if let Some(name) = functions.get(usize::from(which) % functions.len().max(1))
                && let Ok(call) = rig.try_call(name, json!({"uri": "r:r", "name": "p"}))
            {
                rig.accept(call);
            }
        }
        Op::Cancel(which) => {
            let open = rig.open_calls();
            if let Some(call) = open.get(usize::from(which) % open.len().max(1)) {
                let _ = rig.hub.cancel(rig.now, *call);
            }
        }
        Op::Exit(server) => rig.exit(NAMES[usize::from(server)]),
        Op::Tools(server, mask) => {
            let tools: Vec<_> = (0..3).filter(|at| mask >> at & 1 == 1).map(|at| TOOLS[at]).collect();
            rig.change_tools(NAMES[usize::from(server)], &tools);
        }
        Op::Wait(millis) => rig.wait(Duration::from_millis(millis.into())),
        Op::Serve => rig.serve(),
        Op::PausePolling(paused) => rig.polls_on_request = paused,
    }
    rig.collect();
}

fn config() -> ProptestConfig {
    let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/hub_accumulation.txt"));
    ProptestConfig { cases: 64, failure_persistence: Some(path), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// After the end, only the configuration and the names of a hub remain.
    #[test]
    fn nothing_remains_after_the_end(ops in prop::collection::vec(op(), 0..40)) {
        let _alone = alone();
        let mut rig = Rig::of(small());
        for name in NAMES {
            rig = rig.peer(name, full(&TOOLS, &["r"], &["p"]));
        }
        let mut entries = json!({"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}});
        rig.configure(configuration(entries.clone()));
        rig.open();
        for op in ops {
            apply(&mut rig, &mut entries, op);
        }
        rig.polls_on_request = false;
        rig.collect();
        rig.close();
        for _ in 0..100 {
            rig.serve();
            rig.wait(Duration::from_secs(10));
        }
        prop_assert!(rig.hub.is_closed());
        prop_assert_eq!(rig.hub.deadline(), None);
        prop_assert_eq!(rig.open_calls(), vec![]);
        let mut other = Hub::new(HubOptions::new(small()), 0);
        other.configure(Time::ZERO, configuration(entries)).unwrap();
        other.close(Time::ZERO).unwrap();
        drain(|| other.poll());
        let (left, least, names) = (held(&rig.hub), held(&other), held(rig.hub.names()));
        prop_assert!(left <= least + names, "{left} bytes, where {least} are needed, and {names} for names");
    }
}
