//! Secrets hidden in what is no journal: texts and streams of bytes that a program shows.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};

use super::SecretError;
use super::secrets::{Found, Scanner, Secrets, masked, merged};

/// A stream that ends with the beginning of a secret is held back up to this many bytes: the longest secret in any form has
/// room.
const HELD: usize = 64 << 10;

/// Hides secrets in what a program shows, as a [`Recorder`](super::Recorder) does in a journal: in the same encodings, with
/// the same masks if the secrets are added in the same order. A report of a recorded run is then that of its replay.
///
/// ```
/// use mcp_proto::journal::Hider;
///
/// let mut hider = Hider::default();
/// hider.add("sk-0123456789")?;
/// assert_eq!(hider.hide("the key sk-0123456789 is wrong"), "the key secret10xxxxx is wrong");
/// # Ok::<(), mcp_proto::journal::SecretError>(())
/// ```
#[derive(Debug, Default)]
pub struct Hider(Secrets);

impl Hider {
    /// Adds a secret. There may be any number: from the ninetieth on they have the same mask.
    ///
    /// # Errors
    /// The secret has less than 8 bytes, or more than 16 KiB.
    pub fn add(&mut self, secret: &str) -> Result<(), SecretError> {
        self.0.add_beyond(secret)
    }

    /// The text with masks in place of secrets.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.0.hide(text.into())) }
    }

    /// Takes a chunk of a stream. Returns what may be shown: nothing as long as the stream ends with what may be the
    /// beginning of a secret, up to 64 KiB.
    #[must_use = "what is returned has to be shown"]
    pub fn pass(&self, stream: &mut HiddenStream, chunk: &[u8]) -> Vec<u8> {
        if self.0.is_empty() && stream.held.is_empty() {
            return chunk.into();
        }
        self.0.read(&mut stream.scanner, chunk, &mut stream.found);
        stream.held.extend_from_slice(chunk);
        let is_done = stream.scanner.is_settled(&self.0) || stream.held.len() > HELD;
        if is_done { stream.end() } else { Vec::new() }
    }
}

/// What is held back of a stream that a [`Hider`] reads.
#[derive(Default)]
pub struct HiddenStream {
    scanner: Scanner,
    found: Vec<Found>,
    held: Vec<u8>,
}

impl HiddenStream {
    /// The rest, once nothing more comes.
    #[must_use = "what is returned has to be shown"]
    pub fn end(&mut self) -> Vec<u8> {
        let Self { found, held, .. } = core::mem::take(self);
        masked(0, &held, &merged(found))
    }
}

/// It shows nothing that is held back.
impl Debug for HiddenStream {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiddenStream").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn hider(secrets: &[&str]) -> Hider {
        let mut hider = Hider::default();
        secrets.iter().for_each(|secret| hider.add(secret).expect("a secret"));
        hider
    }

    #[test]
    fn a_text_has_masks_as_a_journal_has_them() {
        let hider = hider(&["hush-\"quo\\ted\"", "hush-token"]);
        assert_eq!(hider.hide(r#"{"a":"hush-\"quo\\ted\"","b":["hush-token"]}"#).matches("secret1").count(), 2);
        assert_eq!(hider.hide("of hush-token, hush-tok…"), "of secret11xx, secret11…");
        assert!(matches!(hider.hide("nothing"), Cow::Owned(text) if text == "nothing"));
        assert!(matches!(Hider::default().hide("nothing"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_text_too_short_to_be_looked_for_is_refused_and_no_number_of_secrets_is_too_high() {
        let mut hider = Hider::default();
        assert_eq!(hider.add("abc"), Err(SecretError::TooShort { length: 3 }));
        (0..200).for_each(|at| hider.add(&format!("hush-{at:03}")).expect("a secret"));
        let text: String = (0..200).map(|at| format!("hush-{at:03} ")).collect();
        assert!(!hider.hide(&text).contains("hush"));
        assert_eq!(hider.hide("hush-199"), "secret99");
    }

    #[test]
    fn a_secret_is_hidden_wherever_its_stream_is_divided() {
        let (hider, text) = (hider(&["hush-token"]), "a hush-token, a hush and hush-to");
        for cut in 0..=text.len() {
            let (mut stream, mut shown) = (HiddenStream::default(), Vec::new());
            for chunk in <[&str; 2]>::from(text.split_at(cut)) {
                shown.extend(hider.pass(&mut stream, chunk.as_bytes()));
            }
            shown.extend(stream.end());
            assert_eq!(String::from_utf8(shown).unwrap(), text.replace("hush-token", "secret10xx"), "{cut}");
        }
        assert_eq!(hider.pass(&mut HiddenStream::default(), b"ready> "), b"ready> ");
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let hider = hider(&[&"ab".repeat(8000)]);
        let mut stream = HiddenStream::default();
        let shown: usize = (0..100).map(|_| hider.pass(&mut stream, &b"ab".repeat(500)).len()).sum();
        assert!(shown > 0 && stream.held.len() <= HELD);
    }
}
