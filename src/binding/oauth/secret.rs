//! Secrets: how they are kept, derived from entropy, and hidden where a server repeats them.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::options::OAuthConfigError;
use super::requests::encode;
use crate::encodings::encodings;

/// A shorter secret could be any word.
const SHORTEST: usize = 6;

const HIDDEN: &str = "[hidden]";

/// A secret: a token, a client secret, a code. Its `Debug` shows nothing, comparisons take constant time, and its memory
/// is overwritten when it is dropped.
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
}

impl Entropy {
    pub(crate) fn new(mut seed: [u8; 32]) -> Self {
        let kept = Zeroizing::new(seed);
        seed.zeroize();
        Self { seed: kept, drawn: 0 }
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

/// Finds the beginning of a secret at the end of a text, in linear time (Knuth, Morris and Pratt).
struct Beginnings<'a> {
    secret: &'a str,
    /// For each beginning, the length of the longest shorter one that it ends with.
    shorter: Vec<usize>,
}

impl<'a> Beginnings<'a> {
    fn of(secret: &'a str) -> Self {
        let mut found = Self { secret, shorter: Vec::with_capacity(secret.len()) };
        let mut length = 0;
        for (at, byte) in secret.bytes().enumerate() {
            if at > 0 {
                length = found.follow(length, byte);
            }
            found.shorter.push(length);
        }
        found
    }

    /// The length of the beginning that a text ends with, where the text without its last byte ends with one of `length`.
    fn follow(&self, mut length: usize, byte: u8) -> usize {
        loop {
            if self.secret.as_bytes().get(length) == Some(&byte) {
                return length.saturating_add(1);
            }
            if length == 0 {
                return 0;
            }
            length = self.shorter_than(length);
        }
    }

    fn shorter_than(&self, length: usize) -> usize {
        length.checked_sub(1).and_then(|at| self.shorter.get(at)).copied().unwrap_or_default()
    }

    /// The text without the longest beginning of the secret that it ends with.
    fn cut<'t>(&self, text: &'t str) -> Option<&'t str> {
        let skipped = text.len().saturating_sub(self.secret.len());
        let mut length = text.bytes().skip(skipped).fold(0, |length, byte| self.follow(length, byte));
        while length >= SHORTEST {
            if let Some(beginning) = self.secret.get(..length) {
                return text.strip_suffix(beginning);
            }
            length = self.shorter_than(length);
        }
        None
    }
}

/// The `code_challenge` of a verifier, by `S256` (RFC 7636, section 4.2).
pub(super) fn challenge_of(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()))
}

/// Replaces each secret in a text, as it is and encoded, also one that was cut off before a `…`.
pub(super) fn hide<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> Box<str> {
    let mut out = text.to_string();
    for secret in secrets {
        let secret = secret.expose();
        // No encoding is shorter, except for the characters of base64 that two bytes share.
        let has_room = text.len().saturating_add(SHORTEST) >= secret.len() || text.contains('…');
        if secret.len() >= SHORTEST && has_room {
            for form in forms(secret) {
                out = hide_cut(&out.replace(&*form, HIDDEN), &form);
            }
        }
    }
    out.into()
}

/// A secret as it is and in each encoding in which a server may repeat it.
fn forms(secret: &str) -> Vec<Zeroizing<String>> {
    let mut forms = Vec::new();
    let mut add = |text: &str| {
        for (text, _) in encodings(text, HIDDEN) {
            let text = Zeroizing::new(text);
            if text.len() >= SHORTEST && !forms.contains(&text) {
                forms.push(text);
            }
        }
    };
    add(secret);
    // HTTP Basic has the base64 of the form encoding (RFC 6749, section 2.3.1).
    let mut encoded = Zeroizing::new(String::new());
    encode(&mut encoded, secret);
    let spaced = Zeroizing::new(encoded.replace("%20", "+"));
    for text in [encoded, spaced] {
        add(&with_lower_case_digits(&text));
        add(&text);
    }
    // A server that quotes JSON within JSON escapes it.
    for characters in ["\"\\", "\"\\/"] {
        let mut escaped = Zeroizing::new(String::new());
        for character in secret.chars() {
            if characters.contains(character) {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        forms.push(escaped);
    }
    // One may be part of another.
    forms.sort_by_key(|form| Reverse(form.len()));
    forms
}

/// Percent-encoded text whose hexadecimal digits are in lower case.
fn with_lower_case_digits(text: &str) -> Zeroizing<String> {
    let (mut out, mut digits) = (Zeroizing::new(String::with_capacity(text.len())), 0_u8);
    for character in text.chars() {
        out.push(if digits > 0 { character.to_ascii_lowercase() } else { character });
        digits = if character == '%' { 2 } else { digits.saturating_sub(1) };
    }
    out
}

/// Replaces the beginning of a secret before each `…`.
fn hide_cut(text: &str, secret: &str) -> String {
    if !text.contains('…') {
        return text.into();
    }
    let secret = Beginnings::of(secret);
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('…').peekable();
    while let Some(part) = parts.next() {
        let is_cut = parts.peek().is_some();
        match Some(part).filter(|_| is_cut).and_then(|part| secret.cut(part)) {
            Some(shown) => {
                out.push_str(shown);
                out.push_str(HIDDEN);
            }
            None => out.push_str(part),
        }
        if is_cut {
            out.push('…');
        }
    }
    out
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

    #[test]
    fn a_secret_is_hidden_wherever_it_is_and_however_it_is_cut() {
        let (secret, short) = (Secret::new("secret-token"), Secret::new("abc"));
        for (text, shown) in [
            ("bad secret-token, secret-token", "bad [hidden], [hidden]"),
            ("the token secret-…", "the token [hidden]…"),
            ("the token secret-… and secret-to…", "the token [hidden]… and [hidden]…"),
            ("a secret is no token", "a secret is no token"),
            ("abc", "abc"),
            ("secret-", "secret-"),
            ("", ""),
            ("…", "…"),
        ] {
            assert_eq!(&*hide(text, [&secret, &short]), shown);
        }
    }

    #[test]
    fn a_secret_is_hidden_in_each_encoding() {
        let secret = Secret::new("1//0g token+\"hash");
        for (text, shown) in [
            ("a=b&refresh_token=1%2F%2F0g%20token%2B%22hash&c=d", "a=b&refresh_token=[hidden]&c=d"),
            ("a=b&refresh_token=1%2f%2f0g+token%2b%22hash", "a=b&refresh_token=[hidden]"),
            // `app:` and the secret, as it is and form-encoded.
            ("Basic YXBwOjEvLzBnIHRva2VuKyJoYXNo.", "Basic YXBwOj[hidden]."),
            ("Basic YXBwOjElMkYlMkYwZyUyMHRva2VuJTJCJTIyaGFzaA==", "Basic YXBwOj[hidden]=="),
            (r#""1\/\/0g token+\"hash""#, "\"[hidden]\""),
            (r#""1//0g token+\"hash""#, "\"[hidden]\""),
            ("token 1%2F%2F0g%20…", "token [hidden]…"),
        ] {
            assert_eq!(&*hide(text, [&secret]), shown);
        }
    }

    #[test]
    fn the_longest_beginning_of_a_secret_is_hidden_at_the_end() {
        let texts = ["aaaaaaab", "abaabaabaab", "aaaaaaaa", "abababababc", "ééééab", "abcdefgh"];
        for secret in texts {
            let beginnings = Beginnings::of(secret);
            for text in texts.iter().flat_map(|one| texts.map(|other| [*one, other].concat())) {
                for text in (0..=text.len()).filter_map(|end| text.get(..end)) {
                    let longest = (SHORTEST..=secret.len())
                        .rev()
                        .filter_map(|length| secret.get(..length))
                        .find_map(|beginning| text.strip_suffix(beginning));
                    assert_eq!(beginnings.cut(text), longest, "{text} {secret}");
                }
            }
        }
        // A search that starts anew for each length would take minutes.
        let (secret, text) = ("a".repeat(4 << 20), ["a".repeat((4 << 20) - 1).as_str(), "b"].concat());
        assert_eq!(Beginnings::of(&secret).cut(&text), None);
    }
}
