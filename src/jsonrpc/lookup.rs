//! Finds values in JSON as written.

use alloc::vec::Vec;

use super::{Json, Scan, validate};

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
        validate::value(text, depth).is_ok().then_some(Self::trusted(text))
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

    /// Calls `each` with every element of an array, in order; does nothing if this is not an array.
    pub(crate) fn each_element(self, mut each: impl FnMut(Json<'a>)) {
        self.scan().each_element(|scan| scan.value().map(&mut each).is_some());
    }

    /// The first `limit` elements; `None` if this is not an array.
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

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn members(text: &str) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        Json::trusted(text).members(|name, value| found.push((name.to_owned(), value.text())));
        found
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
}
