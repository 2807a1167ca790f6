//! Where a server is.

use std::io;

use mcp_proto_std::Program;

use crate::stream::{Channels, Opener, Streams};

/// Where a server is: a [`Program`] to start, at the other end of [`Streams`] or [`Channels`], or a `Remote` one over HTTP
/// (feature `http`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Endpoint {
    /// A program.
    Program(Program),
    /// Byte streams.
    Streams(Streams),
    /// Channels of messages.
    Channels(Channels),
    /// A URL.
    #[cfg(feature = "http")]
    Remote(Box<crate::Remote>),
}

impl Endpoint {
    /// What the server is called if it has no name: the program, or the host.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Program(program) => Some(program.file_name().into()),
            #[cfg(feature = "http")]
            Self::Remote(remote) => Some(remote.host.to_string()),
            _ => None,
        }
    }

    /// What a connection is opened to, unless that is by HTTP.
    pub(crate) fn target(&self) -> io::Result<Target> {
        match self {
            Self::Program(program) => Ok(Target::Program(program.clone())),
            Self::Streams(streams) => Ok(Target::Opens(streams.0.clone())),
            Self::Channels(channels) => Ok(Target::Opens(channels.0.clone())),
            #[cfg(feature = "http")]
            Self::Remote(_) => {
                Err(io::Error::other("it has a URL in place of a program; a program, streams or channels may be there"))
            }
        }
    }
}

/// What a connection is opened to.
pub(crate) enum Target {
    Program(Program),
    Opens(Opener),
}

impl From<Program> for Endpoint {
    fn from(program: Program) -> Self {
        Self::Program(program)
    }
}

impl From<Streams> for Endpoint {
    fn from(streams: Streams) -> Self {
        Self::Streams(streams)
    }
}

impl From<Channels> for Endpoint {
    fn from(channels: Channels) -> Self {
        Self::Channels(channels)
    }
}

#[cfg(feature = "http")]
impl From<crate::Remote> for Endpoint {
    fn from(remote: crate::Remote) -> Self {
        Self::Remote(remote.into())
    }
}
