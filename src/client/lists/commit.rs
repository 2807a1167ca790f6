//! What is known of a family's list, and its items in the catalogue.

use alloc::boxed::Box;

use super::super::Event;
use super::super::core::Core;
use super::slot::{Listing, Slot};
use super::{FamilyStatus, Lists};
use crate::catalog::Difference;
use crate::protocol::Family;

impl Lists {
    pub(super) fn set_status(&mut self, core: &mut Core, family: Family, status: FamilyStatus) {
        self.slots.get_mut(family).status = status;
        *core.known.get_mut(family) = Slot::known(status);
    }

    /// Removes the items of a family.
    pub(super) fn clear(&mut self, core: &mut Core, family: Family) {
        if !core.catalog.list(family).is_empty() {
            self.slots.get_mut(family).listing = Some(Box::default());
            self.commit(core, family);
        }
    }

    /// Makes the received list the family's list, and reports the difference.
    pub(super) fn commit(&mut self, core: &mut Core, family: Family) {
        let slot = self.slots.get_mut(family);
        let Some(listing) = slot.listing.take() else { return };
        slot.pages = listing.pages;
        (slot.fresh_until, slot.scope) = (listing.fresh_until, listing.scope);
        slot.stale = false;
        slot.last_listed = Some(core.now);
        let Listing { items, done, .. } = *listing;
        let list = done.unwrap_or_else(|| items.finish());
        let difference = core.was_ready.then(|| Difference::between(core.catalog.list(family), &list));
        // An unchanged list stays, because others may share it.
        if core.catalog.held(family).is_none_or(|former| !former.is_same(&list)) {
            core.catalog.replace(family, list);
        }
        if let Some(difference) = difference.filter(|difference| !difference.is_empty()) {
            core.event(Event::CatalogChanged { family, difference });
        }
    }
}
