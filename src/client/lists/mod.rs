//! Component: the server's lists, discovered on each connection, received page by page, refreshed when they change.

mod failure;
mod list_failure;
mod page;
mod refreshing;
mod slot;

pub(super) use list_failure::ListFailure;
pub use slot::{FamilyReport, FamilyStatus};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use serde_json::value::RawValue;

use self::page::Page;
use self::slot::{Listing, Slot};
use super::core::{Core, Stage};
use super::request_table::Purpose;
use super::signal::{Signal, Signals};
use super::{Event, FailureKind};
use crate::catalog::{Difference, hash};
use crate::jsonrpc::Json;
use crate::machine::{Verdict, discovery, gate, list_error, list_watch, loss, paging, refresh, request};
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

    /// The handshake is done: the lists that the gate allows are requested.
    pub(super) fn start(&mut self, core: &mut Core) -> Signals {
        let mut signals = Signals::NONE;
        for family in Family::ALL.iter().copied() {
            let asked = core.gate(gate::Use::Discover, family).is_allowed();
            let input = if asked { discovery::Input::Advertised } else { discovery::Input::NotAdvertised };
            signals.extend(self.step_discovery(core, family, input));
        }
        signals
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

    fn step_discovery(&mut self, core: &mut Core, family: Family, input: discovery::Input) -> Signals {
        use discovery::{Effect, State};
        let slot = self.slots.get_mut(family);
        let before = slot.discovery;
        let row = discovery::take(before, input);
        slot.discovery = row.next;
        let status = match row.next {
            State::NotAdvertised => Some(FamilyStatus::NotAdvertised),
            State::Listed | State::Relisting | State::RelistingStale => Some(FamilyStatus::Listed),
            State::Absent => Some(FamilyStatus::Absent),
            State::Partial => Some(FamilyStatus::Partial),
            State::Failed => Some(FamilyStatus::Failed),
            State::NotRequested | State::Listing | State::ListingStale => None,
        };
        if let Some(status) = status {
            self.set_status(core, family, status);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Request => signals.extend(self.step_paging(core, family, paging::Input::Start, None)),
                Effect::Commit => self.commit(core, family),
                Effect::Drop => self.slots.get_mut(family).listing = None,
                Effect::Clear => self.clear(core, family),
                Effect::Fail => {
                    let words = self.slots.get_mut(family).words.take().unwrap_or_default();
                    let (server, method) = (core.server_name(), family.list_method());
                    let message = format!("{server} did not give the list of `{method}`: {words}");
                    signals.extend(Signals::lost(FailureKind::ListFailed, message, loss::Transport::Open));
                    return signals;
                }
                Effect::Refresh => signals.extend(self.step_refresh(core, family, refresh::Input::ListChanged)),
                Effect::Recheck => signals.extend(self.step_refresh(core, family, refresh::Input::Outdated)),
                Effect::Renew => signals.extend(self.step_refresh(core, family, refresh::Input::Wanted)),
                Effect::Deny => signals.extend(Signals::schemas(family, false)),
            }
        }
        let settled = || self.slots.iter().all(|(_, slot)| slot.is_settled());
        if before != row.next && core.stage() == Stage::Discovery && settled() {
            signals.push(Signal::Discovered);
        }
        signals
    }

    fn set_status(&mut self, core: &mut Core, family: Family, status: FamilyStatus) {
        self.slots.get_mut(family).status = status;
        *core.known.get_mut(family) = Slot::known(status);
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

    /// Removes the items of a family.
    fn clear(&mut self, core: &mut Core, family: Family) {
        if !core.catalog.list(family).is_empty() {
            self.slots.get_mut(family).listing = Some(Box::default());
            self.commit(core, family);
        }
    }

    /// Steps the list of a family; `class` is the class of an error.
    fn step_paging(
        &mut self,
        core: &mut Core,
        family: Family,
        input: paging::Input,
        class: Option<list_error::Class>,
    ) -> Signals {
        let slot = self.slots.get_mut(family);
        let row = paging::take(slot.paging, input);
        slot.paging = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let words = self.slots.get(family).words.as_deref();
            core.quirk(kind, Some(family), Some(family.list_method()), quirk_text(input, words.unwrap_or_default()));
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let refreshing = self.is_refreshing(family);
            match effect {
                paging::Effect::RequestFirst => {
                    self.slots.get_mut(family).listing = Some(Box::default());
                    self.request_page(core, family, None);
                }
                paging::Effect::RequestNext => {
                    let cursor = self.slots.get_mut(family).listing.as_mut().and_then(|listing| listing.next.take());
                    self.request_page(core, family, cursor);
                }
                paging::Effect::EndWhole if refreshing => signals.extend(self.on_refreshed(core, family)),
                paging::Effect::EndWhole => {
                    signals.extend(self.step_discovery(core, family, discovery::Input::Whole));
                }
                paging::Effect::EndPart if refreshing => {
                    signals.extend(self.step_refresh(core, family, refresh::Input::Part));
                }
                paging::Effect::EndPart => signals.extend(self.step_discovery(core, family, discovery::Input::Part)),
                paging::Effect::EndFailed if refreshing => {
                    signals.extend(self.step_refresh(core, family, refresh::Input::Failed));
                }
                paging::Effect::EndFailed => {
                    let class = class.unwrap_or(list_error::Class::Other);
                    signals.extend(self.on_discovery_failure(core, family, class));
                }
            }
        }
        signals
    }

    fn request_page(&mut self, core: &mut Core, family: Family, cursor: Option<Box<str>>) {
        let deadline = core.request_deadline();
        let id = core.requests.insert(Purpose::List { family, cursor }, Some(deadline));
        if let Some(listing) = self.slots.get_mut(family).listing.as_mut().filter(|listing| listing.pages == 0) {
            listing.first = id;
        }
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
        self.step_paging(core, family, input, None)
    }

    /// Makes the received list the family's list, and reports the difference.
    fn commit(&mut self, core: &mut Core, family: Family) {
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

/// An empty cursor, as JSON. Some servers end their lists with it.
const EMPTY_CURSOR: &str = r#""""#;

/// The description of a deviation in the pages of a list; `error` is the last error of the list.
fn quirk_text(input: paging::Input, error: &str) -> Cow<'static, str> {
    match input {
        paging::Input::CursorRefused => format!("the server refused its own cursor ({error}); began again").into(),
        paging::Input::RepeatedEmpty | paging::Input::RepeatedNew => {
            "a cursor came twice; it is followed while its pages bring something new".into()
        }
        paging::Input::Limit => "longer than the bounds; the rest is left out".into(),
        paging::Input::Start
        | paging::Input::More
        | paging::Input::Last
        | paging::Input::EmptyCursor
        | paging::Input::Failed
        | paging::Input::Stop => Cow::default(),
    }
}
