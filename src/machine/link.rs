#![doc = "The connection as a whole: opened, used, lost, reopened, closed."]
#![doc = ""]
#![doc = include_str!("link.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of the connection.
    State {
        /// No connection was opened yet.
        Idle,
        /// The embedder opens the transport.
        Opening,
        /// The transport is open; handshake and discovery are in progress.
        Connecting,
        /// Requests are sent.
        Ready,
        /// An unusable transport is being shut down, and will be reopened.
        Draining,
        /// An unusable transport is being shut down; afterwards the client is parked.
        Retiring,
        /// The backoff before the transport is opened again.
        Waiting,
        /// Parked: opened again after a long interval, or by a command.
        Parked,
        /// The transport is being shut down, and the client closes.
        Closing,
        /// The client is closed.
        Closed,
    }
}

alphabet! {
    /// What happens to the connection.
    Input {
        /// The embedder opens the client.
        Open,
        /// The transport is open.
        Opened,
        /// The handshake needs a new transport.
        Reopen,
        /// Handshake and discovery are done.
        Established,
        /// Handshake or discovery failed, and another attempt would fail, too.
        Failed,
        /// The peer does not respond on an open transport; another attempt may follow.
        Unresponsive,
        /// As `Unresponsive`, and no attempts are left.
        Hopeless,
        /// The transport closed or did not open; another attempt may follow.
        Lost,
        /// As `Lost`, and no attempts are left.
        Exhausted,
        /// As `Lost`, and reconnects are turned off.
        LostForGood,
        /// The server forgot the session; the transport needs no opening.
        Expired,
        /// The wait is over.
        Timer,
        /// The embedder closes the client.
        Close,
        /// The transport that was being shut down is closed.
        Gone,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Have the embedder open the transport.
    Open,
    /// Start the handshake.
    Handshake,
    /// Report that the client is ready, and send queued requests.
    Announce,
    /// Start the shutdown of the transport.
    Shut,
    /// Start the backoff.
    Backoff,
    /// Start the long interval of a parked client.
    Park,
    /// Report that the client is closed.
    Finish,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Announce, Backoff, Finish, Handshake, Open, Park, Shut};
    match state {
        State::Idle => match input {
            Input::Open => R::advance(State::Opening, &[Open]),
            Input::Close => R::advance(State::Closed, &[Finish]),
            Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Timer
            | Input::Gone => R::ignore(state),
        },
        State::Opening => match input {
            Input::Opened => R::advance(State::Connecting, &[Handshake]),
            Input::Lost => R::advance(State::Waiting, &[Backoff]),
            Input::Exhausted => R::advance(State::Parked, &[Park]),
            Input::LostForGood => R::advance(State::Closed, &[Finish]),
            Input::Failed | Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Unresponsive => R::advance(State::Draining, &[Shut]),
            Input::Hopeless => R::advance(State::Retiring, &[Shut]),
            Input::Open => R::reject(state),
            Input::Reopen | Input::Established | Input::Expired | Input::Timer | Input::Gone => R::ignore(state),
        },
        State::Connecting => match input {
            Input::Established => R::advance(State::Ready, &[Announce]),
            Input::Reopen | Input::Expired => R::advance(State::Opening, &[Open]),
            Input::Failed | Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Unresponsive => R::advance(State::Draining, &[Shut]),
            Input::Hopeless => R::advance(State::Retiring, &[Shut]),
            Input::Lost => R::advance(State::Waiting, &[Backoff]),
            Input::Exhausted => R::advance(State::Parked, &[Park]),
            Input::LostForGood => R::advance(State::Closed, &[Finish]),
            Input::Open => R::reject(state),
            Input::Opened | Input::Timer | Input::Gone => R::ignore(state),
        },
        State::Ready => match input {
            Input::Expired => R::advance(State::Opening, &[Open]),
            Input::Lost => R::advance(State::Waiting, &[Backoff]),
            Input::Exhausted => R::advance(State::Parked, &[Park]),
            Input::LostForGood => R::advance(State::Closed, &[Finish]),
            Input::Unresponsive => R::advance(State::Draining, &[Shut]),
            Input::Hopeless => R::advance(State::Retiring, &[Shut]),
            Input::Failed | Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Open => R::reject(state),
            Input::Opened | Input::Reopen | Input::Established | Input::Timer | Input::Gone => R::ignore(state),
        },
        State::Draining => shutting(state, input, R::advance(State::Waiting, &[Backoff])),
        State::Retiring => match input {
            // The transport is reopened after its shutdown in any case.
            Input::Open => R::advance(State::Draining, &[]),
            Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Timer
            | Input::Close
            | Input::Gone => shutting(state, input, R::advance(State::Parked, &[Park])),
        },
        State::Waiting | State::Parked => match input {
            Input::Timer | Input::Open => R::advance(State::Opening, &[Open]),
            Input::Close => R::advance(State::Closed, &[Finish]),
            Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Gone => R::ignore(state),
        },
        State::Closing => match input {
            Input::Gone => R::advance(State::Closed, &[Finish]),
            Input::Open | Input::Close => R::reject(state),
            Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Timer => R::ignore(state),
        },
        State::Closed => match input {
            Input::Open | Input::Close => R::reject(state),
            Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Timer
            | Input::Gone => R::ignore(state),
        },
    }
}

/// The rows of states that shut a transport down and open another one.
const fn shutting(state: State, input: Input, gone: R) -> R {
    match input {
        Input::Gone => gone,
        Input::Close => R::advance(State::Closing, &[]),
        Input::Open => R::reject(state),
        Input::Opened
        | Input::Reopen
        | Input::Established
        | Input::Failed
        | Input::Unresponsive
        | Input::Hopeless
        | Input::Lost
        | Input::Exhausted
        | Input::LostForGood
        | Input::Expired
        | Input::Timer => R::ignore(state),
    }
}

recorded!("link");
