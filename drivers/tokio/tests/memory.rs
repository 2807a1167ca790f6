//! Memory of calls that a server does not read, in a process of its own.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_proto::{Options, Request};
use mcp_proto_tokio::{Program, Session};
use peak_alloc::PeakAlloc;
use serde_json::json;
use tokio::time::timeout;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Calls that are accepted, of 8 MiB each. A debug build takes a quarter of a second for each.
const CALLS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_calls_to_a_server_that_does_not_read_take_no_memory() {
    let server = Program::new(env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server")).arg("mute");
    let session = Session::connect(server, Options::new("test", "1.0")).await.unwrap();
    let arguments = serde_json::value::to_raw_value(&json!({"text": "x".repeat(8 << 20)})).unwrap();
    let request = Request::call_tool("wait", Some(&arguments));
    drop(arguments);
    // One after the other.
    for _ in 0..CALLS {
        let call = session.start_request(request.clone()).unwrap();
        // The task that writes has its turn.
        tokio::task::yield_now().await;
        drop(call);
    }
    let peak = MEMORY.peak_usage();
    assert!(peak < 100_000_000, "{peak} bytes");
    // All at once: those over the limit of bytes are refused.
    let start = || session.start_request(request.clone());
    let (calls, refused): (Vec<_>, Vec<_>) = (0..1100).map(|_| start()).partition(Result::is_ok);
    assert_eq!((calls.len(), refused.len()), (8, 1092));
    drop(calls);
    drop(start().unwrap());
    let peak = MEMORY.peak_usage();
    assert!(peak < 200_000_000, "{peak} bytes");
    timeout(PATIENCE, session.close()).await.unwrap();
}
