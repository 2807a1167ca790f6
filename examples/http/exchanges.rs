//! HTTP exchanges as tasks: each sends one request and reports the response in pieces.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthInput, Reach};
use mcp_proto::{Http, Time};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// Connect timeout. Shorter than a session's wait for its first response, so that unreachable and silent servers
/// differ.
const CONNECT: Duration = Duration::from_secs(4);
/// Queued pieces; when the queue is full, the servers block.
const QUEUE: usize = 64;

/// An exchange of a session: with the server, or with its authorization server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exchange {
    Server(ExchangeId),
    #[allow(dead_code, reason = "only sessions that authorize themselves have them")]
    OAuth(OAuthExchangeId),
}

/// A piece of an exchange's response.
pub(crate) enum Piece {
    Head(StatusCode, HeaderMap),
    Body(Vec<u8>),
    End,
    Failure(Broken, String),
}

/// HTTP clients for sessions: they do not follow redirects, and have a timeout for connecting only. Clones share
/// connections.
#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) any: Client,
    /// It connects to no private address, whatever a name resolves to.
    public: Client,
}

pub(crate) fn clients() -> reqwest::Result<Clients> {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = |reach| {
        let builder = || Client::builder().redirect(Policy::none()).connect_timeout(CONNECT).dns_resolver(Names(reach));
        // Without root certificates plain HTTP still works.
        builder().build().or_else(|_| builder().tls_certs_only([]).build())
    };
    Ok(Clients { any: client(Reach::Any)?, public: client(Reach::Public)? })
}

/// Resolves names to the addresses that a request may reach.
struct Names(Reach);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<_> = found.filter(|address| reach.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} has no address that may be reached", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// A session's exchanges in flight.
pub(crate) struct Exchanges {
    clients: Clients,
    tasks: BTreeMap<Exchange, AbortHandle>,
    sender: Sender<(Exchange, Piece)>,
    pieces: Receiver<(Exchange, Piece)>,
}

impl Exchanges {
    pub(crate) fn new(clients: Clients) -> Self {
        let (sender, pieces) = channel(QUEUE);
        Self { clients, tasks: BTreeMap::new(), sender, pieces }
    }

    /// Sends a request to the addresses that it may reach, with additional headers, such as credentials, for this request
    /// only.
    pub(crate) fn start(&mut self, exchange: Exchange, reach: Reach, request: http::Request<Vec<u8>>, own: HeaderMap) {
        let client = if reach == Reach::Public { &self.clients.public } else { &self.clients.any };
        let (client, sender) = (client.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            let piece = match run(&client, request, own, exchange, &sender).await {
                Ok(()) => Piece::End,
                Err(error) => {
                    // A request that could not be built was not sent either.
                    let unreachable = error.is_connect() || error.is_builder();
                    let broken = if unreachable { Broken::Unreachable } else { Broken::Midway };
                    Piece::Failure(broken, why(&error.without_url()))
                }
            };
            // An error means that the exchange was dropped.
            let _ = sender.send((exchange, piece)).await;
        });
        self.tasks.insert(exchange, task.abort_handle());
    }

    /// Stops an exchange and its stream; none of its pieces follow.
    pub(crate) fn drop(&mut self, exchange: Exchange) {
        if let Some(task) = self.tasks.remove(&exchange) {
            task.abort();
        }
    }

    /// The next piece of any exchange. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<(Exchange, Piece)> {
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

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}

async fn run(
    client: &Client,
    request: http::Request<Vec<u8>>,
    mut headers: HeaderMap,
    exchange: Exchange,
    sender: &Sender<(Exchange, Piece)>,
) -> reqwest::Result<()> {
    let mut request = reqwest::Request::try_from(request)?;
    // The protocol's headers take precedence.
    headers.extend(std::mem::take(request.headers_mut()));
    *request.headers_mut() = headers;
    let mut response = client.execute(request).await?;
    let head = Piece::Head(response.status(), std::mem::take(response.headers_mut()));
    let _ = sender.send((exchange, head)).await;
    while let Some(chunk) = response.chunk().await? {
        let _ = sender.send((exchange, Piece::Body(chunk.to_vec()))).await;
    }
    Ok(())
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

/// Gives a piece of an exchange to its session.
pub(crate) fn tell(session: &mut mcp_proto::Client<Http>, now: Time, exchange: Exchange, piece: &Piece) {
    let exchange = match exchange {
        Exchange::Server(exchange) => exchange,
        Exchange::OAuth(exchange) => {
            session.handle_oauth(
                now,
                match piece {
                    Piece::Head(status, headers) => OAuthInput::Head { exchange, status: *status, headers },
                    Piece::Body(chunk) => OAuthInput::Body { exchange, chunk },
                    Piece::End => OAuthInput::End { exchange },
                    Piece::Failure(_, why) => OAuthInput::Failure { exchange, why },
                },
            );
            return;
        }
    };
    match piece {
        Piece::Head(status, headers) => session.handle_head(now, exchange, *status, headers),
        Piece::Body(chunk) => session.handle_body(now, exchange, chunk),
        Piece::End => session.handle_end(now, exchange),
        Piece::Failure(broken, why) => session.handle_failure(now, exchange, *broken, why),
    }
}
