//! Fake servers from a journal: another client gets the recorded responses.

use std::time::Duration;

use mcp_proto::journal::{JournalBinding, JournalError, JournalLimits, Recorder as Journal};
use mcp_proto::testkit::{
    Carried, Collector, Driven, FakeServer, FakeTool, Fault, Link, Mismatch, NodeId, On, Reply, Sim,
};
use mcp_proto::{
    Client, Command, CommandError, Event, Family, Http, Lines, Messages, Options, Outcome, RawValue, Request,
    RequestId, ServerMethod, Time,
};
use serde_json::{Value, json};

use crate::common::{millis, seconds};
use crate::testkit::full;

const MINUTES: Duration = Duration::from_secs(600);

fn options(name: &str) -> Options {
    let mut options = Options::new(name, "1.0.0");
    options.capabilities.elicitation = true;
    options.capabilities.sampling = true;
    options
}

trait New: Carried + JournalBinding {
    fn new() -> Self;
}

impl New for Messages {
    fn new() -> Self {
        Self::new()
    }
}

impl New for Lines {
    fn new() -> Self {
        Self::new()
    }
}

impl New for Http {
    fn new() -> Self {
        Self::new("https://example.com/mcp").unwrap()
    }
}

/// A client, recorded or not.
trait Peer: Driven<Event = Event> {
    fn new(name: &str) -> Self;
    fn give(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, CommandError>;
    fn keys(&self, family: Family) -> Vec<String>;
    fn is_up(&self) -> bool;
}

impl<B: New> Peer for Client<B> {
    fn new(name: &str) -> Self {
        Self::new(B::new(), options(name), 1)
    }

    fn give(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, CommandError> {
        self.apply(now, command)
    }

    fn keys(&self, family: Family) -> Vec<String> {
        self.catalog().list(family).iter().map(|(key, _)| key.into()).collect()
    }

    fn is_up(&self) -> bool {
        self.is_ready()
    }
}

impl<B: New> Peer for Journal<Client<B>> {
    fn new(name: &str) -> Self {
        Self::new(B::new(), options(name), 1, JournalLimits::default())
    }

    fn give(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, CommandError> {
        self.apply(now, command)
    }

    fn keys(&self, family: Family) -> Vec<String> {
        self.catalog().list(family).iter().map(|(key, _)| key.into()).collect()
    }

    fn is_up(&self) -> bool {
        self.is_ready()
    }
}

type World<P> = Sim<Collector<P>>;

fn world<P: Peer>(name: &str, server: FakeServer) -> (World<P>, NodeId) {
    let mut sim = Sim::new(7).with_server("s", server, Link::default());
    let node = sim.add("s", Collector::new(P::new(name)));
    sim.tell(node, |now, client| client.give(now, Command::Open)).unwrap().unwrap();
    let is_up = sim.run_until(MINUTES, |sim| sim.get(node).unwrap().is_up()).unwrap();
    assert!(is_up, "{:?}", sim.server("s").unwrap().mismatches());
    (sim, node)
}

/// The client's response to a server request.
fn reply(event: &Event) -> Option<Command> {
    let answer = |method: ServerMethod| -> Box<RawValue> {
        let value = match method {
            ServerMethod::Elicitation => json!({"action": "accept", "content": {"answer": "yes"}}),
            _ => json!({"role": "assistant", "content": {"type": "text", "text": "so"}, "model": "m"}),
        };
        serde_json::value::to_raw_value(&value).unwrap()
    };
    match event {
        Event::ServerRequest { id, method, .. } => {
            Some(Command::Respond { request: *id, response: Ok(answer(*method)) })
        }
        Event::InputRequired { request, inputs } => {
            let responses = inputs.iter().map(|it| (it.key.clone(), answer(it.method))).collect();
            Some(Command::Provide { request: *request, responses })
        }
        _ => None,
    }
}

/// Makes a request, answers server requests, and returns the outcome.
fn run<P: Peer>(sim: &mut World<P>, node: NodeId, request: Request) -> Outcome {
    let mut seen = sim.get(node).unwrap().events.len();
    let id = sim.tell(node, |now, client| client.give(now, Command::Request(request))).unwrap().unwrap().unwrap();
    for _ in 0..100 {
        assert!(sim.run_until(MINUTES, |sim| sim.get(node).unwrap().events.len() > seen).unwrap(), "nothing happens");
        let new: Vec<_> = sim.get(node).unwrap().events[seen..].iter().map(|(_, event)| event.clone()).collect();
        seen += new.len();
        for event in new {
            if let Some(input) = reply(&event) {
                sim.tell(node, |now, client| client.give(now, input)).unwrap().unwrap();
            }
            match event {
                Event::Finished { request, outcome, .. } if request == id => return outcome,
                _ => {}
            }
        }
    }
    panic!("the request does not end");
}

fn tool(name: &str) -> Request {
    Request::call_tool(name, None)
}

/// A session with all features, and what the client knows in its course. `change` changes the server.
fn session<P: Peer>(
    name: &str,
    server: FakeServer,
    change: impl FnOnce(&mut FakeServer),
) -> (World<P>, NodeId, Vec<String>) {
    let (mut sim, node) = world::<P>(name, server);
    let mut seen = Vec::new();
    let lists = |sim: &World<P>| Family::ALL.iter().map(|it| sim.get(node).unwrap().keys(*it)).collect::<Vec<_>>();
    seen.push(format!("{:?}", lists(&sim)));
    let requests = [
        tool("a"),
        tool("slow").progress(true),
        tool("asks"),
        Request::read_resource("r:1"),
        Request::get_prompt("p", []),
        tool("none"),
        Request::read_resource("r:9"),
        tool("a"),
    ];
    for request in requests {
        seen.push(format!("{:?}", run(&mut sim, node, request)));
    }
    sim.change("s", change);
    sim.run_for(seconds(30)).unwrap();
    seen.push(format!("{:?}", lists(&sim)));
    seen.push(format!("{:?}", run(&mut sim, node, tool("b"))));
    sim.tell(node, |now, client| client.give(now, Command::Close)).unwrap().unwrap();
    sim.run_for(seconds(60)).unwrap();
    for (_, event) in &sim.get(node).unwrap().events {
        match event {
            Event::Progress { .. } | Event::CatalogChanged { .. } | Event::Notification { .. } => {
                seen.push(format!("{event:?}"));
            }
            _ => {}
        }
    }
    assert_eq!(sim.server("s").unwrap().violations(), &[] as &[String]);
    (sim, node, seen)
}

fn journal_of<B: New>(sim: &mut World<Journal<Client<B>>>, node: NodeId) -> String {
    sim.tell(node, |_, client| {
        client.end();
        client.take()
    })
    .unwrap()
}

fn recorded<B: New>(server: FakeServer) -> (String, Vec<String>) {
    let (mut sim, node, seen) =
        session::<Journal<Client<B>>>("recorded", full(server), |server| server.set_tools([FakeTool::new("b")]));
    (journal_of(&mut sim, node), seen)
}

fn played(journal: &str) -> FakeServer {
    FakeServer::from_journal(journal.as_bytes(), JournalLimits::default()).unwrap()
}

/// Records over one binding, and plays over another.
fn another_client_gets_the_same<B: New, C: New>(server: FakeServer) {
    let (journal, seen) = recorded::<B>(server);
    let (sim, _, again) = session::<Client<C>>("another", played(&journal), |_| {});
    assert_eq!(again, seen);
    let server = sim.server("s").unwrap();
    assert_eq!(server.mismatches(), []);
    assert_eq!((server.tool_runs("a"), server.tool_runs("none"), server.resource_reads("r:1")), (2, 0, 1));
}

#[test]
fn a_journal_over_lines_is_played_to_another_client() {
    for server in [FakeServer::legacy, FakeServer::modern] {
        another_client_gets_the_same::<Lines, Lines>(server());
        another_client_gets_the_same::<Messages, Messages>(server());
    }
}

#[test]
fn a_journal_over_http_is_played_to_another_client() {
    for server in [FakeServer::legacy, FakeServer::modern] {
        another_client_gets_the_same::<Http, Http>(server());
        another_client_gets_the_same::<Http, Http>(server().streams(true));
    }
}

#[test]
fn a_journal_is_played_over_another_binding() {
    for server in [FakeServer::legacy, FakeServer::modern] {
        another_client_gets_the_same::<Lines, Http>(server());
        another_client_gets_the_same::<Http, Lines>(server());
    }
}

/// Records these requests to a server with the tool `a`.
fn recorded_requests<B: New>(server: FakeServer, requests: &[Request]) -> (String, Vec<Outcome>) {
    let (mut sim, node) = world::<Journal<Client<B>>>("recorded", server.tool(FakeTool::new("a")));
    let outcomes = requests.iter().map(|request| run(&mut sim, node, request.clone())).collect();
    (journal_of(&mut sim, node), outcomes)
}

fn another_client_gets_the_outcomes<B: New>(server: FakeServer, requests: &[Request]) {
    let (journal, outcomes) = recorded_requests::<B>(server, requests);
    let (mut sim, node) = world::<Client<B>>("another", played(&journal));
    for (request, outcome) in requests.iter().zip(outcomes) {
        assert_eq!(run(&mut sim, node, request.clone()), outcome, "{request:?}");
    }
    assert_eq!(sim.server("s").unwrap().mismatches(), []);
}

#[test]
fn equal_requests_get_their_responses_in_order_and_then_the_last_one() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let server = FakeServer::legacy().script(On::tool("a"), [Reply::Result(text("1")), Reply::Result(text("2"))]);
    let (journal, _) = recorded_requests::<Lines>(server, &[tool("a"), tool("a")]);
    let (mut sim, node) = world::<Client<Lines>>("another", played(&journal));
    for expected in ["1", "2", "2", "2"] {
        let Outcome::Result(result) = run(&mut sim, node, tool("a")) else { panic!("a result") };
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result, text(expected));
    }
    assert_eq!(sim.server("s").unwrap().mismatches(), []);
}

#[test]
fn a_recorded_failure_is_played() {
    let requests = [tool("a").replay(false).timeout(seconds(5))];
    for reply in [Reply::Silent, Reply::Dies, Reply::Torn, Reply::DiesFirst, Reply::error(-32000, "no")] {
        for server in [FakeServer::legacy, FakeServer::modern] {
            let server = || server().script(On::tool("a"), [reply.clone()]);
            another_client_gets_the_outcomes::<Lines>(server(), &requests);
            another_client_gets_the_outcomes::<Http>(server(), &requests);
        }
    }
    for (status, text) in [(418, "a teapot"), (307, "https://example.com/mcp/moved"), (307, "https://other.example")] {
        for server in [FakeServer::legacy, FakeServer::modern] {
            let server = || server().script(On::tool("a"), [Reply::status(status, text)]);
            another_client_gets_the_outcomes::<Http>(server(), &requests);
        }
    }
}

#[test]
fn a_request_that_is_not_in_the_journal_is_a_mismatch() {
    let (journal, _) = recorded_requests::<Lines>(FakeServer::legacy(), &[tool("a")]);
    let (mut sim, node) = world::<Client<Lines>>("another", played(&journal));
    let arguments = RawValue::from_string(r#"{"z": [1, 2], "b": {}}"#.into()).unwrap();
    let requests = [tool("b"), Request::new("x/y"), Request::call_tool("a", Some(&arguments)), Request::new("ping")];
    for request in requests {
        let outcome = run(&mut sim, node, request.clone());
        let is_known = format!("{request:?}").contains("ping");
        assert_eq!(matches!(&outcome, Outcome::Error(error) if error.code() == Some(-32603)), !is_known, "{outcome:?}");
    }
    let params = |params: &str| Mismatch::Params { method: "tools/call".into(), params: params.into() };
    let expected = [
        params(r#"{"name":"b"}"#),
        Mismatch::Method { method: "x/y".into() },
        params(r#"{"arguments":{"b":{},"z":[1,2]},"name":"a"}"#),
    ];
    assert_eq!(sim.server("s").unwrap().mismatches(), expected);
    assert_eq!(sim.server("s").unwrap().tool_runs("b"), 0);
    let mut server = played(&journal);
    for id in 0..300 {
        server.answer(&json!({"jsonrpc": "2.0", "id": id, "method": "x/y"}));
    }
    assert_eq!(server.mismatches().len(), 256);
}

fn give<P: Peer>(sim: &mut World<P>, node: NodeId, command: Command) -> Option<RequestId> {
    sim.tell(node, |now, client| client.give(now, command)).unwrap().unwrap()
}

/// How many events of a kind a client got.
fn count<P: Peer>(sim: &World<P>, node: NodeId, is_it: impl Fn(&Event) -> bool) -> usize {
    sim.get(node).unwrap().events.iter().filter(|(_, event)| is_it(event)).count()
}

fn is_note(event: &Event) -> bool {
    matches!(event, Event::Notification { method, .. } if **method == *"own/note")
}

/// The ids and progress tokens of the other client are not the recorded ones.
#[test]
fn progress_is_played_for_the_request_that_wants_it() {
    fn plays<B: New>(server: FakeServer) {
        let server = server.tool(FakeTool::new("slow").takes(seconds(3)).progress(2));
        let (journal, _) = recorded_requests::<B>(server, &[tool("a"), tool("slow").progress(true)]);
        for progress in [true, false] {
            let (mut sim, node) = world::<Client<B>>("another", played(&journal));
            for request in [tool("a"), tool("a"), tool("slow").progress(progress)] {
                assert!(matches!(run(&mut sim, node, request), Outcome::Result(_)));
            }
            let reports = count(&sim, node, |event| matches!(event, Event::Progress { .. }));
            assert_eq!(reports, if progress { 2 } else { 0 });
            assert_eq!(sim.server("s").unwrap().violations(), [""; 0]);
        }
    }
    for server in [FakeServer::legacy, FakeServer::modern] {
        plays::<Lines>(server());
        plays::<Http>(server());
    }
}

#[test]
fn a_played_stream_is_acknowledged_to_each_connection() {
    let (journal, _) = recorded_requests::<Lines>(FakeServer::modern(), &[tool("a")]);
    let (mut sim, node) = world::<Client<Lines>>("another", played(&journal));
    sim.fault("s", Fault::Crash);
    sim.run_for(MINUTES).unwrap();
    assert!(sim.get(node).unwrap().is_ready());
    assert_eq!(sim.server("s").unwrap().received("subscriptions/listen"), 2);
}

#[test]
fn a_call_that_was_given_up_in_the_middle_of_its_response_is_not_answered() {
    let server = FakeServer::modern().tool(FakeTool::new("slow").takes(seconds(30)).progress(2));
    let (mut sim, node) = world::<Journal<Client<Http>>>("recorded", server);
    let slow = || tool("slow").progress(true).timeout(seconds(60));
    let id = give(&mut sim, node, Command::Request(slow()));
    sim.run_for(seconds(15)).unwrap();
    give(&mut sim, node, Command::Cancel { request: id.unwrap(), reason: None });
    sim.run_for(seconds(1)).unwrap();
    let journal = journal_of(&mut sim, node);
    let (mut sim, node) = world::<Client<Http>>("another", played(&journal));
    let outcome = run(&mut sim, node, slow());
    assert!(matches!(outcome, Outcome::TimedOut(_)), "{outcome:?}");
    assert_eq!(count(&sim, node, |event| matches!(event, Event::Progress { .. })), 1);
}

#[test]
fn a_played_call_waits_for_the_answers_to_its_questions() {
    fn plays<B: New>(server: FakeServer) {
        let (journal, _) = recorded::<B>(server);
        let (mut sim, node) = world::<Client<B>>("another", played(&journal));
        give(&mut sim, node, Command::Request(tool("asks")));
        for asked in 1..=2 {
            sim.run_for(seconds(20)).unwrap();
            assert_eq!(count(&sim, node, |event| matches!(event, Event::Finished { .. })), 0);
            assert_eq!(count(&sim, node, |event| matches!(event, Event::ServerRequest { .. })), asked);
            let (_, event) = sim.get(node).unwrap().events.last().unwrap().clone();
            give(&mut sim, node, reply(&event).unwrap());
        }
        sim.run_for(seconds(1)).unwrap();
        assert_eq!(count(&sim, node, |event| matches!(event, Event::Finished { .. })), 1);
    }
    plays::<Lines>(FakeServer::legacy());
    plays::<Http>(FakeServer::legacy());
}

#[test]
fn what_followed_a_notification_of_the_client_follows_each_of_that_method() {
    fn cancels<P: Peer>(sim: &mut World<P>, node: NodeId) {
        let id = give(sim, node, Command::Request(tool("a")));
        sim.run_for(seconds(1)).unwrap();
        give(sim, node, Command::Cancel { request: id.unwrap(), reason: None });
        sim.run_for(seconds(1)).unwrap();
    }
    let server = FakeServer::legacy().tool(FakeTool::new("a")).always(On::tool("a"), Reply::Silent);
    let (mut sim, node) = world::<Journal<Client<Lines>>>("recorded", server);
    cancels(&mut sim, node);
    sim.change("s", |server| server.notify("own/note", &json!({})));
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(count(&sim, node, is_note), 1);
    let journal = journal_of(&mut sim, node);
    let (mut sim, node) = world::<Client<Lines>>("another", played(&journal));
    // The id that it cancels is another one.
    assert!(matches!(run(&mut sim, node, Request::new("ping")), Outcome::Result(_)));
    cancels(&mut sim, node);
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(count(&sim, node, is_note), 1);
}

#[test]
fn an_update_is_played_once_to_the_clients_that_listen() {
    fn updates<P: Peer>(sim: &World<P>, node: NodeId) -> usize {
        count(sim, node, |event| matches!(event, Event::ResourceUpdated { .. }))
    }
    let (mut sim, node) = world::<Journal<Client<Lines>>>("recorded", full(FakeServer::modern()));
    give(&mut sim, node, Command::Subscribe { uri: "r:1".into() });
    sim.run_for(seconds(1)).unwrap();
    run(&mut sim, node, tool("a"));
    sim.change("s", |server| server.resource_updated("r:1"));
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(updates(&sim, node), 1);
    let journal = journal_of(&mut sim, node);
    let (mut sim, node) = world::<Client<Lines>>("another", played(&journal));
    give(&mut sim, node, Command::Subscribe { uri: "r:1".into() });
    sim.run_for(seconds(1)).unwrap();
    for _ in 0..3 {
        run(&mut sim, node, tool("a"));
        sim.run_for(seconds(1)).unwrap();
    }
    assert_eq!(updates(&sim, node), 1);
}

#[test]
fn a_script_changes_the_played_responses() {
    let (journal, _) = recorded_requests::<Lines>(FakeServer::legacy(), &[tool("a")]);
    let server = played(&journal).script(On::tool("a"), [Reply::Dies, Reply::Late(seconds(9))]);
    let (mut sim, node) = world::<Client<Lines>>("another", server);
    assert!(matches!(run(&mut sim, node, tool("a").replay(false)), Outcome::Unknown));
    sim.run_for(seconds(60)).unwrap();
    let start = sim.now();
    assert!(matches!(run(&mut sim, node, tool("a")), Outcome::Result(_)));
    assert!(sim.now() - start >= seconds(9));
    assert_eq!(sim.server("s").unwrap().tool_runs("a"), 2);
}

#[test]
fn a_played_server_survives_connection_faults() {
    let (journal, _) = recorded_requests::<Http>(FakeServer::legacy(), &[tool("a"), Request::new("ping")]);
    let (mut sim, node) = world::<Client<Http>>("another", played(&journal));
    for fault in [Fault::Cut, Fault::Crash, Fault::Expire, Fault::Stall(millis(500))] {
        sim.fault("s", fault);
        sim.run_for(seconds(60)).unwrap();
        assert!(sim.get(node).unwrap().is_up(), "{fault:?}");
        assert!(matches!(run(&mut sim, node, tool("a")), Outcome::Result(_)), "{fault:?}");
    }
    assert_eq!(sim.server("s").unwrap().mismatches(), []);
}

#[test]
fn a_journal_that_is_damaged_is_not_played() {
    let (journal, _) = recorded_requests::<Lines>(FakeServer::legacy(), &[tool("a")]);
    let play = |journal: &str| FakeServer::from_journal(journal.as_bytes(), JournalLimits::default()).map(drop);
    assert_eq!(play(&journal), Ok(()));
    let cut = &journal[..journal.trim_end().rfind('\n').unwrap() + 1];
    assert!(matches!(play(cut), Err(JournalError::CutOff { .. })));
    assert!(matches!(play(&journal.replacen("tools/list", "tools/lisp", 1)), Err(JournalError::Changed { .. })));
    assert!(matches!(play("{}\n"), Err(JournalError::NotAJournal { .. })));
}
