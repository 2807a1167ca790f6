//! Rows of lists that are requested again on demand, and lists whose exchange breaks.

use mcp_proto::binding::http::Broken;
use mcp_proto::{FailureKind, Family, FamilyStatus, ListErrors, Options, Outcome};
use serde_json::json;

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use crate::web::{Reply, Site, Web};

/// The embedder requests a refresh of the tools, and the list is requested.
fn assert_refreshed(host: &mut Host, server: &mut Server) {
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
    host.serve(server);
    assert_eq!((host.keys(Family::Tools), host.status(Family::Tools)), (vec!["b"], FamilyStatus::Listed));
}

#[test]
fn a_partial_list_is_requested_again_on_demand() {
    let mut options = legacy();
    options.limits.pages = 1;
    let mut page = tools(&["a"]);
    page["nextCursor"] = json!("2");
    let mut host = Host::connect(options, &mut Server::legacy(json!({"tools": {}})).result("tools/list", page));
    assert_eq!(host.status(Family::Tools), FamilyStatus::Partial);
    assert_refreshed(&mut host, &mut Server::new().result("tools/list", tools(&["b"])));
}

#[test]
fn a_failed_list_is_requested_again_on_demand() {
    let mut options = legacy();
    options.tolerance.list_errors = ListErrors::Degrade;
    let mut server = Server::legacy(json!({"tools": {}})).error("tools/list", -32603, "not now");
    let mut host = Host::connect(options, &mut server);
    assert_eq!(host.status(Family::Tools), FamilyStatus::Failed);
    assert_refreshed(&mut host, &mut Server::new().result("tools/list", tools(&["b"])));
}

/// The call is refused because of headers that a schema requires, and the server has no list of tools.
#[test]
fn a_call_that_needs_a_list_that_is_absent_ends_with_its_refusal() {
    let mut options = options();
    options.tolerance.tools_absent = true;
    let mut site = Site::modern(json!({"tools": {}})).error("tools/list", -32601, "Method not found");
    let mut web = Web::connect(options, &mut site);
    assert_eq!(web.status(Family::Tools), FamilyStatus::Absent);
    let (request, call) = web.call("a");
    let refusal = call.error(-32020, "Header mismatch");
    web.reply(&call, Reply::json(400, &refusal));
    assert!(matches!(web.result_of(request), Outcome::Error(error) if error.code() == Some(-32020)));
    assert!(web.take().is_empty());
}

/// A legacy list may have a member of this name, which means nothing.
#[test]
fn the_type_of_a_result_counts_in_the_modern_era_only() {
    for kind in ["partial", "input_required", "task"] {
        let mut list = tools(&["a"]);
        list["resultType"] = json!(kind);
        let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", list.clone());
        assert_eq!(Host::connect(legacy(), &mut server).keys(Family::Tools), ["a"]);
        let mut server = Server::modern(json!({"tools": {}})).result("tools/list", list);
        let host = Host::connect(options(), &mut server);
        assert!(host.failure().unwrap().message.contains(&format!("a result of type `{kind}`")));
    }
}

/// The exchange of the list breaks. Returns the requests that followed, each after the previous one broke.
fn break_list(web: &mut Web) -> usize {
    let mut count = 0;
    loop {
        let Some(list) = web.open.values().find(|exchange| exchange.is("tools/list")).cloned() else { return count };
        web.head(&list, 200, &[("content-type", "text/event-stream")]);
        web.fail(&list, Broken::Midway);
        count += 1;
        assert!(count < 10);
    }
}

/// A client over HTTP that requested the list of tools.
fn listing(options: Options) -> Web {
    let mut web = Web::open(options);
    web.serve(&mut Site::modern(json!({"tools": {}})).on("tools/list", |_| Reply::status(200).unfinished()));
    web
}

#[test]
fn a_list_whose_exchange_breaks_each_time_in_discovery_fails_without_reconnects() {
    let mut web = listing(options());
    assert_eq!(break_list(&mut web), 3);
    assert_eq!(web.failure_kind(), Some(FailureKind::ListFailed));
}

#[test]
fn a_list_whose_exchange_breaks_each_time_in_discovery_loses_the_connection_with_reconnects() {
    let mut web = listing(reconnecting(options()));
    assert_eq!(break_list(&mut web), 3);
    assert_eq!(web.failure_kind(), Some(FailureKind::Closed));
    assert!(!web.session.is_closed());
}

/// The list breaks twice, and then the server is not reached: the connection is lost once.
#[test]
fn a_list_whose_exchange_breaks_and_does_not_reach_the_server_loses_one_connection() {
    let break_list = |options| {
        let mut site = crate::web::site().on("tools/list", |_| Reply::status(200).unfinished());
        site.streams = false;
        let mut web = Web::open(options);
        web.serve(&mut site);
        for _ in 0..2 {
            let list = web.last("tools/list");
            web.fail(&list, Broken::Midway);
        }
        let list = web.last("tools/list");
        web.fail(&list, Broken::Unreachable);
        web
    };
    let mut web = break_list(reconnecting(legacy()));
    web.wait(seconds(2));
    assert_eq!(web.count("initialize"), 2);
    // There is no session to end.
    let web = break_list(legacy());
    assert!(web.session.is_closed());
    assert_eq!((web.count("DELETE"), web.failure_kind()), (0, Some(FailureKind::ListFailed)));
}

#[test]
fn a_refresh_whose_exchange_breaks_each_time_keeps_the_list() {
    for options in [options(), reconnecting(options())] {
        let mut site = Site::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
        let mut web = Web::connect(options, &mut site);
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.collect();
        assert_eq!(break_list(&mut web), 3);
        assert_eq!((web.is_ready(), web.keys(Family::Tools)), (true, vec!["a"]));
        assert!(web.session.family(Family::Tools).stale);
    }
}
