//! Which rows of the tables a run takes, for `.ci/rows`, and what a run does with another row, for `.ci/flips`.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use super::table::Values;
use super::{Row, Verdict};

/// The rows that were taken so far, and the file to which each is written once.
struct Taken {
    seen: Mutex<BTreeSet<String>>,
    file: File,
}

/// None if this run records no rows.
fn taken() -> Option<&'static Taken> {
    static TAKEN: OnceLock<Option<Taken>> = OnceLock::new();
    let taken = TAKEN.get_or_init(|| {
        let path = PathBuf::from(std::env::var_os("MCP_ROWS")?).join(format!("{}.taken", std::process::id()));
        let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
        Some(Taken { seen: Mutex::default(), file })
    });
    taken.as_ref()
}

/// Records the row of a state table. Returns another row if `MCP_FLIP` names this one: none instead of one that changes
/// something, and what the input causes in another state instead of one that changes nothing. A command that no state acts on
/// is refused instead of accepted, or accepted instead of refused.
///
/// # Panics
/// Rows are recorded, and the table says that the input cannot arrive in this state.
pub(super) fn step<S: Values + PartialEq, I: Values, E: PartialEq>(
    table: &str,
    row: fn(S, I) -> Row<S, E>,
    state: S,
    input: I,
) -> Option<Row<S, E>> {
    let acts = |row: &Row<S, E>| match row.verdict {
        Verdict::Advance => row.next != state || !row.effects.is_empty(),
        Verdict::Quirk(_) => true,
        Verdict::Ignore | Verdict::Never | Verdict::Reject => false,
    };
    if taken().is_some() {
        row(state, input).verdict.check(table, &state, &input);
    }
    flipped(table, &[&state, &input], || {
        if acts(&row(state, input)) {
            return Some(Row::ignore(state));
        }
        let refused = |row: &Row<S, E>| row.verdict == Verdict::Reject;
        let others = || S::all().into_iter().map(|state| row(state, input));
        others().find(acts).or_else(|| others().find(|other| refused(other) != refused(&row(state, input))))
    })
}

/// Records the row of a decision table. Another decision, if `MCP_FLIP` names this row.
pub(super) fn decide<D: Debug>(
    table: &str,
    columns: &[&dyn Debug],
    decided: &D,
    sizes: &[usize],
    at: fn(&[usize]) -> Option<D>,
) -> Option<D> {
    flipped(table, columns, || {
        let decided = format!("{decided:?}");
        let index = |number: usize| -> Vec<usize> {
            let mut number = number;
            let mut digit = |size: &usize| {
                let digit = number.checked_rem(*size).unwrap_or_default();
                number = number.checked_div(*size).unwrap_or_default();
                digit
            };
            sizes.iter().map(&mut digit).collect()
        };
        let mut all = (0..sizes.iter().product()).filter_map(|number| at(&index(number)));
        all.find(|other| format!("{other:?}") != decided)
    })
}

/// Records a row in the folder that `MCP_ROWS` names, in one file per process: `+`, or `-` if there is no other row, the table,
/// and the inputs. Without `MCP_ROWS`, it records nothing. Returns the other row if `MCP_FLIP` names this one.
fn flipped<T>(table: &str, inputs: &[&dyn Debug], other: impl Fn() -> Option<T>) -> Option<T> {
    static FLIP: OnceLock<Option<String>> = OnceLock::new();
    let taken = taken();
    let flip = FLIP.get_or_init(|| std::env::var("MCP_FLIP").ok()).as_deref();
    // Rows of other tables are not formatted, which takes long.
    let flip = flip.filter(|row| row.split('\t').next() == Some(table));
    if taken.is_none() && flip.is_none() {
        return None;
    }
    let row = inputs.iter().fold(String::from(table), |row, input| format!("{row}\t{input:?}"));
    if let Some(taken) = taken
        && let Ok(mut seen) = taken.seen.lock()
        && !seen.contains(&row)
    {
        let _ = writeln!(&taken.file, "{}\t{row}", if other().is_some() { '+' } else { '-' });
        seen.insert(row.clone());
    }
    if flip == Some(&*row) { other() } else { None }
}
