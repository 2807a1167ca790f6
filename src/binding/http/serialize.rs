//! Serialized forms of requests, and the secrets that records leave out. A client with the redacted response makes the
//! same decisions.

#[cfg(feature = "journal")]
use alloc::borrow::Cow;
use alloc::boxed::Box;
#[cfg(feature = "journal")]
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

#[cfg(feature = "journal")]
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER,
    SERVER, SET_COOKIE, TRANSFER_ENCODING, VARY, WWW_AUTHENTICATE,
};
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderName, HeaderValue, Method, Uri};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::HttpRequest;
use super::request::SESSION_ID;
#[cfg(feature = "journal")]
use crate::binding::address::ascii;
use crate::client::{ExchangeId, RequestId};
use crate::form::Bytes;

/// Replaces a secret. It is valid wherever a secret is: in a header, in user information, in a query.
const REDACTED: &str = "redacted";

#[cfg(feature = "journal")]
/// The response headers without secrets, beside `Location`. A nonce for proofs is useless without their key.
const OPEN: [HeaderName; 13] = [
    ALLOW,
    CACHE_CONTROL,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    DATE,
    HeaderName::from_static("dpop-nonce"),
    RETRY_AFTER,
    SERVER,
    TRANSFER_ENCODING,
    VARY,
    WWW_AUTHENTICATE,
];

/// Whether a request header contains a secret.
fn is_secret(name: &HeaderName) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SESSION_ID].contains(name)
}

/// The redacted value of a request header.
fn request_value<'a>(name: &HeaderName, value: &'a HeaderValue) -> &'a [u8] {
    if is_secret(name) || value.is_sensitive() { REDACTED.as_bytes() } else { value.as_bytes() }
}

/// The redacted value of a response header.
#[cfg(feature = "journal")]
pub(crate) fn response_value<'a>(name: &HeaderName, value: &'a HeaderValue) -> Cow<'a, [u8]> {
    let bytes = value.as_bytes();
    if OPEN.contains(name) {
        return bytes.into();
    }
    // An invalid session id stays invalid.
    if *name == SESSION_ID && !super::connection::is_visible(bytes) {
        return bytes.into();
    }
    if *name == SET_COOKIE
        && let Some(masked) = super::cookies::masked(bytes, REDACTED)
    {
        return masked.into();
    }
    match core::str::from_utf8(bytes) {
        Ok(location) if *name == LOCATION => reference(location).into_owned().into_bytes().into(),
        // The same text as the client resolves, so that the replay resolves the same.
        Err(_) if *name == LOCATION => reference(&ascii(bytes)).into_owned().into_bytes().into(),
        Ok(_) | Err(_) => REDACTED.as_bytes().into(),
    }
}

/// An address without user information and without the contents of its query.
pub(super) fn address(url: &Uri) -> String {
    masked_address(url, REDACTED, REDACTED)
}

/// As [`address`], with these masks for user information and query.
pub(crate) fn masked_address(url: &Uri, user: &str, query_mask: &str) -> String {
    let mut text = String::new();
    if let Some(scheme) = url.scheme_str() {
        text.push_str(scheme);
        text.push_str("://");
    }
    if let Some(authority) = url.authority() {
        let host = authority.as_str().rsplit_once('@').map(|(_, host)| host);
        if host.is_some() {
            text.push_str(user);
            text.push('@');
        }
        text.push_str(host.unwrap_or(authority.as_str()));
    }
    text.push_str(url.path());
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        // Messages show less of an address with such a character.
        text.push_str(if query.contains('@') { "?@" } else { "?" });
        text.push_str(query_mask);
    }
    text
}

/// A reference to an address, which may be relative.
#[cfg(feature = "journal")]
fn reference(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '?', '#']) {
        return text.into();
    }
    match text.split_once(['?', '#']) {
        Some((place, after)) if !text.contains('@') => {
            format!("{place}{}", if after.is_empty() { "" } else { "?redacted" }).into()
        }
        // If it is not clear what is user information, nothing is shown.
        Some(_) | None => match text.parse::<Uri>() {
            Ok(url) if is_unambiguous(&url, text) => address(&url).into(),
            Ok(_) | Err(_) => REDACTED.into(),
        },
    }
}

/// Whether it is clear what is user information. What precedes a `?` or `#` in a password looks like a host and a port.
#[cfg(feature = "journal")]
fn is_unambiguous(url: &Uri, text: &str) -> bool {
    match url.authority() {
        Some(authority) => {
            let place = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, place)| place);
            authority.port_u16().is_some() || place.len() == authority.host().len()
        }
        None => text.bytes().take_while(|byte| *byte == b'/').count() == 1,
    }
}

#[derive(Serialize, Deserialize)]
struct Form {
    exchange: ExchangeId,
    of: Option<RequestId>,
    method: Box<str>,
    uri: Box<str>,
    headers: Vec<(Box<str>, Bytes)>,
    body: Bytes,
}

impl Form {
    fn of(it: &HttpRequest, address: Box<str>, value: impl Fn(&HeaderName, &HeaderValue) -> Vec<u8>) -> Self {
        let HttpRequest { exchange, of, request } = it;
        let headers = request.headers().iter().map(|(name, it)| (name.as_str().into(), Bytes(value(name, it))));
        Self {
            exchange: *exchange,
            of: *of,
            method: request.method().as_str().into(),
            uri: address,
            headers: headers.collect(),
            body: Bytes(request.body().clone()),
        }
    }
}

impl Serialize for HttpRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let address = address(self.request.uri()).into();
        Form::of(self, address, |name, value| request_value(name, value).to_vec()).serialize(serializer)
    }
}

/// A request that is serialized with its secrets, for an HTTP client in another process.
#[derive(Clone, Copy, Debug)]
pub struct WithSecrets<'a>(pub &'a HttpRequest);

impl Serialize for WithSecrets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let address = self.0.request.uri().to_string().into();
        Form::of(self.0, address, |_, value| value.as_bytes().to_vec()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HttpRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form { exchange, of, method, uri, headers, body } = Form::deserialize(deserializer)?;
        let mut request = http::Request::new(body.0);
        *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(D::Error::custom)?;
        *request.uri_mut() = uri.parse::<Uri>().map_err(D::Error::custom)?;
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(D::Error::custom)?;
            let mut value = HeaderValue::from_bytes(&value.0).map_err(D::Error::custom)?;
            value.set_sensitive(is_secret(&name));
            request.headers_mut().try_append(name, value).map_err(D::Error::custom)?;
        }
        Ok(Self { exchange, of, request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_redacted_once_and_stays_an_address() {
        for (url, expected) in [
            ("https://example.com:8080/mcp", "https://example.com:8080/mcp"),
            ("https://example.com", "https://example.com/"),
            ("https://ada:hush@example.com/mcp?key=hush", "https://redacted@example.com/mcp?redacted"),
            ("https://example.com/mcp?mail=hush@hush", "https://example.com/mcp?@redacted"),
            ("/messages?session=hush", "/messages?redacted"),
            ("https://example.com/?", "https://example.com/"),
        ] {
            assert_eq!(address(&url.parse().unwrap()), expected);
            assert_eq!(address(&expected.parse().unwrap()), expected);
        }
    }

    #[cfg(feature = "journal")]
    #[test]
    fn a_response_header_shows_only_what_the_client_reads() {
        for (name, value, expected) in [
            ("content-type", &b"text/plain; a=hush"[..], &b"text/plain; a=hush"[..]),
            ("location", b"/next?key=hush", b"/next?redacted"),
            // As the client reads it.
            ("location", b"/n\xffext?key=hush", b"/n%FFext?redacted"),
            ("mcp-session-id", b"hush", b"redacted"),
            ("mcp-session-id", b"a b", b"a b"),
            ("x-own", b"hush", b"redacted"),
            ("x-own", b"\xff", b"redacted"),
        ] {
            let value = HeaderValue::from_bytes(value).unwrap();
            let name = HeaderName::from_static(name);
            assert_eq!(&*response_value(&name, &value), expected, "{name} {value:?}");
        }
    }

    #[cfg(feature = "journal")]
    #[test]
    fn a_reference_is_redacted_once() {
        for (text, expected) in [
            ("messages", "messages"),
            ("?session=hush", "?redacted"),
            ("messages?session=hush#hush", "messages?redacted"),
            ("messages?", "messages"),
            ("https://ada:hush@example.com", "https://redacted@example.com/"),
            ("https://ada:hush@example.com:8080/mcp?key=hush", "https://redacted@example.com:8080/mcp?redacted"),
            ("//ada:hush@example.com/", "redacted"),
            ("https://ada:hu?hush@example.com/mcp", "redacted"),
        ] {
            assert_eq!(reference(text), expected);
            assert_eq!(reference(expected), expected);
        }
    }
}
