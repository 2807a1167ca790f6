//! Scripted deviations of a fake server, by request, and what a request causes.

use core::time::Duration;
use serde_json::Value;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;

use super::content::{Ask, object};

/// Which requests a script is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Every request of a method.
    Method(String),
    /// Calls of a tool, by name.
    Tool(String),
    /// Reads of a resource, by URI.
    Resource(String),
    /// Requests for a prompt, by name.
    Prompt(String),
}

impl On {
    /// Every request of this method.
    pub fn method(method: &str) -> Self {
        Self::Method(method.into())
    }

    /// Calls of the tool with this name.
    pub fn tool(name: &str) -> Self {
        Self::Tool(name.into())
    }

    /// Reads of the resource with this URI.
    pub fn resource(uri: &str) -> Self {
        Self::Resource(uri.into())
    }

    /// Requests for the prompt with this name.
    pub fn prompt(name: &str) -> Self {
        Self::Prompt(name.into())
    }

    pub(super) fn matches(&self, method: &str, subject: Option<&str>) -> bool {
        match self {
            Self::Method(known) => known == method,
            Self::Tool(name) => method == "tools/call" && subject == Some(name),
            Self::Resource(uri) => method == "resources/read" && subject == Some(uri),
            Self::Prompt(name) => method == "prompts/get" && subject == Some(name),
        }
    }
}

/// How a fake server responds to one request.
///
/// Where the request *runs*, the server counts it ([`FakeServer::tool_runs`](super::FakeServer::tool_runs)).
/// `FakeAuthorizationServer` says what the replies are there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// It runs, and is answered as it should be.
    Normal,
    /// It runs, and is answered after this time.
    Late(Duration),
    /// It runs, and is not answered.
    Silent,
    /// It runs, and is answered twice.
    Twice,
    /// It runs. This text, which is no message, comes before the answer: a line on a pipe, the data of an event over
    /// HTTP.
    Noise(String),
    /// It runs, and is answered with this result.
    Result(Value),
    /// It runs, and is answered with its result, in which these members are different; `null` leaves one out.
    With(Value),
    /// It does not run, and is answered with this JSON-RPC error.
    Error {
        /// The code.
        code: i64,
        /// The message.
        message: String,
    },
    /// It does not run. Over HTTP it is answered with this status and text, on a pipe with an error with this text.
    Status {
        /// The status.
        status: u16,
        /// The text; of a redirect (3xx) its `Location`.
        text: String,
    },
    /// It runs, and the connection breaks before the answer: on a pipe the process exits, over HTTP the exchange fails.
    Dies,
    /// It runs, and the connection breaks in the middle of the answer.
    Torn,
    /// It does not run: the connection breaks when the request arrives.
    DiesFirst,
}

impl Reply {
    /// A JSON-RPC error with this code and message.
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error { code, message: message.into() }
    }

    /// An HTTP status with this text.
    pub fn status(status: u16, text: &str) -> Self {
        Self::Status { status, text: text.into() }
    }

    /// The result of a request, as this reply has it.
    pub(super) fn revised(&self, normal: Value) -> Value {
        match (self, normal) {
            (Self::Result(result), _) => result.clone(),
            (Self::With(changes), Value::Object(mut members)) => {
                for (name, value) in object(changes.clone()) {
                    if value.is_null() {
                        members.remove(&name);
                    } else {
                        members.insert(name, value);
                    }
                }
                Value::Object(members)
            }
            (_, normal) => normal,
        }
    }
}

/// The scripts of a server.
#[derive(Clone, Debug)]
pub(super) struct Scripts<K> {
    scripts: Vec<(K, VecDeque<Reply>, Option<Reply>)>,
}

impl<K> Default for Scripts<K> {
    fn default() -> Self {
        Self { scripts: Vec::new() }
    }
}

impl<K: PartialEq> Scripts<K> {
    pub(super) fn add(&mut self, on: K, replies: impl IntoIterator<Item = Reply>) {
        self.scripts.retain(|(_, replies, always)| !replies.is_empty() || always.is_some());
        self.scripts.push((on, replies.into_iter().collect(), None));
    }

    pub(super) fn always(&mut self, on: K, reply: Reply) {
        match self.scripts.iter_mut().find(|(known, _, always)| *known == on && always.is_some()) {
            Some((.., always)) => *always = Some(reply),
            None => self.scripts.push((on, VecDeque::new(), Some(reply))),
        }
    }

    /// The next reply to a request that is of these kinds: scripts are used up in the order in which they were added.
    pub(super) fn next_reply(&mut self, is_of: impl Fn(&K) -> bool) -> Option<Reply> {
        let mut scripts = self.scripts.iter_mut().filter(|(on, ..)| is_of(on));
        scripts.find_map(|(_, replies, _)| replies.pop_front())
    }

    /// What is always replied to a request that is of these kinds.
    pub(super) fn default_reply(&self, is_of: impl Fn(&K) -> bool) -> Option<Reply> {
        self.scripts.iter().filter(|(on, ..)| is_of(on)).find_map(|(.., always)| always.clone())
    }

    #[cfg(feature = "oauth")]
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.scripts.iter().map(|(on, ..)| on)
    }
}

/// What a request causes, with times since it came or, if the server asks first, since the client's last answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Turn {
    /// What the server asks before it runs the request.
    pub(super) asks: Vec<Ask>,
    /// Notifications about the request, before its answer.
    pub(super) said: Vec<(Duration, Value)>,
    /// The time until the answer.
    pub(super) takes: Duration,
    pub(super) answer: Answer,
}

impl Turn {
    /// An answer, at once.
    pub(super) fn of(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Answer {
    #[default]
    None,
    /// A result or an error object. Over HTTP, the response has this status if it is not a stream.
    Message { status: u16, outcome: Result<Value, Value> },
    /// An HTTP response without a message.
    Status { status: u16, headers: Vec<(&'static str, String)>, text: String },
    /// The connection breaks.
    Break,
}
