use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use serde_json::value::RawValue;

use super::SamplingPolicy;
use super::core::excerpt;
use crate::Time;
use crate::jsonrpc::Json;

const MINUTE: Duration = Duration::from_secs(60);

/// Maximum number of messages that are read.
const MESSAGES: usize = 10_000;

/// When sampling requests were allowed within the last minute, oldest first. Few servers send any.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampled {
    at: VecDeque<Time>,
}

/// Maximum number of model hints that are read, in order of preference: each is compared with each model of the policy.
const HINTS: usize = 100;

impl Sampled {
    /// Why the policy denies a sampling request, if it does.
    pub(super) fn denied(&self, policy: &SamplingPolicy, params: Option<&RawValue>, now: Time) -> Option<String> {
        let params = params.map(Json::from);
        let member = |name| params.and_then(|params| params.member(name));
        if let Some(most) = policy.max_tokens {
            let wanted = member("maxTokens").filter(|tokens| !is_at_most(tokens.text(), most));
            if let Some(wanted) = wanted {
                let wanted = excerpt(wanted.text());
                return Some(format!("{wanted} tokens are wanted, and at most {most} are given"));
            }
        }
        if !policy.models.is_empty() {
            let hints = member("modelPreferences").and_then(|preferences| preferences.member("hints"));
            let hints = hints.and_then(|hints| hints.elements(HINTS)).map(|hints| hints.kept).unwrap_or_default();
            let names = || hints.iter().filter_map(|hint| hint.member("name").and_then(Json::as_string));
            // "Hints are treated as substrings that can match model names flexibly."
            let fits = |name: &str| policy.models.iter().any(|model| model.contains(name));
            if names().next().is_some() && !names().any(|name| fits(&name)) {
                let wanted = names().next().unwrap_or_default();
                return Some(format!("the model {} is not among those that are given", excerpt(&wanted)));
            }
        }
        if let Some(most) = policy.tool_rounds {
            let messages = member("messages").and_then(|messages| messages.elements(MESSAGES));
            let messages = messages.map(|messages| messages.kept).unwrap_or_default();
            let rounds = messages.into_iter().filter(|message| uses_tool(*message)).count();
            if u32::try_from(rounds).is_ok_and(|rounds| rounds > most) || rounds >= MESSAGES {
                return Some(format!("{rounds} rounds with tools, and at most {most} are given"));
            }
        }
        let most = policy.per_minute?;
        let old = self.at.partition_point(|at| now.since(*at) >= MINUTE);
        let recent = self.at.len().saturating_sub(old);
        usize::try_from(most)
            .is_ok_and(|most| recent >= most)
            .then(|| format!("at most {most} requests a minute are taken"))
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

/// Whether the text is a number that is not above the limit.
fn is_at_most(number: &str, most: u64) -> bool {
    // A number with a fraction or an exponent is compared as a float.
    number.parse::<u64>().map_or_else(|_| number.parse::<f64>().is_ok_and(|it| it <= most as f64), |it| it <= most)
}

/// Whether the model uses a tool in a message.
fn uses_tool(message: Json<'_>) -> bool {
    let is_use = |content: Json<'_>| content.member("type").and_then(Json::as_string).as_deref() == Some("tool_use");
    let Some(content) = message.member("content") else { return false };
    match content.elements(MESSAGES) {
        Some(contents) => contents.kept.into_iter().any(is_use),
        None => is_use(content),
    }
}
