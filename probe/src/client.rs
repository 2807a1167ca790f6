//! An HTTP client for a session: it does not follow redirects, and has a timeout for connecting only. It consists of
//! hyper, TLS and the proxies of the environment, which keeps the build fast.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_proto::binding::oauth::Reach;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

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
