//! A fuzz target of a host's own: each byte of the fuzzer is a turn, what the user does and what happens to the server and to
//! the connection, in virtual time, and the host has to keep its promises. It is the host of the guide's page on testing, with
//! the same property. With `PLANTED` in the environment the host has a bug, which the fuzzer finds.
//!
//! ```sh
//! cargo +nightly fuzz run --fuzz-dir examples/embed/fuzz host
//! ```
#![no_main]
#![allow(dead_code, reason = "two modules that a test includes")]

#[path = "../../../docs/testing/host.rs"]
mod host;
#[path = "../../../docs/testing/property.rs"]
mod property;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mcp_proto::testkit::strategy::{Turn, turns};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

static BUG: LazyLock<Option<host::Bug>> = LazyLock::new(|| std::env::var_os("PLANTED").map(|_| host::Bug::LostAnswer));

/// A turn for each byte: the same in each run, or an input that failed would not fail again.
static TURNS: LazyLock<Vec<Turn>> = LazyLock::new(|| {
    let each = turns(&property::server(), 256..257);
    each.new_tree(&mut TestRunner::deterministic()).expect("nothing is rejected").current()
});

fuzz_target!(|bytes: &[u8]| {
    let turns: Vec<_> = bytes.iter().take(20).map(|byte| TURNS[usize::from(*byte)].clone()).collect();
    if let Err(broken) = property::keeps_its_promises(*BUG, 1, &turns) {
        panic!("{broken}\n{turns:#?}");
    }
});
