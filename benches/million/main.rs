//! Many ready clients in one process, each with a tool and with keepalives: the bytes and blocks that one holds, and the
//! CPU time of an hour of keepalives. Time is virtual; the servers are lines.
//!
//! `run [CLIENTS]`, a million by default.

#[path = "../hub/meter.rs"]
mod meter;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::{Action, Client, Eras, Event, Family, Lines, Options, Time, Transport};

use crate::meter::{held, measure};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The results of these methods.
const RESULTS: [(&str, &str); 3] = [
    (
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"one","version":"1"}}"#,
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"echo","description":"Returns its argument","inputSchema":{"type":"object"}}]}"#,
    ),
    ("ping", "{}"),
];

#[derive(Default)]
struct Servers {
    line: String,
    pings: u64,
}

impl Servers {
    /// Carries out what a client wants, until it wants no more.
    fn run(&mut self, client: &mut Client<Lines>, now: Time) {
        while let Some(action) = client.poll() {
            match action {
                Action::Open(connection) => client.handle_transport(now, connection, Transport::Opened),
                Action::Send(message) => {
                    let (Some(method), Some(id)) = (message.method(), message.wire_id()) else { continue };
                    let result = RESULTS.iter().find(|(known, _)| *known == method).expect("a known method").1;
                    self.pings += u64::from(method == "ping");
                    self.line.clear();
                    let id = id.as_u64();
                    writeln!(self.line, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).expect("memory");
                    client.handle_bytes(now, client.connection(), self.line.as_bytes());
                }
                Action::Event(Event::Ready) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn main() {
    let count = std::env::args().nth(1).map_or(1_000_000, |count| count.parse().expect("how many clients"));
    println!("{count} clients, each with a tool");
    let mut options = Options::new("bench", "1");
    options.eras = Eras::LegacyOnly;
    let (options, mut servers) = (Arc::new(options), Servers::default());
    let mut clients: Vec<Client<Lines>> = Vec::with_capacity(count);
    let before = held();
    let ((), cost) = measure(|| {
        for seed in 0..count {
            let mut client = Client::new(Lines::new(), Arc::clone(&options), seed as u64);
            client.open(Time::ZERO).expect("a new client can be opened");
            servers.run(&mut client, Time::ZERO);
            assert!(client.is_ready() && client.catalog().list(Family::Tools).len() == 1);
            clients.push(client);
        }
    });
    cost.print("connect", "clients", count as u64);
    let print = |phase: &str, blocks: i64| {
        let (own, heap) = (size_of::<Client<Lines>>(), held() - before);
        let whole = own as f64 + heap as f64 / count as f64;
        let blocks = blocks as f64 / count as f64;
        println!("{phase}: {whole:.0} bytes a client, {own} of its own and the rest in {blocks:.1} blocks");
    };
    print("ready", cost.blocks);
    let ((), kept) = measure(|| {
        let mut now = Time::ZERO;
        while let Some(next) = clients.iter().filter_map(Client::deadline).min().filter(|at| *at <= Time::ZERO + HOUR) {
            now = now.max(next);
            for client in clients.iter_mut().filter(|client| client.deadline().is_some_and(|at| at <= now)) {
                client.handle_timeout(now);
                servers.run(client, now);
            }
        }
    });
    kept.print("an hour of keepalives", "pings", servers.pings);
    println!("an hour of keepalives: {:.1} s", kept.time.as_secs_f64());
    print("after that hour", cost.blocks + kept.blocks);
    let expected = 59 * count as u64..=60 * count as u64;
    assert!(expected.contains(&servers.pings), "{} pings", servers.pings);
    assert!(kept.held <= 0, "{} bytes more are held", kept.held);
}
