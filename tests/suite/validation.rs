//! Results and forms, checked with a validator of the embedder.

use std::cell::RefCell;

use crate::common::{Host, Server, legacy};
use mcp_proto::RawValue;
use mcp_proto::protocol::content::{Elicitation, FormError};
use mcp_proto::validation::{ValidationError, Validator, Violation};
use serde_json::{Value, json};

/// Rejects every instance that contains `wrong`, and records its inputs.
#[derive(Default)]
struct Fake {
    asked: RefCell<Vec<(String, String)>>,
}

impl Validator for Fake {
    fn validate(&self, schema: &RawValue, instance: &RawValue) -> Result<(), ValidationError> {
        self.asked.borrow_mut().push((schema.get().into(), instance.get().into()));
        match instance.get().contains("wrong") {
            true => Err(ValidationError::Instance(Violation::new("/a", "it is wrong"))),
            false => Ok(()),
        }
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// A client of a server with the tools `plain` and `structured`.
pub(crate) fn host(schema: &Value) -> Host {
    let list = json!({"tools": [
        {"name": "plain", "inputSchema": {"type": "object"}},
        {"name": "structured", "inputSchema": {"type": "object"}, "outputSchema": schema},
    ]});
    Host::connect(legacy(), &mut Server::legacy(json!({"tools": {}})).result("tools/list", list))
}

fn check(tool: &str, result: &Value, validator: &Fake) -> Result<(), ValidationError> {
    let host = host(&json!({"type": "object"}));
    host.session.catalog().tool(tool).unwrap().check_result(validator, &raw(result))
}

#[test]
fn a_result_is_checked_against_the_output_schema_of_its_tool() {
    let validator = Fake::default();
    assert_eq!(check("structured", &json!({"content": [], "structuredContent": {"a": 1}}), &validator), Ok(()));
    let found = check("structured", &json!({"content": [], "structuredContent": {"a": "wrong"}}), &validator);
    assert_eq!(found, Err(ValidationError::Instance(Violation::new("/a", "it is wrong"))));
    let asked = [r#"{"a":1}"#, r#"{"a":"wrong"}"#].map(|instance| (r#"{"type":"object"}"#.into(), instance.into()));
    assert_eq!(*validator.asked.borrow(), asked);
}

#[test]
fn a_result_without_structured_content_violates_its_schema() {
    let validator = Fake::default();
    let found = check("structured", &json!({"content": []}), &validator).unwrap_err();
    assert!(found == ValidationError::Missing && found.is_violation());
    assert!(validator.asked.borrow().is_empty());
}

#[test]
fn a_failed_result_and_a_tool_without_an_output_schema_are_not_checked() {
    let validator = Fake::default();
    assert_eq!(check("structured", &json!({"content": [], "isError": true}), &validator), Ok(()));
    let failed = json!({"content": [], "isError": true, "structuredContent": {"why": 7}});
    assert_eq!(check("structured", &failed, &validator), Ok(()));
    let wrong = json!({"content": [], "structuredContent": "wrong"});
    assert_eq!(check("plain", &wrong, &validator), Ok(()));
    assert!(validator.asked.borrow().is_empty());
}

fn form(content: &Value, defaults: bool, validator: &Fake) -> Result<(), FormError> {
    let properties = json!({"age": {"type": "integer", "default": 30}, "name": {"type": "string"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["age"]});
    let params = raw(&json!({"message": "?", "requestedSchema": schema}));
    let mut asked = Elicitation::read(&params);
    asked.form_defaults = defaults;
    asked.check(validator, content)
}

#[test]
fn the_content_of_a_form_is_checked_as_it_is_sent() {
    let validator = Fake::default();
    assert_eq!(form(&json!({"name": "Ann"}), true, &validator), Ok(()));
    assert_eq!(form(&json!({"name": "Ann", "age": 3}), false, &validator), Ok(()));
    assert_eq!(form(&json!({}), true, &validator), Ok(()));
    let sent: Vec<_> = validator.asked.take().into_iter().map(|(_, instance)| instance).collect();
    assert_eq!(sent, [r#"{"name":"Ann","age":30}"#, r#"{"name":"Ann","age":3}"#, r#"{"age":30}"#]);
}

#[test]
fn an_error_names_the_field_of_a_form() {
    let validator = Fake::default();
    let error = form(&json!({"name": "Ann"}), false, &validator).unwrap_err();
    assert_eq!(
        (error.to_string(), error.field(), error.is_violation()),
        ("`age` is required".into(), Some("age"), true)
    );
    assert!(validator.asked.borrow().is_empty());
    let error = form(&json!({"name": "wrong"}), true, &validator).unwrap_err();
    assert_eq!((error.to_string(), error.field(), error.is_violation()), ("`a`: it is wrong".into(), Some("a"), true));
}

#[test]
fn a_pointer_into_a_field_names_the_field() {
    for (pointer, field) in [("", None), ("/a", Some("a")), ("/a~1b~0c/0", Some("a/b~c")), ("/", Some("")), ("a", None)]
    {
        let error = FormError::from(ValidationError::Instance(Violation::new(pointer, "it is wrong")));
        assert_eq!(error.field(), field);
        assert!(error.is_violation());
    }
    let error = FormError::from(ValidationError::dialect("urn:a"));
    assert!(error.field().is_none() && !error.is_violation());
}

#[test]
fn content_that_has_no_form_in_json_is_an_error() {
    let params = raw(&json!({"message": "?", "requestedSchema": {"type": "object"}}));
    let content = std::collections::BTreeMap::from([(vec![1], 2)]);
    let error = Elicitation::read(&params).check(&Fake::default(), &content).unwrap_err();
    assert!(matches!(error, FormError::Content { .. }) && error.is_violation(), "{error:?}");
}

#[test]
fn what_is_no_form_matches() {
    let validator = Fake::default();
    for params in [
        json!({"mode": "url", "url": "https://a.example", "requestedSchema": {}}),
        json!({"mode": "other", "requestedSchema": {}}),
        json!({"message": "?"}),
    ] {
        assert_eq!(Elicitation::read(&raw(&params)).check(&validator, &json!({"a": "wrong"})), Ok(()));
    }
    assert!(validator.asked.borrow().is_empty());
}

#[test]
fn texts_of_violations_are_shortened() {
    let long = "é".repeat(10_000);
    let findings = [
        ValidationError::Instance(Violation::new(&long, &long)),
        ValidationError::schema(&long, &long),
        ValidationError::dialect(&long),
        ValidationError::reference(&long),
    ];
    for finding in findings {
        assert!(finding.to_string().len() < 700, "{}", finding.to_string().len());
    }
}
