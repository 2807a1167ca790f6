//! How a server learns that the response to a request is not needed any more, and whether it is asked to cancel a
//! task.

use super::Wire;
use super::alphabet;
use super::era_change::Phase;
use super::gate::Declaration;
use crate::protocol::Era;

alphabet! {
    /// The sent request whose response is not needed any more.
    Request {
        /// It is cancelled, and not about a task.
        Plain,
        /// It is cancelled, and creates a task that is not known yet: the late response names the task, which is then
        /// cancelled.
        CreatesTask,
        /// It is cancelled, and about a task, which the [`task`](super::task) table cancels (2025-11-25, "Cancellation":
        /// `notifications/cancelled` is not for tasks).
        AboutTask,
        /// It is dropped without a cancellation: "The `initialize` request MUST NOT be cancelled by clients" (2025-11-25,
        /// "Cancellation").
        Dropped,
    }
}

alphabet! {
    /// What the engine does.
    Means {
        /// Send `notifications/cancelled`.
        Notify,
        /// Close the request's exchange, and send `notifications/cancelled`.
        CloseAndNotify,
        /// Close the request's exchange.
        Close,
        /// Nothing.
        Nothing,
    }
}

/// How the server learns that a response is not needed any more. Over HTTP in the modern era, closing the exchange is the
/// cancellation (specification 2026-07-28, "Streamable HTTP", Cancellation).
pub(crate) const fn decide(wire: Wire, request: Request, era: Era) -> Means {
    match wire {
        Wire::Pipe => match request {
            Request::Plain => Means::Notify,
            Request::CreatesTask | Request::AboutTask | Request::Dropped => Means::Nothing,
        },
        Wire::Http => match request {
            Request::Plain => match era {
                Era::Legacy => Means::CloseAndNotify,
                Era::Modern => Means::Close,
            },
            Request::CreatesTask | Request::AboutTask | Request::Dropped => Means::Close,
        },
    }
}

alphabet! {
    /// What becomes of a task whose outcome is not needed any more.
    TaskEnd {
        /// `tasks/cancel` is requested.
        Cancel,
        /// It runs on.
        Leave,
    }
}

/// What becomes of a task whose outcome is not needed any more. `declared`: the capability `tasks.cancel` of 2025-11-25. A
/// modern server that runs tasks has `tasks/cancel`.
pub(crate) const fn of_task(phase: Phase, era: Era, declared: Declaration) -> TaskEnd {
    match phase {
        Phase::Connecting => TaskEnd::Leave,
        Phase::Ready => match era {
            Era::Modern => TaskEnd::Cancel,
            Era::Legacy => match declared {
                Declaration::Declared => TaskEnd::Cancel,
                Declaration::Undeclared | Declaration::Unknown => TaskEnd::Leave,
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(wire: Wire, request: Request, era: Era) -> Means {
    #[cfg(feature = "rows")]
    super::rows::taken("cancellation", &[&wire, &request, &era]);
    decide(wire, request, era)
}

/// [`of_task`], recorded with the feature `rows`.
pub(crate) fn take_of_task(phase: Phase, era: Era, declared: Declaration) -> TaskEnd {
    #[cfg(feature = "rows")]
    super::rows::taken("cancellation::of_task", &[&phase, &era, &declared]);
    of_task(phase, era, declared)
}
