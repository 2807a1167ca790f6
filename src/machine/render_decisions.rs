//! The decision tables as the documentation shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, column};
use super::{handshake, keepalive, keepalive_timeout, link, loss, resend};
use crate::protocol::Era;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Every decision table.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![
        loss_decisions(),
        ended_decisions(),
        expired_decisions(),
        handshake_start_decisions(),
        handshake_broken_decisions(),
        handshake_refused_decisions(),
        handshake_answered_decisions(),
        opening_decisions(),
        watch_decisions(),
        shown_decisions(),
        start_decisions(),
        list_decisions(),
        below_decisions(),
        keepalive_timeout_decisions(),
    ]
}

fn loss_decisions() -> Decisions {
    use loss::{Cause, Transport, Tries};
    Decisions {
        name: "loss",
        columns: vec![column("transport", Transport::ALL), column("cause", Cause::ALL), column("tries", Tries::ALL)],
        decide: |at| format!("{:?}", loss::decide(Transport::ALL[at[0]], Cause::ALL[at[1]], Tries::ALL[at[2]])),
    }
}

fn ended_decisions() -> Decisions {
    use loss::{End, Handshake, Wire};
    Decisions {
        name: "loss::ended",
        columns: vec![
            column("link", link::State::ALL),
            column("end", End::ALL),
            column("wire", Wire::ALL),
            column("handshake", Handshake::ALL),
        ],
        decide: |at| {
            let (link, end) = (link::State::ALL[at[0]], End::ALL[at[1]]);
            format!("{:?}", loss::ended(link, end, Wire::ALL[at[2]], Handshake::ALL[at[3]]))
        },
    }
}

fn expired_decisions() -> Decisions {
    use loss::Expiry;
    Decisions {
        name: "loss::expired",
        columns: vec![column("expired before", resend::Used::ALL)],
        decide: |at| match loss::expired(resend::Used::ALL[at[0]]) {
            Expiry::Recover => "recover".into(),
            Expiry::GiveUp(kind) => format!("give up, `{kind}`"),
        },
    }
}

fn start_decisions() -> Decisions {
    use keepalive::{Lists, Pings, Policy, Preferred};
    Decisions {
        name: "keepalive::start",
        columns: vec![
            column("era", &ERAS),
            column("policy", Policy::ALL),
            column("pings", Pings::ALL),
            column("preferred", Preferred::ALL),
            column("lists", Lists::ALL),
        ],
        decide: |at| {
            let (era, policy, pings) = (ERAS[at[0]], Policy::ALL[at[1]], Pings::ALL[at[2]]);
            let input = keepalive::start(era, policy, pings, Preferred::ALL[at[3]], Lists::ALL[at[4]]);
            input.map_or("none".into(), |input| format!("{input:?}"))
        },
    }
}

fn list_decisions() -> Decisions {
    use keepalive::{Lists, Preferred};
    Decisions {
        name: "keepalive::list",
        columns: vec![column("preferred", Preferred::ALL), column("lists", Lists::ALL)],
        decide: |at| format!("{:?}", keepalive::list(Preferred::ALL[at[0]], Lists::ALL[at[1]])),
    }
}

fn below_decisions() -> Decisions {
    use keepalive::{Lists, State};
    Decisions {
        name: "keepalive::below",
        columns: vec![column("state", State::ALL), column("lists", Lists::ALL)],
        decide: |at| format!("{:?}", keepalive::below(State::ALL[at[0]], Lists::ALL[at[1]])),
    }
}

fn keepalive_timeout_decisions() -> Decisions {
    use keepalive::Pings;
    use keepalive_timeout::{Asked, Clock, Heard, Misses};
    Decisions {
        name: "keepalive_timeout",
        columns: vec![
            column("clock", Clock::ALL),
            column("heard", Heard::ALL),
            column("asked", Asked::ALL),
            column("misses", Misses::ALL),
            column("pings", Pings::ALL),
        ],
        decide: |at| {
            let (clock, heard, asked) = (Clock::ALL[at[0]], Heard::ALL[at[1]], Asked::ALL[at[2]]);
            format!("{:?}", keepalive_timeout::decide(clock, heard, asked, Misses::ALL[at[3]], Pings::ALL[at[4]]))
        },
    }
}

fn handshake_start_decisions() -> Decisions {
    use handshake::{Allowed, Known};
    Decisions {
        name: "handshake::start",
        columns: vec![column("allowed", Allowed::ALL), column("known", Known::ALL), column("wire", loss::Wire::ALL)],
        decide: |at| format!("{:?}", handshake::start(Allowed::ALL[at[0]], Known::ALL[at[1]], loss::Wire::ALL[at[2]])),
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
