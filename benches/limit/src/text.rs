//! One pass over text: JSON and UTF-8 are checked together.

/// Takes a member of a message, or of its result.
pub type Each<'a, 'b> = &'b mut dyn FnMut(Of, &'a [u8], &'a [u8]);

#[derive(Clone, Copy, PartialEq)]
pub enum Of {
    Message,
    Result,
}

/// Checks a message, and calls `each` with the name and value of every member of it and of its result; `None` if it is not
/// valid.
pub fn read<'a>(text: &'a [u8], each: Each<'a, '_>) -> Option<()> {
    let (b'{', rest) = token(text)? else { return None };
    members(Of::Message, rest, each).filter(|rest| skip_white(rest).is_empty()).map(|_| ())
}

/// Reads the members of an object whose opening brace was taken. Returns what follows the object.
fn members<'a>(of: Of, mut rest: &'a [u8], each: Each<'a, '_>) -> Option<&'a [u8]> {
    if let Some((b'}', after)) = token(rest) {
        return Some(after);
    }
    loop {
        let (b'"', quoted) = token(rest)? else { return None };
        let after = string(quoted)?;
        let name = quoted.get(..quoted.len() - after.len() - 1)?;
        let (b':', value) = token(after)? else { return None };
        let value = skip_white(value);
        let end = match value {
            [b'{', inside @ ..] if of == Of::Message && name == b"result" => members(Of::Result, inside, each)?,
            _ => self::value(value)?,
        };
        each(of, name, value.get(..value.len() - end.len())?);
        match token(end)? {
            (b',', after) => rest = after,
            (b'}', after) => return Some(after),
            _ => return None,
        }
    }
}

/// What follows the value that the text begins with.
fn value(text: &[u8]) -> Option<&[u8]> {
    let (first, rest) = token(text)?;
    match first {
        b'"' => string(rest),
        b'{' => object(rest),
        b'[' => array(rest),
        b't' => rest.strip_prefix(b"rue"),
        b'f' => rest.strip_prefix(b"alse"),
        b'n' => rest.strip_prefix(b"ull"),
        b'-' => match rest {
            [digit @ b'0'..=b'9', rest @ ..] => number(*digit, rest),
            _ => None,
        },
        b'0'..=b'9' => number(first, rest),
        _ => None,
    }
}

fn object(mut rest: &[u8]) -> Option<&[u8]> {
    if let Some((b'}', after)) = token(rest) {
        return Some(after);
    }
    loop {
        let (b'"', name) = token(rest)? else { return None };
        let (b':', after) = token(string(name)?)? else { return None };
        match token(value(after)?)? {
            (b',', after) => rest = after,
            (b'}', after) => return Some(after),
            _ => return None,
        }
    }
}

fn array(mut rest: &[u8]) -> Option<&[u8]> {
    if let Some((b']', after)) = token(rest) {
        return Some(after);
    }
    loop {
        match token(value(rest)?)? {
            (b',', after) => rest = after,
            (b']', after) => return Some(after),
            _ => return None,
        }
    }
}

fn number(first: u8, mut rest: &[u8]) -> Option<&[u8]> {
    if first != b'0' {
        rest = digits(rest);
    } else if let [b'0'..=b'9', ..] = rest {
        return None;
    }
    if let [b'.', fraction @ ..] = rest {
        rest = some_digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = some_digits(if let [b'+' | b'-', digits @ ..] = exponent { digits } else { exponent })?;
    }
    Some(rest)
}

fn some_digits(rest: &[u8]) -> Option<&[u8]> {
    matches!(rest, [b'0'..=b'9', ..]).then(|| digits(rest))
}

fn digits(mut rest: &[u8]) -> &[u8] {
    while let [b'0'..=b'9', after @ ..] = rest {
        rest = after;
    }
    rest
}

#[inline(always)]
fn token(text: &[u8]) -> Option<(u8, &[u8])> {
    skip_white(text).split_first().map(|(first, rest)| (*first, rest))
}

#[inline(always)]
fn skip_white(text: &[u8]) -> &[u8] {
    if let [..=b' ', ..] = text { skip_more_white(text) } else { text }
}

#[cold]
#[inline(never)]
fn skip_more_white(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = text {
        text = rest;
    }
    text
}

/// What follows a string whose opening quote was taken.
#[inline(always)]
fn string(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        while let Some((word, after)) = rest.split_first_chunk() {
            let hits = hits(*word);
            if hits != 0 {
                rest = rest.get(hits.trailing_zeros() as usize / 8..)?;
                break;
            }
            rest = after;
        }
        let (first, after) = rest.split_first()?;
        rest = match first {
            b'"' => return Some(after),
            b'\\' => escape(after)?,
            ..b' ' => return None,
            ..0x80 => after,
            _ => beyond_ascii(rest)?,
        };
    }
}

/// Sets the highest bit of the first byte that is a quote, a backslash, a control character, or not ASCII. Later bytes may be
/// set as well.
#[inline(always)]
fn hits(word: [u8; 8]) -> u64 {
    let every = |byte: u8| u64::from_le_bytes([byte; 8]);
    let word = u64::from_le_bytes(word);
    let low = (word ^ every(b'"' ^ b' ')).wrapping_sub(every(b' ' + 1));
    let backslash = (word ^ every(b'\\')).wrapping_sub(every(1));
    (low | backslash | word) & every(1 << 7)
}

fn escape(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => Some(rest),
        [b'u', rest @ ..] => {
            let (digits, rest) = rest.split_first_chunk::<4>()?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(rest)
        }
        _ => None,
    }
}

/// What follows the characters outside ASCII that the text begins with.
fn beyond_ascii(text: &[u8]) -> Option<&[u8]> {
    let (characters, rest) = text.split_at(text.iter().take_while(|byte| !byte.is_ascii()).count());
    std::str::from_utf8(characters).is_ok().then_some(rest)
}

/// Where the first line ends.
pub fn line_feed(text: &[u8]) -> Option<usize> {
    let in_block = |block: &[u8; 64]| block.iter().fold(false, |found, byte| found | (*byte == b'\n'));
    let before = 64 * text.as_chunks().0.iter().take_while(|block| !in_block(block)).count();
    Some(before + text.get(before..)?.iter().position(|byte| *byte == b'\n')?)
}
