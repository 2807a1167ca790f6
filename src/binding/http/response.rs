//! The relevant parts of a response.

use alloc::vec::Vec;
use core::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};

use super::address::{Address, resolve};
use super::limits::{LONGEST_RETRY_AFTER, RETRY, WORDS};
use crate::binding::EventDecoder;
use crate::client::Challenge;
use crate::machine::{get_stream, http_answer, http_end, http_head};

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Kind {
    Json,
    Events,
}

/// A stream of events.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Events {
    pub(super) decoder: EventDecoder,
    /// The wait before it is resumed.
    pub(super) retry: Option<Duration>,
    /// It is certainly a stream, by its content type or an event.
    pub(super) sure: bool,
}

/// A response with an error status.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refusal {
    #[cfg_attr(feature = "snapshot", serde(with = "super::form::status"))]
    pub(super) status: StatusCode,
    /// The wait before the next attempt, [`LONGEST_RETRY_AFTER`] at most; [`RETRY`] if its `Retry-After` has no valid
    /// time.
    pub(super) retry_after: Option<Duration>,
    pub(super) challenges: Vec<Challenge>,
    /// The target of the redirect.
    pub(super) location: Option<Address>,
    /// The length of the body, if the server declares it.
    pub(super) length: Option<usize>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    pub(super) body: Vec<u8>,
}

impl Kind {
    /// The kind by the content type.
    pub(super) fn labelled(headers: &HeaderMap) -> Option<Self> {
        let label = headers.get(CONTENT_TYPE)?;
        match label.as_bytes() {
            b"application/json" => return Some(Self::Json),
            b"text/event-stream" => return Some(Self::Events),
            _ => {}
        }
        let label = label.to_str().ok()?;
        let kind = label.split(';').next()?.trim();
        let is = |known: &str| kind.eq_ignore_ascii_case(known);
        if is("application/json") {
            Some(Self::Json)
        } else if is("text/event-stream") {
            Some(Self::Events)
        } else {
            None
        }
    }
}

impl Refusal {
    /// Whether the relevant part of the body is incomplete.
    pub(super) fn is_cut(&self, broke: bool) -> bool {
        broke || self.length.is_some_and(|length| self.body.len() < length.min(WORDS))
    }

    /// The class of the status for a POST.
    pub(super) fn answer_status(&self) -> http_answer::Status {
        use http_answer::Status;
        match self.status {
            StatusCode::BAD_REQUEST => Status::BadRequest,
            StatusCode::UNAUTHORIZED if self.challenges.is_empty() => Status::Unchallenged,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Status::Unauthorized,
            StatusCode::NOT_FOUND => Status::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Status::NotAllowed,
            StatusCode::TOO_MANY_REQUESTS if self.retry_after.is_some() => Status::Busy,
            StatusCode::SERVICE_UNAVAILABLE if self.retry_after.is_some() => Status::UnavailableNow,
            StatusCode::SERVICE_UNAVAILABLE => Status::Unavailable,
            status if status.is_client_error() => Status::Client,
            status if status.is_server_error() => Status::Server,
            _ => Status::Other,
        }
    }

    /// The class of the status at the end of an exchange.
    pub(super) fn end_response(&self) -> http_end::Response {
        use http_end::Response;
        match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Response::Unauthorized,
            StatusCode::NOT_FOUND => Response::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Response::Busy,
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => Response::Busy,
            _ => Response::Refusal,
        }
    }

    pub(super) fn new(status: StatusCode, headers: &HeaderMap, url: &Address) -> Self {
        let retry_after = headers.contains_key(RETRY_AFTER).then(|| retry_after(headers).unwrap_or(RETRY));
        let mut challenges = Vec::new();
        for value in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()) {
            for challenge in http_auth::parser::ChallengeParser::new(value).map_while(Result::ok) {
                let params = challenge.params.iter().map(|(name, value)| ((*name).into(), value.to_unescaped().into()));
                challenges.push(Challenge::new(challenge.scheme, params.collect()));
            }
        }
        let location = headers.get(LOCATION).and_then(|location| resolve(url, location.as_bytes()));
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
        Self { status, retry_after, challenges, location, length, body: Vec::new() }
    }
}

/// The class of a status for the exchange.
pub(super) fn head_status(status: StatusCode) -> http_head::Status {
    match status {
        StatusCode::ACCEPTED => http_head::Status::Accepted,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => http_head::Status::Moved,
        status if status.is_success() => http_head::Status::Good,
        _ => http_head::Status::Bad,
    }
}

/// The meaning of a response's head for the GET stream.
pub(super) fn stream_input(status: StatusCode, labelled: Option<Kind>) -> get_stream::Input {
    match status {
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            get_stream::Input::NotOffered
        }
        StatusCode::NOT_FOUND => get_stream::Input::NotFound,
        StatusCode::NOT_IMPLEMENTED => get_stream::Input::NoStream,
        StatusCode::TOO_MANY_REQUESTS => get_stream::Input::Broke,
        status if status.is_server_error() => get_stream::Input::Broke,
        status if status.is_success() && labelled != Some(Kind::Json) => get_stream::Input::Opened,
        _ => get_stream::Input::OtherAnswer,
    }
}

/// The time in `Retry-After`, if valid (RFC 9110, section 10.2.3). A date is relative to the response's own `Date`,
/// since a client has no calendar.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER).filter(|after| !after.is_empty())?;
    let wait = if after.bytes().all(|byte| byte.is_ascii_digit()) {
        // An overflow is above any limit.
        Duration::from_secs(after.parse().unwrap_or(u64::MAX))
    } else {
        let (until, now) = (httpdate::parse_http_date(after).ok()?, httpdate::parse_http_date(text(DATE)?).ok()?);
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}
