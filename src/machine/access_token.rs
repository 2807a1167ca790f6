#![doc = "The access token that requests to the server have."]
#![doc = ""]
#![doc = include_str!("access_token.md")]

use super::{Row, alphabet};

alphabet! {
    /// The state of the token.
    #[derive(Default)]
    State {
        /// There is none.
        #[default]
        Missing,
        /// Requests have it.
        Usable,
        /// The server refused it. Requests have it until another one comes, or none.
        Refused,
    }
}

alphabet! {
    /// What happens to the token.
    Input {
        /// The token of the record is used from now on.
        Used,
        /// The server refused it.
        Refused,
        /// The attempt to obtain another one failed.
        Failed,
        /// The record that it belongs to is gone, or is another one; or the client is closed.
        Replaced,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Requests have no token from now on.
    Drop,
}

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::Drop;
    type R = Row<State, Effect>;
    match state {
        State::Missing => match input {
            Input::Used => R::advance(State::Usable, &[]),
            Input::Refused | Input::Failed | Input::Replaced => R::ignore(state),
        },
        State::Usable => match input {
            Input::Used => R::advance(state, &[]),
            Input::Refused => R::advance(State::Refused, &[]),
            Input::Replaced => R::advance(State::Missing, &[Drop]),
            // It is used while it lives.
            Input::Failed => R::ignore(state),
        },
        State::Refused => match input {
            Input::Used => R::advance(State::Usable, &[]),
            Input::Failed | Input::Replaced => R::advance(State::Missing, &[Drop]),
            Input::Refused => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("access_token");
