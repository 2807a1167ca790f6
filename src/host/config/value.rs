use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::text::cut;

/// Characters of a value in a message.
const LONGEST: usize = 40;

/// The name of a number's only member in `serde_json` with the feature `arbitrary_precision`.
const NUMBER: &str = "$serde_json::private::Number";

/// A configuration value in any format. Reading values before interpreting them makes an invalid value an error of its
/// server only.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number's text; `exact` if it is written this way, except for its base.
    Number {
        text: Box<str>,
        exact: bool,
    },
    Text(Box<str>),
    List(Vec<Value>),
    /// In the file's order, with duplicates.
    Map(Vec<(Box<str>, Value)>),
}

impl Value {
    /// The value's type, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number { .. } => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    fn whole(number: impl fmt::Display) -> Self {
        Self::Number { text: number.to_string().into(), exact: true }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number { text: value.to_string().into(), exact: false })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        // Most lists are smaller than a vector's initial capacity.
        list.shrink_to_fit();
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members: Vec<(Box<str>, Value)> = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        members.shrink_to_fit();
        if let [(name, Value::Text(number))] = &*members
            && **name == *NUMBER
        {
            return Ok(Value::Number { text: number.clone(), exact: true });
        }
        Ok(Value::Map(members))
    }
}

/// A member's name. YAML allows names that are not strings, such as `8080:` or `yes:`. They are requested as strings,
/// because only the format knows how they were written.
pub(super) struct Key(pub(super) Box<str>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_str(ValueVisitor)? {
            Value::Null => "null".into(),
            Value::Bool(value) => value.to_string().into(),
            Value::Number { text, .. } | Value::Text(text) => text,
            Value::List(_) | Value::Map(_) => "(no text)".into(),
        }))
    }
}

/// A value for a message, at most one line long.
pub(super) fn excerpt(text: &str) -> Box<str> {
    cut(&text.replace(char::is_control, " "), LONGEST).into()
}
