//! Refreshes: why a list is received, what is needed meanwhile, and how it ends.

use mcp_proto::{Family, FamilyStatus, ListErrors, Options, QuirkKind, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, millis, options, reconnecting, seconds, tools};
use crate::rows::{notify, refuse, reply};

const LIST_CHANGED: &str = "notifications/tools/list_changed";
const LISTEN: &str = "subscriptions/listen";

/// Why the list is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Need {
    Announced,
    Wanted,
}

use Need::{Announced, Wanted};

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Differs,
    Same,
    Part,
    Failed,
    Lost,
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}})
}

/// A client that takes two items of a list, and its server.
fn connect() -> (Host, Server) {
    let mut options = reconnecting(legacy());
    options.limits.items = 2;
    let mut server = Server::legacy(capabilities()).result("tools/list", tools(&["a"]));
    (Host::connect(options, &mut server), server)
}

fn need(host: &mut Host, need: Need) {
    match need {
        Announced => notify(host, LIST_CHANGED),
        Wanted => {
            host.session.refresh(host.now, Family::Tools).unwrap();
            host.collect();
        }
    }
}

/// The list is needed, and its request was sent.
fn requested(host: &mut Host, why: Need) -> Value {
    need(host, why);
    if why == Announced {
        host.wait(seconds(3));
    }
    host.take_one()
}

/// The server announces changes that are none.
fn announce_nothing(host: &mut Host, times: u32) {
    for _ in 0..times {
        let list = requested(host, Announced);
        reply(host, &list, tools(&["a"]));
    }
}

fn has_loop(host: &Host) -> bool {
    host.quirks().contains(&QuirkKind::ListChangedLoop)
}

/// The connection is lost, and the next one is ready.
fn reconnect(host: &mut Host, server: &mut Server) {
    host.close_transport();
    host.wait(seconds(2));
    host.transport(Transport::Opened);
    host.serve(server);
    assert!(host.is_ready());
}

fn assert_rests(host: &mut Host, what: &str) {
    host.wait(seconds(100));
    assert_eq!(host.take_sent(), [json!(null); 0], "{what}");
}

#[test]
fn a_list_that_is_needed_while_it_is_received_is_received_once_more() {
    for cause in [Announced, Wanted] {
        for during in [&[][..], &[Announced], &[Wanted], &[Wanted, Announced], &[Announced, Wanted]] {
            for end in [End::Differs, End::Same, End::Part, End::Failed, End::Lost] {
                for before in [0, 2] {
                    assert_received_once_more(cause, during, end, before);
                }
            }
        }
    }
}

fn assert_received_once_more(cause: Need, during: &[Need], end: End, before: u32) {
    let what = format!("{cause:?}, then {during:?}, ends as {end:?} after {before} announcements");
    let (mut host, mut server) = connect();
    announce_nothing(&mut host, before);
    let list = requested(&mut host, cause);
    for why in during {
        need(&mut host, *why);
        host.wait(millis(100));
        assert!(host.take_sent().is_empty(), "{what}: one list at a time");
    }
    let known = match end {
        End::Differs => &["b"],
        End::Same | End::Part | End::Failed | End::Lost => &["a"],
    };
    match end {
        End::Differs | End::Same => reply(&mut host, &list, tools(known)),
        End::Part => reply(&mut host, &list, tools(&["a", "b", "c"])),
        End::Failed => refuse(&mut host, &list, -32603, "not now"),
        End::Lost => {
            reconnect(&mut host, &mut server);
            return assert_rests(&mut host, &what);
        }
    }
    host.wait(seconds(10));
    let again = host.take_sent();
    assert_eq!(again.len(), usize::from(!during.is_empty() || end == End::Failed), "{what}");
    again.iter().for_each(|list| reply(&mut host, list, tools(known)));
    assert_rests(&mut host, &what);
    // Only what the server announces counts, the third time in a row.
    let announced = cause == Announced || during.contains(&Announced);
    let counts = matches!(end, End::Same | End::Failed);
    assert_eq!(has_loop(&host), before == 2 && announced && counts, "{what}");
}

/// A client whose embedder wanted the list while it was received for the embedder: it is due.
fn due() -> (Host, Server) {
    let (mut host, server) = connect();
    announce_nothing(&mut host, 2);
    let list = requested(&mut host, Wanted);
    need(&mut host, Wanted);
    reply(&mut host, &list, tools(&["a"]));
    assert!(host.take_sent().is_empty());
    (host, server)
}

#[test]
fn a_list_that_is_due_for_the_embedder_is_no_loop_unless_a_change_is_announced_too() {
    for announced in [false, true] {
        let (mut host, _) = due();
        if announced {
            notify(&mut host, LIST_CHANGED);
        }
        host.wait(seconds(3));
        let list = host.take_one();
        reply(&mut host, &list, tools(&["a"]));
        assert_eq!(has_loop(&host), announced);
        assert_rests(&mut host, "the list is received once");
    }
}

#[test]
fn a_list_that_is_due_is_requested_at_once_where_the_embedder_wants_it() {
    let (mut host, _) = due();
    let list = requested(&mut host, Wanted);
    reply(&mut host, &list, tools(&["a"]));
    assert_rests(&mut host, "the timer has stopped");
    assert!(!has_loop(&host));
    notify(&mut host, LIST_CHANGED);
    let list = requested(&mut host, Wanted);
    reply(&mut host, &list, tools(&["a"]));
    assert_rests(&mut host, "the timer has stopped");
    assert!(has_loop(&host), "the change was announced");
}

/// What is due, in flight or wanted ends with its connection: the next one counts from anew.
#[test]
fn a_refresh_for_the_embedder_does_not_outlive_its_connection() {
    for in_flight in [false, true] {
        let (mut host, mut server) = due();
        if in_flight {
            requested(&mut host, Wanted);
        }
        reconnect(&mut host, &mut server);
        assert_rests(&mut host, "the list of the next connection is the newest");
        announce_nothing(&mut host, 2);
        assert!(!has_loop(&host));
        announce_nothing(&mut host, 1);
        assert!(has_loop(&host), "the third, and each one counts");
    }
}

/// The stream that the client requested last.
fn stream(host: &Host) -> Value {
    let mut sent = host.transcript.iter().rev().map(|(_, message)| message);
    sent.find(|message| message["method"] == LISTEN).unwrap().clone()
}

fn acknowledge(host: &mut Host) {
    let stream = stream(host);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": stream["id"]});
    let params = json!({"_meta": meta, "notifications": stream["params"]["notifications"]});
    let method = "notifications/subscriptions/acknowledged";
    host.receive(json!({"jsonrpc": "2.0", "method": method, "params": params}));
}

/// The stream ends, and another one is requested.
fn renew_stream(host: &mut Host) {
    let ended = stream(host);
    reply(host, &ended, json!({"resultType": "complete"}));
    host.wait(seconds(1));
    assert_eq!(host.take_methods(), [LISTEN]);
}

fn complete(list: Value) -> Value {
    let mut list = list;
    list["resultType"] = json!("complete");
    list
}

/// A modern client that was sent the request for the list of tools. Its stream is requested, and not acknowledged.
fn listing(options: Options) -> (Host, Value) {
    let mut host = Host::open(options);
    let discover = host.take_one();
    Server::modern(capabilities()).answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    let sent = host.take_sent();
    let [listen, list] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((&listen["method"], &list["method"]), (&json!(LISTEN), &json!("tools/list")));
    (host, list.clone())
}

/// The list is requested once more, and is the known one.
fn assert_rechecked(host: &mut Host) {
    host.wait(seconds(5));
    let list = host.take_one();
    assert_eq!(list["method"], "tools/list");
    reply(host, &list, complete(tools(&["a"])));
    assert_rests(host, "once is enough");
    assert_eq!(host.keys(Family::Tools), ["a"]);
    assert!(!has_loop(host));
}

#[test]
fn a_list_in_flight_that_was_requested_before_the_stream_is_received_once_more() {
    for cause in [Announced, Wanted] {
        let (mut host, list) = listing(options());
        acknowledge(&mut host);
        reply(&mut host, &list, complete(tools(&["a"])));
        let list = requested(&mut host, cause);
        renew_stream(&mut host);
        acknowledge(&mut host);
        assert!(host.take_sent().is_empty());
        reply(&mut host, &list, complete(tools(&["a"])));
        assert_rechecked(&mut host);
    }
}

/// A client whose stream of `list_changed` and of a resource is replaced, and ends before the other one is acknowledged: in
/// between, a list may have changed unnoticed.
fn replacing() -> Host {
    let mut capabilities = capabilities();
    capabilities["resources"] = json!({"subscribe": true});
    let mut options = options();
    options.tolerance.list_errors = ListErrors::Degrade;
    let mut host =
        Host::connect(options, &mut Server::modern(capabilities).result("tools/list", complete(tools(&["a"]))));
    assert!(host.is_ready());
    host.wait(seconds(5));
    let open = stream(&host);
    acknowledge(&mut host);
    host.take_sent();
    host.session.subscribe(host.now, "a:b").unwrap();
    host.collect();
    assert_eq!(host.take_methods(), [LISTEN]);
    reply(&mut host, &open, json!({"resultType": "complete"}));
    host
}

#[test]
fn a_list_that_is_due_is_due_at_the_same_time_if_it_may_be_outdated_too() {
    for why in [Announced, Wanted] {
        let mut host = replacing();
        need(&mut host, why);
        if why == Wanted {
            let list = host.take_one();
            refuse(&mut host, &list, -32603, "not now");
        }
        let due = host.session.deadline();
        host.now = host.now + millis(10);
        acknowledge(&mut host);
        assert_eq!(host.session.deadline(), due, "{why:?}");
        host.wait(seconds(1));
        assert_eq!(host.take_methods(), ["tools/list"], "{why:?}");
    }
}

#[test]
fn a_list_that_is_received_and_needed_again_is_received_once_more_if_it_may_be_outdated_too() {
    for why in [Announced, Wanted] {
        let mut host = replacing();
        let list = requested(&mut host, Announced);
        need(&mut host, why);
        acknowledge(&mut host);
        host.wait(seconds(5));
        assert_eq!(host.take_sent(), [json!(null); 0], "one at a time");
        reply(&mut host, &list, complete(tools(&["a"])));
        assert_rechecked(&mut host);
    }
}

#[test]
fn a_first_page_before_the_stream_has_the_list_received_once_more_in_discovery() {
    for relisting in [false, true] {
        let (mut host, list) = listing(options());
        let mut first = complete(tools(&["a"]));
        first["nextCursor"] = json!("2");
        reply(&mut host, &list, first);
        let second = host.take_one();
        if relisting {
            notify(&mut host, LIST_CHANGED);
        } else {
            acknowledge(&mut host);
        }
        reply(&mut host, &second, complete(tools(&[])));
        assert!(!host.is_ready());
        let again = host.take_one();
        if relisting {
            acknowledge(&mut host);
        }
        reply(&mut host, &again, complete(tools(&["a"])));
        assert!(host.is_ready());
        if relisting {
            assert_rechecked(&mut host);
        } else {
            assert_rests(&mut host, "it was received after the stream");
        }
    }
}

#[test]
fn a_list_that_changed_and_may_be_outdated_is_received_once_more_in_discovery() {
    let (mut host, list) = listing(options());
    let mut first = complete(tools(&["a"]));
    first["nextCursor"] = json!("2");
    reply(&mut host, &list, first);
    let second = host.take_one();
    notify(&mut host, LIST_CHANGED);
    acknowledge(&mut host);
    reply(&mut host, &second, complete(tools(&[])));
    assert!(!host.is_ready());
    let again = host.take_one();
    reply(&mut host, &again, complete(tools(&["a"])));
    assert!(host.is_ready());
    assert_rests(&mut host, "it was received after the stream");
}

#[test]
fn a_partial_list_before_the_stream_is_received_once_more() {
    let mut options = options();
    options.limits.pages = 1;
    let (mut host, list) = listing(options);
    let mut first = complete(tools(&["a"]));
    first["nextCursor"] = json!("2");
    reply(&mut host, &list, first);
    assert_eq!(host.status(Family::Tools), FamilyStatus::Partial);
    acknowledge(&mut host);
    assert_rechecked(&mut host);
}

#[test]
fn a_failed_list_is_requested_again_after_a_time_without_a_stream() {
    let mut options = options();
    options.tolerance.list_errors = ListErrors::Degrade;
    let (mut host, list) = listing(options);
    acknowledge(&mut host);
    refuse(&mut host, &list, -32603, "not now");
    assert_eq!(host.status(Family::Tools), FamilyStatus::Failed);
    renew_stream(&mut host);
    acknowledge(&mut host);
    assert_rechecked(&mut host);
}
