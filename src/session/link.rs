use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use super::timers::Timer;
use super::{
    Action, Cause, CommandError, Event, Failure, FailureKind, Open, OpenFailure, Recovery, Session, ShutdownStep,
    Transport, Wire,
};
use crate::Time;
use crate::machine::handshake::{Input as HandshakeInput, State as HandshakeState};
use crate::machine::{QuirkKind, Verdict, link, shutdown};
use crate::protocol::Family;

/// In which way a connection is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Its transport is gone.
    Gone,
    /// Its transport is there, and is to be shut.
    Unusable,
    /// As unusable, and no other will be better.
    Final,
}

impl Session {
    pub(super) fn command(&mut self, now: Time, input: link::Input, misuse: CommandError) -> Result<(), CommandError> {
        if link::take(self.link, input).verdict == Verdict::Reject {
            self.check_open()?;
            return Err(misuse);
        }
        self.advance(now);
        if input == link::Input::Close {
            self.failure = None;
            self.end_calls();
            self.end_connection(false);
        }
        // A transport that nobody was asked for yet needs no shutting.
        let unseen = input == link::Input::Close && self.is_open_unpolled();
        self.link_step(input);
        if unseen {
            self.drop_output();
            self.ladder_step(shutdown::Input::Exited);
        }
        Ok(())
    }

    pub(super) fn link_step(&mut self, input: link::Input) {
        let row = link::take(self.link, input);
        self.link = row.next;
        for effect in row.effects {
            match effect {
                link::Effect::Open => self.open_transport(),
                link::Effect::Handshake => self.start_handshake(),
                link::Effect::Announce => self.announce(),
                link::Effect::Shut => {
                    self.ladder = shutdown::State::Up;
                    self.ladder_step(shutdown::Input::Shut);
                }
                link::Effect::Backoff => {
                    let wait = self.backoff();
                    // At once, where the options want it so: the transport takes its time to open.
                    self.timers.set(Timer::Reopen, Some(self.now + wait));
                }
                link::Effect::Park => {
                    let park = self.options.reconnect.unwrap_or_default().park;
                    self.arm(Timer::Reopen, park);
                }
                link::Effect::Finish => {
                    self.timers.clear();
                    self.end_calls();
                    let cause = self.failure.take().map_or(Cause::Requested, Cause::Failed);
                    self.event(Event::Closed { cause });
                }
            }
        }
    }

    pub(super) fn ladder_step(&mut self, input: shutdown::Input) {
        let row = shutdown::take(self.ladder, input);
        self.ladder = row.next;
        // A transport that never opened had no input to mind.
        if let Verdict::Quirk(kind) = row.verdict
            && self.handshake.state != HandshakeState::Idle
            && self.options.wire == Wire::Pipe
        {
            let detail = format!("still there {:?} after its input was closed", self.options.timeouts.grace);
            self.quirk(kind, None, None, detail);
        }
        for effect in row.effects {
            match effect {
                shutdown::Effect::CloseInput => self.out.push_back(Action::Shutdown(ShutdownStep::CloseInput)),
                shutdown::Effect::Terminate => self.out.push_back(Action::Shutdown(ShutdownStep::Terminate)),
                shutdown::Effect::Kill => self.out.push_back(Action::Shutdown(ShutdownStep::Kill)),
                shutdown::Effect::Arm => self.arm(Timer::Grace, self.options.timeouts.grace),
                shutdown::Effect::Done => {
                    self.timers.set(Timer::Grace, None);
                    self.link_step(link::Input::Gone);
                }
            }
        }
    }

    pub(super) fn transport(&mut self, event: Transport<'_>) {
        match event {
            Transport::Opened => {
                self.timers.set(Timer::Open, None);
                self.link_step(link::Input::Opened);
            }
            Transport::OpenFailed { how, why } => {
                let kind = match how {
                    OpenFailure::Spawn => FailureKind::Spawn,
                    OpenFailure::Connect => FailureKind::Connect,
                };
                let message = match how {
                    OpenFailure::Spawn => format!("{} cannot be started: {why}", self.server_name()),
                    OpenFailure::Connect => format!("{} cannot be reached: {why}", self.server_name()),
                };
                self.gone(kind, message.into(), why);
            }
            Transport::Closed { why } => {
                let message = format!("{} closed the connection {}: {why}", self.server_name(), self.occasion());
                self.gone(FailureKind::Closed, message.into(), why);
            }
            Transport::SignOfLife => self.sign_of_life(),
            Transport::ProtocolViolation { why }
                if matches!(self.link, link::State::Opening | link::State::Connecting | link::State::Ready) =>
            {
                let message = format!("{}: {why}", self.server_name());
                self.lose(FailureKind::Protocol, message.into(), Loss::Final);
            }
            Transport::ProtocolViolation { .. } => {}
            Transport::Lost { id, sent, why } => self.exchange_lost(id, sent, why),
            Transport::Refused { id, status, why } => self.exchange_refused(id, status, why),
            Transport::Expired { id } => self.session_expired(id),
            Transport::Unauthorized { id, forbidden, why, challenges } => {
                self.unauthorized(id, forbidden, why, challenges);
            }
        }
    }

    /// The transport is gone, or never was.
    fn gone(&mut self, kind: FailureKind, message: Box<str>, why: &str) {
        match self.link {
            link::State::Opening => self.lose(kind, message, Loss::Gone),
            // Over HTTP nothing is opened, so that nobody answers turns out later.
            link::State::Connecting | link::State::Ready if self.options.wire == Wire::Http => {
                self.lose(kind, message, Loss::Gone);
            }
            link::State::Connecting if kind == FailureKind::Closed => {
                self.handshake.words = Some(why.into());
                if self.handshake.is_over() {
                    self.lose(kind, message, Loss::Gone);
                } else {
                    self.handshake_step(HandshakeInput::TransportClosed);
                }
            }
            link::State::Ready if kind == FailureKind::Closed => self.lose(kind, message, Loss::Gone),
            link::State::Draining | link::State::Retiring | link::State::Closing => {
                self.drop_output();
                self.ladder_step(shutdown::Input::Exited);
            }
            link::State::Connecting
            | link::State::Ready
            | link::State::Idle
            | link::State::Waiting
            | link::State::Parked
            | link::State::Closed => {}
        }
    }

    fn occasion(&self) -> &'static str {
        match self.link {
            link::State::Connecting if self.handshake.is_over() => "during discovery",
            link::State::Connecting => "during the handshake",
            link::State::Ready
            | link::State::Idle
            | link::State::Opening
            | link::State::Draining
            | link::State::Retiring
            | link::State::Waiting
            | link::State::Parked
            | link::State::Closing
            | link::State::Closed => "while it was in use",
        }
    }

    /// The connection is of no use any more.
    pub(super) fn lose(&mut self, kind: FailureKind, message: Box<str>, loss: Loss) {
        let gone = loss == Loss::Gone;
        let failure = Failure { kind, message };
        self.reopened = false;
        let interval = self.options.keepalive.unwrap_or_default().interval;
        let outlived = self.ready_since.is_some_and(|since| self.now.since(since) >= interval);
        let proven = core::mem::take(&mut self.proven) || outlived;
        self.losses = if proven { 1 } else { self.losses.saturating_add(1) };
        let exhausted = self.options.reconnect.is_some_and(|reconnect| self.losses > reconnect.budget);
        let input = match (self.options.reconnect, gone) {
            (Some(_), false) if loss == Loss::Final => link::Input::Failed,
            (None, true) => link::Input::LostForGood,
            (None, false) => link::Input::Failed,
            (Some(_), false) if matches!(kind, FailureKind::Unauthorized | FailureKind::Forbidden) => {
                link::Input::Hopeless
            }
            (Some(_), false) if !self.was_ready => link::Input::Failed,
            (Some(_), false) if exhausted => link::Input::Hopeless,
            (Some(_), false) => link::Input::Unresponsive,
            (Some(_), true) if exhausted || kind == FailureKind::Spawn => link::Input::Exhausted,
            (Some(_), true) => link::Input::Lost,
        };
        // What becomes of a transport that the embedder was not asked for yet is not reported.
        let unseen = self.is_open_unpolled();
        if gone {
            self.drop_output();
        }
        self.end_connection(gone);
        self.failure = Some(failure.clone());
        // The table decides, so what it did tells what follows; the embedder hears of it before its effects.
        let at = self.out.len();
        self.link_step(input);
        let next = match self.link {
            link::State::Waiting | link::State::Draining => Recovery::Reopen { at: self.timers.get(Timer::Reopen) },
            link::State::Retiring => {
                Recovery::Parked { until: self.now + self.options.reconnect.unwrap_or_default().park }
            }
            link::State::Parked => Recovery::Parked { until: self.timers.get(Timer::Reopen).unwrap_or(self.now) },
            link::State::Closing
            | link::State::Closed
            | link::State::Idle
            | link::State::Opening
            | link::State::Connecting
            | link::State::Ready => Recovery::Close,
        };
        if !unseen || next == Recovery::Close {
            self.events = self.events.saturating_add(1);
            self.out.insert(at.min(self.out.len()), Action::Event(Event::Down { failure, next }));
        }
    }

    pub(super) fn open_timed_out(&mut self) {
        let message = format!("{} did not open within {:?}", self.server_name(), self.options.timeouts.open);
        self.lose(FailureKind::HandshakeTimeout, message.into(), Loss::Unusable);
    }

    fn open_transport(&mut self) {
        self.timers.clear();
        // What was to be done to the transport before is of no use any more.
        self.take_back(|action| matches!(action, Action::Shutdown(_) | Action::Open(_)));
        self.handshake = super::handshake::Handshake::default();
        self.epoch = self.epoch.saturating_add(1);
        self.handshake.opened_at = self.now;
        self.arm(Timer::Open, self.options.timeouts.open);
        self.out.push_back(Action::Open(Open { epoch: self.epoch }));
    }

    fn announce(&mut self) {
        self.timers.set(Timer::Discovery, None);
        self.failure = None;
        self.was_ready = true;
        self.proven = false;
        self.ready_since = Some(self.now);
        self.event(Event::Ready);
        self.start_keepalive();
        self.start_subscriptions();
        self.release_held();
        self.schemas_known(Family::Tools, true);
        self.rest();
    }

    /// Whether the embedder was not asked for the transport yet, since it did not poll.
    pub(super) fn is_open_unpolled(&self) -> bool {
        self.out.iter().any(|action| matches!(action, Action::Open(_)))
    }

    /// Takes back what the embedder was to do with a transport that is gone.
    pub(super) fn drop_output(&mut self) {
        self.take_back(|action| matches!(action, Action::Send(_) | Action::Shutdown(_) | Action::Open(_)));
    }

    /// Ends what belongs to a connection: nothing of it touches the next one. A server that is not gone is owed the
    /// answers to what it asked.
    pub(super) fn end_connection(&mut self, gone: bool) {
        self.take_back(|action| matches!(action, Action::Send(message) if gone || message.method.is_some()));
        self.stop_keepalive();
        self.timers.clear_but(Timer::Grace);
        self.ready_since = None;
        self.held = None;
        self.end_asks(gone);
        self.lose_calls();
        self.lose_subscriptions();
        self.requests.end_connection();
    }

    fn backoff(&mut self) -> Duration {
        let reconnect = self.options.reconnect.unwrap_or_default();
        let doublings = self.losses.saturating_sub(1).min(20);
        let wait =
            reconnect.initial.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(reconnect.max);
        // Between half the wait and all of it, so that many sessions do not come back at once.
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let jittered = micros.saturating_sub(self.rng.u64(0..=micros / 2));
        Duration::from_micros(jittered)
    }

    /// The handshake asks for a new transport, for `initialize` without a probe.
    pub(super) fn reopen_without_probe(&mut self) {
        self.reopened = true;
        self.end_connection(true);
        self.link_step(link::Input::Reopen);
    }

    /// The quirk of a handshake that had to be opened again, once it worked.
    pub(super) fn probe_closed_quirk(&mut self) {
        self.quirk(
            QuirkKind::ProbeClosed,
            None,
            Some(crate::protocol::method::DISCOVER),
            "the connection closed on a handshake that began with `server/discover`; opened again without it",
        );
    }
}
