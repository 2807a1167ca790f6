//! Properties of a hub under random operations. `Rig` checks each output.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::{KEY, drain, legacy};
use crate::rig::{Behaviour, Rig, full};
use mcp_proto::host::Saved;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::ServerState as State;
use mcp_proto::host::hub::{CallError, CallId, Hub, HubCommandError, HubOptions, SessionHandle};
use mcp_proto::host::names::Target;
use mcp_proto::{Reconnect, Time, Transport};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

const NAMES: [&str; 5] = ["a", "b-c", "b.c", "d", "e"];
const TOOLS: [&str; 4] = ["x", "y-z", "y.z", "list_resources"];

#[derive(Clone, Debug)]
struct Setup {
    servers: usize,
    starts: usize,
    required: u8,
    reconnects: bool,
    breaker: bool,
    queued: usize,
    ignores_end_of_input: u8,
    /// The servers whose toolset was saved before.
    saved: u8,
}

/// A change of a server's entry.
#[derive(Clone, Copy, Debug)]
enum Change {
    Remove,
    /// The initial entry.
    Plain,
    Off,
    Command(u8),
    Timeout(u8),
    /// Its program is stopped after so many seconds without use, or at this age.
    Rests(u8, u8),
    Include(u8),
    NoResources,
    Http,
    BadAddress,
    Broken,
}

#[derive(Clone, Debug)]
enum Op {
    Configure(Vec<(u8, Change)>),
    Open,
    Start(u8),
    Authorized(u8),
    Save(u8),
    Restore(u8, u8),
    Call(u8, bool),
    Cancel(u8),
    Close,
    Behaviour(u8, Behaviour),
    Exit(u8),
    Tools(u8, u8),
    Withhold(u8, bool),
    IgnoreShutdown(u8, bool),
    Late(u8, u8),
    Wait(u32),
    WaitForDeadline,
    Serve,
    /// The next few commands are given without polling.
    PausePolling(u8),
}

fn setup() -> impl Strategy<Value = Setup> {
    let sizes = (3..=NAMES.len(), 1..4_usize, 1..4_usize);
    let masks = (0..8_u8, any::<u8>(), any::<u8>());
    (sizes, masks, any::<bool>(), any::<bool>()).prop_map(
        |((servers, starts, queued), (required, ignores_end_of_input, saved), reconnects, breaker)| Setup {
            servers,
            starts,
            required,
            reconnects,
            breaker,
            queued,
            ignores_end_of_input,
            saved,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => Just(Change::Remove),
        4 => Just(Change::Plain),
        2 => Just(Change::Off),
        2 => (0..3_u8).prop_map(Change::Command),
        2 => (1..4_u8).prop_map(Change::Timeout),
        3 => (0..60_u8, 0..200_u8).prop_map(|(idle, old)| Change::Rests(idle, old)),
        2 => (0..16_u8).prop_map(Change::Include),
        1 => Just(Change::NoResources),
        2 => Just(Change::Http),
        1 => Just(Change::BadAddress),
        1 => Just(Change::Broken),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let behavior = prop::sample::select(vec![
        Behaviour::Answers,
        Behaviour::Answers,
        Behaviour::Silent,
        Behaviour::DoesNotStart,
        Behaviour::Exits,
        Behaviour::Refuses,
    ]);
    let server = || 0..5_u8;
    prop_oneof![
        6 => prop::collection::vec((server(), change()), 1..4).prop_map(Op::Configure),
        2 => Just(Op::Open),
        3 => server().prop_map(Op::Start),
        2 => server().prop_map(Op::Authorized),
        2 => server().prop_map(Op::Save),
        3 => (server(), any::<u8>()).prop_map(|(server, which)| Op::Restore(server, which)),
        10 => (any::<u8>(), any::<bool>()).prop_map(|(which, sound)| Op::Call(which, sound)),
        2 => any::<u8>().prop_map(Op::Cancel),
        1 => prop::bool::weighted(0.3).prop_map(|close| if close { Op::Close } else { Op::Serve }),
        4 => (server(), behavior).prop_map(|(server, behavior)| Op::Behaviour(server, behavior)),
        2 => server().prop_map(Op::Exit),
        3 => (server(), 0..16_u8).prop_map(|(server, tools)| Op::Tools(server, tools)),
        3 => (server(), any::<bool>()).prop_map(|(server, withholds)| Op::Withhold(server, withholds)),
        2 => (server(), any::<bool>()).prop_map(|(server, ignores_end_of_input)| Op::IgnoreShutdown(server, ignores_end_of_input)),
        2 => (any::<u8>(), 0..4_u8).prop_map(|(which, what)| Op::Late(which, what)),
        3 => (0..150_000_u32).prop_map(Op::Wait),
        4 => Just(Op::WaitForDeadline),
        10 => Just(Op::Serve),
        3 => (2..5_u8).prop_map(Op::PausePolling),
    ]
}

fn some<'a>(names: &[&'a str], mask: u8) -> Vec<&'a str> {
    names.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, name)| *name).collect()
}

/// Adds servers with these names. Each is different.
fn with_servers(rig: Rig, names: &[&str]) -> Rig {
    names.iter().enumerate().fold(rig, |rig, (at, name)| {
        rig.peer(name, full(&TOOLS[..at.min(TOOLS.len())], &["r"][..at % 2], &["p"][..at / 2 % 2]))
    })
}

/// A rig, and the expected state.
struct World {
    rig: Rig,
    names: Vec<&'static str>,
    entries: BTreeMap<&'static str, Value>,
    saved: Vec<Saved>,
    calls: Vec<CallId>,
    handles: BTreeSet<SessionHandle>,
    polling_paused: u8,
    is_open: bool,
}

impl World {
    fn new(setup: &Setup) -> Self {
        let names = NAMES[..setup.servers].to_vec();
        let mut session = legacy();
        session.reconnect = setup.reconnects.then(Reconnect::default);
        session.limits.queued = setup.queued;
        let mut options = HubOptions::new(session);
        options.starts = setup.starts;
        options.required = some(&names, setup.required).into_iter().map(Into::into).collect();
        options.breaker = options.breaker.filter(|_| setup.breaker);
        let mut rig = with_servers(Rig::new(options), &names);
        for name in some(&names, setup.ignores_end_of_input) {
            rig.get(name).ignores_end_of_input = true;
        }
        let entries = names.iter().map(|name| (*name, json!({"command": name}))).collect();
        let mut world = Self {
            rig,
            names,
            entries,
            saved: vec![],
            calls: vec![],
            handles: BTreeSet::new(),
            polling_paused: 0,
            is_open: false,
        };
        world.configure();
        let before = with_servers(Rig::of(legacy()), &world.names).up(&world.names);
        for name in some(&world.names, setup.saved) {
            let saved = before.hub.save(Time::ZERO, name, KEY, 7).unwrap();
            world.command(|hub, now| hub.restore(now, name, saved.clone())).unwrap();
            world.saved.push(saved);
        }
        world.rig.collect();
        world
    }

    fn name(&self, server: u8) -> &'static str {
        self.names[usize::from(server) % self.names.len()]
    }

    /// Gives a command. A refused command must change nothing, except that deadlines that are due are handled.
    fn command<T, E: std::fmt::Debug>(&mut self, command: impl FnOnce(&mut Hub, Time) -> Result<T, E>) -> Result<T, E> {
        let before = self.rig.hub.clone();
        let result = command(&mut self.rig.hub, self.rig.now);
        if let Err(error) = &result {
            assert!(is_unchanged(&before, &self.rig.hub, self.rig.now), "{error:?} changed something");
        }
        result
    }

    fn configure(&mut self) {
        let configuration: Configuration = serde_json::from_value(json!(self.entries)).unwrap();
        let before: BTreeMap<_, _> = self.names.iter().map(|name| (*name, self.rig.hub.handle(name))).collect();
        let Ok(changes) = self.command(|hub, now| hub.configure(now, configuration)) else {
            return assert!(self.rig.is_closing());
        };
        for server in changes.unchanged.iter().chain(&changes.invalid) {
            assert_eq!(self.rig.hub.handle(server), before[&**server], "{server} was touched");
        }
        for change in &changes.changed {
            let (former, now) = (before[&*change.server], self.rig.hub.handle(&change.server));
            assert!(!change.needs_session() || now.is_none() || former != now, "{change:?} without another session");
            assert!(change.needs_session() || former == now, "{change:?} took a session");
        }
        for server in &changes.removed {
            assert_eq!(self.rig.hub.handle(server), None);
        }
        for report in self.rig.hub.servers() {
            assert_eq!(report.handle.is_some(), report.entry.enabled, "{}", report.name);
        }
    }

    fn change(&mut self, server: u8, change: Change) {
        let name = self.name(server);
        let entry = self.entries.entry(name).or_insert_with(|| json!({"command": name}));
        match change {
            Change::Remove => drop(self.entries.remove(name)),
            Change::Plain => *entry = json!({"command": name}),
            Change::Off => entry["enabled"] = json!(false),
            Change::Command(number) => *entry = json!({"command": format!("{name}{number}")}),
            Change::Timeout(seconds) => entry["timeout"] = json!(seconds),
            Change::Rests(idle, old) => {
                (entry["idle_timeout"], entry["max_lifetime"]) = (json!(idle), json!(old));
            }
            Change::Include(mask) => entry["tools"] = json!({"include": some(&TOOLS, mask)}),
            Change::NoResources => entry["tools"] = json!({"resources": false}),
            Change::Http => *entry = json!({"url": "https://example.com/mcp"}),
            Change::BadAddress => *entry = json!({"url": "/mcp"}),
            Change::Broken => *entry = json!({"command": name, "url": "https://example.com/mcp"}),
        }
    }

    fn call(&mut self, which: u8, sound: bool) {
        let functions = self.rig.functions();
        let unknown = "mcp_no_such_tool".to_owned();
        let at = usize::from(which) % (functions.len() + 1);
        let name = functions.get(at).unwrap_or(&unknown);
        let arguments = if sound { r#"{"uri": "r:r", "name": "p"}"# } else { "{}" };
        let arguments = mcp_proto::RawValue::from_string(arguments.into()).unwrap();
        match self.command(|hub, now| hub.call(now, name, Some(&arguments))) {
            Ok(call) => {
                assert!(at < functions.len() && !self.calls.contains(&call));
                self.calls.push(call);
                self.rig.accept(call);
            }
            Err(CallError::UnknownTool { .. }) => assert_eq!(at, functions.len(), "{name} is offered"),
            Err(CallError::Closed) => assert!(self.rig.is_closing()),
            Err(CallError::Arguments { .. }) => assert!(!sound),
            Err(CallError::CoolingDown { .. } | CallError::Session { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Input for a removed session changes nothing, except that deadlines that are due are handled.
    fn late(&mut self, which: u8, what: u8) {
        let gone: Vec<_> = self.handles.iter().filter(|handle| self.rig.hub.server(**handle).is_none()).collect();
        let Some(handle) = gone.get(usize::from(which) % gone.len().max(1)) else { return };
        let (now, session, connection) = (self.rig.now, **handle, self.rig.connection(**handle));
        let hub = &mut self.rig.hub;
        hub.handle_timeout(now);
        let before = format!("{hub:?}");
        match what {
            0 => hub.handle_bytes(now, session, connection, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"),
            1 => hub.handle_transport(now, session, connection, Transport::Opened),
            2 => hub.handle_transport(now, session, connection, Transport::Closed { why: "late" }),
            _ => hub.handle_transport(now, session, connection, Transport::SignOfLife),
        }
        assert!(before == format!("{hub:?}"), "late input changed something");
    }

    fn check_refusal(&mut self, server: u8, result: &Result<(), HubCommandError>) {
        let Err(misuse) = result else { return };
        let name = self.name(server);
        let entry = self.rig.hub.configuration().servers.get(name);
        match misuse {
            HubCommandError::Closed => assert!(self.rig.is_closing()),
            HubCommandError::UnknownServer { server } => assert!(**server == *name && entry.is_none()),
            HubCommandError::Disabled { server } => assert!(**server == *name && !entry.unwrap().enabled),
            HubCommandError::AlreadyOpen => assert!(self.is_open),
            HubCommandError::Started { .. } => assert_ne!(self.rig.state(name), None),
            HubCommandError::Stale { .. } => assert!(entry.is_some()),
            other => panic!("{other:?}"),
        }
    }

    fn apply(&mut self, op: &Op) {
        let is_command = matches!(
            op,
            Op::Configure(_)
                | Op::Open
                | Op::Start(_)
                | Op::Authorized(_)
                | Op::Restore(..)
                | Op::Call(..)
                | Op::Cancel(_)
                | Op::Close
        );
        self.rig.polls_on_request = is_command && self.polling_paused > 0;
        self.polling_paused = if self.rig.polls_on_request { self.polling_paused - 1 } else { 0 };
        if !self.rig.polls_on_request {
            self.rig.collect();
        }
        match op {
            Op::Configure(changes) => {
                changes.iter().for_each(|(server, change)| self.change(*server, *change));
                self.configure();
            }
            Op::Open => {
                let result = self.command(|hub, now| hub.open(now));
                self.check_refusal(0, &result);
                self.is_open |= result.is_ok();
            }
            Op::Start(server) => {
                let name = self.name(*server);
                let result = self.command(|hub, now| hub.start(now, name));
                self.check_refusal(*server, &result);
            }
            Op::Authorized(server) => {
                let name = self.name(*server);
                let result = self.command(|hub, now| hub.authorized(now, name));
                self.check_refusal(*server, &result);
            }
            Op::Save(server) => self.saved.extend(self.rig.hub.save(Time::ZERO, self.name(*server), KEY, 7)),
            Op::Restore(server, which) => {
                let at = usize::from(*which) % self.saved.len().max(1);
                let Some(saved) = self.saved.get(at).cloned() else { return };
                let name = self.name(*server);
                let result = self.command(|hub, now| hub.restore(now, name, saved));
                self.check_refusal(*server, &result);
            }
            Op::Call(which, sound) => self.call(*which, *sound),
            Op::Cancel(which) => {
                let open = self.rig.open_calls();
                let of = if which % 4 == 0 { &self.calls } else { &open };
                let Some(call) = of.get(usize::from(*which) % of.len().max(1)).copied() else { return };
                let cancelled = self.command(|hub, now| hub.cancel(now, call));
                assert!(cancelled.is_ok() || self.rig.polls_on_request || !open.contains(&call), "{call:?} goes on");
            }
            Op::Close => {
                if !self.rig.is_closing() {
                    self.rig.close();
                }
            }
            Op::Behaviour(server, behavior) => self.rig.set_behaviour(self.name(*server), *behavior),
            Op::Exit(server) => self.rig.exit(self.name(*server)),
            Op::Tools(server, mask) => self.rig.change_tools(self.name(*server), &some(&TOOLS, *mask)),
            Op::Withhold(server, true) => self.rig.get(self.name(*server)).unanswered = Some("tools/call"),
            Op::Withhold(server, false) => self.rig.release(self.name(*server)),
            Op::IgnoreShutdown(server, true) => self.rig.get(self.name(*server)).ignores_end_of_input = true,
            Op::IgnoreShutdown(server, false) => self.rig.end_process(self.name(*server)),
            Op::Late(which, what) => self.late(*which, *what),
            Op::Wait(millis) => self.rig.wait(Duration::from_millis((*millis).into())),
            Op::WaitForDeadline => {
                if let Some(deadline) = self.rig.hub.deadline() {
                    self.rig.wait(deadline.since(self.rig.now));
                }
            }
            Op::Serve => self.rig.serve(),
            Op::PausePolling(commands) => self.polling_paused = *commands,
        }
        self.rig.collect();
        self.check();
    }

    fn check(&mut self) {
        let hub = &self.rig.hub;
        self.handles.extend(hub.servers().filter_map(|report| report.handle));
        let mut seen = BTreeSet::new();
        for (server, function) in hub.functions() {
            assert!(seen.insert(function.name.clone()), "{} twice", function.name);
            let resolved = hub.names().resolve(&function.name).expect(&function.name);
            assert_eq!(resolved.server, server);
            assert_eq!(hub.names().name(server, resolved.target), Some(function.name));
            let entry = &hub.configuration().servers[server];
            assert!(entry.enabled);
            if let Target::Tool(tool) = resolved.target {
                assert!(entry.tools.admits(tool), "{tool} is filtered out");
            }
        }
        let shown: BTreeSet<_> = hub.functions().map(|(server, _)| server).collect();
        for (name, resolved) in hub.names().iter().filter(|_| !self.rig.is_closing()) {
            // A server that is not up keeps its names. One that is up has only the names of its tools.
            let enabled = hub.configuration().servers.get(resolved.server).is_some_and(|entry| entry.enabled);
            assert!(enabled, "{name} is a name without a tool");
            assert!(!shown.contains(resolved.server) || seen.contains(&name), "{name} is a name without a tool");
        }
        if !self.rig.polls_on_request {
            self.check_deadline();
        }
    }

    /// Nothing happens before the deadline, and something at the deadline.
    fn check_deadline(&self) {
        let hub = &self.rig.hub;
        let Some(deadline) = hub.deadline() else {
            let mut later = hub.clone();
            later.handle_timeout(self.rig.now + Duration::from_secs(1_000_000));
            return assert!(later.poll().is_none() && later.deadline().is_none(), "without a deadline nothing is due");
        };
        let before = Time::from_micros(deadline.as_micros().saturating_sub(1));
        if before >= self.rig.now {
            let mut early = hub.clone();
            early.handle_timeout(before);
            assert!(early.poll().is_none(), "something is due before the deadline");
            assert_eq!(early.deadline(), Some(deadline));
        }
        let mut at = hub.clone();
        at.handle_timeout(deadline.max(self.rig.now));
        drain(|| at.poll());
        assert!(at.deadline().is_none_or(|next| next > deadline), "no progress at the deadline");
    }

    /// All servers answer: the hub must reach a final state, and all calls must end.
    fn settle(&mut self) {
        self.rig.polls_on_request = false;
        self.rig.collect();
        for name in self.names.clone() {
            self.rig.set_behaviour(name, Behaviour::Answers);
            self.rig.end_process(name);
            self.rig.release(name);
            let result = self.command(|hub, now| hub.authorized(now, name));
            self.check_refusal(0, &result.or(Ok(())));
        }
        self.rig.collect();
        self.rig.wait(Duration::from_secs(4000));
        self.check();
        assert_eq!(self.rig.open_calls(), [], "{:#?}", self.rig.log);
        for report in self.rig.hub.servers().filter(|_| self.is_open && !self.rig.is_closing()) {
            let rests = match report.state {
                None => !report.entry.enabled,
                Some(State::Idle) => report.saved_at.is_some(),
                Some(State::Suspended) => report.session.is_some_and(|session| !session.is_ready()),
                Some(State::Ready) => report.session.is_some_and(mcp_proto::Engine::is_ready),
                Some(State::Failed) => report.failure.is_some(),
                Some(_) => false,
            };
            assert!(rests, "{} is {:?}: {:#?}", report.name, report.state, self.rig.log);
        }
    }

    fn end(&mut self) {
        self.settle();
        if !self.rig.is_closing() {
            self.rig.close();
        }
        self.rig.wait(Duration::from_secs(60));
        assert_eq!(self.rig.log.last().unwrap(), "closed");
        assert!(self.rig.hub.is_closed() && self.rig.hub.deadline().is_none());
        assert_eq!(self.rig.running().count(), 0, "a process still runs");
        assert_eq!(self.rig.open_calls(), []);
        assert!(self.rig.count("ready") <= 1);
        let now = self.rig.now;
        assert_eq!(self.rig.hub.open(now), Err(HubCommandError::Closed));
        assert_eq!(self.rig.hub.start(now, "a"), Err(HubCommandError::Closed));
        self.rig.timeout();
    }
}

/// Whether a hub is unchanged, or changed only by handling the deadlines that are due.
fn is_unchanged(before: &Hub, after: &Hub, now: Time) -> bool {
    let after = format!("{after:?}");
    let mut served = before.clone();
    served.handle_timeout(now);
    after == format!("{before:?}") || after == format!("{served:?}")
}

type Command = fn(&mut Hub, Time, &World) -> Option<Result<(), String>>;

fn text<T>(result: Result<T, impl std::fmt::Debug>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

/// Each command of a hub, if there is something to apply it to.
const COMMANDS: &[Command] = &[
    |hub, now, world| {
        let configuration: Configuration = serde_json::from_value(json!(world.entries)).unwrap();
        Some(text(hub.configure(now, configuration)))
    },
    |hub, now, _| Some(text(hub.open(now))),
    |hub, now, world| Some(text(hub.start(now, world.names[0]))),
    |hub, now, world| Some(text(hub.authorized(now, world.names[0]))),
    |hub, now, world| world.saved.last().map(|saved| text(hub.restore(now, world.names[0], saved.clone()))),
    |hub, now, _| Some(text(hub.call(now, "mcp_no_such_tool", None))),
    |hub, now, world| {
        // The called name is the same for both hubs.
        let function = world.rig.hub.functions().next().map(|(_, function)| function.name.to_string());
        function.map(|name| text(hub.call(now, &name, None)))
    },
    |hub, now, world| world.calls.last().map(|call| text(hub.cancel(now, *call))),
    |hub, now, world| {
        let session = world.handles.last().copied();
        session.map(|session| text(hub.request(now, session, mcp_proto::Request::new("vendor/thing"))))
    },
    |hub, now, _| Some(text(hub.close(now))),
];

fn run(setup: &Setup, ops: &[Op]) -> World {
    let mut world = World::new(setup);
    ops.iter().for_each(|op| world.apply(op));
    world.end();
    world
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/hub_laws.txt"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn laws_hold(setup in setup(), ops in prop::collection::vec(op(), 1..80)) {
        run(&setup, &ops);
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_command_first_handles_due_deadlines_and_changes_nothing_else_if_refused(
        setup in setup(),
        ops in prop::collection::vec(op(), 1..60),
        late in 1..150_000_u32,
    ) {
        let mut world = World::new(&setup);
        ops.iter().for_each(|op| world.apply(op));
        let now = world.rig.now + Duration::from_millis(late.into());
        let mut served = world.rig.hub.clone();
        served.handle_timeout(now);
        for (number, command) in COMMANDS.iter().enumerate() {
            let (mut hub, mut expected) = (world.rig.hub.clone(), served.clone());
            let results = (command(&mut hub, now, &world), command(&mut expected, now, &world));
            let (Some(result), Some(other)) = results else { continue };
            prop_assert_eq!(&result, &other, "command {}", number);
            let unchanged = result.is_ok() || is_unchanged(&world.rig.hub, &hub, now);
            prop_assert!(unchanged, "command {} was refused and changed something", number);
            let (mut actions, mut others) = (vec![], vec![]);
            drain(|| hub.poll().map(|action| actions.push(format!("{action:?}"))));
            drain(|| expected.poll().map(|action| others.push(format!("{action:?}"))));
            prop_assert_eq!(actions, others, "command {}", number);
        }
    }
}

proptest! {
    #![proptest_config(config(50))]

    #[test]
    fn equal_inputs_give_equal_outputs(setup in setup(), ops in prop::collection::vec(op(), 1..80)) {
        let outputs = |world: World| (world.rig.log, format!("{:?}{:?}", world.rig.events, world.rig.sent));
        prop_assert_eq!(outputs(run(&setup, &ops)), outputs(run(&setup, &ops)));
    }
}

#[cfg(feature = "snapshot")]
mod moves {
    use mcp_proto::{Moved, Secrets};

    use super::*;

    proptest! {
        #![proptest_config(config(100))]

        #[test]
        fn a_hub_saved_and_restored_after_each_step_behaves_the_same(
            setup in setup(),
            ops in prop::collection::vec(op(), 1..60),
        ) {
            let outputs = |world: World| (world.rig.log, format!("{:?}{:?}", world.rig.events, world.rig.sent));
            let mut world = World::new(&setup);
            for op in &ops {
                world.apply(op);
                let before = format!("{:?}", world.rig.hub);
                world.rig.move_hub(Secrets::Included, Moved::WithTransport);
                assert_eq!(format!("{:?}", world.rig.hub), before);
            }
            world.end();
            prop_assert_eq!(outputs(world), outputs(run(&setup, &ops)));
        }

        #[cfg(feature = "oauth")]
        #[test]
        fn authorizations_change_nothing_for_servers_that_do_not_use_them(
            setup in setup(),
            ops in prop::collection::vec(op(), 1..60),
        ) {
            use mcp_proto::binding::oauth::OAuthOptions;
            use mcp_proto::host::hub::HubOAuth;

            let saved = |hub: &Hub| serde_json::to_string(&hub.snapshot(Secrets::Included)).unwrap();
            let oauth = HubOAuth::new(OAuthOptions::new("suite", "http://127.0.0.1/"), [1; 32], Time::ZERO, Duration::ZERO);
            let mut world = World::new(&setup);
            for op in &ops {
                world.apply(op);
                let hub = world.rig.hub.clone().with_oauth(oauth.clone());
                prop_assert_eq!(saved(&hub), saved(&world.rig.hub));
            }
        }

        #[test]
        fn a_hub_that_moves_without_its_transports_ends_each_call_once(
            setup in setup(),
            before in prop::collection::vec(op(), 1..60),
            after in prop::collection::vec(op(), 1..60),
            secrets in any::<bool>(),
        ) {
            let mut world = World::new(&setup);
            before.iter().for_each(|op| world.apply(op));
            let secrets = if secrets { Secrets::Included } else { Secrets::Excluded };
            world.rig.move_hub(secrets, Moved::WithoutTransport);
            after.iter().for_each(|op| world.apply(op));
            world.end();
        }
    }
}
