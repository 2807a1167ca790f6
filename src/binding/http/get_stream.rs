//! The GET stream, on which a legacy server sends what no request asked for.

use alloc::vec::Vec;
use core::time::Duration;

use super::limits::{LONGEST_RETRY, RETRY, SHORTEST_RETRY};
use crate::machine::Row;
use crate::machine::get_stream::{Effect, Input, State, take};

/// The state of the GET stream, and what the next GET needs.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct GetStream {
    state: State,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    last_id: Vec<u8>,
    /// The wait before the next GET that the server named.
    retry: Option<Duration>,
    /// GETs in a row that brought nothing.
    barren: u32,
}

impl Default for GetStream {
    fn default() -> Self {
        Self { state: State::Idle, last_id: Vec::new(), retry: None, barren: 0 }
    }
}

impl GetStream {
    pub(super) fn step(&mut self, input: Input) -> Row<State, Effect> {
        let row = take(self.state, input);
        self.state = row.next;
        row
    }

    /// What follows is another stream.
    pub(super) fn reset(&mut self) {
        *self = Self { state: self.state, ..Self::default() };
    }

    /// The id of the last event, where it named one.
    pub(super) fn last_id(&self) -> Option<&[u8]> {
        Some(&*self.last_id).filter(|id| !id.is_empty())
    }

    /// A chunk of the stream was read.
    pub(super) fn read(&mut self, any: bool, last_id: Option<&[u8]>, retry: Option<Duration>) {
        self.retry = retry.or(self.retry);
        if let Some(id) = last_id.filter(|id| *id != self.last_id) {
            self.last_id = id.to_vec();
        }
        if any {
            self.barren = 0;
        }
    }

    /// The wait before the next GET; longer each time, where the server does not name one.
    pub(super) fn wait(&mut self) -> Duration {
        let own = crate::time::backoff(RETRY, self.barren, LONGEST_RETRY);
        self.barren = self.barren.saturating_add(1).min(16);
        self.retry.unwrap_or(own).max(SHORTEST_RETRY)
    }
}
