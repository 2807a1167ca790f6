//! Hubs of servers in memory, with paused time.
#![cfg(feature = "testkit")]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{HubAccepted, HubCommand, HubCommandError, HubEvent, HubOptions};
use mcp_proto::testkit::{FakeServer, FakeTool, Fault, Link, Sim};
use mcp_proto::{Command, Event, Options, Outcome, Reconnect};
use mcp_proto_tokio::testkit::Servers;
use mcp_proto_tokio::{CallErrorKind, Host, Hub};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);
const SERVERS: usize = 30;

fn name(at: usize) -> String {
    format!("s{at}")
}

/// Servers of both eras, whose tool takes some seconds.
fn servers() -> Servers {
    let sim = (0..SERVERS).fold(Sim::new(1), |sim, at| {
        let server = if at % 2 == 0 { FakeServer::legacy() } else { FakeServer::modern() };
        let server = server.tool(FakeTool::new("pay").takes(Duration::from_secs(5))).resource("r:1");
        sim.with_server(&name(at), server, Link::new(Duration::from_millis(20)))
    });
    Servers::start(sim)
}

/// Two thirds of the servers are programs, and the others have URLs.
fn configuration() -> Configuration {
    let entry = |at: usize| match at % 3 {
        0 if cfg!(feature = "http") => json!({"url": format!("http://{}.example/mcp", name(at))}),
        _ => json!({"command": "/nonexistent/server", "env": {"KEY": "hush-in-the-environment"}}),
    };
    let entries: Value = (0..SERVERS).map(|at| (name(at), entry(at))).collect();
    serde_json::from_value(entries).unwrap()
}

fn host(servers: &Servers) -> Host<HubOptions> {
    let mut options = Options::new("test", "1.0");
    (options.reconnect, options.keepalive) = (Some(Reconnect::default()), None);
    let host = Host::new(HubOptions::new(options)).seed(1).endpoints(servers.endpoints());
    #[cfg(feature = "http")]
    let host = host.http(servers.http());
    host
}

async fn start(host: Host<HubOptions>) -> Hub {
    let hub = Hub::start(configuration(), host).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    assert!(hub.failures().is_empty(), "{:?}", hub.failures());
    hub
}

/// Calls the tool of each server at the same time. Returns how often each ran.
async fn pay_everywhere(hub: &Hub, servers: &Servers) -> Vec<usize> {
    let call = |at| hub.start_call(&format!("mcp_s{at}_pay"), &json!({})).unwrap();
    for call in (0..SERVERS).map(call).collect::<Vec<_>>() {
        timeout(PATIENCE, call).await.unwrap().unwrap();
    }
    runs(servers)
}

fn runs(servers: &Servers) -> Vec<usize> {
    servers.with(|sim| (0..SERVERS).map(|at| sim.server(&name(at)).unwrap().tool_runs("pay")).collect())
}

#[tokio::test(start_paused = true)]
async fn a_hub_has_many_servers_in_memory_and_their_faults_are_each_ones_own() {
    let servers = servers();
    let hub = start(host(&servers)).await;
    let began = Instant::now();
    assert_eq!(pay_everywhere(&hub, &servers).await, [1; SERVERS]);
    assert!(began.elapsed() < Duration::from_secs(6), "one after the other: {:?}", began.elapsed());
    let lost = hub.start_call("mcp_s1_pay", &json!({})).unwrap();
    let kept = hub.start_call("mcp_s2_pay", &json!({})).unwrap();
    sleep(Duration::from_secs(1)).await;
    servers.with(|sim| sim.fault("s1", Fault::Crash));
    let error = timeout(PATIENCE, lost).await.unwrap().unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{error}");
    timeout(PATIENCE, kept).await.unwrap().unwrap();
    sleep(Duration::from_secs(3600)).await;
    timeout(PATIENCE, hub.call("mcp_s1_pay", &json!({}))).await.unwrap().unwrap();
    let expected = |at| if at == 1 { 3 } else { 1 + usize::from(at == 2) };
    assert_eq!(runs(&servers), (0..SERVERS).map(expected).collect::<Vec<_>>());
    timeout(PATIENCE, hub.close()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_of_a_hub_is_one_of_a_session_too() {
    let servers = servers();
    let hub = start(host(&servers)).await;
    let session = hub.inspect(|hub| hub.handle("s1")).unwrap();
    let mut events = hub.events();
    let command = Command::Subscribe { uri: "r:1".into() };
    assert_eq!(hub.apply(HubCommand::Session { session, command }), Ok(HubAccepted::Done));
    loop {
        let Some(HubEvent::Session { event, .. }) = timeout(PATIENCE, events.next()).await.unwrap() else { continue };
        if let Event::Subscription { outcome, .. } = event {
            break assert_eq!(outcome, Ok(()));
        }
    }
    let refused = hub.apply(HubCommand::Session { session, command: Command::Close });
    assert_eq!(refused, Err(HubCommandError::NotOfSession));
    assert_eq!(hub.apply(HubCommand::Close), Ok(HubAccepted::Done));
    timeout(PATIENCE, hub.closed()).await.unwrap();
    assert_eq!(hub.apply(HubCommand::Open), Err(HubCommandError::Closed));
}

#[cfg(feature = "journal")]
#[tokio::test(start_paused = true)]
async fn a_recorded_hub_replays_to_the_same_bytes_and_has_no_secrets() {
    use mcp_proto::journal::{JournalLimits, replay};

    let servers = servers();
    let hub = start(host(&servers).record(JournalLimits::default())).await;
    hub.hide("a secret word").unwrap();
    let mut journal = hub.journal();
    pay_everywhere(&hub, &servers).await;
    hub.call("mcp_s4_pay", &json!({"why": "a secret word"})).await.unwrap();
    hub.request("s5", mcp_proto::Request::read_resource("r:1")).await.unwrap();
    let cancelled = hub.start_call("mcp_s6_pay", &json!({})).unwrap();
    sleep(Duration::from_secs(1)).await;
    drop(cancelled);
    servers.with(|sim| sim.fault("s7", Fault::Crash));
    journal += &hub.journal();
    sleep(Duration::from_secs(600)).await;
    let mut fewer = configuration();
    fewer.servers.remove("s8");
    assert_eq!(hub.configure(fewer).unwrap().removed, ["s8".into()]);
    timeout(PATIENCE, hub.close()).await.unwrap();
    journal += &hub.finish_journal();
    assert_eq!((hub.journal().as_str(), hub.journal_dropped()), ("", 0));
    for part in ["tools/call", "configure", "resources/read", "notifications/cancelled"] {
        assert!(journal.contains(part), "{part}");
    }
    assert!(!journal.contains("a secret word") && !journal.contains("hush"));
    let replayed = replay(journal.as_bytes(), JournalLimits::default()).unwrap();
    assert!(replayed.actions > 10 * SERVERS, "{replayed:?}");

    let hub = start(host(&servers)).await;
    timeout(PATIENCE, hub.close()).await.unwrap();
    assert_eq!(hub.finish_journal(), "");
}

#[cfg(all(feature = "journal", feature = "oauth"))]
#[tokio::test(start_paused = true)]
async fn a_hub_that_signs_in_is_not_recorded() {
    use mcp_proto::binding::oauth::OAuthOptions;
    use mcp_proto::journal::JournalLimits;
    use mcp_proto_tokio::{OAuth, StartError};

    let oauth = || OAuth::new(OAuthOptions::new("test", ""), |_, url| panic!("{url:?}"));
    let host = || host(&servers());
    let refused = Hub::start(configuration(), host().record(JournalLimits::default()).oauth(oauth())).unwrap_err();
    assert!(matches!(refused, StartError::Unrecordable(_)), "{refused}");
    let hub = start(host().oauth(oauth())).await;
    timeout(PATIENCE, hub.close()).await.unwrap();
    assert_eq!(hub.finish_journal(), "");
}

#[cfg(feature = "snapshot")]
#[tokio::test(start_paused = true)]
async fn a_suspended_hub_goes_on_with_its_servers_lists_and_time() {
    use mcp_proto::{Secrets, Snapshot, SnapshotError};
    use mcp_proto_tokio::StartError;

    for secrets in [Secrets::Included, Secrets::Excluded] {
        let servers = servers();
        let hub = start(host(&servers)).await;
        let sessions = |hub: &Hub| hub.inspect(|hub| (0..SERVERS).map(|at| hub.handle(&name(at))).collect::<Vec<_>>());
        let before = sessions(&hub);
        sleep(Duration::from_secs(100)).await;
        let lost = hub.start_call("mcp_s1_pay", &json!({})).unwrap();
        sleep(Duration::from_secs(1)).await;
        let saved = serde_json::to_string(&timeout(PATIENCE, hub.suspend(secrets)).await.unwrap()).unwrap();
        assert!(matches!(lost.await.unwrap_err().kind, CallErrorKind::Ended(Outcome::Cancelled)));
        assert_eq!(hub.apply(HubCommand::Open), Err(HubCommandError::Closed));
        assert!(!saved.contains("hush"));
        drop(hub);

        let snapshot: Snapshot = serde_json::from_str(&saved).unwrap();
        let mut other = configuration();
        other.servers.remove("s1");
        let refused = Hub::restore(other, host(&servers), &snapshot).unwrap_err();
        assert!(matches!(refused, StartError::Snapshot(SnapshotError::Configuration { .. })), "{refused}");
        #[cfg(feature = "journal")]
        {
            let recorded = host(&servers).record(mcp_proto::journal::JournalLimits::default());
            let refused = Hub::restore(configuration(), recorded, &snapshot).unwrap_err();
            assert!(refused.to_string().starts_with("it cannot be recorded: it is restored"), "{refused}");
        }
        let hub = Hub::restore(configuration(), host(&servers), &snapshot).unwrap();
        assert_eq!(hub.now(), snapshot.time());
        assert_eq!(hub.inspect(|hub| hub.functions().count()), 3 * SERVERS);
        assert_eq!(sessions(&hub), before);
        let expected: Vec<_> = (0..SERVERS).map(|at| 1 + usize::from(at == 1)).collect();
        assert_eq!(pay_everywhere(&hub, &servers).await, expected);
        timeout(PATIENCE, hub.close()).await.unwrap();
    }
}
