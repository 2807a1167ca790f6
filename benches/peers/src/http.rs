//! The workloads over HTTP, with a session whose HTTP client is a function call.

use std::hint::black_box;
use std::sync::Arc;

use mcp_proto::binding::http::HttpAction;
use mcp_proto::{Eras, Event, Family, Http, Options, Outcome, Request, Time};
use serde_json::value::RawValue;
use workloads::canned::TOOLS;
use workloads::http::{Body, URL};
use workloads::{Canned, HttpPeer, Peer, alloc, cli};

struct Client {
    session: mcp_proto::Client<Http>,
    peer: &'static HttpPeer<'static>,
    body: Body,
    finished: usize,
}

impl Client {
    fn connect(options: &Arc<Options>, peer: &'static HttpPeer<'static>) -> Self {
        let session = mcp_proto::Client::new(Http::new(URL).unwrap(), Arc::clone(options), 0);
        let mut client = Self { session, peer, body: Body::default(), finished: 0 };
        client.session.open(Time::ZERO).unwrap();
        client.run();
        assert!(client.session.is_ready());
        client
    }

    fn run(&mut self) {
        while let Some(action) = self.session.poll() {
            match action {
                HttpAction::Request(it) => {
                    let reply = self.peer.on_request(&it.request, &mut self.body);
                    self.session.handle_head(Time::ZERO, it.exchange, reply.status, reply.headers);
                    for chunk in self.body.chunks().filter(|chunk| !chunk.is_empty()) {
                        self.session.handle_body(Time::ZERO, it.exchange, chunk);
                    }
                    if !reply.open {
                        self.session.handle_end(Time::ZERO, it.exchange);
                    }
                }
                HttpAction::Event(Event::Finished { outcome, .. }) => {
                    assert!(matches!(black_box(outcome), Outcome::Result(_)));
                    self.finished += 1;
                }
                HttpAction::Event(event) => {
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

    fn close(mut self) {
        self.session.close(Time::ZERO).unwrap();
        self.run();
        assert!(self.session.is_closed());
    }
}

pub fn run(args: &cli::Args, canned: &'static Canned) {
    let modern = args.workload.ends_with('m');
    // The session keeps the list; without this response the peer reports an empty one.
    let canned: &'static Canned = match args.workload.as_str() {
        "h4" => Box::leak(Box::new({
            let mut empty = Canned::new();
            empty.tools_50 = r#"{"tools":[]}"#.into();
            empty
        })),
        _ => canned,
    };
    let mut peer = HttpPeer::new(Peer::new(canned));
    peer.streams = args.workload == "h2s";
    let peer: &'static HttpPeer<'static> = Box::leak(Box::new(peer));
    let mut options = Options::new("mcp-proto", "0.1.0");
    options.eras = if modern { Eras::Auto } else { Eras::LegacyOnly };
    let options = Arc::new(options);
    let bin = "mcp-proto";
    match args.workload.as_str() {
        "h1" | "h1m" => {
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                let client = Client::connect(&options, peer);
                assert_eq!(client.session.catalog().list(Family::Tools).len(), TOOLS);
                client.close();
            }
            meter.finish(bin, args);
        }
        "h2" | "h2m" | "h2s" => {
            let mut client = Client::connect(&options, peer);
            let arguments = crate::arguments(workloads::canned::LISTED_TOOL);
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                client.call(&arguments);
            }
            assert_eq!(client.finished, args.n);
            meter.finish(bin, args);
        }
        "h4" | "h4keep" => {
            let mut all = Vec::with_capacity(args.n);
            let before = alloc::snapshot();
            for _ in 0..args.n {
                let mut client = Client::connect(&options, peer);
                client.body = Body::default();
                all.push(client);
            }
            cli::print_memory(bin, args, before, alloc::snapshot());
        }
        _ => cli::usage(),
    }
}
