//! A server of the run: its connection and its records, and the wait for input from all of them.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::HeaderMap;
use mcp_proto::binding::http::{Broken, HttpRequest};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthRequest, Reach};
use mcp_proto::journal::{Input, TransportEvent};
use mcp_proto::{ConnectionId, Engine, ShutdownStep, Time};
use mcp_proto_tokio::{HttpClient, HttpPiece};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::oauth::{self, Access};
use crate::process::{Program, Server};
use crate::report::{FailureReport, Record};
use crate::trace::{Trace, without_query};
use crate::web::{self, Exchanges, Id};

/// How to reach a server.
pub(crate) enum Place {
    Process(Program),
    Web(Site),
}

/// A server over HTTP. The headers are added to each request to it.
#[derive(Clone, Default)]
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
}

/// The connection, while there is one.
enum Way {
    Process(Server),
    Web(Box<Exchanges>),
}

/// What came from a server.
pub(crate) enum FromPeer {
    Input(Input),
    /// A piece of an exchange of the authorization.
    OAuth(OAuthExchangeId, HttpPiece),
}

pub(crate) struct Peer {
    pub(crate) name: String,
    place: Place,
    way: Option<Way>,
    /// The session's connection that the process belongs to.
    pub(crate) connection: ConnectionId,
    /// How many processes were started.
    starts: u32,
    /// Whether the next process or HTTP response opens a new session. If not, it continues the handshake of the
    /// previous one.
    pub(crate) anew: bool,
    pub(crate) record: Record,
    pub(crate) trace: Trace,
    /// The final state of its session.
    pub(crate) last: Option<Engine>,
    /// Its process runs.
    pub(crate) is_open: bool,
    /// It waits for a token.
    pub(crate) is_authorizing: bool,
}

impl Peer {
    pub(crate) fn new(name: String, place: Place, trace: Trace) -> Self {
        Self {
            name,
            place,
            way: None,
            connection: ConnectionId::default(),
            starts: 0,
            anew: true,
            record: Record::default(),
            trace,
            last: None,
            is_open: false,
            is_authorizing: false,
        }
    }

    /// Prepares what the connection needs; `client` makes an HTTP client.
    pub(crate) fn prepare(&mut self, client: impl FnOnce() -> Result<HttpClient, String>) -> Result<(), String> {
        if let Place::Web(site) = &self.place {
            self.way = Some(Way::Web(Box::new(Exchanges::new(client()?, site.headers.clone()))));
        }
        Ok(())
    }

    /// The server, if it is one over HTTP.
    pub(crate) const fn site(&self) -> Option<&Site> {
        match &self.place {
            Place::Web(site) => Some(site),
            Place::Process(_) => None,
        }
    }

    pub(crate) const fn is_web(&self) -> bool {
        self.site().is_some()
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<FromPeer> {
        match &mut self.way {
            None => Poll::Pending,
            Some(Way::Process(server)) => server.poll(context, self.connection).map(FromPeer::Input),
            Some(Way::Web(web)) => web.poll(context).map(|(id, piece)| match id {
                Id::Server(exchange) => FromPeer::Input(web::input(exchange, piece)),
                Id::OAuth(exchange) => FromPeer::OAuth(exchange, piece),
            }),
        }
    }

    /// The interval after which it has to be polled even without a wake-up.
    pub(crate) fn tick(&self) -> Option<Duration> {
        match &self.way {
            Some(Way::Process(server)) => Some(server.tick()),
            Some(Way::Web(_)) | None => None,
        }
    }

    /// A connection begins.
    pub(crate) fn opens(&mut self, connection: ConnectionId, now: Time) {
        self.connection = connection;
        self.record.opened.get_or_insert(now);
        self.trace.reset();
    }

    /// Starts its process.
    pub(crate) fn open(&mut self, connection: ConnectionId, now: Time) -> io::Result<()> {
        self.opens(connection, now);
        self.starts = self.starts.saturating_add(1);
        self.way = None;
        let started = match &self.place {
            Place::Process(program) => Server::start(program, self.starts),
            Place::Web(_) => Err(io::Error::other("there is nothing to start")),
        };
        match started {
            Ok(server) => {
                self.trace.note(format!("process {} started", server.id()));
                self.way = Some(Way::Process(server));
                Ok(())
            }
            Err(error) => {
                self.trace.note(format!("not started: {error}"));
                Err(error)
            }
        }
    }

    /// Notes what an input says of the connection; false if it is of an earlier one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others say nothing of it")]
    pub(crate) fn saw(&mut self, input: &Input, closing: bool) -> bool {
        match input {
            Input::Bytes { connection, .. } if *connection != self.connection => return false,
            Input::Transport { event: TransportEvent::Opened, .. } => self.opened(),
            Input::Transport { event: TransportEvent::Closed { why }, .. } => {
                (self.way, self.is_open) = (None, false);
                self.trace.note(format!("process gone: {why}"));
                self.trace.reset();
            }
            // If the server is unreachable, no connection was opened.
            Input::Failure { broken: Broken::Unreachable, .. } => {}
            Input::Head { .. } | Input::Body { .. } | Input::End { .. } | Input::Failure { .. } if !closing => {
                self.opened();
            }
            _ => {}
        }
        self.trace.input(input)
    }

    /// Counts the openings of the session.
    fn opened(&mut self) {
        self.is_open = true;
        let anew = std::mem::take(&mut self.anew);
        self.record.connects = self.record.connects.saturating_add(u32::from(anew));
    }

    pub(crate) fn send(&mut self, message: &[u8], line: &[u8]) {
        self.trace.sent(message);
        if let Some(Way::Process(server)) = &mut self.way {
            server.send(line);
        }
    }

    /// Runs a shutdown step; false if there is no process.
    pub(crate) fn shut(&mut self, how: ShutdownStep) -> bool {
        self.trace.note(match how {
            ShutdownStep::CloseInput => "input closed",
            ShutdownStep::Terminate => "told to terminate",
            ShutdownStep::Kill | _ => "killed",
        });
        let Some(Way::Process(server)) = &mut self.way else { return false };
        server.shut(how);
        true
    }

    pub(crate) fn request(&mut self, now: Time, request: HttpRequest) {
        self.record.opened.get_or_insert(now);
        self.trace.started(&request);
        let HttpRequest { exchange, request, .. } = request;
        self.start(Id::Server(exchange), Reach::Any, request);
    }

    /// Sends a request of the authorization.
    pub(crate) fn request_oauth(&mut self, request: OAuthRequest) {
        let OAuthRequest { exchange, reach, request, .. } = request;
        self.trace.note(format!("authorization: {} {}", request.method(), without_query(request.uri())));
        self.start(Id::OAuth(exchange), reach, request);
    }

    fn start(&mut self, id: Id, reach: Reach, request: http::Request<Vec<u8>>) {
        if let Some(Way::Web(web)) = &mut self.way {
            web.start(id, reach, request);
        }
    }

    pub(crate) fn drop(&mut self, id: Id) {
        if let Id::Server(exchange) = id {
            self.trace.dropped(exchange);
        }
        if let Some(Way::Web(web)) = &mut self.way {
            web.stop(id);
        }
    }

    /// Whether a request of its authorization is in flight.
    pub(crate) fn has_oauth_request(&self) -> bool {
        matches!(&self.way, Some(Way::Web(web)) if web.has_oauth())
    }

    /// What the run waits for at this server, for people.
    pub(crate) fn waiting(&self, closing: bool) -> String {
        let waiting = match (closing, self.is_web()) {
            (true, true) => "the server to end the session",
            (true, false) => "the process to end",
            (false, _) if self.is_authorizing && self.has_oauth_request() => "the authorization server",
            (false, _) if self.is_authorizing => "the user to authorize",
            (false, false) if !self.is_open => "the process to start",
            (false, _) => match self.trace.waiting() {
                Some(waiting) => return waiting,
                None if self.record.ready => "the end of the watch",
                None => "the server",
            },
        };
        waiting.into()
    }

    /// The time of the run is up, and this server is not done.
    pub(crate) fn fail_late(&mut self, now: Time) -> &FailureReport {
        let message = format!("not done after {:.1?}: waited for {}", now.since(Time::ZERO), self.waiting(false));
        self.record.failure.get_or_insert(FailureReport { kind: "timeout".into(), message })
    }
}

/// An input of the run.
pub(crate) enum Came {
    /// From the server with this index.
    Server(usize, FromPeer),
    Access(oauth::Came),
}

pub(crate) struct Io {
    /// `None` only while dropping.
    runtime: Option<Runtime>,
    client: Option<HttpClient>,
    /// The server that was served last: the next wait starts after it, so that a busy server does not starve the
    /// others.
    last: usize,
}

impl Io {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Self { runtime: Some(runtime), client: None, last: 0 })
    }

    pub(crate) fn client(&mut self) -> Result<HttpClient, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = HttpClient::new().map_err(|error| error.to_string())?;
        Ok(self.client.insert(client).clone())
    }

    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }

    /// Waits for input from any server, the user or the store, until this time.
    pub(crate) fn wait(&mut self, peers: &mut [Peer], mut access: Option<&mut Access>, until: Instant) -> Option<Came> {
        let (runtime, first) = (self.runtime.as_ref()?, self.last.saturating_add(1));
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let tick = peers.iter().filter_map(Peer::tick).min().unwrap_or(rest);
            let input = runtime.block_on(async {
                // Lets exchanges proceed even if a process always has input.
                yield_now().await;
                timeout(rest.min(tick), poll_fn(|context| poll(peers, access.as_deref_mut(), first, context))).await
            });
            match input {
                Ok(Came::Server(at, input)) => {
                    self.last = at;
                    return Some(Came::Server(at, input));
                }
                Ok(came) => return Some(came),
                Err(_) if Instant::now() >= until => return None,
                Err(_) => {}
            }
        }
    }
}

/// Polls the user and the store, then each server in turn, starting with `first`.
fn poll(peers: &mut [Peer], access: Option<&mut Access>, first: usize, context: &mut Context<'_>) -> Poll<Came> {
    if let Some(Poll::Ready(came)) = access.map(|access| access.poll(context)) {
        return Poll::Ready(Came::Access(came));
    }
    let (before, after) = peers.split_at_mut(first.min(peers.len()));
    let after = after.iter_mut().enumerate().map(|(at, peer)| (at.saturating_add(first), peer));
    for (at, peer) in after.chain(before.iter_mut().enumerate()) {
        if let Poll::Ready(input) = peer.poll(context) {
            return Poll::Ready(Came::Server(at, input));
        }
    }
    Poll::Pending
}

impl Drop for Io {
    /// Does not wait for pending name lookups. The page of a browser that was just judged is sent.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(yield_now());
            runtime.shutdown_background();
        }
    }
}
