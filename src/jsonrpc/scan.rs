use alloc::borrow::Cow;
use core::cmp::Ordering;

use super::plain::{after_string, has_either_pair};
use super::spans::Ahead;
use super::{Json, Spans};

/// A position in text that is known to be JSON. On other text the results are arbitrary, but every scan ends.
pub(crate) struct Scan<'a> {
    text: &'a str,
    rest: &'a [u8],
    ahead: Ahead,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, rest: text.as_bytes(), ahead: Ahead::NONE }
    }

    /// Skips these values of the text without reading them.
    pub(crate) fn skipping(self, spans: Spans) -> Self {
        Self { ahead: Ahead::new(spans), ..self }
    }

    /// The offset from the beginning of the text.
    #[inline]
    pub(crate) const fn place(&self) -> usize {
        self.text.len().wrapping_sub(self.rest.len())
    }

    /// The offset of the next value.
    pub(crate) const fn next_place(&mut self) -> usize {
        self.rest = skip_between(self.rest);
        self.place()
    }

    fn since(&self, start: usize) -> Option<Json<'a>> {
        self.text.get(start..self.place()).filter(|text| !text.is_empty()).map(Json::trusted)
    }

    /// Moves to the next value of an object or array, a member's name counting as one; false at the end.
    fn has_value(&mut self) -> bool {
        self.rest = skip_between(self.rest);
        !matches!(self.rest, [] | [b'}' | b']', ..])
    }

    /// Takes the next value.
    pub(crate) fn value(&mut self) -> Option<Json<'a>> {
        let start = self.next_place();
        let known = if self.ahead.is_empty() { None } else { self.ahead.after(self.rest) };
        self.rest = known.unwrap_or_else(|| after_value(self.rest));
        self.since(start)
    }

    /// Takes the opening bracket of the next value if it is this one. Then call [`name`](Self::name) inside an object,
    /// or [`element`](Self::element) inside an array, until it takes the closing bracket.
    pub(crate) fn enter(&mut self, bracket: u8) -> bool {
        self.rest = skip_between(self.rest);
        let after = self.rest.split_first().filter(|(first, _)| **first == bracket);
        self.rest = after.map_or(self.rest, |(_, after)| after);
        after.is_some()
    }

    /// Takes the name of an object's next member as written; `None` at the object's end, after taking the closing
    /// bracket.
    pub(crate) fn name(&mut self) -> Option<Json<'a>> {
        let start = self.next_place();
        let (first, rest) = self.rest.split_first()?;
        if *first != b'"' {
            self.rest = rest;
            return None;
        }
        self.rest = after_quote(rest);
        self.since(start)
    }

    /// Whether an array has another element, which is next; at the array's end, takes the closing bracket.
    pub(crate) fn element(&mut self) -> bool {
        let more = self.has_value();
        if !more {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        more
    }

    /// Takes the next value. If it is an object, calls `each` with every member.
    pub(crate) fn members(&mut self, mut each: impl FnMut(&str, Json<'a>)) -> Option<Json<'a>> {
        self.each_member(|name, scan| {
            if let Some(value) = scan.value() {
                each(name, value);
            }
        })
    }

    /// Like `members`, with the names as written, including names that are not valid strings.
    pub(super) fn raw_members(&mut self, mut each: impl FnMut(Json<'a>, Json<'a>)) -> Option<Json<'a>> {
        self.each_raw_member(|name, _, scan| {
            if let Some(value) = scan.value() {
                each(name, value);
            }
        })
    }

    /// Like `members`, but passes the scan positioned at the member's value, which `each` may take.
    pub(crate) fn each_member(&mut self, mut each: impl FnMut(&str, &mut Self)) -> Option<Json<'a>> {
        self.each_raw_member(|name, escaped, scan| {
            if escaped {
                if let Some(name) = name.as_string() {
                    each(&name, scan);
                }
            } else if let Some(name) = name.text().get(1..name.text().len().wrapping_sub(1)) {
                each(name, scan);
            }
        })
    }

    /// Also passes to `each` whether the name has escapes.
    #[inline]
    fn each_raw_member(&mut self, mut each: impl FnMut(Json<'a>, bool, &mut Self)) -> Option<Json<'a>> {
        let start = self.next_place();
        let [b'{', rest @ ..] = self.rest else { return self.value() };
        self.rest = rest;
        loop {
            let name_start = self.next_place();
            let [quote, rest @ ..] = self.rest else { return None };
            self.rest = rest;
            if *quote != b'"' {
                return self.since(start);
            }
            let mut escaped = false;
            self.rest = after_known_string(rest, |rest| {
                escaped = true;
                rest.get(1..)
            });
            let name_end = self.place();
            let name = self.since(name_start)?;
            each(name, escaped, self);
            if self.place() == name_end {
                self.value()?;
            }
        }
    }

    /// The member of the next value with this name, which must not need escapes; the last one if it is repeated.
    pub(super) fn member(&self, name: &str) -> Option<Json<'a>> {
        let place = |rest: &[u8]| self.text.len().wrapping_sub(rest.len());
        let mut bytes = skip_between(self.rest).strip_prefix(b"{")?;
        let mut found = None;
        while let [b'"', quoted @ ..] = skip_between(bytes) {
            let after = after_quote(quoted);
            let value = skip_between(after);
            bytes = after_value(value);
            let len = quoted.len().wrapping_sub(after.len()).wrapping_sub(1);
            // A name written with escapes is longer than without them.
            let same = match len.cmp(&name.len()) {
                Ordering::Less => false,
                Ordering::Equal => quoted.starts_with(name.as_bytes()),
                Ordering::Greater => {
                    let written = self.text.get(place(quoted).wrapping_sub(1)..place(after)).map(Json::trusted);
                    matches!(written.and_then(Json::as_string), Some(Cow::Owned(written)) if written == name)
                }
            };
            if same {
                found = Some((value, bytes));
                if !may_repeat(bytes, name) {
                    break;
                }
            }
        }
        let (value, after) = found?;
        self.text.get(place(value)..place(after)).map(Json::trusted)
    }

    /// Takes the next value if it is an array. Calls `each` at every element, which `each` takes from the scan, until
    /// it returns false. The result says whether it did.
    pub(crate) fn each_element(&mut self, mut each: impl FnMut(&mut Self) -> bool) -> Option<(Json<'a>, bool)> {
        let start = self.next_place();
        self.rest = self.rest.strip_prefix(b"[")?;
        let mut enough = false;
        while !enough && self.has_value() {
            let before = self.place();
            enough = !each(self) || self.place() == before;
        }
        while self.has_value() && self.value().is_some() {}
        self.rest = self.rest.get(1..).unwrap_or_default();
        Some((self.since(start)?, enough))
    }
}

/// Whether a member of this name may follow. The search for the pair of letters at the first capital, which is rare, takes
/// less than a scan of the members. A letter may also be written as an escape with `\u`.
fn may_repeat(rest: &[u8], name: &str) -> bool {
    let rare = name.as_bytes().windows(2).find(|pair| pair.last().is_some_and(u8::is_ascii_uppercase));
    let rare = rare.and_then(<[u8]>::first_chunk);
    rare.is_none_or(|rare| has_either_pair(rest, *rare, *b"\\u"))
}

/// Skips separators and white space before a value.
#[inline(always)]
const fn skip_between(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r' | b',' | b':', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

#[inline(always)]
fn after_value(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b'"', rest @ ..] => after_quote(rest),
        [b'{' | b'[', rest @ ..] => after_nested(rest),
        _ => after_scalar(bytes),
    }
}

#[inline(always)]
fn after_known_string<'a>(bytes: &'a [u8], escape: impl FnMut(&'a [u8]) -> Option<&'a [u8]>) -> &'a [u8] {
    after_string(bytes, escape).unwrap_or_default()
}

/// The bytes after a string whose opening quote was already taken.
fn after_quote(bytes: &[u8]) -> &[u8] {
    after_known_string(bytes, |rest| rest.get(1..))
}

/// The bytes after an object or array whose opening bracket was already taken.
fn after_nested(mut bytes: &[u8]) -> &[u8] {
    // Sets the bit by which brackets and braces differ.
    const BRACE: u8 = b'[' ^ b'{';
    let mut depth = 0_usize;
    while let [byte, rest @ ..] = bytes {
        bytes = rest;
        if *byte == b'"' {
            bytes = after_known_string(bytes, |rest| rest.get(1..));
            // What follows a string is most often one of these.
            if let [b':' | b',', rest @ ..] = bytes {
                bytes = rest;
            }
            continue;
        }
        match *byte | BRACE {
            b'{' => depth = depth.wrapping_add(1),
            b'}' if depth == 0 => break,
            b'}' => depth = depth.wrapping_sub(1),
            _ => {}
        }
    }
    bytes
}

const fn after_scalar(mut bytes: &[u8]) -> &[u8] {
    while let [b'-'..=b'9', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [byte, rest @ ..] = bytes
        && !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')
    {
        bytes = rest;
    }
    bytes
}
