//! The names under which a model sees the tools of many servers.
//!
//! A model's functions have one space of names, of few characters and 64 at most, and servers name their tools as they
//! like. So a tool is exposed as [`Style`] says, each character that is not allowed replaced by `_`. Two things take
//! more than that, and are answered by a suffix, `_` and eight hexadecimal digits, behind the first 55 characters:
//!
//! - The name is longer than 64 characters.
//! - Several tools come to the same name. Of those the one that needed no change keeps it; where none is the only one
//!   such, none does. The server's own tools go before the utility tools.
//!
//! The digits are the last eight of a hash of the server's name, the byte `0xFF`, which is in no text, and the tool's
//! name, as they are (of a utility tool: the byte `0xFE`). The hash is the same in every release. Should that name be
//! taken too, the byte `0xFF` and the number of the try, in decimal, follow, until one is free. Of the tools of an
//! update that come to the same first try, each goes on from the number at which the one before it stopped. After 32
//! tries a tool has no name, and a model is not told of it: names that collide so often are made to
//! ([`Choice::named`](super::toolset::Choice::named) reports it).
//!
//! # What stays, and what depends on what
//!
//! **A name once given stays while its tool does.** A model, a transcript, a cache of prompts may know it by then.
//! **Within an update no order matters**: names are the same however its tools are sorted. Both together leave one
//! thing that history decides. `a-b` alone is exposed as `…_a_b`; if `a_b` joins it later, that one gets the suffix,
//! though it would have kept the plain name had both come at once. It cannot be otherwise: a name that neither changes
//! nor depends on what came before would have to be a function of the tool alone, and then `a-b` could never be `…_a_b`.
//! Whoever wants the same names in every run keeps them, and begins with [`Names::restore`], or gives the tools of all
//! servers in one [`Names::update`].
//!
//! The way back is a map: nothing is parsed out of a name.
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

/// How long a name may be, in characters, all of it counted.
pub const MAX_LEN: usize = 64;

/// How often another suffix is tried for a tool.
const TRIES: u32 = 32;

/// How much of a name stays in front of a suffix.
const KEPT: usize = 55;

/// How a name is made of a server's and a tool's.
///
/// Servers are named by the user, so a name tells the model whose tool it is. Some providers want a name to begin with a
/// letter or `_`: with [`SERVER`](Self::SERVER) that is up to the server's name.
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

    /// The style, with `-` left as it is.
    #[must_use]
    pub const fn with_hyphens(self) -> Self {
        Self { hyphens: true, ..self }
    }

    /// The plain name: in this style, of the allowed characters, as long as it is, whatever else has it.
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

    /// Whether a name needs no character replaced.
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

/// What a name stands for, at its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A tool of the server's, by its own name.
    Tool(Arc<str>),
    /// A tool that the host answers for the server.
    Utility(Utility),
}

impl Target {
    /// The server's tool of this name.
    pub fn tool(name: &str) -> Self {
        Self::Tool(name.into())
    }

    /// The utility tool that it is, if it is one.
    pub const fn utility(&self) -> Option<Utility> {
        match self {
            Self::Tool(_) => None,
            Self::Utility(utility) => Some(*utility),
        }
    }

    /// Its name, before it is exposed.
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

/// What is behind an exposed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved<'a> {
    /// The server, as the configuration names it.
    pub server: &'a str,
    /// What of it.
    pub target: &'a Target,
}

/// Why a tool is exposed under another name than its own, in the style.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renamed {
    /// Characters were replaced.
    Characters,
    /// It would be longer than [`MAX_LEN`].
    TooLong,
    /// Another tool has that name.
    Taken,
}

/// The exposed names of all servers' tools, and the way back. The [module](self) says how names are chosen.
#[derive(Clone, Debug, Default)]
pub struct Names {
    style: Style,
    /// Of each server, in the targets' order.
    given: BTreeMap<Arc<str>, Vec<(Target, Arc<str>)>>,
    back: BTreeMap<Arc<str>, (Arc<str>, Target)>,
}

/// How good a claim is to a plain name, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Own,
    Utility,
    Changed,
}

impl Names {
    /// No names yet, of this style.
    pub const fn new(style: Style) -> Self {
        Self { style, given: BTreeMap::new(), back: BTreeMap::new() }
    }

    /// Says what each of these servers has now: all of it, in any order. What is gone loses its name, what stays keeps
    /// it, what is new gets one, where one of its tries is free. Servers that are not mentioned are left alone.
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

    /// As an update of a server that had names for all it had: these are gone, and these, in their order, are new.
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

    /// Gives names that were given in a run before: what [`iter`](Self::iter) had then. What they stand for is taken to
    /// be there until an update of its server says otherwise. A name that this style does not give is passed over, and
    /// so is one that is taken.
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

    /// Keeps a server's new names, which are in the targets' order.
    fn keep(&mut self, server: Arc<str>, names: impl IntoIterator<Item = (Target, Arc<str>)>) {
        let given = self.given.entry(server).or_default();
        given.extend(names);
        // Both parts of it are sorted, which this is quick at.
        given.sort_by(|a, b| a.0.cmp(&b.0));
        given.shrink_to_fit();
    }

    /// Whether this is the plain name, or one with a suffix.
    fn may_give(&self, name: &str, server: &str, target: &Target) -> bool {
        let plain = self.style.plain(server, target.name());
        let kept = plain.get(..KEPT).unwrap_or(&plain);
        let digits = name.strip_prefix(kept).and_then(|rest| rest.strip_prefix('_'));
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let suffixed = digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(is_digit));
        suffixed || plain == name && plain.len() <= MAX_LEN
    }

    /// The server's name, as it is held already, if it is.
    fn server(&self, server: &str) -> Arc<str> {
        self.given.get_key_value(server).map_or_else(|| server.into(), |(server, _)| Arc::clone(server))
    }

    /// Takes a server's names away.
    pub fn remove(&mut self, server: &str) {
        for (_, name) in self.given.remove(server).unwrap_or_default() {
            self.back.remove(&name);
        }
    }

    /// Names what has none yet. It is sorted, and each but once.
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
            // The best of them, unless there are several such.
            let [(plain, rank, index), ..] = claims else { continue };
            let alone = claims.get(1).is_none_or(|(_, second, _)| rank < second);
            if let (true, Some((server, target)), Some(name)) = (alone, fresh.get(*index), names.get_mut(*index))
                && let Entry::Vacant(free) = self.back.entry(Arc::clone(plain))
            {
                free.insert((Arc::clone(server), target.clone()));
                *name = Some(Arc::clone(plain));
            }
        }
        // By the first try, where that was taken: the number of the next try.
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

    /// The exposed name of what a server has.
    pub fn name(&self, server: &str, target: &Target) -> Option<&str> {
        find(self.of(server), target)
    }

    /// Takes the names of servers away that are not wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let unwanted: Vec<_> = self.given.keys().filter(|server| !wanted(server)).cloned().collect();
        for server in unwanted {
            self.remove(&server);
        }
    }

    /// Every name of a server, in the targets' order.
    pub(super) fn of(&self, server: &str) -> &[(Target, Arc<str>)] {
        self.given.get(server).map_or(&[], |given| given)
    }

    /// What is behind an exposed name.
    pub fn resolve(&self, name: &str) -> Option<Resolved<'_>> {
        self.back.get(name).map(|(server, target)| Resolved { server, target })
    }

    /// Why what a server has is exposed under another name than its own; `None` where it is not, or has no name.
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

    /// Every name and what is behind it, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Resolved<'_>)> {
        self.back.iter().map(|(name, (server, target))| (&**name, Resolved { server, target }))
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.back.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.back.is_empty()
    }

    /// How names are made.
    pub const fn style(&self) -> Style {
        self.style
    }
}

/// The name of a target, among those of its server.
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
