//! What an embedder sees of a session or a hub from its start, and how it ends one: `drivers/tests/server.rs`.
#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_proto::host::config::Document;
use mcp_proto::host::hub::{HubEvent, HubOptions};
use mcp_proto::{Event, Options, Outcome, RawValue, Recovery, Transport};
use mcp_proto_tokio::{
    CallErrorKind, Elicited, Host, Hub, Input, Output, Passing, Program, Session, StartError, Status,
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");

fn server() -> Program {
    Program::new(SERVER)
}

fn options() -> Options {
    let mut options = Options::new("test", "1.0");
    options.server = "docs".into();
    options
}

fn hub() -> mcp_proto::host::config::Configuration {
    let entry = json!({"command": SERVER});
    serde_json::from_value::<Document>(json!({"mcpServers": {"local": entry}})).unwrap().0
}

fn words(what: &Passing<'_, Event>) -> Option<String> {
    Some(match what {
        Passing::Input(Input::Transport(_, Transport::Opened)) => "opened".into(),
        Passing::Input(Input::Transport(_, Transport::Closed { .. })) => "gone".into(),
        Passing::Input(Input::Bytes(_, bytes)) => format!("received {}", String::from_utf8_lossy(bytes)),
        Passing::Output(Output::Open(..)) => "open".into(),
        Passing::Output(Output::Send(_, message)) => format!("sent {}", String::from_utf8_lossy(message.bytes())),
        Passing::Output(Output::Shutdown(_, step)) => format!("{step:?}"),
        Passing::Output(Output::Event(Event::Ready)) => "ready".into(),
        Passing::Output(Output::Event(Event::Progress { .. })) => "progress".into(),
        Passing::Output(Output::Event(Event::Finished { .. })) => "finished".into(),
        Passing::Output(Output::Event(Event::Closed { .. })) => "closed".into(),
        _ => return None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tap_sees_all_that_passes_in_order_with_its_times_and_the_state_of_the_session() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tapped = Arc::clone(&seen);
    let host = Host::new(options()).tap(move |passed| {
        let (server, ready) = (passed.server.to_owned(), passed.engine.is_some_and(mcp_proto::Engine::is_ready));
        tapped.lock().unwrap().push((words(&passed.what), passed.now, server, ready, passed.process));
    });
    let session = Session::connect(server(), host).await.unwrap();
    let call = session.start_tool("count", &json!({"to": 1})).unwrap();
    assert_eq!(call.await.unwrap().text(), "counted");
    let before_close = session.now();
    session.close().await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen.iter().all(|(_, _, server, ..)| server == "docs"));
    assert!(seen.iter().map(|(_, now, ..)| *now).is_sorted());
    assert!(seen.first().unwrap().1 <= before_close && before_close <= session.now());
    let at = |found: &str| {
        let is_it = |(words, ..): &(Option<String>, _, _, _, _)| words.as_ref().is_some_and(|it| it.contains(found));
        seen.iter().position(is_it).unwrap_or_else(|| panic!("{found}: {seen:?}"))
    };
    let order = [
        "open",
        "opened",
        "sent {\"jsonrpc\"",
        "received {\"jsonrpc\"",
        "tools/list",
        "ready",
        "tools/call",
        "progress",
        "finished",
        "CloseInput",
        "gone",
        "closed",
    ];
    let places: Vec<_> = order.iter().map(|found| at(found)).collect();
    assert!(places.is_sorted(), "{places:?} of {order:?}: {seen:?}");
    let (_, _, _, ready, process) = &seen[at("tools/call")];
    assert!(*ready && process.is_some_and(|process| process > 0));
    assert!(!seen[at("opened")].3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_host_have_the_first_one() {
    let mut host = Host::new(options());
    let mut events = host.events();
    let session = Session::start(server(), host).unwrap();
    session.ready().await.unwrap();
    // These begin now.
    let mut late = session.events();
    session.close().await;
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.push(matches!(event, Event::Ready));
    }
    assert!(kinds.contains(&true));
    while let Some(event) = late.next().await {
        assert!(!matches!(event, Event::Ready));
    }
}

#[tokio::test]
async fn a_tap_that_panics_is_not_called_again_and_costs_nothing_else() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let host = Host::new(options()).tap(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose");
    });
    let session = Session::connect(server(), host).await.unwrap();
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    session.close().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_answer_goes_out_as_it_is_and_a_handler_gets_the_key() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&keys);
    let host = Host::new(options()).elicitation(move |ask| {
        asked.lock().unwrap().push(ask.key.clone());
        let whole = r#"{"action": "accept", "content": {"name": "Ada"}, "_meta": {"own": 1}}"#;
        async move { Elicited::Result(RawValue::from_string(whole.into()).unwrap()) }
    });
    let session = Session::connect(server(), host).await.unwrap();
    let reply = session.call_tool("ask", &json!({})).await.unwrap();
    assert!(reply.text().contains(r#""_meta":{"own":1}"#), "{}", reply.text());
    // A request of the legacy era has none.
    assert_eq!(*keys.lock().unwrap(), [None]);
    session.close().await;
}

#[tokio::test]
async fn standard_error_comes_with_the_name_of_its_server() {
    let heard = Arc::new(Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
    let hears = || {
        let heard = Arc::clone(&heard);
        move |server: &str, piece: &[u8]| heard.lock().unwrap().entry(server.into()).or_default().extend(piece)
    };
    let session = Session::connect(server(), Host::new(options()).stderr(hears())).await.unwrap();
    session.call_tool("errors", &json!({"size": 3})).await.unwrap();
    session.close().await;
    let host = Host::new(HubOptions::new(Options::new("test", "1.0"))).stderr(hears());
    let hub = Hub::start(hub(), host).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    hub.call("mcp_local_errors", &json!({"size": 3})).await.unwrap();
    hub.close().await;
    let text = b"xxx\n".to_vec();
    assert_eq!(*heard.lock().unwrap(), BTreeMap::from([("docs".into(), text.clone()), ("local".into(), text)]));
}

#[tokio::test]
async fn each_start_of_a_program_is_prepared() {
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let program = server().prepare(move |command| {
        command.env("START", counted.fetch_add(1, Ordering::Relaxed).to_string());
    });
    let mut options = options();
    let mut reconnect = mcp_proto::Reconnect::default();
    reconnect.initial_backoff = Duration::from_millis(1);
    options.reconnect = Some(reconnect);
    let session = Session::connect(program, options).await.unwrap();
    session.call_tool("die", &json!({})).await.unwrap_err();
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    session.close().await;
    assert_eq!(starts.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_new_configuration_is_settled_when_the_servers_that_it_starts_are_up_or_failed() {
    let entries = |servers: &[(&str, &str)]| {
        let entries = servers.iter().map(|(name, program)| ((*name).to_owned(), json!({"command": *program})));
        let Document(configuration) =
            serde_json::from_value(json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()})).unwrap();
        configuration
    };
    let hub = Hub::start(entries(&[("one", SERVER)]), HubOptions::new(Options::new("test", "1.0"))).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    let changes = hub.configure(entries(&[("one", SERVER), ("two", SERVER), ("bad", "/nonexistent")])).unwrap();
    assert_eq!(changes.added, ["bad".into(), "two".into()]);
    timeout(PATIENCE, hub.settled()).await.unwrap();
    assert_eq!(hub.call("mcp_two_echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    let failed: Vec<_> = hub.failures().into_iter().map(|(server, _)| server).collect();
    assert_eq!(failed, ["bad".into()]);
    timeout(PATIENCE, hub.close()).await.unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
}

#[tokio::test]
async fn programs_of_a_hub_inherit_the_environment_only_where_the_host_says_so() {
    // `cargo test` sets it, and no entry names it.
    let name = "CARGO_MANIFEST_DIR";
    let entry = json!({"command": SERVER, "args": ["tells", name]});
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {"local": entry}})).unwrap();
    for inherits in [false, true] {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let mut host = Host::new(HubOptions::new(Options::new("test", "1.0")))
            .stderr(move |_, piece| hears.lock().unwrap().extend_from_slice(piece));
        if inherits {
            host = host.inherit_environment();
        }
        let hub = Hub::start(configuration.clone(), host).unwrap();
        timeout(PATIENCE, hub.settled()).await.unwrap();
        hub.close().await;
        let expected = if inherits { env!("CARGO_MANIFEST_DIR") } else { "" };
        assert_eq!(String::from_utf8_lossy(&heard.lock().unwrap()), expected);
    }
}

#[tokio::test]
async fn a_session_that_is_closed_within_a_time_ends_then_whatever_its_program_does() {
    let mut options = options();
    // The protocol alone would wait.
    options.timeouts.grace = Duration::from_secs(1000);
    let session = Session::start(server().arg("stubborn"), options).unwrap();
    sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    timeout(PATIENCE, session.close_within(Duration::from_millis(100))).await.unwrap();
    assert!(matches!(session.status(), Status::Closed(_)) && start.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn calls_in_flight_are_cancelled_when_the_time_is_up() {
    let session = Session::connect(server(), options()).await.unwrap();
    let call = session.start_tool("wait", &json!({})).unwrap();
    session.time_out();
    let error = timeout(PATIENCE, call).await.unwrap().unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Cancelled)), "{error}");
    assert_eq!(timeout(PATIENCE, session.closed()).await.unwrap(), None);

    let hub = Hub::start(hub(), HubOptions::new(Options::new("test", "1.0"))).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    let call = hub.start_call_raw("mcp_local_wait", None).unwrap();
    hub.time_out();
    let error = timeout(PATIENCE, call).await.unwrap().unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Cancelled)), "{error}");
    timeout(PATIENCE, hub.close_within(PATIENCE)).await.unwrap();
}

#[tokio::test]
async fn a_time_named_by_an_event_is_one_of_the_clients_time() {
    let mut host = Host::new(options());
    let mut events = host.events();
    let session = Session::start(Program::new("/nonexistent/server"), host).unwrap();
    session.ready().await.unwrap_err();
    let now = session.now();
    loop {
        if let Event::Down { next: Recovery::Parked { until, .. }, .. } = events.next().await.unwrap() {
            assert!(until > now);
            break;
        }
    }
    session.close().await;
}

#[tokio::test]
async fn a_hub_shows_its_own_events_and_those_of_its_sessions() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tapped = Arc::clone(&seen);
    let mut host = Host::new(HubOptions::new(Options::new("test", "1.0"))).tap(move |passed| {
        if let Passing::Output(Output::Event(event)) = passed.what {
            let what = match event {
                HubEvent::Session { event: Event::Ready, .. } => "ready",
                HubEvent::Settled => "settled",
                HubEvent::Finished { .. } => "finished",
                HubEvent::Closed => "closed",
                _ => return,
            };
            tapped.lock().unwrap().push((what, passed.server.to_owned(), passed.session.is_some()));
        }
    });
    let mut events = host.events();
    let hub = Hub::start(hub(), host).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    assert_eq!(hub.call("mcp_local_echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    assert!(hub.now() > mcp_proto::Time::ZERO);
    hub.close().await;
    let expected =
        [("ready", "local", true), ("settled", "", false), ("finished", "local", true), ("closed", "", false)];
    let expected: Vec<_> = expected.map(|(what, server, session)| (what, server.to_owned(), session)).into();
    assert_eq!(*seen.lock().unwrap(), expected);
    let mut has_settled = false;
    while let Some(event) = events.next().await {
        has_settled |= matches!(event, HubEvent::Settled);
        // It has another way.
        assert!(!matches!(event, HubEvent::Finished { .. }));
    }
    assert!(has_settled);
}

#[test]
fn without_a_runtime_nothing_starts() {
    assert!(matches!(Session::start(server(), options()), Err(StartError::NoRuntime)));
}
