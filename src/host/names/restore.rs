//! Names of an earlier run.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;

use super::assign::KEPT;
use super::name::Name;
use super::{MAX_LEN, Names, Target};

impl Names {
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
            if has_one || is_taken || !may_give(name, &plain) {
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
}

/// Whether a name is this plain name, or begins like it and has a suffix.
fn may_give(name: &str, plain: &str) -> bool {
    let kept = plain.get(..KEPT).unwrap_or(plain);
    let digits = name.strip_prefix(kept).and_then(|rest| rest.strip_prefix('_'));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let suffixed = digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(is_digit));
    suffixed || plain == name && plain.len() <= MAX_LEN
}
