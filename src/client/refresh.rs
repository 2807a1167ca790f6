use core::time::Duration;

use super::timers::Timer;
use super::walk::Walk;
use super::{CommandError, Engine, Event, FamilyStatus};
use crate::Time;
use crate::catalog::Difference;
use crate::machine::{Verdict, gate, paging, refresh};
use crate::protocol::Family;

/// The longest wait between walks that fail, or bring nothing.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How many walks in a row without a difference make a loop.
const LOOP: u32 = 3;

impl Engine {
    pub(super) fn refresh_step(&mut self, family: Family, input: refresh::Input) {
        let slot = self.families.get_mut(family);
        let row = refresh::take(slot.refresh, input);
        slot.refresh = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.walk_quirk(kind, family);
        }
        for effect in row.effects {
            match effect {
                refresh::Effect::Arm => {
                    let timeouts = &self.options.timeouts;
                    let gathered = self.after(timeouts.debounce);
                    let slot = self.families.get_mut(family);
                    slot.stale = true;
                    let factor = 1_u32.checked_shl(slot.slow).unwrap_or(u32::MAX);
                    let interval = timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_WAIT);
                    let spaced = slot.last_walk.map(|last| last + interval);
                    self.timers.set(Timer::Refresh(family), Some(gathered.max(spaced.unwrap_or(gathered))));
                }
                refresh::Effect::ArmRetry => {
                    let slot = self.families.get_mut(family);
                    slot.stale = true;
                    let factor = 1_u32.checked_shl(slot.failures.min(16)).unwrap_or(u32::MAX);
                    slot.failures = slot.failures.saturating_add(1);
                    let wait = self.options.timeouts.refresh_interval.saturating_mul(factor).min(LONGEST_WAIT);
                    self.arm(Timer::Refresh(family), wait);
                }
                refresh::Effect::Ask => {
                    self.timers.set(Timer::Refresh(family), None);
                    self.paging_step(family, paging::Input::Start, None);
                }
                refresh::Effect::Commit => self.refreshed(family, FamilyStatus::Listed),
                refresh::Effect::CommitPart => self.refreshed(family, FamilyStatus::Partial),
                refresh::Effect::Slow => {
                    let slot = self.families.get_mut(family);
                    slot.slow = slot.slow.saturating_add(1).min(16);
                }
                refresh::Effect::Steady => {
                    let slot = self.families.get_mut(family);
                    (slot.slow, slot.unchanged) = (0, 0);
                }
                refresh::Effect::Drop => {
                    self.families.get_mut(family).walk = None;
                    self.schemas_known(family, false);
                }
            }
        }
    }

    /// Asks for a family's list anew, whatever is known of its freshness.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotReady`], [`CommandError::NotAdvertised`] where the server does not have the family.
    pub(crate) fn refresh(&mut self, now: Time, family: Family) -> Result<(), CommandError> {
        self.check_open()?;
        if !self.is_ready() {
            return Err(CommandError::NotReady);
        }
        if !self.gate(gate::Purpose::Refresh, family).is_allowed() {
            return Err(CommandError::NotAdvertised {
                server: self.server_name().into(),
                method: family.list_method().into(),
                capability: family.capability().as_str(),
            });
        }
        self.advance(now);
        if self.families.get(family).is_settled() {
            let slot = self.families.get_mut(family);
            slot.on_demand |= slot.refresh == refresh::State::Idle;
            self.refresh_step(family, refresh::Input::Wanted);
        }
        self.pump();
        Ok(())
    }

    /// The whole list of a refresh came: whether it differs from the one before.
    pub(super) fn compare(&mut self, family: Family) -> refresh::Input {
        let slot = self.families.get_mut(family);
        let Some(walk) = &mut slot.walk else { return refresh::Input::Differs };
        let list = core::mem::take(&mut walk.items).finish();
        let same = list.has_same_items(self.catalog.list(family));
        walk.done = Some(list);
        let demanded = core::mem::take(&mut slot.on_demand);
        if same && demanded {
            return refresh::Input::Same;
        }
        slot.unchanged = if same { slot.unchanged.saturating_add(1) } else { 0 };
        match slot.unchanged {
            0 => refresh::Input::Differs,
            1..LOOP => refresh::Input::Same,
            _ => refresh::Input::SameAgain,
        }
    }

    fn refreshed(&mut self, family: Family, status: FamilyStatus) {
        let slot = self.families.get_mut(family);
        slot.failures = 0;
        slot.status = status;
        self.commit(family);
        self.schemas_known(family, true);
        self.rest();
    }

    /// Takes a family's walk as its list, and tells where it differs from the one before.
    pub(super) fn commit(&mut self, family: Family) {
        let slot = self.families.get_mut(family);
        let Some(walk) = slot.walk.take() else { return };
        slot.pages = walk.pages;
        slot.fresh_until = walk.ttl.map(|ttl| self.now + ttl);
        slot.stale = false;
        slot.last_walk = Some(self.now);
        let Walk { items, done, .. } = *walk;
        let list = done.unwrap_or_else(|| items.finish());
        let difference = self.was_ready.then(|| Difference::between(self.catalog.list(family), &list));
        // What is the same stays where others may hold it.
        if self.catalog.held(family).is_none_or(|former| !former.is_same(&list)) {
            self.catalog.replace(family, list);
        }
        if let Some(difference) = difference.filter(|difference| !difference.is_empty()) {
            self.event(Event::CatalogChanged { family, difference });
        }
    }
}
