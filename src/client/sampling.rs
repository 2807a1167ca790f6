use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use serde_json::value::RawValue;

use super::Engine;
use super::classify::excerpt;
use crate::Time;
use crate::jsonrpc::Json;

const MINUTE: Duration = Duration::from_secs(60);

/// Messages of a request that are looked at.
const MESSAGES: usize = 10_000;

/// When the server was let ask for samples within the last minute, oldest first. Few sessions have any.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampled {
    at: VecDeque<Time>,
}

/// Hints at models that are looked at, the server's favourites first: each is compared with each of the policy's models.
const HINTS: usize = 100;

impl Engine {
    /// What a request for a sample is over, if it is over anything. One that is not counts from here on.
    pub(super) fn over_sampling_policy(&mut self, params: Option<&RawValue>) -> Option<String> {
        let policy = &self.options.sampling;
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
        let now = self.now;
        let Sampled { at: sampled } = &mut **self.sampled.get_or_insert_default();
        while sampled.front().is_some_and(|at| now.since(*at) >= MINUTE) {
            sampled.pop_front();
        }
        if usize::try_from(most).is_ok_and(|most| sampled.len() >= most) {
            return Some(format!("at most {most} requests a minute are taken"));
        }
        sampled.push_back(now);
        None
    }
}

/// Whether this is a number, and not above a bound.
fn is_at_most(number: &str, most: u64) -> bool {
    // One with a fraction or an exponent is told as exactly as it has to be.
    number.parse::<u64>().map_or_else(|_| number.parse::<f64>().is_ok_and(|it| it <= most as f64), |it| it <= most)
}

/// Whether a message is one in which the model uses a tool.
fn uses_tool(message: Json<'_>) -> bool {
    let is_use = |content: Json<'_>| content.member("type").and_then(Json::as_string).as_deref() == Some("tool_use");
    let Some(content) = message.member("content") else { return false };
    match content.elements(MESSAGES) {
        Some(contents) => contents.kept.into_iter().any(is_use),
        None => is_use(content),
    }
}
