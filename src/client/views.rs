//! Typed views of what a server sends, with the raw JSON beside them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::jsonrpc::Json;
use crate::protocol::method;

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
        Json::from(&*self.raw).member("message").and_then(Json::as_string)
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
        Json::from(&*self.raw).member(name).and_then(Json::as_string)
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let number = Json::from(&*self.raw).member(name)?;
        number.text().parse().ok().map(Duration::from_millis)
    }
}
