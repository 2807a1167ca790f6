//! Elicitations at a URL whose end the server may report (specification 2025-11-25, "Elicitation", Completion
//! Notifications).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::Core;
use super::{Event, RequestId};
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::protocol::{Era, error_code, method};

/// Maximum bytes of an id.
const LONGEST_ID: usize = 1024;

/// The elicitations that are not known to be complete, oldest first.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct UrlElicitations(VecDeque<(Box<str>, Option<RequestId>)>);

impl UrlElicitations {
    /// Number of elicitations.
    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The server asks for an elicitation, for a request of the embedder if it names that. The oldest one is forgotten
    /// beyond the limit.
    pub(super) fn add(&mut self, id: &str, request: Option<RequestId>, limit: usize) {
        if id.len() > LONGEST_ID || limit == 0 {
            return;
        }
        self.0.retain(|(known, _)| **known != *id);
        if self.0.len() >= limit {
            self.0.pop_front();
        }
        self.0.push_back((id.into(), request));
    }

    fn take(&mut self, id: &str) -> Option<(Box<str>, Option<RequestId>)> {
        let at = self.0.iter().position(|(known, _)| **known == *id)?;
        self.0.remove(at)
    }
}

/// Takes `notifications/elicitation/complete`. One with an unknown id, or for the second time, is ignored.
pub(super) fn on_complete(core: &mut Core, params: Option<&RawValue>) {
    let id = params.and_then(|params| Json::from(params).member("elicitationId")).and_then(Json::as_string);
    match id.and_then(|id| core.url_elicitations.take(&id)) {
        Some((id, request)) if !core.is_full() => core.event(Event::ElicitationComplete { id, request }),
        Some(_) | None => core.leave_out(),
    }
}

/// The elicitations that have to be complete before a call can be made again, in the form of required inputs, with the
/// id of each as its key; `None` if the error does not say that, or the client does not offer URLs.
pub(super) fn required(core: &Core, error: &ErrorObject) -> Option<Box<RawValue>> {
    let offered = core.options.capabilities.elicitation_url && !core.undeclared && core.era() == Some(Era::Legacy);
    if !offered || error.code != error_code::URL_ELICITATION_REQUIRED {
        return None;
    }
    let limit = core.options.limits.server_requests;
    let elicitations = Json::from(error.data.as_deref()?).member("elicitations").and_then(|it| it.elements(limit))?;
    let mut json = Vec::new();
    let mut result = Object::begin(&mut json);
    let mut usable = !elicitations.kept.is_empty() && !elicitations.more;
    result.object("inputRequests", |inputs| {
        for elicitation in elicitations.kept {
            let string = |name| elicitation.member(name).and_then(Json::as_string);
            match (string("mode").as_deref(), string("elicitationId"), string("url")) {
                (Some("url"), Some(id), Some(_)) => {
                    inputs.object(&id, |input| {
                        input.string("method", method::ELICITATION).raw("params", elicitation.text());
                    });
                }
                _ => usable = false,
            }
        }
    });
    result.end();
    usable.then(|| Json::trusted(&String::from_utf8(json).unwrap_or_default()).to_raw())
}

/// The server asks for an elicitation at a URL by a request of its own.
pub(super) fn on_request(core: &mut Core, params: Option<&RawValue>, request: Option<RequestId>) {
    let id = params.and_then(|params| Json::from(params).member("elicitationId")).and_then(Json::as_string);
    if let Some(id) = id {
        core.url_elicitations.add(&id, request, core.options.limits.server_requests);
    }
}
