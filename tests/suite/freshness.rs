//! How long the result of `server/discover` of a modern server is fresh.

use crate::common::{Host, Server, Shared, options, reconnecting, seconds, tools};
use mcp_proto::{CommandError, Family, Request, Time};
use serde_json::{Value, json};

/// A server whose description changes at run time.
struct Described {
    server: Server,
    result: Shared<Result<Value, Value>>,
}

fn description(capabilities: &Value, ttl: &Value, instructions: &str) -> Value {
    let mut result = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
        "instructions": instructions, "cacheScope": "public",
    });
    if !ttl.is_null() {
        result["ttlMs"] = ttl.clone();
    }
    result
}

impl Described {
    fn new(ttl: &Value) -> Self {
        let result = Shared::new(Ok(description(&json!({"tools": {}}), ttl, "one")));
        let shared = Shared::clone(&result);
        let server = Server::modern(json!({"tools": {}}))
            .on("server/discover", move |_| shared.borrow().clone())
            .result("tools/list", tools(&["a"]))
            .result("tools/call", json!({"resultType": "complete", "content": []}));
        Self { server, result }
    }

    fn describe(&self, result: Result<Value, Value>) {
        *self.result.borrow_mut() = result;
    }

    fn connect(&mut self) -> Host {
        let host = Host::connect(options(), &mut self.server);
        assert!(host.is_ready(), "{:?}", host.failure());
        host
    }

    fn requests_received(&self) -> usize {
        self.server.received("server/discover")
    }
}

fn call(host: &mut Host) {
    host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
}

fn instructions(host: &Host) -> &str {
    host.session.server().unwrap().instructions.as_deref().unwrap()
}

#[test]
fn a_stale_description_is_requested_again_on_use() {
    let mut described = Described::new(&json!(60_000.0));
    let mut host = described.connect();
    let until = host.session.server_fresh_until().unwrap();
    assert_eq!(until, Time::from_millis(60_000));
    described.describe(Ok(description(&json!({"tools": {}, "prompts": {}}), &json!(9000), "two")));

    // Fresh, then stale and unused.
    call(&mut host);
    host.serve(&mut described.server);
    host.wait(seconds(3600));
    assert_eq!((described.requests_received(), host.sent.len()), (1, 0), "the engine does not poll");
    let prompt = || Request::get_prompt("p", []);
    let refused = host.session.request(host.now, prompt());
    assert!(matches!(refused, Err(CommandError::NotAdvertised { .. })), "{refused:?}");
    host.collect();
    assert!(host.sent.is_empty(), "a refused command changes nothing");

    // The next use requests it once; the old description is used until the response.
    call(&mut host);
    call(&mut host);
    assert_eq!(host.sent.iter().filter(|it| it["method"] == "server/discover").count(), 1);
    assert_eq!(instructions(&host), "one");
    host.serve(&mut described.server);
    assert_eq!((described.requests_received(), instructions(&host)), (2, "two"));
    assert_eq!(host.session.server_fresh_until(), Some(host.now + seconds(9)));
    host.session.request(host.now, prompt()).unwrap();

    // Again, and by a refresh.
    host.wait(seconds(10));
    described.describe(Ok(description(&json!({"tools": {}}), &json!(0), "three")));
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
    host.serve(&mut described.server);
    assert_eq!((described.requests_received(), instructions(&host)), (3, "three"));
    assert_eq!(host.session.server_fresh_until(), None);
    host.wait(seconds(10));
    call(&mut host);
    host.serve(&mut described.server);
    assert_eq!(described.requests_received(), 3);
}

#[test]
fn a_description_that_is_stale_before_the_client_is_ready_is_requested_after_that() {
    let mut described = Described::new(&json!(1000));
    let mut host = Host::open(options());
    let discover = host.take_one();
    described.server.answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    let list = host.take_one();
    host.wait(seconds(2));
    call(&mut host);
    assert!(!host.is_ready() && host.sent.is_empty(), "the list is not answered yet");
    described.server.answer(&list).into_iter().for_each(|answer| host.receive(answer));
    assert_eq!(host.take_methods(), ["tools/call"]);
    call(&mut host);
    assert_eq!(host.take_methods(), ["server/discover", "tools/call"]);
}

#[test]
fn a_description_without_a_time_to_live_is_never_requested_again() {
    for ttl in [json!(null), json!(0), json!(-7), json!("60000"), json!(1.5)] {
        let mut described = Described::new(&ttl);
        let mut host = described.connect();
        assert_eq!(host.session.server_fresh_until(), None, "{ttl}");
        host.wait(seconds(3600));
        call(&mut host);
        host.serve(&mut described.server);
        assert_eq!(described.requests_received(), 1, "{ttl}");
    }
}

#[test]
fn a_stale_description_stays_in_use_without_a_valid_response() {
    let mut other = description(&json!({}), &json!(1000), "two");
    other["supportedVersions"] = json!(["2025-11-25"]);
    let mut unknown = description(&json!({}), &json!(1000), "two");
    unknown["resultType"] = json!("other");
    for response in [Err(json!({"code": -32603, "message": "no"})), Ok(other), Ok(unknown), Ok(json!({}))] {
        let mut described = Described::new(&json!(1000));
        let mut host = described.connect();
        described.describe(response);
        host.wait(seconds(2));
        call(&mut host);
        host.serve(&mut described.server);
        assert_eq!((described.requests_received(), instructions(&host)), (2, "one"));
        assert_eq!(
            host.session.server_fresh_until(),
            None,
            "a failing server does not get a request with every command"
        );
        call(&mut host);
        host.serve(&mut described.server);
        assert_eq!(described.requests_received(), 2);
    }
}

#[test]
fn a_description_that_is_not_received_in_time_is_kept() {
    let mut described = Described::new(&json!(1000));
    let mut host = described.connect();
    host.wait(seconds(2));
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
    host.take_sent();
    host.wait(seconds(600));
    assert!(host.is_ready());
    assert_eq!((instructions(&host), host.session.server_fresh_until()), ("one", None));
}

#[test]
fn each_connection_has_its_own_description() {
    for used in [false, true] {
        let mut described = Described::new(&json!(1000));
        let mut host = Host::connect(reconnecting(options()), &mut described.server);
        host.wait(seconds(2));
        if used {
            call(&mut host);
        }
        host.take_sent();
        host.close_transport();
        assert_eq!(host.session.server_fresh_until(), None);
        host.wait(seconds(30));
        host.transport(mcp_proto::Transport::Opened);
        host.serve(&mut described.server);
        assert!(host.is_ready());
        assert_eq!(host.session.server_fresh_until(), Some(host.now + seconds(1)));
    }
}
