//! Properties of a client over HTTP: any input, in any order, cut in any way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::tools;
use crate::web::{Exchange, Reply, SESSION, Site, URL, Web, header_map, raw};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction, HttpRequest};
use mcp_proto::testkit::Spelling;
use mcp_proto::{
    Client, CommandError, Eras, Event, Family, Http, Options, Outcome, ProtocolVersion, Reconnect, Recovery, Request,
    RequestId, ServerRequestId, Time,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/http_laws.txt"))),
        ..ProptestConfig::default()
    }
}

// Chunks.

/// The form of a server's response.
#[derive(Clone, Copy, Debug)]
enum Flavour {
    Json,
    /// JSON after white space or a byte order mark.
    JsonAfter(&'static str),
    /// JSON labelled as a stream, or without a content type.
    JsonAs(Option<&'static str>),
    /// A stream with this line ending.
    Stream(&'static str),
    /// A stream after a byte order mark, labelled as JSON.
    StreamAsJson,
    /// A stream with a comment, an id, a retry time, an event of another type and a server request before the response.
    Chatty,
    /// A stream whose last event has an id, and which ends after it.
    Resumable,
    /// This percentage of the response; then the connection breaks.
    CutOff(bool, usize),
    Refused(u16, &'static str),
    /// An error without an id, with this status.
    ErrorWithoutId(u16),
    Expired,
    Html,
    /// As JSON, and sets a cookie.
    Cookie(&'static str),
    /// In a coding that nobody decodes.
    Encoded,
    /// Redirected to another origin, with a cookie.
    Elsewhere,
    Empty,
}

fn response_form() -> impl Strategy<Value = Flavour> {
    let before = prop_oneof![Just("\u{feff}"), Just("\r\n\t "), Just("\u{feff}\n"), Just(" ")];
    let label = prop_oneof![Just(None), Just(Some("text/event-stream")), Just(Some("text/plain"))];
    let refusals = prop_oneof![
        Just((400, "Bad Request")),
        Just((400, "no valid session")),
        Just((404, "{\"jsonrpc\": \"2.0\", \"id\": null, \"error\": {\"code\": -32601, \"message\": \"what?\"}}")),
        Just((500, "\u{e9}\u{1f642}")),
    ];
    let cookie = prop::sample::select(vec![
        "node=hush",
        "node=hush; Path=/; Max-Age=1",
        "other=hush; Path=/messages; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "other=hush; Domain=elsewhere.example",
        "; =;;Path",
    ]);
    prop_oneof![
        8 => Just(Flavour::Json),
        2 => before.prop_map(Flavour::JsonAfter),
        2 => label.prop_map(Flavour::JsonAs),
        4 => prop_oneof![Just("\n"), Just("\r\n"), Just("\r")].prop_map(Flavour::Stream),
        1 => Just(Flavour::StreamAsJson),
        4 => Just(Flavour::Chatty),
        2 => Just(Flavour::Resumable),
        1 => (any::<bool>(), 0..100_usize).prop_map(|(by_stream, part)| Flavour::CutOff(by_stream, part)),
        1 => refusals.prop_map(|(status, text)| Flavour::Refused(status, text)),
        1 => prop_oneof![Just(200), Just(400)].prop_map(Flavour::ErrorWithoutId),
        1 => Just(Flavour::Expired),
        1 => Just(Flavour::Html),
        4 => cookie.prop_map(Flavour::Cookie),
        1 => Just(Flavour::Encoded),
        1 => Just(Flavour::Elsewhere),
        1 => Just(Flavour::Empty),
    ]
}

/// Changes a response to this form; also returns whether the connection breaks.
fn in_form(response_form: Flavour, exchange: &Exchange, reply: Reply) -> (Reply, bool) {
    let text = String::from_utf8(reply.body.clone()).unwrap();
    let message = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "\u{fc}ber"}});
    let stream = |text: String| {
        let mut stream = reply.clone().body("text/event-stream", text);
        stream.ends = reply.ends;
        stream
    };
    let in_form = match response_form {
        Flavour::Json => reply,
        Flavour::JsonAfter(before) => reply.body("application/json", format!("{before}{text}")),
        Flavour::JsonAs(Some(label)) => reply.with("content-type", label),
        Flavour::JsonAs(None) => reply.without("content-type"),
        Flavour::Stream(end) => {
            stream(format!("event: message{end}id: {}{end}data: {text}{end}{end}", exchange.json()["id"]))
        }
        Flavour::StreamAsJson => stream(format!("\u{feff}data: {text}\n\n")).with("content-type", "application/json"),
        Flavour::Chatty => {
            let ping = json!({"jsonrpc": "2.0", "id": exchange.json()["id"], "method": "ping"});
            let log = json!({"level": "info", "data": "\u{65e5}\u{672c}"});
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log});
            let before = ": comment\r\n\r\nid: 1\nretry: 250\ndata:\n\nevent: ping\ndata: {}\n\n";
            stream(format!("{before}data: {ping}\r\n\r\ndata: {log}\r\rdata: {text}\nid: 2\n\n: end\n"))
        }
        Flavour::Resumable => stream("retry: 300\nid: 7\ndata:\n\n".into()),
        Flavour::CutOff(by_stream, part) => {
            let text = if by_stream { format!("id: 3\ndata: {text}\n\n") } else { text };
            let end = text.len() * part / 100;
            let kind = if by_stream { "text/event-stream" } else { "application/json" };
            return (reply.body(kind, text.into_bytes()[..end].to_vec()), true);
        }
        Flavour::Refused(status, text) => Reply::text(status, text),
        Flavour::ErrorWithoutId(status) => Reply::json(status, &message),
        Flavour::Expired => Reply::json(404, &message),
        Flavour::Cookie(cookie) => reply.with("set-cookie", cookie),
        Flavour::Encoded => reply.with("content-encoding", "br"),
        Flavour::Elsewhere => Reply::status(307)
            .with("location", "https://elsewhere.example/mcp")
            .with("set-cookie", "node=hush; Domain=example"),
        Flavour::Html => reply.body("text/html", "<!doctype html>\n<html></html>"),
        Flavour::Empty => reply.body("text/event-stream", ""),
    };
    (in_form, false)
}

/// How a body is cut, and whether the client is polled between the chunks.
#[derive(Clone, Debug)]
struct Pieces {
    sizes: Vec<usize>,
    poll: bool,
}

impl Pieces {
    fn whole() -> Self {
        Self { sizes: vec![usize::MAX], poll: false }
    }

    fn feed(&self, web: &mut Web, id: ExchangeId, mut body: &[u8]) {
        let mut sizes = self.sizes.iter().cycle();
        while !body.is_empty() && (!self.poll || web.open.contains_key(&id)) {
            let (piece, rest) = body.split_at((*sizes.next().unwrap()).min(body.len()));
            web.session.handle_body(web.now, id, piece);
            body = rest;
            if self.poll {
                web.collect();
            }
        }
    }
}

/// The kind of server.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Legacy,
    Modern,
    Older,
}

fn a_site(kind: Kind) -> Site {
    let tools = tools(&["a", "\u{65e5}\u{672c}"]);
    let content = json!({"content": [{"type": "text", "text": "\u{1f642} line\nbreak"}]});
    let capabilities = json!({"tools": {}, "resources": {}});
    let site = match kind {
        Kind::Legacy | Kind::Older => Site::legacy(capabilities),
        Kind::Modern => Site::modern(capabilities),
    };
    site.result("tools/list", tools)
        .result("resources/list", json!({"resources": [{"uri": "x:\u{e9}", "name": "x"}]}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/read", json!({"contents": []}))
        .result("tools/call", content)
}

/// The outputs and the state of a client.
#[derive(Debug, PartialEq)]
struct Outcomes {
    sent: Vec<String>,
    told: Vec<String>,
    known: Vec<String>,
}

struct Play {
    web: Web,
    site: Site,
    kind: Kind,
    forms: Vec<Flavour>,
    answered: usize,
    stream: Option<ExchangeId>,
}

impl Play {
    fn run(kind: Kind, forms: Vec<Flavour>, pieces: &Pieces) -> Outcomes {
        let mut options = Options::new("laws", "1");
        options.keepalive = None;
        options.eras = if matches!(kind, Kind::Older) { Eras::LegacyOnly } else { Eras::Auto };
        let web = Web::open(options);
        let mut play = Self { web, site: a_site(kind), kind, forms, answered: 0, stream: None };
        play.serve(pieces);
        for request in
            [Request::call_tool("a", None), Request::read_resource("x:\u{e9}"), Request::call_tool("a", None)]
        {
            // A session that failed for good refuses commands.
            let _ = play.web.session.request(play.web.now, request);
            play.web.collect();
            play.serve(pieces);
            for _ in 0..8 {
                play.web.wait(Duration::from_millis(500));
                play.serve(pieces);
            }
        }
        let _ = play.web.session.close(play.web.now);
        play.web.collect();
        play.serve(pieces);
        play.web.wait(Duration::from_secs(60));
        let web = &play.web;
        assert!(web.session.is_closed() && web.open.is_empty());
        // No cookie leaves its origin, and none is shown.
        for exchange in web.log.iter().filter(|it| it.header("cookie").is_some()) {
            assert!(exchange.url().starts_with("https://example.com/"), "{}", exchange.url());
        }
        assert!(!format!("{:?} {:?}", web.session, web.events).contains("hush"));
        let sent = |it: &Exchange| {
            // Which response came before it depends on when it was polled.
            let mut it = it.clone();
            it.request.headers_mut().remove("cookie");
            let text = String::from_utf8_lossy(it.body());
            format!("{:?} {} {} {:?} {text} at {:?}", it.of, it.verb(), it.url(), it.headers(), it.at)
        };
        let known = |family| format!("{:?}", web.session.catalog().list(family));
        Outcomes {
            sent: web.log.iter().map(sent).collect(),
            told: web.events.iter().map(|event| format!("{event:?}")).collect(),
            known: Family::ALL.iter().copied().map(known).collect(),
        }
    }

    fn serve(&mut self, pieces: &Pieces) {
        for _ in 0..200 {
            let asked = self.web.take();
            if asked.is_empty() {
                return;
            }
            for exchange in asked.iter().filter(|exchange| exchange.verb() != "GET") {
                if self.web.is_open(exchange) {
                    self.answer(exchange, pieces);
                }
            }
            for exchange in asked.iter().filter(|exchange| exchange.verb() == "GET") {
                if self.web.is_open(exchange) {
                    self.stream(exchange, pieces);
                }
            }
        }
        panic!("server and client never become idle");
    }

    fn answer(&mut self, exchange: &Exchange, pieces: &Pieces) {
        let older = matches!(self.kind, Kind::Older);
        if older && exchange.url() == URL {
            return self.give(exchange, Reply::text(405, "POST is not allowed here"), false, pieces);
        }
        let mut reply = if older {
            let answer = self.site.server.answer(&exchange.json()).pop();
            answer.map_or(Reply::status(202), |answer| Reply::json(200, &answer))
        } else {
            self.site.reply(exchange)
        };
        let is_request = exchange.verb() == "POST" && exchange.json().get("id").is_some() && !exchange.is("(answer)");
        let mut breaks = false;
        if is_request && reply.status == 200 && reply.ends {
            let response_form = self.forms[self.answered % self.forms.len()];
            self.answered += 1;
            (reply, breaks) = in_form(response_form, exchange, reply);
        }
        if !older || reply.status != 200 {
            return self.give(exchange, reply, breaks, pieces);
        }
        // Over HTTP with SSE, the response comes on the stream, if it is an event.
        self.give(exchange, Reply::text(202, "Accepted"), false, pieces);
        let events = match reply.headers.iter().find(|(name, _)| *name == "content-type") {
            Some((_, kind)) if kind == "text/event-stream" => reply.body,
            _ => [&b"data: "[..], &reply.body, b"\n\n"].concat(),
        };
        if let Some(stream) = self.stream.filter(|stream| self.web.open.contains_key(stream)) {
            pieces.feed(&mut self.web, stream, &events);
            self.web.collect();
        }
    }

    fn stream(&mut self, exchange: &Exchange, pieces: &Pieces) {
        let ping = json!({"jsonrpc": "2.0", "id": "stream", "method": "ping"});
        let text = match (self.kind, exchange.header("last-event-id")) {
            (Kind::Older, _) => format!("event: endpoint\r\ndata: /messages?x=%C3%A9\r\n\r\ndata: {ping}\r\n\r\n"),
            (_, Some(_)) => return self.give(exchange, Reply::status(405), false, pieces),
            (_, None) => format!("\u{feff}retry: 700\nid: s\ndata:\n\ndata: {ping}\n\n"),
        };
        self.stream = Some(exchange.id);
        self.give(exchange, Reply::stream(&text), false, pieces);
    }

    fn give(&mut self, exchange: &Exchange, reply: Reply, breaks: bool, pieces: &Pieces) {
        let (web, id) = (&mut self.web, exchange.id);
        let status = StatusCode::from_u16(reply.status).unwrap();
        web.session.handle_head(web.now, id, status, &reply.header_map());
        pieces.feed(web, id, &reply.body);
        if reply.ends && web.open.contains_key(&id) {
            web.open.remove(&id);
            if breaks {
                web.session.handle_failure(web.now, id, Broken::Midway, "reset");
            } else {
                web.session.handle_end(web.now, id);
            }
        }
        // The client dropped it before the end.
        web.collect_lenient();
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn chunks_do_not_change_the_outcome(
        kind in prop_oneof![3 => Just(Kind::Legacy), 2 => Just(Kind::Modern), 2 => Just(Kind::Older)],
        forms in prop::collection::vec(response_form(), 1..12),
        sizes in prop::collection::vec(prop_oneof![3 => 1..4_usize, 1 => 1..60_usize], 1..8),
    ) {
        let whole = Play::run(kind, forms.clone(), &Pieces::whole());
        let cut = Play::run(kind, forms.clone(), &Pieces { sizes: sizes.clone(), poll: false });
        prop_assert_eq!(&cut, &whole);
        // Polling in between may change the order of the outputs, but not the state.
        let mut polled = Play::run(kind, forms, &Pieces { sizes, poll: true });
        let mut whole = whole;
        let retired = whole.told.iter().any(|event| event.starts_with("Down"));
        for outcomes in [&mut polled, &mut whole] {
            // A response that was not polled ends with its connection.
            outcomes.sent.retain(|sent| !retired || sent.contains("\"method\""));
            outcomes.sent.sort();
            outcomes.told.sort();
        }
        prop_assert_eq!(polled, whole);
    }
}

// Random order.

#[derive(Clone, Copy, Debug)]
enum Head {
    Good,
    GoodStream,
    Accepted,
    Status(u16),
    Busy,
    Unauthorized(u16, bool),
    Moved(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// The response, as JSON or as an event, or its first half.
    Answer(bool, bool),
    Error(i64, &'static str, bool),
    Text(&'static str),
    Ask(u8),
    Changed,
    /// A response of a modern server that requests input.
    InputRequired(bool),
}

#[derive(Clone, Debug)]
enum Op {
    Open,
    Authorized,
    /// A correct response.
    Reply(u8, bool),
    Head(u8, Head),
    Body(u8, Body),
    End(u8),
    Fail(u8, bool),
    Request(u8),
    Cancel(u8),
    Decline(u8),
    Provide(u8),
    AnswerAsk(u8),
    Notify,
    Refresh,
    Subscribe(bool),
    Close,
    Wait(u16),
    WaitForDeadline,
    Poll(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let head = prop_oneof![
        3 => Just(Head::Good),
        3 => Just(Head::GoodStream),
        1 => Just(Head::Accepted),
        4 => prop_oneof![Just(400), Just(404), Just(405), Just(500), Just(204), Just(301)].prop_map(Head::Status),
        1 => Just(Head::Busy),
        1 => (prop_oneof![Just(401), Just(403)], any::<bool>()).prop_map(|(status, says)| Head::Unauthorized(status, says)),
        1 => prop_oneof![Just("/moved?key=hush-place"), Just("https://elsewhere.example/"), Just("")].prop_map(Head::Moved),
    ];
    let text = prop_oneof![
        Just("id: hush-event\ndata:\n\n"),
        Just("retry: 200\n\n"),
        Just("event: endpoint\ndata: /messages?session=hush-endpoint\n\n"),
        Just("event: endpoint\ndata: https://elsewhere.example/\n\n"),
        Just("data: nonsense\n\n"),
        Just("{}"),
        Just("<html>"),
        Just("Session not found"),
        Just(": comment\n"),
    ];
    let body = prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(event, half)| Body::Answer(event, half)),
        2 => (
            prop_oneof![Just(-32601), Just(-32602), Just(-32022), Just(-32020), Just(-32000)],
            prop_oneof![Just("no"), Just("Session not found"), Just("already initialized"), Just("Unsupported version")],
            any::<bool>(),
        ).prop_map(|(code, message, event)| Body::Error(code, message, event)),
        3 => text.prop_map(Body::Text),
        1 => (0..4_u8).prop_map(Body::Ask),
        1 => Just(Body::Changed),
        1 => any::<bool>().prop_map(Body::InputRequired),
    ];
    prop_oneof![
        1 => Just(Op::Open),
        1 => Just(Op::Authorized),
        24 => (any::<u8>(), any::<bool>()).prop_map(|(which, by_stream)| Op::Reply(which, by_stream)),
        8 => (any::<u8>(), head).prop_map(|(which, head)| Op::Head(which, head)),
        8 => (any::<u8>(), body).prop_map(|(which, body)| Op::Body(which, body)),
        6 => any::<u8>().prop_map(Op::End),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(which, unreachable)| Op::Fail(which, unreachable)),
        6 => (0..5_u8).prop_map(Op::Request),
        1 => (0..6_u8).prop_map(Op::Cancel),
        1 => (0..6_u8).prop_map(Op::Decline),
        1 => (0..6_u8).prop_map(Op::Provide),
        1 => (0..4_u8).prop_map(Op::AnswerAsk),
        1 => Just(Op::Notify),
        1 => Just(Op::Refresh),
        1 => any::<bool>().prop_map(Op::Subscribe),
        1 => Just(Op::Close),
        3 => (0..3000_u16).prop_map(Op::Wait),
        3 => Just(Op::WaitForDeadline),
        8 => (1..20_u8).prop_map(Op::Poll),
    ]
}

/// An open exchange, as the embedder knows it.
#[derive(Clone, Debug)]
struct Running {
    id: ExchangeId,
    of: Option<RequestId>,
    message: Value,
    verb: String,
    /// It is sent to the endpoint of HTTP with SSE.
    older: bool,
    /// It has a session id.
    held: bool,
    status: Option<u16>,
    /// Its response is a stream.
    streams: bool,
    /// The last line of the response has not ended.
    in_line: bool,
    /// The server has not shown that it did not run the request.
    quiet: bool,
}

impl Running {
    fn is_call(&self) -> bool {
        self.message["method"] == "tools/call"
    }

    /// Whether the request may have run.
    fn may_have_run(&self) -> bool {
        self.is_call() && self.quiet && self.status.is_none_or(|status| (200..300).contains(&status))
    }
}

/// A client, a second client with the same inputs, and the expected state.
struct World {
    session: Client<Http>,
    twin: Client<Http>,
    now: Time,
    running: Vec<Running>,
    /// All exchanges, and those that ended or were dropped.
    known: BTreeSet<ExchangeId>,
    over: BTreeSet<ExchangeId>,
    dropped: BTreeSet<ExchangeId>,
    accepted: Vec<RequestId>,
    finished: BTreeMap<RequestId, usize>,
    /// Requests of a tool that must not run twice which may have run.
    ran: BTreeSet<RequestId>,
    /// The method of each request id.
    ids: BTreeMap<u64, String>,
    asks: Vec<ServerRequestId>,
    /// The newest session of the server, and all of them.
    held: Option<String>,
    issued: Vec<String>,
    closed: bool,
    /// The actions since the last input, if all previous ones were polled.
    burst: Option<usize>,
}

impl World {
    fn new((options, seed): (Options, u64)) -> Self {
        let session = Client::new(Http::new(URL).unwrap(), options, seed);
        Self {
            twin: session.clone(),
            session,
            now: Time::ZERO,
            running: vec![],
            known: BTreeSet::new(),
            over: BTreeSet::new(),
            dropped: BTreeSet::new(),
            accepted: vec![],
            finished: BTreeMap::new(),
            ran: BTreeSet::new(),
            ids: BTreeMap::new(),
            asks: vec![],
            held: None,
            issued: vec![],
            closed: false,
            burst: Some(0),
        }
    }

    fn command<T>(
        &mut self,
        command: impl Fn(&mut Client<Http>, Time) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        self.begin();
        let _ = command(&mut self.twin, self.now);
        command(&mut self.session, self.now)
    }

    fn input(&mut self, input: impl Fn(&mut Client<Http>, Time)) {
        self.begin();
        input(&mut self.twin, self.now);
        input(&mut self.session, self.now);
    }

    fn begin(&mut self) {
        self.burst = self.burst.map(|_| 0);
    }

    fn poll(&mut self, most: usize) {
        let bound = 80 + 2 * self.running.len();
        for _ in 0..most {
            let action = self.session.poll();
            assert_eq!(format!("{action:?}"), format!("{:?}", self.twin.poll()), "equal inputs, different outputs");
            let Some(action) = action else {
                self.burst = Some(0);
                return;
            };
            self.burst = self.burst.map(|count| count + 1);
            assert!(self.burst.is_none_or(|count| count <= bound), "{bound} actions after one input");
            assert!(!self.closed, "{action:?} after the end");
            match action {
                HttpAction::Request(request) => self.asked(request),
                HttpAction::Drop(id) => {
                    assert!(self.known.contains(&id), "{id:?} was never asked for");
                    assert!(self.dropped.insert(id), "{id:?} was dropped twice");
                    if let Some(at) = self.running.iter().position(|it| it.id == id) {
                        let it = self.running.remove(at);
                        self.end(&it);
                    }
                }
                HttpAction::Event(Event::Finished { request, outcome, .. }) => {
                    assert!(self.accepted.contains(&request));
                    *self.finished.entry(request).or_default() += 1;
                    assert!(!(self.ran.contains(&request) && matches!(outcome, Outcome::NotSent)), "it was sent");
                }
                HttpAction::Event(Event::ServerRequest { id: ask, .. }) => self.asks.push(ask),
                // The connection may stay, and with it the session.
                HttpAction::Event(Event::Down { next: Recovery::Resume { .. }, .. }) => {}
                HttpAction::Event(Event::Down { .. }) => self.held = None,
                HttpAction::Event(Event::Closed { .. }) => self.closed = true,
                _ => {}
            }
        }
        self.burst = None;
    }

    fn asked(&mut self, HttpRequest { exchange, of, request, .. }: HttpRequest) {
        assert!(self.known.insert(exchange), "{exchange:?} is used twice");
        let origin = |uri: &Uri| (uri.scheme_str().map(str::to_owned), uri.authority().map(ToString::to_string));
        assert_eq!(origin(request.uri()), origin(&URL.parse().unwrap()), "another origin");
        let headers = request.headers();
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let accept = header("accept").unwrap_or_default();
        let verb = request.method().to_string();
        let message: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let modern = header("mcp-protocol-version").as_deref() == Some("2026-07-28");
        match &*verb {
            "POST" => {
                assert!(accept.contains("application/json") && accept.contains("text/event-stream"), "{accept}");
                assert_eq!(header("content-type").as_deref(), Some("application/json"));
                assert_eq!(modern.then(|| method.clone()), header("mcp-method"), "{message}");
                assert!(!(modern && method.is_empty()), "a response in the modern era: {message}");
            }
            "GET" => assert!(accept == "text/event-stream" && !modern),
            _ => {
                assert_eq!(verb, "DELETE");
                assert!(self.issued.contains(&header(SESSION).unwrap()), "an unknown session id");
            }
        }
        if matches!(&*method, "initialize" | "server/discover") {
            self.held = None;
        }
        // A cancellation still leaves when the client closes by itself, as an answer does.
        let is_final = method.is_empty() || matches!(&*method, "notifications/cancelled" | "tasks/cancel");
        let answer = verb == "POST" && is_final;
        if answer && self.held.is_none() {
            // It may be the response to a request in a failed handshake.
            assert!(header(SESSION).is_none_or(|session| self.issued.contains(&session)));
        } else if verb != "DELETE" {
            assert_eq!(header(SESSION), self.held.clone().filter(|_| !modern), "{verb} {method}");
        }
        if let Some(id) = message["id"].as_u64().filter(|_| !method.is_empty()) {
            let known = self.ids.entry(id).or_insert_with(|| method.clone());
            assert_eq!(*known, method, "an id was used twice");
        }
        if let Some(of) = of {
            // A cancellation may follow its end.
            let is_request = verb == "GET" || message["id"].is_u64() && !method.is_empty();
            assert!(self.accepted.contains(&of));
            assert!(!(is_request && self.finished.contains_key(&of)), "a request that has ended");
            assert!(!(method == "tools/call" && self.ran.contains(&of)), "sent again, though it may have run");
        }
        let (older, held) = (request.uri().path() == "/messages", headers.contains_key(SESSION));
        self.running.push(Running {
            id: exchange,
            of,
            message,
            verb,
            older,
            held,
            status: None,
            streams: false,
            in_line: false,
            quiet: true,
        });
    }

    /// An exchange has ended.
    fn end(&mut self, it: &Running) {
        self.over.insert(it.id);
        if it.may_have_run() {
            self.ran.extend(it.of);
        }
    }

    fn which(&self, which: u8) -> Option<usize> {
        usize::from(which).checked_rem(self.running.len())
    }

    fn head(&mut self, at: usize, head: Head) {
        let it = &mut self.running[at];
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        };
        let status = match head {
            Head::Good => 200,
            Head::GoodStream => 200,
            Head::Accepted => 202,
            Head::Status(status) => status,
            Head::Busy => 503,
            Head::Unauthorized(status, _) => status,
            Head::Moved(_) => 307,
        };
        match head {
            Head::Good => set("content-type", "application/json"),
            Head::GoodStream => set("content-type", "text/event-stream"),
            Head::Busy => set("retry-after", "1"),
            Head::Unauthorized(_, true) => set("www-authenticate", "Bearer scope=\"x\""),
            Head::Moved(location) => set("location", location),
            Head::Accepted | Head::Status(_) | Head::Unauthorized(_, false) => {}
        }
        if it.status.is_some() {
            return;
        }
        it.status = Some(status);
        it.streams = matches!(head, Head::GoodStream);
        set("set-cookie", "hush-cookie=1");
        let (id, opens) = (it.id, it.message["method"] == "initialize");
        if opens && (200..300).contains(&status) {
            let session = format!("hush-session-{}", self.issued.len());
            set(SESSION, &session);
            self.issued.push(session.clone());
            // An exchange that the client gave up before opens no session for it.
            if !self.gives_up(id) {
                self.held = Some(session);
            }
        }
        let status = StatusCode::from_u16(status).unwrap();
        self.input(|session, now| session.handle_head(now, id, status, &headers));
    }

    /// Whether the client has given up an exchange, of which the embedder is not told yet.
    fn gives_up(&self, id: ExchangeId) -> bool {
        let mut session = self.session.clone();
        core::iter::from_fn(|| session.poll()).any(|action| matches!(action, HttpAction::Drop(it) if it == id))
    }

    fn body(&mut self, at: usize, body: &str) {
        let it = &mut self.running[at];
        if it.status.is_none() {
            return;
        }
        let tells = ["error", "Session", "input_required"].iter().any(|word| body.contains(word));
        it.quiet &= !tells;
        // The first bytes tell what a body is, whatever its label says.
        it.streams &= ["id:", "data:", "event:", "retry:"].iter().any(|field| body.starts_with(field));
        it.in_line = !body.ends_with('\n');
        let id = it.id;
        self.input(|session, now| session.handle_body(now, id, body.as_bytes()));
    }

    fn finish(&mut self, at: usize, broken: Option<Broken>) {
        let it = self.running.remove(at);
        // The server was unreachable, so the request did not run.
        let unreachable = broken == Some(Broken::Unreachable);
        if !unreachable {
            self.end(&it);
        }
        self.over.insert(it.id);
        // Nothing waits for a notification.
        let is_one_way = it.message.get("id").is_none() && it.message["method"] != "notifications/initialized";
        let is_quiet = self.session.deadline().is_none_or(|at| at > self.now);
        let before = (self.session.is_ready(), self.finished.len());
        self.input(|session, now| match broken {
            Some(broken) => session.handle_failure(now, it.id, broken, "broken"),
            None => session.handle_end(now, it.id),
        });
        if unreachable && it.verb == "POST" && is_one_way && is_quiet {
            assert_eq!(
                (self.session.is_ready(), self.finished.len()),
                before,
                "a message without a response took others"
            );
        }
    }

    fn reply(&mut self, at: usize, by_stream: bool) {
        let it = self.running[at].clone();
        if it.status.is_some() {
            return;
        }
        let is_request = it.message["method"].is_string() && it.message.get("id").is_some();
        match &*it.verb {
            "POST" if is_request && it.older => {
                self.head(at, Head::Accepted);
                self.finish(at, None);
                // The response comes on the stream, if there is one.
                let stream = self.running.iter().rposition(|it| it.verb == "GET" && it.status == Some(200));
                if let Some(stream) = stream {
                    let answer = json!({"jsonrpc": "2.0", "id": it.message["id"], "result": result(&it.message)});
                    self.body(stream, &crate::web::events(&[answer]));
                }
            }
            "GET" if !it.held && by_stream => {
                self.head(at, Head::GoodStream);
                self.body(at, "event: endpoint\ndata: /messages?session=hush-endpoint\n\n");
            }
            "POST" if is_request => {
                self.head(at, if by_stream { Head::GoodStream } else { Head::Good });
                let answer = json!({"jsonrpc": "2.0", "id": it.message["id"], "result": result(&it.message)});
                let spelling = Spelling::ALL[self.known.len() % Spelling::ALL.len()];
                let text = spelling.spell(&answer.to_string());
                let lines = || text.lines().map(|line| format!("data: {line}\n")).collect::<String>();
                self.body(at, &if by_stream { format!("id: hush-event\n{}\n", lines()) } else { text });
                self.finish(at, None);
            }
            "GET" => self.head(at, if by_stream { Head::GoodStream } else { Head::Status(405) }),
            _ => {
                self.head(at, Head::Accepted);
                self.finish(at, None);
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Open => {
                let _ = self.command(|session, now| session.open(now));
            }
            Op::Authorized => {
                let _ = self.command(|session, now| session.authorized(now));
            }
            Op::Reply(which, by_stream) => {
                if let Some(at) = self.which(*which) {
                    self.reply(at, *by_stream);
                }
            }
            Op::Head(which, head) => {
                if let Some(at) = self.which(*which) {
                    self.head(at, *head);
                }
            }
            Op::Body(which, body) => {
                if let Some(at) = self.which(*which) {
                    let text = text_of(*body, &self.running[at].message);
                    // Elsewhere it is a text of the server's, which an error may quote.
                    let has_fields = self.running[at].streams && !self.running[at].in_line;
                    let text = if has_fields { text } else { text.replace("hush", "") };
                    self.body(at, &text);
                }
            }
            Op::End(which) => {
                if let Some(at) = self.which(*which) {
                    self.finish(at, None);
                }
            }
            Op::Fail(which, unreachable) => {
                if let Some(at) = self.which(*which) {
                    let unreachable = *unreachable && self.running[at].status.is_none();
                    self.finish(at, Some(if unreachable { Broken::Unreachable } else { Broken::Midway }));
                }
            }
            Op::Request(which) => {
                let request = || match which {
                    0 => Request::call_tool("a", None),
                    1 => Request::read_resource("r:1"),
                    2 => Request::get_prompt("p", []),
                    3 => Request::new("vendor/thing"),
                    _ => Request::call_tool("unlisted", None).progress(true),
                };
                let accepted =
                    self.command(|session, now| session.request(now, request().timeout(Duration::from_secs(7))));
                self.accepted.extend(accepted);
            }
            Op::Cancel(which) => {
                if let Some(request) = self.accepted.iter().rev().nth(usize::from(*which)).copied() {
                    let _ = self.command(|session, now| session.cancel(now, request));
                }
            }
            Op::Decline(which) => {
                if let Some(request) = self.accepted.iter().rev().nth(usize::from(*which)).copied() {
                    let _ = self.command(|session, now| session.decline(now, request));
                }
            }
            Op::Provide(which) => {
                if let Some(request) = self.accepted.iter().rev().nth(usize::from(*which)).copied() {
                    let result = raw(&json!({"action": "accept", "content": {}}));
                    let _ = self.command(|session, now| session.provide(now, request, [("q", &*result)]));
                }
            }
            Op::AnswerAsk(which) => {
                if let Some(ask) = self.asks.iter().rev().nth(usize::from(*which)).copied() {
                    let result = raw(&json!({"action": "decline"}));
                    let _ = self.command(|session, now| session.respond(now, ask, Ok(&result)));
                }
            }
            Op::Notify => {
                let _ = self.command(|session, now| session.notify(now, "notifications/example", None));
            }
            Op::Refresh => {
                let _ = self.command(|session, now| session.refresh(now, Family::Tools));
            }
            Op::Subscribe(wanted) => {
                let _ = self.command(|session, now| match wanted {
                    true => session.subscribe(now, "r:1"),
                    false => session.unsubscribe(now, "r:1"),
                });
            }
            Op::Close => {
                let _ = self.command(|session, now| session.close(now));
            }
            Op::Wait(millis) => {
                self.now = self.now + Duration::from_millis((*millis).into());
                self.input(|session, now| session.handle_timeout(now));
            }
            Op::WaitForDeadline => {
                self.poll(usize::MAX);
                self.settle();
            }
            Op::Poll(most) => self.poll(usize::from(*most)),
        }
    }

    /// Advances to the next deadline. After a timeout and polling, the next deadline is later.
    fn settle(&mut self) {
        let Some(deadline) = self.session.deadline() else { return };
        self.now = self.now.max(deadline);
        for _ in 0..100 {
            self.input(|session, now| session.handle_timeout(now));
            self.poll(usize::MAX);
            if self.session.deadline().is_none_or(|deadline| deadline > self.now) {
                return;
            }
        }
        panic!("the deadline does not advance: {:?}", self.session);
    }

    /// Closes the client while exchanges never end, and checks that everything ends.
    fn close(mut self) {
        let _ = self.command(|session, now| session.close(now));
        self.poll(usize::MAX);
        for _ in 0..10 {
            self.settle();
        }
        assert!(self.closed && self.session.is_closed(), "{:?}", self.session);
        assert!(self.running.is_empty(), "not dropped: {:?}", self.running);
        for request in &self.accepted {
            assert_eq!(self.finished.get(request), Some(&1), "{request:?} did not end once");
        }
        let none = header_map::<&str>(&[]);
        for id in self.known.clone() {
            self.input(|session, now| session.handle_head(now, id, StatusCode::OK, &none));
            self.input(|session, now| session.handle_body(now, id, b"data: {}\n\n"));
            self.input(|session, now| session.handle_failure(now, id, Broken::Unreachable, "no"));
        }
        for op in [Op::Open, Op::Authorized, Op::Wait(60_000), Op::Close] {
            self.apply(&op);
            assert_eq!(self.session.poll().map(|action| format!("{action:?}")), None, "{op:?}");
            assert_eq!(self.session.deadline(), None);
        }
    }

    /// Answers everything correctly, and checks that every request of the embedder ends.
    fn answer_everything(&mut self) {
        let _ = self.command(|session, now| session.authorized(now));
        self.poll(usize::MAX);
        for _ in 0..400 {
            match self.running.iter().position(|it| it.status.is_none()) {
                Some(at) => self.reply(at, true),
                None if self.finished.len() == self.accepted.len() => return,
                None => self.settle(),
            }
            self.poll(usize::MAX);
        }
        panic!("requests that never end: {:?}", self.session);
    }
}

fn text_of(body: Body, message: &Value) -> String {
    let event = |message: Value, event: bool| if event { crate::web::events(&[message]) } else { message.to_string() };
    match body {
        Body::Answer(by_event, half) => {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result(message)});
            let text = event(answer, by_event);
            if half { text.get(..text.len() / 2).unwrap().into() } else { text }
        }
        Body::Error(code, words, by_event) => {
            event(json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": words}}), by_event)
        }
        Body::Text(text) => text.into(),
        Body::Ask(which) => {
            let method = ["ping", "roots/list", "elicitation/create", "sampling/createMessage"][usize::from(which)];
            event(json!({"jsonrpc": "2.0", "id": which, "method": method, "params": {"message": "?"}}), true)
        }
        Body::InputRequired(asks) => {
            let wanted = json!({"q": {"method": "elicitation/create", "params": {"message": "?"}}});
            let mut result = json!({"resultType": "input_required", "requestState": "s"});
            if asks {
                result["inputRequests"] = wanted;
            }
            event(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}), true)
        }
        Body::Changed => event(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), true),
    }
}

/// The result of a request, in either era.
fn result(request: &Value) -> Value {
    let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}});
    let method = request["method"].as_str().unwrap_or_default();
    crate::common::result(method, &request["params"], "2025-11-25", &capabilities)
}

/// The options of a client, and its seed.
fn session_options() -> impl Strategy<Value = (Options, u64)> {
    let eras = prop_oneof![
        2 => Just(Eras::Auto),
        1 => Just(Eras::LegacyFirst),
        4 => Just(Eras::LegacyOnly),
        1 => Just(Eras::ModernOnly(ProtocolVersion::V2026_07_28)),
    ];
    (eras, any::<bool>(), any::<bool>(), 1..6_usize, any::<u64>()).prop_map(|(eras, offers, again, in_flight, seed)| {
        let mut options = Options::new("laws", "1");
        options.eras = eras;
        options.capabilities.elicitation = offers;
        options.reconnect = again.then(Reconnect::default);
        options.limits.in_flight = in_flight;
        options.limits.queued = 6;
        options.limits.server_requests = 2;
        options.limits.output = 40;
        (options, seed)
    })
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn holds_in_any_order(options in session_options(), ops in prop::collection::vec(op(), 1..150)) {
        let mut world = World::new(options);
        world.apply(&Op::Open);
        world.poll(usize::MAX);
        for op in &ops {
            world.apply(op);
        }
        world.close();
    }

    #[test]
    fn every_request_ends_after_random_input(
        options in session_options(),
        ops in prop::collection::vec(op().prop_filter("the embedder stays", |op| !matches!(op, Op::Close)), 1..100),
    ) {
        let mut world = World::new(options);
        world.apply(&Op::Open);
        world.poll(usize::MAX);
        for op in &ops {
            world.apply(op);
        }
        world.answer_everything();
        world.close();
    }
}

#[cfg(feature = "snapshot")]
mod moves {
    use mcp_proto::{Moved, Secrets};

    use super::*;
    use crate::moved::moved;

    fn http() -> Http {
        Http::new(URL).unwrap()
    }

    impl World {
        fn with(options: (Options, u64), ops: &[Op], mut each: impl FnMut(&mut Self)) -> Self {
            let mut world = Self::new(options);
            world.apply(&Op::Open);
            world.poll(usize::MAX);
            each(&mut world);
            for op in ops {
                world.apply(op);
                each(&mut world);
            }
            world
        }

        /// The exchanges ended with their process.
        fn lose_exchanges(&mut self) {
            for it in std::mem::take(&mut self.running) {
                self.end(&it);
            }
            self.twin = self.session.clone();
            self.burst = None;
        }
    }

    proptest! {
        #![proptest_config(config(150))]

        #[test]
        fn a_snapshot_without_secrets_has_none_of_those_that_a_server_ever_gave(
            options in session_options(),
            ops in prop::collection::vec(op(), 1..100),
        ) {
            World::with(options, &ops, |world| {
                let text = serde_json::to_string(&world.session.snapshot(Secrets::Excluded)).unwrap();
                assert!(!text.contains("hush"), "a secret in {text}");
            });
        }

        #[test]
        fn a_client_saved_and_restored_after_each_step_behaves_the_same(
            options in session_options(),
            ops in prop::collection::vec(op(), 1..100),
        ) {
            let world = World::with(options, &ops, |world| {
                world.session = moved(&world.session, http(), Moved::WithTransport);
                assert_eq!(format!("{:?}", world.session), format!("{:?}", world.twin));
            });
            world.close();
        }

        #[test]
        fn a_client_moved_without_its_exchanges_does_not_repeat_calls_that_may_have_run(
            options in session_options(),
            ops in prop::collection::vec(op(), 1..100),
            later in prop::collection::vec(op(), 1..100),
            secrets in any::<bool>(),
        ) {
            let mut world = World::with(options, &ops, |_| {});
            if secrets {
                world.session = moved(&world.session, http(), Moved::WithoutTransport);
            } else {
                let snapshot = world.session.snapshot(Secrets::Excluded);
                let text = serde_json::to_string(&snapshot).unwrap();
                assert!(!text.contains("hush"), "a secret in {text}");
                let options = world.session.options().clone();
                world.session =
                    Client::from_snapshot(http(), options, &snapshot, Moved::WithoutTransport).unwrap();
            }
            world.lose_exchanges();
            for op in &later {
                world.apply(op);
            }
            world.close();
        }
    }
}
