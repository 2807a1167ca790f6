//! Collections for a client that has mostly one request in flight: they keep what a call needs outside of a tree; a map by
//! names, and the hash by which they are found.

#[cfg(any(test, feature = "snapshot"))]
use alloc::collections::BTreeSet;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;

/// Entries for which a queue keeps memory.
const KEPT: usize = 4;

/// The bytes with which a queue of large elements starts.
const FIRST: usize = 256;

/// Before the first element of a queue: little memory if its elements are large, because an idle client keeps it.
#[inline]
pub(crate) fn start<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() == 0 {
        queue.reserve_exact(FIRST.checked_div(size_of::<T>()).unwrap_or(KEPT).clamp(1, KEPT));
    }
}

/// Releases the memory of a queue after a burst, when most of it is empty.
pub(crate) fn trim<T>(queue: &mut VecDeque<T>) {
    let room = queue.capacity();
    if room > KEPT && queue.len() <= room / 4 {
        queue.shrink_to((room / 2).max(KEPT));
    }
}

/// A map by ids that are counted up: a new entry usually has the greatest id. The last entry is looked up most, and is found
/// at once. Another one is found at once if the ids before it or after it are consecutive, else by a binary search.
#[derive(Clone)]
pub(crate) struct Series<T> {
    /// Ordered by id. A removed entry stays until it is at an end, or until half of the entries are removed.
    entries: VecDeque<(u64, Option<T>)>,
    len: usize,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), len: 0 }
    }
}

impl<T: fmt::Debug> fmt::Debug for Series<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Series<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the entry is, or would be inserted. Ids are mostly consecutive, from the first one or up to the last one.
    fn place(&self, id: u64) -> Result<usize, usize> {
        let len = self.entries.len();
        let (Some((first, _)), Some((last, _))) = (self.entries.front(), self.entries.back()) else { return Err(0) };
        match id.cmp(last) {
            Ordering::Greater => return Err(len),
            Ordering::Equal => return Ok(len.wrapping_sub(1)),
            Ordering::Less => {}
        }
        let from_first = usize::try_from(id.wrapping_sub(*first)).unwrap_or(usize::MAX);
        let from_last = usize::try_from(last.wrapping_sub(id)).unwrap_or(usize::MAX);
        for place in [from_first, len.wrapping_sub(1).wrapping_sub(from_last)] {
            if let Some((known, _)) = self.entries.get(place)
                && *known == id
            {
                return Ok(place);
            }
        }
        self.entries.binary_search_by_key(&id, |(id, _)| *id)
    }

    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        let (last, value) = self.entries.back()?;
        if *last == id {
            return value.as_ref();
        }
        self.entries.get(self.place(id).ok()?)?.1.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (last, _) = self.entries.back()?;
        let entry = if *last == id {
            self.entries.back_mut()
        } else {
            let place = self.place(id).ok()?;
            self.entries.get_mut(place)
        };
        entry?.1.as_mut()
    }

    /// Adds or replaces an entry.
    #[inline]
    pub(crate) fn insert(&mut self, id: u64, value: T) {
        let before = match self.place(id) {
            Ok(place) => self.entries.get_mut(place).and_then(|entry| entry.1.replace(value)),
            Err(place) if place == self.entries.len() => {
                start(&mut self.entries);
                self.entries.push_back((id, Some(value)));
                None
            }
            Err(place) => {
                self.entries.insert(place, (id, Some(value)));
                None
            }
        };
        self.len = self.len.saturating_add(usize::from(before.is_none()));
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let (last, _) = self.entries.back()?;
        let value = if *last == id {
            self.entries.pop_back()?.1?
        } else {
            let place = self.place(id).ok()?;
            self.entries.get_mut(place)?.1.take()?
        };
        self.len = self.len.saturating_sub(1);
        while let Some((_, None)) = self.entries.front() {
            self.entries.pop_front();
        }
        while let Some((_, None)) = self.entries.back() {
            self.entries.pop_back();
        }
        if self.entries.len() > self.len.saturating_mul(2).saturating_add(KEPT) {
            self.entries.retain(|(_, value)| value.is_some());
        }
        trim(&mut self.entries);
        Some(value)
    }

    /// The entries in the order of their ids.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.entries.iter().filter_map(|(id, value)| value.as_ref().map(|value| (*id, value)))
    }

    #[cfg(all(feature = "http", feature = "snapshot"))]
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|(_, value)| value.as_mut())
    }

    /// The entries with greater ids.
    pub(crate) fn after(&self, id: u64) -> impl Iterator<Item = (u64, &T)> {
        let start = self.place(id.saturating_add(1)).unwrap_or_else(|place| place);
        self.entries.range(start..).filter_map(|(id, value)| value.as_ref().map(|value| (*id, value)))
    }

    #[cfg(feature = "http")]
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.entries.retain(|(_, value)| value.as_ref().is_some_and(&keep));
        self.len = self.entries.len();
    }
}

/// It is saved as a map of its entries.
#[cfg(feature = "snapshot")]
impl<T: serde::Serialize> serde::Serialize for Series<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(feature = "snapshot")]
impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for Series<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = alloc::collections::BTreeMap::<u64, T>::deserialize(deserializer)?;
        let entries: VecDeque<_> = entries.into_iter().map(|(id, value)| (id, Some(value))).collect();
        Ok(Self { len: entries.len(), entries })
    }
}

/// A fast hash without a key: the same in every release, on every machine.
///
/// An attacker can construct collisions. Use it to order and index, never to decide that texts are equal.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = mix(bytes.len() as u64 ^ ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(ODD).rotate_left(29);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mix(hash ^ u64::from_le_bytes(last))
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection in which every input bit affects every output bit (the finaliser of MurmurHash3).
const fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A map by names. They are found by their hashes, which costs less than to compare texts; a name whose hash another one
/// has is found by its text. The order is that of the hashes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ByName<T> {
    by_hash: BTreeMap<u64, (Arc<str>, T)>,
    others: BTreeMap<Arc<str>, T>,
    /// A bit for each length that a name had, so that a text of another length is not looked up.
    lengths: u64,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for ByName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> ByName<T> {
    pub(crate) const fn new() -> Self {
        Self { by_hash: BTreeMap::new(), others: BTreeMap::new(), lengths: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_hash.len().saturating_add(self.others.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty() && self.others.is_empty()
    }

    /// An entry, with the shared text of its name.
    #[inline]
    pub(crate) fn entry(&self, name: &str) -> Option<(&Arc<str>, &T)> {
        if self.lengths & bit_of(name) == 0 { None } else { self.find(name) }
    }

    fn find(&self, name: &str) -> Option<(&Arc<str>, &T)> {
        match self.by_hash.get(&hash(name.as_bytes())) {
            Some((known, value)) if **known == *name => Some((known, value)),
            Some(_) | None if self.others.is_empty() => None,
            Some(_) | None => self.others.get_key_value(name),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.entry(name).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        match self.by_hash.get_mut(&hash(name.as_bytes())) {
            Some((known, value)) if **known == *name => Some(value),
            Some(_) | None => self.others.get_mut(name),
        }
    }

    /// Adds or replaces an entry.
    pub(crate) fn insert(&mut self, name: Arc<str>, value: T) {
        if let Some(known) = self.get_mut(&name) {
            *known = value;
            return;
        }
        self.lengths |= bit_of(&name);
        match self.by_hash.entry(hash(name.as_bytes())) {
            Entry::Vacant(vacant) => _ = vacant.insert((name, value)),
            Entry::Occupied(_) => _ = self.others.insert(name, value),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<T> {
        match self.by_hash.entry(hash(name.as_bytes())) {
            Entry::Occupied(known) if *known.get().0 == *name => Some(known.remove().1),
            Entry::Occupied(_) | Entry::Vacant(_) => self.others.remove(name),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &T)> {
        self.by_hash.values().map(|(name, value)| (name, value)).chain(&self.others)
    }
}

/// The bit of a name's length. Long names share one.
fn bit_of(name: &str) -> u64 {
    1 << name.len().min(63)
}

/// A map that keeps its least entry outside of the tree: a map of one needs no memory beside itself.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "snapshot",
    serde(
        from = "BTreeMap<K, V>",
        into = "BTreeMap<K, V>",
        bound = "K: Clone + Ord + serde::Serialize + serde::de::DeserializeOwned, \
                 V: Clone + serde::Serialize + serde::de::DeserializeOwned"
    )
)]
pub(crate) struct LeastMap<K: Ord, V> {
    least: Option<(K, V)>,
    /// All greater than the least.
    others: BTreeMap<K, V>,
}

impl<K: Ord, V> Default for LeastMap<K, V> {
    fn default() -> Self {
        Self { least: None, others: BTreeMap::new() }
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for LeastMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> LeastMap<K, V> {
    #[inline]
    pub(crate) const fn first(&self) -> Option<&(K, V)> {
        self.least.as_ref()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.least.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.least.is_some()).saturating_add(self.others.len())
    }

    pub(crate) fn has(&self, key: &K) -> bool {
        self.least.as_ref().is_some_and(|(least, _)| least == key) || self.others.contains_key(key)
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match &mut self.least {
            None => self.least = Some((key, value)),
            Some(least) if key < least.0 => {
                let (before, its) = core::mem::replace(least, (key, value));
                self.others.insert(before, its);
            }
            Some(least) if key == least.0 => least.1 = value,
            Some(_) => {
                self.others.insert(key, value);
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if self.least.as_ref().is_some_and(|(least, _)| least == key) {
            self.pop_first().map(|(_, value)| value)
        } else if self.others.is_empty() {
            None
        } else {
            self.others.remove(key)
        }
    }

    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        let next = if self.others.is_empty() { None } else { self.others.pop_first() };
        core::mem::replace(&mut self.least, next)
    }

    /// The entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.least.iter().map(|(key, value)| (key, value)).chain(&self.others)
    }
}

impl<K: Ord, V> From<BTreeMap<K, V>> for LeastMap<K, V> {
    fn from(mut others: BTreeMap<K, V>) -> Self {
        Self { least: others.pop_first(), others }
    }
}

impl<K: Ord, V> From<LeastMap<K, V>> for BTreeMap<K, V> {
    fn from(map: LeastMap<K, V>) -> Self {
        let mut all = map.others;
        all.extend(map.least);
        all
    }
}

/// A set that keeps its least element outside of the tree.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "snapshot",
    serde(
        from = "BTreeSet<K>",
        into = "BTreeSet<K>",
        bound = "K: Clone + Ord + serde::Serialize + serde::de::DeserializeOwned"
    )
)]
pub(crate) struct LeastSet<K: Ord>(LeastMap<K, ()>);

impl<K: Ord> Default for LeastSet<K> {
    fn default() -> Self {
        Self(LeastMap::default())
    }
}

impl<K: Ord + fmt::Debug> fmt::Debug for LeastSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<K: Ord> LeastSet<K> {
    #[inline]
    pub(crate) fn first(&self) -> Option<&K> {
        self.0.first().map(|(key, ())| key)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn has(&self, key: &K) -> bool {
        self.0.has(key)
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: K) {
        self.0.insert(key, ());
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &K) {
        self.0.remove(key);
    }

    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<K> {
        self.0.pop_first().map(|(key, ())| key)
    }

    /// The elements in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, ())| key)
    }
}

#[cfg(feature = "snapshot")]
impl<K: Ord> From<BTreeSet<K>> for LeastSet<K> {
    fn from(all: BTreeSet<K>) -> Self {
        let mut set = Self::default();
        all.into_iter().for_each(|key| set.insert(key));
        set
    }
}

#[cfg(feature = "snapshot")]
impl<K: Ord> From<LeastSet<K>> for BTreeSet<K> {
    fn from(set: LeastSet<K>) -> Self {
        BTreeMap::from(set.0).into_keys().collect()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_series_is_a_map(steps in prop::collection::vec((0_u8..4, 0_u64..24), 0..200)) {
            let (mut series, mut map, mut last) = (Series::default(), BTreeMap::new(), 0_u64);
            for (kind, id) in steps {
                match kind {
                    0 => {
                        last += 1 + id % 3;
                        series.insert(last, id);
                        map.insert(last, id);
                    }
                    1 => {
                        series.insert(id, id + 100);
                        map.insert(id, id + 100);
                        last = last.max(id);
                    }
                    _ => {
                        let id = last.saturating_sub(id);
                        prop_assert_eq!(series.remove(id), map.remove(&id));
                    }
                }
                prop_assert_eq!(series.len(), map.len());
                prop_assert!(series.iter().eq(map.iter().map(|(id, value)| (*id, value))));
                prop_assert!(series.after(id).eq(map.range(id + 1..).map(|(id, value)| (*id, value))));
                for id in 0..=last {
                    prop_assert_eq!(series.get(id), map.get(&id));
                }
                prop_assert!(series.entries.len() <= 2 * series.len() + KEPT);
            }
        }

        #[test]
        fn a_least_set_is_a_set(steps in prop::collection::vec((0_u8..5, 0_u8..16), 0..100)) {
            let (mut least, mut set) = (LeastSet::default(), BTreeSet::new());
            for (kind, key) in steps {
                match kind {
                    0..3 => {
                        least.insert(key);
                        set.insert(key);
                    }
                    3 => {
                        least.remove(&key);
                        set.remove(&key);
                    }
                    _ => prop_assert_eq!(least.pop_first(), set.pop_first()),
                }
                prop_assert_eq!(least.len(), set.len());
                prop_assert_eq!(least.first(), set.first());
                prop_assert!(least.iter().eq(set.iter()));
            }
        }
    }
}
