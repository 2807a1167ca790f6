//! What follows when a list ends, in discovery or in a refresh.

use super::super::core::Core;
use super::super::signal::Signals;
use super::Lists;
use super::pages::End;
use crate::machine::list_error::Class;
use crate::machine::{discovery, refresh};
use crate::protocol::Family;

impl Lists {
    /// A list ended; `class` is the class of the error, if it failed.
    pub(super) fn on_end(&mut self, core: &mut Core, family: Family, end: End, class: Class) -> Signals {
        match (self.is_refreshing(family), end) {
            (true, End::Whole) => self.on_refreshed(core, family),
            (true, End::Part) => self.step_refresh(core, family, refresh::Input::Part),
            (true, End::Failed) => self.step_refresh(core, family, refresh::Input::Failed),
            (false, End::Whole) => self.step_discovery(core, family, discovery::Input::Whole),
            (false, End::Part) => self.step_discovery(core, family, discovery::Input::Part),
            (false, End::Failed) => self.on_discovery_failure(core, family, class),
        }
    }
}
