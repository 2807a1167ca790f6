//! The validator of the feature `validate`.

use crate::validation::host;
use mcp_proto::RawValue;
use mcp_proto::protocol::content::Elicitation;
use mcp_proto::validation::{JsonSchema, ValidationError, ValidationLimit, Validator};
use serde_json::{Map, Value, json};

const LATEST: &str = "https://json-schema.org/draft/2020-12/schema";

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn text(text: impl Into<String>) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn check(schema: &Value, instance: &Value) -> Result<(), ValidationError> {
    JsonSchema::default().validate(&raw(schema), &raw(instance))
}

/// The position in the instance of the violation.
fn pointer(schema: &Value, instance: &Value) -> String {
    match check(schema, instance) {
        Err(ValidationError::Instance(violation)) => violation.pointer.into(),
        other => panic!("{other:?}"),
    }
}

fn limit(schema: &Value, instance: &Value) -> ValidationLimit {
    match check(schema, instance) {
        Err(ValidationError::Limit(limit)) => limit,
        other => panic!("{:?}", other.map_err(|error| error.to_string())),
    }
}

#[test]
fn structured_results_are_checked_against_their_output_schema() {
    let schema = json!({"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]});
    let host = host(&schema);
    let tool = host.session.catalog().tool("structured").unwrap();
    let found = |structured: Value| {
        let result = raw(&json!({"content": [], "structuredContent": structured}));
        tool.check_result(&JsonSchema::default(), &result)
    };
    assert_eq!(found(json!({"degrees": 22.5})), Ok(()));
    let Err(ValidationError::Instance(violation)) = found(json!({"degrees": "hot"})) else { panic!() };
    assert_eq!(&*violation.pointer, "/degrees");
    assert!(!violation.message.contains("hot"), "the message has no values of the result");
    assert!(found(json!({})).unwrap_err().is_violation());
}

#[test]
fn responses_to_forms_are_checked_against_their_schema() {
    let schema = json!({"type": "object", "required": ["age"], "properties": {
        "age": {"type": "integer", "minimum": 0}, "color": {"type": "string", "enum": ["red", "blue"], "default": "red"}
    }});
    let params = raw(&json!({"message": "?", "requestedSchema": schema}));
    let asked = Elicitation::read(&params);
    let found = |content: Value| asked.check(&JsonSchema::default(), &content);
    assert_eq!(found(json!({"age": 3})), Ok(()));
    for (wrong, field) in [
        (json!({}), "age"),
        (json!({"age": -1}), "age"),
        (json!({"age": "3"}), "age"),
        (json!({"age": 3, "color": "green"}), "color"),
    ] {
        let error = found(wrong).unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
        assert!(error.is_violation());
    }
}

#[test]
fn a_schema_without_a_dialect_is_read_as_2020_12() {
    let schema = json!({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}});
    assert_eq!(check(&schema, &json!(["a", 1, 2])), Ok(()));
    assert_eq!(pointer(&schema, &json!(["a", 1, "b"])), "/2");
    assert_eq!(check(&json!(true), &json!(1)), Ok(()));
    assert_eq!(pointer(&json!(false), &json!(1)), "");
}

#[test]
fn the_declared_dialect_decides_what_a_schema_means() {
    // In draft 4, `exclusiveMinimum` is a boolean; in draft 7, members beside `$ref` are ignored.
    let four = json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true});
    assert_eq!(pointer(&four, &json!(1)), "");
    let sibling = |dialect: &str| {
        let nothing = json!({"$ref": "#/definitions/any", "maximum": 1});
        let schema = json!({"$schema": dialect, "definitions": {"any": {}}, "properties": {"a": nothing}});
        check(&schema, &json!({"a": 2})).is_ok()
    };
    for (dialect, ignored) in [
        ("http://json-schema.org/draft-04/schema#", true),
        ("http://json-schema.org/draft-06/schema#", true),
        ("http://json-schema.org/draft-07/schema#", true),
        ("https://json-schema.org/draft-07/schema", true),
        ("https://json-schema.org/draft/2019-09/schema", false),
        (LATEST, false),
        ("http://json-schema.org/draft/2020-12/schema#", false),
    ] {
        assert_eq!(sibling(dialect), ignored, "{dialect}");
    }
}

#[test]
fn an_unknown_dialect_is_an_error_that_names_it() {
    for dialect in ["https://example.com/my-dialect", "http://json-schema.org/draft-03/schema#", ""] {
        let expected = ValidationError::dialect(dialect);
        assert_eq!(check(&json!({"$schema": dialect, "type": "object"}), &json!({})), Err(expected.clone()));
        let inner = json!({"properties": {"a": {"$id": "https://a.example/a", "$schema": dialect}}});
        assert_eq!(check(&inner, &json!({})), Err(expected));
    }
    assert!(!ValidationError::dialect("").is_violation());
}

#[test]
fn a_reference_out_of_the_schema_is_refused_and_not_fetched() {
    for reference in ["https://example.com/schema.json", "file:///etc/passwd", "other.json", "#/$defs/none", "#none"] {
        let schema = json!({"properties": {"a": {"$ref": reference}}});
        let found = check(&schema, &json!({})).unwrap_err();
        assert!(matches!(found, ValidationError::Reference { .. }), "{reference}: {found:?}");
    }
    let dynamic = json!({"$dynamicRef": "https://example.com/schema.json#node"});
    assert!(matches!(check(&dynamic, &json!({})), Err(ValidationError::Reference { .. })));
}

#[test]
fn an_address_that_is_none_is_an_error_of_the_schema() {
    for schema in [
        json!({"$id": "http://[::1"}),
        json!({"$id": "http://example.com/x#a"}),
        json!({"properties": {"a": {"$id": "http://[::1"}}}),
        json!({"properties": {"a": {"$ref": "http://[::1"}}}),
        json!({"$id": "urn:x", "properties": {"a": {"$id": "y"}}}),
    ] {
        let error = check(&schema, &json!({})).unwrap_err();
        assert!(matches!(error, ValidationError::Schema { .. }), "{schema} {error}");
    }
    // A relative one, and one that is not in its shortest form.
    for id in ["", "x/y", "HTTP://EXAMPLE.com:80/a/../b"] {
        assert_eq!(check(&json!({"$id": id}), &json!({})), Ok(()), "{id}");
    }
}

/// Each address is as long as the identifiers above it, and the library keeps all of them.
#[test]
fn addresses_that_are_long_and_many_are_refused() {
    for (name, address) in [("$id", "a"), ("$ref", "#/$defs/a"), ("$ref", "elsewhere"), ("$schema", LATEST)] {
        for (length, count, is_refused) in [(20_000, 500, true), (20_000, 10, false), (100, 500, false)] {
            let one = |at: usize| json!({name: if name == "$id" { format!("{address}{at}") } else { address.into() }});
            let parts: Vec<_> = (0..count).map(one).collect();
            let id = format!("https://a.example/{}/", "x".repeat(length));
            let schema = json!({"$id": id, "$defs": {"a": {}}, "allOf": parts});
            let found = check(&schema, &json!(1));
            assert_eq!(
                found == Err(ValidationError::Limit(ValidationLimit::Subschemas)),
                is_refused,
                "{name} {found:?}"
            );
        }
    }
}

#[test]
fn references_within_a_schema_and_to_a_dialect_are_resolved() {
    let schema = json!({
        "$id": "https://a.example/root.json",
        "$defs": {
            "positive": {"$anchor": "positive", "exclusiveMinimum": 0},
            "word": {"$id": "word.json", "type": "string"},
        },
        "properties": {
            "a": {"$ref": "#/$defs/positive"},
            "b": {"$ref": "#positive"},
            "c": {"$ref": "word.json"},
            "d": {"$ref": LATEST},
        },
    });
    assert_eq!(check(&schema, &json!({"a": 1, "b": 1, "c": "x", "d": {"type": "string"}})), Ok(()));
    for (name, value) in [("a", json!(0)), ("b", json!(0)), ("c", json!(0)), ("d", json!({"type": "strings"}))] {
        assert!(pointer(&schema, &json!({name: value})).starts_with(&format!("/{name}")));
    }
}

#[test]
fn dynamic_references_lead_to_the_outermost_anchor() {
    let tree = json!({"$id": "tree", "$dynamicAnchor": "node", "type": "object", "properties": {
        "data": true, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}
    }});
    let schema = json!({
        "$id": "https://a.example/strict-tree", "$dynamicAnchor": "node", "$ref": "tree",
        "unevaluatedProperties": false, "$defs": {"tree": tree}
    });
    assert_eq!(check(&schema, &json!({"children": [{"data": 1}]})), Ok(()));
    assert!(check(&schema, &json!({"children": [{"daat": 1}]})).unwrap_err().is_violation());
}

#[test]
fn an_invalid_schema_is_distinguished_from_an_invalid_value() {
    for (schema, place) in [
        (json!({"type": 1}), "/type"),
        (json!({"properties": {"a": {"minimum": "x"}}}), "/properties/a/minimum"),
        (json!([]), ""),
        (json!("object"), ""),
    ] {
        let Err(ValidationError::Schema { pointer, .. }) = check(&schema, &json!({})) else { panic!("{schema}") };
        assert_eq!(&*pointer, place, "{schema}");
    }
    for pattern in ["(", "(?=a)b", r"(a)\1"] {
        let found = check(&json!({"pattern": pattern}), &json!("a")).unwrap_err();
        assert!(matches!(found, ValidationError::Schema { .. }), "{pattern}: {found:?}");
    }
}

#[test]
fn formats_are_checked_if_the_dialect_or_the_embedder_requires_it() {
    let schema = |dialect: &str| raw(&json!({"$schema": dialect, "format": "date"}));
    let (old, wrong) = ("http://json-schema.org/draft-07/schema#", raw(&json!("2026-02-30")));
    let mut validator = JsonSchema::default();
    for (formats, dialect, valid) in
        [(None, LATEST, true), (None, old, false), (Some(true), LATEST, false), (Some(false), old, true)]
    {
        validator.formats = formats;
        assert_eq!(validator.validate(&schema(dialect), &wrong).is_ok(), valid, "{formats:?} {dialect}");
    }
}

#[test]
fn a_schema_that_applies_itself_to_the_same_value_is_an_error() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
        json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
        json!({"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}]}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}),
        json!({"unevaluatedProperties": false, "if": {"$ref": "#"}}),
    ] {
        assert_eq!(check(&schema, &json!({"a": 1})), Err(ValidationError::Loop), "{schema}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_for_nested_values_is_applied() {
    let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let nested = |depth: usize, end: &str| text([r#"{"next":"#.repeat(depth), end.into(), "}".repeat(depth)].concat());
    let validator = JsonSchema::default();
    assert_eq!(validator.validate(&raw(&list), &nested(60, "{}")), Ok(()));
    let Err(ValidationError::Instance(violation)) = validator.validate(&raw(&list), &nested(60, "1")) else { panic!() };
    assert!(violation.pointer.starts_with("/next/next/"), "{violation:?}");
    let deep = ValidationError::Limit(ValidationLimit::InstanceDepth);
    assert_eq!(validator.validate(&raw(&list), &nested(10_000, "{}")), Err(deep));
}

#[test]
fn a_schema_of_10_000_levels_exceeds_a_limit() {
    let levels = 10_000;
    let inline = text([r#"{"not":"#.repeat(levels), "{}".into(), "}".repeat(levels)].concat());
    let found = JsonSchema::default().validate(&inline, &raw(&json!(1)));
    assert_eq!(found, Err(ValidationError::Limit(ValidationLimit::SchemaDepth)));

    for keyword in ["$ref", "property", "unused"] {
        let links = (0..4_000).map(|at| {
            let next = json!({"$ref": format!("#/$defs/{}", at + 1)});
            let link = if keyword == "property" { json!({"properties": {"a": next}}) } else { next };
            (at.to_string(), link)
        });
        let mut defs: Map<_, _> = links.collect();
        defs.insert("4000".into(), json!({}));
        let first = if keyword == "unused" { json!({}) } else { json!({"$ref": "#/$defs/0"}) };
        let schema = json!({"$defs": defs, "allOf": [first]});
        assert_eq!(limit(&schema, &json!(1)), ValidationLimit::Nesting, "{keyword}");
    }
}

#[test]
fn the_deepest_schemas_and_values_fit_in_a_stack_of_1_mib() {
    let link = |at: usize| json!({"$ref": format!("#/$defs/{at}")});
    let below = |at: usize| json!({"properties": {"a": link(at + 1), "b": true}, "additionalProperties": link(at + 1)});
    let same = |at: usize| json!({"oneOf": [link(at + 1)]});
    let row = |count: usize, each: &dyn Fn(usize) -> Value, end: Value| {
        let mut defs: Map<_, _> = (0..count).map(|at| (at.to_string(), each(at))).collect();
        defs.insert(count.to_string(), end);
        json!({"$defs": defs, "$ref": "#/$defs/0"})
    };
    let again = || json!({"additionalProperties": link(0)});
    let deep = text([r#"{"a":"#.repeat(60), "{}".into(), "}".repeat(60)].concat());
    let admitted = [
        row(30, &below, json!({})),
        row(30, &same, json!({})),
        row(94, &|at| link(at + 1), json!({})),
        row(3, &|at| link(at + 1), again()),
        row(1, &same, again()),
    ];
    let mut refused = 0;
    for schema in admitted.into_iter().chain((31..60).map(|count| row(count, &below, json!({})))) {
        let (schema, deep) = (raw(&schema), deep.clone());
        let check = move || JsonSchema::default().validate(&schema, &deep);
        let found = std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
        match found {
            Err(ValidationError::Limit(ValidationLimit::Nesting)) => refused += 1,
            found => assert_eq!(found, Ok(())),
        }
    }
    assert!((1..25).contains(&refused), "{refused}");
}

/// Definitions that each apply the next one twice: two to the power of `count` in total.
fn doubling(count: usize, each: impl Fn(Value) -> Value) -> Map<String, Value> {
    let mut defs: Map<_, _> =
        (0..count).map(|at| (at.to_string(), each(json!({"$ref": format!("#/$defs/{}", at + 1)})))).collect();
    defs.insert(count.to_string(), json!({"type": "integer"}));
    defs
}

#[test]
fn references_that_double_the_work_at_each_step_exceed_a_limit() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let defs = doubling(40, |next| json!({keyword: [next, next]}));
        let schema = json!({"$defs": defs, "$ref": "#/$defs/0"});
        assert_eq!(limit(&schema, &json!(1)), ValidationLimit::Subschemas, "{keyword}");
        let schema = json!({"$defs": defs, "propertyNames": {"$ref": "#/$defs/0"}, "unevaluatedProperties": false});
        assert_eq!(limit(&schema, &json!(1)), ValidationLimit::Subschemas, "{keyword}");
    }
    // Few subschemas per value, but each level of the value doubles them.
    let next = json!({"properties": {"a": {"$ref": "#"}}});
    let schema = json!({"anyOf": [next, next], "not": {"const": 1}});
    let levels = 55;
    let deep = text([r#"{"a":"#.repeat(levels), "1".into(), "}".repeat(levels)].concat());
    let found = JsonSchema::default().validate(&raw(&schema), &deep);
    assert_eq!(found, Err(ValidationError::Limit(ValidationLimit::Work)));
}

#[test]
fn keywords_for_unevaluated_members_do_not_multiply_the_work() {
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        let strict = |schema: Value| {
            let mut schema = schema;
            schema[keyword] = json!(false);
            schema
        };
        let chain = doubling(30, |next| strict(json!({"anyOf": [next]})));
        assert_eq!(limit(&json!({"$defs": chain, "$ref": "#/$defs/0"}), &json!(1)), ValidationLimit::Subschemas);
        let below =
            doubling(30, |next| strict(json!({"patternProperties": {"a": strict(next.clone()), "b": strict(next)}})));
        assert_eq!(limit(&json!({"$defs": below, "$ref": "#/$defs/0"}), &json!(1)), ValidationLimit::Subschemas);
        // The validator would never finish compiling this.
        let endless = strict(json!({"patternProperties": {"a": strict(json!({"$ref": "#"}))}}));
        assert_eq!(limit(&endless, &json!({})), ValidationLimit::Subschemas);
        // A common schema.
        let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}}, "unevaluatedProperties": false});
        assert_eq!(check(&tree, &json!({"children": [{"children": []}]})), Ok(()));
        assert!(check(&tree, &json!({"children": [{"other": 1}]})).unwrap_err().is_violation());
    }
}

#[test]
fn each_limit_has_a_typed_error() {
    let mut validator = JsonSchema::default();
    validator.limits.schema_bytes = 10;
    validator.limits.instance_bytes = 5;
    let found = |schema: &str, instance: &str| validator.validate(&text(schema), &text(instance));
    assert!(found(r#"{"not":{}}"#, "12345").unwrap_err().is_violation());
    assert_eq!(found(r#"{"not":{} }"#, "1"), Err(ValidationError::Limit(ValidationLimit::SchemaBytes)));
    assert_eq!(found("{}", "123456"), Err(ValidationError::Limit(ValidationLimit::InstanceBytes)));
    assert_eq!(found("{}", "1e999"), Err(ValidationError::Limit(ValidationLimit::Number)));

    let many = vec![json!({}); 10_001];
    assert_eq!(limit(&json!({"prefixItems": many}), &json!([])), ValidationLimit::Subschemas);
    let patterns = |count: usize| (0..count).map(|at| json!({"pattern": format!("a|{at}")})).collect::<Vec<_>>();
    assert_eq!(check(&json!({"allOf": patterns(64)}), &json!("a")), Ok(()));
    assert_eq!(limit(&json!({"allOf": patterns(65)}), &json!("a")), ValidationLimit::Patterns);
    assert_eq!(check(&json!({"allOf": vec![json!({"pattern": "a"}); 65]}), &json!("a")), Ok(()), "the same each time");
}

#[test]
fn patterns_with_many_escape_sequences_are_refused_before_they_are_translated() {
    let repeated = |unit: &str, times: usize| unit.repeat(times);
    for unit in ["\\d", "\\cA", "[\\d]"] {
        let pattern = repeated(unit, 8_000);
        assert_eq!(limit(&json!({"properties": {"a": {"pattern": pattern}}}), &json!({})), ValidationLimit::Patterns);
        let named = json!({"patternProperties": {repeated(unit, 8_000): {}}});
        assert_eq!(limit(&named, &json!({})), ValidationLimit::Patterns);
    }
    let several: Vec<_> = (0..32).map(|at| json!({"pattern": repeated("\\d", 40) + &at.to_string()})).collect();
    assert_eq!(limit(&json!({"allOf": several}), &json!("1")), ValidationLimit::Patterns);
    // A pattern in use: a semantic version.
    let version = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?$";
    let schema = json!({"items": {"pattern": version}});
    assert_eq!(check(&schema, &json!(["1.0.0-rc.1"])), Ok(()));
    assert!(check(&schema, &json!(["1.0"])).unwrap_err().is_violation());
    assert_eq!(check(&json!({"pattern": repeated("a", 1_000)}), &json!(repeated("a", 1_000))), Ok(()));
}

/// The least work that a check is admitted with.
fn work(schema: &Value, instance: &Value) -> u64 {
    let (schema, instance) = (raw(schema), raw(instance));
    let mut validator = JsonSchema::default();
    let mut admits = |work| {
        validator.limits.work = work;
        validator.validate(&schema, &instance) != Err(ValidationError::Limit(ValidationLimit::Work))
    };
    let (mut least, mut most) = (0, 1 << 24);
    assert!(admits(most));
    while least < most {
        let middle = least.midpoint(most);
        if admits(middle) { most = middle } else { least = middle + 1 }
    }
    least
}

/// Ways in which a pattern is compared with a text.
fn compared(pattern: &str, text: &str) -> [(Value, Value); 5] {
    let named = json!({text: 1});
    [
        (json!({"pattern": pattern}), json!(text)),
        (json!({"items": {"not": {"pattern": pattern}}}), json!([text])),
        (json!({"patternProperties": {pattern: true}}), named.clone()),
        (json!({"propertyNames": {"pattern": pattern}}), named.clone()),
        (json!({"allOf": [{"patternProperties": {pattern: true}}], "unevaluatedProperties": true}), named),
    ]
}

#[test]
fn a_pattern_costs_its_compiled_states_times_the_bytes_of_texts_and_names() {
    let long = "ab".repeat(128 << 10);
    for (schema, instance) in compared("[ab]*a[ab]{8000}c", &long).iter().chain(&compared("[ab]*a[ab]{20}c", &long)) {
        assert_eq!(limit(schema, instance), ValidationLimit::Work, "{schema}");
    }
    let costs = |count: usize, length: usize| {
        let (pattern, text) = (format!("[ab]*a(?:[ab]{{10}}){{{count}}}c"), "ab".repeat(length / 2));
        compared(&pattern, &text).map(|(schema, instance)| work(&schema, &instance))
    };
    let (once, states, bytes) = (costs(40, 500), costs(80, 500), costs(40, 1_000));
    for ((once, states), bytes) in once.into_iter().zip(states).zip(bytes) {
        assert!(once > 100_000);
        for twice in [states, bytes] {
            assert!((once * 19 / 10..once * 21 / 10).contains(&twice), "{once} {twice}");
        }
    }
    // A group makes the states larger.
    let groups = |group: &str| work(&json!({"pattern": format!("[ab]*a{}c", group.repeat(200))}), &json!("ab"));
    assert!(groups("([ab])") > 5 * groups("(?:[ab])"));
}

#[test]
fn patterns_in_use_are_admitted_on_many_values() {
    let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    let time = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$";
    for (pattern, text, count) in [
        (uuid, "01234567-89ab-cdef-0123-456789abcdef", 20_000),
        (time, "2026-07-28T12:00:00Z", 20_000),
        (r"^[\w.-]{1,255}$", "a-name.of_something", 20_000),
        (r"^[^\s@]+@[^\s@]+\.[^\s@]+$", "somebody@example.com", 500),
        (r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[\da-z.-]+)?$", "10.20.30-rc.1", 500),
        (r"\S", "a few words", 1_000),
    ] {
        assert_eq!(check(&json!({"items": {"pattern": pattern}}), &json!(vec![text; count])), Ok(()), "{pattern}");
    }
}

#[test]
fn a_pattern_that_becomes_too_large_exceeds_a_limit() {
    for pattern in ["(?:(?:a{100}){100}){100}", "(?:[ab]?){20000}c", r"\p{L}{100}"] {
        for (schema, instance) in compared(pattern, "a") {
            assert_eq!(limit(&schema, &instance), ValidationLimit::Patterns, "{schema}");
        }
    }
    let together = |count: usize| (0..count).map(|at| json!({"pattern": format!("[ab]{{9000}}{at}")})).collect();
    let together = |count: usize| json!({"allOf": Value::Array(together(count))});
    assert_eq!(check(&together(4), &json!(1)), Ok(()));
    assert_eq!(limit(&together(6), &json!(1)), ValidationLimit::Patterns);
    let long = format!("[{}]", "ab".repeat(10_000));
    assert_eq!(limit(&json!({"pattern": long}), &json!("a")), ValidationLimit::Patterns);
}

#[test]
fn what_is_compiled_more_than_once_is_bounded() {
    let part = |schema: Value, all: Value| {
        let mut all = all;
        all["$defs"] = json!({"part": schema});
        all
    };
    let refs = |count: usize| vec![json!({"$ref": "#/$defs/part"}); count];
    let wide: Map<_, _> = (0..3_000).map(|at| (at.to_string(), json!(true))).collect();
    let large = || json!({"prefixItems": vec![json!({}); 3_000]});
    let names = vec![json!({"propertyNames": {"$ref": "#/$defs/part"}}); 3_000];
    for schema in [
        // These the library would compile without end.
        json!({"allOf": [{"properties": {"a": {"unevaluatedProperties": false, "$ref": "#"}}}]}),
        json!({"propertyNames": {"$ref": "#"}}),
        // These once for each reference.
        part(json!({"properties": wide}), json!({"allOf": refs(900), "unevaluatedProperties": false})),
        part(json!({"patternProperties": {"a": large()}}), json!({"allOf": refs(900), "unevaluatedProperties": false})),
        part(
            json!({"patternProperties": {"[ab]{1000}": true}}),
            json!({"allOf": refs(900), "unevaluatedProperties": false}),
        ),
        part(large(), json!({"allOf": names})),
        // So what they do not know.
        part(
            json!({"patternProperties": {"a": {"x-unknown": vec![json!({}); 3_000]}}}),
            json!({"allOf": refs(300), "unevaluatedProperties": false}),
        ),
        // The library copies the path to each subschema, and what `not` has.
        (0..25).fold(large(), |inner, _| json!({"properties": {"a".repeat(6_000): inner}})),
        (0..55).fold(json!({"prefixItems": vec![json!({}); 8_000]}), |inner, _| json!({"not": inner})),
    ] {
        assert_eq!(limit(&schema, &json!({})), ValidationLimit::Subschemas, "{:.60}", schema.to_string());
    }
    // It does not copy what it reads as schemas.
    let read =
        (0..29).fold(json!({"prefixItems": vec![json!({}); 8_000]}), |inner, _| json!({"properties": {"a": inner}}));
    assert_eq!(check(&read, &json!({})), Ok(()));
}

#[test]
fn rows_of_embedded_resources_are_bounded() {
    // Each resource refers to the two of the next layer, and the library compiles a resource for each row that leads to it.
    let layers = |count: usize| {
        let id = |layer: usize, at: usize| format!("https://a.example/{layer}/{at}");
        let resource = |layer: usize, at: usize| {
            let next = |to: usize| if layer < count { json!({"$ref": id(layer + 1, to)}) } else { json!({}) };
            json!({"$id": id(layer, at), "properties": {"a": next(0), "b": next(1)}})
        };
        let all = (0..=count).flat_map(|layer| [resource(layer, 0), resource(layer, 1)]);
        let defs: Map<_, _> = all.enumerate().map(|(at, resource)| (at.to_string(), resource)).collect();
        json!({"$defs": defs, "$ref": id(0, 0)})
    };
    assert_eq!(check(&layers(4), &json!({"a": {"b": {}}})), Ok(()));
    assert_eq!(limit(&layers(30), &json!({})), ValidationLimit::Subschemas);
    let dialect = json!({"$defs": {"a": {"$id": LATEST, "not": {}}}});
    let found = check(&dialect, &json!(1));
    assert!(
        matches!(found, Err(ValidationError::Schema { pointer, .. }) if &*pointer == "/$id"),
        "a dialect stays what it is"
    );
}

#[test]
fn elements_are_counted_in_pairs_where_they_may_have_the_same_hash() {
    // All have the same leaves in the same order, which is what the library hashes.
    let nested = |count: usize| {
        let bits = |at: usize| (0..12).map(|bit| if at >> bit & 1 == 0 { json!([]) } else { json!([[]]) }).collect();
        (0..count).map(bits).collect::<Vec<Value>>()
    };
    let unique = json!({"uniqueItems": true});
    assert_eq!(limit(&unique, &json!(nested(2_000))), ValidationLimit::Work);
    for dialect in ["draft-04", "draft-06"] {
        let schema = json!({"$schema": format!("http://json-schema.org/{dialect}/schema#"), "enum": nested(2_000)});
        assert_eq!(limit(&schema, &json!(1)), ValidationLimit::Work, "the elements of `enum` must be unique");
    }
    let integers: Vec<_> = (0..5_000_u64).map(|at| (1 << 63) + at).collect();
    assert_eq!(limit(&unique, &json!(integers)), ValidationLimit::Work);
    let words: Vec<_> = (0..20_000).map(|at| at.to_string()).collect();
    assert_eq!(check(&unique, &json!(words)), Ok(()));
    assert_eq!(check(&unique, &json!((0..20_000).collect::<Vec<_>>())), Ok(()));
    assert_eq!(check(&unique, &json!(nested(300))), Ok(()));
}

/// The steps are what a check is refused for, so a change of one is seen here: one for the subschema, for each keyword and for
/// each edge to another subschema; more for what takes long.
#[test]
fn each_keyword_has_its_steps() {
    let old = "http://json-schema.org/draft-07/schema#";
    let one = json!({"a": 1});
    let (long, longer) = ("x".repeat(64), "x".repeat(640));
    for (schema, instance, steps) in [
        (json!({}), json!(1), 1),
        (json!({"minimum": 1}), json!(1), 2),
        (json!({"minimum": 1, "maximum": 2}), json!(1), 3),
        (json!({"minLength": 1}), json!(long), 4),
        (json!({"minLength": 1}), json!(longer), 22),
        (json!({"multipleOf": 2}), json!(4), 2),
        (json!({"multipleOf": 0.5}), json!(4), 66),
        (json!({"multipleOf": 0.5}), json!("4"), 2),
        (json!({"format": "date", "$schema": old}), json!("x"), 19),
        (json!({"format": "date", "$schema": old}), json!(4), 3),
        (json!({"format": "idn-email", "$schema": old}), json!(long), 86),
        (json!({"contentMediaType": "a/b", "$schema": old}), json!(long), 70),
        (json!({"enum": [1, [2, 3], {"b": long}]}), json!(1), 25),
        (json!({"const": {longer.clone(): 1}}), json!(1), 13),
        (json!({"required": ["a", "b"]}), json!({}), 10),
        (json!({"type": ["string", "number"]}), json!(1), 10),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({}), 8),
        (json!({"uniqueItems": true}), json!([1, 2, 3, 4]), 12),
        (json!({"uniqueItems": true}), json!([[1], [2], [3], [4], [5], [6], [7], [8]]), 44),
        (json!({"uniqueItems": true}), json!([9_007_199_254_740_993_u64, 9_007_199_254_740_995_u64, -1]), 10),
        (json!({"uniqueItems": true}), json!(vec![9_007_199_254_740_992_u64; 8]), 20),
        (json!({"uniqueItems": true}), json!(vec![9_007_199_254_740_993_u64; 8]), 24),
        (json!({"items": {"type": "integer"}}), json!([1, 2, 3]), 12),
        (json!({"items": {"type": "integer"}}), one.clone(), 4),
        (json!({"contains": {"type": "integer"}}), json!([1, 2, 3]), 12),
        (json!({"prefixItems": [{"const": 1}, {"const": 2}]}), json!([1, 2, 3]), 8),
        (json!({"items": [{"const": 1}], "additionalItems": {}, "$schema": old}), json!([1, 2, 3]), 17),
        (json!({"properties": {"a": {}, "b": {}}}), one.clone(), 5),
        (json!({"properties": {"a": {}}, "additionalProperties": {"minimum": 0}}), json!({"a": 1, "b": 2, "c": 3}), 13),
        (json!({"additionalProperties": {"minimum": 0}}), json!({"a": 1, "b": 2, "c": 3}), 12),
        (json!({"patternProperties": {"^a": {"minimum": 0}}}), json!({"a": 1, "b": 2}), 75),
        (json!({"propertyNames": {"minLength": 1}}), json!({"a": 1, "b": 2}), 9),
        (json!({"pattern": "^a+$"}), json!("aaaa"), 83),
        (json!({"pattern": "a.*b"}), json!("aaaa"), 116),
        (json!({"allOf": [{"minimum": 1}, {"minimum": 2}]}), json!(1), 8),
        (json!({"if": {"minimum": 1}, "then": {}, "else": {}, "not": {"const": 1}}), json!(1), 15),
        (json!({"dependentSchemas": {"a": {"minProperties": 1}}}), one.clone(), 5),
        (json!({"dependencies": {"a": {"minProperties": 1}}, "$schema": old}), one.clone(), 8),
        (json!({"unevaluatedProperties": {"minimum": 0}}), json!({"a": 1, "b": 2}), 18),
        (json!({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": {}}), json!({"a": 1, "b": 2}), 29),
        (
            json!({"allOf": [{"patternProperties": {"a": {}}}], "unevaluatedProperties": {}}),
            json!({"a": 1, "b": 2}),
            231,
        ),
        (json!({"propertyNames": {}, "unevaluatedProperties": {}}), json!({"a": 1, "b": 2}), 24),
        (json!({"unevaluatedItems": {"minimum": 0}, "prefixItems": [{}]}), json!([1, 2]), 24),
        (json!({"$defs": {"a": {"minimum": 1}}, "$ref": "#/$defs/a"}), json!(1), 7),
        (json!({"$defs": {"a": {"minimum": 1}}}), json!(1), 3),
        (json!({"contentSchema": {"minimum": 1}}), json!("1"), 3),
    ] {
        assert_eq!(work(&schema, &instance), steps, "{schema} {instance}");
    }
}

#[test]
fn keywords_that_take_long_count_more() {
    let old = "http://json-schema.org/draft-07/schema#";
    let long = "aé".repeat(400_000);
    for (schema, instance) in [
        (json!({"items": {"multipleOf": 0.01}}), json!(vec![1.25; 20_000])),
        (json!({"items": {"format": "date"}, "$schema": old}), json!(vec!["2026-07-28"; 60_000])),
        (json!({"format": "idn-hostname", "$schema": old}), json!(long)),
        (json!({"contentMediaType": "application/json", "$schema": old}), json!(long)),
    ] {
        assert_eq!(limit(&schema, &instance), ValidationLimit::Work, "{schema}");
    }
    assert_eq!(check(&json!({"items": {"multipleOf": 5}}), &json!(vec![10; 20_000])), Ok(()));
}

#[test]
fn the_format_regex_is_not_checked() {
    let draft = "http://json-schema.org/draft-07/schema#";
    let instance = json!("\\d".repeat(8_000));
    assert_eq!(check(&json!({"$schema": draft, "format": "regex"}), &instance), Ok(()));
    assert_eq!(check(&json!({"$ref": draft, "$schema": draft}), &json!({"pattern": "\\d".repeat(8_000)})), Ok(()));
    assert!(check(&json!({"$schema": draft, "format": "ipv4"}), &json!("x")).unwrap_err().is_violation());
}

#[test]
fn the_work_of_a_check_is_limited_before_it_begins() {
    let many = |subschema: Value| json!({"allOf": vec![subschema; 4_000]});
    let array: Vec<usize> = (0..20_000).collect();
    let long = "x".repeat(1 << 20);
    let names: Map<_, _> = (0..20_000).map(|at| (at.to_string(), json!(1))).collect();
    let choices: Vec<_> = (0..20_000).map(|at| format!("{at}")).collect();
    for (schema, instance) in [
        (many(json!({"uniqueItems": true})), json!(array)),
        (many(json!({"items": {"type": "integer"}})), json!(array)),
        (many(json!({"maxLength": 1})), json!(long)),
        (many(json!({"additionalProperties": false})), json!(names)),
        (many(json!({"propertyNames": {"maxLength": 9}})), json!(names)),
        (json!({"items": {"enum": choices}}), json!(array)),
    ] {
        assert_eq!(limit(&schema, &instance), ValidationLimit::Work, "{}", schema.to_string().get(..60).unwrap());
    }
}

#[test]
fn a_large_value_is_checked_and_its_violation_is_small() {
    let schema = json!({"items": {"anyOf": [{"type": "string"}, {"properties": {"n": {"type": "integer"}}}]}});
    let mut items = vec![json!({"n": 1, "text": "x".repeat(30)}); 30_000];
    assert_eq!(check(&schema, &json!(items)), Ok(()));
    items.push(json!({"n": "1"}));
    let found = check(&schema, &json!(items)).unwrap_err();
    assert!(found.is_violation() && found.to_string().len() < 300, "{found}");
}

/// `$dynamicRef` leads to the outermost anchor of its name. One in the schema extends the dialect, whose references to
/// itself are then compiled anew at each place.
#[test]
fn a_schema_that_extends_its_dialect_exceeds_a_limit() {
    let extension = |anchor: &str| json!({"$ref": LATEST, "$defs": {"extension": {"$dynamicAnchor": anchor}}});
    assert_eq!(limit(&extension("meta"), &json!({})), ValidationLimit::Subschemas);
    assert_eq!(check(&extension("other"), &json!({})), Ok(()));
}

#[test]
fn names_are_checked_beside_a_keyword_for_unevaluated_members() {
    let schema = json!({
        "allOf": [{"propertyNames": {"maxLength": 3}, "properties": {"abc": true, "abcd": true}}],
        "unevaluatedProperties": false,
    });
    assert_eq!(check(&schema, &json!({"abc": 1})), Ok(()));
    assert!(check(&schema, &json!({"abcd": 1})).unwrap_err().is_violation(), "the name is too long");
    assert!(check(&schema, &json!({"x": 1})).unwrap_err().is_violation(), "nothing evaluated it");
}

#[test]
fn dynamic_references_to_many_anchors_exceed_a_limit() {
    let schema = |references: usize, anchors: usize| {
        let anchor = |at: usize| (format!("a{at}"), json!({"$id": format!("urn:{at}"), "$dynamicAnchor": "x"}));
        json!({
            "anyOf": vec![json!({"$dynamicRef": "#x"}); references],
            "$dynamicAnchor": "x",
            "$defs": (0..anchors).map(anchor).collect::<Map<String, Value>>(),
        })
    };
    assert_eq!(limit(&schema(200, 200), &json!(1)), ValidationLimit::Subschemas);
    // With 10,000 it is seen that the schema applies itself.
    assert_eq!(check(&schema(100, 99), &json!(1)), Err(ValidationError::Loop));
    assert_eq!(limit(&schema(100, 100), &json!(1)), ValidationLimit::Subschemas);
    let anchor = |at: usize| (format!("a{at}"), json!({"$id": format!("urn:{at}"), "$recursiveAnchor": true}));
    let recursive = json!({
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "anyOf": vec![json!({"$recursiveRef": "#"}); 200],
        "$recursiveAnchor": true,
        "$defs": (0..200).map(anchor).collect::<Map<String, Value>>(),
    });
    assert_eq!(limit(&recursive, &json!(1)), ValidationLimit::Subschemas);
}

#[test]
fn a_schema_may_have_as_much_as_each_limit_says() {
    let link = |at: usize| json!({"$ref": format!("#/$defs/{at}")});
    // 96 subschemas in a row.
    let row = |count: usize| {
        let defs: Map<_, _> = (1..count).map(|at| (at.to_string(), link(at + 1))).collect();
        let mut schema = json!({"$defs": defs, "$ref": "#/$defs/1"});
        schema["$defs"][(count - 1).to_string()] = json!({});
        schema
    };
    // The same, of which each one leads to the others.
    let knot = |count: usize| {
        let members: Map<_, _> = (1..count).map(|at| (at.to_string(), json!({"$ref": "#"}))).collect();
        json!({"properties": members})
    };
    // 10,000 that are applied to one value.
    let applied = |count: usize| {
        let mut defs = doubling(11, |next| json!({"allOf": [next, next]}));
        defs.insert("11".into(), json!({}));
        let mut all = vec![json!({}); count - 2 - 8_189];
        all.push(link(0));
        json!({"$defs": defs, "allOf": all})
    };
    // 1 MiB of addresses.
    let addressed = |count: usize| {
        let id = format!("https://a.example/{}", "x".repeat(1_024 - 18));
        json!({"$id": id, "$defs": {"a": {}}, "allOf": vec![json!({"$ref": "#/$defs/a"}); count - 1]})
    };
    // 16 KiB of a pattern.
    let pattern = |length: usize| json!({"pattern": format!("[{}]", "a".repeat(length - 2))});
    for (at, (most, more, limit)) in [
        (row(96), row(97), ValidationLimit::Nesting),
        (knot(96), knot(97), ValidationLimit::Nesting),
        (applied(10_000), applied(10_001), ValidationLimit::Subschemas),
        (addressed(1_024), addressed(1_025), ValidationLimit::Subschemas),
        (pattern(16_384), pattern(16_385), ValidationLimit::Patterns),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(check(&most, &json!(1)), Ok(()), "{at}");
        assert_eq!(check(&more, &json!(1)), Err(ValidationError::Limit(limit)), "{at}");
    }
}

#[test]
fn a_long_name_of_a_dialect_is_shortened_between_characters() {
    for before in ["", "x"] {
        let error = check(&json!({"$schema": format!("{before}{}", "é".repeat(1000))}), &json!(1)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&"é".repeat(100)) && text.contains('…') && text.len() < 400, "{text}");
    }
}
