use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::Time;
#[cfg(feature = "snapshot")]
use crate::client::Persist;
use crate::client::{Action, Binding, Client, ConnectionId, Engine, Transport};
use crate::client::{Operate, Wire, poll_pipe};
#[cfg(feature = "snapshot")]
use crate::form::Bytes;
use crate::jsonrpc::{MessageLimits, position};
#[cfg(feature = "snapshot")]
use crate::snapshot::{Secrets, SnapshotError, within};

/// A piece of a newline-delimited stream, in memory of its own if it is a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A complete line, without its line feed.
    Complete(Cow<'a, [u8]>),
    /// The beginning of a line that is longer than the limit, as soon as it is; the rest is dropped.
    TooLong(Cow<'a, [u8]>),
}

/// Splits a stream of bytes, in chunks of any size, into lines (specification 2026-07-28, "stdio").
///
/// It stores at most one line of at most `limit` bytes. A line within one chunk is not copied.
#[derive(Clone, Debug)]
pub struct LineDecoder {
    limit: usize,
    partial: Vec<u8>,
    /// The current line exceeds the limit.
    skipping: bool,
}

/// Bytes of a line that grows in small steps.
const LONG: usize = 1 << 20;

impl LineDecoder {
    /// A decoder for lines of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), skipping: false }
    }

    /// Takes a chunk, and calls `each` with every line that ends in it.
    pub fn feed(&mut self, mut chunk: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(end) = position::<b'\n'>(chunk) {
            let (head, tail) = chunk.split_at(end);
            chunk = tail.get(1..).unwrap_or_default();
            if self.partial.is_empty() && !self.skipping && head.len() <= self.limit {
                each(Line::Complete(Cow::Borrowed(head)));
                continue;
            }
            self.keep(head, &mut each);
            self.end_line(&mut each);
        }
        if !chunk.is_empty() {
            self.keep(chunk, &mut each);
        }
    }

    /// The stream ended: calls `each` with an unfinished line, if there is one.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if !self.partial.is_empty() || self.skipping {
            self.end_line(&mut each);
        }
    }

    fn keep(&mut self, bytes: &[u8], each: &mut impl FnMut(Line<'_>)) {
        if self.skipping {
            return;
        }
        let room = self.limit.saturating_sub(self.partial.len());
        self.skipping = bytes.len() > room;
        let bytes = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        let needed = self.partial.len().saturating_add(bytes.len());
        if needed > self.partial.capacity() {
            // Twice as much each time, up to the limit. A long line, whose last part may be small, an eighth.
            let capacity = self.partial.capacity();
            let more = if capacity < LONG { capacity } else { capacity / 8 };
            let grown = capacity.saturating_add(more).min(self.limit).max(needed);
            self.partial.reserve_exact(grown.saturating_sub(self.partial.len()));
        }
        self.partial.extend_from_slice(bytes);
        if self.skipping {
            each(Line::TooLong(Cow::Owned(core::mem::take(&mut self.partial))));
        }
    }

    fn end_line(&mut self, each: &mut impl FnMut(Line<'_>)) {
        if core::mem::take(&mut self.skipping) {
            return;
        }
        // The memory of a long line is not kept.
        if self.partial.capacity() > 64 << 10 {
            return each(Line::Complete(Cow::Owned(core::mem::take(&mut self.partial))));
        }
        let line = core::mem::take(&mut self.partial);
        each(Line::Complete(Cow::Borrowed(&line)));
        self.partial = line;
        self.partial.clear();
    }
}

/// A newline-delimited stream: stdio, a pipe, a socket.
///
/// Pass bytes to [`handle_bytes`](Client::<Lines>::handle_bytes), and write [`Outgoing::line`](crate::Outgoing::line)
/// of each [`Action::Send`].
#[derive(Clone, Debug)]
pub struct Lines {
    decoder: LineDecoder,
    /// The connection of the decoder's unfinished line.
    connection: Option<ConnectionId>,
}

impl Lines {
    /// Creates the binding.
    pub const fn new() -> Self {
        Self { decoder: LineDecoder::new(0), connection: None }
    }

    /// Drops the unfinished line of an older connection.
    fn follow(&mut self, engine: &Engine) -> Option<ConnectionId> {
        let connection = engine.live_connection();
        if self.connection != connection {
            self.change_connection(connection);
        }
        connection
    }

    #[cold]
    fn change_connection(&mut self, connection: Option<ConnectionId>) {
        self.connection = connection;
        self.decoder = LineDecoder::new(self.decoder.limit);
    }
}

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Client<Lines> {
    /// Takes a chunk, of any size, of the server's output on a connection. Input of an older connection is dropped.
    pub fn handle_bytes(&mut self, now: Time, connection: ConnectionId, chunk: &[u8]) {
        self.begin_input(now);
        let Self { engine, binding } = self;
        if binding.follow(engine) == Some(connection) {
            binding.decoder.feed(chunk, |line| match line {
                Line::Complete(Cow::Borrowed(line)) | Line::TooLong(Cow::Borrowed(line)) => {
                    engine.handle_message(now, line);
                }
                Line::Complete(Cow::Owned(line)) | Line::TooLong(Cow::Owned(line)) => engine.handle_line(now, line),
            });
        }
    }

    /// Takes a report on the transport of a connection. Input of an older connection is dropped.
    pub fn handle_transport(&mut self, now: Time, connection: ConnectionId, event: Transport<'_>) {
        self.begin_input(now);
        let Self { engine, binding } = self;
        if engine.connection() != connection {
            return;
        }
        if let (Transport::Closed { .. }, Some(_)) = (event, binding.follow(engine)) {
            binding.decoder.finish(|line| match line {
                Line::Complete(line) | Line::TooLong(line) => engine.handle_unfinished(now, &line),
            });
        }
        engine.handle_transport(now, event);
        binding.follow(engine);
    }
}

impl Binding for Lines {}

impl Operate for Lines {
    type Action = Action;
    const WIRE: Wire = Wire::Pipe;

    fn attach(&mut self, engine: &mut Engine) {
        // Slightly more than a message may have, so that the engine sees and refuses messages that are too long.
        let limit = engine.options().limits.message.bytes.saturating_add(MessageLimits::SLACK).saturating_add(1);
        self.decoder = LineDecoder::new(limit);
    }

    fn follow_up(&mut self, engine: &mut Engine) {
        self.follow(engine);
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<Action> {
        poll_pipe(engine)
    }
}

/// What is saved of the binding.
#[cfg(feature = "snapshot")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct State {
    connection: Option<ConnectionId>,
    partial: Bytes,
    skipping: bool,
}

#[cfg(feature = "snapshot")]
impl Persist for Lines {
    const KIND: &'static str = "lines";
    type State = State;

    fn forget_secrets(&mut self, _: &mut Engine) {}

    fn state(&self, _: Secrets) -> impl serde::Serialize {
        let LineDecoder { limit: _, partial, skipping } = &self.decoder;
        State { connection: self.connection, partial: Bytes(partial.clone()), skipping: *skipping }
    }

    fn restore(mut self, engine: &mut Engine, state: Self::State) -> Result<Self, SnapshotError> {
        self.attach(engine);
        let State { connection, partial: Bytes(partial), skipping } = state;
        within("message", partial.len(), self.decoder.limit)?;
        let decoder = LineDecoder { limit: self.decoder.limit, partial, skipping };
        Ok(Self { decoder, connection })
    }

    fn lose_transport(&mut self, engine: &mut Engine, _: Secrets) {
        engine.lose_transport();
    }
}
