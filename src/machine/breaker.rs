#![doc = "Whether a hub sends calls to a server: after several failures in a row, calls are refused for some time."]
#![doc = ""]
#![doc = "First, what the end of a call says about the server:"]
#![doc = ""]
#![doc = include_str!("call_end.md")]
#![doc = ""]
#![doc = "Then, whether calls are allowed:"]
#![doc = ""]
#![doc = include_str!("breaker.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Whether calls are allowed.
    State {
        /// Calls are allowed.
        Closed,
        /// Calls are refused until the cooldown ends.
        Open,
        /// The cooldown ended: one trial call is allowed.
        HalfOpen,
        /// A trial call is in flight; other calls are refused.
        Trying,
    }
}

alphabet! {
    /// What happens to the calls of a server.
    Input {
        /// A call is to be made.
        Call,
        /// The server answered a call, with a result or an error.
        Answered,
        /// A call failed, and fewer calls in a row failed than the limit.
        Failed,
        /// A call failed and reached the limit of failures in a row; or the client has no connection for a long time.
        FailedAgain,
        /// A call ended without a sign of whether the server works.
        Undecided,
        /// The cooldown is over.
        Cooled,
        /// The embedder, or a new connection, allows calls again.
        Reset,
    }
}

alphabet! {
    /// How a call ended.
    End {
        /// The server answered with a result or an error, or requires input.
        Answered,
        /// There was no response in time.
        TimedOut,
        /// The response is invalid, or the connection broke during the call.
        Failed,
        /// The call was not sent, or the embedder cancelled it.
        NotSent,
    }
}

alphabet! {
    /// Whether the server was up when a call ended.
    Server {
        /// The server was up.
        Up,
        /// The server was not up: the call may not have reached it.
        NotUp,
    }
}

alphabet! {
    /// How many calls failed in a row, this one included.
    Failures {
        /// Fewer than [`Breaker::failures`](crate::host::hub::Breaker::failures).
        Few,
        /// As many, or more.
        Many,
    }
}

/// What the end of a call says about the server.
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

/// [`judge`], recorded with the feature `rows`.
pub(crate) fn take_end(end: End, server: Server, failures: Failures) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("call_end", &[&end, &server, &failures]);
    judge(end, server, failures)
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Count the failure.
    Count,
    /// Forget the failures.
    Clear,
    /// Start the cooldown, during which calls are refused.
    StartCooldown,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Clear, Count, StartCooldown};
    match state {
        State::Closed => match input {
            Input::Call => R::advance(state, &[]),
            Input::Answered | Input::Reset => R::advance(state, &[Clear]),
            Input::Failed => R::advance(state, &[Count]),
            Input::FailedAgain => R::advance(State::Open, &[StartCooldown]),
            Input::Undecided | Input::Cooled => R::ignore(state),
        },
        State::Open => match input {
            Input::Call => R::reject(state),
            // A call that was made before the cooldown is answered.
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Cooled => R::advance(State::HalfOpen, &[]),
            Input::Failed | Input::FailedAgain | Input::Undecided => R::ignore(state),
        },
        State::HalfOpen => match input {
            Input::Call => R::advance(State::Trying, &[]),
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Failed | Input::FailedAgain => R::advance(State::Open, &[StartCooldown]),
            Input::Undecided | Input::Cooled => R::ignore(state),
        },
        State::Trying => match input {
            Input::Call => R::reject(state),
            Input::Answered | Input::Reset => R::advance(State::Closed, &[Clear]),
            Input::Failed | Input::FailedAgain => R::advance(State::Open, &[StartCooldown]),
            Input::Undecided => R::advance(State::HalfOpen, &[]),
            Input::Cooled => R::ignore(state),
        },
    }
}

recorded!("breaker", refuses);
