//! The tables as tests and the guide see them.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Debug, Write};

pub(crate) use super::table::Values;
use super::{Row, Verdict};

/// Maximum number of states in one matrix.
const COLUMNS: usize = 4;

/// The cell of an input that a state ignores.
const IGNORED: &str = "–";

pub(crate) fn printed<T: Debug>(values: &[T]) -> Vec<String> {
    values.iter().map(|value| alloc::format!("{value:?}")).collect()
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

impl<S: Values + Ord, I: Values, E: Copy + Debug> StateTable<S, I, E> {
    pub(crate) fn new(name: &'static str, text: &'static str, row: fn(S, I) -> Row<S, E>) -> Self {
        let (all, inputs) = (S::all(), I::all());
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
            if matches!(row.verdict, Verdict::Ignore | Verdict::Reject) {
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
            assert_ne!(verdict, Verdict::Ignore, "{}: {state:?} arms a timer and ignores it", self.name);
        }
    }

    fn cell(&self, state: S, input: I) -> String {
        let row = (self.row)(state, input);
        let mut parts = Vec::new();
        match row.verdict {
            Verdict::Ignore => return IGNORED.into(),
            Verdict::Reject => return "*misuse*".into(),
            Verdict::Quirk(kind) => parts.push(alloc::format!("`{kind}`")),
            Verdict::Advance => {}
        }
        parts.extend(printed(row.effects));
        if row.next != state {
            parts.push(alloc::format!("→ **{:?}**", row.next));
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
                if cells.iter().any(|cell| cell != IGNORED) {
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
                let inputs: Vec<_> = leads.map(|input| alloc::format!("{input:?}")).collect();
                if !inputs.is_empty() {
                    writeln!(out, "\"{state:?}\" -> \"{target:?}\" [label=\"{}\"];", inputs.join("\\n")).unwrap();
                }
            }
        }
        out.push_str("}\n");
        Some(out)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let taken = self.cells().filter(|(_, _, row)| row.verdict != Verdict::Ignore);
        taken.map(|(state, input, _)| vec![alloc::format!("{state:?}"), alloc::format!("{input:?}")]).collect()
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
