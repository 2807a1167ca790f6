//! Component: the severity of the server's log messages, which the embedder sets. Its state is in the core.

use alloc::format;

use super::core::Core;
use super::error_class::class_of;
use super::request_table::Purpose;
use super::{CommandError, Event, LogLevel, RequestError};
use crate::Time;
use crate::machine::{gate, list_error, log_level};
use crate::protocol::{Capability, Era, method};

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
    if core.is_established() {
        send(core);
    }
    Ok(())
}

/// Sends the level to a legacy server, if the embedder set one and the server declares logging.
pub(super) fn send(core: &mut Core) {
    let server = core.server.as_ref().filter(|server| server.era() == Era::Legacy);
    let has_log =
        server.is_some_and(|server| core.gate_capability(gate::Use::SetLevel, server.has(Capability::Logging)));
    // A request that is not encoded yet takes the current level when it is.
    if has_log && core.log_level.is_some() && !core.requests.is_level_queued() {
        let deadline = core.request_deadline();
        core.requests.insert(Purpose::SetLevel, Some(deadline));
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
