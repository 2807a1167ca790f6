use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use super::options::LogLevel;
use super::views::{Progress, ServerMethod};
use crate::Time;
use crate::catalog::Difference;
use crate::jsonrpc::ErrorObject;
use crate::machine::QuirkKind;
use crate::protocol::Family;

/// An event that the client reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Handshake and discovery are done: see [`Engine::server`](crate::Engine::server) and
    /// [`Engine::catalog`](crate::Engine::catalog). It is repeated after each reconnect.
    Ready,
    /// The list of a family changed.
    CatalogChanged {
        /// The family.
        family: Family,
        /// The difference from the list before.
        difference: Difference,
    },
    /// A request ended. Each accepted request ends exactly once.
    Finished {
        /// The request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The server requires input before it continues with a request (specification 2026-07-28, "Multi Round-Trip
    /// Requests"): provide it with [`Client::provide`](crate::Client::provide), or decline with
    /// [`Client::decline`](crate::Client::decline).
    InputRequired {
        /// The request.
        request: RequestId,
        /// The inputs that the server requires, except those that the engine provides itself.
        inputs: Vec<InputRequest>,
    },
    /// The server requires authorization (specification 2026-07-28, "Authorization"): authorize the next requests as
    /// the challenges say, and call [`Client::authorized`](crate::Client::authorized). If `request` is set, that
    /// request waits, unless [`Client::decline`](crate::Client::decline) ends it. Otherwise the handshake or a list was
    /// refused.
    Unauthorized {
        /// The embedder's request that was refused, if it is one.
        request: Option<RequestId>,
        /// The status is 403: the server refuses an authorized request.
        forbidden: bool,
        /// The server's message.
        why: Box<str>,
        /// The challenges of the response.
        challenges: Box<[Challenge]>,
    },
    /// The server sent a request that the embedder responds to with [`Client::respond`](crate::Client::respond).
    ServerRequest {
        /// The id of the server request.
        id: ServerRequestId,
        /// The method.
        method: ServerMethod,
        /// The parameters, raw.
        params: Option<Box<RawValue>>,
    },
    /// A server request needs no response any more: the server cancelled it, it timed out and was declined, or the
    /// connection is lost.
    ServerRequestEnded {
        /// The id of the server request.
        id: ServerRequestId,
    },
    /// The server reported progress of a request that was made with [`Request::progress`](crate::Request::progress).
    Progress {
        /// The request.
        request: RequestId,
        /// The progress.
        progress: Progress,
    },
    /// The result of [`Client::subscribe`](crate::Client::subscribe). It is repeated after each reconnect: changes in
    /// between were not announced.
    Subscription {
        /// The resource.
        uri: Box<str>,
        /// `Ok` if the server announces changes of the resource; otherwise the server's message.
        outcome: Result<(), Box<str>>,
    },
    /// A resource with a subscription, or a part of it, changed.
    ResourceUpdated {
        /// The URI of what changed.
        uri: Box<str>,
    },
    /// The server sent a log message.
    Log {
        /// The severity.
        level: LogLevel,
        /// The server's name for the part that logged.
        logger: Option<Box<str>>,
        /// The data, raw.
        data: Box<RawValue>,
    },
    /// The server sent a notification that this crate does not know.
    Notification {
        /// The method.
        method: Box<str>,
        /// The parameters, raw.
        params: Option<Box<RawValue>>,
    },
    /// A deviation of the server from the protocol was tolerated.
    Quirk(Quirk),
    /// The connection is lost, or unusable.
    Down {
        /// Why.
        failure: Failure,
        /// What follows.
        next: Recovery,
    },
    /// The client is closed. No event follows.
    Closed {
        /// Why.
        cause: Cause,
    },
}

impl Event {
    /// Bytes of data that the server sent unsolicited.
    pub(crate) fn payload(&self) -> usize {
        match self {
            Self::ServerRequest { params, .. } => params.as_ref().map_or(0, |params| params.get().len()),
            Self::Notification { method, params } => {
                method.len().saturating_add(params.as_ref().map_or(0, |params| params.get().len()))
            }
            Self::Progress { progress, .. } => progress.raw().get().len(),
            Self::ResourceUpdated { uri } => uri.len(),
            Self::Log { logger, data, .. } => {
                data.get().len().saturating_add(logger.as_ref().map_or(0, |logger| logger.len()))
            }
            Self::Ready
            | Self::InputRequired { .. }
            | Self::CatalogChanged { .. }
            | Self::Finished { .. }
            | Self::ServerRequestEnded { .. }
            | Self::Unauthorized { .. }
            | Self::Subscription { .. }
            | Self::Quirk(_)
            | Self::Down { .. }
            | Self::Closed { .. } => 0,
        }
    }
}

/// A challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1). Its `Debug` shows the names of the parameters,
/// not the values.
#[derive(Clone, PartialEq, Eq)]
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

/// The id of a request of the embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// An input that a server requires before it continues with a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InputRequest {
    /// The server's key for the input.
    pub key: Box<str>,
    /// The method.
    pub method: ServerMethod,
    /// The parameters, raw.
    pub params: Option<Box<RawValue>>,
}

/// The id of a server request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerRequestId(pub(super) u64);

/// How a request ended.
#[derive(Clone, Debug)]
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
    /// The deadline passed without a response.
    TimedOut,
    /// The embedder cancelled it.
    Cancelled,
    /// The client closed before the request was sent.
    NotSent,
    /// The request was sent, and the connection was lost before a response: it may have run.
    Unknown,
}

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
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
}

impl RequestError {
    /// The server's JSON-RPC error, if there is one.
    pub const fn server(&self) -> Option<&ErrorObject> {
        match self {
            Self::Server(error) => Some(error),
            Self::Status { .. } | Self::Invalid(_) => None,
        }
    }

    /// The code of the server's JSON-RPC error, if there is one.
    pub const fn code(&self) -> Option<i64> {
        match self {
            Self::Server(error) => Some(error.code),
            Self::Status { .. } | Self::Invalid(_) => None,
        }
    }
}

/// A deviation of the server that was tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirk {
    /// The kind of deviation.
    pub kind: QuirkKind,
    /// The family that it concerns, if any.
    pub family: Option<Family>,
    /// The method that it concerns, if any. A kind is recorded once per method.
    pub method: Option<Box<str>>,
    /// A description for people.
    pub detail: Box<str>,
}

/// Why a connection is lost or unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// A message for people: the server, the method, what was expected and what was received.
    pub message: Box<str>,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The command could not be started.
    Spawn,
    /// The server could not be reached.
    Connect,
    /// The handshake timed out.
    HandshakeTimeout,
    /// The server refused the handshake, or supports only an era that the options exclude.
    HandshakeRejected,
    /// The client and the server have no version in common.
    UnsupportedVersion,
    /// The server violated the protocol: its response is invalid.
    Protocol,
    /// A list failed.
    ListFailed,
    /// The server closed the connection, or its sessions expire as soon as they are opened.
    Closed,
    /// The server requires authorization.
    Unauthorized,
    /// The server refused an authorized request.
    Forbidden,
}

impl FailureKind {
    /// The kind's stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Connect => "connect",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::HandshakeRejected => "handshake-rejected",
            Self::UnsupportedVersion => "unsupported-version",
            Self::Protocol => "protocol",
            Self::ListFailed => "list-failed",
            Self::Closed => "closed",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What follows after a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// The transport is opened again at this time. Without a time: some time after the current transport is shut down.
    Reopen {
        /// When.
        at: Option<Time>,
    },
    /// The client is parked: it reconnects at this time, or when [`Client::open`](crate::Client::open) is called.
    Parked {
        /// When.
        until: Time,
    },
    /// The client closes.
    Close,
}

/// Why a client closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The embedder closed it.
    Requested,
    /// A failure that cannot be retried.
    Failed(Failure),
}

/// Why a command of [`Client`](crate::Client) was refused. The command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The client is open already.
    #[error("the session is open already")]
    AlreadyOpen,
    /// The client is closed or closing.
    #[error("the session is closed")]
    Closed,
    /// The client is not ready.
    #[error("the session is not ready")]
    NotReady,
    /// The server did not declare the capability that the method needs.
    #[error("{server} does not declare `{capability}`, which `{method}` needs")]
    NotAdvertised {
        /// The server's name in [`Options`](crate::Options).
        server: Box<str>,
        /// The method.
        method: Box<str>,
        /// The capability.
        capability: &'static str,
    },
    /// The engine sends this request or notification itself.
    #[error("`{method}` is the engine's own to send")]
    Reserved {
        /// The method.
        method: Box<str>,
    },
    /// The parameters or the result are not a JSON object.
    #[error("the parameters must be a JSON object")]
    ParamsNotObject,
    /// The limit of queued requests or of undelivered output is reached.
    #[error("{limit} requests wait already")]
    TooManyRequests {
        /// The limit that was reached: [`Limits::queued`](crate::Limits::queued) or
        /// [`Limits::output`](crate::Limits::output).
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
    /// No such server request is open.
    #[error("no such question is open")]
    UnknownServerRequest,
}
