//! Reports of requests that get no usable response.

use crate::client::{Engine, Report};

/// A request gets no response, and may have run.
pub(super) fn lost(engine: &mut Engine, request: Option<u64>, why: &str) {
    if let Some(id) = request {
        engine.handle_report(engine.now(), Report::Lost { id, sent: true, why });
    }
}

/// The body is not a response to a request.
pub(super) fn no_answer(engine: &mut Engine, request: Option<u64>, status: u16, why: &str) {
    if let Some(id) = request {
        engine.handle_report(engine.now(), Report::Refused { id, status, why });
    }
}
