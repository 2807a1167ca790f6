//! Streams that break and are resumed: no response is lost, and no call runs twice.

use mcp_proto::testkit::{Ask, Collector, FakeServer, FakeTool, Fault, Link, NodeId, On, Reply, Sim};
use mcp_proto::{Client, Event, Family, Http, Options, Outcome, RawValue, Request, RequestId};
use proptest::prelude::*;

use crate::common::{millis, seconds};

type World = Sim<Collector<Client<Http>>>;

fn server() -> FakeServer {
    let slow = FakeTool::new("slow").takes(seconds(4)).progress(3);
    let asks = FakeTool::new("asks").takes(seconds(2)).asks(Ask::elicitation("Sure?"));
    FakeServer::legacy().tool(FakeTool::new("a")).tool(slow).tool(asks).resumes(true)
}

fn world(seed: u64, server: FakeServer, link: Link) -> (World, NodeId) {
    let mut options = Options::new("host", "1");
    options.capabilities.elicitation = true;
    let client = Client::new(Http::new("https://example.com/mcp").unwrap(), options, seed);
    let mut sim = Sim::new(seed).with_server("s", server, link);
    let node = sim.add("s", Collector::new(client));
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    sim.run_until(seconds(600), |sim| sim.get(node).unwrap().is_ready()).unwrap();
    (sim, node)
}

fn call(sim: &mut World, node: NodeId, name: &str) -> Option<RequestId> {
    let request = Request::call_tool(name, None).progress(true).timeout(seconds(60));
    sim.tell(node, |now, client| client.request(now, request).ok()).unwrap()
}

fn ends(sim: &World, node: NodeId, wanted: RequestId) -> Vec<(&Outcome, u32)> {
    let events = sim.get(node).unwrap().events.iter();
    let ends = events.filter_map(|(_, event)| match event {
        Event::Finished { request, outcome, attempts, .. } if *request == wanted => Some((outcome, *attempts)),
        _ => None,
    });
    ends.collect()
}

#[test]
fn a_response_arrives_on_the_resumed_stream() {
    let (mut sim, node) = world(1, server(), Link::default());
    let id = call(&mut sim, node, "slow").unwrap();
    // Before the first progress notification, between two of them, and before the response.
    for wait in [500, 1500, 1500] {
        sim.run_for(millis(wait)).unwrap();
        sim.fault("s", Fault::Cut);
    }
    sim.run_for(seconds(20)).unwrap();
    assert!(matches!(ends(&sim, node, id)[..], [(Outcome::Result(_), 1)]), "{:?}", ends(&sim, node, id));
    let reports = sim.get(node).unwrap().events.iter().filter_map(|(_, event)| match event {
        Event::Progress { progress, .. } => progress.progress(),
        _ => None,
    });
    // The third follows the second immediately: it is reported at the end.
    assert_eq!(reports.collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    let server = sim.server("s").unwrap();
    assert_eq!((server.tool_runs("slow"), server.received("tools/call"), server.received("initialize")), (1, 1, 1));
    assert_eq!(server.violations(), &[] as &[String]);
}

#[test]
fn notifications_during_an_interruption_arrive_on_the_resumed_stream() {
    let (mut sim, node) = world(1, server(), Link::default());
    sim.run_for(seconds(1)).unwrap();
    sim.fault("s", Fault::Unreachable(seconds(1)));
    sim.change("s", |server| server.set_tools([FakeTool::new("b")]));
    sim.run_for(seconds(60)).unwrap();
    let catalog = sim.get(node).unwrap().catalog();
    assert_eq!(catalog.list(Family::Tools).iter().map(|(key, _)| key).collect::<Vec<_>>(), ["b"]);
    assert_eq!(sim.server("s").unwrap().received("initialize"), 1, "the session goes on");
}

#[test]
fn a_stream_of_a_lost_session_is_not_resumed() {
    let (mut sim, node) = world(1, server().script(On::tool("a"), [Reply::Silent]), Link::default());
    let id = call(&mut sim, node, "a").unwrap();
    sim.run_for(seconds(1)).unwrap();
    sim.fault("s", Fault::Crash);
    sim.run_for(seconds(120)).unwrap();
    assert!(matches!(ends(&sim, node, id)[..], [(Outcome::Unknown, 1)]), "{:?}", ends(&sim, node, id));
    assert!(sim.get(node).unwrap().is_ready());
    assert_eq!(sim.server("s").unwrap().tool_runs("a"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_once_and_nothing_runs_twice(
        seed: u64,
        cuts in 0..60_u16,
        calls in prop::collection::vec((prop::sample::select(&["a", "slow", "asks"][..]), 0..5_000_u64, any::<bool>()), 1..12),
    ) {
        let (mut sim, node) = world(seed, server(), Link::new(millis(10)).jitter(millis(30)).piece(60).cuts_per_mille(cuts));
        let mut made = Vec::new();
        let mut answered = 0;
        for (name, wait, cut) in &calls {
            made.extend(call(&mut sim, node, name).map(|id| (id, *name)));
            sim.run_for(millis(*wait)).unwrap();
            if *cut {
                sim.fault("s", Fault::Cut);
            }
            let events = &sim.get(node).unwrap().events;
            let asked: Vec<_> = events.iter().skip(answered).filter_map(|(_, event)| match event {
                Event::ServerRequest { id, .. } => Some(*id),
                _ => None,
            }).collect();
            answered = events.len();
            for id in asked {
                let decline = RawValue::from_string(r#"{"action": "decline"}"#.into()).unwrap();
                let _ = sim.tell(node, |now, client| client.respond(now, id, Ok(&decline)));
            }
        }
        sim.run_for(seconds(1_800)).unwrap();
        for (id, _) in &made {
            prop_assert_eq!(ends(&sim, node, *id).len(), 1);
        }
        let server = sim.server("s").unwrap();
        for (name, runs) in server.all_tool_runs() {
            let wanted = made.iter().filter(|(_, made)| *made == name).count();
            prop_assert!(runs <= wanted, "{} ran {} times, wanted {}", name, runs, wanted);
        }
        prop_assert_eq!(server.violations(), &[] as &[String]);
    }
}
