//! Property: over HTTP, no tool call that must not run twice does so, whatever statuses, bodies and error texts the
//! server sends, and every request ends once.
//!
//! The server of these tests counts the calls that ran. A POST counts when it is sent, unless the response shows that
//! it did not run: by its status (a redirect, 401, 403, 429, 404 for a session, 400 or 503 with
//! an error that names the transport's session, 400 for headers), or the server was unreachable. Everything else may
//! have run: success statuses with any error, other refusals, exchanges that break, hang or are dropped.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{legacy, millis, options, reconnecting, seconds, tools};
use crate::web::{Exchange, Reply, SESSION, Site, URL, Web, raw};
use http::StatusCode;
use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::{Event, Outcome, Request, RequestError, RequestId};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

/// A call that may run more than once may be sent twice more.
const RUNS: i32 = 3;

/// The text of an error or a body.
#[derive(Clone, Debug)]
enum Text {
    /// Texts with which transports report an unknown session.
    Known(String),
    /// Other texts that name the transport's session.
    Names(&'static str),
    /// Texts of tools, also about their own sessions.
    Own(String),
}

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Self::Names(text) => text,
            Self::Known(text) | Self::Own(text) => text,
        }
    }

    const fn names_the_session(&self) -> bool {
        matches!(self, Self::Known(_) | Self::Names(_))
    }
}

fn text() -> BoxedStrategy<Text> {
    let known = prop_oneof![
        Just("Session not found"),
        Just("Invalid session ID"),
        Just("No valid session ID provided"),
        Just("Server not initialized"),
    ];
    let known = (prop_oneof![Just(""), Just("Bad Request: ")], known, prop_oneof![Just(""), Just(" or expired")]);
    let names = prop_oneof![
        Just("Mcp-Session-Id header is required"),
        Just("Session expired"),
        Just("session not found on this node"),
        Just("Session not found: abc"),
    ];
    let own = prop_oneof![
        Just("Browser session not found: abc"),
        Just("Payment declined: invalid session token"),
        Just("Browser not initialized"),
        Just("Database server not initialized"),
        Just("The shop's session not found"),
        Just("Already initialized"),
        Just("Header mismatch"),
        Just("overloaded"),
        Just("Session 7 of the workshop is full; your card was charged"),
        Just("Session store unavailable after commit"),
        Just("Service unavailable: session for customer 7 closed after payment"),
        Just(""),
    ];
    let word = prop_oneof![
        Just("session"),
        Just("Session"),
        Just("ID"),
        Just("not"),
        Just("found"),
        Just("initialized"),
        Just("expired"),
        Just("invalid"),
        Just("Bad Request:"),
        Just("server"),
        Just("already"),
        Just("or"),
    ];
    // The first word says that the text is about the tool.
    let first = prop_oneof![Just("browser"), Just("payment"), Just("kernel:"), Just("\u{30d6}\u{30e9}"), Just("x")];
    let near = (first, prop::collection::vec(word, 0..6));
    prop_oneof![
        3 => known.prop_map(|(prefix, text, suffix)| Text::Known(format!("{prefix}{text}{suffix}"))),
        2 => names.prop_map(Text::Names),
        3 => own.prop_map(|text| Text::Own(text.into())),
        3 => near.prop_map(|(first, rest)| Text::Own(format!("{first} {}", rest.join(" ")))),
        1 => "x\\PC{0,30}".prop_map(Text::Own),
    ]
    .boxed()
}

/// Whose id an error has.
#[derive(Clone, Copy, Debug)]
enum Id {
    Own,
    Null,
    Foreign,
}

#[derive(Clone, Debug)]
enum Body {
    Empty,
    Html,
    Result,
    Text(Text),
    /// JSON that is not JSON-RPC.
    Object(Text),
    Error(i64, Text, Id),
    /// A response of a modern server that requests input.
    InputRequired,
    /// The beginning of a stream that can be resumed.
    Resumable,
}

fn body() -> BoxedStrategy<Body> {
    let code = prop_oneof![
        3 => prop_oneof![Just(-32000), Just(-32001), Just(-32600)],
        2 => prop_oneof![Just(-32601), Just(-32602), Just(-32603), Just(-32002), Just(-32003)],
        3 => prop_oneof![3 => Just(-32020), 1 => Just(-32021), 1 => Just(-32022)],
        1 => any::<i32>().prop_map(i64::from),
    ];
    let id = prop_oneof![3 => Just(Id::Own), 1 => Just(Id::Null), 1 => Just(Id::Foreign)];
    prop_oneof![
        1 => Just(Body::Empty),
        1 => Just(Body::Html),
        3 => Just(Body::Result),
        2 => text().prop_map(Body::Text),
        1 => text().prop_map(Body::Object),
        8 => (code, text(), id).prop_map(|(code, text, id)| Body::Error(code, text, id)),
        1 => Just(Body::InputRequired),
        2 => Just(Body::Resumable),
    ]
    .boxed()
}

/// How a response ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Whole,
    /// The connection ends or breaks after this percentage.
    Cut(usize),
    Reset(usize),
    Never,
}

/// What the server does with an exchange.
#[derive(Clone, Debug)]
enum Reaction {
    /// A correct response.
    Good,
    Answer {
        status: u16,
        body: Body,
        by_event: bool,
        end: End,
        retry_after: Option<&'static str>,
        challenge: bool,
    },
    /// To the same origin, or another one.
    Redirect(u16, bool),
    Reset,
    Unreachable,
}

fn reaction() -> BoxedStrategy<Reaction> {
    let status = prop_oneof![
        8 => prop_oneof![Just(200), Just(201), Just(202), Just(204)],
        4 => prop_oneof![Just(400), Just(404), Just(503)],
        2 => prop_oneof![Just(401), Just(403), Just(429)],
        3 => prop_oneof![Just(500), Just(502), Just(504)],
        2 => prop_oneof![Just(301), Just(405), Just(409), Just(410), Just(422)],
    ];
    let end = prop_oneof![
        6 => Just(End::Whole),
        1 => (0..100_usize).prop_map(End::Cut),
        1 => (0..100_usize).prop_map(End::Reset),
        1 => Just(End::Never),
    ];
    let retry_after = prop_oneof![
        3 => Just(None),
        1 => Just(Some("0")),
        1 => Just(Some("1")),
        1 => Just(Some("")),
        1 => Just(Some("Wed, 21 Oct 2026 07:28:00 GMT")),
    ];
    let answer = (status, body(), any::<bool>(), end, retry_after, any::<bool>()).prop_map(
        |(status, body, by_event, end, retry_after, challenge)| Reaction::Answer {
            status,
            body,
            by_event,
            end,
            retry_after,
            challenge,
        },
    );
    prop_oneof![
        3 => Just(Reaction::Good),
        16 => answer,
        1 => (prop_oneof![Just(307), Just(308)], prop::bool::weighted(0.9)).prop_map(|(status, same)| Reaction::Redirect(status, same)),
        1 => Just(Reaction::Reset),
        1 => Just(Reaction::Unreachable),
    ]
    .boxed()
}

#[derive(Clone, Debug)]
enum Op {
    /// A tool call, with or without permission to run again, or a read-only request.
    Call(Option<bool>),
    Read,
    /// The server reacts to one exchange of the embedder's requests.
    React(u8, Reaction),
    /// The server reacts to one exchange of the engine.
    Engine(u8, Reaction),
    /// All exchanges of the engine are answered.
    Serve,
    Wait(u64),
    Cancel(u8),
    Authorized,
    Provide,
    /// The server loses its session.
    Forget,
    /// The GET stream ends.
    EndStream,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop_oneof![4 => Just(None), 1 => Just(Some(false)), 1 => Just(Some(true))].prop_map(Op::Call),
        1 => Just(Op::Read),
        12 => (any::<u8>(), reaction()).prop_map(|(which, reaction)| Op::React(which, reaction)),
        1 => (any::<u8>(), reaction()).prop_map(|(which, reaction)| Op::Engine(which, reaction)),
        8 => Just(Op::Serve),
        4 => prop_oneof![Just(100), Just(1000), Just(1500), Just(20_000)].prop_map(Op::Wait),
        1 => any::<u8>().prop_map(Op::Cancel),
        2 => Just(Op::Authorized),
        1 => Just(Op::Provide),
        1 => Just(Op::Forget),
        1 => Just(Op::EndStream),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Legacy,
    Modern,
    Older,
}

struct World {
    kind: Kind,
    web: Web,
    site: Site,
    /// The number of exchanges that were examined.
    seen: usize,
    accepted: Vec<RequestId>,
    /// How often each call may run, by its argument.
    permitted: Vec<i32>,
    /// How often each call ran or may have run.
    ran: BTreeMap<usize, i32>,
    /// The request ids so far, and those in redirected requests.
    ids: BTreeSet<u64>,
    redirected: BTreeSet<u64>,
    /// The last message of each request of the embedder.
    posted: BTreeMap<RequestId, Value>,
    /// The exchanges that the server reacted to.
    answered: BTreeSet<ExchangeId>,
    /// The stream of HTTP with SSE.
    stream: Option<ExchangeId>,
}

impl World {
    fn new(kind: Kind, again: bool, parallel: bool) -> Self {
        let mut options = if kind == Kind::Modern { options() } else { legacy() };
        if again {
            options = reconnecting(options);
        }
        options.parallel_tool_calls = parallel;
        options.capabilities.elicitation = true;
        let capabilities = json!({"tools": {}, "resources": {}});
        let site = if kind == Kind::Modern { Site::modern(capabilities) } else { Site::legacy(capabilities) };
        let site = site
            .result("tools/list", tools(&["a"]))
            .result("resources/list", json!({"resources": []}))
            .result("resources/templates/list", json!({"resourceTemplates": []}))
            .result("resources/read", json!({"contents": []}))
            .result("tools/call", json!({"content": []}));
        let mut world = Self {
            kind,
            web: Web::open(options),
            site,
            seen: 0,
            accepted: vec![],
            permitted: vec![],
            ran: BTreeMap::new(),
            ids: BTreeSet::new(),
            redirected: BTreeSet::new(),
            posted: BTreeMap::new(),
            answered: BTreeSet::new(),
            stream: None,
        };
        world.look();
        world.serve();
        assert!(world.web.is_ready(), "{:?}", world.web.failure());
        world
    }

    /// Polls, and counts the calls that run.
    fn look(&mut self) {
        self.web.collect_lenient();
        for exchange in self.web.log.iter().skip(self.seen) {
            self.seen += 1;
            if exchange.verb() != "POST" || exchange.is("(answer)") {
                continue;
            }
            let message = exchange.json();
            if let Some(id) = message["id"].as_u64() {
                let fresh = self.ids.insert(id) || self.redirected.remove(&id);
                assert!(fresh, "the id {id} was used twice");
            }
            if let Some(of) = exchange.of.filter(|_| message["id"].is_u64()) {
                self.posted.insert(of, message.clone());
            }
            if exchange.is("tools/call") {
                let number = argument(&message);
                let ran = self.ran.entry(number).or_default();
                *ran += 1;
                assert!(*ran <= self.permitted[number], "call {number} is sent again, though it may have run");
            }
        }
    }

    /// The exchanges without a reaction, of the embedder's requests or of the engine.
    fn pending(&self, of_requests: bool) -> Vec<Exchange> {
        let is_request =
            |exchange: &Exchange| exchange.of.is_some() && (exchange.verb() == "GET" || exchange.json()["id"].is_u64());
        let pending = self.web.open.values().filter(|exchange| !self.answered.contains(&exchange.id));
        pending.filter(|exchange| is_request(exchange) == of_requests).cloned().collect()
    }

    fn serve(&mut self) {
        for _ in 0..100 {
            let pending = self.pending(false);
            if pending.is_empty() {
                return;
            }
            for exchange in pending {
                if self.web.is_open(&exchange) {
                    self.react(&exchange, &Reaction::Good);
                }
            }
        }
        panic!("server and client never become idle");
    }

    /// Delivers a response, until the client drops the exchange.
    fn feed(&mut self, exchange: &Exchange, reply: &Reply, end: End) {
        let (web, id) = (&mut self.web, exchange.id);
        let status = StatusCode::from_u16(reply.status).unwrap();
        let body = match end {
            End::Whole | End::Never => &reply.body[..],
            End::Cut(part) | End::Reset(part) => &reply.body[..reply.body.len() * part / 100],
        };
        // A truncated response is recognized by its length, which all responses except streams have.
        let mut headers = reply.header_map();
        if reply.ends {
            headers.insert(http::header::CONTENT_LENGTH, reply.body.len().into());
        }
        web.session.handle_head(web.now, id, status, &headers);
        web.session.handle_body(web.now, id, body);
        match end {
            End::Never => {}
            End::Reset(_) => {
                web.session.handle_failure(web.now, id, Broken::Midway, "reset");
                web.open.remove(&id);
            }
            End::Whole | End::Cut(_) if reply.ends => {
                web.session.handle_end(web.now, id);
                web.open.remove(&id);
            }
            End::Whole | End::Cut(_) => {}
        }
        self.look();
    }

    fn react(&mut self, exchange: &Exchange, reaction: &Reaction) {
        self.answered.insert(exchange.id);
        if exchange.is("tools/call") && self.did_not_run(exchange, reaction) {
            *self.ran.get_mut(&argument(&exchange.json())).unwrap() -= 1;
        }
        match reaction {
            Reaction::Good => self.answer_correctly(exchange),
            Reaction::Answer { status, body, by_event, end, retry_after, challenge } => {
                let (kind, text) = self.body(exchange, body, *by_event);
                let mut reply = Reply::status(*status).body(kind, text);
                if let Some(wait) = retry_after {
                    reply = reply.with("retry-after", wait);
                }
                if *challenge {
                    reply = reply.with("www-authenticate", "Bearer");
                }
                self.give(exchange, &reply, *end);
            }
            Reaction::Redirect(status, same) => {
                if exchange.verb() == "POST" {
                    self.redirected.extend(exchange.json()["id"].as_u64());
                }
                let moved = format!("{}x", exchange.url());
                let location = if *same { &*moved } else { "https://elsewhere.example/" };
                self.feed(exchange, &Reply::status(*status).with("location", location), End::Whole);
            }
            Reaction::Reset | Reaction::Unreachable => {
                let unreachable = matches!(reaction, Reaction::Unreachable);
                let broken = if unreachable { Broken::Unreachable } else { Broken::Midway };
                self.web.session.handle_failure(self.web.now, exchange.id, broken, "broken");
                self.web.open.remove(&exchange.id);
                self.look();
            }
        }
    }

    /// Sends a response; over HTTP with SSE, a correct one comes on the stream.
    fn give(&mut self, exchange: &Exchange, reply: &Reply, end: End) {
        let older = self.kind == Kind::Older && exchange.verb() == "POST" && exchange.url() != URL;
        if !older || !(200..300).contains(&reply.status) {
            return self.feed(exchange, reply, end);
        }
        self.feed(exchange, &Reply::status(202), End::Whole);
        if let Some(stream) = self.stream.filter(|stream| self.web.open.contains_key(stream)) {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            let text = if text.contains("data:") { text } else { format!("data: {text}\n\n") };
            self.web.session.handle_body(self.web.now, stream, text.as_bytes());
            self.look();
        }
    }

    /// Answers correctly.
    fn answer_correctly(&mut self, exchange: &Exchange) {
        let older = self.kind == Kind::Older;
        match exchange.verb() {
            "GET" if older => {
                self.stream = Some(exchange.id);
                self.feed(exchange, &Reply::stream("event: endpoint\ndata: /messages\n\n"), End::Whole);
            }
            "GET" if exchange.of.is_some() => {
                let (kind, text) = self.body(exchange, &Body::Result, true);
                self.feed(exchange, &Reply::status(200).body(kind, text), End::Whole);
            }
            "POST" if older && exchange.url() == URL => self.feed(exchange, &Reply::status(405), End::Whole),
            "POST" if older => {
                let answer = self.site.server.answer(&exchange.json()).pop();
                let reply = answer.map_or(Reply::status(202), |answer| Reply::json(200, &answer));
                self.give(exchange, &reply, End::Whole);
            }
            _ => {
                let reply = self.site.reply(exchange);
                if exchange.is("tools/call") && reply.status == 404 {
                    // It was sent in a session that the server has lost.
                    *self.ran.get_mut(&argument(&exchange.json())).unwrap() -= 1;
                }
                self.feed(exchange, &reply, End::Whole);
            }
        }
    }

    fn body(&self, exchange: &Exchange, body: &Body, by_event: bool) -> (&'static str, String) {
        let asked = match exchange.of.and_then(|of| self.posted.get(&of)) {
            Some(message) => message["id"].clone(),
            None if exchange.verb() == "POST" => exchange.json()["id"].clone(),
            None => Value::Null,
        };
        let answer = |member: &str, value: Value, id: Value| json!({"jsonrpc": "2.0", "id": id, member: value});
        let message = match body {
            Body::Empty => return ("text/event-stream", String::new()),
            Body::Html => return ("text/html", "<!doctype html><p>Session not found</p>".into()),
            Body::Text(text) => return ("text/plain", text.as_str().into()),
            Body::Object(text) => return ("application/json", json!({"error": text.as_str()}).to_string()),
            Body::Resumable => return ("text/event-stream", "id: 7\nretry: 500\ndata:\n\n".into()),
            Body::Result => answer("result", json!({"content": [], "contents": []}), asked),
            Body::Error(code, text, id) => {
                let id = match id {
                    Id::Own => asked,
                    Id::Null => Value::Null,
                    Id::Foreign => json!("server-error"),
                };
                answer("error", json!({"code": code, "message": text.as_str()}), id)
            }
            Body::InputRequired => {
                let wanted = json!({"q": {"method": "elicitation/create", "params": {"message": "?"}}});
                answer("result", json!({"resultType": "input_required", "inputRequests": wanted}), asked)
            }
        };
        if by_event {
            ("text/event-stream", crate::web::events(&[message]))
        } else {
            ("application/json", message.to_string())
        }
    }

    /// Whether a reaction shows that the POST of a call did not run.
    fn did_not_run(&self, exchange: &Exchange, reaction: &Reaction) -> bool {
        let Reaction::Answer { status, body, end, .. } = reaction else {
            return matches!(reaction, Reaction::Unreachable | Reaction::Redirect(..));
        };
        let held = exchange.header(SESSION).is_some();
        let (code, text) = match body {
            Body::Error(code, text, _) => (Some(*code), Some(text)),
            Body::Text(text) | Body::Object(text) => (None, Some(text)),
            Body::Empty | Body::Html | Body::Result | Body::InputRequired | Body::Resumable => (None, None),
        };
        let modern = self.kind == Kind::Modern;
        match status {
            401 | 403 | 429 => true,
            404 if held => true,
            400 | 503 if held && text.is_some_and(Text::names_the_session) => true,
            // The version or the era was refused, or the method.
            400..500 if matches!(code, Some(-32020 | -32021 | -32022 | -32601)) => true,
            200..300 => modern && matches!((body, end), (Body::InputRequired, End::Whole | End::Never)),
            _ => false,
        }
    }

    /// An error with a success status ends its call. A text of the tool has no other effect.
    fn react_and_check(&mut self, exchange: &Exchange, reaction: &Reaction) {
        let told = match reaction {
            Reaction::Answer { status: 200..300, body: Body::Error(code, text, Id::Own), end: End::Whole, .. } => {
                Some((*code, text))
            }
            _ => None,
        };
        let streaming =
            self.kind != Kind::Older || self.stream.is_some_and(|stream| self.web.open.contains_key(&stream));
        let told = told.filter(|_| exchange.is("tools/call") && streaming);
        let downs = self.downs();
        self.react(exchange, reaction);
        let Some((code, text)) = told else { return };
        let once = self.permitted[argument(&exchange.json())] == 1;
        if once {
            let outcome = self.web.ended(exchange.of.unwrap());
            let Some(Outcome::Error(RequestError::Server(error))) = outcome else {
                panic!("{text:?} ended as {outcome:?}")
            };
            assert_eq!((error.code, &*error.message), (code, text.as_str()));
        }
        if !matches!(text, Text::Known(_)) {
            assert_eq!(self.downs(), downs, "{text:?} cost the session");
        }
    }

    fn downs(&self) -> usize {
        self.web.events.iter().filter(|event| matches!(event, Event::Down { .. })).count()
    }

    fn want(&mut self, request: Request) {
        let accepted = self.web.session.request(self.web.now, request.timeout(seconds(30)));
        self.accepted.extend(accepted);
        self.look();
    }

    fn wait(&mut self, duration: u64) {
        self.web.wait(millis(duration));
        self.look();
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Call(replay) => {
                let number = self.permitted.len();
                self.permitted.push(if *replay == Some(true) { RUNS } else { 1 });
                let request = Request::call_tool("a", Some(&raw(&json!({"number": number}))));
                self.want(match replay {
                    Some(allowed) => request.replay(*allowed),
                    None => request,
                });
            }
            Op::Read => self.want(Request::read_resource("x:1")),
            Op::React(which, reaction) => {
                let pending = self.pending(true);
                if let Some(at) = usize::from(*which).checked_rem(pending.len()) {
                    self.react_and_check(&pending[at], reaction);
                }
            }
            Op::Engine(which, reaction) => {
                let pending = self.pending(false);
                if let Some(at) = usize::from(*which).checked_rem(pending.len()) {
                    self.react(&pending[at], reaction);
                }
            }
            Op::Serve => self.serve(),
            Op::Wait(duration) => self.wait(*duration),
            Op::Cancel(which) => {
                if let Some(at) = usize::from(*which).checked_rem(self.accepted.len()) {
                    let _ = self.web.session.cancel(self.web.now, self.accepted[at]);
                    self.look();
                }
            }
            Op::Authorized => {
                let _ = self.web.session.authorized(self.web.now);
                self.look();
            }
            Op::Provide => {
                let result = raw(&json!({"action": "accept", "content": {}}));
                for request in self.accepted.clone() {
                    let _ = self.web.session.provide(self.web.now, request, [("q", &*result)]);
                }
                self.look();
            }
            Op::Forget => self.site.forget_session(),
            Op::EndStream => {
                let stream = self.web.open.values().find(|it| it.verb() == "GET" && it.of.is_none()).cloned();
                if let Some(stream) = stream {
                    self.react(&stream, &Reaction::Reset);
                }
            }
        }
    }

    /// Answers everything until each request has ended, and closes the client.
    fn finish(mut self) {
        for _ in 0..40 {
            for op in [Op::Authorized, Op::Provide, Op::Serve] {
                self.apply(&op);
            }
            for exchange in self.pending(true) {
                if self.web.is_open(&exchange) {
                    self.react(&exchange, &Reaction::Good);
                }
            }
            self.wait(1000);
        }
        self.wait(1_000_000);
        for request in &self.accepted {
            assert!(self.web.ended(*request).is_some(), "{request:?} did not end");
        }
        let _ = self.web.session.close(self.web.now);
        self.look();
        self.wait(100_000);
        assert!(self.web.session.is_closed() && self.web.open.is_empty());
        let ended = self.web.events.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        assert_eq!(ended, self.accepted.len(), "each request ends once");
    }
}

/// The argument that identifies a call.
fn argument(message: &Value) -> usize {
    usize::try_from(message["params"]["arguments"]["number"].as_u64().unwrap()).unwrap()
}

fn run(kind: Kind, again: bool, parallel: bool, ops: &[Op]) {
    let mut world = World::new(kind, again, parallel);
    for op in ops {
        world.apply(op);
    }
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/http_replay.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_call_that_may_have_run_is_sent_again(
        kind in prop_oneof![3 => Just(Kind::Legacy), 2 => Just(Kind::Modern), 1 => Just(Kind::Older)],
        again in any::<bool>(),
        parallel in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        run(kind, again, parallel, &ops);
    }
}
