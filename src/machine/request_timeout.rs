//! What follows when a request has no response until its deadline.

use super::alphabet;

alphabet! {
    /// The request whose deadline passed.
    Overdue {
        /// A request of the embedder.
        Call,
        /// A listen stream that the server did not acknowledge.
        Stream,
        /// The cancellation of a task.
        TaskCancellation,
        /// Any other request of the engine.
        Engine,
    }
}

alphabet! {
    /// What follows.
    Decision {
        /// The [`request`](super::request) table decides.
        TimeOut,
        /// The [`listen_stream`](super::listen_stream) table decides.
        Silence,
        /// The request is dropped without a cancellation: nothing depends on its response.
        GiveUp,
        /// The request is cancelled, and counts as failed.
        Fail,
    }
}

/// What follows when the deadline of a request passes.
pub(crate) const fn decide(overdue: Overdue) -> Decision {
    match overdue {
        Overdue::Call => Decision::TimeOut,
        Overdue::Stream => Decision::Silence,
        Overdue::TaskCancellation => Decision::GiveUp,
        Overdue::Engine => Decision::Fail,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(overdue: Overdue) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("request_timeout", &[&overdue]);
    decide(overdue)
}
