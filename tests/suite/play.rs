//! Random turns of the test kit, and the operations that they count.

use mcp_proto::testkit::strategy::{Incident, Operation, Turn};
use mcp_proto::testkit::{Collector, FakeServer, FakeTool, Fault, Link, On, Reply, Sim};
use mcp_proto::{Client, Lines, Options};

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
    assert_eq!((accepted.calls("b"), accepted.gets("refused"), accepted.total()), (0, 0, 4));
    assert_eq!(sim.now() - start, seconds(1 + 5 * 100 + 1800));
    let server = sim.server("s").unwrap();
    assert_eq!(server.all_tool_runs().collect::<Vec<_>>(), [("a", 2)]);
    assert_eq!(server.all_resource_reads().collect::<Vec<_>>(), [("r:1", 1)]);
    assert_eq!(server.all_prompt_gets().collect::<Vec<_>>(), [("p", 1)]);
}
