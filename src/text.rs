use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// Maximum length of an excerpt, in characters.
pub(crate) const EXCERPT: usize = 200;

/// The beginning of a text, at most [`EXCERPT`] characters.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    cut(text, EXCERPT)
}

/// The beginning of a text on one line, at most this many characters.
pub(crate) fn excerpt_line(text: &str, most: usize) -> Box<str> {
    cut(&one_line(text), most).into()
}

fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or(""))),
        None => Cow::Borrowed(text),
    }
}

/// A text on one line: white space and control characters between words become a space.
fn one_line(text: &str) -> String {
    let words = text.split(|it: char| it.is_whitespace() || it.is_control()).filter(|word| !word.is_empty());
    let mut out = String::with_capacity(text.len());
    for word in words {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_cut_at_a_character() {
        let text = "ä".repeat(EXCERPT);
        assert_eq!(excerpt(&text), text);
        assert_eq!(excerpt(&format!("{text}b")), format!("{text}…"));
    }

    #[test]
    fn a_text_becomes_one_line() {
        assert_eq!(one_line(" a\r\n\tb\u{7}\u{85}c  d\n"), "a b c d");
        assert_eq!(one_line("\n"), "");
    }
}
