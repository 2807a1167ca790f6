//! Component: the server's lists, discovered on each connection, received page by page, refreshed when they change.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use core::mem::discriminant;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::core::{Core, LONGEST_WAIT, Signal, Signals, Stage, Timer, Watch, declaration};
use super::outcome::class_of;
use super::request::Purpose;
use super::result_type::of_page;
use super::{Event, FailureKind, ListErrors, Output, RefreshOutcome, Wire};
use crate::Time;
use crate::catalog::{Bounds, Builder, Difference, Flaws, Items, List, PageReport, hash};
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::list_error::{Broken, Class, Cost, Meaning};
use crate::machine::paging::{Effect, Input};
use crate::machine::refresh::{Found, Owner};
use crate::machine::refresh_demand::{Report, Unpolled};
use crate::machine::resend::{Reason, Used};
use crate::machine::{
    QuirkKind, Verdict, discovery, gate, list_error, list_watch, loss, paging, refresh, refresh_demand, request,
    resend, result_type,
};
use crate::protocol::{CacheScope, Family, PerFamily, error_code, method};
use crate::text::excerpt;

/// An empty cursor, as JSON. Some servers end their lists with it.
const EMPTY_CURSOR: &str = r#""""#;

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lists {
    slots: PerFamily<Slot>,
}

/// What is known of the list of one family.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Slot {
    discovery: discovery::State,
    refresh: refresh::State,
    paging: paging::State,
    demand: refresh_demand::State,
    /// The list that is being received.
    listing: Option<Box<Listing>>,
    status: FamilyStatus,
    pages: usize,
    stale: bool,
    watch: list_watch::State,
    failures: u32,
    /// Announced changes in a row that were none.
    unchanged: Used,
    /// How often the interval between refreshes was doubled.
    slow: u32,
    fresh_until: Option<Time>,
    #[cfg_attr(feature = "snapshot", serde(default))]
    scope: CacheScope,
    last_listed: Option<Time>,
    /// The last error of the family's list.
    words: Option<Box<str>>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            discovery: discovery::State::NotRequested,
            refresh: refresh::State::Idle,
            paging: paging::State::Idle,
            demand: refresh_demand::State::None,
            listing: None,
            status: FamilyStatus::NotRequested,
            pages: 0,
            stale: false,
            watch: list_watch::State::Watched,
            failures: 0,
            unchanged: Used::Never,
            slow: 0,
            fresh_until: None,
            scope: CacheScope::Private,
            last_listed: None,
            words: None,
        }
    }
}

impl Slot {
    /// A new connection: the list is requested again, and the items stay.
    fn reset(&mut self) {
        self.discovery = discovery::take(self.discovery, discovery::Input::Reset).next;
        self.refresh = refresh::take(self.refresh, refresh::Input::Reset).next;
        self.paging = paging::take(self.paging, paging::Input::Stop).next;
        self.listing = None;
        self.watch = list_watch::take(self.watch, list_watch::Input::Reset).next;
        self.failures = 0;
        self.unchanged = Used::Never;
        self.slow = 0;
    }

    /// What is known of the list, as the gate takes it.
    const fn known(status: FamilyStatus) -> gate::Known {
        match status {
            FamilyStatus::NotRequested | FamilyStatus::NotAdvertised => gate::Known::NotRequested,
            FamilyStatus::Listed => gate::Known::Listed,
            FamilyStatus::Partial => gate::Known::Partial,
            FamilyStatus::Absent => gate::Known::Absent,
            FamilyStatus::Failed => gate::Known::Failed,
        }
    }

    /// Whether discovery on this connection is done for the family.
    fn is_settled(&self) -> bool {
        match self.discovery {
            discovery::State::Listed
            | discovery::State::NotAdvertised
            | discovery::State::Absent
            | discovery::State::Partial
            | discovery::State::Failed => true,
            discovery::State::NotRequested
            | discovery::State::Listing
            | discovery::State::ListingStale
            | discovery::State::Relisting
            | discovery::State::RelistingStale => false,
        }
    }
}

/// The state of a family's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FamilyStatus {
    /// The list was not requested yet.
    NotRequested,
    /// The whole list is known.
    Listed,
    /// The server did not declare the capability, and the list was not requested.
    NotAdvertised,
    /// The server declared the capability, but does not have the method.
    Absent,
    /// A limit or an error ended the list; the pages before it are kept.
    Partial,
    /// The list failed, and no items are kept.
    Failed,
}

impl FamilyStatus {
    /// The status' stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRequested => "not-requested",
            Self::Listed => "listed",
            Self::NotAdvertised => "not-advertised",
            Self::Absent => "absent",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

/// The state of a family, without its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FamilyReport {
    /// The state of its list. A failed refresh does not change it.
    pub status: FamilyStatus,
    /// Number of pages of the list.
    pub pages: usize,
    /// The list changed, and was not received again yet.
    pub stale: bool,
    /// The server announces changes of the list: a legacy server declares it, a modern one acknowledged it.
    pub watched: bool,
    /// Until when the server calls the list fresh (specification 2026-07-28, "Caching"): the time to live of each page
    /// begins when that page is received, and the first one that passes counts. `None` if the server did not say, which
    /// differs from a time that has passed. It is information for the embedder: the engine does not poll lists.
    pub fresh_until: Option<Time>,
    /// Who may use the list, if it is stored.
    pub cache_scope: CacheScope,
}

/// A list that is being received.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Listing {
    /// The hashes of the cursors so far. A collision only ends the server's own list early.
    seen: BTreeSet<u64>,
    items: Builder,
    /// Items that were left out, or that lost a member.
    invalid: Flaws,
    /// Items with a key that came before.
    duplicate: Flaws,
    pages: usize,
    /// The cursor of the page that is requested next.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
    next: Option<Box<str>>,
    /// The id of the request for the first page.
    first: u64,
    /// Until when all pages are fresh; `None` if the server did not say of each one.
    fresh_until: Option<Time>,
    /// Who may use the list.
    #[cfg_attr(feature = "snapshot", serde(default))]
    scope: CacheScope,
    /// The whole list, once the last page of a refresh was received.
    #[cfg_attr(feature = "snapshot", serde(with = "crate::catalog::form::optional_list"))]
    done: Option<List>,
    /// How often a page was requested again because its exchange broke.
    broken: Used,
}

/// One page of a list, as it was received.
struct Page<'a> {
    items: Items<'a>,
    bounds: Bounds,
    /// The cursor of the next page, a JSON string.
    cursor: Option<Json<'a>>,
    /// How long the page is fresh.
    ttl: Option<Duration>,
    scope: CacheScope,
}

impl<'a> Page<'a> {
    /// Reads a page, or returns why it is not one. Deviations of its shape are recorded.
    fn read(core: &mut Core, family: Family, result: &'a RawValue) -> Result<Self, Cow<'static, str>> {
        let limits = core.options.limits;
        let mirror = core.is_modern() && core.wire == Wire::Http;
        let bounds = Bounds { items: limits.items, bytes: limits.list_bytes, mirror };
        let (mut items, mut next, mut kind, mut ttl, mut scope) = (None, None, None, None, None);
        let spans = core::mem::take(&mut core.spans);
        Json::from(result).scan().skipping(spans).each_member(|name, value| match name {
            "nextCursor" => next = value.value(),
            "resultType" => kind = value.value().and_then(Json::as_string),
            "cacheScope" => scope = value.value().and_then(Json::as_string),
            "ttlMs" => ttl = value.value().and_then(|ttl| ttl.text().parse::<i64>().ok()),
            _ if name == family.member() => items = Some(Items::read(family, value, bounds)),
            _ => {}
        });
        match of_page(core, kind.as_deref()) {
            result_type::Meaning::Complete => {}
            result_type::Meaning::Input | result_type::Meaning::Task | result_type::Meaning::Invalid => {
                let kind = kind.unwrap_or_default();
                return Err(format!("a result of type `{}`, where a list was expected", excerpt(&kind)).into());
            }
        }
        let present = items.filter(|items| !matches!(items, Err(Some(value)) if value.is_null()));
        if present.is_none() {
            let detail = format!("the result has no `{}`; taken as an empty list", family.member());
            core.quirk(QuirkKind::ListShape, Some(family), Some(family.list_method()), detail);
        }
        let next = next.filter(|next| !next.is_null());
        let cursor = next.filter(|next| next.first() == b'"');
        if let (Some(next), None) = (next, cursor) {
            let detail = format!("`nextCursor` is {}, not a string; taken as the end", excerpt(next.text()));
            core.quirk(QuirkKind::ListShape, Some(family), Some(family.list_method()), detail);
        }
        let Ok(items) = present.unwrap_or(Ok(Items::EMPTY)) else {
            return Err(format!("`{}` is no array", family.member()).into());
        };
        let ttl = ttl.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Self { items, bounds, cursor, ttl, scope: CacheScope::read(scope.as_deref()) })
    }
}

impl Listing {
    /// Adds the deviations of a page, and records those of the list: new ones, and all of them if the list `ends`.
    fn add_flaws(&mut self, core: &mut Core, family: Family, page: PageReport, repeated: bool, ends: bool) {
        // A page that repeats earlier items is recorded as a cursor loop.
        let duplicate = if repeated { Flaws::default() } else { page.duplicate };
        let kinds = [
            (QuirkKind::InvalidItem, &mut self.invalid, page.invalid),
            (QuirkKind::DuplicateItem, &mut self.duplicate, duplicate),
        ];
        for (kind, so_far, page) in kinds {
            let grows = !page.is_empty();
            so_far.extend(page);
            if grows || ends && !so_far.is_empty() {
                core.item_quirk(kind, family, so_far.words().into(), ends);
            }
        }
    }
}

/// How a list ended.
#[derive(Clone, Copy)]
enum End {
    /// The whole list was received.
    Whole,
    /// Its beginning was received.
    Part,
    /// It failed.
    Failed,
}

impl From<ListErrors> for list_error::Policy {
    fn from(policy: ListErrors) -> Self {
        match policy {
            ListErrors::Fail => Self::Fail,
            ListErrors::Degrade => Self::Degrade,
        }
    }
}

/// Why a list failed.
pub(super) enum ListFailure<'a> {
    /// The server's error.
    Server(&'a ErrorObject),
    /// A problem that the engine found.
    Engine(Cow<'a, str>),
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

    /// Steps the pages of a family's list, and requests the next one. Returns how the list ends, if it does.
    fn step_paging(&mut self, core: &mut Core, family: Family, input: Input) -> Option<End> {
        let slot = self.slots.get_mut(family);
        let row = paging::take(slot.paging, input);
        slot.paging = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let words = self.slots.get(family).words.as_deref();
            core.quirk(kind, Some(family), Some(family.list_method()), quirk_text(input, words.unwrap_or_default()));
        }
        let mut end = None;
        for effect in row.effects {
            match effect {
                Effect::RequestFirst => {
                    self.slots.get_mut(family).listing = Some(Box::default());
                    self.request_page(core, family, None);
                }
                Effect::RequestNext => {
                    let cursor = self.slots.get_mut(family).listing.as_mut().and_then(|listing| listing.next.take());
                    self.request_page(core, family, cursor);
                }
                Effect::EndWhole => end = Some(End::Whole),
                Effect::EndPart => end = Some(End::Part),
                Effect::EndFailed => end = Some(End::Failed),
            }
        }
        end
    }

    fn request_page(&mut self, core: &mut Core, family: Family, cursor: Option<Box<str>>) {
        let deadline = core.request_deadline();
        let id = core.requests.insert(Purpose::List { family, cursor }, Some(deadline));
        if let Some(listing) = self.slots.get_mut(family).listing.as_mut().filter(|listing| listing.pages == 0) {
            listing.first = id;
        }
    }

    /// A list ended; `class` is the class of the error, if it failed.
    fn on_end(&mut self, core: &mut Core, family: Family, end: End, class: Class) -> Signals {
        match (refresh::take_owner(self.slots.get(family).refresh), end) {
            (Owner::Refresh, End::Whole) => self.on_refreshed(core, family),
            (Owner::Refresh, End::Part) => self.step_refresh(core, family, refresh::Input::Part),
            (Owner::Refresh, End::Failed) => self.step_refresh(core, family, refresh::Input::Failed),
            (Owner::Discovery, End::Whole) => self.step_discovery(core, family, discovery::Input::Whole),
            (Owner::Discovery, End::Part) => self.step_discovery(core, family, discovery::Input::Part),
            (Owner::Discovery, End::Failed) => self.on_discovery_failure(core, family, class),
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
                // The start of a list does not end it.
                Effect::Request => {
                    self.step_paging(core, family, paging::Input::Start);
                }
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

    /// A list failed in discovery.
    fn on_discovery_failure(&mut self, core: &mut Core, family: Family, class: Class) -> Signals {
        let tolerance = core.options.tolerance;
        let declared = declaration(core.server.as_ref().and_then(|server| server.declares(family)));
        let list = match family {
            Family::Tools => list_error::List::Tools,
            Family::Prompts | Family::Resources | Family::ResourceTemplates => list_error::List::Optional,
        };
        let tools_absent = match tolerance.tools_absent {
            false => list_error::ToolsAbsent::Fail,
            true => list_error::ToolsAbsent::Tolerate,
        };
        let by_text = match tolerance.absent_by_text {
            false => list_error::ByText::Ignore,
            true => list_error::ByText::Believe,
        };
        let input = match list_error::take_meaning(class, declared, list, tools_absent, by_text) {
            Meaning::Absent => discovery::Input::Absent,
            Meaning::AbsentAs(kind) => {
                let words = self.slots.get(family).words.as_deref().unwrap_or_default();
                let (server, capability) = (core.server_name(), family.capability().as_str());
                let method = family.list_method();
                let detail = format!("{server} declares `{capability}`, yet answered `{method}` with {words}");
                core.quirk(kind, Some(family), Some(method), detail);
                discovery::Input::Absent
            }
            Meaning::Failed => match list_error::take_cost(tolerance.list_errors.into(), self.held(core, family)) {
                Cost::Fatal => discovery::Input::ErrorFatal,
                Cost::Rest => discovery::Input::ErrorRest,
                Cost::List => discovery::Input::ErrorList,
                Cost::Nothing => discovery::Input::ErrorStale,
            },
        };
        self.step_discovery(core, family, input)
    }

    /// What is known of a family whose list failed.
    fn held(&self, core: &Core, family: Family) -> list_error::Held {
        let slot = self.slots.get(family);
        let pages = slot.listing.as_ref().is_some_and(|listing| !listing.items.is_empty());
        let former = matches!(slot.status, FamilyStatus::Listed | FamilyStatus::Partial);
        match (core.was_ready, former, pages) {
            (false, _, false) => list_error::Held::FirstNothing,
            (false, _, true) => list_error::Held::FirstPages,
            (true, true, _) => list_error::Held::Former,
            (true, false, false) => list_error::Held::LaterNothing,
            (true, false, true) => list_error::Held::LaterPages,
        }
    }

    fn set_status(&mut self, core: &mut Core, family: Family, status: FamilyStatus) {
        self.slots.get_mut(family).status = status;
        *core.known.get_mut(family) = Slot::known(status);
    }

    /// Removes the items of a family.
    fn clear(&mut self, core: &mut Core, family: Family) {
        if !core.catalog.list(family).is_empty() {
            self.slots.get_mut(family).listing = Some(Box::default());
            self.commit(core, family);
        }
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

    /// Takes a failure of a list.
    pub(super) fn on_failure(&mut self, core: &mut Core, family: Family, failure: ListFailure<'_>) -> Signals {
        let slot = self.slots.get_mut(family);
        let Some(listing) = &mut slot.listing else { return Signals::NONE };
        let on_cursor = listing.pages > 0;
        listing.add_flaws(core, family, PageReport::default(), false, true);
        let (words, class, refused) = match failure {
            ListFailure::Server(error) => {
                (error.to_string().into(), class_of(error), error.code == error_code::INVALID_PARAMS)
            }
            ListFailure::Engine(words) => (words, Class::Other, false),
        };
        slot.words = Some(Box::from(excerpt(&words)));
        let input = if refused && on_cursor { paging::Input::CursorRefused } else { paging::Input::Failed };
        match self.step_paging(core, family, input) {
            Some(end) => self.on_end(core, family, end, class),
            None => Signals::NONE,
        }
    }

    /// The exchange of a page broke.
    pub(super) fn on_broken(
        &mut self,
        core: &mut Core,
        family: Family,
        cursor: Option<Box<str>>,
        words: String,
    ) -> Signals {
        let Some(listing) = &mut self.slots.get_mut(family).listing else { return Signals::NONE };
        let phase = match core.stage() {
            Stage::Discovery => list_error::Phase::Discovery,
            Stage::Down | Stage::Handshake | Stage::Ready | Stage::Closing | Stage::Closed => list_error::Phase::Ready,
        };
        let reconnect = match core.options.reconnect {
            Some(_) => list_error::Reconnect::On,
            None => list_error::Reconnect::Off,
        };
        match list_error::take_broken(resend::take(Reason::Broken, listing.broken), phase, reconnect) {
            Broken::Again => {
                listing.broken = listing.broken.more();
                self.request_page(core, family, cursor);
                Signals::NONE
            }
            Broken::Lost => {
                let message = format!("{} during discovery: {words}", core.server_name());
                Signals::lost(FailureKind::Closed, message, loss::Transport::Closed)
            }
            Broken::Failed => self.on_failure(core, family, ListFailure::Engine(words.into())),
        }
    }

    /// The server announced a change of a family's list.
    pub(super) fn on_changed(&mut self, core: &mut Core, family: Family) -> Signals {
        let decision = core.gate(gate::Use::ListChanged, family);
        if let Some(kind) = decision.quirk() {
            let detail = alloc::format!("`{}` is not declared; ignored", family.capability().as_str());
            core.quirk(kind, Some(family), Some(list_changed_method(family)), detail);
        }
        match decision.is_allowed() {
            true => self.step_discovery(core, family, discovery::Input::ListChanged),
            false => Signals::NONE,
        }
    }

    /// The listen stream of this request announces changes from now on.
    pub(super) fn on_watched(&mut self, core: &mut Core, request: u64, families: &PerFamily<Watch>) -> Signals {
        let mut signals = Signals::NONE;
        for (family, _) in families.iter().filter(|(_, watch)| watch.now && !watch.before) {
            // A list that was requested before the stream may be older than it, whichever response came first.
            let listing = self.slots.get(family).listing.as_ref();
            let late = listing.is_some_and(|listing| listing.pages == 0 && listing.first < request);
            let input = if late { list_watch::Input::BegunLate } else { list_watch::Input::Begun };
            signals.extend(self.step_watch(core, family, input));
        }
        signals
    }

    /// Changes of these families are not announced any more.
    pub(super) fn on_unwatched(&mut self, core: &mut Core, families: &PerFamily<bool>) -> Signals {
        let mut signals = Signals::NONE;
        for (family, _) in families.iter().filter(|(_, told)| **told) {
            signals.extend(self.step_watch(core, family, list_watch::Input::Ended));
        }
        signals
    }

    fn step_watch(&mut self, core: &mut Core, family: Family, input: list_watch::Input) -> Signals {
        let slot = self.slots.get_mut(family);
        let row = list_watch::take(slot.watch, input);
        slot.watch = row.next;
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                list_watch::Effect::Recheck => {
                    signals.extend(self.step_discovery(core, family, discovery::Input::Outdated));
                }
            }
        }
        signals
    }

    /// Requests a family's list again, even if it is fresh.
    pub(super) fn want(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_discovery(core, family, discovery::Input::Wanted)
    }

    /// The embedder requests a family's list again. The outcome is reported.
    pub(super) fn demand(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_demand(core, family, refresh_demand::Input::Want);
        self.want(core, family)
    }

    /// The connection ended, and its lists with it.
    pub(super) fn on_connection_ended(&mut self, core: &mut Core) {
        for family in Family::ALL.iter().copied() {
            self.step_demand(core, family, refresh_demand::Input::ConnectionEnded);
        }
    }

    fn step_demand(&mut self, core: &mut Core, family: Family, input: refresh_demand::Input) {
        use refresh_demand::Effect;
        let slot = self.slots.get_mut(family);
        let row = refresh_demand::take(slot.demand, input);
        slot.demand = row.next;
        for effect in row.effects {
            let outcome = match effect {
                Effect::ReportSame => RefreshOutcome::Same,
                Effect::ReportDiffers => RefreshOutcome::Differs,
                Effect::ReportPart => RefreshOutcome::Part,
                Effect::ReportFailed => RefreshOutcome::Failed(slot.words.clone().unwrap_or_default()),
                Effect::ReportLost => RefreshOutcome::Failed("the connection ended".into()),
            };
            let is_queued = core.outbox.iter().any(|output| match output {
                Output::Event(Event::Refreshed { family: other, outcome: same }) => {
                    *other == family && discriminant(same) == discriminant(&outcome)
                }
                Output::Event(_) | Output::Send(_) | Output::Open(_) | Output::Shutdown(_) | Output::Abort(_) => false,
            });
            let is_unpolled = is_queued || core.binding.has_refreshed(family, &outcome);
            match refresh_demand::take_report(if is_unpolled { Unpolled::Yes } else { Unpolled::No }) {
                Report::Tell => core.event(Event::Refreshed { family, outcome }),
                Report::LeaveOut => {}
            }
        }
    }

    /// The wait before a refresh is over.
    pub(super) fn on_timer(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_refresh(core, family, refresh::Input::Timer)
    }

    fn step_refresh(&mut self, core: &mut Core, family: Family, input: refresh::Input) -> Signals {
        let slot = self.slots.get_mut(family);
        let row = refresh::take(slot.refresh, input);
        slot.refresh = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail =
                "refreshes after `list_changed` found the same list several times in a row; refreshed less often";
            core.quirk(kind, Some(family), Some(family.list_method()), detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let slot = self.slots.get_mut(family);
            match effect {
                refresh::Effect::Arm => {
                    let timeouts = &core.options.timeouts;
                    let gathered = core.after(timeouts.debounce);
                    slot.stale = true;
                    let interval = crate::time::backoff(timeouts.refresh_interval, slot.slow, LONGEST_WAIT);
                    let spaced = slot.last_listed.map(|last| last + interval);
                    core.timers.set(Timer::Refresh(family), Some(gathered.max(spaced.unwrap_or(gathered))));
                }
                refresh::Effect::ArmRetry => {
                    slot.stale = true;
                    let interval = core.options.timeouts.refresh_interval;
                    let wait = crate::time::backoff(interval, slot.failures, LONGEST_WAIT);
                    slot.failures = slot.failures.saturating_add(1).min(16);
                    core.arm(Timer::Refresh(family), wait);
                }
                refresh::Effect::Request => {
                    core.timers.set(Timer::Refresh(family), None);
                    self.step_demand(core, family, refresh_demand::Input::Requested);
                    // The start of a list does not end it.
                    self.step_paging(core, family, paging::Input::Start);
                }
                refresh::Effect::Commit => signals.extend(self.refreshed(core, family, FamilyStatus::Listed)),
                refresh::Effect::CommitPart => signals.extend(self.refreshed(core, family, FamilyStatus::Partial)),
                refresh::Effect::Count => slot.unchanged = slot.unchanged.more(),
                refresh::Effect::Slow => slot.slow = slot.slow.saturating_add(1).min(16),
                refresh::Effect::Steady => (slot.slow, slot.unchanged) = Default::default(),
                refresh::Effect::Drop => {
                    slot.listing = None;
                    signals.extend(Signals::schemas(family, false));
                }
            }
        }
        let found = match input {
            refresh::Input::Differs => refresh_demand::Input::Differs,
            refresh::Input::Same | refresh::Input::SameAnnounced | refresh::Input::SameAgain => {
                refresh_demand::Input::Same
            }
            refresh::Input::Part => refresh_demand::Input::Part,
            refresh::Input::Failed => refresh_demand::Input::Failed,
            refresh::Input::ListChanged
            | refresh::Input::Outdated
            | refresh::Input::Wanted
            | refresh::Input::Timer
            | refresh::Input::Reset => return signals,
        };
        self.step_demand(core, family, found);
        signals
    }

    /// The whole list of a refresh was received.
    fn on_refreshed(&mut self, core: &mut Core, family: Family) -> Signals {
        if let Some(listing) = &mut self.slots.get_mut(family).listing {
            listing.done = Some(core::mem::take(&mut listing.items).finish());
        }
        let input = self.compare(core, family);
        self.step_refresh(core, family, input)
    }

    /// Compares the list of a refresh with the known one.
    fn compare(&self, core: &Core, family: Family) -> refresh::Input {
        let slot = self.slots.get(family);
        let done = slot.listing.as_ref().and_then(|listing| listing.done.as_ref());
        let same = done.is_some_and(|list| list.has_same_items(core.catalog.list(family)));
        let found = if same { Found::Same } else { Found::Differs };
        refresh::take_compared(found, slot.refresh.cause(), slot.unchanged)
    }

    fn refreshed(&mut self, core: &mut Core, family: Family, status: FamilyStatus) -> Signals {
        self.slots.get_mut(family).failures = 0;
        self.set_status(core, family, status);
        self.commit(core, family);
        core.release_memory();
        Signals::schemas(family, true)
    }
}

/// The description of a deviation in the pages of a list; `error` is the last error of the list.
fn quirk_text(input: Input, error: &str) -> Cow<'static, str> {
    match input {
        Input::CursorRefused => format!("the server refused its own cursor ({error}); began again").into(),
        Input::RepeatedEmpty | Input::RepeatedNew => {
            "a cursor came twice; it is followed while its pages bring something new".into()
        }
        Input::Limit => "longer than the bounds; the rest is left out".into(),
        Input::Start | Input::More | Input::Last | Input::EmptyCursor | Input::Failed | Input::Stop => Cow::default(),
    }
}

/// The notification that announces a change of a family's list.
const fn list_changed_method(family: Family) -> &'static str {
    match family {
        Family::Tools => method::TOOLS_LIST_CHANGED,
        Family::Prompts => method::PROMPTS_LIST_CHANGED,
        Family::Resources | Family::ResourceTemplates => method::RESOURCES_LIST_CHANGED,
    }
}
