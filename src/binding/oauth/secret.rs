//! Secrets: how they are kept, and derived from entropy.

use alloc::string::String;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::options::OAuthConfigError;

/// A secret: a token, a client secret, a code. Its `Debug` shows nothing, comparisons take constant time, and its own memory
/// is overwritten when it is dropped, which `zeroize` does. No test observes freed memory: that takes unsafe code, which this
/// crate forbids. Copies that are needed on the way are not overwritten: what a response or a record was read from, and the
/// request or the header that it is sent in.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(Zeroizing::new(secret.into()))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is the secret, in constant time for texts of the same length.
    pub(super) fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.expose())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Derives values that nobody can guess from the entropy that the embedder gives.
#[derive(Clone)]
pub(crate) struct Entropy {
    seed: Zeroizing<[u8; 32]>,
    drawn: u64,
    /// What jitter is drawn from. It is no secret, and tells nothing of the seed.
    jitter: [u8; 32],
    jitters: u64,
    /// It is that of a journal, which draws no secrets.
    #[cfg(feature = "journal")]
    is_replayed: bool,
}

impl Entropy {
    pub(crate) fn new(mut seed: [u8; 32]) -> Self {
        let kept = Zeroizing::new(seed);
        seed.zeroize();
        let jitter = Sha256::new().chain_update(*kept).chain_update(b"jitter").finalize().into();
        Self {
            seed: kept,
            drawn: 0,
            jitter,
            jitters: 0,
            #[cfg(feature = "journal")]
            is_replayed: false,
        }
    }

    /// That of a journal: with the same jitter, and masks in place of secrets.
    #[cfg(feature = "journal")]
    pub(super) fn replayed(jitter: [u8; 32]) -> Self {
        Self { jitter, is_replayed: true, ..Self::new([0; 32]) }
    }

    /// What jitter is drawn from.
    #[cfg(feature = "journal")]
    pub(super) const fn jitter(&self) -> [u8; 32] {
        self.jitter
    }

    /// Whether nobody can guess it, as far as that can be seen.
    pub(crate) fn check(&self) -> Result<(), OAuthConfigError> {
        if *self.seed == [0; 32] { Err(OAuthConfigError::Entropy) } else { Ok(()) }
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
        #[cfg(feature = "journal")]
        if self.is_replayed {
            return Secret::new(super::masked::DRAWN);
        }
        Secret::new(URL_SAFE_NO_PAD.encode(*self.draw()))
    }

    /// A number below 256, for jitter.
    pub(super) fn byte(&mut self) -> u8 {
        self.jitters = self.jitters.saturating_add(1);
        let hash = Sha256::new().chain_update(self.jitter).chain_update(self.jitters.to_be_bytes()).finalize();
        hash.first().copied().unwrap_or_default()
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
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    #[test]
    fn entropy_gives_another_value_each_time_and_others_to_an_authorization_of_its_own() {
        let mut entropy = Entropy::new([7; 32]);
        let forks = [entropy.fork(), entropy.fork()];
        let mut others = forks.map(Entropy::new);
        let [one, two] = &mut others;
        let words = [entropy.word(), entropy.word(), one.word(), one.word(), two.word()];
        let different: BTreeSet<_> = words.iter().map(Secret::expose).collect();
        assert_eq!(different.len(), words.len());
        assert!(words.iter().all(|word| word.expose().len() == 43));
        assert_eq!(Entropy::new([7; 32]).fork(), forks[0]);
    }

    #[test]
    fn the_debug_of_what_holds_secrets_shows_none() {
        let secret = Secret::new("hush-hush");
        assert_eq!(format!("{secret:?} {:?}", Entropy::new([7; 32])), "… …");
    }

    /// What is in freed memory cannot be seen without unsafe code. That it is overwritten is shown by the types.
    #[test]
    fn what_holds_a_secret_overwrites_it_when_it_is_dropped() {
        fn overwrites<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let (Secret(text), Entropy { seed, .. }) = (Secret::new("secret-token"), Entropy::new([7; 32]));
        overwrites(&text);
        overwrites(&seed);
    }

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
