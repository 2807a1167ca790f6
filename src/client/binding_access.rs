use alloc::boxed::Box;
use serde_json::value::RawValue;

use super::request_table::Purpose;
use super::{Engine, Event, Outgoing, Output, ResendReason, calls};
use crate::Time;
use crate::machine::request::State;
use crate::machine::resend::Used;
use crate::machine::{QuirkKind, link, request};
use crate::protocol::Era;

/// What a binding needs from the engine, beyond the public getters.
impl Engine {
    /// The time of the last input.
    pub(crate) const fn now(&self) -> Time {
        self.core.now
    }

    /// Adds the server's address, without its secrets, to its name in messages, unless the name is an address.
    pub(crate) fn locate(&mut self, address: &str) {
        self.core.locate(address);
    }

    /// Replaces the words of the server that the engine keeps: the last errors of lists, and why a connection was lost.
    #[cfg(feature = "oauth")]
    pub(crate) fn amend_words(&mut self, amend: impl Fn(&mut Box<str>)) {
        self.lists.words().chain(self.link.words()).for_each(amend);
    }

    /// Replaces the detail of a recorded quirk.
    #[cfg(feature = "oauth")]
    pub(crate) fn amend_quirk(&mut self, quirk: &super::Quirk) {
        self.core.quirks.change(quirk.kind, quirk.method.as_deref(), &quirk.detail);
    }

    /// Takes the next output; a message counts as sent.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = self.core.outbox.pop()?;
        match &output {
            Output::Send(message) => self.handed_over(message),
            Output::Open(_) => self.link.see(),
            Output::Abort(_) | Output::Shutdown(_) | Output::Event(_) => {}
        }
        Some(output)
    }

    /// Takes the next output. A message counts as sent after [`Self::handed_over`].
    pub(crate) fn take(&mut self) -> Option<Output> {
        self.core.outbox.pop()
    }

    /// Whether there is an output to take.
    pub(crate) fn has_outputs(&self) -> bool {
        !self.core.outbox.is_empty()
    }

    /// The embedder polled the message: it counts as sent.
    #[inline]
    pub(crate) fn handed_over(&mut self, message: &Outgoing) {
        if let Some(id) = message.id {
            self.core.requests.hand(id);
        }
    }

    /// Sets how many events the binding took that are not polled yet, and their bytes of the server's data. They count
    /// towards the limits on output.
    pub(crate) fn set_unpolled(&mut self, count: usize, bytes: usize) {
        self.core.binding.unpolled = (count, bytes);
    }

    /// The binding took an event, which waits to be polled.
    pub(crate) fn queued(&mut self, event: &Event) {
        self.core.binding.queued(event);
    }

    /// An event was polled from the binding.
    pub(crate) fn polled(&mut self, event: &Event) {
        self.core.binding.polled(event);
    }

    /// Restarts the timeout of engine requests that were not polled yet.
    pub(crate) fn renew_unsent(&mut self, now: Time) {
        self.core.advance(now);
        let deadline = self.core.request_deadline();
        for id in self.core.requests.unsent_timed() {
            self.core.requests.set_deadline(id, Some(deadline));
        }
    }

    /// Has the engine track requests that stop waiting for a response, for [`Self::next_settled`].
    pub(crate) fn track_settled(&mut self) {
        self.core.requests.track_settled();
    }

    /// Takes the id of a request that stopped waiting for its response, for whatever reason.
    pub(crate) fn next_settled(&mut self) -> Option<u64> {
        self.core.requests.next_settled()
    }

    /// Whether there is a request for [`Self::next_settled`].
    pub(crate) fn has_settled(&self) -> bool {
        self.core.requests.has_settled()
    }

    /// Stops or resumes sending tool calls.
    pub(crate) fn hold_tools(&mut self, hold: bool) {
        if core::mem::replace(&mut self.core.binding.holds_tools, hold) && !hold {
            self.write_requests();
        }
    }

    /// Counts a message that was dropped before it was sent.
    pub(crate) fn count_undelivered(&mut self) {
        self.core.stats.undelivered = self.core.stats.undelivered.saturating_add(1);
    }

    /// Sets how many responses and notifications were polled and are not delivered yet, and their bytes. They count
    /// towards the limits on output.
    pub(crate) fn set_undelivered(&mut self, count: usize, bytes: usize) {
        self.core.binding.undelivered = (count, bytes);
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

    /// The embedder polled a request of the connection.
    pub(crate) fn mark_seen(&mut self) {
        self.link.see();
    }

    /// Whether a request waits for its response.
    pub(crate) fn is_sent(&self, id: u64) -> bool {
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
        if !self.core.is_sent(id) {
            return None;
        }
        let new = self.core.requests.rename(id);
        self.core.requests.step(new, request::Input::Restarted);
        calls::report_resend(&mut self.core, new, Some(ResendReason::Busy));
        self.handshake.rename(id, new);
        self.keepalive.rename(id, new);
        self.subscriptions.rename(id, new);
        let open = self.core.requests.get(new)?;
        if let Purpose::List { family, .. } = &open.purpose {
            self.lists.rename(*family, id, new);
        }
        Some(self.core.encode_request(new, &open.purpose))
    }

    /// How often this request of the embedder was refused for lack of authorization; `None` if it is another request.
    pub(crate) fn refusals_of(&self, id: u64) -> Option<Used> {
        self.core.requests.call(id).map(|call| call.unauthorized)
    }

    /// Encodes a request again that waits for its response, with the same id. `None` if it does not wait any more.
    pub(crate) fn encode_again(&self, id: u64) -> Option<Outgoing> {
        let open = self.core.requests.get(id).filter(|open| open.phase == request::State::Sent)?;
        Some(self.core.encode_request(id, &open.purpose))
    }

    /// Whether a transport is open, or is being opened.
    pub(crate) const fn has_transport(&self) -> bool {
        self.link.has_transport()
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

    /// The task that a request is about.
    pub(crate) fn task_of(&self, id: u64) -> Option<&str> {
        match &self.core.requests.get(id)?.purpose {
            Purpose::Call(call) => call.task.as_ref().map(|task| &*task.id),
            Purpose::CancelTask(task) => Some(task),
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Rediscover
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_) => None,
        }
    }

    /// Records a deviation of the server on the transport.
    pub(crate) fn transport_quirk(&mut self, kind: QuirkKind, method: Option<&str>, detail: impl Into<Box<str>>) {
        self.core.quirk(kind, None, method, detail);
    }
}
