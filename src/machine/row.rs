use core::fmt;
use serde::{Deserialize, Serialize};

/// What a table says of a state and an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<S, E: 'static> {
    /// How the input is judged.
    pub verdict: Verdict,
    /// The state that follows.
    pub next: S,
    /// What is to be done, in order.
    pub effects: &'static [E],
}

/// How a table judges an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The protocol goes on.
    Advance,
    /// Nothing happens.
    Ignore,
    /// The protocol goes on, and what the server did is recorded.
    Quirk(QuirkKind),
    /// The embedder asked for what cannot be; nothing happens.
    Reject,
}

/// What a decision table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// Go on, and record what the server did.
    AllowAs(QuirkKind),
    /// Do nothing.
    Withhold,
    /// Do nothing, and record what the server did.
    WithholdAs(QuirkKind),
}

impl Decision {
    /// Whether it goes on.
    pub const fn is_allowed(self) -> bool {
        match self {
            Self::Allow | Self::AllowAs(_) => true,
            Self::Withhold | Self::WithholdAs(_) => false,
        }
    }

    /// What is recorded.
    pub const fn quirk(self) -> Option<QuirkKind> {
        match self {
            Self::Allow | Self::Withhold => None,
            Self::AllowAs(kind) | Self::WithholdAs(kind) => Some(kind),
        }
    }
}

impl<S, E: 'static> Row<S, E> {
    pub(super) const fn advance(next: S, effects: &'static [E]) -> Self {
        Self { verdict: Verdict::Advance, next, effects }
    }

    pub(super) const fn quirk(kind: QuirkKind, next: S, effects: &'static [E]) -> Self {
        Self { verdict: Verdict::Quirk(kind), next, effects }
    }

    pub(super) const fn ignore(state: S) -> Self {
        Self { verdict: Verdict::Ignore, next: state, effects: &[] }
    }

    pub(super) const fn reject(state: S) -> Self {
        Self { verdict: Verdict::Reject, next: state, effects: &[] }
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
    /// A declared method is answered -32601.
    MethodNotFound = "method-not-found",
    /// An unknown method is answered with another code and a text that says so.
    MethodNotFoundText = "method-not-found-text",
    /// A capability is `null`, a boolean or an array in an object's place.
    CapabilityShape = "capability-shape",
    /// An item without its key, or with members of a wrong type.
    InvalidItem = "invalid-item",
    /// Two items of one key in a list.
    DuplicateItem = "duplicate-item",
    /// A list's result without its array, or with a cursor that is no string.
    ListShape = "list-shape",
    /// A cursor that came before in the same walk.
    CursorLoop = "cursor-loop",
    /// A list longer than the bounds.
    ListLimit = "list-limit",
    /// The server refused a cursor that it had given.
    CursorRejected = "cursor-rejected",
    /// An integer id came back as a string, or with a fraction.
    IdType = "id-type",
    /// A message whose id is null, missing or foreign.
    IdNull = "id-null",
    /// `error: null` beside a result, or `result: null` beside an error.
    ErrorNull = "error-null",
    /// A result and an error in one response.
    ResultAndError = "result-and-error",
    /// A response to a request that is not open.
    UnknownId = "unknown-id",
    /// `jsonrpc` is missing or not `"2.0"`.
    JsonrpcVersion = "jsonrpc-version",
    /// A batch in a revision that has none.
    Batch = "batch",
    /// Bytes that are no message.
    Noise = "noise",
    /// A request in the modern era.
    ServerRequest = "server-request",
    /// The connection closed on a handshake that began with a probe.
    ProbeClosed = "probe-closed",
    /// The probe was not answered in time.
    ProbeSilent = "probe-silent",
    /// The probe was answered after `initialize` had been sent.
    ProbeLate = "probe-late",
    /// The server answered `initialize` with a version that this crate does not know.
    VersionUnknown = "version-unknown",
    /// The server refused the offered version instead of answering with its own.
    VersionRefused = "version-refused",
    /// The server refused client capabilities that it does not know.
    CapabilitiesRefused = "capabilities-refused",
    /// The answer to `initialize` lacks a member, or has one of a wrong type.
    InitializeShape = "initialize-shape",
    /// The server has no `ping`.
    PingUnsupported = "ping-unsupported",
    /// The server answers requests, but no `ping`.
    PingSilent = "ping-silent",
    /// Each walk of a list makes the server say that it changed, and it did not.
    ListChangedLoop = "list-changed-loop",
    /// The probe was answered with a fault of the server's, an HTTP 5xx.
    #[serde(rename = "probe-5xx")]
    Probe5xx = "probe-5xx",
    /// A body is not what its `Content-Type` says.
    ContentType = "content-type",
    /// A notification was answered with another status than 202.
    NotificationStatus = "notification-status",
    /// The GET of a stream was refused with another status than 405.
    GetRefused = "get-refused",
    /// An expired session was told of otherwise than by 404.
    SessionExpiredStatus = "session-expired-status",
    /// Sessions expire as soon as they are opened.
    SessionLoop = "session-loop",
    /// A new `initialize` was refused, since there had been one before.
    AlreadyInitialized = "already-initialized",
    /// The server does not exit when its input closes.
    NoExit = "no-exit",
}

impl fmt::Display for QuirkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
