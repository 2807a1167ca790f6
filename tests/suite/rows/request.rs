//! Rows of requests: encoded when their turn comes, and sent when the embedder polls them.

use http::StatusCode;
use mcp_proto::binding::http::Broken;
use mcp_proto::{CommandError, Event, Keepalive, ListErrors, Outcome, Request, RequestId, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use crate::web::{Exchange, Reply, Site, Web, modern_site, raw, site, tool};

/// A request may have run only if the embedder polled it.
#[test]
fn an_unpolled_request_is_sent_on_the_next_connection_and_a_polled_one_ends_as_unknown() {
    let mut server = Server::legacy(json!({"tools": {}}))
        .result("tools/list", tools(&["x"]))
        .result("tools/call", json!({"content": []}));
    for taken in [false, true] {
        let mut host = Host::connect(reconnecting(legacy()), &mut server);
        let request = host.session.request(host.now, Request::call_tool("x", None)).unwrap();
        if taken {
            host.collect();
            assert_eq!(host.take_methods(), ["tools/call"]);
        }
        host.close_transport();
        host.wait(seconds(1));
        assert!(host.take_sent().is_empty());
        host.transport(Transport::Opened);
        host.serve(&mut server);
        assert!(host.is_ready());
        match host.result_of(request) {
            Outcome::Unknown => assert!(taken),
            Outcome::Result(_) => assert!(!taken),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.received("tools/call"), 1, "only the unpolled one");
}

#[test]
fn a_request_that_waits_for_input_ends_with_its_session_and_its_input_requests() {
    let wanted = json!({"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}});
    let result = json!({"resultType": "input_required", "inputRequests": wanted});
    let server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["x"]));
    let mut server = server.result("tools/call", result);
    let mut options = options();
    options.capabilities.elicitation = true;
    let mut host = Host::connect(options, &mut server);
    let request = host.session.request(host.now, Request::call_tool("x", None)).unwrap();
    host.collect();
    host.serve(&mut server);
    assert!(host.ended(request).is_none());
    host.session.close(host.now).unwrap();
    host.collect();
    assert!(
        matches!(host.result_of(request), Outcome::InputRequired(result) if result.get().contains("inputRequests"))
    );
}

/// A request that is not asked for anything takes neither input nor a refusal of it.
#[test]
fn a_request_takes_input_only_while_it_waits_for_it() {
    let refused = |host: &mut Host, request| {
        let given: [(&str, &serde_json::value::RawValue); 0] = [];
        assert_eq!(host.session.provide(host.now, request, given), Err(CommandError::UnknownRequest));
        assert_eq!(host.session.decline(host.now, request), Err(CommandError::UnknownRequest));
    };
    let mut host = Host::open(legacy());
    let queued = host.session.request(host.now, Request::call_tool("x", None)).unwrap();
    refused(&mut host, queued);
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"]));
    let mut host = Host::connect(legacy(), &mut server);
    let request = host.session.request(host.now, Request::call_tool("x", None)).unwrap();
    refused(&mut host, request);
    host.collect();
    assert_eq!(host.take_methods(), ["tools/call"]);
    refused(&mut host, request);
}

/// A call that the server temporarily refused. It is due to be sent again, and not polled.
fn refused_for_now(web: &mut Web) -> (RequestId, Exchange) {
    let (request, call) = web.call("a");
    web.reply(&call, Reply::text(429, "later").with("retry-after", "1"));
    web.now = web.now + seconds(1);
    web.session.handle_timeout(web.now);
    (request, call)
}

#[test]
fn a_call_that_is_sent_again_after_429_and_not_polled_ends_as_not_sent() {
    let mut web = Web::connect(legacy(), &mut site());
    let (request, _) = refused_for_now(&mut web);
    web.close();
    assert_eq!(web.outcome(request), "NotSent");
}

#[test]
fn a_call_that_is_sent_again_after_429_and_not_polled_is_sent_in_the_next_session() {
    let mut site = site();
    let mut web = Web::connect(legacy(), &mut site);
    let (_, other) = web.call("a");
    let (request, refused) = refused_for_now(&mut web);
    site.forget_session();
    let gone = Reply::text(404, "session not found");
    web.session.handle_head(web.now, other.id, StatusCode::NOT_FOUND, &gone.header_map());
    web.session.handle_body(web.now, other.id, b"session not found");
    web.session.handle_end(web.now, other.id);
    web.open.remove(&other.id);
    web.collect();
    web.serve(&mut site);
    assert!(web.outcome(request).starts_with("Result"), "{}", web.outcome(request));
    let calls = web.log.iter().filter(|exchange| exchange.is("tools/call")).count();
    assert_eq!(calls, 4, "each call once in each session, and {refused:?} was refused");
}

/// A request that may run twice is sent again twice at most, however often the connection is lost.
#[test]
fn a_call_that_may_run_twice_ends_as_unknown_after_the_third_loss() {
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"]));
    let mut host = Host::connect(reconnecting(legacy()), &mut server);
    let request = host.session.request(host.now, Request::call_tool("x", None).replay(true)).unwrap();
    host.collect();
    let mut sent = 0;
    for _ in 0..4 {
        sent += host.take_methods().iter().filter(|method| *method == "tools/call").count();
        host.close_transport();
        host.wait(seconds(5));
        host.transport(Transport::Opened);
        // The server answers everything but calls.
        while host.sent.iter().any(|message| message["method"] != "tools/call") {
            let (calls, others): (Vec<Value>, Vec<Value>) =
                host.take_sent().into_iter().partition(|message| message["method"] == "tools/call");
            host.sent = calls;
            for message in others {
                server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
            }
        }
    }
    assert_eq!(sent, 3);
    assert!(matches!(host.result_of(request), Outcome::Unknown));
}

/// A gateway without a response does not mean that the server refused the list.
#[test]
fn a_page_with_a_gateway_timeout_is_requested_again() {
    for status in [502, 504] {
        let mut site = site().first("tools/list", 2, move |_| Reply::status(status));
        let web = Web::connect(legacy(), &mut site);
        assert!(web.is_ready(), "{status}: {:?}", web.failure());
        assert_eq!(web.count("tools/list"), 3, "{status}");
    }
}

#[test]
fn a_keepalive_request_that_was_not_polled_in_time_is_withdrawn() {
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"]));
    let (mut options, keepalive) = (legacy(), Keepalive::default());
    options.keepalive = Some(keepalive);
    let mut host = Host::connect(options, &mut server);
    for wait in [keepalive.interval, keepalive.timeout] {
        host.now = host.now + wait;
        host.session.handle_timeout(host.now);
    }
    host.collect();
    assert!(host.take_methods().is_empty());
    host.wait(keepalive.interval);
    assert_eq!(host.take_methods(), ["ping"], "the next one");
}

#[test]
fn lists_that_wait_to_be_sent_are_withdrawn_at_the_deadline_of_discovery() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    options.timeouts.request = options.timeouts.discovery * 2;
    options.tolerance.list_errors = ListErrors::Degrade;
    let mut host = Host::open(options);
    let mut server = Server::legacy(json!({"tools": {}, "prompts": {}}));
    let initialize = host.take_one();
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    let lists = |host: &mut Host| host.take_methods().iter().filter(|method| method.ends_with("/list")).count();
    assert_eq!(lists(&mut host), 1, "one at a time");
    host.wait(host.session.options().timeouts.discovery);
    host.wait(seconds(1));
    assert!(host.is_ready(), "{:?}", host.failure());
    assert_eq!(lists(&mut host), 0);
}

/// A request that only reads a resource.
fn read() -> Request {
    Request::new("resources/read").params(raw(&json!({"uri": "a:b"})))
}

#[test]
fn a_request_over_http_that_may_run_twice_ends_as_unknown_after_the_third_loss() {
    for (request, method) in [(tool("a").replay(true), "tools/call"), (read(), "resources/read")] {
        let mut site = Site::legacy(json!({"tools": {}, "resources": {}})).result("tools/list", tools(&["a"]));
        let mut web = Web::connect(legacy(), &mut site);
        let request = web.request(request);
        for _ in 0..3 {
            let exchange = web.take_named(method);
            web.fail(&exchange, Broken::Midway);
            web.wait(seconds(1));
        }
        assert!(matches!(web.ended(request), Some(Outcome::Unknown)));
        assert!(web.take().is_empty());
    }
}

/// Only over HTTP the loss of one exchange says nothing of the others.
#[test]
fn a_request_over_a_pipe_that_only_reads_ends_as_unknown_with_its_connection() {
    for trust in [false, true] {
        let mut options = reconnecting(legacy());
        options.trust = trust;
        let mut host = Host::connect(options, &mut Server::legacy(json!({"resources": {}})));
        let request = host.session.request(host.now, read()).unwrap();
        host.collect();
        assert_eq!(host.take_methods(), ["resources/read"]);
        host.close_transport();
        assert!(matches!(host.result_of(request), Outcome::Unknown), "{trust}");
    }
}

#[test]
fn a_call_that_waits_for_authorization_takes_no_input_once_it_was_given() {
    let mut options = options();
    options.capabilities.elicitation = true;
    let mut web = Web::connect(options, &mut modern_site());
    let (request, call) = web.call("a");
    let form = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    let required = call.result(json!({"resultType": "input_required", "inputRequests": {"q": form}}));
    web.reply(&call, Reply::json(200, &required));
    let given = raw(&json!({"action": "accept", "content": {}}));
    web.session.provide(web.now, request, [("q", &*given)]).unwrap();
    web.collect();
    let call = web.take_named("tools/call");
    web.reply(&call, Reply::text(401, "who").with("www-authenticate", "Bearer"));
    assert_eq!(web.session.provide(web.now, request, [("q", &*given)]), Err(CommandError::UnknownRequest));
    web.collect();
    assert!(web.take().is_empty());
    web.session.authorized(web.now).unwrap();
    web.collect();
    web.take_named("tools/call");
}

#[test]
fn a_notification_that_is_refused_for_lack_of_authorization_is_not_reported() {
    let mut web = Web::connect(legacy(), &mut site());
    web.session.notify(web.now, "acme/told", None).unwrap();
    web.collect();
    let told = web.take_named("acme/told");
    web.reply(&told, Reply::text(401, "who").with("www-authenticate", "Bearer"));
    assert!(web.is_ready());
    assert!(!web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. })));
}
