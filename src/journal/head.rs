//! The serialized form of a response's head, without its secrets.

pub(super) mod status {
    use http::StatusCode;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(in super::super) fn serialize<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
        StatusCode::from_u16(u16::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

pub(super) mod headers {
    use alloc::string::String;
    use alloc::vec::Vec;
    use http::{HeaderMap, HeaderName, HeaderValue};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::binding::http::response_value;
    use crate::form::Bytes;

    pub(in super::super) fn serialize<S: Serializer>(headers: &HeaderMap, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(headers.iter().map(|(name, value)| (name.as_str(), Bytes(response_value(name, value).into()))))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderMap, D::Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in Vec::<(String, Bytes)>::deserialize(deserializer)? {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(D::Error::custom)?;
            let value = HeaderValue::from_bytes(&value.0).map_err(D::Error::custom)?;
            headers.try_append(name, value).map_err(D::Error::custom)?;
        }
        Ok(headers)
    }
}

/// A message of an HTTP client, in which addresses have no secrets.
pub(super) fn shown<S: serde::Serializer>(why: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&crate::text::shown_in(why))
}
