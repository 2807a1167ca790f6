//! The body of the target `decode`, and the plain decoders that it compares with.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_proto::binding::{Line, LineDecoder, Sse, SseDecoder, SseEvent};
use mcp_proto::journal::{HiddenStream, Hider};
use mcp_proto::jsonrpc::{self, Body, Decoded, Message, MessageLimits, Noise, ResponseId};
use mcp_proto::{Diagnosis, Failure, FailureKind, Options, StderrLines};
use serde_json::value::RawValue;

use super::input::limits;

/// A line, and whether it is complete.
pub type OwnedLine = (bool, Vec<u8>);

/// The items of a stream of events.
#[derive(Clone, Debug, Hash, PartialEq)]
pub enum Item {
    Event { name: Vec<u8>, data: Vec<u8>, id: Option<Vec<u8>>, whole: bool },
    Retry(u64),
}

/// The items of a stream, and the id to resume after.
pub type Events = (Vec<Item>, Option<Vec<u8>>);

/// Gives the bytes to the decoders: of lines and of events, whole and in chunks, which makes no difference, of messages, and to
/// what finds causes and secrets in texts. The first byte chooses the limit and the chunks.
pub fn decode(bytes: &[u8]) -> u64 {
    let mut print = DefaultHasher::new();
    let Some((choice, bytes)) = bytes.split_first() else { return 0 };
    let limit = [0, 1, 9, 1 << 20][usize::from(choice % 4)];
    let chunks = || bytes.chunks(1 + usize::from(choice / 4 % 16));
    let lines = lines_of(limit, [bytes]);
    assert_eq!(lines, expected_lines(limit, bytes));
    assert_eq!(lines, lines_of(limit, chunks()), "the chunks made a difference");
    let events = events_of(limit, [bytes]);
    assert_eq!(events, expected_events(limit, bytes));
    assert_eq!(events, events_of(limit, chunks()), "the chunks made a difference");
    (lines, events).hash(&mut print);
    let limits =
        if choice / 64 % 2 == 0 { MessageLimits::default() } else { limits(Options::new("", "")).limits.message };
    let decoded = jsonrpc::decode(bytes, limits);
    format!("{decoded:?}").hash(&mut print);
    check_json(bytes, &decoded);
    check_repair(bytes, limits, &decoded);
    check_diagnosis(*choice, bytes).finding.hash(&mut print);
    check_hidden(bytes, chunks());
    match decoded {
        Ok(Decoded::Batch(messages)) => {
            assert!(messages.len() <= limits.batch + 1);
            messages.iter().flatten().for_each(check_payload);
        }
        Ok(Decoded::One(message)) => check_payload(&message),
        Ok(Decoded::Blank) | Err(_) => {}
    }
    print.finish()
}

/// Separates standard error from the message of the failure.
const SEPARATOR: u8 = 0x1f;

/// Finds the cause of a failure: of standard error before the separator, with the message after it.
fn check_diagnosis(choice: u8, bytes: &[u8]) -> Diagnosis {
    let end = bytes.iter().position(|byte| *byte == SEPARATOR).unwrap_or(bytes.len());
    let (stderr, message) = bytes.split_at(end);
    let message = String::from_utf8_lossy(message.get(1..).unwrap_or_default()).into_owned();
    let mut lines = StderrLines::default();
    let mut whole = lines.clone();
    whole.take(stderr);
    stderr.chunks(7).for_each(|piece| lines.take(piece));
    assert_eq!(lines.line(), whole.line(), "the chunks made a difference");
    let failure = Failure::new(FailureKind::ALL[usize::from(choice) % FailureKind::ALL.len()], message);
    let diagnosis = Diagnosis::of_server(failure, "s", &lines);
    assert!(diagnosis.finding.chars().count() <= 600 && !diagnosis.finding.contains('\n'), "{diagnosis:?}");
    let shown = format!("{diagnosis} {} {} {:?}", diagnosis.cause, diagnosis.stage().as_str(), diagnosis.source());
    assert!(shown.starts_with(&*diagnosis.finding), "{shown}");
    diagnosis
}

/// Hides a secret in the bytes, which come in chunks.
fn check_hidden<'a>(bytes: &[u8], chunks: impl Iterator<Item = &'a [u8]>) {
    let mut hider = Hider::default();
    hider.add("hush-secret").expect("it is long enough");
    let mut stream = HiddenStream::default();
    let mut shown: Vec<u8> = chunks.flat_map(|chunk| hider.pass(&mut stream, chunk)).collect();
    shown.extend(stream.end());
    let is_secret = |text: &[u8]| text.windows(11).any(|window| window == b"hush-secret");
    assert!(!is_secret(&shown), "a secret is shown");
    assert!(!is_secret(hider.hide(&String::from_utf8_lossy(bytes)).as_bytes()), "a secret is shown");
}

pub fn owned_line(line: Line<'_>) -> OwnedLine {
    match line {
        Line::Complete(line) => (true, line.into()),
        Line::TooLong(line) => (false, line.into()),
    }
}

pub fn lines_of<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<OwnedLine> {
    let (mut decoder, mut lines) = (LineDecoder::new(limit), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk, |line| lines.push(owned_line(line)));
    }
    decoder.finish(|line| lines.push(owned_line(line)));
    lines
}

/// The lines of the whole text.
pub fn expected_lines(limit: usize, bytes: &[u8]) -> Vec<OwnedLine> {
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines.into_iter().map(|line| (line.len() <= limit, line[..line.len().min(limit)].into())).collect()
}

pub fn owned_item(item: Sse<'_>) -> Item {
    let event = |event: SseEvent<'_>, whole| Item::Event {
        name: event.name.into(),
        data: event.data.into(),
        id: event.id.map(Into::into),
        whole,
    };
    match item {
        Sse::Event(it) => event(it, true),
        Sse::TooLong(it) => event(it, false),
        Sse::Retry(after) => Item::Retry(after.as_millis().try_into().unwrap()),
    }
}

pub fn events_of<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let (mut decoder, mut items) = (SseDecoder::new(limit), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk, |item| items.push(owned_item(item)));
    }
    (items, decoder.last_id().map(Into::into))
}

/// The events of the whole text: by the rules of the standard, then those of the decoder.
pub fn expected_events(limit: usize, bytes: &[u8]) -> Events {
    const SHORT: usize = 4096;
    let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    // Each byte as the character of its number, so that the functions of the standard library split the text.
    let text: String = text.iter().map(|byte| char::from(*byte)).collect();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let back = |text: &str| text.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<_>>();

    let mut lines: Vec<_> = text.split('\n').collect();
    lines.pop();
    let (mut items, mut last_id) = (Vec::new(), None);
    let (mut data, mut name, mut id) = (String::new(), String::new(), None);
    for line in lines {
        if line.is_empty() {
            last_id.clone_from(&id);
            let all = back(data.strip_suffix('\n').unwrap_or(&data));
            if !all.is_empty() {
                let name = if name.is_empty() { "message" } else { name.as_str() };
                items.push(Item::Event {
                    name: back(name).into_iter().take(SHORT).collect(),
                    data: all.iter().copied().take(limit).collect(),
                    id: last_id.clone(),
                    whole: all.len() <= limit,
                });
            }
            (data, name) = (String::new(), String::new());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data += &format!("{value}\n"),
            "event" => name = value.into(),
            "id" if back(value).len() > SHORT => id = Some(Vec::new()),
            "id" if !value.contains('\0') => id = Some(back(value)),
            "retry" if value.len() <= SHORT && !value.is_empty() && value.chars().all(|c| c.is_ascii_digit()) => {
                items.push(Item::Retry(value.parse().unwrap_or(u64::MAX)));
            }
            _ => {}
        }
    }
    (items, last_id)
}

/// The decoder and `serde_json` agree on what is JSON.
fn check_json(bytes: &[u8], decoded: &Result<Decoded<'_>, Noise>) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let text = text.trim_start_matches('\u{feff}').trim_matches([' ', '\t', '\r', '\n']);
    let valid = serde_json::from_str::<&RawValue>(text).is_ok();
    match decoded {
        Ok(Decoded::One(_) | Decoded::Batch(_)) | Err(Noise::NotAMessage) => assert!(valid, "taken for JSON"),
        Err(Noise::NotJson) if text.starts_with('{') => {
            // A member's name must be a valid string.
            assert!(serde_json::from_str::<BTreeMap<String, &RawValue>>(text).is_err(), "not taken for JSON");
        }
        Err(Noise::NotJson) => assert!(!valid, "not taken for JSON"),
        Ok(Decoded::Blank) | Err(_) => {}
    }
}

/// Only what is not JSON is repaired, and each message is the bytes as written but for values that become `null`.
fn check_repair(bytes: &[u8], limits: MessageLimits, decoded: &Result<Decoded<'_>, Noise>) {
    let repaired = jsonrpc::repair(bytes, limits);
    if !matches!(decoded, Err(Noise::NotJson)) {
        return assert_eq!(repaired, jsonrpc::Repaired::default(), "repaired what is no JSON");
    }
    let text = std::str::from_utf8(bytes).expect("what is not JSON is text");
    assert!(repaired.messages.len() + repaired.broken.len() <= limits.batch);
    let mut rest = text;
    for message in &repaired.messages {
        let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(message);
        let members = members.expect("what is repaired is JSON");
        let Ok(Decoded::One(message_of)) = jsonrpc::decode(message.as_bytes(), limits) else {
            panic!("no message: {message}")
        };
        check_payload(&message_of);
        if let Some(id) = members.get("id").filter(|id| id.get() != "null") {
            assert!(text.contains(id.get()), "the id {id} was invented");
        }
        for piece in message.split("null") {
            let (_, after) = rest.split_once(piece).expect("the bytes as written, in order");
            rest = after;
        }
    }
    for broken in &repaired.broken {
        assert!(text.is_char_boundary(broken.at), "{broken:?}");
        if let ResponseId::Exact(id) | ResponseId::Loose(id) = broken.id {
            assert!(text[..broken.at].contains(&id.to_string()), "{broken:?}");
        }
    }
}

/// A payload is exactly one JSON value.
fn check_payload(message: &Message<'_>) {
    let payload = match &message.body {
        Body::Request { params, .. } | Body::Notification { params, .. } => *params,
        Body::Result { result, .. } => Some(*result),
        Body::Error { error, .. } => error.data.as_deref(),
    };
    if let Some(payload) = payload {
        assert_eq!(serde_json::from_str::<&RawValue>(payload.get()).unwrap().get(), payload.get());
    }
}
