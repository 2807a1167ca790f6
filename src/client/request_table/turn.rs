//! Which queued request is sent next.

use super::RequestTable;
use crate::machine::turn::{Phase, Room, Tools, take};

impl RequestTable {
    /// The next request to encode, if one may be sent. `limit`: of requests in flight. `held`: the binding holds tool calls
    /// back. Without `parallel`, one tool is called at a time.
    #[inline]
    pub(in crate::client) fn next(&mut self, limit: usize, phase: Phase, held: bool, parallel: bool) -> Option<u64> {
        if self.queues.is_empty() { None } else { self.next_queued(limit, phase, held, parallel) }
    }

    fn next_queued(&mut self, limit: usize, phase: Phase, held: bool, parallel: bool) -> Option<u64> {
        let full = usize::try_from(self.flight.len()).is_ok_and(|in_flight| in_flight >= limit);
        let room = if full { Room::Full } else { Room::Free };
        let tools = match (held, parallel || !self.flight.has_tools()) {
            (true, _) => Tools::Held,
            (false, false) => Tools::Busy,
            (false, true) => Tools::Free,
        };
        self.queues.next(|queued| take(room, phase, queued, tools))
    }
}
