//! Whether an HTTP server can be reached: one request that cannot be sent, while others get responses, does not end
//! the connection.

use super::{Row, alphabet};

alphabet! {
    /// What the last requests showed.
    State {
        /// The server was reached, or nothing was sent yet.
        Reached,
        /// A request was not sent because the server was not reached, and no response began since.
        Missed,
    }
}

alphabet! {
    /// What happens to requests.
    Input {
        /// A response begins.
        Head,
        /// A request did not reach the server, while others get responses.
        MissedOne,
        /// A request did not reach the server, and no other gets a response.
        MissedAll,
        /// A request of the handshake did not reach the server, or `notifications/initialized`, which it requires.
        MissedHandshake,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Report that the request was not sent.
    ReportNotSent,
    /// Report that the server cannot be reached.
    ReportUnreached,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{ReportNotSent, ReportUnreached};
    type R = Row<State, Effect>;
    match state {
        State::Reached => match input {
            Input::MissedOne => R::advance(State::Missed, &[ReportNotSent]),
            Input::MissedAll => R::advance(state, &[ReportNotSent, ReportUnreached]),
            Input::MissedHandshake => R::advance(state, &[ReportUnreached]),
            Input::Head => R::ignore(state),
        },
        State::Missed => match input {
            Input::Head => R::advance(State::Reached, &[]),
            Input::MissedOne | Input::MissedAll => R::advance(State::Reached, &[ReportNotSent, ReportUnreached]),
            Input::MissedHandshake => R::advance(State::Reached, &[ReportUnreached]),
        },
    }
}

#[cfg(feature = "http")]
super::recorded!("http_reach");
