//! A run: what it connects to, its progress from start to close, and its final state.

use std::future::pending;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::binding::oauth::OAuthInput;
use mcp_proto::host::config::{Auth, Endpoint, Entry};
use mcp_proto::host::hub::{CallError as HubCallError, HubOptions};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{Client, CommandError, Diagnosis, Engine, Failure, Messages, Options, Outcome, Reconnect, Time};
use mcp_proto_tokio::{
    Ask, Call, CallError, CallErrorKind, Elicited, Host, HostOptions, Hub, Program, Remote, Reply, Session, StartError,
};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::args::{DEMO_SERVER, Settings, Step, Target};
use crate::auth;
use crate::file::Plan;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::oauth::{Lines, sign_in};
use crate::observer::{Observer, Reaction};
use crate::peer::{Ended, Peer, Site};
use crate::record::{CallRecord, ErrorReport};
use crate::report::{AllEnded, Offered};
use crate::secrets::Given;
use crate::stderr::Copier;
use crate::text::write_stderr;
use crate::trace::Trace;

/// Maximum time for closing sessions.
const CLOSING: Duration = Duration::from_secs(10);
/// How much of it may be after the time of the run, and how much while credentials are being stored.
const LATE: Duration = Duration::from_millis(250);
const STORING: Duration = Duration::from_secs(2);

/// Runs this on a runtime. Returns also the exit status of a signal that came. When it returns, the servers' processes have
/// ended, and what they wrote to standard error is copied; with several servers each line has the server's name.
pub(crate) fn on_runtime<T>(
    is_hub: bool,
    work: impl AsyncFnOnce(&mut Interrupt, Copier) -> T,
) -> io::Result<(T, Option<u8>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut interrupt = runtime.block_on(async { Interrupt::listen() })?;
    let (copier, rest) = Copier::start(is_hub)?;
    let result = runtime.block_on(async {
        let done = work(&mut interrupt, copier).await;
        // The page of a browser that was just judged is sent.
        yield_now().await;
        Ok((done, interrupt.status()))
    });
    // Name lookups and browsers are not waited for.
    runtime.shutdown_background();
    rest.wait();
    result
}

/// Connects, discovers, calls, watches, closes.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) async fn run(
    settings: &Arc<Settings>,
    target: &Target,
    given: &[Given],
    journal: Journal,
    interrupt: &mut Interrupt,
    copier: Copier,
) -> Result<Ended, String> {
    let mut options = settings.options();
    options.server = target.name().into();
    let site = match target {
        Target::Http { url, .. } => Some(Site { url: url.clone(), headers: settings.headers.clone() }),
        Target::Demo | Target::Stdio { .. } => None,
    };
    let endpoint: mcp_proto_tokio::Endpoint = match target {
        Target::Demo => {
            let probe = std::env::current_exe().map_err(|error| error.to_string())?;
            demo(Program::new(probe).arg(DEMO_SERVER), settings.watch.is_some()).into()
        }
        Target::Stdio { program, args } => Program::new(program).args(args.clone()).into(),
        Target::Http { remote, .. } => Remote::clone(remote).headers(settings.headers.clone()).into(),
    };
    let peer = Peer::new(target.name(), site, Trace::new(options.limits.message, settings.diagram));
    let observed = observe(settings, vec![peer], false);
    let (lines, tap) = (Lines::new(), observed.tap());
    let mut host = answering(settings, options.clone())
        .tap(move |passed| tap(&mut |observer| observer.session(&passed)))
        .record(journal.limits())
        .stderr(move |server, piece| copier.copy(server, piece));
    // A secret that belongs to no server goes to none: the failure says what the server offers.
    let oauth = settings.oauth.as_ref().filter(|oauth| !oauth.lacks_issuer());
    if let (Target::Http { .. }, Some(oauth)) = (target, oauth) {
        host = host.oauth(sign_in(oauth, &lines)?);
    }
    let session = Session::start(endpoint, host).map_err(|error| refused(&error))?;
    journal.hide(&session, given);
    let mut run = Run::new(settings, interrupt, Driven::Session(session), observed, lines, journal);
    run.go().await;
    let Run { driven, observer, calls, .. } = run;
    let mut peer = locked(&observer).peers.swap_remove(0);
    peer.record.calls = calls;
    let session = driven.engine(&peer.name);
    Ok(ended(session, peer, &options))
}

/// The demo server; watched, it gets the number of its starts.
fn demo(program: Program, is_watched: bool) -> Program {
    let starts = AtomicU32::new(1);
    if !is_watched {
        return program;
    }
    program.prepare(move |command| {
        command.arg(starts.fetch_add(1, Ordering::Relaxed).to_string());
    })
}

/// The final state of a server, which may never have been opened.
fn ended(session: Option<Engine>, mut peer: Peer, options: &Options) -> Ended {
    let unopened = || {
        let mut options = options.clone();
        options.server = (&*peer.name).into();
        Engine::clone(&Client::new(Messages::new(), options, 0))
    };
    let last = peer.last.take();
    Ended { session: last.or(session).unwrap_or_else(unopened), peer }
}

/// The same with all servers of a file in parallel; calls use exposed names.
///
/// # Errors
/// What is wrong with the options of `--oauth`.
pub(crate) async fn run_all(
    settings: &Arc<Settings>,
    plan: &mut Plan,
    interrupt: &mut Interrupt,
    copier: Copier,
) -> Result<AllEnded, String> {
    let mut base = settings.options();
    // A server that was ready is started again for the calls that follow; one that fails at first is reported.
    let mut reconnect = Reconnect::default();
    (reconnect.initial_backoff, reconnect.first_attempts) = (Duration::from_millis(250), 1);
    base.reconnect = Some(reconnect);
    let mut hub_options = HubOptions::new(base.clone());
    // A requested call must be tried, so there is no breaker.
    hub_options.breaker = None;
    let is_oauth = |entry: &Entry| matches!(&entry.endpoint, Endpoint::Http(http) if http.auth == Some(Auth::OAuth));
    let signs_in = |entry: &Entry| entry.enabled && is_oauth(entry);
    let trace = || Trace::new(base.limits.message, false);
    let sites = std::mem::take(&mut plan.sites).into_iter();
    let peers = sites.map(|(name, site)| Peer::new(name.into(), site, trace())).collect();
    let observed = observe(settings, peers, true);
    let (lines, tap) = (Lines::new(), observed.tap());
    let mut host = answering(settings, hub_options)
        .tap(move |passed| tap(&mut |observer| observer.hub(&passed)))
        .headers(settings.headers.clone())
        .stderr(move |server, piece| copier.copy(server, piece));
    if settings.inherits_env {
        host = host.inherit_environment();
    }
    let oauth = settings.oauth.as_ref().filter(|_| plan.configuration.servers.values().any(signs_in));
    if let Some(oauth) = oauth {
        host = host.oauth(sign_in(oauth, &lines)?);
    }
    let hub = Hub::start(plan.configuration.clone(), host).map_err(|error| refused(&error))?;
    let mut run = Run::new(settings, interrupt, Driven::Hub(hub), observed, lines, Journal::none());
    run.go().await;
    let Run { driven, observer, calls, offered, .. } = run;
    let peers = std::mem::take(&mut locked(&observer).peers).into_iter();
    let servers = peers.map(|peer| ended(driven.engine(&peer.name), peer, &base)).collect();
    Ok(AllEnded { servers, offered: offered.unwrap_or_default(), calls })
}

/// The records of a run, and what the run has to do.
struct Observed {
    observer: Arc<Mutex<Observer>>,
    reactions: UnboundedReceiver<Reaction>,
    /// Something passed.
    passed: Arc<Notify>,
}

fn observe(settings: &Arc<Settings>, peers: Vec<Peer>, is_hub: bool) -> Observed {
    let (sender, reactions) = unbounded_channel();
    // An error means that the run is over.
    let tell = move |reaction| drop(sender.send(reaction));
    let observer = Observer::new(settings, peers, is_hub, tell);
    Observed { observer: Arc::new(Mutex::new(observer)), reactions, passed: Arc::default() }
}

impl Observed {
    /// Shows something to the observer.
    fn tap(&self) -> impl Fn(&mut dyn FnMut(&mut Observer)) + Send + 'static {
        let (observer, passed) = (Arc::clone(&self.observer), Arc::clone(&self.passed));
        move |show| {
            show(&mut locked(&observer));
            passed.notify_one();
        }
    }
}

fn locked(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host that gives the answers of the command line.
fn answering<O: HostOptions>(settings: &Arc<Settings>, options: O) -> Host<O> {
    let answer = |settings: &Settings, ask: &Ask| settings.answers.to(ask.key.as_deref(), ask.method.as_str());
    let own = Arc::clone(settings);
    let host = Host::new(options).elicitation(move |ask| {
        let answer = answer(&own, &ask);
        async move { answer.map_or(Elicited::Decline, Elicited::Result) }
    });
    if !settings.answers.offer_sampling() {
        return host;
    }
    let own = Arc::clone(settings);
    host.sampling(move |ask| {
        let answer = answer(&own, &ask);
        async move { answer.ok_or_else(|| ErrorObject::new(-1, "User rejected sampling request")) }
    })
}

/// Why a client does not start, as the user is told.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are of no option")]
fn refused(error: &StartError) -> String {
    match error {
        StartError::OAuth(wrong) => format!("--oauth: {wrong}"),
        StartError::Redirect(wrong) => format!("--oauth: no redirect can be received: {wrong}"),
        error => error.to_string(),
    }
}

/// A session or a hub.
#[derive(Clone)]
enum Driven {
    Session(Session),
    Hub(Hub),
}

impl Driven {
    const fn is_hub(&self) -> bool {
        matches!(self, Self::Hub(_))
    }

    fn now(&self) -> Time {
        match self {
            Self::Session(session) => session.now(),
            Self::Hub(hub) => hub.now(),
        }
    }

    /// Starts a step; with a hub, a call by its exposed name.
    fn start(&self, step: &Step) -> Result<Call, CallError> {
        match self {
            Self::Session(session) => session.start_request(step.request()),
            Self::Hub(hub) => hub.start_call_raw(&step.target, step.call_arguments()),
        }
    }

    /// The state of a server's session, if it was opened.
    fn engine(&self, server: &str) -> Option<Engine> {
        match self {
            Self::Session(session) => Some(session.inspect(Clone::clone)),
            Self::Hub(hub) => hub.inspect(|hub| hub.session(hub.handle(server)?).cloned()),
        }
    }

    fn diagnose(&self, server: &str, failure: Failure) -> Diagnosis {
        match self {
            Self::Session(session) => session.diagnose(failure),
            Self::Hub(hub) => hub.diagnose(server, failure),
        }
    }

    fn time_out(&self) {
        match self {
            Self::Session(session) => session.time_out(),
            Self::Hub(hub) => hub.time_out(),
        }
    }

    async fn close(&self) {
        match self {
            Self::Session(session) => session.close().await,
            Self::Hub(hub) => hub.close().await,
        }
    }

    async fn kill(&self) {
        match self {
            Self::Session(session) => session.close_within(Duration::ZERO).await,
            Self::Hub(hub) => hub.close_within(Duration::ZERO).await,
        }
    }

    async fn closed(&self) {
        match self {
            Self::Session(session) => drop(session.closed().await),
            Self::Hub(hub) => hub.closed().await,
        }
    }

    fn redirect(&self, server: &str, redirect: &str) -> bool {
        match self {
            Self::Session(session) => session.handle_oauth(OAuthInput::Redirect(redirect)),
            Self::Hub(hub) => hub.handle_oauth(server, OAuthInput::Redirect(redirect)),
        }
    }
}

/// A run.
struct Run<'a> {
    settings: &'a Settings,
    interrupt: &'a mut Interrupt,
    driven: Driven,
    observer: Arc<Mutex<Observer>>,
    reactions: UnboundedReceiver<Reaction>,
    passed: Arc<Notify>,
    lines: Lines,
    journal: Journal,
    start: Instant,
    /// When the run times out.
    deadline: Option<Instant>,
    progress: Progress,
    calls: Vec<CallRecord>,
    /// The step in flight, with its start.
    calling: Option<(Call, Time)>,
    /// Whether a step was started.
    has_called: bool,
    /// When watching ends.
    watched: Option<Instant>,
    /// What a model would get, saved before closing.
    offered: Option<Offered>,
}

/// What a run waited for.
enum Came {
    Signal,
    Reaction(Reaction),
    Finished(Box<Result<Reply, CallError>>),
    /// A line of standard input.
    Line(String),
    /// The time of the run, or of the watch, is over.
    Late,
    Watched,
    /// The session or the hub is closed.
    Closed,
    /// Progress is due, or lines of the journal.
    Tick,
}

impl<'a> Run<'a> {
    fn new(
        settings: &'a Settings,
        interrupt: &'a mut Interrupt,
        driven: Driven,
        Observed { observer, reactions, passed }: Observed,
        lines: Lines,
        journal: Journal,
    ) -> Self {
        let start = Instant::now();
        Self {
            settings,
            interrupt,
            driven,
            observer,
            reactions,
            passed,
            lines,
            journal,
            start,
            deadline: start.checked_add(settings.timeout),
            progress: Progress::new(start),
            calls: Vec::new(),
            calling: None,
            has_called: false,
            watched: None,
            offered: None,
        }
    }

    /// Connects, and continues until the end.
    async fn go(&mut self) {
        self.work().await;
        let is_closed = self.close().await;
        self.sign_out().await;
        self.add_offers().await;
        let is_interrupted = self.interrupt.came();
        let mut in_flight = self.calling.is_some();
        for step in self.settings.steps.iter().skip(self.calls.len()).take_while(|_| !is_interrupted) {
            // For the journal: the session closes, so that it is refused.
            if !std::mem::take(&mut in_flight) {
                let _ = self.driven.start(step);
            }
            self.calls.push(CallRecord::without_answer(step, "not-sent"));
        }
        if let Driven::Session(session) = &self.driven {
            self.journal.end(session);
        }
        locked(&self.observer).end(self.driven.now());
        for peer in &mut locked(&self.observer).peers {
            let name = &peer.name;
            peer.record.diagnose(|failure| self.driven.diagnose(name, failure));
        }
        if !is_closed && !is_interrupted {
            // A hub has no session any more once it is killed.
            for peer in &mut locked(&self.observer).peers {
                let session = || self.driven.engine(&peer.name);
                peer.last = peer.last.take().or_else(session);
            }
            let storing = self.start.checked_add(self.settings.timeout.saturating_add(STORING));
            tokio::select! {
                () = self.interrupt.next() => {}
                _ = timeout_at(storing.unwrap_or_else(Instant::now), self.driven.kill()) => {}
            }
        }
    }

    /// Makes the calls and watches, until the session is to be closed.
    async fn work(&mut self) {
        loop {
            if self.calling.is_none() && self.may_call() && !self.next_step() {
                let Some(watch) = self.settings.watch else { return };
                if self.watched.is_none() {
                    self.watched = Instant::now().checked_add(watch);
                }
            }
            match self.next().await {
                Came::Signal | Came::Closed => return,
                Came::Late => {
                    self.time_out();
                    return self.collect().await;
                }
                Came::Watched => return locked(&self.observer).note("the watch is over"),
                Came::Reaction(reaction) => {
                    if !self.goes_on(reaction) {
                        return;
                    }
                }
                Came::Finished(result) => self.finished(*result),
                Came::Line(line) => self.redirect(line.trim()),
                Came::Tick => {}
            }
        }
    }

    /// Waits for what comes next, and writes what is due.
    async fn next(&mut self) -> Came {
        let tick = self.progress.next;
        let at = async |time: Option<Instant>| match time {
            Some(time) => sleep_until(time).await,
            None => pending().await,
        };
        let call = async {
            match &mut self.calling {
                Some((call, _)) => call.await,
                None => pending().await,
            }
        };
        let came = tokio::select! {
            biased;
            () = self.interrupt.next() => Came::Signal,
            Some(reaction) = self.reactions.recv() => Came::Reaction(reaction),
            result = call => Came::Finished(result.into()),
            Some(line) = self.lines.next() => Came::Line(line),
            () = at(self.deadline) => Came::Late,
            () = at(self.watched) => Came::Watched,
            () = self.driven.closed() => Came::Closed,
            () = self.passed.notified() => Came::Tick,
            () = at(tick) => Came::Tick,
        };
        self.write();
        came
    }

    /// Writes the journal so far, and what the run waits for.
    fn write(&mut self) {
        if let Driven::Session(session) = &self.driven {
            self.journal.write(session);
        }
        if self.progress.is_due() {
            let step = self.settings.steps.get(self.calls.len()).filter(|_| self.calling.is_some());
            let waiting = locked(&self.observer).waiting(step.map(|step| &*step.target));
            self.progress.show(waiting);
        }
    }

    /// Whether a step may be started now.
    fn may_call(&self) -> bool {
        match &self.driven {
            Driven::Session(session) => session.inspect(Engine::is_ready),
            Driven::Hub(_) if self.has_called => true,
            Driven::Hub(_) => {
                let observer = locked(&self.observer);
                observer.is_settled && !observer.is_authorizing()
            }
        }
    }

    /// Starts the next possible step. Returns whether there is one.
    fn next_step(&mut self) -> bool {
        self.has_called = true;
        while let Some(step) = self.settings.steps.get(self.calls.len()) {
            let now = self.driven.now();
            match self.driven.start(step) {
                Ok(call) => {
                    self.calling = Some((call, now));
                    return true;
                }
                Err(error) => {
                    let (outcome, error) = self.refusal(error);
                    self.calls.push(CallRecord { error, ..CallRecord::without_answer(step, outcome) });
                }
            }
        }
        false
    }

    /// The outcome of a call that was refused.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are no refusal")]
    fn refusal(&self, error: CallError) -> (&'static str, Option<ErrorReport>) {
        let (is_absent, why) = match error.kind {
            CallErrorKind::Refused(refused) if self.driven.is_hub() => {
                (false, Some(format!("the server `{}`: {refused}", error.server)))
            }
            CallErrorKind::Refused(refused) => (matches!(refused, CommandError::NotAdvertised { .. }), None),
            CallErrorKind::Down(why) if self.driven.is_hub() => (false, Some(why.to_string())),
            CallErrorKind::Hub(refused) => {
                let refusal = refused.downcast_ref::<HubCallError>();
                (matches!(refusal, Some(HubCallError::UnknownTool { .. })), Some(refused.to_string()))
            }
            _ => (false, None),
        };
        (if is_absent { "not-advertised" } else { "not-sent" }, why.map(ErrorReport::new))
    }

    fn finished(&mut self, result: Result<Reply, CallError>) {
        let Some((call, since)) = self.calling.take() else { return };
        let Some(step) = self.settings.steps.get(self.calls.len()) else { return };
        let outcome = match result {
            Ok(reply) => Outcome::Result(reply.into_raw()),
            Err(CallError { kind: CallErrorKind::Ended(outcome), .. }) => outcome,
            // A call that was started is not refused.
            Err(_) => Outcome::Unknown,
        };
        let server = self.driven.is_hub().then(|| call.server().to_owned());
        let took = self.driven.now().since(since);
        self.calls.push(CallRecord { server, ..CallRecord::ended(step, outcome, took) });
    }

    /// Does what the records ask for. Returns whether the session goes on.
    fn goes_on(&self, reaction: Reaction) -> bool {
        match (reaction, &self.driven) {
            (Reaction::Subscribe { removed, added }, Driven::Session(session)) => {
                for uri in &removed {
                    // An error means that it was not subscribed to.
                    let _ = session.unsubscribe(uri);
                }
                // The first error applies to the rest too: the server does not support it, or the limit is reached.
                let _ = added.iter().all(|uri| session.subscribe(uri).is_ok());
                true
            }
            // No reconnect will happen within the run.
            (Reaction::Parked(until), Driven::Session(_)) => {
                let now = self.driven.now();
                let rest = self.watched.or(self.deadline).map(|end| end.saturating_duration_since(Instant::now()));
                rest.is_none_or(|rest| until.since(now) <= rest)
            }
            (Reaction::Closing | Reaction::Unauthorized, Driven::Session(_)) => false,
            // The hub handles its sessions.
            (_, Driven::Hub(_)) => true,
        }
    }

    /// A redirect that a person pasted.
    fn redirect(&self, redirect: &str) {
        let shown = {
            let observer = locked(&self.observer);
            observer.shown.and_then(|at| observer.peers.get(at)).map(|peer| peer.name.clone())
        };
        let Some(server) = shown.filter(|_| !redirect.is_empty()) else { return };
        if !self.driven.redirect(&server, redirect) {
            write_stderr("probe: this is not the redirect that belongs to the URL above\n");
        }
    }

    /// The run timed out: keeps the results so far.
    fn time_out(&mut self) {
        {
            let mut observer = locked(&self.observer);
            observer.fail_late(self.driven.now());
            observer.is_closing = true;
        }
        self.save_offer();
        self.driven.time_out();
    }

    fn save_offer(&mut self) {
        if let (Driven::Hub(hub), None) = (&self.driven, &self.offered) {
            self.offered = Some(hub.inspect(Offered::of));
        }
    }

    /// When closing, which began now, has to be over.
    fn closing_ends(&self, late: Duration) -> Instant {
        let now = Instant::now();
        let late = self.deadline.and_then(|deadline| deadline.checked_add(late));
        [now.checked_add(CLOSING), late].into_iter().flatten().min().unwrap_or(now)
    }

    /// Closes what is open, and waits for the end. Returns whether it was reached.
    async fn close(&mut self) -> bool {
        if self.interrupt.came() {
            return false;
        }
        locked(&self.observer).is_closing = true;
        self.save_offer();
        let (driven, end) = (self.driven.clone(), self.closing_ends(LATE));
        let mut closing = pin!(driven.close());
        loop {
            let due = self.progress.next.map_or(end, |next| next.min(end));
            tokio::select! {
                biased;
                () = self.interrupt.next() => return false,
                () = &mut closing => {
                    self.collect().await;
                    return true;
                }
                () = self.passed.notified() => {}
                () = sleep_until(due) => {}
            }
            self.write();
            if Instant::now() >= end {
                break;
            }
        }
        self.collect().await;
        // What still comes is no part of the report.
        locked(&self.observer).is_over = true;
        false
    }

    /// Takes the end of a call that ended with the session.
    async fn collect(&mut self) {
        if let Some((call, _)) = &mut self.calling
            && let Ok(result) = timeout_at(Instant::now(), call).await
        {
            self.finished(result);
        }
    }

    /// Gives up the credentials that the server demanded, after its session: the end of a session needs its token.
    async fn sign_out(&mut self) {
        let Driven::Session(session) = &self.driven else { return };
        let is_wanted = self.settings.oauth.as_ref().is_some_and(|oauth| oauth.signs_out);
        if !is_wanted || self.interrupt.came() {
            return;
        }
        let is_needed = {
            let mut observer = locked(&self.observer);
            observer.is_signing_out = true;
            observer.peers.iter().any(|peer| peer.record.authorization.is_some())
        };
        if !is_needed {
            return write_stderr("probe: --sign-out: the server demanded no token, so none was given up\n");
        }
        let end = self.closing_ends(STORING);
        tokio::select! {
            () = self.interrupt.next() => {}
            ended = timeout_at(end, session.sign_out()) => {
                if ended.is_err() {
                    write_stderr("probe: --sign-out: it took too long, and the tokens may still be valid\n");
                }
            }
        }
    }

    /// Adds to the failures of servers that demand a token what they offer, as far as the time of the run allows.
    async fn add_offers(&mut self) {
        let is_hub = self.driven.is_hub();
        let refused: Vec<(usize, Site, auth::How)> = {
            let observer = locked(&self.observer);
            let peers = observer.peers.iter().enumerate();
            let refused = peers
                .filter(|(_, peer)| peer.record.failure.as_ref().is_some_and(|failure| failure.kind == "unauthorized"));
            let refused = refused.filter_map(|(at, peer)| {
                let how = match peer.record.authorization {
                    Some(_) => auth::How::Tried,
                    None if is_hub => auth::How::Entry,
                    None => auth::How::Option,
                };
                Some((at, peer.site.clone()?, how))
            });
            refused.collect()
        };
        for (at, site, how) in refused {
            let rest = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let offer = tokio::select! {
                () = self.interrupt.next() => return,
                offer = auth::offer(self.settings, &site, how, rest.unwrap_or(Duration::MAX)) => offer,
            };
            let mut observer = locked(&self.observer);
            let failure = observer.peers.get_mut(at).and_then(|peer| peer.record.failure.as_mut());
            if let (Some(failure), Some(offer)) = (failure, offer) {
                failure.message.push_str(&offer);
            }
        }
    }
}

/// Delay before the first message, and minimum interval between different messages.
const PACE: Duration = Duration::from_secs(1);
/// Interval for repeating the same message.
const AGAIN: Duration = Duration::from_secs(5);

struct Progress {
    start: Instant,
    /// When to print next; `None` without a terminal.
    next: Option<Instant>,
    said: Option<(Instant, String)>,
}

impl Progress {
    fn new(start: Instant) -> Self {
        let watched = io::stderr().is_terminal();
        Self { start, next: start.checked_add(PACE).filter(|_| watched), said: None }
    }

    fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }

    fn show(&mut self, waiting: String) {
        let now = Instant::now();
        self.next = now.checked_add(PACE);
        if self.said.as_ref().is_none_or(|(at, said)| *said != waiting || at.elapsed() >= AGAIN) {
            let seconds = self.start.elapsed().as_secs();
            write_stderr(&format!("probe: {seconds} s, waiting for {waiting}\n"));
            self.said = Some((now, waiting));
        }
    }
}
