//! Nothing accumulates: repeated input and commands without polling stay within the limits, and nothing remains after a
//! session ends.

#![cfg(feature = "testkit")]
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

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Deliver, Host, Server, Steps, drain, legacy, options, reconnecting, seconds};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, Binding, Client, CommandError, Engine, Event, Family, Lines, LogLevel, Messages, OpenFailure, Options,
    Outcome, Request, RequestError, RequestId, ServerRequestId, Time, Transport,
};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseError, TestRunner};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The memory is measured for the process, so tests must not run concurrently.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory that a value made by `make` holds.
fn held<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = MEMORY.current_usage();
    let made = make();
    (made, MEMORY.current_usage().saturating_sub(before))
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

const ALL: &str = "tools prompts resources logging completions";

/// A server with one item of each kind.
fn server(modern: bool) -> Server {
    let mut capabilities: serde_json::Map<_, _> = ALL.split(' ').map(|name| (name.into(), json!({}))).collect();
    for name in ["tools", "prompts", "resources"] {
        capabilities[name] = json!({"listChanged": true});
    }
    capabilities["resources"] = json!({"listChanged": true, "subscribe": true});
    let server = if modern { Server::modern(capabilities.into()) } else { Server::legacy(capabilities.into()) };
    server
        .result("tools/list", json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}))
        .result("prompts/list", json!({"prompts": [{"name": "p"}]}))
        .result("resources/list", json!({"resources": [{"uri": "r:1", "name": "r"}]}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/subscribe", json!({}))
        .result("resources/unsubscribe", json!({}))
        .result("logging/setLevel", json!({}))
        .result("ping", json!({}))
}

/// Options with low limits.
fn small(mut options: Options) -> Options {
    options.capabilities.elicitation = true;
    options.capabilities.sampling = true;
    let limits = &mut options.limits;
    (limits.in_flight, limits.queued, limits.server_requests, limits.subscriptions) = (4, 8, 4, 4);
    (limits.output, limits.output_bytes, limits.input_bytes) = (32, 8 * KIB, 8 * KIB);
    (limits.held, limits.quirks) = (8, 8);
    options
}

// Repetition.

/// The state of a session.
#[derive(Clone, Copy, Debug)]
enum Place {
    Idle,
    Opening,
    Connecting,
    Ready,
    Waiting,
    Parked,
    Draining,
    Closing,
}

const PLACES: [Place; 8] = [
    Place::Idle,
    Place::Opening,
    Place::Connecting,
    Place::Ready,
    Place::Waiting,
    Place::Parked,
    Place::Draining,
    Place::Closing,
];

impl Place {
    /// A client in this state, fully polled, with the ids of a call, a server request and a stream.
    fn reach(self, options: Options, modern: bool) -> Host {
        let mut host = Host::new(options);
        if matches!(self, Self::Idle) {
            return host;
        }
        host.session.open(host.now).unwrap();
        host.collect();
        if matches!(self, Self::Opening) {
            return host;
        }
        host.transport(Transport::Opened);
        if matches!(self, Self::Connecting) {
            return host;
        }
        host.serve(&mut server(modern));
        assert!(host.is_ready());
        match self {
            Self::Waiting => host.close_transport(),
            Self::Parked => host.transport(Transport::OpenFailed { how: OpenFailure::Connect, why: "no" }),
            Self::Draining => host.transport(Transport::ProtocolViolation { why: "noise" }),
            Self::Closing => host.session.close(host.now).unwrap(),
            Self::Idle | Self::Opening | Self::Connecting | Self::Ready => {}
        }
        if matches!(self, Self::Parked) {
            host.close_transport();
            host.session.open(host.now).unwrap();
            host.collect();
            host.transport(Transport::OpenFailed { how: OpenFailure::Spawn, why: "no" });
        }
        drain(|| host.session.poll());
        host
    }
}

type Step<B> = fn(&mut Client<B>, Time, u64) -> bool;

fn done(result: Result<(), CommandError>) -> bool {
    result.is_ok()
}

fn message(session: &mut impl Framed, now: Time, message: &Value) -> bool {
    session.message(now, message.to_string().as_bytes());
    true
}

fn notification(session: &mut impl Framed, now: Time, method: &str, params: Value) -> bool {
    message(session, now, &json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

fn transport(session: &mut impl Framed, now: Time, event: Transport<'_>) -> bool {
    session.report(now, event);
    true
}

/// Every command and every input, with a number that differs each time.
fn steps<B: Binding>() -> Vec<(&'static str, Step<B>)>
where
    Client<B>: Framed,
{
    vec![
        ("open", |it, now, _| done(it.open(now))),
        ("request", |it, now, _| it.request(now, Request::new("vendor/x")).is_ok()),
        ("call_tool", |it, now, _| it.request(now, Request::call_tool("a", None).progress(true)).is_ok()),
        ("request and cancel", |it, now, _| {
            let request = it.request(now, Request::new("vendor/x"));
            request.is_ok_and(|request| done(it.cancel(now, request)))
        }),
        ("notify", |it, now, _| done(it.notify(now, "notifications/example", None))),
        ("subscribe", |it, now, _| done(it.subscribe(now, "r:1"))),
        ("subscribe to others", |it, now, n| done(it.subscribe(now, &format!("r:{n}")))),
        ("subscribe and unsubscribe", |it, now, n| {
            let uri = format!("r:{n}");
            done(it.subscribe(now, &uri)) | done(it.unsubscribe(now, &uri))
        }),
        ("unsubscribe", |it, now, _| done(it.unsubscribe(now, "r:1"))),
        ("set_log_level", |it, now, n| {
            done(it.set_log_level(now, if n % 2 == 0 { LogLevel::Debug } else { LogLevel::Error }))
        }),
        ("set_roots", |it, now, n| done(it.set_roots(now, vec![Root::new(format!("file:///{n}"))]))),
        ("refresh", |it, now, _| Family::ALL.iter().any(|family| done(it.refresh(now, *family)))),
        ("authorized", |it, now, _| done(it.authorized(now))),
        ("handle_timeout", |it, now, _| {
            it.handle_timeout(now);
            true
        }),
        ("opened", |it, now, _| transport(it, now, Transport::Opened)),
        ("connect failed", |it, now, _| {
            transport(it, now, Transport::OpenFailed { how: OpenFailure::Connect, why: "nobody" })
        }),
        ("spawn failed", |it, now, _| {
            transport(it, now, Transport::OpenFailed { how: OpenFailure::Spawn, why: "no such" })
        }),
        ("closed", |it, now, _| transport(it, now, Transport::Closed { why: "gone" })),
        ("sign of life", |it, now, _| transport(it, now, Transport::SignOfLife)),
        ("senseless", |it, now, _| transport(it, now, Transport::ProtocolViolation { why: "noise" })),
        ("ping", |it, now, n| message(it, now, &json!({"jsonrpc": "2.0", "id": n, "method": "ping"}))),
        ("unknown request", |it, now, n| {
            message(it, now, &json!({"jsonrpc": "2.0", "id": n, "method": format!("vendor/{n}")}))
        }),
        ("question", |it, now, n| {
            let params =
                json!({"message": "?", "requestedSchema": {"properties": {"x": {"default": "y".repeat(500)}}}});
            message(it, now, &json!({"jsonrpc": "2.0", "id": n, "method": "elicitation/create", "params": params}))
        }),
        ("question and cancel", |it, now, n| {
            let params = json!({"messages": [], "maxTokens": 1});
            message(it, now, &json!({"jsonrpc": "2.0", "id": n, "method": "sampling/createMessage", "params": params}))
                & notification(it, now, "notifications/cancelled", json!({"requestId": n}))
        }),
        ("log", |it, now, n| notification(it, now, "notifications/message", json!({"level": "info", "data": n}))),
        ("unknown notification", |it, now, n| notification(it, now, &format!("notifications/{n}"), json!({}))),
        ("resource updated", |it, now, n| {
            notification(it, now, "notifications/resources/updated", json!({"uri": format!("r:{n}")}))
        }),
        ("list changed", |it, now, n| {
            let family = ["tools", "prompts", "resources"][usize::try_from(n % 3).unwrap()];
            notification(it, now, &format!("notifications/{family}/list_changed"), json!({}))
        }),
        ("progress", |it, now, n| {
            notification(it, now, "notifications/progress", json!({"progressToken": n % 40, "progress": n}))
        }),
        ("acknowledged", |it, now, _| {
            let agreed = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["r:1"]}});
            notification(it, now, "notifications/subscriptions/acknowledged", agreed)
        }),
        ("stream taken down", |it, now, n| {
            notification(it, now, "notifications/cancelled", json!({"requestId": n % 40}))
        }),
        ("result", |it, now, n| message(it, now, &json!({"jsonrpc": "2.0", "id": n % 40, "result": {}}))),
        ("error", |it, now, n| {
            message(it, now, &json!({"jsonrpc": "2.0", "id": n % 40, "error": {"code": -1, "message": "no"}}))
        }),
        ("error without an id", |it, now, n| {
            message(it, now, &json!({"jsonrpc": "2.0", "id": null, "error": {"code": n, "message": "no"}}))
        }),
        ("noise", |it, now, n| {
            it.message(now, format!("noise {n}").as_bytes());
            true
        }),
        ("batch", |it, now, n| message(it, now, &json!([{"jsonrpc": "2.0", "id": n, "method": "ping"}, 1, {}]))),
        ("close", |it, now, _| done(it.close(now))),
    ]
}

/// All configurations that affect what may be queued.
fn setups() -> Vec<(bool, Options)> {
    let mut setups = vec![];
    for modern in [false, true] {
        for listen in [true, false] {
            let mut options = small(reconnecting(if modern { options() } else { legacy() }));
            options.listen = listen;
            options.keepalive = Some(mcp_proto::Keepalive::default());
            setups.push((modern, options));
        }
    }
    setups
}

/// The maximum number of queued actions, and of additional bytes of memory of a session without polling.
fn bounds(options: &Options) -> (usize, usize) {
    let limits = &options.limits;
    // A request ends once, and so do a server request and a subscription; an input leads to a few actions at most.
    let owed =
        limits.in_flight + limits.queued + 2 * limits.server_requests + 2 * limits.subscriptions + limits.quirks + 16;
    (limits.output + owed, 128 * KIB)
}

fn repeat(place: Place, options: Options, modern: bool, steps: &[(&str, Step<Messages>)], pause: Duration) {
    let (most, memory) = bounds(&options);
    let what = || format!("{:?}, {place:?}, modern: {modern}, listen: {}", names(steps), options.listen);
    let mut host = place.reach(options.clone(), modern);
    let before = MEMORY.current_usage();
    for n in 0..REPETITIONS {
        for (_, step) in steps {
            host.now = host.now + pause;
            step(&mut host.session, host.now, n);
        }
    }
    let grown = MEMORY.current_usage().saturating_sub(before);
    assert!(grown <= memory, "{grown} bytes: {}", what());
    let waiting = drain(|| host.session.poll());
    assert!(waiting <= most, "{waiting} actions, and not {most}: {}", what());
}

const REPETITIONS: u64 = 200;

fn names<'a>(steps: &[(&'a str, Step<Messages>)]) -> Vec<&'a str> {
    steps.iter().map(|(name, _)| *name).collect()
}

#[test]
fn each_command_and_each_input_repeated_without_polling_stays_within_the_limits() {
    let _alone = alone();
    for (modern, options) in setups() {
        for place in PLACES {
            for step in &steps() {
                for pause in [Duration::ZERO, seconds(3)] {
                    repeat(place, options.clone(), modern, &[*step], pause);
                }
            }
        }
    }
}

#[test]
fn a_refused_subscription_is_reported_once_per_poll_at_most() {
    let _alone = alone();
    let mut options = small(options());
    options.listen = false;
    let mut host = Place::Ready.reach(options, true);
    let mut steps = Steps::until("a subscription is refused");
    let refusal = loop {
        steps.step();
        if let Err(misuse) = host.session.subscribe(host.now, "r:1") {
            break misuse;
        }
    };
    assert_eq!(refusal, CommandError::TooManyRequests { limit: 32 });
    host.collect();
    host.session.subscribe(host.now, "r:1").unwrap();
}

#[test]
fn failures_of_an_unpolled_transport_are_not_reported() {
    let _alone = alone();
    let options = small(reconnecting(legacy()));
    let mut host = Place::Waiting.reach(options, false);
    for _ in 0..1_000 {
        let _ = host.session.open(host.now);
        host.session.report(host.now, Transport::OpenFailed { how: OpenFailure::Connect, why: "no" });
    }
    let waiting = drain(|| host.session.poll());
    assert!(waiting < 4, "{waiting} actions wait");
}

// Data that is kept for server requests.

fn question(id: usize, default: usize) -> String {
    let schema = json!({"properties": {"x": {"type": "string", "default": "y".repeat(default)}}});
    let params = json!({"message": "?", "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}).to_string()
}

#[test]
fn defaults_of_open_questions_are_within_the_limit() {
    let _alone = alone();
    let mut options = legacy();
    options.capabilities.elicitation = true;
    options.limits.input_bytes = MIB;
    let mut host = Host::connect(options, &mut server(false));
    let (ask, before) = (question(1, MIB / 4), MEMORY.current_usage());
    let (mut asked, mut refused) = (vec![], 0);
    for _ in 0..64 {
        host.session.deliver(host.now, ask.as_bytes());
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = host.session.poll() {
            steps.step();
            match action {
                Action::Event(Event::ServerRequest { id: ask, .. }) => asked.push(ask),
                Action::Send(message) => {
                    let answer: Value = serde_json::from_slice(message.bytes()).unwrap();
                    assert_eq!(answer["error"]["message"], "too many requests of the server are open");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let grown = MEMORY.current_usage().saturating_sub(before);
    assert_eq!((asked.len(), refused), (3, 61));
    assert!(grown < 2 * MIB, "{grown} bytes");
    // An answered request makes room for the next.
    let answer = raw(&json!({"action": "decline"}));
    host.session.respond(host.now, asked[0], Ok(&answer)).unwrap();
    host.receive_text(&ask);
    assert!(host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. })));
}

#[test]
fn waiting_rounds_of_input_are_within_the_limit() {
    let _alone = alone();
    let mut options = options();
    options.capabilities.elicitation = true;
    options.limits.input_bytes = MIB;
    let mut host = Host::connect(options, &mut server(true));
    host.take_sent();
    let want = |host: &mut Host| {
        let request = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
        host.collect();
        let id = host.take_one()["id"].clone();
        let inputs = json!({"k": {"method": "elicitation/create", "params": {"message": "y".repeat(MIB / 4)}}});
        let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
        host.receive(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        request
    };
    let calls: Vec<_> = (0..16).map(|_| want(&mut host)).collect();
    let is_invalid =
        |host: &Host, call: &RequestId| matches!(host.ended(*call), Some(Outcome::Error(RequestError::Invalid(_))));
    assert_eq!(calls.iter().filter(|call| host.ended(**call).is_none()).count(), 3);
    assert_eq!(calls.iter().filter(|call| is_invalid(&host, call)).count(), 13);
    // An ended call makes room for the next.
    host.session.cancel(host.now, calls[0]).unwrap();
    host.collect();
    let next = want(&mut host);
    assert!(host.ended(next).is_none());
}

// No option of zero stops the time.

#[test]
fn no_option_of_zero_is_always_due() {
    let _alone = alone();
    for (modern, mut options) in setups() {
        let zero = Duration::ZERO;
        let timeouts = &mut options.timeouts;
        timeouts.connect = Some(zero);
        for timeout in [
            &mut timeouts.open,
            &mut timeouts.discover,
            &mut timeouts.handshake,
            &mut timeouts.handshake_max,
            &mut timeouts.discovery,
            &mut timeouts.request,
            &mut timeouts.request_max,
            &mut timeouts.progress_interval,
            &mut timeouts.server_request,
            &mut timeouts.grace,
            &mut timeouts.debounce,
            &mut timeouts.refresh_interval,
        ] {
            *timeout = zero;
        }
        let reconnect = options.reconnect.as_mut().unwrap();
        (reconnect.initial_backoff, reconnect.max_backoff, reconnect.parked_backoff) = (zero, zero, zero);
        let keepalive = options.keepalive.as_mut().unwrap();
        (keepalive.interval, keepalive.timeout, keepalive.discover) = (zero, zero, true);
        for served in [false, true] {
            let mut host = Host::new(options.clone());
            host.session.open(host.now).unwrap();
            let (mut server, mut still) = (server(modern), 0);
            for step in 0..2_000 {
                host.collect();
                if step % 8 == 0 {
                    host.transport(Transport::Opened);
                }
                if served {
                    host.serve(&mut server);
                    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                    host.collect();
                }
                let Some(deadline) = host.session.deadline() else { break };
                still = if deadline > host.now { 0 } else { still + 1 };
                assert!(still < 3, "{deadline:?} again and again; modern: {modern}, served: {served}");
                host.now = host.now.max(deadline);
                host.session.handle_timeout(host.now);
            }
        }
    }
}

// Random runs.

/// A client, with any framing of its messages.
trait Framed: Deliver + Deref<Target = Engine> {
    /// The server sends a message.
    fn message(&mut self, now: Time, bytes: &[u8]);

    /// The beginning of a message, if the binding receives messages in chunks.
    fn half(&mut self, now: Time, bytes: &[u8]);
}

impl Framed for Client<Messages> {
    fn message(&mut self, now: Time, bytes: &[u8]) {
        self.deliver(now, bytes);
    }

    fn half(&mut self, _: Time, _: &[u8]) {}
}

impl Framed for Client<Lines> {
    fn message(&mut self, now: Time, bytes: &[u8]) {
        self.deliver(now, bytes);
        self.deliver(now, b"\n");
    }

    fn half(&mut self, now: Time, bytes: &[u8]) {
        self.deliver(now, bytes);
    }
}

/// A step of a run.
#[derive(Clone, Debug)]
enum Op {
    Step(usize, u64),
    /// The server answers the oldest request in this way.
    Answer(Shape),
    /// The server sends the beginning of a message.
    Half,
    Poll,
    Wait(u32),
    WaitForDeadline,
    /// The embedder answers the oldest server request, or provides the oldest required input.
    GiveInput,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Good,
    Error,
    WantsInput,
    Nothing,
}

fn op() -> impl Strategy<Value = Op> {
    let shape = prop_oneof![
        6 => Just(Shape::Good),
        1 => Just(Shape::Error),
        2 => Just(Shape::WantsInput),
        1 => Just(Shape::Nothing)
    ];
    prop_oneof![
        // All but the last, which closes the session.
        6 => (0..steps::<Messages>().len() - 1, 0..60_u64).prop_map(|(step, n)| Op::Step(step, n)),
        6 => shape.prop_map(Op::Answer),
        1 => Just(Op::Half),
        3 => Just(Op::Poll),
        1 => (0..100_000_u32).prop_map(Op::Wait),
        2 => Just(Op::WaitForDeadline),
        1 => Just(Op::GiveInput),
    ]
}

/// A session in a run, with the open requests.
struct Run<B: Binding> {
    session: Client<B>,
    steps: Vec<(&'static str, Step<B>)>,
    server: Server,
    now: Time,
    sent: Vec<Value>,
    asks: Vec<ServerRequestId>,
    rounds: Vec<RequestId>,
}

impl<B: Binding<Action = Action> + Default> Run<B>
where
    Client<B>: Framed,
{
    fn new(options: Options, modern: bool) -> Self {
        let mut session = Client::new(B::default(), options, 0);
        session.open(Time::ZERO).unwrap();
        session.report(Time::ZERO, Transport::Opened);
        let steps = steps();
        Self { session, steps, server: server(modern), now: Time::ZERO, sent: vec![], asks: vec![], rounds: vec![] }
    }

    fn poll(&mut self) {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.session.poll() {
            steps.step();
            match action {
                Action::Open(_) => self.session.report(self.now, Transport::Opened),
                Action::Send(message) => self.sent.push(serde_json::from_slice(message.bytes()).unwrap()),
                Action::Event(Event::ServerRequest { id: ask, .. }) => self.asks.push(ask),
                Action::Event(Event::InputRequired { request, .. }) => self.rounds.push(request),
                _ => {}
            }
        }
    }

    fn answer(&mut self, shape: Shape) {
        if self.sent.is_empty() {
            return;
        }
        let message = self.sent.remove(0);
        let id = &message["id"];
        let answers = match shape {
            Shape::Nothing => vec![],
            Shape::Error => vec![json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}})],
            Shape::WantsInput if message["method"] == "tools/call" => {
                let inputs = json!({"k": {"method": "elicitation/create", "params": {"message": "y".repeat(1000)}}});
                let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
                vec![json!({"jsonrpc": "2.0", "id": id, "result": result})]
            }
            Shape::Good | Shape::WantsInput => self.server.answer(&message),
        };
        for answer in answers {
            self.session.message(self.now, answer.to_string().as_bytes());
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Step(step, n) => drop(self.steps[*step].1(&mut self.session, self.now, *n)),
            Op::Answer(shape) => {
                self.poll();
                self.answer(*shape);
            }
            Op::Half => self.session.half(self.now, &[b'x'; 2 * ROOM]),
            Op::Poll => self.poll(),
            Op::Wait(millis) => {
                self.now = self.now + Duration::from_millis((*millis).into());
                self.session.handle_timeout(self.now);
            }
            Op::WaitForDeadline => {
                self.poll();
                self.now = self.session.deadline().map_or(self.now, |deadline| deadline.max(self.now));
                self.session.handle_timeout(self.now);
            }
            Op::GiveInput => {
                if let Some(ask) = self.asks.pop() {
                    let _ = self.session.respond(self.now, ask, Err(ErrorObject::new(1, "no")));
                } else if let Some(request) = self.rounds.pop() {
                    let accept = raw(&json!({"action": "accept", "content": {}}));
                    let _ = self.session.provide(self.now, request, [("k", &*accept)]);
                }
            }
        }
    }

    /// The session is closed and fully polled.
    fn end(mut self) -> Client<B> {
        let _ = self.session.close(self.now);
        for _ in 0..8 {
            self.poll();
            self.session.report(self.now, Transport::Closed { why: "closed" });
        }
        self.poll();
        assert!(self.session.is_closed(), "{:?}", *self.session);
        assert_eq!(self.session.deadline(), None);
        self.session
    }
}

/// The memory after the run, less that of a session that was opened and closed at once.
fn kept<B: Binding<Action = Action> + Default>(options: &Options, modern: bool, ops: &[Op]) -> usize
where
    Client<B>: Framed,
{
    let steps = |ops: &[Op]| {
        let mut run = Run::<B>::new(options.clone(), modern);
        ops.iter().for_each(|op| run.apply(op));
        run.end()
    };
    // Data that the getters return is not counted.
    let (session, all) = held(|| steps(ops));
    let told = session.quirks().len() * 600
        + session.subscriptions().map(|uri| uri.len() + 100).sum::<usize>()
        + session.server().map_or(0, |server| 4 * server.raw.get().len())
        + Family::ALL
            .iter()
            .map(|family| 2 * KIB * usize::from(!session.catalog().list(*family).is_empty()))
            .sum::<usize>();
    let (_idle, least) = held(|| steps(&[]));
    all.saturating_sub(least + told)
}

/// The capacity that used containers may keep: of an empty queue, of a node of an empty tree.
const ROOM: usize = 8 * KIB;

/// Checks a property over random inputs, alone, since the memory of the generator counts, too.
fn check<S: Strategy>(strategy: S, law: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let _alone = alone();
    let config = ProptestConfig {
        cases: 1000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/accumulation.txt"))),
        ..ProptestConfig::default()
    };
    if let Err(error) = TestRunner::new(config).run(&strategy, law) {
        panic!("{error}");
    }
}

/// A session that is over has no deadline, and keeps nothing of its requests, server requests and lines.
#[test]
fn nothing_remains_after_a_session_is_over() {
    let setups = setups();
    let ops = prop::collection::vec(op(), 1..80);
    check((0..setups.len(), any::<bool>(), ops), |(setup, lines, ops)| {
        let (modern, options) = &setups[setup];
        let kept = if lines { kept::<Lines> } else { kept::<Messages> };
        let kept = kept(options, *modern, &ops);
        prop_assert!(kept <= ROOM, "{kept} bytes stay");
        Ok(())
    });
}

/// Repeated steps without polling stay within the limits.
#[test]
fn repeated_steps_without_polling_stay_within_the_limits() {
    let setups = setups();
    let steps = prop::collection::vec(0..steps::<Messages>().len() - 1, 1..6);
    let pause = prop_oneof![Just(0), 0..100_000_u64];
    check((0..setups.len(), 0..PLACES.len(), steps, pause), |(setup, place, steps, pause)| {
        let (modern, options) = &setups[setup];
        let all = self::steps::<Messages>();
        let steps: Vec<_> = steps.into_iter().map(|step| all[step]).collect();
        repeat(PLACES[place], options.clone(), *modern, &steps, Duration::from_millis(pause));
        Ok(())
    });
}

/// What a server and a host do repeatedly, polled each time.
type Cycle = fn(&mut Client<Messages>, Time, u64);

fn give(session: &mut Client<Messages>, now: Time, message: &Value) {
    session.deliver(now, message.to_string().as_bytes());
}

/// A leak of a few bytes shows only after many repetitions.
#[test]
fn long_repetition_uses_no_more_memory() {
    let _alone = alone();
    let cycles: [(&str, Cycle); 5] = [
        ("a request that times out, and is never answered", |session, now, _| {
            let call = Request::call_tool("a", None).timeout(Duration::from_millis(1));
            session.request(now, call).unwrap();
            drain(|| session.poll());
            session.handle_timeout(now + Duration::from_millis(1));
        }),
        ("a request that times out, and its late answer", |session, now, _| {
            let call = Request::call_tool("a", None).timeout(Duration::from_millis(1));
            session.request(now, call).unwrap();
            let mut ids = vec![];
            let mut steps = Steps::until("nothing is left to poll");
            while let Some(action) = session.poll() {
                steps.step();
                ids.extend(if let Action::Send(message) = action {
                    message.wire_id().map(|id| id.as_u64())
                } else {
                    None
                });
            }
            session.handle_timeout(now + Duration::from_millis(1));
            drain(|| session.poll());
            let id = *ids.first().unwrap();
            give(session, now, &json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
        }),
        ("a request that is answered", |session, now, _| {
            session.request(now, Request::call_tool("a", None)).unwrap();
            let mut steps = Steps::until("nothing is left to poll");
            while let Some(action) = session.poll() {
                steps.step();
                if let Action::Send(sent) = action
                    && let Some(id) = sent.wire_id().map(|id| id.as_u64())
                {
                    give(session, now, &json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
                }
            }
        }),
        ("a ping", |session, now, n| give(session, now, &json!({"jsonrpc": "2.0", "id": n, "method": "ping"}))),
        ("a question that is taken back", |session, now, n| {
            session.deliver(now, question(usize::try_from(n).unwrap(), 10).as_bytes());
            drain(|| session.poll());
            let params = json!({"requestId": n});
            let method = "notifications/cancelled";
            give(session, now, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }),
    ];
    for (name, cycle) in cycles {
        let mut options = legacy();
        options.keepalive = None;
        options.capabilities.elicitation = true;
        let host = Host::connect(options, &mut server(false));
        let (mut session, mut now) = (host.session, host.now);
        let mut run = |times: core::ops::Range<u64>| {
            for n in times {
                now = now + Duration::from_millis(2);
                cycle(&mut session, now, n);
                drain(|| session.poll());
            }
            MEMORY.current_usage()
        };
        let before = run(0..4_000);
        let grown = run(4_000..24_000).saturating_sub(before);
        assert!(grown < 1024, "{name}: {grown} bytes more");
    }
}
