//! Invariants that hold after every input.

use std::collections::BTreeMap;
use std::fmt::Debug;

#[cfg(feature = "template")]
use mcp_proto::catalog::Variable;
use mcp_proto::{Engine, Family, Outgoing, Time};
use serde_json::value::RawValue;

/// Maximum queued actions of a session that the embedder did not cause, with the fuzzer's limits.
pub(super) const OWED: usize = 100;

/// The maximum time, at which everything is always due.
pub(super) const END: Time = Time::from_micros(u64::MAX);

/// Maximum repetitions of one deadline.
const STANDSTILL: usize = 32;

/// The deadlines waited for.
#[derive(Default)]
pub(super) struct Deadlines {
    last: Option<Time>,
    still: usize,
}

impl Deadlines {
    pub(super) fn reach(&mut self, deadline: Time) {
        self.still = if self.last == Some(deadline) { self.still + 1 } else { 0 };
        self.last = Some(deadline);
        assert!(self.still < STANDSTILL, "the deadline {deadline:?} does not move on");
    }
}

pub(super) fn assert_same(one: &impl Debug, other: &impl Debug, what: &str) {
    assert_equal(&format!("{one:?}"), &format!("{other:?}"), what);
}

/// Shows where texts that should be the same begin to differ.
pub(super) fn assert_equal(one: &str, other: &str, what: &str) {
    if one != other {
        let at = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
        let excerpt = |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
        panic!("{what}:\n{}\n{}", excerpt(one), excerpt(other));
    }
}

pub(super) fn check_line(message: &Outgoing) {
    let (last, text) = message.line().split_last().expect("a line is not empty");
    assert_eq!(*last, b'\n');
    let members = check_message(text);
    assert_eq!(message.method().is_some(), members.contains_key("method"));
    assert_eq!(message.wire_id().is_some(), members.contains_key("method") && members.contains_key("id"));
}

/// A message is one JSON object without line breaks.
pub(super) fn check_message(text: &[u8]) -> BTreeMap<String, &RawValue> {
    assert!(!text.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "a line break in a message");
    let members = members(text);
    assert_eq!(members["jsonrpc"].get(), "\"2.0\"");
    members
}

pub(super) fn members(message: &[u8]) -> BTreeMap<String, &RawValue> {
    serde_json::from_slice(message).expect("a message is a JSON object")
}

/// Stored data is within its bounds and can be read.
pub(super) fn check_kept(session: &Engine) {
    let limits = session.options().limits;
    assert!(session.quirks().len() <= limits.quirks);
    assert!(session.subscriptions().count() <= limits.subscriptions);
    for &family in Family::ALL {
        let list = session.catalog().list(family);
        assert!(list.len() <= limits.items && session.family(family).pages <= limits.pages);
        for (key, item) in list.iter() {
            assert_eq!(list.find(key), Some((key, item)), "an item is not found by its key");
        }
    }
    let catalog = session.catalog();
    touch(catalog.tools().map(|tool| tool.name.len() + tool.input_schema.get().len()));
    touch(catalog.prompts().map(|prompt| prompt.arguments.len()));
    touch(catalog.resources().map(|resource| resource.uri.len()));
    touch(catalog.resource_templates().map(|template| template.uri_template.len()));
    #[cfg(feature = "template")]
    touch(catalog.resource_templates().map(|template| {
        let values = template.variables().into_iter().flatten().map(|name| (name, Variable::Text("a/b")));
        template.expand(values.collect::<Vec<_>>())
    }));
}

fn touch(items: impl Iterator<Item = impl Debug>) {
    items.for_each(|item| drop(std::hint::black_box(item)));
}

/// A state as text, without the history that makes no difference: times are relative to `now`, and ids to the newest of
/// their kind. A number that is not recognized stays, so that different states keep different texts.
pub(super) fn canonical(state: &str, now: Time) -> String {
    let mut numbers: Vec<(usize, usize, &str, u64)> = Vec::new();
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut end = 0;
    while let Some(start) = state[end..].find(|it: char| it.is_ascii_digit()).map(|at| end + at) {
        let before = &state[end..start];
        end = start + digits(&state[start..]);
        let value = state[start..end].parse().unwrap_or(u64::MAX);
        // In a list of requests, and beside the time of a request's deadline, only the number stands.
        let kind = match (kind(before, &state[end..]), numbers.last()) {
            ("", Some((_, _, "RequestId" | "time", _))) if before == ", " => "RequestId",
            (kind, _) => kind,
        };
        if kind == "time" {
            // Microseconds have six digits.
            end += ".000000s".len();
        }
        let newest = newest.entry(kind).or_default();
        *newest = value.max(*newest);
        numbers.push((start, end, kind, value));
    }
    let mut text = String::with_capacity(state.len());
    let mut written = 0;
    for (start, end, kind, value) in numbers {
        text.push_str(&state[written..start]);
        written = end;
        match kind {
            "" => text.push_str(&state[start..end]),
            "counter" => {}
            "time" => {
                let micros: u64 = state[end - 7..end - 1].parse().expect("six digits");
                let at = i128::from(value) * 1_000_000 + i128::from(micros);
                text.push_str(&(at - i128::from(now.as_micros())).to_string());
            }
            kind => text.push_str(&format!("#{}", newest[kind] - value)),
        }
    }
    text + &state[written..]
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// What a number is: a time, a counter of ids, an id of this kind, or anything else.
fn kind<'a>(before: &'a str, after: &str) -> &'a str {
    let is_time = after.starts_with('.') && digits(&after[1..]) == 6 && after[7..].starts_with('s');
    let is_word = before.ends_with(|it: char| it.is_alphanumeric());
    let names_request = ["request: Some(", "request: Some((", "id: Some(", "(Some(", "asked: Some(", "open: Some("];
    let holds_requests = ["waiting_ids: ", "abandoned: {", "carried: [", "first: "];
    if is_word {
        ""
    } else if is_time {
        "time"
    } else if after.starts_with(": Exchange {") {
        "ExchangeId"
    } else if before.ends_with("Ids { last: ") {
        "RequestId"
    } else if before.ends_with("last: ") {
        "counter"
    } else if after.starts_with(": OpenRequest")
        || after.starts_with(": Exchange(")
        || names_request.iter().chain(&holds_requests).any(|it| before.ends_with(it))
    {
        "RequestId"
    } else if let Some(name) = before.strip_suffix('(').filter(|name| name.ends_with("Id")) {
        name.rsplit(|it: char| !it.is_alphanumeric()).next().unwrap_or_default()
    } else {
        ""
    }
}
