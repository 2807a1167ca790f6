use alloc::string::{String, ToString};
use core::fmt::{self, Write};
use core::ops::Deref;

use http::Uri;
use http::uri::Authority;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use crate::address::shown;
use crate::binding::origin::{is_same_origin, port_of};

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

/// Reads the URL of a server. A fragment is dropped.
pub(crate) fn parse(url: &str) -> Result<Uri, UrlError> {
    let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(UrlError::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(UrlError::NoHost);
    }
    if let Ok(url) = url.parse::<Uri>() {
        check(url.authority().ok_or(UrlError::NoHost)?)?;
        return Ok(url);
    }
    check(&authority.parse().map_err(|_| UrlError::Authority)?)?;
    Err(UrlError::Path)
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
        Some(target) if is_same_origin(base, &target) => Ok(target),
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
