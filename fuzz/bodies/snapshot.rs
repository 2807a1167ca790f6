//! The body of the target `snapshot`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::time::Duration;

use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{Hub, HubOptions};
use mcp_proto::{
    Binding, Client, Http, Lines, Messages, Moved, Options, Request, Secrets, Snapshot, SnapshotError, Time,
};
use serde_json::{Value, json};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::input::Input;
use super::rig::Operated as _;
use super::{http, session};

/// Reads the bytes as a document, if they begin as one. Otherwise as operations on a session up to a line feed, and
/// then as changes to its snapshot, which gets a matching checksum. Whatever is restored runs to its end.
pub fn snapshot(bytes: &[u8]) -> u64 {
    let mut print = DefaultHasher::new();
    if bytes.first() == Some(&b'{') {
        document(bytes, &mut print);
        return print.finish();
    }
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (operations, changes) = bytes.split_at(line);
    let (mut operations, mut changes) = (Input(operations), Input(changes));
    let secrets = [Secrets::Included, Secrets::Excluded][operations.pick(2)];
    let saved = match operations.pick(2) {
        0 => session::Rig::run(operations.0).session.snapshot(secrets),
        _ => http::Rig::run(operations.0).session.snapshot(secrets),
    };
    let mut document = serde_json::to_value(&saved).expect("a document");
    let mut state = document["state"].as_str().expect("a text").to_owned();
    while let Some(operation) = changes.operation() {
        change(&mut state, operation, &mut changes);
    }
    document["state"] = json!(state);
    document["checksum"] = json!(checksum(&document));
    let read = serde_json::from_value(document).expect("a document");
    restore(&read, &mut print);
    print.finish()
}

fn document(bytes: &[u8], print: &mut DefaultHasher) {
    match serde_json::from_slice(bytes) {
        Ok(read) => restore(&read, print),
        Err(error) => error.to_string().hash(print),
    }
}

fn options() -> Options {
    let mut options = Options::new("fuzz", "1");
    options.limits.message.depth = 64;
    options
}

fn restore(snapshot: &Snapshot, print: &mut DefaultHasher) {
    for moved in [Moved::WithTransport, Moved::WithoutTransport] {
        let http = Http::new("http://h/mcp").expect("an address");
        run(Client::from_snapshot(Messages::new(), options(), snapshot, moved), print);
        run(Client::from_snapshot(Lines::new(), options(), snapshot, moved), print);
        run(Client::from_snapshot(http, options(), snapshot, moved), print);
        let hub = Hub::from_snapshot(HubOptions::new(options()), Configuration::default(), snapshot, moved);
        match hub {
            Ok(mut hub) => {
                let _ = hub.close(Time::ZERO);
                hub.handle_timeout(Time::from_millis(1 << 40));
                drained(|| hub.poll()).hash(print);
            }
            Err(error) => error.to_string().hash(print),
        }
    }
}

/// Polls until nothing is left, and tells how much there was.
fn drained<A>(poll: impl FnMut() -> Option<A>) -> usize {
    let count = std::iter::from_fn(poll).take(1_000_000).count();
    assert!(count < 1_000_000, "polls have no end");
    count
}

/// Uses a restored client, and closes it.
fn run<B: Binding>(restored: Result<Client<B>, SnapshotError>, print: &mut DefaultHasher) {
    let mut client = match restored {
        Ok(client) => client,
        Err(error) => return error.to_string().hash(print),
    };
    let again = client.snapshot(Secrets::Included);
    again.time().as_micros().hash(print);
    let mut now = again.time();
    let _ = client.request(now, Request::call_tool("a", None));
    let _ = client.subscribe(now, "r:1");
    let _ = client.catalog().tools().map(|tool| tool.name.len()).sum::<usize>();
    for _ in 0..20 {
        drained(|| client.poll()).hash(print);
        now = client.deadline().unwrap_or(now + Duration::from_secs(1)).max(now);
        client.handle_timeout(now);
    }
    let _ = client.close(now);
    for _ in 0..20 {
        drained(|| client.poll()).hash(print);
        now = client.deadline().unwrap_or(now + Duration::from_secs(1)).max(now);
        client.handle_timeout(now);
    }
    client.is_closed().hash(print);
}

/// What may stand in place of a number.
const VALUES: [&str; 12] =
    ["0", "1", "2", "7", "4294967295", "18446744073709551615", "1e9", "-1", "null", "[]", "true", "\"x\""];

fn change(state: &mut String, operation: u8, input: &mut Input<'_>) {
    let place = usize::from(input.byte()) << 8 | usize::from(input.byte());
    match operation {
        // One number is replaced, or becomes another that is there.
        b'a'..=b'h' => {
            let numbers = runs(state, |byte| byte.is_ascii_digit());
            let value = VALUES[input.pick(VALUES.len())].to_owned();
            replace(state, &numbers, place, |_| value);
        }
        b'i'..=b'l' => {
            let numbers = runs(state, |byte| byte.is_ascii_digit());
            let other = usize::from(input.byte());
            replace(state, &numbers, place, |state| word(state, &numbers, other));
        }
        // One word becomes another that is there: a state, a member's name.
        b'm'..=b't' => {
            let words = runs(state, |byte| byte.is_ascii_alphabetic() || byte == b'_');
            let other = usize::from(input.byte()) << 8 | usize::from(input.byte());
            replace(state, &words, place, |state| word(state, &words, other));
        }
        // A part of the text is left out, or the rest.
        b'u' | b'v' => {
            let end = place.saturating_add(input.pick(64));
            *state = state.char_indices().filter(|(at, _)| !(place..end).contains(at)).map(|(_, char)| char).collect();
        }
        b'w' => *state = state.chars().take(place).collect(),
        _ => {}
    }
}

/// The runs of such bytes, which are ASCII.
fn runs(text: &str, is_it: impl Fn(u8) -> bool) -> Vec<Range<usize>> {
    let (mut runs, mut start) = (Vec::new(), None);
    for (at, byte) in text.bytes().chain([0]).enumerate() {
        match (start, is_it(byte)) {
            (None, true) => start = Some(at),
            (Some(begin), false) => {
                runs.push(begin..at);
                start = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
    runs
}

fn word(text: &str, runs: &[Range<usize>], which: usize) -> String {
    text[runs[which % runs.len()].clone()].to_owned()
}

fn replace(text: &mut String, runs: &[Range<usize>], place: usize, value: impl FnOnce(&str) -> String) {
    if let Some(at) = place.checked_rem(runs.len()) {
        let value = value(text);
        text.replace_range(runs[at].clone(), &value);
    }
}

/// The checksum of a document.
fn checksum(document: &Value) -> String {
    let mut hasher = SipHasher13::new();
    for member in ["version", "kind", "state"] {
        let text = document[member].as_str().expect("a text");
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text.as_bytes());
    }
    let format = u32::try_from(document["format"].as_u64().expect("a number")).expect("a small one");
    hasher.write(&format.to_le_bytes());
    hasher.write(&document["time"].as_u64().expect("a number").to_le_bytes());
    hasher.write(&[u8::from(document["secrets"] == true)]);
    format!("{:032x}", hasher.finish128().as_u128())
}
