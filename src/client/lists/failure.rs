//! What follows when a list fails, or when the exchange of one of its pages breaks.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use super::super::core::{Core, Stage, declaration};
use super::super::error_class::class_of;
use super::super::signal::Signals;
use super::super::{FailureKind, ListErrors};
use super::list_failure::ListFailure;
use super::{FamilyStatus, Lists};
use crate::catalog::PageReport;
use crate::machine::list_error::{self, Broken, Class, Cost, Meaning};
use crate::machine::resend::{self, Reason};
use crate::machine::{discovery, loss, paging};
use crate::protocol::{Family, error_code};
use crate::text::excerpt;

impl Lists {
    /// Takes a failure of a list.
    pub(in crate::client) fn on_failure(
        &mut self,
        core: &mut Core,
        family: Family,
        failure: ListFailure<'_>,
    ) -> Signals {
        let slot = self.slots.get_mut(family);
        let Some(listing) = &mut slot.listing else { return Signals::NONE };
        let on_cursor = listing.pages > 0;
        listing.add_flaws(core, family, PageReport::default(), false, true);
        let (words, class, refused) = match failure {
            ListFailure::Server(error) => {
                (error.to_string().into(), class_of(error), error.code == error_code::INVALID_PARAMS)
            }
            ListFailure::Engine(words) => (words, Class::Other, false),
        };
        slot.words = Some(Box::from(excerpt(&words)));
        let input = if refused && on_cursor { paging::Input::CursorRefused } else { paging::Input::Failed };
        self.step_paging(core, family, input, Some(class))
    }

    /// The exchange of a page broke.
    pub(in crate::client) fn on_broken(
        &mut self,
        core: &mut Core,
        family: Family,
        cursor: Option<Box<str>>,
        words: String,
    ) -> Signals {
        let Some(listing) = &mut self.slots.get_mut(family).listing else { return Signals::NONE };
        let phase = match core.stage() {
            Stage::Discovery => list_error::Phase::Discovery,
            Stage::Down | Stage::Handshake | Stage::Ready | Stage::Closing | Stage::Closed => list_error::Phase::Ready,
        };
        let reconnect = match core.options.reconnect {
            Some(_) => list_error::Reconnect::On,
            None => list_error::Reconnect::Off,
        };
        match list_error::take_broken(resend::take(Reason::Broken, listing.broken), phase, reconnect) {
            Broken::Again => {
                listing.broken = listing.broken.more();
                self.request_page(core, family, cursor);
                Signals::NONE
            }
            Broken::Lost => {
                let message = format!("{} during discovery: {words}", core.server_name());
                Signals::lost(FailureKind::Closed, message, loss::Transport::Closed)
            }
            Broken::Failed => self.on_failure(core, family, ListFailure::Engine(words.into())),
        }
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
