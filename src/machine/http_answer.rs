#![doc = "What the response to a POST means, by its status and by what its body says: first whether the session expired,"]
#![doc = "then what becomes of the message. Only a status tells that a request did not run: under a good one, an error means"]
#![doc = "an expired session only where code and whole message are those that transports are known to send."]
#![doc = ""]
#![doc = include_str!("http_answer.md")]

use super::{QuirkKind, alphabet};

alphabet! {
    /// What was posted.
    Post {
        /// `server/discover` in the handshake.
        Discover,
        /// `initialize`.
        Initialize,
        /// `initialize`, and the response says that the server is initialized already: it has the session before.
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
        /// A session that was opened since the one before was taken for expired: for 404, on a request of the same
        /// method; for 401, on any.
        Renewed,
        /// As above, and this very request was sent again for it.
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
    /// What the words of the body, or of the error in it, are about.
    Words {
        /// Anything else.
        Other,
        /// A session that the server does not know. Under a good status: code and message are known ones.
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
        /// -32002, by which 2025-11-25 says that there is no such resource.
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
#[non_exhaustive]
pub enum Expiry {
    /// No; [`meaning`] decides.
    No,
    /// Yes, and the message was not processed.
    Unprocessed,
    /// As [`Unprocessed`](Self::Unprocessed), and what the server did is recorded.
    UnprocessedAs(QuirkKind),
    /// Yes, but the request may have run; what the server did is recorded.
    AnsweredAs(QuirkKind),
}

/// Whether the response says that the session expired.
pub const fn expiry(status: Status, session: Session, words: Words, error: Error) -> Expiry {
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
                    Error::None | Error::HeaderMismatch | Error::Modern | Error::Other => Expiry::Unprocessed,
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
            // A new session is tried once; then the server requires authorization.
            Session::Held => Expiry::UnprocessedAs(QuirkKind::SessionExpiredStatus),
            Session::Renewed | Session::Resent | Session::None => Expiry::No,
        },
        Status::Unauthorized | Status::NotAllowed | Status::Busy | Status::Client | Status::Server | Status::Other => {
            Expiry::No
        }
    }
}

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// The body is the response.
    Deliver,
    /// The server requires authorization.
    Authorize,
    /// The message is sent again after the time that the server named.
    Retry,
    /// The session before is ended by DELETE; then `initialize` is sent again. What the server did is recorded.
    EndFormerAs(QuirkKind),
    /// The error is the response to the request.
    Answer,
    /// The tools are listed again, and the call is made again with the headers that its schema requires; the second
    /// time the error is its response.
    RenewHeaders,
    /// [`http_sse`](super::http_sse) decides whether the server has HTTP+SSE.
    RefusedAsSse,
    /// The request is refused by its status.
    Refuse,
    /// Nothing.
    Nothing,
}

/// What becomes of the message, where the session did not expire.
pub const fn meaning(status: Status, post: Post, error: Error) -> Meaning {
    match status {
        Status::Good => good(post),
        Status::Unauthorized | Status::Unchallenged => Meaning::Authorize,
        Status::Busy | Status::UnavailableNow => match post {
            // What is no request has no deadline either; only the handshake cannot do without it.
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
            // A fault of the server says nothing of its era, unless the error is of the modern one.
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
        Post::Initialized | Post::OneWay => Meaning::Nothing,
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

/// [`expiry`], recorded where rows are counted.
#[cfg(feature = "http")]
pub(crate) fn take_expiry(status: Status, session: Session, words: Words, error: Error) -> Expiry {
    #[cfg(feature = "rows")]
    super::rows::taken("http_answer::expiry", &[&status, &session, &words, &error]);
    expiry(status, session, words, error)
}

/// [`meaning`], recorded where rows are counted.
#[cfg(feature = "http")]
pub(crate) fn take_meaning(status: Status, post: Post, error: Error) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("http_answer::meaning", &[&status, &post, &error]);
    meaning(status, post, error)
}
