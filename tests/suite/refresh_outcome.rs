//! The outcome of a refresh that the embedder requests.

use crate::common::{Deliver, Host, Server, Shared, legacy, reconnecting, seconds, tools};
use mcp_proto::{Event, Family, Options, QuirkKind, RefreshOutcome, Transport};
use serde_json::{Value, json};

/// A server whose tools are in the shared value; `null` is an error.
fn server(list: &Shared<Value>) -> Server {
    let list = Shared::clone(list);
    Server::legacy(json!({"tools": {"listChanged": true}})).on("tools/list", move |_| match &*list.borrow() {
        Value::Null => Err(json!({"code": -32603, "message": "later"})),
        list => Ok(list.clone()),
    })
}

fn ready(options: Options, list: &Shared<Value>) -> (Host, Server) {
    let mut server = server(list);
    let host = Host::connect(options, &mut server);
    assert!(host.is_ready());
    (host, server)
}

fn refresh(host: &mut Host) {
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
}

fn outcomes(host: &Host) -> Vec<RefreshOutcome> {
    let outcomes = host.events.iter().filter_map(|event| match event {
        Event::Refreshed { family: Family::Tools, outcome } => Some(outcome.clone()),
        _ => None,
    });
    outcomes.collect()
}

fn list_changed(host: &mut Host) {
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
}

#[test]
fn a_requested_refresh_reports_whether_the_list_differs() {
    let list = Shared::new(tools(&["a"]));
    let (mut host, mut server) = ready(legacy(), &list);
    refresh(&mut host);
    assert!(outcomes(&host).is_empty());
    host.serve(&mut server);
    assert_eq!(outcomes(&host), [RefreshOutcome::Same]);

    *list.borrow_mut() = tools(&["a", "b"]);
    refresh(&mut host);
    host.serve(&mut server);
    assert_eq!(outcomes(&host), [RefreshOutcome::Same, RefreshOutcome::Differs]);
    let [.., Event::CatalogChanged { .. }, Event::Refreshed { .. }] = &host.events[..] else {
        panic!("the difference comes first")
    };
}

#[test]
fn a_requested_refresh_that_fails_is_reported_once() {
    let list = Shared::new(tools(&["a"]));
    let (mut host, mut server) = ready(legacy(), &list);
    *list.borrow_mut() = Value::Null;
    refresh(&mut host);
    host.serve(&mut server);
    let [RefreshOutcome::Failed(why)] = &outcomes(&host)[..] else { panic!("{:?}", outcomes(&host)) };
    assert!(why.contains("later"), "{why}");
    *list.borrow_mut() = tools(&["b"]);
    host.wait(seconds(5));
    host.serve(&mut server);
    assert_eq!((host.keys(Family::Tools), outcomes(&host).len()), (vec!["b"], 1));
}

#[test]
fn a_requested_refresh_of_a_list_over_the_limit_is_partial() {
    let list = Shared::new(tools(&["a"]));
    let mut options = legacy();
    options.limits.items = 2;
    let (mut host, mut server) = ready(options, &list);
    *list.borrow_mut() = tools(&["a", "b", "c"]);
    refresh(&mut host);
    host.serve(&mut server);
    assert_eq!(outcomes(&host), [RefreshOutcome::Part]);
    assert_eq!(host.keys(Family::Tools), ["a", "b"]);
}

#[test]
fn an_outcome_of_the_same_kind_is_not_repeated_while_it_is_not_polled() {
    let list = Shared::new(tools(&["a"]));
    let (mut host, _) = ready(legacy(), &list);
    host.take_sent();
    refresh(&mut host);
    let request = host.take_one();
    let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "later"}});
    host.session.deliver(host.now, format!("{error}\n").as_bytes());
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.session.handle_transport(host.now, host.session.connection(), Transport::Closed { why: "gone" });
    host.collect();
    let [RefreshOutcome::Failed(why)] = &outcomes(&host)[..] else { panic!("{:?}", outcomes(&host)) };
    assert!(why.contains("later"), "{why}");
}

/// Another family, and another kind of outcome.
#[test]
fn outcomes_that_differ_are_reported_while_they_are_not_polled() {
    let mut server = Server::legacy(json!({"tools": {}, "prompts": {}}))
        .result("tools/list", tools(&["a"]))
        .result("prompts/list", json!({"prompts": []}));
    let mut host = Host::connect(legacy(), &mut server);
    for family in [Family::Tools, Family::Prompts] {
        host.session.refresh(host.now, family).unwrap();
    }
    host.collect();
    for request in host.take_sent() {
        let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "later"}});
        host.session.deliver(host.now, error.to_string().as_bytes());
    }
    host.collect();
    let refreshed = host.events.iter().filter(|event| matches!(event, Event::Refreshed { .. }));
    assert_eq!(refreshed.count(), 2);
}

#[test]
fn a_requested_refresh_ends_with_its_connection() {
    let list = Shared::new(tools(&["a"]));
    for commands in [1, 2] {
        let (mut host, _) = ready(reconnecting(legacy()), &list);
        (0..commands).for_each(|_| refresh(&mut host));
        host.close_transport();
        assert!(matches!(&outcomes(&host)[..], [RefreshOutcome::Failed(_)]), "{commands}");
    }
    let (mut host, _) = ready(legacy(), &list);
    list_changed(&mut host);
    host.wait(seconds(1));
    refresh(&mut host);
    host.session.close(host.now).unwrap();
    host.collect();
    assert!(matches!(&outcomes(&host)[..], [RefreshOutcome::Failed(_)]));
}

#[test]
fn a_list_that_was_requested_before_the_command_is_not_its_outcome() {
    let list = Shared::new(tools(&["a"]));
    for (found, expected) in
        [(tools(&["a"]), RefreshOutcome::Same), (tools(&["b"]), RefreshOutcome::Differs), (Value::Null, failed())]
    {
        *list.borrow_mut() = tools(&["a"]);
        let (mut host, mut server) = ready(legacy(), &list);
        list_changed(&mut host);
        host.wait(seconds(1));
        refresh(&mut host);
        refresh(&mut host);
        host.serve(&mut server);
        assert!(outcomes(&host).is_empty(), "the announced change does not belong to the command");
        *list.borrow_mut() = found;
        host.wait(seconds(2));
        host.serve(&mut server);
        assert_eq!(outcomes(&host), [expected]);
    }
}

fn failed() -> RefreshOutcome {
    RefreshOutcome::Failed("later (-32603)".into())
}

#[test]
fn a_command_during_the_list_of_another_has_its_own_outcome() {
    let (same, other) = (tools(&["a"]), tools(&["a", "b"]));
    for (first, expected) in
        [(same.clone(), RefreshOutcome::Same), (other, RefreshOutcome::Differs), (Value::Null, failed())]
    {
        let list = Shared::new(same.clone());
        let (mut host, mut server) = ready(legacy(), &list);
        refresh(&mut host);
        refresh(&mut host);
        refresh(&mut host);
        *list.borrow_mut() = first.clone();
        host.serve(&mut server);
        assert_eq!(outcomes(&host), std::slice::from_ref(&expected));
        *list.borrow_mut() = tools(&["z"]);
        host.wait(seconds(5));
        host.serve(&mut server);
        assert_eq!(outcomes(&host), [expected, RefreshOutcome::Differs]);
    }
}

#[test]
fn a_partial_list_of_one_command_is_followed_by_that_of_the_next() {
    let list = Shared::new(tools(&["a"]));
    let mut options = legacy();
    options.limits.items = 1;
    let (mut host, mut server) = ready(options, &list);
    *list.borrow_mut() = tools(&["a", "b"]);
    refresh(&mut host);
    refresh(&mut host);
    host.serve(&mut server);
    host.wait(seconds(5));
    host.serve(&mut server);
    assert_eq!(outcomes(&host), [RefreshOutcome::Part, RefreshOutcome::Part]);
}

/// Each page adds invalid items to the quirk, and the end of the list reports them all.
#[test]
fn every_invalid_item_of_every_page_is_reported() {
    let bad = |name: &str| json!({"name": name, "inputSchema": 1});
    let page = move |names: &[&str], next: Option<&str>| {
        let tools: Vec<_> = names.iter().map(|name| bad(name)).collect();
        json!({"tools": tools, "nextCursor": next})
    };
    let fail = Shared::new(false);
    let fails = Shared::clone(&fail);
    let mut server =
        Server::legacy(json!({"tools": {}})).on("tools/list", move |params| match params["cursor"].as_str() {
            None => Ok(page(&["one", "two"], Some("2"))),
            Some("2") => Ok(page(&["three"], Some("3"))),
            Some(_) if fails.get() => Err(json!({"code": -32603, "message": "no"})),
            Some(_) => Ok(page(&["four"], None)),
        });
    let mut host = Host::connect(legacy(), &mut server);
    let told = |host: &Host| -> Vec<Box<str>> {
        let quirks = host.events.iter().filter_map(|event| match event {
            Event::Quirk(quirk) if quirk.kind == QuirkKind::InvalidItem => Some(quirk.detail.clone()),
            _ => None,
        });
        quirks.collect()
    };
    let last = told(&host).pop().unwrap();
    assert!(["one", "two", "three", "four"].iter().all(|name| last.contains(name)), "{last}");
    assert_eq!(told(&host).len(), 2);
    assert_eq!(host.session.quirks().iter().filter(|quirk| quirk.kind == QuirkKind::InvalidItem).count(), 1);

    // The same items are not reported again; a list that fails reports the items of its pages.
    refresh(&mut host);
    host.serve(&mut server);
    assert_eq!(told(&host).len(), 2);
    fail.set(true);
    refresh(&mut host);
    host.serve(&mut server);
    assert_eq!(told(&host).len(), 3);
    assert!(!told(&host)[2].contains("four"));
}
