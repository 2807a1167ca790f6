//! The messages that wait for an exchange, and the number of messages without a response in exchanges.

use alloc::collections::VecDeque;

use super::timers::Timer;
use super::trim::{release, trim};
use crate::Time;
use crate::client::Outgoing;

/// The messages of the engine that are not in an exchange yet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Queue {
    /// They wait until `notifications/initialized` is accepted.
    held: VecDeque<Outgoing>,
    /// Queued notifications and responses, each with its timeout.
    waiting: VecDeque<(Timer, Outgoing)>,
    /// Bytes of these.
    waiting_bytes: usize,
    /// Notifications and responses that are in an exchange, and their bytes.
    in_exchange: usize,
    in_exchange_bytes: usize,
}

impl Queue {
    pub(super) fn hold(&mut self, message: Outgoing) {
        self.held.push_back(message);
    }

    pub(super) fn next_held(&mut self) -> Option<Outgoing> {
        let next = self.held.pop_front()?;
        release(&mut self.held);
        Some(next)
    }

    /// Removes a held request.
    pub(super) fn retract(&mut self, id: u64) {
        self.held.retain(|message| message.id() != Some(id));
        release(&mut self.held);
    }

    pub(super) fn wait(&mut self, timer: Timer, message: Outgoing) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(message.line().len());
        self.waiting.push_back((timer, message));
    }

    pub(super) fn next_waiting(&mut self) -> Option<(Timer, Outgoing)> {
        let (timer, message) = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(message.line().len());
        trim(&mut self.waiting);
        release(&mut self.waiting);
        Some((timer, message))
    }

    /// The timer of the oldest queued message.
    pub(super) fn front(&self) -> Option<Timer> {
        self.waiting.front().map(|(timer, _)| *timer)
    }

    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting_bytes)
    }

    /// Drops all messages except the queued ones to `keep`. Returns the timers of the others.
    pub(super) fn clear(&mut self, keep: impl Fn(&Outgoing) -> bool) -> impl Iterator<Item = Timer> {
        self.held = VecDeque::new();
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            core::mem::take(&mut self.waiting).into_iter().partition(|(_, message)| keep(message));
        self.waiting = kept;
        self.waiting_bytes = self.waiting.iter().map(|(_, message)| message.line().len()).sum();
        dropped.into_iter().map(|(timer, _)| timer)
    }

    /// Gives each queued message a new timer with the same time.
    pub(super) fn rearm(&mut self, mut arm: impl FnMut(Time) -> Timer) {
        for ((due, number), _) in &mut self.waiting {
            (*due, *number) = arm(*due);
        }
    }

    /// Whether the byte count matches the messages.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_counted(&self) -> bool {
        self.waiting.iter().map(|(_, message)| message.line().len()).sum::<usize>() == self.waiting_bytes
    }

    /// A notification or a response enters an exchange.
    pub(super) fn enter(&mut self, message: &Outgoing) {
        self.in_exchange = self.in_exchange.saturating_add(1);
        self.in_exchange_bytes = self.in_exchange_bytes.saturating_add(message.line().len());
    }

    /// The exchange of a notification or a response has ended.
    pub(super) fn leave(&mut self, message: &Outgoing) {
        self.in_exchange = self.in_exchange.saturating_sub(1);
        self.in_exchange_bytes = self.in_exchange_bytes.saturating_sub(message.line().len());
    }

    pub(super) const fn in_exchange(&self) -> usize {
        self.in_exchange
    }

    /// Notifications and responses that are not delivered yet, and their bytes.
    pub(super) fn undelivered(&self) -> (usize, usize) {
        let count = self.in_exchange.saturating_add(self.waiting.len());
        (count, self.in_exchange_bytes.saturating_add(self.waiting_bytes))
    }
}
