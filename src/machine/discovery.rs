#![doc = "What becomes of one family of items on one connection (specification 2026-07-28, \"Pagination\")."]
#![doc = ""]
#![doc = include_str!("discovery.md")]

use super::{QuirkKind, Row, alphabet};

alphabet! {
    /// What is known of the family.
    State {
        /// Nothing: it was not asked yet.
        Unasked,
        /// The server did not declare it, and it is not asked.
        NotAdvertised,
        /// Its pages are coming.
        Walking,
        /// Its pages are coming, and `list_changed` came in between.
        WalkingStale,
        /// Its pages are coming once more, after `list_changed` in the first walk.
        Following,
        /// As following, and `list_changed` came again.
        FollowingStale,
        /// All of it is known.
        Listed,
        /// It was declared, yet the server has no such method.
        Absent,
        /// A guard or an error ended the walk; what came before is kept.
        Partial,
        /// The list failed, and nothing is kept.
        Failed,
    }
}

alphabet! {
    /// What happens to the family.
    Input {
        /// It is to be asked.
        Advertised,
        /// It is not to be asked.
        NotAdvertised,
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
        /// The method does not exist, which is tolerated.
        MethodNotFound,
        /// The method does not exist, by the text of another error, which is tolerated.
        MethodNotFoundText,
        /// An error that shows no fault: the family was not declared, or nothing is known of what was.
        Refused,
        /// An error that ends the session.
        ErrorFatal,
        /// An error that costs the rest of the list.
        ErrorKept,
        /// An error that costs the whole list.
        ErrorLost,
        /// An error that costs nothing: the list of an earlier walk stays.
        ErrorStale,
        /// The list is another now.
        ListChanged,
        /// The list is another now, of a family that was not declared, which is not honoured.
        ListChangedUndeclared,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask for the first page.
    Ask,
    /// Ask for the next page.
    AskNext,
    /// Take what came as the family's list.
    Commit,
    /// Leave the walk, and what it brought.
    Drop,
    /// The session cannot go on without this list.
    Fail,
    /// Let the refresh decide when to ask again.
    Refresh,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Ask, Commit, Drop, Fail, Refresh};
    match state {
        State::Unasked => match input {
            Input::Advertised => R::advance(State::Walking, &[Ask]),
            Input::NotAdvertised => R::advance(State::NotAdvertised, &[]),
            Input::ListChangedUndeclared => R::quirk(QuirkKind::UndeclaredListChanged, state, &[]),
            Input::More
            | Input::Last
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::MethodNotFound
            | Input::MethodNotFoundText
            | Input::Refused
            | Input::ErrorFatal
            | Input::ErrorKept
            | Input::ErrorLost
            | Input::ErrorStale
            | Input::ListChanged => R::ignore(state),
        },
        State::NotAdvertised => match input {
            Input::ListChanged => R::advance(State::Walking, &[Ask]),
            Input::ListChangedUndeclared => R::quirk(QuirkKind::UndeclaredListChanged, state, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::More
            | Input::Last
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::MethodNotFound
            | Input::MethodNotFoundText
            | Input::Refused
            | Input::ErrorFatal
            | Input::ErrorKept
            | Input::ErrorLost
            | Input::ErrorStale => R::ignore(state),
        },
        State::Walking => walking(
            state,
            input,
            Ends {
                listed: R::advance(State::Listed, &[Commit]),
                looped: R::quirk(QuirkKind::CursorLoop, State::Listed, &[Commit]),
                cut: R::quirk(QuirkKind::CursorLoop, State::Partial, &[Commit]),
                limited: R::quirk(QuirkKind::ListLimit, State::Partial, &[Commit]),
                fatal: R::advance(State::Failed, &[Drop, Fail]),
                kept: R::advance(State::Partial, &[Commit]),
                lost: R::advance(State::Failed, &[Drop]),
                changed: R::advance(State::WalkingStale, &[]),
            },
        ),
        State::WalkingStale => walking(
            state,
            input,
            Ends {
                listed: R::advance(State::Following, &[Commit, Ask]),
                looped: R::quirk(QuirkKind::CursorLoop, State::Following, &[Commit, Ask]),
                cut: R::quirk(QuirkKind::CursorLoop, State::Following, &[Commit, Ask]),
                limited: R::quirk(QuirkKind::ListLimit, State::Following, &[Commit, Ask]),
                fatal: R::advance(State::Failed, &[Drop, Fail]),
                kept: R::advance(State::Partial, &[Commit, Refresh]),
                lost: R::advance(State::Failed, &[Drop, Refresh]),
                changed: R::ignore(state),
            },
        ),
        // The walk before this one was taken already, so no error of this one costs anything.
        State::Following => walking(
            state,
            input,
            Ends {
                listed: R::advance(State::Listed, &[Commit]),
                looped: R::quirk(QuirkKind::CursorLoop, State::Listed, &[Commit]),
                cut: R::quirk(QuirkKind::CursorLoop, State::Partial, &[Commit]),
                limited: R::quirk(QuirkKind::ListLimit, State::Partial, &[Commit]),
                fatal: R::advance(State::Listed, &[Drop, Refresh]),
                kept: R::advance(State::Listed, &[Drop, Refresh]),
                lost: R::advance(State::Listed, &[Drop, Refresh]),
                changed: R::advance(State::FollowingStale, &[]),
            },
        ),
        // No third walk, or a server that changes its list all the time would never be ready: that is the refresh's.
        State::FollowingStale => walking(
            state,
            input,
            Ends {
                listed: R::advance(State::Listed, &[Commit, Refresh]),
                looped: R::quirk(QuirkKind::CursorLoop, State::Listed, &[Commit, Refresh]),
                cut: R::quirk(QuirkKind::CursorLoop, State::Partial, &[Commit, Refresh]),
                limited: R::quirk(QuirkKind::ListLimit, State::Partial, &[Commit, Refresh]),
                fatal: R::advance(State::Listed, &[Drop, Refresh]),
                kept: R::advance(State::Listed, &[Drop, Refresh]),
                lost: R::advance(State::Listed, &[Drop, Refresh]),
                changed: R::ignore(state),
            },
        ),
        State::Listed | State::Partial | State::Failed => match input {
            Input::ListChanged => R::advance(state, &[Refresh]),
            Input::ListChangedUndeclared => R::quirk(QuirkKind::UndeclaredListChanged, state, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::More
            | Input::Last
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::MethodNotFound
            | Input::MethodNotFoundText
            | Input::Refused
            | Input::ErrorFatal
            | Input::ErrorKept
            | Input::ErrorLost
            | Input::ErrorStale => R::ignore(state),
        },
        // The method does not exist, so there is nothing to ask again.
        State::Absent => match input {
            Input::ListChangedUndeclared => R::quirk(QuirkKind::UndeclaredListChanged, state, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::More
            | Input::Last
            | Input::LoopDone
            | Input::LoopCut
            | Input::Limit
            | Input::CursorRejected
            | Input::MethodNotFound
            | Input::MethodNotFoundText
            | Input::Refused
            | Input::ErrorFatal
            | Input::ErrorKept
            | Input::ErrorLost
            | Input::ErrorStale
            | Input::ListChanged => R::ignore(state),
        },
    }
}

/// In what the kinds of walk differ.
#[derive(Clone, Copy)]
struct Ends {
    listed: R,
    looped: R,
    cut: R,
    limited: R,
    fatal: R,
    kept: R,
    lost: R,
    changed: R,
}

const fn walking(state: State, input: Input, ends: Ends) -> R {
    match input {
        Input::More => R::advance(state, &[Effect::AskNext]),
        Input::Last => ends.listed,
        Input::LoopDone => ends.looped,
        Input::LoopCut => ends.cut,
        Input::Limit => ends.limited,
        Input::CursorRejected => R::quirk(QuirkKind::CursorRejected, state, &[Effect::Ask]),
        Input::MethodNotFound => R::quirk(QuirkKind::MethodNotFound, State::Absent, &[Effect::Drop]),
        Input::MethodNotFoundText => R::quirk(QuirkKind::MethodNotFoundText, State::Absent, &[Effect::Drop]),
        Input::Refused => R::advance(State::Absent, &[Effect::Drop]),
        Input::ErrorFatal => ends.fatal,
        Input::ErrorKept => ends.kept,
        Input::ErrorLost => ends.lost,
        Input::ErrorStale => R::advance(State::Listed, &[Effect::Drop, Effect::Refresh]),
        Input::ListChanged => ends.changed,
        Input::ListChangedUndeclared => R::quirk(QuirkKind::UndeclaredListChanged, state, &[]),
        Input::Advertised | Input::NotAdvertised => R::ignore(state),
    }
}
