//! The items of one family, as listed, and how a list is built page by page.

use super::item::{Judgement, judge};
use super::{Fingerprint, FingerprintKey};
use crate::collections::hash;
use crate::jsonrpc::{Json, Scan};
use crate::protocol::Family;
use crate::text::cut;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

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
    /// The places of `entries`, by hash of the key, then by key.
    pub(super) index: Vec<Place>,
    /// Keys written with escapes, unescaped.
    pub(super) keys: String,
    /// An entry is `mirrored`.
    pub(super) mirrored: bool,
}

impl List {
    pub(super) const EMPTY: &'static Self =
        &Self { pages: Vec::new(), entries: Vec::new(), index: Vec::new(), keys: String::new(), mirrored: false };

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
        Fingerprint::of_parts(key, self.by_hash().map(|(_, json)| json.as_bytes()))
    }

    /// Whether the other list has the same items, byte for byte, in the same order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.entries == other.entries && self.pages == other.pages
    }

    /// Whether the other list has the same items, byte for byte, in any order.
    pub(crate) fn has_same_items(&self, other: &Self) -> bool {
        self.len() == other.len() && self.by_hash().eq(other.by_hash())
    }

    /// A hash: equal for equal lists; different lists may share it.
    pub(crate) fn hash(&self) -> u64 {
        self.pages.iter().fold(0, |all: u64, page| all.rotate_left(1) ^ hash(page.as_bytes()))
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let place = find(self, &self.index, Place::hash(key), || key)?;
        self.entries.get(place.entry())
    }

    /// The hash and the key of the entry at this place.
    pub(super) fn key_at(&self, place: Place) -> (u32, &str) {
        let key = self.entries.get(place.entry()).map_or("", |entry| self.key(entry));
        (place.key_hash(), key)
    }

    fn key(&self, entry: &Entry) -> &str {
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

    /// Each item's hash and key, and its JSON, in an order that depends on the keys alone.
    pub(super) fn by_hash(&self) -> impl Iterator<Item = ((u32, &str), &str)> {
        self.index.iter().filter_map(|place| {
            let (key, item) = self.item(self.entries.get(place.entry())?);
            Some(((place.key_hash(), key), item))
        })
    }
}

/// The place of an entry in an index: half of its key's hash, then its number, so that the order of the numbers is mostly
/// that of the index, and keys are rarely compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Place(u64);

impl Place {
    fn new(key: &str, entry: u32) -> Self {
        Self((u64::from(Self::hash(key)) << 32) | u64::from(entry))
    }

    /// The half of a key's hash that places have.
    pub(super) fn hash(key: &str) -> u32 {
        u32::try_from(hash(key.as_bytes()) >> 32).unwrap_or_default()
    }

    /// The place of another entry with the same key.
    const fn moved(self, entry: u32) -> Self {
        Self((self.0 & !0xffff_ffff) | entry as u64)
    }

    pub(super) const fn key_hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) const fn entry(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// Sorts places by hash, then by key, then by entry.
fn sort(list: &List, places: &mut [Place]) {
    places.sort();
    if places.iter().zip(places.iter().skip(1)).all(|(one, next)| one.key_hash() != next.key_hash()) {
        return;
    }
    for same in places.chunk_by_mut(|one, next| one.key_hash() == next.key_hash()).filter(|same| same.len() > 1) {
        same.sort_by(|one, other| list.key_at(*one).cmp(&list.key_at(*other)));
    }
}

/// The place of a key in sorted places. Keys are read only where the hash is the same.
fn find<'a>(list: &List, places: &[Place], hash: u32, key: impl FnOnce() -> &'a str) -> Option<Place> {
    let (_, from) = places.split_at_checked(places.partition_point(|place| place.key_hash() < hash))?;
    from.first().filter(|place| place.key_hash() == hash)?;
    let (same, _) = from.split_at_checked(from.partition_point(|place| place.key_hash() == hash))?;
    let key = key();
    same.get(same.binary_search_by(|place| list.key_at(*place).1.cmp(key)).ok()?).copied()
}

fn slice(text: &str, start: u32, len: u32) -> &str {
    let (start, len) = (start as usize, len as usize);
    text.get(start..start.saturating_add(len)).unwrap_or("")
}

/// Bounds of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
    /// Whether header annotations are checked (specification 2026-07-28, "Streamable HTTP").
    pub(crate) mirror: bool,
}

/// Descriptions of the first [`Flaws::NAMED`] faulty items, and the number of further ones.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Flaws {
    named: Vec<Box<str>>,
    more: usize,
}

impl Flaws {
    const NAMED: usize = 20;
    /// Maximum characters of one description.
    const EACH: usize = 240;

    fn add(&mut self, words: impl FnOnce() -> String) {
        if self.named.len() >= Self::NAMED {
            self.more = self.more.saturating_add(1);
            return;
        }
        self.named.push(cut(&words(), Self::EACH).into());
    }

    /// Appends the flaws of a further page.
    pub(crate) fn extend(&mut self, page: Self) {
        let room = Self::NAMED.saturating_sub(self.named.len());
        self.more = self.more.saturating_add(page.named.len().saturating_sub(room)).saturating_add(page.more);
        self.named.extend(page.named.into_iter().take(room));
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    pub(crate) fn words(&self) -> String {
        let words = self.named.join("; ");
        if self.more == 0 { words } else { alloc::format!("{words}; and {} more", self.more) }
    }
}

/// What one page added and what was wrong with it.
#[derive(Debug, Default)]
pub(crate) struct PageReport {
    /// Number of new items.
    pub(crate) added: usize,
    /// Items left out because the list already has their key.
    pub(crate) duplicate: Flaws,
    /// Items that were left out or lost a member, with the reason.
    pub(crate) invalid: Flaws,
    /// A bound was reached; further items were left out.
    pub(crate) over: bool,
}

/// The items of a page, before they are added to a list.
#[derive(Debug)]
pub(crate) struct Items<'a> {
    text: &'a str,
    entries: Vec<Entry>,
    keys: String,
    invalid: Flaws,
    over: bool,
}

impl<'a> Items<'a> {
    pub(crate) const EMPTY: Self = Self {
        text: "[]",
        entries: Vec::new(),
        keys: String::new(),
        invalid: Flaws { named: Vec::new(), more: 0 },
        over: false,
    };

    /// Reads the next value, an array of items as the server wrote it. If it is not an array, the error is that value.
    pub(crate) fn read(family: Family, scan: &mut Scan<'a>, bounds: Bounds) -> Result<Self, Option<Json<'a>>> {
        let mut items = Self::EMPTY;
        let mut seen = 0_usize;
        let start = scan.next_place();
        let array = scan.each_element(|scan| {
            seen = seen.saturating_add(1);
            if seen > bounds.items {
                return false;
            }
            let Some((item, judgement)) = judge(family, scan, bounds.mirror) else { return false };
            match judgement {
                Judgement::Kept { key, flaw, mirrored } => {
                    if let Some(flaw) = flaw {
                        items.invalid.add(|| describe(&key, &flaw));
                    }
                    let end = scan.place().saturating_sub(start);
                    let entry = items.entry(end.saturating_sub(item.text().len()), item.text(), key);
                    items.entries.extend(entry.map(|entry| Entry { mirrored, ..entry }));
                }
                Judgement::LeftOut { key, why } => items.invalid.add(|| {
                    let key = key.unwrap_or_else(|| alloc::format!("item {seen} of its page").into());
                    describe(&key, &alloc::format!("left out: {why}"))
                }),
            }
            true
        });
        let Some((array, over)) = array else { return Err(scan.value()) };
        (items.text, items.over) = (array.text(), over);
        Ok(items)
    }

    fn entry(&mut self, start: usize, item: &str, key: Cow<'_, str>) -> Option<Entry> {
        let key_len = u32::try_from(key.len()).ok()?;
        let (unescaped, key_start) = match key {
            Cow::Borrowed(key) => (false, offset(item, key)?),
            Cow::Owned(key) => {
                let start = self.keys.len();
                self.keys.push_str(&key);
                (true, start)
            }
        };
        Some(Entry {
            page: 0,
            start: u32::try_from(start).ok()?,
            len: u32::try_from(item.len()).ok()?,
            key_start: u32::try_from(key_start).ok()?,
            key_len,
            unescaped,
            mirrored: false,
        })
    }
}

/// Builds a list page by page.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Builder {
    #[cfg_attr(feature = "snapshot", serde(with = "super::form::list"))]
    list: List,
    bytes: usize,
    /// Every entry, in sorted runs. Each run is at most half as long as the one before it, so that a lookup visits few runs
    /// and an entry is merged few times.
    runs: Vec<Vec<Place>>,
}

impl Builder {
    /// Adds a page's items, except those whose key is already in the list.
    pub(crate) fn add(&mut self, page: Items<'_>, bounds: Bounds) -> PageReport {
        let mut report = PageReport { invalid: page.invalid, over: page.over, ..PageReport::default() };
        self.bytes = self.bytes.saturating_add(page.text.len());
        let list = &mut self.list;
        let number = u32::try_from(list.pages.len()).ok();
        let (keys, ends) = (u32::try_from(list.keys.len()), u32::try_from(self.bytes.saturating_add(list.keys.len())));
        let (Some(number), Ok(keys), Ok(_), true) = (number, keys, ends, self.bytes <= bounds.bytes) else {
            return PageReport { over: true, ..PageReport::default() };
        };
        if page.entries.is_empty() {
            return report;
        }
        list.pages.push(page.text.into());
        list.keys.push_str(&page.keys);
        let base = list.entries.len();
        list.entries.extend(page.entries.into_iter().map(|entry| {
            let keys = if entry.unescaped { keys } else { 0 };
            Entry { page: number, key_start: entry.key_start.saturating_add(keys), ..entry }
        }));
        let mut run = Vec::with_capacity(list.entries.len().saturating_sub(base));
        let first = u32::try_from(base).unwrap_or(u32::MAX);
        // Skips the earlier pages in one step, which a zipped iterator does not.
        for (index, entry) in (first..).zip(list.entries.iter().skip(base)) {
            run.push(Place::new(list.key(entry), index));
        }
        sort(list, &mut run);
        let twice = self.known(&run);
        if !twice.is_empty() || self.list.entries.len() > bounds.items {
            self.leave_out(&mut run, base, twice, bounds, &mut report);
        }
        report.added = run.len();
        while let Some(mut longer) = self.runs.pop_if(|last| last.len() < run.len().saturating_mul(2)) {
            longer.append(&mut run);
            sort(&self.list, &mut longer);
            run = longer;
        }
        self.runs.push(run);
        report
    }

    /// The entries of a sorted run whose key is already in an earlier run, or earlier in this run; in their order.
    fn known(&self, run: &[Place]) -> Vec<usize> {
        let list = &self.list;
        let mut last: Option<Place> = None;
        let known = |place: &&Place| {
            let (hash, key) = (place.key_hash(), || list.key_at(**place).1);
            let before = last.replace(**place).filter(|before| before.key_hash() == hash);
            before.is_some_and(|before| list.key_at(before).1 == key())
                || self.runs.iter().any(|run| find(list, run, hash, key).is_some())
        };
        let mut twice: Vec<_> = run.iter().filter(known).map(|place| place.entry()).collect();
        twice.sort_unstable();
        twice
    }

    /// Removes entries from `base` on: those with a duplicate key, and those beyond the bound.
    fn leave_out(
        &mut self,
        run: &mut Vec<Place>,
        base: usize,
        twice: Vec<usize>,
        bounds: Bounds,
        report: &mut PageReport,
    ) {
        let fresh = self.list.entries.split_off(base);
        let mut twice = twice.into_iter().peekable();
        let mut places = Vec::with_capacity(fresh.len());
        for (at, entry) in (base..).zip(fresh) {
            if twice.next_if_eq(&at).is_some() {
                let key = self.list.item(&entry).0;
                report.duplicate.add(|| describe(key, "came twice; the first is kept"));
                places.push(None);
                continue;
            }
            if self.list.entries.len() >= bounds.items {
                report.over = true;
                break;
            }
            places.push(u32::try_from(self.list.entries.len()).ok());
            self.list.entries.push(entry);
        }
        run.retain_mut(|place| {
            let entry = place.entry().checked_sub(base).and_then(|at| *places.get(at)?);
            *place = entry.map_or(*place, |entry| place.moved(entry));
            entry.is_some()
        });
    }

    /// Checks the limits of a list that is being received, and its index.
    #[cfg(feature = "snapshot")]
    pub(crate) fn check(&self, items: usize, bytes: usize) -> Result<(), crate::snapshot::SnapshotError> {
        let indexed = self.runs.iter().map(Vec::len).fold(0, usize::saturating_add);
        let known = self.runs.iter().flatten().all(|place| place.entry() < self.list.len());
        if indexed != self.list.len() || !known {
            return Err(crate::snapshot::invalid("the index of a list is not one of its items"));
        }
        self.list.check(items, bytes)
    }

    /// The list of all pages added.
    pub(crate) fn finish(mut self) -> List {
        let mut index = self.runs.concat();
        if self.runs.len() > 1 {
            sort(&self.list, &mut index);
        }
        self.list.index = index;
        self.list.mirrored = self.list.entries.iter().any(|entry| entry.mirrored);
        self.list.entries.shrink_to_fit();
        self.list.pages.shrink_to_fit();
        self.list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

fn describe(key: &str, flaw: &str) -> String {
    alloc::format!("{}: {flaw}", cut(key, LONGEST_KEY))
}

/// Maximum characters of a key in a description.
const LONGEST_KEY: usize = 64;

/// The offset of `part`, a slice of `whole`.
fn offset(whole: &str, part: &str) -> Option<usize> {
    (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize).filter(|at| *at <= whole.len())
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use proptest::prelude::*;
    use proptest::test_runner::FileFailurePersistence;

    use super::*;

    /// An item with some key, in one of its spellings; an item without a key is left out.
    #[derive(Clone, Debug)]
    struct Item {
        key: Option<String>,
        json: String,
    }

    fn item() -> impl Strategy<Value = Item> {
        let keyed = (prop::sample::select(vec!["", "a", "b", "ab", "é", "zz"]), 0..3, any::<u8>());
        let keyed = keyed.prop_map(|(key, spelling, n)| {
            let written = match spelling {
                0 => key.into(),
                1 => key.chars().map(|char| format!("\\u{:04x}", u32::from(char))).collect(),
                _ => key.replace('a', "\\u0061"),
            };
            Item { key: Some(key.into()), json: format!(r#"{{ "x":[{n}, "]"],"name" : "{written}"}}"#) }
        });
        let keyless = prop::sample::select(vec!["1", "{}", "[[]]", r#"{"name":1}"#]);
        prop_oneof![5 => keyed, 1 => keyless.prop_map(|json| Item { key: None, json: json.into() })]
    }

    /// A straightforward model of the builder.
    #[derive(Default)]
    struct Model {
        bytes: usize,
        items: Vec<(String, String)>,
    }

    impl Model {
        fn add(&mut self, page: &[Item], len: usize, bounds: Bounds) -> PageReport {
            let mut report = PageReport::default();
            self.bytes = self.bytes.saturating_add(len);
            if self.bytes > bounds.bytes {
                return PageReport { over: true, ..report };
            }
            report.over = page.len() > bounds.items;
            let before = self.items.len();
            for Item { key, json } in page.iter().take(bounds.items) {
                let Some(key) = key else { continue };
                if self.items.iter().any(|(known, _)| known == key) {
                    report.duplicate.add(|| format!("{key}: came twice; the first is kept"));
                } else if self.items.len() < bounds.items {
                    self.items.push((key.clone(), json.clone()));
                } else {
                    report.over = true;
                    break;
                }
            }
            let keyless = page.iter().take(bounds.items).filter(|item| item.key.is_none());
            keyless.for_each(|_| report.invalid.add(String::new));
            report.added = self.items.len().saturating_sub(before);
            report
        }
    }

    fn config() -> ProptestConfig {
        let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/catalog.txt"));
        ProptestConfig { failure_persistence: Some(path), ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn pages_make_the_list_that_the_plainest_way_makes(
            pages in prop::collection::vec(prop::collection::vec(item(), 0..6), 0..8),
            items in prop_oneof![3 => Just(100_usize), 1 => 0..8_usize],
            bytes in prop_oneof![3 => Just(1_usize << 20), 1 => 0..400_usize],
        ) {
            let bounds = Bounds { items, bytes, mirror: false };
            let (mut builder, mut model) = (Builder::default(), Model::default());
            for page in &pages {
                let items: Vec<_> = page.iter().map(|item| &*item.json).collect();
                let text = format!("[{}]", items.join(" ,"));
                let within = format!(r#"{{"a" : {text},"b":1}}"#);
                let mut report = None;
                Json::trusted(&within).scan().each_member(|name, value| {
                    if name == "a" {
                        let items = Items::read(Family::Prompts, value, bounds).expect("an array");
                        assert_eq!(items.text, text);
                        report = Some(builder.add(items, bounds));
                    } else {
                        assert_eq!(value.value().map(Json::text), Some("1"));
                    }
                });
                let (read, expected) = (report.expect("a page"), model.add(page, text.len(), bounds));
                prop_assert_eq!(
                    (read.added, read.duplicate.named, read.invalid.named.len(), read.over),
                    (expected.added, expected.duplicate.named, expected.invalid.named.len(), expected.over)
                );
            }
            let list = builder.finish();
            let found: Vec<_> = list.iter().map(|(key, json)| (key.into(), json.into())).collect();
            prop_assert_eq!(&found, &model.items);
            for (key, json) in &model.items {
                prop_assert_eq!(list.find(key), Some((&**key, &**json)));
            }
            prop_assert_eq!(list.find("none"), None);
            let mut sorted: Vec<_> = model.items.iter().map(|(key, _)| (Place::hash(key), &**key)).collect();
            sorted.sort_unstable();
            prop_assert_eq!(list.by_hash().map(|(key, _)| key).collect::<Vec<_>>(), sorted);
        }
    }
}
