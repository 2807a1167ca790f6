//! Authorization by OAuth 2.1 for servers over HTTP, without I/O (feature `oauth`; specification 2026-07-28,
//! "Authorization").
//!
//! An [`Authorization`] obtains, refreshes and stores the token for one server and one user. A client has it by
//! [`Http::with_oauth`](crate::Http::with_oauth): its requests present the token, and its
//! [`poll`](crate::Client::poll) returns what has to be done as [`HttpAction::OAuth`](crate::binding::http::HttpAction),
//! whose results [`Client::handle_oauth`](crate::Client::handle_oauth) takes.
//!
//! - A request that the server refuses waits for a token and is sent again, three times at most. The deadline of a request
//!   of the embedder stands still meanwhile. Requests that are refused together wait for one refresh; one that was refused
//!   with an older token or nonce than the current one is only sent again, at once and alone.
//! - A handshake that is refused parks the client until there is a token, whether it reconnects or not, three times at most.
//! - If there is no token, or the user signs out, requests that wait end with the reason. [`OAuthEvent`] reports both.
//! - The token goes to URLs under the resource that it was issued for, and to the endpoint that the stream of an HTTP+SSE
//!   server names at its origin, wherever its path lies. A redirect to another path of the origin is followed without it.
//! - An [`Event::Unauthorized`](crate::Event::Unauthorized) comes only if the server refuses a request for good.
//! - A stream that is resumed is not: its request counts as lost if the server refuses that.
//! - A journal contains no tokens, so a recorded client has no OAuth. A snapshot does not contain it
//!   either: a restored client gets an authorization anew, and sends what waited again on
//!   [`Client::authorized`](crate::Client::authorized).
//!
//! Without [`with_oauth`](crate::Http::with_oauth) an authorization stands beside a client, for instance one for each
//! user: requests get the header that [`Authorization::header`] gives, an
//! [`Event::Unauthorized`](crate::Event::Unauthorized) goes to [`Authorization::handle_unauthorized`] with the [`TokenId`]
//! that the refused request had, the [`TokenId`] of one that was answered otherwise to
//! [`Authorization::handle_accepted`], and on [`OAuthEvent::Authorized`] the embedder calls
//! [`Client::authorized`](crate::Client::authorized). If the authorization fails, it ends the requests with
//! [`Client::decline`](crate::Client::decline).
//!
//! Tokens are bound to a key (DPoP, RFC 9449) if [`OAuthOptions::dpop`] has one. Signatures are actions, so the key may be
//! in a TPM; with the feature `sign`, a `SigningKey` in memory signs.
//!
//! `attempt` (with its `requests`) and `credentials` are the two components, each with a table of its own. `authorization`
//! passes signals between them, presents the token, and decides what a refused request means to them.

mod action;
mod attempt;
mod authorization;
mod core;
mod credentials;
#[cfg(feature = "serde")]
mod masked;
mod metadata;
mod options;
mod place;
mod proof;
mod requests;
mod secret;
#[cfg(feature = "sign")]
mod sign;

pub use action::{
    AuthorizationUrl, Grant, GrantKind, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthRequest,
    RegistrationKind, SaveOutcome, SignId, SignKey, SignRequest, Stage, StoreAction, StoreId, StoredRecord, TokenId,
};
pub use authorization::Authorization;
pub use credentials::stored_generation;
pub use options::{
    ClientAuth, Flow, IdentityProvider, OAuthConfigError, OAuthLimits, OAuthOptions, OAuthTimeouts, OAuthTolerance,
    RefreshScopes, RegisteredClient,
};
pub use place::Reach;
pub use proof::PublicKey;
pub use secret::Secret;
#[cfg(feature = "sign")]
pub use sign::{NoKey, SigningKey};

pub(crate) use self::core::WallClock;
pub(crate) use action::Denied;
pub(crate) use authorization::BrowserUse;
#[cfg(feature = "journal")]
pub(crate) use masked::{action as masked_action, response as masked_response};
pub(crate) use place::{port_of, with_port};
pub(crate) use proof::{Credential, Presented, Proved};
pub(crate) use secret::Entropy;
