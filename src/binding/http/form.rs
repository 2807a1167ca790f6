//! The serialized form of values that are saved (feature `snapshot`).

use serde::{Deserialize, Serialize};

use super::address::Address;

pub(super) mod header {
    //! A header's value that is a secret.

    use http::HeaderValue;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::form::Bytes;

    pub(in super::super) fn serialize<S: Serializer>(value: &HeaderValue, serializer: S) -> Result<S::Ok, S::Error> {
        Bytes(value.as_bytes().to_vec()).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderValue, D::Error> {
        let mut value = HeaderValue::from_bytes(&Bytes::deserialize(deserializer)?.0).map_err(D::Error::custom)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

pub(super) mod optional_header {
    use http::HeaderValue;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Value(#[serde(with = "super::header")] HeaderValue);

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<HeaderValue>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.clone().map(Value).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<HeaderValue>, D::Error> {
        Ok(Option::<Value>::deserialize(deserializer)?.map(|Value(value)| value))
    }
}

pub(super) mod status {
    use http::StatusCode;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
        StatusCode::from_u16(u16::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::string::String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}
