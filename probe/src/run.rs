//! The run: sessions, servers and a clock.

use std::time::{Duration, Instant, SystemTime};

use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::binding::oauth::{Authorization, OAuthInput};
use mcp_proto::host::hub::{Hub, HubOAuth, HubOptions};
use mcp_proto::{
    Client, ConnectionId, Keepalive, Messages, OpenFailure, Options, Reconnect, ShutdownStep, Time, Transport,
};
use serde_json::json;

use crate::access::Access;
use crate::args::{Settings, Target};
use crate::child::{self, Program};
use crate::engine::{Engine, EngineAction, InFlight, Session, seed};
use crate::events::{Clock, EventHandler};
use crate::exchanges::Piece;
use crate::file::Plan;
use crate::interrupt::Interrupt;
use crate::io::{Came, Io};
use crate::journal::Journal;
use crate::oauth_args::OAuthSettings;
use crate::peer::{Input, Peer, Place};
use crate::progress::Progress;
use crate::raw;
use crate::record::{CallRecord, FailureReport};
use crate::toolset_report::Offered;
use crate::trace::Trace;

/// Maximum time for closing sessions.
const CLOSING: Duration = Duration::from_secs(10);

/// The final state of a server.
pub(crate) struct Ended {
    pub(crate) session: mcp_proto::Engine,
    pub(crate) peer: Peer,
}

/// The final state of all servers of a file.
pub(crate) struct AllEnded {
    pub(crate) servers: Vec<Ended>,
    pub(crate) offered: Offered,
    pub(crate) calls: Vec<CallRecord>,
}

/// Connects, discovers, calls, watches, closes.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) fn run(
    settings: &Settings,
    target: &Target,
    journal: Journal,
    interrupt: &Interrupt,
) -> Result<Ended, String> {
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
    let mut access = settings.oauth.as_ref().map(listening).transpose()?;
    let engine = match (target, &settings.oauth, &mut access) {
        (Target::Http { url, http, .. }, Some(oauth), Some(access)) => {
            access.url = Some(url.clone());
            let options_of = oauth.options(access.redirect_uri());
            let authorization = Authorization::new(url, options_of, entropy()?, Time::ZERO, unix());
            let authorization = authorization.map_err(|wrong| format!("--oauth: {wrong}"))?;
            Engine::authorizing(options.clone(), (**http).clone(), authorization)
        }
        _ => Engine::one(options.clone(), target, &settings.headers, journal.limits()),
    };
    let mut run = Run::new(settings, interrupt, engine, journal, vec![peer], access);
    run.go();
    let Run { engine, mut peers, calls, .. } = run;
    let mut peer = peers.swap_remove(0);
    peer.record.calls = calls;
    let session = peer.last.take().or_else(|| engine.session(0).cloned());
    let unauthorized = |failure: &FailureReport| failure.kind == "unauthorized" && settings.oauth.is_none();
    if let Some(failure) = peer.record.failure.as_mut().filter(|failure| unauthorized(failure))
        && let Some(offer) = crate::auth::offer(settings, target, interrupt)
    {
        failure.message.push_str(&offer);
    }
    Ok(Ended { session: session.unwrap_or_else(|| unopened(options)), peer })
}

fn listening(oauth: &OAuthSettings) -> Result<Access, String> {
    Access::new(oauth).map_err(|error| format!("--oauth: no redirect can be received: {error}"))
}

/// Entropy of the operating system.
pub(crate) fn entropy() -> Result<[u8; 32], String> {
    let mut entropy = [0; 32];
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(&mut entropy);
    filled.map(|()| entropy).map_err(|_| "the system has no random numbers".into())
}

/// The time since the Unix epoch.
pub(crate) fn unix() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The same with all servers of a file in parallel; calls use exposed names.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) fn run_all(settings: &Settings, plan: &mut Plan, interrupt: &Interrupt) -> Result<AllEnded, String> {
    let mut base = options(settings);
    // A server that was ready is started again for the calls that follow; one that fails at first is reported.
    let mut reconnect = Reconnect::default();
    (reconnect.initial, reconnect.first) = (Duration::from_millis(250), 1);
    base.reconnect = Some(reconnect);
    let mut hub_options = HubOptions::new(base.clone());
    // A requested call must be tried, so there is no breaker.
    hub_options.breaker = None;
    let mut hub = Hub::new(hub_options, seed());
    let access = settings.oauth.as_ref().map(listening).transpose()?;
    if let (Some(oauth), Some(access)) = (&settings.oauth, &access) {
        let options = oauth.options(access.redirect_uri());
        hub = hub.with_oauth(HubOAuth::new(options, entropy()?, Time::ZERO, unix()));
    }
    // A new hub accepts any configuration.
    let _ = hub.configure(Time::ZERO, plan.configuration.clone());
    let (mut handles, mut peers) = (Vec::new(), Vec::new());
    for (name, place) in std::mem::take(&mut plan.places) {
        if let Some(handle) = hub.handle(&name) {
            handles.push(handle);
            peers.push(Peer::new(name.into(), place, Trace::new(base.limits.message, false)));
        }
    }
    let engine = Engine::new(Session::Hub(Box::new(hub), handles));
    let mut run = Run::new(settings, interrupt, engine, Journal::none(), peers, access);
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
    let servers = peers.into_iter().enumerate().map(end).collect();
    Ok(AllEnded { servers, offered: offered.unwrap_or_default(), calls })
}

/// A session that was never opened.
pub(crate) fn unopened(options: Options) -> mcp_proto::Engine {
    mcp_proto::Engine::clone(&Client::new(Messages::new(), options, 0))
}

pub(crate) fn options(settings: &Settings) -> Options {
    let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = true;
    options.capabilities.elicitation_url = settings.answers.offer_urls();
    options.capabilities.tasks = true;
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
    /// When the run times out.
    pub(crate) deadline: Option<Instant>,
    pub(crate) engine: Engine,
    journal: Journal,
    pub(crate) peers: Vec<Peer>,
    /// The user's side of `--oauth`.
    pub(crate) access: Option<Access>,
    progress: Progress,
    pub(crate) calls: Vec<CallRecord>,
    /// The step in flight, with its start.
    pub(crate) calling: Option<(InFlight, Time)>,
    /// When watching began.
    pub(crate) watched: Option<Instant>,
    /// When closing began.
    pub(crate) closing: Option<Instant>,
    /// The credentials are being given up.
    pub(crate) is_signing_out: bool,
    /// What a model would get, saved before closing.
    pub(crate) offered: Option<Offered>,
    /// No server of the hub is starting.
    pub(crate) is_settled: bool,
}

impl<'a> Run<'a> {
    fn new(
        settings: &'a Settings,
        interrupt: &'a Interrupt,
        engine: Engine,
        journal: Journal,
        peers: Vec<Peer>,
        access: Option<Access>,
    ) -> Self {
        let start = Instant::now();
        Self {
            settings,
            interrupt,
            clock: Clock(start),
            deadline: start.checked_add(settings.timeout),
            engine,
            journal,
            peers,
            access,
            progress: Progress::new(start),
            calls: Vec::new(),
            calling: None,
            watched: None,
            closing: None,
            is_signing_out: false,
            offered: None,
            is_settled: false,
        }
    }
}

impl Run<'_> {
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) const fn is_hub(&self) -> bool {
        self.engine.hub().is_some()
    }

    fn go(&mut self) {
        match self.prepare() {
            Ok(mut io) => {
                self.drive(&mut io);
                self.sign_out(&mut io);
            }
            Err(message) => {
                for peer in &mut self.peers {
                    peer.record.failure = Some(FailureReport { kind: "connect".into(), message: message.clone() });
                }
            }
        }
        for step in self.settings.steps.iter().skip(self.calls.len()) {
            self.calls.push(CallRecord::without_answer(step, "not-sent"));
        }
        self.journal.end(&mut self.engine);
        let now = self.engine.now();
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
                self.time_out(io);
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
            self.journal.write(&mut self.engine);
            self.show_progress();
        }
    }

    /// Gives up the credentials that the server demanded, after its session: the end of a session needs its token.
    fn sign_out(&mut self, io: &mut Io) {
        let is_wanted = self.settings.oauth.as_ref().is_some_and(|oauth| oauth.signs_out);
        if !is_wanted || self.interrupt.came() {
            return;
        }
        if !self.peers.iter().any(|peer| peer.record.authorization.is_some()) {
            return crate::write_stderr("probe: --sign-out: the server demanded no token, so none was given up\n");
        }
        self.closing = Some(Instant::now());
        self.finish_authorization(io);
        self.is_signing_out = true;
        self.give(io, 0, OAuthInput::SignOut);
        self.finish_authorization(io);
        if self.is_authorizing() {
            crate::write_stderr("probe: --sign-out: it took too long, and the tokens may still be valid\n");
        }
    }

    /// Whether a request of the authorization, or an action on the store, is in progress.
    fn is_authorizing(&self) -> bool {
        self.peers.iter().any(Peer::has_oauth_request) || self.access.as_ref().is_some_and(Access::uses_store)
    }

    /// Continues until nothing of the authorization is in progress.
    fn finish_authorization(&mut self, io: &mut Io) {
        let is_late = |since: Instant| since.elapsed() >= CLOSING;
        while self.is_authorizing() && !self.closing.is_some_and(is_late) && !self.interrupt.came() {
            self.listen(io);
            let now = self.now();
            self.engine.handle_timeout(now);
            self.act(io);
            self.show_progress();
        }
    }

    fn show_progress(&mut self) {
        if self.progress.is_due() {
            let waiting = self.waiting();
            self.progress.show(waiting);
        }
    }

    /// Waits for input from a server, or until something is due.
    fn listen(&mut self, io: &mut Io) {
        let due = self.engine.deadline().and_then(|at| self.clock.instant(at));
        let closing = self.closing.and_then(|since| since.checked_add(CLOSING));
        let end = [self.deadline, self.watch_ends()].into_iter().flatten().min().filter(|_| self.closing.is_none());
        let second = Instant::now().checked_add(Duration::from_secs(1));
        let dates = [due, closing, end, self.progress.next(), second];
        let until = dates.into_iter().flatten().min().unwrap_or_else(Instant::now);
        let (at, input) = match io.wait(&mut self.peers, self.access.as_mut(), until) {
            Some(Came::Server(at, input)) => (at, input),
            Some(Came::Access(came)) => return self.came(io, came),
            None => return,
        };
        match input {
            Input::Process(child::Input::Output(bytes)) => self.receive(io, at, &bytes),
            Input::Process(child::Input::SignOfLife) => self.transport(io, at, Transport::SignOfLife),
            Input::Process(child::Input::Closed(why)) => {
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.gone(&why);
                }
                self.transport(io, at, Transport::Closed { why: &why });
            }
            Input::Exchange(exchange, piece) => self.receive_exchange(io, at, exchange, piece),
            Input::OAuth(exchange, piece) => self.receive_oauth(io, at, exchange, &piece),
        }
    }

    /// Handles input line by line, so that the effects of a line are carried out and traced before the next line.
    fn receive(&mut self, io: &mut Io, at: usize, bytes: &[u8]) {
        let Some(connection) = self.peers.get(at).map(|peer| peer.connection) else { return };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.connection == connection) else { return };
            peer.trace.received(piece);
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.handle_bytes(now, at, connection, piece);
            self.after_input(io, at, late);
        }
    }

    /// Handles a piece of an exchange; event streams line by line too.
    fn receive_exchange(&mut self, io: &mut Io, at: usize, exchange: ExchangeId, piece: Piece) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        // If the server is unreachable, no connection was opened.
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
        for piece in pieces {
            if !self.peers.get_mut(at).is_some_and(|peer| peer.show(exchange, &piece)) {
                return;
            }
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.handle_exchange(now, at, exchange, piece);
            self.after_input(io, at, late);
        }
    }

    fn late_answers(&self, at: usize) -> u64 {
        self.engine.session(at).map_or(0, |session| session.stats().late_answers)
    }

    /// Carries out the effects of a server's input. `late` is the earlier number of late responses.
    fn after_input(&mut self, io: &mut Io, at: usize, late: u64) {
        let late = self.late_answers(at).saturating_sub(late);
        if late > 0
            && let Some(mut handler) = self.handler(at)
        {
            handler.record("late-answer", &json!({"answers": late}));
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

    /// Records when the handshake completed.
    pub(crate) fn introduced(&mut self, at: usize) {
        let now = self.engine.now();
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.record.introduced.is_none())
            && self.engine.session(at).is_some_and(|session| session.server().is_some())
        {
            peer.record.introduced = Some(now);
        }
    }

    pub(crate) fn act(&mut self, io: &mut Io) {
        while let Some((at, action)) = self.engine.poll() {
            match action {
                EngineAction::Settled => {
                    self.is_settled = true;
                    self.proceed();
                }
                EngineAction::OAuth(action) => self.authorize(io, at, action),
                EngineAction::Open(connection) => self.open(io, at, connection),
                EngineAction::Shut(how) => self.shut(io, at, how),
                EngineAction::Failed(failure) => self.failed(at, &failure),
                EngineAction::Resting => {
                    if let Some(mut handler) = self.handler(at) {
                        handler.rest();
                    }
                }
                EngineAction::Finished(call, outcome) => self.finished(InFlight::Call(call), outcome),
                EngineAction::Event(event) => {
                    if let Some(reaction) = self.handler(at).map(|mut handler| handler.event(event)) {
                        self.react(at, reaction);
                    }
                }
                EngineAction::Send(message) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.send(message.bytes(), message.line());
                    }
                }
                EngineAction::Request(request) => {
                    let (now, _context) = (self.engine.now(), io.enter());
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.request(now, request);
                    }
                }
                EngineAction::Drop(exchange) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.drop(exchange);
                    }
                }
            }
        }
    }

    fn open(&mut self, io: &mut Io, at: usize, connection: ConnectionId) {
        let now = self.engine.now();
        let Some(opened) = self.peers.get_mut(at).map(|peer| peer.open(connection, now)) else { return };
        let why = opened.map_err(|error| error.to_string());
        let event = match &why {
            Ok(()) => Transport::Opened,
            Err(why) => Transport::OpenFailed { how: OpenFailure::Spawn, why },
        };
        self.transport(io, at, event);
    }

    fn handler(&mut self, at: usize) -> Option<EventHandler<'_>> {
        let peer = self.peers.get_mut(at).filter(|_| self.engine.session(at).is_some())?;
        Some(EventHandler { settings: self.settings, peer, engine: &mut self.engine, at })
    }

    fn shut(&mut self, io: &mut Io, at: usize, how: ShutdownStep) {
        if !self.peers.get_mut(at).is_some_and(|peer| peer.shut(how)) {
            self.transport(io, at, Transport::Closed { why: "there is no process" });
        }
    }
}
