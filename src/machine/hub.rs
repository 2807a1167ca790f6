//! A hub as a whole: whether it is open, whether servers are starting, and whether the required servers were up.

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of a hub.
    State {
        /// It is not open, and no server is starting.
        New,
        /// It is not open; a server that the embedder started by name is starting.
        NewStarting,
        /// It is open, servers are starting, and not all required servers were up.
        Starting,
        /// It is open, servers are starting, and all required servers were up.
        ReadyStarting,
        /// It is open, no server is starting, and not all required servers were up.
        Incomplete,
        /// It is open, no server is starting, and all required servers were up.
        Ready,
        /// The sessions are being closed.
        Closing,
        /// Every session is closed.
        Closed,
    }
}

alphabet! {
    /// What happens to a hub.
    Input {
        /// The embedder gives a command.
        Command,
        /// The embedder opens the hub.
        Open,
        /// The embedder closes the hub.
        Close,
        /// A server is added, or its entry is replaced.
        Admitted,
        /// A server is queued to start.
        Wanted,
        /// Every required server is up, or has a saved list.
        Complete,
        /// No server is starting or queued to start.
        Settled,
        /// The functions of a server for the model changed.
        Changed,
        /// The last session is closed.
        Gone,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start the servers that have no saved list.
    Start,
    /// Start the server.
    StartServer,
    /// Close every session.
    Close,
    /// Report that the hub is ready.
    ReportReady,
    /// Report that no server is starting.
    ReportSettled,
    /// Report the change.
    ReportChanged,
    /// Drop the data of sessions.
    Clear,
    /// Report that the hub is closed.
    ReportClosed,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Clear, Close, ReportChanged, ReportClosed, ReportReady, ReportSettled, Start, StartServer};
    match state {
        State::New => match input {
            Input::Command => R::advance(state, &[]),
            Input::Open => R::advance(State::Starting, &[Start]),
            Input::Close => R::advance(State::Closing, &[Close]),
            Input::Wanted => R::advance(State::NewStarting, &[]),
            Input::Changed => R::advance(state, &[ReportChanged]),
            Input::Admitted | Input::Complete | Input::Settled | Input::Gone => R::ignore(state),
        },
        State::NewStarting => match input {
            Input::Command => R::advance(state, &[]),
            Input::Open => R::advance(State::Starting, &[Start]),
            Input::Close => R::advance(State::Closing, &[Close]),
            Input::Settled => R::advance(State::New, &[ReportSettled]),
            Input::Changed => R::advance(state, &[ReportChanged]),
            Input::Admitted | Input::Wanted | Input::Complete | Input::Gone => R::ignore(state),
        },
        State::Starting => match input {
            Input::Command => R::advance(state, &[]),
            Input::Open => R::reject(state),
            Input::Close => R::advance(State::Closing, &[Close]),
            Input::Admitted => R::advance(state, &[StartServer]),
            Input::Complete => R::advance(State::ReadyStarting, &[ReportReady]),
            Input::Settled => R::advance(State::Incomplete, &[ReportSettled]),
            Input::Changed => R::advance(state, &[ReportChanged]),
            Input::Wanted | Input::Gone => R::ignore(state),
        },
        State::ReadyStarting => match input {
            Input::Command => R::advance(state, &[]),
            Input::Open => R::reject(state),
            Input::Close => R::advance(State::Closing, &[Close]),
            Input::Admitted => R::advance(state, &[StartServer]),
            Input::Settled => R::advance(State::Ready, &[ReportSettled]),
            Input::Changed => R::advance(state, &[ReportChanged]),
            Input::Wanted | Input::Complete | Input::Gone => R::ignore(state),
        },
        State::Incomplete => match input {
            Input::Command => R::advance(state, &[]),
            Input::Open => R::reject(state),
            Input::Close => R::advance(State::Closing, &[Close]),
            Input::Admitted => R::advance(state, &[StartServer]),
            Input::Wanted => R::advance(State::Starting, &[]),
            Input::Complete => R::advance(State::Ready, &[ReportReady]),
            Input::Changed => R::advance(state, &[ReportChanged]),
            Input::Settled | Input::Gone => R::ignore(state),
        },
        State::Ready => match input {
            Input::Command => R::advance(state, &[]),
            Input::Open => R::reject(state),
            Input::Close => R::advance(State::Closing, &[Close]),
            Input::Admitted => R::advance(state, &[StartServer]),
            Input::Wanted => R::advance(State::ReadyStarting, &[]),
            Input::Changed => R::advance(state, &[ReportChanged]),
            Input::Complete | Input::Settled | Input::Gone => R::ignore(state),
        },
        State::Closing => match input {
            Input::Command => R::reject(state),
            Input::Gone => R::advance(State::Closed, &[Clear, ReportClosed]),
            Input::Open
            | Input::Close
            | Input::Admitted
            | Input::Wanted
            | Input::Complete
            | Input::Settled
            | Input::Changed => R::ignore(state),
        },
        State::Closed => match input {
            Input::Command => R::reject(state),
            Input::Open
            | Input::Close
            | Input::Admitted
            | Input::Wanted
            | Input::Complete
            | Input::Settled
            | Input::Changed
            | Input::Gone => R::ignore(state),
        },
    }
}

recorded!("hub");
