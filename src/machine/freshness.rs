//! How long the result of `server/discover` is fresh, and when it is requested again.

use super::{Row, alphabet, recorded};

alphabet! {
    /// What is known of the result's age.
    State {
        /// There is no result with a time to live.
        Untimed,
        /// The result is fresh for a time.
        Timed,
        /// Its time is over, and it is requested again. Until the response it stays in use.
        Requested,
    }
}

alphabet! {
    /// What happens to the result.
    Input {
        /// A result with a time to live above zero was received.
        Received,
        /// A result without one was received.
        ReceivedUntimed,
        /// A command used it after its time.
        UsedLate,
        /// It was not received again.
        Failed,
        /// The connection ended.
        Ended,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send `server/discover`.
    Request,
    /// Replace the server's description.
    Adopt,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Adopt, Request};
    match state {
        State::Untimed => match input {
            Input::Received => R::advance(State::Timed, &[]),
            Input::ReceivedUntimed | Input::UsedLate | Input::Failed | Input::Ended => R::ignore(state),
        },
        State::Timed => match input {
            Input::UsedLate => R::advance(State::Requested, &[Request]),
            Input::Ended => R::advance(State::Untimed, &[]),
            Input::Received | Input::ReceivedUntimed | Input::Failed => R::ignore(state),
        },
        State::Requested => match input {
            Input::Received => R::advance(State::Timed, &[Adopt]),
            Input::ReceivedUntimed => R::advance(State::Untimed, &[Adopt]),
            // The stale result stays in use on this connection: a server that fails is not asked with every command.
            Input::Failed | Input::Ended => R::advance(State::Untimed, &[]),
            Input::UsedLate => R::ignore(state),
        },
    }
}

recorded!("freshness");
