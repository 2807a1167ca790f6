//! Readers of what servers send for people and models: results, questions, skills, and values under a schema.

use mcp_proto::protocol::content::{Elicitation, PromptResult, ReadResult, Sampling, ToolResult};
use serde_json::value::RawValue;

/// Reads the bytes as two JSON texts in a line each.
pub(super) fn check(bytes: &[u8]) -> String {
    let (one, two) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
    let Ok(one) = serde_json::from_slice::<&RawValue>(one) else { return String::new() };
    let two = serde_json::from_slice::<&RawValue>(two).unwrap_or(RawValue::NULL);
    let asked = Elicitation::read(one);
    let read = (
        ToolResult::read(one),
        PromptResult::read(one),
        ReadResult::read(one),
        Sampling::read(one),
        validate(one, two),
    );
    #[cfg(feature = "validate")]
    let read = (read, asked.check(&mcp_proto::validation::JsonSchema::default(), &two));
    #[cfg(feature = "skills")]
    let read = (read, skill(one, two));
    format!("{read:?} {asked:?}")
}

/// A violation is somewhere in the instance, and is short.
#[cfg(feature = "validate")]
fn validate(schema: &RawValue, instance: &RawValue) -> impl std::fmt::Debug {
    use mcp_proto::validation::{JsonSchema, ValidationError, Validator};

    let found = JsonSchema::default().validate(schema, instance);
    if let Err(ValidationError::Instance(violation)) = &found {
        let value: serde_json::Value = serde_json::from_str(instance.get()).expect("a checked instance can be read");
        let is_whole = !violation.pointer.contains('…');
        assert!(!is_whole || value.pointer(&violation.pointer).is_some(), "nothing is at {}", violation.pointer);
    }
    if let Err(error) = &found {
        assert!(error.to_string().len() < 4_000, "{error}");
    }
    found
}

#[cfg(not(feature = "validate"))]
fn validate(_: &RawValue, _: &RawValue) {}

/// Lists and reads skills, and verifies a file of each.
#[cfg(feature = "skills")]
fn skill(entry: &RawValue, file: &RawValue) -> impl std::fmt::Debug {
    use mcp_proto::skills::{self, Listing, SkillLimits};

    let uri = "skill://a/SKILL.md";
    let mut listing = Listing::new(SkillLimits::default());
    let listed = listing.take(entry);
    let skill = skills::read(uri, entry, SkillLimits::default());
    let all = listing.skills().iter().chain(&skill);
    let contents: Vec<_> = all.map(|skill| format!("{:?}", skill.verify(uri, file))).collect();
    format!("{listed:?} {listing:?} {skill:?} {contents:?}")
}
