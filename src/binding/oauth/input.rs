use core::fmt;

use http::{HeaderMap, StatusCode};

use super::action::{OAuthExchangeId, SaveOutcome, SignId, StoreId};

/// An input for the authorization of a client ([`Client::handle_oauth`](crate::Client::handle_oauth)). Its `Debug` shows
/// no contents.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum OAuthInput<'a> {
    /// The head of a response came.
    Head {
        /// The exchange.
        exchange: OAuthExchangeId,
        /// The status.
        status: StatusCode,
        /// The headers.
        headers: &'a HeaderMap,
    },
    /// A part of the body of a response came.
    Body {
        /// The exchange.
        exchange: OAuthExchangeId,
        /// The part, of any size.
        chunk: &'a [u8],
    },
    /// A response ended.
    End {
        /// The exchange.
        exchange: OAuthExchangeId,
    },
    /// An exchange failed: nobody was reached, or it broke.
    Failure {
        /// The exchange.
        exchange: OAuthExchangeId,
        /// The words of the HTTP client.
        why: &'a str,
    },
    /// The user's browser was redirected to this URL, path with a query, or query; a person may have pasted it.
    Redirect(&'a str),
    /// What was to be signed was signed.
    Signature {
        /// The request for it.
        id: SignId,
        /// The signature; empty if there is none.
        signature: &'a [u8],
    },
    /// The lock of the store was acquired, or could not be.
    Acquired {
        /// The action.
        id: StoreId,
        /// Whether it was.
        acquired: bool,
    },
    /// The record was loaded.
    Loaded {
        /// The action.
        id: StoreId,
        /// The record; `Ok(None)` if there is none, `Err` if the store failed.
        record: Result<Option<&'a [u8]>, ()>,
    },
    /// The record was stored, or was not.
    Saved {
        /// The action.
        id: StoreId,
        /// What came of it.
        saved: SaveOutcome,
    },
    /// A new grant is requested, even if there is a token or an attempt just failed.
    Authorize,
    /// The credentials are given up: removed from the store, and revoked if the authorization server supports it.
    SignOut,
}

impl fmt::Debug for OAuthInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head { .. } => "Head",
            Self::Body { .. } => "Body",
            Self::End { .. } => "End",
            Self::Failure { .. } => "Failure",
            Self::Redirect(_) => "Redirect",
            Self::Signature { .. } => "Signature",
            Self::Acquired { .. } => "Acquired",
            Self::Loaded { .. } => "Loaded",
            Self::Saved { .. } => "Saved",
            Self::Authorize => "Authorize",
            Self::SignOut => "SignOut",
        })
    }
}
