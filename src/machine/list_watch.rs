//! Whether a family's list may be older than the listen stream that announces its changes (specification 2026-07-28,
//! "Subscriptions").

use super::{Row, alphabet, recorded};

alphabet! {
    /// What is known of the changes of the list.
    State {
        /// Each change since it was requested was or will be announced, or it was not requested.
        Watched,
        /// It may have changed while no stream announced its changes.
        Unwatched,
    }
}

alphabet! {
    /// What happens to the list, and to the stream.
    Input {
        /// Its first page was received while its changes are announced.
        Received,
        /// Its first page was received while they are not.
        ReceivedUnwatched,
        /// A stream announces its changes from now on, and none did before.
        Begun,
        /// As `Begun`; the list is in flight, and was requested before the stream.
        BegunLate,
        /// Its changes are not announced any more.
        Ended,
        /// A new connection begins.
        Reset,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Have [`discovery`](super::discovery) and [`refresh`](super::refresh) find out whether the list changed.
    Recheck,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::Recheck;
    match state {
        State::Watched => match input {
            Input::ReceivedUnwatched | Input::Ended => R::advance(State::Unwatched, &[]),
            Input::BegunLate => R::advance(state, &[Recheck]),
            Input::Received | Input::Begun | Input::Reset => R::ignore(state),
        },
        State::Unwatched => match input {
            Input::Begun | Input::BegunLate => R::advance(State::Watched, &[Recheck]),
            Input::Reset => R::advance(State::Watched, &[]),
            // The begin of the stream comes first.
            Input::Received | Input::ReceivedUnwatched | Input::Ended => R::ignore(state),
        },
    }
}

recorded!("list_watch");
