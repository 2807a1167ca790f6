//! What is measured of each client.

use std::rc::Rc;

use serde::Serialize;
use tokio::runtime::Runtime;

use crate::peer::Peer;
use crate::{bare, ours, rmcp};

/// A connected client. Dropping it closes the session and waits for the server's end.
pub trait Client {
    /// Makes calls of a tool, so many at once, and reads the text of each result.
    fn calls(&mut self, count: usize, at_once: usize);
    /// Makes one call during which the server reports progress so many times. Returns how many reports came.
    fn storm(&mut self, size: usize) -> usize;
    /// Makes one call with a result of this size, and reads its text if that is wanted. Returns the size received; `None` if
    /// the call failed.
    fn large(&mut self, size: usize, reads_text: bool) -> Option<usize>;
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// mcp-proto-tokio.
    Tokio,
    /// mcp-proto-std.
    Std,
    /// rmcp as it is by default: over HTTP it opens a connection for each request.
    Rmcp,
    /// rmcp with a `reqwest` client that keeps connections.
    RmcpPooled,
    /// The bytes, read and written on tokio, and `serde_json`: the least that a client costs.
    Bare,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Tokio, Self::Std, Self::Rmcp, Self::RmcpPooled, Self::Bare];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Std => "std",
            Self::Rmcp => "rmcp",
            Self::RmcpPooled => "rmcp-pooled",
            Self::Bare => "bare",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it has this transport, and it is another client there.
    pub const fn has(self, transport: Transport) -> bool {
        match self {
            Self::Std => matches!(transport, Transport::Stdio),
            Self::RmcpPooled => !matches!(transport, Transport::Stdio),
            Self::Tokio | Self::Rmcp | Self::Bare => true,
        }
    }

    /// Connects, and lists the tools. Returns the client and how many there are.
    pub fn connect(self, runtime: &Rc<Runtime>, peer: &Peer) -> (Box<dyn Client>, usize) {
        match self {
            Self::Tokio => ours::Tokio::connect(runtime, peer),
            Self::Std => ours::Std::connect(peer),
            Self::Rmcp => rmcp::Rmcp::connect(runtime, peer, false),
            Self::RmcpPooled => rmcp::Rmcp::connect(runtime, peer, true),
            Self::Bare => bare::connect(runtime, peer),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    Stdio,
    /// HTTP, answered with JSON.
    Json,
    /// HTTP, answered with an event stream.
    Events,
}

impl Transport {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Json => "json",
            Self::Events => "events",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Stdio, Self::Json, Self::Events].into_iter().find(|transport| transport.name() == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// A tool, and the arguments of it.
pub const ECHO: &str = "echo";
pub const STORM: &str = "storm";
pub const LARGE: &str = "large";

#[derive(Serialize)]
pub struct Echo {
    pub owner: &'static str,
    pub repo: &'static str,
    pub title: &'static str,
}

pub const ARGUMENTS: Echo =
    Echo { owner: "example", repo: "widgets", title: "Crash when the configuration file is empty" };

#[derive(Serialize)]
pub struct Size {
    pub size: usize,
}

/// The length of the text of `echo`.
pub const TEXT: usize = 248;

pub fn check(text: usize) {
    assert_eq!(text, TEXT, "the text of a result");
}

/// How many calls each of some tasks makes.
pub fn shares(count: usize, at_once: usize) -> impl Iterator<Item = usize> {
    (0..at_once).map(move |task| count / at_once + usize::from(task < count % at_once))
}
