use alloc::borrow::Cow;
use alloc::format;

/// Maximum length of an excerpt, in characters.
pub(crate) const EXCERPT: usize = 200;

/// The beginning of a text, at most [`EXCERPT`] characters.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or(""))),
        None => Cow::Borrowed(text),
    }
}
