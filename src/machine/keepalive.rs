#![doc = "How a peer that went silent is found, and one that does not know the question is not taken for dead."]
#![doc = ""]
#![doc = include_str!("keepalive.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// Where the keepalive stands, and on which rung of its ladder.
    State {
        /// There is no connection to keep alive, or none is wanted.
        Off,
        /// The next probe is a `ping`.
        PingDue,
        /// A `ping` waits for its answer.
        Pinging,
        /// The next probe is a list.
        ListDue,
        /// A list waits for its answer.
        Listing,
        /// The next probe is `server/discover`.
        DiscoverDue,
        /// `server/discover` waits for its answer.
        Discovering,
        /// Nothing is asked: the peer shows that it is there, or its transport closes.
        Passive,
    }
}

alphabet! {
    /// What happens to a keepalive.
    Input {
        /// The session is ready; the first rung is `ping`.
        StartPing,
        /// The session is ready; the first rung is a list.
        StartList,
        /// The session is ready, and modern.
        StartDiscover,
        /// The connection ends.
        Stop,
        /// The interval is over, and nothing was heard.
        Quiet,
        /// The interval is over, and something was heard, or a request is in flight.
        Busy,
        /// The probe was answered, with whatever but that its method does not exist.
        Answered,
        /// The probe's method does not exist, and there is a list that worked.
        UnknownThenList,
        /// The probe's method does not exist, and there is no such list.
        UnknownThenPassive,
        /// The probe was not answered in time; not for the last time.
        Missed,
        /// The probe was not answered, while other requests were, and there is a list that worked.
        PassedOverThenList,
        /// The probe was not answered, while other requests were, and there is no such list.
        PassedOverThenPassive,
        /// The probe was not answered, as those before it.
        Silent,
        /// Time jumped while the probe waited: the machine slept, and the answer could not come.
        Jumped,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Wait for the interval.
    Rest,
    /// Send `ping`.
    Ping,
    /// Send a list.
    List,
    /// Send `server/discover`.
    Discover,
    /// Wait for the answer.
    Await,
    /// Give the probe up.
    GiveUp,
    /// Stop waiting.
    Disarm,
    /// The peer is taken for dead.
    Dead,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Await, Disarm, Discover, List, Ping, Rest};
    match state {
        State::Off => match input {
            Input::StartPing => R::advance(State::PingDue, &[Rest]),
            Input::StartList => R::advance(State::ListDue, &[Rest]),
            Input::StartDiscover => R::advance(State::DiscoverDue, &[Rest]),
            Input::Stop
            | Input::Quiet
            | Input::Busy
            | Input::Answered
            | Input::UnknownThenList
            | Input::UnknownThenPassive
            | Input::Missed
            | Input::PassedOverThenList
            | Input::PassedOverThenPassive
            | Input::Silent
            | Input::Jumped => R::ignore(state),
        },
        State::PingDue => due(state, input, R::advance(State::Pinging, &[Ping, Await])),
        State::ListDue => due(state, input, R::advance(State::Listing, &[List, Await])),
        State::DiscoverDue => due(state, input, R::advance(State::Discovering, &[Discover, Await])),
        State::Pinging => waiting(
            state,
            input,
            Rung {
                again: State::PingDue,
                unknown_then_list: R::quirk(QuirkKind::PingUnsupported, State::ListDue, &[Rest]),
                unknown_then_passive: R::quirk(QuirkKind::PingUnsupported, State::Passive, &[Disarm]),
                passed_over_then_list: R::quirk(QuirkKind::PingSilent, State::ListDue, &[Effect::GiveUp, Rest]),
                passed_over_then_passive: R::quirk(QuirkKind::PingSilent, State::Passive, &[Effect::GiveUp, Disarm]),
            },
        ),
        State::Listing => waiting(state, input, LAST_RUNG.or(State::ListDue)),
        State::Discovering => waiting(state, input, LAST_RUNG.or(State::DiscoverDue)),
        State::Passive => match input {
            Input::Stop => R::advance(State::Off, &[Disarm]),
            Input::StartPing
            | Input::StartList
            | Input::StartDiscover
            | Input::Quiet
            | Input::Busy
            | Input::Answered
            | Input::UnknownThenList
            | Input::UnknownThenPassive
            | Input::Missed
            | Input::PassedOverThenList
            | Input::PassedOverThenPassive
            | Input::Silent
            | Input::Jumped => R::ignore(state),
        },
    }
}

const fn due(state: State, input: Input, probe: R) -> R {
    match input {
        Input::Quiet => probe,
        Input::Busy => R::advance(state, &[Effect::Rest]),
        Input::Stop => R::advance(State::Off, &[Effect::Disarm]),
        Input::StartPing
        | Input::StartList
        | Input::StartDiscover
        | Input::Answered
        | Input::UnknownThenList
        | Input::UnknownThenPassive
        | Input::Missed
        | Input::PassedOverThenList
        | Input::PassedOverThenPassive
        | Input::Silent
        | Input::Jumped => R::ignore(state),
    }
}

/// In what the rungs of the ladder differ.
#[derive(Clone, Copy)]
struct Rung {
    again: State,
    unknown_then_list: R,
    unknown_then_passive: R,
    passed_over_then_list: R,
    passed_over_then_passive: R,
}

const LAST_RUNG: Rung = Rung {
    again: State::Passive,
    unknown_then_list: R::advance(State::Passive, &[Effect::Disarm]),
    unknown_then_passive: R::advance(State::Passive, &[Effect::Disarm]),
    passed_over_then_list: R::advance(State::Passive, &[Effect::GiveUp, Effect::Disarm]),
    passed_over_then_passive: R::advance(State::Passive, &[Effect::GiveUp, Effect::Disarm]),
};

impl Rung {
    const fn or(self, again: State) -> Self {
        Self { again, ..self }
    }
}

const fn waiting(state: State, input: Input, rung: Rung) -> R {
    match input {
        Input::Answered => R::advance(rung.again, &[Effect::Rest]),
        Input::UnknownThenList => rung.unknown_then_list,
        Input::UnknownThenPassive => rung.unknown_then_passive,
        Input::Missed => R::advance(rung.again, &[Effect::GiveUp, Effect::Rest]),
        Input::PassedOverThenList => rung.passed_over_then_list,
        Input::PassedOverThenPassive => rung.passed_over_then_passive,
        Input::Silent => R::advance(State::Off, &[Effect::GiveUp, Effect::Disarm, Effect::Dead]),
        Input::Jumped => R::advance(state, &[Effect::Await]),
        Input::Stop => R::advance(State::Off, &[Effect::Disarm]),
        Input::StartPing | Input::StartList | Input::StartDiscover | Input::Quiet | Input::Busy => R::ignore(state),
    }
}

recorded!("keepalive");
