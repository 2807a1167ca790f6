//! The decision tables about requests and responses, as the documentation shows them.

#![allow(clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, column};
use super::resend::{self, Reason, Resend, Used};

/// The decision tables about requests and responses.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![resend_decisions(), unsent_decisions()]
}

fn resend_decisions() -> Decisions {
    Decisions {
        name: "resend",
        columns: vec![column("reason", Reason::ALL), column("so far", Used::ALL)],
        decide: |at| format!("{:?}", resend::decide(Reason::ALL[at[0]], Used::ALL[at[1]])),
    }
}

fn unsent_decisions() -> Decisions {
    Decisions {
        name: "resend::unsent",
        columns: vec![column("sent again after a loss", Used::ALL)],
        decide: |at| format!("{:?}", resend::unsent(Used::ALL[at[0]])),
    }
}

#[test]
fn resend_table() {
    for reason in Reason::ALL {
        assert_eq!(resend::decide(*reason, Used::Thrice), Resend::End, "{reason:?} ends");
    }
}
