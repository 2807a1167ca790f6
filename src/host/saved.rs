use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::config::Entry;
use crate::Time;
use crate::catalog::{Bounds, Catalog, Fingerprint, FingerprintKey};
use crate::client::{Engine, FamilyStatus, KnownEra, Limits};
use crate::jsonrpc::Json;
use crate::protocol::{CacheScope, Family, PerFamily};

/// What a server offered when it was last listed. An embedder saves it between runs; the hub uses it until the server
/// is needed ([`Hub::restore`](super::hub::Hub::restore)).
///
/// If the server tells how long its lists are fresh, [`is_fresh`](Self::is_fresh) tells whether they still are: a host
/// that does not want to use stale lists starts the server ([`Hub::start`](super::hub::Hub::start)). Lists that the server
/// does not call public belong to the user for whom they were requested. A host with several users gives the user in
/// [`HubOptions::user`](super::hub::HubOptions::user).
///
/// Serialize and deserialize it with `serde_json`. When it is deserialized, its contents are validated like a server's
/// messages, within [`Limits::default`]. Store the text unchanged: a conversion through `serde_json::Value` may reorder
/// members, and then the items count as changed after the next listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The key of `entry`. It is saved too, so that a later run with another key can check the fingerprint.
    pub key: FingerprintKey,
    /// The fingerprint of the server's entry ([`Entry::fingerprint`]). If the entry's fingerprint changed, the saved
    /// data does not apply.
    pub entry: Fingerprint,
    /// When it was saved, in seconds since 1970. The embedder provides the time.
    pub at: u64,
    /// The server's era. The next handshake skips the discover request for a legacy server.
    pub known_era: Option<KnownEra>,
    /// The server's instructions for the model.
    pub instructions: Option<Box<str>>,
    /// The items that the server listed.
    pub catalog: Catalog,
    /// The status of each family.
    pub families: PerFamily<FamilyStatus>,
    /// Until when each list is fresh ([`FamilyReport::fresh_until`](crate::FamilyReport::fresh_until)), in seconds since
    /// 1970; `None` if the server did not say.
    pub fresh_until: PerFamily<Option<u64>>,
    /// Who may use it ([`Engine::cache_scope`]).
    pub scope: CacheScope,
    /// The fingerprint of the user who may use it, if only that user may ([`of_user`](Self::of_user)).
    pub user: Option<Fingerprint>,
}

impl Saved {
    /// Saves what a session knows of its server. `entry` is the server's entry, `at` the time in seconds since 1970, and
    /// `now` the same time by the clock of the session's inputs.
    pub fn of(session: &Engine, now: Time, entry: &Entry, key: FingerprintKey, at: u64) -> Self {
        Self {
            key,
            entry: entry.fingerprint(key),
            at,
            known_era: session.known_era(),
            instructions: session.server().and_then(|server| server.instructions.clone()),
            catalog: session.catalog().clone(),
            families: PerFamily::from_fn(|family| session.family(family).status),
            fresh_until: fresh_until(session, now, at),
            scope: session.cache_scope(),
            user: None,
        }
    }

    /// What was saved for this user, whom any text identifies. If it is private, [`is_for`](Self::is_for) and
    /// [`Hub::restore`](super::hub::Hub::restore) accept it for no other user. The text is not kept.
    #[must_use]
    pub fn of_user(mut self, user: &str) -> Self {
        self.user = match self.scope {
            CacheScope::Public => None,
            CacheScope::Private => Some(Fingerprint::of(self.key, user.as_bytes())),
        };
        self
    }

    /// Whether it may be used for this user; `None` is a host that has one user only.
    pub fn is_for(&self, user: Option<&str>) -> bool {
        match self.scope {
            CacheScope::Public => true,
            CacheScope::Private => self.user == user.map(|user| Fingerprint::of(self.key, user.as_bytes())),
        }
    }

    /// Whether every list is fresh at this time, in seconds since 1970. A list without a time to live is not.
    pub fn is_fresh(&self, at: u64) -> bool {
        Family::EACH.into_iter().all(|family| match self.families.get(family) {
            FamilyStatus::Listed | FamilyStatus::Partial => {
                self.fresh_until.get(family).is_some_and(|until| at < until)
            }
            FamilyStatus::NotRequested | FamilyStatus::NotAdvertised | FamilyStatus::Absent | FamilyStatus::Failed => {
                true
            }
        })
    }

    /// Whether it was saved with this entry, or an equal one.
    pub fn is_of(&self, entry: &Entry) -> bool {
        entry.fingerprint(self.key) == self.entry
    }
}

/// Until when the lists of a session are fresh, in seconds since 1970. `now` and `at` are the same time.
pub(super) fn fresh_until(session: &Engine, now: Time, at: u64) -> PerFamily<Option<u64>> {
    PerFamily::from_fn(|family| {
        let report = session.family(family);
        let left = report.fresh_until?.since(now).as_secs();
        Some(if report.stale { at } else { at.saturating_add(left) })
    })
}

/// A family, as serialized.
#[derive(Serialize, serde::Deserialize)]
struct Written<Items> {
    status: FamilyStatus,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    items: Option<Items>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fresh_until: Option<u64>,
}

fn none<T>() -> Option<T> {
    None
}

/// The serialized form.
#[derive(Serialize, serde::Deserialize)]
#[serde(bound(deserialize = "Items: de::Deserialize<'de>"))]
struct Form<Items> {
    key: FingerprintKey,
    entry: Fingerprint,
    at: u64,
    known_era: Option<KnownEra>,
    instructions: Option<Box<str>>,
    #[serde(default)]
    scope: CacheScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<Fingerprint>,
    families: BTreeMap<Family, Written<Items>>,
}

impl Serialize for Saved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let families = Family::EACH.into_iter().map(|family| {
            let list = self.catalog.list(family);
            let items: Vec<&RawValue> = list.iter().map(|(_, item)| Json::trusted(item).raw()).collect();
            let written = Written {
                status: *self.families.get(family),
                items: (!list.is_empty()).then_some(items),
                fresh_until: *self.fresh_until.get(family),
            };
            (family, written)
        });
        let families = families.collect();
        let Self { key, entry, at, known_era, instructions, scope, user, .. } = self.clone();
        Form { key, entry, at, known_era, instructions, scope, user, families }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Saved {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form::<Box<RawValue>> { key, entry, at, known_era, instructions, scope, user, families } =
            Form::deserialize(deserializer)?;
        let limits = Limits::default();
        let bounds = Bounds { items: limits.items, bytes: limits.list_bytes, mirror: false };
        let (mut catalog, mut statuses) = (Catalog::default(), PerFamily::from_fn(|_| FamilyStatus::NotRequested));
        let mut fresh_until = PerFamily::default();
        for (family, Written { status, items, fresh_until: until }) in families {
            *statuses.get_mut(family) = status;
            *fresh_until.get_mut(family) = until;
            let Some(items) = items else { continue };
            let items = Json::checked(items.get(), limits.message.depth).ok_or("they are nested too deep");
            items.and_then(|items| catalog.restore(family, items, bounds)).map_err(|why| {
                de::Error::custom(format!("the saved items of `{}` are invalid: {why}", family.member()))
            })?;
        }
        let families = statuses;
        Ok(Self { key, entry, at, known_era, instructions, catalog, families, fresh_until, scope, user })
    }
}
