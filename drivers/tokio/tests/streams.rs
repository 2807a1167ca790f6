//! Sessions over streams of a host's own, with paused time.
#![cfg(feature = "testkit")]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_proto::host::hub::HubOptions;
use mcp_proto::testkit::{FakeServer, FakeTool, Fault, Link, On, Reply, Sim};
use mcp_proto::{Event, Options, Reconnect};
use mcp_proto_tokio::testkit::Servers;
use mcp_proto_tokio::{CallErrorKind, Channels, Host, Hub, Input, Passing, Program, Session, Status, Streams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, duplex};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);

fn options() -> Options {
    let mut options = Options::new("test", "1.0");
    (options.server, options.keepalive) = ("docs".into(), None);
    options
}

/// Serves a stream until the client shuts its half down, and returns the stream.
async fn serve(stream: DuplexStream) -> DuplexStream {
    let mut server = FakeServer::modern().tool(FakeTool::new("echo"));
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return stream.into_inner();
        }
        let message: Value = serde_json::from_str(&line).unwrap();
        for answer in server.answer(&message) {
            let line = format!("{answer}\n");
            if stream.write_all(line.as_bytes()).await.is_err() {
                return stream.into_inner();
            }
        }
    }
}

/// A stream that counts how many there are. It can be written so many bytes, and read so many times; after that it fails, or panics.
struct Counted {
    stream: DuplexStream,
    count: Arc<AtomicUsize>,
    writable: usize,
    readable: usize,
    panics: bool,
}

impl Counted {
    fn new(stream: DuplexStream, count: &Arc<AtomicUsize>, writable: usize) -> Self {
        assert_eq!(count.fetch_add(1, Ordering::Relaxed), 0, "another stream is open");
        Self { stream, count: Arc::clone(count), writable, readable: usize::MAX, panics: false }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.readable = self.readable.checked_sub(1).unwrap();
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(left) = self.writable.checked_sub(bytes.len()) else {
            assert!(!self.panics, "it is written");
            return Poll::Ready(Err(io::Error::other("nobody takes this")));
        };
        self.writable = left;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_written_ends_with_that_reason_and_the_next_one_is_opened_after_it() {
    let count = Arc::new(AtomicUsize::new(0));
    let opened = Arc::new(AtomicUsize::new(0));
    let (counted, opens) = (Arc::clone(&count), Arc::clone(&opened));
    let streams = Streams::new(move || {
        let (own, other) = duplex(1 << 16);
        tokio::spawn(serve(other));
        // The first ones break in the middle of a session.
        let is_good = opens.fetch_add(1, Ordering::Relaxed) > 2;
        ready(Ok(Counted::new(own, &counted, if is_good { usize::MAX } else { 1_500 })))
    });
    let mut options = options();
    options.reconnect = Some(Reconnect::default());
    let mut host = Host::new(options);
    let mut events = host.events();
    let session = Session::start(streams, host).unwrap();
    timeout(PATIENCE, async {
        while opened.load(Ordering::Relaxed) < 4 {
            // Those that fail are not repeated by themselves.
            let _ = session.call_tool("echo", &json!({})).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(timeout(PATIENCE, session.call_tool("echo", &json!({}))).await.unwrap().unwrap().text(), "echo");
    session.close().await;
    let mut reasons = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Down { failure, .. } = event {
            reasons.push(failure.to_string());
        }
    }
    assert!(reasons.len() == 3 && reasons.iter().all(|why| why.contains("nobody takes this")), "{reasons:?}");
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn the_writing_half_is_shut_down_at_the_close_and_the_rest_is_read() {
    let (said, is_said) = oneshot::channel();
    let said = std::sync::Mutex::new(Some(said));
    let streams = Streams::new(move || {
        let (own, other) = duplex(1 << 16);
        let said = said.lock().unwrap().take().unwrap();
        tokio::spawn(async move {
            let mut stream = serve(other).await;
            sleep(Duration::from_millis(300)).await;
            said.send(stream.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/last\"}\n").await).unwrap();
        });
        ready(Ok(own))
    });
    let session = Session::connect(streams, options()).await.unwrap();
    let start = Instant::now();
    timeout(PATIENCE, session.close()).await.unwrap();
    let took = start.elapsed();
    is_said.await.unwrap().unwrap();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(1), "{took:?}");
    assert_eq!(session.status(), Status::Closed(None));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_server_keeps_open_is_dropped_after_some_time() {
    let (ended, is_ended) = oneshot::channel();
    let ended = std::sync::Mutex::new(Some(ended));
    let streams = Streams::new(move || {
        let (own, other) = duplex(1 << 16);
        let ended = ended.lock().unwrap().take().unwrap();
        tokio::spawn(async move {
            let mut stream = serve(other).await;
            while stream.write_all(b"\n").await.is_ok() {
                sleep(Duration::from_millis(100)).await;
            }
            ended.send(()).unwrap();
        });
        ready(Ok(own))
    });
    let session = Session::connect(streams, options()).await.unwrap();
    let start = Instant::now();
    timeout(PATIENCE, session.close()).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    timeout(PATIENCE, is_ended).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_stream_is_killed_is_closed_and_says_so() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let streams = Streams::new(move || {
        let (own, other) = duplex(1 << 16);
        tokio::spawn(async move {
            let _stream = serve(other).await;
            pending::<()>().await;
        });
        ready(Ok(Counted::new(own, &counted, usize::MAX)))
    });
    let mut host = Host::new(options());
    let mut events = host.events();
    let session = Session::connect(streams, host).await.unwrap();
    let start = Instant::now();
    session.close_within(Duration::from_millis(200)).await;
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
    assert_eq!(count.load(Ordering::Relaxed), 0, "a closed session has a stream");
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Closed { .. })), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_opened_is_a_failure_with_its_reason() {
    let refused = Streams::new(|| ready(Err::<DuplexStream, _>(io::Error::other("nobody is there"))));
    let error = Session::connect(refused, options()).await.unwrap_err();
    assert!(error.to_string().contains("nobody is there"), "{error}");
    let panics = Streams::new(|| -> std::future::Ready<io::Result<DuplexStream>> { panic!("on purpose") });
    let error = Session::connect(panics, options()).await.unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    let panics = Streams::new(|| async { if true { panic!("on purpose") } else { Ok(duplex(1).0) } });
    let error = Session::connect(panics, options()).await.unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_being_opened_is_dropped_at_the_close() {
    for is_killed in [false, true] {
        let (held, is_dropped) = oneshot::channel::<()>();
        let held = std::sync::Mutex::new(Some(held));
        let streams = Streams::new(move || {
            let held = held.lock().unwrap().take();
            async move {
                let _held = held;
                pending::<io::Result<DuplexStream>>().await
            }
        });
        let session = Session::start(streams, options()).unwrap();
        sleep(Duration::from_millis(10)).await;
        let start = Instant::now();
        if is_killed {
            session.close_within(Duration::ZERO).await;
        } else {
            timeout(PATIENCE, session.close()).await.unwrap();
        }
        assert!(start.elapsed() < Duration::from_millis(100), "killed: {is_killed}: {:?}", start.elapsed());
        assert!(timeout(PATIENCE, is_dropped).await.unwrap().is_err());
    }
}

/// A server over channels, whose messages have line breaks.
fn channels() -> Channels {
    Channels::new(|| {
        // A message waits until the server takes it.
        let ((to, mut requests), (answers, from)) = (mpsc::channel::<Vec<u8>>(1), mpsc::channel(1));
        tokio::spawn(async move {
            let dies = FakeTool::new("dies");
            let mut server = FakeServer::legacy().tool(FakeTool::new("echo")).tool(dies);
            while let Some(message) = requests.recv().await {
                assert!(!message.contains(&b'\n'));
                let message: Value = serde_json::from_slice(&message).unwrap();
                if message.pointer("/params/name") == Some(&"dies".into()) {
                    return;
                }
                for answer in server.answer(&message) {
                    // It has line breaks.
                    answers.send(serde_json::to_vec_pretty(&answer).unwrap()).await.unwrap();
                }
            }
        });
        ready(Ok((to, from)))
    })
}

#[tokio::test(start_paused = true)]
async fn channels_carry_whole_messages_and_are_opened_again() {
    for is_tapped in [false, true] {
        let mut options = options();
        options.reconnect = Some(Reconnect::default());
        let messages = Arc::new(AtomicUsize::new(0));
        let (taken, mut host) = (Arc::clone(&messages), Host::new(options));
        if is_tapped {
            host = host.tap(move |passed| {
                if let Passing::Input(Input::Bytes(_, message)) = passed.what {
                    serde_json::from_slice::<Value>(message).unwrap();
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let session = Session::connect(channels(), host).await.unwrap();
        let calls = (0..20).map(|_| session.start_tool("echo", &json!({})).unwrap()).collect::<Vec<_>>();
        for call in calls {
            assert_eq!(call.await.unwrap().text(), "echo");
        }
        let error = session.call_tool("dies", &json!({})).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Ended(mcp_proto::Outcome::Unknown)), "{error}");
        assert_eq!(timeout(PATIENCE, session.call_tool("echo", &json!({}))).await.unwrap().unwrap().text(), "echo");
        timeout(PATIENCE, session.close()).await.unwrap();
        assert_eq!(messages.load(Ordering::Relaxed) > 20, is_tapped);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_a_hub_is_over_channels_or_a_program_of_the_hosts() {
    for is_tapped in [false, true] {
        let mut host = Host::new(HubOptions::new(options())).endpoints(|server| match server {
            "channels" => Some(channels().into()),
            "missing" => Some(Program::new("/nonexistent/of-the-host").into()),
            "panics" => panic!("a test"),
            _ => None,
        });
        if is_tapped {
            host = host.tap(|_| {});
        }
        let entry = json!({"command": "/nonexistent/of-the-entry"});
        let names = ["channels", "missing", "panics", "other"];
        let entries: Value = names.iter().map(|name| ((*name).to_owned(), entry.clone())).collect();
        let hub = Hub::start(serde_json::from_value(entries).unwrap(), host).unwrap();
        timeout(PATIENCE, hub.settled()).await.unwrap();
        assert_eq!(hub.call("mcp_channels_echo", &json!({})).await.unwrap().text(), "echo");
        let failures: BTreeMap<_, _> = hub.failures().into_iter().collect();
        let message = |name: &str| failures[name].failure.message.to_string();
        assert!(message("missing").contains("of-the-host"), "{failures:?}");
        assert!(message("panics").contains("says where a server is, panicked"), "{failures:?}");
        assert!(message("other").contains("of-the-entry"), "{failures:?}");
        timeout(PATIENCE, hub.close()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn servers_in_memory_have_the_faults_of_the_test_kit() {
    let tool = || FakeTool::new("pay").takes(Duration::from_secs(5));
    let bank = FakeServer::legacy().tool(tool()).script(On::tool("pay"), [Reply::Late(Duration::from_secs(7))]);
    let sim = Sim::new(1).with_server("bank", bank, Link::new(Duration::from_millis(20))).with_server(
        "shop",
        FakeServer::modern().tool(tool()),
        Link::default(),
    );
    let servers = Servers::start(sim);
    let connect = async |name: &str| {
        let mut options = options();
        options.reconnect = Some(Reconnect::default());
        Session::connect(servers.streams(name), Host::new(options).seed(1)).await.unwrap()
    };
    let (bank, shop) = (connect("bank").await, connect("shop").await);
    let start = Instant::now();
    bank.call_tool("pay", &json!({})).await.unwrap();
    assert!(start.elapsed() > Duration::from_secs(7), "{:?}", start.elapsed());
    let (lost, kept) = (bank.start_tool("pay", &json!({})).unwrap(), shop.start_tool("pay", &json!({})).unwrap());
    sleep(Duration::from_secs(1)).await;
    servers.with(|sim| sim.fault("bank", Fault::Unreachable(Duration::from_secs(2))));
    let error = lost.await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Ended(mcp_proto::Outcome::Unknown)), "{error}");
    kept.await.unwrap();
    timeout(PATIENCE, bank.ready()).await.unwrap().unwrap();
    bank.call_tool("pay", &json!({})).await.unwrap();
    let runs = servers.with(|sim| ["bank", "shop"].map(|name| sim.server(name).unwrap().tool_runs("pay")));
    assert_eq!(runs, [3, 1]);
    let error = Session::connect(servers.streams("nobody"), options()).await.unwrap_err();
    assert!(error.to_string().contains("nobody listens"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_panics_ends_its_connection_at_once_with_that_reason() {
    for (writable, readable) in [(1, usize::MAX), (usize::MAX, 1)] {
        let mut options = options();
        options.reconnect = None;
        let count = Arc::new(AtomicUsize::new(0));
        let streams = Streams::new(move || {
            let (ours, theirs) = duplex(1 << 16);
            tokio::spawn(serve(theirs));
            let mut stream = Counted::new(ours, &count, writable);
            (stream.readable, stream.panics) = (readable, true);
            ready(Ok(stream))
        });
        let start = Instant::now();
        let failed = Session::connect(streams, options).await.unwrap_err();
        assert!(failed.to_string().contains("a stream of the host's panicked"), "{writable}: {failed}");
        assert!(start.elapsed() < Duration::from_secs(5), "{writable}: {:?}", start.elapsed());
    }
}
