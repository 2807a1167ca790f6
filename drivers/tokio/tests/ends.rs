//! Every end is told: what a host sees when the runtime that drives a session is gone.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_proto::host::config::Document;
use mcp_proto::host::hub::HubOptions;
use mcp_proto::{Options, Outcome};
use mcp_proto_tokio::{CallErrorKind, Host, Hub, Program, Session, Status};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn server() -> Program {
    Program::new(SERVER)
}

#[test]
fn a_runtime_that_is_gone_ends_calls_streams_and_the_close_of_a_session() {
    let gone = runtime();
    let (session, call, mut events, mut progress) = gone.block_on(async {
        let session = Session::connect(server(), Options::new("test", "1.0")).await.unwrap();
        let call = session.start_tool("wait", &json!({})).unwrap();
        let (events, progress) = (session.events(), call.progress());
        (session, call, events, progress)
    });
    drop(gone);
    assert!(matches!(session.status(), Status::Closed(Some(_))), "{:?}", session.status());
    runtime().block_on(async {
        let ended = async {
            let error = call.await.unwrap_err();
            assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{error}");
            assert!(progress.next().await.is_none());
            while events.next().await.is_some() {}
            assert!(session.events().next().await.is_none());
            let error = session.call_tool("echo", &json!({})).await.unwrap_err();
            assert!(error.to_string().contains("runtime is gone"), "{error}");
            assert!(session.ready().await.unwrap_err().failure.message.contains("runtime is gone"));
            session.close().await;
            session.close_within(PATIENCE).await;
        };
        timeout(PATIENCE, ended).await.unwrap();
    });
}

#[test]
fn a_runtime_that_is_gone_ends_calls_and_the_close_of_a_hub() {
    let gone = runtime();
    let entry = json!({"command": SERVER});
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {"local": entry}})).unwrap();
    let (hub, call) = gone.block_on(async {
        let hub = Hub::start(configuration, HubOptions::new(Options::new("test", "1.0"))).unwrap();
        hub.settled().await;
        let call = hub.start_call("mcp_local_wait", &json!({})).unwrap();
        (hub, call)
    });
    drop(gone);
    runtime().block_on(async {
        let ended = async {
            assert!(matches!(call.await.unwrap_err().kind, CallErrorKind::Ended(Outcome::Unknown)));
            let error = hub.call("mcp_local_echo", &json!({})).await.unwrap_err();
            assert!(matches!(error.kind, CallErrorKind::Down(_)), "{error}");
            hub.settled().await;
            hub.close().await;
        };
        timeout(PATIENCE, ended).await.unwrap();
    });
}

#[test]
fn a_runtime_that_is_gone_before_it_did_anything_is_told_too() {
    let gone = runtime();
    let mut host = Host::new(Options::new("test", "1.0"));
    let mut events = host.events();
    let session = gone.block_on(async { Session::start(server(), host).unwrap() });
    drop(gone);
    runtime().block_on(async {
        let ended = async {
            assert!(session.ready().await.is_err());
            assert!(session.call_tool("echo", &json!({})).await.is_err());
            while events.next().await.is_some() {}
            session.close().await;
        };
        timeout(PATIENCE, ended).await.unwrap();
    });
}

#[test]
fn events_of_a_host_that_does_not_start_end() {
    let mut host = Host::new(Options::new("test", "1.0"));
    let mut events = host.events();
    // There is no runtime here.
    assert!(Session::start(server(), host).is_err());
    runtime().block_on(async { assert!(timeout(PATIENCE, events.next()).await.unwrap().is_none()) });
}

#[test]
fn functions_of_the_host_that_panic_cost_no_server_and_no_waiter() {
    runtime().block_on(async {
        let program = server().stderr(|_| panic!("on purpose"));
        let session = Session::connect(program, Options::new("test", "1.0")).await.unwrap();
        for _ in 0..3 {
            session.call_tool("errors", &json!({"size": 100_000})).await.unwrap();
        }
        session.close().await;
        let program = server().prepare(|_| panic!("on purpose"));
        let connecting = Session::connect(program, Options::new("test", "1.0"));
        let error = timeout(PATIENCE, connecting).await.unwrap().unwrap_err();
        assert!(error.failure.message.contains("failed to start the program"), "{error}");
    });
}

#[cfg(feature = "http")]
#[test]
fn an_http_client_that_panics_or_leaves_out_the_end_is_a_failure() {
    use std::pin::Pin;

    use mcp_proto_tokio::{HttpTransport, Purpose, Remote, TakePiece};

    #[derive(Clone, Copy)]
    enum Faulty {
        PanicsAtOnce,
        Panics,
        LeavesOutTheEnd,
    }

    impl HttpTransport for Faulty {
        fn run<'a>(
            &'a self,
            _: http::Request<Vec<u8>>,
            _: Purpose,
            _: TakePiece<'a>,
        ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
            assert!(!matches!(self, Self::PanicsAtOnce), "on purpose");
            Box::pin(async { assert!(!matches!(self, Self::Panics), "on purpose") })
        }
    }

    for client in [Faulty::PanicsAtOnce, Faulty::Panics, Faulty::LeavesOutTheEnd] {
        runtime().block_on(async {
            let host = Host::new(Options::new("test", "1.0")).http(client);
            let connecting = Session::connect(Remote::new("http://127.0.0.1:9/mcp").unwrap(), host);
            let error = timeout(PATIENCE, connecting).await.unwrap().unwrap_err();
            assert!(error.failure.message.contains("did not end the response"), "{error}");
        });
    }
}

#[test]
fn a_runtime_without_a_timer_is_an_error_that_says_so() {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let error = runtime.block_on(Session::connect(server(), Options::new("test", "1.0"))).unwrap_err();
    assert!(error.failure.message.contains("no timer"), "{error}");
}
