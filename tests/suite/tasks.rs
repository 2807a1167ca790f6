//! Calls that a server runs as tasks, in both eras.

use std::time::Duration;

use crate::common::{Host, Server, legacy, millis, options, reconnecting, seconds, tools};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, CommandError, Event, Options, Outcome, Request, RequestError, RequestId, TaskError, TaskStatus, Time,
    Transport,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn with_tasks(mut options: Options) -> Options {
    options.capabilities.tasks = true;
    options.capabilities.elicitation = true;
    options.capabilities.roots = Some(vec![Root::new("file:///project")]);
    options
}

fn modern_server() -> Server {
    Server::modern(json!({"tools": {}, "extensions": {TASKS: {}}})).result("tools/list", tools(&["a"]))
}

fn legacy_server(capabilities: Value, support: &str) -> Server {
    let mut list = tools(&["a"]);
    list["tools"][0]["execution"] = json!({"taskSupport": support});
    Server::legacy(json!({"tools": {}, "tasks": capabilities})).result("tools/list", list)
}

/// The capabilities of a server that runs tools as tasks, and cancels them.
fn runs_tools() -> Value {
    json!({"requests": {"tools": {"call": {}}}, "cancel": {}})
}

fn modern() -> Host {
    let mut quiet = with_tasks(options());
    quiet.listen = false;
    ready(quiet, modern_server())
}

fn requiring() -> Host {
    ready(with_tasks(legacy()), legacy_server(runs_tools(), "required"))
}

fn ready(options: Options, mut server: Server) -> Host {
    let mut host = Host::connect(options, &mut server);
    assert!(host.is_ready());
    host.take_sent();
    host
}

fn call(host: &mut Host) -> (RequestId, Value) {
    start(host, Request::call_tool("a", None))
}

fn start(host: &mut Host, request: Request) -> (RequestId, Value) {
    let id = host.session.request(host.now, request).unwrap();
    host.collect();
    (id, host.take_one())
}

fn reply(host: &mut Host, sent: &Value, result: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
}

fn refuse(host: &mut Host, sent: &Value, code: i64) {
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "error": {"code": code, "message": "no such task"}}));
}

/// The description of a modern task, with additional members.
fn task(kind: &str, status: &str, more: Value) -> Value {
    let mut task = json!({"resultType": kind, "taskId": "t-1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60000, "pollIntervalMs": 2000});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn working() -> Value {
    task("complete", "working", json!({}))
}

/// A call that runs as a task and is being polled: its id, and the first poll.
fn polled(host: &mut Host) -> (RequestId, Value) {
    let (id, sent) = call(host);
    reply(host, &sent, task("task", "working", json!({})));
    host.wait(seconds(2));
    (id, host.take_one())
}

fn legacy_task(status: &str) -> Value {
    json!({"taskId": "t-1", "status": status, "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000, "pollInterval": 2000})
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn error(host: &Host, id: RequestId) -> RequestError {
    match host.result_of(id) {
        Outcome::Error(error) => error.clone(),
        other => panic!("no error: {other:?}"),
    }
}

fn result(host: &Host, id: RequestId) -> Value {
    match host.result_of(id) {
        Outcome::Result(result) => serde_json::from_str(result.get()).unwrap(),
        other => panic!("no result: {other:?}"),
    }
}

fn status_events(host: &Host) -> Vec<(TaskStatus, Option<String>)> {
    let read = |event: &Event| match event {
        Event::Task { task, .. } => Some((task.status().unwrap(), task.message().map(|message| message.into_owned()))),
        _ => None,
    };
    host.events.iter().filter_map(read).collect()
}

fn input_requests(host: &Host) -> Vec<String> {
    let read = |event: &Event| match event {
        Event::InputRequired { inputs, .. } => {
            Some(inputs.iter().map(|input| input.key.to_string()).collect::<Vec<_>>())
        }
        _ => None,
    };
    host.events.iter().filter_map(read).flatten().collect()
}

fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object"}}})
}

const DONE: &str = r#"{"content": [], "isError": false}"#;

fn done() -> Value {
    serde_json::from_str(DONE).unwrap()
}

// The extension of 2026-07-28.

#[test]
fn the_extension_is_declared_only_if_tasks_are_enabled() {
    let mut host = modern();
    let (_, sent) = call(&mut host);
    let declared = &sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"], json!({TASKS: {}}));
    let mut beside = with_tasks(options());
    let other = "com.acme/a".parse().unwrap();
    beside.capabilities.extensions = [(other, RawValue::from_string("{}".into()).unwrap().into())].into();
    let (_, sent) = call(&mut ready(beside, modern_server()));
    let declared = &sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"], json!({TASKS: {}, "com.acme/a": {}}));
    let mut host = ready(options(), modern_server());
    let (id, sent) = call(&mut host);
    let declared = &sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(declared.get("extensions").is_none());
    reply(&mut host, &sent, task("task", "working", json!({})));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)), "a task that the client cannot follow");
}

#[test]
fn a_modern_task_is_polled_at_its_interval_until_it_has_a_result() {
    let mut host = modern();
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({"statusMessage": "begun"})));
    host.wait(millis(1999));
    assert!(host.take_sent().is_empty(), "polled before the interval");
    host.wait(millis(1));
    let poll = host.take_one();
    assert_eq!((&poll["method"], &poll["params"]["taskId"]), (&json!("tasks/get"), &json!("t-1")));
    assert!(poll["params"]["_meta"].get("progressToken").is_none() && poll["params"].get("name").is_none());
    assert_ne!(poll["id"], sent["id"]);
    reply(&mut host, &poll, task("complete", "working", json!({"statusMessage": "half", "pollIntervalMs": 500})));
    host.wait(millis(500));
    let poll = host.take_one();
    host.receive_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"taskId":"t-1","status":"completed","result":{DONE}}}}}"#,
        poll["id"]
    ));
    assert!(matches!(host.result_of(id), Outcome::Result(result) if result.get() == DONE), "byte for byte");
    let finished = host.events.iter().filter(|event| matches!(event, Event::Finished { attempts: 1, .. })).count();
    assert_eq!(finished, 1, "one outcome, and one attempt of the call");
    assert_eq!(
        status_events(&host),
        [(TaskStatus::Working, Some("begun".into())), (TaskStatus::Working, Some("half".into()))]
    );
    host.wait(seconds(60));
    assert!(host.take_sent().is_empty());
}

#[test]
fn a_task_may_be_created_as_ended_or_with_required_input() {
    for status in ["completed", "input_required"] {
        let mut host = modern();
        let (id, sent) = call(&mut host);
        reply(&mut host, &sent, task("task", status, json!({})));
        let poll = host.take_one();
        assert_eq!(poll["method"], "tasks/get", "{status}: its details are requested at once");
        reply(&mut host, &poll, task("complete", "completed", json!({"result": done()})));
        assert_eq!(result(&host, id), done());
    }
}

#[test]
fn a_modern_task_ends_with_the_status_of_the_server() {
    let cases = [
        (
            task("complete", "failed", json!({"error": {"code": -32603, "message": "broken"}})),
            RequestError::Server(ErrorObject::new(-32603, "broken")),
        ),
        (
            task("complete", "failed", json!({"statusMessage": "why"})),
            RequestError::Task(TaskError::Failed { message: "why".into() }),
        ),
        (
            task("complete", "cancelled", json!({"statusMessage": "why"})),
            RequestError::Task(TaskError::Cancelled { message: "why".into() }),
        ),
    ];
    for (status, expected) in cases {
        let mut host = modern();
        let (id, poll) = polled(&mut host);
        reply(&mut host, &poll, status);
        assert_eq!(error(&host, id), expected);
        assert!(host.take_sent().is_empty(), "an ended task is not cancelled");
    }
    let mut host = modern();
    let (id, poll) = polled(&mut host);
    refuse(&mut host, &poll, -32602);
    assert_eq!(error(&host, id).code(), Some(-32602), "a task that the server has forgotten");
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "failed", json!({})));
    let poll = host.take_one();
    refuse(&mut host, &poll, -32602);
    assert_eq!(error(&host, id).code(), Some(-32602));
}

#[test]
fn the_input_that_a_task_requires_is_requested_once_and_sent_with_an_update() {
    let mut host = modern();
    let (id, poll) = polled(&mut host);
    let inputs = json!({"who": form(), "where": {"method": "roots/list"}});
    reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": inputs})));
    assert_eq!(input_requests(&host), ["who"], "the engine answers the request for roots");
    let accept = raw(&json!({"action": "accept", "content": {"name": "x"}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let update = host.take_one();
    assert_eq!((&update["method"], &update["params"]["taskId"]), (&json!("tasks/update"), &json!("t-1")));
    assert_eq!(
        update["params"]["inputResponses"],
        json!({
            "where": {"roots": [{"uri": "file:///project"}]},
            "who": {"action": "accept", "content": {"name": "x"}}
        })
    );
    reply(&mut host, &update, json!({"resultType": "complete"}));
    assert_eq!(host.session.provide(host.now, id, [("who", &*accept)]), Err(CommandError::UnknownRequest));

    host.wait(seconds(2));
    let poll = host.take_one();
    // The server has not processed the responses yet.
    reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": inputs})));
    assert_eq!(input_requests(&host), ["who"], "requested once");
    host.wait(seconds(2));
    let poll = host.take_one();
    let more = json!({"who": form(), "where": {"method": "roots/list"}, "when": form()});
    reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": more})));
    assert_eq!(input_requests(&host), ["who", "when"]);
    let decline = raw(&json!({"action": "decline"}));
    host.session.provide(host.now, id, [("when", &*decline)]).unwrap();
    host.collect();
    let update = host.take_one();
    assert_eq!(update["params"]["inputResponses"], json!({"when": {"action": "decline"}}));
    reply(&mut host, &update, json!({"resultType": "complete"}));
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, task("complete", "completed", json!({"result": done()})));
    assert_eq!(result(&host, id), done());
    assert!(!host.events.iter().any(|event| matches!(event, Event::Resending { .. })), "the call itself is sent once");
}

/// A call whose task requires a form, which the embedder is asked for.
fn asking(options: Options) -> (Host, RequestId) {
    let mut host = ready(options, modern_server());
    let (id, poll) = polled(&mut host);
    reply(&mut host, &poll, requiring_form(json!({"who": form()})));
    assert_eq!((input_requests(&host), host.take_sent().len()), (vec!["who".to_owned()], 0));
    (host, id)
}

fn requiring_form(inputs: Value) -> Value {
    task("complete", "input_required", json!({"inputRequests": inputs}))
}

fn not_listening(mut options: Options) -> Options {
    options.listen = false;
    options
}

fn has_finished(host: &Host) -> bool {
    host.events.iter().any(|event| matches!(event, Event::Finished { .. }))
}

#[test]
fn a_task_is_polled_while_the_user_is_asked() {
    let (mut host, id) = asking(not_listening(with_tasks(options())));
    for report in [requiring_form(json!({"who": form()})), working(), requiring_form(json!({"more": form()}))] {
        host.wait(millis(1999));
        assert!(host.take_sent().is_empty(), "at the interval of the server");
        host.wait(millis(1));
        let poll = host.take_one();
        assert_eq!((&poll["method"], &poll["params"]["taskId"]), (&json!("tasks/get"), &json!("t-1")));
        assert!(poll["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS].is_object());
        host.wait(seconds(30));
        assert!(host.take_sent().is_empty(), "one poll at a time");
        reply(&mut host, &poll, report);
    }
    assert!(!has_finished(&host));
    assert_eq!(input_requests(&host), ["who"], "further input is asked for after this one");
    // The input comes while a poll is on its way, whose response changes nothing any more.
    host.wait(seconds(2));
    let poll = host.take_one();
    let accept = raw(&json!({"action": "accept", "content": {}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let update = host.take_one();
    assert_eq!(update["method"], "tasks/update");
    reply(&mut host, &poll, requiring_form(json!({"who": form(), "more": form()})));
    reply(&mut host, &update, json!({"resultType": "complete"}));
    assert_eq!(input_requests(&host), ["who"]);
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, requiring_form(json!({"who": form(), "more": form()})));
    assert_eq!(input_requests(&host), ["who", "more"]);
    assert!(host.session.quirks().is_empty());
}

#[test]
fn a_task_may_end_while_the_user_is_asked() {
    let given: [(&str, &RawValue); 0] = [];
    let done = task("complete", "completed", json!({"result": done()}));
    let failed = task("complete", "failed", json!({"error": {"code": -32603, "message": "too late"}}));
    let cancelled = task("complete", "cancelled", json!({"statusMessage": "too late"}));
    let other = json!({"taskId": "t-2", "status": "working"});
    for (report, ends, cancels) in [
        (Ok(done.clone()), "Result(", false),
        (Ok(failed), "Error(Server(", false),
        (Ok(cancelled), "Error(Task(Cancelled", false),
        (Ok(other), "Error(Task(OtherTask", true),
        (Err(-32602), "Error(Server(", false),
    ] {
        let (mut host, id) = asking(not_listening(with_tasks(options())));
        host.wait(seconds(2));
        let poll = host.take_one();
        match report {
            Ok(report) => reply(&mut host, &poll, report),
            Err(code) => refuse(&mut host, &poll, code),
        }
        let outcome = format!("{:?}", host.result_of(id));
        assert!(outcome.starts_with(ends), "{outcome}");
        assert_eq!(host.session.provide(host.now, id, given), Err(CommandError::UnknownRequest));
        assert_eq!(host.take_methods(), if cancels { &["tasks/cancel"][..] } else { &[] });
        host.wait(seconds(60));
        assert!(host.take_without_cancellations().is_empty(), "it is not polled any more");
    }
    // By a notification, but not while a poll is on its way: its response tells the same.
    let mut server = modern_server();
    let mut host = Host::connect(with_tasks(options()), &mut server);
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({})));
    let listen = host.take_one();
    host.receive(server.answer(&listen).remove(0));
    let notify = |host: &mut Host, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}));
    };
    notify(&mut host, requiring_form(json!({"who": form()})));
    assert_eq!(input_requests(&host), ["who"]);
    host.wait(seconds(2));
    let poll = host.take_one();
    notify(&mut host, done.clone());
    assert!(!has_finished(&host));
    reply(&mut host, &poll, requiring_form(json!({"who": form()})));
    notify(&mut host, done);
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
}

/// The next poll of a task whose user is asked is put off while there is no connection: at the last instant to that instant.
#[test]
fn a_poll_at_the_last_instant_is_due_once() {
    let (mut host, _) = asking(not_listening(reconnecting(with_tasks(options()))));
    host.close_transport();
    host.session.handle_timeout(Time::from_micros(u64::MAX));
    host.collect();
    assert!(has_finished(&host));
}

#[test]
fn polls_of_a_task_whose_user_is_asked_survive_silence_and_the_connection() {
    let (mut host, id) = asking(not_listening(reconnecting(with_tasks(options()))));
    host.wait(seconds(2));
    let silent = host.take_one();
    host.wait(seconds(60));
    let cancel = host.take_one();
    assert_eq!((&cancel["method"], &cancel["params"]["requestId"]), (&json!("notifications/cancelled"), &silent["id"]));
    // Late, and with the type that some servers give to a status.
    reply(&mut host, &silent, task("task", "working", json!({})));
    assert!(host.take_sent().is_empty(), "a task that is followed is not cancelled");
    host.wait(seconds(2));
    assert_eq!(host.take_one()["method"], "tasks/get");

    host.close_transport();
    host.wait(seconds(3));
    host.transport(Transport::Opened);
    let done = task("complete", "completed", json!({"result": done()}));
    let mut server = modern_server().result("tasks/get", done);
    host.serve(&mut server);
    assert!(host.is_ready() && !has_finished(&host), "the input does not depend on the connection");
    host.wait(seconds(2));
    host.serve(&mut server);
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
    assert_eq!(server.received("tools/call"), 0);
}

#[test]
fn a_task_with_an_empty_or_long_id_is_not_resumed() {
    let mut host = modern();
    for id in [String::new(), "x".repeat(1025)] {
        let refused = host.session.request(host.now, Request::resume_task(&id));
        assert_eq!(refused, Err(CommandError::InvalidTaskId { limit: 1024 }));
    }
    host.collect();
    assert!(host.take_sent().is_empty());
    let longest = "x".repeat(1024);
    let (_, poll) = start(&mut host, Request::resume_task(&longest));
    assert_eq!(poll["params"]["taskId"], json!(longest));
}

#[test]
fn a_task_of_an_earlier_run_is_resumed_by_its_id() {
    let mut host = modern();
    let (id, poll) = start(&mut host, Request::resume_task("t-1"));
    assert_eq!((&poll["method"], &poll["params"]["taskId"]), (&json!("tasks/get"), &json!("t-1")));
    assert!(poll["params"]["_meta"].get("progressToken").is_none());
    let again = host.session.request(host.now, Request::resume_task("t-1"));
    assert_eq!(again, Err(CommandError::TaskFollowed));
    reply(&mut host, &poll, task("complete", "working", json!({"statusMessage": "half"})));
    assert_eq!(status_events(&host), [(TaskStatus::Working, Some("half".into()))]);
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, requiring_form(json!({"who": form()})));
    assert_eq!(input_requests(&host), ["who"]);
    let accept = raw(&json!({"action": "accept", "content": {}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let update = host.take_one();
    reply(&mut host, &update, json!({"resultType": "complete"}));
    // It takes longer than a request without progress may.
    for _ in 0..60 {
        host.wait(seconds(2));
        let poll = host.take_one();
        reply(&mut host, &poll, working());
    }
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, task("complete", "completed", json!({"result": done()})));
    assert_eq!(result(&host, id), done());
    assert!(
        host.events.iter().any(|event| matches!(event, Event::Finished { attempts: 0, .. })),
        "it was not sent again"
    );

    // Unknown to the server, and cancelled.
    let (id, poll) = start(&mut host, Request::resume_task("t-1"));
    refuse(&mut host, &poll, -32602);
    assert_eq!(error(&host, id).code(), Some(-32602));
    let (id, poll) = start(&mut host, Request::resume_task("t-1"));
    reply(&mut host, &poll, working());
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert!(matches!(host.result_of(id), Outcome::Cancelled));
    assert_eq!(host.take_methods(), ["tasks/cancel"]);

    // With parameters of its own it is an ordinary request, whose result is the status.
    let (id, poll) = start(&mut host, Request::resume_task("t-1").params(raw(&json!({"taskId": "t-2"}))));
    assert_eq!(poll["params"]["taskId"], "t-2");
    reply(&mut host, &poll, task("complete", "working", json!({})));
    assert_eq!(result(&host, id)["status"], "working");

    // It needs the capability on both sides, and waits for the connection.
    let mut host = ready(options(), modern_server());
    let undeclared = host.session.request(host.now, Request::resume_task("t-1"));
    assert_eq!(undeclared, Err(CommandError::NotDeclared { capability: "tasks".into() }));
    let mut plain = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(with_tasks(options()), &mut plain);
    let unknown = host.session.request(host.now, Request::resume_task("t-1"));
    assert!(matches!(unknown, Err(CommandError::NotAdvertised { .. })), "{unknown:?}");
    let mut host = Host::open(with_tasks(options()));
    let id = host.session.request(host.now, Request::resume_task("t-1")).unwrap();
    let done = task("complete", "completed", json!({"result": done()}));
    let mut server = modern_server().result("tasks/get", done);
    host.serve(&mut server);
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
}

#[test]
fn the_status_of_a_resumed_task_is_announced_on_the_listen_stream() {
    let mut host = ready(with_tasks(options()), modern_server());
    host.session.request(host.now, Request::resume_task("t-1")).unwrap();
    host.collect();
    let listen = host.take_sent().into_iter().find(|message| message["method"] == "subscriptions/listen").unwrap();
    assert_eq!(listen["params"]["notifications"]["taskIds"], json!(["t-1"]));
}

#[test]
fn input_that_the_engine_provides_for_a_task_is_sent_at_once() {
    let mut host = modern();
    let (id, poll) = polled(&mut host);
    let inputs = json!({"where": {"method": "roots/list"}});
    reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": inputs})));
    let update = host.take_one();
    assert_eq!(update["params"]["inputResponses"], json!({"where": {"roots": [{"uri": "file:///project"}]}}));
    refuse(&mut host, &update, -32602);
    assert_eq!(error(&host, id).code(), Some(-32602));
}

#[test]
fn a_task_whose_input_is_declined_or_impossible_is_cancelled() {
    let wanted = |host: &mut Host, input: Value| {
        let (id, poll) = polled(host);
        reply(host, &poll, task("complete", "input_required", json!({"inputRequests": {"k": input}})));
        id
    };
    let mut host = modern();
    let id = wanted(&mut host, form());
    host.session.decline(host.now, id).unwrap();
    host.collect();
    assert!(matches!(host.result_of(id), Outcome::InputRequired(_)));
    assert_eq!(host.take_methods(), ["tasks/cancel"]);

    // The client does not declare sampling.
    let mut host = modern();
    let id = wanted(&mut host, json!({"method": "sampling/createMessage", "params": {}}));
    assert!(matches!(host.result_of(id), Outcome::InputRequired(_)));
    assert_eq!(host.take_methods(), ["tasks/cancel"]);

    let mut host = modern();
    let id = wanted(&mut host, json!({"method": "acme/unknown"}));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)));
    assert_eq!(host.take_methods(), ["tasks/cancel"]);
}

#[test]
fn a_task_is_cancelled_with_its_own_request() {
    // While nothing is in flight, while it is polled, while its input is sent, and while the user answers.
    for stage in 0..4 {
        let mut host = modern();
        let (id, poll) = polled(&mut host);
        let input = if stage == 3 { form() } else { json!({"method": "roots/list"}) };
        match stage {
            0 => reply(&mut host, &poll, working()),
            1 => {}
            _ => reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": {"k": input}}))),
        }
        host.take_sent();
        host.session.cancel(host.now, id).unwrap();
        host.collect();
        assert!(matches!(host.result_of(id), Outcome::Cancelled), "stage {stage}");
        let cancel = host.take_one();
        assert_eq!((&cancel["method"], &cancel["params"]["taskId"]), (&json!("tasks/cancel"), &json!("t-1")));
        reply(&mut host, &cancel, json!({"resultType": "complete"}));
        if stage == 1 {
            reply(&mut host, &poll, working());
            assert_eq!(host.session.stats().late_answers, 1);
        }
        host.wait(seconds(60));
        assert!(host.take_sent().is_empty(), "stage {stage}: nothing more is sent");
        assert!(host.session.quirks().is_empty());
    }
}

#[test]
fn a_task_that_is_created_after_its_call_was_cancelled_is_cancelled() {
    let mut host = modern();
    let (id, sent) = call(&mut host);
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert_eq!(host.take_methods(), ["notifications/cancelled"]);
    reply(&mut host, &sent, task("task", "working", json!({})));
    assert_eq!(host.take_methods(), ["tasks/cancel"]);
}

#[test]
fn a_task_without_a_valid_id_that_is_created_after_its_call_was_cancelled_is_not_cancelled() {
    for id in [String::new(), "x".repeat(1025)] {
        let mut host = modern();
        let (call, sent) = call(&mut host);
        host.session.cancel(host.now, call).unwrap();
        host.collect();
        host.take_sent();
        reply(&mut host, &sent, task("task", "working", json!({"taskId": id})));
        assert!(host.take_sent().is_empty(), "{} bytes", id.len());
    }
}

/// The poll is a request beside the call.
#[test]
fn a_poll_that_is_answered_after_its_call_was_cancelled_changes_nothing() {
    let (mut host, id) = asking(not_listening(with_tasks(options())));
    host.wait(seconds(2));
    let poll = host.take_one();
    assert_eq!(poll["method"], "tasks/get");
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert_eq!(host.take_methods(), ["tasks/cancel"]);
    let events = host.events.len();
    reply(&mut host, &poll, task("complete", "completed", json!({"result": done()})));
    assert!(matches!(host.result_of(id), Outcome::Cancelled));
    assert_eq!((host.events.len(), host.take_sent().len()), (events, 0));
}

/// A refusal of the version says nothing about the task.
#[test]
fn a_poll_that_is_refused_for_its_version_is_sent_again_after_another_handshake() {
    let mut host = ready(not_listening(reconnecting(with_tasks(options()))), modern_server());
    let (id, poll) = polled(&mut host);
    refuse(&mut host, &poll, -32022);
    assert!(!has_finished(&host));
    host.close_transport();
    host.wait(seconds(3));
    host.transport(Transport::Opened);
    let mut server = modern_server().result("tasks/get", task("complete", "completed", json!({"result": done()})));
    host.serve(&mut server);
    assert_eq!(result(&host, id), done());
    assert_eq!((server.received("tasks/get"), server.received("tools/call")), (1, 0));
}

#[test]
fn a_task_without_an_end_is_cancelled_at_the_maximum_time_of_its_call() {
    let mut host = modern();
    let request = Request::call_tool("a", None).timeout(seconds(10)).max_timeout(seconds(30));
    let (id, sent) = start(&mut host, request);
    reply(&mut host, &sent, task("task", "working", json!({})));
    let mut polls = 0;
    while host.events.iter().all(|event| !matches!(event, Event::Finished { .. })) {
        host.wait(seconds(2));
        for message in host.take_sent() {
            if message["method"] == "tasks/get" {
                polls += 1;
                reply(&mut host, &message, working());
            } else {
                assert_eq!(message["method"], "tasks/cancel");
            }
        }
    }
    assert!(matches!(host.result_of(id), Outcome::TimedOut(mcp_proto::TimeBound::Total)));
    assert_eq!((polls, host.now.as_millis()), (14, 30_000));
}

#[test]
fn a_poll_without_a_response_ends_with_the_call() {
    let mut host = modern();
    let (id, _) = polled(&mut host);
    host.wait(seconds(600));
    assert!(matches!(host.result_of(id), Outcome::TimedOut(_)));
    assert_eq!(host.take_methods(), ["tasks/cancel"]);
    host.wait(seconds(100));
    assert_eq!(host.take_methods(), ["notifications/cancelled"], "of `tasks/cancel`, which was not answered either");
}

#[test]
fn an_interval_counts_from_100_ms_up_and_has_a_default() {
    for (interval, wait) in [(json!(0), 100), (json!(-5), 1000), (Value::Null, 1000), (json!(u64::MAX), 600_000)] {
        let mut host = modern();
        let (_, sent) = call(&mut host);
        reply(&mut host, &sent, task("task", "working", json!({"pollIntervalMs": interval})));
        host.wait(millis(wait - 1));
        assert!(host.take_sent().is_empty(), "{interval}");
        host.wait(millis(1));
        let next = if wait == 600_000 { "tasks/cancel" } else { "tasks/get" };
        assert_eq!(host.take_methods(), [next], "{interval}");
    }
}

#[test]
fn a_task_survives_its_connection() {
    // It is lost between two polls, and during a poll.
    for on_its_way in [false, true] {
        let mut options = reconnecting(with_tasks(options()));
        options.listen = false;
        let mut host = ready(options, modern_server());
        let (id, poll) = polled(&mut host);
        if !on_its_way {
            reply(&mut host, &poll, working());
        }
        host.close_transport();
        assert!(!host.events.iter().any(|event| matches!(event, Event::Finished { .. })));
        host.wait(seconds(1));
        host.transport(Transport::Opened);
        let mut server = modern_server().result("tasks/get", task("complete", "completed", json!({"result": done()})));
        host.serve(&mut server);
        assert!(host.is_ready());
        assert_eq!(server.received("tasks/get"), usize::from(on_its_way), "one between two polls is due later");
        host.wait(seconds(2));
        host.serve(&mut server);
        assert_eq!(result(&host, id), done());
        assert_eq!(server.received("tools/call"), 0, "the call itself is not sent again");
        let poll = server.messages().find(|message| message["method"] == "tasks/get").unwrap();
        assert_eq!(poll["params"]["taskId"], "t-1");
    }
}

#[test]
fn a_task_whose_call_is_cancelled_without_a_connection_is_not_cancelled() {
    let mut options = reconnecting(with_tasks(options()));
    options.listen = false;
    let mut host = ready(options, modern_server());
    let (id, poll) = polled(&mut host);
    reply(&mut host, &poll, working());
    host.close_transport();
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert!(matches!(host.result_of(id), Outcome::Cancelled));
    host.wait(seconds(3));
    host.transport(Transport::Opened);
    let mut server = modern_server();
    host.serve(&mut server);
    assert!(host.is_ready());
    assert_eq!((server.received("tasks/cancel"), server.received("tasks/get")), (0, 0));
}

#[test]
fn a_call_whose_task_runs_when_the_client_closes_may_have_run() {
    // Between two polls, and while a poll waits for a connection.
    for down in [false, true] {
        let mut options = reconnecting(with_tasks(options()));
        options.listen = false;
        let mut host = ready(options, modern_server());
        let (id, poll) = polled(&mut host);
        reply(&mut host, &poll, working());
        if down {
            host.close_transport();
            host.wait(seconds(3));
        }
        host.session.close(host.now).unwrap();
        host.collect();
        assert!(matches!(host.result_of(id), Outcome::Unknown));
    }
}

#[test]
fn statuses_that_contradict_each_other_end_the_call() {
    let reports = [
        (json!({"taskId": "t-2", "status": "working"}), Some(TaskError::OtherTask)),
        (json!({"taskId": 1, "status": "working"}), Some(TaskError::OtherTask)),
        (json!({"taskId": "t-1", "status": "sleeping"}), None),
        (json!({"taskId": "t-1"}), None),
        (json!({"taskId": "t-1", "status": "completed"}), None),
        (json!({"resultType": "input_required", "taskId": "t-1", "status": "working"}), None),
    ];
    for (report, expected) in reports {
        let mut host = modern();
        let (id, poll) = polled(&mut host);
        reply(&mut host, &poll, report.clone());
        match (error(&host, id), expected) {
            (RequestError::Task(found), Some(expected)) => assert_eq!(found, expected),
            (RequestError::Invalid(_), None) => {}
            (found, _) => panic!("{report}: {found:?}"),
        }
        assert_eq!(host.take_methods(), ["tasks/cancel"], "{report}: it may still run");
    }
}

#[test]
fn a_task_that_continues_after_its_end_ends_the_call() {
    let inputs = json!({"inputRequests": {"who": form()}});
    for report in [working(), task("complete", "input_required", inputs)] {
        let mut host = modern();
        let (id, sent) = call(&mut host);
        reply(&mut host, &sent, task("task", "completed", json!({})));
        let poll = host.take_one();
        reply(&mut host, &poll, report);
        assert_eq!(error(&host, id), RequestError::Task(TaskError::Reopened));
        assert_eq!(host.take_methods(), ["tasks/cancel"]);
    }
    let mut host = modern();
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "completed", json!({})));
    let poll = host.take_one();
    reply(&mut host, &poll, json!({"taskId": "t-1"}));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)));
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "completed", json!({})));
    host.take_sent();
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert!(host.take_sent().is_empty(), "an ended task is not cancelled");
}

#[test]
fn a_task_without_a_valid_id_or_status_is_an_invalid_result() {
    let long = "x".repeat(1025);
    let ids = [json!(null), json!(7), json!(""), json!(long)].map(|id| (id, "working"));
    for (id, status) in ids.into_iter().chain([(json!("t"), "?")]) {
        let mut host = modern();
        let (request, sent) = call(&mut host);
        reply(&mut host, &sent, json!({"resultType": "task", "taskId": id, "status": status}));
        assert!(matches!(error(&host, request), RequestError::Invalid(_)), "{id} {status}");
    }
    let mut host = modern();
    let (first, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({})));
    let (second, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({})));
    assert!(matches!(error(&host, second), RequestError::Invalid(_)), "the id of another call's task");
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, task("complete", "completed", json!({"result": done()})));
    assert_eq!(result(&host, first), done());
}

#[test]
fn the_id_of_a_task_has_1_kib_at_most() {
    let mut host = modern();
    let (request, sent) = call(&mut host);
    reply(&mut host, &sent, json!({"resultType": "task", "taskId": "x".repeat(1024), "status": "working"}));
    assert!(host.ended(request).is_none());
}

#[test]
fn a_task_in_answer_to_another_method_is_invalid() {
    let mut host = modern();
    let (id, sent) = start(&mut host, Request::new("acme/do"));
    reply(&mut host, &sent, task("task", "working", json!({})));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)));
}

#[test]
fn the_rounds_of_input_of_a_task_are_limited() {
    let mut host = modern();
    let (id, mut poll) = polled(&mut host);
    for round in 0..10 {
        let inputs = json!({format!("k{round}"): {"method": "roots/list"}});
        reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": inputs})));
        let update = host.take_one();
        reply(&mut host, &update, json!({}));
        host.wait(seconds(2));
        poll = host.take_one();
    }
    let inputs = json!({"k10": {"method": "roots/list"}});
    reply(&mut host, &poll, task("complete", "input_required", json!({"inputRequests": inputs})));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)));
}

#[test]
fn the_status_of_tasks_is_announced_on_the_listen_stream() {
    let mut server = modern_server();
    let mut host = Host::connect(with_tasks(options()), &mut server);
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({})));
    let listen = host.take_one();
    assert_eq!(listen["params"]["notifications"]["taskIds"], json!(["t-1"]));
    host.receive(server.answer(&listen).remove(0));
    let stream = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
    let foreign = json!({"io.modelcontextprotocol/subscriptionId": 999});
    let notify = |host: &mut Host, meta: &Value, mut params: Value| {
        params["_meta"] = meta.clone();
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}));
    };
    notify(&mut host, &foreign, task("complete", "completed", json!({"result": {"content": ["foreign"]}})));
    assert!(!host.events.iter().any(|event| matches!(event, Event::Finished { .. })), "not of this stream");
    notify(&mut host, &stream, task("complete", "working", json!({"statusMessage": "half"})));
    assert_eq!(status_events(&host).last().unwrap().1.as_deref(), Some("half"));
    let given: [(&str, &RawValue); 0] = [];
    assert_eq!(host.session.provide(host.now, id, given), Err(CommandError::UnknownRequest));
    assert_eq!(host.session.decline(host.now, id), Err(CommandError::UnknownRequest));
    let inputs = json!({"inputRequests": {"where": {"method": "roots/list"}}});
    notify(&mut host, &stream, task("complete", "input_required", inputs));
    let update = host.take_one();
    assert_eq!(update["method"], "tasks/update");
    let left_out = host.session.stats().left_out;
    notify(&mut host, &foreign, task("complete", "completed", json!({"result": done()})));
    assert_eq!(host.session.stats().left_out, left_out + 1);
    notify(&mut host, &stream, task("complete", "completed", json!({"result": done()})));
    reply(&mut host, &update, json!({}));
    assert!(!host.events.iter().any(|event| matches!(event, Event::Finished { .. })), "its poll has the same result");
    notify(&mut host, &stream, task("complete", "completed", json!({"result": done()})));
    assert_eq!(result(&host, id), done());
    notify(&mut host, &stream, working());
    let foreign =
        |event: &&Event| matches!(event, Event::Notification { method, .. } if &**method == "notifications/tasks");
    assert_eq!(host.events.iter().filter(foreign).count(), 1, "not a task of a call: reported");
}

#[test]
fn input_that_a_notification_requires_is_requested() {
    let mut host = modern();
    let (id, poll) = polled(&mut host);
    reply(&mut host, &poll, working());
    let params = task("complete", "input_required", json!({"inputRequests": {"who": form()}}));
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}));
    assert_eq!(input_requests(&host), ["who"]);
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    host.take_sent();
    // Invalid in a notification, too.
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({"taskId": "t-2"})));
    let params = json!({"taskId": "t-2", "status": "?"});
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)));
}

#[test]
fn sampling_that_a_task_requires_counts_once_the_embedder_gets_it() {
    let mut limited = with_tasks(options());
    (limited.listen, limited.capabilities.sampling, limited.sampling.per_minute) = (false, true, Some(1));
    let mut host = ready(limited, modern_server());
    let sampling = json!({"method": "sampling/createMessage", "params": {}});
    let required = |keys: &[&str]| {
        let inputs: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).into(), sampling.clone())).collect();
        task("complete", "input_required", json!({"inputRequests": inputs}))
    };
    let (id, poll) = polled(&mut host);
    reply(&mut host, &poll, required(&["one", "two"]));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)), "the limit is one");
    host.take_sent();
    let (id, poll) = polled(&mut host);
    reply(&mut host, &poll, required(&["one"]));
    assert_eq!(input_requests(&host), ["one"]);
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    host.take_sent();
    let (id, poll) = polled(&mut host);
    reply(&mut host, &poll, required(&["one"]));
    assert!(matches!(error(&host, id), RequestError::Invalid(_)), "one was counted");
}

#[test]
fn one_tool_call_at_a_time_waits_for_a_task() {
    let mut serial = with_tasks(options());
    (serial.listen, serial.parallel_tool_calls) = (false, false);
    let mut host = ready(serial, modern_server());
    let (_, poll) = polled(&mut host);
    host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    reply(&mut host, &poll, working());
    assert!(host.take_sent().is_empty(), "the tool runs");
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, task("complete", "completed", json!({"result": done()})));
    assert_eq!(host.take_methods(), ["tools/call"]);
}

// The experimental tasks of 2025-11-25.

#[test]
fn a_tool_is_called_as_a_task_if_it_requires_that_and_the_server_runs_tools_as_tasks() {
    for (capabilities, support, as_task) in [
        (runs_tools(), "required", true),
        (runs_tools(), "optional", false),
        (runs_tools(), "forbidden", false),
        (json!({"cancel": {}}), "required", false),
        (json!({}), "optional", false),
        (json!({}), "forbidden", false),
    ] {
        let mut host = ready(with_tasks(legacy()), legacy_server(capabilities.clone(), support));
        let (_, sent) = call(&mut host);
        let expected = as_task.then(|| json!({"ttl": 600_000}));
        assert_eq!(sent["params"].get("task"), expected.as_ref(), "{capabilities} {support}");
        assert!(host.transcript[0].1["params"]["capabilities"].get("extensions").is_none());
    }
    let mut host = ready(legacy(), legacy_server(runs_tools(), "required"));
    let (_, sent) = call(&mut host);
    assert!(sent["params"].get("task").is_none(), "tasks are not enabled");
}

/// The client's `task` replaces that of the embedder.
#[test]
fn a_tool_is_called_as_a_task_with_the_members_that_the_embedder_gave() {
    let mut host = requiring();
    let params = json!({"name": "a", "task": {"ttl": 1}, "_meta": {"acme/x": 1}});
    let request = Request::new("tools/call").params(raw(&params)).progress(false);
    host.session.request(host.now, request).unwrap();
    let Some(Action::Send(message)) = host.session.poll() else { panic!("the call is sent") };
    let sent: Value = serde_json::from_slice(message.bytes()).unwrap();
    assert_eq!(sent["params"], json!({"name": "a", "task": {"ttl": 600_000}, "_meta": {"acme/x": 1}}));
    let text = std::str::from_utf8(message.bytes()).unwrap();
    assert_eq!(text.matches("\"task\"").count(), 1, "{text}");
}

#[test]
fn a_legacy_task_is_polled_until_its_end_then_its_result_is_requested() {
    let mut host = requiring();
    let (id, sent) = start(&mut host, Request::call_tool("a", None).progress(true));
    reply(&mut host, &sent, json!({"task": legacy_task("working")}));
    host.wait(millis(1999));
    assert!(host.take_sent().is_empty());
    host.wait(millis(1));
    let poll = host.take_one();
    assert_eq!((&poll["method"], &poll["params"]), (&json!("tasks/get"), &json!({"taskId": "t-1"})));
    reply(&mut host, &poll, legacy_task("working"));
    let token = &sent["params"]["_meta"]["progressToken"];
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1}}));
    assert!(
        host.events.iter().any(|event| matches!(event, Event::Progress { request, .. } if *request == id)),
        "the progress token stays valid"
    );
    // Notifications of the status are optional and change nothing.
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": legacy_task("completed")}));
    assert!(host.take_sent().is_empty());
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, legacy_task("completed"));
    let fetch = host.take_one();
    assert_eq!((&fetch["method"], &fetch["params"]), (&json!("tasks/result"), &json!({"taskId": "t-1"})));
    reply(&mut host, &fetch, done());
    assert_eq!(result(&host, id), done());
    assert_eq!(host.transcript.iter().filter(|(_, message)| message["method"] == "tools/call").count(), 1);
}

#[test]
fn a_legacy_task_that_requires_input_sends_its_requests_while_its_result_is_requested() {
    let mut host = requiring();
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, json!({"task": legacy_task("working")}));
    host.wait(seconds(2));
    let poll = host.take_one();
    reply(&mut host, &poll, legacy_task("input_required"));
    let fetch = host.take_one();
    assert_eq!(fetch["method"], "tasks/result");
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    let mut params = form()["params"].clone();
    params["_meta"] = related.clone();
    host.receive(json!({"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": params}));
    let Some(Event::ServerRequest { id: ask, .. }) = host.events.last() else { panic!("not requested") };
    let ask = *ask;
    // The task that it names is the server's.
    let other = json!({"taskId": "t-2"});
    let answer = raw(&json!({"action": "decline", "_meta": {"own": 1, "io.modelcontextprotocol/related-task": other}}));
    host.session.respond(host.now, ask, Ok(&answer)).unwrap();
    host.collect();
    let mut meta = related.clone();
    meta["own"] = json!(1);
    assert_eq!(host.take_one()["result"], json!({"action": "decline", "_meta": meta}));
    // The engine's own responses name the task, too.
    host.receive(json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list", "params": {"_meta": related}}));
    assert_eq!(host.take_one()["result"]["_meta"], related);
    host.receive(json!({"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": params}));
    reply(&mut host, &fetch, done());
    assert_eq!(result(&host, id), done());
    host.wait(seconds(600));
    assert_eq!(host.take_one()["result"], json!({"action": "cancel", "_meta": related}));
}

#[test]
fn a_legacy_task_of_an_earlier_run_is_resumed_by_its_id() {
    let mut host = requiring();
    let (id, poll) = start(&mut host, Request::resume_task("t-1"));
    assert_eq!((&poll["method"], &poll["params"]), (&json!("tasks/get"), &json!({"taskId": "t-1"})));
    reply(&mut host, &poll, legacy_task("completed"));
    let fetch = host.take_one();
    assert_eq!((&fetch["method"], &fetch["params"]), (&json!("tasks/result"), &json!({"taskId": "t-1"})));
    reply(&mut host, &fetch, done());
    assert_eq!(result(&host, id), done());
}

#[test]
fn a_legacy_task_ends_with_the_answer_to_the_request_for_its_result() {
    for status in ["completed", "failed", "cancelled"] {
        let mut host = requiring();
        let (id, sent) = call(&mut host);
        reply(&mut host, &sent, json!({"task": legacy_task(status)}));
        let fetch = host.take_one();
        assert_eq!(fetch["method"], "tasks/result", "{status}");
        refuse(&mut host, &fetch, -32603);
        assert_eq!(error(&host, id).code(), Some(-32603));
    }
}

#[test]
fn a_legacy_task_is_cancelled_with_its_own_request_if_the_server_supports_it() {
    for (capabilities, methods) in
        [(runs_tools(), &["tasks/cancel"][..]), (json!({"requests": {"tools": {"call": {}}}}), &[])]
    {
        let mut host = ready(with_tasks(legacy()), legacy_server(capabilities, "required"));
        let (id, sent) = call(&mut host);
        reply(&mut host, &sent, json!({"task": legacy_task("working")}));
        host.session.cancel(host.now, id).unwrap();
        host.collect();
        assert_eq!(host.take_methods(), methods);
    }
    // While its result is requested.
    let mut host = requiring();
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, json!({"task": legacy_task("input_required")}));
    host.take_sent();
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert_eq!(host.take_methods(), ["tasks/cancel"]);
}

#[test]
fn a_call_cancelled_before_its_task_is_known_cancels_the_task_later() {
    let mut host = requiring();
    let (id, sent) = call(&mut host);
    host.session.cancel(host.now, id).unwrap();
    host.collect();
    assert!(host.take_sent().is_empty(), "notifications/cancelled is not for tasks");
    reply(&mut host, &sent, json!({"task": legacy_task("working")}));
    let cancel = host.take_one();
    assert_eq!((&cancel["method"], &cancel["params"]), (&json!("tasks/cancel"), &json!({"taskId": "t-1"})));
    host.wait(Duration::from_secs(120));
    let given_up = host.take_one();
    let named = (&given_up["method"], &given_up["params"]["requestId"]);
    assert_eq!(named, (&json!("notifications/cancelled"), &cancel["id"]), "the request, not the task, timed out");
}

#[test]
fn a_cancellation_of_a_task_that_is_not_sent_in_time_is_left_out() {
    let mut options = with_tasks(legacy());
    options.limits.in_flight = 2;
    let mut host = ready(options, legacy_server(runs_tools(), "required"));
    let mut tasks = Vec::new();
    for n in 0..3 {
        let (id, sent) = call(&mut host);
        let mut created = legacy_task("working");
        created["taskId"] = json!(format!("t-{n}"));
        created["pollInterval"] = json!(3_600_000);
        reply(&mut host, &sent, json!({"task": created}));
        tasks.push(id);
    }
    // Two are encoded and not polled, the third is queued.
    for id in tasks {
        host.session.cancel(host.now, id).unwrap();
    }
    host.now = host.now + seconds(120);
    host.session.handle_timeout(host.now);
    host.collect();
    assert!(host.take_methods().iter().all(|method| method != "tasks/cancel"));
    // They do not count as in flight any more.
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, done());
    assert_eq!(result(&host, id), done());
}

#[test]
fn a_result_with_content_is_accepted_with_any_other_members() {
    let mut host = requiring();
    let (id, sent) = call(&mut host);
    let plain = json!({"content": [], "task": legacy_task("working")});
    reply(&mut host, &sent, plain.clone());
    assert_eq!(result(&host, id), plain);
}

#[test]
fn the_status_of_a_task_that_names_another_stream_is_left_out() {
    let mut host = modern();
    let (_, poll) = polled(&mut host);
    reply(&mut host, &poll, working());
    let mut params = task("complete", "completed", json!({"result": done()}));
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": 999});
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}));
    assert!(!has_finished(&host));
    assert_eq!(host.session.stats().left_out, 1);
}

#[test]
fn a_stream_that_was_refused_is_not_requested_for_another_task() {
    let mut host = ready(with_tasks(options()), modern_server());
    for (id, is_first) in [("t-1", true), ("t-2", false)] {
        let (_, sent) = call(&mut host);
        reply(&mut host, &sent, task("task", "working", json!({"taskId": id})));
        if is_first {
            let listen = host.take_one();
            assert_eq!(listen["method"], "subscriptions/listen");
            refuse(&mut host, &listen, -32601);
        }
    }
    assert!(host.take_sent().is_empty());
}

/// What is left to poll when the client closes: the methods of messages, and `shutdown`.
fn outputs_of_close(host: &mut Host) -> Vec<String> {
    host.session.close(host.now).unwrap();
    let outputs = std::iter::from_fn(|| host.session.poll()).filter_map(|action| match action {
        Action::Send(message) => message.method().map(str::to_owned),
        Action::Shutdown(_) => Some("shutdown".into()),
        _ => None,
    });
    outputs.collect()
}

/// An embedder that closes on `Finished` has not polled what follows it.
#[test]
fn the_cancellation_of_a_task_leaves_before_the_client_closes() {
    for times_out in [false, true] {
        for (mut host, created) in
            [(modern(), task("task", "working", json!({}))), (requiring(), json!({"task": legacy_task("working")}))]
        {
            let request = Request::call_tool("a", None).timeout(seconds(20)).max_timeout(seconds(20));
            let (id, sent) = start(&mut host, request);
            reply(&mut host, &sent, created);
            host.take_sent();
            if times_out {
                host.now = host.now + seconds(20);
                host.session.handle_timeout(host.now);
            } else {
                host.session.cancel(host.now, id).unwrap();
            }
            assert_eq!(outputs_of_close(&mut host), ["tasks/cancel", "shutdown"], "{times_out}");
        }
        // A call that runs as no task is cancelled by a notification.
        let mut host = modern();
        let (id, _) = start(&mut host, Request::call_tool("a", None).timeout(seconds(20)));
        if times_out {
            host.now = host.now + seconds(20);
            host.session.handle_timeout(host.now);
        } else {
            host.session.cancel(host.now, id).unwrap();
        }
        assert_eq!(outputs_of_close(&mut host), ["notifications/cancelled", "shutdown"], "{times_out}");
    }
}

/// The limit on requests in flight does not hold it back.
#[test]
fn the_cancellation_of_a_task_that_waits_to_be_written_leaves_too() {
    let mut options = with_tasks(options());
    (options.listen, options.limits.in_flight) = (false, 1);
    let mut host = ready(options, modern_server());
    let (id, sent) = call(&mut host);
    reply(&mut host, &sent, task("task", "working", json!({})));
    host.take_sent();
    let _ = start(&mut host, Request::new("acme/slow"));
    host.session.cancel(host.now, id).unwrap();
    assert_eq!(outputs_of_close(&mut host), ["tasks/cancel", "shutdown"]);
}
