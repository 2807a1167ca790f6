use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Configuration, Endpoint, Entry};

/// The differences between two configurations, by server name, sorted.
///
/// A server whose new entry is invalid counts as neither removed nor changed, so that a mistake while editing the file
/// does not stop a running server.
///
/// ```
/// use mcp_proto::host::config::{Changes, Configuration};
///
/// let read = |json| serde_json::from_str::<Configuration>(json).unwrap();
/// let before = read(r#"{"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}}"#);
/// let after = read(r#"{"a": {"command": "x"}, "b": {"command": "y", "timeout": 5}, "c": {}, "d": {"url": "http://d"}}"#);
/// let changes = Changes::between(&before, &after);
/// assert_eq!(changes.unchanged, ["a".into()]);
/// assert_eq!((&*changes.changed[0].server, &*changes.changed[0].keys), ("b", &["timeout"][..]));
/// assert_eq!(changes.invalid, ["c".into()]);
/// assert_eq!(changes.added, ["d".into()]);
/// assert!(changes.removed.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Changes {
    /// New servers.
    pub added: Vec<Box<str>>,
    /// Removed servers.
    pub removed: Vec<Box<str>>,
    /// Servers whose entry has a different meaning.
    pub changed: Vec<Change>,
    /// Servers whose entry has the same meaning, even if it is written differently.
    pub unchanged: Vec<Box<str>>,
    /// Existing servers whose new entry has errors.
    pub invalid: Vec<Box<str>>,
}

/// A changed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Change {
    /// The server's name.
    pub server: Box<str>,
    /// The keys whose value changed.
    pub keys: Vec<&'static str>,
}

impl Change {
    /// Whether the change needs a new session. If not, only the toolset has to be computed again.
    pub fn needs_session(&self) -> bool {
        self.keys.iter().any(|key| !key.starts_with("tools."))
    }
}

impl Changes {
    /// Whether nothing was added, removed or changed. Invalid entries do not count.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// The differences from one configuration to the next.
    pub fn between(before: &Configuration, after: &Configuration) -> Self {
        let mut changes = Self::default();
        let faulty: BTreeSet<_> = after.errors.iter().map(|error| &*error.server).collect();
        for (server, old) in &before.servers {
            match after.servers.get(server) {
                Some(new) => {
                    let keys = differing(old, new);
                    if keys.is_empty() {
                        changes.unchanged.push(server.clone());
                    } else {
                        changes.changed.push(Change { server: server.clone(), keys });
                    }
                }
                None if faulty.contains(&**server) => changes.invalid.push(server.clone()),
                None => changes.removed.push(server.clone()),
            }
        }
        let added = after.servers.keys().filter(|server| !before.servers.contains_key(*server));
        changes.added.extend(added.cloned());
        changes
    }
}

fn differing(old: &Entry, new: &Entry) -> Vec<&'static str> {
    let mut keys = Vec::new();
    let mut compare = |key, differs: bool| {
        if differs {
            keys.push(key);
        }
    };
    match (&old.endpoint, &new.endpoint) {
        (Endpoint::Stdio(old), Endpoint::Stdio(new)) => {
            compare("command", old.command != new.command);
            compare("args", old.args != new.args);
            compare("env", old.env != new.env);
            compare("cwd", old.cwd != new.cwd);
        }
        (Endpoint::Http(old), Endpoint::Http(new)) => {
            compare("url", old.url != new.url);
            compare("headers", old.headers != new.headers);
            compare("auth", old.auth != new.auth);
            compare("oauth", old.oauth != new.oauth);
        }
        (Endpoint::Stdio(_), Endpoint::Http(_)) | (Endpoint::Http(_), Endpoint::Stdio(_)) => {
            compare("command", true);
            compare("url", true);
        }
    }
    compare("enabled", old.enabled != new.enabled);
    compare("timeout", old.timeout != new.timeout);
    compare("connect_timeout", old.connect_timeout != new.connect_timeout);
    compare("supports_parallel_tool_calls", old.supports_parallel_tool_calls != new.supports_parallel_tool_calls);
    compare("trust", old.trust != new.trust);
    compare("protocol", old.protocol != new.protocol);
    compare("keepalive_interval", old.keepalive_interval != new.keepalive_interval);
    compare("idle_timeout", old.idle_timeout != new.idle_timeout);
    compare("max_lifetime", old.max_lifetime != new.max_lifetime);
    compare("elicitation", old.elicitation != new.elicitation);
    compare("sampling", old.sampling != new.sampling);
    compare("tools.include", old.tools.include != new.tools.include);
    compare("tools.exclude", old.tools.exclude != new.tools.exclude);
    compare("tools.resources", old.tools.resources != new.tools.resources);
    compare("tools.prompts", old.tools.prompts != new.tools.prompts);
    compare("tools.overrides", old.tools.overrides != new.tools.overrides);
    compare("tools.max_result_bytes", old.tools.max_result_bytes != new.tools.max_result_bytes);
    keys
}
