//! The test kit: fake servers, and clients in virtual time.

use std::time::Duration;

use mcp_proto::testkit::strategy::{self, Incident, Operation, Turn};
use mcp_proto::testkit::{Ask, Collector, Driven, FakeServer, FakeTool, Fault, Link, NodeId, On, Reply, Sim};
use mcp_proto::{
    Client, ClientCapabilities, Event, Family, Lines, Messages, Options, Outcome, Request, RequestId, ServerMethod,
    ShutdownStep,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{millis, seconds};

/// The maximum virtual time of a run.
const MINUTES: Duration = Duration::from_secs(600);

fn options() -> Options {
    let mut options = Options::new("test-host", "1.0.0");
    options.capabilities = ClientCapabilities::default();
    options.capabilities.elicitation = true;
    options.capabilities.sampling = true;
    options
}

/// A server with all families.
pub(crate) fn full(server: FakeServer) -> FakeServer {
    server
        .tool(FakeTool::new("a"))
        .tool(FakeTool::new("slow").takes(seconds(3)).progress(2))
        .tool(FakeTool::new("asks").asks(Ask::elicitation("Sure?")).asks(Ask::sampling("Why?")))
        .prompt("p")
        .resource("r:1")
        .resource("r:2")
        .template("t:{x}")
        .page_size(1)
}

/// A command of a client, over any binding.
trait Commands: Driven<Event = Event> + Sized {
    fn client(binding: Options) -> Self;
    fn begin(&mut self, now: mcp_proto::Time);
    fn want(&mut self, now: mcp_proto::Time, request: Request) -> RequestId;
    fn try_want(&mut self, now: mcp_proto::Time, request: Request) -> Option<RequestId>;
    fn reply(&mut self, now: mcp_proto::Time, event: &Event);
    fn is_up(&self) -> bool;
    fn keys(&self, family: Family) -> Vec<String>;
    fn watch(&mut self, now: mcp_proto::Time, uri: &str);
    fn end(&mut self, now: mcp_proto::Time);
}

macro_rules! commands {
    ($binding:ty, $new:expr) => {
        impl Commands for Client<$binding> {
            fn client(options: Options) -> Self {
                Client::new($new, options, 1)
            }
            fn begin(&mut self, now: mcp_proto::Time) {
                self.open(now).unwrap();
            }
            fn want(&mut self, now: mcp_proto::Time, request: Request) -> RequestId {
                self.request(now, request).unwrap()
            }
            fn try_want(&mut self, now: mcp_proto::Time, request: Request) -> Option<RequestId> {
                self.request(now, request).ok()
            }
            fn reply(&mut self, now: mcp_proto::Time, event: &Event) {
                let raw = |value: Value| serde_json::value::to_raw_value(&value).unwrap();
                let answer = |method: ServerMethod| match method {
                    ServerMethod::Elicitation => raw(json!({"action": "accept", "content": {"answer": "yes"}})),
                    _ => raw(json!({"role": "assistant", "content": {"type": "text", "text": "so"}, "model": "m"})),
                };
                match event {
                    Event::ServerRequest { id, method, .. } => {
                        self.respond(now, *id, Ok(&answer(*method))).unwrap();
                    }
                    Event::InputRequired { request, inputs } => {
                        let answers: Vec<_> = inputs.iter().map(|it| (&*it.key, answer(it.method))).collect();
                        self.provide(now, *request, answers.iter().map(|(key, raw)| (*key, &**raw))).unwrap();
                    }
                    _ => {}
                }
            }
            fn is_up(&self) -> bool {
                self.is_ready()
            }
            fn keys(&self, family: Family) -> Vec<String> {
                self.catalog().list(family).iter().map(|(key, _)| key.into()).collect()
            }
            fn watch(&mut self, now: mcp_proto::Time, uri: &str) {
                self.subscribe(now, uri).unwrap();
            }
            fn end(&mut self, now: mcp_proto::Time) {
                self.close(now).unwrap();
            }
        }
    };
}

commands!(Messages, Messages::new());
commands!(Lines, Lines::new());
#[cfg(feature = "http")]
commands!(mcp_proto::Http, mcp_proto::Http::new("https://example.com/mcp").unwrap());

type World<C> = Sim<Collector<C>>;

fn world<C: Commands>(server: FakeServer, link: Link) -> (World<C>, NodeId) {
    world_with(options(), server, link)
}

fn world_with<C: Commands>(options: Options, server: FakeServer, link: Link) -> (World<C>, NodeId) {
    let mut sim = Sim::new(7).with_server("s", server, link);
    let node = sim.add("s", Collector::new(C::client(options)));
    sim.tell(node, |now, client| client.begin(now));
    assert!(sim.run_until(MINUTES, |sim| sim.get(node).unwrap().is_up()).unwrap(), "{:#?}", events(&sim, node));
    (sim, node)
}

fn events<C: Commands>(sim: &World<C>, node: NodeId) -> Vec<&Event> {
    sim.get(node).unwrap().events.iter().map(|(_, event)| event).collect()
}

fn outcome<C: Commands>(sim: &World<C>, node: NodeId, wanted: RequestId) -> Option<&Outcome> {
    events(sim, node).into_iter().find_map(|event| match event {
        Event::Finished { request, outcome, .. } if *request == wanted => Some(outcome),
        _ => None,
    })
}

/// Makes a request, answers server requests, and returns the outcome.
fn run<C: Commands>(sim: &mut World<C>, node: NodeId, request: Request) -> Outcome {
    let mut seen = sim.get(node).unwrap().events.len();
    let id = sim.tell(node, |now, client| client.want(now, request)).unwrap();
    for _ in 0..100 {
        if let Some(outcome) = outcome(sim, node, id) {
            return outcome.clone();
        }
        assert!(sim.run_until(MINUTES, |sim| sim.get(node).unwrap().events.len() > seen).unwrap(), "nothing happens");
        let new: Vec<_> = events(sim, node)[seen..].iter().copied().cloned().collect();
        seen += new.len();
        for event in new {
            sim.tell(node, |now, client| client.reply(now, &event));
        }
    }
    panic!("the request does not end");
}

fn tool(name: &str) -> Request {
    Request::call_tool(name, None)
}

fn result(outcome: &Outcome) -> Value {
    let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
    serde_json::from_str(result.get()).unwrap()
}

fn server<C: Commands>(sim: &World<C>) -> &FakeServer {
    sim.server("s").unwrap()
}

/// Runs a check over every binding, with a server of each era.
macro_rules! everywhere {
    ($($name:ident => $check:ident;)*) => {
        $(
            #[test]
            fn $name() {
                for server in [FakeServer::legacy as fn() -> FakeServer, FakeServer::modern] {
                    $check::<Client<Messages>>(&server);
                    $check::<Client<Lines>>(&server);
                    #[cfg(feature = "http")]
                    $check::<Client<mcp_proto::Http>>(&server);
                    #[cfg(feature = "http")]
                    $check::<Client<mcp_proto::Http>>(&|| server().streams(true));
                }
            }
        )*
    };
}

everywhere! {
    a_client_lists_every_page_and_family => lists;
    every_kind_of_request_is_answered_and_counted => requests;
    a_tool_that_asks_runs_once_after_its_answers => asks;
    progress_is_reported_over_the_time_that_a_tool_takes => progress;
    changes_and_updates_are_announced => changes;
    pieces_and_jitter_change_nothing => pieces;
    scripts_do_what_they_say => scripts;
    a_cut_connection_is_opened_again => cuts;
    a_client_closes => closes;
    the_same_seed_gives_the_same_run => repeats;
}

fn lists<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (sim, node) = world::<C>(full(fake()), Link::default());
    let client = sim.get(node).unwrap();
    assert_eq!(client.keys(Family::Tools), ["a", "slow", "asks"]);
    assert_eq!(client.keys(Family::Prompts), ["p"]);
    assert_eq!(client.keys(Family::Resources), ["r:1", "r:2"]);
    assert_eq!(client.keys(Family::ResourceTemplates), ["t:{x}"]);
    assert_eq!(server(&sim).received("tools/list"), 3, "a page each");
    assert_eq!(server(&sim).violations(), &[] as &[String]);
}

fn requests<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (mut sim, node) = world::<C>(full(fake()), Link::default());
    assert_eq!(result(&run(&mut sim, node, tool("a")))["content"][0]["text"], "a");
    assert_eq!(result(&run(&mut sim, node, Request::read_resource("r:1")))["contents"][0]["uri"], "r:1");
    assert_eq!(result(&run(&mut sim, node, Request::get_prompt("p", [])))["messages"][0]["content"]["text"], "p");
    assert!(matches!(run(&mut sim, node, tool("none")), Outcome::Error(_)));
    assert!(matches!(run(&mut sim, node, Request::read_resource("r:9")), Outcome::Error(_)));
    let server = server(&sim);
    assert_eq!((server.tool_runs("a"), server.tool_runs("none")), (1, 0));
    assert_eq!((server.resource_reads("r:1"), server.resource_reads("r:9"), server.prompt_gets("p")), (1, 0, 1));
    assert_eq!(server.all_tool_runs().collect::<Vec<_>>(), [("a", 1)]);
    assert_eq!(server.violations(), &[] as &[String]);
}

fn asks<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (mut sim, node) = world::<C>(full(fake()), Link::default());
    assert_eq!(result(&run(&mut sim, node, tool("asks")))["content"][0]["text"], "asks");
    assert_eq!(server(&sim).tool_runs("asks"), 1);
    let asked = events(&sim, node).into_iter().map(|event| match event {
        Event::ServerRequest { .. } => 1,
        Event::InputRequired { inputs, .. } => inputs.len(),
        _ => 0,
    });
    assert_eq!(asked.sum::<usize>(), 2);
    assert_eq!(server(&sim).violations(), &[] as &[String]);
}

fn progress<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (mut sim, node) = world::<C>(full(fake()), Link::default());
    let start = sim.now();
    run(&mut sim, node, tool("slow").progress(true));
    assert!(sim.now() - start >= seconds(3));
    let reports = sim.get(node).unwrap().events.iter().filter_map(|(at, event)| match event {
        Event::Progress { progress, .. } => Some((progress.progress(), (*at - start).as_secs())),
        _ => None,
    });
    assert_eq!(reports.collect::<Vec<_>>(), [(Some(1.0), 1), (Some(2.0), 2)]);
}

fn changes<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (mut sim, node) = world::<C>(full(fake()), Link::default());
    sim.tell(node, |now, client| client.watch(now, "r:1"));
    sim.run_for(seconds(5)).unwrap();
    sim.change("s", |server| {
        server.set_tools([FakeTool::new("b")]);
        server.set_prompts(["q"]);
        server.set_resources(["r:3"]);
        server.resource_updated("r:1");
        server.resource_updated("r:2");
    });
    sim.run_for(seconds(5)).unwrap();
    let client = sim.get(node).unwrap();
    assert_eq!(client.keys(Family::Tools), ["b"]);
    assert_eq!(client.keys(Family::Prompts), ["q"]);
    assert_eq!(client.keys(Family::Resources), ["r:3"]);
    let updated = events(&sim, node).into_iter().filter_map(|event| match event {
        Event::ResourceUpdated { uri } => Some(&**uri),
        _ => None,
    });
    assert_eq!(updated.collect::<Vec<_>>(), ["r:1"]);
    assert_eq!(server(&sim).violations(), &[] as &[String]);
}

fn pieces<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let link = Link::new(millis(5)).jitter(millis(40)).piece(7);
    let (mut sim, node) = world::<C>(full(fake()), link);
    assert_eq!(result(&run(&mut sim, node, tool("a")))["content"][0]["text"], "a");
    assert_eq!(sim.get(node).unwrap().keys(Family::Tools).len(), 3);
    assert_eq!(server(&sim).violations(), &[] as &[String]);
}

fn scripts<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let noise = || Reply::Noise("not JSON".into());
    let fake = full(fake()).script(
        On::tool("a"),
        [
            Reply::Late(seconds(2)),
            Reply::Twice,
            noise(),
            Reply::Result(json!({"content": [], "own": true})),
            Reply::error(-32050, "busy"),
            Reply::status(503, "overloaded"),
            Reply::Silent,
            Reply::Dies,
        ],
    );
    let (mut sim, node) = world::<C>(fake, Link::default());
    let mut next = |text: &str| {
        let before = sim.now();
        let outcome = run(&mut sim, node, tool("a"));
        assert!(format!("{outcome:?}").contains(text), "{outcome:?} has no {text}");
        (sim.now() - before, sim.server("s").unwrap().tool_runs("a"))
    };
    let (time, runs) = next("Result(");
    assert!(time >= seconds(2) && runs == 1);
    assert_eq!(next("Result(").1, 2);
    assert_eq!(next("Result(").1, 3);
    assert_eq!(next("own").1, 4);
    assert_eq!(next("busy").1, 4, "the call does not run");
    assert_eq!(next("overloaded").1, 4, "the call does not run");
    assert_eq!(next("TimedOut").1, 5);
    assert_eq!(next("Unknown").1, 6, "it may have run");
    sim.run_for(MINUTES).unwrap();
    assert_eq!(result(&run(&mut sim, node, tool("a")))["content"][0]["text"], "a");
}

fn cuts<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (mut sim, node) = world::<C>(full(fake()), Link::default());
    let id = sim.tell(node, |now, client| client.want(now, tool("slow"))).unwrap();
    sim.run_for(seconds(1)).unwrap();
    sim.fault("s", Fault::Cut);
    sim.run_for(MINUTES).unwrap();
    assert!(matches!(outcome(&sim, node, id), Some(Outcome::Unknown)), "{:?}", outcome(&sim, node, id));
    assert!(sim.get(node).unwrap().is_up());
    sim.fault("s", Fault::Crash);
    sim.run_for(seconds(30)).unwrap();
    sim.fault("s", Fault::Stall(seconds(3)));
    let before = sim.now();
    assert!(matches!(run(&mut sim, node, tool("a")), Outcome::Result(_)));
    assert!(sim.now() - before >= seconds(3));
    sim.fault("s", Fault::Expire);
    assert!(matches!(run(&mut sim, node, Request::read_resource("r:1")), Outcome::Result(_)));
    sim.fault("s", Fault::Unreachable(seconds(20)));
    sim.run_for(MINUTES).unwrap();
    assert!(matches!(run(&mut sim, node, tool("a")), Outcome::Result(_)));
}

fn closes<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let (mut sim, node) = world::<C>(full(fake()).exits_at(ShutdownStep::Kill), Link::default());
    sim.tell(node, |now, client| client.end(now));
    sim.run_for(MINUTES).unwrap();
    assert!(matches!(events(&sim, node).last(), Some(Event::Closed { .. })));
}

fn repeats<C: Commands>(fake: &dyn Fn() -> FakeServer) {
    let run = || {
        let link = Link::default().jitter(millis(30)).piece(20).cuts_per_mille(20);
        let (mut sim, node) = world::<C>(full(fake()), link);
        for _ in 0..20 {
            run(&mut sim, node, tool("a"));
        }
        format!("{:?} {:?}", sim.get(node).unwrap().events, server(&sim))
    };
    assert_eq!(run(), run());
}

#[test]
fn a_client_without_its_server_fails_to_connect() {
    let mut sim: World<Client<Lines>> = Sim::new(1);
    let node = sim.add("nowhere", Collector::new(Client::client(options())));
    sim.tell(node, |now, client| client.begin(now));
    sim.run_for(MINUTES).unwrap();
    assert!(events(&sim, node).iter().any(|event| matches!(event, Event::Down { .. })));
}

#[test]
fn many_clients_share_a_server_and_its_counts() {
    let mut sim = Sim::new(3).with_server("s", full(FakeServer::legacy()), Link::new(millis(3)).jitter(millis(9)));
    let nodes: Vec<_> = (0..50).map(|_| sim.add("s", Collector::new(<Client<Lines>>::client(options())))).collect();
    for node in &nodes {
        sim.tell(*node, |now, client| client.begin(now));
        sim.tell(*node, |now, client| client.want(now, tool("a")));
    }
    sim.run_for(seconds(30)).unwrap();
    assert!(sim.embedders().all(|client| client.is_up()));
    assert_eq!(sim.server("s").unwrap().tool_runs("a"), 50);
    assert_eq!(sim.server("s").unwrap().violations(), &[] as &[String]);
}

/// An embedder that repeats each request at once, whatever its outcome.
struct Restless(Client<Lines>);

impl mcp_proto::testkit::Embedder for Restless {
    type Driven = Client<Lines>;

    fn driven(&mut self) -> &mut Client<Lines> {
        &mut self.0
    }

    fn on_event(&mut self, now: mcp_proto::Time, event: Event) {
        if matches!(event, Event::Ready | Event::Finished { .. }) {
            // A cancelled request ends at once.
            let id = self.0.want(now, tool("a"));
            self.0.cancel(now, id).unwrap();
        }
    }
}

#[test]
fn a_run_without_an_end_is_reported() {
    let mut sim = Sim::new(1).with_server("s", full(FakeServer::legacy()), Link::default()).max_steps(5_000);
    let node = sim.add("s", Restless(Client::client(options())));
    sim.tell(node, |now, host| host.0.begin(now));
    let runaway = sim.run_for(seconds(30)).unwrap_err();
    assert_eq!(runaway.steps, 5_000);
    assert!(runaway.to_string().contains("5000 steps"), "{runaway}");
}

#[test]
fn a_client_that_violates_the_protocol_is_reported() {
    let mut server = full(FakeServer::legacy());
    let ask = |id: u64, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
    server.answer(&ask(1, "tools/list"));
    server.answer(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.answer(&ask(2, "initialize"));
    server.answer(&ask(3, "tools/list"));
    server.answer(&ask(3, "ping"));
    server.answer(&json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
    assert_eq!(
        server.violations(),
        [
            "tools/list before initialize",
            "notifications/initialized before initialize",
            "tools/list before notifications/initialized",
            "the id 3 is used again, by ping",
            r#"a response to no server request: {"jsonrpc":"2.0","id":9,"result":{}}"#,
        ]
    );
}

/// A server of all versions, which a legacy client initialized.
fn initialized(capabilities: Value) -> FakeServer {
    let versions = mcp_proto::ProtocolVersion::ALL.iter().copied();
    let mut server = full(FakeServer::new(versions)).capabilities(capabilities);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let answer = server.answer(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    assert_eq!(answer[0]["result"]["protocolVersion"], "2025-11-25");
    assert!(server.answer(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).is_empty());
    server
}

#[test]
fn a_fake_server_answers_what_it_declares_and_refuses_the_rest() {
    let all = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, "completions": {}, "logging": {}});
    let mut servers = [initialized(all), initialized(json!({}))];
    let (none, missing, invalid) = (json!(-32601), json!(-32002), json!(-32602));
    let uri = json!({"uri": "r:1"});
    let completed = json!({"completion": {"values": []}});
    for (at, (method, params, [legacy, undeclared, modern])) in [
        ("ping", json!({}), [json!({}), json!({}), none.clone()]),
        ("completion/complete", json!({}), [completed.clone(), none.clone(), completed]),
        ("logging/setLevel", json!({"level": "info"}), [json!({}), none.clone(), none.clone()]),
        ("resources/subscribe", uri.clone(), [json!({}), none.clone(), none.clone()]),
        ("resources/unsubscribe", uri, [json!({}), none.clone(), none.clone()]),
        ("resources/subscribe", json!({}), [invalid.clone(), none.clone(), none.clone()]),
        ("tools/call", json!({"name": "x"}), [invalid.clone(), invalid.clone(), invalid.clone()]),
        ("tools/list", json!({"cursor": "x"}), [invalid.clone(), invalid.clone(), invalid.clone()]),
        ("tools/list", json!({"cursor": "3"}), [invalid.clone(), invalid.clone(), invalid.clone()]),
        ("prompts/get", json!({"name": "x"}), [invalid.clone(), invalid.clone(), invalid.clone()]),
        ("resources/read", json!({"uri": "x"}), [missing.clone(), missing, invalid]),
        ("x/y", json!({}), [none.clone(), none.clone(), none]),
    ]
    .into_iter()
    .enumerate()
    {
        let request =
            |id: usize, params: &Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut meta = params.clone();
        meta["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        for (server, message, expected) in [
            (0, request(2 * at + 1, &params), legacy),
            (1, request(at + 1, &params), undeclared),
            (0, request(2 * at + 2, &meta), modern),
        ] {
            let answer = servers[server].answer(&message).remove(0);
            let mut found =
                if answer["error"].is_null() { answer["result"].clone() } else { answer["error"]["code"].clone() };
            if let Some(found) = found.as_object_mut() {
                found.retain(|name, _| !["resultType", "_meta"].contains(&&**name));
            }
            assert_eq!(found, expected, "{message}");
        }
    }
    assert!(servers.iter().all(|server| server.violations().is_empty()), "{:?}", servers[0].violations());
}

#[test]
fn a_fake_server_notifies_and_asks_the_clients_that_are_initialized() {
    let mut server = initialized(json!({"tools": {}}));
    let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    server.notify("own/note", &json!({"a": 1}));
    let sent = server.answer(&ping(1));
    assert_eq!(sent[0], json!({"jsonrpc": "2.0", "method": "own/note", "params": {"a": 1}}));
    server.ask(&Ask::elicitation("Sure?"));
    let asked = server.answer(&ping(2)).remove(0);
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}});
    assert!(server.answers().is_empty() && server.answer(&answer).is_empty());
    assert_eq!(server.answers(), [answer]);
    assert_eq!(server.find_tool("slow").map(FakeTool::name), Some("slow"));
    assert!(server.find_tool("x").is_none() && format!("{server:?}").contains("FakeServer"));
}

#[test]
fn a_function_answers_in_place_of_the_content() {
    let mut calls = 0;
    let mut server = full(FakeServer::legacy()).error("ping", -1, "no").on("tools/call", move |params| {
        calls += 1;
        Ok(json!({"call": calls, "name": params["name"]}))
    });
    // Nor does the tool of the content ask.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "asks"}});
    assert_eq!(server.answer(&call)[0]["result"], json!({"call": 1, "name": "asks"}));
    assert_eq!(server.answer(&call)[0]["result"], json!({"call": 2, "name": "asks"}));
    assert_eq!(server.tool_runs("asks"), 2);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(server.answer(&ping)[0]["error"], json!({"code": -1, "message": "no"}));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A client handles any message of a server.
    #[test]
    fn a_client_handles_any_message(messages in proptest::collection::vec(strategy::message(), 1..40)) {
        let mut client = <Client<Messages>>::client(options());
        client.begin(mcp_proto::Time::ZERO);
        client.handle_transport(mcp_proto::Time::ZERO, client.connection(), mcp_proto::Transport::Opened);
        for (at, message) in (0..).zip(messages) {
            let now = mcp_proto::Time::from_millis(at);
            client.handle_message(now, client.connection(), message.to_string().as_bytes());
            while client.poll().is_some() {}
        }
    }

    /// With any link and any incidents, each request ends once, and no call runs twice.
    #[test]
    fn a_request_ends_once_on_any_link(
        link in strategy::link(),
        turns in strategy::turns(&full(FakeServer::legacy()), 1..12),
        seed: u64,
        era in 0..2_usize,
    ) {
        let era = [FakeServer::legacy, FakeServer::modern][era];
        each::<Client<Messages>>(era(), link, &turns, seed)?;
        each::<Client<Lines>>(era(), link, &turns, seed)?;
        #[cfg(feature = "http")]
        each::<Client<mcp_proto::Http>>(era(), link, &turns, seed)?;
    }
}

fn each<C: Commands>(fake: FakeServer, link: Link, turns: &[Turn], seed: u64) -> Result<(), TestCaseError> {
    let mut sim: World<C> = Sim::new(seed).with_server("s", full(fake), link);
    let node = sim.add("s", Collector::new(C::client(options())));
    sim.tell(node, |now, client| client.begin(now));
    let (mut wanted, mut calls) = (vec![], 0);
    for Turn { operation, incident, wait, .. } in turns {
        let id = sim.tell(node, |now, client| client.try_want(now, operation.request())).flatten();
        calls += usize::from(id.is_some() && matches!(operation, Operation::Call(_)));
        wanted.extend(id);
        sim.incident("s", incident);
        sim.run_for(*wait)?;
    }
    sim.run_for(Duration::from_secs(3600))?;
    for id in wanted {
        let ends = events(&sim, node).into_iter().filter(|event| match event {
            Event::Finished { request, .. } => *request == id,
            _ => false,
        });
        prop_assert_eq!(ends.count(), 1, "{:?}", id);
    }
    let runs: usize = server(&sim).all_tool_runs().map(|(_, runs)| runs).sum();
    prop_assert!(runs <= calls, "{runs} runs of {calls} calls");
    // The response to `notifications/initialized` is waited for as long as any, and then counts as given: on a link that delivers
    // nothing for longer, what follows on another connection may arrive first.
    let patience = options().timeouts.request;
    let is_stalled = |turn: &Turn| matches!(turn.incident, Incident::Fault(Fault::Stall(time)) if time >= patience);
    let is_overtaken = turns.iter().any(is_stalled);
    let violations = server(&sim).violations().iter();
    let wrong: Vec<_> =
        violations.filter(|it| !(is_overtaken && it.ends_with("before notifications/initialized"))).collect();
    prop_assert!(wrong.is_empty(), "{:?}", wrong);
    Ok(())
}

/// A hub in the test kit: one server over stdio, one over HTTP.
#[cfg(feature = "http")]
#[test]
fn a_hub_runs_servers_of_both_transports_and_eras() {
    use mcp_proto::host::hub::{Hub, HubEvent, HubOptions};

    let configuration =
        crate::rig::configuration(json!({"pipe": {"command": "p"}, "web": {"url": "https://example.com/mcp"}}));
    let link = || Link::new(millis(5)).jitter(millis(20)).piece(30);
    let mut sim = Sim::new(5).with_server("pipe", full(FakeServer::modern()), link()).with_server(
        "web",
        full(FakeServer::legacy()),
        link(),
    );
    let node = sim.add_hub(Collector::new(Hub::new(HubOptions::new(options()), 1)));
    sim.tell(node, |now, hub| {
        hub.configure(now, configuration).unwrap();
        hub.open(now).unwrap();
    });
    sim.run_for(seconds(10)).unwrap();
    let call = |sim: &mut Sim<Collector<Hub>>, name: &str| {
        let call = sim.tell(node, |now, hub| hub.call(now, name, None).unwrap()).unwrap();
        sim.run_for(MINUTES).unwrap();
        let mut outcomes = sim.get(node).unwrap().events.iter().filter_map(|(_, event)| match event {
            HubEvent::Finished { call: ended, outcome, .. } if *ended == call => Some(format!("{outcome:?}")),
            _ => None,
        });
        let outcome = outcomes.next().unwrap();
        assert_eq!(outcomes.next(), None);
        outcome
    };
    assert!(call(&mut sim, "mcp_pipe_a").starts_with("Result"));
    assert!(call(&mut sim, "mcp_web_a").starts_with("Result"));
    sim.fault("pipe", Fault::Crash);
    sim.fault("web", Fault::Expire);
    assert!(call(&mut sim, "mcp_web_a").starts_with("Result"));
    assert!(call(&mut sim, "mcp_pipe_a").starts_with("Result"));
    for name in ["pipe", "web"] {
        assert_eq!(sim.server(name).unwrap().tool_runs("a"), 2);
        assert_eq!(sim.server(name).unwrap().violations(), &[] as &[String]);
    }
}
