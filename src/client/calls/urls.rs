//! Errors that require the user to visit URLs (specification 2025-11-25, "Elicitation", URL Elicitation Required Error).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::super::core::Core;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::call_error::{Error, Meaning, Urls, take};
use crate::machine::resend::{self, Reason, Resend};
use crate::protocol::{Era, error_code, method};

/// What the error of a call requires before the call is made again, if it does not end the call.
pub(super) fn required(core: &Core, id: u64, error: &ErrorObject) -> Option<Box<RawValue>> {
    let elicitations = read(core, error);
    let class = if elicitations.is_some() { Error::Urls } else { Error::Other };
    let declared = core.options.capabilities.elicitation_url && !core.is_undeclared();
    let urls = if declared { Urls::Declared } else { Urls::Undeclared };
    let again = core.requests.call(id).map_or(Resend::End, |call| resend::take(Reason::Urls, call.urls));
    match take(class, core.era().unwrap_or(Era::Legacy), urls, again) {
        Meaning::Input => elicitations,
        Meaning::End => None,
    }
}

/// The elicitations that an error requires, in the form of required inputs, with the id of each as its key.
fn read(core: &Core, error: &ErrorObject) -> Option<Box<RawValue>> {
    if error.code != error_code::URL_ELICITATION_REQUIRED {
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
