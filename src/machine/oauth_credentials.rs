//! The credentials for a server: they are loaded, obtained, refreshed, stored and given up. Several processes may share
//! the store. The lock is held from the load to the save of a refresh, and never while a user authorizes.

use super::table::{decision_table, state_table, values};

values! {
    State {
        /// No attempt is in progress.
        Idle,
        /// The lock of the store is requested.
        Acquiring,
        /// The record is requested.
        Loading,
        Refreshing,
        /// The refresh token was refused, and the record is requested: another process may have replaced it.
        Reloading,
        /// A refresh with the refresh token of another process is in progress.
        RefreshingAgain,
        /// A new grant is in progress.
        Obtaining,
        Saving,
        /// Another process stored a record meanwhile, which is requested.
        Comparing,
        SavingAgain,
        /// An attempt failed, and the next one is not due yet.
        Cooldown,
    }

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
        Issued,
        /// The refresh token was refused, or belongs to another authorization server.
        Refused,
        /// The attempt failed for another reason, and there is a token that has not expired.
        FailedAlive,
        /// The attempt failed for another reason.
        Failed,
        Saved,
        /// The record was not stored: it is not the one that it was to replace.
        Conflict,
        /// The cooldown ended.
        Cooled,
        SignOut,
    }

    Effect {
        /// Request the lock of the store.
        Acquire,
        /// Request the record.
        Load,
        Refresh,
        /// Drop the refresh token.
        DropRefresh,
        /// Begin a new grant.
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
        StartCooldown,
        /// Stop the attempt.
        Stop,
        /// Drop the record, in the store too, and revoke its tokens.
        Forget,
    }
}

#[rustfmt::skip]
state_table! {
    /// The credentials for a server: they are loaded, obtained, refreshed, stored and given up. Several processes may share
    /// the store. The lock is held from the load to the save of a refresh, and never while a user authorizes.
    "credentials" step: State, Input, Effect;
    (Idle)                                 (Demand)        => (Acquiring) [Acquire];
    (Idle|Cooldown)                        (Renounce)      => (Obtaining) [Obtain];
    (Acquiring)                            (Acquired)      => (Loading) [Load];
    (Acquiring|Loading)                    (StoreFailed)   => (Cooldown) [Release ReportFailure StartCooldown];
    (Acquiring|Loading)                    (Renounce)      => (Obtaining) [Release Obtain];
    (Loading)                              (LoadedNothing) => (Obtaining) [Release Obtain];
    (Loading|Reloading)                    (LoadedToken)   => (Idle) [Release Use];
    (Loading)                              (LoadedRefresh) => (Refreshing) [Refresh];
    (Refreshing|RefreshingAgain|Obtaining) (Issued)        => (Saving) [Save];
    (Refreshing)                           (Refused)       => (Reloading) [Load];
    (RefreshingAgain)                      (Refused)       => (Obtaining) [DropRefresh Release Obtain];
    (Refreshing|RefreshingAgain)           (FailedAlive)   => (Cooldown) [Release StartCooldown];
    (Refreshing|RefreshingAgain)           (Failed)        => (Cooldown) [Release ReportFailure StartCooldown];
    (Reloading)                            (LoadedRefresh) => (RefreshingAgain) [Refresh];
    (Reloading)                            (LoadedNothing|StoreFailed|Renounce) => (Obtaining) [DropRefresh Release Obtain];
    (Obtaining)                            (FailedAlive)   => (Idle) [ReportFailure];
    (Obtaining)                            (Failed)        => (Cooldown) [ReportFailure StartCooldown];
    (Saving|SavingAgain)                   (Saved)         => (Idle) [Release Use];
    (Saving)                               (Conflict)      => (Comparing) [Load];
    (Saving|Comparing|SavingAgain)         (StoreFailed)   => (Idle) [Release ReportStore Use];
    (SavingAgain)                          (Conflict)      => (Idle) [Release ReportStore Use];
    (Comparing)                            (LoadedToken)   => (Idle) [Release Use];
    (Comparing)                            (LoadedNothing) => (SavingAgain) [Save];
    (Cooldown)                             (Demand)        => stay [ReportFailure];
    (Cooldown)                             (Cooled)        => (Idle);
    (Idle|Cooldown)                        (SignOut)       => (Idle) [Forget];
    (Acquiring|Loading|Reloading|Saving|Comparing|SavingAgain) (SignOut) => (Idle) [Release Forget];
    (Refreshing|RefreshingAgain)           (SignOut)       => (Idle) [Stop Release Forget];
    (Obtaining)                            (SignOut)       => (Idle) [Stop Forget];
    (Idle)
        (Acquired|LoadedNothing|LoadedToken|LoadedRefresh|StoreFailed|Issued|Refused|FailedAlive|Failed|Saved|Conflict|
         Cooled) => ignore;
    (Acquiring)
        (Demand|LoadedNothing|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Saved|Conflict|
         Cooled) => ignore;
    (Loading|Reloading) (Demand|Acquired|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled) => ignore;
    // A refresh may have used up the refresh token, so that its end is awaited, and the next challenge decides.
    (Refreshing|RefreshingAgain)
        (Demand|Renounce|Acquired|LoadedNothing|LoadedToken|LoadedRefresh|StoreFailed|Saved|Conflict|Cooled) => ignore;
    (Obtaining)
        (Demand|Renounce|Acquired|LoadedNothing|LoadedToken|LoadedRefresh|StoreFailed|Refused|Saved|Conflict|
         Cooled) => ignore;
    (Saving|SavingAgain)
        (Demand|Renounce|Acquired|LoadedNothing|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|
         Cooled) => ignore;
    (Comparing)
        (Demand|Renounce|Acquired|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled) => ignore;
    (Cooldown)
        (Acquired|LoadedNothing|LoadedToken|LoadedRefresh|StoreFailed|Issued|Refused|FailedAlive|Failed|Saved|
         Conflict) => ignore;
}

values! {
    /// Where the record is. One that could not be stored is kept until the store has a newer one, so that no refresh token
    /// is lost.
    Kept {
        /// The store has it, or there is none.
        Stored,
        Unsaved,
        /// It is not in the store yet, and another process stored one meanwhile, which is requested.
        Contested,
    }

    /// The record in the store that can be used: newer than the one so far, not newer, none.
    Found { Newer, Known, Nothing }

    Loaded {
        Keep,
        /// Use the stored record in place of the one so far.
        Adopt,
        /// Drop the record, and its token.
        Drop,
        /// Store the record once more: the store has nothing that replaces it.
        Insist,
    }
}

#[rustfmt::skip]
decision_table! {
    /// What a record in the store is to the one so far.
    "credential_record" loaded(kept: Kept, found: Found) -> Loaded;
    (_)         (Newer)         => Adopt;
    (Stored)    (Known)         => Adopt;
    // Another process gave it up.
    (Stored)    (Nothing)       => Drop;
    (Unsaved)   (Known|Nothing) => Keep;
    (Contested) (Known|Nothing) => Insist;
}

pub(crate) mod lock {
    use super::{state_table, values};

    values! {
        State {
            /// This process does not require the lock.
            Free,
            Requested,
            Held,
        }

        Input {
            /// The lock is required.
            Acquire,
            /// The lock was acquired, by the last request or by one before.
            Acquired,
            Release,
        }

        Effect {
            Request,
            /// Begin what requires the lock.
            Begin,
            Release,
        }
    }

    #[rustfmt::skip]
    state_table! {
        /// The lock of the store of credentials, as far as this process holds it.
        "credential_lock" step: State, Input, Effect;
        (Free)           (Acquire)          => (Requested) [Request];
        // What required the lock did not wait so long.
        (Free)           (Acquired)         => stay [Release];
        (Free)           (Release)          => ignore;
        (Requested)      (Acquired)         => (Held) [Begin];
        (Requested)      (Acquire)          => ignore;
        (Requested|Held) (Release)          => (Free) [Release];
        (Held)           (Acquire|Acquired) => ignore;
    }
}
