use serde::{Deserialize, Serialize};

use super::{Capability, method};

/// One of the four kinds of item that a server lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Family {
    /// What the model can call.
    Tools,
    /// What the user can pick.
    Prompts,
    /// What the application can read.
    Resources,
    /// Patterns of URIs that the application can read.
    ResourceTemplates,
}

impl Family {
    /// All four, in the order in which they are asked.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// The method that lists the family.
    pub const fn list_method(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_LIST,
            Self::Prompts => method::PROMPTS_LIST,
            Self::Resources => method::RESOURCES_LIST,
            Self::ResourceTemplates => method::RESOURCE_TEMPLATES_LIST,
        }
    }

    /// The member of a list's result that holds the items.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The member of an item that tells it from the others.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::ResourceTemplates => "uriTemplate",
        }
    }

    /// The capability that a server declares for the family; templates come with resources.
    pub const fn capability(self) -> Capability {
        match self {
            Self::Tools => Capability::Tools,
            Self::Prompts => Capability::Prompts,
            Self::Resources | Self::ResourceTemplates => Capability::Resources,
        }
    }

    /// The families that the capability stands for.
    pub(crate) const fn of(capability: Capability) -> &'static [Self] {
        match capability {
            Capability::Tools => &[Self::Tools],
            Capability::Prompts => &[Self::Prompts],
            Capability::Resources => &[Self::Resources, Self::ResourceTemplates],
            Capability::Logging | Capability::Completions => &[],
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// One value for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerFamily<T>([T; 4]);

impl<T> PerFamily<T> {
    /// What `each` gives for each family.
    pub fn from_fn(each: impl FnMut(Family) -> T) -> Self {
        Self(Family::ALL.map(each))
    }

    /// Each family's value in turn.
    pub fn iter(&self) -> impl Iterator<Item = (Family, &T)> {
        Family::ALL.into_iter().zip(&self.0)
    }

    /// The value of one family.
    #[allow(clippy::indexing_slicing, reason = "a family's index is below four")]
    pub const fn get(&self, family: Family) -> &T {
        &self.0[family.index()]
    }

    /// The value of one family, to change it.
    #[allow(clippy::indexing_slicing, reason = "a family's index is below four")]
    pub const fn get_mut(&mut self, family: Family) -> &mut T {
        &mut self.0[family.index()]
    }
}
