//! The pages of a list that is being received.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;

use super::super::core::Core;
use super::super::request_table::Purpose;
use super::Lists;
use crate::machine::Verdict;
use crate::machine::paging::{self, Effect, Input};
use crate::protocol::Family;

/// How a list ended.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The whole list was received.
    Whole,
    /// Its beginning was received.
    Part,
    /// It failed.
    Failed,
}

impl Lists {
    /// Steps the pages of a family's list, and requests the next one. Returns how the list ends, if it does.
    pub(super) fn step_paging(&mut self, core: &mut Core, family: Family, input: Input) -> Option<End> {
        let slot = self.slots.get_mut(family);
        let row = paging::take(slot.paging, input);
        slot.paging = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let words = self.slots.get(family).words.as_deref();
            core.quirk(kind, Some(family), Some(family.list_method()), quirk_text(input, words.unwrap_or_default()));
        }
        let mut end = None;
        for effect in row.effects {
            match effect {
                Effect::RequestFirst => {
                    self.slots.get_mut(family).listing = Some(Box::default());
                    self.request_page(core, family, None);
                }
                Effect::RequestNext => {
                    let cursor = self.slots.get_mut(family).listing.as_mut().and_then(|listing| listing.next.take());
                    self.request_page(core, family, cursor);
                }
                Effect::EndWhole => end = Some(End::Whole),
                Effect::EndPart => end = Some(End::Part),
                Effect::EndFailed => end = Some(End::Failed),
            }
        }
        end
    }

    pub(super) fn request_page(&mut self, core: &mut Core, family: Family, cursor: Option<Box<str>>) {
        let deadline = core.request_deadline();
        let id = core.requests.insert(Purpose::List { family, cursor }, Some(deadline));
        if let Some(listing) = self.slots.get_mut(family).listing.as_mut().filter(|listing| listing.pages == 0) {
            listing.first = id;
        }
    }
}

/// The description of a deviation in the pages of a list; `error` is the last error of the list.
fn quirk_text(input: Input, error: &str) -> Cow<'static, str> {
    match input {
        Input::CursorRefused => format!("the server refused its own cursor ({error}); began again").into(),
        Input::RepeatedEmpty | Input::RepeatedNew => {
            "a cursor came twice; it is followed while its pages bring something new".into()
        }
        Input::Limit => "longer than the bounds; the rest is left out".into(),
        Input::Start | Input::More | Input::Last | Input::EmptyCursor | Input::Failed | Input::Stop => Cow::default(),
    }
}
