//! The authorizations of sessions, and the browser that they share (feature `oauth`).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use core::fmt;
use core::time::Duration;

use super::Hub;
use super::connection::Connection;
use super::event::SessionHandle;
use super::route::Router;
use crate::Time;
use crate::binding::oauth::{Authorization, BrowserUse, Entropy, OAuthInput, OAuthOptions};
use crate::client::{Failure, FailureKind};
use crate::host::config::{Endpoint, Entry};
use crate::machine::hub_browser::{Effect, Input, State, take};

/// How the sessions of a hub authorize themselves, for [`Hub::with_oauth`]. Its `Debug` does not show the entropy.
#[derive(Clone)]
#[non_exhaustive]
pub struct HubOAuth {
    /// The options of every server. A server's entry overrides them ([`Entry::oauth`]).
    pub options: OAuthOptions,
    /// Options for single servers, in place of `options`. The server's entry overrides them, too.
    pub own: BTreeMap<Box<str>, OAuthOptions>,
    entropy: Entropy,
    /// The time since the Unix epoch at [`Time::ZERO`].
    epoch: Duration,
}

impl HubOAuth {
    /// The same options for every server. `entropy` has to come from a random number generator for secrets, and be
    /// different each time; each session gets entropy of its own from it. `unix` is the time since the Unix epoch at
    /// `now`.
    pub fn new(options: OAuthOptions, entropy: [u8; 32], now: Time, unix: Duration) -> Self {
        let epoch = unix.saturating_sub(now.since(Time::ZERO));
        Self { options, own: BTreeMap::new(), entropy: Entropy::new(entropy), epoch }
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
        let unix = self.epoch.saturating_add(now.since(Time::ZERO));
        let mut authorization = Authorization::new(url, options, self.entropy.fork(), now, unix).ok()?;
        authorization.share_browser();
        Some(authorization)
    }

    /// Why a server cannot be authorized.
    pub(super) fn fault(&self, server: &str, entry: &Entry) -> Option<Failure> {
        let (url, options) = self.options_of(server, entry)?;
        let why = Authorization::check(url, &options).err()?;
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

/// Component: which session has the user's browser, and which wait for it, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Browser {
    shown: Option<SessionHandle>,
    queue: BTreeMap<u64, SessionHandle>,
    places: BTreeMap<SessionHandle, u64>,
    last: u64,
}

impl Browser {
    fn queue(&mut self, handle: SessionHandle) {
        self.last = self.last.saturating_add(1);
        self.queue.insert(self.last, handle);
        self.places.insert(handle, self.last);
    }

    fn dequeue(&mut self, handle: SessionHandle) {
        if let Some(place) = self.places.remove(&handle) {
            self.queue.remove(&place);
        }
    }

    /// The next session that gets the browser, if it is free.
    pub(super) fn next(&self) -> Option<SessionHandle> {
        if self.shown.is_some() { None } else { self.queue.first_key_value().map(|(_, handle)| *handle) }
    }
}

impl Hub {
    /// Lets the sessions of servers whose entry has `auth: oauth` authorize themselves (feature `oauth`). What the
    /// embedder has to do is [`HubAction::OAuth`](super::HubAction::OAuth), whose results
    /// [`handle_oauth`](Self::handle_oauth) takes. One URL at a time is given to the user's browser: that of another
    /// server follows when the user authorized, or the attempt ended. A server is started without a token, and waits for
    /// one only if it demands it; other servers start meanwhile, and its functions are offered once there is a token.
    ///
    /// Call it before [`configure`](Self::configure). A snapshot does not contain it: call it after
    /// [`from_snapshot`](Self::from_snapshot), too.
    #[must_use]
    pub fn with_oauth(mut self, mut oauth: HubOAuth) -> Self {
        let router = &mut self.router;
        for handle in router.servers.handles() {
            let Some(server) = router.servers.get_mut(&handle) else { continue };
            let Some(entry) = router.configuration.servers.get(&*server.name) else { continue };
            if let Some(connection) = server.connection.as_mut().filter(|_| server.former_entry.is_none())
                && let Some(authorization) = oauth.authorization(&server.name, entry, router.now)
            {
                connection.set_oauth(authorization);
            }
        }
        router.oauth = Some(Box::new(oauth));
        self
    }

    /// Takes an input for the authorization of a session (feature `oauth`). Returns whether it belongs to what is in
    /// progress, as [`Client::handle_oauth`](crate::Client::handle_oauth) does.
    pub fn handle_oauth(&mut self, now: Time, session: SessionHandle, input: OAuthInput<'_>) -> bool {
        let handled = self.router.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_oauth(now, input),
            Connection::Lines(_) => false,
        });
        handled.unwrap_or_default()
    }
}

impl Router {
    /// A session may require the browser, or not any more.
    pub(super) fn note_browser(&mut self, handle: SessionHandle) {
        let connection = self.servers.get(&handle).and_then(|server| server.connection.as_ref());
        match connection.map(Connection::browser) {
            Some(BrowserUse::Wanted) => self.browser_step(handle, Input::Wanted),
            Some(BrowserUse::Unused) => self.browser_step(handle, Input::Over),
            Some(BrowserUse::Shown) | None => {}
        }
    }

    /// Gives the browser to the next session that waits for it, if it is free.
    pub(super) fn lend_browser(&mut self) {
        if let Some(handle) = self.browser.next() {
            self.browser_step(handle, Input::Free);
        }
    }

    fn browser_step(&mut self, handle: SessionHandle, input: Input) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let row = take(server.browser, input);
        server.browser = row.next;
        for effect in row.effects {
            match effect {
                Effect::Queue => self.browser.queue(handle),
                Effect::Dequeue => self.browser.dequeue(handle),
                Effect::Show => {
                    self.browser.dequeue(handle);
                    self.browser.shown = Some(handle);
                    if let Some(connection) = &mut server.connection {
                        connection.show_browser(now);
                    }
                    self.queue.touch(handle, &mut server.pending);
                }
                Effect::Release => self.browser.shown = None,
            }
        }
    }
}

/// The state of a session that was created or restored: a snapshot contains no attempts.
pub(super) const UNUSED: State = State::Unused;
