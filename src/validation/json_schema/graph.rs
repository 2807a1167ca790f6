//! The subschemas of a schema, and how they apply each other. All keywords of all dialects count: the graph has at least
//! the edges that the validator follows.

use alloc::string::String;
use alloc::vec::Vec;
use core::ptr;
use std::collections::HashMap;

use jsonschema::{Draft, Registry, Uri};
use serde_json::{Map, Value};

use super::dialect::{draft_of, reference_error};
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
