//! What a failure comes from: the cause of each text that servers, systems and libraries are known to give.

use std::collections::BTreeSet;

use mcp_proto::{Client, Diagnosis, Failure, FailureCause, FailureKind, Lines, Options, StderrLines, Time, Transport};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample;
use serde_json::json;

use crate::common::{legacy, reconnecting};

fn lines(stderr: &str) -> StderrLines {
    let mut lines = StderrLines::default();
    lines.take(stderr.as_bytes());
    lines
}

fn diagnose(kind: FailureKind, message: &str, stderr: &str) -> Diagnosis {
    Diagnosis::of_server(Failure::new(kind, message), "the server", &lines(stderr))
}

const EXITED: &str = "the server closed the connection during the handshake: exit status: 1";
const SILENT: &str = "the server did not answer `initialize` within 60s";

/// What programs say on standard error before they exit, and what is told of it.
const LAST_WORDS: [(&str, &str, &str); 51] = [
    (
        "/app/index.js:2\n  throw new Error('GITHUB_TOKEN is not set');\n  ^\n\nError: GITHUB_TOKEN is not set\n    at Object.<anonymous> \
         (/app/index.js:2:9)\n    at Function.executeUserEntryPoint [as runMain] (node:internal/modules/run_main:171:5)\n\nNode.js \
         v22.3.0\n",
        "setting-missing",
        "GITHUB_TOKEN is not set",
    ),
    (
        "Traceback (most recent call last):\n  File \"/s.py\", line 1, in <module>\n    os.environ['API_TOKEN']\n  File \"<frozen os>\", \
      line 685, in __getitem__\nKeyError: 'API_TOKEN'\n",
        "setting-missing",
        "KeyError: 'API_TOKEN'",
    ),
    (
        "thread 'main' panicked at src/main.rs:12:40:\nDATABASE_URL must be set: NotPresent\nnote: run with `RUST_BACKTRACE=1` environment \
      variable to display a backtrace\n",
        "setting-missing",
        "DATABASE_URL must be set: NotPresent",
    ),
    (
        "Error: cannot read the configuration\n\nCaused by:\n    0: /etc/server.toml\n    1: No such file or directory (os error 2)\n",
        "file-missing",
        "cannot read the configuration: /etc/server.toml: No such file or directory (os error 2)",
    ),
    (
        "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/@ada%2fnosuch - Not found\nnpm error 404\nnpm error \
      404  '@ada/nosuch@*' is not in this registry.\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x.log\n",
        "package-not-found",
        "'@ada/nosuch@*' is not in this registry.",
    ),
    (
        "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/nosuch-mcp\nnpm error 404\nnpm error 404  The \
         requested resource 'nosuch-mcp@*' could not be found or you do not have permission to access it.\nnpm error 404\nnpm error \
         404 Note that you can also install from a\nnpm error 404 tarball, folder, http url, or git url.\nnpm error A complete log of \
         this run can be found in: /root/.npm/_logs/x.log\n",
        "package-not-found",
        "the server: The requested resource 'nosuch-mcp@*' could not be found",
    ),
    (
        "npm error code ETARGET\nnpm error notarget No matching version found for is-odd@99.9.9.\nnpm error notarget In most cases you \
         or one of your dependencies are requesting\nnpm error notarget a package version that doesn't exist.\nnpm error A complete \
         log of this run can be found in: /root/.npm/_logs/x.log\n",
        "package-not-found",
        "the server: No matching version found for is-odd@99.9.9.",
    ),
    (
        "npm error npx canceled due to missing packages and no YES option: [\"cowsay@1.6.0\"]\nnpm error A complete log of this run \
         can be found in: /root/.npm/_logs/x.log\n",
        "consent-awaited",
        "npx asks whether it may install the package",
    ),
    (
        "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module './config'\nRequire stack:\n- /x.js\n",
        "module-missing",
        "Cannot find module './config'",
    ),
    (
        "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module 'C:\\app\\nosuch.js'\n    at \
         Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n",
        "script-missing",
        "Cannot find module 'C:\\app\\nosuch.js'",
    ),
    (
        "[stdin]:1\n{\"jsonrpc\":\"2.0\"}\n          ^\n\nSyntaxError: Unexpected token ':'\n    at runScript (node:internal/x:1:1)\n",
        "exited",
        "SyntaxError: Unexpected token ':'",
    ),
    ("/x.js:1\na ??= 1\n  ^^^\n\nSyntaxError: Unexpected token '??='\n", "runtime-version", "Unexpected token '??='"),
    (
        "Error: GITHUB_TOKEN is not set\nnpm error Lifecycle script `start` failed with error:\nnpm error code 1\n",
        "setting-missing",
        "the server: GITHUB_TOKEN is not set",
    ),
    ("starting\nnpm error Lifecycle script `start` failed\n", "exited", "the server: Lifecycle script `start` failed"),
    ("Error: Invalid API key\n", "credential-refused", "Invalid API key"),
    ("Error: 401 Unauthorized: invalid access token\n", "credential-refused", "invalid access token"),
    ("fatal: the server's API key has expired\n", "credential-refused", "has expired"),
    ("Error: Authentication failed: GITHUB_TOKEN is not set\n", "setting-missing", "GITHUB_TOKEN is not set"),
    (
        "Error: EACCES: permission denied, open '/x/api_key.txt'\n",
        "permission-denied",
        "EACCES: permission denied, open '/x/api_key.txt'",
    ),
    (
        "Error: request to https://a.example/?api_key=x failed, reason: connect ECONNREFUSED 127.0.0.1:443\n",
        "backend-unreachable",
        "ECONNREFUSED",
    ),
    (
        "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because nosuch was not found in the package registry and you require \
      nosuch, we can conclude that your requirements are unsatisfiable.\n",
        "package-not-found",
        "was not found in the package registry",
    ),
    (
        "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno ENOTFOUND\nnpm error network request to \
      https://registry.npmjs.org/x failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org\n",
        "registry-unreachable",
        "network request to https://registry.npmjs.org/x failed",
    ),
    (
        "Unable to find image 'ada/nosuch:latest' locally\ndocker: Error response from daemon: pull access denied for ada/nosuch, repository \
      does not exist or may require 'docker login'.\nSee 'docker run --help'.\n",
        "image-not-found",
        "pull access denied for ada/nosuch",
    ),
    (
        "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\nSee 'docker run \
      --help'.\n",
        "container-engine-down",
        "Cannot connect to the Docker daemon",
    ),
    (
        "node:events:497\n      throw er; // Unhandled 'error' event\n      ^\n\nError: listen EADDRINUSE: address already in use :::3000\n    \
      at Server.setupListenHandle [as _listen2] (node:net:1817:16)\n",
        "port-in-use",
        "listen EADDRINUSE: address already in use :::3000",
    ),
    (
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use\n",
        "port-in-use",
        "address already in use",
    ),
    (
        "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/app/nosuch.js'\nRequire stack:\n- /x\n",
        "script-missing",
        "Cannot find module '/app/nosuch.js'",
    ),
    (
        "Traceback (most recent call last):\n  File \"/s.py\", line 1, in <module>\nModuleNotFoundError: No module named 'mcp'\n",
        "module-missing",
        "No module named 'mcp'",
    ),
    (
        "./server: error while loading shared libraries: libssl.so.1.1: cannot open shared object file: No such file or directory\n",
        "module-missing",
        "libssl.so.1.1",
    ),
    (
        "npm error code EBADENGINE\nnpm error engine Unsupported engine\nnpm error engine Not compatible with your version of node/npm: x@1\n",
        "runtime-version",
        "the server: Not compatible with your version",
    ),
    (
        "Exception in thread \"main\" java.lang.UnsupportedClassVersionError: Server has been compiled by a more recent version of the Java \
      Runtime\n\tat java.lang.ClassLoader.defineClass1(Native Method)\n",
        "runtime-version",
        "UnsupportedClassVersionError",
    ),
    (
        "error: the following required arguments were not provided:\n  --token <TOKEN>\n\nUsage: server --token <TOKEN>\n\nFor more \
      information, try '--help'.\n",
        "argument-invalid",
        "--token <TOKEN>",
    ),
    (
        "usage: server.py [-h] --root ROOT\nserver.py: error: the following arguments are required: --root\n",
        "argument-invalid",
        "the following arguments are required: --root",
    ),
    (
        "Usage: mcp-server-filesystem <allowed-directory> [additional-directories...]\n",
        "argument-invalid",
        "<allowed-directory>",
    ),
    (
        "2026-11-29 10:00:00 ERROR server: BRAVE_API_KEY environment variable is required\n",
        "setting-missing",
        "BRAVE_API_KEY",
    ),
    ("{\"level\":\"error\",\"msg\":\"SLACK_BOT_TOKEN is missing\"}\n", "setting-missing", "SLACK_BOT_TOKEN"),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings\napi_key\n  Field required [type=missing]\n",
        "setting-missing",
        "Field required",
    ),
    (
        "\u{1b}[31mError:\u{1b}[0m 401 Unauthorized: Bad credentials\r\n",
        "credential-refused",
        "401 Unauthorized: Bad credentials",
    ),
    (
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n----- Native stack trace -----\n",
        "out-of-memory",
        "heap out of memory",
    ),
    (
        "Error: connect ECONNREFUSED 127.0.0.1:5432\n    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1607:16) {\n  errno: -111,\n",
        "backend-unreachable",
        "connect ECONNREFUSED 127.0.0.1:5432",
    ),
    (
        "python3: can't open file '/nosuch.py': [Errno 2] No such file or directory\n",
        "script-missing",
        "can't open file '/nosuch.py'",
    ),
    ("Error: Unable to access jarfile server.jar\n", "script-missing", "Unable to access jarfile server.jar"),
    (
        "PermissionError: [Errno 13] Permission denied: '/var/lib/x'\n",
        "permission-denied",
        "Permission denied: '/var/lib/x'",
    ),
    (
        "panic: runtime error: index out of range [1] with length 1\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:5 +0x1d\nexit \
      status 2\n",
        "crashed",
        "runtime error: index out of range [1] with length 1",
    ),
    ("sh: 1: nosuch: not found\n", "command-not-found", "nosuch: not found"),
    ("./server: cannot execute binary file: Exec format error\n", "command-format", "Exec format error"),
    ("fatal error: all goroutines are asleep - deadlock!\n", "crashed", "all goroutines are asleep"),
    ("warming up\nsomething is odd\n", "exited", "something is odd"),
    ("Segmentation fault (core dumped)\n", "crashed", "Segmentation fault (core dumped)"),
    ("", "exited-silently", "it exited without a word"),
    ("\n   \n", "exited-silently", "it exited without a word"),
];

#[test]
fn the_failure_quotes_the_line_that_names_the_cause() {
    let mut wrong = Vec::new();
    for (stderr, cause, line) in LAST_WORDS {
        let diagnosis = diagnose(FailureKind::Closed, EXITED, stderr);
        if diagnosis.cause.as_str() != cause || !diagnosis.finding.contains(line) {
            wrong.push((stderr, diagnosis.cause, diagnosis.finding.clone()));
        }
        assert!(diagnosis.finding.starts_with("the server: ") && diagnosis.finding.ends_with(" (exit status 1)"));
        // Of pieces of any length, and however the lines end.
        for size in [1, 2, 7] {
            let mut pieces = StderrLines::default();
            stderr.replace('\n', "\r\n").as_bytes().chunks(size).for_each(|piece| pieces.take(piece));
            assert_eq!(pieces.line(), lines(stderr).line(), "{size}");
        }
        // A recording has the line in the message.
        let message = format!("{EXITED}; its last words on standard error: {}", lines(stderr).line());
        assert_eq!(diagnose(FailureKind::Closed, &message, "").finding, diagnosis.finding);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Other failures: the kind, the message, standard error, and what is told.
const OTHERS: [(FailureKind, &str, &str, &str, &str); 55] = [
    (FailureKind::HandshakeTimeout, SILENT, "", "silent", "it runs, and does not answer"),
    (FailureKind::HandshakeTimeout, SILENT, "starting\n", "silent", "it runs, and does not answer"),
    (FailureKind::HandshakeTimeout, SILENT, "Error: API_KEY is not set\n", "setting-missing", "API_KEY is not set"),
    (
        FailureKind::HandshakeTimeout,
        SILENT,
        "INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)\n",
        "serves-http",
        "this program serves HTTP at http://127.0.0.1:8000, and not MCP over stdio",
    ),
    (
        FailureKind::HandshakeTimeout,
        SILENT,
        "MCP server listening on port 3000\n",
        "serves-http",
        "serves HTTP, and not MCP over stdio",
    ),
    (
        FailureKind::HandshakeTimeout,
        SILENT,
        "Need to install the following packages:\nserver@1.0.0\nOk to proceed? (y) ",
        "consent-awaited",
        "npx asks",
    ),
    (
        FailureKind::HandshakeTimeout,
        SILENT,
        "npm warn exec The following package was not found and will be installed: server@1\n",
        "downloading",
        "downloaded or installed",
    ),
    (
        FailureKind::HandshakeTimeout,
        SILENT,
        "To authenticate, visit https://example.com/device\n",
        "login-awaited",
        "https://example.com/device",
    ),
    (
        FailureKind::Closed,
        "the server closed the connection while it was in use: signal: 9 (SIGKILL)",
        "",
        "killed",
        "a signal ended it (signal 9, SIGKILL)",
    ),
    (FailureKind::Closed, EXITED, "Serving HTTP on 0.0.0.0 port 8000\n", "serves-http", "serves HTTP"),
    (
        FailureKind::Closed,
        "the server broke the exchange of the handshake: connection reset by peer",
        "",
        "connection-reset",
        "reset",
    ),
    (
        FailureKind::Closed,
        "the server closed the connection while it was in use: the response ended",
        "",
        "connection-lost",
        "the response ended",
    ),
    (
        FailureKind::Closed,
        "the sessions of the server expire as soon as they are opened: a fourth session in a row expired",
        "",
        "sessions-expire",
        "its sessions expire",
    ),
    (
        FailureKind::Spawn,
        "the server cannot be started: `nosuch`: No such file or directory (os error 2)",
        "",
        "command-not-found",
        "there is no such command",
    ),
    (
        FailureKind::Spawn,
        "the server cannot be started: `x`: program not found",
        "",
        "command-not-found",
        "there is no such command",
    ),
    (
        FailureKind::Spawn,
        "the server cannot be started: `x`: Permission denied (os error 13)",
        "",
        "command-not-executable",
        "executed",
    ),
    (
        FailureKind::Spawn,
        "the server cannot be started: `x`: Exec format error (os error 8)",
        "",
        "command-format",
        "no program",
    ),
    (
        FailureKind::Spawn,
        "the server cannot be started: there is no folder `/x`: No such file or directory (os error 2)",
        "",
        "folder-missing",
        "there is no folder `/x`",
    ),
    (
        FailureKind::Spawn,
        "the server cannot be started: `x`: Argument list too long (os error 7)",
        "",
        "not-started",
        "too long",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: tcp connect error: Connection refused (os error 111)",
        "",
        "nobody-listens",
        "nobody listens",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: No connection could be made because the target machine actively refused it. \
      (os error 10061)",
        "",
        "nobody-listens",
        "nobody listens",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: dns error: failed to lookup address information: Name or service not known",
        "",
        "host-unknown",
        "no host of this name",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: dns error: No such host is known. (os error 11001)",
        "",
        "host-unknown",
        "no host",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: the proxy answered HTTP 407",
        "",
        "proxy-refused",
        "HTTP 407",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: invalid URL, scheme is not http",
        "",
        "url-invalid",
        "scheme is not http",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: received corrupt message of type InvalidContentType",
        "",
        "tls-not-spoken",
        "does not speak TLS",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: invalid peer certificate: UnknownIssuer",
        "",
        "certificate-issuer",
        "signed by an unknown authority",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
        "",
        "certificate-issuer",
        "unknown authority",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: invalid peer certificate: certificate expired: verification time 1 (UNIX)",
        "",
        "certificate-expired",
        "has expired",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: invalid peer certificate: certificate not valid for name \"a.example\"",
        "",
        "certificate-name",
        "for another name",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: invalid peer certificate: NotValidForName",
        "",
        "certificate-name",
        "name",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: connection error: received fatal alert: CertificateRequired",
        "",
        "client-certificate-required",
        "it demands a certificate of the client",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: received fatal alert: HandshakeFailure",
        "",
        "tls-failed",
        "HandshakeFailure",
    ),
    (
        FailureKind::Connect,
        "the server cannot be reached: No route to host (os error 113)",
        "",
        "network-unreachable",
        "no way",
    ),
    (FailureKind::Connect, "the server cannot be reached: operation timed out", "", "connect-timeout", "in time"),
    (
        FailureKind::Connect,
        "the server cannot be reached: the system is out of sockets",
        "",
        "unreachable",
        "out of sockets",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2024-11-05): HTTP 404: not here",
        "",
        "path-not-found",
        "no MCP endpoint",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2024-11-05): HTTP 405",
        "",
        "method-refused",
        "no messages",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): HTTP 429",
        "",
        "rate-limited",
        "no more",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): HTTP 503",
        "",
        "gateway-fault",
        "gateway",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): HTTP 500: boom",
        "",
        "server-fault",
        "HTTP 500: boom",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): HTTP 400: Client sent an HTTP request to \
      an HTTPS server.",
        "",
        "tls-required",
        "wants TLS",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): GITHUB_TOKEN is not set (-32603)",
        "",
        "setting-missing",
        "GITHUB_TOKEN is not set",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): go away (-32603)",
        "",
        "handshake-refused",
        "go away",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server refused `initialize` (offered 2025-11-25): the client does not offer initialize (-32601)",
        "",
        "echo",
        "it repeats what it is sent",
    ),
    (
        FailureKind::HandshakeRejected,
        "the server speaks only an era that the options exclude (`initialize` offered 2025-11-25): no",
        "",
        "version-unsupported",
        "no",
    ),
    (
        FailureKind::UnsupportedVersion,
        "the server and this client have no version in common: it speaks [\"1999-01-01\"]",
        "",
        "version-unsupported",
        "1999-01-01",
    ),
    (
        FailureKind::Protocol,
        "the server sent an invalid response to `initialize`: HTTP 200: the body does not answer: <!doctype html>",
        "",
        "web-page",
        "a page for people",
    ),
    (
        FailureKind::Protocol,
        "the server sent an invalid response to `initialize`: no `protocolVersion` in {}",
        "",
        "answer-invalid",
        "no `protocolVersion`",
    ),
    (
        FailureKind::ListFailed,
        "the server did not give the list of `tools/list`: no database",
        "",
        "list-failed",
        "no database",
    ),
    (
        FailureKind::Unauthorized,
        "the server requires authorization (HTTP 401): who?",
        "",
        "token-required",
        "demands a token",
    ),
    (FailureKind::Unauthorized, "the sign-in failed at token: access_denied", "", "sign-in-failed", "access_denied"),
    (
        FailureKind::Forbidden,
        "the server refused access (HTTP 403): Invalid Host header",
        "",
        "host-refused",
        "Invalid Host header",
    ),
    (FailureKind::Forbidden, "the server refused access (HTTP 403)", "", "access-refused", "refuses who asks"),
    (FailureKind::Overrun, "the server sends requests faster than they are answered", "", "overrun", "faster"),
];

#[test]
fn each_cause_is_found_in_what_is_known_to_be_said() {
    let mut found =
        BTreeSet::from_iter(LAST_WORDS.map(|(stderr, ..)| diagnose(FailureKind::Closed, EXITED, stderr).cause));
    for (kind, message, stderr, cause, finding) in OTHERS {
        let diagnosis = diagnose(kind, message, stderr);
        assert_eq!(diagnosis.cause.as_str(), cause, "{message}\n{diagnosis:?}");
        assert!(diagnosis.finding.contains(finding), "{diagnosis:?}");
        assert!(!diagnosis.advice().is_empty() && diagnosis.failure.kind == kind, "{diagnosis:?}");
        found.insert(diagnosis.cause);
    }
    // What a program writes to standard output is a deviation of its client.
    found.insert(noisy("hello from the server").cause);
    found.extend([FailureCause::PipeClosed, FailureCause::NoAnswer, FailureCause::ListSilent]);
    let missing: Vec<_> = FailureCause::ALL.iter().filter(|cause| !found.contains(cause)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The diagnosis of a program that writes this line to standard output, and nothing else.
fn noisy(line: &str) -> Diagnosis {
    let mut options = Options::new("test", "1");
    (options.server, options.reconnect) = ("node".into(), None);
    let mut client = Client::new(Lines::new(), options, 0);
    client.open(Time::ZERO).unwrap();
    let connection = client.connection();
    client.handle_transport(Time::ZERO, connection, Transport::Opened);
    client.handle_bytes(Time::ZERO, connection, format!("{line}\n").as_bytes());
    Diagnosis::new(Failure::new(FailureKind::HandshakeTimeout, SILENT), &client, &StderrLines::default())
}

#[test]
fn silence_is_that_of_a_list_once_the_handshake_of_this_connection_is_over() {
    let mut client = Client::new(Lines::new(), reconnecting(legacy()), 0);
    client.open(Time::ZERO).unwrap();
    let connection = client.connection();
    let cause = |client: &Client<Lines>| {
        Diagnosis::new(Failure::new(FailureKind::HandshakeTimeout, SILENT), client, &StderrLines::default()).cause
    };
    client.handle_transport(Time::ZERO, connection, Transport::Opened);
    while client.poll().is_some() {}
    assert_eq!(cause(&client), FailureCause::Silent);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    client.handle_bytes(Time::ZERO, connection, format!("{answer}\n").as_bytes());
    assert_eq!(cause(&client), FailureCause::ListSilent);
    client.handle_transport(Time::ZERO, connection, Transport::Closed { why: "gone" });
    while client.poll().is_some() {}
    client.handle_timeout(client.deadline().unwrap());
    assert_ne!(client.connection(), connection);
    assert_eq!(cause(&client), FailureCause::Silent);
}

#[test]
fn an_error_counts_more_than_what_was_waited_for_before() {
    let waits = |stderr: &str| diagnose(FailureKind::HandshakeTimeout, SILENT, stderr).cause.as_str();
    assert_eq!(waits("Downloading index\nError: DATABASE_URL is not set\n"), "setting-missing");
    assert_eq!(waits("Downloading index\nInstalled 30 packages\n"), "silent");
    assert_eq!(waits("Please log in at https://x/login\nwaiting\n"), "login-awaited");
    let closed = |message: &str, stderr: &str| diagnose(FailureKind::Closed, message, stderr).cause.as_str();
    let signal = "the server closed the connection during the handshake: signal: 9 (SIGKILL)";
    assert_eq!(closed(signal, "Server started\n"), "killed");
    assert_eq!(closed(signal, "Error: it is broken\n"), "exited");
    assert_eq!(closed(EXITED, "MCP server running on http://localhost:3000\nbye\n"), "serves-http");
    for own in ["python3", "/usr/bin/python3", "C:\\bin\\python3"] {
        let said = lines(&format!("{own}: can't open file 'x'\n"));
        let found = Diagnosis::of_server(Failure::new(FailureKind::Closed, EXITED), "python3", &said);
        assert_eq!(&*found.finding, "python3: can't open file 'x' (exit status 1)");
    }
    let tabs = diagnose(FailureKind::Closed, EXITED, "good\tbye\n");
    assert_eq!(&*tabs.finding, "the server: good bye (exit status 1)");
    let forced = "the server closed the connection during the handshake: it closed input or output and did not exit, so it was \
                  ended: signal: 15 (SIGTERM) (before that: Broken pipe)";
    let found = diagnose(FailureKind::Closed, forced, "");
    assert_eq!(found.cause.as_str(), "pipe-closed");
    assert!(found.finding.ends_with("and did not end (signal 15, SIGTERM)"), "{found:?}");
}

#[test]
fn what_is_refused_or_not_answered_over_http_is_no_matter_of_a_program() {
    let over_http = |kind, message: &str| {
        let mut options = Options::new("test", "1");
        options.server = "s".into();
        let client = Client::new(mcp_proto::Http::new("https://example.com/mcp").unwrap(), options, 0);
        Diagnosis::new(Failure::new(kind, message), &client, &StderrLines::default()).cause.as_str()
    };
    let refused = "s (https://example.com/mcp) refused `initialize` (offered 2025-11-25): x-api-key header is required";
    assert_eq!(over_http(FailureKind::HandshakeRejected, refused), "handshake-refused");
    assert_eq!(over_http(FailureKind::HandshakeTimeout, SILENT), "no-answer");
}

/// However much comes, it costs little, and the first and last lines are known.
#[test]
fn a_flood_of_lines_leaves_the_first_and_the_last() {
    let mut flood = StderrLines::default();
    flood.take(b"Uvicorn running on http://127.0.0.1:8000\n");
    for _ in 0..100_000 {
        flood.take(b"INFO a line of a log that says nothing of interest\n    at frame (x.js:1:1)\ny\n");
    }
    let failure = || Failure::new(FailureKind::HandshakeTimeout, SILENT);
    assert_eq!(Diagnosis::of_server(failure(), "s", &flood).cause, FailureCause::ServesHttp);
    flood.take(b"Error: GITHUB_TOKEN is not set\n");
    for _ in 0..1000 {
        flood.take(b"    at frame (x.js:1:1)\n");
    }
    assert_eq!(Diagnosis::of_server(failure(), "s", &flood).cause, FailureCause::SettingMissing);
}

/// What is cut ends as a text of which a secret can be recognized.
#[test]
fn a_line_that_is_cut_has_no_short_part_of_a_word() {
    let mut cut = StderrLines::default();
    cut.take(format!("{:0500} error: {}\n", 0, "hush-secret-hush-secret").as_bytes());
    assert!(!cut.line().contains("hush") && cut.line().ends_with('…'), "{}", cut.line());
}

#[test]
fn noise_on_standard_output_is_told_as_what_it_is() {
    let logs = noisy("Server listening on http://localhost:3000");
    assert_eq!(&*logs.finding, "node: this program serves HTTP at http://localhost:3000, and not MCP over stdio");
    let other = noisy("hello from the server");
    assert_eq!(&*other.finding, "node: what it writes to standard output is not MCP");
    assert_eq!(other.cause, FailureCause::NotMcp);
    assert!(other.evidence.iter().any(|text| text.contains("hello from the server")), "{other:?}");
}

#[test]
fn the_name_of_a_server_gives_no_cause_away() {
    let message = "https://proxy.tls.example: http 404 cannot be reached: Connection refused (os error 111)";
    let failure = Failure::new(FailureKind::Connect, message);
    let diagnosis = Diagnosis::of_server(failure, "https://proxy.tls.example: http 404", &StderrLines::default());
    assert_eq!(diagnosis.cause, FailureCause::NobodyListens);
}

proptest! {
    #[test]
    fn any_words_are_diagnosed_within_bounds(
        pieces in vec(prop_oneof![any::<Vec<u8>>(), sample::select(PARTS.to_vec()).prop_map(|it| it.as_bytes().to_vec())], 0..40),
        message in vec(sample::select(PARTS.to_vec()), 0..12),
        kind in sample::select(FailureKind::ALL.to_vec()),
        name in ".{0,40}",
    ) {
        let mut stderr_lines = StderrLines::default();
        pieces.iter().for_each(|piece| stderr_lines.take(piece));
        let mut whole = StderrLines::default();
        whole.take(&pieces.concat());
        assert_eq!(stderr_lines.line(), whole.line());
        assert!(stderr_lines.line().chars().count() <= 301);
        let message = message.concat();
        let diagnosis = Diagnosis::of_server(Failure::new(kind, &*message), &name, &stderr_lines);
        assert!(diagnosis.finding.chars().count() <= 600, "{diagnosis:?}");
        assert_eq!((&*diagnosis.failure.message, diagnosis.failure.kind), (&*message, kind));
        assert!(!diagnosis.finding.contains('\n'), "{diagnosis:?}");
    }
}

/// What texts of failures are made of.
const PARTS: [&str; 16] = [
    "s: ",
    "exit status: 1",
    "; ",
    "signal: 9 (SIGKILL)",
    "\n",
    "\r\n",
    "Error: ",
    "Caused by:",
    "  0: ",
    "panicked at",
    "http://a b",
    "`",
    "HTTP 404",
    " is not set",
    "\u{1b}[31m",
    "npm error 404 ",
];

#[test]
fn what_looks_like_an_exit_status_is_bounded() {
    let found = diagnose(FailureKind::Closed, &format!("the server closed: exit status: {}", "9".repeat(1000)), "");
    assert_eq!(&*found.finding, format!("the server: it exited without a word (exit status {})", "9".repeat(27)));
    let dumped = "the server closed: signal: 6 (SIGABRT) (core dumped)";
    let found = diagnose(FailureKind::Closed, dumped, "");
    assert_eq!(&*found.finding, "the server: a signal ended it (signal 6, SIGABRT, core dumped)");
}

#[test]
fn a_diagnosis_is_bounded_whatever_is_said() {
    let mut stderr_lines = StderrLines::default();
    for _ in 0..1000 {
        stderr_lines.take(&[b'x'; 10_000]);
        stderr_lines.take(b"\nError:\nCaused by:\n  y\npanicked at\nError: \xff\xfe");
    }
    let failure = Failure::new(FailureKind::Closed, format!("s: exit status: 1; {}", "é: ".repeat(100)));
    let diagnosis = Diagnosis::of_server(failure, "s", &stderr_lines);
    assert!(stderr_lines.line().chars().count() <= 301, "{}", stderr_lines.line().len());
    assert!(diagnosis.finding.chars().count() <= 600 && diagnosis.evidence.len() <= 8, "{diagnosis:?}");
    assert!(diagnosis.evidence.iter().all(|text| text.chars().count() <= 501));
}
