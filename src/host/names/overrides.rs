//! Names that replace those of tools.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;

use super::{Style, Target};

/// The names that replace those of tools, by server and by the tool's own name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides(pub(super) BTreeMap<Box<str>, BTreeMap<Box<str>, Box<str>>>);

impl Overrides {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The name that replaces a tool's own.
    pub(super) fn name(&self, server: &str, target: &Target) -> Option<&str> {
        match target {
            Target::Tool(tool) => self.0.get(server)?.get(&**tool).map(|name| &**name),
            Target::Utility(_) => None,
        }
    }

    /// The plain name of a server's tool.
    pub(super) fn plain(&self, style: Style, server: &str, target: &Target) -> String {
        style.plain(server, self.name(server, target).unwrap_or_else(|| target.name()))
    }

    pub(super) fn remove(&mut self, server: &str) {
        self.0.remove(server);
    }

    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|server, _| wanted(server));
    }
}
