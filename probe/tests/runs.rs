//! How runs of the program end.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Runs the program; with no subcommand among the arguments, with its demo server.
fn probe(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcp-probe")).args(args).stdin(Stdio::null()).output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_run_that_a_signal_ends_has_the_status_that_shells_give_and_no_report() {
    for (signal, status) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        // The server sends it to its parent.
        let script = format!("kill -{signal} $PPID; exec sleep 1000");
        let output = probe(&["stdio", "--", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// `.ci/windows` builds a server that presses Ctrl-C in its parent's console.
#[cfg(windows)]
#[test]
fn a_run_that_ctrl_c_ends_has_the_status_that_shells_give_and_no_report() {
    use std::os::windows::process::CommandExt;

    /// A console of its own.
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    let Some(server) = std::env::var_os("MCP_CONSOLE") else {
        return println!("skipped: MCP_CONSOLE names no server");
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-probe"));
    command.args(["--timeout", "20", "stdio", "--"]).arg(server).stdin(Stdio::null()).creation_flags(CREATE_NO_WINDOW);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_run_with_the_demo_server_ends_well() {
    let output = probe(&["--json", "--call", "echo", "--args", r#"{"text":"hi"}"#]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["calls"][0]["outcome"], "result", "{report}");
}

#[test]
fn a_run_takes_no_less_than_its_time_for_a_call_that_does_not_end() {
    let start = Instant::now();
    let output = probe(&["--json", "--timeout", "2", "--call", "sleep", "--args", r#"{"ms":60000}"#]);
    assert!(start.elapsed() >= Duration::from_secs(2));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["calls"][0]["outcome"], "timeout", "{report}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_of_the_file_of_a_journal_is_told_once_and_the_run_goes_on() {
    let output = probe(&["--journal", "/dev/full", "--call", "echo"]);
    let told = String::from_utf8(output.stderr).unwrap();
    let is_about_it = |line: &&str| line.starts_with("probe: the journal /dev/full: No space left on device");
    assert_eq!(told.lines().filter(is_about_it).count(), 1, "{told}");
    assert_eq!(output.status.code(), Some(0), "{told}");
}

/// A server with one tool, which is that of `tools/list` as this expression of Python has it.
fn with_tool(tool: &str) -> Value {
    let script = format!(
        r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {{"error": {{"code": -32601, "message": "no such method"}}}}
    if message["method"] == "initialize":
        answer = {{"result": {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "s", "version": "1"}}}}}}
    if message["method"] == "tools/list":
        answer = {{"result": {{"tools": [{tool}]}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **answer}}), flush=True)
"#
    );
    let output = probe(&["--json", "stdio", "--", "python3", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // This parser takes neither `NaN` nor half of a surrogate pair.
    serde_json::from_slice(&output.stdout).unwrap()
}

/// mantine #8792: the default of Python's `json.dumps`.
#[test]
fn a_default_that_is_no_number_leaves_the_tool_and_the_report_is_json() {
    let tool = r#"{"name": "scale", "inputSchema": {"type": "object", "properties": {"by": {"type": "number", "default": float("nan")}}}}"#;
    let report = with_tool(tool);
    let text = report.to_string();
    assert!(text.contains("\"scale\"") && !text.contains("NaN\":"), "{report}");
    assert!(report["quirks"].as_array().unwrap().iter().any(|quirk| quirk["kind"] == "repaired"), "{report}");
}

/// playwright-mcp #1410: a text that was cut in UTF-16.
#[test]
fn half_of_a_surrogate_pair_in_a_description_is_one_character_of_the_report() {
    let tool = r#"{"name": "look", "description": "Looks \ud83d", "inputSchema": {"type": "object"}}"#;
    let report = with_tool(tool);
    assert!(report.to_string().contains("Looks \u{fffd}"), "{report}");
    assert!(report["quirks"].as_array().unwrap().iter().any(|quirk| quirk["kind"] == "lone-surrogate"), "{report}");
}
