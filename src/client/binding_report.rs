use super::{Event, RefreshOutcome};
use crate::protocol::{Family, PerFamily};

/// What the HTTP binding tells the engine.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct BindingReport {
    /// Tool calls are held: the binding waits for the GET stream, on which the server may send requests.
    pub(super) holds_tools: bool,
    /// Messages without a response that the binding took and that are not delivered yet, and their bytes.
    pub(super) undelivered: (usize, usize),
    /// Events that the binding took and that are not polled yet, and their bytes of the server's data.
    pub(super) unpolled: (usize, usize),
    /// The outcomes of refreshes among them, as a set of kinds. Not in a snapshot: the binding reports them again.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    pub(super) refreshed: PerFamily<u8>,
}

impl BindingReport {
    /// Whether an outcome of this kind, for this family, waits in the binding to be polled.
    pub(super) const fn has_refreshed(&self, family: Family, outcome: &RefreshOutcome) -> bool {
        *self.refreshed.get(family) & kind(outcome) != 0
    }

    /// The binding took an event, which waits to be polled.
    pub(super) fn queued(&mut self, event: &Event) {
        if let Event::Refreshed { family, outcome } = event {
            *self.refreshed.get_mut(*family) |= kind(outcome);
        }
    }

    /// An event was polled from the binding.
    pub(super) fn polled(&mut self, event: &Event) {
        if let Event::Refreshed { family, outcome } = event {
            *self.refreshed.get_mut(*family) &= !kind(outcome);
        }
    }
}

/// The kind of an outcome, as a set of one.
const fn kind(outcome: &RefreshOutcome) -> u8 {
    match outcome {
        RefreshOutcome::Same => 1,
        RefreshOutcome::Differs => 2,
        RefreshOutcome::Part => 4,
        RefreshOutcome::Failed(_) => 8,
    }
}
