//! Streamable HTTP, in both eras, and the older HTTP+SSE, over any HTTP client (feature `http`).
//!
//! [The guide](crate::guide::http) has a complete loop.

mod basic;
mod challenge;
mod connection;
mod cookies;
mod exchange;
mod masked;
mod refusal;
mod request;
mod response;
#[cfg(feature = "serde")]
mod serialize;
#[cfg(feature = "snapshot")]
mod snapshot;
#[cfg_attr(not(feature = "oauth"), path = "no_tokens.rs")]
mod tokens;

pub use crate::binding::address::UrlError;
pub(crate) use crate::binding::address::parse;
pub use crate::client::ExchangeId;
#[cfg(feature = "journal")]
pub(crate) use basic::user_secret;
pub use connection::Http;
#[cfg(feature = "serde")]
pub use serialize::WithSecrets;
#[cfg(feature = "journal")]
pub(crate) use serialize::{masked_address, response_value};

use alloc::vec::Vec;
use core::fmt;

use http::header::{ACCEPT_ENCODING, AUTHORIZATION, COOKIE, USER_AGENT};
use http::{HeaderMap, HeaderName};

use crate::binding::address::Address;
use crate::client::{Event, RequestId};

/// What the embedder is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HttpAction {
    /// Run a request.
    Request(HttpRequest),
    /// Drop an exchange: close its stream, read no more of it, report nothing more of it.
    Drop(ExchangeId),
    /// An event for the embedder.
    Event(Event),
    /// Do something for the authorization of the client. Serialized, it has masks in place of secrets, and cannot be
    /// deserialized.
    #[cfg(feature = "oauth")]
    #[cfg_attr(feature = "serde", serde(rename = "oauth", skip_deserializing))]
    OAuth(crate::binding::oauth::OAuthAction),
}

/// A request to run. Its `Debug` shows no secret: of the headers the names, and nothing of the body.
///
/// With the feature `serde` it is serialized with the members `exchange`, `of`, `method`, `uri`, `headers` and `body`.
/// `redacted` stands for credentials and the session's id, and for user information and query of the address:
/// `WithSecrets` serializes them, too.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The exchange that its response is reported for.
    pub exchange: ExchangeId,
    /// The embedder's request that it carries or is about, if any, so that it can be authorized as that request's user.
    pub of: Option<RequestId>,
    /// The request, without the embedder's own headers. The embedder adds them to each request; they are never stored
    /// here.
    pub request: http::Request<Vec<u8>>,
}

impl HttpRequest {
    /// A request with this exchange, for an embedder's test.
    pub const fn new(exchange: ExchangeId, of: Option<RequestId>, request: http::Request<Vec<u8>>) -> Self {
        Self { exchange, of, request }
    }

    /// Adds headers of the embedder's. Those that the client has already stay as they are, with these exceptions:
    /// `User-Agent`, `Accept-Encoding` and the `Authorization` that comes from a URL with a name and a password are replaced,
    /// and cookies are joined, of which the embedder's stay where a name is in both.
    pub fn add_headers(&mut self, own: &HeaderMap) {
        let headers = self.request.headers_mut();
        let is_of_url = headers.get(AUTHORIZATION).is_some_and(|it| it.as_bytes().starts_with(b"Basic "));
        let yields =
            |name: &HeaderName| [USER_AGENT, ACCEPT_ENCODING].contains(name) || *name == AUTHORIZATION && is_of_url;
        for name in own.keys() {
            if *name == COOKIE {
                if let Some(joined) = cookies::joined(own.get_all(COOKIE), headers.get(COOKIE)) {
                    headers.insert(COOKIE, joined);
                }
                continue;
            }
            if yields(name) {
                headers.remove(name);
            } else if headers.contains_key(name) {
                continue;
            }
            for value in own.get_all(name) {
                // Beyond what a map can have, nothing is added.
                let _ = headers.try_append(name, value.clone());
            }
        }
    }
}

/// The extensions of the request are not compared.
impl PartialEq for HttpRequest {
    fn eq(&self, other: &Self) -> bool {
        let Self { exchange, of, request } = self;
        (exchange, of, request.method(), request.uri(), request.version(), request.headers(), request.body())
            == (
                &other.exchange,
                &other.of,
                other.request.method(),
                other.request.uri(),
                other.request.version(),
                other.request.headers(),
                other.request.body(),
            )
    }
}

impl Eq for HttpRequest {}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exchange, of, request } = self;
        f.debug_struct("HttpRequest")
            .field("exchange", exchange)
            .field("of", of)
            .field("method", request.method())
            .field("uri", &Address(request.uri().clone()))
            .field("headers", &request.headers().keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// In which way an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Broken {
    /// The server was unreachable: the request was not sent.
    Unreachable,
    /// It broke after the request or a part of it was sent.
    Midway,
}
