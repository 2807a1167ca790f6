//! HTTP exchanges as tasks, for a loop of one's own: each sends one request, and reports the response in pieces.

use std::collections::BTreeMap;

use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::{Client, Http, Time};
use mcp_proto_tokio::{HttpClient, HttpPiece};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// Queued pieces; when the queue is full, the servers block.
const QUEUE: usize = 64;

/// A session's exchanges in flight.
pub(crate) struct Exchanges {
    client: HttpClient,
    tasks: BTreeMap<ExchangeId, AbortHandle>,
    sender: Sender<(ExchangeId, HttpPiece)>,
    pieces: Receiver<(ExchangeId, HttpPiece)>,
}

impl Exchanges {
    pub(crate) fn new(client: HttpClient) -> Self {
        let (sender, pieces) = channel(QUEUE);
        Self { client, tasks: BTreeMap::new(), sender, pieces }
    }

    pub(crate) fn start(&mut self, HttpRequest { exchange, request, .. }: HttpRequest) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            let send = |piece| {
                let sender = sender.clone();
                // An error means that the session ended.
                async move { drop(sender.send((exchange, piece)).await) }
            };
            client.run(request, send).await;
        });
        self.tasks.insert(exchange, task.abort_handle());
    }

    /// Stops an exchange and its stream. The client ignores what it reported before.
    pub(crate) fn drop(&mut self, exchange: ExchangeId) {
        if let Some(task) = self.tasks.remove(&exchange) {
            task.abort();
        }
    }

    /// The next piece of any exchange. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<(ExchangeId, HttpPiece)> {
        let (exchange, piece) = self.pieces.recv().await?;
        if matches!(piece, HttpPiece::End | HttpPiece::Failure(..)) {
            self.tasks.remove(&exchange);
        }
        Some((exchange, piece))
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}

/// Gives a piece of an exchange to its session.
pub(crate) fn give(session: &mut Client<Http>, now: Time, exchange: ExchangeId, piece: &HttpPiece) {
    match piece {
        HttpPiece::Head(status, headers) => session.handle_head(now, exchange, *status, headers),
        HttpPiece::Body(chunk) => session.handle_body(now, exchange, chunk),
        HttpPiece::End => session.handle_end(now, exchange),
        HttpPiece::Failure(broken, why) => session.handle_failure(now, exchange, *broken, why),
    }
}
