//! Server configuration: the `mcp_servers` map, and the `mcpServers` JSON of desktop clients and editors.
//!
//! ```
//! use mcp_proto::host::config::{Document, Endpoint};
//!
//! let text = r#"{
//!     "theme": "dark",
//!     "mcpServers": {
//!         "github": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"], "timeuot": 60},
//!         "docs": {"url": "https://docs.example.com/mcp", "tools": {"include": "search_*", "prompts": "no"}},
//!         "both": {"command": "x", "url": "https://example.com"}
//!     }
//! }"#;
//! let Document(config) = serde_json::from_str(text).unwrap();
//!
//! let docs = &config.servers["docs"];
//! assert!(matches!(docs.endpoint, Endpoint::Http(_)));
//! assert!(docs.enabled && docs.tools.admits("search_pages") && !docs.tools.prompts);
//!
//! assert_eq!(config.servers.len(), 2, "one bad entry does not cost the others");
//! assert_eq!(
//!     config.errors[0].to_string(),
//!     "server `both`: there are both `command` and `url`; remove one of them"
//! );
//! assert_eq!(
//!     config.warnings[0].to_string(),
//!     "server `github`, `timeuot`: nobody knows this key; was `timeout` meant?"
//! );
//! ```
//!
//! | key | server | meaning | default |
//! | --- | --- | --- | --- |
//! | `command`, `args`, `env` | program | what to start; `command` may be a list with the arguments | |
//! | `env_file` | program | a file with more variables ([`Stdio::env_file`]) | |
//! | `cwd` | program | the working directory | the host's |
//! | `url`, `headers` | URL | where to send requests, and additional headers | |
//! | `env_http_headers`, `bearer_token_env_var` | URL | variables with the values of headers, and with a token | |
//! | `type` or `transport` | both | `stdio`, `http`, or `sse` for a server that is first tried with the older transport | that of `command` or `url` |
//! | `get_stream` | URL | whether the server is asked for a stream of what it sends on its own | the host's |
//! | `enabled` | both | whether the server is used | true |
//! | `timeout` | both | timeout of a tool call, in seconds; progress restarts it | 120 |
//! | `max_timeout` | both | maximum time of a tool call, in seconds, whatever progress is reported | 600 |
//! | `connect_timeout` | both | timeout of the first connection, in seconds | 60 |
//! | `supports_parallel_tool_calls` | both | whether tool calls may run in parallel | false |
//! | `tools.include`, `tools.exclude` | both | which tools are used: a string or a list; `include` wins | all |
//! | `tools.resources`, `tools.prompts` | both | whether to add the utility tools for them | true |
//! | `tools.overrides` | both | by tool, what a model sees of it: `name`, `title`, `description` | the server's own |
//! | `tools.max_result_bytes` | both | the most bytes of a result for the model, of utility tools too ([`results`](super::results)); at least 1024; 0 for no bound | none |
//! | `auth` | URL | how the user authenticates: `oauth` | |
//! | `oauth.client_id`, `oauth.client_secret` | URL | a client that was registered in advance | |
//! | `oauth.client_metadata_url` | URL | the URL of the client ID metadata document | |
//! | `oauth.issuer` | URL | the authorization server to use, of those that the server names, and the one that knows `oauth.client_id`; required with a secret, and without a user | the first |
//! | `oauth.scopes` | URL | the scopes to request: a string or a list | those that the server names |
//! | `oauth.redirect_uri`, `oauth.redirect_port` | URL | where the user's browser is redirected | the host's |
//! | `oauth.grant` | URL | `authorization_code`, or `client_credentials` without a user | `authorization_code` |
//! | `protocol` | both | the eras of the protocol: `auto`, `modern` or `legacy` | the host's |
//! | `keepalive_interval` | both | silence until a keepalive request, in seconds; 0 or `false` turns keepalive off | the host's |
//! | `idle_timeout` | program | time without use until its program is stopped, in seconds; it is started again when it is used; 0 or `false` for no limit | none |
//! | `max_lifetime` | program | age of its program until it is stopped, as soon as it is not in use; likewise | none |
//! | `elicitation` | both | whether the server may ask the user for input | true |
//! | `trust` | both | whether the annotations of its tools are believed | the host's |
//! | `sampling` | both | limits on the server's sampling requests | |
//!
//! Exactly one of `command` and `url` is required. Booleans are `true` and `false`, or `yes`, `no`, `on`, `off`, `1`,
//! `0`, in any case, quoted or not. A key without a value counts as absent. Keys are compared without regard to case, `_`
//! and `-`.
//!
//! # Keys of other hosts
//!
//! `disabled: true` is `enabled: false`. `httpUrl` and `serverUrl` are `url`, `environment` is `env`, `http_headers` is
//! `headers`, `tool_timeout_sec` is `timeout`, `startup_timeout_sec` and `initTimeout` are `connect_timeout`. Of goose, `cmd`
//! is `command`, `envs` is `env`, `uri` is `url`, and `env_keys` lists variables that the program gets. Two keys with one
//! meaning are an error that names both. `idle_timeout_seconds` and `max_lifetime_seconds` may also be in a map under
//! `lifecycle`, and all keys of an entry in a map under `transport`. The transport is also named `local`, `remote`,
//! `streamable-http` and `streamableHttp`. Any other key is a [`Warning`].
//!
//! Above 3,600, a timeout has a warning, since other hosts write milliseconds.
//!
//! # Filters of other hosts
//!
//! A filter that is not understood lets no tool through:
//!
//! - `includeTools`, `enabled_tools`, `allowedTools`, and `available_tools` unless it is empty, are read as
//!   `tools.include`, `excludeTools` and `disabled_tools` as `tools.exclude`. Those that exclude add up, and win over what includes. Two that include are an error.
//! - A list under `tools` is what is included; `"*"` in it is all, and an empty one none.
//! - A key that nobody knows is an error of its entry if it is under `tools`, or has `tool`, `allow`, `deny`, `include` or
//!   `exclude` in its name.
//! - `autoApprove` and `alwaysAllow` are a [`Warning`]: a host approves calls. So is `trust` under `mcpServers`, where
//!   other hosts mean by it that calls need no approval.

mod entry;
mod others;
mod read;

pub(super) use self::entry::Filter;
pub use self::entry::{
    Auth, Endpoint, Entry, Http, OAuth, OAuthGrant, Protocol, Sampling, Stdio, Texts, ToolOverride, ToolPolicy,
};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Serialize, Serializer, de};

use self::entry::path;
use self::others::{File, Host, Listed};
use self::read::{Key, Reader, Value, excerpt};

/// A host's servers: the map under `mcp_servers` or `mcpServers`. [`Document`] reads a whole file.
///
/// Deserializing fails only if the value is not a map. An invalid entry becomes an error and does not affect the
/// others.
///
/// ```
/// # use mcp_proto::host::config::Configuration;
/// #[derive(serde::Deserialize)]
/// struct MyHost {
///     theme: String,
///     mcp_servers: Configuration,
/// }
///
/// let host: MyHost = serde_json::from_str(r#"{"theme": "dark", "mcp_servers": {"a": {"command": "x"}}}"#).unwrap();
/// assert!(host.mcp_servers.servers.contains_key("a"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Configuration {
    /// The valid entries by server name, including disabled servers.
    pub servers: BTreeMap<Box<str>, Entry>,
    /// Errors in the other entries.
    pub errors: Vec<Error>,
    /// Likely mistakes.
    pub warnings: Vec<Warning>,
}

/// A whole configuration file: a map with `mcp_servers` or `mcpServers`, and any other keys. The maps of other hosts are read,
/// too: `servers` (VS Code, also under `mcp`), `context_servers` (Zed), `mcp` (opencode), `extensions` (goose), the
/// `mcpServers` of each of the `projects` (Claude Code), and a map of entries without such a key. A file with none of
/// them has no servers; but if it has a similar key, such as `mcpServer`, deserializing fails.
///
/// If a file has `mcp_servers` and `mcpServers`, an entry in `mcp_servers` takes precedence. Servers under the keys of two other
/// hosts fail, with both keys named. Of one name, different entries of projects, or of one and `mcpServers`, are an error of
/// that server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document(pub Configuration);

impl Configuration {
    /// The configuration with the variables in every entry replaced, as by [`Entry::expand`]. An entry with an unset
    /// variable becomes an error, and so does one whose variables bring too much: 64 KiB into a value, or 1 MiB into all
    /// entries together. Disabled entries are not expanded.
    #[must_use]
    pub fn expand<'a>(&self, mut lookup: impl FnMut(&str) -> Option<Cow<'a, str>>) -> Self {
        let Self { servers, errors, warnings } = self;
        let mut expanded = Self { servers: BTreeMap::new(), errors: errors.clone(), warnings: warnings.clone() };
        let mut room = MAX_EXPANDED;
        for (server, entry) in servers {
            if !entry.enabled {
                expanded.servers.insert(server.clone(), entry.clone());
                continue;
            }
            let mut left = room;
            match entry.expand_within(server, &mut lookup, &mut left) {
                Ok(entry) => {
                    room = left;
                    expanded.servers.insert(server.clone(), entry);
                }
                Err(errors) => expanded.errors.extend(errors),
            }
        }
        expanded
    }

    /// Reads the entries in the file's order. If a server is repeated, the last entry counts, except in a file of projects,
    /// where nobody knows which one is meant.
    fn read(entries: impl Iterator<Item = Listed>) -> Self {
        struct Last {
            index: usize,
            is_repeated: bool,
            /// The place of another entry, none of which is the one that is meant.
            other: Option<Arc<str>>,
            listed: Listed,
        }
        let mut last: BTreeMap<Box<str>, Last> = BTreeMap::new();
        for (index, listed) in entries.enumerate() {
            let server = listed.server.clone();
            let Some(before) = last.get_mut(&server) else {
                last.insert(server, Last { index, is_repeated: false, other: None, listed });
                continue;
            };
            let is_of_project = [before.listed.host, listed.host].contains(&Host::Projects);
            if is_of_project && before.listed.place != listed.place {
                if before.listed.value != listed.value {
                    before.other = Some(listed.place);
                }
            } else {
                *before = Last { index, is_repeated: true, other: before.other.take(), listed };
            }
        }
        let mut entries: Vec<_> = last.into_iter().collect();
        entries.sort_unstable_by_key(|(_, last)| last.index);
        let mut configuration = Self::default();
        for (server, Last { is_repeated, other, listed, .. }) in entries {
            let Self { servers, errors, warnings } = &mut configuration;
            let name = Arc::from(&*server);
            if is_repeated {
                warnings.push(Warning { server: Arc::clone(&name), key: None, oddity: Oddity::Twice });
            }
            if let Some(second) = other {
                let problem = Problem::TwoPlaces { first: (&*listed.place).into(), second: (&*second).into() };
                errors.push(Error { server: name, key: None, problem });
                continue;
            }
            let Listed { host, value, .. } = listed;
            if let Some(entry) = (Reader { server: &name, host, errors, warnings }).entry(&value) {
                servers.insert(server, entry);
            }
        }
        configuration
    }
}

/// The map without default values. Deserializing it gives an equal map.
impl Serialize for Configuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.servers.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Configuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let place: Arc<str> = "mcp_servers".into();
        let entries = de::DeserializeSeed::deserialize(Raw, deserializer)?.into_iter();
        Ok(Self::read(entries.map(|(server, value)| Listed {
            host: Host::Own,
            place: Arc::clone(&place),
            server,
            value,
        })))
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor).map(Self)
    }
}

/// Similar keys that people write for `mcpServers`.
const MISSPELLED: [&str; 4] = ["mcpServer", "mcp_server", "mcp-servers", "mcpservers"];

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Configuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `mcp_servers` or `mcpServers` in it")
    }

    /// An empty file.
    fn visit_unit<E>(self) -> Result<Configuration, E> {
        Ok(Configuration::default())
    }

    fn visit_none<E>(self) -> Result<Configuration, E> {
        Ok(Configuration::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Configuration, A::Error> {
        let (mut file, mut misspelled) = (File::default(), None);
        while let Some(Key(key)) = map.next_key()? {
            if let Some((root, host)) = File::host_of(&key) {
                file.add_root(root, host, map.next_value()?).map_err(de::Error::custom)?;
                continue;
            }
            misspelled = MISSPELLED.into_iter().find(|known| *known == &*key).or(misspelled);
            if file.may_be_entries() || others::FILTERS.contains(&&*key) {
                file.add_other(key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let entries = file.entries().map_err(de::Error::custom)?;
        // A file with such a key and no servers is a mistake.
        if let (Some(misspelled), true) = (misspelled, entries.is_empty()) {
            let why = format!("there is `{misspelled}`, which is not looked at; write `mcpServers` or `mcp_servers`");
            return Err(de::Error::custom(why));
        }
        Ok(Configuration::read(entries.into_iter()))
    }

    // The message omits the value, since the wrong file may contain secrets.
    fn visit_str<E: de::Error>(self, _: &str) -> Result<Configuration, E> {
        Err(no_map("text"))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Configuration, E> {
        Err(no_map("true or false"))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Configuration, E> {
        Err(no_map("a number"))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Configuration, E> {
        Err(no_map("a number"))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Configuration, E> {
        Err(no_map("a number"))
    }
}

fn no_map<E: de::Error>(found: &str) -> E {
    E::custom(format!("the file is {found}, not a map with `mcp_servers` or `mcpServers` in it"))
}

/// A map of entries as in the file, in its order.
struct Raw;

impl<'de> de::DeserializeSeed<'de> for Raw {
    type Value = Vec<(Box<str>, Value)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Map(servers) => Ok(servers),
            Value::Null => Ok(Vec::new()),
            other @ (Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_)) => {
                Err(de::Error::custom(format!("the servers are {}, not a map by their names", other.kind())))
            }
        }
    }
}

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
    /// Whether the change needs a new session. If not, the session continues with the new timeouts, trust and tools.
    pub fn needs_session(&self) -> bool {
        const LIVE: [&str; 5] = ["timeout", "max_timeout", "connect_timeout", "supports_parallel_tool_calls", "trust"];
        self.keys.iter().any(|key| !key.starts_with("tools.") && !LIVE.contains(key))
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
            compare("env_file", old.env_file != new.env_file);
            compare("cwd", old.cwd != new.cwd);
        }
        (Endpoint::Http(old), Endpoint::Http(new)) => {
            compare("url", old.url != new.url);
            compare("transport", old.sse != new.sse);
            compare("get_stream", old.get_stream != new.get_stream);
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
    compare("max_timeout", old.max_timeout != new.max_timeout);
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

/// The most bytes that variables bring into one value.
const MAX_VALUE_EXPANDED: usize = 64 * 1024;
/// The most bytes that variables bring into all values of a file.
const MAX_EXPANDED: usize = 1024 * 1024;

impl Entry {
    /// Replaces the variables in `command`, `args`, `env`, `env_file`, `cwd`, `url`, the values of `headers` and those under
    /// `oauth` by what `lookup` returns for their names. For a file in `env_file` it is asked for `envFile:` and the path, and
    /// returns its text, whose variables are added to `env`. No variable has such a name.
    ///
    /// `${NAME}` is the variable's value. `${NAME:-text}` is `text` if the variable is unset or empty. `$${` is a
    /// literal `${`. A name is everything before the closing brace or `:-`, so that a lookup can support more than the
    /// environment: `${env:NAME}`, `${workspaceFolder}`, and `${input:NAME}` of VS Code, which is what a user answers for the
    /// input. Values are not expanded again.
    ///
    /// ```
    /// use mcp_proto::host::config::{Endpoint, Entry};
    ///
    /// let entry = Entry::stdio("${HOME}/bin/server");
    /// let found = entry.expand("mine", |name| (name == "HOME").then(|| "/home/ada".into())).unwrap();
    /// let Endpoint::Stdio(stdio) = found.endpoint else { panic!("a program") };
    /// assert_eq!(&*stdio.command, "/home/ada/bin/server");
    ///
    /// let errors = entry.expand("mine", |_| None).unwrap_err();
    /// assert!(errors[0].to_string().starts_with("server `mine`, `command`: there is no `HOME`"));
    /// ```
    ///
    /// # Errors
    /// [`Problem::NoVariable`] and [`Problem::NoInput`] for each variable without a value; [`Problem::VariablesTooLong`] for the first one with which
    /// they bring more than 64 KiB into a value, or 1 MiB into the entry; [`Problem::NoEnvFile`] for a file without a text.
    pub fn expand<'a>(
        &self,
        server: &str,
        lookup: impl FnMut(&str) -> Option<Cow<'a, str>>,
    ) -> Result<Self, Vec<Error>> {
        self.expand_within(server, lookup, &mut { MAX_EXPANDED })
    }

    /// As [`expand`](Self::expand); `room` is what variables may still bring into the file.
    fn expand_within<'a>(
        &self,
        server: &str,
        lookup: impl FnMut(&str) -> Option<Cow<'a, str>>,
        room: &mut usize,
    ) -> Result<Self, Vec<Error>> {
        let mut expansion = Expansion { server: server.into(), lookup, room, is_full: false, errors: Vec::new() };
        let mut entry = self.clone();
        match &mut entry.endpoint {
            Endpoint::Stdio(Stdio { command, args, env, env_file, cwd }) => {
                expansion.replace("command", command);
                for arg in args {
                    expansion.replace("args", arg);
                }
                for (name, value) in &mut *env {
                    expansion.replace(&path("env", &excerpt(name)), value);
                }
                if let Some(cwd) = cwd {
                    expansion.replace("cwd", cwd);
                }
                if let Some(mut file) = env_file.take() {
                    expansion.replace("env_file", &mut file);
                    expansion.add_file(&file, env);
                }
            }
            Endpoint::Http(Http { url, headers, oauth, .. }) => {
                expansion.replace("url", url);
                for (name, value) in headers {
                    expansion.replace(&path("headers", &excerpt(name)), value);
                }
                if let Some(oauth) = oauth {
                    let OAuth { client_id, client_secret, client_metadata_url, issuer, redirect_uri, .. } =
                        &mut **oauth;
                    for (key, value) in [
                        ("oauth.client_id", client_id),
                        ("oauth.client_secret", client_secret),
                        ("oauth.client_metadata_url", client_metadata_url),
                        ("oauth.issuer", issuer),
                        ("oauth.redirect_uri", redirect_uri),
                    ] {
                        if let Some(value) = value {
                            expansion.replace(key, value);
                        }
                    }
                    for scope in oauth.scopes.iter_mut().flatten() {
                        expansion.replace("oauth.scopes", scope);
                    }
                }
            }
        }
        if expansion.errors.is_empty() { Ok(entry) } else { Err(expansion.errors) }
    }
}

/// What a lookup is asked for before the name of an input that a user answers.
const INPUT: &str = "input:";

/// What a lookup is asked for before the path of a file with variables.
const ENV_FILE: &str = "envFile:";

struct Expansion<'a, L> {
    server: Arc<str>,
    lookup: L,
    /// What variables may still bring into the file.
    room: &'a mut usize,
    /// Whether they brought too much, so that the entry is invalid.
    is_full: bool,
    errors: Vec<Error>,
}

impl<'a, L: FnMut(&str) -> Option<Cow<'a, str>>> Expansion<'_, L> {
    fn replace(&mut self, key: &str, value: &mut Box<str>) {
        if self.is_full || !value.contains("${") {
            return;
        }
        let mut expanded = String::with_capacity(value.len());
        let (mut rest, mut missing) = (&**value, BTreeSet::new());
        let mut value_room = MAX_VALUE_EXPANDED;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = after;
                continue;
            }
            let Some((reference, after)) = after.split_once('}') else { break };
            expanded.push_str(before);
            rest = after;
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (reference, None),
            };
            // An entry names its file in `env_file`, and sends no other one to its server.
            let found = if name.starts_with(ENV_FILE) { None } else { (self.lookup)(name) };
            let found = found.filter(|found| default.is_none() || !found.is_empty());
            let Some(found) = found.or(default.map(Cow::Borrowed)) else {
                missing.insert(name);
                continue;
            };
            if !self.take(key, name, found.len(), &mut value_room) {
                return;
            }
            expanded.push_str(&found);
        }
        self.errors.extend(missing.into_iter().map(|name| Error {
            server: Arc::clone(&self.server),
            key: Some(key.into()),
            problem: match name.strip_prefix(INPUT) {
                Some(_) => Problem::NoInput { input: excerpt(name) },
                None => Problem::NoVariable { variable: excerpt(name) },
            },
        }));
        expanded.push_str(&rest.replace("$${", "${"));
        *value = expanded.into();
    }

    /// Adds the variables of a file to those that are there.
    fn add_file(&mut self, file: &str, env: &mut Texts) {
        const KEY: &str = "env_file";
        if self.is_full || !self.errors.is_empty() {
            return;
        }
        let name = format!("{ENV_FILE}{file}");
        let Some(text) = (self.lookup)(&name) else {
            let problem = Problem::NoEnvFile { file: excerpt(file) };
            self.errors.push(Error { server: Arc::clone(&self.server), key: Some(KEY.into()), problem });
            return;
        };
        if !self.take(KEY, &name, text.len(), &mut { MAX_VALUE_EXPANDED }) {
            return;
        }
        for (name, value) in text.lines().filter_map(variable) {
            env.entry(name.into()).or_insert(value);
        }
    }

    /// Whether there is room for so many bytes; it is smaller after that.
    fn take(&mut self, key: &str, name: &str, bytes: usize, value_room: &mut usize) -> bool {
        let (of_value, of_file) = (value_room.checked_sub(bytes), self.room.checked_sub(bytes));
        if let (Some(of_value), Some(of_file)) = (of_value, of_file) {
            (*value_room, *self.room) = (of_value, of_file);
            return true;
        }
        let (whole, max_bytes) = match of_value {
            None => ("value", MAX_VALUE_EXPANDED),
            Some(_) => ("file", MAX_EXPANDED),
        };
        let problem = Problem::VariablesTooLong { variable: excerpt(name), whole, max_bytes };
        self.errors.push(Error { server: Arc::clone(&self.server), key: Some(key.into()), problem });
        self.is_full = true;
        false
    }
}

/// The variable in a line of a file: `NAME=value`, perhaps after `export`, perhaps in quotes, of which `"` has `\n` for a
/// line break. A comment begins with `#`.
fn variable(line: &str) -> Option<(&str, Box<str>)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    let (name, value) = (name.trim(), value.trim());
    let quoted = |quote: char| value.strip_prefix(quote)?.split_once(quote).map(|(text, _)| text);
    let value = match (quoted('"'), quoted('\'')) {
        (Some(text), _) => text.replace("\\n", "\n").into(),
        (None, Some(text)) => text.into(),
        (None, None) => value.split_once(" #").map_or(value, |(text, _)| text.trim_end()).into(),
    };
    (!name.is_empty()).then_some((name, value))
}

/// Why a server's entry is invalid. Other servers are not affected.
///
/// The message names the server and the key, describes the problem and suggests a correction. It never contains values
/// of `env`, `headers`, `auth` or `oauth`, which may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", At(server, key))]
#[non_exhaustive]
pub struct Error {
    /// The server's name.
    pub server: Arc<str>,
    /// The key's path: `tools.include`. `None` if the entry as a whole is invalid.
    pub key: Option<Box<str>>,
    /// The problem.
    pub problem: Problem,
}

/// What is wrong with an entry, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The entry is not a map.
    #[error("the entry is {found}; write a map with `command` or `url` in it")]
    NotAMap {
        /// What it is instead.
        found: &'static str,
    },
    /// Neither `command` nor `url` is set.
    #[error("there is neither `command` nor `url`; give one of them")]
    NoEndpoint,
    /// Both `command` and `url` are set.
    #[error("there are both `command` and `url`; remove one of them")]
    TwoEndpoints,
    /// The value has the wrong type.
    #[error("it is {found}; write {expected}")]
    Kind {
        /// The value's type.
        found: &'static str,
        /// What is allowed.
        expected: &'static str,
    },
    /// A text that is not a boolean.
    #[error("`{found}` is neither yes nor no; write true or false")]
    NotBoolean {
        /// The text.
        found: Box<str>,
    },
    /// Not a valid number of seconds.
    #[error("`{found}` is not a time; write a number of seconds above 0")]
    NotSeconds {
        /// The value.
        found: Box<str>,
    },
    /// Not a whole number, or out of range.
    #[error("`{found}` is not a count; write a whole number, 0 or more")]
    NotCount {
        /// The value.
        found: Box<str>,
    },
    /// Another key with the same meaning is there, too.
    #[error("it means the same as `{other}`; remove one of them")]
    SameMeaning {
        /// The other key.
        other: Box<str>,
    },
    /// An unknown key that may concern which tools are used.
    #[error("nobody knows this key, which may concern what tools are used; write `{write}`, or remove it")]
    MayFilter {
        /// The known key that is similar, or filters tools.
        write: Box<str>,
    },
    /// Patterns of tools to include beside tools to exclude, with a key of another host.
    #[error("it has patterns, and tools are excluded, too; write the names of tools in it")]
    MixedFilters,
    /// An empty text where one is required.
    #[error("it is empty; write {expected}, or remove the key")]
    Empty {
        /// What is required.
        expected: &'static str,
    },
    /// A client with a secret, or without a user, whose authorization server is not named.
    #[error("the client belongs to one authorization server; name it in `oauth.issuer`")]
    NoIssuer,
    /// Where the name of a variable is required, something else.
    #[error(
        "it is not the name of a variable; write one of letters, digits and `_`, and the value into the environment"
    )]
    NotAVariable,
    /// The lookup has no text of the file in `env_file`.
    #[error("the file `{file}` cannot be read here; write its variables in `env`, or make it readable")]
    NoEnvFile {
        /// The file's path, as in the entry.
        file: Box<str>,
    },
    /// The value refers to a variable that is not set.
    #[error("there is no `{variable}`; give it a value, or write `${{{variable}:-…}}` with one to fall back on")]
    NoVariable {
        /// The variable's name.
        variable: Box<str>,
    },
    /// The value refers to an input of VS Code that has no answer.
    #[error("there is no answer for `{input}`; write its value here, or give it to this program under that name")]
    NoInput {
        /// What the lookup was asked for: `input:NAME`.
        input: Box<str>,
    },
    /// Different entries of this name are in two places of the file, and either may be meant.
    #[error("it is in `{first}` and in `{second}`; keep one of them, or name them differently")]
    TwoPlaces {
        /// A path in the file.
        first: Box<str>,
        /// Another one.
        second: Box<str>,
    },
    /// An extension that is part of another host, and no server.
    #[error("`{word}` is a part of another program; remove it")]
    BuiltIn {
        /// The kind of extension.
        word: Box<str>,
    },
    /// The values of variables are too long together.
    #[error("with `{variable}` the variables of this {whole} have more than {max_bytes} bytes; use less of them")]
    VariablesTooLong {
        /// The name of the variable that is too much.
        variable: Box<str>,
        /// What they are too long for: `value` or `file`.
        whole: &'static str,
        /// How long they may be together, in bytes.
        max_bytes: usize,
    },
}

/// A likely mistake in a server's entry that does not make it invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The server's name.
    pub server: Arc<str>,
    /// The key's path: `tools.include`. `None` if the warning is about the server's name.
    pub key: Option<Box<str>>,
    /// What is likely a mistake.
    pub oddity: Oddity,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", At(&self.server, &self.key), self.oddity)
    }
}

/// A likely mistake in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// The key is unknown.
    UnknownKey {
        /// The known key with the most similar name.
        nearest: Option<&'static str>,
    },
    /// The key concerns the approval of calls, which is up to the embedder. It has no effect.
    Approval,
    /// The key is read, but not as the approval of calls that it is in other hosts.
    Trust,
    /// The key or the server is repeated; the last one counts.
    Twice,
    /// The key has no effect on servers of this kind.
    NoEffect {
        /// The key that the server needs for it to have an effect.
        needs: &'static str,
    },
    /// A value that is not a string, used as one. It may differ from what was written: `1.10` is the number `1.1`, and
    /// `yes` may become `true`.
    TakenAsText,
    /// A timeout of more than an hour, or another time of more than a day: probably meant as milliseconds. It is read as
    /// seconds.
    LongTime,
    /// An unknown value. It is kept if its field allows any value.
    UnknownWord {
        /// The value.
        word: Box<str>,
    },
    /// An unknown kind of authentication. It is kept, but not shown, because it may be a secret.
    UnknownAuth,
    /// The key contradicts `command` or `url`, which takes precedence.
    Contradiction,
    /// `include` is an empty list beside `exclude`: no tool is used.
    NoTools,
    /// A bound below its least, which counts in its place.
    BelowLeast {
        /// The least.
        least: usize,
    },
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { nearest: Some(nearest) } => {
                write!(f, "nobody knows this key; was `{nearest}` meant?")
            }
            Self::UnknownKey { nearest: None } => f.write_str("nobody knows this key"),
            Self::Approval => f.write_str("approvals are up to this host, which does not take them from here"),
            Self::Trust => {
                f.write_str("it approves no calls; it says whether the annotations of the tools are believed")
            }
            Self::Twice => f.write_str("it is there more than once; the last one counts"),
            Self::NoEffect { needs } => write!(f, "it has no effect on a server without `{needs}`"),
            Self::TakenAsText => {
                f.write_str("it is not a string, and may change (`1.10` becomes `1.1`); put it in quotes")
            }
            Self::LongTime => f.write_str("are milliseconds meant? it is read in seconds, not in milliseconds"),
            Self::UnknownWord { word } => write!(f, "nobody knows `{word}`"),
            Self::UnknownAuth => {
                f.write_str("nobody knows this way to authenticate; write `oauth`, or give a token in `headers`")
            }
            Self::NoTools => {
                f.write_str("it is empty, so no tool is used; remove it to use all but those in `exclude`")
            }
            Self::BelowLeast { least } => {
                write!(f, "it is below the least, {least}, which counts in its place; write 0 for no bound")
            }
            Self::Contradiction => f.write_str("it contradicts the entry's `command` or `url`, which counts"),
        }
    }
}

/// The place of a problem, as part of a message.
struct At<'a>(&'a str, &'a Option<Box<str>>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server `{}`", excerpt(self.0))?;
        self.1.as_ref().map_or(Ok(()), |key| write!(f, ", `{key}`"))
    }
}
