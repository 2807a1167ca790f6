use std::format;
use std::string::String;
use std::vec::Vec;

/// Events of a stream that are kept; a longer stream cannot be resumed.
pub(super) const EVENTS: usize = 65_536;

/// A stream whose events have ids: the number of the stream and that of the event.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) number: u64,
    /// The data of its events, from number 1 on.
    pub(super) events: Vec<String>,
    /// Its connection broke.
    pub(super) is_broken: bool,
    /// Its last event was sent, or would have been.
    pub(super) is_over: bool,
}

impl Stream {
    pub(super) const fn new(number: u64) -> Self {
        Self { number, events: Vec::new(), is_broken: false, is_over: false }
    }

    pub(super) const fn is_new(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// An event without data, whose id a client resumes from before the first message.
    pub(super) fn first(&self) -> Vec<u8> {
        format!("id: {}-0\ndata:\n\n", self.number).into_bytes()
    }

    /// Adds an event, and returns its id; `None` if there are too many.
    pub(super) fn add(&mut self, data: &str) -> Option<String> {
        if self.events.len() >= EVENTS {
            return None;
        }
        self.events.push(data.into());
        Some(format!("{}-{}", self.number, self.events.len()))
    }

    pub(super) const fn end(&mut self) {
        self.is_over = true;
    }
}
