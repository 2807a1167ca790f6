//! Servers over HTTP: the HTTP client, and exchanges as tasks.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthLimits, Reach};
use mcp_proto::journal::Input;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tower_service::Service;

/// Queued pieces; when the queue is full, the servers block.
const QUEUE: usize = 64;
/// Bytes that the system may receive before they are read. By itself it takes many times as much of a response that is
/// not wanted.
const RECEIVED: usize = 1 << 20;

/// An exchange with the MCP server, or one of its authorization.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Id {
    Server(ExchangeId),
    OAuth(OAuthExchangeId),
}

/// A piece of an exchange's response.
pub(crate) enum Piece {
    Head(StatusCode, HeaderMap),
    Body(Vec<u8>),
    End,
    Failure(Broken, String),
}

impl Piece {
    pub(crate) fn into_input(self, exchange: ExchangeId) -> Input {
        match self {
            Self::Head(status, headers) => Input::Head { exchange, status, headers },
            Self::Body(bytes) => Input::Body { exchange, bytes: bytes.into() },
            Self::End => Input::End { exchange },
            Self::Failure(broken, why) => Input::Failure { exchange, broken, why: why.into() },
        }
    }
}

/// Exchanges in flight, by their ids.
pub(crate) struct Exchanges {
    client: Client,
    /// Headers of every request to the MCP server.
    own: HeaderMap,
    tasks: BTreeMap<Id, AbortHandle>,
    sender: Sender<(Id, Piece)>,
    pieces: Receiver<(Id, Piece)>,
}

impl Exchanges {
    pub(crate) fn new(client: Client, own: HeaderMap) -> Self {
        let (sender, pieces) = channel(QUEUE);
        Self { client, own, tasks: BTreeMap::new(), sender, pieces }
    }

    /// Sends a request to addresses that it may reach, as a task of the current runtime. Only the MCP server gets its
    /// headers.
    pub(crate) fn start(&mut self, exchange: Id, reach: Reach, mut request: http::Request<Vec<u8>>) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let limit = match exchange {
            Id::Server(_) => {
                // The protocol's headers take precedence.
                let headers = std::mem::replace(request.headers_mut(), self.own.clone());
                request.headers_mut().extend(headers);
                usize::MAX
            }
            // One that is longer is of no use to the library.
            Id::OAuth(_) => OAuthLimits::default().bytes,
        };
        let task = tokio::spawn(async move {
            let piece = run(&client, reach, request, limit, exchange, &sender).await;
            // An error means that the exchange was dropped.
            let _ = sender.send((exchange, piece)).await;
        });
        self.tasks.insert(exchange, task.abort_handle());
    }

    /// Stops an exchange and its stream; none of its pieces follow.
    pub(crate) fn stop(&mut self, exchange: Id) {
        if let Some(task) = self.tasks.remove(&exchange) {
            task.abort();
        }
    }

    pub(crate) fn has_oauth(&self) -> bool {
        self.tasks.keys().any(|id| matches!(id, Id::OAuth(_)))
    }

    /// The next piece of any exchange.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Id, Piece)> {
        while let Poll::Ready(Some((exchange, piece))) = self.pieces.poll_recv(context) {
            let known = match piece {
                Piece::Head(..) | Piece::Body(_) => self.tasks.contains_key(&exchange),
                Piece::End | Piece::Failure(..) => self.tasks.remove(&exchange).is_some(),
            };
            if known {
                return Poll::Ready((exchange, piece));
            }
        }
        Poll::Pending
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}

/// Sends a request and forwards the response; returns the last piece.
async fn run(
    client: &Client,
    reach: Reach,
    request: http::Request<Vec<u8>>,
    limit: usize,
    exchange: Id,
    sender: &Sender<(Id, Piece)>,
) -> Piece {
    let mut response = match client.send(reach, request.map(|body| Full::new(body.into()))).await {
        Ok(response) => response,
        Err(error) => {
            let broken = if error.is_connect() { Broken::Unreachable } else { Broken::Midway };
            return Piece::Failure(broken, why(&error));
        }
    };
    let head = Piece::Head(response.status(), std::mem::take(response.headers_mut()));
    let _ = sender.send((exchange, head)).await;
    let mut read = 0_usize;
    while let Some(frame) = response.frame().await {
        match frame.map(|frame| frame.into_data()) {
            Ok(Ok(chunk)) => {
                read = read.saturating_add(chunk.len());
                let _ = sender.send((exchange, Piece::Body(chunk.into()))).await;
                if read > limit {
                    return Piece::Failure(Broken::Midway, format!("the response is longer than {limit} bytes"));
                }
            }
            // Trailers are ignored.
            Ok(Err(_)) => {}
            Err(error) => return Piece::Failure(Broken::Midway, why(&error)),
        }
    }
    Piece::End
}

/// An error with its causes.
fn why(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Connect timeout. Shorter than a session's wait for its first response, so that unreachable and silent servers
/// differ.
const CONNECT: Duration = Duration::from_secs(4);

type AnyError = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, AnyError>> + Send>>;

/// Clones share connections.
#[derive(Clone)]
pub(crate) struct Client {
    pool: Pool<Connector, Full<Bytes>>,
    /// Connects to public addresses only.
    public: Pool<Connector, Full<Bytes>>,
    proxies: Arc<Matcher>,
}

impl Client {
    pub(crate) fn new() -> Result<Self, rustls::Error> {
        let tls = || {
            ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
        };
        let tls = match tls()?.with_native_roots() {
            Ok(trusting) => trusting,
            // Without root certificates plain HTTP still works.
            Err(_) => tls()?.with_root_certificates(RootCertStore::empty()),
        };
        let proxies = Arc::new(Matcher::from_env());
        let tls = tls.with_no_client_auth();
        let pool = |reach| {
            let dialer = Dialer { tcp: tcp(reach), to_proxy: tcp(Reach::Any), proxies: Arc::clone(&proxies) };
            let connector = Connector(HttpsConnector::from((dialer, tls.clone())));
            Pool::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector)
        };
        Ok(Self { pool: pool(Reach::Any), public: pool(Reach::Public), proxies })
    }

    /// Sends a request to the addresses that it may reach. A proxy resolves names itself.
    pub(crate) async fn send(
        &self,
        reach: Reach,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        // For a tunnel, the request that opens the tunnel carries it.
        if request.uri().scheme_str() == Some("http")
            && let Some(proxy) = self.proxies.intercept(request.uri())
            && let Some(credential) = proxy.basic_auth()
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credential.clone());
        }
        let pool = if reach == Reach::Public { &self.public } else { &self.pool };
        pool.request(request).await
    }
}

fn tcp(reach: Reach) -> HttpConnector<Names> {
    let mut tcp = HttpConnector::new_with_resolver(Names(reach));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_recv_buffer_size(Some(RECEIVED));
    tcp
}

/// Resolves names, to addresses that may be reached.
#[derive(Clone)]
struct Names(Reach);

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.0;
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<_> = found.iter().copied().filter(|address| reach.allows(address.ip())).collect();
            if allowed.is_empty() && !found.is_empty() {
                let why = "its address is private, and the MCP server is public";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            Ok(allowed.into_iter())
        })
    }
}

/// A connector with a timeout.
#[derive(Clone)]
struct Connector(HttpsConnector<Dialer>);

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Stream>;
    type Error = AnyError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            let start = Instant::now();
            let late =
                |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection after {:.1?}", start.elapsed()));
            timeout(CONNECT, connecting).await.map_err(late)?
        })
    }
}

/// Connects to a server or to its proxy.
#[derive(Clone)]
struct Dialer {
    tcp: HttpConnector<Names>,
    to_proxy: HttpConnector<Names>,
    proxies: Arc<Matcher>,
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = AnyError;
    type Future = Connecting<Stream>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let proxy = self.proxies.intercept(&to);
        let mut tcp = if proxy.is_some() { self.to_proxy.clone() } else { self.tcp.clone() };
        Box::pin(async move {
            let Some(proxy) = proxy else { return Ok(Stream { io: tcp.call(to).await?, absolute: false }) };
            if proxy.uri().scheme_str() != Some("http") {
                return Err("only proxies with an http URL are supported".into());
            }
            if to.scheme_str() != Some("https") {
                return Ok(Stream { io: tcp.call(proxy.uri().clone()).await?, absolute: true });
            }
            let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
            if let Some(credential) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credential.clone());
            }
            Ok(Stream { io: tunnel.call(to).await?, absolute: false })
        })
    }
}

struct Stream {
    io: TokioIo<TcpStream>,
    /// Whether requests carry the absolute URL, as for a proxy.
    absolute: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.inner().connected().proxy(self.absolute)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
