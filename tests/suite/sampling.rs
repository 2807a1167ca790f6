//! What a server may have of the client's model.

use std::time::Duration;

use crate::common::{Host, Server, legacy, options, tools};
use mcp_proto::{Event, Outcome, Request, RequestError, SamplingPolicy};
use serde_json::{Value, json};

fn with(policy: impl FnOnce(&mut SamplingPolicy)) -> Host {
    let mut options = legacy();
    options.capabilities.sampling = true;
    policy(&mut options.sampling);
    Host::connect(options, &mut Server::legacy(json!({})))
}

/// Whether the embedder was asked; else with what the server was refused.
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
fn without_a_policy_whatever_was_declared_is_asked() {
    let mut host = with(|_| {});
    for _ in 0..20 {
        ask(&mut host, json!({"maxTokens": 1_000_000, "messages": []})).unwrap();
    }
}

#[test]
fn more_tokens_than_the_cap_are_refused() {
    let mut host = with(|policy| policy.max_tokens = Some(100));
    ask(&mut host, json!({"maxTokens": 100})).unwrap();
    ask(&mut host, json!({})).unwrap();
    let refused = ask(&mut host, json!({"maxTokens": 101})).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: 101 tokens are wanted, and at most 100 are given");
    assert!(ask(&mut host, json!({"maxTokens": 1e300})).is_err());
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
    assert_eq!(refused, "refused by the client's policy: the model large is not among those that are given");
}

#[test]
fn model_hints_beyond_the_first_hundred_are_not_looked_at() {
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
    ask(&mut host, json!({"messages": [text, used, text]})).unwrap();
    let single = json!({"role": "assistant", "content": {"type": "tool_use", "id": "2"}});
    let refused = ask(&mut host, json!({"messages": [used, text, single]})).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: 2 rounds with tools, and at most 1 are given");
}

#[test]
fn requests_a_minute_are_counted_and_only_those_that_were_let() {
    let mut host = with(|policy| (policy.per_minute, policy.max_tokens) = (Some(2), Some(10)));
    ask(&mut host, json!({})).unwrap();
    assert!(ask(&mut host, json!({"maxTokens": 11})).is_err());
    host.wait(Duration::from_secs(30));
    ask(&mut host, json!({})).unwrap();
    let refused = ask(&mut host, json!({})).unwrap_err();
    assert_eq!(refused, "refused by the client's policy: at most 2 requests a minute are taken");
    host.wait(Duration::from_secs(30));
    ask(&mut host, json!({})).unwrap();
    assert!(ask(&mut host, json!({})).is_err());
}

#[test]
fn a_sample_that_takes_too_long_is_refused() {
    let mut host = with(|policy| policy.timeout = Some(Duration::from_secs(7)));
    ask(&mut host, json!({})).unwrap();
    host.wait(Duration::from_millis(6_999));
    assert!(host.take_sent().is_empty());
    host.wait(Duration::from_millis(1));
    assert_eq!(host.take_one()["error"]["code"], -1);
}

#[test]
fn in_the_modern_era_the_call_ends_with_the_reason() {
    let mut options = options();
    options.capabilities.sampling = true;
    options.sampling.max_tokens = Some(1);
    let mut server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(options, &mut server);
    let call = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    let sent = host.take_one();
    let wanted = json!({"s": {"method": "sampling/createMessage", "params": {"maxTokens": 2}}});
    let result = json!({"resultType": "input_required", "inputRequests": wanted});
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
    let Outcome::Error(RequestError::Invalid(why)) = host.result_of(call) else { panic!() };
    assert!(why.contains("2 tokens are wanted"), "{why}");
}
