//! What is under `tools`: which of a server's tools a model sees, and how.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::written::Written;
use crate::catalog::Tool;
use crate::host::glob;
use crate::host::results::{self, Bounded};

/// Which of a server's tools and utility tools a model sees.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// The tools to use, by the server's own names; `*` stands for any text, `?` for any
    /// character, `[a-z]` for one of these, `[!a-z]` for another. `None` includes all tools, an empty list
    /// none.
    pub include: Option<Vec<Box<str>>>,
    /// The tools not to use. Has no effect if `include` is set.
    pub exclude: Vec<Box<str>>,
    /// Whether to add `list_resources` and `read_resource`. Default: `true`.
    pub resources: bool,
    /// Whether to add `list_prompts` and `get_prompt`. Default: `true`.
    pub prompts: bool,
    /// What a model sees of a tool in place of the server's own, by the server's names.
    pub overrides: BTreeMap<Box<str>, ToolOverride>,
    /// The most bytes of JSON that a result of a tool may have for a model ([`bound`](Self::bound)). `None` sets no bound.
    pub max_result_bytes: Option<usize>,
}

/// What a model sees of a tool in place of what the server says. The tool is called by the server's own name, which
/// the filters have, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolOverride {
    /// The name from which the exposed name is formed ([`names`](crate::host::names)): `issue` is exposed as
    /// `mcp_github_issue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// Description for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            include: None,
            exclude: Vec::new(),
            resources: true,
            prompts: true,
            overrides: BTreeMap::new(),
            max_result_bytes: None,
        }
    }
}

impl ToolPolicy {
    /// A canonical text: equal exactly for policies with the same meaning.
    pub(in crate::host) fn text(&self) -> Box<str> {
        serde_json::to_string(self).unwrap_or_default().into()
    }

    /// The tools with another name for the model: the server's names, each with the name that replaces it, for
    /// [`Names::set_overrides`](crate::host::names::Names::set_overrides).
    pub fn name_overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.overrides.iter().filter_map(|(tool, own)| Some((&**tool, own.name.as_deref()?)))
    }

    /// The result of a tool within `max_result_bytes` ([`results::bound`]); unchanged if no bound is set.
    pub fn bound<'a>(&self, result: &'a RawValue) -> Bounded<'a> {
        match self.max_result_bytes {
            Some(max_bytes) => results::bound(result, max_bytes),
            None => Bounded::whole(result),
        }
    }

    /// Whether the tool with this name, the server's own, passes the filters.
    ///
    /// ```
    /// use mcp_proto::host::config::ToolPolicy;
    ///
    /// let mut policy = ToolPolicy::default();
    /// policy.exclude = vec!["delete-*".into()];
    /// assert!(!policy.admits("delete-issue"));
    /// policy.include = Some(vec!["delete-issue".into()]);
    /// assert!(policy.admits("delete-issue"), "include wins");
    /// assert!(!policy.admits("list-issues"));
    /// ```
    pub fn admits(&self, tool: &str) -> bool {
        match &self.include {
            Some(include) => include.iter().any(|pattern| glob::matches(pattern, tool)),
            None => !self.exclude.iter().any(|pattern| glob::matches(pattern, tool)),
        }
    }
}

/// A policy's patterns, prepared for many tools: names are looked up in a set.
pub(in crate::host) struct Filter<'a> {
    names: BTreeSet<&'a str>,
    globs: Vec<&'a str>,
    admits: bool,
}

impl<'a> Filter<'a> {
    pub(in crate::host) fn new(policy: &'a ToolPolicy) -> Self {
        let patterns = policy.include.as_ref().unwrap_or(&policy.exclude).iter().map(|pattern| &**pattern);
        let (globs, names): (Vec<_>, Vec<_>) = patterns.partition(|pattern| glob::is_glob(pattern));
        Self { names: names.into_iter().collect(), globs, admits: policy.include.is_some() }
    }

    /// See [`ToolPolicy::admits`].
    pub(in crate::host) fn admits(&self, tool: &str) -> bool {
        let named = self.names.contains(tool) || self.globs.iter().any(|pattern| glob::matches(pattern, tool));
        named == self.admits
    }
}

impl ToolOverride {
    /// Replaces title and description of a tool.
    pub(in crate::host) fn apply<'a>(&'a self, tool: &mut Tool<'a>) {
        if let Some(title) = &self.title {
            tool.title = Some(Cow::Borrowed(title));
        }
        if let Some(description) = &self.description {
            tool.description = Some(Cow::Borrowed(description));
        }
    }
}

/// As under `tools`, without default values.
impl Serialize for ToolPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { include, exclude, resources, prompts, overrides, max_result_bytes } = self;
        let mut map = Written(serializer.serialize_map(None)?);
        map.unless(include.is_none(), "include", include)?;
        map.unless(exclude.is_empty(), "exclude", exclude)?;
        map.unless(*resources, "resources", resources)?;
        map.unless(*prompts, "prompts", prompts)?;
        map.unless(overrides.is_empty(), "overrides", overrides)?;
        map.unless(max_result_bytes.is_none(), "max_result_bytes", max_result_bytes)?;
        map.0.end()
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, ToolPolicy};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn patterns() -> impl Strategy<Value = Vec<Box<str>>> {
        prop::collection::vec("[ab*]{0,4}".prop_map(Box::from), 0..6)
    }

    proptest! {
        #[test]
        fn a_prepared_filter_equals_its_policy(
            include in prop::option::of(patterns()),
            exclude in patterns(),
            tools in prop::collection::vec("[ab*]{0,4}", 0..8),
        ) {
            let policy = ToolPolicy { include, exclude, ..ToolPolicy::default() };
            let filter = Filter::new(&policy);
            for tool in &tools {
                prop_assert_eq!(filter.admits(tool), policy.admits(tool), "{}", tool);
            }
        }
    }
}
