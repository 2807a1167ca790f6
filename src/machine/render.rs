//! The state tables as the documentation shows them, and checks of what the compiler cannot.

#[cfg(feature = "rows")]
use core::fmt::Write;

use super::render_markdown::Table;
use super::{Verdict, get_stream, http, http_initialized, http_reach, http_sse};

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
    use super::{authorization, credential_record, credentials, store};
    state_tables!(
        authorization,
        credential_record,
        credentials,
        get_stream,
        http,
        http_initialized,
        http_reach,
        http_sse,
        store
    );
    use super::{render_http, render_oauth, render_requests};
    let decisions = [render_http::all(), render_oauth::all(), render_requests::all()];
    for table in decisions.into_iter().flatten() {
        for line in table.lines() {
            let inputs = line.get(..table.columns.len()).unwrap();
            writeln!(out, "{}\t{}", table.name, inputs.join("\t")).unwrap();
        }
    }
    out
}

#[test]
fn get_stream_table() {
    use get_stream::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: get_stream::step };
    table.check("get_stream", &[]);
    table.timer("get_stream", |effect| effect == Effect::Arm, Input::Timer);
    for state in State::ALL {
        assert_eq!(get_stream::step(*state, Input::Stop).next, State::Idle, "{state:?} outlives its session");
    }
}

#[test]
fn http_table() {
    use http::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: http::step };
    table.check("http", &[]);
    let waits = table.after(|effect| effect == Effect::StartStream);
    for state in State::ALL {
        let ends = http::step(*state, Input::StreamDecided).effects.contains(&Effect::StopWait);
        assert_eq!(ends, waits.contains(state), "{state:?} waits for the GET stream");
        let lost = http::step(*state, Input::Lost).next;
        assert!(matches!(lost, State::Idle | State::Ending | State::Deleting), "{state:?} outlives its connection");
    }
}

#[test]
fn http_sse_table() {
    use http_sse::{Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: http_sse::step };
    table.check("http_sse", &[]);
    for state in State::ALL {
        let lost = http_sse::step(*state, Input::Lost).next;
        assert!(matches!(lost, State::Streamable | State::Known), "{state:?} outlives its connection");
    }
}

#[test]
fn http_initialized_table() {
    use http_initialized::{Input, State};
    Table { states: State::ALL, inputs: Input::ALL, step: http_initialized::step }.check("http_initialized", &[]);
}

#[test]
fn http_reach_table() {
    use http_reach::{Input, State};
    Table { states: State::ALL, inputs: Input::ALL, step: http_reach::step }.check("http_reach", &[]);
}
