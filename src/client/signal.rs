use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{FailureKind, RequestId};
use crate::machine::loss;
use crate::protocol::{Family, PerFamily};

/// What a component reports to the router, which passes it to the component that handles it.
#[derive(Debug)]
pub(super) enum Signal {
    /// A transport is to be opened: the state of the last handshake is dropped.
    Opening,
    /// The transport is open: the handshake starts.
    Opened,
    /// The handshake is done with a modern server.
    ModernAgreed,
    /// The lists can be requested.
    Discover,
    /// Discovery is done for every family.
    Discovered,
    /// The transport closed during the handshake.
    TransportClosed(Box<str>),
    /// The handshake needs a new transport, for `initialize` without `server/discover`.
    Reopen,
    /// The connection is lost or unusable.
    Lost(Loss),
    /// The client is ready.
    Ready,
    /// The client closes.
    Finish,
    /// The session expired; this request was refused because of it and did not run.
    Expired(Option<u64>),
    /// A call needs the tools' schemas.
    SchemasWanted,
    /// The tools were listed again, or could not be.
    Schemas { known: bool },
    /// The listen stream of this request announces changes from now on.
    Watched { request: u64, families: PerFamily<Watch> },
    /// The server asks for elicitations at URLs, for this request of the embedder if it names one.
    Elicitations { ids: Vec<Box<str>>, request: Option<RequestId> },
    /// The embedder gets this many sampling requests, as input that a result requires.
    SamplingRequired(usize),
    /// A call runs as a task from now on.
    TaskCreated,
    /// Changes of these families are not announced any more.
    Unwatched(PerFamily<bool>),
}

/// Whether changes of a family were announced before, and are announced now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    pub(super) before: bool,
    pub(super) now: bool,
}

/// A connection that is lost or unusable.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) kind: FailureKind,
    pub(super) message: Box<str>,
    pub(super) transport: loss::Transport,
}

/// The signals of a step, in order. Most steps have none, and few have more than one.
#[derive(Debug, Default)]
#[must_use = "the router acts on signals"]
pub(super) struct Signals {
    first: Option<Signal>,
    more: Vec<Signal>,
}

impl Signals {
    pub(super) const NONE: Self = Self { first: None, more: Vec::new() };

    pub(super) const fn one(signal: Signal) -> Self {
        Self { first: Some(signal), more: Vec::new() }
    }

    pub(super) fn lost(kind: FailureKind, message: impl Into<Box<str>>, transport: loss::Transport) -> Self {
        Self::one(Signal::Lost(Loss { kind, message: message.into(), transport }))
    }

    /// Reports whether the tools were listed again, if the list is theirs.
    pub(super) const fn schemas(family: Family, known: bool) -> Self {
        match family {
            Family::Tools => Self::one(Signal::Schemas { known }),
            Family::Prompts | Family::Resources | Family::ResourceTemplates => Self::NONE,
        }
    }

    /// The embedder gets this many sampling requests, as input that a result requires.
    pub(super) const fn sampling(requests: usize) -> Self {
        match requests {
            0 => Self::NONE,
            _ => Self::one(Signal::SamplingRequired(requests)),
        }
    }

    pub(super) fn push(&mut self, signal: Signal) {
        match &self.first {
            None => self.first = Some(signal),
            Some(_) => self.more.push(signal),
        }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether one of them is a loss of the connection.
    pub(super) fn has_loss(&self) -> bool {
        self.first.iter().chain(&self.more).any(|signal| matches!(signal, Signal::Lost(_)))
    }

    pub(super) fn extend(&mut self, other: Self) {
        other.into_iter().for_each(|signal| self.push(signal));
    }
}

impl IntoIterator for Signals {
    type Item = Signal;
    type IntoIter = core::iter::Chain<core::option::IntoIter<Signal>, alloc::vec::IntoIter<Signal>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}
