//! What the embedder is to take next, and when time matters: an order over the sessions, whose actions stay in their own
//! queues until they are taken.
//!
//! A session decides by what was taken whether a request was sent, so its messages cannot move to another queue.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use super::event::{HubEvent, SessionHandle};
use crate::Time;

/// The greatest capacity that an empty queue keeps.
const FEW: usize = 64;

/// Something to take.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    /// An event of the hub's.
    Event(Box<HubEvent>),
    /// What a session has, up to its next event and with it.
    ToEvent(SessionHandle),
    /// What a session has, up to its next event and without it.
    Rest(SessionHandle),
}

/// What a session has in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    /// How many turns it has.
    turns: u32,
    /// How many of its events the hub heard.
    heard: u64,
    /// How many of them were not taken yet.
    untaken: u32,
    /// Its last turn is a [`Turn::Rest`].
    ends_in_rest: bool,
    /// It is among those that the hub is to hear.
    touched: bool,
    /// When time matters to it next.
    deadline: Option<Time>,
}

impl Pending {
    pub(super) const fn is_empty(&self) -> bool {
        self.turns == 0
    }

    /// The hub hears the session now.
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

/// The order in which the embedder takes what there is.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    turns: VecDeque<Turn>,
    /// How many of them are, or end in, an event.
    events: usize,
    /// Sessions that may have something new in their queues.
    touched: VecDeque<SessionHandle>,
    timers: BTreeSet<(Time, SessionHandle)>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many events wait to be taken.
    pub(super) const fn events(&self) -> usize {
        self.events
    }

    pub(super) fn report(&mut self, event: HubEvent) {
        self.turns.push_back(Turn::Event(Box::new(event)));
        self.events = self.events.saturating_add(1);
    }

    /// A session has another event.
    pub(super) fn push_event(&mut self, handle: SessionHandle, pending: &mut Pending) {
        self.turns.push_back(Turn::ToEvent(handle));
        self.events = self.events.saturating_add(1);
        (pending.turns, pending.ends_in_rest) = (pending.turns.saturating_add(1), false);
        (pending.heard, pending.untaken) = (pending.heard.saturating_add(1), pending.untaken.saturating_add(1));
    }

    /// A session has something behind its last event.
    pub(super) fn push_rest(&mut self, handle: SessionHandle, pending: &mut Pending) {
        if !pending.ends_in_rest {
            self.turns.push_back(Turn::Rest(handle));
            (pending.turns, pending.ends_in_rest) = (pending.turns.saturating_add(1), true);
        }
    }

    pub(super) fn front(&self) -> Option<&Turn> {
        self.turns.front()
    }

    /// Ends the turn at the front. `pending` is that of its session, where it is still there.
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

    /// Drops the turns of a session that is dropped. Another one may follow.
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

    /// Has the hub hear what a session has to say.
    pub(super) fn touch(&mut self, handle: SessionHandle, pending: &mut Pending) {
        if !pending.touched {
            pending.touched = true;
            self.touched.push_back(handle);
        }
    }

    /// The next session to hear.
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

    /// A session whose deadline is due.
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
