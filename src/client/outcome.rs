use alloc::boxed::Box;
use serde_json::value::RawValue;

use crate::jsonrpc::ErrorObject;

/// How a request ended.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Outcome {
    /// The server's result, byte for byte. For a tool call that includes results with `"isError": true`.
    Result(Box<RawValue>),
    /// The request failed.
    Error(RequestError),
    /// The server requires input, and the embedder declined, or the client did not declare the capability that the
    /// input needs. The result is the server's, byte for byte.
    InputRequired(Box<RawValue>),
    /// The server did not declare the capability that the method needs; nothing was sent.
    NotAdvertised,
    /// A bound on its time passed without a response. If it was sent, it is cancelled, and may have run.
    TimedOut(TimeBound),
    /// The embedder cancelled it.
    Cancelled,
    /// The client closed before the request was sent, or the proof that its token is its own was not signed.
    NotSent,
    /// The request was sent, and the connection was lost before a response: it may have run.
    Unknown,
}

/// Which bound on a request's time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TimeBound {
    /// [`Request::timeout`](crate::Request::timeout): neither a response nor progress for this time.
    Timeout,
    /// [`Request::max_timeout`](crate::Request::max_timeout): the server reported progress, or ran the request as a task,
    /// up to the maximum time.
    Total,
}

/// The outcome of [`Client::refresh`](crate::Client::refresh).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum RefreshOutcome {
    /// The list is the same.
    Same,
    /// The list differs: see the [`Event::CatalogChanged`](crate::Event::CatalogChanged) before this event.
    Differs,
    /// A limit ended the list, and its beginning was taken.
    Part,
    /// The list failed, with this message, and the one before is kept. It is requested again after a wait, without
    /// another outcome.
    Failed(Box<str>),
}

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ResendReason {
    /// Its connection or exchange broke before a response. It may run more than once.
    Lost,
    /// It did not reach the server.
    NotSent,
    /// The session expired.
    SessionExpired,
    /// The server required authorization, which the embedder provided.
    Authorized,
    /// The server refused its headers, and the tool's schema was requested again.
    Headers,
    /// The server was busy, and named a time (`Retry-After`).
    Busy,
    /// The server required input, which was provided: the next round of the request.
    Input,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum RequestError {
    /// The server's JSON-RPC error.
    #[error("{0}")]
    Server(ErrorObject),
    /// An HTTP status without a JSON-RPC error.
    #[error("HTTP {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status {
        /// The status.
        status: u16,
        /// The server's text, shortened.
        message: Box<str>,
    },
    /// The response is invalid.
    #[error("{0}")]
    Invalid(Box<str>),
    /// The task that the server ran the call as ended without a result and without an error of the server.
    #[error("{0}")]
    Task(TaskError),
}

/// How a task ended without a result and without an error of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum TaskError {
    /// The server cancelled it.
    #[error("the server cancelled the task{}{message}", if message.is_empty() { "" } else { ": " })]
    Cancelled {
        /// The server's message, shortened.
        message: Box<str>,
    },
    /// It failed, and the server does not say with which error.
    #[error("the task failed{}{message}", if message.is_empty() { "" } else { ": " })]
    Failed {
        /// The server's message, shortened.
        message: Box<str>,
    },
    /// The server answered with another task than the one that was asked for.
    #[error("the server answered with another task")]
    OtherTask,
    /// The server said that it was over, and later that it was not.
    #[error("the task was over, and is not over any more")]
    Reopened,
}

impl RequestError {
    /// The server's JSON-RPC error, if there is one.
    pub const fn server(&self) -> Option<&ErrorObject> {
        match self {
            Self::Server(error) => Some(error),
            Self::Status { .. } | Self::Invalid(_) | Self::Task(_) => None,
        }
    }

    /// The code of the server's JSON-RPC error, if there is one.
    pub const fn code(&self) -> Option<i64> {
        match self {
            Self::Server(error) => Some(error.code),
            Self::Status { .. } | Self::Invalid(_) | Self::Task(_) => None,
        }
    }
}
