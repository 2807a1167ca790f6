//! The router: the only code that sees every component. Inputs and commands go to a server's or the hub's table, and
//! effects to the components; new events of the sessions are processed until there are none.
//!
//! `sessions.rs` creates sessions and acts on one, `lists.rs` on its lists; `step.rs` steps the tables of the hub, of a
//! server and of its lists, whose effects are inputs of one another; `change.rs` applies a new configuration; `browser.rs`
//! lends sessions the user's browser; `events.rs` reacts to their events; `settle.rs` processes events until there are
//! none; `poll.rs` takes the outputs. Each file calls only those before it.

#[cfg(feature = "oauth")]
mod browser;
mod change;
mod events;
mod lists;
mod poll;
mod sessions;
mod settle;
mod step;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::connection::Connection;
use super::event::{HubOptions, SessionHandle};
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
use crate::machine::hub;

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

    /// The current session of a configured server.
    pub(super) fn server(&self, name: &str) -> Option<&Server> {
        self.servers.get(self.current.get(name)?)
    }

    pub(super) fn breaker_step(&mut self, handle: SessionHandle, input: BreakerInput) {
        if let (Some(options), Some(server)) = (self.options.breaker, self.servers.get_mut(&handle)) {
            server.breaker.step(options, self.now, input);
        }
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
