//! Calls that the server runs as tasks. A request about the task takes the place of the call: it has the call's handle
//! and deadline, and a new id on the wire.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::super::core::{Core, Signal, Signals};
use super::super::request::{CallTask, InputRounds, Purpose};
use super::super::{Event, InputRequest, Outcome, RequestError, Task, TaskError, TaskStatus, result_type};
use super::{Class, ask, on_invalid, set_input, step, step_to, task_round};
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
    if let Some(id) = id.filter(|id| (1..=LONGEST_ID).contains(&id.len()) && core.requests.with_task(id).is_none()) {
        core.cancel_task(&id);
    }
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
            core.cancel_task(&task);
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
pub(super) fn on_response(core: &mut Core, id: u64, response: Result<&RawValue, RequestError>) {
    let state = core.requests.call(id).and_then(|call| call.task.as_ref()).map(|task| task.state);
    let Some(state) = state else { return };
    let change = match (response, state) {
        (Err(error), _) => Change::with(Input::Refused, Outcome::Error(error)),
        (Ok(_), State::Updating) => Change::of(Input::Updated),
        (Ok(result), State::Fetching) => Change::with(Input::Fetched, Outcome::Result(result.to_owned())),
        (Ok(result), State::Created | State::Working | State::Done | State::Asking | State::Over) => {
            read_status(core, id, result)
        }
    };
    apply(core, id, change);
}

/// The call that runs as the task that `notifications/tasks` is about.
pub(in crate::client) fn id_of_call(core: &Core, params: &RawValue) -> Option<u64> {
    let task = Json::from(params).member("taskId").and_then(Json::as_string);
    task.and_then(|task| core.requests.with_task(&task))
}

/// Takes `notifications/tasks` about a call, while no request about the task is on its way.
pub(in crate::client) fn on_notification(core: &mut Core, id: u64, params: &RawValue) {
    let change = read_status(core, id, params);
    apply(core, id, change);
}

/// A task is to be polled.
pub(in crate::client) fn on_due(core: &mut Core, id: u64) {
    apply(core, id, Change::of(Input::Due));
}

/// Takes the response to the poll of a task whose input the embedder is asked for; `None` if there is none.
pub(in crate::client) fn on_polled(core: &mut Core, task: &str, response: Option<Result<&RawValue, RequestError>>) {
    let Some(id) = core.requests.with_task(task) else { return };
    match response {
        // The input was given meanwhile: what follows it tells the same.
        _ if !is_asked(core, id) => {}
        Some(response) => on_response(core, id, response),
        None => on_lost(core, id, Input::Broken),
    }
}

/// Whether the embedder is asked for the input of the call's task.
pub(super) fn is_asked(core: &Core, id: u64) -> bool {
    let task = core.requests.call(id).and_then(|call| call.task.as_ref());
    task.is_some_and(|task| task.state == State::Asking)
}

/// A request about a task is lost.
pub(super) fn on_lost(core: &mut Core, id: u64, input: Input) {
    apply(core, id, Change::of(input));
}

/// Reads the server's report on a task.
fn read_status(core: &Core, id: u64, result: &RawValue) -> Change {
    let Some(task) = core.requests.call(id).and_then(|call| call.task.as_ref()) else {
        return Change::of(Input::Working);
    };
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
            let error = match json.member("error").filter(|error| error.is_object()).map(ErrorObject::read) {
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
    if let Some(task) = core.requests.call_mut(id).and_then(|call| call.task.as_mut()) {
        task.key_bytes = keys.iter().fold(task.key_bytes, |sum, key| sum.saturating_add(key.len()));
        task.keys.extend(keys);
    }
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
    let default = core.options.timeouts.task_poll;
    let full = core.is_full();
    let Some(call) = core.requests.call_mut(id) else { return };
    let Some(task) = &mut call.task else { return };
    task.interval = report.poll_interval().unwrap_or(default).max(SHORTEST_POLL);
    let now = Some((status, report.message().as_deref().map(excerpt).map(Box::from)));
    // That a task ended is the end of the call.
    let is_news = match (&task.reported_status, status) {
        (None, _) => true,
        (Some(_), TaskStatus::Working | TaskStatus::InputRequired) => task.reported_status != now,
        (Some(_), TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled) => false,
    };
    if is_news {
        task.reported_status = now;
        let (request, task) = (call.handle, report);
        if full { core.leave_out() } else { core.event(Event::Task { request, task }) }
    }
}

fn apply(core: &mut Core, id: u64, change: Change) {
    let Change { report, input, mut outcome, mut round } = change;
    if let Some((status, report)) = report {
        report_status(core, id, status, report);
    }
    for effect in move_on(core, id, input) {
        match effect {
            Effect::Wait => wait(core, id),
            Effect::Poll | Effect::Fetch => step(core, id, request::Input::TaskSends),
            Effect::PollAsking if core.is_ready() => {
                let task = core.requests.call(id).and_then(|call| call.task.as_ref()).map(|task| task.id.clone());
                let deadline = core.request_deadline();
                if let Some(task) = task {
                    core.requests.insert(Purpose::PollTask(task), Some(deadline));
                }
            }
            Effect::PollAsking => wait(core, id),
            Effect::Update => {
                if let Some(round) = round.take() {
                    begin(core, id, round);
                }
                step(core, id, request::Input::TaskSends);
            }
            Effect::Ask => {
                if let Some(round) = round.take() {
                    let inputs = begin(core, id, round);
                    ask(core, id, inputs);
                }
            }
            Effect::Cancel => cancel(core, id),
            Effect::End => step_to(core, id, request::Input::Answered, outcome.take(), None),
            Effect::EndInvalid => step_to(core, id, request::Input::Invalid, outcome.take(), None),
            Effect::EndReopened => {
                let error = RequestError::Task(TaskError::Reopened);
                step_to(core, id, request::Input::Invalid, Some(Outcome::Error(error)), None);
            }
        }
    }
}

/// The task is polled after its interval.
fn wait(core: &mut Core, id: u64) {
    let interval = core.requests.call(id).and_then(|call| call.task.as_ref()).map(|task| task.interval);
    let at = core.after(interval.unwrap_or(SHORTEST_POLL));
    core.requests.change_task(id, |task| {
        if let Some(task) = task {
            task.poll_at = Some(at);
        }
    });
    step(core, id, request::Input::TaskRuns);
}

/// Steps the table of the task.
pub(super) fn move_on(core: &mut Core, id: u64, input: Input) -> &'static [Effect] {
    let mut effects: &'static [Effect] = &[];
    core.requests.change_task(id, |task| {
        if let Some(task) = task {
            let row = task::step(task.state, input);
            (task.state, effects) = (row.next, row.effects);
            task.poll_at = if row.effects.is_empty() { task.poll_at } else { None };
        }
    });
    effects
}

/// The call ends without the server.
pub(super) fn abandon(core: &mut Core, id: u64) {
    if move_on(core, id, Input::Abandoned).contains(&Effect::Cancel) {
        cancel(core, id);
    }
}

/// Cancels the task.
pub(super) fn cancel(core: &mut Core, id: u64) {
    let task = core.requests.call(id).and_then(|call| call.task.as_ref()).map(|task| task.id.clone());
    if let Some(task) = task {
        core.cancel_task(&task);
    }
}
