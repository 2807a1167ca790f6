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

/// Something to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Handshake and discovery are done: see [`Engine::server`](crate::Engine::server) and
    /// [`Engine::catalog`](crate::Engine::catalog). It comes again after each reconnect.
    Ready,
    /// A family's list is another than before.
    CatalogChanged {
        /// The family.
        family: Family,
        /// In what it differs.
        difference: Difference,
    },
    /// A request ended. Each that was accepted ends once.
    Finished {
        /// The request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The server needs input before it goes on with a request (specification 2026-07-28, "Multi Round-Trip
    /// Requests"): give it with [`Client::provide`](crate::Client::provide), or not, with
    /// [`Client::decline`](crate::Client::decline).
    InputRequired {
        /// The request.
        request: RequestId,
        /// What the server wants to know; what the engine itself answers is not among it.
        inputs: Vec<InputRequest>,
    },
    /// The server wants to know who asks (specification 2026-07-28, "Authorization"): give what the challenges want
    /// with the next requests, and say so with [`Client::authorized`](crate::Client::authorized). A request of the
    /// embedder's waits for that, unless [`Client::decline`](crate::Client::decline) ends it; without one the
    /// handshake or a list was refused.
    Unauthorized {
        /// The request.
        request: Option<RequestId>,
        /// The server knows who asks, and refuses all the same (403).
        forbidden: bool,
        /// What the server said.
        why: Box<str>,
        /// What it wants.
        challenges: Box<[Challenge]>,
    },
    /// The server asks what the client declared to offer: answer with [`Client::respond`](crate::Client::respond).
    ServerRequest {
        /// The question.
        id: ServerRequestId,
        /// What it asks.
        method: ServerMethod,
        /// What it asks, raw.
        params: Option<Box<RawValue>>,
    },
    /// A question needs no answer any more: the server took it back, it was declined for want of time, or the
    /// connection is gone.
    ServerRequestEnded {
        /// The question.
        id: ServerRequestId,
    },
    /// A request that was made with [`Request::progress`](crate::Request::progress) got further.
    Progress {
        /// The request.
        request: RequestId,
        /// How far it got.
        progress: Progress,
    },
    /// What became of a wish to be told of a resource ([`Client::subscribe`](crate::Client::subscribe)). It comes
    /// again where the wish had to be told anew, after a reconnect say: what the resource became in between, the
    /// server did not tell.
    Subscription {
        /// The resource.
        uri: Box<str>,
        /// The server tells of its changes; or it does not, in the server's words.
        outcome: Result<(), Box<str>>,
    },
    /// A resource that was subscribed to, or a part of it, changed.
    ResourceUpdated {
        /// What changed.
        uri: Box<str>,
    },
    /// The server has something to say for its log.
    Log {
        /// How severe it is.
        level: LogLevel,
        /// Which part of the server says it.
        logger: Option<Box<str>>,
        /// What it says, raw.
        data: Box<RawValue>,
    },
    /// The server tells something that this crate does not know.
    Notification {
        /// What it tells.
        method: Box<str>,
        /// The parameters, raw.
        params: Option<Box<RawValue>>,
    },
    /// The server deviated from its protocol, and was tolerated.
    Quirk(Quirk),
    /// The connection is of no use any more.
    Down {
        /// Why.
        failure: Failure,
        /// What follows.
        next: Recovery,
    },
    /// The end. Nothing follows.
    Closed {
        /// Why.
        cause: Cause,
    },
}

impl Event {
    /// Bytes of what the server sent unasked.
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
    /// A challenge.
    pub fn new(scheme: impl Into<Box<str>>, params: Vec<(Box<str>, Box<str>)>) -> Self {
        Self { scheme: scheme.into(), params }
    }

    /// The value of a parameter; case does not matter in its name.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// A request of the embedder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// Something that a server wants to know before it goes on with a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InputRequest {
    /// The server's key for it.
    pub key: Box<str>,
    /// What the server asks.
    pub method: ServerMethod,
    /// What it asks, raw.
    pub params: Option<Box<RawValue>>,
}

/// A question of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerRequestId(pub(super) u64);

/// How a request ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The server's result, byte for byte.
    Result(Box<RawValue>),
    /// It failed.
    Error(RequestError),
    /// The server needs input before it can go on, and got none, or wants what the client did not offer. The result is
    /// the server's, byte for byte.
    InputRequired(Box<RawValue>),
    /// The server lacks the capability that the method needs; nothing was sent.
    NotAdvertised,
    /// There was no answer in time.
    TimedOut,
    /// The embedder cancelled it.
    Cancelled,
    /// The session ended before it was sent.
    NotSent,
    /// It was sent, and the connection broke before an answer: it may have run.
    Unknown,
}

/// Why a request failed that has a response, or what was received in place of one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server's JSON-RPC error.
    #[error("{0}")]
    Server(ErrorObject),
    /// The server refused the request by an HTTP status, without a JSON-RPC error.
    #[error("HTTP {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status {
        /// The status.
        status: u16,
        /// The server's text, or a part of it.
        message: Box<str>,
    },
    /// The engine found that the response is not a valid one.
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

/// A deviation of the server's that was tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirk {
    /// What kind.
    pub kind: QuirkKind,
    /// The family that it concerns.
    pub family: Option<Family>,
    /// The method that it concerns. A kind is recorded once for each method.
    pub method: Option<Box<str>>,
    /// What the server did, for people.
    pub detail: Box<str>,
}

/// Why a connection is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// Which server, which method, what was expected, what came: for people.
    pub message: Box<str>,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The command cannot be started.
    Spawn,
    /// Nobody answers there.
    Connect,
    /// The handshake did not end in time.
    HandshakeTimeout,
    /// The server refused the handshake, or speaks only an era that the options exclude.
    HandshakeRejected,
    /// Both sides named versions, and there is none in common.
    UnsupportedVersion,
    /// The server's answer makes no sense.
    Protocol,
    /// A list failed.
    ListFailed,
    /// The server went away, or forgets its sessions as soon as they are opened.
    Closed,
    /// The server wants to know who asks.
    Unauthorized,
    /// The server knows who asks, and refuses.
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

/// What follows when a connection is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// The transport is opened again at this time; or some time after the one in use is shut, where there is none.
    Reopen {
        /// When.
        at: Option<Time>,
    },
    /// The session is parked: it tries again at this time, or when [`Client::open`](crate::Client::open) says so.
    Parked {
        /// When.
        until: Time,
    },
    /// The session ends.
    Close,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The embedder closed it.
    Requested,
    /// It failed.
    Failed(Failure),
}

/// What [`Client`](crate::Client) refuses to do. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The session is open already.
    #[error("the session is open already")]
    AlreadyOpen,
    /// The session is closed, or closing.
    #[error("the session is closed")]
    Closed,
    /// There is no connection that is ready.
    #[error("the session is not ready")]
    NotReady,
    /// The server lacks the capability that the method needs.
    #[error("{server} does not declare `{capability}`, which `{method}` needs")]
    NotAdvertised {
        /// The server's name in [`Options`](crate::Options).
        server: Box<str>,
        /// The method.
        method: Box<str>,
        /// The capability.
        capability: &'static str,
    },
    /// The engine itself makes this request or sends this notification.
    #[error("`{method}` is the engine's own to send")]
    Reserved {
        /// The method.
        method: Box<str>,
    },
    /// The parameters are no JSON object.
    #[error("the parameters must be a JSON object")]
    ParamsNotObject,
    /// Too much waits already: requests, or what is to be polled or delivered.
    #[error("{limit} requests wait already")]
    TooManyRequests {
        /// The bound that was reached, of [`Limits::queued`](crate::Limits::queued) and
        /// [`Limits::output`](crate::Limits::output).
        limit: usize,
    },
    /// Too many resources are subscribed to.
    #[error("{limit} resources are subscribed to already")]
    TooManySubscriptions {
        /// The bound.
        limit: usize,
    },
    /// The resource is not subscribed to.
    #[error("the resource is not subscribed to")]
    UnknownSubscription,
    /// There is no such request, or it ended.
    #[error("no such request is open")]
    UnknownRequest,
    /// There is no such question, or it ended.
    #[error("no such question is open")]
    UnknownServerRequest,
}
