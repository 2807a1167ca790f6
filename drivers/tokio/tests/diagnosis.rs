//! The cause of a failure, of programs and servers that fail in each way.
#![cfg(feature = "http")]
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_proto::host::config::Document;
use mcp_proto::host::hub::HubOptions;
use mcp_proto::{Diagnosis, FailureCause, FailureStage, Options};
use mcp_proto_tokio::{CallErrorKind, Endpoint, Host, Hub, Program, Remote, Session, Status};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(server: &str) -> Options {
    let mut options = Options::new("test", "1.0");
    (options.server, options.reconnect) = (server.into(), None);
    options
}

const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-tokio-test-server");

/// A program that writes this to standard error, and then sleeps, or ends with a status.
fn says(stderr: &str, status: Option<&str>) -> Program {
    Program::new(SERVER).args(["says", stderr]).args(status)
}

/// How a status is told.
const STATUS: &str = if cfg!(windows) { "exit code" } else { "exit status" };

async fn diagnosis(endpoint: impl Into<Endpoint>) -> Diagnosis {
    timeout(PATIENCE, Session::connect(endpoint, options("docs"))).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn a_program_that_ends_is_diagnosed_by_what_it_says() {
    for (stderr, cause) in [
        ("Error: GITHUB_TOKEN is not set\n    at f (x.js:1:1)\n\nNode.js v22", "setting-missing"),
        ("error: the following required arguments were not provided:\n  --token <TOKEN>", "argument-invalid"),
        ("ModuleNotFoundError: No module named 'mcp'", "module-missing"),
        ("npm error 404  '@ada/nosuch@*' is not in this registry.", "package-not-found"),
        ("npm error network request to https://registry.npmjs.org/x failed", "registry-unreachable"),
        ("docker: Error response from daemon: pull access denied for ada/nosuch", "image-not-found"),
        ("docker: Cannot connect to the Docker daemon", "container-engine-down"),
        ("npm error engine Unsupported engine", "runtime-version"),
        ("Error: listen EADDRINUSE: address already in use :::3000", "port-in-use"),
        ("Error: connect ECONNREFUSED 127.0.0.1:5432", "backend-unreachable"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x'", "file-missing"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "permission-denied"),
        ("Error: 401 Unauthorized: Bad credentials", "credential-refused"),
        ("FATAL ERROR: JavaScript heap out of memory", "out-of-memory"),
        ("thread 'main' panicked at src/main.rs:1:1:\nit is broken", "exited"),
        ("Segmentation fault (core dumped)", "crashed"),
        ("sh: 1: nosuch: not found", "command-not-found"),
        ("cannot execute binary file: Exec format error", "command-format"),
        ("goodbye", "exited"),
        ("", "exited-silently"),
    ] {
        let found = diagnosis(says(stderr, Some("7"))).await;
        assert_eq!(found.cause.as_str(), cause, "{found:?}");
        assert!(found.finding.starts_with("docs: ") && found.finding.ends_with(&format!("({STATUS} 7)")), "{found}");
        assert_eq!(found.stage(), FailureStage::Spawn);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_a_signal_ends_is_diagnosed_by_it() {
    let killed = diagnosis(Program::new("sh").args(["-c", "kill -9 $$"])).await;
    assert_eq!(&*killed.finding, "docs: a signal ended it (signal 9, SIGKILL)");
    assert_eq!(killed.cause, FailureCause::Killed);
}

#[tokio::test]
async fn a_program_that_does_not_start_is_diagnosed_by_the_system() {
    let folder = std::env::temp_dir().join(format!("mcp-proto-tokio-{}-diagnosis", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("binary.exe");
    std::fs::write(&binary, "\u{7f}ELF of no machine").unwrap();
    #[cfg(unix)]
    {
        let plain = folder.join("plain");
        std::fs::write(&plain, "no program").unwrap();
        assert_eq!(diagnosis(Program::new(&plain)).await.cause, FailureCause::CommandNotExecutable);
        std::fs::set_permissions(&binary, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for (program, cause) in [
        (Program::new("/nonexistent/server"), FailureCause::CommandNotFound),
        (Program::new("mcp-proto-nonexistent"), FailureCause::CommandNotFound),
        (Program::new(&binary), FailureCause::CommandFormat),
        (Program::new(SERVER).current_dir("/nonexistent"), FailureCause::FolderMissing),
    ] {
        let found = diagnosis(program).await;
        assert_eq!(found.cause, cause, "{found:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_program_that_does_not_answer_is_diagnosed_by_what_it_waits_for() {
    for (stderr, cause) in [
        ("", "silent"),
        ("INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)", "serves-http"),
        ("To authenticate, visit https://example.com/device", "login-awaited"),
        ("Need to install the following packages:\nserver@1\nOk to proceed? (y)", "consent-awaited"),
        ("npm warn exec The following package was not found and will be installed: server@1", "downloading"),
    ] {
        let (said, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let host = Host::new(options("docs")).stderr(move |_, _| said.send(()).unwrap_or_default());
        let session = Session::start(says(stderr, None), host).unwrap();
        timeout(PATIENCE, hears.recv()).await.unwrap().unwrap();
        // From here on, time passes while nothing happens.
        tokio::time::pause();
        let found = session.ready().await.unwrap_err();
        tokio::time::resume();
        assert_eq!(found.cause.as_str(), cause, "{found:?}");
        session.close().await;
    }
}

async fn over_http(url: &str) -> Diagnosis {
    diagnosis(Remote::new(url).unwrap()).await
}

/// Answers each request with this, and closes. Returns its URL.
async fn server(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !is_whole(&request) && stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {}
                let _ = stream.write_all(response.as_bytes()).await;
            });
        }
    });
    url
}

/// Whether a request has its whole body. One of TLS is answered as if it were one.
fn is_whole(request: &[u8]) -> bool {
    if request.first() == Some(&0x16) {
        return true;
    }
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

#[tokio::test]
async fn a_server_over_http_is_diagnosed_by_how_it_fails() {
    for (response, cause, stage) in [
        ("404 Not Found", "path-not-found", FailureStage::Http),
        ("405 Method Not Allowed", "method-refused", FailureStage::Http),
        ("500 Internal Server Error", "server-fault", FailureStage::Http),
        ("502 Bad Gateway", "gateway-fault", FailureStage::Http),
        ("401 Unauthorized", "token-required", FailureStage::Authorization),
        ("403 Forbidden", "access-refused", FailureStage::Authorization),
    ] {
        let response = format!("HTTP/1.1 {response}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let found = over_http(&server(response.leak()).await).await;
        assert_eq!((found.cause.as_str(), found.stage()), (cause, stage), "{found:?}");
    }
    let page =
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\nconnection: close\r\n\r\n<!doctype html>";
    assert_eq!(over_http(&server(page).await).await.cause, FailureCause::WebPage);
    let host = "HTTP/1.1 403 Forbidden\r\ncontent-length: 12\r\nconnection: close\r\n\r\nInvalid Host";
    assert_eq!(over_http(&server(host).await).await.cause, FailureCause::HostRefused);
    let tls = "HTTP/1.1 400 Bad Request\r\ncontent-length: 48\r\nconnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    assert_eq!(over_http(&server(tls).await).await.cause, FailureCause::TlsRequired);
    let plain = server("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    assert_eq!(over_http(&plain.replace("http:", "https:")).await.cause, FailureCause::TlsNotSpoken);
    let nobody = over_http("http://127.0.0.1:1/mcp").await;
    assert_eq!(&*nobody.finding, "docs: nobody listens");
    let unknown = over_http("http://nosuch.invalid/mcp").await;
    assert_eq!(unknown.cause, FailureCause::HostUnknown);
}

#[tokio::test]
async fn a_hub_has_the_diagnosis_of_each_server_and_a_call_says_it() {
    let servers = json!({"mcpServers": {
        "github": {"command": SERVER, "args": ["says", "Error: GITHUB_TOKEN is not set", "1"]},
        "gone": {"command": "/nonexistent/server"},
    }});
    let Document(configuration) = serde_json::from_value(servers).unwrap();
    let mut options = Options::new("test", "1.0");
    options.reconnect = None;
    let hub = Hub::start(configuration.expand(|_| None), HubOptions::new(options)).unwrap();
    timeout(PATIENCE, hub.settled()).await.unwrap();
    let failures: Vec<_> = hub.failures().into_iter().map(|(server, found)| (server, found.finding)).collect();
    let expected = [
        ("github".into(), format!("github: GITHUB_TOKEN is not set ({STATUS} 1)").into()),
        ("gone".into(), "gone: there is no such command: `/nonexistent/server`".into()),
    ];
    assert_eq!(failures, expected);
    hub.close().await;
}

#[tokio::test]
async fn a_call_to_a_session_that_is_down_says_why() {
    let mut options = options("github");
    options.reconnect = Some(mcp_proto::Reconnect::default());
    let session = Session::start(Program::new("/nonexistent/server"), options).unwrap();
    let found = session.ready().await.unwrap_err();
    assert!(matches!(session.status(), Status::Parked(it) if it == found), "{:?}", session.status());
    let error = session.call_tool("a", &json!({})).await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Down(it) if *it == found), "{error}");
    assert!(
        error.to_string().contains("github: there is no such command: `/nonexistent/server`. Is it installed"),
        "{error}"
    );
    session.close().await;
}
