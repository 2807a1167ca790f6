use std::collections::VecDeque;
use std::vec::Vec;

use serde_json::Value;

use crate::Time;
use crate::testkit::recording::{Mismatch, Recording};

/// The journal that a server plays.
#[derive(Debug, Default)]
pub(super) struct Playback {
    pub(super) recording: Option<Recording>,
    pub(super) mismatches: Vec<Mismatch>,
    /// What is said when the session has a stream, in order.
    pub(super) waiting: VecDeque<News>,
    /// When the last of it is due. The next does not come before.
    pub(super) due: Time,
}

#[derive(Debug)]
pub(super) struct News {
    pub(super) at: Time,
    /// The session of the legacy era.
    pub(super) session: Option<u64>,
    pub(super) message: Value,
}
