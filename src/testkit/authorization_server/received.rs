//! What a fake authorization server receives: requests, with the secrets in them, and the URLs, forms and JWTs of which
//! they consist.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Time;
use crate::testkit::content::object;

/// The parameters that hold secrets, as [`Received::secrets`] names them.
pub(super) const SECRET_PARAMS: [&str; 9] = [
    "access_token",
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "refresh_token",
    "subject_token",
    "token",
];

/// Which requests to a [`FakeAuthorizationServer`](super::FakeAuthorizationServer) a script is for (feature `oauth`).
///
/// Of scripts for the same request, one for its URL comes first, then one for [`Refresh`](Self::Refresh) or
/// [`OpenIdMetadata`](Self::OpenIdMetadata), and then one for the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// The metadata of the MCP servers that it protects (RFC 9728), with the server's path and without it.
    ResourceMetadata,
    /// Its metadata at every place: that of RFC 8414, and those of OpenID Connect Discovery.
    ServerMetadata,
    /// Its metadata at the places of OpenID Connect Discovery.
    OpenIdMetadata,
    /// Dynamic registration (RFC 7591): `ISSUER/register`.
    Registration,
    /// The user's browser: `ISSUER/authorize`.
    Authorization,
    /// Token requests of every grant: `ISSUER/token`.
    Token,
    /// Token requests with a refresh token.
    Refresh,
    /// Revocation (RFC 7009): `ISSUER/revoke`.
    Revocation,
    /// The MCP servers that it protects.
    Resource,
    /// This URL, without its query or with it; also one where nothing is otherwise.
    Url(String),
}

impl Endpoint {
    /// This URL.
    pub fn url(url: &str) -> Self {
        Self::Url(url.into())
    }

    pub(super) fn is_url(&self, url: &str) -> bool {
        let Self::Url(own) = self else { return false };
        let own = own.trim_end_matches('/');
        own == url.trim_end_matches('/') || own == without_query(url)
    }
}

/// A request that a [`FakeAuthorizationServer`](super::FakeAuthorizationServer) received, with all secrets that it carries (feature `oauth`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// When it came.
    pub at: Time,
    /// The HTTP method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// What is there; `None` if there is nothing.
    pub endpoint: Option<Endpoint>,
    pub(super) params: Vec<(String, String)>,
    /// How many of them are in the URL.
    pub(super) in_url: usize,
}

impl Received {
    pub(in crate::testkit) fn of(at: Time, endpoint: Option<Endpoint>, request: &Request<Vec<u8>>) -> Self {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut params = pairs(request.uri().query().unwrap_or_default().as_bytes());
        let in_url = params.len();
        if header("content-type").starts_with("application/x-www-form-urlencoded") {
            params.extend(pairs(request.body()));
        } else if endpoint == Some(Endpoint::Registration) {
            let members = object(serde_json::from_slice(request.body()).unwrap_or_default());
            params.extend(members.into_iter().map(|(name, value)| (name, written(&value))));
        }
        let is_refresh = params.iter().any(|(name, value)| name == "grant_type" && value == "refresh_token");
        let endpoint = match endpoint {
            Some(Endpoint::Token) if is_refresh => Some(Endpoint::Refresh),
            endpoint => endpoint,
        };
        let mut add = |name: &str, value: String| params.push((name.into(), value));
        match header("authorization").split_once(' ') {
            Some(("Basic", pair)) => {
                let pair = STANDARD.decode(pair).unwrap_or_default();
                let pair = String::from_utf8_lossy(&pair);
                let (id, secret) = pair.split_once(':').unwrap_or((&pair, ""));
                add("client_id", decode(id.as_bytes()));
                add("client_secret", decode(secret.as_bytes()));
            }
            Some((_, token)) => add("access_token", token.into()),
            None => {}
        }
        if request.headers().contains_key("dpop") {
            add("dpop", header("dpop").into());
        }
        let (method, url) = (request.method().to_string(), request.uri().to_string());
        Self { at, method, url, endpoint, params, in_url }
    }

    /// A parameter: of the query, of the form, of the JSON of a registration, or of the headers (`client_id` and
    /// `client_secret` of HTTP Basic, `access_token`, `dpop`). The first of this name.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_of(&self, endpoint: &Endpoint) -> bool {
        let is_part = matches!(
            (endpoint, &self.endpoint),
            (Endpoint::Token, Some(Endpoint::Refresh)) | (Endpoint::ServerMetadata, Some(Endpoint::OpenIdMetadata))
        );
        is_part || self.endpoint.as_ref() == Some(endpoint) || endpoint.is_url(&self.url)
    }

    /// The secrets, each with the name of its parameter: `client_secret`, `client_assertion`, `code`, `code_verifier`,
    /// `refresh_token`, `assertion`, `subject_token`, `access_token`, and the `token` of a revocation.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_secret = |name: &str| SECRET_PARAMS.contains(&name);
        self.params.iter().filter(move |(name, _)| is_secret(name)).map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The origin of a URL, and its path without slashes at the end.
pub(super) fn split(url: &str) -> (&str, &str) {
    let url = without_query(url);
    let start = url.find("://").map_or(0, |at| at.saturating_add(3));
    let slash = url.get(start..).and_then(|rest| rest.find('/'));
    url.split_at_checked(slash.map_or(url.len(), |at| start.saturating_add(at))).unwrap_or((url, ""))
}

/// A URL without query and fragment, and without slashes at the end.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/')
}

pub(super) fn is_same_origin(url: &str, other: &str) -> bool {
    split(url).0.eq_ignore_ascii_case(split(other).0)
}

/// Whether a URL is another one, or below it.
pub(super) fn is_below(url: &str, base: &str) -> bool {
    let rest = split(url).1.strip_prefix(split(base).1);
    is_same_origin(url, base) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The code challenge of a verifier (RFC 7636, section 4.2), and the hash of a token (RFC 9449, section 4.2).
pub(super) fn challenge_of(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret))
}

/// The claims of a JWT, which is not verified.
pub(super) fn claims(jwt: &str) -> Option<Value> {
    part_of(jwt, 1)
}

pub(super) fn part_of(jwt: &str, index: usize) -> Option<Value> {
    let part = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(index)?).ok()?;
    serde_json::from_slice(&part).ok()
}

/// The strings of an array.
pub(super) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

/// A string as it is, and any other value as JSON.
pub(super) fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

/// The parameters of a form or a query.
pub(super) fn pairs(form: &[u8]) -> Vec<(String, String)> {
    let pairs = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let pair = |pair: &[u8]| {
        let mut parts = pair.splitn(2, |byte| *byte == b'=').map(decode);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    };
    pairs.map(pair).collect()
}

pub(super) fn decode(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let hex = after.first_chunk::<2>().and_then(|hex| core::str::from_utf8(hex).ok());
        let coded = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%');
        out.push(coded.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = after.get(if coded.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
