use core::time::Duration;

use crate::Time;
use crate::protocol::Family;

/// The shortest wait. A wait of zero would be due again at the same time without end.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// The longest wait between refreshes that fail or find no change.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The timers of a client, except those of its requests and of server requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The deadline for opening the transport.
    Open,
    /// The deadline of `server/discover`.
    Discover,
    /// The deadline of the handshake.
    Handshake,
    /// The deadline of discovery.
    Discovery,
    /// The backoff before the transport is opened again.
    Reopen,
    /// The next keepalive request, or the deadline of its response.
    Keepalive,
    /// The grace period between the steps of the shutdown.
    Grace,
    /// The wait before the listen stream is requested again.
    Stream,
    /// The wait before a family's list is requested again.
    Refresh(Family),
    /// The deadline of a connection until the client is ready.
    Connect,
}

impl Timer {
    pub(super) const ALL: [Self; Timers::COUNT] = [
        Self::Open,
        Self::Discover,
        Self::Handshake,
        Self::Discovery,
        Self::Reopen,
        Self::Keepalive,
        Self::Grace,
        Self::Stream,
        Self::Refresh(Family::Tools),
        Self::Refresh(Family::Prompts),
        Self::Refresh(Family::Resources),
        Self::Refresh(Family::ResourceTemplates),
        Self::Connect,
    ];

    /// Its index.
    const fn place(self) -> usize {
        match self {
            Self::Open => 0,
            Self::Discover => 1,
            Self::Handshake => 2,
            Self::Discovery => 3,
            Self::Reopen => 4,
            Self::Keepalive => 5,
            Self::Grace => 6,
            Self::Stream => 7,
            Self::Refresh(Family::Tools) => 8,
            Self::Refresh(Family::Prompts) => 9,
            Self::Refresh(Family::Resources) => 10,
            Self::Refresh(Family::ResourceTemplates) => 11,
            Self::Connect => 12,
        }
    }
}

/// The running timers, and the earliest deadline.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers {
    at: [Option<Time>; Self::COUNT],
    #[cfg_attr(feature = "snapshot", serde(skip))]
    soonest: Option<Time>,
}

impl Timers {
    const COUNT: usize = 13;

    pub(super) fn set(&mut self, timer: Timer, at: Option<Time>) {
        if let Some(slot) = self.at.get_mut(timer.place()) {
            *slot = at;
            self.soonest = self.at.iter().flatten().min().copied();
        }
    }

    /// Finds the earliest deadline again, in a restored client.
    #[cfg(feature = "snapshot")]
    pub(super) fn recount(&mut self) {
        self.soonest = self.at.iter().flatten().min().copied();
    }

    pub(super) fn get(&self, timer: Timer) -> Option<Time> {
        self.at.get(timer.place()).copied().flatten()
    }

    pub(super) const fn next(&self) -> Option<Time> {
        self.soonest
    }

    /// Stops a timer if it is due. Returns whether it was.
    pub(super) fn take_due(&mut self, timer: Timer, now: Time) -> bool {
        let due = self.get(timer).is_some_and(|at| at <= now);
        if due {
            self.set(timer, None);
        }
        due
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_has_its_place() {
        assert_eq!(Timer::ALL.map(Timer::place), core::array::from_fn(|place| place));
    }
}
