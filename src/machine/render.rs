//! Renders every table into the Markdown that rustdoc includes, and checks what the compiler cannot.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Debug, Write};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{
    Row, Verdict, breaker, discovery, get_stream, handshake, http, http_reach, http_sse, hub, hub_offer, hub_server,
    keepalive, link, listen_stream, offer, paging, refresh, request, resource_subscription, shutdown,
};

/// Maximum number of states in one matrix.
const COLUMNS: usize = 4;

/// The cell of an input that a state ignores.
const IGNORED: &str = "–";

struct Table<'a, S, I, E: 'static> {
    states: &'a [S],
    inputs: &'a [I],
    step: fn(S, I) -> Row<S, E>,
}

impl<S: Copy + Debug + Ord, I: Copy + Debug, E: Copy + Debug> Table<'_, S, I, E> {
    /// The matrices, each with as many states as fit a page.
    pub(super) fn markdown(&self) -> String {
        let parts = self.states.len().div_ceil(COLUMNS);
        let mut out = String::new();
        for states in self.states.chunks(self.states.len().div_ceil(parts)) {
            write!(out, "\n| input |").unwrap();
            for state in states {
                write!(out, " {state:?} |").unwrap();
            }
            writeln!(out, "\n|{}", " --- |".repeat(states.len().saturating_add(1))).unwrap();
            for input in self.inputs {
                let cells: Vec<_> = states.iter().map(|state| self.cell(*state, *input)).collect();
                if cells.iter().any(|cell| cell != IGNORED) {
                    writeln!(out, "| {input:?} | {} |", cells.join(" | ")).unwrap();
                }
            }
        }
        out.push_str("\nA matrix leaves out the inputs that all of its states ignore.\n");
        out
    }

    fn cell(&self, state: S, input: I) -> String {
        let row = (self.step)(state, input);
        let mut parts = Vec::new();
        match row.verdict {
            Verdict::Ignore => return IGNORED.into(),
            Verdict::Reject => return "*misuse*".into(),
            Verdict::Quirk(kind) => parts.push(format!("`{kind}`")),
            Verdict::Advance => {}
        }
        parts.extend(row.effects.iter().map(|effect| format!("{effect:?}")));
        if row.next != state {
            parts.push(format!("→ **{:?}**", row.next));
        }
        if parts.is_empty() { "stays".into() } else { parts.join(", ") }
    }

    /// The states and their transitions, in Graphviz's language.
    fn diagram(&self) -> String {
        let mut out = String::from("digraph {\n");
        out.push_str("bgcolor=transparent; ranksep=0.6; start [shape=point];\n");
        out.push_str("node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=12];\n");
        out.push_str("edge [fontname=\"sans-serif\", fontsize=9];\n");
        writeln!(out, "start -> {:?};", self.states[0]).unwrap();
        for state in self.states {
            for target in self.states {
                let inputs: Vec<_> = self
                    .inputs
                    .iter()
                    .filter(|input| state != target && (self.step)(*state, **input).next == *target)
                    .map(|input| format!("{input:?}"))
                    .collect();
                if !inputs.is_empty() {
                    writeln!(out, "{state:?} -> {target:?} [label=\"{}\"];", inputs.join("\\n")).unwrap();
                }
            }
        }
        out.push_str("}\n");
        out
    }

    fn check(&self, name: &str, absorbing: &[S]) {
        let mut reached = BTreeSet::from([self.states[0]]);
        let mut frontier = vec![self.states[0]];
        while let Some(state) = frontier.pop() {
            for input in self.inputs {
                let next = (self.step)(state, *input).next;
                if reached.insert(next) {
                    frontier.push(next);
                }
            }
        }
        assert_eq!(reached.len(), self.states.len(), "{name}: a state that nothing leads to");
        for (state, input) in self.states.iter().flat_map(|s| self.inputs.iter().map(move |i| (*s, *i))) {
            let row = (self.step)(state, input);
            match row.verdict {
                Verdict::Ignore | Verdict::Reject => {
                    assert!(
                        row.next == state && row.effects.is_empty(),
                        "{name}: {state:?} × {input:?} does something"
                    );
                }
                Verdict::Advance | Verdict::Quirk(_) => {}
            }
            if absorbing.contains(&state) {
                assert_eq!(row.next, state, "{name}: {state:?} is left by {input:?}");
            }
        }
        bless(name, Some(&self.diagram()), &self.markdown());
    }

    /// The states that rows with the effect lead to.
    fn after(&self, effect: impl Fn(E) -> bool) -> BTreeSet<S> {
        let rows = self.states.iter().flat_map(|s| self.inputs.iter().map(|i| (self.step)(*s, *i)));
        rows.filter(|row| row.effects.iter().any(|e| effect(*e))).map(|row| row.next).collect()
    }

    /// Checks that every state that starts a timer handles it.
    fn timer(&self, name: &str, arms: impl Fn(E) -> bool, timer: I) {
        let armed = self.after(arms);
        assert!(!armed.is_empty(), "{name}: nothing arms the timer");
        for state in armed {
            let verdict = (self.step)(state, timer).verdict;
            assert_ne!(verdict, Verdict::Ignore, "{name}: {state:?} arms a timer that means nothing there");
        }
    }
}

/// Writes the rows that have to be taken, one per line, to the file that `MCP_ROWS_ALL` names.
#[cfg(feature = "rows")]
#[test]
fn rows_to_take_are_listed() {
    let Some(file) = std::env::var_os("MCP_ROWS_ALL") else { return };
    let mut out = String::new();
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
    state_tables!(
        breaker,
        discovery,
        handshake,
        keepalive,
        shutdown,
        link,
        hub,
        hub_offer,
        hub_server,
        paging,
        refresh,
        request,
        offer,
        resource_subscription,
        get_stream,
        http,
        http_reach,
        http_sse,
        listen_stream
    );
    for table in super::render_decisions::all() {
        for line in table.lines() {
            let inputs = line.get(..table.columns.len()).unwrap();
            writeln!(out, "{}\t{}", table.name, inputs.join("\t")).unwrap();
        }
    }
    std::fs::write(file, out).unwrap();
}

/// Compares the rendered text with the file that the documentation includes. A picture contains its source as a
/// comment; with `BLESS` it is drawn again, by Graphviz' `dot`.
pub(super) fn bless(name: &str, diagram: Option<&str>, rendered: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/machine/{name}.md"));
    let page = |picture: &str| match diagram {
        Some(diagram) => format!("<div>\n<!--\n{diagram}-->\n{picture}</div>\n{rendered}"),
        None => rendered.into(),
    };
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, page(&diagram.map(draw).unwrap_or_default())).unwrap();
    }
    let mut written = std::fs::read_to_string(&file).unwrap_or_default();
    if let (Some(begin), Some(end)) = (written.find("<svg"), written.find("</svg>\n")) {
        written.replace_range(begin..end.saturating_add("</svg>\n".len()), "");
    } else {
        assert_eq!(diagram, None, "{} has no picture", file.display());
    }
    assert_eq!(written, page(""), "{} is not what the table says; BLESS=1 rewrites it", file.display());
}

/// Draws a diagram in the colours of the page.
fn draw(diagram: &str) -> String {
    let mut dot = Command::new("dot").arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    dot.stdin.take().unwrap().write_all(diagram.as_bytes()).unwrap();
    let svg = String::from_utf8(dot.wait_with_output().unwrap().stdout).unwrap();
    let (begin, height) = (svg.find("<svg").unwrap(), svg.find(" height=").unwrap());
    let (width, view) = (svg.get(begin..height).unwrap(), svg.get(svg.find("viewBox").unwrap()..).unwrap());
    let svg = format!("{width} style=\"max-width:100%;height:auto\" {view}");
    let svg = svg.replace("\"black\"", "\"currentColor\"").replace("<text ", "<text fill=\"currentColor\" ");
    // A blank line would end the HTML in the Markdown.
    svg.lines().filter(|line| !line.is_empty() && !line.starts_with("<!--")).map(|line| format!("{line}\n")).collect()
}

/// A column of a decision table: its heading, and the values of its enum.
pub(super) type Column = (&'static str, Vec<String>);

pub(super) fn column<T: Debug>(heading: &'static str, values: &[T]) -> Column {
    (heading, values.iter().map(|value| format!("{value:?}")).collect())
}

pub(super) struct Decisions {
    pub(super) name: &'static str,
    pub(super) columns: Vec<Column>,
    /// The decision for the values with these indexes.
    pub(super) decide: fn(&[usize]) -> String,
}

impl Decisions {
    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("|");
        for (heading, _) in &self.columns {
            write!(out, " {heading} |").unwrap();
        }
        writeln!(out, " decision |\n|{}", " --- |".repeat(self.columns.len().saturating_add(1))).unwrap();
        for line in self.lines() {
            writeln!(out, "| {} |", line.join(" | ")).unwrap();
        }
        out
    }

    /// The inputs of each decision, and the decision. Values that make no difference share a line.
    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        self.below(&self.columns, &mut Vec::new())
    }

    fn below(&self, columns: &[Column], chosen: &mut Vec<usize>) -> Vec<Vec<String>> {
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

#[test]
fn paging_table() {
    use paging::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: paging::step };
    table.check("paging", &[]);
    let asks = table.after(|effect| matches!(effect, Effect::AskFirst | Effect::AskNext));
    for state in asks {
        for input in Input::ALL.iter().filter(|input| **input != Input::Start) {
            assert_ne!(paging::step(state, *input).verdict, Verdict::Ignore, "{state:?} leaves {input:?} undecided");
        }
    }
    let ends = table.after(|effect| matches!(effect, Effect::EndWhole | Effect::EndPart | Effect::EndFailed));
    assert_eq!(ends, BTreeSet::from([State::Idle]), "a list that ended is in flight");
}

#[test]
fn link_table() {
    let table = Table { states: link::State::ALL, inputs: link::Input::ALL, step: link::step };
    table.check("link", &[link::State::Closed]);
    table.timer("link", |e| matches!(e, link::Effect::Backoff | link::Effect::Park), link::Input::Timer);
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
fn shutdown_table() {
    let table = Table { states: shutdown::State::ALL, inputs: shutdown::Input::ALL, step: shutdown::step };
    table.check("shutdown", &[]);
    table.timer("shutdown", |e| e == shutdown::Effect::Arm, shutdown::Input::Timer);
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
fn discovery_table() {
    use discovery::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: discovery::step };
    table.check("discovery", &[]);
    for state in table.after(|effect| effect == Effect::Ask) {
        for answer in [Input::Whole, Input::Part, Input::Absent, Input::ErrorFatal, Input::ErrorList] {
            assert_ne!(
                discovery::step(state, answer).verdict,
                Verdict::Ignore,
                "{state:?} leaves {answer:?} unanswered"
            );
        }
    }
}

#[test]
fn refresh_table() {
    use refresh::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: refresh::step };
    table.check("refresh", &[]);
    table.timer("refresh", |effect| matches!(effect, Effect::Arm | Effect::ArmRetry), Input::Timer);
}

#[test]
fn keepalive_table() {
    use keepalive::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: keepalive::step };
    table.check("keepalive", &[]);
    table.timer("keepalive", |effect| effect == Effect::Rest, Input::Quiet);
    table.timer("keepalive", |effect| effect == Effect::Await, Input::Missed);
    for state in State::ALL {
        assert_eq!(keepalive::step(*state, Input::Stop).next, State::Off, "{state:?} outlives its connection");
    }
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
fn listen_stream_table() {
    use listen_stream::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: listen_stream::step };
    table.check("listen_stream", &[]);
    table.timer("listen_stream", |effect| effect == Effect::Arm, Input::Timer);
    for state in State::ALL {
        assert_eq!(listen_stream::step(*state, Input::Lost).next, State::Idle, "{state:?} outlives its connection");
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
fn http_reach_table() {
    use http_reach::{Input, State};
    Table { states: State::ALL, inputs: Input::ALL, step: http_reach::step }.check("http_reach", &[]);
}

#[test]
fn resource_subscription_table() {
    use resource_subscription::{Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: resource_subscription::step };
    table.check("resource_subscription", &[State::Gone]);
    for state in State::ALL {
        let next = resource_subscription::step(*state, Input::Lost).next;
        assert!(matches!(next, State::Wanted | State::Gone), "{state:?} outlives its connection as {next:?}");
    }
}

#[test]
fn hub_table() {
    use hub::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: hub::step };
    table.check("hub", &[State::Closed]);
    let is_ready = |state| matches!(state, State::ReadyStarting | State::Ready);
    let is_closed = |state| matches!(state, State::Closing | State::Closed);
    for (state, input) in State::ALL.iter().flat_map(|state| Input::ALL.iter().map(|input| (*state, *input))) {
        let row = hub::step(state, input);
        let has = |effect| row.effects.contains(&effect);
        assert_eq!(has(Effect::ReportReady), !is_ready(state) && is_ready(row.next), "{state:?} × {input:?}");
        assert!(!is_ready(state) || is_ready(row.next) || is_closed(row.next), "{state:?} × {input:?} forgets it");
        assert!(!is_closed(state) || is_closed(row.next), "{state:?} × {input:?} opens it again");
    }
}

#[test]
fn hub_offer_table() {
    use hub_offer::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: hub_offer::step };
    table.check("hub_offer", &[]);
    for (state, input) in State::ALL.iter().flat_map(|state| Input::ALL.iter().map(|input| (*state, *input))) {
        let row = hub_offer::step(state, input);
        let present = state != State::Saved && row.next == State::Saved;
        assert_eq!(row.effects.contains(&Effect::Present), present, "{state:?} × {input:?}");
        if matches!(input, Input::Replaced | Input::Lost) {
            assert_eq!(row.next, State::Unknown, "{state:?} outlives its session");
        }
    }
}

#[test]
fn hub_server_table() {
    use hub_server::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: hub_server::step };
    table.check("hub_server", &[State::Closed]);
    let waits = |state| matches!(state, State::Waiting | State::WaitingCalled);
    let queued = |state| matches!(state, State::Queued | State::QueuedCalled);
    let has_room = |state| matches!(state, State::Opening | State::Starting);
    for (state, input) in State::ALL.iter().flat_map(|state| Input::ALL.iter().map(|input| (*state, *input))) {
        let row = hub_server::step(state, input);
        let has = |effect| row.effects.contains(&effect);
        let (enters, leaves) =
            (|is: fn(State) -> bool| !is(state) && is(row.next), |is: fn(State) -> bool| is(state) && !is(row.next));
        let of = |effects: [Effect; 6]| effects.map(has);
        assert_eq!(
            of([Effect::Await, Effect::Arrive, Effect::Queue, Effect::Dequeue, Effect::Open, Effect::Release]),
            [
                enters(waits),
                leaves(waits),
                enters(queued),
                leaves(queued) && !has_room(row.next),
                enters(has_room),
                leaves(has_room)
            ],
            "{state:?} × {input:?}"
        );
        let is_up = |state| state == State::Up;
        assert_eq!(
            [has(Effect::Present), has(Effect::Absent)],
            [enters(is_up), leaves(is_up)],
            "{state:?} × {input:?}"
        );
        assert_eq!(has(Effect::Forget), enters(|state| state == State::Closed), "{state:?} × {input:?}");
        assert_eq!(has(Effect::Depart), enters(|state| state == State::Leaving), "{state:?} × {input:?}");
        assert_eq!(has(Effect::Free), leaves(|state| state == State::Leaving), "{state:?} × {input:?}");
    }
}

#[test]
fn breaker_table() {
    use breaker::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: breaker::step };
    table.check("breaker", &[]);
    table.timer("breaker", |effect| effect == Effect::Rest, Input::Cooled);
    for state in State::ALL {
        assert_eq!(breaker::step(*state, Input::Answered).next, State::Closed, "{state:?} keeps out who answers");
    }
}

#[test]
fn quirk_names_are_the_serialised_ones() {
    for kind in super::QuirkKind::ALL {
        assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\"").to_string());
    }
}
