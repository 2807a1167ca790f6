use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use crate::Time;
use crate::catalog::{Builder, Fingerprint};
use crate::machine::{discovery, refresh};

/// What a session knows of one family.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) discovery: discovery::State,
    pub(super) refresh: refresh::State,
    pub(super) walk: Option<Box<Walk>>,
    pub(super) status: FamilyStatus,
    pub(super) pages: usize,
    pub(super) stale: bool,
    pub(super) failures: u32,
    pub(super) last_walk: Option<Time>,
    /// The server's last words on the family's list.
    pub(super) words: Option<Box<str>>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            discovery: discovery::State::Unasked,
            refresh: refresh::State::Idle,
            walk: None,
            status: FamilyStatus::Unasked,
            pages: 0,
            stale: false,
            failures: 0,
            last_walk: None,
            words: None,
        }
    }
}

impl Slot {
    /// A new connection: the family is asked again, what is known stays.
    pub(super) fn reset(&mut self) {
        self.discovery = discovery::State::Unasked;
        self.refresh = refresh::State::Idle;
        self.walk = None;
        self.failures = 0;
    }
}

/// What became of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FamilyStatus {
    /// Nothing is known yet.
    Unasked,
    /// All of it is known.
    Listed,
    /// The server did not declare it, and was not asked.
    NotAdvertised,
    /// The server declared it, yet has no such method.
    Absent,
    /// A guard or an error ended the walk; what came before is kept.
    Partial,
    /// The list failed, and nothing is kept.
    Failed,
}

impl FamilyStatus {
    /// The status' stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Listed => "listed",
            Self::NotAdvertised => "not-advertised",
            Self::Absent => "absent",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

/// What is known of a family, beside its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyReport {
    /// What became of it. A failed refresh changes no status.
    pub status: FamilyStatus,
    /// How many pages the list came in.
    pub pages: usize,
    /// The list is known to have changed, and was not had again yet.
    pub stale: bool,
}

/// A list under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    /// The page that is asked for, as the server wrote it; none for the first.
    pub(super) cursor: Option<Box<str>>,
    /// The cursors that came before, by their fingerprints.
    pub(super) seen: BTreeSet<Fingerprint>,
    pub(super) items: Builder,
    /// A cursor was refused, and the walk began again.
    pub(super) restarted: bool,
}
