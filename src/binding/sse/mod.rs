//! Event streams.

mod decoder;
mod line_end;

pub(crate) use decoder::Decoder;
#[cfg(feature = "http")]
pub(super) use decoder::keep;

use core::time::Duration;

/// A piece of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sse<'a> {
    /// An event that has data.
    Event(SseEvent<'a>),
    /// An event with more data than the bound: `data` is the beginning, the rest was left out.
    TooLong(SseEvent<'a>),
    /// `retry`: how long to wait before a connection that was lost is made again.
    Retry(Duration),
}

/// An event of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's type; `message` where it names none.
    pub name: &'a [u8],
    /// Its `data` lines, with a line feed between them; never empty, unless the bound is zero.
    pub data: &'a [u8],
    /// [`SseDecoder::last_id`] as of this event, which need not name one itself.
    pub id: Option<&'a [u8]>,
}

/// Cuts a `text/event-stream`, in chunks of any size, into events (the HTML standard, "Interpreting an event stream";
/// specification 2026-07-28, "Streamable HTTP").
///
/// It holds at most one event of at most `limit` bytes of data; comments and unknown fields take no room. A type or an
/// id has 4 KiB: of a longer type the beginning counts, and a longer id is as an empty one, since a part of it would
/// resume elsewhere.
///
/// An event that the stream's end cuts off is none, as the standard has it; the decoder is dropped with the stream.
/// Apart from the bounds, it differs from the standard in two ways:
///
/// - An event whose `data` is empty is none either, since no message is; servers send them to convey an id.
/// - Bytes that are not UTF-8 stay as they came, and no replacement characters stand in for them: whoever parses the
///   data sees what is wrong with it, and an id goes back as it was given. Where an event ends does not depend on it.
///
/// ```
/// use mcp_proto::binding::{Sse, SseDecoder};
///
/// let mut decoder = SseDecoder::new(1 << 20);
/// let mut messages = Vec::new();
/// for chunk in [&b"id: 7\ndata: {\"jsonrpc\":\r"[..], b"\ndata: \"2.0\"}\n", b"\n: still here\n"] {
///     decoder.feed(chunk, |item| match item {
///         Sse::Event(event) => messages.push(String::from_utf8_lossy(event.data).into_owned()),
///         Sse::TooLong(_) | Sse::Retry(_) => {}
///     });
/// }
/// assert_eq!(messages, ["{\"jsonrpc\":\n\"2.0\"}"]);
/// assert_eq!(decoder.last_id(), Some(&b"7"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct SseDecoder(Decoder);

impl SseDecoder {
    /// A decoder for events of at most `limit` bytes of data.
    pub const fn new(limit: usize) -> Self {
        Self(Decoder::new(limit))
    }

    /// The id that the last event with one named, be it an event without data: what `Last-Event-ID` is to say.
    ///
    /// `None` where the stream named none yet; empty where it took back what it had named.
    pub fn last_id(&self) -> Option<&[u8]> {
        self.0.last_id()
    }

    /// Takes a chunk, and calls `each` with every event that ends in it.
    pub fn feed(&mut self, chunk: &[u8], each: impl FnMut(Sse<'_>)) {
        self.0.feed(chunk, each);
    }
}
