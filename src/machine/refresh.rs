//! How a family's list is kept up to date after discovery: changes are debounced, and refreshes never overlap.

use super::resend::Used;
use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the refresh of a family. A change that the server announces counts in loop detection; `Wanted` is a
    /// refresh without one: the embedder or the engine needs the list, or it may have changed unnoticed.
    State {
        /// The list is up to date.
        Idle,
        /// The list changed, and is requested when the timer fires.
        Due,
        /// As `Due`, and no change was announced.
        DueWanted,
        /// The list is being received.
        Refreshing,
        /// The list is being received, and changed again meanwhile.
        RefreshingStale,
        /// The list is being received, and is needed again, although no other change was announced.
        RefreshingWantedNext,
        /// The list is being received, and no change was announced.
        Wanted,
        /// As `Wanted`, and the list changed meanwhile.
        WantedStale,
        /// As `Wanted`, and the list is needed again.
        WantedNext,
    }
}

alphabet! {
    /// What happens to a refresh.
    Input {
        /// The server announced a change of the list.
        ListChanged,
        /// The list may have changed unnoticed.
        Outdated,
        /// The embedder or the engine needs the list.
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
pub(crate) enum Effect {
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
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, Request};
    match state {
        State::Idle => match input {
            Input::ListChanged => R::advance(State::Due, &[Arm]),
            Input::Outdated => R::advance(State::DueWanted, &[Arm]),
            Input::Wanted => R::advance(State::Wanted, &[Request]),
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
            | Input::Outdated
            | Input::Differs
            | Input::Same
            | Input::SameAnnounced
            | Input::SameAgain
            | Input::Part
            | Input::Failed => R::ignore(state),
        },
        State::DueWanted => match input {
            Input::ListChanged => R::advance(State::Due, &[]),
            Input::Timer | Input::Wanted => R::advance(State::Wanted, &[Request]),
            Input::Reset => R::advance(State::Idle, &[]),
            Input::Outdated
            | Input::Differs
            | Input::Same
            | Input::SameAnnounced
            | Input::SameAgain
            | Input::Part
            | Input::Failed => R::ignore(state),
        },
        State::Refreshing => {
            let changes = Changes {
                announced: R::advance(State::RefreshingStale, &[]),
                wanted: R::advance(State::RefreshingWantedNext, &[]),
            };
            announced(state, input, LAST, State::Due, changes)
        }
        State::RefreshingStale => announced(state, input, AGAIN, State::Due, unaffected(state)),
        State::RefreshingWantedNext => {
            let changes = Changes { announced: R::advance(State::RefreshingStale, &[]), wanted: R::ignore(state) };
            announced(state, input, AGAIN_WANTED, State::Due, changes)
        }
        State::Wanted => {
            let changes =
                Changes { announced: R::advance(State::WantedStale, &[]), wanted: R::advance(State::WantedNext, &[]) };
            wanted(state, input, LAST, State::DueWanted, changes)
        }
        State::WantedStale => wanted(state, input, AGAIN, State::Due, unaffected(state)),
        State::WantedNext => {
            let changes = Changes { announced: R::advance(State::WantedStale, &[]), wanted: R::ignore(state) };
            wanted(state, input, AGAIN_WANTED, State::DueWanted, changes)
        }
    }
}

/// The state after a list that was received, and the effects.
#[derive(Clone, Copy)]
struct Ends {
    next: State,
    differs: &'static [Effect],
    same: &'static [Effect],
    same_announced: &'static [Effect],
    same_again: &'static [Effect],
    part: &'static [Effect],
}

/// The list is not needed again.
const LAST: Ends = Ends {
    next: State::Idle,
    differs: &[Effect::Commit, Effect::Steady],
    same: &[Effect::Commit],
    same_announced: &[Effect::Commit, Effect::Count],
    same_again: &[Effect::Commit, Effect::Count, Effect::Slow],
    part: &[Effect::CommitPart, Effect::Steady],
};

/// The list changed meanwhile, and is requested again.
const AGAIN: Ends = Ends {
    next: State::Due,
    differs: &[Effect::Commit, Effect::Steady, Effect::Arm],
    same: &[Effect::Commit, Effect::Arm],
    same_announced: &[Effect::Commit, Effect::Count, Effect::Arm],
    same_again: &[Effect::Commit, Effect::Count, Effect::Slow, Effect::Arm],
    part: &[Effect::CommitPart, Effect::Steady, Effect::Arm],
};

/// The list is requested again, and no change was announced.
const AGAIN_WANTED: Ends = Ends { next: State::DueWanted, ..AGAIN };

/// The rows for another need of a list that is being received.
#[derive(Clone, Copy)]
struct Changes {
    announced: R,
    wanted: R,
}

/// The list is requested again in any case.
const fn unaffected(state: State) -> Changes {
    Changes { announced: R::ignore(state), wanted: R::ignore(state) }
}

/// A list is being received because the server announced a change.
const fn announced(state: State, input: Input, ends: Ends, failed: State, changes: Changes) -> R {
    match input {
        Input::SameAnnounced => R::advance(ends.next, ends.same_announced),
        Input::SameAgain => R::quirk(QuirkKind::ListChangedLoop, ends.next, ends.same_again),
        Input::Same
        | Input::ListChanged
        | Input::Outdated
        | Input::Wanted
        | Input::Timer
        | Input::Differs
        | Input::Part
        | Input::Failed
        | Input::Reset => receiving(state, input, ends, failed, changes),
    }
}

/// A list is being received, and no change was announced.
const fn wanted(state: State, input: Input, ends: Ends, failed: State, changes: Changes) -> R {
    match input {
        Input::Same => R::advance(ends.next, ends.same),
        Input::SameAnnounced
        | Input::SameAgain
        | Input::ListChanged
        | Input::Outdated
        | Input::Wanted
        | Input::Timer
        | Input::Differs
        | Input::Part
        | Input::Failed
        | Input::Reset => receiving(state, input, ends, failed, changes),
    }
}

const fn receiving(state: State, input: Input, ends: Ends, failed: State, changes: Changes) -> R {
    match input {
        Input::Differs => R::advance(ends.next, ends.differs),
        Input::Part => R::advance(ends.next, ends.part),
        Input::Failed => R::advance(failed, &[Effect::Drop, Effect::ArmRetry]),
        Input::ListChanged => changes.announced,
        Input::Outdated | Input::Wanted => changes.wanted,
        Input::Reset => R::advance(State::Idle, &[]),
        Input::Timer | Input::Same | Input::SameAnnounced | Input::SameAgain => R::ignore(state),
    }
}

recorded!("refresh");

alphabet! {
    /// The table that the end of a list is an input of.
    Owner {
        /// The [`discovery`](super::discovery) table.
        Discovery,
        /// This one.
        Refresh,
    }
}

/// The table that the end of a list is an input of.
pub(crate) const fn owner(state: State) -> Owner {
    match state {
        State::Idle => Owner::Discovery,
        State::Due
        | State::DueWanted
        | State::Refreshing
        | State::RefreshingStale
        | State::RefreshingWantedNext
        | State::Wanted
        | State::WantedStale
        | State::WantedNext => Owner::Refresh,
    }
}

/// [`owner`], recorded with the feature `rows`.
pub(crate) fn take_owner(state: State) -> Owner {
    #[cfg(feature = "rows")]
    super::rows::taken("refresh::owner", &[&state]);
    owner(state)
}

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
        /// No change was announced.
        Wanted,
    }
}

impl State {
    /// Why the list was requested that is being received; without one, it has no meaning.
    pub(crate) const fn cause(self) -> Cause {
        match self {
            Self::Idle | Self::Due | Self::Refreshing | Self::RefreshingStale | Self::RefreshingWantedNext => {
                Cause::Announced
            }
            Self::DueWanted | Self::Wanted | Self::WantedStale | Self::WantedNext => Cause::Wanted,
        }
    }
}

/// The input for a whole list that was received again, by the number of announced changes in a row that were none.
pub(crate) const fn compared(found: Found, cause: Cause, unchanged: Used) -> Input {
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

/// [`compared`], recorded with the feature `rows`.
pub(crate) fn take_compared(found: Found, cause: Cause, unchanged: Used) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("refresh::compared", &[&found, &cause, &unchanged]);
    compared(found, cause, unchanged)
}
