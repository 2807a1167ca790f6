//! The decision tables about exchanges over HTTP, as the documentation shows them.

#![allow(clippy::indexing_slicing, reason = "tests")]

use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, column};
use super::{http_answer, http_end, http_head, http_read, http_send};

/// The decision tables about exchanges over HTTP.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![
        expiry_decisions(),
        answer_decisions(),
        end_decisions(),
        resumption_decisions(),
        rest_decisions(),
        head_decisions(),
        redirect_decisions(),
        body_decisions(),
        event_decisions(),
        over_decisions(),
        send_decisions(),
        undelivered_decisions(),
    ]
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
                Expiry::UnprocessedByStatus => "unprocessed, by the status".into(),
                Expiry::UnprocessedAs(kind) => format!("unprocessed, `{kind}`"),
                Expiry::AnsweredAs(kind) => format!("answered, `{kind}`"),
            }
        },
    }
}

fn answer_decisions() -> Decisions {
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
    use http_end::{End, EndOf, Response};
    Decisions {
        name: "http_end::end",
        columns: vec![column("purpose", EndOf::ALL), column("end", End::ALL), column("response", Response::ALL)],
        decide: |at| {
            let decision = http_end::decide(EndOf::ALL[at[0]], End::ALL[at[1]], Response::ALL[at[2]]);
            format!("{decision:?}")
        },
    }
}

fn resumption_decisions() -> Decisions {
    use http_end::{Broken, LastId};
    Decisions {
        name: "http_end::resumption",
        columns: vec![column("request", Broken::ALL), column("last id", LastId::ALL)],
        decide: |at| format!("{:?}", http_end::resumption(Broken::ALL[at[0]], LastId::ALL[at[1]])),
    }
}

fn redirect_decisions() -> Decisions {
    use http_read::{Redirected, Target};
    Decisions {
        name: "http_read::redirect",
        columns: vec![column("redirected", Redirected::ALL), column("target", Target::ALL)],
        decide: |at| format!("{:?}", http_read::redirect(Redirected::ALL[at[0]], Target::ALL[at[1]])),
    }
}

fn body_decisions() -> Decisions {
    use http_read::{Body, First, Source};
    Decisions {
        name: "http_read::body",
        columns: vec![column("source", Source::ALL), column("first byte", First::ALL)],
        decide: |at| match http_read::body(Source::ALL[at[0]], First::ALL[at[1]]) {
            Body::JsonAs(kind) => format!("Json, `{kind}`"),
            Body::EventsAs(kind) => format!("Events, `{kind}`"),
            body @ (Body::Json | Body::Events | Body::NoStream) => format!("{body:?}"),
        },
    }
}

fn event_decisions() -> Decisions {
    use http_read::{Name, Stream};
    Decisions {
        name: "http_read::event",
        columns: vec![column("stream", Stream::ALL), column("type", Name::ALL)],
        decide: |at| format!("{:?}", http_read::event(Stream::ALL[at[0]], Name::ALL[at[1]])),
    }
}

fn over_decisions() -> Decisions {
    use http_read::Carrier;
    Decisions {
        name: "http_read::over",
        columns: vec![column("carrier", Carrier::ALL)],
        decide: |at| format!("{:?}", http_read::over(Carrier::ALL[at[0]])),
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
    use http_head::{Decision, HeadOf, Status};
    Decisions {
        name: "http_head",
        columns: vec![column("purpose", HeadOf::ALL), column("status", Status::ALL)],
        decide: |at| {
            let decision = http_head::decide(HeadOf::ALL[at[0]], Status::ALL[at[1]]);
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

fn undelivered_decisions() -> Decisions {
    use http_send::{Reached, Undelivered};
    Decisions {
        name: "http_send::undelivered",
        columns: vec![column("reached", Reached::ALL)],
        decide: |at| match http_send::undelivered(Reached::ALL[at[0]]) {
            Undelivered::DropAs(kind) => format!("Drop, `{kind}`"),
            Undelivered::Drop => "Drop".into(),
            Undelivered::Release => "Release".into(),
        },
    }
}
