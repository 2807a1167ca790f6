#![doc = "Whether calls go to a server in a hub: after several failures in a row none is made for some time."]
#![doc = ""]
#![doc = "What the end of a call says of the server is decided first:"]
#![doc = ""]
#![doc = include_str!("call_end.md")]
#![doc = ""]
#![doc = "Then whether calls go on:"]
#![doc = ""]
#![doc = include_str!("breaker.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Whether calls go through.
    State {
        /// They do.
        Closed,
        /// They do not, for now.
        Open,
        /// One may, to see.
        HalfOpen,
        /// One does, to see.
        Trying,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// A call is to be made.
        Call,
        /// The server answered a call, well or badly.
        Answered,
        /// A call failed, as not many before it did.
        Failed,
        /// A call failed, as too many before it did; or there is no connection, and none for some time.
        FailedAgain,
        /// A call ended, and it tells nothing of the server.
        Undecided,
        /// The cooldown is over.
        Cooled,
        /// The embedder, or a new connection, says that the server can be called again.
        Reset,
    }
}

alphabet! {
    /// How a call ended.
    End {
        /// The server answered, with a result or an error, or asks for input.
        Answered,
        /// There was no answer in time.
        TimedOut,
        /// The answer makes no sense, or the connection broke during the call.
        Failed,
        /// The call was not sent, or the host gave it up.
        NotSent,
    }
}

alphabet! {
    /// Whether the server was up when a call ended.
    Server {
        /// It was.
        Up,
        /// It was not: it may never have seen the call.
        NotUp,
    }
}

alphabet! {
    /// How many calls failed in a row, with the one at hand.
    Failures {
        /// Fewer than [`Breaker::failures`](crate::host::hub::Breaker::failures).
        Few,
        /// As many, or more.
        Many,
    }
}

/// What the end of a call says of the server.
pub const fn judge(end: End, server: Server, failures: Failures) -> Input {
    match end {
        End::Answered => Input::Answered,
        End::NotSent => Input::Undecided,
        End::TimedOut => match server {
            Server::NotUp => Input::Undecided,
            Server::Up => match failures {
                Failures::Few => Input::Failed,
                Failures::Many => Input::FailedAgain,
            },
        },
        End::Failed => match failures {
            Failures::Few => Input::Failed,
            Failures::Many => Input::FailedAgain,
        },
    }
}

/// [`judge`], recorded where rows are counted.
pub(crate) fn take_end(end: End, server: Server, failures: Failures) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("call_end", &[&end, &server, &failures]);
    judge(end, server, failures)
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Count the failure.
    Count,
    /// Forget the failures.
    Clear,
    /// Start the cooldown.
    Rest,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Clear, Count, Rest};
    match state {
        State::Closed => match input {
            Input::Call => R::advance(state, &[]),
            Input::Answered | Input::Reset => R::advance(state, &[Clear]),
            Input::Failed => R::advance(state, &[Count]),
            Input::FailedAgain => R::advance(State::Open, &[Rest]),
            Input::Undecided | Input::Cooled => R::ignore(state),
        },
        State::Open => match input {
            Input::Call => R::reject(state),
            // A call that was made before is answered after all.
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Cooled => R::advance(State::HalfOpen, &[]),
            Input::Failed | Input::FailedAgain | Input::Undecided => R::ignore(state),
        },
        State::HalfOpen => match input {
            Input::Call => R::advance(State::Trying, &[]),
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Failed | Input::FailedAgain => R::advance(State::Open, &[Rest]),
            Input::Undecided | Input::Cooled => R::ignore(state),
        },
        State::Trying => match input {
            Input::Call => R::reject(state),
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Failed | Input::FailedAgain => R::advance(State::Open, &[Rest]),
            Input::Undecided => R::advance(State::HalfOpen, &[]),
            Input::Cooled => R::ignore(state),
        },
    }
}

recorded!("breaker");
