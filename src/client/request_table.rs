use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::requests::Request;
use super::{Outcome, RequestId};
use crate::Time;
use crate::jsonrpc::ResponseId;
use crate::machine::request::{self, State};
use crate::machine::resend::Used;
use crate::protocol::{Family, ProtocolVersion, method};

/// The purpose of a request on the wire.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// `server/discover`, with this version.
    Discover(ProtocolVersion),
    /// `initialize`, with this version.
    Initialize(ProtocolVersion),
    /// A page of a list, after this cursor, a JSON string.
    List {
        family: Family,
        cursor: Option<Box<str>>,
    },
    SetLevel,
    /// A keepalive request with this method.
    Keepalive(&'static str),
    /// The listen stream with this filter, a JSON object. An acknowledged stream waits for no response.
    Listen {
        filter: Box<str>,
        agreed: bool,
    },
    /// Subscribe to this resource (legacy).
    Subscribe(Box<str>),
    /// Unsubscribe from this resource (legacy).
    Unsubscribe(Box<str>),
    Call(Call),
}

/// A request of the embedder.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The embedder's id of the request: its first id on the wire.
    pub(super) handle: RequestId,
    pub(super) request: Request,
    /// The timeout, which each progress notification restarts,
    pub(super) timeout: Duration,
    /// up to this time on the call clock.
    pub(super) latest: Time,
    /// For how long the call clock had been paused when the call was made.
    stood: Duration,
    /// When progress was reported last.
    pub(super) told: Option<Time>,
    /// How often it was sent again although it may have run.
    pub(super) lost: Used,
    /// The input that the server requires or that was provided.
    pub(super) input: Option<Box<InputRounds>>,
    /// What it waits for, while it is blocked.
    pub(super) blocked: Option<Box<Blocked>>,
    /// How often it was sent again because its session expired.
    pub(super) expired: Used,
    /// How often it waited for authorization.
    pub(super) unauthorized: Used,
    /// How often it was refused because of its headers.
    pub(super) headers_refused: Used,
}

/// A request that the server refused unprocessed.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    pub(super) by: Block,
    /// How it ends if what it waits for is not provided.
    pub(super) outcome: Outcome,
    /// The time that it had left,
    pub(super) left: Duration,
    /// and since when it waits, on the call clock.
    pub(super) since: Time,
}

/// What a blocked request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Authorization by the embedder.
    Authorization,
    /// The headers that the tool's schema requires.
    Headers,
}

/// The rounds of input of a request (specification 2026-07-28, "Multi Round-Trip Requests").
#[derive(Clone, Debug)]
pub(super) struct InputRounds {
    pub(super) rounds: u32,
    /// The server's last result.
    pub(super) result: Box<RawValue>,
    /// The server's `requestState`, unchanged, if there is one.
    pub(super) state: Option<Box<str>>,
    /// The responses that the engine provides itself: the server's keys, and JSON.
    pub(super) known: Vec<(Box<str>, Box<str>)>,
    /// The value of `inputResponses`, once it is complete.
    pub(super) responses: Option<Box<str>>,
    /// How many of its bytes count towards the limit.
    pub(super) bytes: usize,
    /// The time that the request had left when the server required input,
    pub(super) left: Duration,
    /// and when that was, on the call clock.
    pub(super) since: Time,
}

impl Purpose {
    fn is_tool_call(&self) -> bool {
        matches!(self, Self::Call(call) if call.request.method == method::TOOLS_CALL)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) purpose: Purpose,
    pub(super) phase: State,
    /// For a request of the embedder, on the call clock.
    deadline: Option<Time>,
}

/// The request that a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// The request with this id.
    Id(u64),
    /// The request with this id, which came back in another type.
    Loose(u64),
    /// The only request in flight; the response's id is not one of this connection.
    Only(u64),
    /// A request that timed out or was cancelled.
    Late,
    /// No request: an error without an id of this connection.
    NoId,
    /// No request.
    Unknown,
}

/// How many ids of abandoned requests are remembered, to recognize their late responses.
const ABANDONED: usize = 1024;

/// The open requests.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestTable {
    last_id: u64,
    /// The first id of this connection, except for carried ones.
    first_id: u64,
    /// The ids of unsent requests of an earlier connection.
    carried: BTreeSet<u64>,
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Time, u64)>,
    call_deadlines: BTreeSet<(Time, u64)>,
    engine_queue: VecDeque<u64>,
    /// The queues of the embedder's requests: tool calls, and all others.
    tool_queue: BTreeSet<u64>,
    other_queue: BTreeSet<u64>,
    in_flight: u32,
    tools_in_flight: u32,
    /// Number of requests that wait for a response, and the XOR of their ids, which is the id itself if there is one.
    waiting: u32,
    waiting_ids: u64,
    /// Bytes that are stored for the rounds of input.
    input_bytes: usize,
    /// The ids on the wire of requests that have another id for the embedder.
    renamed: BTreeMap<RequestId, u64>,
    /// The call clock; `None` until the first server request of this connection is reported.
    clock: Option<Box<Clock>>,
    abandoned: BTreeSet<u64>,
    pub(super) http: HttpSide,
}

/// What the engine and its HTTP binding share.
#[derive(Clone, Debug, Default)]
pub(super) struct HttpSide {
    /// There is an HTTP binding.
    pub(super) bound: bool,
    /// Tool calls are held: the binding waits for the GET stream, on which the server may send requests.
    pub(super) holds_tools: bool,
    /// The ids on the wire that do not wait for a response any more, until the binding takes them. There is rarely more
    /// than one, which needs no allocation.
    settled: Option<u64>,
    more_settled: Vec<u64>,
    /// Messages without a response that the binding took and that are not delivered yet, and their bytes.
    pub(super) undelivered: (usize, usize),
    /// Events that the binding took and that are not polled yet, and their bytes of the server's data.
    pub(super) unpolled: (usize, usize),
}

impl HttpSide {
    /// A request does not wait for a response any more.
    fn settle(&mut self, id: u64) {
        if self.bound && self.settled.is_some() {
            self.more_settled.push(id);
        } else if self.bound {
            self.settled = Some(id);
        }
    }

    pub(super) fn has_settled(&self) -> bool {
        self.settled.is_some() || !self.more_settled.is_empty()
    }

    pub(super) fn next_settled(&mut self) -> Option<u64> {
        let next = self.settled.take().or_else(|| self.more_settled.pop());
        if self.more_settled.is_empty() {
            // The memory of a burst is released.
            self.more_settled = Vec::new();
        }
        next
    }
}

/// The call clock. It is paused while server requests are open at the embedder. In total, each call profits from this
/// at most as long as one server request may be open; then it ends even if the clock is paused.
#[derive(Clone, Debug)]
struct Clock {
    /// Since when it is paused, if it is.
    paused: Option<Time>,
    /// For how long it was paused before.
    stood: Duration,
    /// Maximum pause for one call.
    most: Duration,
    /// When each call ends even if the clock is paused.
    hard: BTreeSet<(Time, u64)>,
    /// Open calls up to this id are in `hard` if they have a deadline.
    known: u64,
}

/// Whether the request is encoded, and may have an exchange.
const fn is_on_wire(phase: State) -> bool {
    matches!(phase, State::Written | State::Sent)
}

/// Whether the request counts as in flight: the server is expected to respond soon.
const fn in_flight(purpose: &Purpose, phase: State) -> bool {
    matches!(phase, State::Written | State::Sent) && !matches!(purpose, Purpose::Listen { .. })
}

/// Whether a response would end the request.
const fn waits(purpose: &Purpose, phase: State) -> bool {
    matches!(phase, State::Sent) && !matches!(purpose, Purpose::Listen { agreed: true, .. })
}

/// When a request times out.
#[derive(Clone, Copy)]
struct Due {
    at: Time,
    /// For a request of the embedder: for how long the call clock had been paused when it was made.
    stood: Option<Duration>,
}

impl Due {
    /// When a call ends even if its clock is paused from now on.
    fn hard(self, most: Duration) -> Option<Time> {
        self.stood.map(|stood| self.at + stood.saturating_add(most))
    }
}

impl Open {
    fn due(&self) -> Option<Due> {
        let stood = if let Purpose::Call(call) = &self.purpose { Some(call.stood) } else { None };
        self.deadline.map(|at| Due { at, stood })
    }
}

impl RequestTable {
    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// Opens an engine request.
    pub(super) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> u64 {
        let id = self.next_id();
        self.engine_queue.push_back(id);
        self.add(id, Open { purpose, phase: State::Queued, deadline });
        id
    }

    /// Opens a request of the embedder.
    pub(super) fn insert_call(
        &mut self,
        request: Request,
        timeout: Duration,
        max_timeout: Duration,
        now: Time,
    ) -> RequestId {
        let id = self.next_id();
        let handle = RequestId(id);
        let now = self.call_time(now);
        let deadline = now + timeout;
        let call = Call {
            handle,
            request,
            timeout,
            latest: now + max_timeout,
            stood: self.stood(),
            told: None,
            lost: Used::Never,
            input: None,
            blocked: None,
            expired: Used::Never,
            unauthorized: Used::Never,
            headers_refused: Used::Never,
        };
        let purpose = Purpose::Call(call);
        let tool = purpose.is_tool_call();
        self.add(id, Open { purpose, phase: State::Queued, deadline: Some(deadline) });
        if tool {
            self.tool_queue.insert(id)
        } else {
            self.other_queue.insert(id)
        };
        handle
    }

    fn add(&mut self, id: u64, open: Open) {
        self.add_deadline(id, open.due());
        if in_flight(&open.purpose, open.phase) {
            self.takes_off(open.purpose.is_tool_call());
        }
        if waits(&open.purpose, open.phase) {
            self.starts_waiting(id);
        }
        if let Purpose::Call(Call { input: Some(input), .. }) = &open.purpose {
            self.input_bytes = self.input_bytes.saturating_add(input.bytes);
        }
        self.open.insert(id, open);
    }

    fn add_deadline(&mut self, id: u64, due: Option<Due>) {
        let Some(due) = due else { return };
        let deadlines = if due.stood.is_some() { &mut self.call_deadlines } else { &mut self.deadlines };
        deadlines.insert((due.at, id));
        if let Some(clock) = &mut self.clock
            && id <= clock.known
            && let Some(hard) = due.hard(clock.most)
        {
            clock.hard.insert((hard, id));
        }
    }

    fn remove_deadline(&mut self, id: u64, due: Option<Due>) {
        let Some(due) = due else { return };
        let deadlines = if due.stood.is_some() { &mut self.call_deadlines } else { &mut self.deadlines };
        deadlines.remove(&(due.at, id));
        if let Some(clock) = &mut self.clock
            && id <= clock.known
            && let Some(hard) = due.hard(clock.most)
        {
            clock.hard.remove(&(hard, id));
        }
    }

    fn starts_waiting(&mut self, id: u64) {
        self.waiting = self.waiting.saturating_add(1);
        self.waiting_ids ^= id;
    }

    fn stops_waiting(&mut self, id: u64) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_ids ^= id;
    }

    fn takes_off(&mut self, tool: bool) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.tools_in_flight = self.tools_in_flight.saturating_add(u32::from(tool));
    }

    fn lands(&mut self, tool: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.tools_in_flight = self.tools_in_flight.saturating_sub(u32::from(tool));
    }

    /// Number of open requests.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn queued_calls(&self) -> usize {
        self.tool_queue.len().saturating_add(self.other_queue.len())
    }

    pub(super) fn get(&self, id: u64) -> Option<&Open> {
        self.open.get(&id)
    }

    /// The id on the wire of an open request of the embedder.
    pub(super) fn wire_id(&self, handle: RequestId) -> Option<u64> {
        let id = self.renamed.get(&handle).copied().unwrap_or(handle.0);
        let is_it = |open: &Open| matches!(&open.purpose, Purpose::Call(call) if call.handle == handle);
        self.open.get(&id).is_some_and(is_it).then_some(id)
    }

    pub(super) fn call(&self, id: u64) -> Option<&Call> {
        if let Purpose::Call(call) = &self.open.get(&id)?.purpose { Some(call) } else { None }
    }

    pub(super) fn call_mut(&mut self, id: u64) -> Option<&mut Call> {
        if let Purpose::Call(call) = &mut self.open.get_mut(&id)?.purpose { Some(call) } else { None }
    }

    /// Sets or removes the round of input of a call; returns the one before.
    pub(super) fn set_input(&mut self, id: u64, input: Option<Box<InputRounds>>) -> Option<Box<InputRounds>> {
        let bytes = input.as_ref().map_or(0, |input| input.bytes);
        let before = core::mem::replace(&mut self.call_mut(id)?.input, input);
        let freed = before.as_ref().map_or(0, |before| before.bytes);
        self.input_bytes = self.input_bytes.saturating_sub(freed).saturating_add(bytes);
        before
    }

    /// Bytes that are stored for the rounds of input.
    pub(super) const fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// The server acknowledged the listen stream of this request.
    pub(super) fn agree(&mut self, id: u64) {
        self.set_deadline(id, None);
        if let Some(Open { purpose: Purpose::Listen { agreed, .. }, phase, .. }) = self.open.get_mut(&id) {
            let waited = !core::mem::replace(agreed, true) && *phase == State::Sent;
            if waited {
                self.stops_waiting(id);
            }
        }
    }

    /// Whether a request for the log level is queued.
    pub(super) fn is_level_queued(&self) -> bool {
        let is_it = |id: &u64| self.open.get(id).is_some_and(|open| matches!(open.purpose, Purpose::SetLevel));
        self.engine_queue.iter().any(is_it)
    }

    pub(super) fn set_phase(&mut self, id: u64, phase: State) {
        self.change_phase(id, |_| phase);
    }

    /// Steps a request that is encoded or polled; these inputs have no effects.
    pub(super) fn step(&mut self, id: u64, input: request::Input) {
        self.change_phase(id, |phase| request::take(phase, input).next);
    }

    fn change_phase(&mut self, id: u64, next: impl FnOnce(State) -> State) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let before = open.phase;
        open.phase = next(before);
        let (tool, phase) = (open.purpose.is_tool_call(), open.phase);
        if is_on_wire(before) && !is_on_wire(phase) {
            self.http.settle(id);
        }
        let flies = (in_flight(&open.purpose, before), in_flight(&open.purpose, phase));
        let waits = (waits(&open.purpose, before), waits(&open.purpose, phase));
        match flies {
            (true, false) => self.lands(tool),
            (false, true) => self.takes_off(tool),
            (true, true) | (false, false) => {}
        }
        match waits {
            (true, false) => self.stops_waiting(id),
            (false, true) => self.starts_waiting(id),
            (true, true) | (false, false) => {}
        }
    }

    pub(super) fn set_deadline(&mut self, id: u64, deadline: Option<Time>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let before = open.due();
        open.deadline = deadline;
        let after = open.due();
        self.remove_deadline(id, before);
        self.add_deadline(id, after);
    }

    /// Gives a call this much time from now.
    pub(super) fn set_time_left(&mut self, id: u64, left: Duration, now: Time) {
        self.set_deadline(id, Some(self.call_time(now) + left));
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if is_on_wire(open.phase) {
            self.http.settle(id);
        }
        self.remove_deadline(id, open.due());
        if open.phase == State::Queued {
            self.dequeue(id, open.purpose.is_tool_call());
        }
        if in_flight(&open.purpose, open.phase) {
            self.lands(open.purpose.is_tool_call());
        }
        if waits(&open.purpose, open.phase) {
            self.stops_waiting(id);
        }
        match &open.purpose {
            Purpose::Call(call) => {
                let kept = call.input.as_ref().map_or(0, |input| input.bytes);
                self.input_bytes = self.input_bytes.saturating_sub(kept);
                self.renamed.remove(&call.handle);
            }
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_) => {
                if let Ok(at) = self.engine_queue.binary_search(&id) {
                    self.engine_queue.remove(at);
                }
            }
        }
        Some(open)
    }

    /// Remembers this id, so that its response counts as late.
    pub(super) fn expect_late(&mut self, id: u64) {
        self.abandoned.insert(id);
        if self.abandoned.len() > ABANDONED {
            self.abandoned.pop_first();
        }
    }

    /// Removes an engine request whose response is not needed any more.
    pub(super) fn abandon(&mut self, id: u64) -> Option<Open> {
        let open = self.remove(id)?;
        if open.phase == State::Sent {
            self.expect_late(id);
        }
        Some(open)
    }

    /// The open list request of a family.
    pub(super) fn list(&self, family: Family) -> Option<u64> {
        let is_it = |open: &Open| matches!(open.purpose, Purpose::List { family: listed, .. } if listed == family);
        self.open.iter().find(|(_, open)| is_it(open)).map(|(id, _)| *id)
    }

    /// The open engine requests.
    pub(super) fn engine(&self) -> Vec<u64> {
        let engine = self.open.iter().filter(|(_, open)| !matches!(open.purpose, Purpose::Call(_)));
        engine.map(|(id, _)| *id).collect()
    }

    /// Queues a request of the embedder, for the first time or again.
    pub(super) fn requeue(&mut self, id: u64) {
        let Some(open) = self.open.get(&id) else { return };
        if open.purpose.is_tool_call() {
            self.tool_queue.insert(id)
        } else {
            self.other_queue.insert(id)
        };
    }

    fn dequeue(&mut self, id: u64, tool: bool) {
        if tool {
            self.tool_queue.remove(&id)
        } else {
            self.other_queue.remove(&id)
        };
    }

    /// Gives a request a new id on the wire. The embedder keeps the first one.
    pub(super) fn rename(&mut self, id: u64) -> u64 {
        let Some(open) = self.remove(id) else { return id };
        let new = self.next_id();
        if let Purpose::Call(call) = &open.purpose {
            self.renamed.insert(call.handle, new);
        }
        self.add(new, open);
        new
    }

    /// The time that a request has left.
    pub(super) fn time_left(&self, id: u64, now: Time) -> Duration {
        let Some(open) = self.open.get(&id) else { return Duration::ZERO };
        let now = if matches!(open.purpose, Purpose::Call(_)) { self.call_time(now) } else { now };
        open.deadline.map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    /// Releases the memory of a burst of requests.
    pub(super) fn release(&mut self) {
        if self.open.is_empty() {
            // Empty trees and queues keep memory.
            self.open = BTreeMap::new();
            (self.deadlines, self.call_deadlines) = (BTreeSet::new(), BTreeSet::new());
            self.engine_queue = VecDeque::new();
            (self.tool_queue, self.other_queue) = (BTreeSet::new(), BTreeSet::new());
            self.clock = self.clock.take().filter(|clock| clock.paused.is_some());
            // A carried request may be answered twice on the same connection.
            self.renamed = BTreeMap::new();
        }
    }

    /// Whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    fn stood(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.stood)
    }

    /// The time on the call clock.
    pub(super) fn call_time(&self, now: Time) -> Time {
        let Some(clock) = &self.clock else { return now };
        let now = clock.paused.unwrap_or(now);
        Time::ZERO + now.since(Time::ZERO).saturating_sub(clock.stood)
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let first = |deadlines: &BTreeSet<(Time, u64)>| deadlines.first().map(|(at, _)| *at);
        let call = first(&self.call_deadlines);
        let (call, hard) = match self.clock.as_deref() {
            None => (call, None),
            Some(clock) => {
                let call = call.map(|at| at + clock.stood);
                (call.filter(|at| clock.paused.is_none_or(|since| *at <= since)), first(&clock.hard))
            }
        };
        [first(&self.deadlines), call, hard].into_iter().flatten().min()
    }

    /// The requests whose deadline passed, in the order of the deadlines.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        let (mut stood, mut standing, mut hard) = (Duration::ZERO, now, None);
        if let Some(clock) = self.clock.as_deref() {
            (stood, standing, hard) = (clock.stood, clock.paused.unwrap_or(now), Some(&clock.hard));
        }
        let own = self.deadlines.iter().copied().take_while(|(at, _)| *at <= now);
        let calls = self.call_deadlines.iter().map(|(at, id)| (*at + stood, *id));
        let calls = calls.take_while(|(at, _)| *at <= standing);
        let hard = hard.into_iter().flatten().copied().take_while(|(at, _)| *at <= now);
        let mut expired: Vec<_> = own.chain(calls).chain(hard).collect();
        expired.sort_unstable();
        // A call may be listed for both of its deadlines; the second time it is not open any more.
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// A server request is reported to the embedder: pauses the call clock, for each call by at most `most` in total.
    pub(super) fn pause(&mut self, most: Duration, now: Time) {
        let clock = self.clock.get_or_insert_with(|| {
            Box::new(Clock { paused: None, stood: Duration::ZERO, most, hard: BTreeSet::new(), known: 0 })
        });
        if clock.paused.is_some() {
            return;
        }
        clock.paused = Some(now);
        // Each call is visited once, however many server requests follow.
        for (id, open) in self.open.range(clock.known.saturating_add(1)..) {
            if let Some(hard) = open.due().and_then(|due| due.hard(clock.most)) {
                clock.hard.insert((hard, *id));
            }
        }
        // Calls that are opened later are added when they are opened.
        clock.known = u64::MAX;
    }

    /// No server request is open any more: the call clock continues.
    pub(super) fn resume(&mut self, now: Time) {
        if let Some(clock) = &mut self.clock
            && let Some(since) = clock.paused.take()
        {
            clock.stood = clock.stood.saturating_add(now.since(since));
            clock.known = self.last_id;
        }
    }

    /// The next request to encode, if limits and stage allow one. Without `parallel`, one tool is called at a time, and
    /// other requests pass the waiting calls.
    pub(super) fn next(&mut self, limit: usize, calls: bool, parallel: bool) -> Option<u64> {
        if usize::try_from(self.in_flight).is_ok_and(|in_flight| in_flight >= limit) {
            return None;
        }
        if let Some(id) = self.engine_queue.pop_front() {
            return Some(id);
        }
        if !calls || self.queued_calls() == 0 {
            return None;
        }
        let other = self.other_queue.first().copied();
        let may_call = !self.http.holds_tools && (parallel || self.tools_in_flight == 0);
        let tool = self.tool_queue.first().copied().filter(|_| may_call);
        let is_tool = tool.is_some_and(|tool| other.is_none_or(|other| tool < other));
        if is_tool { self.tool_queue.pop_first() } else { self.other_queue.pop_first() }
    }

    /// The request with this token made progress: extends its deadline. Returns the request, and whether to report the
    /// progress.
    pub(super) fn progress(&mut self, token: u64, now: Time, interval: Duration) -> Option<(RequestId, bool)> {
        self.open.get(&token).filter(|open| open.phase == State::Sent)?;
        let call_time = self.call_time(now);
        let call = self.call_mut(token)?;
        if !call.request.progress {
            return None;
        }
        let due = call.told.is_none_or(|told| now.since(told) >= interval);
        if due {
            call.told = Some(now);
        }
        let (handle, deadline) = (call.handle, (call_time + call.timeout).min(call.latest));
        // The deadline never moves to an earlier time.
        let before = self.open.get(&token).and_then(|open| open.deadline);
        self.set_deadline(token, before.max(Some(deadline)));
        Some((handle, due))
    }

    /// Finds the request of a response; `exchange` is the request in whose HTTP exchange it arrived.
    pub(super) fn match_response(&mut self, id: ResponseId, is_error: bool, exchange: Option<u64>) -> Match {
        let (id, matched): (u64, fn(u64) -> Match) = match id {
            ResponseId::Exact(id) => (id, Match::Id),
            ResponseId::Loose(id) => (id, Match::Loose),
            ResponseId::Absent | ResponseId::Foreign => return self.without_id(is_error, exchange),
        };
        if self.open.get(&id).is_some_and(|open| open.phase == State::Sent) {
            return matched(id);
        }
        if self.abandoned.remove(&id) {
            return Match::Late;
        }
        let of_this_connection = id >= self.first_id.max(1) && id <= self.last_id || self.carried.contains(&id);
        if !of_this_connection {
            return self.without_id(is_error, exchange);
        }
        Match::Unknown
    }

    fn without_id(&self, is_error: bool, exchange: Option<u64>) -> Match {
        if !is_error {
            return Match::Unknown;
        }
        let is_sent = |id: &u64| self.open.get(id).is_some_and(|open| open.phase == State::Sent);
        if let Some(id) = exchange.filter(is_sent) {
            return Match::Id(id);
        }
        if self.waiting == 1 { Match::Only(self.waiting_ids) } else { Match::NoId }
    }

    /// The connection ended: drops the engine's own requests.
    pub(super) fn end_connection(&mut self) {
        for id in self.engine() {
            self.remove(id);
        }
        self.abandoned.clear();
        self.carried = self.calls().into_iter().collect();
        self.first_id = self.last_id.saturating_add(1);
    }

    /// The open requests of the embedder, oldest first.
    pub(super) fn calls(&self) -> Vec<u64> {
        let calls = self.open.iter().filter(|(_, open)| matches!(open.purpose, Purpose::Call(_)));
        calls.map(|(id, _)| *id).collect()
    }
}
