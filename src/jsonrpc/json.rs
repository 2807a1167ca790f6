use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

/// A JSON value as it was written, known to be valid: it was parsed before, as part of a message.
///
/// That is why looking into it can be quick. Of text that is not valid it would say something, not fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<'a>(&'a str);

/// The elements of an array, as many as were wanted.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    pub(crate) kept: Vec<Json<'a>>,
    /// Whether there are more.
    pub(crate) more: bool,
}

impl<'a> Json<'a> {
    pub(crate) const EMPTY_ARRAY: Self = Self("[]");

    /// Text that is known to be one JSON value, without white space around it.
    pub(crate) const fn trusted(text: &'a str) -> Self {
        Self(text)
    }

    pub(crate) const fn text(self) -> &'a str {
        self.0
    }

    pub(crate) fn first(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or_default()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub(crate) fn is_object(self) -> bool {
        self.first() == b'{'
    }

    /// The string that this is, borrowed where it has no escapes.
    pub(crate) fn as_string(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if inner.as_bytes().contains(&b'\\') {
            return serde_json::from_str::<String>(self.0).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(inner))
    }

    pub(crate) fn raw(self) -> &'a RawValue {
        serde_json::from_str(self.0).unwrap_or(RawValue::NULL)
    }

    pub(crate) fn to_raw(self) -> Box<RawValue> {
        self.raw().to_owned()
    }

    /// Calls `each` with every member of an object, in the object's order; with none where this is no object.
    pub(crate) fn members(self, each: impl FnMut(&str, Json<'a>)) {
        Scan { text: self.0, at: 0 }.members(each);
    }

    /// As `members`, with the names as they were written, those that are no text among them.
    pub(crate) fn raw_members(self, each: impl FnMut(Json<'a>, Json<'a>)) {
        Scan { text: self.0, at: 0 }.raw_members(each);
    }

    /// The member of this name, where this is an object that has it.
    pub(crate) fn member(self, name: &str) -> Option<Json<'a>> {
        let mut found = None;
        self.members(|member, value| {
            if member == name {
                found = Some(value);
            }
        });
        found
    }

    /// The first `limit` elements; nothing where this is no array.
    pub(crate) fn elements(self, limit: usize) -> Option<Elements<'a>> {
        let mut kept = Vec::new();
        let more = self.each_element(|scan| {
            let room = kept.len() < limit;
            kept.extend(scan.value().filter(|_| room));
            room
        })?;
        Some(Elements { kept, more })
    }

    /// Calls `each` before every element, which it takes from the scan, until it says that it has enough; tells
    /// whether it said so. Nothing where this is no array.
    pub(crate) fn each_element(self, mut each: impl FnMut(&mut Scan<'a>) -> bool) -> Option<bool> {
        let mut scan = Scan { text: self.0, at: 0 };
        if self.first() != b'[' {
            return None;
        }
        scan.at = 1;
        while scan.has_value() {
            let before = scan.at;
            if !each(&mut scan) || scan.at == before {
                return Some(true);
            }
        }
        Some(false)
    }
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
    }
}

/// A place in a text.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes).min(self.text.len());
    }

    /// Goes to the next value of an object or an array, names and values alike; false where its end comes first.
    fn has_value(&mut self) -> bool {
        while let Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') = self.peek() {
            self.step(1);
        }
        !matches!(self.peek(), None | Some(b'}' | b']'))
    }

    /// Takes the next value.
    pub(crate) fn value(&mut self) -> Option<Json<'a>> {
        if !self.has_value() {
            return None;
        }
        let start = self.at;
        match self.peek()? {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_until(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')),
        }
        self.text.get(start..self.at).map(Json)
    }

    /// Takes the next value. Where it is an object, `each` is called with every member of it on the way.
    pub(crate) fn members(&mut self, mut each: impl FnMut(&str, Json<'a>)) -> Option<Json<'a>> {
        self.raw_members(|name, value| {
            if let Some(name) = name.as_string() {
                each(&name, value);
            }
        })
    }

    fn raw_members(&mut self, mut each: impl FnMut(Json<'a>, Json<'a>)) -> Option<Json<'a>> {
        if !self.has_value() || self.peek() != Some(b'{') {
            return self.value();
        }
        let start = self.at;
        self.step(1);
        while self.has_value() {
            let (Some(name), Some(value)) = (self.value(), self.value()) else { break };
            each(name, value);
        }
        self.step(1);
        self.text.get(start..self.at).map(Json)
    }

    fn skip_until(&mut self, stop: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.step(rest.iter().position(|byte| stop(*byte)).unwrap_or(rest.len()));
    }

    /// Skips a string, whose quote is the next byte.
    fn skip_string(&mut self) {
        self.step(1);
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let (words, _) = rest.as_chunks::<8>();
            let found = words.iter().enumerate().find_map(|(index, word)| {
                let hits = quotes_and_backslashes(u64::from_le_bytes(*word));
                (hits != 0).then(|| index.saturating_mul(8).saturating_add(hits.trailing_zeros() as usize / 8))
            });
            match found {
                Some(skipped) => self.step(skipped),
                None => {
                    self.step(words.len().saturating_mul(8));
                    self.skip_until(|byte| matches!(byte, b'"' | b'\\'));
                }
            }
            let escape = self.peek() == Some(b'\\');
            self.step(if escape { 2 } else { 1 });
            if !escape {
                return;
            }
        }
    }

    /// Skips an object or an array, whose bracket is the next byte.
    fn skip_nested(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.step(1);
            if depth == 0 {
                return;
            }
        }
    }
}

/// Sets the highest bit of each byte that is a quote or a backslash. Of the bytes set, the lowest is one for sure.
const fn quotes_and_backslashes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let quotes = word ^ u64::from_le_bytes([b'"'; 8]);
    let backslashes = word ^ u64::from_le_bytes([b'\\'; 8]);
    let zeros = (quotes.wrapping_sub(ONES) & !quotes) | (backslashes.wrapping_sub(ONES) & !backslashes);
    zeros & (ONES << 7)
}

/// Whether brackets outside strings nest deeper than `limit`, in any text. Where there are too few brackets for
/// that, which one quick count tells, nothing is looked at twice.
pub(super) fn too_deep(text: &str, limit: usize) -> bool {
    let openings = text.as_bytes().chunks(128).map(|chunk| {
        let count = chunk.iter().map(|byte| u8::from(matches!(byte, b'[' | b'{'))).sum::<u8>();
        usize::from(count)
    });
    if openings.sum::<usize>() <= limit {
        return false;
    }
    let mut scan = Scan { text, at: 0 };
    let mut depth = 0_usize;
    loop {
        scan.skip_until(|byte| matches!(byte, b'"' | b'[' | b'{' | b']' | b'}'));
        match scan.peek() {
            None => return false,
            Some(b'"') => {
                scan.skip_string();
                continue;
            }
            Some(b'[' | b'{') => depth = depth.saturating_add(1),
            Some(_) => depth = depth.saturating_sub(1),
        }
        if depth > limit {
            return true;
        }
        scan.step(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        Json::trusted(text).members(|name, value| found.push((name.to_owned(), value.text())));
        found
    }

    #[test]
    fn members_are_found_whatever_stands_between_them() {
        let text = "{ \"a\" : 1 ,\n\"b\\u0063\":{\"x\":[\"]}\",\"\\\\\"]} , \"d\":\"\\\"\",\"e\":-1.5e3,\"f\":null}";
        let expected = [("a", "1"), ("bc", r#"{"x":["]}","\\"]}"#), ("d", r#""\"""#), ("e", "-1.5e3"), ("f", "null")];
        assert_eq!(members(text), expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(members("[1]").is_empty());
        assert!(members("{}").is_empty());
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
    fn text_that_is_no_json_is_gone_through_all_the_same() {
        for text in ["{\"a", "{\"a\"", "{\"a\":", "{\"a\\", "[[[", "{{{", "[\"", "{:,:", "{]", "[}", "", "{\"a\":[\"\\"]
        {
            members(text);
            Json::trusted(text).elements(5);
            too_deep(text, 0);
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
