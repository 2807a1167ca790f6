//! Regression tests over HTTP: servers that refuse, do not answer, or end exchanges in an unusual order.

use crate::common::{legacy, millis, options, reconnecting, seconds, tools};
use crate::web::{Exchange, LAST_ID, Reply, SESSION, Site, Web, modern_site, raw, site, tool, was_answered};
use mcp_proto::binding::http::Broken;
use mcp_proto::{
    Cause, CommandError, Event, Failure, FailureKind, Family, ListErrors, LogLevel, Options, Outcome, QuirkKind,
    Request, RequestError, RequestId,
};
use serde_json::{Value, json};

const INITIALIZED: &str = "notifications/initialized";
const LISTEN: &str = "subscriptions/listen";
const SET_LEVEL: &str = "logging/setLevel";
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];

fn connect(options: Options, site: &mut Site) -> Web {
    let web = Web::connect(options, site);
    assert!(web.is_ready(), "{:?}", web.failure());
    web
}

fn ready(site: &mut Site) -> Web {
    connect(legacy(), site)
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// The requests for which the server requires more authorization.
fn unauthorized(web: &Web) -> Vec<Option<RequestId>> {
    let whose = |event: &Event| match event {
        Event::Unauthorized { request, .. } => Some(*request),
        _ => None,
    };
    web.events.iter().filter_map(whose).collect()
}

fn last_failure(web: &Web) -> Option<&Failure> {
    web.events.iter().rev().find_map(|event| match event {
        Event::Down { failure, .. } => Some(failure),
        _ => None,
    })
}

fn authorize(web: &mut Web) {
    web.session.authorized(web.now).unwrap();
    web.collect();
}

/// A server that requests input before it answers a call.
fn server_that_requests_input() -> Site {
    let inputs = json!({"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}});
    modern_site().result("tools/call", json!({"resultType": "input_required", "inputRequests": inputs}))
}

fn asking(mut options: Options) -> Options {
    options.capabilities.elicitation = true;
    options
}

/// A server that accepts connections from anybody, and requires a token for later requests.
#[test]
fn a_401_without_a_challenge_to_the_engines_requests_is_an_authorization_error() {
    for name in ["tools/list", INITIALIZED] {
        let mut closed = site().on(name, |_| Reply::text(401, "who are you?"));
        let mut web = Web::connect(reconnecting(legacy()), &mut closed);
        web.wait_and_serve(seconds(60), &mut closed);
        assert_eq!((unauthorized(&web), web.cause()), (vec![None], None), "{name}");
        assert_eq!(last_failure(&web).map(|failure| failure.kind), Some(FailureKind::Unauthorized), "{name}");
        // A new session is tried once.
        assert_eq!((web.count("initialize"), web.quirk_methods(QuirkKind::SessionLoop).len()), (2, 0), "{name}");
        authorize(&mut web);
        web.serve(&mut site());
        assert_eq!((web.is_ready(), web.keys(Family::Tools)), (true, vec!["a"]), "{name}");

        let mut web = Web::connect(legacy(), &mut closed);
        web.serve(&mut closed);
        let Some(Cause::Failed(failure)) = web.cause() else { panic!("{name}: {:?}", web.cause()) };
        assert_eq!((failure.kind, unauthorized(&web)), (FailureKind::Unauthorized, vec![None]), "{name}");
    }
}

/// Revision 2025-11-25 defines the code -32002 for a missing resource; some servers use the status 404.
#[test]
fn a_404_for_a_missing_resource_is_its_response_after_one_recovery() {
    let mut site = Site::legacy(json!({"resources": {}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .on("resources/read", |read| Reply::json(404, &read.error(-32002, "Resource not found")));
    let mut web = connect(reconnecting(legacy()), &mut site);
    for uri in ["x:1", "x:2", "x:3", "x:4", "x:5"] {
        let request = web.request(Request::read_resource(uri));
        web.serve(&mut site);
        let Outcome::Error(RequestError::Server(error)) = web.result_of(request) else {
            panic!("{uri}: {:?}", web.ended(request))
        };
        assert_eq!((error.code, &*error.message), (-32002, "Resource not found"));
    }
    assert_eq!((web.is_ready(), web.count("initialize"), web.quirks()), (true, 2, vec![]));
}

/// A tool's message that something else is not initialized is the error of the call.
#[test]
fn not_initialized_errors_of_tools_are_not_expired_sessions() {
    let mut site = site().on("tools/call", |call| Reply::json(200, &call.error(-32603, "Browser not initialized")));
    let mut web = ready(&mut site);
    for _ in 0..5 {
        let request = web.request(tool("a"));
        web.serve(&mut site);
        let Outcome::Error(RequestError::Server(error)) = web.result_of(request) else {
            panic!("{:?}", web.ended(request))
        };
        assert_eq!(&*error.message, "Browser not initialized");
    }
    assert_eq!((web.is_ready(), web.count("initialize"), web.quirks()), (true, 1, vec![]));
}

/// A message without a response is sent again only a few times.
#[test]
fn refused_responses_and_notifications_are_sent_again_a_limited_number_of_times() {
    for (status, after) in [(429, "0"), (503, "0"), (429, "1000000000")] {
        let busy = move |_: &Exchange| Reply::status(status).with("retry-after", after);
        let mut site = site().on("(answer)", busy).on("acme/told", busy);
        let mut web = ready(&mut site);
        let stream = web.last("GET");
        for id in 1..=5 {
            web.push(&stream, ping(id));
            web.session.notify(web.now, "acme/told", None).unwrap();
            web.collect();
        }
        web.serve(&mut site);
        web.wait_and_serve(seconds(120), &mut site);
        assert_eq!((web.count("(answer)"), web.count("acme/told")), (5, 5), "{status} {after}");
        assert_eq!((web.is_ready(), web.session.deadline()), (true, None));
    }
}

/// The server sends a request each second, and never answers a POST, or never ends the response.
#[test]
fn responses_and_notifications_whose_post_never_ends_are_dropped() {
    for accepted in [false, true] {
        let mut web = ready(&mut site());
        let limit = usize::try_from(web.session.options().timeouts.request.as_secs()).unwrap();
        let stream = web.last("GET");
        for id in 0..300 {
            web.push(&stream, ping(id));
            web.session.notify(web.now, "acme/told", None).unwrap();
            web.collect();
            for exchange in web.take() {
                if accepted {
                    web.head(&exchange, 202, &[]);
                }
            }
            web.wait(seconds(1));
            assert!(web.open.len() <= 2 * (limit + 1) + 1, "{} go on", web.open.len());
        }
        web.wait(seconds(60));
        let open: Vec<_> = web.open.values().map(Exchange::name).collect();
        assert_eq!((open, web.is_ready()), (vec!["GET".into()], true), "accepted: {accepted}");
    }
}

/// A request whose response has begun reached the server, whatever failure the embedder reports.
#[test]
fn a_call_whose_response_began_is_not_sent_again_after_unreachable() {
    for body in ["", "data: "] {
        let mut site = site();
        let mut web = connect(reconnecting(legacy()), &mut site);
        let (request, call) = web.call("a");
        web.head(&call, 200, &STREAM);
        web.body(&call, body);
        web.fail(&call, Broken::Unreachable);
        web.wait_and_serve(seconds(600), &mut site);
        assert_eq!((web.outcome(request), web.count("tools/call")), ("Unknown".into(), 1));
    }
}

/// A request that never left did not run, however often it was tried.
#[test]
fn an_unreachable_server_ends_the_call_as_not_sent() {
    for failures in 1..=4 {
        let mut site = site();
        let mut web = connect(reconnecting(legacy()), &mut site);
        let request = web.request(tool("a"));
        let mut failed = 0;
        for _ in 0..600 {
            for exchange in web.take() {
                if exchange.is("tools/call") {
                    web.fail(&exchange, Broken::Unreachable);
                    failed += 1;
                } else if web.is_open(&exchange) {
                    let reply = site.reply(&exchange);
                    web.reply(&exchange, reply);
                }
            }
            // The retry that follows at once does not reach the server either.
            if failed >= failures && !web.open.values().any(|exchange| exchange.is("tools/call")) {
                break;
            }
            web.wait(millis(100));
        }
        assert_eq!((failed >= failures, web.outcome(request)), (true, "open".into()));
        web.close();
        assert_eq!(web.outcome(request), "NotSent", "after {failures}");
    }
}

/// One refused connection of many says nothing about the others.
#[test]
fn one_unreachable_call_does_not_affect_the_others() {
    let mut web = connect(reconnecting(legacy()), &mut site());
    let ((unlucky, call), (other, answered)) = (web.call("a"), web.call("a"));
    web.head(&answered, 200, &STREAM);
    web.fail(&call, Broken::Unreachable);
    assert_eq!((web.is_ready(), web.outcome(unlucky), web.outcome(other)), (true, "open".into(), "open".into()));
    let again = web.take_named("tools/call");
    assert_eq!(again.of, Some(unlucky));
    web.push(&answered, answered.result(json!({"content": []})));
    web.reply(&again, Reply::json(200, &again.result(json!({"content": []}))));
    assert!(was_answered(&web, unlucky) && was_answered(&web, other) && web.failure().is_none());

    // If the next one is unreachable too, the server is.
    let (_, call) = web.call("a");
    web.make_unreachable(&call);
    assert_eq!((web.is_ready(), web.failure_kind()), (false, Some(FailureKind::Connect)));
}

/// A gateway without a response does not know whether the request ran.
#[test]
fn a_call_with_a_gateway_timeout_may_have_run() {
    for status in [502, 504] {
        let mut web = connect(reconnecting(legacy()), &mut site());
        let (request, call) = web.call("a");
        web.reply(&call, Reply::text(status, "no answer"));
        assert_eq!((web.outcome(request), web.is_ready()), ("Unknown".into(), true), "{status}");
        // A read-only request is sent once more.
        let request = web.request(tool("a").replay(true));
        let call = web.take_named("tools/call");
        web.reply(&call, Reply::text(status, "no answer"));
        web.serve(&mut site());
        assert!(was_answered(&web, request), "{status}");
    }
}

/// The content type decides if the first bytes are not conclusive.
#[test]
fn a_stream_may_begin_with_inconclusive_bytes() {
    for first in ["\n", "\r\n", "\u{feff}", "\u{feff}\n", "\n: ok\n\n", ": ok\n\n", "foo: bar\n\n", "foo\n", " \n"] {
        for whole in [true, false] {
            let mut site = site().on("GET", move |_| Reply::stream(if whole { first } else { "" }));
            let mut web = ready(&mut site);
            let stream = web.last("GET");
            if !whole {
                first.as_bytes().chunks(1).for_each(|chunk| web.body(&stream, chunk));
            }
            assert_eq!((web.is_open(&stream), web.quirks()), (true, vec![]), "{first:?}");
            web.push(&stream, ping(7));
            assert_eq!(web.take_named("(answer)").json()["id"], 7, "{first:?}");
        }
    }
}

/// The list that was to provide the headers ended with its connection; the next connection lists as well.
#[test]
fn a_call_that_waits_for_headers_continues_after_a_reconnect() {
    let mismatch = |call: &Exchange| Reply::json(400, &call.error(-32020, "Header mismatch"));
    let mut site = modern_site().first("tools/call", 1, mismatch);
    let mut web = connect(reconnecting(options()), &mut site);
    let request = web.request(tool("a"));
    let call = web.take_named("tools/call");
    web.end_with(&call, site.reply(&call));
    let list = web.take_named("tools/list");
    web.fail(&list, Broken::Unreachable);
    assert_eq!((web.is_ready(), web.outcome(request)), (false, "open".into()));
    web.wait_and_serve(seconds(30), &mut site);
    assert!(web.is_ready() && was_answered(&web, request), "{}", web.outcome(request));
    assert_eq!(web.count("tools/call"), 2);
}

/// As above, but the next connection gets no list of tools either: the refusal stands.
#[test]
fn a_call_that_waits_for_headers_ends_if_the_reconnect_gets_no_list() {
    let mismatch = |call: &Exchange| Reply::json(400, &call.error(-32020, "Header mismatch"));
    let mut options = reconnecting(options());
    options.tolerance.list_errors = ListErrors::Degrade;
    let mut site = modern_site().on("tools/call", mismatch);
    let mut web = connect(options, &mut site);
    let (request, call) = web.call("a");
    web.end_with(&call, site.reply(&call));
    let list = web.take_named("tools/list");
    web.fail(&list, Broken::Unreachable);
    let mut site = site.error("tools/list", -32603, "not now");
    web.wait_and_serve(seconds(30), &mut site);
    assert!(web.is_ready() && web.count("tools/call") <= 2);
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
}

/// The session id is a secret, and printed output ends up in logs.
#[test]
fn the_session_id_is_printed_nowhere() {
    let mut web = connect(reconnecting(legacy()), &mut site());
    let (_, call) = web.call("a");
    assert_eq!(call.header(SESSION), Some("session-1"));
    let printed = format!("{:?} {:?}", web.log, web.session);
    assert!(!printed.contains("session-1"));
    // It is kept as the previous session, which may have to be ended.
    web.reply(&call, Reply::status(404));
    assert!(!format!("{:?}", web.session).contains("session-1"));
    web.close();
    assert!(!format!("{:?} {:?}", web.log, web.session).contains("session-1"));
}

/// A server answers 409 while it has not noticed that the previous stream broke.
#[test]
fn a_get_stream_that_was_open_is_requested_again_after_any_refusal() {
    for status in [400, 409, 410, 422, 429, 500, 503] {
        let mut site = site();
        let mut web = ready(&mut site);
        let stream = web.last("GET");
        web.end(&stream);
        web.wait(seconds(2));
        let again = web.take_named("GET");
        web.reply(&again, Reply::text(status, "not now"));
        web.wait(seconds(60));
        let third = web.take_named("GET");
        web.reply(&third, Reply::stream(""));
        assert_eq!((web.is_open(&third), web.quirks()), (true, vec![]), "{status}");
    }
}

#[test]
fn a_first_get_stream_that_is_temporarily_refused_is_requested_again() {
    for reply in [
        Reply::status(502),
        Reply::status(503).with("retry-after", "5"),
        Reply::status(504),
        Reply::status(429),
        Reply::text(500, "oh"),
    ] {
        let told = format!("{reply:?}");
        let mut site = site().first("GET", 1, move |_| reply.clone());
        let mut web = ready(&mut site);
        web.wait_and_serve(seconds(60), &mut site);
        assert_eq!((web.count("GET"), web.quirks()), (2, vec![]), "{told}");
        assert!(web.is_open(&web.last("GET")), "{told}");
    }
}

/// The end was mistaken for that of the stream that was requested meanwhile.
#[test]
fn the_late_end_of_a_refused_stream_opens_no_second_one() {
    for status in [429, 503] {
        let mut web = ready(&mut site().on("GET", move |_| Reply::status(status).unfinished()));
        let refused = web.last("GET");
        web.wait(seconds(5));
        let stream = web.take_named("GET");
        web.reply(&stream, Reply::stream(""));
        if web.is_open(&refused) {
            web.end(&refused);
        }
        web.wait_and_serve(seconds(60), &mut site());
        let streams = web.open.values().filter(|exchange| exchange.is("GET")).count();
        assert_eq!((streams, web.count("GET")), (1, 2), "{status}");
    }
}

/// A server may wait for responses before it accepts `initialized`, for which all requests wait.
#[test]
fn responses_are_sent_before_initialized_is_accepted() {
    let mut web = Web::open(asking(legacy()));
    let initialize = web.take_named("initialize");
    web.head(&initialize, 200, &[STREAM[0], (SESSION, "session-1")]);
    let result =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    web.push(&initialize, initialize.result(result));
    web.take_named(INITIALIZED);
    let params = json!({"message": "?", "requestedSchema": {}});
    for (id, method) in [(1, "ping"), (2, "roots/list"), (3, "elicitation/create"), (4, "elicitation/create")] {
        web.push(&initialize, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
    let ask = |event: &Event| if let Event::ServerRequest { id: ask, .. } = event { Some(*ask) } else { None };
    let ask = web.events.iter().find_map(ask).expect("a question");
    web.session.respond(web.now, ask, Ok(&raw(&json!({"action": "decline"})))).unwrap();
    web.collect();
    let answers = web.take();
    let ids: Vec<_> = answers.iter().map(|answer| answer.json()["id"].clone()).collect();
    assert_eq!((ids, web.count("(answer)")), (vec![json!(1), json!(2), json!(3)], 3));
    for answer in answers {
        web.reply(&answer, Reply::status(202));
    }
    assert_eq!(web.count("GET"), 0, "`initialized` is not accepted by that");
    // The response that is still to be sent precedes the end of the session.
    web.close();
    let answer = web.take_named("(answer)");
    assert_eq!((&answer.json()["id"], answer.header(SESSION)), (&json!(4), Some("session-1")));
    web.reply(&answer, Reply::status(202));
    let delete = web.take_named("DELETE");
    web.reply(&delete, Reply::status(200));
    assert_eq!((web.take().len(), web.cause()), (0, Some(&Cause::Requested)));
}

/// Its request belongs to the session before.
#[test]
fn a_response_that_waits_is_not_sent_in_the_next_session() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut site = site();
    let mut web = connect(options, &mut site);
    let (call, exchange) = web.call("a");
    let stream = web.last("GET");
    (1..=2).for_each(|id| web.push(&stream, ping(id)));
    assert_eq!(web.take_named("(answer)").json()["id"], 1);
    site.forget_session();
    web.reply(&exchange, Reply::status(404));
    web.serve(&mut site);
    assert!(web.is_ready() && was_answered(&web, call));
    assert_eq!(web.count("(answer)"), 1);
}

#[test]
fn a_response_that_waits_is_sent_before_the_session_ends() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut web = connect(options, &mut site());
    web.session.notify(web.now, "acme/told", None).unwrap();
    web.collect();
    let told = web.take_named("acme/told");
    let stream = web.last("GET");
    web.push(&stream, ping(1));
    assert!(web.take().is_empty(), "it waits for the notification");
    web.close();
    assert!(web.was_dropped(&told));
    let answer = web.take_named("(answer)");
    web.reply(&answer, Reply::status(202));
    web.take_named("DELETE");
}

/// The response is owed to the server, the stream is not.
#[test]
fn a_response_that_could_not_be_polled_yet_is_sent_before_the_session_ends() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut web = connect(options, &mut site());
    let stream = web.last("GET");
    (1..=2).for_each(|id| web.push(&stream, ping(id)));
    let first = web.take_named("(answer)");
    web.end(&stream);
    web.now = web.now + seconds(1);
    web.session.handle_timeout(web.now);
    web.session.handle_head(web.now, first.id, http::StatusCode::ACCEPTED, &http::HeaderMap::new());
    web.open.remove(&first.id);
    web.session.handle_end(web.now, first.id);
    web.close();
    let second = web.take_named("(answer)");
    assert_eq!((second.json()["id"].as_u64(), web.count("GET")), (Some(2), 1));
    web.reply(&second, Reply::status(202));
    web.take_named("DELETE");
}

/// Requests that wait until `initialized` is accepted.
#[test]
fn a_request_that_is_cancelled_before_initialized_is_accepted_is_not_sent() {
    let (mut web, initialized) = Web::accepting(legacy());
    let [cancelled, other] = ["acme/cancelled", "acme/other"].map(|method| web.request(Request::new(method)));
    assert!(web.take().is_empty());
    web.session.cancel(web.now, cancelled).unwrap();
    web.collect();
    web.reply(&initialized, Reply::status(202));
    assert_eq!((web.count("acme/cancelled"), web.count("acme/other")), (0, 1));
    assert_eq!(web.outcome(other), "open");
}

/// Unauthorized subscriptions or log levels fail alone.
#[test]
fn an_unauthorized_subscription_or_log_level_keeps_the_session() {
    for challenge in [false, true] {
        let refusal = move |_: &Exchange| {
            let reply = Reply::text(401, "who are you?");
            if challenge { reply.with("www-authenticate", "Bearer") } else { reply }
        };
        let capabilities = json!({"tools": {"listChanged": true}});
        let listed = Site::modern(capabilities).result("tools/list", tools(&["a"])).on(LISTEN, refusal);
        let capabilities = json!({"tools": {}, "logging": {}});
        let leveled = Site::legacy(capabilities).result("tools/list", tools(&["a"])).on(SET_LEVEL, move |_| {
            Reply::text(403, "not you").with("www-authenticate", "Bearer error=\"insufficient_scope\"")
        });
        for (mut site, name) in [(listed, LISTEN), (leveled, SET_LEVEL)] {
            let mut options = options();
            options.log_level = Some(LogLevel::Info);
            let mut web = connect(options, &mut site);
            assert_eq!((web.keys(Family::Tools), web.failure()), (vec!["a"], None), "{name}");
            assert!(web.count(name) > 0 && unauthorized(&web).contains(&None), "{name}");
            web.wait_and_serve(seconds(600), &mut site);
            assert!(web.is_ready() && web.failure().is_none(), "{name}");
        }
    }
}

/// Streams break when a server restarts, and a gateway reports it with such a status.
#[test]
fn the_stream_of_a_call_is_resumed_after_a_temporary_refusal() {
    for (status, after, wait) in
        [(429, Some("3"), 3000), (500, None, 2000), (502, None, 2000), (503, Some("3"), 3000), (504, None, 2000)]
    {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        web.head(&call, 200, &STREAM);
        web.body(&call, "retry: 2000\nid: 9\ndata:\n\n");
        web.end(&call);
        web.wait(seconds(2));
        for factor in [1, 2, 4] {
            let get = web.take_named("GET");
            assert_eq!(get.header(LAST_ID), Some("9"));
            let refusal = Reply::status(status);
            web.reply(&get, after.map_or(refusal.clone(), |after| refusal.clone().with("retry-after", after)));
            web.wait(millis(wait * factor - 1));
            assert_eq!((web.take().len(), web.outcome(request)), (0, "open".into()), "{status}");
            web.wait(millis(1));
        }
        let get = web.take_named("GET");
        assert_eq!((get.header(LAST_ID), get.of), (Some("9"), Some(request)));
        web.head(&get, 200, &STREAM);
        web.push(&get, call.result(json!({"content": []})));
        assert!(was_answered(&web, request), "{status}");
    }
}

/// A call that waits for input or a token is in no queue, and counts towards the limit.
#[test]
fn calls_that_wait_for_input_or_a_token_are_limited() {
    let closed = modern_site().on("tools/call", |_| Reply::status(401).with("www-authenticate", "Bearer"));
    for (mut site, what) in [(closed, "token"), (server_that_requests_input(), "input")] {
        let mut options = asking(options());
        (options.limits.queued, options.limits.in_flight) = (3, 2);
        let mut web = connect(options, &mut site);
        let mut waiting = vec![];
        let refused = loop {
            match web.session.request(web.now, tool("a")) {
                Ok(request) => waiting.push(request),
                Err(misuse) => break misuse,
            }
            web.collect();
            web.serve(&mut site);
            assert!(waiting.len() <= 5, "{what}: {}", waiting.len());
        };
        assert!(matches!(refused, CommandError::TooManyRequests { limit: 3 }), "{refused:?}");
        assert!(waiting.iter().all(|request| web.outcome(*request) == "open"), "{what}");
        web.session.decline(web.now, waiting[0]).unwrap();
        web.collect();
        web.request(tool("a"));
    }
}

/// The retries of a call whose token is always rejected are limited.
#[test]
fn a_call_is_sent_again_with_new_tokens_a_limited_number_of_times() {
    let mut site = site().on("tools/call", |_| Reply::text(401, "not this").with("www-authenticate", "Bearer"));
    let mut web = ready(&mut site);
    let request = web.request(tool("a"));
    for _ in 0..20 {
        web.serve(&mut site);
        authorize(&mut web);
    }
    assert_eq!(web.count("tools/call"), 4);
    let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
    assert!(error.to_string().contains("401") && error.to_string().contains("not this"), "{error}");
    assert!(web.is_ready());
}

/// The message names the actual status.
#[test]
fn a_success_status_without_a_response_is_reported_by_its_number() {
    for status in [200, 202, 204] {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        web.reply(&call, Reply::status(status));
        let Outcome::Error(RequestError::Invalid(why)) = web.result_of(request) else {
            panic!("{:?}", web.ended(request))
        };
        assert!(why.contains(&format!("HTTP {status}")) && why.contains("the body is empty"), "{why}");
    }
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(200).body("text/plain", "data"));
    let Outcome::Error(RequestError::Invalid(why)) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
    assert!(why.contains("neither JSON nor a stream of events"), "{why}");
}

/// The server writes its schemas, and one may have as many annotations as fit into a list.
#[test]
fn a_schema_with_many_annotations_is_read_once() {
    const MANY: usize = 130_000;
    let property =
        |(at, header): (usize, usize)| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{header:07}"}}"#);
    let schema = |last: usize| {
        let properties: Vec<_> = (0..MANY).map(|at| (at, at)).chain([(MANY, last)]).map(property).collect();
        format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","))
    };
    // The last annotation of one schema is the first of the other.
    let (sound, unsound) = (schema(MANY), schema(0));
    let listed =
        format!(r#"{{"tools":[{{"name":"a","inputSchema":{sound}}},{{"name":"b","inputSchema":{unsound}}}]}}"#);
    let site = modern_site().on("tools/list", move |list| {
        let id = &list.json()["id"];
        Reply::status(200).body("application/json", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{listed}}}"#))
    });
    let web = connect(options(), &mut { site });
    assert_eq!((web.keys(Family::Tools), web.quirks()), (vec!["a"], vec![QuirkKind::InvalidItem]));
}

/// The maximum time of a request excludes the time in which it waited for input or a token.
#[test]
fn progress_after_a_long_wait_for_input_or_a_token_extends_the_deadline() {
    for token in [false, true] {
        let mut site = if token {
            modern_site().on("tools/call", |_| Reply::status(401).with("www-authenticate", "Bearer"))
        } else {
            server_that_requests_input()
        };
        let mut web = connect(asking(options()), &mut site);
        let request = web.request(tool("a").progress(true).timeout(seconds(60)).max_timeout(seconds(600)));
        web.serve(&mut site);
        web.wait(seconds(595));
        if token {
            authorize(&mut web);
        } else {
            web.session.provide(web.now, request, [("q", &*raw(&json!({"action": "accept"})))]).unwrap();
            web.collect();
        }
        let again = web.take_named("tools/call");
        web.head(&again, 200, &STREAM);
        for progress in 1..=11 {
            web.wait(seconds(50));
            assert_eq!(web.outcome(request), "open", "token: {token}, {progress}");
            let params = json!({"progressToken": again.json()["id"], "progress": progress});
            web.push(&again, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        assert!(web.events.iter().any(|event| matches!(event, Event::Progress { .. })));
        web.wait(seconds(50));
        assert_eq!(web.outcome(request), "TimedOut", "token: {token}");
    }
}

/// Unneeded messages are not missed while others are being answered.
#[test]
fn one_unreachable_notification_does_not_affect_other_requests() {
    let mut web = connect(reconnecting(legacy()), &mut site());
    let ((given_up, _), (other, answered)) = (web.call("a"), web.call("a"));
    web.head(&answered, 200, &STREAM);
    web.session.cancel(web.now, given_up).unwrap();
    web.collect();
    let cancelled = web.take_named("notifications/cancelled");
    web.fail(&cancelled, Broken::Unreachable);
    assert_eq!((web.is_ready(), web.outcome(other)), (true, "open".into()));
    web.push(&answered, answered.result(json!({"content": []})));
    assert!(was_answered(&web, other) && web.failure().is_none());
}

/// Words before "session" that refusals usually have: the rest of the text counts, too.
#[test]
fn a_refusal_about_a_tools_own_session_is_not_an_expired_session() {
    for (status, code, text) in [
        (400, -32000, "Session 7 of the workshop is full; your card was charged"),
        (503, -32603, "Session store unavailable after commit"),
        (503, -32000, "Service unavailable: session for customer 7 closed after payment"),
    ] {
        let mut site = site().on("tools/call", move |it| Reply::json(status, &it.error(code, text)));
        let mut web = ready(&mut site);
        let request = web.request(tool("a"));
        web.serve(&mut site);
        assert_eq!((web.count("tools/call"), web.count("initialize")), (1, 1), "{text}");
        let Some(Outcome::Error(RequestError::Server(error))) = web.ended(request) else {
            panic!("{text}: {:?}", web.ended(request))
        };
        assert_eq!((error.code, &*error.message), (code, text));
    }
}

#[test]
fn a_first_initialize_refused_on_a_stream_fails_at_once() {
    let refused = |it: &Exchange| Reply::events(&[it.error(-32600, "Server already initialized")]);
    let web = Web::connect(legacy(), &mut site().on("initialize", refused));
    let Some(Cause::Failed(failure)) = web.cause() else { panic!("{:?}", web.cause()) };
    assert_eq!((failure.kind, web.quirks().len()), (FailureKind::HandshakeRejected, 0));
}

/// The GET stream is optional: POSTs work without it.
#[test]
fn a_get_stream_redirected_to_another_origin_fails_alone() {
    let mut site = site().on("GET", |_| Reply::status(307).with("location", "https://login.example.org/?next=1"));
    let mut web = Web::connect(reconnecting(legacy()), &mut site);
    web.wait_and_serve(seconds(100), &mut site);
    assert!(web.session.is_ready(), "{:?}", web.cause());
    assert_eq!(web.count("GET"), 1);
    assert!(web.session.quirks().iter().any(|quirk| quirk.kind == QuirkKind::GetRefused));
}

#[test]
fn a_get_stream_is_requested_again_after_the_retry_time_and_within_a_day() {
    for (retry, wait) in [("7200000", 7_200), ("18446744073709551615", 86_400)] {
        let body = format!("retry: {retry}\n\n");
        let mut site = site().on("GET", move |_| Reply::status(200).body("text/event-stream", &*body));
        let mut web = Web::connect(reconnecting(legacy()), &mut site);
        web.wait_and_serve(seconds(wait - 1), &mut site);
        assert_eq!(web.count("GET"), 1);
        web.wait_and_serve(seconds(1), &mut site);
        assert_eq!(web.count("GET"), 2);
    }
}

#[test]
fn a_redirect_without_a_location_does_not_show_its_body() {
    let body = "Found. Redirecting to https://ada:hush@example.com/login?api_key=hush";
    for location in ["http://[bad?api_key=hush", &format!("https://example.com/?{}", "a".repeat(9000))] {
        for method in ["tools/list", "initialize"] {
            let location = location.to_owned();
            let mut site = site().on(method, move |_| Reply::text(302, body).with("location", &location));
            let web = Web::connect(legacy(), &mut site);
            let shown = format!("{:?} {:?}", web.events, web.cause());
            assert!(shown.contains("no address") && !shown.contains("hush"), "{method}: {shown}");
        }
    }
}

/// The beginning of "Session closed after payment" means something else than the whole text.
#[test]
fn a_refusal_with_a_truncated_or_unrelated_text_is_not_an_expired_session() {
    let cut = "Session closed after payment";
    for (body, length) in
        [("Session", None), ("Service unavailable: session", None), ("Session closed", Some(cut.len()))]
    {
        for status in [400, 503] {
            let mut site = site();
            let mut web = Web::connect(reconnecting(legacy()), &mut site);
            let (call, exchange) = web.call("a");
            let length = length.unwrap_or(body.len()).to_string();
            web.reply(&exchange, Reply::text(status, body).with("content-length", &length));
            web.wait_and_serve(seconds(30), &mut site);
            assert_eq!(web.count("initialize"), 1, "{status} {body}");
            assert_eq!(web.count("tools/call"), 1, "{status} {body}");
            assert_eq!(web.outcome(call), "Error", "{status} {body}");
        }
    }
}

/// The response belongs to the session of the server's request, even if `initialize` is queued behind it.
#[test]
fn a_response_polled_before_the_next_initialize_names_the_session_of_its_request() {
    let mut web = Web::open(asking(legacy()));
    let initialize = web.take_named("initialize");
    let [stream] = STREAM;
    web.head(&initialize, 200, &[stream, (SESSION, "s0")]);
    let refusal = initialize.error(-32602, "no such capability: elicitation");
    for message in [ping(7), refusal] {
        let chunk = format!("data: {message}\n\n");
        web.session.handle_body(web.now, initialize.id, chunk.as_bytes());
    }
    web.collect();
    let [response, again]: [Exchange; 2] = web.take().try_into().unwrap();
    assert_eq!((response.json()["result"].clone(), response.header(SESSION)), (json!({}), Some("s0")));
    assert_eq!((again.name().as_str(), again.header(SESSION)), ("initialize", None));
}

/// Its description expired, and then declares tools, whose list was not requested.
#[test]
fn a_call_of_a_tool_that_was_not_declared_at_first_ends_if_its_headers_are_refused() {
    // The list is requested, changes, is requested again, and changes again.
    for steps in 0..=4 {
        let described = |capabilities: Value| {
            let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 1000,
                "capabilities": capabilities, "cacheScope": "public"});
            move |it: &Exchange| Reply::json(200, &it.result(result.clone()))
        };
        let prompts = json!({"listChanged": true});
        let mut site = modern_site()
            .result("prompts/list", json!({"resultType": "complete", "prompts": []}))
            .result("prompts/get", json!({"resultType": "complete", "messages": []}))
            .on("server/discover", described(json!({"tools": {}, "prompts": prompts})))
            .first("server/discover", 1, described(json!({"prompts": prompts})))
            .on("subscriptions/listen", |it| {
                let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                    "_meta": {"io.modelcontextprotocol/subscriptionId": it.json()["id"]},
                    "notifications": {"promptsListChanged": true}}});
                Reply::events(&[acknowledged]).unfinished()
            });
        let mut web = Web::connect(options(), &mut site);
        assert!(web.is_ready(), "{:?}", web.failure());
        web.wait(seconds(2));
        web.request(Request::get_prompt("p", []));
        web.serve(&mut site);
        let stream = web.last("subscriptions/listen");
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": stream.json()["id"]}}});
        for step in 1..=steps {
            if step == 3 {
                let list = web.last("tools/list");
                web.end_with(&list, Reply::json(200, &list.result(json!({"resultType": "complete", "tools": []}))));
            } else {
                web.push(&stream, changed.clone());
            }
            assert_eq!(web.take_names(), ["tools/list"][..step % 2]);
        }
        let (request, call) = web.call("a");
        web.end_with(&call, Reply::json(400, &call.error(-32020, "Header mismatch")));
        assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
    }
}
