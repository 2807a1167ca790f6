//! What follows when a list fails, or when the exchange of one of its pages breaks.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use super::super::FailureKind;
use super::super::core::{Core, Stage};
use super::super::error_class::class_of;
use super::super::signal::Signals;
use super::Lists;
use super::list_failure::ListFailure;
use crate::catalog::PageReport;
use crate::machine::list_error::{self, Broken, Class};
use crate::machine::resend::{self, Reason};
use crate::machine::{loss, paging};
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
        match self.step_paging(core, family, input) {
            Some(end) => self.on_end(core, family, end, class),
            None => Signals::NONE,
        }
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
}
