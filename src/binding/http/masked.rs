//! The secrets that a client presents, masked where the server repeats them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use super::basic::Basic;
use super::tokens::Tokens;
use super::{Http, HttpAction};
#[cfg(feature = "oauth")]
use crate::binding::oauth::{OAuthAction, OAuthError, OAuthEvent};
use crate::client::{Cause, Engine, Event, Outcome, RefreshOutcome, RequestError, TaskError};
use crate::text::percent_decoded;

/// What a server could repeat.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    tokens: &'a Tokens,
    basic: Option<&'a Basic>,
}

impl Known<'_> {
    /// A text of the server without the secrets that it could know.
    pub(super) fn without_secrets<'t>(self, text: &'t str) -> Cow<'t, str> {
        let hidden = self.tokens.without_secrets(text);
        match (self.basic, hidden) {
            (None, hidden) => hidden,
            (Some(basic), Cow::Borrowed(text)) => basic.hide(text),
            (Some(basic), Cow::Owned(text)) => basic.hide(&text).into_owned().into(),
        }
    }
}

impl Http {
    pub(super) fn known(&self) -> Known<'_> {
        Known { tokens: &self.tokens, basic: self.basic.as_deref() }
    }

    /// Hides the secrets where the server repeats them: in events, and in its texts that the engine keeps.
    pub(super) fn mask(&mut self, engine: &mut Engine) {
        if self.basic.is_some() || self.tokens.is_set() {
            let known = self.known();
            self.masked = engine.amend(self.masked, |event| mask(known, event), |text| hide(known, text));
        }
    }

    /// The next action of the authorization.
    pub(super) fn next_authorization(&mut self) -> Option<HttpAction> {
        #[cfg_attr(not(feature = "oauth"), expect(unused_mut, reason = "there are no events"))]
        let mut action = self.tokens.poll(&self.identity)?;
        #[cfg(feature = "oauth")]
        if let (Some(basic), HttpAction::OAuth(OAuthAction::Event(event))) = (&self.basic, &mut action) {
            match event {
                OAuthEvent::Failed(OAuthError { reason: text, .. })
                | OAuthEvent::ChallengeIgnored(text)
                | OAuthEvent::NotRevoked(text) => *text = basic.hide(text).into(),
                OAuthEvent::Authorized(_) | OAuthEvent::RecordUnreadable | OAuthEvent::NotStored => {}
            }
        }
        Some(action)
    }
}

/// Masks the secrets in the server's texts: errors, failures, reasons and quirks. Results, and the parameters of
/// notifications and server requests, are the server's, byte for byte.
fn mask(known: Known<'_>, event: &mut Event) {
    let hide = |text: &mut Box<str>| hide(known, text);
    match event {
        Event::Finished { outcome: Outcome::Error(error), .. } | Event::LogLevelFailed { error } => {
            mask_error(known, error);
        }
        Event::Finished { failure: Some(failure), .. } => hide(&mut Arc::make_mut(failure).message),
        Event::Down { failure, .. } | Event::Closed { cause: Cause::Failed(failure) } => hide(&mut failure.message),
        Event::Quirk(quirk) => {
            hide(&mut quirk.detail);
            quirk.method.iter_mut().for_each(hide);
        }
        Event::Refreshed { outcome: RefreshOutcome::Failed(why), .. }
        | Event::Subscription { outcome: Err(why), .. }
        | Event::ServerRequestEnded { reason: Some(why), .. } => hide(why),
        Event::Unauthorized { why, challenges, .. } => {
            hide(why);
            for challenge in challenges {
                hide(&mut challenge.scheme);
                challenge.params.iter_mut().flat_map(|(name, value)| [name, value]).for_each(hide);
            }
        }
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

/// Masks the secrets in a text. One with a secret in an escape sequence of JSON, of which a part may be quoted, is not shown.
fn hide(known: Known<'_>, text: &mut Box<str>) {
    let hidden = known.without_secrets(text);
    if has_escaped(known, &hidden) {
        *text = "[hidden]".into();
    } else if *hidden != **text {
        *text = hidden.into_owned().into();
    }
}

/// Whether a text has a secret in which characters are escaped as in JSON, or percent-encoded in a way of its own.
fn has_escaped(known: Known<'_>, text: &str) -> bool {
    let is_in = |plain: &str| *known.without_secrets(plain) != *plain;
    let is_escaped = text.contains('\\') && is_in(&unescaped(text));
    is_escaped || text.contains('%') && is_in(&String::from_utf8_lossy(&percent_decoded(text)))
}

fn mask_error(known: Known<'_>, error: &mut RequestError) {
    match error {
        RequestError::Server(error) => {
            hide(known, &mut error.message);
            if let Some(data) = &mut error.data {
                mask_json(known, data);
            }
        }
        RequestError::Status { message, .. }
        | RequestError::Invalid(message)
        | RequestError::Task(TaskError::Cancelled { message } | TaskError::Failed { message }) => {
            hide(known, message);
        }
        RequestError::Task(TaskError::OtherTask | TaskError::Reopened) => {}
    }
}

/// Masks the secrets in JSON, also those with escape sequences.
fn mask_json(known: Known<'_>, json: &mut Box<RawValue>) {
    let masked = known.without_secrets(json.get());
    let has_escaped = has_escaped(known, &masked);
    let masked = if has_escaped { String::from("\"[hidden]\"") } else { masked.into_owned() };
    if masked != json.get() {
        // A mask in place of a number leaves invalid JSON.
        *json = RawValue::from_string(masked).or_else(|_| to_raw_value("[hidden]")).unwrap_or_default();
    }
}

/// The text with its escape sequences decoded. Half of a surrogate pair is left out.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut high) = (text, None);
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        // Halves of a pair follow each other.
        let first = core::mem::take(&mut high).filter(|_| before.is_empty());
        let mut chars = after.chars();
        rest = match chars.next() {
            Some('u') => match after.get(1..5).and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
                Some(code) => {
                    let pair =
                        first.and_then(|first| char::decode_utf16([first, u16::try_from(code).ok()?]).next()?.ok());
                    out.extend(pair.or(char::from_u32(code)));
                    high = u16::try_from(code).ok().filter(|code| (0xd800..0xdc00).contains(code));
                    after.get(5..).unwrap_or_default()
                }
                // It is cut.
                None => chars.as_str().trim_start_matches(|digit: char| digit.is_ascii_hexdigit()),
            },
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
        for (text, plain) in [
            (r"a\/b\u0041\u005a", "a/bAZ"),
            (r"\u00", ""),
            (r"a\u00…", "a…"),
            (r"\ud800x", "x"),
            (r"end\", "end"),
            (r"\u\u0041", "A"),
        ] {
            assert!(unescaped(text).starts_with(plain), "{text}");
        }
    }
}
