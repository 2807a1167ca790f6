#![doc = "The user's browser in a hub: at most one server at a time shows the URL at which the user authorizes."]
#![doc = ""]
#![doc = include_str!("hub_browser.md")]

use super::{Row, alphabet};

alphabet! {
    /// The state of a session in regard to the browser.
    State {
        /// It does not require the browser.
        Unused,
        /// It requires the browser, and waits until it is free.
        Queued,
        /// It has the browser.
        Shown,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// Its user has to authorize.
        Wanted,
        /// The browser is free for it.
        Free,
        /// It does not require the browser any more: the user authorized, or the attempt ended.
        Over,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Queue it for the browser.
    Queue,
    /// Remove it from that queue.
    Dequeue,
    /// Show its URL. The user's time begins.
    Show,
    /// Release the browser for the next session.
    Release,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Dequeue, Queue, Release, Show};
    match state {
        State::Unused => match input {
            Input::Wanted => R::advance(State::Queued, &[Queue]),
            Input::Free | Input::Over => R::ignore(state),
        },
        State::Queued => match input {
            Input::Free => R::advance(State::Shown, &[Show]),
            Input::Over => R::advance(State::Unused, &[Dequeue]),
            Input::Wanted => R::ignore(state),
        },
        State::Shown => match input {
            Input::Over => R::advance(State::Unused, &[Release]),
            // One attempt ends before another begins.
            Input::Wanted | Input::Free => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("hub_browser");
