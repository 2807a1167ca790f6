//! What waits for a token, beside requests of the embedder, which wait in the engine.

use alloc::vec::Vec;

use crate::client::Outgoing;

#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Requests of the engine, by their ids on the wire.
    pub(super) requests: Vec<u64>,
    /// Notifications and responses, which are as many as may be in flight.
    pub(super) messages: Vec<Outgoing>,
}
