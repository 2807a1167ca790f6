//! Every message that is sent, against the schema of its version.
//!
//! `MCP_SPEC_DIR` names the folder with the schemas, one `<version>.json` each; without it nothing is validated.

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

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use common::{Host, Server, options, tools};
use mcp_proto::protocol::Root;
use mcp_proto::{Event, Keepalive, LogLevel, Options, ProtocolVersion, Reference, Request, TraceContext};
use serde_json::value::RawValue;
use serde_json::{Value, json};

struct Schema {
    document: Value,
    /// Where the definitions are: their place was renamed between versions.
    place: &'static str,
}

impl Schema {
    fn all() -> Option<BTreeMap<String, Self>> {
        let Some(folder) = std::env::var_os("MCP_SPEC_DIR") else {
            println!("skipped: MCP_SPEC_DIR is not set");
            return None;
        };
        let read = |version: ProtocolVersion| {
            let file = Path::new(&folder).join(format!("{version}.json"));
            let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let document: Value = serde_json::from_str(&text).unwrap();
            let place = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
            (version.to_string(), Self { document, place })
        };
        Some(ProtocolVersion::ALL.into_iter().map(read).collect())
    }

    fn definitions(&self) -> &serde_json::Map<String, Value> {
        self.document[self.place].as_object().unwrap()
    }

    /// The first of these names that the version has.
    fn name<'a>(&self, names: &[&'a str]) -> &'a str {
        names.iter().find(|name| self.definitions().contains_key(**name)).unwrap_or_else(|| panic!("none of {names:?}"))
    }

    /// The definition of the request or the notification of this method.
    fn of_method(&self, method: &str) -> Option<&str> {
        let is_it = |definition: &&Value| definition["properties"]["method"]["const"] == method;
        self.definitions().iter().find(|(_, definition)| is_it(definition)).map(|(name, _)| &**name)
    }

    fn errors(&self, definition: &str, message: &Value) -> Vec<String> {
        let mut schema = self.document.clone();
        schema["$ref"] = json!(format!("#/{}/{definition}", self.place));
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(message).map(|error| format!("{definition}{}: {error}", error.instance_path())).collect()
    }

    /// What is wrong with a message that a client sends; `asked` is the method that an answer answers.
    fn check(&self, message: &Value, asked: Option<&str>) -> Vec<String> {
        let mut errors = self.errors("JSONRPCMessage", message);
        match (message["method"].as_str(), message.get("id"), message.get("result")) {
            (Some(method), id, _) => {
                let envelope = if id.is_some() { "JSONRPCRequest" } else { "JSONRPCNotification" };
                errors.extend(self.errors(envelope, message));
                match self.of_method(method) {
                    Some(definition) => errors.extend(self.errors(definition, message)),
                    None => errors.push(format!("{method} is no method of this version")),
                }
            }
            (None, _, Some(result)) => {
                errors.extend(self.errors(self.name(&["JSONRPCResultResponse", "JSONRPCResponse"]), message));
                let definition = match asked {
                    Some("ping") => "EmptyResult",
                    Some("roots/list") => "ListRootsResult",
                    // Revisions without elicitation say nothing of its result.
                    Some("elicitation/create") => self.name(&["ElicitResult", "Result"]),
                    Some("sampling/createMessage") => "CreateMessageResult",
                    other => panic!("an answer to {other:?}"),
                };
                errors.extend(self.errors(definition, result));
            }
            (None, _, None) => {
                errors.extend(self.errors(self.name(&["JSONRPCErrorResponse", "JSONRPCError"]), message));
            }
        }
        errors
    }
}

fn offering(everything: bool) -> Options {
    let mut options = options();
    if everything {
        options.client.title = Some("A \"host\"".into());
        options.capabilities.elicitation = true;
        options.capabilities.elicitation_url = true;
        options.capabilities.sampling = true;
        options.capabilities.roots = Some(vec![
            Root { uri: "file:///work".into(), name: Some("work".into()) },
            Root { uri: "file:///tmp".into(), name: None },
        ]);
        options.capabilities.extensions = vec![("io.example/x".into(), raw(json!({"y": [1]})))];
        options.log_level = Some(LogLevel::Warning);
    }
    let mut keepalive = Keepalive::default();
    keepalive.discover = true;
    options.keepalive = Some(keepalive);
    options
}

fn raw(value: Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(&value).unwrap()
}

fn server(version: ProtocolVersion) -> Server {
    let capabilities = json!({
        "tools": {"listChanged": true}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}
    });
    let answer = json!({
        "protocolVersion": version.as_str(), "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}
    });
    let server = match version.era() {
        mcp_proto::Era::Legacy => Server::new().result("initialize", answer),
        mcp_proto::Era::Modern => Server::modern(capabilities),
    };
    server
        .on("tools/list", |params| {
            let mut page = tools(&[if params["cursor"].is_null() { "a" } else { "b" }]);
            if params["cursor"].is_null() {
                page["nextCursor"] = json!("two \"\u{fc}\"");
            }
            Ok(page)
        })
        .result("prompts/list", json!({"prompts": [{"name": "p"}]}))
        .result("resources/list", json!({"resources": [{"uri": "r:1", "name": "r"}]}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("tools/call", json!({"content": []}))
        .result("logging/setLevel", json!({}))
        .result("ping", json!({}))
}

fn requests() -> Vec<Request> {
    let trace = TraceContext {
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01".into()),
        tracestate: Some("a=1".into()),
        baggage: Some("k=v".into()),
    };
    vec![
        Request::call_tool("a", Some(&raw(json!({"n": 1})))).progress(),
        Request::call_tool("a", None).trace(trace),
        Request::new("tools/call").params(raw(json!({"name": "a", "_meta": {"progressToken": "mine"}}))),
        Request::get_prompt("p", [("k", "v")]),
        Request::read_resource("r:1"),
        Request::complete(Reference::Prompt("p"), "k", "v"),
        Request::complete(Reference::Resource("r:{x}"), "x", "1"),
    ]
}

/// A session in which everything is sent that a client sends; and which answer answers what.
fn session(version: ProtocolVersion, everything: bool) -> (Host, BTreeMap<String, &'static str>) {
    let mut server = server(version);
    let mut host = Host::connect(offering(everything), &mut server);
    assert!(host.is_ready(), "{:?}", host.failure());
    let accepted: Vec<_> =
        requests().into_iter().map(|request| host.session.request(host.now, request).unwrap()).collect();
    host.collect();
    host.session.cancel(host.now, accepted[0]).unwrap();
    host.collect();
    host.serve(&mut server);
    let mut asked = BTreeMap::new();
    if version.era() == mcp_proto::Era::Legacy {
        for (index, method) in
            ["ping", "roots/list", "elicitation/create", "sampling/createMessage", "acme/ask"].into_iter().enumerate()
        {
            let id = format!("s{index}");
            host.receive(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "?"}}));
            asked.insert(id, method);
        }
        let results = [
            json!({"action": "accept", "content": {"a": 1}}),
            json!({
                "role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}
            }),
        ];
        let questions: Vec<_> = host
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Asked { ask, .. } => Some(*ask),
                _ => None,
            })
            .collect();
        assert_eq!(questions.len(), if everything { 2 } else { 0 });
        for (ask, result) in questions.into_iter().zip(results) {
            host.session.answer(host.now, ask, Ok(&raw(result))).unwrap();
        }
        host.receive(
            json!({"jsonrpc": "2.0", "id": "late", "method": "elicitation/create", "params": {"message": "?"}}),
        );
        asked.insert("late".into(), "elicitation/create");
        host.collect();
    } else if everything {
        let call = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
        host.collect();
        let id = host.take_one()["id"].clone();
        let inputs = json!({
            "e": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}},
            "r": {"method": "roots/list"}
        });
        let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": "s"});
        host.receive(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let response = raw(json!({"action": "accept", "content": {"a": "b"}}));
        host.session.provide(host.now, call, [("e", &*response)]).unwrap();
        host.collect();
        host.serve(&mut server);
    }
    host.wait(Duration::from_secs(60));
    host.serve(&mut server);
    host.wait(Duration::from_secs(1000));
    (host, asked)
}

#[test]
fn every_message_is_valid_in_its_version() {
    let Some(schemas) = Schema::all() else { return };
    for version in ProtocolVersion::ALL {
        let mut methods = BTreeSet::new();
        for everything in [false, true] {
            let (host, asked) = session(version, everything);
            for (under, message) in &host.transcript {
                let schema = &schemas[under.as_deref().unwrap_or(version.as_str())];
                let errors = schema.check(message, message["id"].as_str().and_then(|id| asked.get(id).copied()));
                assert!(errors.is_empty(), "{under:?} {message}\n{errors:#?}");
                methods.insert(message["method"].as_str().unwrap_or("(answer)").to_owned());
            }
        }
        let era = if version == ProtocolVersion::V2026_07_28 { "notifications/cancelled" } else { "ping" };
        for method in ["tools/list", "tools/call", "prompts/get", "resources/read", "completion/complete", era] {
            assert!(methods.contains(method), "{version}: no {method} among {methods:?}");
        }
    }
}

#[test]
fn what_is_not_valid_is_refused() {
    let Some(schemas) = Schema::all() else { return };
    let (host, _) = session(ProtocolVersion::V2026_07_28, true);
    let (_, call) = host.transcript.iter().find(|(_, message)| message["method"] == "tools/call").unwrap();
    let schema = &schemas["2026-07-28"];
    assert!(schema.check(call, None).is_empty());
    for pointer in ["/params/_meta/io.modelcontextprotocol~1protocolVersion", "/params/name", "/jsonrpc", "/method"] {
        let mut broken = call.clone();
        *broken.pointer_mut(pointer).unwrap() = json!([]);
        assert!(!schema.check(&broken, None).is_empty(), "{pointer}");
    }
    assert!(
        !schemas["2025-11-25"].check(&json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}), None).is_empty()
    );
}
