use alloc::sync::Arc;

use crate::host::Utility;

/// What an exposed name refers to within its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
pub enum Target {
    /// A tool of the server, by its own name.
    Tool(Arc<str>),
    /// A utility tool, which the host answers.
    Utility(Utility),
}

impl Target {
    /// The server's tool with this name.
    pub fn tool(name: &str) -> Self {
        Self::Tool(name.into())
    }

    /// The utility tool, if this is one.
    pub const fn utility(&self) -> Option<Utility> {
        match self {
            Self::Tool(_) => None,
            Self::Utility(utility) => Some(*utility),
        }
    }

    /// The tool's own name.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(name) => name,
            Self::Utility(utility) => utility.name(),
        }
    }
}

impl From<Utility> for Target {
    fn from(utility: Utility) -> Self {
        Self::Utility(utility)
    }
}
