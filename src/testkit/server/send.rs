//! Turns what a server does into outputs, at the time when it is due.

use core::time::Duration;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use serde_json::Value;

use super::parts::{FakeServer, Job, What};
use super::stream::Stream;
use crate::Time;
use crate::testkit::channel::{ChannelId, ServerAction, ServerOutput};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

impl FakeServer {
    /// Does something on a connection after a time.
    pub(super) fn after(&mut self, time: Duration, channel: ChannelId, of: Option<&Value>, what: What) {
        let key = (self.state.now + time, self.state.next());
        self.state.jobs.insert(key, Job { channel, of: of.cloned(), what });
    }

    /// Does something on a connection at once.
    pub(super) fn now(&mut self, channel: ChannelId, what: What) {
        self.after(Duration::ZERO, channel, None, what);
    }

    /// Sends a message that is no answer.
    pub(super) fn tell(&mut self, channel: ChannelId, message: Value) {
        self.now(channel, What::Message { message, ends: None });
    }

    /// Turns what is due into outputs.
    pub(super) fn work(&mut self, until: Time) {
        while let Some(entry) = self.state.jobs.first_entry() {
            if entry.key().0 > until {
                return;
            }
            let Job { channel, what, .. } = entry.remove();
            self.perform(channel, what);
        }
    }

    /// Turns everything on a connection into outputs, even what is not due.
    pub(super) fn work_on(&mut self, channel: ChannelId) {
        let jobs = core::mem::take(&mut self.state.jobs);
        let (own, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(_, job)| job.channel == channel);
        self.state.jobs = others.into_iter().collect();
        own.into_iter().for_each(|(_, Job { channel, what, .. })| self.perform(channel, what));
    }

    fn perform(&mut self, channel: ChannelId, what: What) {
        let Some(known) = self.state.channels.get(&channel) else { return };
        let is_exchange = known.is_exchange;
        if known.resumable.as_ref().is_some_and(Stream::is_broken) {
            return self.perform_broken(channel, what);
        }
        match what {
            What::Message { message, ends } if is_exchange => {
                if let Some(status) = ends.filter(|status| !(known.streams || *status == 200 && self.answers_by_stream))
                {
                    self.head(channel, status, JSON);
                    self.put(channel, ServerOutput::Bytes(message.to_string().into_bytes()));
                } else {
                    self.event(channel, &message.to_string());
                }
                if ends.is_some() {
                    self.over(channel, ServerOutput::End);
                }
            }
            What::Message { message, .. } => self.put(channel, ServerOutput::Bytes(line(&message.to_string()))),
            What::Torn(message) => {
                let text = message.to_string();
                let half = text.as_bytes().get(..text.len() / 2).unwrap_or_default().to_vec();
                if is_exchange && !known.streams {
                    self.head(channel, 200, JSON);
                }
                self.put(channel, ServerOutput::Bytes(half));
                self.over(channel, ServerOutput::Break);
            }
            What::Noise(text) if is_exchange => self.event(channel, &text),
            What::Noise(text) => self.put(channel, ServerOutput::Bytes(line(&text))),
            What::Status { status, text } if is_exchange && !known.streams => {
                self.head(channel, status, "text/plain");
                if !text.is_empty() {
                    self.put(channel, ServerOutput::Bytes(text.into_bytes()));
                }
                self.over(channel, ServerOutput::End);
            }
            // There is no status in the middle of a stream.
            What::Status { .. } => self.over(channel, ServerOutput::Break),
            What::Stream => self.start_stream(channel),
            What::End => self.over(channel, ServerOutput::End),
            What::Break => self.over(channel, ServerOutput::Break),
        }
    }

    fn start_stream(&mut self, channel: ChannelId) {
        if let Some(known) = self.state.channels.get_mut(&channel)
            && known.is_exchange
            && !core::mem::replace(&mut known.streams, true)
        {
            self.resumable(channel);
            self.stream_head(channel);
        }
    }

    /// Makes the stream of a session one that can be resumed.
    fn resumable(&mut self, channel: ChannelId) {
        let number = self.state.next();
        if let Some(known) = self.state.channels.get_mut(&channel)
            && self.resumes
            && known.session.is_some()
        {
            known.resumable = Some(Stream::new(number));
        }
    }

    /// The head of a stream, and the first id.
    pub(super) fn stream_head(&mut self, channel: ChannelId) {
        self.head(channel, 200, STREAM);
        let stream = self.state.channels.get(&channel).and_then(|known| known.resumable.as_ref());
        if let Some(first) = stream.filter(|stream| stream.is_new()).map(Stream::first) {
            self.put(channel, ServerOutput::Bytes(first));
        }
    }

    /// What would be sent on a stream whose connection broke is kept until it is resumed.
    fn perform_broken(&mut self, channel: ChannelId, what: What) {
        let known = self.state.channels.get_mut(&channel);
        let Some(stream) = known.and_then(|known| known.resumable.as_mut()) else { return };
        match what {
            What::Message { message, ends } => {
                stream.add(&message.to_string());
                if ends.is_some() {
                    stream.end();
                }
            }
            What::Noise(text) => drop(stream.add(&text)),
            What::Stream => {}
            What::Torn(_) | What::Status { .. } | What::End | What::Break => self.state.close(channel),
        }
    }

    /// Sends an event of a stream.
    fn event(&mut self, channel: ChannelId, data: &str) {
        self.start_stream(channel);
        let known = self.state.channels.get_mut(&channel);
        let id = known.and_then(|known| known.resumable.as_mut()).and_then(|stream| stream.add(data));
        self.put_event(channel, id.as_deref(), data);
    }

    pub(super) fn put_event(&mut self, channel: ChannelId, id: Option<&str>, data: &str) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        let lines: String = data.lines().map(|line| format!("data: {line}\n")).collect();
        self.put(channel, ServerOutput::Bytes(format!("{id}event: message\n{lines}\n").into_bytes()));
    }

    fn head(&mut self, channel: ChannelId, status: u16, kind: &str) {
        let mut headers = vec![("content-type", kind.into())];
        if let Some(known) = self.state.channels.get_mut(&channel) {
            headers.append(&mut known.headers);
        }
        self.put(channel, ServerOutput::Head { status, headers });
    }

    pub(super) fn over(&mut self, channel: ChannelId, output: ServerOutput) {
        self.put(channel, output);
        self.state.close(channel);
    }

    fn put(&mut self, channel: ChannelId, output: ServerOutput) {
        self.state.out.push_back(ServerAction { channel, output });
    }
}

fn line(text: &str) -> Vec<u8> {
    let mut line: Vec<u8> = text.bytes().filter(|byte| *byte != b'\n').collect();
    line.push(b'\n');
    line
}
