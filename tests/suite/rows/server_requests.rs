//! Requests of the server, and input that it requires, by method and by what the client declared.

use mcp_proto::{Event, Options, Outcome, Request, RequestError, RequestId};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, options, tools};
use crate::rows::reply;

fn modern(options: Options) -> Host {
    Host::connect(options, &mut Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"])))
}

/// Calls a tool, whose server then requires this input.
fn required(host: &mut Host, method: &str, params: &Value) -> RequestId {
    let request = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    let call = host.take_sent().pop().unwrap();
    let inputs = json!({"x": {"method": method, "params": params}});
    reply(host, &call, json!({"resultType": "input_required", "inputRequests": inputs}));
    request
}

fn sampling_policy(mut options: Options) -> Options {
    options.sampling.max_tokens = Some(10);
    options
}

#[test]
fn a_sample_that_was_not_declared_is_unknown_whatever_the_policy_says() {
    let mut host = Host::connect(sampling_policy(legacy()), &mut Server::legacy(json!({})));
    host.take_sent();
    let params = json!({"maxTokens": 11, "messages": []});
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}));
    assert_eq!(host.take_one()["error"]["code"], -32601);

    let mut host = modern(sampling_policy(options()));
    let call = required(&mut host, "sampling/createMessage", &params);
    assert!(matches!(host.result_of(call), Outcome::InputRequired(_)));
}

#[test]
fn a_ping_among_the_required_input_is_answered_by_the_engine() {
    let mut host = modern(options());
    required(&mut host, "ping", &json!({}));
    let again = host.take_one();
    assert_eq!(again["params"]["inputResponses"], json!({"x": {}}));
    assert!(!host.events.iter().any(|event| matches!(event, Event::InputRequired { .. })));
}

#[test]
fn an_elicitation_in_another_mode_ends_the_call() {
    let mut declared = options();
    declared.capabilities.elicitation = true;
    let mut host = modern(declared);
    let call = required(&mut host, "elicitation/create", &json!({"mode": "url", "url": "https://example.com"}));
    assert!(matches!(host.result_of(call), Outcome::Error(RequestError::Invalid(why)) if why.contains("mode url")));

    let mut host = modern(options());
    let call = required(&mut host, "elicitation/create", &json!({"mode": "smell"}));
    assert!(matches!(host.result_of(call), Outcome::InputRequired(_)));
}
