//! Calls that the server runs as tasks. A request about the task takes the place of the call: it has the call's handle
//! and deadline, and a new id on the wire.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::super::core::{Core, Signal, Signals};
use super::super::request::{CallTask, InputRounds, Purpose};
use super::super::{Event, InputRequest, Outcome, RequestError, Task, TaskError, TaskStatus, result_type};
use super::{Class, With, ask, on_invalid, set_input, step, step_to, task_round};
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::request;
use crate::machine::server::result::Content;
use crate::machine::task::{self, Effect, Input, State};
use crate::text::excerpt;

/// The shortest wait between two polls.
const SHORTEST_POLL: Duration = Duration::from_millis(100);

/// Maximum bytes of a task's id.
pub(super) const LONGEST_ID: usize = 1024;

/// What a task's state becomes by a report of the server, and what goes with it.
struct Change {
    /// The status and the report, for the embedder.
    report: Option<(TaskStatus, Task)>,
    input: Input,
    outcome: Option<Outcome>,
    round: Option<Round>,
}

/// The input that a task requires and that was not required before.
struct Round {
    rounds: Box<InputRounds>,
    wanted: Vec<InputRequest>,
    keys: Vec<Box<str>>,
}

impl Change {
    const fn of(input: Input) -> Self {
        Self { report: None, input, outcome: None, round: None }
    }

    const fn with(input: Input, outcome: Outcome) -> Self {
        Self { report: None, input, outcome: Some(outcome), round: None }
    }

    fn invalid(why: impl Into<Box<str>>) -> Self {
        Self::with(Input::Invalid, Outcome::Error(RequestError::Invalid(why.into())))
    }
}

/// The description of a task in a result that creates one.
pub(super) fn described<'a>(core: &Core, result: Json<'a>) -> Json<'a> {
    if core.is_modern() { result } else { result.member("task").unwrap_or(result) }
}

/// The late response to a cancelled call may be the first to name its task, which is then cancelled.
pub(in crate::client) fn on_late(core: &mut Core, result: &RawValue) {
    let result = Json::from(result);
    let id = match result_type::of_call(core, result, true) {
        Content::Task => described(core, result).member("taskId").and_then(Json::as_string),
        Content::Complete | Content::Input | Content::Invalid => None,
    };
    // A late status of a task that is followed is no reason to cancel it.
    let id = id.filter(|id| (1..=LONGEST_ID).contains(&id.len()) && core.requests.with_task(id).is_none());
    core.cancel_task(id.as_deref());
}

/// The server runs the call as a task.
pub(super) fn on_created(core: &mut Core, id: u64, json: Json<'_>) -> Signals {
    let task = json.member("taskId").and_then(Json::as_string).filter(|id| !id.is_empty());
    let why = match &task {
        None => Some("the server created a task without an id"),
        Some(task) if task.len() > LONGEST_ID => Some("the server created a task with an id of over 1,024 bytes"),
        Some(task) if core.requests.with_task(task).is_some() => {
            Some("the server created a task with the id of another one")
        }
        Some(_) => None,
    };
    let task = task.unwrap_or_default();
    let report = Task::new(json.to_raw());
    let status = match (why, report.status()) {
        (Some(why), _) => {
            on_invalid(core, id, why.into());
            return Signals::NONE;
        }
        (None, None) => {
            on_invalid(core, id, "the server created a task without a known status".into());
            core.cancel_task(Some(&task));
            return Signals::NONE;
        }
        (None, Some(status)) => status,
    };
    core.requests.change_task(id, |it| {
        *it = Some(Box::new(CallTask::new((*task).into(), State::Created, id)));
    });
    report_status(core, id, status, report);
    let input = match status {
        TaskStatus::Working => Input::Working,
        // In 2025-11-25, a request has the outcome.
        _ if !core.is_modern() => Input::ResultWaits,
        TaskStatus::InputRequired => Input::InputPending,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => Input::EndedWithoutOutcome,
    };
    apply(core, id, Change::of(input));
    Signals::one(Signal::TaskCreated)
}

/// Takes the response to a request about a task.
pub(super) fn on_response(core: &mut Core, id: u64, response: Result<Cow<'_, RawValue>, RequestError>) {
    take(core, Some((id, response)), read_response);
}

/// Takes what a message says of the task of a call, if the call is open.
fn take<T>(core: &mut Core, message: Option<(u64, T)>, read: impl FnOnce(&Core, u64, &CallTask, T) -> Change) {
    let change = message.and_then(|(id, says)| Some((id, read(core, id, core.requests.task(id)?, says))));
    if let Some((id, change)) = change {
        apply(core, id, change);
    }
}

/// Reads the response to a request about a task.
fn read_response(core: &Core, id: u64, task: &CallTask, response: Result<Cow<'_, RawValue>, RequestError>) -> Change {
    match (response, task.state) {
        (Err(error), _) => Change::with(Input::Refused, Outcome::Error(error)),
        (Ok(_), State::Updating) => Change::of(Input::Updated),
        (Ok(result), State::Fetching) => Change::with(Input::Fetched, Outcome::Result(result.into_owned())),
        (Ok(result), State::Created | State::Working | State::Done | State::Asking | State::Over) => {
            read_status(core, id, task, &result)
        }
    }
}

/// The call that runs as the task that `notifications/tasks` is about.
pub(in crate::client) fn id_of_call(core: &Core, params: &RawValue) -> Option<u64> {
    let task = Json::from(params).member("taskId").and_then(Json::as_string);
    task.and_then(|task| core.requests.with_task(&task))
}

/// Takes `notifications/tasks` about a call, while no request about the task is on its way.
pub(in crate::client) fn on_notification(core: &mut Core, about: Option<(u64, &RawValue)>) {
    take(core, about, read_status);
}

/// A task is to be polled.
pub(in crate::client) fn on_due(core: &mut Core, id: u64) {
    apply(core, id, Change::of(Input::Due));
}

/// Takes the response to the poll of a task whose input the embedder is asked for; `None` if there is none.
pub(in crate::client) fn on_polled(core: &mut Core, task: &str, response: Option<Result<&RawValue, RequestError>>) {
    // The input may have been given meanwhile: what follows it tells the same. Or the call has ended.
    let id = core.requests.with_task(task).filter(|id| is_asked(core, *id));
    take(core, id.map(|id| (id, response)), |core, id, task, response| {
        response
            .map_or(Change::of(Input::Broken), |response| read_response(core, id, task, response.map(Cow::Borrowed)))
    });
}

/// Whether the embedder is asked for the input of the call's task.
pub(super) fn is_asked(core: &Core, id: u64) -> bool {
    core.requests.task(id).is_some_and(|task| task.state == State::Asking)
}

/// A request about a task is lost.
pub(super) fn on_lost(core: &mut Core, id: u64) {
    apply(core, id, Change::of(Input::Broken));
}

/// Reads the server's report on a task.
fn read_status(core: &Core, id: u64, task: &CallTask, result: &RawValue) -> Change {
    let json = Json::from(result);
    match result_type::of_task_status(core, json) {
        Content::Complete => {}
        Content::Input | Content::Task | Content::Invalid => {
            return Change::invalid("the status of a task has an unknown result type");
        }
    }
    let other = json.member("taskId").is_some_and(|named| named.as_string().as_deref() != Some(&*task.id));
    if other {
        return Change::with(Input::Invalid, Outcome::Error(RequestError::Task(TaskError::OtherTask)));
    }
    let report = Task::new(json.to_raw());
    let Some(status) = report.status() else {
        return Change::invalid("the server sent a task without a known status");
    };
    let message = || report.message().as_deref().map(excerpt).unwrap_or_default().into();
    let change = match status {
        TaskStatus::Working => Change::of(Input::Working),
        _ if !core.is_modern() => Change::of(Input::ResultWaits),
        TaskStatus::InputRequired => read_inputs(core, id, task, result),
        TaskStatus::Completed => match json.member("result").filter(|result| result.is_object()) {
            Some(result) => Change::with(Input::Outcome, Outcome::Result(result.to_raw())),
            None => Change::invalid("the task is completed, and has no result"),
        },
        TaskStatus::Failed => {
            let error =
                match json.member("error").filter(|error| error.is_object()).map(|error| ErrorObject::read(error).0) {
                    Some(error) => RequestError::Server(error),
                    None => RequestError::Task(TaskError::Failed { message: message() }),
                };
            Change::with(Input::Outcome, Outcome::Error(error))
        }
        TaskStatus::Cancelled => {
            let error = RequestError::Task(TaskError::Cancelled { message: message() });
            Change::with(Input::Outcome, Outcome::Error(error))
        }
    };
    Change { report: Some((status, report)), ..change }
}

/// Reads the inputs that a task requires and that were not required before.
fn read_inputs(core: &Core, id: u64, task: &CallTask, result: &RawValue) -> Change {
    // While the embedder is asked, further inputs are read after the response.
    if matches!(task.state, State::Done | State::Asking) {
        return Change::of(Input::InputPending);
    }
    let inputs = super::read_inputs(core, result, &task.keys);
    let class = inputs.class();
    match class {
        Class::None => Change::of(Input::InputPending),
        Class::Declined | Class::Refused => Change::with(Input::Invalid, inputs.outcome(result)),
        Class::Known | Class::Wanted => {
            let input = if class == Class::Known { Input::InputKnown } else { Input::InputWanted };
            let keys: Vec<Box<str>> = inputs.keys().map(Box::from).collect();
            let key_bytes = keys.iter().fold(task.key_bytes, |sum, key| sum.saturating_add(key.len()));
            let asked = if task.keys.is_empty() { result.to_owned() } else { without(result, &task.keys) };
            match task_round(core, id, asked, inputs, key_bytes) {
                Err(why) => Change::invalid(why),
                Ok((rounds, wanted)) => Change { round: Some(Round { rounds, wanted, keys }), ..Change::of(input) },
            }
        }
    }
}

/// Begins a round of input. Returns the inputs for the embedder; without any, the responses are complete.
fn begin(core: &mut Core, id: u64, round: Round) -> Vec<InputRequest> {
    let Round { rounds, wanted, keys } = round;
    core.requests.update(id, |call| {
        call.task.as_mut().map(|task| {
            task.key_bytes = keys.iter().fold(task.key_bytes, |sum, key| sum.saturating_add(key.len()));
            task.keys.extend(keys);
        })
    });
    set_input(core, id, rounds, &wanted);
    wanted
}

/// A result with those of its inputs that were not required before.
fn without(result: &RawValue, keys: &BTreeSet<Box<str>>) -> Box<RawValue> {
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    object.object("inputRequests", |inputs| {
        Json::from(result).member("inputRequests").unwrap_or(Json::EMPTY_ARRAY).members(|key, input| {
            if !keys.contains(key) {
                inputs.raw(key, input.text());
            }
        });
    });
    object.end();
    Json::trusted(&String::from_utf8(json).unwrap_or_default()).to_raw()
}

/// Reports a change of the task to the embedder.
fn report_status(core: &mut Core, id: u64, status: TaskStatus, report: Task) {
    let interval = report.poll_interval().unwrap_or(core.options.timeouts.task_poll).max(SHORTEST_POLL);
    let now = Some((status, report.message().as_deref().map(excerpt).map(Box::from)));
    let news = core.requests.update(id, |call| {
        let task = call.task.as_mut()?;
        task.interval = interval;
        // That a task ended is the end of the call.
        let is_news = match (&task.reported_status, status) {
            (None, _) => true,
            (Some(_), TaskStatus::Working | TaskStatus::InputRequired) => task.reported_status != now,
            (Some(_), TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled) => false,
        };
        if is_news {
            task.reported_status = now;
        }
        is_news.then_some(call.handle)
    });
    match news.flatten() {
        Some(request) if !core.is_full() => core.event(Event::Task { request, task: report }),
        Some(_) => core.leave_out(),
        None => {}
    }
}

fn apply(core: &mut Core, id: u64, change: Change) {
    let Change { report, input, mut outcome, mut round } = change;
    let with = |outcome: Option<Outcome>| outcome.map_or(With::Nothing, With::Outcome);
    if let Some((status, report)) = report {
        report_status(core, id, status, report);
    }
    for effect in move_on(core, id, input) {
        match effect {
            Effect::Wait => wait(core, id),
            Effect::Poll | Effect::Fetch => step(core, id, request::Input::TaskSends),
            Effect::PollAsking if core.is_ready() => {
                let poll = core.requests.task(id).map(|task| Purpose::PollTask(task.id.clone()));
                let deadline = core.request_deadline();
                poll.map(|poll| core.requests.insert(poll, Some(deadline)));
            }
            Effect::PollAsking => wait(core, id),
            Effect::Update => {
                round.take().map(|round| begin(core, id, round));
                step(core, id, request::Input::TaskSends);
            }
            Effect::Ask => {
                let inputs = round.take().map(|round| begin(core, id, round));
                ask(core, id, inputs.unwrap_or_default());
            }
            Effect::Cancel => cancel(core, id),
            Effect::End => step_to(core, id, request::Input::Answered, with(outcome.take())),
            Effect::EndInvalid => step_to(core, id, request::Input::Invalid, with(outcome.take())),
            Effect::EndReopened => {
                let error = RequestError::Task(TaskError::Reopened);
                step_to(core, id, request::Input::Invalid, With::Outcome(Outcome::Error(error)));
            }
        }
    }
}

/// The task is polled after its interval.
fn wait(core: &mut Core, id: u64) {
    let interval = core.requests.task(id).map_or(SHORTEST_POLL, |task| task.interval);
    let at = core.after(interval);
    core.requests.change_task(id, |task| task.as_mut().map(|task| task.poll_at = Some(at)));
    step(core, id, request::Input::TaskRuns);
}

/// Steps the table of the task.
pub(super) fn move_on(core: &mut Core, id: u64, input: Input) -> &'static [Effect] {
    let effects = core.requests.change_task(id, |task| {
        let task = task.as_mut()?;
        let row = task::step(task.state, input);
        task.state = row.next;
        task.poll_at = task.poll_at.filter(|_| row.effects.is_empty() && input != Input::Due);
        Some(row.effects)
    });
    effects.flatten().unwrap_or_default()
}

/// The call ends without the server.
pub(super) fn abandon(core: &mut Core, id: u64) {
    if move_on(core, id, Input::Abandoned).contains(&Effect::Cancel) {
        cancel(core, id);
    }
}

/// Cancels the task.
pub(super) fn cancel(core: &mut Core, id: u64) {
    let task = core.requests.task(id).map(|task| task.id.clone());
    core.cancel_task(task.as_deref());
}
