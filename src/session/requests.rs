use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Time;
use crate::jsonrpc::ResponseId;
use crate::protocol::Family;

/// A request to make: a method, parameters, and how long it may take.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) method: Cow<'static, str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) timeout: Option<Duration>,
    pub(super) trace: Option<Box<TraceContext>>,
}

impl Request {
    /// A request of this method, without parameters.
    pub fn new(method: impl Into<Cow<'static, str>>) -> Self {
        Self { method: method.into(), params: None, timeout: None, trace: None }
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
    Call(Request),
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
    /// The first id of this connection.
    first_id: u64,
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

    pub(super) fn expired(&self, now: Time) -> Option<u64> {
        self.deadlines.first().filter(|(time, _)| *time <= now).map(|(_, id)| *id)
    }

    /// The next request to write, where the bound and the state of the session allow one.
    pub(super) fn next(&mut self, limit: usize, calls: bool) -> Option<u64> {
        if self.in_flight >= limit {
            return None;
        }
        let id = match self.engine_queue.pop_front() {
            Some(id) => id,
            None if calls => self.call_queue.pop_front()?,
            None => return None,
        };
        self.open.get_mut(&id)?.phase = Phase::Written;
        self.in_flight = self.in_flight.saturating_add(1);
        Some(id)
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
        if self.open.get(&id).is_some_and(|open| open.phase != Phase::Queued) {
            return matched(id);
        }
        if self.abandoned.remove(&id) {
            return Match::Late;
        }
        if id < self.first_id || id > self.last_id {
            return self.without_id(is_error);
        }
        Match::Unknown
    }

    fn without_id(&self, is_error: bool) -> Match {
        if !is_error {
            return Match::Unknown;
        }
        let mut sent = self.open.iter().filter(|(_, open)| open.phase != Phase::Queued);
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
