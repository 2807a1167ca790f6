//! An attempt to obtain or refresh a token (specification 2026-07-28, "Authorization"): its stages, and what metadata,
//! the registered clients, the redirect and a failed token request lead to.

use super::table::{decision_table, state_table, values};

values! {
    #[derive(Default)]
    State {
        /// No attempt is in progress.
        #[default]
        Idle,
        /// Protected-resource metadata is requested.
        Resource,
        /// Authorization server metadata is requested.
        Server,
        /// The server has no protected-resource metadata, and authorization server metadata is requested from its origin,
        /// as 2025-03-26 says.
        Assumed,
        /// Whether there is metadata is not known, and it is requested again after a wait.
        Waiting,
        /// The metadata is known, and [`plan`] decides what follows.
        Planning,
        Registering,
        /// The user has to authorize, and the browser may be in use for another server.
        Queued,
        /// The user authorizes.
        User,
        /// A grant is requested of the enterprise's identity provider.
        Exchanging,
        /// Signatures are requested: of the client's assertion, of the proof of possession.
        Signing,
        /// A token is requested.
        Token,
        /// The token request failed, and is sent again after a wait.
        Pausing,
    }

    Input {
        Begin,
        /// The attempt begins with metadata that is known.
        BeginKnown,
        /// The metadata is accepted.
        Found,
        /// The response is no metadata, and there is another place.
        Next,
        /// The response leads to another place.
        Follow,
        /// The server has no protected-resource metadata, and its authorization server is known: it is configured, or it
        /// issued the credentials.
        Known,
        /// There is no metadata, and the conventions of 2025-03-26 apply.
        Assume,
        /// The client is not registered.
        Register,
        /// The user has to authorize, and the browser is free.
        Browse,
        /// The user has to authorize, and the browser may be in use for another server.
        Queue,
        /// The browser is free for this attempt.
        Show,
        /// A grant of the identity provider is required.
        Exchange,
        /// The client's assertion or the proof of possession has to be signed.
        Sign,
        /// The token request can be sent.
        Request,
        Registered,
        /// The user authorized.
        Code,
        /// The identity provider issued the grant.
        Exchanged,
        Signed,
        Issued,
        /// The request for the metadata or the token is sent again after a wait.
        Retry,
        /// The token request is sent again with the nonce that the authorization server demands.
        Renew,
        /// The wait ended.
        Paused,
        /// The authorization server does not know the registered client any more.
        Unregistered,
        /// The refresh token cannot be used any more.
        Refused,
        Fail,
        /// The attempt is not required any more.
        Stop,
    }

    Effect {
        /// Look for the metadata of the resource.
        FindResource,
        /// Request metadata from the current place.
        RequestMetadata,
        /// Look for authorization servers.
        FindServers,
        /// Use the authorization server that is known.
        FindKnown,
        /// Use the server's origin as the authorization server.
        AssumeOrigin,
        /// Use the default endpoints of the authorization server.
        AssumeEndpoints,
        /// Decide what follows.
        Plan,
        Register,
        /// Forget the registration.
        DropClient,
        /// Wait for the browser.
        Enqueue,
        /// Give the user the URL.
        Browse,
        /// Send the token exchange to the identity provider.
        Exchange,
        Sign,
        RequestToken,
        /// Start the wait before the next request.
        Pause,
        /// The URL need not be shown any more.
        EndBrowse,
        ReportIssued,
        ReportRefused,
        ReportFailed,
    }
}

#[rustfmt::skip]
state_table! {
    /// An attempt to obtain or refresh a token: the metadata of the server and of its authorization server, the
    /// registration of the client, the user, and the token request.
    "oauth_attempt" step: State, Input, Effect;
    (Idle)                    (Begin)        => (Resource) [FindResource RequestMetadata];
    (Idle)                    (BeginKnown)   => (Planning) [Plan];
    (Resource)                (Found)        => (Server) [FindServers RequestMetadata];
    (Resource)                (Known)        => (Server) [FindKnown RequestMetadata];
    (Resource)                (Assume)       => (Assumed) [AssumeOrigin RequestMetadata];
    (Resource|Server|Assumed) (Next|Follow)  => stay [RequestMetadata];
    (Resource|Server|Assumed) (Retry)        => (Waiting) [Pause];
    (Waiting)                 (Paused)       => (Resource) [FindResource RequestMetadata];
    (Server|Assumed)          (Found)        => (Planning) [Plan];
    (Assumed)                 (Assume)       => (Planning) [AssumeEndpoints Plan];
    (Planning)                (Register)     => (Registering) [Register];
    (Planning)                (Browse)       => (User) [Browse];
    (Planning)                (Queue)        => (Queued) [Enqueue];
    (Planning)                (Exchange)     => (Exchanging) [Exchange];
    (Planning)                (Sign)         => (Signing) [Sign];
    (Planning)                (Request)      => (Token) [RequestToken];
    (Planning|Token)          (Refused)      => (Idle) [ReportRefused];
    (Registering)             (Registered)   => (Planning) [Plan];
    (Queued)                  (Show)         => (User) [Browse];
    (User)                    (Code)         => (Planning) [EndBrowse Plan];
    (Exchanging)              (Exchanged)    => (Planning) [Plan];
    (Exchanging|Token)        (Retry)        => (Pausing) [Pause];
    (Signing)                 (Signed)       => (Token) [RequestToken];
    (Token)                   (Issued)       => (Idle) [ReportIssued];
    (Token)                   (Renew)        => (Planning) [Plan];
    (Token)                   (Unregistered) => (Planning) [DropClient Plan];
    (Pausing)                 (Paused)       => (Planning) [Plan];
    (User)                    (Fail)         => (Idle) [EndBrowse ReportFailed];
    (Resource|Server|Assumed|Waiting|Planning|Registering|Queued|Exchanging|Signing|Token|Pausing)
        (Fail) => (Idle) [ReportFailed];
    (User)                    (Stop)         => (Idle) [EndBrowse];
    (Resource|Server|Assumed|Waiting|Registering|Queued|Exchanging|Signing|Token|Pausing) (Stop) => (Idle);
    (Resource|Server|Assumed|Waiting|Planning|Registering|Queued|User|Exchanging|Signing|Token|Pausing)
        (Begin|BeginKnown) => never;
    (Idle|Waiting|Planning|Registering|Queued|User|Exchanging|Signing|Token|Pausing) (Found|Next|Follow) => never;
    (Idle|Server|Assumed|Waiting|Planning|Registering|Queued|User|Exchanging|Signing|Token|Pausing) (Known) => never;
    (Idle|Server|Waiting|Planning|Registering|Queued|User|Exchanging|Signing|Token|Pausing) (Assume) => never;
    (Idle|Resource|Server|Assumed|Waiting|Registering|Queued|User|Exchanging|Signing|Token|Pausing)
        (Register|Browse|Queue|Exchange|Sign|Request) => never;
    (Idle|Resource|Server|Assumed|Waiting|Planning|Registering|User|Exchanging|Signing|Token|Pausing) (Show) => never;
    (Idle|Resource|Server|Assumed|Waiting|Planning|Queued|User|Exchanging|Signing|Token|Pausing)
        (Registered) => never;
    (Idle|Resource|Server|Assumed|Waiting|Planning|Registering|Queued|Exchanging|Signing|Token|Pausing)
        (Code) => never;
    (Idle|Resource|Server|Assumed|Waiting|Planning|Registering|Queued|User|Signing|Token|Pausing)
        (Exchanged) => never;
    (Idle|Resource|Server|Assumed|Waiting|Planning|Registering|Queued|User|Exchanging|Token|Pausing)
        (Signed) => never;
    (Idle|Resource|Server|Assumed|Waiting|Planning|Registering|Queued|User|Exchanging|Signing|Pausing)
        (Issued|Renew|Unregistered) => never;
    (Idle|Waiting|Planning|Registering|Queued|User|Signing|Pausing) (Retry) => never;
    (Idle|Resource|Server|Assumed|Planning|Registering|Queued|User|Exchanging|Signing|Token) (Paused) => never;
    (Idle|Resource|Server|Assumed|Waiting|Registering|Queued|User|Exchanging|Signing|Pausing) (Refused) => never;
    (Idle) (Fail) => never;
    (Idle|Planning) (Stop) => never;
}

values! {
    /// What came from a place of metadata.
    Answer {
        /// Metadata that passes the checks.
        Accepted,
        /// No metadata: another status, another body, or no response.
        Unusable,
        /// Metadata that fails a check, or a document that is too large.
        Refused,
        /// A redirect within the origin.
        Moved,
        /// A redirect to another origin, or one too many.
        MovedAway,
    }

    /// What is next if there is no metadata: another place; the authorization server that is known; the conventions of
    /// 2025-03-26.
    Fallback { Place, Known, Conventions, Nothing }

    /// Whether the places so far have no metadata for certain. An outage is no such certainty: 5xx, 408, 429, 401, 403,
    /// or no response.
    Absence {
        Certain,
        /// One of them may have some, which is requested again.
        Unknown,
        /// One of them may have some, and was requested as often as it may be.
        UnknownForLong,
    }
}

#[rustfmt::skip]
decision_table! {
    /// What the response from a place of metadata means.
    "oauth_metadata" metadata(answer: Answer, fallback: Fallback, absence: Absence) -> Input;
    (Accepted)          (_)                         (_)                      => Found;
    (Moved)             (_)                         (_)                      => Follow;
    (Refused|MovedAway) (_)                         (_)                      => Fail;
    (Unusable)          (Place)                     (_)                      => Next;
    (Unusable)          (Known|Conventions|Nothing) (Unknown)                => Retry;
    (Unusable)          (Known)                     (Certain|UnknownForLong) => Known;
    (Unusable)          (Conventions)               (Certain)                => Assume;
    // The conventions might send the user, or what was issued, to another authorization server.
    (Unusable)          (Conventions)               (UnknownForLong)         => Fail;
    (Unusable)          (Nothing)                   (Certain|UnknownForLong) => Fail;
}

values! {
    /// The client that is used (specification 2026-07-28, "Client Registration").
    Client {
        /// The one that the embedder configured.
        Configured,
        /// The one that the credentials were issued to.
        Held,
        /// The URL of the client ID metadata document.
        Document,
        /// One that has to be registered.
        Dynamic,
        /// None: the embedder configured one for another authorization server.
        Elsewhere,
        /// None: there is no way to register one.
        Nothing,
    }
}

values! {
    /// What the attempt is for: a refresh, a grant of a user, a grant without a user.
    Goal { Refresh, User, Direct }

    /// What the token request presents: the code of a user, or the grant of an identity provider.
    Code {
        Missing,
        /// It is missing, and the embedder does not allow to ask the user.
        Withheld,
        /// There is one, or none is required.
        Held,
    }
}

#[rustfmt::skip]
decision_table! {
    /// What follows when the metadata is known. `owner`: what is refreshed belongs to this authorization server and
    /// client. `signed`: by an assertion of the client or a proof of possession. `shared`: so is the browser.
    "oauth_plan" plan(goal: Goal, client: Client, owner: bool, code: Code, signed: bool, shared: bool) -> Input;
    (Refresh) (_)                        (false) (_)                (_)     (_)     => Refused;
    (Refresh) (Configured|Held)          (true)  (_)                (false) (_)     => Request;
    (Refresh) (Configured|Held)          (true)  (_)                (true)  (_)     => Sign;
    // The refresh token belongs to the client that is gone.
    (Refresh) (Document|Dynamic)         (true)  (_)                (_)     (_)     => Refused;
    (Refresh) (Elsewhere|Nothing)        (true)  (_)                (_)     (_)     => Fail;
    (User)    (Elsewhere|Nothing)        (_)     (_)                (_)     (_)     => Fail;
    (User)    (Configured|Held|Document|Dynamic) (_) (Withheld)     (_)     (_)     => Fail;
    (User)    (Dynamic)                  (_)     (Missing|Held)     (_)     (_)     => Register;
    (User)    (Configured|Held|Document) (_)     (Missing)          (_)     (false) => Browse;
    (User)    (Configured|Held|Document) (_)     (Missing)          (_)     (true)  => Queue;
    (User|Direct) (Configured|Held|Document) (_) (Held)             (false) (_)     => Request;
    (User|Direct) (Configured|Held|Document) (_) (Held)             (true)  (_)     => Sign;
    (Direct)  (Configured|Held|Document) (_)     (Missing|Withheld) (_)     (_)     => Exchange;
    (Direct)  (Dynamic|Elsewhere|Nothing) (_)    (_)                (_)     (_)     => Fail;
}

values! {
    /// Why a token request failed.
    Failure {
        /// It broke, timed out, or was answered with 429, 5xx or a page for people.
        Transient,
        InvalidGrant,
        InvalidClient,
        /// `use_dpop_nonce`, for the first time in this attempt: it was not processed.
        Nonce,
        /// Any other error, or a response that is no token.
        Other,
    }
}

#[rustfmt::skip]
decision_table! {
    /// What follows from a failed token request. A code is sent once, since it may have been used. `renewable`: the client
    /// was registered dynamically, and for the first time in this attempt. `last`: no further request is allowed.
    "oauth_failure" failed(goal: Goal, failure: Failure, renewable: bool, last: bool) -> Input;
    (User)           (Transient)     (_)     (_)     => Fail;
    (Refresh|Direct) (Transient)     (_)     (false) => Retry;
    (Refresh|Direct) (Transient)     (_)     (true)  => Fail;
    (Refresh)        (InvalidGrant)  (_)     (_)     => Refused;
    (User|Direct)    (InvalidGrant)  (_)     (_)     => Fail;
    (Refresh|User)   (InvalidClient) (true)  (_)     => Unregistered;
    (Refresh|User)   (InvalidClient) (false) (_)     => Fail;
    (Direct)         (InvalidClient) (_)     (_)     => Fail;
    (_)              (Nonce)         (_)     (_)     => Renew;
    (_)              (Other)         (_)     (_)     => Fail;
}
