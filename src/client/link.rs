//! Component: the connection as a whole, opened, used, lost, reopened, shut down.

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use super::core::{Core, Stage, excerpt};
use super::signal::{Loss, Signal, Signals};
use super::timers::Timer;
use super::{
    Cause, CommandError, ConnectionId, Event, Failure, FailureKind, OpenFailure, Output, Recovery, ShutdownStep,
    Transport, Wire,
};
use crate::Time;
use crate::machine::link::{self, Effect, Input, State};
use crate::machine::resend::Used;
use crate::machine::{Verdict, loss, shutdown};

#[derive(Clone, Debug)]
pub(super) struct Link {
    state: State,
    shutdown: shutdown::State,
    connection: ConnectionId,
    /// The transport of this connection opened.
    opened: bool,
    /// Lost connections in a row that did not answer a call or last long enough.
    losses: u32,
    /// Sessions that expired since the last answered call.
    expiries: Used,
    /// The connection answered a call.
    proven: bool,
    ready_since: Option<Time>,
    failure: Option<Failure>,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            state: State::Idle,
            shutdown: shutdown::State::Idle,
            connection: ConnectionId::default(),
            opened: false,
            losses: 0,
            expiries: Used::Never,
            proven: false,
            ready_since: None,
            failure: None,
        }
    }
}

impl Link {
    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// The current connection, the one that is being opened, or the last one.
    pub(super) const fn connection(&self) -> ConnectionId {
        self.connection
    }

    pub(super) const fn has_expired(&self) -> bool {
        !matches!(self.expiries, Used::Never)
    }

    /// Whether there is a connection that takes messages.
    pub(super) const fn is_connected(&self) -> bool {
        matches!(self.state, State::Connecting | State::Ready)
    }

    /// Whether a command is possible.
    pub(super) fn check(&self, input: Input, otherwise: CommandError) -> Result<(), CommandError> {
        match link::take(self.state, input).verdict {
            Verdict::Reject if matches!(self.state, State::Closing | State::Closed) => Err(CommandError::Closed),
            Verdict::Reject => Err(otherwise),
            Verdict::Advance | Verdict::Ignore | Verdict::Quirk(_) => Ok(()),
        }
    }

    /// A call was answered: the connection works.
    pub(super) fn prove(&mut self) {
        self.proven = true;
        self.expiries = Used::Never;
    }

    /// The embedder closes the client.
    pub(super) fn close(&mut self, core: &mut Core) -> Signals {
        self.failure = None;
        // A connection that the embedder did not see yet needs no shutdown.
        let unseen = core.unseen;
        let mut signals = self.step(core, Input::Close);
        if unseen {
            core.outbox.take_back_transport();
            signals.extend(self.step_shutdown(core, shutdown::Input::Exited));
        }
        signals
    }

    /// The embedder can authorize requests: a client that is parked because of it reconnects.
    pub(super) fn authorized(&mut self, core: &mut Core) -> Signals {
        let refused = |failure: &Failure| matches!(failure.kind, FailureKind::Unauthorized | FailureKind::Forbidden);
        let stopped = matches!(self.state, State::Parked | State::Retiring);
        match stopped && self.failure.as_ref().is_some_and(refused) {
            true => self.step(core, Input::Open),
            false => Signals::NONE,
        }
    }

    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Signals {
        let row = link::take(self.state, input);
        self.state = row.next;
        self.publish(core);
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Open => {
                    self.open(core);
                    signals.push(Signal::Opening);
                }
                Effect::Handshake => {
                    self.opened = true;
                    signals.push(Signal::Opened);
                }
                Effect::Announce => {
                    core.timers.set(Timer::Discovery, None);
                    self.failure = None;
                    core.was_ready = true;
                    self.proven = false;
                    self.ready_since = Some(core.now);
                    core.event(Event::Ready);
                    signals.push(Signal::Ready);
                }
                Effect::Shut => {
                    let process = self.opened && core.wire == Wire::Pipe;
                    let input = if process { shutdown::Input::Shut } else { shutdown::Input::ShutUnopened };
                    signals.extend(self.step_shutdown(core, input));
                }
                Effect::Backoff => {
                    let wait = self.backoff(core);
                    // The timer starts now if the options say so, because the transport takes time to open.
                    core.timers.set(Timer::Reopen, Some(core.now + wait));
                }
                Effect::Park => {
                    let park = core.options.reconnect.unwrap_or_default().park;
                    core.arm(Timer::Reopen, park);
                }
                Effect::Finish => {
                    core.timers.clear();
                    signals.push(Signal::Finish);
                }
            }
        }
        signals
    }

    /// Updates the stage for the other components.
    fn publish(&self, core: &mut Core) {
        core.stage = match self.state {
            State::Connecting if core.agreed.is_some() => Stage::Discovery,
            State::Connecting => Stage::Handshake,
            State::Ready => Stage::Ready,
            State::Closing => Stage::Closing,
            State::Closed => Stage::Closed,
            State::Idle | State::Opening | State::Draining | State::Retiring | State::Waiting | State::Parked => {
                Stage::Down
            }
        };
    }

    pub(super) fn step_shutdown(&mut self, core: &mut Core, input: shutdown::Input) -> Signals {
        let row = shutdown::take(self.shutdown, input);
        self.shutdown = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = format!("still there {:?} after its input was closed", core.options.timeouts.grace);
            core.quirk(kind, None, None, detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                shutdown::Effect::CloseInput => core.outbox.push(Output::Shutdown(ShutdownStep::CloseInput)),
                shutdown::Effect::Terminate => core.outbox.push(Output::Shutdown(ShutdownStep::Terminate)),
                shutdown::Effect::Kill => core.outbox.push(Output::Shutdown(ShutdownStep::Kill)),
                shutdown::Effect::Arm => core.arm(Timer::Grace, core.options.timeouts.grace),
                shutdown::Effect::Done => {
                    core.timers.set(Timer::Grace, None);
                    signals.extend(self.step(core, Input::Gone));
                }
            }
        }
        signals
    }

    /// Takes a report on the transport, except signs of life.
    pub(super) fn on_transport(&mut self, core: &mut Core, event: Transport<'_>) -> Signals {
        let server = core.server_name();
        match event {
            Transport::Opened => {
                core.timers.set(Timer::Open, None);
                self.step(core, Input::Opened)
            }
            Transport::OpenFailed { how, why } => {
                let (kind, message) = match how {
                    OpenFailure::Spawn => (FailureKind::Spawn, format!("{server} cannot be started: {why}")),
                    OpenFailure::Connect => (FailureKind::Connect, format!("{server} cannot be reached: {why}")),
                };
                self.on_end(core, loss::End::OpenFailed, kind, message.into(), why)
            }
            Transport::Closed { why } => {
                let occasion = match core.stage {
                    Stage::Discovery => "during discovery",
                    Stage::Handshake => "during the handshake",
                    Stage::Down | Stage::Ready | Stage::Closing | Stage::Closed => "while it was in use",
                };
                let message = format!("{server} closed the connection {occasion}: {why}");
                self.on_end(core, loss::End::Closed, FailureKind::Closed, message.into(), why)
            }
            Transport::ProtocolViolation { why }
                if matches!(self.state, State::Opening | State::Connecting | State::Ready) =>
            {
                let message = format!("{server}: {why}");
                Signals::lost(FailureKind::Protocol, message, loss::Transport::Hopeless)
            }
            Transport::ProtocolViolation { .. } | Transport::SignOfLife => Signals::NONE,
        }
    }

    /// The transport closed, or did not open.
    fn on_end(&mut self, core: &mut Core, end: loss::End, kind: FailureKind, message: Box<str>, why: &str) -> Signals {
        let wire = match core.wire {
            Wire::Pipe => loss::Wire::Pipe,
            Wire::Http => loss::Wire::Http,
        };
        let handshake = if core.agreed.is_some() { loss::Handshake::Done } else { loss::Handshake::Open };
        match loss::take_ended(self.state, end, wire, handshake) {
            loss::Meaning::Loss => Signals::lost(kind, message, loss::Transport::Closed),
            loss::Meaning::Handshake => Signals::one(Signal::TransportClosed(excerpt(why).into())),
            loss::Meaning::Shutdown => {
                core.outbox.take_back_transport();
                self.step_shutdown(core, shutdown::Input::Exited)
            }
            loss::Meaning::Nothing => Signals::NONE,
        }
    }

    pub(super) fn open_timed_out(&self, core: &Core) -> Signals {
        let message = format!("{} did not open within {:?}", core.server_name(), core.options.timeouts.open);
        Signals::lost(FailureKind::HandshakeTimeout, message, loss::Transport::Open)
    }

    /// Classifies a loss as an input of the table, before anything of the connection ends.
    pub(super) fn classify(&mut self, core: &Core, loss: &Loss) -> Input {
        let interval = core.options.keepalive.unwrap_or_default().interval;
        let outlived = self.ready_since.is_some_and(|since| core.now.since(since) >= interval);
        let proven = core::mem::take(&mut self.proven) || outlived;
        self.losses = if proven { 1 } else { self.losses.saturating_add(1) };
        let tries = match core.options.reconnect {
            None => loss::Tries::Never,
            Some(reconnect) if self.losses > reconnect.budget => loss::Tries::UsedUp,
            Some(_) => loss::Tries::Left,
        };
        let cause = match loss.kind {
            FailureKind::Spawn => loss::Cause::Spawn,
            FailureKind::Unauthorized | FailureKind::Forbidden => loss::Cause::Authorization,
            FailureKind::Connect
            | FailureKind::HandshakeTimeout
            | FailureKind::HandshakeRejected
            | FailureKind::UnsupportedVersion
            | FailureKind::Protocol
            | FailureKind::ListFailed
            | FailureKind::Closed => loss::Cause::Other,
        };
        let before = if core.was_ready { loss::Before::Ready } else { loss::Before::NeverReady };
        loss::take(loss.transport, cause, tries, before)
    }

    /// The connection is lost, and everything that belonged to it has ended. `unseen`: the embedder did not poll the
    /// `Open` of its transport yet, so the loss is not reported.
    pub(super) fn lose(&mut self, core: &mut Core, input: Input, loss: Loss, unseen: bool) -> Signals {
        let failure = Failure { kind: loss.kind, message: loss.message };
        self.failure = Some(failure.clone());
        // The effects come from the table's step, but the loss is reported before them.
        let at = core.outbox.len();
        let signals = self.step(core, input);
        let next = match self.state {
            State::Waiting | State::Draining => Recovery::Reopen { at: core.timers.get(Timer::Reopen) },
            State::Retiring => Recovery::Parked { until: core.now + core.options.reconnect.unwrap_or_default().park },
            State::Parked => Recovery::Parked { until: core.timers.get(Timer::Reopen).unwrap_or(core.now) },
            State::Closing | State::Closed | State::Idle | State::Opening | State::Connecting | State::Ready => {
                Recovery::Close
            }
        };
        if !unseen || next == Recovery::Close {
            core.outbox.insert(at, Event::Down { failure, next });
        }
        signals
    }

    /// The session expired. Returns whether another one may be opened; otherwise the loss.
    pub(super) fn count_expiry(&mut self, core: &mut Core) -> Result<(), Signals> {
        // A session that lasted long does not count as a part of a loop.
        let interval = core.options.keepalive.unwrap_or_default().interval;
        if self.ready_since.is_some_and(|since| core.now.since(since) >= interval) {
            self.expiries = Used::Never;
        }
        let loss::Expiry::GiveUp(kind) = loss::take_expired(self.expiries) else {
            self.expiries = self.expiries.more();
            return Ok(());
        };
        let detail = "a fourth session in a row expired before a call was answered";
        let message = format!("{} forgets its sessions as soon as they are opened: {detail}", core.server_name());
        core.quirk(kind, None, None, detail);
        Err(Signals::lost(FailureKind::Closed, message, loss::Transport::Hopeless))
    }

    /// Reports the expired session, and opens the next one.
    pub(super) fn expire(&mut self, core: &mut Core) -> Signals {
        let message = format!("{} forgot the session", core.server_name());
        let failure = Failure { kind: FailureKind::Closed, message: message.into() };
        core.event(Event::Down { failure, next: Recovery::Reopen { at: Some(core.now) } });
        self.step(core, Input::Expired)
    }

    /// Everything that belonged to the connection has ended.
    pub(super) fn on_connection_ended(&mut self) {
        self.ready_since = None;
    }

    /// The client closes, and every request has ended.
    pub(super) fn finish(&mut self, core: &mut Core) {
        let cause = self.failure.take().map_or(Cause::Requested, Cause::Failed);
        core.event(Event::Closed { cause });
    }

    fn open(&mut self, core: &mut Core) {
        core.timers.clear();
        // Earlier actions on the transport are obsolete.
        core.outbox.take_back(|output| matches!(output, Output::Shutdown(_) | Output::Open(_)));
        core.agreed = None;
        self.opened = false;
        core.unseen = true;
        self.connection = self.connection.next();
        core.arm(Timer::Open, core.options.timeouts.open);
        core.outbox.push(Output::Open(self.connection));
    }

    fn backoff(&self, core: &mut Core) -> Duration {
        let reconnect = core.options.reconnect.unwrap_or_default();
        let doublings = self.losses.saturating_sub(1).min(20);
        let wait =
            reconnect.initial.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(reconnect.max);
        // Between half of the wait and all of it, so that many clients do not reconnect at the same time.
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let jittered = micros.saturating_sub(core.rng.u64(0..=micros / 2));
        Duration::from_micros(jittered)
    }
}
