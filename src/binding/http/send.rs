//! Begins and drops exchanges.

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use super::action::{ExchangeId, HttpRequest};
use super::address::Address;
use super::exchange::{Broken, Exchange, ExchangeKind, Reply};
use super::exchanges::Carrier;
use super::limits::LINGER;
use super::parts::Http;
use super::request::{self, Common};
use super::timers::{Due, Timer};
use super::tokens::Sent;
use crate::client::{Engine, Outgoing};
use crate::machine::http_end::{Rest, take_rest};
use crate::machine::http_send::{Reached, Undelivered, take_undelivered};
use crate::protocol::{Era, method};

/// Whether a message answers a request of the server.
pub(super) fn is_response(message: &Outgoing) -> bool {
    message.id().is_none() && message.method().is_none()
}

pub(super) fn is_modern(message: &Outgoing) -> bool {
    message.version().is_some_and(|version| version.era() == Era::Modern)
}

/// A notification or a response was not delivered in time.
pub(super) fn undelivered(engine: &mut Engine, reached: Reached, method: Option<&str>) {
    match take_undelivered(reached) {
        Undelivered::DropAs(kind) => {
            engine.count_undelivered();
            let what = if method.is_some() { "a notification" } else { "a response" };
            let detail = format!("{what} was dropped, because the server did not accept the messages before it");
            engine.transport_quirk(kind, method, detail);
        }
        Undelivered::Drop => engine.count_undelivered(),
        Undelivered::Release => {}
    }
}

impl Http {
    /// Whether the exchanges belong to the engine's current connection.
    pub(super) fn is_current(&self, engine: &Engine) -> bool {
        engine.has_transport() && engine.connection() == self.connection
    }

    /// Whether an exchange continues while the client closes: the DELETE, and outstanding responses.
    pub(super) fn is_owed(engine: &Engine, purpose: &ExchangeKind) -> bool {
        match purpose {
            ExchangeKind::Delete(_) => engine.is_closing(),
            ExchangeKind::Message(message) => is_response(message) && engine.is_closing(),
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => {
                false
            }
        }
    }

    /// Posts a message. If it has no response, a timer that starts with the poll drops its exchange.
    pub(super) fn post(&mut self, message: Outgoing, redirects: u8) -> ExchangeId {
        let url = self.sse.endpoint().unwrap_or(&self.url).clone();
        let initialized = message.method() == Some(method::INITIALIZED);
        if message.id().is_none() {
            self.queue.enter(&message);
        }
        let id = self.begin(ExchangeKind::Message(message), url, redirects);
        if initialized {
            self.initialized = Some(id);
        }
        id
    }

    /// Posts a message that waited for an exchange: its timeout then drops its exchange.
    pub(super) fn post_waiting(&mut self, timer: Timer, message: Outgoing) {
        let id = self.post(message, 0);
        self.timers.set(timer, Due::Release(id));
        if let Some(it) = self.exchanges.get_mut(id) {
            it.release = Some(timer);
        }
    }

    /// Posts `notifications/initialized` again.
    pub(super) fn post_initialized(&mut self) {
        if let Some(message) = self.initialized_again.take() {
            self.post(*message, 0);
        }
    }

    /// Posts a request again, with a new id.
    pub(super) fn post_again(&mut self, engine: &mut Engine, request: u64) {
        if let Some(message) = self.restart(engine, request) {
            self.post(message, 0);
        }
    }

    /// Gives a request a new id, with which it is sent again.
    pub(super) fn restart(&mut self, engine: &mut Engine, request: u64) -> Option<Outgoing> {
        self.exchanges.forget(request);
        engine.restart(request)
    }

    /// Requests a stream.
    pub(super) fn get(&mut self, purpose: ExchangeKind, redirects: u8) {
        self.begin(purpose, self.url.clone(), redirects);
    }

    /// Ends a session of the server.
    pub(super) fn delete(&mut self, purpose: ExchangeKind) {
        self.begin(purpose, self.url.clone(), 0);
    }

    fn begin(&mut self, purpose: ExchangeKind, url: Address, redirects: u8) -> ExchangeId {
        let it =
            Exchange { purpose, url, redirects, status: 0, reply: Reply::Unsent, sent: Sent::default(), release: None };
        let exchange = self.exchanges.insert(it);
        self.outbox.request(exchange);
        exchange
    }

    /// The request of an exchange is polled: it counts as sent from here on.
    pub(super) fn hand_over(&mut self, engine: &mut Engine, exchange: ExchangeId) -> Option<HttpRequest> {
        let it = self.exchanges.hand_over(exchange)?;
        let is_opening = |message: &Outgoing| message.method() == Some(method::INITIALIZE);
        let opening = matches!(&it.purpose, ExchangeKind::Message(message) if is_opening(message));
        if opening {
            // Requests polled before it belong to the previous session.
            self.session.reset();
        }
        let session = self.session.id();
        let version = || engine.server().map(|server| server.version);
        let agreed = || Common { session, version: version().filter(|_| engine.has_handshake()) };
        let (of, mut request) = match &mut it.purpose {
            ExchangeKind::Message(message) => {
                let session = session.filter(|_| !is_modern(message) && !opening);
                let common = Common { session, version: message.version().filter(|_| !opening) };
                let about = request::About {
                    params: message.id().and_then(|id| engine.params_of(id)),
                    task: message.id().and_then(|id| engine.task_of(id)),
                };
                let request = request::post(&it.url, message, common, about, engine.catalog());
                engine.handed_over(message);
                if message.id().is_none() && it.release.is_none() {
                    let due = engine.now() + engine.options().timeouts.request;
                    it.release = Some(self.timers.arm(due, Due::Release(exchange)));
                }
                (message.of(), request)
            }
            ExchangeKind::Resume(id, broken) => {
                (engine.handle_of(*id), request::get(&it.url, agreed(), Some(&broken.last_id)))
            }
            ExchangeKind::Stream => (None, request::get(&it.url, agreed(), self.get_stream.last_id())),
            ExchangeKind::Sse => (None, request::get(&it.url, agreed(), None)),
            ExchangeKind::DeleteFormer(_, session) | ExchangeKind::Delete(session) => {
                (None, request::delete(&it.url, Common { session: Some(session), version: version() }))
            }
        };
        self.tokens.present(exchange, request.headers_mut(), &mut it.sent);
        engine.mark_seen();
        Some(HttpRequest { exchange, of, request })
    }

    /// Removes an exchange that has ended.
    pub(super) fn take(&mut self, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.exchanges.remove(id)?;
        self.tokens.forget(id);
        if let Some(timer) = it.release {
            self.timers.disarm(timer);
        }
        if let Some(message) = it.purpose.one_way() {
            self.queue.leave(message);
        }
        match it.reply {
            Reply::Unsent => self.outbox.retract(id),
            Reply::Nothing
            | Reply::Begun(_)
            | Reply::Json(_)
            | Reply::Events(_)
            | Reply::Refusal(_)
            | Reply::Ignored => {}
        }
        Some(it)
    }

    /// Ends an exchange: an unpolled request is withdrawn, any other exchange is dropped.
    pub(super) fn drop_exchange(&mut self, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.take(id)?;
        match it.reply {
            Reply::Unsent => {}
            Reply::Nothing
            | Reply::Begun(_)
            | Reply::Json(_)
            | Reply::Events(_)
            | Reply::Refusal(_)
            | Reply::Ignored => self.outbox.drop(id),
        }
        Some(it)
    }

    /// An exchange is complete. It has a short time to end by itself, in which a stream may deliver other messages.
    pub(super) fn linger(&mut self, engine: &Engine, id: ExchangeId) {
        let Some(it) = self.exchanges.get(id) else { return };
        let (rest, armed) = (take_rest(it.reply.class(), it.reply.kept()), it.release.is_some());
        if rest == Rest::Ignore {
            self.exchanges.set_reply(id, Reply::Ignored);
        }
        if !armed {
            let timer = self.timers.arm(engine.now() + LINGER, Due::Release(id));
            if let Some(it) = self.exchanges.get_mut(id) {
                it.release = Some(timer);
            }
        }
    }

    /// Ends the exchange or timer of a request.
    pub(super) fn drop_carrier(&mut self, request: u64) {
        match self.exchanges.carrier(request) {
            Some(Carrier::Exchange(exchange)) => {
                let exchange = *exchange;
                self.drop_exchange(exchange);
            }
            Some(Carrier::Timer(timer, _)) => {
                self.timers.disarm(*timer);
                self.exchanges.forget(request);
            }
            None => {}
        }
    }

    /// A request waits without an exchange.
    pub(super) fn pause(&mut self, engine: &Engine, request: u64, wait: Duration, broken: Option<Box<Broken>>) {
        let due = if broken.is_some() { Due::Resume(request) } else { Due::SendAgain(request) };
        let timer = self.timers.arm(engine.now() + wait, due);
        self.exchanges.pause(request, timer, broken);
    }
}
