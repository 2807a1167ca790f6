//! The graph of a schema: its subschemas, what each applies to what, and what each costs by itself.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use jsonschema::{Draft, Registry, Uri};
use serde_json::{Map, Value};
use std::collections::HashMap;

use super::cost::{Pattern, Patterns};
use super::{count, draft_of, limit, reference_error};
use crate::validation::{ValidationError, ValidationLimit};

/// Maximum number of subschemas.
pub(super) const SUBSCHEMAS: usize = 10_000;

/// The length of a text that costs one step.
const TEXT: usize = 64;

/// The steps to check a format.
const FORMAT: u64 = 16;

/// The steps to divide by a number that is not an integer.
const DIVISION: u64 = 64;

/// The steps to compile a regular expression again.
const PATTERN: u64 = 10;

/// The size of a regular expression that costs one step more to compile.
const PATTERN_BYTES: u64 = 256;

/// The number of values that are copied in one step.
const COPIED: u64 = 16;

/// The number of names that are copied, or subschemas that are listed, in one step.
const LISTED: u64 = 8;

/// The length of paths that are copied in one step.
const PATH: u64 = 1_024;

/// The number of values whose comparison is one step.
const COMPARED: u64 = 16;

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
    /// The target is compiled where it is, and only once.
    pub(super) is_reference: bool,
    /// The length of the path from the subschema to the target, or of a reference.
    pub(super) length: usize,
}

/// A subschema.
pub(super) struct Node<'a> {
    pub(super) schema: &'a Map<String, Value>,
    pub(super) edges: Vec<Edge<'a>>,
    /// The resource that it is a part of.
    pub(super) resource: Arc<Uri<String>>,
    /// The length of the path to it.
    pub(super) path: usize,
    /// The regular expression that a text must match.
    pub(super) pattern: Option<usize>,
    /// The regular expressions that names of members are compared with.
    pub(super) names: Vec<usize>,
    /// The number of keywords that apply to what other keywords did not evaluate.
    pub(super) unevaluated: usize,
    /// The steps to compile it without its subschemas and paths.
    size: u64,
    /// How often the path to it is copied.
    paths: u64,
    pub(super) cost: Cost,
}

/// The steps to apply a subschema without its subschemas and regular expressions.
#[derive(Default)]
pub(super) struct Cost {
    /// To any value. To a text, once for each `TEXT` bytes.
    pub(super) value: u64,
    /// To a text beside that, and to each of its bytes.
    pub(super) text: u64,
    pub(super) byte: u64,
    /// To a number beside that.
    pub(super) number: u64,
    /// To each member or element.
    pub(super) each: u64,
    /// All elements are compared.
    pub(super) unique: bool,
}

impl Node<'_> {
    /// The steps to compile it at the end of a path.
    pub(super) fn compilation(&self, path: usize) -> u64 {
        (count(path).saturating_mul(self.paths) / PATH).saturating_add(self.size)
    }

    /// Whether it belongs to the schema of a dialect, which the library has.
    pub(super) fn is_of_dialect(&self) -> bool {
        is_of_dialect(&self.resource)
    }
}

fn is_of_dialect(resource: &Uri<String>) -> bool {
    let path = resource.as_str().split_once("://").map_or("", |(_, path)| path);
    path.starts_with("json-schema.org/draft")
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

/// The subschemas of a keyword's value, with the length of the paths to them.
fn subschemas<'a>(name: &str, value: &'a Value) -> Vec<(Applied<'a>, &'a Value, usize)> {
    /// The length of an index and two slashes.
    const INDEX: usize = 8;

    let length = name.len().saturating_add(INDEX);
    match (keyword(name), value) {
        (Some((Holder::Members, applied)), Value::Object(members)) => {
            let by_name = matches!(applied, Applied::Member(_));
            let members = members.iter().map(|(name, value)| {
                (if by_name { Applied::Member(name) } else { applied }, value, length.saturating_add(name.len()))
            });
            members.collect()
        }
        (Some((Holder::Value, applied)), Value::Array(elements)) => {
            let elements = elements.iter().enumerate().map(|(index, value)| match (applied, name) {
                (Applied::Element(_), _) | (_, "items") => (Applied::Element(index), value, length),
                (applied, _) => (applied, value, length),
            });
            elements.collect()
        }
        (Some((Holder::Value, applied)), value) => Vec::from([(applied, value, length)]),
        _ => Vec::new(),
    }
}

/// The subschemas that a schema has or refers to; the schema itself is the first.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) patterns: Vec<Pattern>,
    /// The steps to compare the elements of the schema's arrays, which its dialect may require.
    pub(super) comparisons: u64,
}

impl<'a> Graph<'a> {
    pub(super) fn read(
        schema: &'a Value,
        draft: Draft,
        registry: &'a Registry<'a>,
        base: Uri<String>,
    ) -> Result<Self, ValidationError> {
        let mut graph = Self { nodes: Vec::new(), patterns: Vec::new(), comparisons: 0 };
        let mut found: HashMap<usize, usize> = HashMap::new();
        // Nodes with a dynamic reference, and the name of the anchor that it may lead to.
        let mut dynamic = Vec::new();
        let mut anchors: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut patterns = Patterns::default();

        let mut work = Vec::new();
        let root = Edge { to: 0, applied: Applied::Nothing, is_reference: false, length: 0 };
        let mut targets = Vec::from([(root, schema, registry.resolver(base), draft)]);
        let mut from = None;
        loop {
            for (mut edge, value, resolver, draft) in targets {
                let Some(object) = value.as_object() else { continue };
                let parent = from.and_then(|from| graph.nodes.get(from));
                let is_inside = !edge.is_reference && !parent.is_some_and(Node::is_of_dialect);
                if is_inside && is_of_dialect(&resolver.base_uri()) {
                    return Err(ValidationError::schema("/$id", "it identifies a dialect"));
                }
                let above = if edge.is_reference { 0 } else { parent.map_or(0, |parent| parent.path) };
                let path = edge.length.saturating_add(above);
                let next = graph.nodes.len();
                edge.to = *found.entry(ptr::from_ref(value).addr()).or_insert(next);
                if edge.to == next {
                    if next == SUBSCHEMAS {
                        return Err(limit(ValidationLimit::Subschemas));
                    }
                    graph.nodes.push(Node::read(object, resolver.base_uri(), path, &mut patterns)?);
                    graph.comparisons = graph.comparisons.saturating_add(comparisons(object));
                    work.push((next, object, resolver, draft));
                }
                graph.connect(from, edge);
            }
            let Some((at, object, resolver, draft)) = work.pop() else { break };
            from = Some(at);
            targets = Vec::new();
            for (name, value) in object {
                for (applied, child, length) in subschemas(name, value) {
                    let draft = draft_of(child, draft)?;
                    let resolver = resolver
                        .in_subresource(draft.create_resource_ref(child))
                        .map_err(|error| reference_error(&error, ""))?;
                    targets.push((Edge { to: 0, applied, is_reference: false, length }, child, resolver, draft));
                }
                match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                        let resolved =
                            resolver.lookup(reference).map_err(|error| reference_error(&error, reference))?;
                        let (target, resolver, draft) = resolved.into_inner();
                        let draft = draft_of(target, draft)?;
                        targets.push((reference_to(0, reference.len()), target, resolver, draft));
                        match (name.as_str(), reference.rsplit_once('#')) {
                            ("$dynamicRef", Some((_, anchor))) => dynamic.push((at, anchor)),
                            ("$recursiveRef", _) => dynamic.push((at, RECURSIVE)),
                            _ => {}
                        }
                    }
                    ("$dynamicAnchor", Value::String(anchor)) => anchors.entry(anchor).or_default().push(at),
                    ("$recursiveAnchor", Value::Bool(true)) => anchors.entry(RECURSIVE).or_default().push(at),
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
                    return Err(limit(ValidationLimit::Subschemas));
                }
                graph.connect(Some(at), reference_to(*to, 0));
            }
        }
        graph.patterns = patterns.all;
        Ok(graph)
    }

    fn connect(&mut self, from: Option<usize>, edge: Edge<'a>) {
        if let Some(node) = from.and_then(|from| self.nodes.get_mut(from)) {
            node.edges.push(edge);
        }
    }
}

/// Stands for the anchor that `$recursiveAnchor` declares; no valid anchor has this name.
const RECURSIVE: &str = "#";

const fn reference_to<'a>(to: usize, length: usize) -> Edge<'a> {
    Edge { to, applied: Applied::Same, is_reference: true, length }
}

impl<'a> Node<'a> {
    fn read(
        schema: &'a Map<String, Value>,
        resource: Arc<Uri<String>>,
        path: usize,
        patterns: &mut Patterns<'a>,
    ) -> Result<Self, ValidationError> {
        let mut node = Self {
            schema,
            edges: Vec::new(),
            resource,
            path,
            pattern: None,
            names: Vec::new(),
            unevaluated: 0,
            size: 1,
            paths: 1,
            cost: Cost { value: 1, ..Cost::default() },
        };
        let cost = &mut node.cost;
        for (name, value) in schema {
            let (mut steps, mut copied) = (1, 0);
            match (name.as_str(), value) {
                ("pattern", Value::String(text)) => node.pattern = Some(patterns.add(text)?),
                ("patternProperties", Value::Object(members)) => {
                    for text in members.keys() {
                        let index = patterns.add(text)?;
                        node.names.push(index);
                        let size = patterns.all.get(index).map_or(0, |pattern| pattern.size);
                        node.size = (size / PATTERN_BYTES).saturating_add(PATTERN).saturating_add(node.size);
                    }
                    cost.each = cost.each.saturating_add(1);
                }
                ("unevaluatedProperties" | "unevaluatedItems", _) => {
                    node.unevaluated = node.unevaluated.saturating_add(1);
                    cost.each = cost.each.saturating_add(1);
                }
                ("additionalProperties" | "propertyNames" | "items" | "additionalItems" | "contains", _) => {
                    cost.each = cost.each.saturating_add(1);
                }
                ("uniqueItems", Value::Bool(true)) => cost.unique = true,
                ("enum" | "const" | "required" | "dependentRequired" | "dependencies" | "type", _) => {
                    steps = size(value);
                    copied = steps;
                }
                ("format", Value::String(format)) => {
                    cost.text = FORMAT;
                    cost.byte = cost.byte.saturating_add(u64::from(format.starts_with("idn-")));
                }
                ("contentMediaType", _) => cost.byte = cost.byte.saturating_add(1),
                ("multipleOf", Value::Number(divisor)) if !divisor.is_u64() => cost.number = DIVISION,
                ("not" | "if", _) => copied = size(value),
                _ if keyword(name).is_none() => copied = size(value),
                _ => {}
            }
            cost.value = cost.value.saturating_add(steps);
            let listed = count(subschemas(name, value).len());
            node.paths = node.paths.saturating_add(listed).saturating_add(1);
            node.size = (copied / COPIED).saturating_add(listed / LISTED).saturating_add(node.size);
        }
        Ok(node)
    }
}

/// The number of values in a value, itself included. Recursive: the depth of schemas and instances is bounded.
pub(super) fn size(value: &Value) -> u64 {
    let add = |sum: u64, value: &Value| sum.saturating_add(size(value));
    match value {
        Value::Array(elements) => elements.iter().fold(1, add),
        Value::Object(members) => members.values().fold(length_of_all(members), add),
        Value::String(text) => length(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

fn length_of_all(members: &Map<String, Value>) -> u64 {
    members.keys().fold(1, |sum, name| sum.saturating_add(count(name.len() / TEXT)))
}

pub(super) fn length(text: &str) -> u64 {
    count(text.len() / TEXT).saturating_add(1)
}

/// The steps to compare the elements of an array. The library compares those that have the same hash, and what is nested
/// or beyond the integers that all numbers can represent may have any hash.
pub(super) fn unique(elements: &[Value]) -> u64 {
    const EXACT: u64 = 1 << 53;
    let may_have_any_hash = |value: &&Value| match value {
        Value::Array(_) | Value::Object(_) => true,
        Value::Number(number) => {
            number.as_u64().or(number.as_i64().map(i64::unsigned_abs)).is_some_and(|integer| integer > EXACT)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    };
    let sum = |sum: u64, value: &Value| sum.saturating_add(size(value));
    let all = elements.iter().fold(1, sum);
    let some = elements.iter().filter(may_have_any_hash);
    let pairs = count(some.clone().count()).saturating_mul(some.fold(0, sum));
    pairs.saturating_div(COMPARED).saturating_add(all.saturating_mul(2))
}

/// The steps to compare the elements of each array that is the value of a keyword, or of a member of that.
fn comparisons(schema: &Map<String, Value>) -> u64 {
    let is_other = |name: &str| !matches!(keyword(name), Some((Holder::Value, _)));
    let values = schema.iter().filter(|(name, _)| is_other(name)).flat_map(|(_, value)| {
        let members = value.as_object().into_iter().flat_map(Map::values);
        core::iter::once(value).chain(members)
    });
    values.filter_map(Value::as_array).fold(0, |sum, elements| sum.saturating_add(unique(elements)))
}
