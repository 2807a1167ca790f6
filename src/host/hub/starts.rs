//! Component: which servers are starting, and which wait for room or for an earlier session of the same server.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::event::SessionHandle;

/// The rank of a server in the order of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Rank {
    /// A request waits for it.
    Called,
    Required,
    Other,
}

impl Rank {
    const ALL: [Self; 3] = [Self::Called, Self::Required, Self::Other];
}

/// The servers that are starting, or wait to.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Starts {
    /// The servers that wait for room.
    queued: BTreeSet<(Rank, SessionHandle)>,
    /// How many wait for an earlier session of their server.
    awaiting: usize,
    /// How many are starting.
    starting: usize,
    /// How many earlier sessions of a server are not closed yet.
    leaving: BTreeMap<Arc<str>, u32>,
}

impl Starts {
    pub(super) fn begin_wait(&mut self) {
        self.awaiting = self.awaiting.saturating_add(1);
    }

    pub(super) fn end_wait(&mut self) {
        self.awaiting = self.awaiting.saturating_sub(1);
    }

    pub(super) fn queue(&mut self, rank: Rank, handle: SessionHandle) {
        self.queued.insert((rank, handle));
    }

    pub(super) fn dequeue(&mut self, handle: SessionHandle) {
        for rank in Rank::ALL {
            self.queued.remove(&(rank, handle));
        }
    }

    pub(super) fn take_room(&mut self) {
        self.starting = self.starting.saturating_add(1);
    }

    pub(super) fn release_room(&mut self) {
        self.starting = self.starting.saturating_sub(1);
    }

    /// The next server to start, if fewer than `limit` are starting.
    pub(super) fn next(&mut self, limit: usize) -> Option<SessionHandle> {
        if self.starting >= limit {
            return None;
        }
        self.queued.pop_first().map(|(_, handle)| handle)
    }

    /// Whether no server is starting or waits to.
    pub(super) fn is_settled(&self) -> bool {
        self.starting == 0 && self.queued.is_empty() && self.awaiting == 0
    }

    /// Whether an earlier session of the server is not closed yet.
    pub(super) fn is_leaving(&self, server: &str) -> bool {
        self.leaving.contains_key(server)
    }

    pub(super) fn depart(&mut self, server: &Arc<str>) {
        let count = self.leaving.entry(Arc::clone(server)).or_default();
        *count = count.saturating_add(1);
    }

    /// An earlier session is closed. Returns whether it was the last one of its server.
    pub(super) fn free(&mut self, server: &str) -> bool {
        let Some(count) = self.leaving.get_mut(server) else { return false };
        *count = count.saturating_sub(1);
        let last = *count == 0;
        if last {
            self.leaving.remove(server);
        }
        last
    }
}
