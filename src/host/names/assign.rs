//! How names are made and assigned: the style, the tools that have names, and who gets the plain one.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Names;
use crate::collections::hash;
use crate::host::Utility;

/// How an exposed name is formed from a server's name and a tool's.
///
/// The user names servers, so the name shows the model which server a tool belongs to. Some providers require that a
/// name begins with a letter or `_`; with [`SERVER`](Self::SERVER) that depends on the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Style {
    pub(super) prefix: &'static str,
    pub(super) between: &'static str,
    hyphens: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self::MCP
    }
}

impl Style {
    /// `mcp_<server>_<tool>`, the default.
    pub const MCP: Self = Self { prefix: "mcp_", between: "_", hyphens: false };
    /// `mcp__<server>__<tool>`.
    pub const MCP_DOUBLE: Self = Self { prefix: "mcp__", between: "__", hyphens: false };
    /// `<server>_<tool>`.
    pub const SERVER: Self = Self { prefix: "", between: "_", hyphens: false };

    /// The style with `-` allowed.
    #[must_use]
    pub const fn with_hyphens(self) -> Self {
        Self { hyphens: true, ..self }
    }

    /// The plain name in this style: characters replaced, not shortened, without regard to other names.
    ///
    /// ```
    /// use mcp_proto::host::names::Style;
    ///
    /// assert_eq!(Style::MCP.plain("my-api", "größe"), "mcp_my_api_gr__e");
    /// assert_eq!(Style::MCP_DOUBLE.with_hyphens().plain("my-api", "get.it"), "mcp__my-api__get_it");
    /// ```
    pub fn plain(self, server: &str, tool: &str) -> String {
        let Self { prefix, between, .. } = self;
        let length = [prefix, server, between, tool].iter().map(|part| part.len()).sum();
        let mut name = String::with_capacity(length);
        name.push_str(prefix);
        self.push(&mut name, server);
        name.push_str(between);
        self.push(&mut name, tool);
        name
    }

    /// A name with each character replaced that is not allowed.
    pub(super) fn replaced(self, name: &str) -> String {
        let mut replaced = String::with_capacity(name.len());
        self.push(&mut replaced, name);
        replaced
    }

    fn push(self, name: &mut String, part: &str) {
        if self.allows(part) {
            name.push_str(part);
        } else {
            name.extend(part.chars().map(|char| self.allowed(char)));
        }
    }

    /// Whether no character of a name has to be replaced.
    pub(super) fn allows(self, name: &str) -> bool {
        // Without an early end it compiles to vector instructions.
        name.bytes().fold(true, |allows, byte| allows & self.allows_byte(byte))
    }

    const fn allows_byte(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || byte == b'_' || self.hyphens && byte == b'-'
    }

    const fn allowed(self, char: char) -> char {
        if char.is_ascii() && self.allows_byte(char as u8) { char } else { '_' }
    }
}

/// Maximum characters of a name, including prefix and suffix.
pub const MAX_LEN: usize = 64;

/// A name that was chosen.
#[derive(Clone, Debug)]
pub(super) enum Name {
    /// The plain name.
    Plain,
    /// Another one.
    Suffixed(Arc<str>),
}

/// What an exposed name refers to within its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
pub enum Target {
    /// A tool of the server, by its own name.
    Tool(Arc<str>),
    /// A utility tool, which the host answers.
    Utility(Utility),
}

impl Target {
    /// The server's tool with this name.
    pub fn tool(name: &str) -> Self {
        Self::Tool(name.into())
    }

    /// The utility tool, if this is one.
    pub const fn utility(&self) -> Option<Utility> {
        match self {
            Self::Tool(_) => None,
            Self::Utility(utility) => Some(*utility),
        }
    }

    /// The tool's own name.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(name) => name,
            Self::Utility(utility) => utility.name(),
        }
    }

    /// How it is sorted beside a tool of this name: utility tools come after the tools.
    pub(in crate::host) fn cmp_tool(&self, name: &str) -> Ordering {
        match self {
            Self::Tool(tool) => (**tool).cmp(name),
            Self::Utility(_) => Ordering::Greater,
        }
    }

    /// Adds its kind and name to what is hashed.
    fn push_to(&self, bytes: &mut Vec<u8>) {
        bytes.push(match self {
            Self::Tool(_) => 0xFF,
            Self::Utility(_) => 0xFE,
        });
        bytes.extend_from_slice(self.name().as_bytes());
    }
}

impl From<Utility> for Target {
    fn from(utility: Utility) -> Self {
        Self::Utility(utility)
    }
}

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

/// Tools whose exposed names are their plain names. No two of them have the same plain name.
#[derive(Debug)]
pub(super) struct ToolSet {
    /// Sorted.
    targets: Box<[Target]>,
    /// The hashes of the names after characters were replaced, with the positions: sorted by hash, then by name.
    places: Box<[(u32, u32)]>,
    hash: u64,
}

impl ToolSet {
    /// `targets` are sorted.
    fn new(targets: Vec<Target>, style: Style, hash: u64) -> Self {
        let mut places: Vec<_> =
            (0_u32..).zip(&targets).map(|(at, it)| (key(&style.replaced(it.name())), at)).collect();
        let replaced = |at: u32| targets.get(at as usize).map(|it| style.replaced(it.name()));
        places.sort_unstable();
        for same in places.chunk_by_mut(|(one, _), (next, _)| one == next).filter(|same| same.len() > 1) {
            same.sort_by_cached_key(|(_, at)| replaced(*at));
        }
        Self { targets: targets.into(), places: places.into(), hash }
    }

    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.targets.binary_search(target).is_ok()
    }

    /// The tool with this name after characters were replaced, with its position. `name` has none to replace.
    pub(super) fn find(&self, name: &str, style: Style) -> Option<(usize, &Target)> {
        let order = |at: u32| {
            let known = self.targets.get(at as usize).map_or("", Target::name);
            if known == name { Ordering::Equal } else { (*style.replaced(known)).cmp(name) }
        };
        let key = key(name);
        let from = self.places.get(self.places.partition_point(|(known, _)| *known < key)..)?;
        let (known, mut at) = *from.first()?;
        if known != key {
            return None;
        }
        if order(at).is_ne() {
            // Others have the same hash.
            let place = from.binary_search_by(|(known, at)| known.cmp(&key).then_with(|| order(*at))).ok()?;
            at = from.get(place)?.1;
        }
        let at = at as usize;
        Some((at, self.targets.get(at)?))
    }
}

/// The sets in use, so that equal ones are stored once.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolSets {
    /// By their hashes, which are only an index.
    known: BTreeMap<u64, Weak<ToolSet>>,
    /// The number of sets before unused ones are removed.
    room: usize,
}

/// The minimum number of sets before a removal.
const FEW: usize = 16;

impl ToolSets {
    pub(super) const fn new() -> Self {
        Self { known: BTreeMap::new(), room: 0 }
    }

    /// The set of these tools, which are sorted and distinct.
    pub(super) fn share(&mut self, targets: Vec<Target>, style: Style) -> Arc<ToolSet> {
        let hash = hash_of(&targets);
        match self.known.get(&hash).and_then(Weak::upgrade) {
            Some(known) if *known.targets == *targets => known,
            // The hash is the same and the content differs: this set is not shared.
            Some(_) => Arc::new(ToolSet::new(targets, style, hash)),
            None => {
                let set = Arc::new(ToolSet::new(targets, style, hash));
                self.known.insert(hash, Arc::downgrade(&set));
                self.drop_unused();
                set
            }
        }
    }

    /// A server does not use this set any more.
    pub(super) fn release(&mut self, set: Option<Arc<ToolSet>>) {
        let Some(set) = set else { return };
        let is_known = self.known.get(&set.hash).is_some_and(|known| Weak::as_ptr(known) == Arc::as_ptr(&set));
        if is_known && Arc::strong_count(&set) == 1 {
            self.known.remove(&set.hash);
        }
    }

    /// Removes sets that copies of these names used last.
    fn drop_unused(&mut self) {
        if self.known.len() > self.room.max(FEW) {
            self.known.retain(|_, set| set.strong_count() > 0);
            self.room = self.known.len().saturating_mul(2);
        }
    }
}

/// The half of a name's hash by which its position is found.
fn key(name: &str) -> u32 {
    (hash(name.as_bytes()) >> 32) as u32
}

fn hash_of(targets: &[Target]) -> u64 {
    let mut bytes = Vec::new();
    targets.iter().for_each(|target| target.push_to(&mut bytes));
    hash(&bytes)
}

/// Maximum attempts to find a free suffix for a tool.
const TRIES: u32 = 32;

/// Number of characters of a name kept before a suffix.
pub(super) const KEPT: usize = 55;

/// Priority of a claim to a plain name, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Own,
    Utility,
    Changed,
}

impl Names {
    /// Assigns names to new tools, which are sorted by server and target, and distinct.
    pub(super) fn assign(&mut self, fresh: Vec<(Arc<str>, Target)>) {
        let mut claims: Vec<(String, Rank, usize)> = Vec::with_capacity(fresh.len());
        for (index, (server, target)) in fresh.iter().enumerate() {
            let plain = self.plain(server, target);
            if plain.len() > MAX_LEN || has_suffix(&plain) || !self.owns(server, &plain) {
                continue;
            }
            let rank = match target {
                _ if !self.is_unchanged(server, target) => Rank::Changed,
                Target::Tool(_) => Rank::Own,
                Target::Utility(_) => Rank::Utility,
            };
            claims.push((plain, rank, index));
        }
        claims.sort_unstable();
        let mut names = alloc::vec![None; fresh.len()];
        // The plain names that are assigned here, sorted.
        let mut plains: Vec<&str> = Vec::with_capacity(claims.len());
        for claims in claims.chunk_by(|a, b| a.0 == b.0) {
            // The best claim, unless several have its rank.
            let [(plain, rank, index), ..] = claims else { continue };
            let alone = claims.get(1).is_none_or(|(_, second, _)| rank < second);
            if let (true, Some(name)) = (alone && !self.is_taken(plain), names.get_mut(*index)) {
                plains.push(plain);
                *name = Some(Name::Plain);
            }
        }
        // The next attempt number, by the first attempt that was taken.
        let mut retries: BTreeMap<String, u32> = BTreeMap::new();
        for ((server, target), name) in fresh.iter().zip(&mut names).filter(|(_, name)| name.is_none()) {
            let plain = self.plain(server, target);
            let kept = plain.get(..KEPT).unwrap_or(&plain);
            let suffixed = |number| format!("{kept}_{:08x}", digits(server, target, number));
            let is_taken = |name: &str| self.is_taken(name) || plains.binary_search(&name).is_ok();
            let mut free = Some(suffixed(0));
            if let Some(first) = free.take_if(|first| is_taken(first)) {
                let next = retries.entry(first).or_insert(1_u32);
                let mut tries = (*next..next.saturating_add(TRIES)).inspect(|number| *next = number.saturating_add(1));
                free = tries.by_ref().map(suffixed).find(|name| !is_taken(name));
            }
            if let Some(free) = free.map(Arc::<str>::from) {
                self.stored.insert(Arc::clone(&free), (Arc::clone(server), target.clone()));
                *name = Some(Name::Suffixed(free));
            }
        }
        let mut named = fresh.into_iter().zip(names).peekable();
        while let Some(((server, _), _)) = named.peek() {
            let server = Arc::clone(server);
            let of_it = core::iter::from_fn(|| named.next_if(|((next, _), _)| *next == server));
            let of_it = of_it.filter_map(|((_, target), name)| Some((target, name?))).collect();
            self.keep(&server, of_it);
        }
    }
}

/// Whether a name ends as one with a suffix does. As a plain name it could be that of another server's tool with a suffix.
pub(super) fn has_suffix(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.rsplit_once('_').is_some_and(|(_, digits)| digits.len() == 8 && digits.bytes().all(is_digit))
}

/// The digits of a suffix, as a number.
fn digits(server: &str, target: &Target, number: u32) -> u32 {
    let mut bytes = Vec::from(server);
    target.push_to(&mut bytes);
    if number > 0 {
        bytes.push(0xFF);
        bytes.extend_from_slice(format!("{number}").as_bytes());
    }
    let [.., a, b, c, d] = hash(&bytes).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
