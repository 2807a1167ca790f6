//! Results and forms, checked with a validator of the embedder.

use std::cell::RefCell;

use crate::common::{Host, Server, legacy};
use mcp_proto::RawValue;
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
    let wrong = json!({"content": [], "structuredContent": "wrong"});
    assert_eq!(check("plain", &wrong, &validator), Ok(()));
    assert!(validator.asked.borrow().is_empty());
}

fn form(response: &Value, defaults: bool, validator: &Fake) -> Result<(), ValidationError> {
    let mut options = legacy();
    options.form_defaults = defaults;
    let host = Host::new(options);
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer", "default": 30}}});
    let params = raw(&json!({"message": "?", "requestedSchema": schema}));
    host.session.check_form(validator, Some(&params), &raw(response))
}

#[test]
fn a_response_to_a_form_is_checked_as_it_is_sent() {
    for (defaults, sent) in [(true, r#"{"name":"Ann","age":30}"#), (false, r#"{"name":"Ann"}"#)] {
        let validator = Fake::default();
        let response = json!({"action": "accept", "content": {"name": "Ann"}});
        assert_eq!(form(&response, defaults, &validator), Ok(()));
        assert_eq!(validator.asked.borrow()[0].1, sent);
    }
    let response = json!({"action": "accept", "content": {"name": "wrong"}});
    assert!(form(&response, true, &Fake::default()).unwrap_err().is_violation());
}

#[test]
fn an_accepted_form_without_content_is_checked_as_an_empty_one() {
    let validator = Fake::default();
    assert_eq!(form(&json!({"action": "accept"}), false, &validator), Ok(()));
    assert_eq!(validator.asked.borrow()[0].1, "{}");
}

#[test]
fn a_response_that_does_not_accept_the_form_is_not_checked() {
    let validator = Fake::default();
    assert_eq!(form(&json!({"action": "decline", "content": {"a": "wrong"}}), true, &validator), Ok(()));
    let host = Host::new(legacy());
    let accept = raw(&json!({"action": "accept", "content": {"a": "wrong"}}));
    let url = raw(&json!({"mode": "url", "url": "https://a.example", "requestedSchema": {}}));
    for params in [None, Some(&*url)] {
        assert_eq!(host.session.check_form(&validator, params, &accept), Ok(()));
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
