//! Checks of JSON against JSON Schema: results of tools against their output schemas, and responses to forms against
//! theirs (specification 2026-07-28, "JSON Schema Usage", "Tools", "Elicitation").
//!
//! A [`Validator`] does the checks: `JsonSchema` of the feature `validate`, or one of your own.
//! [`Tool::check_result`](crate::catalog::Tool::check_result) checks a result, and
//! [`Engine::check_form`](crate::Engine::check_form) a response before it is given to the client. The client itself
//! checks nothing: a server whose results do not match its schemas works all the same.

mod error;
#[cfg(feature = "validate")]
mod json_schema;

pub use error::{ValidationError, ValidationLimit, Violation};
#[cfg(feature = "validate")]
pub use json_schema::{JsonSchema, JsonSchemaLimits};

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
