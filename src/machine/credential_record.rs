#![doc = "The record of credentials, and whether the store has it. A record that could not be stored is kept until the store"]
#![doc = "has a newer one, so that no refresh token is lost."]
#![doc = ""]
#![doc = include_str!("credential_record.md")]

use super::{Row, alphabet};

alphabet! {
    /// Where the record is.
    #[derive(Default)]
    State {
        /// There is none.
        #[default]
        Missing,
        /// The store has it.
        Stored,
        /// It is not in the store yet.
        Unsaved,
    }
}

alphabet! {
    /// What happens to the record.
    Input {
        /// A token was issued, with a record.
        Issued,
        /// The record was stored.
        Saved,
        /// The store has a record for this server that is newer.
        LoadedNewer,
        /// The store has a record for this server that is not newer.
        LoadedKnown,
        /// The store has no record for this server.
        LoadedNothing,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Take the stored record in place of the one so far.
    Adopt,
    /// Drop the record, and its token.
    Drop,
}

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Adopt, Drop};
    type R = Row<State, Effect>;
    match state {
        State::Missing => match input {
            Input::Issued => R::advance(State::Unsaved, &[]),
            Input::LoadedNewer => R::advance(State::Stored, &[Adopt]),
            Input::Saved | Input::LoadedKnown | Input::LoadedNothing => R::ignore(state),
        },
        State::Stored => match input {
            Input::Issued => R::advance(State::Unsaved, &[]),
            Input::LoadedNewer | Input::LoadedKnown => R::advance(state, &[Adopt]),
            // Another process gave it up.
            Input::LoadedNothing => R::advance(State::Missing, &[Drop]),
            Input::Saved => R::ignore(state),
        },
        State::Unsaved => match input {
            Input::Issued => R::advance(state, &[]),
            Input::Saved => R::advance(State::Stored, &[]),
            Input::LoadedNewer => R::advance(State::Stored, &[Adopt]),
            Input::LoadedKnown | Input::LoadedNothing => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("credential_record");
