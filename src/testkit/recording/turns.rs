//! Finds out what each message of a client caused.

use core::time::Duration;
use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::Value;

use super::recorded::{Recorded, Recording, compared, version_of};
use super::said::{Said, Word};
use crate::Time;
use crate::protocol::method;
use crate::testkit::content::Ask;
use crate::testkit::server::{SUBSCRIPTION, modern_version};
use crate::testkit::turn::Answer;

/// A message of the client, and what it caused so far.
#[derive(Debug)]
struct Draft {
    method: String,
    message: Value,
    channel: u64,
    at: Time,
    /// When the client answered the last question about it, or sent it.
    since: Time,
    recorded: Recorded,
    /// It was sent again elsewhere, because the server redirected it.
    is_redirected: bool,
}

#[derive(Debug, Default)]
struct Drafts {
    is_http: bool,
    all: Vec<Draft>,
    /// The requests without an answer: by id, by connection or exchange, and by progress token.
    in_flight: BTreeMap<String, usize>,
    channels: BTreeMap<u64, BTreeMap<usize, String>>,
    tokens: BTreeMap<String, usize>,
    /// The requests that were answered with a redirect, by id.
    redirects: BTreeMap<String, usize>,
    /// The questions without an answer, by id.
    asks: BTreeMap<String, usize>,
    first: Vec<(Duration, Value)>,
}

/// What a server said, by the messages of the client that caused it.
pub(super) fn recording(words: Vec<Word>, is_http: bool) -> Recording {
    let mut drafts = Drafts { is_http, ..Drafts::default() };
    for Word { at, channel, said } in words {
        match said {
            Said::Client(message) => drafts.client(at, channel, message),
            Said::Server { status, message } => drafts.server(at, channel, status, message),
            #[cfg(feature = "http")]
            Said::Status { status, headers, text } => {
                drafts.over(at, channel, status, &Answer::Status { status, headers, text });
            }
            Said::Broken => drafts.over(at, channel, 0, &Answer::Break),
        }
    }
    let mut recording = Recording { first: drafts.first, ..Recording::default() };
    for draft in drafts.all.into_iter().filter(|draft| !draft.is_redirected) {
        let params = draft.message.get("params").unwrap_or(&Value::Null);
        let answer = &draft.recorded.turn.answer;
        let named = modern_version(&draft.message).and_then(Value::as_str).and_then(|version| version.parse().ok());
        let is_taken = matches!(answer, Answer::Message { outcome: Ok(_), .. });
        recording.versions.extend(named.filter(|_| is_taken).or_else(|| version_of(answer)));
        let key = (draft.method.clone(), compared(&draft.method, params));
        recording.turns.entry(key).or_default().0.push(draft.recorded);
    }
    recording
}

/// The id of a message, as a key.
fn id_of(message: &Value) -> Option<String> {
    message.get("id").map(ToString::to_string)
}

impl Drafts {
    fn client(&mut self, at: Time, channel: u64, message: Value) {
        let id = id_of(&message);
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let asked = id.and_then(|id| self.asks.remove(&id)).and_then(|index| self.all.get_mut(index));
            asked.into_iter().for_each(|draft| draft.since = at);
            return;
        };
        if let Some(id) = id {
            let index = self.all.len();
            let moved = self.redirects.remove(&id).and_then(|index| self.all.get_mut(index));
            moved.into_iter().for_each(|draft| draft.is_redirected = true);
            let token = message.get("params").and_then(|params| params.get("_meta")?.get("progressToken"));
            self.tokens.extend(token.map(|token| (token.to_string(), index)));
            self.channels.entry(channel).or_default().insert(index, id.clone());
            self.in_flight.insert(id, index);
        }
        let method = method.into();
        let recorded = Recorded::default();
        let draft = Draft { method, message, channel, at, since: at, recorded, is_redirected: false };
        self.all.push(draft);
    }

    fn server(&mut self, at: Time, channel: u64, status: u16, message: Value) {
        let id = id_of(&message);
        match (message.get("method").and_then(Value::as_str), id) {
            (None, id) => self.answer(at, status, id, &message),
            (Some(method), Some(id)) if method != method::PING => {
                let about = self.newest(channel);
                match about.and_then(|index| Some((index, self.all.get_mut(index)?))) {
                    Some((index, draft)) => {
                        let params = message.get("params").cloned().unwrap_or_default();
                        draft.recorded.turn.asks.push(Ask::new(method, params));
                        self.asks.insert(id, index);
                    }
                    None => self.news(at, message),
                }
            }
            (Some(method), _) => {
                let params = message.get("params").unwrap_or(&Value::Null);
                let about = match method {
                    method::PROGRESS => {
                        let index = params.get("progressToken").and_then(|it| self.tokens.get(&it.to_string()));
                        index.copied().filter(|index| self.is_open(*index))
                    }
                    method::ACKNOWLEDGED => subscription(params).and_then(|id| self.in_flight.get(&id)).copied(),
                    method::PING => None,
                    _ => self.exchange(channel),
                };
                match about.and_then(|index| self.all.get_mut(index)) {
                    Some(draft) => draft.recorded.turn.said.push((at.since(draft.since), message)),
                    None => self.news(at, message),
                }
            }
        }
    }

    /// The newest message of the client is followed by something that is not about it.
    fn news(&mut self, at: Time, message: Value) {
        match self.all.last_mut() {
            Some(draft) => draft.recorded.news.push((at.since(draft.at), message)),
            None => self.first.push((Duration::ZERO, message)),
        }
    }

    fn is_open(&self, index: usize) -> bool {
        let channel = self.all.get(index).and_then(|draft| self.channels.get(&draft.channel));
        channel.is_some_and(|open| open.contains_key(&index))
    }

    /// The newest request without an answer on a connection or exchange.
    fn newest(&self, channel: u64) -> Option<usize> {
        self.channels.get(&channel)?.last_key_value().map(|(index, _)| *index)
    }

    /// The request in whose response the server says something. A stream of subscriptions is about no request.
    fn exchange(&self, channel: u64) -> Option<usize> {
        let index = self.newest(channel).filter(|_| self.is_http)?;
        self.all.get(index).is_some_and(|draft| draft.method != method::LISTEN).then_some(index)
    }

    fn answer(&mut self, at: Time, status: u16, id: Option<String>, message: &Value) {
        let Some(index) = id.and_then(|id| self.in_flight.remove(&id)) else { return };
        let result = message.get("result").cloned().map(Ok);
        let outcome = result.or_else(|| message.get("error").cloned().map(Err));
        self.finish(index, at, outcome.map_or(Answer::None, |outcome| Answer::Message { status, outcome }));
    }

    /// A connection is over, or an HTTP response without a message. Its requests are answered by that, unless they were
    /// already or are sent to another address.
    fn over(&mut self, at: Time, channel: u64, status: u16, answer: &Answer) {
        // Over HTTP+SSE the response follows on another exchange.
        if status == 202 {
            return;
        }
        for (index, id) in self.channels.remove(&channel).unwrap_or_default() {
            if self.in_flight.get(&id) == Some(&index) {
                self.in_flight.remove(&id);
            }
            if (300..400).contains(&status) {
                self.redirects.insert(id, index);
            }
            self.finish(index, at, answer.clone());
        }
    }

    fn finish(&mut self, index: usize, at: Time, answer: Answer) {
        if let Some(draft) = self.all.get_mut(index) {
            draft.recorded.turn.takes = at.since(draft.since);
            draft.recorded.turn.answer = answer;
            if let Some(open) = self.channels.get_mut(&draft.channel) {
                open.remove(&index);
            }
        }
    }
}

/// The subscription that a notification belongs to, as the key of its request.
fn subscription(params: &Value) -> Option<String> {
    params.get("_meta").and_then(|meta| meta.get(SUBSCRIPTION)).map(ToString::to_string)
}
