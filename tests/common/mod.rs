//! A client in virtual time, with a simulated transport and a scripted server.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]

pub mod client_getters;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mcp_proto::catalog::FingerprintKey;
use mcp_proto::testkit::FakeServer;
use mcp_proto::{Action, Client, Event, Family, Lines, Messages, Options, Reconnect, ShutdownStep, Time, Transport};
use serde_json::{Value, json};

use self::client_getters::client_getters;

/// A value that a server of the test kit shares with a test.
#[derive(Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub fn borrow(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub fn borrow_mut(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub fn set(&self, value: T) {
        *self.borrow_mut() = value;
    }
}

impl<T: Copy> Shared<T> {
    pub fn get(&self) -> T {
        *self.borrow()
    }
}

/// Bounds a loop that waits for something, so that the test fails instead of hanging.
pub struct Steps {
    awaited: &'static str,
    taken: usize,
}

impl Steps {
    const MOST: usize = 100_000;

    pub fn until(awaited: &'static str) -> Self {
        Self { awaited, taken: 0 }
    }

    pub fn step(&mut self) {
        self.taken += 1;
        assert!(self.taken <= Self::MOST, "not after {} steps: {}", Self::MOST, self.awaited);
    }
}

/// Polls until nothing is left, and returns the number of outputs.
pub fn drain<A>(mut poll: impl FnMut() -> Option<A>) -> usize {
    let mut steps = Steps::until("nothing is left to poll");
    while poll().is_some() {
        steps.step();
    }
    steps.taken
}

/// Input on a client's current connection.
pub trait Deliver {
    /// The server sends these bytes.
    fn deliver(&mut self, now: Time, bytes: &[u8]);

    /// The transport reports an event.
    fn report(&mut self, now: Time, event: Transport<'_>);
}

impl Deliver for Client<Messages> {
    fn deliver(&mut self, now: Time, bytes: &[u8]) {
        self.handle_message(now, self.connection(), bytes);
    }

    fn report(&mut self, now: Time, event: Transport<'_>) {
        self.handle_transport(now, self.connection(), event);
    }
}

impl Deliver for Client<Lines> {
    fn deliver(&mut self, now: Time, bytes: &[u8]) {
        self.handle_bytes(now, self.connection(), bytes);
    }

    fn report(&mut self, now: Time, event: Transport<'_>) {
        self.handle_transport(now, self.connection(), event);
    }
}

/// A client, and all its outputs.
pub struct Host {
    pub session: Client<Messages>,
    pub now: Time,
    /// What was sent, and not taken by the test yet.
    pub sent: Vec<Value>,
    /// Every message that was sent, with the protocol version in use.
    pub transcript: Vec<(Option<String>, Value)>,
    pub events: Vec<Event>,
    pub shuts: Vec<ShutdownStep>,
    /// How often the client asked for a connection.
    pub opens: u32,
}

impl Host {
    pub fn new(options: Options) -> Self {
        Self::with_seed(options, 0)
    }

    pub fn with_seed(options: Options, seed: u64) -> Self {
        Self {
            session: Client::new(Messages::new(), options, seed),
            now: Time::ZERO,
            sent: Vec::new(),
            transcript: Vec::new(),
            events: Vec::new(),
            shuts: Vec::new(),
            opens: 0,
        }
    }

    /// A client that is opening, with an open transport.
    pub fn open(options: Options) -> Self {
        let mut host = Self::new(options);
        host.session.open(host.now).unwrap();
        host.collect();
        host.transport(Transport::Opened);
        host
    }

    /// A client after handshake and discovery with `server`.
    pub fn connect(options: Options, server: &mut Server) -> Self {
        let mut host = Self::open(options);
        host.serve(server);
        host
    }

    /// Polls until nothing is left.
    pub fn collect(&mut self) {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.session.poll() {
            steps.step();
            match action {
                Action::Open(_) => self.opens += 1,
                Action::Send(message) => {
                    assert!(!message.bytes().contains(&b'\n'), "a line break in a message");
                    let value: Value = serde_json::from_slice(message.bytes()).unwrap();
                    assert_eq!(message.method(), value["method"].as_str());
                    assert_eq!(message.wire_id().is_some(), value.get("id").is_some() && value.get("method").is_some());
                    self.transcript.push((message.version().map(|version| version.to_string()), value.clone()));
                    self.sent.push(value);
                }
                Action::Shutdown(how) => self.shuts.push(how),
                Action::Event(event) => self.events.push(event),
                other => panic!("an unknown action: {other:?}"),
            }
        }
    }

    pub fn transport(&mut self, event: Transport<'_>) {
        self.session.report(self.now, event);
        self.collect();
    }

    pub fn close_transport(&mut self) {
        self.transport(Transport::Closed { why: "end of file" });
    }

    pub fn receive(&mut self, message: Value) {
        self.receive_text(&message.to_string());
    }

    pub fn receive_text(&mut self, text: &str) {
        self.receive_bytes(text.as_bytes());
    }

    pub fn receive_bytes(&mut self, bytes: &[u8]) {
        self.session.deliver(self.now, bytes);
        self.collect();
    }

    /// Advances the time, stopping at each deadline.
    pub fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut steps = Steps::until("no deadline is left within the time to wait");
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            steps.step();
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            self.collect();
        }
        self.now = end;
        self.session.handle_timeout(self.now);
        self.collect();
    }

    /// The messages sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.sent)
    }

    /// The one message sent since the last call.
    pub fn take_one(&mut self) -> Value {
        let mut sent = self.take_sent();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// The messages sent since the last call, without cancellations.
    pub fn take_without_cancellations(&mut self) -> Vec<Value> {
        let mut sent = self.take_sent();
        sent.retain(|message| message["method"] != "notifications/cancelled");
        sent
    }

    /// The one message sent since the last call, without cancellations.
    pub fn take_request(&mut self) -> Value {
        let mut sent = self.take_without_cancellations();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// The methods of the messages sent since the last call.
    pub fn take_methods(&mut self) -> Vec<String> {
        self.take_sent().iter().map(|message| message["method"].as_str().unwrap_or("(answer)").into()).collect()
    }

    /// The methods of all messages sent.
    pub fn methods(&self) -> Vec<&str> {
        self.transcript.iter().map(|(_, message)| message["method"].as_str().unwrap_or("(answer)")).collect()
    }

    /// Answers messages until there are none left.
    pub fn serve(&mut self, server: &mut Server) {
        for _ in 0..100_000 {
            let sent = self.take_sent();
            if sent.is_empty() {
                return;
            }
            for message in sent {
                for answer in server.answer(&message) {
                    self.receive(answer);
                }
            }
        }
        panic!("server and client never become idle");
    }

    pub fn count(&self, family: Family) -> usize {
        self.session.catalog().list(family).len()
    }

    client_getters!();
}

/// A fake server with the capabilities that a test declares. It answers an unknown method with error -32601, and
/// accepts `subscriptions/listen`.
#[derive(Debug)]
pub struct Server(FakeServer);

impl Server {
    pub fn new() -> Self {
        Self(FakeServer::new([]))
    }

    /// A server of the legacy era, which answers `initialize` with the offered version.
    pub fn legacy(capabilities: Value) -> Self {
        Self::of(FakeServer::legacy(), capabilities)
    }

    /// A server of the modern era.
    pub fn modern(capabilities: Value) -> Self {
        Self::of(FakeServer::modern(), capabilities)
    }

    fn of(fake: FakeServer, capabilities: Value) -> Self {
        Self(fake.named("test", "1").capabilities(capabilities))
    }

    /// Answers a method: `params` in, the result or the error object out.
    pub fn on(self, method: &str, handler: impl FnMut(&Value) -> Result<Value, Value> + Send + 'static) -> Self {
        Self(self.0.on(method, handler))
    }

    /// Answers each request of a method with this result.
    pub fn result(self, method: &str, result: Value) -> Self {
        Self(self.0.result(method, result))
    }

    /// Answers each request of a method with this error.
    pub fn error(self, method: &str, code: i64, message: &str) -> Self {
        Self(self.0.error(method, code, message))
    }

    pub fn answer(&mut self, message: &Value) -> Vec<Value> {
        self.0.answer(message)
    }

    /// The messages that it received, in order.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.0.messages()
    }

    pub fn received(&self, method: &str) -> usize {
        self.0.received(method)
    }
}

/// The JSON with one value in it replaced, for each value and each of its `others`.
pub fn changed(value: &Value, others: fn(&Value) -> Vec<Value>) -> Vec<Value> {
    let mut all = others(value);
    match value {
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                all.extend(changed(element, others).into_iter().map(|other| {
                    let mut whole = elements.clone();
                    whole[at] = other;
                    Value::Array(whole)
                }));
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                all.extend(changed(member, others).into_iter().map(|other| {
                    let mut whole = members.clone();
                    whole[name] = other;
                    Value::Object(whole)
                }));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    all
}

/// The bytes in chunks that are cut at these places, modulo the length.
pub fn chunked(bytes: &[u8], mut cuts: Vec<usize>) -> Vec<&[u8]> {
    cuts.iter_mut().for_each(|cut| *cut %= bytes.len() + 1);
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|range| &bytes[range[0]..range[1]]).collect()
}

/// Calls `each` with every text of at most `most` of these pieces.
pub fn each_text(pieces: &[&str], most: usize, each: &mut impl FnMut(&str)) {
    fn extend(text: &mut String, pieces: &[&str], most: usize, each: &mut impl FnMut(&str)) {
        each(text);
        for piece in pieces.iter().filter(|_| most > 0) {
            text.push_str(piece);
            extend(text, pieces, most - 1, each);
            text.truncate(text.len() - piece.len());
        }
    }
    extend(&mut String::new(), pieces, most, each);
}

/// Options without reconnects and keepalive.
pub fn options() -> Options {
    let mut options = Options::new("test-host", "1.0.0");
    options.reconnect = None;
    options.keepalive = None;
    options
}

pub fn legacy() -> Options {
    let mut options = options();
    options.eras = mcp_proto::Eras::LegacyOnly;
    options
}

/// The same options with reconnects.
pub fn reconnecting(mut options: Options) -> Options {
    options.reconnect = Some(Reconnect::default());
    options
}

/// The embedder's secret for fingerprints.
pub const KEY: FingerprintKey = FingerprintKey::new(*b"0123456789abcdef");

pub fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// The result of `tools/list` with these names.
pub fn tools(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    json!({"tools": names.iter().map(tool).collect::<Vec<_>>()})
}

/// The results of a server whose list of tools has two pages; `version` is for `initialize`.
pub fn result(method: &str, params: &Value, version: &str, capabilities: &Value) -> Value {
    match method {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
        "initialize" => {
            json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "s"}})
        }
        "tools/list" if params["cursor"].is_null() => json!({"tools": [{"name": "a"}], "nextCursor": "2"}),
        "tools/list" => json!({"tools": [{"name": "b"}]}),
        "prompts/list" => json!({"prompts": []}),
        "resources/list" => json!({"resources": [{"uri": "r:1"}]}),
        "resources/templates/list" => json!({"resourceTemplates": []}),
        _ => json!({}),
    }
}
