use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use crate::Time;
#[cfg(feature = "http")]
use crate::binding::http::{ExchangeId, HttpRequest};
use crate::catalog::Difference;
use crate::client::{CommandError, ConnectionId, Event, Failure, Options, Outcome, Outgoing, RequestId, ShutdownStep};
use crate::host::Utility;
use crate::host::names::Names;
use crate::host::toolset::Suspicion;

/// How a hub behaves. [`HubOptions::new`] has the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HubOptions {
    /// How every session behaves, but for what its server's entry says.
    pub session: Options,
    /// How many servers may be starting at the same time. 8.
    pub starts: usize,
    /// How the sessions of single servers behave, in place of `session`, but for what their entries say.
    pub own: BTreeMap<Box<str>, Options>,
    /// The servers without which [`HubEvent::Ready`] does not come. They start before the others, but for those that
    /// are called.
    pub required: BTreeSet<Box<str>>,
    /// When a server that fails is left in peace; `None` for never.
    pub breaker: Option<Breaker>,
    /// What becomes of tools whose texts try to instruct the model. [`Hub::choice`](super::Hub::choice) reports them.
    pub suspicion: Suspicion,
    /// How names are made, and those that were given in a run before.
    pub names: Names,
}

impl HubOptions {
    /// The defaults, for sessions that behave in this way.
    pub fn new(session: Options) -> Self {
        Self {
            session,
            own: BTreeMap::new(),
            starts: 8,
            required: BTreeSet::new(),
            breaker: Some(Breaker::default()),
            suspicion: Suspicion::default(),
            names: Names::default(),
        }
    }
}

/// When a server that fails is left in peace.
///
/// A call fails where there is no answer in time, or none that makes sense, or where the connection breaks under it. A
/// server that answers with an error is there, and so is one whose tool fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Breaker {
    /// How many calls in a row may fail. 3.
    pub failures: u32,
    /// For how long no call is made then; after that one may, to see. 60 s.
    pub cooldown: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 3, cooldown: Duration::from_secs(60) }
    }
}

/// One of a hub's sessions. A server whose entry changed has another one then, and a handle never comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionHandle(pub(super) u64);

/// A call of a tool by its exposed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    pub(super) session: SessionHandle,
    pub(super) kind: CallKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CallKind {
    /// The session's request, a utility tool's or a tool's.
    Request(RequestId, Option<Utility>),
    /// What the hub answers itself from what the session listed.
    List(u64, Utility),
}

impl CallId {
    /// The session that it is made on.
    pub const fn session(self) -> SessionHandle {
        self.session
    }

    /// The utility tool that was called, which tells what the result is like; `None` where it was a tool of the server's.
    pub const fn utility(self) -> Option<Utility> {
        match self.kind {
            CallKind::Request(_, utility) => utility,
            CallKind::List(_, utility) => Some(utility),
        }
    }

    /// The session's request, by which the session's own events name it; `None` where the hub answers it itself from
    /// what the session listed.
    pub const fn request(self) -> Option<RequestId> {
        match self.kind {
            CallKind::Request(request, _) => Some(request),
            CallKind::List(..) => None,
        }
    }
}

/// What the embedder is to do next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HubAction {
    /// Start the process, as [`Action::Open`](crate::Action::Open) says. One of this session's that runs yet is to be
    /// ended first, and nothing of it is reported any more.
    Open {
        /// Whose: [`Hub::entry`](super::Hub::entry) has the command.
        session: SessionHandle,
        /// Which of its transports.
        connection: ConnectionId,
    },
    /// Write a message to the process.
    Send {
        /// Whose.
        session: SessionHandle,
        /// What.
        message: Outgoing,
    },
    /// Shut the process down.
    Shutdown {
        /// Whose.
        session: SessionHandle,
        /// In which way.
        how: ShutdownStep,
    },
    /// Run an HTTP request (feature `http`).
    #[cfg(feature = "http")]
    Request {
        /// Whose: [`Hub::entry`](super::Hub::entry) has the headers.
        session: SessionHandle,
        /// What.
        request: HttpRequest,
    },
    /// Drop an HTTP exchange (feature `http`).
    #[cfg(feature = "http")]
    Drop {
        /// Whose.
        session: SessionHandle,
        /// Which.
        exchange: ExchangeId,
    },
    /// Something to know.
    Event(HubEvent),
}

/// Something to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HubEvent {
    /// What a session says. The end of a call that the hub made is [`Finished`](Self::Finished) instead.
    Session {
        /// Whose.
        session: SessionHandle,
        /// The server.
        server: Arc<str>,
        /// What it says.
        event: Event,
    },
    /// Every required server is up, or what was saved of it stands in. It comes once.
    Ready,
    /// No server is starting any more: each that was wanted is up, or failed. It comes again after others were wanted.
    Settled,
    /// A server did not start, or came to an end by itself.
    Failed {
        /// The server.
        server: Arc<str>,
        /// Why: the message names the server.
        failure: Failure,
        /// Whether its session tries again.
        again: bool,
    },
    /// What a model may call is another than before, in what it may call of one server.
    ToolsetChanged {
        /// The server.
        server: Arc<str>,
        /// In what it differs, by exposed names.
        difference: Difference,
    },
    /// A call ended. Each that was accepted ends once.
    Finished {
        /// The call.
        call: CallId,
        /// The server.
        server: Arc<str>,
        /// How it ended: what a result is like, [`CallId::utility`] tells.
        outcome: Outcome,
    },
    /// The end: every session is closed. Nothing follows.
    Closed,
}

/// What a [`Hub`](super::Hub) refuses to do. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HubCommandError {
    /// The hub is closed, or closing.
    #[error("the hub is closed")]
    Closed,
    /// So many events wait to be polled that no command is taken that might add others.
    #[error("{limit} events or more wait to be polled")]
    Unpolled {
        /// The bound: [`Limits::output`](crate::Limits::output).
        limit: usize,
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
    /// The server is configured, and turned off.
    #[error("the server `{server}` is turned off: its entry says `enabled: false`")]
    Disabled {
        /// The server.
        server: Box<str>,
    },
    /// The server's session is open, or was.
    #[error("the server `{server}` was started already")]
    Started {
        /// The server.
        server: Box<str>,
    },
    /// What was saved tells nothing of the server, whose entry is another now.
    #[error("the entry of `{server}` changed since its catalogue was saved")]
    Stale {
        /// The server.
        server: Box<str>,
    },
    /// No such call is open.
    #[error("no such call is open")]
    UnknownCall,
    /// There is no session of this handle: it was not needed yet, or it is gone.
    #[error("there is no such session")]
    UnknownSession,
    /// The server's session refuses the command.
    #[error("the server `{server}`: {error}")]
    Session {
        /// The server.
        server: Arc<str>,
        /// Why.
        error: CommandError,
    },
}

/// Why a call was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The hub is closed, or closing.
    #[error("the hub is closed")]
    Closed,
    /// No tool is exposed under this name.
    #[error("there is no tool `{name}`")]
    UnknownTool {
        /// The name.
        name: Box<str>,
    },
    /// What the server offers is not known, or not any more.
    #[error("the server `{server}` is not up: {why}")]
    NotUp {
        /// The server.
        server: Arc<str>,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// The arguments are not what the tool takes.
    #[error("`{name}` takes {expected}")]
    Arguments {
        /// The exposed name.
        name: Box<str>,
        /// What it takes.
        expected: &'static str,
    },
    /// The server is left in peace for a while, since it failed.
    #[error("the server `{server}` is left in peace for now: {why}")]
    Resting {
        /// The server.
        server: Arc<str>,
        /// What was wrong last.
        why: Box<str>,
        /// When a call is made again; `None` while one is under way, to see.
        until: Option<Time>,
    },
    /// The server's session refuses it.
    #[error("the server `{server}`: {misuse}")]
    Session {
        /// The server.
        server: Arc<str>,
        /// Why.
        misuse: CommandError,
    },
}
