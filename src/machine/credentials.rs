//! The credentials for a server: they are loaded, obtained, refreshed, stored and given up. Several processes may
//! share the store. The lock is held from the load to the save of a refresh, and never while a user authorizes.

use super::{Row, alphabet};

alphabet! {
    /// The state of the credentials.
    State {
        /// No attempt is in progress.
        Idle,
        /// The lock of the store is requested.
        Acquiring,
        /// The record is requested.
        Loading,
        /// A refresh is in progress.
        Refreshing,
        /// The refresh token was refused, and the record is requested: another process may have replaced it.
        Reloading,
        /// A refresh with the refresh token of another process is in progress.
        RefreshingAgain,
        /// A new grant is in progress.
        Obtaining,
        /// The new record is stored.
        Saving,
        /// Another process stored a record meanwhile, which is requested.
        Comparing,
        /// The new record is stored once more.
        SavingAgain,
        /// An attempt failed, and the next one is not due yet.
        Resting,
    }
}

alphabet! {
    /// What happens to the credentials.
    Input {
        /// A token is required: there is none, it is about to expire, or it was refused.
        Demand,
        /// A new grant is required.
        Renounce,
        /// The lock was acquired.
        Acquired,
        /// The store has no record, or none with a token for this server.
        LoadedNothing,
        /// The record has a token that can be used.
        LoadedToken,
        /// The record has a refresh token, and no token that can be used.
        LoadedRefresh,
        /// The store failed, or did not answer in time.
        StoreFailed,
        /// A token was issued.
        Issued,
        /// The refresh token was refused, or belongs to another authorization server.
        Refused,
        /// The attempt failed for another reason, and there is a token that has not expired.
        FailedAlive,
        /// The attempt failed for another reason.
        Failed,
        /// The record was stored.
        Saved,
        /// The record was not stored: it is not the one that it was to replace.
        Conflict,
        /// The wait after a failed attempt is over.
        Rested,
        /// The credentials are given up.
        SignOut,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request the lock of the store.
    Acquire,
    /// Request the record.
    Load,
    /// Begin a refresh.
    Refresh,
    /// Drop the refresh token.
    DropRefresh,
    /// Begin a new grant, if the policy allows it.
    Obtain,
    /// Store the record.
    Save,
    /// Release the lock.
    Release,
    /// Use the token that was loaded or issued, and report it.
    Use,
    /// Report that the record was not stored.
    ReportStore,
    /// Report that there is no token.
    ReportFailure,
    /// Start the wait until the next attempt.
    Rest,
    /// Stop the attempt.
    Stop,
    /// Drop the record, in the store too, and revoke its tokens.
    Forget,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        Acquire, DropRefresh, Forget, Load, Obtain, Refresh, Release, ReportFailure, ReportStore, Rest, Save, Stop, Use,
    };
    type R = Row<State, Effect>;
    match state {
        State::Idle => match input {
            Input::Demand => R::advance(State::Acquiring, &[Acquire]),
            Input::Renounce => R::advance(State::Obtaining, &[Obtain]),
            Input::SignOut => R::advance(state, &[Forget]),
            Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::StoreFailed
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
        },
        State::Acquiring => match input {
            Input::Acquired => R::advance(State::Loading, &[Load]),
            Input::StoreFailed => R::advance(State::Resting, &[Release, ReportFailure, Rest]),
            Input::Renounce => R::advance(State::Obtaining, &[Release, Obtain]),
            Input::SignOut => R::advance(State::Idle, &[Release, Forget]),
            Input::Demand
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
        },
        State::Loading => match input {
            Input::LoadedNothing => R::advance(State::Obtaining, &[Release, Obtain]),
            Input::LoadedToken => R::advance(State::Idle, &[Release, Use]),
            Input::LoadedRefresh => R::advance(State::Refreshing, &[Refresh]),
            Input::StoreFailed => R::advance(State::Resting, &[Release, ReportFailure, Rest]),
            Input::Renounce => R::advance(State::Obtaining, &[Release, Obtain]),
            Input::SignOut => R::advance(State::Idle, &[Release, Forget]),
            Input::Demand
            | Input::Acquired
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
        },
        State::Refreshing => match input {
            Input::Issued => R::advance(State::Saving, &[Save]),
            Input::Refused => R::advance(State::Reloading, &[Load]),
            Input::FailedAlive => R::advance(State::Resting, &[Release, Rest]),
            Input::Failed => R::advance(State::Resting, &[Release, ReportFailure, Rest]),
            // The refresh may have used up the refresh token, so its end is awaited, and the next challenge decides.
            Input::Renounce
            | Input::Demand
            | Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::StoreFailed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
            Input::SignOut => R::advance(State::Idle, &[Stop, Release, Forget]),
        },
        State::Reloading => match input {
            Input::LoadedToken => R::advance(State::Idle, &[Release, Use]),
            Input::LoadedRefresh => R::advance(State::RefreshingAgain, &[Refresh]),
            Input::LoadedNothing | Input::StoreFailed => R::advance(State::Obtaining, &[DropRefresh, Release, Obtain]),
            Input::Renounce => R::advance(State::Obtaining, &[DropRefresh, Release, Obtain]),
            Input::SignOut => R::advance(State::Idle, &[Release, Forget]),
            Input::Demand
            | Input::Acquired
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
        },
        State::RefreshingAgain => match input {
            Input::Issued => R::advance(State::Saving, &[Save]),
            Input::Refused => R::advance(State::Obtaining, &[DropRefresh, Release, Obtain]),
            Input::FailedAlive => R::advance(State::Resting, &[Release, Rest]),
            Input::Failed => R::advance(State::Resting, &[Release, ReportFailure, Rest]),
            Input::Renounce
            | Input::Demand
            | Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::StoreFailed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
            Input::SignOut => R::advance(State::Idle, &[Stop, Release, Forget]),
        },
        State::Obtaining => match input {
            Input::Issued => R::advance(State::Saving, &[Save]),
            Input::FailedAlive => R::advance(State::Idle, &[ReportFailure]),
            Input::Failed => R::advance(State::Resting, &[ReportFailure, Rest]),
            Input::SignOut => R::advance(State::Idle, &[Stop, Forget]),
            Input::Demand
            | Input::Renounce
            | Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::StoreFailed
            | Input::Refused
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
        },
        State::Saving => match input {
            Input::Saved => R::advance(State::Idle, &[Release, Use]),
            Input::Conflict => R::advance(State::Comparing, &[Load]),
            Input::StoreFailed => R::advance(State::Idle, &[Release, ReportStore, Use]),
            Input::SignOut => R::advance(State::Idle, &[Release, Forget]),
            Input::Demand
            | Input::Renounce
            | Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Rested => R::ignore(state),
        },
        State::Comparing => match input {
            Input::LoadedToken => R::advance(State::Idle, &[Release, Use]),
            Input::LoadedNothing => R::advance(State::SavingAgain, &[Save]),
            Input::StoreFailed => R::advance(State::Idle, &[Release, ReportStore, Use]),
            Input::SignOut => R::advance(State::Idle, &[Release, Forget]),
            Input::Demand
            | Input::Renounce
            | Input::Acquired
            | Input::LoadedRefresh
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Saved
            | Input::Conflict
            | Input::Rested => R::ignore(state),
        },
        State::SavingAgain => match input {
            Input::Saved => R::advance(State::Idle, &[Release, Use]),
            Input::Conflict | Input::StoreFailed => R::advance(State::Idle, &[Release, ReportStore, Use]),
            Input::SignOut => R::advance(State::Idle, &[Release, Forget]),
            Input::Demand
            | Input::Renounce
            | Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Rested => R::ignore(state),
        },
        State::Resting => match input {
            Input::Demand => R::advance(state, &[ReportFailure]),
            Input::Renounce => R::advance(State::Obtaining, &[Obtain]),
            Input::Rested => R::advance(State::Idle, &[]),
            Input::SignOut => R::advance(State::Idle, &[Forget]),
            Input::Acquired
            | Input::LoadedNothing
            | Input::LoadedToken
            | Input::LoadedRefresh
            | Input::StoreFailed
            | Input::Issued
            | Input::Refused
            | Input::FailedAlive
            | Input::Failed
            | Input::Saved
            | Input::Conflict => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("credentials");
