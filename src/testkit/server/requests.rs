//! What a fake server does with messages: receives and executes them, answers as their scripts say, and sends.

use core::time::Duration;
#[cfg(feature = "http")]
use http::{HeaderMap, Method, Request};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

#[cfg(feature = "http")]
use super::Channel;
#[cfg(feature = "journal")]
use super::News;
use super::{
    Asked, Call, ChannelId, EVENTS, FakeServer, Job, Listen, SUBSCRIPTION, ServerAction, ServerOutput, Stream, What,
    error, modern_version,
};
#[cfg(feature = "journal")]
use crate::journal::{JournalError, JournalLimits};
use crate::protocol::{Family, method};
use crate::testkit::content::{Ask, FakeTool, has, object};
#[cfg(feature = "journal")]
use crate::testkit::recording::{Mismatch, Recorded, Recording};
use crate::testkit::script::{Answer, On, Reply, Turn};
use crate::{Era, ProtocolVersion, Time};

/// Ids of a session that are remembered.
const IDS: usize = 65_536;
#[cfg(feature = "http")]
const SESSION: &str = "mcp-session-id";
#[cfg(feature = "http")]
const VERSION: &str = "mcp-protocol-version";
/// Broken streams that wait to be resumed; of more, the oldest are forgotten.
const BROKEN: usize = 256;
const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";
/// Mismatches that are kept.
#[cfg(feature = "journal")]
const MISMATCHES: usize = 256;

impl FakeServer {
    /// Takes a message on a connection.
    pub(super) fn receive(&mut self, channel: ChannelId, message: &Value) {
        self.state.note(message);
        let session = self.state.channels.get(&channel).and_then(|channel| channel.session);
        let is_request = message.get("id").is_some();
        match message.get("method").and_then(Value::as_str) {
            None => self.answered(session, message),
            Some(method) if !is_request => self.notified(channel, session, method, message),
            Some(method) => self.request(channel, session, method, message),
        }
    }

    /// The client answers a server request.
    fn answered(&mut self, session: Option<u64>, message: &Value) {
        let id = message.get("id").and_then(Value::as_u64);
        let open = session.and_then(|session| self.state.sessions.get_mut(&session));
        let ask = open.zip(id).and_then(|(session, id)| session.asks.remove(&id));
        match ask {
            Some(Some(call)) => self.ask_next(call),
            Some(None) => {}
            None => self.state.violation(format!("a response to no server request: {message}")),
        }
    }

    fn notified(&mut self, channel: ChannelId, session: Option<u64>, method: &str, message: &Value) {
        self.recorded_notification(session, method);
        let open = session.and_then(|session| self.state.sessions.get_mut(&session));
        match (method, open) {
            (method::INITIALIZED, Some(session)) if session.version.is_some() => session.is_initialized = true,
            (method::INITIALIZED, _) => self.state.violation(format!("{method} before initialize")),
            (method::CANCELLED, _) => {
                let id = message.get("params").and_then(|params| params.get("requestId"));
                self.cancelled(channel, session, id.unwrap_or(&Value::Null));
            }
            _ => {}
        }
    }

    /// A request is cancelled: what it still waits for is dropped. Over HTTP the request came on another connection of
    /// the session.
    fn cancelled(&mut self, channel: ChannelId, session: Option<u64>, id: &Value) {
        let channels = &self.state.channels;
        let is_of = |other: ChannelId| {
            let known = channels.get(&other).and_then(|channel| channel.session);
            other == channel || session.is_some() && known == session
        };
        self.state.jobs.retain(|_, job| !(is_of(job.channel) && job.of.as_ref() == Some(id)));
        self.state.calls.retain(|_, call| !(is_of(call.channel) && call.message.get("id") == Some(id)));
        self.state.listens.retain(|listen| !(is_of(listen.channel) && listen.id == *id));
    }

    fn request(&mut self, channel: ChannelId, session: Option<u64>, method: &str, message: &Value) {
        let asked = |era, session| Asked { channel, session, era, message };
        if method == method::INITIALIZE {
            return self.open(asked(Era::Legacy, session));
        }
        if let Some(version) = modern_version(message).filter(|_| self.speaks(Era::Modern)) {
            if !self.versions.iter().any(|known| version.as_str() == Some(known.as_str())) {
                let names = self.versions.iter().map(|version| json!(version.as_str()));
                let data = json!({"supported": names.collect::<Value>(), "requested": version});
                let refusal = json!({"code": -32022, "message": "Unsupported protocol version", "data": data});
                return self.answer_with(asked(Era::Modern, None), Err(refusal));
            }
            if method == method::LISTEN && !self.is_handled(method) {
                return self.listen(asked(Era::Modern, None));
            }
            return self.execute(asked(Era::Modern, None));
        }
        self.check(session, method, message);
        self.execute(asked(Era::Legacy, session));
    }

    /// Notes what a legacy client must not do.
    fn check(&mut self, session: Option<u64>, method: &str, message: &Value) {
        // A client finds out the era with this.
        if method == method::DISCOVER {
            return;
        }
        let Some(session) = session.and_then(|session| self.state.sessions.get_mut(&session)) else { return };
        let (version, is_initialized) = (session.version, session.is_initialized);
        let id = message.get("id").map(ToString::to_string).unwrap_or_default();
        let is_new = session.ids.len() >= IDS || session.ids.insert(id.clone());
        if version.is_none() {
            self.state.violation(format!("{method} before initialize"));
        } else if !is_initialized && method != method::PING {
            self.state.violation(format!("{method} before {}", method::INITIALIZED));
        }
        if !is_new {
            self.state.violation(format!("the id {id} is used again, by {method}"));
        }
    }

    /// `initialize`: a function may answer it; the session has the offered version then.
    fn open(&mut self, asked: Asked<'_>) {
        let version = if self.plays() {
            self.recorded_version(asked.params())
        } else if self.is_handled(method::INITIALIZE) {
            let offered = asked.params().get("protocolVersion").and_then(Value::as_str);
            Some(offered.and_then(|version| version.parse().ok()).unwrap_or(ProtocolVersion::NEWEST_LEGACY))
        } else {
            self.initialized(asked.params()).map(|(version, _)| version)
        };
        self.execute(asked);
        if let Some(session) = asked.session.and_then(|session| self.state.sessions.get_mut(&session)) {
            session.version = version;
            session.is_initialized = false;
            session.subscribed.clear();
            session.ids.clear();
        }
    }

    fn listen(&mut self, asked: Asked<'_>) {
        if let Some(turn) = self.recorded_turn(asked) {
            // Its acknowledgement is the first that is said.
            if !turn.said.is_empty() {
                self.now(asked.channel, What::Stream);
                let (channel, id) = (asked.channel, asked.id().clone());
                self.state.listens.push(Listen { channel, id, filter: Value::Null });
            }
            self.finish(asked, Reply::Normal, Some(turn));
            return self.tell_news();
        }
        self.now(asked.channel, What::Stream);
        let filter = self.agree(asked);
        self.state.listens.push(Listen { channel: asked.channel, id: asked.id().clone(), filter });
    }

    /// Takes a request of an open session or of the modern era.
    fn execute(&mut self, asked: Asked<'_>) {
        let is_of = |on: &On| on.matches(asked.method(), asked.subject());
        let reply = self.scripts.next_reply(is_of).or_else(|| self.scripts.default_reply(is_of));
        match reply.unwrap_or(Reply::Normal) {
            Reply::DiesFirst => self.finish(asked, Reply::Normal, Some(Turn::of(Answer::Break))),
            Reply::Error { code, message } => self.answer_with(asked, Err(error(code, &message))),
            Reply::Status { status, text } => {
                let is_redirect = (300..400).contains(&status);
                let headers = is_redirect.then(|| ("location", text.clone())).into_iter().collect();
                let answer = Answer::Status { status, headers, text };
                self.finish(asked, Reply::Normal, Some(Turn::of(answer)));
            }
            reply @ (Reply::Normal
            | Reply::Late(_)
            | Reply::Silent
            | Reply::Twice
            | Reply::Noise(_)
            | Reply::Result(_)
            | Reply::With(_)
            | Reply::Dies
            | Reply::Torn) => self.begin(asked, reply),
        }
    }

    /// A tool that asks gets its answers first.
    fn begin(&mut self, asked: Asked<'_>, reply: Reply) {
        let turn = self.recorded_turn(asked);
        let asks = turn.as_ref().map_or_else(|| self.asks_of(asked), |turn| turn.asks.iter().cloned().collect());
        match (asked.era, asked.session) {
            (Era::Legacy, Some(session)) if !asks.is_empty() => {
                let key = self.state.next();
                let call = Call { channel: asked.channel, session, message: asked.message.clone(), reply, turn, asks };
                self.state.calls.insert(key, call);
                self.ask_next(key);
            }
            (Era::Modern, _) if !asks.is_empty() && asked.params().get("inputResponses").is_none() => {
                let wanted: Map<String, Value> = asks
                    .iter()
                    .enumerate()
                    .map(|(at, ask)| (format!("input-{at}"), json!({"method": ask.method, "params": ask.params})))
                    .collect();
                let state = format!("state-{}", self.state.next());
                let result = json!({"resultType": "input_required", "inputRequests": wanted, "requestState": state});
                self.answer_with(asked, Ok(result));
            }
            (Era::Legacy | Era::Modern, _) => self.finish(asked, reply, turn),
        }
    }

    fn asks_of(&self, asked: Asked<'_>) -> VecDeque<Ask> {
        let tool = self.tool_of(asked);
        let asks = tool.map(|tool| tool.asks.clone()).unwrap_or_default();
        asks.into_iter().filter(|ask| asked.era == Era::Legacy || ask.method != method::PING).collect()
    }

    fn tool_of(&self, asked: Asked<'_>) -> Option<&FakeTool> {
        let own = asked.method() == method::TOOLS_CALL && !self.is_handled(asked.method());
        asked.subject().filter(|_| own).and_then(|name| self.content.tool(name))
    }

    fn is_handled(&self, method: &str) -> bool {
        self.handlers.iter().any(|(known, _)| known == method)
    }

    /// Sends the next question of a call, or runs the call.
    fn ask_next(&mut self, key: u64) {
        let Some(call) = self.state.calls.get_mut(&key) else { return };
        let (channel, session) = (call.channel, call.session);
        if let Some(ask) = call.asks.pop_front() {
            self.ask_on(channel, session, Some(key), &ask);
        } else if let Some(Call { message, reply, turn, .. }) = self.state.calls.remove(&key) {
            self.finish(Asked { channel, session: Some(session), era: Era::Legacy, message: &message }, reply, turn);
        }
    }

    /// Sends a server request.
    fn ask_on(&mut self, channel: ChannelId, session: u64, call: Option<u64>, ask: &Ask) {
        let id = self.state.next();
        let Some(open) = self.state.sessions.get_mut(&session) else { return };
        open.asks.insert(id, call);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": ask.method, "params": ask.params});
        self.tell(channel, request);
    }

    /// Runs a request, and answers it.
    fn finish(&mut self, asked: Asked<'_>, reply: Reply, turn: Option<Turn>) {
        let Turn { takes, said, answer, .. } = turn.unwrap_or_else(|| self.turn(asked, &reply));
        let (channel, id) = (asked.channel, asked.id());
        for (at, message) in said {
            self.after(at, channel, Some(id), What::Message { message, ends: None });
        }
        let (status, outcome) = match (&reply, answer) {
            (Reply::Result(result), _) => (200, Ok(result.clone())),
            (_, Answer::Message { status, outcome }) => (status, outcome.map(|result| reply.revised(result))),
            (_, Answer::Status { status, headers, text }) => return self.refuse(asked, takes, status, headers, text),
            (_, Answer::Break) => return self.after(takes, channel, None, What::Break),
            (_, Answer::None) => return,
        };
        if outcome.is_ok() {
            self.state.ran(asked.method(), asked.subject().unwrap_or_default());
        }
        let message = response(id, outcome);
        if self.resumes && asked.session.is_some() {
            self.now(channel, What::Stream);
        }
        let answer = |message| What::Message { message, ends: Some(status) };
        match reply {
            Reply::Silent => {}
            Reply::Late(late) => self.after(takes.saturating_add(late), channel, Some(id), answer(message)),
            Reply::Dies => self.after(takes, channel, None, What::Break),
            Reply::Torn => self.after(takes, channel, Some(id), What::Torn(message)),
            Reply::Twice => {
                let first = What::Message { message: message.clone(), ends: None };
                self.after(takes, channel, Some(id), first);
                self.after(takes, channel, Some(id), answer(message));
            }
            Reply::Noise(text) => {
                self.after(takes, channel, Some(id), What::Noise(text));
                self.after(takes, channel, Some(id), answer(message));
            }
            Reply::Normal
            | Reply::Result(_)
            | Reply::With(_)
            | Reply::Error { .. }
            | Reply::Status { .. }
            | Reply::DiesFirst => self.after(takes, channel, Some(id), answer(message)),
        }
    }

    /// Answers without a message: over HTTP with a status, on a pipe with an error.
    fn refuse(
        &mut self,
        asked: Asked<'_>,
        takes: Duration,
        status: u16,
        headers: Vec<(&'static str, String)>,
        text: String,
    ) {
        let what = match self.state.channels.get_mut(&asked.channel).filter(|channel| channel.is_exchange) {
            Some(channel) => {
                channel.headers.extend(headers);
                What::Status { status, text }
            }
            None => What::Message { message: response(asked.id(), Err(error(-32000, &text))), ends: Some(status) },
        };
        self.after(takes, asked.channel, Some(asked.id()), what);
    }

    /// What the content, or a function, has for a request.
    fn turn(&mut self, asked: Asked<'_>, reply: &Reply) -> Turn {
        let (takes, reports) = self.tool_of(asked).map_or((Duration::ZERO, 0), |tool| (tool.takes, tool.progress));
        let answer = match reply {
            Reply::Result(_) => Answer::None,
            Reply::Normal
            | Reply::Late(_)
            | Reply::Silent
            | Reply::Twice
            | Reply::Noise(_)
            | Reply::With(_)
            | Reply::Error { .. }
            | Reply::Status { .. }
            | Reply::Dies
            | Reply::Torn
            | Reply::DiesFirst => Answer::Message { status: 200, outcome: self.outcome(asked) },
        };
        Turn { asks: Vec::new(), said: progress(asked, takes, reports), takes, answer }
    }

    /// Answers a request at once.
    fn answer_with(&mut self, asked: Asked<'_>, outcome: Result<Value, Value>) {
        let message = response(asked.id(), outcome);
        self.after(Duration::ZERO, asked.channel, Some(asked.id()), What::Message { message, ends: Some(200) });
    }

    fn outcome(&mut self, asked: Asked<'_>) -> Result<Value, Value> {
        let (method, params) = (asked.method(), asked.params());
        if let Some((_, handler)) = self.handlers.iter_mut().find(|(known, _)| known == method) {
            return handler(params);
        }
        let result = match method {
            method::INITIALIZE => self.initialized(params).ok_or_else(unknown_method)?.1,
            method::PING if asked.era == Era::Legacy => json!({}),
            method::DISCOVER if self.speaks(Era::Modern) => self.discovered(),
            method::TOOLS_LIST | method::PROMPTS_LIST | method::RESOURCES_LIST | method::RESOURCE_TEMPLATES_LIST => {
                self.page(method, params)?
            }
            method::TOOLS_CALL if self.content.tools.is_some() => {
                let name = asked.subject().unwrap_or_default();
                let tool = self.content.tool(name);
                let tool = tool.ok_or_else(|| error(-32602, &format!("Unknown tool: {name}")))?;
                let text = || json!({"content": [{"type": "text", "text": name}]});
                tool.result.clone().unwrap_or_else(text)
            }
            method::PROMPTS_GET => {
                let name = asked.subject().unwrap_or_default();
                if !has(self.content.prompts.as_deref(), "name", name).ok_or_else(unknown_method)? {
                    return Err(error(-32602, &format!("Unknown prompt: {name}")));
                }
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": name}}]})
            }
            method::RESOURCES_READ => {
                let uri = asked.subject().unwrap_or_default();
                if !has(self.content.resources.as_deref(), "uri", uri).ok_or_else(unknown_method)? {
                    let code = if asked.era == Era::Legacy { -32002 } else { -32602 };
                    return Err(error(code, &format!("Resource not found: {uri}")));
                }
                json!({"contents": [{"uri": uri, "text": uri}]})
            }
            method::COMPLETE if self.declares("completions") => json!({"completion": {"values": []}}),
            method::SET_LEVEL if asked.era == Era::Legacy && self.declares("logging") => json!({}),
            method::SUBSCRIBE | method::UNSUBSCRIBE if asked.era == Era::Legacy && self.has_subscriptions() => {
                self.subscription(asked)?
            }
            _ => return Err(unknown_method()),
        };
        Ok(if asked.era == Era::Modern { modern(method, result) } else { result })
    }

    fn has_subscriptions(&self) -> bool {
        self.declared().get("resources").and_then(|resources| resources.get("subscribe")) == Some(&Value::Bool(true))
    }

    fn subscription(&mut self, asked: Asked<'_>) -> Result<Value, Value> {
        let uri = asked.params().get("uri").and_then(Value::as_str);
        let uri = uri.ok_or_else(|| error(-32602, "`uri` is missing"))?;
        let session = asked.session.and_then(|session| self.state.sessions.get_mut(&session));
        if let Some(session) = session {
            if asked.method() == method::SUBSCRIBE {
                session.subscribed.insert(uri.into());
            } else {
                session.subscribed.remove(uri);
            }
        }
        Ok(json!({}))
    }

    /// A page of a list. The cursor is the number of items before it.
    fn page(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let Some((member, items)) = self.content.list(method) else { return Err(unknown_method()) };
        let start = match params.get("cursor") {
            None | Some(Value::Null) => 0,
            Some(cursor) => {
                let start = cursor.as_str().and_then(|cursor| cursor.parse().ok());
                start.filter(|start| *start < items.len()).ok_or_else(|| error(-32602, "Invalid cursor"))?
            }
        };
        let size = if self.page_size == 0 { usize::MAX } else { self.page_size };
        let end = start.saturating_add(size);
        let count = items.len();
        let page: Vec<_> = items.into_iter().skip(start).take(size).collect();
        let mut result = Map::new();
        result.insert(member.into(), Value::Array(page));
        if end < count {
            result.insert("nextCursor".into(), Value::String(format!("{end}")));
        }
        Ok(Value::Object(result))
    }

    fn discovered(&self) -> Value {
        let versions: Vec<_> = self.versions.iter().map(|version| version.as_str()).collect();
        let mut result = Map::new();
        result.insert("supportedVersions".into(), json!(versions));
        result.insert("capabilities".into(), self.declared());
        if let Some(text) = &self.instructions {
            result.insert("instructions".into(), json!(text));
        }
        result.insert("_meta".into(), json!({"io.modelcontextprotocol/serverInfo": self.info}));
        Value::Object(result)
    }

    /// The result of `initialize`, and the version that it names.
    fn initialized(&self, params: &Value) -> Option<(ProtocolVersion, Value)> {
        let offered: Option<ProtocolVersion> =
            params.get("protocolVersion").and_then(Value::as_str).and_then(|version| version.parse().ok());
        let legacy = self.versions.iter().copied().filter(|version| version.era() == Era::Legacy);
        let newest = legacy.clone().max()?;
        let version = legacy.clone().find(|version| Some(*version) == offered).unwrap_or(newest);
        let mut result = Map::new();
        result.insert("protocolVersion".into(), json!(version.as_str()));
        result.insert("capabilities".into(), self.declared());
        result.insert("serverInfo".into(), self.info.clone());
        if let Some(text) = &self.instructions {
            result.insert("instructions".into(), json!(text));
        }
        Some((version, Value::Object(result)))
    }

    fn speaks(&self, era: Era) -> bool {
        self.versions.iter().any(|version| version.era() == era)
    }

    fn declares(&self, capability: &str) -> bool {
        self.declared().get(capability).is_some()
    }

    fn declared(&self) -> Value {
        self.capabilities.clone().unwrap_or_else(|| self.content.capabilities())
    }

    /// Keeps a stream that broke. Returns whether it can be resumed.
    pub(super) fn keep(&mut self, channel: ChannelId) -> bool {
        let known = self.state.channels.get_mut(&channel).and_then(|known| known.resumable.as_mut());
        let Some(stream) = known.filter(|stream| stream.events.len() < EVENTS) else { return false };
        stream.is_broken = true;
        let is_broken = |stream: &Stream| stream.is_broken;
        let broken = self.state.channels.iter().filter(|(_, known)| known.resumable.as_ref().is_some_and(is_broken));
        let broken: Vec<_> = broken.map(|(channel, _)| *channel).collect();
        for oldest in broken.iter().take(broken.len().saturating_sub(BROKEN)) {
            self.state.close(*oldest);
        }
        true
    }

    /// Continues a stream of this session on another connection, after the event with this id.
    #[cfg(feature = "http")]
    fn resume(&mut self, channel: ChannelId, session: u64, last: &str) -> Result<(), (u16, String)> {
        let unknown = || (400, "Bad Request: no such event".into());
        let (number, seen) = last.split_once('-').ok_or_else(unknown)?;
        let (number, seen): (u64, usize) = number.parse().ok().zip(seen.parse().ok()).ok_or_else(unknown)?;
        let is_it = |stream: &Stream| stream.number == number && seen <= stream.events.len();
        let mut channels = self.state.channels.iter();
        let found =
            channels.find(|(_, known)| known.session == Some(session) && known.resumable.as_ref().is_some_and(is_it));
        let former = found.map(|(former, _)| *former).ok_or_else(unknown)?;
        let mut known = self.state.channels.remove(&former).ok_or_else(unknown)?;
        let mut missed = Vec::new();
        let mut is_over = false;
        if let Some(stream) = &mut known.resumable {
            stream.is_broken = false;
            is_over = stream.is_over;
            missed.extend(
                stream
                    .events
                    .iter()
                    .enumerate()
                    .skip(seen)
                    .map(|(at, data)| (format!("{number}-{}", at.saturating_add(1)), data.clone())),
            );
        }
        self.state.channels.insert(channel, known);
        self.state.move_to(former, channel);
        self.stream_head(channel);
        for (id, data) in missed {
            self.put_event(channel, Some(&id), &data);
        }
        if is_over {
            self.over(channel, ServerOutput::End);
        }
        Ok(())
    }

    /// Replaces the tools, and announces it.
    pub fn set_tools(&mut self, tools: impl IntoIterator<Item = FakeTool>) {
        self.content.tools = Some(tools.into_iter().collect());
        self.list_changed(Family::Tools);
    }

    /// Replaces the prompts, and announces it.
    pub fn set_prompts<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.content.prompts = Some(names.into_iter().map(|name| object(json!({"name": name}))).collect());
        self.list_changed(Family::Prompts);
    }

    /// Replaces the resources, and announces it.
    pub fn set_resources<'a>(&mut self, uris: impl IntoIterator<Item = &'a str>) {
        self.content.resources = Some(uris.into_iter().map(|uri| object(json!({"uri": uri, "name": uri}))).collect());
        self.list_changed(Family::Resources);
    }

    /// Announces that a list changed to every client that is to be told: in the legacy era all that are initialized and
    /// have a stream, in the modern one those that listen.
    pub fn list_changed(&mut self, family: Family) {
        let (method, wanted) = match family {
            Family::Tools => (method::TOOLS_LIST_CHANGED, "toolsListChanged"),
            Family::Prompts => (method::PROMPTS_LIST_CHANGED, "promptsListChanged"),
            Family::Resources | Family::ResourceTemplates => (method::RESOURCES_LIST_CHANGED, "resourcesListChanged"),
        };
        self.announce(method, &json!({}), |_| true, |filter| filter.get(wanted) == Some(&Value::Bool(true)));
    }

    /// Announces that a resource changed, to the clients that are subscribed to it.
    pub fn resource_updated(&mut self, uri: &str) {
        let listens = |filter: &Value| {
            let uris = filter.get("resourceSubscriptions").and_then(Value::as_array);
            uris.is_some_and(|uris| uris.iter().any(|known| known.as_str() == Some(uri)))
        };
        self.announce(method::RESOURCE_UPDATED, &json!({"uri": uri}), |uris| uris.contains(&uri), listens);
    }

    /// Sends a notification to every client of the legacy era that is initialized and has a stream.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.announce(method, params, |_| true, |_| false);
    }

    /// Sends a server request to every client of the legacy era that is initialized and has a stream. The responses are
    /// [`answers`](Self::answers).
    pub fn ask(&mut self, ask: &Ask) {
        let streams = self.state.sessions.iter().filter(|(_, session)| session.is_initialized);
        let streams: Vec<_> = streams.filter_map(|(key, session)| Some((*key, session.stream?))).collect();
        for (session, channel) in streams {
            self.ask_on(channel, session, None, ask);
        }
    }

    fn announce(
        &mut self,
        method: &str,
        params: &Value,
        subscribes: impl Fn(&[&str]) -> bool,
        listens: impl Fn(&Value) -> bool,
    ) {
        let mut to: Vec<(ChannelId, Value)> = Vec::new();
        for session in self.state.sessions.values().filter(|session| session.is_initialized) {
            let uris: Vec<_> = session.subscribed.iter().map(String::as_str).collect();
            to.extend(session.stream.filter(|_| subscribes(&uris)).map(|stream| (stream, params.clone())));
        }
        for listen in self.state.listens.iter().filter(|listen| listens(&listen.filter)) {
            let mut params = object(params.clone());
            params.insert("_meta".into(), json!({SUBSCRIPTION: listen.id}));
            to.push((listen.channel, Value::Object(params)));
        }
        for (channel, params) in to {
            self.tell(channel, json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    /// Agrees to a stream of `subscriptions/listen`, as far as the capabilities go.
    fn agree(&mut self, asked: Asked<'_>) -> Value {
        let wanted = asked.params().get("notifications").and_then(Value::as_object).cloned().unwrap_or_default();
        let declared = self.declared();
        let has = |capability: &str, option: &str| {
            declared.get(capability).and_then(|it| it.get(option)) == Some(&Value::Bool(true))
        };
        let agreed: Map<String, Value> = wanted
            .into_iter()
            .filter(|(name, _)| match &**name {
                "toolsListChanged" => has("tools", "listChanged"),
                "promptsListChanged" => has("prompts", "listChanged"),
                "resourcesListChanged" => has("resources", "listChanged"),
                "resourceSubscriptions" => has("resources", "subscribe"),
                _ => false,
            })
            .collect();
        let meta = json!({SUBSCRIPTION: asked.id()});
        let params = json!({"_meta": meta, "notifications": agreed});
        self.tell(asked.channel, json!({"jsonrpc": "2.0", "method": method::ACKNOWLEDGED, "params": params}));
        Value::Object(agreed)
    }

    /// Does something on a connection after a time.
    fn after(&mut self, time: Duration, channel: ChannelId, of: Option<&Value>, what: What) {
        let key = (self.state.now + time, self.state.next());
        self.state.jobs.insert(key, Job { channel, of: of.cloned(), what });
    }

    /// Does something on a connection at once.
    pub(super) fn now(&mut self, channel: ChannelId, what: What) {
        self.after(Duration::ZERO, channel, None, what);
    }

    /// Sends a message that is no answer.
    fn tell(&mut self, channel: ChannelId, message: Value) {
        self.now(channel, What::Message { message, ends: None });
    }

    /// Turns what is due into outputs.
    pub(super) fn work(&mut self, until: Time) {
        while let Some(entry) = self.state.jobs.first_entry() {
            if entry.key().0 > until {
                return;
            }
            let Job { channel, what, .. } = entry.remove();
            self.perform(channel, what);
        }
    }

    /// Turns everything on a connection into outputs, even what is not due.
    pub(super) fn work_on(&mut self, channel: ChannelId) {
        let jobs = core::mem::take(&mut self.state.jobs);
        let (own, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(_, job)| job.channel == channel);
        self.state.jobs = others.into_iter().collect();
        own.into_iter().for_each(|(_, Job { channel, what, .. })| self.perform(channel, what));
    }

    fn perform(&mut self, channel: ChannelId, what: What) {
        let Some(known) = self.state.channels.get(&channel) else { return };
        let is_exchange = known.is_exchange;
        if known.resumable.as_ref().is_some_and(Stream::is_broken) {
            return self.perform_broken(channel, what);
        }
        match what {
            What::Message { message, ends } if is_exchange => {
                if let Some(status) = ends.filter(|status| !(known.streams || *status == 200 && self.answers_by_stream))
                {
                    self.head(channel, status, JSON);
                    self.put(channel, ServerOutput::Bytes(self.spelled(&message).into_bytes()));
                } else {
                    self.event(channel, &self.spelled(&message));
                }
                if ends.is_some() {
                    self.over(channel, ServerOutput::End);
                }
            }
            What::Message { message, .. } => self.put(channel, ServerOutput::Bytes(line(&self.spelled(&message)))),
            What::Torn(message) => {
                let text = self.spelled(&message);
                let text = if is_exchange { text } else { text.replace('\n', "") };
                let half = text.as_bytes().get(..text.len() / 2).unwrap_or_default().to_vec();
                if is_exchange && !known.streams {
                    self.head(channel, 200, JSON);
                }
                self.put(channel, ServerOutput::Bytes(half));
                self.over(channel, ServerOutput::Break);
            }
            What::Noise(text) if is_exchange => self.event(channel, &text),
            What::Noise(text) => self.put(channel, ServerOutput::Bytes(line(&text))),
            What::Status { status, text } if is_exchange && !known.streams => {
                self.head(channel, status, "text/plain");
                if !text.is_empty() {
                    self.put(channel, ServerOutput::Bytes(text.into_bytes()));
                }
                self.over(channel, ServerOutput::End);
            }
            // There is no status in the middle of a stream.
            What::Status { .. } => self.over(channel, ServerOutput::Break),
            What::Stream => self.start_stream(channel),
            What::End => self.over(channel, ServerOutput::End),
            What::Break => self.over(channel, ServerOutput::Break),
        }
    }

    fn spelled(&self, message: &Value) -> String {
        self.spelling.spell(&message.to_string())
    }

    fn start_stream(&mut self, channel: ChannelId) {
        if let Some(known) = self.state.channels.get_mut(&channel)
            && known.is_exchange
            && !core::mem::replace(&mut known.streams, true)
        {
            self.resumable(channel);
            self.stream_head(channel);
        }
    }

    /// Makes the stream of a session one that can be resumed.
    fn resumable(&mut self, channel: ChannelId) {
        let number = self.state.next();
        if let Some(known) = self.state.channels.get_mut(&channel)
            && self.resumes
            && known.session.is_some()
        {
            known.resumable = Some(Stream::new(number));
        }
    }

    /// The head of a stream, and the first id.
    fn stream_head(&mut self, channel: ChannelId) {
        self.head(channel, 200, STREAM);
        let stream = self.state.channels.get(&channel).and_then(|known| known.resumable.as_ref());
        if let Some(first) = stream.filter(|stream| stream.is_new()).map(Stream::first) {
            self.put(channel, ServerOutput::Bytes(first));
        }
    }

    /// What would be sent on a stream whose connection broke is kept until it is resumed.
    fn perform_broken(&mut self, channel: ChannelId, what: What) {
        let spelling = self.spelling;
        let known = self.state.channels.get_mut(&channel);
        let Some(stream) = known.and_then(|known| known.resumable.as_mut()) else { return };
        match what {
            What::Message { message, ends } => {
                stream.add(&spelling.spell(&message.to_string()));
                if ends.is_some() {
                    stream.end();
                }
            }
            What::Noise(text) => drop(stream.add(&text)),
            What::Stream => {}
            What::Torn(_) | What::Status { .. } | What::End | What::Break => self.state.close(channel),
        }
    }

    /// Sends an event of a stream.
    fn event(&mut self, channel: ChannelId, data: &str) {
        self.start_stream(channel);
        let known = self.state.channels.get_mut(&channel);
        let id = known.and_then(|known| known.resumable.as_mut()).and_then(|stream| stream.add(data));
        self.put_event(channel, id.as_deref(), data);
    }

    fn put_event(&mut self, channel: ChannelId, id: Option<&str>, data: &str) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        let lines: String = data.lines().map(|line| format!("data: {line}\n")).collect();
        self.put(channel, ServerOutput::Bytes(format!("{id}event: message\n{lines}\n").into_bytes()));
    }

    fn head(&mut self, channel: ChannelId, status: u16, kind: &str) {
        let mut headers = vec![("content-type", kind.into())];
        if let Some(known) = self.state.channels.get_mut(&channel) {
            headers.append(&mut known.headers);
        }
        self.put(channel, ServerOutput::Head { status, headers });
    }

    fn over(&mut self, channel: ChannelId, output: ServerOutput) {
        self.put(channel, output);
        self.state.close(channel);
    }

    fn put(&mut self, channel: ChannelId, output: ServerOutput) {
        self.state.out.push_back(ServerAction { channel, output });
    }
}

#[cfg(feature = "http")]
impl FakeServer {
    /// The client sends an HTTP request, whole (feature `http`). The response is the outputs for this connection.
    pub fn handle_request(&mut self, now: Time, channel: ChannelId, request: &Request<Vec<u8>>) {
        self.advance(now);
        self.state.channels.insert(channel, Channel::new(true, None));
        if let Err((status, text)) = self.route(channel, request) {
            self.now(channel, What::Status { status, text });
        }
    }

    /// An error is a refusal: a status and a text.
    fn route(&mut self, channel: ChannelId, request: &Request<Vec<u8>>) -> Result<(), (u16, String)> {
        let headers = request.headers();
        if *request.method() == Method::POST {
            return self.post(channel, headers, request.body());
        }
        if !self.speaks(Era::Legacy) {
            return Err((405, String::new()));
        }
        let key = self.session(headers)?;
        if *request.method() == Method::DELETE {
            self.state.sessions.remove(&key);
            self.now(channel, What::Status { status: 200, text: String::new() });
            return Ok(());
        }
        if let Some(last) = headers.get("last-event-id").and_then(|last| last.to_str().ok()).filter(|_| self.resumes) {
            self.state.channels.remove(&channel);
            return self.resume(channel, key, last);
        }
        if !self.with_stream {
            return Err((405, String::new()));
        }
        if let Some(session) = self.state.sessions.get_mut(&key) {
            session.stream = Some(channel);
        }
        self.join(channel, key);
        self.now(channel, What::Stream);
        self.tell_news();
        Ok(())
    }

    fn post(&mut self, channel: ChannelId, headers: &HeaderMap, body: &[u8]) -> Result<(), (u16, String)> {
        let message: Value = serde_json::from_slice(body).map_err(|error| {
            self.state.violation(format!("a body that is not a message: {error}"));
            (400, error.to_string())
        })?;
        let is_modern = self.speaks(Era::Modern) && modern_version(&message).is_some();
        self.check_headers(headers, &message, is_modern);
        let method = message.get("method").and_then(Value::as_str);
        if is_modern {
            self.receive(channel, &message);
        } else if method == Some(method::INITIALIZE) && self.speaks(Era::Legacy) {
            let name = self.with_sessions.then(|| format!("session-{}", self.state.next()));
            if let (Some(name), Some(known)) = (&name, self.state.channels.get_mut(&channel)) {
                known.headers.push((SESSION, name.clone()));
            }
            let key = self.state.open_session(name, None);
            self.join(channel, key);
            self.receive(channel, &message);
        } else if self.speaks(Era::Legacy) {
            let key = self.session(headers)?;
            self.join(channel, key);
            self.receive(channel, &message);
        } else {
            self.receive(channel, &message);
        }
        // Only a request has an answer.
        if method.is_none() || message.get("id").is_none() {
            self.now(channel, What::Status { status: 202, text: String::new() });
        }
        Ok(())
    }

    fn join(&mut self, channel: ChannelId, session: u64) {
        if let Some(known) = self.state.channels.get_mut(&channel) {
            known.session = Some(session);
        }
    }

    /// The session of a request. A server without sessions has one for all, the newest.
    fn session(&mut self, headers: &HeaderMap) -> Result<u64, (u16, String)> {
        let named = headers.get(SESSION).and_then(|name| name.to_str().ok());
        let mut sessions = self.state.sessions.iter().rev();
        if !self.with_sessions {
            let newest = sessions.next().map(|(key, _)| *key);
            return newest.ok_or_else(|| (400, "Bad Request: Server not initialized".into()));
        }
        let Some(named) = named else { return Err((400, "Bad Request: Mcp-Session-Id header is required".into())) };
        let found = sessions.find(|(_, session)| session.name.as_deref() == Some(named));
        let (key, version) = found.map(|(key, session)| (*key, session.version)).ok_or((404, String::new()))?;
        let sent = headers.get(VERSION).and_then(|version| version.to_str().ok());
        if let (Some(version), Some(sent)) = (version, sent)
            && sent != version.as_str()
        {
            self.state.violation(format!("{VERSION}: {sent} in a session of {version}"));
        }
        Ok(key)
    }

    /// Notes what the client's headers lack.
    fn check_headers(&mut self, headers: &HeaderMap, message: &Value, is_modern: bool) {
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let accept = value("accept").unwrap_or_default();
        if !accept.contains("application/json") || !accept.contains("text/event-stream") {
            self.state.violation(format!("accept: {accept}"));
        }
        if value("content-type") != Some("application/json") {
            self.state.violation(format!("content-type: {}", value("content-type").unwrap_or_default()));
        }
        if !is_modern {
            return;
        }
        let method = message.get("method").and_then(Value::as_str);
        let version = modern_version(message).and_then(Value::as_str);
        for (name, expected) in [(VERSION, version), ("mcp-method", method)] {
            if value(name) != expected {
                self.state.violation(format!("{name}: {}", value(name).unwrap_or_default()));
            }
        }
    }
}

#[cfg(feature = "journal")]
impl FakeServer {
    /// A server that plays a journal (feature `journal`), over pipes or HTTP, whichever the journal is of.
    ///
    /// Each request is answered as the recorded server answered the request with the same method and parameters, after
    /// the same time, with the request's own id. `_meta` is not compared, of `initialize` only the offered version is, of
    /// a notification nothing but the method. Equal requests get their answers in the recorded order, and further ones
    /// the last of them. Questions, progress reports and other notifications follow the message of the client that they
    /// followed in the journal, in order. A request that was never answered is not answered; where the connection broke,
    /// it breaks. The answers are equal as JSON values.
    ///
    /// A request that the journal does not have is one of [`mismatches`](Self::mismatches), except for `ping`, which is
    /// answered. Scripts come first: with them, a recorded server is silent, late, or dies.
    ///
    /// # Errors
    /// What is wrong with the journal. One that is cut off is refused.
    pub fn from_journal(journal: &[u8], limits: JournalLimits) -> Result<Self, JournalError> {
        Recording::new(journal, limits).map(Self::of_recording)
    }

    /// A server that plays one of the servers of a hub's journal, all its sessions, as
    /// [`from_journal`](Self::from_journal) does. If an entry changed its transport, the sessions over the last one are
    /// played.
    ///
    /// # Errors
    /// What is wrong with the journal; [`JournalError::NoServer`] if no session of this server reported an event.
    pub fn from_hub_journal(journal: &[u8], server: &str, limits: JournalLimits) -> Result<Self, JournalError> {
        Recording::of_hub(journal, server, limits).map(Self::of_recording)
    }

    fn of_recording(recording: Recording) -> Self {
        let mut server = Self::new(recording.versions.iter().copied());
        server.playback.recording = Some(recording);
        server
    }

    /// The requests that were not in the journal, in order: the first 256 (feature `journal`).
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.playback.mismatches
    }

    const fn plays(&self) -> bool {
        self.playback.recording.is_some()
    }

    /// The version of a session that is opened with these parameters.
    fn recorded_version(&self, params: &Value) -> Option<ProtocolVersion> {
        self.playback.recording.as_ref()?.version(params)
    }

    /// What a request causes, if the server plays a journal.
    fn recorded_turn(&mut self, asked: Asked<'_>) -> Option<Turn> {
        let recording = self.playback.recording.as_mut()?;
        match recording.take(asked.method(), asked.params()) {
            Ok(Recorded { mut turn, news }) => {
                turn.said.retain_mut(|(_, message)| addressed(message, asked));
                self.add_news(asked.session, news);
                Some(turn)
            }
            Err(_) if asked.method() == method::PING && asked.era == Era::Legacy => None,
            Err(mismatch) => {
                let outcome = Err(error(-32603, &mismatch.to_string()));
                if self.playback.mismatches.len() < MISMATCHES {
                    self.playback.mismatches.push(mismatch);
                }
                Some(Turn::of(Answer::Message { status: 200, outcome }))
            }
        }
    }

    /// A notification of the client.
    fn recorded_notification(&mut self, session: Option<u64>, method: &str) {
        let recording = self.playback.recording.as_mut();
        if let Some(Ok(Recorded { news, .. })) = recording.map(|it| it.take(method, &Value::Null)) {
            self.add_news(session, news);
        }
    }

    fn add_news(&mut self, session: Option<u64>, news: Vec<(Duration, Value)>) {
        for (after, message) in news {
            self.playback.due = self.playback.due.max(self.state.now + after);
            self.playback.waiting.push_back(News { at: self.playback.due, session, message });
        }
        self.tell_news();
    }

    /// Tells what waits for a stream, where there is one now.
    fn tell_news(&mut self) {
        let mut waiting = core::mem::take(&mut self.playback.waiting);
        waiting.retain_mut(|news| !self.tell_one(news));
        self.playback.waiting = waiting;
    }

    fn tell_one(&mut self, News { at, session, message }: &mut News) -> bool {
        let time = at.since(self.state.now);
        let Some(session) = session else {
            let listens = self.state.listens.iter().map(|listen| (listen.channel, listen.id.clone()));
            let listens: Vec<_> = listens.collect();
            for (channel, id) in &listens {
                let mut message = message.clone();
                set(&mut message, &["params", "_meta", SUBSCRIPTION], id);
                self.after(time, *channel, None, What::Message { message, ends: None });
            }
            return !listens.is_empty();
        };
        let id = self.state.next();
        let Some(open) = self.state.sessions.get_mut(session) else { return true };
        let Some(stream) = open.stream else { return false };
        if message.get("id").is_some() {
            open.asks.insert(id, None);
            set(message, &["id"], &json!(id));
        }
        self.after(time, stream, None, What::Message { message: core::mem::take(message), ends: None });
        true
    }
}

#[cfg(not(feature = "journal"))]
impl FakeServer {
    const fn plays(&self) -> bool {
        false
    }

    const fn recorded_version(&self, _: &Value) -> Option<ProtocolVersion> {
        None
    }

    const fn recorded_turn(&self, _: Asked<'_>) -> Option<Turn> {
        None
    }

    const fn recorded_notification(&self, _: Option<u64>, _: &str) {}

    const fn tell_news(&self) {}
}

fn unknown_method() -> Value {
    error(-32601, "Method not found")
}

fn response(id: &Value, outcome: Result<Value, Value>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    }
}

/// The reports of progress, if the client wants any.
fn progress(asked: Asked<'_>, takes: Duration, reports: u32) -> Vec<(Duration, Value)> {
    let token = asked.params().get("_meta").and_then(|meta| meta.get("progressToken"));
    let report = |report: u32, token: &Value| {
        let params = json!({"progressToken": token, "progress": report, "total": reports});
        let message = json!({"jsonrpc": "2.0", "method": method::PROGRESS, "params": params});
        let at = takes.saturating_mul(report).checked_div(reports.saturating_add(1)).unwrap_or_default();
        (at, message)
    };
    token.map(|token| (1..=reports).map(|number| report(number, token)).collect()).unwrap_or_default()
}

/// What every result of the modern era has, and every one that may be cached.
fn modern(method: &str, mut result: Value) -> Value {
    if let Some(members) = result.as_object_mut() {
        let mut set = |name: &str, value: Value| {
            members.entry(name).or_insert(value);
        };
        set("resultType", json!("complete"));
        if !matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::COMPLETE) {
            set("ttlMs", json!(0));
            set("cacheScope", json!("public"));
        }
    }
    result
}

fn line(text: &str) -> Vec<u8> {
    let mut line: Vec<u8> = text.bytes().filter(|byte| *byte != b'\n').collect();
    line.push(b'\n');
    line
}

/// Makes a notification one about this request. False if its client does not want it.
#[cfg(feature = "journal")]
fn addressed(message: &mut Value, asked: Asked<'_>) -> bool {
    match message.get("method").and_then(Value::as_str) {
        Some(method::PROGRESS) => {
            let token = asked.params().get("_meta").and_then(|meta| meta.get("progressToken"));
            token.map(|token| set(message, &["params", "progressToken"], token)).is_some()
        }
        Some(method::ACKNOWLEDGED) => {
            set(message, &["params", "_meta", SUBSCRIPTION], asked.id());
            true
        }
        _ => true,
    }
}

/// Sets a member that is there, at this path.
#[cfg(feature = "journal")]
fn set(message: &mut Value, path: &[&str], value: &Value) {
    let found = path.iter().try_fold(message, |message, name| message.get_mut(*name));
    found.into_iter().for_each(|member| *member = value.clone());
}
