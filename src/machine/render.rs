//! The state tables as the documentation shows them, and checks of what the compiler cannot.

#[cfg(feature = "rows")]
use core::fmt::Write;

/// The rows of the tables that are not written with the macros.
#[cfg(feature = "rows")]
pub(super) fn rows() -> alloc::string::String {
    let mut out = alloc::string::String::new();
    macro_rules! state_tables {
        ($($table:ident),*) => {$(
            for state in $table::State::ALL {
                for input in $table::Input::ALL {
                    if $table::step(*state, *input).verdict != Verdict::Ignore {
                        writeln!(out, "{}", super::rows::line(stringify!($table), &[state, input])).unwrap();
                    }
                }
            }
        )*};
    }
    use super::{Verdict, authorization, credential_record, credentials, store};
    state_tables!(authorization, credential_record, credentials, store);
    use super::{render_oauth, render_requests};
    let decisions = [render_oauth::all(), render_requests::all()];
    for table in decisions.into_iter().flatten() {
        for line in table.lines() {
            let inputs = line.get(..table.columns.len()).unwrap();
            writeln!(out, "{}\t{}", table.name, inputs.join("\t")).unwrap();
        }
    }
    out
}
