//! The encodings in which a secret is looked for, and the masks in place of secrets. JSON strings and percent-encoding are
//! left to the caller.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A secret as it is and in each encoding, with the mask in the same encoding. No text is there twice.
pub(crate) fn encodings(secret: &str, mask: &str) -> Vec<(String, String)> {
    let mut encodings: Vec<(String, String)> = alloc::vec![(secret.into(), mask.into())];
    let mut add = |text: String, mask: String| {
        if encodings.iter().all(|(known, _)| *known != text) {
            encodings.push((text, mask));
        }
    };
    let (digits, masked) = (hex(secret), hex(mask));
    add(digits.to_ascii_uppercase(), masked.to_ascii_uppercase());
    add(digits, masked);
    for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let texts = base64(&alphabet, before, secret).into_iter();
            texts.zip(base64(&alphabet, before, mask)).for_each(|(text, mask)| add(text, mask));
        }
    }
    encodings
}

fn hex(text: &str) -> String {
    let mut hex = String::with_capacity(text.len().saturating_mul(2));
    for byte in text.bytes() {
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The characters of base64 that depend on the text alone, where `before` bytes of a group of three precede it: those
/// before a text that follows, and those at the end.
fn base64(alphabet: &GeneralPurpose, before: usize, text: &str) -> [String; 2] {
    let mut bytes = alloc::vec![0; before];
    bytes.extend_from_slice(text.as_bytes());
    let encoded = alphabet.encode(&bytes);
    // Three bytes have four characters; a character that is divided between two bytes depends on both.
    let first = before.saturating_mul(8).div_ceil(6);
    let whole = bytes.len().saturating_mul(8) / 6;
    let part = |end: usize| encoded.get(first..end).unwrap_or_default().into();
    [part(whole), part(encoded.len())]
}

/// What a mask begins with.
#[cfg(any(feature = "journal", all(feature = "oauth", feature = "serde")))]
const MASK: &str = "secret";

/// As long as the secret, so that limits on lengths have the same effect in a replay. That of a number is one.
#[cfg(feature = "journal")]
pub(crate) fn mask(secret: &str, number: u64) -> String {
    let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
    let (begin, fill) = if is_number { ("", "9") } else { (MASK, "x") };
    let mut mask = alloc::format!("{begin}{number}");
    mask.push_str(&fill.repeat(secret.len().saturating_sub(mask.len())));
    mask
}

/// Whether a text is a mask, other than that of a number.
#[cfg(all(feature = "oauth", feature = "serde"))]
pub(crate) fn is_mask(text: &str) -> bool {
    let number = text.strip_prefix(MASK).map(|rest| rest.trim_end_matches('x'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
