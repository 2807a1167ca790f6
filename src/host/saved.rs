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

/// What a server offered when it was last asked, to be kept between runs: it stands in for the server until somebody
/// needs that one ([`Hub::restore`](super::hub::Hub::restore)).
///
/// It is written as JSON, by `serde_json`, and read likewise; what was written by something else is judged as what a
/// server sends, and bounded by [`Limits::default`]. Keep the text as it is: a detour over `serde_json::Value` may sort
/// the members of items, which count as changed then when the server is asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The key of `entry`. It is saved beside it, so that the fingerprint can be compared in a run that has another key.
    pub key: FingerprintKey,
    /// The fingerprint of the server's entry ([`Entry::fingerprint`]). What was saved under another entry tells nothing
    /// of the server.
    pub entry: Fingerprint,
    /// When it was saved, in seconds since 1970: the embedder's word, since this crate knows no calendar.
    pub at: u64,
    /// The server's era, which spares the next handshake the probe.
    pub known_era: Option<KnownEra>,
    /// How the server's author wants it used, for the model.
    pub instructions: Option<Box<str>>,
    /// What it offers.
    pub catalog: Catalog,
    /// What became of each family.
    pub families: PerFamily<FamilyStatus>,
}

impl Saved {
    /// What a session knows of its server, which was set up by this entry; `at` is the time, in seconds since 1970.
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

    /// Whether it was saved under this entry, or one that means the same.
    pub fn is_of(&self, entry: &Entry) -> bool {
        entry.fingerprint(self.key) == self.entry
    }
}

/// A family as it is written.
#[derive(Serialize, serde::Deserialize)]
struct Written<Items> {
    status: FamilyStatus,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    items: Option<Items>,
}

fn none<T>() -> Option<T> {
    None
}

/// What is saved, as it is written.
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
        let families = Family::ALL.into_iter().map(|family| {
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
        let (mut catalog, mut statuses) = (Catalog::default(), PerFamily::from_fn(|_| FamilyStatus::Unasked));
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
