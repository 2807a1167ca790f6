//! A complete session in each version, as sent and received.

use std::fmt::Write;

use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, Cause, Client, Era, Event, Family, Messages, Options, Outcome, ProtocolVersion, Request, RequestId,
    ServerRequestId, ShutdownStep, Time, Transport,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::common::{Deliver, Steps};

/// A session, its server, and its messages: `→` to the server, `←` from it, `·` an event of the embedder.
struct Play {
    session: Client<Messages>,
    version: ProtocolVersion,
    transcript: String,
    unanswered: Vec<Value>,
    asked: Option<ServerRequestId>,
    waiting: Option<RequestId>,
}

impl Play {
    fn new(version: ProtocolVersion) -> Self {
        let mut options = Options::new("test-host", "1.0.0");
        options.capabilities.elicitation = true;
        options.capabilities.roots = Some(vec![Root::new("file:///project")]);
        let session = Client::new(Messages::new(), options, 0);
        let (transcript, unanswered) = (String::new(), Vec::new());
        Self { session, version, transcript, unanswered, asked: None, waiting: None }
    }

    fn note(&mut self, sign: char, text: &str) {
        writeln!(self.transcript, "{sign} {text}").unwrap();
    }

    fn collect(&mut self) {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.session.poll() {
            steps.step();
            let words = match action {
                Action::Open(_) => "open".into(),
                Action::Shutdown(ShutdownStep::CloseInput) => "close the input".into(),
                Action::Send(message) => {
                    self.note('→', std::str::from_utf8(message.bytes()).unwrap());
                    self.unanswered.push(serde_json::from_slice(message.bytes()).unwrap());
                    continue;
                }
                Action::Event(event) => self.event(event),
                other => panic!("{other:?}"),
            };
            self.note('·', &words);
        }
    }

    fn event(&mut self, event: Event) -> String {
        match event {
            Event::Ready => {
                let count = |family| self.session.catalog().list(family).len();
                format!("ready: {:?} items", Family::ALL.iter().copied().map(count).collect::<Vec<_>>())
            }
            Event::Finished { outcome: Outcome::Result(_), .. } => "finished: result".into(),
            Event::Resending { attempt, reason, .. } => format!("sent again: attempt {attempt}, {reason:?}"),
            Event::ServerRequest { id: ask, method, .. } => {
                self.asked = Some(ask);
                format!("asked: {method}")
            }
            Event::InputRequired { request, inputs } => {
                self.waiting = Some(request);
                let keys: Vec<_> = inputs.iter().map(|input| &*input.key).collect();
                format!("input required: {}", keys.join(", "))
            }
            Event::Closed { cause: Cause::Requested } => "closed".into(),
            other => panic!("{other:?}"),
        }
    }

    fn receive(&mut self, message: Value) {
        self.note('←', &message.to_string());
        self.session.deliver(Time::ZERO, message.to_string().as_bytes());
        self.collect();
    }

    /// Answers messages until there are none left.
    fn serve(&mut self) {
        let mut steps = Steps::until("nothing is left to answer");
        while !self.unanswered.is_empty() {
            steps.step();
            let message = self.unanswered.remove(0);
            if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
                let mut answer = json!({"jsonrpc": "2.0", "id": id});
                match self.answer(method, &message["params"]) {
                    Some(result) => answer["result"] = result,
                    None => answer["error"] = json!({"code": -32601, "message": "Method not found"}),
                }
                self.receive(answer);
            }
        }
    }

    fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        let modern = self.version.era() == Era::Modern;
        let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
        let info = json!({"name": "test", "version": "1"});
        let mut result = match method {
            "initialize" if !modern => {
                return Some(json!({"protocolVersion": self.version.as_str(), "capabilities": capabilities,
                    "serverInfo": info}));
            }
            "server/discover" if modern => json!({"supportedVersions": [self.version.as_str()],
                "capabilities": capabilities, "_meta": {"io.modelcontextprotocol/serverInfo": info}}),
            "tools/call" if modern && params.get("inputResponses").is_none() => {
                let schema = json!({"type": "object", "properties": {}});
                return Some(json!({"resultType": "input_required", "requestState": "s", "inputRequests": {
                    "name": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}},
                    "where": {"method": "roots/list"}
                }}));
            }
            "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
            _ => page(method, params)?,
        };
        if modern {
            result["resultType"] = json!("complete");
        }
        Some(result)
    }
}

fn page(method: &str, params: &Value) -> Option<Value> {
    let family = Family::ALL.iter().copied().find(|family| family.list_method() == method)?;
    let (name, next) = if params["cursor"].is_null() { ("a", Some("2")) } else { ("b", None) };
    let mut item = json!({"name": name});
    match family {
        Family::Tools => item["inputSchema"] = json!({"type": "object"}),
        Family::Prompts => {}
        Family::Resources => item["uri"] = json!(format!("test:{name}")),
        Family::ResourceTemplates => item["uriTemplate"] = json!(format!("test:{name}/{{x}}")),
        _ => panic!("{family:?}"),
    }
    let mut page = json!({family.member(): [item]});
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Some(page)
}

fn transcript(version: ProtocolVersion) -> String {
    let mut play = Play::new(version);
    play.session.open(Time::ZERO).unwrap();
    play.collect();
    play.session.report(Time::ZERO, Transport::Opened);
    play.collect();
    play.serve();

    let arguments = to_raw_value(&json!({"text": "hi"})).unwrap();
    play.session.request(Time::ZERO, Request::call_tool("a", Some(&arguments))).unwrap();
    play.collect();
    play.serve();
    let accepted = to_raw_value(&json!({"action": "accept", "content": {"name": "x"}})).unwrap();
    if let Some(request) = play.waiting {
        play.session.provide(Time::ZERO, request, [("name", &*accepted)]).unwrap();
        play.collect();
        play.serve();
    }

    if version.era() == Era::Legacy {
        play.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
        play.receive(json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
        play.receive(json!({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {}}));
    }
    if (ProtocolVersion::V2025_06_18..=ProtocolVersion::NEWEST_LEGACY).contains(&version) {
        let params = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        play.receive(json!({"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": params}));
        play.session.respond(Time::ZERO, play.asked.unwrap(), Ok(&accepted)).unwrap();
        play.collect();
    }

    play.session.close(Time::ZERO).unwrap();
    play.collect();
    play.session.report(Time::ZERO, Transport::Closed { why: "exit status: 0" });
    play.collect();
    assert!(play.session.is_closed() && play.session.quirks().is_empty());
    play.transcript
}

#[test]
fn of_2024_11_05() {
    insta::assert_snapshot!("2024-11-05", transcript(ProtocolVersion::V2024_11_05));
}

#[test]
fn of_2025_03_26() {
    insta::assert_snapshot!("2025-03-26", transcript(ProtocolVersion::V2025_03_26));
}

#[test]
fn of_2025_06_18() {
    insta::assert_snapshot!("2025-06-18", transcript(ProtocolVersion::V2025_06_18));
}

#[test]
fn of_2025_11_25() {
    insta::assert_snapshot!("2025-11-25", transcript(ProtocolVersion::V2025_11_25));
}

#[test]
fn of_2026_07_28() {
    insta::assert_snapshot!("2026-07-28", transcript(ProtocolVersion::V2026_07_28));
}
