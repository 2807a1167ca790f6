use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Fingerprint;
use super::item::{Judgement, judge};
use crate::jsonrpc::Json;
use crate::protocol::Family;

/// Where an item and its key stand.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    start: u32,
    len: u32,
    /// Relative to the item, or to the unescaped keys where the key has escapes.
    key_start: u32,
    key_len: u32,
    unescaped: bool,
    fingerprint: Fingerprint,
}

/// The items of one family: the pages as the server wrote them, and where in them each item stands.
#[derive(Clone, Debug, Default)]
pub struct List {
    pages: Vec<Box<str>>,
    entries: Vec<Entry>,
    /// Indices of `entries`, by key.
    by_key: Vec<u32>,
    /// Keys that are written with escapes, unescaped.
    keys: String,
    fingerprint: Fingerprint,
}

impl List {
    pub(super) const EMPTY: &'static Self = &Self {
        pages: Vec::new(),
        entries: Vec::new(),
        by_key: Vec::new(),
        keys: String::new(),
        fingerprint: Fingerprint::NONE,
    };

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

    /// The fingerprint of the item of this key: of its JSON, byte for byte.
    pub fn fingerprint_of(&self, key: &str) -> Option<Fingerprint> {
        self.entry(key).map(|entry| entry.fingerprint)
    }

    /// The fingerprint of all items, whatever their order.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let at = self.by_key.binary_search_by(|index| self.key_at(*index).cmp(key)).ok()?;
        self.entries.get(*self.by_key.get(at)? as usize)
    }

    fn key_at(&self, index: u32) -> &str {
        self.entries.get(index as usize).map_or("", |entry| self.item(entry).0)
    }

    fn item(&self, entry: &Entry) -> (&str, &str) {
        let page = self.pages.get(entry.page as usize).map_or("", |page| page);
        let item = slice(page, entry.start, entry.len);
        let keys = if entry.unescaped { &self.keys } else { item };
        (slice(keys, entry.key_start, entry.key_len), item)
    }

    /// The entries in the order of their keys.
    fn sorted(&self) -> impl Iterator<Item = (&str, Fingerprint)> {
        let entries = self.by_key.iter().filter_map(|index| self.entries.get(*index as usize));
        entries.map(|entry| (self.item(entry).0, entry.fingerprint))
    }
}

fn slice(text: &str, start: u32, len: u32) -> &str {
    let (start, len) = (start as usize, len as usize);
    text.get(start..start.saturating_add(len)).unwrap_or("")
}

/// In what a list differs from the one before it, by key, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Items that are new.
    pub added: Vec<Box<str>>,
    /// Items that are gone.
    pub removed: Vec<Box<str>>,
    /// Items whose JSON is another.
    pub changed: Vec<Box<str>>,
}

impl Difference {
    /// Whether the two lists are the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// What leads from one list to another.
    pub fn between(before: &List, after: &List) -> Self {
        let mut difference = Self::default();
        let (mut old, mut new) = (before.sorted().peekable(), after.sorted().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return difference,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            match order {
                Ordering::Less => difference.removed.extend(old.next().map(|(key, _)| key.into())),
                Ordering::Greater => difference.added.extend(new.next().map(|(key, _)| key.into())),
                Ordering::Equal => {
                    if let (Some((_, was)), Some((key, is))) = (old.next(), new.next())
                        && was != is
                    {
                        difference.changed.push(key.into());
                    }
                }
            }
        }
    }
}

/// How long a list may get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// What a page brought.
#[derive(Debug, Default)]
pub(crate) struct PageReport {
    /// Items that were not there before.
    pub(crate) added: usize,
    /// The first key that was there before.
    pub(crate) duplicate: Option<Box<str>>,
    /// The first item that was left out, or that lost a member, and why.
    pub(crate) invalid: Option<Box<str>>,
    /// A bound was reached, and what is beyond it was left out.
    pub(crate) over: bool,
}

/// Builds a list page by page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    list: List,
    bytes: usize,
    /// Indices of entries, sorted by key: runs whose lengths at least halve from one to the next, so that there are
    /// few to look into, and each index is merged few times.
    runs: Vec<Vec<u32>>,
}

impl Builder {
    /// Takes a page, which is the array of items as the server wrote it; `None` where it is no array.
    pub(crate) fn page(&mut self, family: Family, items: Json<'_>, bounds: Bounds) -> Option<PageReport> {
        let text = items.text();
        let mut report = PageReport::default();
        if items.first() != b'[' {
            return None;
        }
        self.bytes = self.bytes.saturating_add(text.len());
        let (Ok(page), Ok(_)) = (u32::try_from(self.list.pages.len()), u32::try_from(text.len())) else {
            report.over = true;
            return Some(report);
        };
        if self.bytes > bounds.bytes {
            report.over = true;
            return Some(report);
        }
        let mut fresh = Vec::new();
        let mut seen = 0_usize;
        let (_, over) = items.scan().each_element(|scan| {
            seen = seen.saturating_add(1);
            if seen > bounds.items {
                return false;
            }
            let Some((item, judgement)) = judge(family, scan) else { return false };
            match judgement {
                Judgement::Kept { key, flaw } => {
                    if let Some(flaw) = flaw
                        && report.invalid.is_none()
                    {
                        report.invalid = Some(describe(key.as_string().as_deref(), &flaw));
                    }
                    fresh.extend(self.entry(page, text, item, key));
                }
                Judgement::LeftOut { why } => {
                    report.invalid.get_or_insert_with(|| describe(None, why));
                }
            }
            true
        })?;
        report.over = over;
        self.list.pages.push(text.into());
        self.merge(fresh, bounds, &mut report);
        Some(report)
    }

    /// The list that came of the pages.
    pub(crate) fn finish(mut self) -> List {
        for run in self.runs.into_iter().rev() {
            let by_key = core::mem::take(&mut self.list.by_key);
            self.list.by_key = merged(&self.list, run, by_key);
        }
        self.list.entries.shrink_to_fit();
        self.list.by_key.shrink_to_fit();
        self.list.fingerprint = Fingerprint::gather(
            self.list.sorted().map(|(key, item)| Fingerprint::combine([Fingerprint::of(key.as_bytes()), item])),
        );
        self.list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn entry(&mut self, page: u32, text: &str, element: Json<'_>, key: Json<'_>) -> Option<Entry> {
        let (unescaped, key_start, key_len) = match key.as_string()? {
            Cow::Borrowed(inner) => (false, offset(element.text(), inner)?, inner.len()),
            Cow::Owned(decoded) => {
                let start = self.list.keys.len();
                self.list.keys.push_str(&decoded);
                (true, start, decoded.len())
            }
        };
        Some(Entry {
            page,
            start: u32::try_from(offset(text, element.text())?).ok()?,
            len: u32::try_from(element.text().len()).ok()?,
            key_start: u32::try_from(key_start).ok()?,
            key_len: u32::try_from(key_len).ok()?,
            unescaped,
            fingerprint: Fingerprint::of(element.text().as_bytes()),
        })
    }

    /// Adds a page's items, without those whose key is there already.
    fn merge(&mut self, fresh: Vec<Entry>, bounds: Bounds, report: &mut PageReport) {
        let list = &mut self.list;
        let mut order: Vec<usize> = (0..fresh.len()).collect();
        order.sort_by_key(|index| (fresh.get(*index).map(|entry| list.item(entry).0), *index));
        let mut known = alloc::vec![false; fresh.len()];
        let mut last = None;
        for index in &order {
            let Some(entry) = fresh.get(*index) else { continue };
            let key = list.item(entry).0;
            if let Some(known) = known.get_mut(*index) {
                let before = |run: &Vec<u32>| run.binary_search_by(|index| list.key_at(*index).cmp(key)).is_ok();
                *known = last == Some(key) || self.runs.iter().any(before);
            }
            last = Some(key);
        }
        let mut run = Vec::with_capacity(fresh.len());
        for (entry, known) in fresh.into_iter().zip(known) {
            if known {
                report.duplicate.get_or_insert_with(|| list.item(&entry).0.into());
                continue;
            }
            let Some(index) = u32::try_from(list.entries.len()).ok().filter(|index| (*index as usize) < bounds.items)
            else {
                report.over = true;
                break;
            };
            list.entries.push(entry);
            run.push(index);
        }
        report.added = run.len();
        run.sort_by(|a, b| list.key_at(*a).cmp(list.key_at(*b)));
        while let Some(longer) = self.runs.pop_if(|last| last.len() < run.len().saturating_mul(2)) {
            run = merged(list, longer, run);
        }
        self.runs.push(run);
    }
}

/// Two sorted runs as one, which is what a merge sort is quick at.
fn merged(list: &List, mut left: Vec<u32>, right: Vec<u32>) -> Vec<u32> {
    left.extend(right);
    left.sort_by(|a, b| list.key_at(*a).cmp(list.key_at(*b)));
    left
}

fn describe(key: Option<&str>, flaw: &str) -> Box<str> {
    match key {
        Some(key) => alloc::format!("{key}: {flaw}").into(),
        None => alloc::format!("an item was left out: {flaw}").into(),
    }
}

/// Where `part` begins in `whole`, of which it is a slice.
fn offset(whole: &str, part: &str) -> Option<usize> {
    (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize).filter(|at| *at <= whole.len())
}
