//! Fake servers from a journal: by name for a hub, with messages before the client's first one, and with redirects.

use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{Hub, HubCommand, HubEvent, HubOptions};
use mcp_proto::journal::{self, Input, JournalError, JournalLimits, TransportEvent};
use mcp_proto::testkit::{Carried, Collector, Driven, FakeServer, FakeTool, Link, NodeId, On, Reply, Sim};
use mcp_proto::{Action, Client, Command, Event, Http, Lines, Options, Outcome, Request, RequestError, Time};
use serde_json::{Value, json};

use crate::common::{millis, seconds};

const LIMITS: fn() -> JournalLimits = JournalLimits::default;

/// A hub with a server over stdio and one over HTTP, whose results differ.
fn hub_journal() -> String {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let files = FakeServer::legacy().tool(FakeTool::new("read")).result("tools/call", text("of files"));
    let web = FakeServer::modern().tool(FakeTool::new("search")).result("tools/call", text("of the web"));
    let link = Link::new(millis(20)).jitter(millis(50)).piece(40);
    let mut sim = Sim::new(3).with_server("files", files, link).with_server("web", web, link);
    let hub = journal::Recorder::of_hub(HubOptions::new(Options::new("host", "1")), 5, LIMITS());
    let node = sim.add_hub(Collector::new(hub));
    let configuration: Configuration = serde_json::from_value(json!({
        "files": {"command": "files-mcp"},
        "web": {"url": "https://example.com/mcp"},
        "off": {"command": "off-mcp", "enabled": false},
    }))
    .unwrap();
    let apply = |sim: &mut Sim<Collector<journal::Recorder<Hub>>>, command| {
        sim.tell(node, |now, hub| hub.apply(now, command)).unwrap().unwrap();
        sim.run_for(seconds(5)).unwrap();
    };
    apply(&mut sim, HubCommand::Configure(configuration));
    apply(&mut sim, HubCommand::Open);
    for name in ["mcp_files_read", "mcp_web_search"] {
        apply(
            &mut sim,
            HubCommand::Call { name: name.into(), arguments: None, timeout: None, progress: false, trace: None },
        );
    }
    let journal = sim.tell(node, |_, hub| {
        hub.end();
        hub.take()
    });
    journal.unwrap()
}

type World<B> = Sim<Collector<Client<B>>>;

fn world<B: Carried>(server: FakeServer, binding: B) -> (World<B>, NodeId)
where
    Client<B>: Driven<Event = Event>,
{
    let mut sim = Sim::new(7).with_server("s", server, Link::default());
    let node = sim.add("s", Collector::new(Client::new(binding, Options::new("another", "2"), 1)));
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    sim.run_for(seconds(5)).unwrap();
    (sim, node)
}

fn run<B: Carried>(sim: &mut World<B>, node: NodeId, request: Request) -> Outcome
where
    Client<B>: Driven<Event = Event>,
{
    sim.tell(node, |now, client| client.request(now, request)).unwrap().unwrap();
    sim.run_for(seconds(60)).unwrap();
    let finished = sim.get(node).unwrap().events.iter().rev().find_map(|(_, event)| match event {
        Event::Finished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    finished.unwrap()
}

fn calls_a_tool<B: Carried>(server: FakeServer, binding: B, tool: &str) -> String
where
    Client<B>: Driven<Event = Event>,
{
    let (mut sim, node) = world(server, binding);
    let tools: Vec<_> = sim.get(node).unwrap().catalog().tools().map(|tool| tool.name.to_string()).collect();
    assert_eq!(tools, [tool]);
    let Outcome::Result(result) = run(&mut sim, node, Request::call_tool(tool, None)) else { panic!("a result") };
    assert_eq!(sim.server("s").unwrap().mismatches(), []);
    result.get().into()
}

#[test]
fn each_server_of_a_hubs_journal_is_played_by_its_name() {
    let journal = hub_journal();
    let played = |name: &str| FakeServer::from_hub_journal(journal.as_bytes(), name, LIMITS());
    let http = || Http::new("https://example.com/mcp").unwrap();
    assert!(calls_a_tool(played("files").unwrap(), Lines::new(), "read").contains("of files"));
    assert!(calls_a_tool(played("web").unwrap(), http(), "search").contains("of the web"));
    // Over the other transport.
    assert!(calls_a_tool(played("web").unwrap(), Lines::new(), "search").contains("of the web"));
    for name in ["off", "none"] {
        assert_eq!(played(name).map(drop), Err(JournalError::NoServer { server: name.into() }));
    }
}

#[test]
fn a_journal_of_a_client_has_no_server_to_choose() {
    let client = journal::Recorder::new(Lines::new(), Options::new("h", "1"), 1, LIMITS());
    let journal = client.finish().1;
    assert_eq!(FakeServer::from_hub_journal(journal.as_bytes(), "s", LIMITS()).map(drop), Err(JournalError::OfClient));
    let journal = hub_journal();
    let changed = journal.replacen("of files", "of filez", 1);
    let played = FakeServer::from_hub_journal(changed.as_bytes(), "files", LIMITS()).map(drop);
    assert!(matches!(played, Err(JournalError::Changed { .. })), "{played:?}");
}

fn result(message: &Value) -> Option<String> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}})
        }
        "a/b" => json!({"of": "a/b"}),
        _ => return Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).to_string()),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

#[test]
fn messages_before_the_clients_first_one_are_played() {
    let mut client = journal::Recorder::new(Lines::new(), Options::new("h", "1"), 1, LIMITS());
    let now = Time::ZERO;
    client.apply(now, Command::Open).unwrap();
    let Some(Action::Open(connection)) = client.poll() else { panic!("a transport to open") };
    let line = |text: String| Input::Bytes { connection, bytes: (text + "\n").into_bytes().into() };
    client.handle_input(now, line(json!({"jsonrpc": "2.0", "method": "notifications/hello"}).to_string())).unwrap();
    client.handle_input(now, Input::Transport { connection, event: TransportEvent::Opened }).unwrap();
    client.handle_input(now, line(json!({"jsonrpc": "2.0", "method": "notifications/hello"}).to_string())).unwrap();
    while let Some(action) = client.poll() {
        let Action::Send(message) = action else { continue };
        if let Some(text) = result(&serde_json::from_slice(message.bytes()).unwrap()) {
            client.handle_input(now, line(text)).unwrap();
        }
    }
    assert!(client.is_ready());
    let journal = client.finish().1;
    // Both precede the first message of the client.
    let order = ["\"in\":{\"type\":\"bytes\"", "\"type\":\"send\""].map(|text| journal.find(text).unwrap());
    assert!(order[0] < order[1]);

    fn plays<B: Carried>(journal: &str, binding: B)
    where
        Client<B>: Driven<Event = Event>,
    {
        let server = FakeServer::from_journal(journal.as_bytes(), LIMITS()).unwrap();
        let (sim, node) = world(server, binding);
        assert!(sim.get(node).unwrap().is_ready());
        assert_eq!(heard(&sim, node).len(), 2);
        assert_eq!(sim.server("s").unwrap().mismatches(), []);
    }
    plays(&journal, Lines::new());
    // Over HTTP, they wait for a stream.
    plays(&journal, Http::new("https://example.com/mcp").unwrap());
}

/// When the client got each `notifications/hello`.
fn heard<B: Carried>(sim: &World<B>, node: NodeId) -> Vec<Time>
where
    Client<B>: Driven<Event = Event>,
{
    let events = sim.get(node).unwrap().events.iter();
    let heard = events
        .filter(|(_, event)| matches!(event, Event::Notification { method, .. } if **method == *"notifications/hello"));
    heard.map(|(at, _)| *at).collect()
}

type Recorded = journal::Recorder<Client<Http>>;

/// Responds to the requests of a client, to `a/b` with a stream: a message each second, then the result.
fn respond(client: &mut Recorded, now: &mut Time, said: &[Value]) {
    while let Some(action) = client.poll() {
        if let HttpAction::Event(Event::Ready) = action {
            client.apply(*now, Command::Request(Request::new("a/b"))).unwrap();
        }
        let HttpAction::Request(it) = action else { continue };
        let exchange = it.exchange;
        let message: Value = serde_json::from_slice(it.request.body()).unwrap_or_default();
        let text = result(&message);
        let is_stream = message["method"] == "a/b";
        let kind = if is_stream { "text/event-stream" } else { "application/json" };
        let (status, kind) = match (&text, it.request.method().as_str()) {
            (Some(_), _) => (StatusCode::OK, Some(kind)),
            (None, "POST") => (StatusCode::ACCEPTED, None),
            (None, _) => (StatusCode::METHOD_NOT_ALLOWED, None),
        };
        let headers =
            kind.map(|kind| (http::header::CONTENT_TYPE, HeaderValue::from_static(kind))).into_iter().collect();
        client.handle_input(*now, Input::Head { exchange, status, headers }).unwrap();
        for message in said.iter().filter(|_| is_stream) {
            *now = *now + seconds(1);
            let bytes = format!("data: {message}\n\n").into_bytes().into();
            client.handle_input(*now, Input::Body { exchange, bytes }).unwrap();
            respond(client, now, &[]);
        }
        if let Some(text) = text {
            *now = *now + seconds(u64::from(is_stream));
            let bytes = if is_stream { format!("data: {text}\n\n") } else { text };
            client.handle_input(*now, Input::Body { exchange, bytes: bytes.into_bytes().into() }).unwrap();
        }
        client.handle_input(*now, Input::End { exchange }).unwrap();
    }
}

#[test]
fn what_is_said_in_a_response_is_played_in_it_and_a_ping_is_played_beside_it() {
    let http = || Http::new("https://example.com/mcp").unwrap();
    let mut client = Recorded::new(http(), Options::new("h", "1"), 1, LIMITS());
    client.apply(Time::ZERO, Command::Open).unwrap();
    let hello = json!({"jsonrpc": "2.0", "method": "notifications/hello"});
    let ping = json!({"jsonrpc": "2.0", "id": 77, "method": "ping"});
    let mut now = Time::ZERO;
    respond(&mut client, &mut now, &[hello, ping]);
    let journal = client.finish().1;
    for has_stream in [true, false] {
        let server = FakeServer::from_journal(journal.as_bytes(), LIMITS()).unwrap().get_stream(has_stream);
        let (mut sim, node) = world(server, http());
        let start = sim.now();
        assert!(matches!(run(&mut sim, node, Request::new("a/b")), Outcome::Result(_)));
        let (end, _) =
            sim.get(node).unwrap().events.iter().rfind(|(_, it)| matches!(it, Event::Finished { .. })).unwrap();
        let heard = heard(&sim, node);
        assert_eq!(heard.len(), 1);
        assert_eq!(((heard[0] - start).as_secs(), (*end - start).as_secs()), (1, 3));
        let server = sim.server("s").unwrap();
        assert_eq!((server.answers().len(), server.violations()), (usize::from(has_stream), &[][..]));
    }
}

#[test]
fn a_recorded_hub_is_woken_at_its_deadlines() {
    let server = FakeServer::legacy().tool(FakeTool::new("read")).always(On::tool("read"), Reply::Silent);
    let mut sim = Sim::new(3).with_server("files", server, Link::default());
    let hub = journal::Recorder::of_hub(HubOptions::new(Options::new("host", "1")), 5, LIMITS());
    let node = sim.add_hub(Collector::new(hub));
    let configuration = serde_json::from_value(json!({"files": {"command": "files-mcp"}})).unwrap();
    for command in [HubCommand::Configure(configuration), HubCommand::Open] {
        sim.tell(node, |now, hub| hub.apply(now, command)).unwrap().unwrap();
        sim.run_for(seconds(5)).unwrap();
    }
    let (name, timeout, start) = ("mcp_files_read".into(), Some(seconds(7)), sim.now());
    let call = HubCommand::Call { name, arguments: None, timeout, progress: false, trace: None };
    sim.tell(node, |now, hub| hub.apply(now, call)).unwrap().unwrap();
    sim.run_for(seconds(60)).unwrap();
    let ends = sim.get(node).unwrap().events.iter().filter(|(_, event)| matches!(event, HubEvent::Finished { .. }));
    assert_eq!(ends.map(|(at, _)| *at).collect::<Vec<_>>(), [start + seconds(7)]);
}

/// A session over HTTP whose request `a/b` is answered with a redirect, whose exchange ends or breaks.
fn redirected(location: Option<&'static str>, breaks: bool) -> (String, Outcome) {
    let http = Http::new("https://example.com/mcp").unwrap();
    let mut client = journal::Recorder::new(http, Options::new("h", "1"), 1, LIMITS());
    let (now, mut outcome) = (Time::ZERO, None);
    client.apply(now, Command::Open).unwrap();
    while let Some(action) = client.poll() {
        if let HttpAction::Event(Event::Ready) = action {
            client.apply(now, Command::Request(Request::new("a/b"))).unwrap();
        } else if let HttpAction::Event(Event::Finished { outcome: of, .. }) = &action {
            outcome = Some(of.clone());
        }
        let HttpAction::Request(it) = action else { continue };
        let exchange = it.exchange;
        let message: Value = serde_json::from_slice(it.request.body()).unwrap_or_default();
        let text = result(&message);
        let mut headers = HeaderMap::new();
        let is_first = !it.request.uri().path().ends_with("elsewhere");
        let status = if message["method"] == "a/b" && is_first {
            headers.extend(location.map(|to| (http::header::LOCATION, HeaderValue::from_static(to))));
            StatusCode::TEMPORARY_REDIRECT
        } else if text.is_some() {
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            StatusCode::OK
        } else if it.request.method() == "POST" {
            StatusCode::ACCEPTED
        } else {
            StatusCode::METHOD_NOT_ALLOWED
        };
        client.handle_input(now, Input::Head { exchange, status, headers }).unwrap();
        if let Some(text) = text.filter(|_| status == StatusCode::OK) {
            client.handle_input(now, Input::Body { exchange, bytes: text.into_bytes().into() }).unwrap();
        }
        let end = if breaks && status == StatusCode::TEMPORARY_REDIRECT {
            Input::Failure { exchange, broken: Broken::Midway, why: "reset".into() }
        } else {
            Input::End { exchange }
        };
        client.handle_input(now, end).unwrap();
    }
    (client.finish().1, outcome.unwrap())
}

#[test]
fn a_followed_redirect_is_played_as_its_final_response() {
    for breaks in [false, true] {
        let (journal, recorded) = redirected(Some("/elsewhere"), breaks);
        assert!(matches!(recorded, Outcome::Result(_)), "{recorded:?}");
        let server = FakeServer::from_journal(journal.as_bytes(), LIMITS()).unwrap();
        let (mut sim, node) = world(server, Http::new("https://example.com/mcp").unwrap());
        assert_eq!(run(&mut sim, node, Request::new("a/b")), recorded);
        assert_eq!(sim.server("s").unwrap().mismatches(), []);
    }
}

#[test]
fn a_redirect_that_was_not_followed_is_played_unchanged() {
    let (journal, recorded) = redirected(None, false);
    assert!(matches!(recorded, Outcome::Error(RequestError::Status { status: 307, .. })), "{recorded:?}");
    let server = FakeServer::from_journal(journal.as_bytes(), LIMITS()).unwrap();
    let (mut sim, node) = world(server, Http::new("https://example.com/mcp").unwrap());
    assert_eq!(run(&mut sim, node, Request::new("a/b")), recorded);
    assert_eq!(sim.server("s").unwrap().mismatches(), []);
}
