//! A client over HTTP, in both eras and over HTTP with SSE: the requests that it sends, and how it handles responses.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{Steps, legacy, millis, options, reconnecting, seconds, tools};
use crate::web::{
    Exchange, LAST_ID, Reply, SESSION, Site, URL, VERSION, Web, modern_site, raw, site, tool, was_answered,
};
use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::{
    Cause, CommandError, Eras, Event, FailureKind, Family, Keepalive, LogLevel, Options, Outcome, ProtocolVersion,
    Recovery, Request, Time,
};
use serde_json::{Value, json};

const INITIALIZED: &str = "notifications/initialized";
const CANCELLED: &str = "notifications/cancelled";
const LISTEN: &str = "subscriptions/listen";
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn ready(site: &mut Site) -> Web {
    connect(legacy(), site)
}

fn modern(site: &mut Site) -> Web {
    connect(options(), site)
}

fn connect(options: Options, site: &mut Site) -> Web {
    let web = Web::connect(options, site);
    assert!(web.is_ready(), "{:?}", web.failure());
    web
}

fn server_request(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "?", "requestedSchema": {}}})
}

fn with_elicitation(mut options: Options) -> Options {
    options.capabilities.elicitation = true;
    options
}

fn server_request_ids(web: &Web) -> Vec<mcp_proto::ServerRequestId> {
    let ask = |event: &Event| if let Event::ServerRequest { id: ask, .. } = event { Some(*ask) } else { None };
    web.events.iter().filter_map(ask).collect()
}

// Headers of all requests.

/// A session that sends everything a client can send: requests, notifications, responses, streams.
fn full_session(by_stream: bool) -> Web {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
    let mut site = Site::legacy(capabilities)
        .result("tools/list", tools(&["a"]))
        .result("prompts/list", json!({"prompts": []}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/subscribe", json!({}))
        .result("resources/unsubscribe", json!({}))
        .result("logging/setLevel", json!({}))
        .result("tools/call", json!({"content": []}))
        .result("ping", json!({}));
    site.answers_by_stream = by_stream;
    let mut options = with_elicitation(legacy());
    options.log_level = Some(LogLevel::Info);
    options.keepalive = Some(Keepalive::default());
    let mut web = connect(options, &mut site);
    web.session.subscribe(web.now, "x:1").unwrap();
    web.collect();
    web.serve(&mut site);
    web.session.unsubscribe(web.now, "x:1").unwrap();
    web.collect();
    web.serve(&mut site);
    // A server request on the GET stream, and one during a call.
    let stream = web.last("GET");
    web.push(&stream, server_request(1, "elicitation/create"));
    let (_, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.push(&call, server_request(2, "elicitation/create"));
    for ask in server_request_ids(&web) {
        web.session.respond(web.now, ask, Ok(&raw(&json!({"action": "accept"})))).unwrap();
        web.collect();
        let answer = web.take_named("(answer)");
        web.reply(&answer, Reply::status(202));
    }
    // A call whose stream is resumed, and a cancelled call.
    web.body(&call, "id: 7\ndata:\n\n");
    web.end(&call);
    web.wait(seconds(2));
    let resumed = web.take_named("GET");
    web.reply(&resumed, Reply::events(&[call.result(json!({"content": []}))]));
    let (request, _) = web.call("a");
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    web.serve(&mut site);
    // The GET stream breaks, and the keepalive pings.
    web.body(&stream, "id: 9\ndata:\n\n");
    web.end(&stream);
    web.wait_and_serve(seconds(100), &mut site);
    web.session.notify(web.now, "notifications/example", None).unwrap();
    web.collect();
    web.serve(&mut site);
    web.close();
    web.serve(&mut site);
    assert_eq!((web.cause(), web.quirks()), (Some(&Cause::Requested), vec![]));
    web
}

#[test]
fn every_request_has_accept_and_after_initialize_the_session_and_version_headers() {
    for by_stream in [false, true] {
        let web = full_session(by_stream);
        let names: BTreeSet<_> = web.names().into_iter().collect();
        let all = [
            "(answer)",
            "DELETE",
            "GET",
            "initialize",
            "logging/setLevel",
            CANCELLED,
            INITIALIZED,
            "notifications/example",
            "ping",
            "prompts/list",
            "resources/list",
            "resources/subscribe",
            "resources/templates/list",
            "resources/unsubscribe",
            "tools/call",
            "tools/list",
        ];
        assert_eq!(names, all.map(String::from).into());
        assert_eq!((web.count("initialize"), web.log[0].name()), (1, "initialize".into()));
        assert_eq!((web.log[0].header(SESSION), web.log[0].header(VERSION)), (None, None));
        for exchange in &web.log[1..] {
            let headers = (exchange.header(SESSION), exchange.header(VERSION));
            assert_eq!(headers, (Some("session-1"), Some("2025-11-25")), "{}", exchange.name());
        }
        for exchange in web.log.iter().filter(|exchange| exchange.verb() == "POST") {
            assert_eq!(exchange.header("accept"), Some("application/json, text/event-stream"));
        }
        let resumed: Vec<_> = web.log.iter().filter_map(|exchange| exchange.header(LAST_ID)).collect();
        assert_eq!(resumed, ["7", "9"]);
        // Headers of the modern era, and all others, are absent.
        for name in web.log.iter().flat_map(|exchange| exchange.headers().keys()) {
            let known = ["accept", "accept-encoding", "content-type", "user-agent", SESSION, VERSION, LAST_ID];
            assert!(known.contains(&name.as_str()), "{name}");
        }
    }
}

#[test]
fn the_version_header_is_the_negotiated_version() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let answer = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
        let mut web = ready(&mut site().result("initialize", answer));
        web.close();
        for exchange in &web.log[1..] {
            assert_eq!(exchange.header(VERSION), Some(version), "{}", exchange.name());
        }
    }
}

/// A session id is visible ASCII (specification 2025-11-25, "Session Management"), and comes only from the response to
/// `initialize`.
#[test]
fn the_session_header_is_the_id_from_the_initialize_response() {
    let mut lenient = site().map_replies(|exchange, reply| match exchange.is("initialize") {
        true => reply,
        false => reply.with(SESSION, "another"),
    });
    let mut web = ready(&mut lenient);
    let (_, call) = web.call("a");
    assert_eq!(call.header(SESSION), Some("session-1"));

    let mut web = Web::open(legacy());
    let initialize = web.take_one();
    web.reply(&initialize, site().reply(&initialize).with(SESSION, "with space"));
    assert_eq!(web.take_one().header(SESSION), None);
}

#[test]
fn responses_by_stream_and_by_json_give_the_same_catalog() {
    let catalogue = |by_stream| {
        let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
        let mut site = Site::legacy(capabilities)
            .result("tools/list", tools(&["b", "a", "\u{e9}"]))
            .result("prompts/list", json!({"prompts": [{"name": "p", "description": "line\nbreak"}]}))
            .result("resources/list", json!({"resources": [{"uri": "x:1", "name": "x"}]}))
            .result("resources/templates/list", json!({"resourceTemplates": [{"uriTemplate": "x:{y}", "name": "y"}]}));
        site.answers_by_stream = by_stream;
        let web = ready(&mut site);
        assert!(web.quirks().is_empty());
        let list = |family| format!("{:?}", web.session.catalog().list(family));
        Family::ALL.iter().copied().map(list).collect::<Vec<_>>()
    };
    assert_eq!(catalogue(false), catalogue(true));
}

/// `of` names the request that each exchange belongs to, also for retries.
#[test]
fn each_exchange_names_its_request() {
    let mut site = site();
    let mut web = ready(&mut site);
    assert!(web.log.iter().all(|exchange| exchange.of.is_none()), "only the client's own requests");
    let ((one, first), (other, second)) = (web.call("a"), web.call("a"));
    assert_eq!((first.of, second.of), (Some(one), Some(other)));
    // Sent again after a 401, a redirect, a 503, a broken stream.
    web.reply(&first, Reply::status(401).with("www-authenticate", "Bearer"));
    web.session.authorized(web.now).unwrap();
    web.collect();
    let again = web.take_one();
    assert_eq!(again.of, Some(one));
    web.reply(&again, Reply::status(307).with("location", "/mcp/"));
    let again = web.take_one();
    assert_eq!(again.of, Some(one));
    web.reply(&again, Reply::status(429).with("retry-after", "1"));
    web.wait(seconds(1));
    let again = web.take_one();
    assert_eq!(again.of, Some(one));
    web.reply(&again, Reply::stream("id: 1\ndata:\n\n"));
    web.end(&again);
    web.wait(seconds(1));
    let resumed = web.take_named("GET");
    assert_eq!(resumed.of, Some(one));
    web.reply(&resumed, Reply::events(&[again.result(json!({"content": []}))]));
    // And in another session.
    site.forget_session();
    web.reply(&second, Reply::status(404));
    web.serve(&mut site);
    assert_eq!(web.last("tools/call").of, Some(other));
    assert!(was_answered(&web, one) && was_answered(&web, other));
    assert!(
        web.log
            .iter()
            .all(|exchange| exchange.of.is_some() == (exchange.is("tools/call") || exchange.id == resumed.id))
    );
}

/// Headers that the embedder adds to a request do not appear in other requests.
#[test]
fn headers_of_the_embedder_stay_with_their_request() {
    let web = full_session(false);
    for exchange in &web.log {
        assert_eq!((exchange.header("authorization"), exchange.header("cookie")), (None, None));
    }
}

const RENDER: &str =
    "Bearer resource_metadata=\"https://example.com/.well-known/oauth-protected-resource\", scope=\"call\"";

/// A server like Render: it lists without a token, and requires one for calls.
fn render() -> Site {
    site().on("tools/call", |_| Reply::text(401, "log in first").with("www-authenticate", RENDER))
}

fn unauthorized(web: &Web) -> Vec<&Event> {
    web.events.iter().filter(|event| matches!(event, Event::Unauthorized { .. })).collect()
}

#[test]
fn lists_need_no_token_and_a_call_waits_for_one() {
    for mut site in [
        render(),
        modern_site().on("tools/call", |_| Reply::text(401, "log in first").with("www-authenticate", RENDER)),
    ] {
        let mut web = connect(options(), &mut site);
        assert_eq!((web.keys(Family::Tools), unauthorized(&web).len()), (vec!["a"], 0));
        let request = web.request(tool("a"));
        web.serve(&mut site);
        let [Event::Unauthorized { request: whose, forbidden: false, why, challenges }] = unauthorized(&web)[..] else {
            panic!("{:?}", web.events)
        };
        assert_eq!((*whose, &**why, challenges.len()), (Some(request), "log in first", 1));
        assert_eq!((&*challenges[0].scheme, challenges[0].param("scope")), ("Bearer", Some("call")));
        assert_eq!((web.outcome(request), web.is_ready()), ("open".into(), true));
        // The user takes longer to log in than the deadline of the call; other calls go on.
        web.wait(seconds(300));
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.collect();
        web.serve(&mut site);
        assert_eq!((web.outcome(request), web.count("tools/call")), ("open".into(), 1));
        web.session.authorized(web.now).unwrap();
        web.collect();
        let again = web.take_named("tools/call");
        assert_eq!(again.of, Some(request));
        assert_ne!(again.json()["id"], web.log.iter().find(|it| it.is("tools/call")).unwrap().json()["id"]);
        web.reply(&again, Reply::json(200, &again.result(json!({"content": []}))));
        assert!(was_answered(&web, request) && web.quirks().is_empty());
        assert_eq!(unauthorized(&web).len(), 1);
    }
}

#[test]
fn a_call_that_waits_for_a_token_can_be_declined_or_cancelled_and_has_a_time_limit() {
    let waiting = || {
        let mut web = ready(&mut render());
        let request = web.request(tool("a"));
        let call = web.take_one();
        web.end_with(&call, render().reply(&call));
        assert_eq!(web.outcome(request), "open");
        (web, request)
    };
    let is_refusal = |outcome: &Outcome| matches!(outcome, Outcome::Error(error) if error.to_string().contains("401") && error.to_string().contains("log in first"));

    let (mut web, request) = waiting();
    let given: [(&str, &serde_json::value::RawValue); 0] = [];
    assert_eq!(web.session.provide(web.now, request, given), Err(CommandError::UnknownRequest));
    web.session.decline(web.now, request).unwrap();
    web.collect();
    assert!(is_refusal(web.result_of(request)));

    let (mut web, request) = waiting();
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!((web.outcome(request), web.take().len()), ("Cancelled".into(), 0));

    let (mut web, request) = waiting();
    web.wait(web.session.options().timeouts.server_request);
    assert!(is_refusal(web.result_of(request)));

    let (mut web, request) = waiting();
    web.close();
    assert!(is_refusal(web.result_of(request)));
}

#[test]
fn an_insufficient_token_is_requested_again() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    let scope = "Bearer error=\"insufficient_scope\", scope=\"a b\", error_description=\"say \\\"please\\\"\"";
    web.reply(&call, Reply::status(403).with("www-authenticate", scope));
    web.session.authorized(web.now).unwrap();
    web.collect();
    let again = web.take_named("tools/call");
    web.reply(&again, Reply::status(401).with("www-authenticate", "Basic realm=\"x\", Bearer error=\"invalid_token\""));
    let [
        Event::Unauthorized { forbidden: true, challenges: one, .. },
        Event::Unauthorized { forbidden: false, challenges: two, .. },
    ] = unauthorized(&web)[..]
    else {
        panic!("{:?}", web.events)
    };
    assert_eq!((one[0].param("error"), one[0].param("scope")), (Some("insufficient_scope"), Some("a b")));
    assert_eq!(one[0].param("error_description"), Some("say \"please\""));
    let schemes: Vec<_> = two.iter().map(|challenge| &*challenge.scheme).collect();
    assert_eq!((schemes, two[1].param("error")), (vec!["Basic", "Bearer"], Some("invalid_token")));
    assert_eq!(web.outcome(request), "open");
}

/// Malformed challenges do not suppress the event.
#[test]
fn a_malformed_challenge_is_left_out() {
    for challenge in ["", "=,;", "Bearer resource_metadata=unquoted://x?y=z, ", "\"", "Bearer, , Bearer"] {
        let mut site = site();
        site.sessions = false;
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        web.reply(&call, Reply::status(401).with("www-authenticate", challenge));
        assert_eq!((unauthorized(&web).len(), web.outcome(request)), (1, "open".into()), "{challenge}");
    }
}

/// A 403 without a challenge is final: no token would help.
#[test]
fn a_403_without_a_challenge_ends_the_request() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.reply(&call, Reply::text(403, "not you"));
    let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
    assert!(error.to_string().contains("403") && error.to_string().contains("not you"), "{error}");
    assert_eq!((web.is_ready(), web.count("tools/call")), (true, 1));
}

/// Takes the events, and drops all other actions.
fn take_events(web: &mut Web) {
    let mut steps = Steps::until("nothing is left to poll");
    while let Some(action) = web.session.poll() {
        steps.step();
        if let HttpAction::Event(event) = action {
            web.events.push(event);
        }
    }
}

/// An embedder can call `authorized` at once when it gets the event.
#[test]
fn a_token_can_be_given_at_once() {
    let mut site = modern_site();
    let mut web = Web::open(reconnecting(options()));
    let probe = web.take_one();
    web.open.remove(&probe.id);
    let challenge = crate::web::header_map(&[("www-authenticate", "Bearer")]);
    web.session.handle_head(web.now, probe.id, http::StatusCode::UNAUTHORIZED, &challenge);
    web.session.handle_end(web.now, probe.id);
    let mut steps = Steps::until("nothing is left to poll");
    while let Some(action) = web.session.poll() {
        steps.step();
        if matches!(action, HttpAction::Event(Event::Unauthorized { .. })) {
            web.session.authorized(web.now).unwrap();
            break;
        }
    }
    web.collect();
    web.wait(seconds(5));
    web.serve(&mut site);
    assert!(web.is_ready());
}

/// A server that requires a token for lists: the session waits for it, and restarts.
#[test]
fn a_list_that_requires_a_token_is_requested_again_once_authorized() {
    let mut site = site().first("tools/list", 1, |_| Reply::text(401, "who?").with("www-authenticate", RENDER));
    let mut web = Web::connect(reconnecting(legacy()), &mut site);
    let [Event::Unauthorized { request: None, forbidden: false, challenges, .. }] = unauthorized(&web)[..] else {
        panic!("{:?}", web.events)
    };
    assert_eq!(challenges[0].param("scope"), Some("call"));
    assert_eq!((web.failure_kind(), web.is_ready()), (Some(FailureKind::Unauthorized), false));
    let requested = web.log.len();
    web.wait_and_serve(seconds(60), &mut site);
    assert_eq!(web.log.len(), requested, "no request is sent without a token");
    web.session.authorized(web.now).unwrap();
    web.collect();
    web.serve(&mut site);
    assert_eq!((web.is_ready(), web.keys(Family::Tools)), (true, vec!["a"]));
}

/// Messages that belong to a user's request use that user's token, too: a cancellation, a response to a server request.
#[test]
fn messages_about_a_request_name_that_request() {
    let mut web = connect(with_elicitation(legacy()), &mut site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.push(&call, server_request(1, "elicitation/create"));
    web.push(&call, server_request(2, "ping"));
    let answer = web.take_named("(answer)");
    assert_eq!((&answer.json()["id"], answer.of), (&json!(2), Some(request)));
    let ask = server_request_ids(&web)[0];
    web.session.respond(web.now, ask, Ok(&raw(&json!({"action": "decline"})))).unwrap();
    web.collect();
    assert_eq!(web.take_named("(answer)").of, Some(request));
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!(web.take_named(CANCELLED).of, Some(request));
}

/// A refresh of a list whose token expired is reported, and the list stays unchanged.
#[test]
fn an_unauthorized_refresh_is_reported_and_keeps_the_list() {
    let mut site = site();
    let mut web = ready(&mut site);
    web.session.refresh(web.now, Family::Tools).unwrap();
    web.collect();
    let list = web.take_named("tools/list");
    web.reply(&list, Reply::status(401).with("www-authenticate", "Bearer"));
    assert_eq!((unauthorized(&web).len(), web.is_ready(), web.keys(Family::Tools)), (1, true, vec!["a"]));
    web.wait_and_serve(seconds(60), &mut site);
    assert!(!web.session.family(Family::Tools).stale);
}

// Headers of the modern era.

fn typed() -> Value {
    let text = |name: &str| json!({"type": "string", "x-mcp-header": name});
    let schema = json!({
        "type": "object",
        "anyOf": [{"required": ["region"]}, true],
        "properties": {
            "region": text("Region"),
            "method": text("Method"),
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
            "plain": {"type": "string"},
            "deep": {"type": "object", "properties": {"er": {"type": "object", "properties": {"still": text("Still")}}}},
            "x-mcp-header": {"type": "string"}
        },
        "required": ["region", "method"],
        "allOf": [{"required": ["count"]}],
        "description": "after the arrays"
    });
    json!({"tools": [{"name": "typed", "inputSchema": schema}, {"name": "a", "inputSchema": {"type": "object"}}]})
}

/// The headers of a call with these arguments, without those of every request.
fn mirrored(web: &mut Web, name: &str, arguments: Value) -> Vec<(String, String)> {
    web.request(Request::call_tool(name, Some(&raw(&arguments))));
    let call = web.take_named("tools/call");
    let mut headers: Vec<_> = call
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
        .filter(|(name, _)| name.starts_with("mcp-param-"))
        .collect();
    headers.sort();
    headers
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (format!("mcp-param-{name}"), (*value).to_owned())).collect()
}

#[test]
fn headers_repeat_the_method_and_the_name() {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
    let mut site = Site::modern(capabilities)
        .result("tools/list", tools(&["a"]))
        .result("prompts/list", json!({"prompts": []}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}));
    let mut web = modern(&mut site);
    for exchange in &web.log {
        assert_eq!(exchange.header("mcp-method"), Some(&*exchange.name()));
        assert_eq!((exchange.header("mcp-name"), exchange.header(VERSION)), (None, Some("2026-07-28")));
    }
    let requests = [
        (tool("a"), Some("a")),
        (tool("two words"), Some("two words")),
        (tool("\u{65e5}\u{672c}\u{8a9e}"), Some("=?base64?5pel5pys6Kqe?=")),
        (tool("tab\there"), Some("=?base64?dGFiCWhlcmU=?=")),
        (tool("quote\"d"), Some("quote\"d")),
        (Request::get_prompt(" padded ", []), Some("=?base64?IHBhZGRlZCA=?=")),
        (Request::read_resource("file:///a%20b?c=d#e"), Some("file:///a%20b?c=d#e")),
        (Request::read_resource("=?base64?literal?="), Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")),
        (Request::complete(mcp_proto::Reference::Prompt("p"), "x", "y"), None),
        (Request::new("acme/do"), None),
        (Request::new("resources/read").params(raw(&json!({"uri": 7}))), None),
    ];
    for (request, name) in requests {
        web.request(request);
        let exchange = web.take_one();
        assert_eq!((exchange.header("mcp-method"), exchange.header("mcp-name")), (Some(&*exchange.name()), name));
        assert_eq!(exchange.header(SESSION), None);
    }
    web.session.notify(web.now, "acme/told", None).unwrap();
    web.collect();
    assert_eq!(web.take_one().header("mcp-method"), Some("acme/told"));
}

#[test]
fn headers_repeat_256_arguments_at_most() {
    let property = |at: usize| (format!("p{at}"), json!({"type": "integer", "x-mcp-header": format!("P{at}")}));
    let properties: serde_json::Map<_, _> = (0..300).map(property).collect();
    let schema = json!({"type": "object", "properties": properties});
    let list = json!({"tools": [{"name": "wide", "inputSchema": schema}]});
    let mut web = modern(&mut modern_site().result("tools/list", list));
    let arguments: serde_json::Map<_, _> = (0..300).map(|at| (format!("p{at}"), json!(at))).collect();
    assert_eq!(mirrored(&mut web, "wide", arguments.into()).len(), 256);
}

#[test]
fn headers_repeat_the_arguments_that_the_schema_annotates() {
    let mut web = modern(&mut modern_site().result("tools/list", typed()));
    assert_eq!(web.keys(Family::Tools), ["typed", "a"], "a parameter may have the name of the annotation");
    let whole = json!({
        "region": "us-west1", "method": "GET", "count": 42, "dry": false, "plain": "x",
        "deep": {"er": {"still": "here"}}, "x-mcp-header": "Nope"
    });
    let expected =
        [("count", "42"), ("dry-run", "false"), ("method", "GET"), ("region", "us-west1"), ("still", "here")];
    assert_eq!(mirrored(&mut web, "typed", whole), pairs(&expected));
    for (arguments, expected) in [
        (json!({}), &[][..]),
        (json!({"region": null, "count": null, "deep": null}), &[]),
        (json!({"deep": {"er": {}}, "unknown": 1}), &[]),
        (json!({"region": ""}), &[("region", "")]),
        (json!({"region": "us west 1"}), &[("region", "us west 1")]),
        (json!({"region": " us-west1"}), &[("region", "=?base64?IHVzLXdlc3Qx?=")]),
        (json!({"region": "line1\r\nline2"}), &[("region", "=?base64?bGluZTENCmxpbmUy?=")]),
        (json!({"region": "Hello, \u{4e16}\u{754c}"}), &[("region", "=?base64?SGVsbG8sIOS4lueVjA==?=")]),
        (json!({"count": -7}), &[("count", "-7")]),
        (json!({"count": 0, "dry": true}), &[("count", "0"), ("dry-run", "true")]),
        (json!({"region": [1], "dry": {}}), &[]),
        (json!({"count": 1e3}), &[("count", "1000")]),
        (json!({"count": 9_007_199_254_740_992_u64}), &[]),
    ] {
        assert_eq!(mirrored(&mut web, "typed", arguments.clone()), pairs(expected), "{arguments}");
    }
    assert_eq!(mirrored(&mut web, "a", json!({"region": "x"})), []);
    assert_eq!(mirrored(&mut web, "unlisted", json!({"region": "x"})), []);
}

/// A prompt may have the name of a tool.
#[test]
fn headers_do_not_repeat_the_arguments_of_a_prompt() {
    let site = Site::modern(json!({"tools": {}, "prompts": {}})).result("tools/list", typed());
    let mut web = modern(&mut site.result("prompts/list", json!({"prompts": [{"name": "typed"}]})));
    web.request(Request::get_prompt("typed", [("region", "x")]));
    let get = web.take_named("prompts/get");
    assert_eq!((get.header("mcp-name"), get.header("mcp-param-region")), (Some("typed"), None));
}

/// "Clients MUST use the most recently obtained `inputSchema`" (specification 2026-07-28, "Streamable HTTP").
#[test]
fn calls_use_the_latest_schema() {
    let mut web = modern(&mut modern_site());
    assert_eq!(mirrored(&mut web, "typed", json!({"region": "x"})), []);
    web.session.refresh(web.now, Family::Tools).unwrap();
    web.collect();
    let list = web.take_named("tools/list");
    let mut result = typed();
    result["resultType"] = json!("complete");
    web.reply(&list, Reply::json(200, &list.result(result)));
    assert_eq!(mirrored(&mut web, "typed", json!({"region": "x"})), pairs(&[("region", "x")]));
}

#[test]
fn a_legacy_server_gets_no_such_headers() {
    let mut web = ready(&mut site().result("tools/list", typed()));
    assert_eq!(mirrored(&mut web, "typed", json!({"region": "x"})), []);
    let call = web.last("tools/call");
    assert_eq!((call.header("mcp-method"), call.header("mcp-name")), (None, None));
}

/// The name is valid, but `HeaderName` has a limit.
#[test]
fn an_argument_whose_header_has_too_long_a_name_is_not_repeated() {
    let header = |name: &str| json!({"type": "string", "x-mcp-header": name});
    let schema = json!({"type": "object", "properties": {"a": header(&"x".repeat(70_000)), "b": header("B")}});
    let list = json!({"tools": [{"name": "long", "inputSchema": schema}]});
    let mut web = modern(&mut modern_site().result("tools/list", list));
    assert_eq!(mirrored(&mut web, "long", json!({"a": "x", "b": "y"})), pairs(&[("b", "y")]));
}

/// A legacy server may annotate its schemas as it likes, and its list stays until the modern one is complete.
#[test]
fn a_schema_whose_annotations_are_invalid_repeats_no_arguments_after_a_change_of_the_era() {
    let header = json!({"type": "string", "x-mcp-header": "Same"});
    let schema = json!({"type": "object", "properties": {"one": header, "two": header}});
    let list = json!({"tools": [{"name": "odd", "inputSchema": schema}]});
    let mut web = connect(reconnecting(options()), &mut Site::legacy(json!({"tools": {}})).result("tools/list", list));
    web.request(tool("odd"));
    let call = web.take_named("tools/call");
    web.end_with(&call, Reply::json(400, &call.error(-32022, "Unsupported protocol version")));
    let mut upgraded = Site::modern(json!({"tools": {}})).error("tools/list", -32603, "not now");
    web.wait_and_serve(seconds(5), &mut upgraded);
    assert_eq!(web.session.server().map(mcp_proto::Server::era), Some(mcp_proto::Era::Modern));
    assert_eq!(web.keys(Family::Tools), ["odd"]);
    assert_eq!(mirrored(&mut web, "odd", json!({"one": "x", "two": "y"})), []);
}

fn mismatch(exchange: &Exchange) -> Reply {
    Reply::json(400, &exchange.error(-32020, "Header mismatch: Mcp-Param-Region is missing"))
}

#[test]
fn a_header_mismatch_refreshes_the_tools_and_sends_the_call_once_more() {
    for changes in [true, false] {
        let listed = if changes { typed() } else { tools(&["typed"]) };
        let mut site = modern_site().result("tools/list", tools(&["typed"]));
        let mut web = modern(&mut site);
        let mut site = modern_site().result("tools/list", listed);
        let request = web.request(Request::call_tool("typed", Some(&raw(&json!({"region": "x"})))));
        let call = web.take_named("tools/call");
        assert_eq!(call.header("mcp-param-region"), None);
        web.reply(&call, mismatch(&call));
        let list = web.take_named("tools/list");
        web.end_with(&list, site.reply(&list));
        let again = web.take_named("tools/call");
        assert_eq!(again.header("mcp-param-region"), changes.then_some("x"));
        assert_ne!(again.json()["id"], call.json()["id"]);
        assert_eq!((again.of, web.outcome(request)), (Some(request), "open".into()));
        // Only once: the second refusal is the outcome.
        web.reply(&again, mismatch(&again));
        assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
        assert_eq!((web.take().len(), web.is_ready()), (0, true));
    }
}

/// Only a refusal status means that the call did not run.
#[test]
fn a_header_mismatch_with_a_success_status_ends_the_call() {
    for status in [200, 500] {
        let mut web = modern(&mut modern_site());
        let (request, call) = web.call("a");
        web.reply(&call, Reply { status, ..mismatch(&call) });
        assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
        assert_eq!((web.take().len(), web.is_ready()), (0, true), "{status}");
    }
}

#[test]
fn a_header_mismatch_ends_the_call_if_the_list_fails() {
    let mut web = modern(&mut modern_site());
    let (request, call) = web.call("a");
    web.reply(&call, mismatch(&call));
    let list = web.take_named("tools/list");
    assert_eq!(web.outcome(request), "open");
    web.reply(&list, Reply::json(200, &list.error(-32603, "not now")));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
    assert_eq!((web.is_ready(), web.keys(Family::Tools)), (true, vec!["a"]));
}

/// Two calls wait for one list. A prompt has no such schema.
#[test]
fn header_mismatches_of_several_calls_refresh_the_tools_once() {
    let mut site = modern_site();
    let mut web = modern(&mut site);
    let calls = [web.call("a"), web.call("a")];
    for (_, call) in &calls {
        web.reply(call, mismatch(call));
    }
    let list = web.take_named("tools/list");
    web.end_with(&list, site.reply(&list));
    web.serve(&mut site);
    assert!(calls.iter().all(|(request, _)| was_answered(&web, *request)));

    let mut site = Site::modern(json!({"prompts": {}})).result("prompts/list", json!({"prompts": []}));
    let mut web = modern(&mut site);
    let request = web.request(Request::get_prompt("p", []));
    let exchange = web.take_one();
    web.reply(&exchange, mismatch(&exchange));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
    assert!(web.take().is_empty());
}

/// Each round of a request with input requests is a new request with the same headers.
#[test]
fn a_request_that_needs_input_is_sent_again_with_a_new_id() {
    let mut web = connect(with_elicitation(options()), &mut modern_site().result("tools/list", typed()));
    let request = web.request(Request::call_tool("typed", Some(&raw(&json!({"region": "x"})))));
    let call = web.take_one();
    let inputs = json!({"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}});
    let wanted = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
    web.reply(&call, Reply::json(200, &call.result(wanted)));
    assert_eq!((web.outcome(request), web.take().len()), ("open".into(), 0));
    web.session.provide(web.now, request, [("q", &*raw(&json!({"action": "accept", "content": {}})))]).unwrap();
    web.collect();
    let again = web.take_one();
    assert_eq!((again.headers(), again.of), (call.headers(), Some(request)));
    assert_ne!(again.json()["id"], call.json()["id"]);
    assert_eq!(again.json()["params"]["requestState"], "s");
}

/// A session id from a modern server is ignored (specification 2026-07-28, "Streamable HTTP").
#[test]
fn a_session_id_of_a_modern_server_is_ignored() {
    let mut site = modern_site().map_replies(|_, reply| reply.with(SESSION, "stray"));
    let mut web = modern(&mut site);
    let request = web.request(tool("a"));
    web.serve(&mut site);
    assert!(was_answered(&web, request));
    web.close();
    assert_eq!((web.cause(), web.count("DELETE"), web.count("GET")), (Some(&Cause::Requested), 0, 0));
    assert!(web.log.iter().all(|exchange| exchange.header(SESSION).is_none()));
    // A 404 is not an expired session then.
    let mut web = modern(&mut modern_site().map_replies(|_, reply| reply.with(SESSION, "stray")));
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(404));
    assert!(matches!(web.result_of(request), Outcome::Error(_)) && web.is_ready());
}

// Cancellation.

#[test]
fn a_cancellation_in_the_modern_era_drops_the_exchange() {
    for begun in [None, Some(&STREAM), Some(&JSON)] {
        let mut web = modern(&mut modern_site());
        let (request, call) = web.call("a");
        if let Some(headers) = begun {
            web.head(&call, 200, headers);
            web.body(&call, if headers == &JSON { "{\"jsonrpc\":" } else { ": working\n\n" });
        }
        web.session.cancel(web.now, request).unwrap();
        web.collect();
        assert!(web.was_dropped(&call));
        assert_eq!((web.outcome(request), web.take().len()), ("Cancelled".into(), 0));
        web.wait(seconds(3600));
        assert_eq!((web.count(CANCELLED), web.is_ready()), (0, true));
    }
}

#[test]
fn a_cancellation_in_the_legacy_era_is_also_sent() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert!(web.was_dropped(&call));
    let cancelled = web.take_named(CANCELLED);
    assert_eq!(cancelled.json()["params"]["requestId"], call.json()["id"]);
    assert_eq!((web.outcome(request), cancelled.header(SESSION)), ("Cancelled".into(), Some("session-1")));
    web.reply(&cancelled, Reply::status(202));
    assert!(web.is_ready() && web.quirks().is_empty());
}

#[test]
fn a_timeout_is_handled_like_a_cancellation() {
    for (options, mut site, said) in [(legacy(), site(), 1), (options(), modern_site(), 0)] {
        let mut web = connect(options, &mut site);
        let request = web.request(tool("a").timeout(seconds(10)));
        let call = web.take_one();
        web.head(&call, 200, &STREAM);
        web.body(&call, ": working\n\n");
        web.wait(millis(9_999));
        assert_eq!((web.outcome(request), web.is_open(&call)), ("open".into(), true));
        web.wait(millis(1));
        assert_eq!((web.outcome(request), web.was_dropped(&call)), ("TimedOut".into(), true));
        assert_eq!((web.count(CANCELLED), web.is_ready()), (said, true));
    }
}

/// A request that waits to be sent again ends with its cancellation: nothing is scheduled.
#[test]
fn cancelling_a_waiting_retry_sends_nothing() {
    let waits: [fn(&mut Web, &Exchange); 2] = [
        |web, call| web.reply(call, Reply::status(503).with("retry-after", "30")),
        |web, call| {
            web.reply(call, Reply::stream("id: 7\nretry: 30000\ndata:\n\n"));
            web.end(call);
        },
    ];
    for wait in waits {
        let mut web = ready(&mut site());
        let (request, call) = repeatable(&mut web);
        wait(&mut web, &call);
        assert_eq!(web.outcome(request), "open");
        web.session.cancel(web.now, request).unwrap();
        web.collect();
        web.wait(seconds(60));
        assert_eq!((web.outcome(request), web.count("tools/call"), web.count("GET")), ("Cancelled".into(), 1, 1));
    }
}

/// The exchange that resumes a stream ends with the cancellation, too.
#[test]
fn cancelling_a_resumed_request_drops_its_exchange() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.reply(&call, Reply::stream("id: 7\ndata:\n\n"));
    web.end(&call);
    web.wait(seconds(1));
    let resumed = web.take_named("GET");
    web.head(&resumed, 200, &STREAM);
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert!(web.was_dropped(&resumed));
    assert_eq!(web.take_named(CANCELLED).json()["params"]["requestId"], call.json()["id"]);
}

// Subscriptions of the modern era.

fn changing() -> Site {
    Site::modern(json!({"tools": {"listChanged": true}})).result("tools/list", tools(&["a"]))
}

fn tools_changed(listen: &Exchange) -> Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.json()["id"]});
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})
}

#[test]
fn a_subscription_is_a_long_post() {
    let mut site = changing();
    let mut web = modern(&mut site);
    let listen = web.last(LISTEN);
    assert_eq!((listen.verb(), listen.header("mcp-method"), listen.header("mcp-name")), ("POST", Some(LISTEN), None));
    assert!(web.is_open(&listen) && web.session.family(Family::Tools).watched);
    web.wait_and_serve(seconds(5), &mut site);
    site = site.result("tools/list", tools(&["a", "b"]));
    web.push(&listen, tools_changed(&listen));
    web.wait_and_serve(seconds(5), &mut site);
    assert_eq!(web.keys(Family::Tools), ["a", "b"]);
    // It has no deadline.
    web.wait_and_serve(seconds(86_400), &mut site);
    assert!(web.is_open(&listen));
    assert_eq!((web.count(LISTEN), web.quirks(), web.open.len()), (1, vec![], 1));
    web.close();
    assert!(web.was_dropped(&listen));
    assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));
}

#[test]
fn a_subscription_that_ends_is_reopened_and_the_lists_are_refreshed() {
    let ends: [fn(&mut Web, &Exchange); 4] = [
        |web, listen| web.end(listen),
        |web, listen| web.fail(listen, Broken::Midway),
        |web, listen| {
            web.push(listen, listen.result(json!({"resultType": "complete"})));
            web.end(listen);
        },
        |web, listen| {
            let params = json!({"requestId": listen.json()["id"]});
            web.push(listen, json!({"jsonrpc": "2.0", "method": CANCELLED, "params": params}));
            if web.is_open(listen) {
                web.end(listen);
            }
        },
    ];
    for end in ends {
        let mut site = changing();
        let mut web = modern(&mut site);
        web.wait_and_serve(seconds(5), &mut site);
        let (listen, walks) = (web.last(LISTEN), site.server.received("tools/list"));
        end(&mut web, &listen);
        assert!(!web.session.family(Family::Tools).watched);
        site = site.result("tools/list", tools(&["b"]));
        web.wait_and_serve(seconds(5), &mut site);
        let again = web.last(LISTEN);
        assert!(again.id != listen.id && web.is_open(&again));
        assert!(again.json()["id"].as_u64() > listen.json()["id"].as_u64());
        assert_eq!(again.header(LAST_ID), None);
        assert_eq!((web.count(LISTEN), web.keys(Family::Tools)), (2, vec!["b"]));
        assert!(site.server.received("tools/list") > walks && web.session.family(Family::Tools).watched);
        assert!(web.is_ready() && web.quirks().is_empty());
    }
}

#[test]
fn a_subscription_that_is_not_needed_any_more_is_dropped_silently() {
    let mut site = Site::modern(json!({"resources": {"subscribe": true}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}));
    let mut web = modern(&mut site);
    assert_eq!(web.count(LISTEN), 0);
    web.session.subscribe(web.now, "x:1").unwrap();
    web.collect();
    let listen = web.last(LISTEN);
    web.serve(&mut site);
    assert_eq!(listen.json()["params"]["notifications"]["resourceSubscriptions"], json!(["x:1"]));
    web.session.unsubscribe(web.now, "x:1").unwrap();
    web.collect();
    web.wait_and_serve(seconds(60), &mut site);
    assert!(web.was_dropped(&listen) && web.open.is_empty());
    assert_eq!((web.count(CANCELLED), web.count(LISTEN)), (0, 1));
}

// The GET stream of the legacy era.

#[test]
fn the_get_stream_is_requested_after_initialized_was_accepted() {
    let mut site = site();
    let mut web = Web::open(legacy());
    let initialize = web.take_named("initialize");
    web.end_with(&initialize, site.reply(&initialize));
    let initialized = web.take_named(INITIALIZED);
    web.head(&initialized, 202, &[]);
    let requested = web.take();
    let names: Vec<_> = requested.iter().map(Exchange::name).collect();
    assert_eq!(names, ["GET", "tools/list"]);
    let stream = &requested[0];
    assert_eq!((stream.header(LAST_ID), stream.of, stream.url()), (None, None, URL.into()));
    assert_eq!((stream.header(SESSION), stream.header(VERSION)), (Some("session-1"), Some("2025-11-25")));
}

/// A server that hangs on every request while the stream is open.
#[test]
fn without_listen_no_get_stream_is_requested_and_calls_do_not_wait_for_one() {
    let mut site = site();
    let mut options = legacy();
    options.listen = false;
    let mut web = Web::connect(options, &mut site);
    assert!(web.is_ready());
    let request = web.request(tool("a"));
    let call = web.take_named("tools/call");
    web.end_with(&call, site.reply(&call));
    assert!(was_answered(&web, request));
    web.wait_and_serve(seconds(600), &mut site);
    assert_eq!((web.count("GET"), web.is_ready()), (0, true));
}

#[test]
fn server_messages_arrive_on_the_get_stream() {
    let mut site = Site::legacy(json!({"tools": {"listChanged": true}})).result("tools/list", tools(&["a"]));
    let mut web = ready(&mut site);
    let stream = web.last("GET");
    web.push(&stream, json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    let answer = web.take_named("(answer)");
    assert_eq!((answer.json()["id"].as_str(), answer.of), (Some("p"), None));
    web.reply(&answer, Reply::status(202));
    site = site.result("tools/list", tools(&["b"]));
    web.push(&stream, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    web.wait_and_serve(seconds(2), &mut site);
    assert_eq!(web.keys(Family::Tools), ["b"]);
    assert!(web.is_open(&stream) && web.quirks().is_empty());
}

/// A response on the GET stream violates the specification, and is accepted.
#[test]
fn a_response_on_the_get_stream_is_accepted() {
    let mut web = ready(&mut site());
    let stream = web.last("GET");
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.push(&stream, call.result(json!({"content": []})));
    web.end(&call);
    assert!(was_answered(&web, request) && web.is_ready());
    assert_eq!(web.count("tools/call"), 1);
}

/// Deadlines that are due are served before an input of the same time.
#[test]
fn a_response_that_ends_at_the_deadline_of_its_call_is_late() {
    type Headers = &'static [(&'static str, &'static str)];
    type Body = fn(&Exchange) -> String;
    let text: Body = |_| "no".to_owned();
    let expired: Body = |call| call.error(-32001, "Session not found").to_string();
    let error: Body = |call| call.error(-32602, "no").to_string();
    let cases: [(u16, Headers, Body); 7] = [
        (400, &JSON, error),
        (400, &[], text),
        (401, &[("www-authenticate", "Bearer")], text),
        (404, &[], text),
        (503, &[("retry-after", "1")], text),
        (200, &JSON, expired),
        (200, &JSON, text),
    ];
    let assert_late = |web: &Web, request, what: &str| {
        let finished = web.events.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        assert_eq!((&*web.outcome(request), finished), ("TimedOut", 1), "{what}");
        assert_eq!((web.count("tools/call"), web.count("initialize")), (1, 1), "{what}");
        assert!(
            web.is_ready() && !web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. })),
            "{what}"
        );
    };
    for (status, headers, body) in cases {
        let mut web = ready(&mut site());
        let request = web.request(tool("a").timeout(seconds(5)));
        let call = web.take_named("tools/call");
        web.head(&call, status, headers);
        web.body(&call, body(&call));
        web.now = web.now + seconds(5);
        web.end(&call);
        web.wait(seconds(30));
        assert_late(&web, request, &format!("{status} {}", body(&call)));
    }
    let mut web = ready(&mut site());
    let request = web.request(tool("a").timeout(seconds(5)));
    let call = web.take_named("tools/call");
    web.now = web.now + seconds(5);
    web.fail(&call, Broken::Midway);
    assert_late(&web, request, "broken");
}

/// Another event of the stream is about a request that has ended.
#[test]
fn an_error_about_the_session_behind_the_response_to_a_call_is_ignored() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    let messages = [call.result(json!({"content": []})), call.error(-32001, "Session not found")];
    web.reply(&call, Reply::events(&messages).unfinished());
    assert!(was_answered(&web, request) && web.is_ready());
    assert_eq!((web.count("initialize"), web.count("tools/call")), (1, 1));
}

#[test]
fn a_get_stream_that_ends_is_reopened_after_the_servers_retry_time() {
    for (text, wait, last_id) in [
        ("", 1000, None),
        ("id: 3\ndata:\n\n", 1000, Some("3")),
        ("retry: 2500\nid: 3\ndata:\n\nid: 4\ndata:\n\n", 2500, Some("4")),
        ("id: 3\ndata:\n\nid:\ndata:\n\n", 1000, None),
        ("retry: nonsense\n\n", 1000, None),
    ] {
        for broken in [None, Some(Broken::Midway)] {
            let mut web = ready(&mut site());
            let stream = web.last("GET");
            web.body(&stream, text);
            match broken {
                None => web.end(&stream),
                Some(broken) => web.fail(&stream, broken),
            }
            web.wait(millis(wait - 1));
            assert!(web.take().is_empty(), "{text:?}");
            web.wait(millis(1));
            let again = web.take_named("GET");
            assert_eq!((again.header(LAST_ID), again.header(SESSION)), (last_id, Some("session-1")), "{text:?}");
            assert!(web.is_ready() && web.quirks().is_empty());
        }
    }
}

/// A stream that ends immediately is reopened with a backoff.
#[test]
fn a_get_stream_that_ends_repeatedly_is_reopened_with_a_backoff() {
    let mut site = site().on("GET", |_| Reply::events(&[]));
    let mut web = ready(&mut site);
    web.wait_and_serve(seconds(3600), &mut site);
    assert!(web.is_ready());
    assert!(web.count("GET") <= 120, "{} times in an hour", web.count("GET"));
}

/// The requests of 10 s for the stream of this server, and their times.
fn streams_in_ten_seconds(text: &'static str) -> Vec<Duration> {
    let mut web = ready(&mut site());
    let since = web.now;
    let mut times = Vec::new();
    let mut stream = web.last("GET");
    loop {
        web.head(&stream, 200, &[("content-type", "text/event-stream")]);
        web.body(&stream, text);
        web.end(&stream);
        let next = web.session.deadline().filter(|at| at.since(since) <= seconds(10));
        let Some(next) = next else { return times };
        web.wait(next.since(web.now));
        times.push(web.now.since(since));
        stream = web.take_named("GET");
    }
}

#[test]
fn a_get_stream_that_ends_at_once_whatever_retry_it_names_is_requested_five_times_in_ten_seconds_at_most() {
    for (text, first) in [("", 1000), ("retry: 0\n\n", 100), ("retry: 100\n\n", 100), (": hello\n\n", 1000)] {
        let times = streams_in_ten_seconds(text);
        assert!(times.len() <= 5 && times[0] == millis(first), "{text:?}: {times:?}");
    }
    // Where the server names more, that is the wait.
    assert_eq!(streams_in_ten_seconds("retry: 6000\n\n"), [seconds(6)]);
    // A stream with messages is requested again as the server says.
    let message = "retry: 500\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n";
    assert_eq!(streams_in_ten_seconds(message).len(), 20);
}

#[test]
fn a_resumed_stream_that_brings_nothing_five_times_in_a_row_ends_its_call_as_unknown() {
    for (text, brings) in [("", false), ("retry: 0\n\n", false), ("id: 7\ndata:\n\n", false), ("id: 8", true)] {
        let mut options = legacy();
        options.listen = false;
        let mut web = Web::connect(options, &mut site());
        let (request, call) = web.call("a");
        web.head(&call, 200, &[("content-type", "text/event-stream")]);
        web.body(&call, "id: 7\nretry: 0\ndata:\n\n");
        web.end(&call);
        let (since, mut times) = (web.now, Vec::new());
        while web.outcome(request) == "open" && times.len() < 20 {
            let next = web.session.deadline().unwrap();
            web.wait(next.since(web.now));
            let stream = web.take_named("GET");
            times.push(web.now.since(since).as_millis());
            web.head(&stream, 200, &[("content-type", "text/event-stream")]);
            let further = format!("{text}{}\ndata:\n\n", times.len());
            web.body(&stream, if brings { &further } else { text });
            web.end(&stream);
        }
        if brings {
            assert_eq!((web.outcome(request), times.len()), ("open".into(), 20), "{times:?}");
        } else {
            assert_eq!(times, [100, 2_100, 6_100, 14_100, 30_100], "{text:?}");
            assert_eq!(web.outcome(request), "Unknown");
            assert!(web.is_ready());
        }
    }
}

#[test]
fn a_get_stream_that_is_temporarily_refused_is_requested_again() {
    let mut web = ready(&mut site());
    let stream = web.last("GET");
    web.end(&stream);
    for _ in 0..3 {
        web.wait(seconds(60));
        let again = web.take_named("GET");
        web.fail(&again, Broken::Unreachable);
        assert!(web.is_ready());
    }
}

/// Server requests during a call may arrive on the GET stream, so the first call waits for it, within a limit.
fn before_the_stream() -> (Web, Exchange, Site) {
    let mut site = Site::legacy(json!({"tools": {}, "resources": {}}))
        .result("tools/list", tools(&["a"]))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("tools/call", json!({"content": []}));
    let mut web = Web::open(with_elicitation(legacy()));
    let mut stream = None;
    let mut steps = Steps::until("the session is ready and requested a stream");
    while stream.is_none() || !web.is_ready() {
        steps.step();
        for exchange in web.take() {
            if exchange.is("GET") {
                stream = Some(exchange);
            } else {
                web.end_with(&exchange, site.reply(&exchange));
            }
        }
    }
    (web, stream.unwrap(), site)
}

#[test]
fn a_call_waits_for_the_get_stream() {
    let (mut web, stream, mut site) = before_the_stream();
    let reading = web.request(Request::read_resource("x:1"));
    assert_eq!(web.take_named("resources/read").of, Some(reading));
    let request = web.request(tool("a"));
    web.wait(millis(300));
    assert!(web.take().is_empty());
    web.head(&stream, 200, &STREAM);
    let call = web.take_named("tools/call");
    web.push(&stream, server_request(1, "elicitation/create"));
    let ask = server_request_ids(&web)[0];
    web.session.respond(web.now, ask, Ok(&raw(&json!({"action": "decline"})))).unwrap();
    web.collect();
    let answer = web.take_named("(answer)");
    web.reply(&answer, Reply::status(202));
    web.end_with(&call, site.reply(&call));
    assert!(was_answered(&web, request));
}

#[test]
fn a_call_waits_for_the_get_stream_half_a_second_at_most() {
    let (mut web, _, _) = before_the_stream();
    web.request(tool("a"));
    web.wait(millis(499));
    assert!(web.take().is_empty());
    web.wait(millis(1));
    web.take_named("tools/call");

    let (mut web, _, _) = before_the_stream();
    web.wait(millis(500));
    web.call("a");
}

#[test]
fn a_call_does_not_wait_for_a_refused_or_broken_get_stream() {
    let (mut web, stream, _) = before_the_stream();
    web.request(tool("a"));
    web.head(&stream, 405, &[]);
    web.take_named("tools/call");

    let (mut web, stream, _) = before_the_stream();
    web.request(tool("a"));
    web.fail(&stream, Broken::Midway);
    web.take_named("tools/call");
}

#[test]
fn a_call_that_waits_for_the_get_stream_can_be_cancelled() {
    let (mut web, stream, _) = before_the_stream();
    let request = web.request(tool("a"));
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!((web.outcome(request), web.take().len()), ("Cancelled".into(), 0));
    web.head(&stream, 200, &STREAM);
    assert!(web.take().is_empty());
}

/// Events do not wait.
#[test]
fn a_call_that_waits_for_the_get_stream_delays_no_event() {
    let (mut web, _, _) = before_the_stream();
    let reading = web.request(Request::read_resource("x:1"));
    let read = web.take_one();
    web.request(tool("a"));
    web.reply(&read, Reply::json(200, &read.result(json!({"contents": []}))));
    assert!(was_answered(&web, reading));
    assert!(web.take().is_empty());
}

// Messages on the stream of a request.

#[test]
fn server_requests_and_notifications_precede_the_response() {
    let mut web = connect(with_elicitation(legacy()), &mut site());
    let request = web.request(tool("a").progress(true));
    let call = web.take_one();
    web.head(&call, 200, &STREAM);
    let token = call.json()["params"]["_meta"]["progressToken"].clone();
    let progress = json!({"progressToken": token, "progress": 1});
    web.push(&call, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
    web.push(&call, server_request(1, "elicitation/create"));
    assert!(web.events.iter().any(|event| matches!(event, Event::Progress { request: of, .. } if *of == request)));
    let ask = server_request_ids(&web)[0];
    web.session.respond(web.now, ask, Ok(&raw(&json!({"action": "accept", "content": {}})))).unwrap();
    web.collect();
    let answer = web.take_named("(answer)");
    assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {}}}));
    assert_eq!(answer.header(SESSION), Some("session-1"));
    web.push(&call, server_request(2, "sampling/createMessage"));
    assert_eq!(web.take_named("(answer)").json()["error"]["code"], -32601);
    web.push(&call, call.result(json!({"content": []})));
    assert!(was_answered(&web, request));
    if web.is_open(&call) {
        web.end(&call);
    }
    assert!(web.quirks().is_empty());
}

/// Server requests are forbidden there ("MUST NOT", specification 2026-07-28, "Streamable HTTP"), and get no response.
#[test]
fn a_server_request_in_the_modern_era_gets_no_response() {
    let mut web = connect(with_elicitation(options()), &mut modern_site());
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.push(&call, server_request(1, "elicitation/create"));
    web.push(&call, call.result(json!({"resultType": "complete", "content": []})));
    assert!(was_answered(&web, request) && web.take().is_empty());
}

/// Revision 2025-03-26 allows batches in a body and in an event. The client never sends one.
#[test]
fn the_messages_of_a_batch_are_handled_one_by_one() {
    for by_stream in [false, true] {
        let answer = json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
        let mut web = ready(&mut site().result("initialize", answer));
        let (request, call) = web.call("a");
        let batch = json!([
            {"jsonrpc": "2.0", "id": 7, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/x"},
            call.result(json!({"content": []})),
        ]);
        web.reply(&call, if by_stream { Reply::events(&[batch]) } else { Reply::json(200, &batch) });
        assert!(was_answered(&web, request) && web.quirks().is_empty(), "{:?}", web.session.quirks());
        assert_eq!(web.take_named("(answer)").json()["id"], 7);
    }
}

/// A stream that stays open after the response is dropped after a time.
#[test]
fn a_stream_that_stays_open_after_its_response_is_dropped() {
    let mut web = ready(&mut site());
    let mut calls = vec![];
    for _ in 0..20 {
        let (request, call) = web.call("a");
        web.head(&call, 200, &STREAM);
        web.push(&call, call.result(json!({"content": []})));
        assert!(was_answered(&web, request));
        calls.push(call);
    }
    web.wait(seconds(60));
    assert!(calls.iter().all(|call| web.was_dropped(call)), "{} are still open", web.open.len());
    assert!(web.is_open(&web.last("GET")));
}

// Busy servers.

/// A call that may be sent again although it may have run, and its exchange.
fn repeatable(web: &mut Web) -> (mcp_proto::RequestId, Exchange) {
    let request = web.request(tool("a").replay(true));
    (request, web.take_one())
}

/// A server with a resource.
fn library() -> Site {
    Site::legacy(json!({"resources": {}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/read", json!({"contents": []}))
}

#[test]
fn after_each_refusal_a_busy_server_is_left_alone_at_least_twice_as_long() {
    for (after, waits) in [("0", [100, 200, 400, 800, 1600, 3200]), ("3", [3000, 6000, 12_000, 24_000, 48_000, 96_000])]
    {
        for status in [429, 503] {
            let mut site = library();
            let mut web = ready(&mut site);
            let request = web.request(Request::read_resource("x:1").timeout(seconds(600)));
            let mut read = web.take_one();
            for wait in waits {
                web.reply(&read, Reply::status(status).with("retry-after", after));
                web.wait(millis(wait - 1));
                assert!(web.take().is_empty(), "{status} {after} {wait}");
                web.wait(millis(1));
                read = web.take_one();
            }
            web.end_with(&read, site.reply(&read));
            assert!(was_answered(&web, request), "{status} {after}");
            // The next request is another one.
            web.request(Request::read_resource("x:1"));
            let read = web.take_one();
            web.reply(&read, Reply::status(status).with("retry-after", after));
            web.wait(millis(waits[0]));
            assert_eq!(web.take_names(), ["resources/read"]);
        }
    }
}

/// A gateway may answer for a server that runs the call.
#[test]
fn a_call_answered_503_with_retry_after_ends_with_the_status_unless_it_may_be_sent_again() {
    for (options, mut site) in [(legacy(), site()), (options(), modern_site())] {
        let mut web = connect(options, &mut site);
        let (request, call) = web.call("a");
        web.reply(&call, Reply::text(503, "try later").with("retry-after", "1"));
        let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
        assert!(error.to_string().contains("503") && error.to_string().contains("try later"), "{error}");
        web.wait(seconds(60));
        assert_eq!((web.count("tools/call"), web.is_ready()), (1, true));
        // It did not run.
        let (_, call) = web.call("a");
        web.reply(&call, Reply::status(429).with("retry-after", "1"));
        web.wait(seconds(1));
        assert_eq!(web.count("tools/call"), 3);
    }
    // One that may run twice is sent as often as after a loss.
    let mut site = site().on("tools/call", |_| Reply::status(503).with("retry-after", "1"));
    let mut web = ready(&mut site);
    let request = web.request(tool("a").replay(true));
    web.serve(&mut site);
    web.wait_and_serve(seconds(10), &mut site);
    assert_eq!((web.count("tools/call"), web.outcome(request)), (3, "Error".into()));
    let mut site = library().first("resources/read", 2, |_| Reply::status(503).with("retry-after", "1"));
    let mut web = ready(&mut site);
    let request = web.request(Request::read_resource("x:1"));
    web.serve(&mut site);
    web.wait_and_serve(seconds(3), &mut site);
    assert!(was_answered(&web, request), "what only reads goes again");
    // A busy server is no loss.
    let mut site = library().first("resources/read", 3, |_| Reply::status(503).with("retry-after", "1"));
    let mut web = ready(&mut site);
    let request = web.request(Request::read_resource("x:1"));
    web.serve(&mut site);
    web.wait(seconds(1));
    for wait in [2, 4] {
        let call = web.take().pop().unwrap();
        web.reply(&call, Reply::status(503).with("retry-after", "1"));
        web.wait(seconds(wait));
    }
    let call = web.take().pop().unwrap();
    web.fail(&call, Broken::Midway);
    web.wait_and_serve(seconds(10), &mut library());
    assert!(was_answered(&web, request), "{:?}", web.ended(request));
}

#[test]
fn a_busy_server_gets_the_request_again_after_retry_after_seconds() {
    for status in [429, 503] {
        for (after, wait) in [("3", 3000), (" 2 ", 2000), ("0", 100), ("soon", 1000), ("", 1000), ("  ", 1000)] {
            let mut site = site();
            let mut web = ready(&mut site);
            let (request, call) = repeatable(&mut web);
            web.reply(&call, Reply::text(status, "slow down").with("retry-after", after));
            assert_eq!(web.outcome(request), "open");
            web.wait(millis(wait - 1));
            assert!(web.take().is_empty(), "{after}");
            web.wait(millis(1));
            let again = web.take_named("tools/call");
            assert_eq!((again.headers(), again.of), (call.headers(), Some(request)));
            assert_eq!(again.json()["params"]["name"], call.json()["params"]["name"]);
            web.end_with(&again, site.reply(&again));
            assert!(was_answered(&web, request) && web.quirks().is_empty());
        }
    }
}

/// No id is used twice on a connection (specification 2025-11-25, "Requests"), even if the first message was not
/// processed.
#[test]
fn a_resent_message_has_a_new_id_for_progress_and_cancellation() {
    for status in [429, 503] {
        for (options, mut site) in [(legacy(), site()), (options(), modern_site())] {
            let is_legacy = options.eras == legacy().eras;
            let mut web = connect(options, &mut site);
            let busy = || Reply::status(status).with("retry-after", "1");
            let request = web.request(tool("a").progress(true).replay(true));
            let call = web.take_one();
            web.reply(&call, busy());
            web.wait(seconds(1));
            let again = web.take_named("tools/call");
            web.reply(&again, busy());
            web.wait(seconds(2));
            let third = web.take_named("tools/call");
            let ids = [&call, &again, &third].map(|exchange| exchange.json()["id"].as_u64().unwrap());
            assert!(ids[0] < ids[1] && ids[1] < ids[2], "{ids:?}");
            assert_eq!(third.of, Some(request));
            let token = &third.json()["params"]["_meta"]["progressToken"];
            assert_eq!(token.as_u64(), Some(ids[2]));
            // Progress with the new token belongs to the request.
            web.head(&third, 200, &[("content-type", "text/event-stream")]);
            let progress = json!({"progressToken": token, "progress": 1});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress});
            web.push(&third, progress);
            let told = |event: &&Event| matches!(event, Event::Progress { request: of, .. } if *of == request);
            assert_eq!(web.events.iter().filter(told).count(), 1);
            // The end of its exchange and the cancellation belong to it, too.
            web.session.cancel(web.now, request).unwrap();
            web.collect();
            assert!(web.was_dropped(&third));
            assert_eq!(web.outcome(request), "Cancelled");
            if is_legacy {
                let cancelled = web.take_named("notifications/cancelled");
                assert_eq!(cancelled.json()["params"]["requestId"].as_u64(), Some(ids[2]));
            }
            assert!(web.quirks().is_empty());
        }
    }
}

#[test]
fn a_resent_message_of_the_engine_has_a_new_id() {
    for (options, site, names) in [
        (legacy(), site(), &["initialize", "tools/list"][..]),
        (options(), changing(), &["server/discover", "tools/list", "subscriptions/listen"]),
    ] {
        let mut site =
            names.iter().fold(site, |site, name| site.first(name, 2, |_| Reply::status(429).with("retry-after", "2")));
        let mut web = Web::connect(options, &mut site);
        web.wait_and_serve(seconds(120), &mut site);
        assert!(web.is_ready(), "{:?}", web.failure());
        assert_eq!((web.count(names[0]), web.quirks()), (3, vec![]));
        for name in names {
            assert!(web.count(name) >= 3, "{name}");
        }
        let posts = web.log.iter().filter(|exchange| exchange.verb() == "POST");
        let ids: Vec<_> = posts.filter_map(|exchange| exchange.json()["id"].as_u64()).collect();
        assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
    }
}

/// A message that waits to be sent again is removed with its request.
#[test]
fn a_cancelled_message_that_waits_to_be_resent_leaves_nothing() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(429).with("retry-after", "30"));
    let (resumed, call) = web.call("a");
    web.reply(&call, Reply::events(&[]).body("text/event-stream", "id: 1\nretry: 30000\ndata:\n\n"));
    for request in [request, resumed] {
        web.session.cancel(web.now, request).unwrap();
        web.collect();
    }
    for cancelled in web.take() {
        web.reply(&cancelled, Reply::status(202));
    }
    assert_eq!(web.session.deadline(), None);
}

/// A server that is too busy for a keepalive request is alive: it has answered.
#[test]
fn a_busy_server_has_answered_a_keepalive_request() {
    for (status, header) in [(429, "retry-after"), (503, "retry-after"), (429, "x-none")] {
        let mut options = legacy();
        options.keepalive = Some(mcp_proto::Keepalive::default());
        let busy = move |_: &_| Reply::status(status).with(header, "600");
        let mut site = site().on("ping", busy);
        let mut web = Web::connect(options, &mut site);
        let mut site = site.on("tools/list", busy);
        web.wait_and_serve(seconds(3000), &mut site);
        assert!(web.is_ready(), "{:?}", web.failure());
        assert_eq!((web.count("initialize"), web.count("ping"), web.quirks()), (1, 50, vec![]), "{status}");
    }
}

/// A request that was refused with 429 and `Retry-After` is not in progress, so it is not cancelled at the server. After 503 it
/// may run, and nothing takes that back.
#[test]
fn a_request_that_a_busy_server_refused_was_not_sent() {
    for status in [429, 503] {
        let refused = |web: &mut Web, replays| {
            let request = web.request(tool("a").replay(replays));
            let call = web.take().pop().unwrap();
            web.reply(&call, Reply::status(status).with("retry-after", "30"));
            request
        };
        let mut web = ready(&mut site());
        let request = refused(&mut web, true);
        web.session.cancel(web.now, request).unwrap();
        web.collect();
        assert_eq!(
            (web.count("notifications/cancelled"), web.outcome(request)),
            (usize::from(status == 503), "Cancelled".into())
        );

        let mut web = ready(&mut site());
        let request = refused(&mut web, true);
        web.session.close(web.now).unwrap();
        web.collect();
        assert_eq!(web.outcome(request), if status == 429 { "NotSent" } else { "Unknown" });
    }
    for (mut site, request) in [(site(), tool("a").replay(true)), (library(), Request::read_resource("x:1"))] {
        let mut web = ready(&mut site);
        let request = web.request(request);
        for status in [503, 429] {
            let call = web.take().pop().unwrap();
            web.reply(&call, Reply::status(status).with("retry-after", "1"));
            web.wait(seconds(u64::from(status == 503)));
        }
        web.session.close(web.now).unwrap();
        web.collect();
        assert_eq!(web.outcome(request), "Unknown");
    }
}

/// What only reads goes again as often as its deadline allows, with permission or without.
#[test]
fn a_busy_server_gets_what_only_reads_again_until_its_deadline() {
    for replays in [None, Some(true)] {
        let mut site = library().first("resources/read", 4, |_| Reply::status(503).with("retry-after", "1"));
        let mut web = ready(&mut site);
        let read = Request::read_resource("x:1");
        let request = web.request(if let Some(replays) = replays { read.replay(replays) } else { read });
        web.serve(&mut site);
        web.wait_and_serve(seconds(40), &mut site);
        assert_eq!((web.outcome(request), web.count("resources/read")), ("Result".into(), 5));
    }
}

/// A redirect in between changes nothing of that.
#[test]
fn a_busy_server_is_left_alone_twice_as_long_after_a_redirect() {
    let mut web = ready(&mut site());
    let (_, call) = web.call("a");
    web.reply(&call, Reply::status(429).with("retry-after", "0"));
    web.wait(millis(100));
    let call = web.take_named("tools/call");
    web.reply(&call, Reply::status(307).with("location", "/other"));
    let call = web.take_named("tools/call");
    web.reply(&call, Reply::status(429).with("retry-after", "0"));
    web.wait(millis(199));
    assert!(web.take().is_empty());
    web.wait(millis(1));
    web.take_named("tools/call");
}

/// Nor is a list cancelled whose time ends while it waits. The server is not a silent one.
#[test]
fn a_list_that_a_busy_server_refused_is_not_cancelled() {
    for status in [429, 503] {
        let busy = move |_: &_| Reply::status(status).with("retry-after", "300");
        let mut web = ready(&mut site());
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.collect();
        let list = web.take_named("tools/list");
        web.reply(&list, busy(&list));
        web.wait(seconds(61));
        assert!(web.events.iter().any(|event| matches!(event, Event::Refreshed { .. })), "its time is over");
        assert_eq!(web.count("notifications/cancelled"), 0);

        let mut site = modern_site().on("tools/list", busy);
        let mut web = Web::connect(options(), &mut site);
        web.wait_and_serve(seconds(200), &mut site);
        assert_eq!((web.count("initialize"), web.quirks()), (0, vec![]));
        assert!(web.failure().unwrap().message.contains("too busy"));
    }
}

/// An invalid time counts as no time. A date is relative to the response's `Date`.
#[test]
fn a_busy_server_gets_the_request_again_after_the_retry_after_date() {
    const DATE: &str = "Wed, 21 Oct 2026 07:28:00 GMT";
    for (date, after, wait) in [
        (Some(DATE), "Wed, 21 Oct 2026 07:28:07 GMT", 7000),
        (Some(DATE), "Wednesday, 21-Oct-26 07:28:07 GMT", 7000),
        (Some(DATE), "Wed Oct 21 07:28:07 2026", 7000),
        (Some(DATE), DATE, 100),
        (Some(DATE), "Wed, 21 Oct 2026 07:27:00 GMT", 100),
        (Some(DATE), "Wed, 21 Oct 2026 99:27:00 GMT", 1000),
        (Some("soon"), "Wed, 21 Oct 2026 07:28:07 GMT", 1000),
        (Some("7"), "Wed, 21 Oct 2026 07:28:07 GMT", 1000),
        (None, "Wed, 21 Oct 2026 07:28:07 GMT", 1000),
        (Some(DATE), "-3", 1000),
        (Some(DATE), "1.5", 1000),
    ] {
        let mut site = site();
        let mut web = ready(&mut site);
        let (request, call) = web.call("a");
        let reply = Reply::status(429).with("retry-after", after);
        web.reply(&call, date.map_or(reply.clone(), |date| reply.clone().with("date", date)));
        web.wait(millis(wait - 1));
        assert!(web.take().is_empty(), "{date:?} {after}");
        web.wait(millis(1));
        let again = web.take_named("tools/call");
        web.end_with(&again, site.reply(&again));
        assert!(was_answered(&web, request), "{date:?} {after}");
    }
}

/// Each wait is at most an hour, whatever the server says.
#[test]
fn a_busy_server_gets_the_request_again_after_an_hour_at_the_latest() {
    let dates = [("date", "Wed, 21 Oct 2026 07:28:00 GMT"), ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")];
    for headers in [&dates[..], &[("retry-after", "99999999999999999999999")], &[("retry-after", "3601")]] {
        let mut web = ready(&mut site());
        let request = web.request(tool("a").replay(true).timeout(seconds(86_400)).max_timeout(seconds(86_400)));
        let call = web.take_one();
        let reply = headers.iter().fold(Reply::status(503), |reply, (name, value)| reply.with(name, value));
        web.reply(&call, reply);
        web.wait(seconds(3599));
        assert!(web.take().is_empty(), "{headers:?}");
        web.wait(seconds(1));
        let again = web.take_named("tools/call");
        assert_eq!(again.of, Some(request));
    }
}

#[test]
fn a_busy_server_gets_handshake_and_list_requests_again() {
    for (options, site, opening) in
        [(options(), modern_site as fn() -> Site, "server/discover"), (legacy(), site, "initialize")]
    {
        for name in [opening, "tools/list"] {
            let mut site = site().first(name, 2, |_| Reply::status(503).with("retry-after", "2"));
            let mut web = Web::connect(options.clone(), &mut site);
            assert!(!web.is_ready());
            web.wait_and_serve(seconds(2 + 4), &mut site);
            assert!(web.is_ready(), "{name}: {:?}", web.failure());
            assert_eq!((web.count(name), web.quirks()), (3, vec![]));
        }
    }
}

#[test]
fn the_wait_for_a_busy_server_ends_at_the_deadline() {
    for after in ["5", "3600", "99999999999999999999999"] {
        let mut web = ready(&mut site());
        let request = web.request(tool("a").timeout(seconds(30)));
        let call = web.take_one();
        web.reply(&call, Reply::status(429).with("retry-after", after));
        while web.now < Time::from_millis(29_999) {
            web.wait(millis(1));
            for again in web.take() {
                web.reply(&again, Reply::status(429).with("retry-after", after));
            }
        }
        assert_eq!(web.outcome(request), "open");
        web.wait(millis(1));
        assert_eq!(web.outcome(request), "TimedOut", "{after}");
        web.wait(seconds(7200));
        let sent = web.count("tools/call");
        assert!(sent <= 7, "{sent} times");
    }
}

#[test]
fn a_busy_status_without_retry_after_is_a_refusal() {
    for status in [429, 503] {
        let mut web = ready(&mut site());
        let (request, call) = web.call("a");
        web.reply(&call, Reply::text(status, "slow down"));
        let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
        assert!(error.to_string().contains(&status.to_string()) && error.to_string().contains("slow down"));
        assert!(web.is_ready());
    }
}

/// Any other refusal is the outcome of the request, with the server's message.
#[test]
fn a_refusal_is_the_outcome_of_the_request() {
    for (status, text) in
        [(400, "bad"), (402, "pay"), (413, "too large"), (431, ""), (500, "it broke"), (501, ""), (301, "")]
    {
        for (options, mut site) in [(legacy(), site()), (options(), modern_site())] {
            let mut web = connect(options, &mut site);
            let (request, call) = web.call("a");
            web.reply(&call, Reply::text(status, text).with("location", "https://elsewhere.example/"));
            let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
            assert!(error.to_string().contains(&status.to_string()) && error.to_string().contains(text), "{error}");
            let is_redirect = error.to_string().contains("it points to `https://elsewhere.example/`");
            assert_eq!(is_redirect, status == 301, "{error}");
            assert_eq!((web.is_ready(), web.take().len()), (true, 0));
        }
    }
}

/// An HTML page is not quoted, and other texts only up to a limit.
#[test]
fn the_quoted_text_of_a_refusal_is_short() {
    let mut web = ready(&mut site());
    let (request, call) = web.call("a");
    web.head(&call, 500, &[("content-type", "text/plain")]);
    for _ in 0..1000 {
        web.body(&call, "x".repeat(1000));
    }
    web.end(&call);
    let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
    assert!(error.to_string().len() < 1000);
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(413).body("text/html", "\n<html>nginx</html>"));
    let Outcome::Error(error) = web.result_of(request) else { panic!("{:?}", web.ended(request)) };
    assert!(error.to_string().contains("413") && !error.to_string().contains("nginx"), "{error}");
}

// Closing.

#[test]
fn closing_ends_requests_and_exchanges_then_the_session() {
    let mut web = ready(&mut site());
    let (stream, (sent, call)) = (web.last("GET"), web.call("a"));
    web.head(&call, 200, &STREAM);
    web.close();
    assert_eq!(web.outcome(sent), "Unknown");
    assert!(web.was_dropped(&call) && web.was_dropped(&stream));
    let delete = web.take_named("DELETE");
    assert_eq!((delete.header(SESSION), delete.header(VERSION)), (Some("session-1"), Some("2025-11-25")));
    assert_eq!((web.cause(), web.open.len()), (None, 1));
    web.head(&delete, 204, &[]);
    web.end(&delete);
    assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));
    assert!(web.session.is_closed() && web.session.deadline().is_none());
    assert!(matches!(web.events.last(), Some(Event::Closed { .. })));
}

/// Each server request gets a response, even while closing: the server has to know that it is declined.
#[test]
fn closing_sends_the_last_responses_before_it_ends_the_session() {
    let mut web = connect(with_elicitation(legacy()), &mut site());
    let stream = web.last("GET");
    web.push(&stream, server_request(1, "elicitation/create"));
    web.close();
    let answer = web.last("(answer)");
    assert_eq!(answer.json()["result"]["action"], "cancel");
    assert!(web.is_open(&answer) && web.count("DELETE") == 0, "the response is sent first");
    web.reply(&answer, Reply::status(202));
    let delete = web.last("DELETE");
    web.reply(&delete, Reply::status(200));
    assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));

    // The wait is limited.
    let mut web = connect(with_elicitation(legacy()), &mut site());
    let stream = web.last("GET");
    web.push(&stream, server_request(1, "elicitation/create"));
    web.close();
    web.wait(seconds(60));
    assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));
}

#[test]
fn closing_waits_for_no_notification_that_was_not_polled() {
    let mut web = connect(legacy(), &mut site());
    web.take();
    web.session.notify(web.now, "acme/told", None).unwrap();
    web.session.close(web.now).unwrap();
    web.collect();
    assert_eq!(web.count("acme/told"), 0);
    web.take_named("DELETE");
}

/// A response or an exchange that fails then changes nothing.
#[test]
fn closing_drops_open_exchanges() {
    for broken in [Broken::Unreachable, Broken::Midway] {
        let mut web = connect(with_elicitation(legacy()), &mut site());
        let stream = web.last("GET");
        web.push(&stream, server_request(1, "elicitation/create"));
        web.push(&stream, server_request(2, "elicitation/create"));
        web.close();
        let answers = web.take();
        assert_eq!(answers.iter().map(Exchange::name).collect::<Vec<_>>(), ["(answer)", "(answer)"]);
        web.fail(&answers[0], broken);
        assert!(web.is_open(&answers[1]), "the other response may still arrive");
        web.reply(&answers[1], Reply::status(202));
        let delete = web.take_named("DELETE");
        web.head(&delete, 200, &[]);
        web.wait(seconds(60));
        assert!(web.was_dropped(&delete));
        assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));
    }
}

#[test]
fn closing_during_the_handshake_drops_its_exchange() {
    for (answered, expected) in [(0, "initialize"), (1, INITIALIZED)] {
        let mut site = site();
        let mut web = Web::open(legacy());
        for _ in 0..answered {
            let exchange = web.take_one();
            web.end_with(&exchange, site.reply(&exchange));
        }
        let exchange = web.last(expected);
        web.close();
        assert!(web.was_dropped(&exchange));
        web.serve(&mut site);
        assert_eq!((web.cause(), web.open.len()), (Some(&Cause::Requested), 0));
        assert_eq!(web.count("DELETE"), answered);
    }
}

/// Input after the end is ignored.
#[test]
fn input_after_the_end_is_ignored() {
    let mut web = ready(&mut site());
    let (stream, (_, call)) = (web.last("GET"), web.call("a"));
    web.close();
    let delete = web.take_named("DELETE");
    web.reply(&delete, Reply::status(200));
    let none = crate::web::header_map::<&str>(&[]);
    for exchange in [&stream, &call, &delete] {
        web.session.handle_head(web.now, exchange.id, http::StatusCode::OK, &none);
        web.session.handle_body(web.now, exchange.id, b"data: {}\n\n");
        web.session.handle_end(web.now, exchange.id);
        web.session.handle_failure(web.now, exchange.id, Broken::Unreachable, "no");
        web.session.handle_timeout(web.now);
        assert!(web.session.poll().is_none() && web.session.is_closed());
    }
}

/// An unreachable server is reconnected to, and requests that were not sent are sent then.
#[test]
fn an_unreachable_server_is_reconnected_to() {
    let mut site = site();
    let mut web = connect(reconnecting(legacy()), &mut site);
    let ((lost, first), (unsent, second)) = (web.call("a"), web.call("a"));
    web.head(&first, 200, &STREAM);
    web.make_unreachable(&second);
    // What was sent has the time of three attempts.
    for wait in [1, 2, 4] {
        assert_eq!((web.outcome(lost), web.outcome(unsent)), ("open".into(), "open".into()));
        web.wait(seconds(wait));
        let again = web.take_named("tools/call");
        web.fail(&again, Broken::Unreachable);
    }
    assert_eq!((web.outcome(lost), web.outcome(unsent)), ("Unknown".into(), "open".into()));
    assert!(web.open.is_empty() && web.was_dropped(&first));
    let Some(Event::Down { failure, next: Recovery::Reopen { .. } }) =
        web.events.iter().rfind(|event| matches!(event, Event::Down { .. }))
    else {
        panic!("{:?}", web.events)
    };
    assert_eq!(failure.kind, FailureKind::Connect);
    web.wait_and_serve(seconds(1), &mut site);
    assert!(web.is_ready() && was_answered(&web, unsent));
    assert_eq!((web.count("initialize"), web.count("DELETE")), (2, 0));
}

#[test]
fn a_server_that_does_not_answer_the_keepalive_is_reconnected_to() {
    let mut options = reconnecting(legacy());
    options.keepalive = Some(Keepalive::default());
    let mut site = site();
    let mut web = connect(options, &mut site);
    web.wait(seconds(220));
    web.serve(&mut site);
    web.wait_and_serve(seconds(1), &mut site);
    assert_eq!((web.is_ready(), web.count("initialize"), web.count("DELETE")), (true, 2, 0));
    let ids: BTreeSet<_> = web.open.values().map(Exchange::name).collect();
    assert_eq!(ids, ["GET".to_owned()].into());
}

// HTTP with SSE.

const OLD: &str = "https://example.com/messages?session=1";

/// A server over HTTP with SSE: its stream, and a session that is ready.
fn older(options: Options) -> (Web, Exchange, Site) {
    let (mut web, mut site) = (Web::open(options), site());
    let stream = open_older(&mut web, &mut site);
    assert!(web.is_ready(), "{:?}", web.failure());
    (web, stream, site)
}

fn open_older(web: &mut Web, site: &mut Site) -> Exchange {
    let mut stream = None;
    let mut steps = Steps::until("no exchange is left to answer");
    loop {
        steps.step();
        let requested = web.take();
        if requested.is_empty() {
            return stream.expect("the stream was requested");
        }
        for exchange in requested {
            match exchange.verb() {
                "GET" => {
                    web.reply(&exchange, Reply::stream("event: endpoint\ndata: /messages?session=1\n\n"));
                    stream = Some(exchange);
                }
                _ if exchange.url() == URL => web.reply(&exchange, Reply::status(405)),
                _ => answer_older(web, stream.as_ref().unwrap(), site, &exchange),
            }
        }
    }
}

fn answer_older(web: &mut Web, stream: &Exchange, site: &mut Site, post: &Exchange) {
    web.reply(post, Reply::text(202, "Accepted"));
    for answer in site.server.answer(&post.json()) {
        web.push(stream, answer);
    }
}

#[test]
fn http_with_sse_has_one_stream_for_all_server_messages() {
    let (mut web, stream, mut site) = older(with_elicitation(legacy()));
    assert_eq!((web.session.server().unwrap().version, web.quirks()), (ProtocolVersion::NEWEST_LEGACY, vec![]));
    // Two calls, answered in reverse order, with a server request between.
    let ((one, first), (other, second)) = (web.call("a"), web.call("a"));
    assert_eq!((first.url(), first.of, first.header(SESSION)), (OLD.into(), Some(one), None));
    web.reply(&first, Reply::status(200));
    answer_older(&mut web, &stream, &mut site, &second);
    assert_eq!((web.outcome(one), was_answered(&web, other)), ("open".into(), true));
    web.push(&stream, server_request(1, "elicitation/create"));
    let ask = server_request_ids(&web)[0];
    web.session.respond(web.now, ask, Ok(&raw(&json!({"action": "decline"})))).unwrap();
    web.collect();
    let answer = web.take_named("(answer)");
    assert_eq!(answer.url(), OLD);
    web.reply(&answer, Reply::text(202, "Accepted"));
    web.push(&stream, first.result(json!({"content": []})));
    assert!(was_answered(&web, one) && web.is_open(&stream));
    // A cancelled call.
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(202));
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    let cancelled = web.take_named(CANCELLED);
    assert_eq!((cancelled.url(), &cancelled.json()["params"]["requestId"]), (OLD.into(), &call.json()["id"]));
    web.reply(&cancelled, Reply::status(202));
    web.close();
    assert!(web.was_dropped(&stream));
    assert_eq!((web.cause(), web.count("DELETE"), web.count("GET")), (Some(&Cause::Requested), 0, 1));
}

/// The response may arrive before the POST is accepted.
#[test]
fn http_with_sse_may_respond_before_it_accepts_the_post() {
    let (mut web, stream, _) = older(legacy());
    let (request, call) = web.call("a");
    web.push(&stream, call.result(json!({"content": []})));
    assert!(was_answered(&web, request));
    if web.is_open(&call) {
        web.reply(&call, Reply::status(202));
    }
    assert!(web.is_ready() && web.quirks().is_empty());
}

#[test]
fn http_with_sse_is_lost_with_its_stream() {
    let (mut web, stream, mut site) = older(reconnecting(legacy()));
    let (request, call) = web.call("a");
    web.reply(&call, Reply::status(202));
    web.end(&stream);
    assert_eq!((web.outcome(request), web.failure_kind()), ("Unknown".into(), Some(FailureKind::Closed)));
    web.wait(seconds(1));
    let again = open_older(&mut web, &mut site);
    assert!(web.is_ready() && web.is_open(&again));
    assert_eq!(again.header(LAST_ID), None);
    let since: Vec<_> = web.log.iter().skip_while(|it| it.id != again.id).map(Exchange::name).collect();
    assert_eq!(since, ["GET", "initialize", INITIALIZED, "tools/list"], "no probe, and no POST to the wrong URL");

    let (mut web, stream, _) = older(legacy());
    web.fail(&stream, Broken::Midway);
    assert!(matches!(web.cause(), Some(Cause::Failed(failure)) if failure.kind == FailureKind::Closed));
}

/// A server that was upgraded in the meantime is recognized.
#[test]
fn a_server_upgraded_from_http_with_sse_is_used_over_streamable_http() {
    let (mut web, stream, mut site) = older(reconnecting(legacy()));
    web.end(&stream);
    web.wait_and_serve(
        seconds(1),
        &mut Site::of(crate::common::Server::new(), false).on("GET", |_| Reply::status(405)),
    );
    web.wait_and_serve(seconds(10), &mut site);
    assert!(web.is_ready(), "{:?}", web.failure());
    assert_eq!((web.last("tools/list").url(), web.last("tools/list").header(SESSION)), (URL.into(), Some("session-1")));
}

/// A 401 to the GET of the stream asks for a token, as any other.
#[test]
fn http_with_sse_waits_for_a_token() {
    let (mut web, stream, mut site) = older(reconnecting(legacy()));
    web.end(&stream);
    web.wait(seconds(1));
    let get = web.take_named("GET");
    web.reply(&get, Reply::status(401).with("www-authenticate", "Bearer"));
    assert_eq!(unauthorized(&web).len(), 1);
    web.wait(seconds(60));
    assert!(web.take().is_empty());
    web.session.authorized(web.now).unwrap();
    web.collect();
    open_older(&mut web, &mut site);
    assert!(web.is_ready());
}

/// Messages after the endpoint event are read, in one chunk or in two.
#[test]
fn http_with_sse_reads_messages_after_the_endpoint_event() {
    for cut in [false, true] {
        let (mut web, stream, _) = older(reconnecting(legacy()));
        web.end(&stream);
        web.wait(seconds(1));
        let get = web.take_named("GET");
        let (endpoint, ping) = (
            "event: endpoint\ndata: /messages?session=2\n\n",
            "data: {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n\n",
        );
        web.head(&get, 200, &STREAM);
        if cut {
            web.body(&get, endpoint);
            web.body(&get, ping);
        } else {
            web.body(&get, format!("{endpoint}{ping}"));
        }
        assert_eq!(web.take_names(), ["initialize", "(answer)"], "{cut}");
    }
}

// Cases that the property tests found.

/// Input between the failure that ends the session and the next poll.
#[test]
fn closed_is_the_last_event_whatever_input_precedes_the_poll() {
    let (mut web, stream, _) = before_the_stream();
    web.request(Request::read_resource("x:1"));
    let read = web.take_named("resources/read");
    web.session.handle_failure(web.now, read.id, Broken::Unreachable, "no route");
    web.session.handle_head(web.now, stream.id, http::StatusCode::NOT_FOUND, &crate::web::header_map(&JSON));
    web.session.handle_end(web.now, stream.id);
    web.open.clear();
    web.collect_lenient();
    assert!(matches!(web.events.last(), Some(Event::Closed { .. })), "{:?}", web.events);
    assert!(web.session.is_closed() && web.quirks().is_empty());
}

/// The modern era has no responses by the client (specification 2026-07-28, "Streamable HTTP", Sending Messages).
#[test]
fn a_server_request_during_the_probe_of_a_modern_server_gets_no_response() {
    let mut site = modern_site();
    let mut web = Web::open(with_elicitation(options()));
    let probe = web.take_named("server/discover");
    web.head(&probe, 200, &STREAM);
    web.push(&probe, server_request(1, "elicitation/create"));
    let reply = site.reply(&probe);
    web.push(&probe, serde_json::from_slice(&reply.body).unwrap());
    web.end(&probe);
    web.serve(&mut site);
    assert!(web.is_ready());
    web.wait_and_serve(seconds(1200), &mut site);
    web.close();
    assert_eq!((web.count("(answer)"), web.cause()), (0, Some(&Cause::Requested)));
    let ended = web.events.iter().filter(|event| matches!(event, Event::ServerRequestEnded { .. })).count();
    assert_eq!(ended, server_request_ids(&web).len());
}

/// A request that timed out, then its response, both before the next poll.
#[test]
fn each_exchange_is_dropped_once() {
    for begun in [&STREAM, &JSON] {
        let mut web = ready(&mut site());
        let request = web.request(tool("a").timeout(seconds(5)));
        let call = web.take_one();
        web.head(&call, 200, begun);
        web.session.handle_timeout(web.now + seconds(5));
        web.session.handle_body(
            web.now + seconds(5),
            call.id,
            crate::web::events(&[call.result(json!({}))]).as_bytes(),
        );
        web.now = web.now + seconds(60);
        web.session.handle_timeout(web.now);
        web.collect();
        assert_eq!((web.outcome(request), web.was_dropped(&call)), ("TimedOut".into(), true));
    }
}

/// A session id in a refusal is ignored.
#[test]
fn the_session_id_of_a_refused_initialize_is_ignored() {
    let mut web = Web::open(legacy());
    let initialize = web.take_one();
    let refusal = Reply::json(200, &initialize.error(-32602, "Unsupported protocol version"));
    web.reply(&initialize, refusal.with(SESSION, "stray"));
    let older = web.take_named("initialize");
    web.reply(&older, Reply::status(400));
    assert_eq!(web.take_named("GET").header(SESSION), None);

    // A modern server that gets `initialize` first.
    let mut options = options();
    options.eras = Eras::LegacyFirst;
    let mut site = modern_site().on("initialize", |initialize| {
        Reply::json(200, &initialize.error(-32601, "Method not found")).with(SESSION, "stray")
    });
    let mut web = connect(options, &mut site);
    let request = web.request(tool("a"));
    web.serve(&mut site);
    web.close();
    assert!(was_answered(&web, request) && web.cause().is_some());
    assert!(web.log.iter().all(|exchange| exchange.header(SESSION).is_none()));
}

/// Between the expiry and the next poll, nothing is sent in the old session.
#[test]
fn nothing_is_sent_in_an_expired_session() {
    let mut site = site();
    let mut web = ready(&mut site);
    let stream = web.last("GET");
    web.end(&stream);
    let (_, call) = web.call("a");
    let none = crate::web::header_map::<&str>(&[]);
    web.session.handle_head(web.now, call.id, http::StatusCode::NOT_FOUND, &none);
    web.session.handle_end(web.now, call.id);
    web.open.remove(&call.id);
    web.now = web.now + seconds(10);
    web.session.handle_timeout(web.now);
    web.collect();
    assert_eq!(web.take_names(), ["initialize"]);
    assert_eq!(web.count("GET"), 1);
}

// Random input.

#[test]
fn heads_bodies_and_ends_in_any_order_cause_no_panic() {
    let reports: [fn(&mut Web, &Exchange); 6] = [
        |web, it| web.session.handle_body(web.now, it.id, b"{}"),
        |web, it| web.session.handle_head(web.now, it.id, http::StatusCode::OK, &crate::web::header_map(&STREAM)),
        |web, it| web.session.handle_head(web.now, it.id, http::StatusCode::NOT_FOUND, &crate::web::header_map(&JSON)),
        |web, it| web.session.handle_end(web.now, it.id),
        |web, it| web.session.handle_failure(web.now, it.id, Broken::Midway, ""),
        |web, it| {
            web.session.handle_head(
                web.now,
                it.id,
                http::StatusCode::PERMANENT_REDIRECT,
                &crate::web::header_map(&STREAM),
            )
        },
    ];
    for first in reports {
        for second in reports {
            for third in reports {
                let mut web = ready(&mut site());
                let (request, call) = web.call("a");
                for report in [first, second, third] {
                    report(&mut web, &call);
                    take_events(&mut web);
                }
                let _ = web.session.close(web.now);
                take_events(&mut web);
                assert!(web.ended(request).is_some());
            }
        }
    }
}

/// A body is read up to the limit of a message; a longer one is not a response.
#[test]
fn a_body_over_the_limit_is_not_a_response() {
    for by_stream in [false, true] {
        let mut options = legacy();
        options.limits.message.bytes = 10_000;
        let mut web = connect(options, &mut site());
        let (request, call) = web.call("a");
        let text = "x".repeat(100);
        web.head(&call, 200, if by_stream { &STREAM } else { &JSON });
        let id = &call.json()["id"];
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[],\"x\":\"");
        web.body(&call, if by_stream { format!("data: {start}") } else { start });
        for _ in 0..1000 {
            web.body(&call, &text);
        }
        web.body(&call, "\"}}\n\n");
        web.end(&call);
        assert!(web.ended(request).is_some_and(|outcome| !matches!(outcome, Outcome::Result(_))));
        assert!(web.is_ready());
        let (request, call) = web.call("a");
        web.reply(&call, Reply::json(200, &call.result(json!({"content": []}))));
        assert!(was_answered(&web, request));
    }
}

#[test]
fn a_request_about_a_task_names_it_in_a_header() {
    let mut site = Site::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut enabled = options();
    (enabled.capabilities.tasks, enabled.listen) = (true, false);
    let mut web = Web::connect(enabled, &mut site);
    let id = web.request(tool("a"));
    let call = web.take_one();
    let task = json!({"resultType": "task", "taskId": "t\u{e9}1", "status": "completed", "pollIntervalMs": 1000});
    web.reply(&call, Reply::json(200, &call.result(task)));
    let poll = web.take_one();
    assert_eq!((poll.header("mcp-method"), poll.header("mcp-name")), (Some("tasks/get"), Some("=?base64?dMOpMQ==?=")));
    web.reply(&poll, Reply::json(200, &poll.result(json!({"taskId": "t\u{e9}1", "status": "working"}))));
    let cancel = web.take_one();
    assert_eq!(cancel.header("mcp-method"), Some("tasks/cancel"));
    assert_eq!(cancel.header("mcp-name"), Some("=?base64?dMOpMQ==?="));
    assert!(matches!(web.result_of(id), Outcome::Error(mcp_proto::RequestError::Task(_))));
}

#[test]
fn a_request_of_the_embedder_about_a_task_names_it_in_a_header() {
    let mut enabled = options();
    (enabled.capabilities.tasks, enabled.listen) = (true, false);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let mut web = Web::connect(enabled.clone(), &mut Site::modern(tasks));
        let params = json!({"taskId": "t\u{e9}1", "inputResponses": {}});
        web.request(Request::new(method).with_params(&params).unwrap());
        let sent = web.take_one();
        assert_eq!((sent.header("mcp-method"), sent.header("mcp-name")), (Some(method), Some("=?base64?dMOpMQ==?=")));
    }
}

#[test]
fn a_response_over_the_total_limit_ends_its_request() {
    let mut options = legacy();
    options.limits.buffered = 4_096;
    let mut web = Web::connect(options, &mut site());
    for (header, before) in [(JSON, ""), (STREAM, "data:")] {
        let (call, exchange) = web.call("a");
        web.head(&exchange, 200, &header);
        web.body(&exchange, format!("{before}{{{}", "x".repeat(4_095)));
        assert!(web.is_open(&exchange), "the limit is not exceeded");
        web.body(&exchange, "x");
        assert!(web.was_dropped(&exchange));
        let Some(Outcome::Error(error)) = web.ended(call) else { panic!("{}", web.outcome(call)) };
        assert!(error.to_string().contains("incomplete responses exceed 4096 bytes in total"), "{error}");
        assert!(web.is_ready());
    }
}

/// The server did not process it: it goes on the next stream.
#[test]
fn a_call_that_was_redirected_or_refused_for_now_survives_the_loss_of_the_stream() {
    for status in [429, 307] {
        let (mut web, stream, mut site) = older(reconnecting(legacy()));
        let (request, call) = web.call("a");
        let headers = crate::web::header_map(&[("location", "/m2"), ("retry-after", "20")]);
        let head = http::StatusCode::from_u16(status).unwrap();
        web.session.handle_head(web.now, call.id, head, &headers);
        if status == 429 {
            web.end(&call);
        }
        web.session.handle_end(web.now, stream.id);
        web.open.remove(&stream.id);
        web.collect();
        web.wait(seconds(1));
        open_older(&mut web, &mut site);
        assert!(was_answered(&web, request), "{}", web.outcome(request));
    }
}
