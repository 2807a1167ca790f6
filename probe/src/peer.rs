//! A server of the run: its connection and its records, and the wait for input from all of them.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::HeaderMap;
use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthRequest};
use mcp_proto::{ConnectionId, Engine, ShutdownStep, Time};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::args::DEMO_SERVER;
use crate::oauth::{self, Access};
use crate::process::{self, Program, Server};
use crate::report::Record;
use crate::trace::Trace;
use crate::web::{Client, Piece, Web};

/// How to reach a server.
pub(crate) enum Place {
    /// Probe itself as the demo server; `counted` passes it the number of starts.
    Demo {
        counted: bool,
    },
    Process(Program),
    /// A URL; these headers are added to every request.
    Web(HeaderMap),
}

/// The connection, while there is one.
enum Way {
    Process(Server),
    Web(Box<Web>),
}

pub(crate) enum Input {
    Process(process::Input),
    Exchange(ExchangeId, Piece),
    /// A piece of an exchange of the authorization.
    OAuth(OAuthExchangeId, Piece),
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
            is_authorizing: false,
        }
    }

    /// Prepares what the connection needs; `client` makes an HTTP client.
    pub(crate) fn prepare(&mut self, client: impl FnOnce() -> Result<Client, String>) -> Result<(), String> {
        if let Place::Web(headers) = &self.place {
            self.way = Some(Way::Web(Box::new(Web::new(client()?, headers.clone()))));
        }
        Ok(())
    }

    pub(crate) const fn is_web(&self) -> bool {
        matches!(self.place, Place::Web(_))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        match &mut self.way {
            None => Poll::Pending,
            Some(Way::Process(server)) => server.poll(context).map(Input::Process),
            Some(Way::Web(web)) => match web.poll(context) {
                Poll::Ready(Some((exchange, piece))) => Poll::Ready(Input::Exchange(exchange, piece)),
                Poll::Ready(None) | Poll::Pending => match web.poll_oauth(context) {
                    Poll::Ready(Some((exchange, piece))) => Poll::Ready(Input::OAuth(exchange, piece)),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                },
            },
        }
    }

    /// The interval after which it has to be polled even without a wake-up.
    pub(crate) fn tick(&self) -> Option<Duration> {
        match &self.way {
            Some(Way::Process(server)) => Some(server.tick()),
            Some(Way::Web(_)) | None => None,
        }
    }

    /// Starts its process.
    pub(crate) fn open(&mut self, connection: ConnectionId, now: Time) -> io::Result<()> {
        self.connection = connection;
        self.starts = self.starts.saturating_add(1);
        self.record.opened.get_or_insert(now);
        self.way = None;
        self.trace.reset();
        let started = match &self.place {
            Place::Demo { counted } => std::env::current_exe().and_then(|program| {
                let count = counted.then(|| self.starts.to_string());
                let args = [DEMO_SERVER.into()].into_iter().chain(count.map(Into::into)).collect();
                Server::start(&Program { program: program.into_os_string(), args, ..Program::default() })
            }),
            Place::Process(program) => Server::start(program).map_err(|error| program.not_started(error)),
            Place::Web(_) => Err(io::Error::other("there is nothing to start")),
        };
        match started {
            Ok(server) => {
                self.opened();
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

    /// Counts the openings of the session.
    pub(crate) fn opened(&mut self) {
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

    /// Its process exited.
    pub(crate) fn gone(&mut self, why: &str) {
        self.way = None;
        self.trace.note(format!("process gone: {why}"));
        self.trace.reset();
    }

    pub(crate) fn request(&mut self, now: Time, request: HttpRequest) {
        self.record.opened.get_or_insert(now);
        if let Some(Way::Web(web)) = &mut self.way {
            web.start(request, &mut self.trace);
        }
    }

    pub(crate) fn drop(&mut self, exchange: ExchangeId) {
        if let Some(Way::Web(web)) = &mut self.way {
            web.as_mut().drop(exchange, &mut self.trace);
        }
    }

    /// Sends a request of the authorization.
    pub(crate) fn request_oauth(&mut self, request: OAuthRequest) {
        if let Some(Way::Web(web)) = &mut self.way {
            web.start_oauth(request, &mut self.trace);
        }
    }

    /// Whether a request of its authorization is in flight.
    pub(crate) fn has_oauth_request(&self) -> bool {
        matches!(&self.way, Some(Way::Web(web)) if web.has_oauth_request())
    }

    pub(crate) fn drop_oauth(&mut self, exchange: OAuthExchangeId) {
        if let Some(Way::Web(web)) = &mut self.way {
            web.drop_oauth(exchange);
        }
    }

    /// Whether the response of an exchange may be an event stream.
    pub(crate) fn is_stream(&self, exchange: ExchangeId) -> bool {
        matches!(&self.way, Some(Way::Web(web)) if web.is_stream(exchange))
    }

    /// Adds a piece to the trace; false if the exchange was dropped.
    pub(crate) fn show(&mut self, exchange: ExchangeId, piece: &Piece) -> bool {
        match &mut self.way {
            Some(Way::Web(web)) if web.is_running(exchange) => {
                web.show(exchange, piece, &mut self.trace);
                true
            }
            Some(Way::Web(_) | Way::Process(_)) | None => false,
        }
    }

    /// What the run waits for at this server, for people.
    pub(crate) fn waiting(&self, closing: bool, idle: &str) -> String {
        match (&self.way, closing) {
            (None, _) => "the process to start".into(),
            (Some(Way::Process(_)), true) => "the process to end".into(),
            (Some(Way::Web(_)), true) => "the server to end the session".into(),
            (Some(_), false) if self.is_authorizing => "the user to authorize".into(),
            (Some(_), false) => self.trace.waiting().unwrap_or_else(|| idle.into()),
        }
    }
}

/// An input of the run.
pub(crate) enum Came {
    /// From the server with this index.
    Server(usize, Input),
    Access(oauth::Came),
}

pub(crate) struct Io {
    /// `None` only while dropping.
    runtime: Option<Runtime>,
    client: Option<Client>,
    /// The server that was served last: the next wait starts after it, so that a busy server does not starve the
    /// others.
    last: usize,
}

impl Io {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Self { runtime: Some(runtime), client: None, last: 0 })
    }

    pub(crate) fn client(&mut self) -> Result<Client, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = Client::new().map_err(|error| error.to_string())?;
        Ok(self.client.insert(client).clone())
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<T: Default>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().map(|runtime| runtime.block_on(future)).unwrap_or_default()
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
    /// Does not wait for pending name lookups.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
