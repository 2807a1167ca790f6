//! Checks of JSON against JSON Schema: results of tools against their output schemas, and responses to forms against
//! theirs (specification 2026-07-28, "JSON Schema Usage", "Tools", "Elicitation").
//!
//! A [`Validator`] does the checks: `JsonSchema` of the feature `validate`, or one of your own.
//! [`Tool::check_result`](crate::catalog::Tool::check_result) checks a result, and
//! [`Elicitation::check`](crate::protocol::content::Elicitation::check) an answer before it is given to the client. The
//! client itself checks nothing: a server whose results do not match its schemas works all the same.

#[cfg(feature = "validate")]
mod json_schema;

#[cfg(feature = "validate")]
pub use self::json_schema::{JsonSchema, JsonSchemaLimits};

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::fmt::Write;
use serde_json::value::RawValue;

/// Checks JSON against a JSON Schema.
///
/// An implementation must accept any schema and any instance that a server can send. It must bound its time and memory, and
/// must not fetch anything (specification 2026-07-28, "JSON Schema Usage").
pub trait Validator {
    /// Checks whether an instance matches a schema.
    ///
    /// # Errors
    ///
    /// [`ValidationError::Instance`] if it does not match; any other but [`ValidationError::Missing`] if that cannot be
    /// said.
    fn validate(&self, schema: &RawValue, instance: &RawValue) -> Result<(), ValidationError>;
}

/// Why JSON was not found to match a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum ValidationError {
    /// The instance does not match the schema.
    #[error("{0}")]
    Instance(Violation),
    /// The tool has an output schema, but its result has no `structuredContent`.
    #[error("the result has no structured content, which the tool's output schema requires")]
    Missing,
    /// The validator does not support the dialect that the schema declares.
    #[error("the schema's dialect is not supported: {uri}")]
    Dialect {
        /// The value of `$schema`, shortened.
        uri: Box<str>,
    },
    /// A reference leads out of the schema, or to nothing. Nothing is fetched.
    #[error("a reference of the schema cannot be resolved: {reference}")]
    Reference {
        /// The reference, shortened.
        reference: Box<str>,
    },
    /// A subschema applies itself to the same value again, without end.
    #[error("a subschema applies itself without end")]
    Loop,
    /// The schema is not valid in its dialect, or uses what the validator does not support.
    #[error("the schema is not valid at \"{pointer}\": {message}")]
    Schema {
        /// The place in the schema, as a JSON pointer, shortened. The empty pointer is the whole schema.
        pointer: Box<str>,
        /// What is wrong, shortened.
        message: Box<str>,
    },
    /// A bound of the validator was exceeded.
    #[error("a bound of the validator was exceeded: {0}")]
    Limit(ValidationLimit),
}

impl ValidationError {
    /// Whether the instance is known not to match. Otherwise the schema could not be applied, and the instance may be right.
    pub const fn is_violation(&self) -> bool {
        match self {
            Self::Instance(_) | Self::Missing => true,
            Self::Dialect { .. } | Self::Reference { .. } | Self::Loop | Self::Schema { .. } | Self::Limit(_) => false,
        }
    }

    /// A dialect that is not supported, by the value of `$schema`.
    pub fn dialect(uri: &str) -> Self {
        Self::Dialect { uri: bounded(uri) }
    }

    /// A reference that cannot be resolved.
    pub fn reference(reference: &str) -> Self {
        Self::Reference { reference: bounded(reference) }
    }

    /// A schema that is not valid, or not supported, at this JSON pointer.
    pub fn schema(pointer: &str, message: impl fmt::Display) -> Self {
        Self::Schema { pointer: bounded(pointer), message: bounded(message) }
    }
}

/// How an instance does not match a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("the value at \"{pointer}\" does not match the schema: {message}")]
#[non_exhaustive]
pub struct Violation {
    /// The first value that was found not to match, as a JSON pointer, shortened. The empty pointer is the whole instance.
    pub pointer: Box<str>,
    /// What is wrong, shortened.
    pub message: Box<str>,
}

impl Violation {
    /// A violation at this JSON pointer.
    pub fn new(pointer: &str, message: impl fmt::Display) -> Self {
        Self { pointer: bounded(pointer), message: bounded(message) }
    }
}

/// A bound of a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ValidationLimit {
    /// The length of the schema.
    #[error("bytes of the schema")]
    SchemaBytes,
    /// The depth of the schema.
    #[error("depth of the schema")]
    SchemaDepth,
    /// The number of subschemas, those that are applied or compiled repeatedly included, or the work to compile them.
    #[error("number or size of subschemas")]
    Subschemas,
    /// The number of regular expressions, their size, or the number of their escape sequences.
    #[error("number or size of regular expressions")]
    Patterns,
    /// The number of subschemas that apply each other.
    #[error("nesting of subschemas")]
    Nesting,
    /// The length of the instance.
    #[error("bytes of the value")]
    InstanceBytes,
    /// The depth of the instance.
    #[error("depth of the value")]
    InstanceDepth,
    /// The estimated work to check the instance.
    #[error("work to check the value")]
    Work,
    /// A number that the validator cannot represent.
    #[error("range of numbers")]
    Number,
}

/// Maximum length of a text from outside, in bytes.
const TEXT: usize = 256;

/// The beginning of a text. What follows it is not formatted.
fn bounded(text: impl fmt::Display) -> Box<str> {
    struct Beginning(String);

    impl Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let mut end = TEXT.saturating_sub(self.0.len()).min(text.len());
            while !text.is_char_boundary(end) {
                end = end.saturating_sub(1);
            }
            self.0.push_str(text.get(..end).unwrap_or_default());
            if end < text.len() { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut beginning = Beginning(String::new());
    if write!(beginning, "{text}").is_err() {
        beginning.0.push('…');
    }
    beginning.0.into()
}
