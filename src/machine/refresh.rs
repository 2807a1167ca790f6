#![doc = "How a family's list, once discovered, is kept true: changes are gathered, walks never overlap."]
#![doc = ""]
#![doc = include_str!("refresh.md")]

use super::{QuirkKind, Row, alphabet, recorded};

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
        /// The whole list came, and differs from the one before.
        Differs,
        /// The whole list came, and is the one before.
        Same,
        /// As [`Same`](Self::Same), for the third time in a row or more.
        SameAgain,
        /// A bound or a guard ended the list; its beginning came.
        Part,
        /// The list failed.
        Failed,
        /// A new connection begins.
        Reset,
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
    /// Request the list.
    Ask,
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

/// What follows the end of a list, which is requested again or not.
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
