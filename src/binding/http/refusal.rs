//! Responses with an error status: what they say, and what waits for the token that they demand.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::{CONTENT_LENGTH, DATE, HeaderName, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::challenge::{challenges_in, split};
use super::connection::{LONGEST_RETRY_AFTER, REFUSAL_BYTES, RETRY};
use super::response::Kind;
use crate::binding::address::{Address, resolve};
use crate::binding::coding::encoded_detail;
use crate::client::{Challenge, Outgoing};
use crate::jsonrpc::{self, Decoded, Deviations, ErrorObject, Message, Noise, ResponseId};
use crate::machine::http_connection::get_stream;
use crate::machine::http_response::{Error, HttpStatus, Received};
use crate::protocol::error_code;

/// A response with an error status.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refusal {
    #[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::status"))]
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
    /// The coding of the body, if nobody decodes it. The body is not kept then.
    pub(super) coding: Option<Box<str>>,
    /// More of the body came than is kept, or it broke off.
    pub(super) goes_on: bool,
}

impl Refusal {
    /// Whether the relevant part of the body is incomplete.
    pub(super) fn is_cut(&self, broke: bool) -> bool {
        broke || self.length.is_some_and(|length| self.body.len() < length.min(REFUSAL_BYTES))
    }

    pub(super) fn class(&self) -> HttpStatus {
        status_class(self.status, self.retry_after.is_some(), !self.challenges.is_empty())
    }

    /// What the response is at the end of its exchange.
    pub(super) fn received(&self) -> Received {
        match self.class() {
            HttpStatus::Unauthorized | HttpStatus::Unchallenged => Received::Unauthorized,
            HttpStatus::NotFound => Received::NotFound,
            HttpStatus::Busy
            | HttpStatus::TooMany
            | HttpStatus::Unavailable
            | HttpStatus::Paused
            | HttpStatus::Server => Received::Busy,
            HttpStatus::Accepted
            | HttpStatus::Success
            | HttpStatus::Moved
            | HttpStatus::BadRequest
            | HttpStatus::NotAllowed
            | HttpStatus::Client
            | HttpStatus::NotImplemented
            | HttpStatus::Other => Received::Refusal,
        }
    }

    pub(super) fn new(status: StatusCode, headers: &HeaderMap, url: &Address) -> Self {
        let retry_after = headers.contains_key(RETRY_AFTER).then(|| retry_after(headers).unwrap_or(RETRY));
        let challenges = challenges_in(headers);
        let location = headers.get(LOCATION).and_then(|location| resolve(url, location.as_bytes()));
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
        Self { status, retry_after, challenges, location, length, body: Vec::new(), coding: None, goes_on: false }
    }

    /// The body as a text. Where it goes on, a secret that is cut there is recognized by the ellipsis.
    pub(super) fn text(&self) -> Cow<'_, str> {
        if let Some(coding) = &self.coding {
            return encoded_detail(coding).into();
        }
        let text = String::from_utf8_lossy(&self.body);
        if self.goes_on { format!("{}…", text.trim_end_matches('\u{fffd}')).into() } else { text }
    }
}

/// The class of a status, with `Retry-After` and with a challenge or without.
pub(super) fn status_class(status: StatusCode, has_retry_after: bool, is_challenged: bool) -> HttpStatus {
    match status {
        StatusCode::ACCEPTED => HttpStatus::Accepted,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => HttpStatus::Moved,
        StatusCode::BAD_REQUEST => HttpStatus::BadRequest,
        StatusCode::UNAUTHORIZED if !is_challenged => HttpStatus::Unchallenged,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => HttpStatus::Unauthorized,
        StatusCode::NOT_FOUND => HttpStatus::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => HttpStatus::NotAllowed,
        StatusCode::TOO_MANY_REQUESTS if has_retry_after => HttpStatus::Busy,
        StatusCode::TOO_MANY_REQUESTS => HttpStatus::TooMany,
        StatusCode::SERVICE_UNAVAILABLE if has_retry_after => HttpStatus::Paused,
        StatusCode::SERVICE_UNAVAILABLE => HttpStatus::Unavailable,
        StatusCode::NOT_IMPLEMENTED => HttpStatus::NotImplemented,
        status if status.is_success() => HttpStatus::Success,
        status if status.is_client_error() => HttpStatus::Client,
        status if status.is_server_error() => HttpStatus::Server,
        _ => HttpStatus::Other,
    }
}

/// The meaning of a response's head for the GET stream.
pub(super) fn stream_input(status: HttpStatus, labelled: Option<Kind>) -> get_stream::Input {
    match status {
        HttpStatus::NotAllowed | HttpStatus::Unauthorized | HttpStatus::Unchallenged => get_stream::Input::NotOffered,
        HttpStatus::NotFound => get_stream::Input::NotFound,
        HttpStatus::NotImplemented => get_stream::Input::NoStream,
        HttpStatus::Busy | HttpStatus::TooMany | HttpStatus::Unavailable | HttpStatus::Paused | HttpStatus::Server => {
            get_stream::Input::Broke
        }
        HttpStatus::Accepted | HttpStatus::Success if labelled != Some(Kind::Json) => get_stream::Input::Opened,
        HttpStatus::Accepted
        | HttpStatus::Success
        | HttpStatus::Moved
        | HttpStatus::BadRequest
        | HttpStatus::Client
        | HttpStatus::Other => get_stream::Input::OtherAnswer,
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

/// The code of 2025-11-25 for a resource that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The class of the JSON-RPC error in a body.
pub(super) fn error_class(error: Option<&ErrorObject>) -> Error {
    match error.map(|error| error.code) {
        None => Error::None,
        Some(error_code::METHOD_NOT_FOUND) => Error::MethodNotFound,
        Some(error_code::INVALID_PARAMS) => Error::InvalidParams,
        Some(RESOURCE_NOT_FOUND) => Error::ResourceNotFound,
        Some(error_code::HEADER_MISMATCH) => Error::HeaderMismatch,
        Some(error_code::UNSUPPORTED_PROTOCOL_VERSION | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY) => {
            Error::Modern
        }
        Some(_) => Error::Other,
    }
}

/// The JSON-RPC error in the body of a refusal.
pub(super) fn error_in(body: &[u8]) -> Option<(ErrorObject, Deviations)> {
    let Ok(Decoded::One(Message { body: jsonrpc::Body::Error { error, .. }, deviations, .. })) =
        jsonrpc::decode(body, jsonrpc::MessageLimits::default())
    else {
        return None;
    };
    is_error(deviations, &error).then_some((error, deviations))
}

/// The error in this message for a request. An error with the id of another request is not a response to this one.
pub(super) fn error_to<'a>(request: u64, decoded: &'a Result<Decoded<'_>, Noise>) -> Option<&'a ErrorObject> {
    let Ok(Decoded::One(Message { body: jsonrpc::Body::Error { id, error }, deviations, .. })) = decoded else {
        return None;
    };
    match id {
        ResponseId::Exact(id) | ResponseId::Loose(id) if *id != request => None,
        ResponseId::Exact(_) | ResponseId::Loose(_) | ResponseId::Absent | ResponseId::Foreign => {
            is_error(*deviations, error).then_some(error)
        }
    }
}

/// Whether an error is a JSON-RPC error, and not one of a gateway.
const fn is_error(deviations: Deviations, error: &ErrorObject) -> bool {
    !deviations.version || error.code != 0
}

/// Whether code and whole message are those that known transports send with a success status for an unknown session.
pub(super) fn is_known_expiry(error: &ErrorObject) -> bool {
    const CODES: [i64; 3] = [-32000, -32001, -32600];
    const MESSAGES: [&str; 4] =
        ["session not found", "invalid session id", "no valid session id provided", "server not initialized"];
    if !CODES.contains(&error.code) {
        return false;
    }
    let said = error.message.trim().to_ascii_lowercase();
    let said = said.strip_prefix("bad request: ").unwrap_or(&said);
    let said = said.strip_suffix(" or expired").unwrap_or(said);
    MESSAGES.contains(&said)
}

/// Whether a refusal says that something is wrong with the transport's session, or that the server is not initialized: by
/// words that stand before them in such messages, and no other, and nothing else is said in the same clause. A tool says
/// which session it means: "Browser session not found".
pub(super) fn says_no_session(said: &str) -> bool {
    const GENERIC: &str = "\
        a active an and bad be cannot client code could detail error expired find for found has have header http \
        in invalid is message mcp missing must no not of or please provide reason request required requires \
        server service stale status statuscode such terminated the there this to transport unauthorized \
        unavailable unknown unrecognized valid was with you your";
    // What a message says of the session.
    const SAID: &str = "\
        again any been closed does exist exists first gone given id ids initialize initialized it longer new node on \
        provided reinitialize session sessionid yet";
    // At least one of these words is required.
    const FAULTS: &str = "\
        again bad been cannot closed expired first given gone invalid longer missing must no not provide provided \
        reinitialize required requires stale terminated unauthorized unknown unrecognized yet";
    let is_in = |words: &str, word: &str| words.split(' ').any(|known| word.eq_ignore_ascii_case(known));
    let is_generic = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()) || is_in(GENERIC, word);
    let is_of_id = |word: &str| {
        word.bytes().any(|byte| byte.is_ascii_digit()) || word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let between = |it: char| !it.is_alphanumeric();
    let (mut negated, mut at_fault, mut rest) = (false, false, said);
    loop {
        rest = rest.trim_start_matches(between);
        let (word, after) = split(rest, between);
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if is("session") || is("sessionid") || negated && is("initialized") {
            // It must not continue with another subject: "Session 7 of the workshop is full".
            let clause = after.split([':', '.', ';', '\n']).next().unwrap_or_default();
            let mut words = clause.split(between).filter(|word| !word.is_empty());
            let at_fault = at_fault || words.clone().any(|word| is_in(FAULTS, word));
            return at_fault && words.all(|word| is_generic(word) || is_of_id(word) || is_in(SAID, word));
        }
        if word.is_empty() || !is_generic(word) {
            return false;
        }
        at_fault |= is_in(FAULTS, word);
        (negated, rest) = (is("not"), after);
    }
}

/// Whether the text says that the server is initialized already.
pub(super) fn is_initialized(said: &str) -> bool {
    const WORDS: &[u8] = b"already initialized";
    said.as_bytes().windows(WORDS.len()).any(|words| words.eq_ignore_ascii_case(WORDS))
}

/// The text of a refusal that may be shown.
pub(super) fn refusal_text(refusal: &Refusal, said: &str) -> Box<str> {
    match &refusal.location {
        Some(location) if refusal.status.is_redirection() => format!("it points to `{location}`").into(),
        // The body repeats the URL with its secrets.
        None if refusal.status.is_redirection() => "it points to no address".into(),
        Some(_) | None if said.trim_start().starts_with('<') => "".into(),
        Some(_) | None => said.trim().into(),
    }
}

/// What waits, each with how often it was refused for lack of authorization.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Requests of the engine, by their ids on the wire.
    pub(super) requests: Vec<(u64, u8)>,
    /// Notifications and responses, which are as many as may be in flight.
    pub(super) messages: Vec<(Outgoing, u8)>,
    /// What is sent again at once: the token or nonce that it lacked has arrived.
    pub(super) authorized: Vec<Held>,
    /// How often the handshakes were refused since the client was ready last.
    pub(super) handshake: u8,
    /// How often the GET stream was refused since it was open last.
    pub(super) stream: u8,
}

/// What was refused, and may be sent again.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// A request that waits in the engine.
    Call(u64),
    /// A request of the engine.
    Request(u64, u8),
    /// A notification or a response.
    Message(Outgoing, u8),
    /// The GET stream.
    Stream,
    /// The handshake.
    Connection,
}

impl Waiting {
    /// It is sent again at once.
    pub(super) fn send_again(&mut self, held: Held) {
        self.count(&held);
        self.authorized.push(held);
    }

    /// It waits: here, or where its state is.
    pub(super) fn keep(&mut self, held: Held) {
        self.count(&held);
        match held {
            Held::Request(id, used) => self.requests.push((id, used)),
            Held::Message(message, used) => self.messages.push((message, used)),
            Held::Call(_) | Held::Stream | Held::Connection => {}
        }
    }

    const fn count(&mut self, held: &Held) {
        if matches!(held, Held::Connection) {
            self.handshake = self.handshake.saturating_add(1);
        }
    }

    /// The connection is gone: nothing of it waits any more. How often handshakes were refused goes on to be counted.
    pub(super) fn forget(&mut self) {
        let mut authorized = core::mem::take(&mut self.authorized);
        authorized.retain(|it| matches!(it, Held::Connection));
        *self = Self { authorized, handshake: self.handshake, ..Self::default() };
    }
}
