//! What other hosts write in an entry: their keys, and what each is read as.

use alloc::string::String;

/// Where an entry stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    /// Under `mcp_servers`, or in the map alone.
    Own,
    /// Under `mcpServers`, which many hosts share.
    Shared,
}

/// What a key of another host is read as.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// As this key, with the same value.
    As(&'static str),
    /// As `tools.include`.
    Include,
    /// As `tools.exclude`.
    Exclude,
    /// Not at all, with a warning: an embedder approves calls.
    Approval,
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
    // Claude Code
    ("allowedTools", Reading::Include),
    // Cline, Roo
    ("autoApprove", Reading::Approval),
    ("alwaysAllow", Reading::Approval),
    // opencode
    ("environment", Reading::As("env")),
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

/// Where filters are, with a final dot.
const TOOLS: &str = "tools.";

/// Where a tool is described, and not filtered.
const OVERRIDES: &str = "tools.overrides.";

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
    if prefix.starts_with(OVERRIDES) {
        return has(&OF_FILTERS) || has(&["enable", "disable"]);
    }
    prefix == TOOLS || has(&OF_FILTERS)
}

/// The key to write for an unknown one that may be a filter, where none is similar.
pub(super) fn filter(key: &str) -> &'static str {
    let key: String = letters(key).collect();
    let excludes = OF_EXCLUSIONS.iter().any(|word| key.contains(word));
    if excludes { EXCLUDE } else { INCLUDE }
}

impl Reading {
    /// The key to write in its place.
    pub(super) const fn own(self) -> Option<&'static str> {
        match self {
            Self::As(key) => Some(key),
            Self::Include => Some(INCLUDE),
            Self::Exclude => Some(EXCLUDE),
            Self::Approval => None,
        }
    }
}
