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
//! # Keys
//!
//! [`mod@reference`] lists the keys; [`Entry`] has those of every server, [`Stdio`] those of a program, [`Http`] those of a URL.
//!
//! Exactly one of `command` and `url` is required. Booleans are `true` and `false`, or `yes`, `no`, `on`, `off`, `1`,
//! `0`, in any case, quoted or not. A key without a value counts as absent. Keys are compared without regard to case, `_`
//! and `-`.
//!
//! # Keys of other hosts
//!
//! `disabled: true` is `enabled: false`. `httpUrl` and `serverUrl` are `url`, `environment` is `env`, `http_headers` is
//! `headers`, `tool_timeout_sec` is `timeout`, `startup_timeout_sec` and `initTimeout` are `connect_timeout`, `env_vars` is
//! `env_keys`, `scope` is `oauth.scopes`. Of goose, `cmd` is `command`, `envs` is `env`, `uri` is `url`. Two keys with one
//! meaning are an error that names both. `idle_timeout_seconds` and `max_lifetime_seconds` are also read, and may be in a map
//! under `lifecycle`, all keys of an entry in a map under `transport`, and `path`, `args` and `env` under `command`. The transport
//! is also named `local`, `remote`, `streamable-http` and `streamableHttp`. Any other key is a [`Warning`].
//!
//! `{env:NAME}` of opencode is `${NAME}`; its `{file:…}` refuses the entry. `$NAME` alone, in `env` or `headers`, is used as it stands, with a
//! warning.
//!
//! Above 3,600, a timeout has a warning, since other hosts write milliseconds.
//!
//! # Filters of other hosts
//!
//! A filter that is not understood lets no tool through:
//!
//! - `includeTools`, `enabled_tools`, `allowedTools`, and `available_tools` unless it is empty, are read as
//!   `tools.include`, `excludeTools` and `disabled_tools` as `tools.exclude`. Those that exclude add up, and win over what includes. Two that include are an error.
//! - `allowMCPServers`, `excludeMCPServers` and `excludeTools` beside `mcpServers` (Gemini) are read as `enabled: false` of the
//!   servers that are not used, and as `tools.exclude` of each server.
//! - A list under `tools` is what is included; `"*"` in it is all, and an empty one none.
//! - A key that nobody knows is an error of its entry if it is under `tools`, or has `tool`, `allow`, `deny`, `include` or
//!   `exclude` in its name.
//! - `autoApprove` and `alwaysAllow` are a [`Warning`]: a host approves calls. So is `trust`, but for the one under
//!   `mcp_servers`: other hosts mean by it that calls need no approval.

mod entry;
mod expand;
mod keys;
mod kind;
mod others;
mod read;

pub(super) use self::entry::Filter;
pub use self::entry::{Auth, Endpoint, OAuthGrant, Protocol, Texts};
pub use self::keys::{Entry, Http, OAuth, Sampling, Stdio, ToolOverride, ToolPolicy, reference};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Serialize, Serializer, de};

use self::expand::MAX_EXPANDED;
use self::keys::{Keys as _, Scope};
use self::others::{File, Host, Listed};
use self::read::{Name, Reader, Value, excerpt};

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
            if let Some(entry) =
                (Reader { server: &name, host, is_program: false, is_url: false, errors, warnings }).entry(&value)
            {
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
        while let Some(Name(key)) = map.next_key()? {
            if let Some((root, host)) = File::host_of(&key) {
                file.add_root(root, host, map.next_value()?).map_err(de::Error::custom)?;
                continue;
            }
            misspelled = MISSPELLED.into_iter().find(|known| *known == &*key).or(misspelled);
            if file.may_be_entries() || File::is_filter(&key) {
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
        let known = [keys::of_entry(), ToolPolicy::keys()].concat();
        let is_of_session = |path: &&str| {
            known.iter().any(|key| key.path == *path && matches!(key.scope, Scope::Server | Scope::Session))
        };
        self.keys.iter().any(is_of_session)
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
    match (&old.endpoint, &new.endpoint) {
        (Endpoint::Stdio(old), Endpoint::Stdio(new)) => old.compare(new, &mut keys),
        (Endpoint::Http(old), Endpoint::Http(new)) => old.compare(new, &mut keys),
        (Endpoint::Stdio(_), Endpoint::Http(_)) | (Endpoint::Http(_), Endpoint::Stdio(_)) => {
            keys.extend(["command", "url"]);
        }
    }
    old.compare(new, &mut keys);
    keys
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
    /// The value has the text of a file in it, as in opencode.
    #[error("it has the text of a file in it, which is not read; write `${{NAME}}` for a variable with this text")]
    FileReference,
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
    /// The key concerns the approval of calls in other hosts, and something else in `mcp_servers`. It has no effect.
    Trust,
    /// The value is `$NAME`, a variable in other hosts. It is used as it stands.
    BareVariable,
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
            Self::Trust => f.write_str(
                "approvals are up to this host; `trust` under `mcp_servers` says whether annotations are believed",
            ),
            Self::BareVariable => f.write_str("it is used as it stands; write `${NAME}` for a variable"),
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
