//! Virtual time: clients and servers, the links between them, and what is under way.

mod driven;

pub use driven::{Arrival, Carried, Collector, Driven, Embedder, Port, Step};

use core::ops::Range;
use core::time::Duration;
use fastrand::Rng;
#[cfg(feature = "http")]
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::string::String;
#[cfg(feature = "oauth")]
use std::string::ToString;
use std::vec::Vec;

#[cfg(feature = "oauth")]
use super::authorization_server::{FakeAuthorizationServer, Received};
#[cfg(feature = "http")]
use super::server::header_map;
use super::server::{ChannelId, FakeServer, ServerAction, ServerOutput};
#[cfg(feature = "oauth")]
use crate::binding::oauth::OAuthAction;
use crate::host::hub::SessionHandle;
use crate::{OpenFailure, ShutdownStep, Time, Transport};

/// The properties of the connections to a server.
///
/// A connection keeps the order of its bytes in each direction. HTTP exchanges are connections of their own: with
/// different latencies they overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The shortest time from one end to the other. 1 ms.
    pub latency: Duration,
    /// What is added to it at random, at most, for each piece. 0.
    pub jitter: Duration,
    /// The largest piece, in bytes: everything longer is split into pieces of random sizes, 64 at most. 0 for never.
    pub piece: usize,
    /// How many of 1,000 writes are lost, together with their connection. 0.
    pub cuts_per_mille: u16,
}

impl Default for Link {
    fn default() -> Self {
        Self { latency: Duration::from_millis(1), jitter: Duration::ZERO, piece: 0, cuts_per_mille: 0 }
    }
}

impl Link {
    /// A link with this latency, without jitter or faults.
    pub fn new(latency: Duration) -> Self {
        Self { latency, ..Self::default() }
    }

    /// Sets the jitter.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the largest piece.
    #[must_use]
    pub const fn piece(mut self, bytes: usize) -> Self {
        self.piece = bytes;
        self
    }

    /// Sets how many of 1,000 writes are lost, together with their connection.
    #[must_use]
    pub const fn cuts_per_mille(mut self, cuts: u16) -> Self {
        self.cuts_per_mille = cuts;
        self
    }
}

/// A fault of a server, or of the connections to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Every connection breaks. Bytes under way are lost.
    Cut,
    /// Nothing arrives for this time, in either direction; then everything does.
    Stall(Duration),
    /// Every connection breaks, and new ones fail for this time.
    Unreachable(Duration),
    /// The server forgets its sessions over HTTP ([`FakeServer::expire`](crate::testkit::FakeServer::expire)); the tokens
    /// of an authorization server expire.
    Expire,
    /// The server crashes and is started again ([`FakeServer::crash`](crate::testkit::FakeServer::crash)); an
    /// authorization server knows what it issued.
    Crash,
}

/// An embedder in a [`Sim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId(usize);

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
    now: Time,
    rng: Rng,
    nodes: Vec<Node<E>>,
    servers: Vec<Site>,
    channels: BTreeMap<ChannelId, Wire>,
    /// The exchanges and connections of the clients.
    ports: BTreeMap<(usize, Port), ChannelId>,
    /// The newest connection of each client, or of each session of a hub.
    newest: BTreeMap<(usize, Option<SessionHandle>), ChannelId>,
    agenda: BTreeMap<(Time, u64), Item>,
    /// Who is due when.
    timers: BTreeSet<(Time, Actor)>,
    /// Clients with actions to take.
    dirty: VecDeque<usize>,
    counter: u64,
    steps: usize,
    max_steps: usize,
    #[cfg(feature = "oauth")]
    strays: Vec<Received>,
}

/// Requests of authorizations to nobody that are kept.
#[cfg(feature = "oauth")]
const STRAYS: usize = 65_536;

#[derive(Debug)]
struct Node<E> {
    embedder: E,
    /// The server of a client; a hub has one for each session.
    server: Option<usize>,
    due: Option<Time>,
    is_dirty: bool,
}

/// An MCP server, an authorization server, or one that is both.
#[derive(Debug)]
struct Site {
    name: String,
    server: Option<FakeServer>,
    #[cfg(feature = "oauth")]
    issuer: Option<FakeAuthorizationServer>,
    link: Link,
    stalled_until: Time,
    unreachable_until: Time,
    due: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Node(usize),
    Server(usize),
}

/// A connection.
#[derive(Debug)]
struct Wire {
    node: usize,
    port: Port,
    server: usize,
    /// When the last piece arrives, at the server and at the client.
    up: Time,
    down: Time,
    /// Where a browser is redirected to.
    #[cfg(feature = "oauth")]
    redirect_uri: Option<String>,
}

/// What arrives.
#[derive(Debug)]
struct Item {
    channel: ChannelId,
    what: Parcel,
}

#[derive(Debug)]
enum Parcel {
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
    /// At the server: an authorization server responds.
    #[cfg(feature = "oauth")]
    Respond(Vec<ServerOutput>),
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
            #[cfg(feature = "oauth")]
            strays: Vec::new(),
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
        self.set_site(name, link, |site| site.server = Some(server));
        self
    }

    /// Adds an authorization server under a name, which replaces one of that name (feature `oauth`). It has the metadata
    /// of the servers that it [protects](FakeAuthorizationServer::protects), and decides which requests reach them. A
    /// user opens each URL that an authorization shows, and signs in as the scripts of
    /// [`Endpoint::Authorization`](super::Endpoint::Authorization) say.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_authorization_server(mut self, name: &str, server: FakeAuthorizationServer, link: Link) -> Self {
        self.set_site(name, link, |site| site.issuer = Some(server));
        self
    }

    fn set_site(&mut self, name: &str, link: Link, change: impl FnOnce(&mut Site)) {
        if !self.servers.iter().any(|site| site.name == name) {
            self.servers.push(Site {
                name: name.into(),
                server: None,
                #[cfg(feature = "oauth")]
                issuer: None,
                link,
                stalled_until: Time::ZERO,
                unreachable_until: Time::ZERO,
                due: None,
            });
        }
        if let Some(site) = self.servers.iter_mut().find(|site| site.name == name) {
            site.link = link;
            change(site);
        }
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
        self.mark_changed(node);
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
        self.servers.iter().find(|site| site.name == name)?.server.as_ref()
    }

    /// The authorization server of this name (feature `oauth`).
    #[cfg(feature = "oauth")]
    pub fn authorization_server(&self, name: &str) -> Option<&FakeAuthorizationServer> {
        self.servers.iter().find(|site| site.name == name)?.issuer.as_ref()
    }

    /// The authorization servers (feature `oauth`).
    #[cfg(feature = "oauth")]
    pub fn authorization_servers(&self) -> impl Iterator<Item = &FakeAuthorizationServer> {
        self.servers.iter().filter_map(|site| site.issuer.as_ref())
    }

    /// The requests of authorizations that went to no server: the first 65,536 (feature `oauth`).
    #[cfg(feature = "oauth")]
    pub fn strays(&self) -> &[Received] {
        &self.strays
    }

    /// When something happens next, for one who lets time pass at the pace of another clock: now, if an embedder may act.
    /// `None` for never.
    pub fn deadline(&self) -> Option<Time> {
        if self.dirty.is_empty() { self.next_time() } else { Some(self.now) }
    }

    /// Marks a client whose actions are to be taken.
    fn mark_changed(&mut self, index: usize) {
        if let Some(node) = self.nodes.get_mut(index)
            && !core::mem::replace(&mut node.is_dirty, true)
        {
            self.dirty.push_back(index);
        }
    }

    const fn next(&mut self) -> u64 {
        self.counter = self.counter.saturating_add(1);
        self.counter
    }

    /// A random time below a maximum.
    fn random_time(&mut self, below: Duration) -> Duration {
        let micros = u64::try_from(below.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(if micros == 0 { 0 } else { self.rng.u64(0..=micros) })
    }

    /// Cuts `len` bytes into pieces.
    fn pieces(&mut self, len: usize, largest: usize) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < len && largest > 0 && pieces.len() < 63 {
            // Unlike `usize`, the same on every target.
            let piece = self.rng.u64(1..=largest as u64) as usize;
            let end = start.saturating_add(piece).min(len);
            pieces.push(start..end);
            start = end;
        }
        if start < len || len == 0 {
            pieces.push(start..len);
        }
        pieces
    }

    /// The server that a session's connections go to.
    fn target(&mut self, node: usize, session: Option<SessionHandle>) -> Option<usize> {
        let node = self.nodes.get_mut(node)?;
        match node.embedder.driven().server(session) {
            Some(name) => self.servers.iter().position(|site| site.name == name),
            None => node.server,
        }
    }
}

/// A run that does not end: a client or an embedder acts without end, or a deadline does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("the simulation made {steps} steps in one run, and is still at {at:?}")]
pub struct Runaway {
    /// The maximum number of steps of one run.
    pub steps: usize,
    /// The time that was reached.
    pub at: Time,
}

impl<E: Embedder> Sim<E> {
    /// Gives a command to an embedder, at the current time: `sim.tell(node, |now, host| host.open(now))`. Its actions
    /// are taken by the next run. `None` for an id of another simulation.
    pub fn tell<T>(&mut self, node: NodeId, command: impl FnOnce(Time, &mut E) -> T) -> Option<T> {
        let embedder = &mut self.nodes.get_mut(node.0)?.embedder;
        let result = command(self.now, embedder);
        self.mark_changed(node.0);
        Some(result)
    }

    /// Changes a server: `sim.change("docs", |server| server.set_tools([]))`. `None` if there is none of this name.
    pub fn change<T>(&mut self, server: &str, change: impl FnOnce(&mut FakeServer) -> T) -> Option<T> {
        let index = self.servers.iter().position(|site| site.name == server)?;
        let server = self.servers.get_mut(index)?.server.as_mut()?;
        // What it announces is sent now.
        server.advance(self.now);
        let result = change(server);
        self.pump(index);
        Some(result)
    }

    /// Changes an authorization server: `sim.change_authorization_server("as", |server| server.expire_tokens())`. `None`
    /// if there is none of this name (feature `oauth`).
    #[cfg(feature = "oauth")]
    pub fn change_authorization_server<T>(
        &mut self,
        server: &str,
        change: impl FnOnce(&mut FakeAuthorizationServer) -> T,
    ) -> Option<T> {
        self.servers.iter_mut().find(|site| site.name == server)?.issuer.as_mut().map(change)
    }

    /// Runs for this time.
    ///
    /// # Errors
    /// [`Runaway`] after the maximum number of steps.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Runaway> {
        self.run_until(time, |_| false).map(drop)
    }

    /// Runs until a condition holds, or for this time. Returns whether the condition holds.
    ///
    /// # Errors
    /// [`Runaway`] after the maximum number of steps.
    pub fn run_until(&mut self, time: Duration, mut condition: impl FnMut(&Self) -> bool) -> Result<bool, Runaway> {
        let end = self.now + time;
        self.steps = 0;
        loop {
            self.settle()?;
            if condition(self) {
                return Ok(true);
            }
            let Some(next) = self.next_time().filter(|next| *next <= end) else {
                self.now = end;
                return Ok(false);
            };
            self.count_step()?;
            self.now = self.now.max(next);
            self.advance();
        }
    }

    /// Makes one step: an embedder takes one action. If no action is left, time passes until the next arrival or
    /// deadline, which is handled. Returns whether there was anything to do.
    ///
    /// Between two steps a test can read the state of a client, save and restore it, or change its server.
    pub fn step(&mut self) -> bool {
        if self.take_action() {
            return true;
        }
        let Some(next) = self.next_time() else { return false };
        self.now = self.now.max(next);
        self.advance();
        true
    }

    /// Takes every action of the clients.
    fn settle(&mut self) -> Result<(), Runaway> {
        while self.take_action() {
            self.count_step()?;
        }
        Ok(())
    }

    /// Takes one action of a client. Returns whether there was one.
    fn take_action(&mut self) -> bool {
        while let Some(index) = self.dirty.front().copied() {
            if self.act(index) {
                return true;
            }
            self.dirty.pop_front();
        }
        false
    }

    fn count_step(&mut self) -> Result<(), Runaway> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > self.max_steps { Err(Runaway { steps: self.max_steps, at: self.now }) } else { Ok(()) }
    }

    /// When something happens next.
    fn next_time(&self) -> Option<Time> {
        let arrival = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let timer = self.timers.first().map(|(at, _)| *at);
        arrival.into_iter().chain(timer).min()
    }

    /// Lets one thing happen that is due. What arrives comes before a deadline of the same time.
    fn advance(&mut self) {
        if let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= self.now
        {
            let (_, number) = *entry.key();
            let item = entry.remove();
            let wire = self.channels.get(&item.channel);
            let stalled = wire.and_then(|wire| self.servers.get(wire.server)).map(|site| site.stalled_until);
            match stalled.filter(|until| *until > self.now) {
                Some(until) => drop(self.agenda.insert((until, number), item)),
                None => self.arrive(item),
            }
        } else if let Some((_, actor)) = self.timers.first().copied() {
            match actor {
                Actor::Node(index) => self.time_out(index),
                Actor::Server(index) => self.pump(index),
            }
        }
    }

    /// Takes one action of a client. Returns whether there was one.
    fn act(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index) else { return false };
        let Some(step) = node.embedder.driven().step() else {
            node.is_dirty = false;
            self.rearm(index);
            return false;
        };
        match step {
            Step::Event(event) => node.embedder.on_event(now, event),
            Step::Open(port) => self.open(index, port),
            Step::Write(session, bytes) => {
                if let Some(channel) = self.newest(index, session) {
                    self.write(channel, &bytes);
                }
            }
            Step::Shutdown(session, step) => match self.newest(index, session) {
                Some(channel) => self.up(channel, Parcel::Shutdown(step)),
                None => self.report_closed(index, session),
            },
            #[cfg(feature = "http")]
            Step::Request(session, request) => {
                let port = Port::Exchange(session, request.exchange);
                let server = self.target(index, session);
                self.request(index, port, server, request.request);
            }
            #[cfg(feature = "http")]
            Step::Drop(port) => self.abandon_port(index, port),
            #[cfg(feature = "oauth")]
            Step::OAuth(session, action) => self.authorize(index, session, *action),
        }
        true
    }

    /// The deadline of a client and its embedder.
    fn rearm(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let own = node.embedder.deadline();
        let due = node.embedder.driven().next_deadline().into_iter().chain(own).min();
        let before = core::mem::replace(&mut node.due, due);
        self.set_timer(Actor::Node(index), before, due);
    }

    fn newest(&self, node: usize, session: Option<SessionHandle>) -> Option<ChannelId> {
        self.newest.get(&(node, session)).copied()
    }

    fn open(&mut self, index: usize, port: Port) {
        // A process of this session that still runs ends first.
        if let Some(former) = self.newest(index, port.session()) {
            self.abandon(former);
        }
        let server = self.target(index, port.session());
        let Some(channel) = self.connect(index, port, server) else {
            return self.give(index, port, Arrival::Transport(unreachable()));
        };
        self.newest.insert((index, port.session()), channel);
        if self.is_unreachable(channel) {
            self.down(channel, Parcel::Unreachable);
        } else {
            self.up(channel, Parcel::Open);
        }
    }

    /// The client wants no more of a connection.
    fn abandon(&mut self, channel: ChannelId) {
        let at_client = |what: &Parcel| matches!(what, Parcel::Opened | Parcel::Unreachable | Parcel::Output(_));
        self.agenda.retain(|_, item| item.channel != channel || !at_client(&item.what));
        self.up(channel, Parcel::Close);
        if let Some(wire) = self.channels.get(&channel) {
            self.ports.remove(&(wire.node, wire.port));
        }
    }

    /// A session is to shut a connection down that is over.
    fn report_closed(&mut self, index: usize, session: Option<SessionHandle>) {
        let node = self.nodes.get_mut(index);
        if let Some(connection) = node.and_then(|node| node.embedder.driven().connection_of(session)) {
            let why = "it is closed already";
            self.give(index, Port::Connection(session, connection), Arrival::Transport(Transport::Closed { why }));
        }
    }

    #[cfg(feature = "http")]
    fn request(&mut self, index: usize, port: Port, server: Option<usize>, request: ::http::Request<Vec<u8>>) {
        let Some(channel) = self.connect(index, port, server) else { return self.fail(index, port, "no such server") };
        if self.is_unreachable(channel) {
            self.down(channel, Parcel::Unreachable);
        } else if !self.is_lost(channel) {
            self.up(channel, Parcel::Request(Box::new(request)));
        }
    }

    #[cfg(feature = "http")]
    fn abandon_port(&mut self, index: usize, port: Port) {
        if let Some(channel) = self.ports.get(&(index, port)).copied() {
            self.abandon(channel);
        }
    }

    #[cfg(feature = "http")]
    fn fail(&mut self, index: usize, port: Port, why: &'static str) {
        use crate::binding::http::Broken;

        self.give(index, port, Arrival::Failure(Broken::Unreachable, why));
    }

    fn give(&mut self, index: usize, port: Port, input: Arrival<'_>) {
        if let Some(node) = self.nodes.get_mut(index) {
            node.embedder.driven().input(self.now, port, input);
        }
        self.mark_changed(index);
    }

    /// Something arrives.
    fn arrive(&mut self, Item { channel, what }: Item) {
        let Some(wire) = self.channels.get(&channel) else { return };
        let (index, port, server) = (wire.node, wire.port, wire.server);
        let now = self.now;
        let site = self.servers.get_mut(server).and_then(|site| site.server.as_mut());
        match what {
            Parcel::Open => {
                site.into_iter().for_each(|server| server.handle_open(now, channel));
                self.down(channel, Parcel::Opened);
            }
            Parcel::Write(bytes) => site.into_iter().for_each(|server| server.handle_bytes(now, channel, &bytes)),
            Parcel::Shutdown(step) => site.into_iter().for_each(|server| server.handle_shutdown(now, channel, step)),
            #[cfg(feature = "http")]
            Parcel::Request(request) => self.request_arrives(channel, port, server, &request),
            #[cfg(feature = "oauth")]
            Parcel::Respond(outputs) => outputs.into_iter().for_each(|output| self.put(channel, output)),
            Parcel::Close => {
                site.into_iter().for_each(|server| server.handle_closed(now, channel));
                self.forget(channel);
            }
            Parcel::Opened => self.give(index, port, Arrival::Transport(Transport::Opened)),
            Parcel::Unreachable => {
                self.forget(channel);
                match port {
                    Port::Connection(..) => self.give(index, port, Arrival::Transport(unreachable())),
                    #[cfg(feature = "http")]
                    _ => self.fail(index, port, "connection refused"),
                }
            }
            Parcel::Output(output) => self.deliver(channel, index, port, output),
        }
        self.pump(server);
    }

    fn deliver(&mut self, channel: ChannelId, index: usize, port: Port, output: ServerOutput) {
        let is_over = matches!(output, ServerOutput::End | ServerOutput::Break);
        if is_over {
            self.forget(channel);
        }
        match (port, output) {
            (Port::Connection(..), ServerOutput::End) => {
                self.give(index, port, Arrival::Transport(Transport::Closed { why: "exit status: 0" }));
            }
            (Port::Connection(..), ServerOutput::Break) => {
                self.give(index, port, Arrival::Transport(Transport::Closed { why: "the pipe broke" }));
            }
            (_, ServerOutput::Bytes(bytes)) => self.give(index, port, Arrival::Bytes(&bytes)),
            #[cfg(feature = "oauth")]
            (Port::Browser(_), ServerOutput::Head { headers, .. }) => {
                self.deliver_browser(channel, index, port, &headers)
            }
            // A pipe has no head.
            (Port::Connection(..), ServerOutput::Head { .. }) => {}
            #[cfg(feature = "http")]
            (_, output) => self.deliver_http(index, port, output),
        }
    }

    #[cfg(feature = "http")]
    fn deliver_http(&mut self, index: usize, port: Port, output: ServerOutput) {
        use crate::binding::http::Broken;

        match output {
            ServerOutput::Head { status, headers } => {
                let status = ::http::StatusCode::from_u16(status).unwrap_or(::http::StatusCode::OK);
                self.give(index, port, Arrival::Head(status, &header_map(headers)));
            }
            ServerOutput::Bytes(bytes) => self.give(index, port, Arrival::Bytes(&bytes)),
            ServerOutput::End => self.give(index, port, Arrival::End),
            ServerOutput::Break => self.give(index, port, Arrival::Failure(Broken::Midway, "connection reset")),
        }
    }

    /// A request arrives at a site.
    #[cfg(feature = "http")]
    fn request_arrives(&mut self, channel: ChannelId, port: Port, server: usize, request: &::http::Request<Vec<u8>>) {
        #[cfg(feature = "oauth")]
        if let Some((after, outputs)) = self.respond(port, request) {
            let key = (self.now + after, self.next());
            self.agenda.insert(key, Item { channel, what: Parcel::Respond(outputs) });
            return;
        }
        #[cfg(not(feature = "oauth"))]
        let _ = port;
        if let Some(server) = self.servers.get_mut(server).and_then(|site| site.server.as_mut()) {
            server.handle_request(self.now, channel, request);
        }
    }

    /// A deadline of a client, or of its embedder, is due.
    fn time_out(&mut self, index: usize) {
        let now: Time = self.now;
        if let Some(node) = self.nodes.get_mut(index) {
            let before = node.due.take();
            node.embedder.driven().time_out(now);
            if node.embedder.deadline().is_some_and(|deadline| deadline <= now) {
                node.embedder.on_timeout(now);
            }
            self.set_timer(Actor::Node(index), before, None);
        }
        self.mark_changed(index);
    }
}

const fn unreachable() -> Transport<'static> {
    Transport::OpenFailed { how: OpenFailure::Connect, why: "connection refused" }
}

#[cfg(feature = "oauth")]
impl<E: Embedder> Sim<E> {
    /// An authorization does something.
    fn authorize(&mut self, index: usize, session: Option<SessionHandle>, action: OAuthAction) {
        match &action {
            OAuthAction::Request(request) => {
                let port = Port::OAuth(session, request.exchange);
                return self.send(index, port, request.request.clone());
            }
            OAuthAction::Drop(exchange) => return self.abandon_port(index, Port::OAuth(session, *exchange)),
            OAuthAction::Browse(url) => {
                let port = Port::Browser(session);
                self.abandon_port(index, port);
                if let Ok(request) = ::http::Request::get(url.as_str()).body(Vec::new()) {
                    self.send(index, port, request);
                }
                let channel = self.ports.get(&(index, port));
                if let Some(wire) = channel.and_then(|channel| self.channels.get_mut(channel)) {
                    wire.redirect_uri = Some(url.redirect_uri().into());
                }
            }
            OAuthAction::EndBrowse => self.abandon_port(index, Port::Browser(session)),
            OAuthAction::Store(_) | OAuthAction::Sign(_) | OAuthAction::Event(_) => {}
        }
        if let Some(node) = self.nodes.get_mut(index) {
            node.embedder.on_oauth(self.now, session, action);
        }
    }

    /// Sends a request of an authorization or a browser: to the authorization server at its URL, or to the MCP server.
    fn send(&mut self, index: usize, port: Port, request: ::http::Request<Vec<u8>>) {
        let url = request.uri().to_string();
        let issuer = self.issuer_at(&url);
        let is_beside =
            issuer.and_then(|at| self.servers.get(at)?.issuer.as_ref()).is_some_and(|it| it.is_beside(&url));
        let server = if is_beside { self.target(index, port.session()) } else { issuer };
        if server.is_none() && self.strays.len() < STRAYS {
            self.strays.push(Received::of(self.now, None, &request));
        }
        self.request(index, port, server, request);
    }

    /// The authorization server that answers at a URL: one that has something there, or else that has its origin.
    fn issuer_at(&self, url: &str) -> Option<usize> {
        let find = |is_it: &dyn Fn(&FakeAuthorizationServer) -> bool| {
            self.servers.iter().position(|site| site.issuer.as_ref().is_some_and(is_it))
        };
        find(&|it| it.has(url)).or_else(|| find(&|it| it.is_own(url))).or_else(|| find(&|it| it.is_beside(url)))
    }

    /// The response of an authorization server, and after which time; `None` if the MCP server answers the request.
    fn respond(&mut self, port: Port, request: &::http::Request<Vec<u8>>) -> Option<(Duration, Vec<ServerOutput>)> {
        let url = request.uri().to_string();
        let mut issuers = self.servers.iter_mut().filter_map(|site| site.issuer.as_mut());
        let issuer = if matches!(port, Port::Exchange(..)) {
            issuers.find(|issuer| issuer.is_resource(&url))
        } else {
            self.issuer_at(&url).and_then(|at| self.servers.get_mut(at)?.issuer.as_mut())
        };
        issuer?.respond(self.now, request)
    }

    /// The head of the response to a browser: it is redirected to the program that waits for it, or shows a page.
    fn deliver_browser(&mut self, channel: ChannelId, index: usize, port: Port, headers: &[(&str, String)]) {
        let location = headers.iter().find(|(name, _)| *name == "location");
        let redirect_uri = self.channels.get(&channel).and_then(|wire| wire.redirect_uri.clone());
        if let (Some((_, location)), Some(redirect_uri)) = (location, redirect_uri)
            && location.starts_with(&*redirect_uri)
        {
            self.give(index, port, Arrival::Redirect(location));
        }
    }
}

/// The direction of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl<E: Embedder> Sim<E> {
    /// Begins a connection; `None` if there is no server for it.
    fn connect(&mut self, node: usize, port: Port, server: Option<usize>) -> Option<ChannelId> {
        let server = server?;
        let channel = ChannelId::from_u64(self.next());
        let wire = Wire {
            node,
            port,
            server,
            up: self.now,
            down: self.now,
            #[cfg(feature = "oauth")]
            redirect_uri: None,
        };
        self.channels.insert(channel, wire);
        self.ports.insert((node, port), channel);
        Some(channel)
    }

    /// Whether new connections to the server of a connection fail.
    fn is_unreachable(&self, channel: ChannelId) -> bool {
        let wire = self.channels.get(&channel);
        let site = wire.and_then(|wire| self.servers.get(wire.server));
        site.is_none_or(|site| site.unreachable_until > self.now)
    }

    fn up(&mut self, channel: ChannelId, what: Parcel) {
        self.enqueue(channel, Way::Up, what);
    }

    fn down(&mut self, channel: ChannelId, what: Parcel) {
        self.enqueue(channel, Way::Down, what);
    }

    /// The client writes to a pipe.
    fn write(&mut self, channel: ChannelId, bytes: &[u8]) {
        self.carry(channel, Way::Up, bytes);
    }

    /// Puts bytes on their way, in pieces as the link cuts them.
    fn carry(&mut self, channel: ChannelId, way: Way, bytes: &[u8]) {
        let Some((node, link)) = self.link(channel) else { return };
        if self.is_lost(channel) {
            return;
        }
        let is_whole = self.nodes.get_mut(node).is_some_and(|node| node.embedder.driven().takes_messages());
        for piece in self.pieces(bytes.len(), if is_whole { 0 } else { link.piece }) {
            let piece = bytes.get(piece).unwrap_or_default().to_vec();
            let what = match way {
                Way::Up => Parcel::Write(piece),
                Way::Down => Parcel::Output(ServerOutput::Bytes(piece)),
            };
            self.enqueue(channel, way, what);
        }
    }

    fn link(&self, channel: ChannelId) -> Option<(usize, Link)> {
        let wire = self.channels.get(&channel)?;
        self.servers.get(wire.server).map(|site| (wire.node, site.link))
    }

    /// Whether the next write on a connection is lost, and the connection with it.
    fn is_lost(&mut self, channel: ChannelId) -> bool {
        let cuts = self.link(channel).map_or(0, |(_, link)| link.cuts_per_mille);
        let lost = cuts > 0 && self.rng.u16(0..1000) < cuts;
        if lost {
            self.cut(channel);
        }
        lost
    }

    /// A piece arrives after those before it.
    fn enqueue(&mut self, channel: ChannelId, way: Way, what: Parcel) {
        let Some((_, link)) = self.link(channel) else { return };
        let soonest = self.now + link.latency + self.random_time(link.jitter);
        let number = self.next();
        let Some(wire) = self.channels.get_mut(&channel) else { return };
        let free = match way {
            Way::Up => &mut wire.up,
            Way::Down => &mut wire.down,
        };
        *free = soonest.max(*free);
        self.agenda.insert((*free, number), Item { channel, what });
    }

    /// Takes what the server of this number does now.
    fn pump(&mut self, index: usize) {
        let mut actions: Vec<ServerAction> = Vec::new();
        let Some(site) = self.servers.get_mut(index) else { return };
        let Some(server) = &mut site.server else { return };
        while let Some(action) = server.poll(self.now) {
            actions.push(action);
        }
        let (before, due) = (site.due, server.deadline());
        site.due = due;
        self.set_timer(Actor::Server(index), before, due);
        for ServerAction { channel, output } in actions {
            self.put(channel, output);
        }
    }

    /// Sends what a server does on a connection.
    fn put(&mut self, channel: ChannelId, output: ServerOutput) {
        match output {
            ServerOutput::Bytes(bytes) => self.carry(channel, Way::Down, &bytes),
            output @ (ServerOutput::Head { .. } | ServerOutput::End | ServerOutput::Break) => {
                self.down(channel, Parcel::Output(output));
            }
        }
    }

    fn set_timer(&mut self, actor: Actor, before: Option<Time>, due: Option<Time>) {
        if before != due {
            before.map(|before| self.timers.remove(&(before, actor)));
            due.map(|due| self.timers.insert((due, actor)));
        }
    }

    /// A connection breaks: what is under way is lost, and both ends notice.
    fn cut(&mut self, channel: ChannelId) {
        let Some(server) = self.channels.get(&channel).map(|wire| wire.server) else { return };
        self.agenda.retain(|_, item| item.channel != channel);
        if let Some(server) = self.servers.get_mut(server).and_then(|site| site.server.as_mut()) {
            server.handle_closed(self.now, channel);
        }
        self.enqueue(channel, Way::Down, Parcel::Output(ServerOutput::Break));
    }

    /// Forgets a connection that is over at the client.
    fn forget(&mut self, channel: ChannelId) {
        if let Some(wire) = self.channels.remove(&channel) {
            self.ports.remove(&(wire.node, wire.port));
            let key = (wire.node, wire.port.session());
            if self.newest.get(&key) == Some(&channel) {
                self.newest.remove(&key);
            }
        }
    }

    /// A fault happens to the server of this name, and to the connections to it.
    pub fn fault(&mut self, server: &str, fault: Fault) {
        let Some(index) = self.servers.iter().position(|site| site.name == server) else { return };
        let now = self.now;
        let Some(site) = self.servers.get_mut(index) else { return };
        match fault {
            Fault::Cut => self.cut_all(index),
            Fault::Stall(time) => site.stalled_until = site.stalled_until.max(now + time),
            Fault::Unreachable(time) => {
                site.unreachable_until = site.unreachable_until.max(now + time);
                self.cut_all(index);
            }
            Fault::Expire => {
                site.server.iter_mut().for_each(|server| server.expire(now));
                #[cfg(feature = "oauth")]
                site.issuer.iter_mut().for_each(FakeAuthorizationServer::expire_tokens);
            }
            Fault::Crash => {
                site.server.iter_mut().for_each(|server| server.crash(now));
                #[cfg(feature = "oauth")]
                if site.issuer.is_some() {
                    self.cut_all(index);
                }
            }
        }
        self.pump(index);
    }

    fn cut_all(&mut self, server: usize) {
        let of_server = self.channels.iter().filter(|(_, wire)| wire.server == server);
        let channels: Vec<_> = of_server.map(|(channel, _)| *channel).collect();
        channels.into_iter().for_each(|channel| self.cut(channel));
    }
}
