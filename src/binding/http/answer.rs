//! Judges responses to messages: classifies them for the tables, and applies the decisions.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use http::StatusCode;

use super::exchange::ExchangeKind;
use super::limits::{EXCERPT, RETRY, SHORTEST_RETRY, WORDS};
use super::parts::Http;
use super::report::no_answer;
use super::response::Refusal;
use super::send::is_modern;
use super::sse::Refused;
use super::timers::Due;
use super::tokens::Sent;
use super::words::{class, error_in, error_to, is_initialized, is_known_expiry, names_session};
use crate::client::{Engine, Outgoing, Report};
use crate::jsonrpc::{Decoded, ErrorObject, Noise};
use crate::machine::http_answer::{Expiry, Meaning, Post, Session, Status, Words, take_expiry, take_meaning};
use crate::machine::{QuirkKind, http_initialized, http_sse};
use crate::protocol::method;

impl Http {
    /// The complete response to a request arrived, as JSON.
    pub(super) fn answered(&mut self, engine: &mut Engine, message: &Outgoing, status: u16, body: &[u8]) {
        let Some(id) = message.id() else { return };
        let decoded = engine.decode(body);
        if let Some(error) = self.concerned(engine, message, &decoded, body.len()) {
            return self.take_error(engine, message, &error);
        }
        engine.handle_exchange(id, decoded, body);
        if engine.is_sent(id) {
            let excerpt = String::from_utf8_lossy(body.get(..body.len().min(EXCERPT)).unwrap_or(body));
            let why = format!("the body is no answer to the request: {}", excerpt.trim());
            no_answer(engine, Some(id), status, &why);
        }
    }

    /// The error in a body with a success status, if it concerns the transport and not the engine.
    pub(super) fn concerned(
        &self,
        engine: &Engine,
        message: &Outgoing,
        decoded: &Result<Decoded<'_>, Noise>,
        length: usize,
    ) -> Option<ErrorObject> {
        let error = message.id().and_then(|id| error_to(id, decoded)).filter(|_| length <= WORDS)?;
        match self.judge(engine, message, error) {
            (Expiry::No, Meaning::EndFormerAs(_)) => Some(error.clone()),
            (Expiry::No, _) => None,
            (
                Expiry::Unprocessed | Expiry::UnprocessedByStatus | Expiry::UnprocessedAs(_) | Expiry::AnsweredAs(_),
                _,
            ) => Some(error.clone()),
        }
    }

    /// What an error with a success status means.
    fn judge(&self, engine: &Engine, message: &Outgoing, error: &ErrorObject) -> (Expiry, Meaning) {
        let words = if is_known_expiry(error) { Words::NoSession } else { Words::Other };
        let session = self.session_of(engine, message, Status::Good);
        let post = self.post_of(engine, message, &error.message);
        let class = class(Some(error));
        (take_expiry(Status::Good, session, words, class), take_meaning(Status::Good, post, class))
    }

    /// Takes an error with a success status that concerns the transport.
    pub(super) fn take_error(&mut self, engine: &mut Engine, message: &Outgoing, error: &ErrorObject) {
        match self.judge(engine, message, error) {
            (Expiry::No, Meaning::EndFormerAs(kind)) => self.end_former(engine, kind, message),
            (Expiry::AnsweredAs(kind), _) => {
                expiry_quirk(engine, kind, message, StatusCode::OK);
                if let Some(id) = message.id() {
                    engine.take_expiry(engine.now(), id, error.clone());
                }
            }
            (Expiry::No | Expiry::Unprocessed | Expiry::UnprocessedByStatus | Expiry::UnprocessedAs(_), _) => {}
        }
    }

    /// A message was refused by its status.
    pub(super) fn refused(
        &mut self,
        engine: &mut Engine,
        message: Outgoing,
        sent: Sent,
        refusal: &Refusal,
        broke: bool,
    ) {
        let now = engine.now();
        let (id, status, cut) = (message.id(), refusal.answer_status(), refusal.is_cut(broke));
        let error = error_in(&refusal.body);
        let words = String::from_utf8_lossy(&refusal.body);
        let said = error.as_ref().map_or(&*words, |error| &error.message);
        let said = &*self.tokens.without_secrets(said);
        let session = self.session_of(engine, &message, status);
        // A truncated text may have continued with another subject.
        let no_session = session != Session::None && !cut && names_session(said);
        let about = if no_session { Words::NoSession } else { Words::Other };
        match take_expiry(status, session, about, class(error.as_ref())) {
            Expiry::No => {}
            Expiry::Unprocessed | Expiry::AnsweredAs(_) => return engine.handle_report(now, Report::Expired { id }),
            Expiry::UnprocessedByStatus => {
                if let (Some(method), Some(_)) = (message.method(), id) {
                    self.session.add_not_found(method);
                }
                return engine.handle_report(now, Report::Expired { id });
            }
            Expiry::UnprocessedAs(kind) => {
                expiry_quirk(engine, kind, &message, refusal.status);
                return engine.handle_report(now, Report::Expired { id });
            }
        }
        match take_meaning(status, self.post_of(engine, &message, said), class(error.as_ref())) {
            Meaning::Deliver | Meaning::Nothing => {}
            Meaning::Authorize => {
                let message = Some(message).filter(|_| id.is_none());
                self.authorize(engine, id, message, sent, refusal, said);
            }
            Meaning::Retry => {
                self.retry(engine, message, refusal.retry_after.unwrap_or(RETRY).max(SHORTEST_RETRY));
            }
            Meaning::EndFormerAs(kind) => self.end_former(engine, kind, &message),
            Meaning::Answer => take_refusal(engine, id, error, false),
            Meaning::RenewHeaders => take_refusal(engine, id, error, true),
            Meaning::RefusedAsSse => {
                if let Some(id) = id {
                    self.sse.refuse(Refused {
                        id,
                        status: refusal.status.as_u16(),
                        words: refusal_words(refusal, said),
                    });
                    self.sse_step(engine, http_sse::Input::RefusedAsSse, "", b"");
                }
            }
            Meaning::Received => self.initialized_step(engine, http_initialized::Input::Answered, ""),
            Meaning::Refuse => no_answer(engine, id, refusal.status.as_u16(), &refusal_words(refusal, said)),
        }
    }

    /// The session in which a message was sent.
    fn session_of(&self, engine: &Engine, message: &Outgoing, status: Status) -> Session {
        let method = message.method();
        if self.session.id().is_none() || is_modern(message) || method == Some(method::INITIALIZE) {
            return Session::None;
        }
        let renewed = match status {
            Status::Unchallenged => engine.has_expired(),
            Status::NotFound => method.is_some_and(|method| self.session.is_not_found(method)),
            Status::Good
            | Status::BadRequest
            | Status::Unauthorized
            | Status::NotAllowed
            | Status::Busy
            | Status::Client
            | Status::Unavailable
            | Status::UnavailableNow
            | Status::Server
            | Status::Other => false,
        };
        if message.id().is_some_and(|id| engine.is_resent(id)) {
            Session::Resent
        } else if renewed {
            Session::Renewed
        } else {
            Session::Held
        }
    }

    fn post_of(&self, engine: &Engine, message: &Outgoing, said: &str) -> Post {
        match (message.id(), message.method()) {
            (Some(_), Some(method::INITIALIZE)) if self.session.has_former() && is_initialized(said) => {
                Post::InitializeAgain
            }
            (Some(_), Some(method::INITIALIZE)) => Post::Initialize,
            (Some(_), Some(method::DISCOVER)) if !engine.has_handshake() => Post::Discover,
            (Some(_), Some(method::TOOLS_CALL)) if is_modern(message) => Post::ModernCall,
            (Some(_), _) => Post::Request,
            (None, Some(method::INITIALIZED)) => Post::Initialized,
            (None, _) => Post::OneWay,
        }
    }

    /// Sends a message again after this wait.
    fn retry(&mut self, engine: &Engine, message: Outgoing, wait: Duration) {
        match message.id() {
            Some(id) => self.pause(engine, id, wait, None),
            None => {
                self.timers.arm(engine.now() + wait, Due::SendInitialized);
                self.initialized_again = Some(Box::new(message));
            }
        }
    }

    /// `initialize` was refused because of the previous session, which is ended first.
    fn end_former(&mut self, engine: &mut Engine, kind: QuirkKind, message: &Outgoing) {
        let (Some(former), Some(id)) = (self.session.take_former(), message.id()) else { return };
        let detail = "a new `initialize` was refused for the session before, which was ended first then";
        engine.transport_quirk(kind, Some(method::INITIALIZE), detail);
        self.delete(ExchangeKind::DeleteFormer(id, former));
    }
}

fn expiry_quirk(engine: &mut Engine, kind: QuirkKind, message: &Outgoing, status: StatusCode) {
    let detail = format!("an expired session was told of by HTTP {}, where 404 is due", status.as_u16());
    engine.transport_quirk(kind, message.method(), detail);
}

/// The text of a refusal that may be shown.
fn refusal_words(refusal: &Refusal, said: &str) -> Box<str> {
    match &refusal.location {
        Some(location) if refusal.status.is_redirection() => format!("it points to `{location}`").into(),
        // The body repeats the URL with its secrets.
        None if refusal.status.is_redirection() => "it points to no address".into(),
        Some(_) | None if said.trim_start().starts_with('<') => "".into(),
        Some(_) | None => said.trim().into(),
    }
}

/// The error in a refusal is the response, whatever its id.
fn take_refusal(engine: &mut Engine, id: Option<u64>, error: Option<ErrorObject>, headers: bool) {
    if let (Some(id), Some(error)) = (id, error) {
        engine.take_refusal(engine.now(), id, error, headers);
    }
}
