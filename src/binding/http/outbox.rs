//! The actions that wait to be polled.

use alloc::collections::VecDeque;

use super::action::{ExchangeId, HttpAction, HttpRequest};
use crate::client::Event;

/// The actions in the order in which they are polled.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    actions: VecDeque<HttpAction>,
    events: usize,
    event_bytes: usize,
}

impl Outbox {
    pub(super) fn request(&mut self, request: HttpRequest) {
        self.actions.push_back(HttpAction::Request(request));
    }

    pub(super) fn drop(&mut self, exchange: ExchangeId) {
        self.actions.push_back(HttpAction::Drop(exchange));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.events = self.events.saturating_add(1);
        self.event_bytes = self.event_bytes.saturating_add(event.payload());
        self.actions.push_back(HttpAction::Event(event));
    }

    /// Takes a request back that was not polled.
    pub(super) fn retract(&mut self, exchange: ExchangeId) {
        // Where many are taken back in turn, each is near the front.
        let is_it =
            |action: &HttpAction| matches!(action, HttpAction::Request(request) if request.exchange == exchange);
        if let Some(at) = self.actions.iter().position(is_it) {
            self.actions.remove(at);
        }
    }

    pub(super) fn pop(&mut self) -> Option<HttpAction> {
        let action = self.actions.pop_front()?;
        if let HttpAction::Event(event) = &action {
            self.events = self.events.saturating_sub(1);
            self.event_bytes = self.event_bytes.saturating_sub(event.payload());
        }
        if self.actions.is_empty() {
            // A burst keeps no room.
            self.actions.shrink_to(KEPT);
        }
        Some(action)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The events among the actions, and the bytes of the server's messages in them.
    pub(super) const fn events(&self) -> (usize, usize) {
        (self.events, self.event_bytes)
    }
}

/// How much room stays while there is nothing to poll.
const KEPT: usize = 0;
