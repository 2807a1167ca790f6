//! Whether a request of the server is taken up, by the output that waits. Each request that is taken up gets a
//! response, so a server that sends requests without end is disconnected while nothing is polled or delivered.

use super::alphabet;
use super::server_request::Asked;

alphabet! {
    /// The output that waits to be polled or delivered.
    Backlog {
        /// There is room.
        Free,
        /// Seven eighths of [`Limits::output`](crate::Limits::output) or
        /// [`Limits::output_bytes`](crate::Limits::output_bytes) are used; the rest is reserved for responses.
        Full,
        /// A limit is reached.
        Overrun,
    }
}

alphabet! {
    /// What happens to the request.
    Admission {
        /// [`server_request`](super::server_request) decides.
        Accept,
        /// As `Accept`, but what needs the embedder is refused.
        AcceptAlone,
        /// The connection ends.
        EndConnection,
    }
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(asked: Asked, backlog: Backlog) -> Admission {
    match asked {
        Asked::Legacy => match backlog {
            Backlog::Free => Admission::Accept,
            Backlog::Full => Admission::AcceptAlone,
            Backlog::Overrun => Admission::EndConnection,
        },
        // A modern server sends no requests and expects no responses; an input is a part of a response.
        Asked::Modern | Asked::Input => Admission::Accept,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(asked: Asked, backlog: Backlog) -> Admission {
    #[cfg(feature = "rows")]
    super::rows::taken("admission", &[&asked, &backlog]);
    decide(asked, backlog)
}
