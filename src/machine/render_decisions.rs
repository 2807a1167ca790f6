//! The decision tables as the documentation shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render::{Decisions, bless, column};
use super::{
    Decision, breaker, gate, http_answer, http_end, http_head, http_send, link, list_error, loss, resend,
    server_request, subscribe,
};

/// Every decision table.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![
        gate_decisions(),
        meaning_decisions(),
        cost_decisions(),
        loss_decisions(),
        ended_decisions(),
        expired_decisions(),
        resend_decisions(),
        unsent_decisions(),
        server_request_decisions(),
        subscribe_decisions(),
        expiry_decisions(),
        http_meaning_decisions(),
        end_decisions(),
        rest_decisions(),
        head_decisions(),
        send_decisions(),
        call_end_decisions(),
    ]
}

fn gate_decisions() -> Decisions {
    use gate::{Declaration, Known, Policy, Purpose};
    Decisions {
        name: "gate",
        columns: vec![
            column("purpose", Purpose::ALL),
            column("declared", Declaration::ALL),
            column("policy", Policy::ALL),
            column("known", Known::ALL),
        ],
        decide: |at| {
            let (purpose, declared) = (Purpose::ALL[at[0]], Declaration::ALL[at[1]]);
            match gate::decide(purpose, declared, Policy::ALL[at[2]], Known::ALL[at[3]]) {
                Decision::Allow => "allow".into(),
                Decision::AllowAs(kind) => format!("allow, `{kind}`"),
                Decision::Withhold => "withhold".into(),
                Decision::WithholdAs(kind) => format!("withhold, `{kind}`"),
            }
        },
    }
}

fn meaning_decisions() -> Decisions {
    use list_error::{ByText, Class, List, Meaning, ToolsAbsent};
    Decisions {
        name: "list_error::meaning",
        columns: vec![
            column("error", Class::ALL),
            column("declared", gate::Declaration::ALL),
            column("list", List::ALL),
            column("tools absent", ToolsAbsent::ALL),
            column("text", ByText::ALL),
        ],
        decide: |at| {
            let (class, declared) = (Class::ALL[at[0]], gate::Declaration::ALL[at[1]]);
            let (list, tools, text) = (List::ALL[at[2]], ToolsAbsent::ALL[at[3]], ByText::ALL[at[4]]);
            match list_error::meaning(class, declared, list, tools, text) {
                Meaning::Absent => "absent".into(),
                Meaning::AbsentAs(kind) => format!("absent, `{kind}`"),
                Meaning::Failed => "failed".into(),
            }
        },
    }
}

fn cost_decisions() -> Decisions {
    use list_error::{Held, Policy};
    Decisions {
        name: "list_error::cost",
        columns: vec![column("policy", Policy::ALL), column("held", Held::ALL)],
        decide: |at| format!("{:?}", list_error::cost(Policy::ALL[at[0]], Held::ALL[at[1]])),
    }
}

fn loss_decisions() -> Decisions {
    use loss::{Before, Cause, Transport, Tries};
    Decisions {
        name: "loss",
        columns: vec![
            column("transport", Transport::ALL),
            column("cause", Cause::ALL),
            column("tries", Tries::ALL),
            column("before", Before::ALL),
        ],
        decide: |at| {
            let (transport, cause) = (Transport::ALL[at[0]], Cause::ALL[at[1]]);
            format!("{:?}", loss::decide(transport, cause, Tries::ALL[at[2]], Before::ALL[at[3]]))
        },
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

fn resend_decisions() -> Decisions {
    use resend::{Reason, Used};
    Decisions {
        name: "resend",
        columns: vec![column("reason", Reason::ALL), column("so far", Used::ALL)],
        decide: |at| format!("{:?}", resend::decide(Reason::ALL[at[0]], Used::ALL[at[1]])),
    }
}

fn unsent_decisions() -> Decisions {
    Decisions {
        name: "resend::unsent",
        columns: vec![column("sent again after a loss", resend::Used::ALL)],
        decide: |at| format!("{:?}", resend::unsent(resend::Used::ALL[at[0]])),
    }
}

fn server_request_decisions() -> Decisions {
    use server_request::{Answer, Asked, Declared, Method, Room};
    Decisions {
        name: "server_request",
        columns: vec![
            column("asked by", Asked::ALL),
            column("method", Method::ALL),
            column("declared", Declared::ALL),
            column("room", Room::ALL),
        ],
        decide: |at| {
            let (asked, method) = (Asked::ALL[at[0]], Method::ALL[at[1]]);
            let answer = server_request::decide(asked, method, Declared::ALL[at[2]], Room::ALL[at[3]]);
            if let Answer::Ignore(kind) = answer { format!("ignore, `{kind}`") } else { format!("{answer:?}") }
        },
    }
}

fn subscribe_decisions() -> Decisions {
    use subscribe::{Command, Means, Step};
    Decisions {
        name: "subscribe",
        columns: vec![column("command", Command::ALL), column("means", Means::ALL)],
        decide: |at| match subscribe::decide(Command::ALL[at[0]], Means::ALL[at[1]]) {
            Step::Keep => "keep".into(),
            Step::Resource(input) => format!("{input:?}"),
            Step::Listen => "listen".into(),
            Step::ResourceThenListen(input) => format!("{input:?}, listen"),
        },
    }
}

fn expiry_decisions() -> Decisions {
    use http_answer::{Error, Expiry, Session, Status, Words};
    Decisions {
        name: "http_answer::expiry",
        columns: vec![
            column("status", Status::ALL),
            column("session", Session::ALL),
            column("words", Words::ALL),
            column("error", Error::ALL),
        ],
        decide: |at| {
            let (words, error) = (Words::ALL[at[2]], Error::ALL[at[3]]);
            match http_answer::expiry(Status::ALL[at[0]], Session::ALL[at[1]], words, error) {
                Expiry::No => "no".into(),
                Expiry::Unprocessed => "unprocessed".into(),
                Expiry::UnprocessedAs(kind) => format!("unprocessed, `{kind}`"),
                Expiry::AnsweredAs(kind) => format!("answered, `{kind}`"),
            }
        },
    }
}

fn http_meaning_decisions() -> Decisions {
    use http_answer::{Error, Meaning, Post, Status};
    Decisions {
        name: "http_answer::meaning",
        columns: vec![column("status", Status::ALL), column("post", Post::ALL), column("error", Error::ALL)],
        decide: |at| {
            let meaning = http_answer::meaning(Status::ALL[at[0]], Post::ALL[at[1]], Error::ALL[at[2]]);
            if let Meaning::EndFormerAs(kind) = meaning {
                format!("EndFormer, `{kind}`")
            } else {
                format!("{meaning:?}")
            }
        },
    }
}

fn end_decisions() -> Decisions {
    use http_end::{End, Purpose, Response};
    Decisions {
        name: "http_end::end",
        columns: vec![column("purpose", Purpose::ALL), column("end", End::ALL), column("response", Response::ALL)],
        decide: |at| {
            let decision = http_end::decide(Purpose::ALL[at[0]], End::ALL[at[1]], Response::ALL[at[2]]);
            format!("{decision:?}")
        },
    }
}

fn rest_decisions() -> Decisions {
    use http_end::{Kept, Response};
    Decisions {
        name: "http_end::rest",
        columns: vec![column("response", Response::ALL), column("kept", Kept::ALL)],
        decide: |at| format!("{:?}", http_end::rest(Response::ALL[at[0]], Kept::ALL[at[1]])),
    }
}

fn head_decisions() -> Decisions {
    use http_head::{Decision, Purpose, Status};
    Decisions {
        name: "http_head",
        columns: vec![column("purpose", Purpose::ALL), column("status", Status::ALL)],
        decide: |at| {
            let decision = http_head::decide(Purpose::ALL[at[0]], Status::ALL[at[1]]);
            if let Decision::DeliveredAs(kind) = decision {
                format!("Delivered, `{kind}`")
            } else {
                format!("{decision:?}")
            }
        },
    }
}

fn send_decisions() -> Decisions {
    use http_send::{Message, Phase, Room};
    Decisions {
        name: "http_send",
        columns: vec![column("message", Message::ALL), column("phase", Phase::ALL), column("room", Room::ALL)],
        decide: |at| format!("{:?}", http_send::decide(Message::ALL[at[0]], Phase::ALL[at[1]], Room::ALL[at[2]])),
    }
}

fn call_end_decisions() -> Decisions {
    use breaker::{End, Failures, Server};
    Decisions {
        name: "call_end",
        columns: vec![column("end", End::ALL), column("server", Server::ALL), column("failures", Failures::ALL)],
        decide: |at| format!("{:?}", breaker::judge(End::ALL[at[0]], Server::ALL[at[1]], Failures::ALL[at[2]])),
    }
}

#[test]
fn call_end_table() {
    let table = call_end_decisions();
    bless(table.name, None, &table.markdown());
}

#[test]
fn gate_table() {
    use gate::{Declaration, Known, Policy, Purpose};
    let table = gate_decisions();
    bless(table.name, None, &table.markdown());
    for purpose in Purpose::ALL {
        for known in Known::ALL {
            let declared = gate::decide(*purpose, Declaration::Declared, Policy::Strict, *known);
            assert_eq!(declared.quirk(), None, "{purpose:?}: what is declared is no deviation");
        }
    }
}

#[test]
fn list_error_table() {
    bless("list_error", None, &format!("{}\n{}", meaning_decisions().markdown(), cost_decisions().markdown()));
}

#[test]
fn loss_table() {
    let tables = [loss_decisions(), ended_decisions(), expired_decisions()].map(|table| table.markdown());
    bless("loss", None, &tables.join("\n"));
}

#[test]
fn resend_table() {
    use resend::{Reason, Resend, Used};
    bless("resend", None, &format!("{}\n{}", resend_decisions().markdown(), unsent_decisions().markdown()));
    for reason in Reason::ALL {
        assert_eq!(resend::decide(*reason, Used::Thrice), Resend::End, "{reason:?} ends");
    }
}

#[test]
fn server_request_table() {
    let table = server_request_decisions();
    bless(table.name, None, &table.markdown());
}

#[test]
fn subscribe_table() {
    let table = subscribe_decisions();
    bless(table.name, None, &table.markdown());
}

#[test]
fn http_decisions() {
    let answers = format!("{}\n{}", expiry_decisions().markdown(), http_meaning_decisions().markdown());
    bless("http_answer", None, &answers);
    bless("http_end", None, &format!("{}\n{}", end_decisions().markdown(), rest_decisions().markdown()));
    for table in [head_decisions(), send_decisions()] {
        bless(table.name, None, &table.markdown());
    }
}
