//! Errors that require the user to visit URLs (specification 2025-11-25, "Elicitation", URL Elicitation Required Error).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::super::core::Core;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::protocol::{Era, error_code, method};

/// The elicitations that have to be complete before a call can be made again, in the form of required inputs, with the
/// id of each as its key; `None` if the error does not say that, or the client does not offer URLs.
pub(super) fn required(core: &Core, error: &ErrorObject) -> Option<Box<RawValue>> {
    let offered = core.options.capabilities.elicitation_url && !core.is_undeclared() && core.era() == Some(Era::Legacy);
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
