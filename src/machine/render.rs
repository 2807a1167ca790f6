//! The state tables as the documentation shows them, and checks of what the compiler cannot.

#[cfg(feature = "rows")]
use core::fmt::Write;

/// The rows of the tables that are not written with the macros.
#[cfg(feature = "rows")]
pub(super) fn rows() -> alloc::string::String {
    let mut out = alloc::string::String::new();
    let decisions = [super::render_requests::all()];
    for table in decisions.into_iter().flatten() {
        for line in table.lines() {
            let inputs = line.get(..table.columns.len()).unwrap();
            writeln!(out, "{}\t{}", table.name, inputs.join("\t")).unwrap();
        }
    }
    out
}
