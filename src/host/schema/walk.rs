use alloc::string::{String, ToString};

use super::tree::Node;

/// The meaning of a keyword's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordKind {
    /// A schema or an array of schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// Data without schemas.
    Data,
}

impl KeywordKind {
    pub(super) fn of(keyword: &str) -> Self {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                Self::Named
            }
            "allOf"
            | "anyOf"
            | "oneOf"
            | "prefixItems"
            | "items"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => Self::Schemas,
            _ => Self::Data,
        }
    }
}

/// The position of a schema in the root schema.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// A JSON Pointer (RFC 6901).
    pub(super) pointer: &'a str,
    /// Whether a stricter schema here makes the root stricter: false under `not`, `if` or `contains`.
    pub(super) positive: bool,
}

/// Calls `each` with every schema that is an object, inner schemas first.
pub(super) fn schemas<'a>(root: &mut Node<'a>, mut each: impl FnMut(&mut Node<'a>, Place<'_>)) {
    visit(root, &mut String::new(), true, &mut each);
}

fn visit<'a>(
    schema: &mut Node<'a>,
    pointer: &mut String,
    positive: bool,
    each: &mut impl FnMut(&mut Node<'a>, Place<'_>),
) {
    match schema {
        Node::Leaf(_) => return,
        Node::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                within(pointer, &index.to_string(), |pointer| visit(element, pointer, positive, each));
            }
            return;
        }
        Node::Object(members) => {
            for member in members {
                let positive = positive && !matches!(&*member.name, "not" | "if" | "contains");
                let under = KeywordKind::of(&member.name);
                within(pointer, &member.name, |pointer| match (under, &mut member.value) {
                    (KeywordKind::Schemas, value) => visit(value, pointer, positive, each),
                    (KeywordKind::Named, Node::Object(named)) => {
                        for member in named {
                            within(pointer, &member.name, |pointer| {
                                visit(&mut member.value, pointer, positive, each);
                            });
                        }
                    }
                    (KeywordKind::Named, Node::Leaf(_) | Node::Array(_)) | (KeywordKind::Data, _) => {}
                });
            }
        }
    }
    each(schema, Place { pointer, positive });
}

/// Maximum length of a pointer: thousands of schemas may share one long name in their pointers.
const LONGEST: usize = 512;

/// Whether a pointer is complete.
pub(super) const fn is_short(pointer: &str) -> bool {
    pointer.len() <= LONGEST
}

/// Appends a character to a step of a pointer, escaped.
pub(super) fn escape(pointer: &mut String, char: char) {
    match char {
        '~' => pointer.push_str("~0"),
        '/' => pointer.push_str("~1"),
        _ => pointer.push(char),
    }
}

/// Calls `inside` with the pointer extended by one step.
fn within(pointer: &mut String, step: &str, inside: impl FnOnce(&mut String)) {
    let length = pointer.len();
    if length <= LONGEST {
        pointer.push('/');
        for char in step.chars() {
            if pointer.len() > LONGEST {
                pointer.push('…');
                break;
            }
            escape(pointer, char);
        }
    }
    inside(pointer);
    pointer.truncate(length);
}
