use super::purpose::Purpose;
use crate::machine::request::State;

/// How the requests in flight are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Flight {
    requests: u32,
    tools: u32,
    /// Number of requests that wait for a response, and the XOR of their ids, which is the id itself if there is one.
    waiting: u32,
    waiting_ids: u64,
}

/// What a request counts as.
#[derive(Clone, Copy)]
pub(super) struct Count {
    tool: bool,
    /// It runs as a task, in whatever phase.
    runs: bool,
    /// It is in flight: the server is expected to respond soon.
    flies: bool,
    /// A response would end it.
    waits: bool,
}

impl Count {
    #[inline]
    pub(super) const fn of(purpose: &Purpose, phase: State) -> Self {
        let runs = matches!(purpose, Purpose::Call(call) if call.task.is_some());
        Self { tool: purpose.is_tool_call(), runs, flies: false, waits: false }.in_phase(purpose, phase)
    }

    /// What the request counts as in another phase.
    #[inline]
    pub(super) const fn in_phase(self, purpose: &Purpose, phase: State) -> Self {
        let (flies, waits) = match purpose {
            Purpose::Listen { agreed, .. } => (false, !*agreed),
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Rediscover
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::CancelTask(_)
            | Purpose::Call(_) => (true, true),
        };
        let (written, sent) = (matches!(phase, State::Written), matches!(phase, State::Sent));
        Self { flies: flies && (written || sent), waits: waits && sent, ..self }
    }
}

impl Flight {
    #[inline]
    pub(super) fn add(&mut self, id: u64, count: Count) {
        self.requests = self.requests.saturating_add(u32::from(count.flies));
        self.tools = self.tools.saturating_add(u32::from(count.flies && count.tool || count.runs));
        if count.waits {
            self.waiting = self.waiting.saturating_add(1);
            self.waiting_ids ^= id;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u64, count: Count) {
        self.requests = self.requests.saturating_sub(u32::from(count.flies));
        self.tools = self.tools.saturating_sub(u32::from(count.flies && count.tool || count.runs));
        if count.waits {
            self.waiting = self.waiting.saturating_sub(1);
            self.waiting_ids ^= id;
        }
    }

    /// Number of requests in flight.
    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.requests
    }

    #[inline]
    pub(super) const fn has_tools(&self) -> bool {
        self.tools > 0
    }

    /// The request that waits for a response, if there is exactly one.
    #[inline]
    pub(super) const fn only(&self) -> Option<u64> {
        if self.waiting == 1 { Some(self.waiting_ids) } else { None }
    }
}
