//! Sessions and hubs over HTTP: `drivers/tests/server.rs`.
#![cfg(feature = "http")]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcp_proto::binding::http::Broken;
use mcp_proto::host::config::Document;
use mcp_proto::host::hub::{HubEvent, HubOptions};
use mcp_proto::{Event, FailureCause, Options, Request, UrlError};
use mcp_proto_tokio::{
    CallErrorKind, Elicited, Endpoint, Host, HttpClient, HttpPiece, HttpTransport, Hub, Piece, Process, Program,
    Purpose, Remote, Reports, Session, TakePiece,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");

struct Server {
    #[cfg_attr(not(feature = "snapshot"), expect(dead_code, reason = "it ends when it is dropped"))]
    process: Process,
    output: mpsc::Receiver<Piece>,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let (sender, output) = mpsc::channel(16);
        let process = Process::start(&Program::new(SERVER).arg("http"), move |piece| {
            let sender = sender.clone();
            async move { drop(sender.send(piece).await) }
        });
        let mut server = Self { process: process.unwrap(), output, url: String::new() };
        server.url = format!("http://127.0.0.1:{}/mcp", server.line().await);
        server
    }

    /// A line of its output.
    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            match timeout(PATIENCE, self.output.recv()).await.unwrap() {
                Some(Piece::Output(bytes)) => line.extend(bytes),
                other => panic!("{other:?}"),
            }
        }
        String::from_utf8(line).unwrap().trim().to_owned()
    }

    fn remote(&self) -> Remote {
        Remote::new(&self.url).unwrap().header("x-key", "hush").unwrap()
    }
}

fn options() -> Options {
    let mut options = Options::new("test", "1.0");
    options.server = "docs".into();
    options
}

#[tokio::test]
async fn a_session_over_http_is_ended_at_the_server() {
    let mut server = Server::start().await;
    let session = Session::connect(server.remote(), options()).await.unwrap();
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    let call = session.start_tool("count", &json!({"to": 3, "pause": 0.15})).unwrap();
    let mut progress = call.progress();
    assert_eq!(call.await.unwrap().text(), "counted");
    assert!(progress.next().await.is_some());
    session.close().await;
    assert_eq!(server.line().await, "deleted one");
}

#[cfg(feature = "snapshot")]
#[tokio::test]
async fn a_suspended_session_over_http_goes_on_without_a_handshake() {
    use mcp_proto::{Outcome, Secrets, ShutdownStep, Snapshot};
    use mcp_proto_tokio::Status;

    let mut server = Server::start().await;
    let session = Session::connect(server.remote(), options()).await.unwrap();
    let waiting = session.start_tool("wait", &json!({})).unwrap();
    let saved = serde_json::to_string(&session.suspend(Secrets::Included).await).unwrap();
    assert_eq!(session.status(), Status::Closed(None));
    assert!(matches!(waiting.await.unwrap_err().kind, CallErrorKind::Ended(Outcome::Cancelled)));
    assert!(session.call_tool("echo", &json!({})).await.is_err());

    let snapshot: Snapshot = serde_json::from_str(&saved).unwrap();
    let session = Session::restore(server.remote(), options(), &snapshot).unwrap();
    assert_eq!(session.status(), Status::Ready);
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    session.close().await;
    server.process.shut_down(ShutdownStep::Kill);
    let mut lines = Vec::new();
    while let Some(Piece::Output(bytes)) = timeout(PATIENCE, server.output.recv()).await.unwrap() {
        lines.extend(bytes);
    }
    assert_eq!(String::from_utf8(lines).unwrap(), "deleted one\n");
}

#[cfg(feature = "journal")]
#[tokio::test]
async fn a_session_over_http_is_recorded() {
    use mcp_proto::journal::{JournalLimits, replay};

    let server = Server::start().await;
    let host = Host::new(options()).record(JournalLimits::default());
    let session = Session::connect(server.remote(), host).await.unwrap();
    session.call_tool("echo", &json!({"message": "hi"})).await.unwrap();
    session.close().await;
    let journal = session.finish_journal();
    assert!(journal.contains(r#""method":"tools/call""#) || journal.contains(r#"\"tools/call\""#), "{journal}");
    assert!(!journal.contains("hush"));
    replay(journal.as_bytes(), JournalLimits::default()).unwrap();
}

#[tokio::test]
async fn requests_of_the_server_are_answered_over_http() {
    let server = Server::start().await;
    let host = Host::new(options()).elicitation(|_| async { Elicited::Decline });
    let session = Session::connect(server.remote(), host).await.unwrap();
    assert_eq!(session.call_tool("ask", &json!({})).await.unwrap().text(), r#"{"action":"decline"}"#);
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_exchange() {
    let server = Server::start().await;
    let session = Session::connect(server.remote(), options()).await.unwrap();
    assert!(timeout(Duration::from_millis(200), session.call_tool("wait", &json!({}))).await.is_err());
    let cancelled = async { while session.call_tool("cancelled", &json!({})).await.unwrap().text() == "[]" {} };
    timeout(PATIENCE, cancelled).await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_or_cannot_be_reached_is_a_failure() {
    let server = Server::start().await;
    let remote = Remote::new(&server.url).unwrap();
    assert!(!format!("{:?}", server.remote()).contains("hush"));
    let error = timeout(PATIENCE, Session::connect(remote, options())).await.unwrap().unwrap_err();
    assert!(error.failure.message.contains("403"), "{error}");
    let mut options = options();
    options.reconnect = None;
    let error = Session::connect(Remote::new("http://127.0.0.1:1/mcp").unwrap(), options).await.unwrap_err();
    assert!(error.failure.message.to_lowercase().contains("connect"), "{error}");
}

/// The last piece of an exchange with this URL.
async fn end(url: &str) -> HttpPiece {
    let mut last = None;
    let request = http::Request::post(url).body(b"{}".to_vec()).unwrap();
    let client = HttpClient::new().unwrap();
    let run = client.run(request, |piece| {
        last = Some(piece);
        std::future::ready(())
    });
    timeout(PATIENCE, run).await.unwrap();
    last.unwrap()
}

#[tokio::test]
async fn an_exchange_without_a_connection_and_one_that_is_cut_differ() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let cut = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The request is on its way.
        stream.read_u8().await.unwrap();
    };
    let (ended, ()) = tokio::join!(end(&url), cut);
    assert!(matches!(ended, HttpPiece::Failure(Broken::Midway, _)), "{ended:?}");
    let ended = end("http://127.0.0.1:1/mcp").await;
    assert!(matches!(ended, HttpPiece::Failure(Broken::Unreachable, _)), "{ended:?}");
}

/// The pieces of a response that is cut after so many bytes, or complete, and whether it has a length or chunks.
async fn cut_after(client: &HttpClient, bytes: usize, is_chunked: bool) -> Vec<HttpPiece> {
    const LENGTH: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let request =
        http::Request::get(format!("http://{}/mcp", listener.local_addr().unwrap())).body(Vec::new()).unwrap();
    let response = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // So that the end is no reset: nothing is left unread.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let response = if is_chunked { CHUNKED } else { LENGTH }.as_bytes();
        let _ = stream.write_all(response.get(..bytes.min(response.len())).unwrap()).await;
    };
    let mut pieces = Vec::new();
    let exchange = client.run(request, |piece| {
        pieces.push(piece);
        std::future::ready(())
    });
    tokio::join!(exchange, response);
    pieces
}

#[tokio::test]
async fn a_response_that_is_cut_at_any_byte_is_not_complete() {
    let client = HttpClient::new().unwrap();
    for (is_chunked, length) in [(false, 42), (true, 61)] {
        for bytes in 0..=length {
            let pieces = cut_after(&client, bytes, is_chunked).await;
            let last = pieces.last().unwrap();
            let is_complete = matches!(last, HttpPiece::End);
            assert!(is_complete || matches!(last, HttpPiece::Failure(Broken::Midway, _)), "{bytes}: {pieces:?}");
            assert_eq!(is_complete, bytes == length, "{bytes} of {length}: {pieces:?}");
            let ends = pieces.iter().filter(|piece| matches!(piece, HttpPiece::End | HttpPiece::Failure(..)));
            assert_eq!(ends.count(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_never_complete_is_given_up_in_time() {
    // The system accepts the connection, and nobody answers the greeting of TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let start = Instant::now();
    let ended = end(&format!("https://{}/mcp", listener.local_addr().unwrap())).await;
    let HttpPiece::Failure(Broken::Unreachable, why) = ended else { panic!("{ended:?}") };
    assert!(why.contains("no connection after 4.0s"), "{why}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// Sends calls of tools without the key.
struct Keyless(HttpClient);

impl HttpTransport for Keyless {
    fn run<'a>(
        &'a self,
        mut request: http::Request<Vec<u8>>,
        purpose: Purpose,
        take: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        if String::from_utf8_lossy(request.body()).contains("tools/call") {
            request.headers_mut().remove("x-key");
        }
        HttpTransport::run(&self.0, request, purpose, take)
    }
}

/// Answers nobody a number of times, and counts the exchanges.
struct Absent(HttpClient, Arc<AtomicU32>, u32);

impl HttpTransport for Absent {
    fn run<'a>(
        &'a self,
        request: http::Request<Vec<u8>>,
        purpose: Purpose,
        mut take: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        if self.1.fetch_add(1, Ordering::Relaxed) >= self.2 {
            return HttpTransport::run(&self.0, request, purpose, take);
        }
        take(HttpPiece::Failure(Broken::Unreachable, "nobody listens".into()));
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn letters_outside_ascii_in_a_url_are_percent_encoded_in_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/m\u{fc}ll/mcp?k=\u{e4}", listener.local_addr().unwrap());
    let connecting = tokio::spawn(async move { Session::connect(Remote::new(&url).unwrap(), options()).await.is_ok() });
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
    }
    assert_eq!(String::from_utf8_lossy(&line), "POST /m%C3%BCll/mcp?k=%C3%A4 HTTP/1.1\r\n");
    connecting.abort();
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_at_once_unless_the_host_is_patient() {
    let server = Server::start().await;
    for is_patient in [false, true] {
        let (count, mut options) = (Arc::new(AtomicU32::new(0)), options());
        options.reconnect.as_mut().unwrap().initial_backoff = Duration::from_millis(1);
        let mut host = Host::new(options).http(Absent(HttpClient::new().unwrap(), Arc::clone(&count), 4));
        if is_patient {
            host = host.patient();
        }
        let connected = timeout(PATIENCE, Session::connect(server.remote(), host)).await.unwrap();
        match connected {
            Ok(session) => session.close().await,
            Err(error) => assert!(!is_patient && error.failure.message.contains("nobody listens"), "{error}"),
        }
        assert_eq!(count.load(Ordering::Relaxed) > 4, is_patient);
    }
}

/// The cause of a failure to connect, and how many attempts were made.
async fn failure(endpoint: impl Into<Endpoint>, options: Options) -> (FailureCause, usize) {
    let mut host = Host::new(options);
    let mut events = host.events();
    let found = timeout(PATIENCE, Session::connect(endpoint, host)).await.unwrap().unwrap_err();
    let mut failed = Vec::new();
    while let Some(event) = events.next().await {
        failed.extend(matches!(event, Event::Down { .. }).then_some(event));
    }
    (found.cause, failed.len())
}

/// The URL of a server whose certificate is of an authority that no system knows.
fn unknown_issuer() -> String {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection};

    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/certificates/good.pem");
    let chain = CertificateDer::pem_file_iter(file).unwrap().map(Result::unwrap).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_file(file).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client ends it.
            while connection.complete_io(&mut stream.as_ref().unwrap()).is_ok_and(|(read, _)| read > 0) {}
        }
    });
    url
}

#[tokio::test]
async fn what_cannot_work_fails_at_the_first_attempt() {
    let url = unknown_issuer();
    let remote = |url: &str| Endpoint::from(Remote::new(url).unwrap());
    for (endpoint, cause) in [
        (remote(&url), FailureCause::CertificateIssuer),
        (remote("http://nosuch.invalid/mcp"), FailureCause::HostUnknown),
        (remote("http://127.0.0.1:1/mcp"), FailureCause::NobodyListens),
        (Program::new("/nonexistent/server").into(), FailureCause::CommandNotFound),
    ] {
        assert_eq!(failure(endpoint, options()).await, (cause, 1));
    }
    // It is no address at all.
    assert_eq!(Remote::new("ftp://127.0.0.1/mcp").unwrap_err(), UrlError::Scheme);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_fails_once_at_the_connect_timeout() {
    // The system accepts its connections.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = Remote::new(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
    let mut options = options();
    options.timeouts.connect = Some(Duration::from_secs(7));
    for (endpoint, cause) in [
        (Program::new(SERVER).arg("sleep").into(), FailureCause::Silent),
        (Endpoint::from(remote), FailureCause::NoAnswer),
    ] {
        let start = Instant::now();
        let host = Host::new(options.clone());
        let found = Session::connect(endpoint.clone(), host).await.unwrap_err();
        assert_eq!((found.cause, start.elapsed().as_secs()), (cause, 7));
        assert_eq!(failure(endpoint, options.clone()).await, (cause, 1));
    }
}

/// A server that listens only when it is told to: the port is taken, and refuses connections.
fn late() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    (socket, url)
}

/// Listens, and passes all on to the server at a URL.
fn listen(socket: TcpSocket, url: &str) {
    let (listener, to) = (socket.listen(16).unwrap(), url.split('/').nth(2).unwrap().to_owned());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
}

/// Waits for some attempts that fail.
async fn attempts<E>(events: &mut Reports<E>, is_down: impl Fn(&E) -> bool) {
    for _ in 0..5 {
        let down = async { while !is_down(&events.next().await.unwrap()) {} };
        timeout(PATIENCE, down).await.unwrap();
    }
}

#[tokio::test]
async fn who_is_patient_waits_for_a_server_that_is_not_there_yet() {
    let (server, (socket, url)) = (Server::start().await, late());
    let mut options = options();
    options.reconnect.as_mut().unwrap().initial_backoff = Duration::from_millis(1);
    let mut host = Host::new(options).patient();
    let mut events = host.events();
    let remote = Remote::new(&url).unwrap().header("x-key", "hush").unwrap();
    let connecting = tokio::spawn(Session::connect(remote, host));
    attempts(&mut events, |event| matches!(event, Event::Down { .. })).await;
    listen(socket, &server.url);
    timeout(PATIENCE, connecting).await.unwrap().unwrap().unwrap().close().await;
}

#[tokio::test]
async fn a_hub_waits_for_a_server_that_is_not_there_yet() {
    let (server, (socket, url)) = (Server::start().await, late());
    let entry = json!({"mcpServers": {"late": {"url": url, "headers": {"x-key": "hush"}}}});
    let Document(configuration) = serde_json::from_value(entry).unwrap();
    let mut options = options();
    options.reconnect.as_mut().unwrap().initial_backoff = Duration::from_millis(1);
    let mut host = Host::new(HubOptions::new(options));
    let mut events = host.events();
    let hub = Hub::start(configuration, host).unwrap();
    attempts(&mut events, |event| matches!(event, HubEvent::Session { event: Event::Down { .. }, .. })).await;
    listen(socket, &server.url);
    let is_up = |event: HubEvent| matches!(event, HubEvent::Session { event: Event::Ready, .. });
    let up = async { while !is_up(events.next().await.unwrap()) {} };
    timeout(PATIENCE, up).await.unwrap();
    hub.close().await;
}

#[tokio::test]
async fn a_call_that_is_refused_for_lack_of_a_token_ends_and_is_among_the_events() {
    let server = Server::start().await;
    let mut host = Host::new(options()).http(Keyless(HttpClient::new().unwrap()));
    let mut events = host.events();
    let session = Session::connect(server.remote(), host).await.unwrap();
    let error = timeout(PATIENCE, session.call_tool("echo", &json!({}))).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
    session.close().await;
    let mut refused = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Unauthorized { request, forbidden, .. } = event {
            refused.push((request.is_some(), forbidden));
        }
    }
    assert_eq!(refused, [(true, true)]);
}

#[tokio::test]
async fn a_hub_has_servers_over_stdio_and_http() {
    let mut server = Server::start().await;
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {
        "local": {"command": SERVER},
        "remote": {"url": server.url, "headers": {"x-key": "hush"}},
        "broken": {"command": "/nonexistent/server"},
    }}))
    .unwrap();
    let host = Host::new(HubOptions::new(Options::new("test", "1.0")))
        .elicitation(|ask| async move { Elicited::Accept(json!({"server": &*ask.server})) });
    let hub = Hub::start(configuration, host).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    assert_eq!(hub.inspect(|hub| hub.functions().filter(|(_, function)| function.name.ends_with("_echo")).count()), 2);
    for server in ["local", "remote"] {
        let name = |tool| format!("mcp_{server}_{tool}");
        let reply = hub.call(&name("echo"), &json!({"message": "hi"})).await.unwrap();
        assert_eq!(reply.text(), "hi");
        assert!(hub.call(&name("ask"), &json!({})).await.unwrap().text().contains(server));
        let read = hub.request(server, Request::read_resource("test:a")).await.unwrap();
        assert!(read.raw().get().contains("the content"));
    }
    let call = hub.start_call("mcp_local_count", &json!({"to": 3, "pause": 0.15})).unwrap();
    let mut progress = call.progress();
    assert_eq!(call.await.unwrap().text(), "counted");
    assert!(progress.next().await.is_some());
    assert!(timeout(Duration::from_millis(50), hub.call("mcp_local_wait", &json!({}))).await.is_err());
    assert_ne!(hub.call("mcp_local_cancelled", &json!({})).await.unwrap().text(), "[]");
    for server in ["broken", "none"] {
        let read = Request::read_resource("test:a").timeout(Duration::from_millis(50));
        let error = hub.request(server, read).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("`resources/read` at {server}: ")), "{error}");
    }
    let error = hub.call("mcp_none_echo", &json!({})).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Hub(_)), "{error}");
    // A server that is down is told in the same words.
    let error = hub.call("mcp_broken_echo", &json!({})).await.unwrap_err();
    let [(_, down)] = &*hub.failures() else { panic!("{error}") };
    assert!(matches!(&error.kind, CallErrorKind::Down(why) if why == down), "{error}");
    let text = format!("`call mcp_broken_echo` at broken: not connected, and nothing was sent: {down}");
    assert_eq!(error.to_string(), text);
    hub.close().await;
    assert_eq!(server.line().await, "deleted one");
}
