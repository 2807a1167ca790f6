//! What the fuzz targets run, and `cargo test` runs too: bytes in, a fingerprint of what came out.

#![allow(dead_code, reason = "each target runs one of the bodies")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::time::Duration;

use mcp_proto::jsonrpc::{self, Body, Decoded, ErrorObject, Message, Noise};
use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, AskId, EraVerdict, Eras, Event, Family, Keepalive, LineSession, ListErrors, LogLevel, Misuse, OpenFailure,
    Options, Outgoing, Probe, ProtocolVersion, Reconnect, Request, RequestId, Session, Time, TraceContext, Transport,
};
use serde_json::value::RawValue;

/// What a session may owe its embedder without the embedder's doing, with the limits below.
const OWED: usize = 100;

/// How often one time may be named as the deadline.
const STANDSTILL: usize = 32;

/// Feeds bytes to the decoder, and to sessions in several states.
pub(crate) fn message(bytes: &[u8]) -> u64 {
    let mut print = DefaultHasher::new();
    for limits in [jsonrpc::Limits::default(), limits(Options::new("", "")).limits.message] {
        let decoded = jsonrpc::decode(bytes, limits);
        check_json(bytes, &decoded);
        match decoded {
            Ok(Decoded::Batch(messages)) => {
                assert!(messages.len() <= limits.batch + 1);
                messages.iter().flatten().for_each(check_payload);
            }
            Ok(Decoded::One(message)) => check_payload(&message),
            Ok(Decoded::Blank) | Err(_) => {}
        }
    }
    for session in prepared() {
        let mut session = session.clone();
        session.handle_message(session_time(), bytes);
        let mut sent = 0;
        let mut actions = 0;
        while let Some(action) = session.poll() {
            actions += 1;
            if let Action::Send(message) = &action {
                check_line(message);
                sent += message.line().len();
            }
            format!("{action:?}").hash(&mut print);
        }
        // The shortest request has some twenty bytes, and its refusal some hundred.
        assert!(actions <= 32 + bytes.len() / 8, "{actions} actions");
        assert!(sent <= (16 << 10) + bytes.len() * 16, "{sent} bytes");
        check_catalog(&session);
    }
    let mut whole = LineSession::new(prepared()[2].clone());
    let mut pieces = whole.clone();
    whole.handle_bytes(session_time(), bytes);
    for byte in bytes {
        pieces.handle_bytes(session_time(), &[*byte]);
    }
    assert_same(&whole, &pieces, "the chunks made a difference");
    print.finish()
}

/// What is taken for JSON is JSON to `serde_json`, too, and what is not is not.
fn check_json(bytes: &[u8], decoded: &Result<Decoded<'_>, Noise>) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let text = text.trim_start_matches('\u{feff}').trim_matches([' ', '\t', '\r', '\n']);
    let valid = serde_json::from_str::<&RawValue>(text).is_ok();
    match decoded {
        Ok(Decoded::One(_) | Decoded::Batch(_)) | Err(Noise::NotAMessage) => assert!(valid, "taken for JSON"),
        Err(Noise::NotJson) if text.starts_with('{') => {
            // A member's name has to be text.
            assert!(serde_json::from_str::<BTreeMap<String, &RawValue>>(text).is_err(), "not taken for JSON");
        }
        Err(Noise::NotJson) => assert!(!valid, "not taken for JSON"),
        Ok(Decoded::Blank) | Err(_) => {}
    }
}

/// A payload is one JSON value, and nothing around it.
fn check_payload(message: &Message<'_>) {
    let payload = match &message.body {
        Body::Request { params, .. } | Body::Notification { params, .. } => *params,
        Body::Result { result, .. } => Some(*result),
        Body::Error { error, .. } => error.data.as_deref(),
    };
    if let Some(payload) = payload {
        assert_eq!(serde_json::from_str::<&RawValue>(payload.get()).unwrap().get(), payload.get());
    }
}

fn session_time() -> Time {
    Time::from_millis(2_000)
}

/// Sessions in several states, each with what it waits for.
fn prepared() -> &'static [Session] {
    static PREPARED: OnceLock<Vec<Session>> = OnceLock::new();
    PREPARED.get_or_init(|| {
        // As the session target reads them: options, then operations.
        let scripts: [&[u8]; 9] = [
            b"0000000000 ab",
            b"2000000000 ab",
            b"2?00000000 abe00 e00e00e00e00 i20 j200j350k00k16",
            b"2?00000000 abe00",
            b"2?00000000 abe00 e02e02",
            b"0?00000000 abe00 e00e00e00e00 k00k10",
            b"0?00000000 abf00 e00 e00e00e00e00 k00",
            b"2?11110000 abe00 e00e00e00e00e00 i00i20q3",
            b"0?00000000 abe00 e00e00e00e00 k00e02k06",
        ];
        scripts.map(|script| Rig::run(script).session).into()
    })
}

/// Takes bytes for a sequence of operations on a session, and checks what holds after each.
pub(crate) fn session(bytes: &[u8]) -> u64 {
    let mut rig = Rig::run(bytes);
    rig.end();
    rig.print.finish()
}

/// Bytes as choices. What is within the printable characters is counted from `0` and `a`, so that a seed can be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return b'0' };
        self.0 = rest;
        *first
    }

    fn pick(&mut self, of: usize) -> usize {
        usize::from(self.byte().wrapping_sub(b'0')) % of
    }

    fn bits(&mut self) -> u8 {
        self.byte().wrapping_sub(b'0')
    }

    fn operation(&mut self) -> Option<u8> {
        while let [b' ' | b'\n', rest @ ..] = self.0 {
            self.0 = rest;
        }
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first.wrapping_sub(b'a') % 26)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Bounds that are within a fuzzer's reach.
fn limits(mut options: Options) -> Options {
    let limits = &mut options.limits;
    limits.message.bytes = 4096;
    limits.message.depth = 16;
    limits.message.batch = 8;
    limits.pages = 3;
    limits.items = 8;
    limits.list_bytes = 2048;
    limits.in_flight = 6;
    limits.queued = 4;
    limits.asks = 2;
    limits.held = 3;
    limits.output = 16;
    limits.output_bytes = 512;
    limits.quirks = 8;
    options
}

fn options(input: &mut Input<'_>) -> Options {
    let mut options = limits(Options::new("fuzz", "1"));
    options.eras = [Eras::Auto, Eras::LegacyFirst, Eras::LegacyOnly, Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN)]
        [input.pick(4)];
    let offers = input.bits();
    options.capabilities.elicitation = offers & 1 != 0;
    options.capabilities.elicitation_url = offers & 2 != 0;
    options.capabilities.sampling = offers & 4 != 0;
    if offers & 8 != 0 {
        options.capabilities.roots = Some(vec![Root { uri: "file:///a".into(), name: Some("\"\n".into()) }]);
    }
    if offers & 16 != 0 {
        options.capabilities.extensions = vec![("x/y".into(), raw("{\n}"))];
    }
    let mut quick = Reconnect::default();
    quick.budget = 2;
    options.reconnect = [None, Some(Reconnect::default()), Some(quick)][input.pick(3)];
    let tolerance = input.bits();
    options.tolerance.list_errors = if tolerance & 1 == 0 { ListErrors::Fail } else { ListErrors::Degrade };
    options.tolerance.tools_absent = tolerance & 2 != 0;
    options.tolerance.absent_by_text = tolerance & 4 != 0;
    options.tolerance.ask_anyway = tolerance & 8 != 0;
    options.tolerance.undeclared_list_changed = tolerance & 16 != 0;
    options.tolerance.nearest_version = tolerance & 32 != 0;
    let mut closes = EraVerdict::new(ProtocolVersion::NEWEST_LEGACY);
    closes.probe_closes = true;
    options.verdict = [
        None,
        Some(EraVerdict::new(ProtocolVersion::V2024_11_05)),
        Some(closes),
        Some(EraVerdict::new(ProtocolVersion::NEWEST_MODERN)),
    ][input.pick(4)];
    options.log_level = [None, Some(LogLevel::Warning)][input.pick(2)];
    let mut keepalive = Keepalive::default();
    keepalive.probe = [Probe::Ping, Probe::ToolsList][input.pick(2)];
    keepalive.discover = true;
    options.keepalive = [None, Some(keepalive)][input.pick(2)];
    options.parallel_tool_calls = input.pick(2) == 0;
    options
}

/// A session, and what has to hold of it.
struct Rig {
    session: Session,
    now: Time,
    polling: bool,
    /// What is on the wire and was not answered.
    wire: Vec<(u64, String)>,
    wire_ids: BTreeSet<u64>,
    requests: Vec<RequestId>,
    unfinished: BTreeSet<RequestId>,
    asks: Vec<AskId>,
    /// The requests that wait for input, or did.
    waiting: Vec<RequestId>,
    /// The ids of the server's requests on this connection that have no answer yet.
    owed_answers: BTreeMap<String, usize>,
    /// The server's capabilities, by number.
    offers: usize,
    cursors: usize,
    /// The id that was answered last without having been seen.
    guessed: u64,
    last_message: Vec<u8>,
    epoch: u32,
    /// Actions that the embedder's own doing may have put into the queue since it was empty.
    own: usize,
    closed: bool,
    print: DefaultHasher,
}

impl Rig {
    fn run(bytes: &[u8]) -> Self {
        let mut input = Input(bytes);
        let options = options(&mut input);
        let offers = input.pick(8);
        let mut rig = Self {
            session: Session::new(options),
            now: Time::ZERO,
            polling: true,
            wire: Vec::new(),
            wire_ids: BTreeSet::new(),
            requests: Vec::new(),
            unfinished: BTreeSet::new(),
            asks: Vec::new(),
            waiting: Vec::new(),
            owed_answers: BTreeMap::new(),
            offers,
            cursors: 0,
            guessed: 0,
            last_message: Vec::new(),
            epoch: 0,
            own: 0,
            closed: false,
            print: DefaultHasher::new(),
        };
        while let Some(operation) = input.operation() {
            rig.operate(operation, &mut input);
            rig.check();
        }
        rig
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        let now = self.now;
        match operation {
            // a b c d
            0 => drop(self.command(6, |session| session.open(now))),
            1 => self.transport(Transport::Opened),
            2 => {
                let how = [OpenFailure::Connect, OpenFailure::Spawn][input.pick(2)];
                self.transport(Transport::OpenFailed { how, why: "no" });
            }
            3 => {
                self.transport(Transport::Closed { why: "gone" });
                self.owed_answers.clear();
            }
            // e f g h
            4 => self.answer(input, Self::result),
            5 => self.answer(input, |_, _, variant| error(variant)),
            6 => self.answer_oddly(input),
            7 => self.answer_unasked(input),
            // i j
            8 => self.notification(input),
            9 => self.ask(input),
            // k l m n
            10 => self.request(input),
            11 => {
                if let Some(request) = choose(&self.requests, input) {
                    self.command(4, |session| session.cancel(now, request));
                }
            }
            12 => {
                let kind = input.pick(6);
                if kind >= 3 {
                    self.input(kind - 3, input);
                } else if let Some(ask) = choose(&self.asks, input) {
                    let (object, array) = (raw("{\"action\":\n\"accept\"}"), raw("[]"));
                    let answer = match kind {
                        0 => Ok(&*object),
                        1 => Err(ErrorObject::new(-1, "no\n")),
                        _ => Ok(&*array),
                    };
                    self.command(1, |session| session.answer(now, ask, answer));
                }
            }
            13 => {
                let kind = input.pick(4);
                if kind == 3 {
                    let family = Family::ALL[input.pick(4)];
                    self.command(1, |session| session.refresh(now, family));
                    return;
                }
                let method = ["notifications/roots/list_changed", "notifications/cancelled", "x\n"][kind];
                let params = [None, Some(raw("{\n}")), Some(raw("1"))][input.pick(3)].take();
                self.command(1, |session| session.notify(now, method, params.as_deref()));
            }
            // o p
            14 => drop(self.command(6, |session| session.close(now))),
            15 => self.transport(Transport::SignOfLife),
            // q r: time, and time that nobody tells of
            16 => self.wait(step(input)),
            17 => self.now = self.now + step(input),
            // s t u
            18 => {
                let Some(deadline) = self.session.deadline() else { return };
                self.wait(deadline.since(self.now));
            }
            19 => self.session.handle_timeout([Time::ZERO, self.now][input.pick(2)]),
            20 => self.now = Time::from_micros(u64::MAX),
            // v w
            21 => self.polling = !self.polling,
            22 => {
                if let Some(action) = self.session.poll() {
                    self.take(action);
                }
            }
            // x y z: the last message again, a part of it, and bytes
            23 => {
                let message = self.last_message.clone();
                self.receive(&message);
            }
            24 => {
                let message = self.last_message.clone();
                let cut = input.byte().into();
                self.receive(&message[..message.len().min(cut)]);
            }
            _ => {
                let len = usize::from(input.byte());
                self.receive(input.take(len));
            }
        }
    }

    /// Does what the embedder asks for; where that is refused, nothing may have changed.
    fn command<T>(&mut self, owed: usize, act: impl FnOnce(&mut Session) -> Result<T, Misuse>) -> Option<T> {
        let before = self.session.clone();
        match act(&mut self.session) {
            Ok(done) => {
                self.own += owed;
                Some(done)
            }
            Err(misuse) => {
                assert_same(&before, &self.session, &format!("{misuse:?} changed the session"));
                None
            }
        }
    }

    fn transport(&mut self, event: Transport<'_>) {
        self.own += 8;
        self.session.handle_transport(self.now, event);
    }

    fn request(&mut self, input: &mut Input<'_>) {
        let method = [
            "tools/call",
            "prompts/get",
            "resources/read",
            "completion/complete",
            "ping",
            "x/y\n",
            "initialize",
            "tools/list",
        ][input.pick(8)];
        let mut request = Request::new(method);
        match input.pick(8) {
            1 => {
                request =
                    request.params(raw("{\"name\":\"a\",\n\"_meta\":{\"progressToken\":1,\"traceparent\":\"x\"}}"))
            }
            2 => request = request.params(raw("[1]")),
            3 => request = request.timeout(Duration::ZERO),
            4 => request = request.timeout(Duration::MAX),
            5 => {
                let trace = TraceContext { traceparent: Some("00-a-b-01".into()), ..TraceContext::default() };
                request = request.params(raw("{\"_meta\":null}")).trace(trace);
            }
            6 => request = request.progress().replay(true),
            7 => request = Request::call_tool("a", None).replay(false),
            _ => {}
        }
        let now = self.now;
        if let Some(id) = self.command(4, |session| session.request(now, request)) {
            assert!(self.unfinished.insert(id), "a request's id was used twice");
            self.requests.push(id);
        }
    }

    fn input(&mut self, kind: usize, input: &mut Input<'_>) {
        let Some(request) = choose(&self.waiting, input) else { return };
        let now = self.now;
        let (object, array) = (raw("{\n}"), raw("[]"));
        self.command(4, |session| match kind {
            0 => session.provide(now, request, [("e", &*object), ("e\n", &*object)]),
            1 => session.provide(now, request, [("e", &*array)]),
            _ => session.decline(now, request),
        });
    }

    fn answer(&mut self, input: &mut Input<'_>, make: impl FnOnce(&mut Self, &str, usize) -> String) {
        let at = input.pick(8);
        let variant = input.pick(16);
        if self.wire.is_empty() {
            return;
        }
        let (id, method) = self.wire.remove(at % self.wire.len());
        let answer = make(self, &method, variant);
        self.receive_text(format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#));
    }

    /// Answers in a shape that no specification has.
    fn answer_oddly(&mut self, input: &mut Input<'_>) {
        let at = input.pick(8);
        let shape = input.pick(12);
        let variant = input.pick(16);
        if self.wire.is_empty() {
            return;
        }
        let (id, method) = self.wire.remove(at % self.wire.len());
        let result = self.result(&method, variant);
        let error = error(variant);
        let text = match shape {
            0 => format!(r#"{{"jsonrpc":"2.0","id":"{id}",{result}}}"#),
            1 => format!(r#"{{"jsonrpc":"2.0","id":{id}.0,{result}}}"#),
            2 => format!(r#"{{"jsonrpc":"2.0","id":null,{error}}}"#),
            3 => format!(r#"{{"jsonrpc":"2.0",{error}}}"#),
            4 => format!(r#"{{"jsonrpc":"2.0","id":{id},{result},{error}}}"#),
            5 => format!(r#"{{"jsonrpc":"2.0","id":{id},{result},"error":null}}"#),
            6 => format!(r#"{{"jsonrpc":"2.0","id":{id},{error},"result":null}}"#),
            7 => format!(r#"{{"id":{id},{result}}}"#),
            8 => format!(r#"[{{"jsonrpc":"2.0","id":{id},{result}}},{{"jsonrpc":"2.0","id":{id},{error}}},1]"#),
            9 => format!(r#"{{"jsonrpc":"2.0","id":"server-error",{error}}}"#),
            10 => format!("\u{feff} {{\"jsonrpc\":\"2.0\",\"id\":{id},{result}}}\r"),
            _ => format!(r#"{{"id":{id},"method":"ping",{result}}}"#),
        };
        self.receive_text(text);
    }

    /// Answers an id that was not sent, or that was not polled yet.
    fn answer_unasked(&mut self, input: &mut Input<'_>) {
        let last = self.wire_ids.last().copied().unwrap_or(0).max(self.guessed);
        let id = (last + 4).saturating_sub(input.pick(8) as u64);
        self.guessed = id;
        let method = ["initialize", "server/discover", "tools/list", "prompts/list", "resources/list", "tools/call"]
            [input.pick(6)];
        let variant = input.pick(16);
        let result = self.result(method, variant);
        self.receive_text(format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    }

    fn result(&mut self, method: &str, variant: usize) -> String {
        let offers = [
            r#"{"tools":{"listChanged":true},"prompts":{},"resources":{},"logging":{},"completions":{}}"#,
            r#"{"prompts":{}}"#,
            "{}",
            r#"{"tools":null,"prompts":true,"resources":[],"logging":false}"#,
            "null",
            r#"{"tools":{}}"#,
            r#"{"resources":{"subscribe":true},"logging":{}}"#,
            r#"{"tools":{},"logging":{}}"#,
        ][self.offers];
        let result = match method {
            "initialize" => {
                let version = match variant {
                    0..4 => ProtocolVersion::ALL[3 - variant].as_str(),
                    4 => "2026-07-28",
                    5 => "2025-01-01",
                    6 => "\\u0032",
                    _ => return format!(r#""result":{{"capabilities":{offers}}}"#),
                };
                format!(r#"{{"protocolVersion":"{version}","capabilities":{offers},"serverInfo":{{"name":"s"}}}}"#)
            }
            "server/discover" => {
                let versions = match variant {
                    0 => r#"["2026-07-28"]"#,
                    1 => r#"["2025-11-25","2026-07-28"]"#,
                    2 => r#"["2025-03-26","2024-11-05"]"#,
                    3 => r#"["2099-01-01"]"#,
                    4 => "null",
                    _ => r#"[1,{}]"#,
                };
                format!(r#"{{"resultType":"complete","supportedVersions":{versions},"capabilities":{offers}}}"#)
            }
            _ => match Family::ALL.into_iter().find(|family| family.list_method() == method) {
                Some(family) => self.page(family, variant),
                None => [
                    "{}",
                    r#"{"resultType":"complete"}"#,
                    r#"{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create"},"r":{"method":"roots/list"}},"requestState":"\u0061\n"}"#,
                    r#"{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create","params":{"mode":"x"}}}}"#,
                    r#"{"resultType":"input_required","requestState":"s"}"#,
                    r#"{"resultType":"input_required"}"#,
                    r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"},"":1}}"#,
                    r#"{"resultType":1}"#,
                    "[]",
                    "null",
                ][variant % 10]
                    .into(),
            },
        };
        format!(r#""result":{result}"#)
    }

    fn page(&mut self, family: Family, variant: usize) -> String {
        self.cursors += 1;
        let (member, key, count) = (family.member(), family.key(), self.cursors);
        let fresh = format!(r#"{{"{key}":"i{count}","inputSchema":{{}}}}"#);
        let page = |items: &str, cursor: &str| format!(r#"{{"{member}":[{items}],"nextCursor":{cursor}}}"#);
        match variant {
            0 => format!(r#"{{"{member}":[{fresh}]}}"#),
            1 => format!(r#"{{"{member}":[]}}"#),
            2 => page(&fresh, &format!(r#""c{count}""#)),
            3 => page(&fresh, r#""c""#),
            4 => page(&format!(r#"{{"{key}":"same"}}"#), r#""c""#),
            5 => page(&fresh, r#""""#),
            6 => page(&format!(r#"{{"{key}":"a","annotations":{{"readOnlyHint":true}}}}"#), "null"),
            7 => page(&fresh, "7"),
            8 => format!(r#"{{"{member}":null}}"#),
            9 => format!(r#"{{"{member}":{{}}}}"#),
            10 => {
                page(&format!(r#"{{}},1,null,{{"{key}":1}},{fresh},{fresh},{{"{key}":"\u0061\n","title":1}}"#), "null")
            }
            11 => format!(r#"{{"resultType":"input_required","{member}":[]}}"#),
            12 => page(&[&*fresh; 9].join(","), "null"),
            13 => page(&(0..9).map(|at| format!(r#"{{"{key}":"{at}"}}"#)).collect::<Vec<_>>().join(","), r#""d""#),
            14 => page(&format!(r#"{{"{key}":"{}"}}"#, "l".repeat(1500)), r#""e""#),
            _ => "[]".into(),
        }
    }

    fn notification(&mut self, input: &mut Input<'_>) {
        let methods = [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/message",
            "notifications/cancelled",
            "notifications/progress",
            "x",
        ];
        let method = methods[input.pick(methods.len())];
        let last = self.wire_ids.last().copied().unwrap_or(0);
        let params = match input.pick(5) {
            0 => String::new(),
            4 => format!(r#","params":{{"progressToken":{last},"progress":1}}"#),
            1 => r#","params":{"requestId":1}"#.into(),
            2 => format!(r#","params":{{"text":"{}"}}"#, "t".repeat(200)),
            _ => r#","params":null,"id":null"#.into(),
        };
        self.receive_text(format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#));
    }

    fn ask(&mut self, input: &mut Input<'_>) {
        let methods = ["ping", "roots/list", "elicitation/create", "sampling/createMessage", "tools/list", "\\n\\\""];
        let method = methods[input.pick(methods.len())];
        let id = ["1", "\"a\\u0062\"", "1.0", "-1e3", "\"\"", "99999999999999999999"][input.pick(6)];
        let params = ["{}", r#"{"mode":"url"}"#, r#"{"mode":"form"}"#, r#"{"mode":"x"}"#, "[]", "null"][input.pick(6)];
        self.receive_text(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }

    fn receive_text(&mut self, text: String) {
        self.receive(text.as_bytes());
        self.last_message = text.into_bytes();
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut owe = |message: &Message<'_>| {
            if let Body::Request { id, .. } = &message.body {
                *self.owed_answers.entry(id.get().into()).or_default() += 1;
            }
        };
        match jsonrpc::decode(bytes, self.session.options().limits.message) {
            Ok(Decoded::One(message)) => owe(&message),
            Ok(Decoded::Batch(messages)) => messages.iter().flatten().for_each(owe),
            Ok(Decoded::Blank) | Err(_) => {}
        }
        self.session.handle_message(self.now, bytes);
    }

    /// Lets time go by, stopping at each deadline while there is somebody who polls.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        let (mut last, mut still) = (None, 0);
        for _ in 0..1_000 {
            // At the end of time everything is due for ever.
            if !self.polling || self.now == Time::from_micros(u64::MAX) {
                break;
            }
            self.drain();
            let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) else { break };
            still = if last == Some(deadline) { still + 1 } else { 0 };
            last = Some(deadline);
            assert!(still < STANDSTILL, "the deadline {deadline:?} does not move on");
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
        }
        self.now = end;
        self.session.handle_timeout(end);
    }

    fn check(&mut self) {
        if self.polling {
            self.drain();
            assert!(!self.closed || self.session.deadline().is_none(), "there is a deadline after the end");
        } else {
            let mut behind = self.session.clone();
            let owed = std::iter::from_fn(|| behind.poll()).count();
            assert!(owed <= OWED + self.own, "{owed} actions wait, {} for the embedder's own doing", self.own);
        }
        assert!(self.session.quirks().len() <= self.session.options().limits.quirks);
        check_catalog(&self.session);
    }

    fn drain(&mut self) {
        while let Some(action) = self.session.poll() {
            self.take(action);
        }
        self.own = 0;
        self.guessed = 0;
    }

    fn take(&mut self, action: Action) {
        assert!(!self.closed, "after the end: {action:?}");
        format!("{action:?}").hash(&mut self.print);
        match action {
            Action::Open(open) => {
                assert!(open.epoch > self.epoch, "an epoch came again");
                self.epoch = open.epoch;
                self.wire.clear();
            }
            Action::Send(message) => {
                check_line(&message);
                match (message.id(), message.method()) {
                    (Some(id), Some(method)) => {
                        assert!(self.wire_ids.insert(id), "the id {id} was used twice");
                        self.wire.push((id, method.into()));
                    }
                    (None, Some(_)) => {}
                    (_, None) => {
                        let answer = members(message.bytes());
                        let owed = self.owed_answers.get_mut(answer["id"].get()).filter(|owed| **owed > 0);
                        *owed.unwrap_or_else(|| panic!("nobody asked: {answer:?}")) -= 1;
                    }
                }
            }
            Action::Event(Event::Finished { request, .. }) => {
                assert!(self.unfinished.remove(&request), "{request:?} was not open");
            }
            Action::Event(Event::Asked { ask, .. }) => self.asks.push(ask),
            Action::Event(Event::InputRequired { request, .. }) => {
                assert!(self.unfinished.contains(&request), "{request:?} was not open");
                self.waiting.push(request);
            }
            Action::Event(Event::Closed { .. }) => {
                assert!(self.unfinished.is_empty(), "requests without an end: {:?}", self.unfinished);
                self.closed = true;
            }
            _ => {}
        }
    }

    /// Whatever came before: a session that is closed comes to its end, and nothing follows.
    fn end(&mut self) {
        self.polling = true;
        self.drain();
        let now = self.now;
        self.command(6, |session| session.close(now));
        let grace = self.session.options().timeouts.grace;
        for _ in 0..4 {
            self.wait(grace);
        }
        self.drain();
        assert!(self.closed && self.session.is_closed(), "no end came of close");
        self.receive(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        for event in [Transport::Opened, Transport::SignOfLife, Transport::Closed { why: "" }] {
            self.transport(event);
        }
        let now = self.now;
        assert!(self.command(0, |session| session.open(now)).is_none());
        assert!(self.command(0, |session| session.request(now, Request::new("ping"))).is_none());
        self.session.handle_timeout(self.now + Duration::from_secs(3600));
        self.drain();
        assert_eq!(self.session.deadline(), None);
    }
}

fn assert_same(one: &Session, other: &Session, what: &str) {
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    if one != other {
        let at = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
        let excerpt = |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
        panic!("{what}:\n{}\n{}", excerpt(&one), excerpt(&other));
    }
}

fn check_line(message: &Outgoing) {
    let (last, text) = message.line().split_last().expect("a line is not empty");
    assert_eq!(*last, b'\n');
    assert!(!text.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "a line break in a message");
    let members = members(text);
    assert_eq!(members["jsonrpc"].get(), "\"2.0\"");
    assert_eq!(message.method().is_some(), members.contains_key("method"));
    assert_eq!(message.id().is_some(), members.contains_key("method") && members.contains_key("id"));
}

fn members(message: &[u8]) -> BTreeMap<String, &RawValue> {
    serde_json::from_slice(message).expect("a message is a JSON object")
}

fn check_catalog(session: &Session) {
    let limits = session.options().limits;
    for family in Family::ALL {
        let list = session.catalog().list(family);
        assert!(list.len() <= limits.items && session.family(family).pages <= limits.pages);
        for (key, item) in list.iter() {
            assert_eq!(list.find(key), Some((key, item)), "an item is not found by its key");
        }
    }
    let catalog = session.catalog();
    touch(catalog.tools().map(|tool| tool.name.len() + tool.input_schema.get().len()));
    touch(catalog.prompts().map(|prompt| prompt.arguments.len()));
    touch(catalog.resources().map(|resource| resource.uri.len()));
    touch(catalog.resource_templates().map(|template| template.uri_template.len()));
}

fn touch(items: impl Iterator<Item = impl Debug>) {
    items.for_each(|item| drop(std::hint::black_box(item)));
}

fn choose<T: Copy>(from: &[T], input: &mut Input<'_>) -> Option<T> {
    let at = input.pick(8);
    from.get(from.len().checked_sub(1)?.saturating_sub(at)).copied()
}

fn error(variant: usize) -> String {
    let error = match variant {
        0 => r#"{"code":-32601,"message":"Method not found"}"#,
        1 => r#"{"code":-32602,"message":"Invalid params"}"#,
        2 => r#"{"code":-32603,"message":"method not found"}"#,
        3 => r#"{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}"#,
        4 => r#"{"code":-32022,"message":"v","data":{"supported":["2025-06-18","2024-11-05"]}}"#,
        5 => r#"{"code":-32022,"message":"v","data":{"supported":["2099-01-01"]}}"#,
        6 => r#"{"code":-32022,"message":"v"}"#,
        7 => r#"{"code":-32020,"message":"header"}"#,
        8 => r#"{"code":-32021,"message":"capability"}"#,
        9 => r#"{"code":-32602,"message":"Unsupported protocol version"}"#,
        10 => r#"{"code":-32602,"message":"unknown capability: elicitation"}"#,
        11 => r#"{"code":-32000,"message":"x","data":[1]}"#,
        12 => r#""words""#,
        13 => "1",
        14 => r#"{"code":"1","message":null}"#,
        _ => "{}",
    };
    format!(r#""error":{error}"#)
}

fn step(input: &mut Input<'_>) -> Duration {
    let millis = [0, 1, 100, 300, 1_000, 2_000, 5_000, 30_000, 60_000, 600_000, 7_200_000];
    Duration::from_millis(millis[input.pick(millis.len())])
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}
