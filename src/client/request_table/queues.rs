use alloc::collections::{BTreeSet, VecDeque};

use crate::machine::turn::{Queued, Turn};

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

    /// Takes the oldest request of the engine, or else of the embedder, that may be sent.
    #[inline]
    pub(super) fn next(&mut self, turn: impl Fn(Queued) -> Turn) -> Option<u64> {
        let sends = |queued| matches!(turn(queued), Turn::Send);
        if !self.engine.is_empty() && sends(Queued::Engine) {
            return self.engine.pop_front();
        }
        let other = self.others.first().copied().filter(|_| sends(Queued::Other));
        let tool = self.tools.first().copied().filter(|_| sends(Queued::Tool));
        tool.or(other)?;
        let is_tool = tool.is_some_and(|tool| other.is_none_or(|other| tool < other));
        self.calls(is_tool).pop_first()
    }
}
