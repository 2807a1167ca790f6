use alloc::collections::BTreeSet;

/// How many ids of abandoned requests are remembered, to recognize their late responses.
const ABANDONED: usize = 1024;

/// The ids on the wire that were used.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Ids {
    last: u64,
    /// The first id of this connection, except for carried ones.
    first: u64,
    /// The ids of unsent requests of an earlier connection.
    carried: BTreeSet<u64>,
    /// The ids of requests that are over, and whose responses may still come.
    abandoned: BTreeSet<u64>,
}

impl Ids {
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Whether the ids that are remembered are bounded, and used ones.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_bounded(&self) -> bool {
        let newest = [&self.carried, &self.abandoned].into_iter().filter_map(|ids| ids.last()).max();
        self.abandoned.len() <= ABANDONED && newest.is_none_or(|id| *id <= self.last)
    }

    #[inline]
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Whether it is an id of this connection.
    #[inline]
    pub(super) fn is_current(&self, id: u64) -> bool {
        id >= self.first.max(1) && id <= self.last || self.carried.contains(&id)
    }

    #[inline]
    pub(super) fn is_abandoned(&self, id: u64) -> bool {
        self.abandoned.contains(&id)
    }

    /// The request is over, and its response may still come.
    #[inline]
    pub(super) fn abandon(&mut self, id: u64) {
        self.abandoned.insert(id);
        if self.abandoned.len() > ABANDONED {
            self.abandoned.pop_first();
        }
    }

    /// The late response came.
    #[inline]
    pub(super) fn forget(&mut self, id: u64) {
        self.abandoned.remove(&id);
    }

    /// The connection ended; these requests go to the next one.
    #[inline]
    pub(super) fn end_connection(&mut self, carried: impl Iterator<Item = u64>) {
        self.abandoned.clear();
        self.carried = carried.collect();
        self.first = self.last.saturating_add(1);
    }
}
