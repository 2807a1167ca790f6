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
    /// Takes a notification that no component acts on.
    #[inline]
    pub(super) fn on_other(&mut self, core: &mut Core, method: &str, params: Option<&RawValue>) {
        if core.is_ready() { tell(core, method, params) } else { self.hold(core, method, params) }
    }

    fn hold(&mut self, core: &mut Core, method: &str, params: Option<&RawValue>) {
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

/// Takes `notifications/progress`. Returns whether it belongs to a request that asked for progress.
#[inline]
pub(super) fn on_progress(core: &mut Core, params: Option<&RawValue>) -> bool {
    let Some(params) = params else { return false };
    let Some(token) = Json::from(params).member("progressToken") else { return false };
    let Ok(token) = token.text().trim_matches('"').parse() else { return false };
    let interval = core.options.timeouts.progress_interval;
    let Some((request, due)) = core.requests.progress(token, core.now, interval) else { return false };
    if due && !core.is_full() {
        core.event(Event::Progress { request, progress: Progress::new(params.to_owned()) });
    } else {
        core.leave_out();
    }
    true
}

fn tell(core: &mut Core, method: &str, params: Option<&RawValue>) {
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
