//! Discovery of one family on one connection (specification 2026-07-28, "Pagination").

use super::{Row, alphabet, recorded};

alphabet! {
    /// What is known of the family's list.
    State {
        /// Nothing: the list was not requested yet.
        NotRequested,
        /// The server did not declare the capability, and the list is not requested.
        NotAdvertised,
        /// The list is being received.
        Listing,
        /// The list is being received, and changed meanwhile.
        ListingStale,
        /// The list is being received for the second time, because it changed during the first.
        Relisting,
        /// As `Relisting`, and the list changed again.
        RelistingStale,
        /// The whole list is known.
        Listed,
        /// The server declared the capability, but does not have the method.
        Absent,
        /// A limit or an error ended the list; the pages before it are kept.
        Partial,
        /// The list failed, and no items are kept.
        Failed,
    }
}

alphabet! {
    /// What happens to the list.
    Input {
        /// Its list may be requested.
        Advertised,
        /// Its list may not be requested.
        NotAdvertised,
        /// The whole list was received.
        Whole,
        /// A limit ended the list; its beginning was received.
        Part,
        /// The server does not have the method, which is tolerated.
        Absent,
        /// The list failed, and the connection fails with it.
        ErrorFatal,
        /// The list failed; the pages that were received are kept.
        ErrorRest,
        /// The list failed, and no items are kept.
        ErrorList,
        /// The list failed; the list of an earlier connection is kept.
        ErrorStale,
        /// The server announced a change of the list.
        ListChanged,
        /// The list may have changed unnoticed.
        Outdated,
        /// The embedder or the engine needs the list again.
        Wanted,
        /// A new connection begins.
        Reset,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request the list.
    Request,
    /// Make the received pages the family's list.
    Commit,
    /// Drop the received pages.
    Drop,
    /// Remove all items of the family.
    Clear,
    /// Fail the connection.
    Fail,
    /// Pass the change to the [`refresh`](super::refresh) table.
    Refresh,
    /// Have the [`refresh`](super::refresh) table find out whether the list changed.
    Recheck,
    /// Have the [`refresh`](super::refresh) table request the list again.
    Renew,
    /// Report to who needs the list that there is none.
    Deny,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Clear, Commit, Deny, Drop, Fail, Recheck, Refresh, Renew, Request};
    match state {
        State::NotRequested => match input {
            Input::Advertised => R::advance(State::Listing, &[Request]),
            Input::NotAdvertised => R::advance(State::NotAdvertised, &[Clear]),
            Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale
            | Input::ListChanged
            | Input::Outdated
            | Input::Wanted
            | Input::Reset => R::ignore(state),
        },
        State::NotAdvertised => match input {
            Input::ListChanged => R::advance(State::Listing, &[Request]),
            Input::Reset => R::advance(State::NotRequested, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale
            | Input::Outdated
            | Input::Wanted => R::ignore(state),
        },
        State::Listing => listing(
            state,
            input,
            Ends {
                whole: R::advance(State::Listed, &[Commit]),
                part: R::advance(State::Partial, &[Commit]),
                fatal: R::advance(State::Failed, &[Drop, Fail]),
                rest: R::advance(State::Partial, &[Commit]),
                list: R::advance(State::Failed, &[Drop]),
                changed: R::advance(State::ListingStale, &[]),
            },
        ),
        State::ListingStale => listing(
            state,
            input,
            Ends {
                whole: R::advance(State::Relisting, &[Commit, Request]),
                part: R::advance(State::Relisting, &[Commit, Request]),
                fatal: R::advance(State::Failed, &[Drop, Fail]),
                rest: R::advance(State::Partial, &[Commit, Refresh]),
                list: R::advance(State::Failed, &[Drop, Refresh]),
                changed: R::ignore(state),
            },
        ),
        // The first list was taken already, so an error of the second one is tolerated.
        State::Relisting => listing(
            state,
            input,
            Ends {
                whole: R::advance(State::Listed, &[Commit]),
                part: R::advance(State::Partial, &[Commit]),
                fatal: R::advance(State::Listed, &[Drop, Refresh]),
                rest: R::advance(State::Listed, &[Drop, Refresh]),
                list: R::advance(State::Listed, &[Drop, Refresh]),
                changed: R::advance(State::RelistingStale, &[]),
            },
        ),
        // There is no third list: a client of a server that changes its list all the time would never be ready. The
        // refresh table takes over.
        State::RelistingStale => listing(
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
            Input::Outdated => R::advance(state, &[Recheck]),
            Input::Wanted => R::advance(state, &[Renew]),
            Input::Reset => R::advance(State::NotRequested, &[]),
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
        // The method does not exist, so the list is not requested again.
        State::Absent => match input {
            Input::Wanted => R::advance(state, &[Deny]),
            Input::Reset => R::advance(State::NotRequested, &[]),
            Input::Advertised
            | Input::NotAdvertised
            | Input::Whole
            | Input::Part
            | Input::Absent
            | Input::ErrorFatal
            | Input::ErrorRest
            | Input::ErrorList
            | Input::ErrorStale
            | Input::ListChanged
            | Input::Outdated => R::ignore(state),
        },
    }
}

/// The rows in which the states with pages in flight differ.
#[derive(Clone, Copy)]
struct Ends {
    whole: R,
    part: R,
    fatal: R,
    rest: R,
    list: R,
    changed: R,
}

const fn listing(state: State, input: Input, ends: Ends) -> R {
    match input {
        Input::Whole => ends.whole,
        Input::Part => ends.part,
        Input::Absent => R::advance(State::Absent, &[Effect::Drop, Effect::Clear]),
        Input::ErrorFatal => ends.fatal,
        Input::ErrorRest => ends.rest,
        Input::ErrorList => ends.list,
        Input::ErrorStale => R::advance(State::Listed, &[Effect::Drop, Effect::Refresh]),
        Input::ListChanged | Input::Outdated => ends.changed,
        Input::Reset => R::advance(State::NotRequested, &[Effect::Drop]),
        Input::Advertised | Input::NotAdvertised | Input::Wanted => R::ignore(state),
    }
}

recorded!("discovery");
