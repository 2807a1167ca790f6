use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Calls `each` with every member of an object, in the object's order; false where the text is no object.
pub fn for_each_member<'a>(text: &'a str, each: impl FnMut(&str, &'a RawValue)) -> bool {
    struct Members<F>(F);
    impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<Name<'de>>()? {
                (self.0)(&name.0, map.next_value()?);
            }
            Ok(())
        }
    }
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

    serde_json::Deserializer::from_str(text).deserialize_map(Members(each)).is_ok()
}

/// The member of this name, where the text is an object that has it.
pub fn member<'a>(text: &'a str, name: &str) -> Option<&'a RawValue> {
    let mut found = None;
    for_each_member(text, |member, value| {
        if member == name {
            found = Some(value);
        }
    });
    found
}

/// The string that a raw value is, borrowed where it has no escapes.
pub fn as_string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The elements of an array, as many as were wanted.
#[derive(Debug)]
pub struct Elements<'a> {
    /// The first of them.
    pub kept: Vec<&'a RawValue>,
    /// Whether there are more.
    pub more: bool,
}

/// The first `limit` elements of an array; nothing where the text is no array.
pub fn elements(text: &str, limit: usize) -> Option<Elements<'_>> {
    struct ElementsVisitor(usize);
    impl<'de> Visitor<'de> for ElementsVisitor {
        type Value = Elements<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut elements = Elements { kept: Vec::new(), more: false };
            while elements.kept.len() < self.0 {
                match seq.next_element()? {
                    Some(element) => elements.kept.push(element),
                    None => return Ok(elements),
                }
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {
                elements.more = true;
            }
            Ok(elements)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let elements = deserializer.deserialize_seq(ElementsVisitor(limit)).ok()?;
    deserializer.end().ok()?;
    Some(elements)
}
