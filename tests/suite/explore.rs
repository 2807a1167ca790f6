//! Every short sequence of inputs, from clients in several states: exhaustive where the properties in `laws` are
//! random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::{
    Action, Client, Era, Eras, Event, Family, Keepalive, Messages, OpenFailure, Options, Reconnect, Request, RequestId,
    Time, Transport,
};

use crate::common::Deliver;

const STEPS: usize = 4;

/// A client, and its outputs so far.
#[derive(Clone)]
struct Run {
    session: Client<Messages>,
    now: Time,
    /// Requests without a response, with their methods.
    asked: Vec<(u64, String)>,
    ids: BTreeSet<u64>,
    finished: BTreeMap<RequestId, u32>,
    accepted: Vec<RequestId>,
    /// Server requests of this connection without a response.
    owed: BTreeSet<String>,
    /// There is a server request without a response.
    pinged: bool,
    closed: bool,
    done: Vec<Input>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    Opened,
    NotOpened,
    Lost,
    Answer,
    Error,
    Unknown,
    Changed,
    Ping,
    Call,
    Subscribe,
    Refresh,
    Cancel,
    Wait,
    Close,
}

const INPUTS: [Input; 15] = [
    Input::Open,
    Input::Opened,
    Input::NotOpened,
    Input::Lost,
    Input::Answer,
    Input::Error,
    Input::Unknown,
    Input::Changed,
    Input::Ping,
    Input::Call,
    Input::Subscribe,
    Input::Refresh,
    Input::Cancel,
    Input::Wait,
    Input::Close,
];

impl Run {
    fn new(eras: Eras) -> Self {
        let mut options = Options::new("explorer", "1");
        options.eras = eras;
        options.reconnect = Some(Reconnect::default());
        options.keepalive = Some(Keepalive::default());
        Self {
            session: Client::new(Messages::new(), options, 0),
            now: Time::ZERO,
            asked: Vec::new(),
            ids: BTreeSet::new(),
            finished: BTreeMap::new(),
            accepted: Vec::new(),
            owed: BTreeSet::new(),
            pinged: false,
            closed: false,
            done: Vec::new(),
        }
    }

    fn ready(eras: Eras) -> Self {
        let mut run = Self::new(eras);
        run.take(Input::Open);
        run.take(Input::Opened);
        for _ in 0..20 {
            if !run.session.is_ready() {
                run.take(Input::Answer);
            }
        }
        assert!(run.session.is_ready());
        run.asked.clear();
        run
    }

    fn collect(&mut self) {
        let mut polled = 0;
        while let Some(action) = self.session.poll() {
            polled += 1;
            assert!(polled < 1000, "poll never returns None, after {:?}", self.done);
            assert!(!self.closed, "{action:?} after the end, by {:?}", self.done);
            match action {
                Action::Send(message) => {
                    if let (Some(id), Some(method)) = (message.wire_id().map(|id| id.as_u64()), message.method()) {
                        assert!(self.ids.insert(id), "the id {id} twice, by {:?}", self.done);
                        self.asked.push((id, method.into()));
                    } else if message.method().is_none() {
                        let answer: serde_json::Value = serde_json::from_slice(message.bytes()).unwrap();
                        self.owed.remove(&answer["id"].to_string());
                        let once = std::mem::take(&mut self.pinged);
                        assert!(once, "an answer to nothing, by {:?}", self.done);
                    }
                }
                Action::Open(_) => {
                    self.asked.clear();
                    self.owed.clear();
                }
                Action::Event(Event::Finished { request, .. }) => *self.finished.entry(request).or_default() += 1,
                Action::Event(Event::Closed { .. }) => self.closed = true,
                _ => {}
            }
        }
    }

    fn receive(&mut self, message: &str) {
        self.session.deliver(self.now, message.as_bytes());
    }

    fn result(method: &str) -> &'static str {
        match method {
            "initialize" => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#
            }
            "server/discover" => {
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}}"#
            }
            "tools/list" => r#"{"tools":[{"name":"a","inputSchema":{}}]}"#,
            "resources/list" => r#"{"resources":[]}"#,
            "resources/templates/list" => r#"{"resourceTemplates":[]}"#,
            _ => "{}",
        }
    }

    fn take(&mut self, input: Input) {
        self.done.push(input);
        let now = self.now;
        self.pinged = false;
        match input {
            Input::Open => drop(self.session.open(now)),
            Input::Opened => self.session.report(now, Transport::Opened),
            Input::NotOpened => {
                self.session.report(now, Transport::OpenFailed { how: OpenFailure::Connect, why: "no" });
            }
            Input::Lost => self.session.report(now, Transport::Closed { why: "gone" }),
            Input::Answer | Input::Error if !self.asked.is_empty() => {
                let (id, method) = self.asked.remove(0);
                let answer = if input == Input::Answer {
                    format!(r#""result":{}"#, Self::result(&method))
                } else {
                    r#""error":{"code":-32601,"message":"no"}"#.into()
                };
                self.receive(&format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#));
            }
            Input::Answer | Input::Error => {}
            Input::Unknown => self.receive(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Input::Changed => self.receive(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
            Input::Ping => {
                // Required with a legacy server; a modern server has no such requests.
                let legacy = self.session.server().is_some_and(|server| server.era() == Era::Legacy);
                if self.session.is_ready() && legacy {
                    self.owed.insert("\"p\"".into());
                }
                self.pinged = true;
                self.receive(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
            }
            Input::Call => {
                if let Ok(request) = self.session.request(now, Request::call_tool("a", None)) {
                    self.accepted.push(request);
                }
            }
            Input::Subscribe => drop(self.session.subscribe(now, "x://r")),
            Input::Refresh => drop(self.session.refresh(now, Family::Tools)),
            Input::Cancel => {
                if let Some(request) = self.accepted.last() {
                    drop(self.session.cancel(now, *request));
                }
            }
            Input::Wait => {
                if let Some(deadline) = self.session.deadline() {
                    self.now = self.now.max(deadline);
                    self.session.handle_timeout(self.now);
                }
            }
            Input::Close => drop(self.session.close(now)),
        }
        self.collect();
        let finished = self.finished.values().all(|times| *times == 1);
        assert!(finished, "a request ended twice, by {:?}", self.done);
        assert!(self.owed.is_empty(), "a question without its answer, by {:?}", self.done);
        assert!(!self.session.is_ready() || !self.closed);
    }

    /// Closes the client, and checks what is left.
    fn end(mut self) {
        self.take(Input::Close);
        for _ in 0..10 {
            if self.closed {
                break;
            }
            self.now = self.now + Duration::from_secs(3);
            self.session.handle_timeout(self.now);
            self.collect();
            self.session.report(self.now, Transport::Closed { why: "gone" });
            self.collect();
        }
        assert!(self.closed, "no end, by {:?}", self.done);
        let mut accepted = self.accepted.clone();
        accepted.sort_unstable();
        let finished: Vec<_> = self.finished.keys().copied().collect();
        assert_eq!(accepted, finished, "by {:?}", self.done);
        assert_eq!(self.session.deadline(), None);
    }

    fn explore(&self, steps: usize) -> usize {
        self.clone().end();
        if steps == 0 {
            return 1;
        }
        let next = |input: &Input| {
            let mut run = self.clone();
            run.take(*input);
            run.explore(steps - 1)
        };
        1 + INPUTS.iter().map(next).sum::<usize>()
    }
}

#[test]
fn every_short_sequence_has_the_properties() {
    for start in [Run::new(Eras::Auto), Run::ready(Eras::LegacyOnly), Run::ready(Eras::Auto), {
        let mut run = Run::ready(Eras::LegacyOnly);
        run.take(Input::Call);
        run.take(Input::Lost);
        run
    }] {
        assert!(start.explore(STEPS) > INPUTS.len().pow(STEPS as u32));
    }
}
