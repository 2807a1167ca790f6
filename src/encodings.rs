//! The encodings in which a secret is looked for, and the masks in place of secrets. JSON strings and percent-encoding are
//! left to the caller.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A secret in each form in which it is sent, or a server may repeat it, with the mask in the same form. No text is there
/// twice.
pub(crate) fn forms(secret: &str, mask: &str) -> Vec<(String, String)> {
    let mut forms = encodings(secret, mask);
    let mut add = |text: String, mask: String| {
        if forms.iter().all(|(known, _)| *known != text) {
            forms.push((text, mask));
        }
    };
    let masked = |text: &str| [mask, &"x".repeat(text.len().saturating_sub(secret.len()))].concat();
    // HTTP Basic has the base64 of the form encoding (RFC 6749, section 2.3.1).
    let mut encoded = String::new();
    percent_encode(&mut encoded, secret);
    if encoded != secret {
        let spaced = encoded.replace("%20", "+");
        for text in [with_lower_case_digits(&encoded), encoded, with_lower_case_digits(&spaced), spaced] {
            encodings(&text, &masked(&text)).into_iter().for_each(|(text, mask)| add(text, mask));
        }
    }
    // A server that quotes JSON within JSON escapes it.
    for characters in ["\"\\", "\"\\/"] {
        let mut escaped = String::new();
        for character in secret.chars() {
            if characters.contains(character) {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        let mask = masked(&escaped);
        add(escaped, mask);
    }
    forms
}

/// Appends a text as it is in a form: all but unreserved characters are percent-encoded.
pub(crate) fn percent_encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            // Writing into memory cannot fail.
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
}

/// Percent-encoded text whose hexadecimal digits are in lower case.
fn with_lower_case_digits(text: &str) -> String {
    let (mut out, mut digits) = (String::with_capacity(text.len()), 0_u8);
    for character in text.chars() {
        out.push(if digits > 0 { character.to_ascii_lowercase() } else { character });
        digits = if character == '%' { 2 } else { digits.saturating_sub(1) };
    }
    out
}

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

/// Whether a text may be the end of a mask, or is all digits.
#[cfg(feature = "journal")]
pub(crate) fn is_part_of_mask(text: &str) -> bool {
    MASK.ends_with(text.trim_end_matches('x').trim_end_matches(|it: char| it.is_ascii_digit()))
}
