//! Properties of a client: any input in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::protocol::Root;
use mcp_proto::testkit::Spelling;
use mcp_proto::{
    Action, Cause, Client, CommandError, ConnectionId, Eras, Event, Family, FamilyStatus, Keepalive, LogLevel,
    Messages, OpenFailure, Options, Outcome, QuirkKind, Reconnect, Request, RequestError, RequestId, ServerRequestId,
    ShutdownStep, Time, Transport,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::common::{Deliver, Steps};

#[derive(Clone, Copy, Debug)]
enum Shape {
    Good,
    Error(i64),
    Nonsense,
    StringId,
    ErrorWithoutId,
    Twice,
    InBatch,
    /// In the modern era, the server requests input before it answers.
    WantsInput,
    /// A call runs as a task, or its task has this status.
    Task(usize),
}

/// What a server sends many of at once.
#[derive(Clone, Copy, Debug)]
enum Flood {
    Pings,
    Roots,
    Questions,
    Unknown,
    Logs,
    ListChanged,
    Noise,
}

/// Input for something that has ended.
#[derive(Clone, Copy, Debug)]
enum Stale {
    /// A result with the id of a request of an earlier connection. (An error with such an id has an id that this
    /// connection never used. By the row `id-null` it may belong to the only request in flight.)
    OldResult,
    /// A second response to a request of this connection, or one to a cancelled request.
    SecondResult,
    SecondError,
    /// Transport events and messages of an earlier connection.
    Former(Former),
    /// The server accepts a stream that was requested on an earlier connection or has ended.
    Agreed,
    /// Input without a connection.
    Ping,
    ListChanged,
}

/// Input of an earlier connection.
#[derive(Clone, Copy, Debug)]
enum Former {
    Opened,
    OpenFailed,
    Closed,
    SignOfLife,
    ProtocolViolation,
    Message,
}

impl Former {
    fn report(self, session: &mut Client<Messages>, now: Time, connection: ConnectionId) {
        let event = match self {
            Self::Opened => Transport::Opened,
            Self::OpenFailed => Transport::OpenFailed { how: OpenFailure::Connect, why: "late" },
            Self::Closed => Transport::Closed { why: "late" },
            Self::SignOfLife => Transport::SignOfLife,
            Self::ProtocolViolation => Transport::ProtocolViolation { why: "late" },
            Self::Message => {
                return session.handle_message(now, connection, br#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
            }
        };
        session.handle_transport(now, connection, event);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Open,
    Opened,
    OpenFailed(bool),
    TransportClosed,
    SignOfLife,
    /// Connects, if possible, and completes discovery.
    Connect,
    /// Answers an open request, the oldest or the newest one.
    Answer(bool, Shape),
    /// Answers everything correctly.
    Serve,
    /// Accepts the stream that was requested last.
    Agree,
    Authorized,
    ServerAsks(u8, u8),
    ServerTakesBack(u8),
    ListChanged(u8),
    Progress,
    Noise(u8),
    Flood(Flood, u16),
    Stale(Stale, u8),
    Request(u8),
    Cancel(u8),
    AnswerAsk(u8, bool),
    /// Provides the input that a server requests, or none.
    Provide(u8, bool),
    Refresh(u8),
    Subscribe(u8),
    Unsubscribe(u8),
    SetLevel,
    SetRoots(u8),
    Notify,
    Close,
    Wait(u16),
    WaitForDeadline,
    Poll(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let shape = prop_oneof![
        8 => Just(Shape::Good),
        1 => prop_oneof![Just(-32601), Just(-32602), Just(-32603), Just(-32022)].prop_map(Shape::Error),
        1 => Just(Shape::Nonsense),
        1 => Just(Shape::StringId),
        1 => Just(Shape::ErrorWithoutId),
        1 => Just(Shape::Twice),
        1 => Just(Shape::InBatch),
        2 => Just(Shape::WantsInput),
        3 => (0..5_usize).prop_map(Shape::Task),
    ];
    let flood = prop::sample::select(vec![
        Flood::Pings,
        Flood::Roots,
        Flood::Questions,
        Flood::Unknown,
        Flood::Logs,
        Flood::ListChanged,
        Flood::Noise,
    ]);
    let former = prop::sample::select(vec![
        Former::Opened,
        Former::OpenFailed,
        Former::Closed,
        Former::SignOfLife,
        Former::ProtocolViolation,
        Former::Message,
    ]);
    let stale = prop_oneof![
        2 => Just(Stale::OldResult),
        2 => Just(Stale::SecondResult),
        1 => Just(Stale::SecondError),
        4 => former.prop_map(Stale::Former),
        1 => Just(Stale::Agreed),
        1 => Just(Stale::Ping),
        1 => Just(Stale::ListChanged),
    ];
    prop_oneof![
        2 => Just(Op::Open),
        4 => Just(Op::Opened),
        1 => any::<bool>().prop_map(Op::OpenFailed),
        2 => Just(Op::TransportClosed),
        1 => Just(Op::SignOfLife),
        4 => Just(Op::Connect),
        4 => Just(Op::Serve),
        2 => Just(Op::Agree),
        1 => Just(Op::Authorized),
        24 => (any::<bool>(), shape).prop_map(|(oldest, shape)| Op::Answer(oldest, shape)),
        3 => (0..5_u8, 0..4_u8).prop_map(|(what, id)| Op::ServerAsks(what, id)),
        1 => (0..4_u8).prop_map(Op::ServerTakesBack),
        2 => (0..4_u8).prop_map(Op::ListChanged),
        1 => Just(Op::Progress),
        2 => (0..6_u8).prop_map(Op::Noise),
        1 => (flood, 1..300_u16).prop_map(|(what, count)| Op::Flood(what, count)),
        8 => (stale, any::<u8>()).prop_map(|(what, which)| Op::Stale(what, which)),
        6 => (0..6_u8).prop_map(Op::Request),
        2 => (0..8_u8).prop_map(Op::Cancel),
        2 => (0..4_u8, any::<bool>()).prop_map(|(ask, ok)| Op::AnswerAsk(ask, ok)),
        2 => (0..4_u8, any::<bool>()).prop_map(|(which, given)| Op::Provide(which, given)),
        1 => (0..4_u8).prop_map(Op::Refresh),
        1 => (0..4_u8).prop_map(Op::Subscribe),
        1 => (0..4_u8).prop_map(Op::Unsubscribe),
        1 => Just(Op::SetLevel),
        1 => any::<u8>().prop_map(Op::SetRoots),
        1 => Just(Op::Notify),
        1 => Just(Op::Close),
        3 => (0..5000_u16).prop_map(Op::Wait),
        3 => Just(Op::WaitForDeadline),
        8 => (1..20_u8).prop_map(Op::Poll),
    ]
}

/// A client, a second client with the same inputs, and the expected state.
struct World {
    session: Client<Messages>,
    twin: Client<Messages>,
    /// Only the first client gets stale input; the second shows that it makes no difference.
    gets_stale_input: bool,
    /// Messages of the server, each of which is spelled in another way than the one before.
    heard: usize,
    /// The maximum number of actions, and of bytes in them, per input, if measured.
    most: Option<(usize, usize)>,
    now: Time,
    accepted: Vec<RequestId>,
    finished: BTreeMap<RequestId, usize>,
    ids: BTreeSet<u64>,
    /// The ids of this connection, and those that were answered or cancelled.
    current: Vec<u64>,
    over: Vec<u64>,
    /// The ids of earlier connections.
    old: Vec<u64>,
    /// Requests of this connection without a response.
    open: Vec<Value>,
    /// Ids of server requests of this connection, and how many with each id need a response.
    asked: BTreeMap<String, usize>,
    /// The id of the server requests in the message that ended the connection, and how many of them may have been
    /// accepted.
    overrunning: Option<(String, usize)>,
    /// The id of the last flood of requests.
    last_flood: u64,
    asks: Vec<ServerRequestId>,
    asks_ended: usize,
    wanting: Vec<RequestId>,
    /// The transport was requested, and its result is not reported yet.
    opening: bool,
    connected: bool,
    /// The connections of all `Open` actions.
    connections: Vec<ConnectionId>,
    /// A shutdown of the transport was requested.
    shut: bool,
    closed: Option<Cause>,
}

impl World {
    fn new(options: Options, seed: u64) -> Self {
        let session = Client::new(Messages::new(), options, seed);
        Self {
            twin: session.clone(),
            session,
            gets_stale_input: false,
            heard: 0,
            most: None,
            now: Time::ZERO,
            accepted: vec![],
            finished: BTreeMap::new(),
            ids: BTreeSet::new(),
            current: vec![],
            over: vec![],
            old: vec![],
            open: vec![],
            asked: BTreeMap::new(),
            overrunning: None,
            last_flood: 1000,
            asks: vec![],
            asks_ended: 0,
            wanting: vec![],
            opening: false,
            connected: false,
            connections: vec![],
            shut: false,
            closed: None,
        }
    }

    /// Gives the command to both clients. A refused command must change nothing.
    fn command<T: std::fmt::Debug>(
        &mut self,
        command: impl Fn(&mut Client<Messages>, Time) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let before = format!("{:?}", self.session);
        let result = command(&mut self.session, self.now);
        let _ = command(&mut self.twin, self.now);
        if result.is_err() {
            assert_eq!(before, format!("{:?}", self.session), "a refused command changed something");
        }
        result
    }

    /// Input of this many bytes.
    fn input(&mut self, bytes: usize, input: impl Fn(&mut Client<Messages>, Time)) {
        if self.most.is_some() {
            self.poll(usize::MAX);
        }
        input(&mut self.session, self.now);
        input(&mut self.twin, self.now);
        if let Some((actions, more)) = self.most {
            let out = waiting(&self.session);
            assert!(out.len() <= actions, "{} actions after one input, not {actions}: {out:#?}", out.len());
            let out_bytes: usize = out.iter().map(weight).sum();
            assert!(out_bytes <= 2 * bytes + more, "{out_bytes} bytes after an input of {bytes}, beyond {more} more");
        }
    }

    fn receive(&mut self, message: &Value) {
        self.heard += 1;
        let text = Spelling::ALL[self.heard % Spelling::ALL.len()].spell(&message.to_string());
        self.input(text.len(), |session, now| session.deliver(now, text.as_bytes()));
    }

    /// Input without an effect.
    fn stale_input(&mut self, bytes: usize, input: impl Fn(&mut Client<Messages>, Time)) {
        if self.gets_stale_input {
            input(&mut self.session, self.now);
        } else {
            self.input(bytes, input);
        }
    }

    fn transport_gone(&mut self) {
        (self.opening, self.connected, self.shut) = (false, false, false);
        self.open.clear();
        self.asked.clear();
        self.overrunning = None;
        self.old.append(&mut self.current);
        self.over.clear();
    }

    /// Whether the server is connected.
    fn is_up(&self) -> bool {
        let ends = |action: &Action| {
            matches!(
                action,
                Action::Shutdown(_) | Action::Open(_) | Action::Event(Event::Down { .. } | Event::Closed { .. })
            )
        };
        self.connected && !self.shut && self.closed.is_none() && !waiting(&self.session).iter().any(ends)
    }

    fn is_legacy(&self) -> bool {
        self.session.options().eras == Eras::LegacyOnly
    }

    fn poll(&mut self, most: usize) {
        for _ in 0..most {
            let action = next(&mut self.session, self.gets_stale_input);
            let twin = next(&mut self.twin, self.gets_stale_input);
            assert_eq!(format!("{action:?}"), format!("{twin:?}"), "equal inputs, different outputs");
            let Some(action) = action else {
                assert_eq!(self.session.deadline(), self.twin.deadline());
                return;
            };
            assert_eq!(self.closed, None, "{action:?} after the end");
            match action {
                Action::Open(connection) => {
                    assert!(
                        self.connections.last().is_none_or(|last| *last < connection),
                        "a connection id is used twice"
                    );
                    self.connections.push(connection);
                    self.transport_gone();
                    self.opening = true;
                }
                Action::Send(message) => {
                    assert!(self.connected && !self.shut, "a message without a connection");
                    let value: Value = serde_json::from_slice(message.bytes()).unwrap();
                    self.sent(value);
                }
                Action::Shutdown(how) => {
                    // A connected server gets its responses first.
                    if how == ShutdownStep::CloseInput && self.is_legacy() {
                        self.assert_answered();
                    }
                    self.shut = true;
                }
                Action::Event(Event::Finished { request, outcome, .. }) => {
                    assert!(self.accepted.contains(&request));
                    *self.finished.entry(request).or_default() += 1;
                    let sent =
                        self.open.iter().any(|open| format!("RequestId({})", open["id"]) == format!("{request:?}"));
                    assert!(!(sent && matches!(outcome, Outcome::NotSent)), "it was sent");
                }
                Action::Event(Event::ServerRequest { id: ask, .. }) => self.asks.push(ask),
                Action::Event(Event::ServerRequestEnded { .. }) => self.asks_ended += 1,
                Action::Event(Event::InputRequired { request, .. }) => self.wanting.push(request),
                Action::Event(Event::Closed { cause }) => self.closed = Some(cause),
                _ => {}
            }
        }
    }

    fn sent(&mut self, value: Value) {
        match (value.get("method"), value.get("id")) {
            (Some(_), Some(id)) => {
                let number = id.as_u64().unwrap();
                assert!(self.ids.insert(number), "an id was used twice: {value}");
                self.current.push(number);
                self.open.push(value);
            }
            (None, Some(id)) => {
                let id = id.to_string();
                let waiting = match &mut self.overrunning {
                    Some((overrunning, accepted)) if *overrunning == id => accepted,
                    _ => self.asked.get_mut(&id).expect("a response to a known server request"),
                };
                assert!(*waiting > 0, "answered twice: {value}");
                *waiting -= 1;
            }
            (_, None) => self.over.extend(value["params"]["requestId"].as_u64()),
        }
    }

    /// Receives a message with `count` server requests of this id.
    fn ask(&mut self, id: u64, message: &Value, count: usize) {
        let up = self.is_up();
        self.receive(message);
        if up && self.is_up() {
            *self.asked.entry(id.to_string()).or_default() += count;
        } else if up {
            // More requests than queued responses may exist end the connection. At least the last request was not
            // accepted.
            self.overrunning = (count > 1).then(|| (id.to_string(), count - 1));
        }
    }

    fn assert_answered(&self) {
        assert!(self.asked.values().all(|waiting| *waiting == 0), "not answered: {:?}", self.asked);
    }

    fn answer(&mut self, oldest: bool, shape: Shape) {
        if self.open.is_empty() {
            return;
        }
        let request = if oldest { self.open.remove(0) } else { self.open.pop().unwrap() };
        let id = &request["id"];
        let good = json!({"jsonrpc": "2.0", "id": id, "result": result(&request)});
        // It may be taken for a response to another request, or to none.
        if !matches!(shape, Shape::ErrorWithoutId) {
            self.over.extend(id.as_u64());
        }
        match shape {
            Shape::Good => self.receive(&good),
            Shape::Error(code) => {
                self.receive(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}));
            }
            Shape::Nonsense => self.receive(&json!({"jsonrpc": "2.0", "id": id, "result": [1, null]})),
            Shape::StringId => {
                self.receive(&json!({"jsonrpc": "2.0", "id": id.to_string(), "result": result(&request)}));
            }
            Shape::ErrorWithoutId => {
                self.receive(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "no"}}));
            }
            Shape::Twice => {
                self.receive(&good);
                self.receive(&good);
            }
            Shape::InBatch => self.receive(&json!([good, 7, {"jsonrpc": "2.0", "method": "notifications/x"}])),
            Shape::Task(status) => {
                let wants = json!({"k": {"method": "elicitation/create", "params": {"message": "?"}}});
                let status = ["working", "input_required", "completed", "failed", "cancelled"][status];
                let (kind, task) = match request["method"].as_str().unwrap() {
                    "tools/call" => ("task", json!(format!("t-{id}"))),
                    "tasks/get" => ("complete", request["params"]["taskId"].clone()),
                    _ => return self.receive(&good),
                };
                let result = json!({"resultType": kind, "taskId": task, "status": status, "inputRequests": wants,
                    "result": {"content": []}});
                self.receive(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
            Shape::WantsInput => {
                let method = request["method"].as_str().unwrap();
                if matches!(method, "tools/call" | "prompts/get" | "resources/read" | "vendor/thing") {
                    let wants = json!({"k": {"method": "elicitation/create", "params": {"message": "?"}}});
                    let result = json!({"resultType": "input_required", "inputRequests": wants, "requestState": "s"});
                    self.receive(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                } else {
                    self.receive(&good);
                }
            }
        }
    }

    fn serve(&mut self) {
        self.poll(usize::MAX);
        let mut steps = Steps::until("nothing is left to answer");
        while self.is_up() && !self.open.is_empty() {
            steps.step();
            self.answer(true, Shape::Good);
            self.poll(usize::MAX);
        }
    }

    fn flood(&mut self, what: Flood, count: u16) {
        let count = usize::from(count);
        // No other message has this id, so its requests are distinct.
        self.last_flood += 1;
        let id = self.last_flood;
        let ask = |method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
        match what {
            Flood::Pings => self.ask(id, &vec![ask("ping"); count].into(), count),
            Flood::Roots => self.ask(id, &vec![ask("roots/list"); count].into(), count),
            Flood::Questions => self.ask(id, &vec![ask("elicitation/create"); count].into(), count),
            Flood::Unknown => {
                let asks = (0..count).map(|number| ask(&format!("{number} {}", "vendor/x".repeat(100))));
                self.ask(id, &asks.collect(), count);
            }
            Flood::Logs => {
                let log =
                    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x".repeat(200)}});
                self.receive(&vec![log; count].into());
            }
            Flood::ListChanged => {
                let families = ["tools", "prompts", "resources"].iter().cycle().take(count);
                let changed = families
                    .map(|family| json!({"jsonrpc": "2.0", "method": format!("notifications/{family}/list_changed")}));
                self.receive(&changed.collect());
            }
            Flood::Noise => self.receive(&vec![7; count].into()),
        }
    }

    fn stale(&mut self, what: Stale, which: u8) {
        let pick = |ids: &[u64]| ids.get(usize::from(which) % ids.len().max(1)).copied();
        let of_old = pick(&self.old);
        let over = pick(&self.over);
        let result = |id| json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "stale"}]}});
        let error = |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "stale"}});
        let message = match what {
            Stale::OldResult => of_old.map(result),
            Stale::SecondResult => over.map(result),
            Stale::SecondError => over.map(error),
            Stale::Former(former) => {
                let connections = &self.connections[..self.connections.len().saturating_sub(1)];
                if let Some(connection) = connections.get(usize::from(which) % connections.len().max(1)).copied() {
                    self.stale_input(0, |session, now| former.report(session, now, connection));
                }
                return;
            }
            Stale::Agreed => over.or(of_old).map(|id| agreed(&json!(id))),
            Stale::Ping if !self.is_up() => Some(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})),
            Stale::ListChanged if !self.is_up() => {
                Some(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
            }
            Stale::Ping | Stale::ListChanged => None,
        };
        if let Some(message) = message {
            let text = message.to_string();
            self.stale_input(text.len(), |session, now| session.deliver(now, text.as_bytes()));
        }
    }

    fn apply(&mut self, op: &Op) {
        if self.most.is_some() {
            self.poll(usize::MAX);
        }
        match *op {
            Op::Open => {
                let _ = self.command(|session, now| session.open(now));
            }
            Op::Opened => {
                // The embedder reports only what it was asked to do, so it polls first.
                self.poll(usize::MAX);
                self.connected |= self.opening;
                self.opening = false;
                self.input(0, |session, now| session.report(now, Transport::Opened));
            }
            Op::OpenFailed(spawn) => {
                self.opening = false;
                let how = if spawn { OpenFailure::Spawn } else { OpenFailure::Connect };
                self.input(0, |session, now| session.report(now, Transport::OpenFailed { how, why: "no" }));
            }
            Op::TransportClosed => {
                self.transport_gone();
                self.input(0, |session, now| session.report(now, Transport::Closed { why: "gone" }));
            }
            Op::SignOfLife => self.input(0, |session, now| session.report(now, Transport::SignOfLife)),
            Op::Connect => {
                self.poll(usize::MAX);
                for _ in 0..3 {
                    if !self.opening && !self.connected {
                        self.settle();
                    }
                }
                if self.opening {
                    self.apply(&Op::Opened);
                    self.serve();
                }
            }
            Op::Answer(oldest, shape) => self.answer(oldest, shape),
            Op::Serve => self.serve(),
            Op::Agree => {
                let mut asked = self.open.iter().rev().filter(|request| request["method"] == "subscriptions/listen");
                if let Some(id) = asked.next().map(|request| request["id"].clone()) {
                    self.receive(&agreed(&id));
                }
            }
            Op::Authorized => {
                let _ = self.command(|session, now| session.authorized(now));
            }
            Op::ServerAsks(what, id) => {
                let method =
                    ["ping", "roots/list", "elicitation/create", "sampling/createMessage", "x/y"][usize::from(what)];
                let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "?"}});
                self.ask(id.into(), &message, 1);
            }
            Op::ServerTakesBack(id) => {
                self.poll(usize::MAX);
                let ended = self.asks_ended;
                let params = json!({"requestId": id});
                self.receive(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
                self.poll(usize::MAX);
                if let Some(waiting) = self.asked.get_mut(&id.to_string()) {
                    *waiting -= self.asks_ended - ended;
                }
            }
            Op::ListChanged(which) => {
                let family = ["tools", "prompts", "resources", "tools"][usize::from(which)];
                self.receive(&json!({"jsonrpc": "2.0", "method": format!("notifications/{family}/list_changed")}));
            }
            Op::Progress => {
                let token = self.open.last().map_or(json!("none"), |request| request["id"].clone());
                let params = json!({"progressToken": token, "progress": 1});
                self.receive(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
            }
            Op::Noise(which) => {
                let text = ["", "}", "[]", "7", "{\"id\":1}", "{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{}}"];
                let text = text[usize::from(which)];
                self.input(text.len(), |session, now| session.deliver(now, text.as_bytes()));
            }
            Op::Flood(what, count) => self.flood(what, count),
            Op::Stale(what, which) => self.stale(what, which),
            Op::Request(which) => {
                let which = usize::from(which);
                let method =
                    ["tools/call", "prompts/get", "resources/read", "vendor/thing", "tools/call", "tools/call"][which];
                let accepted = self.command(|session, now| {
                    let params = RawValue::from_string("{\n\t\"name\":\r\n\"\\u0078\"}".into()).unwrap();
                    let request = Request::new(method).params(params).timeout(Duration::from_secs(7));
                    session.request(now, if which >= 4 { request.progress(true).replay(which == 4) } else { request })
                });
                self.accepted.extend(accepted);
            }
            Op::Cancel(which) => {
                if let Some(request) = self.accepted.iter().rev().nth(usize::from(which)).copied() {
                    let _ = self.command(|session, now| session.cancel(now, request));
                }
            }
            Op::AnswerAsk(which, ok) => {
                if let Some(ask) = self.asks.iter().rev().nth(usize::from(which)).copied() {
                    let result = RawValue::from_string(if ok { "{\n}" } else { "[\r\n]" }.into()).unwrap();
                    let _ = self.command(|session, now| session.respond(now, ask, Ok(&result)));
                }
            }
            Op::Provide(which, given) => {
                if let Some(request) = self.wanting.iter().rev().nth(usize::from(which)).copied() {
                    let response = RawValue::from_string("{\"action\":\n\"decline\"}".into()).unwrap();
                    let _ = self.command(|session, now| {
                        if given {
                            session.provide(now, request, [("k", &*response)])
                        } else {
                            session.decline(now, request)
                        }
                    });
                }
            }
            Op::Refresh(which) => {
                let _ = self.command(|session, now| session.refresh(now, Family::ALL[usize::from(which)]));
            }
            Op::Subscribe(which) => {
                let _ = self.command(|session, now| session.subscribe(now, &format!("r:{which}")));
            }
            Op::Unsubscribe(which) => {
                let _ = self.command(|session, now| session.unsubscribe(now, &format!("r:{which}")));
            }
            Op::SetLevel => {
                let _ = self.command(|session, now| session.set_log_level(now, LogLevel::Error));
            }
            Op::SetRoots(which) => {
                let roots = vec![Root::new(format!("file:///{which}"))];
                let _ = self.command(|session, now| session.set_roots(now, roots.clone()));
            }
            Op::Notify => {
                let _ = self.command(|session, now| session.notify(now, "notifications/example", None));
            }
            Op::Close => {
                let _ = self.command(|session, now| session.close(now));
            }
            Op::Wait(millis) => {
                self.now = self.now + Duration::from_millis(millis.into());
                self.input(0, |session, now| session.handle_timeout(now));
            }
            Op::WaitForDeadline => {
                self.poll(usize::MAX);
                self.settle();
            }
            Op::Poll(most) => self.poll(usize::from(most)),
        }
    }

    /// Advances to the next deadline. After a timeout and polling, the next deadline is later.
    fn settle(&mut self) {
        let Some(deadline) = self.session.deadline() else { return };
        self.now = self.now.max(deadline);
        for _ in 0..100 {
            self.input(0, |session, now| session.handle_timeout(now));
            self.poll(usize::MAX);
            if self.session.deadline().is_none_or(|deadline| deadline > self.now) {
                return;
            }
        }
        panic!("the deadline does not advance: {:?}", self.session);
    }

    /// The connection stays open until the embedder has answered: then the server has all responses.
    fn answer_everything(&mut self) {
        let end = self.now + self.session.options().timeouts.server_request;
        self.poll(usize::MAX);
        let mut steps = Steps::until("the time to answer is over");
        while self.is_up() && self.now <= end {
            steps.step();
            self.serve();
            if self.session.deadline().is_none() {
                break;
            }
            self.settle();
        }
        if self.is_up() {
            self.assert_answered();
        }
    }

    /// Closes the session, and checks that everything ends.
    fn end(mut self, answer_everything: bool) {
        if answer_everything && self.is_legacy() {
            self.answer_everything();
        }
        let _ = self.command(|session, now| session.close(now));
        self.poll(usize::MAX);
        for _ in 0..10 {
            self.settle();
        }
        assert!(self.session.is_closed(), "{:?}", self.session);
        assert!(self.session.quirks().len() <= self.session.options().limits.quirks);
        assert!(self.closed.is_some());
        for request in &self.accepted {
            assert_eq!(self.finished.get(request), Some(&1), "{request:?} did not end once");
        }
        let ends = [
            Op::Open,
            Op::Opened,
            Op::Noise(5),
            Op::ServerAsks(0, 1),
            Op::TransportClosed,
            Op::Wait(60_000),
            Op::Close,
        ];
        for op in ends {
            self.apply(&op);
            assert_eq!(self.session.poll().map(|action| format!("{action:?}")), None, "{op:?}");
            assert_eq!(self.session.deadline(), None);
        }
    }
}

/// The outputs that are ready.
fn waiting(session: &Client<Messages>) -> Vec<Action> {
    let mut session = session.clone();
    std::iter::from_fn(|| session.poll()).collect()
}

/// Polls. For the client with stale input, quirks about it are skipped.
fn next(session: &mut Client<Messages>, gets_stale_input: bool) -> Option<Action> {
    let remark = |action: &Action| matches!(action, Action::Event(Event::Quirk(quirk)) if gets_stale_input && quirk.kind == QuirkKind::UnknownId);
    std::iter::from_fn(|| session.poll()).find(|action| !remark(action))
}

/// The size of an action in bytes.
fn weight(action: &Action) -> usize {
    let raw = |params: &Option<Box<RawValue>>| params.as_ref().map_or(0, |params| params.get().len());
    match action {
        Action::Send(message) => message.bytes().len(),
        Action::Event(Event::Finished {
            outcome: Outcome::Result(result) | Outcome::InputRequired(result), ..
        }) => result.get().len(),
        Action::Event(Event::Finished { outcome: Outcome::Error(RequestError::Server(error)), .. }) => {
            error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len())
        }
        Action::Event(Event::Finished { outcome: Outcome::Error(RequestError::Invalid(why)), .. }) => why.len(),
        Action::Event(Event::InputRequired { inputs, .. }) => {
            inputs.iter().map(|input| input.key.len() + input.method.as_str().len() + raw(&input.params)).sum()
        }
        Action::Event(Event::ServerRequest { params, .. }) => raw(params),
        Action::Event(Event::Notification { method, params }) => method.len() + raw(params),
        Action::Event(Event::Progress { progress, .. }) => progress.raw().get().len(),
        Action::Event(Event::CatalogChanged { difference, .. }) => {
            let keys = [&difference.added, &difference.removed, &difference.changed];
            keys.into_iter().flatten().map(|key| key.len()).sum()
        }
        Action::Event(Event::Quirk(quirk)) => {
            quirk.detail.len() + quirk.method.as_ref().map_or(0, |method| method.len())
        }
        Action::Event(Event::Down { failure, .. }) => failure.message.len(),
        _ => 0,
    }
}

/// The server accepts the stream of this id.
fn agreed(id: &Value) -> Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    let notifications = json!({"toolsListChanged": true, "resourceSubscriptions": ["r:0", "r:1"]});
    let params = json!({"_meta": meta, "notifications": notifications});
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
}

/// The result of a request, in either era.
fn result(request: &Value) -> Value {
    let capabilities =
        json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
    crate::common::result(request["method"].as_str().unwrap(), &request["params"], "2025-06-18", &capabilities)
}

#[derive(Clone, Debug)]
struct Setup {
    eras: Eras,
    offers: bool,
    reconnects: bool,
    in_flight: usize,
    seed: u64,
}

impl Setup {
    fn options(&self) -> Options {
        let mut options = Options::new("laws", "1");
        options.eras = self.eras;
        options.capabilities.elicitation = self.offers;
        options.capabilities.sampling = self.offers;
        options.capabilities.tasks = self.offers;
        options.capabilities.roots = self.offers.then(roots);
        options.reconnect = self.reconnects.then(Reconnect::default);
        options.limits.in_flight = self.in_flight;
        options.limits.queued = 6;
        options.limits.server_requests = 2;
        options.limits.subscriptions = 3;
        options.limits.output = 40;
        options.limits.output_bytes = 1 << 14;
        options.limits.quirks = 8;
        options
    }
}

fn setup() -> impl Strategy<Value = Setup> {
    let eras = prop_oneof![
        4 => Just(Eras::Auto),
        1 => Just(Eras::LegacyFirst),
        2 => Just(Eras::LegacyOnly),
        1 => Just(Eras::ModernOnly(mcp_proto::ProtocolVersion::V2026_07_28)),
    ];
    let rest = (any::<bool>(), any::<bool>(), 1..6_usize, any::<u64>());
    (eras, rest).prop_map(|(eras, (offers, reconnects, in_flight, seed))| Setup {
        eras,
        offers,
        reconnects,
        in_flight,
        seed,
    })
}

/// Enough roots that a response with them is much longer than the request.
fn roots() -> Vec<Root> {
    let root = |number| Root::new(format!("file:///project/{number}/{}", "x".repeat(80)));
    (0..100).map(root).collect()
}

/// The limits of the output for one input: actions, and bytes beside twice its own size.
fn most(options: &Options) -> (usize, usize) {
    let limits = options.limits;
    // Unsolicited outputs are limited. Each request ends and is reported, each server request is answered and ends.
    let actions = limits.output
        + 2 * (limits.in_flight + limits.queued + limits.server_requests + limits.subscriptions)
        + limits.quirks
        + 32;
    let roots = options.capabilities.roots.iter().flatten().map(|root| root.uri.len() + 20).sum::<usize>();
    (actions, limits.output_bytes + roots + 1024 * actions)
}

/// How a server answers requests for its lists.
#[derive(Clone, Copy, Debug)]
enum Behavior {
    Fine,
    Refuses(i64),
    /// Only requests with a cursor.
    RefusesCursors,
    Nonsense,
    Silent,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add,
    Remove(u8),
    Alter(u8),
}

#[derive(Clone, Debug)]
enum ListOp {
    /// Changes a list. The server sends the notification at once, or later.
    Change(u8, Change, bool),
    /// The server sends this many notifications of a changed list.
    Tell(u8, u8),
    Behavior(Behavior),
    /// This many of its messages arrive, in order or the last one first.
    Arrive(u8, bool),
    Lose,
    /// The stream of notifications ends.
    EndStream,
    Opened(bool),
    Refresh(u8),
    Call,
    Wait(u32),
}

fn list_op() -> impl Strategy<Value = ListOp> {
    let change = prop_oneof![
        2 => Just(Change::Add),
        1 => any::<u8>().prop_map(Change::Remove),
        1 => any::<u8>().prop_map(Change::Alter),
    ];
    let behavior = prop_oneof![
        4 => Just(Behavior::Fine),
        1 => prop_oneof![Just(-32603), Just(-32602), Just(1)].prop_map(Behavior::Refuses),
        1 => Just(Behavior::RefusesCursors),
        1 => Just(Behavior::Nonsense),
        1 => Just(Behavior::Silent),
    ];
    prop_oneof![
        6 => (0..4_u8, change, any::<bool>()).prop_map(|(family, change, tell)| ListOp::Change(family, change, tell)),
        2 => (0..4_u8, 1..20_u8).prop_map(|(family, times)| ListOp::Tell(family, times)),
        3 => behavior.prop_map(ListOp::Behavior),
        10 => (1..6_u8, any::<bool>()).prop_map(|(count, in_order)| ListOp::Arrive(count, in_order)),
        2 => Just(ListOp::Lose),
        1 => Just(ListOp::EndStream),
        4 => prop::bool::weighted(0.8).prop_map(ListOp::Opened),
        1 => (0..4_u8).prop_map(ListOp::Refresh),
        1 => Just(ListOp::Call),
        6 => (0..3000_u32).prop_map(ListOp::Wait),
        1 => (0..120_000_u32).prop_map(ListOp::Wait),
    ]
}

/// The start of a random run.
#[derive(Clone, Copy, Debug)]
struct Scene {
    keepalive: bool,
    in_flight: usize,
    seed: u64,
    /// Items in a page, and in each list.
    page: usize,
    lists: [u8; 4],
}

fn setting() -> impl Strategy<Value = Scene> {
    let parts = (any::<bool>(), 1..6_usize, any::<u64>(), 1..4_usize, prop::array::uniform4(0..4_u8));
    parts.prop_map(|(keepalive, in_flight, seed, page, lists)| Scene { keepalive, in_flight, seed, page, lists })
}

/// A client, and a server with lists that change at random.
struct ListSimulation {
    session: Client<Messages>,
    now: Time,
    modern: bool,
    behavior: Behavior,
    /// The current lists: each item's name and its number of changes.
    lists: [Vec<(String, u32)>; 4],
    last_name: u32,
    page: usize,
    /// Messages that have not arrived yet.
    wire: Vec<Value>,
    opening: bool,
    connected: bool,
    /// The id of the stream on which a modern server sends notifications.
    stream: Option<Value>,
    /// The notifications that the server has to send.
    owed: BTreeSet<&'static str>,
    /// The lists according to the reported changes, once the session was ready.
    reported: Option<Vec<BTreeSet<String>>>,
}

const CHANGED: [&str; 4] = ["tools", "prompts", "resources", "resources"];

impl ListSimulation {
    fn new(modern: bool, server: Scene) -> Self {
        let mut options = Options::new("simulation", "1");
        options.eras = if modern { Eras::Auto } else { Eras::LegacyOnly };
        options.keepalive = server.keepalive.then(Keepalive::default);
        options.limits.in_flight = server.in_flight;
        let mut simulation = Self {
            session: Client::new(Messages::new(), options, server.seed),
            now: Time::ZERO,
            modern,
            behavior: Behavior::Fine,
            lists: Default::default(),
            last_name: 0,
            page: server.page,
            wire: vec![],
            opening: false,
            connected: false,
            stream: None,
            owed: BTreeSet::new(),
            reported: None,
        };
        for (family, count) in server.lists.into_iter().enumerate() {
            (0..count).for_each(|_| simulation.change(family, Change::Add));
        }
        simulation.session.open(simulation.now).unwrap();
        simulation.settle();
        assert!(simulation.reported.is_some(), "{:?}", simulation.session);
        simulation
    }

    fn change(&mut self, family: usize, change: Change) {
        let list = &mut self.lists[family];
        match change {
            Change::Add => {
                self.last_name += 1;
                list.push((format!("item:{}", self.last_name), 0));
            }
            Change::Remove(which) if !list.is_empty() => drop(list.remove(usize::from(which) % list.len())),
            Change::Alter(which) if !list.is_empty() => {
                let at = usize::from(which) % list.len();
                list[at].1 += 1;
            }
            Change::Remove(_) | Change::Alter(_) => return,
        }
        // Clients that connect or open a stream later get the current lists.
        if self.connected && (!self.modern || self.stream.is_some()) {
            self.owed.insert(CHANGED[family]);
        }
    }

    fn tell(&mut self, what: &'static str) {
        self.owed.remove(what);
        let params = match &self.stream {
            Some(id) => json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}}),
            None if self.modern => return,
            None => json!({}),
        };
        let method = format!("notifications/{what}/list_changed");
        self.wire.push(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn item(&self, family: Family, (name, altered): &(String, u32)) -> Value {
        let mut item = json!({(family.key()): name, "description": altered});
        if family == Family::Tools {
            item["inputSchema"] = json!({"type": "object"});
        }
        item
    }

    fn list(&self, family: Family, cursor: &Value) -> Result<Value, i64> {
        match self.behavior {
            Behavior::Refuses(code) => return Err(code),
            Behavior::RefusesCursors if !cursor.is_null() => return Err(-32602),
            Behavior::Nonsense => return Ok(json!({(family.member()): "nonsense"})),
            Behavior::Fine | Behavior::RefusesCursors | Behavior::Silent => {}
        }
        let at: usize = cursor.as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let list = &self.lists[Family::ALL.iter().position(|listed| *listed == family).unwrap()];
        let items: Vec<_> = list.iter().skip(at).take(self.page).map(|item| self.item(family, item)).collect();
        let next = if at + self.page < list.len() { json!((at + self.page).to_string()) } else { Value::Null };
        Ok(json!({"resultType": "complete", (family.member()): items, "nextCursor": next}))
    }

    fn serve(&mut self, message: &Value) {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        let Some(id) = message.get("id") else {
            if method == "notifications/cancelled" && self.stream == Some(params["requestId"].clone()) {
                self.stream = None;
                self.owed.clear();
            }
            return;
        };
        let changes = json!({"listChanged": true});
        let capabilities = json!({"tools": changes, "prompts": changes, "resources": changes});
        let family = Family::ALL.iter().copied().find(|family| family.list_method() == method);
        let result = match (method, family) {
            ("initialize", _) if self.modern => Err(-32022),
            ("initialize", _) => Ok(json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": capabilities,
                "serverInfo": {"name": "s", "version": "1"}
            })),
            ("server/discover", _) if self.modern => Ok(json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities
            })),
            ("subscriptions/listen", _) if self.modern => {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
                let agreed = json!({"_meta": meta, "notifications": params["notifications"]});
                let method = "notifications/subscriptions/acknowledged";
                self.wire.push(json!({"jsonrpc": "2.0", "method": method, "params": agreed}));
                self.stream = Some(id.clone());
                return;
            }
            ("ping" | "tools/call", _) => Ok(json!({"resultType": "complete"})),
            (_, Some(_)) if matches!(self.behavior, Behavior::Silent) => return,
            (_, Some(family)) => self.list(family, &params["cursor"]),
            _ => Err(-32601),
        };
        self.wire.push(match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(code) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}),
        });
    }

    fn gone(&mut self) {
        (self.connected, self.stream) = (false, None);
        self.wire.clear();
        self.owed.clear();
    }

    fn collect(&mut self) {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.session.poll() {
            steps.step();
            match action {
                Action::Open(_) => {
                    self.gone();
                    self.opening = true;
                }
                Action::Send(message) => {
                    assert!(self.connected);
                    self.serve(&serde_json::from_slice(message.bytes()).unwrap());
                }
                Action::Shutdown(_) if self.connected => {
                    self.gone();
                    self.session.report(self.now, Transport::Closed { why: "shut" });
                }
                Action::Event(Event::Ready) if self.reported.is_none() => self.reported = Some(self.keys()),
                Action::Event(Event::CatalogChanged { family, difference }) => {
                    let at = Family::ALL.iter().position(|listed| *listed == family).unwrap();
                    let reported =
                        &mut self.reported.as_mut().expect("changes are reported once the session was ready")[at];
                    for key in &difference.removed {
                        assert!(reported.remove(&**key), "{key} was removed, and had not been there");
                    }
                    for key in &difference.added {
                        assert!(reported.insert((&**key).into()), "{key} was added, and had been there");
                    }
                    assert!(difference.changed.iter().all(|key| reported.contains(&**key)));
                }
                Action::Event(Event::Closed { cause }) => panic!("{cause:?}"),
                _ => {}
            }
        }
    }

    fn keys(&self) -> Vec<BTreeSet<String>> {
        let keys = |family| self.session.catalog().list(family).iter().map(|(key, _)| key.to_owned()).collect();
        Family::ALL.iter().copied().map(keys).collect()
    }

    fn opened(&mut self, opened: bool) {
        if std::mem::take(&mut self.opening) {
            self.connected = opened;
            let failed = Transport::OpenFailed { how: OpenFailure::Connect, why: "not yet" };
            self.session.report(self.now, if opened { Transport::Opened } else { failed });
            self.collect();
        }
    }

    fn arrive(&mut self, in_order: bool) {
        if !self.wire.is_empty() {
            let message = self.wire.remove(if in_order { 0 } else { self.wire.len() - 1 });
            self.session.deliver(self.now, message.to_string().as_bytes());
            self.collect();
        }
    }

    /// All messages arrive, and requested connections open.
    fn settle(&mut self) {
        self.collect();
        let mut steps = Steps::until("everything arrived");
        while self.opening || !self.wire.is_empty() {
            steps.step();
            self.opened(true);
            self.arrive(true);
        }
    }

    /// Advances the time while the server answers.
    fn wait(&mut self, time: Duration, settle: bool) {
        let end = self.now + time;
        let mut steps = Steps::until("no deadline is left within the time to wait");
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            steps.step();
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            self.collect();
            if settle {
                self.settle();
            }
        }
        self.now = end;
        self.session.handle_timeout(self.now);
        self.collect();
    }

    fn apply(&mut self, list_op: &ListOp) {
        match *list_op {
            ListOp::Change(family, change, tell) => {
                let family = usize::from(family);
                self.change(family, change);
                if tell && self.owed.contains(CHANGED[family]) {
                    self.tell(CHANGED[family]);
                }
            }
            ListOp::Tell(family, times) if self.connected => {
                (0..times).for_each(|_| self.tell(CHANGED[usize::from(family)]));
            }
            ListOp::Behavior(behavior) => self.behavior = behavior,
            ListOp::Arrive(count, in_order) => (0..count).for_each(|_| self.arrive(in_order)),
            ListOp::Lose if self.connected => {
                self.gone();
                self.session.report(self.now, Transport::Closed { why: "simulation" });
                self.collect();
            }
            ListOp::EndStream => {
                if let Some(id) = self.stream.take() {
                    self.owed.clear();
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
                    let result = json!({"resultType": "complete", "_meta": meta});
                    self.wire.push(json!({"jsonrpc": "2.0", "id": id, "result": result}));
                }
            }
            ListOp::Tell(..) | ListOp::Lose => {}
            ListOp::Opened(opened) => {
                if let Some(deadline) = self.session.deadline().filter(|_| !self.opening && !self.connected) {
                    self.wait(deadline - self.now, false);
                }
                self.opened(opened);
            }
            ListOp::Refresh(family) => {
                let _ = self.session.refresh(self.now, Family::ALL[usize::from(family)]);
                self.collect();
            }
            ListOp::Call => {
                let _ = self.session.request(self.now, Request::call_tool("x", None));
                self.collect();
            }
            ListOp::Wait(millis) => self.wait(Duration::from_millis(millis.into()), false),
        }
    }

    /// The server answers correctly and sends its notifications. Each wait of the client ends within this time.
    fn answer_everything(mut self) {
        self.behavior = Behavior::Fine;
        for what in self.owed.clone() {
            self.tell(what);
        }
        self.settle();
        self.wait(Duration::from_secs(3600), true);
        assert!(self.session.is_ready(), "{:?}", self.session);
        for (family, truth) in Family::ALL.iter().copied().zip(&self.lists) {
            let report = self.session.family(family);
            assert_eq!((report.status, report.stale), (FamilyStatus::Listed, false), "{family:?}");
            let known: Vec<_> = self.session.catalog().list(family).iter().map(|(_, item)| item.to_owned()).collect();
            let truth: Vec<_> = truth.iter().map(|item| self.item(family, item).to_string()).collect();
            assert_eq!(known, truth, "{family:?}");
        }
        assert_eq!(self.reported, Some(self.keys()), "the reported changes do not match the lists");
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/laws.txt"))),
        ..ProptestConfig::default()
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..120)
}

proptest! {
    #![proptest_config(config(2000))]

    /// Each request ends once, no id is used twice, nothing follows the end, and each server request is answered once.
    #[test]
    fn hold(setup in setup(), ops in ops(), answer_everything in any::<bool>()) {
        let mut world = World::new(setup.options(), setup.seed);
        world.apply(&Op::Open);
        for op in &ops {
            world.apply(op);
        }
        world.end(answer_everything);
    }
}

proptest! {
    #![proptest_config(config(1000))]

    /// A client with stale input behaves the same as one without.
    #[test]
    fn the_output_for_one_input_is_limited(setup in setup(), ops in ops()) {
        let options = setup.options();
        let most = most(&options);
        let mut world = World::new(options, setup.seed);
        world.most = Some(most);
        world.apply(&Op::Open);
        for op in &ops {
            world.apply(op);
        }
        world.end(false);
    }
}

type Command = fn(&mut Client<Messages>, Time, &World) -> Option<Result<(), CommandError>>;

/// Each command, if something was accepted or reported that it can apply to.
const COMMANDS: &[Command] = &[
    |client, now, _| Some(client.open(now)),
    |client, now, _| Some(client.close(now)),
    |client, now, _| Some(client.request(now, Request::new("vendor/thing")).map(drop)),
    |client, now, world| world.accepted.last().map(|request| client.cancel(now, *request)),
    |client, now, _| Some(client.notify(now, "notifications/x", None)),
    |client, now, world| world.wanting.last().map(|request| client.provide(now, *request, [])),
    |client, now, world| world.wanting.last().map(|request| client.decline(now, *request)),
    |client, now, world| {
        let refusal = || Err(mcp_proto::jsonrpc::ErrorObject::new(-1, "no"));
        world.asks.last().map(|ask| client.respond(now, *ask, refusal()))
    },
    |client, now, _| Some(client.authorized(now)),
    |client, now, _| Some(client.subscribe(now, "r:0")),
    |client, now, _| Some(client.unsubscribe(now, "r:0")),
    |client, now, _| Some(client.set_log_level(now, LogLevel::Error)),
    |client, now, _| Some(client.set_roots(now, vec![Root::new("file:///x")])),
    |client, now, _| Some(client.refresh(now, Family::Tools)),
];

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn a_command_first_handles_due_deadlines_and_changes_nothing_else_if_refused(
        setup in setup(),
        ops in ops(),
        late in 1..120_000_u32,
    ) {
        let mut world = World::new(setup.options(), setup.seed);
        for op in std::iter::once(&Op::Open).chain(&ops) {
            world.apply(op);
        }
        let now = world.now + Duration::from_millis(late.into());
        let mut served = world.session.clone();
        served.handle_timeout(now);
        for (number, command) in COMMANDS.iter().enumerate() {
            let (mut client, mut expected) = (world.session.clone(), served.clone());
            let results = (command(&mut client, now, &world), command(&mut expected, now, &world));
            let (Some(result), Some(other)) = results else { continue };
            prop_assert_eq!(&result, &other, "command {}", number);
            if result.is_err() {
                let after = format!("{client:?}");
                let changed = after != format!("{:?}", world.session) && after != format!("{served:?}");
                prop_assert!(!changed, "command {} was refused and changed something", number);
            }
            let actions = (format!("{:?}", waiting(&client)), format!("{:?}", waiting(&expected)));
            prop_assert!(actions.0 == actions.1, "command {}: {} is not {}", number, actions.0, actions.1);
        }
    }
}

#[cfg(feature = "snapshot")]
proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn a_client_saved_and_restored_after_each_step_behaves_the_same(
        setup in setup(),
        ops in ops(),
    ) {
        let mut world = World::new(setup.options(), setup.seed);
        for op in std::iter::once(&Op::Open).chain(&ops) {
            world.apply(op);
            world.session = crate::moved::moved(&world.session, Messages::new(), mcp_proto::Moved::WithTransport);
            assert_eq!(format!("{:?}", world.session), format!("{:?}", world.twin));
        }
        world.end(false);
    }

    #[test]
    fn a_client_moved_without_its_transport_ends_each_request_once(
        setup in setup(),
        before in ops(),
        after in ops(),
        answer_everything in any::<bool>(),
    ) {
        let mut world = World::new(setup.options(), setup.seed);
        for op in std::iter::once(&Op::Open).chain(&before) {
            world.apply(op);
        }
        world.session = crate::moved::moved(&world.session, Messages::new(), mcp_proto::Moved::WithoutTransport);
        world.twin = world.session.clone();
        world.transport_gone();
        for op in &after {
            world.apply(op);
        }
        world.end(answer_everything);
    }
}

fn list_ops() -> impl Strategy<Value = Vec<ListOp>> {
    prop::collection::vec(list_op(), 1..80)
}

proptest! {
    #![proptest_config(config(500))]

    /// The catalog equals the server's last lists after random changes.
    #[test]
    fn the_catalog_matches_the_server_after_random_changes(setting in setting(), list_ops in list_ops()) {
        let mut simulation = ListSimulation::new(false, setting);
        for list_op in &list_ops {
            simulation.apply(list_op);
        }
        simulation.answer_everything();
    }

    /// The same for a server that sends notifications only on a stream, which ends now and then.
    #[test]
    fn the_catalog_matches_a_modern_server_after_random_changes(setting in setting(), list_ops in list_ops()) {
        let mut simulation = ListSimulation::new(true, setting);
        for list_op in &list_ops {
            simulation.apply(list_op);
        }
        simulation.answer_everything();
    }
}
