//! What waits for a token, beside requests of the embedder, which wait in the engine.

use alloc::vec::Vec;

use crate::client::Outgoing;
use crate::machine::http_waiting::Refused;
use crate::machine::resend::Used;

/// What waits, each with how often it was refused for lack of authorization.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Requests of the engine, by their ids on the wire.
    pub(super) requests: Vec<(u64, Used)>,
    /// Notifications and responses, which are as many as may be in flight.
    pub(super) messages: Vec<(Outgoing, Used)>,
    /// What is sent again at once, because the refusal was about what is known by now.
    pub(super) readmitted: Vec<Held>,
    /// How often the handshakes were refused since the client was ready last.
    pub(super) handshake: Used,
    /// How often the GET stream was refused since it was open last.
    pub(super) stream: Used,
}

/// What was refused, and may be sent again.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// A request that waits in the engine.
    Call(u64),
    /// A request of the engine.
    Request(u64, Used),
    /// A notification or a response.
    Message(Outgoing, Used),
    /// The GET stream.
    Stream,
    /// The handshake.
    Connection,
}

impl Held {
    pub(super) const fn kind(&self) -> Refused {
        match self {
            Self::Call(_) => Refused::Call,
            Self::Request(..) => Refused::Request,
            Self::Message(..) => Refused::Message,
            Self::Stream => Refused::Stream,
            Self::Connection => Refused::Connection,
        }
    }
}

impl Waiting {
    /// It is sent again at once.
    pub(super) fn send_again(&mut self, held: Held) {
        self.count(&held);
        self.readmitted.push(held);
    }

    /// It waits: here, or where its state is.
    pub(super) fn keep(&mut self, held: Held) {
        self.count(&held);
        match held {
            Held::Request(id, used) => self.requests.push((id, used)),
            Held::Message(message, used) => self.messages.push((message, used)),
            Held::Call(_) | Held::Stream | Held::Connection => {}
        }
    }

    const fn count(&mut self, held: &Held) {
        if matches!(held, Held::Connection) {
            self.handshake = self.handshake.more();
        }
    }

    /// The connection is gone: nothing of it waits any more. How often handshakes were refused goes on to be counted.
    pub(super) fn forget(&mut self) {
        let mut readmitted = core::mem::take(&mut self.readmitted);
        readmitted.retain(|it| matches!(it, Held::Connection));
        *self = Self { readmitted, handshake: self.handshake, ..Self::default() };
    }
}
