//! The authorizations of sessions, and the browser that they share (feature `oauth`).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use core::fmt;
use core::time::Duration;

use super::event::SessionHandle;
use crate::Time;
use crate::binding::oauth::{Authorization, Entropy, OAuthOptions, WallClock};
use crate::client::{Failure, FailureKind};
use crate::host::config::{Endpoint, Entry};

/// How the sessions of a hub authorize themselves, for [`Hub::with_oauth`](super::Hub::with_oauth). Its `Debug` does not show the entropy.
#[derive(Clone)]
#[non_exhaustive]
pub struct HubOAuth {
    /// The options of every server. A server's entry overrides them ([`Entry::oauth`]).
    pub options: OAuthOptions,
    /// Options for single servers, in place of `options`. The server's entry overrides them, too.
    pub own: BTreeMap<Box<str>, OAuthOptions>,
    entropy: Entropy,
    clock: WallClock,
}

impl HubOAuth {
    /// The same options for every server. `entropy` has to come from a random number generator for secrets, and be
    /// different each time; each session gets entropy of its own from it. `unix` is the time since the Unix epoch at
    /// `now`.
    pub fn new(options: OAuthOptions, entropy: [u8; 32], now: Time, unix: Duration) -> Self {
        Self { options, own: BTreeMap::new(), entropy: Entropy::new(entropy), clock: WallClock::new(now, unix) }
    }

    /// Sessions that are created from now on have this wall clock.
    pub(super) const fn set_clock(&mut self, now: Time, unix: Duration) {
        self.clock = WallClock::new(now, unix);
    }

    /// The URL and the options of a server, if its entry has `auth: oauth`.
    fn options_of<'a>(&self, server: &str, entry: &'a Entry) -> Option<(&'a str, OAuthOptions)> {
        let Endpoint::Http(http) = &entry.endpoint else { return None };
        let options = self.own.get(server).unwrap_or(&self.options);
        Some((&http.url, entry.oauth(options.clone())?))
    }

    /// An authorization for a session. Options that do not fit were reported when the session was created.
    pub(super) fn authorization(&mut self, server: &str, entry: &Entry, now: Time) -> Option<Authorization> {
        let (url, options) = self.options_of(server, entry)?;
        let unix = self.clock.unix(now);
        let mut authorization = Authorization::new(url, options, self.entropy.fork(), now, unix).ok()?;
        authorization.share_browser();
        Some(authorization)
    }

    /// Why a server cannot be authorized.
    pub(super) fn fault(&self, server: &str, entry: &Entry) -> Option<Failure> {
        let (url, options) = self.options_of(server, entry)?;
        let why = self.entropy.check().and_then(|()| Authorization::check(url, &options)).err()?;
        let message = format!("{server} cannot be authorized: {why}");
        Some(Failure { kind: FailureKind::Connect, message: message.into() })
    }
}

impl fmt::Debug for HubOAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, own, .. } = self;
        f.debug_struct("HubOAuth").field("options", options).field("own", own).finish_non_exhaustive()
    }
}

/// The user's browser: the session that has it, and those that wait for it, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Browser {
    shown: Option<SessionHandle>,
    queue: BTreeMap<u64, SessionHandle>,
    places: BTreeMap<SessionHandle, u64>,
    last: u64,
}

impl Browser {
    /// A session requires the browser. One that has it needs it for another attempt.
    pub(super) fn enqueue(&mut self, handle: SessionHandle) {
        self.shown.take_if(|shown| *shown == handle);
        if !self.places.contains_key(&handle) {
            self.last = self.last.saturating_add(1);
            self.queue.insert(self.last, handle);
            self.places.insert(handle, self.last);
        }
    }

    /// A session does not require the browser any more.
    pub(super) fn release(&mut self, handle: SessionHandle) {
        if self.shown == Some(handle) {
            self.shown = None;
        }
        if let Some(place) = self.places.remove(&handle) {
            self.queue.remove(&place);
        }
    }

    /// The next session, which has the browser from now on, if it is free.
    pub(super) fn dequeue(&mut self) -> Option<SessionHandle> {
        if self.shown.is_none() {
            self.shown = self.queue.pop_first().map(|(_, handle)| handle);
            let handle = self.shown?;
            self.places.remove(&handle);
            return Some(handle);
        }
        None
    }
}
