#![doc = "A subscription to one resource, restored on each connection."]
#![doc = ""]
#![doc = include_str!("resource_subscription.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of the subscription.
    State {
        /// Wanted by the embedder, and not requested on this connection.
        Wanted,
        /// Requested from the server.
        Asking,
        /// The server announces changes of the resource.
        Active,
        /// The server refused the subscription.
        Refused,
        /// Requested from the server, and not wanted any more.
        Regretted,
        /// The end of the subscription was requested.
        Leaving,
        /// The end of the subscription was requested, and the embedder wants it again.
        Returning,
        /// The subscription is over.
        Gone,
    }
}

alphabet! {
    /// What happens to the subscription.
    Input {
        /// The server can be asked to subscribe.
        Possible,
        /// The embedder subscribes.
        Subscribe,
        /// The embedder unsubscribes, and the server requires a request for that.
        Unsubscribe,
        /// The embedder unsubscribes, and no request is needed for that.
        Drop,
        /// The server accepted.
        Accepted,
        /// The server refused.
        Refused,
        /// The connection or the listen stream is lost.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Request the subscription.
    Ask,
    /// Request the end of the subscription.
    Leave,
    /// Report that the subscription is active.
    TellActive,
    /// Report that the subscription was refused.
    TellRefused,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Ask, Leave, TellActive, TellRefused};
    match state {
        State::Wanted => match input {
            Input::Possible => R::advance(State::Asking, &[Ask]),
            Input::Refused => R::advance(State::Refused, &[TellRefused]),
            Input::Drop => R::advance(State::Gone, &[]),
            // `Unsubscribe` is an input only where the server requires a request for it, and nothing was requested
            // here.
            Input::Unsubscribe | Input::Subscribe | Input::Accepted | Input::Lost => R::ignore(state),
        },
        State::Asking => match input {
            Input::Accepted => R::advance(State::Active, &[TellActive]),
            Input::Refused => R::advance(State::Refused, &[TellRefused]),
            Input::Unsubscribe => R::advance(State::Regretted, &[]),
            Input::Drop => R::advance(State::Gone, &[]),
            Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible | Input::Subscribe => R::ignore(state),
        },
        State::Active => match input {
            Input::Refused => R::advance(State::Refused, &[TellRefused]),
            Input::Unsubscribe => R::advance(State::Leaving, &[Leave]),
            Input::Drop => R::advance(State::Gone, &[]),
            Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible | Input::Subscribe | Input::Accepted => R::ignore(state),
        },
        State::Refused => match input {
            Input::Accepted => R::advance(State::Active, &[TellActive]),
            Input::Unsubscribe | Input::Drop => R::advance(State::Gone, &[]),
            Input::Subscribe | Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible | Input::Refused => R::ignore(state),
        },
        State::Regretted => match input {
            Input::Accepted => R::advance(State::Leaving, &[Leave]),
            Input::Refused | Input::Lost => R::advance(State::Gone, &[]),
            Input::Subscribe => R::advance(State::Asking, &[]),
            Input::Possible | Input::Unsubscribe | Input::Drop => R::ignore(state),
        },
        State::Leaving => match input {
            Input::Accepted | Input::Refused | Input::Lost => R::advance(State::Gone, &[]),
            Input::Subscribe => R::advance(State::Returning, &[]),
            Input::Possible | Input::Unsubscribe | Input::Drop => R::ignore(state),
        },
        State::Returning => match input {
            Input::Accepted | Input::Refused => R::advance(State::Asking, &[Ask]),
            Input::Unsubscribe => R::advance(State::Leaving, &[]),
            Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible | Input::Subscribe | Input::Drop => R::ignore(state),
        },
        State::Gone => match input {
            Input::Possible
            | Input::Subscribe
            | Input::Unsubscribe
            | Input::Drop
            | Input::Accepted
            | Input::Refused
            | Input::Lost => R::ignore(state),
        },
    }
}

recorded!("resource_subscription");
