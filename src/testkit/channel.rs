//! The connections of a fake server, seen from the server.

use std::string::String;
use std::vec::Vec;

/// A connection of a fake server: a pipe, or an HTTP exchange. Whoever drives the server numbers them, and uses no
/// number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ChannelId(u64);

impl ChannelId {
    /// The connection with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The connection as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// What a fake server does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAction {
    /// On which connection.
    pub channel: ChannelId,
    /// What it does.
    pub output: ServerOutput,
}

/// What a fake server does on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerOutput {
    /// It begins an HTTP response.
    Head {
        /// The status.
        status: u16,
        /// The headers: lower-case names, and values.
        headers: Vec<(&'static str, String)>,
    },
    /// It writes to the pipe, or a part of the body of its HTTP response. On a pipe, this is one line.
    Bytes(Vec<u8>),
    /// The HTTP response is complete; the process exits.
    End,
    /// The connection breaks.
    Break,
}
