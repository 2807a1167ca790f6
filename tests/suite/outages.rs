//! A server that goes down while calls are in flight over HTTP: nobody is reached any more.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_proto::binding::http::Broken;
use mcp_proto::testkit::{Collector, FakeServer, FakeTool, Fault, Link, Sim};
use mcp_proto::{
    Client, CommandError, Event, Failure, FailureKind, Http, Lines, Options, Outcome, QuirkKind, Reconnect, Recovery,
    Request, RequestId,
};
use serde_json::{Value, json};

use crate::common::{Steps, legacy, millis, options, reconnecting, seconds, tools};
use crate::web::{Exchange, LAST_ID, Reply, Site, Web, modern_site, site, was_answered};

const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];

fn connect(options: Options, site: &mut Site) -> Web {
    let web = Web::connect(options, site);
    assert!(web.is_ready(), "{:?}", web.failure());
    web
}

/// A legacy client with a connection that has no stream.
fn without_streams() -> Web {
    let mut options = reconnecting(legacy());
    options.listen = false;
    connect(options, &mut site())
}

/// A client in each era, with a connection that has no stream.
fn both_eras(change: impl Fn(&mut Options)) -> [Web; 2] {
    [(legacy(), site()), (options(), modern_site())].map(|(options, mut site)| {
        let mut options = reconnecting(options);
        options.listen = false;
        change(&mut options);
        connect(options, &mut site)
    })
}

fn downs(web: &Web) -> Vec<(FailureKind, Recovery)> {
    let down = |event: &Event| match event {
        Event::Down { failure, next } => Some((failure.kind, *next)),
        _ => None,
    };
    web.events.iter().filter_map(down).collect()
}

/// A call whose stream has an event id, and broke.
fn broken_stream(web: &mut Web) -> RequestId {
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.body(&call, "id: 7\ndata:\n\n");
    web.fail(&call, Broken::Midway);
    request
}

/// A call whose stream broke, at a server that refuses the GET that resumes it.
fn outage(web: &mut Web) -> RequestId {
    let request = broken_stream(web);
    web.wait(seconds(1));
    let get = web.take_named("GET");
    web.fail(&get, Broken::Unreachable);
    request
}

/// Refuses each connection until the client is not ready, or for this time. Returns after what times connections were refused.
fn refuse_all(web: &mut Web, time: Duration, done: impl Fn(&Web) -> bool) -> Vec<Duration> {
    let (since, mut refused) = (web.now, Vec::new());
    let mut steps = Steps::until("nobody is asked any more");
    loop {
        steps.step();
        for exchange in web.take() {
            if web.is_open(&exchange) {
                refused.push(web.now.since(since));
                web.fail(&exchange, Broken::Unreachable);
            }
        }
        let next = web.session.deadline().filter(|at| at.since(since) <= time);
        let Some(next) = next.filter(|_| !done(web)) else { return refused };
        web.wait(next.since(web.now));
    }
}

#[test]
fn a_server_that_goes_down_ends_a_call_whose_stream_has_event_ids_after_three_attempts() {
    let mut web = without_streams();
    let request = broken_stream(&mut web);
    let refused = refuse_all(&mut web, seconds(60), |web| web.outcome(request) != "open");
    assert_eq!(refused, [seconds(1), seconds(3), seconds(7)]);
    assert_eq!(web.outcome(request), "Unknown");
    let told = downs(&web);
    assert_eq!(told.len(), 2, "{told:?}");
    let again = mcp_proto::Time::ZERO + seconds(3);
    assert_eq!(told[0], (FailureKind::Connect, Recovery::Resume { at: again }), "at the first");
    assert!(matches!(told[1], (FailureKind::Connect, Recovery::Reopen { at: Some(_) })), "{told:?}");
    // What was in flight ended before the connection did.
    let place = |is_it: &dyn Fn(&Event) -> bool| web.events.iter().rposition(is_it);
    let ended = place(&|event| matches!(event, Event::Finished { .. }));
    assert!(ended < place(&|event| matches!(event, Event::Down { .. })));
    web.wait_and_serve(seconds(10), &mut site());
    assert!(web.is_ready() && web.count("initialize") == 2);
}

#[test]
fn without_reconnects_the_client_closes_after_three_attempts() {
    let mut options = legacy();
    options.listen = false;
    let mut web = connect(options, &mut site());
    let request = broken_stream(&mut web);
    refuse_all(&mut web, seconds(60), |web| web.cause().is_some());
    assert_eq!((web.outcome(request), web.failure_kind()), ("Unknown".into(), Some(FailureKind::Connect)));
    assert_eq!(web.now.since(mcp_proto::Time::ZERO), seconds(7));
}

/// Streams that are refused at one time are one attempt.
#[test]
fn several_streams_that_are_resumed_have_three_attempts_together() {
    let mut web = without_streams();
    let requests: Vec<_> = (0..4).map(|_| broken_stream(&mut web)).collect();
    let refused = refuse_all(&mut web, seconds(60), |web| requests.iter().all(|it| web.outcome(*it) != "open"));
    // The fourth GET is dropped with the connection that the third ended.
    assert_eq!(refused.iter().max(), Some(&seconds(7)), "{refused:?}");
    assert!(requests.iter().all(|it| web.outcome(*it) == "Unknown"));
}

/// The wait that the server named is longer.
#[test]
fn the_retry_time_of_a_stream_is_kept_while_nobody_is_reached() {
    let mut web = without_streams();
    let (request, call) = web.call("a");
    web.head(&call, 200, &STREAM);
    web.body(&call, "id: 7\nretry: 3000\ndata:\n\n");
    web.end(&call);
    let refused = refuse_all(&mut web, seconds(60), |web| web.outcome(request) != "open");
    assert_eq!(refused, [seconds(3), seconds(6), seconds(10)]);
}

#[test]
fn a_server_that_comes_back_in_time_goes_on_with_the_call() {
    let mut web = without_streams();
    let request = outage(&mut web);
    assert!(!web.is_ready());
    assert_eq!(web.session.open(web.now), Err(CommandError::AlreadyOpen));
    // Nothing else is sent meanwhile.
    let other = web.request(crate::web::tool("a"));
    assert_eq!(web.take_names(), [""; 0]);
    web.wait(seconds(2));
    let get = web.take_named("GET");
    assert_eq!(get.header(LAST_ID), Some("7"));
    web.head(&get, 200, &STREAM);
    assert!(web.is_ready());
    assert!(matches!(web.events.last(), Some(Event::Ready)));
    let waited = web.take_named("tools/call");
    web.reply(&waited, Reply::json(200, &waited.result(json!({"content": []}))));
    let call = web.log.iter().find(|it| it.of == Some(request)).unwrap().clone();
    web.push(&get, call.result(json!({"content": []})));
    assert!(was_answered(&web, request) && was_answered(&web, other));
    assert_eq!((web.count("initialize"), web.count("tools/call"), downs(&web).len()), (1, 2, 1));
    // The next outage has three attempts again.
    let request = broken_stream(&mut web);
    let refused = refuse_all(&mut web, seconds(60), |web| web.outcome(request) != "open");
    assert_eq!(refused, [seconds(1), seconds(3), seconds(7)]);
}

/// In virtual time, from a fake server.
#[test]
fn a_call_survives_a_short_outage_and_no_long_one() {
    for (time, survives) in [(seconds(4), true), (seconds(60), false)] {
        let slow = FakeTool::new("slow").takes(seconds(20)).progress(4);
        let server = FakeServer::legacy().tool(slow).resumes(true);
        let client = Client::new(Http::new("https://example.com/mcp").unwrap(), Options::new("host", "1"), 1);
        let mut sim = Sim::new(1).with_server("s", server, Link::default());
        let node = sim.add("s", Collector::new(client));
        sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
        sim.run_until(seconds(10), |sim| sim.get(node).unwrap().is_ready()).unwrap();
        let request = Request::call_tool("slow", None).progress(true).timeout(seconds(60));
        let request = sim.tell(node, |now, client| client.request(now, request)).unwrap().unwrap();
        sim.run_for(seconds(6)).unwrap();
        let down = sim.now();
        sim.fault("s", Fault::Unreachable(time));
        sim.run_for(seconds(30)).unwrap();
        let events = &sim.get(node).unwrap().events;
        let end = events.iter().find_map(|(at, event)| match event {
            Event::Finished { request: ended, outcome, attempts, .. } if *ended == request => {
                Some((*at, outcome, *attempts))
            }
            _ => None,
        });
        let (at, outcome, attempts) = end.unwrap();
        assert_eq!((matches!(outcome, Outcome::Result(_)), attempts), (survives, 1), "{outcome:?}");
        let told = events.iter().find(|(_, event)| matches!(event, Event::Down { .. })).unwrap().0;
        assert!(told.since(down) < millis(1500), "{:?}", told.since(down));
        if !survives {
            assert!(matches!(outcome, Outcome::Unknown) && at.since(down) < seconds(8), "{outcome:?} {at:?}");
        }
        let server = sim.server("s").unwrap();
        assert_eq!((server.tool_runs("slow"), server.violations()), (1, &[] as &[String]));
        let sessions = server.received("initialize");
        assert_eq!(sessions, 1, "{time:?}");
    }
}

/// The failure of the only call that is lost.
fn loss(events: impl Iterator<Item = Event>) -> Failure {
    let lost = events.filter_map(|event| match event {
        Event::Finished { outcome: Outcome::Unknown, failure, .. } => Some((*failure.unwrap()).clone()),
        _ => None,
    });
    let [lost] = <[_; 1]>::try_from(lost.collect::<Vec<_>>()).unwrap();
    lost
}

#[test]
fn a_call_that_is_lost_with_its_exchange_has_the_failure() {
    for mut web in both_eras(|_| {}) {
        let (_, call) = web.call("a");
        web.head(&call, 200, &STREAM);
        web.fail(&call, Broken::Midway);
        let lost = loss(web.events.iter().cloned());
        assert_eq!(lost.kind, FailureKind::Closed);
        assert!(lost.message.ends_with(" ended the exchange before its response: connection reset"), "{lost}");
        assert!(downs(&web).is_empty() && web.is_ready());
    }
}

#[test]
fn a_call_that_is_lost_with_its_program_has_the_failure() {
    for server in [FakeServer::legacy(), FakeServer::modern()] {
        let server = server.tool(FakeTool::new("slow").takes(seconds(20)));
        let client = Client::new(Lines::new(), Options::new("host", "1"), 1);
        let mut sim = Sim::new(1).with_server("s", server, Link::default());
        let node = sim.add("s", Collector::new(client));
        sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
        sim.run_until(seconds(10), |sim| sim.get(node).unwrap().is_ready()).unwrap();
        sim.tell(node, |now, client| client.request(now, Request::call_tool("slow", None))).unwrap().unwrap();
        sim.run_for(seconds(1)).unwrap();
        sim.fault("s", Fault::Crash);
        sim.run_for(seconds(1)).unwrap();
        let events = || sim.get(node).unwrap().events.iter().map(|(_, event)| event.clone());
        let down = events().find_map(|event| match event {
            Event::Down { failure, .. } => Some(failure),
            _ => None,
        });
        assert_eq!(loss(events()), down.unwrap());
    }
}

/// A message that nothing waits for: a cancellation, another notification, the response to a request of the server.
#[test]
fn the_refused_post_of_a_message_without_a_response_takes_nothing_else_with_it() {
    for mut web in both_eras(|_| {}) {
        let ((one, _), (other, answered)) = (web.call("a"), web.call("a"));
        web.session.cancel(web.now, one).unwrap();
        web.session.notify(web.now, "acme/told", None).unwrap();
        web.collect();
        let posts = web.take();
        assert!(!posts.is_empty());
        for post in posts {
            web.fail(&post, Broken::Unreachable);
        }
        assert_eq!((web.is_ready(), web.outcome(other), downs(&web)), (true, "open".into(), vec![]));
        assert!(web.session.stats().undelivered > 0);
        web.reply(&answered, Reply::json(200, &answered.result(json!({"resultType": "complete", "content": []}))));
        assert!(was_answered(&web, other));
    }
    // The response.
    let mut web = connect(reconnecting(legacy()), &mut site());
    let (request, _) = web.call("a");
    let stream = web.last("GET");
    web.push(&stream, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    web.fail(&stream, Broken::Midway);
    let answer = web.take_named("(answer)");
    web.fail(&answer, Broken::Unreachable);
    assert_eq!((web.is_ready(), web.outcome(request), downs(&web)), (true, "open".into(), vec![]));
}

/// A server that answers in JSON sends its head with the result.
#[test]
fn an_attempt_that_is_not_refused_ends_the_outage_though_its_answer_takes_long() {
    for cancels in [false, true] {
        for mut web in both_eras(|_| {}) {
            let (early, _) = web.call("a");
            let (late, call) = web.call("a");
            web.fail(&call, Broken::Unreachable);
            assert!(!web.is_ready());
            if cancels {
                // Nothing is left to try again.
                web.session.cancel(web.now, late).unwrap();
            }
            let waiting = web.request(crate::web::tool("a"));
            web.wait(seconds(1));
            web.take();
            // The server has not seen what is cancelled.
            assert_eq!(web.count("notifications/cancelled"), 0);
            assert_eq!(web.count("tools/call"), if cancels { 2 } else { 3 });
            web.wait(millis(4999));
            assert!(!web.is_ready());
            web.wait(millis(1));
            assert!(web.is_ready() && matches!(web.events.last(), Some(Event::Ready)), "{:?}", web.events.last());
            assert_eq!(web.take_named("tools/call").of, Some(waiting));
            assert_eq!((web.outcome(early), downs(&web).len()), ("open".into(), 1));
            // The next refusal begins another outage.
            let (_, call) = web.call("a");
            web.fail(&call, Broken::Unreachable);
            assert_eq!((web.is_ready(), downs(&web).len()), (false, 2));
        }
    }
}

/// A server that is being shut down answers what it has, and takes no more.
#[test]
fn a_refused_call_is_tried_again_while_others_are_in_flight() {
    for comes_back in [false, true] {
        for mut web in both_eras(|_| {}) {
            let (early, answered) = web.call("a");
            let (late, _) = {
                let (late, call) = web.call("a");
                web.fail(&call, Broken::Unreachable);
                (late, call)
            };
            assert!(matches!(downs(&web)[..], [(FailureKind::Connect, Recovery::Resume { .. })]));
            assert_eq!((web.outcome(early), web.outcome(late), web.is_ready()), ("open".into(), "open".into(), false));
            if comes_back {
                web.wait(seconds(1));
                let again = web.take_named("tools/call");
                assert_eq!(again.of, Some(late));
                web.fail(&again, Broken::Unreachable);
                web.wait(seconds(2));
                let again = web.take_named("tools/call");
                for it in [&again, &answered] {
                    web.reply(it, Reply::json(200, &it.result(json!({"resultType": "complete", "content": []}))));
                }
                assert!(was_answered(&web, early) && was_answered(&web, late) && web.is_ready());
                assert_eq!(web.count("initialize") + web.count("server/discover"), 1);
                let ends = web.events.iter().filter_map(|event| match event {
                    Event::Finished { attempts, .. } => Some(*attempts),
                    _ => None,
                });
                assert_eq!(ends.collect::<BTreeSet<_>>(), [1, 3].into());
            } else {
                let refused = refuse_all(&mut web, seconds(60), |web| web.outcome(early) != "open");
                assert_eq!(refused, [seconds(1), seconds(3), seconds(7)]);
                // It never left, so that it is sent on the next connection.
                assert_eq!((web.outcome(early), web.outcome(late)), ("Unknown".into(), "open".into()));
                assert_eq!(downs(&web).len(), 2);
            }
        }
    }
}

/// Nothing is tried any more, so that nothing would end the outage.
#[test]
fn the_connection_ends_with_what_was_tried_again() {
    let mut web = without_streams();
    let request = outage(&mut web);
    web.session.cancel(web.now, request).unwrap();
    web.collect();
    assert_eq!((web.outcome(request), downs(&web).len()), ("Cancelled".into(), 2));
    web.wait_and_serve(seconds(10), &mut site());
    assert!(web.is_ready());
}

/// The connection ends otherwise while nobody is reached.
#[test]
fn each_end_of_a_connection_counts_while_nobody_is_reached() {
    let attempts = |reconnects: Option<u32>| {
        reconnects.map(|losses| {
            let mut reconnect = Reconnect::default();
            reconnect.max_losses = losses;
            reconnect
        })
    };
    for reconnects in [None, Some(0), Some(5)] {
        let mut options = legacy();
        options.reconnect = attempts(reconnects);
        options.limits.output = 16;
        for ends in ["close", "refused", "overrun"] {
            let mut web = connect(options.clone(), &mut site());
            let stream = web.last("GET");
            let request = outage(&mut web);
            assert!(!web.is_ready());
            match ends {
                "close" => web.close(),
                "refused" => {
                    refuse_all(&mut web, seconds(60), |web| web.outcome(request) != "open");
                }
                _ => {
                    // More than the embedder polls.
                    let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
                    let flood: Vec<Value> = (0..100).map(ping).collect();
                    let text = crate::web::events(&flood);
                    web.session.handle_body(web.now, stream.id, text.as_bytes());
                    web.collect_lenient();
                }
            }
            let told = format!("{reconnects:?} {ends}");
            assert_eq!(web.outcome(request), "Unknown", "{told}");
            let (closes, last) = (reconnects.is_none() || ends == "close", downs(&web).last().map(|(_, next)| *next));
            assert_eq!(web.session.request(web.now, Request::new("x")).is_err(), closes, "{told}");
            match (ends, reconnects) {
                ("close", _) => {}
                (_, None) => assert_eq!(last, Some(Recovery::Close), "{told}"),
                (_, Some(0)) => assert!(matches!(last, Some(Recovery::Parked { .. })), "{told}: {last:?}"),
                (_, Some(_)) => assert!(matches!(last, Some(Recovery::Reopen { .. })), "{told}: {last:?}"),
            }
        }
    }
}

/// What a modern server that takes its time for `server/discover` makes of `initialize`, if anything.
fn refusals() -> Vec<(&'static str, Option<Reply>)> {
    let error = |code: i64, data: Value| json!({"jsonrpc": "2.0", "id": 2, "error": {"code": code, "message": "no", "data": data}});
    vec![
        ("silent", None),
        ("no header", Some(Reply::json(400, &error(-32020, Value::Null)))),
        ("unknown", Some(Reply::json(404, &error(-32601, Value::Null)))),
        ("version", Some(Reply::json(400, &error(-32022, json!({"supported": ["2026-07-28"]}))))),
        ("invalid", Some(Reply::json(400, &error(-32600, Value::Null)))),
        ("a text", Some(Reply::text(400, "bad request"))),
        ("200", Some(Reply::json(200, &error(-32601, Value::Null)))),
        ("500", Some(Reply::status(500))),
    ]
}

/// A modern server that is slow to start is not broken by the `initialize` that follows.
#[test]
fn a_modern_server_that_answers_the_probe_late_is_connected_to_in_its_era() {
    for (told, refusal) in refusals() {
        let mut web = Web::open(options());
        let probe = web.take_named("server/discover");
        let mut modern = modern_site();
        let refuse = |web: &mut Web, exchange: &Exchange| match exchange.verb() {
            "GET" => web.reply(exchange, Reply::status(405)),
            _ => {
                if let Some(refusal) = refusal.clone() {
                    web.reply(exchange, refusal);
                }
            }
        };
        for _ in 0..20 {
            web.wait(seconds(1));
            for exchange in web.take() {
                refuse(&mut web, &exchange);
            }
        }
        assert!(web.is_open(&probe) && web.count("initialize") > 0, "{told}: {:?}", web.failure());
        web.end_with(&probe, modern.reply(&probe));
        if refusal.is_none() {
            // As over stdio, `initialize` has its time.
            web.wait(seconds(60));
        }
        web.serve(&mut modern);
        assert!(web.is_ready(), "{told}: {:?}", web.failure());
        assert_eq!(web.session.server().unwrap().era(), mcp_proto::Era::Modern, "{told}");
        assert_eq!(web.count("server/discover"), 1, "{told}");
        assert!(web.quirks().contains(&QuirkKind::ProbeSilent), "{told}");
    }
}

/// The probe's exchange ends while `initialize` is in flight: with an error, or broken.
#[test]
fn the_probe_that_was_given_up_may_end_in_any_way() {
    for end in ["404", "500", "error", "broken", "cut", "open"] {
        let mut web = Web::open(options());
        let probe = web.take_named("server/discover");
        web.wait(seconds(5));
        let initialize = web.take_named("initialize");
        match end {
            "404" => web.reply(&probe, Reply::status(404)),
            "500" => web.reply(&probe, Reply::status(500)),
            "error" => web.reply(&probe, Reply::json(200, &probe.error(-32601, "no"))),
            "broken" => web.fail(&probe, Broken::Midway),
            "cut" => web.end(&probe),
            _ => {}
        }
        assert_eq!(web.take_names(), [""; 0], "{end}: the probe is not sent again");
        let mut legacy = site();
        web.end_with(&initialize, legacy.reply(&initialize));
        web.serve(&mut legacy);
        assert!(web.is_ready(), "{end}: {:?}", web.failure());
        assert!(!web.is_open(&probe) && web.count("server/discover") == 1, "{end}");
        assert_eq!(web.was_dropped(&probe), end == "open", "{end}");
    }
}

/// The probe that is still in flight decides, and not for longer than the handshake takes.
#[test]
fn a_refused_initialize_beside_a_silent_probe_fails_with_its_refusal() {
    let mut web = Web::open(options());
    let probe = web.take_named("server/discover");
    web.wait(seconds(5));
    let initialize = web.take_named("initialize");
    web.reply(&initialize, Reply::json(200, &initialize.error(-32600, "not today")));
    assert_eq!(web.failure(), None);
    web.wait(seconds(60));
    let failure = web.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::HandshakeRejected);
    assert!(failure.message.contains("not today") && failure.message.contains("initialize"), "{failure:?}");
    assert!(web.was_dropped(&probe));
    // Broken in that time, it is sent again.
    let mut web = Web::open(options());
    let probe = web.take_named("server/discover");
    web.wait(seconds(5));
    let initialize = web.take_named("initialize");
    web.reply(&initialize, Reply::json(200, &initialize.error(-32600, "not today")));
    web.fail(&probe, Broken::Midway);
    let mut modern = modern_site();
    web.serve(&mut modern);
    assert!(web.is_ready() && web.count("server/discover") == 2, "{:?}", web.failure());
}

/// The probe's time is over, and `initialize` is in flight beside it.
fn beside(options: Options) -> (Web, Exchange, Exchange) {
    let mut web = Web::open(options);
    let probe = web.take_named("server/discover");
    web.wait(seconds(5));
    let initialize = web.take_named("initialize");
    (web, probe, initialize)
}

#[test]
fn what_the_probe_says_counts_after_initialize_was_refused() {
    let legacy_only = json!({"supportedVersions": ["2025-06-18"], "capabilities": {}, "resultType": "complete"});
    let unsupported = |version: &str| json!({"code": -32022, "message": "version", "data": {"supported": [version]}});
    for (reply, next, failure) in [
        (("result", legacy_only), Some("initialize"), None),
        (("error", unsupported("2026-07-28")), Some("server/discover"), None),
        (("error", unsupported("2031-01-01")), None, Some(FailureKind::UnsupportedVersion)),
        (("error", json!({"code": -32021, "message": "capability"})), None, Some(FailureKind::HandshakeRejected)),
        (("error", json!({"code": -32601, "message": "what?"})), None, Some(FailureKind::HandshakeRejected)),
        (("status", json!(500)), None, Some(FailureKind::HandshakeRejected)),
    ] {
        let told = format!("{reply:?}");
        let (mut web, probe, initialize) = beside(options());
        web.reply(&initialize, Reply::json(200, &initialize.error(-32600, "not today")));
        match reply {
            ("status", _) => web.reply(&probe, Reply::status(500)),
            (member, value) => web.reply(&probe, Reply::json(200, &probe.answer(member, value))),
        }
        let asked = web.take_names();
        assert_eq!(asked.first().map(String::as_str), next, "{told}");
        assert_eq!(web.failure().map(|failure| failure.kind), failure, "{told}");
    }
}

#[test]
fn initialize_beside_a_silent_probe_may_be_answered_in_any_way() {
    let answer = |version: Value| json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {}});
    // A version that is not known.
    for nearest in [true, false] {
        let mut lenient = options();
        lenient.tolerance.nearest_version = nearest;
        let (mut web, _, initialize) = beside(lenient);
        web.reply(&initialize, Reply::json(200, &initialize.result(answer(json!("2025-12-31")))));
        assert_eq!(web.take_names().contains(&"notifications/initialized".into()), nearest);
        let failure = (!nearest).then_some(FailureKind::UnsupportedVersion);
        assert_eq!(web.failure().map(|failure| failure.kind), failure);
    }
    let (mut web, _, initialize) = beside(options());
    web.reply(&initialize, Reply::json(200, &initialize.result(answer(json!(1)))));
    assert_eq!(web.failure().unwrap().kind, FailureKind::Protocol);
    // Capabilities that the server does not know.
    let mut asking = options();
    asking.capabilities.elicitation = true;
    let (mut web, _, initialize) = beside(asking);
    web.reply(&initialize, Reply::json(200, &initialize.error(-32603, "unknown capability elicitation")));
    assert_eq!(web.take_named("initialize").json()["params"]["capabilities"], json!({}));
    // A late error of a modern server: where `initialize` is refused, `server/discover` is sent again.
    let (mut web, probe, initialize) = beside(options());
    web.reply(&probe, Reply::json(400, &probe.error(-32021, "capability")));
    web.reply(&initialize, Reply::json(200, &initialize.error(-32600, "no")));
    assert_eq!(web.take_names(), ["server/discover"]);
}

/// A handshake may have less time than the probe.
#[test]
fn a_handshake_over_a_pipe_ends_before_the_time_of_the_probe() {
    let mut hasty = options();
    hasty.timeouts.handshake = seconds(3);
    let mut host = crate::common::Host::open(hasty);
    host.wait(seconds(3));
    assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeTimeout));
}

#[test]
fn what_is_subscribed_to_while_nobody_is_reached_is_requested_afterwards() {
    let mut options = reconnecting(legacy());
    options.listen = false;
    let mut site = Site::legacy(json!({"tools": {}, "resources": {"subscribe": true}}))
        .result("tools/list", tools(&["a"]))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/subscribe", json!({}))
        .result("resources/unsubscribe", json!({}));
    let mut web = connect(options, &mut site);
    web.session.subscribe(web.now, "a:back").unwrap();
    web.collect();
    web.serve(&mut site);
    web.session.unsubscribe(web.now, "a:back").unwrap();
    web.session.subscribe(web.now, "a:back").unwrap();
    web.session.subscribe(web.now, "a:left").unwrap();
    web.collect();
    let open = web.take();
    assert_eq!(open.len(), 2);
    outage(&mut web);
    for uri in ["a:back", "a:left"] {
        web.session.unsubscribe(web.now, uri).unwrap();
    }
    web.session.subscribe(web.now, "a:new").unwrap();
    web.collect();
    assert!(web.take().is_empty(), "nobody is reached");
    for exchange in &open {
        web.end_with(exchange, Reply::json(200, &exchange.result(json!({}))));
    }
    web.wait_and_serve(seconds(10), &mut site);
    assert_eq!(web.session.subscriptions().collect::<Vec<_>>(), ["a:new"]);
    assert_eq!((web.count("resources/subscribe"), web.count("resources/unsubscribe")), (3, 2));
    let told = |uri: &str| {
        let is_it = |event: &&Event| matches!(event, Event::Subscription { uri: of, outcome: Ok(()) } if **of == *uri);
        web.events.iter().filter(is_it).count()
    };
    assert_eq!(told("a:new"), 1);
}
