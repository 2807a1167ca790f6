//! Clients and hubs, servers of both eras, and what happens between them, from one seed: links that delay and split;
//! connections that break, stall or cannot be made; servers that crash, forget their sessions, answer late, twice, in part or
//! not at all; authorization servers whose tokens expire; programs that end, and are restored from a snapshot in another
//! process.
//!
//! Each tool is called at most once. No tool runs twice; what ends with a result ran, and what was not sent did not; each
//! accepted call ends once. Once nothing happens any more, each client is ready or closed, and each call has ended.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Deref;
use std::time::Duration;

use fastrand::Rng;
#[cfg(feature = "oauth")]
use mcp_proto::binding::oauth::OAuthAction;
use mcp_proto::host::hub::{CallId, Hub, HubEvent, HubOptions, ServerReport, ServerState, SessionHandle};
use mcp_proto::testkit::{
    Arrival, Carried, Collector, Driven, Embedder, FakeServer, FakeTool, Fault, Link, NodeId, On, Port, Reply, Sim,
    Spelling, Step,
};
use mcp_proto::{
    Client, ConnectionId, Event, Failure, Family, Http, Keepalive, Lines, Messages, Moved, Options, Outcome,
    ProtocolVersion, Reconnect, Request, RequestId, Secrets, Snapshot, Time,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::common::{millis, seconds};

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
    fn can_save(&self, _save: &dyn Fn() -> Snapshot) {}

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

    /// What else may happen. Returns what it is.
    fn disturb<E: Embedder>(_: &mut Sim<E>, _: &mut Rng) -> Option<&'static str> {
        None
    }

    fn open(&mut self, now: Time);

    fn call(&mut self, now: Time, server: &str, tool: &str) -> Option<Self::Call>;

    fn cancel(&mut self, now: Time, call: Self::Call);

    fn refresh(&mut self, now: Time);

    fn close(&mut self, now: Time);

    fn saved(&self, secrets: Secrets) -> Snapshot;

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

    fn new(seed: u64) -> Self {
        Self::new(Client::new(B::fresh(), options(), seed))
    }

    fn open(&mut self, now: Time) {
        Client::open(self, now).unwrap();
    }

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

    fn saved(&self, secrets: Secrets) -> Snapshot {
        self.snapshot(secrets)
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

    fn new(seed: u64) -> Self {
        Self::new(Hub::new(hub_options(), seed))
    }

    fn open(&mut self, now: Time) {
        let entry = |name: &str| -> Value {
            if name == "a" { json!({"command": "a"}) } else { json!({"url": format!("https://{name}.example/mcp")}) }
        };
        let entries: serde_json::Map<String, Value> =
            SERVERS.iter().map(|name| (name.to_string(), entry(name))).collect();
        self.configure(now, serde_json::from_value(Value::Object(entries)).unwrap()).unwrap();
        Hub::open(self, now).unwrap();
    }

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

    fn saved(&self, secrets: Secrets) -> Snapshot {
        self.snapshot(secrets)
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

/// A program at the server of this name, or a hub, whose client is observed.
struct Watched<'a, P, O> {
    program: P,
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
fn simulate<P: Program>(rng: &mut Rng, turns: usize, observer: &impl Observer) {
    let mut sim = Sim::new(rng.u64(..));
    for name in SERVERS {
        let link = Link::new(millis(rng.u64(1..60))).jitter(millis(rng.u64(..120))).piece(index(rng, 200));
        sim = sim.with_server(name, server(rng), link);
    }
    sim = P::prepare(sim);
    let run_for = |sim: &mut Sim<_>, time| {
        let observe = |sim: &Sim<_>| {
            observer.changed(sim);
            false
        };
        sim.run_until(time, observe).unwrap();
    };
    // Over HTTP a server without sessions cannot tell its clients apart: none has two.
    let programs = if P::IS_HUB { 1 } else { rng.u64(1..4) };
    let add = |(seed, server)| {
        let program = Watched { program: P::new(seed), server, observer };
        let node = if P::IS_HUB { sim.add_hub(program) } else { sim.add(server, program) };
        sim.tell(node, |now, it| it.program.open(now));
        node
    };
    let nodes: Vec<NodeId> = (0..programs).zip(SERVERS).map(add).collect();
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

pub(crate) fn run(seed: u64, turns: usize, observer: &impl Observer) {
    let mut rng = Rng::with_seed(seed);
    match seed % 5 {
        0 => simulate::<Collector<Client<Messages>>>(&mut rng, turns, observer),
        1 => simulate::<Collector<Client<Lines>>>(&mut rng, turns, observer),
        2 => simulate::<Collector<Client<Http>>>(&mut rng, turns, observer),
        #[cfg(feature = "oauth")]
        3 => simulate::<crate::oauth::Host>(&mut rng, turns, observer),
        _ => simulate::<Collector<Hub>>(&mut rng, turns, observer),
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

/// What gives access to something: the ids of sessions, and the secrets of authorizations, in what comes and what is sent.
#[derive(Default)]
struct Secret {
    known: RefCell<BTreeSet<String>>,
    saved: RefCell<usize>,
}

impl Secret {
    /// Those in a text: the fake servers have names for them.
    fn learn(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-._~".contains(letter));
        let is_one = |word: &&str| {
            let number = word.strip_prefix("session-").is_some_and(|rest| rest.parse::<u64>().is_ok());
            number || word.ends_with("-as.example") || word.len() > 40
        };
        self.known.borrow_mut().extend(words.filter(is_one).map(str::to_owned));
    }

    fn learn_headers(&self, headers: &http::HeaderMap) {
        headers.values().for_each(|value| self.learn(value.as_bytes()));
    }
}

impl Observer for Secret {
    fn turn(&self, _: Time, _: &str, _: &'static str, _: String) {}

    fn ended(&self, _: &str, _: &str, _: &Outcome, _: usize) {}

    fn step<E: Serialize>(&self, _: &str, step: &Step<E>) {
        match step {
            Step::Request(_, it) => self.learn_headers(it.request.headers()),
            #[cfg(feature = "oauth")]
            Step::OAuth(_, action) => match &**action {
                OAuthAction::Request(it) => {
                    self.learn_headers(it.request.headers());
                    self.learn(it.request.body());
                }
                OAuthAction::Browse(url) => self.learn(url.as_str().as_bytes()),
                _ => {}
            },
            _ => {}
        }
    }

    fn arrival(&self, _: &str, port: Port, input: &Arrival<'_>) {
        match input {
            Arrival::Head(_, headers) => self.learn_headers(headers),
            #[cfg(feature = "oauth")]
            Arrival::Redirect(url) => self.learn(url.as_bytes()),
            #[cfg(feature = "oauth")]
            Arrival::Bytes(bytes) if matches!(port, Port::OAuth(..)) => self.learn(bytes),
            _ => {}
        }
    }

    fn can_save(&self, save: &dyn Fn() -> Snapshot) {
        let text = serde_json::to_string(&save()).unwrap();
        *self.saved.borrow_mut() += 1;
        for secret in self.known.borrow().iter() {
            // `session-1` is not in `session-12`.
            let follows = |(at, _): (usize, &str)| text[at + secret.len()..].chars().next();
            let is_there =
                text.match_indices(secret).map(follows).any(|next| !next.is_some_and(|it| it.is_ascii_digit()));
            assert!(!is_there, "{secret} is in {text}");
        }
    }
}

#[test]
fn what_is_saved_without_secrets_has_none_that_ever_came_or_was_sent() {
    let (mut known, mut saved) = (BTreeSet::new(), 0);
    for seed in 0..15 {
        let secret = Secret::default();
        run(seed, TURNS, &secret);
        known.extend(secret.known.into_inner());
        saved += secret.saved.into_inner();
    }
    assert!(known.len() > 20 && saved > 15 * TURNS / 2, "{known:?} {saved}");
    #[cfg(feature = "oauth")]
    assert!(known.iter().any(|secret| secret.ends_with("-as.example")), "{known:?}");
}

/// Runs these seeds, and counts what happened.
fn run_each(seeds: impl Iterator<Item = u64>) -> BTreeMap<&'static str, usize> {
    let counts = Counts::default();
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed, TURNS, &counts))) {
            let fails = |turns: &usize| {
                let again = || run(seed, *turns, &Counts::default());
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(again)).is_err()
            };
            let turns = (0..TURNS).find(fails).unwrap_or(TURNS);
            eprintln!("the seed: {seed}, turns: {turns}");
            run(seed, turns, &Journal);
            std::panic::resume_unwind(panic);
        }
    }
    counts.0.into_inner()
}

/// Forty seeds, or as many as `SIMULATED` says, from `SIMULATED_FROM` on. A seed that fails is printed, and runs again in its
/// first turns: the test fails as the shortest run does, whose journal is printed.
#[test]
fn no_call_runs_twice_or_is_lost_and_every_client_recovers() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (from, seeds) = (number("SIMULATED_FROM").unwrap_or(0), number("SIMULATED").unwrap_or(40));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = std::thread::scope(|scope| {
        let spawn = |first| scope.spawn(move || run_each((from + first..from + seeds).step_by(threads)));
        let running: Vec<_> = (0..threads as u64).map(spawn).collect();
        let mut sum: BTreeMap<&str, usize> = BTreeMap::new();
        for thread in running {
            let counts = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            counts.into_iter().for_each(|(what, count)| *sum.entry(what).or_default() += count);
        }
        sum
    });
    println!("{seeds} seeds: {counts:#?}");
    for what in ["call", "restored", "crash", "ended with a result"] {
        assert!(seeds < 40 || counts.contains_key(what), "nothing of {what}");
    }
}
