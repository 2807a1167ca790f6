//! The store of credentials: whether there is one, and its lock as far as this process holds it. A new grant is
//! stored without the lock.

use super::{Row, alphabet};

alphabet! {
    /// The state of the store.
    #[derive(Default)]
    State {
        /// There is none: the credentials last as long as the process.
        #[default]
        Absent,
        /// This process does not require its lock.
        Free,
        /// This process requested its lock.
        Requested,
        /// This process holds its lock.
        Held,
    }
}

alphabet! {
    /// What is required of the store, or what it did.
    Input {
        /// The embedder has a store.
        Given,
        /// The lock is required.
        Acquire,
        /// The lock was acquired, by the last request or by one before.
        Acquired,
        /// The lock is not required any more.
        Release,
        /// The record is required.
        Load,
        /// The record is to be stored.
        Save,
        /// The record is given up.
        Remove,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request the lock.
    Acquire,
    /// What requires the lock begins.
    Begin,
    /// Release the lock.
    Release,
    /// Request the record.
    Load,
    /// Go on with the record that this process has.
    UseKnown,
    /// Store the record.
    Save,
    /// Go on without storing the record.
    SkipSave,
    /// Remove the record.
    Remove,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    type R = Row<State, Effect>;
    match state {
        State::Absent => match input {
            Input::Given => R::advance(State::Free, &[]),
            Input::Acquire => R::advance(state, &[Effect::Begin]),
            Input::Load => R::advance(state, &[Effect::UseKnown]),
            Input::Save => R::advance(state, &[Effect::SkipSave]),
            Input::Acquired | Input::Release | Input::Remove => R::ignore(state),
        },
        State::Free => match input {
            Input::Acquire => R::advance(State::Requested, &[Effect::Acquire]),
            // What required it did not wait so long.
            Input::Acquired => R::advance(state, &[Effect::Release]),
            Input::Load => R::advance(state, &[Effect::Load]),
            Input::Save => R::advance(state, &[Effect::Save]),
            Input::Remove => R::advance(state, &[Effect::Remove]),
            Input::Given | Input::Release => R::ignore(state),
        },
        State::Requested => match input {
            Input::Acquired => R::advance(State::Held, &[Effect::Begin]),
            Input::Release => R::advance(State::Free, &[Effect::Release]),
            Input::Given | Input::Acquire | Input::Load | Input::Save | Input::Remove => R::ignore(state),
        },
        State::Held => match input {
            Input::Release => R::advance(State::Free, &[Effect::Release]),
            Input::Load => R::advance(state, &[Effect::Load]),
            Input::Save => R::advance(state, &[Effect::Save]),
            // A record is given up after the lock is released.
            Input::Given | Input::Acquire | Input::Acquired | Input::Remove => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("store");
