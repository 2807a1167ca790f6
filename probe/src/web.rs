//! Servers over HTTP: the HTTP client, and exchanges as tasks.

use std::collections::BTreeMap;
use std::future::pending;
use std::task::{Context, Poll};

use http::HeaderMap;
use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthLimits, Reach};
use mcp_proto::journal::Input;
use mcp_proto_tokio::{HttpClient, HttpPiece};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// Queued pieces; when the queue is full, the servers block.
const QUEUE: usize = 64;
/// An exchange with the MCP server, or one of its authorization.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Id {
    Server(ExchangeId),
    OAuth(OAuthExchangeId),
}

/// A piece of an exchange with the MCP server, for its client.
pub(crate) fn input(exchange: ExchangeId, piece: HttpPiece) -> Input {
    match piece {
        HttpPiece::Head(status, headers) => Input::Head { exchange, status, headers },
        HttpPiece::Body(bytes) => Input::Body { exchange, bytes: bytes.into() },
        HttpPiece::End => Input::End { exchange },
        HttpPiece::Failure(broken, why) => Input::Failure { exchange, broken, why: why.into() },
    }
}

/// Exchanges in flight, by their ids.
pub(crate) struct Exchanges {
    client: HttpClient,
    /// Headers of every request to the MCP server.
    own: HeaderMap,
    tasks: BTreeMap<Id, AbortHandle>,
    sender: Sender<(Id, HttpPiece)>,
    pieces: Receiver<(Id, HttpPiece)>,
}

impl Exchanges {
    pub(crate) fn new(client: HttpClient, own: HeaderMap) -> Self {
        let (sender, pieces) = channel(QUEUE);
        Self { client, own, tasks: BTreeMap::new(), sender, pieces }
    }

    /// Sends a request to addresses that it may reach, as a task of the current runtime. Only the MCP server gets its
    /// headers.
    pub(crate) fn start(&mut self, exchange: Id, reach: Reach, mut request: http::Request<Vec<u8>>) {
        let (client, sender) = (self.client.within(reach).clone(), self.sender.clone());
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
        let mut read = 0_usize;
        let task = tokio::spawn(async move {
            let take = move |piece: HttpPiece| {
                read = read.saturating_add(if let HttpPiece::Body(chunk) = &piece { chunk.len() } else { 0 });
                let (sender, is_long) = (sender.clone(), read > limit);
                async move {
                    // An error means that the exchange was dropped.
                    let _ = sender.send((exchange, piece)).await;
                    if is_long {
                        let why = format!("the response is longer than {limit} bytes");
                        let _ = sender.send((exchange, HttpPiece::Failure(Broken::Midway, why))).await;
                        // Nothing more is read.
                        pending().await
                    }
                }
            };
            client.run(request, take).await;
        });
        self.tasks.insert(exchange, task.abort_handle());
    }

    /// Stops an exchange and its stream; none of its pieces follow. Returns whether it was in flight.
    pub(crate) fn stop(&mut self, exchange: Id) -> bool {
        let task = self.tasks.remove(&exchange);
        task.inspect(AbortHandle::abort).is_some()
    }

    pub(crate) fn has_oauth(&self) -> bool {
        self.tasks.keys().any(|id| matches!(id, Id::OAuth(_)))
    }

    /// The next piece of any exchange.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Id, HttpPiece)> {
        while let Poll::Ready(Some((exchange, piece))) = self.pieces.poll_recv(context) {
            let known = match piece {
                HttpPiece::Head(..) | HttpPiece::Body(_) => self.tasks.contains_key(&exchange),
                HttpPiece::End | HttpPiece::Failure(..) => self.stop(exchange),
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
