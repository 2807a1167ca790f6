#![doc = "What is done once, and not again before something else happened: a client is registered anew, a token request is"]
#![doc = "repeated with the nonce that was demanded, a token that was refused at once is replaced."]
#![doc = ""]
#![doc = include_str!("once.md")]

use super::{Row, alphabet};

alphabet! {
    /// Whether it was done.
    #[derive(Default)]
    State {
        /// It was not done, and may be.
        #[default]
        Left,
        /// It was done.
        Spent,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// It is done.
        Use,
        /// It may be done again: a token was accepted, or the attempt is another one.
        Renew,
    }
}

/// There is nothing to do: the state is what decisions depend on.
pub type Effect = core::convert::Infallible;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    type R = Row<State, Effect>;
    match state {
        State::Left => match input {
            Input::Use => R::advance(State::Spent, &[]),
            Input::Renew => R::ignore(state),
        },
        State::Spent => match input {
            Input::Renew => R::advance(State::Left, &[]),
            Input::Use => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("once");

#[cfg(feature = "oauth")]
impl State {
    /// Takes an input.
    pub(crate) fn take(&mut self, input: Input) {
        *self = take(*self, input).next;
    }
}
