//! Refusals for lack of authorization, and what follows when there is a token.

use http::StatusCode;

use super::action::ExchangeId;
use super::answer::no_answer;
use super::exchange::{ExchangeKind, Reply};
use super::parts::Http;
use super::response::Refusal;
use super::tokens::Sent;
use crate::client::{Engine, Outgoing, Unauthorized};
use crate::machine::get_stream;
use crate::machine::http_end::End;
use crate::machine::http_refusal::{Authority, Authorization};
use crate::protocol::Era;

impl Http {
    /// A request was refused for lack of authorization. Returns what follows.
    pub(super) fn authorize(
        &mut self,
        engine: &mut Engine,
        id: Option<u64>,
        sent: Sent,
        refusal: &Refusal,
        why: &str,
    ) -> Authorization {
        let is_modern = engine.server().is_some_and(|server| server.era() == Era::Modern);
        let (authority, reason) = self.tokens.authority(engine.now(), is_modern, sent, refusal);
        let forbidden = refusal.status == StatusCode::FORBIDDEN;
        let why = reason.as_deref().unwrap_or(why);
        let refused = Unauthorized { id, forbidden, why, challenges: &refusal.challenges, authority };
        let decision = engine.handle_unauthorized(engine.now(), refused);
        if let (Authorization::Hold, Some(id), Some(waiting)) = (decision, id, self.tokens.waiting()) {
            waiting.requests.push(id);
        }
        decision
    }

    /// A notification or a response was refused, and waits for a token.
    pub(super) fn hold_message(&mut self, engine: &mut Engine, message: Outgoing) {
        let limit = engine.options().limits.in_flight.max(1);
        match self.tokens.waiting().filter(|waiting| waiting.messages.len() < limit) {
            Some(waiting) => waiting.messages.push(message),
            None => engine.count_undelivered(),
        }
    }

    /// The GET stream was refused with 401. Returns what that means to it.
    pub(super) fn stream_refused(&mut self, engine: &Engine, sent: Sent, refusal: &Refusal) -> get_stream::Input {
        let is_modern = engine.server().is_some_and(|server| server.era() == Era::Modern);
        match self.tokens.authority(engine.now(), is_modern, sent, refusal) {
            (Authority::Client, _) => get_stream::Input::Unauthorized,
            (Authority::Embedder | Authority::Nobody, _) => get_stream::Input::NotOffered,
        }
    }

    /// The connection is gone: nothing of it waits any more.
    pub(super) fn forget_waiting(&mut self) {
        if let Some(waiting) = self.tokens.waiting() {
            *waiting = super::waiting::Waiting::default();
        }
    }

    /// Reports the result of the authorization to held requests and messages. Returns whether there was a result.
    pub(super) fn tell_waiting(&mut self, engine: &mut Engine) -> bool {
        let Some(verdict) = self.tokens.take_verdict() else { return false };
        let waiting = self.tokens.waiting().map(core::mem::take).unwrap_or_default();
        match verdict {
            Ok(()) => {
                for id in waiting.requests {
                    self.post_again(engine, id);
                }
                for message in waiting.messages {
                    self.post(message, 0);
                }
                self.stream_step(engine, get_stream::Input::Authorized);
                // A client that is closed needs no token any more.
                let _ = engine.authorized(engine.now());
            }
            Err(why) => {
                for id in waiting.requests {
                    no_answer(engine, Some(id), StatusCode::UNAUTHORIZED.as_u16(), &why);
                }
                waiting.messages.iter().for_each(|_| engine.count_undelivered());
                engine.deny(engine.now(), &why);
            }
        }
        true
    }

    /// Exchanges whose proofs were signed are sent; those whose proofs were not are over.
    pub(super) fn send_signed(&mut self, engine: &mut Engine) {
        while let Some((id, is_signed)) = self.tokens.next_signed() {
            if self.exchanges.get(id).is_none_or(|it| !matches!(it.reply, Reply::Unsent)) {
                self.tokens.forget(id);
            } else if is_signed {
                self.outbox.request(id);
            } else if let Some(it) = self.take(id) {
                let why = "the proof of possession was not signed";
                match it.purpose.request() {
                    Some(request) => engine.handle_unproved(engine.now(), request, why),
                    None => self.end(engine, it, End::Unreached, Some(why)),
                }
            }
        }
    }

    /// Sends an exchange, or has its proof signed first.
    pub(super) fn prove(&mut self, id: ExchangeId) -> bool {
        let Some(it) = self.exchanges.get(id) else { return false };
        let method = match &it.purpose {
            ExchangeKind::Message(_) => "POST",
            ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => "GET",
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => "DELETE",
        };
        self.tokens.prepare(id, method, &it.url)
    }
}
