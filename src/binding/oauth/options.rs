use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::Secret;
#[cfg(feature = "sign")]
use super::action::SignKey;
use super::place::{Place, Zone, is_native, port_of};
use super::proof::PublicKey;
#[cfg(feature = "sign")]
use super::sign::SigningKey;

/// How an [`Authorization`](super::Authorization) behaves.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OAuthOptions {
    /// How a token is obtained. [`Flow::User`].
    pub flow: Flow,
    /// Where the user's browser is redirected: a loopback address with its port, a URL with a scheme of its own, or
    /// `https`. Empty where there is no user.
    pub redirect_uri: Box<str>,
    /// The name of the application, for dynamic registration.
    pub client_name: Box<str>,
    /// Clients that were registered in advance. One that fits is used before anything else.
    pub registered: Vec<RegisteredClient>,
    /// How a client that registers dynamically asks to authenticate. `None`: the first that the authorization server
    /// supports of [`ClientAuth::None`], [`ClientAuth::Post`] and [`ClientAuth::Basic`].
    pub registration_auth: Option<ClientAuth>,
    /// The URL of the client ID metadata document, `https` with a path.
    pub client_metadata_url: Option<Box<str>>,
    /// Scopes to request instead of those that the server names, separated by spaces.
    pub scopes: Option<Box<str>>,
    /// Whether refresh tokens are wanted: requests `offline_access` where the authorization server has that scope.
    /// `false`.
    pub offline_access: bool,
    /// Whether credentials are stored: yields [`StoreAction`](super::StoreAction). Without it they end with the
    /// [`Authorization`](super::Authorization); a hub has one for each session, and a server whose entry changes gets
    /// another session.
    /// `false`.
    pub stored: bool,
    /// Whether the user may be asked. Without it, a server that requires a user leads to
    /// [`OAuthEvent::Failed`](super::OAuthEvent::Failed). `true`.
    pub may_ask_user: bool,
    /// Whether a client without a user requests further scopes when the server requires them. `false`.
    pub step_up_without_user: bool,
    /// Whether the MCP server is on a private network although its name does not show it: it may then have an `http` URL,
    /// and its authorization server a private address. `false`.
    pub private_network: bool,
    /// The key that tokens are bound to, where the servers support it (RFC 9449). `None`.
    pub dpop: Option<PublicKey>,
    /// The private key of [`dpop`](Self::dpop), if it is in memory. Otherwise proofs are signed by
    /// [`OAuthAction::Sign`](super::OAuthAction::Sign). `None`.
    #[cfg(feature = "sign")]
    pub dpop_key: Option<SigningKey>,
    /// The private key that clients are registered with, if it is in memory. `None`.
    #[cfg(feature = "sign")]
    pub client_key: Option<SigningKey>,
    /// Deviations of authorization servers that are tolerated.
    pub tolerance: OAuthTolerance,
    /// Time limits.
    pub timeouts: OAuthTimeouts,
    /// Limits on what is read.
    pub limits: OAuthLimits,
}

impl OAuthOptions {
    /// The defaults, for an application of this name that receives redirects at this URI.
    pub fn new(client_name: impl Into<Box<str>>, redirect_uri: impl Into<Box<str>>) -> Self {
        Self {
            flow: Flow::User,
            redirect_uri: redirect_uri.into(),
            client_name: client_name.into(),
            registered: Vec::new(),
            registration_auth: None,
            client_metadata_url: None,
            scopes: None,
            offline_access: false,
            stored: false,
            may_ask_user: true,
            step_up_without_user: false,
            private_network: false,
            dpop: None,
            #[cfg(feature = "sign")]
            dpop_key: None,
            #[cfg(feature = "sign")]
            client_key: None,
            tolerance: OAuthTolerance::default(),
            timeouts: OAuthTimeouts::default(),
            limits: OAuthLimits::default(),
        }
    }

    /// Whether the options fit a server.
    pub(super) fn check(&self, server: &Place) -> Result<(), OAuthConfigError> {
        if !self.private_network && !server.is_protected() {
            return Err(OAuthConfigError::PlainHttp);
        }
        if let Some(url) = &self.client_metadata_url {
            let has_path = |place: &Place| place.text().len() > place.origin().len().saturating_add(1);
            if !url.starts_with("https://") || !Place::parse(url).is_some_and(|place| has_path(&place)) {
                return Err(OAuthConfigError::ClientMetadataUrl);
            }
        }
        let mut redirects = self.registered.iter().map(|client| self.redirect_of(client));
        if self.flow == Flow::User && !(is_redirect(&self.redirect_uri) && redirects.all(|uri| is_redirect(&uri))) {
            return Err(OAuthConfigError::RedirectUri);
        }
        if matches!(self.registration_auth, Some(ClientAuth::PrivateKeyJwt { .. })) {
            return Err(OAuthConfigError::RegistrationAuth);
        }
        if !self.registered.iter().all(RegisteredClient::is_sound) || !self.flow.is_sound() {
            return Err(OAuthConfigError::Client);
        }
        let issuers = self.registered.iter().filter_map(|client| client.issuer.as_deref());
        let is_issuer =
            |url: &str| Place::parse(url).is_some_and(|place| place.is_protected() && place.query().is_empty());
        if !issuers.chain(self.tolerance.issuer.as_deref()).all(is_issuer) {
            return Err(OAuthConfigError::IssuerUrl);
        }
        if let Flow::Enterprise(provider) = &self.flow
            && Place::parse(&provider.token_endpoint).is_none_or(|place| place.check(Zone::Loopback).is_err())
        {
            return Err(OAuthConfigError::TokenEndpoint);
        }
        if !self.has_issuers() {
            return Err(OAuthConfigError::Issuer);
        }
        #[cfg(feature = "sign")]
        if self.dpop_key.as_ref().is_some_and(|key| self.dpop != Some(key.public())) {
            return Err(OAuthConfigError::DpopKey);
        }
        Ok(())
    }

    /// Whether each secret, key and assertion belongs to an authorization server that is named.
    fn has_issuers(&self) -> bool {
        let mut issuers = self.registered.iter().map(|client| self.issuer_of(client));
        match &self.flow {
            Flow::User => self.registered.iter().all(|it| !self.is_confidential(it) || self.issuer_of(it).is_some()),
            _ if self.registered.is_empty() => self.tolerance.issuer.is_some(),
            Flow::ClientCredentials | Flow::Enterprise(_) => issuers.all(|issuer| issuer.is_some()),
            // There is one assertion.
            Flow::JwtBearer(_) => {
                let first = issuers.next().flatten();
                first.is_some() && issuers.all(|issuer| issuer == first)
            }
        }
    }

    /// Whether a client has a secret, a key or an assertion, or acts for itself.
    pub(crate) fn is_confidential(&self, client: &RegisteredClient) -> bool {
        let has_key = !matches!(client.auth, None | Some(ClientAuth::None));
        client.secret.is_some() || has_key || self.flow != Flow::User
    }

    /// The secrets that are configured.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let (first, second) = match &self.flow {
            Flow::User | Flow::ClientCredentials => (None, None),
            Flow::JwtBearer(assertion) => (Some(assertion), None),
            Flow::Enterprise(provider) => (Some(&provider.id_token), provider.client_secret.as_ref()),
        };
        self.registered.iter().filter_map(|client| client.secret.as_ref()).chain(first).chain(second)
    }

    /// The options with other secrets, for a journal.
    #[cfg(feature = "journal")]
    pub(super) fn with_secrets(mut self, mask: super::masked::Mask<'_>) -> Self {
        let mut change = |secret: &mut Secret| *secret = Secret::new(mask(secret.expose()));
        self.registered.iter_mut().filter_map(|client| client.secret.as_mut()).for_each(&mut change);
        match &mut self.flow {
            Flow::User | Flow::ClientCredentials => {}
            Flow::JwtBearer(assertion) => change(assertion),
            Flow::Enterprise(provider) => {
                change(&mut provider.id_token);
                provider.client_secret.iter_mut().for_each(&mut change);
            }
        }
        self
    }

    /// The authorization server that knows a client, if it is named.
    pub(super) fn issuer_of<'a>(&'a self, client: &'a RegisteredClient) -> Option<&'a str> {
        client.issuer.as_deref().or(self.tolerance.issuer.as_deref())
    }

    /// The authorization server that the embedder's assertion belongs to, if there is one and it is named.
    pub(crate) fn issuer_of_assertion(&self) -> Option<&str> {
        match (&self.flow, self.registered.first()) {
            (Flow::JwtBearer(_), Some(client)) => self.issuer_of(client),
            (Flow::JwtBearer(_), None) => self.tolerance.issuer.as_deref(),
            (Flow::User | Flow::ClientCredentials | Flow::Enterprise(_), _) => None,
        }
    }

    /// The signature of a key in memory.
    #[cfg(feature = "sign")]
    pub(super) fn signature(&self, key: SignKey, input: &str) -> Option<Vec<u8>> {
        let key = match key {
            SignKey::Client => self.client_key.as_ref(),
            SignKey::Proof => self.dpop_key.as_ref(),
        };
        key.map(|key| key.sign(input).to_vec())
    }

    /// A redirect URI of a client that was registered in advance, with the port of this process.
    pub(super) fn redirect_of(&self, client: &RegisteredClient) -> Box<str> {
        match &client.redirect_uri {
            Some(uri) => match port_of(&self.redirect_uri) {
                Some(port) => uri.replace("{port}", &port).into(),
                None => uri.clone(),
            },
            None => self.redirect_uri.clone(),
        }
    }
}

/// Whether a browser may be redirected there: `https`, a loopback address, or a scheme of its own.
fn is_redirect(uri: &str) -> bool {
    let is_valid = iri_string::types::UriStr::new(uri).is_ok_and(|uri| uri.fragment().is_none());
    let scheme = uri.split(':').next().unwrap_or_default();
    let is_script = ["javascript", "data", "vbscript", "file", "blob", "about"]
        .iter()
        .any(|script| scheme.eq_ignore_ascii_case(script));
    is_valid && !is_script && (!scheme.eq_ignore_ascii_case("http") || is_native(uri))
}

/// How a token is obtained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "journal",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Flow {
    /// A user authorizes in a browser (authorization code with PKCE).
    User,
    /// The client acts on its own behalf (client credentials).
    ClientCredentials,
    /// An assertion of the embedder's is exchanged for a token (RFC 7523): workload identity, or the last step of
    /// enterprise-managed authorization, if the embedder does the first.
    JwtBearer(Secret),
    /// The identity of a user, which the enterprise's identity provider asserts, is exchanged for a token: at the
    /// identity provider, and then at the authorization server (enterprise-managed authorization).
    Enterprise(IdentityProvider),
}

/// The identity provider of an enterprise, and the user's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct IdentityProvider {
    /// Its token endpoint.
    pub token_endpoint: Box<str>,
    /// The client ID that the application has there.
    pub client_id: Box<str>,
    /// The secret that belongs to it, if it has one.
    pub client_secret: Option<Secret>,
    /// The ID token that the user's sign-in yielded.
    pub id_token: Secret,
}

impl IdentityProvider {
    /// An identity provider that knows the application without a secret.
    pub fn new(token_endpoint: impl Into<Box<str>>, client_id: impl Into<Box<str>>, id_token: Secret) -> Self {
        Self { token_endpoint: token_endpoint.into(), client_id: client_id.into(), client_secret: None, id_token }
    }
}

/// A client that was registered in advance.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RegisteredClient {
    /// The authorization server that knows it. `None`: [`OAuthTolerance::issuer`]. Where that is `None`, too, it is the
    /// first one that the server names, and another one later is an error; a client with a secret or a key, and any
    /// client without a user, must name its issuer.
    pub issuer: Option<Box<str>>,
    /// The client ID.
    pub id: Box<str>,
    /// Its secret, if it has one.
    pub secret: Option<Secret>,
    /// How it authenticates. `None`: as the authorization server supports it.
    pub auth: Option<ClientAuth>,
    /// Where it was registered to be redirected; `{port}` stands for the port of [`OAuthOptions::redirect_uri`]. `None`:
    /// [`OAuthOptions::redirect_uri`].
    pub redirect_uri: Option<Box<str>>,
}

impl RegisteredClient {
    /// A client without a secret.
    pub fn new(id: impl Into<Box<str>>) -> Self {
        Self { issuer: None, id: id.into(), secret: None, auth: None, redirect_uri: None }
    }
}

impl RegisteredClient {
    /// Whether it has what it authenticates with.
    fn is_sound(&self) -> bool {
        let has_secret = self.secret.as_ref().map(|secret| !secret.expose().is_empty());
        let is_auth = match &self.auth {
            None | Some(ClientAuth::None) => has_secret != Some(false),
            Some(ClientAuth::Basic | ClientAuth::Post) => has_secret == Some(true),
            Some(ClientAuth::PrivateKeyJwt { algorithm, .. }) => {
                !algorithm.is_empty() && !algorithm.eq_ignore_ascii_case("none")
            }
        };
        !self.id.is_empty() && is_auth
    }
}

impl Flow {
    /// Whether it has what it presents.
    fn is_sound(&self) -> bool {
        match self {
            Self::User | Self::ClientCredentials => true,
            Self::JwtBearer(assertion) => !assertion.expose().is_empty(),
            Self::Enterprise(provider) => {
                let has_secret = provider.client_secret.as_ref().is_none_or(|secret| !secret.expose().is_empty());
                !provider.client_id.is_empty() && !provider.id_token.expose().is_empty() && has_secret
            }
        }
    }
}

/// How a client authenticates at the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "journal",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum ClientAuth {
    /// Not at all.
    None,
    /// With its secret, in the `Authorization` header.
    Basic,
    /// With its secret, in the form.
    Post,
    /// With an assertion that it signs (RFC 7523, section 2.2).
    PrivateKeyJwt {
        /// The algorithm: `ES256`.
        algorithm: Box<str>,
        /// The id of the key, if the authorization server knows several.
        key_id: Option<Box<str>>,
    },
}

impl ClientAuth {
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::PrivateKeyJwt { .. } => "private_key_jwt",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|auth| auth.as_str() == name)
    }
}

/// Deviations that are tolerated, and those that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OAuthTolerance {
    /// The authorization server to use, of those that the server names, or if it names none. `None`: the first that has
    /// metadata.
    pub issuer: Option<Box<str>>,
    /// Pairs of the issuer that metadata was requested for, and the one that it may name instead. What belongs to the
    /// second may go to the first, and nothing of the first to the second.
    pub trusted_issuers: Vec<(Box<str>, Box<str>)>,
    /// Accept metadata without an issuer. `false`.
    pub missing_issuer: bool,
    /// Require `iss` in each response to an authorization request, whether the authorization server advertises it or not
    /// (RFC 9207). Without it, a response may be from another authorization server than the one that was asked. `false`.
    pub require_iss: bool,
    /// Require the `resource` of the metadata to be the URL of the server, as the specification does: where an origin has
    /// several tenants, a prefix of the URL is another one's. `false`.
    pub exact_resource: bool,
    /// Leave out `resource`, which some authorization servers refuse. `false`.
    pub omit_resource: bool,
    /// The scopes that a refresh requests. [`RefreshScopes::None`].
    pub refresh_scopes: RefreshScopes,
}

impl OAuthTolerance {
    /// Whether metadata that was asked for at this issuer may say this one.
    pub(super) fn is_issuer(&self, asked: &str, said: &str) -> bool {
        is_same_issuer(asked, said) || self.trusted_issuers.iter().any(|(from, to)| **from == *asked && **to == *said)
    }

    /// Whether a configured issuer is the authorization server that was asked, or the one that its metadata may say.
    pub(super) fn is_configured(&self, own: &str, asked: &str, said: &str) -> bool {
        is_same_issuer(own, asked) || is_same_issuer(own, said) && self.is_issuer(asked, said)
    }
}

/// Whether two issuers are the same, but for the final slash of one without a path: they are one origin, so that nothing can be
/// mixed up.
pub(super) fn is_same_issuer(one: &str, other: &str) -> bool {
    let is_with_slash = |bare: &str, slashed: &str| {
        slashed.strip_suffix('/') == Some(bare) && Place::parse(bare).is_some_and(|place| place.origin() == bare)
    };
    one == other || is_with_slash(one, other) || is_with_slash(other, one)
}

/// The scopes that a refresh requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum RefreshScopes {
    /// None, so that they stay.
    #[default]
    None,
    /// Those that were granted.
    Granted,
    /// Those that were requested.
    Requested,
}

/// Time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OAuthTimeouts {
    /// For a response. 30 s.
    pub request: Duration,
    /// For the search for metadata: all its requests, and the waits between them. 2 min.
    pub metadata: Duration,
    /// For the user. 10 min.
    pub user: Duration,
    /// For the store, the lock included, and for a signature. 60 s.
    pub store: Duration,
    /// Between a failed attempt and the next one; it doubles up to 10 min. Also between renewals of tokens that the
    /// server refuses after it accepted them; the first four are at once. 10 s.
    pub cooldown: Duration,
}

impl Default for OAuthTimeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            metadata: Duration::from_secs(120),
            user: Duration::from_secs(600),
            store: Duration::from_secs(60),
            cooldown: Duration::from_secs(10),
        }
    }
}

/// Limits on what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OAuthLimits {
    /// Bytes of a response, and of a stored record. 1 MiB.
    pub bytes: usize,
    /// Authorization servers that are tried, of those that a server names. 4.
    pub servers: usize,
}

impl Default for OAuthLimits {
    fn default() -> Self {
        Self { bytes: 1 << 20, servers: 4 }
    }
}

/// What is wrong with the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthConfigError {
    /// The server's URL is not an absolute `http` or `https` URL, or longer than 8 KiB.
    #[error("the server's URL is not an absolute http or https URL of at most 8 KiB, with a host in ASCII")]
    ServerUrl,
    /// The server's URL is `http`, its host is not a loopback address, and
    /// [`private_network`](OAuthOptions::private_network) is not set.
    #[error("the server's URL is http, and its host is not a loopback address: tokens would be readable on their way")]
    PlainHttp,
    /// The entropy is all zeros, so that anybody could guess what is derived from it.
    #[error("the entropy is all zeros: it has to come from a random number generator for secrets")]
    Entropy,
    /// A registered client has no ID, an empty secret, or authenticates with a secret or an algorithm that it does not
    /// have; or what its flow presents is empty.
    #[error("a client has no ID, or not what it authenticates with: its secret, an algorithm, an assertion")]
    Client,
    /// An issuer is not an `https` URL without a query.
    #[error("an issuer is not an https URL without a query")]
    IssuerUrl,
    /// A client that registers dynamically has no key.
    #[error("a client that registers dynamically cannot authenticate with a key")]
    RegistrationAuth,
    /// A client with a secret or a key, or without a user, does not name the authorization server that it belongs to; or
    /// an assertion belongs to several.
    #[error(
        "a client with a secret, a key or an assertion has to name the authorization server that it belongs to (issuer)"
    )]
    Issuer,
    /// The URL of the client ID metadata document is not `https` with a path.
    #[error("the URL of the client ID metadata document is not https with a path")]
    ClientMetadataUrl,
    /// The redirect URI is not `https`, a loopback address, or a URL with a scheme of its own.
    #[error("the redirect URI is not https, a loopback address, or a URL with a scheme of its own")]
    RedirectUri,
    /// The token endpoint of the identity provider is neither `https` nor a loopback address.
    #[error("the token endpoint of the identity provider is neither https nor a loopback address")]
    TokenEndpoint,
    /// The public part of the private key for proofs is not the key that tokens are bound to.
    #[cfg(feature = "sign")]
    #[error("the public part of the private key for proofs is not the key that tokens are bound to")]
    DpopKey,
}
