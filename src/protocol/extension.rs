use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;

/// The identifier of an extension: a prefix of labels with dots between them, a slash, and a name, as
/// `com.example/feature` (specification 2026-07-28, "Versioning", Extensions; "Overview", `_meta`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "alloc::string::String", try_from = "alloc::string::String")
)]
pub struct ExtensionId(Box<str>);

/// Why a text is no identifier of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ExtensionIdError {
    /// There is no prefix before a slash.
    #[error("an extension's identifier begins with a prefix and a slash, as `com.example/`")]
    NoPrefix,
    /// A label of the prefix does not begin with a letter, does not end with a letter or a digit, or has another
    /// character than letters, digits and hyphens.
    #[error(
        "each label of an extension's prefix begins with a letter, ends with a letter or a digit, and has letters, digits and hyphens only"
    )]
    Label,
    /// The name does not begin and end with a letter or a digit, or has another character than letters, digits,
    /// hyphens, underscores and dots.
    #[error(
        "an extension's name begins and ends with a letter or a digit, and has letters, digits, `-`, `_` and `.` only"
    )]
    Name,
}

impl ExtensionId {
    /// The identifier as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ExtensionId {
    type Err = ExtensionIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (prefix, name) = text.split_once('/').ok_or(ExtensionIdError::NoPrefix)?;
        if prefix.is_empty() {
            return Err(ExtensionIdError::NoPrefix);
        }
        let is_label = |label: &str| {
            label.starts_with(|first: char| first.is_ascii_alphabetic())
                && label.ends_with(|last: char| last.is_ascii_alphanumeric())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !prefix.split('.').all(is_label) {
            return Err(ExtensionIdError::Label);
        }
        let is_edge = |edge: char| edge.is_ascii_alphanumeric();
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.starts_with(is_edge) && name.ends_with(is_edge) && name.bytes().all(is_inner) {
            Ok(Self(text.into()))
        } else {
            Err(ExtensionIdError::Name)
        }
    }
}

impl fmt::Display for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ExtensionId> for alloc::string::String {
    fn from(id: ExtensionId) -> Self {
        id.0.into()
    }
}

impl TryFrom<alloc::string::String> for ExtensionId {
    type Error = ExtensionIdError;

    fn try_from(text: alloc::string::String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// What the client declares of an extension that it supports (specification 2026-07-28, "Versioning",
/// Extensions).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Extension {
    /// Its settings, a JSON object; an empty one by default. Anything else is sent as an empty object.
    pub settings: Box<RawValue>,
    /// Values of `resultType` that the extension defines. A response with one of them ends its request with
    /// [`Outcome::Result`](crate::Outcome::Result); a type that nobody declares is an error.
    pub result_types: Vec<Box<str>>,
}

/// An extension without settings and without result types of its own.
impl Default for Extension {
    fn default() -> Self {
        Self { settings: Json::EMPTY_OBJECT.to_raw(), result_types: Vec::new() }
    }
}

/// An extension with these settings, a JSON object.
impl From<Box<RawValue>> for Extension {
    fn from(settings: Box<RawValue>) -> Self {
        Self { settings, ..Self::default() }
    }
}

impl Extension {
    /// The settings as they are sent.
    pub(super) fn settings(&self) -> &str {
        Some(Json::from(&*self.settings)).filter(|settings| settings.is_object()).unwrap_or(Json::EMPTY_OBJECT).text()
    }
}

/// Settings are compared byte for byte.
impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        (self.settings.get(), &self.result_types) == (other.settings.get(), &other.result_types)
    }
}

impl Eq for Extension {}
