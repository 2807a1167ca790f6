//! What the compiler cannot check of the tables, the rows that tests have to take, and the tables for the guide.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Debug, Write};

use super::hub::breaker;
use super::link::shutdown;
use super::table::Values;
use super::{Row, Verdict, gate, handshake, hub, keepalive, link, listen, lists, request, server, task};

/// Maximum number of states in one matrix.
const COLUMNS: usize = 4;

/// The cell of an input that a state ignores.
const IGNORED: &str = "–";

pub(crate) fn printed<T: Debug>(values: &[T]) -> Vec<String> {
    values.iter().map(|value| format!("{value:?}")).collect()
}

/// What the guide shows of a table, and which rows tests have to take.
pub(crate) trait Page {
    fn name(&self) -> &'static str;

    fn markdown(&self) -> String;

    /// The states and their transitions in Graphviz's language.
    fn diagram(&self) -> Option<String>;

    /// The inputs of each row that is not ignored.
    #[cfg_attr(not(feature = "rows"), allow(dead_code, reason = "only the recorder reads it"))]
    fn rows(&self) -> Vec<Vec<String>>;
}

pub(crate) struct StateTable<S, I, E: 'static> {
    pub(crate) name: &'static str,
    text: &'static str,
    /// The states that can be reached.
    pub(crate) states: Vec<S>,
    pub(crate) inputs: Vec<I>,
    pub(crate) row: fn(S, I) -> Row<S, E>,
}

/// Whether a row begins with `else`, and which states and inputs it is for.
pub(crate) type Pattern<S, I> = (bool, fn(S, I) -> bool);

/// Checks that a row begins with `else` if, and only if, it is for a combination that an earlier row is for, too.
/// `combinations` has for each combination, and in it for each row, whether the row begins so and is for it.
fn check_overlaps(name: &str, combinations: impl Iterator<Item = (String, Vec<(bool, bool)>)>) {
    let (mut marked, mut overlap) = (BTreeSet::new(), BTreeSet::new());
    for (values, rows) in combinations {
        let mut earlier = None;
        for (number, (otherwise, is_for)) in rows.into_iter().enumerate() {
            marked.extend(otherwise.then_some(number));
            if let (true, Some(earlier)) = (is_for, earlier) {
                assert!(otherwise, "{name}: rows {earlier} and {number} are for {values}, and no `else` says so");
                overlap.insert(number);
            }
            earlier = earlier.or(is_for.then_some(number));
        }
    }
    assert_eq!(marked, overlap, "{name}: `else` stands before a row that overlaps with none before it");
}

impl<S: Values + Ord, I: Values, E: Copy + Debug> StateTable<S, I, E> {
    pub(crate) fn new(
        name: &'static str,
        text: &'static str,
        row: fn(S, I) -> Row<S, E>,
        patterns: &'static [Pattern<S, I>],
    ) -> Self {
        let (all, inputs) = (S::all(), I::all());
        let combinations = all.iter().flat_map(|state| inputs.iter().map(move |input| (*state, *input)));
        check_overlaps(
            name,
            combinations.map(|(state, input)| {
                let rows = patterns.iter().map(|(otherwise, is_for)| (*otherwise, is_for(state, input)));
                (format!("{state:?} × {input:?}"), rows.collect())
            }),
        );
        let mut reached = BTreeSet::from([all[0]]);
        let mut frontier = vec![all[0]];
        while let Some(state) = frontier.pop() {
            frontier.extend(inputs.iter().map(|input| row(state, *input).next).filter(|next| reached.insert(*next)));
        }
        assert!(S::IS_PRODUCT || reached.len() == all.len(), "{name}: a state that nothing leads to");
        let states = all.into_iter().filter(|state| reached.contains(state)).collect();
        Self { name, text, states, inputs, row }
    }

    /// Every state that can be reached with every input.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (S, I, Row<S, E>)> {
        let inputs = |state: S| self.inputs.iter().map(move |input| (state, *input));
        self.states
            .iter()
            .flat_map(move |state| inputs(*state))
            .map(|(state, input)| (state, input, (self.row)(state, input)))
    }

    /// Checks that an ignored or refused input does nothing, and that no input leaves an absorbing state.
    pub(crate) fn check(&self, absorbing: &[S]) {
        for (state, input, row) in self.cells() {
            if matches!(row.verdict, Verdict::Ignore | Verdict::Never | Verdict::Reject) {
                assert!(row.next == state && row.effects.is_empty(), "{}: {state:?} × {input:?} acts", self.name);
            }
            assert!(!absorbing.contains(&state) || row.next == state, "{}: {input:?} leaves {state:?}", self.name);
        }
    }

    /// The states that rows with the effect lead to.
    pub(crate) fn after(&self, effect: impl Fn(E) -> bool) -> BTreeSet<S> {
        self.cells()
            .filter(|(_, _, row)| row.effects.iter().any(|it| effect(*it)))
            .map(|(_, _, row)| row.next)
            .collect()
    }

    /// Checks that every state that starts a timer handles it.
    pub(crate) fn timer(&self, arms: impl Fn(E) -> bool, timer: I) {
        let armed = self.after(arms);
        assert!(!armed.is_empty(), "{}: nothing arms the timer", self.name);
        for state in armed {
            let verdict = (self.row)(state, timer).verdict;
            assert!(!verdict.is_dropped(), "{}: {state:?} arms a timer and ignores it", self.name);
        }
    }

    fn cell(&self, state: S, input: I) -> String {
        let row = (self.row)(state, input);
        let mut parts = Vec::new();
        match row.verdict {
            Verdict::Ignore => return IGNORED.into(),
            Verdict::Never => return String::new(),
            Verdict::Reject => return "*misuse*".into(),
            Verdict::Quirk(kind) => parts.push(format!("`{kind}`")),
            Verdict::Advance => {}
        }
        parts.extend(printed(row.effects));
        if row.next != state {
            parts.push(format!("→ **{:?}**", row.next));
        }
        if parts.is_empty() { "stays".into() } else { parts.join(", ") }
    }
}

impl<S: Values + Ord, I: Values, E: Copy + Debug> Page for StateTable<S, I, E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn markdown(&self) -> String {
        let parts = self.states.len().div_ceil(COLUMNS);
        let mut out = String::from(self.text.trim_start());
        for states in self.states.chunks(self.states.len().div_ceil(parts)) {
            write!(out, "\n| input | {} |\n|{}\n", printed(states).join(" | "), " --- |".repeat(states.len() + 1))
                .unwrap();
            for input in &self.inputs {
                let cells: Vec<_> = states.iter().map(|state| self.cell(*state, *input)).collect();
                if cells.iter().any(|cell| !cell.is_empty() && cell != IGNORED) {
                    writeln!(out, "| {input:?} | {} |", cells.join(" | ")).unwrap();
                }
            }
        }
        out
    }

    fn diagram(&self) -> Option<String> {
        let mut out = String::from("digraph {\nbgcolor=transparent; ranksep=0.6; start [shape=point];\n");
        out.push_str("node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=12];\n");
        writeln!(out, "edge [fontname=\"sans-serif\", fontsize=9];\nstart -> \"{:?}\";", self.states[0]).unwrap();
        for state in &self.states {
            for target in self.states.iter().filter(|target| *target != state) {
                let leads = self.inputs.iter().filter(|input| (self.row)(*state, **input).next == *target);
                let inputs: Vec<_> = leads.map(|input| format!("{input:?}")).collect();
                if !inputs.is_empty() {
                    writeln!(out, "\"{state:?}\" -> \"{target:?}\" [label=\"{}\"];", inputs.join("\\n")).unwrap();
                }
            }
        }
        out.push_str("}\n");
        Some(out)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let taken = self.cells().filter(|(_, _, row)| !row.verdict.is_dropped());
        taken.map(|(state, input, _)| vec![format!("{state:?}"), format!("{input:?}")]).collect()
    }
}

pub(crate) struct DecisionTable {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// The headings, and the values of each column.
    pub(crate) columns: Vec<(&'static str, Vec<String>)>,
    /// The decision for the values with these indexes.
    pub(crate) decide: fn(&[usize]) -> String,
}

impl DecisionTable {
    pub(crate) fn new(
        name: &'static str,
        text: &'static str,
        columns: Vec<(&'static str, Vec<String>)>,
        decide: fn(&[usize]) -> String,
        matching: fn(&[usize]) -> Vec<(bool, bool)>,
    ) -> Self {
        let combinations = columns.iter().fold(vec![Vec::new()], |all: Vec<Vec<usize>>, (_, values)| {
            let with = |chosen: Vec<usize>| (0..values.len()).map(move |value| [&*chosen, &[value]].concat());
            all.into_iter().flat_map(with).collect()
        });
        check_overlaps(name, combinations.into_iter().map(|chosen| (format!("{chosen:?}"), matching(&chosen))));
        Self { name, text, columns, decide }
    }

    /// The inputs of each decision, and the decision. Values that make no difference share a line.
    pub(crate) fn lines(&self) -> Vec<Vec<String>> {
        self.below(&self.columns, &mut Vec::new())
    }

    fn below(&self, columns: &[(&'static str, Vec<String>)], chosen: &mut Vec<usize>) -> Vec<Vec<String>> {
        let Some(((_, values), rest)) = columns.split_first() else { return vec![vec![(self.decide)(chosen)]] };
        let mut groups: Vec<(Vec<&str>, Vec<Vec<String>>)> = Vec::new();
        for (index, value) in values.iter().enumerate() {
            chosen.push(index);
            let below = self.below(rest, chosen);
            chosen.pop();
            match groups.iter_mut().find(|(_, lines)| *lines == below) {
                Some((names, _)) => names.push(value),
                None => groups.push((vec![value], below)),
            }
        }
        let all = groups.len() == 1;
        let merged = groups.into_iter().flat_map(|(names, below)| {
            let name = if all { "any".into() } else { names.join(", ") };
            below.into_iter().map(move |line| [vec![name.clone()], line].concat())
        });
        merged.collect()
    }
}

impl Page for DecisionTable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn markdown(&self) -> String {
        let headings: Vec<_> = self.columns.iter().map(|(heading, _)| heading.replace('_', " ")).collect();
        let mut out = String::from(self.text.trim_start());
        write!(out, "\n| {} | decision |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len() + 1)).unwrap();
        for line in self.lines() {
            writeln!(out, "| {} |", line.join(" | ")).unwrap();
        }
        out
    }

    fn diagram(&self) -> Option<String> {
        None
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.lines().into_iter().map(|mut line| line.drain(..self.columns.len()).collect()).collect()
    }
}

/// Every table, in the order of the guide.
fn tables() -> Vec<Box<dyn Page>> {
    #[allow(unused_mut, reason = "without HTTP")]
    let mut tables = core_tables();
    #[cfg(feature = "http")]
    tables.extend(http_tables());
    #[cfg(feature = "oauth")]
    tables.extend(oauth_tables());
    tables
}

#[cfg(feature = "http")]
fn http_tables() -> Vec<Box<dyn Page>> {
    use super::http_response::refusal;
    use super::{http_connection as connection, http_response as response};
    vec![
        Box::new(connection::phase::step::table()),
        Box::new(connection::sse::step::table()),
        Box::new(connection::get_stream::step::table()),
        Box::new(response::head::table()),
        Box::new(response::redirect::table()),
        Box::new(response::body::table()),
        Box::new(response::end::table()),
        Box::new(response::expiry::table()),
        Box::new(response::meaning::table()),
        Box::new(refusal::authorization::table()),
        #[cfg(feature = "oauth")]
        Box::new(refusal::challenge::unauthorized::table()),
        #[cfg(feature = "oauth")]
        Box::new(refusal::challenge::insufficient_scope::table()),
    ]
}

fn core_tables() -> Vec<Box<dyn Page>> {
    vec![
        Box::new(handshake::step::table()),
        Box::new(handshake::next_offer::table()),
        Box::new(lists::discovery::step::table()),
        Box::new(lists::refresh::step::table()),
        Box::new(keepalive::step::table()),
        Box::new(keepalive::judge::table()),
        Box::new(link::step::table()),
        Box::new(link::lose::table()),
        Box::new(link::end::table()),
        Box::new(shutdown::step::table()),
        Box::new(request::step::table()),
        Box::new(request::may_replay::table()),
        Box::new(request::match_response::table()),
        Box::new(request::cancel::table()),
        Box::new(gate::decide::table()),
        Box::new(lists::paging::decide::table()),
        Box::new(lists::error::absence::table()),
        Box::new(lists::error::cost::table()),
        Box::new(listen::stream::step::table()),
        Box::new(listen::resource::step::table()),
        Box::new(listen::subscribe::decide::table()),
        Box::new(task::step::table()),
        Box::new(server::request::decide::table()),
        Box::new(server::notification::decide::table()),
        Box::new(server::result::decide::table()),
        Box::new(hub::whole::step::table()),
        Box::new(hub::server::step::table()),
        Box::new(breaker::step::table()),
    ]
}

#[cfg(feature = "oauth")]
fn oauth_tables() -> [Box<dyn Page>; 7] {
    use super::oauth_attempt as attempt;
    use super::oauth_credentials as credentials;
    [
        Box::new(attempt::step::table()),
        Box::new(attempt::metadata::table()),
        Box::new(attempt::plan::table()),
        Box::new(attempt::failed::table()),
        Box::new(credentials::step::table()),
        Box::new(credentials::loaded::table()),
        Box::new(credentials::lock::step::table()),
    ]
}

#[test]
fn of_rows_that_overlap_the_later_one_says_so() {
    // Each table checks its rows when it is made.
    let names: BTreeSet<_> = tables().iter().map(|table| table.name()).collect();
    assert_eq!(names.len(), tables().len());
}

/// Writes the rows that have to be taken, one per line, to the file that `MCP_ROWS_ALL` names.
#[cfg(feature = "rows")]
#[test]
fn rows_to_take_are_listed() {
    let Some(file) = std::env::var_os("MCP_ROWS_ALL") else { return };
    let mut out = String::new();
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
        std::fs::write(folder.join(format!("{}.md", table.name())), table.markdown()).unwrap();
        if let Some(diagram) = table.diagram() {
            std::fs::write(folder.join(format!("{}.dot", table.name())), diagram).unwrap();
        }
    }
    std::fs::write(folder.join("names"), names).unwrap();
}

#[test]
fn what_is_declared_is_no_deviation() {
    use gate::{Declaration, Known, Use};
    for purpose in Use::all() {
        for known in Known::all() {
            let declared = gate::decide::row(purpose, Declaration::Declared, false, known);
            assert_eq!(declared.quirk(), None, "{purpose:?}");
        }
    }
}

#[test]
fn a_list_that_is_requested_in_discovery_ends() {
    use lists::discovery::{Effect, Input, step};
    let table = step::table();
    table.check(&[]);
    for state in table.after(|effect| effect == Effect::Request) {
        for end in [Input::Whole, Input::Part, Input::Absent, Input::ErrorFatal, Input::ErrorList] {
            assert!(!step::row(state, end).verdict.is_dropped(), "{state:?} leaves {end:?} undecided");
        }
    }
}

#[test]
fn a_refresh_has_a_timer() {
    use lists::refresh::{Effect, Input, step};
    let table = step::table();
    table.check(&[]);
    table.timer(|effect| matches!(effect, Effect::Arm | Effect::ArmRetry), Input::Timer);
}

#[test]
fn a_listen_stream_is_requested_again() {
    use listen::stream::{Effect, Input, step};
    let table = step::table();
    table.check(&[]);
    table.timer(|effect| effect == Effect::Arm, Input::Timer);
    // The engine derives from the effects whether a stream is open.
    for (state, input, row) in table.cells() {
        let closes = row.effects.iter().any(|effect| matches!(effect, Effect::Forget | Effect::Await));
        let open = row.effects.contains(&Effect::Adopt) || state.open && !closes;
        assert_eq!(row.next.open, open, "{state:?} × {input:?}");
    }
}

#[test]
fn a_subscription_that_is_gone_stays_gone() {
    listen::resource::step::table().check(&[listen::resource::State::Gone]);
}

#[test]
fn a_task_ends_its_call() {
    use task::{Effect, Input, State, step};
    let table = step::table();
    table.check(&[State::Over]);
    table.timer(|effect| effect == Effect::Wait, Input::Due);
    for (state, input, row) in table.cells() {
        let ends = row.effects.iter().any(|effect| format!("{effect:?}").starts_with("End"));
        let over = row.next == State::Over && state != State::Over;
        assert_eq!(ends || over && input == Input::Abandoned, over, "{state:?} × {input:?} ends the call");
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

#[cfg(feature = "oauth")]
#[test]
fn an_attempt_at_a_token_waits_for_nothing_in_vain() {
    use super::oauth_attempt::{self, Effect, Input, State};
    let table = oauth_attempt::step::table();
    table.check(&[]);
    table.timer(|effect| effect == Effect::Pause, Input::Paused);
    for effect in [Effect::RequestMetadata, Effect::Register, Effect::Browse, Effect::Sign, Effect::RequestToken] {
        table.timer(|other| other == effect, Input::Fail);
    }
    let ends = |effect| matches!(effect, Effect::ReportIssued | Effect::ReportRefused | Effect::ReportFailed);
    assert_eq!(table.after(ends), BTreeSet::from([State::Idle]), "an attempt that ended is in progress");
}

#[cfg(feature = "oauth")]
#[test]
fn the_lock_of_the_store_is_released_when_its_use_ends() {
    use super::oauth_credentials::{self, Effect, Input, State, lock};
    lock::step::table().check(&[]);
    let table = oauth_credentials::step::table();
    table.check(&[]);
    table.timer(|effect| effect == Effect::StartCooldown, Input::Cooled);
    for effect in [Effect::Acquire, Effect::Load, Effect::Save] {
        table.timer(|other| other == effect, Input::StoreFailed);
    }
    for effect in [Effect::Refresh, Effect::Obtain] {
        table.timer(|other| other == effect, Input::Failed);
    }
    let uses = |state: State| {
        let free = [State::Unread, State::Idle, State::Opening, State::Reading, State::Obtaining, State::Cooldown];
        !free.contains(&state)
    };
    let leaves = |state: State| matches!(state, State::Leaving | State::Collecting | State::Revoking);
    for (state, input, row) in table.cells() {
        let released = row.effects.contains(&Effect::Release);
        // A sign-out requests it anew.
        let ends = uses(state) && (!uses(row.next) || leaves(row.next) && !leaves(state));
        assert_eq!(released, ends, "{state:?} {input:?}");
        // A save in progress ends first.
        let is_left = leaves(row.next) || row.next == State::Finishing;
        assert!(input != Input::SignOut || is_left, "{state:?} outlives a sign-out");
    }
}

#[test]
fn a_hub_is_opened_and_closed_once() {
    use hub::whole::{Effect, State, step};
    let table = step::table();
    table.check(&[State::Closed]);
    assert_eq!(table.after(|effect| effect == Effect::StartServers), [State::Open].into());
    assert_eq!(table.after(|effect| effect == Effect::ReportClosed), [State::Closed].into());
    for (state, input, row) in table.cells() {
        let is_closed = |state| matches!(state, State::Closing | State::Closed);
        assert!(!is_closed(state) || is_closed(row.next), "{state:?} × {input:?} opens it again");
    }
}

#[test]
fn a_session_of_a_hub_is_closed_as_it_was_opened() {
    use hub::server::{Effect, Input, Phase, State, step};
    let table = step::table();
    table.check(&[State { phase: Phase::Closed, called: false }, State { phase: Phase::Closed, called: true }]);
    for (state, input, row) in table.cells() {
        let has = |effect| row.effects.contains(&effect);
        let enters = |phase| state.phase != phase && row.next.phase == phase;
        assert_eq!(has(Effect::Forget), enters(Phase::Closed), "{state:?} × {input:?}");
        assert_eq!(has(Effect::Shut), enters(Phase::Closing), "{state:?} × {input:?}");
        assert!(!enters(Phase::Starting) || has(Effect::Open), "{state:?} × {input:?}");
        // What the embedder may know of is shut down, and not dropped.
        assert!(!has(Effect::Discard) || !state.called, "{state:?} × {input:?}");
        assert!(!has(Effect::Create) || matches!(state.phase, Phase::Idle | Phase::Queued), "{state:?} × {input:?}");
        // It is stepped where no effect is applied.
        let is_noted = row.effects.is_empty() && row.next.phase == state.phase;
        assert!(input != Input::Contacted || is_noted, "{state:?} × {input:?}");
    }
}

#[cfg(feature = "http")]
#[test]
fn waits_of_an_http_connection_end() {
    use super::http_connection::{get_stream, phase, sse};
    let table = get_stream::step::table();
    table.check(&[]);
    table.timer(|effect| effect == get_stream::Effect::Arm, get_stream::Input::Timer);
    let table = phase::step::table();
    table.check(&[]);
    let waits = table.after(|effect| effect == phase::Effect::StartStream);
    for state in table.states {
        let ends = phase::step::row(state, phase::Input::StreamDecided).effects.contains(&phase::Effect::StopWait);
        assert_eq!(ends, waits.contains(&state), "{state:?} waits for the GET stream");
    }
    sse::step::table().check(&[]);
}

#[test]
fn quirk_names_are_the_serialised_ones() {
    for kind in super::QuirkKind::ALL {
        assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\""));
    }
}

#[test]
fn keepalive_handles_its_timers() {
    use keepalive::{Effect, Input};
    let table = keepalive::step::table();
    table.check(&[]);
    table.timer(|effect| effect == Effect::StartInterval, Input::Quiet);
    table.timer(|effect| effect == Effect::Await, Input::Silent);
}

#[test]
fn a_closed_link_stays_closed() {
    use link::{Effect, Input, Note, Phase, State};
    let table = link::step::table();
    table.check(&[State { phase: Phase::Closed, note: Note::None }]);
    table.timer(|effect| matches!(effect, Effect::Backoff | Effect::Park), Input::Timer);
}

#[test]
fn shutdown_handles_its_timer() {
    let table = shutdown::step::table();
    table.check(&[]);
    table.timer(|effect| effect == shutdown::Effect::Arm, shutdown::Input::Timer);
}

#[test]
fn a_request_ends_once() {
    use request::{Effect, State};
    let table = request::step::table();
    table.check(&[State::Ended]);
    let again = table.after(|effect| matches!(effect, Effect::Requeue | Effect::RequeueAnew));
    assert!(again.iter().all(|state| *state == State::Queued), "what waits again is in the queue");
    for (state, input, row) in table.cells() {
        let ends = row.effects.iter().filter(|effect| format!("{effect:?}").starts_with("End")).count();
        let ended = row.next == State::Ended && state != State::Ended;
        assert_eq!(ends, usize::from(ended), "{state:?} × {input:?} ends once or not at all");
    }
}

#[test]
fn a_handshake_has_a_deadline() {
    use handshake::{Effect, Input, Phase};
    let table = handshake::step::table();
    table.check(&[]);
    table.timer(|effect| effect == Effect::ArmDiscover, Input::DiscoverTimeout);
    let done = [Phase::Idle, Phase::Legacy, Phase::Modern, Phase::Reopening, Phase::Failed];
    for state in table.states.iter().filter(|state| !done.contains(&state.phase)) {
        let verdict = handshake::step::row(*state, Input::Deadline).verdict;
        assert_eq!(verdict, super::Verdict::Advance, "{state:?} has no deadline");
    }
}

#[test]
fn the_capabilities_are_left_out_once() {
    for about in handshake::About::all() {
        let offer = |older| handshake::next_offer::row(about, older, true);
        assert!(
            [true, false].map(offer).iter().all(|input| *input != handshake::Input::CapabilitiesRefused),
            "{about:?}"
        );
    }
}
