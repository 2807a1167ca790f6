//! Schemas as providers take them: the passes of each profile, against a model of the provider's rules, on generated schemas
//! and on those of real servers (`schemas_of_servers.json`, with descriptions cut short).

use mcp_proto::RawValue;
use mcp_proto::host::names::Style;
use mcp_proto::host::schema::{Adapted, Pass, Profile, SchemaChangeKind, adapt, without_nulls};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rig::{Rig, with_tools};
use mcp_proto::host::toolset::Api;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// What a pass makes of a schema, and whether that widens it.
fn applied(pass: Pass, schema: &Value) -> (Value, bool) {
    let schema = raw(schema);
    let Adapted { schema, changes, .. } = pass.apply(&schema);
    (serde_json::from_str(schema.get()).unwrap(), changes.iter().any(|change| change.kind.widens()))
}

fn adapted(profile: Profile, schema: &Value) -> (Value, Vec<SchemaChangeKind>) {
    let schema = raw(schema);
    let Adapted { schema, changes, .. } = adapt(&schema, profile.passes());
    (serde_json::from_str(schema.get()).unwrap(), changes.iter().map(|change| change.kind).collect())
}

/// The schemas of real servers, by server and tool.
fn real() -> Vec<(String, Value)> {
    let all: Value = serde_json::from_str(include_str!("schemas_of_servers.json")).unwrap();
    let of_server = |(server, tools): (&String, &Value)| {
        let tools = tools.as_object().unwrap().iter();
        tools.map(|(tool, schema)| (format!("{server} {tool}"), schema.clone())).collect::<Vec<_>>()
    };
    all.as_object().unwrap().iter().flat_map(of_server).collect()
}

/// Calls `each` with every schema that validates, and with whether it is the root.
fn walk(schema: &Value, is_root: bool, each: &mut impl FnMut(&Value, bool)) {
    each(schema, is_root);
    let Some(members) = schema.as_object() else { return };
    for (keyword, value) in members {
        match keyword.as_str() {
            "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                value.as_object().into_iter().flat_map(|named| named.values()).for_each(|it| walk(it, false, each));
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array().into_iter().flatten().for_each(|it| walk(it, false, each));
            }
            "items" | "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "additionalProperties" => {
                walk(value, false, each);
            }
            _ => {}
        }
    }
}

fn names(list: &Value) -> Vec<&str> {
    let mut names: Vec<_> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names
}

/// The rules of a provider that a schema breaks.
fn broken(profile: Profile, schema: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut check = |it: &Value, is_right: bool, rule: &str| {
        if !is_right {
            broken.push(format!("{rule}: {it}"));
        }
    };
    walk(schema, true, &mut |it, is_root| {
        let has = |keyword: &str| it.get(keyword).is_some();
        let only = |taken: &[&str]| it.as_object().is_some_and(|all| all.keys().all(|key| taken.contains(&&**key)));
        let is_array = it["type"] == "array" || it["type"].as_array().is_some_and(|all| all.contains(&json!("array")));
        if is_root {
            // https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview: `input_schema` is an object, and "does
            // not support oneOf, allOf, or anyOf at the top level" (the error of the interface).
            check(it, it["type"] == "object", "the root is an object");
            check(it, !has("anyOf") && !has("oneOf") && !has("allOf"), "no union at the root");
        }
        match profile {
            // https://platform.openai.com/docs/guides/function-calling: "schema must have type 'object' and not have
            // 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", "array schema missing items", "object schema missing
            // properties" (the errors of the interface).
            Profile::OpenAi => {
                check(it, !is_root || it["properties"].is_object() && !has("enum") && !has("not"), "a plain root");
                check(it, !is_array || it["items"].is_object(), "an array has items");
            }
            // https://platform.openai.com/docs/guides/structured-outputs#supported-schemas: the keywords that are supported;
            // "All fields must be required", "additionalProperties: false must always be set in objects", "Root objects must
            // not be anyOf".
            Profile::OpenAiStrict if it.is_boolean() => check(it, it == false, "closed"),
            Profile::OpenAiStrict => {
                let taken = [
                    "type",
                    "properties",
                    "required",
                    "additionalProperties",
                    "items",
                    "anyOf",
                    "enum",
                    "const",
                    "$ref",
                    "$defs",
                    "title",
                    "description",
                    "pattern",
                    "format",
                    "multipleOf",
                    "maximum",
                    "minimum",
                    "exclusiveMaximum",
                    "exclusiveMinimum",
                    "minItems",
                    "maxItems",
                ];
                check(it, only(&taken), "a keyword that is supported");
                check(it, ["type", "anyOf", "enum", "const", "$ref"].iter().any(|keyword| has(keyword)), "a type");
                check(it, !is_array || it["items"].is_object(), "an array has items");
                if it["type"] == "object" {
                    let properties = it["properties"].as_object().into_iter().flat_map(|all| all.keys());
                    let mut properties: Vec<_> = properties.map(|it| &**it).collect();
                    properties.sort_unstable();
                    check(it, it["additionalProperties"] == false, "additionalProperties is false");
                    check(it, names(&it["required"]) == properties, "all are required");
                }
                let formats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
                check(it, it["format"].as_str().is_none_or(|format| formats.contains(&format)), "a format");
            }
            // https://ai.google.dev/api/caching#Schema: the fields of `Schema`; `type` is one of the enumeration; `enum` is of
            // strings; with `anyOf`, "it must be the only field set" beside a description (the error of the interface).
            Profile::Gemini => {
                let taken = [
                    "type",
                    "format",
                    "title",
                    "description",
                    "enum",
                    "maxItems",
                    "minItems",
                    "properties",
                    "required",
                    "minProperties",
                    "maxProperties",
                    "minLength",
                    "maxLength",
                    "pattern",
                    "anyOf",
                    "default",
                    "items",
                    "minimum",
                    "maximum",
                ];
                check(it, only(&taken), "a field of Schema");
                let types = ["string", "number", "integer", "boolean", "array", "object", "null"];
                check(it, has("anyOf") || it["type"].as_str().is_some_and(|name| types.contains(&name)), "one type");
                check(it, !has("anyOf") || only(&["anyOf", "description"]), "anyOf is alone");
                let is_text = |values: &Value| values.as_array().is_some_and(|all| all.iter().all(Value::is_string));
                check(it, !has("enum") || it["type"] == "string" && is_text(&it["enum"]), "enum is of strings");
                check(it, !is_array || it["items"].is_object(), "an array has items");
                let known = |name: &&str| it["properties"].get(*name).is_some();
                check(it, names(&it["required"]).iter().all(known), "what is required is a property");
                let formats = ["date-time", "enum", "float", "double", "int32", "int64"];
                check(it, it["format"].as_str().is_none_or(|format| formats.contains(&format)), "a format");
            }
            _ => {}
        }
    });
    broken
}

#[test]
fn a_profile_satisfies_its_provider_on_the_schemas_of_real_servers() {
    let real = real();
    assert!(real.len() > 100);
    for &profile in Profile::ALL {
        let unfit = real.iter().filter(|(_, schema)| !broken(profile, schema).is_empty()).count();
        // None of them has a union at its root, or an array without items.
        let is_strict = matches!(profile, Profile::OpenAiStrict | Profile::Gemini);
        assert_eq!(unfit > 100, is_strict, "the model of {profile:?} finds {unfit}");
        for (tool, schema) in &real {
            let (new, _) = adapted(profile, schema);
            assert_eq!(broken(profile, &new), [""; 0], "{profile:?}, {tool}");
            let again = adapted(profile, &new).0;
            assert_eq!(broken(profile, &again), [""; 0], "{profile:?}, {tool}, once more");
        }
    }
}

#[test]
fn root_unions_become_one_object() {
    let schema = json!({
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "oneOf": [
            {"properties": {"route": {"type": "string"}, "n": {"type": "integer"}}, "required": ["route", "n"]},
            {"properties": {"file": {"type": "string"}, "n": {"type": "string"}}, "required": ["file", "n"]},
        ],
    });
    let (new, widens) = applied(Pass::RootUnions, &schema);
    assert!(widens);
    let n = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(
        new["properties"],
        json!({"id": {"type": "string"}, "route": {"type": "string"}, "n": n, "file": {"type": "string"}})
    );
    assert_eq!((names(&new["required"]), &new["type"]), (vec!["id", "n"], &json!("object")));
    assert_eq!(new["description"], format!("Exactly one of these applies: {}", schema["oneOf"]));
    // All of an `allOf` are required; branches may be references, and have unions of their own.
    let schema = json!({
        "description": "Impact.",
        "allOf": [{"$ref": "#/$defs/A"}, {"anyOf": [{"required": ["c"]}, {"required": ["c", "d"]}]}],
        "$defs": {"A": {"properties": {"a": {}}, "required": ["a"]}},
    });
    let (new, _) = applied(Pass::RootUnions, &schema);
    assert_eq!((names(&new["required"]), &new["properties"]), (vec!["a", "c"], &json!({"a": {}})));
    assert!(new["description"].as_str().unwrap().starts_with("Impact.\nAll of these apply: ["));
    // A plain object stays, byte for byte.
    let plain = raw(&json!({"type": "object", "properties": {}}));
    assert!(std::ptr::eq(&*Pass::RootUnions.apply(&plain).schema, &*plain));
    assert_eq!(applied(Pass::RootUnions, &json!({})), (json!({"type": "object", "properties": {}}), false));
}

#[test]
fn an_array_without_items_gets_items() {
    let of = |a: Value| json!({"properties": {"a": a}});
    for (before, after, widens) in [
        (json!({"type": "array"}), json!({"type": "array", "items": {}}), false),
        (json!({"type": ["array", "null"]}), json!({"type": ["array", "null"], "items": {}}), false),
        (json!({"type": "array", "items": true}), json!({"type": "array", "items": {}}), false),
        (
            json!({"type": "array", "items": [{"const": 1}]}),
            json!({"type": "array", "items": {"anyOf": [{"const": 1}]}}),
            true,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "array", "items": {"type": "string"}}),
            false,
        ),
        (json!({"type": "string"}), json!({"type": "string"}), false),
    ] {
        assert_eq!(applied(Pass::ArrayItems, &of(before)), (of(after), widens));
    }
}

#[test]
fn a_reference_is_replaced_by_its_definition_where_that_does_not_recur() {
    let schema = json!({
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "own"},
            "b": {"allOf": [{"$ref": "#/$defs/B"}]},
            "tree": {"$ref": "#/$defs/Tree"},
            "bounded": {"$ref": "#/$defs/B", "minLength": 3},
            "nowhere": {"$ref": "#/$defs/None"},
            "elsewhere": {"$ref": "https://x/y"},
        },
        "$defs": {
            "A": {"type": "array", "items": {"$ref": "#/$defs/B"}, "description": "its"},
            "B": {"type": "string"},
            "Tree": {"properties": {"children": {"items": {"$ref": "#/$defs/Tree"}}}},
        },
    });
    let (new, widens) = applied(Pass::References, &schema);
    let properties = &new["properties"];
    assert!(!widens);
    assert_eq!(properties["a"], json!({"type": "array", "items": {"type": "string"}, "description": "own"}));
    assert_eq!(properties["b"], json!({"type": "string"}));
    for same in ["tree", "bounded", "nowhere", "elsewhere"] {
        assert_eq!(properties[same], schema["properties"][same]);
    }
    assert!(new["$defs"].get("Tree").is_some(), "what is referred to stays");
    let simple = json!({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}});
    assert_eq!(applied(Pass::References, &simple).0, json!({"properties": {"a": {"type": "string"}}}));
    // 64 KiB at most.
    let large = json!({"enum": vec!["x".repeat(100); 400]});
    let twice = json!({"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}}, "$defs": {"A": large}});
    let (new, _) = applied(Pass::References, &twice);
    assert_eq!((&new["properties"]["a"], &new["properties"]["b"]), (&large, &twice["properties"]["b"]));
}

#[test]
fn const_becomes_an_enum_of_one_value() {
    let schema = json!({"properties": {"a": {"const": 1, "enum": [1, 2]}, "b": {"default": {"const": 1}}}});
    let new = json!({"properties": {"a": {"enum": [1]}, "b": {"default": {"const": 1}}}});
    assert_eq!(applied(Pass::ConstAsEnum, &schema), (new, false));
}

#[test]
fn keywords_that_a_provider_refuses_go_into_the_description() {
    let schema = json!({
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "a": {"type": "string", "description": "An address.", "format": "uri", "pattern": "^h"},
            "b": {"type": "integer", "enum": [1, 2], "exclusiveMinimum": 0},
            "c": {"type": ["string", "integer"], "minLength": 1, "minimum": 2},
        },
        "required": ["a", "missing"],
        "additionalProperties": false,
    });
    let (new, widens) = applied(Pass::Keywords(Profile::Gemini), &schema);
    assert!(widens);
    assert_eq!(
        new,
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "An address.\nformat: \"uri\"", "pattern": "^h"},
                "b": {"type": "integer", "description": "enum: [1,2]\nexclusiveMinimum: 0"},
                "c": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 2}]},
            },
            "required": ["a"],
            "description": "additionalProperties: false",
        })
    );
    // What a provider takes as it is stays, and annotations go without a word.
    assert_eq!(applied(Pass::Keywords(Profile::OpenAi), &schema), (schema.clone(), false));
    assert!(!applied(Pass::Keywords(Profile::Gemini), &json!({"type": "object", "$comment": "x"})).1);
}

#[test]
fn a_strict_object_requires_all_and_the_nulls_are_removed_from_the_arguments() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "integer"}}}},
        "required": ["a"],
    });
    let (new, _) = adapted(Profile::OpenAiStrict, &schema);
    assert_eq!((names(&new["required"]), &new["additionalProperties"]), (vec!["a", "b"], &json!(false)));
    assert_eq!(new["properties"]["b"]["anyOf"][1], json!({"type": "null"}));
    let arguments = raw(&json!({"a": "x", "b": {"c": null}, "other": null}));
    assert_eq!(without_nulls(&raw(&schema), &arguments).get(), r#"{"a":"x","b":{},"other":null}"#);
    let whole = raw(&json!({"a": null, "b": {"c": 1}}));
    assert!(std::ptr::eq(&*without_nulls(&raw(&schema), &whole), &*whole), "a required one stays");
}

/// References that lead to themselves, double, or nest; unions of unions; depth.
#[test]
fn a_hostile_schema_is_bounded() {
    let doubling: Value = (0..40)
        .map(|at| {
            let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
            (format!("d{at}"), json!({"type": "object", "properties": {"a": next, "b": next}, "allOf": [next, next]}))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let cycle =
        json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": {"allOf": [{"$ref": "#/$defs/a"}]}});
    let chain: Value = (0..5_000)
        .map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let many: Vec<Value> = (0..5_000)
        .map(|at| json!({"properties": {format!("p{at}"): {"$ref": "#/$defs/d0"}, "same": {"const": at}}}))
        .collect();
    let mut nested = json!({"required": ["x"]});
    for _ in 0..30 {
        nested = json!({"anyOf": [nested, {"allOf": [{"type": "object"}]}]});
    }
    for schema in [
        json!({"$ref": "#/$defs/d0", "$defs": doubling}),
        json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "anyOf": [{"$ref": "#/$defs/d0"}], "$defs": doubling}),
        json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#"}], "$defs": cycle}),
        json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "allOf": [{"$ref": "#/$defs/d0"}], "$defs": chain}),
        json!({"anyOf": many, "$defs": {"d0": {"type": "string"}}}),
        json!({"$ref": "#", "properties": {"a": {"$ref": "#"}}}),
        nested,
        json!({"properties": {"a": (0..20_000).map(|at| (format!("x-{at}"), json!(at))).collect::<serde_json::Map<_, _>>()}}),
    ] {
        let length = schema.to_string().len();
        for &profile in Profile::ALL {
            let (new, _) = adapted(profile, &schema);
            assert_eq!(broken(profile, &new), [""; 0], "{profile:?}");
            assert!(
                new.to_string().len() < 4 * length + (256 << 10),
                "{profile:?}: {} of {length}",
                new.to_string().len()
            );
            without_nulls(&raw(&schema), &raw(&json!({"a": {"a": {"a": null}}, "x": null})));
        }
    }
    // No parser for tests reads so deep a value.
    let deep = format!("{}{{}}{}", r#"{"type":["object","array"],"items":"#.repeat(20_000), "}".repeat(20_000));
    let deep = RawValue::from_string(deep).unwrap();
    Profile::ALL.iter().for_each(|profile| assert!(adapt(&deep, profile.passes()).schema.get().len() < 4_000_000));
}

#[test]
fn a_function_is_written_for_each_provider() {
    let tools = json!({"tools": [
        {"name": "get-it", "description": "Gets \"it\".", "inputSchema": {"type": "object", "properties": {"a": {"type": "array"}}}},
        {"name": "ping", "inputSchema": {"type": "object"}},
    ]});
    let mut options = mcp_proto::host::hub::HubOptions::new(crate::common::legacy());
    options.names = mcp_proto::host::names::Names::new(Style::MCP.with_hyphens());
    let rig = Rig::new(options).peer("a", with_tools(&[]).result("tools/list", tools)).up(&["a"]);
    let functions: Vec<_> = rig.hub.functions().map(|(_, function)| function).collect();
    let written = |at: usize, api: Api, profile: Profile| -> Value {
        serde_json::from_str(functions[at].json(api, profile).get()).unwrap()
    };
    let parameters = json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}});
    // A name keeps its hyphen: https://platform.openai.com/docs/api-reference/chat/create (`tools[].function.name`),
    // https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview (`name`) and
    // https://ai.google.dev/api/caching#FunctionDeclaration (`name`) allow letters, digits, underscores and dashes.
    let (name, description) = ("mcp_a_get-it", "Gets \"it\".");
    assert_eq!(
        written(0, Api::OpenAiChat, Profile::OpenAi),
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    );
    assert_eq!(
        written(0, Api::OpenAiResponses, Profile::OpenAi),
        json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
    );
    let anthropic = json!({"type": "object", "properties": {"a": {"type": "array"}}});
    assert_eq!(
        written(0, Api::Anthropic, Profile::Anthropic),
        json!({"name": name, "description": description, "input_schema": anthropic})
    );
    let gemini = written(0, Api::Gemini, Profile::Gemini);
    assert_eq!(gemini["parameters"]["properties"]["a"]["items"]["anyOf"][0], json!({"type": "string"}));
    assert_eq!(written(1, Api::Gemini, Profile::Gemini), json!({"name": "mcp_a_ping"}), "no arguments");
    for api in [Api::OpenAiChat, Api::OpenAiResponses] {
        let strict = written(1, api, Profile::OpenAiStrict);
        let function = strict.get("function").unwrap_or(&strict);
        assert_eq!(
            (&function["strict"], &function["parameters"]["additionalProperties"]),
            (&json!(true), &json!(false))
        );
    }
    assert_eq!(Api::ALL.iter().map(|api| api.profile()).filter(|it| Profile::ALL.contains(it)).count(), 4);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![json!(null), json!(true), json!(1), json!(2.5), json!("a"), json!("b")]);
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![prop::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "integer", "minimum": 1}),
        json!({"type": "array"}),
        json!({}),
        json!(true),
        json!(false),
        json!({"const": "a"}),
        json!({"enum": [1, "a", null]}),
        json!({"type": "string", "pattern": "^a", "format": "uri", "minLength": 1}),
        json!({"type": "null"}),
        json!({"$ref": "#/$defs/a"}),
        json!({"$ref": "#/$defs/b", "description": "d"}),
        json!({"$ref": "#"}),
        json!({"type": ["array", "string", "object"], "minItems": 1, "maxLength": 3}),
        json!({"default": null, "title": "t"}),
        json!({"enum": ["a", "b"]}),
        json!({"type": "object"}),
        json!({"minLength": 1, "minItems": 1}),
    ]),];
    let inner = leaf.prop_recursive(4, 24, 3, |inner| {
        let several = || prop::collection::vec(inner.clone(), 1..3);
        let named = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
        prop_oneof![
            (named.clone(), prop::collection::vec("[abc]", 0..3), prop::option::of(inner.clone())).prop_map(
                |(properties, required, more)| {
                    let mut schema = json!({"type": "object", "properties": properties, "required": required});
                    if let Some(more) = more {
                        schema["additionalProperties"] = more;
                    }
                    schema
                }
            ),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            several().prop_map(|items| json!({"items": items})),
            several().prop_map(|prefix| json!({"type": "array", "prefixItems": prefix, "uniqueItems": true})),
            (prop::sample::select(vec!["anyOf", "oneOf", "allOf"]), several(), any::<bool>()).prop_map(
                |(keyword, all, has_type)| {
                    if has_type {
                        json!({keyword: all, "type": "object"})
                    } else {
                        json!({keyword: all, "title": "u", "description": "d"})
                    }
                }
            ),
            inner.clone().prop_map(|not| json!({"not": not, "type": "string"})),
            (inner.clone(), inner.clone()).prop_map(|(first, then)| json!({"if": first, "then": then, "x-own": [1]})),
        ]
    });
    (inner.clone(), inner.clone(), inner).prop_map(|(mut root, a, b)| {
        if let Some(members) = root.as_object_mut() {
            members.insert("$defs".into(), json!({"a": a, "b": b}));
        }
        root
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_profile_satisfies_its_provider_on_generated_schemas(schema in schema().prop_filter("an object", Value::is_object)) {
        for &profile in Profile::ALL {
            let (new, _) = adapted(profile, &schema);
            prop_assert_eq!(broken(profile, &new), Vec::<String>::new(), "{:?}: {} of {}", profile, new, schema);
        }
    }
}

#[cfg(feature = "validate")]
mod validity {
    use super::*;
    use mcp_proto::validation::{JsonSchema, Validator};

    fn fits(schema: &Value, value: &Value) -> Option<bool> {
        match JsonSchema::default().validate(&raw(schema), &raw(value)) {
            Ok(()) => Some(true),
            Err(error) => error.is_violation().then_some(false),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Of each profile and of each of its passes.
        #[test]
        fn arguments_for_the_new_schema_are_valid_for_the_old_one_unless_a_change_says_otherwise(
            schema in schema().prop_filter("an object", Value::is_object),
            values in prop::collection::vec(value(), 1..4),
        ) {
            // The exceptions that the documentation names: what is stricter in a branch of a `oneOf`, or in a definition that a
            // `not` refers to.
            let text = schema.to_string();
            let is_excepted = text.contains("oneOf") || text.contains("$ref") && (text.contains("not") || text.contains("if"));
            let keeps_meaning =
                |pass: &Pass| matches!(pass, Pass::Definitions | Pass::References | Pass::ConstAsEnum | Pass::ArrayItems);
            let single = Profile::ALL.iter().flat_map(|profile| profile.passes().iter().map(std::slice::from_ref));
            for passes in Profile::ALL.iter().map(|profile| profile.passes()).chain(single) {
                if is_excepted && !passes.iter().all(keeps_meaning) {
                    continue;
                }
                let old = raw(&schema);
                let Adapted { schema: new, changes, .. } = adapt(&old, passes);
                let new: Value = serde_json::from_str(new.get()).unwrap();
                if changes.iter().any(|change| change.kind.widens()) {
                    continue;
                }
                for value in &values {
                    if fits(&new, value) == Some(true) {
                        prop_assert_ne!(fits(&schema, value), Some(false), "{:?}: {} for {}, of {}", passes, value, new, schema);
                    }
                }
            }
        }
    }

    /// What a strict provider writes is valid for the server once the nulls are out.
    #[test]
    fn strict_arguments_of_real_servers_are_valid_without_nulls() {
        let schema = json!({
            "type": "object",
            "properties": {"q": {"type": "string"}, "of": {"type": "array", "items": {"$ref": "#/$defs/F"}}},
            "required": ["q"],
            "$defs": {"F": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}, "required": ["k"]}},
        });
        let new = adapted(Profile::OpenAiStrict, &schema).0;
        for arguments in
            [json!({"q": "x", "of": null}), json!({"q": "x", "of": [{"k": "a", "v": null}, {"k": "b", "v": 1}]})]
        {
            assert_eq!(fits(&new, &arguments), Some(true), "{new}");
            assert_eq!(fits(&schema, &arguments), Some(false));
            let pruned = without_nulls(&raw(&schema), &raw(&arguments)).get().to_owned();
            assert_eq!(fits(&schema, &serde_json::from_str(&pruned).unwrap()), Some(true), "{pruned}");
        }
    }
}
