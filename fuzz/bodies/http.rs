//! The body of the target `http`.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
#[cfg(feature = "snapshot")]
use mcp_proto::Moved;
use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction, HttpRequest};
use mcp_proto::jsonrpc::{self, Body, Decoded, ResponseId};
use mcp_proto::{Client, Event, Http, RequestId};

use super::checks::{END, OWED, assert_same, canonical, check_message};
use super::embedder::Embedder;
use super::input::Input;
use super::peer::{self, Peer};
use super::rig::{Clock, Driven, Operated};

/// Reads the bytes as operations on a session over HTTP, and checks invariants after each.
pub fn http(bytes: &[u8]) -> u64 {
    Rig::run(bytes).end()
}

/// A session over HTTP with the state that its invariants need.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) session: Client<Http>,
    host: Embedder,
    peer: Peer,
    clock: Clock,
    url: Uri,
    running: Vec<Running>,
    last_exchange: Option<ExchangeId>,
    /// Exchanges that ended or were dropped.
    over: Vec<ExchangeId>,
    dropped: BTreeSet<ExchangeId>,
    /// Whether the server issues session ids, and which it issued.
    stateful: bool,
    sessions: BTreeSet<HeaderValue>,
    /// Id and method of the last request.
    last: (u64, String),
    print: DefaultHasher,
}

/// An exchange in flight.
#[derive(Clone, Debug)]
struct Running {
    exchange: ExchangeId,
    /// The JSON-RPC method; the HTTP method if it carries no message.
    method: String,
    id: Option<u64>,
    /// The request names a session.
    in_session: bool,
    /// Whether its head was received.
    begun: bool,
    /// It is a stream, at the beginning of an event.
    streams: bool,
}

const STATUSES: [u16; 20] =
    [200, 202, 204, 400, 401, 403, 404, 405, 406, 410, 415, 422, 429, 500, 501, 503, 302, 307, 308, 999];

const PLACES: [&[u8]; 12] = [
    b"/b",
    b"http://h/c?x#y",
    b"HTTP://H:80/d",
    b"https://h/",
    b"//evil/",
    b"http://h:81/",
    b"",
    b"?x",
    b"\xff/\xe9",
    b"/%zz/../[",
    b"http://[::1",
    b"http://u:p@h/../../e",
];

impl Operated for Rig {
    fn new(input: &mut Input<'_>) -> Self {
        let options = input.options();
        let peer = Peer::new(input);
        let kind = input.bits();
        let url = Uri::from_static(if kind & 2 == 0 { "http://h/mcp" } else { "https://H.example:8443/a/sse?x=1" });
        Self {
            host: Embedder::new(&options, true),
            session: Client::new(Http::new(&url.to_string()).expect("an address"), options, 0),
            peer,
            clock: Clock::default(),
            url,
            running: Vec::new(),
            last_exchange: None,
            over: Vec::new(),
            dropped: BTreeSet::new(),
            stateful: kind & 1 != 0,
            sessions: BTreeSet::new(),
            last: (0, String::new()),
            print: DefaultHasher::new(),
        }
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        self.catch_up();
        self.perform(operation, input);
        self.check();
    }

    fn state(&self) -> String {
        let Self { session, host, running, sessions, .. } = self;
        canonical(&format!("{session:?} {host:?} {running:?} {sessions:?}"), self.clock.now)
    }

    fn end(&mut self) -> u64 {
        self.reach_last_instant();
        self.close();
        for exchange in self.over.clone() {
            self.session.handle_head(self.clock.now, exchange, StatusCode::OK, &HeaderMap::new());
            self.session.handle_body(self.clock.now, exchange, b"{}");
            self.session.handle_end(self.clock.now, exchange);
            self.session.handle_failure(self.clock.now, exchange, Broken::Unreachable, "");
        }
        self.check_over();
        self.state().hash(&mut self.print);
        self.print.finish()
    }

    #[cfg(feature = "snapshot")]
    fn check_suspended(&self) {
        let http = || Http::new(&self.url.to_string()).expect("an address");
        let restored = |moved| Self::restored(&self.session, http(), moved);
        restored(Moved::WithTransport);
        let mut suspended = Self { session: restored(Moved::WithoutTransport), ..self.clone() };
        suspended.host.model.ends();
        suspended.running.clear();
        suspended.end();
    }
}

impl Rig {
    fn perform(&mut self, operation: u8, input: &mut Input<'_>) {
        let ours = self.host.operate(operation, &mut self.session, self.clock.now, input);
        if ours || self.pass(operation, input) {
            return;
        }
        match operation {
            // A correct complete response; as a stream; as a refusal; in odd shapes.
            b'e' => self.answer(input, 0),
            b'G' => self.answer(input, 16),
            b'g' => self.answer_by_stream(input),
            b'h' => self.refuse(input),
            b'y' => self.answer_oddly(input),
            // A head, a head with arbitrary header bytes, a part of a body, an end, a failure.
            b'b' => self.any_head(input),
            b'z' => self.raw_head(input),
            b'c' => self.raw_body(input),
            b'd' => {
                let Some(it) = self.pick(input) else { return };
                self.finish(&it);
            }
            b'f' => {
                let Some(it) = self.pick(input) else { return };
                let broken = [Broken::Midway, Broken::Unreachable][input.pick(2)];
                if broken == Broken::Midway && !it.begun {
                    self.host.model.loses(|id| it.id == Some(id));
                }
                // A server whose response has begun was reached, whatever the transport says.
                match it.id.filter(|_| broken == Broken::Unreachable && !it.begun) {
                    Some(id) => self.host.model.hears_status(id, false),
                    None => self.fails(&it),
                }
                self.over(it.exchange);
                self.host.own += 8;
                self.session.handle_failure(self.clock.now, it.exchange, broken, "reset");
            }
            // An unsolicited message of the server, as an event of a stream.
            b'i' => {
                let Some(it) = self.pick(input) else { return };
                let text = peer::notification(input, self.last.0, it.id.unwrap_or(self.last.0));
                self.event(&it, &text);
            }
            b'j' => {
                let Some(it) = self.pick(input) else { return };
                let text = peer::ask(input);
                self.event(&it, &text);
            }
            b'p' => {
                let Some(it) = self.pick(input) else { return };
                let place = PLACES[input.pick(PLACES.len())];
                self.host.model.stops();
                self.begin(&it, 200, "text/event-stream");
                let event = [b"event: endpoint\ndata: ", place, b"\n\n"].concat();
                self.body(&it, &event);
            }
            b'x' => self.report_what_is_over(input),
            b'B' => self.pause(input),
            b'Z' => self.peer.respell(input),
            _ => {}
        }
    }

    fn pick(&self, input: &mut Input<'_>) -> Option<Running> {
        let at = input.pick(16);
        self.running.get(at % self.running.len().max(1)).cloned()
    }

    /// Whether the embedder still runs an exchange.
    fn runs(&mut self, it: &Running) -> bool {
        if self.clock.polling {
            self.drain();
        }
        self.running.iter().any(|running| running.exchange == it.exchange)
    }

    /// The server sends a message in an exchange, as JSON or as an event.
    fn hears(&mut self, it: &Running, text: &str) {
        let carries = it.id.is_some() || it.method == "GET" && self.host.model.has_agreed();
        let is_certain = carries && (!it.begun || it.streams) && self.runs(it);
        let Some(Decoded::One(message)) =
            jsonrpc::decode(text.as_bytes(), self.session.options().limits.message).ok().filter(|_| is_certain)
        else {
            return self.host.model.hears_unclear(it.id);
        };
        let is_own = match &message.body {
            Body::Result { id, .. } | Body::Error { id, .. } => {
                matches!(id, ResponseId::Exact(id) if it.id == Some(*id))
            }
            Body::Request { .. } | Body::Notification { .. } => true,
        };
        if is_own {
            self.host.model.hears(&message, self.clock.now);
        } else {
            self.host.model.hears_unclear(it.id);
        }
    }

    /// What else comes in an exchange may be a part of something.
    fn cuts(&mut self, exchange: ExchangeId) {
        self.running.iter_mut().filter(|it| it.exchange == exchange).for_each(|it| it.streams = false);
    }

    /// An exchange breaks, or another than that of a request is refused.
    fn fails(&mut self, it: &Running) {
        match it.id {
            Some(id) => self.host.model.breaks(id),
            None if it.method != "GET" => self.host.model.hears_unclear(None),
            None => self.host.model.may_restart(),
        }
    }

    fn over(&mut self, exchange: ExchangeId) {
        self.running.retain(|it| it.exchange != exchange);
        self.over.push(exchange);
    }

    fn head(&mut self, it: &Running, status: u16, headers: &HeaderMap) {
        let Ok(status) = StatusCode::from_u16(status) else { return };
        if let Some(running) = self.running.iter_mut().find(|running| running.exchange == it.exchange) {
            running.begun = true;
            running.streams = status == 200 && headers.get("content-type").is_some_and(|it| it == "text/event-stream");
        }
        if matches!(status.as_u16(), 307 | 308) {
            self.host.own += 3;
        }
        self.session.handle_head(self.clock.now, it.exchange, status, headers);
    }

    /// Sends a head, unless one was sent.
    fn begin(&mut self, it: &Running, status: u16, label: &'static str) {
        if it.begun {
            return;
        }
        if status < 300 {
            self.host.model.hears_accepted(&it.method);
        }
        let mut headers = HeaderMap::new();
        if !label.is_empty() {
            headers.insert("content-type", HeaderValue::from_static(label));
        }
        if self.stateful && it.method == "initialize" {
            let id = HeaderValue::from_str(&format!("s{}", self.sessions.len())).unwrap();
            self.sessions.insert(id.clone());
            headers.insert("mcp-session-id", id);
        }
        self.head(it, status, &headers);
    }

    /// A part of a body. Its division into chunks makes no difference.
    fn body(&mut self, it: &Running, bytes: &[u8]) {
        if !self.runs(it) {
            return;
        }
        let mut pieces = self.session.clone();
        self.session.handle_body(self.clock.now, it.exchange, bytes);
        for byte in bytes {
            pieces.handle_body(self.clock.now, it.exchange, &[*byte]);
        }
        // An exchange is dropped at the next poll. At the maximum time every call finds a timer due.
        if it.id.is_some() && it.method != "GET" && self.clock.now < END && !bytes.is_empty() {
            let drained = |mut session: Client<Http>| {
                let actions: Vec<_> = std::iter::from_fn(|| session.poll()).collect();
                (actions, session)
            };
            assert_same(&drained(self.session.clone()), &drained(pieces), "the chunks made a difference");
        }
    }

    fn finish(&mut self, it: &Running) {
        if !self.runs(it) {
            return;
        }
        let begun = self.running.iter().any(|running| running.exchange == it.exchange && running.begun);
        match it.id {
            Some(id) => self.host.model.breaks(id),
            None => self.host.model.ends_one_way(&it.method, begun),
        }
        self.complete(it.exchange);
    }

    /// A response is complete.
    fn complete(&mut self, exchange: ExchangeId) {
        self.over(exchange);
        self.host.own += 2;
        self.session.handle_end(self.clock.now, exchange);
    }

    fn event(&mut self, it: &Running, text: &str) {
        let text = self.data(text);
        self.hears(it, &text);
        self.begin(it, 200, "text/event-stream");
        self.body(it, format!("{}\n", in_event(&text)).as_bytes());
    }

    /// A message as it is in an event, where line feeds are the only line breaks.
    fn data(&self, text: &str) -> String {
        self.peer.spell(text).lines().collect::<Vec<_>>().join("\n")
    }

    fn result(&mut self, it: &Running, variant: usize) -> String {
        let (id, method) = it.id.map_or((self.last.0, &self.last.1), |id| (id, &it.method));
        let result = self.peer.result(method, variant);
        peer::answer(id, &result)
    }

    fn answer(&mut self, input: &mut Input<'_>, first: usize) {
        let it = self.pick(input);
        let variant = first + input.pick(16);
        let Some(it) = it else { return };
        match (&*it.method, it.id) {
            (_, Some(_)) => {
                let text = self.result(&it, variant);
                let text = self.peer.spell(&text);
                self.hears(&Running { streams: false, ..it.clone() }, &text);
                self.begin(&it, 200, "application/json");
                self.body(&it, text.as_bytes());
            }
            ("GET", None) => self.begin(&it, 405, ""),
            ("DELETE", None) => self.begin(&it, 200, ""),
            (_, None) => self.begin(&it, 202, ""),
        }
        self.finish(&it);
    }

    fn answer_by_stream(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let how = input.bits();
        let variant = input.pick(16);
        let Some(it) = it else { return };
        let mut text = String::new();
        if how & 1 != 0 {
            text.push_str(": hello\n\nid: 1\nretry: 2000\ndata:\n\n");
        }
        if how & 2 == 0 && (it.id.is_some() || how & 32 != 0) {
            let result = self.result(&it, variant);
            let result = self.data(&result);
            self.hears(&it, &result);
            text.push_str(&format!("event: message\nid: 2\n{}\n", in_event(&result)));
        }
        if how & 4 != 0 {
            text = text.replace('\n', "\r\n");
        }
        if how & 8 != 0 {
            text.push_str("id\nretry: 99999999999999999999\n\ndata: tail");
        }
        self.begin(&it, 200, "text/event-stream");
        self.body(&it, text.as_bytes());
        if how & 8 != 0 {
            self.cuts(it.exchange);
        }
        if how & 16 == 0 {
            self.finish(&it);
        }
    }

    fn refuse(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let status = STATUSES[input.pick(STATUSES.len())];
        let kind = input.pick(24);
        let Some(it) = it else { return };
        let id = it.id.unwrap_or(self.last.0);
        let body = match kind {
            0 => String::new(),
            1 => "<html>\u{e9}</html>".into(),
            2 => "Session not found".into(),
            3 => r#"{"error":"session expired"}"#.into(),
            4 => peer::answer(id, r#""error":{"code":-32000,"message":"Already initialized"}"#),
            5 => peer::answer(id, r#""error":{"code":-32000,"message":"Server not initialized"}"#),
            6 => peer::odd_answer(3, id, "", r#""error":{"code":-32001,"message":"Session is unknown"}"#),
            7 => format!(r#"["{}"]"#, "x".repeat(5_000)),
            kind => peer::answer(id, &peer::error(kind - 8)),
        };
        // The body is no JSON-RPC message.
        let is_plain = matches!(kind, 0 | 1 | 7);
        match it.id.filter(|_| !it.begun) {
            Some(id) if it.in_session && is_plain && status == 404 => self.host.model.expires(id),
            Some(id) => self.host.model.hears_status(id, it.in_session || !is_plain),
            None if it.begun => self.host.model.hears_unclear(it.id),
            None => self.fails(&it),
        }
        self.begin(&it, status, "application/json");
        self.body(&it, body.as_bytes());
        self.finish(&it);
    }

    /// The server is busy, and says for how long.
    fn pause(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let (status, seconds) = ([429, 503][input.pick(2)], [2, 0, 61][input.pick(3)]);
        let Some(it) = it else { return };
        match it.id.filter(|_| !it.begun) {
            Some(id) => {
                self.host.model.pauses(id, status == 429, Duration::from_secs(seconds), self.clock.now);
            }
            None => self.host.model.hears_unclear(it.id),
        }
        self.head(&it, status, &HeaderMap::from_iter([(RETRY_AFTER, seconds.into())]));
        if self.runs(&it) {
            self.complete(it.exchange);
        }
    }

    fn answer_oddly(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let shape = input.pick(12);
        let variant = input.pick(16);
        let Some(it) = it else { return };
        let id = it.id.unwrap_or(self.last.0);
        let result = self.peer.result(&it.method, variant);
        self.host.model.hears_unclear(it.id);
        let text = peer::odd_answer(shape, id, &result, &peer::error(variant));
        self.begin(&it, 200, "application/json");
        self.body(&it, text.as_bytes());
        self.finish(&it);
    }

    fn any_head(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let status = STATUSES[input.pick(STATUSES.len())];
        let label: &[u8] = [
            &b""[..],
            b"application/json",
            b"text/event-stream",
            b"TEXT/Event-Stream ; charset=utf-8",
            b"application/json;x",
            b"text/html",
            b"\xff",
            b";",
        ][input.pick(8)];
        let with = input.bits();
        let place = PLACES[input.pick(PLACES.len())];
        let Some(it) = it else { return };
        let mut headers = HeaderMap::new();
        let mut add = |name: &'static str, value: &[u8]| {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        };
        add("content-type", label);
        add("location", place);
        if with & 1 != 0 {
            add("mcp-session-id", b"given");
        }
        if with & 2 != 0 {
            add("mcp-session-id", b"not visible");
        }
        if with & 4 != 0 {
            add("retry-after", b"2");
        }
        if with & 8 != 0 {
            add("retry-after", b"Wed, 21 Oct 2026 07:28:00 GMT");
        }
        if with & 16 != 0 {
            add("www-authenticate", b"Bearer scope=\"a b\", error=\"invalid_token\", Basic");
        }
        if with & 32 != 0 {
            add("retry-after", b"18446744073709551615");
        }
        if with & 64 != 0 {
            add("date", b"Wed, 21 Oct 2026 07:27:30 GMT");
            add("set-cookie", b"node=1; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60");
            add("set-cookie", b"part=\"2\"; expires=Wed, 21 Oct 2026 07:28:00 GMT; path=/mcp; Domain=a.example");
            add("set-cookie", b"gone=; max-age=0");
        }
        if with & 128 != 0 {
            add("content-encoding", b"identity, gzip");
        }
        self.sessions.insert(HeaderValue::from_static("given"));
        self.host.model.hears_unclear(it.id);
        self.head(&it, status, &headers);
    }

    fn raw_head(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let status = STATUSES[input.pick(STATUSES.len())];
        let names = [
            "content-type",
            "location",
            "mcp-session-id",
            "retry-after",
            "www-authenticate",
            "set-cookie",
            "content-encoding",
            "date",
        ];
        let name = names[input.pick(names.len())];
        let len = usize::from(input.byte());
        let Ok(value) = HeaderValue::from_bytes(input.take(len)) else { return };
        let Some(it) = it else { return };
        if name == "mcp-session-id" {
            self.sessions.insert(value.clone());
        }
        self.host.model.hears_unclear(it.id);
        self.head(&it, status, &HeaderMap::from_iter([(HeaderName::from_static(name), value)]));
    }

    fn raw_body(&mut self, input: &mut Input<'_>) {
        let it = self.pick(input);
        let len = usize::from(input.byte());
        let bytes = input.take(len);
        if let Some(it) = it {
            self.host.model.hears_unclear(it.id);
            self.cuts(it.exchange);
            self.body(&it, bytes);
        }
    }

    /// Reports about a finished exchange change nothing.
    fn report_what_is_over(&mut self, input: &mut Input<'_>) {
        let exchange = input.choose(&self.over);
        let kind = input.pick(4);
        let Some(exchange) = exchange.filter(|_| self.clock.now < END) else { return };
        self.session.handle_timeout(self.clock.now);
        let before = self.session.clone();
        match kind {
            0 => self.session.handle_head(self.clock.now, exchange, StatusCode::NOT_FOUND, &HeaderMap::new()),
            1 => self.session.handle_body(self.clock.now, exchange, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            2 => self.session.handle_end(self.clock.now, exchange),
            _ => self.session.handle_failure(self.clock.now, exchange, Broken::Unreachable, "late"),
        }
        assert_same(&before, &self.session, "an exchange that is over made a difference");
    }

    fn check_owed(&self, owed: usize, running: usize) {
        let own = self.host.own + 4 * running;
        assert!(owed <= OWED + own, "{owed} actions wait, {own} for the embedder's own doing");
    }

    fn take(&mut self, action: HttpAction) {
        assert!(!self.host.closed, "after the end: {action:?}");
        format!("{action:?}").hash(&mut self.print);
        match action {
            HttpAction::Request(request) => self.run_request(&request),
            HttpAction::Drop(exchange) => {
                assert!(self.last_exchange >= Some(exchange), "{exchange:?} was never run");
                assert!(self.dropped.insert(exchange), "{exchange:?} was dropped twice");
                let runs = self.running.iter().any(|it| it.exchange == exchange);
                assert!(runs || self.clock.behind, "{exchange:?} was over");
                let id = self.running.iter().find(|it| it.exchange == exchange).and_then(|it| it.id);
                id.into_iter().for_each(|id| self.host.model.breaks(id));
                self.over(exchange);
            }
            HttpAction::Event(event) => {
                self.host.take(&event, self.clock.now);
                if let Event::Closed { .. } = event {
                    let running: Vec<_> = self.running.iter().map(|it| (it.exchange, &it.method)).collect();
                    assert!(running.is_empty(), "still running at the end: {running:?}");
                }
            }
            _ => {}
        }
    }

    fn run_request(&mut self, run: &HttpRequest) {
        let HttpRequest { exchange, of, request, .. } = run;
        assert!(Some(*exchange) > self.last_exchange, "{exchange:?} came again");
        self.last_exchange = Some(*exchange);
        let (url, headers) = (request.uri(), request.headers());
        assert_eq!(origin(url), origin(&self.url), "{url} is elsewhere");
        assert!(headers.contains_key("accept") || request.method() == Method::DELETE);
        for id in headers.get_all("mcp-session-id") {
            assert!(self.sessions.contains(id), "the server gave no {id:?}");
        }
        let in_session = headers.contains_key("mcp-session-id");
        if request.method() != Method::POST {
            assert!(request.body().is_empty());
            let method = request.method().to_string();
            self.running.push(Running {
                exchange: *exchange,
                method,
                id: None,
                in_session,
                begun: false,
                streams: false,
            });
            return self.check_of(*of, true);
        }
        assert_eq!(headers["content-type"], "application/json");
        let message = check_message(request.body());
        let text = |member: &str| message.get(member).and_then(|it| serde_json::from_str::<String>(it.get()).ok());
        let method = text("method");
        let id = message.get("id").filter(|_| method.is_some()).and_then(|id| id.get().parse().ok());
        if let Some(mirrored) = headers.get("mcp-method") {
            assert_eq!(mirrored.to_str().ok(), method.as_deref());
        }
        if method.as_deref() == Some("initialize") {
            assert!(!headers.contains_key("mcp-session-id"), "`initialize` belongs to no session");
        }
        if let Some(id) = id {
            assert!(self.running.iter().all(|it| it.id != Some(id)), "the request {id} runs already");
            self.last = (id, method.clone().unwrap_or_default());
        }
        self.check_of(*of, id.is_some());
        self.host.model.sends(request.body(), *of, self.clock.now);
        self.running.push(Running {
            exchange: *exchange,
            method: method.unwrap_or_default(),
            id,
            in_session,
            begun: false,
            streams: false,
        });
    }

    /// A POST with a request names an open request. A response or a notification may belong to a finished one.
    fn check_of(&self, of: Option<RequestId>, carries: bool) {
        let known = |of| if carries { self.host.model.open().contains(&of) } else { self.host.requests.contains(&of) };
        assert!(of.is_none_or(known), "{of:?} was not open");
    }
}

fn in_event(message: &str) -> String {
    message.lines().map(|line| format!("data: {line}\n")).collect()
}

impl Driven for Rig {
    type Binding = Http;

    fn parts(&mut self) -> (&mut Client<Http>, &mut Clock, &mut Embedder) {
        (&mut self.session, &mut self.clock, &mut self.host)
    }

    fn take_next(&mut self) {
        if let Some(action) = self.session.poll() {
            self.take(action);
        }
    }

    fn drain(&mut self) {
        let (mut owed, running) = (0, self.running.len());
        while let Some(action) = self.session.poll() {
            self.take(action);
            owed += 1;
            self.check_owed(owed, running);
        }
        self.clock.behind = false;
        self.host.own = 0;
    }

    fn check_waiting(&self, owed: usize) {
        self.check_owed(owed, self.running.len());
    }
}

/// The origin of a request's URL.
fn origin(url: &Uri) -> (Option<String>, Option<String>, u16) {
    let scheme = url.scheme_str().map(str::to_ascii_lowercase);
    let port = url.port_u16().unwrap_or(if scheme.as_deref() == Some("https") { 443 } else { 80 });
    (scheme, url.host().map(str::to_ascii_lowercase), port)
}
