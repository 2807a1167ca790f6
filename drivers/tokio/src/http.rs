//! HTTP: a client, and an exchange with it.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_proto::binding::http::Broken;
#[cfg(feature = "oauth")]
use mcp_proto::binding::oauth::Reach;
use mcp_proto::{Http, UrlError};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tower_service::Service;

/// Bytes that the system may receive before they are read. By itself it takes many times as much of a response that is
/// not wanted.
const RECEIVED: usize = 1 << 20;
/// Bytes of a body that are passed on at once: fewer messages than wait for a reader.
const PART: usize = 32 << 10;
/// Connect timeout. Shorter than a client's wait for its first response, so that unreachable and silent servers differ.
const CONNECT: Duration = Duration::from_secs(4);

/// A server over HTTP: its URL, and headers of each request to it. Its `Debug` shows no value of a header.
///
/// ```
/// use mcp_proto_tokio::Remote;
///
/// let remote = Remote::new("https://example.com/mcp")?.header("authorization", "Bearer 1234")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Remote {
    pub(crate) http: Http,
    #[cfg(feature = "oauth")]
    pub(crate) url: Box<str>,
    /// With the port, if the URL has one.
    pub(crate) host: Box<str>,
    pub(crate) headers: HeaderMap,
}

impl Remote {
    /// A server at a URL.
    ///
    /// # Errors
    /// The URL is not one of a server.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        Ok(Self {
            http: Http::new(url)?,
            #[cfg(feature = "oauth")]
            url: url.into(),
            host: host_of(url).into(),
            headers: HeaderMap::new(),
        })
    }

    /// Adds a header to each request. Headers of the protocol take precedence, but for those that
    /// [`HttpRequest::add_headers`](mcp_proto::binding::http::HttpRequest::add_headers) names: a `User-Agent` given here stands.
    ///
    /// # Errors
    /// The name or the value is not possible in a header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, http::Error> {
        let (name, value) = self::header(name, value)?;
        self.headers.append(name, value);
        Ok(self)
    }

    /// Sets these headers of each request, in place of those of the same names. Headers of the protocol take precedence.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(sensitive(headers));
        self
    }
}

/// The host and the port of a URL, without user information.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Headers whose values may be secrets.
pub(crate) fn sensitive(mut headers: HeaderMap) -> HeaderMap {
    headers.values_mut().for_each(|value| value.set_sensitive(true));
    headers
}

/// A header whose value may be a secret.
pub(crate) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), http::Error> {
    let mut value = HeaderValue::try_from(value)?;
    value.set_sensitive(true);
    Ok((HeaderName::try_from(name)?, value))
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("headers", &self.headers.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// A part of a response. Its `Debug` shows no value of a header, and nothing of the body.
pub enum HttpPiece {
    /// The status and the headers.
    Head(StatusCode, HeaderMap),
    /// A part of the body.
    Body(Vec<u8>),
    /// The response ended. Nothing follows.
    End,
    /// The exchange failed. Nothing follows.
    Failure(Broken, String),
}

impl fmt::Debug for HttpPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(status, headers) => {
                f.debug_tuple("Head").field(status).field(&headers.keys().collect::<Vec<_>>()).finish()
            }
            Self::Body(chunk) => f.debug_tuple("Body").field(&chunk.len()).finish(),
            Self::End => f.write_str("End"),
            Self::Failure(broken, why) => f.debug_tuple("Failure").field(broken).field(why).finish(),
        }
    }
}

#[cfg(feature = "oauth")]
impl HttpPiece {
    /// The input of a piece of an exchange of an authorization.
    pub const fn oauth_input(
        &self,
        exchange: mcp_proto::binding::oauth::OAuthExchangeId,
    ) -> mcp_proto::binding::oauth::OAuthInput<'_> {
        use mcp_proto::binding::oauth::OAuthInput;

        match self {
            Self::Head(status, headers) => OAuthInput::Head { exchange, status: *status, headers },
            Self::Body(chunk) => OAuthInput::Body { exchange, chunk: chunk.as_slice() },
            Self::End => OAuthInput::End { exchange },
            Self::Failure(_, why) => OAuthInput::Failure { exchange, why: why.as_str() },
        }
    }
}

/// What an exchange is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// A request to the MCP server, with the headers of its [`Remote`] or its entry.
    Server,
    /// A request of the authorization, to a server that may be reached at these addresses only.
    #[cfg(feature = "oauth")]
    Authorization(Reach),
}

/// What gets the pieces of a response.
pub type TakePiece<'a> = Box<dyn FnMut(HttpPiece) + Send + 'a>;

/// Runs the HTTP exchanges of a client: [`HttpClient`], or one of the host's own ([`Host::http`](crate::Host::http)), which
/// may run them with `HttpClient` and answer some of them itself.
///
/// It follows no redirect, keeps no cookie and decodes no body: the protocol decides. One that does the latter is named in the
/// options of the client ([`keeps_cookies`](mcp_proto::Options::keeps_cookies),
/// [`decodes_bodies`](mcp_proto::Options::decodes_bodies)).
pub trait HttpTransport: Send + Sync + 'static {
    /// Runs a request, and passes its response on: [`HttpPiece::End`] or [`HttpPiece::Failure`] is the last piece. Dropping
    /// the future ends the exchange.
    fn run<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        purpose: Purpose,
        take: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// Runs an exchange to its end, also where the client panics or returns without one.
pub(crate) async fn to_its_end(
    client: &dyn HttpTransport,
    request: Request<Vec<u8>>,
    purpose: Purpose,
    take: impl Fn(HttpPiece) + Send + Sync,
) {
    let has_ended = AtomicBool::new(false);
    let taken = |piece: HttpPiece| {
        has_ended.fetch_or(matches!(piece, HttpPiece::End | HttpPiece::Failure(..)), Ordering::Relaxed);
        take(piece);
    };
    if let Ok(mut run) = catch_unwind(AssertUnwindSafe(|| client.run(request, purpose, Box::new(taken)))) {
        poll_fn(|context| catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))).unwrap_or(Poll::Ready(())))
            .await;
    }
    if !has_ended.into_inner() {
        take(HttpPiece::Failure(Broken::Midway, "the HTTP client did not end the response".into()));
    }
}

impl HttpTransport for HttpClient {
    fn run<'a>(
        &'a self,
        mut request: Request<Vec<u8>>,
        purpose: Purpose,
        mut take: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let client = match purpose {
            Purpose::Server => self,
            #[cfg(feature = "oauth")]
            Purpose::Authorization(reach) => self.within(reach),
        };
        Box::pin(async move {
            if purpose == Purpose::Server
                && let Err(error) = client.add_headers(&mut request).await
            {
                return take(HttpPiece::Failure(Broken::Unreachable, format!("no headers for the request: {error}")));
            }
            let take = move |piece| {
                take(piece);
                std::future::ready(())
            };
            Self::run(client, request, take).await;
        })
    }
}

type AnyError = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, AnyError>> + Send>>;

/// An HTTP client, with TLS, the proxies of the environment and a timeout for connecting, that follows no redirect and
/// stores no cookie. Clones share connections.
#[derive(Clone)]
pub struct HttpClient {
    pool: Pool<Connector, Full<Bytes>>,
    settings: Settings,
    /// The ones for other origins, which have no socket: one that connects to any address, and one that connects to public ones
    /// alone.
    #[cfg(feature = "oauth")]
    others: Arc<[OnceLock<Self>; 2]>,
}

/// What an HTTP client is made of.
#[derive(Clone)]
struct Settings {
    tls: Arc<ClientConfig>,
    proxies: Proxies,
    connect_timeout: Duration,
    #[cfg(unix)]
    socket: Option<Arc<Path>>,
    headers: Option<HeadersOf>,
}

impl Settings {
    /// Whether a Unix socket is connected to, and no proxy.
    const fn is_local(&self) -> bool {
        #[cfg(unix)]
        return self.socket.is_some();
        #[cfg(not(unix))]
        false
    }
}

/// Gets the headers of a request to a URL.
type HeadersOf = Arc<dyn Fn(Uri) -> Pin<Box<dyn Future<Output = io::Result<HeaderMap>> + Send>> + Send + Sync>;

/// Where the certificates come from that a server's has to lead to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Roots {
    /// The system, or the file in the environment variable `SSL_CERT_FILE`. They are loaded once in a process, and for each client
    /// with a certificate of its own.
    #[default]
    System,
    /// Mozilla's, as they were when this program was built.
    #[cfg(feature = "bundled-roots")]
    Bundled,
    /// A file in PEM format, in place of all others.
    File(PathBuf),
}

/// Options of an [`HttpClient`].
///
/// ```no_run
/// use std::time::Duration;
///
/// use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
/// use mcp_proto::Options;
/// use mcp_proto_tokio::{Host, HttpClient, Remote, Roots, Session};
///
/// # async fn token() -> std::io::Result<String> { Ok("t".into()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpClient::builder()
///     .roots(Roots::File("company.pem".into()))
///     .client_certificate("client.pem", "client.key")
///     .proxy("http://proxy.example.com:3128")
///     .connect_timeout(Duration::from_secs(10))
///     // A token that lives for minutes: it is asked for at each request.
///     .headers(|_url| async {
///         let value = HeaderValue::try_from(format!("Bearer {}", token().await?)).map_err(std::io::Error::other)?;
///         Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
///     })
///     .build()?;
/// let host = Host::new(Options::new("my-host", "1.0")).http(client);
/// let session = Session::connect(Remote::new("https://mcp.example.com/mcp")?, host).await?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct HttpClientBuilder {
    roots: Roots,
    /// The files of a certificate and of its key.
    identity: Option<(PathBuf, PathBuf)>,
    proxy: Option<Option<Box<str>>>,
    connect_timeout: Duration,
    #[cfg(unix)]
    socket: Option<Arc<Path>>,
    headers: Option<HeadersOf>,
}

impl HttpClientBuilder {
    /// The certificates that are trusted. Default: the system's.
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// The certificate that this client shows to servers that demand one, those of an authorization too, and its key: files in
    /// PEM format. The certificate may be followed by those that lead to its root.
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// The proxy of all requests but those to this machine, in place of those of the environment: an `http` URL, with a name
    /// and a password if it demands them.
    pub fn proxy(mut self, url: &str) -> Self {
        self.proxy = Some(Some(url.into()));
        self
    }

    /// No proxy, whatever the environment says.
    pub fn no_proxy(mut self) -> Self {
        self.proxy = Some(None);
        self
    }

    /// How long connecting may take, with TLS and the proxy, and before it the function of [`headers`](Self::headers). Default:
    /// 4 s. A client tells servers that cannot be reached from silent ones if this is less than its wait for the first response.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Connects to this Unix socket, whatever the host of a URL is, and to no proxy. Requests of an authorization take it if they
    /// go to the origin of the MCP server.
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into().into());
        self
    }

    /// Adds headers to each request to an MCP server, by its URL: a function that is asked each time, such as for a token that
    /// does not live long, or a trace. Headers of the request itself take precedence. An error fails the request, which was not
    /// sent, and so does a function that takes longer than [`connect_timeout`](Self::connect_timeout). Requests of an
    /// authorization do not get them.
    pub fn headers<F>(mut self, headers: impl Fn(Uri) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<HeaderMap>> + Send + 'static,
    {
        self.headers = Some(Arc::new(move |url| Box::pin(headers(url))));
        self
    }

    /// The client.
    ///
    /// # Errors
    /// A file cannot be read, or has no certificate or key; the URL of the proxy is none; TLS is not possible.
    pub fn build(self) -> io::Result<HttpClient> {
        let proxies = match self.proxy {
            None => Proxies::from_env(),
            Some(None) => Proxies(Arc::new(Matcher::builder().build())),
            Some(Some(url)) => Proxies::all(&url)?,
        };
        Ok(HttpClient::with(
            Settings {
                tls: tls(&self.roots, self.identity.as_ref())?,
                proxies,
                connect_timeout: self.connect_timeout,
                #[cfg(unix)]
                socket: self.socket,
                headers: self.headers,
            },
            |_| true,
        ))
    }
}

impl fmt::Debug for HttpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { roots, connect_timeout, .. } = self;
        let mut shown = f.debug_struct("HttpClientBuilder");
        shown.field("roots", roots).field("connect_timeout", connect_timeout).finish_non_exhaustive()
    }
}

/// The configuration of TLS with the roots of the system, which takes milliseconds to make.
static OF_SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();

fn tls(roots: &Roots, identity: Option<&(PathBuf, PathBuf)>) -> io::Result<Arc<ClientConfig>> {
    if let (Roots::System, None, Some(tls)) = (roots, identity, OF_SYSTEM.get()) {
        return Ok(Arc::clone(tls));
    }
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)
    };
    let mut is_of_system = false;
    let trusting = match roots {
        Roots::System => match builder()?.with_native_roots() {
            Ok(trusting) => {
                is_of_system = true;
                trusting
            }
            // Without root certificates plain HTTP still works.
            Err(_) => builder()?.with_root_certificates(RootCertStore::empty()),
        },
        #[cfg(feature = "bundled-roots")]
        Roots::Bundled => builder()?.with_webpki_roots(),
        Roots::File(path) => {
            let mut store = RootCertStore::empty();
            for certificate in certificates(path)? {
                store.add(certificate).map_err(|error| in_file(path, error))?;
            }
            builder()?.with_root_certificates(store)
        }
    };
    let Some((certificate, key)) = identity else {
        let tls = Arc::new(trusting.with_no_client_auth());
        return Ok(if is_of_system { Arc::clone(OF_SYSTEM.get_or_init(|| tls)) } else { tls });
    };
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, error))?;
    Ok(Arc::new(trusting.with_client_auth_cert(chain, key).map_err(|error| in_file(certificate, error))?))
}

/// The certificates in a file, one at least.
fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(in_file(path, "it has no certificate in PEM format")),
        read => read.map_err(|error| in_file(path, error)),
    }
}

/// An error that names its file.
fn in_file(path: &Path, error: impl fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

impl HttpClient {
    /// A client with the root certificates of the system, and the proxies of its environment.
    ///
    /// # Errors
    /// TLS is not possible.
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Options of a client.
    pub const fn builder() -> HttpClientBuilder {
        HttpClientBuilder {
            roots: Roots::System,
            identity: None,
            proxy: None,
            connect_timeout: CONNECT,
            #[cfg(unix)]
            socket: None,
            headers: None,
        }
    }

    /// The client of the requests of an authorization that may reach these addresses: it connects to no other one. A proxy
    /// connects to any, and resolves names itself.
    #[cfg(feature = "oauth")]
    pub fn within(&self, reach: Reach) -> &Self {
        let make = |allows| {
            let settings = Settings {
                #[cfg(unix)]
                socket: None,
                ..self.settings.clone()
            };
            Self::with(settings, allows)
        };
        let [any, public] = &*self.others;
        match reach {
            Reach::Public => public.get_or_init(|| make(|address| Reach::Public.allows(address))),
            Reach::Server => self,
            _ if self.settings.is_local() => any.get_or_init(|| make(|_| true)),
            _ => self,
        }
    }

    fn with(settings: Settings, allows: fn(IpAddr) -> bool) -> Self {
        let dialer = Dialer {
            tcp: tcp(allows),
            to_proxy: tcp(|_| true),
            proxies: settings.proxies.clone(),
            #[cfg(unix)]
            socket: settings.socket.clone(),
        };
        let https = HttpsConnector::from((dialer, Arc::clone(&settings.tls)));
        let connector = Connector { https, timeout: settings.connect_timeout };
        let pool = Pool::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self {
            pool,
            settings,
            #[cfg(feature = "oauth")]
            others: Arc::default(),
        }
    }

    /// Adds the headers that the host has for this request.
    async fn add_headers(&self, request: &mut Request<Vec<u8>>) -> io::Result<()> {
        let Some(headers_of) = &self.settings.headers else { return Ok(()) };
        let panicked = |_| io::Error::other("the host's function panicked");
        let mut asked = catch_unwind(AssertUnwindSafe(|| headers_of(request.uri().clone()))).map_err(panicked)?;
        let asked = poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| asked.as_mut().poll(context)));
            polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
        });
        let bound = self.settings.connect_timeout;
        let late =
            |_| io::Error::new(io::ErrorKind::TimedOut, format!("the host's function did not return within {bound:?}"));
        let added = sensitive(timeout(bound, asked).await.map_err(late)??);
        let own = std::mem::replace(request.headers_mut(), added);
        request.headers_mut().extend(own);
        Ok(())
    }

    /// Runs a request of a client, and passes its response on to a function. While the future that this returns is pending,
    /// nothing more is read. Dropping the exchange ends it.
    pub async fn run<F: Future<Output = ()>>(&self, request: Request<Vec<u8>>, mut take: impl FnMut(HttpPiece) -> F) {
        let mut response = match self.send(request.map(|body| Full::new(body.into()))).await {
            Ok(response) => response,
            Err(error) => {
                let broken = if error.is_connect() { Broken::Unreachable } else { Broken::Midway };
                // The pool's own words name only its step: `client error (Connect)`.
                let why = error.source().map_or_else(|| why(&error), why);
                return take(HttpPiece::Failure(broken, why)).await;
            }
        };
        take(HttpPiece::Head(response.status(), std::mem::take(response.headers_mut()))).await;
        while let Some(frame) = response.frame().await {
            match frame.map(|frame| frame.into_data()) {
                Ok(Ok(chunk)) if chunk.len() <= PART => take(HttpPiece::Body(chunk.into())).await,
                Ok(Ok(chunk)) => {
                    for part in chunk.chunks(PART) {
                        take(HttpPiece::Body(part.into())).await;
                        // Who reads the progress in it gets its turn.
                        yield_now().await;
                    }
                }
                // Trailers are ignored.
                Ok(Err(_)) => {}
                Err(error) => return take(HttpPiece::Failure(Broken::Midway, why(&error))).await,
            }
        }
        take(HttpPiece::End).await;
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, legacy::Error> {
        let credential = self.settings.proxies.credential(request.uri()).filter(|_| !self.settings.is_local());
        if let Some(credential) = credential {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credential);
        }
        self.pool.request(request).await
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// An error with its causes.
fn why(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn tcp(allows: fn(IpAddr) -> bool) -> HttpConnector<Names> {
    let mut tcp = HttpConnector::new_with_resolver(Names(allows));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_recv_buffer_size(Some(RECEIVED));
    tcp
}

/// Resolves names, to addresses that may be reached.
#[derive(Clone)]
struct Names(fn(IpAddr) -> bool);

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let allows = self.0;
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<_> = found.iter().copied().filter(|address| allows(address.ip())).collect();
            if allowed.is_empty() && !found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "none of its addresses may be reached"));
            }
            Ok(allowed.into_iter())
        })
    }
}

/// A connector with a timeout.
#[derive(Clone)]
struct Connector {
    https: HttpsConnector<Dialer>,
    timeout: Duration,
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Stream>;
    type Error = AnyError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, bound) = (self.https.call(to), self.timeout);
        Box::pin(async move {
            let start = Instant::now();
            let late =
                |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection after {:.1?}", start.elapsed()));
            timeout(bound, connecting).await.map_err(late)?
        })
    }
}

/// The proxies of the environment. This machine is reached without one, and so is all where `NO_PROXY` has a `*`.
#[derive(Clone)]
struct Proxies(Arc<Matcher>);

impl Proxies {
    fn from_env() -> Self {
        let exempt = ["NO_PROXY", "no_proxy"].map(|name| std::env::var(name).unwrap_or_default());
        let is_none = exempt.iter().flat_map(|names| names.split(',')).any(|name| name.trim() == "*");
        Self(Arc::new(if is_none { Matcher::builder().build() } else { Matcher::from_env() }))
    }

    /// One for all.
    fn all(url: &str) -> io::Result<Self> {
        let is_http = url.parse::<Uri>().is_ok_and(|url| url.scheme_str() == Some("http") && url.host().is_some());
        let error = || io::Error::new(io::ErrorKind::InvalidInput, "the proxy is no `http` URL with a host");
        is_http.then(|| Self(Arc::new(Matcher::builder().all(url).build()))).ok_or_else(error)
    }

    /// The proxy for a server, if it is reached through one.
    fn intercept(&self, to: &Uri) -> Option<Intercept> {
        let host = to.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_name = name == "localhost" || name.ends_with(".localhost");
        let is_here = is_name || host.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback());
        if is_here { None } else { self.0.intercept(to) }
    }

    /// The credential that a request to this server carries for its proxy. For a tunnel, the request that opens the tunnel
    /// carries it, and the server does not get it.
    fn credential(&self, to: &Uri) -> Option<HeaderValue> {
        let proxy = self.intercept(to).filter(|_| to.scheme_str() == Some("http"))?;
        proxy.basic_auth().cloned()
    }
}

/// Connects to a server or to its proxy.
#[derive(Clone)]
struct Dialer {
    tcp: HttpConnector<Names>,
    to_proxy: HttpConnector<Names>,
    proxies: Proxies,
    #[cfg(unix)]
    socket: Option<Arc<Path>>,
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = AnyError;
    type Future = Connecting<Stream>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        #[cfg(unix)]
        if let Some(path) = self.socket.clone() {
            return Box::pin(async move {
                let io = UnixStream::connect(&*path).await.map_err(|error| in_file(&path, error))?;
                Ok(Stream { io: Io::Unix(TokioIo::new(io)), absolute: false })
            });
        }
        let proxy = self.proxies.intercept(&to);
        let mut tcp = if proxy.is_some() { self.to_proxy.clone() } else { self.tcp.clone() };
        Box::pin(async move {
            let Some(proxy) = proxy else { return Ok(Stream { io: Io::Tcp(tcp.call(to).await?), absolute: false }) };
            if proxy.uri().scheme_str() != Some("http") {
                return Err("only proxies with an http URL are supported".into());
            }
            if to.scheme_str() != Some("https") {
                return Ok(Stream { io: Io::Tcp(tcp.call(proxy.uri().clone()).await?), absolute: true });
            }
            let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
            if let Some(credential) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credential.clone());
            }
            Ok(Stream { io: Io::Tcp(tunnel.call(to).await?), absolute: false })
        })
    }
}

struct Stream {
    io: Io,
    /// Whether requests carry the absolute URL, as for a proxy.
    absolute: bool,
}

enum Io {
    Tcp(TokioIo<TcpStream>),
    #[cfg(unix)]
    Unix(TokioIo<UnixStream>),
}

/// Runs this with the stream, whatever it is.
macro_rules! with {
    ($stream:expr, $io:ident => $body:expr) => {
        match &mut $stream.io {
            Io::Tcp($io) => $body,
            #[cfg(unix)]
            Io::Unix($io) => $body,
        }
    };
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match &self.io {
            Io::Tcp(io) => io.inner().connected().proxy(self.absolute),
            #[cfg(unix)]
            Io::Unix(_) => Connected::new(),
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        with!(self, io => Pin::new(io).poll_read(context, buffer))
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with!(self, io => Pin::new(io).poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, io => Pin::new(io).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, io => Pin::new(io).poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(exempt: &str) -> Proxies {
        let proxy = "http://user:password@proxy.example:3128";
        Proxies(Arc::new(Matcher::builder().http(proxy).https(proxy).no(exempt).build()))
    }

    #[test]
    fn the_credential_of_a_proxy_goes_to_no_server_behind_a_tunnel() {
        let credential = |to: &str| proxies("exempt.example").credential(&to.parse().unwrap());
        assert_eq!(credential("http://a.example/mcp").unwrap(), "Basic dXNlcjpwYXNzd29yZA==");
        assert_eq!(credential("https://a.example/mcp"), None);
        assert_eq!(credential("http://exempt.example/mcp"), None);
    }

    #[test]
    fn debug_shows_no_value_of_a_header_and_no_body() {
        let headers: HeaderMap = [(http::header::SET_COOKIE, HeaderValue::from_static("hush"))].into_iter().collect();
        let pieces = [HttpPiece::Head(StatusCode::OK, headers), HttpPiece::Body(b"hush".to_vec())];
        let shown = format!("{pieces:?}");
        assert!(shown.contains("set-cookie") && shown.contains("200") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn this_machine_is_reached_without_a_proxy() {
        let is_direct = |to: &str| proxies("").intercept(&to.parse().unwrap()).is_none();
        for here in
            ["localhost", "LocalHost.", "a.localhost", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::ffff:127.0.0.1]:1"]
        {
            assert!(is_direct(&format!("http://{here}/mcp")) && is_direct(&format!("https://{here}/mcp")), "{here}");
        }
        for elsewhere in ["a.example", "localhost.example", "10.0.0.1", "[2001:db8::1]"] {
            assert!(!is_direct(&format!("http://{elsewhere}/mcp")), "{elsewhere}");
        }
    }
}
