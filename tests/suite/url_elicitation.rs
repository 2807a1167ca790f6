//! Elicitation at a URL, in both eras.

use crate::common::{Deliver, Host, Server, legacy, options, tools};
use mcp_proto::{CommandError, Event, InputRequest, Options, Outcome, QuirkKind, Request, RequestError, RequestId};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn with_urls(mut options: Options) -> Options {
    (options.capabilities.elicitation, options.capabilities.elicitation_url) = (true, true);
    options
}

fn ready(options: Options, modern: bool) -> Host {
    let server = if modern { Server::modern(json!({"tools": {}})) } else { Server::legacy(json!({"tools": {}})) };
    let mut host = Host::connect(options, &mut server.result("tools/list", tools(&["a"])));
    assert!(host.is_ready());
    host.take_sent();
    host
}

fn call(host: &mut Host) -> (RequestId, Value) {
    let id = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    (id, host.take_one())
}

fn elicitation(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": format!("https://x/{id}"), "message": "sign in"})
}

/// The server refuses a call until the user has visited URLs.
fn refuse(host: &mut Host, sent: &Value, elicitations: Value) {
    let error = json!({"code": -32042, "message": "sign in first", "data": {"elicitations": elicitations}});
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "error": error}));
}

fn complete(host: &mut Host, id: &str) {
    let params = json!({"elicitationId": id});
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}));
}

fn required_input(host: &Host) -> Vec<InputRequest> {
    let inputs = host.events.iter().filter_map(|event| match event {
        Event::InputRequired { inputs, .. } => Some(inputs.clone()),
        _ => None,
    });
    inputs.flatten().collect()
}

fn completed(host: &Host) -> Vec<(String, Option<RequestId>)> {
    let completed = |event: &Event| match event {
        Event::ElicitationComplete { id, request } => Some((id.to_string(), *request)),
        _ => None,
    };
    host.events.iter().filter_map(completed).collect()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

#[test]
fn a_call_that_requires_urls_is_sent_again_once_after_the_user_is_done() {
    let mut host = ready(with_urls(legacy()), false);
    let (id, sent) = call(&mut host);
    refuse(&mut host, &sent, json!([elicitation("e-1"), elicitation("e-2")]));
    let inputs = required_input(&host);
    assert_eq!(inputs.iter().map(|input| &*input.key).collect::<Vec<_>>(), ["e-1", "e-2"]);
    assert_eq!(inputs[0].params.as_deref().map(RawValue::get), Some(&*elicitation("e-1").to_string()));
    assert!(host.take_sent().is_empty());
    complete(&mut host, "e-1");
    assert_eq!(completed(&host), [("e-1".to_owned(), Some(id))]);
    assert!(host.take_sent().is_empty(), "the embedder says when the user is done");

    let accept = raw(r#"{"action": "accept"}"#);
    let one = host.session.provide(host.now, id, [("e-1", &*accept)]);
    assert_eq!(one, Err(CommandError::MissingInput { key: "e-2".into() }));
    host.session.provide(host.now, id, [("e-1", &*accept), ("e-2", &*accept)]).unwrap();
    host.collect();
    let again = host.take_one();
    assert_eq!(again["params"]["name"], sent["params"]["name"]);
    assert_eq!(again["params"].as_object().unwrap().len(), 2, "nothing is added to the call");
    assert_ne!(again["id"], sent["id"]);
    refuse(&mut host, &again, json!([elicitation("e-3")]));
    assert!(matches!(host.result_of(id), Outcome::Error(error) if error.code() == Some(-32042)), "offered once");
    assert_eq!(required_input(&host).len(), 2);
}

#[test]
fn without_the_capability_a_call_that_requires_urls_ends_with_the_servers_error() {
    let mut host = ready(legacy(), false);
    let (id, sent) = call(&mut host);
    refuse(&mut host, &sent, json!([elicitation("e-1")]));
    assert!(matches!(host.result_of(id), Outcome::Error(error) if error.code() == Some(-32042)));
    assert!(required_input(&host).is_empty() && host.take_sent().is_empty());
}

/// Open requests of the server and required input share one limit.
#[test]
fn urls_beyond_the_limit_of_bytes_are_not_offered() {
    for asked in [false, true] {
        let mut options = with_urls(legacy());
        options.limits.input_bytes = 1_000;
        let mut host = ready(options, false);
        if asked {
            let (id, params) = ("i".repeat(490), elicitation("e-0"));
            host.receive(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}));
        }
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, json!([elicitation("e-1")]));
        assert_eq!(required_input(&host).len(), usize::from(!asked));
        assert_eq!(host.ended(id).is_some(), asked);
    }
}

#[test]
fn an_elicitation_with_an_id_of_over_1_kib_is_not_known_when_it_completes() {
    let mut host = ready(with_urls(legacy()), false);
    for (number, length) in [(1, 1024), (2, 1025)] {
        let id = "e".repeat(length);
        let params = elicitation(&id);
        host.receive(json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}));
        complete(&mut host, &id);
    }
    assert_eq!(completed(&host), [("e".repeat(1024), None)]);
}

#[test]
fn a_call_whose_urls_are_declined_ends_with_the_servers_error() {
    for action in ["decline", "cancel", ""] {
        let mut host = ready(with_urls(legacy()), false);
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, json!([elicitation("e-1")]));
        if action.is_empty() {
            host.session.decline(host.now, id).unwrap();
        } else {
            let answer = raw(&json!({"action": action}).to_string());
            host.session.provide(host.now, id, [("e-1", &*answer)]).unwrap();
        }
        host.collect();
        let Outcome::Error(RequestError::Server(error)) = host.result_of(id) else { panic!("no error") };
        assert_eq!((error.code, &*error.message), (-32042, "sign in first"));
        assert!(host.take_sent().is_empty());
    }
}

#[test]
fn an_error_without_valid_urls_ends_the_call() {
    let mut form = elicitation("e");
    form["mode"] = json!("form");
    let many: Vec<_> = (0..65).map(|at| elicitation(&format!("e-{at}"))).collect();
    for elicitations in [json!([]), json!({}), json!(null), json!([form]), json!([1]), json!(many)] {
        let mut host = ready(with_urls(legacy()), false);
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, elicitations);
        assert!(matches!(host.result_of(id), Outcome::Error(error) if error.code() == Some(-32042)));
    }
    let twice = json!([elicitation("e"), elicitation("e")]);
    for (options, modern, elicitations) in [
        (legacy(), false, json!([elicitation("e")])),
        (with_urls(options()), true, json!([elicitation("e")])),
        (with_urls(legacy()), false, twice),
    ] {
        let mut host = ready(options, modern);
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, elicitations);
        assert!(matches!(host.result_of(id), Outcome::Error(error) if error.code() == Some(-32042)));
    }
}

/// rust-sdk #1383
#[test]
fn elicitation_id_that_is_missing_is_replaced_by_one_of_the_client() {
    let nameless = |url: &str| json!({"mode": "url", "url": url, "message": "sign in"});
    let mut host = ready(with_urls(legacy()), false);
    let (id, sent) = call(&mut host);
    refuse(&mut host, &sent, json!([nameless("https://x/1"), elicitation("url-1"), nameless("https://x/2")]));
    let keys: Vec<_> = required_input(&host).into_iter().map(|input| input.key).collect();
    assert_eq!(keys.iter().map(|key| &**key).collect::<Vec<_>>(), ["url-2", "url-1", "url-3"]);
    assert_eq!(host.quirks(), [QuirkKind::ElicitationId]);
    for id in ["url-1", "url-2"] {
        complete(&mut host, id);
    }
    assert_eq!(completed(&host), [("url-1".to_owned(), Some(id))], "the server does not know the client's ids");
    let accept = raw(r#"{"action": "accept"}"#);
    host.session.provide(host.now, id, keys.iter().map(|key| (&**key, &*accept))).unwrap();
    host.collect();
    assert_eq!(host.take_one()["method"], "tools/call");
}

#[test]
fn elicitations_per_minute_are_limited() {
    let ask = |host: &mut Host, mode: &str| {
        host.events.clear();
        let params = json!({"mode": mode, "elicitationId": "e", "url": "https://x", "message": "m"});
        host.receive(json!({"jsonrpc": "2.0", "id": "s", "method": "elicitation/create", "params": params}));
        let asked = host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. }));
        (asked, host.take_sent().pop().map(|answer| answer["error"].clone()))
    };
    let refused =
        json!({"code": -32603, "message": "refused by the client's policy: at most 2 requests a minute are allowed"});
    let mut limited = with_urls(legacy());
    limited.elicitations_per_minute = Some(2);
    let mut host = ready(limited, false);
    assert_eq!(ask(&mut host, "form"), (true, None));
    host.wait(std::time::Duration::from_secs(30));
    assert_eq!(ask(&mut host, "url"), (true, None));
    for mode in ["form", "url"] {
        assert_eq!(ask(&mut host, mode), (false, Some(refused.clone())));
    }
    host.wait(std::time::Duration::from_secs(30));
    assert_eq!(ask(&mut host, "form"), (true, None));
    assert_eq!(ask(&mut host, "form"), (false, Some(refused)));

    // In the modern era the call ends with the reason. Those of one result are counted together.
    let mut limited = with_urls(options());
    limited.elicitations_per_minute = Some(2);
    let mut host = ready(limited, true);
    for (count, asked) in [(3, false), (2, true), (1, false)] {
        host.events.clear();
        let (id, sent) = call(&mut host);
        let form = json!({"method": "elicitation/create", "params": {"message": "m"}});
        let wanted: serde_json::Map<_, _> = (0..count).map(|key| (key.to_string(), form.clone())).collect();
        let result = json!({"resultType": "input_required", "inputRequests": wanted});
        host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
        assert_eq!(required_input(&host).len(), if asked { count } else { 0 });
        if !asked {
            let outcome = host.result_of(id);
            assert!(
                matches!(outcome, Outcome::Error(RequestError::Invalid(why)) if why.contains("2 requests a minute"))
            );
        }
    }
}

#[test]
fn the_end_of_an_elicitation_is_reported_once_and_unknown_ones_are_ignored() {
    let mut host = ready(with_urls(legacy()), false);
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": elicitation("e-1")}));
    complete(&mut host, "unknown");
    complete(&mut host, "e-1");
    complete(&mut host, "e-1");
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete"}));
    assert_eq!(completed(&host), [("e-1".to_owned(), None)]);
    assert!(!host.events.iter().any(|event| matches!(event, Event::Notification { .. })));
    // The oldest ones are removed at the limit.
    for at in 0..65 {
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, json!([elicitation(&format!("n-{at}"))]));
        host.session.decline(host.now, id).unwrap();
        host.collect();
    }
    complete(&mut host, "n-0");
    complete(&mut host, "n-1");
    assert_eq!(completed(&host).len(), 2);
    let long = "x".repeat(1025);
    let (_, sent) = call(&mut host);
    refuse(&mut host, &sent, json!([elicitation(&long)]));
    complete(&mut host, &long);
    assert_eq!(completed(&host).len(), 2, "an id of over 1,024 bytes is not kept");

    let mut host = ready(legacy(), false);
    complete(&mut host, "e-1");
    assert!(matches!(host.events.last(), Some(Event::Notification { .. })), "reported if URLs are not declared");
}

#[test]
fn a_modern_server_requires_a_url_as_input() {
    let mut host = ready(with_urls(options()), true);
    let (id, sent) = call(&mut host);
    let mut params = elicitation("");
    params.as_object_mut().unwrap().remove("elicitationId");
    let inputs = json!({"k": {"method": "elicitation/create", "params": params}});
    let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
    assert_eq!(required_input(&host)[0].params.as_deref().map(RawValue::get), Some(&*params.to_string()));
    host.session.provide(host.now, id, [("k", &*raw(r#"{"action":"accept"}"#))]).unwrap();
    host.collect();
    assert_eq!(host.take_one()["params"]["inputResponses"], json!({"k": {"action": "accept"}}));
}

#[test]
fn a_completion_that_does_not_fit_is_left_out() {
    let mut options = with_urls(legacy());
    options.limits.output = 2;
    let mut host = ready(options, false);
    let (_, sent) = call(&mut host);
    refuse(&mut host, &sent, json!([elicitation("a")]));
    for _ in 0..4 {
        let log = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        host.session.deliver(host.now, log);
    }
    let left_out = host.session.stats().left_out;
    let done = br#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"a"}}"#;
    host.session.deliver(host.now, done);
    assert_eq!(host.session.stats().left_out, left_out + 1);
    host.collect();
    assert_eq!(completed(&host), []);
}
