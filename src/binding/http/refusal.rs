//! Answers that refuse: whose error it is, and whether it is about the session.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use http::StatusCode;

use super::exchange::{Refusal, Refused};
use super::{HttpSession, Later, Mode, SHORTEST_RETRY};
use crate::jsonrpc::{self, Body, Decoded, ErrorObject};
use crate::machine::QuirkKind;
use crate::protocol::{Era, error_code, method};
use crate::session::{Outgoing, Transport};

/// How much is kept of a refusal's body that need not be a message.
pub(super) const WORDS: usize = 64 << 10;

/// The code by which 2025-11-25 says that a resource does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

impl HttpSession {
    /// A message was refused by its status; tells whether that is the end of it.
    pub(super) fn refused(&mut self, message: Outgoing, refusal: Refusal) -> bool {
        let now = self.session.now();
        let Refusal { status, retry_after, challenges, location, body } = refusal;
        let error = json_error(&body);
        let words = String::from_utf8_lossy(&body);
        let said = error.as_ref().map_or(&*words, |error| &error.message);
        let held = self.is_held_by_session(&message);
        let id = message.id();
        let told = || error.clone().unwrap_or_else(|| ErrorObject::new(0, said));
        let expired = match status {
            StatusCode::NOT_FOUND => error.as_ref().is_none_or(|error| {
                // What a resource is not found by names no session.
                !is_of_a_request(error) && (error.code != RESOURCE_NOT_FOUND || is_expiry(error, false))
            }),
            StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE => is_expiry(&told(), false),
            // A new session is tried once; then it is about who asks.
            StatusCode::UNAUTHORIZED => challenges.is_empty() && self.session.expiries() == 0,
            _ => false,
        };
        if held && expired {
            if status != StatusCode::NOT_FOUND {
                self.expiry_quirk(&message, status);
            }
            self.session.handle_transport(now, Transport::Expired { id });
            return true;
        }
        if is_about_who_asks(status) {
            let forbidden = status == StatusCode::FORBIDDEN;
            let challenges = &challenges;
            self.session.handle_transport(now, Transport::Unauthorized { id, forbidden, why: said, challenges });
            return true;
        }
        if let (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) = (status, retry_after) {
            // What has no request has no deadline either; only the handshake cannot do without it.
            if id.is_none() && message.method() != Some(method::INITIALIZED) {
                return true;
            }
            let wait = wait.max(SHORTEST_RETRY);
            match id {
                Some(id) => self.after_for(id, wait, Later::Send(message)),
                None => drop(self.after(wait, Later::Send(message))),
            }
            return false;
        }
        if self.mend_initialize(&message, said) {
            return true;
        }
        let Some(id) = id else { return true };
        let probe = message.method() == Some(method::DISCOVER) && !self.session.has_handshake();
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
            Some(_) | None => why.into(),
        };
        if let Some(error) = error.filter(|error| !probe || !status.is_server_error() || modern(error)) {
            // The exchange tells whose answer it is, whatever id it bears.
            self.session.take_error(now, id, error);
            return true;
        }
        let older = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        let opening = message.method() == Some(method::INITIALIZE) && self.mode == Mode::Streamable;
        if opening && older && !core::mem::replace(&mut self.tried_events, true) {
            self.try_events(Refused { message, status: status.as_u16(), words: why });
            return true;
        }
        self.session.handle_transport(now, Transport::Refused { id, status: status.as_u16(), why: &why });
        true
    }

    /// Whether a message went out under a session id.
    pub(super) fn is_held_by_session(&self, message: &Outgoing) -> bool {
        let modern = message.version().is_some_and(|version| version.era() == Era::Modern);
        self.session_id.is_some() && !modern && message.method() != Some(method::INITIALIZE)
    }

    pub(super) fn expiry_quirk(&mut self, message: &Outgoing, status: StatusCode) {
        let detail = format!("an expired session was told of by HTTP {}, where 404 is due", status.as_u16());
        self.session.transport_quirk(QuirkKind::SessionExpiredStatus, message.method(), detail);
    }

    /// The server forgot the session, and says so by an error under a good status.
    pub(super) fn expired(&mut self, message: &Outgoing) {
        self.expiry_quirk(message, StatusCode::OK);
        self.session.handle_transport(self.session.now(), Transport::Expired { id: message.id() });
    }

    /// Whether `initialize` was refused for a session that the server still has, which is ended then.
    pub(super) fn mend_initialize(&mut self, message: &Outgoing, said: &str) -> bool {
        if message.method() != Some(method::INITIALIZE) || !is_initialized(said) {
            return false;
        }
        let Some(former) = self.former.take() else { return false };
        let detail = "a new `initialize` was refused for the session before, which was ended first then";
        self.session.transport_quirk(QuirkKind::AlreadyInitialized, Some(method::INITIALIZE), detail);
        self.delete(&former, Some(message.clone()));
        true
    }
}

pub(super) fn is_about_who_asks(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The JSON-RPC error that a body is: what some gateway says of itself is none.
fn json_error(body: &[u8]) -> Option<ErrorObject> {
    let Ok(Decoded::One(message)) = jsonrpc::decode(body, jsonrpc::Limits::default()) else { return None };
    let versioned = !message.deviations.version;
    if let Body::Error { error, .. } = message.body { Some(error).filter(|it| versioned || it.code != 0) } else { None }
}

/// As `json_error`, where a glance shows that it may be one.
pub(super) fn short_error(body: &[u8]) -> Option<ErrorObject> {
    let short = body.len() <= WORDS && body.windows(b"\"error\"".len()).any(|part| part == b"\"error\"");
    if short { json_error(body) } else { None }
}

/// Whether an error is about what was asked, whoever asked it.
const fn is_of_a_request(error: &ErrorObject) -> bool {
    matches!(error.code, error_code::METHOD_NOT_FOUND | error_code::INVALID_PARAMS)
}

/// Whether an error says that the server forgot the session. Where the status is good, it has to say so plainly.
pub(super) fn is_expiry(error: &ErrorObject, good: bool) -> bool {
    const PLAIN: [&str; 12] = [
        "session not found",
        "session id not found",
        "no valid session",
        "invalid session",
        "unknown session",
        "session expired",
        "session has expired",
        "session is invalid",
        "session terminated",
        "session has been terminated",
        "session does not exist",
        "invalid or missing session",
    ];
    if is_of_a_request(error) {
        return false;
    }
    let said = error.message.to_ascii_lowercase();
    let fresh = said == "not initialized"
        || ["server", "session"].iter().any(|it| said.contains(&format!("{it} not initialized")));
    fresh || if good { PLAIN.iter().any(|plain| said.contains(plain)) } else { said.contains("session") }
}

pub(super) fn is_initialized(said: &str) -> bool {
    said.to_ascii_lowercase().contains("already initialized")
}
