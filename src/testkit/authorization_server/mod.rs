//! The fake authorization server: OAuth 2.1 as the clients of this crate use it, and the tokens that MCP servers demand.

mod endpoints;
mod received;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::format;
use std::string::String;
use std::vec::Vec;

use http::{Request, Response, StatusCode};
use serde_json::Value;

use self::received::{challenge_of, claims, is_below, is_same_origin, split};
use super::script::{On, Reply, Scripts};
use super::server::{ServerOutput, header_map};
use crate::Time;

pub use received::{Endpoint, Received};

/// Requests that are kept, secrets that are known, and violations. Of more secrets, some are forgotten, and not accepted
/// any more.
const LOG: usize = 65_536;
const SECRETS: usize = 65_536;
const VIOLATIONS: usize = 256;

const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";
const SERVER_METADATA: &str = "/.well-known/oauth-authorization-server";
const OPENID_METADATA: &str = "/.well-known/openid-configuration";

/// An OAuth 2.1 authorization server that performs no I/O, reads no clock and draws no random numbers (feature `oauth`):
/// requests of a client and the time in, responses out.
///
/// It has metadata (RFC 8414 and OpenID Connect Discovery), dynamic registration, an authorization endpoint with a user
/// who consents, a token endpoint, and revocation. It [protects](Self::protects) MCP servers: it has their metadata
/// (RFC 9728), and refuses requests to them that do not have a token of its own. A [`Sim`](super::Sim) runs it together
/// with clients, hubs and [`FakeServer`](super::FakeServer)s. Without one, [`answer`](Self::answer) gives the response to
/// a request, and [`browse`](Self::browse) the redirect of a user's browser.
///
/// It verifies what a client sends: the redirect URI, PKCE with S256, the client's authentication (`none`,
/// `client_secret_basic`, `client_secret_post`, the claims of `private_key_jwt`), the resource, refresh tokens, and the
/// claims of proofs of possession (RFC 9449). A code, a refresh token that rotates and an assertion are accepted once; when
/// a code or a refresh token comes again, the tokens that descend from it are revoked (RFC 9700). Grants are the code,
/// refresh with rotation, client credentials, `jwt-bearer`, and the token exchange of an identity provider.
///
/// # Deviations
///
/// A [`Reply`] says how it responds to a request to an [`Endpoint`]:
///
/// | reply | what happens |
/// | --- | --- |
/// | [`With`](Reply::With) | the answer has other members; at the authorization endpoint the redirect, at an MCP server the challenge has other parameters |
/// | [`Result`](Reply::Result) | the answer has these members alone |
/// | [`Error`](Reply::Error) | it is refused with this status and an OAuth error: `invalid_grant`, or `invalid_grant: with a description`; the authorization endpoint redirects with it, as it does when a user refuses (`access_denied`) |
/// | [`Status`](Reply::Status) | it is answered with a page of HTML, or redirected |
/// | [`Noise`](Reply::Noise) | the text comes before the JSON |
/// | [`Late`](Reply::Late), [`Silent`](Reply::Silent), [`Dies`](Reply::Dies), [`Torn`](Reply::Torn), [`DiesFirst`](Reply::DiesFirst) | as everywhere; at the authorization endpoint, the user takes this time, or never comes back |
/// | [`Twice`](Reply::Twice) | nothing: a response comes once |
///
/// What an answer says counts: a token with another `expires_in` or `scope` has them, and without a `refresh_token` in
/// it, the one before stays. A scripted reply that answers has the members that [`always`](Self::always) sets, unless it
/// says others. The error `use_dpop_nonce` comes with a new nonce, which proofs need from then on. At an MCP server only
/// `With`, `Error` and `Status` have an effect; the rest is scripted at the [`FakeServer`](super::FakeServer).
///
/// # What it does not do
///
/// It verifies no signatures, and nothing that needs a wall clock (`exp`, `iat`, `client_secret_expires_at`). It does not
/// fetch client ID metadata documents: each `https` client ID is accepted. Endpoints stay where they are when metadata names
/// others. It has no page to sign in at, no ID tokens, no introspection, and no pushed authorization requests (PAR).
#[derive(Clone, Debug)]
pub struct FakeAuthorizationServer {
    issuer: String,
    marker: String,
    resources: Vec<String>,
    /// Requests to MCP servers that no demand is for need no token.
    is_open: bool,
    demands: Vec<(On, String)>,
    clients: BTreeMap<String, Client>,
    /// Assertions and ID tokens.
    accepted: BTreeSet<String>,
    scripts: Scripts<Endpoint>,
    now: Time,
    issued: BTreeMap<String, Issued>,
    /// The challenges of authorization requests.
    challenges: BTreeSet<String>,
    /// What may come once: assertions, and the ids of proofs.
    seen: BTreeSet<String>,
    /// How many of each kind were named.
    counts: BTreeMap<&'static str, u64>,
    /// The nonces that proofs for itself and for the MCP servers need.
    nonce: Option<String>,
    resource_nonce: Option<String>,
    received: VecDeque<Received>,
    violations: Vec<String>,
}

#[derive(Clone, Debug)]
struct Client {
    auth: Auth,
    /// None for any.
    redirect_uris: Vec<String>,
}

/// How a client authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Auth {
    None,
    Secret(String),
    Key,
}

/// A code or a token.
#[derive(Clone, Debug)]
struct Issued {
    kind: Kind,
    grant: Grant,
    ends: Option<Time>,
    /// It was used, replaced or revoked.
    is_over: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Code { challenge: String, redirect_uri: String },
    Access,
    Refresh,
}

/// What a client was granted.
#[derive(Clone, Debug, PartialEq)]
struct Grant {
    /// The code and all tokens that descend from it have the same number.
    family: u64,
    client: String,
    resource: Option<String>,
    scopes: String,
    /// The key that its tokens are bound to.
    key: Option<Value>,
}

impl FakeAuthorizationServer {
    /// The authorization server with this issuer: an `https` URL, possibly with a path. It knows no clients, has dynamic
    /// registration, and protects no MCP server.
    pub fn new(issuer: &str) -> Self {
        let host = split(issuer).0.rsplit('/').next().unwrap_or_default();
        Self {
            issuer: issuer.into(),
            marker: host.into(),
            resources: Vec::new(),
            is_open: false,
            demands: Vec::new(),
            clients: BTreeMap::new(),
            accepted: BTreeSet::new(),
            scripts: Scripts::default(),
            now: Time::ZERO,
            issued: BTreeMap::new(),
            challenges: BTreeSet::new(),
            seen: BTreeSet::new(),
            counts: BTreeMap::new(),
            nonce: None,
            resource_nonce: None,
            received: VecDeque::new(),
            violations: Vec::new(),
        }
    }

    /// Sets the text that every secret that it issues ends with, so that a test can look for it: a first access token is
    /// `at1-MARKER`, a refresh token `rt1-MARKER`, a code `code1-MARKER`, a client secret `cs1-MARKER`. The issuer's host
    /// by default. Two servers of one test have different markers.
    #[must_use]
    pub fn marked(mut self, marker: &str) -> Self {
        self.marker = marker.into();
        self
    }

    /// Protects the MCP server with this URL, and what is below it.
    #[must_use]
    pub fn protects(mut self, url: &str) -> Self {
        self.protect(url);
        self
    }

    /// As [`protects`](Self::protects), while the server runs.
    pub fn protect(&mut self, url: &str) {
        self.resources.push(url.into());
    }

    /// Does not protect the MCP server with this URL any more.
    pub fn unprotect(&mut self, url: &str) {
        self.resources.retain(|known| known != url);
    }

    /// Sets whether requests to the MCP servers that no [demand](Self::demands) is for need no token; `false` by default.
    #[must_use]
    pub const fn anonymous(mut self, may: bool) -> Self {
        self.is_open = may;
        self
    }

    /// Demands a token with these scopes, separated by spaces, for requests of this kind to the MCP servers. Of several
    /// demands for a request, all count.
    #[must_use]
    pub fn demands(mut self, on: On, scopes: &str) -> Self {
        self.demand(on, scopes);
        self
    }

    /// As [`demands`](Self::demands), while the server runs.
    pub fn demand(&mut self, on: On, scopes: &str) {
        self.demands.push((on, scopes.into()));
    }

    /// Registers a client without a secret. Any redirect URI is accepted of it.
    #[must_use]
    pub fn client(self, id: &str) -> Self {
        self.registered(id, Auth::None)
    }

    /// Registers a client with a secret.
    #[must_use]
    pub fn client_with_secret(self, id: &str, secret: &str) -> Self {
        self.registered(id, Auth::Secret(secret.into()))
    }

    /// Registers a client that signs assertions (`private_key_jwt`).
    #[must_use]
    pub fn client_with_key(self, id: &str) -> Self {
        self.registered(id, Auth::Key)
    }

    fn registered(mut self, id: &str, auth: Auth) -> Self {
        self.clients.insert(id.into(), Client { auth, redirect_uris: Vec::new() });
        self
    }

    /// Accepts this assertion (`jwt-bearer`) or ID token (token exchange), any number of times. Otherwise it accepts JWTs
    /// whose audience it is, each once, as another fake server issues them.
    #[must_use]
    pub fn accepts(mut self, assertion: &str) -> Self {
        self.accepted.insert(assertion.into());
        self
    }

    /// Scripts the next requests to an endpoint: one reply each, then the server answers as it should. Scripts are used
    /// up in the order in which they were added.
    #[must_use]
    pub fn script(mut self, endpoint: Endpoint, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.add_script(endpoint, replies);
        self
    }

    /// As [`script`](Self::script), while the server runs.
    pub fn add_script(&mut self, endpoint: Endpoint, replies: impl IntoIterator<Item = Reply>) {
        self.scripts.add(endpoint, replies);
    }

    /// Scripts every request to an endpoint for which no script has a reply left, in place of the reply that was set
    /// before. With [`Reply::Normal`], the server answers as it should again.
    #[must_use]
    pub fn always(mut self, endpoint: Endpoint, reply: Reply) -> Self {
        self.set_always(endpoint, reply);
        self
    }

    /// As [`always`](Self::always), while the server runs.
    pub fn set_always(&mut self, endpoint: Endpoint, reply: Reply) {
        self.scripts.always(endpoint, reply);
    }

    /// The issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The requests that came, in order, those to the MCP servers included: the last 65,536.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &Received> {
        self.received.iter()
    }

    /// How many requests to an endpoint came, of the last 65,536.
    pub fn received(&self, endpoint: &Endpoint) -> usize {
        self.received.iter().filter(|received| received.is_of(endpoint)).count()
    }

    /// Whether a secret that a client has belongs to this server: a code, a token or a client secret that it issued or
    /// was given, an assertion that it accepts or is the audience of, or the code verifier of an authorization request
    /// that came here.
    pub fn owns(&self, secret: &str) -> bool {
        let is_of_client = |client: &Client| client.auth == Auth::Secret(secret.into());
        self.issued.contains_key(secret)
            || self.accepted.contains(secret)
            || self.clients.values().any(is_of_client)
            || self.challenges.contains(&challenge_of(secret))
            || claims(secret).is_some_and(|claims| self.is_audience(&claims))
    }

    /// What clients did against the protocol, in words: the first 256.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Every access token expires now.
    pub fn expire_tokens(&mut self) {
        self.end_tokens(|issued| matches!(issued.kind, Kind::Access));
    }

    /// Every code and token is revoked now.
    pub fn revoke_tokens(&mut self) {
        self.end_tokens(|_| true);
    }

    fn end_tokens(&mut self, is_it: impl Fn(&Issued) -> bool) {
        self.issued.values_mut().filter(|issued| is_it(issued)).for_each(|issued| issued.is_over = true);
    }
}

impl FakeAuthorizationServer {
    /// A user opens an authorization URL, and consents, unless a script says otherwise. Returns where the browser is
    /// redirected, at once; `None` if it is not.
    pub fn browse(&mut self, now: Time, url: &str) -> Option<String> {
        let request = Request::get(url).body(Vec::new()).ok()?;
        let response = self.answer(now, &request).filter(|response| response.status().is_redirection())?;
        response.headers().get("location")?.to_str().ok().map(Into::into)
    }

    /// The response to a request, without delay. `None` if the exchange breaks or is not answered, and for a request to an
    /// MCP server that has what it needs, which the MCP server answers.
    pub fn answer(&mut self, now: Time, request: &Request<Vec<u8>>) -> Option<Response<Vec<u8>>> {
        let (_, outputs) = self.respond(now, request)?;
        let mut response = Response::new(Vec::new());
        for output in outputs {
            match output {
                ServerOutput::Head { status, headers } => {
                    *response.status_mut() = StatusCode::from_u16(status).ok()?;
                    *response.headers_mut() = header_map(headers);
                }
                ServerOutput::Bytes(body) => *response.body_mut() = body,
                ServerOutput::End => return Some(response),
                ServerOutput::Break => return None,
            }
        }
        None
    }

    /// Whether there is anything at this URL.
    pub(super) fn has(&self, url: &str) -> bool {
        self.place(url).is_some() || self.scripts.keys().any(|it| it.is_url(url))
    }

    /// Whether this URL is one of an MCP server that it protects.
    pub(super) fn is_resource(&self, url: &str) -> bool {
        matches!(self.place(url), Some((Endpoint::Resource, _)))
    }

    /// Whether this URL is of the origin of an MCP server that it protects, and not of its own.
    pub(super) fn is_beside(&self, url: &str) -> bool {
        let is_own = is_same_origin(url, &self.issuer);
        !is_own && self.resources.iter().any(|resource| is_same_origin(url, resource))
    }

    /// Whether this URL is of the issuer's origin.
    pub(super) fn is_own(&self, url: &str) -> bool {
        is_same_origin(url, &self.issuer)
    }

    /// The next number of a kind.
    fn next(&mut self, kind: &'static str) -> u64 {
        let count = self.counts.entry(kind).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// A new secret of a kind.
    fn secret(&mut self, kind: &'static str) -> String {
        format!("{kind}{}-{}", self.next(kind), self.marker)
    }

    fn violation(&mut self, received: &Received, what: &str) {
        if self.violations.len() < VIOLATIONS {
            let url = received.url.split('?').next().unwrap_or_default();
            self.violations.push(format!("{} {url}: {what}", received.method));
        }
    }

    fn remember(&mut self, secret: String, issued: Issued) {
        if self.issued.len() >= SECRETS {
            self.issued.pop_first();
        }
        self.issued.insert(secret, issued);
    }

    /// Whether this comes for the first time.
    fn is_new(&mut self, text: &str) -> bool {
        if self.seen.len() >= SECRETS {
            self.seen.pop_first();
        }
        self.seen.insert(text.into())
    }

    fn is_audience(&self, claims: &Value) -> bool {
        let is_it = |audience: &Value| {
            audience.as_str().is_some_and(|it| [&self.issuer, &self.at("/token")].contains(&&it.into()))
        };
        claims.get("aud").is_some_and(|it| is_it(it) || it.as_array().is_some_and(|all| all.iter().any(is_it)))
    }

    /// A URL below the issuer.
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.issuer.trim_end_matches('/'))
    }

    /// What is at a URL, and the MCP server that it is about.
    fn place(&self, url: &str) -> Option<(Endpoint, String)> {
        let ((_, path), (_, own)) = (split(url), split(&self.issuer));
        let own_place = is_same_origin(url, &self.issuer).then(|| match path.strip_prefix(own) {
            Some("/authorize") => Some(Endpoint::Authorization),
            Some("/token") => Some(Endpoint::Token),
            Some("/register") => Some(Endpoint::Registration),
            Some("/revoke") => Some(Endpoint::Revocation),
            Some(OPENID_METADATA) => Some(Endpoint::OpenIdMetadata),
            _ if path.strip_prefix(SERVER_METADATA) == Some(own) => Some(Endpoint::ServerMetadata),
            _ if path.strip_prefix(OPENID_METADATA) == Some(own) => Some(Endpoint::OpenIdMetadata),
            _ => None,
        });
        if let Some(endpoint) = own_place.flatten() {
            return Some((endpoint, String::new()));
        }
        let beside = || self.resources.iter().filter(|resource| is_same_origin(url, resource));
        if let Some(after) = path.strip_prefix(RESOURCE_METADATA) {
            let exact = beside().find(|resource| split(resource).1 == after);
            let found = exact.or_else(|| beside().next().filter(|_| after.is_empty()));
            return found.map(|resource| (Endpoint::ResourceMetadata, resource.clone()));
        }
        beside().find(|resource| is_below(url, resource)).map(|resource| (Endpoint::Resource, resource.clone()))
    }
}
