//! Requests of the embedder: what their responses mean, and whether they are sent again. Their state is in the request
//! table.

mod classified;
mod input;
mod provide;
mod step;
mod task;
mod task_state;
mod urls;

pub(super) use self::input::Judge;
pub(super) use self::provide::provide;
pub(super) use self::step::{on_invalid, report_resend, step};
pub(super) use self::task::{id_of_call, on_due, on_late, on_notification};

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use serde_json::value::RawValue;

use self::classified::Classified;
use self::step::step_to;
use super::core::Core;
use super::request_table::{Block, Blocked};
use super::signal::{Signal, Signals};
use super::{CommandError, Event, InputRequest, Outcome, Request, RequestError, RequestId, Wire, result_type};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::replay::{self, About, Broke, Carrier, Effects, Lost, Sent, Word};
use crate::machine::request::Input;
use crate::machine::resend::{self, Reason, Resend};
use crate::machine::result_type::Meaning;
use crate::protocol::method;
use crate::text::excerpt;

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
pub(super) fn cancel(core: &mut Core, now: Time, request: RequestId, why: Option<&str>) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    core.advance(now);
    step_to(core, id, Input::Cancelled, None, why);
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
pub(super) fn on_response(
    core: &mut Core,
    id: u64,
    response: Result<&RawValue, RequestError>,
    judge: &Judge<'_>,
) -> Signals {
    if core.requests.runs_as_task(id) {
        return task::on_response(core, id, response, judge);
    }
    let answer = match response {
        Ok(result) => classify(core, id, result, judge),
        Err(error) => input::classify_error(core, id, error, judge),
    };
    match answer {
        Classified::Complete(outcome) => step_to(core, id, Input::Answered, Some(outcome), None),
        Classified::Invalid(why) => {
            step_to(core, id, Input::Invalid, Some(Outcome::Error(RequestError::Invalid(why))), None)
        }
        Classified::Input(rounds, inputs) => {
            let signals = match rounds.error.is_some() {
                true => on_urls_required(core, id, &inputs),
                false => Signals::sampling(input::sampling_of(&inputs)),
            };
            input::set(core, id, rounds, &inputs);
            if let Some(request) = core.handle_of(id) {
                step(core, id, Input::InputRequired);
                core.event(Event::InputRequired { request, inputs });
            }
            return signals;
        }
        Classified::Retry(rounds) => {
            input::set(core, id, rounds, &[]);
            step(core, id, Input::RetryRequired);
        }
        Classified::Task(task) => return task::on_created(core, id, task),
    }
    Signals::NONE
}

/// An error requires the user to visit these URLs, which is offered once.
fn on_urls_required(core: &mut Core, id: u64, inputs: &[InputRequest]) -> Signals {
    if let Some(call) = core.requests.call_mut(id) {
        call.urls = call.urls.more();
    }
    let ids = inputs.iter().map(|input| input.key.clone()).collect();
    Signals::one(Signal::Elicitations { ids, request: core.handle_of(id) })
}

fn classify<'a>(core: &Core, id: u64, result: &'a RawValue, judge: &Judge<'_>) -> Classified<'a> {
    let json = Json::from(result);
    let tool = core.requests.get(id).is_some_and(|open| open.purpose.is_tool_call());
    match result_type::of_call(core, json, tool) {
        Meaning::Complete => Classified::Complete(Outcome::Result(result.to_owned())),
        Meaning::Input => input::classify(core, id, result, judge),
        Meaning::Task => Classified::Task(task::described(core, json)),
        Meaning::Invalid => {
            Classified::Invalid(format!("a result of the unknown type {}", result_type::words(json)).into())
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

/// The requests that wait for authorization end, for this reason.
pub(super) fn deny(core: &mut Core, why: &str) {
    for id in core.requests.calls() {
        if let Some(blocked) = core.requests.call_mut(id).and_then(|call| call.blocked.as_mut())
            && blocked.by == Block::Authorization
            && let Outcome::Error(RequestError::Status { message, .. }) = &mut blocked.outcome
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
    let call_time = core.requests.call_time(core.now);
    let blocked = core.requests.call(id).and_then(|call| call.blocked.as_ref());
    let Some(blocked) = blocked.filter(|blocked| blocked.by == by) else { return };
    let (left, waited) = (blocked.left, call_time.since(blocked.since));
    if input == Input::Admitted {
        core.requests.set_time_left(id, left, core.now);
        if let Some(call) = core.requests.call_mut(id) {
            call.latest = call.latest + waited;
        }
    }
    step(core, id, input);
}

/// The connection is lost: requests that may run twice are queued again, unsent ones stay queued, the others end.
pub(super) fn on_connection_lost(core: &mut Core) {
    for id in core.requests.calls() {
        // What was not sent did not run.
        let sent = core.is_sent(id);
        on_lost(core, id, Broke::Connection, sent);
    }
}

/// The client closes: every request ends.
pub(super) fn end(core: &mut Core) {
    for id in core.requests.calls() {
        step(core, id, Input::Closed);
    }
}

/// The response to a request is lost. `sent`: the request may have reached the server.
fn on_lost(core: &mut Core, id: u64, broke: Broke, sent: bool) {
    let about = if core.requests.runs_as_task(id) { About::Task } else { About::Call };
    // Whether a call may run twice matters only if it was sent.
    let (sent, twice) = match (sent, about) {
        (false, _) => (Sent::No, Resend::End),
        (true, About::Task) => (Sent::Yes, Resend::End),
        (true, About::Call) => (Sent::Yes, decide_replay(core, id)),
    };
    match replay::take_lost(broke, sent, about, twice) {
        Lost::Request(input) => step(core, id, input),
        Lost::Task(input) => task::on_lost(core, id, input),
    }
}

/// Whether a sent request may run twice.
fn decide_replay(core: &Core, id: u64) -> Resend {
    let Some(call) = core.requests.call(id) else { return Resend::End };
    let carrier = match core.wire {
        Wire::Http => Carrier::Http,
        Wire::Pipe if core.options.reconnect.is_some() => Carrier::Pipe,
        Wire::Pipe => Carrier::LastPipe,
    };
    let replay = if call.task.is_some() { Some(true) } else { call.request.replay };
    let word = match replay {
        Some(true) => Word::Allowed,
        Some(false) => Word::Forbidden,
        None => Word::Unsaid,
    };
    // The parameters are read only if they matter.
    let effects = if word == Word::Unsaid { effects_of(core, &call.request) } else { Effects::Unknown };
    replay::take(carrier, word, effects, core.trust(), resend::take(Reason::Lost, call.lost))
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

/// The exchange of a request broke. `sent`: the request may have reached the server.
pub(super) fn on_exchange_lost(core: &mut Core, id: u64, sent: bool) {
    on_lost(core, id, Broke::Exchange, sent);
}

/// Whether the request was sent again for an expired session before.
pub(super) fn is_expired_again(core: &Core, id: u64) -> bool {
    core.requests.call(id).is_some_and(|call| resend::take(Reason::Expired, call.expired) == Resend::End)
}

/// The request did not run, because its session expired.
pub(super) fn on_expired(core: &mut Core, id: u64) {
    if core.requests.call(id).is_some() {
        step(core, id, Input::Expired);
    }
}

/// The response says that the session expired, but the request may have run. It ends with this response, unless it may
/// run twice.
pub(super) fn on_expired_response(core: &mut Core, id: u64, error: ErrorObject) {
    match decide_replay(core, id) {
        Resend::Again => step(core, id, Input::ExpiredReplayable),
        Resend::End => step_to(core, id, Input::Answered, Some(Outcome::Error(RequestError::Server(error))), None),
    }
}

/// Whether a call may be blocked once more by what it lacks.
pub(super) fn decide_block(core: &Core, id: u64, by: Block) -> Resend {
    core.requests.call(id).map_or(Resend::End, |call| match by {
        Block::Authorization => resend::take(Reason::Unauthorized, call.unauthorized),
        Block::Headers => resend::take(Reason::Headers, call.headers_refused),
    })
}
