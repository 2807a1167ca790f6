//! What the head of an HTTP response means: how its body is read.

use super::{QuirkKind, alphabet};

alphabet! {
    /// What the exchange is for.
    HeadOf {
        /// The POST of a request, over Streamable HTTP.
        Request,
        /// The POST of a notification or a response, over Streamable HTTP.
        OneWay,
        /// The POST of a request, over HTTP+SSE.
        SseRequest,
        /// The POST of a notification or a response, over HTTP+SSE.
        SseOneWay,
        /// The GET that resumes the stream of a request.
        Resume,
        /// The GET of the GET stream.
        Stream,
        /// The GET of the HTTP+SSE stream.
        Sse,
        /// The DELETE of a session.
        Delete,
        /// Anything for a request that is over.
        Over,
    }
}

alphabet! {
    /// The status.
    Status {
        /// 202.
        Accepted,
        /// 2xx other than 202.
        Good,
        /// 307 or 308.
        Moved,
        /// Any other.
        Bad,
    }
}

/// How the body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The body is JSON or a stream of events, which its first bytes show.
    ReadAny,
    /// The body is a stream of events.
    ReadEvents,
    /// The body is ignored: the message was delivered.
    Delivered,
    /// As [`Delivered`](Self::Delivered), and the deviation is recorded.
    DeliveredAs(QuirkKind),
    /// The body is ignored.
    Ignore,
    /// The body is the text of a refusal.
    ReadRefusal,
    /// The request is sent to the redirect's target.
    Redirect,
    /// [`get_stream`](super::get_stream) decides.
    GetStream,
    /// The response has no effect.
    Nothing,
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(purpose: HeadOf, status: Status) -> Decision {
    match purpose {
        HeadOf::Request => match status {
            Status::Accepted | Status::Good => Decision::ReadAny,
            Status::Moved => Decision::Redirect,
            Status::Bad => Decision::ReadRefusal,
        },
        HeadOf::OneWay => match status {
            Status::Accepted => Decision::Delivered,
            Status::Good => Decision::DeliveredAs(QuirkKind::NotificationStatus),
            Status::Moved => Decision::Redirect,
            Status::Bad => Decision::ReadRefusal,
        },
        HeadOf::SseRequest => match status {
            // The response arrives on the stream.
            Status::Accepted | Status::Good => Decision::Ignore,
            Status::Moved => Decision::Redirect,
            Status::Bad => Decision::ReadRefusal,
        },
        HeadOf::SseOneWay => match status {
            Status::Accepted | Status::Good => Decision::Delivered,
            Status::Moved => Decision::Redirect,
            Status::Bad => Decision::ReadRefusal,
        },
        HeadOf::Resume | HeadOf::Sse => match status {
            Status::Accepted | Status::Good => Decision::ReadEvents,
            Status::Moved => Decision::Redirect,
            Status::Bad => Decision::ReadRefusal,
        },
        HeadOf::Stream => match status {
            Status::Moved => Decision::Redirect,
            Status::Accepted | Status::Good | Status::Bad => Decision::GetStream,
        },
        // The response to a DELETE has no effect.
        HeadOf::Delete => Decision::Ignore,
        HeadOf::Over => Decision::Nothing,
    }
}

/// [`decide`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take(purpose: HeadOf, status: Status) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("http_head", &[&purpose, &status]);
    decide(purpose, status)
}
