//! Keepalive: detects a peer that does not respond, and does not mistake one without `ping` for it.

use super::{QuirkKind, Row, alphabet, recorded};
use crate::protocol::Era;

alphabet! {
    /// The state of the keepalive, and its method: `ping`, a list or `server/discover`.
    State {
        /// There is no connection, or keepalive is turned off.
        Off,
        /// The next keepalive request is `ping`.
        PingDue,
        /// `ping` is in flight.
        Pinging,
        /// A list request is in flight, which shows whether the server responds to anything, as it does not to `ping`.
        Confirming,
        /// The next keepalive request is a list.
        ListDue,
        /// The list request is in flight.
        Listing,
        /// The next keepalive request is `server/discover`.
        DiscoverDue,
        /// `server/discover` is in flight.
        Discovering,
        /// No keepalive requests are sent: only messages of the server or the end of its transport tell its state.
        Passive,
    }
}

alphabet! {
    /// What happens to the keepalive.
    Input {
        /// The client is ready; the first method is `ping`.
        StartPing,
        /// The client is ready; the first method is a list.
        StartList,
        /// The client is ready, and the server is modern.
        StartDiscover,
        /// The client is ready; no method is left.
        StartPassive,
        /// The connection ends.
        Stop,
        /// The interval passed without a message from the server.
        Quiet,
        /// The interval passed without a message from the server, and no list works any more.
        QuietWithoutList,
        /// The interval passed, and a message came or a request is in flight.
        Busy,
        /// The keepalive request got a response other than "method not found".
        Answered,
        /// The server does not have the method, and a list is next.
        UnknownThenList,
        /// The server does not have the method, and nothing is next.
        UnknownThenPassive,
        /// The keepalive request timed out, and fewer in a row did than the threshold.
        Missed,
        /// The keepalive request timed out while other requests got responses, and a list is next.
        PassedOverThenList,
        /// The keepalive request timed out while other requests got responses, and nothing is next.
        PassedOverThenPassive,
        /// The keepalive request timed out, reached the threshold of timeouts in a row, and a list is next.
        SilentThenList,
        /// The keepalive request timed out, reached the threshold of timeouts in a row, and nothing is next.
        Silent,
        /// As [`Silent`](Self::Silent), and the server never responded to `ping`, on any connection.
        SilentAlways,
        /// The clock jumped while the keepalive request was in flight, as after a suspend: the response could not
        /// arrive.
        Jumped,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start the interval.
    Rest,
    /// Send `ping`.
    Ping,
    /// Request a list.
    List,
    /// Send `server/discover`.
    Discover,
    /// Start the timeout of the response.
    Await,
    /// Count the timeout.
    Count,
    /// Begin to count from zero.
    Clear,
    /// Remember that the server responds to `ping`.
    KnowAnswered,
    /// Remember that the server does not respond to `ping`: it is not sent again, on the next connections either.
    KnowSilent,
    /// Cancel the keepalive request.
    GiveUp,
    /// Stop the timer.
    Disarm,
    /// Report that the peer does not respond.
    Dead,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Await, Clear, Count, Dead, Disarm, Discover, GiveUp, KnowAnswered, KnowSilent, List, Ping, Rest};
    match state {
        State::Off => match input {
            Input::StartPing => R::advance(State::PingDue, &[Rest]),
            Input::StartList => R::advance(State::ListDue, &[Rest]),
            Input::StartDiscover => R::advance(State::DiscoverDue, &[Rest]),
            Input::StartPassive => R::advance(State::Passive, &[]),
            Input::Stop
            | Input::Quiet
            | Input::QuietWithoutList
            | Input::Busy
            | Input::Answered
            | Input::UnknownThenList
            | Input::UnknownThenPassive
            | Input::Missed
            | Input::PassedOverThenList
            | Input::PassedOverThenPassive
            | Input::SilentThenList
            | Input::Silent
            | Input::SilentAlways
            | Input::Jumped => R::ignore(state),
        },
        State::PingDue => {
            let ping = R::advance(State::Pinging, &[Ping, Await]);
            due(state, input, ping, ping)
        }
        State::ListDue => {
            due(state, input, R::advance(State::Listing, &[List, Await]), R::advance(State::Passive, &[Disarm]))
        }
        State::DiscoverDue => {
            let discover = R::advance(State::Discovering, &[Discover, Await]);
            due(state, input, discover, discover)
        }
        State::Pinging => waiting(
            state,
            input,
            Rung {
                answered: R::advance(State::PingDue, &[KnowAnswered, Clear, Rest]),
                missed: R::advance(State::PingDue, &[Count, GiveUp, Rest]),
                unknown_then_list: R::quirk(QuirkKind::PingUnsupported, State::ListDue, &[Clear, Rest]),
                unknown_then_passive: R::quirk(QuirkKind::PingUnsupported, State::Passive, &[Disarm]),
                passed_over_then_list: R::quirk(QuirkKind::PingSilent, State::ListDue, &[KnowSilent, GiveUp, Rest]),
                passed_over_then_passive: R::quirk(
                    QuirkKind::PingSilent,
                    State::Passive,
                    &[KnowSilent, GiveUp, Disarm],
                ),
                silent_then_list: R::advance(State::Confirming, &[GiveUp, List, Await]),
                silent_always: R::quirk(QuirkKind::PingSilent, State::Off, &[KnowSilent, GiveUp, Disarm, Dead]),
            },
        ),
        State::Confirming => waiting(
            state,
            input,
            Rung {
                answered: R::quirk(QuirkKind::PingSilent, State::ListDue, &[KnowSilent, Clear, Rest]),
                missed: R::ignore(state),
                unknown_then_list: R::ignore(state),
                unknown_then_passive: R::quirk(QuirkKind::PingSilent, State::Passive, &[KnowSilent, Disarm]),
                passed_over_then_list: R::ignore(state),
                passed_over_then_passive: R::quirk(
                    QuirkKind::PingSilent,
                    State::Passive,
                    &[KnowSilent, GiveUp, Disarm],
                ),
                silent_then_list: R::ignore(state),
                silent_always: R::ignore(state),
            },
        ),
        State::Listing => waiting(state, input, last_rung(state, State::ListDue)),
        State::Discovering => waiting(state, input, last_rung(state, State::DiscoverDue)),
        State::Passive => match input {
            Input::Stop => R::advance(State::Off, &[Disarm]),
            Input::StartPing
            | Input::StartList
            | Input::StartDiscover
            | Input::StartPassive
            | Input::Quiet
            | Input::QuietWithoutList
            | Input::Busy
            | Input::Answered
            | Input::UnknownThenList
            | Input::UnknownThenPassive
            | Input::Missed
            | Input::PassedOverThenList
            | Input::PassedOverThenPassive
            | Input::SilentThenList
            | Input::Silent
            | Input::SilentAlways
            | Input::Jumped => R::ignore(state),
        },
    }
}

const fn due(state: State, input: Input, quiet: R, quiet_without_list: R) -> R {
    match input {
        Input::Quiet => quiet,
        Input::QuietWithoutList => quiet_without_list,
        Input::Busy => R::advance(state, &[Effect::Rest]),
        Input::Stop => R::advance(State::Off, &[Effect::Disarm]),
        Input::StartPing
        | Input::StartList
        | Input::StartDiscover
        | Input::StartPassive
        | Input::Answered
        | Input::UnknownThenList
        | Input::UnknownThenPassive
        | Input::Missed
        | Input::PassedOverThenList
        | Input::PassedOverThenPassive
        | Input::SilentThenList
        | Input::Silent
        | Input::SilentAlways
        | Input::Jumped => R::ignore(state),
    }
}

/// The rows in which the methods differ.
#[derive(Clone, Copy)]
struct Rung {
    answered: R,
    missed: R,
    unknown_then_list: R,
    unknown_then_passive: R,
    passed_over_then_list: R,
    passed_over_then_passive: R,
    silent_then_list: R,
    silent_always: R,
}

/// The rows of a method below which there is no other.
const fn last_rung(state: State, due: State) -> Rung {
    Rung {
        answered: R::advance(due, &[Effect::Clear, Effect::Rest]),
        missed: R::advance(due, &[Effect::Count, Effect::GiveUp, Effect::Rest]),
        unknown_then_list: R::ignore(state),
        unknown_then_passive: R::advance(State::Passive, &[Effect::Disarm]),
        passed_over_then_list: R::ignore(state),
        passed_over_then_passive: R::advance(State::Passive, &[Effect::GiveUp, Effect::Disarm]),
        silent_then_list: R::ignore(state),
        silent_always: R::ignore(state),
    }
}

const fn waiting(state: State, input: Input, rung: Rung) -> R {
    match input {
        Input::Answered => rung.answered,
        Input::Missed => rung.missed,
        Input::UnknownThenList => rung.unknown_then_list,
        Input::UnknownThenPassive => rung.unknown_then_passive,
        Input::PassedOverThenList => rung.passed_over_then_list,
        Input::PassedOverThenPassive => rung.passed_over_then_passive,
        Input::SilentThenList => rung.silent_then_list,
        Input::Silent => R::advance(State::Off, &[Effect::GiveUp, Effect::Disarm, Effect::Dead]),
        Input::SilentAlways => rung.silent_always,
        Input::Jumped => R::advance(state, &[Effect::Await]),
        Input::Stop => R::advance(State::Off, &[Effect::Disarm]),
        Input::StartPing
        | Input::StartList
        | Input::StartDiscover
        | Input::StartPassive
        | Input::Quiet
        | Input::QuietWithoutList
        | Input::Busy => R::ignore(state),
    }
}

recorded!("keepalive");

alphabet! {
    /// Which servers are sent keepalive requests ([`Options::keepalive`]).
    ///
    /// [`Options::keepalive`]: crate::Options::keepalive
    Policy {
        /// None.
        Off,
        /// Legacy ones.
        Legacy,
        /// Modern ones, too.
        All,
    }
}

alphabet! {
    /// The first method for a legacy server ([`Keepalive::method`]).
    ///
    /// [`Keepalive::method`]: crate::Keepalive::method
    Preferred {
        /// `ping`.
        Ping,
        /// `tools/list`.
        Tools,
    }
}

alphabet! {
    /// What is known of the server's responses to `ping`, from this connection and earlier ones.
    #[derive(Default)]
    Pings {
        /// Nothing.
        #[default]
        Unknown,
        /// It responded.
        Answered,
        /// It responds to other requests, but not to `ping`.
        Silent,
    }
}

alphabet! {
    /// Which lists worked.
    Lists {
        /// The list of tools.
        Tools,
        /// Others.
        Others,
        /// None.
        None,
    }
}

/// How the keepalive of a connection starts; `None` if there is none.
pub(crate) const fn start(era: Era, policy: Policy, pings: Pings, preferred: Preferred, lists: Lists) -> Option<Input> {
    match policy {
        Policy::Off => None,
        Policy::Legacy => match era {
            Era::Legacy => Some(start_legacy(pings, preferred, lists)),
            Era::Modern => None,
        },
        Policy::All => match era {
            Era::Legacy => Some(start_legacy(pings, preferred, lists)),
            Era::Modern => Some(Input::StartDiscover),
        },
    }
}

const fn start_legacy(pings: Pings, preferred: Preferred, lists: Lists) -> Input {
    match pings {
        Pings::Unknown | Pings::Answered => match preferred {
            Preferred::Ping => Input::StartPing,
            Preferred::Tools => match lists {
                Lists::Tools => Input::StartList,
                Lists::Others | Lists::None => Input::StartPing,
            },
        },
        Pings::Silent => match lists {
            Lists::Tools | Lists::Others => Input::StartList,
            Lists::None => Input::StartPassive,
        },
    }
}

alphabet! {
    /// A list to send as a keepalive request.
    Choice {
        /// The list of tools.
        Tools,
        /// The smallest list that worked.
        Smallest,
    }
}

/// The list to send as a keepalive request.
pub(crate) const fn list(preferred: Preferred, lists: Lists) -> Choice {
    match lists {
        Lists::Tools => match preferred {
            Preferred::Tools => Choice::Tools,
            Preferred::Ping => Choice::Smallest,
        },
        Lists::Others | Lists::None => Choice::Smallest,
    }
}

alphabet! {
    /// What follows a method that the server does not respond to.
    Below {
        /// A list.
        List,
        /// Nothing.
        Nothing,
    }
}

/// What follows the method of a state, if the server does not respond to it.
pub(crate) const fn below(state: State, lists: Lists) -> Below {
    match state {
        State::Pinging => match lists {
            Lists::Tools | Lists::Others => Below::List,
            Lists::None => Below::Nothing,
        },
        State::Off
        | State::PingDue
        | State::Confirming
        | State::ListDue
        | State::Listing
        | State::DiscoverDue
        | State::Discovering
        | State::Passive => Below::Nothing,
    }
}

/// [`start`], recorded with the feature `rows`.
pub(crate) fn take_start(era: Era, policy: Policy, pings: Pings, preferred: Preferred, lists: Lists) -> Option<Input> {
    #[cfg(feature = "rows")]
    super::rows::taken("keepalive::start", &[&era, &policy, &pings, &preferred, &lists]);
    start(era, policy, pings, preferred, lists)
}

/// [`list`], recorded with the feature `rows`.
pub(crate) fn take_list(preferred: Preferred, lists: Lists) -> Choice {
    #[cfg(feature = "rows")]
    super::rows::taken("keepalive::list", &[&preferred, &lists]);
    list(preferred, lists)
}

/// [`below`], recorded with the feature `rows`.
pub(crate) fn take_below(state: State, lists: Lists) -> Below {
    #[cfg(feature = "rows")]
    super::rows::taken("keepalive::below", &[&state, &lists]);
    below(state, lists)
}
