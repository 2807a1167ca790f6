use serde::{Deserialize, Serialize};

use super::{Capability, method};

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
    #[cfg(feature = "oauth")]
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
