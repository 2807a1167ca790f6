use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::jsonrpc::Json;

const ANNOTATION: &str = "x-mcp-header";

/// An argument of a tool that an HTTP header repeats (specification 2026-07-28, "Streamable HTTP", Custom Headers from
/// Tool Parameters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirrored<'a> {
    /// What follows `Mcp-Param-` in the header's name.
    pub(crate) name: Cow<'a, str>,
    /// The argument's place: the names of properties, from the outside to the inside.
    pub(crate) path: Vec<Box<str>>,
}

/// The arguments that headers repeat, or what is wrong with the schema's annotations.
pub(crate) fn mirrored(schema: Json<'_>) -> Result<Vec<Mirrored<'_>>, Box<str>> {
    let mut search = Search { found: Vec::new(), names: BTreeSet::new(), path: Vec::new(), wrong: None };
    if schema.text().contains(ANNOTATION) {
        search.schema(schema, true);
    }
    match search.wrong {
        Some(wrong) => Err(wrong),
        None => Ok(search.found),
    }
}

struct Search<'a> {
    found: Vec<Mirrored<'a>>,
    /// Their names, in lower case.
    names: BTreeSet<String>,
    path: Vec<Box<str>>,
    wrong: Option<Box<str>>,
}

impl<'a> Search<'a> {
    /// Goes through a schema; only properties of properties count, everywhere else an annotation is out of place.
    fn schema(&mut self, schema: Json<'a>, reachable: bool) {
        let (mut annotation, mut kind) = (None, None);
        schema.members(|name, value| match name {
            ANNOTATION => annotation = Some(value),
            "type" => kind = value.as_string(),
            // Data, in which nothing is an annotation.
            "default" | "examples" | "const" | "enum" => {}
            "properties" => self.properties(value, reachable),
            "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => self.properties(value, false),
            _ => self.within(value),
        });
        if let Some(annotation) = annotation {
            match self.annotation(annotation, kind.as_deref(), reachable) {
                Ok(name) => self.found.push(Mirrored { name, path: self.path.clone() }),
                Err(wrong) => {
                    let place = if self.path.is_empty() { "the schema".into() } else { self.path.join(".") };
                    self.wrong.get_or_insert_with(|| format!("`{ANNOTATION}` of {place}: {wrong}").into());
                }
            }
        }
    }

    /// Goes through a map from names to schemas.
    fn properties(&mut self, properties: Json<'a>, reachable: bool) {
        properties.members(|name, property| {
            self.path.push(name.into());
            self.schema(property, reachable);
            self.path.pop();
        });
    }

    /// Goes through what may be a schema, or an array of them.
    fn within(&mut self, value: Json<'a>) {
        if value.is_object() {
            self.schema(value, false);
        }
        for element in value.elements(usize::MAX).into_iter().flat_map(|elements| elements.kept) {
            self.within(element);
        }
    }

    fn annotation(
        &mut self,
        value: Json<'a>,
        kind: Option<&str>,
        reachable: bool,
    ) -> Result<Cow<'a, str>, &'static str> {
        if !reachable || self.path.is_empty() {
            return Err("it is not at a property that properties alone lead to");
        }
        let name = value.as_string().ok_or("it is no string")?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("it is not what a header's name can hold");
        }
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err("the property is no string, integer or boolean");
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err("another property has the same");
        }
        Ok(name)
    }
}

/// Whether a byte may stand in a header's name (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use serde_json::{Value, json};

    fn read(properties: &Value) -> Result<Vec<String>, String> {
        let schema = json!({"type": "object", "properties": properties}).to_string();
        let found = mirrored(Json::trusted(&schema)).map_err(|wrong| wrong.to_string())?;
        Ok(found.into_iter().map(|it| format!("{}={}", it.name, it.path.join("."))).collect())
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
    fn what_breaks_the_rules_is_refused() {
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
