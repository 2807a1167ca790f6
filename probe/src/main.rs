//! Connects to an MCP server, and reports what it is, what it offers and where it deviates from the protocol.
//!
//! The library makes every protocol decision; this program contains only I/O and printing.

mod args;
mod auth;
mod demo;
mod file;
mod find;
mod interrupt;
mod journal;
mod json;
mod oauth;
mod observer;
mod peer;
mod raw;
mod record;
mod report;
mod run;
mod secrets;
mod stderr;
mod text;
mod text_report;
mod trace;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use self::args::{Invocation, Settings, Target, Task};
use self::interrupt::Interrupt;
use self::journal::Journal;
use self::peer::Ended;
use self::report::{Report, ReportAll};
use self::run::on_runtime;
use self::stderr::Copier;
use self::text::{colours, misused, print, print_json, status, write_stderr};

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Print(text)) => status(print(&text), true),
        Ok(Invocation::DemoServer { watched }) => status(demo::schedule::serve(watched), true),
        Ok(Invocation::Do(settings, task)) => act(&settings.into(), task),
        Err(wrong) => misused(&format!("{wrong}\nTry --help.")),
    }
}

fn act(settings: &Arc<Settings>, task: Task) -> ExitCode {
    match task {
        Task::Run(target) => probe(settings, &target),
        Task::RunAll(file, servers) => probe_all(settings, &file, &servers),
        Task::Find => find::found().print(settings),
        Task::Replay(file) => replayed(settings, &file),
        Task::Auth(url) => {
            settings.given([&*url]);
            let report = async |interrupt: &mut Interrupt, _| auth::report(settings, url, interrupt).await;
            match run(false, report) {
                Ok(report) => report.print(settings),
                Err(status) => status,
            }
        }
    }
}

/// Runs this until its end, an error in the usage, or a signal: then there is no report.
fn run<T>(is_hub: bool, work: impl AsyncFnOnce(&mut Interrupt, Copier) -> Result<T, String>) -> Result<T, ExitCode> {
    match on_runtime(is_hub, work) {
        Ok((_, Some(status))) => Err(status.into()),
        Ok((Ok(result), None)) => Ok(result),
        Ok((Err(wrong), None)) => Err(misused(&wrong)),
        Err(error) => {
            write_stderr(&format!("probe: {error}\n"));
            Err(ExitCode::FAILURE)
        }
    }
}

fn probe(settings: &Arc<Settings>, target: &Target) -> ExitCode {
    let given = settings.given(target.texts());
    let work = async |interrupt: &mut Interrupt, copier| {
        let journal = settings.journal.as_deref().map_or(Ok(Journal::none()), Journal::create);
        let journal = journal.map_err(|error| format!("--journal: {error}"))?;
        run::run(settings, target, &given, journal, interrupt, copier).await
    };
    match run(false, work) {
        Ok(ended) => report_on(settings, &ended),
        Err(status) => status,
    }
}

fn replayed(settings: &Arc<Settings>, file: &Path) -> ExitCode {
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
fn report_on(settings: &Settings, ended: &Ended) -> ExitCode {
    let Ended { session, peer } = ended;
    let names = report::names(&peer.name, session);
    let report = Report::new(&peer.name, session, &peer.record, &names);
    let printed =
        if settings.json { print_json(&report) } else { print(&text_report::render(&report, ended, colours())) };
    let printed = match peer.trace.steps() {
        Some(steps) if settings.json => {
            write_stderr(&trace::render(steps));
            printed
        }
        Some(steps) => printed.and_then(|()| print(&format!("\n{}", trace::render(steps)))),
        None => printed,
    };
    status(printed, report.is_good())
}

fn probe_all(settings: &Arc<Settings>, file: &Path, servers: &[String]) -> ExitCode {
    let mut plan = match file::load(file, servers, &settings.headers) {
        Ok(plan) => plan,
        Err(wrong) => return misused(&wrong),
    };
    settings.given([]);
    plan.keep_secrets();
    for trouble in plan.errors.iter().chain(&plan.warnings) {
        write_stderr(&format!("probe: {}\n", text::one_line(&trouble.message)));
    }
    let work = async |interrupt: &mut Interrupt, copier| run::run_all(settings, &mut plan, interrupt, copier).await;
    let ended = match run(true, work) {
        Ok(ended) => ended,
        Err(status) => return status,
    };
    let report = ReportAll::new(&plan, &ended);
    let printed =
        if settings.json { print_json(&report) } else { print(&text_report::render_all(&report, &ended, colours())) };
    status(printed, report.is_good())
}
