//! What goes to a transport and what it reports: actions, encoded messages, events of the transport.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde_json::value::RawValue;

use super::core::Core;
use super::request::{Call, Purpose, TraceContext};
use super::{Event, LogLevel, Options, RequestId};
use crate::jsonrpc::{self, Json, Object};
use crate::machine::task;
use crate::protocol::{Era, ProtocolVersion, method};

/// What the embedder has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Action {
    /// Open the transport, start the process for example; if a process still runs, end it first. Then report
    /// [`Transport::Opened`](crate::Transport::Opened) or [`Transport::OpenFailed`](crate::Transport::OpenFailed) for this
    /// connection.
    Open(ConnectionId),
    /// Send a message on the current connection.
    Send(Outgoing),
    /// Shut the transport down, and report [`Transport::Closed`](crate::Transport::Closed) when it is closed.
    Shutdown(ShutdownStep),
    /// An event for the embedder.
    Event(Event),
}

/// A connection of a client, counted from 1; the default is that of a client that was not opened yet. Inputs from a
/// transport name the connection that they belong to; those of an older connection are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// The connection with this number; the highest one for a number above `u32::MAX`.
    pub const fn from_u64(id: u64) -> Self {
        Self(if id > u32::MAX as u64 { u32::MAX } else { id as u32 })
    }

    /// The connection as a number.
    pub const fn as_u64(self) -> u64 {
        self.0 as u64
    }

    /// The connection that follows.
    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The JSON-RPC id of a request of the client. No connection uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WireId(u64);

impl WireId {
    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as it is written: a JSON number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// An exchange of a client over HTTP: a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExchangeId(u64);

impl ExchangeId {
    /// The exchange with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The exchange as a number. A client counts its exchanges.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// An exchange over HTTP that begins when it is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct StartId(pub(crate) u64);

/// What the engine has a binding or the embedder do.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Output {
    /// Open the transport.
    Open(ConnectionId),
    /// Send a message.
    Send(Outgoing),
    /// Over HTTP: drop the exchange of the request with this id. A modern server takes that as the cancellation.
    Abort(u64),
    /// Shut the transport down.
    Shutdown(ShutdownStep),
    /// Report an event to the embedder.
    Event(Event),
    /// Over HTTP: begin an exchange that is the binding's own. Put in by the binding.
    Start(StartId),
    /// Over HTTP: drop an exchange. Put in by the binding.
    Drop(ExchangeId),
}

impl Output {
    /// Bytes of data that the server sent unsolicited, and of responses to it.
    #[inline]
    pub(super) fn unasked_bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.payload(),
            Self::Send(Outgoing { method: None, line, .. }) => line.len(),
            Self::Send(_) | Self::Open(_) | Self::Shutdown(_) | Self::Abort(_) | Self::Start(_) | Self::Drop(_) => 0,
        }
    }
}

/// A step of the shutdown of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ShutdownStep {
    /// Close the input of the process, and let it exit.
    CloseInput,
    /// Terminate the process (`SIGTERM`).
    Terminate,
    /// Kill the process (`SIGKILL`).
    Kill,
}

/// A message to send. Its `Debug` shows its text. With the feature `serde` it is serialized with the members `message`,
/// which is the message itself, `version` and `of`.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub(super) line: Vec<u8>,
    pub(super) method: Option<Cow<'static, str>>,
    pub(super) id: Option<u64>,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) of: Option<RequestId>,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.bytes());
        f.debug_struct("Outgoing")
            .field("text", &text)
            .field("version", &self.version)
            .field("of", &self.of)
            .finish_non_exhaustive()
    }
}

impl Outgoing {
    /// A message with this text, as a client sends it: method and id are those of the text. `version` and `of` are
    /// what [`version`](Self::version) and [`of`](Self::of) return.
    pub fn new(message: &RawValue, version: Option<ProtocolVersion>, of: Option<RequestId>) -> Self {
        let json = Json::from(message);
        let method = json.member("method").and_then(Json::as_string).map(|method| Cow::Owned(method.into_owned()));
        let id = json.member("id").and_then(|id| id.text().parse().ok()).filter(|_| method.is_some());
        // JSON strings contain no raw line breaks, so any line break is white space between tokens.
        let unbroken = |byte: u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
        let line = message.get().bytes().map(unbroken).chain([b'\n']).collect();
        Self { line, method, id, version, of }
    }

    /// The message: one JSON object without line breaks.
    pub fn bytes(&self) -> &[u8] {
        self.line.strip_suffix(b"\n").unwrap_or(&self.line)
    }

    /// The message with a line feed at its end, for stdio.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// As [`line`](Self::line), of a message that is not kept.
    pub fn into_line(self) -> Vec<u8> {
        self.line
    }

    /// The method of a request or a notification; `None` for a response.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The JSON-RPC id of a request; `None` for a notification or a response. A request that is sent again has a new one
    /// and keeps its [`RequestId`].
    pub fn wire_id(&self) -> Option<WireId> {
        self.id.map(WireId)
    }

    /// Takes the message out, without a line feed; [`bytes`](Self::bytes) is empty from here on.
    #[cfg(feature = "http")]
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = core::mem::take(&mut self.line);
        bytes.pop_if(|last| *last == b'\n');
        bytes
    }

    pub(crate) const fn id(&self) -> Option<u64> {
        self.id
    }

    /// Whether it cancels a request or a task: it leaves before the connection is closed.
    pub(crate) fn is_cancellation(&self) -> bool {
        matches!(self.method(), Some(method::CANCELLED | method::TASKS_CANCEL))
    }

    /// The embedder's request that this message carries or belongs to: a cancellation of it, or a response to a server
    /// request in its HTTP exchange.
    pub const fn of(&self) -> Option<RequestId> {
        self.of
    }

    #[cfg(feature = "http")]
    pub(crate) fn is_modern(&self) -> bool {
        self.version.is_some_and(|version| version.era() == Era::Modern)
    }

    /// The protocol version that is negotiated or offered.
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }
}

/// What the embedder reports about the transport.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Transport<'a> {
    /// It is open.
    Opened,
    /// It could not be opened.
    OpenFailed {
        /// How it failed.
        how: OpenFailure,
        /// The system's message.
        why: &'a str,
    },
    /// It is closed: the server's output ended, a write failed or the process exited.
    Closed {
        /// The system's message, such as an exit status.
        why: &'a str,
    },
    /// The server violated the rules of the transport, and it cannot be used any more.
    ProtocolViolation {
        /// A description of the violation.
        why: &'a str,
    },
    /// It is not open or does not respond yet, but there is activity: a package is being installed, or the process
    /// writes to its standard error.
    SignOfLife,
}

/// How opening a transport failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OpenFailure {
    /// The command could not be started. Another attempt would fail, too.
    Spawn,
    /// The server could not be reached.
    Connect,
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const PROGRESS_TOKEN: &str = "progressToken";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` of a request.
struct Meta<'a> {
    options: &'a Options,
    log_level: Option<LogLevel>,
    /// The version, if its requests carry it.
    modern: Option<ProtocolVersion>,
    /// The members that describe the client to a server of this version, with the brace before them, if they are known.
    identity: Option<&'a [u8]>,
    trace: Option<&'a TraceContext>,
    /// The progress token, if progress is requested.
    progress: Option<u64>,
}

impl Meta<'_> {
    fn is_empty(&self) -> bool {
        self.modern.is_none()
            && self.progress.is_none()
            && self.trace.is_none_or(|trace| trace.members().next().is_none())
    }

    fn owns(&self, name: &str) -> bool {
        let modern = match name {
            VERSION | CLIENT_INFO | CLIENT_CAPABILITIES => self.modern.is_some(),
            PROGRESS_TOKEN => self.progress.is_some(),
            LOG_LEVEL => self.modern.is_some() && self.log_level.is_some(),
            _ => false,
        };
        modern || self.trace.is_some_and(|trace| trace.members().any(|(member, _)| member == name))
    }

    /// Adds `_meta`, together with the embedder's members of it.
    fn write(&self, params: &mut Object<'_>, given: Option<Json<'_>>) {
        if !self.is_empty() || given.is_some() {
            self.write_object(params.plain("_meta"), given);
        }
    }

    fn write_object(&self, out: &mut Vec<u8>, given: Option<Json<'_>>) {
        let mut meta = Object::begin(out);
        if let Some(given) = given {
            given.members(|name, value| {
                if !self.owns(name) {
                    meta.raw(name, value.text());
                }
            });
        }
        for (name, value) in self.trace.iter().flat_map(|trace| trace.members()) {
            meta.string(name, value);
        }
        if let Some(token) = self.progress {
            jsonrpc::digits(meta.plain(PROGRESS_TOKEN), token);
        }
        if let Some(version) = self.modern {
            match self.identity {
                Some(identity) => meta.members_of(identity),
                None => write_identity(&mut meta, self.options, version),
            }
            if let Some(level) = self.log_level {
                meta.string(LOG_LEVEL, level.as_str());
            }
        }
        meta.end();
    }
}

/// Writes the members of `_meta` that describe the client.
fn write_identity(meta: &mut Object<'_>, options: &Options, version: ProtocolVersion) {
    jsonrpc::string(meta.plain(VERSION), version.as_str());
    let mut info = Object::begin(meta.plain(CLIENT_INFO));
    options.client.write(&mut info);
    info.end();
    let mut capabilities = Object::begin(meta.plain(CLIENT_CAPABILITIES));
    options.capabilities.write(&mut capabilities, Era::Modern);
    capabilities.end();
}

impl Core {
    /// Encodes the members of `_meta` that each request to a modern server has.
    pub(super) fn encode_identity(&mut self) {
        self.identity = self.version().filter(|version| version.era() == Era::Modern).map(|version| {
            let mut members = Vec::with_capacity(256);
            write_identity(&mut Object::begin(&mut members), &self.options, version);
            members.into_boxed_slice()
        });
    }

    /// Encodes an open request.
    pub(super) fn encode_request(&self, id: u64, purpose: &Purpose) -> Outgoing {
        let version = if let Purpose::Discover(version) | Purpose::Initialize(version) = purpose {
            Some(*version)
        } else {
            self.version()
        };
        let modern = version.filter(|version| version.era() == Era::Modern);
        let identity = self.identity.as_deref().filter(|_| version == self.version());
        let (options, log_level) = (&*self.options, self.log_level);
        let meta = Meta { options, log_level, modern, identity, trace: None, progress: None };
        // The buffer for a call is sized below.
        let mut line = if matches!(purpose, Purpose::Call(_)) { Vec::new() } else { Vec::with_capacity(128) };
        let method = purpose.method();
        let plain = |line: &mut Vec<u8>| jsonrpc::request(line, id, &method, None::<fn(&mut Vec<u8>)>);
        match purpose {
            Purpose::Initialize(version) => {
                object_request(&mut line, id, &method, |params| self.write_initialize(params, *version));
            }
            Purpose::List { cursor: None, .. } | Purpose::Keepalive(_) if meta.is_empty() => plain(&mut line),
            Purpose::Discover(_) | Purpose::Keepalive(_) | Purpose::Rediscover => {
                object_request(&mut line, id, &method, |params| meta.write(params, None));
            }
            Purpose::List { cursor, .. } => object_request(&mut line, id, &method, |params| {
                if let Some(cursor) = cursor.as_deref() {
                    params.raw("cursor", cursor);
                }
                meta.write(params, None);
            }),
            Purpose::SetLevel => {
                let level = self.log_level.map_or("info", |level| level.as_str());
                object_request(&mut line, id, &method, |params| {
                    params.string("level", level);
                });
            }
            Purpose::Listen { filter, .. } => object_request(&mut line, id, &method, |params| {
                params.raw("notifications", filter);
                meta.write(params, None);
            }),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => object_request(&mut line, id, &method, |params| {
                params.string("uri", uri);
                meta.write(params, None);
            }),
            Purpose::CancelTask(task) | Purpose::PollTask(task) => object_request(&mut line, id, &method, |params| {
                params.string("taskId", task);
                meta.write(params, None);
            }),
            Purpose::Call(call) => {
                let meta = Meta { trace: call.request.trace.as_deref(), ..meta };
                match &call.task {
                    Some(task) => object_request(&mut line, id, &method, |params| {
                        params.string("taskId", &task.id);
                        let input = call.input.as_ref().filter(|_| task.state == task::State::Updating);
                        if let Some(responses) = input.and_then(|input| input.responses.as_deref()) {
                            params.raw("inputResponses", responses);
                        }
                        meta.write(params, None);
                    }),
                    None => {
                        let meta = Meta { progress: call.request.progress.then_some(id), ..meta };
                        encode_call(&mut line, id, call, &meta, self.task_ttl(call));
                    }
                }
            }
        }
        let of = if let Purpose::Call(call) = purpose { Some(call.handle) } else { None };
        Outgoing { of, ..finish(line, Some(method), Some(id), version) }
    }

    fn write_initialize(&self, params: &mut Object<'_>, version: ProtocolVersion) {
        params.string("protocolVersion", version.as_str());
        params.object("capabilities", |object| {
            if !self.is_bare {
                self.options.capabilities.write(object, Era::Legacy);
            }
        });
        params.object("clientInfo", |info| self.options.client.write(info));
    }

    pub(super) fn encode_notification(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Option<impl FnOnce(&mut Vec<u8>)>,
    ) -> Outgoing {
        let (mut line, method) = (Vec::new(), method.into());
        jsonrpc::notification(&mut line, &method, params);
        finish(line, Some(method), None, self.agreed)
    }

    pub(super) fn encode_response(&self, write: impl FnOnce(&mut Vec<u8>)) -> Outgoing {
        let mut line = Vec::new();
        write(&mut line);
        finish(line, None, None, self.agreed)
    }
}

fn object_request(line: &mut Vec<u8>, id: u64, method: &str, members: impl FnOnce(&mut Object<'_>)) {
    jsonrpc::request(
        line,
        id,
        method,
        Some(|out: &mut Vec<u8>| {
            let mut params = Object::begin(out);
            members(&mut params);
            params.end();
        }),
    );
}

/// Encodes a call; `task` has a legacy server run it as a task, and keep that for this time.
fn encode_call(line: &mut Vec<u8>, id: u64, call: &Call, meta: &Meta<'_>, task: Option<Duration>) {
    let Call { request, input, .. } = call;
    let given = request.params.as_deref();
    line.reserve(given.map_or(0, |params| params.get().len()).saturating_add(256));
    if let (false, None, None, Some((members, separator))) =
        (meta.is_empty(), task, input, given.and_then(without_meta))
    {
        jsonrpc::request(
            line,
            id,
            &request.method,
            Some(|out: &mut Vec<u8>| {
                out.extend_from_slice(members.as_bytes());
                out.extend_from_slice(separator.as_bytes());
                out.extend_from_slice(b"\"_meta\":");
                meta.write_object(out, None);
                out.push(b'}');
            }),
        );
    } else if !meta.is_empty() || task.is_some() {
        object_request(line, id, &request.method, |params| {
            let mut given_meta = None;
            if let Some(given) = given {
                Json::from(given).raw_members(|name, value| match name.as_string().as_deref() {
                    Some("_meta") => given_meta = Some(value),
                    Some("inputResponses" | "requestState") if input.is_some() => {}
                    Some("task") if task.is_some() => {}
                    _ => params.member(name.text(), value.text()),
                });
            }
            if let Some(responses) = input.as_ref().and_then(|input| input.responses.as_deref()) {
                params.raw("inputResponses", responses);
            }
            if let Some(state) = input.as_ref().and_then(|input| input.state.as_deref()) {
                params.raw("requestState", state);
            }
            if let Some(ttl) = task {
                let ttl = i128::try_from(ttl.as_millis()).unwrap_or(i128::MAX);
                params.object("task", |task| {
                    task.integer("ttl", ttl);
                });
            }
            meta.write(params, given_meta);
        });
    } else {
        let raw = given.map(|params| |out: &mut Vec<u8>| out.extend_from_slice(params.get().as_bytes()));
        jsonrpc::request(line, id, &request.method, raw);
    }
}

/// The beginning of an object up to its closing brace, and what separates the next member from it; `None` if `_meta` may be
/// among its members.
fn without_meta(params: &RawValue) -> Option<(&str, &'static str)> {
    let text = params.get();
    if jsonrpc::has_either_pair(text.as_bytes(), *b"\"_", *b"\\u") {
        return None;
    }
    let members = text.strip_suffix('}')?;
    Some((members, if members.trim_end().ends_with('{') { "" } else { "," }))
}

fn finish(
    mut line: Vec<u8>,
    method: Option<Cow<'static, str>>,
    id: Option<u64>,
    version: Option<ProtocolVersion>,
) -> Outgoing {
    // JSON strings contain no raw line breaks, so any line break is white space between tokens.
    if jsonrpc::has_either(&line, b'\n', b'\r') {
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    line.push(b'\n');
    Outgoing { line, method, id, version, of: None }
}

#[cfg(feature = "serde")]
mod form {
    //! The serialized form of a message to send.

    use alloc::borrow::Cow;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    use super::super::RequestId;
    use super::Outgoing;
    use crate::jsonrpc::Json;
    use crate::protocol::ProtocolVersion;

    #[derive(Serialize, Deserialize)]
    struct Form<Message> {
        message: Message,
        version: Option<ProtocolVersion>,
        of: Option<RequestId>,
        /// Of a message whose text was taken out, which is null here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        taken: Option<Taken>,
    }

    #[derive(Serialize, Deserialize)]
    struct Taken {
        method: Option<Cow<'static, str>>,
        id: Option<u64>,
    }

    impl Serialize for Outgoing {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let Self { line, method, id, version, of } = self;
            let (version, of) = (*version, *of);
            if line.is_empty() {
                let taken = Some(Taken { method: method.clone(), id: *id });
                return Form { message: (), version, of, taken }.serialize(serializer);
            }
            // The engine encodes messages as JSON.
            let message = core::str::from_utf8(self.bytes()).map(|text| Json::trusted(text).raw());
            let message = message.map_err(serde::ser::Error::custom)?;
            Form { message, version, of, taken: None }.serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Outgoing {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let Form::<Box<RawValue>> { message, version, of, taken } = Form::deserialize(deserializer)?;
            Ok(match taken {
                Some(Taken { method, id }) => Self { line: Vec::new(), method, id, version, of },
                None => Self::new(&message, version, of),
            })
        }
    }
}
