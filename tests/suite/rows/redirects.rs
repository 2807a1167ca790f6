//! Redirects that are not followed: the server did not process what it redirects.

use crate::common::{Steps, legacy, options};
use crate::web::{Reply, URL, Web, modern_site, site, tool, was_answered};
use mcp_proto::{Cause, Event, FailureKind, Outcome, RequestError};
use serde_json::json;

const ELSEWHERE: &str = "https://elsewhere.example/mcp";

/// A client of an HTTP+SSE server.
fn sse() -> Web {
    let (mut web, mut site) = (Web::open(legacy()), site());
    let mut steps = Steps::until("the client is ready");
    while !web.is_ready() {
        steps.step();
        for exchange in web.take() {
            match exchange.verb() {
                "GET" => web.reply(&exchange, Reply::stream("event: endpoint\ndata: /messages\n\n")),
                _ if exchange.url() == URL => web.reply(&exchange, Reply::status(405)),
                _ => {
                    web.reply(&exchange, Reply::status(202));
                    let stream = web.last("GET");
                    site.server.answer(&exchange.json()).into_iter().for_each(|answer| web.push(&stream, answer));
                }
            }
        }
    }
    web
}

/// The status and the message with which a request failed.
fn refusal(outcome: &Outcome) -> (u16, &str) {
    match outcome {
        Outcome::Error(RequestError::Status { status, message }) => (*status, message),
        other => panic!("{other:?}"),
    }
}

fn assert_violated(web: &Web) {
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

/// RFC 9110, section 15.4: without an address, the request is not fulfilled, and nothing can be followed.
#[test]
fn a_redirect_without_an_address_refuses_the_request_and_the_connection_stays() {
    for status in [307, 308] {
        for (options, mut site) in [(legacy(), site()), (options(), modern_site())] {
            let mut web = Web::connect(options, &mut site);
            let (request, call) = web.call("a");
            web.reply(&call, Reply::status(status));
            assert_eq!(refusal(web.result_of(request)), (status, "it points to no address"));
            assert_eq!((web.count("tools/call"), web.is_ready(), web.quirks()), (1, true, vec![]));
            let next = web.request(tool("a"));
            web.serve(&mut site);
            assert!(was_answered(&web, next));
        }
        let mut web = sse();
        let (request, call) = web.call("a");
        web.reply(&call, Reply::status(status));
        assert_eq!(refusal(web.result_of(request)), (status, "it points to no address"));
        assert!(web.is_ready());
    }
}

#[test]
fn a_handshake_that_is_redirected_to_no_address_is_refused() {
    let web = Web::connect(legacy(), &mut site().on("initialize", |_| Reply::status(307)));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!((failure.kind, web.count("initialize")), (FailureKind::HandshakeRejected, 1));
    assert!(failure.message.contains("HTTP 307"), "{failure}");
}

#[test]
fn a_message_without_a_response_that_is_redirected_to_no_address_is_dropped() {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let mut http = Web::connect(legacy(), &mut site());
    for web in [&mut http, &mut sse()] {
        let stream = web.last("GET");
        web.push(&stream, ping.clone());
        let answer = web.take_named("(answer)");
        web.reply(&answer, Reply::status(307));
        assert_eq!((web.count("(answer)"), web.is_ready()), (1, true));
    }
}

#[test]
fn a_stream_that_is_redirected_to_no_address_is_refused() {
    let mut web = Web::open(legacy());
    let initialize = web.take_named("initialize");
    web.reply(&initialize, Reply::status(405));
    let get = web.take_named("GET");
    web.reply(&get, Reply::status(307));
    assert_eq!((web.count("GET"), web.take_names()), (1, vec!["initialize".into()]), "405 refused the version");
    // The GET stream is optional.
    let mut site = site().on("GET", |_| Reply::status(307));
    let web = Web::connect(legacy(), &mut site);
    assert_eq!((web.is_ready(), web.count("GET")), (true, 1));
}

#[test]
fn a_request_that_is_redirected_elsewhere_fails_with_the_status_and_others_may_have_run() {
    let mut parallel = options();
    parallel.parallel_tool_calls = true;
    for (mut web, two) in [(Web::connect(parallel, &mut modern_site()), true), (sse(), false)] {
        let other = two.then(|| web.call("a").0);
        let (request, call) = web.call("a");
        web.reply(&call, Reply::status(307).with("location", ELSEWHERE));
        let (status, message) = refusal(web.result_of(request));
        assert!(status == 307 && message.contains(ELSEWHERE), "{message}");
        assert!(other.is_none_or(|other| matches!(web.result_of(other), Outcome::Unknown)));
        assert_violated(&web);
        let finished = web.events.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        assert_eq!(finished, 1 + usize::from(two));
    }
}

#[test]
fn over_http_sse_a_response_that_is_redirected_elsewhere_ends_the_client() {
    let mut web = sse();
    let stream = web.last("GET");
    web.push(&stream, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let answer = web.take_named("(answer)");
    web.reply(&answer, Reply::status(307).with("location", ELSEWHERE));
    assert_violated(&web);
}
