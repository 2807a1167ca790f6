use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use super::{Event, RequestId};
use crate::jsonrpc::Json;
use crate::protocol::ProtocolVersion;

/// What the embedder has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Action {
    /// Open the transport, start the process for example; if a process still runs, end it first. Then report
    /// [`Transport::Opened`](crate::Transport::Opened) or [`Transport::OpenFailed`](crate::Transport::OpenFailed) for this
    /// connection.
    Open(ConnectionId),
    /// Send a message on the current connection.
    Send(Outgoing),
    /// Shut the transport down, and report [`Transport::Closed`](crate::Transport::Closed) when it is closed.
    Shutdown(ShutdownStep),
    /// An event for the embedder.
    Event(Event),
}

/// A connection of a client, counted from 1; the default is that of a client that was not opened yet. Inputs from a
/// transport name the connection that they belong to; those of an older connection are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// The connection with this number; the highest one for a number above `u32::MAX`.
    pub const fn from_u64(id: u64) -> Self {
        Self(if id > u32::MAX as u64 { u32::MAX } else { id as u32 })
    }

    /// The connection as a number.
    pub const fn as_u64(self) -> u64 {
        self.0 as u64
    }

    /// The connection that follows.
    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The JSON-RPC id of a request of the client. No connection uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WireId(u64);

impl WireId {
    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as it is written: a JSON number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// What the engine has a binding or the embedder do.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
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
    #[inline]
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ShutdownStep {
    /// Close the input of the process, and let it exit.
    CloseInput,
    /// Terminate the process (`SIGTERM`).
    Terminate,
    /// Kill the process (`SIGKILL`).
    Kill,
}

/// A message to send. Its `Debug` shows its text. With the feature `serde` it is serialized with the members `message`,
/// which is the message itself, `version` and `of`.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub(super) line: Vec<u8>,
    pub(super) method: Option<Cow<'static, str>>,
    pub(super) id: Option<u64>,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) of: Option<RequestId>,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.bytes());
        f.debug_struct("Outgoing")
            .field("text", &text)
            .field("version", &self.version)
            .field("of", &self.of)
            .finish_non_exhaustive()
    }
}

impl Outgoing {
    /// A message with this text, as a client sends it: method and id are those of the text. `version` and `of` are
    /// what [`version`](Self::version) and [`of`](Self::of) return.
    pub fn new(message: &RawValue, version: Option<ProtocolVersion>, of: Option<RequestId>) -> Self {
        let json = Json::from(message);
        let method = json.member("method").and_then(Json::as_string).map(|method| Cow::Owned(method.into_owned()));
        let id = json.member("id").and_then(|id| id.text().parse().ok()).filter(|_| method.is_some());
        // JSON strings contain no raw line breaks, so any line break is white space between tokens.
        let unbroken = |byte: u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
        let line = message.get().bytes().map(unbroken).chain([b'\n']).collect();
        Self { line, method, id, version, of }
    }

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

    /// Takes the message out, without a line feed; [`bytes`](Self::bytes) is empty from here on.
    #[cfg(feature = "http")]
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = core::mem::take(&mut self.line);
        bytes.pop_if(|last| *last == b'\n');
        bytes
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
