//! A client of one server.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::catalog::Difference;
use mcp_proto::host::hub::{CallId, SessionHandle};
use mcp_proto::protocol::Root;
use mcp_proto::{
    Catalog, Cause, Client, Command, CommandError, Diagnosis, Engine, Event, Failure, FailureKind, Family, Lines,
    LogLevel, Messages, Options, RawValue, Recovery, Request, RequestId, StderrLines, Time,
};
use mcp_proto_std::{CallError, CallErrorKind, Reply, arguments};
use serde::Serialize;

use crate::call::Call;
use crate::driver::Handle;
use crate::endpoint::{Endpoint, Target};
use crate::host::{Host, Wiring};
use crate::machine::{Input, Machine, ONLY, Output, Sorted};
use crate::process::{SharedLines, copy_of};
use crate::queue::Reports;
use crate::status::{StartError, Status};
use crate::trace::traced;

/// A client of one server, which tasks of the runtime drive. Clones are the same client; it closes when the last one is
/// dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_proto::Options;
/// use mcp_proto_tokio::{Program, Session};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize)]
/// struct Place {
///     city: &'static str,
/// }
///
/// #[derive(Deserialize)]
/// struct Weather {
///     temperature: f64,
/// }
///
/// let session = Session::connect(Program::new("weather-server"), Options::new("my-host", "1.0")).await?;
/// let weather: Weather = session.call_tool("weather", &Place { city: "Oslo" }).await?.to()?;
/// println!("{}", weather.temperature);
/// session.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session(Arc<Handle<AnyClient>>);

/// A client over one of the transports, as the only session of a hub would be.
pub(crate) struct AnyClient {
    client: Transported,
    endpoint: Endpoint,
}

enum Transported {
    Lines(Box<Driven<Lines>>),
    Messages(Box<Driven<Messages>>),
    #[cfg(feature = "http")]
    Http(Box<Driven<mcp_proto::Http>>),
}

/// A client that may be recorded.
#[cfg(feature = "journal")]
type Driven<B> = mcp_proto::journal::Recorder<Client<B>>;
#[cfg(not(feature = "journal"))]
type Driven<B> = Client<B>;

#[cfg(not(feature = "journal"))]
use mcp_proto::Binding as AnyBinding;
#[cfg(feature = "journal")]
use mcp_proto::journal::JournalBinding as AnyBinding;

/// What a session goes on from.
#[cfg(feature = "snapshot")]
type Saved<'a> = &'a mcp_proto::Snapshot;
#[cfg(not(feature = "snapshot"))]
type Saved<'a> = std::convert::Infallible;

/// Creates a client, or restores it.
#[cfg_attr(not(feature = "journal"), allow(clippy::useless_conversion, reason = "`Driven` may be another type"))]
fn create<B: AnyBinding>(
    binding: B,
    options: Options,
    wiring: &Wiring,
    saved: Option<Saved<'_>>,
) -> Result<Box<Driven<B>>, StartError> {
    Ok(Box::new(match saved {
        #[cfg(feature = "snapshot")]
        Some(saved) => Client::from_snapshot(binding, options, saved, mcp_proto::Moved::WithoutTransport)?.into(),
        #[cfg(not(feature = "snapshot"))]
        Some(never) => match never {},
        None => new(binding, options, wiring),
    }))
}

#[cfg(feature = "journal")]
fn new<B: AnyBinding>(binding: B, options: Options, wiring: &Wiring) -> Driven<B> {
    match wiring.journal {
        Some(limits) => Driven::new(binding, options, wiring.seed(), limits),
        None => Client::new(binding, options, wiring.seed()).into(),
    }
}

#[cfg(not(feature = "journal"))]
fn new<B: AnyBinding>(binding: B, options: Options, wiring: &Wiring) -> Driven<B> {
    Client::new(binding, options, wiring.seed())
}

/// Runs this with the client, whatever its transport is.
macro_rules! with {
    ($this:expr, $client:ident => $body:expr) => {
        match &mut $this.client {
            Transported::Lines($client) => $body,
            Transported::Messages($client) => $body,
            #[cfg(feature = "http")]
            Transported::Http($client) => $body,
        }
    };
}

impl Session {
    /// Opens a client, in the context of a runtime. It need not be ready yet: requests wait for that.
    ///
    /// # Errors
    /// There is no runtime, or the options of a sign-in do not fit the server.
    pub fn start(endpoint: impl Into<Endpoint>, host: impl Into<Host<Options>>) -> Result<Self, StartError> {
        Self::begin(endpoint.into(), host.into(), None, Time::ZERO)
    }

    /// Goes on with a session that was suspended, maybe in another process or on another machine, with the same endpoint
    /// and options ([guide](https://docs.rs/mcp-proto/latest/mcp_proto/guide/moving/)). Over HTTP it is the same session of
    /// the server's, if the snapshot has its [`Secrets`](mcp_proto::Secrets); a program is started again. It cannot be
    /// recorded.
    ///
    /// # Errors
    /// As of [`start`](Self::start) and [`Client::from_snapshot`].
    #[cfg(feature = "snapshot")]
    pub fn restore(
        endpoint: impl Into<Endpoint>,
        host: impl Into<Host<Options>>,
        snapshot: &mcp_proto::Snapshot,
    ) -> Result<Self, StartError> {
        let host = host.into();
        #[cfg(feature = "journal")]
        host.wiring.requires_no_journal()?;
        Self::begin(endpoint.into(), host, Some(snapshot), snapshot.time())
    }

    fn begin(
        endpoint: Endpoint,
        host: Host<Options>,
        saved: Option<Saved<'_>>,
        epoch: Time,
    ) -> Result<Self, StartError> {
        let Host { mut options, wiring, watchers } = host;
        if &*options.server == Options::UNNAMED {
            options.server = endpoint.name().map_or(options.server, Into::into);
        }
        #[cfg(feature = "oauth")]
        let mut loopback = None;
        let client = match &endpoint {
            Endpoint::Program(_) | Endpoint::Streams(_) => {
                Transported::Lines(create(Lines::new(), options, &wiring, saved)?)
            }
            Endpoint::Channels(_) => Transported::Messages(create(Messages::new(), options, &wiring, saved)?),
            #[cfg(feature = "http")]
            Endpoint::Remote(remote) => {
                let http = remote.http.clone();
                #[cfg(feature = "oauth")]
                let http = match &wiring.oauth {
                    Some(oauth) => {
                        let options;
                        (options, loopback) = oauth.prepare().map_err(StartError::Redirect)?;
                        http.with_oauth(authorization(&remote.url, options, epoch)?)
                    }
                    None => http,
                };
                Transported::Http(create(http, options, &wiring, saved)?)
            }
        };
        let handle = Handle::start(AnyClient { client, endpoint }, wiring, watchers, epoch)?;
        #[cfg(feature = "oauth")]
        loopback.into_iter().for_each(|loopback| handle.listen(loopback));
        // A new client can be opened, and one that was saved while it waited or was parked. Any other is open.
        let _ = handle.command(|client, now| client.apply(now, ONLY, Command::Open));
        Ok(Self(handle))
    }

    /// Opens a client, and waits until it is ready. The first failure ends it, unless the host is
    /// [`patient`](Host::patient): a certificate, a host name, a command, a server that is not there. A client that was ready
    /// reconnects as its options say.
    ///
    /// # Errors
    /// Why it cannot connect, or the sign-in failed. A server that says nothing is waited for as long as
    /// [`Timeouts::connect`](mcp_proto::Timeouts::connect) allows, or for the time of the handshake. A [`StartError`] is a
    /// failure to connect. A host that offers to sign in again uses [`start`](Self::start) and [`ready`](Self::ready).
    pub async fn connect(endpoint: impl Into<Endpoint>, host: impl Into<Host<Options>>) -> Result<Self, Diagnosis> {
        let mut host = host.into();
        if let Some(reconnect) = host.options.reconnect.as_mut().filter(|_| !host.wiring.is_patient) {
            reconnect.first_attempts = 1;
        }
        let server = host.options.server.clone();
        let session = Self::start(endpoint, host).map_err(|error| {
            Diagnosis::of_server(
                Failure::new(FailureKind::Connect, error.to_string()),
                &server,
                &StderrLines::default(),
            )
        })?;
        session.ready().await?;
        Ok(session)
    }

    /// Waits until it is ready; at once if it is.
    ///
    /// # Errors
    /// It is parked or closed, and why.
    pub async fn ready(&self) -> Result<(), Diagnosis> {
        match self.0.until(|status| *status != Status::Connecting).await {
            Status::Connecting | Status::Ready => Ok(()),
            Status::Parked(failure) | Status::Closed(Some(failure)) => Err(failure),
            Status::Closed(None) => Err(self.diagnose(Failure::new(FailureKind::Closed, "the client is closed"))),
        }
    }

    /// The current state.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Calls a tool. `arguments` is a value that serializes to a JSON object, such as a struct, a map or
    /// `serde_json::json!`; without arguments, `json!({})`. Dropping the future cancels the call.
    ///
    /// # Errors
    /// Why there is no result. A tool that fails has one: see [`Reply::is_error`].
    pub async fn call_tool(&self, name: &str, arguments: &impl Serialize) -> Result<Reply, CallError> {
        self.start_tool(name, arguments)?.await
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn read_resource(&self, uri: &str) -> Result<Reply, CallError> {
        self.start_call(("resources/read", uri), Ok(Request::read_resource(uri)))?.await
    }

    /// Gets a prompt.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn get_prompt<'a>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Reply, CallError> {
        self.start_call(("prompts/get", name), Ok(Request::get_prompt(name, arguments)))?.await
    }

    /// Makes any request.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn request(&self, request: Request) -> Result<Reply, CallError> {
        self.start_request(request)?.await
    }

    /// Starts a call of a tool, to get its progress while it runs.
    ///
    /// # Errors
    /// It was refused, and nothing was sent.
    pub fn start_tool(&self, name: &str, arguments: &impl Serialize) -> Result<Call, CallError> {
        let request = self::arguments(arguments).map(|arguments| Request::call_tool(name, Some(&arguments)));
        self.start_call(("tools/call", name), request)
    }

    /// Starts any request.
    ///
    /// # Errors
    /// It was refused, and nothing was sent.
    pub fn start_request(&self, request: Request) -> Result<Call, CallError> {
        let method = request.method().to_owned();
        self.start_call((&method, ""), Ok(request))
    }

    fn start_call(&self, name: (&str, &str), request: Result<Request, CallErrorKind>) -> Result<Call, CallError> {
        let down = match self.status() {
            Status::Parked(failure) => Some(CallErrorKind::Down(failure)),
            Status::Connecting | Status::Ready | Status::Closed(_) => None,
        };
        self.0.call(name, |client, now, trace| {
            let request = down.map_or(request, Err).map(|request| traced(request, trace));
            let started = request.and_then(|request| Ok(with!(client, client => client.request(now, request))?));
            let call = started.map(|request| CallId::of_request(ONLY, request, None));
            call.map_err(|kind| (client.engine().server_name().into(), kind))
        })
    }

    /// Finds the cause of a failure that an event told.
    pub fn diagnose(&self, failure: Failure) -> Diagnosis {
        self.0.diagnose(ONLY, failure)
    }

    /// The client's time, which [`Recovery`](mcp_proto::Recovery) and other events name.
    pub fn now(&self) -> Time {
        self.0.now()
    }

    /// What the server offers, as last listed. A copy is cheap, and does not change.
    pub fn catalog(&self) -> Catalog {
        self.inspect(|engine| engine.catalog().clone())
    }

    /// Reads from the client. The function must call nothing of this session.
    pub fn inspect<T>(&self, read: impl FnOnce(&Engine) -> T) -> T {
        self.0.read(|client| read(client.engine()))
    }

    /// The events from now on, except those that have another way: the ends of calls, their progress, and what the
    /// server asks for.
    pub fn events(&self) -> Reports<Event> {
        Reports::of(self.0.subscribe())
    }

    /// Applies any command. What a [`Command::Request`] ends with is told to nobody: [`start_request`](Self::start_request)
    /// is for that.
    ///
    /// # Errors
    /// As of [`Client::apply`].
    pub fn apply(&self, command: Command) -> Result<Option<RequestId>, CommandError> {
        let opens = matches!(command, Command::Open);
        let apply = |client: &mut AnyClient, now| client.apply(now, ONLY, command);
        if opens { self.0.connect(apply) } else { self.command(apply) }
    }

    /// Connects now, if it waits for the next attempt or is parked.
    ///
    /// # Errors
    /// As of [`Client::open`].
    pub fn open(&self) -> Result<(), CommandError> {
        self.apply(Command::Open).map(drop)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// As of [`Client::notify`].
    pub fn notify(&self, method: &str, params: Option<&RawValue>) -> Result<(), CommandError> {
        let params = params.map(ToOwned::to_owned);
        self.apply(Command::Notify { method: method.to_owned().into(), params }).map(drop)
    }

    /// Subscribes to changes of a resource: [`Event::ResourceUpdated`].
    ///
    /// # Errors
    /// As of [`Client::subscribe`].
    pub fn subscribe(&self, uri: &str) -> Result<(), CommandError> {
        self.apply(Command::Subscribe { uri: uri.into() }).map(drop)
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// As of [`Client::unsubscribe`].
    pub fn unsubscribe(&self, uri: &str) -> Result<(), CommandError> {
        self.apply(Command::Unsubscribe { uri: uri.into() }).map(drop)
    }

    /// Sets the minimum severity of log messages: [`Event::Log`].
    ///
    /// # Errors
    /// As of [`Client::set_log_level`].
    pub fn set_log_level(&self, level: LogLevel) -> Result<(), CommandError> {
        self.apply(Command::SetLogLevel { level }).map(drop)
    }

    /// Replaces the roots, which the client answers requests of the server with.
    ///
    /// # Errors
    /// As of [`Client::set_roots`].
    pub fn set_roots(&self, roots: Vec<Root>) -> Result<(), CommandError> {
        self.apply(Command::SetRoots { roots }).map(drop)
    }

    /// Requests a list again: [`Event::Refreshed`].
    ///
    /// # Errors
    /// As of [`Client::refresh`].
    pub fn refresh(&self, family: Family) -> Result<(), CommandError> {
        self.apply(Command::Refresh { family }).map(drop)
    }

    /// Gives an input to the sign-in: a redirect that came to the host itself or was pasted, or that the user gave up,
    /// signs in again or signs out. Returns whether it belongs to what is in progress; `false` without a sign-in.
    #[cfg(feature = "oauth")]
    pub fn handle_oauth(&self, input: mcp_proto::binding::oauth::OAuthInput<'_>) -> bool {
        if !matches!(input, mcp_proto::binding::oauth::OAuthInput::Authorize) {
            return self.0.give_oauth(ONLY, input);
        }
        let authorize =
            |client: &mut AnyClient, now| client.input(now, ONLY, Input::OAuth(input)).then_some(()).ok_or(());
        self.0.connect(authorize).is_ok()
    }

    /// The lines of the journal that were not taken yet, of a session that is recorded
    /// ([`Host::record`]). Take and write them as often as you like: the client keeps those that were not taken, within its
    /// limits. [`finish_journal`](Self::finish_journal) has the last ones.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_proto::Options;
    /// use mcp_proto::journal::{JournalLimits, replay};
    /// use mcp_proto_tokio::{Host, Program, Session};
    ///
    /// let host = Host::new(Options::new("my-host", "1.0")).record(JournalLimits::default());
    /// let session = Session::connect(Program::new("weather-server"), host).await?;
    /// session.hide("the user's key")?; // a secret in arguments, which the journal must not have
    /// session.call_tool("weather", &serde_json::json!({"key": "the user's key"})).await?;
    /// session.close().await;
    /// let journal = session.finish_journal();
    /// println!("{} actions, all as recorded", replay(journal.as_bytes(), JournalLimits::default())?.actions);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "journal")]
    pub fn journal(&self) -> String {
        self.command(|client, _| with!(client, client => client.take()))
    }

    /// Ends the journal, and returns the lines that were not taken yet. What follows is not recorded.
    #[cfg(feature = "journal")]
    pub fn finish_journal(&self) -> String {
        self.command(|client, _| {
            with!(client, client => {
                client.end();
                client.take()
            })
        })
    }

    /// How many entries are not in the journal because it ended at a limit.
    #[cfg(feature = "journal")]
    pub fn journal_dropped(&self) -> u64 {
        self.0.read(|client| match &client.client {
            Transported::Lines(client) => client.dropped(),
            Transported::Messages(client) => client.dropped(),
            #[cfg(feature = "http")]
            Transported::Http(client) => client.dropped(),
        })
    }

    /// Names a secret that the journal must not have, from now on: of arguments, or that a server is known to send. The
    /// program, its environment and the headers of a `Remote` never reach the client.
    ///
    /// # Errors
    /// As of [`Recorder::hide`](mcp_proto::journal::Recorder::hide).
    #[cfg(feature = "journal")]
    pub fn hide(&self, secret: &str) -> Result<(), mcp_proto::journal::SecretError> {
        self.command(|client, _| with!(client, client => client.hide(secret)))
    }

    fn command<T>(&self, command: impl FnOnce(&mut AnyClient, Time) -> T) -> T {
        self.0.command(command)
    }

    /// Closes the client, and waits until its program's process group has ended, or its HTTP session was ended. Calls end at
    /// once. A descendant of the program that left the group, with `setsid` or as a daemon, is not ended, and not waited for.
    pub async fn close(&self) {
        self.0.command(|client, now| client.close(now));
        self.closed().await;
    }

    /// As [`close`](Self::close), and kills what is left after this time: processes, and the request that ends a session over
    /// HTTP. Actions on a store of credentials that are in progress are waited for, and nothing else.
    pub async fn close_within(&self, bound: Duration) {
        self.0.close_within(bound).await;
    }

    /// Ends the session because the host's time for it is over: cancels the calls in flight, of which the server is told, and
    /// closes. [`closed`](Self::closed) and [`close_within`](Self::close_within) wait for the end.
    pub fn time_out(&self) {
        self.0.time_out();
    }

    /// Closes the session, then gives its credentials up: removes them from the store, and revokes them where the
    /// authorization server supports that. Waits for the end of both; dropping the future ends neither. What failed is
    /// among [`OAuth::events`](crate::OAuth::events).
    #[cfg(feature = "oauth")]
    pub async fn sign_out(&self) {
        self.0.sign_out(ONLY).await;
    }

    /// Ends the session here, so that [`restore`](Self::restore) goes on with it elsewhere, and returns it: this client is
    /// closed, and its processes end, but a session over HTTP stays open at its server. Before, wait for calls in flight and
    /// for what the server asks for: calls are cancelled, of which a server over HTTP may not be told, and what the server
    /// asked for is not answered. Take the journal of a recorded session before, too. A future that is dropped once it was polled
    /// leaves the session closed, and saved nowhere.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_proto::{Options, Secrets, Snapshot};
    /// use mcp_proto_tokio::{Program, Session};
    ///
    /// let (program, options) = (Program::new("weather-server"), || Options::new("my-host", "1.0"));
    /// let session = Session::connect(program.clone(), options()).await?;
    /// let saved = serde_json::to_string(&session.suspend(Secrets::Included).await)?;
    ///
    /// // In another process:
    /// let snapshot: Snapshot = serde_json::from_str(&saved)?;
    /// let session = Session::restore(program, options(), &snapshot)?;
    /// session.ready().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "snapshot")]
    pub async fn suspend(&self, secrets: mcp_proto::Secrets) -> mcp_proto::Snapshot {
        let client = new(Lines::new(), Options::new("", ""), &Wiring::default());
        let endpoint = self.0.read(|client| client.endpoint.clone());
        let closed = AnyClient { client: Transported::Lines(Box::new(client)), endpoint };
        let taken = self.0.take(closed);
        self.closed().await;
        match &taken.client {
            Transported::Lines(client) => client.snapshot(secrets),
            Transported::Messages(client) => client.snapshot(secrets),
            #[cfg(feature = "http")]
            Transported::Http(client) => client.snapshot(secrets),
        }
    }

    /// Waits until it is closed, and its processes have ended. Returns the failure, if it did not close on request.
    pub async fn closed(&self) -> Option<Diagnosis> {
        match self.0.until(|status| matches!(status, Status::Closed(_))).await {
            Status::Closed(failure) => failure,
            Status::Connecting | Status::Ready | Status::Parked(_) => None,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl AnyClient {
    fn engine(&self) -> &Engine {
        match &self.client {
            Transported::Lines(client) => client,
            Transported::Messages(client) => client,
            #[cfg(feature = "http")]
            Transported::Http(client) => client,
        }
    }
}

/// What a client signs in with, whose time is `now`.
#[cfg(feature = "oauth")]
fn authorization(
    url: &str,
    options: mcp_proto::binding::oauth::OAuthOptions,
    now: Time,
) -> Result<mcp_proto::binding::oauth::Authorization, StartError> {
    use mcp_proto::binding::oauth::Authorization;

    let entropy = crate::entropy().map_err(StartError::Entropy)?;
    Ok(Authorization::new(url, options, entropy, now, crate::unix_time())?)
}

/// Whom an event of a session is for.
pub(crate) fn sort<E>(session: SessionHandle, event: Event, other: impl FnOnce(Event) -> E) -> Sorted<E> {
    match event {
        Event::Finished { request, outcome, failure, .. } => {
            Sorted::Finished(CallId::of_request(session, request, None), outcome, failure)
        }
        Event::Progress { request, progress } => Sorted::Progress(session, request, progress),
        Event::ServerRequest { id, method, params } => Sorted::Asked(session, id, method, params),
        Event::ServerRequestEnded { id, .. } => Sorted::AskEnded(session, id),
        Event::InputRequired { request, inputs } => Sorted::InputRequired(session, request, inputs),
        event => Sorted::Other(other(event)),
    }
}

/// A request that the server refuses for lack of another token.
pub(crate) const fn refused(session: SessionHandle, event: &Event) -> Option<(SessionHandle, RequestId)> {
    match event {
        Event::Unauthorized { request: Some(request), .. } => Some((session, *request)),
        _ => None,
    }
}

/// Bytes of an event, about.
pub(crate) fn weigh(event: &Event) -> usize {
    match event {
        Event::CatalogChanged { difference, .. } => weigh_difference(difference),
        Event::Log { data, .. } => data.get().len(),
        Event::Notification { method, params } => {
            method.len().saturating_add(params.as_ref().map_or(0, |params| params.get().len()))
        }
        Event::Task { task, .. } => task.raw().get().len(),
        Event::ResourceUpdated { uri } | Event::Subscription { uri, .. } => uri.len(),
        Event::Quirk(quirk) => quirk.detail.len(),
        _ => 0,
    }
}

pub(crate) fn weigh_difference(difference: &Difference) -> usize {
    let names = [&difference.added, &difference.removed, &difference.changed].into_iter().flatten();
    names.fold(0, |sum, name| sum.saturating_add(name.len()).saturating_add(16))
}

impl Machine for AnyClient {
    type Event = Event;

    fn poll(&mut self) -> Option<Output<Event>> {
        loop {
            let output = match &mut self.client {
                Transported::Lines(client) => Output::of_lines(client.poll()?),
                Transported::Messages(client) => Output::of_lines(client.poll()?),
                #[cfg(feature = "http")]
                Transported::Http(client) => Output::of_http(client.poll()?),
            };
            if output.is_some() {
                return output;
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        match &self.client {
            Transported::Lines(client) => client.deadline(),
            Transported::Messages(client) => client.deadline(),
            #[cfg(feature = "http")]
            Transported::Http(client) => client.deadline(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        with!(self, client => client.handle_timeout(now));
    }

    fn is_ready(&self) -> bool {
        self.engine().is_ready()
    }

    fn is_closed(&self) -> bool {
        match &self.client {
            Transported::Lines(client) => client.is_closed(),
            Transported::Messages(client) => client.is_closed(),
            #[cfg(feature = "http")]
            Transported::Http(client) => client.is_closed(),
        }
    }

    fn close(&mut self, now: Time) {
        // An error means that it is closed.
        let _ = with!(self, client => client.close(now));
    }

    fn input(&mut self, now: Time, _: SessionHandle, input: Input<'_>) -> bool {
        match (&mut self.client, input) {
            (Transported::Lines(client), Input::Transport(connection, event)) => {
                client.handle_transport(now, connection, event);
            }
            (Transported::Lines(client), Input::Bytes(connection, bytes)) => {
                client.handle_bytes(now, connection, bytes);
            }
            (Transported::Messages(client), Input::Transport(connection, event)) => {
                client.handle_transport(now, connection, event);
            }
            (Transported::Messages(client), Input::Bytes(connection, message)) => {
                client.handle_message(now, connection, message);
            }
            #[cfg(feature = "http")]
            (Transported::Http(client), Input::Http(exchange, piece)) => match piece {
                crate::HttpPiece::Head(status, headers) => client.handle_head(now, exchange, *status, headers),
                crate::HttpPiece::Body(chunk) => client.handle_body(now, exchange, chunk),
                crate::HttpPiece::End => client.handle_end(now, exchange),
                crate::HttpPiece::Failure(broken, why) => client.handle_failure(now, exchange, *broken, why),
            },
            #[cfg(feature = "oauth")]
            (Transported::Http(client), Input::OAuth(input)) => return client.handle_oauth(now, input),
            #[cfg(feature = "http")]
            (Transported::Lines(_) | Transported::Messages(_), _)
            | (Transported::Http(_), Input::Transport(..) | Input::Bytes(..)) => {}
        }
        false
    }

    fn takes_messages(&self) -> bool {
        matches!(self.client, Transported::Messages(_))
    }

    fn engine(&self, _: SessionHandle) -> Option<&Engine> {
        Some(self.engine())
    }

    fn server(&self, _: SessionHandle) -> Box<str> {
        self.engine().server_name().into()
    }

    fn target(&mut self, _: SessionHandle) -> io::Result<Target> {
        self.endpoint.target()
    }

    #[cfg(feature = "http")]
    fn headers(&self, _: SessionHandle) -> http::HeaderMap {
        match &self.endpoint {
            Endpoint::Remote(remote) => remote.headers.clone(),
            Endpoint::Program(_) | Endpoint::Streams(_) | Endpoint::Channels(_) => http::HeaderMap::new(),
        }
    }

    #[cfg(feature = "oauth")]
    fn url(&self, _: SessionHandle) -> Box<str> {
        match &self.endpoint {
            Endpoint::Remote(remote) => remote.url.clone(),
            Endpoint::Program(_) | Endpoint::Streams(_) | Endpoint::Channels(_) => Box::default(),
        }
    }

    #[cfg(feature = "oauth")]
    fn account(&self, _: SessionHandle) -> Option<Box<str>> {
        None
    }

    #[cfg(feature = "oauth")]
    fn unauthorized(&self, error: &mcp_proto::binding::oauth::OAuthError) -> Option<Status> {
        let failure = Failure::new(FailureKind::Unauthorized, error.to_string());
        Some(Status::Parked(Diagnosis::new(failure, self.engine(), &StderrLines::default())))
    }

    #[cfg(feature = "oauth")]
    fn handle_clock(&mut self, now: Time, unix: std::time::Duration) {
        self.input(now, ONLY, Input::OAuth(mcp_proto::binding::oauth::OAuthInput::Clock { unix }));
    }

    fn apply(&mut self, now: Time, _: SessionHandle, command: Command) -> Result<Option<RequestId>, CommandError> {
        with!(self, client => client.apply(now, command))
    }

    fn status(&self, event: &Event, stderr_lines: Option<&SharedLines>) -> Option<Status> {
        let diagnosis = |failure: &Failure| Diagnosis::new(failure.clone(), self.engine(), &copy_of(stderr_lines));
        Some(match event {
            Event::Ready => Status::Ready,
            Event::Down { next: Recovery::Parked { authorizing: false, .. }, failure } => {
                Status::Parked(diagnosis(failure))
            }
            Event::Down { .. } => Status::Connecting,
            Event::Closed { cause: Cause::Failed(failure) } => Status::Closed(Some(diagnosis(failure))),
            Event::Closed { .. } => Status::Closed(None),
            _ => return None,
        })
    }

    fn session(_: &Event) -> Option<SessionHandle> {
        Some(ONLY)
    }

    fn refused(event: &Event) -> Option<(SessionHandle, RequestId)> {
        refused(ONLY, event)
    }

    fn sort(event: Event) -> Sorted<Event> {
        sort(ONLY, event, |event| event)
    }

    fn weigh(event: &Event) -> usize {
        weigh(event)
    }
}
