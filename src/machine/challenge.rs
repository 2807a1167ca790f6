//! What a 401 or 403 of the server means for its credentials (specification 2026-07-28, "Authorization", Error
//! Handling).

use super::alphabet;
#[cfg(feature = "http")]
use super::http_waiting::Lack;

alphabet! {
    /// The status.
    Status {
        /// 401.
        Unauthorized,
        /// 401 with `error="use_dpop_nonce"`, and there is another nonce than the request had.
        OtherNonce,
        /// 401 with `error="use_dpop_nonce"`, and there is none, or the request was sent again for it already.
        SameNonce,
        /// 403 with `error="insufficient_scope"`.
        InsufficientScope,
        /// Any other 403.
        Forbidden,
    }
}

alphabet! {
    /// The access token that the refused request had.
    Token {
        /// None.
        Missing,
        /// Another one than the current one.
        Former,
        /// The current one, which was issued some time ago.
        Accepted,
        /// The current one, which was just issued.
        Fresh,
    }
}

alphabet! {
    /// Whether an attempt is in progress that will bring a new token.
    Progress {
        /// None.
        Resting,
        /// An attempt for the same scopes.
        Renewing,
        /// An attempt that asks a user or an authorization server for a new grant.
        Authorizing,
    }
}

alphabet! {
    /// How often a new grant was tried: after a fresh token was refused, or for the scopes of the challenge.
    Tries {
        /// Less often than allowed.
        Left,
        /// As often as allowed.
        Spent,
    }
}

alphabet! {
    /// Who grants further scopes.
    Grantor {
        /// A user, or the policy allows to request them without one.
        Present,
        /// Nobody: the client acts on its own behalf.
        Absent,
    }
}

alphabet! {
    /// What follows.
    Meaning {
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

#[cfg(feature = "http")]
impl Meaning {
    /// Whether what the request lacked is there by now.
    pub(crate) const fn lack(self) -> Lack {
        match self {
            Self::Resend | Self::ResendWithNonce => Lack::Over,
            Self::Wait | Self::Demand | Self::Renew | Self::Replace | Self::StepUp | Self::Refuse => Lack::Lasting,
        }
    }
}

/// Returns what follows. `Missing` includes requests that bear a token although there is none now.
pub(crate) const fn decide(
    status: Status,
    token: Token,
    progress: Progress,
    tries: Tries,
    grantor: Grantor,
) -> Meaning {
    match status {
        Status::Unauthorized => unauthorized(progress, token, tries),
        Status::OtherNonce => Meaning::ResendWithNonce,
        Status::InsufficientScope => scope(tries, grantor, progress, token),
        Status::SameNonce | Status::Forbidden => Meaning::Refuse,
    }
}

/// What follows a 401.
pub(crate) const fn unauthorized(progress: Progress, token: Token, tries: Tries) -> Meaning {
    match progress {
        Progress::Renewing | Progress::Authorizing => Meaning::Wait,
        Progress::Resting => match token {
            Token::Missing => Meaning::Demand,
            Token::Former => Meaning::Resend,
            Token::Accepted => Meaning::Renew,
            Token::Fresh => match tries {
                Tries::Left => Meaning::Replace,
                Tries::Spent => Meaning::Refuse,
            },
        },
    }
}

/// What follows a 403 for lack of scopes.
pub(crate) const fn scope(tries: Tries, grantor: Grantor, progress: Progress, token: Token) -> Meaning {
    match tries {
        Tries::Spent => Meaning::Refuse,
        Tries::Left => match grantor {
            Grantor::Absent => Meaning::Refuse,
            Grantor::Present => match progress {
                // Whether its scopes suffice is seen when the request is sent again.
                Progress::Authorizing => Meaning::Wait,
                Progress::Resting | Progress::Renewing => match token {
                    Token::Missing => Meaning::Demand,
                    Token::Former => Meaning::Resend,
                    Token::Accepted | Token::Fresh => Meaning::StepUp,
                },
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
#[cfg(feature = "oauth")]
pub(crate) fn take(status: Status, token: Token, progress: Progress, tries: Tries, grantor: Grantor) -> Meaning {
    #[cfg(feature = "rows")]
    match status {
        Status::Unauthorized => super::rows::taken("challenge::unauthorized", &[&progress, &token, &tries]),
        Status::InsufficientScope => super::rows::taken("challenge::scope", &[&tries, &grantor, &progress, &token]),
        Status::OtherNonce | Status::SameNonce | Status::Forbidden => {}
    }
    decide(status, token, progress, tries, grantor)
}
