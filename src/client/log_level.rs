//! Component: the severity of the server's log messages, which the embedder sets. Its state is in the core.

use alloc::format;

use super::core::Core;
use super::error_class::class_of;
use super::request_table::Purpose;
use super::{CommandError, Event, LogLevel, RequestError};
use crate::Time;
use crate::machine::setting::{Setting, Telling};
use crate::machine::{gate, list_error, log_level};
use crate::protocol::{Capability, method};

/// The embedder sets the level.
pub(super) fn set(core: &mut Core, now: Time, level: LogLevel) -> Result<(), CommandError> {
    core.check_open()?;
    if core.is_ready() && core.missing_capability(method::SET_LEVEL).is_some() {
        return Err(core.not_advertised(method::SET_LEVEL, Capability::Logging.as_str()));
    }
    if core.is_outbox_full() {
        return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
    }
    core.advance(now);
    core.log_level = Some(level);
    tell(core);
    Ok(())
}

/// Tells the server the level, where it has to be told.
pub(super) fn tell(core: &mut Core) {
    let declared = core.server.as_ref().and_then(|server| server.has(Capability::Logging));
    let setting = match core.log_level {
        None => Setting::None,
        Some(_) if core.requests.is_level_queued() => Setting::Queued,
        Some(_) => Setting::Set,
    };
    match core.telling(core.gate_capability(gate::Use::SetLevel, declared), setting) {
        Telling::Tell => {
            let deadline = core.request_deadline();
            core.requests.insert(Purpose::SetLevel, Some(deadline));
        }
        Telling::Keep => {}
    }
}

/// The server did not set the level.
pub(super) fn on_failed(core: &mut Core, error: RequestError) {
    let class = error.server().map_or(list_error::Class::Other, class_of);
    let by_text = match core.options.tolerance.absent_by_text {
        false => list_error::ByText::Ignore,
        true => list_error::ByText::Believe,
    };
    if let Some(kind) = log_level::take(class, by_text).quirk() {
        let detail = format!("declared, yet answered with {error}; the level is not set");
        core.quirk(kind, None, Some(method::SET_LEVEL), detail);
    }
    core.event(Event::LogLevelFailed { error });
}
