//! How requests end, and why requests and commands are refused.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use crate::jsonrpc::ErrorObject;
use crate::machine::lists::error::Class;
use crate::protocol::error_code;

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
    /// It did not run: the client closed before it was sent, or before it was sent again after a refusal (an expired session,
    /// another version, a busy server), or its proof of possession (DPoP, RFC 9449) was not signed.
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
    /// The server refused the protocol version of the connection, and there was a new handshake.
    VersionRefused,
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

/// Why a command of [`Client`](crate::Client) was refused. Beyond the handling of deadlines that were due, the command
/// changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum CommandError {
    /// The client is open already.
    #[error("the client is open already")]
    AlreadyOpen,
    /// The client is closed or closing.
    #[error("the client is closed")]
    Closed,
    /// The client is not ready.
    #[error("the client is not ready")]
    NotReady,
    /// The server did not declare the capability that the method needs.
    #[error("{server} does not declare `{capability}`, which `{method}` needs")]
    NotAdvertised {
        /// The server's name in [`Options`](crate::Options).
        server: Box<str>,
        /// The method.
        method: Box<str>,
        /// The capability.
        capability: Cow<'static, str>,
    },
    /// The client does not declare the capability that the command needs.
    #[error("the client does not declare `{capability}` in its options")]
    NotDeclared {
        /// The capability.
        capability: Cow<'static, str>,
    },
    /// The engine sends this request or notification itself.
    #[error("`{method}` is sent by the client itself")]
    Reserved {
        /// The method.
        method: Box<str>,
    },
    /// The parameters are not a JSON object.
    #[error("the parameters must be a JSON object")]
    ParamsNotObject,
    /// The result of a server request or of a required input is not a JSON object.
    #[error("the result must be a JSON object")]
    ResultNotObject,
    /// The id of the task to resume is empty or too long.
    #[error("the id of a task has between 1 and {limit} bytes")]
    InvalidTaskId {
        /// Maximum bytes of an id.
        limit: usize,
    },
    /// Another request follows the task already.
    #[error("another request follows the task already")]
    TaskFollowed,
    /// The limit of open requests, of their bytes, or of undelivered output is reached.
    #[error("the limit of {limit} waiting requests, bytes of them, or messages is reached")]
    TooManyRequests {
        /// The limit that was reached: [`Limits::queued`](crate::Limits::queued),
        /// [`Limits::request_bytes`](crate::Limits::request_bytes) or [`Limits::output`](crate::Limits::output).
        limit: usize,
    },
    /// The limit of subscriptions is reached.
    #[error("{limit} resources are subscribed to already")]
    TooManySubscriptions {
        /// The limit: [`Limits::subscriptions`](crate::Limits::subscriptions).
        limit: usize,
    },
    /// There is no subscription to the resource.
    #[error("the resource is not subscribed to")]
    UnknownSubscription,
    /// No such request is open.
    #[error("no such request is open")]
    UnknownRequest,
    /// The server did not require an input with this key.
    #[error("the server did not require an input with the key `{key}`")]
    UnknownInput {
        /// The key.
        key: Box<str>,
    },
    /// The response to a required input is missing.
    #[error("there is no response to the required input with the key `{key}`")]
    MissingInput {
        /// The key.
        key: Box<str>,
    },
    /// Two responses have the same key.
    #[error("there are two responses with the key `{key}`")]
    DuplicateInput {
        /// The key.
        key: Box<str>,
    },
    /// No such server request is open.
    #[error("no such server request is open")]
    UnknownServerRequest,
}

/// A challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1). Its `Debug` shows the names of the parameters,
/// not the values. Its serialized form has both: a challenge needs no secret, and its recipient needs the values.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme: `Bearer`.
    pub scheme: Box<str>,
    /// The parameters, names and values: `resource_metadata`, `scope`, `error`.
    pub params: Vec<(Box<str>, Box<str>)>,
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<_> = self.params.iter().map(|(name, _)| name).collect();
        f.debug_struct("Challenge").field("scheme", &self.scheme).field("params", &params).finish()
    }
}

impl Challenge {
    /// Creates a challenge.
    pub fn new(scheme: impl Into<Box<str>>, params: Vec<(Box<str>, Box<str>)>) -> Self {
        Self { scheme: scheme.into(), params }
    }

    /// The value of a parameter; its name is case-insensitive.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// What an error says about the method. `by_text`: its text may say that the server does not have it.
pub(super) fn class_of(error: &ErrorObject, by_text: bool) -> Class {
    match error.code {
        error_code::METHOD_NOT_FOUND => Class::MethodNotFound,
        _ if by_text && says_not_found(&error.message) => Class::SaysNotFound,
        _ => Class::Other,
    }
}

fn says_not_found(message: &str) -> bool {
    let message = message.to_ascii_lowercase().replace(['_', '-'], " ");
    [
        "method not found",
        "unknown method",
        "unrecognized method",
        "unsupported method",
        "method not supported",
        "no such method",
        "not implemented",
    ]
    .iter()
    .any(|text| message.contains(text))
}

impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        match self {
            Self::Result(result) => matches!(other, Self::Result(r) if result.get() == r.get()),
            Self::Error(error) => matches!(other, Self::Error(e) if error == e),
            Self::InputRequired(result) => matches!(other, Self::InputRequired(r) if result.get() == r.get()),
            Self::NotAdvertised => matches!(other, Self::NotAdvertised),
            Self::TimedOut(bound) => matches!(other, Self::TimedOut(b) if bound == b),
            Self::Cancelled => matches!(other, Self::Cancelled),
            Self::NotSent => matches!(other, Self::NotSent),
            Self::Unknown => matches!(other, Self::Unknown),
        }
    }
}

impl Eq for Outcome {}
