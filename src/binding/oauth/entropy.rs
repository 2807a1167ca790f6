use alloc::string::String;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use core::fmt;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::Secret;

/// Derives values that nobody can guess from the entropy that the embedder gives.
#[derive(Clone)]
pub(crate) struct Entropy {
    seed: Zeroizing<[u8; 32]>,
    drawn: u64,
}

impl Entropy {
    pub(crate) fn new(mut seed: [u8; 32]) -> Self {
        let kept = Zeroizing::new(seed);
        seed.zeroize();
        Self { seed: kept, drawn: 0 }
    }

    fn draw(&mut self) -> Zeroizing<[u8; 32]> {
        self.drawn = self.drawn.saturating_add(1);
        let hash = Sha256::new().chain_update(*self.seed).chain_update(self.drawn.to_be_bytes());
        Zeroizing::new(hash.finalize().into())
    }

    /// Entropy of its own for another authorization.
    pub(crate) fn fork(&mut self) -> [u8; 32] {
        *self.draw()
    }

    /// 256 bits as 43 characters that need no escapes: a `state`, a `code_verifier` (RFC 7636, section 4.1), a `jti`.
    pub(super) fn word(&mut self) -> Secret {
        Secret::new(URL_SAFE_NO_PAD.encode(*self.draw()))
    }

    /// A number below 256, for jitter.
    pub(super) fn byte(&mut self) -> u8 {
        self.draw().first().copied().unwrap_or_default()
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The `code_challenge` of a verifier, by `S256` (RFC 7636, section 4.2).
pub(super) fn challenge_of(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_example_in_rfc_7636() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge_of(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn words_differ() {
        let mut entropy = Entropy::new([7; 32]);
        let (one, other) = (entropy.word(), entropy.word());
        assert_eq!(one.expose().len(), 43);
        assert_ne!(one, other);
    }
}
