use alloc::collections::{BTreeSet, VecDeque};

/// The requests that wait to be encoded.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Queues {
    engine: VecDeque<u64>,
    /// The queues of the embedder's requests: tool calls, and all others.
    tools: BTreeSet<u64>,
    others: BTreeSet<u64>,
}

impl Queues {
    /// Queues a request of the engine, which is the newest.
    #[inline]
    pub(super) fn add_engine(&mut self, id: u64) {
        self.engine.push_back(id);
    }

    #[inline]
    pub(super) fn remove_engine(&mut self, id: u64) {
        if let Ok(at) = self.engine.binary_search(&id) {
            self.engine.remove(at);
        }
    }

    #[inline]
    pub(super) fn engine(&self) -> impl Iterator<Item = u64> {
        self.engine.iter().copied()
    }

    #[inline]
    pub(super) fn next_engine(&mut self) -> Option<u64> {
        self.engine.pop_front()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.engine.is_empty() && self.tools.is_empty() && self.others.is_empty()
    }

    fn calls(&mut self, tool: bool) -> &mut BTreeSet<u64> {
        if tool { &mut self.tools } else { &mut self.others }
    }

    /// Queues a request of the embedder, for the first time or again.
    #[inline]
    pub(super) fn add_call(&mut self, id: u64, tool: bool) {
        self.calls(tool).insert(id);
    }

    #[inline]
    pub(super) fn remove_call(&mut self, id: u64, tool: bool) {
        self.calls(tool).remove(&id);
    }

    /// The queued requests of the embedder, each with whether it is queued as a tool call.
    #[cfg(feature = "snapshot")]
    pub(super) fn all_calls(&self) -> impl Iterator<Item = (u64, bool)> {
        let of = |queue: &BTreeSet<u64>, tool| queue.iter().map(move |id| (*id, tool)).collect::<alloc::vec::Vec<_>>();
        of(&self.tools, true).into_iter().chain(of(&self.others, false))
    }

    #[inline]
    pub(super) fn len_calls(&self) -> usize {
        self.tools.len().saturating_add(self.others.len())
    }

    /// The oldest request of the embedder; with `tools`, also tool calls.
    #[inline]
    pub(super) fn next_call(&mut self, tools: bool) -> Option<u64> {
        let other = self.others.first().copied();
        let tool = self.tools.first().copied().filter(|_| tools);
        tool.or(other)?;
        let is_tool = tool.is_some_and(|tool| other.is_none_or(|other| tool < other));
        self.calls(is_tool).pop_first()
    }
}
