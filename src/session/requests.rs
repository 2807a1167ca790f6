use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Time;
use crate::jsonrpc::{Object, ResponseId};
use crate::protocol::{Family, method};

/// A request to make: a method, parameters, and how long it may take.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) method: Cow<'static, str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_timeout: Option<Duration>,
    pub(super) progress: bool,
    pub(super) trace: Option<Box<TraceContext>>,
}

/// What a completion is for (specification 2026-07-28, "Completion").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// An argument of the prompt of this name.
    Prompt(&'a str),
    /// A variable of the resource template of this URI template.
    Resource(&'a str),
}

/// Parameters that are an object with these members.
fn object(members: impl FnOnce(&mut Object<'_>)) -> Option<Box<RawValue>> {
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    members(&mut object);
    object.end();
    String::from_utf8(json).ok().and_then(|json| RawValue::from_string(json).ok())
}

impl Request {
    /// `tools/call` of the tool of this name, its own, with these arguments: a JSON object.
    pub fn call_tool(name: &str, arguments: Option<&RawValue>) -> Self {
        let params = object(|params| {
            params.string("name", name);
            if let Some(arguments) = arguments {
                params.raw("arguments", arguments.get());
            }
        });
        Self { params, ..Self::new(method::TOOLS_CALL) }
    }

    /// `prompts/get` of the prompt of this name, with these arguments by their names.
    pub fn get_prompt<'a>(name: &str, arguments: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut arguments = arguments.into_iter().peekable();
        let params = object(|params| {
            params.string("name", name);
            if arguments.peek().is_some() {
                params.object("arguments", |object| {
                    for (name, value) in arguments {
                        object.string(name, value);
                    }
                });
            }
        });
        Self { params, ..Self::new(method::PROMPTS_GET) }
    }

    /// `resources/read` of the resource of this URI.
    pub fn read_resource(uri: &str) -> Self {
        let params = object(|params| {
            params.string("uri", uri);
        });
        Self { params, ..Self::new(method::RESOURCES_READ) }
    }

    /// `completion/complete` of what was typed of an argument.
    pub fn complete(reference: Reference<'_>, argument: &str, typed: &str) -> Self {
        let params = object(|params| {
            params.object("ref", |object| match reference {
                Reference::Prompt(name) => {
                    object.string("type", "ref/prompt").string("name", name);
                }
                Reference::Resource(uri) => {
                    object.string("type", "ref/resource").string("uri", uri);
                }
            });
            params.object("argument", |object| {
                object.string("name", argument).string("value", typed);
            });
        });
        Self { params, ..Self::new(method::COMPLETE) }
    }

    /// A request of this method, without parameters.
    pub fn new(method: impl Into<Cow<'static, str>>) -> Self {
        Self { method: method.into(), params: None, timeout: None, max_timeout: None, progress: false, trace: None }
    }

    /// The parameters, raw: a JSON object. What it says beyond `_meta` reaches the server as it is.
    #[must_use]
    pub fn params(mut self, params: Box<RawValue>) -> Self {
        self.params = Some(params);
        self
    }

    /// The parameters, from what serialises to a JSON object.
    ///
    /// # Errors
    /// What the value's own serialisation says.
    pub fn with_params(self, params: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(params).map(|params| self.params(params))
    }

    /// How long it may take, the wait for the session to be ready included.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it may take at most, however much progress the server tells of.
    #[must_use]
    pub fn max_timeout(mut self, max: Duration) -> Self {
        self.max_timeout = Some(max);
        self
    }

    /// Asks the server to tell of its progress: as [`Event::Progress`](crate::Event::Progress), and each time the
    /// request may take its timeout once more (specification 2026-07-28, "Progress").
    #[must_use]
    pub fn progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// The trace that it belongs to (specification 2026-07-28, "OpenTelemetry trace context").
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }
}

/// The members of `_meta` that OpenTelemetry reserves, passed through as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// W3C Trace Context, `traceparent`.
    pub traceparent: Option<Box<str>>,
    /// W3C Trace Context, `tracestate`.
    pub tracestate: Option<Box<str>>,
    /// W3C Baggage.
    pub baggage: Option<Box<str>>,
}

impl TraceContext {
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("traceparent", &self.traceparent), ("tracestate", &self.tracestate), ("baggage", &self.baggage)]
            .into_iter()
            .filter_map(|(name, value)| value.as_deref().map(|value| (name, value)))
    }
}

/// What a request on the wire is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Probe,
    Initialize,
    List(Family),
    SetLevel,
    /// A request of this method, whose answer shows that the peer is there.
    Keepalive(&'static str),
    Call(Call),
}

/// A request of the embedder's.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) request: Request,
    /// Each sign of progress gives it this much time more,
    pub(super) timeout: Duration,
    /// but not beyond this.
    pub(super) latest: Time,
    /// When progress was told of last.
    pub(super) told: Option<Time>,
}

impl Call {
    fn is_tool_call(&self) -> bool {
        self.request.method == method::TOOLS_CALL
    }
}

/// How far a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not written yet.
    Queued,
    /// Written, and not polled yet.
    Written,
    /// The embedder has it.
    Handed,
}

#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) purpose: Purpose,
    pub(super) phase: Phase,
    deadline: Option<Time>,
}

/// To which request a response belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// This one, by its id.
    Id(u64),
    /// This one, by its id in another shape.
    Loose(u64),
    /// This one, since it is the only one, and the response's id is no id of this connection.
    Only(u64),
    /// One that timed out or was cancelled.
    Late,
    /// None: an error without an id of this connection.
    NoId,
    /// None.
    Unknown,
}

/// Ids of given-up requests that are remembered, to tell their late answers from answers to nothing.
const ABANDONED: usize = 1024;

/// The requests that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    last_id: u64,
    /// The first id of this connection, beside those carried over.
    first_id: u64,
    /// The ids of requests that an earlier connection left unsent.
    carried: BTreeSet<u64>,
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Time, u64)>,
    engine_queue: VecDeque<u64>,
    call_queue: VecDeque<u64>,
    in_flight: usize,
    abandoned: BTreeSet<u64>,
}

impl Requests {
    pub(super) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        let id = self.last_id;
        match purpose {
            Purpose::Call(_) => self.call_queue.push_back(id),
            Purpose::Probe | Purpose::Initialize | Purpose::List(_) | Purpose::SetLevel | Purpose::Keepalive(_) => {
                self.engine_queue.push_back(id);
            }
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        self.open.insert(id, Open { purpose, phase: Phase::Queued, deadline });
        id
    }

    pub(super) fn queued_calls(&self) -> usize {
        self.call_queue.len()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Open> {
        self.open.get(&id)
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if let Some(deadline) = open.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        match open.phase {
            Phase::Queued => {
                self.engine_queue.retain(|queued| *queued != id);
                self.call_queue.retain(|queued| *queued != id);
            }
            Phase::Written | Phase::Handed => self.in_flight = self.in_flight.saturating_sub(1),
        }
        Some(open)
    }

    /// As `remove`, and an answer that comes all the same is a late one.
    pub(super) fn abandon(&mut self, id: u64) -> Option<Open> {
        let open = self.remove(id)?;
        self.abandoned.insert(id);
        if self.abandoned.len() > ABANDONED {
            self.abandoned.pop_first();
        }
        Some(open)
    }

    /// Gives up the list of a family that is open.
    pub(super) fn abandon_list(&mut self, family: Family) {
        let is_it = |open: &Open| matches!(open.purpose, Purpose::List(listed) if listed == family);
        if let Some(id) = self.open.iter().find(|(_, open)| is_it(open)).map(|(id, _)| *id) {
            self.abandon(id);
        }
    }

    /// Gives up the engine's own requests that are open.
    pub(super) fn abandon_engine(&mut self) {
        let engine = self.open.iter().filter(|(_, open)| !matches!(open.purpose, Purpose::Call(_)));
        for id in engine.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.abandon(id);
        }
    }

    /// Whether nothing waits for the server.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// The requests whose time is over, in the order in which it ended.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        self.deadlines.iter().take_while(|(time, _)| *time <= now).map(|(_, id)| *id).collect()
    }

    /// The next request to write, where the bound and the state of the session allow one. Without `parallel`, a
    /// tool is not called while another is; what waits behind it goes first then.
    pub(super) fn next(&mut self, limit: usize, calls: bool, parallel: bool) -> Option<u64> {
        if self.in_flight >= limit {
            return None;
        }
        let id = match self.engine_queue.pop_front() {
            Some(id) => id,
            None if calls && (parallel || !self.is_calling_tool()) => self.call_queue.pop_front()?,
            None if calls => {
                let at = self.call_queue.iter().position(|id| !self.is_tool_call(*id))?;
                self.call_queue.remove(at)?
            }
            None => return None,
        };
        self.open.get_mut(&id)?.phase = Phase::Written;
        self.in_flight = self.in_flight.saturating_add(1);
        Some(id)
    }

    fn is_tool_call(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|open| matches!(&open.purpose, Purpose::Call(call) if call.is_tool_call()))
    }

    fn is_calling_tool(&self) -> bool {
        self.open.iter().any(|(id, open)| open.phase != Phase::Queued && self.is_tool_call(*id))
    }

    /// The request that this token belongs to made progress: it may take longer. Tells whether it is time to say so.
    pub(super) fn progress(&mut self, token: u64, now: Time, interval: Duration) -> Option<bool> {
        let open = self.open.get_mut(&token).filter(|open| open.phase == Phase::Handed)?;
        let Purpose::Call(call) = &mut open.purpose else { return None };
        if !call.request.progress {
            return None;
        }
        let deadline = (now + call.timeout).min(call.latest);
        if let Some(before) = open.deadline.replace(deadline) {
            self.deadlines.remove(&(before, token));
        }
        self.deadlines.insert((deadline, token));
        let due = call.told.is_none_or(|told| now.since(told) >= interval);
        if due {
            call.told = Some(now);
        }
        Some(due)
    }

    pub(super) fn handed(&mut self, id: u64) {
        if let Some(open) = self.open.get_mut(&id) {
            open.phase = Phase::Handed;
        }
    }

    pub(super) fn match_response(&mut self, id: ResponseId, is_error: bool) -> Match {
        let (id, matched): (u64, fn(u64) -> Match) = match id {
            ResponseId::Exact(id) => (id, Match::Id),
            ResponseId::Loose(id) => (id, Match::Loose),
            ResponseId::Absent | ResponseId::Foreign => return self.without_id(is_error),
        };
        if self.open.get(&id).is_some_and(|open| open.phase == Phase::Handed) {
            return matched(id);
        }
        if self.abandoned.remove(&id) {
            return Match::Late;
        }
        let of_this_connection = id >= self.first_id.max(1) && id <= self.last_id || self.carried.contains(&id);
        if !of_this_connection {
            return self.without_id(is_error);
        }
        Match::Unknown
    }

    fn without_id(&self, is_error: bool) -> Match {
        if !is_error {
            return Match::Unknown;
        }
        let mut sent = self.open.iter().filter(|(_, open)| open.phase == Phase::Handed);
        match (sent.next(), sent.next()) {
            (Some((id, _)), None) => Match::Only(*id),
            (Some(_), Some(_)) | (None, _) => Match::NoId,
        }
    }

    /// Ends a connection: what was never handed over waits again, in its old order; the ids of what was are
    /// given back for the embedder's requests, and forgotten for the engine's own.
    pub(super) fn end_connection(&mut self) -> Vec<u64> {
        let mut lost = Vec::new();
        let mut waiting = VecDeque::new();
        let mut gone = Vec::new();
        for (id, open) in &mut self.open {
            match (&open.purpose, open.phase) {
                (Purpose::Call(_), Phase::Handed) => lost.push(*id),
                (Purpose::Call(_), Phase::Queued | Phase::Written) => {
                    open.phase = Phase::Queued;
                    waiting.push_back(*id);
                }
                (
                    Purpose::Probe | Purpose::Initialize | Purpose::List(_) | Purpose::SetLevel | Purpose::Keepalive(_),
                    _,
                ) => gone.push(*id),
            }
        }
        for id in gone {
            if let Some(Open { deadline: Some(deadline), .. }) = self.open.remove(&id) {
                self.deadlines.remove(&(deadline, id));
            }
        }
        self.engine_queue.clear();
        self.carried = waiting.iter().copied().collect();
        self.call_queue = waiting;
        self.in_flight = lost.len();
        self.abandoned.clear();
        self.first_id = self.last_id.saturating_add(1);
        lost
    }

    /// The embedder's requests that are open, oldest first.
    pub(super) fn calls(&self) -> Vec<u64> {
        let calls = self.open.iter().filter(|(_, open)| matches!(open.purpose, Purpose::Call(_)));
        calls.map(|(id, _)| *id).collect()
    }
}
