use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use serde_json::value::RawValue;

use super::ledger::Purpose;
use super::link::Loss;
use super::walk::{FamilyStatus, Walk};
use super::{FailureKind, ListErrors, Session};
use crate::catalog::{Bounds, Fingerprint, Items};
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::discovery::{Effect, Input, State, step};
use crate::machine::{QuirkKind, Verdict, link, refresh};
use crate::protocol::{Era, Family, error_code};

/// A page as it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    More,
    Last,
    LoopDone,
    LoopCut,
    Limit,
}

impl Session {
    pub(super) fn start_discovery(&mut self) {
        self.send_log_level();
        if self.server.as_ref().is_some_and(|server| server.era() == Era::Modern) {
            self.start_stream();
        }
        for family in Family::ALL {
            let declared = self.server.as_ref().and_then(|server| server.declares(family));
            let asked = declared.unwrap_or(true) || self.options.tolerance.ask_anyway;
            self.discovery_step(family, if asked { Input::Advertised } else { Input::NotAdvertised });
        }
    }

    pub(super) fn discovery_step(&mut self, family: Family, input: Input) {
        let slot = self.families.get_mut(family);
        let before = slot.discovery;
        let row = step(before, input);
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
                Effect::Ask => self.ask_first_page(family),
                Effect::AskNext => self.ask_page(family),
                Effect::Commit => self.commit(family),
                Effect::Drop => self.families.get_mut(family).walk = None,
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
        if matches!(row.next, State::NotAdvertised | State::Absent) && !self.catalog.list(family).is_empty() {
            self.families.get_mut(family).walk = Some(Box::default());
            self.commit(family);
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
        for family in Family::ALL {
            // The first that ends the session ends it for all.
            if self.link == link::State::Connecting && !self.families.get(family).is_settled() {
                if let Some(id) = self.requests.list(family) {
                    self.give_up(id);
                }
                self.list_failed(family, &ErrorObject::new(0, &*why), false);
            }
        }
    }

    pub(super) fn ask_first_page(&mut self, family: Family) {
        let restarted = self.families.get(family).walk.as_ref().is_some_and(|walk| walk.restarted);
        self.families.get_mut(family).walk = Some(Box::new(Walk { restarted, ..Walk::default() }));
        self.ask_page(family);
    }

    pub(super) fn ask_page(&mut self, family: Family) {
        let deadline = self.request_deadline();
        self.requests.insert(Purpose::List(family), Some(deadline));
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
            return self.list_failed(family, &ErrorObject::new(0, why), false);
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
            return self.list_failed(family, &ErrorObject::new(0, why), false);
        };
        let report = walk.items.add(items, bounds);
        walk.pages = walk.pages.saturating_add(1);
        // The list is as fresh as its oldest page; a negative time is none.
        let ttl = ttl.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        walk.ttl = if walk.pages == 1 { ttl } else { walk.ttl.zip(ttl).map(|(sooner, ttl)| sooner.min(ttl)) };
        let repeated = cursor.is_some_and(|cursor| !walk.seen.insert(Fingerprint::of(cursor.text().as_bytes())));
        walk.cursor = cursor.map(|cursor| cursor.text().into());
        let page = match (cursor, repeated) {
            _ if report.over => Page::Limit,
            (Some(_), false) if walk.pages >= limits.pages => Page::Limit,
            (None, _) => Page::Last,
            (Some(_), false) => Page::More,
            (Some(_), true) if report.added == 0 => Page::LoopDone,
            (Some(_), true) => Page::LoopCut,
        };
        if let Some(invalid) = report.invalid {
            self.quirk(QuirkKind::InvalidItem, Some(family), Some(family.list_method()), invalid);
        }
        // A page that repeats what came before is a loop's, and told as one.
        if let Some(duplicate) = report.duplicate.filter(|_| !repeated) {
            let detail = format!("{duplicate} came twice; the first is kept");
            self.quirk(QuirkKind::DuplicateItem, Some(family), Some(family.list_method()), detail);
        }
        if self.undeclared(family) {
            let detail = "not declared, and listed all the same";
            self.quirk(QuirkKind::UndeclaredFamily, Some(family), Some(family.list_method()), detail);
        }
        self.walk_step(family, page);
    }

    fn walk_step(&mut self, family: Family, page: Page) {
        if self.families.get(family).refresh == refresh::State::Idle {
            let input = match page {
                Page::More => Input::More,
                Page::Last => Input::Last,
                Page::LoopDone => Input::LoopDone,
                Page::LoopCut => Input::LoopCut,
                Page::Limit => Input::Limit,
            };
            self.discovery_step(family, input);
        } else {
            let input = match page {
                Page::More => refresh::Input::More,
                Page::Last => self.last_page(family),
                Page::LoopDone => refresh::Input::LoopDone,
                Page::LoopCut => refresh::Input::LoopCut,
                Page::Limit => refresh::Input::Limit,
            };
            self.refresh_step(family, input);
        }
    }

    /// Takes a list's failure; `coded` tells whether the server answered with an error of its own.
    pub(super) fn list_failed(&mut self, family: Family, error: &ErrorObject, coded: bool) {
        let tolerance = self.options.tolerance;
        let declared = self.server.as_ref().and_then(|server| server.declares(family));
        let listed_before =
            self.was_ready && matches!(self.families.get(family).status, FamilyStatus::Listed | FamilyStatus::Partial);
        let slot = self.families.get_mut(family);
        // What the engine itself finds wrong has no code.
        let words = if coded { format!("{error}") } else { String::from(&*error.message) };
        slot.words = Some(Box::from(super::classify::excerpt(&words)));
        let Some(walk) = &mut slot.walk else { return };
        let on_cursor = coded && error.code == error_code::INVALID_PARAMS && walk.cursor.is_some();
        let restart = on_cursor && !walk.restarted;
        walk.restarted |= restart;
        let kept = !walk.items.is_empty();
        if slot.refresh != refresh::State::Idle {
            let input = if restart { refresh::Input::CursorRejected } else { refresh::Input::Failed };
            return self.refresh_step(family, input);
        }
        let absent_tolerated = family != Family::Tools || tolerance.tools_absent;
        let not_found = coded && error.code == error_code::METHOD_NOT_FOUND;
        let says_so = coded && tolerance.absent_by_text && says_not_found(&error.message);
        let faultless = match declared {
            Some(declared) => !declared,
            None => (not_found || says_so) && absent_tolerated,
        };
        let input = if restart {
            Input::CursorRejected
        } else if faultless {
            Input::Refused
        } else if not_found && absent_tolerated {
            Input::MethodNotFound
        } else if says_so && absent_tolerated {
            Input::MethodNotFoundText
        } else if tolerance.list_errors == ListErrors::Fail && !self.was_ready {
            Input::ErrorFatal
        } else if listed_before {
            Input::ErrorStale
        } else if kept {
            Input::ErrorKept
        } else {
            Input::ErrorLost
        };
        self.discovery_step(family, input);
    }

    fn undeclared(&self, family: Family) -> bool {
        self.server.as_ref().and_then(|server| server.declares(family)) == Some(false)
    }

    /// The list of a family is another now, says the server.
    pub(super) fn list_changed(&mut self, family: Family) {
        let honoured = !self.undeclared(family) || self.options.tolerance.undeclared_list_changed;
        let input = if honoured { Input::ListChanged } else { Input::ListChangedUndeclared };
        if honoured && self.families.get(family).refresh != refresh::State::Idle {
            return self.refresh_step(family, refresh::Input::ListChanged);
        }
        self.discovery_step(family, input);
    }

    pub(super) fn walk_quirk(&mut self, kind: QuirkKind, family: Family) {
        let words = self.families.get(family).words.clone().unwrap_or_default();
        let changed = kind == QuirkKind::UndeclaredListChanged;
        let method = if changed { super::classify::list_changed_method(family) } else { family.list_method() };
        let detail: String = if changed {
            format!("`{}` is not declared; ignored", family.capability().as_str())
        } else if kind == QuirkKind::CursorLoop {
            "a cursor came twice; the walk ended there".into()
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
