//! Each attempt after the first is reported, and the end of a request says how often it was sent.

use http::StatusCode;
use mcp_proto::binding::http::Broken;
use mcp_proto::{Event, Options, Request, RequestId, ResendReason};
use serde_json::json;

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use crate::web::{Exchange, Reply, Site, Web, header_map};

/// The attempts after the first, and the number at the end.
fn attempts(events: &[Event], request: RequestId) -> (Vec<(u32, ResendReason)>, Option<u32>) {
    let (mut again, mut end) = (Vec::new(), None);
    for event in events {
        match event {
            Event::Resending { request: of, attempt, reason } if *of == request => again.push((*attempt, *reason)),
            Event::Finished { request: of, attempts, .. } if *of == request => end = Some(*attempts),
            _ => {}
        }
    }
    (again, end)
}

fn server() -> Server {
    Server::legacy(json!({"tools": {}}))
        .result("tools/list", tools(&["a"]))
        .result("tools/call", json!({"content": []}))
}

fn call() -> Request {
    Request::call_tool("a", None).replay(true)
}

#[test]
fn a_request_that_is_answered_at_once_was_sent_once() {
    let mut server = server();
    let mut host = Host::connect(legacy(), &mut server);
    let request = host.session.request(host.now, call()).unwrap();
    host.collect();
    host.serve(&mut server);
    assert_eq!(attempts(&host.events, request), (vec![], Some(1)));
}

#[test]
fn a_request_that_was_never_sent_has_no_attempt() {
    let mut host = Host::open(legacy());
    let request = host.session.request(host.now, call()).unwrap();
    host.session.close(host.now).unwrap();
    host.collect();
    assert_eq!(attempts(&host.events, request), (vec![], Some(0)));
}

#[test]
fn each_attempt_after_a_lost_connection_is_reported() {
    let mut server = server();
    let mut host = Host::connect(reconnecting(legacy()), &mut server);
    let request = host.session.request(host.now, call()).unwrap();
    host.collect();
    for _ in 0..3 {
        host.take_sent();
        host.close_transport();
        host.wait(seconds(5));
        host.transport(mcp_proto::Transport::Opened);
        // The handshake and the lists, without the call.
        for _ in 0..4 {
            for message in host.take_sent() {
                if message["method"] != "tools/call" {
                    server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
                }
            }
        }
    }
    let lost = ResendReason::Lost;
    assert_eq!(attempts(&host.events, request), (vec![(2, lost), (3, lost)], Some(3)));
}

fn site() -> Site {
    Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"])).result("tools/call", json!({"content": []}))
}

fn web(options: Options, site: &mut Site) -> Web {
    Web::connect(options, site)
}

#[test]
fn a_request_that_a_busy_server_accepts_later_is_reported() {
    let mut site = site();
    let mut web = web(legacy(), &mut site);
    let (request, exchange) = web.call("a");
    web.reply(&exchange, Reply::status(429).with("retry-after", "2"));
    web.wait_and_serve(seconds(3), &mut site);
    assert_eq!(attempts(&web.events, request), (vec![(2, ResendReason::Busy)], Some(2)));
}

/// It did not run, and the session expires before it goes again.
#[test]
fn a_request_that_a_busy_server_refused_is_sent_in_the_next_session() {
    let mut site = site();
    let mut web = web(legacy(), &mut site);
    let (request, exchange) = web.call("a");
    web.reply(&exchange, Reply::status(429).with("retry-after", "2"));
    let (_, exchange) = web.call("a");
    site.forget_session();
    web.reply(&exchange, Reply::status(404));
    web.serve(&mut site);
    assert_eq!((web.outcome(request), web.count("tools/call")), ("Result".into(), 4));
    assert_eq!(attempts(&web.events, request), (vec![(2, ResendReason::SessionExpired)], Some(2)));
}

/// The server reports progress of a call, on its stream.
fn progress(web: &mut Web, call: &Exchange) {
    let params = json!({"progressToken": call.json()["params"]["_meta"]["progressToken"], "progress": 1});
    let stream = web.last("GET");
    web.push(&stream, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
}

/// A server that reports progress of a call runs it, whatever status follows.
#[test]
fn a_call_with_progress_that_is_refused_for_now_is_not_sent_again_without_permission() {
    for (replays, early) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut site = site();
        let mut web = web(legacy(), &mut site);
        let request = web.request(Request::call_tool("a", None).progress(true).replay(replays));
        let call = web.take_one();
        if early {
            progress(&mut web, &call);
        }
        web.reply(&call, Reply::status(429).with("retry-after", "2"));
        if !early {
            progress(&mut web, &call);
        }
        web.wait_and_serve(seconds(3), &mut site);
        let outcome = match (replays, early) {
            (true, _) => "Result",
            (false, true) => "Error",
            (false, false) => "Unknown",
        };
        assert_eq!((web.outcome(request), web.count("tools/call")), (outcome.into(), 1 + usize::from(replays)));
    }
}

#[test]
fn a_call_with_progress_is_not_sent_again_without_permission_whatever_refuses_it() {
    let bearer = |status| Reply::status(status).with("www-authenticate", "Bearer error=\"insufficient_scope\"");
    let refusals = [
        (Some(bearer(401)), "Error"),
        (Some(bearer(403)), "Error"),
        (Some(Reply::status(401)), "Unknown"),
        (Some(Reply::status(404)), "Unknown"),
        (Some(Reply::text(503, "session not found")), "Unknown"),
        (Some(Reply::status(307).with("location", "/mcp/")), "Unknown"),
        (None, "Unknown"),
    ];
    for (refusal, outcome) in refusals {
        let mut site = site();
        let mut web = web(legacy(), &mut site);
        let request = web.request(Request::call_tool("a", None).progress(true));
        let call = web.take_one();
        progress(&mut web, &call);
        site.forget_session();
        match &refusal {
            Some(refusal) => web.reply(&call, refusal.clone()),
            None => web.fail(&call, Broken::Unreachable),
        }
        web.session.authorized(web.now).unwrap();
        web.collect();
        web.wait_and_serve(seconds(5), &mut site);
        assert_eq!((web.outcome(request), web.count("tools/call")), (outcome.into(), 1), "{refusal:?}");
    }
}

/// Progress is that of one attempt: the next one, which is refused, does not run.
#[test]
fn the_progress_of_an_earlier_attempt_does_not_count() {
    for cancels in [true, false] {
        let mut site = site().first("tools/call", 3, |_| Reply::status(429).with("retry-after", "1"));
        let mut web = web(legacy(), &mut site);
        let request = web.request(call().progress(true));
        let call = web.take_one();
        progress(&mut web, &call);
        web.fail(&call, Broken::Midway);
        web.serve(&mut site);
        if cancels {
            web.session.cancel(web.now, request).unwrap();
            web.collect();
            assert_eq!(web.count("notifications/cancelled"), 0);
        } else {
            web.wait_and_serve(seconds(30), &mut site);
            assert_eq!(web.outcome(request), "Result");
        }
    }
}

/// The session expired, whatever `Retry-After` says.
#[test]
fn a_call_that_a_busy_server_refused_for_its_session_did_not_run() {
    for busy in [false, true] {
        let refusal = || Reply::text(503, "Session not found");
        let mut site = site();
        let mut web = web(legacy(), &mut site);
        let (request, call) = web.call("a");
        web.reply(&call, if busy { refusal().with("retry-after", "1") } else { refusal() });
        assert_eq!(web.take_named("initialize").header("mcp-session-id"), None);
        web.close();
        assert_eq!(web.outcome(request), "NotSent");
    }
}

/// A call that was redirected, and not sent on, is not in progress.
#[test]
fn a_redirected_call_that_was_not_polled_is_not_sent() {
    let redirected = |web: &mut Web| {
        let (request, call) = web.call("a");
        web.session.handle_head(
            web.now,
            call.id,
            StatusCode::TEMPORARY_REDIRECT,
            &header_map(&[("location", "/mcp/")]),
        );
        request
    };
    let mut site = site();
    let mut web = web(legacy(), &mut site);
    let request = redirected(&mut web);
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!((web.count("notifications/cancelled"), web.count("tools/call")), (0, 1));

    let (request, other) = (redirected(&mut web), web.last("GET"));
    site.forget_session();
    web.session.handle_head(web.now, other.id, StatusCode::OK, &header_map(&[("content-type", "text/event-stream")]));
    web.request(Request::new("ping"));
    web.serve(&mut site);
    assert_eq!(web.outcome(request), "Result");

    let request = redirected(&mut web);
    web.session.close(web.now).unwrap();
    web.collect();
    assert_eq!(web.outcome(request), "NotSent");
}

/// A call that is refused in session after session is sent in one more.
#[test]
fn a_call_that_a_busy_server_refused_is_sent_in_one_more_session() {
    let mut site = site().on("tools/call", |_| Reply::status(429).with("retry-after", "600")).result("ping", json!({}));
    let mut web = web(legacy(), &mut site);
    let request = web.request(Request::call_tool("a", None));
    web.serve(&mut site);
    for _ in 0..2 {
        site.forget_session();
        web.request(Request::new("ping"));
        web.serve(&mut site);
    }
    assert_eq!((web.outcome(request), web.count("tools/call"), web.count("initialize")), ("NotSent".into(), 2, 3));
}

/// A redirect is part of the same attempt.
#[test]
fn a_request_that_is_redirected_was_sent_once() {
    let mut site = site();
    let mut web = web(legacy(), &mut site);
    let (request, exchange) = web.call("a");
    web.reply(&exchange, Reply::status(307).with("location", "/mcp/"));
    web.serve(&mut site);
    assert_eq!(attempts(&web.events, request), (vec![], Some(1)));
}

#[test]
fn a_request_of_an_expired_session_is_reported() {
    let mut site = site();
    let mut web = web(legacy(), &mut site);
    let (request, exchange) = web.call("a");
    site.forget_session();
    web.reply(&exchange, Reply::status(404));
    web.serve(&mut site);
    assert_eq!(attempts(&web.events, request), (vec![(2, ResendReason::SessionExpired)], Some(2)));
}

#[test]
fn a_request_that_waited_for_authorization_is_reported() {
    let mut site = site();
    let mut web = web(options(), &mut site);
    let (request, exchange) = web.call("a");
    web.reply(&exchange, Reply::status(401).with("www-authenticate", "Bearer"));
    let now = web.now;
    web.session.authorized(now).unwrap();
    web.collect();
    web.serve(&mut site);
    assert_eq!(attempts(&web.events, request), (vec![(2, ResendReason::Authorized)], Some(2)));
}

#[test]
fn a_request_to_an_unreachable_server_is_reported() {
    let mut site = site();
    let mut web = web(reconnecting(legacy()), &mut site);
    let (request, exchange) = web.call("a");
    web.fail(&exchange, Broken::Unreachable);
    web.wait_and_serve(seconds(100), &mut site);
    let (again, end) = attempts(&web.events, request);
    assert_eq!((again.first(), end), (Some(&(2, ResendReason::NotSent)), Some(2)));
}

#[test]
fn a_round_of_input_is_an_attempt() {
    let mut server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut options = options();
    options.capabilities.elicitation = true;
    let mut host = Host::connect(options, &mut server);
    let request = host.session.request(host.now, call()).unwrap();
    host.collect();
    let message = host.take_one();
    let inputs = json!({"k": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}}});
    let result = json!({"resultType": "input_required", "inputRequests": inputs});
    host.receive(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    let answer = mcp_proto::RawValue::from_string(r#"{"action":"accept","content":{}}"#.into()).unwrap();
    host.session.provide(host.now, request, [("k", &*answer)]).unwrap();
    host.collect();
    let message = host.take_one();
    host.receive(json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}));
    assert_eq!(attempts(&host.events, request), (vec![(2, ResendReason::Input)], Some(2)));
}
