//! A server of the hub: its session, breaker, offered lists, calls and idle timeout.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::time::Duration;
use serde_json::value::RawValue;

use super::connection::Connection;
use super::event::{Breaker, CallError, HubOptions, SessionHandle};
use super::queue::Pending;
use super::sharing::Chosen;
use crate::Time;
use crate::catalog::{Catalog, Difference, FingerprintKey};
use crate::client::{Engine, Event, Failure, FamilyStatus, KnownEra, Outcome, RequestError, RequestId};
use crate::collections::LeastMap;
use crate::host::config::{Endpoint, Entry};
use crate::host::names::{Names, Target};
use crate::host::saved::fresh_until;
use crate::host::{Saved, Utility, toolset};
use crate::jsonrpc::{Json, Object};
use crate::machine::hub::breaker::{Effect, Input, State, step};
use crate::machine::hub::server::{self, Phase};
use crate::machine::table::refuses;
use crate::protocol::{CacheScope, Family, PerFamily};

/// A server under one entry.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: Arc<str>,
    pub(super) state: server::State,
    /// Its session; `None` until it is opened or a request is made.
    pub(super) connection: Option<Connection>,
    /// The entry of its session, if the configuration has another one, or none.
    pub(super) former_entry: Option<Box<Entry>>,
    pub(super) breaker: CallBreaker,
    /// The clock of its connection, if its entry limits how long that is open.
    pub(super) lifetime: Option<Box<Lifetime>>,
    /// The calls that are requests of the session and whose end was not polled yet.
    pub(super) calls: LeastMap<RequestId, Target>,
    /// The calls that wait for the session's lists.
    pub(super) list_calls: Vec<(u64, Utility)>,
    pub(super) offer: Option<Offer>,
    pub(super) known_era: Option<KnownEra>,
    /// The last failure.
    pub(super) failure: Option<Failure>,
    pub(super) pending: Pending,
}

impl Server {
    pub(super) fn new(name: Arc<str>, phase: Phase) -> Self {
        Self {
            name,
            state: server::State { phase, called: false },
            connection: None,
            former_entry: None,
            breaker: CallBreaker::default(),
            lifetime: None,
            calls: LeastMap::default(),
            list_calls: Vec::new(),
            offer: None,
            known_era: None,
            failure: None,
            pending: Pending::default(),
        }
    }

    pub(super) fn session(&self) -> Option<&Engine> {
        self.connection.as_deref()
    }

    /// The next event of its session that the hub has not processed.
    pub(super) fn next_event(&self) -> Option<&Event> {
        self.connection.as_ref()?.event_after(self.pending.processed_events())
    }

    /// It is used: by a command, or by a request that ended.
    pub(super) fn note_use(&mut self, now: Time) {
        if let Some(lifetime) = &mut self.lifetime {
            lifetime.touch(now);
        }
    }

    /// An action of its session was polled, or the embedder reported an input of the session.
    pub(super) fn note_contact(&mut self) {
        self.state = server::step(self.state, server::Input::Contacted).next;
    }

    /// When it is shut down if it is not used until then; `None` if that is not limited, or it is in use.
    pub(super) fn idle_until(&self) -> Option<Time> {
        let end = self.lifetime.as_ref()?.end()?;
        let is_unused = self.session().is_some_and(Engine::is_unused);
        (self.state.phase == Phase::Ready && is_unused).then_some(end)
    }

    /// When its lists were saved, in seconds since 1970, if no newer ones are known.
    pub(super) fn saved_at(&self) -> Option<u64> {
        self.offer.as_ref().and_then(|offer| Some(offer.content.saved.as_ref()?.at))
    }

    /// The lists of the server for a user, to be restored in a later run. `now` and `at` are the same time.
    pub(super) fn save(
        &self,
        now: Time,
        entry: &Entry,
        user: Option<&str>,
        key: FingerprintKey,
        at: u64,
    ) -> Option<Saved> {
        let content = self.offer.clone()?.content;
        let session = self.session().filter(|session| {
            let server = session.server();
            server.is_some_and(|server| server.instructions == content.instructions) && content.is_of(session)
        });
        let Content { catalog, families, instructions, saved } = content;
        let known_era = self.session().and_then(Engine::known_era).or(self.known_era);
        // Lists of a session that was replaced are private, and their time to live is not known.
        let received = || Origin {
            at,
            fresh_until: session.map(|session| fresh_until(session, now, at)).unwrap_or_default(),
            scope: session.map(Engine::cache_scope).unwrap_or_default(),
        };
        let Origin { at, fresh_until, scope } = saved.map_or_else(received, |origin| *origin);
        let entry = entry.fingerprint(key);
        let saved =
            Saved { key, entry, at, known_era, instructions, catalog, families, fresh_until, scope, user: None };
        Some(match user {
            Some(user) => saved.of_user(user),
            None => saved,
        })
    }

    /// The refusal of a call while its lists are not known.
    pub(super) fn not_up(&self) -> CallError {
        let failure = self.failure.as_ref().map(|failure| failure.message.clone());
        let why = failure.unwrap_or_else(|| "it was not asked yet what it offers".into());
        CallError::NotUp { server: Arc::clone(&self.name), why }
    }

    /// Why calls are refused, as a text.
    pub(super) fn why_refused(&self) -> Box<str> {
        match &self.failure {
            Some(failure) => failure.message.clone(),
            None => alloc::format!("{} calls in a row failed", self.breaker.failures()).into(),
        }
    }
}

/// The records, each in a slot. A handle has a count in its upper half, so that handles are unique and increasing, and
/// the slot in its lower half.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    admissions: u32,
    /// What every other handle stands for: a closed server without a connection. It ignores every input, and nothing is kept
    /// in it.
    removed: Box<Server>,
}

/// A record, with the handle of its session.
type Slot = Option<(SessionHandle, Box<Server>)>;

impl Servers {
    pub(super) fn new() -> Self {
        let removed = Box::new(Server::new("".into(), Phase::Closed));
        Self { slots: Vec::new(), free: Vec::new(), admissions: 0, removed }
    }

    /// Whether this many sessions can be created.
    pub(super) fn has_numbers(&self, sessions: usize) -> bool {
        u32::try_from(sessions).is_ok_and(|sessions| self.admissions.checked_add(sessions).is_some())
    }

    /// The slots, the free ones and the count of handles.
    #[cfg(feature = "snapshot")]
    pub(super) fn parts(&self) -> (&[Slot], &[u32], u32) {
        (&self.slots, &self.free, self.admissions)
    }

    /// The servers in these slots, if each handle is of its slot and known, and the free slots are those without one.
    #[cfg(feature = "snapshot")]
    pub(super) fn from_parts(slots: Vec<Slot>, free: Vec<u32>, admissions: u32) -> Option<Self> {
        let mut empty: Vec<_> = (0..).zip(&slots).filter(|(_, it)| it.is_none()).map(|(at, _): (u32, _)| at).collect();
        let mut listed = free.clone();
        empty.sort_unstable();
        listed.sort_unstable();
        let of_slots = slots.iter().enumerate().all(|(at, it)| {
            it.as_ref().is_none_or(|(handle, _)| slot(*handle) == at && handle.0 >> 32 <= u64::from(admissions))
        });
        (empty == listed && of_slots).then(|| Self { slots, free, admissions, removed: Self::new().removed })
    }

    pub(super) fn insert(&mut self, server: Server) -> SessionHandle {
        self.admissions = self.admissions.saturating_add(1);
        let slot = self.free.pop().unwrap_or_else(|| u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let handle = SessionHandle(u64::from(self.admissions) << 32 | u64::from(slot));
        let record = Some((handle, Box::new(server)));
        match self.slots.get_mut(slot as usize) {
            Some(free) => *free = record,
            None => self.slots.push(record),
        }
        handle
    }

    pub(super) fn get(&self, handle: &SessionHandle) -> Option<&Server> {
        let (known, server) = self.slots.get(slot(*handle))?.as_ref()?;
        (known == handle).then_some(server)
    }

    /// The server of a handle, which may be over.
    pub(super) fn at(&self, handle: SessionHandle) -> &Server {
        self.get(&handle).unwrap_or(&self.removed)
    }

    /// As [`at`](Self::at), to change it.
    pub(super) fn at_mut(&mut self, handle: SessionHandle) -> &mut Server {
        match self.slots.get_mut(slot(handle)) {
            Some(Some((known, server))) if *known == handle => server,
            Some(_) | None => &mut self.removed,
        }
    }

    /// Removes the server of a handle that is not over.
    pub(super) fn remove(&mut self, handle: SessionHandle) {
        self.slots.get_mut(slot(handle)).map(Option::take);
        self.free.extend(u32::try_from(slot(handle)));
        if self.free.len() == self.slots.len() {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// The handles, oldest first.
    pub(super) fn handles(&self) -> Vec<SessionHandle> {
        let mut handles: Vec<_> = self.slots.iter().flatten().map(|(handle, _)| *handle).collect();
        handles.sort_unstable();
        handles
    }
}

/// The lower half of a handle.
const fn slot(handle: SessionHandle) -> usize {
    (handle.0 & 0xFFFF_FFFF) as usize
}

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

    pub(super) fn view(&self, options: &HubOptions) -> toolset::OfferView<'_> {
        toolset::OfferView::new(&self.catalog, |family| *self.families.get(family)).with_app_tools(options.app_tools)
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

/// The clock of a connection, by the keys `idle_timeout` and `max_lifetime` of the server's entry.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lifetime {
    idle_timeout: Option<Duration>,
    /// When the connection is too old.
    old: Option<Time>,
    /// When the server was used last: by a command, or by a request that ended.
    used: Time,
}

impl Lifetime {
    /// Starts the clock of a connection; `None` if the entry limits neither, or its server is not a program.
    pub(super) fn start(entry: &Entry, now: Time) -> Option<Self> {
        let Endpoint::Stdio(_) = entry.endpoint else { return None };
        let [idle_timeout, lifetime] =
            [entry.idle_timeout, entry.max_lifetime].map(|limit| limit.filter(|limit| !limit.is_zero()));
        let old = lifetime.map(|lifetime| now + lifetime);
        (idle_timeout.is_some() || old.is_some()).then_some(Self { idle_timeout, old, used: now })
    }

    /// The server is used.
    pub(super) fn touch(&mut self, now: Time) {
        self.used = self.used.max(now);
    }

    /// When the server rests, unless it is used until then.
    pub(super) fn end(&self) -> Option<Time> {
        let idle = self.idle_timeout.map(|timeout| self.used + timeout);
        Time::earliest([idle, self.old])
    }
}

/// The breaker of one server.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct CallBreaker {
    state: State,
    /// How many calls in a row failed.
    failures: u32,
    /// The end of the cooldown.
    refused_until: Time,
    /// The newest call: the trial, while there is one.
    newest: Option<RequestId>,
}

impl CallBreaker {
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// The end of the cooldown, while there is one.
    pub(super) fn refused_until(&self) -> Option<Time> {
        (self.state == State::Open).then_some(self.refused_until)
    }

    /// Whether a call may be made at this time; otherwise, until when not.
    pub(super) fn admits(self, now: Time) -> Result<(), Option<Time>> {
        let is_over = now >= self.refused_until;
        let state = if is_over { step::row(self.state, Input::Cooled).next } else { self.state };
        match refuses(step::row, step, state, Input::Call) {
            false => Ok(()),
            // Without a time, a trial call is in flight, and its end decides.
            true => Err((state == State::Open).then_some(self.refused_until)),
        }
    }

    pub(super) fn step(&mut self, options: Breaker, now: Time, input: Input) {
        self.cool_down(now);
        let row = step(self.state, input);
        self.state = row.next;
        for effect in row.effects {
            match effect {
                Effect::Count => self.failures = self.failures.saturating_add(1),
                Effect::Clear => self.failures = 0,
                Effect::StartCooldown => {
                    self.failures = self.failures.saturating_add(1);
                    self.refused_until = now + options.cooldown;
                }
            }
        }
    }

    pub(super) fn called(&mut self, options: Breaker, now: Time, call: RequestId) {
        self.step(options, now, Input::Call);
        self.newest = Some(call);
    }

    /// Takes the end of a call.
    pub(super) fn call_ended(&mut self, options: Breaker, now: Time, call: RequestId, end: End, is_up: bool) {
        let input = match end {
            End::Answered => Input::Answered,
            End::NotSent => Input::Undecided,
            // The call may not have reached the server.
            End::TimedOut if !is_up => Input::Undecided,
            End::TimedOut | End::Failed if self.failures.saturating_add(1) < options.failures => Input::Failed,
            End::TimedOut | End::Failed => Input::FailedAgain,
        };
        // The end of an earlier call does not end the trial.
        if matches!(input, Input::Undecided) && self.newest != Some(call) {
            return;
        }
        self.step(options, now, input);
    }

    fn cool_down(&mut self, now: Time) {
        if self.refused_until().is_some_and(|until| now >= until) {
            self.state = step(self.state, Input::Cooled).next;
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The server answered with a result or an error, or requires input.
    Answered,
    TimedOut,
    /// The response is invalid, or the connection broke during the call.
    Failed,
    /// The call was not sent, or the embedder cancelled it.
    NotSent,
}

/// Classifies the end of a call.
pub(super) fn end_of(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Error(RequestError::Invalid(_)) => End::Failed,
        Outcome::Result(_) | Outcome::InputRequired(_) | Outcome::Error(_) => End::Answered,
        Outcome::TimedOut(_) => End::TimedOut,
        Outcome::Unknown => End::Failed,
        Outcome::NotAdvertised | Outcome::Cancelled | Outcome::NotSent => End::NotSent,
    }
}

/// The result of a utility tool that lists: the server's items, unchanged.
pub(super) fn listing(catalog: &Catalog, utility: Utility) -> Box<RawValue> {
    let families: &[Family] = match utility {
        Utility::ListPrompts | Utility::GetPrompt => &[Family::Prompts],
        Utility::ListResources | Utility::ReadResource => &[Family::Resources, Family::ResourceTemplates],
    };
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    for family in families {
        let out = object.value(family.member());
        out.push(b'[');
        for (at, (_, item)) in catalog.list(*family).iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(item.as_bytes());
        }
        out.push(b']');
    }
    object.end();
    Json::trusted(&String::from_utf8(json).unwrap_or_default()).to_raw()
}
