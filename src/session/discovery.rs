use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;
use serde_json::value::RawValue;

use super::ledger::Purpose;
use super::link::Loss;
use super::walk::FamilyStatus;
use super::{FailureKind, ListErrors, Session};
use crate::catalog::{Bounds, Flaws, Items, hash};
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::discovery::{Effect, Input, State, take};
use crate::machine::gate::{self, Declaration};
use crate::machine::list_error::{self, Cost, Meaning};
use crate::machine::{Decision, QuirkKind, Verdict, link, paging, refresh};
use crate::protocol::{Era, Family, error_code};

impl Session {
    pub(super) fn start_discovery(&mut self) {
        self.send_log_level();
        if self.server.as_ref().is_some_and(|server| server.era() == Era::Modern) {
            self.start_stream();
        }
        for family in Family::EACH {
            let asked = self.gate(gate::Purpose::Discover, family).is_allowed();
            self.discovery_step(family, if asked { Input::Advertised } else { Input::NotAdvertised });
        }
    }

    pub(super) fn discovery_step(&mut self, family: Family, input: Input) {
        let slot = self.families.get_mut(family);
        let before = slot.discovery;
        let row = take(before, input);
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
            slot.status = status;
        }
        if let Verdict::Quirk(kind) = row.verdict {
            self.walk_quirk(kind, family);
        }
        let mut failed = false;
        for effect in row.effects {
            match effect {
                Effect::Ask => self.paging_step(family, paging::Input::Start, None),
                Effect::Commit => self.commit(family),
                Effect::Drop => self.families.get_mut(family).walk = None,
                Effect::Clear => self.clear(family),
                Effect::Fail => failed = true,
                Effect::Refresh => self.refresh_step(family, refresh::Input::ListChanged),
            }
        }
        if failed {
            let words = self.families.get_mut(family).words.take().unwrap_or_default();
            let message =
                format!("{} did not give the list of `{}`: {words}", self.server_name(), family.list_method());
            return self.lose(FailureKind::ListFailed, message.into(), Loss::Unusable);
        }
        if before != row.next && self.link == link::State::Connecting && self.settled() {
            self.discovered();
        }
    }

    fn settled(&self) -> bool {
        self.families.iter().all(|(_, slot)| slot.is_settled())
    }

    /// Discovery takes too long: the lists that are not done have failed.
    pub(super) fn discovery_timed_out(&mut self) {
        let why = format!("the list was not done within {:?}", self.options.timeouts.discovery);
        for family in Family::EACH {
            // The first that ends the session ends it for all.
            if self.link == link::State::Connecting && !self.families.get(family).is_settled() {
                if let Some(id) = self.requests.list(family) {
                    self.give_up(id);
                }
                self.list_failed(family, ListFailure::Engine(Cow::Borrowed(&why)));
            }
        }
    }

    /// The family has no items any more.
    fn clear(&mut self, family: Family) {
        if !self.catalog.list(family).is_empty() {
            self.families.get_mut(family).walk = Some(Box::default());
            self.commit(family);
        }
    }

    /// What the gate says of a family.
    pub(super) fn gate(&self, purpose: gate::Purpose, family: Family) -> Decision {
        let tolerance = &self.options.tolerance;
        let lenient = match purpose {
            gate::Purpose::Discover => tolerance.ask_anyway,
            gate::Purpose::ListChanged => tolerance.undeclared_list_changed,
            gate::Purpose::Listed
            | gate::Purpose::Refresh
            | gate::Purpose::Keepalive
            | gate::Purpose::Call
            | gate::Purpose::Listen
            | gate::Purpose::SetLevel => false,
        };
        let policy = if lenient { gate::Policy::Lenient } else { gate::Policy::Strict };
        let server = self.server.as_ref();
        let declared = declaration(server.and_then(|server| match purpose {
            gate::Purpose::Listen => server.capabilities.as_ref().map(|it| it.list_changed(family.capability())),
            gate::Purpose::Discover
            | gate::Purpose::Listed
            | gate::Purpose::Refresh
            | gate::Purpose::Keepalive
            | gate::Purpose::Call
            | gate::Purpose::ListChanged
            | gate::Purpose::SetLevel => server.declares(family),
        }));
        gate::take(purpose, declared, policy, self.families.get(family).known())
    }

    /// Steps the list of a family; `class` is the error's, where it failed.
    pub(super) fn paging_step(&mut self, family: Family, input: paging::Input, class: Option<list_error::Class>) {
        let slot = self.families.get_mut(family);
        let row = paging::take(slot.paging, input);
        slot.paging = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.walk_quirk(kind, family);
        }
        for effect in row.effects {
            match effect {
                paging::Effect::AskFirst => {
                    self.families.get_mut(family).walk = Some(Box::default());
                    self.ask_page(family);
                }
                paging::Effect::AskNext => self.ask_page(family),
                paging::Effect::EndWhole => match self.is_refreshing(family) {
                    true => {
                        let input = self.compare(family);
                        self.refresh_step(family, input);
                    }
                    false => self.discovery_step(family, Input::Whole),
                },
                paging::Effect::EndPart => match self.is_refreshing(family) {
                    true => self.refresh_step(family, refresh::Input::Part),
                    false => self.discovery_step(family, Input::Part),
                },
                paging::Effect::EndFailed => match self.is_refreshing(family) {
                    true => self.refresh_step(family, refresh::Input::Failed),
                    false => self.discovery_failed(family, class.unwrap_or(list_error::Class::Other)),
                },
            }
        }
    }

    fn is_refreshing(&self, family: Family) -> bool {
        self.families.get(family).refresh != refresh::State::Idle
    }

    pub(super) fn ask_page(&mut self, family: Family) {
        let deadline = self.request_deadline();
        let id = self.requests.insert(Purpose::List(family), Some(deadline));
        if let Some(walk) = self.families.get_mut(family).walk.as_mut().filter(|walk| walk.pages == 0) {
            walk.first = id;
        }
    }

    /// Takes the answer to a list.
    pub(super) fn listed(&mut self, family: Family, result: &RawValue) {
        let limits = self.options.limits;
        let modern = self.server.as_ref().is_some_and(|server| server.era() == Era::Modern);
        let mirror = modern && self.options.wire == super::Wire::Http;
        let bounds = Bounds { items: limits.items, bytes: limits.list_bytes, mirror };
        let (mut items, mut next, mut kind, mut ttl) = (None, None, None, None);
        Json::from(result).scan().each_member(|name, value| match name {
            "nextCursor" => next = value.value(),
            "resultType" => kind = value.value().and_then(Json::as_string),
            "ttlMs" => ttl = value.value().and_then(|ttl| ttl.text().parse::<i64>().ok()),
            _ if name == family.member() => items = Some(Items::read(family, value, bounds)),
            _ => {}
        });
        if let Some(kind) = kind.filter(|kind| kind != "complete") {
            let why = format!("a result of type `{}`, where a list was expected", super::classify::excerpt(&kind));
            return self.list_failed(family, ListFailure::Engine(why.into()));
        }
        let present = items.filter(|items| !matches!(items, Err(Some(value)) if value.is_null()));
        if present.is_none() {
            let detail = format!("the result has no `{}`; taken as an empty list", family.member());
            self.quirk(QuirkKind::ListShape, Some(family), Some(family.list_method()), detail);
        }
        let next = next.filter(|next| !next.is_null());
        let cursor = next.filter(|next| next.first() == b'"');
        if let (Some(next), None) = (next, cursor) {
            let detail =
                format!("`nextCursor` is {}, not a string; taken as the end", super::classify::excerpt(next.text()));
            self.quirk(QuirkKind::ListShape, Some(family), Some(family.list_method()), detail);
        }
        let told = self.is_told_of(family);
        let slot = self.families.get_mut(family);
        let Some(walk) = &mut slot.walk else { return };
        if walk.pages == 0 {
            slot.unwatched = !told;
        }
        let Ok(items) = present.unwrap_or(Ok(Items::EMPTY)) else {
            let why = format!("`{}` is no array", family.member());
            return self.list_failed(family, ListFailure::Engine(why.into()));
        };
        let report = walk.items.add(items, bounds);
        walk.pages = walk.pages.saturating_add(1);
        // The list is as fresh as its oldest page; a negative time is none.
        let ttl = ttl.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        walk.ttl = if walk.pages == 1 { ttl } else { walk.ttl.zip(ttl).map(|(sooner, ttl)| sooner.min(ttl)) };
        let repeated = cursor.is_some_and(|cursor| !walk.seen.insert(hash(cursor.text().as_bytes())));
        walk.cursor = cursor.map(|cursor| cursor.text().into());
        let page = match (cursor, repeated) {
            _ if report.over => paging::Input::Limit,
            (None, _) => paging::Input::Last,
            // Some servers end their lists by an empty cursor.
            (Some(cursor), true) if report.added == 0 && cursor.text() == r#""""# => paging::Input::Last,
            (Some(_), true) if report.added == 0 => paging::Input::RepeatedEmpty,
            (Some(_), _) if walk.pages >= limits.pages => paging::Input::Limit,
            (Some(_), false) => paging::Input::More,
            (Some(_), true) => paging::Input::RepeatedNew,
        };
        // A page that repeats what came before is a loop's, and told as one.
        let duplicate = if repeated { Flaws::default() } else { report.duplicate };
        let kinds = [
            (QuirkKind::InvalidItem, &mut walk.invalid, report.invalid),
            (QuirkKind::DuplicateItem, &mut walk.duplicate, duplicate),
        ];
        let flaws = kinds.map(|(kind, so_far, page)| {
            let words = (!page.is_empty()).then(|| {
                so_far.extend(page);
                so_far.words()
            });
            (kind, words)
        });
        for (kind, words) in flaws {
            words.into_iter().for_each(|words| self.item_quirk(kind, family, words.into()));
        }
        if let Some(kind) = self.gate(gate::Purpose::Listed, family).quirk() {
            self.walk_quirk(kind, family);
        }
        self.paging_step(family, page, None);
    }

    /// Takes a list's failure: the server's own error, or what the engine finds wrong.
    pub(super) fn list_failed(&mut self, family: Family, failure: ListFailure<'_>) {
        let slot = self.families.get_mut(family);
        let Some(walk) = &slot.walk else { return };
        let on_cursor = walk.cursor.is_some();
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
        slot.words = Some(Box::from(super::classify::excerpt(&words)));
        let input = if refused && on_cursor { paging::Input::CursorRefused } else { paging::Input::Failed };
        self.paging_step(family, input, Some(class));
    }

    fn discovery_failed(&mut self, family: Family, class: list_error::Class) {
        let tolerance = self.options.tolerance;
        let declared = declaration(self.server.as_ref().and_then(|server| server.declares(family)));
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
            Meaning::Absent => Input::Absent,
            Meaning::AbsentAs(kind) => {
                self.walk_quirk(kind, family);
                Input::Absent
            }
            Meaning::Failed => match list_error::take_cost(tolerance.list_errors.into(), self.held(family)) {
                Cost::Fatal => Input::ErrorFatal,
                Cost::Rest => Input::ErrorRest,
                Cost::List => Input::ErrorList,
                Cost::Nothing => Input::ErrorStale,
            },
        };
        self.discovery_step(family, input);
    }

    /// What is held of a family whose list failed.
    fn held(&self, family: Family) -> list_error::Held {
        let slot = self.families.get(family);
        let pages = slot.walk.as_ref().is_some_and(|walk| !walk.items.is_empty());
        let former = matches!(slot.status, FamilyStatus::Listed | FamilyStatus::Partial);
        match (self.was_ready, former, pages) {
            (false, _, false) => list_error::Held::FirstNothing,
            (false, _, true) => list_error::Held::FirstPages,
            (true, true, _) => list_error::Held::Former,
            (true, false, false) => list_error::Held::LaterNothing,
            (true, false, true) => list_error::Held::LaterPages,
        }
    }

    /// The server says that the list of a family changed.
    pub(super) fn list_changed(&mut self, family: Family) {
        let decision = self.gate(gate::Purpose::ListChanged, family);
        if let Some(kind) = decision.quirk() {
            self.walk_quirk(kind, family);
        }
        match (decision.is_allowed(), self.is_refreshing(family)) {
            (false, _) => {}
            (true, true) => self.refresh_step(family, refresh::Input::ListChanged),
            (true, false) => self.discovery_step(family, Input::ListChanged),
        }
    }

    pub(super) fn walk_quirk(&mut self, kind: QuirkKind, family: Family) {
        let words = self.families.get(family).words.clone().unwrap_or_default();
        let changed = kind == QuirkKind::UndeclaredListChanged;
        let method = if changed { super::classify::list_changed_method(family) } else { family.list_method() };
        let detail: String = if changed {
            format!("`{}` is not declared; ignored", family.capability().as_str())
        } else if kind == QuirkKind::UndeclaredFamily {
            "not declared, and listed all the same".into()
        } else if kind == QuirkKind::CursorLoop {
            "a cursor came twice; it is followed while its pages bring something new".into()
        } else if kind == QuirkKind::ListLimit {
            "longer than the bounds; the rest is left out".into()
        } else if kind == QuirkKind::ListChangedLoop {
            "walks that `list_changed` asked for found the same list, again and again; walked less often".into()
        } else if kind == QuirkKind::CursorRejected {
            format!("the server refused its own cursor ({words}); began again")
        } else {
            let (server, capability) = (self.server_name(), family.capability().as_str());
            format!("{server} declares `{capability}`, yet answered `{method}` with {words}")
        };
        self.quirk(kind, Some(family), Some(method), detail);
    }
}

/// Why a list failed.
pub(super) enum ListFailure<'a> {
    /// The server's answer.
    Server(&'a ErrorObject),
    /// What the engine finds wrong.
    Engine(Cow<'a, str>),
}

/// What the server's capabilities say, as the tables take it.
pub(super) const fn declaration(declared: Option<bool>) -> Declaration {
    match declared {
        Some(true) => Declaration::Declared,
        Some(false) => Declaration::Undeclared,
        None => Declaration::Unknown,
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
