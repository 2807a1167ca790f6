//! Many servers as one: their sessions, started side by side within a cap, one deadline, one toolset with one space of
//! names, calls that find their way, and a configuration that can change under way.
//!
//! A [`Hub`] is used as a session is: it does no I/O, [`poll`](Hub::poll) says what is to be done, the `handle_*` methods
//! take what happened. Each thing to do names the [`SessionHandle`] that it is for. After each input it is polled until
//! nothing is left: that is when the hub itself hears what became of its sessions. A deadline that is due is served before
//! more input is taken, since one server may never fall silent; and what belongs to a process is not reported any more once
//! [`HubAction::Open`] asked for the session's next one.
//!
//! ```
//! use mcp_proto::host::config::Configuration;
//! use mcp_proto::host::hub::{Hub, HubAction, HubEvent, HubOptions};
//! use mcp_proto::{Options, Time};
//!
//! let json = r#"{"github": {"command": "github-mcp"}, "old": {"command": "x", "enabled": false}}"#;
//! let configuration: Configuration = serde_json::from_str(json).unwrap();
//!
//! let mut hub = Hub::new(HubOptions::new(Options::new("my-host", "1.0")));
//! hub.configure(Time::ZERO, configuration).unwrap();
//! hub.open(Time::ZERO).unwrap();
//!
//! // Nothing is required, so the hub is ready from the first.
//! assert!(matches!(hub.poll(), Some(HubAction::Event(HubEvent::Ready))));
//! let Some(HubAction::Open { session, .. }) = hub.poll() else { panic!("a process to start") };
//! assert_eq!(hub.server(session), Some("github"));
//! // Start what `hub.entry(session)` says, then: hub.handle_transport(now, session, Transport::Opened) …
//! assert!(hub.poll().is_none(), "what is turned off is never opened");
//! ```
//!
//! `examples/hub` in the repository is a whole host in one file.
//!
//! # Start
//! [`Hub::open`] starts every server that is enabled, as many at once as [`HubOptions::starts`] says, the required ones
//! first. A server of which something was saved ([`Saved`], [`Hub::restore`]) is not started: what was saved stands in
//! for it until it is called, or [`Hub::start`] wants it. Then it is asked, and what differs is a
//! [`HubEvent::ToolsetChanged`].
//!
//! # Calls
//! [`Hub::call`] takes an exposed name. Utility tools that list are answered from what the session listed, once it has;
//! those that read are requests of the session. Each call that is accepted ends in one [`HubEvent::Finished`]. A result
//! is what the server wrote: of a tool that of `tools/call`, of `read_resource` that of `resources/read`, of `get_prompt`
//! that of `prompts/get`; `list_resources` gives an object with the arrays `resources` and `resourceTemplates`,
//! `list_prompts` one with `prompts`, each item byte for byte ([`CallId::utility`] tells which it is). A server
//! whose calls fail one after the other is left in peace for a while ([`Breaker`], and the table of
//! [`machine::breaker`](crate::machine::breaker)).
//!
//! # Change
//! [`Hub::configure`] takes a new configuration at any time, and touches only the servers whose entry means something
//! else: where only filters differ, the toolset is chosen anew; otherwise the session is closed, and another one is
//! opened once that one is gone. A server keeps its names as long as it is configured, up or not. The table of [`machine::hub_server`](crate::machine::hub_server) says what becomes of a server.

mod calls;
mod connection;
mod event;
mod lifecycle;
mod member;
mod shelf;
mod show;
mod turns;

pub use event::{Breaker, CallError, CallId, HubAction, HubCommandError, HubEvent, HubOptions, SessionHandle};

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use self::connection::Connection;
use self::lifecycle::Rank;
use self::member::Member;
use self::shelf::Shelf;
use super::Saved;
use super::config::{Changes, Configuration, Entry};
use super::names::Names;
use crate::Time;
#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId};
use crate::catalog::FingerprintKey;
use crate::client::{
    CommandError, ConnectionId, Engine, Failure, FailureKind, LogLevel, Request, RequestId, ServerRequestId, Transport,
};
use crate::jsonrpc::ErrorObject;
use crate::machine::hub_server::{Input, State, take};
use crate::machine::{Verdict, breaker};

/// Sessions by the names of their servers. The [module](self) says how it is used.
#[derive(Clone, Debug)]
pub struct Hub {
    options: HubOptions,
    seed: u64,
    now: Time,
    configuration: Configuration,
    names: Names,
    current: BTreeMap<Arc<str>, SessionHandle>,
    /// By their handles: those that are on their way out among them.
    members: BTreeMap<SessionHandle, Box<Member>>,
    last_handle: u64,
    last_list: u64,
    shelf: Shelf,
    /// How many sessions of a server are being closed, so that another can follow.
    leaving: BTreeMap<Arc<str>, u32>,
    /// What waits for room to start.
    waiting: BTreeSet<(Rank, SessionHandle)>,
    /// How many wait for the session before to be gone.
    awaiting: usize,
    /// How many are starting.
    starting: usize,
    phase: Phase,
    /// The required servers that were not up yet.
    missing: BTreeSet<Box<str>>,
    /// `Ready` was told.
    ready: bool,
    /// Something was done since room was given, and `Ready` and `Settled` were thought of.
    unsettled: bool,
    /// `Settled` was told since a server was wanted.
    settled: bool,
    timers: BTreeSet<(Time, SessionHandle)>,
    /// Sessions that may have something to say.
    touched: VecDeque<SessionHandle>,
    events: VecDeque<HubEvent>,
}

/// Where the hub as a whole stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is started yet but what was asked for by its name.
    Fresh,
    Open,
    Closing,
    Closed,
}

/// What is known of a server that is configured.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerReport<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its entry.
    pub entry: &'a Entry,
    /// Its session's handle; `None` where it is turned off.
    pub handle: Option<SessionHandle>,
    /// Where it stands; `None` where it is turned off.
    pub state: Option<State>,
    /// When what is offered of it was saved, in seconds since 1970, as long as the server was not asked.
    pub stands_in: Option<u64>,
    /// Until when no call is made to it, since it failed.
    pub rests_until: Option<Time>,
    /// What was wrong with it last, as long as it is not up.
    pub failure: Option<&'a Failure>,
    /// Its session, once it was wanted.
    pub session: Option<&'a Engine>,
    /// How its author wants it used, for the model.
    pub instructions: Option<&'a str>,
}

impl Hub {
    /// A hub without servers, not open yet. `seed` seeds the jitter of reconnects, as in
    /// [`Client::new`](crate::Client::new); each server's client gets a seed of its own from it.
    pub fn new(mut options: HubOptions, seed: u64) -> Self {
        let names = core::mem::take(&mut options.names);
        Self {
            seed,
            now: Time::ZERO,
            configuration: Configuration::default(),
            names,
            current: BTreeMap::new(),
            members: BTreeMap::new(),
            last_handle: 0,
            last_list: 0,
            shelf: Shelf::default(),
            leaving: BTreeMap::new(),
            waiting: BTreeSet::new(),
            awaiting: 0,
            starting: 0,
            phase: Phase::Fresh,
            missing: options.required.clone(),
            ready: false,
            unsettled: false,
            settled: true,
            timers: BTreeSet::new(),
            touched: VecDeque::new(),
            events: VecDeque::new(),
            options,
        }
    }

    /// Takes the servers that there are now, their variables replaced ([`Configuration::expand`]): the first ones, or
    /// others than before. Returns in what they differ. A server whose new entry is of no use stays as it was.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`].
    pub fn configure(&mut self, now: Time, mut configuration: Configuration) -> Result<Changes, HubCommandError> {
        self.check_room()?;
        self.advance(now);
        let changes = Changes::between(&self.configuration, &configuration);
        for server in &changes.invalid {
            let kept = self.configuration.servers.remove(server);
            configuration.servers.extend(kept.map(|entry| (server.clone(), entry)));
        }
        let mut before = core::mem::replace(&mut self.configuration, configuration);
        for server in &changes.removed {
            self.retire(server, before.servers.remove(server));
        }
        for change in &changes.changed {
            if change.needs_session() {
                self.renew(&change.server, before.servers.remove(&change.server));
            } else if let Some(handle) = self.current.get(&*change.server) {
                self.choose_again(*handle);
            }
        }
        for server in &changes.added {
            self.renew(server, None);
        }
        let Configuration { servers, errors, .. } = &self.configuration;
        let faulty: BTreeSet<_> = errors.iter().map(|error| &*error.server).collect();
        self.names.retain(|server| servers.contains_key(server) || faulty.contains(server));
        self.unsettled = true;
        Ok(changes)
    }

    /// Lets what was saved of a server stand in for it, until the server is wanted: before [`open`](Self::open), or
    /// after [`configure`](Self::configure) and before the next [`poll`](Self::poll).
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::UnknownServer`], [`HubCommandError::Disabled`],
    /// [`HubCommandError::Started`];
    /// [`HubCommandError::Stale`] where it was saved under another entry, and is of no use any more.
    pub fn restore(&mut self, now: Time, server: &str, saved: Saved) -> Result<(), HubCommandError> {
        let (handle, entry) = self.known(server)?;
        let name = || Box::from(server);
        let may = |member: &Member| {
            // What somebody waits for is not to wait for a call.
            let is_called = member.rank == Rank::Called || !member.lists.is_empty();
            !is_called && take(member.state, Input::Restored).verdict != Verdict::Reject
        };
        if !self.members.get(&handle).is_some_and(|member| may(member)) {
            return Err(HubCommandError::Started { server: name() });
        }
        if !saved.is_of(entry) {
            return Err(HubCommandError::Stale { server: name() });
        }
        self.advance(now);
        self.step(handle, Input::Restored);
        self.stand_in(handle, saved);
        Ok(())
    }

    /// What a server offers, to be kept until the next run; `None` where nobody asked it. `key` is the embedder's secret
    /// ([`FingerprintKey`]); it is saved, too, so that another one may be given in the next run. `at` is the time, in
    /// seconds since 1970; of a server that was not asked in this run, what stands in for it keeps its own.
    pub fn save(&self, server: &str, key: FingerprintKey, at: u64) -> Option<Saved> {
        let entry = self.configuration.servers.get(server)?;
        self.members.get(self.current.get(server)?)?.saved(entry, key, at)
    }

    /// Starts the servers.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::AlreadyOpen`].
    pub fn open(&mut self, now: Time) -> Result<(), HubCommandError> {
        self.check()?;
        if self.phase == Phase::Open {
            return Err(HubCommandError::AlreadyOpen);
        }
        self.advance(now);
        (self.phase, self.settled) = (Phase::Open, false);
        let wanted = self.members.iter().filter(|(_, member)| member.stands_in.is_none());
        for handle in wanted.map(|(handle, _)| *handle).collect::<Vec<_>>() {
            self.want(handle, Rank::Other);
        }
        self.unsettled = true;
        Ok(())
    }

    /// Wants a server now: one that something saved stands in for is started, one that is parked tries again, one that
    /// failed gets another session. Of one that is up or starting, nothing is wanted. Its calls go through, whatever
    /// failed before.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::UnknownServer`], [`HubCommandError::Disabled`].
    pub fn start(&mut self, now: Time, server: &str) -> Result<(), HubCommandError> {
        self.known(server)?;
        self.advance(now);
        self.begin(server);
        Ok(())
    }

    fn begin(&mut self, server: &str) {
        let Some(mut handle) = self.current.get(server).copied() else { return };
        if self.members.get(&handle).is_some_and(|member| member.state == State::Failed) {
            self.renew(server, None);
            handle = self.current.get(server).copied().unwrap_or(handle);
        }
        self.reset_breaker(handle);
        self.want(handle, Rank::Called);
        self.unsettled = true;
    }

    /// The embedder can authorise a server's requests now, or again: those that wait for it go on, and a server that
    /// could not be asked for want of it is asked.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn authorized(&mut self, now: Time, server: &str) -> Result<(), HubCommandError> {
        let (handle, _) = self.known(server)?;
        self.advance(now);
        let refused = |failure: &Failure| matches!(failure.kind, FailureKind::Unauthorized | FailureKind::Forbidden);
        if let Some(member) = self.members.get(&handle).filter(|member| member.state == State::Failed) {
            if member.failure.as_ref().is_some_and(refused) {
                self.begin(server);
            }
            return Ok(());
        }
        self.reset_breaker(handle);
        let now = self.now;
        // A session that is over needs no token.
        let _ = self.command(handle, |engine| engine.authorized(now));
        Ok(())
    }

    /// Closes every session.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`].
    pub fn close(&mut self, now: Time) -> Result<(), HubCommandError> {
        self.check()?;
        self.advance(now);
        self.phase = Phase::Closing;
        for handle in self.members.keys().copied().collect::<Vec<_>>() {
            self.step(handle, Input::Close);
        }
        self.unsettled = true;
        Ok(())
    }

    /// Takes what a process wrote, in chunks of any size.
    pub fn handle_bytes(&mut self, now: Time, session: SessionHandle, connection: ConnectionId, chunk: &[u8]) {
        self.input(now, session, |client, now| match client {
            Connection::Lines(lines) => lines.handle_bytes(now, connection, chunk),
            #[cfg(feature = "http")]
            Connection::Http(_) => {}
        });
    }

    /// Takes what happened to a process, or to the way to it.
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

    /// Takes the head of an answer ([`HttpSession::handle_head`](crate::binding::http::HttpSession::handle_head)).
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

    /// Takes a piece of an answer's body.
    #[cfg(feature = "http")]
    pub fn handle_body(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId, chunk: &[u8]) {
        self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_body(now, exchange, chunk),
            Connection::Lines(_) => {}
        });
    }

    /// Takes that an answer is whole.
    #[cfg(feature = "http")]
    pub fn handle_end(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId) {
        self.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_end(now, exchange),
            Connection::Lines(_) => {}
        });
    }

    /// Takes that an exchange failed.
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

    /// Whether every session is closed.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed && self.events.is_empty()
    }

    /// The servers that are configured, those that are turned off among them, by their names.
    pub fn servers(&self) -> impl Iterator<Item = ServerReport<'_>> {
        self.configuration.servers.iter().map(|(name, entry)| {
            let handle = self.current.get(&**name).copied();
            let member = handle.and_then(|handle| self.members.get(&handle));
            ServerReport {
                name,
                entry,
                handle,
                state: member.map(|member| member.state),
                rests_until: member.filter(|member| member.breaker == breaker::State::Open).map(|it| it.rests_until),
                stands_in: member.and_then(|member| member.stands_in),
                failure: member.filter(|member| member.state != State::Up).and_then(|member| member.failure.as_ref()),
                session: member.and_then(|member| member.session()),
                instructions: member
                    .and_then(|member| member.offer.as_ref())
                    .and_then(|offer| offer.instructions.as_deref()),
            }
        })
    }

    /// The required servers that were not up yet, as long as [`HubEvent::Ready`] was not told: those that are starting, that
    /// failed, that are turned off, or that nobody configured.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|server| &**server)
    }

    /// The configuration as it is in force.
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The server that a session is with.
    pub fn server(&self, session: SessionHandle) -> Option<&str> {
        self.members.get(&session).map(|member| &*member.name)
    }

    /// What a session was set up by: the command to start, the headers to send.
    pub fn entry(&self, session: SessionHandle) -> Option<&Entry> {
        let member = self.members.get(&session)?;
        member.retired.as_deref().or_else(|| self.configuration.servers.get(&*member.name))
    }

    /// A server's session, once it was wanted.
    pub fn session(&self, session: SessionHandle) -> Option<&Engine> {
        self.members.get(&session)?.session()
    }

    /// Makes a request of a server's session.
    ///
    /// # Errors
    /// Those of [`Client::request`](crate::Client::request); [`CommandError::Closed`] where there is no session.
    pub fn request(&mut self, now: Time, session: SessionHandle, request: Request) -> Result<RequestId, CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.request(now, request)).unwrap_or(Err(CommandError::Closed))
    }

    /// Responds to a request of a server.
    ///
    /// # Errors
    /// Those of [`Client::respond`](crate::Client::respond); [`CommandError::Closed`] where there is no session.
    pub fn respond(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: ServerRequestId,
        response: Result<&RawValue, ErrorObject>,
    ) -> Result<(), CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.respond(now, request, response)).unwrap_or(Err(CommandError::Closed))
    }

    /// Gives a request of a server's session the input that the server requires.
    ///
    /// # Errors
    /// Those of [`Client::provide`](crate::Client::provide); [`CommandError::Closed`] where there is no session.
    pub fn provide<'a>(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<(), CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.provide(now, request, responses)).unwrap_or(Err(CommandError::Closed))
    }

    /// Declines to give a request of a server's session input, or to authorize it.
    ///
    /// # Errors
    /// Those of [`Client::decline`](crate::Client::decline); [`CommandError::Closed`] where there is no session.
    pub fn decline(&mut self, now: Time, session: SessionHandle, request: RequestId) -> Result<(), CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.decline(now, request)).unwrap_or(Err(CommandError::Closed))
    }

    /// Subscribes to changes of a server's resource.
    ///
    /// # Errors
    /// Those of [`Client::subscribe`](crate::Client::subscribe); [`CommandError::Closed`] where there is no session.
    pub fn subscribe(&mut self, now: Time, session: SessionHandle, uri: &str) -> Result<(), CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.subscribe(now, uri)).unwrap_or(Err(CommandError::Closed))
    }

    /// Ends a subscription to a server's resource.
    ///
    /// # Errors
    /// Those of [`Client::unsubscribe`](crate::Client::unsubscribe); [`CommandError::Closed`] where there is no session.
    pub fn unsubscribe(&mut self, now: Time, session: SessionHandle, uri: &str) -> Result<(), CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.unsubscribe(now, uri)).unwrap_or(Err(CommandError::Closed))
    }

    /// Sets the log level of a server's session.
    ///
    /// # Errors
    /// Those of [`Client::set_log_level`](crate::Client::set_log_level); [`CommandError::Closed`] where there is no
    /// session.
    pub fn set_log_level(&mut self, now: Time, session: SessionHandle, level: LogLevel) -> Result<(), CommandError> {
        self.advance(now);
        let now = self.now;
        self.command(session, |engine| engine.set_log_level(now, level)).unwrap_or(Err(CommandError::Closed))
    }

    /// Runs a command of a server's session, if there is one.
    pub(super) fn command<T>(&mut self, session: SessionHandle, command: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        self.touch(session);
        Some(self.members.get_mut(&session)?.connection.as_mut()?.command(command))
    }

    /// A server's session, as it is now.
    pub fn handle(&self, server: &str) -> Option<SessionHandle> {
        self.current.get(server).copied()
    }

    fn check(&self) -> Result<(), HubCommandError> {
        match self.phase {
            Phase::Fresh | Phase::Open => Ok(()),
            Phase::Closing | Phase::Closed => Err(HubCommandError::Closed),
        }
    }

    /// Whether there is room for what a command adds to the events. How many it adds depends on what it is given, so the
    /// bound is on those that were there before.
    fn check_room(&self) -> Result<(), HubCommandError> {
        self.check()?;
        let limit = self.options.session.limits.output;
        if self.events.len() >= limit { Err(HubCommandError::Unpolled { limit }) } else { Ok(()) }
    }

    /// A server that is configured, and enabled, for a command that may add events.
    fn known(&self, server: &str) -> Result<(SessionHandle, &Entry), HubCommandError> {
        self.check_room()?;
        let entry = self.configuration.servers.get(server);
        let entry = entry.ok_or_else(|| HubCommandError::UnknownServer { server: server.into() })?;
        let handle = self.current.get(server).ok_or_else(|| HubCommandError::Disabled { server: server.into() })?;
        Ok((*handle, entry))
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}
