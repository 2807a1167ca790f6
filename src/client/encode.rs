use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::action::Outgoing;
use super::core::Core;
use super::request_table::{Call, Purpose};
use super::requests::TraceContext;
use super::{LogLevel, Options};
use crate::jsonrpc::{self, Json, Object};
use crate::protocol::{Era, ProtocolVersion, method};

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
        params.object("_meta", |meta| {
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
                meta.string(VERSION, version.as_str());
                meta.object(CLIENT_INFO, |info| self.options.client.write(info));
                meta.object(CLIENT_CAPABILITIES, |object| self.options.capabilities.write(object));
                if let Some(level) = self.log_level {
                    meta.string(LOG_LEVEL, level.as_str());
                }
            }
        });
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
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::Call(_) => self.version(),
        };
        let modern = version.filter(|version| version.era() == Era::Modern);
        let meta = Meta { options: &self.options, log_level: self.log_level, modern, trace: None, progress: None };
        // The buffer for a call is sized below.
        let mut line = if matches!(purpose, Purpose::Call(_)) { Vec::new() } else { Vec::with_capacity(128) };
        let method = match purpose {
            Purpose::Discover(_) => {
                object_request(&mut line, id, method::DISCOVER, |params| meta.write(params, None));
                Cow::Borrowed(method::DISCOVER)
            }
            Purpose::Initialize(version) => {
                object_request(&mut line, id, method::INITIALIZE, |params| self.write_initialize(params, *version));
                Cow::Borrowed(method::INITIALIZE)
            }
            Purpose::List { family, cursor } => {
                let cursor = cursor.as_deref();
                if cursor.is_none() && meta.is_empty() {
                    jsonrpc::request(&mut line, id, family.list_method(), None::<fn(&mut Vec<u8>)>);
                } else {
                    object_request(&mut line, id, family.list_method(), |params| {
                        if let Some(cursor) = cursor {
                            params.raw("cursor", cursor);
                        }
                        meta.write(params, None);
                    });
                }
                Cow::Borrowed(family.list_method())
            }
            Purpose::SetLevel => {
                let level = self.log_level.map_or("info", |level| level.as_str());
                object_request(&mut line, id, method::SET_LEVEL, |params| {
                    params.string("level", level);
                });
                Cow::Borrowed(method::SET_LEVEL)
            }
            Purpose::Keepalive(method) => {
                if meta.is_empty() {
                    jsonrpc::request(&mut line, id, method, None::<fn(&mut Vec<u8>)>);
                } else {
                    object_request(&mut line, id, method, |params| meta.write(params, None));
                }
                Cow::Borrowed(*method)
            }
            Purpose::Listen { filter, .. } => {
                object_request(&mut line, id, method::LISTEN, |params| {
                    params.raw("notifications", filter);
                    meta.write(params, None);
                });
                Cow::Borrowed(method::LISTEN)
            }
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                let subscribe = matches!(purpose, Purpose::Subscribe(_));
                let method = if subscribe { method::SUBSCRIBE } else { method::UNSUBSCRIBE };
                object_request(&mut line, id, method, |params| {
                    params.string("uri", uri);
                    meta.write(params, None);
                });
                Cow::Borrowed(method)
            }
            Purpose::Call(call) => {
                let progress = call.request.progress.then_some(id);
                let meta = Meta { trace: call.request.trace.as_deref(), progress, ..meta };
                encode_call(&mut line, id, call, &meta);
                call.request.method.clone()
            }
        };
        let of = if let Purpose::Call(call) = purpose { Some(call.handle) } else { None };
        Outgoing { of, ..finish(line, Some(method), Some(id), version) }
    }

    fn write_initialize(&self, params: &mut Object<'_>, version: ProtocolVersion) {
        params.string("protocolVersion", version.as_str());
        params.object("capabilities", |object| {
            if !self.undeclared {
                self.options.capabilities.write(object);
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

fn encode_call(line: &mut Vec<u8>, id: u64, call: &Call, meta: &Meta<'_>) {
    let Call { request, input, .. } = call;
    let given = request.params.as_deref();
    line.reserve(given.map_or(0, |params| params.get().len()).saturating_add(256));
    if !meta.is_empty() {
        object_request(line, id, &request.method, |params| {
            let mut given_meta = None;
            if let Some(given) = given {
                Json::from(given).raw_members(|name, value| match name.as_string().as_deref() {
                    Some("_meta") => given_meta = Some(value),
                    Some("inputResponses" | "requestState") if input.is_some() => {}
                    _ => params.member(name.text(), value.text()),
                });
            }
            if let Some(responses) = input.as_ref().and_then(|input| input.responses.as_deref()) {
                params.raw("inputResponses", responses);
            }
            if let Some(state) = input.as_ref().and_then(|input| input.state.as_deref()) {
                params.raw("requestState", state);
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
