//! What only Windows has: batch files and their arguments, and names that a command line has to quote.
#![cfg(windows)]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_proto::{FailureKind, Options};
use mcp_proto_std::{Piece, Process, Program, Session};
use serde_json::{Value, json};

#[path = "../../tests/system.rs"]
mod system;

use system::is_alive;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: &str = env!("CARGO_BIN_EXE_mcp-proto-std-test-server");

/// A folder with blanks in its name, with the server, and with a batch file that starts it as that of `npx` starts Node.js.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcp proto std {} {name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(SERVER, folder.join("the server.exe")).unwrap();
    std::fs::write(folder.join("npx.cmd"), "@echo off\r\n\"%~dp0the server.exe\" serve %*\r\n").unwrap();
    folder
}

/// `npx` of this folder, by its name alone.
fn npx(folder: &Path) -> Program {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_path_buf()].into_iter().chain(std::env::split_paths(&path));
    Program::new("npx").env("PATH", std::env::join_paths(folders).unwrap())
}

fn connect(program: Program) -> Session {
    Session::connect(program, Options::new("test", "1.0")).unwrap()
}

fn value(session: &mut Session, tool: &str) -> Value {
    session.call_tool(tool, &json!({})).unwrap().to().unwrap()
}

/// What the server has as its arguments.
fn received(program: Program) -> Vec<String> {
    let mut session = connect(program);
    let args = serde_json::from_value(value(&mut session, "arguments")["arguments"].take()).unwrap();
    session.end();
    args
}

/// Wine's `cmd` reads some of them in a way of its own.
fn is_wine() -> bool {
    std::env::var_os("WINEPREFIX").is_some()
}

#[test]
fn a_batch_file_is_found_by_its_name_and_gets_its_arguments_as_they_are() {
    let folder = folder("arguments");
    let given = ["-y", "@ada/server@1.0", "two words", r"C:\a folder", "", "a;b,c=d", "key=a value", "!x!", "(a)", "ü"];
    let args = received(npx(&folder).args(given));
    assert_eq!(args[1..], [&["serve"], given.as_slice()].concat());
    let given = ["say \"hi\"", "100%", "%PATH%", "a&b|c<d>e", "a^b", r"C:\a folder\"];
    let args = received(npx(&folder).args(given));
    println!("{args:?}");
    assert!(is_wine() || args[1..] == [&["serve"], given.as_slice()].concat(), "{args:?}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_argument_that_no_batch_file_can_have_is_refused() {
    let folder = folder("refused");
    let failed = Session::connect(npx(&folder).arg("two\r\nlines"), Options::new("test", "1.0")).unwrap_err();
    assert_eq!(failed.failure.kind, FailureKind::Spawn, "{failed}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn all_that_a_batch_file_started_ends_with_the_session() {
    let folder = folder("tree");
    for is_dropped in [true, false] {
        let mut session = connect(npx(&folder));
        let server = value(&mut session, "echo")["pid"].as_u64().unwrap().try_into().unwrap();
        let helper = session.call_tool("helper", &json!({})).unwrap().text().parse().unwrap();
        // The batch file's own process is the one that was started.
        assert!(is_alive(server) && is_alive(helper));
        if is_dropped {
            drop(session);
        } else {
            session.end();
        }
        let start = Instant::now();
        while is_alive(server) || is_alive(helper) {
            assert!(start.elapsed() < PATIENCE, "dropped: {is_dropped}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_program_has_a_console_of_its_own_so_that_ctrl_c_in_this_one_does_not_end_it() {
    let Some(console) = std::env::var_os("MCP_CONSOLE") else {
        return println!("skipped: MCP_CONSOLE names no program, which `.ci/windows` builds");
    };
    let mut process = Process::start(&Program::new(console).arg("count")).unwrap();
    let closed = process.read_until(Some(Instant::now() + PATIENCE));
    // It is alone there.
    assert!(matches!(&closed, Some(Piece::Closed { why }) if why == "exit code: 1"), "{closed:?}");
}

#[test]
fn names_and_arguments_may_have_blanks_quotes_and_backslashes() {
    let folder = folder("blanks");
    let given = ["a b", "say \"hi\"", r"C:\a folder\", r#"\""#, "100%", "%PATH%", "a&b|c<d>e^f", "", "ü"];
    for name in ["the server.exe", "the server"] {
        let program = Program::new(folder.join(name)).arg("serve").args(given).current_dir(&folder);
        let args = received(program);
        assert_eq!(args[1..], [&["serve"], given.as_slice()].concat());
    }
    std::fs::remove_dir_all(folder).unwrap();
}
