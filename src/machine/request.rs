#![doc = "What becomes of one request: nothing that may have run is sent again, and each ends once."]
#![doc = ""]
#![doc = include_str!("request.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// How far a request got.
    State {
        /// It waits to be sent.
        Queued,
        /// It was written, and the embedder did not take it yet.
        Written,
        /// The embedder took it: it may have reached the server.
        Sent,
        /// The server wants input before it goes on; nothing of it runs.
        Waiting,
        /// The server refused it unread, for want of something that can be had: a token, or headers.
        Blocked,
        /// It is over.
        Ended,
    }
}

alphabet! {
    /// What happens to a request.
    Input {
        /// It is its turn.
        Write,
        /// The embedder takes it.
        Hand,
        /// The server answered.
        Answered,
        /// The server's answer makes no sense, or asks for input that there is none of.
        Invalid,
        /// The server wants input of the embedder's.
        InputRequired,
        /// The server wants to be asked again, with input that the engine has, or with none.
        RetryRequired,
        /// The embedder gives the input.
        InputGiven,
        /// The embedder gives none, or not in time.
        InputDeclined,
        /// The server refused it unread: what it lacks can be had.
        Refused,
        /// What it lacked is there.
        Admitted,
        /// What it lacked is not to be had.
        Denied,
        /// The server refused it unread, for a reason that is over: a session that it forgot.
        NotRun,
        /// The embedder gives the request up.
        Cancelled,
        /// There was no answer in time.
        TimedOut,
        /// The server lacks the capability that it needs.
        NotAdvertised,
        /// The connection is lost.
        Lost,
        /// The connection is lost, and the request, which was sent, may run twice.
        LostReplayable,
        /// The session ends.
        Closed,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It waits again, in its old place.
    Requeue,
    /// It waits again, under a new id.
    RequeueAnew,
    /// Ask the embedder for input.
    AskInput,
    /// Wait for what it lacks.
    Bar,
    /// Take it back, before the embedder takes it.
    Retract,
    /// Tell the server that its answer is not wanted any more.
    Cancel,
    /// It ends with the server's answer.
    EndAnswered,
    /// It ends, since the answer makes no sense.
    EndInvalid,
    /// It ends with what the server wants to know.
    EndInputRequired,
    /// It ends with the server's refusal.
    EndRefused,
    /// It ends, given up.
    EndCancelled,
    /// It ends for want of time.
    EndTimedOut,
    /// It ends without being sent, since the server cannot do it.
    EndNotAdvertised,
    /// It ends without being sent.
    EndNotSent,
    /// It ends, and nobody knows whether it ran.
    EndUnknown,
}

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        AskInput, Bar, Cancel, EndAnswered, EndCancelled, EndInputRequired, EndInvalid, EndNotAdvertised, EndNotSent,
        EndRefused, EndTimedOut, EndUnknown, Requeue, RequeueAnew, Retract,
    };
    type R = Row<State, Effect>;
    match state {
        State::Queued => match input {
            Input::Write => R::advance(State::Written, &[]),
            Input::NotAdvertised => R::advance(State::Ended, &[EndNotAdvertised]),
            Input::Cancelled => R::advance(State::Ended, &[EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[EndTimedOut]),
            Input::Closed => R::advance(State::Ended, &[EndNotSent]),
            Input::Lost => R::advance(state, &[Requeue]),
            Input::LostReplayable
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputGiven
            | Input::InputDeclined
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::NotRun => R::ignore(state),
        },
        State::Written => match input {
            Input::Hand => R::advance(State::Sent, &[]),
            Input::Cancelled => R::advance(State::Ended, &[Retract, EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[Retract, EndTimedOut]),
            Input::Closed => R::advance(State::Ended, &[Retract, EndNotSent]),
            Input::Lost => R::advance(State::Queued, &[Retract, Requeue]),
            Input::LostReplayable
            | Input::Write
            | Input::NotAdvertised
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputGiven
            | Input::InputDeclined
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::NotRun => R::ignore(state),
        },
        State::Sent => match input {
            Input::Answered => R::advance(State::Ended, &[EndAnswered]),
            Input::Invalid => R::advance(State::Ended, &[EndInvalid]),
            Input::InputRequired => R::advance(State::Waiting, &[AskInput]),
            Input::RetryRequired | Input::NotRun => R::advance(State::Queued, &[RequeueAnew]),
            Input::Refused => R::advance(State::Blocked, &[Bar]),
            Input::Cancelled => R::advance(State::Ended, &[Cancel, EndCancelled]),
            Input::TimedOut => R::advance(State::Ended, &[Cancel, EndTimedOut]),
            Input::Lost | Input::Closed => R::advance(State::Ended, &[EndUnknown]),
            Input::LostReplayable => R::advance(State::Queued, &[RequeueAnew]),
            Input::Write
            | Input::Hand
            | Input::NotAdvertised
            | Input::InputGiven
            | Input::InputDeclined
            | Input::Admitted
            | Input::Denied => R::ignore(state),
        },
        State::Waiting => match input {
            Input::InputGiven => R::advance(State::Queued, &[RequeueAnew]),
            Input::InputDeclined | Input::TimedOut | Input::Closed => R::advance(State::Ended, &[EndInputRequired]),
            Input::Cancelled => R::advance(State::Ended, &[EndCancelled]),
            // What the server wants to know does not depend on the connection: its state travels with the retry.
            Input::Lost => R::advance(state, &[]),
            Input::LostReplayable
            | Input::Write
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::NotRun
            | Input::NotAdvertised => R::ignore(state),
        },
        State::Blocked => match input {
            Input::Admitted => R::advance(State::Queued, &[RequeueAnew]),
            Input::Denied | Input::TimedOut | Input::Closed => R::advance(State::Ended, &[EndRefused]),
            Input::Cancelled => R::advance(State::Ended, &[EndCancelled]),
            // It did not run, so the next connection may have it.
            Input::Lost => R::advance(state, &[]),
            Input::LostReplayable
            | Input::Write
            | Input::Hand
            | Input::Answered
            | Input::Invalid
            | Input::InputRequired
            | Input::RetryRequired
            | Input::InputGiven
            | Input::InputDeclined
            | Input::Refused
            | Input::NotRun
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
            | Input::Refused
            | Input::Admitted
            | Input::Denied
            | Input::NotRun
            | Input::Cancelled
            | Input::TimedOut
            | Input::NotAdvertised
            | Input::Lost
            | Input::LostReplayable
            | Input::Closed => R::ignore(state),
        },
    }
}

recorded!("request");
