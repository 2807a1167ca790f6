//! A subscription to one resource, restored on each connection.

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of the subscription.
    State {
        /// Wanted by the embedder, and not requested on this connection.
        Wanted,
        /// Requested from the server.
        Requested,
        /// The server announces changes of the resource.
        Active,
        /// The server refused the subscription.
        Refused,
        /// Requested from the server, and not wanted any more.
        Withdrawn,
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
        /// The server can be sent a request for the resource.
        Possible,
        /// A request for a listen stream names the resource.
        Included,
        /// The listen stream ended that announced the resource; the requested one names it.
        Replaced,
        /// The embedder subscribes.
        Subscribe,
        /// The embedder unsubscribes, and the server requires a request for that.
        Unsubscribe,
        /// The embedder unsubscribes, and no request is needed for that.
        Drop,
        /// The server accepted.
        Accepted,
        /// The server acknowledged the listen stream, and did not say for which resources.
        StreamAccepted,
        /// The server acknowledged the listen stream without the resource.
        LeftOut,
        /// The server refused, or subscriptions are not possible.
        Refused,
        /// The connection or the listen stream is lost.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request the subscription.
    Request,
    /// Request the end of the subscription.
    Leave,
    /// Report that the subscription is active.
    TellActive,
    /// Report that the subscription was refused.
    TellRefused,
}

type R = Row<State, Effect>;

impl State {
    /// Whether the embedder wants the subscription.
    pub(crate) const fn is_wanted(self) -> bool {
        match self {
            Self::Wanted | Self::Requested | Self::Active | Self::Refused | Self::Returning => true,
            Self::Withdrawn | Self::Leaving | Self::Gone => false,
        }
    }

    /// Whether requests for a listen stream name the resource.
    pub(crate) const fn is_listed(self) -> bool {
        match self {
            Self::Wanted | Self::Requested | Self::Active => true,
            Self::Refused | Self::Withdrawn | Self::Leaving | Self::Returning | Self::Gone => false,
        }
    }
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Leave, Request, TellActive, TellRefused};
    match state {
        State::Wanted => match input {
            Input::Possible => R::advance(State::Requested, &[Request]),
            Input::Included => R::advance(State::Requested, &[]),
            Input::Refused => R::advance(State::Refused, &[TellRefused]),
            Input::Drop => R::advance(State::Gone, &[]),
            // `Unsubscribe` is an input only where the server requires a request for it, and nothing was requested
            // here. An acknowledged stream is older than this subscription: the next one names it.
            Input::Unsubscribe
            | Input::Subscribe
            | Input::Replaced
            | Input::Accepted
            | Input::StreamAccepted
            | Input::LeftOut
            | Input::Lost => R::ignore(state),
        },
        State::Requested => match input {
            Input::Accepted | Input::StreamAccepted => R::advance(State::Active, &[TellActive]),
            Input::LeftOut | Input::Refused => R::advance(State::Refused, &[TellRefused]),
            Input::Unsubscribe => R::advance(State::Withdrawn, &[]),
            Input::Drop => R::advance(State::Gone, &[]),
            Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible | Input::Included | Input::Replaced | Input::Subscribe => R::ignore(state),
        },
        State::Active => match input {
            Input::LeftOut => R::advance(State::Refused, &[TellRefused]),
            Input::Replaced => R::advance(State::Requested, &[]),
            Input::Unsubscribe => R::advance(State::Leaving, &[Leave]),
            Input::Drop => R::advance(State::Gone, &[]),
            Input::Lost => R::advance(State::Wanted, &[]),
            Input::Refused
            | Input::Possible
            | Input::Included
            | Input::Subscribe
            | Input::Accepted
            | Input::StreamAccepted => R::ignore(state),
        },
        State::Refused => match input {
            Input::Accepted => R::advance(State::Active, &[TellActive]),
            Input::Unsubscribe | Input::Drop => R::advance(State::Gone, &[]),
            Input::Subscribe | Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible
            | Input::Included
            | Input::Replaced
            | Input::StreamAccepted
            | Input::LeftOut
            | Input::Refused => R::ignore(state),
        },
        State::Withdrawn => match input {
            Input::Accepted => R::advance(State::Leaving, &[Leave]),
            Input::Refused | Input::Lost => R::advance(State::Gone, &[]),
            Input::Subscribe => R::advance(State::Requested, &[]),
            Input::Possible
            | Input::Included
            | Input::Replaced
            | Input::Unsubscribe
            | Input::Drop
            | Input::StreamAccepted
            | Input::LeftOut => R::ignore(state),
        },
        State::Leaving => match input {
            Input::Accepted | Input::Refused | Input::Lost => R::advance(State::Gone, &[]),
            Input::Subscribe => R::advance(State::Returning, &[]),
            Input::Possible
            | Input::Included
            | Input::Replaced
            | Input::Unsubscribe
            | Input::Drop
            | Input::StreamAccepted
            | Input::LeftOut => R::ignore(state),
        },
        State::Returning => match input {
            Input::Accepted | Input::Refused => R::advance(State::Requested, &[Request]),
            Input::Unsubscribe => R::advance(State::Leaving, &[]),
            Input::Lost => R::advance(State::Wanted, &[]),
            Input::Possible
            | Input::Included
            | Input::Replaced
            | Input::Subscribe
            | Input::Drop
            | Input::StreamAccepted
            | Input::LeftOut => R::ignore(state),
        },
        State::Gone => match input {
            Input::Possible
            | Input::Included
            | Input::Replaced
            | Input::Subscribe
            | Input::Unsubscribe
            | Input::Drop
            | Input::Accepted
            | Input::StreamAccepted
            | Input::LeftOut
            | Input::Refused
            | Input::Lost => R::ignore(state),
        },
    }
}

recorded!("resource_subscription");
