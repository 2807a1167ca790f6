//! MCP's vocabulary: versions, methods, error codes, capabilities, item families.

mod capability;
mod client;
pub mod content;
mod form;
pub mod method;

pub(crate) use capability::Declared;
pub use capability::{Capability, Extension, ExtensionId, ExtensionIdError, ServerCapabilities};
pub(crate) use client::write_roots;
pub use client::{ClientCapabilities, Implementation, Root};
pub(crate) use form::{Defaults, accepts};

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A revision of the Model Context Protocol; revisions compare by date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// 2025-03-26, the only revision with batches.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// 2025-06-18
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// 2025-11-25, the last revision with a handshake.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// 2026-07-28, the first revision without a handshake: each request carries version and capabilities.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// The protocol's two generations (specification 2026-07-28, "Versioning and Compatibility", Terminology).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// A session is opened by `initialize`: 2025-11-25 and earlier.
    Legacy,
    /// Each request carries its metadata, no handshake: 2026-07-28 and later.
    Modern,
}

impl ProtocolVersion {
    /// Every revision that this crate supports, oldest first.
    pub const ALL: &'static [Self] =
        &[Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest legacy revision.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest modern revision.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// The revision as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision's era.
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a version string that this crate does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no protocol version that mcp-proto speaks; it speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
)]
pub struct UnknownVersion;

impl FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL.iter().copied().find(|version| version.as_str() == text).ok_or(UnknownVersion)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

/// A kind of item that servers list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Family {
    /// Functions that the model can call.
    Tools,
    /// Prompt templates that the user can pick.
    Prompts,
    /// Data that the application can read.
    Resources,
    /// URI templates of resources that the application can read.
    ResourceTemplates,
}

impl Family {
    /// All families, in the order in which they are requested.
    pub const ALL: &'static [Self] = &Self::EACH;
    pub(crate) const EACH: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// The method that lists the family.
    pub const fn list_method(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_LIST,
            Self::Prompts => method::PROMPTS_LIST,
            Self::Resources => method::RESOURCES_LIST,
            Self::ResourceTemplates => method::RESOURCE_TEMPLATES_LIST,
        }
    }

    /// The member of a list result that holds the items.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The member of an item that identifies it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::ResourceTemplates => "uriTemplate",
        }
    }

    /// The capability that declares the family; resource templates belong to `resources`.
    pub const fn capability(self) -> Capability {
        match self {
            Self::Tools => Capability::Tools,
            Self::Prompts => Capability::Prompts,
            Self::Resources | Self::ResourceTemplates => Capability::Resources,
        }
    }

    /// The families that belong to the capability.
    pub(crate) const fn of(capability: Capability) -> &'static [Self] {
        match capability {
            Capability::Tools => &[Self::Tools],
            Capability::Prompts => &[Self::Prompts],
            Capability::Resources => &[Self::Resources, Self::ResourceTemplates],
            Capability::Logging
            | Capability::Completions
            | Capability::Tasks
            | Capability::TaskList
            | Capability::TaskCancellation
            | Capability::Skills
            | Capability::Directories => &[],
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// One value for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PerFamily<T>([T; 4]);

impl<T> PerFamily<T> {
    /// Calls `each` for every family, and keeps what it returns.
    pub fn from_fn(each: impl FnMut(Family) -> T) -> Self {
        Self(Family::EACH.map(each))
    }

    /// Each family with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Family, &T)> {
        Family::EACH.into_iter().zip(&self.0)
    }

    /// The values.
    #[cfg(feature = "http")]
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// Each family with its value, by value.
    #[cfg(feature = "snapshot")]
    pub(crate) fn into_each(self) -> impl Iterator<Item = (Family, T)> {
        Family::EACH.into_iter().zip(self.0)
    }

    /// The value of one family.
    #[allow(clippy::indexing_slicing, reason = "a family's index is below four")]
    pub const fn get(&self, family: Family) -> &T {
        &self.0[family.index()]
    }

    /// A mutable reference to the value of one family.
    #[allow(clippy::indexing_slicing, reason = "a family's index is below four")]
    pub const fn get_mut(&mut self, family: Family) -> &mut T {
        &mut self.0[family.index()]
    }
}

/// Who may use a result that is stored (specification 2026-07-28, "Caching").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// Anyone.
    Public,
    /// The user for whom it was requested. A result whose server does not say otherwise counts as private.
    #[default]
    Private,
}

impl CacheScope {
    /// The scope of what these two are part of.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Public, Self::Public) => Self::Public,
            (Self::Private, _) | (_, Self::Private) => Self::Private,
        }
    }

    /// The scope by the value of `cacheScope`.
    pub(crate) fn read(value: Option<&str>) -> Self {
        if value == Some("public") { Self::Public } else { Self::Private }
    }
}

pub mod error_code {
    //! Error codes of JSON-RPC and MCP (specification 2026-07-28, "Error Codes").

    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer has an internal error.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// HTTP headers and body contradict each other.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare.
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
    /// The server does not speak the request's protocol version.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
    /// The call needs elicitations at URLs first (specification 2025-11-25, "Elicitation").
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
}
