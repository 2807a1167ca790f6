use alloc::boxed::Box;
use serde_json::value::RawValue;

use super::request_table::Purpose;
use super::{Engine, Outgoing, Output, calls};
use crate::Time;
use crate::machine::request::State;
use crate::machine::{QuirkKind, link, request};
use crate::protocol::Era;

/// What a binding needs from the engine, beyond the public getters.
impl Engine {
    /// The time of the last input.
    pub(crate) const fn now(&self) -> Time {
        self.core.now
    }

    /// Takes the next output. A message counts as sent after [`Self::handed_over`].
    pub(crate) fn take(&mut self) -> Option<Output> {
        self.core.outbox.pop()
    }

    /// Whether there is an output to take.
    pub(crate) fn has_outputs(&self) -> bool {
        !self.core.outbox.is_empty()
    }

    /// The embedder polled the message.
    pub(crate) fn handed_over(&mut self, message: &Outgoing) {
        if let Some(id) = message.id {
            self.core.requests.step(id, request::Input::Hand);
        }
    }

    /// Sets how many events the binding took that are not polled yet, and their bytes of the server's data. They count
    /// towards the limits on output.
    pub(crate) fn set_unpolled(&mut self, count: usize, bytes: usize) {
        self.core.requests.http.unpolled = (count, bytes);
    }

    /// Restarts the timeout of engine requests that were not polled yet.
    pub(crate) fn renew_unsent(&mut self, now: Time) {
        self.core.advance(now);
        let deadline = self.core.request_deadline();
        for id in self.core.requests.engine() {
            if self.core.requests.get(id).is_some_and(|open| matches!(open.phase, State::Queued | State::Written)) {
                self.core.requests.set_deadline(id, Some(deadline));
            }
        }
    }

    /// The next deadline, whatever waits to be polled.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers_deadline()
    }

    /// Has the engine track requests that stop waiting for a response, for [`Self::next_settled`].
    pub(crate) fn track_settled(&mut self) {
        self.core.requests.http.bound = true;
    }

    /// Takes the id of a request that stopped waiting for its response, for whatever reason.
    pub(crate) fn next_settled(&mut self) -> Option<u64> {
        self.core.requests.http.next_settled()
    }

    /// Whether there is a request for [`Self::next_settled`].
    pub(crate) fn has_settled(&self) -> bool {
        self.core.requests.http.has_settled()
    }

    /// Stops or resumes sending tool calls.
    pub(crate) fn hold_tools(&mut self, hold: bool) {
        if core::mem::replace(&mut self.core.requests.http.holds_tools, hold) && !hold {
            self.write_requests();
        }
    }

    /// Counts a server request whose response was dropped for lack of room.
    pub(crate) fn leave_out(&mut self) {
        self.core.leave_out();
    }

    /// Sets how many responses and notifications were polled and are not delivered yet, and their bytes. They count
    /// towards the limits on output.
    pub(crate) fn set_undelivered(&mut self, count: usize, bytes: usize) {
        self.core.requests.http.undelivered = (count, bytes);
    }

    /// When due deadlines were served last.
    pub(crate) const fn served(&self) -> Time {
        self.core.served
    }

    /// Time passes, and nothing is due.
    pub(crate) fn pass(&mut self, now: Time) {
        self.core.advance(now);
        self.core.served = self.core.now;
    }

    /// The embedder took a request of the connection.
    pub(crate) const fn mark_seen(&mut self) {
        self.core.unseen = false;
    }

    /// Whether a request waits for its response.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.core.is_sent(id)
    }

    /// Whether a request was encoded and has no response yet.
    pub(crate) fn is_on_wire(&self, id: u64) -> bool {
        self.core.requests.get(id).is_some_and(|open| matches!(open.phase, State::Written | State::Sent))
    }

    /// Whether a request was sent again for an expired session, so that it is not sent again for another one.
    pub(crate) fn is_resent(&self, id: u64) -> bool {
        calls::is_expired_again(&self.core, id)
    }

    /// Whether a session expired since the last answered call.
    pub(crate) const fn has_expired(&self) -> bool {
        self.link.has_expired()
    }

    /// Encodes a request again that the server refused for now, with a new id: ids are never reused on a connection.
    /// `None` if the request does not wait for its response any more.
    pub(crate) fn restart(&mut self, id: u64) -> Option<Outgoing> {
        let open = self.core.requests.get(id).filter(|open| open.phase == request::State::Sent)?;
        let handshake = matches!(open.purpose, Purpose::Discover(_) | Purpose::Initialize(_));
        // A handshake request that was replaced by another one has no version of its own.
        if handshake && self.handshake.request() != Some(id) {
            return None;
        }
        let new = self.core.requests.rename(id);
        self.handshake.rename(id, new);
        self.keepalive.rename(id, new);
        self.subscriptions.rename(id, new);
        let open = self.core.requests.get(new)?;
        if let Purpose::List { family, .. } = &open.purpose {
            self.lists.rename(*family, id, new);
        }
        Some(self.core.encode_request(new, &open.purpose))
    }

    /// Whether there is a connection, or one is being opened.
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self.link.state(), link::State::Opening | link::State::Connecting | link::State::Ready)
    }

    /// Whether the client is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.link.state() == link::State::Closing
    }

    /// Whether the handshake is done, and the server is a legacy one.
    pub(crate) fn is_legacy(&self) -> bool {
        self.core.is_established() && self.core.era() == Some(Era::Legacy)
    }

    /// Whether the last handshake was completed, even if its connection is lost.
    pub(crate) const fn has_agreed(&self) -> bool {
        self.core.agreed.is_some()
    }

    /// Whether the handshake is done on the current connection.
    pub(crate) fn has_handshake(&self) -> bool {
        self.core.is_established()
    }

    /// The embedder's id of a request, if it is the embedder's.
    pub(crate) fn handle_of(&self, id: u64) -> Option<super::RequestId> {
        self.core.handle_of(id)
    }

    /// The parameters of a request, where it is one of the embedder's.
    pub(crate) fn params_of(&self, id: u64) -> Option<&RawValue> {
        self.core.requests.call(id)?.request.params.as_deref()
    }

    /// Records a deviation of the server on the transport.
    pub(crate) fn transport_quirk(&mut self, kind: QuirkKind, method: Option<&str>, detail: impl Into<Box<str>>) {
        self.core.quirk(kind, None, method, detail);
    }
}
