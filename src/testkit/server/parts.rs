use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::string::String;
use std::vec::Vec;

use serde_json::Value;

#[cfg(feature = "journal")]
use super::playback::Playback;
use super::stream::Stream;
use crate::binding::LineDecoder;
use crate::testkit::channel::{ChannelId, ServerAction};
use crate::testkit::content::{Ask, Content};
use crate::testkit::script::{Reply, Scripts};
use crate::testkit::turn::Turn;
use crate::{ProtocolVersion, ShutdownStep, Time};

/// Messages that are kept in the log, and violations.
const LOG: usize = 65_536;
const VIOLATIONS: usize = 256;
/// Bytes of a line.
const LINE: usize = 64 << 20;

/// The parameters of a request in, its result or its error object out.
pub(super) type Handler = Box<dyn FnMut(&Value) -> Result<Value, Value>>;

/// An MCP server that performs no I/O: requests of a client and the time in, responses out.
///
/// It speaks the versions that it is given, of one era or of both, over pipes and over Streamable HTTP. It offers what
/// it is given, follows the protocol except where a script says otherwise, and counts what it runs. Several connections
/// may be open at once; each has a [`ChannelId`]. Lists, scripts and counts belong to the server, and outlive its
/// connections.
///
/// A [`Sim`](crate::testkit::Sim) drives it together with clients. Without one, [`answer`](Self::answer) gives the
/// responses to a message at once.
pub struct FakeServer {
    pub(super) info: Value,
    pub(super) instructions: Option<String>,
    pub(super) versions: Vec<ProtocolVersion>,
    /// In place of those that the content implies.
    pub(super) capabilities: Option<Value>,
    pub(super) content: Content,
    /// Items per page; 0 for one page.
    pub(super) page_size: usize,
    /// The newest comes first.
    pub(super) handlers: Vec<(String, Handler)>,
    pub(super) scripts: Scripts,
    pub(super) with_sessions: bool,
    pub(super) with_stream: bool,
    pub(super) answers_by_stream: bool,
    pub(super) resumes: bool,
    /// The step of a shutdown at which its processes exit.
    pub(super) exits_at: ShutdownStep,
    #[cfg(feature = "journal")]
    pub(super) playback: Playback,
    pub(super) state: State,
}

/// What changes while the server runs.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) now: Time,
    pub(super) channels: BTreeMap<ChannelId, Channel>,
    pub(super) sessions: BTreeMap<u64, Session>,
    /// The streams of modern clients.
    pub(super) listens: Vec<Listen>,
    /// Calls that wait for the client's answers.
    pub(super) calls: BTreeMap<u64, Call>,
    /// What is due later, in order of time.
    pub(super) jobs: BTreeMap<(Time, u64), Job>,
    pub(super) out: VecDeque<ServerAction>,
    /// Numbers sessions, jobs, questions and events.
    counter: u64,
    /// Executions by method and subject.
    pub(super) runs: BTreeMap<(String, String), usize>,
    pub(super) methods: BTreeMap<String, usize>,
    pub(super) log: VecDeque<Value>,
    pub(super) answers: Vec<Value>,
    pub(super) violations: Vec<String>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) is_exchange: bool,
    pub(super) session: Option<u64>,
    /// What the client writes to a pipe.
    pub(super) lines: LineDecoder,
    /// The head of the response was written: it is a stream.
    pub(super) streams: bool,
    /// Its stream can be resumed.
    pub(super) resumable: Option<Stream>,
    /// Headers of the response.
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Channel {
    pub(super) const fn new(is_exchange: bool, session: Option<u64>) -> Self {
        Self {
            is_exchange,
            session,
            lines: LineDecoder::new(LINE),
            streams: false,
            resumable: None,
            headers: Vec::new(),
        }
    }
}

/// A session of the legacy era.
#[derive(Debug)]
pub(super) struct Session {
    /// Its id over HTTP.
    pub(super) name: Option<String>,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) is_initialized: bool,
    /// Where the server sends what nobody asked for.
    pub(super) stream: Option<ChannelId>,
    pub(super) subscribed: BTreeSet<String>,
    /// Server requests without an answer, each with the call that waits for it.
    pub(super) asks: BTreeMap<u64, Option<u64>>,
    /// The ids of requests.
    pub(super) ids: BTreeSet<String>,
}

/// A stream of `subscriptions/listen`.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) channel: ChannelId,
    pub(super) id: Value,
    /// What the server agreed to announce.
    pub(super) filter: Value,
}

/// A call that waits for answers of the client.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) channel: ChannelId,
    pub(super) session: u64,
    pub(super) message: Value,
    pub(super) reply: Reply,
    /// What a journal has of it.
    pub(super) turn: Option<Turn>,
    pub(super) asks: VecDeque<Ask>,
}

/// What the server does at a time.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) channel: ChannelId,
    /// The request that it is about, which may be cancelled.
    pub(super) of: Option<Value>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// A message.
    Message {
        message: Value,
        /// The status of the HTTP response that it ends.
        ends: Option<u16>,
    },
    /// Half of an answer, and the end of the connection.
    Torn(Value),
    Noise(String),
    /// An HTTP response without a message.
    Status {
        status: u16,
        text: String,
    },
    /// A stream begins.
    Stream,
    End,
    Break,
}

impl State {
    /// The next number.
    pub(super) const fn next(&mut self) -> u64 {
        self.counter = self.counter.saturating_add(1);
        self.counter
    }

    /// Notes a message of the client.
    pub(super) fn note(&mut self, message: &Value) {
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let count = self.methods.entry(method.into()).or_default();
            *count = count.saturating_add(1);
            if self.log.len() >= LOG {
                self.log.pop_front();
            }
            self.log.push_back(message.clone());
        } else if self.answers.len() < LOG {
            self.answers.push(message.clone());
        }
    }

    /// Notes that the client violated the protocol.
    pub(super) fn violation(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS {
            self.violations.push(what);
        }
    }

    /// Counts an execution.
    pub(super) fn ran(&mut self, method: &str, subject: &str) {
        let count = self.runs.entry((method.into(), subject.into())).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn open_session(&mut self, name: Option<String>, stream: Option<ChannelId>) -> u64 {
        let key = self.next();
        self.sessions.insert(
            key,
            Session {
                name,
                version: None,
                is_initialized: false,
                stream,
                subscribed: BTreeSet::new(),
                asks: BTreeMap::new(),
                ids: BTreeSet::new(),
            },
        );
        key
    }

    /// What happens on one connection happens on another from now on.
    #[cfg(feature = "http")]
    pub(super) fn move_to(&mut self, former: ChannelId, channel: ChannelId) {
        let is_former = |known: &&mut ChannelId| **known == former;
        let jobs = self.jobs.values_mut().map(|job| &mut job.channel);
        let calls = self.calls.values_mut().map(|call| &mut call.channel);
        let streams = self.sessions.values_mut().filter_map(|session| session.stream.as_mut());
        jobs.chain(calls).chain(streams).filter(is_former).for_each(|known| *known = channel);
    }

    /// Forgets a connection, and what depends on it. A session over HTTP outlives its connections.
    pub(super) fn close(&mut self, channel: ChannelId) {
        let Some(closed) = self.channels.remove(&channel) else { return };
        self.jobs.retain(|_, job| job.channel != channel);
        self.listens.retain(|listen| listen.channel != channel);
        self.calls.retain(|_, call| call.channel != channel);
        let Some(key) = closed.session else { return };
        if !closed.is_exchange {
            self.sessions.remove(&key);
        } else if let Some(session) = self.sessions.get_mut(&key)
            && session.stream == Some(channel)
        {
            session.stream = None;
        }
    }
}

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers: Vec<_> = self.handlers.iter().map(|(method, _)| method).collect();
        f.debug_struct("FakeServer")
            .field("info", &self.info)
            .field("versions", &self.versions)
            .field("content", &self.content)
            .field("handlers", &handlers)
            .field("scripts", &self.scripts)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
