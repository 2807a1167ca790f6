//! Component: notifications that are reported to the embedder, and those held until the client is ready.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::Core;
use super::{Event, LogLevel, Progress};
use crate::jsonrpc::Json;
use crate::protocol::method;

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

    /// The connection ended.
    pub(super) fn drop_held(&mut self) {
        self.held = None;
    }
}

fn size_of(method: &str, params: Option<&RawValue>) -> usize {
    method.len().saturating_add(params.map_or(0, |params| params.get().len()))
}

/// The open request that asked for progress and is named by `notifications/progress`.
#[inline]
pub(super) fn id_of_progress(core: &Core, params: &RawValue) -> Option<u64> {
    let token = Json::from(params).member("progressToken")?;
    core.requests.with_progress(token.text().trim_matches('"').parse().ok()?)
}

/// Takes `notifications/progress` of an open request.
#[inline]
pub(super) fn on_progress(core: &mut Core, id: u64, params: &RawValue) {
    let interval = core.options.timeouts.progress_interval;
    let Some((request, due)) = core.requests.progress(id, core.now, interval) else { return };
    if due && !core.is_full() {
        core.event(Event::Progress { request, progress: Progress::new(params.to_owned()) });
    } else {
        core.leave_out();
    }
}

/// Reports a notification to the embedder.
pub(super) fn report(core: &mut Core, method: &str, params: Option<&RawValue>) {
    if core.is_full() {
        return core.leave_out();
    }
    let event = match method {
        method::RESOURCE_UPDATED => resource_updated(params),
        method::MESSAGE => log_message(params),
        _ => None,
    };
    let other = || Event::Notification { method: method.into(), params: params.map(ToOwned::to_owned) };
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
        "logger" => logger = value.as_string(),
        "data" => data = Some(value),
        _ => {}
    });
    Some(Event::Log { level: level?, logger: logger.map(|logger| (&*logger).into()), data: data?.to_raw() })
}
