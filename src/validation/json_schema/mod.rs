mod cost;
mod graph;

use alloc::boxed::Box;
use alloc::string::String;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ReferencingError, Registry, Retrieve, Uri};
use serde_json::Value;
use serde_json::value::RawValue;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::graph::Graph;
use super::{ValidationError, ValidationLimit, Validator, Violation};
use crate::jsonrpc::Json;

/// Maximum depth of a schema and of an instance.
const DEPTH: usize = 64;

/// The library copies parts of the instance to describe a violation. It is asked to where the number of subschemas that are
/// applied, times the bytes of the instance, is at most this.
const DESCRIBED: u64 = 1 << 24;

/// The bytes of all addresses of a schema.
const ADDRESSES: usize = 1 << 20;

const BASE: &str = "json-schema:///";

/// A validator for JSON Schema (feature `validate`), made of the crate `jsonschema`.
///
/// | dialect | `$schema` |
/// | --- | --- |
/// | 2020-12 | missing, or `https://json-schema.org/draft/2020-12/schema` |
/// | 2019-09 | `https://json-schema.org/draft/2019-09/schema` |
/// | draft 7, 6 and 4 | `http://json-schema.org/draft-07/schema#`, `draft-06`, `draft-04` |
///
/// `http:` and `https:`, with and without `#`, are the same. Any other dialect is
/// [`ValidationError::Dialect`]. References resolve within the schema and to the schema of its dialect. Nothing is
/// fetched: any other reference is [`ValidationError::Reference`].
///
/// Regular expressions run in linear time; those that need more (look-around, back-references) make a schema invalid. The
/// format `regex` is not checked: the work would not be bounded.
///
/// # Bounds
///
/// A schema or an instance over a bound is [`ValidationError::Limit`], before it is compiled or checked. Beside those of
/// [`JsonSchemaLimits`], these are:
///
/// | at most | of |
/// | --- | --- |
/// | 64 | levels of a schema, and of an instance |
/// | 10,000 | subschemas, and subschemas that are applied to one value |
/// | 96 | subschemas that lead to each other in a row |
/// | 20,000 | steps to compile a schema |
/// | 1 MiB | all addresses: identifiers and references, each as long as the identifiers that are above it |
/// | 64 | different regular expressions |
/// | 16 KiB | all regular expressions together, less if they have many escape sequences |
/// | 1 MiB | all regular expressions together once they are compiled; a repetition counts as often as it says |
///
/// To compile a subschema takes one step, and more if the path to it is long, or if it has many names or large values. It
/// is compiled again for each `unevaluatedProperties`, `unevaluatedItems` and `propertyNames` above it, and for each row
/// of embedded resources that leads to it.
///
/// The work of a check is estimated: each subschema on each value that it may be applied to, as often as there are ways
/// to it. A regular expression takes its compiled size times the bytes of the text, names of members included, unless it
/// begins with `^` and no text leads to two of its states at a time: then it takes little more than the bytes. The
/// estimate is high for `unevaluatedProperties`, `unevaluatedItems` and `$dynamicRef`, and for `uniqueItems` of arrays
/// and objects, which are compared in pairs.
///
/// With the default limits no regular expression takes more than 50 ms. To compile a schema takes less than 100 ms, and to
/// read an instance is linear in its length. A check takes up to 1 MiB of the stack if the program is built without
/// optimizations.
///
/// A schema is compiled for each check.
///
/// ```
/// use mcp_proto::RawValue;
/// use mcp_proto::validation::{JsonSchema, ValidationError, Validator};
///
/// let schema = RawValue::from_string(r#"{"properties": {"age": {"minimum": 0}}}"#.into())?;
/// let instance = RawValue::from_string(r#"{"age": -1}"#.into())?;
/// let Err(ValidationError::Instance(violation)) = JsonSchema::default().validate(&schema, &instance) else { panic!() };
/// assert_eq!(&*violation.pointer, "/age");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JsonSchema {
    /// Whether `format` is checked. By default, it is in drafts 4, 6 and 7, and it is not in later dialects.
    pub formats: Option<bool>,
    /// The bounds.
    pub limits: JsonSchemaLimits,
}

/// Bounds of [`JsonSchema`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JsonSchemaLimits {
    /// Maximum length of a schema, in bytes; 256 KiB by default.
    pub schema_bytes: usize,
    /// Maximum length of an instance, in bytes; 4 MiB by default.
    pub instance_bytes: usize,
    /// Maximum estimated work of one check, in steps of about 50 ns; 1,000,000 by default. To apply one keyword to one
    /// value is about one step; a regular expression takes one for each 48 of its compiled bytes times the text's.
    pub work: u64,
}

impl Default for JsonSchemaLimits {
    fn default() -> Self {
        Self { schema_bytes: 256 << 10, instance_bytes: 4 << 20, work: 1_000_000 }
    }
}

impl Validator for JsonSchema {
    fn validate(&self, schema: &RawValue, instance: &RawValue) -> Result<(), ValidationError> {
        let limits = &self.limits;
        let schema = parse(schema, limits.schema_bytes, ValidationLimit::SchemaBytes, ValidationLimit::SchemaDepth)?;
        let instance =
            parse(instance, limits.instance_bytes, ValidationLimit::InstanceBytes, ValidationLimit::InstanceDepth)?;
        // The library has assertions of its own.
        let checked = catch_unwind(AssertUnwindSafe(|| self.check(&schema, &instance.0, instance.1)));
        checked.unwrap_or_else(|_| Err(ValidationError::schema("", "the validator cannot apply it")))
    }
}

impl JsonSchema {
    fn check(&self, (schema, _): &(Value, usize), instance: &Value, bytes: usize) -> Result<(), ValidationError> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(ValidationError::schema("", "it is neither an object nor a boolean"));
        }
        let draft = draft_of(schema, Draft::Draft202012)?;
        check_addresses(schema)?;
        let resource = draft.create_resource_ref(schema);
        let base = resource.id().unwrap_or(BASE).trim_end_matches('#');
        let base = jsonschema::uri::from_str(base).map_err(|error| ValidationError::schema("/$id", error))?;
        let registry = Registry::new().retriever(NoRetrieval).draft(draft);
        let registry = registry.add(base.as_str(), resource).and_then(|registry| registry.prepare());
        let registry = registry.map_err(|error| reference_error(&error, ""))?;
        let graph = Graph::read(schema, draft, &registry, base)?;
        cost::check_schema(&graph)?;
        let applied = cost::check_work(&graph, instance, self.limits.work)?;

        let patterns = PatternOptions::regex().size_limit(cost::BYTES).dfa_size_limit(cost::BYTES);
        let options =
            jsonschema::options().with_draft(draft).with_retriever(NoRetrieval).with_pattern_options(patterns);
        let options = options.with_format("regex", |_: &str| true);
        let options = match self.formats {
            Some(formats) => options.should_validate_formats(formats),
            None => options,
        };
        let validator = options.build(schema).map_err(|error| schema_error(&error))?;
        if validator.is_valid(instance) {
            return Ok(());
        }
        let is_small = applied.saturating_mul(count(bytes)) <= DESCRIBED;
        let described = if is_small { validator.validate(instance).err() } else { None };
        let violation = match described {
            Some(error) => Violation::new(error.instance_path().as_str(), error.masked()),
            None => Violation::new("", "a part of it, which is not named, because the value is large"),
        };
        Err(ValidationError::Instance(violation))
    }
}

/// The library keeps an address for each identifier and each reference, and the identifiers above it are a part of it.
fn check_addresses(schema: &Value) -> Result<(), ValidationError> {
    /// The bytes of the longest row of identifiers that are below each other, and the number of addresses.
    fn measure(value: &Value) -> (usize, usize) {
        let of_all = |longest: usize, count: usize, value: &Value| {
            let (length, below) = measure(value);
            (longest.max(length), count.saturating_add(below))
        };
        match value {
            Value::Array(elements) => elements.iter().fold((0, 0), |(a, b), value| of_all(a, b, value)),
            Value::Object(members) => {
                let (longest, count) = members.values().fold((0, 0), |(a, b), value| of_all(a, b, value));
                let length = |name: &str| members.get(name).and_then(Value::as_str).map(str::len);
                let id = length("$id").max(length("id"));
                let addresses = ["$id", "id", "$ref", "$dynamicRef", "$recursiveRef", "$schema", "$anchor"];
                let own = addresses.into_iter().filter_map(length).count();
                (longest.saturating_add(id.unwrap_or(0)), count.saturating_add(own))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (0, 0),
        }
    }

    let (longest, count) = measure(schema);
    if longest.saturating_mul(count) > ADDRESSES { Err(limit(ValidationLimit::Subschemas)) } else { Ok(()) }
}

/// Refuses to fetch.
struct NoRetrieval;

impl Retrieve for NoRetrieval {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn core::error::Error + Send + Sync>> {
        Err("nothing is fetched".into())
    }
}

/// The value, and its length in bytes.
fn parse(
    raw: &RawValue,
    most: usize,
    bytes: ValidationLimit,
    depth: ValidationLimit,
) -> Result<(Value, usize), ValidationError> {
    let text = raw.get();
    if text.len() > most {
        return Err(ValidationError::Limit(bytes));
    }
    if Json::checked(text, DEPTH).is_none() {
        return Err(ValidationError::Limit(depth));
    }
    let value = serde_json::from_str(text).map_err(|_| ValidationError::Limit(ValidationLimit::Number))?;
    Ok((value, text.len()))
}

/// The dialect that a schema declares, or that of the schema around it.
fn schema_error(error: &jsonschema::ValidationError<'_>) -> ValidationError {
    if let ValidationErrorKind::Referencing(error) = error.kind() {
        return reference_error(error, "");
    }
    let pointer = match error.instance_path().as_str() {
        "" => error.schema_path().as_str(),
        pointer => pointer,
    };
    ValidationError::schema(pointer, error.masked())
}

fn draft_of(schema: &Value, around: Draft) -> Result<Draft, ValidationError> {
    let Some(uri) = schema.get("$schema").and_then(Value::as_str) else { return Ok(around) };
    let draft = Draft::from_schema_uri(uri);
    if draft == Draft::Unknown { Err(ValidationError::dialect(uri)) } else { Ok(draft) }
}

const fn limit(limit: ValidationLimit) -> ValidationError {
    ValidationError::Limit(limit)
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn reference_error(error: &ReferencingError, reference: &str) -> ValidationError {
    if let ReferencingError::UnknownSpecification { specification } = error {
        return ValidationError::dialect(specification);
    }
    if let ReferencingError::Unretrievable { uri, .. } = error {
        return ValidationError::reference(uri);
    }
    if reference.is_empty() { ValidationError::schema("", error) } else { ValidationError::reference(reference) }
}
