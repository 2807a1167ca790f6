#![doc = "How a family's list, once discovered, is kept true: changes are gathered, walks never overlap."]
#![doc = ""]
#![doc = include_str!("refresh.md")]

use super::{QuirkKind, Row, alphabet};

alphabet! {
    /// Where the refresh of a family stands.
    State {
        /// The list is as the server last said.
        Idle,
        /// It changed, and will be asked when the timer fires.
        Due,
        /// Its pages are coming.
        Walking,
        /// Its pages are coming, and it changed again in between.
        WalkingStale,
    }
}

alphabet! {
    /// What happens to a refresh.
    Input {
        /// The list is another now.
        ListChanged,
        /// The embedder wants the list anew.
        Wanted,
        /// The wait is over.
        Timer,
        /// A page came, and names the next.
        More,
        /// The last page came, and the list is another than before.
        Last,
        /// The last page came, and the list is the one before.
        Same,
        /// As same, for the third time in a row or more.
        SameAgain,
        /// A page came that names a cursor seen before, and brought nothing new.
        LoopDone,
        /// A page came that names a cursor seen before, and brought something new.
        LoopCut,
        /// A page came that exceeds a bound.
        Limit,
        /// A cursor was refused, the first time.
        CursorRejected,
        /// An error.
        Failed,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Wait for more changes, and for the least interval between walks.
    Arm,
    /// Wait longer after each failure.
    ArmRetry,
    /// Ask for the first page.
    Ask,
    /// Ask for the next page.
    AskNext,
    /// Take what came as the family's whole list.
    Commit,
    /// Take what came as a part of the family's list.
    CommitPart,
    /// Wait longer between walks, since they bring nothing.
    Slow,
    /// Wait no longer than usual.
    Steady,
    /// Leave the walk, and keep the last good list.
    Drop,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, Ask, Commit, CommitPart, Slow, Steady};
    match state {
        State::Idle => match input {
            Input::ListChanged => R::advance(State::Due, &[Arm]),
            Input::Wanted => R::advance(State::Walking, &[Ask]),
            Input::Timer
            | Input::More
            | Input::Last
            | Input::Same
            | Input::SameAgain
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::Failed => R::ignore(state),
        },
        State::Due => match input {
            Input::Timer | Input::Wanted => R::advance(State::Walking, &[Ask]),
            Input::ListChanged
            | Input::More
            | Input::Last
            | Input::Same
            | Input::SameAgain
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::Failed => R::ignore(state),
        },
        State::Walking => walking(
            state,
            input,
            Ends {
                next: State::Idle,
                changed: &[Commit, Steady],
                same: &[Commit],
                same_again: &[Commit, Slow],
                part: &[CommitPart, Steady],
            },
        ),
        State::WalkingStale => walking(
            state,
            input,
            Ends {
                next: State::Due,
                changed: &[Commit, Steady, Arm],
                same: &[Commit, Arm],
                same_again: &[Commit, Slow, Arm],
                part: &[CommitPart, Steady, Arm],
            },
        ),
    }
}

/// What follows the end of a walk, after which the list is asked again or not.
#[derive(Clone, Copy)]
struct Ends {
    next: State,
    changed: &'static [Effect],
    same: &'static [Effect],
    same_again: &'static [Effect],
    part: &'static [Effect],
}

const fn walking(state: State, input: Input, ends: Ends) -> R {
    match input {
        Input::More => R::advance(state, &[Effect::AskNext]),
        Input::Last => R::advance(ends.next, ends.changed),
        Input::Same => R::advance(ends.next, ends.same),
        Input::SameAgain => R::quirk(QuirkKind::ListChangedLoop, ends.next, ends.same_again),
        Input::LoopDone => R::quirk(QuirkKind::CursorLoop, ends.next, ends.changed),
        Input::LoopCut => R::quirk(QuirkKind::CursorLoop, ends.next, ends.part),
        Input::Limit => R::quirk(QuirkKind::ListLimit, ends.next, ends.part),
        Input::CursorRejected => R::quirk(QuirkKind::CursorRejected, state, &[Effect::Ask]),
        Input::Failed => R::advance(State::Due, &[Effect::Drop, Effect::ArmRetry]),
        Input::ListChanged | Input::Wanted => R::advance(State::WalkingStale, &[]),
        Input::Timer => R::ignore(state),
    }
}
