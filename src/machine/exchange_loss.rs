//! What follows when the exchange of a request breaks before its response (HTTP).

use super::alphabet;

alphabet! {
    /// The request whose exchange broke.
    Lost {
        /// `server/discover` or `initialize` in the handshake.
        Handshake,
        /// A page of a list.
        List,
        /// The listen stream.
        Stream,
        /// A request whose failure is reported: a subscription to a resource or its end, or the log level.
        Reported,
        /// A request on whose response nothing depends: a timer handles a missing response to a keepalive request, and
        /// the cancellation of a task ends no call.
        Unneeded,
        /// A request of the embedder.
        Call,
    }
}

alphabet! {
    /// What follows.
    Recovery {
        /// [`handshake::broken`](super::handshake::broken) decides whether it is sent again.
        Handshake,
        /// [`list_error::broken`](super::list_error::broken) decides whether the page is requested again.
        List,
        /// The stream ended: [`listen_stream`](super::listen_stream) decides whether it is requested again.
        EndStream,
        /// The request failed.
        Fail,
        /// The request is over.
        End,
        /// [`replay`](super::replay) decides whether the request may run twice.
        Replay,
    }
}

/// What follows when the exchange of a request breaks.
pub(crate) const fn decide(lost: Lost) -> Recovery {
    match lost {
        Lost::Handshake => Recovery::Handshake,
        Lost::List => Recovery::List,
        Lost::Stream => Recovery::EndStream,
        Lost::Reported => Recovery::Fail,
        Lost::Unneeded => Recovery::End,
        Lost::Call => Recovery::Replay,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(lost: Lost) -> Recovery {
    #[cfg(feature = "rows")]
    super::rows::taken("exchange_loss", &[&lost]);
    decide(lost)
}
