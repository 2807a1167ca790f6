//! Clients and hubs, servers of both eras, and what happens between them, from one seed: links that delay and split;
//! connections that break, stall or cannot be made; servers that crash, forget their sessions, answer late, twice, in part or
//! not at all; authorization servers whose tokens expire; programs that end, and are restored from a snapshot in another
//! process.
//!
//! Each tool is called at most once. No tool runs twice; what ends with a result ran, and what was not sent did not; each
//! accepted call ends once. Once nothing happens any more, each client is ready or closed, and each call has ended.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use fastrand::Rng;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{CallId, Hub, HubEvent, HubOptions, ServerReport, ServerState};
use mcp_proto::testkit::{Carried, Collector, Embedder, FakeServer, FakeTool, Fault, Link, NodeId, On, Reply, Sim};
use mcp_proto::{
    Client, Event, Failure, Family, Http, Keepalive, Lines, Messages, Moved, Options, Outcome, ProtocolVersion,
    Reconnect, Request, RequestId, Secrets, Snapshot, Time,
};
use serde_json::{Value, json};

use crate::common::{millis, seconds};

pub(crate) const SERVERS: [&str; 3] = ["a", "b-c", "d"];
/// Tools of each server.
const TOOLS: usize = 24;
const TURNS: usize = 60;

/// How often each thing happened.
type Counts = BTreeMap<&'static str, usize>;

/// A program with a client or a hub.
pub(crate) trait Program: Embedder + Sized {
    type Call: Copy + Debug + Ord;

    const IS_HUB: bool = false;

    /// In which time it recovers: a parked client waits for five minutes, and a call for at most ten.
    const RECOVERS: Duration = seconds(1_800);

    /// What its simulation has besides the servers.
    fn prepare(sim: Sim<Self>) -> Sim<Self> {
        sim
    }

    /// What else may happen. Returns what it is.
    fn disturb(_: &mut Sim<Self>, _: &mut Rng) -> Option<&'static str> {
        None
    }

    fn call(&mut self, now: Time, server: &str, tool: &str) -> Option<Self::Call>;

    fn cancel(&mut self, now: Time, call: Self::Call);

    fn refresh(&mut self, now: Time);

    fn close(&mut self, now: Time);

    /// The program ends, and another one restores its client.
    fn restore(&mut self, now: Time);

    fn ended(&self) -> Vec<(Self::Call, Outcome)>;

    /// Whether each server is ready, or the client is closed.
    fn is_settled(&self) -> bool;

    fn is_closed(&self) -> bool;
}

/// A binding as a program creates it.
trait Fresh: Carried {
    fn fresh() -> Self;
}

impl Fresh for Messages {
    fn fresh() -> Self {
        Self::new()
    }
}

impl Fresh for Lines {
    fn fresh() -> Self {
        Self::new()
    }
}

impl Fresh for Http {
    fn fresh() -> Self {
        Self::new("https://mcp.example/mcp").unwrap()
    }
}

pub(crate) fn read_back(snapshot: &Snapshot) -> Snapshot {
    serde_json::from_str(&serde_json::to_string(snapshot).unwrap()).unwrap()
}

impl<B: Fresh> Program for Collector<Client<B>> {
    type Call = RequestId;

    fn call(&mut self, now: Time, _: &str, tool: &str) -> Option<RequestId> {
        self.request(now, Request::call_tool(tool, None)).ok()
    }

    fn cancel(&mut self, now: Time, call: RequestId) {
        let _ = Client::cancel(self, now, call);
    }

    fn refresh(&mut self, now: Time) {
        let _ = Client::refresh(self, now, Family::Tools);
    }

    fn close(&mut self, now: Time) {
        let _ = Client::close(self, now);
    }

    fn restore(&mut self, _: Time) {
        let snapshot = read_back(&self.snapshot(Secrets::Included));
        let options = self.options().clone();
        **self = Client::from_snapshot(B::fresh(), options, &snapshot, Moved::WithoutTransport).unwrap();
    }

    fn ended(&self) -> Vec<(RequestId, Outcome)> {
        let ended = self.events.iter().filter_map(|(_, event)| match event {
            Event::Finished { request, outcome, .. } => Some((*request, outcome.clone())),
            _ => None,
        });
        ended.collect()
    }

    fn is_settled(&self) -> bool {
        self.is_ready() || Client::is_closed(self)
    }

    fn is_closed(&self) -> bool {
        Client::is_closed(self)
    }
}

impl Program for Collector<Hub> {
    type Call = CallId;

    const IS_HUB: bool = true;

    fn call(&mut self, now: Time, server: &str, tool: &str) -> Option<CallId> {
        let name = format!("mcp_{}_{tool}", server.replace('-', "_"));
        Hub::call(self, now, &name, None).ok()
    }

    fn cancel(&mut self, now: Time, call: CallId) {
        let _ = Hub::cancel(self, now, call);
    }

    fn refresh(&mut self, _: Time) {}

    fn close(&mut self, now: Time) {
        let _ = Hub::close(self, now);
    }

    fn restore(&mut self, _: Time) {
        let snapshot = read_back(&self.snapshot(Secrets::Included));
        let configuration = self.configuration().clone();
        **self = Hub::from_snapshot(hub_options(), configuration, &snapshot, Moved::WithoutTransport).unwrap();
    }

    fn ended(&self) -> Vec<(CallId, Outcome)> {
        let ended = self.events.iter().filter_map(|(_, event)| match event {
            HubEvent::Finished { call, outcome, .. } => Some((*call, outcome.clone())),
            _ => None,
        });
        ended.collect()
    }

    fn is_settled(&self) -> bool {
        let settled = [ServerState::Idle, ServerState::Ready, ServerState::Suspended, ServerState::Closing];
        // A server whose sessions expire as soon as they are opened has failed for good.
        let loops = |failure: &Failure| failure.message.contains("a fourth session in a row expired");
        let is_settled = |server: ServerReport<'_>| match server.state {
            Some(ServerState::Failed) => server.failure.is_some_and(loops),
            state => state.is_some_and(|state| settled.contains(&state)),
        };
        self.is_closed() || self.servers().all(is_settled)
    }

    fn is_closed(&self) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, HubEvent::Closed))
    }
}

pub(crate) fn options() -> Options {
    let mut options = Options::new("simulated", "1.0");
    options.reconnect = Some(Reconnect::default());
    options.keepalive = Some(Keepalive::default());
    options
}

fn hub_options() -> HubOptions {
    HubOptions::new(options())
}

fn server(rng: &mut Rng) -> FakeServer {
    let both = [ProtocolVersion::NEWEST_LEGACY, ProtocolVersion::NEWEST_MODERN];
    let server = match rng.u8(..3) {
        0 => FakeServer::legacy(),
        1 => FakeServer::modern(),
        _ => FakeServer::new(both),
    };
    let server = server.sessions(rng.bool()).get_stream(rng.bool()).streams(rng.bool()).resumes(rng.bool());
    let server = server.page_size(rng.usize(1..TOOLS));
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

/// One simulation of so many turns, of programs that `program` creates.
fn simulate<P: Program>(
    rng: &mut Rng,
    turns: usize,
    counts: &mut Counts,
    mut program: impl FnMut(&mut Sim<P>, u64) -> NodeId,
) {
    let mut sim = Sim::new(rng.u64(..));
    for name in SERVERS {
        let link = Link::new(millis(rng.u64(1..60))).jitter(millis(rng.u64(..120))).piece(rng.usize(..200));
        sim = sim.with_server(name, server(rng), link);
    }
    sim = P::prepare(sim);
    // Over HTTP a server without sessions cannot tell its clients apart: none has two.
    let programs = if P::IS_HUB { 1 } else { rng.u64(1..4) };
    let nodes: Vec<NodeId> = (0..programs).map(|seed| program(&mut sim, seed)).collect();
    let mut unused: BTreeMap<&str, usize> = SERVERS.iter().map(|name| (*name, 0)).collect();
    let mut calls: Vec<(NodeId, P::Call, &str, String)> = Vec::new();
    let mut count = |what| *counts.entry(what).or_default() += 1;
    for _ in 0..turns {
        let (node, name) = (nodes[rng.usize(..nodes.len())], SERVERS[rng.usize(..SERVERS.len())]);
        match rng.u8(..16) {
            0..6 => {
                // A client has one server, a hub has all.
                let name = if P::IS_HUB { name } else { SERVERS[usize::try_from(node.as_u64()).unwrap()] };
                let tool = format!("t{}", unused[name]);
                if unused[name] < TOOLS {
                    let call = sim.tell(node, |now, program| program.call(now, name, &tool)).unwrap();
                    if let Some(call) = call {
                        *unused.get_mut(name).unwrap() += 1;
                        count("call");
                        calls.push((node, call, name, tool));
                    }
                }
            }
            6 => {
                if let Some((node, call, ..)) = calls.last() {
                    count("cancellation");
                    sim.tell(*node, |now, program| program.cancel(now, *call));
                }
            }
            7..9 => {
                let (what, fault) = fault(rng);
                count(what);
                sim.fault(name, fault);
            }
            9..11 => {
                let (what, reply) = reply(rng);
                let on = match rng.u8(..4) {
                    0 => On::method("tools/list"),
                    1 => On::method(["initialize", "server/discover", "ping"][rng.usize(..3)]),
                    _ => On::method("tools/call"),
                };
                count(what);
                sim.change(name, |server| server.add_script(on, [reply]));
            }
            11 => {
                count("restored");
                sim.tell(node, |now, program| program.restore(now));
            }
            12 => {
                count("refresh");
                sim.tell(node, |now, program| program.refresh(now));
            }
            13 if let Some(what) = P::disturb(&mut sim, rng) => count(what),
            _ => sim.run_for(millis(rng.u64(..20_000))).unwrap(),
        }
        if rng.bool() {
            sim.run_for(millis(rng.u64(..300))).unwrap();
        }
    }
    sim.run_for(P::RECOVERS).unwrap();
    for node in &nodes {
        assert!(sim.get(*node).unwrap().is_settled(), "{node:?} is neither ready nor closed");
        sim.tell(*node, |now, program| program.close(now));
    }
    sim.run_for(seconds(60)).unwrap();
    let mut ended: BTreeMap<(NodeId, P::Call), Vec<Outcome>> = BTreeMap::new();
    for node in &nodes {
        assert!(sim.get(*node).unwrap().is_closed(), "{node:?} is not closed");
        for (call, outcome) in sim.get(*node).unwrap().ended() {
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
        let how = match (outcome, runs) {
            (Outcome::Result(_), _) => "ended with a result",
            (Outcome::Unknown, 0) => "ended unknown, did not run",
            (Outcome::Unknown, _) => "ended unknown, ran",
            (_, 0) => "ended otherwise, did not run",
            _ => "ended otherwise, ran",
        };
        *counts.entry(how).or_default() += 1;
    }
    for name in SERVERS {
        let server = sim.server(name).unwrap();
        assert_eq!(server.violations(), &[] as &[String], "violations at {name}");
        let runs: usize = server.all_tool_runs().map(|(_, runs)| runs).sum();
        assert!(runs <= unused[name], "{name} ran what was not called");
    }
}

fn client<B: Fresh>(sim: &mut Sim<Collector<Client<B>>>, seed: u64) -> NodeId {
    let client = Collector::new(Client::new(B::fresh(), options(), seed));
    let node = sim.add(SERVERS[usize::try_from(seed).unwrap() % SERVERS.len()], client);
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    node
}

fn hub(sim: &mut Sim<Collector<Hub>>, seed: u64) -> NodeId {
    let entry = |name: &str| -> Value {
        if name == "a" { json!({"command": "a"}) } else { json!({"url": format!("https://{name}.example/mcp")}) }
    };
    let entries: serde_json::Map<String, Value> = SERVERS.iter().map(|name| (name.to_string(), entry(name))).collect();
    let configuration: Configuration = serde_json::from_value(Value::Object(entries)).unwrap();
    let node = sim.add_hub(Collector::new(Hub::new(hub_options(), seed)));
    sim.tell(node, |now, hub| {
        hub.configure(now, configuration).unwrap();
        hub.open(now).unwrap();
    });
    node
}

fn run(seed: u64, turns: usize, counts: &mut Counts) {
    let mut rng = Rng::with_seed(seed);
    match seed % 5 {
        0 => simulate(&mut rng, turns, counts, client::<Messages>),
        1 => simulate(&mut rng, turns, counts, client::<Lines>),
        2 => simulate(&mut rng, turns, counts, client::<Http>),
        #[cfg(feature = "oauth")]
        3 => simulate(&mut rng, turns, counts, crate::oauth::signing_in),
        _ => simulate(&mut rng, turns, counts, hub),
    }
}

/// Forty seeds, or as many as `SIMULATED` says, from `SIMULATED_FROM` on. A seed that fails is printed, and runs again in its
/// first turns: the test fails as the shortest run does.
#[test]
fn no_call_runs_twice_or_is_lost_and_every_client_recovers() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (from, seeds) = (number("SIMULATED_FROM").unwrap_or(0), number("SIMULATED").unwrap_or(40));
    let mut counts = Counts::new();
    for seed in from..from + seeds {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed, TURNS, &mut counts))) {
            for turns in 0..=TURNS {
                eprintln!("the seed: {seed}, turns: {turns}");
                run(seed, turns, &mut Counts::new());
            }
            std::panic::resume_unwind(panic);
        }
    }
    println!("{seeds} seeds: {counts:#?}");
    for what in ["call", "restored", "crash", "ended with a result"] {
        assert!(seeds < 40 || counts.contains_key(what), "nothing of {what}");
    }
}
