//! What an HTTP response means, in the order in which it arrives: its head, a redirect, the kind of its body, its end;
//! and, for the response to a POST, whether the session expired, and what follows for the message.

use super::QuirkKind;
use super::table::{decision_table, values};

values! {
    /// The status of a response.
    HttpStatus {
        /// 202.
        Accepted,
        /// Any other 2xx.
        Success,
        /// 307 or 308.
        Moved,
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
        /// 429 without `Retry-After`.
        TooMany,
        /// Any other 4xx.
        Client,
        /// 503 without `Retry-After`.
        Unavailable,
        /// 503 with `Retry-After`, to a message that may be sent again.
        Paused,
        /// 501.
        NotImplemented,
        /// Any other 5xx.
        Server,
        /// Any other.
        Other,
    }

    /// What an exchange is for.
    Purpose {
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
        GetStream,
        /// The GET of the HTTP+SSE stream, after `initialize` was refused.
        Fallback,
        /// The GET of the HTTP+SSE stream.
        Sse,
        /// The DELETE of the session before, which the server still has; `initialize` follows.
        DeleteFormer,
        /// The DELETE of the session when the client closes.
        Delete,
    }

    /// What is redirected: the POST of a request of the embedder, that of any other message, the GET of the GET stream,
    /// which is optional, or another GET.
    Redirected { Call, Message, GetStream, Get }

    /// Where a redirect leads.
    Target {
        SameOrigin,
        /// To another origin, or to no address.
        Elsewhere,
        /// To the same origin, after as many redirects as are followed.
        TooMany,
        /// The response has no `Location`.
        Nowhere,
    }

    /// What follows from a redirect.
    Redirect {
        /// The message is posted to the target, or the stream requested from it; every later request goes there, too.
        Follow,
        /// The target is the endpoint for messages from now on; the message is posted to it.
        PostToEndpoint,
        /// The server has no GET stream.
        NoStream,
        /// The response is a refusal by its status.
        Refuse,
        /// The request fails with the status, and the connection ends with a protocol violation.
        RefuseAndEnd,
        /// The connection ends with a protocol violation.
        Violation,
    }

    /// What a body belongs to: a POST, by its `Content-Type`, the GET stream, or another GET.
    Source { PostUnlabelled, PostJson, PostEvents, GetStream, Get }

    /// The first byte of a body, apart from white space and a byte order mark.
    First {
        /// It begins a JSON value that is no literal, or a page of HTML.
        Json,
        /// It begins a field of an event or a comment: `:`, `d`, `e`, `i` or `r`.
        Field,
        Other,
    }

    /// How an exchange ends.
    End {
        /// The response ended.
        Complete,
        /// The connection broke.
        Broke,
        /// The server was not reached.
        Unreached,
        /// The limits do not allow more of the response to be kept, or its body is in a coding that nobody decodes.
        Overflow,
    }

    /// What was received of a response.
    Received {
        Nothing,
        /// A 2xx status, and an empty body.
        Empty,
        /// As above, labelled as a stream of events.
        EmptyStream,
        /// JSON, complete or in part.
        Json,
        Events,
        /// A body that reads like a stream of events, without that label and without an event.
        NoEvents,
        /// 401 or 403.
        Unauthorized,
        /// 404, on a session.
        NotFound,
        /// 429, or 5xx but 501.
        Busy,
        /// Any other error status.
        Refusal,
        /// A body that is ignored.
        Ignored,
    }

    /// What follows from the end of an exchange.
    AtEnd {
        Nothing,
        /// The body is the response, or an error: [`expiry`] and [`meaning`] decide.
        Judge,
        /// The stream of a request broke; it is resumed where possible.
        Resume,
        /// As above, after the time in the response.
        ResumeLater,
        /// As `ResumeLater`, if the client obtains the authorization that is missing. If not, the request is lost.
        ResumeAuthorized,
        /// Nobody was reached to resume the stream of a request from: it is tried three times.
        ResumeUnreached,
        /// There is no response to the request, which may have run.
        Lost,
        /// The body is not a response to the request.
        NoAnswer,
        /// The request did not reach the server.
        Unreached,
        /// A message that nothing waits for did not reach the server.
        Undelivered,
        InitializedAnswered,
        InitializedBroke,
        /// The session expired.
        Expire,
        /// The server requires authorization.
        Authorize,
        GetStreamBroke,
        SseRefused,
        SseEnded,
        SseBroke,
        SseUnreached,
        /// `initialize` is sent again.
        SendAgain,
        /// The session is over.
        Deleted,
    }

    /// What was posted.
    Post {
        /// `server/discover` in the handshake.
        Discover,
        Initialize,
        /// `initialize`, and a refusal by an error ends the handshake: no other version follows.
        InitializeLast,
        /// `initialize`, and the response says that the server is initialized already: it still has the session before.
        InitializeAgain,
        /// `tools/call`, with the headers that the modern era requires.
        ModernCall,
        /// Any other request.
        Request,
        Initialized,
        /// Any other notification, or a response.
        OneWay,
    }

    /// The session that a message was sent in.
    Session {
        None,
        Held,
        /// A session that replaced an expired one: for 401, after any; else, after a 404 to the same method.
        Renewed,
        /// As above, and this request was sent again because of it.
        Resent,
    }

    /// The JSON-RPC error in a body.
    Error {
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
        Other,
    }
}

/// How the body of a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The body is JSON or a stream of events, which its first bytes show.
    Any,
    /// The body is a stream of events.
    Events,
    /// The body is ignored: the message was delivered.
    Delivered,
    /// As [`Delivered`](Self::Delivered), and the deviation is recorded.
    DeliveredAs(QuirkKind),
    /// The body is ignored.
    Ignore,
    /// The body is the text of a refusal.
    Refusal,
    /// The request is sent to the redirect's target.
    Redirect,
    /// The status decides about the GET stream.
    GetStream,
}

/// As what a body is read. The deviation is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Json,
    JsonAs(QuirkKind),
    Events,
    EventsAs(QuirkKind),
    /// The server has no GET stream.
    NoStream,
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

/// What follows for a message whose session did not expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
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
    /// The server may have HTTP+SSE.
    RefusedAsSse,
    /// The request is refused by its status.
    Refuse,
    /// `notifications/initialized` was received.
    Received,
    Nothing,
}

decision_table! {
    /// How the body of a response is read, by what the head says.
    "http_head" head(purpose: Purpose, is_sse: bool, status: HttpStatus) -> Reading;
    (Request)                                (false) (Accepted|Success) => Any;
    // Over HTTP+SSE the response arrives on the stream.
    (Request)                                (true)  (Accepted|Success) => Ignore;
    (Initialized|OneWay|Owed)                (_)     (Accepted)         => Delivered;
    (Initialized|OneWay|Owed)                (false) (Success)          => DeliveredAs(QuirkKind::NotificationStatus);
    (Initialized|OneWay|Owed)                (true)  (Success)          => Delivered;
    (Resume|Fallback|Sse)                    (_)     (Accepted|Success) => Events;
    // The response to a DELETE has no effect.
    (DeleteFormer|Delete)                    (_)     (_)                => Ignore;
    (Request|Initialized|OneWay|Owed|Resume|GetStream|Fallback|Sse) (_) (Moved) => Redirect;
    else (GetStream)                         (_)     (_)                => GetStream;
    // Any other status, known or not.
    else (Request|Initialized|OneWay|Owed|Resume|Fallback|Sse) (_) (_)  => Refusal;
}

decision_table! {
    /// What follows from a redirect. A server that redirects a message did not process it: "further action needs to be
    /// taken by the user agent in order to fulfill the request" (RFC 9110, section 15.4).
    "http_redirect" redirect(redirected: Redirected, is_sse: bool, target: Target) -> Redirect;
    (Call|Message)     (false) (SameOrigin)                => Follow;
    (Call|Message)     (true)  (SameOrigin)                => PostToEndpoint;
    (Call)             (_)     (Elsewhere|TooMany)         => RefuseAndEnd;
    (GetStream|Get)    (_)     (SameOrigin)                => Follow;
    (Message|Get)      (_)     (Elsewhere|TooMany)         => Violation;
    (Call|Message|Get) (_)     (Nowhere)                   => Refuse;
    (GetStream)        (_)     (Elsewhere|TooMany|Nowhere) => NoStream;
}

decision_table! {
    /// As what a body is read.
    "http_body" body(source: Source, first: First) -> Body;
    (PostUnlabelled)       (Json|Other)  => JsonAs(QuirkKind::ContentType);
    (PostJson)             (Json|Other)  => Json;
    (PostUnlabelled)       (Field)       => EventsAs(QuirkKind::ContentType);
    (PostJson)             (Field)       => EventsAs(QuirkKind::ContentType);
    (PostEvents)           (Json)        => JsonAs(QuirkKind::ContentType);
    (PostEvents)           (Field|Other) => Events;
    (GetStream)            (Json)        => NoStream;
    (Get)                  (Json)        => Json;
    (GetStream|Get)        (Field|Other) => Events;
}

decision_table! {
    /// What the end of an exchange means, by how much of the response was received.
    "http_end" end(purpose: Purpose, end: End, received: Received) -> AtEnd;
    (Request)         (Complete)       (Nothing|EmptyStream)                        => Lost;
    (Request)         (Complete)       (Empty|NoEvents)                             => NoAnswer;
    (Request)         (Complete)       (Json)                                       => Judge;
    (Request)         (Complete)       (Events)                                     => Resume;
    (Request)         (Broke)          (Nothing|Empty|EmptyStream|Json)             => Lost;
    (Request)         (Broke)          (Events|NoEvents)                            => Resume;
    (Request)         (Complete|Broke) (Unauthorized|NotFound|Busy|Refusal)         => Judge;
    // Over HTTP+SSE the response arrives on the stream.
    (Request)         (Complete|Broke) (Ignored)                                    => Nothing;
    (Request|Resume)  (Overflow)       (_)                                          => NoAnswer;
    (Request|Initialized) (Unreached)  (_)                                          => Unreached;
    (OneWay)          (Unreached)      (_)                                          => Undelivered;
    (Initialized)     (Complete|Broke|Overflow) (Nothing)                           => InitializedBroke;
    (Initialized)     (Complete|Broke|Overflow) (Empty|EmptyStream|Json|Events|NoEvents|Ignored) => InitializedAnswered;
    (OneWay)          (Complete|Broke|Overflow) (Nothing|Empty|EmptyStream|Json|Events|NoEvents|Ignored) => Nothing;
    (Initialized|OneWay) (Complete|Broke|Overflow) (Unauthorized|NotFound|Busy|Refusal) => Judge;
    (Owed)            (_)              (_)                                          => Nothing;
    (Resume)          (Unreached)      (_)                                          => ResumeUnreached;
    (Resume)          (Complete|Broke) (NotFound)                                   => Expire;
    (Resume)          (Complete|Broke) (Busy)                                       => ResumeLater;
    (Resume)          (Complete|Broke) (Unauthorized)                               => ResumeAuthorized;
    (Resume)          (Complete|Broke) (Refusal)                                    => Lost;
    (Resume)          (Complete|Broke) (Nothing|Empty|EmptyStream|Json|Events|NoEvents|Ignored) => Resume;
    (GetStream)       (_)              (_)                                          => GetStreamBroke;
    (Fallback)        (Broke)          (_)                                          => SseBroke;
    (Fallback|Sse)    (Unreached)      (_)                                          => SseUnreached;
    else (Fallback|Sse)    (Complete|Broke|Overflow) (Unauthorized)                 => Authorize;
    else (Fallback|Sse)    (Complete|Broke|Overflow) (NotFound|Busy|Refusal)        => SseRefused;
    (Fallback|Sse)    (Complete|Overflow) (Nothing|Empty|EmptyStream|Json|Events|NoEvents|Ignored) => SseEnded;
    (Sse)             (Broke)          (Nothing|Empty|EmptyStream|Json|Events|NoEvents|Ignored) => SseBroke;
    (DeleteFormer)    (_)              (_)                                          => SendAgain;
    (Delete)          (_)              (_)                                          => Deleted;
}

decision_table! {
    /// Whether the response to a POST says that the session expired. Only a status shows that a request did not run: with
    /// 2xx, an error means an expired session only if its code and its whole message are known ones of transports.
    /// `names_session`: the text of the body, or of the error in it, says that the server does not know the session.
    "http_expiry" expiry(status: HttpStatus, session: Session, names_session: bool, error: Error) -> Expiry;
    (Accepted|Success)   (Held|Renewed) (true)  (_) => AnsweredAs(QuirkKind::SessionExpiredStatus);
    (BadRequest|Unavailable|Paused) (Held|Renewed) (true) (_) => UnprocessedAs(QuirkKind::SessionExpiredStatus);
    (Accepted|Success|BadRequest|Unavailable|Paused) (Held|Renewed) (false) (_) => No;
    (NotFound)           (Held|Renewed) (true)  (_) => Unprocessed;
    (NotFound)           (Held)         (false) (None|InvalidParams|ResourceNotFound|HeaderMismatch|Modern|Other) => UnprocessedByStatus;
    (NotFound)           (Held)         (false) (MethodNotFound) => No;
    (NotFound)           (Renewed)      (false) (_) => No;
    // A new session is tried once; after that the server requires authorization.
    (Unchallenged)       (Held)         (_)     (_) => UnprocessedAs(QuirkKind::SessionExpiredStatus);
    (Unchallenged)       (Renewed)      (_)     (_) => No;
    (Moved|Unauthorized|NotAllowed|Busy|TooMany|Client|NotImplemented|Server|Other) (_) (_) (_) => No;
    // There is no session, or a new one did not help.
    else (_)             (None|Resent)  (_)     (_) => No;
}

decision_table! {
    /// What follows for a message whose session did not expire.
    "http_meaning" meaning(status: HttpStatus, post: Post, error: Error) -> Outcome;
    (Unauthorized|Unchallenged)  (_)               (_)    => Authorize;
    // Notifications and responses have no deadline either; only the handshake requires one of them.
    (Busy|Paused)                (OneWay)          (_)    => Nothing;
    else (Busy|Paused)           (_)               (_)    => Retry;
    else (_)                     (InitializeAgain) (_)    => EndFormerAs(QuirkKind::AlreadyInitialized);
    else (Accepted|Success)      (_)               (_)    => Deliver;
    else (_)                     (Initialized)     (_)    => Received;
    else (_)                     (OneWay)          (_)    => Nothing;
    // A server of the older transport does not allow a POST to its stream, whatever it says of it.
    (NotAllowed) (Initialize|InitializeLast) (_)          => RefusedAsSse;
    // Or it answers that as an unknown method.
    (BadRequest|NotFound) (Initialize|InitializeLast) (None|MethodNotFound) => RefusedAsSse;
    // An error may be about the version, so that the older ones are offered first; modern servers have errors of their own.
    (BadRequest|NotFound) (InitializeLast) (InvalidParams|ResourceNotFound|Other) => RefusedAsSse;
    (BadRequest|NotFound|NotAllowed|TooMany|Client) (ModernCall) (HeaderMismatch) => RenewHeaders;
    // A 5xx does not show the server's era, unless its error is of the modern one.
    (Unavailable|NotImplemented|Server) (Discover) (None|MethodNotFound|InvalidParams|ResourceNotFound|Other) => Refuse;
    else (_) (Discover|Initialize|InitializeLast|ModernCall|Request) (None) => Refuse;
    else (_) (Discover|Initialize|InitializeLast|ModernCall|Request) (MethodNotFound|InvalidParams|ResourceNotFound|HeaderMismatch|Modern|Other)
   => Answer;
}

#[cfg_attr(not(feature = "oauth"), allow(dead_code, reason = "without OAuth the embedder authorizes the client"))]
pub(crate) mod refusal {
    //! What a refusal for lack of authorization (401, 403) means: for what was refused, and for the client's credentials.

    use crate::machine::table::{decision_table, values};

    values! {
        /// What was refused.
        Refused {
            /// No request: a stream, or a message without a response.
            Nothing,
            /// `server/discover` or `initialize` in the handshake.
            Handshake,
            /// A page of a list.
            List,
            /// A request that detects a peer that does not answer, which this one does.
            Keepalive,
            /// Any other request of the engine.
            Engine,
            /// A request of the embedder.
            Call,
        }

        /// What the server says about authorization.
        Access {
            /// 401: it requires authorization.
            Required,
            /// 403 with a challenge: it requires another authorization.
            Insufficient,
            /// 403 without a challenge: it refuses access.
            Denied,
        }

        /// Who obtains the authorization that is missing: the embedder; the client, by OAuth; nobody, since none helps.
        Authority { Embedder, Client, Nobody }

        /// What follows when authorization is missing.
        Authorization {
            /// The request waits for authorization.
            Block,
            /// The binding holds the request or the message, and sends it again.
            Hold,
            EndConnection,
            /// The request is refused by the status.
            ByStatus,
            Nothing,
        }
    }

    decision_table! {
        /// What follows when authorization is missing. `connecting`: the connection is being opened, or the handshake or
        /// discovery is in progress. `again`: the request may wait for authorization once more.
        "http_refusal" authorization(refused: Refused, connecting: bool, access: Access, again: bool, authority: Authority)
            -> Authorization;
        (Handshake)    (_)     (_)                     (_)     (_)               => EndConnection;
        (Nothing|List) (true)  (_)                     (_)     (Embedder|Nobody) => EndConnection;
        // Only what the client authorizes is sent again by itself.
        (Nothing|List) (_)     (_)                     (_)     (Client)          => Hold;
        (Engine)       (_)     (_)                     (_)     (Client)          => Hold;
        (Nothing)      (false) (_)                     (_)     (Embedder|Nobody) => Nothing;
        (List)         (false) (_)                     (_)     (Embedder|Nobody) => ByStatus;
        (Engine)       (_)     (_)                     (_)     (Embedder|Nobody) => ByStatus;
        (Keepalive)    (_)     (_)                     (_)     (_)               => ByStatus;
        (Call)         (_)     (Required|Insufficient) (true)  (Embedder|Client) => Block;
        (Call)         (_)     (Required|Insufficient) (false) (Embedder|Client) => ByStatus;
        (Call)         (_)     (Required|Insufficient) (_)     (Nobody)          => ByStatus;
        (Call)         (_)     (Denied)                (_)     (_)               => ByStatus;
    }

    /// What a refusal means for the client's credentials (specification 2026-07-28, "Authorization", Error Handling).
    pub(crate) mod challenge {
        #[cfg(feature = "oauth")]
        use crate::machine::table::decision_table;
        use crate::machine::table::values;

        values! {
            /// What follows.
            Step {
                /// The request waits for the attempt in progress.
                Wait,
                /// The request is sent again with the current token.
                Resend,
                /// The request is sent again with another nonce.
                ResendWithNonce,
                /// A token is required, and none was sent.
                Demand,
                /// The token is renewed: by a refresh, where possible.
                Renew,
                /// A new grant replaces a token that was just issued.
                Replace,
                /// A new grant with the scopes of the challenge.
                StepUp,
                /// The request is refused.
                Refuse,
            }
        }

        #[cfg(feature = "oauth")]
        values! {
            /// The access token that the refused request had: none, or one when there is none now; another one than the
            /// current one; the current one, which the server accepted before, or another process obtained; the current one,
            /// which is just issued: no request that bore it was answered with anything but 401.
            Token { Missing, Former, Accepted, Fresh }

            /// Whether an attempt is in progress that will bring a new token: none, one for the same scopes, or one that asks
            /// a user or an authorization server for a new grant.
            Progress { Idle, Renewing, Authorizing }
        }

        #[cfg(feature = "oauth")]
        decision_table! {
            /// What follows a 401. `may_replace`: whether fresh tokens were replaced less often than allowed.
            "unauthorized" unauthorized(progress: Progress, token: Token, may_replace: bool) -> Step;
            (Renewing|Authorizing) (_)        (_)     => Wait;
            (Idle)                 (Missing)  (_)     => Demand;
            (Idle)                 (Former)   (_)     => Resend;
            (Idle)                 (Accepted) (_)     => Renew;
            (Idle)                 (Fresh)    (true)  => Replace;
            (Idle)                 (Fresh)    (false) => Refuse;
        }

        #[cfg(feature = "oauth")]
        decision_table! {
            /// What follows a 403 for lack of scopes. `may_step_up`: whether the scopes were requested less often than allowed,
            /// and there is a user, or the policy allows to request them without one.
            "insufficient_scope" insufficient_scope(may_step_up: bool, progress: Progress, token: Token) -> Step;
            (false) (_)             (_)              => Refuse;
            // Whether its scopes suffice is seen when the request is sent again.
            (true)  (Authorizing)   (_)              => Wait;
            (true)  (Idle|Renewing) (Missing)        => Demand;
            (true)  (Idle|Renewing) (Former)         => Resend;
            (true)  (Idle|Renewing) (Accepted|Fresh) => StepUp;
        }
    }
}
