//! The inputs of a fake server, and its outputs.

use std::format;
use std::string::String;
use std::vec::Vec;

use serde_json::Value;

use super::parts::{Channel, FakeServer, What};
use crate::binding::Line;
use crate::testkit::channel::{ChannelId, ServerAction, ServerOutput};
use crate::{ShutdownStep, Time};

/// The connection of [`FakeServer::answer`].
const LOOSE: ChannelId = ChannelId::from_u64(u64::MAX);

impl FakeServer {
    /// A client opens a pipe: a process starts, which has a session of its own.
    pub fn handle_open(&mut self, now: Time, channel: ChannelId) {
        self.advance(now);
        let session = self.state.open_session(None, Some(channel));
        self.state.channels.insert(channel, Channel::new(false, Some(session)));
    }

    /// The client writes to a pipe: a chunk of lines, of any size.
    pub fn handle_bytes(&mut self, now: Time, channel: ChannelId, chunk: &[u8]) {
        self.advance(now);
        let Some(known) = self.state.channels.get_mut(&channel) else { return };
        let mut lines: Vec<Vec<u8>> = Vec::new();
        known.lines.feed(chunk, |line| match line {
            Line::Complete(line) | Line::TooLong(line) => lines.push(line.to_vec()),
        });
        for line in lines {
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) => self.receive(channel, &message),
                Err(error) => {
                    let text = String::from_utf8_lossy(&line).chars().take(100).collect::<String>();
                    self.state.violation(format!("a line that is no message ({error}): {text}"));
                }
            }
        }
    }

    /// The client shuts a pipe down. The process exits at the step that [`exits_at`](Self::exits_at) names, at the
    /// latest when it is killed.
    pub fn handle_shutdown(&mut self, now: Time, channel: ChannelId, step: ShutdownStep) {
        self.advance(now);
        let rank = |step| match step {
            ShutdownStep::CloseInput => 0,
            ShutdownStep::Terminate => 1,
            ShutdownStep::Kill => 2,
        };
        if rank(step) >= rank(self.exits_at) {
            self.now(channel, What::End);
        }
    }

    /// A connection is gone: the pipe broke, or the client dropped the exchange. Nothing more is sent on it. A stream
    /// that can be [resumed](Self::resumes) is kept.
    pub fn handle_closed(&mut self, now: Time, channel: ChannelId) {
        self.advance(now);
        if !self.keep(channel) {
            self.state.close(channel);
        }
    }

    /// The next action that is due.
    #[must_use = "the action has to be executed"]
    pub fn poll(&mut self, now: Time) -> Option<ServerAction> {
        self.advance(now);
        self.work(self.state.now);
        self.state.out.pop_front()
    }

    /// When the next action is due; `None` for never.
    pub fn deadline(&self) -> Option<Time> {
        if self.state.out.is_empty() {
            self.state.jobs.first_key_value().map(|((at, _), _)| *at)
        } else {
            Some(self.state.now)
        }
    }

    /// The server crashes: every connection breaks, and every session is lost. It serves new connections.
    pub fn crash(&mut self, now: Time) {
        self.advance(now);
        self.state.jobs.clear();
        self.state.sessions.clear();
        let channels: Vec<_> = self.state.channels.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.now(channel, What::Break));
    }

    /// The server forgets its sessions over HTTP, and ends their streams. A request of such a session is answered 404.
    pub fn expire(&mut self, now: Time) {
        self.advance(now);
        let (expired, kept): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.state.sessions).into_iter().partition(|(_, session)| session.name.is_some());
        self.state.sessions = kept.into_iter().collect();
        for stream in expired.into_iter().filter_map(|(_, session)| session.stream) {
            self.now(stream, What::End);
        }
    }

    /// The messages that the server sends because of a message, without delay and without a transport. All calls share
    /// one connection, which never breaks.
    pub fn answer(&mut self, message: &Value) -> Vec<Value> {
        if !self.state.channels.contains_key(&LOOSE) {
            self.handle_open(self.state.now, LOOSE);
        }
        self.receive(LOOSE, message);
        self.work_on(LOOSE);
        let out = core::mem::take(&mut self.state.out);
        let (own, others): (Vec<_>, Vec<_>) = out.into_iter().partition(|action| action.channel == LOOSE);
        self.state.out = others.into_iter().collect();
        own.into_iter().filter_map(|action| parsed(&action.output)).collect()
    }

    /// Sets the time of what follows, which never goes back.
    pub(in crate::testkit) fn advance(&mut self, now: Time) {
        self.state.now = self.state.now.max(now);
    }
}

fn parsed(output: &ServerOutput) -> Option<Value> {
    match output {
        ServerOutput::Bytes(bytes) => serde_json::from_slice(bytes).ok(),
        ServerOutput::Head { .. } | ServerOutput::End | ServerOutput::Break => None,
    }
}
