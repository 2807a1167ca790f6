//! A list that is requested again after discovery, and what the embedder learns of it.

use core::mem::discriminant;

use super::super::core::Core;
use super::super::signal::Signals;
use super::super::timers::{LONGEST_WAIT, Timer};
use super::super::{Event, Output, RefreshOutcome};
use super::{FamilyStatus, Lists};
use crate::machine::refresh::{self, Found};
use crate::machine::refresh_demand::{Report, Unpolled};
use crate::machine::{Verdict, paging, refresh_demand};
use crate::protocol::Family;

impl Lists {
    /// The connection ended, and its lists with it.
    pub(in crate::client) fn on_connection_ended(&mut self, core: &mut Core) {
        for family in Family::ALL.iter().copied() {
            self.step_demand(core, family, refresh_demand::Input::ConnectionEnded);
        }
    }

    pub(super) fn step_demand(&mut self, core: &mut Core, family: Family, input: refresh_demand::Input) {
        use refresh_demand::Effect;
        let slot = self.slots.get_mut(family);
        let row = refresh_demand::take(slot.demand, input);
        slot.demand = row.next;
        for effect in row.effects {
            let outcome = match effect {
                Effect::ReportSame => RefreshOutcome::Same,
                Effect::ReportDiffers => RefreshOutcome::Differs,
                Effect::ReportPart => RefreshOutcome::Part,
                Effect::ReportFailed => RefreshOutcome::Failed(slot.words.clone().unwrap_or_default()),
                Effect::ReportLost => RefreshOutcome::Failed("the connection ended".into()),
            };
            let is_queued = core.outbox.iter().any(|output| match output {
                Output::Event(Event::Refreshed { family: other, outcome: same }) => {
                    *other == family && discriminant(same) == discriminant(&outcome)
                }
                Output::Event(_) | Output::Send(_) | Output::Open(_) | Output::Shutdown(_) | Output::Abort(_) => false,
            });
            let is_unpolled = is_queued || core.binding.has_refreshed(family, &outcome);
            match refresh_demand::take_report(if is_unpolled { Unpolled::Yes } else { Unpolled::No }) {
                Report::Tell => core.event(Event::Refreshed { family, outcome }),
                Report::LeaveOut => {}
            }
        }
    }

    /// The wait before a refresh is over.
    pub(in crate::client) fn on_timer(&mut self, core: &mut Core, family: Family) -> Signals {
        self.step_refresh(core, family, refresh::Input::Timer)
    }

    pub(super) fn step_refresh(&mut self, core: &mut Core, family: Family, input: refresh::Input) -> Signals {
        let slot = self.slots.get_mut(family);
        let row = refresh::take(slot.refresh, input);
        slot.refresh = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail =
                "refreshes after `list_changed` found the same list several times in a row; refreshed less often";
            core.quirk(kind, Some(family), Some(family.list_method()), detail);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let slot = self.slots.get_mut(family);
            match effect {
                refresh::Effect::Arm => {
                    let timeouts = &core.options.timeouts;
                    let gathered = core.after(timeouts.debounce);
                    slot.stale = true;
                    let interval = crate::time::backoff(timeouts.refresh_interval, slot.slow, LONGEST_WAIT);
                    let spaced = slot.last_listed.map(|last| last + interval);
                    core.timers.set(Timer::Refresh(family), Some(gathered.max(spaced.unwrap_or(gathered))));
                }
                refresh::Effect::ArmRetry => {
                    slot.stale = true;
                    let interval = core.options.timeouts.refresh_interval;
                    let wait = crate::time::backoff(interval, slot.failures, LONGEST_WAIT);
                    slot.failures = slot.failures.saturating_add(1).min(16);
                    core.arm(Timer::Refresh(family), wait);
                }
                refresh::Effect::Request => {
                    core.timers.set(Timer::Refresh(family), None);
                    self.step_demand(core, family, refresh_demand::Input::Requested);
                    // The start of a list does not end it.
                    self.step_paging(core, family, paging::Input::Start);
                }
                refresh::Effect::Commit => signals.extend(self.refreshed(core, family, FamilyStatus::Listed)),
                refresh::Effect::CommitPart => signals.extend(self.refreshed(core, family, FamilyStatus::Partial)),
                refresh::Effect::Count => slot.unchanged = slot.unchanged.more(),
                refresh::Effect::Slow => slot.slow = slot.slow.saturating_add(1).min(16),
                refresh::Effect::Steady => (slot.slow, slot.unchanged) = Default::default(),
                refresh::Effect::Drop => {
                    slot.listing = None;
                    signals.extend(Signals::schemas(family, false));
                }
            }
        }
        let found = match input {
            refresh::Input::Differs => refresh_demand::Input::Differs,
            refresh::Input::Same | refresh::Input::SameAnnounced | refresh::Input::SameAgain => {
                refresh_demand::Input::Same
            }
            refresh::Input::Part => refresh_demand::Input::Part,
            refresh::Input::Failed => refresh_demand::Input::Failed,
            refresh::Input::ListChanged
            | refresh::Input::Outdated
            | refresh::Input::Wanted
            | refresh::Input::Timer
            | refresh::Input::Reset => return signals,
        };
        self.step_demand(core, family, found);
        signals
    }

    /// The whole list of a refresh was received.
    pub(super) fn on_refreshed(&mut self, core: &mut Core, family: Family) -> Signals {
        if let Some(listing) = &mut self.slots.get_mut(family).listing {
            listing.done = Some(core::mem::take(&mut listing.items).finish());
        }
        let input = self.compare(core, family);
        self.step_refresh(core, family, input)
    }

    /// Compares the list of a refresh with the known one.
    fn compare(&self, core: &Core, family: Family) -> refresh::Input {
        let slot = self.slots.get(family);
        let done = slot.listing.as_ref().and_then(|listing| listing.done.as_ref());
        let same = done.is_some_and(|list| list.has_same_items(core.catalog.list(family)));
        let found = if same { Found::Same } else { Found::Differs };
        refresh::take_compared(found, slot.refresh.cause(), slot.unchanged)
    }

    fn refreshed(&mut self, core: &mut Core, family: Family, status: FamilyStatus) -> Signals {
        self.slots.get_mut(family).failures = 0;
        self.set_status(core, family, status);
        self.commit(core, family);
        core.release_memory();
        Signals::schemas(family, true)
    }
}
