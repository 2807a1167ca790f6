//! Refusals for lack of authorization, and what waits for a token.

use alloc::vec::Vec;

use http::StatusCode;

use super::connection::Http;
use super::response::{Refusal, no_answer};
use super::tokens::Sent;
use crate::client::{AUTHORIZATIONS, Engine, Outgoing, Report, Unauthorized};
use crate::machine::http_connection::get_stream;
use crate::machine::http_refusal::challenge::Step;
use crate::machine::http_refusal::{Authority, Authorization};
use crate::protocol::Era;

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
    fn send_again(&mut self, held: Held) {
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

impl Http {
    /// A request or a message was refused for lack of authorization. `message` is there if it is a notification or a
    /// response.
    pub(super) fn authorize(
        &mut self,
        engine: &mut Engine,
        id: Option<u64>,
        message: Option<Outgoing>,
        sent: Sent,
        refusal: &Refusal,
        why: &str,
    ) {
        let again = self.again(engine, id, sent);
        let is_modern = is_modern(engine);
        let (authority, reason, step) = self.tokens.authority(engine.now(), is_modern, sent, refusal, again);
        let forbidden = refusal.status == StatusCode::FORBIDDEN;
        let why = reason.as_deref().unwrap_or(why);
        let refused = Unauthorized { id, forbidden, why, challenges: &refusal.challenges, authority };
        let decision = engine.handle_unauthorized(refused);
        let used = sent.refused.saturating_add(1);
        let refused = match (decision, id, message) {
            (Authorization::Block, Some(id), _) => Held::Call(id),
            (Authorization::Hold, Some(id), _) => Held::Request(id, used),
            (Authorization::Hold, None, Some(message)) => Held::Message(message, used),
            (Authorization::EndConnection, ..) => Held::Connection,
            (Authorization::Block | Authorization::Hold | Authorization::ByStatus | Authorization::Nothing, ..) => {
                return;
            }
        };
        self.hold(engine, refused, authority, step);
    }

    /// Sends again what was refused, lets it wait for a token, or drops it. Returns whether it is sent again at some time.
    fn hold(&mut self, engine: &mut Engine, refused: Held, authority: Authority, step: Step) -> bool {
        let limit = engine.options().limits.in_flight.max(1);
        let Some(waiting) = self.tokens.waiting() else { return false };
        let is_ready = matches!(step, Step::Resend | Step::ResendWithNonce);
        match refused {
            // The next handshake is another operation.
            Held::Connection if authority != Authority::Client => waiting.handshake = 0,
            Held::Stream if authority != Authority::Client => {}
            Held::Message(..) if !is_ready && waiting.messages.len() >= limit => engine.count_undelivered(),
            Held::Call(_) | Held::Request(..) | Held::Message(..) | Held::Stream | Held::Connection => {
                if is_ready {
                    waiting.send_again(refused);
                } else {
                    waiting.keep(refused);
                }
                return true;
            }
        }
        false
    }

    /// Whether what was refused may wait for authorization once more.
    fn again(&mut self, engine: &Engine, id: Option<u64>, sent: Sent) -> bool {
        let call = id.and_then(|id| engine.refusals_of(id));
        let handshake = self.tokens.waiting().map(|waiting| waiting.handshake).unwrap_or_default();
        call.unwrap_or_else(|| sent.refused.max(handshake)) < AUTHORIZATIONS
    }

    /// The GET stream was refused with 401. Returns what that means to it.
    pub(super) fn stream_refused(&mut self, engine: &mut Engine, sent: Sent, refusal: &Refusal) -> get_stream::Input {
        let used = self.tokens.waiting().map(|waiting| waiting.stream).unwrap_or_default();
        let again = used < AUTHORIZATIONS;
        let (authority, _, step) = self.tokens.authority(engine.now(), is_modern(engine), sent, refusal, again);
        if self.hold(engine, Held::Stream, authority, step) {
            get_stream::Input::Unauthorized
        } else {
            get_stream::Input::NotOffered
        }
    }

    /// Sends again what was refused for a reason that is over. Returns whether there was any.
    pub(super) fn send_authorized(&mut self, engine: &mut Engine) -> bool {
        let Some(waiting) = self.tokens.waiting() else { return false };
        if engine.is_ready() {
            waiting.handshake = 0;
        }
        let all = core::mem::take(&mut waiting.authorized);
        let any = !all.is_empty();
        for held in all {
            match held {
                Held::Call(id) => engine.handle_report(Report::CallAuthorized { id }),
                Held::Request(id, used) => self.post_refused(engine, id, used),
                Held::Message(message, used) => self.post_held(engine, message, used),
                Held::Stream => self.stream_step(engine, get_stream::Input::Authorized),
                Held::Connection => engine.handle_report(Report::ConnectionAuthorized),
            }
        }
        any
    }

    /// Posts a request again that was refused so often.
    fn post_refused(&mut self, engine: &mut Engine, id: u64, used: u8) {
        if let Some(message) = self.restart(engine, id) {
            self.post_held(engine, message, used);
        }
    }

    /// Posts a message again that was refused so often.
    fn post_held(&mut self, engine: &mut Engine, message: Outgoing, used: u8) {
        let exchange = self.post(engine, message, 0);
        if let Some(it) = self.exchanges.get_mut(exchange) {
            it.sent.refused = used;
        }
    }

    /// Reports the result of the authorization to held requests and messages. Returns whether there was a result.
    pub(super) fn on_verdict(&mut self, engine: &mut Engine) -> bool {
        let Some(verdict) = self.tokens.pop_verdict() else { return false };
        let (requests, messages) = match self.tokens.waiting() {
            Some(waiting) => (core::mem::take(&mut waiting.requests), core::mem::take(&mut waiting.messages)),
            None => Default::default(),
        };
        match verdict {
            Ok(()) => {
                for (id, used) in requests {
                    self.post_refused(engine, id, used);
                }
                for (message, used) in messages {
                    self.post_held(engine, message, used);
                }
                self.stream_step(engine, get_stream::Input::Authorized);
                // A client that is closed needs no token any more.
                let _ = engine.authorized(engine.now());
            }
            Err(why) => {
                for (id, _) in requests {
                    no_answer(engine, Some(id), StatusCode::UNAUTHORIZED.as_u16(), &why);
                }
                messages.iter().for_each(|_| engine.count_undelivered());
                engine.handle_report(Report::Denied { why: &why });
            }
        }
        true
    }
}

fn is_modern(engine: &Engine) -> bool {
    engine.server().is_some_and(|server| server.era() == Era::Modern)
}
