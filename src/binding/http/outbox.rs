//! The actions that wait to be polled.

use alloc::collections::VecDeque;

use super::action::ExchangeId;
use super::trim::trim;
use crate::client::Event;

/// An action that waits to be polled. A request is written when it is polled.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Entry {
    Request(ExchangeId),
    Drop(ExchangeId),
    Event(Event),
}

/// The actions in the order in which they are polled.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Outbox {
    entries: VecDeque<Entry>,
    events: usize,
    event_bytes: usize,
}

impl Outbox {
    pub(super) fn request(&mut self, exchange: ExchangeId) {
        self.entries.push_back(Entry::Request(exchange));
    }

    pub(super) fn drop(&mut self, exchange: ExchangeId) {
        self.entries.push_back(Entry::Drop(exchange));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.events = self.events.saturating_add(1);
        self.event_bytes = self.event_bytes.saturating_add(event.payload());
        self.entries.push_back(Entry::Event(event));
    }

    /// Withdraws an unpolled request.
    pub(super) fn retract(&mut self, exchange: ExchangeId) {
        // If many are withdrawn in order, each is near the front.
        let is_it = |entry: &Entry| matches!(entry, Entry::Request(request) if *request == exchange);
        if let Some(at) = self.entries.iter().position(is_it) {
            self.entries.remove(at);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        if let Entry::Event(event) = &entry {
            self.events = self.events.saturating_sub(1);
            self.event_bytes = self.event_bytes.saturating_sub(event.payload());
        }
        trim(&mut self.entries);
        Some(entry)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Withdraws the drops of an exchange.
    #[cfg(feature = "snapshot")]
    pub(super) fn retract_drops(&mut self) {
        self.entries.retain(|entry| !matches!(entry, Entry::Drop(_)));
    }

    /// Whether the counts match the events.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_counted(&self) -> bool {
        let bytes: usize = self.pending_events().map(Event::payload).sum();
        (self.pending_events().count(), bytes) == self.events()
    }

    /// Whether an event is the first action.
    pub(super) fn is_event_first(&self) -> bool {
        matches!(self.entries.front(), Some(Entry::Event(_)))
    }

    /// Whether an event is the last action; `None` where there is no action.
    pub(super) fn is_event_last(&self) -> Option<bool> {
        self.entries.back().map(|entry| matches!(entry, Entry::Event(_)))
    }

    /// The events among the actions.
    pub(super) fn pending_events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.entries.iter().filter_map(|entry| if let Entry::Event(event) = entry { Some(event) } else { None })
    }

    /// The number of events among the actions, and the bytes of the server's messages in them.
    pub(super) const fn events(&self) -> (usize, usize) {
        (self.events, self.event_bytes)
    }
}
