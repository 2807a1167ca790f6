use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::SamplingPolicy;
use crate::Time;
use crate::jsonrpc::{Json, Object};
use crate::text::excerpt;

const MINUTE: Duration = Duration::from_secs(60);

/// Maximum number of messages that are read.
const MESSAGES: usize = 10_000;

/// When sampling requests were allowed within the last minute, oldest first. Few servers send any.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sampled {
    at: VecDeque<Time>,
}

/// Maximum number of model hints that are read, in order of preference: each is compared with each model of the policy.
const HINTS: usize = 100;

impl Sampled {
    /// Why the policy denies a sampling request, if it does. `uncounted`: allowed requests that are not counted yet.
    pub(super) fn denied(
        &self,
        policy: &SamplingPolicy,
        params: Option<&RawValue>,
        now: Time,
        uncounted: usize,
    ) -> Option<String> {
        let params = params.map(Json::from);
        let member = |name| params.and_then(|params| params.member(name));
        if !policy.models.is_empty() {
            // "Hints are treated as substrings that can match model names flexibly."
            let fits = |name: &str| policy.models.iter().any(|model| model.contains(name));
            let hints = member("modelPreferences").and_then(|preferences| preferences.member("hints"));
            let hints = hints.and_then(|hints| hints.elements(HINTS)).map(|hints| hints.kept).unwrap_or_default();
            let hints = hints.iter().filter_map(|hint| hint.member("name").and_then(Json::as_string));
            let names: Vec<_> = match &policy.model {
                Some(model) => vec![Cow::Borrowed(&**model)],
                None => hints.collect(),
            };
            if let Some(wanted) = names.first().filter(|_| !names.iter().any(|name| fits(name))) {
                return Some(format!("the model {} is not allowed", excerpt(wanted)));
            }
        }
        if let Some(most) = policy.tool_rounds {
            let messages = member("messages").and_then(|messages| messages.elements(MESSAGES));
            let messages = messages.map(|messages| messages.kept).unwrap_or_default();
            let rounds = messages.into_iter().filter(|message| uses_tool(*message)).count();
            if u32::try_from(rounds).is_ok_and(|rounds| rounds > most) || rounds >= MESSAGES {
                return Some(format!("{rounds} rounds with tools, and at most {most} are allowed"));
            }
        }
        let most = policy.per_minute?;
        let old = self.at.partition_point(|at| now.since(*at) >= MINUTE);
        let recent = self.at.len().saturating_sub(old).saturating_add(uncounted);
        usize::try_from(most)
            .is_ok_and(|most| recent >= most)
            .then(|| format!("at most {most} requests a minute are allowed"))
    }

    /// Counts an allowed sampling request.
    pub(super) fn count(&mut self, policy: &SamplingPolicy, now: Time) {
        if policy.per_minute.is_some() {
            while self.at.front().is_some_and(|at| now.since(*at) >= MINUTE) {
                self.at.pop_front();
            }
            self.at.push_back(now);
        }
    }
}

/// The parameters with the policy's model and number of tokens, if they differ from the server's.
pub(super) fn adjust(policy: &SamplingPolicy, params: Option<&RawValue>) -> Option<Box<RawValue>> {
    let json = params.map(Json::from).filter(|params| params.is_object())?;
    let tokens = policy
        .max_tokens
        .filter(|most| json.member("maxTokens").is_some_and(|tokens| !is_at_most(tokens.text(), *most)));
    if tokens.is_none() && policy.model.is_none() {
        return None;
    }
    let mut out = Vec::new();
    let mut adjusted = Object::begin(&mut out);
    json.raw_members(|name, value| match (name.as_string().as_deref(), tokens, &policy.model) {
        (Some("maxTokens"), Some(most), _) => {
            adjusted.integer("maxTokens", most.into());
        }
        (Some("modelPreferences"), _, Some(_)) => {}
        _ => {
            adjusted.member(name.text(), value.text());
        }
    });
    if let Some(model) = &policy.model {
        adjusted.object("modelPreferences", |preferences| {
            let given = json.member("modelPreferences").filter(|given| given.is_object());
            given.unwrap_or(Json::EMPTY_ARRAY).raw_members(|name, value| {
                if name.as_string().as_deref() != Some("hints") {
                    preferences.member(name.text(), value.text());
                }
            });
            let hints = preferences.value("hints");
            hints.push(b'[');
            let mut hint = Object::begin(hints);
            hint.string("name", model);
            hint.end();
            hints.push(b']');
        });
    }
    adjusted.end();
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// Whether the parameters have tools (specification 2025-11-25, "Sampling", Tools in Sampling).
pub(super) fn has_tools(params: Option<&RawValue>) -> bool {
    let member = |name| params.map(Json::from).and_then(|params| params.member(name));
    ["tools", "toolChoice"].into_iter().any(|name| member(name).is_some_and(|value| !value.is_null()))
}

/// Why the tool results in the messages do not fit the tool uses, if they do not (specification 2025-11-25, "Sampling",
/// Message Content Constraints).
pub(super) fn tool_flaw(params: Option<&RawValue>) -> Option<&'static str> {
    const MISSING: Option<&str> = Some("Tool result missing in request");
    let messages = params.map(Json::from)?.member("messages")?.elements(MESSAGES)?;
    let mut uses = BTreeSet::new();
    for message in messages.kept {
        let (mut results, mut others, mut next) = (false, false, BTreeSet::new());
        each_content(message, |content| {
            let id = |name| content.member(name).and_then(Json::as_string);
            match content.member("type").and_then(Json::as_string).as_deref() {
                Some("tool_result") => {
                    results = true;
                    if let Some(id) = id("toolUseId") {
                        uses.remove(&id);
                    }
                }
                Some("tool_use") => {
                    others = true;
                    next.extend(id("id"));
                }
                Some(_) | None => others = true,
            }
        });
        if results && others {
            return Some("Tool results mixed with other content");
        }
        if !uses.is_empty() {
            return MISSING;
        }
        uses = next;
    }
    if uses.is_empty() { None } else { MISSING }
}

/// Whether the text is a number that is not above the limit.
fn is_at_most(number: &str, most: u64) -> bool {
    // A number with a fraction or an exponent is compared as a float.
    number.parse::<u64>().map_or_else(|_| number.parse::<f64>().is_ok_and(|it| it <= most as f64), |it| it <= most)
}

/// Whether the model uses a tool in a message.
fn uses_tool(message: Json<'_>) -> bool {
    let mut uses = false;
    each_content(message, |content| {
        uses |= content.member("type").and_then(Json::as_string).as_deref() == Some("tool_use");
    });
    uses
}

/// Calls `each` with each content block of a message, which has one or a list of them.
fn each_content<'a>(message: Json<'a>, each: impl FnMut(Json<'a>)) {
    let Some(content) = message.member("content") else { return };
    match content.elements(MESSAGES) {
        Some(contents) => contents.kept.into_iter().for_each(each),
        None => core::iter::once(content).for_each(each),
    }
}
