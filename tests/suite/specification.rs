//! Checks `tests/spec/requirements.md`: each requirement of the specification has a test that exists, or a reason; and
//! `tests/spec/authorization.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const REQUIREMENTS: &str = include_str!("../spec/requirements.md");
const AUTHORIZATION: &str = include_str!("../spec/authorization.md");
const DUTIES: &str = include_str!("../../src/guide/duties.md");

struct Row<'a> {
    number: usize,
    level: &'a str,
    state: &'a str,
    shown_by: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let rows = REQUIREMENTS.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix('|')?.strip_suffix('|')?.split(" | ").map(str::trim).collect();
        let number = cells.first()?.parse().ok()?;
        let [_, _, _, level, _, state, shown_by] = cells[..] else { panic!("row {number} does not have 7 columns") };
        Some(Row { number, level, state, shown_by })
    });
    rows.collect()
}

/// The names between backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of all test functions below a folder.
fn tests_in(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_in(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for part in text.split("#[test]").skip(1) {
                let name = part.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).map(|(name, _)| name);
                names.extend(name.map(str::to_owned));
            }
        }
    }
}

#[test]
fn each_requirement_has_a_test_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeSet::new();
    tests_in(&root.join("src"), &mut tests);
    tests_in(&root.join("tests"), &mut tests);
    let duties: BTreeSet<_> = DUTIES.lines().filter_map(|line| line.strip_prefix("# ")).collect();

    let mut flaws = Vec::new();
    for Row { number, level, state, shown_by } in rows() {
        let named: Vec<_> = names(shown_by).collect();
        let reason = shown_by.split('`').step_by(2).any(|text| !text.trim().is_empty());
        let known = named.iter().all(|name| tests.contains(*name));
        let is_must = level.starts_with("MUST");
        let sound = match state {
            "not yet" if is_must => false,
            "kept" => !named.is_empty() && known && !reason,
            "deviation" => reason && named.iter().any(|name| tests.contains(*name)),
            "embedder" => duties.contains(shown_by),
            "by design" | "not yet" => reason,
            _ => false,
        };
        if !sound {
            flaws.push(format!("{number}: {state}: {shown_by}"));
        }
    }
    assert!(flaws.is_empty(), "requirements without a test that exists, or without a reason:\n{}", flaws.join("\n"));
}

#[test]
fn each_situation_of_an_authorization_has_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeSet::new();
    tests_in(&root.join("src"), &mut tests);
    tests_in(&root.join("tests"), &mut tests);
    let rows = AUTHORIZATION.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let mut count = 0;
    for (situation, shown_by) in rows.filter(|(situation, _)| *situation != "situation" && !situation.starts_with('-'))
    {
        let missing: Vec<_> = names(shown_by).filter(|name| !tests.contains(*name)).collect();
        assert!(missing.is_empty() && names(shown_by).next().is_some(), "{situation}: {missing:?}");
        count += 1;
    }
    assert!(count > 60, "{count}");
}

#[test]
fn requirements_are_numbered_and_their_states_counted() {
    let rows = rows();
    assert!(rows.iter().map(|row| row.number).eq(1..=rows.len()), "the numbers have a gap");
    let mut counts: BTreeMap<_, [usize; 2]> = BTreeMap::new();
    for row in &rows {
        counts.entry(row.state).or_default()[usize::from(!row.level.starts_with("MUST"))] += 1;
    }
    let table = counts.iter().map(|(state, [must, other])| format!("| {state} | {must} | {other} |\n"));
    let table: String = table.collect();
    assert!(REQUIREMENTS.contains(&table), "the counts in tests/spec/requirements.md are:\n{table}");
}
