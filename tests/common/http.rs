//! A client over HTTP in virtual time, and a simulated server that checks the rules of the protocol.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction, HttpRequest};
use mcp_proto::{Client, Event, Http, Options, Outcome, Request, RequestId, Time};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::common::client_getters::client_getters;
use crate::common::{Server, Steps, tools};

pub const URL: &str = "https://example.com/mcp";
pub const SESSION: &str = "mcp-session-id";
pub const VERSION: &str = "mcp-protocol-version";
pub const LAST_ID: &str = "last-event-id";

/// An HTTP exchange that the client requested.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: ExchangeId,
    pub of: Option<RequestId>,
    pub at: Time,
    pub request: http::Request<Vec<u8>>,
}

impl Exchange {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.request.headers().get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap());
        assert!(values.next().is_none(), "{name} twice");
        value
    }

    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    pub fn verb(&self) -> &str {
        self.request.method().as_str()
    }

    pub fn url(&self) -> String {
        self.request.uri().to_string()
    }

    pub fn body(&self) -> &[u8] {
        self.request.body()
    }

    /// The body of a POST, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.body()).unwrap()
    }

    /// The method of the posted message, `(answer)` for a response, or else the HTTP method.
    pub fn name(&self) -> String {
        match self.verb() {
            "POST" => self.json()["method"].as_str().unwrap_or("(answer)").into(),
            verb => verb.into(),
        }
    }

    pub fn is(&self, name: &str) -> bool {
        self.name() == name
    }

    /// A response to this request: its id and one other member.
    pub fn answer(&self, member: &str, value: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.json()["id"], member: value})
    }

    pub fn result(&self, result: Value) -> Value {
        self.answer("result", result)
    }

    pub fn error(&self, code: i64, message: &str) -> Value {
        self.answer("error", json!({"code": code, "message": message}))
    }
}

/// An HTTP response, complete or only its beginning.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub ends: bool,
}

impl Reply {
    /// A response without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: vec![], body: vec![], ends: true }
    }

    pub fn body(mut self, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.with("content-type", kind)
    }

    pub fn text(status: u16, text: &str) -> Self {
        Self::status(status).body("text/plain", text)
    }

    pub fn json(status: u16, message: &Value) -> Self {
        Self::status(status).body("application/json", message.to_string())
    }

    /// An event stream of these messages, which ends.
    pub fn events(messages: &[Value]) -> Self {
        Self::status(200).body("text/event-stream", events(messages))
    }

    /// An event stream that begins with this text and stays open.
    pub fn stream(text: &str) -> Self {
        Self::status(200).body("text/event-stream", text).unfinished()
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    pub fn unfinished(mut self) -> Self {
        self.ends = false;
        self
    }

    pub fn header_map(&self) -> HeaderMap {
        header_map(&self.headers)
    }
}

pub fn header_map<V: AsRef<str>>(headers: &[(&'static str, V)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, V)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value.as_ref()).unwrap())
    };
    headers.iter().map(header).collect()
}

/// The messages as server-sent events.
pub fn events(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("event: message\ndata: {message}\n\n")).collect()
}

/// A client over HTTP, and all its outputs.
pub struct Web {
    pub session: Client<Http>,
    pub now: Time,
    /// Every exchange that the client requested.
    pub log: Vec<Exchange>,
    /// The exchanges that are open.
    pub open: BTreeMap<ExchangeId, Exchange>,
    /// The exchanges that the client dropped.
    pub dropped: Vec<ExchangeId>,
    pub events: Vec<Event>,
    /// The actions that the authorization requested.
    #[cfg(feature = "oauth")]
    pub oauth: VecDeque<mcp_proto::binding::oauth::OAuthAction>,
    untaken: VecDeque<ExchangeId>,
    lenient: bool,
}

impl Web {
    pub fn new(options: Options) -> Self {
        Self::at(options, URL)
    }

    pub fn at(options: Options, url: &str) -> Self {
        Self::over(options, Http::new(url).unwrap())
    }

    pub fn over(options: Options, server: Http) -> Self {
        Self {
            session: Client::new(server, options, 0),
            now: Time::ZERO,
            log: vec![],
            open: BTreeMap::new(),
            dropped: vec![],
            events: vec![],
            #[cfg(feature = "oauth")]
            oauth: VecDeque::new(),
            untaken: VecDeque::new(),
            lenient: false,
        }
    }

    /// A client that is opening.
    pub fn open(options: Options) -> Self {
        let mut web = Self::new(options);
        web.reopen();
        web
    }

    /// A client after handshake and discovery.
    pub fn connect(options: Options, site: &mut Site) -> Self {
        let mut web = Self::open(options);
        web.serve(site);
        web
    }

    /// A legacy client after the response to `initialize`, and its `notifications/initialized`, which has no response yet.
    pub fn accepting(options: Options) -> (Self, Exchange) {
        let mut web = Self::open(options);
        let initialize = web.take_named("initialize");
        let info = json!({"name": "s", "version": "1"});
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info});
        web.end_with(&initialize, Reply::json(200, &initialize.result(result)));
        let initialized = web.take_named("notifications/initialized");
        (web, initialized)
    }

    pub fn reopen(&mut self) {
        self.session.open(self.now).unwrap();
        self.collect();
    }

    pub fn close(&mut self) {
        self.session.close(self.now).unwrap();
        self.collect();
    }

    /// As [`Web::collect`], but the client may drop an exchange whose end it has not received yet.
    pub fn collect_lenient(&mut self) {
        self.lenient = true;
        self.collect();
        self.lenient = false;
    }

    /// Polls until nothing is left, and checks each request and each drop.
    pub fn collect(&mut self) {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.session.poll() {
            steps.step();
            // A refresh in progress is completed and stored after the end.
            #[cfg(feature = "oauth")]
            let is_oauth = matches!(action, HttpAction::OAuth(_));
            #[cfg(not(feature = "oauth"))]
            let is_oauth = false;
            assert!(self.cause().is_none() || is_oauth, "{action:?} after the end");
            match action {
                HttpAction::Request(HttpRequest { exchange, of, request, .. }) => {
                    let asked = Exchange { id: exchange, of, at: self.now, request };
                    check(&asked);
                    assert!(self.log.iter().all(|before| before.id != exchange), "an exchange id was used twice");
                    self.log.push(asked.clone());
                    self.open.insert(exchange, asked);
                    self.untaken.push_back(exchange);
                }
                HttpAction::Drop(exchange) => {
                    let was_open = self.open.remove(&exchange).is_some();
                    assert!(was_open || self.lenient, "{exchange:?} is not open");
                    assert!(!self.dropped.contains(&exchange), "{exchange:?} is dropped twice");
                    self.dropped.push(exchange);
                    self.untaken.retain(|untaken| *untaken != exchange);
                }
                HttpAction::Event(event) => self.events.push(event),
                #[cfg(feature = "oauth")]
                HttpAction::OAuth(action) => self.oauth.push_back(action),
                other => panic!("an unknown action: {other:?}"),
            }
        }
    }

    pub fn head(&mut self, exchange: &Exchange, status: u16, headers: &[(&'static str, &str)]) {
        assert!(self.open.contains_key(&exchange.id), "{} is not open", exchange.name());
        let status = StatusCode::from_u16(status).unwrap();
        self.session.handle_head(self.now, exchange.id, status, &header_map(headers));
        self.collect();
    }

    pub fn body(&mut self, exchange: &Exchange, chunk: impl AsRef<[u8]>) {
        assert!(self.open.contains_key(&exchange.id), "{} is not open", exchange.name());
        self.session.handle_body(self.now, exchange.id, chunk.as_ref());
        self.collect();
    }

    /// Sends a message on the stream of an exchange.
    pub fn push(&mut self, exchange: &Exchange, message: Value) {
        self.body(exchange, events(&[message]));
    }

    pub fn end(&mut self, exchange: &Exchange) {
        assert!(self.open.remove(&exchange.id).is_some(), "{} is not open", exchange.name());
        self.session.handle_end(self.now, exchange.id);
        self.collect();
    }

    pub fn fail(&mut self, exchange: &Exchange, broken: Broken) {
        assert!(self.open.remove(&exchange.id).is_some(), "{} is not open", exchange.name());
        self.session.handle_failure(self.now, exchange.id, broken, "connection reset");
        self.collect();
    }

    /// The server is unreachable for this request and for its retry.
    pub fn make_unreachable(&mut self, exchange: &Exchange) {
        self.fail(exchange, Broken::Unreachable);
        let again = self.take_named(&exchange.name());
        self.fail(&again, Broken::Unreachable);
    }

    /// Delivers the reply, until the client drops the exchange.
    pub fn reply(&mut self, exchange: &Exchange, reply: Reply) {
        let headers: Vec<_> = reply.headers.iter().map(|(name, value)| (*name, &**value)).collect();
        self.head(exchange, reply.status, &headers);
        if self.is_open(exchange) && !reply.body.is_empty() {
            self.body(exchange, &reply.body);
        }
        if self.is_open(exchange) && reply.ends {
            self.end(exchange);
        }
    }

    /// As [`Web::reply`]; the client must not drop the exchange.
    pub fn end_with(&mut self, exchange: &Exchange, reply: Reply) {
        self.reply(exchange, reply);
        assert!(!self.is_open(exchange) && !self.was_dropped(exchange));
    }

    pub fn is_open(&self, exchange: &Exchange) -> bool {
        self.open.contains_key(&exchange.id)
    }

    pub fn was_dropped(&self, exchange: &Exchange) -> bool {
        self.dropped.contains(&exchange.id)
    }

    /// Advances the time, stopping at each deadline.
    pub fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut still = 0;
        let mut steps = Steps::until("no deadline is left within the time to wait");
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            steps.step();
            still = if deadline > self.now { 0 } else { still + 1 };
            assert!(still < 100, "the deadline does not advance");
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            self.collect();
        }
        self.now = end;
        self.session.handle_timeout(self.now);
        self.collect();
    }

    /// Advances the time while the server answers.
    pub fn wait_and_serve(&mut self, duration: Duration, site: &mut Site) {
        let end = self.now + duration;
        let mut steps = Steps::until("no deadline is left within the time to wait");
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            steps.step();
            self.wait(deadline.since(self.now));
            self.serve(site);
        }
        self.wait(end.since(self.now));
        self.serve(site);
    }

    /// The exchanges requested since the last call, without those that were dropped.
    pub fn take(&mut self) -> Vec<Exchange> {
        std::mem::take(&mut self.untaken).iter().filter_map(|id| self.open.get(id).cloned()).collect()
    }

    /// The one exchange requested since the last call.
    pub fn take_one(&mut self) -> Exchange {
        let mut taken = self.take();
        let names: Vec<_> = taken.iter().map(Exchange::name).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        taken.remove(0)
    }

    /// The one exchange requested since the last call, which has this name.
    pub fn take_named(&mut self, name: &str) -> Exchange {
        let exchange = self.take_one();
        assert_eq!(exchange.name(), name);
        exchange
    }

    pub fn take_names(&mut self) -> Vec<String> {
        self.take().iter().map(Exchange::name).collect()
    }

    /// The names of all exchanges that the client requested.
    pub fn names(&self) -> Vec<String> {
        self.log.iter().map(Exchange::name).collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.log.iter().filter(|exchange| exchange.is(name)).count()
    }

    /// The newest exchange of this name.
    pub fn last(&self, name: &str) -> Exchange {
        self.log.iter().rev().find(|exchange| exchange.is(name)).expect(name).clone()
    }

    /// Answers requests until there are none left.
    pub fn serve(&mut self, site: &mut Site) {
        for _ in 0..10_000 {
            let Some(id) = self.untaken.pop_front() else { return };
            let Some(exchange) = self.open.get(&id).cloned() else { continue };
            let reply = site.reply(&exchange);
            self.reply(&exchange, reply);
        }
        panic!("server and client never become idle");
    }

    /// Calls the tool of this name. Returns the call and its exchange.
    pub fn call(&mut self, tool: &str) -> (RequestId, Exchange) {
        let request = self.request(Request::call_tool(tool, None));
        (request, self.take_named("tools/call"))
    }

    pub fn request(&mut self, request: Request) -> RequestId {
        let request = self.session.request(self.now, request).unwrap();
        self.collect();
        request
    }

    /// The name of the outcome's variant; `open` while the request has not ended.
    pub fn outcome(&self, request: RequestId) -> String {
        let text = self.ended(request).map_or("open".into(), |outcome| format!("{outcome:?}"));
        text.split(['(', ' ']).next().unwrap().into()
    }

    client_getters!();
}

/// What every request must contain (specification, "Streamable HTTP", Sending Messages).
fn check(exchange: &Exchange) {
    let accept = exchange.header(ACCEPT.as_str()).unwrap_or_default();
    match exchange.verb() {
        "POST" => {
            let types: Vec<_> = accept.split(", ").collect();
            assert_eq!(types, ["application/json", "text/event-stream"]);
            assert_eq!(exchange.header(CONTENT_TYPE.as_str()), Some("application/json"));
            assert!(exchange.json().is_object());
        }
        "GET" => {
            assert_eq!(accept, "text/event-stream");
            assert!(exchange.body().is_empty());
        }
        verb => {
            assert_eq!(verb, "DELETE");
            assert!(exchange.body().is_empty() && exchange.header(SESSION).is_some());
        }
    }
}

type Rule = Box<dyn FnMut(&Exchange) -> Option<Reply>>;
type Change = Box<dyn FnMut(&Exchange, Reply) -> Reply>;

/// A simulated server at a URL. It is as strict as the specification allows: it rejects requests without a required
/// header.
pub struct Site {
    pub server: Server,
    /// Whether it assigns session ids.
    pub sessions: bool,
    /// The current session id.
    pub session: Option<String>,
    opened: usize,
    version: Option<String>,
    initialized: bool,
    /// Whether it has a GET stream for messages of its own.
    pub streams: bool,
    /// Whether it answers POSTs with event streams.
    pub answers_by_stream: bool,
    rules: Vec<Rule>,
    change: Option<Change>,
}

impl Site {
    /// A server of the legacy era, with session ids and a GET stream.
    pub fn legacy(capabilities: Value) -> Self {
        Self::of(Server::legacy(capabilities), true)
    }

    /// A server of the modern era.
    pub fn modern(capabilities: Value) -> Self {
        Self::of(Server::modern(capabilities), false)
    }

    pub fn of(server: Server, sessions: bool) -> Self {
        Self {
            server,
            sessions,
            session: None,
            opened: 0,
            version: None,
            initialized: false,
            streams: sessions,
            answers_by_stream: false,
            rules: vec![],
            change: None,
        }
    }

    pub fn result(mut self, method: &str, result: Value) -> Self {
        self.server = self.server.result(method, result);
        self
    }

    pub fn error(mut self, method: &str, code: i64, message: &str) -> Self {
        self.server = self.server.error(method, code, message);
        self
    }

    /// Adds a rule that precedes the default behavior; newer rules precede older ones.
    pub fn rule(mut self, rule: impl FnMut(&Exchange) -> Option<Reply> + 'static) -> Self {
        self.rules.insert(0, Box::new(rule));
        self
    }

    /// How it answers each request of this name.
    pub fn on(self, name: &'static str, mut rule: impl FnMut(&Exchange) -> Reply + 'static) -> Self {
        self.rule(move |exchange| exchange.is(name).then(|| rule(exchange)))
    }

    /// How it answers the first `times` requests of this name.
    pub fn first(
        self,
        name: &'static str,
        mut times: usize,
        mut rule: impl FnMut(&Exchange) -> Reply + 'static,
    ) -> Self {
        self.rule(move |exchange| {
            let taken = times > 0 && exchange.is(name);
            times -= usize::from(taken);
            taken.then(|| rule(exchange))
        })
    }

    /// Changes its answers to messages.
    pub fn map_replies(mut self, change: impl FnMut(&Exchange, Reply) -> Reply + 'static) -> Self {
        self.change = Some(Box::new(change));
        self
    }

    pub fn forget_session(&mut self) {
        self.session = None;
    }

    pub fn reply(&mut self, exchange: &Exchange) -> Reply {
        if let Some(reply) = self.rules.iter_mut().find_map(|rule| rule(exchange)) {
            return reply;
        }
        if let Some(refusal) = self.refusal(exchange) {
            return refusal;
        }
        match exchange.verb() {
            "GET" if self.streams => Reply::stream(""),
            "GET" => Reply::status(405),
            "DELETE" => {
                self.session = None;
                Reply::status(200)
            }
            _ => {
                let reply = self.answer(exchange);
                match &mut self.change {
                    Some(change) => change(exchange, reply),
                    None => reply,
                }
            }
        }
    }

    fn refusal(&mut self, exchange: &Exchange) -> Option<Reply> {
        if exchange.is("initialize") {
            assert_eq!((exchange.header(SESSION), exchange.header(VERSION)), (None, None));
            return None;
        }
        if self.sessions {
            if exchange.header(SESSION).is_none() {
                return Some(Reply::text(400, "Mcp-Session-Id header is required"));
            }
            if exchange.header(SESSION) != self.session.as_deref() {
                return Some(Reply::status(404));
            }
            self.initialized |= exchange.is("notifications/initialized");
            // The client sends no version before it has read the response to `initialize`.
            let early = exchange.header(VERSION).is_none() && !self.initialized;
            let version = exchange.header(VERSION);
            assert!(early || version == self.version.as_deref(), "{version:?} of {}", exchange.name());
            return None;
        }
        if exchange.verb() != "POST" {
            return None;
        }
        let message = exchange.json();
        let params = &message["params"];
        if let Some(version) = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str() {
            assert_eq!(exchange.header(VERSION), Some(version));
            assert_eq!(exchange.header("mcp-method"), message["method"].as_str());
            let name = match &*exchange.name() {
                "tools/call" | "prompts/get" => params["name"].as_str(),
                "resources/read" => params["uri"].as_str(),
                "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
                _ => None,
            };
            // Other than ASCII characters are encoded in the header.
            if name.is_none_or(str::is_ascii) {
                assert_eq!(exchange.header("mcp-name"), name);
            }
            assert_eq!((exchange.header(SESSION), exchange.header(LAST_ID)), (None, None));
        }
        None
    }

    fn answer(&mut self, exchange: &Exchange) -> Reply {
        let message = exchange.json();
        let mut answers = self.server.answer(&message);
        let Some(answer) = answers.pop() else { return Reply::status(202) };
        let is_answer = answer.get("id").is_some();
        let mut reply = match (is_answer, self.answers_by_stream) {
            (true, false) => Reply::json(200, &answer),
            (true, true) => Reply::events(std::slice::from_ref(&answer)),
            (false, _) => Reply::events(std::slice::from_ref(&answer)).unfinished(),
        };
        if exchange.is("initialize") && self.sessions {
            self.opened += 1;
            let id = format!("session-{}", self.opened);
            reply = reply.with(SESSION, &id);
            self.session = Some(id);
            self.initialized = false;
            self.version = answer["result"]["protocolVersion"].as_str().map(Into::into);
        }
        reply
    }
}

/// A legacy server with one tool, session ids and a GET stream.
pub fn site() -> Site {
    let content = json!({"content": []});
    Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", content)
}

/// A modern server with one tool.
pub fn modern_site() -> Site {
    let content = json!({"resultType": "complete", "content": []});
    Site::modern(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", content)
}

pub fn tool(name: &str) -> Request {
    Request::call_tool(name, None)
}

pub fn was_answered(web: &Web, request: RequestId) -> bool {
    matches!(web.ended(request), Some(Outcome::Result(_)))
}

/// The value as raw JSON.
pub fn raw(value: &Value) -> Box<mcp_proto::RawValue> {
    to_raw_value(value).unwrap()
}
