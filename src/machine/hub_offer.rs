//! What a hub knows of a server's lists: nothing, lists saved in an earlier run, or lists that its session received.

use super::{Row, alphabet, recorded};

alphabet! {
    /// What is known of the server's lists.
    State {
        /// Nothing.
        Unknown,
        /// Lists that were saved in an earlier run.
        Saved,
        /// Lists that the session received, or the session before at the same address or command.
        Listed,
    }
}

alphabet! {
    /// What happens to the lists.
    Input {
        /// The embedder restores saved lists.
        Restored,
        /// The session received the lists.
        Listed,
        /// The session before, at the same address or command, had received the lists.
        Inherited,
        /// The hub is opened.
        Opened,
        /// The server's filters changed.
        Filtered,
        /// The session is to be replaced, at the same address or command.
        Replaced,
        /// The server is gone, or its session ended.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Offer the lists to the model.
    Offer,
    /// Apply the filters to the known lists again.
    Filter,
    /// Start the server.
    Start,
    /// Pass the lists to the next session of the server.
    HandOver,
    /// Remove the lists.
    Withdraw,
    /// Count the server as up.
    Present,
    /// Stop counting the server as up, unless it is.
    Absent,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
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
