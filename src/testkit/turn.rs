//! What a request causes: questions, messages before the answer, and the answer.

use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use serde_json::Value;

use super::content::Ask;

/// What a request causes, with times since it came or, if the server asks first, since the client's last answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Turn {
    /// What the server asks before it runs the request.
    pub(super) asks: Vec<Ask>,
    /// Notifications about the request, before its answer.
    pub(super) said: Vec<(Duration, Value)>,
    /// The time until the answer.
    pub(super) takes: Duration,
    pub(super) answer: Answer,
}

impl Turn {
    /// An answer, at once.
    pub(super) fn of(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Answer {
    #[default]
    None,
    /// A result or an error object. Over HTTP, the response has this status if it is not a stream.
    Message { status: u16, outcome: Result<Value, Value> },
    /// An HTTP response without a message.
    Status { status: u16, headers: Vec<(&'static str, String)>, text: String },
    /// The connection breaks.
    Break,
}
