//! Component: when a server rests, because it was not used for some time, or because its connection is old.

use core::time::Duration;

use crate::Time;
use crate::host::config::{Endpoint, Entry};

/// The clock of a connection, by the keys `idle_timeout` and `max_lifetime` of the server's entry.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lifetime {
    idle_timeout: Option<Duration>,
    /// When the connection is too old.
    old: Option<Time>,
    /// When the server was used last: by a command, or by a request that ended.
    used: Time,
}

impl Lifetime {
    /// Starts the clock of a connection; `None` if the entry limits neither, or its server is not a program.
    pub(super) fn start(entry: &Entry, now: Time) -> Option<Self> {
        let Endpoint::Stdio(_) = entry.endpoint else { return None };
        let [idle_timeout, lifetime] =
            [entry.idle_timeout, entry.max_lifetime].map(|limit| limit.filter(|limit| !limit.is_zero()));
        let old = lifetime.map(|lifetime| now + lifetime);
        (idle_timeout.is_some() || old.is_some()).then_some(Self { idle_timeout, old, used: now })
    }

    /// The server is used.
    pub(super) fn touch(&mut self, now: Time) {
        self.used = self.used.max(now);
    }

    /// When the server rests, unless it is used until then.
    pub(super) fn end(&self) -> Option<Time> {
        let idle = self.idle_timeout.map(|timeout| self.used + timeout);
        Time::earliest([idle, self.old])
    }
}
