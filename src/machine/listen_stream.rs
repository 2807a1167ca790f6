#![doc = "The stream by which a modern server tells of changes (specification 2026-07-28, \"Subscriptions\"): asked for,"]
#![doc = "agreed to, asked for anew when other changes are of interest or when it broke."]
#![doc = ""]
#![doc = include_str!("listen_stream.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// Where the stream stands.
    State {
        /// There is none, and none is wanted.
        Idle,
        /// It was asked for.
        Asking,
        /// It was asked for, and now another one is wanted.
        AskingStale,
        /// The server agreed to it.
        Open,
        /// Another one was asked for, and the one before goes on until then.
        Changing,
        /// As changing, and now yet another one is wanted.
        ChangingStale,
        /// It broke, and will be asked for again.
        Waiting,
        /// The server has no such method.
        Refused,
    }
}

alphabet! {
    /// What happens to the stream.
    Input {
        /// There is something to be told of, or something else than before.
        Wanted,
        /// There is nothing to be told of any more.
        Unwanted,
        /// The server agreed to the stream that was asked for last.
        Agreed,
        /// The stream that the server had agreed to ended.
        Ended,
        /// The stream that was asked for last was refused, or ended before the server agreed to it.
        Failed,
        /// The server has no such method, though it declares what needs it.
        Unknown,
        /// The server has no such method, and never said that it had.
        Absent,
        /// The server did not say in time whether it agrees.
        Silent,
        /// The wait is over.
        Timer,
        /// The connection is gone.
        Lost,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask for a stream of what is wanted now.
    Ask,
    /// Give up the stream that was asked for.
    DropAsked,
    /// Give up the stream that the server had agreed to.
    DropOpen,
    /// Take the stream that was asked for as the one that goes on: what it tells of, the lists that may have
    /// changed before it did.
    Adopt,
    /// Nothing tells of changes now.
    Forget,
    /// Nothing tells of changes now; the stream that was asked for will.
    Await,
    /// Wait, longer each time.
    Arm,
    /// Wait no longer.
    Disarm,
}

type R = Row<State, Effect>;

/// Decides.
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
