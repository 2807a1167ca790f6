#![doc = "How a family's list is kept up to date after discovery: changes are debounced, and refreshes never overlap."]
#![doc = ""]
#![doc = include_str!("refresh.md")]

use super::resend::Used;
use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the refresh of a family.
    State {
        /// The list is up to date.
        Idle,
        /// The list changed, and is requested when the timer fires.
        Due,
        /// The list is being received.
        Refreshing,
        /// The list is being received, and changed again meanwhile.
        RefreshingStale,
    }
}

alphabet! {
    /// What happens to a refresh.
    Input {
        /// The server announced a change of the list.
        ListChanged,
        /// The embedder requested a refresh.
        Wanted,
        /// The wait is over.
        Timer,
        /// The whole list was received, and differs from the known one.
        Differs,
        /// The whole list was received for the embedder or the engine, and is the same as the known one.
        Same,
        /// The whole list was received because the server announced a change, and is the same as the known one.
        SameAnnounced,
        /// As [`SameAnnounced`](Self::SameAnnounced), for the third time in a row or more.
        SameAgain,
        /// A limit ended the list; its beginning was received.
        Part,
        /// The list failed.
        Failed,
        /// A new connection begins.
        Reset,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Start the wait for more changes; it also keeps the minimum interval between refreshes.
    Arm,
    /// Start a wait that grows with each failure.
    ArmRetry,
    /// Request the list.
    Request,
    /// Make the received list the family's list.
    Commit,
    /// Make the received pages the family's list, which is partial.
    CommitPart,
    /// Count an announced change that was none.
    Count,
    /// Double the interval between refreshes, because they find no change.
    Slow,
    /// Restore the usual interval between refreshes, and the count of announced changes that were none.
    Steady,
    /// Drop the received pages, and keep the last list.
    Drop,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, Commit, CommitPart, Count, Request, Slow, Steady};
    match state {
        State::Idle => match input {
            Input::ListChanged => R::advance(State::Due, &[Arm]),
            Input::Wanted => R::advance(State::Refreshing, &[Request]),
            Input::Timer
            | Input::Differs
            | Input::Same
            | Input::SameAnnounced
            | Input::SameAgain
            | Input::Part
            | Input::Failed
            | Input::Reset => R::ignore(state),
        },
        State::Due => match input {
            Input::Timer | Input::Wanted => R::advance(State::Refreshing, &[Request]),
            Input::Reset => R::advance(State::Idle, &[]),
            Input::ListChanged
            | Input::Differs
            | Input::Same
            | Input::SameAnnounced
            | Input::SameAgain
            | Input::Part
            | Input::Failed => R::ignore(state),
        },
        State::Refreshing => refreshing(
            input,
            Ends {
                next: State::Idle,
                differs: &[Commit, Steady],
                same: &[Commit],
                same_announced: &[Commit, Count],
                same_again: &[Commit, Count, Slow],
                part: &[CommitPart, Steady],
            },
            R::ignore(state),
        ),
        State::RefreshingStale => refreshing(
            input,
            Ends {
                next: State::Due,
                differs: &[Commit, Steady, Arm],
                same: &[Commit, Arm],
                same_announced: &[Commit, Count, Arm],
                same_again: &[Commit, Count, Slow, Arm],
                part: &[CommitPart, Steady, Arm],
            },
            R::ignore(state),
        ),
    }
}

/// The rows for the end of a list, which is requested again or not.
#[derive(Clone, Copy)]
struct Ends {
    next: State,
    differs: &'static [Effect],
    same: &'static [Effect],
    same_announced: &'static [Effect],
    same_again: &'static [Effect],
    part: &'static [Effect],
}

const fn refreshing(input: Input, ends: Ends, ignored: R) -> R {
    match input {
        Input::Differs => R::advance(ends.next, ends.differs),
        Input::Same => R::advance(ends.next, ends.same),
        Input::SameAnnounced => R::advance(ends.next, ends.same_announced),
        Input::SameAgain => R::quirk(QuirkKind::ListChangedLoop, ends.next, ends.same_again),
        Input::Part => R::advance(ends.next, ends.part),
        Input::Failed => R::advance(State::Due, &[Effect::Drop, Effect::ArmRetry]),
        Input::ListChanged | Input::Wanted => R::advance(State::RefreshingStale, &[]),
        Input::Reset => R::advance(State::Idle, &[]),
        Input::Timer => ignored,
    }
}

recorded!("refresh");

alphabet! {
    /// Whether a list that was received again is the known one.
    Found {
        /// It differs.
        Differs,
        /// It is the same.
        Same,
    }
}

alphabet! {
    /// Why a list was requested again.
    Cause {
        /// The server announced a change.
        Announced,
        /// The embedder or the engine needs it.
        Wanted,
    }
}

/// The input for a whole list that was received again, by the number of announced changes in a row that were none.
#[doc = ""]
#[doc = include_str!("refresh_compared.md")]
pub const fn compared(found: Found, cause: Cause, unchanged: Used) -> Input {
    match found {
        Found::Differs => Input::Differs,
        Found::Same => match cause {
            Cause::Wanted => Input::Same,
            Cause::Announced => match unchanged {
                Used::Never | Used::Once => Input::SameAnnounced,
                Used::Twice | Used::Thrice => Input::SameAgain,
            },
        },
    }
}

alphabet! {
    /// Whether a listen stream announces changes of a list.
    Watch {
        /// It does from now on, and none did before.
        Begins,
        /// It does as the stream before it did, or does not.
        Unchanged,
    }
}

alphabet! {
    /// When a list was requested.
    Requested {
        /// It was received while no stream announced its changes.
        Unwatched,
        /// It is in flight, and was requested before the stream.
        Before,
        /// It was requested after the stream, or its changes were announced since.
        After,
    }
}

alphabet! {
    /// Whether a list may be older than the stream that announces its changes.
    Age {
        /// It may have changed unnoticed, and counts as changed.
        Unknown,
        /// Each change since was or will be announced.
        Known,
    }
}

/// Whether a list may have changed before a listen stream announces its changes.
#[doc = ""]
#[doc = include_str!("refresh_watched.md")]
pub const fn watched(watch: Watch, requested: Requested) -> Age {
    match watch {
        Watch::Unchanged => Age::Known,
        Watch::Begins => match requested {
            Requested::Unwatched | Requested::Before => Age::Unknown,
            Requested::After => Age::Known,
        },
    }
}

/// [`compared`], recorded with the feature `rows`.
pub(crate) fn take_compared(found: Found, cause: Cause, unchanged: Used) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("refresh::compared", &[&found, &cause, &unchanged]);
    compared(found, cause, unchanged)
}

/// [`watched`], recorded with the feature `rows`.
pub(crate) fn take_watched(watch: Watch, requested: Requested) -> Age {
    #[cfg(feature = "rows")]
    super::rows::taken("refresh::watched", &[&watch, &requested]);
    watched(watch, requested)
}
