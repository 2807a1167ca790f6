use alloc::boxed::Box;
use alloc::string::String;
use serde_json::value::RawValue;

use super::Json;

/// The id of a response, compared with the integer ids that this side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseId {
    /// An integer, written as one.
    Exact(u64),
    /// An integer, written as a string or with a zero fraction: `"7"`, `7.0`.
    Loose(u64),
    /// `null` or missing.
    Absent,
    /// Any other value; this side never sent it.
    Foreign,
}

impl ResponseId {
    pub(super) fn read(raw: Option<Json<'_>>) -> Self {
        let Some(text) = raw.map(Json::text) else {
            return Self::Absent;
        };
        if let Some(id) = integer(text) {
            return Self::Exact(id);
        }
        if text == "null" {
            return Self::Absent;
        }
        let loose = match serde_json::from_str::<String>(text) {
            Ok(string) => integer(&string),
            Err(_) => text
                .split_once('.')
                .filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'))
                .and_then(|(whole, _)| integer(whole)),
        };
        loose.map_or(Self::Foreign, Self::Loose)
    }
}

/// The integer, if it is written without a sign or leading zeros.
fn integer(text: &str) -> Option<u64> {
    let plain = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

/// The id of a peer's request: a string or a number, kept as written, so that the response can repeat it.
#[derive(Clone, Debug)]
pub struct PeerId(Box<RawValue>);

#[cfg(feature = "snapshot")]
pub(crate) mod peer_id {
    use alloc::boxed::Box;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    use super::PeerId;

    pub(crate) fn serialize<S: Serializer>(id: &PeerId, serializer: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PeerId, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let is_id = raw.get().starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'));
        is_id
            .then_some(PeerId(raw))
            .ok_or_else(|| D::Error::custom("the id of a server request is no string or number"))
    }
}

impl PeerId {
    /// The id as written.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub(super) fn new(raw: Json<'_>) -> Self {
        Self(raw.to_raw())
    }
}
