//! What the end of an HTTP exchange means, by how much of the response was received.

use super::alphabet;

alphabet! {
    /// What the exchange is for.
    EndOf {
        /// The POST of a request.
        Request,
        /// The POST of `notifications/initialized`.
        Initialized,
        /// The POST of another notification, or of a response.
        OneWay,
        /// The POST of a response to a server request, while the client closes.
        Owed,
        /// The GET that resumes the stream of a request.
        Resume,
        /// The GET of the GET stream.
        Stream,
        /// The GET of the HTTP+SSE stream, after `initialize` was refused.
        Fallback,
        /// The GET of the HTTP+SSE stream.
        Sse,
        /// The DELETE of the session before, which the server still has; `initialize` follows.
        DeleteFormer,
        /// The DELETE of the session when the client closes.
        Delete,
    }
}

alphabet! {
    /// What was received of the response.
    Response {
        /// Nothing.
        Nothing,
        /// A 2xx status, and an empty body.
        Empty,
        /// As above, labelled as a stream of events.
        EmptyStream,
        /// JSON, complete or in part.
        Json,
        /// A stream of events.
        Events,
        /// A body that reads like a stream of events, without that label and without an event.
        NoEvents,
        /// 401 or 403.
        Unauthorized,
        /// 404, on a session.
        NotFound,
        /// 429, or 5xx but 501.
        Busy,
        /// Any other status.
        Refusal,
        /// A body that is ignored.
        Ignored,
    }
}

alphabet! {
    /// How the exchange ends.
    End {
        /// The response ended.
        Ended,
        /// The connection broke.
        Broke,
        /// The server was not reached.
        Unreached,
        /// The limits do not allow more of the response to be kept.
        Overflow,
    }
}

alphabet! {
    /// What follows.
    Decision {
        /// Nothing.
        Nothing,
        /// The body is the response, or an error: [`http_answer`](super::http_answer) decides.
        Judge,
        /// The stream of a request broke: [`resumption`] decides.
        Resume,
        /// As above, after the time in the response.
        ResumeLater,
        /// There is no response to the request, which may have run.
        Lost,
        /// The body is not a response to the request.
        NoAnswer,
        /// The request did not reach the server: [`http_reach`](super::http_reach) decides.
        Unreached,
        /// `notifications/initialized` was received: [`http_initialized`](super::http_initialized) decides.
        InitializedAnswered,
        /// The exchange of `notifications/initialized` broke: [`http_initialized`](super::http_initialized) decides.
        InitializedBroke,
        /// The session expired.
        Expire,
        /// The server requires authorization.
        Authorize,
        /// The GET stream broke.
        StreamBroke,
        /// The GET of the HTTP+SSE stream was refused.
        SseRefused,
        /// The HTTP+SSE stream ended.
        SseEnded,
        /// The exchange of the HTTP+SSE stream broke.
        SseBroke,
        /// The GET of the HTTP+SSE stream did not reach the server.
        SseUnreached,
        /// `initialize` is sent again.
        SendAgain,
        /// The session is over.
        Deleted,
    }
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(purpose: EndOf, end: End, response: Response) -> Decision {
    match purpose {
        EndOf::Request => request(end, response),
        EndOf::Initialized => initialized(end, response),
        EndOf::OneWay => one_way(end, response),
        EndOf::Owed => Decision::Nothing,
        EndOf::Resume => resume(end, response),
        EndOf::Stream => Decision::StreamBroke,
        EndOf::Fallback => fallback(end, response),
        EndOf::Sse => sse(end, response),
        EndOf::DeleteFormer => Decision::SendAgain,
        EndOf::Delete => Decision::Deleted,
    }
}

const fn request(end: End, response: Response) -> Decision {
    match end {
        End::Ended => match response {
            Response::Nothing | Response::EmptyStream => Decision::Lost,
            Response::Empty | Response::NoEvents => Decision::NoAnswer,
            Response::Events => Decision::Resume,
            Response::Json | Response::Unauthorized | Response::NotFound | Response::Busy | Response::Refusal => {
                Decision::Judge
            }
            // Over HTTP+SSE the response arrives on the stream.
            Response::Ignored => Decision::Nothing,
        },
        End::Broke => match response {
            Response::Nothing | Response::Empty | Response::EmptyStream | Response::Json => Decision::Lost,
            Response::Events | Response::NoEvents => Decision::Resume,
            Response::Unauthorized | Response::NotFound | Response::Busy | Response::Refusal => Decision::Judge,
            Response::Ignored => Decision::Nothing,
        },
        End::Unreached => Decision::Unreached,
        End::Overflow => Decision::NoAnswer,
    }
}

const fn initialized(end: End, response: Response) -> Decision {
    match end {
        End::Ended | End::Broke | End::Overflow => match response {
            Response::Nothing => Decision::InitializedBroke,
            Response::Unauthorized | Response::NotFound | Response::Busy | Response::Refusal => Decision::Judge,
            Response::Empty
            | Response::EmptyStream
            | Response::Json
            | Response::Events
            | Response::NoEvents
            | Response::Ignored => Decision::InitializedAnswered,
        },
        End::Unreached => Decision::Unreached,
    }
}

const fn one_way(end: End, response: Response) -> Decision {
    match end {
        End::Ended | End::Broke | End::Overflow => match response {
            Response::Unauthorized | Response::NotFound | Response::Busy | Response::Refusal => Decision::Judge,
            Response::Nothing
            | Response::Empty
            | Response::EmptyStream
            | Response::Json
            | Response::Events
            | Response::NoEvents
            | Response::Ignored => Decision::Nothing,
        },
        End::Unreached => Decision::Unreached,
    }
}

const fn resume(end: End, response: Response) -> Decision {
    match end {
        End::Ended | End::Broke | End::Unreached => match response {
            Response::NotFound => Decision::Expire,
            Response::Busy => Decision::ResumeLater,
            Response::Unauthorized | Response::Refusal => Decision::Lost,
            Response::Nothing
            | Response::Empty
            | Response::EmptyStream
            | Response::Json
            | Response::Events
            | Response::NoEvents
            | Response::Ignored => Decision::Resume,
        },
        End::Overflow => Decision::NoAnswer,
    }
}

const fn fallback(end: End, response: Response) -> Decision {
    match end {
        End::Ended | End::Overflow => sse_ended(response, Decision::SseEnded),
        End::Broke => Decision::SseBroke,
        End::Unreached => Decision::SseUnreached,
    }
}

const fn sse(end: End, response: Response) -> Decision {
    match end {
        End::Ended | End::Overflow => sse_ended(response, Decision::SseEnded),
        End::Broke => sse_ended(response, Decision::SseBroke),
        End::Unreached => Decision::SseUnreached,
    }
}

const fn sse_ended(response: Response, stream: Decision) -> Decision {
    match response {
        Response::Unauthorized => Decision::Authorize,
        Response::NotFound | Response::Busy | Response::Refusal => Decision::SseRefused,
        Response::Nothing
        | Response::Empty
        | Response::EmptyStream
        | Response::Json
        | Response::Events
        | Response::NoEvents
        | Response::Ignored => stream,
    }
}

alphabet! {
    /// The request whose stream broke.
    Broken {
        /// It is over.
        Over,
        /// It waits for its response; the handshake with a legacy server is done.
        Legacy,
        /// It waits for its response; the server is modern or its era is not known yet.
        Other,
    }
}

alphabet! {
    /// The last event id of the stream.
    LastId {
        /// None, or an empty one.
        None,
        /// One that a GET may name.
        Named,
    }
}

alphabet! {
    /// What follows for a stream that broke.
    Resumption {
        /// It is resumed from the last id (specification 2025-11-25, "Resumability and Redelivery").
        Resume,
        /// There is no response to the request, which may have run.
        Lost,
        /// Nothing.
        Nothing,
    }
}

/// Decides what follows for a stream that broke.
pub(crate) const fn resumption(request: Broken, last_id: LastId) -> Resumption {
    match request {
        Broken::Over => Resumption::Nothing,
        Broken::Legacy => match last_id {
            LastId::None => Resumption::Lost,
            LastId::Named => Resumption::Resume,
        },
        // Modern streams cannot be resumed.
        Broken::Other => Resumption::Lost,
    }
}

/// [`resumption`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_resumption(request: Broken, last_id: LastId) -> Resumption {
    #[cfg(feature = "rows")]
    super::rows::taken("http_end::resumption", &[&request, &last_id]);
    resumption(request, last_id)
}

alphabet! {
    /// How many bytes of an incomplete response are kept.
    Kept {
        /// Few.
        Short,
        /// More than is kept for an exchange whose request is over.
        Long,
    }
}

alphabet! {
    /// What happens to an exchange whose request is over. It is dropped if it does not end soon.
    Rest {
        /// The stream is read further: it may bring other messages.
        Read,
        /// The rest is ignored.
        Ignore,
    }
}

/// Decides what happens to an exchange whose request is over.
pub(crate) const fn rest(response: Response, kept: Kept) -> Rest {
    match response {
        Response::Events | Response::NoEvents => match kept {
            Kept::Short => Rest::Read,
            Kept::Long => Rest::Ignore,
        },
        Response::Nothing
        | Response::Empty
        | Response::EmptyStream
        | Response::Json
        | Response::Unauthorized
        | Response::NotFound
        | Response::Busy
        | Response::Refusal
        | Response::Ignored => Rest::Ignore,
    }
}

/// [`rest`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_rest(response: Response, kept: Kept) -> Rest {
    #[cfg(feature = "rows")]
    super::rows::taken("http_end::rest", &[&response, &kept]);
    rest(response, kept)
}

/// [`decide`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take(purpose: EndOf, end: End, response: Response) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("http_end::end", &[&purpose, &end, &response]);
    decide(purpose, end, response)
}
