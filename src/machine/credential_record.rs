//! The record of credentials, and whether the store has it. A record that could not be stored is kept until the store
//! has a newer one, so that no refresh token is lost.

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
        /// It is not in the store yet, and another process stored one meanwhile, which is requested.
        Contested,
    }
}

alphabet! {
    /// What happens to the record.
    Input {
        /// A token was issued, with a record.
        Issued,
        /// The record was stored.
        Saved,
        /// The record was not stored: it is not the one that it was to replace.
        Conflict,
        /// The record is not stored for now.
        NotSaved,
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
pub(crate) enum Effect {
    /// Take the stored record in place of the one so far.
    Adopt,
    /// Drop the record, and its token.
    Drop,
    /// Store the record once more: the store has nothing that replaces it.
    Insist,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Adopt, Drop, Insist};
    type R = Row<State, Effect>;
    match state {
        State::Missing => match input {
            Input::Issued => R::advance(State::Unsaved, &[]),
            Input::LoadedNewer => R::advance(State::Stored, &[Adopt]),
            Input::Saved | Input::Conflict | Input::NotSaved | Input::LoadedKnown | Input::LoadedNothing => {
                R::ignore(state)
            }
        },
        State::Stored => match input {
            Input::Issued => R::advance(State::Unsaved, &[]),
            Input::LoadedNewer | Input::LoadedKnown => R::advance(state, &[Adopt]),
            // Another process gave it up.
            Input::LoadedNothing => R::advance(State::Missing, &[Drop]),
            Input::Saved | Input::Conflict | Input::NotSaved => R::ignore(state),
        },
        State::Unsaved => match input {
            Input::Issued => R::advance(state, &[]),
            Input::Saved => R::advance(State::Stored, &[]),
            Input::Conflict => R::advance(State::Contested, &[]),
            Input::LoadedNewer => R::advance(State::Stored, &[Adopt]),
            Input::NotSaved | Input::LoadedKnown | Input::LoadedNothing => R::ignore(state),
        },
        State::Contested => match input {
            Input::LoadedNewer => R::advance(State::Stored, &[Adopt]),
            Input::LoadedKnown | Input::LoadedNothing => R::advance(State::Unsaved, &[Insist]),
            Input::NotSaved => R::advance(State::Unsaved, &[]),
            Input::Issued | Input::Saved | Input::Conflict => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("credential_record");
