#![doc = "The pages of one list (specification 2026-07-28, \"Pagination\"), in discovery and in refreshes alike."]
#![doc = ""]
#![doc = include_str!("paging.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// Which page is in flight.
    State {
        /// None.
        Idle,
        /// A page of the first attempt.
        Listing,
        /// A page of the second attempt, after the server refused a cursor of the first.
        Restarted,
    }
}

alphabet! {
    /// What happens to the list.
    Input {
        /// The list is wanted.
        Start,
        /// A page came, and names the next.
        More,
        /// A page came, and names none.
        Last,
        /// A page came that names a cursor seen before, and brought nothing new.
        RepeatedEmpty,
        /// A page came that names a cursor seen before, and brought something new.
        RepeatedNew,
        /// A page came that exceeds a bound.
        Limit,
        /// The server refused the cursor.
        CursorRefused,
        /// The list failed in any other way.
        Failed,
        /// The list is not wanted any more.
        Stop,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Request the first page; what came before is dropped.
    AskFirst,
    /// Request the next page.
    AskNext,
    /// The list is whole.
    EndWhole,
    /// The list is cut off; what came is its beginning.
    EndPart,
    /// The list failed.
    EndFailed,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    match state {
        State::Idle => match input {
            Input::Start => R::advance(State::Listing, &[Effect::AskFirst]),
            Input::More
            | Input::Last
            | Input::RepeatedEmpty
            | Input::RepeatedNew
            | Input::Limit
            | Input::CursorRefused
            | Input::Failed
            | Input::Stop => R::ignore(state),
        },
        State::Listing => match input {
            Input::CursorRefused => R::quirk(QuirkKind::CursorRejected, State::Restarted, &[Effect::AskFirst]),
            Input::Start
            | Input::More
            | Input::Last
            | Input::RepeatedEmpty
            | Input::RepeatedNew
            | Input::Limit
            | Input::Failed
            | Input::Stop => page(state, input),
        },
        State::Restarted => page(state, input),
    }
}

const fn page(state: State, input: Input) -> R {
    match input {
        Input::Start => R::ignore(state),
        Input::More => R::advance(state, &[Effect::AskNext]),
        Input::Last => R::advance(State::Idle, &[Effect::EndWhole]),
        Input::RepeatedEmpty => R::quirk(QuirkKind::CursorLoop, State::Idle, &[Effect::EndWhole]),
        // Cursors are opaque: one that comes again may still lead on.
        Input::RepeatedNew => R::quirk(QuirkKind::CursorLoop, state, &[Effect::AskNext]),
        Input::Limit => R::quirk(QuirkKind::ListLimit, State::Idle, &[Effect::EndPart]),
        Input::CursorRefused | Input::Failed => R::advance(State::Idle, &[Effect::EndFailed]),
        Input::Stop => R::advance(State::Idle, &[]),
    }
}

recorded!("paging");
