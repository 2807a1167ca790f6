//! The decision tables of a hub as the documentation shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, bless, column};
use super::{hub_change, hub_rest};

/// The decision tables of a hub.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![change_decisions(), list_decisions(), rest_decisions()]
}

fn change_decisions() -> Decisions {
    use hub_change::{Entry, Session, decide};
    Decisions {
        name: "hub_change",
        columns: vec![column("session", Session::ALL), column("new entry", Entry::ALL)],
        decide: |at| format!("{:?}", decide(Session::ALL[at[0]], Entry::ALL[at[1]])),
    }
}

fn list_decisions() -> Decisions {
    use hub_change::{Next, Place, lists};
    Decisions {
        name: "hub_change::lists",
        columns: vec![column("place", Place::ALL), column("next session", Next::ALL)],
        decide: |at| format!("{:?}", lists(Place::ALL[at[0]], Next::ALL[at[1]])),
    }
}

fn rest_decisions() -> Decisions {
    use hub_rest::{Clock, Occasion, Session, Use, decide};
    Decisions {
        name: "hub_rest",
        columns: vec![
            column("session", Session::ALL),
            column("use", Use::ALL),
            column("clock", Clock::ALL),
            column("occasion", Occasion::ALL),
        ],
        decide: |at| {
            let (session, used) = (Session::ALL[at[0]], Use::ALL[at[1]]);
            format!("{:?}", decide(session, used, Clock::ALL[at[2]], Occasion::ALL[at[3]]))
        },
    }
}

#[test]
fn hub_change_table() {
    bless("hub_change", None, &format!("{}\n{}", change_decisions().markdown(), list_decisions().markdown()));
}

#[test]
fn hub_rest_table() {
    bless("hub_rest", None, &rest_decisions().markdown());
}
