//! The open requests: their states, deadlines and queues, and which of them a response belongs to.

mod call_task;
#[cfg(feature = "snapshot")]
mod check;
mod deadlines;
mod flight;
mod ids;
mod purpose;
mod queues;
mod settled;
mod tasks;
mod turn;

pub(super) use self::call_task::CallTask;
pub(super) use self::purpose::{Block, Blocked, Call, InputRounds, Purpose};

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use self::deadlines::{Deadlines, Due};
use self::flight::{Count, Flight};
use self::ids::Ids;
use self::queues::Queues;
use self::settled::Settled;
use self::tasks::Tasks;
use super::requests::Request;
use super::{RequestId, TimeBound};
use crate::Time;
use crate::jsonrpc::ResponseId;
use crate::machine::request::{self, State};
use crate::machine::response;
use crate::protocol::Family;

#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct OpenRequest {
    pub(super) purpose: Purpose,
    pub(super) phase: State,
    /// For a request of the embedder, on the call clock.
    deadline: Option<Time>,
}

/// The open requests.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RequestTable {
    ids: Ids,
    open: BTreeMap<u64, OpenRequest>,
    deadlines: Deadlines,
    queues: Queues,
    flight: Flight,
    /// Bytes that are stored for the rounds of input.
    input_bytes: usize,
    /// The ids on the wire of requests that have another id for the embedder.
    renamed: BTreeMap<RequestId, u64>,
    tasks: Tasks,
    settled: Settled,
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
        let paused_total = if let Purpose::Call(call) = &self.purpose { Some(call.paused_total) } else { None };
        self.deadline.map(|at| Due { at, paused_total })
    }
}

impl RequestTable {
    /// Opens an engine request.
    pub(super) fn insert(&mut self, purpose: Purpose, deadline: Option<Time>) -> u64 {
        let id = self.ids.next();
        self.queues.add_engine(id);
        self.add(id, OpenRequest { purpose, phase: State::Queued, deadline });
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
        self.queues.add_call(id, purpose.is_tool_call());
        self.add(id, OpenRequest { purpose, phase: State::Queued, deadline });
        handle
    }

    fn add(&mut self, id: u64, open: OpenRequest) {
        self.deadlines.add(id, open.due());
        self.flight.add(id, open.count());
        if let Purpose::Call(call) = &open.purpose {
            let kept = call.input.as_ref().map_or(0, |input| input.bytes);
            self.input_bytes = self.input_bytes.saturating_add(kept);
            self.tasks.add(id, call);
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
        self.open.get(&id)
    }

    /// The id on the wire of an open request of the embedder.
    pub(super) fn wire_id(&self, handle: RequestId) -> Option<u64> {
        let id = self.renamed.get(&handle).copied().unwrap_or(handle.0);
        let is_it = |open: &OpenRequest| matches!(&open.purpose, Purpose::Call(call) if call.handle == handle);
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

    /// Changes the task that a call runs as.
    pub(super) fn change_task(&mut self, id: u64, change: impl FnOnce(&mut Option<Box<CallTask>>)) {
        let Some(OpenRequest { purpose, phase, .. }) = self.open.get_mut(&id) else { return };
        self.flight.remove(id, Count::of(purpose, *phase));
        if let Purpose::Call(call) = purpose {
            self.tasks.remove(id, call);
            change(&mut call.task);
            self.tasks.add(id, call);
        }
        self.flight.add(id, Count::of(purpose, *phase));
    }

    /// Whether a call runs as a task.
    #[inline]
    pub(super) fn runs_as_task(&self, id: u64) -> bool {
        !self.tasks.is_empty() && self.call(id).is_some_and(|call| call.task.is_some())
    }

    /// When a task is polled next.
    pub(super) fn next_poll(&self) -> Option<Time> {
        self.tasks.next()
    }

    /// The call whose task is to be polled now.
    pub(super) fn due_poll(&self, now: Time) -> Option<u64> {
        self.tasks.due(now)
    }

    /// The call that runs as the task with this id.
    pub(super) fn with_task(&self, task: &str) -> Option<u64> {
        self.tasks.of_id(task).and_then(|handle| self.wire_id(handle))
    }

    /// The ids of the tasks that calls run as.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.ids()
    }

    /// Bytes that are stored for the rounds of input.
    pub(super) const fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// The server acknowledged the listen stream of this request.
    pub(super) fn agree(&mut self, id: u64) {
        self.set_deadline(id, None);
        if let Some(open) = self.open.get_mut(&id) {
            self.flight.remove(id, open.count());
            if let Purpose::Listen { agreed, .. } = &mut open.purpose {
                *agreed = true;
            }
            self.flight.add(id, open.count());
        }
    }

    /// Whether a request for the log level is queued.
    pub(super) fn is_level_queued(&self) -> bool {
        let is_it = |id: u64| self.open.get(&id).is_some_and(|open| matches!(open.purpose, Purpose::SetLevel));
        self.queues.engine().any(is_it)
    }

    /// Whether a command about a request is refused.
    pub(super) fn refuses(&self, id: u64, command: request::Input) -> bool {
        self.open.get(&id).is_none_or(|open| request::refuses(open.phase, command))
    }

    pub(super) fn set_phase(&mut self, id: u64, phase: State) {
        self.change(id, |_| phase);
    }

    /// The embedder polled a request.
    pub(super) fn hand(&mut self, id: u64) {
        self.change(id, |open| {
            if let Purpose::Call(Call { attempts, task: None, .. }) = &mut open.purpose {
                *attempts = attempts.saturating_add(1);
            }
            request::take(open.phase, request::Input::Hand).next
        });
    }

    /// Steps a request that is encoded or polled; these inputs have no effects.
    pub(super) fn step(&mut self, id: u64, input: request::Input) {
        self.change(id, |open| request::take(open.phase, input).next);
    }

    /// Changes the phase of a request, to the one that `next` returns.
    fn change(&mut self, id: u64, next: impl FnOnce(&mut OpenRequest) -> State) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let (before, count) = (open.phase, open.count());
        open.phase = next(open);
        self.flight.remove(id, count);
        self.flight.add(id, count.in_phase(&open.purpose, open.phase));
        if is_on_wire(before) && !is_on_wire(open.phase) {
            self.settled.add(id);
        }
    }

    pub(super) fn set_deadline(&mut self, id: u64, deadline: Option<Time>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let before = open.due();
        open.deadline = deadline;
        let after = open.due();
        self.deadlines.remove(id, before);
        self.deadlines.add(id, after);
    }

    /// Gives a call this much time from now.
    pub(super) fn set_time_left(&mut self, id: u64, left: Duration, now: Time) {
        self.set_deadline(id, Some(self.call_time(now) + left));
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<OpenRequest> {
        let open = self.open.remove(&id)?;
        if is_on_wire(open.phase) {
            self.settled.add(id);
        }
        self.deadlines.remove(id, open.due());
        if open.phase == State::Queued {
            self.queues.remove_call(id, open.purpose.is_tool_call());
        }
        self.flight.remove(id, open.count());
        if let Purpose::Call(call) = &open.purpose {
            let kept = call.input.as_ref().map_or(0, |input| input.bytes);
            self.input_bytes = self.input_bytes.saturating_sub(kept);
            self.renamed.remove(&call.handle);
            self.tasks.remove(id, call);
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
        self.open.iter().find(|(_, open)| is_it(open)).map(|(id, _)| *id)
    }

    /// The open engine requests.
    pub(super) fn engine(&self) -> Vec<u64> {
        let engine = self.open.iter().filter(|(_, open)| !matches!(open.purpose, Purpose::Call(_)));
        engine.map(|(id, _)| *id).collect()
    }

    /// The engine requests that were not polled yet, and have a deadline. Those without one have a timer of their own.
    pub(super) fn unsent_timed(&self) -> Vec<u64> {
        let is_unsent = |open: &OpenRequest| matches!(open.phase, State::Queued | State::Written);
        let is_engine = |open: &OpenRequest| !matches!(open.purpose, Purpose::Call(_));
        let unsent = self.open.iter().filter(|(_, open)| is_unsent(open) && is_engine(open) && open.deadline.is_some());
        unsent.map(|(id, _)| *id).collect()
    }

    /// Queues a request of the embedder, for the first time or again.
    pub(super) fn requeue(&mut self, id: u64) {
        let Some(open) = self.open.get(&id) else { return };
        self.queues.add_call(id, open.purpose.is_tool_call());
    }

    /// Gives a request a new id on the wire. The embedder keeps the first one.
    pub(super) fn rename(&mut self, id: u64) -> u64 {
        let Some(open) = self.remove(id) else { return id };
        let new = self.ids.next();
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
        self.open.len() <= 1 && self.open.values().all(is_stream)
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
        self.deadlines.pause(most, now, |known| {
            open.range(known.saturating_add(1)..).filter_map(|(id, open)| Some((*id, open.due()?)))
        });
    }

    /// No server request is open any more: the call clock continues.
    pub(super) fn resume(&mut self, now: Time) {
        self.deadlines.resume(now, self.ids.last());
    }

    /// Has [`Self::next_settled`] return requests.
    pub(super) fn track_settled(&mut self) {
        self.settled.track();
    }

    /// Whether there is a request for [`Self::next_settled`].
    pub(super) fn has_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Takes the id of a request that does not wait for a response any more.
    pub(super) fn next_settled(&mut self) -> Option<u64> {
        self.settled.take()
    }

    /// The request with this token, if it waits for its response and asked for progress.
    #[inline]
    pub(super) fn with_progress(&self, token: u64) -> Option<u64> {
        let id = match self.tasks.of_token(token) {
            Some(handle) => self.wire_id(handle)?,
            None => Some(token).filter(|id| self.is_sent(*id))?,
        };
        self.call(id).filter(|call| call.request.progress).map(|_| id)
    }

    /// A request made progress: extends its deadline. Returns the request, and whether to report the progress.
    #[inline]
    pub(super) fn progress(&mut self, id: u64, now: Time, interval: Duration) -> Option<(RequestId, bool)> {
        let call_time = self.call_time(now);
        let OpenRequest { purpose: Purpose::Call(call), deadline: before, .. } = self.open.get_mut(&id)? else {
            return None;
        };
        let due = call.progress_reported_at.is_none_or(|at| now.since(at) >= interval);
        if due {
            call.progress_reported_at = Some(now);
        }
        let (handle, deadline) = (call.handle, (call_time + call.timeout).min(call.latest));
        // The deadline never moves to an earlier time.
        if *before < Some(deadline) {
            self.set_deadline(id, Some(deadline));
        }
        Some((handle, due))
    }

    /// Which bound on its time a request with a passed deadline has reached.
    pub(super) fn bound_of(&self, id: u64) -> TimeBound {
        let Some(OpenRequest { purpose: Purpose::Call(call), deadline, .. }) = self.open.get(&id) else {
            return TimeBound::Timeout;
        };
        // Progress and a task extend a request up to its maximum time.
        let extended = call.progress_reported_at.is_some() || call.task.is_some();
        if extended && *deadline == Some(call.latest) { TimeBound::Total } else { TimeBound::Timeout }
    }

    /// What the id of a response names, and the request, if there is one. `exchange` is the request in whose HTTP exchange
    /// it arrived.
    pub(super) fn classify_response(&self, id: ResponseId, exchange: Option<u64>) -> (response::Id, u64) {
        let (id, waiting) = match id {
            ResponseId::Exact(id) => (id, response::Id::Waiting),
            ResponseId::Loose(id) => (id, response::Id::WaitingLoose),
            ResponseId::Absent | ResponseId::Foreign => return self.classify_foreign(exchange),
        };
        if self.is_sent(id) {
            return (waiting, id);
        }
        if self.ids.is_abandoned(id) {
            return (response::Id::Abandoned, id);
        }
        if self.ids.is_current(id) { (response::Id::Over, id) } else { self.classify_foreign(exchange) }
    }

    fn classify_foreign(&self, exchange: Option<u64>) -> (response::Id, u64) {
        match (exchange.filter(|id| self.is_sent(*id)), self.flight.only()) {
            (Some(id), _) => (response::Id::ForeignInExchange, id),
            (None, Some(id)) => (response::Id::ForeignOneWaits, id),
            (None, None) => (response::Id::Foreign, 0),
        }
    }

    /// The late response to an abandoned request came.
    pub(super) fn forget_abandoned(&mut self, id: u64) {
        self.ids.forget(id);
    }

    /// Whether a request was polled and waits for its response.
    pub(super) fn is_sent(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|open| open.phase == State::Sent)
    }

    /// The connection ended, and with it the engine's own requests; the others go to the next one.
    pub(super) fn end_connection(&mut self) {
        let carried = self.calls();
        self.ids.end_connection(carried.into_iter());
    }

    /// The open requests of the embedder, oldest first.
    pub(super) fn calls(&self) -> Vec<u64> {
        let calls = self.open.iter().filter(|(_, open)| matches!(open.purpose, Purpose::Call(_)));
        calls.map(|(id, _)| *id).collect()
    }
}
