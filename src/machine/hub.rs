#![doc = "A hub as a whole: whether it is open, whether its servers are starting, and whether the required ones were up."]
#![doc = ""]
#![doc = include_str!("hub.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Where a hub stands.
    State {
        /// It is not open, and no server is starting.
        New,
        /// It is not open; a server that was asked for by its name is starting.
        NewStarting,
        /// It is open, servers are starting, and a required one was not up yet.
        Starting,
        /// It is open, servers are starting, and the required ones were up.
        ReadyStarting,
        /// It is open, no server is starting, and a required one was not up yet.
        Incomplete,
        /// It is open, no server is starting, and the required ones were up.
        Ready,
        /// Its sessions are being closed.
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
        /// A server is configured that was not, or that has another entry.
        Admitted,
        /// A server waits to be started.
        Wanted,
        /// Every required server is up, or what was saved stands in for it.
        Complete,
        /// No server is starting or waits to be started.
        Settled,
        /// What a model may call of a server changed.
        Changed,
        /// The last server's session is closed.
        Gone,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Start the servers that nothing saved stands in for.
    Start,
    /// Start the server.
    StartServer,
    /// Close every server's session.
    Close,
    /// Report that the hub is ready.
    ReportReady,
    /// Report that no server is starting.
    ReportSettled,
    /// Report what changed.
    ReportChanged,
    /// Drop what is held for sessions.
    Clear,
    /// Report that the hub is closed.
    ReportClosed,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
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
