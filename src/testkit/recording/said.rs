#[cfg(feature = "http")]
use std::string::String;
use std::vec::Vec;

use serde_json::Value;

use crate::Time;

/// Something that was said.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) at: Time,
    /// The connection or the exchange.
    pub(super) channel: u64,
    pub(super) said: Said,
}

#[derive(Debug)]
pub(super) enum Said {
    /// The client sent this message.
    Client(Value),
    /// The server sent this message, over HTTP in a response with this status.
    Server { status: u16, message: Value },
    /// The server sent an HTTP response without a message.
    #[cfg(feature = "http")]
    Status { status: u16, headers: Vec<(&'static str, String)>, text: String },
    /// The connection broke.
    Broken,
}

/// The messages in a text: one, or those of a batch.
pub(super) fn messages(text: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(text) {
        Ok(Value::Array(batch)) => batch,
        Ok(message) => Vec::from([message]),
        Err(_) => Vec::new(),
    }
}
