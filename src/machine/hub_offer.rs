#![doc = "What a hub knows of what a server offers: nothing, what was saved in a run before, or what its session listed."]
#![doc = ""]
#![doc = include_str!("hub_offer.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// What is known.
    State {
        /// Nothing.
        Unknown,
        /// What was saved in a run before, which stands in for the server.
        Saved,
        /// What its session listed, or the session before at the same place.
        Listed,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// Something saved is to stand in for the server.
        Restored,
        /// The server's session listed what it offers.
        Listed,
        /// The session before, at the same place, had listed this.
        Inherited,
        /// The hub is opened.
        Opened,
        /// The server's filters changed.
        Filtered,
        /// Another session is to follow, at the same place.
        Replaced,
        /// The server is gone, or its session ended.
        Lost,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Offer this.
    Offer,
    /// Offer what is known, through the filters as they are now.
    Filter,
    /// Start the server.
    Start,
    /// Hand what is known to the session that follows.
    HandOver,
    /// Offer nothing.
    Withdraw,
    /// The server counts as one that is up.
    Present,
    /// The server does not count as one that is up, unless it is.
    Absent,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Absent, Filter, HandOver, Offer, Present, Start, Withdraw};
    match state {
        State::Unknown => match input {
            Input::Restored => R::advance(State::Saved, &[Offer, Present]),
            Input::Listed => R::advance(State::Listed, &[Offer]),
            Input::Inherited => R::advance(State::Listed, &[Filter]),
            Input::Opened => R::advance(state, &[Start]),
            Input::Filtered | Input::Replaced | Input::Lost => R::ignore(state),
        },
        State::Saved => match input {
            Input::Restored => R::advance(state, &[Offer]),
            Input::Listed => R::advance(State::Listed, &[Offer]),
            Input::Filtered => R::advance(state, &[Filter]),
            Input::Replaced | Input::Lost => R::advance(State::Unknown, &[Withdraw, Absent]),
            Input::Inherited | Input::Opened => R::ignore(state),
        },
        State::Listed => match input {
            Input::Restored => R::advance(State::Saved, &[Offer, Present]),
            Input::Listed => R::advance(state, &[Offer]),
            Input::Opened => R::advance(state, &[Start]),
            Input::Filtered => R::advance(state, &[Filter]),
            Input::Replaced => R::advance(State::Unknown, &[HandOver]),
            Input::Lost => R::advance(State::Unknown, &[Withdraw]),
            Input::Inherited => R::ignore(state),
        },
    }
}

recorded!("hub_offer");
