#![doc = "How a transport is shut: close its input, then terminate, then kill (specification 2026-07-28, \"stdio\", Shutdown)."]
#![doc = ""]
#![doc = include_str!("shutdown.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// How far the shutdown went.
    State {
        /// The transport is in use, or there is none.
        Up,
        /// Its input was closed.
        InputClosed,
        /// It was told to terminate.
        Terminated,
        /// It was killed.
        Killed,
        /// It is gone, or given up.
        Gone,
    }
}

alphabet! {
    /// What happens on the way.
    Input {
        /// It is to end.
        Shut,
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
        State::Up => match input {
            Input::Shut => R::advance(State::InputClosed, &[CloseInput, Arm]),
            Input::Exited | Input::Timer => R::ignore(state),
        },
        State::InputClosed => match input {
            Input::Exited => R::advance(State::Gone, &[Done]),
            Input::Timer => R::quirk(QuirkKind::NoExit, State::Terminated, &[Terminate, Arm]),
            Input::Shut => R::ignore(state),
        },
        State::Terminated => match input {
            Input::Exited => R::advance(State::Gone, &[Done]),
            Input::Timer => R::advance(State::Killed, &[Kill, Arm]),
            Input::Shut => R::ignore(state),
        },
        State::Killed => match input {
            Input::Exited | Input::Timer => R::advance(State::Gone, &[Done]),
            Input::Shut => R::ignore(state),
        },
        State::Gone => match input {
            Input::Shut | Input::Exited | Input::Timer => R::ignore(state),
        },
    }
}

recorded!("shutdown");
