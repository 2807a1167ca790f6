//! What waits for a token, beside requests of the embedder, which wait in the engine.

use alloc::vec::Vec;

use crate::client::Outgoing;
use crate::machine::resend::Used;

/// What waits, each with how often it was refused for lack of authorization.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Requests of the engine, by their ids on the wire.
    pub(super) requests: Vec<(u64, Used)>,
    /// Notifications and responses, which are as many as may be in flight.
    pub(super) messages: Vec<(Outgoing, Used)>,
    /// What is sent again at once, because the refusal was about what is known by now.
    pub(super) readmitted: Vec<Readmitted>,
    /// How often the handshakes were refused since the client was ready last.
    pub(super) handshake: Used,
    /// How often the GET stream was refused since it was open last.
    pub(super) stream: Used,
}

/// What is sent again at once.
#[derive(Clone, Debug)]
pub(super) enum Readmitted {
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

impl Waiting {
    /// The connection is gone: nothing of it waits any more. How often handshakes were refused goes on to be counted.
    pub(super) fn forget(&mut self) {
        let mut readmitted = core::mem::take(&mut self.readmitted);
        readmitted.retain(|it| matches!(it, Readmitted::Connection));
        *self = Self { readmitted, handshake: self.handshake, ..Self::default() };
    }
}
