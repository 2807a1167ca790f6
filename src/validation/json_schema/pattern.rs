//! What a regular expression costs, from the automaton that the library makes of it.

use alloc::vec::Vec;
use regex_automata::dfa::onepass;
use regex_automata::nfa::thompson::NFA;
use std::collections::HashMap;

use super::{count, limit};
use crate::validation::{ValidationError, ValidationLimit};

/// Maximum number of different regular expressions.
const PATTERNS: usize = 64;

/// Maximum size of all compiled regular expressions, in bytes, and of each automaton that one becomes while it runs.
pub(super) const BYTES: usize = 1 << 20;

/// Maximum work to translate regular expressions: the library parses one some times, and again for each of its escape
/// sequences. The product of length and number, for at most 16 KiB in all.
const TRANSLATION: usize = 1 << 19;

/// To parse, to compile, and to do both again counts as much as this many escape sequences.
const PARSED: usize = 32;

/// The length of what an escape sequence is translated to.
const TRANSLATED: usize = 32;

/// A group makes each state larger by this part of its size.
const GROUPS: u64 = 16;

/// The size of a compiled regular expression times the length of a text that make one step.
const STEP: u64 = 48;

/// The steps to compute a transition of an automaton that has one state at a time.
const TRANSITION: u64 = 16;

/// The length of a text that a known part of an automaton reads in one step.
const KNOWN: u64 = 64;

/// A regular expression.
///
/// In the worst case each byte of a text leads to each state of the automaton. If the expression is anchored and no text
/// leads to two states at a time, a transition is computed once, and the next byte that takes it costs next to nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Pattern {
    /// The size of the compiled expression, in bytes; each group makes the states larger.
    pub(super) size: u64,
    /// How many transitions are still to be computed; `None` if each byte may lead to a new set of states.
    transitions: Option<u64>,
}

impl Pattern {
    /// `None` if it cannot be compiled.
    fn read(text: &str) -> Result<Option<Self>, ValidationError> {
        let Ok(text) = jsonschema_regex::to_rust_regex(text) else { return Ok(None) };
        let nfa = NFA::compiler().configure(NFA::config().nfa_size_limit(Some(BYTES))).build(&text);
        let nfa = match nfa {
            Ok(nfa) => nfa,
            Err(error) if error.size_limit().is_some() => return Err(limit(ValidationLimit::Patterns)),
            Err(_) => return Ok(None),
        };
        let groups = count(nfa.group_info().all_group_len()).saturating_add(GROUPS);
        let size = count(nfa.memory_usage()).saturating_mul(groups) / GROUPS;
        let mut one_state = onepass::Builder::new();
        one_state.configure(onepass::Config::new().size_limit(Some(BYTES / 8)));
        let automaton = if nfa.is_always_start_anchored() { one_state.build_from_nfa(nfa).ok() } else { None };
        Ok(Some(Self { size, transitions: automaton.map(|automaton| count(automaton.memory_usage()) / 8) }))
    }

    /// The steps to search a text of this length.
    pub(super) fn search(&mut self, length: usize) -> u64 {
        let length = count(length).saturating_add(1);
        match &mut self.transitions {
            None => (self.size.saturating_mul(length) / STEP).saturating_add(1),
            Some(left) => {
                let new = length.min(*left);
                *left = left.saturating_sub(new);
                new.saturating_mul(TRANSITION).saturating_add(length / KNOWN).saturating_add(1)
            }
        }
    }
}

/// The regular expressions of a schema, each once.
#[derive(Default)]
pub(super) struct Patterns<'a> {
    found: HashMap<&'a str, usize>,
    pub(super) all: Vec<Pattern>,
    translation: usize,
    size: u64,
}

impl<'a> Patterns<'a> {
    /// The index of a regular expression.
    pub(super) fn add(&mut self, text: &'a str) -> Result<usize, ValidationError> {
        if let Some(known) = self.found.get(text) {
            return Ok(*known);
        }
        let escapes = text.bytes().filter(|byte| *byte == b'\\').count();
        let length = escapes.saturating_mul(TRANSLATED).saturating_add(text.len());
        self.translation = escapes.saturating_add(PARSED).saturating_mul(length).saturating_add(self.translation);
        if self.all.len() == PATTERNS || self.translation > TRANSLATION {
            return Err(limit(ValidationLimit::Patterns));
        }
        // The library says why it cannot be compiled.
        let pattern = Pattern::read(text)?.unwrap_or_default();
        self.size = self.size.saturating_add(pattern.size);
        if self.size > count(BYTES) {
            return Err(limit(ValidationLimit::Patterns));
        }
        let index = self.all.len();
        self.found.insert(text, index);
        self.all.push(pattern);
        Ok(index)
    }
}
