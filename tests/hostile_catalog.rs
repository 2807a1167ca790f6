//! Lists made to cost more than their size: memory stays proportional to the input.

#![cfg(all(feature = "http", feature = "testkit"))]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

mod common;
#[path = "common/http.rs"]
mod web;

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::options;
use mcp_proto::{Eras, Family, Options, ProtocolVersion, QuirkKind};
use peak_alloc::PeakAlloc;
use web::{Web, modern_site};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The memory is measured for the process, so tests must not run concurrently.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn modern() -> Options {
    let mut options = options();
    options.eras = Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN);
    options
}

/// The effect of a list with one tool with this schema, over HTTP in the modern era.
struct Listed {
    /// Bytes in the body of the response.
    body: usize,
    /// The peak memory while the response was handled, beyond that before.
    peak: usize,
    tools: usize,
    /// The details of the quirks.
    quirks: Vec<String>,
}

fn list(options: Options, schema: &str) -> Listed {
    let mut web = Web::connect(options, &mut modern_site());
    web.session.refresh(web.now, Family::Tools).unwrap();
    web.collect();
    let request = web.take_named("tools/list");
    let id = &request.json()["id"];
    let tool = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","tools":[{tool}]}}}}"#);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    web.head(&request, 200, &[("content-type", "application/json")]);
    web.body(&request, &body);
    web.end(&request);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    let quirks = web.session.quirks().iter().filter(|quirk| quirk.kind == QuirkKind::InvalidItem);
    let quirks = quirks.map(|quirk| quirk.detail.to_string()).collect();
    Listed { body: body.len(), peak, tools: web.session.catalog().list(Family::Tools).len(), quirks }
}

/// A property with a long name, and many properties with these members below it.
fn below_a_long_name(count: usize, member: impl Fn(usize) -> String) -> String {
    let mut inner = String::new();
    for n in 0..count {
        write!(inner, r#","p{n}":{{{}}}"#, member(n)).unwrap();
    }
    let name = "n".repeat(inner.len());
    format!(r#"{{"type":"object","properties":{{"{name}":{{"type":"object","properties":{{{}}}}}}}}}"#, &inner[1..])
}

#[test]
fn annotated_properties_below_a_long_name_take_memory_in_proportion() {
    let _alone = alone();
    let schema = below_a_long_name(8_000, |n| format!(r#""type":"string","x-mcp-header":"H{n}""#));
    let listed = list(modern(), &schema);
    assert_eq!((listed.tools, listed.quirks), (1, vec![]));
    assert!(listed.peak < 4 * listed.body, "{} bytes for {}", listed.peak, listed.body);
}

#[test]
fn invalid_annotations_below_a_long_name_are_reported_briefly() {
    let _alone = alone();
    let schema = below_a_long_name(2_000, |n| format!(r#""type":"string","x-mcp-header":"not a token {n}""#));
    let listed = list(modern(), &schema);
    assert_eq!((listed.tools, listed.quirks.len()), (0, 1));
    assert!(listed.quirks[0].contains("`x-mcp-header` of nnn"), "{:?}", listed.quirks);
    assert!(listed.quirks[0].contains("it is not what a header's name can hold"), "{:?}", listed.quirks);
    assert!(listed.quirks[0].len() < 1024);
    assert!(listed.peak < 4 * listed.body, "{} bytes for {}", listed.peak, listed.body);
}

#[test]
fn annotations_with_escapes_in_their_name_are_recognized() {
    let _alone = alone();
    let schema = r#"{"properties":{"a":{"type":"string","x-mcp-head\u0065r":"not a token"}}}"#;
    assert_eq!(list(modern(), schema).tools, 0);
}

#[test]
fn schemas_of_a_hundred_thousand_levels_take_no_stack() {
    let _alone = alone();
    let nested =
        |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(100_000), close.repeat(100_000));
    for (schema, tools) in [
        (nested(r#"{"properties":{"p":"#, r#"{"type":"string","x-mcp-header":"A"}"#, "}}"), 1),
        (nested(r#"{"properties":{"p":"#, r#"{"type":"string","x-mcp-header":1}"#, "}}"), 0),
        (nested(r#"{"not":"#, r#"{"type":"string","x-mcp-header":"A"}"#, "}"), 0),
        (nested(r#"{"items":["#, r#"{"type":"string","x-mcp-header":"A"}"#, "]}"), 0),
        (format!(r#"{{"x-mcp-header2":{}}}"#, nested("[", "1", "]")), 1),
    ] {
        let mut options = modern();
        options.limits.message.depth = 250_000;
        // The raised limit allows some bytes for each level.
        let allowed = 64 * options.limits.message.depth;
        let listed = list(options, &schema);
        assert_eq!(listed.tools, tools, "{}…", &schema[..40]);
        assert!(listed.peak < 4 * listed.body + allowed, "{} bytes for {}", listed.peak, listed.body);
    }
}
