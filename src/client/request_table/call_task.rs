use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::time::Duration;

use super::super::views::TaskStatus;
use crate::Time;
use crate::machine::task::State;

/// A task that the server runs for a call.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::client) struct CallTask {
    /// The server's id.
    pub(in crate::client) id: Box<str>,
    pub(in crate::client) state: State,
    /// The status and the message that were last reported to the embedder.
    pub(in crate::client) reported_status: Option<(TaskStatus, Option<Box<str>>)>,
    /// The wait before each poll.
    pub(in crate::client) interval: Duration,
    /// The progress token of the call, which stays valid.
    pub(in crate::client) token: u64,
    /// When it is polled next, while nothing is on its way.
    pub(in crate::client) poll_at: Option<Time>,
    /// The keys of the inputs that were required so far, and their bytes.
    pub(in crate::client) keys: BTreeSet<Box<str>>,
    pub(in crate::client) key_bytes: usize,
}
