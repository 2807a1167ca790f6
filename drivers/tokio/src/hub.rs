//! Many servers as one.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::host::config::{self, Changes, Configuration};
use mcp_proto::host::hub::{
    self, CallError as HubCallError, CallId, HubAccepted, HubAction, HubCommand, HubCommandError, HubEvent, HubOptions,
    ServerReport, ServerState, SessionHandle,
};
use mcp_proto::{Command, CommandError, Diagnosis, Engine, Failure, RawValue, Request, RequestId, StderrLines, Time};
use mcp_proto_std::{CallError, CallErrorKind, Reply, arguments};
use serde::Serialize;

use crate::call::Call;
use crate::driver::Handle;
use crate::endpoint::{Endpoint, Target};
use crate::host::{EndpointOf, Host, Wiring};
use crate::machine::{Input, Machine, Output, Sorted};
use crate::process::SharedLines;
use crate::queue::Reports;
use crate::session;
use crate::status::{StartError, Status};
use crate::trace::traced;

/// The servers of a configuration with one set of functions, which tasks of the runtime drive
/// ([`mcp_proto::host::hub`]). Clones are the same hub; it closes when the last one is dropped.
///
/// A program gets the variables that its entry allows ([`Stdio::environment`](mcp_proto::host::config::Stdio::environment)),
/// and none of the host's others; [`Host::endpoints`] has other servers in place of programs. Without the feature `http`,
/// servers with a URL fail.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_proto::Options;
/// use mcp_proto::host::config::Document;
/// use mcp_proto::host::hub::HubOptions;
/// use mcp_proto_tokio::Hub;
/// use serde_json::json;
///
/// let Document(configuration) = serde_json::from_str(&std::fs::read_to_string("mcp.json")?)?;
/// let configuration = configuration.expand(|name| std::env::var(name).ok().map(Into::into));
/// // Entries that cannot be used: they are no servers of the hub.
/// configuration.errors.iter().for_each(|error| eprintln!("{error}"));
/// configuration.warnings.iter().for_each(|warning| eprintln!("{warning}"));
/// let hub = Hub::start(configuration, HubOptions::new(Options::new("my-host", "1.0")))?;
/// hub.settled().await;
/// hub.failures().iter().for_each(|(_, failure)| eprintln!("{failure}"));
/// hub.inspect(|hub| {
///     hub.functions().for_each(|(server, function)| println!("{server}: {}", function.name));
/// });
/// println!("{}", hub.call("mcp_github_create_issue", &json!({"title": "A bug"})).await?.text());
/// hub.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Hub(Arc<Handle<Hosted>>);

/// A hub, and where its servers are in place of what their entries say.
pub(crate) struct Hosted {
    hub: Driven,
    endpoints: Option<EndpointOf>,
    /// What `endpoints` said of configured servers.
    known: BTreeMap<Box<str>, Option<Endpoint>>,
}

/// A hub that may be recorded.
#[cfg(feature = "journal")]
type Driven = mcp_proto::journal::Recorder<hub::Hub>;
#[cfg(not(feature = "journal"))]
type Driven = hub::Hub;

/// A new hub, which is recorded if the host wants it.
#[cfg(feature = "journal")]
fn new(options: HubOptions, wiring: &Wiring) -> Driven {
    match wiring.journal {
        Some(limits) => Driven::of_hub(options, wiring.seed(), limits),
        None => hub::Hub::new(options, wiring.seed()).into(),
    }
}

#[cfg(not(feature = "journal"))]
fn new(options: HubOptions, wiring: &Wiring) -> Driven {
    hub::Hub::new(options, wiring.seed())
}

impl Hub {
    /// Starts the servers of a configuration, with its variables replaced
    /// ([`Configuration::expand`]), in the context of a runtime.
    ///
    /// # Errors
    /// There is no runtime, or as of [`hub::Hub::configure`]. A hub that signs in cannot be recorded.
    pub fn start(configuration: Configuration, host: impl Into<Host<HubOptions>>) -> Result<Self, StartError> {
        let Host { options, wiring, watchers } = host.into();
        #[cfg(feature = "oauth")]
        let (hub, loopback) = match sign_in(&wiring, Time::ZERO)? {
            #[cfg(feature = "journal")]
            Some(_) if wiring.journal.is_some() => {
                return Err(StartError::Unrecordable("the journal of a hub has no authorizations"));
            }
            Some((oauth, loopback)) => (hub::Hub::new(options, wiring.seed()).with_oauth(oauth).into(), loopback),
            None => (new(options, &wiring), None),
        };
        #[cfg(not(feature = "oauth"))]
        let hub = new(options, &wiring);
        let hub = Self(Handle::start(Hosted::new(hub, &wiring), wiring, watchers, Time::ZERO)?);
        #[cfg(feature = "oauth")]
        loopback.into_iter().for_each(|loopback| hub.0.listen(loopback));
        hub.0.command(|it, now| {
            it.hub.apply(now, HubCommand::Configure(configuration))?;
            it.hub.apply(now, HubCommand::Open)
        })?;
        Ok(hub)
    }

    /// Goes on with a hub that was suspended, maybe in another process or on another machine, with the same configuration and
    /// options, as [`Session::restore`](crate::Session::restore) does. It cannot be recorded. For a configuration that
    /// changed, call [`configure`](Self::configure) after it.
    ///
    /// # Errors
    /// There is no runtime, or as of [`hub::Hub::from_snapshot`].
    #[cfg(feature = "snapshot")]
    pub fn restore(
        configuration: Configuration,
        host: impl Into<Host<HubOptions>>,
        snapshot: &mcp_proto::Snapshot,
    ) -> Result<Self, StartError> {
        let Host { options, wiring, watchers } = host.into();
        #[cfg(feature = "journal")]
        wiring.requires_no_journal()?;
        let moved = mcp_proto::Moved::WithoutTransport;
        let hub = hub::Hub::from_snapshot(options, configuration, snapshot, moved)?;
        #[cfg(feature = "oauth")]
        let (hub, loopback) = match sign_in(&wiring, snapshot.time())? {
            Some((oauth, loopback)) => (hub.with_oauth(oauth), loopback),
            None => (hub, None),
        };
        let hub = Self(Handle::start(Hosted::new(hub.into(), &wiring), wiring, watchers, snapshot.time())?);
        #[cfg(feature = "oauth")]
        loopback.into_iter().for_each(|loopback| hub.0.listen(loopback));
        // What waits to be done is done by whoever gives the next input.
        hub.0.command(|it, now| it.hub.handle_timeout(now));
        Ok(hub)
    }

    /// Waits until no server is starting: each one of the configuration is up or failed. At once if the hub is closed.
    pub async fn settled(&self) {
        let is_starting = |server: ServerReport<'_>| {
            server.state.is_some_and(|state| matches!(state, ServerState::Queued | ServerState::Starting))
        };
        let mut events = self.events();
        while self.inspect(|hub| hub.servers().any(is_starting)) {
            // Looks again only when it may be so: there may be thousands of servers.
            loop {
                match events.next().await {
                    None => return,
                    Some(HubEvent::Settled) => break,
                    Some(_) if events.left_out() > 0 => break,
                    Some(_) => {}
                }
            }
        }
    }

    /// Takes a new configuration, which affects only the servers that it changes. [`settled`](Self::settled) waits for those
    /// that it starts:
    ///
    /// ```no_run
    /// # async fn example(hub: mcp_proto_tokio::Hub, text: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_proto::host::config::Document;
    ///
    /// let Document(configuration) = serde_json::from_str(text)?;
    /// let changes = hub.configure(configuration)?;
    /// hub.settled().await;
    /// println!("{} servers are new, {} failed", changes.added.len(), hub.failures().len());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As of [`hub::Hub::configure`].
    pub fn configure(&self, configuration: Configuration) -> Result<Changes, HubCommandError> {
        match self.apply(HubCommand::Configure(configuration))? {
            HubAccepted::Configured(changes) => Ok(changes),
            _ => Ok(Changes::default()),
        }
    }

    /// Applies any command. What a call or a request ends with is told to nobody: [`start_call`](Self::start_call) and
    /// [`request`](Self::request) are for that.
    ///
    /// ```no_run
    /// # fn example(hub: mcp_proto_tokio::Hub) -> Result<(), mcp_proto::host::hub::HubCommandError> {
    /// use mcp_proto::Command;
    /// use mcp_proto::host::hub::HubCommand;
    ///
    /// if let Some(session) = hub.inspect(|hub| hub.handle("github")) {
    ///     let command = Command::Subscribe { uri: "repo://rust-lang/rust".into() };
    ///     hub.apply(HubCommand::Session { session, command })?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As of [`hub::Hub::apply`].
    pub fn apply(&self, command: HubCommand) -> Result<HubAccepted, HubCommandError> {
        self.0.command(|it, now| it.hub.apply(now, command))
    }

    /// Calls a function by its exposed name. Dropping the future cancels the call.
    ///
    /// # Errors
    /// Why there is no result. A tool that fails has one: see [`Reply::is_error`].
    pub async fn call(&self, name: &str, arguments: &impl Serialize) -> Result<Reply, CallError> {
        self.start_call(name, arguments)?.await
    }

    /// Starts a call, to get its progress while it runs.
    ///
    /// # Errors
    /// It was refused, and nothing was sent.
    pub fn start_call(&self, name: &str, arguments: &impl Serialize) -> Result<Call, CallError> {
        let arguments = self::arguments(arguments).map_err(|kind| CallError::new("the hub", "call", name, kind))?;
        self.start_call_raw(name, Some(&arguments))
    }

    /// Starts a call with these arguments as they are, a JSON object, or without any.
    ///
    /// # Errors
    /// It was refused, and nothing was sent.
    pub fn start_call_raw(&self, name: &str, arguments: Option<&RawValue>) -> Result<Call, CallError> {
        let arguments = arguments.map(ToOwned::to_owned);
        let called = self.0.call(("call", name), |it, now, trace| {
            let call = HubCommand::Call { name: name.into(), arguments, timeout: None, progress: true, trace };
            match it.hub.apply(now, call).map_err(refused)? {
                HubAccepted::Call(call) => Ok(call),
                _ => Err(refused(HubCommandError::Closed)),
            }
        });
        called.map_err(|error| self.explained(error))
    }

    /// The refusal of a call, which for a server that is down says what [`failures`](Self::failures) does.
    fn explained(&self, error: CallError) -> CallError {
        let CallErrorKind::Hub(refused) = &error.kind else { return error };
        let down = match refused.downcast_ref() {
            Some(HubCallError::NotUp { server, .. } | HubCallError::CoolingDown { server, .. }) => Arc::clone(server),
            _ => return error,
        };
        let failure = self.inspect(|hub| {
            let server = hub.servers().find(|server| *server.name == *down);
            server.and_then(|server| server.failure.cloned())
        });
        match failure {
            Some(failure) => {
                let kind = CallErrorKind::Down(self.diagnose(&down, failure));
                CallError { server: (&*down).into(), kind, ..error }
            }
            None => error,
        }
    }

    /// Makes any request of a server of this name.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn request(&self, server: &str, request: Request) -> Result<Reply, CallError> {
        let method = request.method().to_owned();
        let call = self.0.call((&method, ""), |it, now, trace| {
            let unknown = || HubCommandError::UnknownServer { server: server.into() };
            let command = Command::Request(traced(request, trace));
            let requested = it.hub.handle(server).ok_or_else(unknown).and_then(|session| {
                match it.hub.apply(now, HubCommand::Session { session, command })? {
                    HubAccepted::Request(request) => Ok(CallId::of_request(session, request, None)),
                    _ => Err(HubCommandError::Closed),
                }
            });
            requested.map_err(|error| (server.into(), CallErrorKind::Hub(error.into())))
        });
        call?.await
    }

    /// The hub's time, which events name.
    pub fn now(&self) -> Time {
        self.0.now()
    }

    /// Reads from the hub: its functions, its servers. The function must call nothing of this hub.
    pub fn inspect<T>(&self, read: impl FnOnce(&hub::Hub) -> T) -> T {
        self.0.read(|it| read(&it.hub))
    }

    /// The servers that are down, with the cause of the last failure of each.
    pub fn failures(&self) -> Vec<(Box<str>, Diagnosis)> {
        let failed = self.inspect(|hub| {
            let failed = hub.servers().filter_map(|server| Some((server.name.into(), server.failure?.clone())));
            failed.collect::<Vec<(Box<str>, Failure)>>()
        });
        failed.into_iter().map(|(server, failure)| (server.clone(), self.diagnose(&server, failure))).collect()
    }

    /// Finds the cause of a failure of a server, which an event told.
    pub fn diagnose(&self, server: &str, failure: Failure) -> Diagnosis {
        match self.inspect(|hub| hub.handle(server)) {
            Some(session) => self.0.diagnose(session, failure),
            None => Diagnosis::of_server(failure, server, &StderrLines::default()),
        }
    }

    /// The events from now on, except those that have another way: the ends of calls, their progress, and what servers
    /// ask for.
    pub fn events(&self) -> Reports<HubEvent> {
        Reports::of(self.0.subscribe())
    }

    /// Gives an input to the sign-in at the server of this name. Returns whether it belongs to what is in progress.
    #[cfg(feature = "oauth")]
    pub fn handle_oauth(&self, server: &str, input: mcp_proto::binding::oauth::OAuthInput<'_>) -> bool {
        let session = self.inspect(|hub| hub.handle(server));
        session.is_some_and(|session| self.0.give_oauth(session, input))
    }

    /// The lines of the journal that were not taken yet, of a hub that is recorded ([`Host::record`]), as
    /// [`Session::journal`](crate::Session::journal) has them.
    #[cfg(feature = "journal")]
    pub fn journal(&self) -> String {
        self.0.command(|it, _| it.hub.take())
    }

    /// Ends the journal, and returns the lines that were not taken yet. What follows is not recorded.
    #[cfg(feature = "journal")]
    pub fn finish_journal(&self) -> String {
        self.0.command(|it, _| {
            it.hub.end();
            it.hub.take()
        })
    }

    /// How many entries are not in the journal because it ended at a limit.
    #[cfg(feature = "journal")]
    pub fn journal_dropped(&self) -> u64 {
        self.0.read(|it| it.hub.dropped())
    }

    /// Names a secret that the journal must not have, from now on: of arguments, or that a server sends. The values of `env`
    /// and `headers` in the configuration have masks by themselves, but where a server repeats one, only if it is named here.
    ///
    /// # Errors
    /// As of [`Recorder::hide`](mcp_proto::journal::Recorder::hide).
    #[cfg(feature = "journal")]
    pub fn hide(&self, secret: &str) -> Result<(), mcp_proto::journal::SecretError> {
        self.0.command(|it, _| it.hub.hide(secret))
    }

    /// Ends the hub here, so that [`restore`](Self::restore) goes on with it elsewhere, and returns it, as
    /// [`Session::suspend`](crate::Session::suspend) does: this hub is closed, and its processes end, but sessions over HTTP
    /// stay open at their servers. Before, wait for calls in flight and for what servers ask for: calls are cancelled. Take the
    /// journal of a recorded hub before, too. A future that is dropped once it was polled leaves the hub closed, and saved
    /// nowhere.
    #[cfg(feature = "snapshot")]
    pub async fn suspend(&self, secrets: mcp_proto::Secrets) -> mcp_proto::Snapshot {
        let wiring = Wiring::default();
        let empty = new(HubOptions::new(mcp_proto::Options::new("", "")), &wiring);
        let taken = self.0.take(Hosted::new(empty, &wiring));
        self.closed().await;
        taken.hub.snapshot(secrets)
    }

    /// Closes the hub, and waits until the process groups of all programs have ended, as
    /// [`Session::close`](crate::Session::close) does. Calls end at once.
    pub async fn close(&self) {
        self.0.command(Machine::close);
        self.closed().await;
    }

    /// As [`close`](Self::close), and kills what is left after this time.
    pub async fn close_within(&self, bound: Duration) {
        self.0.close_within(bound).await;
    }

    /// Ends the hub because the host's time is over: cancels the calls in flight, and closes. [`closed`](Self::closed) and
    /// [`close_within`](Self::close_within) wait for the end.
    pub fn time_out(&self) {
        self.0.time_out();
    }

    /// Waits until it is closed, and all processes have ended.
    pub async fn closed(&self) {
        self.0.until(|status| matches!(status, Status::Closed(_))).await;
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

/// What a hub signs in at its servers with, whose time is `now`, and the listener for redirects.
#[cfg(feature = "oauth")]
fn sign_in(wiring: &Wiring, now: Time) -> Result<Option<(hub::HubOAuth, Option<crate::Loopback>)>, StartError> {
    let Some(oauth) = &wiring.oauth else { return Ok(None) };
    let (options, loopback) = oauth.prepare().map_err(StartError::Redirect)?;
    let entropy = crate::entropy().map_err(StartError::Entropy)?;
    Ok(Some((hub::HubOAuth::new(options, entropy, now, crate::unix_time()), loopback)))
}

fn refused(error: HubCommandError) -> (Box<str>, CallErrorKind) {
    match error {
        HubCommandError::Call(HubCallError::Session { server, error }) => ((&*server).into(), error.into()),
        HubCommandError::Call(error) => ("the hub".into(), CallErrorKind::Hub(error.into())),
        error => ("the hub".into(), CallErrorKind::Hub(error.into())),
    }
}

impl Hosted {
    fn new(hub: Driven, wiring: &Wiring) -> Self {
        Self { hub, endpoints: wiring.endpoints.clone(), known: BTreeMap::new() }
    }

    /// Where the host says that a server is. It is asked once.
    fn endpoint(&mut self, server: &str) -> io::Result<Option<&Endpoint>> {
        let Some(endpoints) = &self.endpoints else { return Ok(None) };
        if !self.known.contains_key(server) {
            let panicked = |_| io::Error::other("a function of the host, which says where a server is, panicked");
            let endpoint = catch_unwind(AssertUnwindSafe(|| endpoints(server))).map_err(panicked)?;
            let configured = &self.hub.configuration().servers;
            self.known.retain(|server, _| configured.contains_key(server));
            self.known.insert(server.into(), endpoint);
        }
        Ok(self.known.get(server).and_then(Option::as_ref))
    }
}

impl Machine for Hosted {
    type Event = HubEvent;

    fn poll(&mut self) -> Option<Output<HubEvent>> {
        loop {
            return Some(match self.hub.poll()? {
                HubAction::Open { session, connection } => Output::Open(session, connection),
                HubAction::Send { session, message } => Output::Send(session, message),
                HubAction::Shutdown { session, how } => Output::Shutdown(session, how),
                #[cfg(feature = "http")]
                HubAction::Request { session, request } => Output::Request(session, *request),
                #[cfg(feature = "http")]
                HubAction::Drop { session, exchange } => Output::Drop(session, exchange),
                #[cfg(feature = "oauth")]
                HubAction::OAuth { session, action } => Output::OAuth(session, *action),
                HubAction::Event(event) => Output::Event(event),
                _ => continue,
            });
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.hub.deadline()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.hub.handle_timeout(now);
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn is_closed(&self) -> bool {
        self.hub.is_closed()
    }

    fn close(&mut self, now: Time) {
        // An error means that it is closed.
        let _ = self.hub.apply(now, HubCommand::Close);
    }

    fn input(&mut self, now: Time, session: SessionHandle, input: Input<'_>) -> bool {
        match input {
            Input::Transport(connection, event) => self.hub.handle_transport(now, session, connection, event),
            Input::Bytes(connection, bytes) => self.hub.handle_bytes(now, session, connection, bytes),
            #[cfg(feature = "http")]
            Input::Http(exchange, piece) => match piece {
                crate::HttpPiece::Head(status, headers) => {
                    self.hub.handle_head(now, session, exchange, *status, headers)
                }
                crate::HttpPiece::Body(chunk) => self.hub.handle_body(now, session, exchange, chunk),
                crate::HttpPiece::End => self.hub.handle_end(now, session, exchange),
                crate::HttpPiece::Failure(broken, why) => self.hub.handle_failure(now, session, exchange, *broken, why),
            },
            #[cfg(feature = "oauth")]
            Input::OAuth(input) => return self.hub.handle_oauth(now, session, input),
        }
        false
    }

    fn engine(&self, session: SessionHandle) -> Option<&Engine> {
        self.hub.session(session)
    }

    fn server(&self, session: SessionHandle) -> Box<str> {
        self.hub.server(session).unwrap_or_default().into()
    }

    fn target(&mut self, session: SessionHandle) -> io::Result<Target> {
        let server = Machine::server(self, session);
        if let Some(endpoint) = self.endpoint(&server)? {
            return endpoint.target();
        }
        match self.hub.entry(session).map(|entry| &entry.endpoint) {
            Some(config::Endpoint::Stdio(stdio)) => Ok(Target::Program(stdio.into())),
            Some(_) | None => Err(io::Error::other("there is no program to start")),
        }
    }

    #[cfg(feature = "http")]
    fn headers(&self, session: SessionHandle) -> http::HeaderMap {
        let Some(config::Endpoint::Http(http)) = self.hub.entry(session).map(|entry| &entry.endpoint) else {
            return http::HeaderMap::new();
        };
        // A header that is not possible is left out.
        http.headers.iter().filter_map(|(name, value)| crate::http::header(name, value).ok()).collect()
    }

    #[cfg(feature = "oauth")]
    fn url(&self, session: SessionHandle) -> Box<str> {
        match self.hub.entry(session).map(|entry| &entry.endpoint) {
            Some(config::Endpoint::Http(http)) => http.url.clone(),
            Some(_) | None => Box::default(),
        }
    }

    /// Two entries with one URL are two accounts.
    #[cfg(feature = "oauth")]
    fn account(&self, session: SessionHandle) -> Option<Box<str>> {
        self.hub.server(session).map(Into::into)
    }

    /// The other servers go on.
    #[cfg(feature = "oauth")]
    fn unauthorized(&self, _: &mcp_proto::binding::oauth::OAuthError) -> Option<Status> {
        None
    }

    #[cfg(feature = "oauth")]
    fn handle_clock(&mut self, now: Time, unix: std::time::Duration) {
        self.hub.handle_clock(now, unix);
    }

    fn apply(
        &mut self,
        now: Time,
        session: SessionHandle,
        command: Command,
    ) -> Result<Option<RequestId>, CommandError> {
        match self.hub.apply(now, HubCommand::Session { session, command }) {
            Ok(HubAccepted::Request(request)) => Ok(Some(request)),
            Ok(_) => Ok(None),
            Err(HubCommandError::Session { error, .. }) => Err(error),
            Err(_) => Err(CommandError::Closed),
        }
    }

    fn cancel(&mut self, now: Time, call: CallId, reason: Option<&str>) {
        let reason: Option<Box<str>> = reason.map(Into::into);
        let cancelled = self.hub.apply(now, HubCommand::Cancel { call, reason: reason.clone() });
        // An error means that it has ended. A request of a session is no call of the hub.
        if let (Err(_), Some(request)) = (cancelled, call.request()) {
            let _ = Machine::apply(self, now, call.session(), Command::Cancel { request, reason });
        }
    }

    fn status(&self, event: &HubEvent, _: Option<&SharedLines>) -> Option<Status> {
        match event {
            HubEvent::Settled => Some(Status::Ready),
            HubEvent::Closed => Some(Status::Closed(None)),
            _ => None,
        }
    }

    fn session(event: &HubEvent) -> Option<SessionHandle> {
        match event {
            HubEvent::Session { session, .. } | HubEvent::IdleShutdown { session, .. } => Some(*session),
            HubEvent::Finished { call, .. } => Some(call.session()),
            _ => None,
        }
    }

    fn refused(event: &HubEvent) -> Option<(SessionHandle, RequestId)> {
        match event {
            HubEvent::Session { session, event, .. } => session::refused(*session, event),
            _ => None,
        }
    }

    fn sort(event: HubEvent) -> Sorted<HubEvent> {
        match event {
            HubEvent::Session { session, server, event } => {
                session::sort(session, event, |event| HubEvent::Session { session, server, event })
            }
            HubEvent::Finished { call, outcome, failure, .. } => Sorted::Finished(call, outcome, failure),
            event => Sorted::Other(event),
        }
    }

    fn weigh(event: &HubEvent) -> usize {
        match event {
            HubEvent::Session { event, .. } => session::weigh(event),
            HubEvent::ToolsetChanged { difference, .. } => session::weigh_difference(difference),
            _ => 0,
        }
    }
}
