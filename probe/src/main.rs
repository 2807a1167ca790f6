//! Connects to an MCP server, and reports what it is, what it offers and what it gets wrong.
//!
//! Every protocol decision is the library's; here are only input, output and printing.
//!
//! `probe config FILE` does so with the servers of a configuration file side by side, and reports what a model would get
//! of them all. Its JSON report, beside what `--help` says of it: `servers` has the report that each server would have
//! alone; one that is turned off is never opened, and has the outcome `disabled`; one whose entry is of no use has
//! `failed`, its failure of the kind `configuration`. `exposedName` is what the toolset has, `null` for a tool that is
//! left out of it. Calls are made by exposed names, once every server is ready or failed, and stand in `calls` beside
//! `servers`.

mod advice;
mod answers;
mod args;
mod child;
mod client;
mod course;
mod demo;
mod diagram;
mod engine;
mod events;
mod exchanges;
mod file;
mod interrupt;
mod io;
mod offered;
mod peer;
mod people;
mod people_all;
mod progress;
mod raw;
mod record;
mod relay;
mod report;
mod report_all;
mod run;
mod step;
mod text;
mod trace;
mod web;

use std::io::{BufWriter, ErrorKind, IsTerminal, Result, Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use self::args::{Invocation, Settings, Target};
use self::interrupt::Interrupt;
use self::report::Report;
use self::report_all::ReportAll;

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Help) => status(print(args::HELP.as_bytes()), true),
        Ok(Invocation::DemoServer { watched }) => status(demo::serve(watched), true),
        Ok(Invocation::Run { settings, target }) => run(|interrupt| probe(&settings, &target, interrupt)),
        Ok(Invocation::RunAll { settings, file, servers }) => {
            run(|interrupt| probe_all(&settings, &file, &servers, interrupt))
        }
        Err(wrong) => misused(&format!("{wrong}\nTry --help.")),
    }
}

fn misused(wrong: &str) -> ExitCode {
    complain(&format!("probe: {wrong}\n"));
    ExitCode::from(2)
}

/// Runs until the end, or until a signal. Then there is no report.
fn run(probe: impl FnOnce(&Interrupt) -> ExitCode) -> ExitCode {
    match Interrupt::listen() {
        Ok(interrupt) => probe(&interrupt),
        Err(error) => {
            complain(&format!("probe: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn probe(settings: &Settings, target: &Target, interrupt: &Interrupt) -> ExitCode {
    let run::Ended { session, peer } = run::run(settings, target, interrupt);
    if let Some(status) = interrupt.status() {
        return status.into();
    }
    let names = report::names(&peer.name, &session);
    let report = Report::new(&peer.name, &session, &peer.record, &names);
    let printed = if settings.json {
        print_json(&report)
    } else {
        print(people::render(&report, &session, &peer, colours()).as_bytes())
    };
    let printed = match peer.trace.steps() {
        Some(steps) if settings.json => {
            complain(&diagram::render(steps));
            printed
        }
        Some(steps) => printed.and_then(|()| print(format!("\n{}", diagram::render(steps)).as_bytes())),
        None => printed,
    };
    status(printed, report.is_good())
}

fn probe_all(settings: &Settings, file: &Path, servers: &[String], interrupt: &Interrupt) -> ExitCode {
    let mut plan = match file::load(file, servers, &settings.headers) {
        Ok(plan) => plan,
        Err(wrong) => return misused(&wrong),
    };
    for trouble in plan.errors.iter().chain(&plan.warnings) {
        complain(&format!("probe: {}\n", text::one_line(&trouble.message)));
    }
    let ended = run::run_all(settings, &mut plan, interrupt);
    if let Some(status) = interrupt.status() {
        return status.into();
    }
    let report = ReportAll::new(&plan, &ended);
    let printed = if settings.json {
        print_json(&report)
    } else {
        print(people_all::render(&report, &ended, colours()).as_bytes())
    };
    status(printed, report.is_good())
}

fn print_json(report: &impl serde::Serialize) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    serde_json::to_writer_pretty(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn colours() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn print(bytes: &[u8]) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Whoever closed standard error does not want to hear.
fn complain(message: &str) {
    let _ = stderr().write_all(message.as_bytes());
}

/// A reader that has seen enough, `head` say, is no error.
fn status(printed: Result<()>, good: bool) -> ExitCode {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("probe: standard output: {error}\n"));
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) if good => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}
