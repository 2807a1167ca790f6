//! What the host promises, whatever its server and its connections do.

use std::collections::BTreeSet;

use mcp_proto::testkit::strategy::{Operation, Turn, repeated};
use mcp_proto::testkit::{Ask, FakeServer, FakeTool, Link, Sim};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::host::{Bug, Host, TRIES};

pub fn server() -> FakeServer {
    let server = FakeServer::legacy().tool(FakeTool::new("a")).tool(FakeTool::new("b"));
    let server = server.tool(FakeTool::new("asks").asks(Ask::elicitation("Sure?")));
    (0..4).fold(server, |server, number| server.resource(&format!("r:{number}")))
}

pub fn keeps_its_promises(bug: Option<Bug>, seed: u64, turns: &[Turn]) -> TestCaseResult {
    let mut sim = Sim::new(seed).with_server("s", server(), Link::default());
    let node = sim.add("s", Host::new(bug));
    sim.tell(node, |now, host| host.open(now));
    let accepted = sim.play(node, "s", turns, |now, host, operation| match operation {
        Operation::Call(name) => host.call(now, name),
        Operation::Read(uri) => host.read(now, uri),
        _ => false,
    })?;
    let (host, server) = (sim.get(node).unwrap(), sim.server("s").unwrap());
    for (uri, ran) in server.all_resource_reads() {
        let allowed = TRIES * accepted.reads(uri);
        prop_assert!(ran <= allowed, "a read ran {ran} times where {allowed} were allowed");
    }
    for (name, runs) in server.all_tool_runs() {
        prop_assert!(runs <= accepted.calls(name), "a tool ran that was not called: {name}");
    }
    let answered: BTreeSet<_> = host.answers.iter().map(|(ticket, _)| *ticket).collect();
    prop_assert_eq!(answered.len(), accepted.total(), "an answer is lost");
    prop_assert_eq!(host.answers.len(), accepted.total(), "a request is answered twice");
    let tools = server.tool_names().collect();
    prop_assert_eq!(host.tools(), tools, "the model knows other tools than there are");
    prop_assert_eq!(repeated(&host.shown), None, "a prompt is shown twice");
    Ok(())
}
