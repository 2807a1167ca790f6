//! Which transport a server has: Streamable HTTP, or the older HTTP+SSE, which has one stream for everything that the
//! server sends, and an endpoint for messages to it (specification 2025-11-25, "Transports", Backwards Compatibility;
//! 2024-11-05, "HTTP with SSE").

use super::{Row, alphabet};

alphabet! {
    /// What is known of the server's transport.
    State {
        /// Streamable HTTP is assumed.
        Streamable,
        /// The server refused `initialize` as an HTTP+SSE server does; the GET of such a server's stream is in flight.
        Fallback,
        /// As [`Streamable`](Self::Streamable), and on this connection there was no HTTP+SSE stream.
        Absent,
        /// The server had HTTP+SSE on the last connection. There is none now.
        Known,
        /// The GET of the HTTP+SSE stream is in flight, and the stream named no endpoint yet.
        Connecting,
        /// The HTTP+SSE stream named the endpoint for messages.
        Ready,
    }
}

alphabet! {
    /// What happens to the connection.
    Input {
        /// The engine wants a connection.
        Connect,
        /// `initialize` was refused by 400, 404 or 405 without a JSON-RPC error.
        RefusedAsSse,
        /// The stream names the endpoint for messages.
        Endpoint,
        /// The stream names an endpoint of another origin.
        EndpointElsewhere,
        /// The stream brings a message.
        Message,
        /// The GET was refused.
        Refused,
        /// The stream ended.
        Ended,
        /// The exchange of the stream broke.
        Broke,
        /// The GET did not reach the server.
        Unreached,
        /// The connection is gone.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Report that the connection is open.
    ReportOpened,
    /// Send the GET of the stream.
    Get,
    /// Drop the exchange of the stream.
    Drop,
    /// Send the refused `initialize` again.
    SendAgain,
    /// The refusal of `initialize` is its response.
    Refuse,
    /// Hand the message to the engine.
    Deliver,
    /// Report a protocol violation.
    ReportViolation,
    /// Report that the server cannot be reached.
    ReportUnreached,
    /// Report that the connection is closed.
    ReportClosed,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Deliver, Drop, Get, Refuse, ReportClosed, ReportOpened, ReportUnreached, ReportViolation, SendAgain};
    type R = Row<State, Effect>;
    match state {
        State::Streamable => match input {
            Input::Connect => R::advance(state, &[ReportOpened]),
            Input::RefusedAsSse => R::advance(State::Fallback, &[Get]),
            Input::Endpoint
            | Input::EndpointElsewhere
            | Input::Message
            | Input::Refused
            | Input::Ended
            | Input::Broke
            | Input::Unreached
            | Input::Lost => R::ignore(state),
        },
        State::Fallback => match input {
            Input::Endpoint => R::advance(State::Ready, &[SendAgain]),
            Input::EndpointElsewhere => R::advance(State::Streamable, &[ReportViolation]),
            Input::Message => R::advance(State::Absent, &[Drop, Refuse]),
            Input::Refused | Input::Ended => R::advance(State::Absent, &[Refuse]),
            Input::Broke => R::advance(State::Streamable, &[ReportClosed]),
            Input::Unreached => R::advance(State::Streamable, &[ReportUnreached]),
            Input::Lost => R::advance(State::Streamable, &[]),
            Input::Connect | Input::RefusedAsSse => R::ignore(state),
        },
        State::Absent => match input {
            Input::RefusedAsSse => R::advance(state, &[Refuse]),
            Input::Lost => R::advance(State::Streamable, &[]),
            Input::Connect
            | Input::Endpoint
            | Input::EndpointElsewhere
            | Input::Message
            | Input::Refused
            | Input::Ended
            | Input::Broke
            | Input::Unreached => R::ignore(state),
        },
        State::Known => match input {
            Input::Connect => R::advance(State::Connecting, &[Get]),
            Input::RefusedAsSse
            | Input::Endpoint
            | Input::EndpointElsewhere
            | Input::Message
            | Input::Refused
            | Input::Ended
            | Input::Broke
            | Input::Unreached
            | Input::Lost => R::ignore(state),
        },
        State::Connecting => match input {
            Input::Endpoint => R::advance(State::Ready, &[ReportOpened]),
            Input::EndpointElsewhere => R::advance(State::Known, &[ReportViolation]),
            // The server has another transport on this connection.
            Input::Message => R::advance(State::Streamable, &[Drop, ReportClosed]),
            Input::Refused => R::advance(State::Streamable, &[ReportClosed]),
            Input::Ended | Input::Broke => R::advance(State::Known, &[ReportClosed]),
            Input::Unreached => R::advance(State::Known, &[ReportUnreached]),
            Input::Lost => R::advance(State::Known, &[]),
            Input::Connect | Input::RefusedAsSse => R::ignore(state),
        },
        State::Ready => match input {
            Input::RefusedAsSse => R::advance(state, &[Refuse]),
            Input::EndpointElsewhere => R::advance(State::Known, &[ReportViolation]),
            Input::Message => R::advance(state, &[Deliver]),
            Input::Ended | Input::Broke => R::advance(State::Known, &[ReportClosed]),
            Input::Lost => R::advance(State::Known, &[]),
            // Messages go to the new endpoint from now on.
            Input::Endpoint => R::advance(state, &[]),
            Input::Connect | Input::Refused | Input::Unreached => R::ignore(state),
        },
    }
}

/// Whether responses come by the HTTP+SSE stream, not in the exchange of their request.
pub(crate) const fn is_sse(state: State) -> bool {
    match state {
        State::Ready => true,
        State::Streamable | State::Fallback | State::Absent | State::Known | State::Connecting => false,
    }
}

#[cfg(feature = "http")]
super::recorded!("http_sse");
