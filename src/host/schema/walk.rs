use alloc::string::{String, ToString};

use super::tree::Node;

/// What stands under a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// A schema, or an array of them.
    Schemas,
    /// Schemas by names that are no keywords.
    Named,
    /// Data.
    Data,
}

impl Under {
    pub(super) fn keyword(keyword: &str) -> Self {
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

/// A schema in a schema.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Where: a JSON Pointer (RFC 6901).
    pub(super) pointer: &'a str,
    /// What it refuses is refused: it is not under `not`, `if` or `contains`.
    pub(super) positive: bool,
}

/// Calls `each` with every schema that is an object, the inner ones first.
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
                let under = Under::keyword(&member.name);
                within(pointer, &member.name, |pointer| match (under, &mut member.value) {
                    (Under::Schemas, value) => visit(value, pointer, positive, each),
                    (Under::Named, Node::Object(named)) => {
                        for member in named {
                            within(pointer, &member.name, |pointer| {
                                visit(&mut member.value, pointer, positive, each);
                            });
                        }
                    }
                    (Under::Named, Node::Leaf(_) | Node::Array(_)) | (Under::Data, _) => {}
                });
            }
        }
    }
    each(schema, Place { pointer, positive });
}

/// How long a pointer gets: thousands of schemas may stand under one long name.
const LONGEST: usize = 512;

/// Whether a pointer is whole.
pub(super) const fn is_short(pointer: &str) -> bool {
    pointer.len() <= LONGEST
}

/// Adds a character to a step of a pointer.
pub(super) fn escape(pointer: &mut String, char: char) {
    match char {
        '~' => pointer.push_str("~0"),
        '/' => pointer.push_str("~1"),
        _ => pointer.push(char),
    }
}

/// Goes one step further in a pointer, and back.
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
