use alloc::borrow::Cow;
use alloc::format;

/// Maximum length of an excerpt, in characters.
pub(crate) const EXCERPT: usize = 200;

/// The beginning of a text, at most [`EXCERPT`] characters.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    cut(text, EXCERPT)
}

/// The beginning of a text, at most this many characters.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or(""))),
        None => Cow::Borrowed(text),
    }
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
}
