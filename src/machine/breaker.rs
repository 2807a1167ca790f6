#![doc = "Whether calls go to a server in a hub: one that fails again and again is left in peace for a while."]
#![doc = ""]
#![doc = include_str!("breaker.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Whether calls go through.
    State {
        /// They do.
        Closed,
        /// They do not, for now.
        Open,
        /// One may, to see.
        HalfOpen,
        /// One does, to see.
        Trying,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// A call is to be made.
        Call,
        /// The server answered a call, well or badly.
        Answered,
        /// A call failed, as not many before it did.
        Failed,
        /// A call failed, as too many before it did; or there is no connection, and none for some time.
        FailedAgain,
        /// A call ended, and it tells nothing of the server.
        Undecided,
        /// The server was left in peace for long enough.
        Cooled,
        /// Whatever was wrong is said to be mended.
        Reset,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Count the failure.
    Count,
    /// Forget the failures.
    Clear,
    /// Leave the server in peace, from now on.
    Rest,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Clear, Count, Rest};
    match state {
        State::Closed => match input {
            Input::Call => R::advance(state, &[]),
            Input::Answered | Input::Reset => R::advance(state, &[Clear]),
            Input::Failed => R::advance(state, &[Count]),
            Input::FailedAgain => R::advance(State::Open, &[Rest]),
            Input::Undecided | Input::Cooled => R::ignore(state),
        },
        State::Open => match input {
            Input::Call => R::reject(state),
            // A call that was made before is answered after all.
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Cooled => R::advance(State::HalfOpen, &[]),
            Input::Failed | Input::FailedAgain | Input::Undecided => R::ignore(state),
        },
        State::HalfOpen => match input {
            Input::Call => R::advance(State::Trying, &[]),
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Failed | Input::FailedAgain => R::advance(State::Open, &[Rest]),
            Input::Undecided | Input::Cooled => R::ignore(state),
        },
        State::Trying => match input {
            Input::Call => R::reject(state),
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Failed | Input::FailedAgain => R::advance(State::Open, &[Rest]),
            Input::Undecided => R::advance(State::HalfOpen, &[]),
            Input::Cooled => R::ignore(state),
        },
    }
}

recorded!("breaker");
