//! Rows of server requests, and of required input, by method and declared capabilities.

use mcp_proto::{Event, FailureKind, Options, Outcome, QuirkKind, Request, RequestError, RequestId};
use serde_json::{Value, json};

use crate::common::{Deliver as _, Host, Server, legacy, options, tools};
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
    options.sampling.models = vec!["small".into()];
    options
}

#[test]
fn undeclared_sampling_is_an_unknown_method_under_any_policy() {
    let mut host = Host::connect(sampling_policy(legacy()), &mut Server::legacy(json!({})));
    host.take_sent();
    let params = json!({"modelPreferences": {"hints": [{"name": "large"}]}, "messages": []});
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}));
    assert_eq!(host.take_one()["error"]["code"], -32601);

    let mut host = modern(sampling_policy(options()));
    let call = required(&mut host, "sampling/createMessage", &params);
    assert!(matches!(host.result_of(call), Outcome::InputRequired(_)));
}

#[test]
fn an_undeclared_sampling_request_with_tools_is_refused_before_the_policy() {
    let mut options = sampling_policy(options());
    options.capabilities.sampling = true;
    for hint in ["small", "large"] {
        let mut host = modern(options.clone());
        let params = json!({"modelPreferences": {"hints": [{"name": hint}]}, "tools": []});
        let call = required(&mut host, "sampling/createMessage", &params);
        let Outcome::Error(RequestError::Invalid(why)) = host.result_of(call) else { panic!() };
        assert!(why.contains("sampling with tools"), "{why}");

        let mut legacy = sampling_policy(legacy());
        legacy.capabilities.sampling = true;
        let mut host = Host::connect(legacy, &mut Server::legacy(json!({})));
        host.take_sent();
        host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}));
        assert_eq!(host.take_one()["error"]["code"], -32602, "{hint}");
    }
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

#[test]
fn with_a_full_outbox_the_engine_responds_itself_and_then_ends_the_connection() {
    let mut options = legacy();
    options.limits.output = 10;
    options.capabilities.elicitation = true;
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    let message = json!({"jsonrpc": "2.0", "method": "notifications/unknown"}).to_string();
    for _ in 0..20 {
        host.session.deliver(host.now, message.as_bytes());
    }
    assert_eq!(host.session.stats().left_out, 12, "notifications leave the reserve free");
    let ask = |id: u64, method: &str| {
        let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    host.session.deliver(host.now, ask(1, "ping").as_bytes());
    host.session.deliver(host.now, ask(2, "elicitation/create").as_bytes());
    for id in 3..30 {
        host.session.deliver(host.now, ask(id, "ping").as_bytes());
    }
    host.collect();
    let sent = host.take_sent();
    assert_eq!(sent.len(), 2, "the reserve");
    assert_eq!((&sent[0]["result"], &sent[1]["error"]["code"]), (&json!({}), &json!(-32603)));
    assert_eq!(host.failure_kind(), Some(FailureKind::Overrun));
    assert!(!host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. })));
}

#[test]
fn sampling_against_the_policy_is_refused_by_it_with_as_many_open_requests_as_are_allowed() {
    let mut options = sampling_policy(legacy());
    options.capabilities.sampling = true;
    options.limits.server_requests = 1;
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    host.take_sent();
    for (id, hint, code) in [(1, "small", json!(null)), (2, "small", json!(-32603)), (3, "large", json!(-1))] {
        let params = json!({"modelPreferences": {"hints": [{"name": hint}]}, "messages": []});
        host.receive(json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params}));
        let sent = host.take_sent();
        assert_eq!(sent.first().map_or(json!(null), |sent| sent["error"]["code"].clone()), code, "{id}");
    }
}

#[test]
fn a_modern_server_gets_no_response_to_sampling_whatever_the_policy_and_capabilities_say() {
    for is_declared in [false, true] {
        let mut options = sampling_policy(options());
        options.capabilities.sampling = is_declared;
        let mut host = modern(options);
        host.take_sent();
        // The second one has no result of its tool use.
        let tool_use = json!({"type": "tool_use", "id": "t", "name": "a", "input": {}});
        for (hint, content) in [("large", json!([])), ("small", json!([tool_use]))] {
            let messages = json!([{"role": "assistant", "content": content}]);
            let params = json!({"modelPreferences": {"hints": [{"name": hint}]}, "messages": messages});
            host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}));
        }
        assert!(host.is_ready() && host.take_sent().is_empty());
        assert!(host.quirks().contains(&QuirkKind::ServerRequest));
    }
}

#[test]
fn requests_of_a_modern_server_are_ignored_with_a_full_outbox() {
    let mut options = options();
    options.limits.output = 5;
    let mut host = modern(options);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for _ in 0..100 {
        host.session.deliver(host.now, ping.as_bytes());
    }
    host.collect();
    assert!(host.is_ready() && host.take_sent().is_empty());
}
