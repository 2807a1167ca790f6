//! Sessions over an HTTP client that answers in memory, with paused time: nothing waits for a machine.
#![cfg(feature = "http")]
#![allow(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use mcp_proto::binding::http::Broken;
use mcp_proto::host::config::Document;
use mcp_proto::host::hub::HubOptions;
use mcp_proto::{Eras, FailureKind, Options, Outcome, ProtocolVersion, TimeBound};
use mcp_proto_tokio::{
    CallErrorKind, Elicited, Host, HttpClient, HttpPiece, HttpTransport, Hub, Input, Output, Passing, Purpose, Remote,
    Session, Status, TakePiece,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(3600);
const URL: &str = "http://server.example/mcp";
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const OWN: HeaderName = HeaderName::from_static("x-own");

/// A server of both eras, which keeps the headers of requests by their methods. A call of `ask` asks the user, and
/// one of `count` has two reports of progress, of `burst` at once; one of `break` breaks; no call has a result.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Vec<(String, HeaderMap)>>>);

impl Server {
    /// The headers of the first request of a method.
    fn headers(&self, method: &str) -> HeaderMap {
        let received = self.0.lock().unwrap();
        received.iter().find(|(known, _)| known == method).unwrap().1.clone()
    }

    /// Waits until this many calls are open.
    async fn has_open(&self, calls: usize) {
        let waiting = async {
            // One is the server itself, another one is its copy in the host.
            while Arc::strong_count(&self.0) != 2 + calls {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap();
    }

    fn host(&self) -> Host<Options> {
        let mut options = Options::new("test", "1.0");
        (options.eras, options.keepalive) = (Eras::LegacyOnly, None);
        Host::new(options).http(self.clone())
    }

    async fn connect(&self) -> Session {
        Session::connect(Remote::new(URL).unwrap(), self.host()).await.unwrap()
    }
}

fn head(status: StatusCode, kind: &'static str) -> HttpPiece {
    HttpPiece::Head(status, [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect())
}

impl HttpTransport for Server {
    fn run<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        _: Purpose,
        mut take: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let (parts, body) = request.into_parts();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push((method.clone(), parts.headers));
        Box::pin(async move {
            let result = match &*method {
                "server/discover" => json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                }),
                "initialize" => json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "test", "version": "1"},
                }),
                "tools/list" => json!({"tools": [
                    {"name": "ask", "inputSchema": {"type": "object"}}, {"name": "wait", "inputSchema": {"type": "object"}},
                    {"name": "count", "inputSchema": {"type": "object"}},
                    {"name": "burst", "inputSchema": {"type": "object"}},
                    {"name": "break", "inputSchema": {"type": "object"}},
                ], "resultType": "complete"}),
                "tools/call" => {
                    take(head(StatusCode::OK, "text/event-stream"));
                    let report = |step: u32| {
                        let token = &message["params"]["_meta"]["progressToken"];
                        let params = json!({"progressToken": token, "progress": step});
                        let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                        format!("data: {report}\n\n")
                    };
                    for step in [1, 2].into_iter().filter(|_| message["params"]["name"] == "count") {
                        sleep(Duration::from_secs(1)).await;
                        take(HttpPiece::Body(report(step).into()));
                    }
                    if message["params"]["name"] == "burst" {
                        take(HttpPiece::Body((report(1) + &report(2)).into()));
                    }
                    if message["params"]["name"] == "ask" {
                        let params =
                            json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
                        let ask =
                            json!({"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": params});
                        take(HttpPiece::Body(format!("data: {ask}\n\n").into()));
                    }
                    if message["params"]["name"] == "break" {
                        return take(HttpPiece::Failure(Broken::Midway, "connection reset by peer".into()));
                    }
                    // As long as the call is open.
                    let _open = Arc::clone(&self.0);
                    return pending().await;
                }
                _ => {
                    let is_message = !message.is_null();
                    take(head(
                        if is_message { StatusCode::ACCEPTED } else { StatusCode::METHOD_NOT_ALLOWED },
                        "text/plain",
                    ));
                    return take(HttpPiece::End);
                }
            };
            take(head(StatusCode::OK, "application/json"));
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            take(HttpPiece::Body(answer.to_string().into()));
            take(HttpPiece::End);
        })
    }
}

/// Calls a tool that has no result within this time, and returns how long that took.
async fn late(session: &Session, bound: Duration) -> Duration {
    let call = mcp_proto::Request::call_tool("wait", None).timeout(bound);
    let start = Instant::now();
    let error = timeout(PATIENCE, session.request(call)).await.unwrap().unwrap_err();
    let kind = error.kind;
    assert!(matches!(kind, CallErrorKind::Ended(Outcome::TimedOut(TimeBound::Timeout))), "{kind:?}");
    start.elapsed()
}

/// A time, rounded up to a millisecond as timers are.
fn is_about(time: Duration, expected: Duration) -> bool {
    time >= expected && time.saturating_sub(expected) <= Duration::from_millis(2)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_when_nothing_else_or_something_later_is_waited_for() {
    let session = Server::default().connect().await;
    let (sooner, later) = (Duration::from_secs(6), Duration::from_secs(60));
    let alone = late(&session, sooner).await;
    let (long, short) = tokio::join!(late(&session, later), late(&session, sooner));
    assert!(
        is_about(alone, sooner) && is_about(short, sooner) && is_about(long, later),
        "{alone:?} {short:?} {long:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_reader_of_the_progress_of_a_call_is_woken_by_reports_and_by_the_end() {
    let session = Server::default().connect().await;
    let call = session.start_tool("count", &json!({})).unwrap();
    // All wait before the first report comes, and each takes one at most.
    let readers = [0; 2].map(|_| {
        let mut progress = call.progress();
        tokio::spawn(async move { (progress.next().await.and_then(|step| step.progress()), progress) })
    });
    let mut steps = Vec::new();
    for reader in readers {
        steps.push(timeout(PATIENCE, reader).await.unwrap().unwrap());
    }
    let waiting = steps
        .into_iter()
        .map(|(step, mut progress)| (step, tokio::spawn(async move { progress.next().await.is_none() })));
    let (mut steps, waiting): (Vec<_>, Vec<_>) = waiting.unzip();
    steps.sort_by(|one, other| one.partial_cmp(other).unwrap());
    assert_eq!(steps, [Some(1.0), Some(2.0)]);
    tokio::task::yield_now().await;
    drop(call);
    for reader in waiting {
        assert!(timeout(PATIENCE, reader).await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn what_follows_from_a_line_of_a_stream_is_shown_before_the_next_line() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&shown);
    let mut options = Options::new("test", "1.0");
    (options.eras, options.keepalive) = (Eras::LegacyOnly, None);
    options.timeouts.progress_interval = Duration::ZERO;
    let host = Host::new(options).http(Server::default()).tap(move |passed| match passed.what {
        Passing::Input(Input::Http(_, HttpPiece::Body(bytes))) if bytes.starts_with(b"data: ") => {
            taken.lock().unwrap().push(String::from_utf8_lossy(bytes).lines().count().to_string());
        }
        Passing::Output(Output::Event(mcp_proto::Event::Progress { progress, .. })) => {
            taken.lock().unwrap().push(format!("{:?}", progress.progress().unwrap()));
        }
        Passing::Input(_) | Passing::Output(_) => {}
    });
    let session = Session::connect(Remote::new(URL).unwrap(), host).await.unwrap();
    let call = session.start_tool("burst", &json!({})).unwrap();
    let mut progress = call.progress();
    for _ in 0..2 {
        timeout(PATIENCE, progress.next()).await.unwrap().unwrap();
    }
    assert_eq!(*shown.lock().unwrap(), ["1", "1.0", "1", "2.0"]);
}

/// Wakes nobody, and panics.
struct Faulty;

impl Wake for Faulty {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_exchange_breaks_says_why() {
    let newest = ProtocolVersion::NEWEST_MODERN;
    for eras in [Eras::LegacyOnly, Eras::ModernOnly(newest)] {
        let mut options = Options::new("test", "1.0");
        (options.eras, options.server) = (eras, "docs".into());
        let host = Host::new(options).http(Server::default());
        let session = Session::connect(Remote::new(URL).unwrap(), host).await.unwrap();
        let error = timeout(PATIENCE, session.call_tool("break", &json!({}))).await.unwrap().unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{eras:?}: {error}");
        let text = error.to_string();
        assert!(text.starts_with("`tools/call break` at docs"), "{eras:?}: {text}");
        let words = ": the connection was reset; the call was sent, and may have run. ";
        assert!(text.contains(words), "{eras:?}: {text}");
        let cause = error.cause.unwrap();
        assert_eq!((cause.failure.kind, &*cause.finding), (FailureKind::Closed, "docs: the connection was reset"));
        // The connection is not lost with one exchange.
        assert_eq!(session.status(), Status::Ready, "{eras:?}");
        session.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_task_of_deadlines_ends_calls_and_the_close_with_that_reason() {
    let session = Server::default().connect().await;
    let open = session.start_tool("wait", &json!({})).unwrap();
    let (mut events, mut progress) = (session.events(), open.progress());
    let late = mcp_proto::Request::call_tool("wait", None).timeout(Duration::from_secs(6));
    let mut late = session.start_request(late).unwrap();
    // The task of deadlines wakes whoever waits for this call, when its time is over.
    let waker = Waker::from(Arc::new(Faulty));
    assert!(Pin::new(&mut late).poll(&mut Context::from_waker(&waker)).is_pending());
    let error = timeout(PATIENCE, open).await.unwrap().unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(Outcome::Unknown)), "{error}");
    assert!(error.to_string().contains("a task panicked"), "{error}");
    assert!(progress.next().await.is_none());
    while events.next().await.is_some() {}
    let error = session.call_tool("wait", &json!({})).await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Down(_)) && error.to_string().contains("panicked"), "{error}");
    timeout(PATIENCE, session.close()).await.unwrap();
    let why = session.closed().await.unwrap();
    assert!(why.failure.message.contains("a task panicked"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_nothing_drives_its_session_any_more() {
    let server = Server::default();
    let (asked, is_asked) = oneshot::channel();
    let (held, is_dropped) = oneshot::channel::<()>();
    let ends = Mutex::new(Some((asked, held)));
    let host = server.host().elicitation(move |_| {
        let (asked, held) = ends.lock().unwrap().take().unwrap();
        async move {
            asked.send(()).unwrap();
            let _held = held;
            pending::<Elicited>().await
        }
    });
    let session = Session::connect(Remote::new(URL).unwrap(), host).await.unwrap();
    let call = session.start_tool("ask", &json!({})).unwrap();
    timeout(PATIENCE, is_asked).await.unwrap().unwrap();
    let mut late =
        session.start_request(mcp_proto::Request::call_tool("wait", None).timeout(Duration::from_secs(6))).unwrap();
    let waker = Waker::from(Arc::new(Faulty));
    assert!(Pin::new(&mut late).poll(&mut Context::from_waker(&waker)).is_pending());
    timeout(PATIENCE, call).await.unwrap().unwrap_err();
    assert!(timeout(PATIENCE, is_dropped).await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_function_of_headers_that_does_not_return_fails_the_request_in_time() {
    let client = HttpClient::builder().connect_timeout(Duration::from_secs(7)).headers(|_| pending());
    let mut options = Options::new("test", "1.0");
    options.reconnect = None;
    let start = Instant::now();
    let connecting = Session::connect(Remote::new(URL).unwrap(), Host::new(options).http(client.build().unwrap()));
    let found = timeout(PATIENCE, connecting).await.unwrap().unwrap_err();
    assert!(start.elapsed() >= Duration::from_secs(7) && start.elapsed() < Duration::from_secs(8), "{found}");
    let why = "no headers for the request: the host's function did not return within 7s";
    assert!(found.failure.message.contains(why), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn headers_of_the_protocol_take_precedence_over_those_of_a_host_and_these_over_those_of_an_entry() {
    let other = HeaderValue::from_static("other");
    let all: HeaderMap = [ACCEPT, CONTENT_TYPE, VERSION, OWN].into_iter().map(|name| (name, other.clone())).collect();
    let check = |server: &Server| {
        let headers = server.headers("tools/list");
        let values = |name: HeaderName| headers.get_all(name).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(values(ACCEPT), ["application/json, text/event-stream"]);
        assert_eq!(values(CONTENT_TYPE), ["application/json"]);
        assert_eq!(values(VERSION), ["2025-11-25"]);
        assert_eq!(values(OWN), ["other"]);
        assert!(values(OWN)[0].is_sensitive(), "it may be a secret");
    };
    let server = Server::default();
    let remote = Remote::new(URL).unwrap().headers(all.clone());
    Session::connect(remote, server.host()).await.unwrap().close().await;
    check(&server);

    let server = Server::default();
    let headers = json!({"accept": "text/plain", "x-own": "the entry's"});
    let entry = json!({"mcpServers": {"remote": {"url": URL, "headers": headers}}});
    let Document(configuration) = serde_json::from_value(entry).unwrap();
    let mut options = Options::new("test", "1.0");
    options.eras = Eras::LegacyOnly;
    let host = Host::new(HubOptions::new(options)).http(server.clone()).headers(all);
    let hub = Hub::start(configuration, host).unwrap();
    hub.settled().await;
    hub.close().await;
    check(&server);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_its_session_closes() {
    for is_killed in [false, true] {
        let server = Server::default();
        let (asked, is_asked) = oneshot::channel();
        let (held, is_dropped) = oneshot::channel::<()>();
        let ends = Mutex::new(Some((asked, held)));
        let host = server.host().elicitation(move |_| {
            let (asked, held) = ends.lock().unwrap().take().unwrap();
            async move {
                asked.send(()).unwrap();
                let _held = held;
                pending::<Elicited>().await
            }
        });
        let session = Session::connect(Remote::new(URL).unwrap(), host).await.unwrap();
        let call = session.start_tool("ask", &json!({})).unwrap();
        timeout(PATIENCE, is_asked).await.unwrap().unwrap();
        if is_killed {
            session.close_within(Duration::ZERO).await;
        } else {
            session.close().await;
        }
        assert!(timeout(PATIENCE, is_dropped).await.unwrap().is_err(), "killed: {is_killed}");
        call.await.unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_of_a_call_ends_with_the_call_and_with_what_drives_it() {
    let server = Server::default();
    let session = server.connect().await;
    let call = session.start_tool("wait", &json!({})).unwrap();
    server.has_open(1).await;
    drop(call);
    server.has_open(0).await;
    let _open = session.start_tool("wait", &json!({})).unwrap();
    let mut late =
        session.start_request(mcp_proto::Request::call_tool("wait", None).timeout(Duration::from_secs(6))).unwrap();
    server.has_open(2).await;
    let waker = Waker::from(Arc::new(Faulty));
    assert!(Pin::new(&mut late).poll(&mut Context::from_waker(&waker)).is_pending());
    server.has_open(0).await;

    let server = Server::default();
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {"s": {"url": URL}}})).unwrap();
    let mut options = Options::new("test", "1.0");
    options.eras = Eras::LegacyOnly;
    let hub = Hub::start(configuration, Host::new(HubOptions::new(options)).http(server.clone())).unwrap();
    hub.settled().await;
    let call = hub.start_call("mcp_s_wait", &json!({})).unwrap();
    server.has_open(1).await;
    drop(call);
    server.has_open(0).await;
}

#[cfg(feature = "snapshot")]
#[tokio::test(start_paused = true)]
async fn a_restored_session_goes_on_at_the_time_of_its_snapshot() {
    use mcp_proto::{Secrets, Time};

    let server = Server::default();
    let session = server.connect().await;
    let age = late(&session, Duration::from_secs(100)).await;
    let snapshot = session.suspend(Secrets::Included).await;
    assert_eq!(snapshot.time().since(Time::ZERO), age);
    let session = Session::restore(Remote::new(URL).unwrap(), server.host(), &snapshot).unwrap();
    assert_eq!(session.now(), snapshot.time());
    let bound = Duration::from_secs(6);
    let took = late(&session, bound).await;
    assert!(is_about(took, bound), "{took:?}");
    assert!(is_about(session.now().since(snapshot.time()), bound));
}
