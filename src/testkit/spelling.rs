//! JSON in other bytes than this crate writes it.

use std::format;
use std::string::String;

/// How JSON is spelled: the same values in other bytes. Servers differ in it, and payloads reach a host as they were spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Spelling {
    /// Without white space.
    #[default]
    Compact,
    /// A line for each member and item, which ends with a line feed, and is indented.
    Indented,
    /// White space on both sides of each token: spaces, tabs, carriage returns and line feeds.
    Spaced,
    /// Indented, and the first letter of each string and of each name is an escape sequence.
    Escaped,
}

impl Spelling {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Compact, Self::Indented, Self::Spaced, Self::Escaped];

    /// Spells JSON that has no white space between its tokens in this way.
    ///
    /// ```
    /// use mcp_proto::testkit::Spelling;
    ///
    /// assert_eq!(Spelling::Indented.spell(r#"{"a":[1,2]}"#), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    /// assert_eq!(Spelling::Escaped.spell(r#"["text"]"#), "[\n  \"\\u0074ext\"\n]");
    /// ```
    pub fn spell(self, json: &str) -> String {
        if self == Self::Compact {
            return json.into();
        }
        let (mut text, mut depth) = (String::with_capacity(json.len()), 0_usize);
        let mut rest = json.chars();
        while let Some(token) = rest.next() {
            match token {
                '{' | '[' => {
                    depth = depth.saturating_add(1);
                    self.put(&mut text, token);
                    self.gap(&mut text, depth);
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    self.gap(&mut text, depth);
                    self.put(&mut text, token);
                }
                ',' => {
                    self.put(&mut text, token);
                    self.gap(&mut text, depth);
                }
                ':' => {
                    self.put(&mut text, token);
                    text.push(' ');
                }
                '"' => self.string(&mut text, &mut rest),
                _ => text.push(token),
            }
        }
        text
    }

    fn put(self, text: &mut String, token: char) {
        if self == Self::Spaced {
            text.push_str(" \t");
        }
        text.push(token);
    }

    fn gap(self, text: &mut String, depth: usize) {
        text.push_str(if self == Self::Spaced { "\r\n\t" } else { "\n" });
        text.extend(core::iter::repeat_n("  ", depth));
    }

    /// The rest of a string whose quotation mark was read.
    fn string(self, text: &mut String, rest: &mut core::str::Chars<'_>) {
        text.push('"');
        let mut is_first = true;
        while let Some(character) = rest.next() {
            if is_first && self == Self::Escaped && character.is_ascii_alphabetic() {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            } else {
                text.push(character);
            }
            is_first = false;
            match character {
                '"' => return,
                '\\' => text.extend(rest.next()),
                _ => {}
            }
        }
    }
}
