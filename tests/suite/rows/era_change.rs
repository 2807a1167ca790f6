//! Servers that change their era or version during a connection, as one behind a gateway may.

use mcp_proto::{Era, Event, FailureKind, Options, Outcome, QuirkKind, Request, RequestId, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, options, reconnecting, seconds, tools};
use crate::rows::{refuse, reply};
use crate::web::{Reply, Site, Web, tool};

const MODERN_ERRORS: [i64; 3] = [-32020, -32021, -32022];

fn old() -> Server {
    Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", json!({}))
}

fn new() -> Server {
    Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", json!({}))
}

fn ready(options: Options, server: &mut Server) -> Host {
    let host = Host::connect(options, server);
    assert!(host.is_ready());
    host
}

fn call(host: &mut Host) -> (RequestId, Value) {
    let id = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    (id, host.take_one())
}

/// Reconnects to this server.
fn reopen(host: &mut Host, server: &mut Server) {
    host.close_transport();
    host.wait(seconds(2));
    host.transport(Transport::Opened);
    host.serve(server);
    assert!(host.is_ready());
}

fn downs(host: &Host) -> Vec<FailureKind> {
    let downs = host.events.iter().filter_map(|event| match event {
        Event::Down { failure, .. } => Some(failure.kind),
        _ => None,
    });
    downs.collect()
}

fn era(host: &Host) -> Option<Era> {
    host.session.server().map(mcp_proto::Server::era)
}

#[test]
fn a_modern_error_on_a_legacy_connection_makes_one_new_handshake() {
    for code in MODERN_ERRORS {
        let mut host = ready(reconnecting(options()), &mut old());
        let (other, running) = call(&mut host);
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, code, "upgraded");
        assert_eq!((downs(&host), host.quirks()), (vec![FailureKind::Protocol], vec![QuirkKind::EraChanged]));
        assert!(host.failure().unwrap().message.contains("changed its era or version: upgraded"));
        assert!(matches!(host.result_of(other), Outcome::Unknown), "the request may have run: {running}");
        assert!(host.ended(id).is_none(), "it did not run");
        let mut server = new();
        reopen(&mut host, &mut server);
        let asked = (server.received("initialize"), server.received("tools/call"));
        assert_eq!((era(&host), asked), (Some(Era::Modern), (0, 1)), "only the refused request is sent again");
        assert!(matches!(host.result_of(id), Outcome::Result(_)));
        let Some(Event::Finished { attempts, .. }) =
            host.events.iter().find(|event| matches!(event, Event::Finished { request, .. } if *request == id))
        else {
            panic!("{:?}", host.events)
        };
        assert_eq!(*attempts, 2);
    }
}

/// specification 2026-07-28, "Versioning": select a mutually supported version and retry.
#[test]
fn a_request_that_was_refused_for_its_version_is_sent_again_once() {
    let mut host = ready(reconnecting(options()), &mut old());
    let (id, sent) = call(&mut host);
    refuse(&mut host, &sent, -32022, "upgraded");
    let mut server = new().error("tools/call", -32022, "upgraded again");
    reopen(&mut host, &mut server);
    let Outcome::Error(error) = host.result_of(id) else { panic!("{:?}", host.ended(id)) };
    assert!(error.to_string().contains("upgraded again"), "{error}");
    assert_eq!((server.received("tools/call"), downs(&host).len()), (1, 1));
}

#[test]
fn a_refused_version_on_a_modern_connection_makes_one_new_handshake() {
    let mut host = ready(reconnecting(options()), &mut new());
    for code in [-32020, -32021] {
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, code, "of this era");
        assert!(matches!(host.result_of(id), Outcome::Error(_)));
    }
    let (id, sent) = call(&mut host);
    refuse(&mut host, &sent, -32022, "another version");
    reopen(&mut host, &mut old());
    assert_eq!((era(&host), downs(&host).len()), (Some(Era::Legacy), 1));
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
}

#[test]
fn a_server_that_repeats_such_errors_gets_no_further_handshake() {
    let mut host = ready(reconnecting(options()), &mut old());
    let (_, sent) = call(&mut host);
    refuse(&mut host, &sent, -32022, "upgraded");
    host.close_transport();
    host.wait(seconds(2));
    host.transport(Transport::Opened);
    let mut server = old().error("tools/call", -32022, "upgraded");
    host.serve(&mut server);
    for _ in 0..5 {
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, -32601, "no such method");
        assert!(matches!(host.result_of(id), Outcome::Error(_)));
    }
    assert_eq!((downs(&host).len(), host.opens, host.is_ready()), (1, 2, true));
    let (_, sent) = call(&mut host);
    reply(&mut host, &sent, json!({}));
    let (_, sent) = call(&mut host);
    refuse(&mut host, &sent, -32022, "upgraded");
    assert_eq!(downs(&host).len(), 2, "after an answered request, it counts again");
}

#[test]
fn unknown_methods_in_a_row_make_one_new_handshake() {
    let capabilities = json!({"tools": {}, "prompts": {}});
    let prompts = || json!({"prompts": [{"name": "p"}]});
    let get = |host: &mut Host| {
        let id = host.session.request(host.now, Request::get_prompt("p", [])).unwrap();
        host.collect();
        (id, host.take_one())
    };
    for (doubts, code) in [(2, -32601), (1, -32022), (2, -32022)] {
        let old = Server::legacy(capabilities.clone()).result("tools/list", tools(&["a"]));
        let mut host = ready(reconnecting(options()), &mut old.result("prompts/list", prompts()));
        for _ in 0..doubts {
            let (id, sent) = get(&mut host);
            refuse(&mut host, &sent, -32601, "Method not found");
            assert!(matches!(host.result_of(id), Outcome::Error(_)));
        }
        let (_, sent) = get(&mut host);
        reply(&mut host, &sent, json!({"messages": []}));
        for _ in 0..doubts {
            let (_, sent) = get(&mut host);
            refuse(&mut host, &sent, -32601, "Method not found");
        }
        assert!(host.is_ready(), "a response in between shows that the server is the same");
        let (id, sent) = get(&mut host);
        refuse(&mut host, &sent, code, "gone");
        assert_eq!(host.quirks(), [QuirkKind::EraChanged]);
        let mut server = Server::modern(capabilities.clone())
            .result("tools/list", tools(&["a"]))
            .result("prompts/list", prompts())
            .result("prompts/get", json!({"messages": []}));
        reopen(&mut host, &mut server);
        assert_eq!(era(&host), Some(Era::Modern));
        assert!(matches!(host.result_of(id), Outcome::Result(_)));
    }
}

/// A server may answer so for an unknown tool, or pass on the answer of a server behind it.
#[test]
fn unknown_tools_in_a_row_make_no_new_handshake() {
    let mut host = ready(reconnecting(options()), &mut old());
    for _ in 0..5 {
        let (id, sent) = call(&mut host);
        refuse(&mut host, &sent, -32601, "Unknown tool");
        assert!(matches!(host.result_of(id), Outcome::Error(_)));
    }
    assert!(host.is_ready() && host.quirks().is_empty());
}

/// The call of a backend may be what the error belongs to.
#[test]
fn a_call_that_may_have_begun_is_not_sent_again() {
    let progress = |sent: &Value| {
        let token = &sent["params"]["_meta"]["progressToken"];
        json!({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    };
    let roots = |_: &Value| json!({"id": "r-1", "method": "roots/list"});
    let signs: [&dyn Fn(&Value) -> Value; 2] = [&progress, &roots];
    for code in MODERN_ERRORS {
        for sign in signs {
            let mut host = ready(reconnecting(options()), &mut old());
            let (id, sent) = call(&mut host);
            let mut message = sign(&sent);
            message["jsonrpc"] = json!("2.0");
            host.receive(message);
            host.take_sent();
            refuse(&mut host, &sent, code, "the backend does not know step 2");
            assert!(matches!(host.result_of(id), Outcome::Error(_)));
            assert_eq!(host.quirks(), [QuirkKind::EraChanged]);
            let mut server = new();
            reopen(&mut host, &mut server);
            assert_eq!(server.received("tools/call"), 0);
        }
    }
}

#[test]
fn a_ping_is_no_sign_that_a_call_has_begun() {
    let mut host = ready(reconnecting(options()), &mut old());
    // What the server asked for before the call was made does not belong to it.
    host.receive(json!({"jsonrpc": "2.0", "id": "r-1", "method": "roots/list"}));
    host.take_sent();
    let (id, sent) = call(&mut host);
    host.receive(json!({"jsonrpc": "2.0", "id": "p-1", "method": "ping"}));
    host.take_sent();
    refuse(&mut host, &sent, -32022, "upgraded");
    let mut server = new();
    reopen(&mut host, &mut server);
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
    assert_eq!(server.received("tools/call"), 1);
}

#[test]
fn unknown_methods_outside_the_capabilities_do_not_decide_the_era() {
    let mut host = ready(reconnecting(options()), &mut old());
    for _ in 0..10 {
        host.session.request(host.now, Request::new("acme/method")).unwrap();
        host.collect();
        let sent = host.take_one();
        refuse(&mut host, &sent, -32601, "Method not found");
    }
    assert!(host.is_ready() && host.quirks().is_empty());
}

#[test]
fn a_client_without_reconnects_makes_the_new_handshake_too() {
    let mut host = ready(options(), &mut old());
    let (id, sent) = call(&mut host);
    refuse(&mut host, &sent, -32022, "upgraded");
    assert!(host.ended(id).is_none(), "it did not run");
    let mut server = new().error("tools/call", -32022, "upgraded again");
    reopen(&mut host, &mut server);
    assert!(matches!(host.result_of(id), Outcome::Error(_)));
    assert_eq!((server.received("tools/call"), downs(&host).len()), (1, 1));
    host.close_transport();
    assert!(matches!(host.events.last(), Some(Event::Closed { .. })), "a lost connection is not reopened");
}

#[test]
fn over_http_a_400_with_a_modern_error_makes_one_new_handshake() {
    let legacy = || Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let content = json!({"resultType": "complete", "content": []});
    for (status, code) in [(400, -32022), (400, -32020), (200, -32022), (200, -32020)] {
        // An error in a successful response belongs to the tool.
        let renews = status == 400;
        let mut web = Web::connect(reconnecting(options()), &mut legacy());
        let mut upgraded = Site::modern(json!({"tools": {}}))
            .result("tools/list", tools(&["a"]))
            .result("tools/call", content.clone());
        let id = web.request(tool("a"));
        let sent = web.take_named("tools/call");
        let error = sent.error(code, "Unsupported protocol version");
        web.end_with(&sent, Reply::json(status, &error));
        assert_eq!(web.ended(id).is_some(), !renews);
        web.wait_and_serve(seconds(5), &mut upgraded);
        let era = web.session.server().map(mcp_proto::Server::era);
        let refused = (Some(Era::Modern), vec![QuirkKind::EraChanged]);
        assert_eq!((era, web.quirks()), if renews { refused } else { (Some(Era::Legacy), vec![]) });
        assert!(web.is_ready());
        assert_eq!(matches!(web.result_of(id), Outcome::Result(_)), renews);
    }
}

/// Only a 4xx shows that the request did not run.
#[test]
fn over_http_a_500_with_a_modern_error_does_not_send_the_request_again() {
    let mut site = Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut web = Web::connect(reconnecting(options()), &mut site);
    let id = web.request(tool("a"));
    let sent = web.take_named("tools/call");
    web.end_with(&sent, Reply::json(500, &sent.error(-32020, "Session not found")));
    web.wait_and_serve(seconds(5), &mut site);
    assert!(matches!(web.result_of(id), Outcome::Error(_)) && web.is_ready());
    assert_eq!(web.count("tools/call"), 1);
}
