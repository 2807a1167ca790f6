//! A simulation that is run step by step.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_proto::testkit::{Carried, Collector, FakeServer, FakeTool, Link, NodeId, Sim};
use mcp_proto::{Client, Event, Lines, Messages, Options, Outcome, RawValue, Request, Time};
use serde_json::json;

use crate::common::{millis, seconds};

type World<B> = Sim<Collector<Client<B>>>;

fn world<B: Carried>(binding: B, server: FakeServer) -> (World<B>, NodeId) {
    let server = server.tool(FakeTool::new("a").takes(millis(300)).progress(1)).resource("r:1").prompt("p");
    let link = Link::new(millis(5)).jitter(millis(3)).piece(100);
    let mut sim = Sim::new(7).with_server("s", server, link);
    let node = sim.add("s", Collector::new(Client::new(binding, Options::new("test-host", "1.0"), 1)));
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    (sim, node)
}

/// Runs a simulation for a time, with a function after each step. Returns the number of steps.
fn steps<B: Carried>(sim: &mut World<B>, time: Duration, mut each: impl FnMut(&mut World<B>)) -> usize {
    let end = sim.now() + time;
    let mut count = 0;
    while sim.now() < end && sim.step() {
        each(sim);
        count += 1;
        assert!(count < 100_000, "the simulation is at {:?}", sim.now());
    }
    count
}

fn events<B: Carried>(sim: &World<B>, node: NodeId) -> &[(Time, Event)] {
    &sim.get(node).unwrap().events
}

#[test]
fn a_step_is_one_action_or_one_arrival() {
    let (mut sim, node) = world(Messages::new(), FakeServer::legacy());
    let mut before = 0;
    let count = steps(&mut sim, seconds(5), |sim| {
        let now = events(sim, node).len();
        assert!(now <= before + 1, "a step reports {} events", now - before);
        before = now;
    });
    assert!(count > before && before > 0, "{count} steps, {before} events");
    assert!(sim.get(node).unwrap().is_ready());
}

#[test]
fn a_simulation_with_nothing_to_do_makes_no_step() {
    let client = Client::new(Messages::new(), Options::new("test-host", "1.0"), 1);
    let mut sim = Sim::new(7);
    sim.add("s", Collector::new(client));
    assert!(!sim.step());
    assert_eq!(sim.now(), Time::ZERO);
}

#[test]
fn steps_do_what_a_run_does() {
    let (mut stepped, node) = world(Lines::new(), FakeServer::modern());
    steps(&mut stepped, seconds(5), |_| ());
    let (mut run, _) = world(Lines::new(), FakeServer::modern());
    run.run_for(seconds(5)).unwrap();
    let until = |at: Time, sim: &World<Lines>| -> Vec<_> {
        events(sim, node).iter().filter(|(time, _)| *time <= at).cloned().collect()
    };
    let end = run.now();
    assert_eq!(until(end, &stepped), until(end, &run));
    assert!(!until(end, &run).is_empty());
}

/// The order in which eight calls that are made at once end, for each of 20 seeds. Each call names itself, and ends with
/// its own result.
fn orders<B: Carried + Clone>(binding: &B, server: fn() -> FakeServer) -> Vec<Vec<usize>> {
    let order = |seed| {
        let named = server().tool(FakeTool::new("a")).on("tools/call", |params| {
            Ok(json!({"content": [{"type": "text", "text": params["arguments"]["number"].to_string()}]}))
        });
        let link = Link::new(millis(5)).jitter(millis(50));
        let mut sim = Sim::new(seed).with_server("s", named, link);
        let client = Client::new(binding.clone(), Options::new("test-host", "1.0"), 1);
        let node = sim.add("s", Collector::new(client));
        sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
        sim.run_until(seconds(5), |sim| sim.get(node).unwrap().is_ready()).unwrap();
        let calls: Vec<_> = (0..8)
            .map(|number| {
                let arguments = RawValue::from_string(json!({"number": number}).to_string()).unwrap();
                let request = Request::call_tool("a", Some(&arguments));
                sim.tell(node, |now, client| client.request(now, request)).unwrap().unwrap()
            })
            .collect();
        sim.run_for(seconds(5)).unwrap();
        let ended = events(&sim, node).iter().filter_map(|(_, event)| match event {
            Event::Finished { request, outcome: Outcome::Result(result), attempts: 1, .. } => {
                let number = calls.iter().position(|call| call == request).unwrap();
                assert!(result.get().contains(&format!("\"{number}\"")), "{number}: {}", result.get());
                Some(number)
            }
            _ => None,
        });
        let ended: Vec<_> = ended.collect();
        assert_eq!(ended.iter().collect::<BTreeSet<_>>().len(), calls.len(), "{ended:?}");
        assert_eq!(sim.server("s").unwrap().received("tools/call"), calls.len());
        ended
    };
    (0..20).map(order).collect()
}

#[test]
fn messages_of_one_connection_do_not_overtake_each_other() {
    let in_order: Vec<_> = (0..8).collect();
    for server in [FakeServer::legacy as fn() -> FakeServer, FakeServer::modern] {
        assert!(orders(&Lines::new(), server).iter().all(|order| *order == in_order));
    }
}

#[cfg(feature = "http")]
#[test]
fn http_exchanges_overtake_each_other_and_each_call_ends_with_its_own_result() {
    let http = mcp_proto::Http::new("https://example.com/mcp").unwrap();
    for server in [FakeServer::legacy as fn() -> FakeServer, FakeServer::modern] {
        let orders: BTreeSet<_> = orders(&http, server).into_iter().collect();
        assert!(orders.len() > 10, "{orders:?}");
    }
}

#[cfg(feature = "snapshot")]
mod moved {
    use std::ops::DerefMut;

    use mcp_proto::testkit::strategy::{self, Turn};
    use mcp_proto::testkit::{Carried, Collector, FakeServer, Fault, Link, NodeId, Sim};
    use mcp_proto::{Client, Event, Lines, Messages, Moved, Options, Outcome, Request};
    use proptest::prelude::*;

    use super::{World, events, steps, world};
    use crate::common::{millis, seconds};
    use crate::testkit::full;

    /// A session with a call, a lost connection and another call, with a function after each step.
    fn session<B: Carried>(
        binding: B,
        server: FakeServer,
        mut each: impl FnMut(&mut World<B>, NodeId),
    ) -> (World<B>, NodeId) {
        let (mut sim, node) = world(binding, server);
        steps(&mut sim, seconds(5), |sim| each(sim, node));
        for fault in [Some(Fault::Cut), None] {
            sim.tell(node, |now, client| client.request(now, Request::call_tool("a", None))).unwrap().unwrap();
            steps(&mut sim, millis(100), |sim| each(sim, node));
            if let Some(fault) = fault {
                sim.fault("s", fault);
            }
            steps(&mut sim, seconds(20), |sim| each(sim, node));
        }
        (sim, node)
    }

    /// Saves the client, and continues with the restored one.
    fn restore<B: Carried + Clone>(sim: &mut World<B>, node: NodeId, binding: &B) {
        sim.tell(node, |_, collector| {
            let client = collector.deref_mut();
            *client = crate::moved::moved(client, binding.clone(), Moved::WithTransport);
        });
    }

    fn check<B: Carried + Clone>(binding: &B, server: fn() -> FakeServer) {
        let (expected, node) = session(binding.clone(), server(), |_, _| ());
        let (moved, _) = session(binding.clone(), server(), |sim, node| restore(sim, node, binding));
        assert_eq!(events(&moved, node), events(&expected, node));
        let runs = |sim: &World<B>| sim.server("s").unwrap().tool_runs("a");
        assert_eq!(runs(&moved), runs(&expected));
        let results = events(&moved, node)
            .iter()
            .filter(|(_, event)| matches!(event, Event::Finished { outcome: Outcome::Result(_), .. }))
            .count();
        assert_eq!(results, 1, "the call without a fault");
    }

    /// A session with random operations, incidents and waits, with a function after each step.
    fn played<B: Carried>(
        binding: B,
        server: FakeServer,
        (link, turns, seed): (Link, &[Turn], u64),
        mut each: impl FnMut(&mut World<B>, NodeId),
    ) -> (World<B>, NodeId) {
        let mut sim = Sim::new(seed).with_server("s", full(server), link);
        let node = sim.add("s", Collector::new(Client::new(binding, Options::new("test-host", "1.0"), 1)));
        sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
        for Turn { operation, incident, wait, .. } in turns {
            // A client that is closed accepts nothing.
            let _ = sim.tell(node, |now, client| client.request(now, operation.request())).unwrap();
            sim.incident("s", incident);
            steps(&mut sim, *wait, |sim| each(sim, node));
        }
        steps(&mut sim, seconds(60), |sim| each(sim, node));
        (sim, node)
    }

    fn check_played<B: Carried + Clone>(
        binding: &B,
        server: fn() -> FakeServer,
        given: (Link, &[Turn], u64),
    ) -> Result<(), TestCaseError> {
        let (expected, node) = played(binding.clone(), server(), given, |_, _| ());
        let (moved, _) = played(binding.clone(), server(), given, |sim, node| restore(sim, node, binding));
        prop_assert_eq!(events(&moved, node), events(&expected, node));
        let runs = |sim: &World<B>| -> Vec<_> {
            let server = sim.server("s").unwrap();
            server.all_tool_runs().map(|(name, runs)| (name.to_owned(), runs)).collect()
        };
        prop_assert_eq!(runs(&moved), runs(&expected));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn any_session_over_any_link_continues_after_each_step_as_one_that_is_not_saved(
            link in strategy::link(),
            turns in strategy::turns(&full(FakeServer::legacy()), 1..6),
            seed: u64,
            era in 0..2_usize,
        ) {
            let server = [FakeServer::legacy, FakeServer::modern][era];
            check_played(&Lines::new(), server, (link, &turns, seed))?;
            #[cfg(feature = "http")]
            check_played(&mcp_proto::Http::new("https://example.com/mcp").unwrap(), server, (link, &turns, seed))?;
        }
    }

    #[test]
    fn a_simulated_client_that_is_saved_and_restored_after_each_step_continues_as_one_that_is_not() {
        for server in [FakeServer::legacy as fn() -> FakeServer, FakeServer::modern] {
            check(&Messages::new(), server);
            check(&Lines::new(), server);
            #[cfg(feature = "http")]
            check(&mcp_proto::Http::new("https://example.com/mcp").unwrap(), server);
        }
    }
}
