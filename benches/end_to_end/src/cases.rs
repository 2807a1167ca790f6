//! What is measured. Each case prints lines of fields that tabs separate.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use peak_alloc::PeakAlloc;
use tokio::runtime::{Builder, Runtime};

use crate::client::{Client, Era, Kind, Transport};
use crate::measure::{Cost, measure, median, resident};
use crate::peer::Peer;

const USAGE: &str = "times | idle KIND TRANSPORT | repeat KIND TRANSPORT COUNT | peak KIND TRANSPORT SIZE text|raw";
/// Tools of a server, where it is not what is measured.
const TOOLS: usize = 50;
/// What `connect` lists, too.
const MANY_TOOLS: usize = 2_000;
const STORM: usize = 10_000;
const LARGE: [(&str, usize); 2] = [("10 MB", 10 << 20), ("50 MB", 50 << 20)];
/// Sessions that are idle, and those before that are not counted.
const SESSIONS: usize = 200;
const FIRST: usize = 20;

/// Runs a case. With the allocator that counts, `peak` can be.
pub fn run(heap: Option<&PeakAlloc>) {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let of = |kind, transport| Some((Kind::named(kind)?, Transport::named(transport)?));
    let known = match *arguments.as_slice() {
        ["times"] => {
            times();
            Some(())
        }
        ["idle", kind, transport] => of(kind, transport).map(|(kind, transport)| idle(kind, transport)),
        ["repeat", kind, transport, count] => {
            of(kind, transport).map(|(kind, transport)| repeat(kind, transport, count.parse().unwrap()))
        }
        ["peak", kind, transport, size, what] => of(kind, transport).map(|(kind, transport)| {
            let heap = heap.expect("the allocator counts in the other program");
            peak(heap, kind, transport, size.parse().unwrap(), what == "text");
        }),
        _ => None,
    };
    if known.is_none() {
        eprintln!("{USAGE}");
        std::process::exit(2);
    }
}

fn runtime() -> Rc<Runtime> {
    Rc::new(Builder::new_current_thread().enable_all().build().unwrap())
}

/// Rounds of each case, in which the clients take turns.
fn rounds() -> usize {
    std::env::var("ROUNDS").map_or(31, |rounds| rounds.parse().unwrap())
}

/// The cost of each client in each round.
#[derive(Default)]
struct Rounds(BTreeMap<Kind, Vec<Cost>>);

impl Rounds {
    fn add(&mut self, kind: Kind, cost: Cost) {
        self.0.entry(kind).or_default().push(cost);
    }

    /// Prints the medians for one of these, in microseconds, and the medians of the ratios to other clients.
    fn print(&self, case: &str, count: usize) {
        let median_of = |costs: &[Cost], read: fn(&Cost) -> f64| median(costs.iter().map(read));
        for (kind, costs) in &self.0 {
            let each = |read| 1e6 * median_of(costs, read) / count as f64;
            print!("{case}\t{}\t{:.3}\t{:.3}", kind.name(), each(|cost| cost.wall), each(|cost| cost.cpu));
            for other in [Kind::Rmcp, Kind::RmcpPooled, Kind::Bare] {
                let ratio = |read: fn(&Cost) -> f64| match self.0.get(&other) {
                    Some(others) => {
                        let ratios = costs.iter().zip(others).map(|(one, other)| read(one) / read(other));
                        format!("{:.3}", median(ratios))
                    }
                    None => "-".into(),
                };
                print!("\t{}\t{}", ratio(|cost| cost.wall), ratio(|cost| cost.cpu));
            }
            println!();
        }
    }
}

/// The clients that are connected to a server, each on a runtime of its own.
fn connect(peer: &Peer) -> Vec<(Kind, Box<dyn Client>)> {
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.has(peer.transport));
    kinds.map(|kind| (kind, kind.connect(&runtime(), peer).0)).collect()
}

/// Has the clients take turns, another one first in each round. The first round does not count.
fn compare(clients: &mut [(Kind, Box<dyn Client>)], rounds: usize, mut work: impl FnMut(&mut dyn Client)) -> Rounds {
    let mut costs = Rounds::default();
    for round in 0..=rounds {
        for turn in 0..clients.len() {
            let turn = (turn + round) % clients.len();
            let (kind, client) = &mut clients[turn];
            let ((), cost) = measure(|| work(&mut **client));
            if round > 0 {
                costs.add(*kind, cost);
            }
        }
    }
    costs
}

fn times() {
    println!("# case, client, microseconds, of CPU; x rmcp: time, CPU; x rmcp that keeps connections; x the bare loop");
    for era in [Era::Legacy, Era::Modern] {
        for transport in [Transport::Stdio, Transport::Json, Transport::Events] {
            let peer = Peer::new(transport, era, TOOLS);
            let mut clients = connect(&peer);
            let name = |what: &str| format!("{} {}: {what}", transport.name(), era.name());
            for at_once in [1, 16, 256] {
                let count = if transport == Transport::Stdio { 1024 } else { 256 };
                let costs = compare(&mut clients, rounds(), |client| client.calls(count, at_once));
                costs.print(&name(&format!("calls, {at_once} at once")), count);
            }
            if era == Era::Legacy && transport != Transport::Json {
                storms(&name("notifications"), &mut clients);
            }
        }
    }
    for (transport, era, tools) in [
        (Transport::Stdio, Era::Legacy, TOOLS),
        (Transport::Stdio, Era::Modern, TOOLS),
        (Transport::Stdio, Era::Legacy, MANY_TOOLS),
        (Transport::Json, Era::Legacy, TOOLS),
        (Transport::Json, Era::Modern, TOOLS),
    ] {
        connections(&Peer::new(transport, era, tools), tools);
    }
    for (name, size) in LARGE {
        large(name, size, Transport::Stdio);
        large(name, size, Transport::Json);
    }
}

/// What is printed is the cost of a report that the server sends.
fn storms(name: &str, clients: &mut [(Kind, Box<dyn Client>)]) {
    compare(clients, rounds(), |client| {
        client.storm(STORM);
    })
    .print(name, STORM);
    for (kind, client) in clients {
        let reports = client.storm(STORM);
        if reports < STORM {
            println!("# {name}: {} got {reports} of {STORM}", kind.name());
        }
    }
}

/// Connects and lists the tools, again and again.
fn connections(peer: &Peer, tools: usize) {
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|kind| kind.has(peer.transport)).collect();
    let runtimes: Vec<_> = kinds.iter().map(|_| runtime()).collect();
    let mut costs = Rounds::default();
    for round in 0..=rounds() {
        for turn in 0..kinds.len() {
            let turn = (turn + round) % kinds.len();
            let (kind, runtime) = (kinds[turn], &runtimes[turn]);
            let ((client, listed), cost) = measure(|| kind.connect(runtime, peer));
            assert_eq!(listed, tools, "{kind:?}");
            drop(client);
            if round > 0 {
                costs.add(kind, cost);
            }
        }
    }
    let name = format!("{} {}: connect and list {tools} tools", peer.transport.name(), peer.era.name());
    costs.print(&name, 1);
}

/// One large result, with its text read and without. The bare loop only reads the bytes where the text is not read.
fn large(name: &str, size: usize, transport: Transport) {
    let peer = Peer::new(transport, Era::Legacy, TOOLS);
    let mut clients = connect(&peer);
    // Some refuse a result of this size.
    clients.retain_mut(|(kind, client)| {
        let received = client.large(size, true);
        if received.is_none() {
            println!("# {} legacy: {name}: {} gets no result", transport.name(), kind.name());
        }
        received.is_some()
    });
    for (what, reads_text) in [("received", false), ("and its text read", true)] {
        let costs = compare(&mut clients, rounds().min(7), |client| {
            let received = client.large(size, reads_text).unwrap();
            assert!(received > size / 2, "{received}");
        });
        costs.print(&format!("{} legacy: {name} {what}", transport.name()), 1);
    }
}

/// Prints the resident memory of an idle session.
fn idle(kind: Kind, transport: Transport) {
    let (runtime, peer) = (runtime(), Peer::new(transport, Era::Legacy, 1));
    let mut sessions = Vec::new();
    let mut open = |count| {
        for _ in 0..count {
            sessions.push(kind.connect(&runtime, &peer).0);
        }
        // What follows from connecting is over.
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(200)).await });
    };
    open(FIRST);
    let before = resident();
    open(SESSIONS);
    println!("idle {}\t{}\t{:.1}", transport.name(), kind.name(), (resident() - before) / SESSIONS as f64 / 1024.0);
    drop(peer);
    // Closing them takes a while; the servers end with their input.
    std::process::exit(0);
}

/// Makes calls, one at a time, to be watched from outside.
fn repeat(kind: Kind, transport: Transport, count: usize) {
    let peer = Peer::new(transport, Era::Legacy, TOOLS);
    kind.connect(&runtime(), &peer).0.calls(count, 1);
}

/// Prints the peak of the heap during a call, as a multiple of the result.
fn peak(heap: &PeakAlloc, kind: Kind, transport: Transport, size: usize, reads_text: bool) {
    let peer = Peer::new(transport, Era::Legacy, TOOLS);
    let mut client = kind.connect(&runtime(), &peer).0;
    client.calls(100, 1);
    heap.reset_peak_usage();
    let before = heap.current_usage();
    let what = if reads_text { "and its text read" } else { "received" };
    let times = match client.large(size, reads_text) {
        Some(_) => format!("{:.2}", (heap.peak_usage() - before) as f64 / size as f64),
        None => "-".into(),
    };
    println!("peak {} {} MB {what}\t{}\t{times}", transport.name(), size >> 20, kind.name());
}
