//! Output that was not polled yet is not dropped, reported or hidden early.

use std::time::Duration;

use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, Client, CommandError, Event, Family, Messages, Options, Outcome, RefreshOutcome, Request, Time, Transport,
};
use serde_json::json;

use crate::common::{Deliver, Host, Server, legacy, reconnecting, seconds, tools};
use crate::web::{Reply, Site, Web, site, tool};

fn pipe(options: Options) -> Host {
    let mut server = Server::legacy(json!({"tools": {}, "logging": {}})).result("tools/list", tools(&["a"]));
    Host::connect(options, &mut server)
}

#[test]
fn a_command_does_not_hide_a_deadline_from_the_input_after_it() {
    let mut host = pipe(legacy());
    host.take_sent();
    let call = host.session.request(host.now, Request::call_tool("a", None).timeout(seconds(10))).unwrap();
    host.collect();
    let id = host.take_one()["id"].clone();
    host.now = host.now + seconds(11);
    host.session.notify(host.now, "notifications/x", None).unwrap();
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
    assert!(
        matches!(host.ended(call), Some(Outcome::TimedOut(mcp_proto::TimeBound::Timeout))),
        "{:?}",
        host.ended(call)
    );
}

#[test]
fn a_response_of_a_lost_connection_is_not_polled_before_the_next_one_is_opened() {
    let mut session = Client::new(Messages::new(), reconnecting(legacy()), 0);
    let mut now = Time::ZERO;
    session.open(now).unwrap();
    let lost = session.connection();
    session.handle_transport(now, lost, Transport::Opened);
    while session.poll().is_some() {}
    session.handle_message(now, lost, br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
    // The handshake times out, the server's process is killed, and the next connection is opened.
    for _ in 0..100 {
        if session.connection() != lost {
            break;
        }
        now = now + seconds(60);
        session.handle_timeout(now);
    }
    let actions: Vec<_> = std::iter::from_fn(|| session.poll()).collect();
    assert!(matches!(actions.last(), Some(Action::Open(_))), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Send(_))), "{actions:?}");
}

#[test]
fn initialized_does_not_time_out_before_it_was_polled() {
    let mut options = legacy();
    options.timeouts.discovery = seconds(600);
    let mut web = Web::open(options);
    let mut site = site();
    let initialize = web.take_named("initialize");
    let reply = site.reply(&initialize);
    web.session.handle_head(web.now, initialize.id, http::StatusCode::OK, &reply.header_map());
    web.session.handle_body(web.now, initialize.id, &reply.body);
    web.open.remove(&initialize.id);
    web.session.handle_end(web.now, initialize.id);
    // Too late.
    web.now = web.now + seconds(61);
    web.session.handle_timeout(web.now);
    web.collect();
    let names = web.take_names();
    assert!(names.contains(&"notifications/initialized".to_string()), "{names:?}");
}

#[test]
fn notifications_that_wait_for_initialized_count_towards_the_limits_on_output() {
    let mut options = legacy();
    options.limits.output = 100;
    let mut web = Web::open(options);
    let mut site = Site::legacy(json!({}));
    let initialize = web.take_named("initialize");
    let reply = site.reply(&initialize);
    web.reply(&initialize, reply);
    let initialized = web.take_named("notifications/initialized");
    assert!(web.is_ready());
    let mut notified = 0;
    while web.session.notify(web.now, "notifications/x", None).is_ok() {
        notified += 1;
        assert!(notified < 1000, "it does not end");
        web.collect();
    }
    assert!((90..=100).contains(&notified), "{notified}");
    assert!(web.take().is_empty());
    web.reply(&initialized, Reply::status(202));
    web.serve(&mut site);
    assert_eq!(web.count("notifications/x"), notified);
    web.session.notify(web.now, "notifications/x", None).unwrap();
}

#[test]
fn a_response_does_not_time_out_before_it_was_polled() {
    let mut site = site();
    let mut web = Web::connect(legacy(), &mut site);
    let stream = web.last("GET");
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    web.session.handle_body(web.now, stream.id, crate::web::events(&[ping]).as_bytes());
    web.now = web.now + seconds(61);
    web.session.handle_timeout(web.now);
    web.collect();
    let names = web.take_names();
    assert!(names.contains(&"(answer)".to_string()), "{names:?} left out {}", web.session.stats().left_out);
}

#[test]
fn a_notification_does_not_time_out_before_it_was_polled() {
    let mut site = site();
    let mut web = Web::connect(legacy(), &mut site);
    web.session.notify(web.now, "notifications/x", None).unwrap();
    web.now = web.now + seconds(61);
    web.session.handle_timeout(web.now);
    web.collect();
    let names = web.take_names();
    assert!(names.contains(&"notifications/x".to_string()), "{names:?}");
}

#[test]
fn down_is_not_reported_for_an_unpolled_connection() {
    let mut site = site();
    let mut web = Web::connect(reconnecting(legacy()), &mut site);
    let (_, call) = web.call("a");
    let get = web.last("GET");
    let _ = get;
    web.fail(&call, mcp_proto::binding::http::Broken::Unreachable);
    let (_, call) = (0, web.take());
    for c in call {
        if web.is_open(&c) && c.is("tools/call") {
            web.fail(&c, mcp_proto::binding::http::Broken::Unreachable);
        }
    }
    eprintln!("events {:?}", web.events);
    let before = web.events.len();
    // Without a poll.
    for _ in 0..3000 {
        web.now = web.now + seconds(600);
        web.session.handle_timeout(web.now);
    }
    web.collect_lenient();
    let downs = web.events[before..].iter().filter(|e| matches!(e, Event::Down { .. })).count();
    assert!(downs <= 1, "{downs}");
}

#[test]
fn down_is_not_reported_for_an_unpolled_stdio_connection() {
    let mut host = pipe(reconnecting(legacy()));
    host.session.handle_transport(host.now, host.session.connection(), Transport::Closed { why: "x" });
    host.collect();
    let before = host.events.len();
    for _ in 0..3000 {
        host.now = host.now + seconds(600);
        host.session.handle_timeout(host.now);
    }
    host.collect();
    let downs = host.events[before..].iter().filter(|e| matches!(e, Event::Down { .. })).count();
    assert!(downs <= 1, "{downs}");
}

#[test]
fn a_cancellation_is_sent_with_a_request_timeout_of_zero() {
    let mut site = site();
    let mut options = legacy();
    options.timeouts.request = Duration::from_millis(0);
    options.timeouts.discovery = seconds(600);
    let mut web = Web::connect(options, &mut site);
    eprintln!("ready {} {:?}", web.is_ready(), web.names());
    let call = web.session.request(web.now, tool("a").timeout(seconds(1))).unwrap();
    web.collect();
    web.take();
    web.now = web.now + seconds(1);
    web.session.handle_timeout(web.now);
    web.collect();
    assert_eq!(web.outcome(call), "TimedOut");
    let names = web.take_names();
    assert!(names.contains(&"notifications/cancelled".to_string()), "{names:?}");
}

#[test]
fn a_transport_that_closes_before_it_opened_is_not_reported_as_used() {
    let mut session = Client::new(Messages::new(), legacy(), 0);
    session.open(Time::ZERO).unwrap();
    session.handle_transport(Time::ZERO, session.connection(), Transport::Closed { why: "gone" });
    let closed = std::iter::from_fn(|| session.poll()).find_map(|action| match action {
        Action::Event(Event::Closed { cause: mcp_proto::Cause::Failed(failure) }) => Some(failure.message),
        _ => None,
    });
    let message = closed.unwrap();
    assert!(message.contains("before it was open"), "{message}");
}

/// As over a pipe: `a_refresh_on_demand_that_fails_says_so_once`.
#[test]
fn over_http_an_outcome_of_the_same_kind_is_not_repeated_while_it_is_not_polled() {
    for is_polled in [false, true] {
        let mut web = Web::connect(legacy(), &mut site());
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.collect();
        let list = web.take_named("tools/list");
        let refusal = Reply::json(200, &list.error(-32603, "later"));
        web.session.handle_head(web.now, list.id, http::StatusCode::OK, &refusal.header_map());
        web.session.handle_body(web.now, list.id, &refusal.body);
        web.open.remove(&list.id);
        web.session.handle_end(web.now, list.id);
        if is_polled {
            web.collect();
        }
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.session.close(web.now).unwrap();
        web.collect();
        let outcomes: Vec<_> = web.events.iter().filter(|event| matches!(event, Event::Refreshed { .. })).collect();
        let [Event::Refreshed { outcome: RefreshOutcome::Failed(why), .. }, later @ ..] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert!(why.contains("later"), "{why}");
        assert_eq!(later.len(), usize::from(is_polled));
    }
}

#[test]
fn over_http_roots_are_not_changed_while_too_many_messages_are_not_delivered() {
    let mut options = legacy();
    options.capabilities.roots = Some(vec![]);
    options.limits.output = 8;
    let mut site = site();
    let mut web = Web::connect(options, &mut site);
    let set = |web: &mut Web| {
        let set = web.session.set_roots(web.now, vec![Root::new("file:///a")]);
        web.collect();
        set
    };
    let accepted = std::iter::repeat_with(|| set(&mut web)).take_while(Result::is_ok).count();
    assert_eq!(accepted, 8, "polled, and not delivered");
    assert_eq!(set(&mut web), Err(CommandError::TooManyRequests { limit: 8 }));
    web.serve(&mut site);
    assert_eq!(set(&mut web), Ok(()));
}

#[test]
fn progress_and_tasks_beyond_the_limit_are_counted_and_left_out() {
    let mut options = crate::common::options();
    options.limits.output = 3;
    options.timeouts.progress_interval = Duration::ZERO;
    options.capabilities.tasks = true;
    let tasks = json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut host = Host::connect(options, &mut Server::modern(tasks).result("tools/list", tools(&["a"])));
    host.take_sent();
    host.session.request(host.now, Request::call_tool("a", None).progress(true)).unwrap();
    host.collect();
    let call = host.take_one();
    let token = call["params"]["_meta"]["progressToken"].clone();
    for number in 0..10 {
        let params = json!({"progressToken": token, "progress": number});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        host.session.deliver(host.now, message.to_string().as_bytes());
    }
    let left_out = host.session.stats().left_out;
    assert!(left_out > 0);
    let task = json!({"resultType": "task", "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60000, "pollIntervalMs": 2000});
    let created = json!({"jsonrpc": "2.0", "id": call["id"], "result": task});
    host.session.deliver(host.now, created.to_string().as_bytes());
    assert_eq!(host.session.stats().left_out, left_out + 1);
    host.collect();
    let reported = host.events.iter().filter(|event| matches!(event, Event::Progress { .. } | Event::Task { .. }));
    assert_eq!(reported.count() as u64, 10 - left_out);
}
