//! The router over HTTP: messages and ends of the exchanges of requests.

use alloc::boxed::Box;
use alloc::format;
use core::num::NonZero;

use super::super::core::{Stage, excerpt};
use super::super::request_table::{Block, Purpose};
use super::super::signal::{Signal, Signals};
use super::super::transport::Report;
use super::super::{Challenge, Engine, Event, FailureKind, Outcome, RequestError, calls};
use crate::Time;
use crate::jsonrpc::{Decoded, ErrorObject, Noise};
use crate::machine::{link, loss};

impl Engine {
    /// Takes the message that came in the exchange of the request of this id, and was read by [`Self::decode`]. A message
    /// that answers nothing by its own id answers that request.
    pub(crate) fn handle_exchange(&mut self, id: u64, decoded: Result<Decoded<'_>, Noise>, bytes: &[u8]) {
        if self.link.is_connected() {
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
            Report::Unauthorized { id, forbidden, why, challenges } => {
                self.on_unauthorized(id, forbidden, why, challenges);
            }
        }
        self.write_requests();
    }

    /// Takes the error with which this request was refused, whatever id it has. With `headers`, a call was refused
    /// because of headers that the tool's schema requires. The schema may have changed, so the tools are listed again,
    /// once, and the call is made again (specification 2026-07-28, "Streamable HTTP", Client Behavior).
    pub(crate) fn take_refusal(&mut self, now: Time, id: u64, error: ErrorObject, headers: bool) {
        self.core.advance(now);
        if self.core.is_sent(id) {
            if headers && calls::may_renew_headers(&mut self.core, id) {
                let outcome = Outcome::Error(RequestError::Server(error));
                let signals = calls::block(&mut self.core, id, Block::Headers, outcome);
                self.act(signals);
            } else {
                self.answer(id, Err(RequestError::Server(error)));
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

    /// The exchange of a request broke: a request that only reads is sent again, with a new id.
    fn on_exchange_lost(&mut self, id: u64, sent: bool, why: &str) {
        let core = &mut self.core;
        if !core.is_sent(id) {
            return;
        }
        if core.requests.call_mut(id).is_some() {
            return calls::on_exchange_lost(core, id, sent);
        }
        let Some(open) = core.requests.remove(id) else { return };
        let words = format!("the exchange broke before its answer ({why})");
        let signals = match open.purpose {
            Purpose::List { family, cursor } => self.lists.on_broken(core, family, cursor, words),
            Purpose::Discover(_) | Purpose::Initialize(_) => self.handshake.on_broken(core, &open.purpose, why),
            Purpose::Listen { .. } => self.subscriptions.on_ended(core, id, None),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                self.subscriptions.on_response(core, &uri, Some(&words));
                Signals::NONE
            }
            // The keepalive's timer handles a missing response.
            Purpose::Keepalive(_) | Purpose::SetLevel | Purpose::Call(_) => Signals::NONE,
        };
        self.act(signals);
    }

    /// The server refused a request with a status only.
    fn on_status(&mut self, id: u64, status: u16, why: &str) {
        let core = &mut self.core;
        if !core.is_sent(id) {
            return;
        }
        let separator = if why.is_empty() { "" } else { ": " };
        let words = format!("HTTP {status}{separator}{}", excerpt(why));
        let handshake = self.handshake.request() == Some(id);
        let Some(open) = core.requests.get(id) else { return };
        match open.purpose {
            Purpose::Discover(_) | Purpose::Initialize(_) if handshake => {
                if let Some(open) = core.requests.remove(id) {
                    let signals = self.handshake.on_status(core, &open.purpose, status, words.into());
                    self.act(signals);
                }
            }
            // A gateway reports that it got no response; the request may have run.
            Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::Call(_)
                if matches!(status, 502 | 504) =>
            {
                self.on_exchange_lost(id, true, &words);
            }
            Purpose::Call(_) if (200..300).contains(&status) => calls::on_invalid(core, id, words),
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::Call(_) => self.answer(id, Err(RequestError::Status { status, message: excerpt(why).into() })),
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
    fn on_unauthorized(&mut self, id: Option<u64>, forbidden: bool, why: &str, challenges: &[Challenge]) {
        let core = &mut self.core;
        if id.is_some_and(|id| !core.is_sent(id)) {
            return;
        }
        let why = excerpt(why);
        let status = if forbidden { 403 } else { 401 };
        let separator = if why.is_empty() { "" } else { ": " };
        let open = id.and_then(|id| core.requests.get(id));
        let request = id.and_then(|id| core.handle_of(id));
        let opening = self.link.state() == link::State::Opening;
        let connecting = opening || matches!(core.stage, Stage::Handshake | Stage::Discovery);
        if id.is_none() && !connecting {
            return;
        }
        // Only requests of the handshake and for lists end the connection.
        let needed = open.is_none_or(|open| {
            matches!(open.purpose, Purpose::Discover(_) | Purpose::Initialize(_) | Purpose::List { .. })
        });
        let event = Event::Unauthorized { request, forbidden, why: (&*why).into(), challenges: challenges.into() };
        core.event(event);
        let final_word = forbidden && challenges.is_empty();
        let blocked = request.is_some() && !final_word && id.is_some_and(|id| calls::may_await_authorization(core, id));
        let signals = match id {
            Some(id) if blocked => {
                let error = RequestError::Status { status, message: (&*why).into() };
                calls::block(core, id, Block::Authorization, Outcome::Error(error))
            }
            Some(_) | None if connecting && needed => {
                let kind = if forbidden { FailureKind::Forbidden } else { FailureKind::Unauthorized };
                let wants = if forbidden { "refuses who asks" } else { "wants to know who asks" };
                let message = format!("{} {wants} (HTTP {status}){separator}{why}", core.server_name());
                Signals::lost(kind, Box::<str>::from(message), loss::Transport::Open)
            }
            Some(id) => {
                self.on_status(id, status, &why);
                Signals::NONE
            }
            None => Signals::NONE,
        };
        self.act(signals);
    }
}
