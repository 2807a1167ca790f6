//! How a transport is shut down: close its input, then terminate, then kill (specification 2026-07-28, "stdio",
//! Shutdown).

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the shutdown.
    State {
        /// No shutdown is in progress.
        Idle,
        /// The transport's input is closed.
        InputClosed,
        /// As `InputClosed`, for a transport that did not open, or is not a process.
        Unopened,
        /// The process was asked to terminate.
        Terminated,
        /// The process was killed.
        Killed,
    }
}

alphabet! {
    /// What happens during the shutdown.
    Input {
        /// A transport is to be shut down.
        Shut,
        /// A transport that did not open, or is not a process, is to be shut down.
        ShutUnopened,
        /// The transport closed.
        Exited,
        /// The grace period is over.
        Timer,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Have the embedder close the transport's input.
    CloseInput,
    /// Have the embedder terminate the process.
    Terminate,
    /// Have the embedder kill the process.
    Kill,
    /// Start the grace period.
    Arm,
    /// The shutdown is done.
    Done,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, CloseInput, Done, Kill, Terminate};
    type R = Row<State, Effect>;
    match state {
        State::Idle => match input {
            Input::Shut => R::advance(State::InputClosed, &[CloseInput, Arm]),
            Input::ShutUnopened => R::advance(State::Unopened, &[CloseInput, Arm]),
            Input::Exited | Input::Timer => R::ignore(state),
        },
        State::InputClosed => match input {
            Input::Exited => R::advance(State::Idle, &[Done]),
            Input::Timer => R::quirk(QuirkKind::NoExit, State::Terminated, &[Terminate, Arm]),
            Input::Shut | Input::ShutUnopened => R::ignore(state),
        },
        State::Unopened => match input {
            Input::Exited => R::advance(State::Idle, &[Done]),
            Input::Timer => R::advance(State::Terminated, &[Terminate, Arm]),
            Input::Shut | Input::ShutUnopened => R::ignore(state),
        },
        State::Terminated => match input {
            Input::Exited => R::advance(State::Idle, &[Done]),
            Input::Timer => R::advance(State::Killed, &[Kill, Arm]),
            Input::Shut | Input::ShutUnopened => R::ignore(state),
        },
        State::Killed => match input {
            Input::Exited | Input::Timer => R::advance(State::Idle, &[Done]),
            Input::Shut | Input::ShutUnopened => R::ignore(state),
        },
    }
}

recorded!("shutdown");
