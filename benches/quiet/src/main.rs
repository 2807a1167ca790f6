//! Quiet servers over stdio in one process, and the threads that they take: `mcp-proto-quiet ours|rmcp SERVERS PROGRAM`.
//! A server that is not ready, or lists no tools, within a minute ends it.
#![allow(missing_docs, reason = "a program")]

use std::time::{Duration, Instant};

use mcp_proto::Options;
use mcp_proto_tokio::{Program, Session};
use rmcp::ServiceExt;
use rmcp::transport::TokioChildProcess;
use tokio::process::Command;
use tokio::time::timeout;

#[path = "../../../drivers/tests/system.rs"]
mod system;

use system::threads;

type Failure = Box<dyn std::error::Error>;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [client, servers, program] = args.as_slice() else { return Err("see the first lines of main.rs".into()) };
    let servers = servers.parse()?;
    match client.as_str() {
        "ours" => {
            let connect = || async { Ok(Session::connect(Program::new(program), Options::new("quiet", "1")).await?) };
            let list = |session: Session| async move {
                session.call_tool("echo", &serde_json::json!({})).await?;
                Ok(session)
            };
            measure(client, servers, connect, list).await
        }
        "rmcp" => {
            let connect = || async { Ok(().serve(TokioChildProcess::new(Command::new(program))?).await?) };
            let list = |client: rmcp::service::RunningService<rmcp::RoleClient, ()>| async move {
                client.list_tools(None).await?;
                Ok(client)
            };
            measure(client, servers, connect, list).await
        }
        other => Err(format!("`{other}` is neither `ours` nor `rmcp`").into()),
    }
}

/// Connects to one server after the other, and then makes a call to each.
async fn measure<C, F: Future<Output = Result<C, Failure>>, G: Future<Output = Result<C, Failure>>>(
    client: &str,
    servers: usize,
    connect: impl Fn() -> F,
    call: impl Fn(C) -> G,
) -> Result<(), Failure> {
    let (before, start) = (threads(), Instant::now());
    let mut connected = Vec::new();
    for number in 0..servers {
        match timeout(PATIENCE, connect()).await {
            Ok(session) => connected.push(session?),
            Err(_) => return Err(format!("{client}: server {number} is not ready, at {} threads", threads()).into()),
        }
    }
    let took = start.elapsed();
    // All at rest.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = threads();
    let mut sessions = Vec::new();
    for session in connected {
        sessions.push(timeout(PATIENCE, call(session)).await??);
    }
    println!("{client}: {servers} servers after {took:.1?}: {before} threads before, {after} with them");
    // Their programs end with this one.
    std::process::exit(0);
}
