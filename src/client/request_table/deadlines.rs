use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Time;

/// When a request times out.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// For a request of the embedder, on the call clock.
    pub(super) at: Time,
    /// For a request of the embedder: for how long the call clock had been paused when it was made.
    pub(super) paused_total: Option<Duration>,
}

impl Due {
    /// When a call ends even if its clock is paused from now on.
    fn hard_deadline(self, max_pause: Duration) -> Option<Time> {
        self.paused_total.map(|paused_total| self.at + paused_total.saturating_add(max_pause))
    }
}

/// The call clock. It is paused while server requests are open at the embedder. In total, each call profits from this
/// at most as long as one server request may be open; then it ends even if the clock is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Clock {
    /// Since when it is paused, if it is.
    paused: Option<Time>,
    /// For how long it was paused before.
    paused_total: Duration,
    /// Maximum pause for one call.
    max_pause: Duration,
    /// When each call ends even if the clock is paused.
    hard_deadlines: BTreeSet<(Time, u64)>,
    /// Open calls up to this id are in `hard_deadlines` if they have a deadline.
    indexed_up_to: u64,
}

/// The deadlines of the open requests. Those of the embedder's requests run on the call clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Deadlines {
    own: BTreeSet<(Time, u64)>,
    calls: BTreeSet<(Time, u64)>,
    /// The call clock; `None` until the first server request of this connection is reported.
    clock: Option<Box<Clock>>,
}

impl Deadlines {
    /// No deadlines, on the same call clock.
    #[cfg(feature = "snapshot")]
    pub(super) fn emptied(&self) -> Self {
        let clock = self.clock.clone().map(|clock| Box::new(Clock { hard_deadlines: BTreeSet::new(), ..*clock }));
        Self { clock, ..Self::default() }
    }

    fn of(&mut self, due: Due) -> &mut BTreeSet<(Time, u64)> {
        if due.paused_total.is_some() { &mut self.calls } else { &mut self.own }
    }

    #[inline]
    pub(super) fn add(&mut self, id: u64, due: Option<Due>) {
        let Some(due) = due else { return };
        self.of(due).insert((due.at, id));
        if let Some(clock) = &mut self.clock
            && id <= clock.indexed_up_to
            && let Some(hard) = due.hard_deadline(clock.max_pause)
        {
            clock.hard_deadlines.insert((hard, id));
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u64, due: Option<Due>) {
        let Some(due) = due else { return };
        self.of(due).remove(&(due.at, id));
        if let Some(clock) = &mut self.clock
            && id <= clock.indexed_up_to
            && let Some(hard) = due.hard_deadline(clock.max_pause)
        {
            clock.hard_deadlines.remove(&(hard, id));
        }
    }

    /// For how long the call clock was paused.
    #[inline]
    pub(super) fn paused_total(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.paused_total)
    }

    /// The time on the call clock.
    #[inline]
    pub(super) fn call_time(&self, now: Time) -> Time {
        let Some(clock) = &self.clock else { return now };
        let now = clock.paused.unwrap_or(now);
        Time::ZERO + now.since(Time::ZERO).saturating_sub(clock.paused_total)
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        let first = |deadlines: &BTreeSet<(Time, u64)>| deadlines.first().map(|(at, _)| *at);
        let call = first(&self.calls);
        let (call, hard) = match self.clock.as_deref() {
            None => (call, None),
            Some(clock) => {
                let call = call.map(|at| at + clock.paused_total);
                (call.filter(|at| clock.paused.is_none_or(|since| *at <= since)), first(&clock.hard_deadlines))
            }
        };
        Time::earliest([first(&self.own), call, hard])
    }

    /// The requests whose deadline passed, in the order of the deadlines.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        let (mut paused_total, mut clock_time, mut hard) = (Duration::ZERO, now, None);
        if let Some(clock) = self.clock.as_deref() {
            (paused_total, clock_time, hard) =
                (clock.paused_total, clock.paused.unwrap_or(now), Some(&clock.hard_deadlines));
        }
        let own = self.own.iter().copied().take_while(|(at, _)| *at <= now);
        let calls = self.calls.iter().map(|(at, id)| (*at + paused_total, *id));
        let calls = calls.take_while(|(at, _)| *at <= clock_time);
        let hard = hard.into_iter().flatten().copied().take_while(|(at, _)| *at <= now);
        let mut expired: Vec<_> = own.chain(calls).chain(hard).collect();
        expired.sort_unstable();
        // A call may be listed for both of its deadlines; the second time it is not open any more.
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// Pauses the call clock, for each call by at most `max_pause` in total. `open` returns the requests with a greater id.
    pub(super) fn pause<I: Iterator<Item = (u64, Due)>>(
        &mut self,
        max_pause: Duration,
        now: Time,
        open: impl FnOnce(u64) -> I,
    ) {
        let clock = self.clock.get_or_insert_with(|| {
            Box::new(Clock {
                paused: None,
                paused_total: Duration::ZERO,
                max_pause,
                hard_deadlines: BTreeSet::new(),
                indexed_up_to: 0,
            })
        });
        if clock.paused.is_some() {
            return;
        }
        clock.paused = Some(now);
        // Each call is visited once, however many server requests follow.
        for (id, due) in open(clock.indexed_up_to) {
            if let Some(hard) = due.hard_deadline(clock.max_pause) {
                clock.hard_deadlines.insert((hard, id));
            }
        }
        // Calls that are opened later are added when they are opened.
        clock.indexed_up_to = u64::MAX;
    }

    /// The call clock continues.
    pub(super) fn resume(&mut self, now: Time, last_id: u64) {
        if let Some(clock) = &mut self.clock
            && let Some(since) = clock.paused.take()
        {
            clock.paused_total = clock.paused_total.saturating_add(now.since(since));
            clock.indexed_up_to = last_id;
        }
    }

    /// Releases the memory of a burst of requests. There is no request.
    pub(super) fn release(&mut self) {
        let clock = self.clock.take().filter(|clock| clock.paused.is_some());
        *self = Self { clock, ..Self::default() };
    }
}
