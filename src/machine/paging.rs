//! The pages of one list (specification 2026-07-28, "Pagination"), in discovery and in a refresh.

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
        /// The list is requested.
        Start,
        /// A page was received that names the next one.
        More,
        /// The last page was received.
        Last,
        /// A page was received with an empty cursor that was received before, and without new items.
        EmptyCursor,
        /// A page was received with another repeated cursor, and without new items.
        RepeatedEmpty,
        /// A page was received with a repeated cursor and new items.
        RepeatedNew,
        /// A page was received that exceeds a limit.
        Limit,
        /// The server refused the cursor.
        CursorRefused,
        /// The list failed for another reason.
        Failed,
        /// The list is not needed any more.
        Stop,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Drop the received pages, and request the first one.
    RequestFirst,
    /// Request the next page.
    RequestNext,
    /// The whole list was received.
    EndWhole,
    /// The list ends here; its beginning was received.
    EndPart,
    /// The list failed.
    EndFailed,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    match state {
        State::Idle => match input {
            Input::Start => R::advance(State::Listing, &[Effect::RequestFirst]),
            Input::More
            | Input::Last
            | Input::EmptyCursor
            | Input::RepeatedEmpty
            | Input::RepeatedNew
            | Input::Limit
            | Input::CursorRefused
            | Input::Failed
            | Input::Stop => R::ignore(state),
        },
        State::Listing => match input {
            Input::CursorRefused => R::quirk(QuirkKind::CursorRejected, State::Restarted, &[Effect::RequestFirst]),
            Input::Start
            | Input::More
            | Input::Last
            | Input::EmptyCursor
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
        Input::More => R::advance(state, &[Effect::RequestNext]),
        // Some servers end their lists with an empty cursor.
        Input::Last | Input::EmptyCursor => R::advance(State::Idle, &[Effect::EndWhole]),
        Input::RepeatedEmpty => R::quirk(QuirkKind::CursorLoop, State::Idle, &[Effect::EndWhole]),
        // Cursors are opaque: a repeated one may still lead to new items.
        Input::RepeatedNew => R::quirk(QuirkKind::CursorLoop, state, &[Effect::RequestNext]),
        Input::Limit => R::quirk(QuirkKind::ListLimit, State::Idle, &[Effect::EndPart]),
        Input::CursorRefused | Input::Failed => R::advance(State::Idle, &[Effect::EndFailed]),
        Input::Stop => R::advance(State::Idle, &[]),
    }
}

recorded!("paging");
