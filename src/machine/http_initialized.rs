//! What follows when the POST of `notifications/initialized` is over, without which a legacy server may refuse every
//! request. A POST that breaks before its response is repeated once: the notification may arrive twice. A server that
//! breaks each of them may have taken it, so the second connection goes on without a response.

use super::{Row, alphabet};

alphabet! {
    /// What is known of the POST.
    State {
        /// It did not break on this connection, nor did it end the connection before.
        Trusted,
        /// It broke, and is repeated.
        Repeated,
        /// The connection before ended because it broke twice.
        Doubted,
        /// As above, and it broke on this connection, and is repeated.
        DoubtedRepeated,
    }
}

alphabet! {
    /// What happens to the POST.
    Input {
        /// A response began, or the time for it is over.
        Answered,
        /// It ended before a response began.
        Broke,
        /// The connection is gone.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The notification counts as accepted.
    Accept,
    /// Send it again.
    SendAgain,
    /// Report that the connection is closed.
    ReportClosed,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Accept, ReportClosed, SendAgain};
    type R = Row<State, Effect>;
    match state {
        State::Trusted => match input {
            Input::Answered => R::advance(state, &[Accept]),
            Input::Broke => R::advance(State::Repeated, &[SendAgain]),
            Input::Lost => R::ignore(state),
        },
        State::Repeated => match input {
            Input::Answered => R::advance(State::Trusted, &[Accept]),
            Input::Broke => R::advance(State::Doubted, &[ReportClosed]),
            Input::Lost => R::advance(State::Trusted, &[]),
        },
        State::Doubted => match input {
            Input::Answered => R::advance(State::Trusted, &[Accept]),
            Input::Broke => R::advance(State::DoubtedRepeated, &[SendAgain]),
            Input::Lost => R::ignore(state),
        },
        State::DoubtedRepeated => match input {
            Input::Answered => R::advance(State::Trusted, &[Accept]),
            Input::Broke => R::advance(State::Doubted, &[Accept]),
            Input::Lost => R::advance(State::Doubted, &[]),
        },
    }
}

#[cfg(feature = "http")]
super::recorded!("http_initialized");
