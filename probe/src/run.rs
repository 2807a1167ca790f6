//! A run: what it connects to, its state, its progress from start to close, and its final state.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_proto::binding::oauth::Authorization;
use mcp_proto::host::config::{Auth, Endpoint, Entry};
use mcp_proto::host::hub::{Hub, HubOAuth, HubOptions};
use mcp_proto::journal::Input;
use mcp_proto::{Client, Failure, Keepalive, Messages, Options, Reconnect, Time};
use mcp_proto_tokio::unix_time;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::{DEMO_SERVER, Settings, Target};
use crate::auth;
use crate::drive::{Clock, EventHandler, Reaction};
use crate::engine::{Engine, InFlight, Refused, Session, seed};
use crate::file::Plan;
use crate::journal::Journal;
use crate::oauth::Access;
use crate::peer::{Peer, Place, Site};
use crate::process::Program;
use crate::report::{CallRecord, ErrorReport, FailureReport, Offered};
use crate::trace::Trace;

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
        Target::Demo => {
            let probe = std::env::current_exe().map_err(|error| error.to_string())?;
            let command = mcp_proto_std::Program::new(probe).arg(DEMO_SERVER);
            Place::Process(Program { command, label: None, is_counted: settings.watch.is_some() })
        }
        Target::Stdio { program, args } => {
            Place::Process(mcp_proto_std::Program::new(program).args(args.clone()).into())
        }
        Target::Http { url, .. } => Place::Web(Site { url: url.clone(), headers: settings.headers.clone() }),
    };
    let mut options = options(settings);
    options.server = target.name().into();
    let trace = Trace::new(options.limits.message, settings.diagram);
    let peer = Peer::new(target.name(), place, trace);
    // A secret that belongs to no server goes to none: the failure says what the server offers.
    let oauth = settings.oauth.as_ref().filter(|oauth| !oauth.lacks_issuer());
    let access = oauth.map(Access::new).transpose()?;
    let authorization = match (target, oauth, &access) {
        (Target::Http { url, .. }, Some(oauth), Some(access)) => {
            let options_of = oauth.options(&access.redirect_uri);
            let authorization = Authorization::new(url, options_of, entropy()?, Time::ZERO, unix_time());
            Some(authorization.map_err(|wrong| format!("--oauth: {wrong}"))?)
        }
        _ => None,
    };
    let engine = Engine::one(options.clone(), target, authorization, &settings.headers, journal.limits());
    let mut run = Run::new(settings, interrupt, engine, journal, vec![peer], access);
    run.go();
    let Run { engine, mut peers, calls, .. } = run;
    let mut peer = peers.swap_remove(0);
    peer.record.calls = calls;
    Ok(ended(&engine, 0, peer, &options))
}

/// The final state of a server, which may never have been opened.
fn ended(engine: &Engine, at: usize, mut peer: Peer, options: &Options) -> Ended {
    let session = peer.last.take().or_else(|| engine.session(at).cloned());
    let unopened = || {
        let mut options = options.clone();
        options.server = (&*peer.name).into();
        mcp_proto::Engine::clone(&Client::new(Messages::new(), options, 0))
    };
    Ended { session: session.unwrap_or_else(unopened), peer }
}

/// The same with all servers of a file in parallel; calls use exposed names.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) fn run_all(settings: &Settings, plan: &mut Plan, interrupt: &Interrupt) -> Result<AllEnded, String> {
    let mut base = options(settings);
    // A server that was ready is started again for the calls that follow; one that fails at first is reported.
    let mut reconnect = Reconnect::default();
    (reconnect.initial_backoff, reconnect.first_attempts) = (Duration::from_millis(250), 1);
    base.reconnect = Some(reconnect);
    let mut hub_options = HubOptions::new(base.clone());
    // A requested call must be tried, so there is no breaker.
    hub_options.breaker = None;
    let mut hub = Hub::new(hub_options, seed());
    let is_oauth = |entry: &Entry| matches!(&entry.endpoint, Endpoint::Http(http) if http.auth == Some(Auth::OAuth));
    let signs_in = |entry: &Entry| entry.enabled && is_oauth(entry);
    let oauth = settings.oauth.as_ref().filter(|_| plan.configuration.servers.values().any(signs_in));
    let access = oauth.map(Access::new).transpose()?;
    if let (Some(oauth), Some(access)) = (oauth, &access) {
        let options = oauth.options(&access.redirect_uri);
        hub = hub.with_oauth(HubOAuth::new(options, entropy()?, Time::ZERO, unix_time()));
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
    let servers = peers.into_iter().enumerate().map(|(at, peer)| ended(&engine, at, peer, &base)).collect();
    Ok(AllEnded { servers, offered: offered.unwrap_or_default(), calls })
}

/// A run.
pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) clock: Clock,
    /// When the run times out.
    pub(crate) deadline: Option<Instant>,
    pub(crate) engine: Engine,
    pub(crate) journal: Journal,
    pub(crate) peers: Vec<Peer>,
    /// The user's side of `--oauth`.
    pub(crate) access: Option<Access>,
    pub(crate) progress: Progress,
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
    pub(crate) fn new(
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

    /// Records when the handshake completed.
    pub(crate) fn introduced(&mut self, at: usize) {
        let now = self.engine.now();
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.record.introduced.is_none())
            && self.engine.session(at).is_some_and(|session| session.server().is_some())
        {
            peer.record.introduced = Some(now);
        }
    }

    /// How many responses came too late.
    pub(crate) fn late_answers(&self, at: usize) -> u64 {
        self.engine.session(at).map_or(0, |session| session.stats().late_answers)
    }

    /// Takes events of a session.
    pub(crate) fn handler(&mut self, at: usize) -> Option<EventHandler<'_>> {
        let peer = self.peers.get_mut(at).filter(|_| self.engine.session(at).is_some())?;
        Some(EventHandler { settings: self.settings, peer, engine: &mut self.engine, at })
    }
}

/// Delay before the first message, and minimum interval between different messages.
const PACE: Duration = Duration::from_secs(1);
/// Interval for repeating the same message.
const AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    start: Instant,
    /// When to print next; `None` without a terminal.
    next: Option<Instant>,
    said: Option<(Instant, String)>,
}

impl Progress {
    pub(crate) fn new(start: Instant) -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { start, next: start.checked_add(PACE).filter(|_| watched), said: None }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(crate) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }

    pub(crate) fn show(&mut self, waiting: String) {
        let now = Instant::now();
        self.next = now.checked_add(PACE);
        if self.said.as_ref().is_none_or(|(at, said)| *said != waiting || at.elapsed() >= AGAIN) {
            let seconds = self.start.elapsed().as_secs();
            let _ = writeln!(std::io::stderr(), "probe: {seconds} s, waiting for {waiting}");
            self.said = Some((now, waiting));
        }
    }
}

impl Run<'_> {
    pub(crate) fn watch_ends(&self) -> Option<Instant> {
        self.watched?.checked_add(self.settings.watch?)
    }

    /// Whether the run ends before this time.
    fn ends_before(&self, time: Time) -> bool {
        let end = self.watch_ends().or(self.deadline);
        end.is_some_and(|end| self.clock.at(end) < time)
    }

    pub(crate) fn react(&mut self, at: usize, reaction: Reaction) {
        match reaction {
            Reaction::Nothing => {}
            Reaction::Ready if self.is_hub() => {
                self.announce(at, &self.summary(at));
                self.proceed();
            }
            Reaction::Ready if self.calling.is_none() => self.next_step(),
            Reaction::Ready => {}
            Reaction::Finished(request, outcome) => self.finished(InFlight::Request(request), outcome),
            // The hub handles its sessions.
            Reaction::Parked(_) | Reaction::Closing if self.is_hub() => {}
            // No reconnect will happen within the run.
            Reaction::Parked(until) if self.ends_before(until) => self.close(),
            Reaction::Parked(_) => {}
            Reaction::Closing => drop(self.closing.get_or_insert_with(Instant::now)),
            Reaction::Closed => {
                let session = self.engine.session(at).cloned();
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.last = session;
                }
            }
        }
    }

    /// A server of a hub failed or closed.
    pub(crate) fn failed(&mut self, at: usize, failure: &Failure) {
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| !peer.is_authorizing) {
            let FailureReport { kind, message } = peer.record.failure.get_or_insert_with(|| failure.into());
            let text = format!("failed: {kind}: {message}");
            self.announce(at, &text);
        }
    }

    /// Starts the steps of a hub when no server is starting or waits for a token.
    pub(crate) fn proceed(&mut self) {
        let is_waiting = self.peers.iter().any(|peer| peer.is_authorizing);
        if self.is_settled && !is_waiting && self.closing.is_none() && self.calling.is_none() {
            self.next_step();
        }
    }

    /// Adds to the failures of servers that demand a token what they offer, as far as the time of the run allows.
    pub(crate) fn add_offers(&mut self) {
        let (settings, interrupt, is_hub) = (self.settings, self.interrupt, self.is_hub());
        for peer in &mut self.peers {
            let is_refused = peer.record.failure.as_ref().is_some_and(|failure| failure.kind == "unauthorized");
            let rest = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let offer = peer.site().filter(|_| is_refused && !interrupt.came()).and_then(|site| {
                let how = match peer.record.authorization {
                    Some(_) => auth::How::Tried,
                    None if is_hub => auth::How::Entry,
                    None => auth::How::Option,
                };
                auth::offer(settings, site, how, rest.unwrap_or(Duration::MAX), interrupt)
            });
            if let (Some(failure), Some(offer)) = (&mut peer.record.failure, offer) {
                failure.message.push_str(&offer);
            }
        }
    }

    /// Prints the state of one of several servers at once.
    pub(crate) fn announce(&self, at: usize, text: &str) {
        let name = self.peers.get(at).map_or_else(String::new, |peer| crate::text::one_line(&peer.name));
        let now = Duration::from_millis(self.now().as_millis()).as_secs_f64();
        crate::text::write_stderr(&format!("probe: {now:.3} s  {name}  {}\n", crate::text::one_line(text)));
    }

    fn summary(&self, at: usize) -> String {
        let tools = self.engine.session(at).map_or(0, |session| session.catalog().tools().count());
        format!("ready, {tools} {}", if tools == 1 { "tool" } else { "tools" })
    }

    /// Starts the next possible step; after the last one watches or closes.
    pub(crate) fn next_step(&mut self) {
        while let Some(step) = self.settings.steps.get(self.calls.len()) {
            if !self.is_hub() && !self.engine.session(0).is_some_and(mcp_proto::Engine::is_ready) {
                return;
            }
            let now = self.now();
            match self.engine.start(now, step) {
                Ok(in_flight) => {
                    self.calling = Some((in_flight, now));
                    return;
                }
                Err(Refused(outcome, why)) => {
                    let error = why.map(ErrorReport::new);
                    self.calls.push(CallRecord { error, ..CallRecord::without_answer(step, outcome) });
                }
            }
        }
        if self.settings.watch.is_some() {
            self.watched.get_or_insert_with(Instant::now);
        } else {
            self.close();
        }
    }

    pub(crate) fn finished(&mut self, in_flight: InFlight, outcome: mcp_proto::Outcome) {
        let Some((_, since)) = self.calling.take_if(|(calling, _)| *calling == in_flight) else { return };
        let Some(step) = self.settings.steps.get(self.calls.len()) else { return };
        let took = self.engine.now().since(since);
        let server = self.engine.server_of(in_flight).and_then(|at| self.peers.get(at)).map(|peer| peer.name.clone());
        self.calls.push(CallRecord { server, ..CallRecord::ended(step, outcome, took) });
        if self.closing.is_none() {
            self.next_step();
        }
    }

    pub(crate) fn close(&mut self) {
        let now = self.now();
        self.closing.get_or_insert_with(Instant::now);
        if let Some(hub) = self.engine.hub() {
            self.offered.get_or_insert_with(|| Offered::of(hub));
        }
        self.engine.give(now, 0, Input::Close);
    }

    pub(crate) fn note(&mut self, text: &str) {
        for peer in &mut self.peers {
            peer.trace.note(text);
        }
    }

    /// The run timed out: notes which servers are not done.
    pub(crate) fn fail_late(&mut self, now: Time) {
        let is_hub = self.is_hub();
        let mut failures = Vec::new();
        for (at, peer) in self.peers.iter_mut().enumerate() {
            if !is_hub || !peer.record.ready && peer.record.failure.is_none() {
                let FailureReport { kind, message } = peer.fail_late(now);
                failures.push((at, format!("failed: {kind}: {message}")));
            }
        }
        for (at, text) in failures.iter().filter(|_| is_hub) {
            self.announce(*at, text);
        }
        self.note("time is up");
    }

    /// What the run is waiting for, for people.
    pub(crate) fn waiting(&self) -> String {
        let closing = self.closing.is_some();
        if let (false, [peer]) = (self.is_hub(), self.peers.as_slice()) {
            return peer.waiting(closing);
        }
        let starting = |peer: &&Peer| !peer.record.ready && peer.record.failure.is_none();
        let awaited: Vec<&Peer> = self.peers.iter().filter(starting).collect();
        if closing || awaited.is_empty() {
            let step = self.settings.steps.get(self.calls.len()).filter(|_| self.calling.is_some() && !closing);
            return step.map_or_else(|| "the servers to end".into(), |step| format!("`{}`", step.target));
        }
        let listed: Vec<String> = awaited
            .iter()
            .take(4)
            .map(|peer| format!("{} ({})", crate::text::one_line(&peer.name), peer.waiting(closing)))
            .collect();
        let more = awaited.len().saturating_sub(listed.len());
        format!("{}{}", listed.join(", "), if more > 0 { format!(", and {more} more") } else { String::new() })
    }
}

/// The options of a run's sessions.
pub(crate) fn options(settings: &Settings) -> Options {
    let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = true;
    options.capabilities.elicitation_url = settings.answers.offer_urls();
    options.capabilities.tasks = true;
    options.capabilities.sampling = settings.answers.offer_sampling();
    options.eras = settings.eras;
    // A list without an answer leaves time for the other era.
    let half = settings.timeout.checked_div(2).unwrap_or(settings.timeout);
    options.timeouts.request = options.timeouts.request.min(half);
    options.reconnect = None;
    if settings.watch.is_some() {
        let mut keepalive = Keepalive::default();
        keepalive.interval = Duration::from_secs(5);
        keepalive.timeout = Duration::from_secs(3);
        keepalive.threshold = 2;
        keepalive.discover = true;
        options.keepalive = Some(keepalive);
        let mut reconnect = Reconnect::default();
        reconnect.initial_backoff = Duration::from_millis(250);
        options.reconnect = Some(reconnect);
    }
    options
}

/// Entropy of the operating system.
pub(crate) fn entropy() -> Result<[u8; 32], String> {
    mcp_proto_tokio::entropy().map_err(|error| error.to_string())
}

/// The last signal received; 0 if none.
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    pub(crate) fn listen() -> io::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        let signals = [
            SIGINT,
            SIGTERM,
            #[cfg(unix)]
            signal_hook::consts::SIGHUP,
        ];
        for signal in signals {
            flag::register_usize(signal, Arc::clone(&last), usize::try_from(signal).unwrap_or_default())?;
        }
        Ok(Self(last))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The exit status for a program ended by this signal, as in shells; `None` without a signal.
    pub(crate) fn status(&self) -> Option<u8> {
        self.came().then(|| u8::try_from(self.0.load(Ordering::Relaxed).saturating_add(128)).unwrap_or(1))
    }
}
