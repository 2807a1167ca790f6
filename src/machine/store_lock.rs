#![doc = "The lock of the store of credentials, as far as this process holds it. A new grant is stored without it."]
#![doc = ""]
#![doc = include_str!("store_lock.md")]

use super::{Row, alphabet};

alphabet! {
    /// The state of the lock.
    #[derive(Default)]
    State {
        /// This process does not require it.
        #[default]
        Free,
        /// This process requested it, and may hold it.
        Held,
    }
}

alphabet! {
    /// What the table of the credentials requires.
    Input {
        /// The lock is required.
        Acquire,
        /// The lock is not required any more.
        Release,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Request the lock.
    Acquire,
    /// Release the lock.
    Release,
}

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    type R = Row<State, Effect>;
    match state {
        State::Free => match input {
            Input::Acquire => R::advance(State::Held, &[Effect::Acquire]),
            Input::Release => R::ignore(state),
        },
        State::Held => match input {
            Input::Release => R::advance(State::Free, &[Effect::Release]),
            // It was not acquired in time the last time.
            Input::Acquire => R::advance(state, &[Effect::Acquire]),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("store_lock");
