//! JSON Web Tokens that are signed.

use alloc::format;
use alloc::string::String;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Secret;

/// What is signed (RFC 7515, section 5.1).
pub(super) fn signing_input(header: &[u8], claims: &[u8]) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

/// The token with its signature.
pub(super) fn signed(input: &str, signature: &[u8]) -> Secret {
    Secret::new(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
