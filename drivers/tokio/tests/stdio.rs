//! Sessions with real processes: `drivers/tests/server.rs`.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::validation::{ValidationError, Validator};
use mcp_proto::{
    Event, FailureCause, FailureKind, Options, Outcome, Outgoing, RawValue, Request, ServerMethod, ShutdownStep,
};
use mcp_proto_tokio::{Call, CallErrorKind, Elicited, Host, Piece, Process, Program, Session, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

#[path = "../../tests/system.rs"]
mod system;

use system::is_alive;

fn server() -> Program {
    Program::new(env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server"))
}

fn options() -> Options {
    let mut options = Options::new("test", "1.0");
    options.server = "docs".into();
    options
}

async fn connect() -> Session {
    Session::connect(server(), options()).await.unwrap()
}

#[derive(Deserialize)]
struct Echo {
    message: String,
    pid: u32,
}

async fn pid(session: &Session) -> u32 {
    session.call_tool("echo", &json!({})).await.unwrap().to::<Echo>().unwrap().pid
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "{what}");
}

#[tokio::test]
async fn arguments_and_results_have_types() {
    #[derive(Serialize)]
    struct Message {
        message: &'static str,
    }

    let session = connect().await;
    assert_eq!(session.catalog().tools().next().unwrap().name, "echo");
    let reply = session.call_tool("echo", &Message { message: "hi" }).await.unwrap();
    assert_eq!((&*reply.text(), reply.to::<Echo>().unwrap().message.as_str()), ("hi", "hi"));
    assert!(session.call_tool("fail", &json!({})).await.unwrap().is_error());
    let read = session.read_resource("test:a").await.unwrap();
    assert!(read.raw().get().contains("the content"));
    let prompt = session.get_prompt("greet", [("who", "Ada")]).await.unwrap();
    assert!(prompt.raw().get().contains("hello, Ada"));
    session.close().await;
    assert_eq!(session.status(), Status::Closed(None));
    let error = session.call_tool("echo", &json!({})).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Refused(_)), "{error}");
}

#[tokio::test]
async fn lines_may_end_with_a_carriage_return_too() {
    let session = Session::connect(server().arg("crlf"), options()).await.unwrap();
    assert_eq!(session.call_tool("echo", &json!({"message": "a\r\nb"})).await.unwrap().text(), "a\r\nb");
    session.close().await;
}

#[tokio::test]
async fn calls_run_at_the_same_time() {
    let session = connect().await;
    let slow = session.start_tool("wait", &json!({})).unwrap();
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    session.close().await;
    let error = timeout(PATIENCE, slow).await.unwrap().unwrap_err();
    assert!(error.to_string().starts_with("`tools/call wait` at docs: "), "{error}");
}

#[tokio::test]
async fn an_error_names_the_server_the_tool_and_the_reason() {
    let session = connect().await;
    let error = session.call_tool("nothing", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "`tools/call nothing` at docs: no such method (-32601)");
    let wait = Request::call_tool("wait", None).timeout(Duration::from_millis(50));
    let error = session.request(wait).await.unwrap_err();
    assert!(error.to_string().contains("neither a result nor progress within the timeout"), "{error}");
    let error = session.call_tool("die", &json!({})).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{error}");
    // It was started again.
    assert_eq!(session.call_tool("echo", &json!({"message": "there"})).await.unwrap().text(), "there");
}

#[tokio::test]
async fn a_call_that_is_lost_with_its_server_says_why_the_server_ended() {
    let status = if cfg!(windows) { "exit code" } else { "exit status" };
    for era in ["serve", "modern"] {
        let session = Session::connect(server().arg(era), options()).await.unwrap();
        let error = timeout(PATIENCE, session.call_tool("die", &json!({}))).await.unwrap().unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{era}: {error}");
        let text =
            format!("`tools/call die` at docs: the disk is full ({status} 3); the call was sent, and may have run. ");
        assert!(error.to_string().starts_with(&text), "{era}: {error}");
        let cause = error.cause.unwrap();
        assert_eq!((cause.failure.kind, cause.cause), (FailureKind::Closed, FailureCause::Exited), "{era}");
        session.close().await;
    }
}

#[tokio::test]
async fn a_failure_has_the_last_words_of_the_server() {
    let mut options = options();
    options.reconnect = None;
    let error = Session::connect(server().arg("exit"), options.clone()).await.unwrap_err();
    assert!(error.failure.message.contains("the key is missing"), "{error}");
    let error = Session::connect(Program::new("/nonexistent/server"), options).await.unwrap_err();
    assert_eq!(error.failure.kind, FailureKind::Spawn);
    assert!(error.failure.message.contains("/nonexistent/server"), "{error}");
}

#[tokio::test]
async fn a_server_that_asks_and_never_reads_is_ended_with_that_reason() {
    let mut options = options();
    options.reconnect = None;
    let session = Session::connect(server().arg("floods"), options);
    let error = timeout(PATIENCE, session).await.unwrap().unwrap_err();
    // It exits by itself once nobody takes its output, with words about that.
    assert!(error.failure.message.contains("it does not read its input"), "{error}");
}

#[tokio::test]
async fn a_program_that_writes_all_the_time_leaves_others_their_turn() {
    let (pieces, turns) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0_u32)));
    let (taken, turn) = (Arc::clone(&pieces), Arc::clone(&turns));
    let process = Process::start(&server().arg("zeros"), move |_| {
        taken.lock().unwrap().push(*turn.lock().unwrap());
        std::future::ready(())
    });
    let process = process.unwrap();
    while pieces.lock().unwrap().len() < 500 {
        *turns.lock().unwrap() += 1;
        tokio::task::yield_now().await;
    }
    let pieces = pieces.lock().unwrap();
    let most = pieces.chunk_by(PartialEq::eq).map(<[u32]>::len).max().unwrap();
    assert!(most <= 2, "{most} pieces between two turns of another task");
    drop(process);
}

#[tokio::test]
async fn a_session_that_gave_up_says_so_and_can_be_opened_again() {
    let session = Session::start(Program::new("/nonexistent/server"), options()).unwrap();
    assert_eq!(session.ready().await.unwrap_err().failure.kind, FailureKind::Spawn);
    assert!(matches!(session.status(), Status::Parked(_)));
    let error = session.call_tool("echo", &json!({"message": "there"})).await.unwrap_err();
    assert!(
        matches!(error.kind, CallErrorKind::Down(_)) && error.to_string().contains("/nonexistent/server"),
        "{error}"
    );
    session.open().unwrap();
    assert_eq!(session.ready().await.unwrap_err().failure.kind, FailureKind::Spawn);
    session.close().await;
}

#[tokio::test]
async fn progress_is_a_stream_that_ends_with_the_call() {
    let session = connect().await;
    let call = session.start_tool("count", &json!({"to": 3, "pause": 0.15})).unwrap();
    let mut progress = call.progress();
    let steps = tokio::spawn(async move {
        let mut steps = Vec::new();
        while let Some(step) = progress.next().await {
            steps.extend(step.progress());
        }
        steps
    });
    assert_eq!(call.await.unwrap().text(), "counted");
    let steps = timeout(PATIENCE, steps).await.unwrap().unwrap();
    assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled() {
    let session = connect().await;
    assert!(timeout(Duration::from_millis(50), session.call_tool("wait", &json!({}))).await.is_err());
    assert_ne!(session.call_tool("cancelled", &json!({})).await.unwrap().text(), "[]");
}

#[tokio::test]
async fn requests_of_the_server_are_answered_by_handlers() {
    let host = Host::new(options())
        .elicitation(|ask| async move {
            sleep(Duration::from_millis(10)).await;
            Elicited::Accept(json!({"name": format!("{} {}", ask.elicitation().message, ask.server)}))
        })
        .sampling(|ask| async move {
            assert_eq!(ask.method, ServerMethod::Sampling);
            assert_eq!(ask.sampling().max_tokens, Some(9));
            Err(ErrorObject::new(-1, "there is no model"))
        });
    let session = Session::connect(server(), host).await.unwrap();
    let answer = session.call_tool("ask", &json!({})).await.unwrap().into_text();
    assert_eq!(answer, r#"{"action":"accept","content":{"name":"who? docs"}}"#);
    let answer = session.call_tool("sample", &json!({})).await.unwrap().into_text();
    assert!(answer.contains("there is no model"), "{answer}");
}

#[tokio::test]
async fn a_handler_checks_a_form_before_it_answers() {
    let host = Host::new(options()).elicitation(|ask| async move {
        let (asked, mut content) = (ask.elicitation(), json!({}));
        loop {
            match asked.check(&Anything, &content) {
                Ok(()) => return Elicited::Accept(content),
                Err(error) => content = json!({error.field().unwrap(): error.to_string()}),
            }
        }
    });
    let session = Session::connect(server(), host).await.unwrap();
    let answer = session.call_tool("ask", &json!({})).await.unwrap().into_text();
    assert_eq!(answer, r#"{"action":"accept","content":{"name":"`name` is required"}}"#);
}

/// A validator that finds nothing.
struct Anything;

impl Validator for Anything {
    fn validate(&self, _: &RawValue, _: &RawValue) -> Result<(), ValidationError> {
        Ok(())
    }
}

#[cfg(feature = "journal")]
#[tokio::test]
async fn a_session_is_recorded_without_the_secrets_that_were_named() {
    use mcp_proto::journal::{JournalLimits, replay};

    let host = Host::new(options()).record(JournalLimits::default());
    let session = Session::connect(server(), host).await.unwrap();
    let first = session.journal();
    session.hide("a secret word").unwrap();
    session.call_tool("echo", &json!({"message": "a secret word"})).await.unwrap();
    session.close().await;
    let journal = [first, session.finish_journal()].concat();
    assert!(journal.contains("tools/call") && !journal.contains("a secret word"), "{journal}");
    assert!(session.journal().is_empty());
    let replayed = replay(journal.as_bytes(), JournalLimits::default()).unwrap();
    assert!(replayed.actions > 5, "{replayed:?}");

    let session = connect().await;
    session.close().await;
    assert!(session.journal().is_empty());
}

#[cfg(feature = "snapshot")]
#[tokio::test]
async fn a_suspended_session_starts_its_program_again() {
    use mcp_proto::Secrets;

    let session = connect().await;
    let first = pid(&session).await;
    let snapshot = session.suspend(Secrets::Included).await;
    assert!(!is_alive(first));
    assert_eq!(session.status(), Status::Closed(None));
    #[cfg(feature = "journal")]
    {
        let recorded = mcp_proto_tokio::Host::new(options()).record(mcp_proto::journal::JournalLimits::default());
        let refused = Session::restore(server(), recorded, &snapshot).unwrap_err();
        assert!(refused.to_string().starts_with("it cannot be recorded: it is restored"), "{refused}");
    }
    let session = Session::restore(server(), options(), &snapshot).unwrap();
    assert!(session.catalog().tool("echo").is_some());
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
    assert_ne!(pid(&session).await, first);
    session.close().await;

    let parked = Session::start(Program::new("/nonexistent/server"), options()).unwrap();
    parked.ready().await.unwrap_err();
    let snapshot = parked.suspend(Secrets::Included).await;
    let session = Session::restore(server(), options(), &snapshot).unwrap();
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_handler_that_panics_answers_with_an_error() {
    let host = Host::new(options()).elicitation(|_| async { panic!("a test") });
    let session = Session::connect(server(), host).await.unwrap();
    let answer = session.call_tool("ask", &json!({})).await.unwrap().into_text();
    assert!(answer.contains("the client failed to answer"), "{answer}");
}

#[tokio::test]
async fn events_go_to_each_stream() {
    let session = connect().await;
    let (mut events, mut others) = (session.events(), session.events());
    session.call_tool("add-tool", &json!({})).await.unwrap();
    for events in [&mut events, &mut others] {
        let changed = async {
            while let Some(event) = events.next().await {
                if let Event::CatalogChanged { difference, .. } = event {
                    return difference.added;
                }
            }
            panic!("the events ended");
        };
        assert_eq!(timeout(PATIENCE, changed).await.unwrap(), ["added".into()]);
    }
    session.close().await;
    while events.next().await.is_some() {}
    assert!(session.events().next().await.is_none());
}

#[tokio::test]
async fn the_end_of_a_session_is_the_end_of_all_its_processes() {
    for is_dropped in [true, false] {
        let session = connect().await;
        let pid = pid(&session).await;
        let helper = session.call_tool("helper", &json!({})).await.unwrap().text().parse().unwrap();
        assert!(is_alive(pid) && is_alive(helper));
        if is_dropped {
            drop(session);
        } else {
            session.close().await;
            assert!(!is_alive(pid));
        }
        until("a process is left", || !is_alive(pid) && !is_alive(helper)).await;
    }
}

#[test]
fn the_end_of_the_runtime_is_the_end_of_all_processes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let session = runtime.block_on(connect());
    let pid = runtime.block_on(pid(&session));
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until("the process is left", || !is_alive(pid)));
    drop(session);
}

#[tokio::test]
async fn a_stubborn_process_is_killed() {
    let mut options = options();
    options.timeouts.grace = Duration::from_millis(50);
    let session = Session::connect(server().arg("stubborn"), options).await.unwrap();
    let pid = pid(&session).await;
    session.close().await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn standard_error_is_passed_on_and_never_blocks_the_server() {
    let came = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&came);
    let program = server().stderr(move |piece| sink.lock().unwrap().extend_from_slice(piece));
    let session = Session::connect(program, options()).await.unwrap();
    session.call_tool("errors", &json!({"size": 300_000})).await.unwrap();
    until("standard error", || came.lock().unwrap().len() == 300_001).await;
}

fn start(program: &Program) -> (Process, mpsc::Receiver<Piece>) {
    let (sender, pieces) = mpsc::channel(16);
    let process = Process::start(program, move |piece| {
        let sender = sender.clone();
        async move { drop(sender.send(piece).await) }
    });
    (process.unwrap(), pieces)
}

fn message(text: &str) -> Outgoing {
    Outgoing::new(&RawValue::from_string(json!(text).to_string()).unwrap(), None, None)
}

/// What the server had of calls of `wait`.
#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Waits {
    all: usize,
    open: usize,
    /// At a time.
    most: usize,
}

async fn waits(session: &Session) -> Waits {
    let counted = timeout(PATIENCE, session.call_tool("waits", &json!({}))).await.unwrap();
    counted.unwrap().to().unwrap()
}

/// A session that takes this many calls at once, and them.
const STORM: usize = 10_000;

async fn stormy() -> Session {
    let mut options = options();
    options.limits.queued = STORM;
    Session::connect(server(), options).await.unwrap()
}

fn start_waits(session: &Session, count: usize) -> Vec<Call> {
    (0..count).map(|_| session.start_tool("wait", &json!({})).unwrap()).collect()
}

#[tokio::test]
async fn thousands_of_calls_that_are_dropped_at_once_do_not_reach_the_server() {
    let session = stormy().await;
    let pid = pid(&session).await;
    let kept = session.start_tool("echo", &json!({"message": "kept"})).unwrap();
    for _ in 0..20 {
        drop(start_waits(&session, STORM));
    }
    assert_eq!(timeout(PATIENCE, kept).await.unwrap().unwrap().text(), "kept");
    assert_eq!(waits(&session).await, Waits { all: 0, open: 0, most: 0 });
    assert_eq!(self::pid(&session).await, pid);
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_calls_that_are_dropped_while_others_are_written_cost_no_call() {
    let session = stormy().await;
    let in_flight = session.inspect(|engine| engine.options().limits.in_flight);
    let (mut events, pid) = (session.events(), pid(&session).await);
    for _ in 0..20 {
        let (first, last) = (start_waits(&session, STORM / 2), start_waits(&session, STORM / 2));
        let kept = session.start_tool("echo", &json!({"message": "kept"})).unwrap();
        // From both ends, by two threads.
        let drops = [
            tokio::spawn(async move { drop(first) }),
            tokio::spawn(async move { last.into_iter().rev().for_each(drop) }),
        ];
        assert_eq!(timeout(PATIENCE, kept).await.unwrap().unwrap().text(), "kept");
        for dropped in drops {
            dropped.await.unwrap();
        }
    }
    let Waits { all, open, most } = waits(&session).await;
    println!("{all} of {} calls reached the server, {most} at a time", 20 * STORM);
    assert!(open == 0 && most <= in_flight, "{open} calls are open, and {most} were at a time");
    assert_eq!(self::pid(&session).await, pid);
    session.close().await;
    while let Some(event) = events.next().await {
        assert!(!matches!(event, Event::Down { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn a_process_that_reads_nothing_is_ended() {
    let (mut process, mut pieces) = start(&server().arg("deaf"));
    // It asked for all of this.
    for _ in 0..300 {
        process.send(&message(&"x".repeat(1 << 16)));
    }
    let closed = timeout(PATIENCE, pieces.recv()).await.unwrap();
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert!(why.contains("it does not read its input: "), "{why}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_closes_its_input_is_ended() {
    let (mut process, mut pieces) = start(&Program::new("sh").args(["-c", "exec <&-; echo closed; exec sleep 1000"]));
    let output = timeout(PATIENCE, pieces.recv()).await.unwrap();
    assert!(matches!(output, Some(Piece::Output(_))), "{output:?}");
    process.send(&message("a"));
    let closed = timeout(PATIENCE, pieces.recv()).await.unwrap();
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert!(why.contains("Broken pipe"), "{why}");
}

#[tokio::test]
async fn a_process_that_exits_while_a_helper_holds_its_output_is_closed() {
    let (_process, mut pieces) = start(&server().arg("leaves"));
    let output = timeout(PATIENCE, pieces.recv()).await.unwrap();
    let Some(Piece::Output(bytes)) = output else { panic!("{output:?}") };
    let helper = String::from_utf8(bytes).unwrap().trim().parse().unwrap();
    let closed = timeout(PATIENCE, pieces.recv()).await.unwrap();
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert_eq!(why, if cfg!(windows) { "exit code: 7" } else { "exit status: 7" });
    until("the helper is left", || !is_alive(helper)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_descendant_in_a_session_of_its_own_is_neither_ended_nor_waited_for() {
    let server = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");
    // It holds all pipes.
    let start = format!("exec 3<&0; setsid sh -c 'echo $$ >&2; exec sleep 1000' <&3 & exec '{server}'");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let program =
        Program::new("sh").args(["-c", &start]).stderr(move |piece| hears.lock().unwrap().extend_from_slice(piece));
    let session = Session::connect(program, options()).await.unwrap();
    let server = pid(&session).await;
    until("it says nothing", || heard.lock().unwrap().ends_with(b"\n")).await;
    timeout(PATIENCE, session.close()).await.unwrap();
    let descendant = String::from_utf8(heard.lock().unwrap().clone()).unwrap().trim().parse().unwrap();
    assert!(!is_alive(server) && is_alive(descendant));
    assert!(std::process::Command::new("kill").arg(descendant.to_string()).status().unwrap().success());
}

#[tokio::test]
async fn steps_of_a_shutdown_end_a_process() {
    for step in [ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill] {
        let (mut process, mut pieces) = start(&server().arg("cat"));
        process.send(&message("a"));
        assert!(matches!(pieces.recv().await, Some(Piece::Output(bytes)) if bytes == b"\"a\"\n"));
        process.shut_down(step);
        assert!(matches!(pieces.recv().await, Some(Piece::Closed { .. })), "{step:?}");
    }
}
