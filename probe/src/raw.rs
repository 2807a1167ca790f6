//! Raw JSON, forwarded as received.

use std::fmt;

use mcp_proto::jsonrpc::without_lone_surrogates;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};

/// An object's members in order, each value as written.
#[derive(Default)]
pub(crate) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The members of an object; empty if the text is not an object.
    pub(crate) fn of(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    /// The last member with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    pub(crate) fn string(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|value| serde_json::from_str(&without_lone_surrogates(value.get())).ok())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The elements of an array; empty if the text is not an array.
pub(crate) fn elements(raw: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// A JSON object, or an error message.
pub(crate) fn object(text: &str) -> Result<Box<RawValue>, String> {
    let raw: Box<RawValue> = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    if raw.get().starts_with('{') { Ok(raw) } else { Err("must be an object".into()) }
}

/// Serializes a value to raw JSON.
pub(crate) fn of(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
