//! Proofs of possession of a key (RFC 9449): their contents.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::Secret;
use super::core::Core;
use super::dpop::{ALGORITHM, PublicKey};
use super::jwt::signing_input;
use super::place::Place;
use crate::jsonrpc::Object;

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
