//! What a refusal for lack of authorization (401, 403) means: for what was refused, and for the client's credentials.

use super::table::{decision_table, values};

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
    use super::super::table::decision_table;
    use super::super::table::values;

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
