use serde::{Deserialize, Serialize};

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
