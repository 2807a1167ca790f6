//! Clients and hubs, servers of both eras, and what happens between them, from one seed: links that delay and split;
//! connections that break, stall or cannot be made; servers that crash, forget their sessions, answer late, twice, in part or
//! not at all; authorization servers whose tokens expire; programs that end, and are restored from a snapshot in another
//! process.
//!
//! Each tool is called at most once. No tool runs twice; what ends with a result ran, and what was not sent did not; each
//! accepted call ends once. Once nothing happens any more, each client is ready or closed, and each call has ended.
//!
//! The crate's own tests simulate clients and hubs, those of the driver on tokio its sessions.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Deref;
use std::time::Duration;

use fastrand::Rng;
#[cfg(feature = "oauth")]
use mcp_proto::binding::oauth::OAuthAction;
use mcp_proto::host::hub::SessionHandle;
use mcp_proto::testkit::{Arrival, Driven, Embedder, FakeServer, FakeTool, Fault, Link, NodeId, On, Port, Reply, Sim};
use mcp_proto::testkit::{Spelling, Step};
use mcp_proto::{ConnectionId, Keepalive, Options, Outcome, ProtocolVersion, Reconnect, Secrets, Snapshot, Time};
use serde::Serialize;
use serde_json::json;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const SERVERS: [&str; 3] = ["a", "b-c", "d"];
/// Tools of each server.
const TOOLS: usize = 24;
pub(crate) const TURNS: usize = 60;

/// Sees what happens in a simulation: the test counts it, and the page of `examples/simulator` draws it.
pub(crate) trait Observer {
    /// This is done to a server, or to the program at it.
    fn turn(&self, now: Time, server: &str, what: &'static str, detail: String);

    /// A call ended, and its tool ran so many times.
    fn ended(&self, server: &str, tool: &str, outcome: &Outcome, runs: usize);

    /// A client does this.
    fn step<E: Serialize>(&self, _server: &str, _step: &Step<E>) {}

    /// A program's client or hub can be saved without its secrets.
    fn can_save(&self, _save: &dyn Fn() -> Option<Snapshot>) {}

    /// This arrives for a client.
    fn arrival(&self, _server: &str, _port: Port, _input: &Arrival<'_>) {}

    /// Something may have changed, at the time of the last steps and arrivals.
    fn changed<E: Embedder>(&self, _sim: &Sim<E>) {}
}

/// The event of a program's client or hub.
type EventOf<P> = <<P as Embedder>::Driven as Driven>::Event;

/// A program with a client or a hub.
pub(crate) trait Program: Deref<Target = Self::Driven> + Embedder<Driven: Driven<Event: Serialize>> {
    type Call: Copy + Debug + Ord + Serialize;

    const IS_HUB: bool = false;

    /// In which time it recovers: a parked client waits for five minutes, and a call for at most ten.
    const RECOVERS: Duration = seconds(1_800);

    fn new(seed: u64) -> Self;

    /// What its simulation has besides the servers.
    fn prepare<E: Embedder>(sim: Sim<E>) -> Sim<E> {
        sim
    }

    /// Lets time pass.
    fn run<O: Observer>(sim: &mut Sim<Watched<'_, Self, O>>, _nodes: &[NodeId], time: Duration, observer: &O)
    where
        Self: Sized,
    {
        let observe = |sim: &Sim<_>| {
            observer.changed(sim);
            false
        };
        sim.run_until(time, observe).unwrap();
    }

    /// What else may happen. Returns what it is.
    fn disturb<E: Embedder>(_: &mut Sim<E>, _: &mut Rng) -> Option<&'static str> {
        None
    }

    fn open(&mut self, now: Time);

    fn call(&mut self, now: Time, server: &str, tool: &str) -> Option<Self::Call>;

    fn cancel(&mut self, now: Time, call: Self::Call);

    fn refresh(&mut self, now: Time);

    fn close(&mut self, now: Time);

    /// What it is saved as; `None` if it cannot be saved while it goes on.
    fn saved(&self, _: Secrets) -> Option<Snapshot> {
        None
    }

    /// The program ends, and another one restores its client.
    fn restore(&mut self, now: Time);

    fn ended(&self) -> Vec<(Self::Call, Outcome)>;

    /// Whether each server is ready, or the client is closed.
    fn is_settled(&self) -> bool;

    fn is_closed(&self) -> bool;
}

pub(crate) fn read_back(snapshot: &Snapshot) -> Snapshot {
    serde_json::from_str(&serde_json::to_string(snapshot).unwrap()).unwrap()
}

pub(crate) fn options() -> Options {
    let mut options = Options::new("simulated", "1.0");
    options.reconnect = Some(Reconnect::default());
    options.keepalive = Some(Keepalive::default());
    options
}

/// A program at the server of this name, or a hub, whose client is observed.
pub(crate) struct Watched<'a, P, O> {
    pub(crate) program: P,
    server: &'static str,
    observer: &'a O,
}

impl<P: Program, O: Observer> Embedder for Watched<'_, P, O> {
    type Driven = Self;

    fn driven(&mut self) -> &mut Self {
        self
    }

    fn on_event(&mut self, now: Time, event: EventOf<P>) {
        self.program.on_event(now, event);
    }

    #[cfg(feature = "oauth")]
    fn on_oauth(&mut self, now: Time, session: Option<SessionHandle>, action: OAuthAction) {
        self.program.on_oauth(now, session, action);
    }
}

impl<P: Program, O: Observer> Driven for Watched<'_, P, O> {
    type Event = EventOf<P>;

    fn step(&mut self) -> Option<Step<EventOf<P>>> {
        let step = self.program.driven().step()?;
        let session = match &step {
            Step::Open(port) | Step::Drop(port) => port.session(),
            Step::Write(session, _) | Step::Shutdown(session, _) | Step::Request(session, _) => *session,
            #[cfg(feature = "oauth")]
            Step::OAuth(session, _) => *session,
            Step::Event(_) => None,
        };
        self.observer.step(Driven::server(self, session).unwrap_or(self.server), &step);
        Some(step)
    }

    fn connection_of(&self, session: Option<SessionHandle>) -> Option<ConnectionId> {
        self.program.connection_of(session)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.program.next_deadline()
    }

    fn time_out(&mut self, now: Time) {
        self.program.driven().time_out(now);
    }

    fn input(&mut self, now: Time, port: Port, input: Arrival<'_>) {
        self.observer.arrival(Driven::server(self, port.session()).unwrap_or(self.server), port, &input);
        self.program.driven().input(now, port, input);
    }

    fn server(&self, session: Option<SessionHandle>) -> Option<&str> {
        Driven::server(&*self.program, session)
    }

    fn takes_messages(&self) -> bool {
        self.program.takes_messages()
    }
}

/// An index below a length: [`Rng::usize`] depends on the size of a word.
pub(crate) fn index(rng: &mut Rng, length: usize) -> usize {
    usize::try_from(rng.u64(..u64::try_from(length).unwrap())).unwrap()
}

fn server(rng: &mut Rng) -> FakeServer {
    let both = [ProtocolVersion::NEWEST_LEGACY, ProtocolVersion::NEWEST_MODERN];
    let server = match rng.u8(..3) {
        0 => FakeServer::legacy(),
        1 => FakeServer::modern(),
        _ => FakeServer::new(both),
    };
    let server = server.sessions(rng.bool()).get_stream(rng.bool()).streams(rng.bool()).resumes(rng.bool());
    let server = server.page_size(1 + index(rng, TOOLS - 1));
    // It draws nothing, so a seed stays what it was.
    let server = server.spelling(Spelling::ALL[index(&mut rng.clone(), Spelling::ALL.len())]);
    (0..TOOLS).fold(server, |server, at| {
        let tool = FakeTool::new(&format!("t{at}")).takes(millis(rng.u64(..5_000))).progress(rng.u32(..3));
        server.tool(tool)
    })
}

fn fault(rng: &mut Rng) -> (&'static str, Fault) {
    match rng.u8(..5) {
        0 => ("cut", Fault::Cut),
        1 => ("stall", Fault::Stall(millis(rng.u64(..40_000)))),
        2 => ("unreachable", Fault::Unreachable(millis(rng.u64(..40_000)))),
        3 => ("expired", Fault::Expire),
        _ => ("crash", Fault::Crash),
    }
}

fn reply(rng: &mut Rng) -> (&'static str, Reply) {
    match rng.u8(..9) {
        0 => ("late", Reply::Late(millis(rng.u64(..90_000)))),
        1 => ("silent", Reply::Silent),
        2 => ("twice", Reply::Twice),
        3 => ("noise", Reply::Noise("{no message".into())),
        4 => ("dies after", Reply::Dies),
        5 => ("torn", Reply::Torn),
        6 => ("dies before", Reply::DiesFirst),
        7 => ("busy", Reply::status(503, "busy")),
        _ => ("error", Reply::error(-32603, "no")),
    }
}

/// One simulation of so many turns.
pub(crate) fn simulate<P: Program>(rng: &mut Rng, turns: usize, observer: &impl Observer) {
    let mut sim = Sim::new(rng.u64(..));
    for name in SERVERS {
        let link = Link::new(millis(rng.u64(1..60))).jitter(millis(rng.u64(..120))).piece(index(rng, 200));
        sim = sim.with_server(name, server(rng), link);
    }
    sim = P::prepare(sim);
    // Over HTTP a server without sessions cannot tell its clients apart: none has two.
    let programs = if P::IS_HUB { 1 } else { rng.u64(1..4) };
    let add = |(seed, server)| {
        let program = Watched { program: P::new(seed), server, observer };
        let node = if P::IS_HUB { sim.add_hub(program) } else { sim.add(server, program) };
        sim.tell(node, |now, it| it.program.open(now));
        node
    };
    let nodes: Vec<NodeId> = (0..programs).zip(SERVERS).map(add).collect();
    let run_for = |sim: &mut Sim<_>, time| P::run(sim, &nodes, time, observer);
    let mut unused: BTreeMap<&str, usize> = SERVERS.iter().map(|name| (*name, 0)).collect();
    let mut calls: Vec<(NodeId, P::Call, &str, String)> = Vec::new();
    for _ in 0..turns {
        let (node, name) = (nodes[index(rng, nodes.len())], SERVERS[index(rng, SERVERS.len())]);
        // A client has one server, a hub has all.
        let own = sim.get(node).unwrap().server;
        let now = sim.now();
        match rng.u8(..16) {
            0..6 => {
                let name = if P::IS_HUB { name } else { own };
                let tool = format!("t{}", unused[name]);
                if unused[name] < TOOLS {
                    let call = sim.tell(node, |now, it| it.program.call(now, name, &tool)).unwrap();
                    if let Some(call) = call {
                        *unused.get_mut(name).unwrap() += 1;
                        observer.turn(now, name, "call", json!([tool, call]).to_string());
                        calls.push((node, call, name, tool));
                    }
                }
            }
            6 => {
                if let Some((node, call, name, tool)) = calls.last() {
                    observer.turn(now, name, "cancellation", tool.clone());
                    sim.tell(*node, |now, it| it.program.cancel(now, *call));
                }
            }
            7..9 => {
                let (what, fault) = fault(rng);
                observer.turn(now, name, what, format!("{fault:?}"));
                sim.fault(name, fault);
            }
            9..11 => {
                let (what, reply) = reply(rng);
                let method = match rng.u8(..4) {
                    0 => "tools/list",
                    1 => ["initialize", "server/discover", "ping"][index(rng, 3)],
                    _ => "tools/call",
                };
                observer.turn(now, name, what, method.into());
                sim.change(name, |server| server.add_script(On::method(method), [reply]));
            }
            11 => {
                observer.turn(now, own, "restored", String::new());
                sim.tell(node, |now, it| it.program.restore(now));
            }
            12 => {
                observer.turn(now, own, "refresh", String::new());
                sim.tell(node, |now, it| it.program.refresh(now));
            }
            13 if let Some(what) = P::disturb(&mut sim, rng) => observer.turn(now, "as", what, String::new()),
            _ => run_for(&mut sim, millis(rng.u64(..20_000))),
        }
        if rng.bool() {
            run_for(&mut sim, millis(rng.u64(..300)));
        }
        for node in &nodes {
            observer.can_save(&|| sim.get(*node).unwrap().program.saved(Secrets::Excluded));
        }
    }
    run_for(&mut sim, P::RECOVERS);
    for node in &nodes {
        let program = &sim.get(*node).unwrap().program;
        assert!(program.is_settled(), "{node:?} is neither ready nor closed");
        let ended: BTreeSet<_> = program.ended().into_iter().map(|(call, _)| call).collect();
        let open = calls.iter().find(|(of, call, ..)| of == node && !ended.contains(call));
        assert_eq!(open, None, "a call has not ended");
        sim.tell(*node, |now, it| it.program.close(now));
    }
    run_for(&mut sim, seconds(60));
    let mut ended: BTreeMap<(NodeId, P::Call), Vec<Outcome>> = BTreeMap::new();
    for node in &nodes {
        assert!(sim.get(*node).unwrap().program.is_closed(), "{node:?} is not closed");
        for (call, outcome) in sim.get(*node).unwrap().program.ended() {
            ended.entry((*node, call)).or_default().push(outcome);
        }
    }
    for (node, call, name, tool) in &calls {
        let outcomes = ended.get(&(*node, *call)).map_or(&[][..], Vec::as_slice);
        let [outcome] = outcomes else { panic!("{call:?} of {node:?} ended {outcomes:?}") };
        let runs = sim.server(name).unwrap().tool_runs(tool);
        assert!(runs <= 1, "{tool} of {name} ran {runs} times, and ended {outcome:?}");
        match outcome {
            Outcome::Result(_) => assert_eq!(runs, 1, "{tool} of {name} has a result"),
            Outcome::NotSent | Outcome::NotAdvertised => assert_eq!(runs, 0, "{tool} of {name} was not sent"),
            _ => {}
        }
        observer.ended(name, tool, outcome, runs);
    }
    for name in SERVERS {
        let server = sim.server(name).unwrap();
        assert_eq!(server.violations(), &[] as &[String], "violations at {name}");
        let runs: usize = server.all_tool_runs().map(|(_, runs)| runs).sum();
        assert!(runs <= unused[name], "{name} ran what was not called");
    }
}

/// How often each thing happened.
#[derive(Default)]
struct Counts(RefCell<BTreeMap<&'static str, usize>>);

impl Counts {
    fn count(&self, what: &'static str) {
        *self.0.borrow_mut().entry(what).or_default() += 1;
    }
}

impl Observer for Counts {
    fn turn(&self, _: Time, _: &str, what: &'static str, _: String) {
        self.count(what);
    }

    fn ended(&self, _: &str, _: &str, outcome: &Outcome, runs: usize) {
        self.count(match (outcome, runs) {
            (Outcome::Result(_), _) => "ended with a result",
            (Outcome::Unknown, 0) => "ended unknown, did not run",
            (Outcome::Unknown, _) => "ended unknown, ran",
            (_, 0) => "ended otherwise, did not run",
            _ => "ended otherwise, ran",
        });
    }
}

/// Prints what happens, in order: the journal of a run.
struct Journal;

impl Observer for Journal {
    fn turn(&self, now: Time, server: &str, what: &'static str, detail: String) {
        eprintln!("{now:?} {server}: {what} {detail}");
    }

    fn ended(&self, server: &str, tool: &str, outcome: &Outcome, runs: usize) {
        eprintln!("{server}: {tool} ran {runs} times, and ended {outcome:?}");
    }

    fn step<E: Serialize>(&self, server: &str, step: &Step<E>) {
        let what = match step {
            Step::Open(_) => "opens".into(),
            Step::Write(_, bytes) => format!("writes {}", String::from_utf8_lossy(bytes)),
            Step::Shutdown(_, step) => format!("shuts down: {step:?}"),
            Step::Request(_, request) => format!("requests {request:?}"),
            Step::Drop(port) => format!("drops {port:?}"),
            #[cfg(feature = "oauth")]
            Step::OAuth(_, action) => format!("authorizes: {action:?}"),
            Step::Event(event) => format!("event {}", serde_json::to_string(event).unwrap()),
        };
        eprintln!("{server}: the client {what}");
    }

    fn arrival(&self, server: &str, port: Port, input: &Arrival<'_>) {
        let input = match input {
            Arrival::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        eprintln!("{server}: from {port:?} comes {input}");
    }
}

/// What a seed simulates.
pub(crate) trait Scenario {
    /// What simulates, after the number of seeds.
    const OF: &str = "";

    fn run(seed: u64, turns: usize, observer: &impl Observer);
}

/// Runs these seeds, and counts what happened.
fn run_each<S: Scenario>(seeds: impl Iterator<Item = u64>) -> BTreeMap<&'static str, usize> {
    let counts = Counts::default();
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| S::run(seed, TURNS, &counts))) {
            let fails = |turns: &usize| {
                let again = || S::run(seed, *turns, &Counts::default());
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(again)).is_err()
            };
            let turns = (0..TURNS).find(fails).unwrap_or(TURNS);
            eprintln!("the seed: {seed}, turns: {turns}");
            S::run(seed, turns, &Journal);
            std::panic::resume_unwind(panic);
        }
    }
    counts.0.into_inner()
}

/// So many seeds, or as many as `SIMULATED` says, from `SIMULATED_FROM` on. A seed that fails is printed, and runs again in its
/// first turns: the test fails as the shortest run does, whose journal is printed.
pub(crate) fn run_seeds<S: Scenario>(seeds: u64) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (from, enough) = (number("SIMULATED_FROM").unwrap_or(0), seeds);
    let seeds = number("SIMULATED").unwrap_or(seeds);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = std::thread::scope(|scope| {
        let spawn = |first| scope.spawn(move || run_each::<S>((from + first..from + seeds).step_by(threads)));
        let running: Vec<_> = (0..threads as u64).map(spawn).collect();
        let mut sum: BTreeMap<&str, usize> = BTreeMap::new();
        for thread in running {
            let counts = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            counts.into_iter().for_each(|(what, count)| *sum.entry(what).or_default() += count);
        }
        sum
    });
    println!("{seeds} seeds{}: {counts:#?}", S::OF);
    for what in ["call", "restored", "crash", "ended with a result"] {
        assert!(seeds < enough || counts.contains_key(what), "nothing of {what}");
    }
}
