//! Proofs of possession of a key (RFC 9449): the key, and the nonces that servers demand in them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::place::Place;
use crate::jsonrpc::Object;

/// The algorithm of proofs (RFC 7518, section 3.1).
pub(super) const ALGORITHM: &str = "ES256";

/// Maximum length of a nonce in bytes.
const LONGEST_NONCE: usize = 1 << 10;

/// The public part of a key on the curve P-256, which tokens are bound to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey {
    x: [u8; 32],
    y: [u8; 32],
}

impl PublicKey {
    /// The key with these coordinates, each the bytes of a number, the most significant first.
    pub const fn from_coordinates(x: [u8; 32], y: [u8; 32]) -> Self {
        Self { x, y }
    }

    /// The JWK, with its members in the order that the thumbprint requires (RFC 7638, section 3).
    pub(super) fn jwk(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = Object::begin(&mut out);
        object.string("crv", "P-256").string("kty", "EC");
        object.string("x", &URL_SAFE_NO_PAD.encode(self.x)).string("y", &URL_SAFE_NO_PAD.encode(self.y));
        object.end();
        out
    }

    /// The thumbprint (RFC 7638), which names the key that a token is bound to.
    pub(super) fn thumbprint(&self) -> Box<str> {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.jwk())).into()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.thumbprint())
    }
}

/// The nonces that go into proofs: the one of the authorization server, and the one of the MCP server.
#[derive(Clone, Debug, Default)]
pub(super) struct Nonces {
    /// The origin that it is of, and the nonce.
    issuer: Option<(Box<str>, Box<str>)>,
    pub(super) server: Option<Box<str>>,
}

impl Nonces {
    /// The nonce of the authorization server with this endpoint.
    pub(super) fn of_issuer(&self, endpoint: &Place) -> Option<&str> {
        self.issuer.as_ref().filter(|(origin, _)| **origin == *endpoint.origin()).map(|(_, nonce)| &**nonce)
    }

    pub(super) fn set_issuer(&mut self, endpoint: &Place, nonce: Box<str>) {
        self.issuer = Some((endpoint.origin().into(), nonce));
    }
}

/// The nonce in the headers of a response (RFC 9449, section 8.1).
pub(super) fn nonce_in(headers: &http::HeaderMap) -> Option<Box<str>> {
    let nonce = headers.get("dpop-nonce")?.to_str().ok()?;
    let is_nonce = !nonce.is_empty() && nonce.len() <= LONGEST_NONCE && nonce.bytes().all(|it| it.is_ascii_graphic());
    is_nonce.then(|| nonce.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thumbprint_is_that_of_the_example_in_rfc_9449() {
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap().try_into().unwrap();
        let x = bytes("l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs");
        let y = bytes("9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA");
        let key = PublicKey::from_coordinates(x, y);
        assert_eq!(&*key.thumbprint(), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    }
}
