#![doc = "How a family's list is kept up to date after discovery: changes are debounced, and refreshes never overlap."]
#![doc = ""]
#![doc = include_str!("refresh.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the refresh of a family.
    State {
        /// The list is up to date.
        Idle,
        /// The list changed, and is requested when the timer fires.
        Due,
        /// The list is being received.
        Walking,
        /// The list is being received, and changed again meanwhile.
        WalkingStale,
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
        /// The whole list was received, and is the same as the known one.
        Same,
        /// As [`Same`](Self::Same), for the third time in a row or more.
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
    Ask,
    /// Make the received list the family's list.
    Commit,
    /// Make the received pages the family's list, which is partial.
    CommitPart,
    /// Double the interval between refreshes, because they find no change.
    Slow,
    /// Restore the usual interval between refreshes.
    Steady,
    /// Drop the received pages, and keep the last list.
    Drop,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, Ask, Commit, CommitPart, Slow, Steady};
    match state {
        State::Idle => match input {
            Input::ListChanged => R::advance(State::Due, &[Arm]),
            Input::Wanted => R::advance(State::Walking, &[Ask]),
            Input::Timer
            | Input::Differs
            | Input::Same
            | Input::SameAgain
            | Input::Part
            | Input::Failed
            | Input::Reset => R::ignore(state),
        },
        State::Due => match input {
            Input::Timer | Input::Wanted => R::advance(State::Walking, &[Ask]),
            Input::Reset => R::advance(State::Idle, &[]),
            Input::ListChanged | Input::Differs | Input::Same | Input::SameAgain | Input::Part | Input::Failed => {
                R::ignore(state)
            }
        },
        State::Walking => walking(
            input,
            Ends {
                next: State::Idle,
                differs: &[Commit, Steady],
                same: &[Commit],
                same_again: &[Commit, Slow],
                part: &[CommitPart, Steady],
            },
            R::ignore(state),
        ),
        State::WalkingStale => walking(
            input,
            Ends {
                next: State::Due,
                differs: &[Commit, Steady, Arm],
                same: &[Commit, Arm],
                same_again: &[Commit, Slow, Arm],
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
    same_again: &'static [Effect],
    part: &'static [Effect],
}

const fn walking(input: Input, ends: Ends, ignored: R) -> R {
    match input {
        Input::Differs => R::advance(ends.next, ends.differs),
        Input::Same => R::advance(ends.next, ends.same),
        Input::SameAgain => R::quirk(QuirkKind::ListChangedLoop, ends.next, ends.same_again),
        Input::Part => R::advance(ends.next, ends.part),
        Input::Failed => R::advance(State::Due, &[Effect::Drop, Effect::ArmRetry]),
        Input::ListChanged | Input::Wanted => R::advance(State::WalkingStale, &[]),
        Input::Reset => R::advance(State::Idle, &[]),
        Input::Timer => ignored,
    }
}

recorded!("refresh");
