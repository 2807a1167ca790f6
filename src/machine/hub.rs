//! The tables of a hub: the hub as a whole, and each of its servers.

pub(crate) mod whole {
    use crate::machine::table::{state_table, values};

    values! {
        State {
            /// Not open yet. Servers that are started by name may be up.
            New,
            Open,
            /// Its sessions are being closed.
            Closing,
            Closed,
        }

        Input {
            /// The embedder gives a command.
            Command,
            Open,
            Close,
            /// Every required server is up, or has saved lists.
            Complete,
            /// Servers were starting, and none is any more.
            Settled,
            /// The last session is closed.
            Gone,
        }

        Effect { StartServers, CloseServers, ReportReady, ReportSettled, DropSessions, ReportClosed }
    }

    state_table! {
        /// A hub as a whole: whether it is open, and what it reports of its servers together.
        "hub" step: State, Input, Effect;
        (New|Open)       (Command)                            => stay;
        (Closing|Closed) (Command)                            => misuse;
        (New)            (Open)                               => (Open) [StartServers];
        (Open)           (Open)                               => misuse;
        (New|Open)       (Close)                              => (Closing) [CloseServers];
        (New|Open)       (Settled)                            => stay [ReportSettled];
        (Open)           (Complete)                           => stay [ReportReady];
        (Closing)        (Gone)                               => (Closed) [DropSessions ReportClosed];
        (New)            (Complete|Gone)                      => ignore;
        (Open)           (Gone)                               => ignore;
        (Closing)        (Complete|Settled)                   => ignore;
        (Closing)        (Open|Close)                         => never;
        (Closed)         (Complete|Gone)                      => ignore;
        (Closed)         (Open|Close|Settled)                 => never;
    }
}

pub(crate) mod server {
    use crate::machine::table::{product, state_table, values};

    values! {
        Phase {
            /// It is not needed yet.
            Idle,
            /// It is to be started, and waits for room, or for the end of the session before it.
            Queued,
            /// It is being opened.
            Starting,
            Ready,
            /// Its connection is closed because it was not used for some time, or was old.
            Suspended,
            /// It lost the connection, or did not get one, and reconnects.
            Reconnecting,
            /// As `Reconnecting`, after a long interval.
            Parked,
            /// It ended by itself, or could not be created.
            Failed,
            /// As `Failed`, because the server refused authorization.
            Unauthorized,
            Closing,
            Closed,
        }

        Input {
            /// The hub is opened, or the server is configured in one that is open.
            Wanted,
            /// The embedder starts the server by its name.
            Started,
            /// A request is made to it, or it replaces a session that failed.
            Called,
            /// A call needs its lists, and no request.
            Listed,
            /// Its session did something, or something was reported to it.
            Contacted,
            /// The embedder restores saved lists.
            Restored,
            /// There is room for it to start.
            Room,
            Ready,
            /// Its catalogue changed.
            Changed,
            /// Nothing is in flight, and it was not used for some time, or is old.
            IdleTimeout,
            /// It lost the connection, or did not get one, and reconnects.
            Down,
            /// As `Down`, and it reconnects after a long interval.
            Parked,
            /// It ended, or could not be created.
            Ended,
            /// It ended because the server refused authorization.
            Unauthorized,
            /// The embedder can authorize requests now.
            Authorized,
            /// Its entry was removed or replaced.
            Removed,
            /// The hub is closed.
            Close,
        }

        Effect {
            /// Create its session, unless the call that starts it did; it accepts requests before it is opened. It authorizes
            /// itself if its entry says so.
            Create,
            /// Open its connection now.
            Open,
            /// Drop its session; the embedder polled none of its actions.
            Discard,
            /// Close its connection until it is opened again, and report that.
            Suspend,
            /// Offer its lists to the model.
            Offer,
            /// Remove its lists from the offer, and end the calls that wait for lists.
            Withdraw,
            /// Answer the calls that wait for lists, with what is known.
            AnswerLists,
            /// Refuse calls to it for some time.
            RefuseCalls,
            AllowCalls,
            /// Report that it did not start, and that it reconnects.
            ReportRetry,
            ReportFailed,
            /// Create another session for the server, and start it.
            Renew,
            /// Start the session that follows, if there is one.
            StartNext,
            /// Close its session, and end the calls that wait for lists.
            Shut,
            /// Count it as closed, and end the calls that wait for lists. Its last actions can still be polled.
            Forget,
        }
    }

    product! {
        /// The state of a session.
        State {
            phase: Phase,
            /// Something depends on its session: a call or a command waits for it, or the embedder polled one of its actions.
            called: bool,
        }
    }

    impl State {
        /// Whether a row leads to this state.
        #[cfg(feature = "snapshot")]
        pub(crate) const fn is_possible(self) -> bool {
            match self.phase {
                Phase::Idle | Phase::Failed | Phase::Unauthorized => !self.called,
                Phase::Queued | Phase::Starting | Phase::Closed => true,
                Phase::Ready | Phase::Suspended | Phase::Reconnecting | Phase::Parked | Phase::Closing => self.called,
            }
        }
    }

    state_table! {
        /// A server in a hub: started when it is needed and there is room, closed when its entry is removed or replaced.
        "hub_server" step: State { phase: Phase, called: bool }, Input, Effect;
        (Idle)         (_)     (Wanted)                => (Queued) (_);
        (Idle)         (_)     (Started|Called|Listed) => (Queued) (true) [Create];
        (Idle)         (_)     (Restored)              => stay;
        (Idle)         (_)     (Ended)                 => (Failed) (false) [Withdraw ReportFailed];
        (Idle)         (_)     (Removed|Close)         => (Closed) (_) [Forget];
        (Idle)         (_)     (Authorized) => ignore;
        (Idle)         (_)     (Contacted|Room|Ready|Changed|IdleTimeout|Down|Parked|Unauthorized) => never;

        (Queued)       (false) (Started|Called|Listed) => (_) (true) [Create];
        (Queued)       (false) (Room)                  => (Starting) (_) [Create Open];
        (Queued)       (true)  (Room)                  => (Starting) (_) [Open];
        (Queued)       (false) (Restored)              => (Idle) (_);
        (Queued)       (true)  (Restored)              => misuse;
        (Queued)       (false) (Removed)               => (Closed) (_) [StartNext Forget];
        (Queued)       (false) (Close)                 => (Closed) (_) [Forget];
        (Queued)       (true)  (Removed)               => (Closing) (_) [StartNext Shut];
        (Queued)       (true)  (Close)                 => (Closing) (_) [Shut];
        (Queued)       (true)  (Started|Called|Listed) => ignore;
        (Queued)       (_)     (Contacted|Wanted|Authorized) => ignore;
        (Queued)       (_)     (Ready|Changed|IdleTimeout|Down|Parked|Ended|Unauthorized) => never;

        (Starting)     (false) (Started|Called|Listed|Contacted) => (_) (true);
        (Starting)     (false) (Restored)              => (Idle) (_) [Discard];
        (Starting)     (false) (Removed)               => (Closed) (_) [Discard StartNext Forget];
        (Starting)     (false) (Close)                 => (Closed) (_) [Discard Forget];
        (Starting)     (false) (Wanted|Authorized) => ignore;
        (Starting)     (false) (Room|Ready|Changed|IdleTimeout|Down|Parked|Ended|Unauthorized) => never;
        (Starting)     (true)  (Ready)                 => (Ready) (_) [Offer AnswerLists];
        (Starting)     (true)  (Down)                  => (Reconnecting) (_) [ReportRetry AnswerLists];
        (Starting)     (true)  (Parked)                => (Parked) (_) [RefuseCalls ReportRetry AnswerLists];
        (Starting)     (true)  (Ended)                 => (Failed) (false) [Withdraw ReportFailed];
        (Starting)     (true)  (Restored)              => misuse;
        (Starting)     (true)  (Removed)               => (Closing) (_) [StartNext Shut];
        (Starting)     (true)  (Close)                 => (Closing) (_) [Shut];
        (Starting)     (true)  (Wanted|Started|Called|Listed|Contacted|Changed|Authorized) => ignore;
        (Starting)     (true)  (Room|IdleTimeout|Unauthorized) => never;

        (Ready)        (_)     (Listed)                => stay [AnswerLists];
        (Ready)        (_)     (Changed)               => stay [Offer];
        // Its lists are known, so it counts as up.
        (Ready)        (_)     (IdleTimeout)           => (Suspended) (_) [Suspend];
        (Ready)        (_)     (Down)                  => (Reconnecting) (_);
        (Ready)        (_)     (Parked)                => (Parked) (_) [RefuseCalls];
        (Ready)        (_)     (Ended)                 => (Failed) (false) [Withdraw ReportFailed];
        (Ready)        (_)     (Wanted|Started|Called|Contacted|Authorized) => ignore;
        (Ready)        (_)     (Room|Ready|Unauthorized) => never;

        (Suspended)    (_)     (Started|Called|Listed) => (Queued) (_);
        (Suspended)    (_)     (Contacted|Wanted|Authorized) => ignore;
        (Suspended)    (_)     (Room|Ready|Changed|IdleTimeout|Down|Parked|Ended|Unauthorized) => never;

        (Reconnecting) (_)     (Wanted|Started)        => stay [Open];
        (Parked)       (_)     (Wanted|Started|Called) => stay [Open];
        (Reconnecting) (_)     (Ready)                 => (Ready) (_) [Offer AnswerLists];
        (Parked)       (_)     (Ready)                 => (Ready) (_) [AllowCalls Offer AnswerLists];
        (Reconnecting|Parked) (_) (Listed)             => stay [AnswerLists];
        (Reconnecting|Parked) (_) (Changed)            => stay [Offer];
        (Parked)       (_)     (Down)                  => (Reconnecting) (_);
        (Reconnecting|Parked) (_) (Parked)             => (Parked) (_) [RefuseCalls];
        (Reconnecting|Parked) (_) (Ended)              => (Failed) (false) [Withdraw ReportFailed];
        (Reconnecting) (_)     (Called|Down)           => ignore;
        (Reconnecting|Parked) (_) (Contacted|Authorized)                               => ignore;
        (Reconnecting|Parked) (_) (Room|IdleTimeout|Unauthorized)                      => never;

        (Ready|Suspended|Reconnecting|Parked) (_) (Restored) => misuse;
        (Ready|Suspended|Reconnecting|Parked) (_) (Removed)  => (Closing) (_) [StartNext Shut];
        (Ready|Suspended|Reconnecting|Parked) (_) (Close)    => (Closing) (_) [Shut];

        (Failed|Unauthorized) (_) (Started)            => stay [Renew];
        (Unauthorized) (_)     (Authorized)            => stay [Renew];
        (Failed)       (_)     (Unauthorized)          => (Unauthorized) (_);
        (Failed|Unauthorized) (_) (Called|Listed|Restored) => misuse;
        (Failed|Unauthorized) (_) (Removed|Close)      => (Closed) (_) [Forget];
        (Failed)       (_)     (Authorized)            => ignore;
        (Unauthorized) (_)     (Unauthorized)          => never;
        (Failed|Unauthorized) (_) (Contacted|Wanted) => ignore;
        (Failed|Unauthorized) (_) (Room|Ready|Changed|IdleTimeout|Down|Parked|Ended) => never;

        (Closing)      (_)     (Ended)                 => (Closed) (_) [Forget];
        (Closing)      (_)     (Wanted|Contacted|Close) => ignore;
        (Closing)      (_)
            (Started|Called|Listed|Restored|Room|Ready|Changed|IdleTimeout|Down|Parked|Unauthorized|Authorized|
             Removed) => never;
        // One that the server refused while it was being closed ends as one that was refused.
        (Closed)       (_)     (Wanted|Contacted|Close|Unauthorized) => ignore;
        else (Closed)  (_)     (_)                     => never;
    }
}

pub(crate) mod breaker {
    //! Whether a hub sends calls to a server: after several failures in a row, calls are refused for some time.

    use crate::machine::table::{state_table, values};

    values! {
        /// Whether calls are allowed.
        #[derive(Default)]
        State {
            /// Calls are allowed.
            #[default]
            Closed,
            /// Calls are refused until the cooldown ends.
            Open,
            /// The cooldown ended: one trial call is allowed.
            HalfOpen,
            /// A trial call is in flight; other calls are refused.
            Trying,
        }

        Input {
            /// A call is to be made.
            Call,
            /// The server answered a call, with a result or an error.
            Answered,
            /// A call failed, and fewer calls in a row failed than the limit.
            Failed,
            /// A call failed and reached the limit of failures in a row; or the client has no connection for a long time.
            FailedAgain,
            /// A call ended without a sign of whether the server works.
            Undecided,
            /// The cooldown is over.
            Cooled,
            /// The embedder, or a new connection, allows calls again.
            Reset,
        }

        Effect {
            /// Count the failure.
            Count,
            /// Forget the failures.
            Clear,
            StartCooldown,
        }
    }

    state_table! {
        /// Whether calls to a server of a hub are allowed.
        "breaker" step: State, Input, Effect;
        (Closed)               (Call)                         => stay;
        (Closed)               (Answered|Reset)               => stay [Clear];
        (Closed)               (Failed)                       => stay [Count];
        (Closed)               (FailedAgain)                  => (Open) [StartCooldown];
        (Closed)               (Undecided)                    => ignore;
        (Closed)               (Cooled)                       => never;
        (Open)                 (Call)                         => misuse;
        // A call that was made before the cooldown is answered.
        (Open)                 (Answered|Reset)               => (Closed) [Clear];
        (Open)                 (Cooled)                       => (HalfOpen);
        (Open)                 (Failed|FailedAgain|Undecided) => ignore;
        (HalfOpen)             (Call)                         => (Trying);
        (HalfOpen|Trying)      (Answered|Reset)               => (Closed) [Clear];
        (HalfOpen|Trying)      (Failed|FailedAgain)           => (Open) [StartCooldown];
        (HalfOpen)             (Undecided)                    => ignore;
        (HalfOpen)             (Cooled)                       => never;
        (Trying)               (Call)                         => misuse;
        (Trying)               (Undecided)                    => (HalfOpen);
        (Trying)               (Cooled)                       => never;
    }
}
