//! The validator of JSON Schema: what a schema and an instance can make large.

use std::fmt::Write;

use mcp_proto::RawValue;
use mcp_proto::validation::{JsonSchema, Validator};

use super::Case;
use crate::meter::{Cost, measure};

/// The automata of a regular expression.
const AUTOMATA: usize = 4 << 20;

/// What the library makes of a subschema.
const SUBSCHEMA: usize = 6 << 10;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("validator-pattern", 4_000, pattern).at_most(AUTOMATA),
        Case::new("validator-pattern-size", 250, pattern_size).at_most(AUTOMATA),
        Case::new("validator-names", 100, names).at_most(AUTOMATA),
        // A value is larger than its text.
        Case::new("validator-instance", 1_000, instance).each(1_024),
        Case::new("validator-schema", 500, schema).each(SUBSCHEMA),
        Case::new("validator-references", 500, references).each(SUBSCHEMA),
        Case::new("validator-unevaluated", 200, unevaluated).each(SUBSCHEMA),
    ]
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap()
}

/// Text of two letters in no order.
fn letters(n: usize) -> String {
    let mut state = 1_u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    };
    (0..n).map(letter).collect()
}

/// Each text is checked, whether it matches or not.
fn check(schema: String, instance: String) -> Cost {
    let (schema, instance) = (raw(schema), raw(instance));
    let validator = JsonSchema::default();
    // What the library keeps for all checks is not counted.
    let _ = validator.validate(&raw(r#"{"pattern":"a"}"#.into()), &raw("1".into()));
    measure(schema.get().len() + instance.get().len(), || {
        let found = validator.validate(&schema, &instance);
        assert!(found.is_ok(), "{found:?}");
    })
}

/// The pattern whose automaton has the most states, on the longest text that it is admitted on.
fn pattern(n: usize) -> Cost {
    check(r#"{"not":{"pattern":"[ab]*a[ab]{20}[A-Z]"}}"#.into(), format!("\"{}\"", letters(n)))
}

fn pattern_size(n: usize) -> Cost {
    check(format!(r#"{{"not":{{"pattern":"[ab]*a[ab]{{{n}}}[A-Z]"}}}}"#), format!("\"{}\"", letters(400)))
}

/// Members whose names are compared with patterns.
fn names(n: usize) -> Cost {
    let members: Vec<_> = (0..n).map(|at| format!("\"{}{at}\":1", letters(20))).collect();
    let schema = r#"{"patternProperties":{"[ab]{9}c":false,"^[a-z]+[0-9]+$":true},"additionalProperties":false}"#;
    check(schema.into(), format!("{{{}}}", members.join(",")))
}

fn instance(n: usize) -> Cost {
    let item = r#"{"id":1,"name":"a name","tags":["a","b"],"at":"2026-07-28"}"#;
    let schema = r#"{"type":"array","items":{"type":"object","required":["id"],"additionalProperties":false,"properties":{
        "id":{"type":"integer","minimum":0},"name":{"type":"string","maxLength":99},"at":{"pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        "tags":{"type":"array","items":{"enum":["a","b"]},"uniqueItems":true}}}}"#;
    check(schema.into(), format!("[{}]", vec![item; n].join(",")))
}

fn schema(n: usize) -> Cost {
    let mut properties = String::new();
    for at in 0..n {
        let _ = write!(properties, r#""property-{at}":{{"type":"string","description":"it is {at}"}},"#);
    }
    check(format!(r#"{{"properties":{{{properties}"a":true}}}}"#), r#"{"property-1":"x"}"#.into())
}

/// References to one definition.
fn references(n: usize) -> Cost {
    let all = vec![r##"{"$ref":"#/$defs/a"}"##; n].join(",");
    let definition = r#"{"a":{"type":"object","properties":{"b":{"type":"integer"}}}}"#;
    check(format!(r#"{{"$defs":{definition},"allOf":[{all}]}}"#), r#"{"b":1}"#.into())
}

/// Definitions that each have to be known for what they evaluate.
fn unevaluated(n: usize) -> Cost {
    let part = |at| format!(r#"{{"properties":{{"p{at}":{{"type":"integer"}}}}}}"#);
    let all: Vec<_> = (0..n).map(part).collect();
    check(format!(r#"{{"allOf":[{}],"unevaluatedProperties":false}}"#, all.join(",")), r#"{"p1":1}"#.into())
}
