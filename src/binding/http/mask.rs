//! Masks the secrets of the authorization that a server repeats in an event.

use alloc::boxed::Box;
use alloc::string::String;

use serde_json::value::RawValue;

use crate::binding::oauth::Authorization;
use crate::client::{Cause, Engine, Event, Outcome, RefreshOutcome, RequestError, TaskError};

/// Masks the secrets in the server's texts: errors, failures, reasons and quirks. Results, and the parameters of
/// notifications and server requests, are the server's, byte for byte.
pub(super) fn mask(authorization: &Authorization, engine: &mut Engine, event: &mut Event) {
    let hide = |text: &mut Box<str>| hide(authorization, text);
    match event {
        Event::Finished { outcome: Outcome::Error(error), .. } | Event::LogLevelFailed { error } => {
            mask_error(authorization, error);
        }
        Event::Down { failure, .. } | Event::Closed { cause: Cause::Failed(failure) } => hide(&mut failure.message),
        Event::Quirk(quirk) => {
            hide(&mut quirk.detail);
            engine.amend_quirk(quirk);
        }
        Event::Refreshed { outcome: RefreshOutcome::Failed(why), .. }
        | Event::Subscription { outcome: Err(why), .. }
        | Event::ServerRequestEnded { reason: Some(why), .. }
        | Event::Unauthorized { why, .. } => hide(why),
        Event::Finished { .. }
        | Event::Closed { .. }
        | Event::Refreshed { .. }
        | Event::Subscription { .. }
        | Event::ServerRequestEnded { .. }
        | Event::Ready
        | Event::CatalogChanged { .. }
        | Event::Resending { .. }
        | Event::InputRequired { .. }
        | Event::ServerRequest { .. }
        | Event::Progress { .. }
        | Event::Task { .. }
        | Event::ElicitationComplete { .. }
        | Event::ResourceUpdated { .. }
        | Event::Log { .. }
        | Event::Notification { .. } => {}
    }
}

/// Masks the secrets in a text.
pub(super) fn hide(authorization: &Authorization, text: &mut Box<str>) {
    let hidden = authorization.without_secrets(text);
    if *hidden != **text {
        *text = hidden.into_owned().into();
    }
}

fn mask_error(authorization: &Authorization, error: &mut RequestError) {
    match error {
        RequestError::Server(error) => {
            hide(authorization, &mut error.message);
            if let Some(data) = &mut error.data {
                mask_json(authorization, data);
            }
        }
        RequestError::Status { message, .. }
        | RequestError::Invalid(message)
        | RequestError::Task(TaskError::Cancelled { message } | TaskError::Failed { message }) => {
            hide(authorization, message);
        }
        RequestError::Task(TaskError::OtherTask | TaskError::Reopened) => {}
    }
}

/// Masks the secrets in JSON, also those with escape sequences.
fn mask_json(authorization: &Authorization, json: &mut Box<RawValue>) {
    let masked = authorization.without_secrets(json.get());
    let plain = unescaped(&masked);
    let has_escaped = *authorization.without_secrets(&plain) != *plain;
    let masked = if has_escaped { String::from("\"[hidden]\"") } else { masked.into_owned() };
    if masked != json.get()
        && let Ok(masked) = RawValue::from_string(masked)
    {
        *json = masked;
    }
}

/// The text with its escape sequences decoded. A token has ASCII characters only.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut chars = after.chars();
        rest = match chars.next() {
            Some('u') => {
                let code = after.get(1..5).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                out.extend(code.and_then(char::from_u32));
                after.get(5..).unwrap_or_default()
            }
            Some(other) => {
                out.push(other);
                chars.as_str()
            }
            None => "",
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_their_characters() {
        for (text, plain) in
            [(r"a\/b\u0041\u005a", "a/bAZ"), (r"\u00", ""), (r"\ud800x", "x"), (r"end\", "end"), (r"\u\u0041", "")]
        {
            assert!(unescaped(text).starts_with(plain), "{text}");
        }
    }
}
