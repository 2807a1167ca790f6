//! Answers that refuse: whose error it is, and whether it is about the session.
//!
//! A tool may say anything in its errors, of its own sessions too. So only the status tells that a request did not run;
//! texts are compared whole where it does not.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use http::StatusCode;

use super::exchange::{Refusal, Refused};
use super::{Http, Later, Mode, SHORTEST_RETRY};
use crate::client::{Engine, Outgoing, Report};
use crate::jsonrpc::{self, Body, Decoded, ErrorObject, ResponseId};
use crate::machine::QuirkKind;
use crate::protocol::{Era, error_code, method};

/// How much is kept of a refusal's body that need not be a message.
pub(super) const WORDS: usize = 64 << 10;

/// The code by which 2025-11-25 says that a resource does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

impl Http {
    /// A message was refused by its status; tells whether that is the end of it.
    pub(super) fn refused(&mut self, engine: &mut Engine, message: Outgoing, refusal: Refusal) -> bool {
        let now = engine.now();
        let Refusal { status, retry_after, challenges, location, body, cut, .. } = refusal;
        let error = json_error(&body).map(|(_, error)| error);
        let words = String::from_utf8_lossy(&body);
        let said = error.as_ref().map_or(&*words, |error| &error.message);
        let held = self.is_held_by_session(&message);
        let id = message.id();
        let code = error.as_ref().map(|error| error.code);
        let expired = match status {
            StatusCode::NOT_FOUND => match code {
                Some(error_code::INVALID_PARAMS) => false,
                Some(error_code::METHOD_NOT_FOUND | RESOURCE_NOT_FOUND) => !cut && names_session(said),
                Some(_) | None => true,
            },
            StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE => {
                // What broke off may have gone on about something else.
                !cut && !matches!(code, Some(error_code::METHOD_NOT_FOUND | error_code::INVALID_PARAMS))
                    && names_session(said)
            }
            // A new session is tried once; then it is about who asks.
            StatusCode::UNAUTHORIZED => challenges.is_empty() && engine.expiries() == 0,
            _ => false,
        };
        if held && expired {
            if status != StatusCode::NOT_FOUND {
                self.expiry_quirk(engine, &message, status);
            }
            engine.handle_report(now, Report::Expired { id });
            return true;
        }
        if is_about_who_asks(status) {
            let forbidden = status == StatusCode::FORBIDDEN;
            let challenges = &challenges;
            engine.handle_report(now, Report::Unauthorized { id, forbidden, why: said, challenges });
            return true;
        }
        if let (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) = (status, retry_after) {
            let wait = wait.max(SHORTEST_RETRY);
            match id {
                Some(id) => self.after_for(engine, id, wait, Later::Restart(id)),
                // What has no request has no deadline either; only the handshake cannot do without it.
                None if message.method() != Some(method::INITIALIZED) => return true,
                None => {
                    self.after(engine, wait, Later::Send(message));
                }
            }
            return false;
        }
        if self.retry_initialize(engine, &message, said) {
            return true;
        }
        let Some(id) = id else { return true };
        let probe = message.method() == Some(method::DISCOVER) && !engine.has_handshake();
        let modern = |error: &ErrorObject| {
            matches!(
                error.code,
                error_code::UNSUPPORTED_PROTOCOL_VERSION
                    | error_code::HEADER_MISMATCH
                    | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY
            )
        };
        let why = if said.trim_start().starts_with('<') { "" } else { said.trim() };
        let why: Box<str> = match location {
            Some(location) if status.is_redirection() => format!("it points to `{location}`").into(),
            // The body repeats the address, with what secrets it has.
            None if status.is_redirection() => "it points to no address".into(),
            Some(_) | None => why.into(),
        };
        if let Some(error) = error.filter(|error| !probe || !status.is_server_error() || modern(error)) {
            // The exchange tells whose answer it is, whatever id it bears.
            engine.take_refusal(now, id, error, status.is_client_error());
            return true;
        }
        let older = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        let opening = message.method() == Some(method::INITIALIZE) && self.mode == Mode::Streamable;
        if opening && older && !core::mem::replace(&mut self.tried_events, true) {
            self.try_events(engine, Refused { id, status: status.as_u16(), words: why });
            return true;
        }
        engine.handle_report(now, Report::Refused { id, status: status.as_u16(), why: &why });
        true
    }

    /// Whether a message went out under a session id.
    pub(super) fn is_held_by_session(&self, message: &Outgoing) -> bool {
        let modern = message.version().is_some_and(|version| version.era() == Era::Modern);
        self.session_id.is_some() && !modern && message.method() != Some(method::INITIALIZE)
    }

    pub(super) fn expiry_quirk(&mut self, engine: &mut Engine, message: &Outgoing, status: StatusCode) {
        let detail = format!("an expired session was told of by HTTP {}, where 404 is due", status.as_u16());
        engine.transport_quirk(QuirkKind::SessionExpiredStatus, message.method(), detail);
    }

    /// The answer to a request, under a good status, is an error that says that the server forgot the session.
    pub(super) fn expired_by_answer(&mut self, engine: &mut Engine, message: &Outgoing, error: ErrorObject) {
        let Some(id) = message.id() else { return };
        self.expiry_quirk(engine, message, StatusCode::OK);
        engine.take_expiry(engine.now(), id, error);
    }

    /// Whether `initialize` was refused for a session that the server still has, which is ended then.
    pub(super) fn retry_initialize(&mut self, engine: &mut Engine, message: &Outgoing, said: &str) -> bool {
        if message.method() != Some(method::INITIALIZE) || !is_initialized(said) {
            return false;
        }
        let Some(former) = self.former.take() else { return false };
        let detail = "a new `initialize` was refused for the session before, which was ended first then";
        engine.transport_quirk(QuirkKind::AlreadyInitialized, Some(method::INITIALIZE), detail);
        self.delete(engine, &former, message.id());
        true
    }
}

pub(super) fn is_about_who_asks(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The JSON-RPC error that a body is: what some gateway says of itself is none.
fn json_error(body: &[u8]) -> Option<(ResponseId, ErrorObject)> {
    let Ok(Decoded::One(message)) = jsonrpc::decode(body, jsonrpc::MessageLimits::default()) else { return None };
    let versioned = !message.deviations.version;
    match message.body {
        Body::Error { id, error } if versioned || error.code != 0 => Some((id, error)),
        Body::Error { .. } | Body::Result { .. } | Body::Request { .. } | Body::Notification { .. } => None,
    }
}

/// The error that a body answers this request with, where a glance shows that it may be one. An error that bears the id
/// of another request is no answer to this one.
pub(super) fn short_error(body: &[u8], request: &Outgoing) -> Option<ErrorObject> {
    if body.len() > WORDS || !core::str::from_utf8(body).is_ok_and(|body| body.contains("\"error\"")) {
        return None;
    }
    let (id, error) = json_error(body)?;
    match id {
        ResponseId::Exact(id) | ResponseId::Loose(id) if request.id() != Some(id) => None,
        ResponseId::Exact(_) | ResponseId::Loose(_) | ResponseId::Absent | ResponseId::Foreign => Some(error),
    }
}

/// Whether an error is, code and whole message, one that transports are known to give under a good status for a session
/// that they forgot.
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
fn names_session(said: &str) -> bool {
    const GENERIC: &str = "\
        a active an and bad be cannot client code could detail error expired find for found has have header http \
        in invalid is message mcp missing must no not of or please provide reason request required requires \
        server service stale status statuscode such terminated the there this to transport unauthorized \
        unavailable unknown unrecognized valid was with you your";
    // What is said of it.
    const SAID: &str = "\
        again any been closed does exist exists first gone given id ids initialize initialized it longer new node on \
        provided reinitialize session sessionid yet";
    // One of these is among the words.
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
        let Some((word, after)) = rest.split_at_checked(rest.find(between).unwrap_or(rest.len())) else { return false };
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if is("session") || is("sessionid") || negated && is("initialized") {
            // Nor does it go on about something else: "Session 7 of the workshop is full".
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

pub(super) fn is_initialized(said: &str) -> bool {
    said.to_ascii_lowercase().contains("already initialized")
}
