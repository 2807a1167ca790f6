//! The timers.

use alloc::collections::VecDeque;

use super::action::ExchangeId;
use super::trim::trim;
use crate::Time;

/// The effect of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Due {
    /// Send a request again, by its id on the wire.
    SendAgain(u64),
    /// Send `notifications/initialized` again.
    SendInitialized,
    /// Resume the stream of a request, by its id on the wire.
    Resume(u64),
    /// Request the GET stream again.
    GetStream,
    /// Stop the wait for the GET stream.
    StreamLate,
    /// Drop an exchange that is not needed.
    Release(ExchangeId),
    /// Drop the oldest message that waits for an exchange.
    GiveUp,
}

/// A timer: its time, and a number that distinguishes timers of the same time.
pub(super) type Timer = (Time, u64);

/// The timers of a connection.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers {
    /// Ordered by time. Most streamed calls use one, so the memory of a few is kept.
    due: VecDeque<(Timer, Due)>,
    last: u64,
}

impl Timers {
    pub(super) fn arm(&mut self, at: Time, due: Due) -> Timer {
        self.last = self.last.saturating_add(1);
        let timer = (at, self.last);
        let place = self.due.partition_point(|(other, _)| *other < timer);
        self.due.insert(place, (timer, due));
        timer
    }

    /// Changes the effect of a timer, not its time.
    pub(super) fn set(&mut self, timer: Timer, due: Due) {
        if let Some((_, known)) = self.find(timer).and_then(|place| self.due.get_mut(place)) {
            *known = due;
        }
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        if let Some(place) = self.find(timer) {
            self.due.remove(place);
            trim(&mut self.due);
        }
    }

    fn find(&self, timer: Timer) -> Option<usize> {
        self.due.binary_search_by_key(&timer, |(timer, _)| *timer).ok()
    }

    /// Whether the timers are ordered.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_sorted(&self) -> bool {
        self.due.iter().is_sorted_by(|(one, _), (next, _)| one < next)
    }

    pub(super) fn clear(&mut self) {
        self.due = VecDeque::new();
    }

    /// The time of the next timer.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|((at, _), _)| *at)
    }

    /// The newest timer so far.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Takes the next due timer up to `last`: at the end of time, a new one is due at once.
    pub(super) fn take(&mut self, now: Time, last: u64) -> Option<(Timer, Due)> {
        let due = self.due.iter().take_while(|((at, _), _)| *at <= now);
        let place = due.into_iter().position(|((_, number), _)| *number <= last)?;
        let due = self.due.remove(place);
        trim(&mut self.due);
        due
    }
}
