//! Takes the engine's outputs.

use super::exchange::Reply;
use super::exchanges::Carrier;
use super::parts::Http;
use super::send::{is_modern, undelivered};
use super::timers::Due;
use crate::client::{ConnectionId, Engine, Outgoing, Output, ShutdownStep};
use crate::machine::http_send::{Decision, Message, Phase, Reached, Room, take};
use crate::machine::{http as phase, http_sse};
use crate::protocol::{Era, method};

impl Http {
    /// Takes all outputs of the engine.
    pub(super) fn drain(&mut self, engine: &mut Engine) {
        let mut quiet = self.is_quiet(engine);
        while !quiet {
            self.tidy(engine);
            if self.send_next(engine) {
                continue;
            }
            match engine.take() {
                Some(output) => self.execute(engine, output),
                None => quiet = !self.end_if_owing_nothing(engine),
            }
        }
        self.tokens.mask_words(engine);
        let (count, bytes) = self.queue.undelivered();
        engine.set_undelivered(count, bytes);
        self.report_unpolled(engine);
    }

    /// Whether there are no outputs.
    fn is_quiet(&self, engine: &Engine) -> bool {
        !engine.has_outputs()
            && !engine.has_settled()
            && !self.queue.is_waiting()
            && !self.queue.is_held()
            && self.phase != phase::State::Ending
            && (!self.is_connected() || self.is_current(engine))
    }

    fn is_connected(&self) -> bool {
        match self.phase {
            phase::State::Opening | phase::State::Accepting | phase::State::AwaitingStream | phase::State::Live => true,
            phase::State::Idle | phase::State::Ending | phase::State::Deleting => false,
        }
    }

    pub(super) fn report_unpolled(&self, engine: &mut Engine) {
        let (count, bytes) = self.outbox.events();
        engine.set_unpolled(count, bytes);
    }

    /// Ends the exchanges of a connection that ended, or of requests that ended.
    fn tidy(&mut self, engine: &mut Engine) {
        if self.is_connected() && !self.is_current(engine) {
            self.lose(engine);
        }
        while let Some(request) = engine.next_settled() {
            self.request_over(engine, request);
        }
    }

    /// A request ended, and its exchange is not needed; the server has a short time to end it.
    fn request_over(&mut self, engine: &Engine, request: u64) {
        if engine.is_on_wire(request) {
            return;
        }
        match self.exchanges.carrier(request) {
            Some(Carrier::Exchange(id)) => {
                let id = *id;
                match self.exchanges.get(id).map(|it| &it.reply) {
                    Some(Reply::Unsent) => self.drop_carrier(request),
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
            Some(Carrier::Timer(..)) => self.drop_carrier(request),
            None => self.queue.retract(request),
        }
    }

    fn execute(&mut self, engine: &mut Engine, output: Output) {
        match output {
            Output::Event(mut event) => {
                self.tokens.mask(engine, &mut event);
                engine.queued(&event);
                self.outbox.event(event);
            }
            Output::Send(message) => self.send(engine, message),
            Output::Abort(request) => self.drop_carrier(request),
            Output::Open(connection) => self.open(engine, connection),
            Output::Shutdown(step) => self.shut_down(engine, step),
        }
    }

    fn open(&mut self, engine: &mut Engine, connection: ConnectionId) {
        self.connection = connection;
        self.session.renew();
        self.step(engine, phase::Input::Connect);
        self.sse_step(engine, http_sse::Input::Connect, "", b"");
    }

    /// Takes a message of the engine.
    fn send(&mut self, engine: &mut Engine, message: Outgoing) {
        let kind = match (message.id(), message.method()) {
            (Some(_), _) => Message::Request,
            (None, Some(method::INITIALIZED)) => Message::Initialized,
            (None, Some(_)) => Message::Notification,
            (None, None) => Message::Response,
        };
        let phase = if self.phase == phase::State::Accepting { Phase::Accepting } else { Phase::Free };
        match take(kind, phase, self.room(engine)) {
            Decision::Send => {
                let established = is_modern(&message) && message.method() != Some(method::DISCOVER);
                self.post(message, 0);
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
            Decision::LeaveOut => undelivered(engine, Reached::Nothing, message.method()),
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
                self.post_waiting(timer, message);
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
