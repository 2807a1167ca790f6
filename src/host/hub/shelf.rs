//! What many servers have in common is held once.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::catalog::{Fingerprint, List};
use crate::host::Utility;
use crate::host::config::{Entry, ToolPolicy};
use crate::host::names::Target;
use crate::host::toolset::{self, Offer, Suspicion};
use crate::protocol::{Capability, Family};
use crate::session::Options;

/// What was chosen of a list of tools by a policy.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The list, which keeps its address from being another's.
    _tools: Option<Arc<List>>,
    /// In order, so that one is soon found.
    pub(super) targets: Vec<Target>,
}

/// Lists, and what was chosen of them. What nobody else holds is swept out, now and then.
#[derive(Clone, Default)]
pub(super) struct Shelf {
    lists: BTreeMap<(Family, Fingerprint), Arc<List>>,
    choices: BTreeMap<Key, Arc<Chosen>>,
    options: BTreeMap<Fingerprint, Arc<Options>>,
    /// How many there may be before the next sweep.
    room: usize,
}

/// What is on it says nothing of the hub, and has addresses in it, which are other ones each time.
impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

/// The address of a list that is on the shelf, what there is beside tools, and the policy.
type Key = (usize, [bool; 2], Fingerprint);

/// The least number of things for which sweeping is worth the while.
const FEW: usize = 64;

impl Shelf {
    /// The list that is the same, if there is one; this one from here on, if there is not.
    pub(super) fn list(&mut self, family: Family, list: Arc<List>) -> Arc<List> {
        let key = (family, list.fingerprint());
        match self.lists.get(&key) {
            Some(known) if known.is_same(&list) => Arc::clone(known),
            // Two that share nothing but the fingerprint; whoever has the other keeps it.
            Some(_) => list,
            None => {
                self.lists.insert(key, Arc::clone(&list));
                self.sweep();
                list
            }
        }
    }

    /// What is chosen of an offer, whose tools are on the shelf.
    pub(super) fn choose(
        &mut self,
        server: &str,
        policy: &ToolPolicy,
        suspicion: Suspicion,
        (tools, offer): (Option<&Arc<List>>, Offer<'_>),
    ) -> Arc<Chosen> {
        let has = [Capability::Resources, Capability::Prompts].map(|capability| offer.has(capability));
        let address = tools.map_or(0, |tools| Arc::as_ptr(tools).addr());
        let key = (address, has, policy.fingerprint());
        if let Some(known) = self.choices.get(&key) {
            return Arc::clone(known);
        }
        // What is only to be reported is found by whoever asks for it; looking through every text is dear.
        let looks = if suspicion == Suspicion::LeaveOut { suspicion } else { Suspicion::Ignore };
        let choice = toolset::choose(server, policy, offer, looks);
        let mut targets = choice.toolset.map(|toolset| toolset.targets()).unwrap_or_default();
        targets.sort_unstable();
        let chosen = Arc::new(Chosen { _tools: tools.cloned(), targets });
        self.choices.insert(key, Arc::clone(&chosen));
        self.sweep();
        chosen
    }

    /// How sessions with entries of this kind behave.
    pub(super) fn options(&mut self, entry: &Entry, all: &Options) -> Arc<Options> {
        let key = entry.behaviour();
        if let Some(known) = self.options.get(&key) {
            return Arc::clone(known);
        }
        let options = Arc::new(entry.options(&all.server, all.clone()));
        self.options.insert(key, Arc::clone(&options));
        self.sweep();
        options
    }

    fn len(&self) -> usize {
        self.lists.len().saturating_add(self.choices.len()).saturating_add(self.options.len())
    }

    fn sweep(&mut self) {
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
    pub(super) fn utilities(&self) -> impl Iterator<Item = Utility> {
        self.targets.iter().filter_map(|target| match target {
            Target::Tool(_) => None,
            Target::Utility(utility) => Some(*utility),
        })
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.targets.binary_search(target).is_ok()
    }

    pub(super) fn has_tool(&self, name: &str) -> bool {
        let by_name = |target: &Target| match target {
            Target::Tool(tool) => (**tool).cmp(name),
            // They come after the tools.
            Target::Utility(_) => Ordering::Greater,
        };
        self.targets.binary_search_by(by_name).is_ok()
    }
}
