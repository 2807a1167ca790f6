//! The origin of a URL, which decides where a secret may go.

use alloc::borrow::ToOwned;
use alloc::string::String;

use http::Uri;
use http::uri::Authority;

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
    fn a_port_that_is_none_is_not_the_default_one() {
        let (known, odd) = ("https://example.com/", "https://example.com:99999/");
        if let Ok(odd) = odd.parse::<Uri>() {
            assert!(!is_same_origin(&known.parse().unwrap(), &odd));
            assert!(!is_same_origin(&odd, &odd));
        }
    }
}
