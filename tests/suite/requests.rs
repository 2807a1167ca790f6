//! Requests in both directions, shutdown, and reconnects.

use std::time::Duration;

use crate::common::{Deliver, Host, Server, legacy, millis, options, tools};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, Cause, Client, CommandError, Event, FailureKind, Messages, OpenFailure, Options, Outcome, QuirkKind,
    Reconnect, Recovery, Request, RequestError, RequestId, ServerRequestId, ShutdownStep, Time, Transport,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn server() -> Server {
    Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]))
}

fn ready_with(options: Options) -> Host {
    let host = Host::connect(options, &mut server());
    assert!(host.is_ready());
    host
}

fn ready() -> Host {
    ready_with(legacy())
}

fn named(mut options: Options) -> Options {
    options.server = "acme".into();
    options
}

fn reconnecting() -> Options {
    let mut options = named(legacy());
    options.reconnect = Some(Reconnect::default());
    options
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

/// Sends a request. Returns it and its id in the message.
fn ask(host: &mut Host) -> (RequestId, Value) {
    let request = request_unpolled(host);
    host.collect();
    (request, host.take_one()["id"].clone())
}

/// A request that is not polled yet.
fn request_unpolled(host: &mut Host) -> RequestId {
    host.session.request(host.now, Request::new("tools/call")).unwrap()
}

fn reply(host: &mut Host, id: &Value, result: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn ended(host: &Host) -> Vec<RequestId> {
    let ended = |event: &Event| match event {
        Event::Finished { request, .. } => Some(*request),
        _ => None,
    };
    host.events.iter().filter_map(ended).collect()
}

/// The name of the outcome's variant.
fn outcome(host: &Host, request: RequestId) -> String {
    let text = format!("{:?}", host.result_of(request));
    text.split(['(', ' ']).next().unwrap().into()
}

fn downs(host: &Host) -> Vec<(FailureKind, Recovery)> {
    let down = |event: &Event| match event {
        Event::Down { failure, next } => Some((failure.kind, *next)),
        _ => None,
    };
    host.events.iter().filter_map(down).collect()
}

fn reopen(host: &mut Host, server: &mut Server) {
    host.take_sent();
    host.transport(Transport::Opened);
    host.serve(server);
}

// Requests of the embedder.

#[test]
fn requests_wait_in_order_until_the_session_is_ready() {
    let mut host = Host::new(legacy());
    let mut requests = vec![request_unpolled(&mut host)];
    host.session.open(host.now).unwrap();
    requests.push(request_unpolled(&mut host));
    host.transport(Transport::Opened);
    requests.push(request_unpolled(&mut host));
    assert_eq!(host.take_sent().iter().map(|message| &message["method"]).collect::<Vec<_>>(), ["initialize"]);
    let initialize = host.transcript[0].1.clone();
    host.receive(server().answer(&initialize).remove(0));
    assert_eq!(host.take_methods(), ["notifications/initialized", "tools/list"]);
    requests.push(request_unpolled(&mut host));
    host.collect();
    assert!(host.take_sent().is_empty());
    let list = host.transcript[2].1.clone();
    host.receive(server().answer(&list).remove(0));
    let sent = host.take_sent();
    assert!(sent.len() == 4 && sent.iter().all(|message| message["method"] == "tools/call"));
    for (message, number) in sent.iter().zip(0..) {
        reply(&mut host, &message["id"], json!({"number": number}));
    }
    assert_eq!(ended(&host), requests);
    for (request, number) in requests.into_iter().zip(0..) {
        let expected = json!({"number": number}).to_string();
        assert!(matches!(host.result_of(request), Outcome::Result(raw) if *raw.get() == expected));
    }
}

#[test]
fn a_request_is_sent_unchanged() {
    let mut host = ready();
    let request = Request::new("acme/do").params(raw(r#"{"a": [1, 2.50]}"#));
    host.session.request(host.now, request).unwrap();
    let Some(Action::Send(message)) = host.session.poll() else { panic!("nothing was sent") };
    let id = message.wire_id().map(|id| id.as_u64()).unwrap();
    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"acme/do","params":{{"a": [1, 2.50]}}}}"#);
    assert_eq!(message.bytes(), line.as_bytes());
    assert_eq!(message.line(), format!("{line}\n").as_bytes());
}

#[test]
fn a_request_with_parameters_from_serde() {
    let mut host = ready();
    let request = Request::new("acme/do").with_params(&json!({"name": "a"})).unwrap();
    host.session.request(host.now, request).unwrap();
    host.collect();
    assert_eq!(host.take_one()["params"], json!({"name": "a"}));
}

#[test]
fn a_result_is_reported_byte_for_byte() {
    let mut host = ready();
    let (request, id) = ask(&mut host);
    let result = r#"{ "x" : 1.0e2, "x": "\u00e9" }"#;
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#));
    assert!(matches!(host.result_of(request), Outcome::Result(raw) if raw.get() == result));
}

#[test]
fn an_error_is_reported_with_the_servers_text() {
    let mut host = ready();
    let (request, id) = ask(&mut host);
    let error = json!({"code": 17, "message": "no \"x\"", "data": {"a": 1}});
    host.receive(json!({"jsonrpc": "2.0", "id": id, "error": error}));
    let Outcome::Error(RequestError::Server(error)) = host.result_of(request) else { panic!("no error") };
    assert_eq!((error.code, &*error.message, error.data.as_ref().unwrap().get()), (17, "no \"x\"", r#"{"a":1}"#));
    assert!(host.is_ready());
}

#[test]
fn responses_may_arrive_in_any_order() {
    let mut host = ready();
    let asked: Vec<_> = (0..3).map(|_| ask(&mut host)).collect();
    for (_, id) in asked.iter().rev() {
        reply(&mut host, id, json!({}));
    }
    let requests: Vec<_> = asked.iter().rev().map(|(request, _)| *request).collect();
    assert_eq!(ended(&host), requests);
}

#[test]
fn a_timeout_sends_a_cancellation_and_ends_the_request() {
    let mut host = ready();
    let (request, id) = ask(&mut host);
    host.wait(millis(59_999));
    assert!(ended(&host).is_empty());
    host.wait(millis(1));
    assert_eq!(outcome(&host, request), "TimedOut");
    let sent = host.take_one();
    assert_eq!((&sent["method"], &sent["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert!(host.is_ready());
    assert_eq!(host.session.deadline(), None);
}

#[test]
fn a_request_has_its_own_timeout() {
    let mut host = ready();
    let request = host.session.request(host.now, Request::new("tools/call").timeout(millis(300))).unwrap();
    host.collect();
    assert_eq!(host.session.deadline(), Some(host.now + millis(300)));
    host.wait(millis(300));
    assert_eq!(outcome(&host, request), "TimedOut");
}

#[test]
fn a_timeout_of_an_unsent_request_sends_no_cancellation() {
    let mut host = Host::open(legacy());
    let request = request_unpolled(&mut host);
    host.take_sent();
    host.wait(millis(30_000));
    host.transport(Transport::SignOfLife);
    host.wait(millis(30_000));
    assert_eq!((outcome(&host, request), host.take_sent().len()), ("TimedOut".into(), 0));
    host.serve(&mut server());
    assert!(!host.methods().contains(&"tools/call"));
}

#[test]
fn a_timeout_of_an_unpolled_request_withdraws_it() {
    let mut host = ready();
    let request = request_unpolled(&mut host);
    host.session.handle_timeout(host.now + millis(60_000));
    host.collect();
    assert_eq!((outcome(&host, request), host.take_sent().len()), ("TimedOut".into(), 0));
}

#[test]
fn cancelling_an_unpolled_request_withdraws_it() {
    let mut host = ready();
    let request = request_unpolled(&mut host);
    host.session.cancel(host.now, request).unwrap();
    host.collect();
    assert_eq!((outcome(&host, request), host.take_sent().len()), ("Cancelled".into(), 0));
}

#[test]
fn cancelling_a_polled_request_sends_a_cancellation() {
    let mut host = ready();
    let (request, id) = ask(&mut host);
    host.session.cancel(host.now, request).unwrap();
    host.collect();
    let sent = host.take_one();
    assert_eq!((&sent["method"], &sent["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert_eq!(outcome(&host, request), "Cancelled");
    assert_eq!(host.session.cancel(host.now, request), Err(CommandError::UnknownRequest));
}

#[test]
fn cancelling_a_waiting_request_sends_nothing() {
    let mut host = Host::open(legacy());
    let request = request_unpolled(&mut host);
    host.session.cancel(host.now, request).unwrap();
    host.serve(&mut server());
    assert_eq!(outcome(&host, request), "Cancelled");
    assert!(!host.methods().iter().any(|method| matches!(*method, "tools/call" | "notifications/cancelled")));
}

#[test]
fn closing_ends_every_request() {
    let mut options = legacy();
    options.limits.in_flight = 2;
    let mut host = ready_with(options);
    let (handed, _) = ask(&mut host);
    let (written, queued) = (request_unpolled(&mut host), request_unpolled(&mut host));
    host.session.close(host.now).unwrap();
    host.collect();
    let outcomes = [handed, written, queued].map(|request| outcome(&host, request));
    assert_eq!(outcomes, ["Unknown", "NotSent", "NotSent"]);
    assert!(host.take_sent().is_empty());
}

#[test]
fn closing_an_unopened_session_ends_every_request() {
    let mut host = Host::new(legacy());
    let request = request_unpolled(&mut host);
    host.session.close(host.now).unwrap();
    host.collect();
    assert_eq!((outcome(&host, request), host.opens), ("NotSent".into(), 0));
    assert_eq!(host.cause(), Some(&Cause::Requested));
}

#[test]
fn a_lost_connection_ends_every_request_without_reconnects() {
    let mut options = legacy();
    options.limits.in_flight = 2;
    let mut host = ready_with(options);
    let (handed, _) = ask(&mut host);
    let (written, queued) = (request_unpolled(&mut host), request_unpolled(&mut host));
    host.close_transport();
    let outcomes = [handed, written, queued].map(|request| outcome(&host, request));
    assert_eq!(outcomes, ["Unknown", "NotSent", "NotSent"]);
    assert!(host.take_sent().is_empty());

    // No connection follows to send it again on.
    let mut host = ready_with(legacy());
    let request = host.session.request(host.now, Request::new("vendor/x").replay(true)).unwrap();
    host.collect();
    host.close_transport();
    assert_eq!(outcome(&host, request), "Unknown");
    assert!(!host.events.iter().any(|event| matches!(event, Event::Resending { .. })));
}

#[test]
fn unpolled_requests_are_kept_for_the_next_connection() {
    let mut options = reconnecting();
    options.limits.in_flight = 2;
    let mut host = ready_with(options);
    let (handed, _) = ask(&mut host);
    let (written, queued) = (request_unpolled(&mut host), request_unpolled(&mut host));
    host.session.report(host.now, Transport::Closed { why: "crash" });
    host.collect();
    assert_eq!((outcome(&host, handed), ended(&host).len(), host.take_sent().len()), ("Unknown".into(), 1, 0));
    host.wait(millis(500));
    assert_eq!(host.opens, 2);
    let mut server = server().result("tools/call", json!({"content": []}));
    reopen(&mut host, &mut server);
    assert_eq!((outcome(&host, written), outcome(&host, queued)), ("Result".into(), "Result".into()));
    assert_eq!(ended(&host), [handed, written, queued]);
    assert_eq!(server.received("tools/call"), 2);
}

#[test]
fn a_request_that_waits_for_the_next_connection_times_out() {
    let mut host = ready_with(reconnecting());
    host.close_transport();
    let request = request_unpolled(&mut host);
    host.wait(millis(60_000));
    assert_eq!(outcome(&host, request), "TimedOut");
    reopen(&mut host, &mut server());
    assert_eq!(host.methods().iter().filter(|method| **method == "tools/call").count(), 0);
}

#[test]
fn not_advertised_is_a_command_error_or_a_later_outcome() {
    let mut host = Host::open(legacy());
    let methods = ["prompts/get", "resources/read", "completion/complete"];
    let requests = methods.map(|method| host.session.request(host.now, Request::new(method)).unwrap());
    host.serve(&mut server());
    for (request, method) in requests.into_iter().zip(methods) {
        assert_eq!(outcome(&host, request), "NotAdvertised");
        let refused = host.session.request(host.now, Request::new(method));
        assert!(matches!(refused, Err(CommandError::NotAdvertised { method: named, .. }) if &*named == method));
        assert!(!host.methods().contains(&method));
    }
    let message = host.session.request(host.now, Request::new("prompts/get")).unwrap_err().to_string();
    assert_eq!(message, "the server does not declare `prompts`, which `prompts/get` needs");
}

#[test]
fn a_method_that_needs_no_capability_is_always_sent() {
    let mut host = ready();
    for method in ["acme/do", "ping", "acme/list"] {
        host.session.request(host.now, Request::new(method)).unwrap();
    }
    host.collect();
    assert_eq!(host.take_methods(), ["acme/do", "ping", "acme/list"]);
}

#[test]
fn requests_in_flight_are_limited() {
    let mut options = legacy();
    options.limits.in_flight = 2;
    let mut host = ready_with(options);
    let requests: Vec<_> = (0..5).map(|_| request_unpolled(&mut host)).collect();
    host.collect();
    let mut open = host.take_sent();
    assert_eq!(open.len(), 2);
    for _ in 0..3 {
        reply(&mut host, &open.remove(0)["id"], json!({}));
        open.push(host.take_one());
    }
    host.session.cancel(host.now, requests[3]).unwrap();
    host.collect();
    assert_eq!(host.take_methods(), ["notifications/cancelled"]);
    reply(&mut host, &open[1]["id"], json!({}));
    assert_eq!(ended(&host), requests);
}

#[test]
fn list_requests_of_discovery_count_as_in_flight() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut host = Host::open(options);
    let request = request_unpolled(&mut host);
    let mut server = Server::legacy(json!({"tools": {}, "prompts": {}}))
        .result("tools/list", tools(&[]))
        .result("prompts/list", json!({"prompts": []}));
    let sequence = ["initialize", "tools/list", "prompts/list", "tools/call"];
    for expected in sequence {
        let sent: Vec<_> = host.take_sent().into_iter().filter(|message| message.get("id").is_some()).collect();
        assert_eq!(sent.iter().map(|message| &message["method"]).collect::<Vec<_>>(), [expected]);
        host.receive(server.answer(&sent[0]).remove(0));
    }
    assert_eq!(outcome(&host, request), "Error");
}

#[test]
fn queued_requests_are_sent_in_the_order_in_which_they_were_made() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut host = Host::connect(options, &mut Server::legacy(json!({"tools": {}})).result("tools/list", tools(&[])));
    host.take_sent();
    let methods = ["a/1", "tools/call", "a/2", "a/3", "tools/call", "tools/call", "a/4"];
    for method in methods {
        host.session.request(host.now, Request::new(method)).unwrap();
    }
    host.collect();
    for method in methods {
        let sent = host.take_one();
        assert_eq!(sent["method"], method);
        reply(&mut host, &sent["id"], json!({}));
    }
    assert!(host.take_sent().is_empty());
}

#[test]
fn waiting_requests_are_limited() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    options.limits.queued = 2;
    let mut host = Host::open(options);
    request_unpolled(&mut host);
    let given_up = request_unpolled(&mut host);
    let refused = |host: &mut Host| host.session.request(host.now, Request::new("tools/call"));
    assert_eq!(refused(&mut host), Err(CommandError::TooManyRequests { limit: 2 }));
    host.session.cancel(host.now, given_up).unwrap();
    request_unpolled(&mut host);
    host.serve(&mut server().on("tools/call", |_| Ok(json!({}))));
    for _ in 0..3 {
        request_unpolled(&mut host);
    }
    assert_eq!(refused(&mut host), Err(CommandError::TooManyRequests { limit: 2 }));
    assert_eq!(
        CommandError::TooManyRequests { limit: 2 }.to_string(),
        "the limit of 2 waiting requests, bytes of them, or messages is reached"
    );
}

#[test]
fn bytes_of_requests_that_wait_or_are_in_flight_are_limited() {
    let mut options = legacy();
    (options.limits.in_flight, options.limits.request_bytes) = (1, 100);
    let mut host = Host::open(options);
    let request = |host: &mut Host| {
        let request = Request::new("tools/call").with_params(&json!({"name": "a".repeat(80)})).unwrap();
        host.session.request(host.now, request)
    };
    let given_up = request(&mut host).unwrap();
    // It is accepted while those before it are within the limit.
    request(&mut host).unwrap();
    assert_eq!(request(&mut host), Err(CommandError::TooManyRequests { limit: 100 }));
    assert_eq!(
        host.session.request(host.now, Request::new("tools/call")),
        Err(CommandError::TooManyRequests { limit: 100 })
    );
    host.session.cancel(host.now, given_up).unwrap();
    request(&mut host).unwrap();
    host.serve(&mut server().on("tools/call", |_| Ok(json!({}))));
    for _ in 0..2 {
        request(&mut host).unwrap();
    }
    assert!(request(&mut host).is_err());
}

#[test]
fn modern_results_are_recognized_by_their_type() {
    let host = || Host::connect(options(), &mut Server::modern(json!({"tools": {}})).result("tools/list", tools(&[])));
    for (result, name) in [
        (json!({"resultType": "complete"}), "Result("),
        (json!({"content": []}), "Result("),
        (json!({"resultType": "input_required", "inputRequests": {}}), "Error(Invalid("),
        (json!({"resultType": "acme"}), "Error(Invalid("),
        (json!({"resultType": 5}), "Error(Invalid("),
        (json!({"resultType": null}), "Error(Invalid("),
        (json!([]), "Error(Invalid(\"the result is not a JSON object: []\")"),
        (json!("x"), "Error(Invalid("),
        (json!(5), "Error(Invalid("),
        (json!(null), "Error(Invalid("),
    ] {
        let mut host = host();
        let (request, id) = ask(&mut host);
        reply(&mut host, &id, result);
        let outcome = format!("{:?}", host.result_of(request));
        assert!(outcome.starts_with(name), "{outcome}");
    }
    let mut host = ready();
    let (request, id) = ask(&mut host);
    reply(&mut host, &id, json!({"resultType": "input_required"}));
    assert_eq!(outcome(&host, request), "Result");
    let (request, id) = ask(&mut host);
    reply(&mut host, &id, json!([]));
    assert_eq!(outcome(&host, request), "Error", "in no era a result is anything but an object");
}

#[test]
fn a_notification_is_sent_when_the_session_is_ready() {
    let mut host = ready();
    let params = raw("{\"a\":\r\n1}");
    host.session.notify(host.now, "notifications/example", None).unwrap();
    host.session.notify(host.now, "acme/told", Some(&params)).unwrap();
    host.collect();
    let expected = [
        json!({"jsonrpc": "2.0", "method": "notifications/example"}),
        json!({"jsonrpc": "2.0", "method": "acme/told", "params": {"a": 1}}),
    ];
    assert_eq!(host.take_sent(), expected);
}

// CommandError.

type Try = fn(&mut Client<Messages>, Time) -> Result<(), CommandError>;

fn refuses(host: &mut Host, attempt: Try, misuse: &CommandError) {
    host.collect();
    refuses_as_it_is(host, attempt, misuse);
}

fn refuses_as_it_is(host: &mut Host, attempt: Try, misuse: &CommandError) {
    let before = format!("{:?}", host.session);
    assert_eq!(attempt(&mut host.session, host.now + millis(1000)).as_ref(), Err(misuse));
    assert_eq!(format!("{:?}", host.session), before, "{misuse:?} left a trace");
}

fn request(session: &mut Client<Messages>, now: Time, method: &'static str) -> Result<(), CommandError> {
    session.request(now, Request::new(method)).map(drop)
}

fn array() -> Box<RawValue> {
    raw("[1]")
}

fn reserved(method: &str) -> CommandError {
    CommandError::Reserved { method: method.into() }
}

#[test]
fn a_refused_request_changes_nothing() {
    let mut host = ready();
    let missing = CommandError::NotAdvertised {
        server: "the server".into(),
        method: "prompts/get".into(),
        capability: "prompts".into(),
    };
    let cases: [(Try, CommandError); 4] = [
        (|session, now| request(session, now, "initialize"), reserved("initialize")),
        (|session, now| request(session, now, "server/discover"), reserved("server/discover")),
        (|session, now| request(session, now, "prompts/get"), missing),
        (
            |session, now| session.request(now, Request::new("x").params(array())).map(drop),
            CommandError::ParamsNotObject,
        ),
    ];
    for (attempt, misuse) in cases {
        refuses(&mut host, attempt, &misuse);
    }
}

#[test]
fn a_request_over_the_limit_changes_nothing() {
    let mut options = legacy();
    options.limits.queued = 1;
    let mut host = Host::open(options);
    request_unpolled(&mut host);
    refuses(&mut host, |session, now| request(session, now, "x"), &CommandError::TooManyRequests { limit: 1 });
}

#[test]
fn a_refused_notification_changes_nothing() {
    let cases: [(Try, CommandError); 3] = [
        (|session, now| session.notify(now, "notifications/initialized", None), reserved("notifications/initialized")),
        (|session, now| session.notify(now, "notifications/cancelled", None), reserved("notifications/cancelled")),
        (|session, now| session.notify(now, "x", Some(&array())), CommandError::ParamsNotObject),
    ];
    for (attempt, misuse) in cases {
        refuses(&mut ready(), attempt, &misuse);
    }
    refuses(&mut Host::open(legacy()), |session, now| session.notify(now, "x", None), &CommandError::NotReady);

    let mut options = legacy();
    options.limits.output = 10;
    let mut host = ready_with(options);
    for _ in 0..10 {
        host.session.notify(host.now, "x", None).unwrap();
    }
    let full = CommandError::TooManyRequests { limit: 10 };
    refuses_as_it_is(&mut host, |session, now| session.notify(now, "x", None), &full);
}

#[test]
fn cancelling_or_answering_an_unknown_request_changes_nothing() {
    let mut host = asking();
    let (request, id) = ask(&mut host);
    reply(&mut host, &id, json!({}));
    let ask = elicit(&mut host);
    let before = format!("{:?}", host.session);
    let later = host.now + millis(1000);
    assert_eq!(host.session.cancel(later, request), Err(CommandError::UnknownRequest));
    assert_eq!(host.session.respond(later, ask, Ok(&array())), Err(CommandError::ResultNotObject));
    assert_eq!(format!("{:?}", host.session), before);
    host.session.respond(host.now, ask, Ok(&raw("{}"))).unwrap();
    let before = format!("{:?}", host.session);
    assert_eq!(host.session.respond(later, ask, Ok(&raw("{}"))), Err(CommandError::UnknownServerRequest));
    assert_eq!(format!("{:?}", host.session), before);
}

#[test]
fn opening_twice_changes_nothing() {
    let mut opening = Host::new(legacy());
    opening.session.open(opening.now).unwrap();
    for mut host in [opening, Host::open(legacy()), ready()] {
        refuses(&mut host, |session, now| session.open(now), &CommandError::AlreadyOpen);
    }
}

#[test]
fn commands_on_a_closed_session_change_nothing() {
    let attempts: [Try; 4] = [
        |session, now| session.open(now),
        |session, now| session.close(now),
        |session, now| request(session, now, "x"),
        |session, now| session.notify(now, "x", None),
    ];
    let mut closing = ready();
    closing.session.close(closing.now).unwrap();
    let mut closed = ready();
    closed.close_transport();
    assert!(closed.session.is_closed());
    for mut host in [closing, closed] {
        for attempt in attempts {
            refuses(&mut host, attempt, &CommandError::Closed);
        }
    }
}

// Shutdown.

fn closing(options: Options) -> Host {
    let mut host = ready_with(options);
    host.session.close(host.now).unwrap();
    host.collect();
    host
}

#[test]
fn a_server_that_exits_when_its_input_closes_is_not_terminated() {
    let mut host = closing(legacy());
    assert_eq!(host.shuts, [ShutdownStep::CloseInput]);
    assert_eq!(host.cause(), None);
    host.wait(millis(1999));
    host.transport(Transport::Closed { why: "exit status 0" });
    assert_eq!((host.cause(), host.session.is_closed()), (Some(&Cause::Requested), true));
    host.wait(millis(60_000));
    assert_eq!(host.shuts, [ShutdownStep::CloseInput]);
    assert!(host.quirks().is_empty());
}

#[test]
fn a_process_that_does_not_exit_is_terminated_then_killed() {
    let mut host = closing(legacy());
    for (shuts, quirks) in [(1, 0), (2, 1), (3, 1)] {
        assert_eq!(host.shuts, [ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill][..shuts]);
        assert_eq!((host.quirks().len(), host.cause()), (quirks, None));
        host.wait(millis(1999));
        assert_eq!(host.shuts.len(), shuts);
        host.wait(millis(1));
    }
    assert_eq!(host.quirks(), [QuirkKind::NoExit]);
    assert_eq!((host.shuts.len(), host.cause()), (3, Some(&Cause::Requested)));
    let told = host.events.iter().filter(|event| matches!(event, Event::Quirk(_))).count();
    assert_eq!(told, 1);
}

#[test]
fn an_exit_at_any_step_of_the_shutdown_closes_the_session() {
    for steps in 0..3 {
        let mut host = closing(legacy());
        host.wait(millis(2000) * steps);
        assert_eq!(host.shuts.len() as u32, steps + 1);
        host.close_transport();
        assert_eq!(host.cause(), Some(&Cause::Requested));
        host.wait(millis(60_000));
        assert_eq!(host.shuts.len() as u32, steps + 1);
    }
}

#[test]
fn the_options_set_the_grace_time() {
    let mut options = legacy();
    options.timeouts.grace = millis(50);
    let mut host = closing(options);
    host.wait(millis(150));
    assert_eq!((host.shuts.len(), host.cause()), (3, Some(&Cause::Requested)));
}

#[test]
fn closed_is_the_last_event_and_nothing_follows_it() {
    let mut host = closing(legacy());
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/x"}));
    host.receive_text("noise");
    host.close_transport();
    assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
    let (sent, events, shuts) = (host.transcript.len(), host.events.len(), host.shuts.len());
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    host.receive_text("noise");
    for event in [
        Transport::Opened,
        Transport::SignOfLife,
        Transport::Closed { why: "" },
        Transport::OpenFailed { how: OpenFailure::Spawn, why: "" },
    ] {
        host.transport(event);
    }
    host.wait(millis(10_000_000));
    assert_eq!((host.transcript.len(), host.events.len(), host.shuts.len(), host.opens), (sent, events, shuts, 1));
    assert_eq!((host.session.deadline(), host.session.is_closed()), (None, true));
    assert!(!host.methods().contains(&"(answer)") && host.quirks().is_empty());
}

#[test]
fn a_session_can_be_closed_at_any_time() {
    let opening = || {
        let mut host = Host::new(reconnecting());
        host.session.open(host.now).unwrap();
        host.collect();
        host
    };
    let waiting = || {
        let mut host = ready_with(reconnecting());
        host.close_transport();
        host
    };
    let parked = || {
        let mut host = opening();
        host.transport(Transport::OpenFailed { how: OpenFailure::Spawn, why: "" });
        host
    };
    let with_transport = [opening(), Host::open(reconnecting()), ready_with(reconnecting())];
    for mut host in with_transport {
        host.session.close(host.now).unwrap();
        host.collect();
        assert_eq!((&host.shuts[..], host.cause()), (&[ShutdownStep::CloseInput][..], None));
        host.close_transport();
        assert_eq!(host.cause(), Some(&Cause::Requested));
    }
    for mut host in [Host::new(reconnecting()), waiting(), parked()] {
        host.session.close(host.now).unwrap();
        host.collect();
        assert_eq!((host.shuts.len(), host.cause()), (0, Some(&Cause::Requested)));
        let opens = host.opens;
        host.wait(millis(10_000_000));
        assert_eq!(host.opens, opens);
    }
}

#[test]
fn closed_reports_the_failure_as_its_cause() {
    let mut host = Host::connect(legacy(), &mut Server::new().error("initialize", -1, "no"));
    assert_eq!((host.shuts.len(), host.cause()), (1, None));
    host.close_transport();
    let Some(Cause::Failed(failure)) = host.cause() else { panic!("{:?}", host.cause()) };
    assert_eq!(Some(failure), host.failure());
    assert_eq!(downs(&host), [(FailureKind::HandshakeRejected, Recovery::Close)]);
    assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
}

#[test]
fn closed_reports_the_lost_connection_as_its_cause() {
    let mut host = ready();
    host.transport(Transport::Closed { why: "exit status 9" });
    let Some(Cause::Failed(failure)) = host.cause() else { panic!("{:?}", host.cause()) };
    assert_eq!(failure.kind, FailureKind::Closed);
    assert!(failure.message.contains("the server") && failure.message.contains("exit status 9"));
    assert!(host.shuts.is_empty());
}

// Reconnects.

/// The delays before the reconnects, until the session parks.
fn waits(options: Options, lose: impl Fn(&mut Host)) -> Vec<Duration> {
    waits_with_seed(options, 0, lose)
}

fn waits_with_seed(options: Options, seed: u64, lose: impl Fn(&mut Host)) -> Vec<Duration> {
    let mut host = Host::with_seed(options, seed);
    host.session.open(host.now).unwrap();
    host.collect();
    let mut waits = Vec::new();
    for _ in 0..1000 {
        lose(&mut host);
        match downs(&host).last().unwrap().1 {
            Recovery::Reopen { at: Some(at) } => {
                let opens = host.opens;
                let wait = at - host.now;
                host.wait(wait - Duration::from_micros(1));
                assert_eq!(host.opens, opens);
                host.wait(Duration::from_micros(1));
                assert_eq!(host.opens, opens + 1);
                waits.push(wait);
            }
            Recovery::Parked { .. } => return waits,
            next => panic!("{next:?}"),
        }
    }
    waits
}

fn unreachable(host: &mut Host) {
    host.transport(Transport::OpenFailed { how: OpenFailure::Connect, why: "refused" });
}

fn assert_doubling(waits: &[Duration], first: u64, longest: u64) {
    for (wait, number) in waits.iter().zip(0..) {
        let full = millis((first << number).min(longest));
        assert!(*wait >= full / 2 && *wait <= full, "wait {number} is {wait:?}, of {full:?}");
    }
}

/// Options with this number of attempts at the first connection.
fn with_first_attempts(attempts: u32) -> Options {
    let mut options = reconnecting();
    options.reconnect.as_mut().unwrap().first_attempts = attempts;
    options
}

#[test]
fn the_reconnect_delay_doubles_with_jitter_until_the_session_parks() {
    let mut all = Vec::new();
    for seed in 0..50 {
        let mut options = with_first_attempts(6);
        options.timeouts.connect = Some(millis(1));
        let waits = waits_with_seed(options.clone(), seed, unreachable);
        assert_eq!(waits.len(), 5);
        assert_doubling(&waits, 500, 60_000);
        assert_eq!(waits, waits_with_seed(options, seed, unreachable));
        all.push(waits);
    }
    all.dedup();
    assert_eq!(all.len(), 50);
}

#[test]
fn the_reconnect_delay_is_limited() {
    let mut options = with_first_attempts(41);
    options.reconnect.as_mut().unwrap().max_backoff = millis(4000);
    let waits = waits(options, unreachable);
    assert_eq!(waits.len(), 40);
    assert_doubling(&waits[..12], 500, 4000);
    assert!(waits[12..].iter().all(|wait| *wait >= millis(2000) && *wait <= millis(4000)));
}

#[test]
fn a_session_that_is_lost_repeatedly_parks() {
    let flap = |host: &mut Host| {
        reopen(host, &mut server());
        assert!(host.is_ready());
        host.close_transport();
    };
    let waits = waits(reconnecting(), flap);
    assert_eq!(waits.len(), 5);
    assert_doubling(&waits, 500, 60_000);
}

/// A connection that answers a request and is then lost.
fn answer_and_lose_connection(host: &mut Host) {
    reopen(host, &mut server());
    let (_, id) = ask(host);
    reply(host, &id, json!({}));
    host.close_transport();
}

fn stay_connected_and_lose_connection(host: &mut Host) {
    reopen(host, &mut server());
    host.wait(millis(180_000));
    host.close_transport();
}

#[test]
fn a_working_connection_resets_the_reconnect_delay() {
    for prove in [answer_and_lose_connection, stay_connected_and_lose_connection] {
        let mut host = Host::new(reconnecting());
        host.session.open(host.now).unwrap();
        host.collect();
        for _ in 0..20 {
            prove(&mut host);
            let (kind, Recovery::Reopen { at: Some(at) }) = *downs(&host).last().unwrap() else { panic!("no reopen") };
            assert_eq!(kind, FailureKind::Closed);
            assert_doubling(&[at - host.now], 500, 60_000);
            host.wait(millis(500));
        }
    }
}

#[test]
fn a_short_connection_does_not_reset_the_reconnect_delay() {
    let lose = |host: &mut Host| {
        reopen(host, &mut server());
        host.wait(millis(59_999));
        host.close_transport();
    };
    assert_eq!(waits(reconnecting(), lose).len(), 5);
}

/// A working connection resets the delay once. Later connections have to work again.
#[test]
fn failed_attempts_after_a_working_connection_use_the_budget() {
    for prove in [answer_and_lose_connection, stay_connected_and_lose_connection] {
        let lose = move |host: &mut Host| if host.opens == 1 { prove(host) } else { unreachable(host) };
        let waits = waits(reconnecting(), lose);
        assert_eq!(waits.len(), 5);
        assert_doubling(&waits, 500, 60_000);
    }
}

/// A server that refuses every handshake after the first counts as unreachable.
#[test]
fn refused_handshakes_after_a_ready_connection_use_the_budget() {
    let mut host = ready_with(reconnecting());
    host.close_transport();
    for _ in 0..20 {
        host.wait(millis(60_000));
        if downs(&host).iter().any(|(_, next)| matches!(next, Recovery::Parked { .. })) {
            return;
        }
        reopen(&mut host, &mut Server::new().error("initialize", -1, "no"));
        host.close_transport();
    }
    panic!("the session never parks: {:?}", downs(&host));
}

#[test]
fn an_unresponsive_connection_is_shut_down_and_reopened() {
    let mut host = ready_with(reconnecting());
    host.close_transport();
    host.wait(millis(500));
    host.transport(Transport::Opened);
    host.wait(millis(60_000));
    assert_eq!(downs(&host)[1], (FailureKind::HandshakeTimeout, Recovery::Reopen { at: None }));
    assert_eq!(host.shuts, [ShutdownStep::CloseInput]);
    host.close_transport();
    host.wait(millis(1000));
    assert_eq!(host.opens, 3);
    reopen(&mut host, &mut server());
    assert!(host.is_ready());
}

fn parked() -> Host {
    let mut host = Host::new(reconnecting());
    host.session.open(host.now).unwrap();
    host.collect();
    for _ in 0..6 {
        unreachable(&mut host);
        if matches!(downs(&host).last(), Some((_, Recovery::Parked { .. }))) {
            return host;
        }
        host.wait(millis(60_000));
    }
    panic!("the session does not park");
}

#[test]
fn a_parked_session_reconnects_after_a_long_delay() {
    let mut host = parked();
    let Recovery::Parked { until, .. } = downs(&host).last().unwrap().1 else { panic!("the session is not parked") };
    assert_eq!(until - host.now, millis(300_000));
    let opens = host.opens;
    host.wait(millis(299_999));
    assert_eq!(host.opens, opens);
    host.wait(millis(1));
    assert_eq!(host.opens, opens + 1);
    unreachable(&mut host);
    assert!(matches!(downs(&host).last(), Some((FailureKind::Connect, Recovery::Parked { .. }))));
    host.wait(millis(300_000));
    reopen(&mut host, &mut server());
    assert!(host.is_ready());
}

#[test]
fn open_while_parked_or_waiting_reconnects_at_once() {
    let mut waiting = ready_with(reconnecting());
    waiting.close_transport();
    for mut host in [parked(), waiting] {
        let opens = host.opens;
        host.session.open(host.now).unwrap();
        host.collect();
        assert_eq!(host.opens, opens + 1);
        host.wait(millis(50_000));
        assert_eq!(host.opens, opens + 1);
        reopen(&mut host, &mut server());
        assert!(host.is_ready());
    }
}

#[test]
fn requests_that_wait_for_a_parked_session_are_kept() {
    let mut host = parked();
    let request = request_unpolled(&mut host);
    host.session.open(host.now).unwrap();
    host.collect();
    reopen(&mut host, &mut server().result("tools/call", json!({})));
    assert_eq!(outcome(&host, request), "Result");
}

#[test]
fn ready_is_reported_after_each_reconnect() {
    let mut host = ready_with(reconnecting());
    host.close_transport();
    host.wait(millis(500));
    reopen(&mut host, &mut server());
    let ready = host.events.iter().filter(|event| matches!(event, Event::Ready)).count();
    assert_eq!((ready, host.cause()), (2, None));
}

#[test]
fn input_between_two_connections_is_ignored() {
    let mut host = ready_with(reconnecting());
    let (_, id) = ask(&mut host);
    host.close_transport();
    let events = host.events.len();
    reply(&mut host, &id, json!({}));
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    host.receive_text("noise");
    host.transport(Transport::Opened);
    assert_eq!((host.events.len(), host.take_sent().len()), (events, 0));
}

#[test]
fn a_response_of_an_earlier_connection_is_ignored() {
    let mut host = ready_with(reconnecting());
    let (lost, id) = ask(&mut host);
    host.close_transport();
    host.wait(millis(500));
    reopen(&mut host, &mut server());
    let (open, _) = ask(&mut host);
    reply(&mut host, &id, json!({}));
    assert_eq!((outcome(&host, lost), ended(&host).contains(&open)), ("Unknown".into(), false));
}

#[test]
fn a_command_that_cannot_be_started_ends_or_parks() {
    for (options, next) in [(legacy(), None), (reconnecting(), Some(Time::from_millis(300_000)))] {
        let mut host = Host::new(named(options));
        host.session.open(host.now).unwrap();
        host.collect();
        let request = request_unpolled(&mut host);
        host.transport(Transport::OpenFailed { how: OpenFailure::Spawn, why: "no such file" });
        let next = next.map_or(Recovery::Close, |until| Recovery::Parked { until, authorizing: false });
        assert_eq!(downs(&host), [(FailureKind::Spawn, next)]);
        let message = &host.failure().unwrap().message;
        assert!(message.contains("acme") && message.contains("no such file"), "{message}");
        assert_eq!((host.session.is_closed(), host.shuts.len()), (next == Recovery::Close, 0));
        assert_eq!(ended(&host).contains(&request), next == Recovery::Close);
    }
}

#[test]
fn an_unreachable_server_closes_or_reconnects() {
    for options in [legacy(), reconnecting()] {
        let reopens = options.reconnect.is_some();
        let mut host = Host::new(named(options));
        host.session.open(host.now).unwrap();
        host.collect();
        unreachable(&mut host);
        let message = &host.failure().unwrap().message;
        assert!(message.contains("acme") && message.contains("refused"), "{message}");
        assert_eq!(host.failure_kind(), Some(FailureKind::Connect));
        assert_eq!(host.session.is_closed(), !reopens);
        host.wait(millis(500));
        assert_eq!(host.opens, 1 + u32::from(reopens));
    }
}

// Time.

#[test]
fn early_and_repeated_timeouts_do_nothing() {
    let mut opening = Host::new(reconnecting());
    opening.session.open(opening.now).unwrap();
    let mut waiting = ready_with(reconnecting());
    waiting.close_transport();
    let mut calling = ready();
    ask(&mut calling);
    let hosts = [Host::new(legacy()), opening, Host::open(options()), calling, waiting, parked(), closing(legacy())];
    for mut host in hosts {
        host.collect();
        let deadline = host.session.deadline();
        let before = format!("{:?}", host.session);
        for _ in 0..3 {
            host.session.handle_timeout(host.now);
        }
        assert_eq!(format!("{:?}", host.session), before);
        if let Some(deadline) = deadline {
            host.session.handle_timeout(Time::from_micros(deadline.as_micros() - 1));
            assert!(host.session.poll().is_none());
            assert_eq!(host.session.deadline(), Some(deadline));
            host.session.handle_timeout(deadline);
            assert!(host.session.poll().is_some() || host.session.deadline() != Some(deadline));
        }
    }
}

#[test]
fn the_deadline_is_now_while_there_is_output() {
    let mut host = ready();
    host.wait(millis(700));
    request_unpolled(&mut host);
    assert_eq!(host.session.deadline(), Some(host.now));
    host.collect();
    assert_eq!(host.session.deadline(), Some(host.now + millis(60_000)));
}

#[test]
fn time_may_run_backwards() {
    let mut host = ready();
    host.wait(millis(100_000));
    let late = host.now;
    host.now = Time::ZERO;
    let (timed_out, _) = ask(&mut host);
    let (answered, id) = ask(&mut host);
    assert_eq!(host.session.deadline(), Some(late + millis(60_000)));
    reply(&mut host, &id, json!({}));
    host.session.handle_timeout(Time::ZERO);
    host.session.report(Time::ZERO, Transport::SignOfLife);
    assert_eq!(outcome(&host, answered), "Result");
    assert!(host.is_ready() && !ended(&host).contains(&timed_out));
    host.session.handle_timeout(late + millis(60_000));
    host.collect();
    assert_eq!(outcome(&host, timed_out), "TimedOut");
}

#[test]
fn time_may_jump() {
    let mut host = ready_with(reconnecting());
    let (request, _) = ask(&mut host);
    host.now = Time::from_micros(u64::MAX);
    host.session.handle_timeout(host.now);
    host.collect();
    assert_eq!(outcome(&host, request), "TimedOut");
    host.close_transport();
    host.session.handle_timeout(host.now);
    host.collect();
    reopen(&mut host, &mut server());
    assert!(host.is_ready());
}

// Requests of the server.

fn asking() -> Host {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    options.capabilities.sampling = true;
    ready_with(options)
}

fn ask_client(host: &mut Host, id: Value, method: &str, params: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
}

fn asked(host: &Host) -> Vec<ServerRequestId> {
    let asked = |event: &Event| match event {
        Event::ServerRequest { id: ask, .. } => Some(*ask),
        _ => None,
    };
    host.events.iter().filter_map(asked).collect()
}

fn ask_ended(host: &Host) -> Vec<ServerRequestId> {
    let ended = |event: &Event| match event {
        Event::ServerRequestEnded { id, .. } => Some(*id),
        _ => None,
    };
    host.events.iter().filter_map(ended).collect()
}

/// A server request that was reported and is open.
fn elicit(host: &mut Host) -> ServerRequestId {
    host.take_sent();
    ask_client(host, json!("e-1"), "elicitation/create", json!({"message": "who?", "requestedSchema": {}}));
    assert!(host.take_sent().is_empty());
    *asked(host).last().unwrap()
}

#[test]
fn ping_is_answered() {
    let mut host = ready();
    ask_client(&mut host, json!("p"), "ping", json!({}));
    assert_eq!(host.take_one(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
}

#[test]
fn roots_are_answered_from_the_options() {
    let mut options = legacy();
    options.capabilities.roots = Some(vec![Root::new("file:///a \"b\"").with_name("A"), Root::new("file:///c")]);
    let mut host = ready_with(options);
    ask_client(&mut host, json!(3), "roots/list", json!({}));
    let roots = json!([{"uri": "file:///a \"b\"", "name": "A"}, {"uri": "file:///c"}]);
    assert_eq!(host.take_one(), json!({"jsonrpc": "2.0", "id": 3, "result": {"roots": roots}}));
}

#[test]
fn elicitation_and_sampling_are_reported_and_answered() {
    for method in ["elicitation/create", "sampling/createMessage"] {
        let mut host = asking();
        host.receive_text(&format!(
            r#"{{"jsonrpc":"2.0","id":7.50,"method":"{method}","params":{{ "message": "é" }}}}"#
        ));
        let Some(Event::ServerRequest { id: ask, method: named, params: Some(params) }) = host.events.last() else {
            panic!()
        };
        assert_eq!((named.as_str(), params.get()), (method, r#"{ "message": "é" }"#));
        let ask = *ask;
        assert!(host.take_sent().is_empty());
        host.session.respond(host.now, ask, Ok(&raw("{\n\"action\": \"accept\"}"))).unwrap();
        let Some(Action::Send(answer)) = host.session.poll() else { panic!("no answer") };
        assert_eq!(answer.bytes(), br#"{"jsonrpc":"2.0","id":7.50,"result":{ "action": "accept"}}"#);
        assert_eq!((answer.method(), answer.wire_id()), (None, None));
        assert!(ask_ended(&host).is_empty());
        host.wait(millis(600_000));
        assert!(host.take_sent().is_empty());
    }
}

#[test]
fn a_server_request_can_be_answered_with_an_error() {
    let mut host = asking();
    let ask = elicit(&mut host);
    let mut error = ErrorObject::new(-1, "not \"now\"");
    error.data = Some(raw("{\"x\":\n1}"));
    host.session.respond(host.now, ask, Err(error)).unwrap();
    host.collect();
    let error = json!({"code": -1, "message": "not \"now\"", "data": {"x": 1}});
    assert_eq!(host.take_one(), json!({"jsonrpc": "2.0", "id": "e-1", "error": error}));
}

#[test]
fn a_server_request_that_is_not_answered_in_time_is_cancelled() {
    let mut host = asking();
    let ask = elicit(&mut host);
    ask_client(&mut host, json!("s-1"), "sampling/createMessage", json!({}));
    host.wait(millis(599_999));
    assert!(host.take_sent().is_empty());
    host.wait(millis(1));
    let sent = host.take_sent();
    assert_eq!(sent[0], json!({"jsonrpc": "2.0", "id": "e-1", "result": {"action": "cancel"}}));
    assert_eq!((&sent[1]["id"], sent[1]["error"]["code"].is_i64(), sent.len()), (&json!("s-1"), true, 2));
    assert_eq!(ask_ended(&host), asked(&host));
    assert_eq!(host.session.respond(host.now, ask, Ok(&raw("{}"))), Err(CommandError::UnknownServerRequest));
}

#[test]
fn a_cancelled_server_request_is_not_answered() {
    let mut host = asking();
    let ask = elicit(&mut host);
    let cancel = |id| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    host.receive(cancel(json!("another")));
    assert!(ask_ended(&host).is_empty());
    host.receive(cancel(json!("e-1")));
    host.receive(cancel(json!("e-1")));
    assert_eq!(ask_ended(&host), [ask]);
    assert_eq!(host.session.respond(host.now, ask, Ok(&raw("{}"))), Err(CommandError::UnknownServerRequest));
    host.wait(millis(600_000));
    assert!(host.take_sent().is_empty());
}

#[test]
fn a_server_request_ends_with_its_connection() {
    let mut host = asking();
    let ask = elicit(&mut host);
    host.close_transport();
    assert_eq!((ask_ended(&host), host.take_sent().len()), (vec![ask], 0));

    let mut host = asking();
    let ask = elicit(&mut host);
    host.session.close(host.now).unwrap();
    host.collect();
    assert_eq!(ask_ended(&host), [ask]);
    assert_eq!(host.take_one()["result"], json!({"action": "cancel"}), "a connected server gets its response");
}

#[test]
fn queued_responses_are_sent_when_the_session_closes() {
    let mut host = asking();
    host.session.deliver(host.now, br#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    host.session.close(host.now).unwrap();
    host.collect();
    assert_eq!(host.take_one(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    assert_eq!(host.shuts, [ShutdownStep::CloseInput], "only after the response");
}

fn form() -> Value {
    json!({
        "message": "who?",
        "requestedSchema": {"type": "object", "properties": {
            "name": {"type": "string", "default": "Ann"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 1.5},
            "member": {"type": "boolean", "default": false},
            "mail": {"type": "string"},
            "a\"b": {"type": "string", "default": "quoted"},
        }}
    })
}

#[test]
fn missing_fields_of_an_accepted_form_get_their_defaults() {
    for (given, sent) in [
        (
            json!({"action": "accept", "content": {"name": "Bob", "mail": "b@x"}}),
            json!({"action": "accept", "content": {
                "name": "Bob", "mail": "b@x", "age": 30, "score": 1.5, "member": false, "a\"b": "quoted"
            }}),
        ),
        (
            json!({"action": "accept", "_meta": {"k": 1}}),
            json!({"action": "accept", "_meta": {"k": 1}, "content": {
                "name": "Ann", "age": 30, "score": 1.5, "member": false, "a\"b": "quoted"
            }}),
        ),
        (json!({"action": "decline"}), json!({"action": "decline"})),
        (json!({"action": "cancel", "content": {}}), json!({"action": "cancel", "content": {}})),
    ] {
        let mut host = asking();
        ask_client(&mut host, json!("e-1"), "elicitation/create", form());
        let ask = asked(&host)[0];
        host.session.respond(host.now, ask, Ok(&raw(&given.to_string()))).unwrap();
        host.collect();
        assert_eq!(host.take_one()["result"], sent);
    }
}

#[test]
fn a_default_of_a_wrong_type_is_not_used() {
    let mut host = asking();
    let property = |kind: &str, default: Value| json!({"type": kind, "default": default});
    let properties = json!({
        "a": property("string", json!(1)),
        "b": property("integer", json!(1.5)),
        "c": property("integer", json!("1")),
        "d": property("number", json!("1")),
        "e": property("boolean", json!(0)),
        "f": property("array", json!({})),
        "g": property("object", json!({})),
        "h": {"default": "x"},
        "i": property("string", Value::Null),
        "j": property("integer", json!(2.0)),
        "k": property("array", json!(["x"])),
    });
    let schema = json!({"type": "object", "properties": properties});
    ask_client(&mut host, json!("e-1"), "elicitation/create", json!({"message": "?", "requestedSchema": schema}));
    let ask = asked(&host)[0];
    host.session.respond(host.now, ask, Ok(&raw(r#"{"action":"accept"}"#))).unwrap();
    host.collect();
    assert_eq!(host.take_one()["result"]["content"], json!({"j": 2.0, "k": ["x"]}));
}

/// The last property counts, as for other members that come twice.
#[test]
fn a_property_that_comes_twice_is_filled_once() {
    for (properties, content) in [
        (r#""n":{"type":"integer","default":1},"\u006e":{"type":"integer","default":2}"#, r#"{"\u006e":2}"#),
        (r#""n":{"type":"integer","default":1},"n":{"type":"string"}"#, "{}"),
        (r#""n":{"type":"integer","default":1},"n":{"type":"string","default":1}"#, "{}"),
        (r#""n":{"type":"string"},"n":{"type":"integer","default":3}"#, r#"{"n":3}"#),
    ] {
        let mut host = asking();
        let schema = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        host.receive_text(&format!(
            r#"{{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{{"message":"?","requestedSchema":{schema}}}}}"#
        ));
        let ask = asked(&host)[0];
        host.session.respond(host.now, ask, Ok(&raw(r#"{"action":"accept","content":{}}"#))).unwrap();
        let Some(Action::Send(sent)) = host.session.poll() else { panic!("no response") };
        let sent = std::str::from_utf8(sent.bytes()).unwrap();
        assert!(sent.ends_with(&format!(r#""content":{content}}}}}"#)), "{sent}");
    }
}

#[test]
fn of_a_form_the_first_1024_defaults_are_used() {
    let mut host = asking();
    let property = |at: usize| (format!("{at:04}"), json!({"type": "integer", "default": at}));
    let properties: serde_json::Map<_, _> = (0..1_025).map(property).collect();
    let schema = json!({"type": "object", "properties": properties});
    ask_client(&mut host, json!("e-1"), "elicitation/create", json!({"message": "?", "requestedSchema": schema}));
    let ask = asked(&host)[0];
    host.session.respond(host.now, ask, Ok(&raw(r#"{"action":"accept"}"#))).unwrap();
    host.collect();
    let content = &host.take_one()["result"]["content"];
    assert_eq!((content.as_object().unwrap().len(), &content["1023"]), (1_024, &json!(1_023)));
}

#[test]
fn a_form_is_refused_if_its_defaults_exceed_the_memory_for_inputs() {
    for (length, is_asked) in [(800, true), (1_000, false)] {
        let mut options = legacy();
        options.capabilities.elicitation = true;
        options.limits.input_bytes = 1_000;
        let mut host = ready_with(options);
        host.take_sent();
        let properties = json!({"a": {"type": "string", "default": "x".repeat(length)}});
        let schema = json!({"type": "object", "properties": properties});
        ask_client(&mut host, json!(1), "elicitation/create", json!({"message": "?", "requestedSchema": schema}));
        assert_eq!((!asked(&host).is_empty(), host.take_sent().is_empty()), (is_asked, is_asked), "{length}");
    }
}

#[test]
fn defaults_are_not_used_if_the_options_say_so_or_the_user_visits_a_url() {
    for (fill, mode) in [(false, "form"), (true, "url")] {
        let mut options = legacy();
        options.capabilities.elicitation = true;
        options.capabilities.elicitation_url = true;
        options.form_defaults = fill;
        let mut host = ready_with(options);
        host.take_sent();
        let mut params = form();
        params["mode"] = json!(mode);
        ask_client(&mut host, json!("e-1"), "elicitation/create", params);
        let ask = asked(&host)[0];
        host.session.respond(host.now, ask, Ok(&raw(r#"{"action":"accept","content":{}}"#))).unwrap();
        host.collect();
        assert_eq!(host.take_one()["result"], json!({"action": "accept", "content": {}}), "{mode}");
    }
}

#[test]
fn an_undeclared_server_request_is_refused() {
    let mut host = ready();
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        ask_client(&mut host, json!(1), method, json!({}));
        assert_eq!(host.take_one()["error"]["code"], -32601, "{method}");
    }
    assert!(asked(&host).is_empty());
}

/// "-32602 (Invalid params): Server sends an `elicitation/create` request with a mode not declared in client
/// capabilities" (specification 2025-11-25, "Elicitation", Error Handling).
#[test]
fn an_undeclared_mode_of_elicitation_is_refused() {
    for (form, url) in [(true, false), (false, true), (true, true)] {
        let mut options = legacy();
        options.capabilities.elicitation = form;
        options.capabilities.elicitation_url = url;
        let mut host = ready_with(options);
        host.take_sent();
        for (params, known) in [
            (json!({"mode": "form"}), form),
            (json!({}), form),
            (json!({"mode": "url", "url": "https://a.example"}), url),
            (json!({"mode": "voice"}), false),
        ] {
            let before = asked(&host).len();
            ask_client(&mut host, json!(1), "elicitation/create", params.clone());
            assert_eq!(asked(&host).len() - before, usize::from(known), "{params}");
            let refusal: Vec<_> = host.take_sent().iter().map(|answer| answer["error"]["code"].clone()).collect();
            assert_eq!(refusal, if known { vec![] } else { vec![json!(-32602)] }, "{params}");
        }
    }
}

#[test]
fn open_server_requests_are_limited() {
    let mut options = legacy();
    options.capabilities.sampling = true;
    options.limits.server_requests = 2;
    let mut host = ready_with(options);
    host.take_sent();
    for id in 0..3 {
        ask_client(&mut host, json!(id), "sampling/createMessage", json!({}));
    }
    let refusal = host.take_one();
    assert_eq!((asked(&host).len(), &refusal["id"], refusal.get("error").is_some()), (2, &json!(2), true));
}

/// The id counts twice, and the defaults of a form and the task that it is for count, too.
#[test]
fn the_bytes_of_open_server_requests_are_limited() {
    let params = json!({
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {"n": {"type": "string", "default": "d".repeat(98)}}},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t".repeat(86)}},
    });
    // Each has 400 bytes: an id of 100, a default and its name of 101 and 3, and a related task.
    let mut bytes = 200 + 100 + 3 + 99;
    for (over, kept) in [(0, 2), (1, 1)] {
        let mut options = legacy();
        (options.capabilities.elicitation, options.capabilities.tasks) = (true, true);
        bytes -= over;
        options.limits.input_bytes = 2 * bytes;
        let mut host = ready_with(options);
        for number in 0..3 {
            ask_client(&mut host, json!(format!("{number:098}")), "elicitation/create", params.clone());
        }
        assert_eq!(asked(&host).len(), kept, "{over}");
    }
}

#[test]
fn a_modern_session_does_not_answer_server_requests() {
    let mut options = options();
    options.capabilities.elicitation = true;
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    for method in ["ping", "elicitation/create", "acme/ask"] {
        ask_client(&mut host, json!(1), method, json!({}));
    }
    assert!(host.take_sent().is_empty() && asked(&host).is_empty());
    assert_eq!(host.quirk_methods(QuirkKind::ServerRequest), ["ping", "elicitation/create", "acme/ask"]);
}

/// An open server request suspends the deadlines of requests, up to a limit.
#[test]
fn endless_server_requests_do_not_keep_a_request_open() {
    for bound in [2, 60] {
        let mut options = legacy();
        options.capabilities.elicitation = true;
        let ask = options.timeouts.server_request;
        let mut host = ready_with(options);
        let request = Request::new("vendor/x").timeout(Duration::from_secs(2)).max_timeout(Duration::from_secs(bound));
        let request = host.session.request(host.now, request.progress(true)).unwrap();
        host.collect();
        let token = host.take_one()["id"].clone();
        let end = host.now + Duration::from_secs(bound) + ask;
        let mut question = elicit(&mut host);
        for _ in 0..10_000 {
            host.wait(Duration::from_secs(1));
            let progress = json!({"progressToken": token, "progress": 1});
            host.receive(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
            let next = elicit(&mut host);
            let decline = serde_json::value::to_raw_value(&json!({"action": "decline"})).unwrap();
            host.session.respond(host.now, question, Ok(&decline)).unwrap();
            host.collect();
            question = next;
            if host.ended(request).is_some() {
                break;
            }
        }
        assert!(matches!(host.ended(request), Some(Outcome::TimedOut(_))), "{:?}", host.ended(request));
        assert!(host.now <= end, "{:?} and not {end:?}", host.now);
    }
}

/// Also where there was no other request when the user was asked.
#[test]
fn a_request_that_is_made_while_the_user_is_asked_waits_for_the_user() {
    let mut host = asking();
    let question = elicit(&mut host);
    host.session.refresh(host.now, mcp_proto::Family::Tools).unwrap();
    host.serve(&mut server());
    let request = host.session.request(host.now, Request::new("vendor/x").timeout(Duration::from_secs(5))).unwrap();
    host.collect();
    host.wait(Duration::from_secs(30));
    assert!(host.ended(request).is_none());
    let decline = raw(r#"{"action":"decline"}"#);
    host.session.respond(host.now, question, Ok(&decline)).unwrap();
    host.wait(Duration::from_secs(5));
    assert_eq!(outcome(&host, request), "TimedOut");
}

/// The limit counts for each request from its start, whatever time the user took before.
#[test]
fn a_request_after_many_server_requests_has_the_full_time_limit() {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    let mut host = ready_with(options);
    let long = Request::new("vendor/long").timeout(Duration::from_secs(100_000));
    host.session.request(host.now, long).unwrap();
    host.collect();
    for _ in 0..3 {
        let question = elicit(&mut host);
        host.wait(Duration::from_secs(500));
        host.session.respond(host.now, question, Err(ErrorObject::new(1, "no"))).unwrap();
        host.collect();
    }
    let request = host.session.request(host.now, Request::new("vendor/x").timeout(Duration::from_secs(2))).unwrap();
    host.collect();
    let question = elicit(&mut host);
    host.wait(Duration::from_secs(500));
    host.session.respond(host.now, question, Err(ErrorObject::new(1, "no"))).unwrap();
    host.wait(Duration::from_millis(1_999));
    assert!(host.ended(request).is_none());
    host.wait(Duration::from_millis(1));
    assert!(matches!(host.ended(request), Some(Outcome::TimedOut(mcp_proto::TimeBound::Timeout))));
}

/// A request that is sent again has another id on the wire. The embedder's id of it stays the first one.
#[test]
fn the_new_id_of_a_request_on_the_wire_is_no_id_of_a_request() {
    let mut host = ready_with(reconnecting());
    let request = host.session.request(host.now, Request::new("tools/call").replay(true)).unwrap();
    host.collect();
    let first = host.take_one()["id"].clone();
    host.close_transport();
    host.wait(Duration::from_secs(3));
    host.transport(Transport::Opened);
    let mut again = None;
    for _ in 0..4 {
        for message in host.take_sent() {
            if message["method"] == "tools/call" {
                again = message["id"].as_u64();
            } else {
                server().answer(&message).into_iter().for_each(|answer| host.receive(answer));
            }
        }
    }
    let again = again.expect("it is sent again");
    assert!(first.as_u64().unwrap() < again);
    let unknown = host.session.cancel(host.now, RequestId::from_u64(again));
    assert_eq!(unknown, Err(CommandError::UnknownRequest));
    host.session.cancel(host.now, request).unwrap();
}

/// They mean something only where the client itself sends them.
#[test]
fn members_of_meta_that_the_client_does_not_send_are_kept() {
    let meta = json!({
        "io.modelcontextprotocol/logLevel": "debug", "io.modelcontextprotocol/clientInfo": {}, "acme/x": 1,
    });
    let mut options = legacy();
    options.log_level = Some(mcp_proto::LogLevel::Error);
    let mut host = ready_with(options);
    host.take_sent();
    let params = json!({"name": "a", "_meta": meta}).to_string();
    host.session.request(host.now, Request::new("tools/call").params(raw(&params))).unwrap();
    host.collect();
    let mut sent = host.take_one()["params"]["_meta"].clone();
    assert!(sent.as_object_mut().unwrap().remove("progressToken").is_some());
    assert_eq!(sent, meta);
}
