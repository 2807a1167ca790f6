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
        /// The wait is over.
        Timer,
        /// A page came, and names the next.
        More,
        /// The last page came.
        Last,
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
    /// Leave the walk, and keep the last good list.
    Drop,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arm, Ask, Commit, CommitPart};
    match state {
        State::Idle => match input {
            Input::ListChanged => R::advance(State::Due, &[Arm]),
            Input::Timer
            | Input::More
            | Input::Last
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::Failed => R::ignore(state),
        },
        State::Due => match input {
            Input::Timer => R::advance(State::Walking, &[Ask]),
            Input::ListChanged
            | Input::More
            | Input::Last
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::Failed => R::ignore(state),
        },
        State::Walking => walking(state, input, State::Idle, &[Commit], &[CommitPart]),
        State::WalkingStale => walking(state, input, State::Due, &[Commit, Arm], &[CommitPart, Arm]),
    }
}

/// The two kinds of walk differ in what follows their end.
const fn walking(state: State, input: Input, end: State, whole: &'static [Effect], part: &'static [Effect]) -> R {
    match input {
        Input::More => R::advance(state, &[Effect::AskNext]),
        Input::Last => R::advance(end, whole),
        Input::LoopDone => R::quirk(QuirkKind::CursorLoop, end, whole),
        Input::LoopCut => R::quirk(QuirkKind::CursorLoop, end, part),
        Input::Limit => R::quirk(QuirkKind::ListLimit, end, part),
        Input::CursorRejected => R::quirk(QuirkKind::CursorRejected, state, &[Effect::Ask]),
        Input::Failed => R::advance(State::Due, &[Effect::Drop, Effect::ArmRetry]),
        Input::ListChanged => R::advance(State::WalkingStale, &[]),
        Input::Timer => R::ignore(state),
    }
}
