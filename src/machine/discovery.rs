#![doc = "What becomes of one family of items on one connection (specification 2026-07-28, \"Pagination\")."]
#![doc = ""]
#![doc = include_str!("discovery.md")]

use super::{Row, alphabet, recorded};

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
        /// Its list may be requested.
        Advertised,
        /// Its list may not be requested.
        NotAdvertised,
        /// The whole list came.
        Whole,
        /// A bound or a guard ended the list; its beginning came.
        Part,
        /// The server has no such method, which is tolerated.
        Absent,
        /// The list failed, and the connection with it.
        ErrorFatal,
        /// The list failed; the pages that came are kept.
        ErrorRest,
        /// The list failed, and nothing is held of it.
        ErrorList,
        /// The list failed; the list of an earlier connection stays.
        ErrorStale,
        /// The list changed.
        ListChanged,
        /// A new connection begins.
        Reset,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Request the list.
    Ask,
    /// Take what came as the family's list.
    Commit,
    /// Drop what came.
    Drop,
    /// Hold no items of the family any more.
    Clear,
    /// Fail the connection, which cannot do without this list.
    Fail,
    /// Let the refresh decide when to request the list again.
    Refresh,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Ask, Clear, Commit, Drop, Fail, Refresh};
    match state {
        State::Unasked => match input {
            Input::Advertised => R::advance(State::Walking, &[Ask]),
            Input::NotAdvertised => R::advance(State::NotAdvertised, &[Clear]),
            Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale
            | Input::ListChanged
            | Input::Reset => R::ignore(state),
        },
        State::NotAdvertised => match input {
            Input::ListChanged => R::advance(State::Walking, &[Ask]),
            Input::Reset => R::advance(State::Unasked, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale => R::ignore(state),
        },
        State::Walking => walking(
            state,
            input,
            Ends {
                whole: R::advance(State::Listed, &[Commit]),
                part: R::advance(State::Partial, &[Commit]),
                fatal: R::advance(State::Failed, &[Drop, Fail]),
                rest: R::advance(State::Partial, &[Commit]),
                list: R::advance(State::Failed, &[Drop]),
                changed: R::advance(State::WalkingStale, &[]),
            },
        ),
        State::WalkingStale => walking(
            state,
            input,
            Ends {
                whole: R::advance(State::Following, &[Commit, Ask]),
                part: R::advance(State::Following, &[Commit, Ask]),
                fatal: R::advance(State::Failed, &[Drop, Fail]),
                rest: R::advance(State::Partial, &[Commit, Refresh]),
                list: R::advance(State::Failed, &[Drop, Refresh]),
                changed: R::ignore(state),
            },
        ),
        // The list before this one was taken already, so no error of this one costs anything.
        State::Following => walking(
            state,
            input,
            Ends {
                whole: R::advance(State::Listed, &[Commit]),
                part: R::advance(State::Partial, &[Commit]),
                fatal: R::advance(State::Listed, &[Drop, Refresh]),
                rest: R::advance(State::Listed, &[Drop, Refresh]),
                list: R::advance(State::Listed, &[Drop, Refresh]),
                changed: R::advance(State::FollowingStale, &[]),
            },
        ),
        // No third list, or a client of a server that changes its list all the time would never be ready: that is left
        // to the refresh.
        State::FollowingStale => walking(
            state,
            input,
            Ends {
                whole: R::advance(State::Listed, &[Commit, Refresh]),
                part: R::advance(State::Partial, &[Commit, Refresh]),
                fatal: R::advance(State::Listed, &[Drop, Refresh]),
                rest: R::advance(State::Listed, &[Drop, Refresh]),
                list: R::advance(State::Listed, &[Drop, Refresh]),
                changed: R::ignore(state),
            },
        ),
        State::Listed | State::Partial | State::Failed => match input {
            Input::ListChanged => R::advance(state, &[Refresh]),
            Input::Reset => R::advance(State::Unasked, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale => R::ignore(state),
        },
        // The method does not exist, so there is nothing to request again.
        State::Absent => match input {
            Input::Reset => R::advance(State::Unasked, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale
            | Input::ListChanged => R::ignore(state),
        },
    }
}

/// In what the states differ in which pages are in flight.
#[derive(Clone, Copy)]
struct Ends {
    whole: R,
    part: R,
    fatal: R,
    rest: R,
    list: R,
    changed: R,
}

const fn walking(state: State, input: Input, ends: Ends) -> R {
    match input {
        Input::Whole => ends.whole,
        Input::Part => ends.part,
        Input::Absent => R::advance(State::Absent, &[Effect::Drop, Effect::Clear]),
        Input::ErrorFatal => ends.fatal,
        Input::ErrorRest => ends.rest,
        Input::ErrorList => ends.list,
        Input::ErrorStale => R::advance(State::Listed, &[Effect::Drop, Effect::Refresh]),
        Input::ListChanged => ends.changed,
        Input::Reset => R::advance(State::Unasked, &[Effect::Drop]),
        Input::Advertised | Input::NotAdvertised => R::ignore(state),
    }
}

recorded!("discovery");
