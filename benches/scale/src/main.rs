//! Measures how cost and memory grow with each parameter.
//!
//! Each row of the table of `Limits` names something that a server or an embedder can make large. A case with that name
//! does so at four sizes. Callgrind counts instructions, and the allocator counts allocations.

mod cases;
mod meter;
mod peer;
mod suite;
mod table;
mod web;

use std::process::ExitCode;

const USAGE: &str = "\
scale list                  the parameters, and whether the table and the cases agree
scale run PARAM:N,N... ...  runs cases at these sizes: n, bytes in, peak, allocations, bytes allocated
scale check [PARAM...]      runs cases under callgrind at four sizes, prints a table, fails where one grows too fast";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
    let done = match &*arguments {
        ["list"] => {
            cases::all().iter().for_each(|case| println!("{}", case.name));
            table::check()
        }
        ["run", cases @ ..] => cases.iter().try_for_each(|case| run(case)),
        ["check", names @ ..] => match (suite::check(names), table::check()) {
            (Err(cases), Err(table)) => Err(format!("{cases}\n{table}")),
            (Err(why), Ok(())) | (Ok(()), Err(why)) => Err(why),
            (Ok(()), Ok(())) => Ok(()),
        },
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(case: &str) -> Result<(), String> {
    let (name, sizes) = case.split_once(':').ok_or(USAGE)?;
    let case = cases::find(name).ok_or_else(|| format!("there is no case `{name}`"))?;
    for size in sizes.split(',') {
        let n = size.parse().map_err(|_| format!("`{size}` is no size"))?;
        let meter::Cost { input, peak, blocks, bytes } = (case.run)(n);
        println!("{n} {input} {peak} {blocks} {bytes}");
    }
    Ok(())
}
