//! The open requests: their states, deadlines and queues, and which of them a response belongs to.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::core::Stage;
use super::request::{Call, CallTask, InputRounds, Purpose, Request};
use super::{RequestId, TimeBound};
use crate::Time;
use crate::collections::{LeastSet, Series};
use crate::jsonrpc::ResponseId;
use crate::machine::request::{self, State};
use crate::machine::table;
use crate::protocol::Family;

#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct OpenRequest {
    pub(super) purpose: Purpose,
    pub(super) phase: State,
    /// For a request of the embedder, on the call clock.
    deadline: Option<Time>,
    /// The server refused the last attempt, and did not process it. Of a request of the engine that is not certain after
    /// 503, and makes no difference.
    refused: bool,
}

/// Bytes of a progress that is kept until the request ends, for each request.
const HELD_PROGRESS: usize = 4096;

/// The open requests.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RequestTable {
    ids: Ids,
    open: Series<OpenRequest>,
    deadlines: Deadlines,
    queues: Queues,
    flight: Flight,
    /// Bytes of the parameters of the embedder's requests.
    request_bytes: usize,
    /// Bytes that are stored for the rounds of input.
    input_bytes: usize,
    /// The ids on the wire of requests that have another id for the embedder.
    renamed: BTreeMap<RequestId, u64>,
    /// `None` while no call runs as a task.
    tasks: Option<Box<Tasks>>,
    ended: Ended,
    /// The newest id when the server last sent a request on a pipe, which does not say what it is for.
    asked: u64,
}

/// Whether the request is encoded, and may have an exchange.
const fn is_on_wire(phase: State) -> bool {
    matches!(phase, State::Written | State::Sent)
}

impl OpenRequest {
    #[inline]
    fn count(&self) -> Count {
        Count::of(&self.purpose, self.phase)
    }

    fn due(&self) -> Option<Due> {
        let paused_total = self.purpose.call().map(|call| call.paused_total);
        self.deadline.map(|at| Due { at, paused_total })
    }
}

impl RequestTable {
    /// An empty table. With `tracks`, [`Self::next_ended`] returns the requests that do not wait any more.
    pub(super) fn new(tracks: bool) -> Self {
        Self { ended: Ended { tracked: tracks, ..Ended::default() }, ..Self::default() }
    }

    /// Opens an engine request.
    pub(super) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> u64 {
        let id = self.ids.next();
        self.add(id, OpenRequest { purpose, phase: State::Queued, deadline, refused: false });
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
        let id = self.ids.next();
        let handle = RequestId(id);
        let now = self.call_time(now);
        let deadline = Some(now + timeout);
        let call = Call::new(handle, request, timeout, now + max_timeout, self.deadlines.paused_total());
        let purpose = Purpose::Call(call);
        self.add(id, OpenRequest { purpose, phase: State::Queued, deadline, refused: false });
        handle
    }

    fn add(&mut self, id: u64, open: OpenRequest) {
        self.deadlines.add(id, open.due());
        self.flight.add(id, open.count());
        if open.phase == State::Queued {
            self.queues.add(id, &open.purpose);
        }
        if let Purpose::Call(call) = &open.purpose {
            let kept = call.input.as_ref().map_or(0, |input| input.bytes);
            self.input_bytes = self.input_bytes.saturating_add(kept);
            self.request_bytes = self.request_bytes.saturating_add(call.request.bytes());
            Tasks::add(&mut self.tasks, id, call);
        }
        self.open.insert(id, open);
    }

    /// Number of open requests.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn queued_calls(&self) -> usize {
        self.queues.len_calls()
    }

    pub(super) fn get(&self, id: u64) -> Option<&OpenRequest> {
        self.open.get(id)
    }

    /// The id on the wire of an open request of the embedder.
    pub(super) fn wire_id(&self, handle: RequestId) -> Option<u64> {
        let id = self.renamed.get(&handle).copied().unwrap_or(handle.0);
        let is_it = |open: &OpenRequest| matches!(&open.purpose, Purpose::Call(call) if call.handle == handle);
        self.open.get(id).is_some_and(is_it).then_some(id)
    }

    pub(super) fn call(&self, id: u64) -> Option<&Call> {
        self.open.get(id)?.purpose.call()
    }

    pub(super) fn call_mut(&mut self, id: u64) -> Option<&mut Call> {
        self.open.get_mut(id)?.purpose.call_mut()
    }

    /// Changes an open request of the embedder, but none of what is indexed.
    pub(super) fn update<R>(&mut self, id: u64, change: impl FnOnce(&mut Call) -> R) -> Option<R> {
        self.call_mut(id).map(change)
    }

    /// The method of an open request.
    pub(super) fn method(&self, id: u64) -> Option<Cow<'static, str>> {
        Some(self.open.get(id)?.purpose.method())
    }

    /// Sets or removes the round of input of a call; returns the one before.
    pub(super) fn set_input(&mut self, id: u64, input: Option<Box<InputRounds>>) -> Option<Box<InputRounds>> {
        let bytes = input.as_ref().map_or(0, |input| input.bytes);
        let before = core::mem::replace(&mut self.call_mut(id)?.input, input);
        let freed = before.as_ref().map_or(0, |before| before.bytes);
        self.input_bytes = self.input_bytes.saturating_sub(freed).saturating_add(bytes);
        before
    }

    /// Changes the task that a call runs as.
    pub(super) fn change_task<R>(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Option<Box<CallTask>>) -> R,
    ) -> Option<R> {
        let open = self.open.get_mut(id)?;
        let before = open.count();
        let call = open.purpose.call_mut()?;
        Tasks::remove(&mut self.tasks, id, call);
        let result = change(&mut call.task);
        Tasks::add(&mut self.tasks, id, call);
        self.flight.remove(id, before);
        self.flight.add(id, open.count());
        Some(result)
    }

    /// The task that a call runs as.
    #[inline]
    pub(super) fn task(&self, id: u64) -> Option<&CallTask> {
        self.tasks.as_ref()?;
        self.call(id)?.task.as_deref()
    }

    /// When a task is polled next.
    pub(super) fn next_poll(&self) -> Option<Time> {
        self.tasks.as_ref()?.polls.first().map(|(at, _)| *at)
    }

    /// The calls whose tasks are to be polled now.
    pub(super) fn due_polls(&self, now: Time) -> Vec<u64> {
        let polls = self.tasks.iter().flat_map(|tasks| tasks.polls.iter());
        polls.take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// The call that runs as the task with this id.
    pub(super) fn with_task(&self, task: &str) -> Option<u64> {
        let handle = self.tasks.as_ref()?.ids.get(task)?;
        self.wire_id(*handle)
    }

    /// Whether a call runs as a task, and no request about the task is on its way.
    pub(super) fn is_task_quiet(&self, id: u64) -> bool {
        // While the call waits for input, the next poll has no time if one is on its way.
        let is_asked = self.task(id).is_some_and(|task| task.poll_at.is_some());
        let is_quiet = |phase| phase == State::Running || phase == State::Waiting && is_asked;
        self.open.get(id).is_some_and(|open| is_quiet(open.phase))
    }

    /// The ids of the tasks that calls run as.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().flat_map(|tasks| tasks.ids.keys().map(|id| &**id))
    }

    /// Bytes of the parameters of the embedder's requests.
    pub(super) const fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Bytes that are stored for the rounds of input.
    pub(super) const fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// The server acknowledged the listen stream of this request.
    pub(super) fn mark_acknowledged(&mut self, id: u64) {
        self.set_deadline(id, None);
        self.change(id, |open| {
            if let Purpose::Listen { agreed, .. } = &mut open.purpose {
                *agreed = true;
            }
        });
    }

    /// Whether a request for the log level is queued.
    pub(super) fn is_level_queued(&self) -> bool {
        let is_it = |id: u64| self.open.get(id).is_some_and(|open| matches!(open.purpose, Purpose::SetLevel));
        self.queues.engine().any(is_it)
    }

    /// Whether a command about a request is refused.
    pub(super) fn refuses(&self, id: u64, command: request::Input) -> bool {
        self.open.get(id).is_none_or(|open| table::refuses(request::step::row, request::step, open.phase, command))
    }

    /// The embedder polled a request.
    pub(super) fn mark_sent(&mut self, id: u64) {
        self.change(id, |open| {
            if let Some(Call { attempts, task: None, .. }) = open.purpose.call_mut() {
                *attempts = attempts.saturating_add(1);
            }
            open.phase = request::step(open.phase, request::Input::Hand).next;
        });
    }

    /// A request is sent on to where it was redirected. That is the same attempt.
    pub(super) fn redirect(&mut self, id: u64) {
        self.change(id, |open| {
            if let Some(Call { attempts, task: None, .. }) = open.purpose.call_mut() {
                *attempts = attempts.saturating_sub(1);
            }
            open.phase = request::step(open.phase, request::Input::Restarted).next;
        });
    }

    /// Steps a request that is encoded or polled; these inputs have no effects.
    pub(super) fn step(&mut self, id: u64, input: request::Input) {
        self.change(id, |open| open.phase = request::step(open.phase, input).next);
    }

    /// Steps a call. Returns the effects, which have to be applied; one of them removes a call that ends.
    pub(super) fn step_call(&mut self, id: u64, input: request::Input) -> &'static [request::Effect] {
        let row = self.open.get(id).map(|open| request::step(open.phase, input));
        if let Some(next) = row.map(|row| row.next).filter(|next| *next != State::Ended) {
            self.change(id, |open| open.phase = next);
        }
        row.map_or(&[], |row| row.effects)
    }

    /// Changes the phase of a request, or what it counts as; not whether it runs as a task.
    fn change<R>(&mut self, id: u64, change: impl FnOnce(&mut OpenRequest) -> R) -> Option<R> {
        let open = self.open.get_mut(id)?;
        let (before, count) = (open.phase, open.count());
        let result = change(open);
        self.flight.remove(id, count);
        self.flight.add(id, count.in_phase(&open.purpose, open.phase));
        if is_on_wire(before) && !is_on_wire(open.phase) {
            self.ended.add(id);
        }
        Some(result)
    }

    pub(super) fn deadline(&self, id: u64) -> Option<Time> {
        self.open.get(id)?.deadline
    }

    pub(super) fn set_deadline(&mut self, id: u64, deadline: Option<Time>) {
        let changed = self.open.get_mut(id).map(|open| {
            let before = open.due();
            open.deadline = deadline;
            (before, open.due())
        });
        let (before, after) = changed.unwrap_or_default();
        self.deadlines.remove(id, before);
        self.deadlines.add(id, after);
    }

    /// Gives a call this much time from now.
    pub(super) fn set_time_left(&mut self, id: u64, left: Duration, now: Time) {
        self.set_deadline(id, Some(self.call_time(now) + left));
    }

    /// A call that waited since this time on the call clock goes on, with the time that it had left: the wait does not count.
    pub(super) fn go_on(&mut self, id: u64, left: Duration, since: Time, now: Time) {
        let waited = self.call_time(now).since(since);
        self.set_time_left(id, left, now);
        self.update(id, |call| call.latest = call.latest + waited);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<OpenRequest> {
        let open = self.open.remove(id)?;
        if is_on_wire(open.phase) {
            self.ended.add(id);
        }
        self.deadlines.remove(id, open.due());
        if open.phase == State::Queued {
            self.queues.remove_call(id, open.purpose.is_tool_call());
        }
        self.flight.remove(id, open.count());
        if let Purpose::Call(call) = &open.purpose {
            let kept = call.input.as_ref().map_or(0, |input| input.bytes);
            self.input_bytes = self.input_bytes.saturating_sub(kept);
            self.request_bytes = self.request_bytes.saturating_sub(call.request.bytes());
            self.renamed.remove(&call.handle);
            Tasks::remove(&mut self.tasks, id, call);
        } else {
            self.queues.remove_engine(id);
        }
        Some(open)
    }

    /// Remembers this id, so that its response counts as late.
    pub(super) fn expect_late(&mut self, id: u64) {
        self.ids.abandon(id);
    }

    /// The open list request of a family.
    pub(super) fn list(&self, family: Family) -> Option<u64> {
        let is_it =
            |open: &OpenRequest| matches!(open.purpose, Purpose::List { family: listed, .. } if listed == family);
        self.open.iter().find(|(_, open)| is_it(open)).map(|(id, _)| id)
    }

    /// The open keepalive request.
    pub(super) fn keepalive(&self) -> Option<u64> {
        self.open.iter().find(|(_, open)| matches!(open.purpose, Purpose::Keepalive(_))).map(|(id, _)| id)
    }

    /// The open engine requests.
    pub(super) fn engine(&self) -> Vec<u64> {
        let engine = self.open.iter().filter(|(_, open)| !matches!(open.purpose, Purpose::Call(_)));
        engine.map(|(id, _)| id).collect()
    }

    /// The engine requests that were not polled yet, and have a deadline before this one. Those without a deadline have a
    /// timer of their own.
    pub(super) fn unsent_before(&self, deadline: Time) -> Vec<u64> {
        let is_unsent = |open: &OpenRequest| matches!(open.phase, State::Queued | State::Written);
        let is_engine = |open: &OpenRequest| !matches!(open.purpose, Purpose::Call(_));
        let is_before = |open: &OpenRequest| open.deadline.is_some_and(|own| own < deadline);
        let unsent = self.open.iter().filter(|(_, open)| is_unsent(open) && is_engine(open) && is_before(open));
        unsent.map(|(id, _)| id).collect()
    }

    /// Queues a request of the embedder again.
    pub(super) fn requeue(&mut self, id: u64) -> Option<()> {
        self.queues.add(id, &self.open.get(id)?.purpose);
        Some(())
    }

    /// Gives a request a new id on the wire. The embedder keeps the first one. It is queued with it, if that is its phase.
    pub(super) fn rename(&mut self, id: u64) -> Option<u64> {
        let mut open = OpenRequest { refused: false, ..self.remove(id)? };
        let new = self.ids.next();
        if let Some(call) = open.purpose.call_mut() {
            call.may_have_run |= core::mem::take(&mut call.has_begun);
            self.renamed.insert(call.handle, new);
        }
        self.add(new, open);
        Some(new)
    }

    /// The time that a call has left.
    pub(super) fn time_left(&self, id: u64, now: Time) -> Duration {
        self.deadline(id).map_or(Duration::ZERO, |deadline| deadline.since(self.call_time(now)))
    }

    /// Releases the memory of a burst of requests.
    pub(super) fn release(&mut self) {
        if self.open.is_empty() {
            // Empty trees and queues keep memory.
            self.open = Series::default();
            self.queues = Queues::default();
            self.deadlines.release();
            // A carried request may be answered twice on the same connection.
            self.renamed = BTreeMap::new();
        }
    }

    /// Whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.flight.len() == 0
    }

    /// Whether no request is open, except that of an acknowledged stream of changes.
    pub(super) fn is_unused(&self) -> bool {
        let is_stream = |open: &OpenRequest| matches!(&open.purpose, Purpose::Listen { agreed: true, .. });
        self.open.len() <= 1 && self.open.iter().all(|(_, open)| is_stream(open))
    }

    /// The time on the call clock.
    pub(super) fn call_time(&self, now: Time) -> Time {
        self.deadlines.call_time(now)
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// The requests whose deadline passed, in the order of the deadlines.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        self.deadlines.expired(now)
    }

    /// A server request is reported to the embedder: pauses the call clock, for each call by at most `most` in total.
    pub(super) fn pause(&mut self, most: Duration, now: Time) {
        let open = &self.open;
        self.deadlines.pause(most, now, |known| open.after(known).filter_map(|(id, open)| Some((id, open.due()?))));
    }

    /// No server request is open any more: the call clock continues.
    pub(super) fn resume(&mut self, now: Time) {
        self.deadlines.resume(now, self.ids.last());
    }

    /// Takes the id of a request that does not wait for a response any more.
    pub(super) fn next_ended(&mut self) -> Option<u64> {
        self.ended.take()
    }

    /// The request with this token, if it waits for its response and asked for progress.
    #[inline]
    pub(super) fn with_progress(&self, token: u64) -> Option<u64> {
        let id = match self.tasks.as_ref().and_then(|tasks| tasks.tokens.get(&token)) {
            Some(handle) => self.wire_id(*handle)?,
            None => Some(token).filter(|id| self.is_sent(*id))?,
        };
        self.call(id).filter(|call| call.request.progress).map(|_| id)
    }

    /// A request made progress: extends its deadline. Returns the request, if the progress is to be reported; else it is kept until
    /// another one comes or the request ends.
    #[inline]
    pub(super) fn progress(&mut self, id: u64, now: Time, interval: Duration, json: &str) -> Option<RequestId> {
        let call_time = self.call_time(now);
        let open = self.open.get_mut(id)?;
        let before = open.deadline;
        let call = open.purpose.call_mut()?;
        call.has_begun = true;
        let due = call.progress.reported_at().is_none_or(|at| now.since(at) >= interval);
        call.progress.take(due.then_some(now), if json.len() <= HELD_PROGRESS { json } else { "" });
        let (handle, deadline) = (call.handle, (call_time + call.timeout).min(call.latest));
        // The deadline never moves to an earlier time.
        if before < Some(deadline) {
            self.set_deadline(id, Some(deadline));
        }
        due.then_some(handle)
    }

    /// The server sent a request that any request in flight may have led to.
    pub(super) const fn mark_asked(&mut self) {
        self.asked = self.ids.last();
    }

    /// Whether the server may have begun to run the last attempt of the call: it reported progress, or sent a request after
    /// the attempt was made.
    pub(super) fn may_have_begun(&self, id: u64) -> bool {
        id <= self.asked || self.call(id).is_some_and(|call| call.has_begun)
    }

    /// The server refused the last attempt and did not process it, or was not reached by it.
    pub(super) fn note_refused(&mut self, id: u64) {
        if let Some(open) = self.open.get_mut(id) {
            open.refused = true;
        }
    }

    /// Whether the last attempt does not run, because the server refused it, and there is no sign of it.
    pub(super) fn does_not_run(&self, id: u64) -> bool {
        self.is_refused(id) && !self.may_have_begun(id)
    }

    /// Whether the server refused the last attempt, and did not process it.
    pub(super) fn is_refused(&self, id: u64) -> bool {
        self.open.get(id).is_some_and(|open| open.refused)
    }

    /// Which bound on its time a request with a passed deadline has reached.
    pub(super) fn bound_of(&self, id: u64) -> TimeBound {
        // Progress and a task extend a request up to its maximum time.
        let is_extended = |call: &Call| call.progress.reported_at().is_some() || call.task.is_some();
        let is_total = |open: &OpenRequest| {
            open.purpose.call().is_some_and(|call| is_extended(call) && open.deadline == Some(call.latest))
        };
        if self.open.get(id).is_some_and(is_total) { TimeBound::Total } else { TimeBound::Timeout }
    }

    /// What the id of a response names, and the request, if there is one. `exchange` is the request in whose HTTP exchange
    /// it arrived.
    pub(super) fn classify_response(&self, id: ResponseId, exchange: Option<u64>) -> (request::Id, u64) {
        let (id, waiting) = match id {
            ResponseId::Exact(id) => (id, request::Id::Waiting),
            ResponseId::Loose(id) => (id, request::Id::WaitingLoose),
            ResponseId::Absent | ResponseId::Foreign => return self.classify_foreign(exchange),
        };
        if self.is_sent(id) {
            return (waiting, id);
        }
        if self.ids.is_abandoned(id) {
            return (request::Id::Abandoned, id);
        }
        if self.ids.is_current(id) { (request::Id::Ended, id) } else { self.classify_foreign(exchange) }
    }

    fn classify_foreign(&self, exchange: Option<u64>) -> (request::Id, u64) {
        match (exchange.filter(|id| self.is_sent(*id)), self.flight.only_sent()) {
            (Some(id), _) => (request::Id::ForeignInExchange, id),
            (None, Some(id)) => (request::Id::ForeignOneWaits, id),
            (None, None) => (request::Id::Foreign, 0),
        }
    }

    /// The late response to an abandoned request came.
    pub(super) fn forget_abandoned(&mut self, id: u64) {
        self.ids.forget(id);
    }

    /// Whether no request was made after this one.
    pub(super) const fn is_newest(&self, id: u64) -> bool {
        self.ids.last() == id
    }

    /// Whether a request was polled and waits for its response.
    pub(super) fn is_sent(&self, id: u64) -> bool {
        self.open.get(id).is_some_and(|open| open.phase == State::Sent)
    }

    /// The connection ended, and with it the engine's own requests; the others go to the next one.
    pub(super) fn end_connection(&mut self) {
        let carried = self.calls();
        self.ids.end_connection(carried);
    }

    /// The open requests of the embedder, oldest first.
    pub(super) fn calls(&self) -> Vec<u64> {
        let calls = self.open.iter().filter(|(_, open)| matches!(open.purpose, Purpose::Call(_)));
        calls.map(|(id, _)| id).collect()
    }
}

impl RequestTable {
    /// The next request to encode, if one may be sent. `limit`: of requests in flight. `held`: the binding holds tool calls
    /// back. Without `parallel`, one tool is called at a time.
    #[inline]
    pub(super) fn next(&mut self, limit: usize, stage: Stage, held: bool, parallel: bool) -> Option<u64> {
        // `initialize` does not wait for the response to `server/discover`.
        let limit = if stage == Stage::Handshake { limit.saturating_add(usize::from(limit > 0)) } else { limit };
        let is_full = || usize::try_from(self.flight.len()).is_ok_and(|in_flight| in_flight >= limit);
        if self.queues.is_empty() || is_full() {
            return None;
        }
        match stage {
            Stage::Down | Stage::Opening | Stage::Unreached | Stage::Closing | Stage::Closed => None,
            Stage::Handshake | Stage::Discovery => self.queues.next_engine(),
            Stage::Ready => {
                let may_call_tool = !held && (parallel || !self.flight.has_tools());
                self.queues.next_engine().or_else(|| self.queues.next_call(may_call_tool))
            }
        }
    }
}

#[cfg(feature = "snapshot")]
impl RequestTable {
    /// Checks that the indices and counts are those of the open requests, and the limits.
    pub(super) fn check(&self, limits: &super::Limits) -> Result<(), crate::snapshot::SnapshotError> {
        use crate::snapshot::{invalid, within};

        let mut expected = Self { deadlines: self.deadlines.emptied(), ..Self::default() };
        for (id, open) in self.open.iter() {
            expected.add(id, open.clone());
        }
        let same = (&self.deadlines, &self.queues, &self.flight, &self.tasks)
            == (&expected.deadlines, &expected.queues, &expected.flight, &expected.tasks)
            && (self.input_bytes, self.request_bytes) == (expected.input_bytes, expected.request_bytes);
        let renamed = self.renamed.iter().all(|(handle, id)| self.call(*id).is_none_or(|call| call.handle == *handle));
        let known = self.open.iter().next_back().is_none_or(|(id, _)| id <= self.ids.last()) && self.ids.is_bounded();
        if !(same && renamed && known) {
            return Err(invalid("its requests contradict each other"));
        }
        let calls = self.open.iter().filter(|(_, open)| open.purpose.call().is_some()).count();
        within("queued", calls, limits.queued.saturating_add(limits.in_flight))
    }
}

/// How many ids of abandoned requests are remembered, to recognize their late responses.
const ABANDONED: usize = 1024;

/// The ids on the wire that were used.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Ids {
    last: u64,
    /// The first id of this connection, except for carried ones.
    first: u64,
    /// The ids of unsent requests of an earlier connection, in order.
    carried: Box<[u64]>,
    /// The ids of requests that are over, and whose responses may still come.
    /// Sorted.
    abandoned: Vec<u64>,
}

impl Ids {
    #[inline]
    fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Whether the ids that are remembered are bounded, and used ones.
    #[cfg(feature = "snapshot")]
    fn is_bounded(&self) -> bool {
        let newest = self.carried.last().max(self.abandoned.last());
        self.abandoned.len() <= ABANDONED && self.abandoned.is_sorted() && newest.is_none_or(|id| *id <= self.last)
    }

    #[inline]
    const fn last(&self) -> u64 {
        self.last
    }

    /// Whether it is an id of this connection.
    #[inline]
    fn is_current(&self, id: u64) -> bool {
        id >= self.first.max(1) && id <= self.last || self.carried.binary_search(&id).is_ok()
    }

    #[inline]
    fn is_abandoned(&self, id: u64) -> bool {
        self.abandoned.binary_search(&id).is_ok()
    }

    /// The request is over, and its response may still come.
    #[inline]
    fn abandon(&mut self, id: u64) {
        let place = self.abandoned.partition_point(|known| *known < id);
        self.abandoned.insert(place, id);
        if self.abandoned.len() > ABANDONED {
            self.abandoned.remove(0);
        }
    }

    /// The late response came.
    #[inline]
    fn forget(&mut self, id: u64) {
        self.abandoned.retain(|known| *known != id);
        if self.abandoned.is_empty() {
            self.abandoned = Vec::new();
        }
    }

    /// The connection ended; these requests go to the next one.
    #[inline]
    fn end_connection(&mut self, carried: Vec<u64>) {
        self.abandoned = Vec::new();
        self.carried = carried.into();
        self.first = self.last.saturating_add(1);
    }
}

/// The requests that wait to be encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Queues {
    engine: VecDeque<u64>,
    /// The queues of the embedder's requests: tool calls, and all others.
    tools: LeastSet<u64>,
    others: LeastSet<u64>,
}

impl Queues {
    /// Queues a request: for the first time, if it is one of the engine, which is the newest; or again.
    #[inline]
    fn add(&mut self, id: u64, purpose: &Purpose) {
        if purpose.call().is_some() {
            self.calls(purpose.is_tool_call()).insert(id);
        } else {
            self.engine.push_back(id);
        }
    }

    #[inline]
    fn remove_engine(&mut self, id: u64) {
        if let Ok(at) = self.engine.binary_search(&id) {
            self.engine.remove(at);
        }
    }

    #[inline]
    fn engine(&self) -> impl Iterator<Item = u64> {
        self.engine.iter().copied()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.engine.is_empty() && self.tools.is_empty() && self.others.is_empty()
    }

    fn calls(&mut self, tool: bool) -> &mut LeastSet<u64> {
        if tool { &mut self.tools } else { &mut self.others }
    }

    #[inline]
    fn remove_call(&mut self, id: u64, tool: bool) {
        self.calls(tool).remove(&id);
    }

    #[inline]
    fn len_calls(&self) -> usize {
        self.tools.len().saturating_add(self.others.len())
    }

    /// Removes the oldest request of the engine.
    #[inline]
    fn next_engine(&mut self) -> Option<u64> {
        self.engine.pop_front()
    }

    /// Removes the oldest request of the embedder, tool calls only if they may be sent.
    #[inline]
    fn next_call(&mut self, may_call_tool: bool) -> Option<u64> {
        let other = self.others.first().copied();
        let tool = self.tools.first().copied().filter(|_| may_call_tool);
        tool.or(other)?;
        let is_tool = tool.is_some_and(|tool| other.is_none_or(|other| tool < other));
        self.calls(is_tool).pop_first()
    }
}

/// How the requests in flight are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Flight {
    requests: u32,
    tools: u32,
    /// Number of requests that wait for a response, and the XOR of their ids, which is the id itself if there is one.
    waiting: u32,
    waiting_ids: u64,
}

/// What a request counts as.
#[derive(Clone, Copy)]
struct Count {
    tool: bool,
    /// It runs as a task, in whatever phase.
    runs: bool,
    /// It is in flight: the server is expected to respond soon.
    in_flight: bool,
    /// A response would end it.
    waits: bool,
}

impl Count {
    #[inline]
    const fn of(purpose: &Purpose, phase: State) -> Self {
        let runs = matches!(purpose, Purpose::Call(call) if call.task.is_some());
        Self { tool: purpose.is_tool_call(), runs, in_flight: false, waits: false }.in_phase(purpose, phase)
    }

    /// What the request counts as in another phase.
    #[inline]
    const fn in_phase(self, purpose: &Purpose, phase: State) -> Self {
        let (in_flight, waits) =
            if let Purpose::Listen { agreed, .. } = purpose { (false, !*agreed) } else { (true, true) };
        let (written, sent) = (matches!(phase, State::Written), matches!(phase, State::Sent));
        Self { in_flight: in_flight && (written || sent), waits: waits && sent, ..self }
    }
}

impl Flight {
    #[inline]
    fn add(&mut self, id: u64, count: Count) {
        self.requests = self.requests.saturating_add(u32::from(count.in_flight));
        self.tools = self.tools.saturating_add(u32::from(count.in_flight && count.tool || count.runs));
        if count.waits {
            self.waiting = self.waiting.saturating_add(1);
            self.waiting_ids ^= id;
        }
    }

    #[inline]
    fn remove(&mut self, id: u64, count: Count) {
        self.requests = self.requests.saturating_sub(u32::from(count.in_flight));
        self.tools = self.tools.saturating_sub(u32::from(count.in_flight && count.tool || count.runs));
        if count.waits {
            self.waiting = self.waiting.saturating_sub(1);
            self.waiting_ids ^= id;
        }
    }

    /// Number of requests in flight.
    #[inline]
    const fn len(&self) -> u32 {
        self.requests
    }

    #[inline]
    const fn has_tools(&self) -> bool {
        self.tools > 0
    }

    /// The request that waits for a response, if there is exactly one.
    #[inline]
    const fn only_sent(&self) -> Option<u64> {
        if self.waiting == 1 { Some(self.waiting_ids) } else { None }
    }
}

/// When a request times out.
#[derive(Clone, Copy)]
struct Due {
    /// For a request of the embedder, on the call clock.
    at: Time,
    /// For a request of the embedder: for how long the call clock had been paused when it was made.
    paused_total: Option<Duration>,
}

impl Due {
    /// When a call ends even if its clock is paused from now on.
    fn hard_deadline(self, max_pause: Duration) -> Option<Time> {
        self.paused_total.map(|paused_total| self.at + paused_total.saturating_add(max_pause))
    }
}

/// The call clock. It is paused while server requests are open at the embedder. In total, each call profits from this
/// at most as long as one server request may be open; then it ends even if the clock is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Clock {
    /// Since when it is paused, if it is.
    paused: Option<Time>,
    /// For how long it was paused before.
    paused_total: Duration,
    /// Maximum pause for one call.
    max_pause: Duration,
    /// When each call ends even if the clock is paused.
    hard_deadlines: LeastSet<(Time, u64)>,
    /// Open calls up to this id are in `hard_deadlines` if they have a deadline.
    indexed_up_to: u64,
}

/// The deadlines of the open requests. Those of the embedder's requests run on the call clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Deadlines {
    own: LeastSet<(Time, u64)>,
    calls: LeastSet<(Time, u64)>,
    /// The call clock; `None` until the first server request of this connection is reported.
    clock: Option<Box<Clock>>,
}

impl Deadlines {
    /// No deadlines, on the same call clock.
    #[cfg(feature = "snapshot")]
    fn emptied(&self) -> Self {
        let clock = self.clock.clone().map(|clock| Box::new(Clock { hard_deadlines: LeastSet::default(), ..*clock }));
        Self { clock, ..Self::default() }
    }

    fn of(&mut self, due: Due) -> &mut LeastSet<(Time, u64)> {
        if due.paused_total.is_some() { &mut self.calls } else { &mut self.own }
    }

    #[inline]
    fn add(&mut self, id: u64, due: Option<Due>) {
        let Some(due) = due else { return };
        self.of(due).insert((due.at, id));
        if let Some(clock) = &mut self.clock
            && id <= clock.indexed_up_to
            && let Some(hard) = due.hard_deadline(clock.max_pause)
        {
            clock.hard_deadlines.insert((hard, id));
        }
    }

    #[inline]
    fn remove(&mut self, id: u64, due: Option<Due>) {
        let Some(due) = due else { return };
        self.of(due).remove(&(due.at, id));
        if let Some(clock) = &mut self.clock
            && id <= clock.indexed_up_to
            && let Some(hard) = due.hard_deadline(clock.max_pause)
        {
            clock.hard_deadlines.remove(&(hard, id));
        }
    }

    /// For how long the call clock was paused.
    #[inline]
    fn paused_total(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.paused_total)
    }

    /// The time on the call clock.
    #[inline]
    fn call_time(&self, now: Time) -> Time {
        let Some(clock) = &self.clock else { return now };
        let now = clock.paused.unwrap_or(now);
        Time::ZERO + now.since(Time::ZERO).saturating_sub(clock.paused_total)
    }

    #[inline]
    fn next(&self) -> Option<Time> {
        let first = |deadlines: &LeastSet<(Time, u64)>| deadlines.first().map(|(at, _)| *at);
        let call = first(&self.calls);
        let (call, hard) = match self.clock.as_deref() {
            None => (call, None),
            Some(clock) => {
                let call = call.map(|at| at + clock.paused_total);
                (call.filter(|at| clock.paused.is_none_or(|since| *at <= since)), first(&clock.hard_deadlines))
            }
        };
        Time::earliest([first(&self.own), call, hard])
    }

    /// The requests whose deadline passed, in the order of the deadlines.
    fn expired(&self, now: Time) -> Vec<u64> {
        let (mut paused_total, mut clock_time, mut hard) = (Duration::ZERO, now, None);
        if let Some(clock) = self.clock.as_deref() {
            (paused_total, clock_time, hard) =
                (clock.paused_total, clock.paused.unwrap_or(now), Some(clock.hard_deadlines.iter()));
        }
        let own = self.own.iter().copied().take_while(|(at, _)| *at <= now);
        let calls = self.calls.iter().map(|(at, id)| (*at + paused_total, *id));
        let calls = calls.take_while(|(at, _)| *at <= clock_time);
        let hard = hard.into_iter().flatten().copied().take_while(|(at, _)| *at <= now);
        let mut expired: Vec<_> = own.chain(calls).chain(hard).collect();
        expired.sort_unstable();
        // A call may be listed for both of its deadlines; the second time it is not open any more.
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// Pauses the call clock, for each call by at most `max_pause` in total. `open` returns the requests with a greater id.
    fn pause<I: Iterator<Item = (u64, Due)>>(&mut self, max_pause: Duration, now: Time, open: impl FnOnce(u64) -> I) {
        let clock = self.clock.get_or_insert_with(|| {
            Box::new(Clock {
                paused: None,
                paused_total: Duration::ZERO,
                max_pause,
                hard_deadlines: LeastSet::default(),
                indexed_up_to: 0,
            })
        });
        if clock.paused.is_some() {
            return;
        }
        clock.paused = Some(now);
        // Each call is visited once, however many server requests follow.
        for (id, due) in open(clock.indexed_up_to) {
            if let Some(hard) = due.hard_deadline(clock.max_pause) {
                clock.hard_deadlines.insert((hard, id));
            }
        }
        // Calls that are opened later are added when they are opened.
        clock.indexed_up_to = u64::MAX;
    }

    /// The call clock continues.
    fn resume(&mut self, now: Time, last_id: u64) {
        if let Some(clock) = &mut self.clock
            && let Some(since) = clock.paused.take()
        {
            clock.paused_total = clock.paused_total.saturating_add(now.since(since));
            clock.indexed_up_to = last_id;
        }
    }

    /// Releases the memory of a burst of requests. There is no request.
    fn release(&mut self) {
        let clock = self.clock.take().filter(|clock| clock.paused.is_some());
        *self = Self { clock, ..Self::default() };
    }
}

/// The indices of the calls that run as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Tasks {
    polls: LeastSet<(Time, u64)>,
    tokens: BTreeMap<u64, RequestId>,
    ids: BTreeMap<Box<str>, RequestId>,
}

impl Tasks {
    #[inline]
    fn add(tasks: &mut Option<Box<Self>>, id: u64, call: &Call) {
        let Some(task) = &call.task else { return };
        let tasks = tasks.get_or_insert_default();
        if let Some(at) = task.poll_at {
            tasks.polls.insert((at, id));
        }
        if call.request.progress {
            tasks.tokens.insert(task.token, call.handle);
        }
        tasks.ids.insert(task.id.clone(), call.handle);
    }

    #[inline]
    fn remove(tasks: &mut Option<Box<Self>>, id: u64, call: &Call) {
        let (Some(task), Some(known)) = (&call.task, tasks.as_mut()) else { return };
        if let Some(at) = task.poll_at {
            known.polls.remove(&(at, id));
        }
        known.tokens.remove(&task.token);
        known.ids.remove(&task.id);
        if known.ids.is_empty() {
            *tasks = None;
        }
    }
}

/// The ids on the wire that do not wait for a response any more, until an HTTP binding takes them. There is rarely more
/// than one, which needs no allocation.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Ended {
    /// There is a binding that takes them.
    tracked: bool,
    next: Option<u64>,
    more: Vec<u64>,
}

impl Ended {
    /// A request does not wait for a response any more.
    #[inline]
    fn add(&mut self, id: u64) {
        if self.tracked && self.next.is_some() {
            self.more.push(id);
        } else if self.tracked {
            self.next = Some(id);
        }
    }

    #[inline]
    fn take(&mut self) -> Option<u64> {
        let next = self.next.take().or_else(|| self.more.pop());
        if self.more.is_empty() {
            // The memory of a burst is released.
            self.more = Vec::new();
        }
        next
    }
}
