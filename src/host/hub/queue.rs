//! Component: the order of what the embedder polls, and the next deadline. The outputs of sessions stay in the
//! sessions' own queues until they are polled.
//!
//! A session takes a polled message as sent, so its messages cannot be moved to another queue.

use alloc::boxed::Box;
#[cfg(feature = "snapshot")]
use alloc::collections::BTreeMap;
use alloc::collections::{BTreeSet, VecDeque};

use super::event::{HubEvent, SessionHandle};
use crate::Time;

/// Maximum capacity that an empty queue keeps.
const FEW: usize = 64;

/// An entry of the queue.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Turn {
    /// An event of the hub.
    Event(Box<HubEvent>),
    /// The outputs of a session, up to and including its next event.
    ThroughEvent(SessionHandle),
    /// The outputs of a session, up to and excluding its next event.
    UntilEvent(SessionHandle),
}

/// The entries of a session.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Pending {
    /// The number of its turns.
    turns: u32,
    /// How many of its events the hub has processed.
    processed_events: u64,
    /// Its last turn is a [`Turn::UntilEvent`].
    ends_in_actions: bool,
    /// It is among the sessions to process.
    touched: bool,
    /// Its next deadline.
    deadline: Option<Time>,
}

impl Pending {
    pub(super) const fn is_empty(&self) -> bool {
        self.turns == 0
    }

    pub(super) const fn is_last_turn(&self) -> bool {
        self.turns == 1
    }

    /// The hub processes the session now.
    pub(super) const fn mark_processed(&mut self) {
        self.touched = false;
    }

    pub(super) const fn processed_events(&self) -> u64 {
        self.processed_events
    }

    /// Its deadline is not in the queue any more.
    pub(super) const fn deadline_taken(&mut self) {
        self.deadline = None;
    }
}

/// The queue, in the order of polling.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Queue {
    turns: VecDeque<Turn>,
    /// The number of turns that are or end with an event.
    events: usize,
    /// Sessions that may have new outputs.
    touched: VecDeque<SessionHandle>,
    timers: BTreeSet<(Time, SessionHandle)>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The number of events that wait to be polled.
    pub(super) const fn events(&self) -> usize {
        self.events
    }

    pub(super) fn report(&mut self, event: HubEvent) {
        self.turns.push_back(Turn::Event(Box::new(event)));
        self.events = self.events.saturating_add(1);
    }

    /// Adds a turn for another event of a session.
    pub(super) fn push_event(&mut self, handle: SessionHandle, pending: &mut Pending) {
        self.turns.push_back(Turn::ThroughEvent(handle));
        self.events = self.events.saturating_add(1);
        (pending.turns, pending.ends_in_actions) = (pending.turns.saturating_add(1), false);
        pending.processed_events = pending.processed_events.saturating_add(1);
    }

    /// Adds a turn for outputs after the last event of a session.
    pub(super) fn push_actions(&mut self, handle: SessionHandle, pending: &mut Pending) {
        if !pending.ends_in_actions {
            self.turns.push_back(Turn::UntilEvent(handle));
            (pending.turns, pending.ends_in_actions) = (pending.turns.saturating_add(1), true);
        }
    }

    pub(super) fn front(&self) -> Option<&Turn> {
        self.turns.front()
    }

    /// Ends the first turn. `pending` belongs to its session, if that still exists.
    pub(super) fn pop(&mut self, pending: Option<&mut Pending>) -> Option<Turn> {
        let turn = self.turns.pop_front()?;
        if self.turns.is_empty() && self.turns.capacity() > FEW {
            self.turns = VecDeque::new();
        }
        match &turn {
            Turn::Event(_) | Turn::ThroughEvent(_) => self.events = self.events.saturating_sub(1),
            Turn::UntilEvent(_) => {}
        }
        if let Some(pending) = pending {
            pending.turns = pending.turns.saturating_sub(1);
            pending.ends_in_actions &= pending.turns > 0;
        }
        Some(turn)
    }

    /// Removes the turns of a session that is dropped. Another one may follow.
    pub(super) fn drop_turns(&mut self, handle: SessionHandle, pending: &mut Pending) {
        let is_its = |turn: &Turn| match turn {
            Turn::Event(_) => false,
            Turn::ThroughEvent(of) | Turn::UntilEvent(of) => *of == handle,
        };
        let events = self.turns.iter().filter(|turn| is_its(turn) && !matches!(turn, Turn::UntilEvent(_))).count();
        self.events = self.events.saturating_sub(events);
        self.turns.retain(|turn| !is_its(turn));
        self.set_deadline(handle, pending, None);
        *pending = Pending { touched: pending.touched, ..Pending::default() };
    }

    /// Has the hub process a session.
    pub(super) fn touch(&mut self, handle: SessionHandle, pending: &mut Pending) {
        if !pending.touched {
            pending.touched = true;
            self.touched.push_back(handle);
        }
    }

    /// The next session to process.
    pub(super) fn next_touched(&mut self) -> Option<SessionHandle> {
        let handle = self.touched.pop_front();
        if self.touched.is_empty() && self.touched.capacity() > FEW {
            self.touched = VecDeque::new();
        }
        handle
    }

    pub(super) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether a deadline is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// Removes a deadline that is due.
    pub(super) fn take_due(&mut self, now: Time) -> Option<SessionHandle> {
        if !self.is_due(now) {
            return None;
        }
        self.timers.pop_first().map(|(_, handle)| handle)
    }

    /// Sets the deadline of a session, unless the known one is earlier. It is set exactly when nothing of the session
    /// waits to be polled; until then, a deadline that is too early does no harm.
    pub(super) fn bring_forward(&mut self, handle: SessionHandle, pending: &mut Pending, deadline: Option<Time>) {
        if deadline.is_some_and(|at| pending.deadline.is_none_or(|known| at < known)) {
            self.set_deadline(handle, pending, deadline);
        }
    }

    /// Checks that the counts and deadlines are those of the sessions.
    #[cfg(feature = "snapshot")]
    pub(super) fn check<'a>(
        &self,
        pending: impl Fn(&SessionHandle) -> Option<&'a Pending>,
    ) -> Result<(), crate::snapshot::SnapshotError> {
        let events = self.turns.iter().filter(|turn| !matches!(turn, Turn::UntilEvent(_))).count();
        let mut turns = BTreeMap::<_, u32>::new();
        for turn in &self.turns {
            if let Turn::ThroughEvent(handle) | Turn::UntilEvent(handle) = turn {
                let count = turns.entry(handle).or_default();
                *count = count.saturating_add(1);
            }
        }
        let are_counted = turns.iter().all(|(handle, count)| pending(handle).is_some_and(|it| it.turns == *count));
        let of_session =
            |(at, handle): &(Time, SessionHandle)| pending(handle).is_some_and(|pending| pending.deadline == Some(*at));
        if events == self.events && are_counted && self.timers.iter().all(of_session) {
            Ok(())
        } else {
            Err(crate::snapshot::invalid("its queue contradicts its servers"))
        }
    }

    pub(super) fn set_deadline(&mut self, handle: SessionHandle, pending: &mut Pending, deadline: Option<Time>) {
        let former = core::mem::replace(&mut pending.deadline, deadline);
        if former != deadline {
            if let Some(former) = former {
                self.timers.remove(&(former, handle));
            }
            self.timers.extend(deadline.map(|deadline| (deadline, handle)));
        }
    }
}
