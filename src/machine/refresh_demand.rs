//! A refresh that the embedder requests: it has one outcome, of a list that was requested after the command.

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of the embedder's requests to refresh a family.
    #[derive(Default)]
    State {
        /// There is none.
        #[default]
        None,
        /// The list will be requested.
        Wanted,
        /// The list is being received.
        Running,
        /// The list is being received, and will be requested again for a later command.
        RunningWanted,
    }
}

alphabet! {
    /// What happens to them.
    Input {
        /// The embedder requests a refresh.
        Want,
        /// The list is requested.
        Requested,
        /// The whole list was received, and is the same as the known one.
        Same,
        /// The whole list was received, and differs from the known one.
        Differs,
        /// A limit ended the list; its beginning was received.
        Part,
        /// The list failed.
        Failed,
        /// The connection ended.
        ConnectionEnded,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Report that the list is the same.
    ReportSame,
    /// Report that the list differs.
    ReportDiffers,
    /// Report that the list is partial.
    ReportPart,
    /// Report that the list failed.
    ReportFailed,
    /// Report that the connection ended first.
    ReportLost,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{ReportDiffers, ReportFailed, ReportLost, ReportPart, ReportSame};
    type R = Row<State, Effect>;
    match state {
        State::None => match input {
            Input::Want => R::advance(State::Wanted, &[]),
            Input::Requested | Input::Same | Input::Differs | Input::Part | Input::Failed | Input::ConnectionEnded => {
                R::ignore(state)
            }
        },
        // The list that is being received was requested before the command.
        State::Wanted => match input {
            Input::Requested => R::advance(State::Running, &[]),
            Input::ConnectionEnded => R::advance(State::None, &[ReportLost]),
            Input::Want | Input::Same | Input::Differs | Input::Part | Input::Failed => R::ignore(state),
        },
        State::Running => match input {
            Input::Want => R::advance(State::RunningWanted, &[]),
            Input::Same => R::advance(State::None, &[ReportSame]),
            Input::Differs => R::advance(State::None, &[ReportDiffers]),
            Input::Part => R::advance(State::None, &[ReportPart]),
            Input::Failed => R::advance(State::None, &[ReportFailed]),
            Input::ConnectionEnded => R::advance(State::None, &[ReportLost]),
            Input::Requested => R::ignore(state),
        },
        State::RunningWanted => match input {
            Input::Same => R::advance(State::Wanted, &[ReportSame]),
            Input::Differs => R::advance(State::Wanted, &[ReportDiffers]),
            Input::Part => R::advance(State::Wanted, &[ReportPart]),
            Input::Failed => R::advance(State::Wanted, &[ReportFailed]),
            Input::ConnectionEnded => R::advance(State::None, &[ReportLost]),
            Input::Want | Input::Requested => R::ignore(state),
        },
    }
}

recorded!("refresh_demand");

alphabet! {
    /// Whether an outcome of the same kind, for the same family, waits to be polled.
    Unpolled {
        /// None does.
        No,
        /// One does.
        Yes,
    }
}

alphabet! {
    /// What happens to an outcome.
    Report {
        /// It is reported.
        Tell,
        /// It is left out, so that a client that nobody polls does not hold an outcome for each refresh.
        LeaveOut,
    }
}

/// What happens to an outcome.
pub(crate) const fn report(unpolled: Unpolled) -> Report {
    match unpolled {
        Unpolled::No => Report::Tell,
        Unpolled::Yes => Report::LeaveOut,
    }
}

/// [`report`], recorded with the feature `rows`.
pub(crate) fn take_report(unpolled: Unpolled) -> Report {
    #[cfg(feature = "rows")]
    super::rows::taken("refresh_demand::report", &[&unpolled]);
    report(unpolled)
}
