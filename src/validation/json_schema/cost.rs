//! Bounds of what the library does with a schema: how deep it recurs, what it compiles more than once, what a regular
//! expression costs, and the steps to check an instance.

use alloc::vec::Vec;
use regex_automata::dfa::onepass;
use regex_automata::nfa::thompson::NFA;
use serde_json::Value;
use std::collections::HashMap;

use super::graph::{Applied, Edge, Graph, Node, length, unique};
use super::{count, limit};
use crate::validation::{ValidationError, ValidationLimit};

/// Maximum number of subschemas that are applied to one value. One that is applied twice counts twice.
const REPEATED: u64 = 10_000;

/// Maximum number of subschemas that lead to each other in a row, each once.
const NESTING: usize = 96;

/// Checks what the library does with a schema before it has an instance: how much it compiles, and how deep it recurs.
pub(super) fn check_schema(graph: &Graph<'_>) -> Result<(), ValidationError> {
    let mut states = vec![State::Unseen; graph.nodes.len()];
    for at in 0..graph.nodes.len() {
        if repeated(&graph.nodes, at, &mut states, 0)? > REPEATED {
            return Err(limit(ValidationLimit::Subschemas));
        }
    }
    Rows::check(&graph.nodes, &compiled_again(&graph.nodes)?)
}

#[derive(Clone, Copy)]
enum State {
    Unseen,
    Open,
    Done(u64),
}

/// The number of subschemas that are applied to the value of one.
fn repeated(nodes: &[Node<'_>], at: usize, states: &mut [State], level: usize) -> Result<u64, ValidationError> {
    nesting(level)?;
    match states.get_mut(at) {
        Some(State::Done(count)) => return Ok(*count),
        Some(State::Open) => return Err(ValidationError::Loop),
        Some(state @ State::Unseen) => *state = State::Open,
        None => {}
    }
    let mut sum = 1_u64;
    for edge in edges(nodes, at).iter().filter(|edge| matches!(edge.applied, Applied::Same)) {
        sum = sum.saturating_add(repeated(nodes, edge.to, states, level.saturating_add(1))?);
    }
    if let Some(state) = states.get_mut(at) {
        *state = State::Done(sum);
    }
    Ok(sum)
}

fn edges<'g, 'a>(nodes: &'g [Node<'a>], at: usize) -> &'g [Edge<'a>] {
    nodes.get(at).map_or(&[], |node| &node.edges)
}

const fn nesting(level: usize) -> Result<(), ValidationError> {
    if level > NESTING { Err(limit(ValidationLimit::Nesting)) } else { Ok(()) }
}

/// Maximum steps to compile a schema; a subschema takes at least one each time that it is compiled.
const COMPILATION: u64 = 20_000;

/// The steps to compile the schema of a dialect.
const DIALECT: u64 = 1_000;

/// Checks the steps to compile. Returns how deep each subschema leads in what is compiled more than once.
fn compiled_again(nodes: &[Node<'_>]) -> Result<Vec<usize>, ValidationError> {
    let leads_out =
        |node: &Node<'_>| node.edges.iter().any(|edge| nodes.get(edge.to).is_some_and(|to| !to.is_of_dialect()));
    let closed = !nodes.iter().any(|node| node.is_of_dialect() && leads_out(node));
    let mut again = Again { nodes, closed, left: COMPILATION, open: Vec::new(), deepest: 0 };
    let mut deepest = vec![0; nodes.len()];
    nodes.iter().try_for_each(|node| again.take(node.compilation(node.path)))?;
    // The library compiles a subschema for each row of resources that leads to it.
    if nodes.iter().any(|node| node.edges.iter().any(|edge| again.is_to_other_resource(node, edge))) {
        again.compile(0, Place { level: 0, path: 0 }, true)?;
    }
    for (at, deepest) in deepest.iter_mut().enumerate() {
        let Some(node) = nodes.get(at).filter(|node| !node.is_of_dialect()) else { continue };
        again.deepest = 0;
        let place = Place { level: 0, path: node.path };
        for edge in node.edges.iter().filter(|edge| matches!(edge.applied, Applied::Names)) {
            again.compile_names(edge, place)?;
        }
        for _ in 0..node.unevaluated {
            again.mark(at, place, 1, false)?;
        }
        *deepest = again.deepest;
    }
    Ok(deepest)
}

/// Follows how the library compiles subschemas more than once:
///
/// - what a keyword such as `unevaluatedProperties` has to know of other subschemas, at its place;
/// - the subschema of `propertyNames`, without what was compiled before;
/// - each resource, without what was compiled for another row of resources.
struct Again<'g, 'a> {
    nodes: &'g [Node<'a>],
    /// No schema of a dialect leads to another schema.
    closed: bool,
    /// The steps that are left.
    left: u64,
    /// The references that are followed: a subschema, and the number of its edge.
    open: Vec<(usize, usize)>,
    deepest: usize,
}

#[derive(Clone, Copy)]
struct Place {
    level: usize,
    /// The length of the path.
    path: usize,
}

impl Place {
    const fn deeper(self) -> Self {
        Self { level: self.level.saturating_add(1), path: self.path }
    }

    /// The place of what an edge leads to, if it is compiled below this one.
    const fn below(self, edge: &Edge<'_>) -> Self {
        Self { path: self.path.saturating_add(edge.length), ..self.deeper() }
    }
}

impl<'g, 'a> Again<'g, 'a> {
    fn is_to_other_resource(&self, node: &Node<'_>, edge: &Edge<'_>) -> bool {
        let to = self.nodes.get(edge.to).filter(|to| !(self.closed && (to.is_of_dialect() || node.is_of_dialect())));
        edge.is_reference && to.is_some_and(|to| to.resource != node.resource)
    }

    /// Takes steps; `None` if the subschema is not to be followed.
    fn enter(&mut self, at: usize, place: Place, times: usize) -> Result<Option<&'g Node<'a>>, ValidationError> {
        let Some(node) = self.nodes.get(at) else { return Ok(None) };
        let is_followed = !(self.closed && node.is_of_dialect());
        let steps = if is_followed { node.compilation(place.path) } else { DIALECT };
        self.take(steps.saturating_mul(count(times)))?;
        if place.level > NESTING {
            return Err(limit(ValidationLimit::Subschemas));
        }
        self.deepest = self.deepest.max(place.level);
        Ok(is_followed.then_some(node))
    }

    fn take(&mut self, steps: u64) -> Result<(), ValidationError> {
        self.left = self.left.checked_sub(steps).ok_or(limit(ValidationLimit::Subschemas))?;
        Ok(())
    }

    /// Compiles a subschema at a new place. A reference leads to what is compiled already, unless nothing is known.
    fn compile(&mut self, at: usize, place: Place, is_new: bool) -> Result<(), ValidationError> {
        let Some(node) = self.enter(at, place, 1)? else { return Ok(()) };
        for (number, edge) in node.edges.iter().enumerate() {
            if matches!(edge.applied, Applied::Names) {
                self.compile_names(edge, place)?;
            } else if edge.is_reference {
                if is_new && !self.open.contains(&(at, number)) {
                    self.open.push((at, number));
                    self.compile(edge.to, Place { path: edge.length, ..place.deeper() }, true)?;
                    self.open.pop();
                }
            } else if !matches!(edge.applied, Applied::Nothing) {
                self.compile(edge.to, place.below(edge), is_new)?;
            }
        }
        for _ in 0..node.unevaluated {
            self.mark(at, place.deeper(), 1, is_new)?;
        }
        Ok(())
    }

    fn compile_names(&mut self, edge: &Edge<'_>, place: Place) -> Result<(), ValidationError> {
        let open = core::mem::take(&mut self.open);
        self.compile(edge.to, place.below(edge), true)?;
        self.open = open;
        Ok(())
    }

    /// Compiles what a subschema evaluates. It is copied once for each subschema above that is compiled for the same.
    fn mark(&mut self, at: usize, place: Place, copies: usize, is_new: bool) -> Result<(), ValidationError> {
        let Some(node) = self.enter(at, place, copies)? else { return Ok(()) };
        for edge in &node.edges {
            let below = if edge.is_reference { place.deeper() } else { place.below(edge) };
            match edge.applied {
                Applied::Same => {
                    if !edge.is_reference {
                        self.compile(edge.to, below, is_new)?;
                    }
                    self.mark(edge.to, below, copies.saturating_add(1), is_new)?;
                }
                Applied::Members | Applied::OtherMembers | Applied::Element(_) | Applied::Elements => {
                    self.compile(edge.to, below, is_new)?;
                }
                Applied::Member(_) | Applied::Names | Applied::Nothing => {}
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Default)]
struct Mark {
    /// The order in which it was found.
    order: Option<usize>,
    /// The least order that it leads to among the open ones.
    low: usize,
    /// The longest row in other components that it leads to.
    after: usize,
    /// The longest row from its component on, once that is complete.
    row: Option<usize>,
}

/// The rows of subschemas that lead to each other. The longest is at most the heaviest path through the strongly connected
/// components, each with the number of its subschemas. Tarjan's algorithm; its recursion is as deep as a row.
struct Rows<'g, 'a> {
    nodes: &'g [Node<'a>],
    /// How deep each subschema leads beside its edges.
    beside: &'g [usize],
    marks: Vec<Mark>,
    open: Vec<usize>,
    count: usize,
}

impl<'g, 'a> Rows<'g, 'a> {
    /// Fails if a row may be too long.
    fn check(nodes: &'g [Node<'a>], beside: &'g [usize]) -> Result<(), ValidationError> {
        let marks = vec![Mark::default(); nodes.len()];
        let mut rows = Self { nodes, beside, marks, open: Vec::new(), count: 0 };
        for at in 0..nodes.len() {
            if rows.marks.get(at).is_some_and(|mark| mark.order.is_none()) {
                rows.visit(at, 0)?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, at: usize, level: usize) -> Result<(), ValidationError> {
        nesting(level)?;
        let (order, beside) = (self.count, self.beside.get(at).copied().unwrap_or_default());
        let mut mark = Mark { order: Some(order), low: order, after: beside, row: None };
        self.set(at, mark);
        self.count = self.count.saturating_add(1);
        self.open.push(at);
        for edge in edges(self.nodes, at).iter().filter(|edge| !matches!(edge.applied, Applied::Nothing)) {
            if self.marks.get(edge.to).is_some_and(|mark| mark.order.is_none()) {
                self.visit(edge.to, level.saturating_add(1))?;
            }
            let Mark { low, row, .. } = self.marks.get(edge.to).copied().unwrap_or(mark);
            match row {
                Some(row) => mark.after = mark.after.max(row),
                None => mark.low = mark.low.min(low),
            }
        }
        self.set(at, mark);
        if mark.low == order { self.close(at) } else { Ok(()) }
    }

    fn set(&mut self, at: usize, mark: Mark) {
        if let Some(known) = self.marks.get_mut(at) {
            *known = mark;
        }
    }

    /// Completes the component whose first subschema is `first`.
    fn close(&mut self, first: usize) -> Result<(), ValidationError> {
        let start = self.open.iter().rposition(|at| *at == first).unwrap_or_default();
        let component = self.open.split_off(start);
        let marks: Vec<_> = component.iter().filter_map(|at| Some((*at, *self.marks.get(*at)?))).collect();
        let after = marks.iter().map(|(_, mark)| mark.after).max();
        let row = component.len().saturating_add(after.unwrap_or_default());
        nesting(row)?;
        marks.into_iter().for_each(|(at, mark)| self.set(at, Mark { row: Some(row), ..mark }));
        Ok(())
    }
}

/// Maximum number of subschemas that a value and what it holds lead through in a row.
const HEIGHT: usize = 256;

/// Fails if to check an instance may take more than `most` steps. Each subschema is applied to each value that it may be
/// applied to, as often as there are ways to it. Returns how often subschemas are applied.
pub(super) fn check_work(graph: &Graph<'_>, instance: &Value, most: u64) -> Result<u64, ValidationError> {
    let mut walk = Walk { nodes: &graph.nodes, patterns: graph.patterns.clone(), left: most, applied: 0 };
    walk.take(graph.comparisons)?;
    walk.apply(0, instance, 0, false)?;
    Ok(walk.applied)
}

struct Walk<'g, 'a> {
    nodes: &'g [Node<'a>],
    patterns: Vec<Pattern>,
    left: u64,
    applied: u64,
}

impl Walk<'_, '_> {
    fn take(&mut self, steps: u64) -> Result<(), ValidationError> {
        self.left = self.left.checked_sub(steps).ok_or(limit(ValidationLimit::Work))?;
        Ok(())
    }

    fn search(&mut self, pattern: usize, text: &str) -> Result<(), ValidationError> {
        let steps = self.patterns.get_mut(pattern).map_or(0, |pattern| pattern.search(text.len()));
        self.take(steps)
    }

    /// Applies a subschema, `level` subschemas from the root. A keyword such as `unevaluatedProperties` has each level of
    /// subschemas below it applied again, to mark what they evaluate.
    fn apply(&mut self, at: usize, value: &Value, level: usize, marks: bool) -> Result<(), ValidationError> {
        if level >= HEIGHT {
            return Err(limit(ValidationLimit::Nesting));
        }
        let nodes = self.nodes;
        let Some(node) = nodes.get(at) else { return Ok(()) };
        self.applied = self.applied.saturating_add(1);
        self.apply_own(node, value)?;
        let level = level.saturating_add(1);
        for edge in &node.edges {
            self.take(1)?;
            match (edge.applied, value) {
                (Applied::Same, _) => {
                    self.apply(edge.to, value, level, false)?;
                    if marks {
                        self.apply(edge.to, value, level, true)?;
                    }
                }
                (Applied::Member(name), Value::Object(members)) if !marks => {
                    self.each(members.get(name), edge.to, level)?;
                }
                (Applied::Members, Value::Object(members)) => self.each(members.values(), edge.to, level)?,
                (Applied::OtherMembers, Value::Object(members)) => {
                    let named = node.schema.get("properties").and_then(Value::as_object);
                    let is_other = |name: &str| named.is_none_or(|named| !named.contains_key(name));
                    let others = members.iter().filter(|(name, _)| is_other(name)).map(|(_, value)| value);
                    self.each(others, edge.to, level)?;
                }
                (Applied::Names, Value::Object(members)) if !marks => {
                    for name in members.keys() {
                        self.apply(edge.to, &Value::String(name.clone()), level, false)?;
                    }
                }
                (Applied::Element(index), Value::Array(elements)) => self.each(elements.get(index), edge.to, level)?,
                (Applied::Elements, Value::Array(elements)) => self.each(elements, edge.to, level)?,
                _ => {}
            }
        }
        if !marks {
            for _ in 0..node.unevaluated {
                self.apply(at, value, level, true)?;
            }
        }
        Ok(())
    }

    fn each<'v>(
        &mut self,
        values: impl IntoIterator<Item = &'v Value>,
        to: usize,
        level: usize,
    ) -> Result<(), ValidationError> {
        values.into_iter().try_for_each(|value| self.apply(to, value, level, false))
    }

    /// Applies what is not a subschema.
    fn apply_own(&mut self, node: &Node<'_>, value: &Value) -> Result<(), ValidationError> {
        let cost = &node.cost;
        match value {
            Value::String(text) => {
                let bytes = cost.byte.saturating_mul(count(text.len()));
                self.take(cost.value.saturating_mul(length(text)).saturating_add(cost.text).saturating_add(bytes))?;
                node.pattern.map_or(Ok(()), |pattern| self.search(pattern, text))
            }
            Value::Number(_) => self.take(cost.value.saturating_add(cost.number)),
            Value::Array(elements) => {
                let compared = if cost.unique { unique(elements) } else { 0 };
                let through = cost.each.saturating_mul(count(elements.len()));
                self.take(cost.value.saturating_add(through).saturating_add(compared))
            }
            Value::Object(members) => {
                self.take(cost.each.saturating_mul(count(members.len())).saturating_add(cost.value))?;
                for name in members.keys() {
                    for pattern in &node.names {
                        self.search(*pattern, name)?;
                    }
                }
                Ok(())
            }
            Value::Null | Value::Bool(_) => self.take(cost.value),
        }
    }
}

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
