//! What is sent: the engine's outputs, the messages that wait, and the requests to poll.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use core::time::Duration;

use super::action::{ExchangeId, HttpRequest};
use super::connection::{Due, Http, LINGER, LINGER_BYTES, Timer, release};
use super::exchange::{Carrier, Exchange, ExchangeKind, Reply, ResumePoint};
use super::request::{self, Common};
use super::tokens::Sent;
use crate::Time;
use crate::binding::address::Address;
use crate::client::{ConnectionId, Engine, Outgoing, Output, Report, ShutdownStep, trim};
use crate::machine::QuirkKind;
use crate::machine::http_connection::send::{self, Decision, Message, Room};
use crate::machine::http_connection::{phase, sse};
use crate::machine::http_response::End;
use crate::protocol::{Era, method};

/// The messages of the engine that are not in an exchange yet.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Queue {
    /// They wait until `notifications/initialized` is accepted.
    held: VecDeque<Outgoing>,
    /// Queued notifications and responses, each with its timeout.
    waiting: VecDeque<(Timer, Outgoing)>,
    /// Bytes of these.
    waiting_bytes: usize,
    /// Notifications and responses that are in an exchange, and their bytes.
    in_exchange: usize,
    in_exchange_bytes: usize,
}

impl Queue {
    pub(super) fn hold(&mut self, message: Outgoing) {
        self.held.push_back(message);
    }

    fn next_held(&mut self) -> Option<Outgoing> {
        let next = self.held.pop_front()?;
        release(&mut self.held);
        Some(next)
    }

    /// Removes a held request.
    fn retract(&mut self, id: u64) {
        self.held.retain(|message| message.id() != Some(id));
        release(&mut self.held);
    }

    pub(super) fn wait(&mut self, timer: Timer, message: Outgoing) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(message.line().len());
        self.waiting.push_back((timer, message));
    }

    pub(super) fn next_waiting(&mut self) -> Option<(Timer, Outgoing)> {
        let (timer, message) = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(message.line().len());
        trim(&mut self.waiting);
        release(&mut self.waiting);
        Some((timer, message))
    }

    /// The timer of the oldest queued message.
    pub(super) fn front(&self) -> Option<Timer> {
        self.waiting.front().map(|(timer, _)| *timer)
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting_bytes)
    }

    /// Drops all messages except the queued ones to `keep`. Returns the timers of the others.
    pub(super) fn clear(&mut self, keep: impl Fn(&Outgoing) -> bool) -> impl Iterator<Item = Timer> {
        self.held = VecDeque::new();
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) =
            core::mem::take(&mut self.waiting).into_iter().partition(|(_, message)| keep(message));
        self.waiting = kept;
        self.waiting_bytes = self.waiting.iter().map(|(_, message)| message.line().len()).sum();
        dropped.into_iter().map(|(timer, _)| timer)
    }

    /// Gives each queued message a new timer with the same time.
    pub(super) fn rearm(&mut self, mut arm: impl FnMut(Time) -> Timer) {
        for ((due, number), _) in &mut self.waiting {
            (*due, *number) = arm(*due);
        }
    }

    /// Whether the byte count matches the messages.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_counted(&self) -> bool {
        self.waiting.iter().map(|(_, message)| message.line().len()).sum::<usize>() == self.waiting_bytes
    }

    /// A notification or a response enters an exchange.
    fn enter(&mut self, message: &Outgoing) {
        self.in_exchange = self.in_exchange.saturating_add(1);
        self.in_exchange_bytes = self.in_exchange_bytes.saturating_add(message.line().len());
    }

    /// The exchange of a notification or a response has ended.
    pub(super) fn leave(&mut self, message: &Outgoing) {
        self.in_exchange = self.in_exchange.saturating_sub(1);
        self.in_exchange_bytes = self.in_exchange_bytes.saturating_sub(message.line().len());
    }

    const fn in_exchange(&self) -> usize {
        self.in_exchange
    }

    /// Notifications and responses that are not delivered yet, and their bytes.
    pub(super) fn undelivered(&self) -> (usize, usize) {
        let count = self.in_exchange.saturating_add(self.waiting.len());
        (count, self.in_exchange_bytes.saturating_add(self.waiting_bytes))
    }
}

/// Whether a message answers a request of the server.
pub(super) fn is_response(message: &Outgoing) -> bool {
    message.id().is_none() && message.method().is_none()
}

pub(super) fn is_modern(message: &Outgoing) -> bool {
    message.version().is_some_and(|version| version.era() == Era::Modern)
}

/// A notification or a response is dropped, because the server did not accept the messages before it.
pub(super) fn refuse_undelivered(engine: &mut Engine, method: Option<&str>) {
    engine.count_undelivered();
    let what = if method.is_some() { "a notification" } else { "a response" };
    let detail = format!("{what} was dropped, because the server did not accept the messages before it");
    engine.transport_quirk(QuirkKind::Undelivered, method, detail);
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
    pub(super) fn post(&mut self, engine: &mut Engine, message: Outgoing, redirects: u8) -> ExchangeId {
        let url = self.sse.endpoint().unwrap_or(&self.url).clone();
        let initialized = message.method() == Some(method::INITIALIZED);
        if message.id().is_none() {
            self.queue.enter(&message);
        }
        let id = self.begin(engine, ExchangeKind::Message(message), url, redirects);
        if initialized {
            self.initialized = Some(id);
        }
        id
    }

    /// Posts a message that waited for an exchange: its timeout then drops its exchange.
    fn post_waiting(&mut self, engine: &mut Engine, timer: Timer, message: Outgoing) {
        let id = self.post(engine, message, 0);
        self.timers.set(timer, Due::Release(id));
        if let Some(it) = self.exchanges.get_mut(id) {
            it.release = Some(timer);
        }
    }

    /// Posts `notifications/initialized` again.
    pub(super) fn post_initialized(&mut self, engine: &mut Engine) {
        if let Some(message) = self.initialized_again.take() {
            self.post(engine, *message, 0);
        }
    }

    /// Posts a request again, with a new id.
    pub(super) fn post_again(&mut self, engine: &mut Engine, request: u64) {
        if let Some(message) = self.restart(engine, request) {
            self.post(engine, message, 0);
        }
    }

    /// Gives a request a new id, with which it is sent again.
    pub(super) fn restart(&mut self, engine: &mut Engine, request: u64) -> Option<Outgoing> {
        self.exchanges.forget(request);
        engine.restart(request)
    }

    /// Requests a stream.
    pub(super) fn get(&mut self, engine: &mut Engine, purpose: ExchangeKind, redirects: u8) {
        self.begin(engine, purpose, self.url.clone(), redirects);
    }

    /// Ends a session of the server.
    pub(super) fn delete(&mut self, engine: &mut Engine, purpose: ExchangeKind) {
        self.begin(engine, purpose, self.url.clone(), 0);
    }

    fn begin(&mut self, engine: &mut Engine, purpose: ExchangeKind, url: Address, redirects: u8) -> ExchangeId {
        let it =
            Exchange { purpose, url, redirects, status: 0, reply: Reply::Unsent, sent: Sent::default(), release: None };
        let exchange = self.exchanges.insert(it);
        engine.queue_action(Output::Exchange(exchange.0));
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
                let about = message.id().map(|id| engine.about(id)).unwrap_or_default();
                let request = request::post(&it.url, message, common, about, engine.catalog());
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
        let message = if let ExchangeKind::Message(message) = &it.purpose { Some(message) } else { None };
        engine.handed_over(message);
        Some(HttpRequest { exchange, of, request })
    }

    /// Removes an exchange that has ended.
    pub(super) fn take(&mut self, engine: &mut Engine, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.exchanges.remove(id)?;
        self.tokens.forget(id);
        if let Some(timer) = it.release {
            self.timers.disarm(timer);
        }
        if let Some(message) = it.purpose.one_way() {
            self.queue.leave(message);
        }
        match it.reply {
            Reply::Unsent => {
                engine.withdraw_action(|action| matches!(action, Output::Exchange(exchange) if *exchange == id.0));
            }
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
    pub(super) fn drop_exchange(&mut self, engine: &mut Engine, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.take(engine, id)?;
        match it.reply {
            Reply::Unsent => {}
            Reply::Nothing
            | Reply::Begun(_)
            | Reply::Json(_)
            | Reply::Events(_)
            | Reply::Refusal(_)
            | Reply::Ignored => engine.queue_action(Output::Drop(id.0)),
        }
        Some(it)
    }

    /// An exchange is complete. It has a short time to end by itself, in which a stream may deliver other messages.
    pub(super) fn linger(&mut self, engine: &Engine, id: ExchangeId) {
        let Some(it) = self.exchanges.get(id) else { return };
        let keeps_reading = matches!(it.reply, Reply::Events(_)) && it.reply.buffered() <= LINGER_BYTES;
        let armed = it.release.is_some();
        if !keeps_reading {
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
    fn drop_carrier(&mut self, engine: &mut Engine, request: u64) {
        match self.exchanges.carrier(request) {
            Some(Carrier::Exchange(exchange)) => {
                let exchange = *exchange;
                self.drop_exchange(engine, exchange);
            }
            Some(Carrier::Timer(timer, _)) => {
                self.timers.disarm(*timer);
                self.exchanges.forget(request);
            }
            None => {}
        }
    }

    /// A request waits without an exchange.
    pub(super) fn pause(&mut self, engine: &Engine, request: u64, wait: Duration, broken: Option<Box<ResumePoint>>) {
        let due = if broken.is_some() { Due::Resume(request) } else { Due::SendAgain(request) };
        let timer = self.timers.arm(engine.now() + wait, due);
        self.exchanges.pause(request, timer, broken);
    }
}

impl Http {
    /// Exchanges that waited for the token or a proof are sent; those whose proofs were not signed are over.
    pub(super) fn send_ready(&mut self, engine: &mut Engine) {
        while let Some((id, is_ready)) = self.tokens.next_ready() {
            if self.exchanges.get(id).is_none_or(|it| !matches!(it.reply, Reply::Unsent)) {
                self.tokens.forget(id);
            } else if is_ready {
                engine.queue_action(Output::Exchange(id.0));
            } else if let Some(it) = self.take(engine, id) {
                let why = "the proof of possession was not signed";
                match it.purpose.request() {
                    Some(request) => engine.handle_report(Report::Unproved { id: request, why }),
                    None => self.end(engine, it, End::Unreached, Some(why)),
                }
            }
        }
    }

    /// Whether an exchange can be sent, and does not wait for the record of the store or for its proof.
    pub(super) fn ready_to_send(&mut self, engine: &Engine, id: ExchangeId) -> bool {
        let Some(it) = self.exchanges.get(id) else { return false };
        let method = match &it.purpose {
            ExchangeKind::Message(_) => "POST",
            ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => "GET",
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => "DELETE",
        };
        self.tokens.prepare(engine.now(), id, method, &it.url)
    }
}

impl Http {
    /// Carries out the engine's outputs. Events wait to be polled.
    pub(super) fn drain(&mut self, engine: &mut Engine) {
        loop {
            self.tidy(engine);
            if self.send_next(engine) {
                continue;
            }
            match engine.next_output(|event| self.tokens.mask(event)) {
                Some(output) => self.execute(engine, output),
                None if self.end_if_owing_nothing(engine) => {}
                None => break,
            }
        }
        self.tokens.mask_texts(engine);
        let (count, bytes) = self.queue.undelivered();
        engine.set_undelivered(count, bytes);
    }

    /// Ends the exchanges of a connection that ended, or of requests that ended.
    fn tidy(&mut self, engine: &mut Engine) {
        if self.phase.is_connected() && !self.is_current(engine) {
            self.lose(engine);
        }
        while let Some(request) = engine.next_ended() {
            self.on_request_end(engine, request);
        }
    }

    /// A request ended, and its exchange is not needed; the server has a short time to end it.
    fn on_request_end(&mut self, engine: &mut Engine, request: u64) {
        match self.exchanges.carrier(request) {
            Some(Carrier::Exchange(id)) => {
                let id = *id;
                match self.exchanges.get(id).map(|it| &it.reply) {
                    Some(Reply::Unsent) => self.drop_carrier(engine, request),
                    Some(
                        Reply::Nothing
                        | Reply::Begun(_)
                        | Reply::Json(_)
                        | Reply::Events(_)
                        | Reply::Refusal(_)
                        | Reply::Ignored,
                    )
                    | None => self.linger(engine, id),
                }
            }
            Some(Carrier::Timer(..)) => self.drop_carrier(engine, request),
            None => self.queue.retract(request),
        }
    }

    fn execute(&mut self, engine: &mut Engine, output: Output) {
        match output {
            Output::Send(message) => self.send(engine, message),
            Output::Abort(request) => self.drop_carrier(engine, request),
            Output::Open(connection) => self.open(engine, connection),
            Output::Shutdown(step) => self.shut_down(engine, step),
            // They wait to be polled.
            Output::Event(_) | Output::Exchange(_) | Output::Drop(_) => {}
        }
    }

    fn open(&mut self, engine: &mut Engine, connection: ConnectionId) {
        self.connection = connection;
        self.session.renew();
        self.step(engine, phase::Input::Connect);
        self.sse_step(engine, sse::Input::Connect, "", b"");
    }

    /// Takes a message of the engine.
    fn send(&mut self, engine: &mut Engine, message: Outgoing) {
        let kind = match (message.id(), message.method()) {
            (Some(_), _) => Message::Request,
            (None, Some(method::INITIALIZED)) => Message::Initialized,
            (None, Some(_)) => Message::Notification,
            (None, None) => Message::Response,
        };
        match send::decide(kind, self.phase == phase::State::Accepting, self.room(engine)) {
            Decision::Send => {
                let established = is_modern(&message) && message.method() != Some(method::DISCOVER);
                self.post(engine, message, 0);
                if kind == Message::Initialized {
                    self.step(engine, phase::Input::InitializedSent);
                } else if established {
                    self.step(engine, phase::Input::Established);
                }
            }
            Decision::Hold => self.queue.hold(message),
            Decision::Queue => {
                let timer = self.timers.arm(engine.now() + engine.options().timeouts.request, Due::GiveUp);
                self.queue.wait(timer, message);
            }
            Decision::Drop => refuse_undelivered(engine, message.method()),
        }
    }

    fn room(&self, engine: &Engine) -> Room {
        let limits = &engine.options().limits;
        let (waiting, bytes) = self.queue.waiting();
        if waiting == 0 && self.has_exchange(engine) {
            Room::Free
        } else if waiting >= limits.output || bytes >= limits.output_bytes {
            Room::Full
        } else {
            Room::Taken
        }
    }

    /// Whether another exchange may carry a message without a response.
    fn has_exchange(&self, engine: &Engine) -> bool {
        self.queue.in_exchange() < engine.options().limits.in_flight.max(1)
    }

    /// Sends the next queued message that may be sent.
    fn send_next(&mut self, engine: &mut Engine) -> bool {
        if self.queue.is_waiting() && self.has_exchange(engine) {
            if let Some((timer, message)) = self.queue.next_waiting() {
                self.post_waiting(engine, timer, message);
            }
            return true;
        }
        if self.phase != phase::State::Accepting
            && let Some(message) = self.queue.next_held()
        {
            self.send(engine, message);
            return true;
        }
        false
    }

    /// Shuts the connection down: first the outstanding responses, then the DELETE, each for as long as a step may
    /// take.
    fn shut_down(&mut self, engine: &mut Engine, step: ShutdownStep) {
        let input = match step {
            _ if !engine.is_closing() => phase::Input::Retire,
            ShutdownStep::CloseInput => self.close_input(engine),
            ShutdownStep::Terminate if self.has_session(engine) => phase::Input::OverdueSession,
            ShutdownStep::Terminate | ShutdownStep::Kill => phase::Input::Overdue,
        };
        self.step(engine, input);
    }

    fn close_input(&self, engine: &Engine) -> phase::Input {
        if self.owes(engine) {
            phase::Input::CloseOwing
        } else if self.has_session(engine) {
            phase::Input::CloseSession
        } else {
            phase::Input::CloseNothing
        }
    }

    fn owes(&self, engine: &Engine) -> bool {
        self.queue.is_waiting() || self.exchanges.iter().any(|(_, it)| Self::is_owed(engine, &it.purpose))
    }

    /// Whether there is a session to end. A modern server has none, even if it sent a session id before it was
    /// recognized as modern, and there is none before `initialize` was answered.
    fn has_session(&self, engine: &Engine) -> bool {
        let legacy = engine.server().is_some_and(|server| server.era() == Era::Legacy);
        legacy && engine.has_agreed() && self.session.id().is_some()
    }

    /// While the client closes: after the last outstanding response, the rest follows.
    fn end_if_owing_nothing(&mut self, engine: &mut Engine) -> bool {
        if self.phase != phase::State::Ending || self.owes(engine) {
            return false;
        }
        let input = self.close_input(engine);
        self.step(engine, input);
        true
    }
}
