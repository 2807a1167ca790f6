//! A descendant in a session of its own, in a process of its own: it counts threads.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_proto::{Options, Outgoing, RawValue};
use mcp_proto_std::{Piece, Process, Program, Session};
use serde_json::json;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a descendant that holds all pipes and writes its number to this output, and goes on as another program.
fn program(output: &str, rest: &str) -> Program {
    let script = format!("exec 3<&0; setsid sh -c 'echo $$ >&{output}; exec sleep 1000' <&3 & exec {rest}");
    Program::new("sh").args(["-c", &script])
}

/// The threads of processes.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("server ")).collect()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Nothing of the driver is left, and the descendant is, which ends here.
fn check(descendant: &str) {
    until("a thread is left", || threads().is_empty());
    assert!(Command::new("kill").arg(descendant.trim()).status().unwrap().success());
}

#[test]
fn a_descendant_in_a_session_of_its_own_keeps_no_thread() {
    let server = env!("CARGO_BIN_EXE_mcp-proto-std-test-server");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let program_of_session = program("2", server).stderr(move |piece| hears.lock().unwrap().extend_from_slice(piece));
    let mut session = Session::connect(program_of_session, Options::new("test", "1.0")).unwrap();
    session.call_tool("processes", &json!({})).unwrap();
    assert_eq!(threads().len(), 3);
    until("it says nothing", || heard.lock().unwrap().ends_with(b"\n"));
    session.end();
    check(std::str::from_utf8(&heard.lock().unwrap()).unwrap());

    let mut process = Process::start(&program("1", "sleep 1000")).unwrap();
    let output = process.read_until(Some(Instant::now() + PATIENCE));
    let Some(Piece::Output(descendant)) = output else { panic!("{output:?}") };
    // More than a pipe takes: the thread that writes waits, too.
    let message = RawValue::from_string(json!("x".repeat(1 << 20)).to_string()).unwrap();
    process.send(&Outgoing::new(&message, None, None));
    drop(process);
    check(std::str::from_utf8(&descendant).unwrap());
}
