//! Component: what the server announces, changes of its lists and of resources.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Core, excerpt};
use super::lists::LONGEST_WAIT;
use super::request_table::Purpose;
use super::signal::{Signal, Signals, Watch};
use super::timers::Timer;
use super::{CommandError, Event, RequestError};
use crate::Time;
use crate::jsonrpc::{Json, Object};
use crate::machine::request::State as Phase;
use crate::machine::subscribe::{self, Command, Means, Step};
use crate::machine::{Verdict, gate, listen_stream, resource_subscription};
use crate::protocol::{Era, Family, PerFamily, error_code, method};

#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    stream: listen_stream::State,
    /// The request of a stream that the server has not acknowledged yet.
    asked: Option<u64>,
    /// The request of the acknowledged stream.
    open: Option<u64>,
    opened_at: Time,
    failures: u32,
    /// The families whose changes the stream announces.
    told: PerFamily<bool>,
    /// The resources with a subscription.
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

/// The members of a filter for lists, each with a family.
const LISTS: [(&str, Family); 3] = [
    ("toolsListChanged", Family::Tools),
    ("promptsListChanged", Family::Prompts),
    ("resourcesListChanged", Family::Resources),
];

impl Subscriptions {
    /// The embedder subscribes to a resource.
    pub(super) fn subscribe(&mut self, core: &mut Core, now: Time, uri: &str) -> Result<Signals, CommandError> {
        core.check_open()?;
        if core.is_established() && !lets_subscribe(core) {
            return Err(core.not_advertised(method::SUBSCRIBE, "resources.subscribe"));
        }
        let limit = core.options.limits.subscriptions;
        if self.resources.len() >= limit && !self.resources.contains_key(uri) {
            return Err(CommandError::TooManySubscriptions { limit });
        }
        if core.is_full() {
            return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
        }
        core.advance(now);
        self.resources.entry(uri.into()).or_insert(resource_subscription::State::Wanted);
        self.step_resource(core, uri, resource_subscription::Input::Subscribe, None);
        Ok(self.execute(core, Command::Subscribe, uri))
    }

    /// The embedder unsubscribes from a resource.
    pub(super) fn unsubscribe(&mut self, core: &mut Core, now: Time, uri: &str) -> Result<Signals, CommandError> {
        use resource_subscription::State;
        let state = self.resources.get(uri);
        if state.is_none_or(|state| matches!(state, State::Leaving | State::Regretted)) {
            return Err(CommandError::UnknownSubscription);
        }
        core.advance(now);
        Ok(self.execute(core, Command::Unsubscribe, uri))
    }

    fn execute(&mut self, core: &mut Core, command: Command, uri: &str) -> Signals {
        let means = self.means(core);
        let why = if means == Means::NoStream { NO_STREAM } else { NOT_LISTENING };
        match subscribe::take(command, means) {
            Step::Keep => Signals::NONE,
            Step::Resource(input) => {
                self.step_resource(core, uri, input, Some(why));
                Signals::NONE
            }
            Step::Listen if self.is_resource(uri, resource_subscription::State::Wanted) => self.listen(core),
            Step::Listen => Signals::NONE,
            Step::ResourceThenListen(input) => {
                let listed = !self.is_resource(uri, resource_subscription::State::Refused);
                self.step_resource(core, uri, input, None);
                if listed { self.listen(core) } else { Signals::NONE }
            }
        }
    }

    /// How subscriptions work on the current connection.
    fn means(&self, core: &Core) -> Means {
        match core.era().filter(|_| core.is_established()) {
            None => Means::None,
            Some(Era::Legacy) if core.is_ready() => Means::Requests,
            Some(Era::Legacy) => Means::None,
            Some(Era::Modern) if !core.options.listen => Means::NotListening,
            Some(Era::Modern) if self.stream == listen_stream::State::Refused => Means::NoStream,
            Some(Era::Modern) => Means::Stream,
        }
    }

    /// The resources with a subscription.
    pub(super) fn resources(&self) -> impl Iterator<Item = &str> {
        use resource_subscription::State;
        let wanted = |state: &State| !matches!(state, State::Leaving | State::Regretted);
        self.resources.iter().filter(move |(_, state)| wanted(state)).map(|(uri, _)| &**uri)
    }

    fn is_resource(&self, uri: &str, state: resource_subscription::State) -> bool {
        self.resources.get(uri) == Some(&state)
    }

    /// Whether the server announces changes of the family's list.
    pub(super) fn watches(&self, core: &Core, family: Family) -> bool {
        match core.server.as_ref().map(|server| (server.era(), server.capabilities.as_ref())) {
            Some((Era::Modern, _)) => *self.told.get(family),
            Some((Era::Legacy, Some(capabilities))) => capabilities.list_changed(family.capability()),
            Some((Era::Legacy, None)) | None => false,
        }
    }

    /// The handshake with a modern server is done. The stream is requested before the lists, so that no change in
    /// between is missed.
    pub(super) fn start_stream(&mut self, core: &mut Core) -> Signals {
        if !core.options.listen {
            self.refuse_all(core, NOT_LISTENING);
        } else if !lets_subscribe(core) {
            self.refuse_all(core, UNDECLARED);
        }
        self.listen(core)
    }

    /// The client is ready: a legacy server gets a request for each resource.
    pub(super) fn start_requests(&mut self, core: &mut Core) {
        if self.means(core) != Means::Requests {
            return;
        }
        if !lets_subscribe(core) {
            return self.refuse_all(core, UNDECLARED);
        }
        for uri in self.uris() {
            self.step_resource(core, &uri, resource_subscription::Input::Possible, None);
        }
    }

    fn refuse_all(&mut self, core: &mut Core, why: &str) {
        for uri in self.uris() {
            self.step_resource(core, &uri, resource_subscription::Input::Refused, Some(why));
        }
    }

    fn uris(&self) -> Vec<Box<str>> {
        self.resources.keys().cloned().collect()
    }

    /// The connection ended, and its subscriptions with it.
    pub(super) fn on_connection_ended(&mut self, core: &mut Core) -> Signals {
        (self.asked, self.open) = (None, None);
        let signals = self.step(core, listen_stream::Input::Lost, None);
        self.failures = 0;
        self.lose_resources(core);
        signals
    }

    fn lose_resources(&mut self, core: &mut Core) {
        for uri in self.uris() {
            self.step_resource(core, &uri, resource_subscription::Input::Lost, None);
        }
    }

    fn step_resource(&mut self, core: &mut Core, uri: &str, input: resource_subscription::Input, words: Option<&str>) {
        use resource_subscription::{Effect, State, take};
        let by_requests = self.means(core) == Means::Requests;
        let Some(state) = self.resources.get_mut(uri) else { return };
        let row = take(*state, input);
        *state = row.next;
        if row.next == State::Gone {
            self.resources.remove(uri);
        }
        for effect in row.effects {
            let deadline = Some(core.request_deadline());
            match effect {
                // The stream's filter has all resources.
                Effect::Ask | Effect::Leave if !by_requests => {}
                Effect::Ask => {
                    core.requests.insert(Purpose::Subscribe(uri.into()), deadline);
                }
                Effect::Leave => {
                    core.requests.insert(Purpose::Unsubscribe(uri.into()), deadline);
                }
                Effect::TellActive => core.event(Event::Subscription { uri: uri.into(), outcome: Ok(()) }),
                Effect::TellRefused => {
                    let why = words.unwrap_or("the server did not agree to it").into();
                    core.event(Event::Subscription { uri: uri.into(), outcome: Err(why) });
                }
            }
        }
    }

    /// A legacy server answered `resources/subscribe` or `resources/unsubscribe`, or the request failed with this
    /// message.
    pub(super) fn on_response(&mut self, core: &mut Core, uri: &str, refusal: Option<&str>) {
        match refusal {
            None => self.step_resource(core, uri, resource_subscription::Input::Accepted, None),
            Some(words) => {
                self.step_resource(core, uri, resource_subscription::Input::Refused, Some(&excerpt(words)));
            }
        }
    }

    /// The set of subscriptions changed.
    fn listen(&mut self, core: &mut Core) -> Signals {
        let lists = LISTS.iter().any(|(_, family)| wants_list(core, *family));
        let resources = self.resources.values().any(|state| *state != resource_subscription::State::Refused);
        let wanted = core.options.listen && (lists || resources);
        let input = if wanted { listen_stream::Input::Wanted } else { listen_stream::Input::Unwanted };
        self.step(core, input, None)
    }

    fn step(&mut self, core: &mut Core, input: listen_stream::Input, agreed: Option<Json<'_>>) -> Signals {
        use listen_stream::{Effect, take};
        let row = take(self.stream, input);
        self.stream = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let (server, method) = (core.server_name(), method::LISTEN);
            let detail = format!("{server} declares that it tells of changes, yet has no `{method}`");
            core.quirk(kind, None, Some(method), detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Ask => self.ask(core),
                Effect::DropAsked => drop_stream(core, self.asked.take()),
                Effect::DropOpen => drop_stream(core, self.open.take()),
                Effect::Adopt => signals.extend(self.adopt(core, agreed)),
                Effect::Forget => {
                    signals.extend(self.forget(core));
                    self.lose_resources(core);
                }
                Effect::Await => {
                    signals.extend(self.forget(core));
                    self.await_asked(core);
                }
                Effect::Arm => {
                    let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
                    self.failures = self.failures.saturating_add(1).min(16);
                    let wait = core.options.timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_WAIT);
                    core.arm(Timer::Stream, wait);
                }
                Effect::Disarm => core.timers.set(Timer::Stream, None),
            }
        }
        signals
    }

    /// The requested stream will announce what the acknowledged one announced.
    fn await_asked(&mut self, core: &mut Core) {
        use resource_subscription::{Input, State};
        for uri in self.uris() {
            if self.is_resource(&uri, State::Asking) || self.is_resource(&uri, State::Active) {
                self.step_resource(core, &uri, Input::Lost, None);
                self.step_resource(core, &uri, Input::Possible, None);
            }
        }
    }

    fn ask(&mut self, core: &mut Core) {
        for uri in self.uris() {
            self.step_resource(core, &uri, resource_subscription::Input::Possible, None);
        }
        let deadline = core.request_deadline();
        let filter = self.filter(core);
        self.asked = Some(core.requests.insert(Purpose::Listen { filter, agreed: false }, Some(deadline)));
    }

    /// The filter of the stream, a JSON object.
    fn filter(&self, core: &Core) -> Box<str> {
        let mut json = Vec::new();
        let mut filter = Object::begin(&mut json);
        for (name, family) in LISTS {
            if wants_list(core, family) {
                filter.raw(name, "true");
            }
        }
        let states = &self.resources;
        let refused = resource_subscription::State::Refused;
        let mut uris = states.iter().filter(|(_, state)| **state != refused).peekable();
        if uris.peek().is_some() {
            let list = filter.value("resourceSubscriptions");
            for (index, (uri, _)) in uris.enumerate() {
                list.push(if index == 0 { b'[' } else { b',' });
                crate::jsonrpc::string(list, uri);
            }
            list.push(b']');
        }
        filter.end();
        alloc::string::String::from_utf8(json).unwrap_or_default().into()
    }

    /// The request of the stream has a new id.
    pub(super) fn rename(&mut self, id: u64, new: u64) {
        if self.asked == Some(id) {
            self.asked = Some(new);
        }
    }

    /// The server acknowledged the requested stream, or a part of it.
    fn adopt(&mut self, core: &mut Core, agreed: Option<Json<'_>>) -> Signals {
        let Some(id) = self.asked.take() else { return Signals::NONE };
        core.requests.agree(id);
        (self.open, self.opened_at) = (Some(id), core.now);
        // Without a list of what is accepted, everything counts as accepted.
        let says = |name: &str| agreed.is_none_or(|agreed| agreed.member(name).is_some_and(|it| it.text() == "true"));
        let mut families = PerFamily::<Watch>::default();
        for (name, listed) in LISTS {
            let told = wants_list(core, listed) && says(name);
            for family in Family::of(listed.capability()) {
                let before = core::mem::replace(self.told.get_mut(*family), told);
                *families.get_mut(*family) = Watch { before, now: told };
            }
        }
        self.adopt_resources(core, agreed);
        Signals::one(Signal::Watched { request: id, families })
    }

    fn adopt_resources(&mut self, core: &mut Core, agreed: Option<Json<'_>>) {
        use resource_subscription::{Input, State};
        let limit = core.options.limits.subscriptions;
        let uris = agreed.map(|agreed| agreed.member("resourceSubscriptions").and_then(|uris| uris.elements(limit)));
        let uris: Option<Vec<_>> = uris.map(|uris| uris.map_or(Vec::new(), |uris| uris.kept));
        let mut agreed: Option<Vec<_>> = uris.map(|uris| uris.into_iter().filter_map(Json::as_string).collect());
        if let Some(agreed) = &mut agreed {
            agreed.sort_unstable();
        }
        for uri in self.uris() {
            let accepted = match &agreed {
                Some(agreed) => agreed.binary_search_by(|it| (**it).cmp(&uri)).is_ok(),
                // A refused one was not requested again.
                None => !self.is_resource(&uri, State::Refused),
            };
            // One that was subscribed to since then is requested next.
            if !self.is_resource(&uri, State::Wanted) {
                let input = if accepted { Input::Accepted } else { Input::Refused };
                self.step_resource(core, &uri, input, None);
            }
        }
    }

    /// No stream announces changes any more: a list may become outdated unnoticed.
    fn forget(&mut self, core: &Core) -> Signals {
        self.open = None;
        if core.now.since(self.opened_at) >= LONGEST_WAIT {
            self.failures = 0;
        }
        Signals::one(Signal::Unwatched(core::mem::take(&mut self.told)))
    }

    /// Takes `notifications/subscriptions/acknowledged`.
    pub(super) fn on_acknowledged(&mut self, core: &mut Core, params: Option<&RawValue>) -> Signals {
        // A request that was not sent yet cannot be acknowledged.
        let Some(asked) = self.asked.filter(|asked| core.is_sent(*asked)) else { return Signals::NONE };
        let params = params.map(Json::from);
        let meta = params.and_then(|params| params.member("_meta"));
        let id = meta.and_then(|meta| meta.member("io.modelcontextprotocol/subscriptionId"));
        // Without an id, it is for the stream that waits.
        if id.is_some_and(|id| id.text().trim_matches('"').parse() != Ok(asked)) {
            return Signals::NONE;
        }
        let agreed = params.and_then(|params| params.member("notifications")).filter(|agreed| agreed.is_object());
        self.step(core, listen_stream::Input::Agreed, agreed)
    }

    /// The stream is over: its request was answered, or its exchange ended.
    pub(super) fn on_ended(&mut self, core: &mut Core, id: u64, error: Option<&RequestError>) -> Signals {
        use listen_stream::Input;
        if self.open == Some(id) {
            return self.step(core, Input::Ended, None);
        }
        if self.asked != Some(id) {
            return Signals::NONE;
        }
        self.asked = None;
        let unknown = error.is_some_and(|error| error.code() == Some(error_code::METHOD_NOT_FOUND));
        let declared = core.server.as_ref().is_some_and(|server| server.capabilities.is_some());
        if unknown {
            for uri in self.uris() {
                self.step_resource(core, &uri, resource_subscription::Input::Refused, Some(NO_STREAM));
            }
        }
        let input = match (unknown, declared) {
            (true, true) => Input::Unknown,
            (true, false) => Input::Absent,
            (false, _) => Input::Failed,
        };
        self.step(core, input, None)
    }

    /// Takes `notifications/cancelled` of a stream, whose request then gets no response (specification 2026-07-28,
    /// "Cancellation"); `None` if it is not about a stream.
    pub(super) fn on_cancelled(&mut self, core: &mut Core, id: &str) -> Option<Signals> {
        let id = id.trim_matches('"').parse().ok()?;
        if !core.is_sent(id) || self.open != Some(id) && self.asked != Some(id) {
            return None;
        }
        core.requests.abandon(id);
        Some(self.on_ended(core, id, None))
    }

    /// The server did not acknowledge the stream in time.
    pub(super) fn on_silent(&mut self, core: &mut Core) -> Signals {
        self.step(core, listen_stream::Input::Silent, None)
    }

    /// The wait before the stream is requested again is over.
    pub(super) fn on_timer(&mut self, core: &mut Core) -> Signals {
        self.step(core, listen_stream::Input::Timer, None)
    }
}

fn lets_subscribe(core: &Core) -> bool {
    let capabilities = core.server.as_ref().and_then(|server| server.capabilities.as_ref());
    core.gate_capability(gate::Purpose::Listen, capabilities.map(|capabilities| capabilities.subscribe()))
}

fn wants_list(core: &Core, family: Family) -> bool {
    core.gate(gate::Purpose::Listen, family).is_allowed()
}

fn drop_stream(core: &mut Core, id: Option<u64>) {
    let Some(id) = id else { return };
    core.outbox.retract(id);
    if core.requests.abandon(id).is_some_and(|open| open.phase == Phase::Sent) {
        core.send_cancelled(id, "the client wants other notifications, or none");
    }
}
