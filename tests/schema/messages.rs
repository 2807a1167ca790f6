//! The messages of a client, validated with the specification's schemas: `$MCP_SPEC_DIR/<version>.json`.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

#[path = "../common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use common::{Host, Server};
use jsonschema::Validator;
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::{
    Era, Eras, Event, Family, Keepalive, KnownEra, LogLevel, Options, ProtocolVersion, Reconnect, Reference, Request,
    TraceContext, Transport,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// The schemas of one version.
struct Schema {
    version: ProtocolVersion,
    root: Value,
    /// The key of the definitions, which depends on the dialect.
    place: &'static str,
    validators: BTreeMap<String, Validator>,
}

impl Schema {
    /// `None` if `MCP_SPEC_DIR` is not set.
    fn load(version: ProtocolVersion) -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("MCP_SPEC_DIR")?);
        let path = folder.join(format!("{version}.json"));
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let root: Value = serde_json::from_slice(&text).unwrap();
        let place = if root.get("$defs").is_some() { "$defs" } else { "definitions" };
        Some(Self { version, root, place, validators: BTreeMap::new() })
    }

    fn definition(&self, name: &str) -> Option<&Value> {
        self.root[self.place].get(name)
    }

    /// The violations of this definition by a value.
    fn against(&mut self, name: &str, value: &Value) -> Result<(), String> {
        if !self.validators.contains_key(name) {
            assert!(self.definition(name).is_some(), "{} has no {name}", self.version);
            let schema = json!({
                "$schema": self.root["$schema"],
                "allOf": [{"$ref": format!("#/{}/{name}", self.place)}],
                self.place: self.root[self.place],
            });
            self.validators.insert(name.into(), jsonschema::validator_for(&schema).unwrap());
        }
        let errors: Vec<String> = self.validators[name]
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(format!("no {name} of {}: {}", self.version, errors.join("; "))) }
    }

    /// The branch of a union of messages with this method.
    fn branch(&self, union: &str, method: &str) -> Option<String> {
        let has = |definition: &Value| definition["properties"]["method"]["const"] == method;
        let definition = self.definition(union)?;
        if has(definition) {
            return Some(union.into());
        }
        let branches = definition["anyOf"].as_array()?;
        let names = branches.iter().filter_map(|branch| branch["$ref"].as_str()?.rsplit('/').next());
        names.map(String::from).find(|name| self.definition(name).is_some_and(has))
    }

    /// Checks one message of a client; `question` is the method of the request that it answers.
    fn check(&mut self, message: &Value, question: Option<&str>) -> Result<(), String> {
        self.against("JSONRPCMessage", message)?;
        if let Some(method) = message["method"].as_str() {
            let (envelope, union) = match message.get("id") {
                Some(_) => ("JSONRPCRequest", "ClientRequest"),
                None => ("JSONRPCNotification", "ClientNotification"),
            };
            self.against(envelope, message)?;
            let branch = self.branch(union, method);
            let branch = branch.ok_or(format!("{union} of {} has no {method}", self.version))?;
            self.against(&branch, message)?;
            return self.against(union, message);
        }
        let newer = self.definition("JSONRPCResultResponse").is_some();
        if message.get("error").is_some() {
            return self.against(if newer { "JSONRPCErrorResponse" } else { "JSONRPCError" }, message);
        }
        self.against(if newer { "JSONRPCResultResponse" } else { "JSONRPCResponse" }, message)?;
        let result = match question.expect("a result answers a request") {
            "ping" => "EmptyResult",
            "roots/list" => "ListRootsResult",
            "sampling/createMessage" => "CreateMessageResult",
            "elicitation/create" => "ElicitResult",
            other => panic!("a result for {other}"),
        };
        self.against(result, &message["result"])?;
        self.against("ClientResult", &message["result"])
    }
}

/// A session whose messages are checked.
struct Talk {
    host: Host,
    server: Server,
    /// The methods of the server's requests, by their ids.
    questions: Vec<&'static str>,
}

impl Talk {
    fn new(options: Options, server: Server) -> Self {
        let mut talk = Self { host: Host::open(options), server, questions: Vec::new() };
        talk.serve();
        talk
    }

    fn ready(options: Options, server: Server) -> Self {
        let talk = Self::new(options, server);
        assert!(talk.host.is_ready(), "{:#?}", talk.host.events);
        talk
    }

    fn serve(&mut self) {
        self.host.serve(&mut self.server);
    }

    fn request(&mut self, request: Request) -> mcp_proto::RequestId {
        let request = self.host.session.request(self.host.now, request).unwrap();
        self.host.collect();
        request
    }

    /// The server sends a request; if the embedder has to answer, it uses this response.
    fn ask(&mut self, method: &'static str, params: Value, answer: Result<Value, ErrorObject>) {
        let id = self.questions.len();
        self.questions.push(method);
        let known = self.host.events.len();
        self.host.receive(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let asked = self.host.events[known..].iter().find_map(|event| match event {
            Event::ServerRequest { id: ask, .. } => Some(*ask),
            _ => None,
        });
        if let Some(ask) = asked {
            let answer = answer.map(|result| to_raw_value(&result).unwrap());
            let answer = answer.as_deref().map_err(Clone::clone);
            self.host.session.respond(self.host.now, ask, answer).unwrap();
            self.host.collect();
        }
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.host.wait(Duration::from_secs(1));
            self.serve();
        }
    }
}

fn raw(value: Value) -> Box<RawValue> {
    to_raw_value(&value).unwrap()
}

fn trace() -> TraceContext {
    let mut trace = TraceContext::default();
    trace.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    trace.tracestate = Some("vendor=1".into());
    trace.baggage = Some("user=1".into());
    trace
}

/// From no capabilities to all of them.
fn offers() -> Vec<Options> {
    let new = || {
        let mut options = Options::new("test-host", "1.0.0");
        options.reconnect = None;
        options.keepalive = None;
        options
    };
    let mut forms = new();
    forms.capabilities.elicitation = true;
    let mut urls = new();
    urls.capabilities.elicitation_url = true;
    let mut roots = new();
    roots.capabilities.roots = Some(Vec::new());
    let mut all = new();
    all.client.title = Some("A \"host\"\n".into());
    all.capabilities.elicitation = true;
    all.capabilities.elicitation_url = true;
    all.capabilities.sampling = true;
    all.capabilities.roots = Some(vec![Root::new("file:///a"), Root::new("file:///b").with_name("b\u{7f}\t")]);
    all.capabilities.extensions =
        [("com.example/ui".parse().unwrap(), raw(json!({"mimeTypes": ["text/html"]})).into())].into();
    all.capabilities.experimental = [("trial".into(), raw(json!({"a": 1})))].into();
    all.log_level = Some(LogLevel::Warning);
    vec![new(), forms, urls, roots, all]
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "logging": {},
        "completions": {}
    })
}

/// A server of this version, whose lists have three pages, and which answers every request.
fn server(version: ProtocolVersion) -> Server {
    let mut server = match version.era() {
        Era::Legacy => Server::new().on("initialize", move |_| {
            let info = json!({"name": "test", "version": "1"});
            Ok(json!({"protocolVersion": version.as_str(), "capabilities": capabilities(), "serverInfo": info}))
        }),
        Era::Modern => Server::modern(capabilities()),
    };
    for &family in Family::ALL {
        server = server.on(family.list_method(), move |params| {
            let (page, next) = match params["cursor"].as_str() {
                None => (1, json!("two \"2\"\n")),
                Some("two \"2\"\n") => (2, json!("")),
                Some(_) => (3, Value::Null),
            };
            let key = format!("i{page}");
            let item = json!({"name": key, "uri": format!("test:{key}"), "uriTemplate": format!("test:{{{key}}}"),
                "inputSchema": {"type": "object"}});
            Ok(json!({"resultType": "complete", family.member(): [item], "nextCursor": next, "ttlMs": 0,
                "cacheScope": "public"}))
        });
    }
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        server = server.result(method, json!({}));
    }
    server
        .result("tools/call", json!({"resultType": "complete", "content": []}))
        .result("prompts/get", json!({"resultType": "complete", "messages": []}))
        .result("resources/read", json!({"resultType": "complete", "contents": []}))
        .result("completion/complete", json!({"resultType": "complete", "completion": {"values": []}}))
}

/// Sessions in which a client of this version sends every kind of message.
fn talks(version: ProtocolVersion) -> Vec<Talk> {
    let mut talks = Vec::new();
    for mut options in offers() {
        // If the versions agree at once, the handshake is of this version, too.
        options.known_era = Some(KnownEra::new(version));
        talks.push(requests(options.clone(), version));
        match version.era() {
            Era::Legacy => talks.push(questions(options.clone(), version)),
            Era::Modern => talks.push(rounds(options.clone(), version)),
        }
        options.known_era = None;
        talks.push(Talk::ready(options, server(version)));
    }
    talks.push(upkeep(version));
    talks.push(come_back(version));
    talks.extend(openings(version));
    talks
}

/// Every request of an embedder.
fn requests(options: Options, version: ProtocolVersion) -> Talk {
    let mut talk = Talk::ready(options, server(version));
    let arguments = json!({"text": "\u{0}\u{1f600}\"\\", "n": 1.5e300, "deep": [[{}]]});
    talk.request(Request::call_tool("a", None));
    talk.request(Request::call_tool("a \"b\"", Some(&raw(arguments.clone()))).progress(true).trace(trace()));
    let given = json!({"name": "a", "arguments": arguments, "_meta": {"progressToken": "mine", "x/y": 1}});
    talk.request(Request::new("tools/call").with_params(&given).unwrap());
    talk.request(Request::new("tools/call").with_params(&given).unwrap().progress(true).trace(trace()));
    talk.request(Request::get_prompt("p", []));
    talk.request(Request::get_prompt("p", [("name", "va\nlue")]).trace(trace()));
    talk.request(Request::read_resource("test:a"));
    talk.request(Request::complete(Reference::Prompt("p"), "name", "va"));
    talk.request(Request::complete(Reference::Resource("test:{a}"), "a", "").progress(true));
    talk.request(Request::new("resources/list"));
    let now = talk.host.now;
    for uri in ["test:a", "test:%22b"] {
        talk.host.session.subscribe(now, uri).unwrap();
        talk.host.collect();
        talk.serve();
    }
    talk.host.session.unsubscribe(now, "test:a").unwrap();
    talk.host.session.set_log_level(now, LogLevel::Error).unwrap();
    talk.host.collect();
    talk.serve();
    if version.era() == Era::Legacy {
        talk.request(Request::new("ping"));
        talk.request(Request::new("ping").trace(trace()));
        if talk.host.session.options().capabilities.roots.is_some() {
            talk.host.session.set_roots(now, vec![Root::new("file:///c")]).unwrap();
        }
        let progress = raw(json!({"progressToken": 1, "progress": 0.5}));
        talk.host.session.notify(now, "notifications/progress", Some(&progress)).unwrap();
        talk.host.collect();
    }
    talk.serve();
    let cancelled = talk.request(Request::call_tool("slow", None));
    talk.host.session.cancel(talk.host.now, cancelled).unwrap();
    talk.host.collect();
    talk.request(Request::call_tool("silent", None).timeout(Duration::from_secs(1)));
    talk.host.wait(Duration::from_secs(2));
    talk.serve();
    assert!(talk.host.methods().contains(&"notifications/cancelled"));
    talk
}

/// Every request of a server of the legacy era.
fn questions(options: Options, version: ProtocolVersion) -> Talk {
    let elicits = version >= ProtocolVersion::V2025_06_18;
    let mut talk = Talk::ready(options, server(version));
    let sample = json!({"messages": [], "maxTokens": 1});
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let url = json!({"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "1"});
    let sampled = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}});
    talk.ask("ping", json!({}), Ok(json!({})));
    talk.ask("roots/list", json!({}), Ok(json!({})));
    talk.ask("x/y", json!({}), Ok(json!({})));
    talk.ask("sampling/createMessage", sample.clone(), Ok(sampled));
    talk.ask("sampling/createMessage", sample.clone(), Err(ErrorObject::new(-1, "User \"rejected\"\n")));
    if elicits {
        talk.ask("elicitation/create", form.clone(), Ok(json!({"action": "accept", "content": {"a": 1, "b": "x"}})));
        talk.ask("elicitation/create", form.clone(), Ok(json!({"action": "cancel"})));
        talk.ask("elicitation/create", url, Ok(json!({"action": "decline"})));
        talk.ask("elicitation/create", json!({"mode": "x"}), Ok(json!({"action": "decline"})));
    }
    // The embedder does not answer these, so the engine does.
    for (method, params) in [("sampling/createMessage", sample), ("elicitation/create", form)] {
        if elicits || method != "elicitation/create" {
            let id = talk.questions.len();
            talk.questions.push(method);
            talk.host.receive(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        }
    }
    talk.host.wait(Duration::from_secs(601));
    let answers = talk.host.transcript.iter().filter(|(_, message)| message.get("method").is_none()).count();
    assert_eq!(answers, talk.questions.len(), "every server request has its response");
    talk
}

/// Rounds of input, if the client declares it.
fn rounds(options: Options, version: ProtocolVersion) -> Talk {
    let offers = options.capabilities.clone();
    let wants_input = offers.elicitation || offers.sampling || offers.roots.is_some();
    let mut asked = 0;
    let server = server(version).on("tools/call", move |params| {
        asked += 1;
        let mut wanted = json!({});
        if offers.elicitation {
            wanted["form"] = json!({"method": "elicitation/create", "params":
                {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}});
        }
        if offers.roots.is_some() {
            wanted["\"roots\"\n"] = json!({"method": "roots/list"});
        }
        if offers.sampling {
            wanted["sample"] = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
        }
        Ok(match asked {
            1 | 2 => json!({"resultType": "input_required", "inputRequests": wanted, "requestState": "st\u{0}te"}),
            3 => json!({"resultType": "input_required", "requestState": "again"}),
            _ if params.get("requestState").is_some() => json!({"resultType": "complete", "content": []}),
            _ => json!({"resultType": "input_required", "inputRequests": wanted}),
        })
    });
    let mut talk = Talk::ready(options, server);
    let call = Request::call_tool("a", Some(&raw(json!({"x": 1})))).progress(true).trace(trace());
    let request = talk.request(call);
    talk.serve();
    for _ in 0..2 {
        let inputs = talk.host.events.iter().rev().find_map(|event| match event {
            Event::InputRequired { inputs, .. } => Some(inputs.clone()),
            _ => None,
        });
        let form = raw(json!({"action": "accept", "content": {"a": true}}));
        let sampled = raw(json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}}));
        let inputs = inputs.unwrap_or_default();
        let responses = inputs.iter().map(|input| {
            (&*input.key, if input.method == mcp_proto::ServerMethod::Elicitation { &*form } else { &*sampled })
        });
        // If the engine provides all input, nothing is left to answer.
        let _ = talk.host.session.provide(talk.host.now, request, responses);
        talk.host.collect();
        talk.serve();
    }
    talk.host.result_of(request);
    let says = |member| talk.server.messages().any(|message| message["params"].get(member).is_some());
    assert!(says("requestState"));
    assert_eq!(says("inputResponses"), wants_input);
    talk
}

/// Keepalive, refresh on demand, and refresh after `list_changed`.
fn upkeep(version: ProtocolVersion) -> Talk {
    let mut options = offers().pop().unwrap();
    let mut keepalive = Keepalive::default();
    keepalive.discover = true;
    options.keepalive = Some(keepalive);
    let mut talk = Talk::ready(options, server(version));
    talk.wait(150);
    talk.host.session.refresh(talk.host.now, Family::Tools).unwrap();
    talk.host.collect();
    talk.serve();
    talk.host.receive(json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}));
    talk.wait(10);
    talk
}

/// A lost connection, and the messages on the next one.
fn come_back(version: ProtocolVersion) -> Talk {
    let mut options = offers().pop().unwrap();
    options.reconnect = Some(Reconnect::default());
    let mut talk = Talk::ready(options, server(version));
    talk.request(Request::call_tool("a", None).replay(true));
    talk.host.take_sent();
    talk.host.close_transport();
    talk.host.wait(Duration::from_secs(1));
    talk.host.transport(Transport::Opened);
    talk.serve();
    assert!(talk.host.is_ready());
    talk
}

/// Handshakes with more than one step to this version.
fn openings(version: ProtocolVersion) -> Vec<Talk> {
    let all = || offers().pop().unwrap();
    let refuse = |code: i64, message: &'static str| move |_: &Value| Err(json!({"code": code, "message": message}));
    let mut first = all();
    first.eras = Eras::LegacyFirst;
    match version.era() {
        Era::Legacy => {
            let mut only = all();
            only.eras = Eras::LegacyOnly;
            let mut refused = false;
            let picky = server(version).on("initialize", move |params| {
                if !std::mem::replace(&mut refused, true) {
                    return Err(json!({"code": -32602, "message": "unknown capability"}));
                }
                if params["protocolVersion"] != version.as_str() {
                    return Err(json!({"code": -32602, "message": "Unsupported protocol version"}));
                }
                let info = json!({"name": "test", "version": "1"});
                Ok(json!({"protocolVersion": version.as_str(), "capabilities": {}, "serverInfo": info}))
            });
            let names_legacy = server(version)
                .result("server/discover", json!({"supportedVersions": [version.as_str()], "capabilities": {}}));
            vec![
                Talk::ready(first, server(version)),
                Talk::ready(only, picky),
                Talk::ready(all(), names_legacy),
                Talk::new(all(), Server::new()),
            ]
        }
        Era::Modern => {
            let mut pinned = all();
            pinned.eras = Eras::ModernOnly(version);
            let mut refused = false;
            let mut modern = server(version);
            let names_itself = Server::new().on("server/discover", move |params| {
                if !std::mem::replace(&mut refused, true) {
                    let data = json!({"supported": [version.as_str()], "requested": version.as_str()});
                    return Err(json!({"code": -32022, "message": "Unsupported", "data": data}));
                }
                Ok(modern.answer(&json!({"id": 1, "method": "server/discover", "params": params})).remove(0)["result"]
                    .clone())
            });
            vec![
                Talk::ready(first, server(version).on("initialize", refuse(-32601, "Method not found"))),
                Talk::ready(pinned, server(version)),
                Talk::new(all(), names_itself),
            ]
        }
    }
}

/// The messages of all sessions of a version, with the version of each, and the request that it answers.
fn sent(version: ProtocolVersion) -> Vec<(ProtocolVersion, Value, Option<&'static str>)> {
    let mut sent = Vec::new();
    for talk in talks(version) {
        for (of, message) in &talk.host.transcript {
            let of = of.as_deref().map_or(version, |of| of.parse().unwrap());
            let question = message["id"].as_u64().filter(|_| message.get("method").is_none());
            sent.push((of, message.clone(), question.map(|id| talk.questions[id as usize])));
        }
    }
    sent
}

fn loaded() -> Option<BTreeMap<ProtocolVersion, Schema>> {
    let schemas: BTreeMap<_, _> =
        ProtocolVersion::ALL.iter().copied().filter_map(|version| Some((version, Schema::load(version)?))).collect();
    if schemas.is_empty() {
        eprintln!("skipped: MCP_SPEC_DIR is not set");
        return None;
    }
    Some(schemas)
}

/// Checks all messages in the sessions of a version, and that every kind of message is among them.
fn check(version: ProtocolVersion, methods: &[&str]) {
    let sent = sent(version);
    let own: Vec<_> = sent.iter().filter(|(of, _, _)| *of == version).collect();
    let found: BTreeSet<&str> = own.iter().map(|(_, message, _)| message["method"].as_str().unwrap_or("")).collect();
    let wanted: BTreeSet<&str> = methods.iter().copied().collect();
    assert_eq!(found, wanted, "the sessions lack a kind of message");
    let Some(mut schemas) = loaded() else { return };
    let wrong: BTreeSet<String> = sent
        .iter()
        .filter_map(|(of, message, question)| {
            let schema = schemas.get_mut(of).unwrap();
            schema.check(message, *question).err().map(|error| format!("{error}\n    {message}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} messages:\n{}", wrong.len(), sent.len(), Vec::from_iter(wrong).join("\n"));
}

/// The messages of every client.
const EVERY: [&str; 9] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "notifications/cancelled",
];

/// The empty name stands for responses.
const LEGACY: [&str; 9] = [
    "initialize",
    "notifications/initialized",
    "logging/setLevel",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
    "notifications/roots/list_changed",
    "notifications/progress",
    "",
];

#[test]
fn of_2024_11_05() {
    check(ProtocolVersion::V2024_11_05, &[EVERY, LEGACY].concat());
}

#[test]
fn of_2025_03_26() {
    check(ProtocolVersion::V2025_03_26, &[EVERY, LEGACY].concat());
}

#[test]
fn of_2025_06_18() {
    check(ProtocolVersion::V2025_06_18, &[EVERY, LEGACY].concat());
}

#[test]
fn of_2025_11_25() {
    check(ProtocolVersion::V2025_11_25, &[EVERY, LEGACY].concat());
}

#[test]
fn of_2026_07_28() {
    check(ProtocolVersion::V2026_07_28, &[&EVERY[..], &["server/discover", "subscriptions/listen"]].concat());
}

/// The check can fail: broken messages are rejected.
#[test]
fn broken_messages_are_rejected() {
    let Some(mut schemas) = loaded() else { return };
    for &version in ProtocolVersion::ALL {
        let sent = sent(version);
        let schema = schemas.get_mut(&version).unwrap();
        let find = |method: &str| {
            let is_it = |(of, message, _): &&(ProtocolVersion, Value, _)| *of == version && message["method"] == method;
            sent.iter().find(is_it).unwrap_or_else(|| panic!("no {method}")).1.clone()
        };
        let mut broken = Vec::new();
        let mut breaks = |method: &str, how: &dyn Fn(&mut Value)| {
            let mut message = find(method);
            how(&mut message);
            broken.push((message, None));
        };
        breaks("tools/call", &|message| message["jsonrpc"] = json!("1.0"));
        breaks("tools/call", &|message| message["id"] = json!(null));
        breaks("tools/call", &|message| message["method"] = json!("tools/cal"));
        breaks("tools/call", &|message| message["params"]["name"] = json!(1));
        breaks("tools/call", &|message| message["params"]["arguments"] = json!([]));
        breaks("tools/call", &|message| message["params"] = json!([]));
        breaks("prompts/get", &|message| message["params"]["arguments"] = json!({"name": 1}));
        breaks("resources/read", &|message| message["params"]["uri"] = json!(null));
        breaks("completion/complete", &|message| message["params"]["ref"]["type"] = json!("ref/tool"));
        breaks("tools/list", &|message| message["params"] = json!({"cursor": 1}));
        breaks("notifications/cancelled", &|message| message["params"]["requestId"] = json!({}));
        breaks("notifications/cancelled", &|message| message["params"]["reason"] = json!(1));
        match version.era() {
            Era::Legacy => {
                breaks("initialize", &|message| message["params"]["protocolVersion"] = json!(1));
                breaks("initialize", &|message| message["params"]["clientInfo"] = json!({"name": "x"}));
                breaks("initialize", &|message| message["params"]["capabilities"] = json!({"sampling": true}));
                breaks("logging/setLevel", &|message| message["params"]["level"] = json!("loud"));
                let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 0, "result": result});
                broken.push((answer(json!({"roots": [{"name": "x"}]})), Some("roots/list")));
                broken.push((answer(json!({"role": "assistant"})), Some("sampling/createMessage")));
                broken.push((answer(json!([])), Some("ping")));
                broken.push((json!({"jsonrpc": "2.0", "id": 0, "error": {"code": "x", "message": "y"}}), None));
            }
            Era::Modern => {
                const META: &str = "io.modelcontextprotocol/clientCapabilities";
                breaks("tools/list", &|message| message["params"]["_meta"] = json!({}));
                breaks("server/discover", &|message| message["params"]["_meta"][META] = json!(null));
                breaks("tools/call", &|message| {
                    message["params"]["inputResponses"] = json!({"a": {"action": "maybe"}})
                });
                breaks("tools/call", &|message| message["params"]["requestState"] = json!({}));
            }
        }
        for (message, question) in broken {
            assert!(schema.check(&message, question).is_err(), "{version} accepts {message}");
        }
    }
}
