//! Steps the table of a request, and applies the effects of the row.

use alloc::string::String;

use super::super::core::Core;
use super::super::request_table::{Block, Call, InputRounds, OpenRequest, Purpose};
use super::super::{Event, Outcome, RequestError, ResendReason};
use super::task_state;
use crate::machine::request::{Effect, Input, State, take};
use crate::machine::resend::{self, Unsent, Used};

pub(in crate::client) fn step(core: &mut Core, id: u64, input: Input) {
    step_to(core, id, input, None, None);
}

/// As [`step`], with the outcome of a request that ends by a response, or the embedder's `reason` to cancel it.
pub(super) fn step_to(core: &mut Core, mut id: u64, input: Input, mut outcome: Option<Outcome>, reason: Option<&str>) {
    let Some(open) = core.requests.get(id) else { return };
    let resent = reason_of(open, input);
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
                report_resend(core, id, resent);
                if let Some(call) = core.requests.call_mut(id) {
                    call.blocked = None;
                }
                id = core.requests.rename(id);
                core.requests.requeue(id);
                continue;
            }
            Effect::CountLoss => {
                if let Some(call) = core.requests.call_mut(id) {
                    call.lost = call.lost.more();
                }
                continue;
            }
            Effect::CountExpiry => {
                if let Some(call) = core.requests.call_mut(id) {
                    call.expired = call.expired.more();
                }
                continue;
            }
            Effect::Block => {
                if let Some(call) = core.requests.call_mut(id) {
                    match call.blocked.as_ref().map(|blocked| blocked.by) {
                        Some(Block::Headers) => call.headers_refused = call.headers_refused.more(),
                        Some(Block::Authorization) => call.unauthorized = call.unauthorized.more(),
                        None => {}
                    }
                }
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
                task_state::abandon(core, id);
                outcome.take().unwrap_or(Outcome::Unknown)
            }
            Effect::EndInputRequired => {
                task_state::abandon(core, id);
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
                task_state::abandon(core, id);
                Outcome::Cancelled
            }
            Effect::EndTimedOut => {
                task_state::abandon(core, id);
                Outcome::TimedOut(core.requests.bound_of(id))
            }
            Effect::EndNotAdvertised => Outcome::NotAdvertised,
            Effect::EndUnsent => match core.requests.call(id).map(|call| resend::take_unsent(losses(call))) {
                Some(Unsent::Unknown) => Outcome::Unknown,
                Some(Unsent::NotSent) | None => Outcome::NotSent,
            },
            Effect::EndUnknown => Outcome::Unknown,
        };
        let ended = core.requests.remove(id);
        if let Some(Purpose::Call(call)) = ended.map(|open| open.purpose) {
            core.event(Event::Finished { request: call.handle, outcome, attempts: call.attempts });
        }
    }
}

/// How often a call was sent again although it may have run. One that runs as a task did.
const fn losses(call: &Call) -> Used {
    if call.task.is_some() { Used::Once } else { call.lost }
}

/// Why an input has a request sent again, if it does.
fn reason_of(open: &OpenRequest, input: Input) -> Option<ResendReason> {
    let is_about_task = matches!(&open.purpose, Purpose::Call(call) if call.task.is_some());
    if is_about_task {
        return None;
    }
    match input {
        Input::Expired | Input::ExpiredReplayable => Some(ResendReason::SessionExpired),
        Input::LostReplayable => Some(ResendReason::Lost),
        Input::NotRun => Some(ResendReason::NotSent),
        Input::Restarted => Some(ResendReason::Busy),
        Input::RetryRequired | Input::InputGiven => Some(ResendReason::Input),
        Input::Admitted => {
            let Purpose::Call(call) = &open.purpose else { return None };
            call.blocked.as_ref().map(|blocked| match blocked.by {
                Block::Headers => ResendReason::Headers,
                Block::Authorization => ResendReason::Authorized,
            })
        }
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
pub(in crate::client) fn report_resend(core: &mut Core, id: u64, reason: Option<ResendReason>) {
    if let (Some(Call { handle, attempts, .. }), Some(reason)) = (core.requests.call(id), reason) {
        let (request, attempt) = (*handle, attempts.saturating_add(1));
        core.event(Event::Resending { request, attempt, reason });
    }
}

/// What was received is not a valid response.
pub(in crate::client) fn on_invalid(core: &mut Core, id: u64, why: String) {
    step_to(core, id, Input::Invalid, Some(Outcome::Error(RequestError::Invalid(why.into()))), None);
}
