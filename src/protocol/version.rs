use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A revision of the Model Context Protocol, in the order of their dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// 2025-03-26, the one that has batches.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// 2025-06-18
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// 2025-11-25, the last with a handshake.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// 2026-07-28, the first whose requests carry version and capabilities themselves.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// How a session is opened (specification 2026-07-28, "Versioning and Compatibility", Terminology).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Opened by `initialize`: 2025-11-25 and earlier.
    Legacy,
    /// Metadata on every request, no handshake: 2026-07-28 and later.
    Modern,
}

impl ProtocolVersion {
    /// Every revision that this crate speaks, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest revision that is opened by `initialize`.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest revision whose requests carry their metadata themselves.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// The revision as it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era that the revision belongs to.
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

/// A version string that names no revision this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no protocol version that mcp-proto speaks; it speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
)]
pub struct UnknownVersion;

impl FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or(UnknownVersion)
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
