//! Requests of the embedder: what their responses mean, and whether they are sent again. Their state is in the request
//! table.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Core, excerpt};
use super::forms::Defaults;
use super::request_table::{Block, Blocked, Call, InputRounds, Purpose};
use super::server_requests::Verdict;
use super::signal::{Signal, Signals};
use super::{CommandError, Event, InputRequest, Outcome, Request, RequestError, RequestId, Wire};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::request::{Effect, Input, State, take};
use crate::machine::resend::{self, Reason, Resend, Unsent};
use crate::protocol::method;

/// Decides on an input that the server requires, by its method and parameters.
pub(super) type Judge<'a> = dyn FnMut(&mut Core, &str, Option<&RawValue>) -> Verdict + 'a;

/// The server's response to a request, classified.
enum Answer {
    Complete(Outcome),
    Invalid(Box<str>),
    /// It requires input: the rounds so far, and the inputs for the embedder.
    Input(Box<InputRounds>, Vec<InputRequest>),
}

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
    let limits = &core.options.limits;
    // A request that waits for input or authorization is in no queue, but counts.
    let open = core.requests.len() >= limits.queued.saturating_add(limits.in_flight);
    if open || core.requests.queued_calls() >= limits.queued {
        return Err(CommandError::TooManyRequests { limit: limits.queued });
    }
    if core.is_outbox_full() {
        return Err(CommandError::TooManyRequests { limit: limits.output });
    }
    core.advance(now);
    let timeout = request.timeout.unwrap_or(core.options.timeouts.request);
    let max_timeout = request.max_timeout.unwrap_or(core.options.timeouts.request_max).max(timeout);
    Ok(core.requests.insert_call(request, timeout, max_timeout, core.now))
}

/// Cancels a request of the embedder.
pub(super) fn cancel(core: &mut Core, now: Time, request: RequestId) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    core.advance(now);
    step(core, id, Input::Cancelled);
    Ok(())
}

/// Takes the input that the server requires from the embedder.
pub(super) fn provide<'a>(
    core: &mut Core,
    now: Time,
    request: RequestId,
    responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    if core.requests.get(id).is_none_or(|open| open.phase != State::Waiting) {
        return Err(CommandError::UnknownRequest);
    }
    let given: Vec<_> = responses.into_iter().collect();
    if given.iter().any(|(_, response)| !response.get().starts_with('{')) {
        return Err(CommandError::ParamsNotObject);
    }
    core.advance(now);
    let call_time = core.requests.call_time(core.now);
    if let Some(Call { input: Some(rounds), latest, .. }) = core.requests.call_mut(id) {
        // The time that the user takes does not count towards the request's deadline.
        *latest = *latest + call_time.since(rounds.since);
        // One pass over the required inputs, however many responses there are.
        let mut defaults: BTreeMap<&str, Defaults> = given.iter().map(|(key, _)| (*key, Defaults::default())).collect();
        let asked = Json::from(&*rounds.result).member("inputRequests");
        asked.unwrap_or(Json::EMPTY_ARRAY).members(|key, wanted| {
            if let Some(defaults) = defaults.get_mut(key) {
                *defaults = Defaults::read(wanted.member("params").map(Json::raw));
            }
        });
        let filled = given.iter().map(|(key, response)| {
            (*key, defaults.get(key).map_or(Cow::Borrowed(response.get()), |defaults| defaults.fill(response)))
        });
        let filled: Vec<_> = filled.collect();
        let known = core::mem::take(&mut rounds.known);
        let known = known.iter().map(|(key, response)| (&**key, &**response));
        rounds.responses = Some(responses_of(known.chain(filled.iter().map(|(key, json)| (*key, &**json)))));
        let left = rounds.left;
        core.requests.set_time_left(id, left, core.now);
    }
    step(core, id, Input::InputGiven);
    Ok(())
}

/// The embedder declines input or authorization.
pub(super) fn decline(core: &mut Core, now: Time, request: RequestId) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    let input = match core.requests.get(id).map(|open| open.phase) {
        Some(State::Waiting) => Input::InputDeclined,
        Some(State::Blocked) => Input::Denied,
        Some(State::Queued | State::Written | State::Sent | State::Ended) | None => {
            return Err(CommandError::UnknownRequest);
        }
    };
    core.advance(now);
    step(core, id, input);
    Ok(())
}

/// Takes the server's response.
pub(super) fn on_response(core: &mut Core, id: u64, response: Result<&RawValue, RequestError>, judge: &mut Judge<'_>) {
    let answer = match response {
        Ok(result) => classify(core, id, result, judge),
        Err(error) => Answer::Complete(Outcome::Error(error)),
    };
    match answer {
        Answer::Complete(outcome) => step_to(core, id, Input::Answered, Some(outcome)),
        Answer::Invalid(why) => step_to(core, id, Input::Invalid, Some(Outcome::Error(RequestError::Invalid(why)))),
        Answer::Input(mut rounds, inputs) => {
            let Some(handle) = core.handle_of(id) else { return };
            if inputs.is_empty() {
                let known = rounds.known.iter().map(|(key, response)| (&**key, &**response));
                rounds.responses = (!rounds.known.is_empty()).then(|| responses_of(known));
                core.requests.set_input(id, Some(rounds));
                return step(core, id, Input::RetryRequired);
            }
            core.requests.set_input(id, Some(rounds));
            step(core, id, Input::InputRequired);
            core.event(Event::InputRequired { request: handle, inputs });
        }
    }
}

/// What was received is not a valid response.
pub(super) fn on_invalid(core: &mut Core, id: u64, why: String) {
    step_to(core, id, Input::Invalid, Some(Outcome::Error(RequestError::Invalid(why.into()))));
}

fn classify(core: &mut Core, id: u64, result: &RawValue, judge: &mut Judge<'_>) -> Answer {
    if !core.is_modern() {
        return Answer::Complete(Outcome::Result(result.to_owned()));
    }
    let Some(kind) = Json::from(result).member("resultType") else {
        return Answer::Complete(Outcome::Result(result.to_owned()));
    };
    match kind.as_string().as_deref() {
        Some("complete") => Answer::Complete(Outcome::Result(result.to_owned())),
        Some("input_required") => classify_input(core, id, result, judge),
        _ => Answer::Invalid(format!("a result of the unknown type {}", excerpt(kind.text())).into()),
    }
}

fn classify_input(core: &mut Core, id: u64, result: &RawValue, judge: &mut Judge<'_>) -> Answer {
    let before = core.requests.call_mut(id).and_then(|call| call.input.as_ref());
    let (before, freed) = before.map_or((0, 0), |input| (input.rounds, input.bytes));
    let rounds = before.saturating_add(1);
    if rounds > core.options.limits.input_rounds {
        return Answer::Invalid(
            format!("the server asked for input more than {} times", rounds.saturating_sub(1)).into(),
        );
    }
    let json = Json::from(result);
    let wanted = json.member("inputRequests").filter(|wanted| wanted.is_object());
    let state = json.member("requestState").filter(|state| !state.is_null());
    let (mut known, mut inputs, mut declined) = (Vec::new(), Vec::new(), false);
    let mut refused: Option<Box<str>> = None;
    let limit = core.options.limits.server_requests;
    wanted.unwrap_or(Json::EMPTY_ARRAY).members(|key, wanted| {
        if refused.is_some() {
            return;
        }
        if known.len().saturating_add(inputs.len()) >= limit {
            refused = Some(format!("more than {limit} inputs at once").into());
            return;
        }
        let method = wanted.member("method").and_then(Json::as_string).unwrap_or_default();
        let params = wanted.member("params").map(Json::raw);
        match judge(core, &method, params) {
            Verdict::Result(result) => {
                known.push((key.into(), String::from_utf8(result).unwrap_or_default().into()));
            }
            Verdict::Embedder(method) => {
                inputs.push(InputRequest { key: key.into(), method, params: params.map(ToOwned::to_owned) })
            }
            Verdict::Decline | Verdict::Ignore => declined = true,
            Verdict::Refuse(error) => refused = Some(error.message),
        }
    });
    if let Some(why) = refused {
        return Answer::Invalid(format!("the server wants input that it cannot have: {why}").into());
    }
    if declined {
        return Answer::Complete(Outcome::InputRequired(result.to_owned()));
    }
    if known.is_empty() && inputs.is_empty() && state.is_none() {
        return Answer::Invalid("the server wants input, and does not say which".into());
    }
    let answers = known.iter().fold(0, |sum: usize, (key, json): &(Box<str>, Box<str>)| {
        sum.saturating_add(key.len()).saturating_add(json.len())
    });
    let given = state.map_or(0, |state| state.text().len());
    // The responses are stored twice: each one, and as they are sent.
    let bytes = result.get().len().saturating_add(given).saturating_add(answers.saturating_mul(2));
    if core.requests.input_bytes().saturating_sub(freed).saturating_add(bytes) > core.input_room {
        let limit = core.options.limits.input_bytes;
        return Answer::Invalid(format!("the server wants input, and over {limit} bytes of such are kept").into());
    }
    let left = core.requests.time_left(id, core.now);
    let since = core.requests.call_time(core.now);
    let (state, result) = (state.map(|state| state.text().into()), result.to_owned());
    let rounds = InputRounds { rounds, result, state, known, responses: None, bytes, left, since };
    Answer::Input(Box::new(rounds), inputs)
}

pub(super) fn step(core: &mut Core, id: u64, input: Input) {
    step_to(core, id, input, None);
}

fn step_to(core: &mut Core, mut id: u64, input: Input, mut outcome: Option<Outcome>) {
    let Some(open) = core.requests.get(id) else { return };
    let row = take(open.phase, input);
    if row.next != State::Ended {
        core.requests.set_phase(id, row.next);
    }
    for effect in row.effects {
        let outcome = match effect {
            Effect::Requeue => {
                core.requests.requeue(id);
                continue;
            }
            Effect::RequeueAnew => {
                id = core.requests.rename(id);
                core.requests.requeue(id);
                continue;
            }
            Effect::AskInput | Effect::Bar => {
                core.requests.set_time_left(id, core.options.timeouts.server_request, core.now);
                continue;
            }
            Effect::Retract => {
                core.outbox.retract(id);
                continue;
            }
            Effect::Cancel => {
                let why =
                    if input == Input::TimedOut { "no answer in time" } else { "the client cancelled the request" };
                core.send_cancelled(id, why);
                core.requests.expect_late(id);
                continue;
            }
            Effect::EndAnswered | Effect::EndInvalid => outcome.take().unwrap_or(Outcome::Unknown),
            Effect::EndInputRequired => match core.requests.set_input(id, None) {
                Some(rounds) => Outcome::InputRequired(rounds.result),
                None => Outcome::Unknown,
            },
            Effect::EndRefused => match core.requests.call_mut(id).and_then(|call| call.blocked.take()) {
                Some(blocked) => blocked.outcome,
                None => Outcome::Unknown,
            },
            Effect::EndCancelled => Outcome::Cancelled,
            Effect::EndTimedOut => Outcome::TimedOut,
            Effect::EndNotAdvertised => Outcome::NotAdvertised,
            Effect::EndNotSent => match core.requests.call_mut(id).map(|call| resend::take_unsent(call.lost)) {
                Some(Unsent::Unknown) => Outcome::Unknown,
                Some(Unsent::NotSent) | None => Outcome::NotSent,
            },
            Effect::EndUnknown => Outcome::Unknown,
        };
        let ended = core.requests.remove(id);
        if let Some(Purpose::Call(call)) = ended.map(|open| open.purpose) {
            core.event(Event::Finished { request: call.handle, outcome });
        }
    }
}

/// The server refused a request unprocessed: blocks it until what is missing is provided.
pub(super) fn block(core: &mut Core, id: u64, by: Block, outcome: Outcome) -> Signals {
    let left = core.requests.time_left(id, core.now);
    let since = core.requests.call_time(core.now);
    let Some(call) = core.requests.call_mut(id) else { return Signals::NONE };
    call.blocked = Some(Box::new(Blocked { by, outcome, left, since }));
    step(core, id, Input::Refused);
    match by {
        Block::Headers => Signals::one(Signal::SchemasWanted),
        Block::Authorization => Signals::NONE,
    }
}

/// What blocked requests were waiting for is there, or cannot be provided.
pub(super) fn unblock(core: &mut Core, by: Block, input: Input) {
    let call_time = core.requests.call_time(core.now);
    for id in core.requests.calls() {
        let Some(blocked) = core.requests.call_mut(id).and_then(|call| call.blocked.as_ref()) else { continue };
        if blocked.by != by {
            continue;
        }
        let (left, waited) = (blocked.left, call_time.since(blocked.since));
        if input == Input::Admitted {
            core.requests.set_time_left(id, left, core.now);
            if let Some(call) = core.requests.call_mut(id) {
                call.blocked = None;
                call.latest = call.latest + waited;
            }
        }
        step(core, id, input);
    }
}

/// The connection is lost: requests that may run twice are queued again, unsent ones stay queued, the others end.
pub(super) fn on_connection_lost(core: &mut Core) {
    for id in core.requests.calls() {
        let input = if may_resend(core, id) { Input::LostReplayable } else { Input::Lost };
        step(core, id, input);
    }
}

/// The client closes: every request ends.
pub(super) fn end(core: &mut Core) {
    for id in core.requests.calls() {
        step(core, id, Input::Closed);
    }
}

/// Whether a sent request is sent again after its response is lost; counts it.
fn may_resend(core: &mut Core, id: u64) -> bool {
    let replayable = is_replayable(core, id);
    if replayable && let Some(call) = core.requests.call_mut(id) {
        call.lost = call.lost.more();
    }
    replayable
}

/// Whether a request may run twice.
fn is_replayable(core: &Core, id: u64) -> bool {
    let Some(open) = core.requests.get(id).filter(|open| open.phase == State::Sent) else { return false };
    let Purpose::Call(call) = &open.purpose else { return false };
    let http = core.wire == Wire::Http;
    if core.options.reconnect.is_none() && !http {
        return false;
    }
    let allowed = call.request.replay.unwrap_or_else(|| {
        if http && method::only_reads(&call.request.method) {
            return true;
        }
        let params = call.request.params.as_deref().filter(|_| call.request.method == method::TOOLS_CALL);
        let name = params.and_then(|params| Json::from(params).member("name")).and_then(Json::as_string);
        let hints = name.and_then(|name| core.catalog.tool(&name)).map(|tool| tool.hints).unwrap_or_default();
        hints.read_only == Some(true) || hints.idempotent == Some(true)
    });
    allowed && resend::take(Reason::Lost, call.lost) == Resend::Again
}

/// The exchange of a request broke.
pub(super) fn on_exchange_lost(core: &mut Core, id: u64, sent: bool) {
    let input = if !sent {
        Input::NotRun
    } else if may_resend(core, id) {
        Input::LostReplayable
    } else {
        Input::Lost
    };
    step(core, id, input);
}

/// Whether the request was sent again for an expired session before.
pub(super) fn is_expired_again(core: &Core, id: u64) -> bool {
    core.requests.call(id).is_some_and(|call| resend::take(Reason::Expired, call.expired) == Resend::End)
}

/// The request did not run, because its session expired.
pub(super) fn on_expired(core: &mut Core, id: u64) {
    if let Some(call) = core.requests.call_mut(id) {
        call.expired = call.expired.more();
        step(core, id, Input::NotRun);
    }
}

/// The response says that the session expired, but the request may have run. It ends with this response, unless it may
/// run twice.
pub(super) fn on_expired_response(core: &mut Core, id: u64, error: ErrorObject) {
    let replayable = is_replayable(core, id);
    if let Some(call) = core.requests.call_mut(id) {
        if replayable {
            // It is sent again together with the others in flight that may run twice.
            call.expired = call.expired.more();
        } else {
            step_to(core, id, Input::Answered, Some(Outcome::Error(RequestError::Server(error))));
        }
    }
}

/// Whether a request may wait for authorization once more; counts it.
pub(super) fn may_await_authorization(core: &mut Core, id: u64) -> bool {
    let Some(call) = core.requests.call_mut(id) else { return false };
    let again = resend::take(Reason::Unauthorized, call.unauthorized) == Resend::Again;
    call.unauthorized = call.unauthorized.more();
    again
}

/// Whether a call that was refused because of its headers is made again after the tools are listed again; counts it.
pub(super) fn may_renew_headers(core: &mut Core, id: u64) -> bool {
    let Some(call) = core.requests.call_mut(id) else { return false };
    let again = resend::take(Reason::Headers, call.headers_refused) == Resend::Again;
    call.headers_refused = call.headers_refused.more();
    again
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
