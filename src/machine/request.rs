//! The life of a request: one that may have run is not sent again without permission, and each ends once.

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of a request.
    State {
        /// It is queued.
        Queued,
        /// It is encoded, and the embedder has not polled it yet.
        Written,
        /// The embedder polled it: it may have reached the server.
        Sent,
        /// The server requires input before it continues; nothing runs meanwhile.
        Waiting,
        /// The server refused it unprocessed because something is missing that can be provided: authorization, or
        /// headers.
        Blocked,
        /// The server runs it as a task, and no message about that is on its way.
        Running,
        /// It is over.
        Ended,
    }
}

alphabet! {
    /// What happens to a request.
    Input {
        /// It is encoded, because it may be sent now.
        Write,
        /// The embedder polls it.
        Hand,
        /// The server responded.
        Answered,
        /// The response is invalid, or requires input of an unknown kind.
        Invalid,
        /// The server requires input from the embedder.
        InputRequired,
        /// The server requires another attempt, with input that the engine has, or without input.
        RetryRequired,
        /// The embedder provides the input.
        InputGiven,
        /// The embedder provides input in which the user declines.
        InputDeclined,
        /// The embedder declines to provide what is missing: input, or authorization.
        Declined,
        /// The server refused it unprocessed, and what is missing can be provided.
        Refused,
        /// What was missing is there.
        Admitted,
        /// What was missing cannot be provided.
        Denied,
        /// The server refused it for now; it is encoded again, under a new id.
        Restarted,
        /// It did not reach the server.
        NotRun,
        /// The server refused it unprocessed, because its session expired.
        Expired,
        /// Its response says that the session expired; the request may have run, and may run twice.
        ExpiredReplayable,
        /// The embedder cancelled it.
        Cancelled,
        /// The engine does not need its response any more. It is a request of the engine.
        Withdrawn,
        /// Its deadline passed.
        TimedOut,
        /// The server lacks the capability that the request needs.
        NotAdvertised,
        /// Its response is lost, with its exchange or the connection; or the connection is lost before it was sent.
        Lost,
        /// Its response is lost, with its exchange or the connection; it was sent, and may run twice.
        LostReplayable,
        /// The connection is lost; a message about its task was sent, which may be repeated.
        LostTask,
        /// The server runs it as a task, and nothing is to be sent now.
        TaskRuns,
        /// A message about its task is to be sent.
        TaskSends,
        /// The client closes. For a request of the engine also: its connection ended.
        Closed,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Queue it again, in its old position.
    Requeue,
    /// Queue it again, under a new id.
    RequeueAnew,
    /// Count that it is sent again after a loss, for [`resend`](super::resend).
    CountLoss,
    /// Count that it is sent again for an expired session, for [`resend`](super::resend).
    CountExpiry,
    /// Report the required input to the embedder.
    AwaitInput,
    /// Block it until what is missing is provided, and count that, for [`resend`](super::resend).
    Block,
    /// Wait for its task, until the maximum time of the request.
    AwaitTask,
    /// Withdraw it before the embedder polls it.
    Retract,
    /// Send a cancellation to the server.
    Cancel,
    /// Drop its exchange over HTTP, without a cancellation.
    Drop,
    /// End it with the server's response.
    EndAnswered,
    /// End it, because the response is invalid.
    EndInvalid,
    /// End it with the server's requirement of input.
    EndInputRequired,
    /// End it with the server's refusal.
    EndRefused,
    /// End it as cancelled.
    EndCancelled,
    /// End it, because its deadline passed.
    EndTimedOut,
    /// End it unsent, because the server lacks a capability.
    EndNotAdvertised,
    /// End it; it is unsent since it was last queued, and [`resend::unsent`](super::resend::unsent) says whether it ran.
    EndUnsent,
    /// End it; whether it ran is unknown.
    EndUnknown,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        AwaitInput, AwaitTask, Block, Cancel, CountExpiry, CountLoss, Drop, EndAnswered, EndCancelled,
        EndInputRequired, EndInvalid, EndNotAdvertised, EndRefused, EndTimedOut, EndUnknown, EndUnsent, Requeue,
        RequeueAnew, Retract,
    };
    type R = Row<State, Effect>;
    match state {
        State::Queued => match input {
            Input::InputGiven | Input::Declined => R::reject(state),
            Input::Write => R::advance(State::Written, &[]),
            Input::NotAdvertised => R::advance(State::Ended, &[EndNotAdvertised]),
            Input::Cancelled | Input::Withdrawn => R::advance(State::Ended, &[EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[EndTimedOut]),
            Input::Closed => R::advance(State::Ended, &[EndUnsent]),
            Input::Lost => R::advance(state, &[Requeue]),
            Input::LostReplayable
            | Input::LostTask
            | Input::TaskRuns
            | Input::TaskSends
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputDeclined
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::Restarted
            | Input::NotRun
            | Input::Expired
            | Input::ExpiredReplayable => R::ignore(state),
        },
        State::Written => match input {
            Input::InputGiven | Input::Declined => R::reject(state),
            Input::Hand => R::advance(State::Sent, &[]),
            Input::Cancelled | Input::Withdrawn => R::advance(State::Ended, &[Retract, EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[Retract, EndTimedOut]),
            Input::Closed | Input::Denied => R::advance(State::Ended, &[Retract, EndUnsent]),
            Input::Lost => R::advance(State::Queued, &[Retract, Requeue]),
            Input::LostReplayable
            | Input::LostTask
            | Input::TaskRuns
            | Input::TaskSends
            | Input::Write
            | Input::NotAdvertised
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputDeclined
            | Input::Refused
            | Input::Admitted
            | Input::Restarted
            | Input::NotRun
            | Input::Expired
            | Input::ExpiredReplayable => R::ignore(state),
        },
        State::Sent => match input {
            Input::InputGiven | Input::Declined => R::reject(state),
            Input::Answered => R::advance(State::Ended, &[EndAnswered]),
            Input::Invalid => R::advance(State::Ended, &[EndInvalid]),
            Input::InputRequired => R::advance(State::Waiting, &[AwaitInput]),
            Input::RetryRequired | Input::NotRun => R::advance(State::Queued, &[RequeueAnew]),
            Input::Restarted => R::advance(State::Written, &[]),
            Input::Expired => R::advance(State::Queued, &[CountExpiry, RequeueAnew]),
            // It is sent again together with the others in flight that may run twice.
            Input::ExpiredReplayable => R::advance(state, &[CountExpiry]),
            Input::Refused => R::advance(State::Blocked, &[Block]),
            Input::Cancelled => R::advance(State::Ended, &[Cancel, EndCancelled]),
            Input::Withdrawn => R::advance(State::Ended, &[Drop, EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[Cancel, EndTimedOut]),
            Input::Lost | Input::Closed => R::advance(State::Ended, &[EndUnknown]),
            Input::LostReplayable => R::advance(State::Queued, &[CountLoss, RequeueAnew]),
            Input::LostTask | Input::TaskSends => R::advance(State::Queued, &[RequeueAnew]),
            Input::TaskRuns => R::advance(State::Running, &[AwaitTask]),
            Input::Write
            | Input::Hand
            | Input::NotAdvertised
            | Input::InputDeclined
            | Input::Admitted
            | Input::Denied => R::ignore(state),
        },
        State::Waiting => match input {
            Input::InputGiven => R::advance(State::Queued, &[RequeueAnew]),
            Input::InputDeclined | Input::Declined | Input::TimedOut | Input::Closed => {
                R::advance(State::Ended, &[EndInputRequired])
            }
            Input::Cancelled => R::advance(State::Ended, &[EndCancelled]),
            // Required input does not depend on the connection: its state is part of the retry.
            Input::Lost => R::advance(state, &[]),
            Input::LostReplayable
            | Input::LostTask
            | Input::TaskRuns
            | Input::TaskSends
            | Input::Withdrawn
            | Input::Write
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::Restarted
            | Input::NotRun
            | Input::Expired
            | Input::ExpiredReplayable
            | Input::NotAdvertised => R::ignore(state),
        },
        State::Blocked => match input {
            Input::InputGiven => R::reject(state),
            Input::Admitted => R::advance(State::Queued, &[RequeueAnew]),
            Input::Denied | Input::Declined | Input::TimedOut | Input::Closed => {
                R::advance(State::Ended, &[EndRefused])
            }
            Input::Cancelled => R::advance(State::Ended, &[EndCancelled]),
            // It did not run, so it can be sent on the next connection.
            Input::Lost => R::advance(state, &[]),
            Input::LostReplayable
            | Input::LostTask
            | Input::TaskRuns
            | Input::TaskSends
            | Input::Withdrawn
            | Input::Write
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputDeclined
            | Input::Refused
            | Input::Restarted
            | Input::NotRun
            | Input::Expired
            | Input::ExpiredReplayable
            | Input::NotAdvertised => R::ignore(state),
        },
        State::Running => match input {
            Input::InputGiven | Input::Declined => R::reject(state),
            Input::TaskRuns | Input::Lost => R::advance(state, &[]),
            Input::TaskSends => R::advance(State::Queued, &[RequeueAnew]),
            Input::InputRequired => R::advance(State::Waiting, &[AwaitInput]),
            Input::Answered => R::advance(State::Ended, &[EndAnswered]),
            Input::Invalid => R::advance(State::Ended, &[EndInvalid]),
            Input::Cancelled => R::advance(State::Ended, &[EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[EndTimedOut]),
            Input::Closed => R::advance(State::Ended, &[EndUnknown]),
            Input::LostReplayable
            | Input::LostTask
            | Input::Withdrawn
            | Input::Write
            | Input::Hand
            | Input::RetryRequired
            | Input::InputDeclined
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::Restarted
            | Input::NotRun
            | Input::Expired
            | Input::ExpiredReplayable
            | Input::NotAdvertised => R::ignore(state),
        },
        State::Ended => match input {
            Input::Write
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputGiven
            | Input::InputDeclined
            | Input::Declined
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::Restarted
            | Input::NotRun
            | Input::Expired
            | Input::ExpiredReplayable
            | Input::Cancelled
            | Input::Withdrawn
            | Input::TimedOut
            | Input::NotAdvertised
            | Input::Lost
            | Input::LostReplayable
            | Input::LostTask
            | Input::TaskRuns
            | Input::TaskSends
            | Input::Closed => R::ignore(state),
        },
    }
}

recorded!("request", refuses);
