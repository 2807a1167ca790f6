use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use crate::jsonrpc::Object;

/// The client's name and version (`Implementation` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Implementation {
    /// Machine-readable name.
    pub name: Box<str>,
    /// Version.
    pub version: Box<str>,
    /// Display name.
    pub title: Option<Box<str>>,
}

impl Implementation {
    /// An implementation with this name and version, without a title.
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

/// The capabilities that the client declares (`ClientCapabilities` in the schemas). Empty by default.
///
/// The engine refuses server requests that need an undeclared capability.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// `elicitation`: the client shows forms to its user for the server.
    pub elicitation: bool,
    /// `elicitation.url`, since 2025-11-25: the client asks its user to visit a URL for the server.
    pub elicitation_url: bool,
    /// `sampling`: the client lets the server use its model.
    pub sampling: bool,
    /// `roots`: the client's roots; `None` does not declare the capability.
    pub roots: Option<Vec<Root>>,
    /// Extensions: identifier and settings, a JSON object.
    pub extensions: Vec<(Box<str>, Box<RawValue>)>,
}

/// A root: a directory or file that the client works on (specification 2025-11-25, "Roots").
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// Its URI, with the scheme `file`.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}

impl Root {
    /// A root with this URI, without a display name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }

    /// The root with a display name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
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
                // Every revision with elicitation reads an empty object as "forms only".
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
