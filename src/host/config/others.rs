//! What other hosts write in an entry: their keys, and what each is read as.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use super::read::{Value, excerpt};

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// Under `mcp_servers`, in the map alone. Codex has the same key.
    Own,
    /// Under `mcpServers`, which many hosts share, or in a map without a key.
    Shared,
    /// Under `projects`, in the `mcpServers` of each: Claude Code.
    Projects,
    /// Under `servers`: VS Code.
    VsCode,
    /// Under `context_servers`: Zed.
    Zed,
    /// Under `mcp`: opencode. VS Code has `servers` in it.
    Mcp,
    /// Under `extensions`: goose.
    Goose,
}

/// The key of each host's map of entries.
const ROOTS: [(&str, Host); 7] = [
    ("mcp_servers", Host::Own),
    ("mcpServers", Host::Shared),
    ("projects", Host::Projects),
    ("servers", Host::VsCode),
    ("context_servers", Host::Zed),
    ("mcp", Host::Mcp),
    ("extensions", Host::Goose),
];

/// Where opencode says at the top of a file which tools are used, those of servers and its own.
const FILTERS: [&str; 3] = ["tools", "permission", AGENTS];

/// What Gemini says at the top of an older file: which servers are used, and which tools are not.
const ALLOWED: &str = "allowMCPServers";
const EXCLUDED: &str = "excludeMCPServers";
const EXCLUDED_TOOLS: &str = "excludeTools";

/// Where opencode has its agents.
const AGENTS: &str = "agent";

/// What goose calls extensions that are part of it.
const BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// An entry of a file.
pub(super) struct Listed {
    pub(super) host: Host,
    /// The path of its map, for a message.
    pub(super) place: Arc<str>,
    pub(super) server: Box<str>,
    pub(super) value: Value,
}

type Map = Vec<(Box<str>, Value)>;

/// A file as it is read: the maps under the keys of hosts, and what else may be entries.
#[derive(Default)]
pub(super) struct File {
    roots: Vec<(&'static str, Host, Map)>,
    /// The maps under other keys.
    maps: Map,
    /// What is under [`FILTERS`].
    filters: Map,
    choice: Choice,
    /// What Gemini excludes of the tools of all servers.
    excluded_tools: Option<Value>,
    /// There is something other than maps, so that the file is no map of entries.
    has_other: bool,
}

impl File {
    /// Whether this key is one of a host.
    pub(super) fn host_of(key: &str) -> Option<(&'static str, Host)> {
        ROOTS.into_iter().find(|(root, _)| *root == key)
    }

    /// Whether what is under another key may be an entry.
    pub(super) fn may_be_entries(&self) -> bool {
        self.roots.is_empty() && !self.has_other
    }

    /// Whether a key is one of those that concern all servers of a file.
    pub(super) fn is_filter(key: &str) -> bool {
        FILTERS.contains(&key) || matches!(key, ALLOWED | EXCLUDED | EXCLUDED_TOOLS)
    }

    pub(super) fn add_other(&mut self, key: Box<str>, value: Value) {
        match &*key {
            ALLOWED => self.choice.allowed = names(&value).or(self.choice.allowed.take()),
            EXCLUDED => self.choice.excluded.extend(names(&value).unwrap_or_default()),
            EXCLUDED_TOOLS if names(&value).is_some() => self.excluded_tools = Some(value.clone()),
            _ => {}
        }
        if FILTERS.contains(&&*key) {
            self.filters.push((key.clone(), value.clone()));
        }
        match value {
            value @ Value::Map(_) => self.maps.push((key, value)),
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                self.has_other |= !key.starts_with('$');
            }
        }
    }

    /// # Errors
    /// The value is no map, as this host requires.
    pub(super) fn add_root(&mut self, key: &'static str, host: Host, value: Value) -> Result<(), String> {
        let is_of_mcp = matches!(host, Host::Own | Host::Shared | Host::Zed);
        match value {
            // A server of that name, in a map without a key.
            Value::Map(map) if !is_of_mcp && is_entry(host, &map) && has_own_endpoint(&map) => {
                self.maps.push((key.into(), Value::Map(map)));
            }
            Value::Map(map) => self.roots.push((key, host, map)),
            Value::Null => self.roots.push((key, host, Map::new())),
            Value::List(list) if host == Host::Shared => self.roots.push((key, host, by_name(list)?)),
            other @ (Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_)) if is_of_mcp => {
                return Err(format!("the servers are {}, not a map by their names", other.kind()));
            }
            // Other programs have such a key, too.
            Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => self.has_other = true,
        }
        Ok(())
    }

    /// The entries, in the file's order, but those under `mcp_servers` after those under `mcpServers`.
    ///
    /// # Errors
    /// Two keys of different hosts have servers, or a filter of all servers is not read.
    pub(super) fn entries(self) -> Result<Vec<Listed>, String> {
        let Self { mut roots, maps, filters, mut choice, excluded_tools, has_other } = self;
        choice.read_roots(&mut roots);
        let filters = Filters::read(&filters);
        let maps = if roots.is_empty() && !has_other { maps } else { Map::new() };
        let is_alone = roots.iter().filter(|(.., map)| !map.is_empty()).count() == 1;
        // Own entries come last, since the last one of a name counts.
        roots.sort_by_key(|(_, host, _)| (*host == Host::Own, *host == Host::Projects));
        let (mut listed, mut first): (Vec<Listed>, Option<(&str, bool)>) = (Vec::new(), None);
        for (key, host, map) in roots {
            let entries = expanded(key, host, map);
            let is_shared = matches!(host, Host::Own | Host::Shared | Host::Projects);
            let is_meant = match host {
                Host::Own | Host::Shared | Host::Projects => true,
                Host::VsCode | Host::Zed => is_alone,
                Host::Mcp | Host::Goose => false,
            };
            if entries.is_empty() || !(is_meant || entries.iter().any(Listed::is_entry)) {
                continue;
            }
            match first {
                Some((first, was_shared)) if !(was_shared && is_shared) => {
                    return Err(format!("there are servers under `{first}` and under `{key}`; keep one of the two"));
                }
                Some(_) | None => first = Some((key, is_shared)),
            }
            if let Some(filter) = entries.iter().find_map(|entry| filters.about(entry)) {
                return Err(filter);
            }
            listed.extend(entries);
        }
        for entry in &mut listed {
            choice.apply(entry);
            if let (Host::Shared, Value::Map(map), Some(tools)) = (entry.host, &mut entry.value, &excluded_tools) {
                map.push((EXCLUDED_TOOLS.into(), tools.clone()));
            }
        }
        let without_key = expanded("", Host::Shared, maps);
        if without_key.iter().any(Listed::is_entry) {
            listed.extend(without_key);
        }
        Ok(listed)
    }
}

/// What Gemini has beside its servers, under `mcp` or at the top: which of them are used.
#[derive(Default)]
struct Choice {
    allowed: Option<BTreeSet<Box<str>>>,
    excluded: BTreeSet<Box<str>>,
}

impl Choice {
    fn read_roots(&mut self, roots: &mut [(&'static str, Host, Map)]) {
        for (.., map) in roots.iter_mut().filter(|(_, host, _)| *host == Host::Mcp) {
            map.retain(|(key, value)| {
                let Some(names) = names(value) else { return true };
                match &**key {
                    "allowed" => self.allowed = Some(names),
                    "excluded" => self.excluded.extend(names),
                    _ => return true,
                }
                false
            });
        }
    }

    /// Turns off an entry that is not chosen.
    fn apply(&self, entry: &mut Listed) {
        let is_allowed = self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&entry.server));
        if let (true, Value::Map(map)) = (!is_allowed || self.excluded.contains(&entry.server), &mut entry.value) {
            map.retain(|(key, _)| !is_same(key, "enabled") && !is_same(key, "disabled"));
            map.push(("enabled".into(), Value::Bool(false)));
        }
    }
}

/// The names in a list, or the only one.
fn names(value: &Value) -> Option<BTreeSet<Box<str>>> {
    match value {
        Value::Text(name) => Some([name.clone()].into()),
        Value::List(list) => Some(list.iter().filter_map(Value::as_text).collect()),
        Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Map(_) => None,
    }
}

/// What opencode has at the top of a file about the tools of its servers, which is not read: the patterns that do not plainly
/// let tools through.
#[derive(Default)]
struct Filters<'f> {
    /// The key of a filter that concerns every server.
    all: Option<&'f str>,
    /// Whole names, and the beginnings of patterns up to the first wildcard; each with the key of its filter.
    names: BTreeMap<&'f str, &'f str>,
    beginnings: BTreeMap<&'f str, &'f str>,
}

impl<'f> Filters<'f> {
    fn read(filters: &'f [(Box<str>, Value)]) -> Self {
        let mut read = Self::default();
        for (key, filter) in filters {
            read.add(key, filter);
        }
        read
    }

    fn add(&mut self, key: &'f str, filter: &'f Value) {
        match filter {
            // Agents have filters of their own.
            Value::Map(agents) if key == AGENTS => {
                let agents =
                    agents.iter().filter_map(|(_, agent)| if let Value::Map(keys) = agent { Some(keys) } else { None });
                let filters = agents.flatten().filter(|(key, _)| FILTERS.contains(&&**key) && **key != *AGENTS);
                filters.for_each(|(key, filter)| self.add(key, filter));
            }
            Value::Map(patterns) => {
                for (pattern, _) in patterns.iter().filter(|(_, value)| !lets_through(value)) {
                    match pattern.find(['*', '?']).and_then(|wildcard| pattern.get(..wildcard)) {
                        Some(beginning) => self.beginnings.insert(beginning, key),
                        None => self.names.insert(pattern, key),
                    };
                }
            }
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                if key != AGENTS && !lets_through(filter) {
                    self.all = Some(key);
                }
            }
        }
    }

    /// What to write in place of a filter that may exclude tools of a server.
    fn about(&self, entry: &Listed) -> Option<String> {
        if entry.host != Host::Mcp {
            return None;
        }
        // As opencode names the tools of a server.
        let is_kept = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
        let prefix: String =
            entry.server.chars().map(|char| if is_kept(&char) { char } else { '_' }).chain(['_']).collect();
        let within = |all: &BTreeMap<&'f str, &'f str>| {
            let (name, key) = all.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded)).next()?;
            name.starts_with(&*prefix).then_some(*key)
        };
        let around = || (0..prefix.len()).find_map(|end| self.beginnings.get(prefix.get(..end)?).copied());
        let key = self.all.or_else(|| within(&self.names)).or_else(|| within(&self.beginnings)).or_else(around)?;
        let server = excerpt(&entry.server);
        Some(format!(
            "`{key}` excludes tools of `{server}`, which is not read; write `tools.exclude` in its entry instead"
        ))
    }
}

/// Whether a filter of opencode has no effect but to let tools through.
fn lets_through(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_used) => *is_used,
        Value::Text(word) => matches!(&**word, "allow" | "ask"),
        Value::Map(patterns) => patterns.iter().all(|(_, value)| lets_through(value)),
        Value::Number { .. } | Value::List(_) => false,
    }
}

impl Listed {
    fn is_entry(&self) -> bool {
        matches!(&self.value, Value::Map(map) if is_entry(self.host, map))
    }
}

/// The entries in a list of Continue, each with its name.
fn by_name(list: Vec<Value>) -> Result<Map, String> {
    let named = |entry: Value| {
        let Value::Map(keys) = &entry else { return None };
        let name = keys.iter().find(|(key, _)| is_same(key, "name")).and_then(|(_, name)| name.as_text())?;
        Some((name, entry))
    };
    let named: Option<Map> = list.into_iter().map(named).collect();
    named.ok_or_else(|| "the servers are a list, and not each has a `name`; write a map by their names".into())
}

/// The entries under a key of a host.
fn expanded(key: &str, host: Host, map: Map) -> Vec<Listed> {
    let list = |host, place: &str, map: Map| {
        let place: Arc<str> = place.into();
        let entry = move |(server, value)| Listed { host, place: Arc::clone(&place), server, value };
        map.into_iter().map(entry)
    };
    match host {
        Host::Own | Host::Shared | Host::VsCode | Host::Zed | Host::Goose => list(host, key, map).collect(),
        Host::Mcp => {
            let within = |(name, value): &(Box<str>, Value)| {
                **name == *"servers" && matches!(value, Value::Map(map) if !is_entry(host, map))
            };
            let Some(at) = map.iter().position(within) else { return list(host, key, map).collect() };
            match map.into_iter().nth(at) {
                Some((_, Value::Map(servers))) => list(Host::VsCode, "mcp.servers", servers).collect(),
                Some(_) | None => Vec::new(),
            }
        }
        Host::Projects => {
            let mut entries = Vec::new();
            for (project, value) in map {
                let Value::Map(keys) = value else { continue };
                let servers = keys.into_iter().filter(|(key, _)| **key == *"mcpServers");
                let place = format!("{key}.{}.mcpServers", excerpt(&project));
                for (_, servers) in servers {
                    let Value::Map(servers) = servers else { continue };
                    entries.extend(list(host, &place, servers));
                }
            }
            entries
        }
    }
}

/// Whether a map is an entry, and no map of other things.
fn is_entry(host: Host, map: &Map) -> bool {
    map.iter().any(|(key, value)| {
        let is_type = host == Host::Goose && is_same(key, "type");
        *value != Value::Null && (is_type || is_endpoint(key) || is_same(key, "transport"))
    })
}

/// Whether a map under `command` names the program.
pub(super) fn has_path(map: &[(Box<str>, Value)]) -> bool {
    map.iter().any(|(key, _)| is_same(key, "path"))
}

/// Whether a map under the key of a host has an endpoint itself, and not a server of that name.
fn has_own_endpoint(map: &Map) -> bool {
    map.iter().any(|(key, value)| is_endpoint(key) && matches!(value, Value::Text(_) | Value::List(_)))
}

fn is_endpoint(key: &str) -> bool {
    const KEYS: [&str; 2] = ["command", "url"];
    let is_own = KEYS.iter().any(|known| is_same(known, key));
    is_own || matches!(reading(key), Some(Reading::As(known)) if KEYS.contains(&known))
}

/// The key and the word by which an entry is a part of another host, and no server.
pub(super) fn built_in(host: Host, map: &[(Box<str>, Value)]) -> Option<(&str, &str)> {
    let (key, words): (&str, &[&str]) = match host {
        Host::Goose => ("type", &BUILT_IN),
        Host::Zed => ("source", &["extension"]),
        Host::Own | Host::Shared | Host::Projects | Host::VsCode | Host::Mcp => return None,
    };
    let has_endpoint = map.iter().any(|(key, value)| is_endpoint(key) && *value != Value::Null);
    map.iter().filter(|_| !has_endpoint).find_map(|(name, value)| {
        let Value::Text(word) = value else { return None };
        (is_same(name, key) && words.contains(&&**word)).then_some((&**name, &**word))
    })
}

/// What opencode writes around the name of a variable.
const VARIABLE: (&str, char) = ("{env:", '}');

/// A string of a host, with its variables as `${NAME}`.
pub(super) fn with_variables(host: Host, text: &str) -> String {
    let (mut read, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(VARIABLE.0).filter(|_| host == Host::Mcp) {
        let Some((name, after)) = after.split_once(VARIABLE.1) else { break };
        // `${env:NAME}` is a variable here, too.
        let opens = if before.ends_with('$') { VARIABLE.0 } else { "${" };
        read.extend([before, opens, name, "}"]);
        rest = after;
    }
    read.push_str(rest);
    read
}

/// Whether opencode puts the text of a file into this string.
pub(super) fn has_file(host: Host, text: &str) -> bool {
    host == Host::Mcp && text.contains("{file:")
}

/// Whether some hosts, and a shell, read this string as a variable: `$NAME`.
pub(super) fn is_bare_variable(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.strip_prefix('$').is_some_and(is_name)
}

/// What a key of another host is read as.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// As the key with this path, with the same value.
    As(&'static str),
    /// As `tools.include`.
    Include,
    /// As `tools.include`, unless the list is empty.
    IncludeSome,
    /// As `tools.exclude`.
    Exclude,
    /// Not at all, with a warning: an embedder approves calls.
    Approval,
    /// Not at all: it describes the server.
    Nothing,
}

/// The keys that other hosts write in an entry, of which some spellings differ in case and separators only.
pub(super) const OTHERS: &[(&str, Reading)] = &[
    // Gemini, Qwen
    ("includeTools", Reading::Include),
    ("excludeTools", Reading::Exclude),
    ("httpUrl", Reading::As("url")),
    // Windsurf
    ("serverUrl", Reading::As("url")),
    // Codex
    ("enabled_tools", Reading::Include),
    ("disabled_tools", Reading::Exclude),
    ("tool_timeout_sec", Reading::As("timeout")),
    ("startup_timeout_sec", Reading::As("connect_timeout")),
    ("default_tools_approval_mode", Reading::Approval),
    ("http_headers", Reading::As("headers")),
    ("env_vars", Reading::As("env_keys")),
    // Claude Code
    ("allowedTools", Reading::Include),
    // Cline, Roo
    ("autoApprove", Reading::Approval),
    ("alwaysAllow", Reading::Approval),
    // Hermes
    ("idle_timeout_seconds", Reading::As("idle_timeout")),
    ("max_lifetime_seconds", Reading::As("max_lifetime")),
    // opencode
    ("environment", Reading::As("env")),
    ("scope", Reading::As("oauth.scopes")),
    // goose
    ("cmd", Reading::As("command")),
    ("envs", Reading::As("env")),
    ("uri", Reading::As("url")),
    ("available_tools", Reading::IncludeSome),
    ("bundled", Reading::Nothing),
    ("name", Reading::Nothing),
    ("display_name", Reading::Nothing),
    ("description", Reading::Nothing),
    // Zed
    ("source", Reading::Nothing),
    ("path", Reading::As("command.command")),
    // LibreChat
    ("initTimeout", Reading::As("connect_timeout")),
];

/// What other hosts call a program in `type` and `transport`, in letters.
const PROGRAMS: [&str; 2] = ["stdio", "local"];

/// What they call an address.
const ADDRESSES: [&str; 4] = ["http", "https", "streamablehttp", "remote"];

/// What they call the older transport.
const SSE: &str = "sse";

/// The transport of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Program,
    Address,
    /// An address whose server may have the older transport.
    Sse,
}

impl Transport {
    /// The transport that is meant by a word.
    pub(super) fn named(word: &str) -> Option<Self> {
        let has = |words: &[&str]| words.iter().any(|known| is_same(known, word));
        if has(&[SSE]) {
            Some(Self::Sse)
        } else if has(&ADDRESSES) {
            Some(Self::Address)
        } else {
            has(&PROGRAMS).then_some(Self::Program)
        }
    }
}

/// Words in the names of filters.
const OF_FILTERS: [&str; 5] = ["tool", "allow", "deny", "include", "exclude"];

/// Words of filters that exclude.
const OF_EXCLUSIONS: [&str; 4] = ["deny", "exclude", "disable", "block"];

const INCLUDE: &str = "tools.include";
const EXCLUDE: &str = "tools.exclude";

/// A key as it is compared: without regard to case, `_` and `-`.
fn letters(key: &str) -> impl Iterator<Item = char> {
    key.chars().filter(|char| !matches!(char, '_' | '-')).map(|char| char.to_ascii_lowercase())
}

/// Whether two spellings are one key.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// What another host means by a key of an entry.
pub(super) fn reading(key: &str) -> Option<Reading> {
    OTHERS.iter().find(|(known, _)| is_same(known, key)).map(|(_, reading)| *reading)
}

/// Whether an unknown key may be a filter, which lets tools through if it is ignored. `prefix` is the path of its map.
pub(super) fn may_filter(prefix: &str, key: &str) -> bool {
    let key: String = letters(key).collect();
    let has = |words: &[&str]| words.iter().any(|word| key.contains(word));
    // As the file spells them.
    let mut places = prefix.split_terminator('.').skip_while(|place| is_same(place, "transport"));
    let is_in_tools = places.next().is_some_and(|place| is_same(place, "tools"));
    match places.next() {
        // Where a tool is described, and not filtered.
        Some(place) if is_in_tools && is_same(place, "overrides") => has(&OF_FILTERS) || has(&["enable", "disable"]),
        None if is_in_tools => true,
        _ => has(&OF_FILTERS),
    }
}

/// The key to write for an unknown one that may be a filter, where none is similar.
pub(super) fn filter(key: &str) -> &'static str {
    let key: String = letters(key).collect();
    let excludes = OF_EXCLUSIONS.iter().any(|word| key.contains(word));
    if excludes { EXCLUDE } else { INCLUDE }
}

impl Reading {
    /// The map in which it is read, and the key that this one has.
    pub(super) fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::As(path) => path.rsplit_once('.').unwrap_or(("", path)),
            Self::Include | Self::IncludeSome | Self::Exclude | Self::Approval | Self::Nothing => ("", "tools"),
        }
    }

    /// The key to write in its place.
    pub(super) const fn own(self) -> Option<&'static str> {
        match self {
            Self::As(key) => Some(key),
            Self::Include | Self::IncludeSome => Some(INCLUDE),
            Self::Exclude => Some(EXCLUDE),
            Self::Approval | Self::Nothing => None,
        }
    }
}
