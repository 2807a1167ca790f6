//! What holds for a session whatever happens in whatever order.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::{
    Action, AskId, Cause, Eras, Event, Misuse, OpenFailure, Options, Outcome, Reconnect, Request, RequestId, Session,
    Time, Transport,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
enum Shape {
    Good,
    Error(i64),
    Nonsense,
    StringId,
    ErrorWithoutId,
    Twice,
    InBatch,
}

#[derive(Clone, Debug)]
enum Op {
    Open,
    Opened,
    OpenFailed(bool),
    TransportClosed,
    SignOfLife,
    /// Answers an open request, the oldest or the newest.
    Answer(bool, Shape),
    ServerAsks(u8, u8),
    ServerTakesBack(u8),
    ListChanged(u8),
    Noise(u8),
    Request(u8),
    Cancel(u8),
    AnswerAsk(u8, bool),
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
    ];
    prop_oneof![
        2 => Just(Op::Open),
        4 => Just(Op::Opened),
        1 => any::<bool>().prop_map(Op::OpenFailed),
        2 => Just(Op::TransportClosed),
        1 => Just(Op::SignOfLife),
        24 => (any::<bool>(), shape).prop_map(|(oldest, shape)| Op::Answer(oldest, shape)),
        3 => (0..5_u8, 0..4_u8).prop_map(|(what, id)| Op::ServerAsks(what, id)),
        1 => (0..4_u8).prop_map(Op::ServerTakesBack),
        2 => (0..4_u8).prop_map(Op::ListChanged),
        2 => (0..6_u8).prop_map(Op::Noise),
        6 => (0..4_u8).prop_map(Op::Request),
        2 => (0..8_u8).prop_map(Op::Cancel),
        2 => (0..4_u8, any::<bool>()).prop_map(|(ask, ok)| Op::AnswerAsk(ask, ok)),
        1 => Just(Op::Notify),
        1 => Just(Op::Close),
        3 => (0..5000_u16).prop_map(Op::Wait),
        3 => Just(Op::WaitForDeadline),
        8 => (1..20_u8).prop_map(Op::Poll),
    ]
}

/// A session, its twin, and the books that are kept on what came out of it.
struct World {
    session: Session,
    twin: Session,
    now: Time,
    accepted: Vec<RequestId>,
    finished: BTreeMap<RequestId, usize>,
    ids: BTreeSet<u64>,
    /// Requests of this connection that wait for an answer.
    open: Vec<Value>,
    /// Ids that the server asked with in this connection, and how often each waits for an answer.
    asked: BTreeMap<String, usize>,
    asks: Vec<AskId>,
    connected: bool,
    closed: Option<Cause>,
}

impl World {
    fn new(options: Options) -> Self {
        let session = Session::new(options);
        Self {
            twin: session.clone(),
            session,
            now: Time::ZERO,
            accepted: vec![],
            finished: BTreeMap::new(),
            ids: BTreeSet::new(),
            open: vec![],
            asked: BTreeMap::new(),
            asks: vec![],
            connected: false,
            closed: None,
        }
    }

    /// Does the same to both, and sees that a refusal changed nothing.
    fn command<T: std::fmt::Debug>(
        &mut self,
        command: impl Fn(&mut Session, Time) -> Result<T, Misuse>,
    ) -> Result<T, Misuse> {
        let before = format!("{:?}", self.session);
        let result = command(&mut self.session, self.now);
        let _ = command(&mut self.twin, self.now);
        if result.is_err() {
            assert_eq!(before, format!("{:?}", self.session), "a misuse changed something");
        }
        result
    }

    fn input(&mut self, input: impl Fn(&mut Session, Time)) {
        input(&mut self.session, self.now);
        input(&mut self.twin, self.now);
    }

    fn receive(&mut self, message: &Value) {
        let text = message.to_string();
        self.input(|session, now| session.handle_message(now, text.as_bytes()));
    }

    fn transport_gone(&mut self) {
        self.connected = false;
        self.open.clear();
        self.asked.clear();
    }

    fn poll(&mut self, most: usize) {
        for _ in 0..most {
            let action = self.session.poll();
            assert_eq!(format!("{action:?}"), format!("{:?}", self.twin.poll()), "the same inputs, another output");
            let Some(action) = action else { return };
            assert_eq!(self.closed, None, "{action:?} after the end");
            match action {
                Action::Send(message) => {
                    assert!(self.connected, "a message without a connection");
                    let value: Value = serde_json::from_slice(message.bytes()).unwrap();
                    self.sent(value);
                }
                Action::Event(Event::Finished { request, outcome }) => {
                    assert!(self.accepted.contains(&request));
                    *self.finished.entry(request).or_default() += 1;
                    let sent =
                        self.open.iter().any(|open| format!("RequestId({})", open["id"]) == format!("{request:?}"));
                    assert!(!(sent && matches!(outcome, Outcome::NotSent)), "it was sent");
                }
                Action::Event(Event::Asked { ask, .. }) => self.asks.push(ask),
                Action::Event(Event::Closed { cause }) => self.closed = Some(cause),
                _ => {}
            }
        }
    }

    fn sent(&mut self, value: Value) {
        match (value.get("method"), value.get("id")) {
            (Some(_), Some(id)) => {
                assert!(self.ids.insert(id.as_u64().unwrap()), "an id was used twice: {value}");
                self.open.push(value);
            }
            (None, Some(id)) => {
                let waiting = self.asked.get_mut(&id.to_string()).expect("an answer to what was asked");
                assert!(*waiting > 0, "answered twice: {value}");
                *waiting -= 1;
            }
            (_, None) => {}
        }
    }

    fn answer(&mut self, oldest: bool, shape: Shape) {
        if self.open.is_empty() {
            return;
        }
        let request = if oldest { self.open.remove(0) } else { self.open.pop().unwrap() };
        let id = &request["id"];
        let good = json!({"jsonrpc": "2.0", "id": id, "result": result(&request)});
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
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Open => {
                let _ = self.command(|session, now| session.open(now));
            }
            Op::Opened => {
                // An embedder reports what it was told to do, so first it hears what that is.
                self.poll(usize::MAX);
                self.connected = true;
                self.input(|session, now| session.handle_transport(now, Transport::Opened));
            }
            Op::OpenFailed(spawn) => {
                let how = if spawn { OpenFailure::Spawn } else { OpenFailure::Connect };
                self.input(|session, now| session.handle_transport(now, Transport::OpenFailed { how, why: "no" }));
            }
            Op::TransportClosed => {
                self.transport_gone();
                self.input(|session, now| session.handle_transport(now, Transport::Closed { why: "gone" }));
            }
            Op::SignOfLife => self.input(|session, now| session.handle_transport(now, Transport::SignOfLife)),
            Op::Answer(oldest, shape) => self.answer(oldest, shape),
            Op::ServerAsks(what, id) => {
                let method =
                    ["ping", "roots/list", "elicitation/create", "sampling/createMessage", "x/y"][usize::from(what)];
                *self.asked.entry(id.to_string()).or_default() += 1;
                self.receive(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "?"}}));
            }
            Op::ServerTakesBack(id) => {
                let params = json!({"requestId": id});
                self.receive(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
            }
            Op::ListChanged(which) => {
                let family = ["tools", "prompts", "resources", "tools"][usize::from(which)];
                self.receive(&json!({"jsonrpc": "2.0", "method": format!("notifications/{family}/list_changed")}));
            }
            Op::Noise(which) => {
                let text = ["", "}", "[]", "7", "{\"id\":1}", "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}"];
                let text = text[usize::from(which)];
                self.input(|session, now| session.handle_message(now, text.as_bytes()));
            }
            Op::Request(which) => {
                let method = ["tools/call", "prompts/get", "resources/read", "vendor/thing"][usize::from(which)];
                let accepted = self.command(|session, now| {
                    let params = RawValue::from_string("{\"name\": \"x\"}".into()).unwrap();
                    session.request(now, Request::new(method).params(params).timeout(Duration::from_secs(7)))
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
                    let result = RawValue::from_string(if ok { "{}" } else { "[]" }.into()).unwrap();
                    let _ = self.command(|session, now| session.answer(now, ask, Ok(&result)));
                }
            }
            Op::Notify => {
                let _ = self.command(|session, now| session.notify(now, "notifications/roots/list_changed", None));
            }
            Op::Close => {
                let _ = self.command(|session, now| session.close(now));
            }
            Op::Wait(millis) => {
                self.now = self.now + Duration::from_millis(millis.into());
                self.input(|session, now| session.handle_timeout(now));
            }
            Op::WaitForDeadline => {
                self.poll(usize::MAX);
                self.settle();
            }
            Op::Poll(most) => self.poll(usize::from(most)),
        }
    }

    /// Goes to the next deadline. Once it was reached, and the output taken, there is none at the same time.
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
        panic!("the same deadline again and again: {:?}", self.session);
    }

    /// Ends the session as an embedder would, and sees that everything came to its end.
    fn end(mut self) {
        let _ = self.command(|session, now| session.close(now));
        self.poll(usize::MAX);
        for _ in 0..10 {
            self.settle();
        }
        assert!(self.session.is_closed(), "{:?}", self.session);
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

/// A server's answer, in whichever era it was asked.
fn result(request: &Value) -> Value {
    let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}});
    match request["method"].as_str().unwrap() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "s"}})
        }
        "tools/list" if request["params"]["cursor"].is_null() => json!({"tools": [{"name": "a"}], "nextCursor": "2"}),
        "tools/list" => json!({"tools": [{"name": "b"}]}),
        "prompts/list" => json!({"prompts": []}),
        "resources/list" => json!({"resources": [{"uri": "r:1"}]}),
        "resources/templates/list" => json!({"resourceTemplates": []}),
        _ => json!({}),
    }
}

fn session_options() -> impl Strategy<Value = Options> {
    let eras = prop_oneof![
        4 => Just(Eras::Auto),
        1 => Just(Eras::LegacyFirst),
        2 => Just(Eras::LegacyOnly),
        1 => Just(Eras::ModernOnly(mcp_proto::ProtocolVersion::V2026_07_28)),
    ];
    (eras, any::<bool>(), any::<bool>(), 1..6_usize, any::<u64>()).prop_map(|(eras, offers, again, in_flight, seed)| {
        let mut options = Options::new("laws", "1");
        options.eras = eras;
        options.capabilities.elicitation = offers;
        options.capabilities.sampling = offers;
        options.reconnect = again.then(Reconnect::default);
        options.limits.in_flight = in_flight;
        options.limits.queued = 6;
        options.limits.asks = 2;
        options.limits.output = 40;
        options.seed = seed;
        options
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/laws.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn they_hold(options in session_options(), ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new(options);
        world.apply(&Op::Open);
        for op in &ops {
            world.apply(op);
        }
        world.end();
    }
}
