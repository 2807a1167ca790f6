//! The phases of a connection over HTTP: what may be sent, and how the connection ends (specification 2025-11-25,
//! "Streamable HTTP"). Which transport the server has is decided by [`http_sse`](super::http_sse).

use super::{Row, alphabet};

alphabet! {
    /// The phase of the connection.
    State {
        /// There is no connection.
        Idle,
        /// The connection and the handshake are in progress.
        Opening,
        /// `notifications/initialized` was sent and not accepted yet. Only responses to server requests are sent.
        Accepting,
        /// Tool calls wait for the GET stream, on which the server may send requests during them.
        AwaitingStream,
        /// Every message may be sent.
        Live,
        /// The client closes: responses to server requests are in flight.
        Ending,
        /// The client closes: the DELETE of the session is in flight.
        Deleting,
    }
}

alphabet! {
    /// What happens to the connection.
    Input {
        /// The engine wants a connection.
        Connect,
        /// The first message after a handshake of the modern era is sent.
        Established,
        /// `notifications/initialized` is sent.
        InitializedSent,
        /// The POST of `notifications/initialized` ended, and the server may have a GET stream.
        Accepted,
        /// The POST of `notifications/initialized` ended, and the server has HTTP+SSE.
        AcceptedSse,
        /// The GET stream is open, is refused or failed, or the wait for it is over.
        StreamDecided,
        /// The engine lost or closed the connection.
        Lost,
        /// A lost connection is to be shut down. Another one may follow.
        Retire,
        /// The client closes, and responses to server requests are not delivered yet.
        CloseOwing,
        /// The client closes, and only the session is left to end.
        CloseSession,
        /// The client closes, and nothing is left.
        CloseNothing,
        /// The time for the responses is over, and there is a session to end.
        OverdueSession,
        /// The time for the last step is over.
        Overdue,
        /// The DELETE ended.
        Deleted,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request the GET stream, and start the wait for it.
    StartStream,
    /// Stop the wait for the GET stream.
    StopWait,
    /// Drop every exchange and every queued message. While the client closes, responses to server requests stay.
    Clear,
    /// Drop the queued messages, and send the DELETE of the session.
    Delete,
    /// Drop everything, and report that the connection is closed.
    ReportClosed,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Clear, Delete, ReportClosed, StartStream, StopWait};
    type R = Row<State, Effect>;
    match state {
        State::Idle => match input {
            Input::Connect => R::advance(State::Opening, &[]),
            Input::Retire | Input::CloseNothing => R::advance(state, &[ReportClosed]),
            Input::CloseOwing => R::advance(State::Ending, &[]),
            Input::CloseSession => R::advance(State::Deleting, &[Delete]),
            Input::Established
            | Input::InitializedSent
            | Input::Accepted
            | Input::AcceptedSse
            | Input::StreamDecided
            | Input::Lost
            | Input::OverdueSession
            | Input::Overdue
            | Input::Deleted => R::ignore(state),
        },
        State::Opening => match input {
            Input::Established => R::advance(State::Live, &[]),
            Input::InitializedSent => R::advance(State::Accepting, &[]),
            Input::Lost => R::advance(State::Idle, &[Clear]),
            Input::Connect
            | Input::Accepted
            | Input::AcceptedSse
            | Input::StreamDecided
            | Input::Retire
            | Input::CloseOwing
            | Input::CloseSession
            | Input::CloseNothing
            | Input::OverdueSession
            | Input::Overdue
            | Input::Deleted => R::ignore(state),
        },
        State::Accepting => match input {
            Input::Accepted => R::advance(State::AwaitingStream, &[StartStream]),
            Input::AcceptedSse => R::advance(State::Live, &[]),
            Input::Lost => R::advance(State::Idle, &[Clear]),
            // It is sent again after a redirect or a 429.
            Input::InitializedSent
            | Input::Connect
            | Input::Established
            | Input::StreamDecided
            | Input::Retire
            | Input::CloseOwing
            | Input::CloseSession
            | Input::CloseNothing
            | Input::OverdueSession
            | Input::Overdue
            | Input::Deleted => R::ignore(state),
        },
        State::AwaitingStream => match input {
            Input::StreamDecided => R::advance(State::Live, &[StopWait]),
            Input::Lost => R::advance(State::Idle, &[Clear]),
            Input::Connect
            | Input::Established
            | Input::InitializedSent
            | Input::Accepted
            | Input::AcceptedSse
            | Input::Retire
            | Input::CloseOwing
            | Input::CloseSession
            | Input::CloseNothing
            | Input::OverdueSession
            | Input::Overdue
            | Input::Deleted => R::ignore(state),
        },
        State::Live => match input {
            Input::Lost => R::advance(State::Idle, &[Clear]),
            Input::Connect
            | Input::Established
            | Input::InitializedSent
            | Input::Accepted
            | Input::AcceptedSse
            | Input::StreamDecided
            | Input::Retire
            | Input::CloseOwing
            | Input::CloseSession
            | Input::CloseNothing
            | Input::OverdueSession
            | Input::Overdue
            | Input::Deleted => R::ignore(state),
        },
        State::Ending => match input {
            Input::CloseSession | Input::OverdueSession => R::advance(State::Deleting, &[Delete]),
            Input::CloseNothing | Input::Overdue => R::advance(State::Idle, &[ReportClosed]),
            Input::CloseOwing
            | Input::Connect
            | Input::Established
            | Input::InitializedSent
            | Input::Accepted
            | Input::AcceptedSse
            | Input::StreamDecided
            | Input::Lost
            | Input::Retire
            | Input::Deleted => R::ignore(state),
        },
        State::Deleting => match input {
            Input::Deleted | Input::OverdueSession | Input::Overdue => R::advance(State::Idle, &[ReportClosed]),
            Input::Connect
            | Input::Established
            | Input::InitializedSent
            | Input::Accepted
            | Input::AcceptedSse
            | Input::StreamDecided
            | Input::Lost
            | Input::Retire
            | Input::CloseOwing
            | Input::CloseSession
            | Input::CloseNothing => R::ignore(state),
        },
    }
}

/// Whether tool calls wait in this phase.
pub(crate) const fn holds_calls(state: State) -> bool {
    match state {
        State::Accepting | State::AwaitingStream => true,
        State::Idle | State::Opening | State::Live | State::Ending | State::Deleting => false,
    }
}

#[cfg(feature = "http")]
super::recorded!("http");
