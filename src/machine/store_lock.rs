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
        /// This process requested it.
        Requested,
        /// This process holds it.
        Held,
    }
}

alphabet! {
    /// What happens to the lock.
    Input {
        /// The lock is required.
        Acquire,
        /// The lock was acquired, by the last request or by one before.
        Acquired,
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
    /// What requires the lock begins.
    Begin,
    /// Release the lock.
    Release,
}

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    type R = Row<State, Effect>;
    match state {
        State::Free => match input {
            Input::Acquire => R::advance(State::Requested, &[Effect::Acquire]),
            // What required it did not wait so long.
            Input::Acquired => R::advance(state, &[Effect::Release]),
            Input::Release => R::ignore(state),
        },
        State::Requested => match input {
            Input::Acquired => R::advance(State::Held, &[Effect::Begin]),
            Input::Release => R::advance(State::Free, &[Effect::Release]),
            Input::Acquire => R::ignore(state),
        },
        State::Held => match input {
            Input::Release => R::advance(State::Free, &[Effect::Release]),
            Input::Acquire | Input::Acquired => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("store_lock");
