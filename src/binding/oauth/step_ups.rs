//! Component: how many grants were requested, by the scopes of the challenges.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::options::Flow;
use super::record::union;
use super::task::{Hint, Task};
use crate::machine::authorization_plan::Goal;

/// New grants for the scopes of one challenge (specification 2026-07-28, "Authorization", Step-Up Authorization Flow).
const STEPS: u8 = 3;

/// Challenges with different scopes that are counted.
const COUNTED: usize = 64;

/// How many grants were requested, by the scopes of the challenge.
#[derive(Clone, Debug, Default)]
pub(super) struct StepUps(BTreeMap<Box<str>, u8>);

impl StepUps {
    /// Counts a grant that begins: one that a 401 leads to is the first for its scopes.
    pub(super) fn count(&mut self, task: &Task) {
        let key = key(&task.hint);
        let room = self.0.len() < COUNTED || self.0.contains_key(&key);
        if room && task.goal != Goal::Refresh {
            let grants = self.0.entry(key).or_default();
            *grants = grants.saturating_add(1);
        }
    }

    /// The scopes of this challenge may be granted as often as at first.
    pub(super) fn forget(&mut self, hint: &Hint) {
        self.0.remove(&key(hint));
    }

    /// Whether no further grant is requested for the scopes of this challenge.
    pub(super) fn is_spent(&self, hint: &Hint, flow: &Flow) -> bool {
        match self.0.get(&key(hint)) {
            // A client without a user requests further scopes once.
            Some(grants) => *grants >= if *flow == Flow::User { STEPS } else { 1 },
            None => self.0.len() >= COUNTED,
        }
    }
}

/// The scopes of a challenge, in an order of their own.
fn key(hint: &Hint) -> Box<str> {
    let mut scopes: Vec<_> = hint.scopes.iter().flat_map(|it| it.split_ascii_whitespace()).collect();
    scopes.sort_unstable();
    union(&[&scopes.join(" ")])
}
