//! What follows when a list ends, in discovery or in a refresh.

use super::super::core::Core;
use super::super::signal::Signals;
use super::Lists;
use super::pages::End;
use crate::machine::discovery;
use crate::machine::list_error::Class;
use crate::machine::refresh::{self, Owner};
use crate::protocol::Family;

impl Lists {
    /// A list ended; `class` is the class of the error, if it failed.
    pub(super) fn on_end(&mut self, core: &mut Core, family: Family, end: End, class: Class) -> Signals {
        match (refresh::take_owner(self.slots.get(family).refresh), end) {
            (Owner::Refresh, End::Whole) => self.on_refreshed(core, family),
            (Owner::Refresh, End::Part) => self.step_refresh(core, family, refresh::Input::Part),
            (Owner::Refresh, End::Failed) => self.step_refresh(core, family, refresh::Input::Failed),
            (Owner::Discovery, End::Whole) => self.step_discovery(core, family, discovery::Input::Whole),
            (Owner::Discovery, End::Part) => self.step_discovery(core, family, discovery::Input::Part),
            (Owner::Discovery, End::Failed) => self.on_discovery_failure(core, family, class),
        }
    }
}
