//! The run: sessions, their servers, one clock.

use std::time::{Duration, Instant};

use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::host::hub::{Hub, HubOptions};
use mcp_proto::{
    Client, ConnectionId, Keepalive, Messages, OpenFailure, Options, Reconnect, ShutdownStep, Time, Transport,
};
use serde_json::json;

use crate::args::{Settings, Target};
use crate::child::{self, Program};
use crate::engine::{Asked, Engine, Wish, seed};
use crate::events::{Clock, Talk};
use crate::exchanges::Piece;
use crate::file::Plan;
use crate::interrupt::Interrupt;
use crate::io::Io;
use crate::offered::Offered;
use crate::peer::{Heard, Peer, Place};
use crate::progress::Progress;
use crate::raw;
use crate::record::{CallRecord, FailureReport};
use crate::trace::Trace;

/// How long sessions may take to close, at most.
const CLOSING: Duration = Duration::from_secs(10);

/// A server, at the end of the run.
pub(crate) struct Ended {
    pub(crate) session: mcp_proto::Engine,
    pub(crate) peer: Peer,
}

/// The servers of a file, at the end of the run.
pub(crate) struct AllEnded {
    pub(crate) servers: Vec<Ended>,
    pub(crate) offered: Offered,
    pub(crate) calls: Vec<CallRecord>,
}

/// Connects, discovers, calls, watches, closes.
pub(crate) fn run(settings: &Settings, target: &Target, interrupt: &Interrupt) -> Ended {
    let place = match target {
        Target::Demo => Place::Demo { counted: settings.watch.is_some() },
        Target::Stdio { program, args } => {
            Place::Process(Program { program: program.clone(), args: args.clone(), ..Program::default() })
        }
        Target::Http { .. } => Place::Web(settings.headers.clone()),
    };
    let mut options = options(settings);
    options.server = target.name().into();
    let trace = Trace::new(options.limits.message, settings.diagram);
    let peer = Peer::new(target.name(), place, trace);
    let mut run = Run::new(settings, interrupt, Engine::one(options.clone(), target), vec![peer]);
    run.go();
    let Run { engine, mut peers, calls, .. } = run;
    let mut peer = peers.swap_remove(0);
    peer.record.calls = calls;
    let session = peer.last.take().or_else(|| engine.session(0).cloned());
    Ended { session: session.unwrap_or_else(|| unopened(options)), peer }
}

/// The same with all servers of a file side by side: connects, discovers, calls by exposed names, closes.
pub(crate) fn run_all(settings: &Settings, plan: &mut Plan, interrupt: &Interrupt) -> AllEnded {
    let base = options(settings);
    let mut hub_options = HubOptions::new(base.clone());
    // Whoever asks for a call wants to see what becomes of it.
    hub_options.breaker = None;
    let mut hub = Hub::new(hub_options, seed());
    // A hub that is new takes any.
    let _ = hub.configure(Time::ZERO, plan.configuration.clone());
    let (mut handles, mut peers) = (Vec::new(), Vec::new());
    for (name, place) in std::mem::take(&mut plan.places) {
        if let Some(handle) = hub.handle(&name) {
            handles.push(handle);
            peers.push(Peer::new(name.into(), place, Trace::new(base.limits.message, false)));
        }
    }
    let mut run = Run::new(settings, interrupt, Engine::Hub(Box::new(hub), handles), peers);
    run.go();
    let Run { engine, peers, calls, offered, .. } = run;
    let end = |(at, mut peer): (usize, Peer)| {
        let session = peer.last.take().or_else(|| engine.session(at).cloned());
        let named = || {
            let mut options = base.clone();
            options.server = (&*peer.name).into();
            unopened(options)
        };
        Ended { session: session.unwrap_or_else(named), peer }
    };
    AllEnded { servers: peers.into_iter().enumerate().map(end).collect(), offered: offered.unwrap_or_default(), calls }
}

/// A session that was never opened.
fn unopened(options: Options) -> mcp_proto::Engine {
    mcp_proto::Engine::clone(&Client::new(Messages::new(), options, 0))
}

fn options(settings: &Settings) -> Options {
    let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = true;
    options.capabilities.sampling = settings.answers.offer_sampling();
    options.eras = settings.eras;
    options.reconnect = None;
    if settings.watch.is_some() {
        let mut keepalive = Keepalive::default();
        keepalive.interval = Duration::from_secs(5);
        keepalive.timeout = Duration::from_secs(3);
        keepalive.threshold = 2;
        keepalive.discover = true;
        options.keepalive = Some(keepalive);
        let mut reconnect = Reconnect::default();
        reconnect.initial = Duration::from_millis(250);
        options.reconnect = Some(reconnect);
    }
    options
}

pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    interrupt: &'a Interrupt,
    pub(crate) clock: Clock,
    /// When the whole run is to be over.
    pub(crate) deadline: Option<Instant>,
    pub(crate) engine: Engine,
    pub(crate) peers: Vec<Peer>,
    progress: Progress,
    pub(crate) calls: Vec<CallRecord>,
    /// The step that waits for its answer, and since when.
    pub(crate) calling: Option<(Asked, Time)>,
    /// Since when a session is only watched.
    pub(crate) watched: Option<Instant>,
    /// Since when the sessions are being closed.
    pub(crate) closing: Option<Instant>,
    /// What a model would get, as it was before.
    pub(crate) offered: Option<Offered>,
}

impl<'a> Run<'a> {
    fn new(settings: &'a Settings, interrupt: &'a Interrupt, engine: Engine, peers: Vec<Peer>) -> Self {
        let start = Instant::now();
        Self {
            settings,
            interrupt,
            clock: Clock(start),
            deadline: start.checked_add(settings.timeout),
            engine,
            peers,
            progress: Progress::new(start),
            calls: Vec::new(),
            calling: None,
            watched: None,
            closing: None,
            offered: None,
        }
    }
}

impl Run<'_> {
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) const fn is_hub(&self) -> bool {
        matches!(self.engine, Engine::Hub(..))
    }

    fn go(&mut self) {
        match self.prepare() {
            Ok(mut io) => self.drive(&mut io),
            Err(message) => {
                for peer in &mut self.peers {
                    peer.record.failure = Some(FailureReport { kind: "connect".into(), message: message.clone() });
                }
            }
        }
        for step in self.settings.steps.iter().skip(self.calls.len()) {
            self.calls.push(CallRecord::without_answer(step, "not-sent"));
        }
        let now = self.now();
        for peer in &mut self.peers {
            let left_out = peer.record.events_left_out;
            if left_out > 0 {
                peer.record.event(now, "left-out", raw::of(&json!({"events": left_out})));
            }
        }
    }

    fn prepare(&mut self) -> Result<Io, String> {
        let mut io = Io::new()?;
        for peer in &mut self.peers {
            peer.prepare(&mut io)?;
        }
        Ok(io)
    }

    fn drive(&mut self, io: &mut Io) {
        let now = self.now();
        self.engine.open(now);
        self.act(io);
        while !self.engine.is_closed() && !self.interrupt.came() {
            if self.closing.is_some_and(|since| since.elapsed() >= CLOSING) {
                break;
            }
            self.listen(io);
            let now = self.now();
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.time_is_up(io);
            }
            if self.watch_ends().is_some_and(|end| end <= Instant::now()) && self.closing.is_none() {
                self.note("the watch is over");
                self.close();
                self.act(io);
            }
            if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
                self.engine.handle_timeout(now);
                self.act(io);
            }
            if self.progress.is_due() {
                let waiting = self.waiting();
                self.progress.tell(waiting);
            }
        }
    }

    /// Waits for a server, or for the time at which something is due.
    fn listen(&mut self, io: &mut Io) {
        let due = self.engine.deadline().and_then(|at| self.clock.instant(at));
        let closing = self.closing.and_then(|since| since.checked_add(CLOSING));
        let end = [self.deadline, self.watch_ends()].into_iter().flatten().min().filter(|_| self.closing.is_none());
        let second = Instant::now().checked_add(Duration::from_secs(1));
        let dates = [due, closing, end, self.progress.next(), second];
        let until = dates.into_iter().flatten().min().unwrap_or_else(Instant::now);
        match io.hear(&mut self.peers, until) {
            Some((at, Heard::Process(child::Heard::Output(bytes)))) => self.receive(io, at, &bytes),
            Some((at, Heard::Process(child::Heard::Life))) => self.transport(io, at, Transport::SignOfLife),
            Some((at, Heard::Process(child::Heard::Closed(why)))) => {
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.gone(&why);
                }
                self.transport(io, at, Transport::Closed { why: &why });
            }
            Some((at, Heard::Exchange(exchange, piece))) => self.exchanged(io, at, exchange, piece),
            None => {}
        }
    }

    /// Line by line, so that what follows from each is done, and drawn, before the next.
    fn receive(&mut self, io: &mut Io, at: usize, bytes: &[u8]) {
        let Some(connection) = self.peers.get(at).map(|peer| peer.connection) else { return };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.connection == connection) else { return };
            peer.trace.received(piece);
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.handle_bytes(now, at, connection, piece);
            self.settle(io, at, late);
        }
    }

    /// What came of an exchange; of a stream line by line likewise.
    fn exchanged(&mut self, io: &mut Io, at: usize, exchange: ExchangeId, piece: Piece) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        // Where nobody is there, nothing was opened.
        let there = !matches!(piece, Piece::Failure(Broken::Unreachable, _));
        if there && self.closing.is_none() {
            peer.opened();
        }
        let pieces: Vec<Piece> = match piece {
            Piece::Body(chunk) if peer.is_stream(exchange) => {
                chunk.split_inclusive(|byte| *byte == b'\n').map(|line| Piece::Body(line.into())).collect()
            }
            Piece::Head(..) | Piece::Body(_) | Piece::End | Piece::Failure(..) => vec![piece],
        };
        for piece in &pieces {
            if !self.peers.get_mut(at).is_some_and(|peer| peer.show(exchange, piece)) {
                return;
            }
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.handle_exchange(now, at, exchange, piece);
            self.settle(io, at, late);
        }
    }

    fn late_answers(&self, at: usize) -> u64 {
        self.engine.session(at).map_or(0, |session| session.stats().late_answers)
    }

    /// Does what follows from what a server sent; so many answers were late before it.
    fn settle(&mut self, io: &mut Io, at: usize, late: u64) {
        let late = self.late_answers(at).saturating_sub(late);
        if late > 0
            && let Some(mut talk) = self.talk(at)
        {
            talk.tell("late-answer", &json!({"answers": late}));
        }
        self.introduced(at);
        self.act(io);
    }

    fn transport(&mut self, io: &mut Io, at: usize, event: Transport<'_>) {
        let Some(connection) = self.peers.get(at).map(|peer| peer.connection) else { return };
        let now = self.now();
        self.engine.handle_transport(now, at, connection, event);
        self.introduced(at);
        self.act(io);
    }

    /// Notes when a server is known.
    fn introduced(&mut self, at: usize) {
        let now = self.now();
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.record.introduced.is_none())
            && self.engine.session(at).is_some_and(|session| session.server().is_some())
        {
            peer.record.introduced = Some(now);
        }
    }

    pub(crate) fn act(&mut self, io: &mut Io) {
        while let Some((at, wish)) = self.engine.poll() {
            match wish {
                Wish::Settled if self.closing.is_none() && self.calling.is_none() => self.go_on(),
                Wish::Settled => {}
                Wish::Open(connection) => self.open(io, at, connection),
                Wish::Shut(how) => self.shut(io, at, how),
                Wish::Failed(failure) => self.failed(at, &failure),
                Wish::Finished(call, outcome) => self.finished(Asked::Call(call), outcome),
                Wish::Event(event) => {
                    if let Some(follow) = self.talk(at).map(|mut talk| talk.event(event)) {
                        self.follow(at, follow);
                    }
                }
                Wish::Send(message) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.send(message.bytes(), message.line());
                    }
                }
                Wish::Request(request) => {
                    let (now, _context) = (self.now(), io.enter());
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.request(now, request);
                    }
                }
                Wish::Drop(exchange) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.drop(exchange);
                    }
                }
            }
        }
    }

    fn open(&mut self, io: &mut Io, at: usize, connection: ConnectionId) {
        let now = self.now();
        let Some(opened) = self.peers.get_mut(at).map(|peer| peer.open(connection, now)) else { return };
        let why = opened.map_err(|error| error.to_string());
        let event = match &why {
            Ok(()) => Transport::Opened,
            Err(why) => Transport::OpenFailed { how: OpenFailure::Spawn, why },
        };
        self.transport(io, at, event);
    }

    fn talk(&mut self, at: usize) -> Option<Talk<'_>> {
        let peer = self.peers.get_mut(at).filter(|_| self.engine.session(at).is_some())?;
        Some(Talk { settings: self.settings, clock: self.clock, peer, engine: &mut self.engine, at })
    }

    fn shut(&mut self, io: &mut Io, at: usize, how: ShutdownStep) {
        if !self.peers.get_mut(at).is_some_and(|peer| peer.shut(how)) {
            self.transport(io, at, Transport::Closed { why: "there is no process" });
        }
    }
}
