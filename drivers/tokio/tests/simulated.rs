//! The simulation of `tests/common/simulation.rs` with sessions of this driver, on paused time: over streams, which take bytes in
//! parts and with pauses, and over an HTTP client of the test's own.
//!
//! Beside what the simulation checks, the driver adds nothing to what passes between client and server, and loses nothing of
//! it: this compares what the client took and wanted sent with what the links carried, and what a host was told with what the
//! client reported. What is closed does nothing more, and leaves no task.
#![cfg(all(feature = "http", feature = "oauth", feature = "snapshot", feature = "testkit"))]
#![allow(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests"
)]

#[path = "../../../tests/common/simulation.rs"]
#[allow(dead_code, reason = "the tests of the crate use the rest")]
mod simulation;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use fastrand::Rng;
use mcp_proto::host::hub::{CallId, SessionHandle};
use mcp_proto::testkit::{Arrival, Driven, Embedder, NodeId, Port, Sim, Step};
use mcp_proto::{ConnectionId, Event, Family, Outcome, RequestId, Secrets, Time, Transport};
use mcp_proto_tokio::testkit::{Pace, Plug};
use mcp_proto_tokio::{
    Call, CallErrorKind, Endpoint, Host, HttpPiece, Input, Output, Passed, Passing, Remote, Session, Status,
};
use serde::Serialize;
use simulation::{Observer, Program, Scenario, TURNS, Watched, options, read_back, run_seeds, simulate};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// Polls of each task after which each waits for time, or for what another sends.
const TURNS_OF_TASKS: usize = 60;

/// The runtime of a simulation, whose clients share its time.
struct World {
    runtime: Runtime,
    pace: Pace,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

fn world() -> Rc<World> {
    WORLD.with_borrow(Clone::clone).unwrap()
}

/// A connection as the client has it.
#[derive(Default)]
struct Connected {
    id: Option<ConnectionId>,
    /// What was given to it.
    taken: Vec<u8>,
    /// The messages that it wanted sent, the request that each is or is about, and whether it cancels that.
    sent: Vec<(Vec<u8>, Option<RequestId>, bool)>,
    is_over: bool,
    /// Why, as it was told.
    why: Option<String>,
}

/// An exchange over HTTP: the request, and what came.
#[derive(Default)]
struct Exchanged {
    request: (String, Vec<u8>),
    came: Response,
    /// The client needs no more of it.
    is_dropped: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Response {
    status: Option<u16>,
    headers: usize,
    body: Vec<u8>,
    /// How it ended.
    end: Option<String>,
}

impl std::fmt::Debug for Exchanged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { request: (head, body), came, is_dropped } = self;
        let dropped = if *is_dropped { "dropped " } else { "" };
        let (sent, body) = (String::from_utf8_lossy(body), String::from_utf8_lossy(&came.body));
        write!(f, "{dropped}{head}: {sent} => {:?} {:?} {body}", came.status, came.end)
    }
}

impl Response {
    fn is_part_of(&self, whole: &Self) -> bool {
        let is_unfinished = self.end.is_none() && whole.body.starts_with(&self.body);
        let is_head = (self.status, self.headers) == (whole.status, whole.headers);
        self == whole || is_unfinished && (is_head || *self == Self::default())
    }
}

/// What passed between the driver and the client.
#[derive(Default)]
struct Inside {
    connections: Vec<Connected>,
    exchanges: Vec<(u64, Exchanged)>,
    finished: BTreeMap<CallId, Vec<Outcome>>,
    progress: BTreeMap<RequestId, usize>,
    /// The events that have no other way.
    events: usize,
}

impl Inside {
    fn pass(&mut self, passed: &Passed<'_, Event>) {
        match &passed.what {
            Passing::Input(Input::Transport(connection, Transport::Opened)) => {
                self.connections.push(Connected { id: Some(*connection), ..Connected::default() });
            }
            Passing::Input(Input::Transport(connection, Transport::Closed { why })) => {
                // One that was not opened yet is not here.
                if let Some(last) = self.connections.last_mut().filter(|last| last.id == Some(*connection)) {
                    last.is_over = true;
                    last.why = Some((*why).into());
                }
            }
            Passing::Input(Input::Bytes(connection, bytes)) => {
                let last = self.connections.last_mut().unwrap();
                assert_eq!((last.id, last.is_over), (Some(*connection), false), "bytes of another connection");
                last.taken.extend_from_slice(bytes);
            }
            Passing::Input(Input::Http(exchange, piece)) => {
                let exchange = exchange.as_u64();
                let known = self.exchanges.iter_mut().rev().find(|(id, _)| *id == exchange);
                known.unwrap().1.came.add(piece);
            }
            Passing::Output(Output::Open(..)) => {
                if let Some(last) = self.connections.last_mut() {
                    last.is_over = true;
                }
            }
            Passing::Output(Output::Send(_, message)) => {
                let cancels = message.method() == Some("notifications/cancelled");
                let line = (message.line().to_vec(), message.of(), cancels);
                self.connections.last_mut().unwrap().sent.push(line);
            }
            Passing::Output(Output::Request(_, request)) => {
                let request = (request.exchange.as_u64(), text_of(&request.request));
                let exchanged = Exchanged { request: request.1, ..Exchanged::default() };
                self.exchanges.push((request.0, exchanged));
            }
            Passing::Output(Output::Drop(_, exchange)) => {
                let known = self.exchanges.iter_mut().rev().find(|(id, _)| *id == exchange.as_u64());
                known.unwrap().1.is_dropped = true;
            }
            Passing::Output(Output::Event(event)) => match event {
                Event::Finished { request, outcome, .. } => {
                    let call = CallId::of_request(SessionHandle::from_u64(0), *request, None);
                    self.finished.entry(call).or_default().push(outcome.clone());
                }
                Event::Progress { request, .. } => *self.progress.entry(*request).or_default() += 1,
                Event::ServerRequest { .. } | Event::ServerRequestEnded { .. } | Event::InputRequired { .. } => {}
                _ => self.events += 1,
            },
            _ => {}
        }
    }

    /// The session has ended, with all that it had begun.
    fn end(&mut self) {
        self.connections.iter_mut().for_each(|connection| connection.is_over = true);
        self.exchanges.iter_mut().for_each(|(_, exchanged)| exchanged.is_dropped = true);
    }
}

fn text_of(request: &http::Request<Vec<u8>>) -> (String, Vec<u8>) {
    (format!("{} {} {:?}", request.method(), request.uri(), request.headers()), request.body().clone())
}

impl Response {
    fn add(&mut self, piece: &HttpPiece) {
        assert_eq!(self.end, None, "something follows the end");
        match piece {
            HttpPiece::Head(status, headers) => {
                assert_eq!(self.status, None, "a second head");
                (self.status, self.headers) = (Some(status.as_u16()), headers.len());
            }
            HttpPiece::Body(bytes) => self.body.extend_from_slice(bytes),
            HttpPiece::End => self.end = Some("end".into()),
            HttpPiece::Failure(broken, why) => self.end = Some(format!("{broken:?} {why}")),
        }
    }
}

/// A connection as the link has it.
#[derive(Default)]
struct Linked {
    arrived: Vec<u8>,
    written: Vec<u8>,
    is_over: bool,
    is_closed_by_server: bool,
}

/// The link of a client, which keeps what it carries.
struct Wire {
    plug: Plug,
    connections: Vec<(Port, Linked)>,
    exchanges: Vec<(Port, Exchanged)>,
    steps: usize,
}

impl Driven for Wire {
    type Event = ();

    fn step(&mut self) -> Option<Step<()>> {
        let step = self.plug.step()?;
        self.steps += 1;
        match &step {
            Step::Open(port) => self.connections.push((*port, Linked::default())),
            Step::Write(_, bytes) => self.connections.last_mut().unwrap().1.written.extend_from_slice(bytes),
            Step::Request(session, request) => {
                let exchanged = Exchanged { request: text_of(&request.request), ..Exchanged::default() };
                self.exchanges.push((Port::Exchange(*session, request.exchange), exchanged));
            }
            Step::Drop(port) => {
                let exchanged = self.exchanges.iter_mut().find(|(known, _)| known == port);
                exchanged.unwrap().1.is_dropped = true;
            }
            _ => {}
        }
        Some(step)
    }

    fn connection_of(&self, session: Option<SessionHandle>) -> Option<ConnectionId> {
        self.plug.connection_of(session)
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn time_out(&mut self, _: Time) {}

    fn input(&mut self, now: Time, port: Port, mut input: Arrival<'_>) {
        // Of a program that was killed the pipes end as those of one that exits.
        if matches!(input, Arrival::Transport(Transport::Closed { .. })) && self.steps.is_multiple_of(2) {
            input = Arrival::Transport(Transport::Closed { why: "exit status: 0" });
        }
        if let Some((_, linked)) = self.connections.iter_mut().find(|(known, _)| *known == port) {
            match &input {
                Arrival::Bytes(bytes) if !linked.is_over => linked.arrived.extend_from_slice(bytes),
                Arrival::Transport(Transport::Opened) => {}
                Arrival::Transport(Transport::Closed { why }) if !linked.is_over => {
                    (linked.is_over, linked.is_closed_by_server) = (true, why.starts_with("exit"));
                }
                _ => linked.is_over = true,
            }
        }
        if let Some((_, exchanged)) = self.exchanges.iter_mut().find(|(known, _)| *known == port)
            && !exchanged.is_dropped
        {
            exchanged.came.add(&match &input {
                Arrival::Head(status, headers) => HttpPiece::Head(*status, (*headers).clone()),
                Arrival::Bytes(bytes) => HttpPiece::Body(bytes.to_vec()),
                Arrival::End => HttpPiece::End,
                Arrival::Failure(broken, why) => HttpPiece::Failure(*broken, (*why).into()),
                _ => return self.plug.input(now, port, input),
            });
        }
        self.plug.input(now, port, input);
    }

    fn server(&self, session: Option<SessionHandle>) -> Option<&str> {
        self.plug.server(session)
    }
}

/// What a host was told.
#[derive(Default)]
struct Told {
    /// Of each call: how it ended, and how much progress it reported; whether the host dropped it before, and whether it had
    /// ended then.
    calls: Vec<(CallId, Outcome, usize, Option<bool>)>,
    events: usize,
    is_closed: bool,
}

/// A program with a session of this driver, over HTTP or over streams.
struct Real<const HTTP: bool> {
    wire: Wire,
    seed: u64,
    /// `None` while it moves to another program.
    session: Arc<Mutex<Option<Session>>>,
    inside: Arc<Mutex<Inside>>,
    told: Arc<Mutex<Told>>,
    cancels: BTreeMap<CallId, oneshot::Sender<()>>,
    /// What the link had carried when the session was closed.
    at_close: Mutex<Option<usize>>,
}

impl<const HTTP: bool> Deref for Real<HTTP> {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl<const HTTP: bool> Embedder for Real<HTTP> {
    type Driven = Wire;

    fn driven(&mut self) -> &mut Wire {
        &mut self.wire
    }

    fn on_event(&mut self, _: Time, (): ()) {}
}

/// Starts a session with these watchers.
fn host(seed: u64, plug: &Plug, inside: &Arc<Mutex<Inside>>, told: &Arc<Mutex<Told>>) -> Host<mcp_proto::Options> {
    let inside = Arc::clone(inside);
    let mut host = Host::new(options()).seed(seed).http(plug.clone()).tap(move |passed| {
        inside.lock().unwrap_or_else(PoisonError::into_inner).pass(&passed);
    });
    let (mut events, told) = (host.events(), Arc::clone(told));
    tokio::spawn(async move {
        while events.next().await.is_some() {
            told.lock().unwrap_or_else(PoisonError::into_inner).events += 1;
        }
        assert_eq!(events.left_out(), 0);
    });
    host
}

fn endpoint(is_http: bool, plug: &Plug) -> Endpoint {
    if is_http { Remote::new("https://mcp.example/mcp").unwrap().into() } else { plug.streams().into() }
}

impl<const HTTP: bool> Real<HTTP> {
    fn session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn status(&self) -> Option<Status> {
        self.session().map(|session| session.status())
    }

    /// Each task waits: what the client took, and what was sent, is compared with what the link carried.
    fn check(&self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_moving = self.session().is_none();
        if is_moving || told.is_closed {
            inside.end();
        }
        let mut links = self.wire.connections.iter().map(|(_, linked)| linked);
        let is_last = |at: usize| at + 1 == inside.connections.len();
        for (at, connection) in inside.connections.iter().enumerate() {
            // Those of the link that the client was not told of are left out.
            let is_its = |linked: &&Linked| {
                linked.arrived.starts_with(&connection.taken) && is_sent(connection, &linked.written).is_some()
            };
            // The client has one at a time.
            let found =
                if is_last(at) && !connection.is_over { links.next_back().filter(is_its) } else { links.find(is_its) };
            let Some(linked) = found else {
                let links: Vec<_> = self
                    .wire
                    .connections
                    .iter()
                    .map(|(port, linked)| {
                        (port, String::from_utf8_lossy(&linked.arrived), String::from_utf8_lossy(&linked.written))
                    })
                    .collect();
                let sent: Vec<_> = connection.sent.iter().map(|(line, ..)| String::from_utf8_lossy(line)).collect();
                let taken = String::from_utf8_lossy(&connection.taken);
                panic!("connection {at} took or sent what the link did not carry: {taken}\n{sent:#?}\n{links:#?}");
            };
            let is_told_closed = connection.why.as_deref() == Some("the server closed its stream");
            assert!(
                !is_told_closed || connection.taken.is_empty() || linked.is_closed_by_server,
                "a connection that broke counts as closed"
            );
            if is_last(at) && !connection.is_over {
                assert_eq!(connection.taken.len(), linked.arrived.len(), "it took less than arrived");
                assert!(!linked.is_over, "it was not told of the end of its connection");
            }
        }
        // Each is a task of its own, so their order may differ. Those that the client dropped may not have been sent.
        let mut wired: Vec<_> = self.wire.exchanges.iter().map(|(_, wired)| wired).collect();
        let (dropped, others): (Vec<_>, Vec<_>) =
            inside.exchanges.iter().map(|(_, exchanged)| exchanged).partition(|exchanged| exchanged.is_dropped);
        for exchanged in others.into_iter().chain(dropped) {
            let is_its = |wired: &&Exchanged| {
                let is_wanted = exchanged.is_dropped || !wired.is_dropped || wired.came.end.is_some();
                let is_same = exchanged.request == wired.request && is_wanted;
                let is_part = exchanged.is_dropped && exchanged.came.is_part_of(&wired.came);
                is_same && (is_part || exchanged.came == wired.came)
            };
            match wired.iter().position(is_its) {
                Some(at) => drop(wired.remove(at)),
                None => assert!(exchanged.is_dropped, "not sent, or not all was taken: {exchanged:?} of {wired:?}"),
            }
        }
        assert!(wired.is_empty(), "the client did not make or not take: {wired:?}");
        let mut at_close = self.at_close.lock().unwrap_or_else(PoisonError::into_inner);
        match *at_close {
            None if told.is_closed => *at_close = Some(self.wire.steps),
            None => {}
            Some(steps) => assert_eq!(self.wire.steps, steps, "a closed session goes on"),
        }
    }

    /// Nothing is under way.
    fn check_at_rest(&self) {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((connection, (_, linked))) = inside.connections.last().zip(self.wire.connections.last())
            && !connection.is_over
            && !linked.is_over
        {
            assert_eq!(is_sent(connection, &linked.written), Some(true), "not all was written");
        }
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for (call, outcome, progress, is_dropped) in &told.calls {
            let finished = inside.finished.get(call).map_or(&[][..], Vec::as_slice);
            let reported = call.request().and_then(|request| inside.progress.get(&request)).copied().unwrap_or(0);
            if let Some(had_ended) = is_dropped {
                let is_cancelled = matches!(finished, [Outcome::Cancelled]) || *had_ended && finished.len() == 1;
                assert!(is_cancelled && *progress <= reported, "{call:?} was dropped: {finished:?}");
            } else {
                assert_eq!((std::slice::from_ref(outcome), *progress), (finished, reported), "{call:?}");
            }
        }
        assert_eq!(told.events, inside.events, "events");
    }
}

/// Prints the seed's run as text.
#[derive(Default)]
struct Trace(RefCell<String>);

impl Trace {
    fn add(&self, what: impl std::fmt::Debug) {
        use std::fmt::Write;

        writeln!(self.0.borrow_mut(), "{what:?}").unwrap();
    }
}

impl Observer for Trace {
    fn turn(&self, now: Time, server: &str, what: &'static str, detail: String) {
        self.add((now, server, what, detail));
    }

    fn ended(&self, server: &str, tool: &str, outcome: &Outcome, runs: usize) {
        self.add((server, tool, outcome, runs));
    }

    fn step<E: Serialize>(&self, _: &str, step: &Step<E>) {
        match step {
            Step::Open(port) | Step::Drop(port) => self.add(port),
            Step::Write(_, bytes) => self.add(String::from_utf8_lossy(bytes)),
            Step::Shutdown(_, step) => self.add(step),
            Step::Request(_, request) => self.add(text_of(&request.request)),
            _ => {}
        }
    }

    fn arrival(&self, _: &str, port: Port, input: &Arrival<'_>) {
        self.add((port, input));
    }

    fn changed<E: Embedder>(&self, sim: &Sim<E>) {
        self.add(sim.now());
    }
}

/// Whether all was written that a connection wanted to send; `None` if something else was written.
fn is_sent(connection: &Connected, written: &[u8]) -> Option<bool> {
    let (mut written, mut skipped) = (written, BTreeSet::new());
    for (at, (line, of, cancels)) in connection.sent.iter().enumerate() {
        let is_cancelled = || {
            let mut later = connection.sent[at..].iter();
            of.is_some() && !cancels && later.any(|(_, other, cancels)| other == of && *cancels)
        };
        if let Some(rest) = written.strip_prefix(line.as_slice()) {
            written = rest;
        } else if *cancels && skipped.remove(of) {
            // Neither was written.
        } else if line.starts_with(written) && !(written.is_empty() && is_cancelled()) {
            // It was being written.
            return Some(false);
        } else if is_cancelled() {
            skipped.insert(*of);
        } else {
            return None;
        }
    }
    written.is_empty().then_some(true)
}

/// Waits for a call in a task of its own, which is the host's.
async fn wait(mut call: Call, inside: Arc<Mutex<Inside>>, told: Arc<Mutex<Told>>, cancelled: oneshot::Receiver<()>) {
    let (id, mut progress) = (call.id(), call.progress());
    let mut reports = 0;
    let mut cancelled = Some(cancelled);
    let outcome = loop {
        tokio::select! {
            biased;
            report = progress.next() => match report {
                Some(_) => reports += 1,
                None => break Some((&mut call).await),
            },
            is_cancelled = async { cancelled.as_mut().unwrap().await }, if cancelled.is_some() => {
                cancelled = None;
                if is_cancelled.is_ok() {
                    break None;
                }
            }
        }
    };
    let outcome = match outcome {
        Some(Ok(reply)) => (Outcome::Result(reply.into_raw()), None),
        Some(Err(error)) => match error.kind {
            CallErrorKind::Ended(outcome) => (outcome, None),
            kind => panic!("{kind}"),
        },
        None => {
            let had_ended = inside.lock().unwrap_or_else(PoisonError::into_inner).finished.contains_key(&id);
            (Outcome::Cancelled, Some(had_ended))
        }
    };
    drop(call);
    told.lock().unwrap_or_else(PoisonError::into_inner).calls.push((id, outcome.0, reports, outcome.1));
}

impl<const HTTP: bool> Program for Real<HTTP> {
    type Call = CallId;

    fn new(seed: u64) -> Self {
        let plug = world().pace.plug(seed);
        Self {
            wire: Wire { plug, connections: Vec::new(), exchanges: Vec::new(), steps: 0 },
            seed,
            session: Arc::default(),
            inside: Arc::default(),
            told: Arc::default(),
            cancels: BTreeMap::new(),
            at_close: Mutex::default(),
        }
    }

    fn run<O: Observer>(sim: &mut Sim<Watched<'_, Self, O>>, nodes: &[NodeId], time: Duration, observer: &O) {
        let world = world();
        world.runtime.block_on(async {
            world.pace.run(sim, nodes, time, |sim| observer.changed(sim)).await.unwrap();
            for _ in 0..TURNS_OF_TASKS {
                yield_now().await;
            }
            // What they sent.
            world.pace.advance(sim, nodes).unwrap();
        });
        for node in nodes {
            let program = &sim.get(*node).unwrap().program;
            program.check();
            if time >= Self::RECOVERS {
                program.check_at_rest();
            }
        }
    }

    fn open(&mut self, _: Time) {
        let plug = &self.wire.plug;
        let host = host(self.seed, plug, &self.inside, &self.told);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Session::start(endpoint(HTTP, plug), host).unwrap());
    }

    fn call(&mut self, _: Time, _: &str, tool: &str) -> Option<CallId> {
        let call = self.session()?.start_tool(tool, &serde_json::json!({})).ok()?;
        let (id, (cancel, cancelled)) = (call.id(), oneshot::channel());
        self.cancels.insert(id, cancel);
        tokio::spawn(wait(call, Arc::clone(&self.inside), Arc::clone(&self.told), cancelled));
        Some(id)
    }

    fn cancel(&mut self, _: Time, call: CallId) {
        if let Some(cancel) = self.cancels.remove(&call) {
            // An error means that it ended.
            let _ = cancel.send(());
        }
    }

    fn refresh(&mut self, _: Time) {
        let _ = self.session().map(|session| session.refresh(Family::Tools));
    }

    fn close(&mut self, _: Time) {
        let (session, told) = (self.session().unwrap(), Arc::clone(&self.told));
        tokio::spawn(async move {
            session.close().await;
            told.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        });
    }

    fn restore(&mut self, _: Time) {
        let slot = Arc::clone(&self.session);
        let Some(session) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let (plug, inside, told) = (self.wire.plug.clone(), Arc::clone(&self.inside), Arc::clone(&self.told));
        let seed = self.seed;
        tokio::spawn(async move {
            let snapshot = read_back(&session.suspend(Secrets::Included).await);
            drop(session);
            inside.lock().unwrap_or_else(PoisonError::into_inner).end();
            let host = host(seed, &plug, &inside, &told);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Session::restore(endpoint(HTTP, &plug), host, &snapshot).unwrap());
        });
    }

    fn ended(&self) -> Vec<(CallId, Outcome)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.calls.iter().map(|(call, outcome, ..)| (*call, outcome.clone())).collect()
    }

    fn is_settled(&self) -> bool {
        matches!(self.status(), Some(Status::Ready | Status::Closed(_)))
    }

    fn is_closed(&self) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).is_closed
    }
}

struct Sessions;

/// More than a simulation takes, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends the tests with a message if a seed does not end: one whose tasks never wait has no end in virtual time either.
fn watch(seed: u64) -> mpsc::Sender<()> {
    let (ended, is_ended) = mpsc::channel();
    std::thread::spawn(move || {
        if is_ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("seed {seed} has not ended after {PATIENCE:?}");
            std::process::exit(1);
        }
    });
    ended
}

impl Scenario for Sessions {
    const OF: &str = " of the driver on tokio";

    fn run(seed: u64, turns: usize, observer: &impl Observer) {
        let _watched = watch(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let entered = runtime.enter();
        let pace = Pace::new(Time::ZERO);
        drop(entered);
        let world = Rc::new(World { runtime, pace });
        let _entered = world.runtime.enter();
        WORLD.set(Some(Rc::clone(&world)));
        let mut rng = Rng::with_seed(seed);
        if seed.is_multiple_of(2) {
            simulate::<Real<false>>(&mut rng, turns, observer);
        } else {
            simulate::<Real<true>>(&mut rng, turns, observer);
        }
        WORLD.set(None);
        world.runtime.block_on(async {
            for _ in 0..TURNS_OF_TASKS {
                yield_now().await;
            }
        });
        assert_eq!(world.runtime.metrics().num_alive_tasks(), 0, "closed sessions have tasks");
    }
}

#[test]
fn a_session_tells_its_host_and_its_server_exactly_what_its_client_decides_and_ends_each_call_once() {
    run_seeds::<Sessions>(40);
}

#[test]
fn a_seed_has_the_same_run_again() {
    for seed in 0..6 {
        let run = || {
            let trace = Trace::default();
            Sessions::run(seed, TURNS, &trace);
            trace.0.into_inner()
        };
        let (first, again) = (run(), run());
        assert!(first.len() > 10_000);
        let differing = first.lines().zip(again.lines()).find(|(first, again)| first != again);
        assert_eq!((differing, first.len()), (None, again.len()), "seed {seed}");
    }
}
