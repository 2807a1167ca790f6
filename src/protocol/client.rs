//! What a client declares: its name, capabilities and roots.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::content::Icon;
use super::{Era, Extension, ExtensionId};
use crate::jsonrpc::{Object, string};

/// The identifier of the extension for tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Who the client is (`Implementation` in the schemas).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Implementation {
    /// Machine-readable name.
    pub name: Box<str>,
    /// Version.
    pub version: Box<str>,
    /// Display name.
    pub title: Option<Box<str>>,
    /// Description, since 2025-11-25.
    #[cfg_attr(feature = "serde", serde(default))]
    pub description: Option<Box<str>>,
    /// The address of its website, since 2025-11-25.
    #[cfg_attr(feature = "serde", serde(default))]
    pub website_url: Option<Box<str>>,
    /// Icons, since 2025-11-25.
    #[cfg_attr(feature = "serde", serde(default))]
    pub icons: Vec<Icon<'static>>,
}

impl Implementation {
    /// An implementation with this name and version, and nothing else.
    pub fn new(name: impl Into<Box<str>>, version: impl Into<Box<str>>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
            description: None,
            website_url: None,
            icons: Vec::new(),
        }
    }

    /// The value of `User-Agent` for requests over HTTP: `NAME/VERSION`, each 128 bytes at most, with `-` in place of each
    /// character that no product name may have (RFC 9110, section 10.1.5). A client over HTTP sends it by itself.
    pub fn user_agent(&self) -> String {
        self.agent().collect()
    }

    /// Whether this is the [`user_agent`](Self::user_agent).
    #[cfg(feature = "http")]
    pub(crate) fn is_user_agent(&self, agent: &[u8]) -> bool {
        self.agent().map(|it| it as u8).eq(agent.iter().copied())
    }

    /// The characters of the user agent, all of ASCII.
    fn agent(&self) -> impl Iterator<Item = char> {
        let name = if self.name.is_empty() { "mcp-client" } else { &self.name };
        let slash = (!self.version.is_empty()).then_some('/');
        token(name).chain(slash).chain(token(&self.version))
    }

    pub(crate) fn write(&self, object: &mut Object<'_>) {
        string(object.plain("name"), &self.name);
        if let Some(title) = &self.title {
            object.string("title", title);
        }
        string(object.plain("version"), &self.version);
        if let Some(description) = &self.description {
            object.string("description", description);
        }
        if let Some(website_url) = &self.website_url {
            object.string("websiteUrl", website_url);
        }
        if !self.icons.is_empty() {
            let list = object.value("icons");
            for (index, icon) in self.icons.iter().enumerate() {
                list.push(if index == 0 { b'[' } else { b',' });
                let mut object = Object::begin(list);
                icon.write(&mut object);
                object.end();
            }
            list.push(b']');
        }
    }
}

/// The longest part of a product name.
const LONGEST_TOKEN: usize = 128;

/// A text as a token (RFC 9110, section 5.6.2).
fn token(text: &str) -> impl Iterator<Item = char> {
    let is_token = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
    text.chars().take(LONGEST_TOKEN).map(move |it| if is_token(it) { it } else { '-' })
}

/// The capabilities that the client declares (`ClientCapabilities` in the schemas). Empty by default.
///
/// The engine refuses server requests that need an undeclared capability.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// `elicitation`: the client shows forms to its user for the server.
    pub elicitation: bool,
    /// `elicitation.url`, since 2025-11-25: the client asks its user to visit a URL for the server.
    pub elicitation_url: bool,
    /// `sampling`: the client lets the server use its model. Deprecated in 2026-07-28.
    pub sampling: bool,
    /// `sampling.tools`, since 2025-11-25: the client's model may use tools that a sampling request brings. Declared only
    /// with [`sampling`](Self::sampling).
    pub sampling_tools: bool,
    /// `roots`: the client's roots; `None` does not declare the capability. [`Client::set_roots`](crate::Client::set_roots)
    /// changes them. Deprecated in 2026-07-28.
    pub roots: Option<Vec<Root>>,
    /// Tasks: the client follows a call of a tool that the server runs as a task (specification 2026-07-28, extension
    /// `io.modelcontextprotocol/tasks`), and calls a tool as a task that requires it (2025-11-25, "Tasks"; there nothing
    /// is declared).
    pub tasks: bool,
    /// The extensions that the client supports (specification 2026-07-28, "Versioning", Extensions).
    pub extensions: BTreeMap<ExtensionId, Extension>,
    /// Experimental capabilities: their names and settings, a JSON object each.
    pub experimental: BTreeMap<Box<str>, Box<RawValue>>,
}

/// A root: a directory or file that the client works on (specification 2025-11-25, "Roots").
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

/// Settings are compared byte for byte.
impl PartialEq for ClientCapabilities {
    fn eq(&self, other: &Self) -> bool {
        let Self { elicitation, elicitation_url, sampling, sampling_tools, roots, tasks, extensions, experimental: _ } =
            self;
        let pairs = |of: &Self| {
            of.experimental
                .iter()
                .map(|(name, settings)| (&**name, settings.get()))
                .eq(self.experimental.iter().map(|(name, settings)| (&**name, settings.get())))
        };
        (elicitation, elicitation_url, sampling, sampling_tools)
            == (&other.elicitation, &other.elicitation_url, &other.sampling, &other.sampling_tools)
            && (roots, tasks) == (&other.roots, &other.tasks)
            && *extensions == other.extensions
            && pairs(other)
    }
}

impl Eq for ClientCapabilities {}

impl ClientCapabilities {
    pub(crate) fn is_empty(&self) -> bool {
        !self.elicitation
            && !self.elicitation_url
            && !self.sampling
            && self.roots.is_none()
            && self.extensions.is_empty()
            && self.experimental.is_empty()
    }

    pub(crate) fn write(&self, object: &mut Object<'_>, era: Era) {
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
            object.object("sampling", |object| {
                if self.sampling_tools {
                    object.object("tools", |_| {});
                }
            });
        }
        if self.roots.is_some() {
            object.object("roots", |roots| {
                if era == Era::Legacy {
                    roots.raw("listChanged", "true");
                }
            });
        }
        let is_tasks = |id: &ExtensionId| id.as_str() == TASKS;
        let tasks = self.tasks && era == Era::Modern && !self.extensions.keys().any(is_tasks);
        if tasks || !self.extensions.is_empty() {
            object.object("extensions", |object| {
                if tasks {
                    object.object(TASKS, |_| {});
                }
                for (id, extension) in &self.extensions {
                    object.raw(id.as_str(), extension.settings());
                }
            });
        }
        if !self.experimental.is_empty() {
            object.object("experimental", |object| {
                for (name, settings) in &self.experimental {
                    object.raw(name, settings.get());
                }
            });
        }
    }

    /// Whether an extension that the client declares defines this `resultType`.
    pub(crate) fn defines_result(&self, kind: &str) -> bool {
        self.extensions.values().flat_map(|extension| &extension.result_types).any(|defined| **defined == *kind)
    }
}

/// Writes the result of `roots/list`.
pub(crate) fn write_roots(roots: &[Root], out: &mut Vec<u8>) {
    let mut result = Object::begin(out);
    let list = result.value("roots");
    list.push(b'[');
    for (index, root) in roots.iter().enumerate() {
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
