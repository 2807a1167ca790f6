//! The tolerances of the section "Streamable HTTP", row by row, and those of other sections that only HTTP can show.

use crate::common::{Server, Steps, legacy, millis, options, reconnecting, seconds, tools};
use crate::web::{Exchange, LAST_ID, Reply, SESSION, Site, URL, VERSION, Web, modern_site, site, tool, was_answered};
use http::HeaderMap;
use mcp_proto::binding::http::{Broken, HttpRequest};
use mcp_proto::{
    Cause, Era, Eras, Event, FailureKind, Family, FamilyStatus, Implementation, ListErrors, Options, Outcome,
    ProtocolVersion, QuirkKind, Reconnect, Recovery, Request, RequestError, RequestId,
};
use serde_json::{Value, json};

/// How a server answers an exchange.
type Answering = Box<dyn Fn(&Exchange) -> Reply>;

const INITIALIZED: &str = "notifications/initialized";
const MODERN: &str = "2026-07-28";

fn ready(site: &mut Site) -> Web {
    let web = Web::connect(legacy(), site);
    assert!(web.is_ready(), "{:?}", web.failure());
    web
}

fn modern_only() -> Options {
    let mut options = options();
    options.eras = Eras::ModernOnly(ProtocolVersion::V2026_07_28);
    options
}

fn names(web: &Web) -> Vec<String> {
    web.names()
}

fn era(web: &Web) -> Option<Era> {
    web.session.server().filter(|_| web.is_ready()).map(|server| server.era())
}

fn finished(web: &Web) -> Vec<RequestId> {
    let finished = |event: &Event| match event {
        Event::Finished { request, .. } => Some(*request),
        _ => None,
    };
    web.events.iter().filter_map(finished).collect()
}

/// The client closed for good with this failure, whose text has these words.
fn assert_failed(web: &Web, kind: FailureKind, words: &[&str]) {
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.events) };
    assert_eq!(failure.kind, kind, "{failure}");
    for word in words {
        assert!(failure.message.contains(word), "no {word:?} in {failure}");
    }
    assert!(web.open.is_empty() && web.session.is_closed(), "{:?}", web.open);
}

fn assert_quirk(web: &Web, kind: QuirkKind, method: &str) {
    assert_eq!(web.quirk_methods(kind), [method]);
    let told = web.events.iter().filter(|event| matches!(event, Event::Quirk(quirk) if quirk.kind == kind));
    assert_eq!(told.count(), 1);
}

/// toolhive #5232
#[test]
fn a_warning_names_the_servers_url_without_its_secrets() {
    let prompts = json!({"prompts": {}});
    for (modern, site) in [(false, Site::legacy(prompts.clone())), (true, Site::modern(prompts))] {
        let mut site = site.error("prompts/list", -32601, "Method not found");
        let mut options = if modern { modern_only() } else { legacy() };
        options.server = "rovo".into();
        let mut web = Web::at(options, "https://user:pass@example.com/mcp?key=hunter2");
        web.reopen();
        web.serve(&mut site);
        let [quirk] = web.session.quirks() else { panic!("{:?}", web.session.quirks()) };
        assert_eq!(quirk.kind, QuirkKind::MethodNotFound);
        assert!(quirk.detail.contains("rovo (https://"), "{}", quirk.detail);
        assert!(quirk.detail.contains("example.com/mcp"), "{}", quirk.detail);
        for secret in ["user:", "pass", "hunter2"] {
            assert!(!quirk.detail.contains(secret), "{}", quirk.detail);
        }
    }
}

// Streamable HTTP.

/// sync guide: Linear; helidon-mcp #97
#[test]
fn a_wrong_content_type_is_recognized_by_the_first_bytes_of_the_body() {
    let unlabelled = "the body has no `Content-Type` that says whether it is JSON or a stream";
    for (label, by_stream, detail) in [
        (Some("text/event-stream"), false, "the body is JSON, and labelled `text/event-stream`"),
        (Some("application/json"), true, "the body is a stream of events, and labelled `application/json`"),
        (None, false, unlabelled),
        (None, true, unlabelled),
        (Some("text/plain; charset=utf-8"), false, unlabelled),
        (Some("application/octet-stream"), true, unlabelled),
    ] {
        let mut site = site().map_replies(move |exchange, reply| match label {
            _ if exchange.is(INITIALIZED) => reply,
            Some(label) => reply.with("content-type", label),
            None => reply.without("content-type"),
        });
        site.answers_by_stream = by_stream;
        let mut web = ready(&mut site);
        assert_eq!(web.keys(Family::Tools), ["a"], "{label:?}, {by_stream}");
        assert_eq!(web.quirk_methods(QuirkKind::ContentType), ["initialize", "tools/list"]);
        assert!(web.session.quirks()[0].detail.contains(detail), "{}", web.session.quirks()[0].detail);
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.collect();
        web.serve(&mut site);
        assert_eq!((site.server.received("tools/list"), web.quirks().len()), (2, 2), "once for each method");
    }
}

#[test]
fn content_type_with_parameters_in_any_case_is_no_quirk() {
    for (label, by_stream) in [
        ("application/json", false),
        ("Application/JSON; charset=utf-8", false),
        ("text/event-stream", true),
        ("Text/Event-Stream;charset=UTF-8", true),
    ] {
        let mut site = site().map_replies(move |_, reply| reply.with("content-type", label));
        site.answers_by_stream = by_stream;
        let web = ready(&mut site);
        assert_eq!((web.keys(Family::Tools), web.quirks()), (vec!["a"], vec![]), "{label}");
    }
}

#[test]
fn content_type_detection_skips_white_space_and_a_byte_order_mark() {
    for before in ["\u{feff}", "\r\n \t", "\u{feff} "] {
        for (label, quirks) in [("application/json", 0), ("text/event-stream", 2)] {
            let mut site = site().map_replies(move |_, mut reply| {
                reply.body.splice(0..0, before.bytes());
                reply.with("content-type", label)
            });
            let web = Web::connect(legacy(), &mut site);
            assert_eq!((web.keys(Family::Tools), web.quirks().len()), (vec!["a"], quirks), "{before:?} {label}");
        }
    }
}

/// awslabs/mcp #3295, dify #24962, rust-sdk #849
#[test]
fn a_notification_may_be_accepted_with_any_success_status() {
    for (reply, is_quirk) in [
        (Reply::status(202), false),
        (Reply::text(202, "Accepted"), false),
        (Reply::json(202, &json!({})), false),
        (Reply::json(200, &json!({})), true),
        (Reply::json(200, &json!({"jsonrpc": "2.0", "id": null, "result": {}})), true),
        (Reply::text(200, "ok"), true),
        (Reply::status(200), true),
        (Reply::status(201), true),
        (Reply::status(204), true),
        (Reply::stream(": nothing\n\n"), true),
    ] {
        let told = format!("{reply:?}");
        let answer = reply.clone();
        let mut site = site().on(INITIALIZED, move |_| answer.clone());
        let mut web = ready(&mut site);
        let quirks: &[_] = if is_quirk { &[INITIALIZED] } else { &[] };
        assert_eq!(web.quirk_methods(QuirkKind::NotificationStatus), quirks, "{told}");
        assert_eq!(web.quirks().len(), quirks.len(), "{told}: {:?}", web.session.quirks());
        for _ in 0..2 {
            web.session.notify(web.now, "notifications/example", None).unwrap();
            web.collect();
            let notification = web.take_one();
            web.reply(&notification, reply.clone());
        }
        assert_eq!(web.quirks().len(), 2 * quirks.len(), "{told}: once for each method");
    }
}

/// The status for a response to a server request does not matter, either.
#[test]
fn a_response_may_be_accepted_with_any_status() {
    for status in [200, 202, 204, 400, 405, 500] {
        let mut web = ready(&mut site());
        let stream = web.last("GET");
        web.push(&stream, json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}));
        let answer = web.take_named("(answer)");
        assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
        web.reply(&answer, Reply::status(status));
        assert!(web.is_ready() && web.is_open(&stream));
    }
}

/// mcp-proxy #62, prompts.chat #1117, cap-js/mcp #36
#[test]
fn a_refused_get_is_not_sent_again_in_the_session() {
    for reply in [
        Reply::text(400, "Bad Request"),
        Reply::json(400, &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no GET here"}})),
        Reply::status(404),
        Reply::text(302, "Found"),
        Reply::text(501, "Not Implemented"),
        Reply::json(200, &json!({"name": "a server", "status": "ok"})),
        Reply::json(200, &json!({"status": "ok"})).with("content-type", "application/json; charset=utf-8"),
    ] {
        let told = format!("{reply:?}");
        let mut site = site().on("GET", move |_| reply.clone());
        let mut web = ready(&mut site);
        web.wait_and_serve(seconds(7200), &mut site);
        assert!(web.is_ready() && web.open.is_empty(), "{told}");
        assert_eq!((web.count("GET"), web.count("initialize")), (1, 1), "{told}");
        assert_quirk(&web, QuirkKind::GetRefused, "");
        assert_eq!(web.quirks().len(), 1);
    }
}

#[test]
fn get_refused_by_405_is_no_quirk() {
    let mut site = site();
    site.streams = false;
    let mut web = ready(&mut site);
    web.wait_and_serve(seconds(7200), &mut site);
    assert_eq!((web.is_ready(), web.count("GET"), web.quirks()), (true, 1, vec![]));
}

/// A body labelled as a stream that is JSON is recognized, as for any response.
#[test]
fn a_get_refused_with_json_labelled_as_a_stream_is_recognized() {
    for label in [Some("text/event-stream"), Some("text/html"), None] {
        let mut site = site().on("GET", move |_| {
            let reply = Reply::json(200, &json!({"status": "ok"}));
            label.map_or_else(
                || reply.clone().without("content-type"),
                |label| reply.clone().with("content-type", label),
            )
        });
        let mut web = ready(&mut site);
        web.wait_and_serve(seconds(60), &mut site);
        assert_eq!((web.is_ready(), web.count("GET")), (true, 1), "{label:?}");
    }
}

/// After a stream was open, a failure of the server or of a gateway does not mean that there is no GET stream.
#[test]
fn a_get_refused_after_a_stream_was_open_is_sent_again() {
    for status in [500, 502, 503, 504] {
        let mut site = site();
        let mut web = ready(&mut site);
        let stream = web.last("GET");
        web.end(&stream);
        web.wait(seconds(60));
        let again = web.take_named("GET");
        web.reply(&again, Reply::status(status));
        web.wait(seconds(60));
        let third = web.take_named("GET");
        web.reply(&third, Reply::stream(""));
        assert!(web.is_ready() && web.is_open(&third), "{status}");
    }
}

/// A session with three calls: two in flight, and one that is queued. Returns the two in flight.
fn three_calls(site: &mut Site) -> (Web, [(RequestId, Exchange); 2], RequestId) {
    let mut options = legacy();
    options.limits.in_flight = 2;
    let mut web = Web::connect(options, site);
    assert!(web.is_ready());
    let (one, other) = (web.call("a"), web.call("a"));
    let waiting = web.request(Request::call_tool("a", None));
    assert!(web.take().is_empty());
    (web, [one, other], waiting)
}

#[test]
fn an_expired_session_is_recovered_once_for_all_requests() {
    let mut site = site();
    let (mut web, [(refused, one), (elsewhere, other)], waiting) = three_calls(&mut site);
    let (before, stream) = (web.log.len(), web.last("GET"));
    site.forget_session();
    web.reply(&one, Reply::status(404));
    // Everything of the old session ends, the stream and the other call included.
    assert!(web.was_dropped(&other) && web.was_dropped(&stream));
    assert_eq!(web.outcome(elsewhere), "Unknown");
    web.serve(&mut site);
    assert!(web.is_ready(), "{:?}", web.failure());
    let after: Vec<_> = web.log[before..].to_vec();
    let names: Vec<_> = after.iter().map(Exchange::name).collect();
    assert_eq!(names, ["initialize", INITIALIZED, "GET", "tools/list", "tools/call", "tools/call"]);
    for exchange in &after[1..] {
        assert_eq!(exchange.header(SESSION), Some("session-2"), "{}", exchange.name());
    }
    assert!(was_answered(&web, refused) && was_answered(&web, waiting));
    for call in &after[4..] {
        assert_ne!(call.json()["id"], one.json()["id"], "a request that is sent again has a new id");
    }
    let carried = [after[4].of, after[5].of];
    assert!(carried.contains(&Some(refused)) && carried.contains(&Some(waiting)));
    assert_eq!((finished(&web).len(), web.quirks()), (3, vec![]));
    let ready = web.events.iter().filter(|event| matches!(event, Event::Ready)).count();
    assert_eq!(ready, 2);
}

/// Other requests with the same error or a late response start no second recovery.
#[test]
fn an_expired_session_is_recovered_once_whatever_input_precedes_the_poll() {
    let mut site = site();
    let (mut web, [(_, one), (elsewhere, other)], _) = three_calls(&mut site);
    site.forget_session();
    for exchange in [&one, &other] {
        let none = crate::web::header_map::<&str>(&[]);
        web.session.handle_head(web.now, exchange.id, http::StatusCode::NOT_FOUND, &none);
        web.session.handle_end(web.now, exchange.id);
        web.open.remove(&exchange.id);
    }
    // Its end and the drop of the other exchange may cross.
    web.collect_lenient();
    web.serve(&mut site);
    assert!(web.is_ready());
    assert_eq!(web.count("initialize"), 2);
    assert_eq!(web.outcome(elsewhere), "Unknown");
    assert_eq!(finished(&web).len(), 3);
}

/// During and after the handshake.
#[test]
fn input_for_an_old_exchange_does_not_affect_the_new_connection() {
    type Late = fn(&mut Web, &Exchange);
    let late: [Late; 5] = [
        |web, old| late_reply(web, old, 404),
        |web, old| late_reply(web, old, 401),
        |web, old| late_reply(web, old, 403),
        |web, old| late_reply(web, old, 503),
        |web, old| web.session.handle_failure(web.now, old.id, Broken::Midway, "broken"),
    ];
    for report in late {
        let mut site = site();
        let (mut web, [(refused, one), (_, old)], _) = three_calls(&mut site);
        site.forget_session();
        web.reply(&one, Reply::status(404));
        let downs = |web: &Web| web.events.iter().filter(|event| matches!(event, Event::Down { .. })).count();
        for _ in 0..2 {
            let (before, exchanges) = (downs(&web), web.log.len());
            report(&mut web, &old);
            web.collect();
            assert_eq!((downs(&web), web.log.len()), (before, exchanges));
            web.serve(&mut site);
            assert!(web.is_ready(), "{:?}", web.failure());
            assert_eq!(web.count("initialize"), 2);
        }
        assert!(was_answered(&web, refused), "a call that did not run is sent again");
    }
}

/// A response to a dropped exchange.
fn late_reply(web: &mut Web, old: &Exchange, status: u16) {
    let status = http::StatusCode::from_u16(status).unwrap();
    web.session.handle_head(web.now, old.id, status, &crate::web::header_map::<&str>(&[]));
    web.session.handle_end(web.now, old.id);
}

#[test]
fn an_expired_session_is_noticed_when_the_get_stream_is_reopened() {
    let mut site = site();
    let mut web = ready(&mut site);
    let stream = web.last("GET");
    web.end(&stream);
    web.wait(seconds(60));
    let again = web.take_named("GET");
    site.forget_session();
    web.reply(&again, Reply::status(404));
    web.serve(&mut site);
    assert!(web.is_ready());
    let expected =
        ["initialize", INITIALIZED, "GET", "tools/list", "GET", "initialize", INITIALIZED, "GET", "tools/list"];
    assert_eq!((names(&web), web.quirks()), (expected.map(String::from).to_vec(), vec![]));
}

#[test]
fn the_get_stream_of_a_new_session_does_not_continue_that_of_the_session_before() {
    let mut site = site();
    let mut web = ready(&mut site);
    let stream = web.last("GET");
    web.body(&stream, "id: 7\nretry: 30000\ndata:\n\n");
    web.end(&stream);
    web.wait(seconds(60));
    let again = web.take_named("GET");
    assert_eq!(again.header("last-event-id"), Some("7"));
    site.forget_session();
    web.reply(&again, Reply::status(404));
    web.serve(&mut site);
    assert_eq!(web.last("GET").header("last-event-id"), None);
}

#[test]
fn an_expired_session_is_noticed_during_discovery() {
    let mut site = site().first("tools/list", 1, |_| Reply::status(404));
    let web = ready(&mut site);
    assert_eq!((web.count("initialize"), web.count("tools/list"), web.keys(Family::Tools)), (2, 2, vec!["a"]));
}

#[test]
fn an_expired_session_is_noticed_by_a_notification() {
    let mut site = site();
    let mut web = ready(&mut site);
    site.forget_session();
    web.session.notify(web.now, "notifications/example", None).unwrap();
    web.collect();
    web.serve(&mut site);
    assert_eq!((web.is_ready(), web.count("initialize")), (true, 2));
}

/// The body of the 404 does not matter, except for an unknown method.
#[test]
fn a_404_with_a_text_is_an_expired_session() {
    for reply in [
        Reply::text(404, "Session not found"),
        Reply::json(
            404,
            &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}),
        ),
        Reply::json(404, &json!({"error": "no such thing"})),
    ] {
        let mut site = site();
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        site.forget_session();
        web.reply(&call, reply);
        web.serve(&mut site);
        assert!(was_answered(&web, request));
        assert_eq!((web.count("initialize"), web.count("tools/call"), web.quirks()), (2, 2, vec![]));
    }
}

#[test]
fn an_expired_request_is_sent_again_once() {
    let mut site = site().on("tools/call", |_| Reply::status(404));
    let mut web = ready(&mut site);
    let request = web.request(Request::call_tool("a", None));
    web.serve(&mut site);
    assert_eq!((web.count("tools/call"), web.is_ready()), (2, true));
    assert_eq!(finished(&web), [request]);
    // It did not run, so its outcome is not `Unknown`.
    assert!(matches!(web.result_of(request), Outcome::Error(_)));
}

#[test]
fn a_404_without_a_session_id_is_not_an_expired_session() {
    let mut site = site();
    site.sessions = false;
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    web.reply(&call, Reply::text(404, "nothing here"));
    let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.result_of(request)) };
    assert!(error.to_string().contains("404") && error.to_string().contains("nothing here"), "{error}");
    assert_eq!((web.count("initialize"), web.is_ready()), (1, true));
}

/// opencode #32809, affine-mcp #301, keryx #503
#[test]
fn session_expired_status_400_or_503_with_an_error_that_names_the_session() {
    let error = |code: i64, message: &str| json!({"code": code, "message": message});
    let json_error =
        |status, error: Value| move |call: &Exchange| Reply::json(status, &call.answer("error", error.clone()));
    let without_id = |status, error: Value| {
        move |_: &Exchange| Reply::json(status, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    };
    let replies: Vec<Answering> = vec![
        Box::new(|_| Reply::text(400, "Bad Request: No valid session ID provided")),
        Box::new(|_| Reply::text(400, "Mcp-Session-Id header is required")),
        Box::new(|_| Reply::text(400, "Session expired").with("content-length", "15")),
        Box::new(|_| Reply::text(400, "Session 7q3x has expired")),
        Box::new(|_| Reply::text(400, "Session facade not found")),
        Box::new(|_| Reply::text(400, "No transport found for sessionId")),
        Box::new(|_| Reply::json(400, &json!({"error": "Invalid or missing session ID"}))),
        Box::new(|_| Reply::json(400, &json!({"statusCode": 400, "message": "Session 81a3 does not exist"}))),
        Box::new(without_id(400, error(-32000, "Bad Request: No valid session ID provided"))),
        Box::new(without_id(400, error(-32000, "Bad Request: Server not initialized"))),
        Box::new(json_error(400, error(-32003, "Session expired"))),
        Box::new(json_error(400, error(-32600, "Server not initialized"))),
        Box::new(json_error(400, error(-32002, "not initialized"))),
        Box::new(|_| Reply::text(503, "session not found on this node")),
        Box::new(without_id(503, error(-32000, "Session is gone"))),
    ];
    for reply in replies {
        let mut site = site();
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        let reply = reply(&call);
        let told = format!("{} {}", reply.status, String::from_utf8_lossy(&reply.body));
        site.forget_session();
        web.reply(&call, reply);
        web.serve(&mut site);
        assert!(web.is_ready() && was_answered(&web, request), "{told}: {:?}", web.ended(request));
        assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 2), "{told}");
        assert_quirk(&web, QuirkKind::SessionExpiredStatus, "tools/call");
        assert_eq!(web.quirks().len(), 1, "{told}");
    }
}

/// The errors with which known transports report an unknown session.
fn known_expiries() -> Vec<(i64, String)> {
    let mut known = vec![];
    for message in ["Session not found", "Invalid session ID", "No valid session ID provided", "Server not initialized"]
    {
        for prefix in ["", "Bad Request: "] {
            for suffix in ["", " or expired"] {
                let codes = [-32000, -32001, -32600];
                known.extend(codes.map(|code| (code, format!("{prefix}{message}{suffix}"))));
            }
        }
    }
    known
}

/// As JSON or as an event: an error response with a success status.
fn error_with_success_status(call: &Exchange, by_event: bool, code: i64, message: &str) -> Reply {
    let error = call.error(code, message);
    if by_event { Reply::events(&[error]) } else { Reply::json(200, &error) }
}

fn assert_error(web: &Web, request: RequestId, code: i64, message: &str) {
    let Outcome::Error(RequestError::Server(error)) = web.result_of(request) else {
        panic!("{message}: {:?}", web.result_of(request))
    };
    assert_eq!((error.code, &*error.message), (code, message));
}

/// The call may have run: it ends with the server's error, and the next call opens a new session.
#[test]
fn session_expired_status_200_renews_the_session_and_the_call_is_not_sent_again() {
    for (number, (code, message)) in known_expiries().into_iter().enumerate() {
        let mut site = site();
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        site.forget_session();
        web.reply(&call, error_with_success_status(&call, number % 2 == 0, code, &message));
        web.serve(&mut site);
        assert_error(&web, request, code, &message);
        assert!(web.is_ready(), "{message}");
        assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 1), "{message}");
        assert_quirk(&web, QuirkKind::SessionExpiredStatus, "tools/call");
        assert_eq!(web.quirks().len(), 1, "{message}");
        let next = web.request(tool("a"));
        web.serve(&mut site);
        assert!(was_answered(&web, next), "{message}");
        assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 2), "{message}");
    }
}

#[test]
fn session_expired_status_200_sends_read_only_and_replayable_calls_again() {
    for by_event in [true, false] {
        for request in [Request::read_resource("x:1"), Request::get_prompt("p", []), tool("a").replay(true)] {
            let mut site = Site::legacy(json!({"tools": {}, "resources": {}, "prompts": {}}))
                .result("tools/list", tools(&["a"]))
                .result("tools/call", json!({"content": []}))
                .result("prompts/list", json!({"prompts": []}))
                .result("prompts/get", json!({"messages": []}))
                .result("resources/list", json!({"resources": []}))
                .result("resources/templates/list", json!({"resourceTemplates": []}))
                .result("resources/read", json!({"contents": []}));
            let mut web = ready(&mut site);
            let request = web.request(request);
            let exchange = web.take_one();
            site.forget_session();
            web.reply(&exchange, error_with_success_status(&exchange, by_event, -32001, "Session not found"));
            web.serve(&mut site);
            let name = exchange.name();
            assert!(was_answered(&web, request), "{name}: {:?}", web.ended(request));
            assert_eq!((web.count("initialize"), web.count(&name)), (2, 2), "{name}");
            assert_ne!(web.last(&name).json()["id"], exchange.json()["id"]);
        }
    }
}

/// If a new session does not help, the error is the outcome, and the session stays.
#[test]
fn session_expired_status_200_sends_read_only_calls_again_once() {
    let mut site = Site::legacy(json!({"resources": {}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .on("resources/read", |read| Reply::json(200, &read.error(-32001, "Session not found")));
    let mut web = ready(&mut site);
    for round in 1..=5 {
        let request = web.request(Request::read_resource("x:1"));
        web.serve(&mut site);
        assert_error(&web, request, -32001, "Session not found");
        assert_eq!((web.count("initialize"), web.count("resources/read")), (1 + round, 2 * round));
        assert!(web.is_ready());
    }
}

#[test]
fn session_expired_status_200_to_a_list_is_recovered() {
    for by_event in [true, false] {
        let mut site = site().first("tools/list", 1, move |list| {
            error_with_success_status(list, by_event, -32600, "Server not initialized")
        });
        let mut web = ready(&mut site);
        web.serve(&mut site);
        assert_eq!((web.keys(Family::Tools), web.count("initialize"), web.count("tools/list")), (vec!["a"], 2, 2));
        assert_quirk(&web, QuirkKind::SessionExpiredStatus, "tools/list");
    }
}

/// Whatever the status, what a tool says of its own sessions is the outcome of the call: the call is sent once, and the
/// session and the other call stay.
#[test]
fn session_expired_status_does_not_apply_to_texts_of_tools() {
    let own = [
        (-32000, "Browser session not found: abc"),
        (-32000, "Payment declined: invalid session token"),
        (-32001, "Session not found: abc"),
        (-32001, "Session not found in the shop"),
        (-32600, "The database server not initialized"),
        (-32603, "Session not found"),
        (-32003, "Session expired"),
        (-32002, "Server not initialized"),
        (-32000, "Session has expired"),
        (1, "Invalid session ID"),
    ];
    // These name a session, and the status says that the call did not run.
    let names = ["Session not found: abc", "Session not found in the shop", "Session not found", "Session expired"];
    let names_it = |message| {
        names.contains(&message) || ["Server", "Session has", "Invalid"].iter().any(|it| message.starts_with(it))
    };
    for (status, by_event) in [(200, false), (200, true), (400, false), (503, false), (500, false), (409, false)] {
        for (code, message) in own {
            if matches!(status, 400 | 503) && names_it(message) {
                continue;
            }
            let mut site = site();
            let mut web = ready(&mut site);
            let ((request, call), (beside, other)) = (web.call("a"), web.call("a"));
            let reply = error_with_success_status(&call, by_event, code, message);
            web.reply(&call, Reply { status, ..reply });
            assert_error(&web, request, code, message);
            assert_eq!((web.outcome(beside), web.is_open(&other)), ("open".into(), true), "{status} {message}");
            web.reply(&other, Reply::json(200, &other.result(json!({"content": []}))));
            web.serve(&mut site);
            assert!(was_answered(&web, beside));
            assert_eq!((web.count("initialize"), web.count("tools/call")), (1, 2), "{status} {message}");
            assert!(web.is_ready() && web.quirks().is_empty(), "{:?}", web.quirks());
        }
    }
}

/// An error with the id of another request belongs to that request, in whichever exchange it arrives.
#[test]
fn session_expired_status_200_applies_to_the_request_of_its_exchange() {
    for by_event in [true, false] {
        let mut web = ready(&mut site());
        let ((request, call), (beside, other)) = (web.call("a"), web.call("a"));
        let error = other.error(-32001, "Session not found");
        let reply = if by_event { Reply::events(&[error, call.result(json!({}))]) } else { Reply::json(200, &error) };
        web.reply(&call, reply);
        assert_error(&web, beside, -32001, "Session not found");
        assert_eq!((web.outcome(request) == "Result", web.count("initialize")), (by_event, 1));
    }
}

/// rmcp 0.8
#[test]
fn session_expired_status_401_without_a_challenge_renews_the_session() {
    let mut site = site();
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    site.forget_session();
    web.reply(&call, Reply::text(401, "Unauthorized: Session not found"));
    web.serve(&mut site);
    assert!(web.is_ready() && was_answered(&web, request));
    assert_eq!(web.count("initialize"), 2);
    assert_quirk(&web, QuirkKind::SessionExpiredStatus, "tools/call");
    assert!(!web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. })));
}

/// The same from a server that requires a token: if a new session does not help, it is an authorization error.
#[test]
fn session_expired_status_401_in_a_new_session_is_an_authorization_error() {
    let mut site = site().first("tools/call", 2, |_| Reply::text(401, "who are you?"));
    let mut web = ready(&mut site);
    let request = web.request(Request::call_tool("a", None));
    web.serve(&mut site);
    assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 2));
    let asked = web.events.iter().filter(|event| matches!(event, Event::Unauthorized { request: Some(_), .. }));
    assert_eq!((asked.count(), web.outcome(request)), (1, "open".into()));
    web.session.authorized(web.now).unwrap();
    web.collect();
    web.serve(&mut site);
    assert!(was_answered(&web, request));
}

/// `initialize` has no session.
#[test]
fn session_expired_status_does_not_apply_to_initialize() {
    let refusal = |it: &Exchange| Reply::json(200, &it.error(-32000, "Session not found")).with(SESSION, "s-1");
    let web = Web::connect(legacy(), &mut site().on("initialize", refusal));
    assert_failed(&web, FailureKind::HandshakeRejected, &["Session not found"]);
    assert_eq!((web.count("initialize"), web.quirks()), (1, vec![]));
}

/// An error is about the session only if its text says so; the name or an argument of a tool does not matter.
#[test]
fn session_expired_status_does_not_apply_to_other_errors() {
    for (status, code, message) in [
        (200, -32602, "Unknown tool: list_sessions"),
        (200, -32602, "Invalid arguments: `session_id` is missing"),
        (200, -32603, "the session with the database was fine"),
        (200, -32000, "expired"),
        (400, -32602, "Invalid arguments: `session_id` is missing"),
        (400, -32000, "Bad Request"),
        (400, -32000, "Not supported"),
        (400, -32000, "Bad request: initialized"),
        (503, -32603, "overloaded"),
    ] {
        let mut site = site();
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        web.reply(&call, Reply::json(status, &call.error(code, message)));
        web.serve(&mut site);
        let Outcome::Error(RequestError::Server(error)) = web.result_of(request) else {
            panic!("{message}: {:?}", web.result_of(request))
        };
        assert_eq!((error.code, &*error.message), (code, message));
        assert_eq!((web.count("initialize"), web.count("tools/call")), (1, 1), "{status} {message}");
        assert!(web.quirks().is_empty());
    }
}

/// The result of a tool may mention sessions.
#[test]
fn session_expired_status_does_not_apply_to_results() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    let content = json!({"isError": true, "content": [{"type": "text", "text": "Session not found"}]});
    web.reply(&call, Reply::json(200, &call.result(content)));
    assert!(was_answered(&web, request));
    assert_eq!(web.count("initialize"), 1);
}

/// googleapis/mcp-toolbox #3588
#[test]
fn a_404_with_an_unknown_method_is_not_an_expired_session() {
    for by_id in [true, false] {
        let mut site = site();
        let mut web = ready(&mut site);
        let request = web.request(Request::new("acme/do"));
        let exchange = web.take_one();
        let error = json!({"code": -32601, "message": "Method not found"});
        let id = if by_id { exchange.json()["id"].clone() } else { Value::Null };
        web.reply(&exchange, Reply::json(404, &json!({"jsonrpc": "2.0", "id": id, "error": error})));
        assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32601)));
        assert_eq!((web.count("initialize"), web.is_ready()), (1, true));
    }
}

#[test]
fn a_404_with_an_unknown_method_that_names_the_session_is_an_expired_session() {
    let mut site = site();
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    site.forget_session();
    web.reply(&call, Reply::json(404, &call.error(-32601, "Session not found")));
    web.serve(&mut site);
    assert!(was_answered(&web, request), "{:?}", web.ended(request));
    assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 2));
}

#[test]
fn a_404_with_an_unknown_method_to_a_list_is_an_absent_family() {
    let capabilities = json!({"tools": {}, "prompts": {}});
    let mut site = Site::legacy(capabilities)
        .result("tools/list", tools(&["a"]))
        .on("prompts/list", |list| Reply::json(404, &list.error(-32601, "Method not found")));
    let web = ready(&mut site);
    assert_eq!((web.status(Family::Prompts), web.keys(Family::Tools)), (FamilyStatus::Absent, vec!["a"]));
    assert_eq!((web.count("initialize"), web.quirks()), (1, vec![QuirkKind::MethodNotFound]));
}

/// Codes that mean that something else does not exist: a text that names the session counts all the same.
#[test]
fn a_404_with_another_error_that_names_the_session_is_an_expired_session() {
    for code in [-32601, -32602, -32002] {
        let mut site = site();
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        site.forget_session();
        web.reply(&call, Reply::json(404, &call.error(code, "Session not found")));
        web.serve(&mut site);
        assert!(was_answered(&web, request), "{code}: {:?}", web.ended(request));
        assert_eq!((web.count("initialize"), web.quirks()), (2, vec![]), "{code}");
    }
}

/// Only -32601 is about the method: for any other code the status says that the session expired (specification
/// 2025-11-25, "Session Management").
#[test]
fn a_404_with_any_other_code_is_an_expired_session() {
    for (code, opened) in [(-32601, 1), (-32602, 2), (-32002, 2), (-32000, 2)] {
        let mut site = site().on("tools/call", move |call| Reply::json(404, &call.error(code, "No such tool")));
        let mut web = ready(&mut site);
        let request = web.request(tool("a"));
        web.serve(&mut site);
        assert_error(&web, request, code, "No such tool");
        assert_eq!((web.count("initialize"), web.count("tools/call")), (opened, opened), "{code}");
    }
}

#[test]
fn session_expired_status_applies_to_any_code() {
    for code in [-32601, -32602, -32002, -32000] {
        for status in [400, 503] {
            let mut site = site();
            let mut web = ready(&mut site);
            let (request, call) = web.call("a");
            web.reply(&call, Reply::json(status, &call.error(code, "Session not found")));
            web.serve(&mut site);
            assert!(was_answered(&web, request), "{status} {code}: {:?}", web.ended(request));
            assert_quirk(&web, QuirkKind::SessionExpiredStatus, "tools/call");
        }
    }
}

/// toolhive #5242
#[test]
fn a_404_to_one_method_ends_the_request_after_one_recovery() {
    for reply in [Reply::status(404), Reply::text(404, "404 page not found")] {
        let mut site = Site::legacy(json!({"tools": {}, "resources": {}}))
            .result("tools/list", tools(&["a"]))
            .result("tools/call", json!({"content": []}))
            .result("resources/list", json!({"resources": []}))
            .result("resources/templates/list", json!({"resourceTemplates": []}))
            .on("resources/read", move |_| reply.clone());
        let mut web = ready(&mut site);
        for round in 1..=5 {
            let request = web.request(Request::read_resource("x:1"));
            web.serve(&mut site);
            let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.result_of(request)) };
            assert!(error.to_string().contains("404"), "{error}");
            // The first is sent again in the new session.
            assert_eq!((web.count("initialize"), web.count("resources/read")), (2, 1 + round));
            let request = web.request(tool("a"));
            web.serve(&mut site);
            assert!(web.is_ready() && was_answered(&web, request));
        }
        assert!(web.quirks().is_empty());
        // Another method notices the next expiry.
        site.forget_session();
        let request = web.request(tool("a"));
        web.serve(&mut site);
        assert!(was_answered(&web, request));
        assert_eq!(web.count("initialize"), 3);
    }
}

#[test]
fn a_404_to_one_list_fails_that_list_after_one_recovery() {
    let mut site = site().on("tools/list", |_| Reply::status(404));
    let web = Web::connect(legacy(), &mut site);
    assert_failed(&web, FailureKind::ListFailed, &["tools/list", "404"]);
    assert_eq!((web.count("initialize"), web.count("tools/list")), (2, 2));

    let mut degrading = legacy();
    degrading.tolerance.list_errors = ListErrors::Degrade;
    let mut site = Site::legacy(json!({"tools": {}, "prompts": {}}))
        .result("tools/list", tools(&["a"]))
        .on("prompts/list", |_| Reply::status(404));
    let web = Web::connect(degrading, &mut site);
    assert_eq!((web.is_ready(), web.keys(Family::Tools)), (true, vec!["a"]));
    assert_eq!((web.status(Family::Prompts), web.count("initialize")), (FamilyStatus::Failed, 2));
}

/// A method that the new session has answered is not unknown.
#[test]
fn a_404_to_a_method_answered_in_the_new_session_is_an_expired_session() {
    let mut site = site();
    let mut web = ready(&mut site);
    for round in 2..=5 {
        let request = web.request(tool("a"));
        site.forget_session();
        web.serve(&mut site);
        assert!(was_answered(&web, request));
        assert_eq!(web.count("initialize"), round);
    }
}

/// A 404 that names the session is about the session, however often it comes.
#[test]
fn a_404_that_names_the_session_is_always_an_expired_session() {
    let mut site = site().first("tools/list", 1, |_| Reply::status(404));
    let mut site = {
        let mut named = 1;
        site = site.rule(move |exchange| {
            let second = exchange.is("tools/list") && exchange.header(SESSION) == Some("session-2") && named > 0;
            named -= usize::from(second);
            second.then(|| Reply::text(404, "Session not found"))
        });
        site
    };
    let web = ready(&mut site);
    assert_eq!((web.count("initialize"), web.keys(Family::Tools)), (3, vec!["a"]));
}

#[test]
fn session_loop_fails_after_three_recoveries() {
    for options in [legacy(), reconnecting(legacy())] {
        let mut site = site().on("tools/list", |_| Reply::text(404, "Session not found"));
        let mut web = Web::connect(options, &mut site);
        web.wait_and_serve(seconds(3600), &mut site);
        assert_eq!(web.count("initialize"), 4);
        assert_failed(&web, FailureKind::Closed, &["session"]);
        assert_eq!(web.quirk_methods(QuirkKind::SessionLoop).len(), 1);
    }
}

#[test]
fn answered_calls_between_expiries_are_no_session_loop() {
    let mut site = site();
    let mut web = ready(&mut site);
    for round in 2..12 {
        site.forget_session();
        for _ in 0..2 {
            let request = web.request(Request::call_tool("a", None));
            web.serve(&mut site);
            assert!(was_answered(&web, request), "{round}");
        }
        assert_eq!(web.count("initialize"), round);
    }
    assert!(web.is_ready() && web.quirks().is_empty());
}

/// A server that expires sessions overnight causes no session loop, even without tool calls.
#[test]
fn long_lived_sessions_are_no_session_loop() {
    let mut options = legacy();
    options.keepalive = Some(mcp_proto::Keepalive::default());
    let mut site = site().result("ping", json!({}));
    let mut web = Web::connect(options, &mut site);
    for night in 2..12 {
        web.wait_and_serve(seconds(12 * 3600), &mut site);
        site.forget_session();
        web.wait_and_serve(seconds(120), &mut site);
        assert_eq!((web.is_ready(), web.count("initialize")), (true, night));
    }
    assert!(web.quirks().is_empty());
}

/// frontmcp #474, dynatrace #134
#[test]
fn already_initialized_first_ends_the_previous_session() {
    let error = json!({"code": -32600, "message": "Invalid Request: Server already initialized"});
    let json_error =
        |status, error: Value| move |call: &Exchange| Reply::json(status, &call.answer("error", error.clone()));
    let by_stream = error.clone();
    let replies: Vec<Answering> = vec![
        Box::new(json_error(400, error.clone())),
        Box::new(json_error(409, error.clone())),
        Box::new(json_error(200, error)),
        Box::new(move |call| Reply::events(&[call.answer("error", by_stream.clone())])),
        Box::new(|_| Reply::text(400, "Already initialized")),
    ];
    for reply in replies {
        for ended in [Some(200), Some(204), Some(404), Some(405), Some(500), None] {
            let mut site = site();
            let mut web = ready(&mut site);
            let (request, call) = web.call("a");
            web.reply(&call, Reply::status(404));
            let initialize = web.take_named("initialize");
            let refusal = reply(&initialize);
            let told = String::from_utf8_lossy(&refusal.body).into_owned();
            web.reply(&initialize, refusal);
            assert_eq!(web.count("DELETE"), 1, "{told}");
            let delete = web.take_named("DELETE");
            assert_eq!(delete.header(SESSION), Some("session-1"));
            match ended {
                Some(status) => web.reply(&delete, Reply::status(status)),
                None => web.fail(&delete, Broken::Midway),
            }
            let again = web.last("initialize");
            assert_ne!(again.json()["id"], initialize.json()["id"]);
            assert_eq!(again.header(SESSION), None);
            web.serve(&mut site);
            assert!(web.is_ready() && was_answered(&web, request), "{ended:?}");
            assert_eq!(web.last("tools/call").header(SESSION), Some("session-2"));
            assert_quirk(&web, QuirkKind::AlreadyInitialized, "initialize");
        }
    }
}

#[test]
fn already_initialized_without_a_previous_session_is_a_refusal() {
    let words = "Server already initialized";
    let mut site = site().on("initialize", move |initialize| Reply::json(400, &initialize.error(-32600, words)));
    let web = Web::connect(legacy(), &mut site);
    assert_failed(&web, FailureKind::HandshakeRejected, &[words]);
    assert_eq!(web.names(), ["initialize", "GET"]);
}

#[test]
fn an_initialize_that_is_refused_for_another_reason_does_not_end_the_previous_session() {
    let mut web = ready(&mut site());
    let (_, call) = web.call("a");
    web.reply(&call, Reply::status(404));
    let initialize = web.take_named("initialize");
    web.reply(&initialize, Reply::json(400, &initialize.error(-32600, "no more clients")));
    assert_failed(&web, FailureKind::HandshakeRejected, &["no more clients"]);
    assert_eq!((web.count("initialize"), web.count("DELETE")), (2, 0));
}

/// grafana: 400 for an unknown method
#[test]
fn over_http_sse_a_refused_post_ends_the_request() {
    for (status, body, words) in [
        (
            400,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found"}}).to_string(),
            "Method not found",
        ),
        (400, "unknown method".into(), "unknown method"),
        (404, String::new(), "404"),
        (500, "it broke".into(), "it broke"),
    ] {
        let (mut web, stream, mut site) = open_over_sse();
        let request = web.request(Request::new("acme/do"));
        let post = web.take_named("acme/do");
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        web.reply(&post, Reply::status(status).body(kind, body));
        let Outcome::Error(error) = web.result_of(request) else { panic!("{status}: {:?}", web.ended(request)) };
        assert!(error.to_string().contains(words), "{error}");
        assert!(web.is_ready() && web.is_open(&stream));
        // The session stays open, and its stream delivers responses.
        let (request, post) = web.call("a");
        post_and_answer(&mut web, &stream, &mut site, &post);
        assert!(was_answered(&web, request));
    }
}

/// mcp-atlassian 0.11: 500 from then on
#[test]
fn delete_is_sent_only_when_the_session_closes_for_good() {
    let mut options = reconnecting(legacy());
    options.keepalive = Some(mcp_proto::Keepalive::default());
    let mut site = site();
    let mut web = Web::connect(options, &mut site);
    // A server that stops answering, one that is unreachable, and one whose session expired.
    web.wait(seconds(220));
    web.serve(&mut site);
    web.wait_and_serve(seconds(1), &mut site);
    let (_, call) = web.call("a");
    web.make_unreachable(&call);
    web.wait_and_serve(seconds(1), &mut site);
    site.forget_session();
    let request = web.request(Request::call_tool("a", None));
    web.serve(&mut site);
    assert!(web.is_ready() && was_answered(&web, request));
    assert_eq!((web.count("initialize"), web.count("DELETE")), (4, 0));
    let session = web.last("tools/call").header(SESSION).unwrap().to_owned();
    web.close();
    let delete = web.take_named("DELETE");
    assert_eq!((delete.header(SESSION), delete.url()), (Some(&*session), URL.into()));
    web.reply(&delete, Reply::status(200));
    assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));
}

#[test]
fn delete_may_be_answered_in_any_way() {
    let session = || {
        let mut web = ready(&mut site());
        web.close();
        let delete = web.take_named("DELETE");
        (web, delete)
    };
    for status in [200, 202, 204, 301, 307, 308, 400, 401, 403, 404, 405, 429, 500, 503] {
        let (mut web, delete) = session();
        web.reply(&delete, Reply::text(status, "Session not found").with("location", "https://elsewhere.example/"));
        assert_eq!(web.cause(), Some(&Cause::Requested), "{status}");
        assert!(web.session.is_closed() && web.open.is_empty() && web.take().is_empty(), "{status}");
    }
    for broken in [Broken::Midway, Broken::Unreachable] {
        let (mut web, delete) = session();
        web.fail(&delete, broken);
        assert_eq!(web.cause(), Some(&Cause::Requested));
    }
    let (mut web, delete) = session();
    web.wait(seconds(60));
    assert_eq!(web.cause(), Some(&Cause::Requested), "never answered");
    assert!(web.was_dropped(&delete));
}

#[test]
fn delete_is_not_sent_without_a_session() {
    let mut sessionless = site();
    sessionless.sessions = false;
    for (options, mut site) in [(legacy(), sessionless), (modern_only(), modern_site())] {
        let mut web = Web::connect(options, &mut site);
        assert!(web.is_ready());
        web.close();
        assert_eq!((web.cause(), web.count("DELETE"), web.open.len()), (Some(&Cause::Requested), 0, 0));
    }
}

/// mcp-atlassian 0.11
#[test]
fn redirects_are_followed_within_the_origin_and_kept() {
    for status in [307, 308] {
        for (location, target) in [
            ("/mcp/", "https://example.com/mcp/"),
            ("mcp/", "https://example.com/mcp/"),
            ("https://example.com/v2?x=1", "https://example.com/v2?x=1"),
            ("https://EXAMPLE.com:443/mcp/", "https://EXAMPLE.com:443/mcp/"),
        ] {
            let mut site = site().rule(move |exchange| {
                (exchange.url() == URL).then(|| Reply::status(status).with("location", location))
            });
            let mut web = ready(&mut site);
            let request = web.request(Request::call_tool("a", None));
            web.serve(&mut site);
            assert!(was_answered(&web, request));
            assert_eq!(names(&web)[..2], ["initialize", "initialize"]);
            assert_eq!((web.log[0].url(), web.log[0].body()), (URL.into(), web.log[1].body()));
            for exchange in &web.log[1..] {
                assert_eq!(exchange.url(), target, "{}", exchange.name());
            }
            assert!(web.quirks().is_empty());
            web.close();
            assert_eq!(web.take_named("DELETE").url(), target);
        }
    }
}

/// A redirected request during a session keeps its method, body and headers.
#[test]
fn redirects_keep_method_body_and_headers() {
    let mut site = site();
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(308).with("location", "/moved"));
    let again = web.take_named("tools/call");
    assert_eq!((again.url(), again.of), ("https://example.com/moved".into(), Some(request)));
    assert_eq!((again.body(), again.headers()), (call.body(), call.headers()));
    web.end_with(&again, site.reply(&again));
    assert!(was_answered(&web, request));
    // The GET stream, too.
    let stream = web.last("GET");
    web.body(&stream, "id: 5\ndata:\n\n");
    web.end(&stream);
    web.wait(seconds(60));
    let get = web.take_named("GET");
    assert_eq!(get.url(), "https://example.com/moved");
    web.reply(&get, Reply::status(307).with("location", "/moved/again"));
    let again = web.take_named("GET");
    assert_eq!((again.url(), again.headers()), ("https://example.com/moved/again".into(), get.headers()));
}

#[test]
fn requests_wait_for_a_redirected_initialized_notification() {
    let mut site = site();
    let mut web = Web::open(legacy());
    let initialize = web.take_one();
    web.end_with(&initialize, site.reply(&initialize));
    let initialized = web.take_named(INITIALIZED);
    web.reply(&initialized, Reply::status(307).with("location", "/mcp/"));
    let again = web.take_named(INITIALIZED);
    web.reply(&again, Reply::status(202));
    assert_eq!(web.take_names(), ["GET", "tools/list"]);
}

#[test]
fn redirects_to_another_origin_fail() {
    for location in [
        "https://elsewhere.example/mcp",
        "http://example.com/mcp",
        "https://example.com:8443/mcp",
        "https://sub.example.com/mcp",
        "https://example.com.evil.example/mcp",
        "//elsewhere.example/mcp",
        "https://example.com@elsewhere.example/mcp",
        "file:///etc/passwd",
        "https://",
    ] {
        for (options, mut site) in [(legacy(), site()), (reconnecting(legacy()), site()), (options(), modern_site())] {
            let mut web = Web::connect(options, &mut site);
            let (_, call) = web.call("a");
            web.reply(&call, Reply::status(307).with("location", location));
            web.wait(seconds(3600));
            // The message does not show the user name.
            assert_failed(&web, FailureKind::Protocol, &[&location.replace("example.com@", "…@")]);
            assert!(web.log.iter().all(|exchange| exchange.url() == URL), "{location}");
        }
    }
}

#[test]
fn circular_redirects_fail() {
    let mut site = site().rule(|_| Some(Reply::status(307).with("location", "/mcp")));
    let web = Web::connect(legacy(), &mut site);
    assert_failed(&web, FailureKind::Protocol, &["/mcp", "redirects more than 5 times"]);
    assert_eq!(web.log.len(), 6);
}

/// go-sdk #768, python-sdk #1672
#[test]
fn events_without_data_and_comments_are_no_messages() {
    for ending in ["\n", "\r\n", "\r"] {
        let mut site = site().map_replies(move |exchange, mut reply| {
            if exchange.is(INITIALIZED) {
                return reply;
            }
            let answer = String::from_utf8(reply.body).unwrap();
            let lines = [
                ": a comment",
                "",
                "data:",
                "",
                "event: message",
                "data: ",
                "",
                "event: message",
                "",
                "id: 1",
                "retry: 20",
                "",
                "unknown: field",
                "",
                &format!("data: {answer}"),
                "",
                ":",
                "",
            ];
            reply.body = lines.map(|line| format!("{line}{ending}")).concat().into();
            reply.with("content-type", "text/event-stream")
        });
        let web = ready(&mut site);
        assert_eq!((web.keys(Family::Tools), web.quirks()), (vec!["a"], vec![]), "{ending:?}");
    }
}

/// "Messages are sent as SSE `message` events" (specification 2024-11-05, "Transports"; the SDKs do so).
#[test]
fn events_of_another_type_are_no_messages() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &[("content-type", "text/event-stream")]);
    web.body(&call, "event: ping\ndata: 2025-01-01T00:00:00Z\n\nevent: keep-alive\ndata: {}\n\n");
    web.body(&call, events_named("message", &call.result(json!({}))));
    web.end(&call);
    assert!(was_answered(&web, request));
    let stream = web.last("GET");
    web.body(&stream, "event: heartbeat\ndata: still here\n\n");
    assert!(web.is_ready() && web.quirks().is_empty(), "{:?}", web.session.quirks());
}

/// The sample of a guide to tool sync: the body ends after the last event's line.
#[test]
fn sse_unfinished_an_event_without_a_blank_line_counts_where_the_body_ends_regularly() {
    for ending in ["", "\n", "\r", "\r\n"] {
        let mut web = ready(&mut site().map_replies(move |exchange, reply| match exchange.is("tools/list") {
            true => {
                let answer = String::from_utf8(reply.body).unwrap();
                Reply::status(200).body("text/event-stream", format!("event: message\ndata: {answer}{ending}"))
            }
            false => reply,
        }));
        assert_eq!((web.keys(Family::Tools), web.count("tools/list")), (vec!["a"], 1), "{ending:?}");
        let (request, call) = web.call("a");
        web.head(&call, 200, &[("content-type", "text/event-stream")]);
        web.body(&call, format!("id: 4\ndata: {}{ending}", call.result(json!({"content": []}))));
        assert_eq!(web.outcome(request), "open", "more data may follow");
        web.end(&call);
        assert!(was_answered(&web, request), "{ending:?}");
        assert_eq!(web.quirk_methods(QuirkKind::SseUnfinished), ["tools/list", "tools/call"]);
    }
}

#[test]
fn sse_unfinished_does_not_apply_to_a_broken_body_or_a_part_of_a_message() {
    let result = |call: &Exchange| call.result(json!({"content": []})).to_string();
    for broken in [true, false] {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        web.head(&call, 200, &[("content-type", "text/event-stream")]);
        let text = result(&call);
        if broken {
            web.body(&call, format!("data: {text}\n"));
            web.fail(&call, Broken::Midway);
        } else {
            web.body(&call, format!("data: {}", &text[..text.len() - 1]));
            web.end(&call);
        }
        assert_eq!((web.outcome(request), web.quirks()), ("Unknown".into(), vec![]), "{broken}");
    }
}

#[test]
fn sse_unfinished_a_notification_is_no_response() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &[("content-type", "text/event-stream")]);
    web.body(&call, r#"data: {"jsonrpc":"2.0","method":"notifications/x"}"#);
    web.end(&call);
    assert_eq!(web.outcome(request), "Unknown");
    assert_quirk(&web, QuirkKind::SseUnfinished, "tools/call");
}

#[test]
fn session_expired_status_200_after_the_response_is_ignored() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &[("content-type", "text/event-stream")]);
    let stream = web.last("GET");
    web.push(&stream, call.result(json!({"content": []})));
    assert!(was_answered(&web, request));
    web.push(&call, call.error(-32001, "Session not found"));
    assert_eq!((web.count("initialize"), web.is_ready()), (1, true));
}

/// A session that expired is recovered, whichever way the error ends.
#[test]
fn sse_unfinished_an_error_about_the_session_renews_it() {
    let mut site = site();
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    web.head(&call, 200, &[("content-type", "text/event-stream")]);
    web.body(&call, format!("data: {}", call.error(-32001, "Session not found")));
    web.end(&call);
    web.serve(&mut site);
    assert_error(&web, request, -32001, "Session not found");
    assert_eq!((web.count("initialize"), web.is_ready()), (2, true));
}

#[test]
fn sse_event_name_a_message_under_another_name_counts() {
    let mut site = Site::legacy(json!({"tools": {"listChanged": true}})).result("tools/list", tools(&["a"]));
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    web.head(&call, 200, &[("content-type", "text/event-stream")]);
    web.body(&call, events_named("response", &call.result(json!({"content": []}))));
    assert!(was_answered(&web, request));
    web.end(&call);
    assert_quirk(&web, QuirkKind::SseEventName, "tools/call");
    let stream = web.last("GET");
    web.body(
        &stream,
        events_named("notification", &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})),
    );
    web.wait(millis(1000));
    assert_eq!(web.take_names(), ["tools/list"]);
}

fn events_named(name: &str, message: &Value) -> String {
    format!("event: {name}\ndata: {message}\n\n")
}

#[test]
fn retry_sets_the_reconnect_delay() {
    const DAY: u64 = 24 * 3_600_000;
    for (retry, wait) in [(4000, 4000), (30_000, 30_000), (150, 150), (7_200_000, 7_200_000), (3 * DAY, DAY)] {
        let mut web = ready(&mut site());
        let stream = web.last("GET");
        web.body(&stream, format!("retry: {retry}\n\n"));
        web.end(&stream);
        web.wait(millis(wait - 1));
        assert!(web.take().is_empty(), "{wait}");
        web.wait(millis(1));
        web.take_named("GET");
    }
}

/// "It sets the reconnection time" (HTML, "Server-sent events"), until it is set again.
#[test]
fn retry_and_the_last_id_stay_until_the_server_changes_them() {
    let mut web = ready(&mut site());
    let stream = web.last("GET");
    web.body(&stream, "id: 9\nretry: 4000\ndata:\n\n");
    web.end(&stream);
    for _ in 0..3 {
        web.wait(millis(3999));
        assert!(web.take().is_empty());
        web.wait(millis(1));
        let again = web.take_named("GET");
        assert_eq!(again.header(LAST_ID), Some("9"));
        web.reply(&again, Reply::stream(": nothing new\n\n"));
        web.end(&again);
    }
}

/// A call whose stream begins with this text and breaks.
fn call_with_broken_stream(
    site: &mut Site,
    options: Options,
    request: Request,
    text: &str,
) -> (Web, RequestId, Exchange) {
    let mut web = Web::connect(options, site);
    assert!(web.is_ready());
    let request = web.request(request);
    let exchange = web.take_one();
    web.head(&exchange, 200, &[("content-type", "text/event-stream")]);
    web.body(&exchange, text);
    web.end(&exchange);
    (web, request, exchange)
}

/// agentdeals #1100
#[test]
fn a_stream_that_ends_before_the_response_is_resumed_after_its_last_event() {
    let (mut web, request, call) =
        call_with_broken_stream(&mut site(), legacy(), tool("a"), "id: 7\nretry: 3000\ndata:\n\n");
    assert_eq!((web.outcome(request), web.take().len()), ("open".into(), 0));
    web.wait(millis(2999));
    assert!(web.take().is_empty());
    web.wait(millis(1));
    let get = web.take_named("GET");
    assert_eq!((get.header(LAST_ID), get.of, get.url()), (Some("7"), Some(request), URL.into()));
    assert_eq!((get.header(SESSION), get.header(VERSION)), (Some("session-1"), Some("2025-11-25")));
    web.head(&get, 200, &[("content-type", "text/event-stream")]);
    web.push(&get, call.result(json!({"content": []})));
    assert!(was_answered(&web, request));
    assert!(!web.is_open(&get), "it is complete");
    assert_eq!((web.count("tools/call"), web.quirks()), (1, vec![]));
}

/// A resumed stream may end early again; each attempt resumes after the last event.
#[test]
fn a_stream_that_ends_before_the_response_is_resumed_repeatedly() {
    let (mut web, request, call) =
        call_with_broken_stream(&mut site(), legacy(), tool("a"), "id: 1\nretry: 2000\ndata:\n\n");
    for text in ["id: 2\ndata:\n\n", "", ": nothing\n\n", "id: 3\ndata:\n\n"] {
        web.wait(millis(1999));
        assert!(web.take().is_empty(), "the `retry` time applies to later attempts, too");
        web.wait(millis(1));
        let get = web.take_named("GET");
        web.reply(&get, Reply::stream(text));
        web.end(&get);
        assert_eq!(web.outcome(request), "open");
    }
    let last_ids: Vec<_> = web.log.iter().filter_map(|exchange| exchange.header(LAST_ID)).collect();
    assert_eq!(last_ids, ["1", "2", "2", "2"]);
    web.wait(millis(2000));
    let get = web.take_named("GET");
    assert_eq!(get.header(LAST_ID), Some("3"));
    web.reply(&get, Reply::events(&[call.result(json!({"content": []}))]));
    assert!(was_answered(&web, request));
}

/// The same after a broken connection.
#[test]
fn a_stream_that_breaks_before_the_response_is_resumed() {
    for broken in [Broken::Midway, Broken::Unreachable] {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        web.head(&call, 200, &[("content-type", "text/event-stream")]);
        web.body(&call, "id: 7\ndata:\n\n");
        web.fail(&call, Broken::Midway);
        web.wait(seconds(5));
        let get = web.take_named("GET");
        assert_eq!(get.header(LAST_ID), Some("7"));
        web.fail(&get, broken);
        web.wait(seconds(5));
        let get = web.take_named("GET");
        assert_eq!(get.header(LAST_ID), Some("7"), "{broken:?}");
        web.reply(&get, Reply::events(&[call.result(json!({"content": []}))]));
        assert!(was_answered(&web, request));
    }
}

/// Event ids belong to one stream and are never mixed.
#[test]
fn each_stream_is_resumed_after_its_own_last_event() {
    let mut web = ready(&mut site());
    let stream = web.last("GET");
    let (one, other) = (web.call("a"), web.call("a"));
    for (exchange, id) in [(&one.1, "one"), (&other.1, "other")] {
        web.head(exchange, 200, &[("content-type", "text/event-stream")]);
        web.body(exchange, format!("id: {id}\ndata:\n\n"));
    }
    web.body(&stream, "id: unasked\ndata:\n\n");
    for exchange in [&one.1, &other.1, &stream] {
        web.end(exchange);
    }
    web.wait(seconds(5));
    let mut asked: Vec<_> = web.take().iter().map(|get| (get.header(LAST_ID).unwrap().to_owned(), get.of)).collect();
    asked.sort();
    let expected = [("one", Some(one.0)), ("other", Some(other.0)), ("unasked", None)];
    assert_eq!(asked, expected.map(|(id, of)| (id.to_owned(), of)));
}

/// Options of an embedder that trusts the server's annotations.
fn trusting(mut options: Options) -> Options {
    options.trust = true;
    options
}

fn readers() -> Site {
    Site::legacy(json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}}))
        .result(
            "tools/list",
            json!({"tools": [
                {"name": "reads", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
                {"name": "again", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}},
                {"name": "writes", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": false}},
                {"name": "silent", "inputSchema": {"type": "object"}},
            ]}),
        )
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("prompts/list", json!({"prompts": []}))
}

fn modern_readers() -> Site {
    let mut site = readers();
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}});
    let discovered =
        json!({"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"});
    site.server = site.server.result("server/discover", discovered);
    site.sessions = false;
    site.streams = false;
    site
}

fn reading() -> Vec<Request> {
    vec![
        Request::read_resource("file:///x"),
        Request::get_prompt("x", []),
        Request::complete(mcp_proto::Reference::Prompt("x"), "y", "z"),
        Request::new("tools/list"),
        tool("reads"),
        tool("again"),
    ]
}

/// The requests sent, and their ids.
fn ids(web: &Web, name: &str) -> Vec<u64> {
    web.log.iter().filter(|it| it.is(name)).map(|it| it.json()["id"].as_u64().unwrap()).collect()
}

#[test]
fn a_stream_that_ends_without_an_event_id_sends_read_only_requests_twice_at_most() {
    for (options, site) in [(legacy(), readers as fn() -> Site), (modern_only(), modern_readers)] {
        for request in reading() {
            let mut web = Web::connect(trusting(options.clone()), &mut site());
            assert!(web.is_ready(), "{:?}", web.failure());
            let before = web.log.len();
            let request = web.request(request);
            for _ in 0..3 {
                assert_eq!(web.outcome(request), "open");
                let exchange = web.take_one();
                assert_eq!(exchange.of, Some(request));
                web.reply(&exchange, Reply::events(&[]));
            }
            assert_eq!((web.outcome(request), web.take().len()), ("Unknown".into(), 0));
            let sent: Vec<_> = web.log[before..].iter().map(|it| it.json()["id"].as_u64().unwrap()).collect();
            assert!(sent.len() == 3 && sent.windows(2).all(|ids| ids[0] < ids[1]), "new ids: {sent:?}");
            assert!(web.is_ready() && web.quirks().is_empty());
        }
    }
}

#[test]
fn a_stream_that_ends_without_an_event_id_ends_other_calls_as_unknown() {
    for (options, site) in [(legacy(), readers as fn() -> Site), (modern_only(), modern_readers)] {
        for request in [tool("writes"), tool("silent"), tool("unlisted"), Request::new("acme/do")] {
            let text = ": working\n\n";
            let (mut web, request, exchange) =
                call_with_broken_stream(&mut site(), trusting(options.clone()), request, text);
            assert_eq!(web.outcome(request), "Unknown");
            web.wait(seconds(60));
            assert_eq!((web.count(&exchange.name()), web.is_ready()), (1, true));
        }
        for tool in [tool("reads"), tool("again")] {
            let (web, request, _) = call_with_broken_stream(&mut site(), options.clone(), tool, "");
            assert_eq!(web.outcome(request), "Unknown", "the server is not trusted");
        }
    }
}

#[test]
fn requests_after_a_broken_stream_are_sent_again_as_the_embedder_allows() {
    let (mut web, request, _) = call_with_broken_stream(&mut readers(), legacy(), tool("silent").replay(true), "");
    assert_eq!((web.take_named("tools/call").of, web.outcome(request)), (Some(request), "open".into()));
    let (mut web, request, _) =
        call_with_broken_stream(&mut readers(), legacy(), Request::read_resource("x:y").replay(false), "");
    assert_eq!((web.take().len(), web.outcome(request)), (0, "Unknown".into()));
}

/// "Resumable SSE streams via `Last-Event-ID` are not supported" (specification 2026-07-28, "Streamable HTTP").
#[test]
fn a_stream_of_the_modern_era_is_never_resumed() {
    let text = "id: 7\nretry: 10\ndata:\n\n";
    let (mut web, request, _) =
        call_with_broken_stream(&mut modern_readers(), trusting(modern_only()), tool("silent"), text);
    assert_eq!(web.outcome(request), "Unknown");
    let reading = web.request(tool("reads"));
    let exchange = web.take_one();
    web.reply(&exchange, Reply::status(200).body("text/event-stream", text));
    let again = web.take_named("tools/call");
    assert_eq!((again.of, again.header(LAST_ID)), (Some(reading), None));
    web.wait(seconds(30));
    assert_eq!(web.count("GET"), 0);
}

#[test]
fn a_stream_that_cannot_be_resumed_counts_as_one_without_an_event_id() {
    for status in [400, 405, 501] {
        let text = "id: 7\ndata:\n\n";
        let (mut web, request, _) = call_with_broken_stream(&mut readers(), legacy(), tool("silent"), text);
        web.wait(seconds(5));
        let get = web.take_named("GET");
        web.reply(&get, Reply::status(status));
        assert_eq!((web.outcome(request), web.is_ready()), ("Unknown".into(), true), "{status}");

        let (mut web, request, _) = call_with_broken_stream(&mut readers(), trusting(legacy()), tool("reads"), text);
        web.wait(seconds(5));
        let get = web.take_named("GET");
        web.reply(&get, Reply::status(status));
        assert_eq!((web.take_named("tools/call").of, web.outcome(request)), (Some(request), "open".into()));
    }
}

/// Without a session id, no session can expire.
#[test]
fn a_404_to_the_resumption_of_a_stream_without_a_session_is_no_expired_session() {
    let content = json!({"content": []});
    let server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", content);
    let mut site = Site::of(server, false);
    let (mut web, request, _) = call_with_broken_stream(&mut site, legacy(), tool("a"), "id: 7\ndata:\n\n");
    web.wait(seconds(1));
    let get = web.take_named("GET");
    assert_eq!((get.header(LAST_ID), get.header(SESSION)), (Some("7"), None));
    web.reply(&get, Reply::status(404));
    assert_eq!(web.outcome(request), "Unknown");
    web.wait_and_serve(seconds(10), &mut site);
    assert_eq!((web.count("initialize"), web.is_ready(), web.quirks()), (1, true, vec![]));
}

/// A 404 to the GET that resumes: the session expired, and the outcome of the call is unknown.
#[test]
fn resuming_a_stream_in_an_expired_session_recovers_the_session() {
    let mut site = site();
    let (mut web, request, _) = call_with_broken_stream(&mut site, legacy(), tool("a"), "id: 7\ndata:\n\n");
    site.forget_session();
    web.wait(seconds(5));
    web.serve(&mut site);
    assert_eq!((web.outcome(request), web.is_ready(), web.count("initialize")), ("Unknown".into(), true, 2));
}

#[test]
fn a_list_whose_stream_ends_early_is_requested_again() {
    for (options, site) in [(legacy(), site as fn() -> Site), (modern_only(), modern_site)] {
        let mut twice = site().first("tools/list", 2, |_| Reply::events(&[]));
        let web = Web::connect(options.clone(), &mut twice);
        assert_eq!((web.is_ready(), web.keys(Family::Tools), ids(&web, "tools/list").len()), (true, vec!["a"], 3));

        let mut always = site().on("tools/list", |_| Reply::events(&[]));
        let web = Web::connect(options, &mut always);
        assert_eq!(ids(&web, "tools/list").len(), 3);
        assert_failed(&web, FailureKind::ListFailed, &["tools/list"]);
    }
}

/// The server refused nothing: a new connection is opened where possible.
#[test]
fn a_list_whose_exchanges_break_reconnects_without_closing() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut site = site().first("tools/list", 3, |_| Reply::events(&[]));
    let mut web = Web::connect(options, &mut site);
    assert_eq!((web.is_ready(), web.failure_kind()), (false, Some(FailureKind::Closed)));
    web.wait_and_serve(seconds(2), &mut site);
    assert_eq!((web.is_ready(), web.count("initialize")), (true, 2));
}

/// A broken response is neither a response nor a refusal.
#[test]
fn a_broken_attempt_at_http_with_sse_tries_no_older_version() {
    for broken in [Broken::Unreachable, Broken::Midway] {
        let mut web = Web::open(legacy());
        let initialize = web.take_one();
        web.reply(&initialize, Reply::status(404));
        let look = web.take_named("GET");
        web.fail(&look, broken);
        assert_eq!((web.take().len(), web.count("initialize")), (0, 1), "{broken:?}");
        let kind = if broken == Broken::Unreachable { FailureKind::Connect } else { FailureKind::Closed };
        assert_eq!(web.failure_kind(), Some(kind));
    }
}

#[test]
fn a_probe_whose_stream_ends_early_is_sent_again() {
    let mut twice = modern_site().first("server/discover", 2, |_| Reply::events(&[]));
    let web = Web::connect(options(), &mut twice);
    assert_eq!((era(&web), ids(&web, "server/discover").len()), (Some(Era::Modern), 3));
}

/// A broken response is not a quirk of the server.
#[test]
fn a_truncated_response_is_no_quirk() {
    for (kind, part) in
        [("application/json", r#"{"jsonrpc": "2.0", "id": 3, "resu"#), ("text/event-stream", "data: {\"jsonr")]
    {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        web.head(&call, 200, &[("content-type", kind)]);
        web.body(&call, part);
        web.fail(&call, Broken::Midway);
        assert_eq!((web.outcome(request), web.quirks()), ("Unknown".into(), vec![]), "{kind}");
    }
}

/// How an open_over_sse server refuses `initialize`.
fn refuse_initialize(exchange: &Exchange, status: u16) -> Option<Reply> {
    (exchange.verb() == "POST" && exchange.url() == URL).then(|| Reply::text(status, "Not Found"))
}

/// Accepts a POST over HTTP with SSE, and sends the response on the stream.
fn post_and_answer(web: &mut Web, stream: &Exchange, site: &mut Site, post: &Exchange) {
    web.reply(post, Reply::text(202, "Accepted"));
    for answer in site.server.answer(&post.json()) {
        web.push(stream, answer);
    }
}

const ENDPOINT: &str = "event: endpoint\ndata: /messages?session=1\n\n";

/// A session after handshake and discovery over HTTP with SSE; its stream.
fn open_over_sse_with(options: Options, status: u16, endpoint: &str) -> (Web, Exchange, Site) {
    let (mut web, mut site) = (Web::open(options), site());
    let first = web.take_one();
    web.reply(&first, refuse_initialize(&first, status).unwrap());
    if first.is("server/discover") {
        let initialize = web.take_named("initialize");
        web.reply(&initialize, refuse_initialize(&initialize, status).unwrap());
    }
    let stream = web.take_named("GET");
    web.reply(&stream, Reply::stream(endpoint));
    serve_over_sse(&mut web, &stream, &mut site);
    (web, stream, site)
}

fn open_over_sse() -> (Web, Exchange, Site) {
    let (web, stream, site) = open_over_sse_with(legacy(), 405, ENDPOINT);
    assert!(web.is_ready(), "{:?}", web.failure());
    (web, stream, site)
}

fn serve_over_sse(web: &mut Web, stream: &Exchange, site: &mut Site) {
    let mut steps = Steps::until("no POST is left to answer");
    loop {
        steps.step();
        let posts = web.take();
        if posts.is_empty() {
            return;
        }
        for post in posts {
            post_and_answer(web, stream, site, &post);
        }
    }
}

#[test]
fn http_with_sse_follows_a_refused_initialize() {
    for status in [400, 404, 405] {
        for options in [legacy(), options()] {
            let (web, stream, _) = open_over_sse_with(options, status, ENDPOINT);
            assert!(web.is_ready() && web.is_open(&stream), "{status}: {:?}", web.failure());
            assert_eq!((stream.url(), stream.header(SESSION)), (URL.into(), None));
            let after: Vec<_> = web.log.iter().skip_while(|it| it.id != stream.id).skip(1).collect();
            let names: Vec<_> = after.iter().map(|it| it.name()).collect();
            assert_eq!(names, ["initialize", INITIALIZED, "tools/list"]);
            for post in after {
                assert_eq!(post.url(), "https://example.com/messages?session=1");
                assert_eq!(post.header(SESSION), None);
            }
            assert_eq!((web.keys(Family::Tools), web.quirks()), (vec!["a"], vec![]));
        }
    }
}

/// JSON that is not JSON-RPC is not a response to `initialize`, and a server that does not know `initialize` may take it by
/// the older transport only.
#[test]
fn http_with_sse_follows_a_refused_initialize_with_a_json_body() {
    for (status, body) in [
        (405, json!({"error": "Not Found"})),
        (405, json!({"detail": "Method Not Allowed"})),
        (405, json!({"error": {"type": "x"}})),
        (400, json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found"}})),
        (404, json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}})),
    ] {
        let mut web = Web::open(legacy());
        let initialize = web.take_one();
        web.reply(&initialize, Reply::json(status, &body));
        let stream = web.take_named("GET");
        web.reply(&stream, Reply::stream(ENDPOINT));
        serve_over_sse(&mut web, &stream, &mut site());
        assert_eq!((web.is_ready(), web.quirks()), (true, vec![]), "{body}");
    }
}

#[test]
fn http_with_sse_accepts_endpoints_of_the_same_origin() {
    for (endpoint, target) in [
        ("/messages", "https://example.com/messages"),
        ("messages?id=a%20b", "https://example.com/messages?id=a%20b"),
        ("?session=1", "https://example.com/mcp?session=1"),
        ("/m?é", "https://example.com/m?%C3%A9"),
        ("https://example.com/m", "https://example.com/m"),
        ("https://EXAMPLE.COM:443/m", "https://EXAMPLE.COM:443/m"),
    ] {
        let (web, _, _) = open_over_sse_with(legacy(), 404, &format!("event: endpoint\ndata: {endpoint}\n\n"));
        assert!(web.is_ready(), "{endpoint}");
        assert_eq!(web.last("tools/list").url(), target);
    }
}

/// Characters outside ASCII count as they are sent.
#[test]
fn http_with_sse_accepts_endpoints_of_8_kib_at_most() {
    let open = |endpoint: &str| {
        let text = format!("event: endpoint\ndata: {endpoint}\n\n");
        open_over_sse_with(legacy(), 404, &text).0
    };
    for longest in [format!("/{}", "a".repeat(8191)), format!("/m{}", "é".repeat(1365))] {
        assert!(open(&longest).is_ready(), "{longest}");
        let web = open(&format!("{longest}a"));
        assert_failed(&web, FailureKind::Protocol, &["another origin"]);
        assert!(!web.failure().unwrap().message.contains("aa"), "{:?}", web.failure());
    }
    // A part of it could be a secret.
    let web = open(&format!("https://ada:{}@example.com/", "hush".repeat(3000)));
    assert_failed(&web, FailureKind::Protocol, &["`…`"]);
}

#[test]
fn http_with_sse_fails_with_an_endpoint_of_another_origin() {
    for endpoint in [
        "https://elsewhere.example/messages",
        "http://example.com/messages",
        "https://example.com:444/messages",
        "//elsewhere.example/messages",
        "https://example.com@elsewhere.example/",
    ] {
        let text = format!("event: endpoint\ndata: {endpoint}\n\n");
        for options in [legacy(), reconnecting(legacy())] {
            let (mut web, _, _) = open_over_sse_with(options, 404, &text);
            web.wait(seconds(3600));
            // The message does not show the user name.
            assert_failed(&web, FailureKind::Protocol, &[&endpoint.replace("example.com@", "…@")]);
            assert!(web.log.iter().all(|exchange| exchange.url() == URL), "{endpoint}");
        }
    }
}

/// higress #3226; there is no HTTP with SSE
#[test]
fn without_http_with_sse_the_older_versions_are_tried() {
    for reply in [
        Reply::status(405),
        Reply::status(404),
        Reply::json(200, &json!({"status": "ok"})),
        Reply::status(200).body("text/html", "<html></html>"),
        Reply::events(&[]),
        Reply::status(200).body("text/event-stream", "event: message\ndata: {}\n\n"),
    ] {
        let told = format!("{reply:?}");
        let mut site = site().on("GET", move |_| reply.clone()).rule(|exchange| {
            let version = exchange.is("initialize").then(|| exchange.json()["params"]["protocolVersion"].clone());
            version.filter(|version| version != "2025-03-26").map(|_| Reply::text(400, "unsupported"))
        });
        let web = ready(&mut site);
        assert_eq!(web.session.server().unwrap().version, ProtocolVersion::V2025_03_26, "{told}");
        assert_eq!(web.count("initialize"), 3, "{told}");
        assert_quirk(&web, QuirkKind::VersionRefused, "initialize");
    }
}

/// The first event must be the endpoint (specification 2024-11-05, "HTTP with SSE"). A server with another stream there
/// may keep it open.
#[test]
fn http_with_sse_is_recognized_by_its_first_event() {
    let mut site = site();
    let mut web = Web::open(legacy());
    let initialize = web.take_one();
    web.reply(&initialize, Reply::text(400, "unsupported version"));
    let stream = web.take_named("GET");
    web.reply(&stream, Reply::stream("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"));
    let again = web.take_named("initialize");
    assert!(web.was_dropped(&stream));
    web.end_with(&again, site.reply(&again));
    web.serve(&mut site);
    assert!(web.is_ready());
}

/// One attempt per handshake.
#[test]
fn http_with_sse_is_tried_once() {
    let mut site = site().on("GET", |_| Reply::status(405)).on("initialize", |_| Reply::status(404));
    let web = Web::connect(legacy(), &mut site);
    assert_failed(&web, FailureKind::HandshakeRejected, &["404"]);
    assert_eq!((web.count("initialize"), web.count("GET")), (4, 1));
}

/// The SDKs answer the POST to the URL of a stream so.
#[test]
fn http_with_sse_follows_a_405_whatever_its_body() {
    for (code, message) in [(-32000, "Method not allowed."), (-32602, "Unsupported protocol version"), (-32022, "no")] {
        for options in [legacy(), options()] {
            let mut web = Web::open(options);
            let stream = loop {
                let exchange = web.take_one();
                if exchange.verb() == "GET" {
                    break exchange;
                }
                let body = if exchange.is("initialize") { exchange.error(code, message) } else { json!({}) };
                web.reply(&exchange, Reply::json(405, &body));
            };
            assert_eq!(web.count("initialize"), 1, "{code}");
            web.reply(&stream, Reply::stream(ENDPOINT));
            serve_over_sse(&mut web, &stream, &mut site());
            assert!(web.is_ready(), "{code}: {:?}", web.failure());
        }
    }
}

/// An error may be about the version, so that the older ones are offered first.
#[test]
fn http_with_sse_follows_a_400_or_404_with_an_error_once_no_version_is_left() {
    for (status, code, message, offers) in [
        (400, -32602, "Unsupported protocol version", 4),
        (404, -32000, "Unsupported protocol version", 4),
        (400, -32000, "no", 1),
        (404, -32603, "no such path", 1),
    ] {
        let mut web = Web::open(legacy());
        let stream = loop {
            let exchange = web.take_one();
            if exchange.verb() == "GET" {
                break exchange;
            }
            web.reply(&exchange, Reply::json(status, &exchange.error(code, message)));
        };
        assert_eq!(web.count("initialize"), offers, "{status} {code}");
        web.reply(&stream, Reply::stream(ENDPOINT));
        serve_over_sse(&mut web, &stream, &mut site());
        assert!(web.is_ready(), "{status} {code}: {:?}", web.failure());
    }
}

#[test]
fn without_http_with_sse_the_refusal_of_initialize_is_the_failure() {
    for (status, code, message) in
        [(400, -32602, "Unsupported protocol version"), (405, -32000, "Method not allowed."), (400, -32000, "no")]
    {
        let mut site = site()
            .on("initialize", move |it| Reply::json(status, &it.error(code, message)))
            .on("GET", |_| Reply::text(404, "another text"));
        let web = Web::connect(legacy(), &mut site);
        assert_failed(&web, FailureKind::HandshakeRejected, &[message, &code.to_string()]);
        assert_eq!(web.count("GET"), 1, "{status} {code}");
    }
}

#[test]
fn http_with_sse_is_not_tried_after_an_error_of_the_modern_era_or_another_status() {
    for (status, code) in [(400, -32020), (400, -32021), (404, -32022)] {
        let mut site = site().on("initialize", move |it| Reply::json(status, &it.error(code, "no")));
        let web = Web::connect(legacy(), &mut site);
        assert_eq!((web.is_ready(), web.count("GET")), (false, 0), "{status} {code}");
    }
    for status in [401, 403, 415, 422, 500, 501, 502] {
        let mut site = site().on("initialize", move |_| Reply::text(status, "no"));
        let web = Web::connect(legacy(), &mut site);
        assert_eq!((web.is_ready(), web.count("GET")), (false, 0), "{status}");
    }
}

#[test]
fn a_400_with_an_error_ends_the_request_of_that_post_whatever_its_id() {
    let ids = [
        json!(null),
        json!("server-error"),
        json!(0),
        // The id of a request that has ended, of one in another exchange, and of none.
        json!(1),
        json!("other"),
        json!(999),
        json!({"odd": true}),
    ];
    let cases = ids.into_iter().map(Some).chain([None]).flat_map(|id| [(id.clone(), true), (id, false)]);
    for (id, has_version) in cases {
        let mut web = ready(&mut site());
        let ((one, exchange), (other, elsewhere)) = (web.call("a"), web.call("a"));
        let mut body = json!({"error": {"code": -32602, "message": "no such argument"}});
        if has_version {
            body["jsonrpc"] = json!("2.0");
        }
        if let Some(id) = id.clone() {
            body["id"] = if id == "other" { elsewhere.json()["id"].clone() } else { id };
        }
        web.reply(&exchange, Reply::json(400, &body));
        let outcome = web.ended(one).unwrap_or_else(|| panic!("{id:?} left it open"));
        assert!(matches!(outcome, Outcome::Error(error) if error.code() == Some(-32602)), "{id:?}: {outcome:?}");
        assert_eq!(web.outcome(other), "open", "{id:?}");
        web.reply(&elsewhere, Reply::json(200, &elsewhere.result(json!({"content": []}))));
        assert!(was_answered(&web, other) && web.is_ready());
    }
}

#[test]
fn a_400_with_an_error_ends_lists_and_the_handshake_too() {
    let capabilities = json!({"tools": {}, "prompts": {}});
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no such list"}});
    let mut site = Site::legacy(capabilities)
        .result("tools/list", tools(&["a"]))
        .on("prompts/list", move |_| Reply::json(400, &error));
    let web = ready(&mut site);
    assert_eq!((web.status(Family::Prompts), web.keys(Family::Tools)), (FamilyStatus::Absent, vec!["a"]));
}

/// The sync guide: "Client must accept both application/json and text/event-stream".
#[test]
fn a_406_or_415_never_happens_since_each_post_accepts_both() {
    let strict = |exchange: &Exchange| {
        let accept = exchange.header("accept").unwrap_or_default();
        let both = ["application/json", "text/event-stream"].iter().all(|kind| accept.contains(kind));
        match exchange.verb() {
            "POST" if !both => Some(Reply::status(406)),
            "POST" if exchange.header("content-type") != Some("application/json") => Some(Reply::status(415)),
            "GET" if !accept.contains("text/event-stream") => Some(Reply::status(406)),
            _ => None,
        }
    };
    for (options, site) in [(legacy(), site()), (options(), modern_site())] {
        let mut site = site.rule(strict);
        let mut web = Web::connect(options, &mut site);
        assert!(web.is_ready());
        let (request, call) = web.call("a");
        web.end_with(&call, site.reply(&call));
        assert!(was_answered(&web, request));
        // A response, a notification, a cancellation.
        web.session.notify(web.now, "notifications/example", None).unwrap();
        web.collect();
        let notification = web.take_one();
        assert_eq!(strict(&notification).map(|reply| reply.status), None);
    }
}

// Rows of the section "Capabilities and discovery" that only HTTP can show.

/// toolhive #5232
#[test]
fn a_404_or_501_without_a_message_to_a_list_fails() {
    for status in [404, 501] {
        let refusing = |options| {
            let mut site = site().on("tools/list", move |_| Reply::text(status, "nothing of the sort"));
            site.sessions = false;
            Web::connect(options, &mut site)
        };
        let words = ["tools/list".into(), status.to_string(), "nothing of the sort".into()];
        assert_failed(&refusing(legacy()), FailureKind::ListFailed, &words.each_ref().map(String::as_str));

        let mut degrading = legacy();
        degrading.tolerance.list_errors = ListErrors::Degrade;
        let web = refusing(degrading);
        assert_eq!((web.is_ready(), web.status(Family::Tools)), (true, FamilyStatus::Failed));
        assert!(web.session.list_error(Family::Tools).unwrap().contains(&status.to_string()));
    }
}

fn annotated(annotations: &[(&str, Value)]) -> Value {
    let tool = |(name, schema): &(&str, Value)| json!({"name": name, "inputSchema": schema});
    json!({"tools": annotations.iter().map(tool).collect::<Vec<_>>()})
}

fn with_header(name: &str) -> Value {
    json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": name}}})
}

#[test]
fn a_tool_whose_header_annotation_breaks_the_rules_is_left_out() {
    let broken = [
        with_header(""),
        with_header("two words"),
        with_header("colon:"),
        with_header("h\u{e4}"),
        with_header("line\r\nbreak"),
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": 7}}}),
        json!({"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}}),
        json!({"type": "object", "properties": {"o": {"type": "object", "x-mcp-header": "O"}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}}),
        json!({"type": "object", "oneOf": [{"properties": {"r": {"type": "string", "x-mcp-header": "R"}}}]}),
        json!({"type": "object", "$defs": {"d": {"properties": {"r": {"type": "string", "x-mcp-header": "R"}}}}}),
        json!({"type": "object", "properties": {
            "one": {"type": "string", "x-mcp-header": "Region"},
            "other": {"type": "string", "x-mcp-header": "REGION"}
        }}),
    ];
    for schema in broken {
        let listed = annotated(&[
            ("good", with_header("Region")),
            ("bad", schema.clone()),
            ("plain", json!({"type": "object"})),
        ]);
        let mut modern = modern_site().result("tools/list", listed.clone());
        let web = Web::connect(options(), &mut modern);
        assert_eq!((era(&web), web.keys(Family::Tools)), (Some(Era::Modern), vec!["good", "plain"]), "{schema}");
        assert_quirk(&web, QuirkKind::InvalidItem, "tools/list");
        let quirk = &web.session.quirks()[0];
        assert!(quirk.detail.contains("bad"), "{}", quirk.detail);

        // The legacy era has no such rule.
        let web = ready(&mut site().result("tools/list", listed));
        assert_eq!((web.keys(Family::Tools), web.quirks()), (vec!["good", "bad", "plain"], vec![]));
    }
}

// Rows of the section "Handshake" that only HTTP can show.

/// n8n-mcp #994
#[test]
fn a_4xx_to_the_probe_is_followed_by_initialize() {
    for status in [400, 404, 405, 415, 422] {
        let bodies = [
            Reply::status(status),
            Reply::text(status, "no such thing"),
            Reply::status(status).body("text/html", "<html>404</html>"),
            Reply::json(status, &json!({"error": "Bad Request"})),
            Reply::json(
                status,
                &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Bad Request: Server not initialized"}}),
            ),
            Reply::json(
                status,
                &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}),
            ),
            Reply::json(
                status,
                &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Bad Request: No valid session ID provided"}}),
            ),
        ];
        for reply in bodies {
            let told = format!("{reply:?}");
            let mut site = site().on("server/discover", move |_| reply.clone());
            let web = Web::connect(options(), &mut site);
            assert_eq!(
                (era(&web), web.count("server/discover"), web.count("initialize")),
                (Some(Era::Legacy), 1, 1),
                "{told}"
            );
            assert!(web.quirks().is_empty(), "{told}: {:?}", web.session.quirks());
            assert_eq!(web.session.known_era().map(|verdict| verdict.era()), Some(Era::Legacy));
        }
    }
}

/// A recognized error of the modern era shows that the server is modern, whatever the status.
#[test]
fn a_400_to_the_probe_with_a_modern_error_causes_no_fallback() {
    for code in [-32020, -32021] {
        let mut site =
            site().on("server/discover", move |it| Reply::json(400, &it.error(code, "you did something wrong")));
        let web = Web::connect(options(), &mut site);
        assert_failed(&web, FailureKind::HandshakeRejected, &["you did something wrong"]);
        assert_eq!(web.names(), ["server/discover"], "{code}");
    }
}

fn unsupported(exchange: &Exchange, versions: &[&str]) -> Value {
    let data = json!({"supported": versions, "requested": MODERN});
    exchange.answer("error", json!({"code": -32022, "message": "Unsupported protocol version", "data": data}))
}

#[test]
fn a_400_to_the_probe_with_versions_selects_among_them() {
    for status in [200, 400] {
        let mut once =
            modern_site().first("server/discover", 1, move |it| Reply::json(status, &unsupported(it, &[MODERN])));
        let web = Web::connect(options(), &mut once);
        assert_eq!((era(&web), web.count("server/discover")), (Some(Era::Modern), 2));

        let mut always =
            modern_site().on("server/discover", move |it| Reply::json(status, &unsupported(it, &[MODERN])));
        let web = Web::connect(options(), &mut always);
        assert_failed(&web, FailureKind::UnsupportedVersion, &[MODERN]);
        assert_eq!(web.count("server/discover"), 2);

        let mut old = site()
            .on("server/discover", move |it| Reply::json(status, &unsupported(it, &["2025-03-26", "2025-06-18"])));
        let web = Web::connect(options(), &mut old);
        assert_eq!(
            (era(&web), web.session.server().unwrap().version),
            (Some(Era::Legacy), ProtocolVersion::V2025_06_18)
        );

        let mut none = site().on("server/discover", move |it| Reply::json(status, &unsupported(it, &["2031-01-01"])));
        let web = Web::connect(options(), &mut none);
        assert_failed(&web, FailureKind::UnsupportedVersion, &["2031-01-01"]);
        assert_eq!(web.names(), ["server/discover"]);
    }
}

/// go-sdk over HTTP: kubernetes-mcp-server
#[test]
fn a_result_of_the_probe_that_lists_legacy_versions_only_is_followed_by_initialize() {
    let versions = json!({"supportedVersions": ["2024-11-05", "2025-06-18", "2025-03-26"], "capabilities": {}});
    let mut site = site().on("server/discover", move |it| Reply::json(200, &it.result(versions.clone())));
    let web = Web::connect(options(), &mut site);
    assert_eq!((era(&web), web.session.server().unwrap().version), (Some(Era::Legacy), ProtocolVersion::V2025_06_18));
    assert!(web.quirks().is_empty());
}

/// mongodb-mcp-server
#[test]
fn codes_of_the_servers_own_are_not_modern_errors() {
    for code in [-32000, -32001, -32003, -32004, -32019] {
        let mut site =
            site().on("server/discover", move |it| Reply::json(400, &it.error(code, "session id is required")));
        let web = Web::connect(options(), &mut site);
        assert_eq!((era(&web), web.quirks()), (Some(Era::Legacy), vec![]), "{code}");
    }
}

/// OpenMetadata #32213
#[test]
fn probe_5xx_is_followed_by_initialize_and_not_remembered() {
    for reply in [
        Reply::status(500),
        Reply::text(500, "Internal Server Error"),
        Reply::json(500, &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}})),
        Reply::status(501),
        Reply::status(502),
    ] {
        let told = format!("{reply:?}");
        let mut site = site().on("server/discover", move |_| reply.clone());
        let mut web = Web::connect(reconnecting(options()), &mut site);
        assert_eq!(
            (era(&web), web.count("server/discover"), web.count("initialize")),
            (Some(Era::Legacy), 1, 1),
            "{told}"
        );
        assert_quirk(&web, QuirkKind::Probe5xx, "server/discover");
        assert_eq!(web.session.known_era(), None, "{told}");
        // The next connection probes again.
        let (_, call) = web.call("a");
        web.make_unreachable(&call);
        web.wait_and_serve(seconds(5), &mut site);
        assert_eq!((web.is_ready(), web.count("server/discover")), (true, 2), "{told}");
    }
}

#[test]
fn probe_5xx_is_followed_by_initialize_once() {
    let mut site = site().rule(|_| Some(Reply::text(500, "it broke")));
    let web = Web::connect(options(), &mut site);
    assert_eq!(web.names(), ["server/discover", "initialize"]);
    assert_failed(&web, FailureKind::HandshakeRejected, &["500", "it broke"]);
}

const CHALLENGE: &str =
    "Bearer realm=\"acme\", resource_metadata=\"https://example.com/.well-known/x\", scope=\"read write\"";

fn unauthorised(status: u16) -> Reply {
    Reply::text(status, "who are you?").with("www-authenticate", CHALLENGE)
}

fn is_refused_for_want_of_a_token(event: &Event, status: u16) -> bool {
    let Event::Unauthorized { forbidden, why, challenges, .. } = event else { return false };
    assert_eq!((*forbidden, &**why), (status == 403, "who are you?"));
    assert_eq!((challenges.len(), &*challenges[0].scheme), (1, "Bearer"));
    assert_eq!(challenges[0].param("resource_metadata"), Some("https://example.com/.well-known/x"));
    assert_eq!((challenges[0].param("Scope"), challenges[0].param("error")), (Some("read write"), None));
    true
}

#[test]
fn a_401_or_403_to_the_probe_does_not_decide_the_era() {
    for (status, kind) in [(401, FailureKind::Unauthorized), (403, FailureKind::Forbidden)] {
        for modern in [true, false] {
            let mut site = if modern { modern_site() } else { site() };
            let mut web = Web::open(reconnecting(options()));
            let probe = web.take_named("server/discover");
            web.reply(&probe, unauthorised(status));
            assert_eq!(web.events.iter().filter(|event| is_refused_for_want_of_a_token(event, status)).count(), 1);
            assert_eq!((web.failure_kind(), web.session.known_era(), web.take().len()), (Some(kind), None, 0));
            web.wait(seconds(5));
            assert!(web.take().is_empty(), "no request is sent without a token");
            web.session.authorized(web.now).unwrap();
            web.collect();
            let probe = web.take_named("server/discover");
            web.end_with(&probe, site.reply(&probe));
            web.serve(&mut site);
            assert_eq!(era(&web), Some(if modern { Era::Modern } else { Era::Legacy }), "{status}");
        }
    }
}

/// Without reconnects it is final, with the server's message.
#[test]
fn a_401_or_403_to_the_probe_fails_without_reconnects() {
    for (status, kind) in [(401, FailureKind::Unauthorized), (403, FailureKind::Forbidden)] {
        let mut site = modern_site().on("server/discover", move |_| unauthorised(status));
        let web = Web::connect(options(), &mut site);
        assert_failed(&web, kind, &[&status.to_string(), "who are you?"]);
        assert_eq!(web.names(), ["server/discover"]);
    }
}

/// snow-app #55; a server that holds what it does not know
#[test]
fn probe_silent_over_http_is_followed_by_initialize_while_the_probe_goes_on() {
    let mut web = Web::open(options());
    let probe = web.take_named("server/discover");
    web.wait(millis(4_999));
    assert_eq!((web.failure(), web.log.len()), (None, 1));
    web.wait(millis(1));
    let initialize = web.take_named("initialize");
    assert!(web.is_open(&probe), "it may be answered late");
    let mut site = site();
    web.end_with(&initialize, site.reply(&initialize));
    assert!(web.was_dropped(&probe));
    web.serve(&mut site);
    assert_eq!((web.is_ready(), era(&web)), (true, Some(Era::Legacy)));
    assert_quirk(&web, QuirkKind::ProbeSilent, "server/discover");
    assert_eq!(web.count("server/discover"), 1);
}

#[test]
fn probe_silent_over_http_has_its_whole_time_where_its_exchange_broke_and_it_is_sent_again() {
    let mut web = Web::open(options());
    let probe = web.take_named("server/discover");
    web.wait(millis(4_900));
    web.fail(&probe, Broken::Midway);
    let again = web.take_named("server/discover");
    web.wait(millis(4_999));
    assert_eq!((web.failure(), web.count("initialize"), web.is_open(&again)), (None, 0, true));
    web.wait(millis(1));
    web.take_named("initialize");
}

#[test]
fn probe_silent_over_http_fails_where_initialize_is_silent_too() {
    let mut web = Web::open(options());
    let probe = web.take_named("server/discover");
    web.wait(millis(59_999));
    assert_eq!((web.failure(), web.names()), (None, vec!["server/discover".into(), "initialize".into()]));
    web.wait(millis(1));
    assert_failed(&web, FailureKind::HandshakeTimeout, &["initialize"]);
    assert!(web.was_dropped(&probe));
}

/// "The `initialize` request MUST NOT be cancelled by clients" (specification 2025-11-25, "Cancellation").
#[test]
fn silence_on_initialize_fails_without_a_cancellation() {
    let mut web = Web::open(legacy());
    let initialize = web.take_named("initialize");
    web.head(&initialize, 200, &[("content-type", "text/event-stream")]);
    web.wait(seconds(60));
    assert_failed(&web, FailureKind::HandshakeTimeout, &["initialize"]);
    assert!(web.was_dropped(&initialize));
    assert_eq!(web.names(), ["initialize"]);
}

/// chrome-devtools-mcp #2476, playwright #41490
#[test]
fn a_server_request_during_initialize_is_answered_at_once() {
    let mut web = Web::open(legacy());
    let initialize = web.take_named("initialize");
    web.head(&initialize, 200, &[("content-type", "text/event-stream"), (SESSION, "session-1")]);
    web.push(&initialize, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    web.push(&initialize, json!({"jsonrpc": "2.0", "id": 2, "method": "roots/list"}));
    let answers: Vec<_> = web.take().iter().map(|answer| (answer.json(), answer.header(SESSION).is_some())).collect();
    assert_eq!(answers[0], (json!({"jsonrpc": "2.0", "id": 1, "result": {}}), true));
    assert_eq!((answers.len(), &answers[1].0["error"]["code"], answers[1].1), (2, &json!(-32601), true));
}

/// rust-sdk #613, #704
#[test]
fn requests_wait_until_initialized_was_answered() {
    let mut options = legacy();
    options.log_level = Some(mcp_proto::LogLevel::Info);
    let mut web = Web::open(options);
    let request = web.request(tool("a"));
    let initialize = web.take_named("initialize");
    web.head(&initialize, 200, &[("content-type", "text/event-stream"), (SESSION, "session-1")]);
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}, "logging": {}},
        "serverInfo": {"name": "s", "version": "1"}
    });
    web.push(&initialize, initialize.result(result));
    let initialized = web.take_named(INITIALIZED);
    // Requests of the server during the handshake are answered at once.
    web.push(&initialize, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    web.take_named("(answer)");
    web.end(&initialize);
    web.wait(seconds(10));
    assert!(web.take().is_empty());
    web.head(&initialized, 202, &[]);
    let mut names = web.take_names();
    names.sort();
    assert_eq!(names, ["GET", "logging/setLevel", "prompts/list", "tools/list"]);
    assert_eq!(web.outcome(request), "open");
}

#[test]
fn requests_wait_for_initialized_until_the_deadline() {
    let mut site = site();
    let mut web = Web::open(legacy());
    let initialize = web.take_one();
    web.end_with(&initialize, site.reply(&initialize));
    web.take_named(INITIALIZED);
    web.wait(millis(59_999));
    assert!(web.take().is_empty() && web.failure().is_none());
    web.wait(millis(1));
    web.serve(&mut site);
    assert!(web.is_ready(), "the server can still be used: {:?}", web.failure());
}

/// The POST that is sent again has its own deadline, until which requests wait.
#[test]
fn requests_wait_for_an_initialized_that_is_sent_again_until_its_deadline() {
    for refusal in [None, Some("40")] {
        let mut site = site();
        let mut web = Web::open(legacy());
        let initialize = web.take_one();
        web.end_with(&initialize, site.reply(&initialize));
        let first = web.take_named(INITIALIZED);
        web.wait(seconds(30));
        match refusal {
            None => web.fail(&first, Broken::Midway),
            Some(wait) => web.reply(&first, Reply::status(503).with("retry-after", wait)),
        }
        web.wait(seconds(refusal.map_or(0, |_| 40)));
        web.take_named(INITIALIZED);
        web.wait(millis(59_999));
        assert!(web.take().is_empty() && !web.is_ready() && web.failure().is_none(), "{refusal:?}");
        web.wait(millis(1));
        web.serve(&mut site);
        assert!(web.is_ready(), "{refusal:?}: {:?}", web.failure());
        assert_eq!(web.session.family(Family::Tools).status, FamilyStatus::Listed, "{refusal:?}");
    }
}

#[test]
fn lists_have_their_full_time_after_an_initialized_that_is_accepted_late() {
    let mut site = site();
    let mut web = Web::open(legacy());
    let call = web.request(tool("a"));
    let initialize = web.take_one();
    web.end_with(&initialize, site.reply(&initialize));
    let initialized = web.take_named(INITIALIZED);
    // Nothing is due before, so that nobody reports the time.
    web.now = web.now + millis(59_900);
    web.reply(&initialized, Reply::status(202));
    web.wait(seconds(50));
    assert!(web.failure().is_none() && !web.is_ready());
    assert_ne!(web.outcome(call), "open", "the time of a call is its own");
    web.serve(&mut site);
    assert!(web.is_ready(), "{:?}", web.failure());
}

#[test]
fn commands_end_though_initialized_is_refused_for_ever() {
    let mut options = legacy();
    options.tolerance.list_errors = ListErrors::Degrade;
    let mut site = site();
    let mut web = Web::open(options);
    let initialize = web.take_one();
    web.end_with(&initialize, site.reply(&initialize));
    let mut is_commanded = false;
    for _ in 0..600 {
        for post in web.take() {
            web.reply(&post, Reply::status(503).with("retry-after", "1"));
        }
        if web.is_ready() && !is_commanded {
            web.events.clear();
            let now = web.now;
            web.session.refresh(now, Family::Tools).unwrap();
            is_commanded = true;
        }
        web.wait(seconds(1));
    }
    let is_end = |event: &Event| matches!(event, Event::Refreshed { family: Family::Tools, .. });
    assert!(is_commanded && web.events.iter().any(is_end), "{:?}", web.events);
}

#[test]
fn a_keepalive_request_that_was_held_back_has_the_timeout_of_keepalive_requests() {
    let mut keepalive = mcp_proto::Keepalive::default();
    (keepalive.interval, keepalive.timeout) = (seconds(10), seconds(120));
    let mut options = legacy();
    options.keepalive = Some(keepalive);
    let (mut web, _) = Web::accepting(options);
    // The request is due after 10 s, and is held until the response to `initialized` is late.
    web.wait(seconds(10));
    assert!(web.is_ready() && web.take().is_empty());
    web.wait(seconds(50));
    let ping = web.last("ping");
    web.wait(seconds(65));
    web.end_with(&ping, Reply::json(200, &ping.result(json!({}))));
    web.wait(seconds(8));
    assert!(web.session.quirks().is_empty(), "{:?}", web.session.quirks());
    assert!(web.is_ready(), "{:?}", web.failure());
}

#[test]
fn a_call_that_was_held_back_keeps_its_own_timeout() {
    let (mut web, _) = Web::accepting(legacy());
    let call = web.request(Request::new("acme/slow").timeout(seconds(300)));
    web.wait(seconds(299));
    assert_eq!((web.count("acme/slow"), web.outcome(call)), (1, "open".into()));
    web.wait(seconds(1));
    assert_eq!(web.outcome(call), "TimedOut");
}

/// Refused, it was answered: the next request shows what the session is worth.
#[test]
fn requests_are_sent_after_initialized_was_refused() {
    for status in [304, 400, 405, 410, 500] {
        let mut site = site();
        let mut web = Web::open(legacy());
        let initialize = web.take_one();
        web.end_with(&initialize, site.reply(&initialize));
        let initialized = web.take_named(INITIALIZED);
        web.reply(&initialized, Reply::status(status));
        web.serve(&mut site);
        assert!(web.is_ready(), "{status}");
    }
}

/// A busy server gets the notification again, and later messages wait for it.
#[test]
fn requests_wait_until_a_busy_server_accepts_initialized() {
    for status in [429, 503] {
        let mut site = site();
        let mut web = Web::open(legacy());
        let initialize = web.take_one();
        web.end_with(&initialize, site.reply(&initialize));
        let initialized = web.take_named(INITIALIZED);
        web.reply(&initialized, Reply::status(status).with("retry-after", "2"));
        web.wait(millis(1999));
        assert!(web.take().is_empty(), "{status}");
        web.wait(millis(1));
        let again = web.take_named(INITIALIZED);
        web.reply(&again, Reply::status(202));
        assert_eq!(web.take_names(), ["GET", "tools/list"]);
    }
}

/// xiaohongshu-mcp #697, higress #3226
#[test]
fn a_version_refused_with_a_400_is_followed_by_the_next_older_one() {
    let refusals: [fn(&Exchange) -> Reply; 4] = [
        |it| Reply::json(400, &it.error(-32602, "Unsupported protocol version: 2025-11-25")),
        |_| {
            Reply::json(
                400,
                &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Bad Request: Unsupported protocol version"}}),
            )
        },
        |_| Reply::text(400, "Unsupported protocol version"),
        |_| Reply::status(400),
    ];
    for refusal in refusals {
        let mut site = site().rule(move |it| {
            let newer = it.is("initialize") && it.json()["params"]["protocolVersion"] != "2025-03-26";
            newer.then(|| refusal(it))
        });
        // A GET stream requires a session id, and there is none.
        site = site.rule(|it| (it.verb() == "GET" && it.header(SESSION).is_none()).then(|| Reply::status(405)));
        let web = ready(&mut site);
        let offered: Vec<_> = web
            .log
            .iter()
            .filter(|it| it.is("initialize"))
            .map(|it| it.json()["params"]["protocolVersion"].clone())
            .collect();
        assert_eq!(offered, ["2025-11-25", "2025-06-18", "2025-03-26"]);
        assert_quirk(&web, QuirkKind::VersionRefused, "initialize");
        assert_eq!(web.last("tools/list").header(VERSION), Some("2025-03-26"));
    }
}

/// HTML or an empty body is not JSON-RPC, and says nothing about the modern era.
#[test]
fn an_invalid_response_to_the_probe_is_followed_by_initialize() {
    for reply in [
        Reply::status(200).body("text/html", "<!doctype html><html></html>"),
        Reply::json(200, &json!({"status": "ok"})),
        Reply::json(200, &json!("ok")),
        Reply::status(202),
        Reply::text(202, "Accepted"),
        Reply::status(204),
    ] {
        let told = format!("{reply:?}");
        let mut site = site().on("server/discover", move |_| reply.clone());
        let web = Web::connect(options(), &mut site);
        assert_eq!(era(&web), Some(Era::Legacy), "{told}: {:?}", web.failure());
    }
}

#[test]
fn an_initialize_without_a_response_fails() {
    for (reply, why) in [
        (Some(Reply::events(&[])), "the stream ended before the answer"),
        (None, "the connection closed before an answer"),
    ] {
        let mut web = Web::open(legacy());
        let initialize = web.take_one();
        match reply {
            Some(reply) => web.reply(&initialize, reply),
            None => web.end(&initialize),
        }
        assert_failed(&web, FailureKind::Closed, &[why]);
    }
}

#[test]
fn a_probe_whose_exchange_breaks_is_sent_three_times() {
    let mut web = Web::open(options());
    for _ in 0..3 {
        let probe = web.take_named("server/discover");
        web.fail(&probe, Broken::Midway);
    }
    assert_failed(&web, FailureKind::Closed, &["connection reset"]);
}

/// The same response to `initialize` fails the handshake.
#[test]
fn an_invalid_response_to_initialize_fails() {
    for reply in [
        Reply::status(200).body("text/html", "<!doctype html><html></html>"),
        Reply::json(200, &json!({"status": "ok"})),
    ] {
        let told = format!("{reply:?}");
        let mut site = site().on("initialize", move |_| reply.clone());
        let web = Web::connect(legacy(), &mut site);
        assert_failed(&web, FailureKind::Protocol, &["initialize"]);
        assert_eq!(web.names(), ["initialize"], "{told}");
    }
}

#[test]
fn unreachable_server() {
    let mut web = Web::open(options());
    let probe = web.take_one();
    web.fail(&probe, Broken::Unreachable);
    assert_failed(&web, FailureKind::Connect, &["connection reset"]);
    assert_eq!(web.names(), ["server/discover"]);
}

/// A server with nothing but the transport's basic features.
#[test]
fn a_server_without_sessions_or_streams_works() {
    let mut site = site();
    (site.sessions, site.streams) = (false, false);
    let mut web = Web::connect(options(), &mut site);
    let request = web.request(tool("a"));
    web.serve(&mut site);
    assert!(was_answered(&web, request) && web.quirks().is_empty());
    assert!(web.log.iter().all(|exchange| exchange.header(SESSION).is_none()));
}

/// kody #2159
#[test]
fn modern_silent_over_http_lists_that_never_come_are_followed_by_initialize_once() {
    let mut options = options();
    options.timeouts.connect = Some(seconds(10));
    let mut web = Web::open(options);
    let mut silent = modern_site();
    let discover = web.take_named("server/discover");
    let reply = silent.reply(&discover);
    web.reply(&discover, reply);
    let list = web.take().into_iter().find(|exchange| exchange.is("tools/list")).unwrap();
    web.wait(seconds(9));
    assert!(web.is_open(&list) && web.quirks().is_empty(), "{:?}", web.quirks());
    web.wait(seconds(1));
    assert!(!web.is_open(&list), "what belonged to the connection is dropped");
    assert_eq!(web.quirks(), [QuirkKind::ModernSilent]);
    let mut legacy = site();
    web.serve(&mut legacy);
    assert!(web.is_ready(), "{:?}", web.failure());
    assert_eq!((web.count("server/discover"), web.count("initialize")), (1, 1));
    assert_eq!(era(&web), Some(Era::Legacy));
    assert_eq!(web.call("a").1.header(SESSION), Some("session-1"));
}

/// A server that starts beside the client, as in any compose file.
#[test]
fn nobody_listens_yet_over_http_the_server_is_tried_until_it_listens_or_the_time_to_connect_is_over() {
    for listens_after in [Some(seconds(20)), None] {
        let mut web = Web::open(reconnecting(legacy()));
        let mut down = 0;
        let end = web.now + seconds(60);
        while listens_after.is_none_or(|after| web.now < mcp_proto::Time::ZERO + after) && web.now < end {
            let initialize = web.take_named("initialize");
            web.fail(&initialize, Broken::Unreachable);
            down += 1;
            let next = web.events.iter().rev().find_map(|event| match event {
                Event::Down { failure, next } => Some((failure.kind, *next)),
                _ => None,
            });
            let (kind, next) = next.unwrap();
            assert_eq!(kind, FailureKind::Connect);
            match next {
                Recovery::Reopen { at } => web.wait(at.unwrap() - web.now),
                other => {
                    assert!(listens_after.is_none() && matches!(other, Recovery::Parked { .. }), "{other:?}");
                    break;
                }
            }
        }
        assert!((5..=12).contains(&down), "{down}");
        match listens_after {
            Some(_) => {
                web.serve(&mut site());
                assert!(web.is_ready(), "{:?}", web.failure());
            }
            None => assert!(web.now.since(mcp_proto::Time::ZERO) >= seconds(59), "{:?}", web.now),
        }
    }
    // Without reconnects the failure is reported at once.
    let mut web = Web::open(legacy());
    let initialize = web.take_named("initialize");
    web.fail(&initialize, Broken::Unreachable);
    assert_eq!(web.failure().unwrap().kind, FailureKind::Connect);
}

/// A visible id names a session; any other one names none, and the client sends none.
#[test]
fn session_id_shape_an_id_that_no_header_may_have_is_none() {
    let named = |id: &'static str| {
        let server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
        let mut site = Site::of(server, false).map_replies(move |exchange, reply| {
            if exchange.is("initialize") { reply.with(SESSION, id) } else { reply }
        });
        let web = Web::connect(legacy(), &mut site);
        assert!(web.is_ready());
        (web.last("tools/list").header(SESSION).map(str::to_owned), web.quirks())
    };
    assert_eq!(named("s-1"), (Some("s-1".into()), vec![]));
    for id in ["", "a b", "a\tb"] {
        assert_eq!(named(id), (None, vec![QuirkKind::SessionIdShape]), "{id:?}");
    }
}

/// A server that ends its stream again and again, and asks for no wait.
#[test]
fn a_get_stream_that_asks_for_no_wait_is_requested_again_after_one() {
    let mut web = ready(&mut site());
    for _ in 0..3 {
        let stream = web.last("GET");
        web.body(&stream, "retry: 0\n\n");
        web.end(&stream);
        web.wait(millis(99));
        assert_eq!(web.take_names(), [""; 0]);
        web.wait(seconds(60));
        let again = web.take_named("GET");
        web.reply(&again, Reply::stream(""));
    }
}

/// An error status whose body is an error without a code.
#[test]
fn error_shape_a_refusal_without_a_code_ends_the_request_with_its_status_and_its_text() {
    for code in [json!(null), json!("x"), json!(1.5)] {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        let body = call.answer("error", json!({"code": code, "message": "no such argument"}));
        web.reply(&call, Reply::json(400, &body));
        let Some(Outcome::Error(error)) = web.ended(request) else { panic!("{:?}", web.ended(request)) };
        assert_eq!((error.code(), error.to_string().contains("no such argument")), (None, true), "{error:?}");
        assert_quirk(&web, QuirkKind::ErrorShape, "tools/call");
    }
}

/// mantine #8792, opencode #17282
#[test]
fn repaired_bodies_and_events_count() {
    let fits = |call: &Exchange| {
        let nan = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[],"a":NaN}}}}"#, call.json()["id"]);
        let answer = call.result(json!({"content": []}));
        [nan, format!("\u{1b}[2KINFO: {answer}"), format!("{answer} done"), format!("{answer}{answer}")]
    };
    for number in 0..4 {
        for by_event in [false, true] {
            let mut web = ready(&mut site());
            let (request, call) = web.call("a");
            let text = fits(&call)[number].clone();
            let reply = match by_event {
                true => Reply::stream(&format!("event: message\ndata: {text}\n\n")),
                false => Reply::status(200).body("application/json", text.clone()),
            };
            web.reply(&call, reply);
            assert!(was_answered(&web, request), "{text}: {:?}", web.ended(request));
            assert_quirk(&web, QuirkKind::Repaired, "");
        }
    }
}

#[test]
fn noise_that_names_the_request_ends_it_over_http() {
    for by_event in [false, true] {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[undefined]}}}}"#, call.json()["id"]);
        let reply = match by_event {
            true => Reply::stream(&format!("data: {text}\n\n")),
            false => Reply::status(200).body("application/json", text.clone()),
        };
        web.reply(&call, reply);
        let Some(Outcome::Error(error)) = web.ended(request) else { panic!("{:?}", web.ended(request)) };
        let place = format!("no value where one has to be, at byte {}", text.find("undefined").unwrap());
        assert!(error.code().is_none() && error.to_string().contains(&place), "{error}");
        assert_quirk(&web, QuirkKind::Noise, "");
    }
}

/// An event under another name has to be a whole message as it is: it may be a log.
#[test]
fn repaired_an_event_with_another_name_is_not() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    let answer = call.result(json!({"content": []}));
    web.reply(&call, Reply::stream(&format!("event: log\ndata: sending {answer}\n\n")));
    assert!(web.ended(request).is_none() && web.quirks().is_empty());
}

/// The stream of HTTP with SSE ends regularly after the line of a response.
#[test]
fn sse_unfinished_counts_on_the_stream_of_http_with_sse() {
    let (mut web, stream, _) = open_over_sse();
    let (request, post) = web.call("a");
    web.reply(&post, Reply::text(202, "Accepted"));
    web.body(&stream, format!("data: {}\n", post.result(json!({"content": []}))));
    web.end(&stream);
    assert!(was_answered(&web, request));
    assert_eq!(web.quirks(), [QuirkKind::SseUnfinished]);
}

/// The first event of the stream must be the endpoint, even if no blank line ends it.
#[test]
fn sse_unfinished_a_message_in_place_of_the_endpoint_is_no_endpoint() {
    let (mut web, stream, _) = open_over_sse_with(reconnecting(legacy()), 405, ENDPOINT);
    web.end(&stream);
    web.wait(seconds(1));
    let stream = web.take_named("GET");
    web.reply(&stream, Reply::status(200).body("text/event-stream", r#"data: {"jsonrpc":"2.0","method":"x"}"#));
    web.wait(seconds(10));
    assert_eq!(web.take_names(), ["initialize"], "the server has another transport now");
}

/// A server that answers methods that it does not know with 404 costs a session for each of the last sixteen methods, and not
/// for each request.
#[test]
fn methods_that_are_answered_with_404_renew_the_session_once_each() {
    let mut site = site().rule(|exchange| exchange.name().starts_with("x/").then(|| Reply::status(404)));
    let mut web = ready(&mut site);
    let mut renewed = |web: &mut Web, number: usize| {
        let before = web.count("initialize");
        web.request(Request::new(format!("x/{number}")));
        web.serve(&mut site);
        assert!(web.is_ready());
        web.count("initialize") - before
    };
    assert_eq!((renewed(&mut web, 0), renewed(&mut web, 0)), (1, 0));
    for number in 1..=16 {
        assert_eq!(renewed(&mut web, number), 1, "{number}");
    }
    assert_eq!((renewed(&mut web, 16), renewed(&mut web, 1), renewed(&mut web, 0)), (0, 0, 1));
}

/// codex #12859
#[test]
fn a_firewall_that_refuses_requests_without_a_user_agent_lets_each_request_pass() {
    let guard = |exchange: &Exchange| exchange.header("user-agent").is_none().then(|| Reply::status(403));
    for (mut options, site) in [(legacy(), site()), (modern_only(), modern_site())] {
        let mut site = site.rule(guard);
        options.client = Implementation::new("my-host", "1.2.3");
        let mut web = Web::connect(options, &mut site);
        assert!(web.is_ready(), "{:?}", web.failure());
        let (call, exchange) = web.call("a");
        let reply = site.reply(&exchange);
        web.reply(&exchange, reply);
        assert!(was_answered(&web, call));
        web.close();
        web.serve(&mut site);
        assert!(web.log.iter().all(|it| it.header("user-agent") == Some("my-host/1.2.3")), "{:?}", web.log);
    }
}

#[test]
fn user_agent_any_name_and_version_make_a_header() {
    let long = "a".repeat(300);
    for (name, version, sent) in [
        ("my host (beta)", "1.0 \r\nx: y", "my-host--beta-/1.0---x--y".into()),
        ("höst", "1.0+build", "h-st/1.0+build".into()),
        ("", "", "mcp-client".into()),
        ("a/b", "", "a-b".into()),
        (&*long, &*long, format!("{0}/{0}", "a".repeat(128))),
    ] {
        let mut options = legacy();
        options.client = Implementation::new(name, version);
        let web = Web::connect(options, &mut site());
        assert_eq!(web.last("tools/list").header("user-agent"), Some(&*sent), "{name:?} {version:?}");
    }
}

/// codex #37228
#[test]
fn a_compressed_body_that_nobody_asked_for_ends_the_exchange_with_an_error_that_names_the_coding() {
    let compressed = [0x8b, 0x00, 0xff, b'{', b'<', 0x03];
    for status in [200, 500] {
        for (method, modern) in [("tools/list", false), ("tools/call", false), ("tools/call", true)] {
            let (options, site) = if modern { (modern_only(), modern_site()) } else { (legacy(), site()) };
            let reply = Reply::status(status).body("application/json", compressed).with("content-encoding", "Br");
            let mut site = site.on(method, move |_| reply.clone());
            let mut web = Web::connect(options, &mut site);
            assert!(web.log.iter().all(|it| it.header("accept-encoding") == Some("identity")), "{:?}", web.log);
            let said = if method == "tools/list" {
                assert_failed(&web, FailureKind::ListFailed, &["tools/list"]);
                web.failure().unwrap().message.to_string()
            } else {
                let request = web.request(tool("a"));
                web.serve(&mut site);
                format!("{:?}", web.ended(request))
            };
            assert!(said.contains("the body is encoded as `Br`") && !said.contains('\u{fffd}'), "{said}");
        }
    }
}

#[test]
fn a_coding_that_changes_nothing_or_a_body_that_is_not_read_ends_no_exchange() {
    // Frameworks have `none` against compression, and some servers a character set.
    for plain in [" identity, Identity", "none", "utf-8", ""] {
        let mut site = site().map_replies(|exchange, reply| {
            reply.with("content-encoding", if exchange.is(INITIALIZED) { "gzip" } else { plain })
        });
        let mut web = ready(&mut site);
        let request = web.request(tool("a"));
        web.serve(&mut site);
        assert!(was_answered(&web, request) && web.quirks().is_empty(), "{plain}");
    }
}

#[test]
fn a_compressed_stream_is_none() {
    let mut streams = site().on("GET", |_| Reply::stream("\u{1}\u{2}").with("content-encoding", "gzip"));
    let mut web = ready(&mut streams);
    web.wait_and_serve(seconds(60), &mut streams);
    assert!(web.is_ready());
    assert_eq!((web.count("GET"), web.quirk_methods(QuirkKind::GetRefused).len()), (1, 1));
    let mut sse = site()
        .on("initialize", |_| Reply::status(405))
        .on("GET", |_| Reply::stream("\u{1}\u{2}").with("content-encoding", "gzip"));
    let web = Web::connect(legacy(), &mut sse);
    assert!(!web.is_ready() && web.open.is_empty(), "{:?}", web.open);
}

/// spring-ai #2888
#[test]
fn a_name_and_a_password_in_the_url_become_basic_and_are_shown_nowhere() {
    for (user, header) in [
        ("ada:pass", "Basic YWRhOnBhc3M="),
        ("ada:p%40ss%3aword", "Basic YWRhOnBAc3M6d29yZA=="),
        ("ada:p:ss", "Basic YWRhOnA6c3M="),
        ("ad\u{e4}:p%E4ss", "Basic YWTDpDpw5HNz"),
        ("ada", "Basic YWRhOg=="),
        (":pass", "Basic OnBhc3M="),
        ("a%da:%", "Basic Ydo6JQ=="),
    ] {
        let mut site = site().on("DELETE", |_| Reply::status(500));
        let mut web = Web::at(legacy(), &format!("https://{user}@example.com/mcp"));
        web.reopen();
        web.serve(&mut site);
        let (_, exchange) = web.call("a");
        web.reply(&exchange, Reply::status(307).with("location", "https://eve:else@example.com/moved"));
        web.serve(&mut site);
        assert_eq!(web.last("tools/call").url(), "https://example.com/moved");
        for exchange in &web.log {
            assert_eq!(exchange.header("authorization"), Some(header), "{user}");
            assert!(!exchange.url().contains('@') && exchange.headers()["authorization"].is_sensitive());
        }
        let shown = format!("{:?} {:?} {:?}", web.session, web.events, web.log[0].headers());
        for secret in
            [header, "p%40ss", "p:ss", "pass", "eve:else"].iter().chain(user.split(':').collect::<Vec<_>>().get(1))
        {
            assert!(secret.len() < 2 || !shown.contains(secret), "{secret} in {shown}");
        }
    }
    let mut web = Web::at(legacy(), "https://@example.com/mcp");
    web.reopen();
    assert_eq!((web.log[0].header("authorization"), &*web.log[0].url()), (None, "https://example.com/mcp"));
}

/// What a server could repeat of the name and the password in its URL: both forms of what it gets.
#[test]
fn a_password_that_the_server_repeats_is_not_shown() {
    for (user, header, secret) in [
        ("ada:hush-pass", "Basic YWRhOmh1c2gtcGFzcw==", "hush-pass"),
        ("ada:hush%20pass", "Basic YWRhOmh1c2ggcGFzcw==", "hush pass"),
        // A token in the place of a name, and a password that is any word.
        ("hush-token@", "Basic aHVzaC10b2tlbjo=", "hush-token"),
        ("hush-token:x-oauth-basic", "Basic aHVzaC10b2tlbjp4LW9hdXRoLWJhc2lj", "hush-token"),
        ("ada:hush", "Basic YWRhOmh1c2g=", "ada:hush"),
        ("ada:h%FFsh", "Basic YWRhOmj/c2g=", "YWRhOmj/c2g="),
        // As `encodeURIComponent` and `quote` do not encode it.
        ("ada:hush%20pass!w%2Fx", "Basic YWRhOmh1c2ggcGFzcyF3L3g=", "hush pass!w/x"),
        ("ada:hush-%F0%9F%98%80", "Basic YWRhOmh1c2gt8J+YgA==", "hush-😀"),
    ] {
        let user = user.trim_end_matches('@');
        let encoded = &header["Basic ".len()..].trim_end_matches('=')[6..];
        let escaped = secret.replace('😀', "\\ud83d\\ude00");
        let texts = [
            format!("no {header}!"),
            format!("no {secret}!"),
            format!("no {}!", secret.replace(' ', "%20")),
            format!("no {escaped}!"),
        ];
        for text in &texts {
            let url = format!("https://{user}@example.com/mcp");
            let is_shown = |shown: &str, what: &str| {
                assert!(!shown.contains(secret) && !shown.contains(encoded), "{user}: {text} in {what}: {shown}");
                assert!(!shown.contains("%20pass"), "{user}: {text} in {what}: {shown}");
                assert!(!shown.contains("ude00"), "{user}: {text} in {what}: {shown}");
            };
            let mut site = site();
            let mut web = Web::at(legacy(), &url);
            web.reopen();
            web.serve(&mut site);
            assert_eq!(web.log[0].header("authorization"), Some(header));
            for reply in [
                |exchange: &Exchange, text: &str| Reply::json(200, &exchange.error(-32000, text)),
                |exchange, text| {
                    // One level of escapes, as in the other replies.
                    let text: Value = serde_json::from_str(&format!("\"{text}\"")).unwrap();
                    Reply::json(200, &exchange.answer("error", json!({"code": 1, "message": "no", "data": text})))
                },
                |_, text| Reply::text(400, text),
                |_, text| Reply::text(401, text).with("www-authenticate", &format!("Basic realm=\"{text}\"")),
                |_, text| Reply::text(200, text).with("content-type", "application/json"),
                |exchange, text| Reply::events(&[exchange.error(-32000, text)]).with("x-other", text),
            ] as [fn(&Exchange, &str) -> Reply; 6]
            {
                let (_, exchange) = web.call("a");
                web.reply(&exchange, reply(&exchange, text));
                is_shown(&format!("{:?}", web.events), "events");
                is_shown(&format!("{:?}", web.session.quirks()), "quirks");
            }
            web.session.refresh(web.now, Family::Tools).unwrap();
            web.collect();
            let list = web.take_named("tools/list");
            web.reply(&list, Reply::json(200, &list.error(-32000, text)));
            is_shown(web.session.list_error(Family::Tools).unwrap(), "list");
            // What a tool says is the server's.
            let (request, exchange) = web.call("a");
            let result = json!({"content": [{"type": "text", "text": text}]});
            web.reply(&exchange, Reply::json(200, &exchange.answer("result", result)));
            assert!(was_answered(&web, request));
            // The reason why it is down, and the diagnosis of it.
            let mut web = Web::at(legacy(), &url);
            web.reopen();
            let initialize = web.take_named("initialize");
            web.reply(&initialize, Reply::json(403, &initialize.error(-32000, text)));
            assert!(!web.is_ready());
            is_shown(&format!("{:?} {:?}", web.events, web.failure()), "failure");
        }
    }
}

/// Two nodes behind a load balancer, each with sessions of its own.
fn nodes(kept: &'static str) -> Site {
    let mut nodes = [site(), site()];
    let mut asked = 0;
    site().rule(move |exchange| {
        let named = exchange.header("cookie").and_then(|it| it.strip_prefix("AWSALB=")?.parse::<usize>().ok());
        let node = named.unwrap_or(asked % 2);
        asked += 1;
        // Each names its sessions alike, so that the other must not be asked.
        let session = exchange.header(SESSION).map(|id| id.rsplit_once('-').unwrap().1.parse::<usize>().unwrap());
        if session.is_some_and(|of| of != node) {
            return Some(Reply::status(404));
        }
        let mut inner = exchange.clone();
        if let Some(known) = nodes[node].session.clone().filter(|_| session.is_some()) {
            inner.request.headers_mut().insert(SESSION, known.parse().unwrap());
        }
        let mut reply = nodes[node].reply(&inner);
        if exchange.is("initialize") {
            reply = reply.with(SESSION, &format!("node-{node}"));
        }
        Some(reply.with("set-cookie", &format!("AWSALB={node}{kept}")))
    })
}

/// mcp-remote #168
#[test]
fn cookies_keep_a_session_on_its_node() {
    for kept in ["", "; Expires=Thu, 01 Dec 2044 15:57:15 GMT; Path=/", "; Path=/; Secure; HttpOnly; SameSite=None"] {
        let mut site = nodes(kept);
        let mut web = ready(&mut site);
        for _ in 0..5 {
            let request = web.request(tool("a"));
            web.serve(&mut site);
            assert!(was_answered(&web, request));
        }
        web.close();
        web.serve(&mut site);
        assert_eq!((web.count("initialize"), web.cause()), (1, Some(&Cause::Requested)), "{kept}");
        let sent = web.log[1..].iter().map(|it| it.header("cookie"));
        assert!(sent.clone().all(|cookie| cookie == Some("AWSALB=0")), "{:?}", sent.collect::<Vec<_>>());
        assert!(web.log[1].headers()["cookie"].is_sensitive());
    }
}

#[test]
fn cookies_are_sent_from_the_first_answer_on_and_dropped_with_the_session() {
    let mut refusal = true;
    let mut site = site().rule(move |exchange| {
        let first = exchange.is("server/discover") && std::mem::take(&mut refusal);
        first.then(|| Reply::status(404).with("set-cookie", "node=1"))
    });
    let mut web = Web::connect(options(), &mut site);
    assert!(web.is_ready());
    assert!(web.log[1..].iter().all(|it| it.header("cookie") == Some("node=1")));
    let before = web.log.len();
    site.forget_session();
    let request = web.request(tool("a"));
    web.serve(&mut site);
    assert!(was_answered(&web, request));
    let after: Vec<_> = web.log[before + 1..].iter().map(|it| it.header("cookie")).collect();
    assert!(web.log[before + 1].is("initialize") && after.iter().all(Option::is_none), "{after:?}");
}

/// The DELETE of the session before goes to the node that has it, and tells nothing to the session after it.
#[test]
fn the_cookies_of_a_former_session_go_with_its_delete_and_with_nothing_else() {
    let mut sessions = 0;
    let mut site = site().map_replies(move |exchange, reply| {
        sessions += usize::from(exchange.is("initialize"));
        if exchange.is("initialize") { reply.with("set-cookie", &format!("node={sessions}")) } else { reply }
    });
    let mut web = ready(&mut site);
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(404));
    let initialize = web.take_named("initialize");
    assert_eq!(initialize.header("cookie"), None);
    let refusal = Reply::json(400, &initialize.error(-32600, "Server already initialized"));
    web.reply(&initialize, refusal.with("set-cookie", "node=new"));
    let delete = web.take_named("DELETE");
    assert_eq!((delete.header(SESSION), delete.header("cookie")), (Some("session-1"), Some("node=1")));
    assert!(delete.headers()["cookie"].is_sensitive());
    let before = web.log.len();
    web.reply(&delete, Reply::status(200).with("set-cookie", "node=1"));
    assert_eq!(web.last("initialize").header("cookie"), Some("node=new"));
    web.serve(&mut site);
    assert!(web.is_ready() && was_answered(&web, request));
    web.close();
    web.serve(&mut site);
    let after: Vec<_> = web.log[before + 1..].iter().map(|it| it.header("cookie")).collect();
    assert!(after.len() > 3 && after.iter().all(|it| *it == Some("node=2")), "{after:?}");
    assert_eq!((web.count("DELETE"), web.last("DELETE").header(SESSION)), (2, Some("session-2")));
}

#[test]
fn cookies_follow_the_rules_of_rfc_6265() {
    const DATE: &str = "Tue, 29 Sep 2026 10:00:00 GMT";
    let https = "https://example.com/a/mcp";
    for (url, cookies, sent) in [
        (https, &["a=1", "b=2"][..], Some("a=1; b=2")),
        (https, &[" a = 1 ; Path=/", "a=2; Path=/", "b"], Some("a=2")),
        (https, &["=1", "", ";", "a=", "b=x=y"], Some("a=; b=x=y")),
        // Longer paths first.
        (https, &["a=1; Path=/", "a=2; Path=/a/mcp", "c=3; path=/a"], Some("a=2; c=3; a=1")),
        (https, &["a=1; Path=/b", "b=2; Path=/a/m", "c=3; Path=/a/mcp/x"], None),
        (https, &["a=1; Path=x", "b=2; Path=", "c=3; Path=/b; Path=/"], Some("a=1; b=2; c=3")),
        (https, &["a=1; Domain=example.com", "b=2; Domain=.EXAMPLE.com", "c=3; Domain="], Some("a=1; b=2; c=3")),
        (https, &["a=1; Domain=com", "b=2; Domain=other.example", "c=3; Domain=x.example.com"], Some("a=1")),
        (https, &["a=1; Max-Age=60", "b=2; Max-Age=0", "c=3; Max-Age=-1", "d=4; Max-Age=x"], Some("a=1; d=4")),
        (https, &["a=1", "a=; Max-Age=0", "b=2", "b=; Expires=Thu, 01-Jan-1970 00:00:10 GMT"], None),
        (
            https,
            &["a=1; Expires=Tue, 29 Sep 2026 10:00:01 GMT", "b=2; Expires=Tuesday, 29-Sep-26 09:59:59 GMT"],
            Some("a=1"),
        ),
        (
            https,
            &["a=1; Expires=Sep 29 10:30:00 2026", "b=2; Expires=31 Feb 2030 1:2:3", "c=3; Expires=never"],
            Some("a=1; b=2; c=3"),
        ),
        (https, &["a=1; Max-Age=9; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], Some("a=1")),
        (https, &["a=1; Max-Age=99999999999999999999999"], Some("a=1")),
        (https, &["a=1; Secure", "b=2; HttpOnly; SameSite=Strict; Unknown"], Some("a=1; b=2")),
        ("http://example.com/a/mcp", &["a=1; Secure", "b=2"], Some("b=2")),
        ("http://localhost:8080/a/mcp", &["a=1; Secure"], Some("a=1")),
        ("http://127.0.0.1/a/mcp", &["a=1; Secure"], Some("a=1")),
        ("http://[::1]/a/mcp", &["a=1; Secure"], Some("a=1")),
        ("http://127.0.0.1.example/a/mcp", &["a=1; Secure"], None),
    ] {
        assert_eq!(cookies_after(url, DATE, cookies, 0).as_deref(), sent, "{url} {cookies:?}");
    }
}

/// The cookies that a call has this many seconds after the answer to `initialize` set these.
fn cookies_after(url: &str, date: &str, cookies: &[&str], later: u64) -> Option<String> {
    let mut site = site();
    let mut web = Web::at(legacy(), url);
    web.reopen();
    let exchange = web.take_named("initialize");
    let reply = site.reply(&exchange);
    let mut headers = reply.header_map();
    if !date.is_empty() {
        headers.insert("date", date.parse().unwrap());
    }
    headers.extend(cookies.iter().map(|it| (http::header::SET_COOKIE, it.parse().unwrap())));
    web.session.handle_head(web.now, exchange.id, http::StatusCode::OK, &headers);
    web.session.handle_body(web.now, exchange.id, &reply.body);
    web.session.handle_end(web.now, exchange.id);
    web.collect();
    web.serve(&mut site);
    assert!(web.is_ready());
    web.wait_and_serve(seconds(later), &mut site);
    let (_, exchange) = web.call("a");
    exchange.header("cookie").map(Into::into)
}

#[test]
fn cookies_expire_in_the_embedders_time() {
    let date = "Tue, 29 Sep 2026 10:00:00 GMT";
    let cookies = ["a=1; Max-Age=30", "b=2; Expires=Tue, 29 Sep 2026 10:00:30 GMT", "c=3"];
    assert_eq!(cookies_after(URL, date, &cookies, 29).as_deref(), Some("a=1; b=2; c=3"));
    assert_eq!(cookies_after(URL, date, &cookies, 31).as_deref(), Some("c=3"));
    // Without the server's time only what is past for every server of this protocol is past.
    let cookies = ["a=1; Expires=Mon, 04 Nov 2024 23:59:59 GMT", "b=2; Expires=Tue, 05 Nov 2024 00:00:00 GMT"];
    assert_eq!(cookies_after(URL, "", &cookies, 31).as_deref(), Some("b=2"));
}

#[test]
fn cookies_are_fifty_of_4_kib_each_at_most() {
    let all: Vec<_> = (0..60).map(|number| format!("c{number}={number}")).collect();
    let all: Vec<&str> = all.iter().map(|it| &**it).collect();
    let sent = cookies_after(URL, "", &all, 0).unwrap();
    assert_eq!((sent.split("; ").count(), sent.split("; ").next()), (50, Some("c10=10")));
    let longest = format!("a={}", "x".repeat(4094));
    let longer = format!("b={}", "x".repeat(4095));
    assert_eq!(cookies_after(URL, "", &[&longer, &longest], 0).as_deref(), Some(&*longest));
}

/// A browser keeps cookies and decodes bodies itself.
#[test]
fn what_the_embedders_http_client_does_the_client_leaves_to_it() {
    let mut site = site().map_replies(|_, reply| reply.with("set-cookie", "a=1").with("content-encoding", "gzip"));
    let mut options = legacy();
    (options.keeps_cookies, options.decodes_bodies) = (true, true);
    let web = Web::connect(options, &mut site);
    assert!(web.is_ready());
    for exchange in &web.log {
        assert_eq!((exchange.header("cookie"), exchange.header("accept-encoding")), (None, None));
    }
}

#[test]
fn headers_of_the_embedder_stand_where_the_protocol_has_none_of_its_own() {
    let mut web = Web::at(legacy(), "https://ada:pass@example.com/mcp");
    web.reopen();
    let mut own = HeaderMap::new();
    for (name, value) in [
        ("user-agent", "mine/1"),
        ("accept-encoding", "gzip"),
        ("authorization", "Bearer mine"),
        ("cookie", "b=own; c=own"),
        ("content-type", "text/plain"),
        ("x-key", "1"),
    ] {
        own.insert(name, value.parse().unwrap());
    }
    own.append("x-key", "2".parse().unwrap());
    let mut headers = web.log[0].headers().clone();
    headers.insert("cookie", "a=1; b=2".parse().unwrap());
    let mut request = http::Request::new(vec![]);
    *request.headers_mut() = headers;
    let mut request = HttpRequest::new(web.log[0].id, None, request);
    request.add_headers(&own);
    let sent = request.request.headers();
    for (name, value) in [
        ("user-agent", "mine/1"),
        ("accept-encoding", "gzip"),
        ("authorization", "Bearer mine"),
        ("cookie", "b=own; c=own; a=1"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(sent.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
    }
    assert_eq!(sent.get_all("x-key").iter().collect::<Vec<_>>(), ["1", "2"]);
    // A token of the client's own is not replaced.
    request.request.headers_mut().insert("authorization", "Bearer granted".parse().unwrap());
    request.add_headers(&own);
    assert_eq!(request.request.headers()["authorization"], "Bearer granted");
}

#[cfg(feature = "snapshot")]
#[test]
fn cookies_and_the_password_are_secrets_in_a_snapshot() {
    use mcp_proto::{Client, Http, Moved, Secrets};

    let http = || Http::new("https://ada:pass@example.com/mcp").unwrap();
    let mut site = site().map_replies(|_, reply| reply.with("set-cookie", "a=hush"));
    let mut web = Web::over(legacy(), http());
    web.reopen();
    web.serve(&mut site);
    let saved = |secrets| serde_json::to_string(&web.session.snapshot(secrets)).unwrap();
    for secret in ["hush", "YWRhOnBhc3M="] {
        assert!(saved(Secrets::Included).contains(secret) && !saved(Secrets::Excluded).contains(secret), "{secret}");
    }
    let snapshot = web.session.snapshot(Secrets::Included);
    let mut moved = Web::over(legacy(), http());
    moved.session = Client::from_snapshot(http(), legacy(), &snapshot, Moved::WithTransport).unwrap();
    moved.now = web.now;
    moved.collect();
    let (_, exchange) = moved.call("a");
    let credentials = (exchange.header("authorization"), exchange.header("cookie"));
    assert_eq!(credentials, (Some("Basic YWRhOnBhc3M="), Some("a=hush")));
}

#[cfg(feature = "snapshot")]
#[test]
fn the_cookies_of_a_former_session_move_with_it_as_secrets() {
    use mcp_proto::{Client, Http, Moved, Secrets};

    let http = || Http::new(URL).unwrap();
    let mut first = true;
    let mut site = site().map_replies(move |exchange, reply| {
        let sets = exchange.is("initialize") && std::mem::take(&mut first);
        if sets { reply.with("set-cookie", "a=hush") } else { reply }
    });
    let mut web = ready(&mut site);
    let (_, call) = web.call("a");
    web.reply(&call, Reply::status(404));
    let text = |secrets| serde_json::to_string(&web.session.snapshot(secrets)).unwrap();
    assert!(text(Secrets::Included).contains("hush") && !text(Secrets::Excluded).contains("hush"));
    let snapshot = web.session.snapshot(Secrets::Included);
    let mut moved = Web::over(legacy(), http());
    moved.session = Client::from_snapshot(http(), legacy(), &snapshot, Moved::WithTransport).unwrap();
    moved.now = web.now;
    moved.collect();
    let initialize = web.take_named("initialize");
    moved.open.clone_from(&web.open);
    moved.reply(&initialize, Reply::json(400, &initialize.error(-32600, "Server already initialized")));
    assert_eq!(moved.last("DELETE").header("cookie"), Some("a=hush"));
}
