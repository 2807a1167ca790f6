//! Invariants that hold after every input.

use std::collections::BTreeMap;
use std::fmt::Debug;

#[cfg(feature = "template")]
use mcp_proto::catalog::{ResourceTemplate, Variable};
use mcp_proto::protocol::Capability;
use mcp_proto::{Engine, Event, Family, Outcome, Outgoing, RequestError, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// In each secret, and in nothing else: it is removed from inputs whose words and URLs may be shown. It has a digit, so that a
/// journal does not take it for the name of a member.
pub(super) const MARKER: &str = "hush-tide-0ar";

/// Maximum queued actions of a session that the embedder did not cause, with the fuzzer's limits.
pub(super) const OWED: usize = 100;

#[cfg(feature = "oauth")]
pub(super) fn has_marker(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|part| part == MARKER.as_bytes())
}

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

/// What is serialized can be read, and is the same when it is serialized again.
pub(super) fn check_form<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("a value can be written");
    let read = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_equal(
        &serde_json::to_string(&read).expect("a value can be written"),
        &text,
        "another form of what was read",
    );
    read
}

/// An event can be serialized, and what it quotes is well-formed.
pub(super) fn check_event(event: &Event) {
    assert!(check_form(event) == *event, "another event than {event:?} was read");
    match event {
        Event::Finished { outcome: Outcome::Error(error), .. } | Event::LogLevelFailed { error } => {
            assert!(!matches!(error, RequestError::Status { status: 0, .. }), "{error:?}");
        }
        Event::Progress { progress, .. } => {
            let numbers = [progress.progress(), progress.total()];
            assert!(numbers.into_iter().flatten().all(|it| !it.is_nan()), "{progress:?}");
            touch([progress.message()].iter());
        }
        Event::Task { task, .. } => {
            assert!(task.status().is_some() && task.id().is_some(), "{task:?} has no status");
            touch([(task.message(), task.ttl(), task.poll_interval())].iter());
        }
        Event::CatalogChanged { difference, .. } => assert!(!difference.is_empty(), "nothing changed"),
        Event::Down { failure, .. } => assert!(failure.to_string().contains(&*failure.message), "{failure:?}"),
        Event::ServerRequest { method, .. } => assert_eq!(method.to_string(), method.as_str()),
        Event::Log { level, .. } => assert_eq!(level.as_str(), check_form(level).as_str()),
        _ => {}
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
    for tool in catalog.tools() {
        check_well_typed(&tool.well_typed());
        assert!(tool.title.as_ref().is_none_or(|title| *title == tool.display_name()), "another name is shown");
        touch([(tool.icons().len(), tool.task_support(), session.needs_approval(tool.name))].iter());
    }
    for prompt in catalog.prompts() {
        check_well_typed(&prompt.well_typed());
        touch([(prompt.icons().len(), &prompt.arguments)].iter());
        assert!(catalog.prompt(prompt.name).is_some(), "a prompt is not found by its name");
    }
    for resource in catalog.resources() {
        check_well_typed(&resource.well_typed());
        touch([(resource.icons().len(), resource.annotations())].iter());
        assert!(catalog.resource(resource.uri).is_some(), "a resource is not found by its URI");
    }
    for template in catalog.resource_templates() {
        check_well_typed(&template.well_typed());
        touch([(template.icons().len(), template.annotations())].iter());
        assert!(catalog.resource_template(template.uri_template).is_some(), "a template is not found");
    }
    if let Some(server) = session.server() {
        let declared = server.capabilities();
        for capability in [Capability::Tools, Capability::Prompts, Capability::Resources] {
            let has = declared.is_some_and(|declared| declared.has(capability));
            assert!(has || !declared.is_some_and(|declared| declared.list_changed(capability)), "{capability:?}");
        }
        touch([(server.info(), declared.map(|declared| declared.subscribe()))].iter());
    }
    #[cfg(feature = "template")]
    catalog.resource_templates().for_each(|template| check_template(&template));
}

/// A template that has variables expands with a text for each, and what it expands to is no template.
#[cfg(feature = "template")]
fn check_template(template: &ResourceTemplate<'_>) {
    let names: Vec<_> = match template.variables() {
        Ok(names) => names.collect(),
        Err(error) => return assert!(check_form(&error) == error && template.expand([]) == Err(error)),
    };
    let values = [
        Variable::Text("a/b \u{e9}%41"),
        Variable::List(&["a", "", "\u{e9}"]),
        Variable::Map(&[("a", ""), ("b%", "c/d")]),
    ];
    for value in values {
        match template.expand(names.iter().map(|name| (*name, value))) {
            Ok(uri) => assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri}"),
            Err(error) => assert!(!error.to_string().is_empty() && check_form(&error) == error),
        }
    }
}

/// Without members of a wrong type an item is still an object.
fn check_well_typed(item: &RawValue) {
    assert!(serde_json::from_str::<BTreeMap<String, &RawValue>>(item.get()).is_ok(), "not an object: {item}");
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
