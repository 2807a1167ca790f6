//! Component: the server's lists, discovered on each connection, received page by page, refreshed when they change.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::mem::discriminant;
use core::time::Duration;
use serde_json::value::RawValue;

use super::core::{Core, LONGEST_WAIT, Signal, Signals, Stage, Timer, Watch, declaration};
use super::outcome::class_of;
use super::request::Purpose;
use super::result_type::of_page;
use super::{Event, FailureKind, FamilyStatus, ListErrors, Output, RefreshOutcome, Wire};
use crate::Time;
use crate::catalog::{Bounds, Builder, Difference, Flaws, Items, List, PageReport};
use crate::collections::{LeastSet, hash};
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::lists::discovery::{self, Effect, State};
use crate::machine::lists::error::{self, Absence, Class, Held};
use crate::machine::lists::paging::{self, Cursor, Limit, Next};
use crate::machine::lists::refresh::{self, Phase, Why};
use crate::machine::server::result::Content;
use crate::machine::{QuirkKind, Verdict, gate, link, request};
use crate::protocol::{CacheScope, Family, PerFamily, error_code, method};
use crate::text::excerpt;

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lists {
    slots: PerFamily<Slot>,
}

/// How often a page is requested again because its exchange broke.
const RESENDS: u8 = 2;

/// After so many announced changes in a row that were none, refreshes become less frequent.
const UNCHANGED: u8 = 2;

/// What is known of the list of one family.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Slot {
    connection: Connection,
    pages: usize,
    stale: bool,
    fresh_until: Option<Time>,
    scope: CacheScope,
    last_listed: Option<Time>,
    last_error: Option<Box<str>>,
}

/// What belongs to one connection: each one begins anew.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Connection {
    discovery: State,
    refresh: refresh::State,
    /// The list that is being received.
    listing: Option<Box<Listing>>,
    /// The list may have changed while no stream announced its changes.
    unwatched: bool,
    /// The embedder waits for the list that is being received.
    awaited: bool,
    /// The embedder waits for the list that is requested next.
    awaited_next: bool,
    failures: u32,
    /// Announced changes in a row that were none.
    unchanged: u8,
    /// How often the interval between refreshes was doubled.
    slow: u32,
}

impl Connection {
    /// Whether discovery is done for the family.
    fn is_settled(&self) -> bool {
        match self.discovery {
            State::Listed | State::NotAdvertised | State::Absent | State::Partial | State::Failed => true,
            State::NotRequested | State::Listing | State::ListingStale | State::Relisting | State::RelistingStale => {
                false
            }
        }
    }

    /// Finishes the whole list of a refresh, and compares it with the known one.
    fn compare(&mut self, core: &Core, family: Family) -> refresh::Input {
        let list =
            self.listing.as_mut().map(|listing| listing.done.insert(core::mem::take(&mut listing.items).finish()));
        let same = list.is_some_and(|list| list.has_same_items(core.catalog.list(family)));
        match same {
            false => refresh::Input::Differs,
            true if self.refresh.why == Why::Announced && self.unchanged >= UNCHANGED => refresh::Input::SameAgain,
            true => refresh::Input::Same,
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
    /// When the list was received last, whole or in part; `None` before that. A failed refresh does not change it.
    pub last_listed: Option<Time>,
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
    seen: LeastSet<u64>,
    items: Builder,
    /// Items that were left out, or that lost a member.
    invalid: Flaws,
    /// Items with a key that came before.
    duplicate: Flaws,
    pages: usize,
    /// The server refused a cursor of an earlier attempt.
    restarted: bool,
    /// The id of the request for the first page.
    first: u64,
    /// Until when all pages are fresh; `None` if the server did not say of each one.
    fresh_until: Option<Time>,
    /// Who may use the list.
    scope: CacheScope,
    /// The whole list, once the last page of a refresh was received.
    #[cfg_attr(feature = "snapshot", serde(with = "crate::catalog::form::optional_list"))]
    done: Option<List>,
    /// How often a page was requested again because its exchange broke.
    broken: u8,
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
        Json::from(result).scan().with(spans).each_member(|name, value| match name {
            "nextCursor" => next = value.value(),
            "resultType" => kind = value.value(),
            "cacheScope" => scope = value.value().and_then(Json::as_string),
            "ttlMs" => ttl = value.value().and_then(Json::as_integer),
            _ if name == family.member() => items = Some(Items::read(family, value, bounds)),
            _ => {}
        });
        match of_page(core, kind) {
            Content::Complete => {}
            Content::Input | Content::Task | Content::Invalid => {
                let kind = kind.map(|kind| kind.as_string().unwrap_or(Cow::Borrowed(kind.text()))).unwrap_or_default();
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
            return Err(format!("`{}` is not an array", family.member()).into());
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
    Whole,
    /// Its beginning was received.
    Part,
    /// It failed, by an error of this class.
    Failed(Class),
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
        for listing in self.slots.iter().filter_map(|(_, slot)| slot.connection.listing.as_deref()) {
            crate::snapshot::within("pages", listing.pages.max(listing.seen.len()), limits.pages.saturating_add(1))?;
            listing.items.check(limits.items, limits.list_bytes)?;
        }
        Ok(())
    }

    pub(super) fn report(&self, core: &Core, family: Family, watched: bool) -> FamilyReport {
        let slot = self.slots.get(family);
        FamilyReport {
            status: *core.families.get(family),
            pages: slot.pages,
            stale: slot.stale,
            watched,
            last_listed: slot.last_listed,
            fresh_until: slot.fresh_until,
            cache_scope: slot.scope,
        }
    }

    /// Whether lists were requested on this connection, and none was answered in any way.
    pub(super) fn has_no_answer(&self) -> bool {
        let is_open = |slot: &Slot| slot.connection.listing.as_ref().is_some_and(|listing| listing.pages == 0);
        let is_unasked = |slot: &Slot| matches!(slot.connection.discovery, State::NotRequested | State::NotAdvertised);
        self.slots.iter().any(|(_, slot)| is_open(slot))
            && self.slots.iter().all(|(_, slot)| is_open(slot) || is_unasked(slot))
    }

    pub(super) fn error(&self, family: Family) -> Option<&str> {
        self.slots.get(family).last_error.as_deref()
    }

    /// The last errors of the lists.
    #[cfg(feature = "http")]
    pub(super) fn last_errors(&mut self) -> impl Iterator<Item = &mut Box<str>> {
        self.slots.values_mut().filter_map(|slot| slot.last_error.as_mut())
    }

    /// The smallest list that worked.
    pub(super) fn smallest_list(&self, core: &Core) -> Option<Family> {
        let allowed = |family| core.gate(gate::Use::Keepalive, family).is_allowed();
        let listed = self.slots.iter().filter(|(family, _)| allowed(*family));
        listed.min_by_key(|(family, slot)| (slot.pages, core.catalog.list(*family).len())).map(|(family, _)| family)
    }

    /// The deadline of discovery passed: incomplete lists have failed.
    pub(super) fn on_discovery_timeout(&mut self, core: &mut Core) -> Signals {
        let why = format!("the list was not done within {:?}", core.options.timeouts.discovery);
        let mut signals = Signals::NONE;
        for family in Family::ALL.iter().copied() {
            if !self.slots.get(family).connection.is_settled() {
                core.requests.list(family).and_then(|id| core.end_request(id, request::Input::TimedOut, &why));
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
        let listing = self.slots.get_mut(family).connection.listing.as_mut();
        if let Some(listing) = listing.filter(|listing| listing.first == id) {
            listing.first = new;
        }
    }

    /// Takes a page. `watched`: the server announces changes of the list.
    pub(super) fn on_page(&mut self, core: &mut Core, family: Family, result: &RawValue, watched: bool) -> Signals {
        let page = match Page::read(core, family, result) {
            Ok(page) => page,
            Err(why) => return self.on_failure(core, family, ListFailure::Engine(why)),
        };
        let connection = &mut self.slots.get_mut(family).connection;
        let listing = connection.listing.get_or_insert_default();
        if listing.pages == 0 && !watched {
            connection.unwatched = true;
        }
        let report = listing.items.add(page.items, page.bounds);
        listing.pages = listing.pages.saturating_add(1);
        // The list is fresh until the first of its pages expires; a negative time to live counts as none.
        let (first, until) = (listing.pages == 1, page.ttl.map(|ttl| core.now + ttl));
        listing.fresh_until =
            if first { until } else { listing.fresh_until.zip(until).map(|(sooner, until)| sooner.min(until)) };
        listing.scope = if first { page.scope } else { listing.scope.and(page.scope) };
        let text = page.cursor.map(Json::text);
        let named = text.map(|cursor| hash(cursor.as_bytes()));
        let again = named.is_some_and(|cursor| listing.seen.has(&cursor));
        named.into_iter().for_each(|cursor| listing.seen.insert(cursor));
        let cursor = match (text, again) {
            (None, _) => Cursor::None,
            (Some(_), false) => Cursor::New,
            (Some(_), true) => Cursor::Again,
        };
        let limit = match (report.over, listing.pages >= core.options.limits.pages) {
            (true, _) => Limit::Items,
            (false, true) => Limit::Pages,
            (false, false) => Limit::None,
        };
        let next = paging::decide(limit, cursor, report.added > 0);
        let (end, kind) = match next {
            Next::Request => (None, None),
            Next::RequestAs(kind) => (None, Some(kind)),
            Next::Whole => (Some(End::Whole), None),
            Next::WholeAs(kind) => (Some(End::Whole), Some(kind)),
            Next::PartAs(kind) => (Some(End::Part), Some(kind)),
        };
        listing.add_flaws(core, family, report, again, end.is_some());
        let method = Some(family.list_method());
        if let Some(kind) = core.gate(gate::Use::Listed, family).quirk() {
            core.quirk(kind, Some(family), method, "not declared, but listed");
        }
        if let Some(kind) = kind {
            let detail = match end {
                Some(End::Part) => "longer than the bounds; the rest is left out",
                Some(End::Whole | End::Failed(_)) | None => {
                    "a cursor came twice; it is followed while its pages bring something new"
                }
            };
            core.quirk(kind, Some(family), method, detail);
        }
        match end {
            Some(end) => self.on_end(core, family, end),
            None => {
                self.request_page(core, family, text.map(Box::from));
                Signals::NONE
            }
        }
    }

    /// Requests the first page of a list.
    fn begin(&mut self, core: &mut Core, family: Family, restarted: bool) {
        let listing = Listing { restarted, ..Listing::default() };
        self.slots.get_mut(family).connection.listing = Some(Box::new(listing));
        self.request_page(core, family, None);
    }

    fn request_page(&mut self, core: &mut Core, family: Family, cursor: Option<Box<str>>) {
        let deadline = core.request_deadline();
        let id = core.requests.insert(Purpose::List { family, cursor }, Some(deadline));
        let listing = self.slots.get_mut(family).connection.listing.as_mut();
        if let Some(listing) = listing.filter(|listing| listing.pages == 0) {
            listing.first = id;
        }
    }

    /// What follows when a list ends, in a refresh or in discovery.
    fn on_end(&mut self, core: &mut Core, family: Family, end: End) -> Signals {
        if self.slots.get(family).connection.refresh.phase != Phase::Idle {
            return self.on_refresh_end(core, family, end);
        }
        let input = match end {
            End::Whole => discovery::Input::Whole,
            End::Part => discovery::Input::Part,
            End::Failed(class) => self.classify_failure(core, family, class),
        };
        self.step_discovery(core, family, input)
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
        let connection = &mut self.slots.get_mut(family).connection;
        let row = discovery::step(connection.discovery, input);
        // After discovery the status is that of the last refresh.
        let moved = core::mem::replace(&mut connection.discovery, row.next) != row.next;
        let status = match row.next {
            State::NotAdvertised => Some(FamilyStatus::NotAdvertised),
            State::Listed | State::Relisting | State::RelistingStale => Some(FamilyStatus::Listed),
            State::Absent => Some(FamilyStatus::Absent),
            State::Partial => Some(FamilyStatus::Partial),
            State::Failed => Some(FamilyStatus::Failed),
            State::NotRequested | State::Listing | State::ListingStale => None,
        };
        if let Some(status) = status.filter(|_| moved) {
            *core.families.get_mut(family) = status;
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Request => self.begin(core, family, false),
                Effect::Commit => self.commit(core, family),
                Effect::Drop => self.slots.get_mut(family).connection.listing = None,
                Effect::Clear => self.clear(core, family),
                Effect::Fail => {
                    let error = self.slots.get_mut(family).last_error.take().unwrap_or_default();
                    let (server, method) = (core.server_name(), family.list_method());
                    let message = format!("{server} did not give the list of `{method}`: {error}");
                    signals.extend(Signals::lost(FailureKind::ListFailed, message, link::Transport::Open));
                    return signals;
                }
                Effect::Refresh => signals.extend(self.step_refresh(core, family, refresh::Input::ListChanged)),
                Effect::Recheck => signals.extend(self.step_refresh(core, family, refresh::Input::Outdated)),
                Effect::Renew => signals.extend(self.step_refresh(core, family, refresh::Input::Wanted)),
                Effect::Deny => signals.extend(Signals::schemas(family, false)),
            }
        }
        let settled = || self.slots.iter().all(|(_, slot)| slot.connection.is_settled());
        if core.stage() == Stage::Discovery && settled() {
            signals.push(Signal::Discovered);
        }
        signals
    }

    /// What a failed list means in discovery. A deviation of the server is recorded.
    fn classify_failure(&self, core: &mut Core, family: Family, class: Class) -> discovery::Input {
        let tolerance = core.options.tolerance;
        let declared = declaration(core.server.as_ref().and_then(|server| server.declares(family)));
        // A server has to have tools, unless the embedder tolerates that it has none.
        match error::absence(declared, class, family == Family::Tools && !tolerance.tools_absent) {
            Absence::Absent => discovery::Input::Absent,
            Absence::AbsentAs(kind) => {
                let error = self.error(family).unwrap_or_default();
                let (server, capability) = (core.server_name(), family.capability().as_str());
                let method = family.list_method();
                let detail = format!("{server} declares `{capability}`, but answered `{method}` with {error}");
                core.quirk(kind, Some(family), Some(method), detail);
                discovery::Input::Absent
            }
            Absence::Failed => error::cost(tolerance.list_errors == ListErrors::Degrade, self.held(core, family)),
        }
    }

    /// What is known of a family whose list failed.
    fn held(&self, core: &Core, family: Family) -> Held {
        let slot = self.slots.get(family);
        let pages = slot.connection.listing.as_ref().is_some_and(|listing| !listing.items.is_empty());
        let former = matches!(core.families.get(family), FamilyStatus::Listed | FamilyStatus::Partial);
        match (core.was_ready, former, pages) {
            (false, _, false) => Held::FirstNothing,
            (false, _, true) => Held::FirstPages,
            (true, true, _) => Held::Former,
            (true, false, false) => Held::LaterNothing,
            (true, false, true) => Held::LaterPages,
        }
    }

    /// Removes the items of a family.
    fn clear(&mut self, core: &mut Core, family: Family) {
        if !core.catalog.list(family).is_empty() {
            self.slots.get_mut(family).connection.listing = None;
            self.commit(core, family);
        }
    }

    /// Makes the received list, or an empty one, the family's list, and reports the difference.
    fn commit(&mut self, core: &mut Core, family: Family) {
        let slot = self.slots.get_mut(family);
        let listing = slot.connection.listing.take().unwrap_or_default();
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
        let listing = slot.connection.listing.get_or_insert_default();
        let may_restart = listing.pages > 0 && !listing.restarted;
        listing.add_flaws(core, family, PageReport::default(), false, true);
        let (error, class, refused) = match failure {
            ListFailure::Server(error) => {
                let class = class_of(error, core.options.tolerance.absent_by_text);
                (error.to_string().into(), class, error.code == error_code::INVALID_PARAMS)
            }
            ListFailure::Engine(error) => (error, Class::Other, false),
        };
        let error = excerpt(&error);
        slot.last_error = Some(Box::from(&*error));
        if refused && may_restart {
            let detail = format!("the server refused its own cursor ({error}); began again");
            core.quirk(QuirkKind::CursorRejected, Some(family), Some(family.list_method()), detail);
            self.begin(core, family, true);
            return Signals::NONE;
        }
        self.on_end(core, family, End::Failed(class))
    }

    /// The exchange of a page broke.
    pub(super) fn on_broken(
        &mut self,
        core: &mut Core,
        family: Family,
        cursor: Option<Box<str>>,
        error: String,
    ) -> Signals {
        let listing = self.slots.get_mut(family).connection.listing.get_or_insert_default();
        if listing.broken < RESENDS {
            listing.broken = listing.broken.saturating_add(1);
            self.request_page(core, family, cursor);
            return Signals::NONE;
        }
        if core.stage() == Stage::Discovery && core.options.reconnect.is_some() {
            // The server did not refuse the list, so another connection may give it.
            let message = format!("{} during discovery: {error}", core.server_name());
            return Signals::lost(FailureKind::Closed, message, link::Transport::Closed);
        }
        self.on_failure(core, family, ListFailure::Engine(error.into()))
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
            let connection = &mut self.slots.get_mut(family).connection;
            // A list that was requested before the stream may be older than it, whichever response came first.
            let listing = connection.listing.as_ref();
            let late = listing.is_some_and(|listing| listing.pages == 0 && listing.first < request);
            if core::mem::take(&mut connection.unwatched) || late {
                signals.extend(self.step_discovery(core, family, discovery::Input::Outdated));
            }
        }
        signals
    }

    /// Changes of these families are not announced any more.
    pub(super) fn on_unwatched(&mut self, families: &PerFamily<bool>) {
        for (family, _) in families.iter().filter(|(_, announced)| **announced) {
            self.slots.get_mut(family).connection.unwatched = true;
        }
    }

    /// Requests a family's list again, even if it is fresh.
    pub(super) fn request_again(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_discovery(core, family, discovery::Input::Wanted)
    }

    /// The embedder requests a family's list again. The outcome is reported, of a list that is requested from now on.
    pub(super) fn refresh_on_command(&mut self, core: &mut Core, family: Family) -> Signals {
        self.slots.get_mut(family).connection.awaited_next = true;
        self.request_again(core, family)
    }

    /// The connection ended: the items stay.
    pub(super) fn on_connection_ended(&mut self, core: &mut Core) {
        for family in Family::ALL.iter().copied() {
            let connection = core::mem::take(&mut self.slots.get_mut(family).connection);
            if connection.awaited || connection.awaited_next {
                report_refresh(core, family, RefreshOutcome::Failed("the connection ended".into()));
            }
        }
    }

    /// The wait before a refresh is over.
    pub(super) fn on_timer(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_refresh(core, family, refresh::Input::Timer)
    }

    fn step_refresh(&mut self, core: &mut Core, family: Family, input: refresh::Input) -> Signals {
        let connection = &mut self.slots.get_mut(family).connection;
        let row = refresh::step(connection.refresh, input);
        connection.refresh = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail =
                "refreshes after `list_changed` found the same list several times in a row; refreshed less often";
            core.quirk(kind, Some(family), Some(family.list_method()), detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let slot = self.slots.get_mut(family);
            let connection = &mut slot.connection;
            match effect {
                refresh::Effect::Arm => {
                    let timeouts = &core.options.timeouts;
                    let gathered = core.after(timeouts.debounce);
                    slot.stale = true;
                    let interval = crate::time::backoff(timeouts.refresh_interval, connection.slow, LONGEST_WAIT);
                    let spaced = slot.last_listed.map(|last| last + interval);
                    core.timers.set(Timer::Refresh(family), Some(gathered.max(spaced.unwrap_or(gathered))));
                }
                refresh::Effect::ArmRetry => {
                    slot.stale = true;
                    let interval = core.options.timeouts.refresh_interval;
                    let wait = crate::time::backoff(interval, connection.failures, LONGEST_WAIT);
                    connection.failures = connection.failures.saturating_add(1).min(16);
                    core.arm(Timer::Refresh(family), wait);
                }
                refresh::Effect::Request => {
                    core.timers.set(Timer::Refresh(family), None);
                    connection.awaited = core::mem::take(&mut connection.awaited_next);
                    self.begin(core, family, false);
                }
                refresh::Effect::Commit => signals.extend(self.refreshed(core, family, FamilyStatus::Listed)),
                refresh::Effect::CommitPart => signals.extend(self.refreshed(core, family, FamilyStatus::Partial)),
                refresh::Effect::Count => connection.unchanged = connection.unchanged.saturating_add(1),
                refresh::Effect::Slow => connection.slow = connection.slow.saturating_add(1).min(16),
                refresh::Effect::Steady => (connection.slow, connection.unchanged) = Default::default(),
                refresh::Effect::Drop => {
                    connection.listing = None;
                    signals.extend(Signals::schemas(family, false));
                }
            }
        }
        signals
    }

    /// The list of a refresh ended.
    fn on_refresh_end(&mut self, core: &mut Core, family: Family, end: End) -> Signals {
        let slot = self.slots.get_mut(family);
        let (input, outcome) = match end {
            End::Whole => {
                let input = slot.connection.compare(core, family);
                let differs = input == refresh::Input::Differs;
                (input, if differs { RefreshOutcome::Differs } else { RefreshOutcome::Same })
            }
            End::Part => (refresh::Input::Part, RefreshOutcome::Part),
            End::Failed(_) => {
                let error = slot.last_error.clone().unwrap_or_default();
                (refresh::Input::Failed, RefreshOutcome::Failed(error))
            }
        };
        let signals = self.step_refresh(core, family, input);
        if core::mem::take(&mut self.slots.get_mut(family).connection.awaited) {
            report_refresh(core, family, outcome);
        }
        signals
    }

    fn refreshed(&mut self, core: &mut Core, family: Family, status: FamilyStatus) -> Signals {
        self.slots.get_mut(family).connection.failures = 0;
        *core.families.get_mut(family) = status;
        self.commit(core, family);
        core.release_memory();
        Signals::schemas(family, true)
    }
}

/// Reports the outcome of a refresh, unless the same one waits to be polled: a client that nobody polls does not hold an
/// outcome for each refresh.
fn report_refresh(core: &mut Core, family: Family, outcome: RefreshOutcome) {
    let is_queued = core.outbox.iter().any(|output| match output {
        Output::Event(Event::Refreshed { family: other, outcome: same }) => {
            *other == family && discriminant(same) == discriminant(&outcome)
        }
        Output::Event(_)
        | Output::Send(_)
        | Output::Open(_)
        | Output::Shutdown(_)
        | Output::Abort(_)
        | Output::Start(_)
        | Output::Drop(_) => false,
    });
    if !is_queued {
        core.event(Event::Refreshed { family, outcome });
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
