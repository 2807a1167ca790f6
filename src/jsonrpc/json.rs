use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use serde_json::value::RawValue;

use super::plain::{has_backslash, has_either};

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

    /// Whether the text contains one of these bytes.
    pub(crate) fn has_either(self, one: u8, other: u8) -> bool {
        has_either(self.0.as_bytes(), one, other)
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
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
    }
}
