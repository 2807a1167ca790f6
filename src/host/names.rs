//! The names under which a model sees the tools of many servers.
//!
//! A model's functions share one set of names of at most 64 characters from a small alphabet, while servers name their
//! tools freely. Each tool is exposed as [`Style`] describes, with each character that is not allowed replaced by `_`.
//! In two cases the name is its first 55 characters with a suffix, `_` and eight hexadecimal digits:
//!
//! - The name is longer than 64 characters.
//! - Several tools have the same name in the style. If exactly one of them needed no replacement, it keeps the name. If
//!   there are several or none, all get a suffix. The server's tools take precedence over utility tools.
//!
//! The digits are the last eight of a hash of the server's name, the byte `0xFF`, which no text contains, and the
//! tool's own name (for a utility tool: the byte `0xFE` instead of `0xFF`). The hash is the same in every release. If
//! that name is taken too, the byte `0xFF` and an attempt number in decimal are added to the hashed bytes, until a name
//! is free. Tools of one update with the same first attempt count attempts together: each continues where the previous
//! one stopped. After 32 attempts a tool gets no name and is not exposed, because so many collisions are intended
//! ([`Choice::named`](super::toolset::Choice::named) reports it).
//!
//! # Stability
//!
//! **A name stays as long as its tool exists**, because a model, a transcript or a prompt cache may contain it. **The
//! order of tools within an update does not matter.** The order of updates does: `a-b` alone is exposed as `…_a_b`; if
//! `a_b` is added later, it gets the suffix, although it would have kept the plain name if both had come at once. To
//! have the same names in every run, save them and begin with [`Names::restore`], or pass the tools of all servers in
//! one [`Names::update`].
//!
//! Names are resolved by a map; they are never parsed.
//!
//! ```
//! use mcp_proto::host::names::{Names, Style, Target};
//!
//! let mut names = Names::new(Style::MCP);
//! names.update([("my-api", vec![Target::tool("list-items.v2"), Target::tool("get_item")])]);
//! assert_eq!(names.name("my-api", &Target::tool("list-items.v2")), Some("mcp_my_api_list_items_v2"));
//!
//! let found = names.resolve("mcp_my_api_list_items_v2").unwrap();
//! assert_eq!((found.server, found.target), ("my-api", &Target::tool("list-items.v2")));
//! ```

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Utility;
use crate::catalog::hash;

/// Maximum characters of a name, including prefix and suffix.
pub const MAX_LEN: usize = 64;

/// Maximum attempts to find a free suffix for a tool.
const TRIES: u32 = 32;

/// Number of characters of a name kept before a suffix.
const KEPT: usize = 55;

/// How an exposed name is formed from a server's name and a tool's.
///
/// The user names servers, so the name shows the model which server a tool belongs to. Some providers require that a
/// name begins with a letter or `_`; with [`SERVER`](Self::SERVER) that depends on the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Style {
    prefix: &'static str,
    between: &'static str,
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

    fn push(self, name: &mut String, part: &str) {
        if self.allows(part) {
            name.push_str(part);
        } else {
            name.extend(part.chars().map(|char| self.allowed(char)));
        }
    }

    /// Whether no character of a name has to be replaced.
    fn allows(self, name: &str) -> bool {
        name.chars().all(|char| self.allowed(char) == char)
    }

    const fn allowed(self, char: char) -> char {
        match char {
            'A'..='Z' | 'a'..='z' | '0'..='9' => char,
            '-' if self.hyphens => char,
            _ => '_',
        }
    }
}

/// What an exposed name refers to within its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}

impl From<Utility> for Target {
    fn from(utility: Utility) -> Self {
        Self::Utility(utility)
    }
}

/// What an exposed name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved<'a> {
    /// The server's name in the configuration.
    pub server: &'a str,
    /// The tool.
    pub target: &'a Target,
}

/// Why a tool's exposed name is not its plain name from its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renamed {
    /// Characters were replaced.
    Characters,
    /// The name would be longer than [`MAX_LEN`].
    TooLong,
    /// Another tool has the name.
    Taken,
}

/// The exposed names of all servers' tools. The [module](self) describes how names are chosen.
#[derive(Clone, Debug, Default)]
pub struct Names {
    style: Style,
    /// Each server's names, sorted by target.
    given: BTreeMap<Arc<str>, Vec<(Target, Arc<str>)>>,
    back: BTreeMap<Arc<str>, (Arc<str>, Target)>,
}

/// Priority of a claim to a plain name, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Own,
    Utility,
    Changed,
}

impl Names {
    /// No names, with this style.
    pub const fn new(style: Style) -> Self {
        Self { style, given: BTreeMap::new(), back: BTreeMap::new() }
    }

    /// Sets the complete tools of each of these servers, in any order. Removed tools lose their names, existing ones
    /// keep them, new ones get one if an attempt finds a free name. Other servers are not affected.
    pub fn update<'a, T: IntoIterator<Item = Target>>(&mut self, servers: impl IntoIterator<Item = (&'a str, T)>) {
        let mut current: BTreeMap<Arc<str>, Vec<Target>> = BTreeMap::new();
        for (server, targets) in servers {
            current.entry(self.server(server)).or_default().extend(targets);
        }
        let mut fresh = Vec::new();
        for (server, mut targets) in current {
            targets.sort_unstable();
            targets.dedup();
            let given = self.given.get_mut(&server);
            if let Some(given) = given {
                given
                    .retain(|(target, name)| targets.binary_search(target).is_ok() || self.back.remove(name).is_none());
                targets.retain(|target| find(given, target).is_none());
                if given.is_empty() {
                    self.given.remove(&server);
                }
            }
            fresh.extend(targets.into_iter().map(|target| (Arc::clone(&server), target)));
        }
        self.assign(fresh);
    }

    /// Like an update of a server whose tools all had names: `gone` are removed, `fresh`, in their order, are new.
    pub(super) fn revise(&mut self, server: &str, gone: &[&Target], fresh: &[&Target]) {
        let server = self.server(server);
        if !gone.is_empty()
            && let Some(given) = self.given.get_mut(&server)
        {
            given.retain(|(target, name)| gone.binary_search(&target).is_err() || self.back.remove(name).is_none());
            if given.is_empty() {
                self.given.remove(&server);
            }
        }
        self.assign(fresh.iter().map(|target| (Arc::clone(&server), Target::clone(target))).collect());
    }

    /// Restores names from an earlier run: what [`iter`](Self::iter) returned then. Their tools count as existing until
    /// the next update of their server. A name that this style does not form, or that is taken, is ignored.
    ///
    /// ```
    /// use mcp_proto::host::names::{Names, Target};
    ///
    /// let mut names = Names::default();
    /// names.restore([("mcp_s_a_b", "s", Target::tool("a-b")), ("of_another_style", "s", Target::tool("c"))]);
    /// names.update([("s", ["a_b", "a-b", "c"].map(Target::tool))]);
    /// assert_eq!(names.name("s", &Target::tool("a-b")), Some("mcp_s_a_b"));
    /// assert_eq!(names.name("s", &Target::tool("c")), Some("mcp_s_c"));
    /// ```
    pub fn restore<'a>(&mut self, known: impl IntoIterator<Item = (&'a str, &'a str, Target)>) {
        let mut fresh: BTreeMap<Arc<str>, BTreeMap<Target, Arc<str>>> = BTreeMap::new();
        for (name, server, target) in known {
            let server = fresh.get_key_value(server).map_or_else(|| self.server(server), |(it, _)| Arc::clone(it));
            let has_one = self.name(&server, &target).is_some();
            let has_one = has_one || fresh.get(&server).is_some_and(|given| given.contains_key(&target));
            if has_one || !self.may_give(name, &server, &target) {
                continue;
            }
            if let Entry::Vacant(free) = self.back.entry(name.into()) {
                let name = Arc::clone(free.key());
                free.insert((Arc::clone(&server), target.clone()));
                fresh.entry(server).or_default().insert(target, name);
            }
        }
        for (server, names) in fresh {
            self.keep(server, names);
        }
    }

    /// Adds a server's new names, which are sorted by target.
    fn keep(&mut self, server: Arc<str>, names: impl IntoIterator<Item = (Target, Arc<str>)>) {
        let given = self.given.entry(server).or_default();
        given.extend(names);
        // Two sorted runs, which the sort merges fast.
        given.sort_by(|a, b| a.0.cmp(&b.0));
        given.shrink_to_fit();
    }

    /// Whether this is the tool's plain name, or one with a suffix.
    fn may_give(&self, name: &str, server: &str, target: &Target) -> bool {
        let plain = self.style.plain(server, target.name());
        let kept = plain.get(..KEPT).unwrap_or(&plain);
        let digits = name.strip_prefix(kept).and_then(|rest| rest.strip_prefix('_'));
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let suffixed = digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(is_digit));
        suffixed || plain == name && plain.len() <= MAX_LEN
    }

    /// The shared text of the server's name, if it has names.
    fn server(&self, server: &str) -> Arc<str> {
        self.given.get_key_value(server).map_or_else(|| server.into(), |(server, _)| Arc::clone(server))
    }

    /// Removes a server's names.
    pub fn remove(&mut self, server: &str) {
        for (_, name) in self.given.remove(server).unwrap_or_default() {
            self.back.remove(&name);
        }
    }

    /// Assigns names to new tools, which are sorted and distinct.
    fn assign(&mut self, fresh: Vec<(Arc<str>, Target)>) {
        let mut claims: Vec<(Arc<str>, Rank, usize)> = Vec::with_capacity(fresh.len());
        for (index, (server, target)) in fresh.iter().enumerate() {
            let plain = self.style.plain(server, target.name());
            if plain.len() > MAX_LEN {
                continue;
            }
            let rank = match target {
                _ if !self.style.allows(server) || !self.style.allows(target.name()) => Rank::Changed,
                Target::Tool(_) => Rank::Own,
                Target::Utility(_) => Rank::Utility,
            };
            claims.push((plain.into(), rank, index));
        }
        claims.sort_unstable();
        let mut names = alloc::vec![None; fresh.len()];
        for claims in claims.chunk_by(|a, b| a.0 == b.0) {
            // The best claim, unless several have its rank.
            let [(plain, rank, index), ..] = claims else { continue };
            let alone = claims.get(1).is_none_or(|(_, second, _)| rank < second);
            if let (true, Some((server, target)), Some(name)) = (alone, fresh.get(*index), names.get_mut(*index))
                && let Entry::Vacant(free) = self.back.entry(Arc::clone(plain))
            {
                free.insert((Arc::clone(server), target.clone()));
                *name = Some(Arc::clone(plain));
            }
        }
        // The next attempt number, by the first attempt that was taken.
        let mut retries: BTreeMap<String, u32> = BTreeMap::new();
        for ((server, target), name) in fresh.iter().zip(&mut names).filter(|(_, name)| name.is_none()) {
            let plain = self.style.plain(server, target.name());
            let kept = plain.get(..KEPT).unwrap_or(&plain);
            let suffixed = |number| format!("{kept}_{:08x}", digits(server, target, number));
            let mut free = Some(suffixed(0));
            if let Some(first) = free.take_if(|first| self.back.contains_key(&**first)) {
                let next = retries.entry(first).or_insert(1_u32);
                let mut tries = (*next..next.saturating_add(TRIES)).inspect(|number| *next = number.saturating_add(1));
                free = tries.by_ref().map(suffixed).find(|name| !self.back.contains_key(&**name));
            }
            if let Some(free) = free.map(Arc::<str>::from) {
                self.back.insert(Arc::clone(&free), (Arc::clone(server), target.clone()));
                *name = Some(free);
            }
        }
        let mut named = fresh.into_iter().zip(names).peekable();
        while let Some(((server, _), _)) = named.peek() {
            let server = Arc::clone(server);
            let of_it = core::iter::from_fn(|| named.next_if(|((next, _), _)| *next == server));
            self.keep(Arc::clone(&server), of_it.filter_map(|((_, target), name)| Some((target, name?))));
        }
    }

    /// The exposed name of a server's tool.
    pub fn name(&self, server: &str, target: &Target) -> Option<&str> {
        find(self.of(server), target)
    }

    /// Removes the names of servers that are not wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let unwanted: Vec<_> = self.given.keys().filter(|server| !wanted(server)).cloned().collect();
        for server in unwanted {
            self.remove(&server);
        }
    }

    /// All names of a server, sorted by target.
    pub(super) fn of(&self, server: &str) -> &[(Target, Arc<str>)] {
        self.given.get(server).map_or(&[], |given| given)
    }

    /// The server and the tool behind an exposed name.
    pub fn resolve(&self, name: &str) -> Option<Resolved<'_>> {
        self.back.get(name).map(|(server, target)| Resolved { server, target })
    }

    /// Why a tool is exposed under another name; `None` if it is not, or has no name.
    pub fn renamed(&self, server: &str, target: &Target) -> Option<Renamed> {
        let name = self.name(server, target)?;
        let plain = self.style.plain(server, target.name());
        if plain.len() > MAX_LEN {
            Some(Renamed::TooLong)
        } else if plain != name {
            Some(Renamed::Taken)
        } else {
            let unchanged = self.style.allows(server) && self.style.allows(target.name());
            (!unchanged).then_some(Renamed::Characters)
        }
    }

    /// Every name with what it refers to, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Resolved<'_>)> {
        self.back.iter().map(|(name, (server, target))| (&**name, Resolved { server, target }))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.back.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.back.is_empty()
    }

    /// How names are formed.
    pub const fn style(&self) -> Style {
        self.style
    }
}

/// The name of a target among its server's names.
pub(super) fn find<'a>(given: &'a [(Target, Arc<str>)], target: &Target) -> Option<&'a str> {
    let at = given.binary_search_by(|(known, _)| known.cmp(target)).ok()?;
    given.get(at).map(|(_, name)| &**name)
}

/// The digits of a suffix, as a number.
fn digits(server: &str, target: &Target, number: u32) -> u32 {
    let mut bytes = Vec::from(server);
    bytes.push(match target {
        Target::Tool(_) => 0xFF,
        Target::Utility(_) => 0xFE,
    });
    bytes.extend_from_slice(target.name().as_bytes());
    if number > 0 {
        bytes.push(0xFF);
        bytes.extend_from_slice(format!("{number}").as_bytes());
    }
    let [.., a, b, c, d] = hash(&bytes).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
