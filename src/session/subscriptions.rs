use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::classify::excerpt;
use super::discovery::declaration;
use super::ledger::Purpose;
use super::refresh::LONGEST_WAIT;
use super::timers::Timer;
use super::{CommandError, Event, Session};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::request::State as Phase;
use crate::machine::{Verdict, gate, listen_stream, resource_subscription};
use crate::protocol::{Capability, Era, Family, PerFamily, error_code, method};

/// What the server is to tell of unasked, and what it agreed to.
#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    stream: listen_stream::State,
    /// The request for the stream that the server did not agree to yet.
    pub(super) asked: Option<u64>,
    /// The request for the stream that it agreed to.
    open: Option<u64>,
    opened_at: Time,
    failures: u32,
    /// The families whose changes the stream tells of.
    told: PerFamily<bool>,
    /// The resources that the embedder wants to be told of.
    resources: BTreeMap<Box<str>, resource_subscription::State>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            stream: listen_stream::State::Idle,
            asked: None,
            open: None,
            opened_at: Time::ZERO,
            failures: 0,
            told: PerFamily::default(),
            resources: BTreeMap::new(),
        }
    }
}

const UNDECLARED: &str = "it does not declare `resources.subscribe`";
const NO_STREAM: &str = "it has no `subscriptions/listen`";
const NOT_LISTENING: &str = "the options say not to listen";

/// The members of a filter that stand for lists, and a family of each.
const LISTS: [(&str, Family); 3] = [
    ("toolsListChanged", Family::Tools),
    ("promptsListChanged", Family::Prompts),
    ("resourcesListChanged", Family::Resources),
];

impl Session {
    /// Wants to be told when a resource changes, by [`Event::ResourceUpdated`], on this connection and on those that
    /// follow it. What becomes of it on each is told by [`Event::Subscription`] (specification 2025-11-25,
    /// "Resources", Subscriptions; 2026-07-28, "Subscriptions"). To want it twice is to want it once; one that was
    /// refused is asked for again.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`] where the server lets nobody subscribe to resources,
    /// [`CommandError::TooManySubscriptions`], [`CommandError::TooManyRequests`] where too much waits to be polled.
    pub fn subscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        self.check_open()?;
        if self.is_established() && !self.lets_subscribe() {
            return Err(CommandError::NotAdvertised {
                server: self.server_name().into(),
                method: method::SUBSCRIBE.into(),
                capability: "resources.subscribe",
            });
        }
        let limit = self.options.limits.subscriptions;
        if self.subscriptions.resources.len() >= limit && !self.subscriptions.resources.contains_key(uri) {
            return Err(CommandError::TooManySubscriptions { limit });
        }
        if self.is_full() {
            return Err(CommandError::TooManyRequests { limit: self.options.limits.output });
        }
        self.advance(now);
        self.subscriptions.resources.entry(uri.into()).or_insert(resource_subscription::State::Wanted);
        self.resource_step(uri, resource_subscription::Input::Subscribe, None);
        match self.subscribing_era() {
            Some(Era::Legacy) => self.resource_step(uri, resource_subscription::Input::Possible, None),
            Some(Era::Modern) if !self.options.listen || self.subscriptions.stream == listen_stream::State::Refused => {
                let why = if self.options.listen { NO_STREAM } else { NOT_LISTENING };
                self.resource_step(uri, resource_subscription::Input::Refused, Some(why));
            }
            Some(Era::Modern) if self.is_resource(uri, resource_subscription::State::Wanted) => self.stream_wanted(),
            Some(Era::Modern) | None => {}
        }
        self.pump();
        Ok(())
    }

    /// Does not want to be told of a resource any more.
    ///
    /// # Errors
    /// [`CommandError::UnknownSubscription`] where it was not wanted.
    pub fn unsubscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        let state = self.subscriptions.resources.get(uri);
        if state.is_none_or(|state| {
            matches!(state, resource_subscription::State::Leaving | resource_subscription::State::Regretted)
        }) {
            return Err(CommandError::UnknownSubscription);
        }
        self.advance(now);
        match self.subscribing_era() {
            Some(Era::Legacy) => self.resource_step(uri, resource_subscription::Input::Unsubscribe, None),
            Some(Era::Modern) => {
                let asked = !self.is_resource(uri, resource_subscription::State::Refused);
                self.resource_step(uri, resource_subscription::Input::Drop, None);
                if asked {
                    self.stream_wanted();
                }
            }
            None => self.resource_step(uri, resource_subscription::Input::Drop, None),
        }
        self.pump();
        Ok(())
    }

    /// The resources that the embedder wants to be told of.
    pub fn subscriptions(&self) -> impl Iterator<Item = &str> {
        let wanted = |state: &resource_subscription::State| {
            !matches!(state, resource_subscription::State::Leaving | resource_subscription::State::Regretted)
        };
        self.subscriptions.resources.iter().filter(move |(_, state)| wanted(state)).map(|(uri, _)| &**uri)
    }

    fn is_resource(&self, uri: &str, state: resource_subscription::State) -> bool {
        self.subscriptions.resources.get(uri) == Some(&state)
    }

    /// How subscriptions can be asked for now, if they can.
    fn subscribing_era(&self) -> Option<Era> {
        match self.server.as_ref().filter(|_| self.is_established())?.era() {
            Era::Legacy => self.is_ready().then_some(Era::Legacy),
            Era::Modern => Some(Era::Modern),
        }
    }

    fn lets_subscribe(&self) -> bool {
        let capabilities = self.server.as_ref().and_then(|server| server.capabilities.as_ref());
        self.gate_capability(gate::Purpose::Listen, capabilities.map(|capabilities| capabilities.subscribe()))
    }

    fn gate_capability(&self, purpose: gate::Purpose, declared: Option<bool>) -> bool {
        gate::take(purpose, declaration(declared), gate::Policy::Strict, gate::Known::Unasked).is_allowed()
    }

    /// Whether the server tells when the family's list changes.
    pub(super) fn is_told_of(&self, family: Family) -> bool {
        match self.server.as_ref().map(|server| (server.era(), server.capabilities.as_ref())) {
            Some((Era::Modern, _)) => *self.subscriptions.told.get(family),
            Some((Era::Legacy, Some(capabilities))) => capabilities.list_changed(family.capability()),
            Some((Era::Legacy, None)) | None => false,
        }
    }

    /// The handshake with a modern server is done. The stream is asked for ahead of the lists, so that no change
    /// falls between the two.
    pub(super) fn start_stream(&mut self) {
        if !self.options.listen {
            self.refuse_all(NOT_LISTENING);
        } else if !self.lets_subscribe() {
            self.refuse_all(UNDECLARED);
        }
        self.stream_wanted();
    }

    /// The session is ready: a legacy server is asked for each resource.
    pub(super) fn start_subscriptions(&mut self) {
        if self.subscribing_era() != Some(Era::Legacy) {
            return;
        }
        if !self.lets_subscribe() {
            return self.refuse_all(UNDECLARED);
        }
        for uri in self.uris() {
            self.resource_step(&uri, resource_subscription::Input::Possible, None);
        }
    }

    fn refuse_all(&mut self, why: &str) {
        for uri in self.uris() {
            self.resource_step(&uri, resource_subscription::Input::Refused, Some(why));
        }
    }

    fn uris(&self) -> Vec<Box<str>> {
        self.subscriptions.resources.keys().cloned().collect()
    }

    /// The connection is gone, and with it what the server agreed to.
    pub(super) fn lose_subscriptions(&mut self) {
        (self.subscriptions.asked, self.subscriptions.open) = (None, None);
        self.stream_step(listen_stream::Input::Lost, None);
        self.subscriptions.failures = 0;
        self.lose_resources();
    }

    fn lose_resources(&mut self) {
        for uri in self.uris() {
            self.resource_step(&uri, resource_subscription::Input::Lost, None);
        }
    }

    fn resource_step(&mut self, uri: &str, input: resource_subscription::Input, words: Option<&str>) {
        let Some(state) = self.subscriptions.resources.get_mut(uri) else { return };
        let row = resource_subscription::take(*state, input);
        *state = row.next;
        if row.next == resource_subscription::State::Gone {
            self.subscriptions.resources.remove(uri);
        }
        let legacy = self.subscribing_era() == Some(Era::Legacy);
        for effect in row.effects {
            let deadline = Some(self.request_deadline());
            match effect {
                // The stream asks for all of them at once.
                resource_subscription::Effect::Ask | resource_subscription::Effect::Leave if !legacy => {}
                resource_subscription::Effect::Ask => {
                    self.requests.insert(Purpose::Subscribe(uri.into()), deadline);
                }
                resource_subscription::Effect::Leave => {
                    self.requests.insert(Purpose::Unsubscribe(uri.into()), deadline);
                }
                resource_subscription::Effect::TellActive => {
                    self.event(Event::Subscription { uri: uri.into(), outcome: Ok(()) })
                }
                resource_subscription::Effect::TellRefused => {
                    let why = words.unwrap_or("the server did not agree to it").into();
                    self.event(Event::Subscription { uri: uri.into(), outcome: Err(why) });
                }
            }
        }
    }

    /// A legacy server answered `resources/subscribe` or `resources/unsubscribe`, or did not.
    pub(super) fn subscription_answered(&mut self, uri: &str, refusal: Option<&str>) {
        match refusal {
            None => self.resource_step(uri, resource_subscription::Input::Accepted, None),
            Some(words) => self.resource_step(uri, resource_subscription::Input::Refused, Some(&excerpt(words))),
        }
    }

    /// What is of interest is another now, or there is something for the first time.
    fn stream_wanted(&mut self) {
        let wanted = self.options.listen && (self.is_any_list_wanted() || self.wants_resources());
        self.stream_step(if wanted { listen_stream::Input::Wanted } else { listen_stream::Input::Unwanted }, None);
    }

    fn is_any_list_wanted(&self) -> bool {
        LISTS.iter().any(|(_, family)| self.wants_list(*family))
    }

    fn wants_resources(&self) -> bool {
        self.subscriptions.resources.values().any(|state| *state != resource_subscription::State::Refused)
    }

    fn wants_list(&self, family: Family) -> bool {
        self.gate(gate::Purpose::Listen, family).is_allowed()
    }

    fn stream_step(&mut self, input: listen_stream::Input, agreed: Option<Json<'_>>) {
        let row = listen_stream::take(self.subscriptions.stream, input);
        self.subscriptions.stream = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail =
                format!("{} declares that it tells of changes, yet has no `{}`", self.server_name(), method::LISTEN);
            self.quirk(kind, None, Some(method::LISTEN), detail);
        }
        for effect in row.effects {
            match effect {
                listen_stream::Effect::Ask => self.ask_for_stream(),
                listen_stream::Effect::DropAsked => {
                    let asked = self.subscriptions.asked.take();
                    self.drop_stream(asked);
                }
                listen_stream::Effect::DropOpen => {
                    let open = self.subscriptions.open.take();
                    self.drop_stream(open);
                }
                listen_stream::Effect::Adopt => self.adopt_stream(agreed),
                listen_stream::Effect::Forget => {
                    self.forget_open();
                    self.lose_resources();
                }
                listen_stream::Effect::Await => {
                    self.forget_open();
                    self.await_asked();
                }
                listen_stream::Effect::Arm => {
                    let factor = 1_u32.checked_shl(self.subscriptions.failures).unwrap_or(u32::MAX);
                    self.subscriptions.failures = self.subscriptions.failures.saturating_add(1).min(16);
                    let wait = self.options.timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_WAIT);
                    self.arm(Timer::Stream, wait);
                }
                listen_stream::Effect::Disarm => self.timers.set(Timer::Stream, None),
            }
        }
    }

    /// What the open stream told of, or was to, the one that is asked for will.
    fn await_asked(&mut self) {
        for uri in self.uris() {
            if self.is_resource(&uri, resource_subscription::State::Asking)
                || self.is_resource(&uri, resource_subscription::State::Active)
            {
                self.resource_step(&uri, resource_subscription::Input::Lost, None);
                self.resource_step(&uri, resource_subscription::Input::Possible, None);
            }
        }
    }

    fn ask_for_stream(&mut self) {
        for uri in self.uris() {
            self.resource_step(&uri, resource_subscription::Input::Possible, None);
        }
        let deadline = self.request_deadline();
        self.subscriptions.asked = Some(self.requests.insert(Purpose::Listen { agreed: false }, Some(deadline)));
    }

    /// Writes what the stream is to tell of.
    pub(super) fn write_filter(&self, params: &mut Object<'_>) {
        params.object("notifications", |filter| {
            for (name, family) in LISTS {
                if self.wants_list(family) {
                    filter.raw(name, "true");
                }
            }
            let states = &self.subscriptions.resources;
            let mut uris =
                states.iter().filter(|(_, state)| **state != resource_subscription::State::Refused).peekable();
            if uris.peek().is_some() {
                let list = filter.value("resourceSubscriptions");
                for (index, (uri, _)) in uris.enumerate() {
                    list.push(if index == 0 { b'[' } else { b',' });
                    crate::jsonrpc::string(list, uri);
                }
                list.push(b']');
            }
        });
    }

    fn drop_stream(&mut self, id: Option<u64>) {
        let Some(id) = id else { return };
        self.retract(id);
        if self.requests.abandon(id).is_some_and(|open| open.phase == Phase::Sent) {
            self.send_cancelled(id, "the client wants other notifications, or none");
        }
    }

    /// The server agreed to the stream that was asked for, or to a part of it.
    fn adopt_stream(&mut self, agreed: Option<Json<'_>>) {
        let Some(id) = self.subscriptions.asked.take() else { return };
        self.requests.agree(id);
        (self.subscriptions.open, self.subscriptions.opened_at) = (Some(id), self.now);
        // What it does not say is taken for what was asked for.
        let says = |name: &str| agreed.is_none_or(|agreed| agreed.member(name).is_some_and(|it| it.text() == "true"));
        let lists = LISTS.map(|(name, family)| (family, self.wants_list(family) && says(name)));
        for (listed, told) in lists {
            for family in Family::EACH.into_iter().filter(|family| family.capability() == listed.capability()) {
                let before = core::mem::replace(self.subscriptions.told.get_mut(family), told);
                let slot = self.families.get_mut(family);
                // A list that was asked for ahead of the stream may be older than it, whichever is answered first.
                let older = slot.walk.as_ref().is_some_and(|walk| walk.pages == 0 && walk.first < id);
                if told && (core::mem::take(&mut slot.unwatched) || older && !before) {
                    // The server did not say so.
                    self.families.get_mut(family).on_demand = true;
                    self.list_changed(family);
                }
            }
        }
        let limit = self.options.limits.subscriptions;
        let uris = agreed.map(|agreed| agreed.member("resourceSubscriptions").and_then(|uris| uris.elements(limit)));
        let uris: Option<Vec<_>> = uris.map(|uris| uris.map_or(Vec::new(), |uris| uris.kept));
        let mut agreed: Option<Vec<_>> = uris.map(|uris| uris.into_iter().filter_map(Json::as_string).collect());
        if let Some(agreed) = &mut agreed {
            agreed.sort_unstable();
        }
        for uri in self.uris() {
            let accepted = match &agreed {
                Some(agreed) => agreed.binary_search_by(|it| (**it).cmp(&uri)).is_ok(),
                // One that was refused was not asked for again.
                None => !self.is_resource(&uri, resource_subscription::State::Refused),
            };
            // One that is wanted since the stream was asked for is asked for next.
            if !self.is_resource(&uri, resource_subscription::State::Wanted) {
                let input = if accepted {
                    resource_subscription::Input::Accepted
                } else {
                    resource_subscription::Input::Refused
                };
                self.resource_step(&uri, input, None);
            }
        }
    }

    /// Nothing tells of changes any more: what is listed may become untrue unnoticed.
    fn forget_open(&mut self) {
        self.subscriptions.open = None;
        if self.now.since(self.subscriptions.opened_at) >= LONGEST_WAIT {
            self.subscriptions.failures = 0;
        }
        for family in Family::EACH {
            if core::mem::take(self.subscriptions.told.get_mut(family)) {
                self.families.get_mut(family).unwatched = true;
            }
        }
    }

    /// `notifications/subscriptions/acknowledged`.
    pub(super) fn acknowledged(&mut self, params: Option<&RawValue>) {
        // What was not sent yet cannot be agreed to.
        let Some(asked) = self.subscriptions.asked.filter(|asked| self.is_sent(*asked)) else { return };
        let params = params.map(Json::from);
        let meta = params.and_then(|params| params.member("_meta"));
        let id = meta.and_then(|meta| meta.member("io.modelcontextprotocol/subscriptionId"));
        // Without an id it can only be meant for the one that waits.
        if id.is_none_or(|id| id.text().trim_matches('"').parse() == Ok(asked)) {
            let agreed = params.and_then(|params| params.member("notifications")).filter(|agreed| agreed.is_object());
            self.stream_step(listen_stream::Input::Agreed, agreed);
        }
    }

    /// The stream's request was answered, which ends the stream.
    pub(super) fn stream_ended(&mut self, id: u64, error: Option<&ErrorObject>) {
        if self.subscriptions.open == Some(id) {
            return self.stream_step(listen_stream::Input::Ended, None);
        }
        if self.subscriptions.asked == Some(id) {
            self.subscriptions.asked = None;
            let unknown = error.is_some_and(|error| error.code == error_code::METHOD_NOT_FOUND);
            let declared = self.server.as_ref().is_some_and(|server| server.capabilities.is_some());
            if unknown {
                for uri in self.uris() {
                    self.resource_step(&uri, resource_subscription::Input::Refused, Some(NO_STREAM));
                }
            }
            let input = match (unknown, declared) {
                (true, true) => listen_stream::Input::Unknown,
                (true, false) => listen_stream::Input::Absent,
                (false, _) => listen_stream::Input::Failed,
            };
            self.stream_step(input, None);
        }
    }

    /// Whether the server took down a stream of this id, of which no answer is to come (specification 2026-07-28,
    /// "Cancellation").
    pub(super) fn stream_cancelled(&mut self, id: &str) -> bool {
        let Ok(id) = id.trim_matches('"').parse() else { return false };
        let subscriptions = &self.subscriptions;
        let known = self.is_sent(id) && (subscriptions.open == Some(id) || subscriptions.asked == Some(id));
        if known {
            self.requests.abandon(id);
            self.stream_ended(id, None);
        }
        known
    }

    pub(super) fn stream_silent(&mut self) {
        self.stream_step(listen_stream::Input::Silent, None);
    }

    pub(super) fn stream_due(&mut self) {
        self.stream_step(listen_stream::Input::Timer, None);
    }

    /// Sets the least severity of the log messages that the server is to send, on this connection and on those that
    /// follow it (specification 2025-11-25, "Logging"; in 2026-07-28 each request says it).
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`] where the server has no log.
    pub fn set_log_level(&mut self, now: Time, level: super::LogLevel) -> Result<(), CommandError> {
        self.check_open()?;
        if self.is_ready() && self.missing_capability(method::SET_LEVEL).is_some() {
            return Err(CommandError::NotAdvertised {
                server: self.server_name().into(),
                method: method::SET_LEVEL.into(),
                capability: Capability::Logging.as_str(),
            });
        }
        self.advance(now);
        self.log_level = Some(level);
        if self.is_established() {
            self.send_log_level();
        }
        self.pump();
        Ok(())
    }

    /// Tells a legacy server the level, where there is one and the server has a log.
    pub(super) fn send_log_level(&mut self) {
        let server = self.server.as_ref().filter(|server| server.era() == Era::Legacy);
        let has_log =
            server.is_some_and(|server| self.gate_capability(gate::Purpose::SetLevel, server.has(Capability::Logging)));
        // One that was not written yet takes the level of the time when it is.
        if has_log && self.log_level.is_some() && !self.requests.is_level_queued() {
            let deadline = self.request_deadline();
            self.requests.insert(Purpose::SetLevel, Some(deadline));
        }
    }
}
