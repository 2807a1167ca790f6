//! Random turns of the test kit, and the operations that they count.

use std::collections::BTreeSet;

use mcp_proto::testkit::strategy::{self, Incident, Operation, Turn};
use mcp_proto::testkit::{Ask, Collector, FakeServer, FakeTool, Fault, Link, On, Reply, Sim};
use mcp_proto::{Client, Event, Lines, Options};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::common::seconds;

#[test]
fn operations_that_a_host_accepts_are_counted_and_run() {
    let server = FakeServer::legacy().tool(FakeTool::new("a")).resource("r:1").prompt("p");
    let mut sim = Sim::new(1).with_server("s", server, Link::default());
    let node = sim.add("s", Collector::new(Client::new(Lines::new(), Options::new("host", "1"), 1)));
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    let turn = |operation: Operation, incident| Turn { operation, incident, wait: seconds(100) };
    let call = || Operation::Call("a".into());
    let turns = [
        turn(call(), Incident::Script(On::tool("a"), vec![Reply::Dies])),
        turn(call(), Incident::None),
        turn(Operation::Read("r:1".into()), Incident::Fault(Fault::Stall(seconds(2)))),
        turn(Operation::Get("p".into()), Incident::None),
        turn(Operation::Get("refused".into()), Incident::None),
    ];
    let start = sim.now();
    let accepted = sim
        .play(node, "s", &turns, |now, client, operation| {
            *operation != Operation::Get("refused".into()) && client.request(now, operation.request()).is_ok()
        })
        .unwrap();
    assert_eq!((accepted.calls("a"), accepted.reads("r:1"), accepted.gets("p")), (2, 1, 1));
    assert_eq!((accepted.calls("b"), accepted.reads("r:2"), accepted.gets("refused")), (0, 0, 0));
    assert_eq!(accepted.total(), 4);
    assert_eq!(sim.now() - start, seconds(1 + 5 * 100 + 1800));
    let server = sim.server("s").unwrap();
    assert_eq!(server.all_tool_runs().collect::<Vec<_>>(), [("a", 2)]);
    assert_eq!(server.all_resource_reads().collect::<Vec<_>>(), [("r:1", 1)]);
    assert_eq!(server.all_prompt_gets().collect::<Vec<_>>(), [("p", 1)]);
}

#[test]
fn an_incident_happens_to_the_server() {
    let server = FakeServer::legacy().tool(FakeTool::new("a").with("title", "A".into())).tool(FakeTool::new("b"));
    let mut sim = Sim::new(1).with_server("s", server, Link::default());
    let node = sim.add("s", Collector::new(Client::new(Lines::new(), Options::new("host", "1"), 1)));
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    let mut happens = |incident| {
        sim.run_for(seconds(1)).unwrap();
        sim.incident("s", &incident);
        sim.run_for(seconds(60)).unwrap();
    };
    happens(Incident::Tools(vec!["a".into(), "new".into()]));
    happens(Incident::Ask(Ask::ping()));
    happens(Incident::Script(On::method("ping"), vec![Reply::error(-1, "no")]));
    happens(Incident::Fault(Fault::Cut));
    let (server, client) = (sim.server("s").unwrap(), sim.get(node).unwrap());
    assert_eq!(client.catalog().tools().map(|tool| tool.name.to_string()).collect::<Vec<_>>(), ["a", "new"]);
    assert_eq!(client.catalog().tools().next().unwrap().title.as_deref(), Some("A"), "a tool that it has stays");
    assert_eq!((server.answers().len(), server.received("initialize")), (1, 2));
    assert_eq!(client.events.iter().filter(|(_, event)| matches!(event, Event::Down { .. })).count(), 1);
}

#[test]
fn operations_are_on_what_the_server_has() {
    let operations = |server: &FakeServer| {
        let (strategy, mut runner) = (strategy::operation(server), TestRunner::deterministic());
        (0..100).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect::<BTreeSet<_>>()
    };
    let server = FakeServer::legacy().tool(FakeTool::new("a")).tool(FakeTool::new("b")).resource("r:1").prompt("p");
    let all = ["a", "b"].map(|name| Operation::Call(name.into())).into_iter();
    let all = all.chain([Operation::Read("r:1".into()), Operation::Get("p".into())]);
    assert_eq!(operations(&server), all.collect());
    assert_eq!(operations(&FakeServer::legacy().prompt("p")), [Operation::Get("p".into())].into());
    assert_eq!(operations(&FakeServer::legacy()), [Operation::Call("none".into())].into());
}
