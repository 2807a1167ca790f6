#![doc = "Keepalive: detects a peer that does not respond, and does not mistake one without `ping` for it."]
#![doc = ""]
#![doc = include_str!("keepalive.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the keepalive, and its method: `ping`, a list or `server/discover`.
    State {
        /// There is no connection, or keepalive is turned off.
        Off,
        /// The next keepalive request is `ping`.
        PingDue,
        /// `ping` is in flight.
        Pinging,
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
        /// The connection ends.
        Stop,
        /// The interval passed without a message from the server.
        Quiet,
        /// The interval passed, and a message came or a request is in flight.
        Busy,
        /// The keepalive request got a response other than "method not found".
        Answered,
        /// The server does not have the method, and a list worked before.
        UnknownThenList,
        /// The server does not have the method, and no list worked before.
        UnknownThenPassive,
        /// The keepalive request timed out, and fewer in a row did than the threshold.
        Missed,
        /// The keepalive request timed out while other requests got responses, and a list worked before.
        PassedOverThenList,
        /// The keepalive request timed out while other requests got responses, and no list worked before.
        PassedOverThenPassive,
        /// The keepalive request timed out, and reached the threshold of timeouts in a row.
        Silent,
        /// The clock jumped while the keepalive request was in flight, as after a suspend: the response could not
        /// arrive.
        Jumped,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
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
    /// Cancel the keepalive request.
    GiveUp,
    /// Stop the timer.
    Disarm,
    /// Report that the peer does not respond.
    Dead,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
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

/// The rows in which the methods differ.
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
