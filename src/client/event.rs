use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use super::challenge::Challenge;
use super::outcome::{Outcome, RefreshOutcome, RequestError, ResendReason};
use super::views::{LogLevel, Progress, ServerMethod, Task};
use crate::Time;
use crate::catalog::Difference;
use crate::machine::QuirkKind;
use crate::protocol::Family;

/// An event that the client reports.
///
/// With the feature `serde` it is serialized as an object with `type`, the variant in snake case, and `value`, its
/// content: `{"type": "resource_updated", "value": {"uri": "file:///a"}}`. Other enums whose variants have content have
/// the same form.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
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
    /// The outcome of [`Client::refresh`](crate::Client::refresh). Commands that come before the list is requested have
    /// one outcome together. While an event of the same family and kind of outcome is not polled, it is not repeated.
    Refreshed {
        /// The family.
        family: Family,
        /// The outcome.
        outcome: RefreshOutcome,
    },
    /// A request ended. Each accepted request ends exactly once.
    Finished {
        /// The request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
        /// How often it was sent. More than once: see [`Resending`](Self::Resending).
        attempts: u32,
    },
    /// A request is sent again. A host that retries on its own multiplies these attempts with its own: `replay(false)`
    /// of [`Request`](crate::Request) limits them to those that certainly did not run twice.
    Resending {
        /// The request.
        request: RequestId,
        /// Which attempt this is, counted from 1; [`Finished`](Self::Finished) has the number of those that were sent.
        attempt: u32,
        /// Why.
        reason: ResendReason,
    },
    /// The server requires input before it continues with a request (specification 2026-07-28, "Multi Round-Trip
    /// Requests"): provide it with [`Client::provide`](crate::Client::provide), or decline with
    /// [`Client::decline`](crate::Client::decline).
    ///
    /// In 2025-11-25 a server may refuse a request until the user has visited URLs ("Elicitation", -32042): each is an
    /// input, with the id of the elicitation as its key. Provide `{"action": "accept"}` for each when the user is done,
    /// and the request is sent again, once. Any other action, or declining, ends it with the server's error.
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
        #[cfg_attr(
            feature = "serde",
            serde(
                default,
                skip_serializing_if = "Option::is_none",
                deserialize_with = "crate::form::optional_raw::deserialize"
            )
        )]
        params: Option<Box<RawValue>>,
    },
    /// A server request needs no response any more: the server cancelled it, it timed out and was cancelled, or the
    /// connection is lost.
    ServerRequestEnded {
        /// The id of the server request.
        id: ServerRequestId,
        /// The server's reason, shortened, if it cancelled the request and gave one.
        #[cfg_attr(feature = "serde", serde(default))]
        reason: Option<Box<str>>,
    },
    /// The server reported progress of a request that was made with [`Request::progress`](crate::Request::progress).
    Progress {
        /// The request.
        request: RequestId,
        /// The progress.
        progress: Progress,
    },
    /// The server runs a call as a task, or the status or message of the task changed. The call goes on until
    /// [`Finished`](Self::Finished).
    Task {
        /// The call.
        request: RequestId,
        /// The task, as the server described it.
        task: Task,
    },
    /// An elicitation at a URL is complete (specification 2025-11-25, "Elicitation"). If a request waits for it as a
    /// required input, [`Client::provide`](crate::Client::provide) has it sent again.
    ElicitationComplete {
        /// The server's id of the elicitation.
        id: Box<str>,
        /// The request that it is for, if that is known.
        request: Option<RequestId>,
    },
    /// The result of [`Client::subscribe`](crate::Client::subscribe). It is repeated after each reconnect: changes in
    /// between were not announced.
    Subscription {
        /// The resource.
        uri: Box<str>,
        /// `Ok` if the server announces changes of the resource; otherwise the server's message.
        #[cfg_attr(feature = "serde", serde(with = "crate::form::result"))]
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
    /// The server did not set the level of [`Client::set_log_level`](crate::Client::set_log_level) or of
    /// [`Options::log_level`](crate::Options::log_level): it refused it, or did not respond.
    LogLevelFailed {
        /// Why.
        error: RequestError,
    },
    /// The server sent a notification that this crate does not know.
    Notification {
        /// The method.
        method: Box<str>,
        /// The parameters, raw.
        #[cfg_attr(
            feature = "serde",
            serde(
                default,
                skip_serializing_if = "Option::is_none",
                deserialize_with = "crate::form::optional_raw::deserialize"
            )
        )]
        params: Option<Box<RawValue>>,
    },
    /// A deviation of the server from the protocol was tolerated. It is reported once for its kind and method; invalid
    /// and duplicate items are reported again at the end of a list in which they differ from the last report.
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
            Self::Task { task, .. } => task.raw().get().len(),
            Self::ElicitationComplete { id, .. } => id.len(),
            Self::ResourceUpdated { uri } => uri.len(),
            Self::Log { logger, data, .. } => {
                data.get().len().saturating_add(logger.as_ref().map_or(0, |logger| logger.len()))
            }
            Self::Ready
            | Self::InputRequired { .. }
            | Self::CatalogChanged { .. }
            | Self::Refreshed { .. }
            | Self::Finished { .. }
            | Self::Resending { .. }
            | Self::ServerRequestEnded { .. }
            | Self::Unauthorized { .. }
            | Self::Subscription { .. }
            | Self::LogLevelFailed { .. }
            | Self::Quirk(_)
            | Self::Down { .. }
            | Self::Closed { .. } => 0,
        }
    }
}

/// The id of a request of the embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub(super) u64);

impl RequestId {
    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as a number. A client counts its requests from 1.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// An input that a server requires before it continues with a request.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct InputRequest {
    /// The server's key for the input.
    pub key: Box<str>,
    /// The method.
    pub method: ServerMethod,
    /// The parameters, raw.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::form::optional_raw::deserialize"
        )
    )]
    pub params: Option<Box<RawValue>>,
}

impl InputRequest {
    /// An input with this key.
    pub fn new(key: impl Into<Box<str>>, method: ServerMethod, params: Option<Box<RawValue>>) -> Self {
        Self { key: key.into(), method, params }
    }
}

/// The id of a server request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServerRequestId(pub(super) u64);

impl ServerRequestId {
    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as a number. A client counts server requests.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// A deviation of the server that was tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

impl Quirk {
    /// A deviation of this kind, of no family and no method.
    pub fn new(kind: QuirkKind, detail: impl Into<Box<str>>) -> Self {
        Self { kind, family: None, method: None, detail: detail.into() }
    }
}

/// Why a connection is lost or unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// A message for people: the server, the method, what was expected and what was received.
    pub message: Box<str>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<Box<str>>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
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
    /// The server sends requests faster than the embedder polls or delivers the responses to them:
    /// [`Limits::output`](crate::Limits::output) or [`Limits::output_bytes`](crate::Limits::output_bytes) is reached.
    Overrun,
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
            Self::Overrun => "overrun",
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
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
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
        /// The client obtains the authorization that the server requires, by OAuth, and reconnects once it has it.
        #[cfg_attr(feature = "serde", serde(default))]
        authorizing: bool,
    },
    /// The client closes.
    Close,
}

/// Why a client closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Cause {
    /// The embedder closed it.
    Requested,
    /// A failure that cannot be retried.
    Failed(Failure),
}
