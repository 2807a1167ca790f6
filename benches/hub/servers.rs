//! The servers: precomputed lines, so that the measurement covers the library only.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use mcp_proto::host::hub::SessionHandle;
use mcp_proto::{ConnectionId, Outgoing};

pub const TOOLS: usize = 50;

pub const LIST_CHANGED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";

/// Number of versions of each server's tool list; they differ in the last tool.
const VERSIONS: usize = 3;

/// Space for an id, padded with white space.
const ID: &str = "          ";

/// Space for a server's number.
const NUMBER: &str = "########";

/// The tools of the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Definitions {
    None,
    /// All servers have the same tools.
    Same,
    /// Tools have the same names, and different descriptions for each server.
    Different,
}

/// A message to deliver to the hub.
#[derive(Clone, Copy)]
pub enum Arrival {
    Opened(ConnectionId),
    Closed(ConnectionId),
    Answer(Answer, u64),
}

#[derive(Clone, Copy)]
pub enum Answer {
    Initialize,
    List,
    Ping,
    Call,
}

impl Answer {
    /// The response to a message, with the request's id; `None` if it needs no response.
    #[inline(never)]
    pub fn to(message: &Outgoing) -> Option<(Self, u64)> {
        let answer = match (message.method()?, message.wire_id().map(|id| id.as_u64())?) {
            ("initialize", _) => Self::Initialize,
            ("tools/list", _) => Self::List,
            ("ping", _) => Self::Ping,
            ("tools/call", _) => Self::Call,
            (method, _) => panic!("{method} is nothing that these servers were to be asked"),
        };
        Some((answer, message.wire_id().map(|id| id.as_u64())?))
    }
}

/// A line with spaces that are filled in place.
struct Line {
    bytes: Vec<u8>,
    id: usize,
    numbers: Vec<usize>,
}

impl Line {
    fn new(result: &str) -> Self {
        let head = r#"{"jsonrpc":"2.0","id":"#;
        let line = format!("{head}{ID},\"result\":{result}}}\n");
        let numbers = line.match_indices(NUMBER).map(|(at, _)| at).collect();
        Self { bytes: line.into(), id: head.len(), numbers }
    }

    fn fill(&mut self, id: u64, number: u64) -> &[u8] {
        put(&mut self.bytes[self.id..][..ID.len()], id, b' ');
        for at in &self.numbers {
            put(&mut self.bytes[*at..][..NUMBER.len()], number, b'0');
        }
        &self.bytes
    }
}

/// Writes a number into its space.
pub fn put(room: &mut [u8], mut number: u64, pad: u8) {
    for digit in room.iter_mut().rev() {
        *digit = if number > 0 { b'0' + (number % 10) as u8 } else { pad };
        number /= 10;
    }
    assert_eq!(number, 0, "there is room for the number");
}

pub fn tool(index: usize) -> String {
    format!("tool_{index:02}")
}

fn list(tools: usize, version: usize) -> String {
    let tools: Vec<_> = (0..tools)
        .map(|index| {
            let name = if index + 1 < TOOLS || version == 0 { tool(index) } else { format!("extra_{version}") };
            let description = format!("Looks up records of kind {index} that match a query, for customer {NUMBER}.");
            let query = r#""query":{"type":"string","description":"What to look for."}"#;
            let limit = r#""limit":{"type":"integer","description":"How many records at most.","minimum":1}"#;
            let schema = format!(r#"{{"type":"object","properties":{{{query},{limit}}},"required":["query"]}}"#);
            format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#)
        })
        .collect();
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}

/// A hasher that only reorders numbers.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("handles are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Counts of what happened at the servers.
#[derive(Clone, Default)]
pub struct Counts {
    pub opens: u64,
    pub shuts: u64,
    pub lists: u64,
    pub most_lists: u64,
    pub pings: u64,
    pub calls: u64,
    /// Lines and bytes sent by the servers.
    pub lines: u64,
    pub bytes: u64,
}

/// A server: its number, its connection, and how often its tools were listed.
#[derive(Clone, Copy)]
struct Server {
    number: u64,
    connection: ConnectionId,
    lists: u64,
}

pub struct Servers {
    running: HashMap<SessionHandle, Server, BuildHasherDefault<Spread>>,
    definitions: Definitions,
    pub version: usize,
    lists: [Line; VERSIONS],
    initialize: Line,
    ping: Line,
    call: Line,
    /// The messages to deliver next.
    pub arrivals: Vec<(SessionHandle, Arrival)>,
    pub counts: Counts,
}

impl Servers {
    pub fn new(room: usize, definitions: Definitions) -> Self {
        let tools = if definitions == Definitions::None { 0 } else { TOOLS };
        let capabilities = r#"{"tools":{"listChanged":true}}"#;
        let info = r#"{"name":"canned","version":"1"}"#;
        Self {
            running: HashMap::with_capacity_and_hasher(2 * room, BuildHasherDefault::default()),
            definitions,
            version: 0,
            lists: std::array::from_fn(|version| Line::new(&list(tools, version))),
            initialize: Line::new(&format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{info}}}"#
            )),
            ping: Line::new("{}"),
            call: Line::new(r#"{"content":[{"type":"text","text":"There are 3 records."}]}"#),
            arrivals: Vec::with_capacity(2 * room),
            counts: Counts::default(),
        }
    }

    /// Bytes of a list response, including line break and envelope.
    pub fn list_len(&self) -> usize {
        self.lists[0].bytes.len()
    }

    /// Number of running servers.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// The sessions, each with its connection.
    pub fn handles(&self) -> impl Iterator<Item = (SessionHandle, ConnectionId)> {
        self.running.iter().map(|(session, server)| (*session, server.connection))
    }

    /// Resets the number of list requests.
    pub fn forget_lists(&mut self) {
        self.running.values_mut().for_each(|server| server.lists = 0);
        (self.counts.lists, self.counts.most_lists) = (0, 0);
    }

    pub fn start(&mut self, session: SessionHandle, connection: ConnectionId, name: &str) {
        self.counts.opens += 1;
        let number = name.trim_start_matches(|char: char| !char.is_ascii_digit()).parse().expect("a numbered server");
        self.running.insert(session, Server { number, connection, lists: 0 });
        self.arrivals.push((session, Arrival::Opened(connection)));
    }

    pub fn stop(&mut self, session: SessionHandle) {
        self.counts.shuts += 1;
        let server = self.running.remove(&session).expect("only a running server is shut down, and only once");
        self.arrivals.push((session, Arrival::Closed(server.connection)));
    }

    /// Reads a request of a client; not part of the measured code.
    #[inline(never)]
    pub fn take(&mut self, session: SessionHandle, message: &Outgoing) {
        let Some((answer, id)) = Answer::to(message) else { return };
        match answer {
            Answer::Initialize => {}
            Answer::List => {
                let server = self.running.get_mut(&session).expect("only what runs is asked");
                server.lists += 1;
                self.counts.lists += 1;
                self.counts.most_lists = self.counts.most_lists.max(server.lists);
            }
            Answer::Ping => self.counts.pings += 1,
            Answer::Call => self.counts.calls += 1,
        }
        self.arrivals.push((session, Arrival::Answer(answer, id)));
    }

    /// Builds the response of a running server, with its connection; not part of the measured code.
    #[inline(never)]
    pub fn answer(&mut self, session: SessionHandle, answer: Answer, id: u64) -> Option<(ConnectionId, &[u8])> {
        let Server { number, connection, .. } = *self.running.get(&session)?;
        let number = match answer {
            Answer::List if self.definitions == Definitions::Different => number,
            _ => 0,
        };
        Some((connection, self.line(answer, id, number)))
    }

    #[inline(never)]
    pub fn line(&mut self, answer: Answer, id: u64, number: u64) -> &[u8] {
        let line = match answer {
            Answer::Initialize => &mut self.initialize,
            Answer::List => &mut self.lists[self.version],
            Answer::Ping => &mut self.ping,
            Answer::Call => &mut self.call,
        };
        self.counts.lines += 1;
        self.counts.bytes += line.bytes.len() as u64;
        line.fill(id, number)
    }
}
