//! [`proptest`] strategies: what a host is told to do, what happens to its server and its connections, and what a
//! server may send. [`Sim::play`] plays turns, and counts what the host accepted.
//!
//! All of them shrink: to fewer turns, shorter waits, and nothing out of the ordinary.

use core::ops::Range;
use core::time::Duration;
use std::borrow::ToOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::collection;
use proptest::prelude::{Just, any};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, Strategy};
use serde_json::{Value, json};

use super::content::{Ask, FakeTool, object};
use super::script::{On, Reply};
use super::server::FakeServer;
use super::sim::{Embedder, Fault, Link, NodeId, Runaway, Sim};
use super::spelling::Spelling;
use crate::{Request, Time};

/// The time to connect, before the first turn.
const START: Duration = Duration::from_secs(1);
/// The time for every timeout and backoff to pass, after the last turn.
const END: Duration = Duration::from_secs(1800);

/// What a host is told to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Call the tool of this name.
    Call(String),
    /// Read the resource with this URI.
    Read(String),
    /// Get the prompt of this name.
    Get(String),
}

impl Operation {
    /// The request of the operation.
    pub fn request(&self) -> Request {
        match self {
            Self::Call(name) => Request::call_tool(name, None),
            Self::Read(uri) => Request::read_resource(uri),
            Self::Get(name) => Request::get_prompt(name, []),
        }
    }
}

/// What happens to a server, or to the connections to it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Incident {
    /// Nothing.
    None,
    /// A fault of the server or of the connections.
    Fault(Fault),
    /// The next requests of a kind are answered in this way.
    Script(On, Vec<Reply>),
    /// The server has these tools from now on, and announces it.
    Tools(Vec<String>),
    /// The server asks the client.
    Ask(Ask),
}

/// A step of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What the host is told to do.
    pub operation: Operation,
    /// What happens after that.
    pub incident: Incident,
    /// The time until the next turn.
    pub wait: Duration,
}

/// Turns with the tools, resources and prompts of a server, and with all that may happen to it.
pub fn turns(server: &FakeServer, count: Range<usize>) -> BoxedStrategy<Vec<Turn>> {
    let turn = (operation(server), incident(server), wait());
    let turn = turn.prop_map(|(operation, incident, wait)| Turn { operation, incident, wait });
    collection::vec(turn, count).boxed()
}

/// An operation on the tools, resources and prompts of a server.
pub fn operation(server: &FakeServer) -> BoxedStrategy<Operation> {
    let names = |names: Vec<String>, operation: fn(String) -> Operation| {
        (!names.is_empty()).then(|| select(names).prop_map(operation).boxed())
    };
    let all = [
        names(owned(server.tool_names()), Operation::Call),
        names(owned(server.resource_uris()), Operation::Read),
        names(owned(server.prompt_names()), Operation::Get),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    if all.is_empty() {
        return Just(Operation::Call("none".into())).boxed();
    }
    select(all).prop_flat_map(|operation| operation).boxed()
}

/// An incident of a server, which has other tools at times: some of its own, and new ones.
pub fn incident(server: &FakeServer) -> BoxedStrategy<Incident> {
    let kinds = server.tool_names().map(On::tool).chain(server.resource_uris().map(On::resource));
    let kinds: Vec<_> = kinds.chain(server.prompt_names().map(On::prompt)).chain([On::method("ping")]).collect();
    let mut names = owned(server.tool_names());
    names.push("new".into());
    let tools = collection::btree_set(select(names), 1..4);
    let replies = (reply(), 1..6_usize).prop_map(|(reply, count)| vec![reply; count]);
    prop_oneof![
        4 => Just(Incident::None),
        2 => fault().prop_map(Incident::Fault),
        4 => (select(kinds), replies).prop_map(|(on, replies)| Incident::Script(on, replies)),
        2 => tools.prop_map(|names| Incident::Tools(names.into_iter().collect())),
        1 => ask().prop_map(Incident::Ask),
    ]
    .boxed()
}

fn owned<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(ToOwned::to_owned).collect()
}

/// A time between turns: from none to minutes.
pub fn wait() -> BoxedStrategy<Duration> {
    let millis = |millis| Just(Duration::from_millis(millis));
    prop_oneof![millis(0), millis(1), millis(10), millis(100), millis(1_000), millis(10_000), millis(120_000)].boxed()
}

/// A fault that passes.
pub fn fault() -> BoxedStrategy<Fault> {
    prop_oneof![
        Just(Fault::Cut),
        wait().prop_map(Fault::Stall),
        wait().prop_map(Fault::Unreachable),
        Just(Fault::Expire),
        Just(Fault::Crash),
    ]
    .boxed()
}

/// A link: from a good one to one with jitter, small pieces and cuts.
pub fn link() -> BoxedStrategy<Link> {
    let millis = |range: Range<u64>| range.prop_map(Duration::from_millis);
    let piece = prop_oneof![Just(0), 1..200_usize];
    let cuts = prop_oneof![Just(0), 1..20_u16];
    (millis(1..200), millis(0..500), piece, cuts)
        .prop_map(|(latency, jitter, piece, cuts)| Link::new(latency).jitter(jitter).piece(piece).cuts_per_mille(cuts))
        .boxed()
}

/// How a server responds to a request.
pub fn reply() -> BoxedStrategy<Reply> {
    prop_oneof![
        Just(Reply::Normal),
        wait().prop_map(Reply::Late),
        Just(Reply::Silent),
        Just(Reply::Twice),
        Just(Reply::Noise("not a message".into())),
        Just(Reply::Dies),
        Just(Reply::Torn),
        Just(Reply::DiesFirst),
        Just(Reply::error(-32603, "Internal error")),
        Just(Reply::status(503, "Service Unavailable")),
    ]
    .boxed()
}

/// How a server spells its messages.
pub fn spelling() -> BoxedStrategy<Spelling> {
    select(Spelling::ALL).boxed()
}

/// A question of a server to the client.
pub fn ask() -> BoxedStrategy<Ask> {
    prop_oneof![
        Just(Ask::ping()),
        Just(Ask::roots()),
        Just(Ask::elicitation("Which one?")),
        Just(Ask::sampling("Why?")),
        Just(Ask::new("unknown/method", json!({}))),
    ]
    .boxed()
}

/// A message that a server may send to a client: responses to the ids 0 to 7, notifications and server requests, in
/// correct and odd shapes.
pub fn message() -> BoxedStrategy<Value> {
    let id = || prop_oneof![4 => (0..8_u64).prop_map(Value::from), 1 => json_value()];
    let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}});
    let results = vec![
        json!({}),
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s"}}),
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
        json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "nextCursor": "1"}),
        json!({"resources": [{"uri": "r:1", "name": "r"}]}),
        json!({"content": [{"type": "text", "text": "t"}], "isError": true}),
        json!({"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}, "requestState": "s"}),
    ];
    let result = prop_oneof![4 => select(results), 1 => json_value()];
    let codes = vec![-32700, -32601, -32602, -32603, -32022, -32020, -32000, 0];
    let error = prop_oneof![
        4 => select(codes).prop_map(|code| json!({"code": code, "message": "an error"})),
        1 => json_value(),
    ];
    let methods = vec![
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        "notifications/progress",
        "notifications/cancelled",
        "notifications/message",
        "notifications/subscriptions/acknowledged",
        "notifications/unknown",
        "ping",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "tools/list",
    ];
    let params = prop_oneof![
        Just(json!({})),
        (0..8_u64).prop_map(|id| json!({"progressToken": id, "progress": 1, "requestId": id})),
        Just(json!({"uri": "r:1"})),
        Just(json!({"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}})),
        json_value(),
    ];
    let member = |name: &'static str| move |(id, value)| json!({"jsonrpc": "2.0", "id": id, name: value});
    let called = (select(methods), params)
        .prop_map(|(method, params)| object(json!({"jsonrpc": "2.0", "method": method, "params": params})));
    prop_oneof![
        4 => (id(), result).prop_map(member("result")),
        2 => (id(), error).prop_map(member("error")),
        3 => called.clone().prop_map(Value::Object),
        2 => (id(), called).prop_map(|(id, mut message)| {
            message.insert("id".into(), id);
            Value::Object(message)
        }),
        1 => json_value(),
    ]
    .boxed()
}

/// Any JSON value, of a few levels and some dozen values.
pub fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\\u{e9}\n]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map("[a-z]{1,8}", inner, 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
    .boxed()
}

/// The operations that a host accepted ([`Sim::play`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    counts: BTreeMap<Operation, usize>,
}

impl Accepted {
    /// How many calls of this tool.
    pub fn calls(&self, name: &str) -> usize {
        self.count(&Operation::Call(name.into()))
    }

    /// How many reads of this resource.
    pub fn reads(&self, uri: &str) -> usize {
        self.count(&Operation::Read(uri.into()))
    }

    /// How many requests for this prompt.
    pub fn gets(&self, name: &str) -> usize {
        self.count(&Operation::Get(name.into()))
    }

    /// How many operations.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    fn count(&self, operation: &Operation) -> usize {
        self.counts.get(operation).copied().unwrap_or_default()
    }
}

impl<E: Embedder> Sim<E> {
    /// Makes an incident happen to the server of this name.
    pub fn incident(&mut self, server: &str, incident: &Incident) {
        match incident {
            Incident::None => {}
            Incident::Fault(fault) => self.fault(server, *fault),
            Incident::Script(on, replies) => {
                self.change(server, |server| server.add_script(on.clone(), replies.iter().cloned()));
            }
            Incident::Tools(names) => {
                self.change(server, |server| {
                    let tools: Vec<_> = names
                        .iter()
                        .map(|name| server.find_tool(name).cloned().unwrap_or_else(|| FakeTool::new(name)))
                        .collect();
                    server.set_tools(tools);
                });
            }
            Incident::Ask(ask) => {
                self.change(server, |server| server.ask(ask));
            }
        }
    }

    /// Plays turns: one second to connect, then of each turn the operation, the incident at the server of this name and
    /// the wait, and at the end half an hour, in which every timeout passes. `run` gives an operation to the host, and
    /// returns whether the host accepts it. For an id of another simulation, none is accepted.
    ///
    /// # Errors
    /// [`Runaway`] after the maximum number of steps of one run.
    pub fn play(
        &mut self,
        node: NodeId,
        server: &str,
        turns: &[Turn],
        mut run: impl FnMut(Time, &mut E, &Operation) -> bool,
    ) -> Result<Accepted, Runaway> {
        let mut accepted = Accepted::default();
        self.run_for(START)?;
        for Turn { operation, incident, wait } in turns {
            if self.tell(node, |now, host| run(now, host, operation)) == Some(true) {
                let count = accepted.counts.entry(operation.clone()).or_default();
                *count = count.saturating_add(1);
            }
            self.incident(server, incident);
            self.run_for(*wait)?;
        }
        self.run_for(END)?;
        Ok(accepted)
    }
}

/// The first item that occurs a second time.
///
/// ```
/// use mcp_proto::testkit::strategy::repeated;
///
/// assert_eq!(repeated([1, 2, 3, 2, 1]), Some(2));
/// assert_eq!(repeated(["a", "b"]), None);
/// ```
pub fn repeated<T: Ord + Clone>(items: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().find(|item| !seen.insert(item.clone()))
}
