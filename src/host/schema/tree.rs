use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::jsonrpc::Json;

/// Maximum depth of a parsed schema; deeper values are kept as text.
const DEPTH: usize = 64;

/// A JSON value that can be edited. Unchanged parts are written as they were, except for white space between values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<'a> {
    /// The text as written: a scalar, or a value nested too deep.
    Leaf(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Vec<Member<'a>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member<'a> {
    /// The text as written, with quotes.
    raw: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) value: Node<'a>,
}

impl<'a> Member<'a> {
    /// A member whose name needs no escapes.
    pub(super) fn new(name: &'static str, value: Node<'a>) -> Self {
        Self { raw: format!("\"{name}\"").into(), name: name.into(), value }
    }

    pub(super) fn rename(&mut self, name: &'static str) {
        (self.raw, self.name) = (format!("\"{name}\"").into(), name.into());
    }
}

impl<'a> Node<'a> {
    pub(super) fn read(json: Json<'a>) -> Self {
        Self::read_to(json, DEPTH)
    }

    fn read_to(json: Json<'a>, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::Leaf(json.text().into()) };
        match json.first() {
            b'{' => {
                let mut members = Vec::new();
                json.raw_members(|raw, value| {
                    // A name that is not a valid string is not a keyword.
                    let name = raw.as_string().unwrap_or(Cow::Borrowed(raw.text()));
                    members.push(Member { raw: raw.text().into(), name, value: Self::read_to(value, depth) });
                });
                // Most objects are smaller than a vector's initial capacity.
                members.shrink_to_fit();
                Self::Object(members)
            }
            b'[' => {
                let elements = json.elements(usize::MAX).map(|elements| elements.kept).unwrap_or_default();
                Self::Array(elements.into_iter().map(|element| Self::read_to(element, depth)).collect())
            }
            _ => Self::Leaf(json.text().into()),
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, member) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&member.raw);
                    out.push(':');
                    member.value.write(out);
                }
                out.push('}');
            }
        }
    }

    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self, Self::Leaf(leaf) if *leaf == text)
    }

    /// Whether it is the string `text`, with or without escapes.
    pub(super) fn is_string(&self, text: &str) -> bool {
        matches!(self, Self::Leaf(leaf) if Json::trusted(leaf).as_string().as_deref() == Some(text))
    }

    pub(super) fn members(&self) -> &[Member<'a>] {
        match self {
            Self::Object(members) => members,
            Self::Leaf(_) | Self::Array(_) => &[],
        }
    }

    pub(super) fn members_mut(&mut self) -> Option<&mut Vec<Member<'a>>> {
        match self {
            Self::Object(members) => Some(members),
            Self::Leaf(_) | Self::Array(_) => None,
        }
    }

    /// The value of the member with this name; the last one if it is repeated, as parsers do.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().rev().find(|member| member.name == name).map(|member| &member.value)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.members_mut()?.iter_mut().rev().find(|member| member.name == name).map(|member| &mut member.value)
    }

    /// The members' names, for many lookups.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.members().iter().map(|member| &*member.name).collect()
    }

    /// Whether it contains a value that was too deep to be parsed.
    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Leaf(text) => text.starts_with(['{', '[']),
            Self::Array(elements) => elements.iter().any(Self::is_cut),
            Self::Object(members) => members.iter().any(|member| member.value.is_cut()),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            Self::Leaf(_) | Self::Object(_) => None,
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(members) = self.members_mut() {
            members.retain(|member| member.name != name);
        }
    }
}
