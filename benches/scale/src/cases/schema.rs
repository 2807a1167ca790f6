//! Schemas for the passes that adapt them.

use mcp_proto::RawValue;
use mcp_proto::host::schema::{Pass, Profile, adapt, without_nulls};

use super::Case;
use crate::meter::{Cost, measure};

pub fn cases() -> Vec<Case> {
    // A schema is held as a tree with 72 bytes per member; a change holds its place in up to 512 bytes.
    vec![
        Case::new("pass-properties", 250, pass_properties).each(400),
        Case::new("pass-depth", 50, pass_depth).each(22_000),
        Case::new("pass-depth-long-names", 50, pass_depth_long_names).each(800),
        Case::new("pass-definitions", 250, pass_definitions).each(1_000),
        Case::new("pass-definitions-clash", 250, pass_definitions_clash).each(350),
        // References are also held decoded.
        Case::new("pass-references", 500, pass_references).each(192),
        Case::new("pass-reference-length", 5_000, pass_reference_length),
        Case::new("pass-branches", 500, pass_branches).each(160),
        Case::new("pass-branches-null", 500, pass_branches_null).each(160),
        Case::new("pass-unions-nested", 50, pass_unions_nested).each(4_600),
        Case::new("pass-types", 500, pass_types).each(96),
        Case::new("pass-enumeration", 1_000, pass_enumeration).each(32),
        Case::new("pass-keywords", 500, pass_keywords).each(640),
        Case::new("pass-data", 500, pass_data).each(560),
        Case::new("profile-references", 250, profile_references).each(4_000),
        Case::new("profile-root-branches", 250, profile_root_branches).each(4_000),
        Case::new("profile-keywords", 500, profile_keywords).each(2_000),
        Case::new("profile-names", 250, profile_names).each(4_000),
        Case::new("nulls-of-branches", 250, nulls_of_branches).each(4_000),
    ]
}

/// Applies all passes.
fn adapted(json: &str) -> Cost {
    let schema = RawValue::from_string(json.into()).unwrap();
    measure(json.len(), || adapt(&schema, Pass::BASIC))
}

fn nested(open: &str, inner: &str, close: &str, n: usize) -> String {
    format!("{}{inner}{}", open.repeat(n), close.repeat(n))
}

fn pass_properties(n: usize) -> Cost {
    let property =
        |at| format!(r#""p{at}":{{"anyOf":[{{"type":"string"}},{{"type":"null"}}],"default":null,"minLength":{at}}}"#);
    adapted(&format!(r#"{{"properties":{{{}}}}}"#, (0..n).map(property).collect::<Vec<_>>().join(",")))
}

/// The depth of schemas is bounded, so nested schemas are repeated.
fn pass_depth(n: usize) -> Cost {
    let deep = nested(r#"{"properties":{"a":"#, r#"{"type":["string","null"]}"#, "}}", 40);
    adapted(&format!(r#"{{"allOf":[{}]}}"#, vec![deep; n].join(",")))
}

/// Changes with long places.
fn pass_depth_long_names(n: usize) -> Cost {
    let property = |at| format!(r#""p{at}":{{"type":["string","null"]}}"#);
    let inner = format!(r#"{{"properties":{{{}}}}}"#, (0..n).map(property).collect::<Vec<_>>().join(","));
    adapted(&format!(r#"{{"properties":{{"{}":{inner}}}}}"#, "long".repeat(n * 4)))
}

fn pass_definitions(n: usize) -> Cost {
    let definition = |at| {
        format!(r##""d{at}":{{"properties":{{"a":{{"$ref":"#/definitions/d{at}"}}}},"definitions":{{"x":{{}}}}}}"##)
    };
    adapted(&format!(r#"{{"definitions":{{{}}}}}"#, (0..n).map(definition).collect::<Vec<_>>().join(",")))
}

fn pass_definitions_clash(n: usize) -> Cost {
    let names = |start: &str| (0..n).map(|at| format!(r#""{start}{at}":{{}}"#)).collect::<Vec<_>>().join(",");
    adapted(&format!(r#"{{"definitions":{{{}}},"$defs":{{{}}}}}"#, names("a"), names("b")))
}

fn pass_references(n: usize) -> Cost {
    adapted(&format!(r#"{{"anyOf":[{}]}}"#, vec![r##"{"$ref":"#/definitions/a/definitions/b"}"##; n].join(",")))
}

fn pass_reference_length(n: usize) -> Cost {
    adapted(&format!(r##"{{"$ref":"#/definitions/a{}"}}"##, "/definitions/properties".repeat(n)))
}

fn pass_branches(n: usize) -> Cost {
    adapted(&format!(r#"{{"anyOf":[{},{{"type":"null"}}]}}"#, vec![r#"{"type":"string"}"#; n].join(",")))
}

fn pass_branches_null(n: usize) -> Cost {
    adapted(&format!(r#"{{"oneOf":[{},{{"type":"string"}}]}}"#, vec![r#"{"enum":[null]}"#; n].join(",")))
}

/// Nested unions of two: the remaining branch replaces the union at every level.
fn pass_unions_nested(n: usize) -> Cost {
    let deep = nested(r#"{"anyOf":[{"type":"null"},"#, r#"{"type":"string"}"#, "]}", 30);
    adapted(&format!(r#"{{"allOf":[{}]}}"#, vec![deep; n].join(",")))
}

fn pass_types(n: usize) -> Cost {
    adapted(&format!(r#"{{"type":[{}"null"],"enum":[{}null]}}"#, r#""string","#.repeat(n), "null,1,".repeat(n)))
}

fn pass_enumeration(n: usize) -> Cost {
    adapted(&format!(
        r#"{{"properties":{{"a":{{"enum":[{}]}}}}}}"#,
        (0..n).map(|at| format!("\"value {at}\"")).collect::<Vec<_>>().join(",")
    ))
}

fn pass_keywords(n: usize) -> Cost {
    let keywords: String = (0..n).map(|at| format!(r#""minLength":{at},"x-{at}":{{"properties":{{}}}},"#)).collect();
    adapted(&format!(r#"{{"not":{{{keywords}"type":"string"}},{keywords}"if":{{}}}}"#))
}

fn pass_data(n: usize) -> Cost {
    let data = format!(r#"{{"properties":[{}]}}"#, r#"{"anyOf":[1,null]},"#.repeat(n) + "1");
    adapted(&format!(r#"{{"default":{data},"examples":[{data}],"const":{data}}}"#))
}

/// Applies the passes of each profile.
fn profiled(json: &str) -> Cost {
    let schema = RawValue::from_string(json.into()).unwrap();
    measure(json.len(), || Profile::ALL.iter().map(|profile| adapt(&schema, profile.passes())).collect::<Vec<_>>())
}

/// References to definitions of their own, and to one that refers to itself.
fn profile_references(n: usize) -> Cost {
    let property = |at| format!(r##""p{at}":{{"$ref":"#/$defs/d{at}"}},"q{at}":{{"$ref":"#/$defs/loop"}}"##);
    let definition = |at| format!(r##""d{at}":{{"items":{{"$ref":"#/$defs/loop"}}}}"##);
    let properties = (0..n).map(property).collect::<Vec<_>>().join(",");
    let definitions = (0..n).map(definition).collect::<Vec<_>>().join(",");
    let cycle = r##""loop":{"items":{"$ref":"#/$defs/loop"}}"##;
    profiled(&format!(r#"{{"properties":{{{properties}}},"$defs":{{{definitions},{cycle}}}}}"#))
}

/// Branches at the root with properties of their own and in common.
fn profile_root_branches(n: usize) -> Cost {
    let branch = |at| {
        format!(r#"{{"properties":{{"p{at}":{{"const":{at}}},"same":{{"const":{at}}}}},"required":["p{at}","same"]}}"#)
    };
    let branches = (0..n).map(branch).collect::<Vec<_>>().join(",");
    profiled(&format!(r#"{{"anyOf":[{branches}],"allOf":[{branches}]}}"#))
}

/// Keywords that are refused, in one schema.
fn profile_keywords(n: usize) -> Cost {
    let keywords = (0..n).map(|at| format!(r#""x-{at}":{{"a":[{at}]}}"#)).collect::<Vec<_>>().join(",");
    profiled(&format!(r#"{{"properties":{{"a":{{{keywords}}}}},{keywords}}}"#))
}

/// Properties whose names a provider refuses, with references beside descriptions, and some that lead nowhere.
fn profile_names(n: usize) -> Cost {
    let property = |at| {
        format!(
            r##""${at}":{{}},"p{at}":{{"$ref":"#/$defs/a","description":"d"}},"q{at}":{{"$ref":"#/$defs/{at}","title":"t"}}"##
        )
    };
    let properties = (0..n).map(property).collect::<Vec<_>>().join(",");
    let definition = r##""a":{"items":{"$ref":"#/$defs/a","title":"t"}}"##;
    profiled(&format!(r#"{{"properties":{{{properties}}},"required":["$1"],"$defs":{{{definition}}}}}"#))
}

/// The nulls of arguments for branches at the root, and for those of the elements of an array.
fn nulls_of_branches(n: usize) -> Cost {
    let branches = (0..n).map(|at| format!(r#"{{"properties":{{"p{at}":{{}}}}}}"#)).collect::<Vec<_>>().join(",");
    let schema = format!(r#"{{"properties":{{"all":{{"items":{{"anyOf":[{branches}]}}}}}},"anyOf":[{branches}]}}"#);
    let nulls = (0..n).map(|at| format!(r#""p{at}":null"#)).collect::<Vec<_>>().join(",");
    let elements = (0..n).map(|at| format!(r#"{{"p{at}":null}}"#)).collect::<Vec<_>>().join(",");
    let [schema, arguments] =
        [schema, format!(r#"{{"all":[{elements}],{nulls}}}"#)].map(|text| RawValue::from_string(text).unwrap());
    measure(schema.get().len() + arguments.get().len(), || without_nulls(&schema, &arguments).into_owned())
}
