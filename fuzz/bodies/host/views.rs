//! Readers of what servers send for people and models: results, questions, skills, and values under a schema.

use mcp_proto::host::Utility;
use mcp_proto::host::results::{self, Bounded};
use mcp_proto::protocol::content::{Block, Elicitation, PromptResult, ReadResult, Sampling, ToolResult};
use serde_json::value::RawValue;

use super::super::checks::check_form;

/// Reads the bytes as two JSON texts in a line each.
pub(super) fn check(bytes: &[u8]) -> String {
    let (one, two) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
    let Ok(one) = serde_json::from_slice::<&RawValue>(one) else { return String::new() };
    let two = serde_json::from_slice::<&RawValue>(two).unwrap_or(RawValue::NULL);
    let asked = Elicitation::read(one);
    assert_eq!(Block::read(one).raw().get(), one.get());
    for result in [one, &*RawValue::from_string(format!(r#"{{"content":{one}}}"#)).expect("an object")] {
        let result = ToolResult::read(result);
        let texts =
            result.content.iter().filter_map(|block| if let Block::Text(it) = block { Some(&*it.text) } else { None });
        assert_eq!(ToolResult::text_of(result.raw), texts.collect::<Vec<_>>().join("\n"));
    }
    check_bounds(one, results::bound);
    // Longer than any bound.
    let content = vec![one.get(); results::MIN_BYTES / one.get().len() + 2].join(",");
    let long = |list: &str| {
        let long =
            format!(r#"{{"{list}":[{content}],"structuredContent":{two},"_meta":{{"a":{two}}},"isError":true}}"#);
        RawValue::from_string(long).expect("an object of JSON values")
    };
    check_bounds(&long("content"), results::bound);
    for (utility, list) in Utility::ALL.iter().zip(["resources", "contents", "prompts", "messages"]) {
        check_bounds(&long(list), |result, most| results::bound_utility(*utility, result, most));
    }
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

/// A result within a bound is JSON, and what is left out is counted.
fn check_bounds(result: &RawValue, bound: impl Fn(&RawValue, usize) -> Bounded<'_>) {
    for most in [results::MIN_BYTES, 4 * results::MIN_BYTES, result.get().len()] {
        let Bounded { result: bounded, left_out, .. } = bound(result, most);
        let Some(left_out) = left_out else {
            assert_eq!(bounded.get(), result.get());
            continue;
        };
        assert!(bounded.get().len() <= most.max(results::MIN_BYTES), "{} bytes", bounded.get().len());
        assert!(serde_json::from_str::<&RawValue>(bounded.get()).is_ok(), "not JSON: {bounded}");
        assert!(check_form(&left_out) == left_out && left_out.to_string().starts_with("[The result is longer than"));
    }
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
        assert!(error.to_string().len() < 4_000 && check_form(error) == *error, "{error}");
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
    assert!(listing.request().is_some(), "a new listing asks for the first page");
    let listed = listing.take(entry);
    assert!(!(listing.is_cut_off() && listing.request().is_some()), "a listing that is cut off goes on");
    let next = (listing.request(), listing.is_public());
    assert!(listing.invalid().iter().all(|error| check_form(error) == *error && !error.to_string().is_empty()));
    let skill = skills::read(uri, entry, SkillLimits::default());
    let all = listing.skills().iter().chain(&skill);
    let contents = all.map(|skill| {
        let requests = (skills::get(&skill.uri), skills::read_directory(&skill.uri, Some("c")));
        format!("{:?} {} {} {requests:?}", skill.verify(uri, file), skill.name(), skill.description())
    });
    let contents: Vec<_> = contents.collect();
    assert_eq!(listing.clone().into_skills().len(), listing.skills().len());
    format!("{listed:?} {listing:?} {skill:?} {contents:?} {next:?}")
}
