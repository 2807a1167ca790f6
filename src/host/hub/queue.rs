//! Component: the order of what the embedder polls, and the next deadline. The outputs of sessions stay in the
//! sessions' own queues until they are polled.
//!
//! A session takes a polled message as sent, so its messages cannot be moved to another queue.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use super::event::{HubEvent, SessionHandle};
use crate::Time;

/// Maximum capacity that an empty queue keeps.
const FEW: usize = 64;

/// An entry of the queue.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    /// An event of the hub.
    Event(Box<HubEvent>),
    /// The outputs of a session, up to and including its next event.
    ToEvent(SessionHandle),
    /// The outputs of a session, up to and excluding its next event.
    Rest(SessionHandle),
}

/// The entries of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    /// The number of its turns.
    turns: u32,
    /// How many of its events the hub has processed.
    heard: u64,
    /// How many of those are not polled yet.
    untaken: u32,
    /// Its last turn is a [`Turn::Rest`].
    ends_in_rest: bool,
    /// It is among the sessions to process.
    touched: bool,
    /// Its next deadline.
    deadline: Option<Time>,
}

impl Pending {
    pub(super) const fn is_empty(&self) -> bool {
        self.turns == 0
    }

    /// The hub processes the session now.
    pub(super) const fn untouch(&mut self) {
        self.touched = false;
    }

    pub(super) const fn heard(&self) -> u64 {
        self.heard
    }

    /// An event is taken.
    pub(super) const fn event_taken(&mut self) {
        self.untaken = self.untaken.saturating_sub(1);
    }
}

/// The queue, in the order of polling.
#[derive(Clone, Debug, Default)]
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
        self.turns.push_back(Turn::ToEvent(handle));
        self.events = self.events.saturating_add(1);
        (pending.turns, pending.ends_in_rest) = (pending.turns.saturating_add(1), false);
        (pending.heard, pending.untaken) = (pending.heard.saturating_add(1), pending.untaken.saturating_add(1));
    }

    /// Adds a turn for outputs after the last event of a session.
    pub(super) fn push_rest(&mut self, handle: SessionHandle, pending: &mut Pending) {
        if !pending.ends_in_rest {
            self.turns.push_back(Turn::Rest(handle));
            (pending.turns, pending.ends_in_rest) = (pending.turns.saturating_add(1), true);
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
            Turn::Event(_) | Turn::ToEvent(_) => self.events = self.events.saturating_sub(1),
            Turn::Rest(_) => {}
        }
        if let Some(pending) = pending {
            pending.turns = pending.turns.saturating_sub(1);
            pending.ends_in_rest &= pending.turns > 0;
        }
        Some(turn)
    }

    /// Removes the turns of a session that is dropped. Another one may follow.
    pub(super) fn drop_turns(&mut self, handle: SessionHandle, pending: &mut Pending) {
        let is_its = |turn: &Turn| match turn {
            Turn::Event(_) => false,
            Turn::ToEvent(of) | Turn::Rest(of) => *of == handle,
        };
        let events = self.turns.iter().filter(|turn| is_its(turn) && !matches!(turn, Turn::Rest(_))).count();
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

    /// A session with a deadline that is due.
    pub(super) fn due(&self, now: Time) -> Option<SessionHandle> {
        self.timers.first().filter(|(at, _)| *at <= now).map(|(_, handle)| *handle)
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
