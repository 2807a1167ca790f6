//! Elicitations at a URL whose end the server may report (specification 2025-11-25, "Elicitation", Completion
//! Notifications).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use serde_json::value::RawValue;

use super::{Event, RequestId};
use crate::jsonrpc::Json;

/// Maximum bytes of an id.
const LONGEST_ID: usize = 1024;

/// The elicitations that are not known to be complete, oldest first.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct UrlElicitations(VecDeque<(Box<str>, Option<RequestId>)>);

impl UrlElicitations {
    /// Number of elicitations.
    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The server asks for an elicitation, for a request of the embedder if it names that. The oldest one is forgotten
    /// beyond the limit.
    pub(super) fn add(&mut self, id: Box<str>, request: Option<RequestId>, limit: usize) {
        if id.len() > LONGEST_ID || limit == 0 {
            return;
        }
        self.0.retain(|(known, _)| *known != id);
        if self.0.len() >= limit {
            self.0.pop_front();
        }
        self.0.push_back((id, request));
    }

    /// Takes `notifications/elicitation/complete`. One with an unknown id, or for the second time, is ignored.
    pub(super) fn on_complete(&mut self, params: Option<&RawValue>) -> Option<Event> {
        let id = Json::from(params?).member("elicitationId").and_then(Json::as_string)?;
        let (id, request) = self.take(&id)?;
        Some(Event::ElicitationComplete { id, request })
    }

    fn take(&mut self, id: &str) -> Option<(Box<str>, Option<RequestId>)> {
        let at = self.0.iter().position(|(known, _)| **known == *id)?;
        self.0.remove(at)
    }
}
