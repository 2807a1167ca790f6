use alloc::boxed::Box;
use core::num::NonZero;

use super::ledger::{Bar, Purpose};
use super::transport::Report;
use super::{Engine, Outcome, Outgoing, Output};
use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::machine::request::{Input, State};
use crate::machine::{QuirkKind, link};
use crate::protocol::Era;

/// What a binding needs to know that an embedder does not.
impl Engine {
    /// Takes the message that came in the HTTP exchange of the request of this id. A message that answers nothing by its
    /// own id answers that request.
    pub(crate) fn handle_exchange(&mut self, now: Time, id: u64, bytes: &[u8]) {
        self.exchange = NonZero::new(id);
        self.handle_message(now, bytes);
        self.exchange = None;
    }

    /// Takes what became of the exchange of a request.
    pub(crate) fn handle_report(&mut self, now: Time, report: Report<'_>) {
        self.advance(now);
        self.report(report);
        self.pump();
    }

    /// The time of the last input.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// Takes the next output. A message counts as sent once [`Self::handed_over`] says so.
    pub(crate) fn take(&mut self) -> Option<Output> {
        let output = self.out.pop_front()?;
        self.out_bytes = self.out_bytes.saturating_sub(output.unasked_bytes());
        Some(output)
    }

    /// The embedder took the message.
    pub(crate) fn handed_over(&mut self, message: &Outgoing) {
        if let Some(id) = message.id {
            self.requests.step(id, Input::Hand);
        }
    }

    /// Tells how many events were taken and are not polled yet, and the bytes of the server's messages in them. They
    /// count towards the limits on output.
    pub(crate) fn set_unpolled(&mut self, count: usize, bytes: usize) {
        (self.requests.http.unpolled, self.requests.http.unpolled_bytes) = (count, bytes);
    }

    /// Gives the engine's own requests that were not polled yet their whole time once more.
    pub(crate) fn renew_unsent(&mut self, now: Time) {
        self.advance(now);
        let deadline = self.request_deadline();
        for id in self.requests.engine() {
            if self.requests.get(id).is_some_and(|open| matches!(open.phase, State::Queued | State::Written)) {
                self.requests.set_deadline(id, Some(deadline));
            }
        }
    }

    /// When time matters next, whatever waits to be polled.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers_deadline()
    }

    /// Has the session remember which requests stop waiting for an answer, for [`Self::next_settled`].
    pub(crate) fn track_settled(&mut self) {
        self.requests.http.bound = true;
    }

    /// Takes the id of a request that stopped waiting for its answer, wherever the answer came or why none is to come.
    pub(crate) fn next_settled(&mut self) -> Option<u64> {
        self.requests.http.next_settled()
    }

    /// Writes no calls of tools, or writes them again.
    pub(crate) fn hold_tools(&mut self, hold: bool) {
        if core::mem::replace(&mut self.requests.http.holds_tools, hold) && !hold {
            self.pump();
        }
    }

    /// Counts a request of the server's whose answer found no room and was not delivered.
    pub(crate) fn leave_out(&mut self) {
        self.stats.left_out = self.stats.left_out.saturating_add(1);
    }

    /// Tells how many answers and notifications were polled and are not delivered yet, and their bytes. They count
    /// towards the limits on output.
    pub(crate) fn set_undelivered(&mut self, count: usize, bytes: usize) {
        (self.requests.http.undelivered, self.requests.http.undelivered_bytes) = (count, bytes);
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| open.phase == State::Sent)
    }

    /// Whether a request is written, and its response did not come yet.
    pub(crate) fn is_on_wire(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| matches!(open.phase, State::Written | State::Sent))
    }

    /// Whether a request of the embedder's was sent again since the session had expired.
    pub(crate) fn is_resent(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| matches!(&open.purpose, Purpose::Call(call) if call.expired))
    }

    /// How often the server forgot the session since a request of the embedder's was answered.
    pub(crate) const fn expiries(&self) -> u32 {
        self.expiries
    }

    /// Writes a request again that the server refused for now, under a new id: no connection uses one twice. None where
    /// the request does not wait for its answer any more.
    pub(crate) fn restart(&mut self, id: u64) -> Option<Outgoing> {
        let open = self.requests.get(id).filter(|open| open.phase == State::Sent)?;
        let handshake = matches!(open.purpose, Purpose::Discover | Purpose::Initialize);
        // A handshake request that another one overtook has no version of its own any more.
        if handshake && self.handshake.request != Some(id) {
            return None;
        }
        let new = self.requests.rename(id);
        let known = [&mut self.handshake.request, &mut self.liveness.request, &mut self.subscriptions.asked];
        for known in known.into_iter().filter(|known| **known == Some(id)) {
            *known = Some(new);
        }
        let open = self.requests.get(new)?;
        if let Purpose::List(family) = &open.purpose
            && let Some(walk) = self.families.get_mut(*family).walk.as_mut().filter(|walk| walk.first == id)
        {
            walk.first = new;
        }
        Some(self.encode_request(new, &open.purpose))
    }

    /// Takes the error that this request was refused with, whatever id it bears. With `headers`, a call was refused for
    /// headers that the tool's schema requires. That schema may be another one by now, so the list is requested again,
    /// once, and then the call made again (specification 2026-07-28, "Streamable HTTP", Client Behavior).
    pub(crate) fn take_refusal(&mut self, now: Time, id: u64, error: ErrorObject, headers: bool) {
        self.advance(now);
        if self.is_waiting(id) {
            let call = self.requests.call_mut(id).filter(|_| headers);
            if call.is_some_and(|call| !core::mem::replace(&mut call.headers_renewed, true)) {
                self.bar(id, Bar::Headers, Outcome::Error(error));
            } else {
                self.answered(id, Err(error), true);
            }
        }
        self.pump();
    }

    /// Takes the answer to this request, under a good status, that says that the server forgot the session. The request
    /// may have run: it ends with this answer, unless it may run twice.
    pub(crate) fn take_expiry(&mut self, now: Time, id: u64, error: ErrorObject) {
        self.advance(now);
        self.expired_by_answer(id, error);
        self.pump();
    }

    fn expired_by_answer(&mut self, id: u64, error: ErrorObject) {
        if !self.is_established() || !self.is_waiting(id) {
            return;
        }
        let replayable = self.is_replayable(id);
        if let Some(call) = self.requests.call_mut(id) {
            if replayable {
                // It is sent again as what else was in flight and may run twice.
                call.expired = true;
            } else {
                self.call_step_to(id, Input::Answered, Some(Outcome::Error(error)));
            }
        }
        self.recover(None);
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

    /// Whether the last handshake came to an end that both sides agreed on, whatever became of its connection.
    pub(crate) fn has_agreed(&self) -> bool {
        self.handshake.is_over()
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
