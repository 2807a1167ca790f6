//! Rows of discovery: lists that change, end early or fail, and the effects of a failed list.

use mcp_proto::{Event, FailureKind, Family, FamilyStatus, ListErrors, Options, QuirkKind, Tolerance, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use crate::rows::{notify, refuse, reply};

const LIST: &str = "tools/list";
const PROMPTS: &str = "prompts/list";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

fn degrading(mut options: Options) -> Options {
    options.tolerance.list_errors = ListErrors::Degrade;
    options
}

fn page(names: &[&str], cursor: &str) -> Value {
    let mut page = tools(names);
    page["nextCursor"] = json!(cursor);
    page
}

/// A legacy client after the handshake, and the list request of the only declared family.
fn listing(options: Options, capability: &str) -> (Host, Value) {
    let mut host = Host::open(options);
    let initialize = host.take_one();
    let mut server = Server::legacy(json!({capability: {"listChanged": true}}));
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    let list = host.take_sent().pop().unwrap();
    assert_eq!(list["method"], format!("{capability}/list"));
    (host, list)
}

/// The list arrived, and changed meanwhile: the request for the second list.
fn following(options: Options) -> (Host, Value) {
    let (mut host, list) = listing(options, "tools");
    notify(&mut host, TOOLS_CHANGED);
    reply(&mut host, &list, tools(&["first"]));
    assert!(!host.is_ready(), "the received list is outdated");
    let second = host.take_one();
    (host, second)
}

/// As `following`, and the list changed once more.
fn following_stale(options: Options) -> (Host, Value) {
    let (mut host, list) = following(options);
    notify(&mut host, TOOLS_CHANGED);
    assert!(host.take_sent().is_empty());
    (host, list)
}

/// The list is requested again by the refresh.
fn assert_refreshes(host: &mut Host, method: &str) {
    assert!(host.take_sent().is_empty());
    host.wait(seconds(2));
    assert_eq!(host.take_methods(), [method]);
}

fn assert_sends_nothing(host: &mut Host) {
    host.wait(seconds(100));
    assert!(host.take_sent().is_empty());
}

#[test]
fn method_not_found_is_final_even_if_the_list_changed_meanwhile() {
    let (mut host, list) = listing(legacy(), "prompts");
    notify(&mut host, PROMPTS_CHANGED);
    refuse(&mut host, &list, -32601, "Method not found");
    assert!(host.is_ready());
    assert_eq!(host.status(Family::Prompts), FamilyStatus::Absent);
    assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), [PROMPTS]);
    assert_sends_nothing(&mut host);
}

#[test]
fn a_list_that_fails_after_it_changed_is_requested_again_by_the_refresh() {
    let (mut host, list) = listing(degrading(legacy()), "tools");
    notify(&mut host, TOOLS_CHANGED);
    refuse(&mut host, &list, -32603, "out of order");
    assert!(host.is_ready());
    assert_eq!(host.status(Family::Tools), FamilyStatus::Failed);
    assert_refreshes(&mut host, LIST);
}

#[test]
fn a_second_list_cut_off_at_a_limit_replaces_the_first_one() {
    let mut options = legacy();
    options.limits.pages = 2;
    let (mut host, list) = following(options);
    reply(&mut host, &list, page(&["a"], "2"));
    let next = host.take_one();
    reply(&mut host, &next, page(&["b"], "3"));
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Partial, vec!["a", "b"]));
    assert_eq!(host.quirks(), [QuirkKind::ListLimit]);
    assert_sends_nothing(&mut host);
}

#[test]
fn a_second_list_that_fails_midway_keeps_the_first_one() {
    let (mut host, list) = following(degrading(legacy()));
    reply(&mut host, &list, page(&["a"], "2"));
    let next = host.take_one();
    refuse(&mut host, &next, -32603, "out of order");
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["first"]));
    assert!(host.session.family(Family::Tools).stale);
    assert_refreshes(&mut host, LIST);
}

#[test]
fn a_second_list_cut_off_at_a_limit_that_changed_again_is_refreshed() {
    let mut options = legacy();
    options.limits.pages = 1;
    let (mut host, list) = following_stale(options);
    reply(&mut host, &list, page(&["a"], "2"));
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Partial, vec!["a"]));
    assert_refreshes(&mut host, LIST);
}

#[test]
fn method_not_found_for_a_second_list_that_changed_again_drops_the_first_one() {
    let mut options = legacy();
    options.tolerance.tools_absent = true;
    let (mut host, list) = following_stale(options);
    assert_eq!(host.keys(Family::Tools), ["first"]);
    refuse(&mut host, &list, -32601, "Method not found");
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Absent, 0));
    assert_sends_nothing(&mut host);
}

#[test]
fn a_second_list_that_fails_and_changed_again_is_refreshed() {
    for options in [legacy(), degrading(legacy())] {
        let (mut host, list) = following_stale(options);
        refuse(&mut host, &list, -32603, "out of order");
        assert!(host.is_ready());
        assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["first"]));
        assert_refreshes(&mut host, LIST);
    }
}

#[test]
fn a_second_list_that_fails_midway_and_changed_again_is_refreshed() {
    let (mut host, list) = following_stale(degrading(legacy()));
    reply(&mut host, &list, page(&["a"], "2"));
    let next = host.take_one();
    refuse(&mut host, &next, -32603, "out of order");
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["first"]));
    assert_refreshes(&mut host, LIST);
}

#[test]
fn a_first_list_that_changed_and_fails_loses_the_connection() {
    let (mut host, list) = listing(legacy(), "tools");
    notify(&mut host, TOOLS_CHANGED);
    refuse(&mut host, &list, -32603, "out of order");
    assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed));
    assert!(!host.is_ready() && host.take_sent().is_empty());
}

#[test]
fn a_second_list_that_fails_is_refreshed() {
    for options in [legacy(), degrading(legacy())] {
        let (mut host, list) = following(options);
        refuse(&mut host, &list, -32603, "out of order");
        assert!(host.is_ready());
        assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["first"]));
        assert_refreshes(&mut host, LIST);
    }
}

#[test]
fn a_first_list_cut_off_at_a_limit_that_changed_meanwhile_is_followed_by_a_second_one() {
    let mut options = legacy();
    options.limits.pages = 1;
    let (mut host, list) = listing(options, "tools");
    notify(&mut host, TOOLS_CHANGED);
    reply(&mut host, &list, page(&["a"], "2"));
    assert!(!host.is_ready());
    let second = host.take_one();
    reply(&mut host, &second, tools(&["b"]));
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["b"]));
}

#[test]
fn method_not_found_for_a_second_list_drops_the_first_one() {
    let mut options = legacy();
    options.tolerance.tools_absent = true;
    let (mut host, list) = following(options);
    refuse(&mut host, &list, -32601, "Method not found");
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Absent, 0));
    assert_sends_nothing(&mut host);
}

/// A client that was ready with the tool `former` and lost its connection; on the next one the handshake is done.
fn listing_later(options: Options) -> (Host, Value) {
    let mut server = Server::legacy(json!({"tools": {"listChanged": true}})).result(LIST, tools(&["former"]));
    let mut host = Host::connect(reconnecting(options), &mut server);
    lose(&mut host);
    let initialize = host.take_one();
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    let list = host.take_sent().pop().unwrap();
    (host, list)
}

fn lose(host: &mut Host) {
    host.close_transport();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
}

/// How often the list changes before its first response, and after it. `None`: there is no response.
const CHANGES: [(usize, Option<usize>); 3] = [(1, None), (1, Some(0)), (1, Some(1))];

/// The list changed this often, and its request is in flight.
fn changed(options: Options, (before, after): (usize, Option<usize>)) -> (Host, Value) {
    let (mut host, mut list) = listing_later(options);
    (0..before).for_each(|_| notify(&mut host, TOOLS_CHANGED));
    if let Some(after) = after {
        reply(&mut host, &list, tools(&["former"]));
        list = host.take_one();
        (0..after).for_each(|_| notify(&mut host, TOOLS_CHANGED));
    }
    assert!(!host.is_ready());
    (host, list)
}

#[test]
fn a_list_that_changes_and_fails_on_a_later_connection_is_kept_and_refreshed() {
    for (options, changes) in
        [legacy(), degrading(legacy())].into_iter().flat_map(|it| CHANGES.map(|changes| (it.clone(), changes)))
    {
        let (mut host, list) = changed(options, changes);
        refuse(&mut host, &list, -32603, "out of order");
        assert!(host.is_ready());
        assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["former"]));
        assert!(host.session.family(Family::Tools).stale);
        assert_refreshes(&mut host, LIST);
    }
}

#[test]
fn a_list_that_changes_ends_with_its_connection() {
    for changes in CHANGES {
        let (mut host, _) = changed(legacy(), changes);
        lose(&mut host);
        let mut server = Server::legacy(json!({"tools": {}})).result(LIST, tools(&["a"]));
        host.serve(&mut server);
        assert!(host.is_ready());
        assert_eq!((host.keys(Family::Tools), server.received(LIST)), (vec!["a"], 1));
        assert_sends_nothing(&mut host);
    }
}

/// A client that is ready with a part of the tools.
fn partial(mut options: Options) -> Host {
    options.limits.pages = 1;
    let (mut host, list) = listing(options, "tools");
    reply(&mut host, &list, page(&["a"], "2"));
    assert!(host.is_ready());
    assert_eq!(host.status(Family::Tools), FamilyStatus::Partial);
    host
}

#[test]
fn a_partial_list_is_refreshed_after_list_changed() {
    let mut host = partial(legacy());
    notify(&mut host, TOOLS_CHANGED);
    assert_refreshes(&mut host, LIST);
}

#[test]
fn a_partial_list_is_requested_on_the_next_connection() {
    let mut host = partial(reconnecting(legacy()));
    host.close_transport();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
    host.serve(&mut Server::legacy(json!({"tools": {}})).result(LIST, tools(&["a", "b"])));
    assert!(host.is_ready());
    assert_eq!((host.status(Family::Tools), host.keys(Family::Tools)), (FamilyStatus::Listed, vec!["a", "b"]));
}

/// A client whose server answers `tools/list` with an error that only its text explains. Without `declared`, the server
/// declares no capabilities.
fn not_found_by_text(tolerance: Tolerance, declared: bool) -> Host {
    let mut server = if declared {
        Server::legacy(json!({"tools": {}}))
    } else {
        let nothing = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}});
        Server::new().result("initialize", nothing).result(PROMPTS, json!({"prompts": []}))
    };
    let mut options = legacy();
    options.tolerance = tolerance;
    server = server.error(LIST, -32603, "tools/list: method not found");
    let mut host = Host::open(options);
    host.serve(&mut server);
    host
}

fn tolerance(tools_absent: bool, absent_by_text: bool) -> Tolerance {
    let mut tolerance = Tolerance::default();
    tolerance.list_errors = ListErrors::Degrade;
    (tolerance.tools_absent, tolerance.absent_by_text) = (tools_absent, absent_by_text);
    tolerance
}

#[test]
fn an_error_text_is_ignored_without_the_tolerance_for_it() {
    for (declared, tools_absent) in [(true, true), (false, true), (false, false)] {
        let host = not_found_by_text(tolerance(tools_absent, false), declared);
        assert!(host.is_ready());
        assert_eq!(host.status(Family::Tools), FamilyStatus::Failed, "declared: {declared}");
        assert!(!host.quirks().contains(&QuirkKind::MethodNotFoundText));
    }
}

#[test]
fn without_capabilities_an_error_text_makes_the_tools_absent_if_tolerated() {
    for (tools_absent, status) in [(true, FamilyStatus::Absent), (false, FamilyStatus::Failed)] {
        let host = not_found_by_text(tolerance(tools_absent, true), false);
        assert!(host.is_ready());
        assert_eq!(host.status(Family::Tools), status);
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape], "nothing was declared");
    }
    for tools_absent in [true, false] {
        let mut options = legacy();
        options.tolerance = tolerance(tools_absent, true);
        options.tolerance.list_undeclared = true;
        let mut server = Server::legacy(json!({})).error(LIST, -32603, "tools/list: method not found");
        let host = Host::connect(options, &mut server);
        assert_eq!((host.status(Family::Tools), host.quirks()), (FamilyStatus::Absent, vec![]), "nothing was declared");
    }
}

/// A client that was ready without prompts and lost its connection. The next server declares them.
fn prompts_later() -> (Host, Value) {
    let mut host = Host::connect(reconnecting(legacy()), &mut Server::legacy(json!({})));
    assert!(host.is_ready());
    host.close_transport();
    host.wait(seconds(1));
    host.events.clear();
    host.transport(Transport::Opened);
    let initialize = host.take_one();
    let mut server = Server::legacy(json!({"prompts": {}}));
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    let list = host.take_sent().pop().unwrap();
    assert_eq!(list["method"], PROMPTS);
    (host, list)
}

#[test]
fn a_list_that_fails_on_a_later_connection_fails_alone() {
    assert_eq!(options().tolerance.list_errors, ListErrors::Fail);
    let (mut host, list) = prompts_later();
    refuse(&mut host, &list, -32603, "out of order");
    assert!(host.is_ready() && host.failure().is_none());
    assert_eq!(host.status(Family::Prompts), FamilyStatus::Failed);
}

#[test]
fn a_list_that_fails_midway_on_a_later_connection_keeps_its_pages() {
    let (mut host, list) = prompts_later();
    reply(&mut host, &list, json!({"prompts": [{"name": "p"}], "nextCursor": "2"}));
    let next = host.take_one();
    refuse(&mut host, &next, -32603, "out of order");
    assert!(host.is_ready() && host.failure().is_none());
    assert_eq!((host.status(Family::Prompts), host.keys(Family::Prompts)), (FamilyStatus::Partial, vec!["p"]));
    let changed = |event: &&Event| matches!(event, Event::CatalogChanged { family: Family::Prompts, .. });
    assert_eq!(host.events.iter().filter(changed).count(), 1);
}
