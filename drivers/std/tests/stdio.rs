//! Sessions with real processes: `drivers/tests/server.rs`.
#![allow(missing_docs, clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::host::config::{Endpoint, Entry};
use mcp_proto::{Event, FailureCause, FailureKind, Options, Outcome, Outgoing, RawValue, Request, ShutdownStep};
use mcp_proto_std::{CallErrorKind, Piece, Process, Program, Session};
use serde_json::{Value, json};

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

#[path = "../../tests/system.rs"]
mod system;

use system::is_alive;

fn server() -> Program {
    Program::new(env!("CARGO_BIN_EXE_mcp-proto-std-test-server"))
}

fn connect() -> Session {
    Session::connect(server(), Options::new("test", "1.0")).unwrap()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn calls_have_results_as_text_and_as_values() {
    let mut session = connect();
    assert_eq!(session.catalog().tools().next().unwrap().name, "echo");
    let reply = session.call_tool("echo", &json!({"message": "hi"})).unwrap();
    assert_eq!(reply.text(), "hi");
    assert_eq!(reply.to::<Value>().unwrap()["message"], "hi");
    assert!(!reply.is_error() && session.call_tool("fail", &json!({})).unwrap().is_error());
    let read = session.call(Request::read_resource("test:a")).unwrap();
    assert!(read.raw().get().contains("the content"));
    session.end();
}

#[test]
fn lines_may_end_with_a_carriage_return_too() {
    let mut session = Session::connect(server().arg("crlf"), Options::new("test", "1.0")).unwrap();
    assert_eq!(session.call_tool("echo", &json!({"message": "a\r\nb"})).unwrap().text(), "a\r\nb");
    assert_eq!(session.quirks().len(), 0, "{:?}", session.quirks());
    session.end();
}

#[test]
fn an_error_names_the_server_the_tool_and_the_reason() {
    let mut options = Options::new("test", "1.0");
    options.server = "docs".into();
    let mut session = Session::connect(server(), options).unwrap();
    let unnamed = connect();
    assert!(unnamed.server_name().starts_with("mcp-proto-std-test-server"));
    let error = session.call_tool("nothing", &json!({})).unwrap_err();
    assert_eq!(error.to_string(), "`tools/call nothing` at docs: no such method (-32601)");
    let error = session.call_tool("die", &json!({})).unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{error}");
    // It was started again.
    assert_eq!(session.call_tool("echo", &json!({"message": "there"})).unwrap().text(), "there");
}

#[test]
fn a_call_that_is_lost_with_its_server_says_why_the_server_ended() {
    let status = if cfg!(windows) { "exit code" } else { "exit status" };
    for era in ["serve", "modern"] {
        let mut options = Options::new("test", "1.0");
        options.server = "docs".into();
        let mut session = Session::connect(server().arg(era), options).unwrap();
        let error = session.call_tool("die", &json!({})).unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{era}: {error}");
        let text =
            format!("`tools/call die` at docs: the disk is full ({status} 3); the call was sent, and may have run. ");
        assert!(error.to_string().starts_with(&text), "{era}: {error}");
        let cause = error.cause.unwrap();
        assert_eq!((cause.failure.kind, cause.cause), (FailureKind::Closed, FailureCause::Exited), "{era}");
        session.end();
    }
}

#[test]
fn a_call_without_a_result_ends_at_its_deadline() {
    let mut options = Options::new("test", "1.0");
    options.server = "docs".into();
    let mut session = Session::connect(server(), options).unwrap();
    let wait = Request::call_tool("wait", None).timeout(Duration::from_millis(50));
    let error = session.call(wait).unwrap_err();
    let text =
        "`tools/call` at docs: neither a result nor progress within the timeout; if it was sent, it may have run";
    assert_eq!(error.to_string(), text);
    // The server was told, and the session goes on.
    assert_ne!(session.call_tool("cancelled", &json!({})).unwrap().text(), "[]");
}

#[test]
fn a_failure_has_the_last_words_of_the_server() {
    let mut options = Options::new("test", "1.0");
    options.reconnect = None;
    let error = Session::connect(server().arg("exit"), options.clone()).unwrap_err();
    assert!(error.failure.message.contains("the key is missing"), "{error}");
    let error = Session::connect(Program::new("/nonexistent/server"), options.clone()).unwrap_err();
    assert_eq!(error.failure.kind, FailureKind::Spawn);
    assert!(error.failure.message.contains("/nonexistent/server"), "{error}");
    let there = Program::new("/nonexistent/server").current_dir("/");
    let error = Session::connect(there, options.clone()).unwrap_err();
    assert!(error.failure.message.contains("/nonexistent/server"), "{error}");
    let error = Session::connect(server().current_dir("/nonexistent"), options).unwrap_err();
    assert!(error.failure.message.contains("there is no folder `/nonexistent`"), "{error}");
}

/// The cause of a failure to connect, and how often the program was started.
fn failure(program: Program, timeout: Option<Duration>) -> (FailureCause, u32) {
    let mut options = Options::new("test", "1.0");
    options.timeouts.connect = timeout;
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let program = program.prepare(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let failed = Session::connect(program, options).unwrap_err();
    (failed.cause, starts.load(Ordering::Relaxed))
}

#[test]
fn a_program_that_cannot_be_started_or_says_nothing_fails_once() {
    assert_eq!(failure(Program::new("/nonexistent/server"), None), (FailureCause::CommandNotFound, 1));
    assert_eq!(failure(server().arg("sleep"), Some(Duration::from_millis(50))), (FailureCause::Silent, 1));
}

#[test]
fn the_cause_of_a_failure_is_found_in_what_the_program_said() {
    let missing = server().args(["says", "Error: GITHUB_TOKEN is not set", "1"]);
    assert_eq!(failure(missing, None).0, FailureCause::SettingMissing);
}

#[test]
fn a_program_is_started_again_for_who_is_patient() {
    let mut options = Options::new("test", "1.0");
    options.reconnect.as_mut().unwrap().initial_backoff = Duration::from_millis(1);
    let starts = AtomicU32::new(0);
    let program = server().prepare(move |command| {
        let mode = if starts.fetch_add(1, Ordering::Relaxed) < 2 { "exit" } else { "serve" };
        command.arg(mode);
    });
    Session::connect_patiently(program, options).unwrap().end();
}

#[test]
fn what_the_server_asks_during_a_call_is_declined() {
    let mut options = Options::new("test", "1.0");
    options.capabilities.elicitation = true;
    let mut session = Session::connect(server(), options).unwrap();
    let reply = session.call_tool("ask", &json!({})).unwrap();
    let text = reply.text();
    assert!(text.contains("elicitation/create was declined") && text.contains(r#""code":-1"#), "{text}");
}

#[test]
fn input_that_a_modern_server_requires_is_declined() {
    let mut options = Options::new("test", "1.0");
    options.capabilities.elicitation = true;
    let mut session = Session::connect(server().arg("modern"), options).unwrap();
    // A call that waits for input has no deadline.
    let (sender, called) = mpsc::channel();
    thread::spawn(move || drop(sender.send((session.call_tool("ask", &json!({})), session))));
    let (result, session) = called.recv_timeout(PATIENCE).unwrap();
    let error = result.unwrap_err();
    let CallErrorKind::Ended(Outcome::InputRequired(result)) = &error.kind else { panic!("{error}") };
    assert!(result.get().contains("who?"), "{error}");
    session.end();
}

#[test]
fn a_loop_gets_each_event() {
    let mut session = Session::open(server(), Options::new("test", "1.0"));
    let (mut progress, mut closed) = (Vec::new(), 0);
    while let Some(event) = session.next_event(Some(Instant::now() + PATIENCE)) {
        match event {
            Event::Ready => {
                let count = Request::new("tools/call").progress(true);
                let count =
                    count.with_params(&json!({"name": "count", "arguments": {"to": 3, "pause": 0.15}})).unwrap();
                session.request(count).unwrap();
            }
            Event::Progress { progress: step, .. } => progress.extend(step.progress()),
            Event::Finished { outcome, .. } => {
                assert!(matches!(outcome, Outcome::Result(_)), "{outcome:?}");
                session.close();
                session.close();
            }
            Event::Closed { .. } => closed += 1,
            _ => {}
        }
    }
    assert!(session.client().is_closed());
    assert!(!progress.is_empty() && progress.is_sorted(), "{progress:?}");
    assert_eq!(closed, 1);
}

#[test]
fn a_call_has_its_own_result_though_another_one_ends_before_it() {
    let mut session = connect();
    let other = Request::call_tool("echo", Some(&RawValue::from_string(r#"{"message":"other"}"#.into()).unwrap()));
    session.request(other).unwrap();
    assert_eq!(session.call_tool("echo", &json!({"message": "own"})).unwrap().text(), "own");
    session.end();
}

#[cfg(unix)]
#[test]
fn the_end_of_a_session_lets_its_program_finish() {
    let came = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&came);
    let program =
        Program::new("sh").args(["-c", r#""$0"; echo finished >&2"#, env!("CARGO_BIN_EXE_mcp-proto-std-test-server")]);
    let program = program.stderr(move |piece| sink.lock().unwrap().extend_from_slice(piece));
    Session::connect(program, Options::new("test", "1.0")).unwrap().end();
    assert_eq!(String::from_utf8(came.lock().unwrap().clone()).unwrap(), "finished\n");
}

#[test]
fn waiting_for_an_event_ends_in_time() {
    let mut session = connect();
    let start = Instant::now();
    assert!(session.next_event(Some(start + Duration::from_millis(50))).is_none());
    assert!(start.elapsed() >= Duration::from_millis(50) && !session.client().is_closed());
}

#[test]
fn the_end_of_a_session_is_the_end_of_all_its_processes() {
    for is_dropped in [true, false] {
        let mut session = connect();
        let pid = session.call_tool("echo", &json!({})).unwrap().to::<Value>().unwrap()["pid"].as_u64().unwrap();
        let helper = session.call_tool("helper", &json!({})).unwrap().text().parse().unwrap();
        let pid = u32::try_from(pid).unwrap();
        assert!(is_alive(pid) && is_alive(helper));
        if is_dropped {
            drop(session);
        } else {
            session.end();
        }
        assert!(!is_alive(pid), "dropped: {is_dropped}");
        until("the helper is left", || !is_alive(helper));
    }
}

#[test]
fn a_stubborn_process_is_killed() {
    let mut options = Options::new("test", "1.0");
    options.timeouts.grace = Duration::from_millis(50);
    let mut session = Session::connect(server().arg("stubborn"), options).unwrap();
    let pid = session.call_tool("echo", &json!({})).unwrap().to::<Value>().unwrap()["pid"].as_u64().unwrap();
    session.end();
    assert!(!is_alive(u32::try_from(pid).unwrap()));
}

#[test]
fn thousands_of_calls_that_are_cancelled_while_others_are_written_cost_no_call() {
    const STORM: usize = 10_000;
    let mut options = Options::new("test", "1.0");
    options.limits.queued = STORM;
    let mut session = Session::connect(server(), options).unwrap();
    let in_flight = session.options().limits.in_flight as u64;
    for _ in 0..20 {
        let calls: Vec<_> = (0..STORM).map(|_| session.request(Request::call_tool("wait", None)).unwrap()).collect();
        let mut finished = 0;
        let read = |session: &mut Session| {
            let event = session.next_event(Some(Instant::now()));
            assert!(!matches!(event, Some(Event::Down { .. })), "{event:?}");
            usize::from(matches!(event, Some(Event::Finished { outcome: Outcome::Cancelled, .. })))
        };
        for call in calls {
            // What is in flight goes to the thread that writes.
            finished += read(&mut session);
            let now = session.now();
            session.client().cancel(now, call).unwrap();
        }
        until("a call has no end", || {
            finished += read(&mut session);
            finished == STORM
        });
        assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).unwrap().text(), "hi");
    }
    let waits = session.call_tool("waits", &json!({})).unwrap().to::<Value>().unwrap();
    assert!(waits["open"] == 0 && waits["most"].as_u64().unwrap() <= in_flight, "{waits}");
    session.end();
}

fn message(text: &str) -> Outgoing {
    Outgoing::new(&RawValue::from_string(json!(text).to_string()).unwrap(), None, None)
}

#[test]
fn a_process_that_reads_nothing_is_ended() {
    let mut process = Process::start(&server().arg("deaf")).unwrap();
    // It asked for all of this.
    for _ in 0..300 {
        process.send(&message(&"x".repeat(1 << 16)));
    }
    let closed = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert!(why.contains("it does not read its input: "), "{why}");
    assert!(matches!(process.read_until(None), Some(Piece::Closed { .. })), "it is said again");
}

#[cfg(unix)]
#[test]
fn a_process_that_goes_on_writing_to_its_standard_error_goes_on_showing_that_it_lives() {
    let mut process =
        Process::start(&Program::new("sh").args(["-c", "while echo alive >&2; do sleep 0.1; done"])).unwrap();
    for _ in 0..5 {
        let piece = process.read_until(Some(Instant::now() + PATIENCE));
        assert!(matches!(piece, Some(Piece::SignOfLife)), "{piece:?}");
    }
}

#[test]
fn standard_error_is_passed_on_and_never_blocks_the_server() {
    let came = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&came);
    let program = server().stderr(move |piece| sink.lock().unwrap().extend_from_slice(piece));
    let mut session = Session::connect(program, Options::new("test", "1.0")).unwrap();
    session.call_tool("errors", &json!({"size": 300_000})).unwrap();
    until("standard error", || came.lock().unwrap().len() == 300_001);
}

#[test]
fn a_process_that_exits_while_a_helper_holds_its_output_is_closed() {
    let mut process = Process::start(&server().arg("leaves")).unwrap();
    let output = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Output(bytes)) = output else { panic!("{output:?}") };
    let helper = String::from_utf8(bytes).unwrap().trim().parse().unwrap();
    let closed = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert_eq!(why, if cfg!(windows) { "exit code: 7" } else { "exit status: 7" });
    until("the helper is left", || !is_alive(helper));
}

#[cfg(unix)]
#[test]
fn a_helper_that_ignores_the_end_of_its_process_is_killed_before_that_is_told() {
    let script = "trap '' TERM; sleep 1000 >/dev/null 2>&1 & echo $!";
    let mut process = Process::start(&Program::new("sh").args(["-c", script])).unwrap();
    let output = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Output(bytes)) = output else { panic!("{output:?}") };
    let helper = String::from_utf8(bytes).unwrap().trim().parse().unwrap();
    let closed = process.read_until(Some(Instant::now() + PATIENCE));
    assert!(matches!(closed, Some(Piece::Closed { .. })), "{closed:?}");
    // Not because the process is dropped.
    until("the helper is left", || !is_alive(helper));
    drop(process);
}

#[cfg(unix)]
#[test]
fn the_number_of_a_process_is_that_of_its_program() {
    let mut process = Process::start(&Program::new("sh").args(["-c", "echo $$; exec cat"])).unwrap();
    let output = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Output(bytes)) = output else { panic!("{output:?}") };
    assert_eq!(String::from_utf8(bytes).unwrap().trim(), process.id().to_string());
}

#[test]
fn a_process_that_writes_to_its_standard_error_shows_that_it_lives_and_wakes_who_waits() {
    let (sender, woken) = mpsc::channel();
    let mut process = Process::start_with(&server().args(["says", "hello"]), move || {
        let _ = sender.send(());
    })
    .unwrap();
    woken.recv_timeout(PATIENCE).unwrap();
    let piece = process.try_read();
    assert!(matches!(piece, Some(Piece::SignOfLife)), "{piece:?}");
    assert!(!process.interval().is_zero(), "who waits would not wait");
}

#[test]
fn output_and_its_end_wake_who_waits() {
    let (sender, woken) = mpsc::channel();
    let wake = move || {
        let _ = sender.send(());
    };
    let mut process = Process::start_with(&server().arg("cat"), wake).unwrap();
    process.send(&message("a"));
    woken.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(process.try_read(), Some(Piece::Output(bytes)) if bytes == b"\"a\"\n"));
    process.shut_down(ShutdownStep::CloseInput);
    woken.recv_timeout(PATIENCE).unwrap();
}

#[cfg(unix)]
#[test]
fn a_process_that_closes_its_output_is_ended() {
    let mut process = Process::start(&Program::new("sh").args(["-c", "exec >&-; exec sleep 1000"])).unwrap();
    let closed = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert!(why.starts_with("it closed input or output and did not exit, so it was ended: "), "{why}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_dropped_leaves_nothing_in_the_table_of_processes() {
    let process = Process::start(&server().arg("cat")).unwrap();
    let entry = format!("/proc/{}", process.id());
    assert!(std::fs::exists(&entry).unwrap());
    drop(process);
    assert!(!std::fs::exists(&entry).unwrap());
}

#[cfg(unix)]
#[test]
fn the_last_words_of_a_process_are_no_reason_if_it_was_asked_to_exit() {
    let mut process =
        Process::start(&Program::new("sh").args(["-c", "echo Error: words >&2; echo; exec cat"])).unwrap();
    while !matches!(process.read_until(Some(Instant::now() + PATIENCE)), Some(Piece::Output(_))) {}
    process.shut_down(ShutdownStep::CloseInput);
    loop {
        match process.read_until(Some(Instant::now() + PATIENCE)) {
            Some(Piece::SignOfLife) => {}
            Some(Piece::Closed { why }) => break assert_eq!(why, "exit status: 0"),
            other => panic!("{other:?}"),
        }
    }
}

/// What the command of a program prints.
#[cfg(unix)]
fn printed(program: &Program) -> String {
    String::from_utf8(program.command().output().unwrap().stdout).unwrap()
}

#[cfg(unix)]
#[test]
fn a_program_has_the_variables_and_the_folder_that_it_is_given() {
    // `cargo test` sets the first one.
    let script = r#"printf '%s|%s|%s' "$CARGO_MANIFEST_DIR" "$OWN" "$(pwd)""#;
    let program = Program::new("/bin/sh").args(["-c", script]).env("OWN", "own").current_dir("/");
    let inherited = format!("{}|own|/", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(printed(&program), inherited);
    let alone = program.env_clear();
    assert_eq!(printed(&alone), "|own|/");
    assert_eq!(printed(&alone.env_inherit()), inherited);
    let Endpoint::Stdio(mut stdio) = Entry::stdio("/bin/sh").endpoint else { panic!() };
    stdio.args = vec!["-c".into(), script.into()];
    stdio.env.insert("OWN".into(), "own".into());
    stdio.cwd = Some("/".into());
    assert_eq!(printed(&Program::from(&stdio)), "|own|/");
}

#[cfg(unix)]
#[test]
fn what_was_sent_before_an_event_is_written_when_the_event_is_told() {
    let folder = std::env::temp_dir().join(format!("mcp-proto-std-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sent");
    let script = r#"tee "$1" | "$0""#;
    let program = Program::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_mcp-proto-std-test-server")]).arg(&file);
    let mut session = Session::connect(program, Options::new("test", "1.0")).unwrap();
    let sent = |what: &str| std::fs::read_to_string(&file).unwrap().contains(what);
    let call = session.request(Request::call_tool("wait", None)).unwrap();
    assert!(session.next_event(Some(Instant::now())).is_none());
    until("the call is not sent", || sent("tools/call"));
    let now = session.now();
    session.client().cancel(now, call).unwrap();
    let event = session.next_event(Some(Instant::now()));
    assert!(matches!(event, Some(Event::Finished { outcome: Outcome::Cancelled, .. })), "{event:?}");
    // Whatever is done with the event.
    until("the cancellation is not sent", || sent("notifications/cancelled"));
    session.end();
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(unix)]
#[test]
fn a_process_that_closes_its_input_is_ended() {
    let program = Program::new("sh").args(["-c", "exec <&-; echo closed; exec sleep 1000"]);
    let mut process = Process::start(&program).unwrap();
    let output = process.read_until(Some(Instant::now() + PATIENCE));
    assert!(matches!(output, Some(Piece::Output(_))), "{output:?}");
    process.send(&message("a"));
    let closed = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
    assert!(why.contains("Broken pipe"), "{why}");
}

#[test]
fn steps_of_a_shutdown_end_a_process() {
    for step in [ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill] {
        let mut process = Process::start(&server().arg("cat")).unwrap();
        process.send(&message("a"));
        assert!(matches!(process.read_until(None), Some(Piece::Output(bytes)) if bytes == b"\"a\"\n"));
        process.shut_down(step);
        assert!(matches!(process.read_until(None), Some(Piece::Closed { .. })), "{step:?}");
    }
}
