use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::connection::Connection;
use super::lifecycle::Rank;
use super::shelf::Chosen;
use crate::Time;
use crate::catalog::{Catalog, FingerprintKey};
use crate::client::{Engine, Failure, FamilyStatus, KnownEra, RequestId};
use crate::host::config::Entry;
use crate::host::names::Target;
use crate::host::{Saved, Utility};
use crate::machine::{breaker, hub_server};
use crate::protocol::PerFamily;

/// A server, as long as its entry means the same.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) state: hub_server::State,
    /// How urgently it is wanted.
    pub(super) rank: Rank,
    /// Its session lost the connection, and does not try again for some time.
    pub(super) parked: bool,
    /// There is none until the server is wanted.
    pub(super) connection: Option<Connection>,
    /// What it was set up by, where the configuration says something else by now.
    pub(super) retired: Option<Box<Entry>>,
    /// It is closed for its entry's sake, and the server may have another session after it.
    pub(super) leaves: bool,
    pub(super) breaker: breaker::State,
    pub(super) failures: u32,
    /// Until when the server is left in peace.
    pub(super) rests_until: Time,
    pub(super) calls: BTreeMap<RequestId, Target>,
    /// Calls of utility tools that wait for the session to have listed.
    pub(super) lists: Vec<(u64, Utility)>,
    pub(super) offer: Option<Offer>,
    /// What is offered was saved then, in seconds since 1970, and nobody asked the server yet.
    pub(super) stands_in: Option<u64>,
    pub(super) known_era: Option<KnownEra>,
    pub(super) failure: Option<Failure>,
    pub(super) deadline: Option<Time>,
    /// It is among those that are to be polled.
    pub(super) touched: bool,
}

/// What a server offers.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) catalog: Catalog,
    pub(super) families: PerFamily<FamilyStatus>,
    pub(super) instructions: Option<Box<str>>,
    pub(super) chosen: Arc<Chosen>,
}

impl Member {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            state: hub_server::State::Idle,
            rank: Rank::Other,
            parked: false,
            connection: None,
            retired: None,
            leaves: false,
            breaker: breaker::State::Closed,
            failures: 0,
            rests_until: Time::ZERO,
            calls: BTreeMap::new(),
            lists: Vec::new(),
            offer: None,
            stands_in: None,
            known_era: None,
            failure: None,
            deadline: None,
            touched: false,
        }
    }

    pub(super) fn session(&self) -> Option<&Engine> {
        self.connection.as_deref()
    }

    pub(super) fn saved(&self, entry: &Entry, key: FingerprintKey, at: u64) -> Option<Saved> {
        let Offer { catalog, families, instructions, .. } = self.offer.clone()?;
        let known_era = self.session().and_then(Engine::known_era).or(self.known_era);
        let at = self.stands_in.unwrap_or(at);
        Some(Saved { key, entry: entry.fingerprint(key), at, known_era, instructions, catalog, families })
    }
}
