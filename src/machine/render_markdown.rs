//! How tables are written as the Markdown that rustdoc includes, and the checks that all state tables share.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Debug, Write};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Row, Verdict};

/// Maximum number of states in one matrix.
const COLUMNS: usize = 4;

/// The cell of an input that a state ignores.
const IGNORED: &str = "–";

pub(super) struct Table<'a, S, I, E: 'static> {
    pub(super) states: &'a [S],
    pub(super) inputs: &'a [I],
    pub(super) step: fn(S, I) -> Row<S, E>,
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

    pub(super) fn check(&self, name: &str, absorbing: &[S]) {
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
    pub(super) fn after(&self, effect: impl Fn(E) -> bool) -> BTreeSet<S> {
        let rows = self.states.iter().flat_map(|s| self.inputs.iter().map(|i| (self.step)(*s, *i)));
        rows.filter(|row| row.effects.iter().any(|e| effect(*e))).map(|row| row.next).collect()
    }

    /// Checks that every state that starts a timer handles it.
    pub(super) fn timer(&self, name: &str, arms: impl Fn(E) -> bool, timer: I) {
        let armed = self.after(arms);
        assert!(!armed.is_empty(), "{name}: nothing arms the timer");
        for state in armed {
            let verdict = (self.step)(state, timer).verdict;
            assert_ne!(verdict, Verdict::Ignore, "{name}: {state:?} arms a timer that means nothing there");
        }
    }
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
