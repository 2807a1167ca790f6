//! The fake server: its state, settings, inputs and outputs.

mod requests;

use serde_json::{Value, json};
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::string::String;
use std::vec::Vec;
use std::{fmt, format};

use super::content::{Ask, Content, FakeTool, object, text_of};
#[cfg(feature = "journal")]
use super::recording::{Mismatch, Recording};
use super::script::{On, Reply, Scripts, Turn};
use super::spelling::Spelling;
use crate::binding::{Line, LineDecoder};
use crate::protocol::method;
use crate::{Era, ProtocolVersion, ShutdownStep, Time};

/// Messages that are kept in the log, and violations.
const LOG: usize = 65_536;
const VIOLATIONS: usize = 256;
/// Bytes of a line.
const LINE: usize = 64 << 20;

/// The parameters of a request in, its result or its error object out.
type Handler = Box<dyn FnMut(&Value) -> Result<Value, Value> + Send>;

/// An MCP server that performs no I/O: requests of a client and the time in, responses out.
///
/// It speaks the versions that it is given, of one era or of both, over pipes and over Streamable HTTP. It offers what
/// it is given, follows the protocol except where a script says otherwise, and counts what it runs. Several connections
/// may be open at once; each has a [`ChannelId`]. Lists, scripts and counts belong to the server, and outlive its
/// connections.
///
/// A [`Sim`](crate::testkit::Sim) drives it together with clients. Without one, [`answer`](Self::answer) gives the
/// responses to a message at once.
pub struct FakeServer {
    info: Value,
    instructions: Option<String>,
    versions: Vec<ProtocolVersion>,
    /// In place of those that the content implies.
    capabilities: Option<Value>,
    content: Content,
    /// Items per page; 0 for one page.
    page_size: usize,
    /// The newest comes first.
    handlers: Vec<(String, Handler)>,
    scripts: Scripts<On>,
    with_sessions: bool,
    with_stream: bool,
    answers_by_stream: bool,
    resumes: bool,
    spelling: Spelling,
    /// The step of a shutdown at which its processes exit.
    exits_at: ShutdownStep,
    #[cfg(feature = "journal")]
    playback: Playback,
    state: State,
}

/// What changes while the server runs.
#[derive(Debug, Default)]
struct State {
    now: Time,
    channels: BTreeMap<ChannelId, Channel>,
    sessions: BTreeMap<u64, Session>,
    /// The streams of modern clients.
    listens: Vec<Listen>,
    /// Calls that wait for the client's answers.
    calls: BTreeMap<u64, Call>,
    /// What is due later, in order of time.
    jobs: BTreeMap<(Time, u64), Job>,
    out: VecDeque<ServerAction>,
    /// Numbers sessions, jobs, questions and events.
    counter: u64,
    /// Executions by method and subject.
    runs: BTreeMap<(String, String), usize>,
    methods: BTreeMap<String, usize>,
    log: VecDeque<Value>,
    answers: Vec<Value>,
    violations: Vec<String>,
}

/// A connection.
#[derive(Debug)]
struct Channel {
    is_exchange: bool,
    session: Option<u64>,
    /// What the client writes to a pipe.
    lines: LineDecoder,
    /// The head of the response was written: it is a stream.
    streams: bool,
    /// Its stream can be resumed.
    resumable: Option<Stream>,
    /// Headers of the response.
    headers: Vec<(&'static str, String)>,
}

impl Channel {
    const fn new(is_exchange: bool, session: Option<u64>) -> Self {
        Self {
            is_exchange,
            session,
            lines: LineDecoder::new(LINE),
            streams: false,
            resumable: None,
            headers: Vec::new(),
        }
    }
}

/// A session of the legacy era.
#[derive(Debug)]
struct Session {
    /// Its id over HTTP.
    name: Option<String>,
    version: Option<ProtocolVersion>,
    is_initialized: bool,
    /// Where the server sends what nobody asked for.
    stream: Option<ChannelId>,
    subscribed: BTreeSet<String>,
    /// Server requests without an answer, each with the call that waits for it.
    asks: BTreeMap<u64, Option<u64>>,
    /// The ids of requests.
    ids: BTreeSet<String>,
}

/// A stream of `subscriptions/listen`.
#[derive(Debug)]
struct Listen {
    channel: ChannelId,
    id: Value,
    /// What the server agreed to announce.
    filter: Value,
}

/// A call that waits for answers of the client.
#[derive(Debug)]
struct Call {
    channel: ChannelId,
    session: u64,
    message: Value,
    reply: Reply,
    /// What a journal has of it.
    turn: Option<Turn>,
    asks: VecDeque<Ask>,
}

/// What the server does at a time.
#[derive(Debug)]
struct Job {
    channel: ChannelId,
    /// The request that it is about, which may be cancelled.
    of: Option<Value>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A message.
    Message {
        message: Value,
        /// The status of the HTTP response that it ends.
        ends: Option<u16>,
    },
    /// Half of an answer, and the end of the connection.
    Torn(Value),
    Noise(String),
    /// An HTTP response without a message.
    Status {
        status: u16,
        text: String,
    },
    /// A stream begins.
    Stream,
    End,
    Break,
}

impl State {
    /// The next number.
    const fn next(&mut self) -> u64 {
        self.counter = self.counter.saturating_add(1);
        self.counter
    }

    /// Notes a message of the client.
    fn note(&mut self, message: &Value) {
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let count = self.methods.entry(method.into()).or_default();
            *count = count.saturating_add(1);
            if self.log.len() >= LOG {
                self.log.pop_front();
            }
            self.log.push_back(message.clone());
        } else if self.answers.len() < LOG {
            self.answers.push(message.clone());
        }
    }

    /// Notes that the client violated the protocol.
    fn violation(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS {
            self.violations.push(what);
        }
    }

    /// Counts an execution.
    fn ran(&mut self, method: &str, subject: &str) {
        let count = self.runs.entry((method.into(), subject.into())).or_default();
        *count = count.saturating_add(1);
    }

    fn open_session(&mut self, name: Option<String>, stream: Option<ChannelId>) -> u64 {
        let key = self.next();
        self.sessions.insert(
            key,
            Session {
                name,
                version: None,
                is_initialized: false,
                stream,
                subscribed: BTreeSet::new(),
                asks: BTreeMap::new(),
                ids: BTreeSet::new(),
            },
        );
        key
    }

    /// What happens on one connection happens on another from now on.
    #[cfg(feature = "http")]
    fn move_to(&mut self, former: ChannelId, channel: ChannelId) {
        let is_former = |known: &&mut ChannelId| **known == former;
        let jobs = self.jobs.values_mut().map(|job| &mut job.channel);
        let calls = self.calls.values_mut().map(|call| &mut call.channel);
        let streams = self.sessions.values_mut().filter_map(|session| session.stream.as_mut());
        jobs.chain(calls).chain(streams).filter(is_former).for_each(|known| *known = channel);
    }

    /// Forgets a connection, and what depends on it. A session over HTTP outlives its connections.
    fn close(&mut self, channel: ChannelId) {
        let Some(closed) = self.channels.remove(&channel) else { return };
        self.jobs.retain(|_, job| job.channel != channel);
        self.listens.retain(|listen| listen.channel != channel);
        self.calls.retain(|_, call| call.channel != channel);
        let Some(key) = closed.session else { return };
        if !closed.is_exchange {
            self.sessions.remove(&key);
        } else if let Some(session) = self.sessions.get_mut(&key)
            && session.stream == Some(channel)
        {
            session.stream = None;
        }
    }
}

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers: Vec<_> = self.handlers.iter().map(|(method, _)| method).collect();
        f.debug_struct("FakeServer")
            .field("info", &self.info)
            .field("versions", &self.versions)
            .field("content", &self.content)
            .field("handlers", &handlers)
            .field("scripts", &self.scripts)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl FakeServer {
    /// A server that speaks these versions, without content. It answers what it has not with -32601.
    pub fn new(versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        Self {
            info: json!({"name": "fake", "version": "1.0.0"}),
            instructions: None,
            versions: versions.into_iter().collect(),
            capabilities: None,
            content: Content::default(),
            page_size: 0,
            handlers: Vec::new(),
            scripts: Scripts::default(),
            with_sessions: true,
            with_stream: true,
            answers_by_stream: false,
            resumes: false,
            spelling: Spelling::Compact,
            exits_at: ShutdownStep::CloseInput,
            #[cfg(feature = "journal")]
            playback: Playback::default(),
            state: State::default(),
        }
    }

    /// A server that speaks every version of the legacy era.
    pub fn legacy() -> Self {
        Self::new(ProtocolVersion::ALL.iter().copied().filter(|version| version.era() == Era::Legacy))
    }

    /// A server that speaks every version of the modern era.
    pub fn modern() -> Self {
        Self::new(ProtocolVersion::ALL.iter().copied().filter(|version| version.era() == Era::Modern))
    }

    /// Sets the server's name and version.
    #[must_use]
    pub fn named(mut self, name: &str, version: &str) -> Self {
        self.info = json!({"name": name, "version": version});
        self
    }

    /// Sets the server's instructions.
    #[must_use]
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets the capabilities, in place of those that the content implies.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: FakeTool) -> Self {
        self.content.tools.get_or_insert_default().push(tool);
        self
    }

    /// Adds a prompt of this name. Its result is one message with the name.
    #[must_use]
    pub fn prompt(mut self, name: &str) -> Self {
        self.content.prompts.get_or_insert_default().push(object(json!({"name": name})));
        self
    }

    /// Adds a resource with this URI, which is also its name. Its content is the URI as text.
    #[must_use]
    pub fn resource(mut self, uri: &str) -> Self {
        self.content.resources.get_or_insert_default().push(object(json!({"uri": uri, "name": uri})));
        self
    }

    /// Adds a resource template, whose name is the template.
    #[must_use]
    pub fn template(mut self, template: &str) -> Self {
        self.content.templates.get_or_insert_default().push(object(json!({"uriTemplate": template, "name": template})));
        self
    }

    /// Splits lists into pages of this many items; 0 for one page, the default.
    #[must_use]
    pub const fn page_size(mut self, items: usize) -> Self {
        self.page_size = items;
        self
    }

    /// Answers a method with a function, in place of the content: the parameters in, the result or the error object
    /// out. A function that is added later comes first. Such a request runs unless the function returns an error.
    #[must_use]
    pub fn on(mut self, method: &str, handler: impl FnMut(&Value) -> Result<Value, Value> + Send + 'static) -> Self {
        self.handlers.insert(0, (method.into(), Box::new(handler)));
        self
    }

    /// Answers a method always with this result.
    #[must_use]
    pub fn result(self, method: &str, result: Value) -> Self {
        self.on(method, move |_| Ok(result.clone()))
    }

    /// Answers a method always with this error.
    #[must_use]
    pub fn error(self, method: &str, code: i64, message: &str) -> Self {
        let error = json!({"code": code, "message": message});
        self.on(method, move |_| Err(error.clone()))
    }

    /// Scripts the next requests of a kind: one reply each, then the server answers as it should. Scripts are used up
    /// in the order in which they were added.
    #[must_use]
    pub fn script(mut self, on: On, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.add_script(on, replies);
        self
    }

    /// As [`script`](Self::script), while the server runs.
    pub fn add_script(&mut self, on: On, replies: impl IntoIterator<Item = Reply>) {
        self.scripts.add(on, replies);
    }

    /// Scripts every request of a kind for which no script has a reply left.
    #[must_use]
    pub fn always(mut self, on: On, reply: Reply) -> Self {
        self.scripts.always(on, reply);
        self
    }

    /// Sets whether the server has sessions over HTTP in the legacy era, with ids; `true` by default.
    #[must_use]
    pub const fn sessions(mut self, has: bool) -> Self {
        self.with_sessions = has;
        self
    }

    /// Sets whether the server has a GET stream over HTTP in the legacy era; `true` by default. Without one, it cannot
    /// announce changes, and answers 405.
    #[must_use]
    pub const fn get_stream(mut self, has: bool) -> Self {
        self.with_stream = has;
        self
    }

    /// Sets whether the server answers requests over HTTP by an event stream where JSON would do; `false` by default.
    #[must_use]
    pub const fn streams(mut self, does: bool) -> Self {
        self.answers_by_stream = does;
        self
    }

    /// Sets whether the events of streams over HTTP have ids in the legacy era, and a stream whose connection broke
    /// continues where a client resumes it with `Last-Event-ID`; `false` by default. Responses come by stream then.
    #[must_use]
    pub const fn resumes(mut self, does: bool) -> Self {
        self.resumes = does;
        self
    }

    /// Sets how the server spells its messages; [`Spelling::Compact`] by default. On a pipe, where a message is a line, it
    /// leaves line feeds out.
    #[must_use]
    pub const fn spelling(mut self, spelling: Spelling) -> Self {
        self.spelling = spelling;
        self
    }

    /// Sets the step of a shutdown at which its processes exit; [`ShutdownStep::CloseInput`] by default.
    #[must_use]
    pub const fn exits_at(mut self, step: ShutdownStep) -> Self {
        self.exits_at = step;
        self
    }

    /// How often a tool ran.
    pub fn tool_runs(&self, name: &str) -> usize {
        self.runs("tools/call", name)
    }

    /// How often a resource was read.
    pub fn resource_reads(&self, uri: &str) -> usize {
        self.runs("resources/read", uri)
    }

    /// How often a prompt was delivered.
    pub fn prompt_gets(&self, name: &str) -> usize {
        self.runs("prompts/get", name)
    }

    fn runs(&self, method: &str, subject: &str) -> usize {
        self.state.runs.get(&(method.into(), subject.into())).copied().unwrap_or_default()
    }

    /// The names of the tools that ran, with how often each did.
    pub fn all_tool_runs(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all_runs("tools/call")
    }

    /// The URIs of the resources that were read, with how often each was.
    pub fn all_resource_reads(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all_runs("resources/read")
    }

    /// The names of the prompts that were delivered, with how often each was.
    pub fn all_prompt_gets(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all_runs("prompts/get")
    }

    fn all_runs(&self, method: &'static str) -> impl Iterator<Item = (&str, usize)> {
        let runs = self.state.runs.iter().filter(move |((known, _), _)| known == method);
        runs.map(|((_, subject), count)| (subject.as_str(), *count))
    }

    /// How many requests and notifications of this method came, answered or not.
    pub fn received(&self, method: &str) -> usize {
        self.state.methods.get(method).copied().unwrap_or_default()
    }

    /// The requests and notifications that came, in order: the last 65,536.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.state.log.iter()
    }

    /// The client's responses to server requests, in order: the first 65,536.
    pub fn answers(&self) -> &[Value] {
        &self.state.answers
    }

    /// What the client did against the protocol, in words: the first 256.
    pub fn violations(&self) -> &[String] {
        &self.state.violations
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.content.tools.iter().flatten().map(FakeTool::name)
    }

    /// The tool of this name.
    pub fn find_tool(&self, name: &str) -> Option<&FakeTool> {
        self.content.tool(name)
    }

    /// The URIs of the resources.
    pub fn resource_uris(&self) -> impl Iterator<Item = &str> {
        self.content.resources.iter().flatten().map(|resource| text_of(resource, "uri"))
    }

    /// The names of the prompts.
    pub fn prompt_names(&self) -> impl Iterator<Item = &str> {
        self.content.prompts.iter().flatten().map(|prompt| text_of(prompt, "name"))
    }
}

/// The connection of [`FakeServer::answer`].
const LOOSE: ChannelId = ChannelId::from_u64(u64::MAX);

impl FakeServer {
    /// A client opens a pipe: a process starts, which has a session of its own.
    pub fn handle_open(&mut self, now: Time, channel: ChannelId) {
        self.advance(now);
        let session = self.state.open_session(None, Some(channel));
        self.state.channels.insert(channel, Channel::new(false, Some(session)));
    }

    /// The client writes to a pipe: a chunk of lines, of any size.
    pub fn handle_bytes(&mut self, now: Time, channel: ChannelId, chunk: &[u8]) {
        self.advance(now);
        let Some(known) = self.state.channels.get_mut(&channel) else { return };
        let mut lines: Vec<Vec<u8>> = Vec::new();
        known.lines.feed(chunk, |line| match line {
            Line::Complete(line) | Line::TooLong(line) => lines.push(line.into_owned()),
        });
        for line in lines {
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) => self.receive(channel, &message),
                Err(error) => {
                    let text = String::from_utf8_lossy(&line).chars().take(100).collect::<String>();
                    self.state.violation(format!("a line that is not a message ({error}): {text}"));
                }
            }
        }
    }

    /// The client shuts a pipe down. The process exits at the step that [`exits_at`](Self::exits_at) names, at the
    /// latest when it is killed.
    pub fn handle_shutdown(&mut self, now: Time, channel: ChannelId, step: ShutdownStep) {
        self.advance(now);
        let rank = |step| match step {
            ShutdownStep::CloseInput => 0,
            ShutdownStep::Terminate => 1,
            ShutdownStep::Kill => 2,
        };
        if rank(step) >= rank(self.exits_at) {
            self.now(channel, What::End);
        }
    }

    /// A connection is gone: the pipe broke, or the client dropped the exchange. Nothing more is sent on it. A stream
    /// that can be [resumed](Self::resumes) is kept.
    pub fn handle_closed(&mut self, now: Time, channel: ChannelId) {
        self.advance(now);
        if !self.keep(channel) {
            self.state.close(channel);
        }
    }

    /// The next action that is due.
    #[must_use = "the action has to be executed"]
    pub fn poll(&mut self, now: Time) -> Option<ServerAction> {
        self.advance(now);
        self.work(self.state.now);
        self.state.out.pop_front()
    }

    /// When the next action is due; `None` for never.
    pub fn deadline(&self) -> Option<Time> {
        if self.state.out.is_empty() {
            self.state.jobs.first_key_value().map(|((at, _), _)| *at)
        } else {
            Some(self.state.now)
        }
    }

    /// The server crashes: every connection breaks, and every session is lost. It serves new connections.
    pub fn crash(&mut self, now: Time) {
        self.advance(now);
        self.state.jobs.clear();
        self.state.sessions.clear();
        let channels: Vec<_> = self.state.channels.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.now(channel, What::Break));
    }

    /// The server forgets its sessions over HTTP, and ends their streams. A request of such a session is answered 404.
    pub fn expire(&mut self, now: Time) {
        self.advance(now);
        let (expired, kept): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.state.sessions).into_iter().partition(|(_, session)| session.name.is_some());
        self.state.sessions = kept.into_iter().collect();
        for stream in expired.into_iter().filter_map(|(_, session)| session.stream) {
            self.now(stream, What::End);
        }
    }

    /// The messages that the server sends because of a message, without delay and without a transport. All calls share
    /// one connection, which never breaks.
    pub fn answer(&mut self, message: &Value) -> Vec<Value> {
        if !self.state.channels.contains_key(&LOOSE) {
            self.handle_open(self.state.now, LOOSE);
        }
        self.receive(LOOSE, message);
        self.work_on(LOOSE);
        let out = core::mem::take(&mut self.state.out);
        let (own, others): (Vec<_>, Vec<_>) = out.into_iter().partition(|action| action.channel == LOOSE);
        self.state.out = others.into_iter().collect();
        own.into_iter().filter_map(|action| parsed(&action.output)).collect()
    }

    /// Sets the time of what follows, which never goes back.
    pub(super) fn advance(&mut self, now: Time) {
        self.state.now = self.state.now.max(now);
    }
}

fn parsed(output: &ServerOutput) -> Option<Value> {
    match output {
        ServerOutput::Bytes(bytes) => serde_json::from_slice(bytes).ok(),
        ServerOutput::Head { .. } | ServerOutput::End | ServerOutput::Break => None,
    }
}

/// Events of a stream that are kept; a longer stream cannot be resumed.
const EVENTS: usize = 65_536;

/// A stream whose events have ids: the number of the stream and that of the event.
#[derive(Debug)]
struct Stream {
    number: u64,
    /// The data of its events, from number 1 on.
    events: Vec<String>,
    /// Its connection broke.
    is_broken: bool,
    /// Its last event was sent, or would have been.
    is_over: bool,
}

impl Stream {
    const fn new(number: u64) -> Self {
        Self { number, events: Vec::new(), is_broken: false, is_over: false }
    }

    const fn is_new(&self) -> bool {
        self.events.is_empty()
    }

    const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// An event without data, whose id a client resumes from before the first message.
    fn first(&self) -> Vec<u8> {
        format!("id: {}-0\ndata:\n\n", self.number).into_bytes()
    }

    /// Adds an event, and returns its id; `None` if there are too many.
    fn add(&mut self, data: &str) -> Option<String> {
        if self.events.len() >= EVENTS {
            return None;
        }
        self.events.push(data.into());
        Some(format!("{}-{}", self.number, self.events.len()))
    }

    const fn end(&mut self) {
        self.is_over = true;
    }
}

/// The journal that a server plays.
#[cfg(feature = "journal")]
#[derive(Debug, Default)]
struct Playback {
    recording: Option<Recording>,
    mismatches: Vec<Mismatch>,
    /// What is said when the session has a stream, in order.
    waiting: VecDeque<News>,
    /// When the last of it is due. The next does not come before.
    due: Time,
}

#[cfg(feature = "journal")]
#[derive(Debug)]
struct News {
    at: Time,
    /// The session of the legacy era.
    session: Option<u64>,
    message: Value,
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The version that a message of the modern era names.
pub(super) fn modern_version(message: &Value) -> Option<&Value> {
    message.get("params")?.get("_meta")?.get(VERSION)
}

/// The request being executed.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    channel: ChannelId,
    /// The session, in the legacy era.
    session: Option<u64>,
    era: Era,
    message: &'a Value,
}

impl<'a> Asked<'a> {
    fn method(&self) -> &'a str {
        self.message.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    fn id(&self) -> &'a Value {
        self.message.get("id").unwrap_or(&Value::Null)
    }

    fn params(&self) -> &'a Value {
        self.message.get("params").unwrap_or(&Value::Null)
    }

    fn subject(&self) -> Option<&'a str> {
        subject_of(self.message)
    }
}

/// What a request is about: a tool, a prompt or a resource.
pub(super) fn subject_of(message: &Value) -> Option<&str> {
    let is_read = message.get("method").and_then(Value::as_str) == Some(method::RESOURCES_READ);
    message.get("params")?.get(if is_read { "uri" } else { "name" })?.as_str()
}

fn error(code: i64, message: &str) -> Value {
    json!({"code": code, "message": message})
}

/// A connection of a fake server: a pipe, or an HTTP exchange. Whoever drives the server numbers them, and uses no
/// number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ChannelId(u64);

impl ChannelId {
    /// The connection with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The connection as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// What a fake server does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAction {
    /// On which connection.
    pub channel: ChannelId,
    /// What it does.
    pub output: ServerOutput,
}

/// The headers of a response.
#[cfg(feature = "http")]
pub(super) fn header_map(headers: Vec<(&'static str, String)>) -> http::HeaderMap {
    let header = |(name, value): (_, String)| {
        Some((http::HeaderName::from_static(name), http::HeaderValue::from_str(&value).ok()?))
    };
    headers.into_iter().filter_map(header).collect()
}

/// What a fake server does on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerOutput {
    /// It begins an HTTP response.
    Head {
        /// The status.
        status: u16,
        /// The headers: lower-case names, and values.
        headers: Vec<(&'static str, String)>,
    },
    /// It writes to the pipe, or a part of the body of its HTTP response. On a pipe, this is one line.
    Bytes(Vec<u8>),
    /// The HTTP response is complete; the process exits.
    End,
    /// The connection breaks.
    Break,
}
