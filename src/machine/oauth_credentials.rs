//! The credentials for a server: they are loaded, obtained, refreshed, stored and given up. Several processes may share
//! the store. The lock is held from the load to the save of a refresh, and never while a user authorizes.

use super::table::{decision_table, state_table, values};

values! {
    State {
        /// The store was not asked yet.
        Unread,
        /// No attempt is in progress.
        Idle,
        /// The record is requested before the first request to the server.
        Opening,
        /// The record is requested, without the lock.
        Reading,
        /// The lock of the store is requested, for a refresh.
        Acquiring,
        /// The record is requested again, with the lock.
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
        /// The user signed out while the record was being stored, which comes first.
        Finishing,
        /// The user signed out, and the lock of the store is requested.
        Leaving,
        /// The record is requested, whose tokens are to be revoked.
        Collecting,
        Revoking,
    }

    Input {
        /// The first request to the server is to be sent.
        Open,
        /// A token is required: there is none, it is about to expire, or it was refused.
        Demand,
        /// A new grant is required.
        Renounce,
        /// The lock was acquired.
        Acquired,
        /// The store has no record, or none with a token for this server.
        LoadedNothing,
        /// There is nothing that can be used before the first request to the server, which demanded no token so far.
        NotDemanded,
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
        /// The tokens were revoked, as far as they can be.
        Revoked,
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
        /// Drop the record, whose tokens are revoked later.
        Forget,
        /// Revoke the tokens.
        Revoke,
        /// Remove the record from the store.
        Remove,
        /// Obtain a new grant after the sign-out.
        Postpone,
        /// What came up meanwhile follows.
        Settle,
    }
}

#[rustfmt::skip]
state_table! {
    /// The credentials for a server: they are loaded, obtained, refreshed, stored and given up. Several processes may share
    /// the store. The lock is held from the load to the save of a refresh and while tokens are revoked, and never while a
    /// user authorizes; a stored token that is alive is used without it.
    "credentials" step: State, Input, Effect;
    (Unread)                               (Open)          => (Opening) [Load];
    (Unread|Idle)                          (Demand)        => (Reading) [Load];
    (Unread|Idle|Opening|Reading|Cooldown) (Renounce)      => (Obtaining) [Obtain];
    (Opening|Reading)                      (LoadedToken)   => (Idle) [Use];
    (Opening|Reading)                      (LoadedRefresh) => (Acquiring) [Acquire];
    (Opening)                              (NotDemanded|StoreFailed) => (Idle) [Settle];
    (Opening|Reading)                      (LoadedNothing) => (Obtaining) [Obtain];
    (Acquiring)                            (Acquired)      => (Loading) [Load];
    (Reading)                              (StoreFailed)   => (Cooldown) [ReportFailure StartCooldown];
    (Acquiring|Loading)                    (StoreFailed)   => (Cooldown) [Release ReportFailure StartCooldown];
    (Acquiring|Loading)                    (Renounce)      => (Obtaining) [Release Obtain];
    (Loading)                              (LoadedNothing) => (Obtaining) [Release Obtain];
    (Loading|Reloading|RefreshingAgain)    (NotDemanded)   => (Idle) [DropRefresh Release Settle];
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
    (Unread|Idle|Opening|Reading|Cooldown) (SignOut)       => (Leaving) [Forget Acquire];
    (Acquiring|Loading|Reloading|Comparing) (SignOut)      => (Leaving) [Release Forget Acquire];
    // What is stored later would bring the record back.
    (Saving|SavingAgain)                   (SignOut)       => (Finishing) [Forget];
    (Finishing)                            (Saved|Conflict|StoreFailed) => (Leaving) [Release Acquire];
    (Refreshing|RefreshingAgain)           (SignOut)       => (Leaving) [Stop Release Forget Acquire];
    (Obtaining)                            (SignOut)       => (Leaving) [Stop Forget Acquire];
    (Leaving)                              (Acquired)      => (Collecting) [Load];
    (Collecting)                           (LoadedNothing) => (Revoking) [Revoke];
    (Leaving|Collecting)                   (StoreFailed)   => (Revoking) [Revoke];
    (Finishing|Leaving|Collecting|Revoking) (Renounce)     => stay [Postpone];
    (Finishing|Leaving|Collecting|Revoking) (SignOut)      => stay [Forget];
    (Revoking)                             (Revoked)       => (Idle) [Remove Release Settle];
    (Unread|Idle)
        (Acquired|LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|StoreFailed|Issued|Refused|FailedAlive|Failed|
         Saved|Conflict|Cooled|Revoked) => never;
    (Idle|Opening|Reading|Acquiring|Loading|Refreshing|Reloading|RefreshingAgain|Obtaining|Saving|Comparing|SavingAgain|
     Cooldown|Finishing|Leaving|Collecting|Revoking)
        (Open) => ignore;
    // The server may demand a token while one is being obtained.
    (Opening|Reading|Acquiring|Loading|Reloading) (Demand) => ignore;
    (Opening|Reading) (Acquired|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled|Revoked) => never;
    (Reading) (NotDemanded) => never;
    (Acquiring)
        (LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Saved|Conflict|
         Cooled|Revoked) => never;
    (Loading|Reloading) (Acquired|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled|Revoked) => never;
    // A refresh may have used up the refresh token, so that its end is awaited, and the next challenge decides.
    (Refreshing|RefreshingAgain) (Demand|Renounce) => ignore;
    (Refreshing|RefreshingAgain)
        (Acquired|LoadedNothing|LoadedToken|LoadedRefresh|StoreFailed|Saved|Conflict|Cooled|Revoked) => never;
    (Refreshing) (NotDemanded) => never;
    (Obtaining) (Demand|Renounce) => ignore;
    (Obtaining)
        (Acquired|LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|StoreFailed|Refused|Saved|Conflict|
         Cooled|Revoked) => never;
    (Saving|SavingAgain) (Demand|Renounce) => ignore;
    (Saving|SavingAgain)
        (Acquired|LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Cooled|
         Revoked) => never;
    (Comparing) (Demand|Renounce) => ignore;
    (Comparing)
        (Acquired|NotDemanded|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled|Revoked) => never;
    (Cooldown)
        (Acquired|LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|StoreFailed|Issued|Refused|FailedAlive|Failed|Saved|
         Conflict|Revoked) => never;
    (Finishing) (Demand) => ignore;
    (Finishing)
        (Acquired|LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Cooled|
         Revoked) => never;
    (Leaving) (Demand) => ignore;
    (Leaving)
        (LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled|
         Revoked) => never;
    (Collecting) (Demand) => ignore;
    (Collecting)
        (Acquired|NotDemanded|LoadedToken|LoadedRefresh|Issued|Refused|FailedAlive|Failed|Saved|Conflict|Cooled|
         Revoked) => never;
    (Revoking) (Demand|Acquired) => ignore;
    (Revoking)
        (LoadedNothing|NotDemanded|LoadedToken|LoadedRefresh|StoreFailed|Issued|Refused|FailedAlive|Failed|Saved|
         Conflict|Cooled) => never;
}

values! {
    /// Where the record is. One that could not be stored is kept until the store has a newer one, so that no refresh token
    /// is lost.
    Kept {
        /// The store has it, or there is none.
        Stored,
        Unsaved,
        /// It is not in the store yet, and another process stored or removed one meanwhile, which is requested.
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
        /// Give the record up as well, and revoke its tokens.
        SignOut,
    }
}

#[rustfmt::skip]
decision_table! {
    /// What a record in the store is to the one so far. `refreshed`: the one so far came from the one that is gone.
    "credential_record" loaded(kept: Kept, found: Found, refreshed: bool) -> Loaded;
    (_)         (Newer)         (_)     => Adopt;
    (Stored)    (Known)         (_)     => Adopt;
    // Another process gave it up.
    (Stored)    (Nothing)       (_)     => Drop;
    (Unsaved)   (Known|Nothing) (_)     => Keep;
    (Contested) (Known)         (_)     => Insist;
    (Contested) (Nothing)       (false) => Insist;
    // The user signed out during the refresh.
    (Contested) (Nothing)       (true)  => SignOut;
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
        (Requested)      (Acquire)          => never;
        (Requested|Held) (Release)          => (Free) [Release];
        (Held)           (Acquired)         => ignore;
        (Held)           (Acquire)          => never;
    }
}
