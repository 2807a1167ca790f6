//! Component: requests of the server, which the engine or the embedder responds to, and the client's roots, whose state is
//! in the core.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;
use serde_json::value::RawValue;

use super::core::{Backlog, Core, Reaction, Signal, Signals};
use super::forms::Defaults;
use super::{
    CommandError, Event, FailureKind, Options, Outgoing, Output, RequestId, SamplingPolicy, ServerMethod,
    ServerRequestId,
};
use crate::jsonrpc::{ErrorObject, Json, Object, PeerId};
use crate::machine::link;
use crate::machine::server::request::{self, Answer, Asked, Declared, Method};
use crate::protocol::{ClientCapabilities, Root, error_code, method, write_roots};
use crate::text::excerpt;
use crate::{Time, jsonrpc};

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
    fn asked(core: &Core) -> Asked {
        let modern = core.agreed.is_some() && core.is_modern() || core.options.eras.pinned().is_some();
        if modern { Asked::Modern } else { Asked::Legacy }
    }

    /// Takes a server request. In the legacy era each gets a response, either at once or from the embedder.
    pub(super) fn on_request(
        &mut self,
        core: &mut Core,
        id: PeerId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Signals {
        let asked = Self::asked(core);
        let of = core.exchange.and_then(|id| core.handle_of(id.get()));
        let defaults = match method {
            method::ELICITATION if core.options.form_defaults => Defaults::read(params),
            _ => Defaults::default(),
        };
        let related = RelatedTask::read(core, params);
        let backlog = core.backlog();
        let full = backlog != Backlog::Free || self.is_full(core, bytes(&id, &defaults, &related));
        let message = match self.judge(core, asked, backlog == Backlog::Overrun, method, params, full, 0) {
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

    /// Decides on a server request, or on an input that the server requires. `uncounted`: sampling requests of the same
    /// result that were allowed before.
    #[allow(clippy::too_many_arguments, reason = "the columns of the table, and what the response is made from")]
    fn judge(
        &self,
        core: &Core,
        asked: Asked,
        overrun: bool,
        method: &str,
        params: Option<&RawValue>,
        full: bool,
        uncounted: usize,
    ) -> Reaction {
        // If the server refused the client's capabilities, none were declared to it.
        let none = ClientCapabilities::default();
        let options = &core.options;
        let offers = if core.is_bare { &none } else { &options.capabilities };
        let is_sampling = method == method::SAMPLING;
        let flaw = if is_sampling { tool_flaw(params) } else { None };
        let denied = if is_sampling { self.denied(options, params, core.now, uncounted) } else { None };
        let (class, declared) = classify(offers, method, params, flaw.is_some(), denied.is_some());
        match request::decide(asked, overrun, class, declared, full) {
            Answer::Empty => Reaction::Result(b"{}".to_vec()),
            Answer::Roots => Reaction::Result(roots_result(core)),
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
            Answer::EndConnection => Reaction::EndConnection,
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
        self.judge(core, Asked::Input, false, method, params, false, uncounted)
    }

    fn denied(&self, options: &Options, params: Option<&RawValue>, now: Time, uncounted: usize) -> Option<String> {
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

const MINUTE: Duration = Duration::from_secs(60);

/// Maximum number of messages that are read.
const MESSAGES: usize = 10_000;

/// When sampling requests were allowed within the last minute, oldest first. Few servers send any.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Sampled {
    at: VecDeque<Time>,
}

/// Maximum number of model hints that are read, in order of preference: each is compared with each model of the policy.
const HINTS: usize = 100;

impl Sampled {
    /// Why the policy denies a sampling request, if it does. `uncounted`: allowed requests that are not counted yet.
    fn denied(
        &self,
        policy: &SamplingPolicy,
        params: Option<&RawValue>,
        now: Time,
        uncounted: usize,
    ) -> Option<String> {
        let params = params.map(Json::from);
        let member = |name| params.and_then(|params| params.member(name));
        if !policy.models.is_empty() {
            // "Hints are treated as substrings that can match model names flexibly."
            let fits = |name: &str| policy.models.iter().any(|model| model.contains(name));
            let hints = member("modelPreferences").and_then(|preferences| preferences.member("hints"));
            let hints = hints.and_then(|hints| hints.elements(HINTS)).map(|hints| hints.kept).unwrap_or_default();
            let hints = hints.iter().filter_map(|hint| hint.member("name").and_then(Json::as_string));
            let names: Vec<_> = match &policy.model {
                Some(model) => vec![Cow::Borrowed(&**model)],
                None => hints.collect(),
            };
            if let Some(wanted) = names.first().filter(|_| !names.iter().any(|name| fits(name))) {
                return Some(format!("the model {} is not allowed", excerpt(wanted)));
            }
        }
        if let Some(most) = policy.tool_rounds {
            let messages = member("messages").and_then(|messages| messages.elements(MESSAGES));
            let messages = messages.map(|messages| messages.kept).unwrap_or_default();
            let rounds = messages.into_iter().filter(|message| uses_tool(*message)).count();
            if u32::try_from(rounds).is_ok_and(|rounds| rounds > most) || rounds >= MESSAGES {
                return Some(format!("{rounds} rounds with tools, and at most {most} are allowed"));
            }
        }
        let most = policy.per_minute?;
        let old = self.at.partition_point(|at| now.since(*at) >= MINUTE);
        let recent = self.at.len().saturating_sub(old).saturating_add(uncounted);
        usize::try_from(most)
            .is_ok_and(|most| recent >= most)
            .then(|| format!("at most {most} requests a minute are allowed"))
    }

    /// Counts an allowed sampling request.
    fn count(&mut self, policy: &SamplingPolicy, now: Time) {
        if policy.per_minute.is_some() {
            while self.at.front().is_some_and(|at| now.since(*at) >= MINUTE) {
                self.at.pop_front();
            }
            self.at.push_back(now);
        }
    }
}

/// The parameters with the policy's model and number of tokens, if they differ from the server's.
fn adjust(policy: &SamplingPolicy, params: Option<&RawValue>) -> Option<Box<RawValue>> {
    let json = params.map(Json::from).filter(|params| params.is_object())?;
    let tokens = policy
        .max_tokens
        .filter(|most| json.member("maxTokens").is_some_and(|tokens| !is_at_most(tokens.text(), *most)));
    if tokens.is_none() && policy.model.is_none() {
        return None;
    }
    let mut out = Vec::new();
    let mut adjusted = Object::begin(&mut out);
    json.raw_members(|name, value| match (name.as_string().as_deref(), tokens, &policy.model) {
        (Some("maxTokens"), Some(most), _) => {
            adjusted.integer("maxTokens", most.into());
        }
        (Some("modelPreferences"), _, Some(_)) => {}
        _ => {
            adjusted.member(name.text(), value.text());
        }
    });
    if let Some(model) = &policy.model {
        adjusted.object("modelPreferences", |preferences| {
            let given = json.member("modelPreferences").filter(|given| given.is_object());
            given.unwrap_or(Json::EMPTY_ARRAY).raw_members(|name, value| {
                if name.as_string().as_deref() != Some("hints") {
                    preferences.member(name.text(), value.text());
                }
            });
            let hints = preferences.value("hints");
            hints.push(b'[');
            let mut hint = Object::begin(hints);
            hint.string("name", model);
            hint.end();
            hints.push(b']');
        });
    }
    adjusted.end();
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// Whether the parameters have tools (specification 2025-11-25, "Sampling", Tools in Sampling).
fn has_tools(params: Option<&RawValue>) -> bool {
    let member = |name| params.map(Json::from).and_then(|params| params.member(name));
    ["tools", "toolChoice"].into_iter().any(|name| member(name).is_some_and(|value| !value.is_null()))
}

/// Why the tool results in the messages do not fit the tool uses, if they do not (specification 2025-11-25, "Sampling",
/// Message Content Constraints).
fn tool_flaw(params: Option<&RawValue>) -> Option<&'static str> {
    const MISSING: Option<&str> = Some("Tool result missing in request");
    let messages = params.map(Json::from)?.member("messages")?.elements(MESSAGES)?;
    let mut uses = BTreeSet::new();
    for message in messages.kept {
        let (mut results, mut others, mut next) = (false, false, BTreeSet::new());
        each_content(message, |content| {
            let id = |name| content.member(name).and_then(Json::as_string);
            match content.member("type").and_then(Json::as_string).as_deref() {
                Some("tool_result") => {
                    results = true;
                    if let Some(id) = id("toolUseId") {
                        uses.remove(&id);
                    }
                }
                Some("tool_use") => {
                    others = true;
                    next.extend(id("id"));
                }
                Some(_) | None => others = true,
            }
        });
        if results && others {
            return Some("Tool results mixed with other content");
        }
        if !uses.is_empty() {
            return MISSING;
        }
        uses = next;
    }
    if uses.is_empty() { None } else { MISSING }
}

/// Whether the text is a number that is not above the limit.
fn is_at_most(number: &str, most: u64) -> bool {
    // A number with a fraction or an exponent is compared as a float.
    number.parse::<u64>().map_or_else(|_| number.parse::<f64>().is_ok_and(|it| it <= most as f64), |it| it <= most)
}

/// Whether the model uses a tool in a message.
fn uses_tool(message: Json<'_>) -> bool {
    let mut uses = false;
    each_content(message, |content| {
        uses |= content.member("type").and_then(Json::as_string).as_deref() == Some("tool_use");
    });
    uses
}

/// Calls `each` with each content block of a message, which has one or a list of them.
fn each_content<'a>(message: Json<'a>, each: impl FnMut(Json<'a>)) {
    let Some(content) = message.member("content") else { return };
    match content.elements(MESSAGES) {
        Some(contents) => contents.kept.into_iter().for_each(each),
        None => core::iter::once(content).for_each(each),
    }
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

/// The result of `roots/list`.
fn roots_result(core: &Core) -> Vec<u8> {
    let declared = core.options.capabilities.roots.as_deref().unwrap_or_default();
    let mut result = Vec::new();
    write_roots(core.roots.as_deref().unwrap_or(declared), &mut result);
    result
}
