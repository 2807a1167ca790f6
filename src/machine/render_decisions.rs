//! The decision tables as the documentation shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, column};
use super::{handshake, resend};
use crate::protocol::Era;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Every decision table.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![
        handshake_start_decisions(),
        handshake_broken_decisions(),
        handshake_refused_decisions(),
        handshake_answered_decisions(),
        opening_decisions(),
        watch_decisions(),
        shown_decisions(),
    ]
}

fn handshake_start_decisions() -> Decisions {
    use handshake::{Allowed, Known};
    Decisions {
        name: "handshake::start",
        columns: vec![column("allowed", Allowed::ALL), column("known", Known::ALL), column("wire", super::Wire::ALL)],
        decide: |at| format!("{:?}", handshake::start(Allowed::ALL[at[0]], Known::ALL[at[1]], super::Wire::ALL[at[2]])),
    }
}

fn opening_decisions() -> Decisions {
    Decisions {
        name: "handshake::opening",
        columns: vec![column("state", handshake::State::ALL)],
        decide: |at| format!("{:?}", handshake::opening(handshake::State::ALL[at[0]])),
    }
}

fn watch_decisions() -> Decisions {
    use super::era_change::{self, Phase, Reconnect};
    Decisions {
        name: "era_change::watch",
        columns: vec![column("phase", Phase::ALL), column("reconnect", Reconnect::ALL)],
        decide: |at| format!("{:?}", era_change::watch(Phase::ALL[at[0]], Reconnect::ALL[at[1]])),
    }
}

fn shown_decisions() -> Decisions {
    use super::era_change::{self, Carrier, Response};
    Decisions {
        name: "era_change::shown",
        columns: vec![column("carrier", Carrier::ALL), column("response", Response::ALL), column("era", &ERAS)],
        decide: |at| format!("{:?}", era_change::shown(Carrier::ALL[at[0]], Response::ALL[at[1]], ERAS[at[2]])),
    }
}

fn handshake_broken_decisions() -> Decisions {
    use handshake::Request;
    Decisions {
        name: "handshake::broken",
        columns: vec![column("request", Request::ALL), column("resend", resend::Resend::ALL)],
        decide: |at| format!("{:?}", handshake::broken(Request::ALL[at[0]], resend::Resend::ALL[at[1]])),
    }
}

fn handshake_refused_decisions() -> Decisions {
    use handshake::{Older, Refused, Request, Status};
    Decisions {
        name: "handshake::refused",
        columns: vec![
            column("request", Request::ALL),
            column("status", Status::ALL),
            column("older version", Older::ALL),
        ],
        decide: |at| match handshake::refused(Request::ALL[at[0]], Status::ALL[at[1]], Older::ALL[at[2]]) {
            Refused::Handshake(input) => format!("{input:?}"),
            Refused::Offer(input) => format!("offer: {input:?}"),
        },
    }
}

fn handshake_answered_decisions() -> Decisions {
    use handshake::{Nearest, Version};
    Decisions {
        name: "handshake::answered",
        columns: vec![column("version", Version::ALL), column("nearest", Nearest::ALL)],
        decide: |at| format!("{:?}", handshake::answered(Version::ALL[at[0]], Nearest::ALL[at[1]])),
    }
}
