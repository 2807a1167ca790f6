//! The router: the only code that sees every component. Inputs and commands go to a server's or the hub's table, and
//! effects to the components; new events of the sessions are processed until there are none.
//!
//! `sessions.rs` creates, replaces and removes sessions, and applies the effects of their table; `lists.rs` does so for
//! their lists; `events.rs` reacts to their events; `poll.rs` takes their outputs; `browser.rs` lends
//! them the user's browser.

#[cfg(feature = "oauth")]
mod browser;
mod events;
mod lists;
mod poll;
mod sessions;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::connection::Connection;
use super::event::{HubEvent, HubOptions, SessionHandle};
use super::queue::Queue;
use super::server::Server;
use super::servers::Servers;
use super::sharing::Sharing;
use super::starts::Starts;
use crate::Time;
use crate::catalog::Difference;
use crate::client::Failure;
use crate::host::config::Configuration;
use crate::host::names::Names;
use crate::machine::breaker::Input as BreakerInput;
use crate::machine::hub_server::Input;
use crate::machine::{hub, hub_offer};

/// The components of a hub.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) options: HubOptions,
    pub(super) seed: u64,
    pub(super) now: Time,
    pub(super) configuration: Configuration,
    pub(super) names: Names,
    pub(super) state: hub::State,
    /// The current sessions of configured servers.
    pub(super) current: BTreeMap<Arc<str>, SessionHandle>,
    /// The servers of current and former sessions.
    pub(super) servers: Servers,
    /// How many of them are closed and not polled completely.
    pub(super) over: usize,
    pub(super) last_list_call: u64,
    pub(super) sharing: Sharing,
    pub(super) starts: Starts,
    /// The required servers that were not up yet; `None` after all of them were.
    pub(super) missing: Option<BTreeSet<Box<str>>>,
    pub(super) queue: Queue,
    #[cfg(feature = "oauth")]
    pub(super) oauth: Option<Box<super::oauth::HubOAuth>>,
    #[cfg(feature = "oauth")]
    pub(super) browser: super::oauth::Browser,
}

/// What an input of a server's table is about.
pub(super) enum About<'a> {
    Nothing,
    /// The failure of its session.
    Failure(&'a Failure),
    /// A new session, which accepted a call.
    Session(Connection),
}

/// What an input of the hub's table is about.
pub(super) enum Subject {
    /// The hub as a whole.
    Hub,
    /// A session.
    Session(SessionHandle),
    /// The functions of a server.
    Functions(Arc<str>, Difference),
}

impl Router {
    pub(super) fn new(mut options: HubOptions, seed: u64) -> Self {
        let names = core::mem::take(&mut options.names);
        Self {
            seed,
            now: Time::ZERO,
            configuration: Configuration::default(),
            names,
            state: hub::State::New,
            current: BTreeMap::new(),
            servers: Servers::default(),
            over: 0,
            last_list_call: 0,
            sharing: Sharing::default(),
            starts: Starts::default(),
            missing: Some(options.required.clone()),
            queue: Queue::default(),
            #[cfg(feature = "oauth")]
            oauth: None,
            #[cfg(feature = "oauth")]
            browser: super::oauth::Browser::default(),
            options,
        }
    }

    /// Handles the deadlines that are due before an input, and advances the time.
    pub(super) fn advance(&mut self, now: Time) {
        self.now = self.handle_due(now);
    }

    /// The current session of a configured server.
    pub(super) fn server(&self, name: &str) -> Option<&Server> {
        self.servers.get(self.current.get(name)?)
    }

    /// Steps the hub's table, and applies the effects.
    pub(super) fn hub_step(&mut self, input: hub::Input, subject: Subject) {
        let row = hub::take(self.state, input);
        self.state = row.next;
        let mut subject = Some(subject);
        for effect in row.effects {
            match effect {
                hub::Effect::Start => {
                    for handle in self.servers.handles() {
                        self.offer_step(handle, hub_offer::Input::Opened, None);
                    }
                }
                hub::Effect::StartServer => {
                    if let Some(Subject::Session(handle)) = subject {
                        self.step(handle, Input::Wanted);
                    }
                }
                hub::Effect::Close => {
                    for handle in self.servers.handles() {
                        self.step(handle, Input::Close);
                    }
                }
                hub::Effect::ReportReady => {
                    self.missing = None;
                    self.queue.report(HubEvent::Ready);
                }
                hub::Effect::ReportSettled => self.queue.report(HubEvent::Settled),
                hub::Effect::ReportChanged => {
                    if let Some(Subject::Functions(server, difference)) = subject.take() {
                        self.queue.report(HubEvent::ToolsetChanged { server, difference });
                    }
                }
                hub::Effect::Clear => {
                    self.current.clear();
                    self.sharing = Sharing::default();
                }
                hub::Effect::ReportClosed => self.queue.report(HubEvent::Closed),
            }
        }
    }

    pub(super) fn breaker_step(&mut self, handle: SessionHandle, input: BreakerInput) {
        if let (Some(options), Some(server)) = (self.options.breaker, self.servers.get_mut(&handle)) {
            server.breaker.step(options, self.now, input);
        }
    }

    /// Processes every session with new outputs, starts as many servers as there is room for, and steps the hub's
    /// table.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(handle) = self.queue.next_touched() {
                self.process_events(handle);
            }
            while let Some(handle) = self.starts.next(self.options.starts.max(1)) {
                self.step(handle, Input::Room);
            }
            #[cfg(feature = "oauth")]
            self.lend_browser();
            if self.missing.as_ref().is_some_and(BTreeSet::is_empty) {
                self.hub_step(hub::Input::Complete, Subject::Hub);
            }
            if self.starts.is_settled() {
                self.hub_step(hub::Input::Settled, Subject::Hub);
            }
            if self.servers.len() == self.over {
                self.hub_step(hub::Input::Gone, Subject::Hub);
            }
            if !self.queue.has_touched() {
                return;
            }
        }
    }

    /// Passes an input to a session, if it exists.
    pub(super) fn input<T>(
        &mut self,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Connection, Time) -> T,
    ) -> Option<T> {
        // The session handles its own: a response that is complete ends its exchange before a deadline does.
        let now = self.handle_due_except(now, Some(handle));
        self.now = now;
        self.servers.get(&handle).filter(|server| server.connection.is_some())?;
        self.step(handle, Input::Taken);
        let server = self.servers.get_mut(&handle)?;
        let given = give(server.connection.as_mut()?, now);
        self.queue.touch(handle, &mut server.pending);
        self.settle();
        Some(given)
    }

    /// Handles the deadlines of every session that are due, before an input or a command. Returns its time, which does
    /// not go back. If none is due, this changes nothing: the command may be refused.
    pub(super) fn handle_due(&mut self, now: Time) -> Time {
        self.handle_due_except(now, None)
    }

    /// Handles the deadlines that are due, except those of one session, which handles its own.
    fn handle_due_except(&mut self, now: Time, except: Option<SessionHandle>) -> Time {
        let now = self.now.max(now);
        if !self.queue.is_due(now) {
            return now;
        }
        self.now = now;
        // Sessions are processed after this loop, so each one has its turn once.
        while let Some(handle) = self.queue.take_due(now) {
            let Some(server) = self.servers.get_mut(&handle) else { continue };
            server.pending.deadline_taken();
            if except == Some(handle) {
                continue;
            }
            self.queue.touch(handle, &mut server.pending);
            self.step(handle, Input::Taken);
            if let Some(connection) = self.servers.get_mut(&handle).and_then(|server| server.connection.as_mut()) {
                connection.handle_timeout(now);
            }
        }
        self.settle();
        now
    }

    /// A session may have new outputs.
    pub(super) fn touch(&mut self, handle: SessionHandle) {
        if let Some(server) = self.servers.get_mut(&handle) {
            self.queue.touch(handle, &mut server.pending);
        }
    }

    /// The number of former sessions that are not polled completely.
    pub(super) fn former(&self) -> usize {
        self.servers.len().saturating_sub(self.current.len())
    }
}
