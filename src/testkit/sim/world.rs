use core::ops::Range;
use core::time::Duration;
#[cfg(feature = "http")]
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::string::String;
use std::vec::Vec;

use fastrand::Rng;

use super::driven::{Driven, Embedder, Port};
use super::link::Link;
use crate::host::hub::SessionHandle;
use crate::testkit::channel::{ChannelId, ServerOutput};
use crate::testkit::server::FakeServer;
use crate::{ShutdownStep, Time};

/// An embedder in a [`Sim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId(pub(super) usize);

impl NodeId {
    /// The embedder with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(if id > usize::MAX as u64 { usize::MAX } else { id as usize })
    }

    /// The embedder as a number: a simulation counts them from 0.
    pub const fn as_u64(self) -> u64 {
        self.0 as u64
    }
}

/// Clients or hubs, fake servers, and the connections between them, in virtual time.
///
/// It drives the clients as an embedder does: it opens connections, carries bytes, runs HTTP requests, and calls
/// `handle_timeout` when a deadline is due. The same seed, commands and faults cause the same run. Every run ends: after
/// [`max_steps`](Self::max_steps) steps it is a [`Runaway`](super::Runaway).
#[derive(Debug)]
pub struct Sim<E: Embedder> {
    pub(super) now: Time,
    pub(super) rng: Rng,
    pub(super) nodes: Vec<Node<E>>,
    pub(super) servers: Vec<Site>,
    pub(super) channels: BTreeMap<ChannelId, Wire>,
    /// The exchanges and connections of the clients.
    pub(super) ports: BTreeMap<(usize, Port), ChannelId>,
    /// The newest connection of each client, or of each session of a hub.
    pub(super) newest: BTreeMap<(usize, Option<SessionHandle>), ChannelId>,
    pub(super) agenda: BTreeMap<(Time, u64), Item>,
    /// Who is due when.
    pub(super) timers: BTreeSet<(Time, Actor)>,
    /// Clients with actions to take.
    pub(super) dirty: VecDeque<usize>,
    pub(super) counter: u64,
    pub(super) steps: usize,
    pub(super) max_steps: usize,
}

#[derive(Debug)]
pub(super) struct Node<E> {
    pub(super) embedder: E,
    /// The server of a client; a hub has one for each session.
    pub(super) server: Option<usize>,
    pub(super) due: Option<Time>,
    pub(super) is_dirty: bool,
}

#[derive(Debug)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) server: FakeServer,
    pub(super) link: Link,
    pub(super) stalled_until: Time,
    pub(super) unreachable_until: Time,
    pub(super) due: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Actor {
    Node(usize),
    Server(usize),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) node: usize,
    pub(super) port: Port,
    pub(super) server: usize,
    /// When the last piece arrives, at the server and at the client.
    pub(super) up: Time,
    pub(super) down: Time,
}

/// What arrives.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) channel: ChannelId,
    pub(super) what: Parcel,
}

#[derive(Debug)]
pub(super) enum Parcel {
    /// At the server: a pipe is opened.
    Open,
    /// At the server: bytes on a pipe.
    Write(Vec<u8>),
    /// At the server: a step of a shutdown.
    Shutdown(ShutdownStep),
    /// At the server: the client closed the connection.
    Close,
    /// At the server: an HTTP request.
    #[cfg(feature = "http")]
    Request(Box<::http::Request<Vec<u8>>>),
    /// At the client: the pipe is open.
    Opened,
    /// At the client: nobody was reached.
    Unreachable,
    /// At the client.
    Output(ServerOutput),
}

impl<E: Embedder> Sim<E> {
    /// A simulation without clients and servers, at [`Time::ZERO`].
    pub fn new(seed: u64) -> Self {
        Self {
            now: Time::ZERO,
            rng: Rng::with_seed(seed),
            nodes: Vec::new(),
            servers: Vec::new(),
            channels: BTreeMap::new(),
            ports: BTreeMap::new(),
            newest: BTreeMap::new(),
            agenda: BTreeMap::new(),
            timers: BTreeSet::new(),
            dirty: VecDeque::new(),
            counter: 0,
            steps: 0,
            max_steps: 1_000_000,
        }
    }

    /// Sets the maximum number of steps of one run. 1,000,000 by default.
    #[must_use]
    pub const fn max_steps(mut self, steps: usize) -> Self {
        self.max_steps = steps;
        self
    }

    /// Adds a server under a name, which replaces one of that name. A hub connects its entry of this name to it.
    #[must_use]
    pub fn with_server(mut self, name: &str, server: FakeServer, link: Link) -> Self {
        let site = Site {
            name: name.into(),
            server,
            link,
            stalled_until: Time::ZERO,
            unreachable_until: Time::ZERO,
            due: None,
        };
        match self.servers.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = site,
            None => self.servers.push(site),
        }
        self
    }

    /// Adds an embedder of a client that connects to the server of this name. If there is none, its connections fail.
    pub fn add(&mut self, server: &str, embedder: E) -> NodeId {
        let server = self.servers.iter().position(|site| site.name == server);
        self.add_node(server, embedder)
    }

    /// Adds an embedder of a hub, whose sessions connect to the servers with the names of their entries.
    pub fn add_hub(&mut self, embedder: E) -> NodeId {
        self.add_node(None, embedder)
    }

    fn add_node(&mut self, server: Option<usize>, embedder: E) -> NodeId {
        let node = self.nodes.len();
        self.nodes.push(Node { embedder, server, due: None, is_dirty: false });
        self.soil(node);
        NodeId(node)
    }

    /// The current time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The embedder with this id, which is one of [`add`](Self::add); `None` for an id of another simulation.
    pub fn get(&self, node: NodeId) -> Option<&E> {
        self.nodes.get(node.0).map(|node| &node.embedder)
    }

    /// The embedders, in the order in which they were added.
    pub fn embedders(&self) -> impl Iterator<Item = &E> {
        self.nodes.iter().map(|node| &node.embedder)
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<&FakeServer> {
        self.servers.iter().find(|site| site.name == name).map(|site| &site.server)
    }

    /// Marks a client whose actions are to be taken.
    pub(super) fn soil(&mut self, index: usize) {
        if let Some(node) = self.nodes.get_mut(index)
            && !core::mem::replace(&mut node.is_dirty, true)
        {
            self.dirty.push_back(index);
        }
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.counter = self.counter.saturating_add(1);
        self.counter
    }

    /// A random time below a maximum.
    pub(super) fn random_time(&mut self, below: Duration) -> Duration {
        let micros = u64::try_from(below.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(if micros == 0 { 0 } else { self.rng.u64(0..=micros) })
    }

    /// Cuts `len` bytes into pieces.
    pub(super) fn pieces(&mut self, len: usize, largest: usize) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < len && largest > 0 && pieces.len() < 63 {
            let end = self.rng.usize(1..=largest).saturating_add(start).min(len);
            pieces.push(start..end);
            start = end;
        }
        if start < len || len == 0 {
            pieces.push(start..len);
        }
        pieces
    }

    /// The server that a session's connections go to.
    pub(super) fn target(&mut self, node: usize, session: Option<SessionHandle>) -> Option<usize> {
        let node = self.nodes.get_mut(node)?;
        match node.embedder.driven().server(session) {
            Some(name) => self.servers.iter().position(|site| site.name == name),
            None => node.server,
        }
    }
}
