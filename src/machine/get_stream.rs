//! The GET stream, on which a legacy server sends requests and notifications (specification 2025-11-25, "Streamable
//! HTTP", Listening for Messages from the Server).

use super::{QuirkKind, Row, alphabet};

alphabet! {
    /// The state of the stream.
    State {
        /// There is no session yet.
        Idle,
        /// The GET is in flight. The stream was never open in this session.
        Asking,
        /// The wait before the next GET. The stream was never open in this session.
        Waiting,
        /// The stream is open.
        Open,
        /// The wait before the next GET. The stream was open in this session.
        WaitingAgain,
        /// The GET is in flight. The stream was open in this session.
        AskingAgain,
        /// The server has no stream; it is not requested again in this session.
        Refused,
        /// The server refused the GET for lack of authorization, and the client obtains a token.
        AwaitingToken,
    }
}

alphabet! {
    /// What happens to the stream.
    Input {
        /// There is a session.
        Start,
        /// The GET is answered with a stream.
        Opened,
        /// The GET is answered 405, 401 or 403, and is not sent again with another token.
        NotOffered,
        /// The GET is answered 401, and the client obtains a token.
        Unauthorized,
        /// The GET is answered 404.
        NotFound,
        /// The GET is answered with another status, or with JSON.
        OtherAnswer,
        /// The GET is answered 501 or with a redirect that cannot be followed, or the body is no stream.
        NoStream,
        /// The GET is answered 429 or 5xx, or the exchange ended or broke.
        Broke,
        /// The wait is over.
        Timer,
        /// There is a token.
        Authorized,
        /// The session is over, and with it its exchanges and timers.
        Stop,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send the GET.
    Get,
    /// Drop its exchange.
    Drop,
    /// Start the wait before the next GET.
    Arm,
    /// Forget the last event and the wait that the server named: the next stream is another one.
    Reset,
    /// Count a refusal for lack of authorization, for [`resend`](super::resend).
    CountRefusal,
    /// Begin to count refusals anew.
    ClearRefusals,
    /// The session expired.
    Expire,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, ClearRefusals, CountRefusal, Drop, Expire, Get, Reset};
    type R = Row<State, Effect>;
    match state {
        State::Idle => match input {
            Input::Start => R::advance(State::Asking, &[Get]),
            Input::Opened
            | Input::NotOffered
            | Input::Unauthorized
            | Input::NotFound
            | Input::OtherAnswer
            | Input::NoStream
            | Input::Broke
            | Input::Timer
            | Input::Authorized
            | Input::Stop => R::ignore(state),
        },
        State::Asking => match input {
            Input::Opened => R::advance(State::Open, &[ClearRefusals]),
            Input::NotOffered => R::advance(State::Refused, &[Drop]),
            Input::Unauthorized => R::advance(State::AwaitingToken, &[Drop, CountRefusal]),
            Input::NotFound | Input::OtherAnswer | Input::NoStream => {
                R::quirk(QuirkKind::GetRefused, State::Refused, &[Drop])
            }
            Input::Broke => R::advance(State::Waiting, &[Drop, Arm]),
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start | Input::Timer | Input::Authorized => R::ignore(state),
        },
        State::Waiting => match input {
            Input::Timer => R::advance(State::Asking, &[Get]),
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start
            | Input::Opened
            | Input::NotOffered
            | Input::Unauthorized
            | Input::NotFound
            | Input::OtherAnswer
            | Input::NoStream
            | Input::Broke
            | Input::Authorized => R::ignore(state),
        },
        State::Open => match input {
            // The body turned out to be no stream.
            Input::NoStream => R::quirk(QuirkKind::GetRefused, State::Refused, &[Drop]),
            Input::Broke => R::advance(State::WaitingAgain, &[Drop, Arm]),
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start
            | Input::Opened
            | Input::NotOffered
            | Input::Unauthorized
            | Input::NotFound
            | Input::OtherAnswer
            | Input::Timer
            | Input::Authorized => R::ignore(state),
        },
        State::WaitingAgain => match input {
            Input::Timer => R::advance(State::AskingAgain, &[Get]),
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start
            | Input::Opened
            | Input::NotOffered
            | Input::Unauthorized
            | Input::NotFound
            | Input::OtherAnswer
            | Input::NoStream
            | Input::Broke
            | Input::Authorized => R::ignore(state),
        },
        State::AskingAgain => match input {
            Input::Opened => R::advance(State::Open, &[ClearRefusals]),
            Input::NotOffered => R::advance(State::Refused, &[Drop]),
            Input::Unauthorized => R::advance(State::AwaitingToken, &[Drop, CountRefusal]),
            Input::NoStream => R::quirk(QuirkKind::GetRefused, State::Refused, &[Drop]),
            // The server knew the session when the stream was open.
            Input::NotFound => R::advance(State::Idle, &[Drop, Reset, Expire]),
            Input::OtherAnswer | Input::Broke => R::advance(State::WaitingAgain, &[Drop, Arm]),
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start | Input::Timer | Input::Authorized => R::ignore(state),
        },
        State::Refused => match input {
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start
            | Input::Opened
            | Input::NotOffered
            | Input::Unauthorized
            | Input::NotFound
            | Input::OtherAnswer
            | Input::NoStream
            | Input::Broke
            | Input::Timer
            | Input::Authorized => R::ignore(state),
        },
        State::AwaitingToken => match input {
            Input::Authorized => R::advance(State::Asking, &[Reset, Get]),
            Input::Stop => R::advance(State::Idle, &[Reset]),
            Input::Start
            | Input::Opened
            | Input::NotOffered
            | Input::Unauthorized
            | Input::NotFound
            | Input::OtherAnswer
            | Input::NoStream
            | Input::Broke
            | Input::Timer => R::ignore(state),
        },
    }
}

#[cfg(feature = "http")]
super::recorded!("get_stream");
