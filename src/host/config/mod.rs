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
//! | `command`, `args`, `env` | program | what to start | |
//! | `url`, `headers` | URL | where to send requests, and additional headers | |
//! | `enabled` | both | whether the server is used | true |
//! | `timeout` | both | timeout of a tool call, in seconds | 120 |
//! | `connect_timeout` | both | timeout of the first connection, in seconds | 60 |
//! | `supports_parallel_tool_calls` | both | whether tool calls may run in parallel | false |
//! | `tools.include`, `tools.exclude` | both | which tools are used: a string or a list; `include` wins | all |
//! | `tools.resources`, `tools.prompts` | both | whether to add the utility tools for them | true |
//! | `tools.overrides` | both | by tool, what a model sees of it: `name`, `title`, `description` | the server's own |
//! | `tools.max_result_bytes` | both | the most bytes of a result for the model ([`results`](super::results)); 0 for no bound | none |
//! | `auth` | URL | how the user authenticates: `oauth` | |
//! | `oauth.client_id`, `oauth.client_secret` | URL | a client that was registered in advance | |
//! | `oauth.client_metadata_url` | URL | the URL of the client ID metadata document | |
//! | `oauth.issuer` | URL | the authorization server to use, of those that the server names, and the one that knows `oauth.client_id`; recommended with a secret | the first |
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
//! `0`, in any case, quoted or not. A key without a value counts as absent. The keys `type` (or `transport`),
//! `disabled` and `cwd` of other clients are accepted in both formats, and so are `idle_timeout_seconds` and
//! `max_lifetime_seconds`, which may also be in a map under `lifecycle`; any other key is a [`Warning`].

mod changes;
mod entry;
mod error;
mod expand;
mod oauth;
#[cfg(feature = "oauth")]
mod oauth_options;
mod protocol;
mod read;
mod sampling;
mod tools;
mod value;
mod written;

pub use changes::{Change, Changes};
pub use entry::{Auth, Endpoint, Entry, Http, Stdio, Texts};
pub use error::{Error, Oddity, Problem, Warning};
pub use oauth::{OAuth, OAuthGrant};
pub use protocol::Protocol;
pub use sampling::Sampling;
pub(super) use tools::Filter;
pub use tools::{ToolOverride, ToolPolicy};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Serialize, Serializer};

use self::read::Reader;
use self::value::{Key, Value};

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

/// A whole configuration file: a map with `mcp_servers` or `mcpServers`, and any other keys. A file with neither has no
/// servers; but if it has a similar key, such as `servers`, deserializing fails.
///
/// If a file has both maps, an entry in `mcp_servers` takes precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document(pub Configuration);

impl Configuration {
    /// The configuration with the variables in every entry replaced, as by [`Entry::expand`]. An entry with an unset
    /// variable becomes an error. Disabled entries are not expanded.
    #[must_use]
    pub fn expand<'a>(&self, mut lookup: impl FnMut(&str) -> Option<Cow<'a, str>>) -> Self {
        let Self { servers, errors, warnings } = self;
        let mut expanded = Self { servers: BTreeMap::new(), errors: errors.clone(), warnings: warnings.clone() };
        for (server, entry) in servers {
            if !entry.enabled {
                expanded.servers.insert(server.clone(), entry.clone());
                continue;
            }
            match entry.expand(server, &mut lookup) {
                Ok(entry) => drop(expanded.servers.insert(server.clone(), entry)),
                Err(errors) => expanded.errors.extend(errors),
            }
        }
        expanded
    }

    /// Reads the entries in the file's order. If a server is repeated, the last entry counts.
    fn read(entries: Vec<(Box<str>, Value)>) -> Self {
        let mut last = BTreeMap::new();
        for (index, (server, _)) in entries.iter().enumerate() {
            last.entry(&**server).and_modify(|(at, twice)| (*at, *twice) = (index, true)).or_insert((index, false));
        }
        let mut counts = alloc::vec![None; entries.len()];
        for (index, twice) in last.into_values() {
            if let Some(counts) = counts.get_mut(index) {
                *counts = Some(twice);
            }
        }
        let mut configuration = Self::default();
        for ((server, value), twice) in entries.into_iter().zip(counts) {
            let Some(twice) = twice else { continue };
            let Self { servers, errors, warnings } = &mut configuration;
            let name = Arc::from(&*server);
            if twice {
                warnings.push(Warning { server: Arc::clone(&name), key: None, oddity: Oddity::Twice });
            }
            if let Some(entry) = (Reader { server: &name, errors, warnings }).entry(&value) {
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
        de::DeserializeSeed::deserialize(Raw, deserializer).map(Self::read)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor).map(Self)
    }
}

/// Similar keys that people and other programs write for `mcpServers`.
const FOREIGN: [&str; 6] = ["servers", "mcpServer", "mcp_server", "mcp-servers", "mcpservers", "context_servers"];

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
        let (mut shared, mut own, mut foreign) = (Vec::new(), Vec::new(), None);
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "mcpServers" => shared.push(map.next_value_seed(Raw)?),
                "mcp_servers" => own.push(map.next_value_seed(Raw)?),
                _ => {
                    foreign = FOREIGN.into_iter().find(|foreign| *foreign == &*key).or(foreign);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // A file with such a key and no servers is a mistake.
        if let (Some(foreign), true, true) = (foreign, shared.is_empty(), own.is_empty()) {
            let why = format!("there is `{foreign}`, which is not looked at; write `mcpServers` or `mcp_servers`");
            return Err(de::Error::custom(why));
        }
        Ok(Configuration::read(shared.into_iter().chain(own).flatten().collect()))
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
