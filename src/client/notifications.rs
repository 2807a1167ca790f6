//! Component: notifications: what follows from each, those that are reported to the embedder or held until the client is
//! ready, and the severity of the server's log messages, whose state is in the core.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::{Core, Stage};
use super::outcome::class_of;
use super::request::Purpose;
use super::{CommandError, Event, LogLevel, Output, Progress, RequestError};
use crate::Time;
use crate::jsonrpc::{Json, ResponseId};
use crate::machine::lists::error::Class;
use crate::machine::server::notification::{self, Notification as Kind, Phase, Route};
use crate::machine::{QuirkKind, gate};
use crate::protocol::{Capability, Family, method};

/// Maximum bytes of held notifications.
const HELD_BYTES: usize = 1 << 20;

/// A notification: its method and parameters.
pub(super) type Notification = (Box<str>, Option<Box<RawValue>>);

/// Notifications that are held until the client is ready. They are rare, and held for a short time.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Notifications {
    held: Option<Box<Held>>,
}

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Held {
    bytes: usize,
    notifications: Vec<Notification>,
}

impl Notifications {
    /// Holds a notification until the client is ready.
    pub(super) fn hold(&mut self, core: &mut Core, method: &str, params: Option<&RawValue>) {
        let held = self.held.get_or_insert_default();
        let bytes = held.bytes.saturating_add(size_of(method, params));
        if held.notifications.len() >= core.options.limits.held || bytes > HELD_BYTES {
            return core.leave_out();
        }
        held.bytes = bytes;
        held.notifications.push((method.into(), params.map(ToOwned::to_owned)));
    }

    /// Takes the held notifications, in order.
    pub(super) fn release(&mut self) -> Vec<Notification> {
        self.held.take().map_or(Vec::new(), |held| held.notifications)
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn check(&self, limits: &super::Limits) -> Result<(), crate::snapshot::SnapshotError> {
        let Some(held) = &self.held else { return Ok(()) };
        if held
            .notifications
            .iter()
            .map(|(method, params)| size_of(method, params.as_deref()))
            .fold(0, usize::saturating_add)
            != held.bytes
        {
            return Err(crate::snapshot::invalid("its held notifications are counted wrongly"));
        }
        crate::snapshot::within("held", held.notifications.len(), limits.held)
    }
}

fn size_of(method: &str, params: Option<&RawValue>) -> usize {
    method.len().saturating_add(params.map_or(0, |params| params.get().len()))
}

/// What follows from a notification. `request`: the open request that it is about. `is_foreign`: whether it belongs to
/// another listen stream, or to none where the argument says that none was asked for.
pub(super) fn route(core: &Core, method: &str, request: Option<u64>, is_foreign: impl Fn(bool) -> bool) -> Route {
    let kind = classify(core, method, request);
    let foreign = match kind {
        // A client that does not listen asked for none.
        Kind::ListChanged | Kind::ResourceUpdated => is_foreign(!core.options.listen),
        Kind::CallTask | Kind::BusyTask | Kind::OtherTask => is_foreign(false),
        Kind::Cancelled
        | Kind::StreamCancelled
        | Kind::Progress
        | Kind::ElicitationComplete
        | Kind::Acknowledged
        | Kind::Other => false,
    };
    let phase = match core.stage() {
        Stage::Down | Stage::Opening | Stage::Handshake | Stage::Closing | Stage::Closed => Phase::Handshake,
        Stage::Discovery => Phase::Discovery,
        Stage::Ready | Stage::Unreached => Phase::Ready,
    };
    notification::decide(kind, foreign, phase)
}

fn classify(core: &Core, method: &str, request: Option<u64>) -> Kind {
    match method {
        method::CANCELLED if request.is_some() => Kind::StreamCancelled,
        method::CANCELLED => Kind::Cancelled,
        method::PROGRESS if request.is_some() => Kind::Progress,
        method::ELICITATION_COMPLETE if core.options.capabilities.elicitation_url => Kind::ElicitationComplete,
        method::ACKNOWLEDGED => Kind::Acknowledged,
        method::TOOLS_LIST_CHANGED | method::PROMPTS_LIST_CHANGED | method::RESOURCES_LIST_CHANGED => Kind::ListChanged,
        method::RESOURCE_UPDATED => Kind::ResourceUpdated,
        method::TASKS => match request {
            Some(id) if core.requests.is_task_quiet(id) => Kind::CallTask,
            Some(_) => Kind::BusyTask,
            None => Kind::OtherTask,
        },
        _ => Kind::Other,
    }
}

/// The families whose lists a notification says to have changed.
pub(super) fn families_of_change(method: &str) -> &'static [Family] {
    match method {
        method::TOOLS_LIST_CHANGED => &[Family::Tools],
        method::PROMPTS_LIST_CHANGED => &[Family::Prompts],
        method::RESOURCES_LIST_CHANGED => &[Family::Resources, Family::ResourceTemplates],
        _ => &[],
    }
}

/// The open request that asked for progress and is named by `notifications/progress`.
#[inline]
pub(super) fn id_of_progress(core: &mut Core, params: &RawValue) -> Option<u64> {
    let token = Json::from(params).member("progressToken")?;
    match token.as_integer() {
        Some(token) => core.requests.with_progress(token.try_into().ok()?),
        None => id_of_string(core, token),
    }
}

/// The tokens of the crate are integers. Any other string is a token that the embedder gave.
#[cold]
fn id_of_string(core: &mut Core, token: Json<'_>) -> Option<u64> {
    let ResponseId::Loose(token) = ResponseId::read(Some(token)) else { return None };
    let id = core.requests.with_progress(token)?;
    core.quirk(QuirkKind::IdType, None, Some(method::PROGRESS), "the progress token came back in another type");
    Some(id)
}

/// Takes `notifications/progress` of an open request.
#[inline]
pub(super) fn on_progress(core: &mut Core, about: Option<(u64, &RawValue)>) {
    let interval = core.options.timeouts.progress_interval;
    let due =
        about.and_then(|(id, params)| Some((core.requests.progress(id, core.now, interval, params.get())?, params)));
    match due.filter(|_| !core.is_full()) {
        Some((request, params)) => core.event(Event::Progress { request, progress: Progress::new(params.to_owned()) }),
        None => core.leave_out(),
    }
}

/// Reports a notification to the embedder.
pub(super) fn report(core: &mut Core, method: &str, params: Option<&RawValue>) {
    // A server may send many of these.
    let limited = [method::PROGRESS, method::MESSAGE].into_iter().find(|limited| *limited == method);
    if core.is_full() || limited.is_some() && !core.admits_notification() {
        return core.leave_out();
    }
    let event = match method {
        method::RESOURCE_UPDATED => resource_updated(params),
        method::MESSAGE => log_message(params),
        _ => None,
    };
    let other = || {
        let method = limited.map_or_else(|| Cow::Owned(method.to_owned()), Cow::Borrowed);
        Event::Notification { method, params: params.map(ToOwned::to_owned) }
    };
    core.event(event.unwrap_or_else(other));
}

fn resource_updated(params: Option<&RawValue>) -> Option<Event> {
    let uri = Json::from(params?).member("uri").and_then(Json::as_string)?;
    Some(Event::ResourceUpdated { uri: (&*uri).into() })
}

fn log_message(params: Option<&RawValue>) -> Option<Event> {
    let (mut level, mut logger, mut data) = (None, None, None);
    Json::from(params?).members(|name, value| match name {
        "level" => level = value.as_string().and_then(|level| LogLevel::read(&level)),
        "logger" => logger = value.as_text(),
        "data" => data = Some(value),
        _ => {}
    });
    Some(Event::Log { level: level?, logger: logger.map(|logger| (&*logger).into()), data: data?.to_raw() })
}

/// The embedder sends a notification.
pub(super) fn notify(
    core: &mut Core,
    now: Time,
    method: Cow<'static, str>,
    params: Option<&RawValue>,
) -> Result<(), CommandError> {
    if matches!(&*method, method::INITIALIZED | method::CANCELLED | method::ROOTS_LIST_CHANGED) {
        return Err(CommandError::Reserved { method: (&*method).into() });
    }
    if params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err(CommandError::ParamsNotObject);
    }
    core.check_open()?;
    if !core.is_ready() {
        return Err(CommandError::NotReady);
    }
    if core.is_undelivered_full() {
        return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
    }
    core.advance(now);
    let write = params.map(|params| |out: &mut Vec<u8>| out.extend_from_slice(params.get().as_bytes()));
    let message = core.encode_notification(method, write);
    core.outbox.push(Output::Send(message));
    Ok(())
}

/// The embedder sets the level.
pub(super) fn set_level(core: &mut Core, now: Time, level: LogLevel) -> Result<(), CommandError> {
    core.check_open()?;
    if core.is_ready() && core.missing_capability(method::SET_LEVEL).is_some() {
        return Err(core.not_advertised(method::SET_LEVEL, Capability::Logging.as_str()));
    }
    if core.is_outbox_full() {
        return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
    }
    core.advance(now);
    core.log_level = Some(level);
    send_level(core);
    Ok(())
}

/// Tells the server the level, where it has to be told.
pub(super) fn send_level(core: &mut Core) {
    let declared = core.server.as_ref().and_then(|server| server.has(Capability::Logging));
    let supported = core.gate_capability(gate::Use::SetLevel, declared);
    if core.sends_settings() && supported && core.log_level.is_some() && !core.requests.is_level_queued() {
        let deadline = core.request_deadline();
        core.requests.insert(Purpose::SetLevel, Some(deadline));
    }
}

/// The server did not set the level.
pub(super) fn on_level_failed(core: &mut Core, error: RequestError) {
    let by_text = core.options.tolerance.absent_by_text;
    let kind = match error.server().map_or(Class::Other, |error| class_of(error, by_text)) {
        Class::MethodNotFound => Some(QuirkKind::MethodNotFound),
        Class::SaysNotFound => Some(QuirkKind::MethodNotFoundText),
        Class::Other => None,
    };
    if let Some(kind) = kind {
        let detail = format!("declared, but answered with {error}; the level is not set");
        core.quirk(kind, None, Some(method::SET_LEVEL), detail);
    }
    core.event(Event::LogLevelFailed { error });
}
