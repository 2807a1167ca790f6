//! Actions, events, inputs and errors of an authorization.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use http::{HeaderMap, StatusCode};
use zeroize::Zeroizing;

use super::place::Reach;
use crate::text::shown;

/// What the embedder is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthAction {
    /// Run a request, without cookies, without credentials of the embedder's own, and without following redirects.
    Request(OAuthRequest),
    /// Drop an exchange: read no more of it, report nothing more of it.
    Drop(OAuthExchangeId),
    /// Show this URL to the user, in a browser. What the browser is redirected to is the input
    /// [`handle_redirect`](super::Authorization::handle_redirect).
    Browse(AuthorizationUrl),
    /// The URL need not be shown any more: the user authorized, or the attempt ended.
    EndBrowse,
    /// Do something with the store of credentials.
    Store(StoreAction),
    /// Sign a JWT, and report the signature by
    /// [`handle_signature`](super::Authorization::handle_signature).
    Sign(SignRequest),
    /// An event for the embedder.
    Event(OAuthEvent),
}

/// A request to run. Its `Debug` shows no secret.
#[derive(Clone)]
#[non_exhaustive]
pub struct OAuthRequest {
    /// The exchange that its response is reported for.
    pub exchange: OAuthExchangeId,
    /// The addresses that it may reach.
    pub reach: Reach,
    /// The request.
    pub request: http::Request<Vec<u8>>,
}

/// The extensions of the request are not compared.
impl PartialEq for OAuthRequest {
    fn eq(&self, other: &Self) -> bool {
        let Self { exchange, reach, request } = self;
        (exchange, reach, request.method(), request.uri(), request.headers(), request.body())
            == (
                &other.exchange,
                &other.reach,
                other.request.method(),
                other.request.uri(),
                other.request.headers(),
                other.request.body(),
            )
    }
}

impl Eq for OAuthRequest {}

impl fmt::Debug for OAuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exchange, reach, request } = self;
        f.debug_struct("OAuthRequest")
            .field("exchange", exchange)
            .field("reach", reach)
            .field("method", request.method())
            .field("uri", &shown(&alloc::format!("{}", request.uri())))
            .finish_non_exhaustive()
    }
}

/// An exchange: a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OAuthExchangeId(pub(super) u64);

impl OAuthExchangeId {
    /// The exchange with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The exchange as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// The URL at which the user authorizes. It holds no secret that outlives the attempt, yet its `Debug` shows no query.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationUrl {
    pub(super) url: Box<str>,
    pub(super) redirect_uri: Box<str>,
}

impl AuthorizationUrl {
    /// The URL: `https`, or `http` to a loopback address.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Where the browser is redirected: the redirect URI that the client is registered with, at the host and port of
    /// [`OAuthOptions::redirect_uri`](super::OAuthOptions::redirect_uri) if both are loopback addresses.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }
}

impl fmt::Debug for AuthorizationUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.url))
    }
}

/// An action on the store, which holds one record per user and server: by the name that the host gives the server, which in a
/// hub is that of its entry, and its URL. Two entries with one URL are two accounts. Each action is answered once, except
/// `Release` and `Remove`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreAction {
    /// Acquire the lock of the record, which other processes respect. The answer is
    /// [`handle_acquired`](super::Authorization::handle_acquired).
    Acquire(StoreId),
    /// Load the record. The answer is [`handle_loaded`](super::Authorization::handle_loaded).
    Load(StoreId),
    /// Replace the record as a whole. The answer is [`handle_saved`](super::Authorization::handle_saved).
    Save {
        /// The id of the action.
        id: StoreId,
        /// The record.
        record: StoredRecord,
        /// The generation of the record that is to be replaced, 0 for none. If the store has another one, nothing is
        /// written, and the answer is [`SaveOutcome::Conflict`]. [`stored_generation`](super::stored_generation) reads it.
        replaces: u64,
    },
    /// Release the lock, if it is held. It is not answered.
    Release,
    /// Remove the record. It is not answered.
    Remove,
}

/// An action on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StoreId(pub(super) u64);

impl StoreId {
    /// The action with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The action as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// A record as it is stored. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredRecord(pub(super) Zeroizing<Vec<u8>>);

impl StoredRecord {
    /// The record: JSON, with secrets in it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for StoredRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What came of [`StoreAction::Save`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum SaveOutcome {
    /// The record was replaced.
    Stored,
    /// The store has a record of another generation.
    Conflict,
    /// The store failed.
    Failed,
}

/// A JWT to sign.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignRequest {
    /// The id of the request.
    pub id: SignId,
    /// The key to sign with.
    pub key: SignKey,
    /// The algorithm (RFC 7518, section 3.1): `ES256`, or the one in [`ClientAuth`](super::ClientAuth).
    pub algorithm: Box<str>,
    /// What is signed: the header and the claims of the JWT, encoded.
    pub input: String,
}

/// A key of the embedder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum SignKey {
    /// The one that the client is registered with. It signs assertions (RFC 7523, section 2.2).
    Client,
    /// The one that tokens are bound to, [`OAuthOptions::dpop`](super::OAuthOptions::dpop). It signs proofs (RFC 9449).
    Proof,
}

impl fmt::Debug for SignRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, key, algorithm, .. } = self;
        f.debug_struct("SignRequest")
            .field("id", id)
            .field("key", key)
            .field("algorithm", algorithm)
            .finish_non_exhaustive()
    }
}

/// A request for a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SignId(pub(super) u64);

impl SignId {
    /// The request with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The request as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum OAuthEvent {
    /// There is a token. The requests that were refused are sent again with it.
    Authorized(Grant),
    /// There is no token, and the requests that wait for one fail. If it is a step-up that failed, the token before it
    /// is still there.
    Failed(OAuthError),
    /// The challenge of the server names metadata that may not be requested. The well-known places are requested instead.
    ChallengeIgnored(Box<str>),
    /// The record in the store cannot be read, and is replaced.
    RecordUnreadable,
    /// The record was not stored, so that it is lost when this process ends.
    NotStored,
    /// A token of credentials that were given up was not revoked, and may still be valid. Says which one, and why.
    NotRevoked(Box<str>),
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Grant {
    /// The token.
    pub token: TokenId,
    /// How the token was obtained.
    pub kind: GrantKind,
    /// The authorization server.
    pub issuer: Box<str>,
    /// The resource that the token is for.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::masked::serialize_url"))]
    pub resource: Box<str>,
    /// How the client was registered.
    pub registration: RegistrationKind,
    /// The scopes, separated by spaces.
    pub scopes: Box<str>,
}

/// How a token was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum GrantKind {
    /// A user authorized.
    AuthorizationCode,
    /// A refresh.
    RefreshToken,
    /// The client acts on its own behalf.
    ClientCredentials,
    /// An assertion of the embedder's, or of its identity provider, was exchanged (RFC 7523).
    JwtBearer,
    /// It was in the store.
    Stored,
}

impl GrantKind {
    /// The name in a token request; `stored` for [`GrantKind::Stored`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::RefreshToken => "refresh_token",
            Self::ClientCredentials => "client_credentials",
            Self::JwtBearer => "urn:ietf:params:oauth:grant-type:jwt-bearer",
            Self::Stored => "stored",
        }
    }
}

/// How the client was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum RegistrationKind {
    /// The embedder configured it.
    PreRegistered,
    /// A client ID metadata document.
    MetadataDocument,
    /// Dynamically.
    Dynamic,
}

impl RegistrationKind {
    /// The stable name: `pre-registered`, `metadata-document`, `dynamic`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreRegistered => "pre-registered",
            Self::MetadataDocument => "metadata-document",
            Self::Dynamic => "dynamic",
        }
    }
}

/// Names an access token, and shows nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TokenId(pub(super) u64);

impl TokenId {
    /// The token with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The token as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

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
    /// The wall clock, when the process slept, or the clock was set.
    Clock {
        /// The time since the Unix epoch.
        unix: Duration,
    },
    /// A new grant is requested, even if there is a token or an attempt just failed.
    Authorize,
    /// The user gave up the sign-in that is in progress. Credentials stay.
    Cancel,
    /// The URL cannot be shown to the user, or its redirect cannot be received, and why: the attempt fails for this reason.
    NotShown(&'a str),
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
            Self::Clock { .. } => "Clock",
            Self::Authorize => "Authorize",
            Self::Cancel => "Cancel",
            Self::NotShown(_) => "NotShown",
            Self::SignOut => "SignOut",
        })
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authorization failed at {stage}: {reason}")]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OAuthError {
    /// The stage that failed.
    pub stage: Stage,
    /// What was expected, what came, and what to do. Words of a server are an excerpt.
    pub reason: Box<str>,
}

impl OAuthError {
    pub(super) fn new(stage: Stage, reason: impl Into<Box<str>>) -> Self {
        Self { stage, reason: reason.into() }
    }
}

/// Why a request to the MCP server is refused for good.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The server forbids it. The reason says so, and names the scopes.
    Forbidden(OAuthError),
    /// There is no token that the server accepts.
    Unauthorized(OAuthError),
}

impl From<Denied> for OAuthError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Forbidden(error) | Denied::Unauthorized(error) => error,
        }
    }
}

/// The stage of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Stage {
    /// Protected-resource metadata.
    ResourceMetadata,
    /// Authorization server metadata.
    ServerMetadata,
    /// The registration of the client.
    Registration,
    /// The user.
    Authorization,
    /// The token request.
    Token,
    /// A refresh.
    Refresh,
    /// A grant of further scopes.
    StepUp,
}

impl Stage {
    /// The stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ResourceMetadata => "resource-metadata",
            Self::ServerMetadata => "server-metadata",
            Self::Registration => "registration",
            Self::Authorization => "authorization",
            Self::Token => "token",
            Self::Refresh => "refresh",
            Self::StepUp => "step-up",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An excerpt of a server's words, on one line.
pub(super) fn excerpt(words: &str) -> Box<str> {
    crate::text::excerpt(&one_line(words)).into()
}

/// A text on one line: white space and control characters between words become a space.
fn one_line(text: &str) -> String {
    let words = text.split(|it: char| it.is_whitespace() || it.is_control()).filter(|word| !word.is_empty());
    let mut out = String::with_capacity(text.len());
    for word in words {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line() {
        assert_eq!(one_line(" a\r\n\tb\u{7}\u{85}c  d\n"), "a b c d");
        assert_eq!(one_line("\n"), "");
    }
}
