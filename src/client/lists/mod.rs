//! Component: the server's lists, discovered on each connection, received page by page, refreshed when they change.

mod page;
mod slot;

pub use slot::{FamilyReport, FamilyStatus};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;
use serde_json::value::RawValue;

use self::page::Page;
use self::slot::{Listing, Slot};
use super::core::{Core, Stage, declaration, excerpt};
use super::request_table::Purpose;
use super::signal::{Signal, Signals, Watch};
use super::timers::Timer;
use super::{Event, FailureKind, ListErrors};
use crate::catalog::{Difference, hash};
use crate::jsonrpc::ErrorObject;
use crate::machine::list_error::{self, Cost, Meaning};
use crate::machine::resend::{self, Reason, Resend};
use crate::machine::{QuirkKind, Verdict, discovery, gate, loss, paging, refresh};
use crate::protocol::{Family, PerFamily, error_code, method};

/// The longest wait between refreshes that fail or find no change.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How many refreshes in a row without a change count as a loop.
const LOOP: u32 = 3;

/// Why a list failed.
pub(super) enum ListFailure<'a> {
    /// The server's error.
    Server(&'a ErrorObject),
    /// A problem that the engine found.
    Engine(Cow<'a, str>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    slots: PerFamily<Slot>,
}

impl Lists {
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
            let asked = core.gate(gate::Purpose::Discover, family).is_allowed();
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
        }
    }

    pub(super) fn error(&self, family: Family) -> Option<&str> {
        self.slots.get(family).words.as_deref()
    }

    /// The smallest list that worked.
    pub(super) fn cheapest(&self, core: &Core) -> Option<Family> {
        let allowed = |family| core.gate(gate::Purpose::Keepalive, family).is_allowed();
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
            State::Listed | State::Following | State::FollowingStale => Some(FamilyStatus::Listed),
            State::Absent => Some(FamilyStatus::Absent),
            State::Partial => Some(FamilyStatus::Partial),
            State::Failed => Some(FamilyStatus::Failed),
            State::Unasked | State::Walking | State::WalkingStale => None,
        };
        if let Some(status) = status {
            self.set_status(core, family, status);
        }
        if let Verdict::Quirk(kind) = row.verdict {
            self.record(core, kind, family);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Ask => signals.extend(self.step_paging(core, family, paging::Input::Start, None)),
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
            }
        }
        let settled = || self.slots.iter().all(|(_, slot)| slot.is_settled());
        if before != row.next && core.stage == Stage::Discovery && settled() {
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
                    core.give_up(id);
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
            self.record(core, kind, family);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let refreshing = self.is_refreshing(family);
            match effect {
                paging::Effect::AskFirst => {
                    self.slots.get_mut(family).listing = Some(Box::default());
                    self.ask_page(core, family, None);
                }
                paging::Effect::AskNext => {
                    let cursor = self.slots.get_mut(family).listing.as_mut().and_then(|listing| listing.next.take());
                    self.ask_page(core, family, cursor);
                }
                paging::Effect::EndWhole if refreshing => {
                    let input = self.compare(core, family);
                    signals.extend(self.step_refresh(core, family, input));
                }
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

    fn is_refreshing(&self, family: Family) -> bool {
        self.slots.get(family).refresh != refresh::State::Idle
    }

    fn ask_page(&mut self, core: &mut Core, family: Family, cursor: Option<Box<str>>) {
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
            slot.unwatched = !watched;
        }
        let limits = core.options.limits;
        let report = listing.items.add(page.items, page.bounds);
        listing.pages = listing.pages.saturating_add(1);
        // The list is as fresh as its oldest page; a negative time counts as none.
        let first = listing.pages == 1;
        listing.ttl = if first { page.ttl } else { listing.ttl.zip(page.ttl).map(|(sooner, ttl)| sooner.min(ttl)) };
        let cursor = page.cursor;
        let repeated = cursor.is_some_and(|cursor| !listing.seen.insert(hash(cursor.text().as_bytes())));
        listing.next = cursor.map(|cursor| cursor.text().into());
        let input = match (cursor, repeated) {
            _ if report.over => paging::Input::Limit,
            (None, _) => paging::Input::Last,
            // Some servers end their lists with an empty cursor.
            (Some(cursor), true) if report.added == 0 && cursor.text() == r#""""# => paging::Input::Last,
            (Some(_), true) if report.added == 0 => paging::Input::RepeatedEmpty,
            (Some(_), _) if listing.pages >= limits.pages => paging::Input::Limit,
            (Some(_), false) => paging::Input::More,
            (Some(_), true) => paging::Input::RepeatedNew,
        };
        for (kind, words) in listing.add_flaws(report, repeated) {
            words.into_iter().for_each(|words| core.item_quirk(kind, family, words.into()));
        }
        if let Some(kind) = core.gate(gate::Purpose::Listed, family).quirk() {
            self.record(core, kind, family);
        }
        self.step_paging(core, family, input, None)
    }

    /// Takes a failure of a list.
    pub(super) fn on_failure(&mut self, core: &mut Core, family: Family, failure: ListFailure<'_>) -> Signals {
        let slot = self.slots.get_mut(family);
        let Some(listing) = &slot.listing else { return Signals::NONE };
        let on_cursor = listing.pages > 0;
        let (words, class, refused) = match failure {
            ListFailure::Server(error) => {
                let class = match error.code {
                    error_code::METHOD_NOT_FOUND => list_error::Class::MethodNotFound,
                    _ if says_not_found(&error.message) => list_error::Class::SaysNotFound,
                    _ => list_error::Class::Other,
                };
                (error.to_string().into(), class, error.code == error_code::INVALID_PARAMS)
            }
            ListFailure::Engine(words) => (words, list_error::Class::Other, false),
        };
        slot.words = Some(Box::from(excerpt(&words)));
        let input = if refused && on_cursor { paging::Input::CursorRefused } else { paging::Input::Failed };
        self.step_paging(core, family, input, Some(class))
    }

    /// The exchange of a page broke.
    pub(super) fn on_broken(
        &mut self,
        core: &mut Core,
        family: Family,
        cursor: Option<Box<str>>,
        words: String,
    ) -> Signals {
        if let Some(listing) = &mut self.slots.get_mut(family).listing
            && resend::take(Reason::Broken, listing.broken) == Resend::Again
        {
            listing.broken = listing.broken.more();
            self.ask_page(core, family, cursor);
            return Signals::NONE;
        }
        // The server did not refuse the request, so the connection is reopened if reconnects are on.
        if core.stage == Stage::Discovery && core.options.reconnect.is_some() {
            let message = format!("{} during discovery: {words}", core.server_name());
            return Signals::lost(FailureKind::Closed, message, loss::Transport::Closed);
        }
        self.on_failure(core, family, ListFailure::Engine(words.into()))
    }

    fn on_discovery_failure(&mut self, core: &mut Core, family: Family, class: list_error::Class) -> Signals {
        let tolerance = core.options.tolerance;
        let declared = declaration(core.server.as_ref().and_then(|server| server.declares(family)));
        let list = if family == Family::Tools { list_error::List::Tools } else { list_error::List::Optional };
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
                self.record(core, kind, family);
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

    /// The server announced a change of a family's list.
    pub(super) fn on_changed(&mut self, core: &mut Core, family: Family) -> Signals {
        let decision = core.gate(gate::Purpose::ListChanged, family);
        if let Some(kind) = decision.quirk() {
            self.record(core, kind, family);
        }
        match (decision.is_allowed(), self.is_refreshing(family)) {
            (false, _) => Signals::NONE,
            (true, true) => self.step_refresh(core, family, refresh::Input::ListChanged),
            (true, false) => self.step_discovery(core, family, discovery::Input::ListChanged),
        }
    }

    /// The listen stream of this request announces changes from now on.
    pub(super) fn on_watched(&mut self, core: &mut Core, request: u64, families: &PerFamily<Watch>) -> Signals {
        let mut signals = Signals::NONE;
        for (family, watch) in families.iter() {
            let slot = self.slots.get_mut(family);
            // A list that was requested before the stream may be older than it, whichever response came first.
            let older = slot.listing.as_ref().is_some_and(|listing| listing.pages == 0 && listing.first < request);
            if watch.now && (core::mem::take(&mut slot.unwatched) || older && !watch.before) {
                // The server did not announce this change.
                slot.on_demand = true;
                signals.extend(self.on_changed(core, family));
            }
        }
        signals
    }

    /// Changes of these families are not announced any more.
    pub(super) fn on_unwatched(&mut self, families: &PerFamily<bool>) {
        for (family, told) in families.iter() {
            self.slots.get_mut(family).unwatched |= told;
        }
    }

    /// Requests a family's list again, even if it is fresh.
    pub(super) fn want(&mut self, core: &mut Core, family: Family) -> Signals {
        let slot = self.slots.get_mut(family);
        if !slot.is_settled() {
            return Signals::NONE;
        }
        slot.on_demand |= slot.refresh == refresh::State::Idle;
        self.step_refresh(core, family, refresh::Input::Wanted)
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
            self.record(core, kind, family);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let slot = self.slots.get_mut(family);
            match effect {
                refresh::Effect::Arm => {
                    let timeouts = &core.options.timeouts;
                    let gathered = core.after(timeouts.debounce);
                    slot.stale = true;
                    let factor = 1_u32.checked_shl(slot.slow).unwrap_or(u32::MAX);
                    let interval = timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_WAIT);
                    let spaced = slot.last_listed.map(|last| last + interval);
                    core.timers.set(Timer::Refresh(family), Some(gathered.max(spaced.unwrap_or(gathered))));
                }
                refresh::Effect::ArmRetry => {
                    slot.stale = true;
                    let factor = 1_u32.checked_shl(slot.failures.min(16)).unwrap_or(u32::MAX);
                    slot.failures = slot.failures.saturating_add(1);
                    let wait = core.options.timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_WAIT);
                    core.arm(Timer::Refresh(family), wait);
                }
                refresh::Effect::Ask => {
                    core.timers.set(Timer::Refresh(family), None);
                    signals.extend(self.step_paging(core, family, paging::Input::Start, None));
                }
                refresh::Effect::Commit => signals.extend(self.refreshed(core, family, FamilyStatus::Listed)),
                refresh::Effect::CommitPart => signals.extend(self.refreshed(core, family, FamilyStatus::Partial)),
                refresh::Effect::Slow => slot.slow = slot.slow.saturating_add(1).min(16),
                refresh::Effect::Steady => (slot.slow, slot.unchanged) = (0, 0),
                refresh::Effect::Drop => {
                    slot.listing = None;
                    signals.extend(schemas(family, false));
                }
            }
        }
        signals
    }

    /// The whole list of a refresh was received: returns whether it differs from the known one.
    fn compare(&mut self, core: &Core, family: Family) -> refresh::Input {
        let slot = self.slots.get_mut(family);
        let Some(listing) = &mut slot.listing else { return refresh::Input::Differs };
        let list = core::mem::take(&mut listing.items).finish();
        let same = list.has_same_items(core.catalog.list(family));
        listing.done = Some(list);
        let demanded = core::mem::take(&mut slot.on_demand);
        if same && demanded {
            return refresh::Input::Same;
        }
        slot.unchanged = if same { slot.unchanged.saturating_add(1) } else { 0 };
        match slot.unchanged {
            0 => refresh::Input::Differs,
            1..LOOP => refresh::Input::Same,
            _ => refresh::Input::SameAgain,
        }
    }

    fn refreshed(&mut self, core: &mut Core, family: Family, status: FamilyStatus) -> Signals {
        self.slots.get_mut(family).failures = 0;
        self.set_status(core, family, status);
        self.commit(core, family);
        core.release_memory();
        schemas(family, true)
    }

    /// Makes the received list the family's list, and reports the difference.
    fn commit(&mut self, core: &mut Core, family: Family) {
        let slot = self.slots.get_mut(family);
        let Some(listing) = slot.listing.take() else { return };
        slot.pages = listing.pages;
        slot.fresh_until = listing.ttl.map(|ttl| core.now + ttl);
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

    fn record(&self, core: &mut Core, kind: QuirkKind, family: Family) {
        let words = self.slots.get(family).words.clone().unwrap_or_default();
        let changed = kind == QuirkKind::UndeclaredListChanged;
        let method = if changed { list_changed_method(family) } else { family.list_method() };
        let detail: String = if changed {
            format!("`{}` is not declared; ignored", family.capability().as_str())
        } else if kind == QuirkKind::UndeclaredFamily {
            "not declared, and listed all the same".into()
        } else if kind == QuirkKind::CursorLoop {
            "a cursor came twice; it is followed while its pages bring something new".into()
        } else if kind == QuirkKind::ListLimit {
            "longer than the bounds; the rest is left out".into()
        } else if kind == QuirkKind::ListChangedLoop {
            "refreshes that `list_changed` asked for found the same list, again and again; refreshed less often".into()
        } else if kind == QuirkKind::CursorRejected {
            format!("the server refused its own cursor ({words}); began again")
        } else {
            let (server, capability) = (core.server_name(), family.capability().as_str());
            format!("{server} declares `{capability}`, yet answered `{method}` with {words}")
        };
        core.quirk(kind, Some(family), Some(method), detail);
    }
}

/// Reports whether the tools were listed again.
fn schemas(family: Family, known: bool) -> Signals {
    if family == Family::Tools { Signals::one(Signal::Schemas { known }) } else { Signals::NONE }
}

/// The notification that announces a change of a family's list.
const fn list_changed_method(family: Family) -> &'static str {
    match family {
        Family::Tools => method::TOOLS_LIST_CHANGED,
        Family::Prompts => method::PROMPTS_LIST_CHANGED,
        Family::Resources | Family::ResourceTemplates => method::RESOURCES_LIST_CHANGED,
    }
}

impl From<ListErrors> for list_error::Policy {
    fn from(policy: ListErrors) -> Self {
        match policy {
            ListErrors::Fail => Self::Fail,
            ListErrors::Degrade => Self::Degrade,
        }
    }
}

fn says_not_found(message: &str) -> bool {
    let message = message.to_ascii_lowercase().replace(['_', '-'], " ");
    [
        "method not found",
        "unknown method",
        "unrecognized method",
        "unsupported method",
        "method not supported",
        "no such method",
        "not implemented",
    ]
    .iter()
    .any(|text| message.contains(text))
}
