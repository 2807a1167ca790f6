//! HTTP exchanges as tasks: each sends one request and reports the response in pieces.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;

use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_proto::binding::http::{Broken, ExchangeId, HttpRequest};
use mcp_proto::{Http, Time};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

use crate::client::Client;

/// Queued pieces; when the queue is full, the servers block.
const QUEUE: usize = 64;

/// A piece of an exchange's response.
pub(crate) enum Piece {
    Head(StatusCode, HeaderMap),
    Body(Vec<u8>),
    End,
    Failure(Broken, String),
}

/// A session's exchanges in flight.
pub(crate) struct Exchanges {
    client: Client,
    tasks: BTreeMap<ExchangeId, AbortHandle>,
    sender: Sender<(ExchangeId, Piece)>,
    pieces: Receiver<(ExchangeId, Piece)>,
}

impl Exchanges {
    pub(crate) fn new(client: Client) -> Self {
        let (sender, pieces) = channel(QUEUE);
        Self { client, tasks: BTreeMap::new(), sender, pieces }
    }

    /// Sends a request with additional headers, such as credentials, for this request only.
    pub(crate) fn start(&mut self, request: HttpRequest, own: HeaderMap) {
        let HttpRequest { exchange, request, .. } = request;
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            let piece = run(&client, request, own, exchange, &sender).await;
            // An error means that the exchange was dropped.
            let _ = sender.send((exchange, piece)).await;
        });
        self.tasks.insert(exchange, task.abort_handle());
    }

    /// Stops an exchange and its stream; none of its pieces follow.
    pub(crate) fn drop(&mut self, exchange: ExchangeId) {
        if let Some(task) = self.tasks.remove(&exchange) {
            task.abort();
        }
    }

    /// The next piece of any exchange. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<(ExchangeId, Piece)> {
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

/// Sends a request and forwards the response; returns the last piece.
async fn run(
    client: &Client,
    mut request: http::Request<Vec<u8>>,
    mut headers: HeaderMap,
    exchange: ExchangeId,
    sender: &Sender<(ExchangeId, Piece)>,
) -> Piece {
    // The protocol's headers take precedence.
    headers.extend(std::mem::take(request.headers_mut()));
    *request.headers_mut() = headers;
    let mut response = match client.send(request.map(|body| Full::new(body.into()))).await {
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

/// Gives a piece of an exchange to its session.
pub(crate) fn deliver(session: &mut mcp_proto::Client<Http>, now: Time, exchange: ExchangeId, piece: &Piece) {
    match piece {
        Piece::Head(status, headers) => session.handle_head(now, exchange, *status, headers),
        Piece::Body(chunk) => session.handle_body(now, exchange, chunk),
        Piece::End => session.handle_end(now, exchange),
        Piece::Failure(broken, why) => session.handle_failure(now, exchange, *broken, why),
    }
}
