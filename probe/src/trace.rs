//! The trace of what goes to a server and comes from it, and its Mermaid sequence diagram.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::{Method, Uri};
use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::binding::{Line, LineDecoder, Sse, SseDecoder};
use mcp_proto::jsonrpc::{self, Body, Decoded, ResponseId};
use mcp_proto_tokio::HttpPiece;
use serde_json::value::RawValue;

use crate::raw::{self, Members};

/// Maximum steps of a diagram.
const STEPS: usize = 2000;
/// Maximum characters of an excerpt.
const EXCERPT: usize = 60;

pub(crate) enum Step {
    /// A message: from whom and to whom, as an arrow, and what it is.
    Message(&'static str, String),
    /// Number of consecutive lines or events that are not messages.
    Noise(usize),
    Note(String),
    /// Number of steps beyond the maximum.
    LeftOut(usize),
}

pub(crate) struct Trace {
    decoder: LineDecoder,
    limits: jsonrpc::MessageLimits,
    /// The client's requests in flight, by id.
    waiting: BTreeMap<u64, String>,
    exchanges: BTreeMap<ExchangeId, Exchange>,
    steps: Option<Vec<Step>>,
}

/// An exchange over HTTP.
struct Exchange {
    method: Method,
    /// The id of the request that it carries.
    id: Option<u64>,
    good: bool,
    body: Received,
}

/// What came of the body of a response.
enum Received {
    /// Only white space.
    Blank,
    Json(Vec<u8>),
    Events(SseDecoder),
}

impl Trace {
    pub(crate) fn new(limits: jsonrpc::MessageLimits, diagram: bool) -> Self {
        let decoder = LineDecoder::new(limits.bytes);
        let (waiting, exchanges) = (BTreeMap::new(), BTreeMap::new());
        Self { decoder, limits, waiting, exchanges, steps: diagram.then(Vec::new) }
    }

    /// The exchange, if it is recorded.
    pub(crate) fn steps(&self) -> Option<&[Step]> {
        self.steps.as_deref()
    }

    /// The responses that are awaited; `None` if there are none.
    pub(crate) fn waiting(&self) -> Option<String> {
        let listed: Vec<String> = self.waiting.iter().take(3).map(|(id, what)| format!("`{what}` (id {id})")).collect();
        let more = self.waiting.len().saturating_sub(listed.len());
        match listed.as_slice() {
            [] => None,
            [one] => Some(format!("the answer to {one}")),
            several if more == 0 => Some(format!("the answers to {}", several.join(", "))),
            several => Some(format!("the answers to {} and {more} more", several.join(", "))),
        }
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.push(Step::Note(text.into()));
    }

    /// The connection was replaced or closed.
    pub(crate) fn reset(&mut self) {
        self.decoder = LineDecoder::new(self.limits.bytes);
        self.waiting.clear();
    }

    /// Records a message of the client; returns its id if it is a request.
    pub(crate) fn sent(&mut self, message: &[u8]) -> Option<u64> {
        let raw: &RawValue = serde_json::from_slice(message).unwrap_or(RawValue::NULL);
        let members = Members::of(raw);
        let (method, id) = (members.string("method"), members.get("id"));
        let number = id.and_then(|id| id.get().parse().ok()).filter(|_| method.is_some());
        let what = method.as_deref().map(|method| describe(method, members.get("params")));
        let (arrow, text) = match (number, what) {
            (Some(id), Some(what)) => {
                let text = format!("{what} (id {id})");
                // Its response only ends the subscription.
                if method.as_deref() != Some("subscriptions/listen") {
                    self.waiting.insert(id, what);
                }
                ("Client->>Server", text)
            }
            (None, Some(what)) => {
                if method.as_deref() == Some("notifications/cancelled") {
                    let id = members.get("params").and_then(|params| Members::of(params).get("requestId"));
                    self.forget(id.and_then(|id| id.get().parse().ok()));
                }
                ("Client-)Server", what)
            }
            (_, None) => {
                let id = id.map_or("null", RawValue::get);
                ("Client-->>Server", answer(id, members.get("result").is_some(), members.get("error")))
            }
        };
        self.push(Step::Message(arrow, text));
        number
    }

    /// The response to this request is no longer awaited.
    fn forget(&mut self, id: Option<u64>) {
        id.map(|id| self.waiting.remove(&id));
    }

    /// An exchange begins.
    pub(crate) fn started(&mut self, request: &HttpRequest) {
        let sent = &request.request;
        let id = match *sent.method() {
            Method::POST => self.sent(sent.body()),
            Method::GET => {
                let from = sent.headers().get("last-event-id").and_then(|id| id.to_str().ok());
                let from = from.map(|id| format!(", from event {id} on")).unwrap_or_default();
                self.push(Step::Message("Client->>Server", excerpt(&format!("GET, a stream{from}"))));
                None
            }
            _ => {
                self.push(Step::Message("Client->>Server", excerpt(sent.method().as_str())));
                None
            }
        };
        let exchange = Exchange { method: sent.method().clone(), id, good: false, body: Received::Blank };
        self.exchanges.insert(request.exchange, exchange);
    }

    /// An exchange is dropped.
    pub(crate) fn dropped(&mut self, exchange: ExchangeId) {
        let id = self.exchanges.remove(&exchange).and_then(|exchange| exchange.id);
        self.forget(id);
    }

    /// Records a piece of a response, if its exchange is in progress.
    pub(crate) fn piece(&mut self, id: ExchangeId, piece: &HttpPiece) {
        let Some(mut exchange) = self.exchanges.remove(&id) else { return };
        match piece {
            HttpPiece::Head(status, _) => {
                exchange.good = status.is_success();
                // A successful response to a request has its own message.
                if !exchange.good || exchange.id.is_none() {
                    let text = format!("HTTP {} to {}", status.as_u16(), exchange.method);
                    self.push(Step::Message("Server-->>Client", text));
                }
            }
            HttpPiece::Body(bytes) => self.take(&mut exchange, bytes),
            HttpPiece::End => return self.ended(&exchange),
            HttpPiece::Failure(_, why) => {
                self.note(format!("{} broke: {why}", exchange.method));
                return self.ended(&exchange);
            }
        }
        self.exchanges.insert(id, exchange);
    }

    fn ended(&mut self, exchange: &Exchange) {
        // The response may arrive on another stream.
        let is_over = matches!(exchange.body, Received::Json(_)) || !exchange.good;
        match &exchange.body {
            Received::Json(json) if exchange.good => self.message(json),
            Received::Json(json) => {
                // A body that is no message is covered by the status.
                if let Ok(Decoded::One(message)) = jsonrpc::decode(json, self.limits) {
                    self.body(message.body);
                }
            }
            Received::Blank | Received::Events(_) => {}
        }
        self.forget(exchange.id.filter(|_| is_over));
    }

    fn take(&mut self, exchange: &mut Exchange, chunk: &[u8]) {
        let limit = self.limits.bytes;
        if let Received::Blank = exchange.body {
            let Some(first) = chunk.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            let json = matches!(first, b'{' | b'[') || !exchange.good;
            exchange.body = if json { Received::Json(Vec::new()) } else { Received::Events(SseDecoder::new(limit)) };
        }
        match &mut exchange.body {
            Received::Blank => {}
            Received::Json(kept) => {
                let room = limit.saturating_sub(kept.len());
                kept.extend(chunk.iter().take(room));
            }
            Received::Events(decoder) => decoder.feed(chunk, |item| match item {
                Sse::Event(event) if event.name == b"endpoint" => {
                    // The query names the session.
                    let endpoint = event.data.split(|byte| *byte == b'?').next().unwrap_or_default();
                    let text = excerpt(&format!("endpoint {}", String::from_utf8_lossy(endpoint)));
                    self.push(Step::Message("Server-->>Client", text));
                }
                Sse::Event(event) | Sse::TooLong(event) => self.message(event.data),
                Sse::Retry(_) => {}
            }),
        }
    }

    /// Records bytes of a process's output.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut decoder = std::mem::replace(&mut self.decoder, LineDecoder::new(0));
        decoder.feed(bytes, |line| match line {
            Line::Complete(line) => self.message(&line),
            Line::TooLong(_) => self.noise(),
        });
        self.decoder = decoder;
    }

    /// Records a message of the server if it is one.
    fn message(&mut self, bytes: &[u8]) {
        match jsonrpc::decode(bytes, self.limits) {
            Ok(Decoded::Blank) => {}
            Ok(Decoded::One(message)) => self.body(message.body),
            Ok(Decoded::Batch(messages)) => {
                for message in messages {
                    match message {
                        Ok(message) => self.body(message.body),
                        Err(_) => self.noise(),
                    }
                }
            }
            Err(_) => self.noise(),
        }
    }

    fn body(&mut self, body: Body<'_>) {
        let (arrow, text) = match body {
            Body::Request { id, method, params } => {
                ("Server->>Client", format!("{} (id {})", describe(&method, params), id.get()))
            }
            Body::Notification { method, params } => ("Server-)Client", describe(&method, params)),
            Body::Result { id, result } => {
                let what = self.answered(id).filter(|_| self.steps.is_some());
                let count = what.as_deref().and_then(|what| contents(what, result)).unwrap_or_default();
                ("Server-->>Client", format!("{}{count}", answer(&shown(id), true, None)))
            }
            Body::Error { id, error } => {
                self.answered(id);
                let text = format!("error {} (id {}): {}", error.code, shown(id), excerpt(&error.message));
                ("Server-->>Client", text)
            }
        };
        self.push(Step::Message(arrow, text));
    }

    fn answered(&mut self, id: ResponseId) -> Option<String> {
        match id {
            ResponseId::Exact(id) | ResponseId::Loose(id) => self.waiting.remove(&id),
            ResponseId::Absent | ResponseId::Foreign => None,
        }
    }

    fn noise(&mut self) {
        if let Some(Step::Noise(lines)) = self.steps.as_mut().and_then(|steps| steps.last_mut()) {
            *lines = lines.saturating_add(1);
        } else {
            self.push(Step::Noise(1));
        }
    }

    fn push(&mut self, step: Step) {
        let Some(steps) = &mut self.steps else { return };
        let full = steps.len() >= STEPS;
        match steps.last_mut() {
            Some(Step::LeftOut(count)) => *count = count.saturating_add(1),
            _ if full => steps.push(Step::LeftOut(1)),
            _ => steps.push(step),
        }
    }
}

/// A method with its target.
fn describe(method: &str, params: Option<&RawValue>) -> String {
    let subject = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "notifications/resources/updated" => "uri",
        "initialize" => "protocolVersion",
        "notifications/message" => "level",
        _ => return excerpt(method),
    };
    let subject = params.and_then(|params| Members::of(params).string(subject));
    excerpt(&subject.map_or_else(|| method.into(), |subject| format!("{method} {subject}")))
}

/// A summary of a response.
fn contents(what: &str, result: &RawValue) -> Option<String> {
    let members = Members::of(result);
    let list = match what {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        "resources/templates/list" => "resourceTemplates",
        _ if what.starts_with("initialize") => return Some(format!(": {}", members.string("protocolVersion")?)),
        _ if members.get("isError").is_some_and(|value| value.get() == "true") => return Some(": isError".into()),
        _ => return None,
    };
    let count = raw::elements(members.get(list)?).len();
    let more = members.get("nextCursor").is_some_and(|cursor| cursor.get() != "null");
    Some(format!(": {count} of {list}{}", if more { ", more to come" } else { "" }))
}

fn answer(id: &str, is_result: bool, error: Option<&RawValue>) -> String {
    match error {
        Some(error) if !is_result => {
            let error = Members::of(error);
            let code = error.get("code").map_or("", RawValue::get);
            format!("error {code} (id {}): {}", excerpt(id), excerpt(&error.string("message").unwrap_or_default()))
        }
        Some(_) | None => format!("result (id {})", excerpt(id)),
    }
}

fn shown(id: ResponseId) -> String {
    match id {
        ResponseId::Exact(id) => id.to_string(),
        ResponseId::Loose(id) => format!("{id}, of another type"),
        ResponseId::Absent => "none".into(),
        ResponseId::Foreign => "unknown".into(),
    }
}

/// A URL for messages: queries may contain secrets.
pub(crate) fn without_query(uri: &Uri) -> String {
    let text = uri.to_string();
    text.split('?').next().unwrap_or_default().to_owned()
}

fn excerpt(text: &str) -> String {
    crate::text::cut(&crate::text::one_line(text), EXCERPT)
}

pub(crate) fn render(steps: &[Step]) -> String {
    let mut out = String::from("sequenceDiagram\n    participant Client\n    participant Server\n");
    for step in steps {
        // Writing to a string does not fail.
        let _ = match step {
            Step::Message(arrow, text) => writeln!(out, "    {arrow}: {}", plain(text)),
            Step::Noise(1) => writeln!(out, "    Note over Server: a line that is not a message"),
            Step::Noise(lines) => writeln!(out, "    Note over Server: {lines} lines that are not messages"),
            Step::Note(text) => writeln!(out, "    Note over Client,Server: {}", plain(text)),
            Step::LeftOut(steps) => writeln!(out, "    Note over Client,Server: {steps} more are left out"),
        };
    }
    out
}

/// The text without characters that are special in Mermaid.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in crate::text::one_line(text).chars() {
        match c {
            ' ' | '/' | '_' | '.' | ',' | ':' | '(' | ')' | '-' | '\'' => out.push(c),
            _ if c.is_alphanumeric() || !c.is_ascii() => out.push(c),
            _ => drop(write!(out, "#{};", u32::from(c))),
        }
    }
    // A bare `end` closes a block in Mermaid.
    if out.split(' ').any(|word| word.eq_ignore_ascii_case("end")) {
        out = format!("({out})");
    }
    if out.is_empty() { "(nothing)".into() } else { out }
}
