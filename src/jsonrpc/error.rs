use alloc::borrow::Cow;
use alloc::boxed::Box;
use serde_json::value::RawValue;

use super::Json;

/// The error of a JSON-RPC response, as the peer sent it.
#[derive(Clone, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct ErrorObject {
    /// Error code; 0 if the peer sent no number.
    pub code: i64,
    /// Message for people.
    pub message: Box<str>,
    /// Additional data, raw JSON.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::form::optional_raw::deserialize"
        )
    )]
    pub data: Option<Box<RawValue>>,
}

/// The data are compared byte for byte.
impl PartialEq for ErrorObject {
    fn eq(&self, other: &Self) -> bool {
        let Self { code, message, data } = self;
        (code, message, data.as_deref().map(RawValue::get))
            == (&other.code, &other.message, other.data.as_deref().map(RawValue::get))
    }
}

impl Eq for ErrorObject {}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<Box<str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Reads an `error` member. Never fails: if the value is not an object, it becomes the message.
    pub(crate) fn read(raw: Json<'_>) -> Self {
        let (mut code, mut message, mut data) = (0, raw, None);
        raw.members(|name, value| match name {
            "code" => code = number(value.text()),
            "message" => message = value,
            "data" => data = Some(value.to_raw()),
            _ => {}
        });
        let message = message.as_string().unwrap_or(Cow::Borrowed(message.text()));
        Self { code, message: message.into(), data }
    }
}

fn number(text: &str) -> i64 {
    let text = text.trim_matches('"');
    let integer = text.split_once('.').map_or(text, |(integer, _)| integer);
    integer.parse().unwrap_or(0)
}
