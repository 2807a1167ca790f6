//! Whether a hub sends calls to a server: after several failures in a row, calls are refused for some time.

use super::table::{decision_table, state_table, values};

values! {
    /// Whether calls are allowed.
    State {
        /// Calls are allowed.
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

    /// How a call ended.
    End {
        /// The server answered with a result or an error, or requires input.
        Answered,
        TimedOut,
        /// The response is invalid, or the connection broke during the call.
        Failed,
        /// The call was not sent, or the embedder cancelled it.
        NotSent,
    }
}

state_table! {
    /// Whether calls to a server of a hub are allowed.
    "breaker" step: State, Input, Effect;
    (Closed)               (Call)                         => stay;
    (Closed)               (Answered|Reset)               => stay [Clear];
    (Closed)               (Failed)                       => stay [Count];
    (Closed)               (FailedAgain)                  => (Open) [StartCooldown];
    (Closed)               (Undecided|Cooled)             => ignore;
    (Open)                 (Call)                         => misuse;
    // A call that was made before the cooldown is answered.
    (Open)                 (Answered|Reset)               => (Closed) [Clear];
    (Open)                 (Cooled)                       => (HalfOpen);
    (Open)                 (Failed|FailedAgain|Undecided) => ignore;
    (HalfOpen)             (Call)                         => (Trying);
    (HalfOpen|Trying)      (Answered|Reset)               => (Closed) [Clear];
    (HalfOpen|Trying)      (Failed|FailedAgain)           => (Open) [StartCooldown];
    (HalfOpen)             (Undecided|Cooled)             => ignore;
    (Trying)               (Call)                         => misuse;
    (Trying)               (Undecided)                    => (HalfOpen);
    (Trying)               (Cooled)                       => ignore;
}

decision_table! {
    /// What the end of a call says about the server. If it was not up, the call may not have reached it. The limit is
    /// that of failures in a row, with this one.
    "call_end" judge(end: End, is_up: bool, is_limit: bool) -> Input;
    (Answered) (_)     (_)     => Answered;
    (NotSent)  (_)     (_)     => Undecided;
    (TimedOut) (false) (_)     => Undecided;
    (TimedOut) (true)  (false) => Failed;
    (TimedOut) (true)  (true)  => FailedAgain;
    (Failed)   (_)     (false) => Failed;
    (Failed)   (_)     (true)  => FailedAgain;
}
