//! Without the feature `oauth` the embedder adds credentials.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use http::header::HeaderMap;
use http::{StatusCode, Uri};

use super::HttpAction;
use super::refusal::{Refusal, Waiting};
use super::request::Identity;
use crate::Time;
use crate::client::StartId;
use crate::machine::http_response::refusal::Authority;
use crate::machine::http_response::refusal::challenge::Step;

/// The credentials that a request was sent with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// How often the request was refused for lack of authorization before.
    pub(super) refused: u8,
}

impl Sent {
    pub(super) const fn after(refused: u8) -> Self {
        Self { refused }
    }
}

/// There is no authorization.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {}

#[expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "as with the feature `oauth`")]
impl Tokens {
    pub(super) fn handle_timeout(&mut self, _: Time) {}

    pub(super) const fn set_modern(&mut self, _: bool) {}

    pub(super) const fn is_set(&self) -> bool {
        false
    }

    pub(super) const fn is_busy(&self) -> bool {
        false
    }

    pub(super) const fn close(&mut self) {}

    pub(super) const fn deadline(&self) -> Option<Time> {
        None
    }

    pub(super) const fn has_actions(&self) -> bool {
        false
    }

    pub(super) const fn poll(&mut self, _: &Identity) -> Option<HttpAction> {
        None
    }

    pub(super) const fn prepare(&mut self, _: Time, _: StartId, _: (&str, &Uri), _: bool) -> bool {
        true
    }

    pub(super) const fn present(&mut self, _: StartId, _: &mut HeaderMap, _: &mut Sent) {}

    pub(super) const fn next_ready(&mut self) -> Option<(StartId, bool)> {
        None
    }

    pub(super) fn forget(&mut self, _: StartId) {}

    pub(super) fn on_head(&mut self, _: Time, _: Sent, _: StatusCode, _: &HeaderMap) {}

    pub(super) fn authority(&mut self, _: Time, _: Sent, _: &Refusal, _: bool) -> (Authority, Option<Box<str>>, Step) {
        (Authority::Embedder, None, Step::Refuse)
    }

    pub(super) const fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(text)
    }

    pub(super) const fn waiting(&mut self) -> Option<&mut Waiting> {
        None
    }

    pub(super) fn update(&mut self, _: impl FnOnce(&mut Waiting)) {}

    pub(super) const fn pop_verdict(&mut self) -> Option<Result<(), Box<str>>> {
        None
    }
}
