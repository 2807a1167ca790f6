//! Which rows of the tables a run takes, for `.ci/rows`.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// The rows that were taken so far, and the file to which each is written once.
struct Taken {
    seen: Mutex<BTreeSet<String>>,
    file: File,
}

/// Records a row in the folder that `MCP_ROWS` names, in one file per process. Without `MCP_ROWS`, it does nothing.
pub(super) fn taken(table: &str, row: &[&dyn Debug]) {
    static TAKEN: OnceLock<Option<Taken>> = OnceLock::new();
    let open = || {
        let path = PathBuf::from(std::env::var_os("MCP_ROWS")?).join(format!("{}.taken", std::process::id()));
        let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
        Some(Taken { seen: Mutex::default(), file })
    };
    let Some(taken) = TAKEN.get_or_init(open) else { return };
    let line = line(table, row);
    let Ok(mut seen) = taken.seen.lock() else { return };
    if seen.insert(line.clone()) {
        let _ = writeln!(&taken.file, "{line}");
    }
}

/// A row as it is written: the table, and its inputs.
fn line(table: &str, row: &[&dyn Debug]) -> String {
    row.iter().fold(String::from(table), |line, part| format!("{line}\t{part:?}"))
}
