//! Connects to an MCP server, and reports what it is, what it offers and what it gets wrong.
//!
//! Every protocol decision is the library's; here are only input, output and printing.

mod advice;
mod answers;
mod args;
mod child;
mod demo;
mod diagram;
mod events;
#[path = "../http/exchanges.rs"]
mod exchanges;
mod link;
mod people;
mod progress;
mod raw;
mod record;
mod relay;
mod report;
mod run;
mod step;
mod text;
mod trace;
mod tree;
mod web;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use self::args::{Invocation, Settings};
use self::report::Report;

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Help) => status(print(args::HELP.as_bytes()), true),
        Ok(Invocation::DemoServer { watched }) => status(demo::serve(watched), true),
        Ok(Invocation::Run(settings)) => probe(&settings),
        Err(wrong) => {
            complain(&format!("probe: {wrong}\nTry --help.\n"));
            ExitCode::from(2)
        }
    }
}

fn probe(settings: &Settings) -> ExitCode {
    let run::Outcome { session, record, trace } = run::run(settings);
    let report = Report::new(&session, &record);
    let printed = if settings.json {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let written = serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from);
        written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush())
    } else {
        let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        print(people::render(&report, &session, &record, colours).as_bytes())
    };
    let printed = match trace.steps() {
        Some(steps) if settings.json => {
            complain(&diagram::render(steps));
            printed
        }
        Some(steps) => printed.and_then(|()| print(format!("\n{}", diagram::render(steps)).as_bytes())),
        None => printed,
    };
    status(printed, report.is_good())
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Whoever closed standard error does not want to hear.
fn complain(message: &str) {
    let _ = io::stderr().write_all(message.as_bytes());
}

/// A reader that has seen enough, `head` say, is no error.
fn status(printed: io::Result<()>, good: bool) -> ExitCode {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("probe: standard output: {error}\n"));
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) if good => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}
