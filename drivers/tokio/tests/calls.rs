//! Calls that are bounded or cancelled, at servers of the test kit of both eras, in paused time.
#![cfg(feature = "testkit")]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use mcp_proto::testkit::{FakeServer, FakeTool, Link, Sim};
use mcp_proto::{Options, Outcome, TimeBound};
use mcp_proto_tokio::testkit::Servers;
use mcp_proto_tokio::{CallErrorKind, Host, Session};
use serde_json::json;
use tokio::time::{Instant, sleep};

async fn connect(server: FakeServer) -> (Servers, Session) {
    let server = server.tool(FakeTool::new("slow").takes(Duration::from_secs(60))).tool(FakeTool::new("quick"));
    let servers = Servers::start(Sim::new(1).with_server("s", server, Link::new(Duration::from_millis(10))));
    let host = Host::new(Options::new("test", "1.0")).seed(1);
    let session = Session::connect(servers.streams("s"), host).await.unwrap();
    (servers, session)
}

/// The reasons of the cancellations that the server got.
async fn reasons(servers: &Servers) -> Vec<String> {
    sleep(Duration::from_secs(1)).await;
    servers.with(|sim| {
        let cancellations = sim.server("s").unwrap().messages().filter(|it| it["method"] == "notifications/cancelled");
        cancellations.map(|it| it["params"]["reason"].as_str().unwrap_or_default().to_owned()).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_timeout_of_its_own_ends_then_and_is_cancelled() {
    for server in [FakeServer::legacy(), FakeServer::modern()] {
        let (servers, session) = connect(server).await;
        let start = Instant::now();
        let call = session.start_tool("slow", &json!({})).unwrap().timeout(Duration::from_secs(7));
        let error = call.await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::TimedOut(TimeBound::Total))), "{error}");
        assert_eq!(start.elapsed(), Duration::from_secs(7));
        assert_eq!(reasons(&servers).await, ["timeout"]);
        // Beside a reader of its progress, which ends then, too.
        let call = session.start_tool("slow", &json!({})).unwrap().timeout(Duration::from_secs(7));
        let mut progress = call.progress();
        while progress.next().await.is_some() {}
        assert!(start.elapsed() < Duration::from_secs(16));
        assert!(matches!(call.await.unwrap_err().kind, CallErrorKind::Ended(Outcome::TimedOut(_))));
        assert_eq!(reasons(&servers).await, ["timeout"; 2]);
        // One that is in time is not.
        session.start_tool("quick", &json!({})).unwrap().timeout(Duration::from_secs(7)).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(reasons(&servers).await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_with_a_reason_that_the_server_is_told() {
    for server in [FakeServer::legacy(), FakeServer::modern()] {
        let (servers, session) = connect(server).await;
        let call = session.start_tool("slow", &json!({})).unwrap();
        sleep(Duration::from_secs(1)).await;
        call.cancel("the user left");
        call.cancel("again");
        let error = call.await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Cancelled)), "{error}");
        assert_eq!(reasons(&servers).await, ["the user left"]);
    }
}
