//! What a timeout of a keepalive request means: an input of the [`keepalive`](super::keepalive) table.

use super::alphabet;
use super::keepalive::{Input, Pings};

alphabet! {
    /// How long the request was in flight.
    Clock {
        /// About as long as its timeout.
        Steady,
        /// Twice its timeout or more, as after a suspend.
        Jumped,
    }
}

alphabet! {
    /// Whether the server sent anything while the request was in flight.
    Heard {
        /// It did.
        Something,
        /// It did not.
        Nothing,
    }
}

alphabet! {
    /// The request, and what follows its method, by [`keepalive::below`](super::keepalive::below).
    Asked {
        /// `ping`; a list follows.
        PingThenList,
        /// `ping`; nothing follows.
        Ping,
        /// The list that shows whether the server responds to anything. The pings before it reached the threshold.
        Confirmation,
        /// A list or `server/discover`; nothing follows.
        Last,
    }
}

alphabet! {
    /// The timeouts in a row, this one included. A message of the server ends the row.
    Misses {
        /// Fewer than the threshold ([`Keepalive::threshold`](crate::Keepalive::threshold)).
        Few,
        /// The threshold is reached.
        Many,
    }
}

/// Returns the input for these values. `pings`: what is known of the server's responses to `ping`.
pub(crate) const fn decide(clock: Clock, heard: Heard, asked: Asked, misses: Misses, pings: Pings) -> Input {
    match clock {
        Clock::Jumped => Input::Jumped,
        Clock::Steady => match heard {
            Heard::Something => match asked {
                Asked::PingThenList => Input::PassedOverThenList,
                Asked::Ping | Asked::Confirmation | Asked::Last => Input::PassedOverThenPassive,
            },
            Heard::Nothing => silent(asked, misses, pings),
        },
    }
}

const fn silent(asked: Asked, misses: Misses, pings: Pings) -> Input {
    match asked {
        Asked::PingThenList => match misses {
            Misses::Few => Input::Missed,
            Misses::Many => Input::SilentThenList,
        },
        Asked::Ping => match misses {
            Misses::Few => Input::Missed,
            Misses::Many => match pings {
                Pings::Unknown => Input::SilentAlways,
                Pings::Answered | Pings::Silent => Input::Silent,
            },
        },
        Asked::Confirmation => Input::Silent,
        Asked::Last => match misses {
            Misses::Few => Input::Missed,
            Misses::Many => Input::Silent,
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(clock: Clock, heard: Heard, asked: Asked, misses: Misses, pings: Pings) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("keepalive_timeout", &[&clock, &heard, &asked, &misses, &pings]);
    decide(clock, heard, asked, misses, pings)
}
