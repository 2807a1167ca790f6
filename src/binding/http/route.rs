//! Takes the embedder's inputs and the timers.

use http::{HeaderMap, StatusCode};

use super::action::{Broken, ExchangeId, HttpAction};
use super::exchange::{Exchange, Purpose, Reply};
use super::outbox::Entry;
use super::parts::Http;
use super::send::is_response;
use super::timers::{Due, Timer};
use crate::Time;
use crate::address::shown_in;
use crate::client::{Binding, Client, Engine, Event, Operate, Wire};
use crate::machine::{get_stream, http as phase};

impl Binding for Http {}

impl Operate for Http {
    type Action = HttpAction;
    const WIRE: Wire = Wire::Http;

    fn attach(&mut self, engine: &mut Engine) {
        engine.track_settled();
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.drain(engine);
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        // What was held for a response to `initialized` that does not come has its whole time from here on.
        let late = |it: &Exchange| match it.release {
            Some((due, _)) => due <= now,
            // It was not polled yet.
            None => true,
        };
        let is_late = self.initialized.and_then(|id| self.exchanges.get(id)).is_some_and(late);
        if self.phase == phase::State::Accepting && is_late {
            engine.renew_unsent(now);
        }
        engine.handle_timeout(now);
        self.settle(engine);
        let (now, last) = (engine.now(), self.timers.last());
        while let Some((timer, due)) = self.timers.take(now, last) {
            self.fire(engine, timer, due);
            self.settle(engine);
        }
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<HttpAction> {
        loop {
            match self.outbox.pop()? {
                Entry::Request(exchange) => {
                    if let Some(request) = self.hand_over(engine, exchange) {
                        return Some(HttpAction::Request(request));
                    }
                }
                Entry::Drop(exchange) => return Some(HttpAction::Drop(exchange)),
                Entry::Event(event) => {
                    self.report_unpolled(engine);
                    return Some(HttpAction::Event(event));
                }
            }
        }
    }

    fn deadline(&self, engine: &Engine) -> Option<Time> {
        if !self.outbox.is_empty() {
            return Some(engine.now());
        }
        [engine.next_timer(), self.timers.next()].into_iter().flatten().min()
    }

    fn is_drained(&self) -> bool {
        self.outbox.is_empty()
    }
}

impl Client<Http> {
    /// Takes the head of a response.
    pub fn handle_head(&mut self, now: Time, exchange: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        self.binding.handle_due(&mut self.engine, now);
        self.binding.head(&mut self.engine, exchange, status, headers);
        self.binding.settle(&mut self.engine);
    }

    /// Takes a chunk of any size of a response's body.
    pub fn handle_body(&mut self, now: Time, exchange: ExchangeId, chunk: &[u8]) {
        self.binding.handle_due(&mut self.engine, now);
        self.binding.body(&mut self.engine, exchange, chunk);
        self.binding.settle(&mut self.engine);
    }

    /// Takes the end of a response.
    pub fn handle_end(&mut self, now: Time, exchange: ExchangeId) {
        self.binding.over(&mut self.engine, now, exchange, None, "");
    }

    /// Takes that an exchange failed, at any time before its end. An exchange whose head came has reached the server,
    /// however it failed.
    pub fn handle_failure(&mut self, now: Time, exchange: ExchangeId, broken: Broken, why: &str) {
        self.binding.over(&mut self.engine, now, exchange, Some(broken), &shown_in(why));
    }
}

impl Http {
    /// The events that wait to be polled.
    pub(crate) fn pending_events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.outbox.pending_events()
    }

    /// Whether an event is the next action.
    pub(crate) fn is_event_first(&self) -> bool {
        self.outbox.is_event_first()
    }

    /// Whether an event is the last action; `None` where there is no action.
    pub(crate) fn is_event_last(&self) -> Option<bool> {
        self.outbox.is_event_last()
    }

    /// Serves what is due before an input that came at this time. What is due at the time of the input before it was
    /// served then.
    fn handle_due(&mut self, engine: &mut Engine, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if now <= engine.served() {
            return;
        }
        if is_due(self.timers.next()) || is_due(engine.next_timer()) {
            self.handle_timeout(engine, now);
        } else {
            engine.pass(now);
        }
    }

    /// An exchange is over: it is not dropped, whatever is due.
    fn over(&mut self, engine: &mut Engine, now: Time, id: ExchangeId, failure: Option<Broken>, why: &str) {
        let (it, connection) = (self.take(id), self.connection);
        self.handle_due(engine, now);
        if let Some(it) = it {
            let current = self.is_current(engine) && self.connection == connection;
            if current || Self::is_owed(engine, &it.purpose) {
                self.ended(engine, it, failure, why);
            }
        }
        self.settle(engine);
    }

    fn fire(&mut self, engine: &mut Engine, timer: Timer, due: Due) {
        match due {
            Due::SendAgain(request) => self.post_again(engine, request),
            Due::SendInitialized => {
                if let Some(message) = self.initialized_again.take() {
                    self.post(*message, 0);
                }
            }
            Due::Resume(request) => {
                if let Some(broken) = self.exchanges.resume(request)
                    && engine.is_waiting(request)
                {
                    self.get(Purpose::Resume(request, broken), 0);
                }
            }
            Due::GetStream => self.stream_step(engine, get_stream::Input::Timer),
            Due::StreamLate => self.step(engine, phase::Input::StreamDecided),
            Due::Release(id) => {
                if self.initialized == Some(id) {
                    self.accepted(engine);
                }
                let lost =
                    |it: &Exchange| matches!(it.reply, Reply::Unsent) && it.purpose.one_way().is_some_and(is_response);
                if self.exchanges.get(id).is_some_and(lost) {
                    engine.leave_out();
                }
                self.drop_exchange(id);
            }
            Due::GiveUp => {
                if self.queue.front() == Some(timer)
                    && let Some((_, message)) = self.queue.next_waiting()
                    && is_response(&message)
                {
                    engine.leave_out();
                }
            }
        }
    }
}
