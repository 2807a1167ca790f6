//! The reports of runs with the demo server, as people and programs get them: `probe/tests/reports/`. With the variable `BLESS`
//! what is printed becomes what is expected; a change of these files is to be read.
#![cfg(unix)]
#![allow(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const CALLS: [&str; 20] = [
    "--call",
    "echo",
    "--args",
    r#"{"text":"hi\nthere"}"#,
    "--call",
    "add",
    "--args",
    r#"{"a":2,"b":3}"#,
    "--call",
    "fail",
    "--call",
    "none",
    "--read",
    "garden://rain",
    "--read",
    "garden://none",
    "--prompt",
    "haiku",
    "--args",
    r#"{"subject":"rain"}"#,
];

fn probe(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-probe"));
    command.args(args).stdin(Stdio::null()).env_remove("COLUMNS").env_remove("NO_COLOR");
    command.output().unwrap()
}

/// Numbers that differ from run to run are the same.
fn settled(text: &str) -> String {
    let mut found = String::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let settled = words.iter().enumerate().map(|(at, word)| {
            let bare = word.trim_start_matches('(');
            let is_time = words.get(at + 1).is_some_and(|next| next.trim_end_matches([',', ')']) == "ms");
            let is_process = at > 0 && words[at - 1] == "process";
            if is_number(bare) && (is_time || is_process) { word.replace(bare, "0") } else { (*word).to_owned() }
        });
        let settled = settled.collect::<Vec<_>>().join(" ");
        // A time at the beginning is aligned at its end.
        let settled = if settled.trim_start().starts_with("0 ms ") { settled.trim_start() } else { &settled };
        found += &settled.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        found.push('\n');
    }
    found
}

/// The same of a report for programs: each number of milliseconds is zero.
fn settle(value: &mut Value) {
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| {
            if name.ends_with("Ms") || name == "ms" {
                *member = if member.is_null() { Value::Null } else { 0.into() };
            }
            settle(member);
        }),
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::String(text) => *text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION"),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn check(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(found, expected, "{}", file.display());
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

#[test]
fn a_run_is_reported_for_people_in_both_eras() {
    for era in ["modern", "legacy"] {
        let output = probe(&[&["--era", era][..], &CALLS].concat());
        // Two calls and a read have no result.
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        check(&format!("{era}.txt"), &settled(&text(&output.stdout)));
    }
}

#[test]
fn a_run_is_reported_for_programs_in_both_eras() {
    for era in ["modern", "legacy"] {
        let output = probe(&[&["--json", "--era", era][..], &CALLS].concat());
        let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
        settle(&mut report);
        check(&format!("{era}.json"), &format!("{report:#}\n"));
    }
}

#[test]
fn a_diagram_has_each_message_once() {
    let output = probe(&[&["--diagram", "--era", "modern"][..], &CALLS].concat());
    let text = text(&output.stdout);
    let (_, diagram) = text.split_once("sequenceDiagram\n").unwrap();
    // The order of what is under way at the same time differs.
    let settled = settled(diagram);
    let mut lines: Vec<_> = settled.lines().map(without_id).collect();
    let at = lines.iter().position(|line| line.contains("ready")).unwrap();
    lines[..at].sort();
    check("diagram.txt", &(lines.join("\n") + "\n"));
}

fn without_id(line: &str) -> String {
    match line.split_once("(id ") {
        Some((before, after)) => format!("{before}(id{}", after.trim_start_matches(|it: char| it.is_ascii_digit())),
        None => line.to_owned(),
    }
}

/// A path for a file of a test, which is removed.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("mcp-probe-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_journal_is_replayed_with_the_same_report() {
    let file = File::new("journal");
    for era in ["modern", "legacy"] {
        let run = probe(&[&["--era", era, "--journal", file.path()][..], &CALLS].concat());
        let replay = probe(&["--replay", file.path()]);
        assert_eq!(settled(&text(&replay.stdout)), settled(&text(&run.stdout)), "{}", text(&replay.stderr));
        assert_eq!((text(&replay.stderr), replay.status.code()), (String::new(), Some(1)));
        let replay = probe(&["--json", "--replay", file.path()]);
        let report: Value = serde_json::from_slice(&replay.stdout).unwrap();
        assert_eq!(report["calls"].as_array().map(Vec::len), Some(7), "{report}");
    }
}

#[test]
fn a_journal_that_breaks_off_is_replayed_as_far_as_it_goes_and_one_that_is_none_is_an_error() {
    let file = File::new("cut.journal");
    probe(&[&["--journal", file.path()][..], &CALLS].concat());
    let whole = std::fs::read_to_string(&file.0).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    std::fs::write(&file.0, lines[..lines.len() / 2].join("\n")).unwrap();
    let replay = probe(&["--replay", file.path()]);
    assert!(text(&replay.stdout).contains("demo-garden"), "{replay:?}");
    assert_eq!(replay.status.code(), Some(1));
    std::fs::write(&file.0, "no journal\n").unwrap();
    let replay = probe(&["--replay", file.path()]);
    assert!(text(&replay.stderr).contains("this is not a journal"), "{replay:?}");
    assert_eq!((replay.stdout.len(), replay.status.code()), (0, Some(1)));
    let none = probe(&["--replay", "/nonexistent/journal"]);
    assert!(text(&none.stderr).starts_with("probe: --replay: /nonexistent/journal: "), "{none:?}");
    assert_eq!(none.status.code(), Some(2));
}

/// A folder for the files of a test, which is removed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcp-probe-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Writes a file, and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().into()
    }

    /// What was printed, without the names of this folder and of the program.
    fn without(&self, text: &str) -> String {
        settled(text).replace(self.0.to_str().unwrap(), "FOLDER").replace(env!("CARGO_BIN_EXE_mcp-probe"), "PROBE")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that starts nothing else, a server, one that is turned off, and one that cannot be read.
fn servers() -> Value {
    let demo = env!("CARGO_BIN_EXE_mcp-probe");
    serde_json::json!({
        "demo": {"command": demo, "args": ["demo-server"], "prompts": true, "resources": true},
        "other": {"command": demo, "args": ["demo-server"], "tools": {"include": ["add", "echo"]}},
        "off": {"command": demo, "enabled": false},
        "broken": {"command": "sh", "args": ["-c", "echo the key is missing >&2; exit 3"]},
        "wrong": {"command": "sh", "url": "http://127.0.0.1/"},
        "unset": {"command": "${MCP_NO_SUCH_VARIABLE}"},
    })
}

#[test]
fn the_servers_of_a_file_are_reported_for_people_and_for_programs() {
    let folder = Folder::new("file");
    let path = folder.write("servers.json", &serde_json::json!({"mcp_servers": servers()}).to_string());
    let call = ["--call", "mcp_other_echo", "--args", r#"{"text":"hi"}"#, "--call", "mcp_none"];
    let output = probe(&[&call[..], &["config", &path]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    check("file.txt", &folder.without(&text(&output.stdout)));
    let output = probe(&[&["--json"], &call[..], &["config", &path]].concat());
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    settle(&mut report);
    check("file.json", &folder.without(&format!("{report:#}\n")));
    // One that is chosen, and one that there is not.
    let output = probe(&["--json", "config", &path, "demo"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["servers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["demo"]);
    assert_eq!(output.status.code(), Some(0));
    let output = probe(&["config", &path, "none"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
    assert!(text(&output.stderr).contains("none"), "{output:?}");
}

#[test]
fn a_file_is_read_by_its_ending() {
    let folder = Folder::new("endings");
    let demo = env!("CARGO_BIN_EXE_mcp-probe");
    let commented = format!(
        "// a comment\n{{\"mcp_servers\": {{\"s\": {{\"command\": {demo:?}, \"args\": [\"demo-server\"],}}}}}}"
    );
    let yaml = format!("mcp_servers:\n  s:\n    command: {demo}\n    args: [demo-server]\n");
    let toml = format!("[mcp_servers.s]\ncommand = {demo:?}\nargs = [\"demo-server\"]\n");
    for (name, right, wrong) in [
        ("a.json", &commented, &yaml),
        ("a.jsonc", &commented, &toml),
        ("a.yaml", &yaml, &toml),
        ("a.yml", &yaml, &toml),
        ("a.toml", &toml, &commented),
    ] {
        let output = probe(&["--json", "config", &folder.write(name, right)]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&report["servers"]["s"]["outcome"], output.status.code()),
            (&Value::from("ready"), Some(0)),
            "{name}"
        );
        let output = probe(&["config", &folder.write(name, wrong)]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{name} {output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_files_of_hosts_are_found_with_what_they_would_start() {
    let folder = Folder::new("find");
    let entry = r#"{"mcpServers": {"one": {"command": "npx", "args": ["-y", "server"]}, "two": {"url": "https://ada:hush-password@example.com/mcp"}, "off": {"command": "x", "disabled": true}}}"#;
    folder.write(".cursor/mcp.json", entry);
    folder.write(".codeium/windsurf/mcp_config.json", "{");
    let find = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-probe"));
        command.args(args).env("HOME", &folder.0).env_remove("XDG_CONFIG_HOME").current_dir(&folder.0);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let output = find(&["config", "--find"]);
    check("find.txt", &folder.without(&text(&output.stdout)));
    let status = output.status.code();
    let output = find(&["--json", "config", "--find"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check("find.json", &folder.without(&format!("{report:#}\n")));
    // A file that cannot be read is told.
    assert_eq!((status, output.status.code()), (Some(1), Some(1)));
    assert!(!text(&output.stdout).contains("hush"));
    let empty = Folder::new("nothing");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-probe"));
    let nothing =
        command.args(["config", "--find"]).env("HOME", &empty.0).env_remove("XDG_CONFIG_HOME").current_dir(&empty.0);
    check("find-nothing.txt", &empty.without(&text(&nothing.output().unwrap().stdout)));
}

/// A server of one era or the other whose tools end in different ways.
const ODD: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    params = message.get("params", {})
    answer = {"error": {"code": -32601, "message": "no such method", "data": {"a": [1, 2]}}}
    if message["method"] == "initialize":
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd\u001b[31m", "version": "1\n2"}}}
    if message["method"] == "tools/list":
        names = ["mixed", "structured", "huge", "waits", "dies", "asks", "wrong"]
        tools = [{"name": name, "description": "Line one\nline two " + "long " * 40, "inputSchema": {"type": "object"}} for name in names]
        answer = {"result": {"tools": tools + [{"name": 5}]}}
    if message["method"] == "tools/call":
        name = params["name"]
        if name == "mixed":
            content = [{"type": "text", "text": "a\tb"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "resource_link", "uri": "r:1", "name": "r"}, {"type": "resource", "resource": {"uri": "r:2", "text": "t"}}, {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, {"type": "other"}]
            answer = {"result": {"content": content}}
        if name == "structured":
            answer = {"result": {"structuredContent": {"sum": 1}}}
        if name == "huge":
            answer = {"result": {"content": [{"type": "text", "text": "\n".join(str(number) for number in range(200))}]}}
        if name == "wrong":
            answer = {"result": 5}
        if name == "waits":
            continue
        if name == "dies":
            print("last words", file=sys.stderr, flush=True)
            os._exit(7)
        if name == "asks":
            print(json.dumps({"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}}), flush=True)
            asked = json.loads(sys.stdin.readline())
            answer = {"result": {"content": [{"type": "text", "text": json.dumps(asked.get("result", asked.get("error")))}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;

#[test]
fn calls_that_end_in_other_ways_are_reported() {
    let calls = ["mixed", "structured", "huge", "asks", "wrong", "dies", "mixed"];
    let calls: Vec<_> =
        calls.iter().flat_map(|name| ["--call", name]).chain(["--prompt", "p", "--read", "r:1"]).collect();
    let server = ["stdio", "--", "python3", "-c", ODD];
    let output = probe(&[&["--era", "legacy"], &calls[..], &server].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    check("odd.txt", &settled(&text(&output.stdout)));
    let output = probe(&[&["--json", "--era", "legacy"], &calls[..], &server].concat());
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    settle(&mut report);
    check("odd.json", &format!("{report:#}\n"));
    // What is asked for has an answer.
    let answered = ["--answer", r#"elicitation/create={"action":"accept","content":{"name":"Ada"}}"#, "--call", "asks"];
    let output = probe(&[&["--era", "legacy"], &answered[..], &server].concat());
    assert!(text(&output.stdout).contains("Ada"), "{output:?}");
}

#[test]
fn a_server_that_cannot_be_reached_is_reported_with_the_cause() {
    let script = "echo 'Error: GITHUB_TOKEN is not set' >&2; exit 1";
    let args = ["stdio", "--", "sh", "-c", script, "postgres://ada:hush-password@a/b"];
    let output = probe(&args);
    assert_eq!(output.status.code(), Some(1));
    check("failed.txt", &settled(&text(&output.stdout)));
    let output = probe(&[&["--json"], &args[..]].concat());
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    settle(&mut report);
    check("failed.json", &format!("{report:#}\n"));
}

#[test]
fn a_password_in_an_argument_is_in_no_output() {
    let script = "echo 'no way to postgres://ada:hush-password@a/b, bye' >&2; exit 1";
    let journal = File::new("secrets.journal");
    let args = ["stdio", "--", "sh", "-c", script, "postgres://ada:hush-password@a/b"];
    for options in [&["--json"][..], &["--diagram"], &["--journal", journal.path()]] {
        let output = probe(&[options, &args].concat());
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.contains("hush") && shown.contains("secret1"), "{shown}");
    }
    assert!(!std::fs::read_to_string(&journal.0).unwrap().contains("hush"));
}

/// A server over HTTP that answers in JSON and in events.
const WEB: &str = r#"
import http.server, json

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, kind, body):
        self.send_response(status)
        for name, value in (("content-type", kind), ("mcp-session-id", "s1"), ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.answer(405, "text/plain", "")

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.answer(202, "text/plain", "")
        method, params = message["method"], message.get("params", {})
        of = lambda **more: json.dumps({"jsonrpc": "2.0", "id": message["id"], **more})
        if method == "initialize":
            version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}
            return self.answer(200, "application/json", of(result=version))
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("counts", "gone", "page")]
            return self.answer(200, "text/event-stream", ": a comment\n\ndata: " + of(result={"tools": tools}) + "\n\n")
        if params.get("name") == "counts":
            log = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}})
            return self.answer(200, "text/event-stream", "event: message\ndata: " + log + "\n\ndata: " + of(result={"content": [{"type": "text", "text": "1"}]}) + "\n\n")
        if params.get("name") == "page":
            return self.answer(500, "text/html", "<p>it broke</p>")
        self.answer(403, "text/plain", "not for you")

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A process that is killed.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_server_over_http_is_reported_with_what_passed() {
    let mut server = Command::new("python3").args(["-c", WEB]).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let (port, _server) = (port.trim().to_owned(), Killed(server));
    let url = format!("http://127.0.0.1:{port}/mcp?key=value");
    let calls = ["--call", "counts", "--call", "page", "--call", "gone"];
    let output = probe(&[&["--era", "legacy", "--diagram"], &calls[..], &["http", &url]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = settled(&text(&output.stdout)).replace(&port, "PORT");
    let (report, diagram) = text.split_once("sequenceDiagram\n").unwrap();
    check("web.txt", report);
    // The order of what is under way at the same time differs.
    let mut lines: Vec<_> = diagram.lines().map(without_id).collect();
    lines.sort();
    check("web-diagram.txt", &(lines.join("\n") + "\n"));
}
