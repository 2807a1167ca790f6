//! Rows of the tables that other suites do not take, through the public API: what is sent, reported and recorded.

mod discovery;
mod era_change;
mod gates;
mod handshake;
mod http;
mod hub;
mod keepalive;
mod link;
mod lists;
mod offer;
mod paging;
mod redirects;
mod refresh;
mod request;
mod server_requests;
mod statuses;
mod stream;
mod subscriptions;

use crate::common::Host;
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
