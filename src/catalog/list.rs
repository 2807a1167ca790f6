use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Fingerprint, FingerprintKey, hash};

/// Where an item and its key stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) page: u32,
    pub(super) start: u32,
    pub(super) len: u32,
    /// Relative to the item, or to the unescaped keys where the key has escapes.
    pub(super) key_start: u32,
    pub(super) key_len: u32,
    pub(super) unescaped: bool,
}

/// The items of one family: the pages as the server wrote them, and where in them each item stands.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub(super) pages: Vec<Box<str>>,
    pub(super) entries: Vec<Entry>,
    /// Indices of `entries`, by key.
    pub(super) by_key: Vec<u32>,
    /// Keys that are written with escapes, unescaped.
    pub(super) keys: String,
}

impl List {
    pub(super) const EMPTY: &'static Self =
        &Self { pages: Vec::new(), entries: Vec::new(), by_key: Vec::new(), keys: String::new() };

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each item's key (a name, a URI, a URI template) and its JSON, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| self.item(entry))
    }

    /// The key and the JSON of the item of this key.
    pub fn find(&self, key: &str) -> Option<(&str, &str)> {
        self.entry(key).map(|entry| self.item(entry))
    }

    /// The fingerprint of the item of this name, URI or URI template: of its JSON, byte for byte.
    pub fn fingerprint_of(&self, item: &str, key: FingerprintKey) -> Option<Fingerprint> {
        self.find(item).map(|(_, json)| Fingerprint::of(key, json.as_bytes()))
    }

    /// The fingerprint of all items, whatever their order. It is made of all bytes each time.
    pub fn fingerprint(&self, key: FingerprintKey) -> Fingerprint {
        Fingerprint::of_parts(key, self.sorted().map(|(_, json)| json.as_bytes()))
    }

    /// Whether the other one is the same, byte for byte, and has its items in the same order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.entries == other.entries && self.pages == other.pages
    }

    /// Whether the other one has the same items, byte for byte, in whatever order.
    pub(crate) fn has_same_items(&self, other: &Self) -> bool {
        self.len() == other.len() && self.sorted().eq(other.sorted())
    }

    /// An index for lists: the same for those that are the same, and for some others.
    pub(crate) fn hash(&self) -> u64 {
        self.pages.iter().fold(0, |all: u64, page| all.rotate_left(1) ^ hash(page.as_bytes()))
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let at = self.by_key.binary_search_by(|index| self.key_at(*index).cmp(key)).ok()?;
        self.entries.get(*self.by_key.get(at)? as usize)
    }

    pub(super) fn key_at(&self, index: u32) -> &str {
        self.entries.get(index as usize).map_or("", |entry| self.item(entry).0)
    }

    pub(super) fn item(&self, entry: &Entry) -> (&str, &str) {
        let page = self.pages.get(entry.page as usize).map_or("", |page| page);
        let item = slice(page, entry.start, entry.len);
        let keys = if entry.unescaped { &self.keys } else { item };
        (slice(keys, entry.key_start, entry.key_len), item)
    }

    /// As [`iter`](Self::iter), in the order of the keys.
    pub(super) fn sorted(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.by_key.iter().filter_map(|index| self.entries.get(*index as usize));
        entries.map(|entry| self.item(entry))
    }
}

fn slice(text: &str, start: u32, len: u32) -> &str {
    let (start, len) = (start as usize, len as usize);
    text.get(start..start.saturating_add(len)).unwrap_or("")
}
