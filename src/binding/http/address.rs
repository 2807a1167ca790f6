use alloc::string::{String, ToString};
use core::fmt::{self, Write};
use core::ops::Deref;

use http::Uri;
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

use crate::address::shown;

/// Bytes in a reference that is followed.
const LONGEST_REFERENCE: usize = 8 << 10;

/// Where a server is. Neither its `Debug` nor its `Display` shows a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address(pub(super) Uri);

impl Deref for Address {
    type Target = Uri;

    fn deref(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0.to_string()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a reference in an answer of `base` leads; nothing for one that is no address, or longer than any is.
pub(super) fn resolve(base: &Uri, reference: &[u8]) -> Option<Address> {
    if reference.len() > LONGEST_REFERENCE {
        return None;
    }
    let base = base.to_string();
    let base = UriAbsoluteStr::new(base.split('#').next()?).ok()?;
    // What is no ASCII is written as browsers write it.
    let mut plain = String::new();
    for byte in reference.trim_ascii() {
        if byte.is_ascii() {
            plain.push(char::from(*byte));
        } else {
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    let resolved = UriReferenceStr::new(&plain).ok()?.resolve_against(base).to_string();
    resolved.split('#').next()?.parse().ok().map(Address)
}

/// As [`resolve`], within the origin; otherwise what may be shown of where the reference leads.
pub(super) fn same_origin(base: &Uri, reference: &[u8]) -> Result<Address, String> {
    match resolve(base, reference) {
        Some(target) if is_same_origin(base, &target) => Ok(target),
        Some(target) => Err(target.to_string()),
        // A part of a long one shows what the whole would not.
        None if reference.len() > LONGEST_REFERENCE => Err(shown("")),
        None => Err(shown(&String::from_utf8_lossy(reference))),
    }
}

/// Whether what may be sent to one may be sent to the other.
fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().or(if uri.scheme_str() == Some("https") { Some(443) } else { Some(80) });
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme_str() == other.scheme_str() && host(one) == host(other) && port(one) == port(other)
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
        ] {
            let resolved = resolve(&base, reference.as_bytes()).unwrap();
            assert_eq!((resolved.0.to_string().as_str(), is_same_origin(&base, &resolved)), (whole, same));
        }
        assert_eq!(resolve(&base, b"http://[x"), None);
        assert_eq!(resolve(&base, "x".repeat(LONGEST_REFERENCE + 1).as_bytes()), None);
    }
}
