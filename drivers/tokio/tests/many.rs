//! What many processes take, in a process of its own: threads and descriptors. `.ci/kills` runs it with many more.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_proto::{Options, Outcome};
use mcp_proto_tokio::{CallErrorKind, Program, Session};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sessions whose servers are killed at the same time.
const SESSIONS: usize = 40;

#[derive(Deserialize)]
struct Processes {
    server: i32,
    parent: i32,
}

/// A number for a run that is larger or smaller.
fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |number| number.parse().unwrap())
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{folder}")).unwrap().count()
}

/// The last argument of each server, which no other process has.
fn mark() -> String {
    format!("server-of-{}", std::process::id())
}

/// The servers and their wrappers, whoever their parent is by now; and children that were not waited for.
fn processes() -> usize {
    let (own, mark) = (format!(" {} ", std::process::id()), mark());
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let is_server = |folder: &std::fs::DirEntry| {
        let read = |file| std::fs::read_to_string(folder.path().join(file)).unwrap_or_default();
        // After the name in parentheses: state, parent.
        read("cmdline").contains(&mark)
            || read("stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.get(1..).unwrap().starts_with(&own))
    };
    folders.filter(is_server).count()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "{what}");
}

/// A server that a wrapper starts, as `npx` does.
async fn connect() -> Session {
    let server = Program::new(env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server")).args(["wrapped", mark().as_str()]);
    let mut options = Options::new("test", "1.0");
    options.reconnect.as_mut().unwrap().max_backoff = Duration::from_millis(10);
    Session::connect(server, options).await.unwrap()
}

async fn servers(session: &Session) -> Processes {
    session.call_tool("processes", &json!({})).await.unwrap().to().unwrap()
}

/// Kills the server, its wrapper, or both in mid-call, so many times.
async fn killed(session: Session, kills: usize) {
    let mut known = servers(&session).await;
    for round in 0..kills {
        let call = session.start_tool("wait", &json!({})).unwrap();
        assert!(call.progress().next().await.is_some());
        let (server, wrapper) = (Pid::from_raw(known.server), Pid::from_raw(known.parent));
        match round % 3 {
            0 => kill(server, Signal::SIGKILL),
            1 => kill(wrapper, Signal::SIGKILL),
            _ => killpg(wrapper, Signal::SIGKILL),
        }
        .unwrap();
        let error = call.await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{error}");
        let next = servers(&session).await;
        assert_ne!((next.server, next.parent), (known.server, known.parent));
        known = next;
    }
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn processes_take_no_thread_each_and_leave_nothing() {
    let (kills, quiet) = (number("MCP_KILLS", 60), number("MCP_QUIET", 200));
    connect().await.close().await;
    let (threads, descriptors) = (count("task"), count("fd"));
    assert_eq!(processes(), 0);

    let mut sessions = JoinSet::new();
    for _ in 0..quiet {
        sessions.spawn(connect());
    }
    let sessions = sessions.join_all().await;
    assert_eq!(processes(), 2 * quiet);
    servers(sessions.last().unwrap()).await;
    assert_eq!(count("task"), threads);
    println!(
        "{quiet} quiet servers: {threads} threads, one of them the test harness's, and {} descriptors",
        count("fd")
    );
    drop(sessions);
    until("a process is left", || processes() == 0).await;
    until("a descriptor is left", || count("fd") <= descriptors).await;

    let mut sessions = JoinSet::new();
    for number in 0..SESSIONS {
        let kills = (kills + number) / SESSIONS;
        sessions.spawn(async move { killed(connect().await, kills).await });
    }
    sessions.join_all().await;
    until("a process is left", || processes() == 0).await;
    until("a descriptor is left", || count("fd") <= descriptors).await;
    assert_eq!(count("task"), threads);
    println!(
        "{kills} kills: {} processes and {} descriptors are left",
        processes(),
        count("fd").saturating_sub(descriptors)
    );
}
