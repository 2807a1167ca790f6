use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use serde::{Deserialize, Serialize};

use crate::Time;
use crate::catalog::{Builder, Flaws, List};
use crate::machine::resend::Used;
use crate::machine::{discovery, gate, list_watch, paging, refresh, refresh_demand};
use crate::protocol::CacheScope;

/// What is known of the list of one family.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Slot {
    pub(super) discovery: discovery::State,
    pub(super) refresh: refresh::State,
    pub(super) paging: paging::State,
    pub(super) demand: refresh_demand::State,
    /// The list that is being received.
    pub(super) listing: Option<Box<Listing>>,
    pub(super) status: FamilyStatus,
    pub(super) pages: usize,
    pub(super) stale: bool,
    pub(super) watch: list_watch::State,
    pub(super) failures: u32,
    /// Announced changes in a row that were none.
    pub(super) unchanged: Used,
    /// How often the interval between refreshes was doubled.
    pub(super) slow: u32,
    pub(super) fresh_until: Option<Time>,
    #[cfg_attr(feature = "snapshot", serde(default))]
    pub(super) scope: CacheScope,
    pub(super) last_listed: Option<Time>,
    /// The last error of the family's list.
    pub(super) words: Option<Box<str>>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            discovery: discovery::State::NotRequested,
            refresh: refresh::State::Idle,
            paging: paging::State::Idle,
            demand: refresh_demand::State::None,
            listing: None,
            status: FamilyStatus::NotRequested,
            pages: 0,
            stale: false,
            watch: list_watch::State::Watched,
            failures: 0,
            unchanged: Used::Never,
            slow: 0,
            fresh_until: None,
            scope: CacheScope::Private,
            last_listed: None,
            words: None,
        }
    }
}

impl Slot {
    /// A new connection: the list is requested again, and the items stay.
    pub(super) fn reset(&mut self) {
        self.discovery = discovery::take(self.discovery, discovery::Input::Reset).next;
        self.refresh = refresh::take(self.refresh, refresh::Input::Reset).next;
        self.paging = paging::take(self.paging, paging::Input::Stop).next;
        self.listing = None;
        self.watch = list_watch::take(self.watch, list_watch::Input::Reset).next;
        self.failures = 0;
        self.unchanged = Used::Never;
        self.slow = 0;
    }

    /// What is known of the list, as the gate takes it.
    pub(super) const fn known(status: FamilyStatus) -> gate::Known {
        match status {
            FamilyStatus::NotRequested | FamilyStatus::NotAdvertised => gate::Known::NotRequested,
            FamilyStatus::Listed => gate::Known::Listed,
            FamilyStatus::Partial => gate::Known::Partial,
            FamilyStatus::Absent => gate::Known::Absent,
            FamilyStatus::Failed => gate::Known::Failed,
        }
    }

    /// Whether discovery on this connection is done for the family.
    pub(super) fn is_settled(&self) -> bool {
        match self.discovery {
            discovery::State::Listed
            | discovery::State::NotAdvertised
            | discovery::State::Absent
            | discovery::State::Partial
            | discovery::State::Failed => true,
            discovery::State::NotRequested
            | discovery::State::Listing
            | discovery::State::ListingStale
            | discovery::State::Relisting
            | discovery::State::RelistingStale => false,
        }
    }
}

/// The state of a family's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FamilyStatus {
    /// The list was not requested yet.
    NotRequested,
    /// The whole list is known.
    Listed,
    /// The server did not declare the capability, and the list was not requested.
    NotAdvertised,
    /// The server declared the capability, but does not have the method.
    Absent,
    /// A limit or an error ended the list; the pages before it are kept.
    Partial,
    /// The list failed, and no items are kept.
    Failed,
}

impl FamilyStatus {
    /// The status' stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRequested => "not-requested",
            Self::Listed => "listed",
            Self::NotAdvertised => "not-advertised",
            Self::Absent => "absent",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

/// The state of a family, without its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FamilyReport {
    /// The state of its list. A failed refresh does not change it.
    pub status: FamilyStatus,
    /// Number of pages of the list.
    pub pages: usize,
    /// The list changed, and was not received again yet.
    pub stale: bool,
    /// The server announces changes of the list: a legacy server declares it, a modern one acknowledged it.
    pub watched: bool,
    /// Until when the server calls the list fresh (specification 2026-07-28, "Caching"): the time to live of each page
    /// begins when that page is received, and the first one that passes counts. `None` if the server did not say, which
    /// differs from a time that has passed. It is information for the embedder: the engine does not poll lists.
    pub fresh_until: Option<Time>,
    /// Who may use the list, if it is stored.
    pub cache_scope: CacheScope,
}

/// A list that is being received.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Listing {
    /// The hashes of the cursors so far. A collision only ends the server's own list early.
    pub(super) seen: BTreeSet<u64>,
    pub(super) items: Builder,
    /// Items that were left out, or that lost a member.
    pub(super) invalid: Flaws,
    /// Items with a key that came before.
    pub(super) duplicate: Flaws,
    pub(super) pages: usize,
    /// The cursor of the page that is requested next.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
    pub(super) next: Option<Box<str>>,
    /// The id of the request for the first page.
    pub(super) first: u64,
    /// Until when all pages are fresh; `None` if the server did not say of each one.
    pub(super) fresh_until: Option<Time>,
    /// Who may use the list.
    #[cfg_attr(feature = "snapshot", serde(default))]
    pub(super) scope: CacheScope,
    /// The whole list, once the last page of a refresh was received.
    #[cfg_attr(feature = "snapshot", serde(with = "crate::catalog::list_form::optional_list"))]
    pub(super) done: Option<List>,
    /// How often a page was requested again because its exchange broke.
    pub(super) broken: Used,
}
