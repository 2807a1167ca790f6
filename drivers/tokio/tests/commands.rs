//! What a host tells a session or a hub to do, and what it answers a server: at servers of the test kit, in paused time, and at
//! programs.
#![cfg(all(feature = "http", feature = "journal", feature = "testkit"))]
#![allow(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests"
)]

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use mcp_proto::host::config::{Configuration, Document};
use mcp_proto::host::hub::{HubEvent, HubOptions};
use mcp_proto::journal::JournalLimits;
use mcp_proto::protocol::Root;
use mcp_proto::testkit::{Ask, FakeServer, FakeTool, Link, Sim};
use mcp_proto::{Event, Family, LogLevel, Options, Outcome, RawValue, ShutdownStep};
use mcp_proto_tokio::testkit::Servers;
use mcp_proto_tokio::{
    CallErrorKind, Elicited, Host, Hub, Input, Passing, Piece, Process, Program, Remote, Session, Status,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

#[path = "../../tests/system.rs"]
mod system;

use system::is_alive;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");
const ASKS: &str = "ask";

fn options() -> Options {
    let mut options = Options::new("test", "1.0");
    (options.server, options.keepalive) = ("docs".into(), None);
    options
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn start(server: FakeServer) -> Servers {
    Servers::start(Sim::new(1).with_server("s", server, Link::new(Duration::from_millis(10))))
}

/// A server of each era whose tool asks the user.
fn asking() -> [FakeServer; 2] {
    [FakeServer::legacy(), FakeServer::modern()].map(|server| {
        server
            .sessions(true)
            .streams(true)
            .tool(FakeTool::new(ASKS).asks(Ask::elicitation("who?")))
            .tool(FakeTool::new("echo"))
    })
}

async fn connect(servers: &Servers, host: Host<Options>) -> Session {
    timeout(PATIENCE, Session::connect(servers.streams("s"), host.seed(1))).await.unwrap().unwrap()
}

/// The test kit's server, as a hub has it.
fn configuration() -> Configuration {
    let Document(configuration) =
        serde_json::from_value(json!({"mcpServers": {"s": {"url": "http://s/mcp"}}})).unwrap();
    configuration
}

async fn hub(servers: &Servers, host: Host<HubOptions>) -> Hub {
    let hub = Hub::start(configuration(), host.seed(1).http(servers.http())).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    hub
}

async fn until(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

/// What the server got: requests, and answers to its own.
fn received(servers: &Servers) -> String {
    servers.with(|sim| {
        let server = sim.server("s").unwrap();
        server.messages().chain(server.answers()).map(|message| format!("{message}\n")).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn each_command_of_a_session_reaches_the_server() {
    let capabilities = json!({"tools": {}, "logging": {}, "resources": {"subscribe": true}});
    let server = FakeServer::legacy().tool(FakeTool::new("echo")).resource("r:1").capabilities(capabilities);
    let servers = start(server);
    let mut options = options();
    options.capabilities.roots = Some(Vec::new());
    let session = connect(&servers, options.into()).await;
    session.subscribe("r:1").unwrap();
    session.set_log_level(LogLevel::Error).unwrap();
    session.set_roots(vec![Root::new("file:///a")]).unwrap();
    session.notify("notifications/own", Some(&raw(&json!({"a": 1})))).unwrap();
    session.refresh(Family::Tools).unwrap();
    sleep(Duration::from_secs(1)).await;
    session.unsubscribe("r:1").unwrap();
    sleep(Duration::from_secs(1)).await;
    for (method, times) in [
        ("resources/subscribe", 1),
        ("resources/unsubscribe", 1),
        ("logging/setLevel", 1),
        ("notifications/roots/list_changed", 1),
        ("notifications/own", 1),
        ("tools/list", 2),
    ] {
        assert_eq!(servers.with(|sim| sim.server("s").unwrap().received(method)), times, "{method}");
    }
}

#[tokio::test]
async fn a_session_that_is_parked_is_opened_again() {
    let mut options = options();
    options.reconnect.as_mut().unwrap().first_attempts = 1;
    let starts = AtomicU32::new(0);
    // The first failure is not the first start: a program that exits is started once more at once.
    let program = Program::new(SERVER).prepare(move |command| {
        command.arg(if starts.fetch_add(1, Ordering::Relaxed) < 2 { "exit" } else { "serve" });
    });
    let session = Session::start(program, options).unwrap();
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap_err();
    assert!(matches!(session.status(), Status::Parked(_)));
    session.open().unwrap();
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
    session.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_is_taken_in_parts_and_counts_what_it_has_not() {
    let [server, _] = asking();
    let servers = start(server);
    let session = connect(&servers, Host::new(options()).record(JournalLimits::default())).await;
    assert_eq!(session.journal_dropped(), 0);
    let first = session.journal();
    assert!(first.contains("tools/list") && !session.journal().contains("tools/list"));
    let mut limits = JournalLimits::default();
    limits.entries = 3;
    let session = connect(&servers, Host::new(options()).record(limits)).await;
    assert!(session.journal_dropped() > 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_name_is_called_by_its_program_or_its_host() {
    let name = |session: &Session| session.inspect(|engine| engine.server_name().to_owned());
    let unnamed = || Options::new("test", "1.0");
    let session = Session::start(Program::new("/nonexistent/server"), unnamed()).unwrap();
    assert_eq!(name(&session), "server");
    let [server, _] = asking();
    let servers = start(server);
    let host = Host::new(unnamed()).http(servers.http());
    let session = Session::connect(Remote::new("http://ada:pass@s:80/mcp?a=b").unwrap(), host).await.unwrap();
    assert!(name(&session).starts_with("s:80"), "{}", name(&session));
    let session = connect(&servers, options().into()).await;
    assert_eq!(session.start_tool("echo", &json!({})).unwrap().server(), "docs");
}

#[tokio::test(start_paused = true)]
async fn what_a_host_answers_reaches_the_server_through_a_session_and_a_hub() {
    let accept = |_| async { Elicited::Accept(json!({"name": "Ada"})) };
    for server in asking() {
        let servers = start(server);
        let session = connect(&servers, Host::new(options()).elicitation(accept)).await;
        timeout(PATIENCE, session.call_tool(ASKS, &json!({}))).await.unwrap().unwrap();
        assert!(received(&servers).contains("Ada"), "{}", received(&servers));
    }
    for server in asking() {
        let servers = start(server);
        let hub = hub(&servers, Host::new(HubOptions::new(options())).elicitation(accept)).await;
        let call = hub.start_call("mcp_s_ask", &json!({})).unwrap();
        timeout(PATIENCE, call).await.unwrap().unwrap();
        assert!(received(&servers).contains("Ada"), "{}", received(&servers));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_object_is_an_error_for_the_server_or_ends_the_call() {
    let wrong = |_| async { Elicited::Result(raw(&json!([1]))) };
    let check = |servers: &Servers, is_modern: bool, kind: Option<CallErrorKind>| {
        if is_modern {
            assert!(matches!(kind, Some(CallErrorKind::Ended(Outcome::InputRequired(_)))), "{kind:?}");
        } else {
            assert!(received(servers).contains(r#""code":-32603"#), "{}", received(servers));
        }
    };
    for (is_modern, server) in [false, true].into_iter().zip(asking()) {
        let servers = start(server);
        let session = connect(&servers, Host::new(options()).elicitation(wrong)).await;
        let result = timeout(PATIENCE, session.call_tool(ASKS, &json!({}))).await.unwrap();
        check(&servers, is_modern, result.err().map(|error| error.kind));
    }
    for (is_modern, server) in [false, true].into_iter().zip(asking()) {
        let servers = start(server);
        let hub = hub(&servers, Host::new(HubOptions::new(options())).elicitation(wrong)).await;
        let result = timeout(PATIENCE, hub.start_call("mcp_s_ask", &json!({})).unwrap()).await.unwrap();
        check(&servers, is_modern, result.err().map(|error| error.kind));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_and_one_that_is_missing_are_errors_for_the_server() {
    let [server, _] = asking();
    let servers = start(server);
    let panics = |_| async { panic!("on purpose") };
    let session = connect(&servers, Host::new(options()).elicitation(panics)).await;
    drop(timeout(PATIENCE, session.call_tool(ASKS, &json!({}))).await.unwrap());
    assert!(received(&servers).contains(r#""code":-32603"#), "{}", received(&servers));
    let [server, _] = asking();
    let servers = start(server);
    let mut options = options();
    options.capabilities.elicitation = true;
    let session = connect(&servers, options.into()).await;
    drop(timeout(PATIENCE, session.call_tool(ASKS, &json!({}))).await.unwrap());
    assert!(received(&servers).contains(r#""code":-32601"#), "{}", received(&servers));
}

#[tokio::test(start_paused = true)]
async fn defaults_of_a_form_are_used_where_the_options_say_so() {
    for uses in [false, true] {
        let [server, _] = asking();
        let servers = start(server);
        let mut options = options();
        options.form_defaults = uses;
        let found = Arc::new(Mutex::new(None));
        let finds = Arc::clone(&found);
        let host = Host::new(options).elicitation(move |ask| {
            *finds.lock().unwrap() = Some(ask.elicitation().form_defaults);
            async { Elicited::Decline }
        });
        let session = connect(&servers, host).await;
        timeout(PATIENCE, session.call_tool(ASKS, &json!({}))).await.unwrap().unwrap();
        assert_eq!(*found.lock().unwrap(), Some(uses));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_the_call_that_asks_is_cancelled() {
    // Requests of a server of the other era end by themselves.
    let [_, server] = asking();
    let servers = start(server);
    let (asked, is_asked) = oneshot::channel();
    let (held, is_dropped) = oneshot::channel::<()>();
    let ends = Mutex::new(Some((asked, held)));
    let host = Host::new(options()).elicitation(move |_| {
        let (asked, held) = ends.lock().unwrap().take().unwrap();
        async move {
            asked.send(()).unwrap();
            let _held = held;
            std::future::pending::<Elicited>().await
        }
    });
    let session = connect(&servers, host).await;
    let call = session.start_tool(ASKS, &json!({})).unwrap();
    timeout(PATIENCE, is_asked).await.unwrap().unwrap();
    call.cancel("the user left");
    assert!(timeout(PATIENCE, is_dropped).await.unwrap().is_err());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counting(AtomicU32);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_a_stream_whose_dropped_readers_are_not_woken() {
    let [server, _] = asking();
    let servers = start(server);
    let session = connect(&servers, options().into()).await;
    let counts = [(); 2].map(|()| Arc::new(Counting::default()));
    let [kept, dropped] = counts.clone().map(Waker::from);
    let mut events = session.events();
    assert!(Pin::new(&mut events).poll_next(&mut Context::from_waker(&kept)).is_pending());
    let mut others = session.events();
    assert!(Pin::new(&mut others).poll_next(&mut Context::from_waker(&dropped)).is_pending());
    drop(others);
    servers.with(|sim| sim.change("s", |server| server.notify("notifications/own", &json!({}))));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [1, 0]);
    let Poll::Ready(Some(event)) = Pin::new(&mut events).poll_next(&mut Context::from_waker(&kept)) else { panic!() };
    assert!(matches!(event, Event::Notification { .. }), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn events_that_nobody_reads_are_left_out_by_their_size() {
    let text = "x".repeat(1 << 20);
    for (method, params) in [
        ("notifications/message", json!({"level": "error", "data": text})),
        ("notifications/own", json!({"data": text})),
    ] {
        let servers = start(FakeServer::legacy().capabilities(json!({"logging": {}})));
        let session = connect(&servers, options().into()).await;
        let mut events = session.events();
        for _ in 0..20 {
            servers.with(|sim| sim.change("s", |server| server.notify(method, &params)));
            sleep(Duration::from_secs(1)).await;
        }
        assert!(events.left_out() > 0, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tap_of_a_hub_sees_the_state_of_the_session() {
    let [_, server] = asking();
    let servers = start(server);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let host = Host::new(HubOptions::new(options())).tap(move |passed| {
        if let Passing::Input(_) = passed.what {
            sees.lock().unwrap().push(passed.engine.is_some());
        }
    });
    let hub = hub(&servers, host).await;
    hub.close().await;
    assert!(!seen.lock().unwrap().is_empty() && seen.lock().unwrap().iter().all(|has| *has));
}

#[tokio::test]
async fn a_hub_that_is_closed_within_a_time_ends_then_whatever_its_programs_do() {
    let mut options = options();
    // The protocol alone would wait.
    options.timeouts.grace = Duration::from_secs(1000);
    let entry = json!({"command": SERVER, "args": ["stubborn"]});
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {"local": entry}})).unwrap();
    let mut host = Host::new(HubOptions::new(options));
    let mut events = host.events();
    let hub = Hub::start(configuration, host).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    timeout(PATIENCE, hub.close_within(Duration::from_millis(100))).await.unwrap();
    timeout(PATIENCE, hub.closed()).await.unwrap();
    let mut is_closed = false;
    while let Some(event) = timeout(PATIENCE, events.next()).await.unwrap() {
        is_closed |= matches!(event, HubEvent::Closed);
    }
    assert!(is_closed);
}

#[cfg(unix)]
#[tokio::test]
async fn the_end_of_a_hub_lets_its_programs_finish() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let entry = json!({"command": "sh", "args": ["-c", r#""$0"; echo finished >&2"#, SERVER]});
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {"local": entry}})).unwrap();
    let host = Host::new(HubOptions::new(options()));
    let hub = Hub::start(configuration, host.stderr(move |_, piece| hears.lock().unwrap().extend_from_slice(piece)));
    let hub = hub.unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    timeout(PATIENCE, hub.close()).await.unwrap();
    assert_eq!(String::from_utf8(heard.lock().unwrap().clone()).unwrap(), "finished\n");
}

#[tokio::test]
async fn a_session_that_is_killed_leaves_no_process_when_that_is_told() {
    let session = Session::connect(Program::new(SERVER).arg("stubborn"), options()).await.unwrap();
    let reply = session.call_tool("echo", &json!({})).await.unwrap();
    let pid = u32::try_from(reply.to::<Value>().unwrap()["pid"].as_u64().unwrap()).unwrap();
    assert!(is_alive(pid));
    session.close_within(Duration::ZERO).await;
    assert!(!is_alive(pid));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_hosts_time_ends_calls_and_the_session_at_once() {
    let server = FakeServer::legacy().tool(FakeTool::new("slow").takes(PATIENCE));
    let servers = start(server);
    for has_call in [false, true] {
        let session = connect(&servers, options().into()).await;
        let call = has_call.then(|| session.start_tool("slow", &json!({})).unwrap());
        let start = Instant::now();
        session.time_out();
        if let Some(call) = call {
            let error = call.await.unwrap_err();
            assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Cancelled)), "{error}");
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
        assert!(session.closed().await.is_none());
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_session_that_lost_its_server_is_connecting_until_the_next_attempt() {
    let mut options = options();
    options.reconnect.as_mut().unwrap().initial_backoff = Duration::from_secs(1000);
    options.reconnect.as_mut().unwrap().max_backoff = Duration::from_secs(1000);
    let session = Session::connect(Program::new(SERVER), options).await.unwrap();
    session.call_tool("die", &json!({})).await.unwrap_err();
    let lost = async {
        while session.status() != Status::Connecting {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, lost).await.unwrap();
    session.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_helper_that_ignores_the_end_of_its_process_is_killed_before_that_is_told() {
    let (process, mut pieces) = shell("trap '' TERM; sleep 1000 >/dev/null 2>&1 & echo $! $$");
    let Some(Piece::Output(bytes)) = timeout(PATIENCE, pieces.recv()).await.unwrap() else { panic!() };
    let text = String::from_utf8(bytes).unwrap();
    let (helper, own) = text.trim().split_once(' ').unwrap();
    assert_eq!(own, process.id().to_string());
    let closed = timeout(PATIENCE, pieces.recv()).await.unwrap();
    assert!(matches!(closed, Some(Piece::Closed { .. })), "{closed:?}");
    // Not because the process is dropped.
    until(|| !is_alive(helper.parse().unwrap())).await;
    drop(process);
}

#[cfg(unix)]
#[test]
fn a_process_ends_with_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let script = "trap '' TERM; sleep 1000 & echo $!; wait";
    let (process, mut pieces) = runtime.block_on(async { shell(script) });
    let Piece::Output(bytes) = pieces.blocking_recv().unwrap() else { panic!() };
    let helper = String::from_utf8(bytes).unwrap().trim().parse().unwrap();
    let id = process.id();
    assert!(is_alive(id) && is_alive(helper));
    drop(runtime);
    let start = std::time::Instant::now();
    while is_alive(id) || is_alive(helper) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_goes_on_writing_to_its_standard_error_goes_on_showing_that_it_lives() {
    let (_process, mut pieces) = shell("while echo alive >&2; do sleep 0.1; done");
    for _ in 0..5 {
        let piece = timeout(PATIENCE, pieces.recv()).await.unwrap();
        assert!(matches!(piece, Some(Piece::SignOfLife)), "{piece:?}");
    }
}

/// The pieces of a program that a shell runs.
#[cfg(unix)]
fn shell(script: &str) -> (Process, mpsc::UnboundedReceiver<Piece>) {
    let (sender, pieces) = mpsc::unbounded_channel();
    let take = move |piece| {
        let _ = sender.send(piece);
        std::future::ready(())
    };
    (Process::start(&Program::new("sh").args(["-c", script]), take).unwrap(), pieces)
}

#[cfg(unix)]
#[tokio::test]
async fn a_descendant_that_writes_without_end_is_read_for_a_while_only() {
    let (_process, mut pieces) = shell("(while echo more; do sleep 0.1; done) & exit");
    while !matches!(timeout(PATIENCE, pieces.recv()).await.unwrap().unwrap(), Piece::Closed { .. }) {}
}

#[cfg(unix)]
#[tokio::test]
async fn the_last_words_of_a_process_are_no_reason_if_it_was_asked_to_exit() {
    let (mut process, mut pieces) = shell("echo Error: words >&2; echo; exec cat");
    while !matches!(timeout(PATIENCE, pieces.recv()).await.unwrap().unwrap(), Piece::Output(_)) {}
    process.shut_down(ShutdownStep::CloseInput);
    loop {
        match timeout(PATIENCE, pieces.recv()).await.unwrap().unwrap() {
            Piece::Closed { why } => break assert_eq!(why, "exit status: 0"),
            piece => assert!(matches!(piece, Piece::SignOfLife), "{piece:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_no_object_are_refused_in_the_name_of_the_hub() {
    let [server, _] = asking();
    let servers = start(server);
    let hub = hub(&servers, Host::new(HubOptions::new(options()))).await;
    let error = hub.start_call("mcp_s_echo", &json!([1])).unwrap_err();
    assert_eq!(error.to_string(), "`call mcp_s_echo` at the hub: the arguments are not a JSON object: an array");
}

#[cfg(unix)]
#[tokio::test]
async fn a_tap_gets_lines_that_come_together_one_by_one() {
    fn count<E>(lines: &Arc<Mutex<Vec<usize>>>, what: &Passing<'_, E>) {
        if let Passing::Input(Input::Bytes(_, bytes)) = what {
            lines.lock().unwrap().push(bytes.iter().filter(|byte| **byte == b'\n').count());
        }
    }

    let args = ["-c", r"printf '{}\n{}\n'; exec cat >/dev/null"];
    let lines = Arc::<Mutex<Vec<_>>>::default();
    let counts = Arc::clone(&lines);
    let host = Host::new(options()).tap(move |passed| count(&counts, &passed.what));
    let _session = Session::start(Program::new("sh").args(args), host).unwrap();
    until(|| lines.lock().unwrap().iter().sum::<usize>() == 2).await;
    assert_eq!(*lines.lock().unwrap(), [1, 1]);

    let Document(configuration) =
        serde_json::from_value(json!({"mcpServers": {"local": {"command": "sh", "args": args}}})).unwrap();
    let lines = Arc::<Mutex<Vec<_>>>::default();
    let counts = Arc::clone(&lines);
    let host = Host::new(HubOptions::new(options())).tap(move |passed| count(&counts, &passed.what));
    let _hub = Hub::start(configuration, host).unwrap();
    until(|| lines.lock().unwrap().iter().sum::<usize>() == 2).await;
    assert_eq!(*lines.lock().unwrap(), [1, 1]);
}
