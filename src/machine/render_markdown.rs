//! How tables are written as the Markdown that rustdoc includes, and the checks that all state tables share.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::{Row, Verdict};

pub(super) struct Table<'a, S, I, E: 'static> {
    pub(super) states: &'a [S],
    pub(super) inputs: &'a [I],
    pub(super) step: fn(S, I) -> Row<S, E>,
}

impl<S: Copy + Debug + Ord, I: Copy + Debug, E: Copy + Debug> Table<'_, S, I, E> {
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
