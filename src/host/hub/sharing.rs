//! Component: lists, choices and options that are equal for several servers are stored once.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::catalog::{Catalog, List, Tool};
use crate::client::Options;
use crate::host::Utility;
use crate::host::config::{Entry, ToolOverride, ToolPolicy};
use crate::host::names::Target;
use crate::host::toolset::{self, Suspicion};
use crate::protocol::{Capability, Family};

/// The choice of a policy from a list of tools.
pub(super) struct Chosen {
    key: Key,
    /// The list. It is kept so that no other list gets its address.
    tools: Option<Arc<List>>,
    /// Sorted.
    pub(super) targets: Vec<Target>,
    /// As in the policy.
    pub(super) overrides: BTreeMap<Box<str>, ToolOverride>,
}

/// Its key contains an address, which differs from run to run.
impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen").field("targets", &self.targets).finish_non_exhaustive()
    }
}

/// What several servers share. Entries without a user are removed from time to time.
#[derive(Clone, Default)]
pub(super) struct Sharing {
    /// By their hashes, which are only an index.
    lists: BTreeMap<(Family, u64), Arc<List>>,
    choices: BTreeMap<Key, Arc<Chosen>>,
    options: BTreeMap<Box<str>, Arc<Options>>,
    /// The number of entries before the next removal.
    room: usize,
}

/// It contains addresses, which differ from run to run.
impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

/// The address of a shared list of tools, whether there are resources and prompts, and the policy.
type Key = (usize, [bool; 2], Box<str>);

/// The minimum number of entries before a removal.
const FEW: usize = 64;

impl Sharing {
    /// The shared list with the same content; if there is none, this list is shared.
    pub(super) fn list(&mut self, family: Family, list: Arc<List>) -> Arc<List> {
        let key = (family, list.hash());
        match self.lists.get(&key) {
            Some(known) if Arc::ptr_eq(known, &list) || known.is_same(&list) => Arc::clone(known),
            // The hash is the same and the content differs: this list is not shared.
            Some(_) => list,
            None => {
                self.lists.insert(key, Arc::clone(&list));
                self.drop_unused();
                list
            }
        }
    }

    /// The choice from an offer whose list of tools is shared.
    pub(super) fn choose(
        &mut self,
        server: &str,
        policy: &ToolPolicy,
        suspicion: Suspicion,
        (tools, offer): (Option<&Arc<List>>, toolset::OfferView<'_>),
    ) -> Arc<Chosen> {
        let has = [Capability::Resources, Capability::Prompts].map(|capability| offer.has(capability));
        let address = tools.map_or(0, |tools| Arc::as_ptr(tools).addr());
        let key = (address, has, policy.text());
        if let Some(known) = self.choices.get(&key) {
            return Arc::clone(known);
        }
        // `Hub::choice` reports suspicious texts: reading every text here is expensive.
        let looks = if suspicion == Suspicion::LeaveOut { suspicion } else { Suspicion::Ignore };
        let choice = toolset::choose(server, policy, offer, looks);
        let mut targets = choice.toolset.map(|toolset| toolset.targets()).unwrap_or_default();
        targets.sort_unstable();
        let overrides = policy.overrides.clone();
        let chosen = Arc::new(Chosen { key: key.clone(), tools: tools.cloned(), targets, overrides });
        self.choices.insert(key, Arc::clone(&chosen));
        self.drop_unused();
        chosen
    }

    /// A server does not offer this any more: removes what no other server offers.
    pub(super) fn release(&mut self, catalog: &Catalog, chosen: Arc<Chosen>) {
        // References by this component and by the caller.
        const TWO: usize = 2;
        if Arc::strong_count(&chosen) == TWO {
            self.choices.remove(&chosen.key);
        }
        drop(chosen);
        for family in Family::EACH {
            let Some(list) = catalog.held(family).filter(|list| Arc::strong_count(list) == TWO) else { continue };
            let key = (family, list.hash());
            if self.lists.get(&key).is_some_and(|known| Arc::ptr_eq(known, list)) {
                self.lists.remove(&key);
            }
        }
    }

    /// The options of sessions with equal entries.
    pub(super) fn options(&mut self, entry: &Entry, all: &Options) -> Arc<Options> {
        let key = entry.behaviour();
        if let Some(known) = self.options.get(&key) {
            return Arc::clone(known);
        }
        let options = Arc::new(entry.options(&all.server, all.clone()));
        self.options.insert(key, Arc::clone(&options));
        self.drop_unused();
        options
    }

    fn len(&self) -> usize {
        self.lists.len().saturating_add(self.choices.len()).saturating_add(self.options.len())
    }

    fn drop_unused(&mut self) {
        if self.len() <= self.room.max(FEW) {
            return;
        }
        self.choices.retain(|_, chosen| Arc::strong_count(chosen) > 1);
        self.lists.retain(|_, list| Arc::strong_count(list) > 1);
        self.options.retain(|_, options| Arc::strong_count(options) > 1);
        self.room = self.len().saturating_mul(2);
    }
}

impl Chosen {
    /// The targets of a choice; none without one.
    pub(super) fn of(chosen: Option<&Self>) -> &[Target] {
        chosen.map_or(&[], |chosen| &chosen.targets)
    }

    /// Whether two choices have the same definition of a target, byte for byte.
    pub(super) fn has_same(&self, other: &Self, target: &Target) -> bool {
        let (Target::Tool(name), Some(one), Some(another)) = (target, &self.tools, &other.tools) else { return true };
        let is_listed = Arc::ptr_eq(one, another) || one.find(name) == another.find(name);
        is_listed && self.overrides.get(&**name) == other.overrides.get(&**name)
    }

    /// The names that replace those of tools, by these.
    pub(super) fn name_overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.overrides.iter().filter_map(|(tool, own)| Some((&**tool, own.name.as_deref()?)))
    }

    /// A tool as the model sees it.
    pub(super) fn overridden<'a>(&'a self, mut tool: Tool<'a>) -> Tool<'a> {
        if let Some(own) = self.overrides.get(tool.name) {
            own.apply(&mut tool);
        }
        tool
    }

    /// The name that replaces that of a target.
    pub(super) fn other_name(&self, target: &Target) -> Option<&str> {
        let Target::Tool(name) = target else { return None };
        self.overrides.get(&**name)?.name.as_deref().filter(|other| *other != &**name)
    }

    pub(super) fn utilities(&self) -> impl Iterator<Item = Utility> {
        self.targets.iter().filter_map(|target| match target {
            Target::Tool(_) => None,
            Target::Utility(utility) => Some(*utility),
        })
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.targets.binary_search(target).is_ok()
    }

    /// As [`has`](Self::has), with the position that the target likely has.
    pub(super) fn has_at(&self, place: usize, target: &Target) -> bool {
        self.targets.get(place) == Some(target) || self.has(target)
    }

    pub(super) fn has_tool(&self, name: &str) -> bool {
        self.targets.binary_search_by(|target| target.cmp_tool(name)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::config::Configuration;

    #[test]
    fn what_no_server_uses_any_more_is_dropped_after_many_changes() {
        let (mut sharing, all) = (Sharing::default(), Options::new("host", "1"));
        for timeout in 1..1000 {
            let server = serde_json::json!({"a": {"command": "a", "timeout": timeout}});
            let read: Configuration = serde_json::from_value(server).unwrap();
            sharing.options(&read.servers["a"], &all);
        }
        assert!(sharing.len() <= 2 * FEW, "{}", sharing.len());
    }
}
