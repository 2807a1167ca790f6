use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: microseconds since an epoch that the embedder picks.
///
/// The crate reads no clock. Each input and command of a [`Client`](crate::Client) takes the current time.
/// The epoch may be the start of the process, of the session or of a simulation. Arithmetic saturates at
/// `u64::MAX - 1` microseconds. A time that never comes is `None`, as of [`Client::deadline`](crate::Client::deadline).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// One more than the microseconds: an `Option<Time>` takes no more room than a `Time`.
pub struct Time(NonZeroU64);

impl Time {
    /// The epoch itself.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// The time that is `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// The time that is `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    /// The time that is `since` after the epoch, as `start.elapsed()` of a clock gives it.
    pub fn from_epoch(since: Duration) -> Self {
        Self::from_micros(micros(since))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }

    /// Whole milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.as_micros() / 1000
    }

    /// How long after `earlier` this is; zero where it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// The earliest of the deadlines that are set. An iterator over them takes several times as long.
    #[inline(always)]
    pub(crate) fn earliest<const N: usize>(times: [Option<Self>; N]) -> Option<Self> {
        let mut earliest = None;
        for time in times {
            earliest = match (earliest, time) {
                (Some(a), Some(b)) if b < a => Some(b),
                (None, time) => time,
                (known, _) => known,
            };
        }
        earliest
    }
}

impl Default for Time {
    fn default() -> Self {
        Self::ZERO
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_micros().serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_micros)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.as_micros() / 1_000_000, self.as_micros() % 1_000_000)
    }
}

/// A measured time as messages show it. The clock of an embedder is late by some microseconds, which say nothing.
pub(crate) fn shown(measured: Duration) -> Duration {
    let millis = u64::try_from(measured.as_millis()).unwrap_or(u64::MAX);
    let rest = if millis < 1000 { 0 } else { millis % 100 };
    Duration::from_millis(millis.saturating_sub(rest))
}

/// The wait before an attempt that follows this many others: twice as long each time, up to a maximum.
pub(crate) fn backoff(first: Duration, attempts: u32, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_time_is_shown_without_what_a_clock_is_late_by() {
        for (micros, millis) in
            [(0, 0), (7_900, 7), (999_999, 999), (1_000_000, 1_000), (1_050_000, 1_000), (2_199_999, 2_100)]
        {
            assert_eq!(shown(Duration::from_micros(micros)), Duration::from_millis(millis), "{micros}");
        }
    }

    #[test]
    fn the_earliest_of_the_times_that_are_set_counts() {
        let at = |micros| Some(Time::from_micros(micros));
        for (times, earliest) in [
            ([None, None, None], None),
            ([None, at(2), None], at(2)),
            ([at(3), at(2), at(2)], at(2)),
            ([at(1), None, at(2)], at(1)),
        ] {
            assert_eq!(Time::earliest(times), earliest);
        }
    }
}
