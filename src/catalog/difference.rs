use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::List;

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
