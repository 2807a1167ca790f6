//! The workloads of the harness, with a session whose transport is a function call.

mod http;

use std::hint::black_box;
use std::sync::Arc;

use mcp_proto::{Action, Eras, Event, Family, Lines, Options, Outcome, Request, Time, Transport};
use serde_json::value::RawValue;
use workloads::canned::{BIG_TOOLS, CALL_ARGS, TOOL_NAME, TOOLS};
use workloads::{Canned, Peer, alloc, cli};

struct Client {
    session: mcp_proto::Client<Lines>,
    peer: Peer<'static>,
    rx: Vec<u8>,
    finished: usize,
    notified: usize,
    burst: usize,
}

impl Client {
    fn connect(options: &Arc<Options>, peer: Peer<'static>) -> Self {
        let session = mcp_proto::Client::new(Lines::new(), Arc::clone(options), 0);
        let mut client = Self { session, peer, rx: Vec::new(), finished: 0, notified: 0, burst: 0 };
        client.session.open(Time::ZERO).unwrap();
        client.run();
        assert!(client.session.is_ready());
        client
    }

    fn run(&mut self) {
        while let Some(action) = self.session.poll() {
            match action {
                Action::Open(connection) => self.session.handle_transport(Time::ZERO, connection, Transport::Opened),
                Action::Send(message) => {
                    self.rx.clear();
                    self.burst = self.peer.on_line(message.bytes(), &mut self.rx);
                    if self.burst == 0 {
                        self.session.handle_bytes(Time::ZERO, self.session.connection(), &self.rx);
                    }
                }
                Action::Event(Event::Finished { outcome, .. }) => {
                    assert!(matches!(black_box(outcome), Outcome::Result(_)));
                    self.finished += 1;
                }
                Action::Event(event @ (Event::Log { .. } | Event::Notification { .. })) => {
                    black_box(event);
                    self.notified += 1;
                }
                Action::Event(event) => {
                    black_box(event);
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, arguments: &RawValue) {
        let request = Request::new("tools/call").params(arguments.to_owned());
        self.session.request(Time::ZERO, request).unwrap();
        self.run();
    }
}

fn options(modern: bool) -> Arc<Options> {
    let mut options = Options::new("mcp-proto", "0.1.0");
    options.eras = if modern { Eras::Auto } else { Eras::LegacyOnly };
    // The time stands still.
    options.limits.notifications_per_second = u32::MAX;
    Arc::new(options)
}

fn arguments(tool: &str) -> Box<RawValue> {
    let arguments: Vec<String> = CALL_ARGS
        .iter()
        .map(|(name, value)| format!("{}:{}", serde_json::json!(name), serde_json::json!(value)))
        .collect();
    let json = format!(r#"{{"name":"{tool}","arguments":{{{}}}}}"#, arguments.join(","));
    RawValue::from_string(json).unwrap()
}

fn main() {
    let args = cli::args();
    let canned: &'static Canned = Box::leak(Box::new(Canned::new()));
    let bin = "mcp-proto";
    let modern = args.workload.ends_with('m');
    let options = options(modern);
    match args.workload.as_str() {
        "w1" | "w1m" => {
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                let client = Client::connect(&options, Peer::new(canned));
                assert_eq!(client.session.catalog().list(Family::Tools).len(), TOOLS);
            }
            meter.finish(bin, &args);
        }
        "w2" | "w2m" => {
            let mut client = Client::connect(&options, Peer::new(canned));
            let arguments = arguments(TOOL_NAME);
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                client.call(&arguments);
            }
            assert_eq!(client.finished, args.n);
            meter.finish(bin, &args);
        }
        "w3" | "w3log" => {
            let mut peer = Peer::new(canned);
            peer.burst_logging = args.workload == "w3log";
            let mut client = Client::connect(&options, peer);
            client.peer.burst = args.n;
            let mut line = client.peer.burst_line().as_bytes().to_vec();
            line.push(b'\n');
            let arguments = arguments(TOOL_NAME);
            let meter = cli::Meter::start();
            client.call(&arguments);
            for _ in 0..client.burst {
                client.session.handle_bytes(Time::ZERO, client.session.connection(), &line);
                client.run();
            }
            assert_eq!(client.notified, args.n);
            meter.finish(bin, &args);
        }
        "w4" | "w4keep" => {
            // The session keeps the list; without this response the peer reports an empty one.
            let empty: &'static Canned = Box::leak(Box::new({
                let mut canned = Canned::new();
                canned.tools_50 = r#"{"tools":[]}"#.into();
                canned
            }));
            let canned = if args.workload == "w4keep" { canned } else { empty };
            let mut all = Vec::with_capacity(args.n);
            let before = alloc::snapshot();
            for _ in 0..args.n {
                let mut client = Client::connect(&options, Peer::new(canned));
                client.rx = Vec::new();
                all.push(client);
            }
            cli::print_memory(bin, &args, before, alloc::snapshot());
        }
        "w5" => {
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                let mut peer = Peer::new(canned);
                peer.paged = true;
                let client = Client::connect(&options, peer);
                assert_eq!(client.session.catalog().list(Family::Tools).len(), BIG_TOOLS);
            }
            meter.finish(bin, &args);
        }
        _ => http::run(&args, canned),
    }
}
