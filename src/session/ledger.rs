use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::requests::Request;
use super::{Outcome, RequestId};
use crate::Time;
use crate::jsonrpc::ResponseId;
use crate::machine::request::State;
use crate::protocol::{Family, method};

/// What a request on the wire is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Probe,
    Initialize,
    List(Family),
    SetLevel,
    /// A request of this method, whose answer shows that the peer is there.
    Keepalive(&'static str),
    /// The stream by which a modern server tells of changes; it waits for no answer once the server agreed.
    Listen {
        agreed: bool,
    },
    /// A legacy server is to tell of this resource.
    Subscribe(Box<str>),
    /// It is not to tell of it any more.
    Unsubscribe(Box<str>),
    Call(Call),
}

/// A request of the embedder's.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// What the embedder knows it by: the first id that it had.
    pub(super) handle: RequestId,
    pub(super) request: Request,
    /// Each sign of progress gives it this much time more,
    pub(super) timeout: Duration,
    /// but not beyond this.
    pub(super) latest: Time,
    /// When progress was told of last.
    pub(super) told: Option<Time>,
    /// How often it was sent again, though it may have run.
    pub(super) replays: u32,
    /// What the server wants to know, or was told, before it goes on.
    pub(super) input: Option<Box<Input>>,
    /// Why it is not let in, while it is not.
    pub(super) barred: Option<Box<Barred>>,
    /// It was sent again since the server had forgotten the session.
    pub(super) expired: bool,
    /// How often it had to wait for a token.
    pub(super) bars: u32,
    /// It was sent again since its headers were refused.
    #[cfg(feature = "http")]
    pub(super) mended: bool,
}

/// A request that the server refused unread.
#[derive(Clone, Debug)]
pub(super) struct Barred {
    pub(super) by: Bar,
    /// How it ends if nothing is done about it.
    pub(super) outcome: Outcome,
    /// How much time it had left,
    pub(super) left: Duration,
    /// and since when it waits.
    pub(super) since: Time,
}

/// What a request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// The embedder's authorisation.
    Token,
    /// The headers that the tool's schema asks for.
    Headers,
}

/// The rounds of a request that needs input (specification 2026-07-28, "Multi Round-Trip Requests").
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) rounds: u32,
    /// The server's last answer.
    pub(super) result: Box<RawValue>,
    /// The server's `requestState`, as it was written; none where it gave none.
    pub(super) state: Option<Box<str>>,
    /// What the engine itself answers, by the server's keys: JSON.
    pub(super) known: Vec<(Box<str>, Box<str>)>,
    /// The value of `inputResponses`, once it is known.
    pub(super) responses: Option<Box<str>>,
    /// How much time the request had left when the server asked,
    pub(super) left: Duration,
    /// and when that was.
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
    call_deadlines: BTreeSet<(Time, u64)>,
    /// In the order of their ids, as the next.
    engine_queue: VecDeque<u64>,
    call_queue: VecDeque<u64>,
    /// How many of `call_queue` are no calls of tools.
    queued_others: u32,
    in_flight: u32,
    tools_in_flight: u32,
    /// The ids on the wire of requests that the embedder knows by another one.
    renamed: BTreeMap<RequestId, u64>,
    /// While the embedder is asked by the server, the time of its own requests stands still, since then.
    paused: Option<Time>,
    abandoned: BTreeSet<u64>,
}

/// Whether the request is one of those that the server owes an answer to, and soon.
const fn in_flight(purpose: &Purpose, phase: State) -> bool {
    matches!(phase, State::Written | State::Sent) && !matches!(purpose, Purpose::Listen { .. })
}

impl Requests {
    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// Opens a request of the engine's own.
    pub(super) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> u64 {
        let id = self.next_id();
        self.engine_queue.push_back(id);
        self.add(id, Open { purpose, phase: State::Queued, deadline });
        id
    }

    /// Opens a request of the embedder's.
    pub(super) fn insert_call(
        &mut self,
        request: Request,
        timeout: Duration,
        latest: Time,
        deadline: Time,
    ) -> RequestId {
        let id = self.next_id();
        let handle = RequestId(id);
        let call = Call {
            handle,
            request,
            timeout,
            latest,
            told: None,
            replays: 0,
            input: None,
            barred: None,
            bars: 0,
            expired: false,
            #[cfg(feature = "http")]
            mended: false,
        };
        self.add(id, Open { purpose: Purpose::Call(call), phase: State::Queued, deadline: Some(deadline) });
        self.requeue(id);
        handle
    }

    fn deadlines_of(&mut self, purpose: &Purpose) -> &mut BTreeSet<(Time, u64)> {
        if matches!(purpose, Purpose::Call(_)) { &mut self.call_deadlines } else { &mut self.deadlines }
    }

    fn add(&mut self, id: u64, open: Open) {
        if let Some(deadline) = open.deadline {
            self.deadlines_of(&open.purpose).insert((deadline, id));
        }
        if in_flight(&open.purpose, open.phase) {
            self.takes_off(open.purpose.is_tool_call());
        }
        self.open.insert(id, open);
    }

    fn takes_off(&mut self, tool: bool) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.tools_in_flight = self.tools_in_flight.saturating_add(u32::from(tool));
    }

    fn lands(&mut self, tool: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.tools_in_flight = self.tools_in_flight.saturating_sub(u32::from(tool));
    }

    /// The requests that are open, whatever they wait for.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn queued_calls(&self) -> usize {
        self.call_queue.len()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Open> {
        self.open.get(&id)
    }

    /// The id on the wire of a request of the embedder's that is open.
    pub(super) fn wire_id(&self, handle: RequestId) -> Option<u64> {
        let id = self.renamed.get(&handle).copied().unwrap_or(handle.0);
        let is_it = |open: &Open| matches!(&open.purpose, Purpose::Call(call) if call.handle == handle);
        self.open.get(&id).is_some_and(is_it).then_some(id)
    }

    pub(super) fn call_mut(&mut self, id: u64) -> Option<&mut Call> {
        if let Purpose::Call(call) = &mut self.open.get_mut(&id)?.purpose { Some(call) } else { None }
    }

    /// The server agreed to the stream of this request, which goes on from here.
    pub(super) fn agree(&mut self, id: u64) {
        self.set_deadline(id, None);
        if let Some(Open { purpose: Purpose::Listen { agreed }, .. }) = self.open.get_mut(&id) {
            *agreed = true;
        }
    }

    /// Whether a request for the log level waits to be written.
    pub(super) fn is_level_queued(&self) -> bool {
        let is_it = |id: &u64| self.open.get(id).is_some_and(|open| matches!(open.purpose, Purpose::SetLevel));
        self.engine_queue.iter().any(is_it)
    }

    pub(super) fn set_phase(&mut self, id: u64, phase: State) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let before = core::mem::replace(&mut open.phase, phase);
        let tool = open.purpose.is_tool_call();
        match (in_flight(&open.purpose, before), in_flight(&open.purpose, phase)) {
            (true, false) => self.lands(tool),
            (false, true) => self.takes_off(tool),
            (true, true) | (false, false) => {}
        }
    }

    pub(super) fn set_deadline(&mut self, id: u64, deadline: Option<Time>) {
        let Some(mut open) = self.open.remove(&id) else { return };
        let before = core::mem::replace(&mut open.deadline, deadline);
        let deadlines = self.deadlines_of(&open.purpose);
        if let Some(before) = before {
            deadlines.remove(&(before, id));
        }
        if let Some(deadline) = deadline {
            deadlines.insert((deadline, id));
        }
        self.open.insert(id, open);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Open> {
        if let Ok(at) = self.call_queue.binary_search(&id) {
            self.dequeue(at);
        }
        let open = self.open.remove(&id)?;
        if let Some(deadline) = open.deadline {
            self.deadlines_of(&open.purpose).remove(&(deadline, id));
        }
        if in_flight(&open.purpose, open.phase) {
            self.lands(open.purpose.is_tool_call());
        }
        match &open.purpose {
            Purpose::Call(call) => {
                self.renamed.remove(&call.handle);
            }
            Purpose::Probe
            | Purpose::Initialize
            | Purpose::List(_)
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

    /// An answer to this id that comes all the same is a late one.
    pub(super) fn expect_late(&mut self, id: u64) {
        self.abandoned.insert(id);
        if self.abandoned.len() > ABANDONED {
            self.abandoned.pop_first();
        }
    }

    /// Removes a request of the engine's own, whose answer is not wanted any more.
    pub(super) fn abandon(&mut self, id: u64) -> Option<Open> {
        let open = self.remove(id)?;
        if open.phase == State::Sent {
            self.expect_late(id);
        }
        Some(open)
    }

    /// The request for the list of a family that is open.
    pub(super) fn list(&self, family: Family) -> Option<u64> {
        let is_it = |open: &Open| matches!(open.purpose, Purpose::List(listed) if listed == family);
        self.open.iter().find(|(_, open)| is_it(open)).map(|(id, _)| *id)
    }

    /// The engine's own requests that are open.
    pub(super) fn engine(&self) -> Vec<u64> {
        let engine = self.open.iter().filter(|(_, open)| !matches!(open.purpose, Purpose::Call(_)));
        engine.map(|(id, _)| *id).collect()
    }

    /// A request of the embedder's waits to be sent, or sent again.
    pub(super) fn requeue(&mut self, id: u64) {
        let at = self.call_queue.partition_point(|queued| *queued < id);
        if self.call_queue.get(at) != Some(&id) {
            self.call_queue.insert(at, id);
            self.queued_others = self.queued_others.saturating_add(u32::from(!self.is_tool_call(id)));
        }
    }

    fn dequeue(&mut self, at: usize) -> Option<u64> {
        let id = self.call_queue.remove(at)?;
        self.queued_others = self.queued_others.saturating_sub(u32::from(!self.is_tool_call(id)));
        Some(id)
    }

    /// Gives a request a new id on the wire. The embedder knows it by the first one.
    pub(super) fn rename(&mut self, id: u64) -> u64 {
        let Some(open) = self.remove(id) else { return id };
        let new = self.next_id();
        if let Purpose::Call(call) = &open.purpose {
            self.renamed.insert(call.handle, new);
        }
        self.add(new, open);
        new
    }

    /// How much time a request has left.
    pub(super) fn time_left(&self, id: u64, now: Time) -> Duration {
        self.open.get(&id).and_then(|open| open.deadline).map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    /// Gives the room back that a burst of requests took.
    pub(super) fn release(&mut self) {
        if self.open.is_empty() {
            // An empty tree keeps its last node, an empty queue its room.
            self.open = BTreeMap::new();
            (self.deadlines, self.call_deadlines) = (BTreeSet::new(), BTreeSet::new());
            (self.engine_queue, self.call_queue) = (VecDeque::new(), VecDeque::new());
            // What is carried over may be answered a second time, for as long as the connection lives.
            self.renamed = BTreeMap::new();
        }
    }

    /// Whether nothing waits for the server.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    fn due(&self) -> Option<(Time, u64)> {
        let calls = self.call_deadlines.first().filter(|_| self.paused.is_none());
        self.deadlines.first().into_iter().chain(calls).min().copied()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due().map(|(time, _)| time)
    }

    /// The requests whose time is over, in the order in which it ended.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        let calls = self.call_deadlines.iter().filter(|_| self.paused.is_none());
        let over = |deadline: &&(Time, u64)| deadline.0 <= now;
        let mut expired: Vec<_> = self.deadlines.iter().take_while(over).chain(calls.take_while(over)).collect();
        expired.sort();
        expired.into_iter().map(|(_, id)| *id).collect()
    }

    /// The embedder is asked, or no longer: meanwhile the time of its own requests stands still.
    pub(super) fn pause(&mut self, paused: bool, now: Time) {
        if paused {
            self.paused.get_or_insert(now);
        } else if let Some(since) = self.paused.take() {
            let stood = now.since(since);
            for (deadline, id) in core::mem::take(&mut self.call_deadlines) {
                // One that was made meanwhile has waited for less.
                self.call_deadlines.insert((deadline + stood, id));
                if let Some(open) = self.open.get_mut(&id) {
                    open.deadline = Some(deadline + stood);
                    if let Purpose::Call(call) = &mut open.purpose {
                        call.latest = call.latest + stood;
                    }
                }
            }
        }
    }

    /// The next request to write, where the bound and the state of the session allow one. Without `parallel`, a
    /// tool is not called while another is; what waits behind it goes first then.
    pub(super) fn next(&mut self, limit: usize, calls: bool, parallel: bool) -> Option<u64> {
        if usize::try_from(self.in_flight).is_ok_and(|in_flight| in_flight >= limit) {
            return None;
        }
        match self.engine_queue.pop_front() {
            Some(id) => Some(id),
            None if calls && (parallel || self.tools_in_flight == 0) => self.dequeue(0),
            None if calls && self.queued_others > 0 => {
                let at = self.call_queue.iter().position(|id| !self.is_tool_call(*id))?;
                self.dequeue(at)
            }
            None => None,
        }
    }

    fn is_tool_call(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|open| open.purpose.is_tool_call())
    }

    /// The request that this token belongs to made progress: it may take longer. Gives the request, and tells whether
    /// it is time to say so.
    pub(super) fn progress(&mut self, token: u64, now: Time, interval: Duration) -> Option<(RequestId, bool)> {
        self.open.get(&token).filter(|open| open.phase == State::Sent)?;
        let call = self.call_mut(token)?;
        if !call.request.progress {
            return None;
        }
        let due = call.told.is_none_or(|told| now.since(told) >= interval);
        if due {
            call.told = Some(now);
        }
        let (handle, deadline) = (call.handle, (now + call.timeout).min(call.latest));
        // Never sooner than without it.
        let before = self.open.get(&token).and_then(|open| open.deadline);
        self.set_deadline(token, before.max(Some(deadline)));
        Some((handle, due))
    }

    /// Finds the request that a response is for; `exchange` is the one in whose HTTP exchange it came.
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
        let waits =
            |open: &Open| open.phase == State::Sent && !matches!(open.purpose, Purpose::Listen { agreed: true });
        let mut sent = self.open.iter().filter(|(_, open)| waits(open));
        match (sent.next(), sent.next()) {
            (Some((id, _)), None) => Match::Only(*id),
            (Some(_), Some(_)) | (None, _) => Match::NoId,
        }
    }

    /// Ends a connection for the engine's own requests: they are forgotten.
    pub(super) fn end_connection(&mut self) {
        for id in self.engine() {
            self.remove(id);
        }
        self.abandoned.clear();
        self.carried = self.calls().into_iter().collect();
        self.first_id = self.last_id.saturating_add(1);
    }

    /// The embedder's requests that are open, oldest first.
    pub(super) fn calls(&self) -> Vec<u64> {
        let calls = self.open.iter().filter(|(_, open)| matches!(open.purpose, Purpose::Call(_)));
        calls.map(|(id, _)| *id).collect()
    }
}
