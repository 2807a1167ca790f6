#![doc = "A resource that the embedder wants to be told of: subscribed to on each connection anew."]
#![doc = ""]
#![doc = include_str!("resource_subscription.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Where the subscription stands.
    State {
        /// It is wanted, and was not asked for on this connection.
        Wanted,
        /// It was asked for.
        Asking,
        /// The server tells of the resource's changes.
        Active,
        /// The server does not tell of them.
        Refused,
        /// It was asked for, and is not wanted any more.
        Regretted,
        /// Its end was asked for.
        Leaving,
        /// Its end was asked for, and it is wanted again.
        Returning,
        /// It is over.
        Gone,
    }
}

alphabet! {
    /// What happens to the subscription.
    Input {
        /// It can be asked for.
        Possible,
        /// The embedder wants it.
        Subscribe,
        /// The embedder does not want it any more, and the server is to be told so by a request.
        Unsubscribe,
        /// The embedder does not want it any more, and there is nothing to undo by itself.
        Drop,
        /// The server agreed.
        Accepted,
        /// The server did not agree.
        Refused,
        /// What the server agreed to is void: the connection is gone, or the stream.
        Lost,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask for it.
    Ask,
    /// Ask for its end.
    Leave,
    /// Tell the embedder that it stands.
    TellActive,
    /// Tell the embedder that it was refused.
    TellRefused,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Ask, Leave, TellActive, TellRefused};
    match state {
        State::Wanted => match input {
            Input::Possible => R::advance(State::Asking, &[Ask]),
            Input::Refused => R::advance(State::Refused, &[TellRefused]),
            Input::Drop => R::advance(State::Gone, &[]),
            // Where the server would be told by a request, none is wanted that was not asked for.
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
