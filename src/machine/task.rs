//! A call that the server runs as a task (specification of the extension `io.modelcontextprotocol/tasks`; 2025-11-25,
//! "Tasks"). How a tool is called in 2025-11-25: What the server's reports on a task are, and which of them the
//! embedder gets:

use super::{Row, alphabet, recorded};
use crate::protocol::Era;

alphabet! {
    /// The state of a task.
    State {
        /// The server has just created it.
        Created,
        /// The server works on it, and is polled.
        Working,
        /// The server said that it is over when it created it, and has to give the outcome.
        Done,
        /// The embedder is asked for input.
        Asking,
        /// The input is being sent.
        Updating,
        /// Its result is being requested, which 2025-11-25 has a request for.
        Fetching,
        /// It is over, or given up.
        Over,
    }
}

alphabet! {
    /// What happens to a task.
    Input {
        /// The server works on it.
        Working,
        /// It requires input from the embedder that was not required before.
        InputWanted,
        /// It requires input that was not required before, all of which the engine has.
        InputKnown,
        /// It requires input, and names none that was not required before, or none that matters in this state.
        InputPending,
        /// Its result has to be requested: it is over, or requires input (2025-11-25).
        ResultWaits,
        /// It is over, with its outcome.
        Outcome,
        /// It is over; the outcome was not sent with that.
        OverWithoutOutcome,
        /// The time to poll it.
        Due,
        /// The embedder gave the input.
        InputGiven,
        /// The server took the input.
        Updated,
        /// The server sent the result.
        Fetched,
        /// The server refused a request about it.
        Refused,
        /// What the server sent about it is invalid.
        Invalid,
        /// The exchange of a request about it broke, and the connection remains. The request may be repeated.
        Broken,
        /// The call ends without the server: it is cancelled, timed out, or its input is declined.
        Abandoned,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Poll it after its interval.
    Wait,
    /// Send `tasks/get`.
    Poll,
    /// Ask the embedder for input.
    Ask,
    /// Send `tasks/update`.
    Update,
    /// Send `tasks/result`.
    Fetch,
    /// Send `tasks/cancel`.
    Cancel,
    /// End the call with what the server sent.
    End,
    /// End the call, because what the server sent is invalid.
    EndInvalid,
    /// End the call, because a task that was over is not over any more.
    EndReopened,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Ask, Cancel, End, EndInvalid, EndReopened, Fetch, Poll, Update, Wait};
    type R = Row<State, Effect>;
    match state {
        State::Created => match input {
            Input::Working => R::advance(State::Working, &[Wait]),
            Input::InputPending => R::advance(State::Working, &[Poll]),
            Input::ResultWaits => R::advance(State::Fetching, &[Fetch]),
            Input::OverWithoutOutcome => R::advance(State::Done, &[Poll]),
            Input::InputWanted
            | Input::InputKnown
            | Input::Outcome
            | Input::Due
            | Input::InputGiven
            | Input::Updated
            | Input::Fetched
            | Input::Refused
            | Input::Invalid
            | Input::Broken
            | Input::Abandoned => R::ignore(state),
        },
        State::Working => match input {
            Input::Due => R::advance(state, &[Poll]),
            Input::Working | Input::InputPending | Input::Broken => R::advance(state, &[Wait]),
            Input::InputWanted => R::advance(State::Asking, &[Ask]),
            Input::InputKnown => R::advance(State::Updating, &[Update]),
            Input::ResultWaits => R::advance(State::Fetching, &[Fetch]),
            Input::Outcome | Input::Refused => R::advance(State::Over, &[End]),
            Input::Invalid => R::advance(State::Over, &[Cancel, EndInvalid]),
            Input::Abandoned => R::advance(State::Over, &[Cancel]),
            Input::OverWithoutOutcome | Input::InputGiven | Input::Updated | Input::Fetched => R::ignore(state),
        },
        State::Done => match input {
            Input::Outcome | Input::Refused => R::advance(State::Over, &[End]),
            Input::Invalid => R::advance(State::Over, &[EndInvalid]),
            Input::Working | Input::InputPending => R::advance(State::Over, &[Cancel, EndReopened]),
            Input::Broken => R::advance(state, &[Wait]),
            Input::Due => R::advance(state, &[Poll]),
            Input::Abandoned => R::advance(State::Over, &[]),
            Input::InputWanted
            | Input::InputKnown
            | Input::ResultWaits
            | Input::OverWithoutOutcome
            | Input::InputGiven
            | Input::Updated
            | Input::Fetched => R::ignore(state),
        },
        State::Asking => match input {
            Input::InputGiven => R::advance(State::Updating, &[Update]),
            Input::Abandoned => R::advance(State::Over, &[Cancel]),
            Input::Working
            | Input::InputWanted
            | Input::InputKnown
            | Input::InputPending
            | Input::ResultWaits
            | Input::Outcome
            | Input::OverWithoutOutcome
            | Input::Due
            | Input::Updated
            | Input::Fetched
            | Input::Refused
            | Input::Invalid
            | Input::Broken => R::ignore(state),
        },
        State::Updating => match input {
            Input::Updated => R::advance(State::Working, &[Wait]),
            Input::Broken => R::advance(state, &[Wait]),
            Input::Due => R::advance(state, &[Update]),
            Input::Refused => R::advance(State::Over, &[End]),
            Input::Abandoned => R::advance(State::Over, &[Cancel]),
            Input::Working
            | Input::InputWanted
            | Input::InputKnown
            | Input::InputPending
            | Input::ResultWaits
            | Input::Outcome
            | Input::OverWithoutOutcome
            | Input::InputGiven
            | Input::Fetched
            | Input::Invalid => R::ignore(state),
        },
        State::Fetching => match input {
            Input::Fetched | Input::Refused => R::advance(State::Over, &[End]),
            Input::Broken => R::advance(state, &[Wait]),
            Input::Due => R::advance(state, &[Fetch]),
            Input::Abandoned => R::advance(State::Over, &[Cancel]),
            Input::Working
            | Input::InputWanted
            | Input::InputKnown
            | Input::InputPending
            | Input::ResultWaits
            | Input::Outcome
            | Input::OverWithoutOutcome
            | Input::InputGiven
            | Input::Updated
            | Input::Invalid => R::ignore(state),
        },
        State::Over => match input {
            Input::Working
            | Input::InputWanted
            | Input::InputKnown
            | Input::InputPending
            | Input::ResultWaits
            | Input::Outcome
            | Input::OverWithoutOutcome
            | Input::Due
            | Input::InputGiven
            | Input::Updated
            | Input::Fetched
            | Input::Refused
            | Input::Invalid
            | Input::Broken
            | Input::Abandoned => R::ignore(state),
        },
    }
}

recorded!("task");

alphabet! {
    /// The status that the server reports.
    Status {
        /// The server works on the task.
        Working,
        /// It requires input.
        InputRequired,
        /// It is over, with a result.
        Completed,
        /// It is over, with an error.
        Failed,
        /// It is over, without an outcome.
        Cancelled,
    }
}

/// The input of the table when the server creates a task with a status. In 2025-11-25, a request has the outcome.
pub(crate) const fn created(era: Era, status: Status) -> Input {
    match status {
        Status::Working => Input::Working,
        Status::InputRequired => match era {
            Era::Legacy => Input::ResultWaits,
            Era::Modern => Input::InputPending,
        },
        Status::Completed | Status::Failed | Status::Cancelled => match era {
            Era::Legacy => Input::ResultWaits,
            Era::Modern => Input::OverWithoutOutcome,
        },
    }
}

alphabet! {
    /// What a status means that the server reports of a task that it created earlier.
    Meaning {
        /// The server works on it.
        Working,
        /// Its result has to be requested.
        ResultWaits,
        /// The inputs beside the status are required.
        Inputs,
        /// The result is beside the status.
        Result,
        /// The error is beside the status.
        Error,
        /// It was cancelled.
        Cancelled,
    }
}

/// What a status means that the server reports of a task that it created earlier.
pub(crate) const fn reported(era: Era, status: Status) -> Meaning {
    match status {
        Status::Working => Meaning::Working,
        Status::InputRequired => match era {
            Era::Legacy => Meaning::ResultWaits,
            Era::Modern => Meaning::Inputs,
        },
        Status::Completed => match era {
            Era::Legacy => Meaning::ResultWaits,
            Era::Modern => Meaning::Result,
        },
        Status::Failed => match era {
            Era::Legacy => Meaning::ResultWaits,
            Era::Modern => Meaning::Error,
        },
        Status::Cancelled => match era {
            Era::Legacy => Meaning::ResultWaits,
            Era::Modern => Meaning::Cancelled,
        },
    }
}

alphabet! {
    /// What is new in a report.
    News {
        /// The task.
        Created,
        /// Its status, or its message.
        Changed,
        /// Nothing.
        Nothing,
    }
}

alphabet! {
    /// Whether the embedder gets a report.
    Telling {
        /// It does.
        Tell,
        /// It does not.
        Omit,
    }
}

/// Whether the embedder gets a report. That a task is over is the end of the call.
pub(crate) const fn told(news: News, status: Status) -> Telling {
    match news {
        News::Created => Telling::Tell,
        News::Changed => match status {
            Status::Working | Status::InputRequired => Telling::Tell,
            Status::Completed | Status::Failed | Status::Cancelled => Telling::Omit,
        },
        News::Nothing => Telling::Omit,
    }
}

/// [`created`], recorded with the feature `rows`.
pub(crate) fn take_created(era: Era, status: Status) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("task::created", &[&era, &status]);
    created(era, status)
}

/// [`reported`], recorded with the feature `rows`.
pub(crate) fn take_reported(era: Era, status: Status) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("task::reported", &[&era, &status]);
    reported(era, status)
}

/// [`told`], recorded with the feature `rows`.
pub(crate) fn take_told(news: News, status: Status) -> Telling {
    #[cfg(feature = "rows")]
    super::rows::taken("task::told", &[&news, &status]);
    told(news, status)
}
