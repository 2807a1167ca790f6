//! The end of the engine's requests, and the cancellation of requests and tasks.

use alloc::vec::Vec;

use super::core::{Core, declaration};
use super::request_table::{OpenRequest, Purpose};
use super::{Outgoing, Output};
use crate::jsonrpc::Object;
use crate::machine::cancellation::{self, Means, TaskEnd};
use crate::machine::era_change::Phase;
use crate::machine::request;
use crate::protocol::{Capability, Era, method};

impl Core {
    /// Ends a request of the engine; `None` if it is not open, or the input does not end it.
    pub(super) fn end_request(&mut self, id: u64, input: request::Input, reason: &str) -> Option<OpenRequest> {
        use request::Effect;
        let row = request::take(self.requests.get(id)?.phase, input);
        if row.next != request::State::Ended {
            return None;
        }
        for effect in row.effects {
            match effect {
                Effect::Retract => self.outbox.retract(id),
                Effect::Cancel => self.cancel_request(id, reason),
                Effect::Drop => self.drop_request(id),
                // A request of the engine has no outcome that is reported, and nothing else ends a request.
                Effect::Requeue
                | Effect::RequeueAnew
                | Effect::CountLoss
                | Effect::CountExpiry
                | Effect::AwaitInput
                | Effect::AwaitTask
                | Effect::Block
                | Effect::EndAnswered
                | Effect::EndInvalid
                | Effect::EndInputRequired
                | Effect::EndRefused
                | Effect::EndCancelled
                | Effect::EndTimedOut
                | Effect::EndNotAdvertised
                | Effect::EndUnsent
                | Effect::EndUnknown => {}
            }
        }
        self.requests.remove(id)
    }

    /// Ends a request of the handshake whose response is not needed any more.
    pub(super) fn give_up(&mut self, id: u64) {
        self.end_request(id, request::Input::Withdrawn, "");
    }

    /// Cancels a sent request; its response may still come.
    pub(super) fn cancel_request(&mut self, id: u64, reason: &str) {
        let request = match self.requests.call(id) {
            Some(call) if call.task.is_some() => cancellation::Request::AboutTask,
            Some(call) if self.task_ttl(call).is_some() => cancellation::Request::CreatesTask,
            Some(_) | None => cancellation::Request::Plain,
        };
        self.abandon(id, request, reason);
    }

    /// Cancels a task, if there is a connection and the server takes that.
    pub(super) fn cancel_task(&mut self, task: &str) {
        let phase = if self.is_ready() { Phase::Ready } else { Phase::Connecting };
        let declared = declaration(self.server.as_ref().and_then(|server| server.has(Capability::TaskCancellation)));
        match cancellation::take_of_task(phase, self.era().unwrap_or(Era::Legacy), declared) {
            TaskEnd::Cancel => {
                let deadline = self.request_deadline();
                self.requests.insert(Purpose::CancelTask(task.into()), Some(deadline));
            }
            TaskEnd::Leave => {}
        }
    }

    /// Drops a sent request; its response may still come.
    pub(super) fn drop_request(&mut self, id: u64) {
        self.abandon(id, cancellation::Request::Dropped, "");
    }

    /// The response to a sent request is not needed any more, but may still come.
    fn abandon(&mut self, id: u64, request: cancellation::Request, reason: &str) {
        match cancellation::take(self.wire, request, self.era().unwrap_or(Era::Legacy)) {
            Means::Notify => self.send_cancelled(id, reason),
            Means::CloseAndNotify => {
                self.outbox.push(Output::Abort(id));
                self.send_cancelled(id, reason);
            }
            Means::Close => self.outbox.push(Output::Abort(id)),
            Means::Nothing => {}
        }
        self.requests.expect_late(id);
    }

    /// Sends a cancellation of a request.
    fn send_cancelled(&mut self, id: u64, reason: &str) {
        let message = self.encode_notification(
            method::CANCELLED,
            Some(|out: &mut Vec<u8>| {
                let mut params = Object::begin(out);
                params.integer("requestId", id.into()).string("reason", reason);
                params.end();
            }),
        );
        let of = self.handle_of(id);
        self.outbox.push(Output::Send(Outgoing { of, ..message }));
    }
}
