//! HTTP exchanges as tasks: each sends one request and reports the response in pieces.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;

use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::binding::oauth::Reach;
use mcp_proto::journal::Input;
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
