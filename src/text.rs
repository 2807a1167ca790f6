//! Texts for messages: excerpts, and addresses without their secrets.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

/// Maximum length of an excerpt, in characters.
pub(crate) const EXCERPT: usize = 200;

/// The beginning of a text, at most [`EXCERPT`] characters.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    cut(text, EXCERPT)
}

/// The beginning of bytes that are shown as text, without white space around it, as [`excerpt`] cuts it.
pub(crate) fn excerpt_of(bytes: &[u8]) -> String {
    let bytes = bytes.trim_ascii();
    // Each character has four bytes at most: a text that is cut here is longer than an excerpt, and ends as one does.
    let longest = EXCERPT.saturating_add(1).saturating_mul(4);
    excerpt(&String::from_utf8_lossy(bytes.get(..longest).unwrap_or(bytes))).into_owned()
}

/// The part of a text around a place, as [`excerpt`] cuts it. It begins where a string begins or ends, so that a secret can be
/// recognized, and with the text where the place is far from any.
pub(crate) fn excerpt_at(bytes: &[u8], at: usize) -> String {
    const BEFORE: usize = 80;
    let from = at.saturating_sub(BEFORE);
    let near = bytes.get(from..at).unwrap_or_default();
    let begins = near.iter().position(|byte| *byte == b'"').filter(|_| from > 0);
    match begins.and_then(|begins| bytes.get(from.saturating_add(begins)..)) {
        Some(rest) => format!("…{}", excerpt_of(rest)),
        None => excerpt_of(bytes),
    }
}

/// A secret that is cut is recognized by this many bytes of its beginning.
pub(crate) const RECOGNIZED: usize = 8;

/// The beginning of a text, at most this many characters. Of a last word that is cut, at least eight bytes are left or
/// none, so that it can be recognized where it is a secret. A word ends at white space, and at what separates the parts of an
/// address or of JSON.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(most) else { return Cow::Borrowed(text) };
    let kept = text.get(..end).unwrap_or_default();
    let before = kept.trim_end_matches(|it: char| !it.is_whitespace() && !"\"'`()[]{}<>=:,;&/?#".contains(it));
    let is_short = kept.len().saturating_sub(before.len()) < RECOGNIZED;
    Cow::Owned(format!("{}…", if is_short { before } else { kept }))
}

/// The longest address that is shown, in characters.
const LONGEST: usize = 200;

/// What stands for a part that is not shown.
const HIDDEN: &str = "…";

/// An address as people may see it: without user info, the values of the query, and the fragment; not longer than a
/// line. Where it is not clear what of it is secret, no more than its scheme is shown.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.into() };
    if !scheme.bytes().all(is_of_scheme) {
        return HIDDEN.into();
    }
    let (place, query) = match rest.split_once(['?', '#']) {
        // User info may have any character in it, written as it is, and then this is not the query.
        Some((_, after)) if after.contains('@') => return format!("{scheme}://{HIDDEN}"),
        Some((place, _)) => (place, "?…"),
        None => (rest, ""),
    };
    let (user, place) = place.rsplit_once('@').map_or(("", place), |(_, place)| ("…@", place));
    let (place, rest) = match place.char_indices().nth(LONGEST) {
        Some((end, _)) => (place.get(..end).unwrap_or_default(), HIDDEN),
        None => (place, query),
    };
    [scheme, "://", user, place, rest].concat()
}

/// A text in which each word that holds an address, or a part of one, shows no more of it than [`shown`] does. HTTP
/// clients name the address of a request in their errors.
#[cfg(feature = "http")]
pub(crate) fn shown_in(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '?']) && !text.contains("://") {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        // What closes a sentence or a bracket is no part of an address.
        let address = word.trim_end_matches([')', ']', '>', '"', '\'', '`', '.', ',', ';', ':', '!', '?']);
        show_word(&mut out, address);
        out.push_str(piece.get(address.len()..).unwrap_or_default());
    }
    out.into()
}

#[cfg(feature = "http")]
fn show_word(out: &mut String, word: &str) {
    let start = word.find("://").map(|colon| {
        let scheme = word.get(..colon).unwrap_or_default();
        scheme.trim_end_matches(|it: char| it.is_ascii() && is_of_scheme(it as u8)).len()
    });
    match start.and_then(|start| word.split_at_checked(start)) {
        Some((before, address)) if !before.contains(['@', '?']) => {
            out.push_str(before);
            out.push_str(&shown(address));
        }
        Some(_) => out.push_str(HIDDEN),
        // A path with a query, or user info with a host.
        None => match word.rsplit_once('@') {
            Some((_, host)) if !host.contains('?') => {
                out.push_str("…@");
                out.push_str(host);
            }
            Some(_) => out.push_str(HIDDEN),
            None => match word.split_once('?') {
                Some((path, _)) => {
                    out.push_str(path);
                    out.push_str("?…");
                }
                None => out.push_str(word),
            },
        },
    }
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// A text without its percent-encoding. What is no encoded byte stays.
#[cfg(any(feature = "host", feature = "http"))]
pub(crate) fn percent_decoded(text: &str) -> alloc::vec::Vec<u8> {
    let mut out = alloc::vec::Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|hex| *first == b'%' && hex.iter().all(u8::is_ascii_hexdigit));
        let decoded = hex.and_then(|hex| u8::from_str_radix(core::str::from_utf8(hex).ok()?, 16).ok());
        out.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_around_a_place_begins_with_a_string_or_a_word() {
        let at = |text: &str, place: &str| excerpt_at(text.as_bytes(), text.find(place).unwrap());
        assert_eq!(at(r#"{"a":undefined}"#, "undef"), r#"{"a":undefined}"#);
        let long = format!(r#"{{"token":"{}","a":"b c",undefined}}"#, "x".repeat(200));
        assert_eq!(at(&long, "undef"), r#"…","a":"b c",undefined}"#);
        let first = at(&long, "\",\"a");
        assert!(first.starts_with(r#"{"token":"xxx"#), "{first}");
        assert!(at(&format!("{}!", "é".repeat(500)), "!").starts_with("ééé"));
    }

    #[test]
    fn an_excerpt_is_cut_at_a_character() {
        let text = "ä".repeat(EXCERPT);
        assert_eq!(excerpt(&text), text);
        assert_eq!(excerpt(&format!("{text}b")), format!("{text}…"));
    }

    #[test]
    fn an_excerpt_of_bytes_ends_as_one_of_a_text_however_many_bytes_its_characters_have() {
        for text in ["a", "ä", "\u{1f600}"].map(|it| it.repeat(EXCERPT)) {
            let blank = " ".repeat(8 * EXCERPT);
            assert_eq!(excerpt_of(format!("{blank}{text}\r\n").as_bytes()), text);
            assert_eq!(excerpt_of(format!("{blank}{text}b").as_bytes()), excerpt(&format!("{text}b")));
        }
        assert_eq!(excerpt_of(&[0xff; 4 * EXCERPT]), format!("{}…", "\u{fffd}".repeat(EXCERPT)));
    }

    #[test]
    fn a_word_that_is_cut_has_eight_bytes_or_is_left_out() {
        let text = "the token secret-token";
        assert_eq!(cut(text, 18), "the token secret-t…");
        assert_eq!(cut(text, 17), "the token …");
        assert_eq!(cut("token=secret-token", 12), "token=…");
        assert_eq!(cut("https://example.com/secret-token", 25), "https://example.com/…");
        assert_eq!(cut("the token p@ss!word", 12), "the token …");
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (url, expected) in [
            ("https://example.com:8080/mcp", "https://example.com:8080/mcp"),
            ("https://ada:hush@example.com/mcp?key=hush#hush", "https://…@example.com/mcp?…"),
            ("https://example.com/#hush", "https://example.com/?…"),
            ("https://ada:hu@sh@example.com/", "https://…@example.com/"),
            ("https://ada:hu/hush@example.com/", "https://…@example.com/"),
            ("https://ada:hu?hush@example.com/mcp", "https://…"),
            ("https://ada:hush#hush@example.com/mcp?key=hush", "https://…"),
            ("https://example.com/mcp?mail=hush@hush", "https://…"),
            ("hush:hush://example.com", "…"),
            ("ada:hush@example.com", "…"),
            ("/mcp?key=hush", "…"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        // A megabyte takes Miri an hour.
        let len = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
        assert!(shown(&format!("https://{}", "x".repeat(len))).len() < 300);
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_text_is_shown_without_the_secrets_of_its_addresses() {
        for (text, expected) in [
            ("connection refused: why? error #5", "connection refused: why? error #5"),
            ("connection to https://example.com/mcp refused", "connection to https://example.com/mcp refused"),
            ("https://example.com/mcp#hush: refused", "https://example.com/mcp?…: refused"),
            ("at:é://ada:hush@example.com", "at:é://…@example.com"),
            ("ada@example.com?key=hush", "…"),
            (
                "error sending request for url (https://ada:hush@example.com/mcp?key=hush): dns error",
                "error sending request for url (https://…@example.com/mcp?…): dns error",
            ),
            ("POST /mcp?key=hush\tfailed", "POST /mcp?…\tfailed"),
            ("lookup of \"ada:hush@example.com\" failed", "lookup of …@example.com\" failed"),
            ("url=https://ada:hu?hush@example.com, twice", "url=https://…, twice"),
            ("?a=hush&next=https://example.com/", "…"),
        ] {
            assert_eq!(shown_in(text), expected, "{text}");
        }
    }
}
