//! What the bodies of responses say. A tool may say anything in its errors, of its own sessions too: words count only
//! where nothing else is said, and under a good status only whole messages that are known.

use crate::jsonrpc::{self, Body, Decoded, Deviations, ErrorObject, Message, Noise, ResponseId};
use crate::machine::http_answer::Error;
use crate::protocol::error_code;

/// The code of 2025-11-25 for a resource that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The class of the JSON-RPC error in a body.
pub(super) fn class(error: Option<&ErrorObject>) -> Error {
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
pub(super) fn error_in(body: &[u8]) -> Option<ErrorObject> {
    let Ok(Decoded::One(Message { body: Body::Error { error, .. }, deviations, .. })) =
        jsonrpc::decode(body, jsonrpc::MessageLimits::default())
    else {
        return None;
    };
    is_error(deviations, &error).then_some(error)
}

/// The error in this message for a request. An error with the id of another request is not a response to this one.
pub(super) fn error_to<'a>(request: u64, decoded: &'a Result<Decoded<'_>, Noise>) -> Option<&'a ErrorObject> {
    let Ok(Decoded::One(Message { body: Body::Error { id, error }, deviations, .. })) = decoded else { return None };
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
pub(super) fn names_session(said: &str) -> bool {
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
        let Some((word, after)) = rest.split_at_checked(rest.find(between).unwrap_or(rest.len())) else { return false };
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
