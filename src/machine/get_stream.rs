#![doc = "The stream that a legacy server may have for what it says unasked (specification 2025-11-25, \"Listening for"]
#![doc = "Messages from the Server\")."]
#![doc = ""]
#![doc = include_str!("get_stream.md")]

use super::{QuirkKind, Row, alphabet};

alphabet! {
    /// Where the stream stands.
    State {
        /// There is no session yet.
        Idle,
        /// It was asked for.
        Asking,
        /// It is there.
        Open,
        /// It broke, and will be asked for again.
        Waiting,
        /// The server has none.
        Refused,
    }
}

alphabet! {
    /// What happens to the stream.
    Input {
        /// There is a session.
        Start,
        /// The server gives it.
        Opened,
        /// The server says that it has none.
        NotOffered,
        /// The server refused it otherwise.
        Denied,
        /// The server does not know the session any more.
        Forgotten,
        /// It ended, or its exchange broke.
        Broke,
        /// The wait is over.
        Timer,
        /// The session is over, and with it all its exchanges and waits.
        Stop,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask for it.
    Get,
    /// Drop its exchange.
    Drop,
    /// Wait, as long as the server said.
    Arm,
    /// The session expired.
    Expire,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, Drop, Expire, Get};
    match state {
        State::Idle => match input {
            Input::Start => R::advance(State::Asking, &[Get]),
            Input::Opened
            | Input::NotOffered
            | Input::Denied
            | Input::Forgotten
            | Input::Broke
            | Input::Timer
            | Input::Stop => R::ignore(state),
        },
        State::Asking => match input {
            Input::Opened => R::advance(State::Open, &[]),
            Input::NotOffered => R::advance(State::Refused, &[]),
            Input::Denied => R::quirk(QuirkKind::GetRefused, State::Refused, &[]),
            Input::Forgotten => R::advance(State::Idle, &[Expire]),
            Input::Broke => R::advance(State::Waiting, &[Arm]),
            Input::Stop => R::advance(State::Idle, &[]),
            Input::Start | Input::Timer => R::ignore(state),
        },
        State::Open => match input {
            // What it brought turned out to be no stream.
            Input::Denied => R::quirk(QuirkKind::GetRefused, State::Refused, &[Drop]),
            Input::Broke => R::advance(State::Waiting, &[Arm]),
            Input::Stop => R::advance(State::Idle, &[]),
            Input::Start | Input::Opened | Input::NotOffered | Input::Forgotten | Input::Timer => R::ignore(state),
        },
        State::Waiting => match input {
            Input::Timer => R::advance(State::Asking, &[Get]),
            Input::Stop => R::advance(State::Idle, &[]),
            Input::Start | Input::Opened | Input::NotOffered | Input::Denied | Input::Forgotten | Input::Broke => {
                R::ignore(state)
            }
        },
        State::Refused => match input {
            Input::Stop => R::advance(State::Idle, &[]),
            Input::Start
            | Input::Opened
            | Input::NotOffered
            | Input::Denied
            | Input::Forgotten
            | Input::Broke
            | Input::Timer => R::ignore(state),
        },
    }
}

#[cfg(feature = "http")]
super::recorded!("get_stream");
