//! The sampling policy: what a server may request of the client's model.

use std::time::Duration;

use crate::common::{Host, Server, legacy, options, tools};
use mcp_proto::{Event, Options, Outcome, Request, RequestError, SamplingPolicy};
use serde_json::{Value, json};

fn with(policy: impl FnOnce(&mut SamplingPolicy)) -> Host {
    let mut options = legacy();
    options.capabilities.sampling = true;
    policy(&mut options.sampling);
    Host::connect(options, &mut Server::legacy(json!({})))
}

/// Whether the request was reported to the embedder; otherwise the error that the server got.
fn ask(host: &mut Host, params: Value) -> Result<(), String> {
    host.events.clear();
    host.take_sent();
    host.receive(json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": params}));
    let asked = host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. }));
    match host.take_sent().pop() {
        None if asked => Ok(()),
        Some(answer) if !asked => {
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("s"), &json!(-1)));
            Err(answer["error"]["message"].as_str().unwrap().into())
        }
        other => panic!("{other:?}, asked: {asked}"),
    }
}

#[test]
fn without_a_policy_declared_requests_are_reported() {
    let mut host = with(|_| {});
    for _ in 0..20 {
        ask(&mut host, json!({"maxTokens": 1_000_000, "messages": []})).unwrap();
    }
}

/// The parameters that the embedder gets.
fn params(host: &mut Host, given: &str) -> String {
    host.events.clear();
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{given}}}"#));
    let Some(Event::ServerRequest { params: Some(params), .. }) = host.events.pop() else { panic!() };
    params.get().into()
}

#[test]
fn more_tokens_than_the_cap_are_replaced_by_the_cap() {
    let mut host = with(|policy| policy.max_tokens = Some(100));
    for kept in [r#"{"maxTokens":100}"#, r#"{"maxTokens": 1}"#, r#"{"maxTokens":-1}"#, r#"{"messages":[]}"#, "[1]"] {
        assert_eq!(params(&mut host, kept), kept);
    }
    for over in ["101", "1e300", "100.5", "\"many\"", "null"] {
        let given = format!(r#"{{"a":1.50,"maxTokens":{over},"messages":[ ]}}"#);
        assert_eq!(params(&mut host, &given), r#"{"a":1.50,"maxTokens":100,"messages":[ ]}"#);
    }
}

#[test]
fn the_model_of_the_policy_replaces_the_hints_and_is_checked_in_their_place() {
    let mut host = with(|policy| (policy.model, policy.models) = (Some("small-3".into()), vec!["small-3".into()]));
    let given = r#"{"modelPreferences":{"hints":[{"name":"large"}],"costPriority":0.5},"messages":[]}"#;
    let expected = r#"{"messages":[],"modelPreferences":{"costPriority":0.5,"hints":[{"name":"small-3"}]}}"#;
    assert_eq!(params(&mut host, given), expected);
    assert_eq!(params(&mut host, "{}"), r#"{"modelPreferences":{"hints":[{"name":"small-3"}]}}"#);

    let mut host = with(|policy| (policy.model, policy.models) = (Some("small-3".into()), vec!["large".into()]));
    let refused = ask(&mut host, json!({"modelPreferences": {"hints": [{"name": "large"}]}})).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: the model small-3 is not allowed");
}

/// "Clients MUST return an error if this field is provided but `ClientCapabilities.sampling.tools` is not declared"
/// (specification 2025-11-25, schema).
#[test]
fn tools_are_refused_if_not_declared() {
    for declared in [false, true] {
        let mut options = legacy();
        options.capabilities.sampling = true;
        options.capabilities.sampling_tools = declared;
        let mut host = Host::open(options);
        let initialize = host.take_one();
        let capability = if declared { json!({"tools": {}}) } else { json!({}) };
        assert_eq!(initialize["params"]["capabilities"]["sampling"], capability);
        Server::legacy(json!({})).answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
        host.take_sent();
        for (given, has_tools) in [
            (json!({"tools": []}), true),
            (json!({"toolChoice": {"mode": "auto"}}), true),
            (json!({"tools": null}), false),
            (json!({"messages": []}), false),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": given});
            host.receive(message);
            let codes: Vec<_> = host.take_sent().iter().map(|answer| answer["error"]["code"].clone()).collect();
            assert_eq!(codes, if has_tools && !declared { vec![json!(-32602)] } else { vec![] }, "{given}");
        }
    }
}

fn message(role: &str, contents: &[(&str, &str)]) -> Value {
    let content = |(kind, id): &(&str, &str)| match *kind {
        "tool_use" => json!({"type": "tool_use", "id": id, "name": "t", "input": {}}),
        "tool_result" => json!({"type": "tool_result", "toolUseId": id, "content": []}),
        kind => json!({"type": kind, "text": id}),
    };
    json!({"role": role, "content": contents.iter().map(content).collect::<Vec<_>>()})
}

/// "Tool result missing in request: -32602. Tool results mixed with other content: -32602" (specification 2025-11-25,
/// "Sampling", Error Handling).
#[test]
fn tool_results_that_do_not_match_the_tool_uses_are_refused() {
    let user = message("user", &[("text", "hi")]);
    let both = message("assistant", &[("tool_use", "1"), ("tool_use", "2")]);
    let results = message("user", &[("tool_result", "2"), ("tool_result", "1")]);
    let one = message("user", &[("tool_result", "1")]);
    let mixed = message("user", &[("tool_result", "1"), ("tool_result", "2"), ("text", "hi")]);
    let missing = Some("Tool result missing in request");
    let sequences = [
        (vec![user.clone()], None),
        (vec![json!({"role": "user"})], None),
        (vec![both.clone(), json!({"role": "user"})], missing),
        (vec![user.clone(), both.clone(), results.clone()], None),
        (vec![both.clone(), results.clone(), both.clone(), results.clone(), user.clone()], None),
        (vec![both.clone()], missing),
        (vec![both.clone(), user], missing),
        (vec![both.clone(), one.clone(), results], missing),
        (vec![both, mixed], Some("Tool results mixed with other content")),
        (vec![one], None),
    ];
    for (messages, flaw) in sequences {
        for (sampling, tools, given) in
            [(true, true, true), (true, true, false), (true, false, true), (false, false, false)]
        {
            let mut options = legacy();
            (options.capabilities.sampling, options.capabilities.sampling_tools) = (sampling, tools);
            let mut host = Host::connect(options, &mut Server::legacy(json!({})));
            host.take_sent();
            let mut params = json!({"messages": messages});
            if given {
                params["tools"] = json!([]);
            }
            host.receive(json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": params}));
            let refusal = host.take_sent().pop().map(|answer| answer["error"].clone());
            let expected = match (sampling, tools || !given, flaw) {
                (false, _, _) => {
                    Some(json!({"code": -32601, "message": "the client does not offer sampling/createMessage"}))
                }
                (true, false, _) => {
                    Some(json!({"code": -32602, "message": "the client does not offer sampling with tools"}))
                }
                (true, true, flaw) => flaw.map(|flaw| json!({"code": -32602, "message": flaw})),
            };
            assert_eq!(refusal, expected, "{messages:?} {sampling} {tools} {given}");
        }
    }
}

#[test]
fn other_models_than_the_allowed_are_refused() {
    let mut host = with(|policy| policy.models = vec!["small-3".into(), "middle-1".into()]);
    let hints = |names: &[&str]| {
        let hints: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"modelPreferences": {"hints": hints}})
    };
    ask(&mut host, hints(&["small"])).unwrap();
    ask(&mut host, hints(&["large", "middle-1"])).unwrap();
    ask(&mut host, hints(&[])).unwrap();
    ask(&mut host, json!({})).unwrap();
    let refused = ask(&mut host, hints(&["large"])).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: the model large is not allowed");
}

#[test]
fn model_hints_beyond_the_first_hundred_are_ignored() {
    let mut host = with(|policy| policy.models = vec!["small".into()]);
    let hints = |others: usize| {
        let others = std::iter::repeat_n("large", others).chain(["small"]).map(|name| json!({"name": name}));
        json!({"modelPreferences": {"hints": others.collect::<Vec<_>>()}})
    };
    ask(&mut host, hints(99)).unwrap();
    assert!(ask(&mut host, hints(100)).is_err());
}

#[test]
fn rounds_with_tools_are_counted() {
    let mut host = with(|policy| policy.tool_rounds = Some(1));
    let used = json!({"role": "assistant", "content": [{"type": "text"}, {"type": "tool_use", "id": "1"}]});
    let text = json!({"role": "user", "content": {"type": "text", "text": "tool_use"}});
    let result = |id| json!({"role": "user", "content": {"type": "tool_result", "toolUseId": id}});
    ask(&mut host, json!({"messages": [text, used, result("1")]})).unwrap();
    let single = json!({"role": "assistant", "content": {"type": "tool_use", "id": "2"}});
    let refused = ask(&mut host, json!({"messages": [used, result("1"), single, result("2")]})).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: 2 rounds with tools, and at most 1 are allowed");

    // Of more messages than are looked at, nobody knows how many use a tool.
    let mut host = with(|policy| policy.tool_rounds = Some(u32::MAX));
    let used = json!({"role": "assistant", "content": {"type": "tool_use"}});
    ask(&mut host, json!({"messages": vec![used.clone(); 9_999]})).unwrap();
    let refused = ask(&mut host, json!({"messages": vec![used; 10_000]})).unwrap_err();
    assert!(refused.contains("10000 rounds with tools"), "{refused}");
}

#[test]
fn allowed_requests_per_minute_are_counted() {
    let mut host = with(|policy| (policy.per_minute, policy.models) = (Some(2), vec!["small".into()]));
    ask(&mut host, json!({})).unwrap();
    assert!(ask(&mut host, json!({"modelPreferences": {"hints": [{"name": "large"}]}})).is_err());
    host.wait(Duration::from_secs(30));
    ask(&mut host, json!({})).unwrap();
    let refused = ask(&mut host, json!({})).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: at most 2 requests a minute are allowed");
    host.wait(Duration::from_secs(30));
    ask(&mut host, json!({})).unwrap();
    assert!(ask(&mut host, json!({})).is_err());
}

#[test]
fn a_sampling_request_that_is_not_answered_in_time_is_refused() {
    let mut host = with(|policy| policy.timeout = Some(Duration::from_secs(7)));
    ask(&mut host, json!({})).unwrap();
    host.wait(Duration::from_millis(6_999));
    assert!(host.take_sent().is_empty());
    host.wait(Duration::from_millis(1));
    assert_eq!(host.take_one()["error"]["code"], -1);
}

/// The outcome of a modern call that requires sampling with these parameters.
fn outcome(options: Options, params: Value) -> Outcome {
    let mut server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(options, &mut server);
    let call = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    let sent = host.take_one();
    let wanted = json!({"s": {"method": "sampling/createMessage", "params": params}});
    let result = json!({"resultType": "input_required", "inputRequests": wanted});
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
    host.result_of(call).clone()
}

#[test]
fn in_the_modern_era_the_call_ends_with_the_reason() {
    let mut options = options();
    options.capabilities.sampling = true;
    options.sampling.models = vec!["small".into()];
    let large = outcome(options.clone(), json!({"modelPreferences": {"hints": [{"name": "large"}]}}));
    assert!(
        matches!(&large, Outcome::Error(RequestError::Invalid(why)) if why.contains("the model large is not allowed"))
    );

    // A tool use without a result.
    let open = json!({"messages": [message("assistant", &[("tool_use", "1")])], "tools": []});
    for (sampling, tools, words) in
        [(true, true, "Tool result missing"), (true, false, "does not offer sampling with tools"), (false, false, "")]
    {
        (options.capabilities.sampling, options.capabilities.sampling_tools) = (sampling, tools);
        match outcome(options.clone(), open.clone()) {
            Outcome::Error(RequestError::Invalid(why)) if sampling => assert!(why.contains(words), "{why}"),
            Outcome::InputRequired { .. } if !sampling => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A call with the sampling requests of these keys as required input. Returns whether the embedder gets them.
fn require(host: &mut Host, keys: &[&str]) -> bool {
    host.events.clear();
    let call = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    let sent = host.take_one();
    let sampling = json!({"method": "sampling/createMessage", "params": {}});
    let wanted: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).into(), sampling.clone())).collect();
    let result = json!({"resultType": "input_required", "inputRequests": wanted});
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
    match host.events.iter().any(|event| matches!(event, Event::InputRequired { .. })) {
        true => true,
        false => {
            let outcome = host.result_of(call);
            assert!(
                matches!(outcome, Outcome::Error(RequestError::Invalid(why)) if why.contains("at most 3 requests a minute")),
                "{outcome:?}"
            );
            false
        }
    }
}

#[test]
fn a_result_that_is_refused_as_a_whole_does_not_count() {
    let mut options = options();
    options.capabilities.sampling = true;
    options.sampling.per_minute = Some(3);
    let mut server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(options, &mut server);
    assert!(!require(&mut host, &["1", "2", "3", "4"]), "the requests of one result are counted together");
    assert!(require(&mut host, &["1", "2"]));
    assert!(!require(&mut host, &["1", "2"]));
    assert!(require(&mut host, &["1"]));
    assert!(!require(&mut host, &["1"]));
    host.wait(Duration::from_secs(60));
    assert!(require(&mut host, &["1", "2", "3"]));
}

#[test]
fn a_tool_result_without_an_id_is_the_result_of_no_tool_use() {
    let mut options = legacy();
    (options.capabilities.sampling, options.capabilities.sampling_tools) = (true, true);
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    host.take_sent();
    let used = message("assistant", &[("tool_use", "1")]);
    let result = json!({"role": "user", "content": [{"type": "tool_result", "content": []}]});
    let params = json!({"messages": [used, result, {"role": "assistant", "content": []}], "tools": []});
    host.receive(json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": params}));
    assert_eq!(host.take_one()["error"]["message"], "Tool result missing in request");
}
