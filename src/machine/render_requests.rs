//! The decision tables about requests and responses, as the documentation shows them.

#![allow(clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::Wire;
use super::link::Handshake;
use super::render_markdown::{Decisions, column};
use super::resend::{self, Reason, Resend, Used};
use super::{
    Decision, call_error, cancellation, era_change, exchange_loss, gate, http_refusal, http_waiting, replay,
    request_timeout, response, setting, shape, turn,
};
use crate::protocol::Era;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// The decision tables about requests and responses.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![
        resend_decisions(),
        unsent_decisions(),
        replay_decisions(),
        response_decisions(),
        shape_decisions(),
        authorization_decisions(),
        status_decisions(),
        waiting_decisions(),
        exchange_loss_decisions(),
        timeout_decisions(),
        lost_decisions(),
        cancellation_decisions(),
        task_end_decisions(),
        turn_decisions(),
        setting_decisions(),
        call_error_decisions(),
    ]
}

fn decision(decision: Decision) -> String {
    match decision {
        Decision::Allow => "allow".into(),
        Decision::AllowAs(kind) => format!("allow, `{kind}`"),
        Decision::Withhold => "withhold".into(),
        Decision::WithholdAs(kind) => format!("withhold, `{kind}`"),
    }
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

fn replay_decisions() -> Decisions {
    use replay::{Carrier, Effects, Trust, Word};
    Decisions {
        name: "replay",
        columns: vec![
            column("carrier", Carrier::ALL),
            column("embedder", Word::ALL),
            column("effects", Effects::ALL),
            column("annotations", Trust::ALL),
            column("once more", Resend::ALL),
        ],
        decide: |at| {
            let (carrier, word) = (Carrier::ALL[at[0]], Word::ALL[at[1]]);
            let (effects, trust) = (Effects::ALL[at[2]], Trust::ALL[at[3]]);
            format!("{:?}", replay::decide(carrier, word, effects, trust, Resend::ALL[at[4]]))
        },
    }
}

fn response_decisions() -> Decisions {
    use response::{Body, Id, Match};
    Decisions {
        name: "response",
        columns: vec![column("id", Id::ALL), column("body", Body::ALL)],
        decide: |at| match response::decide(Id::ALL[at[0]], Body::ALL[at[1]]) {
            Match::Named => "Named".into(),
            Match::NamedAs(kind) => format!("Named, `{kind}`"),
            Match::Exchange => "Exchange".into(),
            Match::OnlyAs(kind) => format!("Only, `{kind}`"),
            Match::Late => "Late".into(),
            Match::NoneAs(kind) => format!("None, `{kind}`"),
        },
    }
}

fn shape_decisions() -> Decisions {
    Decisions {
        name: "shape",
        columns: vec![column("shape", shape::Shape::ALL)],
        decide: |at| decision(shape::decide(shape::Shape::ALL[at[0]])),
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

fn exchange_loss_decisions() -> Decisions {
    use exchange_loss::Lost;
    Decisions {
        name: "exchange_loss",
        columns: vec![column("request", Lost::ALL)],
        decide: |at| format!("{:?}", exchange_loss::decide(Lost::ALL[at[0]])),
    }
}

fn timeout_decisions() -> Decisions {
    use request_timeout::Overdue;
    Decisions {
        name: "request_timeout",
        columns: vec![column("request", Overdue::ALL)],
        decide: |at| format!("{:?}", request_timeout::decide(Overdue::ALL[at[0]])),
    }
}

fn lost_decisions() -> Decisions {
    use replay::{About, Broke, Lost, Sent};
    Decisions {
        name: "replay::lost",
        columns: vec![
            column("broke", Broke::ALL),
            column("sent", Sent::ALL),
            column("about", About::ALL),
            column("may run twice", Resend::ALL),
        ],
        decide: |at| {
            let (broke, sent) = (Broke::ALL[at[0]], Sent::ALL[at[1]]);
            match replay::lost(broke, sent, About::ALL[at[2]], Resend::ALL[at[3]]) {
                Lost::Request(input) => format!("request: {input:?}"),
                Lost::Task(input) => format!("task: {input:?}"),
            }
        },
    }
}

fn cancellation_decisions() -> Decisions {
    use cancellation::Request;
    Decisions {
        name: "cancellation",
        columns: vec![column("wire", Wire::ALL), column("request", Request::ALL), column("era", &ERAS)],
        decide: |at| format!("{:?}", cancellation::decide(Wire::ALL[at[0]], Request::ALL[at[1]], ERAS[at[2]])),
    }
}

fn task_end_decisions() -> Decisions {
    Decisions {
        name: "cancellation::of_task",
        columns: vec![
            column("phase", era_change::Phase::ALL),
            column("era", &ERAS),
            column("declared", gate::Declaration::ALL),
        ],
        decide: |at| {
            let (phase, era) = (era_change::Phase::ALL[at[0]], ERAS[at[1]]);
            format!("{:?}", cancellation::of_task(phase, era, gate::Declaration::ALL[at[2]]))
        },
    }
}

fn turn_decisions() -> Decisions {
    use turn::{Phase, Queued, Room, Tools};
    Decisions {
        name: "turn",
        columns: vec![
            column("room", Room::ALL),
            column("phase", Phase::ALL),
            column("queued", Queued::ALL),
            column("tools", Tools::ALL),
        ],
        decide: |at| {
            let (room, phase) = (Room::ALL[at[0]], Phase::ALL[at[1]]);
            format!("{:?}", turn::decide(room, phase, Queued::ALL[at[2]], Tools::ALL[at[3]]))
        },
    }
}

fn setting_decisions() -> Decisions {
    use setting::{Declared, Setting};
    Decisions {
        name: "setting",
        columns: vec![
            column("handshake", Handshake::ALL),
            column("era", &ERAS),
            column("declared", Declared::ALL),
            column("setting", Setting::ALL),
        ],
        decide: |at| {
            let (handshake, declared) = (Handshake::ALL[at[0]], Declared::ALL[at[2]]);
            format!("{:?}", setting::decide(handshake, ERAS[at[1]], declared, Setting::ALL[at[3]]))
        },
    }
}

fn call_error_decisions() -> Decisions {
    use call_error::{Error, Urls};
    Decisions {
        name: "call_error",
        columns: vec![
            column("error", Error::ALL),
            column("era", &ERAS),
            column("URLs", Urls::ALL),
            column("again", Resend::ALL),
        ],
        decide: |at| {
            let (error, urls) = (Error::ALL[at[0]], Urls::ALL[at[2]]);
            format!("{:?}", call_error::decide(error, ERAS[at[1]], urls, Resend::ALL[at[3]]))
        },
    }
}

#[test]
fn resend_table() {
    for reason in Reason::ALL {
        assert_eq!(resend::decide(*reason, Used::Thrice), Resend::End, "{reason:?} ends");
    }
}
