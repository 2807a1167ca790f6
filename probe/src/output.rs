//! Prints to the standard streams, and says how the program ends.

use std::io::{BufWriter, ErrorKind, IsTerminal, Result, Write, stderr, stdout};
use std::process::ExitCode;

pub(crate) fn misused(wrong: &str) -> ExitCode {
    write_stderr(&format!("probe: {wrong}\n"));
    ExitCode::from(2)
}

pub(crate) fn print_json(report: &impl serde::Serialize) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    serde_json::to_writer_pretty(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}

pub(crate) fn colours() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

pub(crate) fn print(bytes: &[u8]) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Ignores errors: standard error may be closed.
pub(crate) fn write_stderr(message: &str) {
    let _ = stderr().write_all(message.as_bytes());
}

/// A closed output, as with `head`, is not an error.
pub(crate) fn status(printed: Result<()>, good: bool) -> ExitCode {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            write_stderr(&format!("probe: standard output: {error}\n"));
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) if good => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}
