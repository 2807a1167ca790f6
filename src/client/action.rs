use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{Event, RequestId};
use crate::protocol::ProtocolVersion;

/// What the embedder has to do next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Open the transport, start the process for example. Then report [`Transport::Opened`](crate::Transport::Opened)
    /// or [`Transport::OpenFailed`](crate::Transport::OpenFailed) for this connection.
    Open(ConnectionId),
    /// Send a message on the current connection.
    Send(Outgoing),
    /// Shut the transport down, and report [`Transport::Closed`](crate::Transport::Closed) when it is closed.
    Shutdown(ShutdownStep),
    /// An event for the embedder.
    Event(Event),
}

/// A connection of a client, counted from 1. Inputs from a transport name the connection that they belong to; those of
/// an older connection are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// The connection that follows.
    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The JSON-RPC id of a request of the client. No connection uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireId(u64);

impl WireId {
    /// The id as it is written: a JSON number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// What the engine has a binding or the embedder do.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Open the transport.
    Open(ConnectionId),
    /// Send a message.
    Send(Outgoing),
    /// Over HTTP: drop the exchange of the request with this id. A modern server takes that as the cancellation.
    Abort(u64),
    /// Shut the transport down.
    Shutdown(ShutdownStep),
    /// Report an event to the embedder.
    Event(Event),
}

impl Output {
    /// Bytes of data that the server sent unsolicited, and of responses to it.
    pub(super) fn unasked_bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.payload(),
            Self::Send(Outgoing { method: None, line, .. }) => line.len(),
            Self::Send(_) | Self::Open(_) | Self::Shutdown(_) | Self::Abort(_) => 0,
        }
    }
}

/// A step of the shutdown of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownStep {
    /// Close the input of the process, and let it exit.
    CloseInput,
    /// Terminate the process (`SIGTERM`).
    Terminate,
    /// Kill the process (`SIGKILL`).
    Kill,
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub(super) line: Vec<u8>,
    pub(super) method: Option<Cow<'static, str>>,
    pub(super) id: Option<u64>,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) of: Option<RequestId>,
}

impl Outgoing {
    /// The message: one JSON object without line breaks.
    pub fn bytes(&self) -> &[u8] {
        self.line.strip_suffix(b"\n").unwrap_or(&self.line)
    }

    /// The message with a line feed at its end, for stdio.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// The method of a request or a notification; `None` for a response.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The JSON-RPC id of a request; `None` for a notification or a response. A request that is sent again has a new one
    /// and keeps its [`RequestId`].
    pub fn wire_id(&self) -> Option<WireId> {
        self.id.map(WireId)
    }

    pub(crate) const fn id(&self) -> Option<u64> {
        self.id
    }

    /// The embedder's request that this message carries or belongs to: a cancellation of it, or a response to a server
    /// request in its HTTP exchange.
    pub const fn of(&self) -> Option<RequestId> {
        self.of
    }

    /// The protocol version that is negotiated or offered.
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }
}
