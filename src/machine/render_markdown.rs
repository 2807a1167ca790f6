//! The rows of decision tables that are not written with the macros.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

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
