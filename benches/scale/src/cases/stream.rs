//! Event streams.

use mcp_proto::binding::{Sse, SseDecoder};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::{asks, legacy, note};
use crate::web::{Web, event};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("sse-events", 500, sse_events),
        Case::new("sse-comments", 2_000, sse_comments),
        Case::new("sse-blank-lines", 5_000, sse_blank_lines),
        Case::new("sse-ids", 1_000, sse_ids),
        Case::new("sse-id-length", 20_000, sse_id_length).at_most(64 << 10),
        Case::new("sse-retries", 1_000, sse_retries),
        Case::new("sse-retry-digits", 20_000, sse_retry_digits).at_most(64 << 10),
        Case::new("sse-names", 1_000, sse_names),
        Case::new("sse-name-length", 20_000, sse_name_length).at_most(64 << 10),
        Case::new("sse-field-length", 20_000, sse_field_length).at_most(64 << 10),
        Case::new("sse-data-length", 20_000, sse_data_length),
        Case::new("sse-data-lines", 2_000, sse_data_lines),
        Case::new("sse-too-long", 20_000, sse_too_long).at_most(64 << 10),
        Case::new("sse-chunks", 2_000, sse_chunks),
        Case::new("stream-messages", 250, stream_messages),
        Case::new("stream-pings", 250, stream_pings),
        Case::new("stream-pings-unpolled", 2_000, stream_pings_unpolled).at_most(4096 * 320),
        Case::new("stream-pings-unanswered", 1_000, stream_pings_unanswered).at_most(4096 * 640),
        Case::new("stream-questions", 8, stream_questions),
        Case::new("stream-ids", 500, stream_ids),
        Case::new("stream-breaks", 250, stream_breaks),
    ]
}

/// Counts the events in a text that arrives in chunks of this size.
fn decoded_in(text: &str, limit: usize, chunk: usize) -> Cost {
    measure(text.len(), || {
        let (mut decoder, mut events) = (SseDecoder::new(limit), 0);
        for chunk in text.as_bytes().chunks(chunk) {
            decoder.feed(chunk, |item| events += usize::from(matches!(item, Sse::Event(_))));
        }
        (events, decoder.last_id().map(<[u8]>::len))
    })
}

fn decoded(text: &str) -> Cost {
    decoded_in(text, 64 << 20, 4096)
}

fn sse_events(n: usize) -> Cost {
    decoded(&event(&note("x/told", "{}")).repeat(n))
}

fn sse_comments(n: usize) -> Cost {
    decoded(&": still here\n:\n".repeat(n))
}

fn sse_blank_lines(n: usize) -> Cost {
    decoded(&"\r\n\n\r".repeat(n))
}

fn sse_ids(n: usize) -> Cost {
    decoded(&(0..n).map(|at| format!("id: {at}\nid: {at}-{at}\ndata\n\n")).collect::<String>())
}

fn sse_id_length(n: usize) -> Cost {
    decoded(&format!("id: {}\ndata: x\n\n", "7".repeat(n)))
}

fn sse_retries(n: usize) -> Cost {
    decoded(&(0..n).map(|at| format!("retry: {at}\n")).collect::<String>())
}

fn sse_retry_digits(n: usize) -> Cost {
    decoded(&format!("retry: {}\n\n", "7".repeat(n)))
}

fn sse_names(n: usize) -> Cost {
    decoded(&(0..n).map(|at| format!("event: name{at}\nevent: other{at}\ndata: x\n\n")).collect::<String>())
}

fn sse_name_length(n: usize) -> Cost {
    decoded(&format!("event: {}\ndata: x\n\n", "name".repeat(n)))
}

fn sse_field_length(n: usize) -> Cost {
    decoded(&format!("{}: x\ndata: x\n\n", "field".repeat(n)))
}

fn sse_data_length(n: usize) -> Cost {
    decoded(&format!("data: {}\n\n", "x".repeat(n)))
}

fn sse_data_lines(n: usize) -> Cost {
    decoded(&format!("{}\n", "data: x\ndata:\n".repeat(n)))
}

fn sse_too_long(n: usize) -> Cost {
    decoded_in(&format!("{}\n", "data: some more of it\n".repeat(n)), 10_000, 4096)
}

fn sse_chunks(n: usize) -> Cost {
    decoded_in(&format!("id: 7\n: x\ndata: {}\n\n", "x".repeat(n)), 64 << 20, 1)
}

/// A legacy session with a GET stream.
fn ready() -> Web {
    let web = Web::ready(legacy(), "");
    assert!(web.stream.is_some());
    web
}

fn stream_messages(n: usize) -> Cost {
    let mut web = ready();
    let text: String =
        (0..n).map(|at| event(&note("x/told", &format!(r#"{{"at":{at},"text":"{}"}}"#, "x".repeat(100))))).collect();
    measure(text.len(), || {
        web.told(&text);
        assert_eq!(web.drain(), n);
    })
}

fn pings(n: usize) -> String {
    (0..n).map(|at| event(&asks(&at.to_string(), "ping", "{}"))).collect()
}

/// Each ping is answered by a POST, which the server accepts.
fn stream_pings(n: usize) -> Cost {
    let mut web = ready();
    let text = pings(n);
    measure(text.len() * 4, || {
        for event in text.split_inclusive("\n\n") {
            web.told(event);
            for request in web.requests() {
                web.status(request.exchange, 202);
            }
        }
    })
}

fn stream_pings_unpolled(n: usize) -> Cost {
    let mut web = ready();
    let text = pings(n);
    measure(text.len(), || web.told(&text))
}

/// The POSTs with the responses are started, and the server leaves them open.
fn stream_pings_unanswered(n: usize) -> Cost {
    let mut web = ready();
    let text = pings(n);
    measure(text.len(), || {
        for event in text.split_inclusive("\n\n") {
            web.told(event);
            web.drain();
        }
        web
    })
}

/// Polled server requests with defaults as long as a message may be.
fn stream_questions(n: usize) -> Cost {
    let mut web = ready();
    let form = format!(
        r#"{{"message":"?","requestedSchema":{{"type":"object","properties":{{"a":{{"type":"string","default":"{}"}}}}}}}}"#,
        "x".repeat(10_000)
    );
    let text: String = (0..n).map(|at| event(&asks(&at.to_string(), "elicitation/create", &form))).collect();
    measure(text.len(), || {
        web.told(&text);
        web.drain();
        web
    })
}

fn stream_ids(n: usize) -> Cost {
    let mut web = ready();
    let id = "7".repeat(1_000);
    let text = format!("id: {id}\ndata: \n\n");
    measure(text.len() * n, || (0..n).for_each(|_| web.told(&text)))
}

fn stream_breaks(n: usize) -> Cost {
    let mut web = ready();
    measure(n * 512, || {
        for _ in 0..n {
            web.session.handle_end(web.now, web.stream.unwrap());
            web.drain();
            web.now = web.now + std::time::Duration::from_secs(120);
            web.session.handle_timeout(web.now);
            web.serve("");
        }
        assert!(web.session.is_ready());
    })
}
