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
//! is). After several failed calls in a row, calls to a server are refused for some time ([`Breaker`], and the table of
//! [`machine::breaker`](crate::machine::breaker)).
//!
//! # Rest
//! A program that nothing used for the `idle_timeout` of its entry, or that is older than `max_lifetime`, is stopped as
//! soon as nothing is in flight ([`HubEvent::Resting`]). Its functions stay. A call of one, a request, a subscription or
//! [`Hub::start`] starts it again, in the same session: the call waits for that within its timeout, and is sent once. This
//! is no failure, so that there is no wait before it is started. Both keys have no effect on servers with a URL.
//!
//! # Change
//! [`Hub::configure`] takes a new configuration at any time, and affects only servers whose entry changed: if only
//! what is under `tools` changed, the functions are chosen again; otherwise the session is closed, and a new one is
//! opened after that. A server keeps its names as long as it is configured and they are not replaced. The table of
//! [`machine::hub_server`](crate::machine::hub_server) has the states of a session.

#[cfg(feature = "oauth")]
mod authorize;
mod breaker;
mod calls;
mod commands;
mod connection;
mod event;
mod getters;
mod inputs;
mod lifetime;
mod listing;
#[cfg(feature = "oauth")]
mod oauth;
mod offers;
mod queue;
mod route;
mod server;
mod servers;
mod sharing;
#[cfg(feature = "snapshot")]
mod snapshot;
mod starts;

pub use event::{Breaker, CallError, CallId, HubAction, HubCommandError, HubEvent, HubOptions, SessionHandle};
pub use getters::ServerReport;
#[cfg(feature = "oauth")]
pub use oauth::HubOAuth;

use alloc::collections::BTreeSet;

use self::route::{Router, Subject};
use super::Saved;
use super::config::{Changes, Configuration};
use crate::Time;
use crate::catalog::FingerprintKey;
use crate::machine::breaker::Input as BreakerInput;
use crate::machine::hub_server::Input;
use crate::machine::{Verdict, hub, hub_offer};

/// Many servers as one. The [module](self) describes its use.
#[derive(Clone, Debug)]
pub struct Hub {
    router: Router,
}

impl Hub {
    /// Creates a hub without servers, which is not open yet. `seed` is for the jitter of reconnects, as in
    /// [`Client::new`](crate::Client::new); each session gets a seed of its own from it.
    pub fn new(options: HubOptions, seed: u64) -> Self {
        Self { router: Router::new(options, seed) }
    }

    /// Sets the configured servers, with their variables replaced ([`Configuration::expand`]). Returns the difference
    /// from the configuration before. A server whose new entry is invalid stays as it was.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::TooManySessions`].
    pub fn configure(&mut self, now: Time, mut configuration: Configuration) -> Result<Changes, HubCommandError> {
        let now = self.router.handle_due(now);
        self.check_room(configuration.servers.len())?;
        let router = &mut self.router;
        router.now = now;
        let changes = Changes::between(&router.configuration, &configuration);
        for server in &changes.invalid {
            let kept = router.configuration.servers.remove(server);
            configuration.servers.extend(kept.map(|entry| (server.clone(), entry)));
        }
        let mut before = core::mem::replace(&mut router.configuration, configuration);
        for server in &changes.removed {
            router.change(server, before.servers.remove(server));
        }
        for change in &changes.changed {
            if change.needs_session() {
                router.change(&change.server, before.servers.remove(&change.server));
            } else if let Some(handle) = router.current.get(&*change.server).copied() {
                router.offer_step(handle, hub_offer::Input::Filtered, None);
            }
        }
        for server in &changes.added {
            router.change(server, None);
        }
        let Configuration { servers, errors, .. } = &router.configuration;
        let faulty: BTreeSet<_> = errors.iter().map(|error| &*error.server).collect();
        router.names.retain(|server| servers.contains_key(server) || faulty.contains(server));
        router.settle();
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
        let now = self.router.handle_due(now);
        let handle = self.known(server)?;
        if !self.router.may_restore(handle) {
            return Err(HubCommandError::Started { server: server.into() });
        }
        if !self.entry(handle).is_some_and(|entry| saved.is_of(entry)) {
            return Err(HubCommandError::Stale { server: server.into() });
        }
        if !saved.is_for(self.user()) {
            return Err(HubCommandError::OtherUser { server: server.into() });
        }
        self.router.now = now;
        self.router.step(handle, Input::Restored);
        self.router.offer_saved(handle, saved);
        self.router.settle();
        Ok(())
    }

    /// Returns the lists of a server, to be restored in a later run; `None` if none are known. `key` is the embedder's
    /// secret ([`FingerprintKey`]); it is saved, too, so a later run may use another one. `at` is the current time, in
    /// seconds since 1970; lists that were restored and not received again keep their own.
    pub fn save(&self, now: Time, server: &str, key: FingerprintKey, at: u64) -> Option<Saved> {
        let entry = self.router.configuration.servers.get(server)?;
        self.router.server(server)?.save(now.max(self.router.now), entry, self.user(), key, at)
    }

    /// The user of the host, if it has several.
    pub(crate) fn user(&self) -> Option<&str> {
        self.router.options.user.as_deref()
    }

    /// Starts the servers.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::AlreadyOpen`].
    pub fn open(&mut self, now: Time) -> Result<(), HubCommandError> {
        let now = self.router.handle_due(now);
        self.check()?;
        if hub::take(self.router.state, hub::Input::Open).verdict == Verdict::Reject {
            return Err(HubCommandError::AlreadyOpen);
        }
        self.router.now = now;
        self.router.hub_step(hub::Input::Open, Subject::Hub);
        self.router.settle();
        Ok(())
    }

    /// Starts a server now: one with saved lists or one that rests is started, one that waits for its next attempt
    /// reconnects, one that failed gets another session. One that is up or starting is not affected. Calls to it are allowed again.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`], [`HubCommandError::Unpolled`], [`HubCommandError::UnknownServer`], [`HubCommandError::Disabled`].
    pub fn start(&mut self, now: Time, server: &str) -> Result<(), HubCommandError> {
        let now = self.router.handle_due(now);
        let handle = self.known(server)?;
        self.router.now = now;
        self.router.breaker_step(handle, BreakerInput::Reset);
        self.router.step(handle, Input::Started);
        self.router.settle();
        Ok(())
    }

    /// Reports that the embedder can authorize a server's requests now. Requests that wait for authorization continue,
    /// and a server that ended because of it gets another session.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn authorized(&mut self, now: Time, server: &str) -> Result<(), HubCommandError> {
        let now = self.router.handle_due(now);
        let handle = self.known(server)?;
        self.router.now = now;
        self.router.breaker_step(handle, BreakerInput::Reset);
        self.router.authorize(handle);
        self.router.step(handle, Input::Authorized);
        self.router.settle();
        Ok(())
    }

    /// Closes every session.
    ///
    /// # Errors
    /// [`HubCommandError::Closed`].
    pub fn close(&mut self, now: Time) -> Result<(), HubCommandError> {
        let now = self.router.handle_due(now);
        self.check()?;
        self.router.now = now;
        self.router.hub_step(hub::Input::Close, Subject::Hub);
        self.router.settle();
        Ok(())
    }

    /// The next action.
    #[must_use = "what it says has to be done"]
    pub fn poll(&mut self) -> Option<HubAction> {
        self.router.poll()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never. While there may be an action to poll,
    /// it is now.
    pub fn deadline(&self) -> Option<Time> {
        let Router { queue, now, .. } = &self.router;
        if queue.is_empty() { queue.deadline() } else { Some(*now) }
    }

    fn check(&self) -> Result<(), HubCommandError> {
        match hub::take(self.router.state, hub::Input::Command).verdict {
            Verdict::Reject => Err(HubCommandError::Closed),
            Verdict::Advance | Verdict::Ignore | Verdict::Quirk(_) => Ok(()),
        }
    }

    /// Whether a command may create so many sessions, and add events. How many it adds depends on its arguments, so the limit applies to the events
    /// before it.
    fn check_room(&self, sessions: usize) -> Result<(), HubCommandError> {
        self.check()?;
        if !self.router.servers.has_numbers(sessions) {
            return Err(HubCommandError::TooManySessions { limit: u32::MAX });
        }
        let limit = self.router.options.session.limits.output;
        if self.router.queue.events() >= limit { Err(HubCommandError::Unpolled { limit }) } else { Ok(()) }
    }

    /// A configured and enabled server, for a command that may add events.
    fn known(&self, server: &str) -> Result<SessionHandle, HubCommandError> {
        self.check_room(1)?;
        if !self.router.configuration.servers.contains_key(server) {
            return Err(HubCommandError::UnknownServer { server: server.into() });
        }
        self.handle(server).ok_or_else(|| HubCommandError::Disabled { server: server.into() })
    }
}
