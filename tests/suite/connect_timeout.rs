//! The timeout that covers transport, handshake and discovery together.

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use mcp_proto::{FailureKind, Options, Transport};
use serde_json::json;

fn within(wait: u64, mut options: Options) -> Options {
    options.timeouts.connect = Some(seconds(wait));
    options
}

fn assert_times_out(mut host: Host, left: u64, doing: &str) {
    host.wait(seconds(left - 1));
    assert!(host.failure().is_none());
    host.wait(seconds(1));
    let failure = host.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::HandshakeTimeout);
    assert_eq!(failure.message.as_ref(), format!("the server was not ready within 10s: {doing} took too long"));
}

#[test]
fn a_transport_a_handshake_and_a_discovery_that_never_end_time_out_together() {
    let mut host = Host::new(within(10, legacy()));
    host.session.open(host.now).unwrap();
    host.collect();
    host.wait(seconds(4));
    assert_times_out(host, 6, "the opening of its transport");

    let opened = || {
        let mut host = Host::new(within(10, legacy()));
        host.session.open(host.now).unwrap();
        host.collect();
        host.wait(seconds(4));
        host.transport(Transport::Opened);
        host
    };
    assert_times_out(opened(), 6, "the handshake");

    let mut host = opened();
    host.wait(seconds(4));
    let initialize = host.take_one();
    let mut server = Server::legacy(json!({"tools": {}}));
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    assert_times_out(host, 2, "discovery");
}

#[test]
fn a_client_that_is_ready_in_time_stays_connected() {
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(within(10, legacy()), &mut server);
    host.wait(seconds(100));
    assert!(host.is_ready() && host.session.deadline().is_none());
}

#[test]
fn the_second_transport_of_a_handshake_does_not_extend_it() {
    let mut host = Host::open(within(10, options()));
    host.wait(seconds(4));
    host.close_transport();
    assert_eq!(host.opens, 2);
    host.transport(Transport::Opened);
    assert_times_out(host, 6, "the handshake");
}

#[test]
fn the_next_connection_has_its_own_time() {
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(within(10, reconnecting(legacy())), &mut server);
    host.wait(seconds(100));
    host.close_transport();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
    host.wait(seconds(8));
    host.serve(&mut server);
    assert!(host.is_ready());
}

#[test]
fn signs_of_life_extend_it() {
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::open(within(10, legacy()));
    for _ in 0..10 {
        host.wait(seconds(8));
        host.transport(Transport::SignOfLife);
    }
    host.serve(&mut server);
    assert!(host.is_ready());
}
