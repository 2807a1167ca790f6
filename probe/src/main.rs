//! Connects to an MCP server, and reports what it is, what it offers and where it deviates from the protocol.
//!
//! The library makes every protocol decision; this program contains only I/O and printing.

mod args;
mod auth;
mod demo;
mod drive;
mod engine;
mod file;
mod journal;
mod oauth;
mod peer;
mod process;
mod raw;
mod report;
mod run;
mod text;
mod text_report;
mod trace;
mod web;

use std::path::Path;
use std::process::ExitCode;

use self::args::{Invocation, Settings, Target, Task};
use self::journal::Journal;
use self::report::{Report, ReportAll};
use self::run::Interrupt;
use self::text::{colours, misused, print, print_json, status, write_stderr};

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Print(text)) => status(print(text.as_bytes()), true),
        Ok(Invocation::DemoServer { watched }) => status(demo::schedule::serve(watched), true),
        Ok(Invocation::Do(settings, Task::Run(target))) => run(|interrupt| probe(&settings, &target, interrupt)),
        Ok(Invocation::Do(settings, Task::RunAll(file, servers))) => {
            run(|interrupt| probe_all(&settings, &file, &servers, interrupt))
        }
        Ok(Invocation::Do(settings, Task::Replay(file))) => replayed(&settings, &file),
        Ok(Invocation::Do(settings, Task::Auth(url))) => run(|interrupt| auth::report(&settings, url, interrupt)),
        Err(wrong) => misused(&format!("{wrong}\nTry --help.")),
    }
}

/// Runs until the end or a signal. After a signal there is no report.
fn run(probe: impl FnOnce(&Interrupt) -> ExitCode) -> ExitCode {
    match Interrupt::listen() {
        Ok(interrupt) => probe(&interrupt),
        Err(error) => {
            write_stderr(&format!("probe: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn probe(settings: &Settings, target: &Target, interrupt: &Interrupt) -> ExitCode {
    let journal = match settings.journal.as_deref().map_or(Ok(Journal::none()), Journal::create) {
        Ok(journal) => journal,
        Err(error) => return misused(&format!("--journal: {error}")),
    };
    let ended = match run::run(settings, target, journal, interrupt) {
        Ok(ended) => ended,
        Err(wrong) => return misused(&wrong),
    };
    if let Some(status) = interrupt.status() {
        return status.into();
    }
    report_on(settings, &ended)
}

fn replayed(settings: &Settings, file: &Path) -> ExitCode {
    match journal::replay(settings, file) {
        Ok((ended, None)) => report_on(settings, &ended),
        Ok((ended, Some(cut))) => {
            let _ = report_on(settings, &ended);
            write_stderr(&format!("probe: {}: {cut}\n", file.display()));
            ExitCode::FAILURE
        }
        Err(journal::Failed::File(error)) => misused(&format!("--replay: {}: {error}", file.display())),
        Err(journal::Failed::Journal(error)) => {
            write_stderr(&format!("probe: {}: {error}\n", file.display()));
            ExitCode::FAILURE
        }
    }
}

/// Prints the report of a run.
fn report_on(settings: &Settings, ended: &run::Ended) -> ExitCode {
    let run::Ended { session, peer } = ended;
    let names = report::names(&peer.name, session);
    let report = Report::new(&peer.name, session, &peer.record, &names);
    let printed = if settings.json {
        print_json(&report)
    } else {
        print(text_report::render(&report, ended, settings, colours()).as_bytes())
    };
    let printed = match peer.trace.steps() {
        Some(steps) if settings.json => {
            write_stderr(&trace::render(steps));
            printed
        }
        Some(steps) => printed.and_then(|()| print(format!("\n{}", trace::render(steps)).as_bytes())),
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
        write_stderr(&format!("probe: {}\n", text::one_line(&trouble.message)));
    }
    let ended = match run::run_all(settings, &mut plan, interrupt) {
        Ok(ended) => ended,
        Err(wrong) => return misused(&wrong),
    };
    if let Some(status) = interrupt.status() {
        return status.into();
    }
    let report = ReportAll::new(&plan, &ended);
    let printed = if settings.json {
        print_json(&report)
    } else {
        print(text_report::render_all(&report, &ended, settings, colours()).as_bytes())
    };
    status(printed, report.is_good())
}
