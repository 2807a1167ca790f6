//! Signatures with a key in memory (feature `sign`).

use core::fmt;

use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey as Key};
use p256::pkcs8::DecodePrivateKey;

use super::proof::PublicKey;

/// A private key on the curve P-256, which signs with `ES256`. Its `Debug` shows nothing, and its memory is overwritten
/// when it is dropped.
#[derive(Clone)]
pub struct SigningKey(Key);

impl SigningKey {
    /// Reads a key from PKCS#8 in PEM.
    ///
    /// # Errors
    /// [`NoKey`] for anything else, a key on another curve included.
    pub fn from_pem(pem: &str) -> Result<Self, NoKey> {
        Key::from_pkcs8_pem(pem).map(Self).map_err(|_| NoKey)
    }

    /// The key with this number, its most significant byte first: 32 bytes of a random number generator for secrets, or
    /// a key that was kept.
    ///
    /// # Errors
    /// [`NoKey`] for zero, and for a number that exceeds the order of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, NoKey> {
        Key::from_bytes(bytes.into()).map(Self).map_err(|_| NoKey)
    }

    /// The public part.
    pub fn public(&self) -> PublicKey {
        let point = self.0.verifying_key().to_encoded_point(false);
        let coordinate = |bytes: Option<&p256::FieldBytes>| bytes.map_or([0; 32], |bytes| (*bytes).into());
        PublicKey::from_coordinates(coordinate(point.x()), coordinate(point.y()))
    }

    /// The signature as JWTs have it (RFC 7518, section 3.4).
    pub(super) fn sign(&self, input: &str) -> [u8; 64] {
        let signature: Signature = self.0.sign(input.as_bytes());
        signature.to_bytes().into()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A key cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key is not a private key on the curve P-256")]
#[non_exhaustive]
pub struct NoKey;

#[cfg(test)]
mod tests {
    use p256::ecdsa::VerifyingKey;
    use p256::ecdsa::signature::Verifier;

    use super::*;

    #[test]
    fn a_signature_is_valid_for_the_public_part() {
        let key = SigningKey::from_bytes(&[7; 32]).unwrap();
        let signature = Signature::from_slice(&key.sign("a.b")).unwrap();
        assert!(VerifyingKey::from(&key.0).verify(b"a.b", &signature).is_ok());
        assert!(VerifyingKey::from(&key.0).verify(b"a.c", &signature).is_err());
        assert!(SigningKey::from_bytes(&[0; 32]).is_err() && SigningKey::from_bytes(&[255; 32]).is_err());
    }

    #[test]
    fn a_text_that_is_not_a_key_is_refused() {
        assert_eq!(SigningKey::from_pem("-----BEGIN PRIVATE KEY-----").err(), Some(NoKey));
    }
}
