//! The names under which a model sees the tools of many servers.
//!
//! A model's functions share one set of names of at most 64 characters from a small alphabet, while servers name their
//! tools freely. Each tool is exposed as [`Style`] describes, with each character that is not allowed replaced by `_`.
//! In these cases the name is its first 55 characters with a suffix, `_` and eight hexadecimal digits:
//!
//! - The name is longer than 64 characters, or ends with `_` and eight hexadecimal digits itself.
//! - Several tools of a server have the same name in the style. If exactly one of them needed no replacement, it keeps the
//!   name. If there are several or none, all get a suffix. The server's tools take precedence over utility tools.
//! - The name belongs to another server ([`Names::set_servers`]): to the one with the longest name that it begins with, and
//!   of servers whose names are the same in the style, to the one that needed no replacement, or to none of them.
//! - The name is that of a function of the host's own ([`Names::reserve`]).
//!
//! A user can replace a tool's own name in its exposed name ([`Names::set_overrides`]); that counts as a replacement.
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
//! **A name stays as long as its tool exists** and the servers are the same, because a model, a transcript or a prompt cache
//! may contain it. **Which server comes up first does not matter**, if [`Names::set_servers`] has all servers, as the hub
//! does, and neither does the order of tools within an update. The order of a server's updates does: `a-b` alone is exposed
//! as `…_a_b`; if `a_b` is added later, it gets the suffix, although it would have kept the plain name if both had come at
//! once. Names that are saved and restored ([`Names::restore`]) stay in the next run, too.
//!
//! Names are looked up among those that were given. Nothing is concluded from their form.
//!
//! ```
//! use mcp_proto::host::names::{Names, Style, Target};
//!
//! let mut names = Names::new(Style::MCP);
//! names.update([("my-api", vec![Target::tool("list-items.v2"), Target::tool("get_item")])]);
//! assert_eq!(names.name("my-api", &Target::tool("list-items.v2")).as_deref(), Some("mcp_my_api_list_items_v2"));
//!
//! let found = names.resolve("mcp_my_api_list_items_v2").unwrap();
//! assert_eq!((found.server, found.target), ("my-api", &Target::tool("list-items.v2")));
//! ```

mod assign;
#[cfg(feature = "serde")]
mod form;

pub use self::assign::{MAX_LEN, Style, Target};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::{fmt, mem};

use self::assign::{KEPT, Name, Overrides, ToolSet, ToolSets, has_suffix};
use crate::catalog::Difference;
use crate::collections::ByName;

/// What an exposed name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved<'a> {
    /// The server's name in the configuration.
    pub server: &'a str,
    /// The tool.
    pub target: &'a Target,
}

/// Why a tool's exposed name is not formed from its own name without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Renamed {
    /// Characters were replaced.
    Characters,
    /// The name would be longer than [`MAX_LEN`].
    TooLong,
    /// Another tool or a function of the host's own has the name, or the name belongs to another server.
    Taken,
    /// Another name replaces the tool's own ([`Names::set_overrides`]).
    Configured,
}

/// The exposed names of all servers' tools. The [module](self) describes how names are chosen.
///
/// Plain names are formed when they are asked for. Stored are the sets of tools that have them, equal sets of several
/// servers once, and the names with a suffix.
#[derive(Clone, Default)]
pub struct Names {
    style: Style,
    /// The servers with names.
    servers: ByName<Given>,
    /// Servers whose own names have characters to replace, by the names after that. Of several servers with one name,
    /// the others store their names.
    replaced: ByName<Arc<str>>,
    /// The names that are stored.
    stored: BTreeMap<Arc<str>, (Arc<str>, Target)>,
    sets: ToolSets,
    /// The names of the host's own functions.
    reserved: BTreeSet<Box<str>>,
    overrides: Overrides,
    owners: Owners,
    /// The number of names.
    len: usize,
}

/// The servers that own plain names, by their own names after replacement; `None` if several could, so that none does.
type Owners = ByName<Option<Arc<str>>>;

/// Shows each name with what it refers to, however it is held.
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, it)| (name, (it.server, it.target)))).finish()
    }
}

/// The names of a server.
#[derive(Clone, Debug, Default)]
struct Given {
    /// The tools with plain names that are not stored; `None` if there are none.
    plain: Option<Arc<ToolSet>>,
    /// The tools with stored names, sorted by tool.
    stored: Box<[(Target, Arc<str>)]>,
}

impl Given {
    fn stored(&self, target: &Target) -> Option<&Arc<str>> {
        let at = self.stored.binary_search_by(|(known, _)| known.cmp(target)).ok()?;
        self.stored.get(at).map(|(_, name)| name)
    }

    fn has_plain(&self, target: &Target) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.has(target))
    }

    fn has(&self, target: &Target) -> bool {
        self.has_plain(target) || self.stored(target).is_some()
    }

    /// The tools with plain names.
    fn plain(&self) -> &[Target] {
        self.plain.as_ref().map_or(&[], |plain| plain.targets())
    }

    fn targets(&self) -> impl Iterator<Item = &Target> {
        self.plain().iter().chain(self.stored.iter().map(|(target, _)| target))
    }

    fn len(&self) -> usize {
        self.plain().len().saturating_add(self.stored.len())
    }

    /// Replaces the tools with plain names, which are sorted.
    fn set_plain(&mut self, targets: Vec<Target>, sets: &mut ToolSets, style: Style) {
        let set = (!targets.is_empty()).then(|| sets.share(targets, style));
        sets.release(mem::replace(&mut self.plain, set));
    }
}

/// Whether the names are the same, however they are stored.
impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        let alike = self.style == other.style && self.reserved == other.reserved && self.len == other.len;
        alike && self.overrides == other.overrides && self.iter().eq(other.iter())
    }
}

impl Eq for Names {}

impl Names {
    /// No names, with this style.
    pub const fn new(style: Style) -> Self {
        Self {
            style,
            servers: ByName::new(),
            replaced: ByName::new(),
            stored: BTreeMap::new(),
            sets: ToolSets::new(),
            reserved: BTreeSet::new(),
            overrides: Overrides::new(),
            owners: Owners::new(),
            len: 0,
        }
    }

    /// Sets which servers there are, whether their tools are known or not. From now on, a plain name belongs to the server with
    /// the longest name that it begins with, so that names do not depend on which server's tools are known first. Names that
    /// do not fit this are replaced. Returns the difference of each server whose names changed.
    ///
    /// ```
    /// use mcp_proto::host::names::{Names, Target};
    ///
    /// let mut names = Names::default();
    /// names.set_servers(["my-api", "my_api"]);
    /// names.update([("my-api", [Target::tool("delete")])]);
    /// assert!(names.name("my-api", &Target::tool("delete")).unwrap().starts_with("mcp_my_api_delete_"));
    /// names.update([("my_api", [Target::tool("delete")])]);
    /// assert_eq!(names.name("my_api", &Target::tool("delete")).as_deref(), Some("mcp_my_api_delete"));
    /// ```
    pub fn set_servers<'a>(&mut self, servers: impl IntoIterator<Item = &'a str>) -> Vec<(Arc<str>, Difference)> {
        let mut owners = Owners::new();
        for server in servers {
            let own = self.server(server);
            if self.style.allows(server) {
                owners.insert(Arc::clone(&own), Some(own));
                continue;
            }
            let replaced = self.style.replaced(server);
            match owners.get_mut(&replaced) {
                None => owners.insert(replaced.into(), Some(own)),
                Some(Some(known)) if self.style.allows(known) => {}
                Some(known) => *known = None,
            }
        }
        if owners == self.owners {
            return Vec::new();
        }
        let before = mem::replace(&mut self.owners, owners);
        // A restored name with a suffix stays, whoever had the plain one when it was given.
        let is_moved = |server: &str, target: &Target| {
            let plain = self.plain(server, target);
            let [owned, owns] = [&before, &self.owners].map(|owners| owns(owners, self.style, server, &plain));
            if self.name(server, target).is_some_and(|name| name == plain) { !owns } else { owns && !owned }
        };
        let moved =
            self.servers.iter().filter(|(server, given)| given.targets().any(|target| is_moved(server, target)));
        let mut moved: Vec<(Arc<str>, Vec<Target>)> =
            moved.map(|(server, given)| (Arc::clone(server), given.targets().cloned().collect())).collect();
        moved.sort_unstable();
        let names = |(server, targets): &(Arc<str>, Vec<Target>)| -> Vec<_> {
            targets.iter().map(|target| self.name(server, target).map(Cow::into_owned)).collect()
        };
        let former: Vec<_> = moved.iter().map(names).collect();
        for (server, _) in &moved {
            self.remove_names(server);
        }
        self.set(moved.iter().cloned());
        let changed = moved.into_iter().zip(former).map(|((server, targets), former)| {
            let mut difference = Difference::default();
            for (target, before) in targets.iter().zip(former) {
                let after = self.name(&server, target);
                if before.as_deref() != after.as_deref() {
                    difference.removed.extend(before.map(String::into_boxed_str));
                    difference.added.extend(after.map(Box::from));
                }
            }
            // The order of the tools is not the same in a restored hub.
            difference.removed.sort_unstable();
            difference.added.sort_unstable();
            (server, difference)
        });
        changed.filter(|(_, difference)| !difference.is_empty()).collect()
    }

    /// Whether no other server owns a plain name.
    fn owns(&self, server: &str, plain: &str) -> bool {
        owns(&self.owners, self.style, server, plain)
    }

    /// The server that a plain name belongs to, whether it has such a tool or not ([`set_servers`](Self::set_servers)).
    pub(super) fn owner(&self, plain: &str) -> Option<&str> {
        owner(&self.owners, self.style, plain)?.as_deref()
    }

    /// Reserves the names of the host's own functions: no tool gets one of them. A tool whose plain name is reserved gets a
    /// suffix, as one whose name another tool has. A name that was given before stays.
    ///
    /// ```
    /// use mcp_proto::host::names::{Names, Renamed, Style, Target};
    ///
    /// let mut names = Names::new(Style::SERVER);
    /// names.reserve(["files_read"]);
    /// names.update([("files", ["read", "write"].map(Target::tool))]);
    /// assert_eq!(names.name("files", &Target::tool("write")).as_deref(), Some("files_write"));
    /// assert!(names.name("files", &Target::tool("read")).unwrap().starts_with("files_read_"));
    /// assert_eq!(names.renamed("files", &Target::tool("read")), Some(Renamed::Taken));
    /// ```
    pub fn reserve<N: Into<Box<str>>>(&mut self, names: impl IntoIterator<Item = N>) {
        self.reserved.extend(names.into_iter().map(Into::into));
    }

    /// The names that are reserved, in order.
    pub fn reserved(&self) -> impl Iterator<Item = &str> {
        self.reserved.iter().map(|name| &**name)
    }

    /// Whether no tool may get this name.
    fn is_taken(&self, name: &str) -> bool {
        self.reserved.contains(name) || self.resolve(name).is_some()
    }

    /// Adds a server's new names.
    fn keep(&mut self, server: &Arc<str>, names: Vec<(Target, Name)>) {
        if names.is_empty() {
            return;
        }
        self.len = self.len.saturating_add(names.len());
        let forms_names = self.forms_names(server);
        let mut given = self.servers.remove(server).unwrap_or_default();
        let (mut plain, mut stored) = (Vec::new(), mem::take(&mut given.stored).into_vec());
        for (target, name) in names {
            let name = match name {
                Name::Plain if forms_names && self.overrides.name(server, &target).is_none() => {
                    plain.push(target);
                    continue;
                }
                Name::Plain => {
                    let name = Arc::<str>::from(self.overrides.plain(self.style, server, &target));
                    self.stored.insert(Arc::clone(&name), (Arc::clone(server), target.clone()));
                    name
                }
                Name::Suffixed(name) => name,
            };
            stored.push((target, name));
        }
        // Two sorted runs, which the sort merges fast.
        stored.sort_by(|a, b| a.0.cmp(&b.0));
        given.stored = stored.into();
        if !plain.is_empty() {
            plain.extend_from_slice(given.plain());
            plain.sort();
            given.set_plain(plain, &mut self.sets, self.style);
        }
        self.servers.insert(Arc::clone(server), given);
    }

    /// Whether the plain names of a server are found by its own name, so that they need not be stored.
    fn forms_names(&mut self, server: &Arc<str>) -> bool {
        if self.style.allows(server) {
            return true;
        }
        let replaced = self.style.replaced(server);
        if let Some(known) = self.replaced.get(&replaced) {
            return *known == *server;
        }
        self.replaced.insert(replaced.into(), Arc::clone(server));
        true
    }

    /// Removes the names of a server's other tools.
    fn keep_only(&mut self, server: &str, is_kept: impl Fn(&Target) -> bool) {
        let Some(given) = self.servers.get_mut(server) else { return };
        let before = given.len();
        if given.stored.iter().any(|(target, _)| !is_kept(target)) {
            let mut stored = mem::take(&mut given.stored).into_vec();
            stored.retain(|(target, name)| is_kept(target) || self.stored.remove(name).is_none());
            given.stored = stored.into();
        }
        if given.plain().iter().any(|target| !is_kept(target)) {
            let plain = given.plain().iter().filter(|target| is_kept(target)).cloned().collect();
            given.set_plain(plain, &mut self.sets, self.style);
        }
        let after = given.len();
        self.len = self.len.saturating_sub(before.saturating_sub(after));
        if after == 0 {
            self.remove_names(server);
        }
    }

    /// The shared text of the server's name, if it has names.
    fn server(&self, server: &str) -> Arc<str> {
        self.servers.entry(server).map_or_else(|| server.into(), |(server, _)| Arc::clone(server))
    }

    /// Removes a server's names, and the names that replace those of its tools.
    pub fn remove(&mut self, server: &str) {
        self.overrides.remove(server);
        self.remove_names(server);
    }

    fn remove_names(&mut self, server: &str) {
        let Some(given) = self.servers.remove(server) else { return };
        self.len = self.len.saturating_sub(given.len());
        for (_, name) in &given.stored {
            self.stored.remove(name);
        }
        self.sets.release(given.plain);
        if !self.style.allows(server) {
            let replaced = self.style.replaced(server);
            if self.replaced.get(&replaced).is_some_and(|known| **known == *server) {
                self.replaced.remove(&replaced);
            }
        }
    }

    /// The exposed name of a server's tool.
    pub fn name(&self, server: &str, target: &Target) -> Option<Cow<'_, str>> {
        let given = self.servers.get(server)?;
        if given.has_plain(target) {
            return Some(self.style.plain(server, target.name()).into());
        }
        given.stored(target).map(|name| Cow::Borrowed(&**name))
    }

    /// Removes the names of servers that are not wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let servers = self.servers.iter().map(|(server, _)| server);
        let unwanted: Vec<_> = servers.filter(|server| !wanted(server)).cloned().collect();
        for server in unwanted {
            self.remove(&server);
        }
        self.overrides.retain(wanted);
    }

    /// The server and the tool behind an exposed name.
    pub fn resolve(&self, name: &str) -> Option<Resolved<'_>> {
        self.locate(name).map(|(resolved, _)| resolved)
    }

    /// As [`resolve`](Self::resolve), with the position that the tool likely has among the tools of its server.
    pub(super) fn locate(&self, name: &str) -> Option<(Resolved<'_>, usize)> {
        let plain = self.resolve_plain(name);
        plain.or_else(|| self.stored.get(name).map(|(server, target)| (Resolved { server, target }, 0)))
    }

    /// Looks a plain name up. Where the server's name ends is not known, so every position is tried; the server is the
    /// only one that has the rest as the name of a tool.
    fn resolve_plain(&self, name: &str) -> Option<(Resolved<'_>, usize)> {
        if name.len() > MAX_LEN || !self.style.allows(name) {
            return None;
        }
        let name = name.strip_prefix(self.style.prefix)?;
        let places = (0..).zip(name.bytes()).filter(|(_, byte)| *byte == b'_');
        places.filter_map(|(at, _)| name.split_at_checked(at)).find_map(|(server, rest)| {
            let tool = rest.strip_prefix(self.style.between)?;
            let of = |server: &str| {
                let (server, given) = self.servers.entry(server)?;
                let (at, target) = given.plain.as_ref()?.find(tool, self.style)?;
                Some((Resolved { server, target }, at))
            };
            of(server).or_else(|| self.replaced.get(server).and_then(|server| of(server)))
        })
    }

    /// Why a tool is exposed under another name; `None` if it is not, or has no name.
    pub fn renamed(&self, server: &str, target: &Target) -> Option<Renamed> {
        let name = self.name(server, target)?;
        let plain = self.plain(server, target);
        if plain.len() > MAX_LEN {
            Some(Renamed::TooLong)
        } else if plain != name {
            Some(Renamed::Taken)
        } else if self.overrides.name(server, target).is_some() {
            Some(Renamed::Configured)
        } else {
            (!self.is_unchanged(server, target)).then_some(Renamed::Characters)
        }
    }

    /// The plain name of a server's tool.
    fn plain(&self, server: &str, target: &Target) -> String {
        self.overrides.plain(self.style, server, target)
    }

    /// Whether the plain name is formed from the server's name and the tool's without a change.
    fn is_unchanged(&self, server: &str, target: &Target) -> bool {
        let is_own = self.overrides.name(server, target).is_none();
        is_own && self.style.allows(server) && self.style.allows(target.name())
    }

    /// Every name with what it refers to, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Resolved<'_>)> {
        let mut names = Vec::with_capacity(self.len);
        for (server, given) in self.servers.iter() {
            let plain = |target: &Target| Cow::Owned(self.style.plain(server, target.name()));
            names.extend(given.plain().iter().map(|it| (plain(it), Resolved { server, target: it })));
        }
        let stored = self.stored.iter();
        names.extend(stored.map(|(name, (server, target))| (Cow::Borrowed(&**name), Resolved { server, target })));
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        names.into_iter()
    }

    /// Number of names.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no names.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How names are formed.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// Replaces the names of a server's tools in their exposed names: pairs of the server's own name and the name from
    /// which the exposed name is formed. Tools that are not named have their own, those that were named before included.
    ///
    /// The replacing name is treated like a tool's own: characters are replaced, and a long name or one that is taken gets
    /// a suffix, whose digits are of the tool's own name. A name that was formed from another one is removed; call
    /// [`update`](Self::update) after it, and it is formed again. [`resolve`](Self::resolve) returns the server's own name.
    ///
    /// ```
    /// use mcp_proto::host::names::{Names, Renamed, Target};
    ///
    /// let mut names = Names::default();
    /// names.set_overrides("github", [("create_issue_v2", "new_issue")]);
    /// names.update([("github", [Target::tool("create_issue_v2")])]);
    /// let tool = Target::tool("create_issue_v2");
    /// assert_eq!(names.name("github", &tool).as_deref(), Some("mcp_github_new_issue"));
    /// assert_eq!(names.renamed("github", &tool), Some(Renamed::Configured));
    /// assert_eq!(names.resolve("mcp_github_new_issue").unwrap().target, &tool);
    /// ```
    pub fn set_overrides<'a>(&mut self, server: &str, overrides: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let overrides = overrides.into_iter().filter(|(tool, name)| tool != name);
        let overrides: BTreeMap<Box<str>, Box<str>> =
            overrides.map(|(tool, name)| (tool.into(), name.into())).collect();
        let same = match self.overrides.0.get(server) {
            Some(before) => *before == overrides,
            None => overrides.is_empty(),
        };
        if same {
            return;
        }
        let before = self.overrides.0.remove(server).unwrap_or_default();
        self.keep_only(server, |target| match target {
            Target::Tool(tool) => before.get(&**tool) == overrides.get(&**tool),
            Target::Utility(_) => true,
        });
        if !overrides.is_empty() {
            self.overrides.0.insert(server.into(), overrides);
        }
    }

    /// The names that replace those of tools: the server, the tool's own name, and the other one; in order.
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let servers = self.overrides.0.iter();
        servers.flat_map(|(server, own)| own.iter().map(move |(tool, name)| (&**server, &**tool, &**name)))
    }

    /// Restores names from an earlier run: what [`iter`](Self::iter) returned then. Their tools count as existing until
    /// the next update of their server. A name that this style does not form, or that is taken, is ignored.
    /// Overrides are not among them: call [`set_overrides`](Self::set_overrides) before it.
    ///
    /// ```
    /// use mcp_proto::host::names::{Names, Target};
    ///
    /// let mut names = Names::default();
    /// names.restore([("mcp_s_a_b", "s", Target::tool("a-b")), ("of_another_style", "s", Target::tool("c"))]);
    /// names.update([("s", ["a_b", "a-b", "c"].map(Target::tool))]);
    /// assert_eq!(names.name("s", &Target::tool("a-b")).as_deref(), Some("mcp_s_a_b"));
    /// assert_eq!(names.name("s", &Target::tool("c")).as_deref(), Some("mcp_s_c"));
    /// ```
    pub fn restore<'a, N: AsRef<str>>(&mut self, known: impl IntoIterator<Item = (N, &'a str, Target)>) {
        let mut fresh: BTreeMap<Arc<str>, BTreeMap<Target, Name>> = BTreeMap::new();
        // The plain names that are restored here.
        let mut plains: BTreeSet<String> = BTreeSet::new();
        for (name, server, target) in known {
            let name = name.as_ref();
            let server = fresh.get_key_value(server).map_or_else(|| self.server(server), |(it, _)| Arc::clone(it));
            let has_one = self.servers.get(&server).is_some_and(|given| given.has(&target));
            let has_one = has_one || fresh.get(&server).is_some_and(|given| given.contains_key(&target));
            let plain = self.plain(&server, &target);
            let is_taken = self.is_taken(name) || plains.contains(name);
            let is_others = name == plain && !self.owns(&server, &plain);
            if has_one || is_taken || is_others || !may_give(name, &plain) {
                continue;
            }
            let given = if name == plain {
                plains.insert(plain);
                Name::Plain
            } else {
                let name = Arc::<str>::from(name);
                self.stored.insert(Arc::clone(&name), (Arc::clone(&server), target.clone()));
                Name::Suffixed(name)
            };
            fresh.entry(server).or_default().insert(target, given);
        }
        for (server, names) in fresh {
            self.keep(&server, names.into_iter().collect());
        }
    }

    /// Sets the complete tools of each of these servers, in any order. Removed tools lose their names, existing ones
    /// keep them, new ones get one if an attempt finds a free name. Other servers are not affected.
    pub fn update<'a, T: IntoIterator<Item = Target>>(&mut self, servers: impl IntoIterator<Item = (&'a str, T)>) {
        let mut current: BTreeMap<Arc<str>, Vec<Target>> = BTreeMap::new();
        for (server, targets) in servers {
            current.entry(self.server(server)).or_default().extend(targets);
        }
        self.set(current);
    }

    /// As [`update`](Self::update), of one server, whose name is shared.
    pub(super) fn update_one(&mut self, server: &Arc<str>, targets: Vec<Target>) {
        self.set([(Arc::clone(server), targets)]);
    }

    /// Sets the tools of servers, which are sorted.
    fn set(&mut self, servers: impl IntoIterator<Item = (Arc<str>, Vec<Target>)>) {
        let mut fresh = Vec::new();
        for (server, mut targets) in servers {
            targets.sort_unstable();
            targets.dedup();
            self.keep_only(&server, |target| targets.binary_search(target).is_ok());
            if let Some(given) = self.servers.get(&server) {
                targets.retain(|target| !given.has(target));
            }
            fresh.extend(targets.into_iter().map(|target| (Arc::clone(&server), target)));
        }
        self.assign(fresh);
    }

    /// Like an update of a server whose tools all had names: `gone` are removed, `fresh`, in their order, are new.
    pub(super) fn revise(&mut self, server: &Arc<str>, gone: &[&Target], fresh: &[&Target]) {
        if !gone.is_empty() {
            self.keep_only(server, |target| gone.binary_search(&target).is_err());
        }
        self.assign(fresh.iter().map(|target| (Arc::clone(server), Target::clone(target))).collect());
    }
}

/// Whether no other server owns a plain name.
fn owns(owners: &Owners, style: Style, server: &str, plain: &str) -> bool {
    owner(owners, style, plain).is_none_or(|owner| owner.as_deref() == Some(server))
}

/// The server with the longest name that a plain name begins with.
fn owner<'a>(owners: &'a Owners, style: Style, plain: &str) -> Option<&'a Option<Arc<str>>> {
    let name = plain.strip_prefix(style.prefix).filter(|_| !owners.is_empty())?;
    name.rmatch_indices('_').find_map(|(at, _)| {
        let (before, rest) = name.split_at_checked(at)?;
        rest.strip_prefix(style.between).and_then(|_| owners.get(before))
    })
}

/// Whether a name is this plain name, or begins like it and has a suffix.
fn may_give(name: &str, plain: &str) -> bool {
    let kept = plain.get(..KEPT).unwrap_or(plain);
    let is_suffix = name.strip_prefix(kept).is_some_and(|rest| rest.len() == 9 && has_suffix(rest));
    is_suffix || plain == name && plain.len() <= MAX_LEN && !has_suffix(plain)
}
