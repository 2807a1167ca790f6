//! The decision tables about requests and responses, as the documentation shows them.

#![allow(clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, column};
use super::resend::{self, Reason, Resend, Used};
use super::{http_refusal, http_waiting};

/// The decision tables about requests and responses.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![resend_decisions(), unsent_decisions(), authorization_decisions(), status_decisions(), waiting_decisions()]
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

fn authorization_decisions() -> Decisions {
    use http_refusal::{Access, Authority, Phase, Refused};
    Decisions {
        name: "http_refusal::authorization",
        columns: vec![
            column("refused", Refused::ALL),
            column("phase", Phase::ALL),
            column("access", Access::ALL),
            column("once more", Resend::ALL),
            column("authorized by", Authority::ALL),
        ],
        decide: |at| {
            let (refused, phase) = (Refused::ALL[at[0]], Phase::ALL[at[1]]);
            let (access, again, authority) = (Access::ALL[at[2]], Resend::ALL[at[3]], Authority::ALL[at[4]]);
            format!("{:?}", http_refusal::authorization(refused, phase, access, again, authority))
        },
    }
}

fn status_decisions() -> Decisions {
    use http_refusal::{Refused, Status};
    Decisions {
        name: "http_refusal::status",
        columns: vec![column("refused", Refused::ALL), column("status", Status::ALL)],
        decide: |at| format!("{:?}", http_refusal::status(Refused::ALL[at[0]], Status::ALL[at[1]])),
    }
}

fn waiting_decisions() -> Decisions {
    use http_refusal::Authority;
    use http_waiting::{Lack, Refused, Room};
    Decisions {
        name: "http_waiting",
        columns: vec![
            column("refused", Refused::ALL),
            column("authorized by", Authority::ALL),
            column("lack", Lack::ALL),
            column("room", Room::ALL),
        ],
        decide: |at| {
            let (refused, authority) = (Refused::ALL[at[0]], Authority::ALL[at[1]]);
            format!("{:?}", http_waiting::decide(refused, authority, Lack::ALL[at[2]], Room::ALL[at[3]]))
        },
    }
}

#[test]
fn resend_table() {
    for reason in Reason::ALL {
        assert_eq!(resend::decide(*reason, Used::Thrice), Resend::End, "{reason:?} ends");
    }
}
