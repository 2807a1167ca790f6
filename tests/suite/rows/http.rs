//! Rows of the tables of the HTTP binding that other suites of HTTP take by chance or not at all.

use crate::common::{Steps, legacy, millis, options, reconnecting, seconds};
use crate::snapshot::with_state;
use crate::web::{Exchange, Reply, SESSION, Site, URL, Web, modern_site, raw, site, tool, was_answered};
use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::{
    Cause, Client, Event, FailureKind, Http, Moved, Options, Outcome, QuirkKind, Request, Secrets, Snapshot,
};
use serde_json::{Value, json};

const INITIALIZED: &str = "notifications/initialized";
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];
pub(super) const ENDPOINT: &str = "event: endpoint\ndata: /messages\n\n";
const ELSEWHERE: &str = "event: endpoint\ndata: https://elsewhere.example/messages\n\n";

fn connect(options: Options, site: &mut Site) -> Web {
    let web = Web::connect(options, site);
    assert!(web.is_ready(), "{:?}", web.failure());
    web
}

/// Answers the requests to a server over HTTP with SSE until there are none left. Returns the stream.
fn serve_sse(web: &mut Web, site: &mut Site) -> Option<Exchange> {
    let mut stream = None;
    let mut steps = Steps::until("nothing is left to answer");
    loop {
        let asked = web.take();
        if asked.is_empty() {
            return stream;
        }
        for exchange in asked {
            steps.step();
            match exchange.verb() {
                "GET" => {
                    web.reply(&exchange, Reply::stream(ENDPOINT));
                    stream = Some(exchange);
                }
                _ if exchange.url() == URL => web.reply(&exchange, Reply::status(405)),
                _ => {
                    web.reply(&exchange, Reply::status(202));
                    let stream = web.last("GET");
                    for answer in site.server.answer(&exchange.json()) {
                        web.push(&stream, answer);
                    }
                }
            }
        }
    }
}

/// A client of an HTTP+SSE server, and the server's stream.
pub(super) fn sse(options: Options) -> (Web, Exchange, Site) {
    let (mut web, mut site) = (Web::open(options), site());
    let stream = serve_sse(&mut web, &mut site).unwrap();
    assert!(web.is_ready(), "{:?}", web.failure());
    (web, stream, site)
}

/// The next connection of such a client: the GET of its stream.
pub(super) fn sse_again() -> (Web, Exchange, Site) {
    let (mut web, stream, site) = sse(reconnecting(legacy()));
    web.end(&stream);
    web.wait(seconds(1));
    let again = web.take_named("GET");
    (web, again, site)
}

// `notifications/initialized`

/// The POST of `notifications/initialized` on the next connection.
fn initialized(web: &mut Web, site: &mut Site) -> Exchange {
    let mut steps = Steps::until("the client connects");
    let initialize = loop {
        steps.step();
        if let Some(initialize) = web.take().into_iter().find(|exchange| exchange.is("initialize")) {
            break initialize;
        }
        web.wait(seconds(1));
    };
    web.end_with(&initialize, site.reply(&initialize));
    web.take_named(INITIALIZED)
}

/// A client whose connection ended because the POST broke twice, and the POST on the next connection.
fn after_two_failures() -> (Web, Site, Exchange) {
    let (mut web, mut site) = (Web::open(reconnecting(legacy())), site());
    let first = initialized(&mut web, &mut site);
    web.fail(&first, Broken::Midway);
    let second = web.take_named(INITIALIZED);
    web.fail(&second, Broken::Midway);
    assert_eq!((web.take_names(), web.failure_kind()), (vec![], Some(FailureKind::Closed)));
    let next = initialized(&mut web, &mut site);
    (web, site, next)
}

#[test]
fn initialized_is_repeated_once_when_its_exchange_breaks_or_ends_without_a_response() {
    for breaks in [true, false] {
        let (mut web, mut site) = (Web::open(legacy()), site());
        let first = initialized(&mut web, &mut site);
        if breaks {
            web.fail(&first, Broken::Midway)
        } else {
            web.end(&first)
        }
        let second = web.take_named(INITIALIZED);
        assert_eq!(second.body(), first.body());
        assert!(web.take().is_empty(), "no other message is sent meanwhile");
        web.reply(&second, Reply::status(202));
        web.serve(&mut site);
        assert!(web.is_ready());
    }
}

#[test]
fn initialized_with_a_broken_response_is_not_repeated() {
    let (mut web, mut site) = (Web::open(legacy()), site());
    let first = initialized(&mut web, &mut site);
    web.head(&first, 500, &[]);
    web.fail(&first, Broken::Midway);
    web.serve(&mut site);
    assert!(web.is_ready() && web.count(INITIALIZED) == 1);
}

#[test]
fn initialized_that_is_refused_for_now_is_sent_again_after_waits_that_double() {
    let (mut web, mut site) = (Web::open(legacy()), site());
    let mut post = initialized(&mut web, &mut site);
    for wait in [1, 2, 4] {
        web.reply(&post, Reply::status(503).with("retry-after", "1"));
        web.wait(seconds(wait) - millis(1));
        assert!(web.take().is_empty(), "{wait}");
        web.wait(millis(1));
        post = web.take_named(INITIALIZED);
    }
    web.reply(&post, Reply::status(202));
    web.serve(&mut site);
    assert!(web.is_ready());
}

#[test]
fn initialized_that_breaks_twice_ends_the_connection_without_reconnects_the_client() {
    let (mut web, mut site) = (Web::open(legacy()), site());
    let first = initialized(&mut web, &mut site);
    web.fail(&first, Broken::Midway);
    let second = web.take_named(INITIALIZED);
    web.fail(&second, Broken::Midway);
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Closed);
}

#[test]
fn after_initialized_broke_twice_the_next_connection_tolerates_two_failures() {
    let (mut web, mut site, first) = after_two_failures();
    web.fail(&first, Broken::Midway);
    let second = web.take_named(INITIALIZED);
    assert!(web.take().is_empty());
    web.fail(&second, Broken::Midway);
    web.serve(&mut site);
    assert!(web.is_ready());
}

#[test]
fn after_initialized_broke_twice_a_response_resets_the_count() {
    for repeated in [false, true] {
        let (mut web, mut site, mut initialized) = after_two_failures();
        if repeated {
            web.fail(&initialized, Broken::Midway);
            initialized = web.take_named(INITIALIZED);
        }
        web.reply(&initialized, Reply::status(202));
        web.serve(&mut site);
        assert!(web.is_ready());
        site.forget_session();
        let (_, call) = web.call("a");
        web.reply(&call, Reply::status(404));
        let first = self::initialized(&mut web, &mut site);
        web.fail(&first, Broken::Midway);
        let second = web.take_named(INITIALIZED);
        let downs = |web: &Web| web.events.iter().filter(|event| matches!(event, Event::Down { .. })).count();
        let before = downs(&web);
        web.fail(&second, Broken::Midway);
        assert_eq!(web.failure_kind(), Some(FailureKind::Closed));
        assert_eq!((downs(&web), web.take().len()), (before + 1, 0), "the connection ends after two, as the first one");
    }
}

#[test]
fn a_connection_lost_while_initialized_is_repeated_resets_the_count() {
    let (mut web, mut site) = (Web::open(reconnecting(legacy())), site());
    let first = initialized(&mut web, &mut site);
    web.fail(&first, Broken::Midway);
    let second = web.take_named(INITIALIZED);
    web.fail(&second, Broken::Unreachable);
    // One failure is not carried over to the next connection: two more end it.
    let third = initialized(&mut web, &mut site);
    web.fail(&third, Broken::Midway);
    let fourth = web.take_named(INITIALIZED);
    web.fail(&fourth, Broken::Midway);
    assert!(web.take().is_empty() && !web.is_ready());

    let (mut web, mut site, first) = after_two_failures();
    web.fail(&first, Broken::Midway);
    let second = web.take_named(INITIALIZED);
    web.fail(&second, Broken::Unreachable);
    // The count is kept.
    let third = initialized(&mut web, &mut site);
    web.fail(&third, Broken::Midway);
    let fourth = web.take_named(INITIALIZED);
    web.fail(&fourth, Broken::Midway);
    web.serve(&mut site);
    assert!(web.is_ready());
}

// What is sent, and what waits

/// A client over a connection that carries one notification or response at a time.
fn narrow() -> Web {
    let mut options = legacy();
    options.limits.in_flight = 1;
    connect(options, &mut site())
}

fn notify(web: &mut Web, method: &'static str) {
    web.session.notify(web.now, method, None).unwrap();
}

fn undelivered(web: &Web) -> (u64, usize) {
    let told = web.session.quirks().iter().filter(|quirk| quirk.kind == QuirkKind::Undelivered).count();
    (web.session.stats().undelivered, told)
}

#[test]
fn a_queued_notification_that_times_out_is_dropped_counted_and_reported() {
    let mut web = narrow();
    notify(&mut web, "notifications/a");
    notify(&mut web, "notifications/b");
    web.collect();
    assert_eq!(web.take_names(), ["notifications/a"]);
    web.wait(millis(59_999));
    assert_eq!(undelivered(&web), (0, 0));
    web.wait(millis(1));
    assert_eq!(undelivered(&web), (1, 1));
    assert!(web.take().is_empty() && web.is_ready());
}

#[test]
fn a_notification_that_waited_is_sent_before_a_newer_one_that_was_not_polled() {
    let mut web = narrow();
    for method in ["notifications/a", "notifications/b"] {
        notify(&mut web, method);
    }
    web.collect();
    let first = web.take_one();
    notify(&mut web, "notifications/c");
    web.session.handle_head(web.now, first.id, http::StatusCode::ACCEPTED, &crate::web::header_map::<&str>(&[]));
    web.session.handle_end(web.now, first.id);
    web.collect();
    assert_eq!(web.take_names(), ["notifications/b"]);
}

#[test]
fn a_notification_that_is_not_polled_in_time_is_dropped_and_counted() {
    let mut web = narrow();
    notify(&mut web, "notifications/a");
    notify(&mut web, "notifications/b");
    web.collect();
    let first = web.take_one();
    web.now = web.now + seconds(30);
    // The first one passes its exchange to the second one.
    web.session.handle_head(web.now, first.id, http::StatusCode::ACCEPTED, &crate::web::header_map::<&str>(&[]));
    web.session.handle_end(web.now, first.id);
    web.now = web.now + seconds(30);
    web.session.handle_timeout(web.now);
    assert_eq!(undelivered(&web), (1, 0));
    assert!(!std::iter::from_fn(|| web.session.poll()).any(|action| matches!(action, HttpAction::Request(_))));
}

#[test]
fn a_notification_that_the_server_does_not_respond_to_in_time_counts_as_sent() {
    let mut web = narrow();
    notify(&mut web, "notifications/a");
    web.collect();
    web.wait(seconds(60));
    assert_eq!(undelivered(&web), (0, 0));
}

#[test]
fn cancellations_beyond_the_queue_limit_are_dropped_counted_and_reported() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    options.limits.output = 2;
    let mut web = connect(options, &mut site());
    for _ in 0..4 {
        let request = web.request(tool("a"));
        web.collect();
        web.session.cancel(web.now, request).unwrap();
        web.collect();
    }
    assert_eq!(undelivered(&web), (1, 1));
}

// Servers that are not reached

#[test]
fn the_second_unreachable_request_in_a_row_ends_the_connection() {
    let mut site = site();
    site.streams = false;
    let mut web = connect(reconnecting(legacy()), &mut site);
    let ((_, missed), (_, other)) = (web.call("a"), web.call("a"));
    web.head(&other, 200, &STREAM);
    web.fail(&missed, Broken::Unreachable);
    let again = web.take_named("tools/call");
    web.end(&other);
    assert!(web.is_ready());
    web.fail(&again, Broken::Unreachable);
    assert_eq!((web.is_ready(), web.failure_kind()), (false, Some(FailureKind::Connect)));
}

#[test]
fn an_unreachable_handshake_after_an_unreachable_request_is_a_failure_to_connect() {
    let mut options = reconnecting(legacy());
    options.keepalive = Some(mcp_proto::Keepalive::default());
    let mut site = site();
    site.streams = false;
    let mut web = connect(options, &mut site);
    let ((_, missed), (_, other)) = (web.call("a"), web.call("a"));
    web.head(&other, 200, &STREAM);
    web.fail(&missed, Broken::Unreachable);
    assert!(web.is_ready());
    // The server does not answer from here on, until the keepalive ends the connection.
    let mut steps = Steps::until("the client connects again");
    while web.count("initialize") < 2 {
        steps.step();
        web.wait(seconds(10));
    }
    let initialize = web.last("initialize");
    web.fail(&initialize, Broken::Unreachable);
    web.wait_and_serve(seconds(60), &mut site);
    assert!(web.is_ready() && web.count("initialize") > 2, "{:?}", web.failure());
}

// How bodies are read

#[test]
fn over_http_sse_a_redirect_of_a_message_to_another_origin_ends_the_client() {
    let (mut web, _, _) = sse(legacy());
    let (_, call) = web.call("a");
    web.reply(&call, Reply::status(307).with("location", "https://elsewhere.example/messages"));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn events_of_other_types_in_a_resumed_stream_are_ignored() {
    let mut web = connect(legacy(), &mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.body(&call, "id: 9\ndata:\n\n");
    web.end(&call);
    web.wait(seconds(5));
    let resumed = web.take_named("GET");
    web.head(&resumed, 200, &STREAM);
    web.body(&resumed, ENDPOINT);
    assert_eq!((web.outcome(request), web.is_ready()), ("open".into(), true));
    web.push(&resumed, call.result(json!({"content": []})));
    assert!(was_answered(&web, request) && web.was_dropped(&resumed));
}

// HTTP+SSE

#[test]
fn an_endpoint_of_another_origin_ends_the_client_on_a_later_connection_too() {
    let (mut web, get, _) = sse_again();
    web.reply(&get, Reply::stream(ELSEWHERE));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn a_second_endpoint_replaces_the_first_one_within_the_origin() {
    let (mut web, stream, _) = sse(legacy());
    web.body(&stream, "event: endpoint\ndata: /other\n\n");
    let (_, call) = web.call("a");
    assert_eq!(call.url(), "https://example.com/other");
    web.body(&stream, ELSEWHERE);
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn a_known_sse_server_without_an_endpoint_is_tried_over_streamable_http_next() {
    let message = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n";
    let (mut web, get, mut site) = sse_again();
    web.reply(&get, Reply::stream(message));
    assert!(web.was_dropped(&get));
    web.wait_and_serve(seconds(5), &mut site);
    assert!(web.is_ready() && web.last("tools/list").url() == URL);
}

#[test]
fn a_known_sse_server_with_a_broken_refusal_is_tried_over_streamable_http_next() {
    let (mut web, get, mut site) = sse_again();
    web.head(&get, 404, &[]);
    web.fail(&get, Broken::Midway);
    web.wait_and_serve(seconds(5), &mut site);
    assert!(web.is_ready() && web.last("tools/list").url() == URL);

    let (mut web, get, _) = sse_again();
    web.head(&get, 401, &[]);
    web.fail(&get, Broken::Midway);
    let unauthorized = web.events.iter().any(|event| matches!(event, Event::Unauthorized { request: None, .. }));
    assert!(unauthorized, "{:?}", web.events);
}

#[test]
fn a_known_sse_server_whose_stream_breaks_or_is_unreachable_is_tried_over_http_sse_again() {
    for broken in [Some(Broken::Midway), Some(Broken::Unreachable), None] {
        let (mut web, get, mut site) = sse_again();
        match broken {
            Some(broken) => web.fail(&get, broken),
            None => web.reply(&get, Reply::events(&[])),
        }
        web.wait(seconds(5));
        serve_sse(&mut web, &mut site);
        assert!(web.is_ready(), "{broken:?}");
        assert_eq!(web.last("tools/list").url(), "https://example.com/messages");
    }
    // Also after the connection is established.
    let (mut web, stream, mut site) = sse(reconnecting(legacy()));
    web.fail(&stream, Broken::Midway);
    web.wait(seconds(5));
    serve_sse(&mut web, &mut site);
    assert!(web.is_ready());
}

/// Streamable HTTP sends the session id in a header; HTTP with SSE ignores that header.
#[test]
fn a_known_sse_server_that_answers_discover_is_modern() {
    let mut web = Web::open(reconnecting(options()));
    for refused in ["server/discover", "initialize"] {
        let exchange = web.take_named(refused);
        web.reply(&exchange, Reply::status(404));
    }
    let stream = web.take_named("GET");
    web.reply(&stream, Reply::stream(ENDPOINT));
    web.take_named("initialize");
    web.end(&stream);
    web.wait(seconds(1));
    let mut modern = modern_site();
    serve_sse(&mut web, &mut modern);
    assert!(web.is_ready(), "{:?}", web.failure());
    assert_eq!(web.session.server().map(|server| server.era()), Some(mcp_proto::Era::Modern));
}

// Heads of responses

#[test]
fn over_http_sse_a_response_to_the_server_follows_a_redirect() {
    let (mut web, stream, _) = sse(legacy());
    web.push(&stream, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let answer = web.take_named("(answer)");
    web.reply(&answer, Reply::status(308).with("location", "/moved"));
    let again = web.take_named("(answer)");
    assert_eq!((again.url(), again.body()), ("https://example.com/moved".into(), answer.body()));
    // A refusal has no effect.
    web.reply(&again, Reply::status(500));
    assert!(web.is_ready() && web.is_open(&stream));
}

// What responses mean

#[test]
fn already_initialized_ends_the_previous_session_with_any_status() {
    for status in [304, 405, 409, 500, 503] {
        let mut site = site();
        let mut web = connect(legacy(), &mut site);
        let (request, call) = web.call("a");
        web.reply(&call, Reply::status(404));
        let initialize = web.take_named("initialize");
        web.reply(&initialize, Reply::text(status, "Already initialized"));
        let delete = web.take_named("DELETE");
        assert_eq!(delete.header(SESSION), Some("session-1"), "{status}");
        web.reply(&delete, Reply::status(200));
        web.serve(&mut site);
        assert!(web.is_ready() && was_answered(&web, request), "{status}");
        assert_eq!(web.quirk_methods(QuirkKind::AlreadyInitialized), ["initialize"]);
    }
}

#[test]
fn a_header_mismatch_counts_with_any_4xx_status() {
    for status in [400, 404, 405, 422] {
        let mut site = modern_site()
            .first("tools/call", 1, move |call| Reply::json(status, &call.error(-32020, "Header mismatch")));
        let mut web = connect(options(), &mut site);
        let lists = web.count("tools/list");
        let request = web.request(tool("a"));
        web.serve(&mut site);
        assert!(was_answered(&web, request), "{status}");
        assert_eq!((web.count("tools/call"), web.count("tools/list")), (2, lists + 1), "{status}");
    }
}

#[test]
fn a_modern_error_to_discover_also_counts_with_status_5xx() {
    let error = |probe: &Exchange| Reply::json(503, &probe.error(-32021, "roots are required"));
    let web = Web::connect(options(), &mut modern_site().on("server/discover", error));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert!(failure.message.contains("roots are required"), "{failure}");
}

#[test]
fn status_304_is_a_refusal() {
    let mut web = connect(legacy(), &mut site());
    let (request, call) = web.call("a");
    web.reply(&call, Reply::json(304, &call.error(-32000, "no")));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32000)));
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(304));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.to_string().contains("304")));
}

#[test]
fn an_unauthorized_notification_is_reported_during_the_handshake() {
    let mut site = site().on(INITIALIZED, |_| Reply::status(403));
    let web = Web::connect(reconnecting(legacy()), &mut site);
    assert!(web.events.iter().any(|event| matches!(event, Event::Unauthorized { request: None, forbidden: true, .. })));
}

// Ends of exchanges

#[test]
fn over_http_sse_an_accepted_post_that_breaks_is_answered_on_the_stream() {
    let (mut web, stream, _) = sse(legacy());
    let (request, call) = web.call("a");
    web.head(&call, 202, &[]);
    web.fail(&call, Broken::Midway);
    assert_eq!(web.outcome(request), "open");
    web.push(&stream, call.result(json!({"content": []})));
    assert!(was_answered(&web, request));
}

#[test]
fn a_resumed_stream_over_the_limit_is_not_a_response() {
    let mut options = legacy();
    options.limits.buffered = 4096;
    let mut web = connect(options, &mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.body(&call, "id: 7\ndata:\n\n");
    web.end(&call);
    web.wait(seconds(5));
    let get = web.take_named("GET");
    web.head(&get, 200, &STREAM);
    web.body(&get, format!("data: {}", "x".repeat(5000)));
    assert!(
        matches!(web.result_of(request), Outcome::Error(mcp_proto::RequestError::Invalid(_))),
        "{:?}",
        web.ended(request)
    );
    assert!(web.was_dropped(&get) && web.is_ready());
}

#[test]
fn an_sse_stream_over_the_limit_loses_the_connection() {
    let mut options = reconnecting(legacy());
    options.limits.buffered = 4096;
    let (mut web, stream, mut site) = sse(options);
    web.body(&stream, format!("data: {}", "x".repeat(5000)));
    assert!(web.was_dropped(&stream) && !web.is_ready());
    web.wait(seconds(5));
    serve_sse(&mut web, &mut site);
    assert!(web.is_ready());
}

#[test]
fn what_follows_the_event_that_ends_the_client_means_nothing() {
    // An event, and a part of one over the limit.
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for rest in [crate::web::events(&[message]), format!("data: {}", "x".repeat(5000))] {
        let mut options = legacy();
        options.limits.buffered = 4096;
        let (mut web, stream, _) = sse(options);
        web.body(&stream, format!("{ELSEWHERE}{rest}"));
        let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
        assert_eq!(failure.kind, FailureKind::Protocol);
        assert!(web.was_dropped(&stream) && web.take().is_empty());
    }
}

#[test]
fn an_answered_stream_with_a_large_partial_event_is_dropped() {
    let mut web = connect(legacy(), &mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    let text = format!("{}data: {}", crate::web::events(&[call.result(json!({}))]), "x".repeat(70_000));
    web.body(&call, text);
    assert!(was_answered(&web, request));
    web.body(&call, "\n\ndata: {\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}\n\n");
    assert!(web.take().is_empty());
}

// What is sent, and what waits

#[test]
fn cancellations_are_left_out_while_the_message_queue_is_full() {
    let mut options = legacy();
    (options.limits.in_flight, options.limits.output) = (1, 2);
    let mut web = connect(options, &mut site());
    web.session.notify(web.now, "acme/told", None).unwrap();
    web.collect();
    let mut told = web.take_one();
    for _ in 0..5 {
        let (request, _) = web.call("a");
        web.session.cancel(web.now, request).unwrap();
        web.collect();
        assert_eq!(web.outcome(request), "Cancelled");
    }
    // As many as may be queued are sent when there is room.
    for _ in 0..2 {
        web.reply(&told, Reply::status(202));
        web.wait(seconds(2));
        told = web.take_named("notifications/cancelled");
    }
    web.reply(&told, Reply::status(202));
    web.wait(seconds(120));
    assert_eq!(web.count("notifications/cancelled"), 2);
}

// Unpolled requests are not sent.

/// Makes a request without polling.
fn unpolled(web: &mut Web) -> mcp_proto::RequestId {
    web.session.request(web.now, Request::call_tool("a", Some(&raw(&json!({"x": 1}))))).unwrap()
}

#[test]
fn the_handshake_begins_when_the_client_is_opened() {
    let mut web = Web::new(legacy());
    assert_eq!(web.session.deadline(), None);
    web.session.open(web.now).unwrap();
    assert_eq!(web.session.deadline(), Some(web.now), "an output is ready");
    let Some(HttpAction::Request(request)) = web.session.poll() else { panic!("no request") };
    assert!(String::from_utf8_lossy(request.request.body()).contains("initialize"));
}

#[test]
fn an_unpolled_request_is_withdrawn_when_cancelled() {
    let mut web = connect(legacy(), &mut site());
    let request = unpolled(&mut web);
    assert!(web.session.deadline() == Some(web.now));
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!((web.outcome(request), web.count("tools/call")), ("Cancelled".into(), 0));
    assert_eq!(web.count("notifications/cancelled"), 0, "no request was sent");
}

#[test]
fn an_unpolled_request_is_withdrawn_at_its_deadline() {
    let mut web = connect(legacy(), &mut site());
    let request = unpolled(&mut web);
    web.now = web.now + seconds(60);
    web.session.handle_timeout(web.now);
    web.collect();
    assert_eq!((web.outcome(request), web.count("tools/call")), ("TimedOut".into(), 0));
    assert_eq!(web.count("notifications/cancelled"), 0);
}

#[test]
fn an_unpolled_request_ends_as_not_sent_when_the_connection_is_lost() {
    let mut site = site();
    let mut web = connect(reconnecting(legacy()), &mut site);
    let (sent, call) = web.call("a");
    let request = unpolled(&mut web);
    site.forget_session();
    web.open.remove(&call.id);
    web.session.handle_head(web.now, call.id, http::StatusCode::NOT_FOUND, &crate::web::header_map::<&str>(&[]));
    web.session.handle_end(web.now, call.id);
    web.collect();
    assert_eq!(web.count("tools/call"), 1, "messages of the previous session are withdrawn");
    web.serve(&mut site);
    assert!(was_answered(&web, sent) && was_answered(&web, request));
    // The same when the client closes.
    let request = unpolled(&mut web);
    web.close();
    assert_eq!(web.outcome(request), "NotSent");
}

#[test]
fn an_unpolled_client_closes_at_once() {
    let mut web = Web::new(legacy());
    web.session.open(web.now).unwrap();
    web.close();
    assert_eq!((web.cause(), web.log.len()), (Some(&Cause::Requested), 0));
}

/// At the maximum of `Time`, the handshake times out and its grace period ends at once.
#[test]
fn at_the_end_of_time_a_response_in_flight_is_dropped_before_the_client_is_closed() {
    let mut web = Web::open(legacy());
    let hello = web.take_named("initialize");
    web.head(&hello, 200, &[("content-type", "text/event-stream")]);
    web.push(&hello, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let answer = web.take_named("(answer)");
    web.now = web.now + std::time::Duration::MAX;
    (0..4).for_each(|_| web.session.handle_timeout(web.now));
    web.collect();
    assert!(matches!(web.cause(), Some(Cause::Failed(_))), "{:?}", web.cause());
    assert!(web.was_dropped(&hello) && web.was_dropped(&answer));
}

/// As above, in a session: it is ended, too.
#[test]
fn at_the_end_of_time_a_session_is_deleted_before_the_client_is_closed() {
    let (mut web, mut site) = (Web::open(legacy()), site());
    let hello = web.take_named("initialize");
    let reply = site.reply(&hello);
    web.reply(&hello, reply);
    let initialized = web.take_named("notifications/initialized");
    web.reply(&initialized, Reply::status(202));
    web.take();
    let list = web.last("tools/list");
    web.head(&list, 200, &[("content-type", "text/event-stream")]);
    web.push(&list, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let answer = web.take_named("(answer)");
    web.now = web.now + std::time::Duration::MAX;
    web.session.handle_timeout(web.now);
    web.collect();
    assert_eq!(web.count("DELETE"), 1);
    (0..4).for_each(|_| web.session.handle_timeout(web.now));
    web.collect();
    assert!(matches!(web.cause(), Some(Cause::Failed(_))), "{:?}", web.cause());
    assert!(web.was_dropped(&list) && web.was_dropped(&answer) && web.was_dropped(&web.last("DELETE")));
}

/// How far the handshake with a legacy server is.
const STEPS: [&str; 4] = ["initialize", INITIALIZED, "GET", "ready"];

fn stopped(options: Options, step: &str) -> (Web, Site) {
    let (mut web, mut site) = (Web::open(options), site());
    let mut waiting = vec![];
    loop {
        let taken = web.take();
        if taken.is_empty() {
            return (web, site);
        }
        for exchange in taken {
            if waiting.is_empty() && exchange.name() != step {
                let reply = site.reply(&exchange);
                web.reply(&exchange, reply);
            } else {
                waiting.push(exchange);
            }
        }
    }
}

/// The client moves to another process, which has no secrets of it.
#[cfg(feature = "snapshot")]
fn move_without_secrets(web: &mut Web) {
    use mcp_proto::{Client, Http, Moved, Secrets};
    let options = web.session.options().clone();
    let text = serde_json::to_string(&web.session.snapshot(Secrets::Excluded)).unwrap();
    let snapshot = serde_json::from_str(&text).unwrap();
    let http = Http::new(URL).unwrap();
    web.session = Client::from_snapshot(http, options, &snapshot, Moved::WithoutTransport).unwrap();
    web.open.clear();
}

#[cfg(feature = "snapshot")]
#[test]
fn a_client_that_moves_without_its_session_says_so_and_opens_another_one_in_each_phase() {
    for step in STEPS {
        let (mut web, _) = stopped(reconnecting(legacy()), step);
        move_without_secrets(&mut web);
        web.collect();
        assert!(web.take().is_empty(), "{step}");
        let message = web.failure().unwrap().message.clone();
        assert!(message.contains("moved to another process"), "{step}: {message}");
        // It waits for the next attempt, and moves again meanwhile.
        let due = web.session.deadline();
        move_without_secrets(&mut web);
        web.collect();
        assert_eq!(web.session.deadline(), due, "{step}");
        web.wait_and_serve(seconds(5), &mut site());
        assert!(web.is_ready(), "{step}");
    }
    // What was not polled is lost with its connection.
    let mut web = Web::new(reconnecting(legacy()));
    web.session.open(web.now).unwrap();
    move_without_secrets(&mut web);
    web.collect();
    assert!(web.take().is_empty() && web.failure().is_none());
    web.wait_and_serve(seconds(5), &mut site());
    assert!(web.is_ready());
}

#[cfg(feature = "snapshot")]
#[test]
fn a_parked_client_that_moves_without_secrets_is_opened_at_its_time() {
    for step in STEPS {
        let mut options = reconnecting(legacy());
        let reconnect = options.reconnect.as_mut().unwrap();
        (reconnect.first_attempts, reconnect.max_losses) = (1, 0);
        let (mut web, _) = stopped(options, step);
        move_without_secrets(&mut web);
        web.collect();
        let due = web.session.deadline();
        move_without_secrets(&mut web);
        web.collect();
        assert_eq!(web.session.deadline(), due, "{step}");
        let before = web.count("initialize");
        web.wait(due.unwrap().since(web.now));
        assert_eq!(web.count("initialize"), before + 1, "{step}");
    }
}

/// The server answers neither the response to its request nor the DELETE.
#[test]
fn a_client_closes_after_the_time_for_each_step_if_the_server_does_not_answer() {
    for (sessions, owes) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut site = site();
        site.sessions = sessions;
        let mut web = Web::connect(legacy(), &mut site);
        assert!(web.is_ready());
        if owes {
            let stream = web.last("GET");
            web.push(&stream, json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}));
            web.take_named("(answer)");
        }
        web.close();
        let grace = web.session.options().timeouts.grace;
        for step in [owes, sessions] {
            if step {
                assert!(!web.session.is_closed(), "{sessions} {owes}");
                web.wait(grace);
            }
        }
        assert_eq!(web.count("DELETE"), usize::from(sessions));
        assert!(web.session.is_closed(), "{sessions} {owes}");
    }
}

#[test]
fn initialized_that_does_not_reach_the_server_is_a_failure_to_connect() {
    let (mut web, _) = stopped(legacy(), INITIALIZED);
    let initialized = web.last(INITIALIZED);
    web.fail(&initialized, Broken::Unreachable);
    assert_eq!(web.failure_kind(), Some(FailureKind::Connect));
}

/// Its session is known to the server.
#[test]
fn a_session_whose_initialized_is_refused_for_lack_of_authorization_is_ended() {
    let (mut web, _) = stopped(legacy(), INITIALIZED);
    let initialized = web.last(INITIALIZED);
    web.reply(&initialized, Reply::text(401, "who").with("www-authenticate", "Bearer"));
    assert_eq!(web.failure_kind(), Some(FailureKind::Unauthorized));
    web.take_named("DELETE");
    assert!(!web.session.is_closed());
}

/// A client over HTTP has nothing to shut down: it can be opened again at once.
#[test]
fn a_client_whose_attempts_are_used_up_is_opened_again_by_command_at_once() {
    for method in ["initialize", "tools/list"] {
        let mut options = reconnecting(legacy());
        options.reconnect.as_mut().unwrap().first_attempts = 1;
        let mut site = site().error(method, -32603, "no");
        let mut web = Web::connect(options, &mut site);
        assert!(!web.is_ready() && web.failure().is_some(), "{method}");
        let before = web.count("initialize");
        web.reopen();
        assert_eq!(web.count("initialize"), before + 1, "{method}");
    }
}

/// A list is requested elsewhere in discovery.
#[test]
fn a_redirect_of_a_list_to_another_origin_ends_the_client() {
    let mut site = site().on("tools/list", |_| Reply::status(307).with("location", "https://elsewhere.example/"));
    let web = Web::connect(legacy(), &mut site);
    assert_eq!(web.failure_kind(), Some(FailureKind::Protocol));
}

/// Calls wait for the GET stream once.
#[test]
fn the_end_of_the_response_to_initialized_after_the_stream_is_open_means_nothing() {
    let (mut web, mut site) = stopped(legacy(), INITIALIZED);
    let initialized = web.last(INITIALIZED);
    web.head(&initialized, 202, &[]);
    web.serve(&mut site);
    assert!(web.is_ready() && web.count("GET") == 1);
    web.end(&initialized);
    let (call, _) = web.call("a");
    assert_eq!(web.outcome(call), "open");
}

#[test]
fn a_result_of_another_id_in_the_exchange_of_a_call_is_not_its_result() {
    let mut web = connect(legacy(), &mut site());
    let (call, exchange) = web.call("a");
    web.reply(&exchange, Reply::stream(""));
    web.push(&exchange, json!({"jsonrpc": "2.0", "id": "other", "result": {"content": []}}));
    assert_eq!((&*web.outcome(call), web.quirks()), ("open", vec![QuirkKind::UnknownId]));
    web.push(&exchange, exchange.result(json!({"content": []})));
    assert_eq!(web.outcome(call), "Result");
}

#[cfg(feature = "snapshot")]
#[test]
fn a_closed_client_has_nothing_to_lose_by_a_move() {
    use crate::common::{Host, Server};
    use mcp_proto::{Binding, Client, Messages, Moved, Secrets};
    fn text<B: Binding>(client: &Client<B>, secrets: Secrets) -> String {
        serde_json::to_string(&client.snapshot(secrets)).unwrap()
    }
    for is_ready in [false, true] {
        let mut host = Host::open(legacy());
        if is_ready {
            host.serve(&mut Server::legacy(json!({})));
        }
        host.session.close(host.now).unwrap();
        host.collect();
        host.close_transport();
        assert!(host.session.is_closed());
        let before = text(&host.session, Secrets::Included);
        host.session = crate::moved::moved(&host.session, Messages::new(), Moved::WithoutTransport);
        assert_eq!(text(&host.session, Secrets::Included), before, "{is_ready}");

        let mut web = Web::open(legacy());
        if is_ready {
            let mut site = site();
            (site.sessions, site.streams) = (false, false);
            web.serve(&mut site);
        }
        web.close();
        assert!(web.session.is_closed());
        let before = text(&web.session, Secrets::Excluded);
        move_without_secrets(&mut web);
        assert_eq!(text(&web.session, Secrets::Excluded), before, "{is_ready}");
    }
}

/// Only the first head of a response counts.
#[test]
fn a_second_head_of_the_get_stream_changes_nothing() {
    for status in [200, 410] {
        let mut web = connect(legacy(), &mut site());
        let stream = web.last("GET");
        web.head(&stream, status, &[]);
        assert_eq!((web.is_open(&stream), web.quirks()), (true, vec![]), "{status}");
    }
}

/// Over HTTP+SSE, the stream goes on.
#[test]
fn a_second_head_of_a_response_is_ignored() {
    let (mut web, stream, _) = sse(reconnecting(legacy()));
    web.head(&stream, 500, &[]);
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(202));
    web.body(&stream, format!("data: {}\n\n", call.result(json!({"content": []}))));
    assert_eq!(web.outcome(request), "Result");
}

/// A connection that has an endpoint had a stream that named it.
#[test]
fn a_client_with_an_endpoint_and_no_head_of_its_stream_is_refused() {
    let (web, _, _) = sse(legacy());
    let document = serde_json::to_string(&web.session.snapshot(Secrets::Included)).unwrap();
    let restore = |change: fn(&mut Value)| {
        let mut state: Value =
            serde_json::from_str::<Value>(&document).unwrap()["state"].as_str().unwrap().parse().unwrap();
        change(&mut state);
        let snapshot: Snapshot = serde_json::from_str(&with_state(&document, &state.to_string())).unwrap();
        Client::from_snapshot(Http::new(URL).unwrap(), legacy(), &snapshot, Moved::WithTransport)
    };
    assert!(restore(|_| {}).is_ok());
    let refused = restore(|state| {
        let exchanges = state.as_array_mut().unwrap().last_mut().unwrap();
        exchanges["exchanges"]["in_flight"]["2"]["reply"] = json!("Nothing");
    });
    assert!(refused.unwrap_err().to_string().contains("its exchanges contradict each other"));
}

#[test]
fn a_refused_answer_beside_the_handshake_ends_no_session() {
    for status in [404, 401] {
        let mut web = Web::open(legacy());
        let initialize = web.take_named("initialize");
        web.head(&initialize, 200, &[("content-type", "text/event-stream"), (SESSION, "session-1")]);
        web.body(&initialize, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n");
        for answer in web.take() {
            web.reply(&answer, Reply::status(status));
        }
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
        });
        web.body(&initialize, format!("data: {}\n\n", initialize.result(result)));
        assert_eq!(web.take_names(), [INITIALIZED], "{status} {:?}", web.events);
    }
}
