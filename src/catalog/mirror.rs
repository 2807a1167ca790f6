use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::jsonrpc::{Json, Scan};

const ANNOTATION: &str = "x-mcp-header";

/// The tool arguments that are repeated in HTTP headers (specification 2026-07-28, "Streamable HTTP", Custom Headers
/// from Tool Parameters).
#[derive(Debug)]
pub(crate) struct Mirrored<'a> {
    nodes: Vec<Node<'a>>,
    found: Vec<Found<'a>>,
}

/// A property on the path to an annotated one. Paths share their prefixes, so that all paths together are no longer
/// than the schema.
#[derive(Debug)]
struct Node<'a> {
    /// Index of the enclosing property; [`ROOT`] for a top-level property of the tool's schema.
    parent: usize,
    /// The name as written.
    name: Json<'a>,
}

/// Index of the node for the tool's schema.
const ROOT: usize = 0;

#[derive(Debug)]
struct Found<'a> {
    /// The header's name after `Mcp-Param-`.
    header: Cow<'a, str>,
    /// The annotated property.
    node: usize,
}

/// Reads the annotations of a schema. The error describes the first invalid one.
pub(crate) fn mirrored(schema: Json<'_>) -> Result<Mirrored<'_>, Box<str>> {
    let none = Mirrored { nodes: Vec::new(), found: Vec::new() };
    // The annotation's name may be written with escapes. Few schemas have a hyphen, which is found faster than a word.
    let may_have = schema.has_either(b'-', b'\\') && (schema.text().contains(ANNOTATION) || schema.has_backslash());
    if may_have { Search::new(schema).run() } else { Ok(none) }
}

impl<'a> Mirrored<'a> {
    /// Whether no header repeats an argument.
    pub(crate) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Each header's name after `Mcp-Param-`, with the argument that it repeats, if the call has it.
    #[cfg(feature = "http")]
    pub(crate) fn values<'b>(&self, arguments: Json<'b>) -> impl Iterator<Item = (&str, Option<Json<'b>>)> {
        self.found.iter().map(move |Found { header, node }| {
            let mut path = self.path(*node).into_iter();
            (&**header, path.try_fold(arguments, |value, name| value.member(&name.as_string()?)))
        })
    }

    /// The property names on the path to a node, outermost first.
    fn path(&self, mut node: usize) -> Vec<Json<'a>> {
        let mut path = Vec::new();
        while node != ROOT {
            let Some(Node { parent, name }) = self.nodes.get(node) else { break };
            path.push(*name);
            node = *parent;
        }
        path.reverse();
        path
    }

    fn error(&self, node: usize, why: &str) -> Box<str> {
        let mut place = String::new();
        for name in self.path(node) {
            if !place.is_empty() {
                place.push('.');
            }
            place.extend(name.as_string().unwrap_or_default().chars().take(PLACE.saturating_sub(place.len())));
            if place.len() >= PLACE {
                place.push('…');
                break;
            }
        }
        let place = if node == ROOT { "the schema" } else { &place };
        format!("`{ANNOTATION}` of {place}: {why}").into()
    }

    /// The first annotation whose header another annotation already uses; case-insensitive.
    fn duplicate(&self) -> Option<usize> {
        let mut order: Vec<_> = self.found.iter().collect();
        order.sort_by(|a, b| compare(&a.header, &b.header));
        let pairs = order.windows(2).filter_map(|pair| match pair {
            [a, b] => compare(&a.header, &b.header).is_eq().then_some(b.node),
            _ => None,
        });
        pairs.min()
    }
}

fn compare(a: &str, b: &str) -> Ordering {
    let [a, b] = [a, b].map(|name| name.bytes().map(|byte| byte.to_ascii_lowercase()));
    a.cmp(b)
}

/// Maximum bytes of a property's path in an error.
const PLACE: usize = 64;

/// The error for an annotation that cannot be reached from the root through `properties` only.
const UNREACHABLE: &str = "it is not at a property that properties alone lead to";

/// An object or array that is open at this point of the schema. One byte each: a schema may nest as deep as its
/// message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The tool's schema, or a property reachable through `properties` only: the last of `open`.
    Property,
    /// The value of `properties` in such a schema.
    Properties,
    /// Another schema.
    Schema,
    /// A map of other schemas by name.
    Schemas,
    /// An array that may hold schemas.
    Array,
}

/// An open schema that is reachable through `properties` only.
struct Property<'a> {
    name: Json<'a>,
    /// Its node, if it has one: only annotated properties and their ancestors have nodes.
    node: Option<usize>,
    annotation: Option<Json<'a>>,
    kind: Option<Json<'a>>,
}

impl<'a> Property<'a> {
    const fn new(name: Json<'a>) -> Self {
        Self { name, node: None, annotation: None, kind: None }
    }
}

/// One pass over a schema's text, with an explicit stack of open brackets.
struct Search<'a> {
    scan: Scan<'a>,
    levels: Vec<Level>,
    open: Vec<Property<'a>>,
    mirrored: Mirrored<'a>,
}

impl<'a> Search<'a> {
    fn new(schema: Json<'a>) -> Self {
        let name = Json::trusted("");
        let mirrored = Mirrored { nodes: Vec::from([Node { parent: ROOT, name }]), found: Vec::new() };
        let root = Property { node: Some(ROOT), ..Property::new(name) };
        Self { scan: schema.scan(), levels: Vec::new(), open: Vec::from([root]), mirrored }
    }

    fn run(mut self) -> Result<Mirrored<'a>, Box<str>> {
        self.enter(b'{', Level::Property);
        while let Some(level) = self.levels.last().copied() {
            let inside = match level {
                Level::Array if self.scan.element() => {
                    self.within();
                    true
                }
                Level::Array => false,
                Level::Property | Level::Properties | Level::Schema | Level::Schemas => match self.scan.name() {
                    Some(name) => self.member(level, name).map_err(|why| self.error(why)).map(|()| true)?,
                    None => false,
                },
            };
            if !inside {
                self.levels.pop();
                if level == Level::Property {
                    self.leave().map_err(|why| self.error(why))?;
                    self.open.pop();
                }
            }
        }
        match self.mirrored.duplicate() {
            Some(node) => Err(self.mirrored.error(node, "another property has the same")),
            None => Ok(self.mirrored),
        }
    }

    /// Enters the next value if it begins with this bracket; otherwise skips it.
    fn enter(&mut self, bracket: u8, level: Level) -> bool {
        let inside = self.scan.enter(bracket);
        if inside {
            self.levels.push(level);
        } else {
            self.scan.value();
        }
        inside
    }

    /// Enters a value that may be a schema or an array of schemas.
    fn within(&mut self) {
        if self.scan.enter(b'[') {
            self.levels.push(Level::Array);
        } else {
            self.enter(b'{', Level::Schema);
        }
    }

    fn member(&mut self, level: Level, raw: Json<'a>) -> Result<(), &'static str> {
        let name = raw.as_string();
        match (level, name.as_deref()) {
            (Level::Properties, Some(_)) => {
                if self.enter(b'{', Level::Property) {
                    self.open.push(Property::new(raw));
                }
            }
            (Level::Schemas, Some(_)) => {
                self.enter(b'{', Level::Schema);
            }
            (Level::Property, Some(ANNOTATION)) => {
                let annotation = self.scan.value();
                if let Some(property) = self.open.last_mut() {
                    property.annotation = annotation;
                }
            }
            (Level::Schema, Some(ANNOTATION)) => return Err(UNREACHABLE),
            (Level::Property, Some("type")) => {
                let kind = self.scan.value();
                if let Some(property) = self.open.last_mut() {
                    property.kind = kind;
                }
            }
            // Data, in which nothing is an annotation.
            (_, None | Some("type" | "default" | "examples" | "const" | "enum")) => {
                self.scan.value();
            }
            (Level::Property, Some("properties")) => {
                self.enter(b'{', Level::Properties);
            }
            (_, Some("properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas")) => {
                self.enter(b'{', Level::Schemas);
            }
            (_, Some(_)) => self.within(),
        }
        Ok(())
    }

    /// Checks the annotation of the innermost property, at the property's end.
    fn leave(&mut self) -> Result<(), &'static str> {
        let Some(Property { annotation: Some(annotation), kind, node, .. }) = self.open.last() else { return Ok(()) };
        if *node == Some(ROOT) {
            return Err(UNREACHABLE);
        }
        let header = annotation.as_string().ok_or("it is no string")?;
        if header.is_empty() || !header.bytes().all(is_token) {
            return Err("it is not what a header's name can hold");
        }
        let kind = kind.and_then(Json::as_string);
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err("the property is no string, integer or boolean");
        }
        let node = self.node();
        self.mirrored.found.push(Found { header, node });
        Ok(())
    }

    /// The node of the innermost property. Each open property gets one node, no matter how many annotated properties it
    /// contains.
    fn node(&mut self) -> usize {
        let known = self.open.iter().rposition(|open| open.node.is_some()).unwrap_or_default();
        let mut parent = ROOT;
        for open in self.open.iter_mut().skip(known) {
            parent = *open.node.get_or_insert_with(|| {
                self.mirrored.nodes.push(Node { parent, name: open.name });
                self.mirrored.nodes.len().saturating_sub(1)
            });
        }
        parent
    }

    fn error(&mut self, why: &str) -> Box<str> {
        let node = self.node();
        self.mirrored.error(node, why)
    }
}

/// Whether a byte is allowed in a header's name (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use serde_json::{Value, json};

    fn read(properties: &Value) -> Result<Vec<String>, String> {
        let schema = json!({"type": "object", "properties": properties}).to_string();
        let found = mirrored(Json::trusted(&schema)).map_err(|wrong| wrong.to_string())?;
        let path = |node| found.path(node).iter().map(|name| name.as_string().unwrap()).collect::<Vec<_>>().join(".");
        Ok(found.found.iter().map(|it| format!("{}={}", it.header, path(it.node))).collect())
    }

    #[test]
    fn properties_of_properties_are_found() {
        let inner = json!({"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "In-ner"}}});
        let properties = json!({"a": {"type": "string", "x-mcp-header": "A"}, "o": inner, "n": {"type": "number"}});
        assert_eq!(read(&properties), Ok(alloc::vec!["A=a".into(), "In-ner=o.b".into()]));
        assert_eq!(read(&json!({"x-mcp-header": {"type": "string"}})), Ok(alloc::vec![]), "a property of that name");
        assert_eq!(read(&json!({"a": {"type": "object", "default": {"x-mcp-header": 1}}})), Ok(alloc::vec![]), "data");
    }

    #[test]
    fn violations_of_the_rules_are_refused() {
        let string = |name: Value| json!({"type": "string", "x-mcp-header": name});
        for (properties, why) in [
            (json!({"a": string(json!(""))}), "header's name"),
            (json!({"a": string(json!("a b"))}), "header's name"),
            (json!({"a": string(json!("a:b"))}), "header's name"),
            (json!({"a": string(json!("\u{e9}"))}), "header's name"),
            (json!({"a": string(json!("a\r\nb"))}), "header's name"),
            (json!({"a": string(json!("a(b"))}), "header's name"),
            (json!({"a": string(json!(1))}), "no string"),
            (json!({"a": {"type": "number", "x-mcp-header": "A"}}), "no string, integer or boolean"),
            (json!({"a": {"type": ["string", "null"], "x-mcp-header": "A"}}), "no string, integer or boolean"),
            (json!({"a": {"x-mcp-header": "A"}}), "no string, integer or boolean"),
            (json!({"a": string(json!("Region")), "b": string(json!("REGION"))}), "same"),
            (json!({"a": {"type": "array", "items": string(json!("A"))}}), "properties alone"),
            (json!({"a": {"anyOf": [string(json!("A"))]}}), "properties alone"),
            (json!({"a": {"type": "array", "items": {"properties": {"b": string(json!("A"))}}}}), "properties alone"),
            (json!({"a": {"$defs": {"x": string(json!("A"))}}}), "properties alone"),
        ] {
            let wrong = read(&properties).unwrap_err();
            assert!(wrong.contains(why), "{properties}: {wrong}");
        }
        let root = r#"{"type":"object","x-mcp-header":"A"}"#;
        assert!(mirrored(Json::trusted(root)).is_err());
    }
}
