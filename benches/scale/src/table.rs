//! The table of growing parameters in the documentation of `Limits`.

use std::collections::{BTreeMap, BTreeSet};

use crate::cases;

const TABLE: &str = include_str!("../../../src/client/growth.md");
const LIMITS: &str = include_str!("../../../src/client/options.rs");
const MESSAGE_LIMITS: &str = include_str!("../../../src/jsonrpc/decode.rs");

/// The parameters of the table, with the text of their rows.
fn rows() -> Result<BTreeMap<&'static str, &'static str>, String> {
    let mut rows = BTreeMap::new();
    for line in TABLE.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, rest) = line.split_once('`').ok_or_else(|| format!("a row without a name: {line}"))?;
        if rows.insert(name, rest).is_some() {
            return Err(format!("two rows are about `{name}`"));
        }
    }
    Ok(rows)
}

/// The fields of `Limits`; those of a message start with `message.`.
fn limits() -> BTreeSet<String> {
    let own = fields(LIMITS).filter(|name| *name != "message").map(String::from);
    own.chain(fields(MESSAGE_LIMITS).map(|name| format!("message.{name}"))).collect()
}

/// The public fields of the struct `Limits` in a source file.
fn fields(source: &'static str) -> impl Iterator<Item = &'static str> {
    let body = source.split_once("pub struct Limits {").map_or("", |(_, rest)| rest);
    let lines = body.lines().take_while(|line| *line != "}");
    lines.filter_map(|line| Some(line.trim().strip_prefix("pub ")?.split_once(':')?.0))
}

/// Checks that the table and the cases have the same parameters, and that every limit bounds one of them.
pub fn check() -> Result<(), String> {
    let rows = rows()?;
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for case in cases::all() {
        if !names.insert(case.name) {
            wrong.push(format!("two cases are about `{}`", case.name));
        }
        if !rows.contains_key(case.name) {
            wrong.push(format!("the table beside `Limits` has no row `{}`", case.name));
        }
    }
    wrong.extend(rows.keys().filter(|row| !names.contains(*row)).map(|row| format!("the row `{row}` has no case")));
    let limits = limits();
    if limits.len() < 2 {
        wrong.push("no limits were found".into());
    }
    for limit in limits {
        if !rows.values().any(|row| row.contains(&format!("`{limit}`"))) {
            wrong.push(format!("no row names the limit `{limit}`"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
