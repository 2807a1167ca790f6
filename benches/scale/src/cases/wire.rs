//! Messages: length, shape, chunks.

use mcp_proto::binding::LineDecoder;
use mcp_proto::{Request, Transport};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::{Peer, asks, error, legacy, note};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("message-length", 50_000, message_length),
        Case::new("message-depth", 2_000, message_depth),
        Case::new("message-members", 1_000, message_members),
        Case::new("message-escapes", 5_000, message_escapes),
        Case::new("line-chunks", 2_000, line_chunks),
        Case::new("line-too-long", 50_000, line_too_long),
        Case::new("blank-lines", 5_000, blank_lines),
        Case::new("noise-lines", 1_000, noise_lines),
        Case::new("noise-length", 20_000, noise_length),
        Case::new("repaired-values", 5_000, repaired_values),
        // As the elements of a batch.
        Case::new("repaired-messages", 500, repaired_messages).allow(10_000 * 256),
        Case::new("repaired-attempts", 2_000, repaired_attempts).allow(10_000 * 64),
        Case::new("batch-notifications", 500, batch_notifications),
        Case::new("batch-pings", 250, batch_pings).allow(4096 * 256),
        // The elements of a batch are held until all are decoded; `message.batch` bounds their number.
        Case::new("batch-noise", 1_000, batch_noise).allow(10_000 * 256),
        Case::new("server-request-id-length", 20_000, server_request_id_length),
        Case::new("answer-id-length", 20_000, answer_id_length),
        Case::new("answer-id-digits", 20_000, answer_id_digits),
        Case::new("method-length", 20_000, method_length),
        Case::new("error-message-length", 20_000, error_message_length),
        Case::new("transport-words-length", 20_000, transport_words_length),
    ]
}

fn told(text: &str) -> Cost {
    let mut peer = Peer::ready(legacy());
    measure(text.len(), || {
        peer.say(text);
        peer.drain()
    })
}

fn message_length(n: usize) -> Cost {
    told(&note("x/told", &format!(r#"{{"text":"{}"}}"#, "x".repeat(n))))
}

fn message_depth(n: usize) -> Cost {
    let mut options = legacy();
    options.limits.message.depth = usize::MAX;
    let text = note("x/told", &format!(r#"{{"a":{}1{}}}"#, r#"[{"a":"#.repeat(n), "}]".repeat(n)));
    let mut peer = Peer::ready(options);
    measure(text.len(), || {
        peer.say(&text);
        assert!(peer.drain() > 0);
    })
}

fn message_members(n: usize) -> Cost {
    let members: String = (0..n).map(|at| format!(r#""member{at}":{{"a":[{at}]}},"method":"m{at}","#)).collect();
    told(&format!("{{{members}\"jsonrpc\":\"2.0\"}}\n"))
}

fn message_escapes(n: usize) -> Cost {
    let text = r#"\u00e9\n\ud83d\ude00\""#.repeat(n);
    told(&note(&format!("x/{text}"), &format!(r#"{{"{text}":"{text}"}}"#)))
}

fn line_chunks(n: usize) -> Cost {
    let text = note("x/told", &format!(r#"{{"text":"{}"}}"#, "x".repeat(n)));
    let mut peer = Peer::ready(legacy());
    measure(text.len(), || {
        for byte in text.as_bytes().chunks(1) {
            peer.bytes(byte);
        }
        peer.drain()
    })
}

fn line_too_long(n: usize) -> Cost {
    let text = "x".repeat(n);
    measure(n, || {
        let (mut decoder, mut lines) = (LineDecoder::new(10_000), 0);
        for chunk in text.as_bytes().chunks(100) {
            decoder.feed(chunk, |_| lines += 1);
        }
        decoder.finish(|_| lines += 1);
        lines
    })
}

fn blank_lines(n: usize) -> Cost {
    told(&"\n\r\n".repeat(n))
}

fn noise_lines(n: usize) -> Cost {
    told(&(0..n).map(|at| format!("Listening on port {at} [{{\n")).collect::<String>())
}

fn noise_length(n: usize) -> Cost {
    told(&format!("{{\"a\":{}\n", "[\"\u{e9}\",".repeat(n)))
}

fn repaired_values(n: usize) -> Cost {
    told(&note("x/told", &format!("{{\"a\":[{}1]}}", "NaN,".repeat(n))))
}

fn repaired_messages(n: usize) -> Cost {
    let messages: String = (0..n).map(|at| note("x/told", &format!("{{\"at\":{at}}}"))).collect();
    told(&format!("{}\n", messages.replace('\n', "")))
}

fn repaired_attempts(n: usize) -> Cost {
    told(&format!("{}\n", "{\"id\":7,\"a{\"".repeat(n)))
}

fn batch_notifications(n: usize) -> Cost {
    let messages: Vec<_> =
        (0..n).map(|at| note("x/told", &format!("{{\"at\":{at},\"text\":\"{}\"}}", "x".repeat(100)))).collect();
    told(&format!("[{}]\n", messages.join(",").replace('\n', "")))
}

fn batch_pings(n: usize) -> Cost {
    let messages: Vec<_> = (0..n).map(|at| asks(&at.to_string(), "ping", "{}")).collect();
    told(&format!("[{}]\n", messages.join(",").replace('\n', "")))
}

fn batch_noise(n: usize) -> Cost {
    told(&format!("[{}1]\n", "1,{},".repeat(n)))
}

fn server_request_id_length(n: usize) -> Cost {
    let text = asks(&format!("\"{}\"", "x".repeat(n)), "ping", "{}") + &asks(&"7".repeat(n), "ping", "{}");
    told(&text)
}

/// A response with this id to an open request.
fn answered(id: &str) -> Cost {
    let mut peer = Peer::ready(legacy());
    peer.session.request(peer.now, Request::new("x/y")).unwrap();
    peer.drain();
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":1,\"message\":\"\"}}}}\n"
    );
    measure(text.len(), || {
        peer.say(&text);
        peer.drain()
    })
}

fn answer_id_length(n: usize) -> Cost {
    answered(&format!("\"{}\"", "x1".repeat(n)))
}

fn answer_id_digits(n: usize) -> Cost {
    answered(&format!("{}.{}e{}", "1".repeat(n), "0".repeat(n), "9".repeat(n)))
}

fn method_length(n: usize) -> Cost {
    told(&(note(&"m/".repeat(n), "{}") + &asks("1", &"m/".repeat(n), "{}")))
}

fn error_message_length(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    peer.session.request(peer.now, Request::new("x/y")).unwrap();
    let id = peer.sent("x/y");
    let words = "Session not found. ".repeat(n);
    let text = error(id, 1, &words) + &error(id + 100, 1, &words);
    measure(text.len(), || {
        peer.say(&text);
        peer.drain()
    })
}

fn transport_words_length(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let why = "the pipe\nis broken ".repeat(n);
    measure(why.len(), || {
        peer.report(Transport::Closed { why: &why });
        peer.drain()
    })
}
