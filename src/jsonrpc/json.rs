use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::Scan;
use super::plain::has_backslash;

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

    /// Text that is one JSON value, at most `depth` levels deep, without white space around it.
    pub(crate) fn checked(text: &'a str, depth: usize) -> Option<Self> {
        super::validate::value(text, depth).is_ok().then_some(Self(text))
    }

    pub(crate) const fn text(self) -> &'a str {
        self.0
    }

    pub(crate) fn first(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or_default()
    }

    /// Whether something in it is written with an escape.
    pub(crate) fn has_backslash(self) -> bool {
        has_backslash(self.0.as_bytes())
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
        if has_backslash(inner.as_bytes()) {
            return serde_json::from_str::<String>(self.0).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(inner))
    }

    pub(crate) fn raw(self) -> &'a RawValue {
        super::raw::known(self.0)
    }

    pub(crate) fn to_raw(self) -> Box<RawValue> {
        self.raw().to_owned()
    }

    /// Calls `each` with every member of an object, in the object's order; with none where this is no object.
    pub(crate) fn members(self, each: impl FnMut(&str, Json<'a>)) {
        self.scan().members(each);
    }

    /// As `members`, with the names as they were written, those that are no text among them.
    pub(crate) fn raw_members(self, each: impl FnMut(Json<'a>, Json<'a>)) {
        self.scan().raw_members(each);
    }

    /// The place before this.
    pub(crate) const fn scan(self) -> Scan<'a> {
        Scan::new(self.0)
    }

    /// The member of this name, in which nothing has to be escaped, where this is an object that has it; the last one.
    pub(crate) fn member(self, name: &str) -> Option<Json<'a>> {
        self.scan().member(name)
    }

    /// The first `limit` elements; nothing where this is no array.
    pub(crate) fn elements(self, limit: usize) -> Option<Elements<'a>> {
        let mut kept = Vec::new();
        let (_, more) = self.scan().each_element(|scan| {
            let room = kept.len() < limit;
            kept.extend(scan.value().filter(|_| room));
            room
        })?;
        Some(Elements { kept, more })
    }
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
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
    fn of_members_of_one_name_the_last_is_found_however_the_name_is_written() {
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
        }
    }
}
