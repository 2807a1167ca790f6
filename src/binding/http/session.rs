//! The session of Streamable HTTP (specification 2025-11-25, "Session Management").

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use http::{HeaderMap, HeaderValue};

use super::request::SESSION_ID;

/// Methods that are remembered for a 404.
const METHODS: usize = 16;

/// The session id, and data of the previous session.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Session {
    #[cfg_attr(feature = "snapshot", serde(with = "super::form::optional_header"))]
    id: Option<HeaderValue>,
    /// The previous session, which the server may still know.
    #[cfg_attr(feature = "snapshot", serde(with = "super::form::optional_header"))]
    former: Option<HeaderValue>,
    /// The methods that the server answered with 404 in the previous session, and not otherwise since.
    not_found: VecDeque<Box<str>>,
}

impl Session {
    pub(super) const fn id(&self) -> Option<&HeaderValue> {
        self.id.as_ref()
    }

    pub(super) const fn has_former(&self) -> bool {
        self.former.is_some()
    }

    pub(super) fn take_former(&mut self) -> Option<HeaderValue> {
        self.former.take()
    }

    /// A new connection: the session becomes the previous one.
    pub(super) fn renew(&mut self) {
        if let Some(former) = self.id.take() {
            self.former = Some(former);
        }
    }

    /// Drops the ids, which are secrets.
    #[cfg(feature = "snapshot")]
    pub(super) fn forget(&mut self) {
        (self.id, self.former) = (None, None);
    }

    /// `initialize` is sent: a session id from an earlier one on this connection is invalid.
    pub(super) fn reset(&mut self) {
        self.id = None;
    }

    /// Takes the id from the response to `initialize`.
    pub(super) fn open(&mut self, headers: &HeaderMap) {
        self.id = headers.get(SESSION_ID).filter(|id| is_visible(id.as_bytes())).cloned();
        if let Some(id) = &mut self.id {
            // Whoever has the id can use the session.
            id.set_sensitive(true);
        }
    }

    /// A request of this method was answered with 404, so the session counts as expired.
    pub(super) fn add_not_found(&mut self, method: &str) {
        if self.is_not_found(method) {
            return;
        }
        if self.not_found.len() >= METHODS {
            self.not_found.pop_front();
        }
        self.not_found.push_back(method.into());
    }

    /// A request of this method was answered otherwise.
    pub(super) fn remove_not_found(&mut self, method: &str) {
        if !self.not_found.is_empty() {
            self.not_found.retain(|known| **known != *method);
        }
    }

    /// Whether a new session was opened since a request of this method was answered with 404.
    pub(super) fn is_not_found(&self, method: &str) -> bool {
        self.not_found.iter().any(|known| **known == *method)
    }
}

pub(super) fn is_visible(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_graphic)
}
