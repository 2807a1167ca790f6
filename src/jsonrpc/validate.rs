use alloc::vec::Vec;

use super::Json;
use super::plain::after_string;
use super::spans::{Brackets, Unrecorded};

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not JSON.
    NotJson,
    /// It nests deeper than the bound.
    TooDeep,
}

/// Validates that the text is one object, at most `limit` levels deep, and calls `each` with the name and value of
/// every member, as written, in order. Fails as not JSON if `each` returns `None`.
pub(super) fn object<'a>(
    text: &'a str,
    limit: usize,
    spans: &mut impl Brackets,
    mut each: impl FnMut(&'a [u8], Json<'a>) -> Option<()>,
) -> Result<(), Fault> {
    let limit = limit.checked_sub(1).ok_or(Fault::TooDeep)?;
    let place = |rest: &[u8]| text.len().wrapping_sub(rest.len());
    let (b'{', rest) = token(text.as_bytes()) else { return Err(Fault::NotJson) };
    let mut rest = skip_white(rest);
    if let [b'}', after @ ..] = rest {
        return at_end(after);
    }
    loop {
        let [b'"', quoted @ ..] = rest else { return Err(Fault::NotJson) };
        let after = after_string(quoted, after_escape).ok_or(Fault::NotJson)?;
        let (name, _) = rest.split_at_checked(rest.len().wrapping_sub(after.len())).ok_or(Fault::NotJson)?;
        let value = skip_white(after_colon(after).ok_or(Fault::NotJson)?);
        let after = match value {
            [b'"', quoted @ ..] => after_string(quoted, after_escape).ok_or(Fault::NotJson)?,
            _ => after_value(value, limit, spans)?,
        };
        let value = text.get(place(value)..place(after)).map(Json::trusted);
        value.and_then(|value| each(name, value)).ok_or(Fault::NotJson)?;
        match token(after) {
            (b',', after) => rest = skip_white(after),
            (b'}', after) => return at_end(after),
            _ => return Err(Fault::NotJson),
        }
    }
}

/// Validates that the text is one value, at most `limit` levels deep.
pub(super) fn value(text: &str, limit: usize) -> Result<(), Fault> {
    at_end(after_value(text.as_bytes(), limit, &mut Unrecorded)?)
}

fn at_end(rest: &[u8]) -> Result<(), Fault> {
    if skip_white(rest).is_empty() { Ok(()) } else { Err(Fault::NotJson) }
}

#[inline(always)]
pub(super) const fn skip_white(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// The next byte that is not white space, and the bytes after it; at the end zero, which begins no token.
#[inline(always)]
const fn token(bytes: &[u8]) -> (u8, &[u8]) {
    match skip_white(bytes) {
        [byte, rest @ ..] => (*byte, rest),
        [] => (0, bytes),
    }
}

/// The bytes after the value that `bytes` begins with.
fn after_value<'a, B: Brackets>(bytes: &'a [u8], limit: usize, spans: &mut B) -> Result<&'a [u8], Fault> {
    after_value_of::<false, B>(bytes, limit, spans)
}

/// Like `after_value`. Nearly every value nests less than 63 levels deep, and is validated faster without support for
/// more.
fn after_value_of<'a, const DEEP: bool, B: Brackets>(
    bytes: &'a [u8],
    limit: usize,
    spans: &mut B,
) -> Result<&'a [u8], Fault> {
    let (mut rest, mut room, recorded) = (bytes, limit, spans.len());
    // One bit per open bracket, the innermost lowest: set if it is an object's. A marker bit is above them. Each full
    // set of 63 brackets is moved to `outer`.
    let (mut levels, mut outer) = (1_u64, Vec::new());
    loop {
        let (first, after) = token(rest);
        let value = match first {
            b'"' => after_string(after, after_escape),
            b'{' | b'[' => {
                room = room.checked_sub(1).ok_or(Fault::TooDeep)?;
                if levels >> 63 == 1 {
                    if !DEEP {
                        spans.truncate(recorded);
                        return after_value_of::<true, B>(bytes, limit, spans);
                    }
                    outer.push(core::mem::replace(&mut levels, 1));
                }
                levels = levels << 1 | u64::from(first == b'{');
                spans.open(after, room);
                match (first, token(after)) {
                    // The code below takes the closing bracket.
                    (b'{', (b'}', _)) | (b'[', (b']', _)) => Some(after),
                    (b'{', (byte, after)) => {
                        rest = after_name(byte, after).and_then(after_colon).ok_or(Fault::NotJson)?;
                        continue;
                    }
                    _ => {
                        rest = after;
                        continue;
                    }
                }
            }
            b'-' => after_digit(after).and_then(|(first, rest)| after_number(first, rest)),
            b'0'..=b'9' => after_number(first, after),
            b't' => after.strip_prefix(b"rue"),
            b'f' => after.strip_prefix(b"alse"),
            b'n' => after.strip_prefix(b"ull"),
            _ => None,
        };
        rest = value.ok_or(Fault::NotJson)?;
        loop {
            if levels == 1 {
                match outer.pop() {
                    Some(around) => levels = around,
                    None => return Ok(rest),
                }
            }
            let in_object = levels & 1 == 1;
            let (byte, after) = token(rest);
            rest = after;
            match byte {
                b',' if in_object => {
                    let (byte, after) = token(rest);
                    rest = after_name(byte, after).and_then(after_colon).ok_or(Fault::NotJson)?;
                    break;
                }
                b',' => break,
                b'}' | b']' if in_object == (byte == b'}') => {
                    levels >>= 1;
                    spans.close(rest, room);
                    room = room.wrapping_add(1);
                }
                _ => return Err(Fault::NotJson),
            }
        }
    }
}

/// The bytes after a member's name, whose first byte should be `quote`.
#[inline(always)]
fn after_name(quote: u8, rest: &[u8]) -> Option<&[u8]> {
    if quote == b'"' { after_string(rest, after_escape) } else { None }
}

#[inline(always)]
fn after_colon(rest: &[u8]) -> Option<&[u8]> {
    match token(rest) {
        (b':', after) => Some(after),
        _ => None,
    }
}

/// An escape may be half of a surrogate pair; reading the string checks that.
fn after_escape(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => Some(rest),
        [b'u', rest @ ..] => {
            let (digits, rest) = rest.split_first_chunk::<4>()?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(rest)
        }
        _ => None,
    }
}

/// The bytes after a number that begins with this digit.
fn after_number(first: u8, mut rest: &[u8]) -> Option<&[u8]> {
    if first != b'0' {
        rest = skip_digits(rest);
    } else if after_digit(rest).is_some() {
        return None;
    }
    if !matches!(rest, [b'.' | b'e' | b'E', ..]) {
        return Some(rest);
    }
    if let [b'.', fraction @ ..] = rest {
        rest = skip_digits(after_digit(fraction)?.1);
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = if let [b'+' | b'-', digits @ ..] = exponent { digits } else { exponent };
        rest = skip_digits(after_digit(exponent)?.1);
    }
    Some(rest)
}

const fn after_digit(rest: &[u8]) -> Option<(u8, &[u8])> {
    match rest {
        [digit @ b'0'..=b'9', rest @ ..] => Some((*digit, rest)),
        _ => None,
    }
}

const fn skip_digits(mut rest: &[u8]) -> &[u8] {
    while let Some((_, after)) = after_digit(rest) {
        rest = after;
    }
    rest
}

/// Whether brackets outside strings nest deeper than `limit`, in any text.
pub(super) fn too_deep(text: &str, limit: usize) -> bool {
    let (mut depth, mut string, mut escaped) = (0_usize, false, false);
    text.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            b'[' | b'{' => depth = depth.saturating_add(1),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > limit
    })
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::String;
    use serde_json::value::RawValue;

    use super::*;

    /// Calls `each` with every text of at most `len` of these pieces.
    fn every_text(pieces: &[&str], len: usize, each: &mut impl FnMut(&str)) {
        fn extend(text: &str, pieces: &[&str], len: usize, each: &mut impl FnMut(&str)) {
            each(text);
            let Some(len) = len.checked_sub(1) else { return };
            for piece in pieces {
                extend(&format!("{text}{piece}"), pieces, len, each);
            }
        }
        extend("", pieces, len, each);
    }

    #[test]
    fn every_short_text_is_judged_as_serde_json_does() {
        let structure = &["{", "}", "[", "]", ",", ":", "\"", "\"a\":", "1", " ", "null"];
        let number = &["-", "0", "1", "9", ".", "e", "E", "+", " ", ","];
        let string = &["\"", "\\", "u", "n", "/", "0", "F", "g", "\n", "\u{7f}", "é"];
        let words = &["t", "r", "u", "e", "f", "a", "l", "s", "n", "\0", "x"];
        let (mut texts, mut valid) = (0_u32, 0_u32);
        let mut compare = |text: &str| {
            let expected = serde_json::from_str::<&RawValue>(text).is_ok();
            assert_eq!(value(text, 128).is_ok(), expected, "{text:?}");
            texts += 1;
            valid += u32::from(expected);
        };
        every_text(structure, 5, &mut compare);
        every_text(number, 5, &mut |text| compare(text));
        every_text(string, 4, &mut |text| {
            for before in ["", "\\u00a", "plain text, "] {
                compare(&format!("\"{before}{text}\""));
            }
        });
        every_text(words, 3, &mut |text| {
            for before in ["", "t", "tr", "fa", "fal", "n", "nu", "-"] {
                compare(&format!("[{before}{text}]"));
            }
        });
        assert!(texts > 300_000 && valid > 10_000, "{valid} of {texts}");
    }

    #[test]
    fn brackets_are_matched_and_counted_at_every_depth() {
        let brackets = [("[", "]"), ("{\"a\":", "}"), (" { \"\\n\" : ", " } ")];
        for depth in 1..200 {
            let levels: Vec<_> = (0..depth).map(|level| brackets[level * 7 % 3]).collect();
            let open: String = levels.iter().map(|(open, _)| *open).collect();
            let close: Vec<&str> = levels.iter().rev().map(|(_, close)| *close).collect();
            let text = format!("{open}0{}", close.concat());
            assert!(serde_json::from_str::<&RawValue>(&text).is_ok());
            assert_eq!(value(&text, depth), Ok(()), "{text}");
            assert_eq!(value(&text, depth - 1), Err(Fault::TooDeep), "{text}");
            for wrong in 0..depth {
                let mut close = close.clone();
                close[wrong] = if close[wrong] == "]" { "}" } else { "]" };
                assert_eq!(
                    value(&format!("{open}0{}", close.concat()), depth),
                    Err(Fault::NotJson),
                    "{open} {close:?}"
                );
            }
        }
    }

    #[test]
    fn members_are_as_they_were_written() {
        let text = " {\"a\" : [1, {}] ,\n\"\\u0062\":\"x\\\"\",\"a\":{\"c\":-0.5E+7}, \"\" :null } ";
        let mut found = Vec::new();
        let each = |name: &[u8], value: Json<'_>| {
            found.push((String::from_utf8(name.to_vec()).unwrap(), value.text().to_owned()));
            Some(())
        };
        object(text, 3, &mut Unrecorded, each).unwrap();
        let expected =
            [("\"a\"", "[1, {}]"), (r#""\u0062""#, r#""x\"""#), ("\"a\"", r#"{"c":-0.5E+7}"#), ("\"\"", "null")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(object(text, 1, &mut Unrecorded, |_, _| Some(())), Err(Fault::TooDeep));
        assert_eq!(object(text, 0, &mut Unrecorded, |_, _| Some(())), Err(Fault::TooDeep));
        assert_eq!(object(text, 3, &mut Unrecorded, |name, _| (name != b"\"\"").then_some(())), Err(Fault::NotJson));
        for text in
            ["{} x", "{}}", "{,}", "{\"a\":1,}", "{\"a\" 1}", "{\"a\":}", "{1:1}", "{\"a\":1 \"b\":2}", "[]", ""]
        {
            assert_eq!(object(text, 3, &mut Unrecorded, |_, _| Some(())), Err(Fault::NotJson), "{text}");
        }
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!too_deep(&nested(128), 128));
        assert!(too_deep(&nested(129), 128));
        assert!(!too_deep(&format!("[{}]", "[],".repeat(500)), 128));
        assert!(!too_deep(&format!("\"{}\"", "[".repeat(500)), 128));
        assert!(!too_deep(&format!("\"\\\"{}\"", "[".repeat(500)), 128));
        assert!(too_deep(&format!("\"\\\\\"{}", "[".repeat(500)), 128));
    }
}
