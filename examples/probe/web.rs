//! A server over HTTP: its exchanges, and what a trace shows of them.

use std::collections::BTreeMap;
use std::time::Instant;

use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::binding::{Sse, SseDecoder};
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::exchanges::{Exchanges, Piece, client};
use crate::trace::Trace;

pub(crate) struct Web {
    /// None when it is given up.
    runtime: Option<Runtime>,
    exchanges: Exchanges,
    /// What goes with every request.
    own: HeaderMap,
    shown: BTreeMap<ExchangeId, Shown>,
}

/// An exchange, as far as it was shown.
struct Shown {
    method: Method,
    /// The id of the request that it carries.
    id: Option<u64>,
    good: bool,
    body: Body,
}

enum Body {
    /// Nothing but white space.
    Blank,
    Json(Vec<u8>),
    Events(SseDecoder),
}

impl Web {
    pub(crate) fn new(own: HeaderMap) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let exchanges = Exchanges::new(client().map_err(|error| error.to_string())?);
        Ok(Self { runtime: Some(runtime), exchanges, own, shown: BTreeMap::new() })
    }

    pub(crate) fn start(&mut self, request: HttpRequest, trace: &mut Trace) {
        let Some(runtime) = &self.runtime else { return };
        let sent = &request.request;
        let id = match *sent.method() {
            Method::POST => trace.sent(sent.body()),
            Method::GET => {
                let from = sent.headers().get("last-event-id").and_then(|id| id.to_str().ok());
                let from = from.map(|id| format!(", from event {id} on")).unwrap_or_default();
                trace.asked(&format!("GET, a stream{from}"));
                None
            }
            _ => {
                trace.asked(sent.method().as_str());
                None
            }
        };
        let shown = Shown { method: sent.method().clone(), id, good: false, body: Body::Blank };
        self.shown.insert(request.exchange, shown);
        let _context = runtime.enter();
        self.exchanges.start(request, self.own.clone());
    }

    pub(crate) fn drop(&mut self, exchange: ExchangeId, trace: &mut Trace) {
        self.exchanges.drop(exchange);
        let id = self.shown.remove(&exchange).and_then(|shown| shown.id);
        trace.forget(id);
    }

    pub(crate) fn is_running(&self, exchange: ExchangeId) -> bool {
        self.shown.contains_key(&exchange)
    }

    /// Whether its answer may be a stream of events.
    pub(crate) fn is_stream(&self, exchange: ExchangeId) -> bool {
        self.shown.get(&exchange).is_some_and(|shown| !matches!(shown.body, Body::Json(_)))
    }

    /// Waits for something to come of an exchange, until then.
    pub(crate) fn wait(&mut self, until: Instant) -> Option<(ExchangeId, Piece)> {
        let rest = until.saturating_duration_since(Instant::now());
        let (runtime, exchanges) = (self.runtime.as_ref()?, &mut self.exchanges);
        runtime.block_on(async { timeout(rest, exchanges.next()).await }).ok().flatten()
    }

    /// Has the trace show what came.
    pub(crate) fn show(&mut self, exchange: ExchangeId, piece: &Piece, trace: &mut Trace) {
        let Some(shown) = self.shown.get_mut(&exchange) else { return };
        match piece {
            Piece::Head(status, _) => {
                shown.good = status.is_success();
                // A good answer to a request says more.
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
                    // The answer may come by another stream.
                    Body::Blank | Body::Events(_) => !shown.good,
                };
                trace.forget(shown.id.filter(|_| forgotten));
                self.shown.remove(&exchange);
            }
        }
    }
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
                    trace.status(&format!("endpoint {}", String::from_utf8_lossy(event.data)));
                }
                Sse::Event(event) | Sse::TooLong(event) => trace.message(event.data),
                Sse::Retry(_) => {}
            }),
        }
    }
}

impl Drop for Web {
    /// A name that is being looked up is not waited for.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
