//! Reads what is under `tools`.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;

use super::super::entry::path;
use super::super::error::Oddity;
use super::super::value::{Value, excerpt};
use super::super::{ToolOverride, ToolPolicy};
use super::reader::{Members, Reader};

const TOOLS: &[&str] = &["include", "exclude", "resources", "prompts", "overrides", "max_result_bytes"];

const OVERRIDE: &[&str] = &["name", "title", "description"];

impl Reader<'_> {
    pub(super) fn tools(&mut self, members: &Members<'_>) -> ToolPolicy {
        let Some(members) = self.map(members, "tools", TOOLS) else { return ToolPolicy::default() };
        let empty =
            members.get("include").filter(|(_, include)| matches!(include, Value::List(list) if list.is_empty()));
        // A template of all keys, copied: who wants no tool has no use for `exclude`.
        if let (Some((key, _)), Some(_)) = (empty, members.get("exclude")) {
            self.warn(Some(key), Oddity::NoTools);
        }
        ToolPolicy {
            include: members.get("include").map(|(key, value)| self.elements(&key, value, true)),
            exclude: members.get("exclude").map(|(key, value)| self.elements(&key, value, true)).unwrap_or_default(),
            resources: self.boolean(&members, "resources", true),
            prompts: self.boolean(&members, "prompts", true),
            overrides: self.overrides(&members),
            max_result_bytes: Some(self.count(&members, "max_result_bytes", 0)).filter(|max| *max > 0),
        }
    }

    fn overrides(&mut self, members: &Members<'_>) -> BTreeMap<Box<str>, ToolOverride> {
        let mut overrides = BTreeMap::new();
        let Some((key, value)) = members.get("overrides") else { return overrides };
        let Value::Map(map) = value else {
            return self.kind(&key, value, "a map of tools by name").unwrap_or_default();
        };
        for (tool, value) in map {
            let at = path(&key, &excerpt(tool));
            let known = match value {
                Value::Map(known) => known,
                Value::Null => continue,
                Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                    self.kind::<()>(&at, value, "a map of keys");
                    continue;
                }
            };
            let members = self.members(known, &format!("{at}."), OVERRIDE);
            let own = ToolOverride {
                name: self.text(&members, "name", "the name for the model"),
                title: self.text(&members, "title", "the title to show"),
                description: self.text(&members, "description", "the description for the model"),
            };
            if overrides.insert(tool.clone(), own).is_some() {
                self.warn(Some(at), Oddity::Twice);
            }
        }
        // One without a value replaces nothing.
        overrides.retain(|_, own| *own != ToolOverride::default());
        overrides
    }
}
