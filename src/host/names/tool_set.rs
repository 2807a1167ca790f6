//! Sets of tools that have their plain names. Equal sets of several servers are stored once.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Style, Target};
use crate::catalog::hash;
use crate::host::Utility;

/// Tools whose exposed names are their plain names. No two of them have the same plain name.
#[derive(Debug)]
pub(super) struct ToolSet {
    /// Sorted.
    targets: Box<[Target]>,
    /// The tools whose names have characters to replace, by the names after that: sorted, with their positions.
    replaced: Box<[(Box<str>, u32)]>,
    hash: u64,
}

impl ToolSet {
    /// `targets` are sorted.
    fn new(targets: Vec<Target>, style: Style, hash: u64) -> Self {
        let replaced = (0_u32..).zip(&targets).filter(|(_, target)| !style.allows(target.name()));
        let mut replaced: Vec<_> = replaced.map(|(at, it)| (style.replaced(it.name()).into_boxed_str(), at)).collect();
        replaced.sort_unstable();
        Self { targets: targets.into(), replaced: replaced.into(), hash }
    }

    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.targets.binary_search(target).is_ok()
    }

    /// The tool with this name after characters were replaced.
    pub(super) fn find(&self, name: &str) -> Option<&Target> {
        let by_name = |target: &Target| match target {
            Target::Tool(tool) => (**tool).cmp(name),
            // Utility tools come after the tools.
            Target::Utility(_) => Ordering::Greater,
        };
        if let Ok(at) = self.targets.binary_search_by(by_name) {
            return self.targets.get(at);
        }
        if let Ok(found) = self.replaced.binary_search_by(|(replaced, _)| (**replaced).cmp(name)) {
            let (_, at) = self.replaced.get(found)?;
            return self.targets.get(*at as usize);
        }
        let utility = *Utility::ALL.iter().find(|utility| utility.name() == name)?;
        let at = self.targets.binary_search(&Target::Utility(utility)).ok()?;
        self.targets.get(at)
    }
}

/// The sets in use, so that equal ones are stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolSets {
    /// By their hashes, which are only an index.
    known: BTreeMap<u64, Weak<ToolSet>>,
    /// The number of sets before unused ones are removed.
    room: usize,
}

/// The minimum number of sets before a removal.
const FEW: usize = 16;

impl ToolSets {
    pub(super) const fn new() -> Self {
        Self { known: BTreeMap::new(), room: 0 }
    }

    /// The set of these tools, which are sorted and distinct.
    pub(super) fn share(&mut self, targets: Vec<Target>, style: Style) -> Arc<ToolSet> {
        let hash = hash_of(&targets);
        match self.known.get(&hash).and_then(Weak::upgrade) {
            Some(known) if *known.targets == *targets => known,
            // The hash is the same and the content differs: this set is not shared.
            Some(_) => Arc::new(ToolSet::new(targets, style, hash)),
            None => {
                let set = Arc::new(ToolSet::new(targets, style, hash));
                self.known.insert(hash, Arc::downgrade(&set));
                self.sweep();
                set
            }
        }
    }

    /// A server does not use this set any more.
    pub(super) fn release(&mut self, set: Option<Arc<ToolSet>>) {
        let Some(set) = set else { return };
        let is_known = self.known.get(&set.hash).is_some_and(|known| Weak::as_ptr(known) == Arc::as_ptr(&set));
        if is_known && Arc::strong_count(&set) == 1 {
            self.known.remove(&set.hash);
        }
    }

    /// Removes sets that copies of these names used last.
    fn sweep(&mut self) {
        if self.known.len() > self.room.max(FEW) {
            self.known.retain(|_, set| set.strong_count() > 0);
            self.room = self.known.len().saturating_mul(2);
        }
    }
}

fn hash_of(targets: &[Target]) -> u64 {
    let mut bytes = Vec::new();
    for target in targets {
        bytes.push(match target {
            Target::Tool(_) => 0xFF,
            Target::Utility(_) => 0xFE,
        });
        bytes.extend_from_slice(target.name().as_bytes());
    }
    hash(&bytes)
}
