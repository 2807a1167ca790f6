//! Futures that are dropped: after each number of polls, and in each millisecond of virtual time until they would complete, in
//! both eras, over streams and HTTP. The session works on, and the server has what fits: nothing twice, and a cancellation of
//! what it has got.
#![cfg(all(feature = "http", feature = "snapshot", feature = "testkit"))]
#![allow(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use mcp_proto::testkit::{FakeServer, FakeTool, Link, Sim};
use mcp_proto::{Options, Reconnect, Request, Secrets};
use mcp_proto_tokio::testkit::Servers;
use mcp_proto_tokio::{Endpoint, Host, Remote, Session, Status};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// How far a client, its server and the link between them are from each other.
const LATENCY: Duration = Duration::from_millis(3);
const TAKES: Duration = Duration::from_millis(8);

/// When a future is dropped.
#[derive(Clone, Copy, Debug)]
enum Drop {
    AfterPolls(usize),
    After(Duration),
}

impl Drop {
    /// Runs a future until it is dropped; `None` if it was before it completed.
    async fn run<F: Future>(self, future: F) -> Option<F::Output> {
        match self {
            Self::After(time) => timeout(time, future).await.ok(),
            Self::AfterPolls(polls) => {
                let (mut future, mut left) = (pin!(future), polls);
                poll_fn(|context| {
                    if left == 0 {
                        return Poll::Ready(None);
                    }
                    left -= 1;
                    match future.as_mut().poll(context) {
                        Poll::Ready(output) => Poll::Ready(Some(output)),
                        Poll::Pending if left == 0 => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    is_modern: bool,
    is_http: bool,
}

/// A server in memory.
struct Site {
    servers: Servers,
    kind: Kind,
}

impl Site {
    fn new(kind: Kind) -> Self {
        let server = if kind.is_modern { FakeServer::modern() } else { FakeServer::legacy() };
        let server = server.sessions(true).streams(true);
        let server = server.tool(FakeTool::new("slow").takes(TAKES).progress(2)).tool(FakeTool::new("echo"));
        let server = server.resource("r:1").prompt("p");
        let sim = Sim::new(1).with_server("s", server, Link::new(LATENCY).piece(100));
        Self { servers: Servers::start(sim), kind }
    }

    fn endpoint(&self) -> Endpoint {
        if self.kind.is_http { Remote::new("http://s/mcp").unwrap().into() } else { self.servers.streams("s").into() }
    }

    fn host(&self) -> Host<Options> {
        let mut options = Options::new("test", "1.0");
        (options.keepalive, options.reconnect) = (None, Some(Reconnect::default()));
        Host::new(options).seed(1).http(self.servers.http())
    }

    async fn connect(&self) -> Session {
        timeout(PATIENCE, Session::connect(self.endpoint(), self.host())).await.unwrap().unwrap()
    }

    fn received(&self, method: &str) -> usize {
        self.servers.with(|sim| sim.server("s").unwrap().received(method))
    }

    /// Whether the server was told that each request of this method is cancelled.
    fn is_cancelled(&self, method: &str) -> bool {
        self.servers.with(|sim| {
            let messages: Vec<_> = sim.server("s").unwrap().messages().cloned().collect();
            let mut requests = messages.iter().filter(|message| message["method"] == method);
            requests.all(|request| {
                messages.iter().any(|message| {
                    message["method"] == "notifications/cancelled" && message["params"]["requestId"] == request["id"]
                })
            })
        })
    }

    /// The session works, closes, and leaves nothing.
    async fn check(&self, session: Session, when: impl std::fmt::Debug) {
        let reply = timeout(PATIENCE, session.call_tool("echo", &json!({}))).await.unwrap();
        assert_eq!(reply.unwrap().text(), "echo", "{:?} {when:?}", self.kind);
        timeout(PATIENCE, session.close()).await.unwrap();
        drop(session);
        self.check_end(when).await;
    }

    async fn check_end(&self, when: impl std::fmt::Debug) {
        sleep(PATIENCE).await;
        // The task of the servers is left.
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1, "{:?} {when:?}", self.kind);
        let violations = self.servers.with(|sim| sim.server("s").unwrap().violations().to_vec());
        assert_eq!(violations, &[] as &[String], "{:?} {when:?}", self.kind);
    }
}

/// Runs a test with each kind of server, and with each moment of a drop, until the future completes. The test returns
/// whether it did.
fn each(test: impl AsyncFn(&Site, Drop) -> bool) {
    for (is_modern, is_http) in [(false, false), (false, true), (true, false), (true, true)] {
        let kind = Kind { is_modern, is_http };
        let moments: [fn(usize) -> Drop; 2] =
            [Drop::AfterPolls, |at| Drop::After(Duration::from_millis(at.try_into().unwrap()))];
        for (of, moment) in moments.into_iter().enumerate() {
            let mut at = 0;
            loop {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
                let is_complete = runtime.block_on(async {
                    let site = Site::new(kind);
                    test(&site, moment(at)).await
                });
                if is_complete {
                    // It waited at least once, if no time passed.
                    assert!(at > 1 || of > 0 && at > 0, "{kind:?} {of}: completed after {at}");
                    break;
                }
                at += 1;
                assert!(at < 1_000, "{kind:?}: it does not complete");
            }
        }
    }
}

/// Drops requests of a method that `start` makes.
fn each_request<T, E: std::fmt::Debug>(method: &str, start: impl AsyncFn(&Session) -> Result<T, E>) {
    each(async |site, moment| {
        let session = site.connect().await;
        let before = site.received(method);
        let result = moment.run(start(&session)).await;
        if let Some(result) = &result {
            assert!(result.is_ok(), "{moment:?}");
        }
        sleep(PATIENCE).await;
        let sent = site.received(method) - before;
        assert!(sent <= 1, "{moment:?}: sent {sent} times");
        if result.is_some() {
            assert_eq!(sent, 1, "{moment:?}");
        } else if before == 0 && !(site.kind.is_modern && site.kind.is_http) {
            // In the modern era over HTTP, the end of the exchange cancels.
            assert!(site.is_cancelled(method), "{:?} {moment:?}: not cancelled", site.kind);
        }
        site.check(session, moment).await;
        result.is_some()
    });
}

#[test]
fn a_call_of_a_tool_that_is_dropped_is_cancelled_and_never_repeated() {
    each_request("tools/call", async |session| session.call_tool("slow", &json!({})).await);
}

#[test]
fn a_call_whose_progress_is_read_is_cancelled_when_it_is_dropped() {
    each_request("tools/call", async |session| {
        let call = session.start_tool("slow", &json!({}))?;
        let mut progress = call.progress();
        while progress.next().await.is_some() {}
        call.await
    });
}

#[test]
fn other_requests_that_are_dropped_are_cancelled_and_never_repeated() {
    each_request("resources/read", async |session| session.read_resource("r:1").await);
    each_request("prompts/get", async |session| session.get_prompt("p", []).await);
    each_request("tools/list", async |session| session.request(Request::new("tools/list")).await);
}

#[test]
fn a_connect_that_is_dropped_leaves_nothing_and_the_next_one_connects() {
    each(async |site, moment| {
        let connected = moment.run(Session::connect(site.endpoint(), site.host())).await;
        let is_complete = connected.is_some();
        if let Some(session) = connected {
            site.check(session.unwrap(), moment).await;
        } else {
            site.check_end(moment).await;
        }
        site.check(site.connect().await, moment).await;
        is_complete
    });
}

#[test]
fn waiting_for_a_session_that_is_dropped_changes_nothing() {
    each(async |site, moment| {
        let session = Session::start(site.endpoint(), site.host()).unwrap();
        let is_complete = moment.run(session.ready()).await.is_some();
        timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
        site.check(session, moment).await;
        is_complete
    });
}

#[test]
fn a_close_that_is_dropped_goes_on_and_can_be_waited_for_again() {
    each(async |site, moment| {
        let session = site.connect().await;
        let open = session.start_tool("slow", &json!({})).unwrap();
        // Half of the way, so that the server has the call and has not answered it.
        sleep(LATENCY + TAKES / 2).await;
        let start = Instant::now();
        let is_complete = moment.run(session.close()).await.is_some();
        if matches!(moment, Drop::AfterPolls(0)) {
            site.check(session, moment).await;
            return is_complete;
        }
        open.await.unwrap_err();
        assert!(session.call_tool("echo", &json!({})).await.is_err(), "{moment:?}");
        timeout(PATIENCE, session.closed()).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(60) && matches!(session.status(), Status::Closed(None)));
        timeout(PATIENCE, session.close()).await.unwrap();
        drop(session);
        assert_eq!(site.received("tools/call"), 1, "{moment:?}");
        site.check_end(moment).await;
        site.check(site.connect().await, moment).await;
        is_complete
    });
}

#[test]
fn a_session_that_is_suspended_by_a_future_that_is_dropped_is_closed() {
    each(async |site, moment| {
        let session = site.connect().await;
        let snapshot = moment.run(session.suspend(Secrets::Included)).await;
        if matches!(moment, Drop::AfterPolls(0)) {
            site.check(session, moment).await;
            return false;
        }
        timeout(PATIENCE, session.closed()).await.unwrap();
        drop(session);
        if let Some(snapshot) = &snapshot {
            let session = Session::restore(site.endpoint(), site.host(), snapshot).unwrap();
            timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
            site.check(session, moment).await;
        } else {
            site.check_end(moment).await;
        }
        snapshot.is_some()
    });
}

#[test]
fn an_event_that_is_waited_for_by_a_future_that_is_dropped_is_not_lost() {
    each(async |site, moment| {
        let mut host = site.host();
        let mut events = host.events();
        let session = Session::start(site.endpoint(), host).unwrap();
        let first = moment.run(events.next()).await;
        let is_complete = first.is_some();
        timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
        let mut all: Vec<_> = first.flatten().into_iter().collect();
        session.close().await;
        while let Some(event) = events.next().await {
            all.push(event);
        }
        let is_ready = |event: &mcp_proto::Event| matches!(event, mcp_proto::Event::Ready);
        assert_eq!(all.iter().filter(|event| is_ready(event)).count(), 1, "{moment:?}: {all:?}");
        assert!(matches!(all.last(), Some(mcp_proto::Event::Closed { .. })), "{moment:?}");
        drop((session, events));
        site.check_end(moment).await;
        is_complete
    });
}
