//! A simulated hub in virtual time, with one scripted server per name.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::time::Duration;

use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::ServerState as State;
use mcp_proto::host::hub::{CallError, CallId, Hub, HubAction, HubEvent, HubOptions, SessionHandle};
use mcp_proto::{ConnectionId, Event, OpenFailure, Options, Outcome, ShutdownStep, Time, Transport};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::common::{Server, Steps, tools};

/// How a simulated server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Answers,
    /// It starts, and answers nothing.
    Silent,
    /// Its command does not exist, or its address is unreachable.
    DoesNotStart,
    /// Its process exits at the first message.
    Exits,
    /// Over HTTP, it answers each request with 401.
    Refuses,
    /// Over stdio, its output is not a valid message.
    Garbles,
}

type Takes = Box<dyn FnMut(&http::Request<Vec<u8>>) -> bool>;

/// A simulated server and its script.
pub struct Peer {
    pub server: Server,
    pub behaviour: Behaviour,
    /// The method whose requests are not answered until `release`.
    pub unanswered: Option<&'static str>,
    /// Its process runs on after its input is closed, until `end_process` or a kill.
    pub ignores_end_of_input: bool,
    /// Whether it takes a request over HTTP; otherwise it answers 401.
    pub takes: Option<Takes>,
    /// The id of its session over HTTP, if it has one.
    pub session: Option<&'static str>,
    withheld: Vec<(SessionHandle, Option<ExchangeId>, Value)>,
}

/// A running process.
#[derive(Clone, Copy, Debug)]
struct Process {
    session: SessionHandle,
    ends: bool,
}

/// What the hub asked for, and the servers have not done yet.
#[derive(Debug)]
enum Todo {
    Open(SessionHandle),
    Message(SessionHandle, Option<ExchangeId>, Value),
    Shut(SessionHandle, ShutdownStep),
}

/// A hub, and all its outputs.
pub struct Rig {
    pub hub: Hub,
    pub options: HubOptions,
    pub now: Time,
    pub peers: BTreeMap<String, Peer>,
    /// One line per output: `a: open`, `a: > tools/list`, `a: shut`, `a: ready`, `a + mcp_a_x`, `settled`.
    pub log: Vec<String>,
    pub events: Vec<HubEvent>,
    /// Every message that was sent, with its session.
    pub sent: Vec<(SessionHandle, Value)>,
    /// Every HTTP request that was sent, with its session.
    pub requests: Vec<(SessionHandle, ExchangeId, http::Request<Vec<u8>>)>,
    /// The tools that remain after all reported differences.
    pub exposed: BTreeSet<String>,
    accepted: Vec<CallId>,
    starts: usize,
    /// Sessions whose first attempt to connect has not ended.
    starting: BTreeSet<SessionHandle>,
    started: BTreeSet<SessionHandle>,
    processes: BTreeMap<String, Process>,
    /// The newest connection of each session.
    connections: BTreeMap<SessionHandle, ConnectionId>,
    /// The newest exchange.
    exchange: Option<ExchangeId>,
    exchanges: BTreeMap<(SessionHandle, ExchangeId), Value>,
    /// The actions that the authorizations requested.
    #[cfg(feature = "oauth")]
    pub oauth: VecDeque<(SessionHandle, String, mcp_proto::binding::oauth::OAuthAction)>,
    todo: VecDeque<Todo>,
    closing: bool,
    /// `collect` does not poll.
    pub polls_on_request: bool,
    /// The next outputs may be older than the last command.
    outputs_may_lag: bool,
}

/// A configuration without errors and warnings.
pub fn configuration(servers: Value) -> Configuration {
    let read: Configuration = serde_json::from_value(servers).unwrap();
    assert_eq!((&*read.errors, &*read.warnings), (&[][..], &[][..]));
    read
}

/// Servers over stdio with these names and default settings.
pub fn programs(names: &[&str]) -> Configuration {
    configuration(names.iter().map(|name| (*name, json!({"command": name}))).collect())
}

/// A server of the legacy era with these tools, resources and prompts. It declares the capabilities of those that are
/// not empty.
pub fn full(names: &[&str], resources: &[&str], prompts: &[&str]) -> Server {
    let mut capabilities = json!({"tools": {"listChanged": true}});
    for (capability, has) in [("resources", !resources.is_empty()), ("prompts", !prompts.is_empty())] {
        if has {
            capabilities[capability] = json!({});
        }
    }
    let resource = |name: &&str| json!({"uri": format!("r:{name}"), "name": name});
    let prompt = |name: &&str| json!({"name": name});
    Server::legacy(capabilities)
        .result("tools/list", tools(names))
        .result("resources/list", json!({"resources": resources.iter().map(resource).collect::<Vec<_>>()}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("prompts/list", json!({"prompts": prompts.iter().map(prompt).collect::<Vec<_>>()}))
        .on("tools/call", |params| Ok(json!({"content": [{"type": "text", "text": params["name"]}]})))
        .result("resources/read", json!({"contents": []}))
        .result("prompts/get", json!({"messages": []}))
}

pub fn with_tools(names: &[&str]) -> Server {
    full(names, &[], &[])
}

impl Rig {
    pub fn new(options: HubOptions) -> Self {
        Self {
            starts: options.starts,
            hub: Hub::new(options.clone(), 0),
            options,
            now: Time::ZERO,
            peers: BTreeMap::new(),
            log: vec![],
            events: vec![],
            sent: vec![],
            requests: vec![],
            exposed: BTreeSet::new(),
            accepted: vec![],
            starting: BTreeSet::new(),
            started: BTreeSet::new(),
            processes: BTreeMap::new(),
            connections: BTreeMap::new(),
            exchange: None,
            exchanges: BTreeMap::new(),
            #[cfg(feature = "oauth")]
            oauth: VecDeque::new(),
            todo: VecDeque::new(),
            closing: false,
            polls_on_request: false,
            outputs_may_lag: false,
        }
    }

    /// A hub whose clients have these options.
    pub fn of(session: Options) -> Self {
        Self::new(HubOptions::new(session))
    }

    /// Saves the hub and replaces it with the restored one.
    #[cfg(feature = "snapshot")]
    pub fn move_hub(&mut self, secrets: mcp_proto::Secrets, moved: mcp_proto::Moved) {
        let text = serde_json::to_string(&self.hub.snapshot(secrets)).unwrap();
        let (snapshot, configuration) = (serde_json::from_str(&text).unwrap(), self.hub.configuration().clone());
        self.hub = Hub::from_snapshot(self.options.clone(), configuration, &snapshot, moved).unwrap();
        if moved == mcp_proto::Moved::WithoutTransport {
            self.processes.clear();
            self.exchanges.clear();
            self.todo.clear();
            self.peers.values_mut().for_each(|peer| peer.withheld.clear());
        }
    }

    /// Adds the server of this name.
    pub fn peer(mut self, name: &str, server: Server) -> Self {
        let peer = Peer {
            server,
            behaviour: Behaviour::Answers,
            unanswered: None,
            ignores_end_of_input: false,
            takes: None,
            session: None,
            withheld: vec![],
        };
        self.peers.insert(name.into(), peer);
        self
    }

    pub fn set_behaviour(&mut self, name: &str, behaviour: Behaviour) {
        self.get(name).behaviour = behaviour;
    }

    pub fn with_behaviour(mut self, name: &str, behaviour: Behaviour) -> Self {
        self.set_behaviour(name, behaviour);
        self
    }

    pub fn get(&mut self, name: &str) -> &mut Peer {
        self.peers.get_mut(name).expect(name)
    }

    /// The server answers this method with this result from now on.
    pub fn answers(&mut self, name: &str, method: &str, result: Value) {
        let peer = self.get(name);
        peer.server = mem::replace(&mut peer.server, Server::new()).result(method, result);
    }

    /// The server has these tools from now on, and sends a notification of the change.
    pub fn change_tools(&mut self, name: &str, names: &[&str]) {
        self.answers(name, "tools/list", tools(names));
        self.write_to_output(name, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    }

    /// Applies this configuration.
    pub fn configure(&mut self, configuration: Configuration) {
        self.hub.configure(self.now, configuration).unwrap();
        self.collect();
    }

    pub fn open(&mut self) {
        self.hub.open(self.now).unwrap();
        self.collect();
    }

    pub fn close(&mut self) {
        self.hub.close(self.now).unwrap();
        self.closing = true;
        self.collect();
    }

    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Configures programs of these names, opens the hub and serves.
    pub fn up(mut self, names: &[&str]) -> Self {
        self.configure(programs(names));
        self.open();
        self.serve();
        self
    }

    pub fn try_call(&mut self, name: &str, arguments: Value) -> Result<CallId, CallError> {
        let arguments = to_raw_value(&arguments).unwrap();
        let call = self.hub.call(self.now, name, Some(&arguments));
        self.accepted.extend(call.iter().copied());
        self.collect();
        call
    }

    /// Records a call that a test made on the hub itself.
    pub fn accept(&mut self, call: CallId) {
        self.accepted.push(call);
        self.collect();
    }

    pub fn call(&mut self, name: &str) -> CallId {
        self.try_call(name, json!({})).unwrap()
    }

    /// Makes a call and returns its outcome.
    pub fn outcome_of(&mut self, name: &str, arguments: Value) -> String {
        let call = self.try_call(name, arguments).unwrap();
        self.serve();
        self.outcome(call)
    }

    /// The result of a call, or the name of another outcome's variant; `open` while it has not ended.
    pub fn outcome(&self, call: CallId) -> String {
        match self.ended(call) {
            None => "open".into(),
            Some(Outcome::Result(result)) => result.get().into(),
            Some(other) => format!("{other:?}").split(['(', ' ']).next().unwrap().into(),
        }
    }

    pub fn ended(&self, call: CallId) -> Option<&Outcome> {
        let mut outcomes = self.events.iter().filter_map(|event| match event {
            HubEvent::Finished { call: ended, outcome, .. } if *ended == call => Some(outcome),
            _ => None,
        });
        let outcome = outcomes.next();
        assert!(outcomes.next().is_none(), "a call ends once");
        outcome
    }

    /// The calls that have not ended.
    pub fn open_calls(&self) -> Vec<CallId> {
        self.accepted.iter().copied().filter(|call| self.ended(*call).is_none()).collect()
    }

    /// Polls until nothing is left, and checks what holds for every output.
    pub fn collect(&mut self) {
        self.outputs_may_lag |= self.polls_on_request;
        if self.polls_on_request {
            return;
        }
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.hub.poll() {
            steps.step();
            // No event follows the end. An authorization may still refresh or store credentials.
            #[cfg(feature = "oauth")]
            let authorizes = matches!(action, HubAction::OAuth { .. });
            #[cfg(not(feature = "oauth"))]
            let authorizes = false;
            assert!(authorizes || !self.log.iter().any(|line| line == "closed"), "{action:?} after the end");
            match action {
                HubAction::Open { session, connection } => {
                    self.opened(session);
                    self.connections.insert(session, connection);
                    let name = self.name_of(session);
                    self.log.push(format!("{name}: open"));
                    self.todo.push_back(Todo::Open(session));
                }
                HubAction::Send { session, message } => {
                    let value: Value = serde_json::from_slice(message.bytes()).unwrap();
                    self.message(session, None, value);
                }
                HubAction::Shutdown { session, how } => {
                    let name = self.name_of(session);
                    self.log.push(format!("{name}: shut"));
                    self.starting.remove(&session);
                    self.todo.push_back(Todo::Shut(session, how));
                }
                HubAction::Request { session, request } => {
                    if !self.started.contains(&session) {
                        self.opened(session);
                    }
                    let request = *request;
                    let message = serde_json::from_slice(request.request.body()).unwrap_or(Value::Null);
                    self.requests.push((session, request.exchange, request.request));
                    self.exchange = Some(request.exchange);
                    assert!(self.exchanges.insert((session, request.exchange), message.clone()).is_none());
                    self.message(session, Some(request.exchange), message);
                }
                HubAction::Drop { session, exchange } => {
                    assert!(self.exchanges.remove(&(session, exchange)).is_some(), "{exchange:?} is not open");
                }
                #[cfg(feature = "oauth")]
                HubAction::OAuth { session, action } => {
                    let name = self.name_of(session);
                    self.oauth.push_back((session, name, *action));
                }
                HubAction::Event(event) => self.record(event),
                other => panic!("an unknown action: {other:?}"),
            }
        }
        self.outputs_may_lag = false;
        if !self.closing {
            let names: BTreeSet<_> = self.functions().into_iter().collect();
            assert_eq!(self.exposed, names, "the reported differences do not match the tools");
        }
    }

    /// Checks a session that connects: it belongs to an enabled server, is its only one, and the number of starts is
    /// within the limit.
    fn opened(&mut self, session: SessionHandle) {
        let name = self.name_of(session);
        if !self.outputs_may_lag {
            assert!(!self.closing, "opened while the hub closes");
            assert_eq!(self.hub.handle(&name), Some(session), "{name} has another session");
            assert!(self.hub.configuration().servers[&*name].enabled, "{name} is disabled");
        }
        assert!(!self.processes.contains_key(&name), "{name} is opened while its process runs");
        if self.started.insert(session) {
            self.starting.insert(session);
            let hub = &self.hub;
            self.starting.retain(|session| hub.server(*session).is_some_and(|name| hub.handle(name) == Some(*session)));
            assert!(self.starting.len() <= self.starts, "more than {} start at once", self.starts);
        }
        let starting = self.hub.servers().filter(|report| matches!(report.state, Some(State::Starting))).count();
        assert!(starting <= self.starts, "more than {} start at once", self.starts);
    }

    fn message(&mut self, session: SessionHandle, exchange: Option<ExchangeId>, value: Value) {
        let name = self.name_of(session);
        let method = value["method"].as_str().unwrap_or(if value.is_null() { "(none)" } else { "(answer)" });
        self.log.push(format!("{name}: > {method}"));
        self.sent.push((session, value.clone()));
        self.todo.push_back(Todo::Message(session, exchange, value));
    }

    fn record(&mut self, event: HubEvent) {
        match &event {
            HubEvent::Session { session, server, event } => {
                assert_eq!(self.name_of(*session), **server);
                let text = format!("{event:?}");
                let what = text.split(['(', ' ']).next().unwrap().to_lowercase();
                self.log.push(format!("{server}: {what}"));
                if matches!(event, Event::Ready | Event::Down { .. } | Event::Closed { .. }) {
                    self.starting.remove(session);
                }
            }
            HubEvent::Ready => self.log.push("ready".into()),
            HubEvent::Settled => self.log.push("settled".into()),
            HubEvent::Failed { server, again, .. } => {
                self.log.push(format!("{server} failed{}", if *again { ", again" } else { "" }));
            }
            HubEvent::ToolsetChanged { server, difference, .. } => {
                assert!(!difference.is_empty(), "no difference");
                for name in &difference.removed {
                    self.log.push(format!("{server} - {name}"));
                    assert!(self.exposed.remove(&**name), "{name} was not there");
                }
                for name in &difference.added {
                    self.log.push(format!("{server} + {name}"));
                    assert!(self.exposed.insert((&**name).into()), "{name} was there");
                }
                for name in &difference.changed {
                    self.log.push(format!("{server} ~ {name}"));
                    assert!(self.exposed.contains(&**name), "{name} was not there");
                }
            }
            HubEvent::IdleShutdown { session, server } => {
                assert_eq!(self.name_of(*session), **server);
                self.log.push(format!("{server}: rests"));
            }
            HubEvent::Finished { call, server, .. } => {
                assert!(self.accepted.contains(call), "{call:?} was not made");
                assert!(self.ended(*call).is_none(), "{call:?} ends twice");
                self.log.push(format!("{server}: finished"));
            }
            HubEvent::Closed => {
                assert!(self.closing, "closed without a command");
                self.log.push("closed".into());
            }
            other => panic!("an unknown event: {other:?}"),
        }
        self.events.push(event);
    }

    fn name_of(&self, session: SessionHandle) -> String {
        self.hub.server(session).expect("an active session has a server").into()
    }

    /// Does what the hub asks for, until there is nothing left to do.
    pub fn serve(&mut self) {
        for _ in 0..100_000 {
            let Some(todo) = self.todo.pop_front() else { return };
            match todo {
                Todo::Open(session) => self.start(session),
                Todo::Message(session, exchange, message) => self.deliver(session, exchange, &message),
                Todo::Shut(session, how) => self.shut(session, how),
            }
        }
        panic!("servers and hub never become idle");
    }

    fn start(&mut self, session: SessionHandle) {
        let Some(name) = self.hub.server(session).map(String::from) else { return };
        let event = if self.get(&name).behaviour == Behaviour::DoesNotStart {
            Transport::OpenFailed { how: OpenFailure::Spawn, why: "no such file" }
        } else {
            self.processes.insert(name, Process { session, ends: false });
            Transport::Opened
        };
        self.report(session, event);
    }

    /// Reports an event of a session's transport.
    pub fn report(&mut self, session: SessionHandle, event: Transport<'_>) {
        self.hub.handle_transport(self.now, session, self.connection(session), event);
        self.collect();
    }

    /// The newest connection of a session.
    pub fn connection(&self, session: SessionHandle) -> ConnectionId {
        self.connections.get(&session).copied().unwrap_or_default()
    }

    fn deliver(&mut self, session: SessionHandle, exchange: Option<ExchangeId>, message: &Value) {
        let Some(name) = self.hub.server(session).map(String::from) else { return };
        match exchange {
            Some(exchange) if !self.exchanges.contains_key(&(session, exchange)) => return,
            None if self.process(session).is_none() => return,
            Some(_) | None => {}
        }
        let request = self.requests.iter().rev().find(|(of, id, _)| (*of, Some(*id)) == (session, exchange));
        let peer = self.peers.get_mut(&name).expect(&name);
        if let (Some((_, exchange, request)), Some(takes)) = (request, &mut peer.takes)
            && !takes(request)
        {
            let exchange = *exchange;
            self.head(session, exchange, 401, &[(WWW_AUTHENTICATE, "Bearer")]);
            return self.end(session, exchange);
        }
        if peer.unanswered.is_some() && message["method"].as_str() == peer.unanswered {
            return peer.withheld.push((session, exchange, message.clone()));
        }
        match (peer.behaviour, exchange) {
            (Behaviour::Silent, _) => {}
            (Behaviour::Answers | Behaviour::Refuses, None) => {
                let answers = peer.server.answer(message);
                answers.iter().for_each(|answer| self.write(session, answer));
            }
            (Behaviour::Exits | Behaviour::DoesNotStart, None) => self.exit(&name),
            (Behaviour::Garbles, None) => self.report(session, Transport::ProtocolViolation { why: "no end of line" }),
            (Behaviour::Answers | Behaviour::Garbles, Some(exchange)) => self.reply(session, exchange, message),
            (Behaviour::Refuses, Some(exchange)) => {
                self.head(session, exchange, 401, &[(WWW_AUTHENTICATE, "Bearer scope=\"tools\"")]);
                self.end(session, exchange);
            }
            (Behaviour::Exits | Behaviour::DoesNotStart, Some(exchange)) => {
                self.exchanges.remove(&(session, exchange));
                self.hub.handle_failure(self.now, session, exchange, Broken::Unreachable, "refused");
                self.collect();
            }
        }
    }

    /// A server over HTTP answers each message in the response to its POST; it has no GET stream.
    fn reply(&mut self, session: SessionHandle, exchange: ExchangeId, message: &Value) {
        let name = self.name_of(session);
        if message.is_null() {
            self.head(session, exchange, 405, &[(CONTENT_TYPE, "text/plain")]);
            return self.end(session, exchange);
        }
        match self.get(&name).server.answer(message).pop() {
            None => self.head(session, exchange, 202, &[(CONTENT_TYPE, "text/plain")]),
            Some(answer) => {
                let id = self.get(&name).session.map(|id| (HeaderName::from_static("mcp-session-id"), id));
                let headers: Vec<_> = id.into_iter().chain([(CONTENT_TYPE, "application/json")]).collect();
                self.head(session, exchange, 200, &headers);
                if self.exchanges.contains_key(&(session, exchange)) {
                    self.hub.handle_body(self.now, session, exchange, answer.to_string().as_bytes());
                    self.collect();
                }
            }
        }
        self.end(session, exchange);
    }

    fn head(
        &mut self,
        session: SessionHandle,
        exchange: ExchangeId,
        status: u16,
        headers: &[(HeaderName, &'static str)],
    ) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let headers: HeaderMap = headers.collect();
        self.hub.handle_head(self.now, session, exchange, StatusCode::from_u16(status).unwrap(), &headers);
        self.collect();
    }

    fn end(&mut self, session: SessionHandle, exchange: ExchangeId) {
        if self.exchanges.remove(&(session, exchange)).is_some() {
            self.hub.handle_end(self.now, session, exchange);
            self.collect();
        }
    }

    fn process(&self, session: SessionHandle) -> Option<&str> {
        let mut running = self.processes.iter();
        running.find(|(_, process)| process.session == session).map(|(name, _)| &**name)
    }

    /// The process writes this message.
    pub fn write(&mut self, session: SessionHandle, message: &Value) {
        self.hub.handle_bytes(self.now, session, self.connection(session), format!("{message}\n").as_bytes());
        self.collect();
    }

    /// The server's process, if it runs, writes this message.
    pub fn write_to_output(&mut self, name: &str, message: &Value) {
        if let Some(process) = self.processes.get(name).copied() {
            self.write(process.session, message);
        }
    }

    /// The server's process exits by itself.
    pub fn exit(&mut self, name: &str) {
        if let Some(process) = self.processes.remove(name) {
            self.report(process.session, Transport::Closed { why: "exit status 1" });
        }
    }

    /// The servers whose processes run.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        self.processes.keys().map(String::as_str)
    }

    /// Whether a server's process runs.
    pub fn runs(&self, name: &str) -> bool {
        self.processes.contains_key(name)
    }

    fn shut(&mut self, session: SessionHandle, how: ShutdownStep) {
        let Some(name) = self.process(session).map(String::from) else {
            // It was never started.
            return self.report(session, Transport::Closed { why: "never started" });
        };
        if self.get(&name).ignores_end_of_input && how != ShutdownStep::Kill {
            self.processes.entry(name).and_modify(|process| process.ends = true);
        } else {
            self.exit(&name);
        }
    }

    /// Ends a process that ignores the end of its input, if its input was closed.
    pub fn end_process(&mut self, name: &str) {
        self.get(name).ignores_end_of_input = false;
        if self.processes.get(name).is_some_and(|process| process.ends) {
            self.exit(name);
        }
    }

    /// The server answers the requests that it withholds, and no longer withholds any.
    pub fn release(&mut self, name: &str) {
        let peer = self.get(name);
        peer.unanswered = None;
        for (session, exchange, message) in mem::take(&mut peer.withheld) {
            self.deliver(session, exchange, &message);
        }
        self.serve();
    }

    /// The requests that a server withholds.
    pub fn withheld(&self, name: &str) -> Vec<&Value> {
        self.peers[name].withheld.iter().map(|(_, _, message)| message).collect()
    }

    /// Advances the time while the servers answer, stopping at each deadline.
    pub fn wait(&mut self, duration: Duration) {
        self.serve();
        let end = self.now + duration;
        let mut still = 0;
        let mut steps = Steps::until("no deadline is left within the time to wait");
        while let Some(deadline) = self.hub.deadline().filter(|deadline| *deadline <= end) {
            steps.step();
            still = if deadline > self.now { 0 } else { still + 1 };
            assert!(still < 100, "the deadline does not advance");
            self.now = self.now.max(deadline);
            self.timeout();
            self.serve();
        }
        self.now = end;
        self.timeout();
        self.serve();
    }

    pub fn timeout(&mut self) {
        self.hub.handle_timeout(self.now);
        self.collect();
        let deadline = self.hub.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "the deadline {deadline:?} has passed already");
    }

    /// The exposed names of the tools.
    pub fn functions(&self) -> Vec<String> {
        self.hub.functions().map(|(_, function)| function.name.into()).collect()
    }

    pub fn state(&self, name: &str) -> Option<State> {
        self.hub.servers().find(|report| report.name == name).expect(name).state
    }

    /// The newest exchange.
    pub fn exchange(&self) -> ExchangeId {
        self.exchange.expect("an HTTP request was sent")
    }

    /// The log since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        mem::take(&mut self.log)
    }

    /// How often a line was logged.
    pub fn count(&self, line: &str) -> usize {
        self.log.iter().filter(|known| *known == line).count()
    }

    /// The index of a line in the log.
    pub fn at(&self, line: &str) -> usize {
        self.log.iter().position(|known| known == line).unwrap_or_else(|| panic!("no {line:?} in {:#?}", self.log))
    }

    /// The parameters of each message of this method that a server received, in order.
    pub fn received_params(&self, name: &str, method: &str) -> Vec<Value> {
        let messages = self.peers[name].server.messages();
        messages.filter(|message| message["method"] == method).map(|message| message["params"].clone()).collect()
    }
}
