use alloc::boxed::Box;

use super::{Action, Session};
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

    /// What waits to be polled.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Action> {
        self.out.iter()
    }

    /// As [`poll`](Self::poll), but for what `held` holds back: what is behind it goes first.
    pub(crate) fn poll_but(&mut self, held: impl Fn(&Action) -> bool) -> Option<Action> {
        let at = self.out.iter().position(|action| !held(action))?;
        let action = self.out.remove(at)?;
        self.polled(&action);
        Some(action)
    }

    /// Gives the engine's own requests that were not polled yet their whole time once more.
    pub(crate) fn renew_unsent(&mut self, now: Time) {
        self.advance(now);
        let deadline = self.now() + self.options.timeouts.request;
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
        self.requests.http.get_or_insert_default();
    }

    /// Takes the id of a request that stopped waiting for its answer, wherever the answer came or why none is to come.
    pub(crate) fn next_settled(&mut self) -> Option<u64> {
        self.requests.http.as_mut()?.settled.pop()
    }

    /// Whether there is a request for [`Self::next_settled`].
    pub(crate) fn has_settled(&self) -> bool {
        self.requests.http.as_ref().is_some_and(|http| !http.settled.is_empty())
    }

    /// Counts a request of the server's whose answer was not delivered for want of room.
    pub(crate) fn leave_out(&mut self) {
        self.stats.left_out = self.stats.left_out.saturating_add(1);
    }

    /// Tells how many answers and notifications were polled and are not delivered yet, and their bytes. They count
    /// towards the limits on output.
    pub(crate) fn set_undelivered(&mut self, count: usize, bytes: usize) {
        if let Some(http) = &mut self.requests.http {
            (http.undelivered, http.undelivered_bytes) = (count, bytes);
        }
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| open.phase == State::Sent)
    }

    /// How often the server forgot the session since a request of the embedder's was answered.
    pub(crate) const fn expiries(&self) -> u32 {
        self.expiries
    }

    /// Takes an error that is the answer to this request, whatever id it bears.
    pub(crate) fn take_error(&mut self, now: Time, id: u64, error: ErrorObject) {
        self.advance(now);
        if self.is_waiting(id) {
            self.answered(id, Err(error), true);
        }
        self.pump();
    }

    /// Whether there is a connection, or the embedder was asked for one.
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self.link, link::State::Opening | link::State::Connecting | link::State::Ready)
    }

    /// Which of the session's connections it has, or asks for.
    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
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
