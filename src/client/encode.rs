use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::time::Duration;

use super::action::Outgoing;
use super::core::Core;
use super::request_table::{Call, Purpose};
use super::requests::TraceContext;
use super::{LogLevel, Options};
use crate::jsonrpc::{self, Json, Object};
use crate::machine::task;
use crate::protocol::{Era, ProtocolVersion};

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

    /// Writes `_meta`, together with the embedder's members of it.
    fn write(&self, params: &mut Object<'_>, given: Option<Json<'_>>) {
        if self.is_empty() && given.is_none() {
            return;
        }
        let mut meta = Object::begin(params.plain("_meta"));
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
            meta.integer(PROGRESS_TOKEN, token.into());
        }
        if let Some(version) = self.modern {
            jsonrpc::string(meta.plain(VERSION), version.as_str());
            let mut info = Object::begin(meta.plain(CLIENT_INFO));
            self.options.client.write(&mut info);
            info.end();
            let mut capabilities = Object::begin(meta.plain(CLIENT_CAPABILITIES));
            self.options.capabilities.write(&mut capabilities, Era::Modern);
            capabilities.end();
            if let Some(level) = self.log_level {
                meta.string(LOG_LEVEL, level.as_str());
            }
        }
        meta.end();
    }
}

impl Core {
    /// Encodes an open request.
    pub(super) fn encode_request(&self, id: u64, purpose: &Purpose) -> Outgoing {
        let version = match purpose {
            Purpose::Discover(version) | Purpose::Initialize(version) => Some(*version),
            Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Rediscover
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::CancelTask(_)
            | Purpose::Call(_) => self.version(),
        };
        let modern = version.filter(|version| version.era() == Era::Modern);
        let meta = Meta { options: &self.options, log_level: self.log_level, modern, trace: None, progress: None };
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
            Purpose::CancelTask(task) => object_request(&mut line, id, &method, |params| {
                params.string("taskId", task);
                meta.write(params, None);
            }),
            Purpose::Call(call) => {
                let meta = Meta { trace: call.request.trace.as_deref(), ..meta };
                match &call.task {
                    Some(task) => object_request(&mut line, id, &method, |params| {
                        params.string("taskId", &task.id);
                        if task.state == task::State::Updating
                            && let Some(responses) = call.input.as_ref().and_then(|input| input.responses.as_deref())
                        {
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
            if !self.is_undeclared() {
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
    if !meta.is_empty() || task.is_some() {
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

fn finish(
    mut line: Vec<u8>,
    method: Option<Cow<'static, str>>,
    id: Option<u64>,
    version: Option<ProtocolVersion>,
) -> Outgoing {
    // JSON strings contain no raw line breaks, so any line break is white space between tokens.
    for byte in &mut line {
        *byte = if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    }
    line.push(b'\n');
    Outgoing { line, method, id, version, of: None }
}
