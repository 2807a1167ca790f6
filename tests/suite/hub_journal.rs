//! The journal of a hub, without the secrets of its configuration, replays to the same bytes in another process.

use std::time::Duration;

use mcp_proto::catalog::FingerprintKey;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{HubAccepted, HubCommand, HubCommandError, HubEvent, HubOptions};
use mcp_proto::journal::{self, End, JournalError, JournalLimits, Replay, replay};
use mcp_proto::testkit::strategy::{self, Operation};
use mcp_proto::testkit::{Collector, FakeServer, FakeTool, Fault, Link, NodeId, On, Reply, Sim, Spelling};
use mcp_proto::{Command, Options, Outcome, ProtocolVersion, RawValue, Request, Time};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{millis, seconds};

type World = Sim<Collector<journal::Recorder<mcp_proto::host::hub::Hub>>>;

const LIMITS: fn() -> JournalLimits = JournalLimits::default;

/// Two servers with secrets, and one whose entry has an error.
fn configuration(token: &str) -> Configuration {
    serde_json::from_value(json!({
        "files": {"command": "files-mcp", "env": {"TOKEN": token, "LOG": "1"}},
        "web": {
            "url": format!("https://ada:{token}@example.com/mcp?key={token}"),
            "headers": {"Authorization": format!("Bearer {token}")},
        },
        "faulty": {"command": "x", "url": "https://example.com"},
    }))
    .unwrap()
}

fn world() -> (World, NodeId) {
    let options = HubOptions::new(Options::new("host", "1"));
    let files = FakeServer::legacy().tool(FakeTool::new("read").progress(2).takes(seconds(1))).resource("r:1");
    let web = FakeServer::modern().tool(FakeTool::new("search"));
    let link = Link::new(millis(20)).jitter(millis(50)).piece(40);
    let mut sim = Sim::new(3).with_server("files", files, link).with_server("web", web, link);
    let node = sim.add_hub(Collector::new(journal::Recorder::of_hub(options, 5, LIMITS())));
    (sim, node)
}

fn apply(sim: &mut World, node: NodeId, command: HubCommand) -> Result<HubAccepted, HubCommandError> {
    sim.tell(node, |now, hub| hub.apply(now, command)).unwrap()
}

fn call(name: &str) -> HubCommand {
    let arguments = Some(RawValue::from_string("{ }".into()).unwrap());
    HubCommand::Call { name: name.into(), arguments, timeout: Some(seconds(30)), progress: true, trace: None }
}

/// A session with calls, a fault, other entries and saved lists. Returns its journal and the outcomes of its calls.
fn session() -> (String, Vec<Outcome>) {
    let (mut sim, node) = world();
    let accepted = apply(&mut sim, node, HubCommand::Configure(configuration("hush-1"))).unwrap();
    assert!(matches!(&accepted, HubAccepted::Configured(changes) if changes.added.len() == 2), "{accepted:?}");
    apply(&mut sim, node, HubCommand::Open).unwrap();
    sim.run_for(seconds(5)).unwrap();
    let names: Vec<String> =
        sim.get(node).unwrap().functions().map(|(_, function)| function.name.to_string()).collect();
    assert!(names.contains(&"mcp_files_read".into()) && names.contains(&"mcp_web_search".into()), "{names:?}");
    for name in ["mcp_files_read", "mcp_web_search", "mcp_files_list_resources"] {
        let accepted = apply(&mut sim, node, call(name));
        assert!(matches!(accepted, Ok(HubAccepted::Call(_))), "{accepted:?}");
    }
    assert!(matches!(apply(&mut sim, node, call("none")), Err(HubCommandError::Call(_))));
    sim.run_for(seconds(5)).unwrap();
    sim.change("web", |server| server.add_script(On::tool("search"), [Reply::Dies]));
    apply(&mut sim, node, call("mcp_web_search")).unwrap();
    sim.run_for(seconds(5)).unwrap();
    sim.fault("files", Fault::Crash);
    sim.run_for(seconds(90)).unwrap();

    let session = sim.get(node).unwrap().handle("files").unwrap();
    let read = Command::Request(Request::read_resource("r:1"));
    apply(&mut sim, node, HubCommand::Session { session, command: read }).unwrap();
    sim.run_for(seconds(5)).unwrap();
    let refused = apply(&mut sim, node, HubCommand::Session { session, command: Command::Open });
    assert_eq!(refused, Err(HubCommandError::NotOfSession));

    // The same configuration changes nothing; another secret opens new sessions.
    let HubAccepted::Configured(same) = apply(&mut sim, node, HubCommand::Configure(configuration("hush-1"))).unwrap()
    else {
        panic!("the difference")
    };
    assert_eq!((same.changed.len(), same.unchanged.len()), (0, 2));
    let saved = sim.get(node).unwrap().save(Time::ZERO, "files", FingerprintKey::new([7; 16]), 9).unwrap();
    let HubAccepted::Configured(other) = apply(&mut sim, node, HubCommand::Configure(configuration("hush-2"))).unwrap()
    else {
        panic!("the difference")
    };
    assert_eq!(other.changed.len(), 2);
    let restore = HubCommand::Restore { server: "files".into(), saved: Box::new(saved) };
    let stale = apply(&mut sim, node, restore);
    assert!(stale.is_err(), "{stale:?}");
    sim.run_for(seconds(20)).unwrap();
    apply(&mut sim, node, call("mcp_files_read")).unwrap();
    sim.run_for(seconds(20)).unwrap();
    apply(&mut sim, node, HubCommand::Close).unwrap();
    sim.run_for(Duration::from_secs(60)).unwrap();
    assert!(sim.get(node).unwrap().is_closed());
    let events = &sim.get(node).unwrap().events;
    let outcomes = events.iter().filter_map(|(_, event)| match event {
        HubEvent::Finished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let outcomes = outcomes.collect();
    (text(&mut sim, node), outcomes)
}

fn text(sim: &mut World, node: NodeId) -> String {
    sim.tell(node, |_, hub| {
        hub.end();
        hub.take()
    })
    .unwrap()
}

#[test]
fn a_session_of_a_hub_replays_to_the_same_bytes() {
    let (journal, outcomes) = session();
    assert_eq!(outcomes.len(), 5);
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Result(_))).count(), 4);
    let replayed = replay(journal.as_bytes(), LIMITS()).unwrap();
    assert_eq!((replayed.lines, replayed.end), (journal.lines().count(), Some(End::Finished)));
    assert!(replayed.inputs > 100 && replayed.actions > 50, "{replayed:?}");
    assert_eq!(journal, session().0, "the same session, another journal");
}

#[test]
fn a_replay_gives_the_hub_of_the_session() {
    let (journal, _) = session();
    let Ok(Replay::Hub(mut player)) = Replay::new(journal.as_bytes(), LIMITS()) else { panic!("a hub") };
    let mut most = 0;
    while let Some(played) = player.next() {
        played.unwrap();
        most = most.max(player.get().functions().count());
    }
    assert!(most >= 2 && player.get().is_closed());
}

#[test]
fn secrets_of_the_configuration_are_masked_equal_secrets_by_equal_masks() {
    let (journal, _) = session();
    assert!(!journal.contains("hush"), "a secret is in the journal");
    let configurations: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["in"]["type"] == "configure")
        .map(|line| line["in"]["value"].clone())
        .collect();
    assert_eq!(configurations.len(), 3);
    assert_eq!(configurations[0], configurations[1]);
    let token = |at: usize| configurations[at]["files"]["env"]["TOKEN"].as_str().unwrap();
    assert!(token(0).starts_with("redacted-") && token(0) != token(2));
    assert_eq!(configurations[0]["files"]["env"]["LOG"], configurations[2]["files"]["env"]["LOG"]);
    assert_eq!(configurations[0]["faulty"], Value::Null);
    assert!(configurations[0]["web"]["url"].as_str().unwrap().contains("example.com/mcp?redacted-"));
}

#[test]
fn a_configuration_that_is_refused_forgets_no_secret_of_the_one_that_stays() {
    let mut options = HubOptions::new(Options::new("host", "1"));
    options.session.limits.output = 1;
    let mut hub = journal::Recorder::of_hub(options, 5, LIMITS());
    let drain = |hub: &mut journal::Recorder<mcp_proto::host::hub::Hub>| while hub.poll().is_some() {};
    hub.apply(Time::ZERO, HubCommand::Configure(configuration("hush-1"))).unwrap();
    hub.apply(Time::ZERO, HubCommand::Open).unwrap();
    let refused = hub.apply(Time::ZERO, HubCommand::Configure(configuration("hush-2")));
    assert!(matches!(refused, Err(HubCommandError::Unpolled { .. })), "{refused:?}");
    drain(&mut hub);
    let same = hub.apply(Time::ZERO, HubCommand::Configure(configuration("hush-1"))).unwrap();
    assert!(matches!(&same, HubAccepted::Configured(changes) if changes.unchanged.len() == 2), "{same:?}");
    drain(&mut hub);
    hub.end();
    let journal = hub.take();
    assert!(!journal.contains("hush"));
    let replayed = replay(journal.as_bytes(), LIMITS()).unwrap();
    assert_eq!(replayed.lines, journal.lines().count());
}

#[test]
fn saved_lists_apply_to_the_masked_entry() {
    let (mut sim, node) = world();
    apply(&mut sim, node, HubCommand::Configure(configuration("hush-1"))).unwrap();
    apply(&mut sim, node, HubCommand::Open).unwrap();
    sim.run_for(seconds(5)).unwrap();
    let saved = sim.get(node).unwrap().save(Time::ZERO, "files", FingerprintKey::new([7; 16]), 9).unwrap();
    let key = serde_json::to_string(&saved.key).unwrap();

    let (mut sim, node) = world();
    apply(&mut sim, node, HubCommand::Configure(configuration("hush-1"))).unwrap();
    let restore = |server: &str| HubCommand::Restore { server: server.into(), saved: Box::new(saved.clone()) };
    assert_eq!(apply(&mut sim, node, restore("files")), Ok(HubAccepted::Done));
    assert!(matches!(apply(&mut sim, node, restore("web")), Err(HubCommandError::Stale { .. })));
    apply(&mut sim, node, HubCommand::Open).unwrap();
    sim.run_for(seconds(5)).unwrap();
    let journal = text(&mut sim, node);
    assert!(!journal.contains("hush") && !journal.contains(&key));
    replay(journal.as_bytes(), LIMITS()).unwrap();
}

#[test]
fn private_lists_of_a_user_are_restored_in_a_replay() {
    let recorded = |user: &str| {
        let mut options = HubOptions::new(Options::new("host", "1"));
        options.user = Some(user.into());
        let files = FakeServer::legacy().tool(FakeTool::new("read"));
        let mut sim = Sim::new(3).with_server("files", files, Link::new(millis(20)));
        let node = sim.add_hub(Collector::new(journal::Recorder::of_hub(options, 5, LIMITS())));
        apply(&mut sim, node, HubCommand::Configure(configuration("hush-1"))).unwrap();
        (sim, node)
    };
    let (mut sim, node) = recorded("ada");
    apply(&mut sim, node, HubCommand::Open).unwrap();
    sim.run_for(seconds(5)).unwrap();
    let saved = sim.get(node).unwrap().save(Time::ZERO, "files", FingerprintKey::new([7; 16]), 9).unwrap();
    assert!(saved.user.is_some());
    for (user, is_theirs) in [("ada", true), ("bob", false)] {
        let (mut sim, node) = recorded(user);
        let restore = HubCommand::Restore { server: "files".into(), saved: Box::new(saved.clone()) };
        assert_eq!(apply(&mut sim, node, restore).is_ok(), is_theirs);
        let journal = text(&mut sim, node);
        assert!(!journal.contains(&serde_json::to_string(&saved.user).unwrap()) || !is_theirs);
        replay(journal.as_bytes(), LIMITS()).unwrap();
    }
}

#[test]
fn the_replay_of_a_hub_names_a_changed_line() {
    let (journal, _) = session();
    let changed = journal.replacen("files-mcp", "filez-mcp", 1);
    assert!(matches!(replay(changed.as_bytes(), LIMITS()), Err(JournalError::Changed { line: 2 })));
    let cut = &journal[..journal.trim_end().rfind('\n').unwrap() + 1];
    assert!(matches!(replay(cut.as_bytes(), LIMITS()), Err(JournalError::CutOff { .. })));
    assert_eq!(FakeServer::from_journal(journal.as_bytes(), LIMITS()).map(drop), Err(JournalError::OfHub));
}

#[test]
fn a_client_secret_and_an_unknown_kind_of_authorization_are_masked() {
    let configuration: Configuration = serde_json::from_value(json!({
        "known": {
            "url": "https://a.example/mcp",
            "auth": "oauth",
            "oauth": {"client_id": "app", "client_secret": "hush-client", "issuer": "https://as.example"},
        },
        "other": {"url": "https://b.example/mcp", "auth": "hush-word"},
    }))
    .unwrap();
    assert_eq!(configuration.errors, []);
    let (mut sim, node) = world();
    apply(&mut sim, node, HubCommand::Configure(configuration)).unwrap();
    let journal = text(&mut sim, node);
    assert!(!journal.contains("hush") && journal.matches("redacted").count() >= 2, "{journal}");
    assert!(replay(journal.as_bytes(), LIMITS()).is_ok());
}

#[test]
fn a_command_has_its_result_in_the_journal_and_an_input_has_none() {
    let (journal, _) = session();
    let lines: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut commands, mut inputs) = (0, 0);
    for pair in lines.windows(2).filter(|pair| pair[0].get("in").is_some()) {
        let given = &pair[0]["in"];
        let kind = match given["type"].as_str().unwrap() {
            "session" => ["input", "command"].iter().find_map(|it| given["value"][it]["type"].as_str()).unwrap(),
            kind => kind,
        };
        let is_command = !["transport", "bytes", "head", "body", "end", "failure", "timeout"].contains(&kind);
        assert_eq!(pair[1].get("result").is_some(), is_command, "{pair:?}");
        *(if is_command { &mut commands } else { &mut inputs }) += 1;
    }
    assert!(commands > 10 && inputs > 50, "{commands} {inputs}");
}

/// The call of an operation, with arguments that are spelled in some way.
fn operation(operation: &Operation, spelling: Spelling) -> HubCommand {
    let (Operation::Call(name) | Operation::Read(name) | Operation::Get(name)) = operation else { panic!("a new one") };
    let arguments = spelling.spell(r#"{"uri":"r:1","name":"a","list":[1,{"b":"c\n"}]}"#);
    let name = match operation {
        Operation::Call(_) => format!("mcp_files_{name}"),
        Operation::Read(_) => "mcp_files_read_resource".into(),
        _ => "mcp_files_get_prompt".into(),
    };
    HubCommand::Call {
        name: name.into(),
        arguments: Some(RawValue::from_string(arguments).unwrap()),
        timeout: None,
        progress: true,
        trace: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn recordings_of_hubs_replay_to_the_same_bytes(
        turns in strategy::turns(&files(), 1..8),
        link in strategy::link(),
        over_http in any::<bool>(),
        by_stream in any::<bool>(),
        (ours, theirs) in (strategy::spelling(), strategy::spelling()),
    ) {
        let options = HubOptions::new(Options::new("host", "1"));
        let files = files().spelling(theirs).streams(by_stream);
        let mut sim = Sim::new(3).with_server("files", files, link);
        let node = sim.add_hub(Collector::new(journal::Recorder::of_hub(options, 5, LIMITS())));
        let entry = if over_http { json!({"url": "https://files.example/mcp"}) } else { json!({"command": "files"}) };
        let configuration = serde_json::from_value(json!({"files": entry})).unwrap();
        apply(&mut sim, node, HubCommand::Configure(configuration)).unwrap();
        apply(&mut sim, node, HubCommand::Open).unwrap();
        let run = |now, hub: &mut Collector<journal::Recorder<mcp_proto::host::hub::Hub>>, it: &Operation| hub.apply(now, operation(it, ours)).is_ok();
        sim.play(node, "files", &turns, run).unwrap();
        let journal = text(&mut sim, node);
        let replayed = replay(journal.as_bytes(), LIMITS());
        prop_assert!(replayed.is_ok(), "{:?}\n{}", replayed, journal);
    }
}

/// A server of both eras, with something of each family.
fn files() -> FakeServer {
    let versions = [ProtocolVersion::NEWEST_LEGACY, ProtocolVersion::NEWEST_MODERN];
    FakeServer::new(versions).tool(FakeTool::new("read").progress(2)).resource("r:1").prompt("a")
}
