//! The least work that a client can do, in safe code: it finds the end of the line, checks the text once, finds id, method
//! and payload, compares the id, and copies the payload once. It has no state and no limits, and does not say what is wrong.

#![forbid(unsafe_code)]

mod text;

use std::hint::black_box;

use serde_json::value::RawValue;
use workloads::canned::{BIG_PAGES, CALL_ARGS, TOOL_NAME};
use workloads::{Canned, Peer, cli};

use crate::text::{Of, line_feed, read};

/// The members of `_meta` that each request in the modern era has.
const IDENTITY: &str = concat!(
    r#","io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"limit","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}"#
);

struct Client {
    peer: Peer<'static>,
    tx: Vec<u8>,
    rx: Vec<u8>,
    id: u64,
    modern: bool,
}

impl Client {
    fn new(peer: Peer<'static>, modern: bool) -> Self {
        Self { peer, tx: Vec::new(), rx: Vec::new(), id: 0, modern }
    }

    /// Sends a request; `params` begin an object, in which `separator` follows. Returns how many notifications come first.
    fn send(&mut self, method: &str, params: &[u8], separator: &str) -> usize {
        self.id += 1;
        let mut digits = [0; 20];
        let id = decimal(self.id, &mut digits);
        self.tx.clear();
        let identity = if self.modern { IDENTITY } else { "" };
        let parts: [&[u8]; 10] = [
            br#"{"jsonrpc":"2.0","id":"#,
            id,
            br#","method":""#,
            method.as_bytes(),
            br#"","params":"#,
            params,
            separator.as_bytes(),
            br#""_meta":{"progressToken":"#,
            id,
            identity.as_bytes(),
        ];
        parts.iter().for_each(|part| self.tx.extend_from_slice(part));
        self.tx.extend_from_slice(b"}}}\n");
        self.rx.clear();
        self.peer.on_line(self.tx.strip_suffix(b"\n").unwrap_or(&self.tx), &mut self.rx)
    }

    /// Takes the response: the result, and its member `nextCursor`.
    fn receive(&self) -> (Box<[u8]>, Option<Vec<u8>>) {
        let line = &self.rx[..line_feed(&self.rx).expect("a whole line")];
        let (mut id, mut result, mut cursor, mut complete) = (None, None, None, !self.modern);
        read(line, &mut |of, name, value| match (of, name) {
            (Of::Message, b"id") => id = Some(value),
            (Of::Message, b"result") => result = Some(value),
            (Of::Result, b"nextCursor") => cursor = Some(value),
            (Of::Result, b"resultType") => complete = value == br#""complete""#,
            _ => {}
        })
        .expect("a message");
        assert!(complete);
        let id = id.and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
        assert_eq!(id, Some(self.id));
        (result.expect("a result").into(), cursor.map(<[u8]>::to_vec))
    }

    fn call(&mut self, arguments: &RawValue) -> usize {
        // The caller's parameters are its own, as in the other clients.
        let arguments = arguments.to_owned();
        let params = arguments.get().strip_suffix('}').expect("an object");
        let before = self.send("tools/call", params.as_bytes(), ",");
        black_box(self.receive());
        before
    }

    fn list(&mut self) {
        let mut params = b"{".to_vec();
        for page in 1..=BIG_PAGES {
            self.send("tools/list", &params, "");
            let (result, cursor) = self.receive();
            black_box(result);
            assert_eq!(cursor.is_some(), page < BIG_PAGES);
            params = [br#"{"cursor":"#, &*cursor.unwrap_or_default(), b","].concat();
        }
    }
}

/// Takes a notification, whose parameters are copied.
fn notification(line: &[u8]) -> Box<[u8]> {
    let line = &line[..line_feed(line).expect("a whole line")];
    let (mut method, mut params) = (None, None);
    read(line, &mut |_, name, value| match name {
        b"method" => method = Some(value),
        b"params" => params = Some(value),
        _ => {}
    })
    .expect("a message");
    black_box(method.expect("a method"));
    params.expect("parameters").into()
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &digits[first..]
}

fn arguments() -> Box<RawValue> {
    let members = CALL_ARGS.iter().map(|(name, value)| (*name, (*value).into()));
    let arguments = serde_json::Map::<String, serde_json::Value>::from_iter(members.map(|(k, v)| (k.to_owned(), v)));
    serde_json::value::to_raw_value(&serde_json::json!({"name": TOOL_NAME, "arguments": arguments})).expect("JSON")
}

fn main() {
    let args = cli::args();
    let canned: &'static Canned = Box::leak(Box::new(Canned::new()));
    let (mut peer, modern) = (Peer::new(canned), args.workload.ends_with('m'));
    let arguments = arguments();
    let bin = "limit";
    match args.workload.as_str() {
        "w2" | "w2m" => {
            let mut client = Client::new(peer, modern);
            if modern {
                client.send("server/discover", b"{", "");
            }
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                client.call(&arguments);
            }
            meter.finish(bin, &args);
        }
        "w3" => {
            peer.burst = args.n;
            let mut client = Client::new(peer, modern);
            let line = [client.peer.burst_line().as_bytes(), b"\n"].concat();
            let meter = cli::Meter::start();
            for _ in 0..client.call(&arguments) {
                black_box(notification(&line));
            }
            meter.finish(bin, &args);
        }
        "w5" => {
            peer.paged = true;
            let mut client = Client::new(peer, modern);
            let meter = cli::Meter::start();
            for _ in 0..args.n {
                client.list();
            }
            meter.finish(bin, &args);
        }
        _ => cli::usage(),
    }
}
