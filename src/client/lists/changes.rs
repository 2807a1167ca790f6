//! Why a list is requested again: the server announced a change, or the embedder or the engine needs it.

use super::super::core::Core;
use super::super::signal::{Signals, Watch};
use super::Lists;
use crate::machine::{discovery, gate, list_watch, refresh_demand};
use crate::protocol::{Family, PerFamily, method};

impl Lists {
    /// The server announced a change of a family's list.
    pub(in crate::client) fn on_changed(&mut self, core: &mut Core, family: Family) -> Signals {
        let decision = core.gate(gate::Use::ListChanged, family);
        if let Some(kind) = decision.quirk() {
            let detail = alloc::format!("`{}` is not declared; ignored", family.capability().as_str());
            core.quirk(kind, Some(family), Some(list_changed_method(family)), detail);
        }
        match decision.is_allowed() {
            true => self.step_discovery(core, family, discovery::Input::ListChanged),
            false => Signals::NONE,
        }
    }

    /// The listen stream of this request announces changes from now on.
    pub(in crate::client) fn on_watched(
        &mut self,
        core: &mut Core,
        request: u64,
        families: &PerFamily<Watch>,
    ) -> Signals {
        let mut signals = Signals::NONE;
        for (family, _) in families.iter().filter(|(_, watch)| watch.now && !watch.before) {
            // A list that was requested before the stream may be older than it, whichever response came first.
            let listing = self.slots.get(family).listing.as_ref();
            let late = listing.is_some_and(|listing| listing.pages == 0 && listing.first < request);
            let input = if late { list_watch::Input::BegunLate } else { list_watch::Input::Begun };
            signals.extend(self.step_watch(core, family, input));
        }
        signals
    }

    /// Changes of these families are not announced any more.
    pub(in crate::client) fn on_unwatched(&mut self, core: &mut Core, families: &PerFamily<bool>) -> Signals {
        let mut signals = Signals::NONE;
        for (family, _) in families.iter().filter(|(_, told)| **told) {
            signals.extend(self.step_watch(core, family, list_watch::Input::Ended));
        }
        signals
    }

    fn step_watch(&mut self, core: &mut Core, family: Family, input: list_watch::Input) -> Signals {
        let slot = self.slots.get_mut(family);
        let row = list_watch::take(slot.watch, input);
        slot.watch = row.next;
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                list_watch::Effect::Recheck => {
                    signals.extend(self.step_discovery(core, family, discovery::Input::Outdated));
                }
            }
        }
        signals
    }

    /// Requests a family's list again, even if it is fresh.
    pub(in crate::client) fn want(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_discovery(core, family, discovery::Input::Wanted)
    }

    /// The embedder requests a family's list again. The outcome is reported.
    pub(in crate::client) fn demand(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_demand(core, family, refresh_demand::Input::Want);
        self.want(core, family)
    }
}

/// The notification that announces a change of a family's list.
const fn list_changed_method(family: Family) -> &'static str {
    match family {
        Family::Tools => method::TOOLS_LIST_CHANGED,
        Family::Prompts => method::PROMPTS_LIST_CHANGED,
        Family::Resources | Family::ResourceTemplates => method::RESOURCES_LIST_CHANGED,
    }
}
