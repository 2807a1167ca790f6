#![doc = "The stream on which a modern server announces changes (specification 2026-07-28, \"Subscriptions\"): requested,"]
#![doc = "acknowledged, and requested again if it breaks or if other changes are subscribed to."]
#![doc = ""]
#![doc = include_str!("listen_stream.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the listen stream.
    State {
        /// There is no stream, and nothing to subscribe to.
        Idle,
        /// The stream was requested.
        Asking,
        /// The stream was requested, and a different one is needed by now.
        AskingStale,
        /// The server acknowledged the stream.
        Open,
        /// A new stream was requested; the acknowledged one continues until then.
        Changing,
        /// As `Changing`, and a different one is needed by now.
        ChangingStale,
        /// The stream broke; the wait before the next request.
        Waiting,
        /// The server does not have the method.
        Refused,
    }
}

alphabet! {
    /// What happens to the stream.
    Input {
        /// There is something to subscribe to, or something else than before.
        Wanted,
        /// There is nothing to subscribe to any more.
        Unwanted,
        /// The server acknowledged the stream that was requested last.
        Agreed,
        /// The acknowledged stream ended.
        Ended,
        /// The stream that was requested last was refused, or ended before it was acknowledged.
        Failed,
        /// The server does not have the method, although it declares a capability that requires it.
        Unknown,
        /// The server does not have the method, and declares no capability that requires it.
        Absent,
        /// The server did not acknowledge the stream in time.
        Silent,
        /// The wait is over.
        Timer,
        /// The connection is lost.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Request a stream for the current subscriptions.
    Ask,
    /// Cancel the requested stream.
    DropAsked,
    /// Cancel the acknowledged stream.
    DropOpen,
    /// Make the requested stream the current one. Lists that may have changed before it are requested again.
    Adopt,
    /// No stream announces changes now.
    Forget,
    /// No stream announces changes now; the requested one will.
    Await,
    /// Start the wait, which grows with each failure.
    Arm,
    /// Stop the wait.
    Disarm,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Adopt, Arm, Ask, Await, Disarm, DropAsked, DropOpen, Forget};
    match state {
        State::Idle => match input {
            Input::Wanted => R::advance(State::Asking, &[Ask]),
            Input::Unwanted
            | Input::Agreed
            | Input::Ended
            | Input::Failed
            | Input::Unknown
            | Input::Absent
            | Input::Silent
            | Input::Timer
            | Input::Lost => R::ignore(state),
        },
        State::Asking => match input {
            Input::Wanted => R::advance(State::AskingStale, &[]),
            Input::Unwanted => R::advance(State::Idle, &[DropAsked]),
            Input::Agreed => R::advance(State::Open, &[Adopt]),
            Input::Failed => R::advance(State::Waiting, &[Arm]),
            Input::Unknown => R::quirk(QuirkKind::MethodNotFound, State::Refused, &[]),
            Input::Absent => R::advance(State::Refused, &[]),
            Input::Silent => R::advance(State::Waiting, &[DropAsked, Arm]),
            Input::Lost => R::advance(State::Idle, &[]),
            Input::Ended | Input::Timer => R::ignore(state),
        },
        State::AskingStale => match input {
            Input::Unwanted => R::advance(State::Idle, &[DropAsked]),
            Input::Agreed => R::advance(State::Changing, &[Adopt, Ask]),
            Input::Failed => R::advance(State::Waiting, &[Arm]),
            Input::Unknown => R::quirk(QuirkKind::MethodNotFound, State::Refused, &[]),
            Input::Absent => R::advance(State::Refused, &[]),
            Input::Silent => R::advance(State::Waiting, &[DropAsked, Arm]),
            Input::Lost => R::advance(State::Idle, &[]),
            Input::Wanted | Input::Ended | Input::Timer => R::ignore(state),
        },
        State::Open => match input {
            Input::Wanted => R::advance(State::Changing, &[Ask]),
            Input::Unwanted => R::advance(State::Idle, &[DropOpen, Forget]),
            Input::Ended => R::advance(State::Waiting, &[Forget, Arm]),
            Input::Lost => R::advance(State::Idle, &[Forget]),
            Input::Agreed | Input::Failed | Input::Unknown | Input::Absent | Input::Silent | Input::Timer => {
                R::ignore(state)
            }
        },
        State::Changing => match input {
            Input::Wanted => R::advance(State::ChangingStale, &[]),
            Input::Unwanted => R::advance(State::Idle, &[DropAsked, DropOpen, Forget]),
            Input::Agreed => R::advance(State::Open, &[DropOpen, Adopt]),
            Input::Ended => R::advance(State::Asking, &[Await]),
            Input::Failed => R::advance(State::Waiting, &[DropOpen, Forget, Arm]),
            Input::Unknown => R::quirk(QuirkKind::MethodNotFound, State::Refused, &[DropOpen, Forget]),
            Input::Absent => R::advance(State::Refused, &[DropOpen, Forget]),
            Input::Silent => R::advance(State::Waiting, &[DropAsked, DropOpen, Forget, Arm]),
            Input::Lost => R::advance(State::Idle, &[Forget]),
            Input::Timer => R::ignore(state),
        },
        State::ChangingStale => match input {
            Input::Unwanted => R::advance(State::Idle, &[DropAsked, DropOpen, Forget]),
            Input::Agreed => R::advance(State::Changing, &[DropOpen, Adopt, Ask]),
            Input::Ended => R::advance(State::AskingStale, &[Await]),
            Input::Failed => R::advance(State::Waiting, &[DropOpen, Forget, Arm]),
            Input::Unknown => R::quirk(QuirkKind::MethodNotFound, State::Refused, &[DropOpen, Forget]),
            Input::Absent => R::advance(State::Refused, &[DropOpen, Forget]),
            Input::Silent => R::advance(State::Waiting, &[DropAsked, DropOpen, Forget, Arm]),
            Input::Lost => R::advance(State::Idle, &[Forget]),
            Input::Wanted | Input::Timer => R::ignore(state),
        },
        State::Waiting => match input {
            Input::Timer => R::advance(State::Asking, &[Ask]),
            Input::Unwanted | Input::Lost => R::advance(State::Idle, &[Disarm]),
            Input::Wanted
            | Input::Agreed
            | Input::Ended
            | Input::Failed
            | Input::Unknown
            | Input::Absent
            | Input::Silent => R::ignore(state),
        },
        State::Refused => match input {
            Input::Lost => R::advance(State::Idle, &[]),
            Input::Wanted
            | Input::Unwanted
            | Input::Agreed
            | Input::Ended
            | Input::Failed
            | Input::Unknown
            | Input::Absent
            | Input::Silent
            | Input::Timer => R::ignore(state),
        },
    }
}

recorded!("listen_stream");
