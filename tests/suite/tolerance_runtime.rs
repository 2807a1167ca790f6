//! The tolerances of the section "At run time", row by row, and the cases of hermes-agent behind them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{Deliver, Host, Server, Shared, Steps, millis, reconnecting, tools};
use mcp_proto::{
    Cause, Era, Event, FailureKind, Family, FamilyStatus, Keepalive, KeepaliveMethod, Options, Outcome, QuirkKind,
    Request, RequestId, ShutdownStep, Time, Transport,
};
use serde_json::{Value, json};

const INTERVAL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// A client that is ready, and its server.
struct Live {
    host: Host,
    server: Server,
    /// The delay of the responses to a method; `None`: no response.
    slow: BTreeMap<&'static str, Option<Duration>>,
    /// Messages that have not arrived yet.
    coming: Vec<(Time, Value)>,
    start: Time,
    /// The methods sent since the session was ready, with their times.
    sent: Vec<(Duration, String)>,
}

impl Live {
    fn new(options: Options, mut server: Server) -> Self {
        let mut host = Host::connect(options, &mut server);
        assert!(host.is_ready());
        host.take_sent();
        let start = host.now;
        Self { host, server, slow: BTreeMap::new(), coming: vec![], start, sent: vec![] }
    }

    fn serve(&mut self) {
        for _ in 0..10_000 {
            let (now, sent) = (self.host.now, self.host.take_sent());
            for message in &sent {
                let method = message["method"].as_str().unwrap_or("(answer)");
                self.sent.push((now - self.start, method.into()));
                if let Some(delay) = self.slow.get(method).copied().unwrap_or(Some(Duration::ZERO)) {
                    self.coming.extend(self.server.answer(message).into_iter().map(|answer| (now + delay, answer)));
                }
            }
            let Some(at) = self.coming.iter().position(|(at, _)| *at <= now) else { return };
            let (_, answer) = self.coming.remove(at);
            self.host.receive(answer);
        }
        panic!("server and client never become idle");
    }

    /// Advances the time, stopping at each event of the client or the server.
    fn run(&mut self, time: Duration) {
        let end = self.host.now + time;
        let mut steps = Steps::until("the time to run is over");
        loop {
            steps.step();
            self.serve();
            let answers = self.coming.iter().map(|(at, _)| *at);
            let Some(next) = answers.chain(self.host.session.deadline()).min().filter(|at| *at <= end) else { break };
            self.host.wait(next - self.host.now);
        }
        self.host.wait(end - self.host.now);
    }

    fn methods(&self) -> Vec<&str> {
        self.sent.iter().map(|(_, method)| method.as_str()).collect()
    }

    /// The times at which this method was sent, in milliseconds since the session was ready.
    fn times(&self, method: &str) -> Vec<u128> {
        self.sent.iter().filter(|(_, sent)| sent == method).map(|(at, _)| at.as_millis()).collect()
    }

    /// The intervals between those times, in milliseconds.
    fn gaps(&self, method: &str) -> Vec<u128> {
        self.times(method).windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Sends a notification, on the stream if there is one.
    fn tell(&mut self, what: &str) {
        let stream = self.server.messages().rfind(|message| message["method"] == "subscriptions/listen");
        let meta = |stream: &Value| json!({"_meta": {"io.modelcontextprotocol/subscriptionId": stream["id"]}});
        let params = stream.map_or(json!({}), meta);
        self.host.receive(json!({"jsonrpc": "2.0", "method": format!("notifications/{what}"), "params": params}));
    }

    fn call(&mut self, timeout: Duration) -> RequestId {
        let request = Request::call_tool("a", None).timeout(timeout).max_timeout(timeout);
        let request = self.host.session.request(self.host.now, request).unwrap();
        self.host.collect();
        request
    }

    fn downs(&self) -> usize {
        self.host.events.iter().filter(|event| matches!(event, Event::Down { .. })).count()
    }

    /// The session is ready, without quirks.
    fn assert_ready_without_quirks(&self) {
        assert!(self.host.is_ready(), "{:?}", self.host.failure());
        assert_eq!(self.downs(), 0);
        assert_eq!(self.host.quirks(), []);
    }
}

fn quiet() -> Options {
    crate::common::legacy()
}

fn modern() -> Options {
    crate::common::options()
}

fn alive(mut options: Options, change: impl FnOnce(&mut Keepalive)) -> Options {
    let mut keepalive = Keepalive::default();
    change(&mut keepalive);
    options.keepalive = Some(keepalive);
    options
}

/// A server whose shortest list is `resources/list`.
fn listing() -> Server {
    Server::legacy(json!({"tools": {}, "prompts": {}, "resources": {}}))
        .on("tools/list", |params| {
            let next = if params["cursor"].is_null() { json!("2") } else { Value::Null };
            Ok(json!({"tools": [{"name": next.to_string(), "inputSchema": {}}], "nextCursor": next}))
        })
        .result("prompts/list", json!({"prompts": [{"name": "p"}, {"name": "q"}]}))
        .result("resources/list", json!({"resources": [{"uri": "r:1", "name": "r"}]}))
        .result(
            "resources/templates/list",
            json!({"resourceTemplates": [{"uriTemplate": "s:{x}"}, {"uriTemplate": "t:{x}"}]}),
        )
        .result("ping", json!({}))
        .result("tools/call", json!({"content": []}))
}

fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// A list that the test changes while the server runs.
type Names = Shared<Vec<String>>;

fn changing(era: Era) -> (Server, Names) {
    let names: Names = Shared::new(vec!["a".into(), "b".into()]);
    let shared = Shared::clone(&names);
    let server = with_list_changed(era)
        .result("ping", json!({}))
        .on("tools/list", move |_| Ok(tools(&shared.borrow().iter().map(String::as_str).collect::<Vec<_>>())));
    (server, names)
}

fn with_list_changed(era: Era) -> Server {
    let capabilities = json!({"tools": {"listChanged": true}});
    match era {
        Era::Legacy => Server::legacy(capabilities),
        Era::Modern => Server::modern(capabilities),
    }
}

/// Runs a case against a server of each era.
fn both(case: impl Fn(Options, Era)) {
    case(quiet(), Era::Legacy);
    case(modern(), Era::Modern);
}

// `ping` is answered with an error.

/// hermes-agent #50028, agent-framework #5634
#[test]
fn ping_answered_with_any_error_is_alive() {
    for (code, words) in [(-32603, "Internal error"), (-32602, "Method not found"), (-32000, "busy"), (7, "")] {
        let mut live = Live::new(alive(quiet(), |_| {}), listing().error("ping", code, words));
        live.run(HOUR);
        assert_eq!(live.methods(), ["ping"; 60]);
        assert_eq!(live.gaps("ping"), [60_000; 59]);
        live.assert_ready_without_quirks();
    }
}

#[test]
fn ping_answered_with_a_result_is_no_quirk() {
    let mut live = Live::new(alive(quiet(), |_| {}), listing());
    live.run(24 * HOUR);
    assert_eq!(live.methods(), vec!["ping"; 24 * 60]);
    live.assert_ready_without_quirks();
}

/// hermes-agent #50028
#[test]
fn ping_unsupported_moves_the_probe_to_the_cheapest_list_that_worked() {
    let mut live = Live::new(alive(quiet(), |_| {}), listing().error("ping", -32601, "Method not found"));
    live.run(INTERVAL * 10);
    assert_eq!(live.methods()[..3], ["ping", "resources/list", "resources/list"]);
    assert_eq!((live.times("ping"), live.times("resources/list").len()), (vec![60_000], 9));
    assert!(live.gaps("resources/list").iter().all(|gap| *gap == 60_000));
    assert_eq!(live.host.quirks(), [QuirkKind::PingUnsupported]);
    assert_eq!(live.host.quirk_methods(QuirkKind::PingUnsupported), ["ping"]);
    assert!(live.host.is_ready() && live.downs() == 0);
    assert_eq!(live.host.keys(Family::Resources), ["r:1"], "the response to a probe does not update the catalog");
}

#[test]
fn ping_unsupported_and_a_failing_list_is_passive() {
    let gone = Shared::new(false);
    let shared = Shared::clone(&gone);
    let server = listing().error("ping", -32601, "Method not found").on("resources/list", move |_| {
        let list = json!({"resources": [{"uri": "r:1", "name": "r"}]});
        if shared.get() { Err(json!({"code": -32601, "message": "Method not found"})) } else { Ok(list) }
    });
    let mut live = Live::new(alive(quiet(), |_| {}), server);
    live.run(INTERVAL * 3);
    gone.set(true);
    live.run(HOUR);
    assert_eq!(live.methods(), ["ping", "resources/list", "resources/list", "resources/list"]);
    assert_eq!(live.host.quirks(), [QuirkKind::PingUnsupported]);
    assert!(live.host.is_ready() && live.downs() == 0);
}

#[test]
fn ping_unsupported_by_a_server_whose_lists_did_not_work_is_passive() {
    let server = Server::legacy(json!({"prompts": {}})).error("ping", -32601, "Method not found");
    let mut live = Live::new(alive(quiet(), |_| {}), server);
    assert_eq!(live.host.status(Family::Prompts), FamilyStatus::Absent);
    live.run(HOUR);
    assert_eq!(live.methods(), ["ping"]);
    assert_eq!(live.host.quirks(), [QuirkKind::MethodNotFound, QuirkKind::PingUnsupported]);
    assert!(live.host.is_ready() && live.downs() == 0);
}

/// The modern era has no `ping`; its replacement is judged the same way.
#[test]
fn server_discover_answered_with_any_error_is_alive() {
    let refuses = Shared::new(0);
    let shared = Shared::clone(&refuses);
    let server = Server::modern(json!({})).on("server/discover", move |_| match shared.get() {
        0 => Ok(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}})),
        code => Err(json!({"code": code, "message": "no"})),
    });
    let mut live = Live::new(alive(modern(), |keepalive| keepalive.discover = true), server);
    refuses.set(-32603);
    live.run(HOUR);
    assert_eq!(live.methods(), ["server/discover"; 60]);
    live.assert_ready_without_quirks();
    refuses.set(-32601);
    live.run(HOUR);
    assert_eq!(live.methods(), ["server/discover"; 61]);
    live.assert_ready_without_quirks();
}

// `ping` is not answered while other requests are.

/// hermes-agent #50104
#[test]
fn ping_silent_while_busy_is_replaced_by_a_list() {
    for threshold in [1, 2] {
        let mut live = Live::new(alive(quiet(), |keepalive| keepalive.threshold = threshold), listing());
        live.slow.insert("ping", None);
        live.run(INTERVAL + secs(10));
        let call = live.call(TIMEOUT);
        live.run(TIMEOUT);
        assert!(matches!(live.host.result_of(call), Outcome::Result(_)));
        assert_eq!(live.host.quirks(), [QuirkKind::PingSilent]);
        assert_eq!(live.host.quirk_methods(QuirkKind::PingSilent), ["ping"]);
        live.run(HOUR);
        assert_eq!(live.times("ping"), [60_000]);
        assert!(live.times("resources/list").len() >= 59);
        assert!(live.host.is_ready() && live.downs() == 0);
        assert_eq!(live.host.quirks().len(), 1);
    }
}

#[test]
fn ping_silent_and_list_silent_is_passive_while_calls_are_answered() {
    let mut live = Live::new(alive(quiet(), |_| {}), listing());
    live.slow.extend([("ping", None), ("resources/list", None)]);
    for probe in ["ping", "resources/list"] {
        let asked = (0..100).any(|_| {
            live.run(secs(1));
            !live.times(probe).is_empty()
        });
        assert!(asked, "{probe}");
        live.run(secs(1));
        live.call(TIMEOUT);
        live.run(TIMEOUT);
    }
    live.run(HOUR);
    let cancelled = "notifications/cancelled";
    assert_eq!(live.methods(), ["ping", "tools/call", cancelled, "resources/list", "tools/call", cancelled]);
    assert_eq!(live.host.quirks(), [QuirkKind::PingSilent]);
    assert!(live.host.is_ready() && live.downs() == 0);
}

#[test]
fn a_ping_answered_beside_other_requests_is_no_quirk() {
    let mut live = Live::new(alive(quiet(), |_| {}), listing());
    live.slow.insert("ping", Some(secs(20)));
    for _ in 0..20 {
        live.run(INTERVAL + secs(10));
        live.call(TIMEOUT);
        live.run(secs(30));
    }
    assert_eq!(live.times("ping").len(), 20);
    live.assert_ready_without_quirks();
}

#[test]
fn ping_silent_while_idle_is_replaced_by_a_list() {
    for threshold in [1, 2, 3] {
        let mut live = Live::new(alive(quiet(), |keepalive| keepalive.threshold = threshold), listing());
        live.slow.insert("ping", None);
        live.run(HOUR * 2);
        assert_eq!(live.times("ping").len(), usize::try_from(threshold).unwrap());
        assert!(live.times("resources/list").len() >= 100);
        assert_eq!((live.host.quirks(), live.downs(), live.host.is_ready()), (vec![QuirkKind::PingSilent], 0, true));
    }
}

#[test]
fn a_server_that_answers_nothing_is_dead_after_the_threshold_and_a_list() {
    let mut live = Live::new(reconnecting(alive(quiet(), |keepalive| keepalive.threshold = 3)), listing());
    live.slow.extend([("ping", None), ("resources/list", None), ("tools/call", None)]);
    live.run((INTERVAL + TIMEOUT) * 3 + TIMEOUT - millis(1));
    assert!(live.host.is_ready());
    live.run(millis(1));
    assert!(!live.host.is_ready());
    assert_eq!((live.times("ping"), live.times("resources/list")), (vec![60_000, 150_000, 240_000], vec![270_000]));
    assert_eq!((live.downs(), live.host.failure_kind()), (1, Some(FailureKind::Closed)));
    assert_eq!(live.host.quirks(), []);
}

/// A slow server: each response shows that it is connected.
#[test]
fn a_ping_answered_too_late_is_a_sign_of_life() {
    let mut live = Live::new(alive(quiet(), |_| {}), listing());
    live.slow.insert("ping", Some(TIMEOUT + secs(5)));
    live.run(HOUR);
    assert!(live.host.is_ready(), "{:?}", live.host.failure());
    assert_eq!(live.downs(), 0);
}

/// A message after a missed ping resets the count.
#[test]
fn missed_pings_with_traffic_between_them_are_not_in_a_row() {
    let mut live = Live::new(alive(quiet(), |_| {}), listing());
    live.slow.insert("ping", None);
    for round in 0..5 {
        live.run(INTERVAL + TIMEOUT);
        assert_eq!(live.times("ping").len(), round + 1);
        live.run(secs(1));
        live.tell("message");
        assert!(live.host.is_ready(), "dead after miss {round}, though a message arrived since the previous miss");
    }
}

// A long call is in flight.

#[test]
fn a_long_call_in_flight_is_not_probed() {
    let mut live = Live::new(alive(quiet(), |keepalive| keepalive.threshold = 1), listing());
    live.slow.insert("tools/call", Some(HOUR));
    let call = live.call(2 * HOUR);
    live.run(HOUR);
    assert_eq!(live.methods(), ["tools/call"]);
    assert!(matches!(live.host.result_of(call), Outcome::Result(_)));
    live.run(INTERVAL);
    assert_eq!(live.times("ping"), [3_660_000], "an interval after the answer");
    live.assert_ready_without_quirks();
}

#[test]
fn a_long_list_in_flight_is_not_probed() {
    let (server, _) = changing(Era::Legacy);
    let mut options = alive(quiet(), |keepalive| keepalive.threshold = 1);
    options.timeouts.request = HOUR;
    let mut live = Live::new(options, server);
    live.slow.insert("tools/list", Some(HOUR / 2));
    live.host.session.refresh(live.host.now, Family::Tools).unwrap();
    live.host.collect();
    live.run(HOUR / 2);
    assert_eq!(live.methods(), ["tools/list"]);
    live.run(INTERVAL);
    assert_eq!(live.times("ping"), [1_860_000]);
    live.assert_ready_without_quirks();
}

#[test]
fn any_message_of_the_server_is_a_sign_of_life() {
    let traffic = [
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/vendor/beat"}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}),
    ];
    for message in traffic {
        let mut live = Live::new(alive(quiet(), |_| {}), listing());
        for _ in 0..100 {
            live.run(INTERVAL - secs(1));
            live.host.receive(message.clone());
        }
        assert!(live.times("ping").is_empty(), "{message}");
        live.run(INTERVAL);
        assert_eq!(live.times("ping").len(), 1);
        live.assert_ready_without_quirks();
    }
}

// Many `list_changed` notifications.

/// hermes-agent #115502
#[test]
fn many_list_changed_are_debounced_and_cause_one_refresh_a_second_at_most() {
    both(|options, era| {
        let (server, names) = changing(era);
        let mut live = Live::new(options, server);
        live.run(secs(10));
        for number in 0..1000 {
            *names.borrow_mut() = vec![format!("tool {number}")];
            (0..100).for_each(|_| live.tell("tools/list_changed"));
            live.run(millis(10));
        }
        live.run(secs(10));
        let times = live.times("tools/list");
        assert_eq!(times[0], 10_300, "notifications are collected first");
        assert!(live.gaps("tools/list").iter().all(|gap| (1000..1100).contains(gap)), "{times:?}");
        assert_eq!(times.len(), 11, "one refresh per second, and one after");
        assert_eq!(live.host.keys(Family::Tools), ["tool 999"]);
        live.assert_ready_without_quirks();
    });
}

/// hermes-agent #115502
#[test]
fn many_list_changed_never_cause_two_concurrent_refreshes() {
    both(|options, era| {
        let (server, names) = changing(era);
        let mut live = Live::new(options, server);
        live.slow.insert("tools/list", Some(secs(5)));
        for number in 0..2000 {
            *names.borrow_mut() = vec![format!("tool {number}")];
            live.tell("tools/list_changed");
            live.run(millis(10));
        }
        live.run(secs(20));
        // Each begins a second after the previous one ends.
        assert_eq!(live.gaps("tools/list"), [6000; 4]);
        assert_eq!(live.host.keys(Family::Tools), ["tool 1999"]);
        live.assert_ready_without_quirks();
    });
}

#[test]
fn one_list_changed_causes_one_refresh() {
    both(|options, era| {
        let (server, names) = changing(era);
        let mut live = Live::new(options, server);
        live.run(secs(10));
        *names.borrow_mut() = vec!["c".into()];
        live.tell("tools/list_changed");
        live.run(HOUR);
        assert_eq!(live.times("tools/list"), [10_300]);
        assert_eq!(live.host.keys(Family::Tools), ["c"]);
        live.assert_ready_without_quirks();
    });
}

// Every list request makes the server send `list_changed`.

fn list_changed_after_every_list(live: &mut Live, time: Duration, before_the_answer: bool) {
    let end = live.host.now + time;
    let mut steps = Steps::until("the time to run is over");
    while live.host.now < end {
        steps.step();
        let next = live.host.session.deadline().map_or(end, |at| at.min(end));
        live.host.wait(next - live.host.now);
        let lists = live.host.sent.iter().filter(|message| message["method"] == "tools/list").count();
        for _ in 0..if before_the_answer { lists } else { 0 } {
            live.tell("tools/list_changed");
        }
        live.serve();
        for _ in 0..if before_the_answer { 0 } else { lists } {
            live.tell("tools/list_changed");
        }
    }
}

/// aspire #14375
#[test]
fn list_changed_loop_doubles_the_interval_until_a_list_differs() {
    both(|options, era| {
        for before_the_answer in [false, true] {
            let (server, names) = changing(era);
            let mut live = Live::new(options.clone(), server);
            live.run(secs(10));
            live.tell("tools/list_changed");
            list_changed_after_every_list(&mut live, secs(2), before_the_answer);
            assert_eq!(live.host.quirks(), [], "two refreshes without a difference are no loop");
            list_changed_after_every_list(&mut live, secs(398), before_the_answer);
            let slower = [1000, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000];
            assert_eq!(live.gaps("tools/list")[..11], slower);
            assert_eq!(live.host.quirks(), [QuirkKind::ListChangedLoop]);
            assert_eq!(live.host.quirk_methods(QuirkKind::ListChangedLoop), ["tools/list"]);
            *names.borrow_mut() = vec!["c".into()];
            let before = live.times("tools/list").len();
            list_changed_after_every_list(&mut live, secs(80), before_the_answer);
            let after: Vec<_> = live.gaps("tools/list").into_iter().skip(before).take(4).collect();
            assert_eq!(after, [1000, 1000, 1000, 2000], "fast again after a difference, then slow again");
            assert_eq!(live.host.keys(Family::Tools), ["c"]);
            assert_eq!(live.host.quirks().len(), 1);
            assert!(live.host.is_ready());
        }
    });
}

#[test]
fn a_server_whose_lists_always_differ_is_in_no_loop() {
    both(|options, era| {
        let asked = Shared::new(0);
        let shared = Shared::clone(&asked);
        let server = with_list_changed(era).on("tools/list", move |_| {
            shared.set(shared.get() + 1);
            Ok(tools(&[&format!("tool {}", shared.get())]))
        });
        let mut live = Live::new(options, server);
        live.tell("tools/list_changed");
        list_changed_after_every_list(&mut live, secs(100), false);
        assert!(live.gaps("tools/list").iter().all(|gap| *gap == 1000));
        assert_eq!(live.times("tools/list").len(), 100);
        live.assert_ready_without_quirks();
    });
}

/// The server sent no notification, so it causes no loop.
#[test]
fn requested_refreshes_without_a_difference_are_no_loop() {
    both(|options, era| {
        let (server, names) = changing(era);
        let mut live = Live::new(options, server);
        for _ in 0..10 {
            live.run(INTERVAL);
            live.host.session.refresh(live.host.now, Family::Tools).unwrap();
            live.host.collect();
        }
        live.run(INTERVAL);
        live.assert_ready_without_quirks();
        *names.borrow_mut() = vec!["c".into()];
        live.tell("tools/list_changed");
        live.run(millis(300));
        assert_eq!(live.host.keys(Family::Tools), ["c"], "refreshed at once, since there was no loop");
    });
}

// A refresh fails.

/// How a list fails: the server's response, if any.
fn failures() -> [Option<Result<Value, Value>>; 6] {
    let error = |code: i64| Some(Err(json!({"code": code, "message": "not now"})));
    [error(-32603), error(-32602), error(-32601), error(5), Some(Ok(json!({"tools": "none"}))), None]
}

#[test]
fn a_failed_refresh_keeps_the_catalog_and_is_repeated_with_backoff() {
    both(|options, era| {
        for failure in failures() {
            let failing: Shared<Option<Result<Value, Value>>> = Shared::default();
            let (server, names) = changing(era);
            let (shared, listed) = (Shared::clone(&failing), Shared::clone(&names));
            let server = server.on("tools/list", move |_| {
                let names = listed.borrow();
                let list = || Ok(tools(&names.iter().map(String::as_str).collect::<Vec<_>>()));
                shared.borrow().clone().unwrap_or_else(list)
            });
            let mut live = Live::new(options.clone(), server);
            live.run(secs(10));
            let silent = failure.is_none();
            if silent {
                live.slow.insert("tools/list", None);
            }
            failing.set(failure.clone());
            *names.borrow_mut() = vec!["c".into()];
            live.tell("tools/list_changed");
            live.run(secs(900));
            // Without a response, the wait starts when the request times out.
            let waited = if silent { 60_000 } else { 0 };
            let waits = [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000].map(|wait| wait + waited);
            assert_eq!(live.gaps("tools/list")[..7], waits, "{failure:?}");
            assert_eq!(live.host.keys(Family::Tools), ["a", "b"]);
            assert_eq!(live.host.status(Family::Tools), FamilyStatus::Listed);
            assert!(live.host.session.family(Family::Tools).stale);
            assert!(live.host.session.list_error(Family::Tools).is_some());
            live.assert_ready_without_quirks();

            live.slow.clear();
            failing.set(None);
            live.run(secs(121));
            assert_eq!(live.host.keys(Family::Tools), ["c"]);
            assert!(!live.host.session.family(Family::Tools).stale);
            let walks = live.times("tools/list").len();
            live.run(HOUR);
            assert_eq!(live.times("tools/list").len(), walks, "a complete list is not requested again");

            failing.set(Some(Err(json!({"code": -32603, "message": "again"}))));
            live.tell("tools/list_changed");
            live.run(secs(5));
            assert_eq!(live.gaps("tools/list")[walks..], [1000, 2000], "the backoff started again");
            live.assert_ready_without_quirks();
        }
    });
}

/// The pages before the error are discarded.
#[test]
fn a_refresh_that_fails_after_the_first_page_keeps_the_catalog() {
    both(|options, era| {
        let broken = Shared::new(false);
        let shared = Shared::clone(&broken);
        let server = with_list_changed(era).on("tools/list", move |params| {
            let (first, broken) = (params["cursor"].is_null(), shared.get());
            let name = if broken { "c" } else { "a" };
            match (first, broken) {
                (true, _) => Ok(json!({"tools": [{"name": name, "inputSchema": {}}], "nextCursor": "2"})),
                (false, false) => Ok(json!({"tools": [{"name": "b", "inputSchema": {}}]})),
                (false, true) => Err(json!({"code": -32603, "message": "not now"})),
            }
        });
        let mut live = Live::new(options, server);
        broken.set(true);
        live.tell("tools/list_changed");
        live.run(secs(30));
        assert_eq!(live.host.keys(Family::Tools), ["a", "b"]);
        assert_eq!(live.host.status(Family::Tools), FamilyStatus::Listed);
        assert!(live.host.session.family(Family::Tools).stale);
        assert!(!live.host.events.iter().any(|event| matches!(event, Event::CatalogChanged { .. })));
        live.assert_ready_without_quirks();
        broken.set(false);
        live.run(INTERVAL);
        assert!(!live.host.session.family(Family::Tools).stale);
    });
}

/// An empty list counts as complete.
#[test]
fn an_empty_list_that_fails_on_a_reconnect_is_requested_again() {
    both(|options, era| {
        for last_good in [vec![], vec!["a".to_owned()]] {
            let failing = Shared::new(false);
            let (server, names) = changing(era);
            names.set(last_good.clone());
            let (shared, listed) = (Shared::clone(&failing), Shared::clone(&names));
            let server = server.on("tools/list", move |_| {
                let names = listed.borrow();
                let list = tools(&names.iter().map(String::as_str).collect::<Vec<_>>());
                if shared.get() { Err(json!({"code": -32603, "message": "not now"})) } else { Ok(list) }
            });
            let mut live = Live::new(reconnecting(options.clone()), server);
            live.run(secs(10));
            *names.borrow_mut() = vec!["b".into()];
            failing.set(true);
            live.host.close_transport();
            live.host.wait(secs(1));
            live.host.transport(Transport::Opened);
            live.serve();
            assert!(live.host.is_ready());
            assert_eq!(live.host.keys(Family::Tools), last_good);
            assert!(live.host.session.family(Family::Tools).stale, "{last_good:?} was the last good list");
            failing.set(false);
            live.run(secs(2 * 60));
            assert_eq!(live.host.keys(Family::Tools), ["b"]);
            assert_eq!(live.host.status(Family::Tools), FamilyStatus::Listed);
        }
    });
}

// The process does not exit when its input closes.

/// Proxyman #2727, ts-sdk #2002
#[test]
fn no_exit_terminates_after_a_grace_time_then_kills() {
    let mut live = Live::new(quiet(), listing());
    live.host.session.close(live.host.now).unwrap();
    live.host.collect();
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput]);
    live.run(millis(1999));
    assert_eq!((live.host.shuts.len(), live.host.quirks()), (1, vec![]));
    live.run(millis(1));
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput, ShutdownStep::Terminate]);
    assert_eq!(live.host.quirks(), [QuirkKind::NoExit]);
    live.run(millis(1999));
    assert_eq!(live.host.shuts.len(), 2);
    live.run(millis(1));
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill]);
    live.run(HOUR);
    assert_eq!(live.host.cause(), Some(&Cause::Requested), "a process that cannot be killed is abandoned");
    assert_eq!((live.host.quirks().len(), live.host.shuts.len(), live.sent.len()), (1, 3, 0));
}

#[test]
fn no_exit_of_a_server_that_exits_when_terminated_needs_no_kill() {
    let mut live = Live::new(quiet(), listing());
    live.host.session.close(live.host.now).unwrap();
    live.run(secs(3));
    live.host.close_transport();
    live.run(HOUR);
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput, ShutdownStep::Terminate]);
    assert_eq!((live.host.quirks(), live.host.cause()), (vec![QuirkKind::NoExit], Some(&Cause::Requested)));
}

#[test]
fn a_server_that_exits_when_its_input_closes_has_no_quirk() {
    let mut live = Live::new(quiet(), listing());
    live.host.session.close(live.host.now).unwrap();
    live.run(millis(1999));
    live.host.close_transport();
    live.run(HOUR);
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput]);
    assert_eq!((live.host.quirks(), live.host.cause()), (vec![], Some(&Cause::Requested)));
}

/// A peer that stopped answering is shut down the same way before the next connection.
#[test]
fn no_exit_of_a_dead_peer_delays_the_next_connection_until_it_has_exited() {
    let mut live = Live::new(reconnecting(alive(quiet(), |_| {})), listing());
    live.slow.extend([("ping", None), ("resources/list", None)]);
    live.run((INTERVAL + TIMEOUT) * 2 + TIMEOUT);
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput]);
    live.run(secs(4));
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill]);
    assert_eq!((live.host.quirks(), live.host.opens), (vec![QuirkKind::NoExit], 1));
    live.host.close_transport();
    live.run(secs(1));
    assert_eq!(live.host.opens, 2);
}

// hermes-agent #44550.

/// As that host is configured: `tools/list` every 180 s if there are tools.
fn hermes_options() -> Options {
    reconnecting(alive(quiet(), |keepalive| {
        (keepalive.method, keepalive.interval) = (KeepaliveMethod::ToolsList, secs(180));
    }))
}

#[test]
fn keepalive_uses_tools_list_with_tools() {
    // Other lists may be smaller; the configured one is used.
    let mut live = Live::new(hermes_options(), listing());
    live.run(10 * HOUR);
    assert_eq!(live.methods(), vec!["tools/list"; 200]);
    assert_eq!(live.gaps("tools/list"), [180_000; 199]);
    assert_eq!(live.host.count(Family::Tools), 2, "the response to a probe does not update the catalog");
    live.assert_ready_without_quirks();
}

#[test]
fn keepalive_uses_ping_without_tools() {
    for capabilities in [json!({"prompts": {}}), json!({"resources": {}}), json!({})] {
        let server = Server::legacy(capabilities)
            .result("prompts/list", json!({"prompts": [{"name": "p"}]}))
            .result("resources/list", json!({"resources": []}))
            .result("resources/templates/list", json!({"resourceTemplates": []}))
            .result("ping", json!({}));
        let mut live = Live::new(hermes_options(), server);
        live.run(10 * HOUR);
        assert_eq!(live.methods(), vec!["ping"; 200]);
        assert_eq!(live.server.received("tools/list"), 0);
        live.assert_ready_without_quirks();
    }
}

/// The legacy fallback of that host: without known capabilities all lists are requested, and those that worked are
/// used.
#[test]
fn keepalive_uses_a_list_that_worked_without_declared_capabilities() {
    let silent = || {
        Server::new().result("ping", json!({})).on("initialize", |params| {
            let info = json!({"name": "s", "version": "1"});
            Ok(json!({"protocolVersion": params["protocolVersion"], "serverInfo": info}))
        })
    };
    let mut live = Live::new(hermes_options(), silent().result("tools/list", tools(&["a"])));
    live.run(HOUR);
    assert_eq!(live.methods(), ["tools/list"; 20]);
    let mut options = hermes_options();
    options.tolerance.tools_absent = true;
    let mut live = Live::new(options, silent().result("prompts/list", json!({"prompts": []})));
    live.run(HOUR);
    assert_eq!(live.methods(), ["ping"; 20]);
    assert!(live.host.is_ready() && live.downs() == 0);
}

#[test]
fn a_refresh_is_not_triggered_by_a_server_without_tools() {
    let server = Server::legacy(json!({"prompts": {}})).result("prompts/list", json!({"prompts": [{"name": "p"}]}));
    let mut live = Live::new(reconnecting(quiet()), server);
    for _ in 0..100 {
        live.tell("tools/list_changed");
        live.run(secs(10));
    }
    assert_eq!((live.sent.len(), live.server.received("tools/list")), (0, 0));
    assert_eq!(live.host.status(Family::Tools), FamilyStatus::NotAdvertised);
    assert_eq!(live.host.quirks(), [QuirkKind::UndeclaredListChanged]);
    assert_eq!(live.host.quirk_methods(QuirkKind::UndeclaredListChanged), ["notifications/tools/list_changed"]);
    assert!(live.host.is_ready() && live.downs() == 0);
}

#[test]
fn a_refresh_of_prompts_continues_after_list_changed_of_absent_tools() {
    let name = Shared::new("p");
    let shared = Shared::clone(&name);
    let server = Server::legacy(json!({"prompts": {"listChanged": true}}))
        .on("prompts/list", move |_| Ok(json!({"prompts": [{"name": shared.get()}]})));
    let mut live = Live::new(reconnecting(quiet()), server);
    name.set("q");
    live.tell("tools/list_changed");
    live.tell("prompts/list_changed");
    live.run(secs(10));
    assert_eq!(live.methods(), ["prompts/list"]);
    assert_eq!(live.host.keys(Family::Prompts), ["q"]);
    assert_eq!(live.host.quirks(), [QuirkKind::UndeclaredListChanged]);
}

// Before and at the end of a session.

#[test]
fn server_requests_are_answered_before_the_servers_input_is_closed() {
    let mut options = quiet();
    (options.capabilities.elicitation, options.capabilities.sampling) = (true, true);
    let mut live = Live::new(options, listing());
    live.host.receive(json!({"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": {"message": "?"}}));
    live.host.receive(json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {}}));
    // Not polled yet when the session is closed.
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}).to_string();
    live.host.session.deliver(live.host.now, ping.as_bytes());
    live.host.session.close(live.host.now).unwrap();
    live.host.collect();
    let answered: Vec<_> = live.host.take_sent().into_iter().map(|answer| answer["id"].clone()).collect();
    for id in ["e", "s", "p"] {
        assert_eq!(answered.iter().filter(|answered| **answered == id).count(), 1, "{id} of {answered:?}");
    }
    assert_eq!(live.host.shuts, [ShutdownStep::CloseInput]);
}
