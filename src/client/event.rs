//! What is reported to the embedder, and typed views of it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::outcome::{Challenge, Outcome, RefreshOutcome, RequestError, ResendReason};
use crate::Time;
use crate::catalog::Difference;
use crate::jsonrpc::Json;
use crate::machine::QuirkKind;
use crate::protocol::{Family, method};

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
    /// [`Engine::catalog`](crate::Engine::catalog). It is repeated after each reconnect, and over HTTP after each new
    /// session; not by a restored client whose connection goes on ([`Engine::is_ready`](crate::Engine::is_ready)).
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
        /// How often it was sent, which is how often its message was polled; a redirect counts as the same attempt. 0: it was
        /// never sent. More than once: see [`Resending`](Self::Resending). Requests about its task do not count, so that
        /// of [`Request::resume_task`](crate::Request::resume_task) this is 0.
        attempts: u32,
        /// Why its connection or its exchange is lost, if it ended as [`Outcome::Unknown`] or [`Outcome::NotSent`] because of
        /// that. [`Diagnosis`](crate::Diagnosis) finds the cause.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        failure: Option<Arc<Failure>>,
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
        method: Cow<'static, str>,
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
    /// The connection is lost, or unusable. What that ends is reported before: requests that may have run
    /// ([`Finished`](Self::Finished)), and those that are sent again ([`Resending`](Self::Resending)). Over HTTP it may also be
    /// that nobody is reached while requests are in flight, which may still end well
    /// ([`Recovery::Resume`]).
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

/// The id of a request of the embedder. It is unique within a client, also after reconnects and when the request is sent
/// again, and later requests have higher ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId(pub(super) u64);

impl RequestId {
    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as a number. Between two requests there may be gaps: requests of the client itself take numbers, too. It is not
    /// the id of the message, which differs when the request is sent again.
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
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Spawn,
        Self::Connect,
        Self::HandshakeTimeout,
        Self::HandshakeRejected,
        Self::UnsupportedVersion,
        Self::Protocol,
        Self::ListFailed,
        Self::Closed,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Overrun,
    ];

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
    /// Over HTTP, nobody is reached, and what is in flight is tried again: three times, after 1, 2 and 4 s. Nothing else is
    /// sent meanwhile. [`Ready`](Event::Ready) follows if the server answers; another [`Down`](Event::Down) if it does not,
    /// after the ends of the requests.
    Resume {
        /// When it is tried next.
        at: Time,
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

/// The severity of a log message (RFC 5424).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Detail for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal, but significant.
    Notice,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
    /// A failure of a component.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level with this name in the protocol.
    pub(super) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name of the level in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// The parameters of `notifications/progress` (specification 2026-07-28, "Progress").
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Progress {
    raw: Box<RawValue>,
}

impl Progress {
    /// The progress that these parameters report.
    pub const fn new(raw: Box<RawValue>) -> Self {
        Self { raw }
    }

    /// The progress so far; it grows with each notification, in any unit.
    pub fn progress(&self) -> Option<f64> {
        self.number("progress")
    }

    /// The total, if the server knows it.
    pub fn total(&self) -> Option<f64> {
        self.number("total")
    }

    /// A description for people.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        Json::from(&*self.raw).member("message").and_then(Json::as_text)
    }

    /// The parameters, byte for byte.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    fn number(&self, name: &str) -> Option<f64> {
        Json::from(&*self.raw).member(name).and_then(|number| number.text().parse().ok())
    }
}

/// The method of a server request, or of required input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ServerMethod {
    /// `elicitation/create`: input from the user, by a form or at a URL (specification 2025-11-25, "Elicitation").
    #[cfg_attr(feature = "serde", serde(rename = "elicitation/create"))]
    Elicitation,
    /// `sampling/createMessage`: a completion by the client's model (specification 2025-11-25, "Sampling").
    #[cfg_attr(feature = "serde", serde(rename = "sampling/createMessage"))]
    Sampling,
}

impl ServerMethod {
    /// The method's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => method::ELICITATION,
            Self::Sampling => method::SAMPLING,
        }
    }

    /// The method of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            method::ELICITATION => Some(Self::Elicitation),
            method::SAMPLING => Some(Self::Sampling),
            _ => None,
        }
    }
}

impl fmt::Display for ServerMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of a task (specification of the extension `io.modelcontextprotocol/tasks`, Task Status; 2025-11-25,
/// "Tasks").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// The server works on it.
    Working,
    /// It requires input.
    InputRequired,
    /// It has a result.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskStatus {
    const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status with this name in the protocol.
    fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// The name of the status in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A task that the server runs a call as, as the server described it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Task {
    raw: Box<RawValue>,
}

impl Task {
    /// The task that this JSON object describes.
    pub const fn new(raw: Box<RawValue>) -> Self {
        Self { raw }
    }

    /// The server's id of the task (`taskId`). It may allow whoever has it to read the result.
    pub fn id(&self) -> Option<Cow<'_, str>> {
        self.string("taskId")
    }

    /// The status.
    pub fn status(&self) -> Option<TaskStatus> {
        self.string("status").and_then(|name| TaskStatus::read(&name))
    }

    /// A description of the status for people (`statusMessage`).
    pub fn message(&self) -> Option<Cow<'_, str>> {
        self.string("statusMessage")
    }

    /// How long the server keeps the task, from its creation (`ttlMs`, in 2025-11-25 `ttl`).
    pub fn ttl(&self) -> Option<Duration> {
        self.millis("ttlMs").or_else(|| self.millis("ttl"))
    }

    /// The wait before the next poll (`pollIntervalMs`, in 2025-11-25 `pollInterval`).
    pub fn poll_interval(&self) -> Option<Duration> {
        self.millis("pollIntervalMs").or_else(|| self.millis("pollInterval"))
    }

    /// The task, byte for byte.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        Json::from(&*self.raw).member(name).and_then(Json::as_text)
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let millis = Json::from(&*self.raw).member(name)?;
        let integer = || millis.as_integer().and_then(|millis| u64::try_from(millis).ok());
        millis.text().parse().ok().or_else(integer).map(Duration::from_millis)
    }
}

/// Counts of messages that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Responses to requests that had timed out or were cancelled.
    pub late_answers: u64,
    /// Notifications and requests of the server that were left out, because too many actions waited to be polled,
    /// or progress or log messages came too often, or they name a stream that is not the client's.
    pub left_out: u64,
    /// Responses and notifications of the client that were dropped over HTTP before they were sent: they were not
    /// polled in time, or the server did not accept the messages before them.
    pub undelivered: u64,
}

fn same(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    one.map(RawValue::get) == other.map(RawValue::get)
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        match self {
            Self::Ready => matches!(other, Self::Ready),
            Self::CatalogChanged { family, difference } => {
                matches!(other, Self::CatalogChanged { family: f, difference: d } if family == f && difference == d)
            }
            Self::Refreshed { family, outcome } => {
                matches!(other, Self::Refreshed { family: f, outcome: o } if (family, outcome) == (f, o))
            }
            Self::Finished { request, outcome, attempts, failure } => {
                matches!(other, Self::Finished { request: r, outcome: o, attempts: a, failure: f }
                    if (request, outcome, attempts, failure) == (r, o, a, f))
            }
            Self::Resending { request, attempt, reason } => {
                matches!(other, Self::Resending { request: r, attempt: a, reason: why }
                    if (request, attempt, reason) == (r, a, why))
            }
            Self::InputRequired { request, inputs } => {
                matches!(other, Self::InputRequired { request: r, inputs: i } if request == r && inputs == i)
            }
            Self::Unauthorized { request, forbidden, why, challenges } => {
                matches!(other, Self::Unauthorized { request: r, forbidden: f, why: w, challenges: c }
                    if (request, forbidden, why, challenges) == (r, f, w, c))
            }
            Self::ServerRequest { id, method, params } => {
                matches!(other, Self::ServerRequest { id: i, method: m, params: p }
                    if (id, method) == (i, m) && same(params.as_deref(), p.as_deref()))
            }
            Self::ServerRequestEnded { id, reason } => {
                matches!(other, Self::ServerRequestEnded { id: i, reason: r } if (id, reason) == (i, r))
            }
            Self::Progress { request, progress } => {
                matches!(other, Self::Progress { request: r, progress: p } if request == r && progress == p)
            }
            Self::Task { request, task } => {
                matches!(other, Self::Task { request: r, task: t } if request == r && task == t)
            }
            Self::ElicitationComplete { id, request } => {
                matches!(other, Self::ElicitationComplete { id: i, request: r } if id == i && request == r)
            }
            Self::Subscription { uri, outcome } => {
                matches!(other, Self::Subscription { uri: u, outcome: o } if uri == u && outcome == o)
            }
            Self::ResourceUpdated { uri } => matches!(other, Self::ResourceUpdated { uri: u } if uri == u),
            Self::Log { level, logger, data } => {
                matches!(other, Self::Log { level: l, logger: g, data: d }
                    if (level, logger, data.get()) == (l, g, d.get()))
            }
            Self::LogLevelFailed { error } => matches!(other, Self::LogLevelFailed { error: e } if error == e),
            Self::Notification { method, params } => {
                matches!(other, Self::Notification { method: m, params: p }
                    if method == m && same(params.as_deref(), p.as_deref()))
            }
            Self::Quirk(quirk) => matches!(other, Self::Quirk(q) if quirk == q),
            Self::Down { failure, next } => {
                matches!(other, Self::Down { failure: f, next: n } if failure == f && next == n)
            }
            Self::Closed { cause } => matches!(other, Self::Closed { cause: c } if cause == c),
        }
    }
}

impl Eq for Event {}

impl PartialEq for InputRequest {
    fn eq(&self, other: &Self) -> bool {
        let Self { key, method, params } = self;
        (key, method) == (&other.key, &other.method) && same(params.as_deref(), other.params.as_deref())
    }
}

impl Eq for InputRequest {}

impl PartialEq for Progress {
    fn eq(&self, other: &Self) -> bool {
        self.raw().get() == other.raw().get()
    }
}

impl Eq for Progress {}

impl PartialEq for Task {
    fn eq(&self, other: &Self) -> bool {
        self.raw().get() == other.raw().get()
    }
}

impl Eq for Task {}
