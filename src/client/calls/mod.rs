//! Component: requests of the embedder: what their responses mean, the input that these require, and whether they are
//! sent again. Their state is in the request table.

mod task;

pub(super) use self::task::{id_of_call, on_due, on_late, on_notification, on_polled};

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Core, Signal, Signals};
use super::inputs::{Asking, Reaction, fill_required, judge};
use super::request::{AUTHORIZATIONS, Block, Blocked, Call, CallProgress, InputRounds, Purpose};
use super::{
    CommandError, Event, Failure, FailureKind, InputRequest, Outcome, Progress, Request, RequestError, RequestId,
    ResendReason, ServerMethod, Wire, result_type,
};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::request::{Carrier, Effect, Effects, Input, ReplayPolicy};
use crate::machine::server::result::Content;
use crate::machine::{self, QuirkKind, request};
use crate::protocol::{accepts, error_code, method};
use crate::text::{cut, excerpt};

/// How often a request is sent again for each reason, so that it ends: after a loss, if it may run twice; because its
/// session expired; because of its headers; after the user visited URLs.
const LOSSES: u8 = 2;
const EXPIRIES: u8 = 1;
const HEADERS: u8 = 1;
const URLS: u8 = 1;

/// Queues a request of the embedder.
pub(super) fn request(core: &mut Core, now: Time, request: Request) -> Result<RequestId, CommandError> {
    core.check_open()?;
    if method::is_engines(&request.method) {
        return Err(CommandError::Reserved { method: (&*request.method).into() });
    }
    if request.params.as_ref().is_some_and(|params| !params.get().starts_with('{')) {
        return Err(CommandError::ParamsNotObject);
    }
    if core.is_ready()
        && let Some(capability) = core.missing_capability(&request.method)
    {
        return Err(core.not_advertised(&request.method, capability.as_str()));
    }
    if let Some(task) = request.resumed() {
        if !core.options.capabilities.tasks {
            return Err(CommandError::NotDeclared { capability: "tasks".into() });
        }
        if task.is_empty() || task.len() > task::LONGEST_ID {
            return Err(CommandError::InvalidTaskId { limit: task::LONGEST_ID });
        }
        if core.requests.with_task(&task).is_some() {
            return Err(CommandError::TaskFollowed);
        }
    }
    let limits = &core.options.limits;
    // A request that waits for input or authorization is in no queue, but counts.
    let open = core.requests.len() >= limits.queued.saturating_add(limits.in_flight);
    if open || core.requests.queued_calls() >= limits.queued {
        return Err(CommandError::TooManyRequests { limit: limits.queued });
    }
    if core.requests.request_bytes() >= limits.request_bytes {
        return Err(CommandError::TooManyRequests { limit: limits.request_bytes });
    }
    if core.is_outbox_full() {
        return Err(CommandError::TooManyRequests { limit: limits.output });
    }
    core.advance(now);
    let timeout = request.timeout.unwrap_or(core.options.timeouts.request);
    let max_timeout = request.max_timeout.unwrap_or(core.options.timeouts.request_max).max(timeout);
    Ok(core.requests.insert_call(request, timeout, max_timeout, core.now))
}

/// Characters of the reason of a cancellation.
const REASON: usize = 1024;

/// Cancels a request of the embedder.
pub(super) fn cancel(core: &mut Core, now: Time, request: RequestId, why: Option<&str>) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    core.advance(now);
    let why = why.map(|why| cut(why, REASON));
    step_to(core, id, Input::Cancelled, With::Reason(why.as_deref()));
    Ok(())
}

/// The embedder declines input or authorization.
pub(super) fn decline(core: &mut Core, now: Time, request: RequestId) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    if core.requests.refuses(id, Input::Declined) {
        return Err(CommandError::UnknownRequest);
    }
    core.advance(now);
    step(core, id, Input::Declined);
    Ok(())
}

/// Takes the server's response.
pub(super) fn on_response(core: &mut Core, id: u64, response: Result<Cow<'_, RawValue>, RequestError>) -> Signals {
    if core.requests.task(id).is_some() {
        task::on_response(core, id, response);
        return Signals::NONE;
    }
    match response {
        Ok(result) => match classify(core, id, &result) {
            Some(answer) => on_classified(core, id, answer),
            None => {
                step_to(core, id, Input::Answered, With::Outcome(Outcome::Result(result.into_owned())));
                Signals::NONE
            }
        },
        Err(error) => {
            let answer = classify_error(core, id, error);
            on_classified(core, id, answer)
        }
    }
}

fn on_classified(core: &mut Core, id: u64, answer: Classified<'_>) -> Signals {
    match answer {
        Classified::Complete(outcome) => step_to(core, id, Input::Answered, With::Outcome(outcome)),
        Classified::Invalid(why) => {
            step_to(core, id, Input::Invalid, With::Outcome(Outcome::Error(RequestError::Invalid(why))))
        }
        Classified::Input(rounds, inputs) => {
            if rounds.error.is_some() {
                expect_elicitations(core, id, &inputs);
            }
            set_input(core, id, rounds, &inputs);
            ask(core, id, inputs);
        }
        Classified::Retry(rounds) => {
            set_input(core, id, rounds, &[]);
            step(core, id, Input::RetryRequired);
        }
        Classified::Task(task) => return task::on_created(core, id, task),
    }
    Signals::NONE
}

/// Asks the embedder for input.
fn ask(core: &mut Core, id: u64, inputs: Vec<InputRequest>) {
    for input in &inputs {
        core.count_request(input.method);
    }
    let event = core.handle_of(id).map(|request| Event::InputRequired { request, inputs });
    step(core, id, Input::InputRequired);
    core.events(event);
}

/// An error requires the user to visit these URLs, which is offered once.
fn expect_elicitations(core: &mut Core, id: u64, inputs: &[InputRequest]) {
    core.requests.update(id, |call| call.urls = call.urls.saturating_add(1));
    let (request, limit) = (core.handle_of(id), core.options.limits.server_requests);
    for input in inputs {
        if input.params.as_deref().map(Json::from).is_some_and(|params| elicitation_id(params).is_some()) {
            core.url_elicitations.get_or_insert_default().add(&input.key, request, limit);
        } else {
            let method = core.requests.method(id);
            let detail = "an elicitation at a URL without `elicitationId`; its end cannot be announced";
            core.quirk(QuirkKind::ElicitationId, None, method.as_deref(), detail);
        }
    }
}

/// Classifies a result; `None` if it is that of the call.
fn classify<'a>(core: &Core, id: u64, result: &'a RawValue) -> Option<Classified<'a>> {
    let json = Json::from(result);
    if !json.is_object() {
        return Some(Classified::Invalid(format!("the result is not a JSON object: {}", excerpt(json.text())).into()));
    }
    let tool = core.requests.get(id).is_some_and(|open| open.purpose.is_tool_call());
    match result_type::of_call(core, json, tool) {
        Content::Complete => None,
        Content::Input => Some(classify_inputs(core, id, result)),
        Content::Task => Some(Classified::Task(task::described(core, json))),
        Content::Invalid => {
            Some(Classified::Invalid(format!("a result of the unknown type {}", result_type::type_of(json)).into()))
        }
    }
}

/// The server refused a request unprocessed: blocks it until what is missing is provided.
pub(super) fn block(core: &mut Core, id: u64, by: Block, outcome: Outcome) -> Signals {
    let left = core.requests.time_left(id, core.now);
    let since = core.requests.call_time(core.now);
    core.requests.update(id, |call| call.blocked = Some(Box::new(Blocked { by, outcome, left, since })));
    step(core, id, Input::Refused);
    match by {
        Block::Headers => Signals::one(Signal::SchemasWanted),
        Block::Authorization => Signals::NONE,
    }
}

/// The requests that wait for authorization end, for this reason.
pub(super) fn deny(core: &mut Core, why: &str) {
    for id in core.requests.calls() {
        let blocked = core.requests.call_mut(id).and_then(|call| call.blocked.as_mut());
        // One that waits for headers was refused with a JSON-RPC error.
        if let Some(Outcome::Error(RequestError::Status { message, .. })) = blocked.map(|blocked| &mut blocked.outcome)
        {
            *message = excerpt(why).into();
        }
    }
    unblock(core, Block::Authorization, Input::Denied);
}

/// What blocked requests were waiting for is there, or cannot be provided.
pub(super) fn unblock(core: &mut Core, by: Block, input: Input) {
    for id in core.requests.calls() {
        unblock_one(core, id, by, input);
    }
}

/// As [`unblock`], for one request.
pub(super) fn unblock_one(core: &mut Core, id: u64, by: Block, input: Input) {
    let blocked = core.requests.call(id).and_then(|call| call.blocked.as_ref());
    let Some(blocked) = blocked.filter(|blocked| blocked.by == by) else { return };
    let (left, since) = (blocked.left, blocked.since);
    if input == Input::Admitted {
        core.requests.go_on(id, left, since, core.now);
    }
    step(core, id, input);
}

/// The connection is lost: requests that may run twice are queued again, unsent ones stay queued, the others end.
pub(super) fn on_connection_lost(core: &mut Core, loss: Option<&Arc<Failure>>) {
    for id in core.requests.calls() {
        let input = if !core.is_sent(id) {
            Input::Lost
        } else if core.requests.task(id).is_some() {
            Input::LostTask
        } else {
            lost_input(core, id)
        };
        step_to(core, id, input, With::Loss(loss));
        if task::is_asked(core, id) {
            // A poll that was on its way ended with the connection.
            task::on_lost(core, id);
        }
    }
}

/// The client closes, because of a loss or on command: every request ends.
pub(super) fn end(core: &mut Core, loss: Option<&Arc<Failure>>) {
    for id in core.requests.calls() {
        step_to(core, id, Input::Closed, With::Loss(loss));
    }
}

/// The input when the response to a sent request is lost.
fn lost_input(core: &Core, id: u64) -> Input {
    let may_expire = core.requests.call(id).is_some_and(|call| !is_expired_again(call));
    if may_expire && core.requests.does_not_run(id) {
        return Input::Expired;
    }
    if may_replay(core, id) { Input::LostReplayable } else { Input::Lost }
}

/// Whether a sent request may run twice.
fn may_replay(core: &Core, id: u64) -> bool {
    let Some(call) = core.requests.call(id) else { return false };
    let carrier = match core.wire {
        Wire::Http => Carrier::Http,
        Wire::Pipe if core.options.reconnect.is_some() => Carrier::Pipe,
        Wire::Pipe => Carrier::LastPipe,
    };
    let replay = if call.task.is_some() { Some(true) } else { call.request.replay };
    let policy = match replay {
        Some(true) => ReplayPolicy::Allow,
        Some(false) => ReplayPolicy::Forbid,
        None => ReplayPolicy::Default,
    };
    // The parameters are read only if they matter.
    let effects = if policy == ReplayPolicy::Default { effects_of(core, &call.request) } else { Effects::Unknown };
    let again = call.lost < LOSSES;
    request::may_replay(carrier, policy, effects, core.options.trust, again)
}

/// Whether a request that was refused for now is sent again: as often as its deadline allows if it does not run or only reads,
/// otherwise as after a loss. Of the engine's own requests a keepalive request has its answer; the others do nothing that
/// matters twice.
pub(super) fn repeat(core: &mut Core, id: u64, may_run: bool) -> bool {
    let runs = core.requests.call(id).is_some() && (may_run || core.requests.may_have_begun(id));
    if !runs {
        core.requests.note_refused(id);
    }
    let Some(call) = core.requests.call(id) else { return core.requests.keepalive() != Some(id) };
    let only_reads = call.request.replay != Some(false) && method::only_reads(&call.request.method);
    let is_free = !runs || call.task.is_some() || only_reads;
    let repeats = is_free || may_replay(core, id);
    core.requests.update(id, |call| {
        call.may_have_run |= runs;
        call.lost = call.lost.saturating_add(u8::from(!is_free));
    });
    repeats
}

/// What is known of a request's effects, by its method and the server's annotations of the tool.
fn effects_of(core: &Core, request: &Request) -> Effects {
    if method::only_reads(&request.method) {
        return Effects::Reads;
    }
    let params = request.params.as_deref().filter(|_| request.method == method::TOOLS_CALL);
    let name = params.and_then(|params| Json::from(params).member("name")).and_then(Json::as_string);
    let hints = name.and_then(|name| core.catalog.tool(&name)).map(|tool| tool.hints).unwrap_or_default();
    let harmless = hints.read_only == Some(true) || hints.idempotent == Some(true);
    if harmless { Effects::Harmless } else { Effects::Unknown }
}

/// Whether a request that the server says it did not process may be sent again: the call has not begun, or may run twice.
pub(super) fn may_resend(core: &Core, id: u64) -> bool {
    let is_about_task = |call: &Call| call.task.is_some();
    !core.requests.may_have_begun(id) || core.requests.call(id).is_none_or(is_about_task) || may_replay(core, id)
}

/// The exchange of a request broke. `sent`: the request may have reached the server.
pub(super) fn on_exchange_lost(core: &mut Core, id: u64, sent: bool, why: &str) {
    if !sent && may_resend(core, id) {
        step(core, id, Input::NotRun);
    } else if core.requests.task(id).is_some() {
        task::on_lost(core, id);
    } else {
        let input = lost_input(core, id);
        let (kind, what) = if sent {
            (FailureKind::Closed, "ended the exchange before its response")
        } else {
            (FailureKind::Connect, "cannot be reached")
        };
        let loss = Failure::new(kind, format!("{} {what}: {}", core.server_name(), excerpt(why)));
        step_to(core, id, input, With::Loss(Some(&Arc::new(loss))));
    }
}

/// Whether the request was sent again for an expired session or a refused version before.
pub(super) const fn is_expired_again(call: &Call) -> bool {
    call.expired >= EXPIRIES
}

/// The request did not run, because its session expired, unless it had begun: then it is lost with the connection.
pub(super) fn on_expired(core: &mut Core, id: u64) {
    if core.requests.call(id).is_some() && may_resend(core, id) {
        step(core, id, Input::Expired);
    }
}

/// The server refused a request because of its version or era. Returns whether it is sent again after the new handshake:
/// once, unless the call may have begun to run and may not run twice.
pub(super) fn on_version_refused(core: &mut Core, id: u64) -> bool {
    let is_resent = core.requests.call(id).is_some_and(|call| !is_expired_again(call)) && may_resend(core, id);
    if is_resent {
        step(core, id, Input::VersionRefused);
    }
    is_resent
}

/// The response says that the session expired, but the request may have run. It ends with this response, unless it may
/// run twice.
pub(super) fn on_expired_response(core: &mut Core, id: u64, error: ErrorObject) {
    if may_replay(core, id) {
        step(core, id, Input::ExpiredReplayable);
    } else {
        step_to(core, id, Input::Answered, With::Outcome(Outcome::Error(RequestError::Server(error))));
    }
}

/// Whether a call may be blocked once more.
pub(super) fn may_block(core: &Core, id: u64, by: Block) -> bool {
    let is_left = |call: &Call| match by {
        Block::Authorization => call.unauthorized < AUTHORIZATIONS,
        Block::Headers => call.headers_refused < HEADERS,
    };
    core.requests.call(id).is_some_and(is_left) && may_resend(core, id)
}

/// The server's response to a request, classified.
enum Classified<'a> {
    Complete(Outcome),
    Invalid(Box<str>),
    /// It requires these inputs of the embedder.
    Input(Box<InputRounds>, Vec<InputRequest>),
    /// It requires another attempt.
    Retry(Box<InputRounds>),
    /// The server runs it as this task.
    Task(Json<'a>),
}

/// The inputs of a result that were not required before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    None,
    /// The engine has all of them.
    Known,
    /// The embedder has to provide at least one; the engine may have others.
    Wanted,
    /// One of them is of a kind that the client does not offer.
    Declined,
    /// One of them is invalid, violates the policy, or exceeds a limit.
    Refused,
}

/// The inputs of a result, by who provides them.
struct Inputs {
    /// The responses of the engine: the server's keys, and JSON.
    known: Vec<(Box<str>, Box<str>)>,
    /// The inputs for the embedder.
    wanted: Vec<InputRequest>,
    /// The client does not offer one of them.
    declined: bool,
    /// Why one of them is refused, if it is.
    refused: Option<Box<str>>,
}

/// Classifies a result that requires input.
fn classify_inputs<'a>(core: &Core, id: u64, result: &RawValue) -> Classified<'a> {
    let json = Json::from(result);
    let state = json.member("requestState").filter(|state| !state.is_null());
    let inputs = read_inputs(core, result, &BTreeSet::new());
    let begin = |inputs: Inputs| {
        let rounds = next_round(core, id, result.to_owned(), state, &inputs, 0)?;
        Ok((Box::new(InputRounds { known: inputs.known, ..rounds }), inputs.wanted))
    };
    match (inputs.class(), state.is_some()) {
        (Class::Wanted, _) => {
            begin(inputs).map_or_else(Classified::Invalid, |(rounds, wanted)| Classified::Input(rounds, wanted))
        }
        (Class::Known, _) | (Class::None, true) => {
            begin(inputs).map_or_else(Classified::Invalid, |(rounds, _)| Classified::Retry(rounds))
        }
        (Class::Declined, _) => Classified::Complete(Outcome::InputRequired(result.to_owned())),
        (Class::None, false) | (Class::Refused, _) => Classified::Invalid(inputs.why_invalid()),
    }
}

impl Inputs {
    fn class(&self) -> Class {
        match (&self.refused, self.declined, self.wanted.is_empty(), self.known.is_empty()) {
            (Some(_), ..) => Class::Refused,
            (None, true, ..) => Class::Declined,
            (None, false, false, _) => Class::Wanted,
            (None, false, true, false) => Class::Known,
            (None, false, true, true) => Class::None,
        }
    }

    fn why_invalid(&self) -> Box<str> {
        match &self.refused {
            Some(why) => format!("the server requires input that is not allowed: {why}").into(),
            None => "the server requires input, and does not say which".into(),
        }
    }

    /// How a call ends whose task requires inputs of which one is refused or not offered.
    fn outcome(&self, result: &RawValue) -> Outcome {
        match self.class() {
            Class::Declined => Outcome::InputRequired(result.to_owned()),
            Class::None | Class::Known | Class::Wanted | Class::Refused => {
                Outcome::Error(RequestError::Invalid(self.why_invalid()))
            }
        }
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|(key, _)| &**key).chain(self.wanted.iter().map(|input| &*input.key))
    }
}

/// A round of input of a task, and the inputs for the embedder. `more` bytes are stored beside it.
fn task_round(
    core: &Core,
    id: u64,
    result: Box<RawValue>,
    inputs: Inputs,
    more: usize,
) -> Result<(Box<InputRounds>, Vec<InputRequest>), Box<str>> {
    let rounds = next_round(core, id, result, None, &inputs, more)?;
    Ok((Box::new(InputRounds { known: inputs.known, ..rounds }), inputs.wanted))
}

/// Stores a round of input. If the embedder has none to give, the responses are complete.
fn set_input(core: &mut Core, id: u64, mut rounds: Box<InputRounds>, wanted: &[InputRequest]) {
    if wanted.is_empty() {
        let known = rounds.known.iter().map(|(key, response)| (&**key, &**response));
        rounds.responses = (!rounds.known.is_empty()).then(|| responses_of(known));
    }
    core.requests.set_input(id, Some(rounds));
}

/// Classifies an error that requires the user to visit URLs before the call is made again, which is offered once
/// (specification 2025-11-25, "Elicitation", URL Elicitation Required Error).
fn classify_error<'a>(core: &Core, id: u64, error: RequestError) -> Classified<'a> {
    let RequestError::Server(object) = &error else { return Classified::Complete(Outcome::Error(error)) };
    let Some(required) = urls_required(core, id, object) else { return Classified::Complete(Outcome::Error(error)) };
    let inputs = read_inputs(core, &required, &BTreeSet::new());
    if inputs.class() != Class::Wanted {
        return Classified::Complete(Outcome::Error(error));
    }
    match next_round(core, id, required, None, &inputs, object.message.len()) {
        Ok(rounds) => Classified::Input(Box::new(InputRounds { error: Some(object.clone()), ..rounds }), inputs.wanted),
        Err(_) => Classified::Complete(Outcome::Error(error)),
    }
}

/// Reads the inputs that a result requires, except those with these keys.
fn read_inputs(core: &Core, result: &RawValue, except: &BTreeSet<Box<str>>) -> Inputs {
    let required = Json::from(result).member("inputRequests").filter(|required| required.is_object());
    let mut inputs = Inputs { known: Vec::new(), wanted: Vec::new(), declined: false, refused: None };
    let (mut sampling, mut elicitations) = (0_usize, 0_usize);
    let mut keys = BTreeSet::new();
    let limit = core.options.limits.server_requests;
    required.unwrap_or(Json::EMPTY_ARRAY).members(|key, required| {
        if inputs.refused.is_some() || except.contains(key) {
            return;
        }
        if !keys.insert(Box::<str>::from(key)) {
            inputs.refused = Some(format!("two inputs with the key {}", excerpt(key)).into());
            return;
        }
        if inputs.known.len().saturating_add(inputs.wanted.len()) >= limit {
            inputs.refused = Some(format!("more than {limit} inputs at once").into());
            return;
        }
        let method = required.member("method").and_then(Json::as_string).unwrap_or_default();
        let params = required.member("params").map(Json::raw);
        let uncounted = if method == method::SAMPLING { sampling } else { elicitations };
        match judge(core, Asking::Input { uncounted }, &method, params) {
            Reaction::Result(result) => {
                inputs.known.push((key.into(), String::from_utf8(result).unwrap_or_default().into()));
            }
            Reaction::Embedder(method, params) => {
                let allowed = match method {
                    ServerMethod::Sampling => &mut sampling,
                    ServerMethod::Elicitation => &mut elicitations,
                };
                *allowed = allowed.saturating_add(1);
                inputs.wanted.push(InputRequest { key: key.into(), method, params });
            }
            Reaction::Decline | Reaction::Ignore(_) | Reaction::EndConnection => inputs.declined = true,
            Reaction::Refuse(error) => inputs.refused = Some(error.message),
        }
    });
    inputs
}

/// The next round of input of a request, within the limits. `more` bytes are stored beside it.
fn next_round(
    core: &Core,
    id: u64,
    result: Box<RawValue>,
    state: Option<Json<'_>>,
    inputs: &Inputs,
    more: usize,
) -> Result<InputRounds, Box<str>> {
    let before = core.requests.call(id).and_then(|call| call.input.as_ref());
    let (before, freed) = before.map_or((0, 0), |input| (input.rounds, input.bytes));
    let rounds = before.saturating_add(1);
    if rounds > core.options.limits.input_rounds {
        return Err(format!("the server asked for input more than {before} times").into());
    }
    let answers = inputs.known.iter().fold(0, |sum: usize, (key, json): &(Box<str>, Box<str>)| {
        sum.saturating_add(key.len()).saturating_add(json.len())
    });
    let given = state.map_or(0, |state| state.text().len());
    // The responses are stored twice: each one, and as they are sent.
    let bytes = result.get().len().saturating_add(given).saturating_add(answers.saturating_mul(2)).saturating_add(more);
    if core.requests.input_bytes().saturating_sub(freed).saturating_add(bytes) > core.input_room {
        let limit = core.options.limits.input_bytes;
        return Err(format!("the inputs that the server requires exceed the limit of {limit} bytes").into());
    }
    let left = core.requests.time_left(id, core.now);
    let since = core.requests.call_time(core.now);
    let state = state.map(|state| state.text().into());
    Ok(InputRounds { rounds, result, state, known: Vec::new(), responses: None, bytes, error: None, left, since })
}

/// The value of `inputResponses`.
fn responses_of<'a>(responses: impl Iterator<Item = (&'a str, &'a str)>) -> Box<str> {
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    for (key, response) in responses {
        object.raw(key, response);
    }
    object.end();
    String::from_utf8(json).unwrap_or_default().into()
}

/// What the error of a call requires before the call is made again, if it does not end the call.
fn urls_required(core: &Core, id: u64, error: &ErrorObject) -> Option<Box<RawValue>> {
    let elicitations = read_urls(core, error);
    let is_first = |call: &Call| call.urls < URLS;
    let may_ask = !core.is_modern() && core.requests.call(id).is_some_and(is_first);
    elicitations.filter(|_| may_ask)
}

fn elicitation_id(elicitation: Json<'_>) -> Option<Cow<'_, str>> {
    elicitation.member("elicitationId").and_then(Json::as_string)
}

/// The elicitations that an error requires, in the form of required inputs, with the id of each as its key. One without an
/// id gets one that no other has.
fn read_urls(core: &Core, error: &ErrorObject) -> Option<Box<RawValue>> {
    if error.code != error_code::URL_ELICITATION_REQUIRED {
        return None;
    }
    let limit = core.options.limits.server_requests;
    let elicitations = Json::from(error.data.as_deref()?).member("elicitations").and_then(|it| it.elements(limit))?;
    let mut json = Vec::new();
    let mut result = Object::begin(&mut json);
    let mut usable = !elicitations.kept.is_empty() && !elicitations.more;
    let ids: BTreeSet<_> = elicitations.kept.iter().copied().filter_map(elicitation_id).collect();
    let mut keys = (1_usize..).map(|number| format!("url-{number}")).filter(|key| !ids.contains(&**key));
    result.object("inputRequests", |inputs| {
        for elicitation in elicitations.kept {
            let string = |name| elicitation.member(name).and_then(Json::as_string);
            match (string("mode").as_deref(), string("url")) {
                (Some("url"), Some(_)) => {
                    let id = elicitation_id(elicitation).or_else(|| keys.next().map(Cow::Owned)).unwrap_or_default();
                    inputs.object(&id, |input| {
                        input.string("method", method::ELICITATION).raw("params", elicitation.text());
                    });
                }
                _ => usable = false,
            }
        }
    });
    result.end();
    usable.then(|| Json::trusted(&String::from_utf8(json).unwrap_or_default()).to_raw())
}

/// Takes the input that the server requires from the embedder.
pub(super) fn provide<'a>(
    core: &mut Core,
    now: Time,
    request: RequestId,
    responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    if core.requests.refuses(id, Input::InputGiven) {
        return Err(CommandError::UnknownRequest);
    }
    let mut given: BTreeMap<&str, &RawValue> = BTreeMap::new();
    for (key, response) in responses {
        if !response.get().starts_with('{') {
            return Err(CommandError::ResultNotObject);
        }
        if given.insert(key, response).is_some() {
            return Err(CommandError::DuplicateInput { key: key.into() });
        }
    }
    let rounds = core.requests.call_mut(id).and_then(|call| call.input.as_mut()).ok_or(CommandError::UnknownRequest)?;
    let filled = fill_required(&rounds.result, &rounds.known, &given, core.options.form_defaults)?;
    let declined = rounds.error.is_some() && !filled.iter().all(|(_, response)| accepts(Json::trusted(response)));
    let known = core::mem::take(&mut rounds.known);
    let sends = rounds.error.is_none();
    let known = known.iter().map(|(key, response)| (&**key, &**response));
    rounds.responses = sends.then(|| responses_of(known.chain(filled.iter().map(|(key, json)| (*key, &**json)))));
    let (left, since) = (rounds.left, rounds.since);
    core.advance(now);
    core.requests.go_on(id, left, since, core.now);
    task::move_on(core, id, machine::task::Input::InputGiven);
    step(core, id, if declined { Input::InputDeclined } else { Input::InputGiven });
    Ok(())
}

pub(super) fn step(core: &mut Core, id: u64, input: Input) {
    step_to(core, id, input, With::Nothing);
}

/// What comes with an input.
enum With<'a> {
    Nothing,
    /// The outcome of a request that ends by a response.
    Outcome(Outcome),
    /// The embedder's reason to cancel it.
    Reason(Option<&'a str>),
    /// Why its connection, its exchange or the client is lost.
    Loss(Option<&'a Arc<Failure>>),
}

/// As [`step`], with what comes with the input.
fn step_to(core: &mut Core, mut id: u64, input: Input, with: With<'_>) {
    let (mut outcome, mut reason, mut loss) = (None, None, None);
    match with {
        With::Nothing => {}
        With::Outcome(it) => outcome = Some(it),
        With::Reason(it) => reason = it,
        With::Loss(it) => loss = it,
    }
    for effect in core.requests.step_call(id, input) {
        let outcome = match effect {
            Effect::Requeue => {
                core.requests.requeue(id);
                continue;
            }
            Effect::RequeueAnew => {
                let resent = core.requests.call(id).and_then(|call| reason_of(call, input));
                report_resend(core, id, resent);
                core.requests.update(id, |call| call.blocked = None);
                id = core.requests.rename(id).unwrap_or(id);
                continue;
            }
            Effect::CountLoss => {
                core.requests.update(id, |call| {
                    (call.lost, call.may_have_run) = (call.lost.saturating_add(1), true);
                });
                continue;
            }
            Effect::CountExpiry => {
                core.requests.update(id, |call| call.expired = call.expired.saturating_add(1));
                continue;
            }
            Effect::Block => {
                core.requests.update(id, |call| match call.blocked.as_ref().map(|blocked| blocked.by) {
                    Some(Block::Headers) => call.headers_refused = call.headers_refused.saturating_add(1),
                    Some(Block::Authorization) => call.unauthorized = call.unauthorized.saturating_add(1),
                    None => {}
                });
                core.requests.set_time_left(id, core.options.timeouts.server_request, core.now);
                continue;
            }
            Effect::AwaitInput => {
                core.requests.set_time_left(id, core.options.timeouts.server_request, core.now);
                continue;
            }
            Effect::AwaitTask => {
                let latest = core.requests.call(id).map(|call| call.latest);
                core.requests.set_deadline(id, latest);
                continue;
            }
            Effect::Retract => {
                core.outbox.retract(id);
                continue;
            }
            Effect::Cancel => {
                let timed_out = input == Input::TimedOut;
                let why = if timed_out { "no response in time" } else { "the client cancelled the request" };
                core.cancel_request(id, reason.unwrap_or(why));
                continue;
            }
            Effect::Drop => {
                core.drop_request(id);
                continue;
            }
            Effect::EndAnswered => outcome.take().unwrap_or(Outcome::Unknown),
            Effect::EndInvalid => {
                task::abandon(core, id);
                outcome.take().unwrap_or(Outcome::Unknown)
            }
            Effect::EndInputRequired => {
                task::abandon(core, id);
                match core.requests.set_input(id, None).map(|rounds| *rounds) {
                    Some(InputRounds { error: Some(error), .. }) => Outcome::Error(RequestError::Server(error)),
                    Some(InputRounds { result, .. }) => Outcome::InputRequired(result),
                    None => Outcome::Unknown,
                }
            }
            Effect::EndRefused => match core.requests.call_mut(id).and_then(|call| call.blocked.take()) {
                Some(blocked) => blocked.outcome,
                None => Outcome::Unknown,
            },
            Effect::EndCancelled => {
                task::abandon(core, id);
                Outcome::Cancelled
            }
            Effect::EndTimedOut => {
                task::abandon(core, id);
                Outcome::TimedOut(core.requests.bound_of(id))
            }
            Effect::EndNotAdvertised => Outcome::NotAdvertised,
            Effect::EndUnsent | Effect::EndUnknown => {
                // A task is the call that was sent before.
                let may_have_run = |call: &Call| call.task.is_some() || call.may_have_run || call.has_begun;
                let runs = *effect == Effect::EndUnknown && !core.requests.does_not_run(id);
                let sent = runs || core.requests.call(id).is_some_and(may_have_run);
                if sent { Outcome::Unknown } else { Outcome::NotSent }
            }
        };
        let failure = loss.filter(|_| matches!(outcome, Outcome::Unknown | Outcome::NotSent)).cloned();
        let ended = core.requests.remove(id);
        if let Some(Purpose::Call(call)) = ended.map(|open| open.purpose) {
            if let CallProgress::Held(held) = call.progress
                && !core.is_full()
                && let Ok(last) = RawValue::from_string(held.1)
            {
                core.event(Event::Progress { request: call.handle, progress: Progress::new(last) });
            }
            core.event(Event::Finished { request: call.handle, outcome, attempts: call.attempts, failure });
        }
    }
}

/// Why an input has a request sent again, if it does.
fn reason_of(call: &Call, input: Input) -> Option<ResendReason> {
    // One about its task is not the call.
    if call.task.is_some() {
        return None;
    }
    match input {
        Input::Expired | Input::ExpiredReplayable => Some(ResendReason::SessionExpired),
        Input::VersionRefused => Some(ResendReason::VersionRefused),
        Input::LostReplayable => Some(ResendReason::Lost),
        Input::NotRun => Some(ResendReason::NotSent),
        Input::Restarted => Some(ResendReason::Busy),
        Input::RetryRequired | Input::InputGiven => Some(ResendReason::Input),
        Input::Admitted => call.blocked.as_ref().map(|blocked| match blocked.by {
            Block::Headers => ResendReason::Headers,
            Block::Authorization => ResendReason::Authorized,
        }),
        Input::Write
        | Input::Hand
        | Input::Answered
        | Input::Invalid
        | Input::InputRequired
        | Input::InputDeclined
        | Input::Declined
        | Input::Refused
        | Input::Denied
        | Input::Cancelled
        | Input::TimedOut
        | Input::NotAdvertised
        | Input::Withdrawn
        | Input::Lost
        | Input::LostTask
        | Input::TaskRuns
        | Input::TaskSends
        | Input::Closed => None,
    }
}

/// Reports that a request of the embedder is sent again.
pub(super) fn report_resend(core: &mut Core, id: u64, reason: Option<ResendReason>) {
    if let (Some(Call { handle, attempts, .. }), Some(reason)) = (core.requests.call(id), reason) {
        let (request, attempt) = (*handle, attempts.saturating_add(1));
        core.event(Event::Resending { request, attempt, reason });
    }
}

/// What was received is not a valid response.
pub(super) fn on_invalid(core: &mut Core, id: u64, why: String) {
    step_to(core, id, Input::Invalid, With::Outcome(Outcome::Error(RequestError::Invalid(why.into()))));
}
