//! The servers of a configuration file: the `mcp_servers` map, and the `mcpServers` JSON that desktop clients and
//! editors share.
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
//! | key | for | what | unless it is said |
//! | --- | --- | --- | --- |
//! | `command`, `args`, `env` | programs | what is started | |
//! | `url`, `headers` | addresses | where requests go, and with which headers | |
//! | `enabled` | both | whether the server is used at all | true |
//! | `timeout` | both | how many seconds a tool call may take | 120 |
//! | `connect_timeout` | both | how many seconds the first connection may take | 60 |
//! | `supports_parallel_tool_calls` | both | whether its tools may run side by side | false |
//! | `tools.include`, `tools.exclude` | both | which tools are used: text or a list; `include` wins | all |
//! | `tools.resources`, `tools.prompts` | both | whether the utility tools for them may be there | true |
//! | `auth` | addresses | how the user is authenticated: `oauth` | |
//! | `sampling` | both | what the server may ask of the host's model | |
//!
//! Exactly one of `command` and `url` is there. Whether or not is said by `true` and `false`, or by the words that
//! people write: `yes`, `no`, `on`, `off`, `1`, `0`, in any case, quoted or not. A key with nothing behind it is as if it
//! were not there. Of what other clients write, `type` (or `transport`), `disabled` and `cwd` are understood in both
//! shapes; any other key is a [`Warning`].

mod changes;
mod entry;
mod error;
mod expand;
mod read;
mod value;

pub use changes::{Change, Changes};
pub(super) use entry::Filter;
pub use entry::{Auth, Endpoint, Entry, Http, Sampling, Stdio, Texts, ToolPolicy};
pub use error::{Error, Oddity, Problem, Warning};

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

/// The servers of a host: what stands under `mcp_servers` or `mcpServers`. [`Document`] reads a whole file.
///
/// Reading it fails only where it is no map. An entry that is of no use is among the errors, and costs no other.
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
    /// The servers whose entry is of use, those that are not enabled among them, by name.
    pub servers: BTreeMap<Box<str>, Entry>,
    /// What is wrong with the others.
    pub errors: Vec<Error>,
    /// What is odd.
    pub warnings: Vec<Warning>,
}

/// A whole configuration file, with `mcp_servers`, or `mcpServers`, and whatever else; none where there is neither. Where
/// there is what was most likely meant for one of them, `servers` say, it cannot be read.
///
/// Where a file has both, a server that is in both is as `mcp_servers` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document(pub Configuration);

impl Configuration {
    /// The configuration with the variables of every entry replaced, as [`Entry::expand`] does it. An entry that names
    /// a variable without a value is among the errors then. Of one that is turned off, nothing is replaced.
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

    /// Reads the entries, in the file's order. Of those that are there more than once, the last counts.
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

/// The map, without what is the default: read again it is the same.
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

/// What people, and other programs, write for `mcpServers`.
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
        // No server at all is not what somebody meant who wrote this.
        if let (Some(foreign), true, true) = (foreign, shared.is_empty(), own.is_empty()) {
            let why = format!("there is `{foreign}`, which is not looked at; write `mcpServers` or `mcp_servers`");
            return Err(de::Error::custom(why));
        }
        Ok(Configuration::read(shared.into_iter().chain(own).flatten().collect()))
    }

    // Without what it says: the wrong file may be full of secrets.
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

/// A map of entries, as it is in the file, and in its order.
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
