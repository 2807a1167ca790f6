//! The record of one server: its session, its calls, its lists.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::breaker::CallBreaker;
use super::connection::Connection;
use super::lifetime::Lifetime;
use super::offers::{Content, Offer, Origin};
use super::queue::Pending;
use crate::Time;
use crate::catalog::FingerprintKey;
use crate::client::{Engine, Failure, KnownEra, RequestId};
use crate::host::config::Entry;
use crate::host::names::Target;
use crate::host::saved::fresh_until;
use crate::host::{Saved, Utility};
use crate::machine::hub_rest::{self, Clock, Occasion, Rest, Session, Use};
use crate::machine::{hub_offer, hub_server};

/// A server under one entry.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: Arc<str>,
    pub(super) state: hub_server::State,
    pub(super) offer_state: hub_offer::State,
    /// Its session; `None` until it is opened or a request is made.
    pub(super) connection: Option<Connection>,
    /// The entry of its session, if the configuration has another one, or none.
    pub(super) former_entry: Option<Box<Entry>>,
    pub(super) breaker: CallBreaker,
    /// The clock of its connection, if its entry limits how long that is open.
    pub(super) lifetime: Option<Box<Lifetime>>,
    /// The calls that are requests of the session and whose end was not polled yet.
    pub(super) calls: BTreeMap<RequestId, Target>,
    /// The calls that wait for the session's lists.
    pub(super) list_calls: Vec<(u64, Utility)>,
    pub(super) offer: Option<Offer>,
    pub(super) known_era: Option<KnownEra>,
    /// The last failure.
    pub(super) failure: Option<Failure>,
    pub(super) pending: Pending,
    /// Whether it has the user's browser.
    #[cfg(feature = "oauth")]
    pub(super) browser: crate::machine::hub_browser::State,
}

impl Server {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            state: hub_server::State::Idle,
            offer_state: hub_offer::State::Unknown,
            connection: None,
            former_entry: None,
            breaker: CallBreaker::default(),
            lifetime: None,
            calls: BTreeMap::new(),
            list_calls: Vec::new(),
            offer: None,
            known_era: None,
            failure: None,
            pending: Pending::default(),
            #[cfg(feature = "oauth")]
            browser: crate::machine::hub_browser::State::Unused,
        }
    }

    pub(super) fn session(&self) -> Option<&Engine> {
        self.connection.as_deref()
    }

    /// It is used: by a command, or by a request that ended.
    pub(super) fn note_use(&mut self, now: Time) {
        if let Some(lifetime) = &mut self.lifetime {
            lifetime.touch(now);
        }
    }

    /// Whether it rests, and at which time if nothing happens until then; `None` if its entry does not limit that.
    pub(super) fn rest(&self, now: Time, occasion: Occasion) -> Option<(Rest, Time)> {
        let end = self.lifetime.as_ref()?.end()?;
        let session = if self.state == hub_server::State::Up { Session::Up } else { Session::Other };
        let unused = self.pending.is_empty() && self.session().is_some_and(Engine::is_unused);
        let clock = if end <= now { Clock::Over } else { Clock::Running };
        Some((hub_rest::take(session, if unused { Use::Unused } else { Use::Used }, clock, occasion), end))
    }

    /// When its lists were saved, in seconds since 1970, if no newer ones are known.
    pub(super) fn saved_at(&self) -> Option<u64> {
        self.offer.as_ref().and_then(|offer| Some(offer.content.saved.as_ref()?.at))
    }

    /// The lists of the server for a user, to be restored in a later run. `now` and `at` are the same time.
    pub(super) fn save(
        &self,
        now: Time,
        entry: &Entry,
        user: Option<&str>,
        key: FingerprintKey,
        at: u64,
    ) -> Option<Saved> {
        let content = self.offer.clone()?.content;
        let session = self.session().filter(|session| {
            let server = session.server();
            server.is_some_and(|server| server.instructions == content.instructions) && content.is_of(session)
        });
        let Content { catalog, families, instructions, saved } = content;
        let known_era = self.session().and_then(Engine::known_era).or(self.known_era);
        // Lists of a session that was replaced are private, and their time to live is not known.
        let received = || Origin {
            at,
            fresh_until: session.map(|session| fresh_until(session, now, at)).unwrap_or_default(),
            scope: session.map(Engine::cache_scope).unwrap_or_default(),
        };
        let Origin { at, fresh_until, scope } = saved.map_or_else(received, |origin| *origin);
        let entry = entry.fingerprint(key);
        let saved =
            Saved { key, entry, at, known_era, instructions, catalog, families, fresh_until, scope, user: None };
        Some(match user {
            Some(user) => saved.of_user(user),
            None => saved,
        })
    }

    /// Why calls are refused, as a text.
    pub(super) fn why_refused(&self) -> Box<str> {
        match &self.failure {
            Some(failure) => failure.message.clone(),
            None => alloc::format!("{} calls in a row failed", self.breaker.failures()).into(),
        }
    }
}
