//! Servers of the [test kit](mcp_proto::testkit) in memory, with its links and faults, for the tests of a host on this driver
//! (feature `testkit`, for `dev-dependencies`).
//!
//! With the time of tokio paused (`start_paused`, its feature `test-util`), an hour of timeouts takes milliseconds, and the
//! same seeds have the same run.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_proto::testkit::{FakeServer, FakeTool, Fault, Link, Sim};
//! use mcp_proto::{Options, Outcome};
//! use mcp_proto_tokio::testkit::Servers;
//! use mcp_proto_tokio::{CallErrorKind, Host, Session};
//!
//! # #[cfg(not(all()))]
//! #[tokio::test(start_paused = true)]
//! async fn a_payment_whose_server_crashes_is_not_repeated() {}
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! // In a test with `#[tokio::test(start_paused = true)]`:
//! let server = FakeServer::legacy().tool(FakeTool::new("pay").takes(Duration::from_secs(5)));
//! let servers = Servers::start(Sim::new(1).with_server("bank", server, Link::new(Duration::from_millis(20))));
//! let host = Host::new(Options::new("my-host", "1.0")).seed(1);
//! let session = Session::connect(servers.streams("bank"), host).await.unwrap();
//!
//! let call = session.start_tool("pay", &serde_json::json!({})).unwrap();
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! servers.with(|sim| sim.fault("bank", Fault::Crash));
//! let error = call.await.unwrap_err();
//! assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)));
//! assert_eq!(servers.with(|sim| sim.server("bank").unwrap().tool_runs("pay")), 1);
//! # }
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use fastrand::Rng;
use mcp_proto::host::hub::SessionHandle;
use mcp_proto::testkit::{Arrival, Driven, Embedder, NodeId, Port, Runaway, Sim, Step};
use mcp_proto::{ConnectionId, ShutdownStep, Time, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::endpoint::Endpoint;
use crate::stream::Streams;

/// How long a stream takes nothing, at most, where it does so at random.
const SLOW: u64 = 50;

/// Fake servers in memory, whose time is that of the runtime.
///
/// Clones are the same servers. A task passes on what is under way; it ends when the last of them, of their streams and of their HTTP
/// clients is dropped.
#[derive(Clone)]
pub struct Servers(Arc<Shared>);

struct Shared {
    state: Mutex<Simulated>,
    pace: Pace,
}

struct Simulated {
    sim: Sim<Plug>,
    nodes: Vec<NodeId>,
}

impl Servers {
    /// The servers of a simulation, in the context of a runtime.
    pub fn start(sim: Sim<Plug>) -> Self {
        let pace = Pace::new(sim.now());
        let shared = Arc::new(Shared { state: Mutex::new(Simulated { sim, nodes: Vec::new() }), pace });
        let (weak, changed) = (Arc::downgrade(&shared), Arc::clone(&shared.pace.changed));
        tokio::spawn(async move {
            while let Some(shared) = weak.upgrade() {
                // A simulation that does not come to rest goes on at its next turn.
                let next = shared.with(|_| ());
                drop(shared);
                let next = next.1;
                tokio::select! {
                    biased;
                    () = changed.notified() => {}
                    () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                }
            }
        });
        Self(shared)
    }

    /// Streams to the server of this name. They take what is written in parts, and with pauses, as their seed has it: that of
    /// the servers in the order in which they are asked for.
    pub fn streams(&self, server: &str) -> Streams {
        let (servers, plug) = (self.clone(), self.plug(|sim, plug| sim.add(server, plug)));
        Streams::new(move || {
            // The streams keep the servers running.
            let _ = &servers;
            plug.open()
        })
    }

    /// Streams to each server of a hub, by its name, for [`Host::endpoints`](crate::Host::endpoints).
    ///
    /// ```
    /// use mcp_proto::Options;
    /// use mcp_proto::host::hub::HubOptions;
    /// use mcp_proto::testkit::{FakeServer, FakeTool, Link, Sim};
    /// use mcp_proto_tokio::testkit::Servers;
    /// use mcp_proto_tokio::{Host, Hub};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// let (mut sim, link) = (Sim::new(1), Link::default());
    /// for name in ["bank", "mail"] {
    ///     sim = sim.with_server(name, FakeServer::modern().tool(FakeTool::new("send")), link);
    /// }
    /// let servers = Servers::start(sim);
    /// let host = Host::new(HubOptions::new(Options::new("my-host", "1.0"))).seed(1).endpoints(servers.endpoints());
    /// // The programs are not started.
    /// let entries = json!({"bank": {"command": "bank-mcp"}, "mail": {"command": "mail-mcp"}});
    /// let hub = Hub::start(serde_json::from_value(entries).unwrap(), host).unwrap();
    /// hub.settled().await;
    /// hub.call("mcp_mail_send", &json!({})).await.unwrap();
    /// assert_eq!(servers.with(|sim| sim.server("mail").unwrap().tool_runs("send")), 1);
    /// # }
    /// ```
    pub fn endpoints(&self) -> impl Fn(&str) -> Option<Endpoint> + use<> {
        let servers = self.clone();
        move |server| Some(servers.streams(server).into())
    }

    /// An HTTP client that reaches the servers by their names: `http://bank/mcp`, or `https://bank.example/mcp`.
    #[cfg(feature = "http")]
    pub fn http(&self) -> impl crate::HttpTransport + use<> {
        let plug = self.plug(Sim::add_hub);
        Client { _servers: self.clone(), plug }
    }

    fn plug(&self, add: impl FnOnce(&mut Sim<Plug>, Plug) -> NodeId) -> Plug {
        let mut state = self.0.state();
        let plug = self.0.pace.plug(state.nodes.len().try_into().unwrap_or_default());
        let node = add(&mut state.sim, plug.clone());
        state.nodes.push(node);
        plug
    }

    /// Reads the simulation or changes it: [`Sim::fault`], [`Sim::change`], [`Sim::server`]. Only the time of the runtime
    /// lets its time pass.
    pub fn with<T>(&self, change: impl FnOnce(&mut Sim<Plug>) -> T) -> T {
        let (result, _) = self.0.with(change);
        self.0.pace.changed.notify_one();
        result
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Simulated> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the simulation at the time of the runtime. Returns when something happens next.
    fn with<T>(&self, change: impl FnOnce(&mut Sim<Plug>) -> T) -> (T, Option<Instant>) {
        let mut state = self.state();
        let Simulated { sim, nodes } = &mut *state;
        // One that makes too many steps in one turn goes on at the next.
        let _ = self.pace.advance(sim, nodes);
        let result = change(sim);
        (result, self.pace.instant(sim.deadline()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.pace.changed.notify_one();
    }
}

/// Lets the time of a simulation pass at that of the runtime: for a simulation whose embedders are a test's own.
#[derive(Clone, Debug)]
pub struct Pace {
    start: Instant,
    epoch: Time,
    changed: Arc<Notify>,
}

impl Pace {
    /// A pace for a simulation that is at this time now.
    pub fn new(now: Time) -> Self {
        Self { start: Instant::now(), epoch: now, changed: Arc::default() }
    }

    /// The end of a client's connections, for an embedder of the simulation. The seed decides in which parts they take
    /// bytes.
    pub fn plug(&self, seed: u64) -> Plug {
        let state = State {
            steps: VecDeque::new(),
            inlets: BTreeMap::new(),
            names: Vec::new(),
            newest: ConnectionId::from_u64(0),
            counter: 0,
            rng: Rng::with_seed(seed),
        };
        Plug { state: Arc::new(Mutex::new(state)), changed: Arc::clone(&self.changed), names: Vec::new() }
    }

    /// Lets the simulation catch up with the runtime. `nodes` are its embedders that have plugs. Returns when something
    /// happens next.
    ///
    /// # Errors
    /// As of [`Sim::run_for`].
    pub fn advance<E: Embedder>(&self, sim: &mut Sim<E>, nodes: &[NodeId]) -> Result<Option<Instant>, Runaway> {
        for node in nodes {
            sim.tell(*node, |_, _| ());
        }
        let now = Time::from_epoch(self.epoch.since(Time::ZERO).saturating_add(self.start.elapsed()));
        sim.run_for(now.since(sim.now()))?;
        Ok(self.instant(sim.deadline()))
    }

    /// Lets this time of the runtime pass, with a function that sees the simulation whenever something may have changed.
    ///
    /// # Errors
    /// As of [`Sim::run_for`].
    pub async fn run<E: Embedder>(
        &self,
        sim: &mut Sim<E>,
        nodes: &[NodeId],
        time: Duration,
        mut see: impl FnMut(&Sim<E>),
    ) -> Result<(), Runaway> {
        let end = Instant::now().checked_add(time);
        loop {
            let next = self.advance(sim, nodes)?;
            see(sim);
            let now = Instant::now();
            if end.is_none_or(|end| end <= now) {
                return Ok(());
            }
            let next = next.into_iter().chain(end).min().unwrap_or(now);
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    fn instant(&self, time: Option<Time>) -> Option<Instant> {
        self.start.checked_add(time?.since(self.epoch))
    }
}

/// The end of a client's connections in a simulation: an embedder of it, as which it opens what the client opens.
pub struct Plug {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// Those of the state, of which the simulation borrows.
    names: Vec<Box<str>>,
}

struct State {
    steps: VecDeque<Step<()>>,
    inlets: BTreeMap<Port, Inlet>,
    /// The servers of an HTTP client that reaches several, by the numbers of their sessions.
    names: Vec<Box<str>>,
    newest: ConnectionId,
    counter: u64,
    rng: Rng,
}

/// What came for a connection or an exchange.
#[derive(Default)]
struct Inlet {
    came: VecDeque<Came>,
    waker: Option<Waker>,
    /// Nothing that is written arrives.
    is_over: bool,
}

enum Came {
    Opened,
    #[cfg(feature = "http")]
    Head(http::StatusCode, http::HeaderMap),
    Bytes(Vec<u8>),
    End,
    Failed(io::Error),
    #[cfg(feature = "http")]
    Broken(mcp_proto::binding::http::Broken, String),
}

impl Clone for Plug {
    fn clone(&self) -> Self {
        let (state, changed) = (Arc::clone(&self.state), Arc::clone(&self.changed));
        Self { state, changed, names: Vec::new() }
    }
}

impl Plug {
    /// Streams to the server of the embedder.
    pub fn streams(&self) -> Streams {
        let plug = self.clone();
        Streams::new(move || plug.open())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, state: &mut State, step: Step<()>) {
        state.steps.push_back(step);
        self.changed.notify_one();
    }

    /// Begins a connection or an exchange.
    fn begin(&self, port: impl FnOnce(&mut State, u64) -> Port) -> (Held, MutexGuard<'_, State>) {
        let mut state = self.state();
        state.counter = state.counter.saturating_add(1);
        let number = state.counter;
        let port = port(&mut state, number);
        state.inlets.insert(port, Inlet::default());
        (Held { plug: self.clone(), port }, state)
    }

    fn open(&self) -> impl Future<Output = io::Result<Pipe>> + use<> {
        let plug = self.clone();
        async move {
            let held = {
                let (held, mut state) = plug.begin(|state, number| {
                    state.newest = ConnectionId::from_u64(number);
                    Port::Connection(None, state.newest)
                });
                plug.step(&mut state, Step::Open(held.port));
                held
            };
            match poll_fn(|context| held.poll(context)).await {
                Came::Opened => Ok(Pipe { held, rest: Vec::new(), slow: None, has_paused: false }),
                Came::Failed(error) => Err(error),
                _ => Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
    }
}

impl fmt::Debug for Plug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plug").finish_non_exhaustive()
    }
}

/// A connection or an exchange, for as long as the client has it.
struct Held {
    plug: Plug,
    port: Port,
}

impl Held {
    /// What came next.
    fn poll(&self, context: &Context<'_>) -> Poll<Came> {
        let mut state = self.plug.state();
        let Some(inlet) = state.inlets.get_mut(&self.port) else { return Poll::Pending };
        match inlet.came.pop_front() {
            Some(came) => Poll::Ready(came),
            None => {
                inlet.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Held {
    /// The bytes that came next, if bytes did.
    fn next_bytes(&self) -> Option<Vec<u8>> {
        let mut state = self.plug.state();
        let inlet = state.inlets.get_mut(&self.port)?;
        match inlet.came.pop_front()? {
            Came::Bytes(bytes) => Some(bytes),
            other => {
                inlet.came.push_front(other);
                None
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.plug.state();
        let inlet = state.inlets.remove(&self.port);
        if inlet.is_none_or(|inlet| inlet.is_over) {
            return;
        }
        match self.port {
            Port::Connection(session, connection) if connection == state.newest => {
                self.plug.step(&mut state, Step::Shutdown(session, ShutdownStep::Kill));
            }
            #[cfg(feature = "http")]
            Port::Exchange(..) => self.plug.step(&mut state, Step::Drop(self.port)),
            _ => {}
        }
    }
}

/// A stream to a server.
struct Pipe {
    held: Held,
    /// What was not read of what came.
    rest: Vec<u8>,
    /// It takes nothing until then.
    slow: Option<Pin<Box<Sleep>>>,
    has_paused: bool,
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.held.poll(context)) {
                Came::Bytes(bytes) => self.rest = bytes,
                Came::Failed(error) => return Poll::Ready(Err(error)),
                _ => return Poll::Ready(Ok(())),
            }
        }
        // What came since is read with it, as from a pipe.
        while self.rest.len() < buffer.remaining()
            && let Some(bytes) = self.held.next_bytes()
        {
            self.rest.extend_from_slice(&bytes);
        }
        let len = self.rest.len().min(buffer.remaining());
        let rest = self.rest.split_off(len);
        buffer.put_slice(&self.rest);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(slow) = &mut self.slow {
            ready!(slow.as_mut().poll(context));
            self.slow = None;
        }
        let (plug, port) = (self.held.plug.clone(), self.held.port);
        let mut state = plug.state();
        let is_newest = matches!(port, Port::Connection(_, connection) if connection == state.newest);
        if !is_newest || state.inlets.get(&port).is_none_or(|inlet| inlet.is_over) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let pause = if self.has_paused { 0 } else { state.rng.u8(..8) };
        let slow = (pause == 1).then(|| Duration::from_millis(state.rng.u64(1..=SLOW)));
        self.has_paused = matches!(pause, 1 | 2);
        match (slow, pause) {
            (Some(slow), _) => {
                let mut slow = Box::pin(sleep(slow));
                // It is as long as it is polled first here.
                let polled = slow.as_mut().poll(context);
                self.slow = Some(slow);
                if polled.is_ready() {
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            (None, 2) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            (None, _) => {}
        }
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let len = if len == 0 || state.rng.bool() { len } else { state.rng.u64(1..=len) };
        let taken = usize::try_from(len).ok().and_then(|len| bytes.get(..len)).unwrap_or(bytes);
        plug.step(&mut state, Step::Write(None, taken.to_vec()));
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let plug = &self.held.plug;
        let mut state = plug.state();
        let is_newest = matches!(self.held.port, Port::Connection(_, connection) if connection == state.newest);
        if is_newest && state.inlets.get(&self.held.port).is_some_and(|inlet| !inlet.is_over) {
            plug.step(&mut state, Step::Shutdown(None, ShutdownStep::CloseInput));
        }
        Poll::Ready(Ok(()))
    }
}

/// [`Servers::http`].
#[cfg(feature = "http")]
struct Client {
    _servers: Servers,
    plug: Plug,
}

#[cfg(feature = "http")]
impl crate::HttpTransport for Client {
    fn run<'a>(
        &'a self,
        request: http::Request<Vec<u8>>,
        _: crate::Purpose,
        take: crate::TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let host = request.uri().host().unwrap_or_default();
        let name: Box<str> = host.split_once('.').map_or(host, |(name, _)| name).into();
        Box::pin(self.plug.exchange(Some(name), request, take))
    }
}

/// The exchanges with the server of the embedder.
#[cfg(feature = "http")]
impl crate::HttpTransport for Plug {
    fn run<'a>(
        &'a self,
        request: http::Request<Vec<u8>>,
        _: crate::Purpose,
        take: crate::TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.exchange(None, request, take))
    }
}

#[cfg(feature = "http")]
impl Plug {
    /// Runs an exchange: with the server of this name, or else with that of the embedder.
    async fn exchange(
        &self,
        server: Option<Box<str>>,
        request: http::Request<Vec<u8>>,
        mut take: crate::TakePiece<'_>,
    ) {
        use mcp_proto::binding::http::{ExchangeId, HttpRequest};

        use crate::HttpPiece;

        let held = {
            let (held, mut state) = self.begin(|state, number| {
                let session = server.map(|server| {
                    let known = state.names.iter().position(|name| *name == server);
                    let at = known.unwrap_or_else(|| {
                        state.names.push(server);
                        state.names.len().saturating_sub(1)
                    });
                    SessionHandle::from_u64(at.try_into().unwrap_or_default())
                });
                Port::Exchange(session, ExchangeId::from_u64(number))
            });
            if let Port::Exchange(session, exchange) = held.port {
                let request = Box::new(HttpRequest::new(exchange, None, request));
                self.step(&mut state, Step::Request(session, request));
            }
            held
        };
        loop {
            let piece = match poll_fn(|context| held.poll(context)).await {
                Came::Head(status, headers) => HttpPiece::Head(status, headers),
                Came::Bytes(bytes) => HttpPiece::Body(bytes),
                Came::End => HttpPiece::End,
                Came::Broken(broken, why) => HttpPiece::Failure(broken, why),
                Came::Opened | Came::Failed(_) => continue,
            };
            let is_last = matches!(piece, HttpPiece::End | HttpPiece::Failure(..));
            take(piece);
            if is_last {
                return;
            }
        }
    }
}

impl Driven for Plug {
    type Event = ();

    fn step(&mut self) -> Option<Step<()>> {
        let mut state = self.state();
        let step = state.steps.pop_front();
        if state.names.len() > self.names.len() {
            let names = state.names.clone();
            drop(state);
            self.names = names;
        }
        step
    }

    fn connection_of(&self, _: Option<SessionHandle>) -> Option<ConnectionId> {
        Some(self.state().newest)
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn time_out(&mut self, _: Time) {}

    fn input(&mut self, _: Time, port: Port, input: Arrival<'_>) {
        let came = match input {
            Arrival::Transport(Transport::Opened) => Came::Opened,
            Arrival::Transport(Transport::OpenFailed { why, .. }) => {
                Came::Failed(io::Error::new(io::ErrorKind::ConnectionRefused, why))
            }
            Arrival::Transport(Transport::Closed { why }) if why.starts_with("exit") => Came::End,
            Arrival::Transport(Transport::Closed { why }) => {
                Came::Failed(io::Error::new(io::ErrorKind::ConnectionReset, why))
            }
            Arrival::Bytes(bytes) => Came::Bytes(bytes.to_vec()),
            #[cfg(feature = "http")]
            Arrival::Head(status, headers) => Came::Head(status, headers.clone()),
            #[cfg(feature = "http")]
            Arrival::End => Came::End,
            #[cfg(feature = "http")]
            Arrival::Failure(broken, why) => Came::Broken(broken, why.into()),
            _ => return,
        };
        let waker = {
            let mut state = self.state();
            let Some(inlet) = state.inlets.get_mut(&port) else { return };
            inlet.is_over |= !matches!(came, Came::Opened | Came::Bytes(_)) && !is_head(&came);
            inlet.came.push_back(came);
            inlet.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn server(&self, session: Option<SessionHandle>) -> Option<&str> {
        let at = usize::try_from(session?.as_u64()).ok()?;
        self.names.get(at).map(|name| &**name)
    }
}

const fn is_head(came: &Came) -> bool {
    match came {
        #[cfg(feature = "http")]
        Came::Head(..) => true,
        _ => false,
    }
}

impl Embedder for Plug {
    type Driven = Self;

    fn driven(&mut self) -> &mut Self {
        self
    }

    fn on_event(&mut self, _: Time, (): ()) {}
}
