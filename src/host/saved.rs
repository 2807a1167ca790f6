use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::config::Entry;
use crate::catalog::{Bounds, Catalog, Fingerprint, FingerprintKey};
use crate::client::{Engine, FamilyStatus, KnownEra, Limits};
use crate::jsonrpc::Json;
use crate::protocol::{Family, PerFamily};

/// What a server offered when it was last listed. An embedder saves it between runs; the hub uses it until the server
/// is needed ([`Hub::restore`](super::hub::Hub::restore)).
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
}

impl Saved {
    /// Saves what a session knows of its server. `entry` is the server's entry, `at` the time in seconds since 1970.
    pub fn of(session: &Engine, entry: &Entry, key: FingerprintKey, at: u64) -> Self {
        Self {
            key,
            entry: entry.fingerprint(key),
            at,
            known_era: session.known_era(),
            instructions: session.server().and_then(|server| server.instructions.clone()),
            catalog: session.catalog().clone(),
            families: PerFamily::from_fn(|family| session.family(family).status),
        }
    }

    /// Whether it was saved with this entry, or an equal one.
    pub fn is_of(&self, entry: &Entry) -> bool {
        entry.fingerprint(self.key) == self.entry
    }
}

/// A family, as serialized.
#[derive(Serialize, serde::Deserialize)]
struct Written<Items> {
    status: FamilyStatus,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    items: Option<Items>,
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
    families: BTreeMap<Family, Written<Items>>,
}

impl Serialize for Saved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let families = Family::EACH.into_iter().map(|family| {
            let list = self.catalog.list(family);
            let items: Vec<&RawValue> = list.iter().map(|(_, item)| Json::trusted(item).raw()).collect();
            let written = Written { status: *self.families.get(family), items: (!list.is_empty()).then_some(items) };
            (family, written)
        });
        let Self { key, entry, at, known_era, instructions, .. } = self.clone();
        Form { key, entry, at, known_era, instructions, families: families.collect() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Saved {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form::<Box<RawValue>> { key, entry, at, known_era, instructions, families } =
            Form::deserialize(deserializer)?;
        let limits = Limits::default();
        let bounds = Bounds { items: limits.items, bytes: limits.list_bytes, mirror: false };
        let (mut catalog, mut statuses) = (Catalog::default(), PerFamily::from_fn(|_| FamilyStatus::NotRequested));
        for (family, Written { status, items }) in families {
            *statuses.get_mut(family) = status;
            let Some(items) = items else { continue };
            let items = Json::checked(items.get(), limits.message.depth).ok_or("they are nested too deep");
            items.and_then(|items| catalog.restore(family, items, bounds)).map_err(|why| {
                de::Error::custom(format!("the saved items of `{}` are of no use: {why}", family.member()))
            })?;
        }
        Ok(Self { key, entry, at, known_era, instructions, catalog, families: statuses })
    }
}
