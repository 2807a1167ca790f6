//! Discovery of the lists on a connection.

use alloc::format;

use super::super::core::{Core, Stage, declaration};
use super::super::signal::{Signal, Signals};
use super::super::{FailureKind, ListErrors};
use super::{FamilyStatus, Lists};
use crate::machine::list_error::{self, Class, Cost, Meaning};
use crate::machine::{discovery, gate, loss, paging, refresh};
use crate::protocol::Family;

impl Lists {
    /// The handshake is done: the lists that the gate allows are requested.
    pub(in crate::client) fn start(&mut self, core: &mut Core) -> Signals {
        let mut signals = Signals::NONE;
        for family in Family::ALL.iter().copied() {
            let asked = core.gate(gate::Use::Discover, family).is_allowed();
            let input = if asked { discovery::Input::Advertised } else { discovery::Input::NotAdvertised };
            signals.extend(self.step_discovery(core, family, input));
        }
        signals
    }

    pub(super) fn step_discovery(&mut self, core: &mut Core, family: Family, input: discovery::Input) -> Signals {
        use discovery::{Effect, State};
        let slot = self.slots.get_mut(family);
        let before = slot.discovery;
        let row = discovery::take(before, input);
        slot.discovery = row.next;
        let status = match row.next {
            State::NotAdvertised => Some(FamilyStatus::NotAdvertised),
            State::Listed | State::Relisting | State::RelistingStale => Some(FamilyStatus::Listed),
            State::Absent => Some(FamilyStatus::Absent),
            State::Partial => Some(FamilyStatus::Partial),
            State::Failed => Some(FamilyStatus::Failed),
            State::NotRequested | State::Listing | State::ListingStale => None,
        };
        if let Some(status) = status {
            self.set_status(core, family, status);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            match effect {
                // The start of a list does not end it.
                Effect::Request => {
                    self.step_paging(core, family, paging::Input::Start);
                }
                Effect::Commit => self.commit(core, family),
                Effect::Drop => self.slots.get_mut(family).listing = None,
                Effect::Clear => self.clear(core, family),
                Effect::Fail => {
                    let words = self.slots.get_mut(family).words.take().unwrap_or_default();
                    let (server, method) = (core.server_name(), family.list_method());
                    let message = format!("{server} did not give the list of `{method}`: {words}");
                    signals.extend(Signals::lost(FailureKind::ListFailed, message, loss::Transport::Open));
                    return signals;
                }
                Effect::Refresh => signals.extend(self.step_refresh(core, family, refresh::Input::ListChanged)),
                Effect::Recheck => signals.extend(self.step_refresh(core, family, refresh::Input::Outdated)),
                Effect::Renew => signals.extend(self.step_refresh(core, family, refresh::Input::Wanted)),
                Effect::Deny => signals.extend(Signals::schemas(family, false)),
            }
        }
        let settled = || self.slots.iter().all(|(_, slot)| slot.is_settled());
        if before != row.next && core.stage() == Stage::Discovery && settled() {
            signals.push(Signal::Discovered);
        }
        signals
    }

    /// A list failed in discovery.
    pub(super) fn on_discovery_failure(&mut self, core: &mut Core, family: Family, class: Class) -> Signals {
        let tolerance = core.options.tolerance;
        let declared = declaration(core.server.as_ref().and_then(|server| server.declares(family)));
        let list = match family {
            Family::Tools => list_error::List::Tools,
            Family::Prompts | Family::Resources | Family::ResourceTemplates => list_error::List::Optional,
        };
        let tools_absent = match tolerance.tools_absent {
            false => list_error::ToolsAbsent::Fail,
            true => list_error::ToolsAbsent::Tolerate,
        };
        let by_text = match tolerance.absent_by_text {
            false => list_error::ByText::Ignore,
            true => list_error::ByText::Believe,
        };
        let input = match list_error::take_meaning(class, declared, list, tools_absent, by_text) {
            Meaning::Absent => discovery::Input::Absent,
            Meaning::AbsentAs(kind) => {
                let words = self.slots.get(family).words.as_deref().unwrap_or_default();
                let (server, capability) = (core.server_name(), family.capability().as_str());
                let method = family.list_method();
                let detail = format!("{server} declares `{capability}`, yet answered `{method}` with {words}");
                core.quirk(kind, Some(family), Some(method), detail);
                discovery::Input::Absent
            }
            Meaning::Failed => match list_error::take_cost(tolerance.list_errors.into(), self.held(core, family)) {
                Cost::Fatal => discovery::Input::ErrorFatal,
                Cost::Rest => discovery::Input::ErrorRest,
                Cost::List => discovery::Input::ErrorList,
                Cost::Nothing => discovery::Input::ErrorStale,
            },
        };
        self.step_discovery(core, family, input)
    }

    /// What is known of a family whose list failed.
    fn held(&self, core: &Core, family: Family) -> list_error::Held {
        let slot = self.slots.get(family);
        let pages = slot.listing.as_ref().is_some_and(|listing| !listing.items.is_empty());
        let former = matches!(slot.status, FamilyStatus::Listed | FamilyStatus::Partial);
        match (core.was_ready, former, pages) {
            (false, _, false) => list_error::Held::FirstNothing,
            (false, _, true) => list_error::Held::FirstPages,
            (true, true, _) => list_error::Held::Former,
            (true, false, false) => list_error::Held::LaterNothing,
            (true, false, true) => list_error::Held::LaterPages,
        }
    }
}

impl From<ListErrors> for list_error::Policy {
    fn from(policy: ListErrors) -> Self {
        match policy {
            ListErrors::Fail => Self::Fail,
            ListErrors::Degrade => Self::Degrade,
        }
    }
}
