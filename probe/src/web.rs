//! Servers over HTTP: the HTTP client, exchanges as tasks, and their trace.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
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
use mcp_proto::binding::http::{Broken, ExchangeId, HttpRequest};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthRequest, Reach};
use mcp_proto::binding::{Sse, SseDecoder};
use mcp_proto::journal::Input;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tower_service::Service;

use crate::trace::Trace;

pub(crate) struct Web {
    exchanges: Exchanges<ExchangeId>,
    /// Exchanges of the authorization.
    oauth: Exchanges<OAuthExchangeId>,
    /// Headers of every request.
    own: HeaderMap,
    shown: BTreeMap<ExchangeId, Shown>,
}

/// The traced state of an exchange.
struct Shown {
    method: Method,
    /// The id of the request that it carries.
    id: Option<u64>,
    good: bool,
    body: Body,
}

enum Body {
    /// Only white space.
    Blank,
    Json(Vec<u8>),
    Events(SseDecoder),
}

impl Web {
    pub(crate) fn new(client: Client, own: HeaderMap) -> Self {
        let oauth = Exchanges::new(client.clone());
        Self { exchanges: Exchanges::new(client), oauth, own, shown: BTreeMap::new() }
    }

    /// Sends a request, as a task of the current runtime.
    pub(crate) fn start(&mut self, request: HttpRequest, trace: &mut Trace) {
        let sent = &request.request;
        let id = match *sent.method() {
            Method::POST => trace.sent(sent.body()),
            Method::GET => {
                let from = sent.headers().get("last-event-id").and_then(|id| id.to_str().ok());
                let from = from.map(|id| format!(", from event {id} on")).unwrap_or_default();
                trace.request(&format!("GET, a stream{from}"));
                None
            }
            _ => {
                trace.request(sent.method().as_str());
                None
            }
        };
        let shown = Shown { method: sent.method().clone(), id, good: false, body: Body::Blank };
        self.shown.insert(request.exchange, shown);
        let HttpRequest { exchange, request, .. } = request;
        self.exchanges.start(exchange, Reach::Any, request, self.own.clone());
    }

    pub(crate) fn drop(&mut self, exchange: ExchangeId, trace: &mut Trace) {
        self.exchanges.drop(exchange);
        let id = self.shown.remove(&exchange).and_then(|shown| shown.id);
        trace.forget(id);
    }

    /// Sends a request of the authorization, without the server's headers.
    pub(crate) fn start_oauth(&mut self, request: OAuthRequest, trace: &mut Trace) {
        let OAuthRequest { exchange, reach, request, .. } = request;
        trace.note(format!("authorization: {} {}", request.method(), without_query(request.uri())));
        self.oauth.start(exchange, reach, request, HeaderMap::new());
    }

    pub(crate) fn has_oauth_request(&self) -> bool {
        !self.oauth.is_empty()
    }

    pub(crate) fn drop_oauth(&mut self, exchange: OAuthExchangeId) {
        self.oauth.drop(exchange);
    }

    /// The next piece of an exchange of the authorization.
    pub(crate) fn poll_oauth(&mut self, context: &mut Context<'_>) -> Poll<Option<(OAuthExchangeId, Piece)>> {
        pin!(self.oauth.next()).poll(context)
    }

    pub(crate) fn is_running(&self, exchange: ExchangeId) -> bool {
        self.shown.contains_key(&exchange)
    }

    /// Whether its response may be an event stream.
    pub(crate) fn is_stream(&self, exchange: ExchangeId) -> bool {
        self.shown.get(&exchange).is_some_and(|shown| !matches!(shown.body, Body::Json(_)))
    }

    /// The next piece of an exchange.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(ExchangeId, Piece)>> {
        pin!(self.exchanges.next()).poll(context)
    }

    /// Adds a piece to the trace.
    pub(crate) fn show(&mut self, exchange: ExchangeId, piece: &Piece, trace: &mut Trace) {
        let Some(shown) = self.shown.get_mut(&exchange) else { return };
        match piece {
            Piece::Head(status, _) => {
                shown.good = status.is_success();
                // A successful response to a request has its own message.
                if !shown.good || shown.id.is_none() {
                    trace.status(&format!("HTTP {} to {}", status.as_u16(), shown.method));
                }
            }
            Piece::Body(chunk) => shown.take(chunk, trace),
            Piece::End | Piece::Failure(..) => {
                if let Piece::Failure(_, why) = piece {
                    trace.note(format!("{} broke: {why}", shown.method));
                }
                let forgotten = match &shown.body {
                    Body::Json(json) if shown.good => {
                        trace.message(json);
                        true
                    }
                    Body::Json(json) => {
                        trace.error(json);
                        true
                    }
                    // The response may arrive on another stream.
                    Body::Blank | Body::Events(_) => !shown.good,
                };
                trace.forget(shown.id.filter(|_| forgotten));
                self.shown.remove(&exchange);
            }
        }
    }
}

/// A URL for messages: queries may contain secrets.
pub(crate) fn without_query(uri: &Uri) -> String {
    let text = uri.to_string();
    text.split('?').next().unwrap_or_default().to_owned()
}

impl Shown {
    fn take(&mut self, chunk: &[u8], trace: &mut Trace) {
        if let Body::Blank = self.body {
            let Some(first) = chunk.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            let json = matches!(first, b'{' | b'[') || !self.good;
            self.body = if json { Body::Json(Vec::new()) } else { Body::Events(SseDecoder::new(trace.limit())) };
        }
        match &mut self.body {
            Body::Blank => {}
            Body::Json(kept) => {
                let room = trace.limit().saturating_sub(kept.len());
                kept.extend(chunk.iter().take(room));
            }
            Body::Events(decoder) => decoder.feed(chunk, |item| match item {
                Sse::Event(event) if event.name == b"endpoint" => {
                    // The query names the session.
                    let endpoint = event.data.split(|byte| *byte == b'?').next().unwrap_or_default();
                    trace.status(&format!("endpoint {}", String::from_utf8_lossy(endpoint)));
                }
                Sse::Event(event) | Sse::TooLong(event) => trace.message(event.data),
                Sse::Retry(_) => {}
            }),
        }
    }
}

/// Queued pieces; when the queue is full, the servers block.
const QUEUE: usize = 64;

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
pub(crate) struct Exchanges<Id> {
    client: Client,
    tasks: BTreeMap<Id, AbortHandle>,
    sender: Sender<(Id, Piece)>,
    pieces: Receiver<(Id, Piece)>,
}

impl<Id: Copy + Ord + Send + 'static> Exchanges<Id> {
    pub(crate) fn new(client: Client) -> Self {
        let (sender, pieces) = channel(QUEUE);
        Self { client, tasks: BTreeMap::new(), sender, pieces }
    }

    /// Sends a request to addresses that it may reach, with additional headers, such as credentials, for this request
    /// only.
    pub(crate) fn start(&mut self, exchange: Id, reach: Reach, request: http::Request<Vec<u8>>, own: HeaderMap) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            let piece = run(&client, reach, request, own, exchange, &sender).await;
            // An error means that the exchange was dropped.
            let _ = sender.send((exchange, piece)).await;
        });
        self.tasks.insert(exchange, task.abort_handle());
    }

    /// Stops an exchange and its stream; none of its pieces follow.
    pub(crate) fn drop(&mut self, exchange: Id) {
        if let Some(task) = self.tasks.remove(&exchange) {
            task.abort();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next piece of any exchange. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<(Id, Piece)> {
        loop {
            let (exchange, piece) = self.pieces.recv().await?;
            let known = match piece {
                Piece::Head(..) | Piece::Body(_) => self.tasks.contains_key(&exchange),
                Piece::End | Piece::Failure(..) => self.tasks.remove(&exchange).is_some(),
            };
            if known {
                return Some((exchange, piece));
            }
        }
    }
}

impl<Id> Drop for Exchanges<Id> {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}

/// Sends a request and forwards the response; returns the last piece.
async fn run<Id: Copy>(
    client: &Client,
    reach: Reach,
    mut request: http::Request<Vec<u8>>,
    mut headers: HeaderMap,
    exchange: Id,
    sender: &Sender<(Id, Piece)>,
) -> Piece {
    // The protocol's headers take precedence.
    headers.extend(std::mem::take(request.headers_mut()));
    *request.headers_mut() = headers;
    let mut response = match client.send(reach, request.map(|body| Full::new(body.into()))).await {
        Ok(response) => response,
        Err(error) => {
            let broken = if error.is_connect() { Broken::Unreachable } else { Broken::Midway };
            return Piece::Failure(broken, why(&error));
        }
    };
    let head = Piece::Head(response.status(), std::mem::take(response.headers_mut()));
    let _ = sender.send((exchange, head)).await;
    while let Some(frame) = response.frame().await {
        match frame.map(|frame| frame.into_data()) {
            Ok(Ok(chunk)) => drop(sender.send((exchange, Piece::Body(chunk.into()))).await),
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
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT:?}"));
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
