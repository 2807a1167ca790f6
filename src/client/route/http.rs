//! The router over HTTP: messages and ends of the exchanges of requests.

use alloc::format;
use alloc::string::{String, ToString};
use core::num::NonZero;

use super::super::request_table::{Block, Purpose};
use super::super::signal::{Signal, Signals};
use super::super::transport::{Report, Unauthorized};
use super::super::{Engine, Event, FailureKind, Outcome, RequestError, calls};
use crate::Time;
use crate::jsonrpc::{Decoded, ErrorObject, Noise};
use crate::machine::era_change::Carrier;
use crate::machine::exchange_loss::{self, Lost, Recovery};
use crate::machine::http_refusal::{
    Access, Authority, Authorization, Meaning, Phase, Refused, Status, take_authorization, take_status,
};
use crate::machine::resend::Resend;
use crate::machine::{loss, request};
use crate::text::excerpt;

impl Engine {
    /// Takes the message that came in the exchange of the request of this id, and was read by [`Self::decode`]. A message
    /// that answers nothing by its own id answers that request.
    pub(crate) fn handle_exchange(&mut self, id: u64, decoded: Result<Decoded<'_>, Noise>, bytes: &[u8]) {
        if self.link.takes_messages() {
            self.core.exchange = NonZero::new(id);
            self.on_decoded(decoded, bytes);
            self.core.exchange = None;
            self.write_requests();
        }
    }

    /// Takes a report on the exchange of a request.
    pub(crate) fn handle_report(&mut self, now: Time, report: Report<'_>) {
        self.core.advance(now);
        match report {
            Report::Lost { id, sent, why } => self.on_exchange_lost(id, sent, why),
            Report::Refused { id, status, why } => self.on_status(id, status, why),
            Report::Expired { id } => self.on_expired(id),
        }
        self.write_requests();
    }

    /// Takes a refusal for lack of authorization. Returns what follows: where the request is held, the binding sends it
    /// again.
    pub(crate) fn handle_unauthorized(&mut self, now: Time, refused: Unauthorized<'_>) -> Authorization {
        self.core.advance(now);
        let decision = self.on_unauthorized(refused);
        self.write_requests();
        decision
    }

    /// There is no token: the requests that wait for one end, for this reason.
    pub(crate) fn deny(&mut self, now: Time, why: &str) {
        self.core.advance(now);
        calls::deny(&mut self.core, why);
        self.write_requests();
    }

    /// Takes the error with which this request was refused, whatever id it has. With `headers`, a call was refused
    /// because of headers that the tool's schema requires. The schema may have changed, so the tools are listed again,
    /// once, and the call is made again (specification 2026-07-28, "Streamable HTTP", Client Behavior).
    pub(crate) fn take_refusal(&mut self, now: Time, id: u64, error: ErrorObject, headers: bool) {
        self.core.advance(now);
        if self.core.is_sent(id) {
            let renewed = if headers { calls::decide_block(&self.core, id, Block::Headers) } else { Resend::End };
            match renewed {
                Resend::Again => {
                    let outcome = Outcome::Error(RequestError::Server(error));
                    let signals = calls::block(&mut self.core, id, Block::Headers, outcome);
                    self.act(signals);
                }
                Resend::End => {
                    let renewed = self.handshake.on_response(&mut self.core, id, Carrier::HttpError, Some(&error));
                    self.answer(id, Err(RequestError::Server(error)));
                    self.act(renewed);
                }
            }
        }
        self.write_requests();
    }

    /// Takes a 2xx response to this request that says that the session expired. The request may have run: it ends with
    /// this response, unless it may run twice.
    pub(crate) fn take_expiry(&mut self, now: Time, id: u64, error: ErrorObject) {
        self.core.advance(now);
        if self.core.is_established() && self.core.is_sent(id) {
            calls::on_expired_response(&mut self.core, id, error);
            self.act(Signals::one(Signal::Expired(None)));
        }
        self.write_requests();
    }

    /// A request cannot be sent: the client cannot prove that its token is its own.
    #[cfg(feature = "http")]
    pub(crate) fn handle_unproved(&mut self, now: Time, id: u64, why: &str) {
        let core = &mut self.core;
        core.advance(now);
        let Some(open) = core.requests.get(id) else { return };
        match exchange_loss::take(classify_lost(&open.purpose)) {
            Recovery::Replay => calls::step(core, id, request::Input::Denied),
            recovery
            @ (Recovery::Handshake | Recovery::List | Recovery::EndStream | Recovery::Fail | Recovery::End) => {
                let words = format!("it was not sent ({why})");
                self.recover(id, recovery, request::Input::Withdrawn, why, words);
            }
        }
        self.write_requests();
    }

    /// The exchange of a request broke.
    fn on_exchange_lost(&mut self, id: u64, sent: bool, why: &str) {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id).filter(|_| core.is_sent(id)) else { return };
        match exchange_loss::take(classify_lost(&open.purpose)) {
            Recovery::Replay => calls::on_exchange_lost(core, id, sent),
            recovery
            @ (Recovery::Handshake | Recovery::List | Recovery::EndStream | Recovery::Fail | Recovery::End) => {
                let words = format!("the exchange broke before its response ({why})");
                self.recover(id, recovery, request::Input::Lost, why, words);
            }
        }
    }

    /// A request of the engine ended without a response.
    fn recover(&mut self, id: u64, recovery: Recovery, input: request::Input, why: &str, words: String) {
        let core = &mut self.core;
        let Some(open) = core.end_request(id, input, "") else { return };
        let signals = match (recovery, open.purpose) {
            (Recovery::List, Purpose::List { family, cursor }) => self.lists.on_broken(core, family, cursor, words),
            (Recovery::Handshake, purpose) => self.handshake.on_broken(core, &purpose, why),
            (Recovery::EndStream, _) => self.subscriptions.on_ended(core, id, None),
            (Recovery::Fail, purpose) => self.fail(purpose, words),
            (Recovery::End | Recovery::List | Recovery::Replay, _) => Signals::NONE,
        };
        self.act(signals);
    }

    /// What the server refused.
    fn refused(&self, id: Option<u64>) -> Refused {
        match id.and_then(|id| self.core.requests.get(id)).map(|open| &open.purpose) {
            None => Refused::Nothing,
            Some(Purpose::Discover(_) | Purpose::Initialize(_)) => Refused::Handshake,
            Some(Purpose::List { .. }) => Refused::List,
            Some(
                Purpose::SetLevel
                | Purpose::Rediscover
                | Purpose::Listen { .. }
                | Purpose::Subscribe(_)
                | Purpose::Unsubscribe(_)
                | Purpose::CancelTask(_),
            ) => Refused::Engine,
            Some(Purpose::Keepalive(_)) => Refused::Keepalive,
            Some(Purpose::Call(_)) => Refused::Call,
        }
    }

    /// The server refused a request with a status only.
    fn on_status(&mut self, id: u64, status: u16, why: &str) {
        if !self.core.is_sent(id) {
            return;
        }
        let refused = self.refused(Some(id));
        let core = &mut self.core;
        let class = match status {
            200..300 => Status::Success,
            502 | 504 => Status::Gateway,
            _ => Status::Other,
        };
        let error = RequestError::Status { status, message: excerpt(why).into() };
        match take_status(refused, class) {
            Meaning::Handshake => {
                if let Some(open) = core.end_request(id, request::Input::Answered, "") {
                    let signals = self.handshake.on_status(core, &open.purpose, status, error.to_string().into());
                    self.act(signals);
                }
            }
            Meaning::Lost => self.on_exchange_lost(id, true, &error.to_string()),
            Meaning::Invalid => calls::on_invalid(core, id, error.to_string()),
            Meaning::Failed => self.answer(id, Err(error)),
        }
    }

    /// The session expired: one recovery for all requests.
    fn on_expired(&mut self, id: Option<u64>) {
        let core = &mut self.core;
        if !core.is_established() || id.is_some_and(|id| !core.is_sent(id)) {
            return;
        }
        self.act(Signals::one(Signal::Expired(id)));
    }

    /// The server refused a request for lack of authorization.
    fn on_unauthorized(&mut self, refused: Unauthorized<'_>) -> Authorization {
        let Unauthorized { id, forbidden, why, challenges, authority } = refused;
        if id.is_some_and(|id| !self.core.is_sent(id)) {
            return Authorization::Nothing;
        }
        let refused = self.refused(id);
        let connecting = self.link.has_transport() && !self.core.is_ready();
        let phase = if connecting { Phase::Connecting } else { Phase::Connected };
        let access = match (forbidden, challenges.is_empty()) {
            (false, _) => Access::Required,
            (true, false) => Access::Insufficient,
            (true, true) => Access::Denied,
        };
        let core = &mut self.core;
        let again = id.map_or(Resend::End, |id| calls::decide_block(core, id, Block::Authorization));
        let decision = take_authorization(refused, phase, access, again, authority);
        let status = if forbidden { 403 } else { 401 };
        let error = RequestError::Status { status, message: excerpt(why).into() };
        // A client that authorizes itself needs nothing of the embedder.
        let event = (authority != Authority::Client).then(|| Event::Unauthorized {
            request: id.and_then(|id| core.handle_of(id)),
            forbidden,
            why: excerpt(why).into(),
            challenges: challenges.into(),
        });
        let signals = match (decision, id) {
            (Authorization::Block, Some(id)) => {
                event.into_iter().for_each(|event| core.event(event));
                calls::block(core, id, Block::Authorization, Outcome::Error(error))
            }
            (Authorization::EndConnection, _) => {
                event.into_iter().for_each(|event| core.event(event));
                let (kind, says) = match access {
                    Access::Required => (FailureKind::Unauthorized, "requires authorization"),
                    Access::Insufficient | Access::Denied => (FailureKind::Forbidden, "refused access"),
                };
                let separator = if why.is_empty() { "" } else { ": " };
                let message = format!("{} {says} (HTTP {status}){separator}{}", core.server_name(), excerpt(why));
                let transport = match authority {
                    Authority::Client => loss::Transport::Authorizing,
                    Authority::Embedder | Authority::Nobody => loss::Transport::Open,
                };
                Signals::lost(kind, message, transport)
            }
            (Authorization::ByStatus, Some(id)) => {
                event.into_iter().for_each(|event| core.event(event));
                self.on_status(id, status, why);
                Signals::NONE
            }
            (Authorization::Block | Authorization::ByStatus | Authorization::Hold | Authorization::Nothing, _) => {
                Signals::NONE
            }
        };
        self.act(signals);
        decision
    }
}

const fn classify_lost(purpose: &Purpose) -> Lost {
    match purpose {
        Purpose::Discover(_) | Purpose::Initialize(_) => Lost::Handshake,
        Purpose::List { .. } => Lost::List,
        Purpose::Listen { .. } => Lost::Stream,
        Purpose::Subscribe(_) | Purpose::Unsubscribe(_) | Purpose::SetLevel | Purpose::Rediscover => Lost::Reported,
        Purpose::Keepalive(_) | Purpose::CancelTask(_) => Lost::Unneeded,
        Purpose::Call(_) => Lost::Call,
    }
}
