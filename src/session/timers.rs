use crate::Time;
use crate::protocol::Family;

/// What a session waits for, beside its requests and the server's questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The transport does not open.
    Open,
    /// The probe is not answered.
    Probe,
    /// The handshake does not end.
    Handshake,
    /// The wait before the transport is opened again.
    Reopen,
    /// The next keepalive probe, or its answer.
    Keepalive,
    /// The grace time of the shutdown.
    Grace,
    /// The wait before a family is walked again.
    Refresh(Family),
}

impl Timer {
    const ALL: [Self; Timers::COUNT] = [
        Self::Open,
        Self::Probe,
        Self::Handshake,
        Self::Reopen,
        Self::Keepalive,
        Self::Grace,
        Self::Refresh(Family::Tools),
        Self::Refresh(Family::Prompts),
        Self::Refresh(Family::Resources),
        Self::Refresh(Family::ResourceTemplates),
    ];
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers([Option<Time>; Self::COUNT]);

impl Timers {
    const COUNT: usize = 10;

    pub(super) fn set(&mut self, timer: Timer, at: Option<Time>) {
        for (slot, which) in self.0.iter_mut().zip(Timer::ALL) {
            if which == timer {
                *slot = at;
            }
        }
    }

    pub(super) fn get(&self, timer: Timer) -> Option<Time> {
        Timer::ALL.into_iter().zip(self.0).find(|(which, _)| *which == timer).and_then(|(_, at)| at)
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes a timer that is due.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Timer> {
        for (slot, which) in self.0.iter_mut().zip(Timer::ALL) {
            if slot.is_some_and(|at| at <= now) {
                *slot = None;
                return Some(which);
            }
        }
        None
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn clear_but(&mut self, kept: Timer) {
        let at = self.get(kept);
        self.clear();
        self.set(kept, at);
    }
}
