//! What servers declare: capabilities and extensions.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde_json::value::RawValue;

use super::client::TASKS;
use crate::jsonrpc::Json;

/// The identifier of the extension for skills.
const SKILLS: &str = "io.modelcontextprotocol/skills";

/// A capability that a server can declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Capability {
    /// `tools/*`
    Tools,
    /// `prompts/*`
    Prompts,
    /// `resources/*`
    Resources,
    /// `logging/setLevel`
    Logging,
    /// `completion/complete`
    Completions,
    /// `tasks/*`: `tasks` in 2025-11-25, the extension `io.modelcontextprotocol/tasks` in 2026-07-28.
    Tasks,
    /// `tasks/list`: `tasks.list`, 2025-11-25.
    TaskList,
    /// `tasks/cancel`: `tasks.cancel` in 2025-11-25, and part of the extension in 2026-07-28.
    TaskCancellation,
    /// `skills/*`: the extension `io.modelcontextprotocol/skills`.
    Skills,
    /// `resources/directory/read`: `directoryRead` of the extension `io.modelcontextprotocol/skills`.
    Directories,
}

impl Capability {
    /// Those that are members of the server's capabilities.
    const MEMBERS: [Self; 6] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Logging, Self::Completions, Self::Tasks];

    const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// The capability's name on the wire; with a dot before the name of an option of it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Logging => "logging",
            Self::Completions => "completions",
            Self::Tasks => "tasks",
            Self::TaskList => "tasks.list",
            Self::TaskCancellation => "tasks.cancel",
            Self::Skills => SKILLS,
            Self::Directories => "io.modelcontextprotocol/skills.directoryRead",
        }
    }

    /// The capability that a server must declare to have the method; `None` if the method needs none, or is not an MCP
    /// method.
    pub fn needed_for(method: &str) -> Option<Self> {
        const PREFIXES: [(&str, Capability); 10] = [
            ("resources/directory/read", Capability::Directories),
            ("tasks/list", Capability::TaskList),
            ("tasks/cancel", Capability::TaskCancellation),
            ("tasks/", Capability::Tasks),
            ("skills/", Capability::Skills),
            ("tools/", Capability::Tools),
            ("resources/", Capability::Resources),
            ("prompts/", Capability::Prompts),
            ("completion/", Capability::Completions),
            ("logging/", Capability::Logging),
        ];
        PREFIXES.iter().find(|(prefix, _)| method.starts_with(prefix)).map(|(_, capability)| *capability)
    }
}

/// The capabilities that a server declares: a bit for each, because every request checks one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    has: u16,
    list_changed: u16,
    subscribe: bool,
}

impl Declared {
    pub(crate) const fn has(self, capability: Capability) -> bool {
        self.has & capability.bit() != 0
    }

    /// Whether the server announces changes to the capability's lists.
    pub(crate) const fn list_changed(self, capability: Capability) -> bool {
        self.list_changed & capability.bit() != 0
    }

    /// Whether the server supports subscriptions to single resources.
    pub(crate) const fn subscribe(self) -> bool {
        self.subscribe
    }

    /// Reads the capabilities of a result; `None` if they are not an object.
    pub(crate) fn read(json: Json<'_>) -> Option<Self> {
        let mut declared = Self { has: 0, list_changed: 0, subscribe: false };
        let set = |bits: u16, capability: Capability, is_set: bool| {
            if is_set { bits | capability.bit() } else { bits & !capability.bit() }
        };
        json.members(|name, value| {
            let option = |name| value.member(name).is_some_and(|value| value.text() == "true");
            if let Some(capability) = Capability::MEMBERS.into_iter().find(|capability| capability.as_str() == name) {
                declared.has = set(declared.has, capability, declares(value));
                declared.list_changed = set(declared.list_changed, capability, option("listChanged"));
            }
            let mut set = |capability, is_declared| declared.has = set(declared.has, capability, is_declared);
            match name {
                "resources" => declared.subscribe = option("subscribe"),
                "tasks" => {
                    let has = |name| value.member(name).is_some_and(declares);
                    set(Capability::TaskList, has("list"));
                    set(Capability::TaskCancellation, has("cancel"));
                }
                "extensions" => value.members(|id, settings| match id {
                    TASKS => {
                        set(Capability::Tasks, declares(settings));
                        set(Capability::TaskCancellation, declares(settings));
                    }
                    SKILLS => {
                        set(Capability::Skills, declares(settings));
                        let reads = settings.member("directoryRead").is_some_and(|value| value.text() == "true");
                        set(Capability::Directories, reads);
                    }
                    _ => {}
                }),
                _ => {}
            }
        });
        json.is_object().then_some(declared)
    }
}

/// The server's declared capabilities: a view of its JSON.
#[derive(Clone, Copy, Debug)]
pub struct ServerCapabilities<'a> {
    json: Json<'a>,
    declared: Declared,
}

impl<'a> ServerCapabilities<'a> {
    /// These capabilities, which declare those.
    pub(crate) const fn new(json: Json<'a>, declared: Declared) -> Self {
        Self { json, declared }
    }

    /// The capabilities as the server wrote them.
    pub fn raw(&self) -> &'a RawValue {
        self.json.raw()
    }

    /// Whether the server declares the capability. `null` and `false` do not declare it; any other value does, without
    /// options if it is not an object.
    pub fn has(&self, capability: Capability) -> bool {
        self.declared.has(capability)
    }

    /// Whether the server announces changes to the capability's lists (`listChanged`).
    pub fn list_changed(&self, capability: Capability) -> bool {
        self.declared.list_changed(capability)
    }

    /// Whether the server supports subscriptions to single resources (`resources.subscribe`).
    pub fn subscribe(&self) -> bool {
        self.declared.subscribe()
    }

    /// Whether calls of tools can run as tasks (`tasks.requests.tools.call`, 2025-11-25).
    pub(crate) fn runs_tools_as_tasks(&self) -> bool {
        self.has_path(&["tasks", "requests", "tools", "call"])
    }

    /// The settings of an extension that the server declares; `None` if it does not.
    pub fn extension(&self, id: &ExtensionId) -> Option<&'a RawValue> {
        let settings = self.json.member("extensions").and_then(|extensions| extensions.member(id.as_str()));
        settings.filter(|settings| declares(*settings)).map(Json::raw)
    }

    /// The settings of an experimental capability that the server declares; `None` if it does not.
    pub fn experimental(&self, name: &str) -> Option<&'a RawValue> {
        let settings = self.json.member("experimental").and_then(|experimental| experimental.member(name));
        settings.filter(|settings| declares(*settings)).map(Json::raw)
    }

    fn has_path(&self, path: &[&str]) -> bool {
        let mut names = path.iter();
        names.try_fold(self.json, |value, name| value.member(name)).is_some_and(declares)
    }

    /// Calls `each` with the name and value of every capability that is not an object.
    pub(crate) fn odd_shapes(&self, mut each: impl FnMut(&str, &str)) {
        self.json.members(|name, value| {
            if !value.is_object() {
                each(name, value.text());
            }
        });
    }
}

fn declares(value: Json<'_>) -> bool {
    !matches!(value.text(), "null" | "false")
}

/// The identifier of an extension: a prefix of labels with dots between them, a slash, and a name, as
/// `com.example/feature` (specification 2026-07-28, "Versioning", Extensions; "Overview", `_meta`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "alloc::string::String", try_from = "alloc::string::String")
)]
pub struct ExtensionId(Box<str>);

/// Why a text is no identifier of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ExtensionIdError {
    /// There is no prefix before a slash.
    #[error("an extension's identifier begins with a prefix and a slash, as `com.example/`")]
    NoPrefix,
    /// A label of the prefix does not begin with a letter, does not end with a letter or a digit, or has another
    /// character than letters, digits and hyphens.
    #[error(
        "each label of an extension's prefix begins with a letter, ends with a letter or a digit, and has letters, digits and hyphens only"
    )]
    Label,
    /// The name does not begin and end with a letter or a digit, or has another character than letters, digits,
    /// hyphens, underscores and dots.
    #[error(
        "an extension's name begins and ends with a letter or a digit, and has letters, digits, `-`, `_` and `.` only"
    )]
    Name,
}

impl ExtensionId {
    /// The identifier as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ExtensionId {
    type Err = ExtensionIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (prefix, name) = text.split_once('/').ok_or(ExtensionIdError::NoPrefix)?;
        if prefix.is_empty() {
            return Err(ExtensionIdError::NoPrefix);
        }
        let is_label = |label: &str| {
            label.starts_with(|first: char| first.is_ascii_alphabetic())
                && label.ends_with(|last: char| last.is_ascii_alphanumeric())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !prefix.split('.').all(is_label) {
            return Err(ExtensionIdError::Label);
        }
        let is_edge = |edge: char| edge.is_ascii_alphanumeric();
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.starts_with(is_edge) && name.ends_with(is_edge) && name.bytes().all(is_inner) {
            Ok(Self(text.into()))
        } else {
            Err(ExtensionIdError::Name)
        }
    }
}

impl fmt::Display for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ExtensionId> for alloc::string::String {
    fn from(id: ExtensionId) -> Self {
        id.0.into()
    }
}

impl TryFrom<alloc::string::String> for ExtensionId {
    type Error = ExtensionIdError;

    fn try_from(text: alloc::string::String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// What the client declares of an extension that it supports (specification 2026-07-28, "Versioning",
/// Extensions).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Extension {
    /// Its settings, a JSON object; an empty one by default. Anything else is sent as an empty object.
    pub settings: Box<RawValue>,
    /// Values of `resultType` that the extension defines. A response with one of them ends its request with
    /// [`Outcome::Result`](crate::Outcome::Result); a type that nobody declares is an error.
    pub result_types: Vec<Box<str>>,
}

/// An extension without settings and without result types of its own.
impl Default for Extension {
    fn default() -> Self {
        Self { settings: Json::EMPTY_OBJECT.to_raw(), result_types: Vec::new() }
    }
}

/// An extension with these settings, a JSON object.
impl From<Box<RawValue>> for Extension {
    fn from(settings: Box<RawValue>) -> Self {
        Self { settings, ..Self::default() }
    }
}

impl Extension {
    /// The settings as they are sent.
    pub(super) fn settings(&self) -> &str {
        Some(Json::from(&*self.settings)).filter(|settings| settings.is_object()).unwrap_or(Json::EMPTY_OBJECT).text()
    }
}

/// Settings are compared byte for byte.
impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        (self.settings.get(), &self.result_types) == (other.settings.get(), &other.result_types)
    }
}

impl Eq for Extension {}
