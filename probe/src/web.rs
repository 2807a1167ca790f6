//! A server over HTTP: its exchanges, and their trace.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Method, Uri};
use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthRequest, Reach};
use mcp_proto::binding::{Sse, SseDecoder};

use crate::client::Client;
use crate::exchanges::{Exchanges, Piece};
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
