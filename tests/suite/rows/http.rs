//! The tables of the HTTP binding: rows that the suites of HTTP take by chance, or not at all.

use crate::common::{Steps, legacy, options, reconnecting, seconds};
use crate::web::{Exchange, Reply, SESSION, Site, URL, Web, modern_site, raw, site, tool, was_answered};
use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::{Cause, Event, FailureKind, Options, Outcome, QuirkKind, Request};
use serde_json::json;

const INITIALIZED: &str = "notifications/initialized";
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];
const ENDPOINT: &str = "event: endpoint\ndata: /messages\n\n";
const ELSEWHERE: &str = "event: endpoint\ndata: https://elsewhere.example/messages\n\n";

fn connect(options: Options, site: &mut Site) -> Web {
    let web = Web::connect(options, site);
    assert!(web.is_ready(), "{:?}", web.failure());
    web
}

/// Answers what an HTTP+SSE server is asked, until nothing is left to answer. Gives the stream.
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
fn sse(options: Options) -> (Web, Exchange, Site) {
    let (mut web, mut site) = (Web::open(options), site());
    let stream = serve_sse(&mut web, &mut site).unwrap();
    assert!(web.is_ready(), "{:?}", web.failure());
    (web, stream, site)
}

/// The next connection of such a client: the GET of its stream.
fn sse_again() -> (Web, Exchange, Site) {
    let (mut web, stream, site) = sse(reconnecting(legacy()));
    web.end(&stream);
    web.wait(seconds(1));
    let again = web.take_the("GET");
    (web, again, site)
}

// http_reach

#[test]
fn the_second_request_that_reaches_nobody_ends_the_connection_though_no_other_is_in_flight() {
    let mut site = site();
    site.streams = false;
    let mut web = connect(reconnecting(legacy()), &mut site);
    let ((_, missed), (_, other)) = (web.call("a"), web.call("a"));
    web.head(&other, 200, &STREAM);
    web.fail(&missed, Broken::Unreachable);
    let again = web.take_the("tools/call");
    web.end(&other);
    assert!(web.is_ready());
    web.fail(&again, Broken::Unreachable);
    assert_eq!((web.is_ready(), web.failure_kind()), (false, Some(FailureKind::Connect)));
}

// http_sse

#[test]
fn an_endpoint_elsewhere_ends_the_client_on_a_later_connection_too() {
    let (mut web, get, _) = sse_again();
    web.reply(&get, Reply::stream(ELSEWHERE));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn a_second_endpoint_replaces_the_first_one_unless_it_is_elsewhere() {
    let (mut web, stream, _) = sse(legacy());
    web.body(&stream, "event: endpoint\ndata: /other\n\n");
    let (_, call) = web.call("a");
    assert_eq!(call.url(), "https://example.com/other");
    web.body(&stream, ELSEWHERE);
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn a_known_sse_server_that_names_no_endpoint_is_asked_by_streamable_http_next() {
    let message = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n";
    let (mut web, get, mut site) = sse_again();
    web.reply(&get, Reply::stream(message));
    assert!(web.was_dropped(&get));
    web.wait_and_serve(seconds(5), &mut site);
    assert!(web.is_ready() && web.last("tools/list").url() == URL);
}

#[test]
fn a_known_sse_server_that_refuses_by_a_body_that_breaks_off_is_asked_by_streamable_http_next() {
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
fn a_known_sse_server_whose_stream_breaks_or_reaches_nobody_is_asked_by_http_sse_again() {
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
    // In use as well.
    let (mut web, stream, mut site) = sse(reconnecting(legacy()));
    web.fail(&stream, Broken::Midway);
    web.wait(seconds(5));
    serve_sse(&mut web, &mut site);
    assert!(web.is_ready());
}

/// Streamable HTTP has the session's id in a header; what HTTP+SSE would do with one is nobody's business but its own.
#[test]
fn an_sse_server_that_answers_the_probe_is_modern() {
    let mut web = Web::open(reconnecting(options()));
    for refused in ["server/discover", "initialize"] {
        let exchange = web.take_the(refused);
        web.reply(&exchange, Reply::status(404));
    }
    let stream = web.take_the("GET");
    web.reply(&stream, Reply::stream(ENDPOINT));
    web.take_the("initialize");
    web.end(&stream);
    web.wait(seconds(1));
    let mut modern = modern_site();
    serve_sse(&mut web, &mut modern);
    assert!(web.is_ready(), "{:?}", web.failure());
    assert_eq!(web.session.server().map(|server| server.era()), Some(mcp_proto::Era::Modern));
}

// http_head

#[test]
fn over_http_sse_a_response_to_the_server_follows_a_redirect() {
    let (mut web, stream, _) = sse(legacy());
    web.push(&stream, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let answer = web.take_the("(answer)");
    web.reply(&answer, Reply::status(308).with("location", "/moved"));
    let again = web.take_the("(answer)");
    assert_eq!((again.url(), again.body()), ("https://example.com/moved".into(), answer.body()));
    // Refused, it costs nothing.
    web.reply(&again, Reply::status(500));
    assert!(web.is_ready() && web.goes_on(&stream));
}

// http_answer

#[test]
fn already_initialized_ends_the_former_session_whatever_the_status() {
    for status in [304, 405, 409, 500, 503] {
        let mut site = site();
        let mut web = connect(legacy(), &mut site);
        let (request, call) = web.call("a");
        web.reply(&call, Reply::status(404));
        let initialize = web.take_the("initialize");
        web.reply(&initialize, Reply::text(status, "Already initialized"));
        let delete = web.take_the("DELETE");
        assert_eq!(delete.header(SESSION), Some("session-1"), "{status}");
        web.reply(&delete, Reply::status(200));
        web.serve(&mut site);
        assert!(web.is_ready() && was_answered(&web, request), "{status}");
        assert_eq!(web.quirk_methods(QuirkKind::AlreadyInitialized), ["initialize"]);
    }
}

#[test]
fn a_header_mismatch_counts_whatever_the_client_error() {
    for status in [400, 404, 405, 422] {
        let mut site = modern_site()
            .first("tools/call", 1, move |call| Reply::json(status, &call.error(-32020, "Header mismatch")));
        let mut web = connect(options(), &mut site);
        let lists = web.count("tools/list");
        let request = web.want(tool("a"));
        web.serve(&mut site);
        assert!(was_answered(&web, request), "{status}");
        assert_eq!((web.count("tools/call"), web.count("tools/list")), (2, lists + 1), "{status}");
    }
}

#[test]
fn an_error_of_the_probe_that_is_of_the_modern_era_counts_under_5xx_too() {
    let error = |probe: &Exchange| Reply::json(503, &probe.error(-32021, "roots are required"));
    let web = Web::connect(options(), &mut modern_site().on("server/discover", error));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert!(failure.message.contains("roots are required"), "{failure}");
}

#[test]
fn a_status_that_is_no_answer_at_all_refuses() {
    let mut web = connect(legacy(), &mut site());
    let (request, call) = web.call("a");
    web.reply(&call, Reply::json(304, &call.error(-32000, "no")));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32000)));
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(304));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.to_string().contains("304")));
}

#[test]
fn a_notification_without_authorization_is_told_of_in_the_handshake() {
    let mut site = site().on(INITIALIZED, |_| Reply::status(403));
    let web = Web::connect(reconnecting(legacy()), &mut site);
    assert!(web.events.iter().any(|event| matches!(event, Event::Unauthorized { request: None, forbidden: true, .. })));
}

// http_end

#[test]
fn over_http_sse_a_post_that_breaks_after_it_was_accepted_is_answered_by_the_stream() {
    let (mut web, stream, _) = sse(legacy());
    let (request, call) = web.call("a");
    web.head(&call, 202, &[]);
    web.fail(&call, Broken::Midway);
    assert_eq!(web.outcome(request), "open");
    web.push(&stream, call.result(json!({"content": []})));
    assert!(was_answered(&web, request));
}

#[test]
fn a_resumed_stream_beyond_the_bound_is_no_answer() {
    let mut options = legacy();
    options.limits.buffered = 4096;
    let mut web = connect(options, &mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.body(&call, "id: 7\ndata:\n\n");
    web.end(&call);
    web.wait(seconds(5));
    let get = web.take_the("GET");
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
fn an_sse_stream_beyond_the_bound_is_lost() {
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
fn an_answered_stream_that_holds_much_of_an_event_is_read_no_more() {
    let mut web = connect(legacy(), &mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    let text = format!("{}data: {}", crate::web::events(&[call.result(json!({}))]), "x".repeat(70_000));
    web.body(&call, text);
    assert!(was_answered(&web, request));
    web.body(&call, "\n\ndata: {\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}\n\n");
    assert!(web.take().is_empty());
}

// http_send

#[test]
fn what_a_server_that_takes_nothing_need_not_know_is_left_out() {
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
    // As many as may wait are sent as soon as there is room.
    for _ in 0..2 {
        web.reply(&told, Reply::status(202));
        web.wait(seconds(2));
        told = web.take_the("notifications/cancelled");
    }
    web.reply(&told, Reply::status(202));
    web.wait(seconds(120));
    assert_eq!(web.count("notifications/cancelled"), 2);
}

// What was not polled was not sent.

/// Makes a request, and polls nothing.
fn unpolled(web: &mut Web) -> mcp_proto::RequestId {
    web.session.request(web.now, Request::call_tool("a", Some(&raw(&json!({"x": 1}))))).unwrap()
}

#[test]
fn the_handshake_begins_when_the_client_is_opened() {
    let mut web = Web::new(legacy());
    assert_eq!(web.session.deadline(), None);
    web.session.open(web.now).unwrap();
    assert_eq!(web.session.deadline(), Some(web.now), "there is something to poll");
    let Some(HttpAction::Request(request)) = web.session.poll() else { panic!("no request") };
    assert!(String::from_utf8_lossy(request.request.body()).contains("initialize"));
}

#[test]
fn a_request_that_was_not_polled_is_taken_back_when_it_is_cancelled() {
    let mut web = connect(legacy(), &mut site());
    let request = unpolled(&mut web);
    assert!(web.session.deadline() == Some(web.now));
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!((web.outcome(request), web.count("tools/call")), ("Cancelled".into(), 0));
    assert_eq!(web.count("notifications/cancelled"), 0, "the server was not asked");
}

#[test]
fn a_request_that_was_not_polled_is_taken_back_when_its_time_is_over() {
    let mut web = connect(legacy(), &mut site());
    let request = unpolled(&mut web);
    web.now = web.now + seconds(60);
    web.session.handle_timeout(web.now);
    web.collect();
    assert_eq!((web.outcome(request), web.count("tools/call")), ("TimedOut".into(), 0));
    assert_eq!(web.count("notifications/cancelled"), 0);
}

#[test]
fn a_request_that_was_not_polled_was_not_sent_when_the_connection_is_lost() {
    let mut site = site();
    let mut web = connect(reconnecting(legacy()), &mut site);
    let (sent, call) = web.call("a");
    let request = unpolled(&mut web);
    site.forget();
    web.open.remove(&call.id);
    web.session.handle_head(web.now, call.id, http::StatusCode::NOT_FOUND, &crate::web::header_map::<&str>(&[]));
    web.session.handle_end(web.now, call.id);
    web.collect();
    assert_eq!(web.count("tools/call"), 1, "what belongs to the session before is taken back");
    web.serve(&mut site);
    assert!(was_answered(&web, sent) && was_answered(&web, request));
    // The same where the client ends.
    let request = unpolled(&mut web);
    web.close();
    assert_eq!(web.outcome(request), "NotSent");
}

#[test]
fn a_client_that_was_not_polled_is_closed_at_once() {
    let mut web = Web::new(legacy());
    web.session.open(web.now).unwrap();
    web.close();
    assert_eq!((web.cause(), web.log.len()), (Some(&Cause::Requested), 0));
}
