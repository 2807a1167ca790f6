//! The lists of a server, and the difference between two choices of its functions.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::sharing::Chosen;
use crate::catalog::{Catalog, Difference};
use crate::client::{Engine, FamilyStatus};
use crate::host::names::{Names, Target};
use crate::host::toolset;
use crate::protocol::{CacheScope, Family, PerFamily};

/// What is known of a server's lists.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) catalog: Catalog,
    pub(super) families: PerFamily<FamilyStatus>,
    pub(super) instructions: Option<Box<str>>,
    /// How they were saved; `None` if the session received them.
    pub(super) saved: Option<Box<Origin>>,
}

/// What is known of lists that were saved, beside the lists.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Origin {
    /// When they were saved, in seconds since 1970.
    pub(super) at: u64,
    pub(super) fresh_until: PerFamily<Option<u64>>,
    pub(super) scope: CacheScope,
}

/// The lists of a server.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) content: Content,
    /// The functions that were chosen of them.
    pub(super) chosen: Arc<Chosen>,
}

impl Content {
    /// Whether these are the lists that a session holds, and not those of a session before it.
    pub(super) fn is_of(&self, session: &Engine) -> bool {
        let known = session.catalog();
        let is_held = |family| match (self.catalog.held(family), known.held(family)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        Family::EACH.into_iter().all(is_held)
    }

    pub(super) fn view(&self) -> toolset::OfferView<'_> {
        toolset::OfferView::new(&self.catalog, |family| *self.families.get(family))
    }
}

/// Gives names to the functions of a server. Returns the difference from its functions before, by exposed names.
pub(super) fn rename(
    names: &mut Names,
    server: &Arc<str>,
    before: Option<&Chosen>,
    after: Option<&Chosen>,
) -> Difference {
    let Parted { gone, fresh, other } = Parted::between(before, after);
    let mut difference = Difference::default();
    let named = |names: &Names, target: &Target| names.name(server, target).map(Box::from);
    difference.removed.extend(gone.iter().filter_map(|target| named(names, target)));
    match (before, after) {
        // A configured server keeps its names, so that no other server gets them meanwhile.
        (_, None) => {}
        // Restored names may be of tools that do not exist any more.
        (None, Some(after)) => {
            names.set_overrides(server, after.name_overrides());
            names.update_one(server, after.targets.clone());
        }
        (Some(_), Some(after)) => {
            names.set_overrides(server, after.name_overrides());
            names.revise(server, &gone, &fresh);
        }
    }
    difference.added.extend(fresh.iter().filter_map(|target| named(names, target)));
    difference.changed.extend(other.iter().filter_map(|target| named(names, target)));
    let Difference { added, removed, changed, .. } = &mut difference;
    added.sort_unstable();
    removed.sort_unstable();
    // A name that one function lost and another got.
    let passed_on: Vec<_> = added.iter().filter(|name| removed.binary_search(name).is_ok()).cloned().collect();
    if !passed_on.is_empty() {
        added.retain(|name| passed_on.binary_search(name).is_err());
        removed.retain(|name| passed_on.binary_search(name).is_err());
        changed.extend(passed_on);
    }
    changed.sort_unstable();
    difference
}

/// The difference between two choices.
#[derive(Default)]
struct Parted<'a> {
    gone: Vec<&'a Target>,
    fresh: Vec<&'a Target>,
    /// In both, with different definitions.
    other: Vec<&'a Target>,
}

impl<'a> Parted<'a> {
    fn between(before: Option<&'a Chosen>, after: Option<&'a Chosen>) -> Self {
        let mut parted = Self::default();
        let same = |target| before.zip(after).is_none_or(|(before, after)| before.has_same(after, target));
        let name = |of: Option<&'a Chosen>, target| of.and_then(|of| of.other_name(target));
        let is_renamed = |target| name(before, target) != name(after, target);
        let (mut old, mut new) = (Chosen::of(before).iter().peekable(), Chosen::of(after).iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return parted,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(was), Some(is)) => was.cmp(is),
            };
            let was = if order.is_le() { old.next() } else { None };
            let is = if order.is_ge() { new.next() } else { None };
            match (was, is) {
                // A function with another name is another function to the model.
                (Some(target), Some(_)) if is_renamed(target) => {
                    parted.gone.push(target);
                    parted.fresh.push(target);
                }
                (Some(target), Some(_)) if !same(target) => parted.other.push(target),
                (Some(target), None) => parted.gone.push(target),
                (None, Some(target)) => parted.fresh.push(target),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }
}
