//! How values are serialized that serde has no suitable form for (feature `serde`).

pub(crate) mod optional_raw {
    //! JSON that may be missing. `null` is a value, as in the message that it comes from.

    use alloc::boxed::Box;
    use serde::{Deserialize, Deserializer};
    use serde_json::value::RawValue;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
        Box::deserialize(deserializer).map(Some)
    }
}

pub(crate) mod result {
    //! A `Result`: `{"type": "ok", "value": …}` or `{"type": "err", "value": …}`.

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "type", content = "value", rename_all = "snake_case")]
    enum Form<T, E> {
        Ok(T),
        Err(E),
    }

    pub(crate) fn serialize<S: Serializer, T: Serialize, E: Serialize>(
        result: &Result<T, E>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let form = match result {
            Ok(value) => Form::Ok(value),
            Err(error) => Form::Err(error),
        };
        form.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D, T, E>(deserializer: D) -> Result<Result<T, E>, D::Error>
    where
        D: Deserializer<'de>,
        T: Deserialize<'de>,
        E: Deserialize<'de>,
    {
        Ok(match Form::deserialize(deserializer)? {
            Form::Ok(value) => Ok(value),
            Form::Err(error) => Err(error),
        })
    }
}

#[cfg(any(feature = "http", feature = "snapshot"))]
pub(crate) use self::bytes::Bytes;

#[cfg(any(feature = "http", feature = "journal", feature = "snapshot"))]
pub(crate) mod bytes {
    //! Bytes: a string if they are UTF-8, otherwise `{"hex": "…"}`.

    use alloc::string::String;
    use alloc::vec::Vec;
    use core::fmt::{Formatter, Write};
    use serde::de::{Error, MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Bytes in this form.
    #[derive(Clone, Debug)]
    pub(crate) struct Bytes(pub(crate) Vec<u8>);

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = core::str::from_utf8(bytes) {
            return serializer.serialize_str(text);
        }
        let mut hex = String::with_capacity(bytes.len().saturating_mul(2));
        for byte in bytes {
            // Writing into memory cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex)?;
        map.end()
    }

    #[cfg(any(feature = "journal", feature = "snapshot"))]
    pub(crate) fn deserialize<'de, D: Deserializer<'de>, B: From<Vec<u8>>>(deserializer: D) -> Result<B, D::Error> {
        Bytes::deserialize(deserializer).map(|bytes| bytes.0.into())
    }

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize(&self.0, serializer)
        }
    }

    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(BytesVisitor).map(Self)
        }
    }

    struct BytesVisitor;

    impl<'de> Visitor<'de> for BytesVisitor {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
            f.write_str("a string, or an object with `hex`")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
            Ok(text.as_bytes().to_vec())
        }

        fn visit_string<E: Error>(self, text: String) -> Result<Vec<u8>, E> {
            Ok(text.into_bytes())
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vec<u8>, M::Error> {
            let entry: Option<(String, String)> = map.next_entry()?;
            let (name, hex) = entry.ok_or_else(|| M::Error::missing_field("hex"))?;
            if name != "hex" {
                return Err(M::Error::unknown_field(&name, &["hex"]));
            }
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (pairs, odd) = hex.as_bytes().as_chunks();
            let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
            let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
            bytes.filter(|_| odd.is_empty()).ok_or_else(|| M::Error::custom("`hex` is not pairs of hexadecimal digits"))
        }
    }
}

#[cfg(feature = "snapshot")]
pub(crate) mod rng {
    //! The state of a random generator.

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(rng: &fastrand::Rng, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(rng.get_seed())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<fastrand::Rng, D::Error> {
        u64::deserialize(deserializer).map(fastrand::Rng::with_seed)
    }
}
