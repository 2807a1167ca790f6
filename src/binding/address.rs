//! Addresses: URLs of servers, references in responses, and the origin, which decides where a secret may go.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use core::fmt;
use core::fmt::Write;
use core::net::IpAddr;
use core::ops::Deref;

use http::Uri;
use http::uri::Authority;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use crate::text::shown;

/// The origin of an `http` or `https` URL (RFC 6454, section 4).
///
/// Hosts are compared as text, in any case. `example.com.` is another host than `example.com`, to which a resolver may
/// add a search domain; another spelling of an address is another host, too.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) is_https: bool,
    /// In lower case.
    pub(super) host: String,
    port: u16,
}

impl Origin {
    /// Whether it is on this machine, as far as the name of its host shows.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.host.trim_end_matches('.');
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_address = literal.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback());
        host == "localhost" || host.ends_with(".localhost") || is_address
    }

    /// The origin of a URL; `None` for one without a host or a port that can be connected to.
    pub(super) fn of(url: &Uri) -> Option<Self> {
        let (is_https, default) = match url.scheme_str()? {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return None,
        };
        let authority = url.authority().filter(|authority| !authority.host().is_empty())?;
        let mut host = authority.host().to_owned();
        host.make_ascii_lowercase();
        Some(Self { is_https, host, port: port_of(authority, default)? })
    }
}

/// The port of an authority, or the default where none is written; `None` if what is written is no port.
pub(super) fn port_of(authority: &Authority, default: u16) -> Option<u16> {
    let place = authority.as_str().rsplit('@').next().unwrap_or_default();
    match place.get(authority.host().len()..).unwrap_or_default() {
        "" | ":" => Some(default),
        _ => authority.port_u16(),
    }
}

/// Whether what may be sent to one may be sent to the other.
pub(super) fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    Origin::of(one).is_some_and(|origin| Origin::of(other).as_ref() == Some(&origin))
}

/// Bytes in a reference that is followed.
const LONGEST_REFERENCE: usize = 8 << 10;

/// Where a server is. Neither its `Debug` nor its `Display` shows a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Address(pub(super) Uri);

impl Deref for Address {
    type Target = Uri;

    fn deref(&self) -> &Uri {
        &self.0
    }
}

impl Address {
    /// The address without its secrets.
    pub(super) fn shown(&self) -> String {
        shown(&self.0.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not the URL of a server. No message contains a part of the text, which may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is missing, or another one.
    #[error("it does not begin with `http://` or `https://`")]
    Scheme,
    /// The host is missing.
    #[error("it has no host")]
    NoHost,
    /// The user information, the host or the port is invalid.
    #[error("its host or port is invalid")]
    Authority,
    /// The path or the query has characters that have to be escaped, or the URL is too long.
    #[error("its path or query is invalid")]
    Path,
}

/// Reads the URL of a server. A fragment is dropped. Characters that are not ASCII are percent-encoded (RFC 3987,
/// section 3.1), but in the name of a host, which has another encoding.
pub(crate) fn parse(url: &str) -> Result<Uri, UrlError> {
    let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(UrlError::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(UrlError::NoHost);
    }
    if !authority.rsplit('@').next().unwrap_or_default().is_ascii() {
        return Err(UrlError::Authority);
    }
    let parsed = if url.is_ascii() { url.parse::<Uri>() } else { ascii(url.as_bytes()).parse() };
    if let Ok(url) = parsed {
        check(url.authority().ok_or(UrlError::NoHost)?)?;
        return Ok(url);
    }
    check(&ascii(authority.as_bytes()).parse().map_err(|_| UrlError::Authority)?)?;
    Err(UrlError::Path)
}

/// A URL without user information, and that.
pub(super) fn without_user(url: Uri) -> (Uri, Option<String>) {
    let Some((user, place)) = url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return (url, None);
    };
    let (user, place) = (user.to_owned(), place.parse().ok());
    let mut parts = url.into_parts();
    parts.authority = place;
    (Uri::from_parts(parts).unwrap_or_default(), Some(user))
}

fn check(authority: &Authority) -> Result<(), UrlError> {
    if authority.host().is_empty() {
        return Err(UrlError::NoHost);
    }
    port_of(authority, 0).map(|_| ()).ok_or(UrlError::Authority)
}

/// Where a reference in an answer of `base` leads; nothing for one that is no address, or longer than any is.
pub(super) fn resolve(base: &Uri, reference: &[u8]) -> Option<Address> {
    let reference = reference.trim_ascii();
    if is_too_long(reference) {
        return None;
    }
    let reference = ascii(reference);
    let base = base.to_string();
    let base = UriAbsoluteStr::new(base.split('#').next()?).ok()?;
    let resolved = UriReferenceStr::new(&reference).ok()?.resolve_against(base).to_string();
    resolved.split('#').next()?.parse().ok().map(Address)
}

/// A reference in ASCII: other bytes are written as browsers write them.
pub(super) fn ascii(reference: &[u8]) -> String {
    let mut plain = String::new();
    for byte in reference {
        if byte.is_ascii() {
            plain.push(char::from(*byte));
        } else {
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    plain
}

/// Whether a reference would be too long in ASCII.
fn is_too_long(reference: &[u8]) -> bool {
    let escaped = reference.iter().filter(|byte| !byte.is_ascii()).count();
    reference.len().saturating_add(escaped.saturating_mul(2)) > LONGEST_REFERENCE
}

/// As [`resolve`], within the origin; otherwise what may be shown of where the reference leads.
pub(super) fn same_origin(base: &Uri, reference: &[u8]) -> Result<Address, String> {
    match resolve(base, reference) {
        // A server sets no user information.
        Some(target) if is_same_origin(base, &target) => Ok(Address(without_user(target.0).0)),
        Some(target) => Err(target.to_string()),
        // A part of a long one shows what the whole would not.
        None if is_too_long(reference.trim_ascii()) => Err(shown("")),
        None => Err(shown(&String::from_utf8_lossy(reference))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_by_scheme_host_and_port() {
        for (one, other, same) in [
            ("https://example.com/a", "HTTPS://Example.COM:443/b?c", true),
            ("http://example.com/", "http://example.com:80/", true),
            ("https://example.com:/", "https://example.com/", true),
            ("https://u:p@example.com/", "https://example.com/", true),
            ("https://[::1]/", "https://[::1]:443/", true),
            ("https://example.com./", "https://EXAMPLE.com.:443/", true),
            ("https://example.com/", "https://example.com./", false),
            ("https://example.com/", "http://example.com/", false),
            ("https://example.com/", "http://example.com:443/", false),
            ("https://example.com/", "https://example.com:444/", false),
            ("https://example.com/", "https://example.com.evil.example/", false),
            ("https://example.com/", "https://example.com@evil.example/", false),
            ("https://[::1]/", "https://[0:0:0:0:0:0:0:1]/", false),
            ("wss://example.com/", "wss://example.com/", false),
            ("/a", "/a", false),
        ] {
            let parse = |text: &str| text.parse::<Uri>().unwrap();
            assert_eq!(is_same_origin(&parse(one), &parse(other)), same, "{one} {other}");
        }
    }

    #[test]
    fn a_url_with_letters_outside_ascii_is_encoded_as_by_browsers() {
        let url = parse("https://example.com/müll/mcp?ä=%20#ö").unwrap();
        assert_eq!(url.to_string(), "https://example.com/m%C3%BCll/mcp?%C3%A4=%20");
        assert_eq!(parse("https://müll.example/mcp"), Err(UrlError::Authority));
    }

    #[test]
    fn a_port_that_is_none_is_not_the_default_one() {
        let (known, odd) = ("https://example.com/", "https://example.com:99999/");
        if let Ok(odd) = odd.parse::<Uri>() {
            assert!(!is_same_origin(&known.parse().unwrap(), &odd));
            assert!(!is_same_origin(&odd, &odd));
        }
    }

    #[test]
    fn references_are_resolved_and_origins_compared() {
        let base: Uri = "http://Example.com/a/sse?x=1".parse().unwrap();
        for (reference, whole, same) in [
            ("/messages?session=1", "http://Example.com/messages?session=1", true),
            ("messages", "http://Example.com/a/messages", true),
            ("?y", "http://Example.com/a/sse?y", true),
            ("http://example.com:80/m", "http://example.com:80/m", true),
            ("https://example.com/m", "https://example.com/m", false),
            ("http://example.com:81/m", "http://example.com:81/m", false),
            ("//evil.example/m", "http://evil.example/m", false),
            ("//example.com./m", "http://example.com./m", false),
            ("//example.com:99999/m", "http://example.com:99999/m", false),
        ] {
            let resolved = resolve(&base, reference.as_bytes()).unwrap();
            assert_eq!((resolved.0.to_string().as_str(), is_same_origin(&base, &resolved)), (whole, same));
        }
        assert_eq!(resolve(&base, b"http://[x"), None);
        assert_eq!(resolve(&base, "x".repeat(LONGEST_REFERENCE + 1).as_bytes()), None);
    }
}
