//! URLs, byte for byte: which may be requested, which addresses they may reach, and where metadata is.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use iri_string::types::{UriReferenceStr, UriStr};

use crate::binding::address::{Origin, ascii};
use crate::text::shown;

/// Maximum length of a URL in bytes.
pub(super) const LONGEST: usize = 8 << 10;

/// An absolute `http` or `https` URL without user info and fragment, as it was written.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    text: Box<str>,
    uri: http::Uri,
    /// The length of the origin in the text.
    origin: usize,
    /// The length of the text without the query.
    plain: usize,
    /// What is compared.
    key: Origin,
}

/// Which addresses a host may have, as far as its name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    Loopback,
    Private,
    Public,
}

impl Place {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let uri = UriStr::new(text.split('#').next()?).ok()?;
        let authority = uri.authority_components()?;
        if authority.userinfo().is_some() || authority.host().trim_end_matches('.').is_empty() {
            return None;
        }
        let text = uri.as_str();
        // What `http` does not accept cannot be requested.
        let request = text.parse::<http::Uri>().ok()?;
        let key = Origin::of(&request)?;
        let plain = text.find('?').unwrap_or(text.len());
        let origin = plain.checked_sub(uri.path_str().len())?;
        Some(Self { text: text.into(), uri: request, origin, plain, key })
    }

    /// The place of a server, whose URL may have user information, which is no part of it (RFC 9110, section 4.2.4), and
    /// letters outside ASCII, which are encoded as the binding does it.
    pub(super) fn of_server(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len()))?;
        let host = authority.rsplit('@').next().filter(|host| host.is_ascii())?;
        Self::parse(&format!("{scheme}://{host}{}", ascii(path.as_bytes())))
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As it is requested.
    pub(super) const fn uri(&self) -> &http::Uri {
        &self.uri
    }

    pub(super) fn without_query(&self) -> &str {
        self.text.get(..self.plain).unwrap_or_default()
    }

    pub(super) fn origin(&self) -> &str {
        self.text.get(..self.origin).unwrap_or_default()
    }

    fn path(&self) -> &str {
        self.text.get(self.origin..self.plain).unwrap_or_default()
    }

    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        self.key == other.key
    }

    pub(super) fn zone(&self) -> Zone {
        if self.key.is_loopback() {
            Zone::Loopback
        } else if is_public_host(self.key.host.trim_end_matches('.')) {
            Zone::Public
        } else {
            Zone::Private
        }
    }

    /// Where a reference in a response from here leads.
    pub(super) fn resolve(&self, reference: &[u8]) -> Option<Self> {
        if reference.len() > LONGEST {
            return None;
        }
        let reference = UriReferenceStr::new(core::str::from_utf8(reference).ok()?.trim()).ok()?;
        let base = iri_string::types::UriAbsoluteStr::new(&self.text).ok()?;
        let resolved: String = format!("{}", reference.resolve_against(base));
        Self::parse(&resolved)
    }

    /// Whether nobody on the way can read what is sent.
    pub(super) fn is_protected(&self) -> bool {
        self.key.is_https || self.zone() == Zone::Loopback
    }

    /// Whether this URL may be requested or opened for a server, and why not.
    pub(super) fn check(&self, server: Zone) -> Result<(), &'static str> {
        if !self.is_protected() {
            return Err("is not https");
        }
        if server == Zone::Public && self.zone() != Zone::Public {
            return Err("is a private address, and the server's is public");
        }
        Ok(())
    }

    /// Whether this resource covers a server: it has the same origin, and its path is a prefix by whole segments. The
    /// query does not count.
    pub(super) fn covers(&self, server: &Self) -> bool {
        let (own, other) = (self.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
        self.is_same_origin(server)
            && other.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') && !leads_up(rest))
    }

    /// The places of protected-resource metadata (RFC 9728, section 3.1).
    pub(super) fn resource_metadata(&self) -> impl DoubleEndedIterator<Item = String> {
        const NAME: &str = "/.well-known/oauth-protected-resource";
        let (origin, path) = (self.origin(), self.path());
        let with_path = (!path.trim_end_matches('/').is_empty()).then(|| format!("{origin}{NAME}{path}"));
        with_path.into_iter().chain([format!("{origin}{NAME}")])
    }

    /// The places of the metadata of this issuer (RFC 8414, sections 3.1 and 5).
    pub(super) fn server_metadata(&self) -> impl DoubleEndedIterator<Item = String> {
        const OAUTH: &str = "/.well-known/oauth-authorization-server";
        const OPENID: &str = "/.well-known/openid-configuration";
        let (origin, path) = (self.origin(), self.path().trim_end_matches('/'));
        let appended = (!path.is_empty()).then(|| format!("{origin}{path}{OPENID}"));
        [format!("{origin}{OAUTH}{path}"), format!("{origin}{OPENID}{path}")].into_iter().chain(appended)
    }

    /// Whether the host has no characters but those of names and addresses.
    pub(super) fn has_plain_host(&self) -> bool {
        self.key.host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    }

    /// The query, as it was written.
    pub(super) fn query(&self) -> &str {
        self.text.get(self.plain..).unwrap_or_default().trim_start_matches('?')
    }

    /// This URL for a browser, with further parameters in its query. What a shell would interpret is percent-encoded, but
    /// for the `&` between parameters.
    pub(super) fn with_query(&self, query: &str) -> String {
        let mut text: String = self.origin().into();
        let mut encode = |part: &str, separators: &str| {
            for character in part.chars() {
                if "$'()*;!&".contains(character) && !separators.contains(character) {
                    // Writing into memory cannot fail.
                    let _ = write!(text, "%{:02X}", u32::from(character));
                } else {
                    text.push(character);
                }
            }
        };
        encode(self.path(), "");
        encode("?", "");
        encode(self.query(), "&");
        if !self.query().is_empty() {
            text.push('&');
        }
        text.push_str(query);
        text
    }

    /// The addresses that a request to this URL may reach.
    pub(super) fn reach(&self, server: &Self, server_zone: Zone) -> Reach {
        if self.is_same_origin(server) {
            Reach::Server
        } else if server_zone == Zone::Public {
            Reach::Public
        } else {
            Reach::Any
        }
    }
}

/// Whether a server may read a path as one with `..`: some decode separators before they resolve it, or drop what follows
/// a semicolon.
fn leads_up(path: &str) -> bool {
    let path =
        path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace("%3b", ";");
    path.split('/').any(|segment| segment.split(';').next() == Some(".."))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.text))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The addresses that a request may reach. Only the embedder resolves names, so only it can check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reach {
    /// No private, loopback or link-local address.
    Public,
    /// The addresses of the MCP server: the request goes to its origin.
    Server,
    /// Every address: the MCP server is not public either.
    Any,
}

impl Reach {
    /// Whether a name that resolved to this address may be connected to.
    ///
    /// ```
    /// use mcp_proto::binding::oauth::Reach;
    ///
    /// assert!(Reach::Public.allows([93, 184, 215, 14].into()));
    /// assert!(!Reach::Public.allows([10, 0, 0, 1].into()) && !Reach::Public.allows([127, 0, 0, 1].into()));
    /// assert!(Reach::Any.allows([10, 0, 0, 1].into()));
    /// ```
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::Server | Self::Any => true,
        }
    }
}

/// Whether a host that is not this machine has a public address, as far as its name shows.
fn is_public_host(host: &str) -> bool {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match literal.parse() {
        Ok(address) => is_public(address),
        // `127.1`, `0x7f000001` and `2130706433` are addresses to many resolvers.
        Err(_) => {
            let last = host.rsplit('.').next().unwrap_or_default();
            let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
            !(is_number || last.starts_with("0x") || host.starts_with('['))
        }
    }
}

/// Whether an address is one of the public network.
const fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

const fn is_public_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // This network, multicast, and what is reserved for the future.
        [0 | 224..=255, ..] => false,
        // Shared address space (RFC 6598), protocol assignments, documentation (RFC 5737), relays of 6to4, benchmarks.
        [100, 64..=127, ..] | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => false,
        [192, 88, 99, _] | [198, 18 | 19, ..] => false,
        _ => !(address.is_loopback() || address.is_private() || address.is_link_local()),
    }
}

const fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Protocol assignments, Teredo among them, documentation (RFC 3849, RFC 9637), and 6to4, which leads to any IPv4.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2002, ..] => false,
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

/// A redirect URI at a loopback address with the port of another one, since an authorization server allows any port there
/// (RFC 8252, section 7.3). Any other one stays.
pub(super) fn with_port_of(registered: &str, present: &str) -> Box<str> {
    let is_loopback = |uri: &str| Place::parse(uri).is_some_and(|place| place.zone() == Zone::Loopback);
    let port = port_of(present).and_then(|port| port.parse().ok());
    match port.filter(|_| is_loopback(registered) && is_loopback(present)) {
        Some(port) => with_port(registered, port).map_or_else(|| registered.into(), Into::into),
        None => registered.into(),
    }
}

/// The port of an absolute URL, where it is written.
pub(crate) fn port_of(url: &str) -> Option<String> {
    let uri = UriStr::new(url).ok()?;
    uri.authority_components()?.port().filter(|port| !port.is_empty()).map(ToOwned::to_owned)
}

/// The URL with another port.
pub(crate) fn with_port(url: &str, port: u16) -> Option<String> {
    let uri = UriStr::new(url).ok()?;
    let host = uri.authority_components()?.host();
    let rest = url.split_once("://")?.1.strip_prefix(uri.authority_str()?)?;
    Some(format!("{}://{host}:{port}{rest}", uri.scheme_str()))
}

/// Whether a redirect URI is that of a native application: a loopback address or a scheme of its own.
pub(super) fn is_native(redirect_uri: &str) -> bool {
    match Place::parse(redirect_uri) {
        Some(place) => place.zone() == Zone::Loopback,
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn place(text: &str) -> Place {
        Place::parse(text).unwrap()
    }

    #[test]
    fn urls_stay_as_they_were_written() {
        for text in ["https://Example.com", "https://example.com/", "HTTPS://example.com:443/a/../b?x=%7e&y"] {
            assert_eq!(place(text).text(), text);
        }
        for text in ["https://u:p@example.com", "javascript:alert(1)", "file:///x", "/mcp", "https://", "https://a b"] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
        assert_eq!(Place::parse(&format!("https://example.com/{}", "x".repeat(LONGEST))), None);
        assert_eq!(place("https://example.com").resolve("x".repeat(LONGEST + 1).as_bytes()), None);
    }

    #[test]
    fn addresses_have_zones() {
        for (host, expected) in [
            ("localhost", Zone::Loopback),
            ("a.localhost", Zone::Loopback),
            ("127.9.9.9", Zone::Loopback),
            ("[::1]", Zone::Loopback),
            ("[::ffff:127.0.0.1]", Zone::Loopback),
            ("10.0.0.1", Zone::Private),
            ("192.168.1.1", Zone::Private),
            ("169.254.169.254", Zone::Private),
            ("100.64.0.1", Zone::Private),
            ("0.0.0.0", Zone::Private),
            ("192.0.0.8", Zone::Private),
            ("192.0.2.1", Zone::Private),
            ("192.88.99.1", Zone::Private),
            ("198.19.0.1", Zone::Private),
            ("198.51.100.1", Zone::Private),
            ("203.0.113.9", Zone::Private),
            ("240.0.0.1", Zone::Private),
            ("255.255.255.255", Zone::Private),
            ("[2002:a00:1::1]", Zone::Private),
            ("[2002:808:808::1]", Zone::Private),
            ("[2001::1]", Zone::Private),
            ("[2001:20::1]", Zone::Private),
            ("[2001:db8::1]", Zone::Private),
            ("[3fff:1::1]", Zone::Private),
            ("[64:ff9b::a00:1]", Zone::Private),
            ("[::]", Zone::Private),
            ("192.1.0.1", Zone::Public),
            ("198.20.0.1", Zone::Public),
            ("[2001:200::1]", Zone::Public),
            ("[3ffe::1]", Zone::Public),
            ("127.1", Zone::Private),
            ("2130706433", Zone::Private),
            ("0x7f000001", Zone::Private),
            ("[v1.a]", Zone::Private),
            ("[fd00::1]", Zone::Private),
            ("[fe80::1]", Zone::Private),
            ("8.8.8.8", Zone::Public),
            ("[2001:4860::1]", Zone::Public),
            ("example.com", Zone::Public),
            ("localhost.", Zone::Loopback),
            ("10.0.0.1.", Zone::Private),
        ] {
            assert_eq!(place(&format!("https://{host}/x")).zone(), expected, "{host}");
        }
    }

    #[test]
    fn the_well_known_places_are_in_order() {
        let all = |text: &str| place(text).resource_metadata().collect::<Vec<_>>();
        let (with_path, root) = (
            "https://a.b/.well-known/oauth-protected-resource/x/mcp",
            "https://a.b/.well-known/oauth-protected-resource",
        );
        assert_eq!(all("https://a.b/x/mcp?q=1"), [with_path, root]);
        assert_eq!(all("https://a.b/"), [root]);
        assert_eq!(all("https://a.b"), [root]);
        let all = |text: &str| place(text).server_metadata().collect::<Vec<_>>();
        assert_eq!(
            all("https://a.b/t"),
            [
                "https://a.b/.well-known/oauth-authorization-server/t",
                "https://a.b/.well-known/openid-configuration/t",
                "https://a.b/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            all("https://a.b/"),
            ["https://a.b/.well-known/oauth-authorization-server", "https://a.b/.well-known/openid-configuration"]
        );
    }

    #[test]
    fn a_resource_covers_whole_segments() {
        let server = place("https://Example.com/a/mcp?x=1");
        for (resource, covers) in [
            ("https://example.com/a/mcp", true),
            ("https://example.com/a/mcp/", true),
            ("https://example.com/a", true),
            ("https://example.com", true),
            ("https://example.com:443/", true),
            ("https://example.com/a/mcp?y=2", true),
            ("https://example.com/a/m", false),
            ("https://example.com/a/mcp/x", false),
            ("https://example.com/b", false),
            ("https://evil.example/a/mcp", false),
            ("https://example.com./a/mcp", false),
            ("http://example.com/a/mcp", false),
            ("https://example.com:444/a/mcp", false),
        ] {
            assert_eq!(place(resource).covers(&server), covers, "{resource}");
        }
    }

    #[test]
    fn a_resource_covers_no_path_that_may_lead_above_it() {
        for (path, covers) in [
            ("/mcp/%2e%2E", false),
            ("/mcp/..%2fother", false),
            ("/mcp/a%2F..%5cother", false),
            ("/mcp/..;a/other", false),
            ("/mcp/%2e.%3Ba", false),
            ("/mcp/...", true),
            ("/mcp/a..b/%2e/c%2fd;..", true),
        ] {
            let server = place(&format!("https://example.com{path}"));
            assert_eq!(place("https://example.com/mcp").covers(&server), covers, "{path}");
            assert!(server.covers(&server), "{path}");
        }
    }

    #[test]
    fn only_redirects_to_loopback_addresses_get_another_port() {
        for (registered, present, expected) in [
            ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", "http://127.0.0.1:2/cb"),
            ("https://a.b/cb", "http://127.0.0.1:2/cb", "https://a.b/cb"),
            ("http://127.0.0.1:1/cb", "https://a.b:2/cb", "http://127.0.0.1:1/cb"),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1/cb", "http://127.0.0.1:1/cb"),
        ] {
            assert_eq!(&*with_port_of(registered, present), expected);
        }
    }
}
