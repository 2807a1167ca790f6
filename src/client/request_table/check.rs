//! Checks a request table from a snapshot (feature `snapshot`).

use super::{OpenRequest, Purpose, RequestTable, State};
use crate::client::Limits;
use crate::snapshot::{SnapshotError, invalid, within};

impl RequestTable {
    /// Checks that the indices and counts are those of the open requests, and the limits.
    pub(in crate::client) fn check(&self, limits: &Limits) -> Result<(), SnapshotError> {
        let mut expected = Self { deadlines: self.deadlines.emptied(), ..Self::default() };
        for (id, open) in &self.open {
            expected.add(*id, open.clone());
        }
        let same = (&self.deadlines, &self.flight, self.input_bytes, &self.tasks)
            == (&expected.deadlines, &expected.flight, expected.input_bytes, &expected.tasks);
        let queued = |id: u64| self.open.get(&id).filter(|open| open.phase == State::Queued);
        let engine = self.queues.engine().all(|id| queued(id).is_some_and(|open| !open.is_call()));
        let mut calls = self.queues.all_calls();
        let calls = calls
            .all(|(id, tool)| queued(id).is_some_and(|open| open.is_call() && open.purpose.is_tool_call() == tool));
        let renamed = self.renamed.iter().all(|(handle, id)| self.call(*id).is_none_or(|call| call.handle == *handle));
        let known = self.open.keys().next_back().is_none_or(|id| *id <= self.ids.last()) && self.ids.is_bounded();
        if !(same && engine && calls && renamed && known) {
            return Err(invalid("its requests contradict each other"));
        }
        let calls = self.open.values().filter(|open| open.is_call()).count();
        within("queued", calls, limits.queued.saturating_add(limits.in_flight))
    }
}

impl OpenRequest {
    const fn is_call(&self) -> bool {
        matches!(self.purpose, Purpose::Call(_))
    }
}
