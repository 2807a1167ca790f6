use alloc::boxed::Box;

use super::ledger::Purpose;
use super::{Action, RequestId, Session};
use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::machine::request::State;
use crate::machine::{QuirkKind, link};
use crate::protocol::Era;

/// What a binding needs to know that an embedder does not.
impl Session {
    /// The time of the last input.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// What is next to be polled.
    pub(crate) fn peek(&self) -> Option<&Action> {
        self.out.front()
    }

    /// When time matters next, whatever waits to be polled.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers_deadline()
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| open.phase == State::Sent)
    }

    /// Whether a request was sent again since the server had forgotten the session.
    pub(crate) fn was_forgotten(&self, id: u64) -> bool {
        let Some(open) = self.requests.get(id) else { return false };
        if let Purpose::Call(call) = &open.purpose { call.expired } else { false }
    }

    /// Takes an error that is the answer to this request, whatever id it bears.
    pub(crate) fn take_error(&mut self, now: Time, id: u64, error: ErrorObject) {
        self.advance(now);
        if self.is_waiting(id) {
            self.answered(id, Err(error), true);
        }
        self.pump();
    }

    /// The embedder's name for a request, where it is one of its own.
    pub(crate) fn request_of(&self, id: u64) -> Option<RequestId> {
        if let Purpose::Call(call) = &self.requests.get(id)?.purpose { Some(call.handle) } else { None }
    }

    /// Whether there is a connection, or the embedder was asked for one.
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self.link, link::State::Opening | link::State::Connecting | link::State::Ready)
    }

    /// Whether the session is on its way to the end.
    pub(crate) fn is_closing(&self) -> bool {
        self.link == link::State::Closing
    }

    /// Whether the handshake is done, and the server is of the legacy era.
    pub(crate) fn is_legacy(&self) -> bool {
        self.is_established() && self.server().is_some_and(|server| server.era() == Era::Legacy)
    }

    /// Whether handshake and connection stand.
    pub(crate) fn has_handshake(&self) -> bool {
        self.is_established()
    }

    /// Records what the server did on the transport.
    pub(crate) fn transport_quirk(&mut self, kind: QuirkKind, method: Option<&str>, detail: impl Into<Box<str>>) {
        self.quirk(kind, None, method, detail);
    }
}
