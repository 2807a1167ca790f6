use core::iter;
use serde::de::value::{BorrowedStrDeserializer, Error, MapDeserializer};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// Wraps text that is known to be JSON in a `RawValue` without parsing it again.
pub(super) fn known(text: &str) -> &RawValue {
    // If a later `serde_json` deserializes `RawValue` differently, this is slower but still correct.
    asked(text).unwrap_or_else(|| serde_json::from_str(text).unwrap_or(RawValue::NULL))
}

fn asked(text: &str) -> Option<&RawValue> {
    Deserialize::deserialize(Known(text)).ok()
}

/// `RawValue` asks its deserializer for a struct with a certain name, and takes the text of the struct's only member,
/// which has the same name.
struct Known<'de>(&'de str);

impl<'de> Deserializer<'de> for Known<'de> {
    type Error = Error;

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(iter::once((name, BorrowedStrDeserializer::new(self.0)))))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_taken_as_it_is() {
        for text in ["null", r#"{ "a": [1.50, "\u00e9"] }"#, "\"é\""] {
            let raw = asked(text).expect("the short way");
            assert!(core::ptr::eq(raw.get(), text));
            assert_eq!(raw.get(), serde_json::from_str::<&RawValue>(text).unwrap().get());
            assert!(core::ptr::eq(known(text), raw));
        }
    }
}
