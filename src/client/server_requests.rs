//! Component: requests of the server, which the engine or the embedder responds to.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;
use serde_json::value::RawValue;

use super::core::Core;
use super::forms::Defaults;
use super::reaction::Reaction;
use super::related_task::RelatedTask;
use super::sampling::{Sampled, adjust, has_tools, tool_flaw};
use super::signal::{Signal, Signals};
use super::{CommandError, Event, Options, Outgoing, Output, RequestId, ServerMethod, ServerRequestId};
use crate::Time;
use crate::jsonrpc::{self, ErrorObject, Json, PeerId};
use crate::machine::server_request::{self, Answer, Asked, Declared, Method, Room};
use crate::protocol::{ClientCapabilities, error_code, method};
use crate::text::excerpt;

/// The code with which sampling is refused by the user or the policy (specification 2025-11-25, "Sampling").
const REJECTED: i64 = -1;

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
    sampled: Option<Box<Sampled>>,
}

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Table {
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Time, u64)>,
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
        let request = self.open.remove(&id)?;
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

    fn due(&self, now: Time) -> Option<u64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }
}

impl ServerRequests {
    #[cfg(feature = "snapshot")]
    pub(super) fn check(&self, limits: &super::Limits) -> Result<(), crate::snapshot::SnapshotError> {
        let Some(table) = &self.open else { return Ok(()) };
        let mut expected = Table::default();
        for (id, request) in &table.open {
            expected.insert(*id, request.clone());
        }
        let same = (&table.deadlines, &table.by_peer_id, table.bytes)
            == (&expected.deadlines, &expected.by_peer_id, expected.bytes);
        if !same || table.open.keys().next_back().is_some_and(|id| *id > self.last) {
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
        response: Result<&RawValue, ErrorObject>,
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
                jsonrpc::result(out, &request.id, &request.related.name_in(&request.defaults.fill(result)));
            }
            Err(error) => jsonrpc::error(out, &request.id, &error),
        });
        core.outbox.push(Output::Send(Outgoing { of: request.of, ..message }));
        Ok(())
    }

    /// Who sends a request now.
    pub(super) fn asked(core: &Core) -> Asked {
        let modern = core.agreed.is_some() && core.is_modern() || core.options.eras.pinned().is_some();
        if modern { Asked::Modern } else { Asked::Legacy }
    }

    /// Takes a server request. In the legacy era each gets a response, either at once or from the embedder.
    /// Without `embedder`, one that needs the embedder is refused.
    pub(super) fn on_request(
        &mut self,
        core: &mut Core,
        id: PeerId,
        method: &str,
        params: Option<&RawValue>,
        embedder: bool,
    ) -> Signals {
        let asked = Self::asked(core);
        let of = core.exchange.and_then(|id| core.handle_of(id.get()));
        let defaults = match method {
            method::ELICITATION if core.options.form_defaults => Defaults::read(params),
            _ => Defaults::default(),
        };
        let related = RelatedTask::read(core, params);
        let room = if embedder { self.room(core, bytes(&id, &defaults, &related)) } else { Room::Full };
        let message = match self.judge(core, asked, method, params, room, 0) {
            Reaction::Decline => return Signals::NONE,
            Reaction::Ignore(kind) => {
                let detail = format!("a request (id {}), of which revision 2026-07-28 has none", id.get());
                core.quirk(kind, None, Some(method), detail);
                return Signals::NONE;
            }
            Reaction::Embedder(method, params) => {
                self.count_sampling(core, usize::from(method == ServerMethod::Sampling));
                let id_at_url = match method {
                    ServerMethod::Sampling => None,
                    ServerMethod::Elicitation => {
                        let params = params.as_deref().map(Json::from);
                        params.and_then(|params| params.member("elicitationId")).and_then(Json::as_string)
                    }
                };
                let signals = id_at_url.map_or(Signals::NONE, |id| {
                    Signals::one(Signal::Elicitations { ids: vec![id.into()], request: of })
                });
                let timeout = match method {
                    ServerMethod::Sampling => core.options.sampling.timeout,
                    ServerMethod::Elicitation => None,
                };
                let deadline = core.now + timeout.unwrap_or(core.options.timeouts.server_request);
                self.pass_on(core, Open { id, method, deadline, of, defaults, related }, params);
                return signals;
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

    /// Whether the limits allow another open request of this size.
    fn room(&self, core: &Core, bytes: usize) -> Room {
        let open = self.open.as_ref().map_or(0, |table| table.open.len());
        let kept = self.bytes().saturating_add(core.requests.input_bytes()).saturating_add(bytes);
        let limits = &core.options.limits;
        if open >= limits.server_requests || kept > limits.input_bytes { Room::Full } else { Room::Free }
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

    /// Decides on a server request, or on an input that the server requires. `uncounted`: sampling requests of the same
    /// result that were allowed before.
    fn judge(
        &self,
        core: &Core,
        asked: Asked,
        method: &str,
        params: Option<&RawValue>,
        room: Room,
        uncounted: usize,
    ) -> Reaction {
        // If the server refused the client's capabilities, none were declared to it.
        let none = ClientCapabilities::default();
        let options = &core.options;
        let offers = if core.is_undeclared() { &none } else { &options.capabilities };
        let is_sampling = method == method::SAMPLING;
        let flaw = if is_sampling { tool_flaw(params) } else { None };
        let denied = if is_sampling { self.denied(options, params, core.now, uncounted) } else { None };
        let (class, declared) = classify(offers, method, params, flaw.is_some(), denied.is_some());
        match server_request::take(asked, class, declared, room) {
            Answer::Empty => Reaction::Result(b"{}".to_vec()),
            Answer::Roots => Reaction::Result(core.roots_result()),
            Answer::Embedder => {
                let Some(method) = ServerMethod::of(method) else { return Reaction::Decline };
                let adjusted = match method {
                    ServerMethod::Sampling => adjust(&options.sampling, params),
                    ServerMethod::Elicitation => None,
                };
                Reaction::Embedder(method, adjusted.or_else(|| params.map(ToOwned::to_owned)))
            }
            Answer::RefuseMethod => {
                let why = format!("the client does not offer {}", excerpt(method));
                Reaction::Refuse(ErrorObject::new(error_code::METHOD_NOT_FOUND, why))
            }
            Answer::RefuseMode => {
                let why = match class {
                    Method::Sampling | Method::SamplingInvalid | Method::SamplingDenied => {
                        "the client does not offer sampling with tools".into()
                    }
                    Method::Ping | Method::Roots | Method::Form | Method::Url | Method::OtherMode | Method::Other => {
                        let mode = mode(params);
                        let mode = mode.as_deref().map_or("form".into(), excerpt);
                        format!("the client does not offer elicitation in mode {mode}")
                    }
                };
                Reaction::Refuse(ErrorObject::new(error_code::INVALID_PARAMS, why))
            }
            Answer::RefuseParams => {
                Reaction::Refuse(ErrorObject::new(error_code::INVALID_PARAMS, flaw.unwrap_or_default()))
            }
            Answer::RefusePolicy => {
                let why = format!("refused by the client's policy: {}", denied.unwrap_or_default());
                Reaction::Refuse(ErrorObject::new(REJECTED, why))
            }
            Answer::RefuseFull => {
                let why = "too many requests of the server are open";
                Reaction::Refuse(ErrorObject::new(error_code::INTERNAL_ERROR, why))
            }
            Answer::Ignore(kind) => Reaction::Ignore(kind),
            Answer::Decline => Reaction::Decline,
        }
    }

    /// Decides on an input that the server requires.
    pub(super) fn judge_input(
        &self,
        core: &Core,
        method: &str,
        params: Option<&RawValue>,
        uncounted: usize,
    ) -> Reaction {
        // The inputs of one result are bounded together, where they are read.
        self.judge(core, Asked::Input, method, params, Room::Free, uncounted)
    }

    fn denied(
        &self,
        options: &Options,
        params: Option<&RawValue>,
        now: Time,
        uncounted: usize,
    ) -> Option<alloc::string::String> {
        match &self.sampled {
            Some(sampled) => sampled.denied(&options.sampling, params, now, uncounted),
            None => Sampled::default().denied(&options.sampling, params, now, uncounted),
        }
    }

    /// The embedder gets this many sampling requests, which count towards the policy's limit.
    pub(super) fn count_sampling(&mut self, core: &Core, requests: usize) {
        if core.options.sampling.per_minute.is_some() {
            for _ in 0..requests {
                self.sampled.get_or_insert_default().count(&core.options.sampling, core.now);
            }
        }
    }

    /// The server cancels one of its requests.
    pub(super) fn on_cancelled(&mut self, core: &mut Core, peer_id: &str, reason: Option<&str>) {
        let Some(table) = &mut self.open else { return };
        if let Some(id) = table.find(peer_id) {
            table.remove(id);
            self.on_removed(core);
            core.event(Event::ServerRequestEnded {
                id: ServerRequestId(id),
                reason: reason.map(|it| excerpt(it).into()),
            });
        }
    }

    /// Cancels the requests that the embedder did not respond to in time.
    pub(super) fn on_time(&mut self, core: &mut Core) {
        while let Some(table) = &mut self.open
            && let Some(due) = table.due(core.now)
            && let Some(request) = table.remove(due)
        {
            cancel(core, &request);
            core.event(Event::ServerRequestEnded { id: ServerRequestId(due), reason: None });
        }
        self.on_removed(core);
    }

    /// The connection ends: the embedder need not respond any more. If the server is still there, it gets an error
    /// response.
    pub(super) fn end(&mut self, core: &mut Core, gone: bool) {
        for (id, request) in self.open.take().into_iter().flat_map(|table| table.open) {
            if !gone {
                cancel(core, &request);
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

/// The mode of an elicitation.
fn mode(params: Option<&RawValue>) -> Option<Cow<'_, str>> {
    params.and_then(|params| Json::from(params).member("mode")).and_then(Json::as_string)
}

/// Classifies the method of a server request, and whether the client declared its capability.
fn classify(
    offers: &ClientCapabilities,
    method: &str,
    params: Option<&RawValue>,
    flawed: bool,
    denied: bool,
) -> (Method, Declared) {
    let declared = |declared: bool| if declared { Declared::Declared } else { Declared::Undeclared };
    match method {
        method::PING => (Method::Ping, Declared::Undeclared),
        method::ROOTS_LIST => (Method::Roots, declared(offers.roots.is_some())),
        method::ELICITATION => {
            let (class, offered) = match mode(params).as_deref() {
                None | Some("form") => (Method::Form, offers.elicitation),
                Some("url") => (Method::Url, offers.elicitation_url),
                Some(_) => (Method::OtherMode, false),
            };
            let any = offers.elicitation || offers.elicitation_url;
            (class, if any && !offered { Declared::OtherMode } else { declared(offered) })
        }
        method::SAMPLING => {
            let class = match (flawed, denied) {
                (true, _) => Method::SamplingInvalid,
                (false, true) => Method::SamplingDenied,
                (false, false) => Method::Sampling,
            };
            let without = offers.sampling && !offers.sampling_tools && has_tools(params);
            (class, if without { Declared::OtherMode } else { declared(offers.sampling) })
        }
        _ => (Method::Other, Declared::Undeclared),
    }
}
