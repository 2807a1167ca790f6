//! The tables: the decisions of a client and of a hub, as pure functions of a state and an input.
//!
//! A state table says what follows from a state and an input, a decision table what a combination of conditions means.
//! Payloads are classified before, and ids, deadlines and cursors are updated after. [`table`] has the macros; the
//! page `guide::tables` of the documentation shows every table.

pub(crate) mod gate;
pub(crate) mod handshake;
#[cfg(feature = "http")]
pub(crate) mod http_connection;
#[cfg(feature = "http")]
pub(crate) mod http_response;
pub(crate) mod hub;
pub(crate) mod keepalive;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod lists;
#[cfg(feature = "oauth")]
pub(crate) mod oauth_attempt;
#[cfg(feature = "oauth")]
pub(crate) mod oauth_credentials;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod task;

pub(crate) use table::{Row, Verdict};

#[cfg(feature = "rows")]
mod rows;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use core::fmt;
use serde::{Deserialize, Serialize};

/// What a decision table returns for what it decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is allowed.
    Allow,
    /// It is allowed, and a deviation of the server is recorded.
    AllowAs(QuirkKind),
    /// It is not allowed.
    Withhold,
    /// It is not allowed, and a deviation of the server is recorded.
    WithholdAs(QuirkKind),
}

impl Decision {
    /// Whether it is allowed.
    pub(crate) const fn is_allowed(self) -> bool {
        match self {
            Self::Allow | Self::AllowAs(_) => true,
            Self::Withhold | Self::WithholdAs(_) => false,
        }
    }

    /// The deviation to record.
    pub(crate) const fn quirk(self) -> Option<QuirkKind> {
        match self {
            Self::Allow | Self::Withhold => None,
            Self::AllowAs(kind) | Self::WithholdAs(kind) => Some(kind),
        }
    }
}

/// How messages are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
#[allow(missing_docs, reason = "only the engine sees it")]
pub enum Wire {
    /// One stream in each direction.
    Pipe,
    /// An HTTP exchange for each message (specification 2026-07-28, "Streamable HTTP"). Nothing is opened, so the first
    /// request shows whether the server can be reached.
    Http,
}

#[cfg(any(test, feature = "rows"))]
impl Wire {
    pub(crate) const ALL: &'static [Self] = &[Self::Pipe, Self::Http];
}

#[cfg(any(test, feature = "rows"))]
impl table::Values for Wire {
    fn all() -> alloc::vec::Vec<Self> {
        Self::ALL.to_vec()
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// The kinds of deviation that the engine tolerates.
        ///
        /// Their names are stable: scripts and dashboards may rely on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum QuirkKind { $($(#[$doc])* $kind),* }

        impl QuirkKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The kind's stable name, in kebab case.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }
        }
    };
}

kinds! {
    /// A family works although its capability was not declared.
    UndeclaredFamily = "undeclared-family",
    /// `list_changed` for a family whose capability was not declared.
    UndeclaredListChanged = "undeclared-list-changed",
    /// A declared method is answered with -32601.
    MethodNotFound = "method-not-found",
    /// An unknown method is answered with another code and a text that says so.
    MethodNotFoundText = "method-not-found-text",
    /// A capability is `null`, a boolean or an array, and not an object.
    CapabilityShape = "capability-shape",
    /// An item without its key, or with members of a wrong type.
    InvalidItem = "invalid-item",
    /// Two items with one key in a list.
    DuplicateItem = "duplicate-item",
    /// A list result without its array, or with a cursor that is not a string.
    ListShape = "list-shape",
    /// A cursor that was received before in the same list.
    CursorLoop = "cursor-loop",
    /// A list that exceeds the limits.
    ListLimit = "list-limit",
    /// The server refused a cursor that it had sent.
    CursorRejected = "cursor-rejected",
    /// An integer id or progress token came back as a string, or with a fraction; or an id of the server's in another type.
    IdType = "id-type",
    /// A message whose id is null, missing or not one of this connection.
    IdNull = "id-null",
    /// `error: null` beside a result, or `result: null` beside an error.
    ErrorNull = "error-null",
    /// A result and an error in one response.
    ResultAndError = "result-and-error",
    /// An error that is no object, or whose code is missing or no integer.
    ErrorShape = "error-shape",
    /// A response to a request that is not open.
    UnknownId = "unknown-id",
    /// `jsonrpc` is missing or not `"2.0"`.
    JsonrpcVersion = "jsonrpc-version",
    /// A batch in a version without batches.
    Batch = "batch",
    /// Bytes that are not a message.
    Noise = "noise",
    /// Bytes that are not JSON, but hold a whole message.
    Repaired = "repaired",
    /// A string with half of a surrogate pair: a text that was cut in UTF-16.
    LoneSurrogate = "lone-surrogate",
    /// A request in the modern era.
    ServerRequest = "server-request",
    /// The connection closed on `server/discover` or on the `initialize` after it.
    ProbeClosed = "probe-closed",
    /// `server/discover` timed out.
    ProbeSilent = "probe-silent",
    /// `server/discover` was answered after `initialize` had been sent.
    ProbeLate = "probe-late",
    /// The server answered `initialize` with a version that this crate does not know.
    VersionUnknown = "version-unknown",
    /// The server refused the offered version instead of answering with its own.
    VersionRefused = "version-refused",
    /// The server refused client capabilities that it does not know.
    CapabilitiesRefused = "capabilities-refused",
    /// The response to `initialize` lacks a member, or has one of a wrong type.
    InitializeShape = "initialize-shape",
    /// The server changed its era or version under a live connection.
    EraChanged = "era-changed",
    /// The server does not have `ping`.
    PingUnsupported = "ping-unsupported",
    /// The server answers other requests, but not `ping`.
    PingSilent = "ping-silent",
    /// The server closed the connection on `ping`, twice in a row.
    PingExits = "ping-exits",
    /// The server answered `server/discover`, and then no list.
    ModernSilent = "modern-silent",
    /// A call requires the user to visit a URL whose elicitation has no id.
    ElicitationId = "elicitation-id",
    /// The server declares that it announces changes, and refuses `subscriptions/listen`.
    ListenRefused = "listen-refused",
    /// Each request of a list causes a `list_changed`, although the list is the same.
    ListChangedLoop = "list-changed-loop",
    /// `server/discover` was answered with HTTP 5xx.
    #[serde(rename = "probe-5xx")]
    Probe5xx = "probe-5xx",
    /// A body does not match its `Content-Type`.
    ContentType = "content-type",
    /// A stream ended regularly without the blank line after its last event, which is a whole message.
    SseUnfinished = "sse-unfinished",
    /// An event with another name than `message` is a whole message.
    SseEventName = "sse-event-name",
    /// A notification was answered with a 2xx status other than 202.
    NotificationStatus = "notification-status",
    /// The GET of a stream was refused with a status other than 405.
    GetRefused = "get-refused",
    /// An expired session was reported with a status other than 404.
    SessionExpiredStatus = "session-expired-status",
    /// A session id with characters that no header may have.
    SessionIdShape = "session-id-shape",
    /// Sessions expire as soon as they are opened.
    SessionLoop = "session-loop",
    /// A new `initialize` was refused because of the session before.
    AlreadyInitialized = "already-initialized",
    /// The server does not accept notifications or responses over HTTP, so that one was dropped.
    Undelivered = "undelivered",
    /// The server does not exit when its input closes.
    NoExit = "no-exit",
}

impl fmt::Display for QuirkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
