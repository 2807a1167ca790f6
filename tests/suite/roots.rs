//! The client's roots, and the notification of their changes (specification 2025-11-25, "Roots").

use crate::common::{Host, Server, legacy, options};
use mcp_proto::protocol::Root;
use mcp_proto::{CommandError, Options};
use serde_json::{Value, json};

fn with_roots(mut options: Options) -> Options {
    options.capabilities.roots = Some(vec![Root::new("file:///a")]);
    options
}

fn listed(host: &mut Host) -> Value {
    host.receive(json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
    host.take_one()["result"]["roots"].clone()
}

fn set(host: &mut Host, uri: &str) -> Result<(), CommandError> {
    let set = host.session.set_roots(host.now, vec![Root::new(uri)]);
    host.collect();
    set
}

#[test]
fn a_legacy_server_gets_a_notification_and_the_new_roots() {
    let mut host = Host::connect(with_roots(legacy()), &mut Server::legacy(json!({})));
    assert_eq!(host.transcript[0].1["params"]["capabilities"]["roots"], json!({"listChanged": true}));
    host.take_sent();
    assert_eq!(listed(&mut host), json!([{"uri": "file:///a"}]));
    set(&mut host, "file:///b").unwrap();
    assert_eq!(host.take_methods(), ["notifications/roots/list_changed"]);
    assert_eq!(listed(&mut host), json!([{"uri": "file:///b"}]));
}

#[test]
fn roots_changed_without_a_connection_apply_to_the_next_one() {
    let mut host = Host::open(with_roots(legacy()));
    host.take_sent();
    set(&mut host, "file:///b").unwrap();
    assert_eq!(host.take_methods(), [""; 0], "the handshake is not done");
    let mut host = Host::connect(with_roots(legacy()), &mut Server::legacy(json!({})));
    host.take_sent();
    set(&mut host, "file:///c").unwrap();
    host.take_sent();
    assert_eq!(listed(&mut host), json!([{"uri": "file:///c"}]));
}

#[test]
fn a_modern_server_gets_no_notification_of_changed_roots() {
    let mut host = Host::connect(with_roots(options()), &mut Server::modern(json!({})));
    host.take_sent();
    set(&mut host, "file:///b").unwrap();
    assert_eq!(host.take_methods(), [""; 0]);
}

#[test]
fn undeclared_roots_cannot_change_and_only_the_client_notifies() {
    let mut host = Host::connect(legacy(), &mut Server::legacy(json!({})));
    let error = set(&mut host, "file:///b").unwrap_err();
    assert_eq!(error, CommandError::NotDeclared { capability: "roots".into() });
    assert_eq!(error.to_string(), "the client does not declare `roots` in its options");
    let notify = host.session.notify(host.now, "notifications/roots/list_changed", None);
    assert!(matches!(notify, Err(CommandError::Reserved { .. })));
    host.session.close(host.now).unwrap();
    assert_eq!(set(&mut host, "file:///b"), Err(CommandError::Closed));
}

#[test]
fn roots_are_not_changed_while_too_much_waits_to_be_polled() {
    let mut options = with_roots(legacy());
    options.limits.output = 8;
    let mut host = Host::connect(options, &mut Server::legacy(json!({})));
    host.take_sent();
    let uri = |number: usize| vec![Root::new(format!("file:///{number}"))];
    for number in 0..8 {
        host.session.set_roots(host.now, uri(number)).unwrap();
    }
    let refused = host.session.set_roots(host.now, uri(8));
    assert_eq!(refused, Err(CommandError::TooManyRequests { limit: 8 }));
    host.collect();
    assert_eq!(host.take_methods(), ["notifications/roots/list_changed"; 8]);
    assert_eq!(listed(&mut host), json!([{"uri": "file:///7"}]));
    host.session.set_roots(host.now, uri(8)).unwrap();
}

/// A server that refuses capabilities gets no notifications that depend on them.
#[test]
fn roots_that_a_server_refused_to_be_told_of_are_not_notified() {
    let mut server = Server::legacy(json!({})).on("initialize", |params| {
        if params["capabilities"] == json!({}) {
            Ok(json!({"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {"name": "s"}}))
        } else {
            Err(json!({"code": -32602, "message": "Invalid request parameters"}))
        }
    });
    let mut host = Host::connect(with_roots(legacy()), &mut server);
    assert!(host.is_ready());
    host.take_sent();
    set(&mut host, "file:///b").unwrap();
    assert_eq!(host.take_methods(), [""; 0]);
}
