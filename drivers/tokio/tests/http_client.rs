//! The HTTP client as companies need it: roots, client certificates, proxies, Unix sockets and headers for each request. The
//! server is `drivers/tests/server.rs`, behind a front that stands for a load balancer or a proxy.
#![cfg(all(unix, feature = "http"))]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use mcp_proto::{FailureCause, Options};
use mcp_proto_tokio::{Host, HttpClient, HttpClientBuilder, Piece, Process, Program, Remote, Roots, Session};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");

fn certificate(name: &str) -> PathBuf {
    format!("{}/../../tests/e2e/certificates/{name}.pem", env!("CARGO_MANIFEST_DIR")).into()
}

/// A server over HTTP, and its port.
async fn server() -> (Process, u16) {
    let (sender, mut output) = mpsc::unbounded_channel();
    let process = Process::start(&Program::new(SERVER).arg("http"), move |piece| {
        let _ = sender.send(piece);
        std::future::ready(())
    });
    let Some(Piece::Output(line)) = timeout(PATIENCE, output.recv()).await.unwrap() else { panic!("no port") };
    (process.unwrap(), String::from_utf8(line).unwrap().trim().parse().unwrap())
}

/// Passes bytes between a client and the server.
async fn bridge(mut client: impl AsyncRead + AsyncWrite + Unpin, port: u16) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// TLS with one of the certificates, which demands the client's if `is_mutual`.
fn tls(name: &str, is_mutual: bool) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let mut roots = RootCertStore::empty();
    let of_client = CertificateDer::pem_file_iter(certificate("client")).unwrap();
    roots.add(of_client.last().unwrap().unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let builder = builder.unwrap();
    let builder = if is_mutual { builder.with_client_cert_verifier(verifier) } else { builder.with_no_client_auth() };
    let chain = CertificateDer::pem_file_iter(certificate(name)).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certificate(name)).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

/// A front with TLS; returns its port.
async fn front(tls: TlsAcceptor, port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                if let Ok(client) = tls.accept(client).await {
                    bridge(client, port).await;
                }
            });
        }
    });
    own
}

/// A proxy that sends all to one port, and keeps the heads that it got. With an answer it refuses.
async fn proxy(port: u16, refusal: Option<&'static str>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://ada:pass@{}", listener.local_addr().unwrap());
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match client.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => return,
                    }
                }
                let text = String::from_utf8(head.clone()).unwrap();
                kept.lock().unwrap().push(text.clone());
                if let Some(refusal) = refusal {
                    client.write_all(refusal.as_bytes()).await.unwrap();
                } else if text.starts_with("CONNECT ") {
                    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    bridge(client, port).await;
                } else {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    server.write_all(&head).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    (url, heads)
}

fn options() -> Options {
    let mut options = Options::new("test", "1.0");
    options.server = "s".into();
    options
}

fn remote(url: &str) -> Remote {
    Remote::new(url).unwrap().header("x-key", "hush").unwrap()
}

/// Connects, calls a tool and closes; else why not.
async fn converse(remote: Remote, client: HttpClientBuilder) -> Result<(), (FailureCause, String)> {
    let host = Host::new(options()).http(client.build().unwrap());
    let connecting = timeout(PATIENCE, Session::connect(remote, host)).await.unwrap();
    let session = connecting.map_err(|found| (found.cause, found.to_string()))?;
    assert_eq!(session.call_tool("echo", &json!({"message": "hi"})).await.unwrap().text(), "hi");
    session.close().await;
    Ok(())
}

/// Roots of the tests' authority.
fn builder() -> HttpClientBuilder {
    HttpClient::builder().roots(Roots::File(certificate("ca")))
}

#[tokio::test]
async fn a_server_with_a_certificate_of_the_given_roots_connects() {
    let (_server, port) = server().await;
    let url = format!("https://127.0.0.1:{}/mcp", front(tls("good", false), port).await);
    converse(remote(&url), builder()).await.unwrap();
    let (cause, _) = converse(remote(&url), HttpClient::builder()).await.unwrap_err();
    assert_eq!(cause, FailureCause::CertificateIssuer);
}

#[tokio::test]
async fn a_server_that_demands_a_certificate_gets_the_clients() {
    let (_server, port) = server().await;
    let url = format!("https://127.0.0.1:{}/mcp", front(tls("good", true), port).await);
    converse(remote(&url), builder().client_certificate(certificate("client"), certificate("client"))).await.unwrap();
    let (cause, words) = converse(remote(&url), builder()).await.unwrap_err();
    assert_eq!(cause, FailureCause::ClientCertificateRequired, "{words}");
}

#[tokio::test]
async fn a_proxy_tunnels_to_a_server_with_tls_and_gets_no_header_of_it() {
    let (_server, port) = server().await;
    let (url, heads) = proxy(front(tls("other", false), port).await, None).await;
    converse(remote("https://other.example/mcp"), builder().proxy(&url)).await.unwrap();
    let heads = heads.lock().unwrap();
    assert!(!heads.is_empty());
    for head in &*heads {
        assert!(head.starts_with("CONNECT other.example:443 HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("proxy-authorization: basic ywrhonbhc3m="), "{head}");
        assert!(!head.contains("hush"), "{head}");
    }
}

#[tokio::test]
async fn a_proxy_gets_the_requests_of_a_server_without_tls_and_none_to_this_machine() {
    let (_server, port) = server().await;
    let (url, heads) = proxy(port, None).await;
    let own = |_| async { Ok([("x-own".parse().unwrap(), HeaderValue::from_static("own"))].into_iter().collect()) };
    let client = HttpClient::builder().proxy(&url).headers(own);
    converse(remote("http://other.example/mcp"), client).await.unwrap();
    for head in &*heads.lock().unwrap() {
        assert!(head.contains(" http://other.example/mcp HTTP/1.1\r\n") && head.contains("x-own: own\r\n"), "{head}");
    }
    heads.lock().unwrap().clear();
    converse(remote(&format!("http://127.0.0.1:{port}/mcp")), HttpClient::builder().proxy(&url)).await.unwrap();
    assert_eq!(*heads.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_the_cause() {
    for refusal in
        ["HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"]
    {
        let (url, heads) = proxy(1, Some(refusal)).await;
        let (cause, words) = converse(remote("https://other.example/mcp"), builder().proxy(&url)).await.unwrap_err();
        assert_eq!(cause, FailureCause::ProxyRefused, "{words}");
        assert!(!words.contains("pass"), "{words}");
        assert_eq!(heads.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn headers_are_asked_for_at_each_request_and_an_error_sends_none() {
    let (_server, port) = server().await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let client = HttpClient::builder().headers(move |to| {
        assert_eq!(to.path(), "/mcp");
        count.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::task::yield_now().await;
            // A header of the request itself takes precedence.
            let headers = [("x-key", "hush"), ("content-type", "text/plain")];
            Ok(headers
                .into_iter()
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
                .collect())
        }
    });
    converse(Remote::new(&url).unwrap(), client).await.unwrap();
    assert!(asked.load(Ordering::Relaxed) >= 4, "{asked:?}");

    let failing =
        HttpClient::builder().headers(|_| async { Err::<HeaderMap, _>(io::Error::other("the vault is locked")) });
    let (_, words) = converse(Remote::new(&url).unwrap(), failing).await.unwrap_err();
    assert!(words.contains("the vault is locked"), "{words}");
}

#[tokio::test]
async fn a_server_behind_a_unix_socket_connects() {
    let (_server, port) = server().await;
    let folder = std::env::temp_dir().join(format!("mcp-proto-tokio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(bridge(client, port));
        }
    });
    let client = || HttpClient::builder().unix_socket(&path);
    converse(remote("http://localhost/mcp"), client()).await.unwrap();
    // The credential of a proxy is for no server.
    let count = Arc::new(AtomicU32::new(0));
    let behind = folder.join("behind.sock");
    let listener = UnixListener::bind(&behind).unwrap();
    let seen = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    let count = client.read(&mut bytes).await.unwrap();
                    head.extend_from_slice(&bytes[..count]);
                }
                let has = String::from_utf8_lossy(&head).to_lowercase().contains("proxy-authorization");
                seen.fetch_add(if has { 1000 } else { 1 }, Ordering::Relaxed);
                let _ =
                    client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            });
        }
    });
    let proxied = HttpClient::builder().unix_socket(&behind).proxy("http://ada:pass@127.0.0.1:1");
    converse(remote("http://mcp.internal/mcp"), proxied).await.unwrap_err();
    assert!((1..1000).contains(&count.load(Ordering::Relaxed)), "{count:?}");
    std::fs::remove_dir_all(&folder).unwrap();
    let (_, words) = converse(remote("http://localhost/mcp"), client()).await.unwrap_err();
    assert!(words.contains("server.sock"), "{words}");
}

/// The status of a response to a request for an authorization that may reach these addresses, or why there is none.
#[cfg(feature = "oauth")]
async fn status(client: &HttpClient, url: &str, reach: mcp_proto::binding::oauth::Reach) -> Result<u16, String> {
    use mcp_proto_tokio::{HttpPiece, HttpTransport, Purpose};

    let mut status = Err("nothing came".to_owned());
    let take = |piece| match piece {
        HttpPiece::Head(code, _) => status = Ok(code.as_u16()),
        HttpPiece::Failure(_, why) => status = Err(why.to_string()),
        HttpPiece::Body(_) | HttpPiece::End => {}
    };
    let request = http::Request::get(url).body(Vec::new()).unwrap();
    timeout(PATIENCE, HttpTransport::run(client, request, Purpose::Authorization(reach), Box::new(take)))
        .await
        .unwrap();
    status
}

/// A server that answers each connection with this status.
#[cfg(feature = "oauth")]
async fn answers(mut client: impl AsyncRead + AsyncWrite + Unpin, status: u16) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _ = client.write_all(answer.as_bytes()).await;
}

#[cfg(feature = "oauth")]
#[tokio::test]
async fn an_authorization_reaches_what_it_may_and_the_socket_only_for_the_servers_own_origin() {
    use mcp_proto::binding::oauth::Reach;

    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = tcp.accept().await {
            tokio::spawn(answers(client, 201));
        }
    });
    let folder = std::env::temp_dir().join(format!("mcp-reach-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("server.sock");
    let socket = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = socket.accept().await {
            tokio::spawn(answers(client, 202));
        }
    });
    let plain = HttpClient::builder().build().unwrap();
    let local = HttpClient::builder().unix_socket(&path).build().unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{port}/");
        for reach in [Reach::Server, Reach::Any] {
            assert_eq!(status(&plain, &url, reach).await, Ok(201), "{host} {reach:?}");
        }
        assert_eq!(status(&local, &url, Reach::Server).await, Ok(202), "{host}");
        assert_eq!(status(&local, &url, Reach::Any).await, Ok(201), "{host}");
    }
    // That an address in a URL may not be reached is known before it is requested.
    for client in [&plain, &local] {
        let why = status(client, &format!("http://localhost:{port}/"), Reach::Public).await.unwrap_err();
        assert!(why.contains("none of its addresses may be reached"), "{why}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_says_nothing_is_given_up_after_the_time_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let bound = Duration::from_secs(100);
    let client = HttpClient::builder().connect_timeout(bound).build().unwrap();
    let mut took = None;
    let start = tokio::time::Instant::now();
    let take = |piece| {
        if let mcp_proto_tokio::HttpPiece::Failure(..) = piece {
            took = Some(start.elapsed());
        }
    };
    let request = http::Request::get(url).body(Vec::new()).unwrap();
    mcp_proto_tokio::HttpTransport::run(&client, request, mcp_proto_tokio::Purpose::Server, Box::new(take)).await;
    assert!(took.unwrap() >= bound && took.unwrap() < 2 * bound, "{took:?}");
}

#[test]
fn a_file_without_a_certificate_and_a_proxy_without_a_url_are_errors_that_name_them() {
    let failed = |builder: HttpClientBuilder| builder.build().unwrap_err().to_string();
    assert!(failed(HttpClient::builder().roots(Roots::File("/nonexistent.pem".into()))).contains("/nonexistent.pem"));
    let none =
        failed(HttpClient::builder().roots(Roots::File(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md").into())));
    assert!(none.contains("README.md: it has no certificate in PEM format"), "{none}");
    let keyless = failed(HttpClient::builder().client_certificate(certificate("ca"), certificate("ca")));
    assert!(keyless.contains("ca.pem"), "{keyless}");
    for url in ["socks5://proxy:1080", "proxy.example", ""] {
        assert!(failed(HttpClient::builder().proxy(url)).contains("no `http` URL"), "{url}");
    }
    let shown = format!("{:?}", HttpClient::builder().proxy("http://ada:hush@proxy"));
    assert!(!shown.contains("hush"), "{shown}");
}

/// Answers each request over one connection; a call with 5,000 reports of progress at once, before its result.
async fn answer(mut client: TcpStream) -> io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        client.read_exact(&mut body).await?;
        let message: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}),
            _ => json!({"content": [{"type": "text", "text": "done"}]}),
        };
        let event = |message: serde_json::Value| format!("data: {message}\n\n");
        let mut text = String::new();
        if message["method"] == "tools/call" {
            let token = &message["params"]["_meta"]["progressToken"];
            for step in 1..=5000 {
                let params = json!({"progressToken": token, "progress": step});
                text += &event(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
            }
        }
        text += &event(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        let answer = match message["id"].is_null() {
            true => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            false => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            ),
        };
        client.write_all(answer.as_bytes()).await?;
    }
}

#[tokio::test]
async fn many_reports_of_progress_in_one_part_of_a_body_are_all_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(answer(client));
        }
    });
    let mut options = options();
    options.timeouts.progress_interval = Duration::ZERO;
    (options.eras, options.listen) = (mcp_proto::Eras::LegacyOnly, false);
    let session = timeout(PATIENCE, Session::connect(Remote::new(&url).unwrap(), options)).await.unwrap().unwrap();
    let call = session.start_tool("count", &json!({})).unwrap();
    let mut progress = call.progress();
    let reader = tokio::spawn(async move {
        let mut steps = Vec::new();
        while let Some(step) = progress.next().await {
            steps.extend(step.progress());
        }
        (steps, progress.left_out())
    });
    assert_eq!(timeout(PATIENCE, call).await.unwrap().unwrap().text(), "done");
    let (steps, left_out) = reader.await.unwrap();
    assert_eq!((steps.len(), left_out), (5000, 0));
}
