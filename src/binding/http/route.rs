//! Takes the embedder's inputs and the timers.

use http::{HeaderMap, StatusCode};

use super::action::{Broken, ExchangeId, HttpAction};
use super::exchange::{Exchange, ExchangeKind, Reply};
use super::outbox::Entry;
use super::parts::Http;
use super::send::undelivered;
use super::timers::{Due, Timer};
use crate::Time;
use crate::address::shown_in;
use crate::client::{Binding, Client, Engine, Event, Operate, Wire};
use crate::machine::http_send::Reached;
use crate::machine::{get_stream, http as phase, http_initialized};

impl Binding for Http {}

impl Operate for Http {
    type Action = HttpAction;
    const WIRE: Wire = Wire::Http;

    fn attach(&mut self, engine: &mut Engine) {
        engine.track_settled();
        engine.locate(&self.url.shown());
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.send_signed(engine);
        self.drain(engine);
        if engine.is_closed() {
            self.tokens.close();
        }
        // A result may cause another one: each is about other tokens.
        while self.readmit(engine) || self.tell_waiting(engine) {
            self.drain(engine);
        }
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        // Messages held for a response to `initialized` that never arrives get their full time from here on.
        let late = |it: &Exchange| match it.release {
            Some((due, _)) => due <= now,
            // It was not polled yet.
            None => true,
        };
        let is_late = self.initialized.and_then(|id| self.exchanges.get(id)).is_some_and(late);
        if self.phase == phase::State::Accepting && is_late {
            engine.renew_unsent(now);
        }
        self.tokens.handle_timeout(now);
        engine.handle_timeout(now);
        self.settle(engine);
        let (now, last) = (engine.now(), self.timers.last());
        while let Some((timer, due)) = self.timers.take(now, last) {
            self.fire(engine, timer, due);
            self.settle(engine);
        }
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<HttpAction> {
        // The end of an attempt precedes `Closed`.
        if engine.is_closed()
            && let Some(action) = self.tokens.poll()
        {
            return Some(action);
        }
        loop {
            let Some(entry) = self.outbox.pop() else { return self.tokens.poll() };
            match entry {
                Entry::Request(exchange) => {
                    if self.prove(exchange)
                        && let Some(request) = self.hand_over(engine, exchange)
                    {
                        return Some(HttpAction::Request(request));
                    }
                }
                Entry::Drop(exchange) => return Some(HttpAction::Drop(exchange)),
                Entry::Event(event) => {
                    engine.polled(&event);
                    self.report_unpolled(engine);
                    return Some(HttpAction::Event(event));
                }
            }
        }
    }

    fn deadline(&self, engine: &Engine) -> Option<Time> {
        if !self.outbox.is_empty() || self.tokens.has_actions() {
            return Some(engine.now());
        }
        self.next_timer(engine)
    }

    fn next_timer(&self, engine: &Engine) -> Option<Time> {
        Time::earliest([engine.next_timer(), self.timers.next(), self.tokens.deadline()])
    }

    fn is_settled(&self) -> bool {
        self.outbox.is_empty() && !self.tokens.has_actions() && !self.tokens.is_busy()
    }
}

impl Client<Http> {
    /// Takes an input for the authorization of [`Http::with_oauth`]. Returns whether it belongs to what is in progress, as
    /// far as that can be said at once: `false` for a redirect of another attempt, and without an authorization.
    #[cfg(feature = "oauth")]
    pub fn handle_oauth(&mut self, now: Time, input: crate::binding::oauth::OAuthInput<'_>) -> bool {
        self.binding.handle_due(&mut self.engine, now);
        let is_ours = self.binding.tokens.handle(self.engine.now(), input);
        self.binding.settle(&mut self.engine);
        is_ours
    }

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

    /// Takes the failure of an exchange, at any time before its end. An exchange whose head arrived has reached the
    /// server, whatever the failure.
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
        if self.tokens.has_actions() { Some(false) } else { self.outbox.is_event_last() }
    }

    /// Handles due deadlines before an input at this time. Deadlines due at the previous input were handled then.
    fn handle_due(&mut self, engine: &mut Engine, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if now <= engine.served() {
            return;
        }
        if is_due(self.next_timer(engine)) {
            self.handle_timeout(engine, now);
        } else {
            engine.pass(now);
        }
    }

    /// An exchange ended: it is not dropped, whatever is due.
    pub(super) fn over(&mut self, engine: &mut Engine, now: Time, id: ExchangeId, failure: Option<Broken>, why: &str) {
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
            Due::SendInitialized => self.post_initialized(),
            Due::Resume(request) => {
                if let Some(broken) = self.exchanges.resume(request)
                    && engine.is_sent(request)
                {
                    self.get(ExchangeKind::Resume(request, broken), 0);
                }
            }
            Due::GetStream => self.stream_step(engine, get_stream::Input::Timer),
            Due::StreamLate => self.step(engine, phase::Input::StreamDecided),
            Due::Release(id) => {
                if self.initialized == Some(id) {
                    self.initialized_step(engine, http_initialized::Input::Answered, "");
                }
                if let Some(it) = self.exchanges.get(id)
                    && let Some(message) = it.purpose.one_way()
                {
                    let reached = if matches!(it.reply, Reply::Unsent) { Reached::Unpolled } else { Reached::Server };
                    undelivered(engine, reached, message.method());
                }
                self.drop_exchange(id);
            }
            Due::GiveUp => {
                if self.queue.front() == Some(timer)
                    && let Some((_, message)) = self.queue.next_waiting()
                {
                    undelivered(engine, Reached::Queue, message.method());
                }
            }
        }
    }
}
