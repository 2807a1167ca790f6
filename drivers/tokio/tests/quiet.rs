//! Many quiet servers in one process, on each system: they take no thread each.
#![cfg(any(target_os = "linux", windows))]
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use mcp_proto::Options;
use mcp_proto_tokio::{Program, Session};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

#[path = "../../tests/system.rs"]
mod system;

use system::{alive, threads};

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(300);
/// On Windows more than those whose pipes the threads of tokio's pool could read; elsewhere as many as the usual limit of open
/// files allows. MCP_QUIET is another number.
const SERVERS: usize = if cfg!(windows) { 300 } else { 200 };
/// Windows itself waits for the exit of 63 processes on one thread.
const PROCESSES_OF_A_THREAD: usize = 63;

async fn connect() -> Session {
    let server = Program::new(env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server"));
    timeout(PATIENCE, Session::connect(server, Options::new("test", "1.0"))).await.unwrap().unwrap()
}

async fn pid(session: &Session) -> u32 {
    let reply = session.call_tool("processes", &json!({})).await.unwrap();
    let of: serde_json::Value = reply.to().unwrap();
    of.get("server").and_then(serde_json::Value::as_u64).unwrap().try_into().unwrap()
}

#[test]
fn hundreds_of_quiet_servers_take_no_thread_each() {
    let servers = std::env::var("MCP_QUIET").map_or(SERVERS, |number| number.parse().unwrap());
    // Whatever waits on a thread of this pool waits for ever.
    let runtime = Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        connect().await.close().await;
        let before = threads();
        let start = Instant::now();
        let mut connecting = JoinSet::new();
        let mut sessions = Vec::new();
        for number in 0..servers {
            connecting.spawn(connect());
            // Not all start at once, which takes the system too long.
            if number >= 16 {
                sessions.push(connecting.join_next().await.unwrap().unwrap());
            }
        }
        sessions.extend(connecting.join_all().await);
        let took = start.elapsed();
        let mut pids = Vec::new();
        for session in &sessions {
            pids.push(pid(session).await);
        }
        let after = threads();
        println!("{servers} quiet servers after {took:.1?}: {before} threads before, {after} with them");
        let own = if cfg!(windows) { servers.div_ceil(PROCESSES_OF_A_THREAD) + 2 } else { 0 };
        assert!(after <= before + own, "{before} threads before, {after} with {servers} servers");
        let mut closing = JoinSet::new();
        for session in sessions {
            closing.spawn(async move { session.close().await });
        }
        timeout(PATIENCE, closing.join_all()).await.unwrap();
        assert!(alive(&pids).is_empty(), "servers are left");
    });
}
