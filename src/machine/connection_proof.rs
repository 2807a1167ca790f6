//! Whether a connection showed that it works, which decides whether its loss counts as one in a row, and whether its
//! session counts as one that expires as soon as it is opened. The counts are compared in [`loss`](super::loss).

use super::{Row, alphabet, recorded};

alphabet! {
    /// What is known of the connection.
    State {
        /// It answered no call yet.
        Unproven,
        /// It answered a call.
        Proven,
    }
}

alphabet! {
    /// What happens to the connection.
    Input {
        /// It answered a call.
        Answered,
        /// The client is ready on it.
        Ready,
        /// It is lost.
        Lost,
        /// It is lost, and was ready for at least the interval of keepalives.
        LostLate,
        /// Its session expired.
        Expired,
        /// Its session expired, and the client was ready for at least the interval of keepalives.
        ExpiredLate,
        /// It is not used, and its transport is shut down: an orderly end is no loss, and the connection has worked.
        Rested,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Count one more lost connection in a row.
    CountLoss,
    /// The loss is the first in a row.
    CountFirstLoss,
    /// Forget the lost connections.
    ForgetLosses,
    /// Have [`loss`](super::loss) decide whether there may be one more session in a row, and count it.
    CountExpiry,
    /// Forget the expired sessions.
    ForgetExpiries,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{CountExpiry, CountFirstLoss, CountLoss, ForgetExpiries, ForgetLosses};
    type R = Row<State, Effect>;
    match input {
        Input::Answered => match state {
            State::Unproven => R::advance(State::Proven, &[ForgetExpiries]),
            State::Proven => R::ignore(state),
        },
        Input::Ready => match state {
            State::Unproven => R::ignore(state),
            // The session before it answered a call, and expired.
            State::Proven => R::advance(State::Unproven, &[]),
        },
        Input::Lost => match state {
            State::Unproven => R::advance(state, &[CountLoss]),
            State::Proven => R::advance(State::Unproven, &[CountFirstLoss]),
        },
        Input::LostLate => R::advance(State::Unproven, &[CountFirstLoss]),
        Input::Expired => R::advance(state, &[CountExpiry]),
        // A session that lasted long does not count as a part of a loop.
        Input::ExpiredLate => R::advance(state, &[ForgetExpiries, CountExpiry]),
        Input::Rested => R::advance(State::Unproven, &[ForgetLosses]),
    }
}

recorded!("connection_proof");
