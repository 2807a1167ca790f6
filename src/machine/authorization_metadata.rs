#![doc = "What is known of the metadata of the server and its authorization server, which an attempt leaves to the next one."]
#![doc = ""]
#![doc = include_str!("authorization_metadata.md")]

use super::{Row, alphabet};

alphabet! {
    /// The state of the metadata.
    #[derive(Default)]
    State {
        /// It has to be read.
        #[default]
        Unknown,
        /// It was read.
        Known,
        /// It was read, and the server may have another authorization server now.
        Doubted,
    }
}

alphabet! {
    /// What happens to the metadata.
    Input {
        /// An attempt begins.
        Begin,
        /// It was read, or assumed.
        Found,
        /// The server refused a token that had not expired.
        Refused,
        /// An attempt failed: what was read may be outdated.
        Failed,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Begin the attempt with the metadata.
    Keep,
    /// Drop the metadata.
    Drop,
    /// Begin the attempt with reading the metadata.
    Read,
}

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Drop, Keep, Read};
    type R = Row<State, Effect>;
    match state {
        State::Unknown => match input {
            Input::Begin => R::advance(state, &[Drop, Read]),
            Input::Found => R::advance(State::Known, &[]),
            Input::Failed => R::advance(state, &[Drop]),
            Input::Refused => R::ignore(state),
        },
        State::Known => match input {
            Input::Begin => R::advance(state, &[Keep]),
            Input::Refused => R::advance(State::Doubted, &[]),
            Input::Failed => R::advance(State::Unknown, &[Drop]),
            Input::Found => R::ignore(state),
        },
        State::Doubted => match input {
            Input::Begin => R::advance(State::Unknown, &[Drop, Read]),
            // No attempt is in progress when a token is refused for good.
            Input::Found | Input::Refused | Input::Failed => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("authorization_metadata");
