use core::time::Duration;

use super::timers::Timer;
use super::{Event, FamilyStatus, Session};
use crate::machine::{Verdict, refresh};
use crate::protocol::Family;

/// The longest wait between tries of a refresh that fails.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

impl Session {
    pub(super) fn refresh_step(&mut self, family: Family, input: refresh::Input) {
        let slot = self.families.get_mut(family);
        let row = refresh::step(slot.refresh, input);
        slot.refresh = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.walk_quirk(kind, family);
        }
        for effect in row.effects {
            match effect {
                refresh::Effect::Arm => {
                    let timeouts = &self.options.timeouts;
                    let slot = self.families.get_mut(family);
                    slot.stale = true;
                    let gathered = self.now + timeouts.debounce;
                    let spaced = slot.last_walk.map(|last| last + timeouts.refresh_interval);
                    self.timers.set(Timer::Refresh(family), Some(gathered.max(spaced.unwrap_or(gathered))));
                }
                refresh::Effect::ArmRetry => {
                    let slot = self.families.get_mut(family);
                    slot.stale = true;
                    let factor = 1_u32.checked_shl(slot.failures.min(16)).unwrap_or(u32::MAX);
                    slot.failures = slot.failures.saturating_add(1);
                    let wait = self.options.timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_RETRY);
                    self.timers.set(Timer::Refresh(family), Some(self.now + wait));
                }
                refresh::Effect::Ask => self.ask_first_page(family),
                refresh::Effect::AskNext => self.ask_page(family),
                refresh::Effect::Commit => self.refreshed(family, FamilyStatus::Listed),
                refresh::Effect::CommitPart => self.refreshed(family, FamilyStatus::Partial),
                refresh::Effect::Drop => self.families.get_mut(family).walk = None,
            }
        }
    }

    fn refreshed(&mut self, family: Family, status: FamilyStatus) {
        let slot = self.families.get_mut(family);
        slot.failures = 0;
        slot.status = status;
        self.commit(family);
    }

    /// Takes a family's walk as its list, and tells where it differs from the one before.
    pub(super) fn commit(&mut self, family: Family) {
        let slot = self.families.get_mut(family);
        let Some(walk) = slot.walk.take() else { return };
        slot.pages = walk.items.pages();
        slot.stale = false;
        slot.last_walk = Some(self.now);
        let difference = self.catalog.replace(family, walk.items.finish());
        if self.was_ready && !difference.is_empty() {
            self.event(Event::CatalogChanged { family, difference });
        }
    }
}
