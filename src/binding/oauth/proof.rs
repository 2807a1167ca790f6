//! Proofs of possession of a key (RFC 9449), and the JSON Web Tokens that are signed for them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::Secret;
use super::action::{SignId, TokenId};
use super::core::Core;
use super::place::Place;
use crate::Time;
use crate::jsonrpc::Object;

/// The algorithm of proofs (RFC 7518, section 3.1).
pub(super) const ALGORITHM: &str = "ES256";

/// Maximum length of a nonce in bytes.
const LONGEST_NONCE: usize = 1 << 10;

/// The public part of a key on the curve P-256, which tokens are bound to.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
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
    fn jwk(&self) -> Vec<u8> {
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

/// The token that a request was sent with, and which of the server's nonces its proof had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presented {
    pub(crate) token: TokenId,
    pub(super) nonce: u64,
    /// Whether the server demanded that nonce, and accepted no request since.
    pub(super) nonce_demanded: bool,
}

/// What a request presents.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// Nothing: there is no token, or it is not for this URL.
    Nothing,
    /// It is not known yet, because the record of the store is requested.
    Loading,
    /// These headers.
    Headers(Presented, Vec<(HeaderName, HeaderValue)>),
    /// A proof that has to be signed first.
    Signing(SignId),
}

/// What came of a proof that the embedder signs.
#[derive(Clone, Debug)]
pub(crate) enum Proved {
    /// It is signed.
    Signed(Presented, Vec<(HeaderName, HeaderValue)>),
    /// There is another token now, which requires another proof.
    Outdated,
    /// It was not signed.
    Unsigned,
}

/// The proofs that are being signed, and the nonce of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Proofs {
    pub(super) signing: BTreeMap<SignId, (Presented, Secret, Time)>,
    /// The ones that the client has to take.
    pub(super) done: Vec<(SignId, Proved)>,
    /// Counts the server's nonces.
    pub(super) nonce: u64,
    /// Whether the server demanded the nonce, and accepted no request since.
    pub(super) nonce_demanded: bool,
}

impl Proofs {
    pub(super) fn deadline(&self) -> Option<Time> {
        // The time to sign is the same for all, so the first one is due first.
        self.signing.first_key_value().map(|(_, (.., deadline))| *deadline)
    }
}

/// The nonce in the headers of a response (RFC 9449, section 8.1).
pub(super) fn nonce_in(headers: &http::HeaderMap) -> Option<Box<str>> {
    let nonce = headers.get("dpop-nonce")?.to_str().ok()?;
    let is_nonce = !nonce.is_empty() && nonce.len() <= LONGEST_NONCE && nonce.bytes().all(|it| it.is_ascii_graphic());
    is_nonce.then(|| nonce.into())
}

/// What is signed of a proof for a request (RFC 9449, section 4.2).
pub(super) fn proof_input(
    core: &mut Core,
    key: &PublicKey,
    method: &str,
    url: &Place,
    nonce: Option<&str>,
    token: Option<&Secret>,
) -> String {
    let mut header = Vec::new();
    let mut object = Object::begin(&mut header);
    object.string("typ", "dpop+jwt").string("alg", ALGORITHM);
    object.value("jwk").extend_from_slice(&key.jwk());
    object.end();
    let mut claims = Vec::new();
    let mut object = Object::begin(&mut claims);
    object.string("jti", core.entropy.word().expose());
    object.string("htm", method).string("htu", url.without_query());
    object.integer("iat", core.unix().into());
    if let Some(token) = token {
        object.string("ath", &URL_SAFE_NO_PAD.encode(Sha256::digest(token.expose())));
    }
    if let Some(nonce) = nonce {
        object.string("nonce", nonce);
    }
    object.end();
    signing_input(&header, &claims)
}

/// What is signed (RFC 7515, section 5.1).
pub(super) fn signing_input(header: &[u8], claims: &[u8]) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

/// The token with its signature.
pub(super) fn signed(input: &str, signature: &[u8]) -> Secret {
    Secret::new(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
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
