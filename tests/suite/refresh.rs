//! How lists are refreshed: after `list_changed`, by age, on demand.

use std::time::Duration;

use crate::common::{Host, Server, Shared, legacy, options, tools};
use mcp_proto::{CommandError, Event, Family, FamilyStatus, ListErrors, QuirkKind, Time};
use serde_json::{Value, json};

/// A server whose tools change at run time.
struct Changing {
    server: Server,
    tools: Shared<Vec<&'static str>>,
}

impl Changing {
    fn new(names: &[&'static str]) -> Self {
        let list = Shared::new(names.to_vec());
        let shared = Shared::clone(&list);
        let server = Server::legacy(json!({"tools": {"listChanged": true}}))
            .on("tools/list", move |_| Ok(tools(&shared.borrow())));
        Self { server, tools: list }
    }

    fn connect(&mut self) -> Host {
        Host::connect(legacy(), &mut self.server)
    }

    /// Advances the time in small steps while the server answers.
    fn run(&mut self, host: &mut Host, time: Duration) {
        const STEP: Duration = Duration::from_millis(50);
        let mut left = time;
        while !left.is_zero() {
            host.wait(STEP.min(left));
            host.serve(&mut self.server);
            left = left.saturating_sub(STEP);
        }
    }

    fn walks(&self) -> usize {
        self.server.received("tools/list")
    }
}

fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

fn differences(host: &Host) -> Vec<String> {
    let told = host.events.iter().filter_map(|event| match event {
        Event::CatalogChanged { family, difference } => Some((family, difference)),
        _ => None,
    });
    told.map(|(family, difference)| {
        format!("{family:?} +{:?} -{:?} ~{:?}", difference.added, difference.removed, difference.changed)
    })
    .collect()
}

#[test]
fn a_change_is_told_as_a_difference() {
    let mut server = Changing::new(&["a", "b"]);
    let mut host = server.connect();
    *server.tools.borrow_mut() = vec!["b", "c"];
    host.receive(changed());
    assert!(host.session.family(Family::Tools).stale);
    server.run(&mut host, Duration::from_secs(2));
    assert_eq!(differences(&host), [r#"Tools +["c"] -["a"] ~[]"#]);
    assert_eq!(host.keys(Family::Tools), ["b", "c"]);
    assert!(!host.session.family(Family::Tools).stale);
}

/// hermes-agent #115502
#[test]
fn many_list_changed_cause_one_refresh_in_flight_and_one_after() {
    let mut server = Changing::new(&["a"]);
    let mut host = server.connect();
    server.run(&mut host, Duration::from_secs(5));
    for _ in 0..1000 {
        host.receive(changed());
    }
    host.wait(Duration::from_millis(299));
    assert!(host.take_sent().is_empty(), "notifications are collected first");
    host.wait(Duration::from_millis(1));
    assert_eq!(host.sent.len(), 1);
    for _ in 0..1000 {
        host.receive(changed());
    }
    assert_eq!(host.sent.len(), 1, "no second refresh while one is in flight");
    server.run(&mut host, Duration::from_secs(10));
    assert_eq!(server.walks(), 3, "the first, the requested, and one after it");
}

#[test]
fn refreshes_are_a_second_apart() {
    let mut server = Changing::new(&["a"]);
    let mut host = server.connect();
    let names = ["b", "c", "d", "e", "f", "g", "h"];
    for step in 0..100 {
        *server.tools.borrow_mut() = vec![names[step % names.len()]];
        host.receive(changed());
        server.run(&mut host, Duration::from_millis(100));
    }
    assert!((9..=11).contains(&(server.walks() - 1)), "{} walks in 10 s", server.walks() - 1);
}

/// aspire #14375
#[test]
fn list_changed_loop_is_refreshed_less_often_until_a_list_differs() {
    let mut server = Changing::new(&["a"]);
    let mut host = server.connect();
    let spin = |host: &mut Host, server: &mut Changing, seconds: u32| {
        let before = server.walks();
        for _ in 0..seconds * 20 {
            host.wait(Duration::from_millis(50));
            if !host.sent.is_empty() {
                host.serve(&mut server.server);
                host.receive(changed());
            }
        }
        server.walks() - before
    };
    host.receive(changed());
    let first = spin(&mut host, &mut server, 164);
    assert!(first <= 12, "{first} walks in 164 s");
    assert_eq!(host.quirk_methods(QuirkKind::ListChangedLoop), ["tools/list"]);
    let later = spin(&mut host, &mut server, 600);
    assert!((9..=11).contains(&later), "one a minute at last, not {later} in 600 s");
    *server.tools.borrow_mut() = vec!["b"];
    let after = spin(&mut host, &mut server, 60);
    assert!(after >= 5, "fast again after a difference, not {after} in 60 s");
}

#[test]
fn a_failed_refresh_keeps_the_list_and_is_repeated_with_backoff() {
    let fails = Shared::new(false);
    let failing = Shared::clone(&fails);
    let mut server = Server::legacy(json!({"tools": {"listChanged": true}})).on("tools/list", move |_| {
        if *failing.borrow() { Err(json!({"code": -32603, "message": "not now"})) } else { Ok(tools(&["a", "b"])) }
    });
    let mut host = Host::connect(legacy(), &mut server);
    let last_listed = |host: &Host| host.session.family(Family::Tools).last_listed;
    assert_eq!(last_listed(&host), Some(Time::ZERO));
    *fails.borrow_mut() = true;
    host.receive(changed());
    for _ in 0..1200 {
        host.wait(Duration::from_millis(100));
        host.serve(&mut server);
    }
    let tries = server.received("tools/list") - 1;
    assert!((6..=9).contains(&tries), "{tries} tries in two minutes");
    assert!(host.is_ready());
    assert_eq!(host.keys(Family::Tools), ["a", "b"]);
    assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
    assert!(host.session.family(Family::Tools).stale);
    assert_eq!(last_listed(&host), Some(Time::ZERO), "the time of the last sync");
    *fails.borrow_mut() = false;
    for _ in 0..70 {
        host.wait(Duration::from_secs(1));
        host.serve(&mut server);
    }
    assert!(!host.session.family(Family::Tools).stale);
    assert!(last_listed(&host) > Some(Time::ZERO + Duration::from_secs(120)));
    assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
}

/// hermes-agent #44550
#[test]
fn a_server_without_tools_triggers_no_refresh() {
    let mut server = Server::legacy(json!({"prompts": {}})).result("prompts/list", json!({"prompts": []}));
    let mut host = Host::connect(legacy(), &mut server);
    host.receive(changed());
    host.wait(Duration::from_secs(30));
    assert!(host.take_sent().is_empty());
    assert_eq!(host.quirks(), [QuirkKind::UndeclaredListChanged]);
}

#[test]
fn a_requested_refresh_starts_at_once() {
    let mut server = Changing::new(&["a"]);
    let mut host = server.connect();
    *server.tools.borrow_mut() = vec!["b"];
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
    host.serve(&mut server.server);
    assert_eq!(host.keys(Family::Tools), ["b"]);
    let refused = host.session.refresh(host.now, Family::Prompts);
    assert!(
        matches!(refused, Err(CommandError::NotAdvertised { ref capability, .. }) if capability == "prompts"),
        "{refused:?}"
    );
}

#[test]
fn a_refresh_before_the_session_is_ready_is_refused() {
    let mut host = Host::open(legacy());
    assert_eq!(host.session.refresh(host.now, Family::Tools), Err(CommandError::NotReady));
}

#[test]
fn the_time_to_live_is_told_and_never_polled() {
    let pages = [
        (Some(json!(60_000)), Some(60)),
        (Some(json!(5000)), Some(5)),
        (Some(json!(2000.0)), Some(2)),
        (Some(json!(0)), Some(0)),
        (Some(json!(-7)), Some(0)),
        (Some(json!("2000")), None),
        (None, None),
    ];
    for (ttl, expected) in pages {
        let mut list = tools(&["a"]);
        list["resultType"] = json!("complete");
        if let Some(ttl) = ttl {
            list["ttlMs"] = ttl;
        }
        let mut server = Server::modern(json!({"tools": {}})).result("tools/list", list);
        let mut host = Host::connect(options(), &mut server);
        let fresh_until = host.session.family(Family::Tools).fresh_until;
        assert_eq!(fresh_until.map(|until| until.as_millis() / 1000), expected);
        host.wait(Duration::from_secs(3600));
        assert!(host.take_sent().is_empty());
    }
}

#[test]
fn a_list_is_as_fresh_as_its_oldest_page() {
    let mut server = Server::modern(json!({"tools": {}})).on("tools/list", |params| {
        let (name, next, ttl) =
            if params["cursor"].is_null() { ("a", json!("2"), 9000) } else { ("b", Value::Null, 4000) };
        Ok(json!({"tools": [{"name": name, "inputSchema": {}}], "nextCursor": next, "ttlMs": ttl}))
    });
    let host = Host::connect(options(), &mut server);
    assert_eq!(host.session.family(Family::Tools).fresh_until, Some(mcp_proto::Time::from_millis(4000)));
}

#[test]
fn a_page_that_came_earlier_expires_earlier() {
    let page = |name: &str, next: Value, ttl: u64| {
        json!({
            "resultType": "complete", "tools": [{"name": name, "inputSchema": {}}], "nextCursor": next, "ttlMs": ttl,
        })
    };
    let mut server = Server::modern(json!({"tools": {}}));
    let mut host = Host::open(options());
    let discover = host.take_one();
    server.answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    let (start, first) = (host.now, host.take_one());
    host.receive(json!({"jsonrpc": "2.0", "id": first["id"], "result": page("a", json!("2"), 9000)}));
    host.wait(Duration::from_secs(6));
    let second = host.take_one();
    host.receive(json!({"jsonrpc": "2.0", "id": second["id"], "result": page("b", Value::Null, 4000)}));
    let fresh_until = host.session.family(Family::Tools).fresh_until;
    assert_eq!(fresh_until, Some(start + Duration::from_secs(9)), "and not ten seconds after the start");
}

/// The status is that of the last list, and not that of the first one on the connection.
#[test]
fn a_list_that_failed_at_first_is_listed_after_a_refresh_also_when_it_changes_again() {
    let fails = Shared::new(true);
    let failing = Shared::clone(&fails);
    let mut server = Server::legacy(json!({"tools": {"listChanged": true}})).on("tools/list", move |_| {
        if *failing.borrow() { Err(json!({"code": -32603, "message": "not now"})) } else { Ok(tools(&["a"])) }
    });
    let mut options = legacy();
    options.tolerance.list_errors = ListErrors::Degrade;
    let mut host = Host::connect(options, &mut server);
    assert_eq!(host.status(Family::Tools), FamilyStatus::Failed);
    *fails.borrow_mut() = false;
    for _ in 0..2 {
        host.receive(changed());
        host.wait(Duration::from_secs(1));
        host.serve(&mut server);
        assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
    }
    host.receive(changed());
    assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
    assert_eq!(host.keys(Family::Tools), ["a"]);
}
