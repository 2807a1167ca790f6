use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Fingerprint, FingerprintKey, hash};

/// The positions of an item and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) page: u32,
    pub(super) start: u32,
    pub(super) len: u32,
    /// Offset in the item, or in `keys` if the key has escapes.
    pub(super) key_start: u32,
    pub(super) key_len: u32,
    pub(super) unescaped: bool,
    /// The schema of a tool may name arguments that HTTP headers repeat.
    pub(super) mirrored: bool,
}

/// The items of one family: the pages as the server wrote them, and the position of each item.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub(super) pages: Vec<Box<str>>,
    pub(super) entries: Vec<Entry>,
    /// Indices of `entries`, by key.
    pub(super) by_key: Vec<u32>,
    /// Keys written with escapes, unescaped.
    pub(super) keys: String,
    /// An entry is `mirrored`.
    pub(super) mirrored: bool,
}

impl List {
    pub(super) const EMPTY: &'static Self =
        &Self { pages: Vec::new(), entries: Vec::new(), by_key: Vec::new(), keys: String::new(), mirrored: false };

    /// Number of items.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list has no items.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each item's key (a name, a URI, a URI template) and its JSON, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| self.item(entry))
    }

    /// The key and the JSON of an item.
    pub fn find(&self, key: &str) -> Option<(&str, &str)> {
        self.entry(key).map(|entry| self.item(entry))
    }

    /// Whether the schema of this tool may name arguments that HTTP headers repeat.
    #[cfg(feature = "http")]
    pub(crate) fn is_mirrored(&self, tool: &str) -> bool {
        self.mirrored && self.entry(tool).is_some_and(|entry| entry.mirrored)
    }

    /// The fingerprint of an item's JSON. `item` is its name, URI or URI template.
    pub fn fingerprint_of(&self, item: &str, key: FingerprintKey) -> Option<Fingerprint> {
        self.find(item).map(|(_, json)| Fingerprint::of(key, json.as_bytes()))
    }

    /// The fingerprint of all items, independent of their order. Each call hashes all bytes.
    pub fn fingerprint(&self, key: FingerprintKey) -> Fingerprint {
        Fingerprint::of_parts(key, self.sorted().map(|(_, json)| json.as_bytes()))
    }

    /// Whether the other list has the same items, byte for byte, in the same order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.entries == other.entries && self.pages == other.pages
    }

    /// Whether the other list has the same items, byte for byte, in any order.
    pub(crate) fn has_same_items(&self, other: &Self) -> bool {
        self.len() == other.len() && self.sorted().eq(other.sorted())
    }

    /// A hash: equal for equal lists; different lists may share it.
    pub(crate) fn hash(&self) -> u64 {
        self.pages.iter().fold(0, |all: u64, page| all.rotate_left(1) ^ hash(page.as_bytes()))
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let at = self.by_key.binary_search_by(|index| self.key_at(*index).cmp(key)).ok()?;
        self.entries.get(*self.by_key.get(at)? as usize)
    }

    pub(super) fn key_at(&self, index: u32) -> &str {
        let Some(entry) = self.entries.get(index as usize) else { return "" };
        if entry.unescaped {
            return slice(&self.keys, entry.key_start, entry.key_len);
        }
        let page = self.pages.get(entry.page as usize).map_or("", |page| page);
        slice(page, entry.start.saturating_add(entry.key_start), entry.key_len)
    }

    pub(super) fn item(&self, entry: &Entry) -> (&str, &str) {
        let page = self.pages.get(entry.page as usize).map_or("", |page| page);
        let item = slice(page, entry.start, entry.len);
        let keys = if entry.unescaped { &self.keys } else { item };
        (slice(keys, entry.key_start, entry.key_len), item)
    }

    /// Like [`iter`](Self::iter), sorted by key.
    pub(super) fn sorted(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.by_key.iter().filter_map(|index| self.entries.get(*index as usize));
        entries.map(|entry| self.item(entry))
    }
}

fn slice(text: &str, start: u32, len: u32) -> &str {
    let (start, len) = (start as usize, len as usize);
    text.get(start..start.saturating_add(len)).unwrap_or("")
}
