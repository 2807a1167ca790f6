//! Names that replace those of tools.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;

use super::{Names, Style, Target};

/// The names that replace those of tools, by server and by the tool's own name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides(BTreeMap<Box<str>, BTreeMap<Box<str>, Box<str>>>);

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

impl Names {
    /// Replaces the names of a server's tools in their exposed names: pairs of the server's own name and the name from
    /// which the exposed name is formed. Tools that are not named have their own, those that were named before included.
    ///
    /// The replacing name is treated like a tool's own: characters are replaced, and a long name or one that is taken gets
    /// a suffix, whose digits are of the tool's own name. A name that was formed from another one is removed; call
    /// [`update`](Self::update) after it, and it is formed again. [`resolve`](Self::resolve) returns the server's own name.
    ///
    /// ```
    /// use mcp_proto::host::names::{Names, Renamed, Target};
    ///
    /// let mut names = Names::default();
    /// names.set_overrides("github", [("create_issue_v2", "new_issue")]);
    /// names.update([("github", [Target::tool("create_issue_v2")])]);
    /// let tool = Target::tool("create_issue_v2");
    /// assert_eq!(names.name("github", &tool).as_deref(), Some("mcp_github_new_issue"));
    /// assert_eq!(names.renamed("github", &tool), Some(Renamed::Configured));
    /// assert_eq!(names.resolve("mcp_github_new_issue").unwrap().target, &tool);
    /// ```
    pub fn set_overrides<'a>(&mut self, server: &str, overrides: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let overrides = overrides.into_iter().filter(|(tool, name)| tool != name);
        let overrides: BTreeMap<Box<str>, Box<str>> =
            overrides.map(|(tool, name)| (tool.into(), name.into())).collect();
        let same = match self.overrides.0.get(server) {
            Some(before) => *before == overrides,
            None => overrides.is_empty(),
        };
        if same {
            return;
        }
        let before = self.overrides.0.remove(server).unwrap_or_default();
        self.keep_only(server, |target| match target {
            Target::Tool(tool) => before.get(&**tool) == overrides.get(&**tool),
            Target::Utility(_) => true,
        });
        if !overrides.is_empty() {
            self.overrides.0.insert(server.into(), overrides);
        }
    }

    /// The names that replace those of tools: the server, the tool's own name, and the other one; in order.
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let servers = self.overrides.0.iter();
        servers.flat_map(|(server, own)| own.iter().map(move |(tool, name)| (&**server, &**tool, &**name)))
    }
}
