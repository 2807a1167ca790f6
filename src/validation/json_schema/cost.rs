//! Bounds on the work and the stack that the validator takes, found without it.
//!
//! The validator is recursive, and a few references make it do work that is exponential in the size of the schema. So the
//! graph of subschemas is walked first: for the schema alone, then with the instance.

use alloc::string::String;
use alloc::vec::Vec;
use core::ptr;
use std::collections::HashMap;

use serde_json::Value;

use super::graph::{Applied, Node, has_subschemas};
use super::nesting::check_nesting;
use crate::validation::{ValidationError, ValidationLimit};

/// Maximum number of subschemas that a value and what it holds lead through in a row.
const HEIGHT: usize = 256;

/// Maximum number of subschemas that are applied to one value. One that is applied twice counts twice.
const REPEATED: u64 = 10_000;

/// The length of a string that costs one step.
const STRING: usize = 64;

/// The steps to compare an element with others, for `uniqueItems`: the validator compares small arrays pairwise.
const COMPARISONS: u64 = 16;

/// What a subschema costs without the values in an instance.
#[derive(Clone, Copy)]
struct Shape {
    /// The values in its keywords, except subschemas.
    weight: u64,
    /// The sum of the weights of all that is applied to the same value.
    weights: u64,
    /// How many are compiled for it.
    subschemas: u64,
    /// How many are compiled to find what it evaluates, for a keyword such as `unevaluatedProperties`.
    marking: u64,
    /// A keyword goes through all members or elements.
    goes_through: bool,
    unique: bool,
    /// The number of keywords such as `unevaluatedProperties`.
    unevaluated: u64,
}

#[derive(Clone, Copy)]
enum State {
    Unseen,
    Open,
    Done(Shape),
}

/// The cost of a subschema applied to a value.
#[derive(Clone, Copy, Default)]
struct Cost {
    steps: u64,
    /// The steps to find what the subschema evaluates.
    marking: u64,
    height: usize,
}

pub(super) struct Estimate<'g, 'a> {
    nodes: &'g [Node<'a>],
    shapes: Vec<Shape>,
}

const fn limit(limit: ValidationLimit) -> ValidationError {
    ValidationError::Limit(limit)
}

impl<'g, 'a> Estimate<'g, 'a> {
    /// Checks the schema without an instance.
    pub(super) fn of(nodes: &'g [Node<'a>]) -> Result<Self, ValidationError> {
        check_nesting(nodes)?;
        let mut states = vec![State::Unseen; nodes.len()];
        let shapes = (0..nodes.len()).map(|at| shape(nodes, at, &mut states)).collect::<Result<_, _>>()?;
        Ok(Self { nodes, shapes })
    }

    /// The steps to check an instance, if they are at most `most`.
    pub(super) fn steps(&self, instance: &Value, most: u64) -> Result<u64, ValidationError> {
        let mut walk = Walk { estimate: self, known: HashMap::new(), most, left: most };
        walk.cost(0, instance, 0).map(|cost| cost.steps)
    }
}

/// Recursive, up to the nesting that was checked before.
fn shape(nodes: &[Node<'_>], at: usize, states: &mut [State]) -> Result<Shape, ValidationError> {
    match states.get(at) {
        Some(State::Done(shape)) => return Ok(*shape),
        Some(State::Open) => return Err(ValidationError::Loop),
        Some(State::Unseen) | None => {}
    }
    set(states, at, State::Open);
    let weight = nodes.get(at).map_or(0, weight);
    let has =
        |names: &[&str]| nodes.get(at).is_some_and(|node| names.iter().any(|name| node.schema.contains_key(*name)));
    let mut shape = Shape {
        weight,
        weights: weight,
        subschemas: 1,
        marking: 1,
        goes_through: has(&[
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "unevaluatedProperties",
            "items",
            "additionalItems",
            "contains",
            "unevaluatedItems",
        ]),
        unique: has(&["uniqueItems"]),
        unevaluated: nodes.get(at).map_or(0, |node| node.unevaluated()),
    };
    for edge in nodes.get(at).into_iter().flat_map(|node| &node.edges) {
        if matches!(edge.applied, Applied::Same) {
            let child = self::shape(nodes, edge.to, states)?;
            shape.weights = shape.weights.saturating_add(child.weights);
            shape.subschemas = shape.subschemas.saturating_add(child.subschemas);
            shape.marking = shape.marking.saturating_add(child.subschemas).saturating_add(child.marking);
        }
    }
    shape.subschemas = shape.subschemas.saturating_add(shape.marking.saturating_mul(shape.unevaluated));
    if shape.subschemas > REPEATED {
        return Err(limit(ValidationLimit::Subschemas));
    }
    set(states, at, State::Done(shape));
    Ok(shape)
}

fn set(states: &mut [State], at: usize, state: State) {
    if let Some(slot) = states.get_mut(at) {
        *slot = state;
    }
}

fn weight(node: &Node<'_>) -> u64 {
    let own = node.schema.iter().filter(|(name, _)| !has_subschemas(name));
    own.fold(1, |sum, (_, value)| size(value).saturating_add(sum))
}

/// The number of values in a value, itself included. Recursive: the depth of schemas and instances is bounded.
fn size(value: &Value) -> u64 {
    let add = |sum: u64, value: &Value| sum.saturating_add(size(value));
    match value {
        Value::Array(elements) => elements.iter().fold(1, add),
        Value::Object(members) => members.values().fold(1, add),
        Value::String(text) => length(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len() / STRING).unwrap_or(u64::MAX).saturating_add(1)
}

struct Walk<'e, 'g, 'a> {
    estimate: &'e Estimate<'g, 'a>,
    /// The costs of subschemas that several others lead to, by the place of the value.
    known: HashMap<(usize, usize), Cost>,
    most: u64,
    /// How many steps the walk itself may still take.
    left: u64,
}

impl Walk<'_, '_, '_> {
    fn take(&mut self, steps: u64) -> Result<(), ValidationError> {
        self.left = self.left.checked_sub(steps).ok_or(limit(ValidationLimit::Work))?;
        Ok(())
    }

    /// The cost of a subschema on a value, `level` subschemas from the root.
    fn cost(&mut self, at: usize, value: &Value, level: usize) -> Result<Cost, ValidationError> {
        let estimate = self.estimate;
        let (Some(node), Some(shape)) = (estimate.nodes.get(at), estimate.shapes.get(at)) else {
            return Ok(Cost::default());
        };
        let key = (at, ptr::from_ref(value).addr());
        let known = self.known.get(&key).copied();
        if level.saturating_add(known.map_or(1, |cost| cost.height)) > HEIGHT {
            return Err(limit(ValidationLimit::Nesting));
        }
        if let Some(cost) = known {
            self.take(1)?;
            return Ok(cost);
        }

        let mut own = match value {
            Value::String(text) => shape.weight.saturating_mul(length(text)),
            Value::Array(elements) if shape.unique => {
                let size = size(value);
                self.take(size)?;
                let through = if shape.goes_through { elements.len() } else { 0 };
                shape.weight.saturating_add(size.saturating_mul(COMPARISONS)).saturating_add(count(through))
            }
            Value::Array(elements) if shape.goes_through => shape.weight.saturating_add(count(elements.len())),
            Value::Object(members) if shape.goes_through => shape.weight.saturating_add(count(members.len())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => shape.weight,
        };
        let (mut same, mut below) = (Cost::default(), Cost::default());
        self.take(1)?;
        for edge in &node.edges {
            self.take(1)?;
            match (edge.applied, value) {
                (Applied::Same, _) => same.add(self.cost(edge.to, value, level.saturating_add(1))?),
                (Applied::Member(name), Value::Object(members)) => {
                    self.each(members.get(name), edge.to, level, &mut below)?;
                }
                (Applied::Members, Value::Object(members)) => {
                    self.each(members.values(), edge.to, level, &mut below)?;
                }
                (Applied::OtherMembers, Value::Object(members)) => {
                    let named = node.schema.get("properties").and_then(Value::as_object);
                    let is_other = |name: &String| named.is_none_or(|named| !named.contains_key(name));
                    let others = members.iter().filter(|(name, _)| is_other(name)).map(|(_, value)| value);
                    self.each(others, edge.to, level, &mut below)?;
                }
                (Applied::Names, Value::Object(members)) => {
                    let weights = estimate.shapes.get(edge.to).map_or(0, |shape| shape.weights);
                    let lengths = members.keys().fold(0, |sum: u64, name| sum.saturating_add(length(name)));
                    own = own.saturating_add(weights.saturating_mul(lengths));
                }
                (Applied::Element(index), Value::Array(elements)) => {
                    self.each(elements.get(index), edge.to, level, &mut below)?;
                }
                (Applied::Elements, Value::Array(elements)) => self.each(elements, edge.to, level, &mut below)?,
                _ => {}
            }
        }
        // To find what was evaluated, the validator applies each level of subschemas again.
        let steps = same.steps.saturating_add(below.steps).saturating_add(own);
        let marking = steps.saturating_add(same.marking);
        let steps = marking.saturating_mul(shape.unevaluated).saturating_add(steps);
        if steps > self.most {
            return Err(limit(ValidationLimit::Work));
        }
        let cost = Cost { steps, marking, height: same.height.max(below.height).saturating_add(1) };
        if node.incoming > 1 {
            self.known.insert(key, cost);
        }
        Ok(cost)
    }

    fn each<'v>(
        &mut self,
        values: impl IntoIterator<Item = &'v Value>,
        to: usize,
        level: usize,
        sum: &mut Cost,
    ) -> Result<(), ValidationError> {
        for value in values {
            sum.add(self.cost(to, value, level.saturating_add(1))?);
        }
        Ok(())
    }
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.marking = self.marking.saturating_add(other.marking);
        self.height = self.height.max(other.height);
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
