//! Many servers as one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::host::config::{Changes, Configuration, Endpoint};
use mcp_proto::host::hub::{
    self, CallError as HubCallError, CallId, HubAction, HubCommandError, HubEvent, HubOptions, ServerReport,
    ServerState, SessionHandle,
};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    CommandError, Diagnosis, Engine, Failure, RawValue, Request, RequestId, ServerRequestId, StderrLines, Time,
};
use mcp_proto_std::{CallError, CallErrorKind, Reply, arguments};
use serde::Serialize;

use crate::call::Call;
use crate::driver::Handle;
use crate::host::Host;
use crate::machine::{Input, Machine, Output, Sorted, Target};
use crate::process::SharedLines;
use crate::queue::Reports;
use crate::session;
use crate::status::{StartError, Status};
use crate::trace::traced;

/// The servers of a configuration with one set of functions, which tasks of the runtime drive
/// ([`mcp_proto::host::hub`]). Clones are the same hub; it closes when the last one is dropped.
///
/// A program gets the variables that its entry allows ([`Stdio::environment`](mcp_proto::host::config::Stdio::environment)),
/// and none of the host's others. Without the feature `http`, servers with a URL fail.
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
pub struct Hub(Arc<Handle<hub::Hub>>);

impl Hub {
    /// Starts the servers of a configuration, with its variables replaced
    /// ([`Configuration::expand`]), in the context of a runtime.
    ///
    /// # Errors
    /// There is no runtime, or as of [`hub::Hub::configure`].
    pub fn start(configuration: Configuration, host: impl Into<Host<HubOptions>>) -> Result<Self, StartError> {
        let Host { options, wiring, watchers } = host.into();
        let machine = hub::Hub::new(options, wiring.seed());
        #[cfg(feature = "oauth")]
        let (machine, loopback) = sign_in(machine, wiring.oauth.as_ref())?;
        let hub = Self(Handle::start(machine, wiring, watchers, Time::ZERO)?);
        #[cfg(feature = "oauth")]
        loopback.into_iter().for_each(|loopback| hub.0.listen(loopback));
        hub.0.command(|hub, now| {
            hub.configure(now, configuration)?;
            hub.open(now)
        })?;
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
        self.command(|hub, now| hub.configure(now, configuration))
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
        let called = self.0.call(("call", name), |hub, now, trace| {
            hub.call_with(now, name, arguments, |request| traced(request, trace)).map_err(refused)
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
        let call = self.0.call((&method, ""), |hub, now, trace| {
            let unknown = || HubCommandError::UnknownServer { server: server.into() };
            let requested = hub.handle(server).ok_or_else(unknown).and_then(|session| {
                let request = hub.request(now, session, traced(request, trace))?;
                Ok(CallId::of_request(session, request, None))
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
        self.0.read(read)
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

    /// Runs any other command of the hub. The function must call nothing of this hub.
    pub fn command<T>(&self, command: impl FnOnce(&mut hub::Hub, Time) -> T) -> T {
        self.0.command(command)
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

/// A hub that signs in at its servers, and the listener for redirects.
#[cfg(feature = "oauth")]
fn sign_in(hub: hub::Hub, oauth: Option<&crate::OAuth>) -> Result<(hub::Hub, Option<crate::Loopback>), StartError> {
    let Some(oauth) = oauth else { return Ok((hub, None)) };
    let (options, loopback) = oauth.prepare().map_err(StartError::Redirect)?;
    let entropy = crate::entropy().map_err(StartError::Entropy)?;
    Ok((hub.with_oauth(hub::HubOAuth::new(options, entropy, Time::ZERO, crate::unix_time())), loopback))
}

fn refused(error: HubCallError) -> (Box<str>, CallErrorKind) {
    match error {
        HubCallError::Session { server, error } => ((&*server).into(), error.into()),
        error => ("the hub".into(), CallErrorKind::Hub(error.into())),
    }
}

impl Machine for hub::Hub {
    type Event = HubEvent;

    fn poll(&mut self) -> Option<Output<HubEvent>> {
        loop {
            return Some(match Self::poll(self)? {
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
        Self::deadline(self)
    }

    fn handle_timeout(&mut self, now: Time) {
        Self::handle_timeout(self, now);
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn close(&mut self, now: Time) {
        // An error means that it is closed.
        let _ = Self::close(self, now);
    }

    fn input(&mut self, now: Time, session: SessionHandle, input: Input<'_>) -> bool {
        match input {
            Input::Transport(connection, event) => self.handle_transport(now, session, connection, event),
            Input::Bytes(connection, bytes) => self.handle_bytes(now, session, connection, bytes),
            #[cfg(feature = "http")]
            Input::Http(exchange, piece) => match piece {
                crate::HttpPiece::Head(status, headers) => self.handle_head(now, session, exchange, *status, headers),
                crate::HttpPiece::Body(chunk) => self.handle_body(now, session, exchange, chunk),
                crate::HttpPiece::End => self.handle_end(now, session, exchange),
                crate::HttpPiece::Failure(broken, why) => self.handle_failure(now, session, exchange, *broken, why),
            },
            #[cfg(feature = "oauth")]
            Input::OAuth(input) => return self.handle_oauth(now, session, input),
        }
        false
    }

    fn engine(&self, session: SessionHandle) -> Option<&Engine> {
        Self::session(self, session)
    }

    fn server(&self, session: SessionHandle) -> Box<str> {
        Self::server(self, session).unwrap_or_default().into()
    }

    fn target(&self, session: SessionHandle) -> Option<Target> {
        match self.entry(session).map(|entry| &entry.endpoint) {
            Some(Endpoint::Stdio(stdio)) => Some(Target::Program(stdio.into())),
            Some(_) | None => None,
        }
    }

    #[cfg(feature = "http")]
    fn headers(&self, session: SessionHandle) -> http::HeaderMap {
        let Some(Endpoint::Http(http)) = self.entry(session).map(|entry| &entry.endpoint) else {
            return http::HeaderMap::new();
        };
        // A header that is not possible is left out.
        http.headers.iter().filter_map(|(name, value)| crate::http::header(name, value).ok()).collect()
    }

    #[cfg(feature = "oauth")]
    fn url(&self, session: SessionHandle) -> Box<str> {
        match self.entry(session).map(|entry| &entry.endpoint) {
            Some(Endpoint::Http(http)) => http.url.clone(),
            Some(_) | None => Box::default(),
        }
    }

    /// Two entries with one URL are two accounts.
    #[cfg(feature = "oauth")]
    fn account(&self, session: SessionHandle) -> Option<Box<str>> {
        Self::server(self, session).map(Into::into)
    }

    /// The other servers go on.
    #[cfg(feature = "oauth")]
    fn unauthorized(&self, _: &mcp_proto::binding::oauth::OAuthError) -> Option<Status> {
        None
    }

    #[cfg(feature = "oauth")]
    fn handle_clock(&mut self, now: Time, unix: std::time::Duration) {
        Self::handle_clock(self, now, unix);
    }

    fn cancel(&mut self, now: Time, call: CallId, reason: Option<&str>) {
        let cancelled = match reason {
            Some(reason) => self.cancel_with_reason(now, call, reason),
            None => Self::cancel(self, now, call),
        };
        // An error means that it has ended. A request of a session is no call of the hub.
        if let (Err(_), Some(request)) = (cancelled, call.request()) {
            let _ = match reason {
                Some(reason) => self.cancel_request_with_reason(now, call.session(), request, reason),
                None => self.cancel_request(now, call.session(), request),
            };
        }
    }

    fn respond(&mut self, now: Time, ask: (SessionHandle, ServerRequestId), response: Result<&RawValue, ErrorObject>) {
        let (session, id) = ask;
        if let Err(HubCommandError::Session { error: CommandError::ResultNotObject, .. }) =
            Self::respond(self, now, session, id, response)
        {
            let error = ErrorObject::new(-32603, "the client failed to answer");
            let _ = Self::respond(self, now, session, id, Err(error));
        }
    }

    fn provide(&mut self, now: Time, request: (SessionHandle, RequestId), responses: &[(Box<str>, Box<RawValue>)]) {
        let responses = responses.iter().map(|(key, response)| (&**key, &**response));
        if Self::provide(self, now, request.0, request.1, responses).is_err() {
            Machine::decline(self, now, request);
        }
    }

    fn decline(&mut self, now: Time, (session, request): (SessionHandle, RequestId)) {
        // An error means that it waits for nothing any more.
        let _ = Self::decline(self, now, session, request);
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
