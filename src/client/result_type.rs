//! What results are, by their types.

use alloc::borrow::Cow;
use alloc::format;
use serde_json::value::RawValue;

use super::RequestError;
use super::core::Core;
use super::request::Purpose;
use crate::jsonrpc::Json;
use crate::machine::server::result::{Content, Request, Type, decide};
use crate::protocol::Era;
use crate::text::excerpt;

/// Classifies the value of `resultType`. `tasks`: whether the result may be a task.
fn classify(core: &Core, kind: &str, tasks: bool) -> Type {
    match kind {
        "complete" => Type::Complete,
        "input_required" => Type::InputRequired,
        "task" if tasks => Type::Task,
        _ if core.options.capabilities.defines_result(kind) => Type::Extension,
        _ => Type::Unknown,
    }
}

/// Classifies the type of a modern result. `tasks`: whether the result may be a task.
fn classify_modern(core: &Core, result: Json<'_>, tasks: bool) -> Type {
    classify_member(core, result.member("resultType"), tasks)
}

/// As [`classify_modern`], by the member `resultType`.
fn classify_member(core: &Core, kind: Option<Json<'_>>, tasks: bool) -> Type {
    match kind.map(Json::as_string) {
        None => Type::Absent,
        Some(None) => Type::Unknown,
        Some(Some(kind)) => classify(core, &kind, tasks),
    }
}

/// What the result of a request of the embedder is. `tool`: whether it is a call of a tool, which may run as a task.
pub(super) fn of_call(core: &Core, result: Json<'_>, tool: bool) -> Content {
    let tasks = tool && core.options.capabilities.tasks;
    let era = core.era().unwrap_or(Era::Legacy);
    let kind = match era {
        Era::Modern => classify_modern(core, result, tasks),
        Era::Legacy if tasks && is_legacy_task(core, result) => Type::Task,
        Era::Legacy => Type::Absent,
    };
    decide(era, Request::Call, kind)
}

/// Whether the result of a call in 2025-11-25 describes a task.
fn is_legacy_task(core: &Core, result: Json<'_>) -> bool {
    core.has_legacy_tasks()
        && result.member("content").is_none()
        && result.member("task").is_some_and(|task| task.is_object())
}

/// What the result of a request for a task's status is.
pub(super) fn of_task_status(core: &Core, result: Json<'_>) -> Content {
    let era = core.era().unwrap_or(Era::Legacy);
    let kind = match era {
        Era::Modern => classify_modern(core, result, true),
        Era::Legacy => Type::Absent,
    };
    decide(era, Request::TaskStatus, kind)
}

/// What the result of a request for a list is, by its member `resultType`.
pub(super) fn of_page(core: &Core, kind: Option<Json<'_>>) -> Content {
    decide(core.era().unwrap_or(Era::Legacy), Request::Engine, classify_member(core, kind, false))
}

/// The whole result of a request of the engine. Pages of lists, and the status of a task, are checked where they are read.
pub(super) fn complete<'a>(core: &Core, purpose: &Purpose, result: &'a RawValue) -> Result<&'a RawValue, RequestError> {
    let era = match purpose {
        Purpose::Discover(_) | Purpose::Rediscover => Era::Modern,
        Purpose::Keepalive(_) | Purpose::Listen { .. } | Purpose::CancelTask(_) => core.era().unwrap_or(Era::Legacy),
        Purpose::Initialize(_) | Purpose::SetLevel | Purpose::Subscribe(_) | Purpose::Unsubscribe(_) => Era::Legacy,
        Purpose::List { .. } | Purpose::PollTask(_) | Purpose::Call(_) => return Ok(result),
    };
    let json = Json::from(result);
    let kind = match era {
        Era::Modern => classify_modern(core, json, false),
        Era::Legacy => Type::Absent,
    };
    match decide(era, Request::Engine, kind) {
        Content::Complete => Ok(result),
        Content::Input | Content::Task | Content::Invalid => {
            Err(RequestError::Invalid(format!("a result of the unknown type {}", type_of(json)).into()))
        }
    }
}

/// The type of a result, for messages.
pub(super) fn type_of(result: Json<'_>) -> Cow<'_, str> {
    result.member("resultType").map(|kind| excerpt(kind.text())).unwrap_or_default()
}
