use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Time;
#[cfg(feature = "http")]
use crate::binding::http::{ExchangeId, HttpRequest};
use crate::catalog::Difference;
use crate::client::{CommandError, ConnectionId, Event, Failure, Options, Outcome, Outgoing, RequestId, ShutdownStep};
use crate::host::Utility;
use crate::host::names::{Names, Renamed};
use crate::host::results::Omission;
use crate::host::toolset::Suspicion;

/// The options of a hub. [`HubOptions::new`] has the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HubOptions {
    /// The options of every session. A server's entry overrides them.
    pub session: Options,
    /// How many servers may start at the same time. 8; 0 counts as 1.
    pub starts: usize,
    /// Options for the sessions of single servers, in place of `session`. The server's entry overrides them, too.
    pub own: BTreeMap<Box<str>, Options>,
    /// The servers that have to be up before [`HubEvent::Ready`]. They start before the others, except for servers that
    /// are called.
    pub required: BTreeSet<Box<str>>,
    /// When calls to a failing server are refused; `None` for never.
    pub breaker: Option<Breaker>,
    /// What happens to tools whose texts try to instruct the model. [`Hub::choice`](super::Hub::choice) reports them.
    pub suspicion: Suspicion,
    /// Whether the model gets tools that are for apps alone ([`Visibility`](crate::host::toolset::Visibility)), which the
    /// extension MCP Apps forbids. Default: `false`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub app_tools: bool,
    /// Whether a result of a tool keeps both its forms, `content` and `structuredContent`. By default a model gets one of
    /// them, in `content` ([`one_form`](crate::host::results::one_form)); the feature `validate` brings the check of output
    /// schemas, without which structured content counts as not checked. An embedder that shows results to apps or reads them
    /// itself sets this, and calls `one_form` for its model. Default: `false`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub both_forms: bool,
    /// The user for whom the servers are used, identified by any text, if the host has several users with hubs of their
    /// own. Saved lists that are private are restored for this user only ([`Saved`](crate::host::Saved)). `None` by
    /// default: the host has one user.
    pub user: Option<Box<str>>,
    /// How names are made, and the names of an earlier run.
    pub names: Names,
}

impl HubOptions {
    /// The default options, with these options for sessions.
    pub fn new(session: Options) -> Self {
        Self {
            session,
            own: BTreeMap::new(),
            starts: 8,
            required: BTreeSet::new(),
            breaker: Some(Breaker::default()),
            suspicion: Suspicion::default(),
            app_tools: false,
            both_forms: false,
            user: None,
            names: Names::default(),
        }
    }
}

/// When calls to a failing server are refused.
///
/// A call fails if it times out, if its response is invalid, or if the connection breaks during it. A response with an
/// error is no failure, and neither is a failed tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Breaker {
    /// How many calls in a row have to fail before calls are refused. 3; 0 counts as 1.
    pub failures: u32,
    /// For how long calls are refused; after that, one trial call is allowed. 60 s.
    pub cooldown: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 3, cooldown: Duration::from_secs(60) }
    }
}

/// A session of a hub. A server whose entry changed gets another session. Handles are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionHandle(pub(super) u64);

impl SessionHandle {
    /// The handle with this number.
    pub const fn from_u64(handle: u64) -> Self {
        Self(handle)
    }

    /// The handle as a number. A hub counts its sessions.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// A call of a tool by its exposed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallId {
    pub(super) session: SessionHandle,
    pub(super) kind: CallKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
pub(super) enum CallKind {
    /// A request of the session, for a tool or a utility tool.
    Request(RequestId, Option<Utility>),
    /// A utility tool that the hub answers from the session's lists.
    List(u64, Utility),
}

impl CallId {
    /// The call that is a request of a session, for a tool of the server or for a utility tool.
    pub const fn of_request(session: SessionHandle, request: RequestId, utility: Option<Utility>) -> Self {
        Self { session, kind: CallKind::Request(request, utility) }
    }

    /// The call of a utility tool that the hub answers from a session's lists; `number` is the hub's count.
    pub const fn of_list(session: SessionHandle, number: u64, utility: Utility) -> Self {
        Self { session, kind: CallKind::List(number, utility) }
    }

    /// The session of the call.
    pub const fn session(self) -> SessionHandle {
        self.session
    }

    /// The utility tool that was called, which determines the shape of the result; `None` for a tool of the server.
    pub const fn utility(self) -> Option<Utility> {
        match self.kind {
            CallKind::Request(_, utility) => utility,
            CallKind::List(_, utility) => Some(utility),
        }
    }

    /// The session's request, which events of the session name; `None` if the hub answers from the session's lists.
    pub const fn request(self) -> Option<RequestId> {
        match self.kind {
            CallKind::Request(request, _) => Some(request),
            CallKind::List(..) => None,
        }
    }
}

/// What the embedder has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HubAction {
    /// Start the process, as [`Action::Open`](crate::Action::Open) describes. If a process of this session still runs,
    /// end it first.
    Open {
        /// The session: [`Hub::entry`](super::Hub::entry) has the command.
        session: SessionHandle,
        /// The connection.
        connection: ConnectionId,
    },
    /// Write a message to the process.
    Send {
        /// The session.
        session: SessionHandle,
        /// The message.
        message: Outgoing,
    },
    /// Shut the process down.
    Shutdown {
        /// The session.
        session: SessionHandle,
        /// The step of the shutdown.
        how: ShutdownStep,
    },
    /// Run an HTTP request (feature `http`).
    #[cfg(feature = "http")]
    Request {
        /// The session: [`Hub::entry`](super::Hub::entry) has the headers.
        session: SessionHandle,
        /// The request.
        request: Box<HttpRequest>,
    },
    /// Drop an HTTP exchange (feature `http`).
    #[cfg(feature = "http")]
    Drop {
        /// The session.
        session: SessionHandle,
        /// The exchange.
        exchange: ExchangeId,
    },
    /// Do something for the authorization of a session ([`HttpAction::OAuth`](crate::binding::http::HttpAction::OAuth);
    /// feature `oauth`). It is not serialized: it contains secrets.
    #[cfg(feature = "oauth")]
    #[cfg_attr(feature = "serde", serde(skip))]
    OAuth {
        /// The session: [`Hub::entry`](super::Hub::entry) has the server's settings.
        session: SessionHandle,
        /// What to do.
        action: Box<crate::binding::oauth::OAuthAction>,
    },
    /// An event for the embedder.
    Event(HubEvent),
}

/// An event that the hub reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HubEvent {
    /// An event of a session. The end of a call of the hub is [`Finished`](Self::Finished) instead.
    Session {
        /// The session.
        session: SessionHandle,
        /// The server.
        server: Arc<str>,
        /// The event.
        event: Event,
    },
    /// Every required server is up, or has saved lists. It is reported once.
    Ready,
    /// No server is starting: each one that was to be started is up or failed. It is repeated after others were
    /// started.
    Settled,
    /// A server did not start, or ended by itself.
    Failed {
        /// The server.
        server: Arc<str>,
        /// The failure; its message names the server.
        failure: Failure,
        /// Whether its session reconnects.
        again: bool,
    },
    /// A server was not used for the `idle_timeout` of its entry, or its connection is older than `max_lifetime`: the
    /// connection is closed, and its functions stay. The next call or request opens it again, and waits for that.
    IdleShutdown {
        /// The session.
        session: SessionHandle,
        /// The server.
        server: Arc<str>,
    },
    /// The functions of a server for the model changed.
    ToolsetChanged {
        /// The server.
        server: Arc<str>,
        /// The difference, by exposed names.
        difference: Difference,
        /// The added functions whose exposed names are not formed from their own without a change.
        renamed: Vec<RenamedTool>,
    },
    /// A call ended. Each accepted call ends exactly once.
    Finished {
        /// The call.
        call: CallId,
        /// The server.
        server: Arc<str>,
        /// The result of the call; [`CallId::utility`] determines its shape. Of a tool it has one form, unless
        /// [`HubOptions::both_forms`] is set. It is within the bound of the server's entry
        /// ([`ToolPolicy::max_result_bytes`](crate::host::config::ToolPolicy::max_result_bytes)).
        outcome: Outcome,
        /// What was left out of the result, if it was longer.
        left_out: Option<Box<Omission>>,
        /// How often the request was sent; 0 if the hub answered from the session's lists.
        attempts: u32,
        /// As of [`Event::Finished`]. Of a call that waits for lists, why its server is not up.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        failure: Option<Arc<Failure>>,
    },
    /// Every session is closed. No event follows.
    Closed,
}

/// A function whose exposed name is not formed from its own name without a change ([`names`](crate::host::names)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RenamedTool {
    /// The tool's own name.
    pub tool: Box<str>,
    /// Its exposed name.
    pub name: Box<str>,
    /// Why they differ.
    pub why: Renamed,
}

/// Why a command of [`Hub`](super::Hub) was refused. Beyond the handling of deadlines that were due, the
/// command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HubCommandError {
    /// The hub is closed or closing.
    #[error("the hub is closed")]
    Closed,
    /// Too many events wait to be polled for a command that may add others.
    #[error("{limit} events or more wait to be polled")]
    Unpolled {
        /// The limit: [`Limits::output`](crate::Limits::output).
        limit: usize,
    },
    /// The hub created as many sessions as it can number.
    #[error("the hub created {limit} sessions, and can create no other: use another hub")]
    TooManySessions {
        /// The limit: 2³² - 1 in the life of a hub.
        limit: u32,
    },
    /// The hub is open already.
    #[error("the hub is open already")]
    AlreadyOpen,
    /// No server of this name is configured.
    #[error("no server `{server}` is configured")]
    UnknownServer {
        /// The name.
        server: Box<str>,
    },
    /// The server is configured, and disabled.
    #[error("the server `{server}` is turned off: its entry says `enabled: false`")]
    Disabled {
        /// The server.
        server: Box<str>,
    },
    /// The server's session was opened already.
    #[error("the server `{server}` was started already")]
    Started {
        /// The server.
        server: Box<str>,
    },
    /// The lists were saved under another entry.
    #[error("the entry of `{server}` changed since its catalogue was saved")]
    Stale {
        /// The server.
        server: Box<str>,
    },
    /// The lists are private, and were saved for another user than [`HubOptions::user`].
    #[error("the saved catalogue of `{server}` is another user's")]
    OtherUser {
        /// The server.
        server: Box<str>,
    },
    /// No such call is open.
    #[error("no such call is open")]
    UnknownCall,
    /// There is no session with this handle: it was not created yet, or is closed.
    #[error("there is no such session")]
    UnknownSession,
    /// A session has no such command: the hub has its own.
    #[error("a session of a hub has no such command")]
    NotOfSession,
    /// The hub refused the call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The session refused the command.
    #[error("the server `{server}`: {error}")]
    Session {
        /// The server.
        server: Arc<str>,
        /// The reason.
        error: CommandError,
    },
}

/// Why a call was refused. Beyond the handling of deadlines that were due, the call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum CallError {
    /// The hub is closed or closing.
    #[error("the hub is closed")]
    Closed,
    /// No tool is exposed under this name.
    #[error("there is no tool `{name}`")]
    UnknownTool {
        /// The name.
        name: Box<str>,
    },
    /// The lists of the server are not known.
    #[error("the server `{server}` is not up: {why}")]
    NotUp {
        /// The server.
        server: Arc<str>,
        /// The reason.
        why: Box<str>,
    },
    /// The arguments do not match the tool's.
    #[error("`{name}` takes {expected}")]
    Arguments {
        /// The exposed name.
        name: Box<str>,
        /// The expected arguments.
        expected: Cow<'static, str>,
    },
    /// Calls to the server are refused for some time, because calls failed.
    #[error("calls to the server `{server}` are refused for now: {why}")]
    CoolingDown {
        /// The server.
        server: Arc<str>,
        /// The last failure.
        why: Box<str>,
        /// Until when; `None` while a trial call is in flight.
        until: Option<Time>,
    },
    /// The session refused the call.
    #[error("the server `{server}`: {error}")]
    Session {
        /// The server.
        server: Arc<str>,
        /// The reason.
        error: CommandError,
    },
}
