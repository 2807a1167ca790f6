//! Adaptations of schemas to providers that accept only a part of JSON Schema.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

use std::borrow::Cow;

use mcp_proto::RawValue;
use mcp_proto::host::schema::{Adapted, Pass, adapt};
use proptest::prelude::*;
use serde_json::{Value, json};

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

/// The result of a pass over a schema, and its report.
fn applied(pass: Pass, schema: &str) -> (String, Vec<String>) {
    let schema = raw(schema);
    let Adapted { schema, changes, .. } = pass.apply(&schema);
    (schema.get().into(), changes.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn becomes(pass: Pass, before: &str, after: &str, changes: &[&str]) {
    assert_eq!(applied(pass, before), (after.into(), changes.iter().map(|change| (*change).into()).collect()));
    let again = applied(pass, after);
    assert_eq!(again, (after.into(), vec![]), "a second run of a pass changes nothing");
}

/// A schema that a pass does not change, byte for byte.
#[track_caller]
fn stays(pass: Pass, schema: &str) {
    let schema = raw(schema);
    let adapted = pass.apply(&schema);
    assert!(adapted.changes.is_empty(), "{:?}", adapted.changes);
    assert!(matches!(adapted.schema, Cow::Borrowed(same) if std::ptr::eq(same, &*schema)));
}

#[test]
fn no_pass_is_on_unless_it_is_named() {
    let schema = raw(r#"{ "definitions" : {} , "properties":{"a":{"type":["string","null"]}} }"#);
    let adapted = adapt(&schema, &[]);
    assert!(std::ptr::eq(&*adapted.schema, &*schema) && adapted.changes.is_empty());
}

#[test]
fn passes_follow_each_other() {
    let schema = raw(
        r##"{"definitions":{"A":{"minimum":1.50}},"properties":{"a":{"type":["string","null"]},"b":{"$ref":"#/definitions/A"}}}"##,
    );
    let adapted = adapt(&schema, Pass::BASIC);
    assert_eq!(
        adapted.schema.get(),
        r##"{"type":"object","$defs":{"A":{"type":"number","minimum":1.50}},"properties":{"a":{"type":"string"},"b":{"$ref":"#/$defs/A"}}}"##
    );
    assert_eq!(adapted.changes.len(), 5);
}

#[test]
fn definitions_become_defs_and_references_are_updated() {
    becomes(
        Pass::Definitions,
        r##"{"definitions":{"A":{"definitions":{"B":{}}},"definitions":{}},"properties":{"a":{"$ref":"#/definitions/A"},"b":{"items":[{"$ref":"#/definitions/A/definitions/B"}]},"c":{"$ref":"#/definitions/definitions"}}}"##,
        r##"{"$defs":{"A":{"$defs":{"B":{}}},"definitions":{}},"properties":{"a":{"$ref":"#/$defs/A"},"b":{"items":[{"$ref":"#/$defs/A/$defs/B"}]},"c":{"$ref":"#/$defs/definitions"}}}"##,
        &[
            "/definitions/A: `definitions` is `$defs` now",
            "/properties/a: the reference leads to `$defs` now",
            "/properties/b/items/0: the reference leads to `$defs` now",
            "/properties/c: the reference leads to `$defs` now",
            "(root): `definitions` is `$defs` now",
        ],
    );
}

#[test]
fn definitions_are_merged_into_defs_without_common_names() {
    becomes(
        Pass::Definitions,
        r#"{"definitions":{"B":{}},"$defs":{"A":{}}}"#,
        r#"{"$defs":{"A":{},"B":{}}}"#,
        &["(root): `definitions` is `$defs` now"],
    );
    stays(Pass::Definitions, r##"{"definitions":{"A":{}},"$defs":{"A":{}},"items":{"$ref":"#/definitions/A"}}"##);
}

#[test]
fn references_are_compared_by_their_target() {
    for reference in [
        r##""$ref":"#\/definitions\/A""##,
        r##""$ref":"#/%64efinitions/A""##,
        r##""$ref":"#%2Fdefinitions%2fA""##,
        r##""$ref":"\u0023/defin\u0069tions/A""##,
        r##""$dynamicRef":"#/definitions/A""##,
    ] {
        let name = &reference[..reference.find(':').unwrap()];
        becomes(
            Pass::Definitions,
            &format!(r##"{{"definitions":{{"A":{{}}}},"items":{{{reference}}}}}"##),
            &format!(r##"{{"$defs":{{"A":{{}}}},"items":{{{name}:"#/$defs/A"}}}}"##),
            &["/items: the reference leads to `$defs` now", "(root): `definitions` is `$defs` now"],
        );
    }
    becomes(
        Pass::Definitions,
        r##"{"definitions":{"a/b%\"":{}},"items":{"$ref":"#/definitions/a~1b%25%22"}}"##,
        r##"{"$defs":{"a/b%\"":{}},"items":{"$ref":"#/$defs/a~1b%25%22"}}"##,
        &["/items: the reference leads to `$defs` now", "(root): `definitions` is `$defs` now"],
    );
    // An address matters only together with a reference by it.
    becomes(
        Pass::Definitions,
        r##"{"$id":"https://x/s","definitions":{"A":{}},"items":[{"$ref":"#/definitions/A"},{"$ref":"other.json#/x-models/A"}]}"##,
        r##"{"$id":"https://x/s","$defs":{"A":{}},"items":[{"$ref":"#/$defs/A"},{"$ref":"other.json#/x-models/A"}]}"##,
        &["/items/0: the reference leads to `$defs` now", "(root): `definitions` is `$defs` now"],
    );
    becomes(
        Pass::Definitions,
        r##"{"definitions":{"A":{}},"items":[{"$ref":"#/definitions/A"},{"$ref":"definitions"}]}"##,
        r##"{"$defs":{"A":{}},"items":[{"$ref":"#/$defs/A"},{"$ref":"definitions"}]}"##,
        &["/items/0: the reference leads to `$defs` now", "(root): `definitions` is `$defs` now"],
    );
    let (new, _) =
        applied(Pass::Definitions, r##"{"definitions":{"A":{"const":1}},"items":{"$ref":"#\/definitions\/A"}}"##);
    let new: Value = serde_json::from_str(&new).unwrap();
    assert!(fits(&new, &json!([1])) && !fits(&new, &json!([2])), "the reference resolves");
}

#[test]
fn definitions_that_are_not_a_keyword_stay() {
    for schema in [
        r#"{"properties":{"definitions":{"type":"string"}}}"#,
        r##"{"properties":{"definitions":{},"a":{"$ref":"#/properties/definitions"}}}"##,
        r##"{"default":{"definitions":{}},"enum":[{"definitions":{}}],"examples":[{"$ref":"#/definitions/A"}]}"##,
        r##"{"items":{"$ref":"other.json#/definitions/A"}}"##,
        r##"{"$ref":"#/default/definitions/A"}"##,
        r#"{"properties":{"$ref":{"type":"string"}}}"#,
    ] {
        stays(Pass::Definitions, schema);
    }
}

#[test]
fn definitions_stay_if_a_reference_may_be_lost() {
    for schema in [
        r##"{"definitions":[{}],"items":{"$ref":"#/definitions/0"}}"##,
        r##"{"definitions":{"A":{"definitions":5}},"items":{"$ref":"#/definitions/A/definitions"}}"##,
        r##"{"":{"definitions":{"A":{}}},"items":{"$ref":"#//definitions/A"}}"##,
    ] {
        stays(Pass::Definitions, schema);
    }
    for schema in [
        r##"{"definitions":{"A":{}},"x-models":{"B":{"$ref":"#/definitions/A"}},"items":{"$ref":"#/x-models/B"}}"##,
        r##"{"$id":"https://x/s","definitions":{"A":{}},"items":{"$ref":"https://x/s#/definitions/A"}}"##,
    ] {
        stays(Pass::Definitions, schema);
    }
    // Schemas over the depth limit are not examined.
    let (open, close) = (r#"{"items":"#.repeat(70), "}".repeat(70));
    stays(
        Pass::Definitions,
        &format!(r##"{{"definitions":{{"A":{{}}}},"not":{open}{{"$ref":"#/definitions/A"}}{close}}}"##),
    );
}

#[test]
fn a_long_name_is_not_repeated_with_everything_in_it() {
    let members: Vec<_> = (0..1_000).map(|at| format!(r#""{at}":{{"items":{{}}}}"#)).collect();
    let schema =
        raw(&format!(r#"{{"properties":{{"n{}":{{"properties":{{{}}}}}}}}}"#, "é".repeat(10_000), members.join(",")));
    let changes = Pass::MissingTypes.apply(&schema).changes;
    assert_eq!(changes.len(), 1_002);
    let written: usize = changes.iter().map(|change| change.at.len()).sum();
    assert!(written < 20 * schema.get().len(), "{written}");
}

#[test]
fn the_first_1024_changes_are_reported() {
    let members: Vec<_> = (0..2_000).map(|at| format!(r#""{at}":{{"items":{{}}}}"#)).collect();
    let many = raw(&format!(r#"{{"type":"object","properties":{{{}}}}}"#, members.join(",")));
    let adapted = Pass::MissingTypes.apply(&many);
    assert_eq!((adapted.changes.len(), adapted.omitted), (1_024, 976));
}

#[test]
fn null_is_removed_from_lists_of_types() {
    becomes(
        Pass::NullUnions,
        r#"{"properties":{"a":{"type":["string","null"],"default":null,"enum":["x",null]},"b":{"type":["null","string","integer"],"default":1},"c":{"type":["string","null"],"enum":[null]}},"required":["a"]}"#,
        r#"{"properties":{"a":{"type":"string","enum":["x"]},"b":{"type":["string","integer"],"default":1},"c":{"type":"string","enum":[null]}},"required":["a"]}"#,
        &["a", "b", "c"]
            .map(|name| format!("/properties/{name}: null is not accepted any more"))
            .each_ref()
            .map(String::as_str),
    );
}

#[test]
fn null_is_removed_from_unions_and_a_single_branch_replaces_them() {
    let pointer = "/properties/a: null is not accepted any more";
    for (before, after) in [
        (
            r#"{"anyOf":[{"type":"integer","description":"inner"},{"type":"null"}],"default":null,"description":"outer"}"#,
            r#"{"description":"outer","type":"integer"}"#,
        ),
        // A reference to a property of this name is none to a branch.
        (
            r##"{"properties":{"b":{"$ref":"#/properties/a/properties/anyOf"}},"oneOf":[{"const":null},{"type":"string"}]}"##,
            r##"{"properties":{"b":{"$ref":"#/properties/a/properties/anyOf"}},"oneOf":[{"type":"string"}]}"##,
        ),
        (r#"{"oneOf":[{"const":null},{"type":"string"}]}"#, r#"{"type":"string"}"#),
        (r##"{"anyOf":[{"$ref":"#/$defs/A"},{"type":"null","title":"n"}]}"##, r##"{"$ref":"#/$defs/A"}"##),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"integer"},{"enum":[null]}]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#,
        ),
        (
            r#"{"minLength":1,"anyOf":[{"type":"string","minLength":3},{"type":"null"}]}"#,
            r#"{"minLength":1,"anyOf":[{"type":"string","minLength":3}]}"#,
        ),
        (r#"{"anyOf":[true,{"type":"null"}]}"#, r#"{"anyOf":[true]}"#),
        (r#"{"anyOf":[{"const":1},{"type":"null"}]}"#, r#"{"const":1}"#),
        (r#"{"anyOf":[{"enum":[1,null]},{"type":"null"}]}"#, r#"{"enum":[1,null]}"#),
        (r#"{"anyOf":[{"enum":[]},{"type":"null"}]}"#, r#"{"enum":[]}"#),
    ] {
        let within = |schema: &str| format!(r#"{{"properties":{{"a":{schema}}}}}"#);
        becomes(Pass::NullUnions, &within(before), &within(after), &[pointer]);
    }
}

#[test]
fn the_single_branch_of_a_union_is_not_merged_with_other_constraints() {
    for (beside, inner) in [
        (r#""additionalProperties":false"#, r#"{"properties":{"a":{}}}"#),
        (r#""properties":{"a":{}}"#, r#"{"additionalProperties":false}"#),
        (r#""properties":{"a":{}}"#, r#"{"unevaluatedProperties":false}"#),
        (r#""unevaluatedItems":false"#, r#"{"prefixItems":[{}]}"#),
        (r#""prefixItems":[{}]"#, r#"{"items":false}"#),
        (r#""items":false"#, r#"{"prefixItems":[{}]}"#),
        (r#""minContains":0"#, r#"{"contains":{"type":"string"}}"#),
        (r#""contains":{"type":"string"}"#, r#"{"minContains":0}"#),
        (r#""then":false"#, r#"{"if":{}}"#),
        (r#""maxLength":1"#, r##"{"$ref":"#/$defs/A"}"##),
        (r#""title":"t""#, r##"{"$id":"https://x/","$ref":"#/$defs/A"}"##),
    ] {
        becomes(
            Pass::NullUnions,
            &format!(r#"{{{beside},"anyOf":[{inner},{{"type":"null"}}]}}"#),
            &format!(r#"{{{beside},"anyOf":[{inner}]}}"#),
            &["(root): null is not accepted any more"],
        );
    }
}

#[test]
fn unions_with_references_to_their_branches_stay() {
    let within = |reference: &str| {
        format!(
            r##"{{"properties":{{"a/b":{{"anyOf":[{{"type":"null"}},{{"type":"string"}}]}},"c":{{"$ref":"{reference}"}}}}}}"##
        )
    };
    for reference in ["#/properties/a~1b/anyOf/1", r"#\/properties\/a~1b\/anyOf\/1", "#/properties/%61~1b%2FanyOf/1"] {
        stays(Pass::NullUnions, &within(reference));
    }
    assert_eq!(applied(Pass::NullUnions, &within("#/properties/a~1b")).1.len(), 1);
    // So does one whose place is too long to be compared, and no other one.
    let long = "a".repeat(600);
    let union = r#"{"anyOf":[{"type":"null"},{"type":"string"}]}"#;
    let two = |first: &str, second: &str| {
        format!(r##"{{"properties":{{"{long}":{first},"b":{second},"c":{{"$ref":"#/properties/{long}/anyOf/1"}}}}}}"##)
    };
    becomes(
        Pass::NullUnions,
        &two(union, union),
        &two(union, r#"{"type":"string"}"#),
        &["/properties/b: null is not accepted any more"],
    );
    let schema = format!(r##"{{"properties":{{"a":{union},"b":{union},"c":{{"$ref":"#/properties/a/anyOf/1"}}}}}}"##);
    let changes = applied(Pass::NullUnions, &schema).1;
    assert_eq!(changes, ["/properties/b: null is not accepted any more"]);
}

#[test]
fn nested_unions_are_adapted_from_the_inside() {
    becomes(
        Pass::NullUnions,
        r#"{"anyOf":[{"anyOf":[{"type":["array","null"],"items":{"type":["null","string"]}},{"type":"null"}]},{"type":"null"}]}"#,
        r#"{"type":"array","items":{"type":"string"}}"#,
        &[
            "/anyOf/0/anyOf/0/items: null is not accepted any more",
            "/anyOf/0/anyOf/0: null is not accepted any more",
            "/anyOf/0: null is not accepted any more",
            "(root): null is not accepted any more",
        ],
    );
}

#[test]
fn null_stays_if_it_is_the_only_type_or_its_removal_would_accept_more() {
    for schema in [
        r#"{"type":"null"}"#,
        r#"{"type":["null"]}"#,
        r#"{"anyOf":[{"type":"null"}]}"#,
        r#"{"type":["string","null"],"const":null}"#,
        r#"{"type":["string","integer"],"enum":["x",null]}"#,
        r#"{"anyOf":[{"const":null,"minimum":1},{"type":"string"}]}"#,
        r#"{"anyOf":[{"enum":[null],"minimum":1},{"type":"string"}]}"#,
        r#"{"not":{"type":["string","null"]}}"#,
        r#"{"if":{"type":["string","null"]},"contains":{"anyOf":[{"type":"null"},{}]}}"#,
        r#"{"default":{"type":["string","null"]},"properties":{"type":{"enum":["string",null]}}}"#,
    ] {
        stays(Pass::NullUnions, schema);
    }
}

#[test]
fn types_are_added_if_implied() {
    becomes(
        Pass::MissingTypes,
        r#"{"properties":{"a":{"properties":{}},"b":{"items":{}},"c":{"enum":["x","y"]},"d":{"maximum":5},"e":{"pattern":"."},"f":{"const":true},"g":{"enum":[1,2.5]}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"object","properties":{}},"b":{"type":"array","items":{}},"c":{"type":"string","enum":["x","y"]},"d":{"type":"number","maximum":5},"e":{"type":"string","pattern":"."},"f":{"type":"boolean","const":true},"g":{"type":"number","enum":[1,2.5]}}}"#,
        &[
            "/properties/a: `type` is object now",
            "/properties/b: `type` is array now",
            "/properties/c: `type` is string now",
            "/properties/d: `type` is number now",
            "/properties/e: `type` is string now",
            "/properties/f: `type` is boolean now",
            "/properties/g: `type` is number now",
            "(root): `type` is object now",
        ],
    );
    becomes(Pass::MissingTypes, "{}", r#"{"type":"object"}"#, &["(root): `type` is object now"]);
}

#[test]
fn no_type_is_guessed() {
    for schema in [
        r#"{"type":"object","properties":{"any":{},"told":{"description":"d"},"union":{"anyOf":[{}],"properties":{}}}}"#,
        r##"{"type":"object","properties":{"reference":{"$ref":"#/$defs/A","minimum":1}}}"##,
        r#"{"type":"object","properties":{"both":{"items":{},"properties":{}},"mixed":{"enum":["a",1]},"null":{"const":null}}}"#,
        r#"{"type":"object","not":{"required":["a"]},"properties":{"properties":true}}"#,
    ] {
        stays(Pass::MissingTypes, schema);
    }
}

#[test]
fn unchanged_parts_keep_their_raw_text() {
    // Half of a surrogate pair, which many parsers refuse, becomes U+FFFD.
    becomes(
        Pass::MissingTypes,
        r#"{"\u0070roperties":{"\u00e9":{"default":1.50e2,"x":"\/"},"a\ud800":[1]}}"#,
        r#"{"type":"object","\u0070roperties":{"\u00e9":{"default":1.50e2,"x":"\/"},"a\ufffd":[1]}}"#,
        &["(root): `type` is object now"],
    );
}

#[test]
fn pointers_are_escaped() {
    let (_, changes) = applied(Pass::MissingTypes, r#"{"type":"object","properties":{"a/b~c":{"items":{}}}}"#);
    assert_eq!(changes, ["/properties/a~1b~0c: `type` is array now"]);
}

#[test]
fn a_schema_of_any_depth_is_processed() {
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(20_000), "}".repeat(20_000));
    for &pass in Pass::BASIC {
        let schema = raw(&deep);
        let adapted = pass.apply(&schema);
        assert_eq!(adapted.changes.is_empty(), pass != Pass::MissingTypes);
    }
    // The type of a value is that of its first byte, however deep the value is.
    for (value, kind) in [("{}", "object"), ("[]", "array")] {
        for depth in 50..80 {
            let (open, close) = (r#"{"items":"#.repeat(depth), "}".repeat(depth));
            let (_, changes) = applied(Pass::MissingTypes, &format!(r#"{open}{{"const":{value}}}{close}"#));
            assert!(!changes.iter().any(|change| change.contains("number")), "{depth}: {changes:?}");
            if depth <= 60 {
                assert!(changes[0].ends_with(&format!("`type` is {kind} now")), "{depth}: {changes:?}");
            }
        }
    }
    for text in ["true", "null", "[]", "5", "\"x\""] {
        Pass::BASIC.iter().copied().for_each(|pass| stays(pass, text));
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![json!(null), json!(true), json!(1), json!(2.5), json!("a"), json!("abc")])
}

fn instance() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn kind() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["null", "string", "number", "boolean", "object", "array"])
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        kind().prop_map(|kind| json!({ "type": kind })),
        prop::collection::btree_set(kind(), 1..4).prop_map(|kinds| json!({ "type": kinds })),
        prop::collection::vec(scalar(), 1..4).prop_map(|values| json!({ "enum": values })),
        scalar().prop_map(|value| json!({ "const": value })),
        Just(json!({"maximum": 2})),
        Just(json!({"minLength": 2, "default": null})),
        Just(json!({"$ref": "#/definitions/d"})),
        Just(json!(false)),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let keyword = prop::sample::select(vec![
            "items",
            "not",
            "if",
            "then",
            "contains",
            "additionalProperties",
            "properties",
            "patternProperties",
            "unevaluatedProperties",
            "unevaluatedItems",
            "prefixItems",
            "minContains",
            "dependentSchemas",
            "anyOf",
            "allOf",
            "nullable",
            "exclusive",
        ]);
        let member = (keyword, inner.clone(), inner).prop_map(|(keyword, a, b)| match keyword {
            "properties" => (keyword, json!({"a": a, "b": b})),
            "patternProperties" => (keyword, json!({"^a": a, "b$": b})),
            "dependentSchemas" => (keyword, json!({"a": a})),
            "prefixItems" => (keyword, json!([a])),
            "minContains" => (keyword, json!(0)),
            "anyOf" | "allOf" => (keyword, json!([a, b])),
            "nullable" => ("anyOf", json!([a, {"type": "null"}])),
            // Branches that exclude each other.
            "exclusive" => ("oneOf", json!([{"type": "null"}, {"type": "object", "properties": {"a": a}}])),
            _ => (keyword, a),
        });
        prop::collection::vec(member, 1..5).prop_map(Value::from_iter)
    })
}

/// Whether the value matches the schema.
fn fits(schema: &Value, value: &Value) -> bool {
    jsonschema::draft202012::new(schema).expect("a schema").is_valid(value)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn values_of_the_adapted_schema_match_the_original(
        schema in schema(),
        values in prop::collection::vec(instance(), 1..8),
    ) {
        // No pass changes the definition, so references to it do not matter.
        let old = json!({
            "type": "object",
            "additionalProperties": schema,
            "definitions": {"d": {"type": "string"}},
        });
        let text = raw(&old.to_string());
        for &pass in Pass::BASIC {
            let adapted = pass.apply(&text);
            let new: Value = serde_json::from_str(adapted.schema.get()).unwrap();
            prop_assert_eq!(adapted.changes.is_empty(), new == old);
            for value in &values {
                let value = json!({ "x": value });
                let (now, before) = (fits(&new, &value), fits(&old, &value));
                match pass {
                    Pass::Definitions => prop_assert_eq!(now, before, "{} {}", new, value),
                    _ => prop_assert!(before || !now, "{:?} {} {}", pass, new, value),
                }
            }
            let again = pass.apply(&adapted.schema);
            prop_assert!(again.changes.is_empty(), "{:?}", again.changes);
        }
    }
}
