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

/// The schemas that a profile changes, and those of them that it widens.
fn changed<'a>(schemas: impl Iterator<Item = &'a Value>, profile: Profile) -> String {
    let (mut count, mut widened) = (0, 0);
    for schema in schemas {
        let schema = raw(schema);
        let changes = adapt(&schema, profile.passes()).changes;
        count += usize::from(!changes.is_empty());
        widened += usize::from(changes.iter().any(|change| change.kind.widens()));
    }
    if count == 0 { "0".into() } else { format!("{count} ({widened})") }
}

#[test]
fn the_guide_says_how_many_schemas_of_real_servers_a_profile_changes() {
    let guide = include_str!("../../src/guide/hosts.md");
    let all: Value = serde_json::from_str(include_str!("schemas_of_servers.json")).unwrap();
    let mut missing = Vec::new();
    for (server, tools) in all.as_object().unwrap().iter().filter(|(server, _)| !server.starts_with("own-")) {
        // `fetch-mcp1.12`
        let server = server.split("-mcp").next().unwrap();
        let tools = tools.as_object().unwrap();
        let of = |profile| changed(tools.values(), profile);
        assert_eq!((of(Profile::OpenAi), of(Profile::Anthropic)), ("0".into(), "0".into()), "{server}");
        let row = format!("| {server} | {} | {} | {} |", tools.len(), of(Profile::OpenAiStrict), of(Profile::Gemini));
        missing.extend(Some(row).filter(|row| !guide.contains(row)));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
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
    let leads = |reference: &Value| {
        let fragment = reference.as_str().and_then(|it| it.strip_prefix('#'));
        let target = fragment.and_then(|fragment| schema.pointer(fragment));
        let is_map = fragment.is_some_and(|it| it.ends_with("/properties") || it.ends_with("/$defs"));
        target.is_some_and(|it| it.is_object() && it != &json!({"$ref": reference}) && !is_map)
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
            // "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", which concerns the root
            // alone, and "It must match JSON Schema draft 2020-12" (the errors of the interface).
            Profile::Anthropic => {
                let is_plain = |key: &String| {
                    let is_taken = |char: char| char.is_ascii_alphanumeric() || "_.-".contains(char);
                    (1..=64).contains(&key.len()) && key.chars().all(is_taken)
                };
                let mut keys = it["properties"].as_object().into_iter().flat_map(|all| all.keys());
                check(it, !is_root || keys.all(is_plain), "names of properties");
                check(it, !it["items"].is_array(), "items is one schema");
                let are_numbers =
                    ["exclusiveMinimum", "exclusiveMaximum"].iter().all(|bound| !has(bound) || it[bound].is_number());
                check(it, are_numbers, "exclusive bounds are numbers");
            }
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
                // "$ref cannot have keywords {'description'}" (the error of the interface).
                check(it, !has("$ref") || only(&["$ref"]), "a reference is alone");
                check(it, !has("$ref") || leads(&it["$ref"]), "a reference leads to a schema");
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
                // "properties: should be non-empty for OBJECT type", "properties: only allowed for OBJECT type", "required:
                // only allowed for OBJECT type" (the errors of the interface). A function without arguments has no schema.
                let is_full = it["properties"].as_object().is_some_and(|all| !all.is_empty());
                check(it, is_root || it["type"] != "object" || is_full, "an object has properties");
                for (name, keywords) in [
                    ("object", &["properties", "required", "minProperties", "maxProperties"][..]),
                    ("array", &["items", "minItems", "maxItems"]),
                    ("string", &["pattern", "minLength", "maxLength"]),
                ] {
                    let is_own = it["type"] == name || !keywords.iter().any(|keyword| has(keyword));
                    check(it, is_own, "the keywords of the type");
                }
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
                "b": {"type": "integer", "description": "enum: [1,2]", "minimum": 1},
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
    let written = |at: usize, api: Api| -> Value { serde_json::from_str(functions[at].json(api).get()).unwrap() };
    let parameters = json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}});
    // A name keeps its hyphen: https://platform.openai.com/docs/api-reference/chat/create (`tools[].function.name`),
    // https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview (`name`) and
    // https://ai.google.dev/api/caching#FunctionDeclaration (`name`) allow letters, digits, underscores and dashes.
    let (name, description) = ("mcp_a_get-it", "Gets \"it\".");
    assert_eq!(
        written(0, Api::OpenAiChat),
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    );
    assert_eq!(
        written(0, Api::OpenAiResponses),
        json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
    );
    assert_eq!(
        written(0, Api::Anthropic),
        json!({"name": name, "description": description, "input_schema": parameters})
    );
    let gemini = written(0, Api::Gemini);
    assert_eq!(gemini["parameters"]["properties"]["a"]["items"]["anyOf"][0], json!({"type": "string"}));
    assert_eq!(written(1, Api::Gemini), json!({"name": "mcp_a_ping"}), "no arguments");
    for api in [Api::OpenAiChatStrict, Api::OpenAiResponsesStrict] {
        let strict = written(1, api);
        let function = strict.get("function").unwrap_or(&strict);
        assert_eq!(
            (&function["strict"], &function["parameters"]["additionalProperties"]),
            (&json!(true), &json!(false))
        );
    }
    assert_eq!(Api::ALL.iter().map(|api| api.profile()).filter(|it| Profile::ALL.contains(it)).count(), 6);
    // Only the profile with `strict` sets it.
    for api in Api::ALL {
        let text = functions[0].json(*api).get().to_owned();
        assert_eq!(text.contains(r#""strict":true"#), api.profile() == Profile::OpenAiStrict, "{text}");
    }
}

/// A rule that can be written otherwise goes into no description.
#[test]
fn what_a_provider_takes_in_another_form_is_not_widened() {
    let integer = |bounds: Value| {
        let mut schema = json!({"type": "integer"});
        schema.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        schema
    };
    for (old, new, widens) in [
        (json!({"exclusiveMinimum": 0, "exclusiveMaximum": 10}), json!({"minimum": 1, "maximum": 9}), false),
        (json!({"exclusiveMinimum": 0, "minimum": 5}), json!({"minimum": 5}), false),
        (json!({"exclusiveMaximum": -1, "maximum": 5}), json!({"maximum": -2}), false),
        (json!({"exclusiveMinimum": 0.5}), json!({"description": "exclusiveMinimum: 0.5"}), true),
        (
            json!({"exclusiveMinimum": i64::MAX}),
            json!({"description": format!("exclusiveMinimum: {}", i64::MAX)}),
            true,
        ),
        (
            json!({"exclusiveMinimum": 0, "minimum": 0.5}),
            json!({"minimum": 0.5, "description": "exclusiveMinimum: 0"}),
            true,
        ),
    ] {
        assert_eq!(applied(Pass::Keywords(Profile::Gemini), &integer(old.clone())), (integer(new), widens), "{old}");
    }
    let number = json!({"type": "number", "exclusiveMinimum": 0});
    assert!(applied(Pass::Keywords(Profile::Gemini), &number).1, "no number is next to it");
    let any =
        json!({"description": "x", "minLength": 2, "minimum": 3, "multipleOf": 2, "maxItems": 1, "format": "date"});
    assert_eq!(
        applied(Pass::AnyTypes, &any),
        (
            json!({"description": "x", "anyOf": [
                {"type": "string", "minLength": 2, "format": "date"},
                {"type": "number", "minimum": 3, "multipleOf": 2},
                {"type": "boolean"},
            ]}),
            false
        )
    );
    assert!(applied(Pass::AnyTypes, &json!({"not": {"type": "string"}})).1);
}

/// A discriminator of 100 constants, and one of 3 in turns.
#[test]
fn every_alternative_of_a_property_is_kept_once() {
    let branches: Vec<Value> = (0..100)
        .map(|at| json!({"properties": {"action": {"const": format!("a_{at}")}, "n": {"const": at % 3}}, "required": ["action"]}))
        .collect();
    let schema = json!({"type": "object", "oneOf": branches});
    for &profile in Profile::ALL {
        let (new, changes) = adapted(profile, &schema);
        let action = new["properties"]["action"].to_string();
        assert!((0..100).all(|at| action.contains(&format!("\"a_{at}\""))), "{profile:?}: {action}");
        assert!(!changes.contains(&SchemaChangeKind::UnionCut), "{profile:?}");
        assert!(changes.contains(&SchemaChangeKind::UnionMerged("oneOf")), "{profile:?}");
    }
    let (new, _) = applied(Pass::RootUnions, &schema);
    assert_eq!(new["properties"]["n"], json!({"anyOf": [{"const": 0}, {"const": 1}, {"const": 2}]}));
}

#[test]
fn what_is_left_out_of_a_union_is_a_change() {
    let large = json!({"properties": {"a": {"enum": vec!["x".repeat(100); 400]}}});
    let twice =
        json!({"type": "object", "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}], "$defs": {"A": large}});
    let changes_of = |schema: &Value| {
        let schema = raw(schema);
        let changes = Pass::RootUnions.apply(&schema).changes;
        changes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let left_out = "(root): a part of a union is left out now".to_owned();
    assert!(changes_of(&twice).contains(&left_out));
    assert!(changes_of(&json!({"anyOf": [{"$ref": "#/$defs/none"}]})).contains(&left_out));
    assert!(!changes_of(&json!({"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": large}})).contains(&left_out));
}

#[test]
fn a_long_union_is_described_by_what_each_branch_requires_and_its_constants() {
    let branch = |at: usize| {
        let text = "It is long. ".repeat(20);
        json!({
            "properties": {"action": {"const": format!("a_{at}")}, format!("p{at}"): {"type": "string", "description": text}},
            "required": ["action", format!("p{at}")],
        })
    };
    let described = |count: usize| {
        let schema = json!({"anyOf": (0..count).map(branch).collect::<Vec<_>>()});
        applied(Pass::RootUnions, &schema).0["description"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        described(3),
        "At least one of these applies: {\"action\":\"a_0\"} required: [\"action\",\"p0\"]; \
         {\"action\":\"a_1\"} required: [\"action\",\"p1\"]; {\"action\":\"a_2\"} required: [\"action\",\"p2\"]"
    );
    let long = described(1_000);
    assert!(long.ends_with('…') && (3_500..4_300).contains(&long.len()), "{} bytes", long.len());
    // References lead to their definitions; what has neither is cut.
    let wide = json!({"properties": {"a": {"description": "d".repeat(600)}}});
    let schema = json!({"anyOf": [{"$ref": "#/$defs/A"}, wide], "$defs": {"A": branch(7)}});
    let told = applied(Pass::RootUnions, &schema).0["description"].as_str().unwrap().to_owned();
    assert!(told.contains(r#"{"action":"a_7"} required: ["action","p7"]; {"properties":{"a""#), "{told}");
    assert!(told.ends_with('…') && told.len() < 500, "{told}");
    // A union of a property, and another rule.
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"k": {"type": "string"}}, "allOf": (0..3).map(branch).collect::<Vec<_>>()},
        "b": {"type": "string", "not": {"enum": vec!["x".repeat(50); 20]}},
    }});
    let new = adapted(Profile::Gemini, &schema).0;
    assert!(new["properties"]["a"].to_string().contains("All of these apply: {"), "{new}");
    let not = new["properties"]["b"]["description"].as_str().unwrap();
    assert!(not.starts_with("not: {") && not.ends_with('…') && not.len() < 600, "{not}");
}

#[test]
fn a_repeated_member_is_written_once() {
    for schema in [
        r#"{"properties":{"a":{},"a":{"const":1}},"anyOf":[{"properties":{"b":{}}}]}"#,
        r#"{"properties":{"x":{}},"anyOf":[{"properties":{"b":{}}}],"properties":{"a":{"const":1}}}"#,
    ] {
        let schema = RawValue::from_string(schema.into()).unwrap();
        let new = Pass::RootUnions.apply(&schema).schema.get().to_owned();
        assert_eq!(new.matches(r#"properties":{"a":{"const":1},"b":{}}"#).count(), 1, "{new}");
        assert!(!new.contains(r#""x""#) && !new.contains(r#""a":{},"#), "{new}");
    }
}

#[test]
fn a_format_stays_with_the_type_that_it_suits() {
    let split = |format: &str, types: Value| {
        let schema = json!({"type": "object", "properties": {"a": {"type": types, "format": format}}});
        let (new, changes) = adapted(Profile::Gemini, &schema);
        (new["properties"]["a"].clone(), changes.contains(&SchemaChangeKind::KeywordDropped { widens: true }), changes)
    };
    let (new, is_told, _) = split("date", json!(["string", "integer"]));
    let branches = json!([{"type": "string", "description": "format: \"date\""}, {"type": "integer"}]);
    assert_eq!((&new["anyOf"], is_told), (&branches, true));
    let (new, is_told, _) = split("int32", json!(["string", "integer"]));
    assert_eq!((&new["anyOf"][1], is_told), (&json!({"type": "integer", "format": "int32"}), false));
    let (new, is_told, _) = split("date-time", json!(["string"]));
    assert_eq!((new, is_told), (json!({"type": "string", "format": "date-time"}), false));
    let (_, _, changes) = split("date", json!(["boolean", "integer"]));
    assert!(changes.contains(&SchemaChangeKind::KeywordDropped { widens: false }), "{changes:?}");
}

/// A union at the root of 40 branches, and one in a property, in an array, with a name of its own in each branch.
#[test]
fn the_nulls_of_all_branches_are_removed() {
    let branch =
        |at: usize| json!({"properties": {format!("p{at}"): {"type": "string"}, "all": {}}, "required": ["all"]});
    let branches: Vec<_> = (0..40).map(branch).collect();
    let inner = json!({"type": "array", "items": {"anyOf": branches}});
    for schema in [
        json!({"type": "object", "anyOf": branches}),
        json!({"type": "object", "properties": {"in": inner}}),
        json!({"type": "object", "anyOf": [{"$ref": "#/$defs/all"}], "$defs": {"all": {"properties": {"in": inner}}}}),
    ] {
        let nulls: serde_json::Map<_, _> = (0..40).map(|at| (format!("p{at}"), json!(null))).collect();
        let mut arguments = Value::Object(nulls);
        arguments["all"] = json!(null);
        let is_inner = schema.get("anyOf").is_none_or(|all| all.as_array().unwrap().len() == 1);
        let (arguments, pruned) = match is_inner {
            true => (json!({"in": [arguments, arguments]}), r#"{"in":[{"all":null},{"all":null}]}"#),
            false => (arguments, r#"{"all":null}"#),
        };
        assert_eq!(without_nulls(&raw(&schema), &raw(&arguments)).get(), pruned, "{schema}");
    }
    // What one branch of the root requires, others do not: the merged object accepts null for it.
    let either =
        json!({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]});
    let arguments = raw(&json!({"a": 1, "b": null}));
    assert_eq!(without_nulls(&raw(&either), &arguments).get(), r#"{"a":1}"#);
}

/// Branches that overlap give each value other schemas than the one before.
#[test]
fn the_search_for_nulls_is_bounded() {
    let branch = |at: usize| {
        let own: serde_json::Map<_, _> = (0..12)
            .filter(|it| it != &at)
            .map(|it| (format!("p{it}"), json!({"$ref": format!("#/$defs/d{at}")})))
            .collect();
        (
            format!("d{at}"),
            json!({"properties": own, "anyOf": (0..12).map(|it| json!({"$ref": format!("#/$defs/d{it}")})).collect::<Vec<_>>()}),
        )
    };
    let definitions: serde_json::Map<_, _> = (0..12).map(branch).collect();
    let schema = json!({"anyOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}], "$defs": definitions});
    let mut arguments = json!({"p2": null});
    for at in 0..4_000 {
        let next = json!({format!("p{}", at % 12): null});
        arguments[format!("p{}", at % 11)] = json!({"p3": next, "p4": [next, {"p5": arguments["p2"]}]});
    }
    without_nulls(&raw(&schema), &raw(&arguments));
    let many = json!({"type": "array", "items": {"anyOf": (0..5_000).map(|at| json!({"properties": {format!("p{at}"): {}}})).collect::<Vec<_>>()}});
    let schema = json!({"properties": {"a": many}});
    let arguments = raw(&json!({"a": vec![json!({"p4999": null}); 20_000]}));
    let pruned = without_nulls(&raw(&schema), &arguments);
    assert!(!pruned.get().contains("null"));
}

#[test]
fn gemini_takes_objects_with_properties_and_keywords_of_their_type() {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "object", "additionalProperties": true, "description": "A query."},
            "words": {"type": "string", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            "plain": {"type": "object", "properties": {"a": {"type": "string"}}, "minLength": 1},
        },
    });
    let (new, changes) = adapted(Profile::Gemini, &schema);
    assert_eq!(
        new["properties"],
        json!({
            "query": {"type": "string", "description": "A query.\nadditionalProperties: true\nAn object, written as JSON"},
            "words": {"type": "string"},
            "plain": {"type": "object", "properties": {"a": {"type": "string"}}},
        })
    );
    assert!(SchemaChangeKind::ObjectAsText.widens() && changes.contains(&SchemaChangeKind::ObjectAsText));
    assert_eq!(changes.iter().filter(|it| **it == SchemaChangeKind::KeywordDropped { widens: false }).count(), 3);
    // A union is not lost for a type that its branches have, too.
    let either = json!([{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"b": {"type": "string"}}}]);
    let (new, changes) = adapted(Profile::Gemini, &json!({"properties": {"a": {"type": "object", "anyOf": either}}}));
    assert_eq!(new["properties"]["a"], json!({"anyOf": either}));
    assert!(!changes.iter().any(|it| it.widens()));
    // A rule that is described keeps its objects.
    let (new, _) = adapted(Profile::Gemini, &json!({"properties": {"a": {"not": {"type": "object"}}}}));
    assert!(new.to_string().contains(r#"not: {\"type\":\"object\"}"#), "{new}");
}

#[test]
fn a_strict_reference_is_alone_and_leads_to_a_schema() {
    let tree = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree", "description": "d", "title": "t"}}, "required": ["next"]});
    let schema = json!({
        "type": "object",
        "properties": {
            "told": {"$ref": "#/$defs/Tree", "description": "d"},
            "titled": {"$ref": "#/$defs/Tree", "title": "t"},
            "bounded": {"$ref": "#/$defs/Tree", "minProperties": 1},
            "elsewhere": {"$ref": "https://x/y"},
            "nowhere": {"$ref": "#/$defs/none", "type": "string"},
            "one": {"oneOf": [tree, {"type": "string"}]},
            "moved": {"$ref": "#/properties/one/oneOf/0"},
            "cycle": {"$ref": "#/$defs/a"},
        },
        "required": ["told", "titled", "bounded", "elsewhere", "nowhere", "one", "moved", "cycle"],
        "$defs": {"Tree": tree, "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    });
    let (new, changes) = adapted(Profile::OpenAiStrict, &schema);
    assert_eq!(broken(Profile::OpenAiStrict, &new), [""; 0]);
    let properties = &new["properties"];
    let alone = json!([{"$ref": "#/$defs/Tree"}]);
    assert_eq!(properties["told"], json!({"anyOf": alone, "description": "d"}));
    assert_eq!(properties["titled"], json!({"anyOf": alone, "title": "t"}));
    assert_eq!(properties["bounded"], json!({"anyOf": alone, "description": "minProperties: 1"}));
    assert_eq!(new["$defs"]["Tree"]["properties"]["next"], json!({"anyOf": alone, "description": "d", "title": "t"}));
    assert_eq!(properties["nowhere"], json!({"type": "string", "description": "$ref: \"#/$defs/none\""}));
    let any = json!([{"type": "string"}, {"type": "number"}, {"type": "boolean"}]);
    for (name, told) in [
        ("elsewhere", "$ref: \"https://x/y\""),
        ("moved", "$ref: \"#/properties/one/oneOf/0\""),
        ("cycle", "$ref: \"#/$defs/a\""),
    ] {
        assert_eq!(properties[name], json!({"anyOf": any, "description": told}), "{name}");
    }
    assert!(changes.contains(&SchemaChangeKind::ReferenceParted));
    assert!(changes.contains(&SchemaChangeKind::KeywordDropped { widens: true }));
    // What holds schemas by name is none.
    let (new, widens) = applied(Pass::LoneReferences, &json!({"properties": {"map": {"$ref": "#/properties"}}}));
    assert_eq!((&new["properties"]["map"]["anyOf"], widens), (&any, true));
    // An optional one accepts null beside its reference.
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/Tree", "description": "d"}}, "$defs": {"Tree": tree}});
    let (new, _) = adapted(Profile::OpenAiStrict, &schema);
    let either = json!([{"$ref": "#/$defs/Tree"}, {"type": "null"}]);
    assert_eq!(new["properties"]["a"], json!({"anyOf": either, "description": "d"}));
}

#[test]
fn anthropic_takes_plain_names_and_2020_12() {
    let inner = json!({"type": "object", "properties": {"$top": {"type": "integer"}}});
    let long = "x".repeat(65);
    let schema = json!({
        "type": "object",
        "properties": {
            "filter[id]": {"type": "string"},
            "$top": {"type": "integer"},
            (long.as_str()): {},
            "a": inner,
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "above": {"type": "integer", "minimum": 3, "exclusiveMinimum": true},
            "below": {"type": "integer", "maximum": 3, "exclusiveMaximum": false},
        },
        "required": ["a", "$top"],
    });
    let old = raw(&schema);
    let Adapted { schema: new, changes, .. } = adapt(&old, Profile::Anthropic.passes());
    let new: Value = serde_json::from_str(new.get()).unwrap();
    assert_eq!(
        new,
        json!({
            "type": "object",
            "properties": {
                "a": inner,
                "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                "above": {"type": "integer", "exclusiveMinimum": 3},
                "below": {"type": "integer", "maximum": 3},
            },
            "required": ["a"],
            "description": "The property \"$top\" is required, too: {\"type\":\"integer\"}",
        })
    );
    let changes: Vec<_> = changes.iter().map(|it| (it.to_string(), it.kind.widens())).collect();
    for name in ["filter[id]", "$top", &long] {
        let change = (format!("/properties/{name}: the property is left out now"), true);
        assert!(changes.contains(&change), "{change:?} of {changes:?}");
    }
    assert!(changes.contains(&("/properties/above: an exclusive bound is written otherwise now".to_owned(), false)));
    // Nothing else is accepted instead of an optional one.
    let closed = json!({"properties": {"$a": {}}, "additionalProperties": false});
    assert_eq!(
        applied(Pass::PropertyNames, &closed),
        (json!({"properties": {}, "additionalProperties": false}), false)
    );
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
        json!({"$ref": "https://x/y", "title": "t", "minLength": 1}),
        json!({"$ref": "#/properties/a/oneOf/0", "type": "object"}),
        json!({"$ref": "#/$defs/a", "title": "t", "properties": {"a": {"type": "string"}}}),
        json!({"type": "string", "properties": {"a": {"type": "string"}}, "required": ["a"], "minimum": 1}),
        json!({"type": "object", "additionalProperties": true, "properties": {}}),
        json!({"type": ["string", "integer"], "format": "date"}),
        json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "exclusiveMaximum": false}),
    ]),];
    let inner = leaf.prop_recursive(4, 24, 3, |inner| {
        let several = || prop::collection::vec(inner.clone(), 1..3);
        let named = prop::collection::btree_map("[abc]|b\\[x\\]|\\$c", inner.clone(), 0..3);
        prop_oneof![
            (named.clone(), prop::collection::vec("[abc]|b\\[x\\]", 0..3), prop::option::of(inner.clone())).prop_map(
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
