//! The state tables as the documentation shows them, and checks of what the compiler cannot.

use alloc::collections::BTreeSet;
use alloc::format;
#[cfg(feature = "rows")]
use core::fmt::Write;

use super::render_markdown::Table;
use super::{
    Verdict, era_change, freshness, get_stream, handshake, http, http_initialized, http_reach, http_sse, offer, request,
};

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
        era_change,
        freshness,
        handshake,
        request,
        offer,
        get_stream,
        http,
        http_initialized,
        http_reach,
        http_sse,
        store
    );
    use super::{render_decisions, render_http, render_oauth, render_requests};
    let decisions = [render_decisions::all(), render_http::all(), render_oauth::all(), render_requests::all()];
    for table in decisions.into_iter().flatten() {
        for line in table.lines() {
            let inputs = line.get(..table.columns.len()).unwrap();
            writeln!(out, "{}\t{}", table.name, inputs.join("\t")).unwrap();
        }
    }
    out
}

#[test]
fn offer_table() {
    use offer::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: offer::step };
    table.check("offer", &[]);
    for input in Input::ALL {
        let bare = offer::step(State::LeftOut, *input);
        assert!(!bare.effects.contains(&Effect::OfferBare), "{input:?}: the capabilities are left out once");
    }
}

#[test]
fn handshake_table() {
    use handshake::State;
    let table = Table { states: State::ALL, inputs: handshake::Input::ALL, step: handshake::step };
    table.check("handshake", &[]);
    table.timer("handshake", |e| e == handshake::Effect::ArmDiscover, handshake::Input::DiscoverTimeout);
    let done = [State::Idle, State::Legacy, State::Modern, State::Reopening, State::Failed];
    for state in State::ALL.iter().filter(|state| !done.contains(state)) {
        let verdict = handshake::step(*state, handshake::Input::Deadline).verdict;
        assert_eq!(verdict, Verdict::Advance, "{state:?} has no deadline");
    }
}

#[test]
fn era_change_table() {
    use era_change::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: era_change::step };
    table.check("era_change", &[]);
    assert_eq!(table.after(|effect| effect == Effect::Renew), BTreeSet::from([State::Renewed]), "one handshake");
}

#[test]
fn request_table() {
    use request::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: request::step };
    table.check("request", &[State::Ended]);
    let again = table.after(|effect| matches!(effect, Effect::Requeue | Effect::RequeueAnew));
    assert!(again.iter().all(|state| matches!(state, State::Queued)), "what waits again is in the queue");
    for state in State::ALL {
        for input in Input::ALL {
            let row = request::step(*state, *input);
            let ends = row.effects.iter().filter(|effect| format!("{effect:?}").starts_with("End")).count();
            let over = row.next == State::Ended && *state != State::Ended;
            assert_eq!(ends, usize::from(over), "{state:?} × {input:?} ends once or not at all");
        }
    }
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

#[test]
fn freshness_table() {
    use freshness::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: freshness::step };
    table.check("freshness", &[]);
    for (state, input) in State::ALL.iter().flat_map(|state| Input::ALL.iter().map(|input| (*state, *input))) {
        let row = freshness::step(state, input);
        let requests = state != State::Requested && row.next == State::Requested;
        assert_eq!(row.effects.contains(&Effect::Request), requests, "{state:?} × {input:?}");
        assert!(input != Input::Ended || row.next == State::Untimed, "{state:?} outlives its connection");
    }
}
