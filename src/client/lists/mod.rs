//! Component: the server's lists, discovered on each connection, received page by page, refreshed when they change.

mod changes;
mod commit;
mod discovering;
mod ending;
mod failure;
mod list_failure;
mod page;
mod pages;
mod refreshing;
mod slot;

pub(super) use list_failure::ListFailure;
pub use slot::{FamilyReport, FamilyStatus};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use serde_json::value::RawValue;

use self::page::Page;
use self::slot::Slot;
use super::core::Core;
use super::signal::Signals;
use crate::catalog::hash;
use crate::jsonrpc::Json;
use crate::machine::list_error::Class;
use crate::machine::{gate, list_watch, paging, request};
use crate::protocol::{Family, PerFamily};

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lists {
    slots: PerFamily<Slot>,
}

impl Lists {
    #[cfg(feature = "snapshot")]
    pub(super) fn check(&self, limits: &super::Limits) -> Result<(), crate::snapshot::SnapshotError> {
        for listing in self.slots.iter().filter_map(|(_, slot)| slot.listing.as_deref()) {
            crate::snapshot::within("pages", listing.pages.max(listing.seen.len()), limits.pages.saturating_add(1))?;
            listing.items.check(limits.items, limits.list_bytes)?;
        }
        Ok(())
    }

    /// A new connection: every list is requested again.
    pub(super) fn reset(&mut self) {
        for family in Family::ALL.iter().copied() {
            self.slots.get_mut(family).reset();
        }
    }

    pub(super) fn report(&self, family: Family, watched: bool) -> FamilyReport {
        let slot = self.slots.get(family);
        FamilyReport {
            status: slot.status,
            pages: slot.pages,
            stale: slot.stale,
            watched,
            fresh_until: slot.fresh_until,
            cache_scope: slot.scope,
        }
    }

    pub(super) fn error(&self, family: Family) -> Option<&str> {
        self.slots.get(family).words.as_deref()
    }

    /// The last errors of the lists.
    #[cfg(feature = "oauth")]
    pub(super) fn words(&mut self) -> impl Iterator<Item = &mut Box<str>> {
        self.slots.values_mut().filter_map(|slot| slot.words.as_mut())
    }

    /// The smallest list that worked.
    pub(super) fn cheapest(&self, core: &Core) -> Option<Family> {
        let allowed = |family| core.gate(gate::Use::Keepalive, family).is_allowed();
        let listed = self.slots.iter().filter(|(family, _)| allowed(*family));
        listed.min_by_key(|(family, slot)| (slot.pages, core.catalog.list(*family).len())).map(|(family, _)| family)
    }

    /// The deadline of discovery passed: incomplete lists have failed.
    pub(super) fn on_discovery_timeout(&mut self, core: &mut Core) -> Signals {
        let why = format!("the list was not done within {:?}", core.options.timeouts.discovery);
        let mut signals = Signals::NONE;
        for family in Family::ALL.iter().copied() {
            if !self.slots.get(family).is_settled() {
                if let Some(id) = core.requests.list(family) {
                    core.end_request(id, request::Input::TimedOut, &why);
                }
                signals.extend(self.on_failure(core, family, ListFailure::Engine(Cow::Borrowed(&why))));
                // The first loss of the connection ends discovery for all families.
                if signals.has_loss() {
                    break;
                }
            }
        }
        signals
    }

    /// The request of a page has a new id.
    pub(super) fn rename(&mut self, family: Family, id: u64, new: u64) {
        let listing = self.slots.get_mut(family).listing.as_mut();
        if let Some(listing) = listing.filter(|listing| listing.first == id) {
            listing.first = new;
        }
    }

    /// Takes a page. `watched`: the server announces changes of the list.
    pub(super) fn on_result(&mut self, core: &mut Core, family: Family, result: &RawValue, watched: bool) -> Signals {
        let page = match Page::read(core, family, result) {
            Ok(page) => page,
            Err(why) => return self.on_failure(core, family, ListFailure::Engine(why)),
        };
        let slot = self.slots.get_mut(family);
        let Some(listing) = &mut slot.listing else { return Signals::NONE };
        if listing.pages == 0 {
            let input = if watched { list_watch::Input::Received } else { list_watch::Input::ReceivedUnwatched };
            slot.watch = list_watch::take(slot.watch, input).next;
        }
        let report = listing.items.add(page.items, page.bounds);
        listing.pages = listing.pages.saturating_add(1);
        // The list is fresh until the first of its pages expires; a negative time to live counts as none.
        let (first, until) = (listing.pages == 1, page.ttl.map(|ttl| core.now + ttl));
        listing.fresh_until =
            if first { until } else { listing.fresh_until.zip(until).map(|(sooner, until)| sooner.min(until)) };
        listing.scope = if first { page.scope } else { listing.scope.and(page.scope) };
        let cursor = page.cursor.map(Json::text);
        let repeated = cursor.is_some_and(|cursor| listing.seen.contains(&hash(cursor.as_bytes())));
        let input = match (cursor, repeated, report.added) {
            _ if report.over => paging::Input::Limit,
            (None, _, _) => paging::Input::Last,
            (Some(EMPTY_CURSOR), true, 0) => paging::Input::EmptyCursor,
            (Some(_), true, 0) => paging::Input::RepeatedEmpty,
            (Some(_), _, _) if listing.pages >= core.options.limits.pages => paging::Input::Limit,
            (Some(_), true, _) => paging::Input::RepeatedNew,
            (Some(_), false, _) => paging::Input::More,
        };
        if let Some(cursor) = cursor {
            listing.seen.insert(hash(cursor.as_bytes()));
        }
        listing.next = cursor.map(Box::from);
        let ends = !matches!(input, paging::Input::More | paging::Input::RepeatedNew);
        listing.add_flaws(core, family, report, repeated, ends);
        if let Some(kind) = core.gate(gate::Use::Listed, family).quirk() {
            core.quirk(kind, Some(family), Some(family.list_method()), "not declared, and listed all the same");
        }
        match self.step_paging(core, family, input) {
            Some(end) => self.on_end(core, family, end, Class::Other),
            None => Signals::NONE,
        }
    }
}

/// An empty cursor, as JSON. Some servers end their lists with it.
const EMPTY_CURSOR: &str = r#""""#;
