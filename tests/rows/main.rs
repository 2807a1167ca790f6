//! Rows of the tables that the other suites do not take, through the public API: what is sent, told and recorded.

#![cfg(feature = "http")]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

#[path = "../common/mod.rs"]
mod common;
mod discovery;
mod handshake;
mod hub;
#[path = "../common/hub.rs"]
mod hub_rig;
mod keepalive;
mod paging;
mod request;
mod stream;
mod subscriptions;
#[path = "../common/http.rs"]
mod web;

use common::Host;
use serde_json::{Value, json};

/// Answers a request with this result.
fn reply(host: &mut Host, request: &Value, result: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

/// Answers a request with this error.
fn refuse(host: &mut Host, request: &Value, code: i64, message: &str) {
    refuse_with(host, request, json!({"code": code, "message": message}));
}

fn refuse_with(host: &mut Host, request: &Value, error: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
}

/// The server sends a notification without parameters.
fn notify(host: &mut Host, method: &str) {
    host.receive(json!({"jsonrpc": "2.0", "method": method}));
}
