//! Component: requests of the server, which the engine or the embedder responds to, and the client's roots, whose state is
//! in the core.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Backlog, Core, Signals};
use super::inputs::{Asking, REJECTED, Reaction, judge};
use super::{CommandError, Event, FailureKind, Outgoing, Output, RequestId, ServerMethod, ServerRequestId, Wire};
use crate::collections::{LeastSet, Series};
use crate::jsonrpc::{ErrorObject, Json, Object, PeerId};
use crate::machine::{QuirkKind, link};
use crate::protocol::{Defaults, Root, method};
use crate::text::excerpt;
use crate::{Time, jsonrpc};

/// A server request that waits for the embedder.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Open {
    #[cfg_attr(feature = "snapshot", serde(with = "crate::jsonrpc::peer_id"))]
    id: PeerId,
    method: ServerMethod,
    deadline: Time,
    /// The embedder's request in whose HTTP exchange it arrived.
    of: Option<RequestId>,
    /// The defaults of the form's fields.
    defaults: Defaults,
    related: RelatedTask,
}

impl Open {
    /// Bytes of the server's data that are stored.
    fn bytes(&self) -> usize {
        bytes(&self.id, &self.defaults, &self.related)
    }
}

/// The id as a string if it is a number, and as a number if it is the string of one.
fn in_other_type(id: Json<'_>) -> Option<Cow<'_, str>> {
    let text = id.text();
    match id.first() {
        b'"' => text.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed),
        b'-' | b'0'..=b'9' => Some(Cow::Owned(format!("\"{text}\""))),
        _ => None,
    }
}

/// Bytes that are stored for a server request. The id is stored twice.
fn bytes(id: &PeerId, defaults: &Defaults, related: &RelatedTask) -> usize {
    id.get().len().saturating_mul(2).saturating_add(defaults.bytes()).saturating_add(related.bytes())
}

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct ServerRequests {
    /// Few clients have open ones, and only for a short time.
    open: Option<Box<Table>>,
    last: u64,
}

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Table {
    open: Series<Open>,
    deadlines: LeastSet<(Time, u64)>,
    by_peer_id: BTreeSet<(Box<str>, u64)>,
    bytes: usize,
}

impl Table {
    fn insert(&mut self, id: u64, request: Open) {
        self.deadlines.insert((request.deadline, id));
        self.by_peer_id.insert((request.id.get().into(), id));
        self.bytes = self.bytes.saturating_add(request.bytes());
        self.open.insert(id, request);
    }

    fn remove(&mut self, id: u64) -> Option<Open> {
        let request = self.open.remove(id)?;
        self.deadlines.remove(&(request.deadline, id));
        self.by_peer_id.remove(&(request.id.get().into(), id));
        self.bytes = self.bytes.saturating_sub(request.bytes());
        Some(request)
    }

    /// The oldest one with this id of the server.
    fn find(&self, peer_id: &str) -> Option<u64> {
        let (found, id) = self.by_peer_id.range((Box::from(peer_id), 0)..).next()?;
        (**found == *peer_id).then_some(*id)
    }

    /// Removes the request whose deadline passed first, if one did.
    fn take_due(&mut self, now: Time) -> Option<(u64, Open)> {
        let (_, id) = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        Some((id, self.remove(id)?))
    }
}

impl ServerRequests {
    #[cfg(feature = "snapshot")]
    pub(super) fn check(&self, limits: &super::Limits) -> Result<(), crate::snapshot::SnapshotError> {
        let Some(table) = &self.open else { return Ok(()) };
        let mut expected = Table::default();
        for (id, request) in table.open.iter() {
            expected.insert(id, request.clone());
        }
        let same = (&table.deadlines, &table.by_peer_id, table.bytes)
            == (&expected.deadlines, &expected.by_peer_id, expected.bytes);
        if !same || table.open.iter().next_back().is_some_and(|(id, _)| id > self.last) {
            return Err(crate::snapshot::invalid("its server requests contradict each other"));
        }
        crate::snapshot::within("server_requests", table.open.len(), limits.server_requests)
    }

    /// Bytes of the server's data that are stored.
    fn bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |table| table.bytes)
    }

    /// Whether a request waits for the embedder's response.
    pub(super) fn has_open(&self) -> bool {
        self.open.as_ref().is_some_and(|table| !table.open.is_empty())
    }

    /// When the next request is cancelled because the embedder did not respond in time.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.open.as_ref().and_then(|table| table.deadlines.first()).map(|(at, _)| *at)
    }

    /// Takes the embedder's response.
    pub(super) fn respond(
        &mut self,
        core: &mut Core,
        now: Time,
        id: ServerRequestId,
        response: Result<Box<RawValue>, ErrorObject>,
    ) -> Result<(), CommandError> {
        if response.as_ref().is_ok_and(|result| !result.get().starts_with('{')) {
            return Err(CommandError::ResultNotObject);
        }
        let Some(request) = self.open.as_mut().and_then(|table| table.remove(id.0)) else {
            return Err(CommandError::UnknownServerRequest);
        };
        core.advance(now);
        self.on_removed(core);
        let message = core.encode_response(|out| match response {
            Ok(result) => {
                jsonrpc::result(out, &request.id, &request.related.name_in(&request.defaults.fill(&result)));
            }
            Err(error) => jsonrpc::error(out, &request.id, &error),
        });
        core.outbox.push(Output::Send(Outgoing { of: request.of, ..message }));
        Ok(())
    }

    /// Takes a server request. In the legacy era each gets a response, either at once or from the embedder. `of` is the
    /// embedder's request in whose HTTP exchange it came.
    pub(super) fn on_request(
        &mut self,
        core: &mut Core,
        id: PeerId,
        method: &str,
        params: Option<&RawValue>,
        of: Option<RequestId>,
    ) -> Signals {
        if core.wire == Wire::Pipe && method != method::PING {
            core.requests.mark_asked();
        }
        let defaults = match method {
            method::ELICITATION if core.options.form_defaults => Defaults::read(params),
            _ => Defaults::default(),
        };
        let related = RelatedTask::read(core, params);
        let backlog = core.backlog();
        let full = backlog != Backlog::Free || self.is_full(core, bytes(&id, &defaults, &related));
        let message = match judge(core, Asking::Request { overrun: backlog == Backlog::Overrun, full }, method, params)
        {
            Reaction::EndConnection => {
                let server = core.server_name();
                let message = format!("{server} sends requests faster than the responses to them are taken");
                return Signals::lost(FailureKind::Overrun, message, link::Transport::Open);
            }
            Reaction::Decline => return Signals::NONE,
            Reaction::Ignore(kind) => {
                let detail = format!("a request (id {}), of which revision 2026-07-28 has none", id.get());
                core.quirk(kind, None, Some(method), detail);
                return Signals::NONE;
            }
            Reaction::Embedder(method, params) => {
                core.count_request(method);
                if method == ServerMethod::Elicitation {
                    let id = params.as_deref().map(Json::from).and_then(|params| params.member("elicitationId"));
                    if let Some(id) = id.and_then(Json::as_string) {
                        core.url_elicitations.get_or_insert_default().add(&id, of, core.options.limits.server_requests);
                    }
                }
                let timeout = match method {
                    ServerMethod::Sampling => core.options.sampling.timeout,
                    ServerMethod::Elicitation => None,
                };
                let deadline = core.now + timeout.unwrap_or(core.options.timeouts.server_request);
                self.pass_on(core, Open { id, method, deadline, of, defaults, related }, params);
                return Signals::NONE;
            }
            Reaction::Result(result) => core.encode_response(|out| {
                let result = core::str::from_utf8(&result).unwrap_or("{}");
                jsonrpc::result(out, &id, &related.name_in(result));
            }),
            Reaction::Refuse(error) => core.encode_response(|out| jsonrpc::error(out, &id, &error)),
        };
        core.outbox.push(Output::Send(Outgoing { of, ..message }));
        Signals::NONE
    }

    /// Whether the limits do not allow another open request of this size.
    fn is_full(&self, core: &Core, bytes: usize) -> bool {
        let open = self.open.as_ref().map_or(0, |table| table.open.len());
        let kept = self.bytes().saturating_add(core.requests.input_bytes()).saturating_add(bytes);
        let limits = &core.options.limits;
        open >= limits.server_requests || kept > limits.input_bytes
    }

    fn pass_on(&mut self, core: &mut Core, request: Open, params: Option<Box<RawValue>>) {
        let method = request.method;
        self.last = self.last.saturating_add(1);
        let id = self.last;
        self.open.get_or_insert_default().insert(id, request);
        self.publish(core);
        let most = core.options.timeouts.server_request.max(core.options.sampling.timeout.unwrap_or_default());
        core.requests.pause(most, core.now);
        core.event(Event::ServerRequest { id: ServerRequestId(id), method, params });
    }

    /// The server cancels one of its requests.
    pub(super) fn on_cancelled(&mut self, core: &mut Core, peer_id: Json<'_>, reason: Option<&str>) {
        let Some(table) = &mut self.open else { return };
        let exact = table.find(peer_id.text());
        if let Some(id) = exact.or_else(|| table.find(&in_other_type(peer_id)?)) {
            table.remove(id);
            if exact.is_none() {
                let detail = "the id of the cancelled request came in another type";
                core.quirk(QuirkKind::IdType, None, Some(method::CANCELLED), detail);
            }
            self.on_removed(core);
            core.event(Event::ServerRequestEnded {
                id: ServerRequestId(id),
                reason: reason.map(|it| excerpt(it).into()),
            });
        }
    }

    /// Cancels the requests that the embedder did not respond to in time.
    pub(super) fn on_time(&mut self, core: &mut Core) {
        while let Some((id, request)) = self.open.as_mut().and_then(|table| table.take_due(core.now)) {
            cancel(core, &request);
            core.event(Event::ServerRequestEnded { id: ServerRequestId(id), reason: None });
        }
        self.on_removed(core);
    }

    /// The connection ends: the embedder need not respond any more. If the server is still there, it gets an error
    /// response.
    pub(super) fn end(&mut self, core: &mut Core, gone: bool) {
        let ended = self.open.take();
        for (id, request) in ended.iter().flat_map(|table| table.open.iter()) {
            if !gone {
                cancel(core, request);
            }
            core.event(Event::ServerRequestEnded { id: ServerRequestId(id), reason: None });
        }
        self.on_removed(core);
    }

    /// The deadlines of the embedder's requests continue once no server request is open.
    fn on_removed(&mut self, core: &mut Core) {
        if self.open.as_ref().is_none_or(|table| table.open.is_empty()) {
            self.open = None;
            core.requests.resume(core.now);
        }
        self.publish(core);
    }

    pub(super) fn publish(&self, core: &mut Core) {
        core.input_room = core.options.limits.input_bytes.saturating_sub(self.bytes());
    }
}

/// Responds to a request that the embedder did not respond to: the user neither accepted nor declined.
fn cancel(core: &mut Core, request: &Open) {
    let message = core.encode_response(|out| match request.method {
        ServerMethod::Elicitation => {
            jsonrpc::result(out, &request.id, &request.related.name_in(r#"{"action":"cancel"}"#));
        }
        ServerMethod::Sampling => {
            jsonrpc::error(out, &request.id, &ErrorObject::new(REJECTED, "User rejected sampling request"));
        }
    });
    core.outbox.push(Output::Send(Outgoing { of: request.of, ..message }));
}

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A value of the server's, a JSON object, if the request belongs to a task and tasks are enabled.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct RelatedTask(
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))] Option<Box<str>>,
);

impl RelatedTask {
    fn read(core: &Core, params: Option<&RawValue>) -> Self {
        let params = params.filter(|_| core.has_legacy_tasks());
        let meta = params.and_then(|params| Json::from(params).member("_meta"));
        let related = meta.and_then(|meta| meta.member(RELATED)).filter(|related| related.is_object());
        Self(related.map(|related| related.text().into()))
    }

    /// Bytes of the server's data that are stored.
    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |related| related.len())
    }

    /// A result, a JSON object, that names the task.
    fn name_in<'a>(&self, result: &'a str) -> Cow<'a, str> {
        let Some(related) = &self.0 else { return Cow::Borrowed(result) };
        let mut json = Vec::new();
        let mut object = Object::begin(&mut json);
        let mut given = None;
        Json::trusted(result).raw_members(|name, value| {
            if name.as_string().as_deref() == Some("_meta") {
                given = Some(value);
            } else {
                object.member(name.text(), value.text());
            }
        });
        object.object("_meta", |meta| {
            given.unwrap_or(Json::EMPTY_ARRAY).members(|name, value| {
                if name != RELATED {
                    meta.raw(name, value.text());
                }
            });
            meta.raw(RELATED, related);
        });
        object.end();
        String::from_utf8(json).map_or(Cow::Borrowed(result), Cow::Owned)
    }
}

/// The embedder changes the roots.
pub(super) fn set_roots(core: &mut Core, now: Time, roots: Vec<Root>) -> Result<(), CommandError> {
    core.check_open()?;
    if core.options.capabilities.roots.is_none() {
        return Err(CommandError::NotDeclared { capability: "roots".into() });
    }
    if core.is_undelivered_full() {
        return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
    }
    core.advance(now);
    core.roots = Some(roots.into());
    if core.sends_settings() && !core.is_bare {
        let message = core.encode_notification(method::ROOTS_LIST_CHANGED, None::<fn(&mut Vec<u8>)>);
        core.outbox.push(Output::Send(message));
    }
    Ok(())
}
