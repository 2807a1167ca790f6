use alloc::vec::Vec;

use super::Json;
use super::plain::after_string;

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not JSON.
    NotJson,
    /// Its brackets nest deeper than the bound.
    TooDeep,
}

/// Reads an object, at most `limit` levels deep, which nothing else follows, and calls `each` with every member of it,
/// in order: its name and its value, both as they were written. Where `each` gives nothing, neither is this JSON.
pub(super) fn object<'a>(
    text: &'a str,
    limit: usize,
    mut each: impl FnMut(Json<'a>, Json<'a>) -> Option<()>,
) -> Result<(), Fault> {
    let limit = limit.checked_sub(1).ok_or(Fault::TooDeep)?;
    let place = |rest: &[u8]| text.len().wrapping_sub(rest.len());
    let json = |start, end| text.get(start..end).map(Json::trusted).ok_or(Fault::NotJson);
    let (b'{', rest) = token(text.as_bytes()) else { return Err(Fault::NotJson) };
    let (mut byte, mut rest) = token(rest);
    if byte != b'}' {
        loop {
            let start = place(rest).wrapping_sub(1);
            let after = after_name(byte, rest).ok_or(Fault::NotJson)?;
            let name = json(start, place(after))?;
            let value = skip_white(after_colon(after).ok_or(Fault::NotJson)?);
            let after = after_value(value, limit)?;
            each(name, json(place(value), place(after))?).ok_or(Fault::NotJson)?;
            match token(after) {
                (b',', after) => (byte, rest) = token(after),
                (b'}', after) => {
                    rest = after;
                    break;
                }
                _ => return Err(Fault::NotJson),
            }
        }
    }
    at_end(rest)
}

/// Reads a value, at most `limit` levels deep, which nothing else follows.
pub(super) fn value(text: &str, limit: usize) -> Result<(), Fault> {
    at_end(after_value(text.as_bytes(), limit)?)
}

fn at_end(rest: &[u8]) -> Result<(), Fault> {
    if skip_white(rest).is_empty() { Ok(()) } else { Err(Fault::NotJson) }
}

#[inline(always)]
const fn skip_white(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// The next byte that is no white space, and what follows it; zero, which no token begins with, at the end.
#[inline(always)]
const fn token(bytes: &[u8]) -> (u8, &[u8]) {
    match skip_white(bytes) {
        [byte, rest @ ..] => (*byte, rest),
        [] => (0, bytes),
    }
}

/// The brackets around a place: whether each is an object's.
struct Levels {
    limit: usize,
    depth: usize,
    /// The innermost, lowest bit first, up to the last multiple of 64.
    objects: u64,
    /// Those around them, 64 each.
    outer: Vec<u64>,
}

impl Levels {
    const WORD: usize = 64;

    #[inline]
    fn open(&mut self, object: bool) -> Result<(), Fault> {
        if self.depth >= self.limit {
            return Err(Fault::TooDeep);
        }
        if self.depth.is_multiple_of(Self::WORD) && self.depth > 0 {
            self.outer.push(self.objects);
        }
        self.depth = self.depth.wrapping_add(1);
        self.objects = self.objects << 1 | u64::from(object);
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        if self.depth.is_multiple_of(Self::WORD)
            && let Some(objects) = self.outer.pop()
        {
            self.objects = objects;
        }
    }

    const fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// What follows the value that `rest` begins with.
fn after_value(mut rest: &[u8], limit: usize) -> Result<&[u8], Fault> {
    let mut levels = Levels { limit, depth: 0, objects: 0, outer: Vec::new() };
    loop {
        let (first, after) = token(rest);
        let scalar = match first {
            b'"' => after_string(after, after_escape),
            b'{' => {
                levels.open(true)?;
                match token(after) {
                    (b'}', after) => {
                        levels.close();
                        Some(after)
                    }
                    (byte, after) => {
                        rest = after_name(byte, after).and_then(after_colon).ok_or(Fault::NotJson)?;
                        continue;
                    }
                }
            }
            b'[' => {
                levels.open(false)?;
                match token(after) {
                    (b']', after) => {
                        levels.close();
                        Some(after)
                    }
                    _ => {
                        rest = after;
                        continue;
                    }
                }
            }
            b'-' => after_digit(after).and_then(after_number),
            b'0'..=b'9' => after_number((first, after)),
            b't' => after.strip_prefix(b"rue"),
            b'f' => after.strip_prefix(b"alse"),
            b'n' => after.strip_prefix(b"ull"),
            _ => None,
        };
        rest = scalar.ok_or(Fault::NotJson)?;
        loop {
            if levels.depth == 0 {
                return Ok(rest);
            }
            let (byte, after) = token(rest);
            rest = after;
            match (byte, levels.in_object()) {
                (b',', true) => {
                    let (byte, after) = token(rest);
                    rest = after_name(byte, after).and_then(after_colon).ok_or(Fault::NotJson)?;
                    break;
                }
                (b',', false) => break,
                (b'}', true) | (b']', false) => levels.close(),
                _ => return Err(Fault::NotJson),
            }
        }
    }
}

/// What follows a member's name, which should begin with `quote`.
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

/// An escape may stand for half of a character: what it means is seen where the string is read.
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

/// What follows a number, which begins with this digit.
fn after_number((first, mut rest): (u8, &[u8])) -> Option<&[u8]> {
    if first != b'0' {
        rest = skip_digits(rest);
    } else if after_digit(rest).is_some() {
        return None;
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
    use super::*;

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
