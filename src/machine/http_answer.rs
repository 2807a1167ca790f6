//! What the response to a POST means, by its status and by what its body says: first whether the session expired,
//! then what follows for the message. Only a status shows that a request did not run: with 2xx, an error means an
//! expired session only if its code and its whole message are known ones of transports.

use super::{QuirkKind, alphabet};

alphabet! {
    /// What was posted.
    Post {
        /// `server/discover` in the handshake.
        Discover,
        /// `initialize`.
        Initialize,
        /// `initialize`, and the response says that the server is initialized already: it still has the session before.
        InitializeAgain,
        /// `tools/call`, with the headers that the modern era requires.
        ModernCall,
        /// Any other request.
        Request,
        /// `notifications/initialized`.
        Initialized,
        /// Any other notification, or a response.
        OneWay,
    }
}

alphabet! {
    /// The session that the message was sent in.
    Session {
        /// None.
        None,
        /// A session.
        Held,
        /// A session that replaced an expired one: for 404, after a 404 to the same method; for 401, after any.
        Renewed,
        /// As above, and this request was sent again because of it.
        Resent,
    }
}

alphabet! {
    /// The status.
    Status {
        /// 2xx.
        Good,
        /// 400.
        BadRequest,
        /// 401 with a challenge, or 403.
        Unauthorized,
        /// 401 without a challenge.
        Unchallenged,
        /// 404.
        NotFound,
        /// 405.
        NotAllowed,
        /// 429 with `Retry-After`.
        Busy,
        /// Any other 4xx.
        Client,
        /// 503.
        Unavailable,
        /// 503 with `Retry-After`.
        UnavailableNow,
        /// Any other 5xx.
        Server,
        /// Any other.
        Other,
    }
}

alphabet! {
    /// What the text of the body, or of the error in it, says.
    Words {
        /// Anything else.
        Other,
        /// That the server does not know the session. With a 2xx status, the code and the whole message have to be
        /// known ones.
        NoSession,
    }
}

alphabet! {
    /// The JSON-RPC error in the body.
    Error {
        /// There is none.
        None,
        /// -32601.
        MethodNotFound,
        /// -32602.
        InvalidParams,
        /// -32002, "resource not found" in 2025-11-25.
        ResourceNotFound,
        /// -32020, of the modern era: a header does not match the body.
        HeaderMismatch,
        /// -32021 or -32022, of the modern era.
        Modern,
        /// Any other.
        Other,
    }
}

/// Whether the session expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// No; [`meaning`] decides.
    No,
    /// Yes, and the message was not processed.
    Unprocessed,
    /// As [`Unprocessed`](Self::Unprocessed), by the status alone: if the next session answers the method with it, too, that
    /// is the method's response.
    UnprocessedByStatus,
    /// As [`Unprocessed`](Self::Unprocessed), and the deviation is recorded.
    UnprocessedAs(QuirkKind),
    /// Yes, but the request may have run; the deviation is recorded.
    AnsweredAs(QuirkKind),
}

/// Whether the response says that the session expired.
pub(crate) const fn expiry(status: Status, session: Session, words: Words, error: Error) -> Expiry {
    match status {
        Status::Good => match session {
            Session::Held | Session::Renewed => match words {
                Words::NoSession => Expiry::AnsweredAs(QuirkKind::SessionExpiredStatus),
                Words::Other => Expiry::No,
            },
            // A new session did not help.
            Session::Resent | Session::None => Expiry::No,
        },
        Status::BadRequest | Status::Unavailable | Status::UnavailableNow => match session {
            Session::Held | Session::Renewed => match words {
                Words::NoSession => match error {
                    Error::MethodNotFound | Error::InvalidParams => Expiry::No,
                    Error::None | Error::ResourceNotFound | Error::HeaderMismatch | Error::Modern | Error::Other => {
                        Expiry::UnprocessedAs(QuirkKind::SessionExpiredStatus)
                    }
                },
                Words::Other => Expiry::No,
            },
            Session::Resent | Session::None => Expiry::No,
        },
        Status::NotFound => match session {
            Session::Held => match words {
                Words::NoSession => Expiry::Unprocessed,
                Words::Other => match error {
                    Error::None | Error::HeaderMismatch | Error::Modern | Error::Other => Expiry::UnprocessedByStatus,
                    Error::MethodNotFound | Error::InvalidParams | Error::ResourceNotFound => Expiry::No,
                },
            },
            Session::Renewed => match words {
                Words::NoSession => Expiry::Unprocessed,
                Words::Other => Expiry::No,
            },
            Session::Resent | Session::None => Expiry::No,
        },
        Status::Unchallenged => match session {
            // A new session is tried once; after that the server requires authorization.
            Session::Held => Expiry::UnprocessedAs(QuirkKind::SessionExpiredStatus),
            Session::Renewed | Session::Resent | Session::None => Expiry::No,
        },
        Status::Unauthorized | Status::NotAllowed | Status::Busy | Status::Client | Status::Server | Status::Other => {
            Expiry::No
        }
    }
}

/// What follows for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The body is the response.
    Deliver,
    /// The server requires authorization.
    Authorize,
    /// The message is sent again, after the time in the response.
    Retry,
    /// The session before is ended with DELETE; then `initialize` is sent again. The deviation is recorded.
    EndFormerAs(QuirkKind),
    /// The error is the response to the request.
    Answer,
    /// The tools are listed again, and the call is made again with the headers that its schema requires. The second
    /// time, the error is its response.
    RenewHeaders,
    /// [`http_sse`](super::http_sse) decides whether the server has HTTP+SSE.
    RefusedAsSse,
    /// The request is refused by its status.
    Refuse,
    /// `notifications/initialized` was received: [`http_initialized`](super::http_initialized) decides.
    Received,
    /// Nothing.
    Nothing,
}

/// What follows for the message if the session did not expire.
pub(crate) const fn meaning(status: Status, post: Post, error: Error) -> Meaning {
    match status {
        Status::Good => good(post),
        Status::Unauthorized | Status::Unchallenged => Meaning::Authorize,
        Status::Busy | Status::UnavailableNow => match post {
            // Notifications and responses have no deadline either; only the handshake requires one of them.
            Post::OneWay => Meaning::Nothing,
            Post::Discover
            | Post::Initialize
            | Post::InitializeAgain
            | Post::ModernCall
            | Post::Request
            | Post::Initialized => Meaning::Retry,
        },
        Status::BadRequest | Status::NotFound | Status::NotAllowed => match post {
            Post::Initialize => match error {
                Error::None => Meaning::RefusedAsSse,
                Error::MethodNotFound
                | Error::InvalidParams
                | Error::ResourceNotFound
                | Error::HeaderMismatch
                | Error::Modern
                | Error::Other => Meaning::Answer,
            },
            Post::Discover
            | Post::InitializeAgain
            | Post::ModernCall
            | Post::Request
            | Post::Initialized
            | Post::OneWay => refused(post, error),
        },
        Status::Client => refused(post, error),
        Status::Unavailable | Status::Server => match post {
            // A 5xx does not show the server's era, unless its error is of the modern one.
            Post::Discover => match error {
                Error::HeaderMismatch | Error::Modern => Meaning::Answer,
                Error::None | Error::MethodNotFound | Error::InvalidParams | Error::ResourceNotFound | Error::Other => {
                    Meaning::Refuse
                }
            },
            Post::ModernCall => by_error(error),
            Post::Initialize | Post::InitializeAgain | Post::Request | Post::Initialized | Post::OneWay => {
                refused(post, error)
            }
        },
        Status::Other => match post {
            Post::ModernCall => by_error(error),
            Post::Discover
            | Post::Initialize
            | Post::InitializeAgain
            | Post::Request
            | Post::Initialized
            | Post::OneWay => refused(post, error),
        },
    }
}

const fn good(post: Post) -> Meaning {
    match post {
        Post::InitializeAgain => Meaning::EndFormerAs(QuirkKind::AlreadyInitialized),
        Post::Discover | Post::Initialize | Post::ModernCall | Post::Request | Post::Initialized | Post::OneWay => {
            Meaning::Deliver
        }
    }
}

const fn refused(post: Post, error: Error) -> Meaning {
    match post {
        Post::InitializeAgain => Meaning::EndFormerAs(QuirkKind::AlreadyInitialized),
        Post::Initialized => Meaning::Received,
        Post::OneWay => Meaning::Nothing,
        Post::ModernCall => match error {
            Error::HeaderMismatch => Meaning::RenewHeaders,
            Error::None
            | Error::MethodNotFound
            | Error::InvalidParams
            | Error::ResourceNotFound
            | Error::Modern
            | Error::Other => by_error(error),
        },
        Post::Discover | Post::Initialize | Post::Request => by_error(error),
    }
}

const fn by_error(error: Error) -> Meaning {
    match error {
        Error::None => Meaning::Refuse,
        Error::MethodNotFound
        | Error::InvalidParams
        | Error::ResourceNotFound
        | Error::HeaderMismatch
        | Error::Modern
        | Error::Other => Meaning::Answer,
    }
}

/// [`expiry`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_expiry(status: Status, session: Session, words: Words, error: Error) -> Expiry {
    #[cfg(feature = "rows")]
    super::rows::taken("http_answer::expiry", &[&status, &session, &words, &error]);
    expiry(status, session, words, error)
}

/// [`meaning`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_meaning(status: Status, post: Post, error: Error) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("http_answer::meaning", &[&status, &post, &error]);
    meaning(status, post, error)
}
