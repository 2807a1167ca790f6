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
