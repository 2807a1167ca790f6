//! The serialized form of texts that have to be JSON (feature `snapshot`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::Json;

type Pairs = Vec<(Box<str>, Box<str>)>;

fn check<E: Error>(text: &str) -> Result<(), E> {
    Json::checked(text, usize::MAX).map(drop).ok_or_else(|| E::custom("a text is not JSON"))
}

pub(crate) fn json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    let text = Box::deserialize(deserializer)?;
    check(&text).map(|()| text)
}

pub(crate) fn optional_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let text: Option<Box<str>> = Option::deserialize(deserializer)?;
    text.as_deref().map_or(Ok(()), check).map(|()| text)
}

/// Names, and values that are JSON.
pub(crate) fn json_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
    let pairs = Pairs::deserialize(deserializer)?;
    pairs.iter().try_for_each(|(_, value)| check(value)).map(|()| pairs)
}

/// Names and values, both JSON.
pub(crate) fn json_members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
    let pairs = json_values(deserializer)?;
    pairs.iter().try_for_each(|(name, _)| check(name)).map(|()| pairs)
}
