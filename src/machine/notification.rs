//! What follows from a notification of the server.

use super::alphabet;
use super::listen_stream::Admission;

alphabet! {
    /// What the notification is about.
    Notification {
        /// A request of the server that it cancels (`notifications/cancelled`).
        Cancelled,
        /// A listen stream that the server ends (`notifications/cancelled`).
        StreamCancelled,
        /// The progress of an open request that asked for it.
        Progress,
        /// The end of an elicitation at a URL, which the client offers.
        ElicitationComplete,
        /// The acknowledgement of a listen stream.
        Acknowledged,
        /// The change of a list.
        ListChanged,
        /// The status of a task that a call runs as, while no request about the task is on its way.
        CallTask,
        /// As `CallTask`, while a request about the task is on its way, or the embedder is asked for its input.
        BusyTask,
        /// The status of another task.
        OtherTask,
        /// The change of a resource.
        ResourceUpdated,
        /// Anything else.
        Other,
    }
}

alphabet! {
    /// How far the connection is.
    Phase {
        /// The handshake is not done.
        Handshake,
        /// Discovery is in progress.
        Discovery,
        /// The client is ready.
        Ready,
    }
}

alphabet! {
    /// What follows.
    Route {
        /// The request of the server is withdrawn.
        Cancel,
        /// The stream is over.
        EndStream,
        /// The progress is reported, and the request gets more time.
        Progress,
        /// The end of the elicitation is reported, if it is one of this connection's.
        Elicitation,
        /// The [`listen_stream`](super::listen_stream) table decides.
        Stream,
        /// The [`discovery`](super::discovery) and [`refresh`](super::refresh) tables decide.
        Refresh,
        /// The [`task`](super::task) table decides.
        Task,
        /// It is reported.
        Report,
        /// It is held until the client is ready, and then decided again.
        Hold,
        /// It is counted as left out.
        LeaveOut,
        /// Nothing: the response to the request about the task tells the same.
        Nothing,
    }
}

/// What follows from a notification. `admission`: what [`listen_stream`](super::listen_stream) decides for a notification
/// of a change; others are admitted.
pub(crate) const fn decide(notification: Notification, admission: Admission, phase: Phase) -> Route {
    match notification {
        Notification::Cancelled => Route::Cancel,
        Notification::StreamCancelled => Route::EndStream,
        Notification::Progress => Route::Progress,
        Notification::ElicitationComplete => Route::Elicitation,
        Notification::Acknowledged => match phase {
            Phase::Handshake => Route::Hold,
            Phase::Discovery | Phase::Ready => Route::Stream,
        },
        Notification::ListChanged => match admission {
            Admission::Ignore => Route::LeaveOut,
            Admission::Admit => match phase {
                Phase::Handshake => Route::Hold,
                Phase::Discovery | Phase::Ready => Route::Refresh,
            },
        },
        Notification::CallTask => match admission {
            Admission::Ignore => Route::LeaveOut,
            Admission::Admit => Route::Task,
        },
        Notification::BusyTask => match admission {
            Admission::Ignore => Route::LeaveOut,
            Admission::Admit => Route::Nothing,
        },
        Notification::OtherTask | Notification::ResourceUpdated => match admission {
            Admission::Ignore => Route::LeaveOut,
            Admission::Admit => report(phase),
        },
        Notification::Other => report(phase),
    }
}

const fn report(phase: Phase) -> Route {
    match phase {
        Phase::Handshake | Phase::Discovery => Route::Hold,
        Phase::Ready => Route::Report,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(notification: Notification, admission: Admission, phase: Phase) -> Route {
    #[cfg(feature = "rows")]
    super::rows::taken("notification", &[&notification, &admission, &phase]);
    decide(notification, admission, phase)
}
