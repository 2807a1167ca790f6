//! JSON as written: finds values in text that is known to be valid, without copying them.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::iter;
use core::ops::Range;
use serde::de::value::{BorrowedStrDeserializer, Error, MapDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use super::decode::valid_value;

/// A JSON value as written. It is valid: it was parsed as part of a message.
///
/// Lookups therefore skip validation. On invalid text they return an arbitrary result, but do not fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    pub(crate) const EMPTY_ARRAY: Self = Self("[]");
    pub(crate) const EMPTY_OBJECT: Self = Self("{}");

    /// Wraps text that is known to be one JSON value, without surrounding white space.
    pub(crate) const fn trusted(text: &'a str) -> Self {
        Self(text)
    }

    pub(crate) const fn text(self) -> &'a str {
        self.0
    }

    pub(crate) fn first(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or_default()
    }

    /// Whether the text contains a backslash.
    pub(crate) fn has_backslash(self) -> bool {
        has_backslash(self.0.as_bytes())
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub(crate) fn is_object(self) -> bool {
        self.first() == b'{'
    }

    /// The decoded string, borrowed if it has no escapes; `None` if this is not a string.
    pub(crate) fn as_string(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if has_backslash(inner.as_bytes()) {
            return unescaped(inner, None).map(Cow::Owned);
        }
        Some(Cow::Borrowed(inner))
    }

    /// The decoded string, for a text that people or models read: half of a surrogate pair becomes U+FFFD.
    pub(crate) fn as_text(self) -> Option<Cow<'a, str>> {
        self.as_string().or_else(|| {
            let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
            unescaped(inner, Some(char::REPLACEMENT_CHARACTER)).map(Cow::Owned)
        })
    }

    /// The integer, which may be written with a zero fraction or an exponent: `2000.0`, `2e3`. `None` if this is no number,
    /// has a fraction, or is out of range.
    pub(crate) fn as_integer(self) -> Option<i64> {
        if let Ok(integer) = self.0.parse() {
            return Some(integer);
        }
        let Decimal { is_negative, whole, has_fraction: false } = Decimal::read(self.0)? else { return None };
        if is_negative { 0i64.checked_sub_unsigned(whole?) } else { i64::try_from(whole?).ok() }
    }

    pub(crate) fn raw(self) -> &'a RawValue {
        known(self.0)
    }

    pub(crate) fn to_raw(self) -> Box<RawValue> {
        self.raw().to_owned()
    }

    /// As [`to_raw`](Self::to_raw), in the memory of the text.
    pub(crate) fn into_raw(text: String) -> Box<RawValue> {
        known_owned(text)
    }
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
    }
}

/// A JSON number, exactly. Floating-point numbers would be inexact, and their tables are 20 KB of a small program.
pub(crate) struct Decimal {
    pub(crate) is_negative: bool,
    /// The part before the decimal point; `None` if that is above [`u64::MAX`].
    pub(crate) whole: Option<u64>,
    pub(crate) has_fraction: bool,
}

impl Decimal {
    /// Reads the text of a number; `None` if it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (is_negative, number) = text.strip_prefix('-').map_or((false, text), |number| (true, number));
        let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let exponent = match exponent.parse::<i32>() {
            Ok(exponent) => i64::from(exponent),
            // Further than the digits of any text reach.
            Err(_) if exponent.starts_with('-') => i64::MIN,
            Err(_) => i64::MAX,
        };
        if whole.is_empty() || fraction.is_empty() {
            return None;
        }
        let point = i64::try_from(whole.len()).ok()?.saturating_add(exponent);
        let (mut value, mut has_fraction, mut at) = (Some(0u64), false, 0i64);
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
            if at < point {
                value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit.into()));
            } else {
                has_fraction |= digit != 0;
            }
            at = at.saturating_add(1);
        }
        while at < point && value.is_some_and(|value| value != 0) {
            value = value.and_then(|value| value.checked_mul(10));
            at = at.saturating_add(1);
        }
        Some(Self { is_negative, whole: value, has_fraction })
    }
}

/// The text of a string with its escape sequences decoded. Half of a surrogate pair is no character: `half` stands for it.
fn unescaped(text: &str, half: Option<char>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = position::<b'\\'>(rest.as_bytes()).and_then(|place| rest.split_at_checked(place))
    {
        out.push_str(plain);
        let mut chars = escape.chars();
        chars.next();
        let escaped = chars.next()?;
        rest = chars.as_str();
        out.push(match escaped {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (first, after) = unit(rest)?;
                let second = after.strip_prefix("\\u").filter(|_| matches!(first, 0xd800..0xdc00)).and_then(unit);
                let units = iter::once(first).chain(second.map(|(second, _)| second));
                match char::decode_utf16(units).next()? {
                    Ok(char) => {
                        rest = second.map_or(after, |(_, after)| after);
                        char
                    }
                    Err(_) => {
                        rest = after;
                        half?
                    }
                }
            }
            '"' | '\\' | '/' => escaped,
            _ => return None,
        });
    }
    out.push_str(rest);
    Some(out)
}

/// JSON in which each half of a surrogate pair is U+FFFD, so that any parser reads it; borrowed if it has none.
///
/// A text that was cut in UTF-16 ends with such a half. JSON allows its escape sequence; most parsers do not.
///
/// ```
/// use mcp_proto::jsonrpc::without_lone_surrogates;
///
/// assert_eq!(without_lone_surrogates(r#"["a\ud83d","\ud83d\ude00"]"#), r#"["a\ufffd","\ud83d\ude00"]"#);
/// ```
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let (mut out, mut rest) = (String::new(), json);
    // What of `rest` was read and has none.
    let mut read = 0_usize;
    while let Some(before) = rest.get(read..).and_then(|unread| unread.find('\\')) {
        let escape = read.saturating_add(before);
        let behind = rest.as_bytes().get(escape.saturating_add(1)..).unwrap_or_default();
        let length = match surrogate(behind) {
            Some(Surrogate::Lone) => {
                out.push_str(rest.get(..escape).unwrap_or_default());
                out.push_str("\\ufffd");
                rest = rest.get(escape.saturating_add(Surrogate::LEN)..).unwrap_or_default();
                read = 0;
                continue;
            }
            Some(Surrogate::Pair) => Surrogate::LEN.saturating_mul(2),
            // The backslash and the character behind it.
            None => 2,
        };
        read = escape.saturating_add(length);
    }
    if out.is_empty() {
        return Cow::Borrowed(json);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A value as of [`without_lone_surrogates`].
#[cfg(feature = "host")]
pub(crate) fn readable(raw: &RawValue) -> Cow<'_, RawValue> {
    match without_lone_surrogates(raw.get()) {
        Cow::Borrowed(_) => Cow::Borrowed(raw),
        Cow::Owned(text) => Cow::Owned(Json::trusted(&text).to_raw()),
    }
}

/// An escape sequence that stands for half of a surrogate pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surrogate {
    /// The first half, with the second one behind it.
    Pair,
    Lone,
}

impl Surrogate {
    /// Bytes of one escape sequence.
    pub(super) const LEN: usize = 6;
}

/// What the bytes behind a backslash begin with, if that stands for half of a pair.
pub(super) fn surrogate(bytes: &[u8]) -> Option<Surrogate> {
    let half = |bytes: &[u8]| match bytes {
        [b'u', b'd' | b'D', digit, a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => match digit {
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(true),
            b'c'..=b'f' | b'C'..=b'F' => Some(false),
            _ => None,
        },
        _ => None,
    };
    let is_first = half(bytes)?;
    let second = bytes.get(Surrogate::LEN.saturating_sub(1)..).and_then(|rest| half(rest.strip_prefix(b"\\")?));
    Some(if is_first && second == Some(false) { Surrogate::Pair } else { Surrogate::Lone })
}

/// The four hexadecimal digits at the beginning of a text.
fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, after) = text.split_at_checked(4).filter(|(digits, _)| !digits.starts_with('+'))?;
    Some((u16::from_str_radix(digits, 16).ok()?, after))
}

/// The serialized form of texts that have to be JSON.
#[cfg(feature = "snapshot")]
pub(crate) mod form {
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer};

    use super::Json;

    type Pairs = Vec<(Box<str>, Box<str>)>;

    fn check<E: Error>(text: &str) -> Result<(), E> {
        Json::checked(text, usize::MAX).map(drop).ok_or_else(|| E::custom("a text is not JSON"))
    }

    pub(crate) fn json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
        let text = Box::deserialize(deserializer)?;
        check(&text).map(|()| text)
    }

    pub(crate) fn optional_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
        let text: Option<Box<str>> = Option::deserialize(deserializer)?;
        text.as_deref().map_or(Ok(()), check).map(|()| text)
    }

    /// Names, and values that are JSON.
    pub(crate) fn json_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        let pairs = Pairs::deserialize(deserializer)?;
        pairs.iter().try_for_each(|(_, value)| check(value)).map(|()| pairs)
    }

    /// Names and values, both JSON.
    pub(crate) fn json_members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        let pairs = json_values(deserializer)?;
        pairs.iter().try_for_each(|(name, _)| check(name)).map(|()| pairs)
    }
}

/// The first elements of an array.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    pub(crate) kept: Vec<Json<'a>>,
    /// Whether the array has further elements.
    pub(crate) more: bool,
}

impl<'a> Json<'a> {
    /// Wraps text if it is one JSON value, at most `depth` levels deep, without surrounding white space.
    pub(crate) fn checked(text: &'a str, depth: usize) -> Option<Self> {
        valid_value(text, depth).is_ok().then_some(Self::trusted(text))
    }

    /// Calls `each` with every member of an object, in order; does nothing if this is not an object.
    pub(crate) fn members(self, each: impl FnMut(&str, Json<'a>)) {
        self.scan().members(each);
    }

    /// Like `members`, with the names as written, including names that are not valid strings.
    pub(crate) fn raw_members(self, each: impl FnMut(Json<'a>, Json<'a>)) {
        self.scan().raw_members(each);
    }

    /// A scan that starts at this value.
    pub(crate) const fn scan(self) -> Scan<'a> {
        Scan::new(self.text())
    }

    /// The member with this name, which must not need escapes; the last one if it is repeated. `None` if this is not an
    /// object.
    pub(crate) fn member(self, name: &str) -> Option<Json<'a>> {
        self.scan().member(name)
    }

    /// The members with these names, as [`member`](Self::member) finds each, in one pass.
    pub(crate) fn pick<const N: usize>(self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        self.members(|name, value| {
            if let Some((_, slot)) = names.iter().zip(&mut found).find(|(known, _)| **known == name) {
                *slot = Some(value);
            }
        });
        found
    }

    /// Calls `each` with every element of an array, in order; does nothing if this is not an array.
    pub(crate) fn each_element(self, mut each: impl FnMut(Json<'a>)) {
        self.scan().each_element(|scan| scan.value().map(&mut each).is_some());
    }

    /// The first `limit` elements; `None` if this is not an array.
    pub(crate) fn elements(self, limit: usize) -> Option<Elements<'a>> {
        self.scan().elements(limit)
    }
}

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

    /// Takes these members of the text without reading them.
    pub(crate) fn with(self, spans: Spans) -> Self {
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
        let known = self.ahead.after_value(self.rest);
        let start = self.next_place();
        self.rest = known.unwrap_or_else(|| after_value(self.rest));
        self.since(start)
    }

    /// Passes the next value.
    fn skip(&mut self) {
        self.rest = self.ahead.after_value(self.rest).unwrap_or_else(|| after_value(skip_between(self.rest)));
    }

    /// The first byte of the next value, which is not taken.
    pub(crate) fn first(&self) -> u8 {
        skip_between(self.rest).first().copied().unwrap_or_default()
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
            if let (Some(name), Some(value)) = (scan.since(name), scan.value()) {
                each(name, value);
            }
        })
    }

    /// Like `members`, but passes the scan positioned at the member's value, which `each` may take.
    pub(crate) fn each_member(&mut self, mut each: impl FnMut(&str, &mut Self)) -> Option<Json<'a>> {
        self.each_raw_member(|name, escaped, scan| {
            if escaped {
                if let Some(name) = scan.since(name).and_then(Json::as_string) {
                    each(&name, scan);
                }
            } else if let Some(name) = scan.text.get(name.wrapping_add(1)..scan.place().wrapping_sub(1)) {
                each(name, scan);
            }
        })
    }

    /// Passes where a name begins, and whether it has escapes. The scan is at the name's end.
    #[inline]
    fn each_raw_member(&mut self, mut each: impl FnMut(usize, bool, &mut Self)) -> Option<Json<'a>> {
        let start = self.next_place();
        let [b'{', rest @ ..] = self.rest else { return self.value() };
        self.rest = rest;
        loop {
            let name = self.next_place();
            let [quote, rest @ ..] = self.rest else { return None };
            self.rest = rest;
            if *quote != b'"' {
                return self.since(start);
            }
            let mut escaped = false;
            self.rest = self.ahead.after_name(rest).unwrap_or_else(|| {
                after_known_string(rest, |rest| {
                    escaped = true;
                    rest.get(1..)
                })
            });
            let name_end = self.place();
            each(name, escaped, self);
            if self.place() == name_end {
                self.skip();
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

    /// Takes the next value if it is an array: its first `limit` elements. Otherwise the scan stays where it is.
    pub(crate) fn elements(&mut self, limit: usize) -> Option<Elements<'a>> {
        if self.first() != b'[' {
            return None;
        }
        let mut kept = Vec::new();
        let (_, more) = self.each_element(|scan| {
            let room = kept.len() < limit;
            kept.extend(scan.value().filter(|_| room));
            room
        })?;
        Some(Elements { kept, more })
    }
}

/// Whether a member of this name may follow. The search for the pair of letters at the first capital, which is rare, takes
/// less than a scan of the members. A letter may also be written as an escape with `\u`.
fn may_repeat(rest: &[u8], name: &str) -> bool {
    let capital = name.bytes().skip(1).position(|byte| byte.is_ascii_uppercase());
    let rare = capital.and_then(|before| name.as_bytes().get(before..)?.first_chunk());
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

const fn after_scalar(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b't', b'r', b'u', b'e', rest @ ..]
        | [b'n', b'u', b'l', b'l', rest @ ..]
        | [b'f', b'a', b'l', b's', b'e', rest @ ..] => rest,
        _ => match after_digits(bytes) {
            [b'e' | b'E', b'+', rest @ ..] | [b'e' | b'E', rest @ ..] => after_digits(rest),
            rest => rest,
        },
    }
}

/// The bytes after digits, signs and points.
const fn after_digits(mut bytes: &[u8]) -> &[u8] {
    while let [b'-'..=b'9', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// Where the members of the objects at one depth of a message are, so that a scan takes them without a second reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<Span>);

/// A member whose name has no escapes.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The address of the name's first byte. A scan of the same bytes meets it again.
    name: usize,
    /// Bytes up to the end of the name, its closing quote included.
    name_len: usize,
    /// Bytes from there to the end of the value.
    value_len: usize,
}

/// Bytes of a message from which on members are recorded: shorter ones are scanned faster than memory is allocated.
pub(super) const LONG: usize = 4 << 10;

impl Spans {
    /// The depth of a list's items: envelope, result, list, item.
    const DEPTH: usize = 4;
    /// A message has no more members recorded than one in so many bytes, so that they take less memory than the message.
    const SHORTEST: usize = 48;
    /// For how many members there is room at first.
    const FIRST: usize = 64;
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

/// What the validation of a message does at the members of nested objects.
pub(super) trait Members {
    /// A member's name, which has no escapes, and what follows it. `room`: how many levels remain inside its object.
    fn name(&mut self, name: &[u8], after: &[u8], room: usize);

    /// A value ended before `after`. `room`: how many levels remain inside what it is in.
    fn value(&mut self, after: &[u8], room: usize);

    /// How many members were recorded.
    fn len(&self) -> usize;

    /// Forgets the members after the first `len`.
    fn truncate(&mut self, len: usize);

    /// A string has half of a surrogate pair.
    fn lone_surrogate(&mut self);
}

/// Records no members.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    /// Whether a string has half of a surrogate pair.
    pub(super) has_half: bool,
}

impl Members for Unrecorded {
    #[inline(always)]
    fn name(&mut self, _: &[u8], _: &[u8], _: usize) {}

    #[inline(always)]
    fn value(&mut self, _: &[u8], _: usize) {}

    fn len(&self) -> usize {
        0
    }

    fn truncate(&mut self, _: usize) {}

    fn lone_surrogate(&mut self) {
        self.has_half = true;
    }
}

/// Records spans.
#[derive(Debug)]
pub(super) struct SpanRecorder {
    /// The levels that remain inside an object whose members are recorded.
    room: usize,
    /// The maximum number of members.
    most: usize,
    /// The member whose value is validated.
    open: Option<Span>,
    found: Vec<Span>,
    /// Whether a string has half of a surrogate pair.
    pub(super) has_half: bool,
}

impl SpanRecorder {
    /// For a message of this length, which may nest `limit` levels deep, if its members are worth recording.
    pub(super) fn of(len: usize, limit: usize) -> Option<Self> {
        let room = if len < LONG { None } else { limit.checked_sub(Spans::DEPTH) };
        room.map(|room| Self { room, most: len / Spans::SHORTEST, open: None, found: Vec::new(), has_half: false })
    }

    pub(super) fn finish(self) -> Spans {
        Spans(self.found)
    }
}

impl Members for SpanRecorder {
    #[inline(always)]
    fn name(&mut self, name: &[u8], after: &[u8], room: usize) {
        if room == self.room {
            let name_len = name.len().wrapping_sub(after.len());
            self.open = Some(Span { name: address(name), name_len, value_len: 0 });
        }
    }

    #[inline(always)]
    fn value(&mut self, after: &[u8], room: usize) {
        if room == self.room
            && let Some(open) = self.open.take()
            && self.found.len() < self.most
        {
            let value_len = address(after).wrapping_sub(open.name).wrapping_sub(open.name_len);
            if self.found.is_empty() {
                self.found.reserve(Spans::FIRST);
            }
            self.found.push(Span { value_len, ..open });
        }
    }

    fn len(&self) -> usize {
        self.found.len()
    }

    fn truncate(&mut self, len: usize) {
        self.found.truncate(len);
        self.open = None;
    }

    fn lone_surrogate(&mut self) {
        self.has_half = true;
    }
}

/// The spans of a text, of which a scan has passed some.
#[derive(Debug)]
pub(super) struct Ahead {
    spans: Vec<Span>,
    next: usize,
}

impl Ahead {
    const NONE: Self = Self { spans: Vec::new(), next: 0 };

    pub(super) fn new(spans: Spans) -> Self {
        Self { spans: spans.0, next: 0 }
    }

    #[cfg(test)]
    pub(super) const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The bytes after the name that `bytes` begins with, if its member was recorded.
    #[inline]
    fn after_name<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let here = address(bytes);
        while let Some(span) = self.spans.get(self.next).filter(|span| span.name <= here) {
            self.next = self.next.saturating_add(1);
            if span.name == here {
                return bytes.get(span.name_len..);
            }
        }
        None
    }

    /// The bytes after the value of the last member, if `bytes` begins after its name.
    #[inline]
    fn after_value<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let span = self.spans.get(self.next.checked_sub(1)?)?;
        let is_next = span.name.wrapping_add(span.name_len) == address(bytes);
        if is_next { bytes.get(span.value_len..) } else { None }
    }
}

/// The bytes after a string's closing quote; `bytes` starts after the opening quote. `None` if the string does not end,
/// or contains a control character or an escape that `escape` rejects. `escape` takes the bytes after a backslash, and
/// returns the bytes after the escape.
#[inline(always)]
pub(super) fn after_string<'a>(
    mut bytes: &'a [u8],
    mut escape: impl FnMut(&'a [u8]) -> Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    loop {
        let (byte, rest) = after_plain(bytes)?;
        bytes = match byte {
            b'"' => return Some(rest),
            b'\\' => escape(rest)?,
            _ => return None,
        };
    }
}

/// The first quote, backslash or control character, and the bytes after it.
///
/// These bytes end a run of plain characters in a JSON string, and must be escaped in one.
#[inline(always)]
pub(super) fn after_plain(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    // Most strings are short.
    for _ in 0..2 {
        let Some((word, rest)) = bytes.split_first_chunk() else { break };
        let hits = hits(*word);
        if hits != 0 {
            return first_hit(bytes, hits);
        }
        bytes = rest;
    }
    while let Some((block, rest)) = bytes.split_first_chunk() {
        if has_special(block) {
            break;
        }
        bytes = rest;
    }
    while let Some((word, rest)) = bytes.split_first_chunk() {
        let hits = hits(*word);
        if hits != 0 {
            return first_hit(bytes, hits);
        }
        bytes = rest;
    }
    after_plain_in_less(bytes)
}

/// The byte at the first hit in the first word, and the bytes after it.
#[inline(always)]
fn first_hit(bytes: &[u8], hits: u64) -> Option<(u8, &[u8])> {
    let before = hits.trailing_zeros() as usize / 8;
    bytes.get(before..)?.split_first().map(|(byte, rest)| (*byte, rest))
}

/// The loop has no exit, so that the compiler vectorizes it.
#[inline(always)]
fn has_special(block: &[u8; 16]) -> bool {
    block.iter().fold(false, |found, byte| found | is_special(*byte))
}

/// Swaps the quote with the space, so that it follows the control characters.
const fn is_special(byte: u8) -> bool {
    (byte ^ (b'"' ^ b' ') <= b' ') | (byte == b'\\')
}

#[inline(never)]
fn after_plain_in_less(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let (byte, rest) = bytes.split_first()?;
        if is_special(*byte) {
            return Some((*byte, rest));
        }
        bytes = rest;
    }
}

/// Whether the bytes contain no quote, backslash or control character.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    match bytes.last_chunk() {
        // The last word may overlap the one before it.
        Some(last) => bytes.as_chunks().0.iter().all(|word| hits(*word) == 0) && hits(*last) == 0,
        None => !bytes.iter().any(|byte| is_special(*byte)),
    }
}

/// The position of the first byte of this value. Blocks without one are skipped in a way that compiles to vector instructions,
/// then whole words.
pub(crate) fn position<const BYTE: u8>(bytes: &[u8]) -> Option<usize> {
    let in_block = |block: &[u8; 64]| block.iter().fold(false, |found, byte| found | (*byte == BYTE));
    let blocks = bytes.as_chunks().0.iter().take_while(|block| !in_block(block)).count();
    let (_, mut rest) = bytes.split_at_checked(blocks.saturating_mul(64))?;
    while let Some((word, after)) = rest.split_first_chunk() {
        let others = u64::from_le_bytes(*word) ^ u64::from_le_bytes([BYTE; 8]);
        // Sets the highest bit of each such byte. Higher bytes may be set as well.
        let hits = others.wrapping_sub(u64::from_le_bytes([1; 8])) & !others & u64::from_le_bytes([1 << 7; 8]);
        if hits != 0 {
            let place = hits.trailing_zeros() as usize / 8;
            return Some(bytes.len().saturating_sub(rest.len()).saturating_add(place));
        }
        rest = after;
    }
    let place = rest.iter().position(|byte| *byte == BYTE)?;
    Some(bytes.len().saturating_sub(rest.len()).saturating_add(place))
}

/// Whether the bytes contain a backslash.
fn has_backslash(bytes: &[u8]) -> bool {
    let in_word = |word: &[u8; 8]| {
        let others = u64::from_le_bytes(*word) ^ every(b'\\');
        others.wrapping_sub(every(1)) & !others & every(1 << 7) != 0
    };
    match bytes.last_chunk() {
        // The last word may overlap the one before it.
        Some(last) => bytes.as_chunks().0.iter().any(in_word) || in_word(last),
        None => bytes.contains(&b'\\'),
    }
}

/// Whether text contains one of two pairs of bytes.
pub(crate) fn has_either_pair(mut bytes: &[u8], one: [u8; 2], other: [u8; 2]) -> bool {
    let is_it = |pair: [u8; 2]| (pair == one) | (pair == other);
    // The loop over a block has no exit, so that the compiler vectorizes it. The last byte of a block is the first of the
    // next one.
    let in_block = |block: &[u8; 33]| {
        let pairs = block.iter().zip(block.iter().skip(1));
        pairs.fold(0, |found, (first, second)| found | u8::from(is_it([*first, *second]))) != 0
    };
    let Some(last) = bytes.last_chunk() else {
        return bytes.windows(2).any(|pair| <[u8; 2]>::try_from(pair).is_ok_and(is_it));
    };
    while let Some(block) = bytes.first_chunk() {
        if in_block(block) {
            return true;
        }
        bytes = bytes.get(32..).unwrap_or_default();
    }
    in_block(last)
}

/// Whether text contains one of two bytes.
pub(crate) fn has_either(bytes: &[u8], one: u8, other: u8) -> bool {
    match bytes.last_chunk() {
        // The last block may overlap the one before it.
        Some(last) => {
            bytes.as_chunks().0.iter().any(|block| block_has_either(block, one, other))
                || block_has_either(last, one, other)
        }
        None => bytes.iter().any(|byte| *byte == one || *byte == other),
    }
}

/// A loop has no exit and one comparison, so that the compiler vectorizes it well.
#[inline(always)]
fn block_has_either(block: &[u8; 32], one: u8, other: u8) -> bool {
    let has = |it| block.iter().fold(false, |found, byte| found | (*byte == it));
    has(one) | has(other)
}

/// Sets the highest bit of each byte that is a quote, a backslash or a control character. Bytes after the first such
/// byte may be set as well.
#[inline(always)]
const fn hits(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    // Swaps the quote with the space, so that it follows the control characters.
    let low = (word ^ every(b'"' ^ b' ')).wrapping_sub(every(b' ' + 1));
    let backslash = (word ^ every(b'\\')).wrapping_sub(every(1));
    // The subtraction sets the highest bit of each byte that is less than the subtrahend, unless the bit was set
    // before. Its borrow may set the bit of higher bytes too.
    (low | backslash) & !word & every(1 << 7)
}

const fn every(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Wraps text that is known to be JSON in a `RawValue` without parsing it again.
fn known(text: &str) -> &RawValue {
    // If a later `serde_json` deserializes `RawValue` differently, this is slower but still correct.
    asked(text).unwrap_or_else(|| serde_json::from_str(text).unwrap_or(RawValue::NULL))
}

fn asked(text: &str) -> Option<&RawValue> {
    Deserialize::deserialize(Known(BorrowedStrDeserializer::new(text))).ok()
}

/// As [`known`], in the memory of the text.
fn known_owned(text: String) -> Box<RawValue> {
    let value = if asked("null").is_some() {
        Deserialize::deserialize(Known(text.into_deserializer())).ok()
    } else {
        RawValue::from_string(text).ok()
    };
    value.unwrap_or_else(|| RawValue::NULL.to_owned())
}

/// A part of a message, which is known to be JSON, in the memory of the message.
pub(crate) fn part_of(mut message: Vec<u8>, part: Range<usize>) -> Box<RawValue> {
    message.truncate(part.end);
    message.drain(..part.start.min(message.len()));
    String::from_utf8(message).map_or_else(|_| RawValue::NULL.to_owned(), Json::into_raw)
}

/// `RawValue` asks its deserializer for a struct with a certain name, and takes the text of the struct's only member,
/// which has the same name.
struct Known<T>(T);

impl<'de, T> Deserializer<'de> for Known<T>
where
    T: Deserializer<'de, Error = Error> + IntoDeserializer<'de, Error>,
{
    type Error = Error;

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(iter::once((name, self.0))))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn members(text: &str) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        Json::trusted(text).members(|name, value| found.push((name.to_owned(), value.text())));
        found
    }

    #[test]
    fn an_exponent_may_be_out_of_range() {
        let read = |text| Decimal::read(text).map(|it| (it.whole, it.has_fraction));
        assert_eq!(read("1e99999999999"), Some((None, false)));
        assert_eq!(read("1e-99999999999"), Some((Some(0), true)));
    }

    #[test]
    fn an_integer_may_be_written_with_a_zero_fraction_or_an_exponent() {
        for (text, integer) in [
            ("2000", Some(2000)),
            ("-7", Some(-7)),
            ("2000.0", Some(2000)),
            ("2e3", Some(2000)),
            ("-2.5E+1", Some(-25)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("1200e-2", Some(12)),
            ("0e99999999999999999999", Some(0)),
            ("-0.0", Some(0)),
            ("1.5", None),
            ("1e-3", None),
            ("1.", None),
            (".5", None),
            ("1201e-2", None),
            ("1e-99999999999999999999", None),
            ("2.00000000000000000000001", None),
            ("-9223372036854775809", None),
            ("9223372036854775808", None),
            ("1e400", None),
            ("\"7\"", None),
            ("null", None),
            ("[]", None),
        ] {
            assert_eq!(Json::trusted(text).as_integer(), integer, "{text}");
        }
        // A string without its quotes may be what the parser of floats takes.
        for text in ["inf", "NaN", "-infinity", ""] {
            assert_eq!(Json::trusted(text).as_integer(), None, "{text}");
        }
    }

    #[test]
    fn escape_sequences_stand_for_their_characters() {
        for text in [
            r#""\"\\\/\b\f\n\r\t é""#,
            r#""a\u0041\u00e9\u4E16b\u0000""#,
            r#""\ud83d\ude00 \uD83D\uDE00\n""#,
            r#""\ud83d""#,
            r#""\ud83dx""#,
            r#""\ud83d\n""#,
            r#""\ud83d\u0041""#,
            r#""\ude00""#,
            r#""\ud83d\ud83d\ude00""#,
        ] {
            let expected = serde_json::from_str::<String>(text).ok();
            assert_eq!(Json::trusted(text).as_string().map(Cow::into_owned), expected, "{text}");
        }
        // Text that is not JSON is processed.
        for text in [r#""\""#, r#""\u12""#, r#""\uzzzz""#, r#""\ud83d\u""#, r#""\uaé""#] {
            Json::trusted(text).as_string();
        }
    }

    #[test]
    fn members_are_found_with_any_separators() {
        let text = "{ \"a\" : 1 ,\n\"b\\u0063\":{\"x\":[\"]}\",\"\\\\\"]} , \"d\":\"\\\"\",\"e\":-1.5e3,\"f\":null}";
        let expected = [("a", "1"), ("bc", r#"{"x":["]}","\\"]}"#), ("d", r#""\"""#), ("e", "-1.5e3"), ("f", "null")];
        assert_eq!(members(text), expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(members("[1]").is_empty());
        assert!(members("{}").is_empty());
    }

    #[test]
    fn the_last_of_the_members_with_one_name_is_found() {
        let text = r#"{"a":1, "ab":2,"\u0061":[3,"a"],"b" : "x" ,"a\ud800":4,"c":{"a":5},"\"":null}"#;
        let member = |name| Json::trusted(text).member(name).map(Json::text);
        for (name, value) in [("a", "[3,\"a\"]"), ("ab", "2"), ("b", "\"x\""), ("c", r#"{"a":5}"#)] {
            assert_eq!(member(name), Some(value), "{name}");
        }
        for name in ["", "aa", "d", "a\u{fffd}"] {
            assert_eq!(member(name), None, "{name}");
        }
        assert_eq!(Json::trusted(r#"["a",1]"#).member("a").map(Json::text), None);
        assert_eq!(Json::trusted("{}").member("a").map(Json::text), None);
    }

    #[test]
    fn the_last_of_the_members_with_a_capital_in_their_name_is_found() {
        for (rest, last) in [
            ("", "1"),
            (r#","other":{"text":"a member like progressToken, which is none, and \n"}"#, "1"),
            (r#","other":{"progressToken":2}"#, "1"),
            (r#","progressToken":2"#, "2"),
            (r#","progress\u0054oken":2"#, "2"),
            (r#","\u0070\u0072\u006f\u0067\u0072\u0065\u0073\u0073\u0054\u006f\u006b\u0065\u006e":2"#, "2"),
            (r#","other":"\u0074","progressToken":2,"progressToken":3,"after":4"#, "3"),
        ] {
            for before in ["", r#""other":{"progressToken":0},"#, r#""progressToken":0,"#] {
                for around in ["", "some text that is longer than one block of 32 bytes"] {
                    let text = format!("{{{before}\"progressToken\":1,\"text\":\"{around}\"{rest}}}");
                    let found = Json::trusted(&text).member("progressToken").map(Json::text);
                    assert_eq!(found, Some(last), "{text}");
                }
            }
        }
    }

    #[test]
    fn elements_stop_at_the_limit_and_say_so() {
        let all = Json::trusted(r#"[1, "a,]", [2, [3]], {"b": 4}]"#).elements(9).unwrap();
        assert_eq!(
            all.kept.iter().map(|element| element.text()).collect::<Vec<_>>(),
            ["1", "\"a,]\"", "[2, [3]]", "{\"b\": 4}"]
        );
        assert!(!all.more);
        assert!(Json::trusted("[1,2,3]").elements(2).unwrap().more);
        assert!(!Json::trusted("[1,2]").elements(2).unwrap().more);
        assert!(Json::trusted("{}").elements(1).is_none());
    }

    #[test]
    fn text_that_is_not_json_is_processed() {
        for text in ["{\"a", "{\"a\"", "{\"a\":", "{\"a\\", "[[[", "{{{", "[\"", "{:,:", "{]", "[}", "", "{\"a\":[\"\\"]
        {
            members(text);
            Json::trusted(text).elements(5);
        }
    }

    #[test]
    fn each_byte_is_found_at_any_position_in_any_text() {
        for byte in 0..=u8::MAX {
            let special = matches!(byte, b'"' | b'\\' | 0..=0x1f);
            for around in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                for len in (1..20).chain([47, 48, 49, 64, 90]) {
                    for place in 0..len {
                        let mut bytes = alloc::vec![around; len];
                        bytes[place] = byte;
                        let expected = special.then(|| (byte, &bytes[place + 1..]));
                        assert_eq!(after_plain(&bytes), expected, "{bytes:x?}");
                        assert_eq!(is_plain(&bytes), !special, "{bytes:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn backslashes_are_found_wherever_they_stand() {
        for len in (0..30).chain(31..75) {
            for around in [b'a', b'[', b']', b'\\' ^ 0x80, 0, 0xff] {
                let mut bytes = alloc::vec![around; len];
                assert!(!has_backslash(&bytes) && !has_either(&bytes, b'\\', b'-'), "{bytes:x?}");
                for place in 0..len {
                    bytes[place] = b'\\';
                    assert!(has_backslash(&bytes), "{bytes:x?}");
                    assert!(has_either(&bytes, b'\\', b'-') && has_either(&bytes, b'-', b'\\'), "{bytes:x?}");
                    bytes[place] = around;
                }
            }
        }
    }

    #[test]
    fn pairs_are_found_wherever_they_stand() {
        for len in (0..40).chain(60..70).chain([95, 96, 97, 98, 129, 130]) {
            for around in [b'T', b's', b'u', b'\\', 0xff] {
                let mut bytes = alloc::vec![around; len];
                assert!(!has_either_pair(&bytes, *b"sT", *b"\\u"), "{bytes:x?}");
                for place in 0..len.saturating_sub(1) {
                    for pair in [*b"sT", *b"\\u"] {
                        bytes[place..place + 2].copy_from_slice(&pair);
                        assert!(has_either_pair(&bytes, *b"sT", *b"\\u"), "{bytes:x?}");
                        bytes[place..place + 2].fill(around);
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_and_pairs_are_found_however_many_there_are() {
        for count in 1..80 {
            let bytes = b"sT".repeat(count);
            assert!(has_either_pair(&bytes, *b"sT", *b"\\u") && has_either(&bytes, b's', b'x'), "{count}");
            assert!(has_either(&bytes, b's', b'T'), "{count}");
            let special = [&[b'a'; 16], &*b"\"\\\n".repeat(count)].concat();
            assert_eq!(after_plain(&special), Some((b'"', &special[17..])), "{count}");
            let bytes = b"\\u".repeat(count);
            assert!(has_either_pair(&bytes, *b"sT", *b"\\u") && has_either(&bytes, b'x', b'u'), "{count}");
            assert!(has_backslash(&bytes) && !is_plain(&bytes), "{count}");
        }
    }

    #[test]
    fn the_first_of_many_counts() {
        for (text, expected) in [
            ("ab\"\\\n\"", Some((b'"', "\\\n\""))),
            ("\\\n\"", Some((b'\\', "\n\""))),
            ("abcdefghi\n\"\\", Some((b'\n', "\"\\"))),
            ("ab", None),
            ("", None),
        ] {
            assert_eq!(after_plain(text.as_bytes()), expected.map(|(byte, rest)| (byte, rest.as_bytes())), "{text:?}");
        }
    }

    #[test]
    fn the_text_is_taken_as_it_is() {
        for text in ["null", r#"{ "a": [1.50, "\u00e9"] }"#, "\"é\""] {
            let raw = asked(text).expect("the short way");
            assert!(core::ptr::eq(raw.get(), text));
            assert_eq!(raw.get(), serde_json::from_str::<&RawValue>(text).unwrap().get());
            assert!(core::ptr::eq(known(text), raw));
            let line = format!(r#"{{"id":1,"result":{text}}}"#);
            let (place, end) = (line.as_ptr(), line.len() - 1);
            let part = part_of(line.into_bytes(), end - text.len()..end);
            // The memory is that of the message, unless the allocator moves what shrinks.
            assert_eq!((part.get(), part.get().as_ptr() == place || cfg!(miri)), (text, true));
        }
    }
}
