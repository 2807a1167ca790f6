//! What a schema costs: the graph of its references, the work of its checks, and how deep they nest.

use alloc::string::String;
use alloc::vec::Vec;
use core::ptr;
use jsonschema::{Draft, Registry, Uri};
use serde_json::{Map, Value};
use std::collections::HashMap;

use super::{draft_of, reference_error};
use crate::validation::{ValidationError, ValidationLimit};

/// Maximum number of subschemas.
const SUBSCHEMAS: usize = 10_000;

/// Maximum number of regular expressions. Each may take a megabyte.
const PATTERNS: usize = 64;

/// Maximum work to translate regular expressions: the library parses one again for each of its escape sequences.
const TRANSLATION: usize = 1 << 16;

/// To what a subschema is applied, seen from the value that its parent is applied to.
#[derive(Clone, Copy)]
pub(super) enum Applied<'a> {
    /// To the same value.
    Same,
    /// To one member.
    Member(&'a str),
    /// To each member.
    Members,
    /// To each member that `properties` does not name.
    OtherMembers,
    /// To the name of each member.
    Names,
    /// To one element.
    Element(usize),
    /// To each element.
    Elements,
    /// To nothing, unless a reference leads to it.
    Nothing,
}

pub(super) struct Edge<'a> {
    pub(super) to: usize,
    pub(super) applied: Applied<'a>,
}

pub(super) struct Node<'a> {
    pub(super) schema: &'a Map<String, Value>,
    pub(super) edges: Vec<Edge<'a>>,
    /// The number of edges to this node.
    pub(super) incoming: usize,
}

impl Node<'_> {
    /// The number of keywords that apply to what other keywords did not evaluate.
    pub(super) fn unevaluated(&self) -> u64 {
        let has = |name| u64::from(self.schema.contains_key(name));
        has("unevaluatedProperties").saturating_add(has("unevaluatedItems"))
    }
}

/// Where the subschemas of a keyword are.
enum Holder {
    /// The keyword's value, or the elements of its array.
    Value,
    /// The members of the keyword's value.
    Members,
}

fn keyword(name: &str) -> Option<(Holder, Applied<'static>)> {
    Some(match name {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => (Holder::Value, Applied::Same),
        "dependentSchemas" | "dependencies" => (Holder::Members, Applied::Same),
        "properties" => (Holder::Members, Applied::Member("")),
        "patternProperties" => (Holder::Members, Applied::Members),
        "additionalProperties" => (Holder::Value, Applied::OtherMembers),
        "unevaluatedProperties" => (Holder::Value, Applied::Members),
        "propertyNames" => (Holder::Value, Applied::Names),
        "prefixItems" => (Holder::Value, Applied::Element(0)),
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => (Holder::Value, Applied::Elements),
        "$defs" | "definitions" => (Holder::Members, Applied::Nothing),
        "contentSchema" => (Holder::Value, Applied::Nothing),
        _ => return None,
    })
}

/// Whether the values of a keyword are subschemas.
pub(super) fn has_subschemas(name: &str) -> bool {
    keyword(name).is_some()
}

/// The subschemas of a keyword's value.
fn subschemas<'a>(name: &str, value: &'a Value) -> Vec<(Applied<'a>, &'a Value)> {
    match (keyword(name), value) {
        (Some((Holder::Members, applied)), Value::Object(members)) => {
            let by_name = matches!(applied, Applied::Member(_));
            let members =
                members.iter().map(|(name, value)| (if by_name { Applied::Member(name) } else { applied }, value));
            members.collect()
        }
        (Some((Holder::Value, applied)), Value::Array(elements)) => {
            let elements = elements.iter().enumerate().map(|(index, value)| match (applied, name) {
                (Applied::Element(_), _) | (_, "items") => (Applied::Element(index), value),
                (applied, _) => (applied, value),
            });
            elements.collect()
        }
        (Some((Holder::Value, applied)), value) => Vec::from([(applied, value)]),
        _ => Vec::new(),
    }
}

/// The subschemas that the schema has or refers to; the schema itself is the first.
pub(super) fn read<'a>(
    schema: &'a Value,
    draft: Draft,
    registry: &'a Registry<'a>,
    base: Uri<String>,
) -> Result<Vec<Node<'a>>, ValidationError> {
    let mut nodes: Vec<Node<'a>> = Vec::new();
    let mut found: HashMap<usize, usize> = HashMap::new();
    // Nodes with a dynamic reference, and the name of the anchor that it may lead to.
    let mut dynamic = Vec::new();
    let mut anchors: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut patterns = Patterns::default();

    let mut work = Vec::new();
    let mut targets = Vec::from([(Applied::Nothing, schema, registry.resolver(base), draft)]);
    let mut from = None;
    loop {
        for (applied, value, resolver, draft) in targets {
            let Some(object) = value.as_object() else { continue };
            let next = nodes.len();
            let to = *found.entry(ptr::from_ref(value).addr()).or_insert(next);
            if to == next {
                if next == SUBSCHEMAS {
                    return Err(ValidationError::Limit(ValidationLimit::Subschemas));
                }
                nodes.push(Node { schema: object, edges: Vec::new(), incoming: 0 });
                work.push((to, object, resolver, draft));
            }
            connect(&mut nodes, from, to, applied);
        }
        let Some((at, object, resolver, draft)) = work.pop() else { break };
        from = Some(at);
        targets = Vec::new();
        for (name, value) in object {
            for (applied, child) in subschemas(name, value) {
                let draft = draft_of(child, draft)?;
                let resolver = resolver
                    .in_subresource(draft.create_resource_ref(child))
                    .map_err(|error| reference_error(&error, ""))?;
                targets.push((applied, child, resolver, draft));
            }
            match (name.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    let resolved = resolver.lookup(reference).map_err(|error| reference_error(&error, reference))?;
                    let (target, resolver, draft) = resolved.into_inner();
                    targets.push((Applied::Same, target, resolver, draft_of(target, draft)?));
                    match (name.as_str(), reference.rsplit_once('#')) {
                        ("$dynamicRef", Some((_, anchor))) => dynamic.push((at, anchor)),
                        ("$recursiveRef", _) => dynamic.push((at, RECURSIVE)),
                        _ => {}
                    }
                }
                ("$dynamicAnchor", Value::String(anchor)) => anchors.entry(anchor).or_default().push(at),
                ("$recursiveAnchor", Value::Bool(true)) => anchors.entry(RECURSIVE).or_default().push(at),
                ("pattern", Value::String(pattern)) => patterns.add(pattern)?,
                ("patternProperties", Value::Object(members)) => {
                    members.keys().try_for_each(|pattern| patterns.add(pattern))?;
                }
                _ => {}
            }
        }
    }
    // A dynamic reference leads to one of the anchors of its name, and which one depends on the path to it.
    let mut edges = 0_usize;
    for (at, anchor) in dynamic {
        for to in anchors.get(anchor).into_iter().flatten() {
            edges = edges.saturating_add(1);
            if edges > SUBSCHEMAS {
                return Err(ValidationError::Limit(ValidationLimit::Subschemas));
            }
            connect(&mut nodes, Some(at), *to, Applied::Same);
        }
    }
    Ok(nodes)
}

/// The regular expressions that were found.
#[derive(Default)]
struct Patterns {
    count: usize,
    work: usize,
}

impl Patterns {
    fn add(&mut self, pattern: &str) -> Result<(), ValidationError> {
        let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
        self.count = self.count.saturating_add(1);
        self.work = self.work.saturating_add(escapes.saturating_mul(pattern.len()));
        if self.count > PATTERNS || self.work > TRANSLATION {
            return Err(ValidationError::Limit(ValidationLimit::Patterns));
        }
        Ok(())
    }
}

/// Stands for the anchor that `$recursiveAnchor` declares; no valid anchor has this name.
const RECURSIVE: &str = "#";

fn connect<'a>(nodes: &mut [Node<'a>], from: Option<usize>, to: usize, applied: Applied<'a>) {
    let Some(from) = from.and_then(|from| nodes.get_mut(from)) else { return };
    from.edges.push(Edge { to, applied });
    if let Some(node) = nodes.get_mut(to) {
        node.incoming = node.incoming.saturating_add(1);
    }
}

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

/// Maximum number of subschemas that lead to each other in a row, each once.
const NESTING: usize = 96;

/// Maximum number of subschemas that are compiled again for a keyword such as `unevaluatedProperties`.
const AGAIN: u64 = 10_000;

/// Fails if a row of subschemas that lead to each other may be too long, or if too much is compiled again. The longest row
/// is at most the heaviest path through the strongly connected components, each with the number of its subschemas.
pub(super) fn check_nesting(nodes: &[Node<'_>]) -> Result<(), ValidationError> {
    let marked = marked(nodes);
    let marks = vec![Mark::default(); nodes.len()];
    let mut components = Components { nodes, marked, marks, open: Vec::new(), count: 0 };
    for at in 0..nodes.len() {
        if components.marks.get(at).is_some_and(|mark| mark.order.is_none()) {
            components.visit(at, 0)?;
        }
    }
    Ok(())
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
    /// The number of subschemas that it leads to, each as often as there are ways to it, once its component is complete.
    unfolded: u64,
}

/// The subschemas that some keyword such as `unevaluatedProperties` has applied to its own value.
fn marked(nodes: &[Node<'_>]) -> Vec<bool> {
    let mut marked: Vec<_> = nodes.iter().map(|node| node.unevaluated() > 0).collect();
    let mut work: Vec<_> = nodes.iter().filter(|node| node.unevaluated() > 0).collect();
    while let Some(node) = work.pop() {
        for edge in node.edges.iter().filter(|edge| matches!(edge.applied, Applied::Same)) {
            if let (Some(mark), Some(node)) = (marked.get_mut(edge.to), nodes.get(edge.to))
                && !core::mem::replace(mark, true)
            {
                work.push(node);
            }
        }
    }
    marked
}

/// Whether the validator compiles the target again to find what was evaluated.
const fn is_compiled_again(applied: Applied<'_>) -> bool {
    match applied {
        Applied::Members | Applied::OtherMembers | Applied::Element(_) | Applied::Elements => true,
        Applied::Same | Applied::Member(_) | Applied::Names | Applied::Nothing => false,
    }
}

/// Tarjan's algorithm. Its recursion is as deep as a row of subschemas.
struct Components<'g, 'a> {
    nodes: &'g [Node<'a>],
    marked: Vec<bool>,
    marks: Vec<Mark>,
    open: Vec<usize>,
    count: usize,
}

impl Components<'_, '_> {
    fn visit(&mut self, at: usize, level: usize) -> Result<(), ValidationError> {
        let order = self.count;
        let (Some(node), Some(mark)) = (self.nodes.get(at), self.marks.get_mut(at)) else { return Ok(()) };
        *mark = Mark { order: Some(order), low: order, ..Mark::default() };
        bounded(level)?;
        self.count = self.count.saturating_add(1);
        self.open.push(at);
        for edge in node.edges.iter().filter(|edge| !matches!(edge.applied, Applied::Nothing)) {
            if self.marks.get(edge.to).is_some_and(|mark| mark.order.is_none()) {
                self.visit(edge.to, level.saturating_add(1))?;
            }
            let Some(Mark { low, row, .. }) = self.marks.get(edge.to).copied() else { continue };
            if let Some(mark) = self.marks.get_mut(at) {
                match row {
                    Some(row) => mark.after = mark.after.max(row),
                    None => mark.low = mark.low.min(low),
                }
            }
        }
        if self.marks.get(at).is_some_and(|mark| mark.low == order) {
            self.close(at)?;
        }
        Ok(())
    }

    /// Completes the component whose first subschema is `first`.
    fn close(&mut self, first: usize) -> Result<(), ValidationError> {
        let start = self.open.iter().rposition(|at| *at == first).unwrap_or_default();
        let component = self.open.split_off(start);
        let after = component.iter().filter_map(|at| self.marks.get(*at)).map(|mark| mark.after).max();
        let row = component.len().saturating_add(after.unwrap_or_default());
        bounded(row)?;
        let edges = component.iter().filter_map(|at| self.nodes.get(*at)).flat_map(|node| &node.edges);
        let targets = edges.filter_map(|edge| self.marks.get(edge.to)).filter(|mark| mark.row.is_some());
        let size = u64::try_from(component.len()).unwrap_or(u64::MAX);
        let unfolded = targets.fold(size, |sum, mark| sum.saturating_add(mark.unfolded));
        self.check_again(&component)?;
        for at in component {
            if let Some(mark) = self.marks.get_mut(at) {
                mark.row = Some(row);
                mark.unfolded = unfolded;
            }
        }
        Ok(())
    }

    /// Checks what is compiled again for the subschemas of a component. One that leads back to itself may be without end.
    fn check_again(&self, component: &[usize]) -> Result<(), ValidationError> {
        let marked = component.iter().filter(|at| self.marked.get(**at) == Some(&true));
        let edges = marked.filter_map(|at| self.nodes.get(*at)).flat_map(|node| &node.edges);
        for edge in edges.filter(|edge| is_compiled_again(edge.applied)) {
            let target = self.marks.get(edge.to);
            if target.is_none_or(|mark| mark.row.is_none() || mark.unfolded > AGAIN) {
                return Err(ValidationError::Limit(ValidationLimit::Subschemas));
            }
        }
        Ok(())
    }
}

const fn bounded(row: usize) -> Result<(), ValidationError> {
    if row > NESTING { Err(ValidationError::Limit(ValidationLimit::Nesting)) } else { Ok(()) }
}
