//! Calls that a server runs as tasks, over HTTP: exchanges that break.

use crate::common::{legacy, millis, options, seconds, tools};
use crate::web::{Exchange, Reply, Site, Web};
use mcp_proto::binding::http::Broken;
use mcp_proto::{Options, RequestId};
use serde_json::{Value, json};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn with_tasks(mut options: Options) -> Options {
    options.capabilities.tasks = true;
    options.capabilities.elicitation = true;
    options.listen = false;
    options
}

fn modern() -> Web {
    let mut site = Site::modern(json!({"tools": {}, "extensions": {TASKS: {}}})).result("tools/list", tools(&["a"]));
    Web::connect(with_tasks(options()), &mut site)
}

fn legacy_web() -> Web {
    let mut list = tools(&["a"]);
    list["tools"][0]["execution"] = json!({"taskSupport": "required"});
    let tasks = json!({"requests": {"tools": {"call": {}}}, "cancel": {}});
    let mut site = Site::legacy(json!({"tools": {}, "tasks": tasks})).result("tools/list", list);
    Web::connect(with_tasks(legacy()), &mut site)
}

fn task(status: &str, more: Value) -> Value {
    let mut task = json!({"resultType": "task", "taskId": "t-1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60000, "pollIntervalMs": 2000});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn reply(web: &mut Web, exchange: &Exchange, result: Value) {
    web.reply(exchange, Reply::json(200, &exchange.result(result)));
}

fn start(web: &mut Web, status: &str) -> RequestId {
    let (call, exchange) = web.call("a");
    reply(web, &exchange, task(status, json!({})));
    call
}

/// The exchange breaks or gets a gateway error five times: the request is sent again after the interval each time.
fn assert_sent_again_after_the_interval(web: &mut Web, method: &str) -> Exchange {
    for round in 0..5 {
        let exchange = web.take_named(method);
        if round % 2 == 0 {
            web.reply(&exchange, Reply::text(502, "bad gateway"))
        } else {
            web.fail(&exchange, Broken::Midway)
        }
        web.wait(millis(1999));
        assert_eq!(web.take_names(), [""; 0], "{method}");
        web.wait(millis(1));
    }
    web.take_named(method)
}

#[test]
fn a_poll_whose_exchange_breaks_is_sent_again_after_the_interval() {
    let mut web = modern();
    let call = start(&mut web, "working");
    web.wait(seconds(2));
    let poll = assert_sent_again_after_the_interval(&mut web, "tasks/get");
    reply(&mut web, &poll, task("completed", json!({"resultType": "complete", "result": {"content": []}})));
    assert_eq!(web.outcome(call), "Result");
    assert_eq!(web.count("tools/call"), 1);
}

/// The POST of the call is not needed any more.
#[test]
fn a_task_may_be_created_on_the_get_stream() {
    let mut list = tools(&["a"]);
    list["tools"][0]["execution"] = json!({"taskSupport": "required"});
    let tasks = json!({"requests": {"tools": {"call": {}}}, "cancel": {}});
    let mut site = Site::legacy(json!({"tools": {}, "tasks": tasks})).result("tools/list", list);
    let mut options = with_tasks(legacy());
    options.listen = true;
    let mut web = Web::connect(options, &mut site);
    let (call, exchange) = web.call("a");
    let task = json!({"task": {"taskId": "t-1", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 600_000, "pollInterval": 60_000}});
    let stream = web.last("GET");
    web.push(&stream, json!({"jsonrpc": "2.0", "method": "notifications/example"}));
    web.push(&stream, exchange.result(task));
    assert!(web.is_open(&exchange), "the server may end it");
    web.wait(seconds(30));
    assert!(web.was_dropped(&exchange) && web.is_open(&stream));
    assert_eq!(web.outcome(call), "open");
}

#[test]
fn a_cancelled_call_drops_the_poll_of_its_task_and_cancels_the_task() {
    let mut web = modern();
    let call = start(&mut web, "working");
    web.wait(seconds(2));
    let poll = web.take_named("tasks/get");
    web.session.cancel(web.now, call).unwrap();
    web.collect();
    assert!(web.was_dropped(&poll));
    assert_eq!(web.take_named("tasks/cancel").json()["params"]["taskId"], "t-1");
    assert_eq!((web.outcome(call), web.count("notifications/cancelled")), ("Cancelled".into(), 0));
}

#[test]
fn the_request_for_the_outcome_of_a_task_whose_exchange_breaks_is_sent_again_after_the_interval() {
    let mut web = modern();
    let call = start(&mut web, "completed");
    let poll = assert_sent_again_after_the_interval(&mut web, "tasks/get");
    reply(&mut web, &poll, task("completed", json!({"resultType": "complete", "result": {"content": []}})));
    assert_eq!(web.outcome(call), "Result");
}

#[test]
fn an_update_of_a_task_whose_exchange_breaks_is_sent_again_after_the_interval() {
    let mut web = modern();
    let call = start(&mut web, "working");
    web.wait(seconds(2));
    let poll = web.take_named("tasks/get");
    let form = json!({"method": "elicitation/create",
        "params": {"message": "who?", "requestedSchema": {"type": "object"}}});
    reply(&mut web, &poll, task("input_required", json!({"resultType": "complete", "inputRequests": {"who": form}})));
    let answer = crate::web::raw(&json!({"action": "decline"}));
    web.session.provide(web.now, call, [("who", &*answer)]).unwrap();
    web.collect();
    let update = assert_sent_again_after_the_interval(&mut web, "tasks/update");
    assert_eq!(update.json()["params"]["inputResponses"]["who"]["action"], "decline");
    reply(&mut web, &update, json!({"resultType": "complete"}));
    web.wait(seconds(2));
    let poll = web.take_named("tasks/get");
    reply(&mut web, &poll, task("completed", json!({"resultType": "complete", "result": {"content": []}})));
    assert_eq!(web.outcome(call), "Result");
}

#[test]
fn the_request_for_the_result_of_a_legacy_task_whose_exchange_breaks_is_sent_again_after_the_interval() {
    let mut web = legacy_web();
    let (call, exchange) = web.call("a");
    let legacy_task = json!({"taskId": "t-1", "status": "completed", "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000, "pollInterval": 2000});
    reply(&mut web, &exchange, json!({"task": legacy_task}));
    let fetch = assert_sent_again_after_the_interval(&mut web, "tasks/result");
    reply(&mut web, &fetch, json!({"content": []}));
    assert_eq!(web.outcome(call), "Result");
}

/// It only asks, so it is sent again as often as the deadline allows, unlike the call.
#[test]
fn a_poll_that_is_refused_for_now_is_sent_again() {
    let mut web = modern();
    let call = start(&mut web, "working");
    web.wait(seconds(2));
    for _ in 0..3 {
        let poll = web.take_named("tasks/get");
        web.reply(&poll, Reply::text(503, "busy").with("retry-after", "1"));
        assert_eq!(web.take_names(), [""; 0]);
        web.wait(seconds(5));
    }
    let poll = web.take_named("tasks/get");
    reply(&mut web, &poll, task("completed", json!({"resultType": "complete", "result": {"content": []}})));
    assert_eq!((&*web.outcome(call), web.count("tools/call")), ("Result", 1));
}

/// The response says that the session expired, and not whether the request ran. A poll may run twice, unlike the call.
#[test]
fn a_poll_whose_session_expired_is_sent_again_in_the_next_session() {
    let mut list = tools(&["a"]);
    list["tools"][0]["execution"] = json!({"taskSupport": "required"});
    let status = |status: &str| {
        json!({"taskId": "t-1", "status": status, "createdAt": "2025-11-25T10:30:00Z",
            "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000, "pollInterval": 2000})
    };
    let tasks = json!({"requests": {"tools": {"call": {}}}, "cancel": {}});
    let mut site = Site::legacy(json!({"tools": {}, "tasks": tasks}))
        .result("tools/list", list)
        .result("tasks/get", status("completed"))
        .result("tasks/result", json!({"content": []}));
    let mut web = Web::connect(with_tasks(legacy()), &mut site);
    let (call, exchange) = web.call("a");
    reply(&mut web, &exchange, json!({"task": status("working")}));
    web.wait(seconds(2));
    let poll = web.take_named("tasks/get");
    site.forget_session();
    web.reply(&poll, Reply::json(200, &poll.error(-32001, "Session not found")));
    web.serve(&mut site);
    assert_eq!(web.outcome(call), "Result");
    assert_eq!((web.count("initialize"), web.count("tasks/get"), web.count("tools/call")), (2, 2, 1));
}

/// An embedder that closes on `Finished` has not polled what follows it.
#[test]
fn the_cancellation_of_a_task_is_posted_before_the_client_is_closed() {
    let legacy_task = json!({"taskId": "t-1", "status": "working", "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000, "pollInterval": 2000});
    for (mut web, created, name) in
        [(modern(), task("working", json!({})), Some("t-1")), (legacy_web(), json!({"task": legacy_task}), None)]
    {
        for ends in [true, false] {
            let (call, exchange) = web.call("a");
            reply(&mut web, &exchange, created.clone());
            web.session.cancel(web.now, call).unwrap();
            web.session.close(web.now).unwrap();
            web.collect();
            let cancel = web.take_named("tasks/cancel");
            assert_eq!((&cancel.json()["params"]["taskId"], cancel.header("mcp-name")), (&json!("t-1"), name));
            assert_eq!(web.cause(), None, "it is in flight");
            if ends {
                reply(&mut web, &cancel, json!({"resultType": "complete"}));
            } else {
                web.wait(seconds(60));
            }
            // A legacy server has a session to end.
            for delete in web.take() {
                web.reply(&delete, Reply::status(200));
            }
            assert!(web.cause().is_some() && web.quirks().is_empty(), "{:?}", web.quirks());
            web = if name.is_some() { modern() } else { legacy_web() };
        }
    }
}

#[test]
fn the_cancellation_of_a_call_is_posted_before_the_client_is_closed() {
    let mut web = Web::connect(legacy(), &mut crate::web::site());
    let (call, _) = web.call("a");
    web.session.cancel(web.now, call).unwrap();
    web.session.close(web.now).unwrap();
    web.collect();
    let cancel = web.take_named("notifications/cancelled");
    web.reply(&cancel, Reply::status(202));
    let delete = web.take_named("DELETE");
    web.reply(&delete, Reply::status(200));
    assert!(web.cause().is_some());
}
