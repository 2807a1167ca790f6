use alloc::vec::Vec;

/// The ids on the wire that do not wait for a response any more, until an HTTP binding takes them. There is rarely more
/// than one, which needs no allocation.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Settled {
    /// There is a binding that takes them.
    tracked: bool,
    next: Option<u64>,
    more: Vec<u64>,
}

impl Settled {
    #[inline]
    pub(super) fn track(&mut self) {
        self.tracked = true;
    }

    /// A request does not wait for a response any more.
    #[inline]
    pub(super) fn add(&mut self, id: u64) {
        if self.tracked && self.next.is_some() {
            self.more.push(id);
        } else if self.tracked {
            self.next = Some(id);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none() && self.more.is_empty()
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<u64> {
        let next = self.next.take().or_else(|| self.more.pop());
        if self.more.is_empty() {
            // The memory of a burst is released.
            self.more = Vec::new();
        }
        next
    }
}
