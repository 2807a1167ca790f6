//! Event streams.

mod decoder;
mod event;
mod line_end;

pub(crate) use decoder::Decoder;
#[cfg(feature = "http")]
pub(super) use decoder::keep;
pub use event::{Sse, SseEvent};

/// Splits a `text/event-stream`, in chunks of any size, into events (the HTML standard, "Interpreting an event stream";
/// specification 2026-07-28, "Streamable HTTP").
///
/// It buffers at most one event of at most `limit` bytes of data; comments and unknown fields take no memory. A type or
/// an id has at most 4 KiB: a longer type is truncated, and a longer id counts as an empty one, since a part of it
/// would resume at another event.
///
/// An event that is incomplete at the end of the stream is dropped, as the standard requires; the decoder is dropped
/// with the stream. Apart from the limits, it differs from the standard in two ways:
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

    /// The id of the last event that had one, even without data: the value for `Last-Event-ID`.
    ///
    /// `None` if no event had an id; empty if an event reset it.
    pub fn last_id(&self) -> Option<&[u8]> {
        self.0.last_id()
    }

    /// Takes a chunk, and calls `each` with every event that ends in it.
    pub fn feed(&mut self, chunk: &[u8], each: impl FnMut(Sse<'_>)) {
        self.0.feed(chunk, each);
    }
}
