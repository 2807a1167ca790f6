//! Executes requests, and answers them as their scripts say.

use core::time::Duration;
use std::collections::VecDeque;
use std::format;
use std::string::String;
use std::vec::Vec;

use serde_json::{Map, Value, json};

use super::asked::{Asked, error};
use super::parts::{Call, FakeServer, What};
use crate::protocol::method;
use crate::testkit::channel::ChannelId;
use crate::testkit::content::{Ask, FakeTool, has};
use crate::testkit::script::Reply;
use crate::testkit::turn::{Answer, Turn};
use crate::{Era, ProtocolVersion};

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

impl FakeServer {
    /// Takes a request of an open session or of the modern era.
    pub(super) fn execute(&mut self, asked: Asked<'_>) {
        match self.scripts.next(asked.method(), asked.subject()) {
            Reply::DiesFirst => self.finish(asked, Reply::Normal, Some(Turn::of(Answer::Break))),
            Reply::Error { code, message } => self.answer_with(asked, Err(error(code, &message))),
            Reply::Status { status, text } => {
                let answer = Answer::Status { status, headers: Vec::new(), text };
                self.finish(asked, Reply::Normal, Some(Turn::of(answer)));
            }
            reply @ (Reply::Normal
            | Reply::Late(_)
            | Reply::Silent
            | Reply::Twice
            | Reply::Noise(_)
            | Reply::Result(_)
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

    pub(super) fn is_handled(&self, method: &str) -> bool {
        self.handlers.iter().any(|(known, _)| known == method)
    }

    /// Sends the next question of a call, or runs the call.
    pub(super) fn ask_next(&mut self, key: u64) {
        let Some(call) = self.state.calls.get_mut(&key) else { return };
        let (channel, session) = (call.channel, call.session);
        if let Some(ask) = call.asks.pop_front() {
            self.ask_on(channel, session, Some(key), &ask);
        } else if let Some(Call { message, reply, turn, .. }) = self.state.calls.remove(&key) {
            self.finish(Asked { channel, session: Some(session), era: Era::Legacy, message: &message }, reply, turn);
        }
    }

    /// Sends a server request.
    pub(super) fn ask_on(&mut self, channel: ChannelId, session: u64, call: Option<u64>, ask: &Ask) {
        let id = self.state.next();
        let Some(open) = self.state.sessions.get_mut(&session) else { return };
        open.asks.insert(id, call);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": ask.method, "params": ask.params});
        self.tell(channel, request);
    }

    /// Runs a request, and answers it.
    pub(super) fn finish(&mut self, asked: Asked<'_>, reply: Reply, turn: Option<Turn>) {
        let Turn { takes, said, answer, .. } = turn.unwrap_or_else(|| self.turn(asked, &reply));
        let (channel, id) = (asked.channel, asked.id());
        for (at, message) in said {
            self.after(at, channel, Some(id), What::Message { message, ends: None });
        }
        let (status, outcome) = match (&reply, answer) {
            (Reply::Result(result), _) => (200, Ok(result.clone())),
            (_, Answer::Message { status, outcome }) => (status, outcome),
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
            Reply::Normal | Reply::Result(_) | Reply::Error { .. } | Reply::Status { .. } | Reply::DiesFirst => {
                self.after(takes, channel, Some(id), answer(message))
            }
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
            | Reply::Error { .. }
            | Reply::Status { .. }
            | Reply::Dies
            | Reply::Torn
            | Reply::DiesFirst => Answer::Message { status: 200, outcome: self.outcome(asked) },
        };
        Turn { asks: Vec::new(), said: progress(asked, takes, reports), takes, answer }
    }

    /// Answers a request at once.
    pub(super) fn answer_with(&mut self, asked: Asked<'_>, outcome: Result<Value, Value>) {
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
    pub(super) fn initialized(&self, params: &Value) -> Option<(ProtocolVersion, Value)> {
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

    pub(super) fn speaks(&self, era: Era) -> bool {
        self.versions.iter().any(|version| version.era() == era)
    }

    fn declares(&self, capability: &str) -> bool {
        self.declared().get(capability).is_some()
    }

    pub(super) fn declared(&self) -> Value {
        self.capabilities.clone().unwrap_or_else(|| self.content.capabilities())
    }
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
