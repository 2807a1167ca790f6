//! Component: the connection as a whole, opened, used, lost, reopened, shut down.

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use super::core::{Core, Loss, Signal, Signals, Stage, Timer};
use super::{
    Cause, CommandError, ConnectionId, Event, Failure, FailureKind, OpenFailure, Output, Recovery, ShutdownStep,
    Transport, Wire,
};
use crate::Time;
use crate::machine::link::{self, Effect, Input, Phase, State, shutdown};
use crate::machine::{QuirkKind, Verdict, table};
use crate::text::excerpt;

/// How many sessions in a row may expire before a call is answered.
const EXPIRIES: u32 = 3;

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Link {
    state: State,
    shutdown: shutdown::State,
    connection: ConnectionId,
    /// Lost connections in a row that did not answer a call or last long enough.
    losses: u32,
    /// When the first of them was opened.
    trying_since: Time,
    /// Sessions that expired since the last answered call.
    expiries: u32,
    /// A call was answered on this connection.
    is_healthy: bool,
    /// Since when the client is ready, while it is.
    ready_since: Time,
    /// Why the last connection was lost.
    loss: Option<Loss>,
}

impl Link {
    /// The current connection, the one that is being opened, or the last one.
    pub(super) const fn connection(&self) -> ConnectionId {
        self.connection
    }

    pub(super) const fn has_expired(&self) -> bool {
        self.expiries > 0
    }

    /// Whether there is a connection that takes messages.
    pub(super) const fn takes_messages(&self) -> bool {
        matches!(self.state.phase, Phase::Connecting | Phase::Ready | Phase::Unreached)
    }

    /// Whether a command is possible.
    pub(super) fn check(&self, command: Input, otherwise: CommandError) -> Result<(), CommandError> {
        if !table::refuses(link::step::row, link::step, self.state, command) {
            return Ok(());
        }
        let is_closed = matches!(self.state.phase, Phase::Closing | Phase::Closed);
        Err(if is_closed { CommandError::Closed } else { otherwise })
    }

    /// A call was answered: the connection works.
    pub(super) const fn mark_healthy(&mut self) {
        self.is_healthy = true;
        self.expiries = 0;
    }

    /// Whether the client was ready on this connection for at least the interval of keepalives.
    fn is_late(&self, core: &Core) -> bool {
        let interval = core.options.keepalive.unwrap_or_default().interval;
        matches!(self.state.phase, Phase::Ready | Phase::Unreached) && core.now.since(self.ready_since) >= interval
    }

    /// The step of the shutdown that is in progress.
    pub(super) const fn shutdown(&self) -> Option<ShutdownStep> {
        match self.shutdown {
            shutdown::State::Idle => None,
            shutdown::State::InputClosed | shutdown::State::Unopened => Some(ShutdownStep::CloseInput),
            shutdown::State::Terminated => Some(ShutdownStep::Terminate),
            shutdown::State::Killed => Some(ShutdownStep::Kill),
        }
    }

    /// The embedder closes the client.
    pub(super) fn close(&mut self, core: &mut Core) -> Signals {
        self.loss = None;
        self.step(core, Input::Close)
    }

    /// The client is not used: its transport is shut down, and everything that belonged to it has ended.
    pub(super) fn suspend(&mut self, core: &mut Core) -> Signals {
        (self.is_healthy, self.losses) = (false, 0);
        self.step(core, Input::Suspend)
    }

    /// The embedder polled something of the connection.
    pub(super) fn mark_polled(&mut self) {
        self.state = link::step(self.state, Input::Seen).next;
    }

    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Signals {
        let was_open = self.state.phase != Phase::Opening;
        let row = link::step(self.state, input);
        self.state = row.next;
        core.link = row.next.phase;
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                Effect::Open => {
                    self.open(core);
                    signals.push(Signal::Opening);
                    if core.opens_at_once() {
                        signals.extend(self.step(core, Input::Opened));
                    }
                }
                Effect::Handshake => signals.push(Signal::Opened),
                Effect::Announce => {
                    core.timers.set(Timer::Discovery, None);
                    core.timers.set(Timer::Connect, None);
                    self.loss = None;
                    core.was_ready = true;
                    self.is_healthy = false;
                    self.ready_since = core.now;
                    core.event(Event::Ready);
                    signals.push(Signal::Ready);
                }
                Effect::AnnounceAgain => {
                    core.timers.set(Timer::Reopen, None);
                    self.loss = None;
                    core.event(Event::Ready);
                }
                Effect::Report => self.report(core),
                Effect::Withdraw => core.outbox.withdraw_transport(),
                Effect::Shut => {
                    let input = match core.wire {
                        Wire::Pipe if was_open => shutdown::Input::Shut,
                        Wire::Pipe | Wire::Http => shutdown::Input::ShutUnopened,
                    };
                    signals.extend(self.step_shutdown(core, input));
                }
                Effect::Backoff => {
                    let wait = self.backoff(core);
                    // A wait of zero cannot loop: a loss needs an input or a deadline.
                    core.timers.set(Timer::Reopen, Some(core.now + wait));
                }
                Effect::Park => {
                    let park = core.options.reconnect.unwrap_or_default().parked_backoff;
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

    pub(super) fn step_shutdown(&mut self, core: &mut Core, input: shutdown::Input) -> Signals {
        let row = shutdown::step(self.shutdown, input);
        self.shutdown = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = format!("still there {:?} after its input was closed", core.options.timeouts.grace);
            core.quirk(kind, None, None, detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                shutdown::Effect::CloseInput | shutdown::Effect::Terminate | shutdown::Effect::Kill => {
                    if let Some(step) = self.shutdown().filter(|_| core.wire == Wire::Pipe) {
                        core.outbox.push(Output::Shutdown(step));
                    }
                }
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
                self.on_end(core, link::End::OpenFailed, kind, message.into(), why)
            }
            Transport::Closed { why } => {
                let occasion = match core.stage() {
                    Stage::Discovery => "during discovery",
                    Stage::Handshake => "during the handshake",
                    Stage::Down | Stage::Opening => "before it was open",
                    Stage::Ready | Stage::Unreached | Stage::Closing | Stage::Closed => "while it was in use",
                };
                let message = format!("{server} closed the connection {occasion}: {why}");
                self.on_end(core, link::End::Closed, FailureKind::Closed, message.into(), why)
            }
            Transport::ProtocolViolation { why } => {
                let message = format!("{server}: {why}");
                self.on_end(core, link::End::Violated, FailureKind::Protocol, message.into(), why)
            }
            Transport::SignOfLife => Signals::NONE,
        }
    }

    /// The transport ended.
    fn on_end(&mut self, core: &mut Core, end: link::End, kind: FailureKind, message: Box<str>, why: &str) -> Signals {
        match link::end(self.state.phase, self.state.note, end, core.wire, core.agreed.is_some()) {
            link::Meaning::Loss => {
                let transport = match end {
                    link::End::OpenFailed | link::End::Closed | link::End::Moved => link::Transport::Closed,
                    link::End::Violated => link::Transport::Hopeless,
                };
                Signals::lost(kind, message, transport)
            }
            link::Meaning::Handshake => Signals::one(Signal::TransportClosed(excerpt(why).into())),
            link::Meaning::Shutdown => {
                core.outbox.withdraw_transport();
                self.step_shutdown(core, shutdown::Input::Exited)
            }
            link::Meaning::Nothing => Signals::NONE,
        }
    }

    /// The client is not ready in time.
    pub(super) fn connect_timed_out(core: &Core) -> Signals {
        let connect = core.options.timeouts.connect.unwrap_or_default();
        let doing = match core.stage() {
            Stage::Handshake => "the handshake",
            Stage::Discovery => "discovery",
            Stage::Down | Stage::Opening | Stage::Ready | Stage::Unreached | Stage::Closing | Stage::Closed => {
                "the opening of its transport"
            }
        };
        let message = format!("{} was not ready within {connect:?}: {doing} took too long", core.server_name());
        Signals::lost(FailureKind::HandshakeTimeout, message, link::Transport::Open)
    }

    /// The session moved without its transport, which says nothing of the server.
    #[cfg(feature = "snapshot")]
    pub(super) fn on_moved(&mut self, core: &mut Core) -> Signals {
        let why = "the session moved to another process without its connection";
        let message = format!("{}: {why}", core.server_name());
        self.on_end(core, link::End::Moved, FailureKind::Closed, message.into(), why)
    }

    pub(super) fn open_timed_out(&self, core: &Core) -> Signals {
        let message = format!("{} did not open within {:?}", core.server_name(), core.options.timeouts.open);
        Signals::lost(FailureKind::HandshakeTimeout, message, link::Transport::Open)
    }

    /// Counts a loss, and classifies it as an input of the table, before anything of the connection ends.
    pub(super) fn count_loss(&mut self, core: &Core, loss: &Loss) -> Input {
        // A connection that worked begins a new row.
        let worked = self.is_healthy || self.is_late(core);
        self.losses = if worked { 1 } else { self.losses.saturating_add(1) };
        self.is_healthy = false;
        let losses = self.losses;
        let connect = core.options.timeouts.connect.unwrap_or(core.options.timeouts.open);
        let attempts = match core.options.reconnect {
            None => link::Attempts::Never,
            // A server that is started beside the client may not listen yet.
            Some(reconnect)
                if reconnect.first_attempts > 1
                    && loss.kind == FailureKind::Connect
                    && !core.was_ready
                    && core.now.since(self.trying_since) < connect =>
            {
                link::Attempts::Left
            }
            Some(reconnect) if core.was_ready && losses > reconnect.max_losses => link::Attempts::UsedUp,
            Some(reconnect) if !core.was_ready && losses >= reconnect.first_attempts => link::Attempts::UsedUp,
            Some(_) => link::Attempts::Left,
        };
        let cause = match loss.kind {
            FailureKind::Spawn => link::Cause::Spawn,
            FailureKind::Unauthorized | FailureKind::Forbidden => link::Cause::Authorization,
            FailureKind::UnsupportedVersion => link::Cause::Version,
            FailureKind::Connect
            | FailureKind::HandshakeTimeout
            | FailureKind::HandshakeRejected
            | FailureKind::Protocol
            | FailureKind::ListFailed
            | FailureKind::Overrun
            | FailureKind::Closed => link::Cause::Other,
        };
        link::lose(loss.transport, cause, attempts)
    }

    /// The connection is lost, and everything that belonged to it has ended.
    pub(super) fn lose(&mut self, core: &mut Core, input: Input, loss: Loss) -> Signals {
        self.loss = Some(loss);
        self.step(core, input)
    }

    /// Reports the loss, and what follows.
    fn report(&self, core: &mut Core) {
        let authorizing = self.loss.as_ref().is_some_and(|loss| loss.transport == link::Transport::Authorizing);
        let parked = |until| Recovery::Parked { until, authorizing };
        let next = match self.state.phase {
            Phase::Opening => Recovery::Reopen { at: Some(core.now) },
            Phase::Unreached => Recovery::Resume { at: core.timers.get(Timer::Reopen).unwrap_or(core.now) },
            Phase::Waiting | Phase::Draining => Recovery::Reopen { at: core.timers.get(Timer::Reopen) },
            Phase::Retiring => parked(core.now + core.options.reconnect.unwrap_or_default().parked_backoff),
            Phase::Parked => parked(core.timers.get(Timer::Reopen).unwrap_or(core.now)),
            Phase::Idle
            | Phase::Connecting
            | Phase::Ready
            | Phase::Suspending
            | Phase::Resuming
            | Phase::Suspended
            | Phase::Closing
            | Phase::Closed => Recovery::Close,
        };
        core.events(self.failure().map(|failure| Event::Down { failure, next }));
    }

    /// Nobody is reached. What is in flight is tried again at this time, and the connection stays until then.
    pub(super) fn on_unreached(&mut self, core: &mut Core, why: &str, until: Time) -> Signals {
        if self.state.phase == Phase::Ready {
            core.timers.set(Timer::Reopen, Some(until));
            let message = format!("{} cannot be reached: {why}", core.server_name()).into();
            self.loss = Some(Loss { kind: FailureKind::Connect, message, transport: link::Transport::Closed });
        }
        self.step(core, Input::Unreached)
    }

    /// The session expired. Returns whether another one may be opened; otherwise the loss.
    pub(super) fn count_expiry(&mut self, core: &mut Core) -> Result<(), Signals> {
        // A session that lasted long does not count as a part of a loop.
        let before = if self.is_late(core) { 0 } else { self.expiries };
        self.expiries = before.saturating_add(1);
        if before < EXPIRIES {
            return Ok(());
        }
        let detail = "a fourth session in a row expired before a call was answered";
        let message = format!("the sessions of {} expire as soon as they are opened: {detail}", core.server_name());
        core.quirk(QuirkKind::SessionLoop, None, None, detail);
        Err(Signals::lost(FailureKind::Closed, message, link::Transport::Hopeless))
    }

    /// The session expired, and another one is opened.
    pub(super) fn expire(&mut self, core: &mut Core) -> Signals {
        self.loss = Some(Self::expiry(core));
        self.step(core, Input::Expired)
    }

    /// The loss of a session that expired.
    pub(super) fn expiry(core: &Core) -> Loss {
        let message = format!("the session with {} expired", core.server_name()).into();
        Loss { kind: FailureKind::Closed, message, transport: link::Transport::Closed }
    }

    /// Why the connection is lost, while there is none.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.loss.as_ref().map(Loss::failure)
    }

    /// The message of the last loss.
    #[cfg(feature = "http")]
    pub(super) fn last_error(&mut self) -> impl Iterator<Item = &mut Box<str>> {
        self.loss.iter_mut().map(|loss| &mut loss.message)
    }

    /// The client closes, and every request has ended.
    pub(super) fn finish(&mut self, core: &mut Core) {
        let failure = |Loss { kind, message, .. }| Cause::Failed(Failure { kind, message });
        let cause = self.loss.take().map_or(Cause::Requested, failure);
        core.event(Event::Closed { cause });
    }

    fn open(&mut self, core: &mut Core) {
        core.timers.clear();
        if self.losses == 0 {
            self.trying_since = core.now;
        }
        // What was queued for an earlier transport, responses included, is obsolete.
        core.outbox.withdraw_transport();
        core.agreed = None;
        self.connection = self.connection.next();
        if let Some(connect) = core.options.timeouts.connect {
            core.arm(Timer::Connect, connect);
        }
        if !core.opens_at_once() {
            core.arm(Timer::Open, core.options.timeouts.open);
        }
        if core.wire == Wire::Pipe {
            core.outbox.push(Output::Open(self.connection));
        }
    }

    fn backoff(&self, core: &mut Core) -> Duration {
        let reconnect = core.options.reconnect.unwrap_or_default();
        let wait = crate::time::backoff(
            reconnect.initial_backoff,
            self.losses.saturating_sub(1).min(20),
            reconnect.max_backoff,
        );
        // Between half of the wait and all of it, so that many clients do not reconnect at the same time.
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let jittered = micros.saturating_sub(core.rng.u64(0..=micros / 2));
        Duration::from_micros(jittered)
    }
}
