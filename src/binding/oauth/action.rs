use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::error::OAuthError;
use super::reach::Reach;
use crate::address::shown;

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
    Unbrowse,
    /// Do something with the store of credentials.
    Store(StoreAction),
    /// Sign a JWT, and report the signature by
    /// [`handle_signature`](super::Authorization::handle_signature).
    Sign(SignRequest),
    /// Something happened.
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

    /// Where the browser is redirected. If a client is used that was registered in an earlier run, it is the redirect URI
    /// of that run, whose port may differ.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }
}

impl fmt::Debug for AuthorizationUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.url))
    }
}

/// An action on the store, which holds one record per server and user. Each is answered once, except `Release` and
/// `Remove`.
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
#[non_exhaustive]
pub enum OAuthEvent {
    /// There is a token. The requests that were refused are sent again with it.
    Authorized(Grant),
    /// There is no token, and the requests that wait for one fail. If it is a step-up that failed, the token before it
    /// is still there.
    Failed(OAuthError),
    /// The record in the store cannot be read, and is replaced.
    RecordUnreadable,
    /// The record was not stored, so that it is lost when this process ends.
    NotStored,
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The token.
    pub token: TokenId,
    /// How the token was obtained.
    pub kind: GrantKind,
    /// The authorization server.
    pub issuer: Box<str>,
    /// The resource that the token is for.
    pub resource: Box<str>,
    /// How the client was registered.
    pub registration: RegistrationKind,
    /// The scopes, separated by spaces.
    pub scopes: Box<str>,
}

/// How a token was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
