//! Rows of the pages of a list: a second attempt that ends badly, and refreshes cut off at a limit.

use mcp_proto::{FailureKind, Family, FamilyStatus, QuirkKind, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, reconnecting, seconds, tools};
use crate::rows::{notify, refuse, reply};

const CHANGED: &str = "notifications/tools/list_changed";

fn page(names: &[&str], cursor: &str) -> Value {
    let mut page = tools(names);
    page["nextCursor"] = json!(cursor);
    page
}

/// A client whose server rejected its own cursor: the second request for the first page.
fn restarted(pages: usize) -> (Host, Value) {
    let mut options = reconnecting(legacy());
    options.limits.pages = pages;
    let mut host = Host::open(options);
    let initialize = host.take_one();
    Server::legacy(json!({"tools": {"listChanged": true}}))
        .answer(&initialize)
        .into_iter()
        .for_each(|answer| host.receive(answer));
    let first = host.take_sent().pop().unwrap();
    reply(&mut host, &first, page(&["dropped"], "1"));
    let second = host.take_one();
    assert_eq!(second["params"]["cursor"], "1");
    refuse(&mut host, &second, -32602, "Invalid cursor");
    assert_eq!(host.quirks(), [QuirkKind::CursorRejected]);
    let again = host.take_one();
    assert_eq!((&again["method"], &again["params"]["cursor"]), (&json!("tools/list"), &Value::Null));
    (host, again)
}

/// The client is ready with these tools, and requests nothing else.
fn assert_ended(mut host: Host, status: FamilyStatus, names: &[&str], quirk: impl Into<Option<QuirkKind>>) {
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), &*host.keys(Family::Tools)), (status, names));
    let quirks: Vec<_> = [QuirkKind::CursorRejected].into_iter().chain(quirk.into()).collect();
    assert_eq!(host.quirks(), quirks);
    host.wait(seconds(100));
    assert!(host.take_sent().is_empty());
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
    assert_eq!(host.take_methods(), ["tools/list"], "no page is in flight");
}

#[test]
fn a_second_attempt_with_a_repeated_last_page_is_complete() {
    let (mut host, list) = restarted(10);
    reply(&mut host, &list, page(&["a"], "2"));
    let next = host.take_one();
    reply(&mut host, &next, page(&["a"], "2"));
    assert_ended(host, FamilyStatus::Listed, &["a"], QuirkKind::CursorLoop);
}

#[test]
fn a_second_attempt_with_a_repeated_empty_cursor_is_complete() {
    let (mut host, list) = restarted(10);
    reply(&mut host, &list, page(&["a"], ""));
    let next = host.take_one();
    reply(&mut host, &next, page(&["a"], ""));
    assert_ended(host, FamilyStatus::Listed, &["a"], QuirkKind::CursorLoop);
}

#[test]
fn a_second_attempt_that_repeats_a_cursor_with_new_items_continues() {
    let (mut host, list) = restarted(10);
    reply(&mut host, &list, page(&["a"], "2"));
    let next = host.take_one();
    reply(&mut host, &next, page(&["b"], "2"));
    let next = host.take_one();
    assert_eq!(next["params"]["cursor"], "2");
    reply(&mut host, &next, page(&["b"], "2"));
    assert_ended(host, FamilyStatus::Listed, &["a", "b"], QuirkKind::CursorLoop);
}

#[test]
fn a_second_attempt_is_within_the_limits() {
    let (mut host, list) = restarted(2);
    reply(&mut host, &list, page(&["a"], "2"));
    let next = host.take_one();
    reply(&mut host, &next, page(&["b"], "3"));
    assert_ended(host, FamilyStatus::Partial, &["a", "b"], QuirkKind::ListLimit);
}

#[test]
fn a_repeated_cursor_on_the_last_page_within_the_limit_ends_the_list_unless_the_page_has_new_items() {
    let cases = [
        ("", "a", FamilyStatus::Listed, &["a"][..], QuirkKind::CursorLoop),
        ("", "b", FamilyStatus::Partial, &["a", "b"], QuirkKind::ListLimit),
        ("2", "a", FamilyStatus::Listed, &["a"], QuirkKind::CursorLoop),
        ("2", "b", FamilyStatus::Partial, &["a", "b"], QuirkKind::ListLimit),
    ];
    for (cursor, item, status, names, quirk) in cases {
        let (mut host, list) = restarted(2);
        reply(&mut host, &list, page(&["a"], cursor));
        let next = host.take_one();
        reply(&mut host, &next, page(&[item], cursor));
        assert_ended(host, status, names, quirk);
    }
}

#[test]
fn a_list_that_fails_on_its_second_attempt_loses_the_connection() {
    for (code, words) in [(-32602, "Invalid cursor"), (-32603, "out of order")] {
        let (mut host, list) = restarted(10);
        reply(&mut host, &list, page(&["a"], "2"));
        let next = host.take_one();
        refuse(&mut host, &next, code, words);
        assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed));
        assert!(host.take_sent().is_empty());
    }
}

/// The connection is lost and reopened. Returns how often the list was requested.
fn reconnect(host: &mut Host) -> usize {
    host.close_transport();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
    let mut server = Server::legacy(json!({"tools": {"listChanged": true}})).result("tools/list", tools(&["b"]));
    host.serve(&mut server);
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["b"]));
    host.wait(seconds(100));
    host.serve(&mut server);
    server.received("tools/list")
}

#[test]
fn a_second_attempt_ends_with_its_connection() {
    let (mut host, _) = restarted(10);
    assert_eq!(reconnect(&mut host), 1);
}

/// A client that is ready with all tools, and the list request of a refresh.
fn refreshing() -> (Host, Value) {
    let mut options = reconnecting(legacy());
    options.limits.pages = 1;
    let server = Server::legacy(json!({"tools": {"listChanged": true}}));
    let mut host = Host::connect(options, &mut server.result("tools/list", tools(&["a"])));
    assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
    notify(&mut host, CHANGED);
    host.wait(seconds(2));
    let list = host.take_one();
    (host, list)
}

fn assert_cut_off(host: &Host) {
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Partial, vec!["b"]));
    assert_eq!(host.quirks(), [QuirkKind::ListLimit]);
}

#[test]
fn a_refresh_cut_off_at_a_limit_replaces_the_list() {
    let (mut host, list) = refreshing();
    reply(&mut host, &list, page(&["b"], "2"));
    assert_cut_off(&host);
    assert!(!host.session.family(Family::Tools).stale);
    host.wait(seconds(100));
    assert!(host.take_sent().is_empty());
    notify(&mut host, CHANGED);
    host.wait(seconds(2));
    assert_eq!(host.take_methods(), ["tools/list"], "the next change is refreshed as this one was");
}

#[test]
fn a_refresh_cut_off_at_a_limit_is_repeated_if_the_list_changed_again() {
    let (mut host, list) = refreshing();
    notify(&mut host, CHANGED);
    assert!(host.take_sent().is_empty());
    reply(&mut host, &list, page(&["b"], "2"));
    assert_cut_off(&host);
    assert!(host.session.family(Family::Tools).stale);
    host.wait(seconds(2));
    assert_eq!(host.take_methods(), ["tools/list"]);
}

#[test]
fn a_refresh_that_finds_the_same_list_is_followed_by_another_if_the_list_changed_again() {
    for on_demand in [false, true] {
        let (mut host, mut list) = refreshing();
        if on_demand {
            reply(&mut host, &list, tools(&["a"]));
            host.session.refresh(host.now, Family::Tools).unwrap();
            host.collect();
            list = host.take_one();
        }
        notify(&mut host, CHANGED);
        reply(&mut host, &list, tools(&["a"]));
        assert!(host.session.family(Family::Tools).stale);
        host.wait(seconds(2));
        assert_eq!(host.take_methods(), ["tools/list"]);
    }
}

#[test]
fn a_refresh_of_a_list_that_changed_again_ends_with_its_connection() {
    let (mut host, _) = refreshing();
    notify(&mut host, CHANGED);
    assert_eq!(reconnect(&mut host), 1, "discovery brought the list");
}
