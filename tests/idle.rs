//! An idle client costs the same with every set of features. `.ci/rows` runs this with all, `.ci/feature-sets` with none.
//!
//! The numbers are those of 64-bit targets. Another compiler may change them, with all features as with none.

#![cfg(all(feature = "testkit", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, reason = "a helper may fail as a test may")]

use mcp_proto::{Action, Client, Lines, Options, Time, Transport};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A client over stdio that is ready, of a server without lists.
fn ready() -> Client<Lines> {
    let mut client = Client::new(Lines::new(), Options::new("idle", "1"), 1);
    client.open(Time::ZERO).unwrap();
    client.handle_transport(Time::ZERO, client.connection(), Transport::Opened);
    for response in [
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}"#,
    ] {
        let sent = std::iter::from_fn(|| client.poll());
        let id =
            sent.filter_map(|action| if let Action::Send(message) = action { message.wire_id() } else { None }).last();
        let response = response.replace("ID", &id.unwrap().as_u64().to_string());
        client.handle_bytes(Time::ZERO, client.connection(), format!("{response}\n").as_bytes());
    }
    while client.poll().is_some() {}
    assert!(client.is_ready());
    client
}

#[test]
fn an_idle_client_costs_the_same_with_every_feature() {
    // The first client also allocates what all share. The test's harness may allocate meanwhile, so the least counts.
    let heap = (0..5).map(|_| {
        let before = MEMORY.current_usage();
        let client = ready();
        let heap = MEMORY.current_usage().saturating_sub(before);
        drop(client);
        heap
    });
    let held = (size_of::<Client<Lines>>(), heap.min().unwrap());
    assert_eq!(held, (1464, 1163), "bytes of the client, and of its heap");
}
