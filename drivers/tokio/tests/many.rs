//! What many processes take, in a process of its own: threads and descriptors.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_proto::Options;
use mcp_proto_tokio::{Process, Program, Session};
use serde_json::json;
use tokio::time::{sleep, timeout};

fn count(folder: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{folder}")).unwrap().count()
}

/// Processes that this one has not waited for, by the name of their program.
fn children() -> usize {
    let own = format!(" {} ", std::process::id());
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let states = folders.filter_map(|folder| std::fs::read_to_string(folder.path().join("stat")).ok());
    // After the name in parentheses: state, parent.
    states
        .filter(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.get(1..).unwrap().starts_with(&own)))
        .count()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(Duration::from_secs(60), waiting).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn processes_take_no_thread_each_and_leave_nothing() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/server.py");
    let mut options = Options::new("test", "1.0");
    options.reconnect.as_mut().unwrap().max = Duration::from_millis(10);
    let session = Session::connect(Program::new("python3").arg(script), options).await.unwrap();
    let (threads, descriptors, known) = (count("task"), count("fd"), children());
    let quiet: Vec<_> =
        (0..200).map(|_| Process::start(&Program::new("cat"), |_| std::future::ready(())).unwrap()).collect();
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    assert!(children() >= known + 200);
    assert_eq!(count("task"), threads);
    drop(quiet);
    for _ in 0..20 {
        session.call_tool("die", &json!({})).await.unwrap_err();
        session.call_tool("echo", &json!({})).await.unwrap();
    }
    until("a process is left", || children() == known).await;
    until("a descriptor is left", || count("fd") <= descriptors).await;
    session.close().await;
    assert_eq!(children(), 0);
}
