#![doc = "Whether an HTTP server can be reached: one request that reaches nobody, while others are being answered, does not"]
#![doc = "end the connection."]
#![doc = ""]
#![doc = include_str!("http_reach.md")]

use super::{Row, alphabet};

alphabet! {
    /// What the last requests showed.
    State {
        /// The server was reached, or nothing was sent yet.
        Reached,
        /// A request reached nobody, and no response came since.
        Missed,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// A response begins.
        Head,
        /// A request reaches nobody while others are being answered.
        MissedOne,
        /// A request reaches nobody, and no other is being answered; or the handshake cannot do without it.
        MissedAll,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Report that the server cannot be reached.
    ReportUnreached,
}

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::ReportUnreached;
    type R = Row<State, Effect>;
    match state {
        State::Reached => match input {
            Input::MissedOne => R::advance(State::Missed, &[]),
            Input::MissedAll => R::advance(state, &[ReportUnreached]),
            Input::Head => R::ignore(state),
        },
        State::Missed => match input {
            Input::Head => R::advance(State::Reached, &[]),
            Input::MissedOne | Input::MissedAll => R::advance(State::Reached, &[ReportUnreached]),
        },
    }
}

#[cfg(feature = "http")]
super::recorded!("http_reach");
