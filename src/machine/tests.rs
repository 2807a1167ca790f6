//! What the compiler cannot check of the tables, the rows that tests have to take, and the tables for the guide.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use super::page::Page;
use super::{breaker, gate};

/// Every table, in the order of the guide.
fn tables() -> Vec<Box<dyn Page>> {
    vec![Box::new(gate::decide::table()), Box::new(breaker::step::table()), Box::new(breaker::judge::table())]
}

/// Writes the rows that have to be taken, one per line, to the file that `MCP_ROWS_ALL` names.
#[cfg(feature = "rows")]
#[test]
fn rows_to_take_are_listed() {
    let Some(file) = std::env::var_os("MCP_ROWS_ALL") else { return };
    let mut out = super::render::rows();
    for table in tables() {
        for row in table.rows() {
            writeln!(out, "{}\t{}", table.name(), row.join("\t")).unwrap();
        }
    }
    std::fs::write(file, out).unwrap();
}

/// Writes the tables to the folder that `MCP_TABLES` names: for each a file with Markdown and, for states, a diagram.
#[test]
fn tables_are_written_for_the_guide() {
    let Some(folder) = std::env::var_os("MCP_TABLES").map(std::path::PathBuf::from) else { return };
    let mut names = String::new();
    for table in tables() {
        writeln!(names, "{}", table.name()).unwrap();
        std::fs::write(folder.join(table.name()).with_extension("md"), table.markdown()).unwrap();
        if let Some(diagram) = table.diagram() {
            std::fs::write(folder.join(table.name()).with_extension("dot"), diagram).unwrap();
        }
    }
    std::fs::write(folder.join("names"), names).unwrap();
}

#[test]
fn what_is_declared_is_no_deviation() {
    use super::page::Values;
    use gate::{Declaration, Known, Policy, Use};
    for purpose in Use::all() {
        for known in Known::all() {
            let declared = gate::decide::row(purpose, Declaration::Declared, Policy::Strict, known);
            assert_eq!(declared.quirk(), None, "{purpose:?}");
        }
    }
}

#[test]
fn a_breaker_closes_on_a_response() {
    use breaker::{Effect, Input, State};
    let table = breaker::step::table();
    table.check(&[]);
    table.timer(|effect| effect == Effect::StartCooldown, Input::Cooled);
    for state in table.states {
        assert_eq!(breaker::step::row(state, Input::Answered).next, State::Closed, "{state:?}");
    }
}

#[test]
fn quirk_names_are_the_serialised_ones() {
    for kind in super::QuirkKind::ALL {
        assert_eq!(serde_json::to_string(kind).unwrap(), alloc::format!("\"{kind}\""));
    }
}
