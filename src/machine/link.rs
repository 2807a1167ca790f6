//! The connection as a whole: opened, used, lost, reopened, closed.

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of the connection.
    State {
        /// No connection was opened yet.
        Idle,
        /// The transport is to be opened. The embedder did not poll that yet, or over HTTP no request of the connection,
        /// so its loss is not reported.
        OpeningUnseen,
        /// The embedder opens the transport.
        Opening,
        /// The transport is open, and handshake and discovery are in progress. The embedder polled nothing of the
        /// connection yet.
        ConnectingUnseen,
        /// The transport is open; handshake and discovery are in progress.
        Connecting,
        /// Requests are sent.
        Ready,
        /// An unusable transport is being shut down, and will be reopened.
        Draining,
        /// An unusable transport is being shut down; afterwards the client is parked.
        Retiring,
        /// As `Retiring`, because the server refused authorization. Over HTTP the shutdown is done at once.
        RetiringUnauthorized,
        /// The backoff before the transport is opened again.
        Waiting,
        /// Parked: opened again after a long interval, or by a command.
        Parked,
        /// As `Parked`, because the server refused authorization.
        ParkedUnauthorized,
        /// The transport of a client that is not used is being shut down; afterwards the client rests.
        Releasing,
        /// As `Releasing`, and the transport is opened again after the shutdown.
        Renewing,
        /// The client is not used, and has no transport. It is opened again by a command.
        Resting,
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
        /// The embedder polls the request to open the transport, or over HTTP a request of the connection.
        Seen,
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
        /// The server refused authorization.
        Unauthorized,
        /// The transport closed or did not open; another attempt may follow.
        Lost,
        /// As `Lost`, and no attempts are left.
        Exhausted,
        /// As `Lost`, and reconnects are turned off.
        LostForGood,
        /// The server forgot the session; the transport needs no opening.
        Expired,
        /// The embedder can authorize requests.
        Authorized,
        /// The wait is over.
        Timer,
        /// The client is not used, so its transport is closed.
        Rest,
        /// The embedder closes the client.
        Close,
        /// The transport that was being shut down is closed.
        Gone,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Have the embedder open the transport.
    Open,
    /// Start the handshake.
    Handshake,
    /// Report that the client is ready, and send queued requests.
    Announce,
    /// Report the loss, and what follows in the next state.
    Report,
    /// Withdraw what the embedder did not poll.
    Withdraw,
    /// Start the shutdown of the transport.
    Shut,
    /// Start the shutdown of a transport that did not open.
    ShutUnopened,
    /// Start the backoff.
    Backoff,
    /// Start the long interval of a parked client.
    Park,
    /// Report that the client is closed.
    Finish,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Announce, Backoff, Finish, Handshake, Open, Park, Report, Shut, ShutUnopened, Withdraw};
    type R = Row<State, Effect>;
    match state {
        State::Idle => match input {
            Input::Open => R::advance(State::OpeningUnseen, &[Open]),
            Input::Close => R::advance(State::Closed, &[Finish]),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::OpeningUnseen => match input {
            Input::Seen => R::advance(State::Opening, &[]),
            Input::Opened => R::advance(State::ConnectingUnseen, &[Handshake]),
            Input::Failed => R::advance(State::Closing, &[Report, ShutUnopened]),
            Input::Unresponsive => R::advance(State::Draining, &[ShutUnopened]),
            Input::Hopeless => R::advance(State::Retiring, &[ShutUnopened]),
            Input::Lost => R::advance(State::Waiting, &[Backoff]),
            Input::Exhausted => R::advance(State::Parked, &[Park]),
            Input::LostForGood => R::advance(State::Closed, &[Report, Finish]),
            Input::Close => R::advance(State::Closed, &[Withdraw, Finish]),
            Input::Open => R::reject(state),
            Input::Reopen
            | Input::Established
            | Input::Unauthorized
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::Opening => match input {
            Input::Opened => R::advance(State::Connecting, &[Handshake]),
            Input::Failed => R::advance(State::Closing, &[Report, ShutUnopened]),
            Input::Unresponsive => R::advance(State::Draining, &[Report, ShutUnopened]),
            Input::Hopeless => R::advance(State::Retiring, &[Report, ShutUnopened]),
            Input::Unauthorized => R::advance(State::RetiringUnauthorized, &[Report, ShutUnopened]),
            Input::Lost => R::advance(State::Waiting, &[Backoff, Report]),
            Input::Exhausted => R::advance(State::Parked, &[Park, Report]),
            Input::LostForGood => R::advance(State::Closed, &[Report, Finish]),
            Input::Close => R::advance(State::Closing, &[ShutUnopened]),
            Input::Open => R::reject(state),
            Input::Seen
            | Input::Reopen
            | Input::Established
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::ConnectingUnseen => match input {
            Input::Seen => R::advance(State::Connecting, &[]),
            Input::Reopen => R::advance(State::OpeningUnseen, &[Open]),
            Input::Failed => R::advance(State::Closing, &[Report, Shut]),
            Input::Unresponsive => R::advance(State::Draining, &[Shut]),
            Input::Hopeless => R::advance(State::Retiring, &[Shut]),
            Input::Lost => R::advance(State::Waiting, &[Backoff]),
            Input::Exhausted => R::advance(State::Parked, &[Park]),
            Input::LostForGood => R::advance(State::Closed, &[Report, Finish]),
            Input::Close => R::advance(State::Closed, &[Withdraw, Finish]),
            Input::Open => R::reject(state),
            Input::Opened
            | Input::Established
            | Input::Unauthorized
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::Connecting => match input {
            Input::Reopen => R::advance(State::OpeningUnseen, &[Open]),
            Input::Established => R::advance(State::Ready, &[Announce]),
            Input::Failed => R::advance(State::Closing, &[Report, Shut]),
            Input::Unresponsive => R::advance(State::Draining, &[Report, Shut]),
            Input::Hopeless => R::advance(State::Retiring, &[Report, Shut]),
            Input::Unauthorized => R::advance(State::RetiringUnauthorized, &[Report, Shut]),
            Input::Lost => R::advance(State::Waiting, &[Backoff, Report]),
            Input::Exhausted => R::advance(State::Parked, &[Park, Report]),
            Input::LostForGood => R::advance(State::Closed, &[Report, Finish]),
            Input::Expired => R::advance(State::OpeningUnseen, &[Report, Open]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Open => R::reject(state),
            Input::Seen | Input::Opened | Input::Authorized | Input::Timer | Input::Gone | Input::Rest => {
                R::ignore(state)
            }
        },
        State::Ready => match input {
            Input::Failed => R::advance(State::Closing, &[Report, Shut]),
            Input::Unresponsive => R::advance(State::Draining, &[Report, Shut]),
            Input::Hopeless => R::advance(State::Retiring, &[Report, Shut]),
            Input::Lost => R::advance(State::Waiting, &[Backoff, Report]),
            Input::Exhausted => R::advance(State::Parked, &[Park, Report]),
            Input::LostForGood => R::advance(State::Closed, &[Report, Finish]),
            Input::Expired => R::advance(State::OpeningUnseen, &[Report, Open]),
            Input::Rest => R::advance(State::Releasing, &[Shut]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Open => R::reject(state),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Unauthorized
            | Input::Authorized
            | Input::Timer
            | Input::Gone => R::ignore(state),
        },
        State::Draining => match input {
            Input::Close => R::advance(State::Closing, &[]),
            Input::Gone => R::advance(State::Waiting, &[Backoff]),
            Input::Open => R::reject(state),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest => R::ignore(state),
        },
        State::Retiring => match input {
            // The transport is reopened after its shutdown in any case.
            Input::Open => R::advance(State::Draining, &[]),
            Input::Close => R::advance(State::Closing, &[]),
            Input::Gone => R::advance(State::Parked, &[Park]),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest => R::ignore(state),
        },
        State::RetiringUnauthorized => match input {
            Input::Gone => R::advance(State::ParkedUnauthorized, &[Park]),
            Input::Open
            | Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Close => R::ignore(state),
        },
        State::Waiting | State::Parked => match input {
            Input::Open | Input::Timer => R::advance(State::OpeningUnseen, &[Open]),
            Input::Close => R::advance(State::Closed, &[Finish]),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::ParkedUnauthorized => match input {
            Input::Open | Input::Authorized | Input::Timer => R::advance(State::OpeningUnseen, &[Open]),
            Input::Close => R::advance(State::Closed, &[Finish]),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::Releasing => match input {
            Input::Open => R::advance(State::Renewing, &[]),
            Input::Close => R::advance(State::Closing, &[]),
            Input::Gone => R::advance(State::Resting, &[]),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest => R::ignore(state),
        },
        State::Renewing => match input {
            Input::Close => R::advance(State::Closing, &[]),
            Input::Gone => R::advance(State::OpeningUnseen, &[Open]),
            Input::Open
            | Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest => R::ignore(state),
        },
        State::Resting => match input {
            Input::Open => R::advance(State::OpeningUnseen, &[Open]),
            Input::Close => R::advance(State::Closed, &[Finish]),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
        State::Closing => match input {
            Input::Gone => R::advance(State::Closed, &[Finish]),
            Input::Open | Input::Close => R::reject(state),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest => R::ignore(state),
        },
        State::Closed => match input {
            Input::Open | Input::Close => R::reject(state),
            Input::Seen
            | Input::Opened
            | Input::Reopen
            | Input::Established
            | Input::Failed
            | Input::Unresponsive
            | Input::Hopeless
            | Input::Unauthorized
            | Input::Lost
            | Input::Exhausted
            | Input::LostForGood
            | Input::Expired
            | Input::Authorized
            | Input::Timer
            | Input::Rest
            | Input::Gone => R::ignore(state),
        },
    }
}

recorded!("link", refuses);
