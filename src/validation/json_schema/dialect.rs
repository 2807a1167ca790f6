use jsonschema::{Draft, ReferencingError};
use serde_json::Value;

use crate::validation::ValidationError;

pub(super) fn draft_of(schema: &Value, around: Draft) -> Result<Draft, ValidationError> {
    let Some(uri) = schema.get("$schema").and_then(Value::as_str) else { return Ok(around) };
    let draft = Draft::from_schema_uri(uri);
    if draft == Draft::Unknown { Err(ValidationError::dialect(uri)) } else { Ok(draft) }
}

pub(super) fn reference_error(error: &ReferencingError, reference: &str) -> ValidationError {
    if let ReferencingError::UnknownSpecification { specification } = error {
        return ValidationError::dialect(specification);
    }
    if let ReferencingError::Unretrievable { uri, .. } = error {
        return ValidationError::reference(uri);
    }
    if reference.is_empty() { ValidationError::schema("", error) } else { ValidationError::reference(reference) }
}
