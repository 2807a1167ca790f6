//! Component: requests of the server, which the engine or the embedder responds to.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Core, excerpt};
use super::forms::Defaults;
use super::sampling::Sampled;
use super::{CommandError, Event, Options, Outgoing, Output, RequestId, ServerMethod, ServerRequestId};
use crate::Time;
use crate::jsonrpc::{self, ErrorObject, Json, PeerId};
use crate::machine::server_request::{self, Answer, Asked, Declared, Method, Room};
use crate::protocol::{ClientCapabilities, error_code, method};

/// The code with which sampling is refused by the user or the policy (specification 2025-11-25, "Sampling").
const REJECTED: i64 = -1;

/// A server request that waits for the embedder.
#[derive(Clone, Debug)]
struct Open {
    id: PeerId,
    method: ServerMethod,
    deadline: Time,
    /// The embedder's request in whose HTTP exchange it arrived.
    of: Option<RequestId>,
    /// The defaults of the form's fields.
    defaults: Defaults,
}

impl Open {
    /// Bytes of the server's data that are stored.
    fn bytes(&self) -> usize {
        // The id is stored twice.
        self.id.get().len().saturating_mul(2).saturating_add(self.defaults.bytes())
    }
}

/// The decision on a server request, or on an input that the server requires.
pub(super) enum Verdict {
    /// Respond with this result.
    Result(Vec<u8>),
    /// Respond with this error.
    Refuse(ErrorObject),
    /// Report it to the embedder.
    Embedder(ServerMethod),
    /// Give no input.
    Decline,
    /// Do not respond.
    Ignore,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ServerRequests {
    /// Few clients have open ones, and only for a short time.
    open: Option<Box<Table>>,
    last: u64,
    sampled: Option<Box<Sampled>>,
}

#[derive(Clone, Debug, Default)]
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
    /// Bytes of the server's data that are stored.
    fn bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |table| table.bytes)
    }

    /// When the next request is declined because the embedder did not respond in time.
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
            return Err(CommandError::ParamsNotObject);
        }
        let Some(request) = self.open.as_mut().and_then(|table| table.remove(id.0)) else {
            return Err(CommandError::UnknownServerRequest);
        };
        core.advance(now);
        self.on_removed(core);
        let message = core.encode_response(|out| match response {
            Ok(result) => jsonrpc::result(out, &request.id, &request.defaults.fill(result)),
            Err(error) => jsonrpc::error(out, &request.id, &error),
        });
        core.outbox.push(Output::Send(Outgoing { of: request.of, ..message }));
        Ok(())
    }

    /// Takes a server request. In the legacy era each gets a response, either at once or from the embedder.
    pub(super) fn on_request(&mut self, core: &mut Core, id: PeerId, method: &str, params: Option<&RawValue>) {
        let modern = core.agreed.is_some() && core.is_modern() || core.options.eras.pinned().is_some();
        let asked = if modern { Asked::Modern } else { Asked::Legacy };
        let of = core.exchange.and_then(|id| core.handle_of(id.get()));
        let message = match self.judge(core, asked, method, params, Some(&id)) {
            Verdict::Ignore | Verdict::Decline => return,
            Verdict::Embedder(method) => {
                let sampling = method == ServerMethod::Sampling;
                let timeout = core.options.sampling.timeout.filter(|_| sampling);
                let deadline = core.now + timeout.unwrap_or(core.options.timeouts.server_request);
                let defaults = if sampling { Defaults::default() } else { Defaults::read(params) };
                let request = Open { id, method, deadline, of, defaults };
                let kept = self.bytes().saturating_add(core.requests.input_bytes());
                if kept.saturating_add(request.bytes()) <= core.options.limits.input_bytes {
                    return self.pass_on(core, request, params);
                }
                core.encode_response(|out| jsonrpc::error(out, &request.id, &too_many()))
            }
            Verdict::Result(result) => core.encode_response(|out| {
                jsonrpc::result(out, &id, core::str::from_utf8(&result).unwrap_or("{}"));
            }),
            Verdict::Refuse(error) => core.encode_response(|out| jsonrpc::error(out, &id, &error)),
        };
        core.outbox.push(Output::Send(Outgoing { of, ..message }));
    }

    fn pass_on(&mut self, core: &mut Core, request: Open, params: Option<&RawValue>) {
        let method = request.method;
        self.last = self.last.saturating_add(1);
        let id = self.last;
        self.open.get_or_insert_default().insert(id, request);
        self.publish(core);
        let most = core.options.timeouts.server_request.max(core.options.sampling.timeout.unwrap_or_default());
        core.requests.pause(most, core.now);
        core.event(Event::ServerRequest { id: ServerRequestId(id), method, params: params.map(ToOwned::to_owned) });
    }

    /// Decides on a server request, or on an input that the server requires, which has no id.
    fn judge(
        &mut self,
        core: &mut Core,
        asked: Asked,
        method: &str,
        params: Option<&RawValue>,
        id: Option<&PeerId>,
    ) -> Verdict {
        // If the server refused the client's capabilities, none were declared to it.
        let none = ClientCapabilities::default();
        let options = core.options.clone();
        let offers = if core.undeclared { &none } else { &options.capabilities };
        let denied = (method == method::SAMPLING).then(|| self.denied(&options, params, core.now)).flatten();
        let (class, declared) = classify(offers, method, params, denied.is_some());
        let waiting = self.open.as_ref().map_or(0, |table| table.open.len());
        let room = if waiting >= options.limits.server_requests { Room::Full } else { Room::Free };
        match server_request::take(asked, class, declared, room) {
            Answer::Empty => Verdict::Result(b"{}".to_vec()),
            Answer::Roots => {
                let mut result = Vec::new();
                offers.write_roots(&mut result);
                Verdict::Result(result)
            }
            Answer::Embedder => {
                let Some(asked) = ServerMethod::of(method) else { return Verdict::Ignore };
                if class == Method::Sampling && options.sampling.per_minute.is_some() {
                    self.sampled.get_or_insert_default().count(&options.sampling, core.now);
                }
                Verdict::Embedder(asked)
            }
            Answer::RefuseMethod => {
                let why = format!("the client does not offer {}", excerpt(method));
                Verdict::Refuse(ErrorObject::new(error_code::METHOD_NOT_FOUND, why))
            }
            Answer::RefuseMode => {
                let mode = mode(params);
                let mode = mode.as_deref().map_or("form".into(), excerpt);
                let why = format!("the client does not offer elicitation in mode {mode}");
                Verdict::Refuse(ErrorObject::new(error_code::INVALID_PARAMS, why))
            }
            Answer::RefusePolicy => {
                let why = format!("refused by the client's policy: {}", denied.unwrap_or_default());
                Verdict::Refuse(ErrorObject::new(REJECTED, why))
            }
            Answer::RefuseFull => Verdict::Refuse(too_many()),
            Answer::Ignore(kind) => {
                let id = id.map_or("", PeerId::get);
                let detail = format!("a request (id {id}), of which revision 2026-07-28 has none");
                core.quirk(kind, None, Some(method), detail);
                Verdict::Ignore
            }
            Answer::Decline => Verdict::Decline,
        }
    }

    /// Decides on an input that the server requires.
    pub(super) fn judge_input(&mut self, core: &mut Core, method: &str, params: Option<&RawValue>) -> Verdict {
        self.judge(core, Asked::Input, method, params, None)
    }

    fn denied(&self, options: &Options, params: Option<&RawValue>, now: Time) -> Option<alloc::string::String> {
        match &self.sampled {
            Some(sampled) => sampled.denied(&options.sampling, params, now),
            None => Sampled::default().denied(&options.sampling, params, now),
        }
    }

    /// The server cancels one of its requests.
    pub(super) fn on_cancelled(&mut self, core: &mut Core, peer_id: &str) {
        let Some(table) = &mut self.open else { return };
        if let Some(id) = table.find(peer_id) {
            table.remove(id);
            self.on_removed(core);
            core.event(Event::ServerRequestEnded { id: ServerRequestId(id) });
        }
    }

    /// Declines the requests that the embedder did not respond to in time.
    pub(super) fn on_time(&mut self, core: &mut Core) {
        while let Some(table) = &mut self.open
            && let Some(due) = table.due(core.now)
            && let Some(request) = table.remove(due)
        {
            refuse(core, &request, r#"{"action":"decline"}"#);
            core.event(Event::ServerRequestEnded { id: ServerRequestId(due) });
        }
        self.on_removed(core);
    }

    /// The connection ends: the embedder need not respond any more. If the server is still there, it gets an error
    /// response.
    pub(super) fn end(&mut self, core: &mut Core, gone: bool) {
        for (id, request) in self.open.take().into_iter().flat_map(|table| table.open) {
            if !gone {
                refuse(core, &request, r#"{"action":"cancel"}"#);
            }
            core.event(Event::ServerRequestEnded { id: ServerRequestId(id) });
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

    fn publish(&self, core: &mut Core) {
        core.input_room = core.options.limits.input_bytes.saturating_sub(self.bytes());
    }
}

fn refuse(core: &mut Core, request: &Open, elicited: &str) {
    let message = core.encode_response(|out| match request.method {
        ServerMethod::Elicitation => jsonrpc::result(out, &request.id, elicited),
        ServerMethod::Sampling => {
            jsonrpc::error(out, &request.id, &ErrorObject::new(REJECTED, "User rejected sampling request"));
        }
    });
    core.outbox.push(Output::Send(Outgoing { of: request.of, ..message }));
}

fn too_many() -> ErrorObject {
    ErrorObject::new(error_code::INTERNAL_ERROR, "too many questions wait already")
}

/// The mode of an elicitation.
fn mode(params: Option<&RawValue>) -> Option<Cow<'_, str>> {
    params.and_then(|params| Json::from(params).member("mode")).and_then(Json::as_string)
}

/// Classifies the method of a server request, and whether the client declared its capability.
fn classify(offers: &ClientCapabilities, method: &str, params: Option<&RawValue>, denied: bool) -> (Method, Declared) {
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
        method::SAMPLING if denied => (Method::SamplingDenied, declared(offers.sampling)),
        method::SAMPLING => (Method::Sampling, declared(offers.sampling)),
        _ => (Method::Other, Declared::Undeclared),
    }
}
