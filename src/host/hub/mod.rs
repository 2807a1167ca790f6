//! Many servers as one: a session per server, a limit on concurrent starts, one deadline, one set of functions with
//! unique names, calls by those names, and a configuration that can change at any time.
//!
//! A session is the client of a server under its current entry. A [`Hub`] is driven like a client: it does no I/O,
//! [`poll`](Hub::poll) returns actions, and the `handle_*` methods take inputs. Each action names the [`SessionHandle`]
//! of its session; inputs name the session and the connection, and those of an older connection are dropped. Getters
//! are current after each input and command; `poll` only takes from a queue. Inputs and commands first handle the
//! deadlines of all sessions that are due, as [`handle_timeout`](Hub::handle_timeout) does. A command that returns an
//! error changes nothing else.
//!
//! ```
//! use mcp_proto::host::config::Configuration;
//! use mcp_proto::host::hub::{Hub, HubAction, HubEvent, HubOptions};
//! use mcp_proto::{Options, Time};
//!
//! let json = r#"{"github": {"command": "github-mcp"}, "old": {"command": "x", "enabled": false}}"#;
//! let configuration: Configuration = serde_json::from_str(json).unwrap();
//!
//! let mut hub = Hub::new(HubOptions::new(Options::new("my-host", "1.0")), 1);
//! hub.configure(Time::ZERO, configuration).unwrap();
//! hub.open(Time::ZERO).unwrap();
//!
//! // Nothing is required, so the hub is ready from the first.
//! assert!(matches!(hub.poll(), Some(HubAction::Event(HubEvent::Ready))));
//! let Some(HubAction::Open { session, connection: _ }) = hub.poll() else { panic!("a process to start") };
//! assert_eq!(hub.server(session), Some("github"));
//! // Start what `hub.entry(session)` says, then: hub.handle_transport(now, session, connection, Transport::Opened) …
//! assert!(hub.poll().is_none(), "what is turned off is never opened");
//! ```
//!
//! `examples/hub` in the repository is a complete host in one file.
//!
//! # Start
//! [`Hub::open`] starts every enabled server, up to [`HubOptions::starts`] at once, required ones first. A server with
//! saved lists ([`Saved`], [`Hub::restore`]) is not started: its saved lists are used until it is called or started
//! with [`Hub::start`]. Then its lists are requested, and a difference is reported as [`HubEvent::ToolsetChanged`].
//!
//! # Calls
//! [`Hub::call`] takes an exposed name. The hub answers utility tools that list from the session's lists, once they are
//! known; utility tools that read are requests of the session. Each accepted call ends in one [`HubEvent::Finished`]. A
//! result is the server's: for a tool the result of `tools/call`, for `read_resource` that of `resources/read`, for
//! `get_prompt` that of `prompts/get`; `list_resources` returns an object with the arrays `resources` and
//! `resourceTemplates`, `list_prompts` one with `prompts`, each item byte for byte ([`CallId::utility`] says which it
//! is). After several failed calls in a row, calls to a server are refused for some time ([`Breaker`]).
//!
//! # Idle programs
//! A program that nothing used for the `idle_timeout` of its entry, or that is older than `max_lifetime`, is stopped as
//! soon as nothing is in flight ([`HubEvent::IdleShutdown`]). Its functions stay. A call of one, a request, a subscription or
//! [`Hub::start`] starts it again, in the same session: the call waits for that within its timeout, and is sent once. This
//! is no failure, so that there is no wait before it is started. Both keys have no effect on servers with a URL.
//!
//! # Change
//! [`Hub::configure`] takes a new configuration at any time, and affects only servers whose entry changed: if only
//! timeouts, `trust`, `supports_parallel_tool_calls` or what is under `tools` changed, the session continues
//! ([`Change::needs_session`](super::config::Change::needs_session)); otherwise it is closed, and a new one is opened after
//! that. A server keeps its names as long as the configured servers are the same and they are not replaced. A session's
//! state is a
//! [`ServerState`].

mod command;
mod connection;
mod event;
#[cfg(feature = "oauth")]
mod oauth;
mod queue;
mod router;
mod server;
mod sharing;
#[cfg(feature = "snapshot")]
mod snapshot;

pub use self::command::{HubAccepted, HubCommand, HubSession};
pub use self::event::{
    Breaker, CallError, CallId, HubAction, HubCommandError, HubEvent, HubOptions, RenamedTool, SessionHandle,
};
#[cfg(feature = "oauth")]
pub use self::oauth::HubOAuth;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use self::connection::Connection;
use self::event::CallKind;
use self::queue::Queue;
use self::router::Starts;
use self::server::{Server, Servers};
use self::sharing::Sharing;
use super::config::{Changes, Configuration, Entry};
use super::instructions::{Notice, inspect};
use super::names::{Names, Target};
use super::toolset::{Choice, Function, Toolset};
use super::{Saved, Utility, toolset};
use crate::Time;
#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId};
#[cfg(feature = "oauth")]
use crate::binding::oauth::OAuthInput;
use crate::catalog::FingerprintKey;
use crate::client::{Command, CommandError, ConnectionId, Engine, Failure, Outcome, Request, Transport};
use crate::collections::ByName;
use crate::jsonrpc::Json;
use crate::machine::Verdict;
use crate::machine::hub::breaker::Input as BreakerInput;
use crate::machine::hub::server::{Input, Phase};
use crate::machine::hub::whole;
use crate::machine::table::refuses;

/// Many servers as one. The [module](self) describes its use.
#[derive(Clone, Debug)]
pub struct Hub {
    options: HubOptions,
    seed: u64,
    now: Time,
    configuration: Configuration,
    names: Names,
    state: whole::State,
    /// The current sessions of configured servers.
    current: ByName<SessionHandle>,
    /// The servers of current and former sessions.
    servers: Servers,
    /// How many of them are closed and not polled completely.
    over: usize,
    last_list_call: u64,
    sharing: Sharing,
    starts: Starts,
    /// The required servers that were not up yet; `None` after all of them were.
    missing: Option<BTreeSet<Box<str>>>,
    queue: Queue,
    #[cfg(feature = "oauth")]
    oauth: Option<Box<HubOAuth>>,
    #[cfg(feature = "oauth")]
    browser: oauth::Browser,
}

impl Hub {
    /// Creates a hub without servers, which is not open yet. `seed` is for the jitter of reconnects, as in
    /// [`Client::new`](crate::Client::new); each session gets a seed of its own from it.
    pub fn new(mut options: HubOptions, seed: u64) -> Self {
        let names = core::mem::take(&mut options.names);
        Self {
            seed,
            now: Time::ZERO,
            configuration: Configuration::default(),
            names,
            state: whole::State::New,
            current: ByName::new(),
            servers: Servers::new(),
            over: 0,
            last_list_call: 0,
            sharing: Sharing::default(),
            starts: Starts::default(),
            missing: Some(options.required.clone()),
            queue: Queue::default(),
            #[cfg(feature = "oauth")]
            oauth: None,
            #[cfg(feature = "oauth")]
            browser: oauth::Browser::default(),
            options,
        }
    }

    /// Sets the configured servers, with their variables replaced ([`Configuration::expand`]). Returns the difference
    /// from the configuration before. A server whose new entry is invalid stays as it was.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::TooManySessions`].
    pub fn configure(&mut self, now: Time, mut configuration: Configuration) -> Result<Changes, HubCommandError> {
        let now = self.handle_due(now);
        self.check_room(configuration.servers.len())?;
        self.now = now;
        let changes = Changes::between(&self.configuration, &configuration);
        for server in &changes.invalid {
            let kept = self.configuration.servers.remove(server);
            configuration.servers.extend(kept.map(|entry| (server.clone(), entry)));
        }
        let mut before = core::mem::replace(&mut self.configuration, configuration);
        self.name_servers();
        for server in &changes.removed {
            self.change(server, before.servers.remove(server));
        }
        for change in &changes.changed {
            if change.needs_session() {
                self.change(&change.server, before.servers.remove(&change.server));
            } else if let Some(handle) = self.current.get(&change.server).copied() {
                self.adjust(handle);
                self.filter(handle);
            }
        }
        for server in &changes.added {
            self.change(server, None);
        }
        let Configuration { servers, errors, .. } = &self.configuration;
        let faulty: BTreeSet<_> = errors.iter().map(|error| &*error.server).collect();
        self.names.retain(|server| servers.contains_key(server) || faulty.contains(server));
        self.settle();
        Ok(changes)
    }

    /// Uses the saved lists of a server until the server is started. Call it before [`open`](Self::open), or after
    /// [`configure`](Self::configure) and before the next [`poll`](Self::poll).
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::UnknownServer`],
    /// [`HubCommandError::Disabled`], [`HubCommandError::Started`]; [`HubCommandError::Stale`] if they were saved under
    /// another entry; [`HubCommandError::OtherUser`] if they are private, and were saved for another user.
    pub fn restore(&mut self, now: Time, server: &str, saved: Saved) -> Result<(), HubCommandError> {
        let now = self.handle_due(now);
        let handle = self.known(server)?;
        if self.refuses(handle, Input::Restored) {
            return Err(HubCommandError::Started { server: server.into() });
        }
        if !self.entry(handle).is_some_and(|entry| saved.is_of(entry)) {
            return Err(HubCommandError::Stale { server: server.into() });
        }
        if !saved.is_for(self.user()) {
            return Err(HubCommandError::OtherUser { server: server.into() });
        }
        self.now = now;
        self.step(handle, Input::Restored);
        self.offer_saved(handle, saved);
        self.settle();
        Ok(())
    }

    /// Returns the lists of a server, to be restored in a later run; `None` if none are known. `key` is the embedder's
    /// secret ([`FingerprintKey`]); it is saved, too, so a later run may use another one. `at` is the current time, in
    /// seconds since 1970; lists that were restored and not received again keep their own.
    pub fn save(&self, now: Time, server: &str, key: FingerprintKey, at: u64) -> Option<Saved> {
        let entry = self.configuration.servers.get(server)?;
        self.current_server(server)?.save(now.max(self.now), entry, self.user(), key, at)
    }

    /// The user of the host, if it has several.
    pub(crate) fn user(&self) -> Option<&str> {
        self.options.user.as_deref()
    }

    /// Starts the servers.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::AlreadyOpen`].
    pub fn open(&mut self, now: Time) -> Result<(), HubCommandError> {
        let now = self.handle_due(now);
        self.check()?;
        if refuses(whole::step::row, whole::step, self.state, whole::Input::Open) {
            return Err(HubCommandError::AlreadyOpen);
        }
        self.now = now;
        self.hub_step(whole::Input::Open);
        self.settle();
        Ok(())
    }

    /// Starts a server now: one with saved lists or a suspended one is started, one that waits for its next attempt
    /// reconnects, one that failed gets another session. One that is up or starting is not affected. Calls to it are allowed again.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::UnknownServer`], [`HubCommandError::Disabled`].
    pub fn start(&mut self, now: Time, server: &str) -> Result<(), HubCommandError> {
        let now = self.handle_due(now);
        let handle = self.known(server)?;
        self.now = now;
        self.breaker_step(handle, BreakerInput::Reset);
        self.step(handle, Input::Started);
        self.settle();
        Ok(())
    }

    /// Reports that the embedder can authorize a server's requests now. Requests that wait for authorization continue,
    /// and a server that ended because of it gets another session.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn authorized(&mut self, now: Time, server: &str) -> Result<(), HubCommandError> {
        let now = self.handle_due(now);
        let handle = self.known(server)?;
        self.now = now;
        self.breaker_step(handle, BreakerInput::Reset);
        self.authorize(handle);
        self.step(handle, Input::Authorized);
        self.settle();
        Ok(())
    }

    /// Closes every session.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`].
    pub fn close(&mut self, now: Time) -> Result<(), HubCommandError> {
        let now = self.handle_due(now);
        self.check()?;
        self.now = now;
        self.hub_step(whole::Input::Close);
        self.settle();
        Ok(())
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never. While there may be an action to poll,
    /// it is now.
    pub fn deadline(&self) -> Option<Time> {
        let Self { queue, now, .. } = self;
        if queue.is_empty() { queue.deadline() } else { Some(*now) }
    }

    fn check(&self) -> Result<(), HubCommandError> {
        match whole::step(self.state, whole::Input::Command).verdict {
            Verdict::Reject => Err(HubCommandError::Closed),
            Verdict::Advance | Verdict::Ignore | Verdict::Never | Verdict::Quirk(_) => Ok(()),
        }
    }

    /// Whether a command may create so many sessions, and add events. How many it adds depends on its arguments, so the limit applies to the events
    /// before it.
    fn check_room(&self, sessions: usize) -> Result<(), HubCommandError> {
        self.check()?;
        if !self.servers.has_numbers(sessions) {
            return Err(HubCommandError::TooManySessions { limit: u32::MAX });
        }
        let limit = self.options.session.limits.output;
        if self.queue.events() >= limit { Err(HubCommandError::Unpolled { limit }) } else { Ok(()) }
    }

    /// A configured and enabled server, for a command that may add events.
    fn known(&self, server: &str) -> Result<SessionHandle, HubCommandError> {
        self.check_room(1)?;
        if !self.configuration.servers.contains_key(server) {
            return Err(HubCommandError::UnknownServer { server: server.into() });
        }
        self.handle(server).ok_or_else(|| HubCommandError::Disabled { server: server.into() })
    }

    /// Handles the deadlines that are due. Without any it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
    }

    /// Takes a chunk, of any size, of a process's output.
    pub fn handle_bytes(&mut self, now: Time, session: SessionHandle, connection: ConnectionId, chunk: &[u8]) {
        self.input(now, session, |client, now| match client {
            Connection::Lines(lines) => lines.handle_bytes(now, connection, chunk),
            #[cfg(feature = "http")]
            Connection::Http(_) => {}
        });
    }

    /// Takes a report on a process or another transport.
    pub fn handle_transport(
        &mut self,
        now: Time,
        session: SessionHandle,
        connection: ConnectionId,
        event: Transport<'_>,
    ) {
        self.input(now, session, |client, now| match client {
            Connection::Lines(lines) => lines.handle_transport(now, connection, event),
            #[cfg(feature = "http")]
            Connection::Http(_) => {}
        });
    }

    /// Takes the head of a response ([`Client::handle_head`](crate::Client::handle_head)).
    #[cfg(feature = "http")]
    pub fn handle_head(
        &mut self,
        now: Time,
        session: SessionHandle,
        exchange: ExchangeId,
        status: http::StatusCode,
        headers: &http::HeaderMap,
    ) {
        self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_head(now, exchange, status, headers),
            Connection::Lines(_) => {}
        });
    }

    /// Takes a chunk of a response's body.
    #[cfg(feature = "http")]
    pub fn handle_body(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId, chunk: &[u8]) {
        self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_body(now, exchange, chunk),
            Connection::Lines(_) => {}
        });
    }

    /// Takes the end of a response.
    #[cfg(feature = "http")]
    pub fn handle_end(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId) {
        self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_end(now, exchange),
            Connection::Lines(_) => {}
        });
    }

    /// Takes a failure of an exchange.
    #[cfg(feature = "http")]
    pub fn handle_failure(
        &mut self,
        now: Time,
        session: SessionHandle,
        exchange: ExchangeId,
        broken: Broken,
        why: &str,
    ) {
        self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_failure(now, exchange, broken, why),
            Connection::Lines(_) => {}
        });
    }

    /// Calls a tool by its exposed name, with arguments: a JSON object, or null for none.
    ///
    /// # Errors
    /// - [`CallError::Closed`] if the hub is closed or being closed.
    /// - [`CallError::UnknownTool`] if no enabled server has a tool of this name that its filters allow.
    /// - [`CallError::Arguments`] if the arguments are not a JSON object, or not those of the utility tool.
    /// - [`CallError::NotUp`] if the name is known, for example from an earlier run, and the server's lists are not; or if
    ///   it is not known, and begins like those of a server whose lists are not known.
    /// - [`CallError::CoolingDown`] if calls to the server are refused for some time ([`Breaker`]).
    /// - [`CallError::Session`] with [`CommandError::TooManyRequests`] if too many calls or too many unpolled actions
    ///   wait, or with another reason of the session ([`Client::request`](crate::Client::request)).
    pub fn call(&mut self, now: Time, name: &str, arguments: Option<&RawValue>) -> Result<CallId, CallError> {
        self.call_with(now, name, arguments, |request| request)
    }

    /// As [`call`](Self::call), with a request that `adapt` changes, such as its timeout. It is not used for utility
    /// tools that list.
    ///
    /// # Errors
    /// As of [`call`](Self::call); further [`CommandError`]s if `adapt` makes the request invalid.
    pub fn call_with(
        &mut self,
        now: Time,
        name: &str,
        arguments: Option<&RawValue>,
        adapt: impl FnOnce(Request) -> Request,
    ) -> Result<CallId, CallError> {
        let now = self.handle_due(now);
        if self.check().is_err() {
            return Err(CallError::Closed);
        }
        let unknown = || CallError::UnknownTool { name: name.into() };
        let Some((resolved, place)) = self.names.locate(name) else {
            // The names of a server that was never up are not known, but whose they are is.
            let server = self.names.owner(name).and_then(|server| self.current_server(server));
            let not_up = server.filter(|server| server.offer.is_none()).map(Server::not_up);
            return Err(not_up.unwrap_or_else(unknown));
        };
        let target = resolved.target.clone();
        let what = what(name, &target, arguments)?;
        let handle = self.current.get(resolved.server).copied().ok_or_else(unknown)?;
        let server = self.servers.at(handle);
        let input = if let What::List(_) = what { Input::Listed } else { Input::Called };
        // The name may be known from before.
        let is_refused = self.refuses(handle, input);
        let offer = server.offer.as_ref().filter(|_| !is_refused);
        let Some(offer) = offer else { return Err(server.not_up()) };
        if !offer.chosen.has_at(place, &target) {
            return Err(unknown());
        }
        // A session that is created for a call may end before the embedder polls any of its actions.
        let limit = self.options.session.limits.output;
        let is_new = server.connection.is_none();
        if is_new && self.former() >= limit {
            let (server, error) = (Arc::clone(&server.name), CommandError::TooManyRequests { limit });
            return Err(CallError::Session { server, error });
        }
        let kind = match what {
            What::Request(request) => self.call_request(now, handle, adapt(request), target)?,
            What::List(utility) => self.call_list(handle, utility)?,
        };
        self.now = now;
        self.servers.at_mut(handle).note_use(now);
        self.step(handle, input);
        self.settle();
        Ok(CallId { session: handle, kind })
    }

    /// Gives a call to the session of its server, which it creates if there is none.
    fn call_request(
        &mut self,
        now: Time,
        handle: SessionHandle,
        request: Request,
        target: Target,
    ) -> Result<CallKind, CallError> {
        let utility = target.utility();
        let server = self.servers.at(handle);
        if let Err(until) = server.breaker.admits(now) {
            return Err(CallError::CoolingDown { server: Arc::clone(&server.name), why: server.why_refused(), until });
        }
        // It becomes the server's session only if it accepts the call: an error changes nothing.
        let mut created = if server.connection.is_none() { self.new_session(handle) } else { None };
        let server = self.servers.at_mut(handle);
        let session = created.as_mut().or(server.connection.as_mut()).ok_or(CallError::Closed)?;
        let given = session.run(|engine| engine.request(now, request));
        let id = given.map_err(|error| CallError::Session { server: Arc::clone(&server.name), error })?;
        server.calls.insert(id, target);
        server.connection = created.or(server.connection.take());
        if let Some(options) = self.options.breaker {
            server.breaker.called(options, now, id);
        }
        self.now = now;
        self.touch(handle);
        Ok(CallKind::Request(id, utility))
    }

    /// Takes a call that is answered from the session's lists.
    fn call_list(&mut self, handle: SessionHandle, utility: Utility) -> Result<CallKind, CallError> {
        let limit = self.options.session.limits.queued;
        let events = self.queue.events();
        let server = self.servers.at_mut(handle);
        if server.list_calls.len().max(events) >= limit {
            let (server, error) = (Arc::clone(&server.name), CommandError::TooManyRequests { limit });
            return Err(CallError::Session { server, error });
        }
        self.last_list_call = self.last_list_call.saturating_add(1);
        server.list_calls.push((self.last_list_call, utility));
        Ok(CallKind::List(self.last_list_call, utility))
    }

    /// Cancels a call; it ends with [`Outcome::Cancelled`].
    ///
    /// # Errors
    /// [`HubCommandError::UnknownCall`] if no such call is open.
    pub fn cancel(&mut self, now: Time, call: CallId) -> Result<(), HubCommandError> {
        self.cancel_call(now, call, None)
    }

    /// As [`cancel`](Self::cancel), with a reason that the server is told, for its logs (specification 2026-07-28,
    /// "Cancellation").
    ///
    /// # Errors
    /// As of [`cancel`](Self::cancel).
    pub fn cancel_with_reason(&mut self, now: Time, call: CallId, reason: &str) -> Result<(), HubCommandError> {
        self.cancel_call(now, call, Some(reason.into()))
    }

    fn cancel_call(&mut self, now: Time, call: CallId, reason: Option<Box<str>>) -> Result<(), HubCommandError> {
        let unknown = HubCommandError::UnknownCall;
        let now = self.handle_due(now);
        let server = self.servers.at_mut(call.session);
        match call.kind {
            CallKind::Request(request, _) => {
                let session = server.connection.as_mut().filter(|_| server.calls.has(&request));
                session
                    .ok_or(unknown.clone())?
                    .run(|engine| engine.apply(now, Command::Cancel { request, reason }))
                    .map_err(|_| unknown)?;
                self.touch(call.session);
            }
            CallKind::List(number, _) => {
                let at = server.list_calls.iter().position(|(known, _)| *known == number);
                server.list_calls.remove(at.ok_or(unknown)?);
                let server = Arc::clone(&server.name);
                self.queue.report(HubEvent::Finished {
                    call,
                    server,
                    outcome: Outcome::Cancelled,
                    left_out: None,
                    attempts: 0,
                    failure: None,
                });
            }
        }
        self.now = now;
        self.settle();
        Ok(())
    }

    /// Runs a command of a session, which may be an input of its table.
    fn command<T>(
        &mut self,
        input: Option<Input>,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Engine, Time) -> Result<T, CommandError>,
    ) -> Result<T, HubCommandError> {
        let now = self.handle_due(now);
        self.check()?;
        let server = self.servers.at_mut(handle);
        let session = server.connection.as_mut().ok_or(HubCommandError::UnknownSession)?;
        let given = session.run(|engine| give(engine, now));
        let given = given.map_err(|error| HubCommandError::Session { server: Arc::clone(&server.name), error })?;
        server.note_use(now);
        server.note_contact();
        self.queue.touch(handle, &mut server.pending);
        self.now = now;
        if let Some(input) = input {
            self.step(handle, input);
        }
        self.settle();
        Ok(given)
    }

    /// Whether every session is closed, every action was polled, and no credentials are being refreshed or stored. A loop
    /// that ends before may lose a refresh token.
    pub fn is_closed(&self) -> bool {
        let is_authorizing = |handle: &SessionHandle| {
            self.servers.at(*handle).connection.as_ref().is_some_and(Connection::is_authorizing)
        };
        self.state == whole::State::Closed
            && self.queue.is_empty()
            && !self.servers.handles().iter().any(is_authorizing)
    }

    /// The configured servers, disabled ones included, sorted by name.
    pub fn servers(&self) -> impl Iterator<Item = ServerReport<'_>> {
        self.configuration.servers.iter().map(|(name, entry)| {
            let handle = self.current.get(name).copied();
            let server = self.current_server(name);
            ServerReport {
                name,
                entry,
                handle,
                state: server.map(|server| server.state.phase.into()),
                refused_until: server.and_then(|server| server.breaker.refused_until()),
                saved_at: server.and_then(Server::saved_at),
                failure: server
                    .filter(|server| server.state.phase != Phase::Ready)
                    .and_then(|server| server.failure.as_ref()),
                session: server.and_then(Server::session),
                instructions: server.and_then(|server| server.offer.as_ref()?.content.instructions.as_deref()),
            }
        })
    }

    /// The required servers that were not up yet, until [`HubEvent::Ready`] is reported:
    /// starting, failed, disabled or not configured.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().flatten().map(|server| &**server)
    }

    /// The current configuration.
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The server of a session.
    pub fn server(&self, session: SessionHandle) -> Option<&str> {
        self.servers.get(&session).map(|server| &*server.name)
    }

    /// The entry of a session: the command to start, the headers to send.
    pub fn entry(&self, session: SessionHandle) -> Option<&Entry> {
        let server = self.servers.get(&session)?;
        server.former_entry.as_deref().or_else(|| self.configuration.servers.get(&*server.name))
    }

    /// A session, for its getters; [`session_mut`](Self::session_mut) has its commands.
    pub fn session(&self, session: SessionHandle) -> Option<&Engine> {
        self.servers.at(session).session()
    }

    /// The handle of a server's current session.
    pub fn handle(&self, server: &str) -> Option<SessionHandle> {
        self.current.get(server).copied()
    }

    /// The functions for a model, with the names of their servers, sorted by server: its tools in the server's order,
    /// then the utility tools.
    pub fn functions(&self) -> impl Iterator<Item = (&str, Function<'_>)> {
        self.configuration.servers.keys().flat_map(|server| {
            let toolset = self.toolset(server);
            let functions = toolset.map(|toolset| toolset.into_functions(&self.names)).into_iter().flatten();
            functions.map(move |function| (&**server, function))
        })
    }

    /// Whether a user should approve a call of this function, by its exposed name; `None` if there is no such function.
    /// See [`Engine::needs_approval`]. Utility tools need no approval.
    pub fn needs_approval(&self, function: &str) -> Option<bool> {
        let resolved = self.names.resolve(function)?;
        let server = self.current_server(resolved.server)?;
        let offer = server.offer.as_ref()?;
        if !offer.chosen.has(resolved.target) {
            return None;
        }
        let read_only = match resolved.target.utility() {
            Some(_) => return Some(false),
            None => offer.content.catalog.tool(resolved.target.name())?.hints.read_only == Some(true),
        };
        let options = self.options.own.get(&*server.name).unwrap_or(&self.options.session);
        let entry = self.configuration.servers.get(&*server.name)?;
        Some(!(entry.trust.unwrap_or(options.trust) && read_only))
    }

    /// The functions of a server; `None` if it has none, or its lists are not known.
    pub fn toolset(&self, server: &str) -> Option<Toolset<'_>> {
        let Server { name, offer, .. } = self.current_server(server)?;
        let offer = offer.as_ref()?;
        let tools = offer.content.catalog.tools().filter(|tool| offer.chosen.has_tool(tool.name));
        let tools: Vec<_> = tools.map(|tool| offer.chosen.overridden(tool)).collect();
        let utilities: Vec<_> = offer.chosen.utilities().collect();
        (!tools.is_empty() || !utilities.is_empty()).then_some(Toolset { server: name, tools, utilities })
    }

    /// The tools of a server that were chosen, the ones left out with the reason, and texts that try to instruct the
    /// model; `None` if its lists are not known.
    pub fn choice(&self, server: &str) -> Option<Choice<'_>> {
        let Server { name, offer, .. } = self.current_server(server)?;
        let Self { configuration, names, options, .. } = self;
        let policy = &configuration.servers.get(&**name)?.tools;
        Some(toolset::choose(name, policy, offer.as_ref()?.content.view(options), options.suspicion).named(names))
    }

    /// The texts of a server besides its tools that try to instruct the model or have invisible characters: its
    /// instructions, prompts, resources and resource templates ([`inspect`]). `None` if its lists are not known.
    pub fn notices(&self, server: &str) -> Option<Vec<Notice<'_>>> {
        let Server { name, offer, .. } = self.current_server(server)?;
        let content = &offer.as_ref()?.content;
        Some(inspect(name, &content.catalog, content.instructions.as_deref()))
    }

    /// The exposed names of all tools, and what they stand for. They stay after the hub is closed, to be saved for a
    /// later run.
    pub const fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(feature = "oauth")]
impl Hub {
    /// Lets the sessions of servers whose entry has `auth: oauth` authorize themselves (feature `oauth`). What the
    /// embedder has to do is [`HubAction::OAuth`], whose results
    /// [`handle_oauth`](Self::handle_oauth) takes. One URL at a time is given to the user's browser: that of another
    /// server follows when the user authorized, or the attempt ended. A server is started without a token, and waits for
    /// one only if it demands it; other servers start meanwhile, and its functions are offered once there is a token.
    ///
    /// Call it before [`configure`](Self::configure). A snapshot does not contain it: call it after
    /// [`from_snapshot`](Self::from_snapshot), too.
    #[must_use]
    pub fn with_oauth(mut self, oauth: HubOAuth) -> Self {
        self.oauth = Some(Box::new(oauth));
        for handle in self.servers.handles() {
            self.join_authorization(handle);
        }
        self
    }

    /// Reports the wall clock to all sessions, and to those that follow (feature `oauth`): `unix` is the time since the Unix
    /// epoch. It is to be reported when the process slept, and when the clock was set.
    pub fn handle_clock(&mut self, now: Time, unix: core::time::Duration) {
        if let Some(oauth) = &mut self.oauth {
            oauth.set_clock(now, unix);
        }
        for handle in self.servers.handles() {
            self.handle_oauth(now, handle, OAuthInput::Clock { unix });
        }
    }

    /// Takes an input for the authorization of a session (feature `oauth`). Returns whether it belongs to what is in
    /// progress, as [`Client::handle_oauth`](crate::Client::handle_oauth) does.
    pub fn handle_oauth(&mut self, now: Time, session: SessionHandle, input: OAuthInput<'_>) -> bool {
        let handled = self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_oauth(now, input),
            Connection::Lines(_) => false,
        });
        handled.unwrap_or_default()
    }
}

/// What a call means.
enum What {
    /// A request of the session.
    Request(Request),
    /// A result from the session's lists.
    List(Utility),
}

/// What a call of this name and target means.
fn what(name: &str, target: &Target, arguments: Option<&RawValue>) -> Result<What, CallError> {
    // A model may write null for no arguments.
    let arguments = arguments.filter(|arguments| arguments.get() != "null");
    match target {
        Target::Tool(_) if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) => {
            Err(CallError::Arguments { name: name.into(), expected: "a JSON object".into() })
        }
        Target::Tool(tool) => Ok(What::Request(Request::call_tool(tool, arguments))),
        Target::Utility(utility) => utility_request(name, *utility, arguments),
    }
}

fn utility_request(name: &str, utility: Utility, arguments: Option<&RawValue>) -> Result<What, CallError> {
    let arguments = arguments.map(Json::from);
    let text = |member: &str| arguments.and_then(|arguments| arguments.member(member)).and_then(Json::as_string);
    let lacks = |expected: &'static str| CallError::Arguments { name: name.into(), expected: expected.into() };
    match utility {
        Utility::ListResources | Utility::ListPrompts => Ok(What::List(utility)),
        Utility::ReadResource => {
            let uri = text("uri").ok_or_else(|| lacks("`uri`, the URI of a resource, as a string"))?;
            Ok(What::Request(Request::read_resource(&uri)))
        }
        Utility::GetPrompt => {
            let prompt = text("name").ok_or_else(|| lacks("`name`, the name of a prompt, as a string"))?;
            let mut values: Vec<(String, String)> = Vec::new();
            if let Some(given) = arguments.and_then(|arguments| arguments.member("arguments")) {
                if !given.is_object() && !given.is_null() {
                    return Err(lacks("`arguments`, an object of strings"));
                }
                // A value that is not a string is passed as JSON text.
                given.members(|name, value| {
                    let value = value.as_string().map_or_else(|| value.text().into(), String::from);
                    values.push((name.into(), value));
                });
            }
            let values = values.iter().map(|(name, value)| (&**name, &**value));
            Ok(What::Request(Request::get_prompt(&prompt, values)))
        }
    }
}

/// The state of a server's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerState {
    /// It was not needed yet.
    Idle,
    /// It is to be started, and waits for room, or for the end of the session before it.
    Queued,
    /// It is being opened.
    Starting,
    /// It is ready.
    Ready,
    /// Its connection is closed because it was not used for some time, or was old. Its lists are still offered, and a
    /// request opens it again.
    Suspended,
    /// It lost the connection, or did not get one, and reconnects.
    Reconnecting,
    /// As `Reconnecting`, after a long interval.
    Parked,
    /// It ended by itself, or could not be created.
    Failed,
    /// As `Failed`, because the server refused authorization.
    Unauthorized,
    /// It is being closed, or is closed.
    Closing,
}

impl From<Phase> for ServerState {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Idle => Self::Idle,
            Phase::Queued => Self::Queued,
            Phase::Starting => Self::Starting,
            Phase::Ready => Self::Ready,
            Phase::Suspended => Self::Suspended,
            Phase::Reconnecting => Self::Reconnecting,
            Phase::Parked => Self::Parked,
            Phase::Failed => Self::Failed,
            Phase::Unauthorized => Self::Unauthorized,
            Phase::Closing | Phase::Closed => Self::Closing,
        }
    }
}

/// The state of a configured server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerReport<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its entry.
    pub entry: &'a Entry,
    /// The handle of its session; `None` if it is disabled.
    pub handle: Option<SessionHandle>,
    /// The state of its session; `None` if it is disabled.
    pub state: Option<ServerState>,
    /// When its lists were saved, in seconds since 1970, while saved lists are used.
    pub saved_at: Option<u64>,
    /// Until when calls to it are refused, because calls failed.
    pub refused_until: Option<Time>,
    /// Its last failure, while it is not up.
    pub failure: Option<&'a Failure>,
    /// Its session, if there is one.
    pub session: Option<&'a Engine>,
    /// Instructions of the server's author to the model.
    pub instructions: Option<&'a str>,
}
