//! Typed requests, progress, one tool call at a time.

use std::time::Duration;

use crate::common::{Host, Server, options, tools};
use mcp_proto::{Event, Options, Outcome, Reference, Request, RequestId};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn server(modern: bool) -> Server {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
    let server = if modern { Server::modern(capabilities) } else { Server::legacy(capabilities) };
    server
        .result("tools/list", tools(&["a"]))
        .result("prompts/list", json!({"prompts": []}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
}

fn ready(options: Options, modern: bool) -> Host {
    let mut host = Host::connect(options, &mut server(modern));
    assert!(host.is_ready(), "{:?}", host.failure());
    host.take_sent();
    host
}

fn request(host: &mut Host, request: Request) -> (RequestId, Value) {
    let id = host.session.request(host.now, request).unwrap();
    host.collect();
    (id, host.take_one())
}

fn answer(host: &mut Host, sent: &Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": {"resultType": "complete"}}));
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

#[test]
fn typed_requests_match_the_specification() {
    let arguments = raw(&json!({"n": 1.50, "deep": [1, {"a": null}]}));
    let cases = [
        (
            Request::call_tool("do \"it\"", Some(&arguments)),
            "tools/call",
            json!({"name": "do \"it\"", "arguments": {"n": 1.5, "deep": [1, {"a": null}]}}),
        ),
        (Request::call_tool("it", None), "tools/call", json!({"name": "it"})),
        (
            Request::get_prompt("p", [("who", "me"), ("what", "ü")]),
            "prompts/get",
            json!({"name": "p", "arguments": {"who": "me", "what": "ü"}}),
        ),
        (Request::get_prompt("p", []), "prompts/get", json!({"name": "p", "arguments": {}})),
        (Request::read_resource("file:///a b"), "resources/read", json!({"uri": "file:///a b"})),
        (
            Request::complete(Reference::Prompt("p"), "who", "m"),
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "who", "value": "m"}}),
        ),
        (
            Request::complete_with(Reference::Prompt("p"), "who", "m", [("where", "here"), ("when", "\"now\"")]),
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "who", "value": "m"},
                "context": {"arguments": {"where": "here", "when": "\"now\""}}}),
        ),
        (
            Request::complete(Reference::Resource("r:{x}"), "x", ""),
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "r:{x}"}, "argument": {"name": "x", "value": ""}}),
        ),
    ];
    for modern in [false, true] {
        let mut host = ready(options(), modern);
        for (typed, method, params) in cases.clone() {
            let (_, mut sent) = request(&mut host, typed);
            assert_eq!(sent["method"], method);
            let meta = sent["params"].as_object_mut().unwrap().remove("_meta");
            let token = meta.as_ref().and_then(|meta| meta.get("progressToken"));
            assert_eq!(token, if method == "tools/call" { Some(&sent["id"]) } else { None });
            assert!(!modern || meta.is_some(), "metadata on every request");
            assert_eq!(sent["params"], params);
        }
    }
}

fn progress(token: &Value, done: u32) -> Value {
    let params = json!({"progressToken": token, "progress": done, "total": 10});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn reported_progress(host: &Host) -> Vec<u64> {
    let reported_progress = host.events.iter().filter_map(|event| match event {
        Event::Progress { progress, .. } => serde_json::from_str::<Value>(progress.raw().get()).ok(),
        _ => None,
    });
    reported_progress.filter_map(|params| params["progress"].as_u64()).collect()
}

#[test]
fn progress_extends_the_deadline_up_to_its_limit() {
    let mut host = ready(options(), false);
    let call = Request::call_tool("a", None).timeout(Duration::from_secs(10)).max_timeout(Duration::from_secs(35));
    let (id, sent) = request(&mut host, call);
    let token = sent["params"]["_meta"]["progressToken"].clone();
    for done in 0..5 {
        assert!(!host.events.iter().any(|event| matches!(event, Event::Finished { .. })), "at {:?}", host.now);
        host.receive(progress(&token, done));
        host.wait(Duration::from_secs(8));
    }
    assert!(matches!(host.result_of(id), Outcome::TimedOut(mcp_proto::TimeBound::Total)));
    assert_eq!(reported_progress(&host), [0, 1, 2, 3, 4]);
    assert_eq!(host.take_methods(), ["notifications/cancelled"]);
}

#[test]
fn unrequested_progress_extends_no_deadline() {
    let mut host = ready(options(), false);
    let call = Request::call_tool("a", None).progress(false).timeout(Duration::from_secs(10));
    let (id, sent) = request(&mut host, call);
    assert_eq!(sent["params"].get("_meta"), None);
    host.wait(Duration::from_secs(9));
    host.receive(progress(&sent["id"], 1));
    host.wait(Duration::from_secs(2));
    assert!(matches!(host.result_of(id), Outcome::TimedOut(mcp_proto::TimeBound::Timeout)));
    assert!(reported_progress(&host).is_empty());
    assert!(host.events.iter().any(|event| matches!(event, Event::Notification { .. })));
}

#[test]
fn progress_is_reported_ten_times_a_second_at_most() {
    let mut host = ready(options(), true);
    let (_, sent) = request(&mut host, Request::call_tool("a", None).progress(true));
    let token = sent["params"]["_meta"]["progressToken"].clone();
    for done in 0..1000 {
        host.receive(progress(&token, done));
        host.wait(Duration::from_millis(1));
    }
    assert_eq!(reported_progress(&host).len(), 10);
    assert_eq!(host.session.stats().left_out, 990);
}

#[test]
fn the_last_progress_is_reported_before_the_end_of_its_request() {
    for modern in [false, true] {
        let mut host = ready(options(), modern);
        let (id, sent) = request(&mut host, Request::call_tool("a", None));
        let token = sent["params"]["_meta"]["progressToken"].clone();
        for done in 0..10 {
            host.receive(progress(&token, done));
        }
        assert_eq!(reported_progress(&host), [0]);
        host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": {"content": []}}));
        assert!(matches!(host.result_of(id), Outcome::Result(_)));
        assert_eq!(reported_progress(&host), [0, 9]);
        let of_call = |event: &&Event| matches!(event, Event::Progress { .. } | Event::Finished { .. });
        assert!(matches!(host.events.iter().rfind(of_call), Some(Event::Finished { .. })));

        // One that was reported is not repeated, and a long one is not kept.
        let (_, sent) = request(&mut host, Request::call_tool("a", None));
        let token = sent["params"]["_meta"]["progressToken"].clone();
        host.receive(progress(&token, 20));
        let mut long = progress(&token, 21);
        long["params"]["message"] = "x".repeat(5000).into();
        host.receive(long);
        host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": {"content": []}}));
        assert_eq!(reported_progress(&host), [0, 9, 20]);
    }
}

/// A token that the embedder gives is another string. It is reported as it came.
#[test]
fn progress_of_a_token_of_the_embedders_is_a_notification() {
    let mut host = ready(options(), true);
    let (_, sent) = request(&mut host, Request::call_tool("a", None));
    let token = &sent["params"]["_meta"]["progressToken"];
    for (count, other) in [format!("0{token}"), format!(" {token}"), "own".into(), "99".into()].iter().enumerate() {
        host.receive(progress(&json!(other), 1));
        assert_eq!((reported_progress(&host).len(), notifications(&host)), (0, count + 1));
    }
    host.receive(progress(&json!(token.as_u64().unwrap() as f64), 2));
    assert_eq!((reported_progress(&host), host.quirks()), (vec![2], vec![]));
}

fn notifications(host: &Host) -> usize {
    host.events.iter().filter(|event| matches!(event, Event::Notification { .. } | Event::Log { .. })).count()
}

#[test]
fn progress_of_no_request_and_log_messages_are_limited_per_second() {
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    for modern in [false, true] {
        let mut options = options();
        options.limits.notifications_per_second = 10;
        let mut host = ready(options, modern);
        for second in 1..=3 {
            for done in 0..100 {
                host.receive(progress(&json!("unknown"), done));
                host.receive(log.clone());
            }
            assert_eq!(notifications(&host), 10 * second);
            assert_eq!(host.session.stats().left_out, 190 * second as u64);
            host.wait(Duration::from_secs(1));
        }
        let other = json!({"jsonrpc": "2.0", "method": "notifications/com.example/other"});
        (0..100).for_each(|_| host.receive(other.clone()));
        assert_eq!(notifications(&host), 130, "others are not limited");
    }
}

#[test]
fn tool_calls_are_sequential_if_the_options_say_so() {
    let mut serial = options();
    serial.parallel_tool_calls = false;
    let mut host = ready(serial, false);
    let (_, first) = request(&mut host, Request::call_tool("a", None));
    host.session.request(host.now, Request::call_tool("b", None)).unwrap();
    host.session.request(host.now, Request::call_tool("c", None)).unwrap();
    host.collect();
    assert!(host.take_sent().is_empty());
    let (_, read) = request(&mut host, Request::read_resource("r:1"));
    assert_eq!(read["method"], "resources/read", "other requests go first");
    answer(&mut host, &first);
    let second = host.take_one();
    assert_eq!(second["params"]["name"], "b");
    answer(&mut host, &second);
    assert_eq!(host.take_one()["params"]["name"], "c");
}

#[test]
fn tool_calls_are_concurrent_by_default() {
    let mut host = ready(options(), false);
    for name in ["a", "b", "c"] {
        host.session.request(host.now, Request::call_tool(name, None)).unwrap();
    }
    host.collect();
    assert_eq!(host.take_sent().len(), 3);
}

#[test]
fn a_tool_call_that_times_out_is_followed_by_the_next() {
    let mut serial = options();
    serial.parallel_tool_calls = false;
    let mut host = ready(serial, false);
    request(&mut host, Request::call_tool("a", None).timeout(Duration::from_secs(1)));
    host.session.request(host.now, Request::call_tool("b", None)).unwrap();
    host.collect();
    host.wait(Duration::from_secs(1));
    assert_eq!(host.take_methods(), ["notifications/cancelled", "tools/call"]);
}
