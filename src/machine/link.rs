#![doc = "The connection as a whole: opened, used, lost, opened again, closed."]
#![doc = ""]
#![doc = include_str!("link.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Where the connection stands.
    State {
        /// Nothing was asked for yet.
        Idle,
        /// The embedder was asked to open the transport.
        Opening,
        /// The transport is open; handshake and discovery are under way.
        Connecting,
        /// Requests can be made.
        Ready,
        /// An unusable transport is being shut, to be opened again.
        Draining,
        /// An unusable transport is being shut, after which nothing is opened for now.
        Retiring,
        /// Waiting to open the transport again.
        Waiting,
        /// Given up for now: tried again at long intervals, or when told.
        Parked,
        /// The transport is being shut for good.
        Closing,
        /// The end.
        Closed,
    }
}

alphabet! {
    /// What happens to the connection.
    Input {
        /// The embedder asks for the connection.
        Open,
        /// The transport is open.
        Opened,
        /// The handshake asks for a new transport.
        Reopen,
        /// Handshake and discovery are done.
        Established,
        /// Handshake or discovery failed for a reason that trying again does not mend.
        Failed,
        /// The peer does not answer on a transport that is open; another try is due.
        Unresponsive,
        /// As unresponsive, and the tries are used up.
        Hopeless,
        /// The transport closed, or did not open; another try is due.
        Lost,
        /// As lost, and the tries are used up.
        Exhausted,
        /// As lost, and there is to be no other try.
        LostForGood,
        /// The server forgot the session, on a transport that needs no opening.
        Expired,
        /// The wait is over.
        Timer,
        /// The embedder asks for the end.
        Close,
        /// The transport that was being shut is gone.
        Gone,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask the embedder to open the transport.
    Open,
    /// Start the handshake.
    Handshake,
    /// Tell the embedder that the session is ready, and send what waits.
    Announce,
    /// Start the shutdown ladder.
    Shut,
    /// Wait, longer each time.
    Backoff,
    /// Wait for the long interval.
    Park,
    /// Tell the embedder that this is the end.
    Finish,
}

type R = Row<State, Effect>;

/// Decides.
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
            // What it is shut for is mended already.
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

/// While a transport is shut that is to be followed by another one.
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
