use alloc::boxed::Box;
use alloc::vec::Vec;

use super::FailureKind;
use crate::machine::loss;
use crate::protocol::PerFamily;

/// What a component tells the router. The router gives it to the component that acts on it.
#[derive(Debug)]
pub(super) enum Signal {
    /// The transport is to be opened: what is known of the handshake before is forgotten.
    Opening,
    /// The transport is open: the handshake starts.
    Opened,
    /// The handshake is done with a modern server.
    ModernAgreed,
    /// The server can be asked for its lists.
    Discover,
    /// Every family is settled.
    Discovered,
    /// The transport closed during the handshake.
    TransportClosed(Box<str>),
    /// The handshake wants a new transport, for `initialize` without `server/discover` before it.
    Reopen,
    /// The connection cannot be used any more.
    Lost(Loss),
    /// The client is ready.
    Ready,
    /// The client ends.
    Finish,
    /// The session is over as far as the server is concerned; this request was refused for that reason and did not run.
    Expired(Option<u64>),
    /// A call needs the tools' schemas.
    SchemasWanted,
    /// The tools' list was received again; or it was not.
    Schemas { known: bool },
    /// The listen stream of this request tells of changes from here on.
    Watched { request: u64, families: PerFamily<Watch> },
    /// Nothing tells of changes of these families any more.
    Unwatched(PerFamily<bool>),
}

/// Whether a family's changes are told, before and from here on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    pub(super) before: bool,
    pub(super) now: bool,
}

/// A connection that cannot be used any more.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) kind: FailureKind,
    pub(super) message: Box<str>,
    pub(super) transport: loss::Transport,
}

/// The signals of one step, in order. Most steps have none, and few have more than one.
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

    pub(super) fn push(&mut self, signal: Signal) {
        match &self.first {
            None => self.first = Some(signal),
            Some(_) => self.more.push(signal),
        }
    }

    /// Whether the connection is lost by one of them.
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
