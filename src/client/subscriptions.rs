//! Component: what the server announces, changes of its lists and of resources.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Core, LONGEST_WAIT, Signal, Signals, Stage, Timer, Watch};
use super::request::Purpose;
use super::{CommandError, Event, RequestError};
use crate::Time;
use crate::jsonrpc::{Json, Object, ResponseId};
use crate::machine::listen::resource::{self, State};
use crate::machine::listen::stream::{self, Asked};
use crate::machine::listen::subscribe::{self, Occasion, Step, Transport};
use crate::machine::{QuirkKind, Verdict, gate, request};
use crate::protocol::{Era, Family, PerFamily, method};
use crate::text::excerpt;

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Subscriptions {
    connection: Connection,
    /// The resources with a subscription.
    resources: BTreeMap<Box<str>, State>,
}

/// The listen stream of one connection: each one begins anew.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Connection {
    /// The stream that was requested last.
    last: Asked,
    /// Its request, if the server has not acknowledged it yet.
    asked: Option<u64>,
    /// The request of the acknowledged stream.
    open: Option<u64>,
    opened_at: Time,
    failures: u32,
    /// The families whose changes the stream announces.
    announced: PerFamily<bool>,
}

impl Connection {
    fn state(&self) -> stream::State {
        stream::State { asked: self.last, open: self.open.is_some() }
    }
}

/// The members of a filter for lists, each with a family.
const LISTS: [(&str, Family); 3] = [
    ("toolsListChanged", Family::Tools),
    ("promptsListChanged", Family::Prompts),
    ("resourcesListChanged", Family::Resources),
];

/// Maximum number of tasks in the filter of a stream. Others are polled only.
const TASKS: usize = 64;

/// Writes a JSON array, which has at least one string.
fn write_strings<'a>(list: &mut Vec<u8>, strings: impl Iterator<Item = &'a str>) {
    for (index, string) in strings.enumerate() {
        list.push(if index == 0 { b'[' } else { b',' });
        crate::jsonrpc::string(list, string);
    }
    list.push(b']');
}

impl Subscriptions {
    /// The embedder subscribes to a resource.
    pub(super) fn subscribe(&mut self, core: &mut Core, now: Time, uri: &str) -> Result<Signals, CommandError> {
        core.check_open()?;
        let step = self.decide(core, Occasion::Subscribe, uri);
        if step == Step::Reject {
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
        self.resources.entry(uri.into()).or_insert(State::Wanted);
        self.step_resource(core, uri, resource::Input::Subscribe, None);
        Ok(self.execute(core, step, uri))
    }

    /// The embedder unsubscribes from a resource.
    pub(super) fn unsubscribe(&mut self, core: &mut Core, now: Time, uri: &str) -> Result<Signals, CommandError> {
        if !self.resources.get(uri).is_some_and(|state| state.is_wanted()) {
            return Err(CommandError::UnknownSubscription);
        }
        core.advance(now);
        let step = self.decide(core, Occasion::Unsubscribe, uri);
        Ok(self.execute(core, step, uri))
    }

    fn decide(&self, core: &Core, occasion: Occasion, uri: &str) -> Step {
        let listed = self.resources.get(uri).is_some_and(|state| state.is_listed());
        subscribe::decide(occasion, self.transport(core), listed)
    }

    fn execute(&mut self, core: &mut Core, step: Step, uri: &str) -> Signals {
        match step {
            Step::Reject | Step::Keep => Signals::NONE,
            Step::Resource(input) => {
                let why = why_impossible(self.transport(core));
                self.step_resource(core, uri, input, Some(why));
                Signals::NONE
            }
            Step::Listen => self.listen(core),
            Step::ResourceThenListen(input) => {
                self.step_resource(core, uri, input, None);
                self.listen(core)
            }
        }
    }

    /// How subscriptions work on the current connection.
    fn transport(&self, core: &Core) -> Transport {
        match core.era().filter(|_| core.is_established()) {
            None => Transport::None,
            Some(_) if !lets_subscribe(core) => Transport::Undeclared,
            Some(Era::Legacy) if core.stage() == Stage::Discovery => Transport::None,
            // Requests wait while nobody is reached.
            Some(Era::Legacy) => Transport::Requests,
            Some(Era::Modern) if !core.options.listen => Transport::NotListening,
            Some(Era::Modern) if self.connection.last == Asked::Refused => Transport::RefusedStream,
            Some(Era::Modern) => Transport::Stream,
        }
    }

    /// The resources with a subscription.
    pub(super) fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().filter(|(_, state)| state.is_wanted()).map(|(uri, _)| &**uri)
    }

    /// Whether the server announces changes of the family's list.
    pub(super) fn watches(&self, core: &Core, family: Family) -> bool {
        let Some(server) = core.server.as_deref() else { return false };
        match server.era() {
            Era::Legacy => server.declared.is_some_and(|it| it.list_changed(family.capability())),
            Era::Modern => *self.connection.announced.get(family),
        }
    }

    /// The handshake with a modern server is done. The stream is requested before the lists, so that no change in
    /// between is missed.
    pub(super) fn start_stream(&mut self, core: &mut Core) -> Signals {
        let mut signals = self.on_connected(core);
        signals.extend(self.listen(core));
        signals
    }

    /// The connection takes subscriptions: a modern one once the handshake is done, a legacy one once the client is
    /// ready.
    pub(super) fn on_connected(&mut self, core: &mut Core) -> Signals {
        let mut signals = Signals::NONE;
        for uri in self.uris() {
            let step = self.decide(core, Occasion::Connected, &uri);
            signals.extend(self.execute(core, step, &uri));
        }
        signals
    }

    /// A call runs as a task: the stream announces its status, too.
    pub(super) fn on_task_created(&mut self, core: &mut Core) -> Signals {
        self.listen(core)
    }

    fn uris(&self) -> Vec<Box<str>> {
        self.resources.keys().cloned().collect()
    }

    /// The connection ended, and its subscriptions with it.
    pub(super) fn on_connection_ended(&mut self) {
        self.connection = Connection::default();
        self.want_again();
    }

    /// No resource is subscribed to any more: those that the embedder wants are requested again.
    fn want_again(&mut self) {
        self.resources.retain(|_, state| state.is_wanted());
        self.resources.values_mut().for_each(|state| *state = State::Wanted);
    }

    fn step_resources(&mut self, core: &mut Core, input: resource::Input, refusal: Option<&str>) {
        for uri in self.uris() {
            self.step_resource(core, &uri, input, refusal);
        }
    }

    fn step_resource(&mut self, core: &mut Core, uri: &str, input: resource::Input, refusal: Option<&str>) {
        use resource::Effect;
        let mut absent = State::Gone;
        let state = self.resources.get_mut(uri).unwrap_or(&mut absent);
        let row = resource::step(*state, input);
        *state = row.next;
        if row.next == State::Gone {
            self.resources.remove(uri);
        }
        for effect in row.effects {
            let deadline = Some(core.request_deadline());
            match effect {
                Effect::Request => {
                    core.requests.insert(Purpose::Subscribe(uri.into()), deadline);
                }
                Effect::Leave => {
                    core.requests.insert(Purpose::Unsubscribe(uri.into()), deadline);
                }
                Effect::ReportActive => core.event(Event::Subscription { uri: uri.into(), outcome: Ok(()) }),
                Effect::ReportRefused => {
                    let why = refusal.unwrap_or("the server did not agree to it").into();
                    core.event(Event::Subscription { uri: uri.into(), outcome: Err(why) });
                }
            }
        }
    }

    /// A legacy server answered `resources/subscribe` or `resources/unsubscribe`, or the request failed with this
    /// message.
    pub(super) fn on_response(&mut self, core: &mut Core, uri: &str, refusal: Option<&str>) {
        match refusal {
            None => self.step_resource(core, uri, resource::Input::Accepted, None),
            Some(error) => {
                self.step_resource(core, uri, resource::Input::Refused, Some(&excerpt(error)));
            }
        }
    }

    /// The set of subscriptions changed.
    fn listen(&mut self, core: &mut Core) -> Signals {
        let lists = LISTS.iter().any(|(_, family)| wants_list(core, *family));
        let tasks = core.requests.tasks().next().is_some();
        let any = lists || tasks || self.resources.values().any(|state| state.is_listed());
        let wanted = any && core.options.listen && core.is_modern();
        self.step(core, if wanted { stream::Input::Wanted } else { stream::Input::Unwanted }, None)
    }

    fn step(&mut self, core: &mut Core, input: stream::Input, agreed: Option<Json<'_>>) -> Signals {
        use stream::Effect;
        let row = stream::step(self.connection.state(), input);
        self.connection.last = row.next.asked;
        if let Verdict::Quirk(kind) = row.verdict {
            let (server, method) = (core.server_name(), method::LISTEN);
            let detail = format!("{server} declares that it announces changes, but refuses `{method}`");
            core.quirk(kind, None, Some(method), detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Request => self.ask(core),
                Effect::DropRequested => drop_stream(core, self.connection.asked.take()),
                Effect::DropOpen => drop_stream(core, self.connection.open.take()),
                Effect::Adopt => signals.extend(self.adopt(core, agreed).unwrap_or_default()),
                Effect::Forget => {
                    signals.extend(self.forget(core));
                    self.want_again();
                }
                Effect::Await => {
                    signals.extend(self.forget(core));
                    self.step_resources(core, resource::Input::Replaced, None);
                }
                Effect::Refuse => {
                    let why = why_impossible(Transport::RefusedStream);
                    self.step_resources(core, resource::Input::Refused, Some(why));
                }
                Effect::Arm => {
                    let wait = crate::time::backoff(
                        core.options.timeouts.refresh_interval,
                        self.connection.failures,
                        LONGEST_WAIT,
                    );
                    self.connection.failures = self.connection.failures.saturating_add(1).min(16);
                    core.arm(Timer::Stream, wait);
                }
                Effect::Disarm => core.timers.set(Timer::Stream, None),
            }
        }
        signals
    }

    fn ask(&mut self, core: &mut Core) {
        self.step_resources(core, resource::Input::Included, None);
        let deadline = core.request_deadline();
        let filter = self.filter(core);
        self.connection.asked = Some(core.requests.insert(Purpose::Listen { filter, agreed: false }, Some(deadline)));
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
        let mut uris = self.resources.iter().filter(|(_, state)| state.is_listed()).peekable();
        if uris.peek().is_some() {
            write_strings(filter.value("resourceSubscriptions"), uris.map(|(uri, _)| &**uri));
        }
        let mut tasks = core.requests.tasks().take(TASKS).peekable();
        if tasks.peek().is_some() {
            write_strings(filter.value("taskIds"), tasks);
        }
        filter.end();
        alloc::string::String::from_utf8(json).unwrap_or_default().into()
    }

    /// The request of the stream has a new id.
    pub(super) fn rename(&mut self, id: u64, new: u64) {
        for stream in [&mut self.connection.asked, &mut self.connection.open] {
            if *stream == Some(id) {
                *stream = Some(new);
            }
        }
    }

    /// The server acknowledged the requested stream, or a part of it.
    fn adopt(&mut self, core: &mut Core, agreed: Option<Json<'_>>) -> Option<Signals> {
        let id = self.connection.asked.take()?;
        core.requests.mark_acknowledged(id);
        (self.connection.open, self.connection.opened_at) = (Some(id), core.now);
        // Without a list of what is accepted, everything counts as accepted.
        let says = |name: &str| agreed.is_none_or(|agreed| agreed.member(name).is_some_and(|it| it.text() == "true"));
        let mut families = PerFamily::<Watch>::default();
        for (name, listed) in LISTS {
            let announced = wants_list(core, listed) && says(name);
            for family in Family::of(listed.capability()) {
                let before = core::mem::replace(self.connection.announced.get_mut(*family), announced);
                *families.get_mut(*family) = Watch { before, now: announced };
            }
        }
        self.adopt_resources(core, agreed);
        Some(Signals::one(Signal::Watched { request: id, families }))
    }

    fn adopt_resources(&mut self, core: &mut Core, agreed: Option<Json<'_>>) {
        use resource::Input;
        let limit = core.options.limits.subscriptions;
        let uris = agreed.map(|agreed| agreed.member("resourceSubscriptions").and_then(|uris| uris.elements(limit)));
        let uris: Option<Vec<_>> = uris.map(|uris| uris.map_or(Vec::new(), |uris| uris.kept));
        let agreed: Option<BTreeSet<_>> = uris.map(|uris| uris.into_iter().filter_map(Json::as_string).collect());
        for uri in self.uris() {
            let input = match &agreed {
                None => Input::StreamAccepted,
                Some(agreed) if agreed.contains(&*uri) => Input::Accepted,
                Some(_) => Input::LeftOut,
            };
            self.step_resource(core, &uri, input, None);
        }
    }

    /// No stream announces changes any more: a list may become outdated unnoticed.
    fn forget(&mut self, core: &Core) -> Signals {
        let connection = &mut self.connection;
        connection.open = None;
        if core.now.since(connection.opened_at) >= LONGEST_WAIT {
            connection.failures = 0;
        }
        Signals::one(Signal::Unwatched(core::mem::take(&mut connection.announced)))
    }

    /// Takes `notifications/subscriptions/acknowledged`.
    pub(super) fn on_acknowledged(&mut self, core: &mut Core, params: Option<&RawValue>) -> Signals {
        let params = params.map(Json::from);
        let asked = self.connection.asked;
        // One that names no stream is for the one that waits.
        let is_for_asked = params.and_then(subscription_id).is_none_or(|id| id.is_some() && id == asked);
        if !is_for_asked || !asked.is_some_and(|asked| core.is_sent(asked)) {
            return Signals::NONE;
        }
        let agreed = params.and_then(|params| params.member("notifications"));
        self.step(core, stream::Input::Agreed, agreed.filter(|agreed| agreed.is_object()))
    }

    /// The stream is over: its request was answered, or its exchange ended.
    pub(super) fn on_ended(&mut self, core: &mut Core, id: u64, error: Option<&RequestError>) -> Signals {
        // Other streams were dropped, and their responses are late.
        let input = if self.connection.open == Some(id) {
            stream::Input::Ended
        } else if error.is_none() {
            stream::Input::Failed
        } else if core.server.as_ref().is_some_and(|server| server.declared.is_some()) {
            stream::Input::Refused
        } else {
            stream::Input::Absent
        };
        self.connection.asked = self.connection.asked.filter(|asked| *asked != id);
        self.step(core, input, None)
    }

    /// Whether a notification names a stream that is not the client's, or no stream although it has to (`needs_name`). In the
    /// legacy era, there are no streams, and the name means nothing.
    pub(super) fn is_foreign(&self, core: &Core, params: Option<&RawValue>, needs_name: bool) -> bool {
        if !core.is_modern() {
            return false;
        }
        match params.map(Json::from).and_then(subscription_id) {
            Some(id) => id.is_none() || (id != self.connection.open && id != self.connection.asked),
            None => needs_name,
        }
    }

    /// The sent request of a stream that has this id on the wire, as JSON.
    pub(super) fn stream_of_wire_id(&self, core: &mut Core, id: Json<'_>) -> Option<u64> {
        let (id, is_loose) = match ResponseId::read(Some(id)) {
            ResponseId::Exact(id) => (id, false),
            ResponseId::Loose(id) => (id, true),
            ResponseId::Absent | ResponseId::Foreign => return None,
        };
        let is_stream = self.connection.open == Some(id) || self.connection.asked == Some(id);
        if !is_stream || !core.is_sent(id) {
            return None;
        }
        if is_loose {
            let detail = "the id of the cancelled stream came in another type";
            core.quirk(QuirkKind::IdType, None, Some(method::CANCELLED), detail);
        }
        Some(id)
    }

    /// Takes `notifications/cancelled` of a stream, whose request then gets no response (specification 2026-07-28,
    /// "Cancellation").
    pub(super) fn on_cancelled(&mut self, core: &mut Core, id: u64) -> Signals {
        core.requests.expect_late(id);
        core.end_request(id, request::Input::Answered, "");
        self.on_ended(core, id, None)
    }

    /// The server did not acknowledge the stream in time.
    pub(super) fn on_silent(&mut self, core: &mut Core) -> Signals {
        self.step(core, stream::Input::Silent, None)
    }

    /// The wait before the stream is requested again is over.
    pub(super) fn on_timer(&mut self, core: &mut Core) -> Signals {
        self.step(core, stream::Input::Timer, None)
    }
}

/// Why a resource cannot be subscribed to.
const fn why_impossible(transport: Transport) -> &'static str {
    match transport {
        Transport::None => "there is no connection",
        Transport::Requests | Transport::Stream => "the server refused it",
        Transport::RefusedStream => "it refused `subscriptions/listen`",
        Transport::NotListening => "the options say not to listen",
        Transport::Undeclared => "it does not declare `resources.subscribe`",
    }
}

/// The id of a stream that a notification names, if it names one: the request's id, or `None` if it is none of ours.
fn subscription_id(params: Json<'_>) -> Option<Option<u64>> {
    let id = params.member("_meta")?.member("io.modelcontextprotocol/subscriptionId")?;
    Some(id.text().trim_matches('"').parse().ok())
}

fn lets_subscribe(core: &Core) -> bool {
    let capabilities = core.server.as_ref().and_then(|server| server.declared);
    core.gate_capability(gate::Use::Listen, capabilities.map(|capabilities| capabilities.subscribe()))
}

fn wants_list(core: &Core, family: Family) -> bool {
    core.gate(gate::Use::Listen, family).is_allowed()
}

fn drop_stream(core: &mut Core, id: Option<u64>) {
    let why = "the client wants other notifications, or none";
    id.and_then(|id| core.end_request(id, request::Input::Cancelled, why));
}
