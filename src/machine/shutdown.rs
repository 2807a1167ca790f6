#![doc = "How a transport is shut down: close its input, then terminate, then kill (specification 2026-07-28, \"stdio\", Shutdown)."]
#![doc = ""]
#![doc = include_str!("shutdown.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// How far the shutdown went.
    State {
        /// None is under way.
        Idle,
        /// The transport's input was closed.
        InputClosed,
        /// As input closed, of a transport that did not open, or is no process.
        Unopened,
        /// It was told to terminate.
        Terminated,
        /// It was killed.
        Killed,
    }
}

alphabet! {
    /// What happens on the way.
    Input {
        /// The transport has to end.
        Shut,
        /// A transport that did not open, or is no process, has to end.
        ShutUnopened,
        /// It ended.
        Exited,
        /// The grace time is over.
        Timer,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask the embedder to close the transport's input.
    CloseInput,
    /// Ask for it to be terminated.
    Terminate,
    /// Ask for it to be killed.
    Kill,
    /// Wait for the grace time.
    Arm,
    /// It is over.
    Done,
}

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
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
