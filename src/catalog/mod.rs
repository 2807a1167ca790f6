//! What a server offers: four families of items, differences between two lists, fingerprints.
//!
//! Items stay raw JSON, byte for byte, one buffer per page; typed access is a view.

#[cfg(feature = "snapshot")]
pub(crate) mod form;
mod item;
mod list;
#[cfg(feature = "template")]
mod template;

#[cfg(feature = "http")]
pub(crate) use item::mirrored;
pub use item::{Prompt, PromptArgument, Resource, ResourceTemplate, TaskSupport, Tool, ToolHints};
pub use list::List;
pub(crate) use list::{Bounds, Builder, Flaws, Items, PageReport};
#[cfg(feature = "template")]
pub use template::{TemplateError, Variable};

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::Hasher;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::jsonrpc::Json;
use crate::protocol::{Family, PerFamily};

/// What a server offers, as last listed.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    lists: PerFamilyLists,
}

type PerFamilyLists = PerFamily<Option<Arc<List>>>;

impl Catalog {
    /// One family's items, in the server's order; empty if the family was not listed.
    pub fn list(&self, family: Family) -> &List {
        self.lists.get(family).as_deref().unwrap_or(List::EMPTY)
    }

    /// The tools, in the server's order.
    pub fn tools(&self) -> impl Iterator<Item = Tool<'_>> {
        self.list(Family::Tools).iter().map(|(key, raw)| Tool::read(key, raw))
    }

    /// The tool with this name.
    pub fn tool(&self, name: &str) -> Option<Tool<'_>> {
        self.list(Family::Tools).find(name).map(|(key, raw)| Tool::read(key, raw))
    }

    /// The prompts, in the server's order.
    pub fn prompts(&self) -> impl Iterator<Item = Prompt<'_>> {
        self.list(Family::Prompts).iter().map(|(key, raw)| Prompt::read(key, raw))
    }

    /// The prompt with this name.
    pub fn prompt(&self, name: &str) -> Option<Prompt<'_>> {
        self.list(Family::Prompts).find(name).map(|(key, raw)| Prompt::read(key, raw))
    }

    /// The resources, in the server's order.
    pub fn resources(&self) -> impl Iterator<Item = Resource<'_>> {
        self.list(Family::Resources).iter().map(|(key, raw)| Resource::read(key, raw))
    }

    /// The resource with this URI.
    pub fn resource(&self, uri: &str) -> Option<Resource<'_>> {
        self.list(Family::Resources).find(uri).map(|(key, raw)| Resource::read(key, raw))
    }

    /// The resource templates, in the server's order.
    pub fn resource_templates(&self) -> impl Iterator<Item = ResourceTemplate<'_>> {
        self.list(Family::ResourceTemplates).iter().map(|(key, raw)| ResourceTemplate::read(key, raw))
    }

    /// The resource template with this URI template.
    pub fn resource_template(&self, uri_template: &str) -> Option<ResourceTemplate<'_>> {
        self.list(Family::ResourceTemplates).find(uri_template).map(|(key, raw)| ResourceTemplate::read(key, raw))
    }

    /// The fingerprint of the whole catalogue, independent of the items' order. Each call hashes all bytes.
    pub fn fingerprint(&self, key: FingerprintKey) -> Fingerprint {
        let lists = Family::EACH.map(|family| self.list(family).fingerprint(key).get().to_le_bytes());
        Fingerprint::of_parts(key, lists.iter().map(|list| &list[..]))
    }

    pub(crate) fn replace(&mut self, family: Family, list: List) {
        *self.lists.get_mut(family) = (!list.is_empty()).then(|| Arc::new(list));
    }

    /// A family's shared list, if it has items.
    pub(crate) const fn held(&self, family: Family) -> Option<&Arc<List>> {
        self.lists.get(family).as_ref()
    }

    /// Sets a family's items to a list that other catalogues may share.
    pub(crate) fn share(&mut self, family: Family, list: Arc<List>) {
        *self.lists.get_mut(family) = Some(list);
    }

    /// Sets a family's items from an array that the embedder saved. The error describes why the array is rejected.
    pub(crate) fn restore(&mut self, family: Family, items: Json<'_>, bounds: Bounds) -> Result<(), &'static str> {
        let items = Items::read(family, &mut items.scan(), bounds).map_err(|_| "they are not an array")?;
        let mut builder = Builder::default();
        if builder.add(items, bounds).over {
            return Err("there are too many");
        }
        self.replace(family, builder.finish());
        Ok(())
    }
}

/// The changes between two lists: keys, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Difference {
    /// Items only in the new list.
    pub added: Vec<Box<str>>,
    /// Items only in the old list.
    pub removed: Vec<Box<str>>,
    /// Items in both lists whose JSON differs.
    pub changed: Vec<Box<str>>,
}

impl Difference {
    /// A difference with these keys, each list sorted.
    pub const fn new(added: Vec<Box<str>>, removed: Vec<Box<str>>, changed: Vec<Box<str>>) -> Self {
        Self { added, removed, changed }
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// The changes from `before` to `after`.
    pub fn between(before: &List, after: &List) -> Self {
        let mut difference = Self::default();
        let (mut old, mut new) = (before.by_hash().peekable(), after.by_hash().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let was = if order.is_le() { old.next() } else { None };
            let is = if order.is_ge() { new.next() } else { None };
            match (was, is) {
                (Some(((_, key), _)), None) => difference.removed.push(key.into()),
                (None, Some(((_, key), _))) => difference.added.push(key.into()),
                (Some((_, was)), Some(((_, key), is))) if was != is => difference.changed.push(key.into()),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        for keys in [&mut difference.added, &mut difference.removed, &mut difference.changed] {
            keys.sort_unstable();
        }
        difference
    }
}

/// The secret key for [`Fingerprint`]s: 16 bytes from a secure random source. The embedder generates it once and stores
/// it.
///
/// Anyone who knows the key can construct two texts with the same fingerprint. Do not reveal it to a server, and do not
/// share one key between installations. Fingerprints made with different keys differ even for the same text: if the key
/// is lost, everything counts as changed once. Serialized as 32 hexadecimal digits; `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FingerprintKey([u8; 16]);

impl FingerprintKey {
    /// A key from bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for storage.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(…)")
    }
}

impl Serialize for FingerprintKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fingerprint(u128::from_be_bytes(self.0)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FingerprintKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Fingerprint::deserialize(deserializer).map(|Fingerprint(number)| Self(number.to_be_bytes()))
    }
}

/// Identifies a text, item or catalogue across runs, machines and releases without keeping the text: 128 bits of
/// SipHash-1-3 with a [`FingerprintKey`].
///
/// Without the key nobody can construct another text with the same fingerprint. Serialized as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of these bytes.
    pub fn of(key: FingerprintKey, bytes: &[u8]) -> Self {
        Self::of_parts(key, [bytes])
    }

    /// The fingerprint of a sequence of parts.
    fn of_parts<'a>(key: FingerprintKey, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = SipHasher13::new_with_key(&key.0);
        for part in parts {
            // The length separates the parts.
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        Self(hasher.finish128().as_u128())
    }

    /// The fingerprint as a number.
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        number.map(Self).ok_or_else(|| de::Error::custom("not 32 hexadecimal digits"))
    }
}
