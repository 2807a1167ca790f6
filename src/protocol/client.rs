use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use crate::jsonrpc::Object;

/// Who the client is (`Implementation` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Implementation {
    /// Its name, for programs.
    pub name: Box<str>,
    /// Its version.
    pub version: Box<str>,
    /// Its name, for people.
    pub title: Option<Box<str>>,
}

impl Implementation {
    /// A client of this name and version.
    pub fn new(name: impl Into<Box<str>>, version: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), version: version.into(), title: None }
    }

    pub(crate) fn write(&self, object: &mut Object<'_>) {
        object.string("name", &self.name);
        if let Some(title) = &self.title {
            object.string("title", title);
        }
        object.string("version", &self.version);
    }
}

/// What the client offers to a server (`ClientCapabilities` in the schemas). Nothing, unless it is said.
///
/// What is not declared is refused by the engine when a server asks for it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Asks its user on behalf of the server, by forms; `elicitation`.
    pub elicitation: bool,
    /// Asks its user to visit a URL on behalf of the server; `elicitation.url`, since 2025-11-25.
    pub elicitation_url: bool,
    /// Has a model that the server may use; `sampling`.
    pub sampling: bool,
    /// The roots that it works on; `roots`, where there is a list.
    pub roots: Option<Vec<Root>>,
    /// Extensions by their identifier, each with its settings, which are a JSON object.
    pub extensions: Vec<(Box<str>, Box<RawValue>)>,
}

/// A root: a place that the client works on (specification 2025-11-25, "Roots").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its URI, a `file://` one.
    pub uri: String,
    /// Its name, for people.
    pub name: Option<String>,
}

impl ClientCapabilities {
    pub(crate) fn is_empty(&self) -> bool {
        !self.elicitation
            && !self.elicitation_url
            && !self.sampling
            && self.roots.is_none()
            && self.extensions.is_empty()
    }

    pub(crate) fn write(&self, object: &mut Object<'_>) {
        if self.elicitation || self.elicitation_url {
            object.object("elicitation", |object| {
                // An empty object means forms alone to every revision that has elicitation.
                if self.elicitation_url {
                    if self.elicitation {
                        object.object("form", |_| {});
                    }
                    object.object("url", |_| {});
                }
            });
        }
        if self.sampling {
            object.object("sampling", |_| {});
        }
        if self.roots.is_some() {
            object.object("roots", |_| {});
        }
        if !self.extensions.is_empty() {
            object.object("extensions", |object| {
                for (identifier, settings) in &self.extensions {
                    object.raw(identifier, settings.get());
                }
            });
        }
    }

    pub(crate) fn write_roots(&self, out: &mut Vec<u8>) {
        let mut result = Object::begin(out);
        let list = result.value("roots");
        list.push(b'[');
        for (index, root) in self.roots.iter().flatten().enumerate() {
            if index > 0 {
                list.push(b',');
            }
            let mut object = Object::begin(list);
            object.string("uri", &root.uri);
            if let Some(name) = &root.name {
                object.string("name", name);
            }
            object.end();
        }
        list.push(b']');
        result.end();
    }
}
