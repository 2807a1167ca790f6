//! A call that the server runs as a task (specification of the extension `io.modelcontextprotocol/tasks`; 2025-11-25,
//! "Tasks").

use super::table::{state_table, values};

values! {
    State {
        /// The server has just created it.
        Created,
        /// The server works on it, and is polled.
        Working,
        /// The server said that it had ended when it created it, and has to give the outcome.
        Done,
        /// The embedder is asked for input. It is polled meanwhile: it may end without the input.
        Asking,
        /// The input is being sent.
        Updating,
        /// Its result is being requested, which 2025-11-25 has a request for.
        Fetching,
        /// It ended, or is given up.
        Over,
    }

    Input {
        Working,
        /// It requires input from the embedder that was not required before.
        InputWanted,
        /// It requires input that was not required before, all of which the engine has.
        InputKnown,
        /// It requires input, and names none that was not required before, or none that matters in this state.
        InputPending,
        /// Its result has to be requested: it ended, or requires input (2025-11-25).
        ResultWaits,
        /// It ended, with its outcome.
        Outcome,
        /// It ended; the outcome was not sent with that.
        EndedWithoutOutcome,
        /// The time to poll it.
        Due,
        /// The embedder gave the input.
        InputGiven,
        /// The server took the input.
        Updated,
        /// The server sent the result.
        Fetched,
        /// The server refused a request about it.
        Refused,
        /// What the server sent about it is invalid.
        Invalid,
        /// The exchange of a request about it broke, and the connection remains. The request may be repeated.
        Broken,
        /// The call ends without the server: it is cancelled, timed out, or its input is declined.
        Abandoned,
    }

    Effect {
        /// Poll it after its interval.
        Wait,
        /// Send `tasks/get`.
        Poll,
        /// Send `tasks/get`, while the call waits for the embedder.
        PollAsking,
        /// Ask the embedder for input.
        Ask,
        /// Send `tasks/update`.
        Update,
        /// Send `tasks/result`.
        Fetch,
        /// Send `tasks/cancel`.
        Cancel,
        /// End the call with what the server sent.
        End,
        /// End the call, because what the server sent is invalid.
        EndInvalid,
        /// End the call, because a task that had ended has not.
        EndReopened,
    }
}

state_table! {
    /// A call that the server runs as a task.
    "task" step: State, Input, Effect;
    (Created)  (Working)                      => (Working)  [Wait];
    (Created)  (InputPending)                 => (Working)  [Poll];
    (Created)  (ResultWaits)                  => (Fetching) [Fetch];
    (Created)  (EndedWithoutOutcome)          => (Done)     [Poll];
    (Created)  (InputWanted|InputKnown|Outcome|Due|InputGiven|Updated|Fetched|Refused|Invalid|Broken|Abandoned) => never;
    (Working)  (Due)                          => stay       [Poll];
    (Working)  (Working|InputPending|Broken)  => stay       [Wait];
    (Working)  (InputWanted)                  => (Asking)   [Ask Wait];
    (Working)  (InputKnown)                   => (Updating) [Update];
    (Working)  (ResultWaits)                  => (Fetching) [Fetch];
    (Working)  (Outcome|Refused)              => (Over)     [End];
    (Working)  (Invalid)                      => (Over)     [Cancel EndInvalid];
    (Working)  (Abandoned)                    => (Over)     [Cancel];
    (Working)  (EndedWithoutOutcome|InputGiven|Updated|Fetched) => never;
    (Done)     (Due)                          => stay       [Poll];
    (Done)     (Broken)                       => stay       [Wait];
    (Done)     (Outcome|Refused)              => (Over)     [End];
    (Done)     (Invalid)                      => (Over)     [EndInvalid];
    (Done)     (Working|InputPending)         => (Over)     [Cancel EndReopened];
    (Done)     (Abandoned)                    => (Over);
    (Done)     (InputWanted|InputKnown|ResultWaits|EndedWithoutOutcome|InputGiven|Updated|Fetched) => never;
    (Asking)   (InputGiven)                   => (Updating) [Update];
    (Asking)   (Due)                          => stay       [PollAsking];
    (Asking)   (Working|InputPending|Broken)  => stay       [Wait];
    (Asking)   (Outcome|Refused)              => (Over)     [End];
    (Asking)   (Invalid)                      => (Over)     [Cancel EndInvalid];
    (Asking)   (Abandoned)                    => (Over)     [Cancel];
    (Asking)   (InputWanted|InputKnown|ResultWaits|EndedWithoutOutcome|Updated|Fetched) => never;
    (Updating) (Due)                          => stay       [Update];
    (Updating) (Broken)                       => stay       [Wait];
    (Updating) (Updated)                      => (Working)  [Wait];
    (Updating) (Refused)                      => (Over)     [End];
    (Updating) (Abandoned)                    => (Over)     [Cancel];
    (Updating) (Working|InputWanted|InputKnown|InputPending|ResultWaits|Outcome|EndedWithoutOutcome|InputGiven) => never;
    (Updating) (Fetched|Invalid)              => never;
    (Fetching) (Due)                          => stay       [Fetch];
    (Fetching) (Broken)                       => stay       [Wait];
    (Fetching) (Fetched|Refused)              => (Over)     [End];
    (Fetching) (Abandoned)                    => (Over)     [Cancel];
    (Fetching) (Working|InputWanted|InputKnown|InputPending|ResultWaits|Outcome|EndedWithoutOutcome|InputGiven) => never;
    (Fetching) (Updated|Invalid)              => never;
    (Over)     (Due) => ignore;
    (Over)     (Working|InputWanted|InputKnown|InputPending|ResultWaits|Outcome|EndedWithoutOutcome) => never;
    (Over)     (Abandoned)                                                   => ignore;
    (Over)     (InputGiven|Updated|Fetched|Refused|Invalid|Broken)           => never;
}
