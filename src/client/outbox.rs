use alloc::collections::VecDeque;

use super::{Outgoing, Output};

/// The outputs that wait to be polled.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Outbox {
    queue: VecDeque<Output>,
    /// Bytes in it that the server sent unsolicited, and of responses to them.
    unasked_bytes: usize,
    /// Number of events that were ever queued.
    events: u64,
}

impl Outbox {
    pub(super) fn push(&mut self, output: Output) {
        self.events = self.events.saturating_add(u64::from(matches!(output, Output::Event(_))));
        self.unasked_bytes = self.unasked_bytes.saturating_add(output.unasked_bytes());
        self.queue.push_back(output);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Output> {
        let output = self.queue.pop_front()?;
        self.unasked_bytes = self.unasked_bytes.saturating_sub(output.unasked_bytes());
        Some(output)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Output> {
        self.queue.iter()
    }

    /// Number of events that were ever queued. Events are never withdrawn.
    pub(super) const fn events(&self) -> u64 {
        self.events
    }

    pub(super) const fn unasked_bytes(&self) -> usize {
        self.unasked_bytes
    }

    /// Withdraws outputs that were not polled.
    pub(super) fn take_back(&mut self, unwanted: impl Fn(&Output) -> bool) {
        self.queue.retain(|output| !unwanted(output));
        self.unasked_bytes = self.queue.iter().map(Output::unasked_bytes).sum();
    }

    /// Withdraws outputs for a transport that is gone.
    pub(super) fn take_back_transport(&mut self) {
        self.take_back(|output| matches!(output, Output::Send(_) | Output::Shutdown(_) | Output::Open(_)));
    }

    /// Withdraws a request.
    pub(super) fn retract(&mut self, id: u64) {
        // Requests do not count as unsolicited. If many are withdrawn in turn, each is near the front.
        let is_it = |output: &Output| matches!(output, Output::Send(Outgoing { id: Some(sent), .. }) if *sent == id);
        if let Some(at) = self.queue.iter().position(is_it) {
            self.queue.remove(at);
        }
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn check(&self) -> Result<(), crate::snapshot::SnapshotError> {
        let bytes: usize = self.queue.iter().map(Output::unasked_bytes).sum();
        let events = self.queue.iter().filter(|output| matches!(output, Output::Event(_))).count();
        if bytes == self.unasked_bytes && u64::try_from(events).is_ok_and(|events| events <= self.events) {
            Ok(())
        } else {
            Err(crate::snapshot::invalid("its outputs are counted wrongly"))
        }
    }

    /// Releases memory that is not needed.
    pub(super) fn release(&mut self) {
        self.queue.shrink_to_fit();
    }
}
