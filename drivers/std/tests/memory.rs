//! Memory of calls that a server does not read, in a process of its own.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::Instant;

use mcp_proto::{Event, Options, Outcome, Request};
use mcp_proto_std::{Program, Session};
use peak_alloc::PeakAlloc;
use serde_json::json;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Calls that are accepted, of 8 MiB each. A debug build takes a quarter of a second for each.
const CALLS: usize = 16;

#[test]
fn large_calls_to_a_server_that_does_not_read_take_no_memory() {
    let server = Program::new(env!("CARGO_BIN_EXE_mcp-proto-std-test-server")).arg("mute");
    let mut session = Session::connect(server, Options::new("test", "1.0")).unwrap();
    let arguments = serde_json::value::to_raw_value(&json!({"text": "x".repeat(8 << 20)})).unwrap();
    let request = Request::call_tool("wait", Some(&arguments));
    drop(arguments);
    // One after the other.
    for _ in 0..CALLS {
        let call = session.request(request.clone()).unwrap();
        // It goes to the thread that writes.
        while session.next_event(Some(Instant::now())).is_some() {}
        let now = session.now();
        session.client().cancel(now, call).unwrap();
        let ended = session.next_event(None);
        assert!(
            matches!(&ended, Some(Event::Finished { request, outcome: Outcome::Cancelled, .. }) if *request == call),
            "{ended:?}"
        );
    }
    let peak = MEMORY.peak_usage();
    assert!(peak < 100_000_000, "{peak} bytes");
    // All at once: those over the limit of bytes are refused.
    let mut start = || session.request(request.clone());
    let (calls, refused): (Vec<_>, Vec<_>) = (0..1100).map(|_| start()).partition(Result::is_ok);
    assert_eq!((calls.len(), refused.len()), (8, 1092));
    while session.next_event(Some(Instant::now())).is_some() {}
    for call in calls {
        let now = session.now();
        session.client().cancel(now, call.unwrap()).unwrap();
    }
    session.request(request.clone()).unwrap();
    let peak = MEMORY.peak_usage();
    assert!(peak < 200_000_000, "{peak} bytes");
    session.end();
}
